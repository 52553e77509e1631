"""Progress of a conversion, and the report of what became of each tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .plan import Conversion
from .rules import ConversionRule
from .sources import ConversionSource
from .targets import MisfitTensor


@dataclass(frozen=True, slots=True)
class ConversionProgress:
    """The progress of a conversion: bytes of the source that are done, of all, and the tensor at work."""

    stage: str
    done: int
    total: int
    seconds: float
    name: str


@dataclass(frozen=True, slots=True)
class ConvertedTensor:
    """The outcome for a tensor: the rule that fits, or "" for a copy; what it was and is, and their bytes.

    `largest_error`, `mean_error`: how far its values are from the source's, where that was verified, and None
    where they are the same; relative to the range of the values that share a scale: their largest magnitude,
    or with "minmax" from the smallest to the largest.
    """

    name: str
    rule: str
    source: str
    target: str
    nbytes_read: int
    nbytes_written: int
    file: str
    largest_error: float | None = None
    mean_error: float | None = None


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """All that was done, or with `dry_run` would be: tensors, bytes of files, and the memory for tiles.

    `seconds`: the time it took; of a dry run None. `expected_seconds`: of a dry run, the time it would take,
    from some tiles that were tried; None where nothing could be tried. `resumed_at`: bytes of the source that
    an earlier run had done. `verified`: bytes of the source that were compared with what was written.
    `shortfall`: of a dry run, the bytes that are missing where the result goes; 0 where there is room.
    `unused_rules`: those that are the first to fit for no tensor: misspelt, or behind one that fits as well.
    `lost_metadata`: keys of the source's metadata that `.npy` and `.npz` files have no place for.
    `misfits`: tensors that are the fallback, or in a dry run without one would be refused, as their shapes do
    not fit their rules.
    `is_model`: False for a .gguf file of tensors alone: without "general.architecture" no program runs it.
    """

    tensors: tuple[ConvertedTensor, ...]
    nbytes_read: int
    nbytes_written: int
    tile_memory: int
    seconds: float | None
    resumed_at: int = 0
    verified: int = 0
    expected_seconds: float | None = None
    shortfall: int = 0
    unused_rules: tuple[str, ...] = ()
    lost_metadata: tuple[str, ...] = ()
    misfits: tuple[MisfitTensor, ...] = ()
    is_model: bool = True


def report_of(
    work: Conversion,
    source: ConversionSource,
    rules: Sequence[ConversionRule],
    jobs: int,
    errors: Mapping[int, tuple[float, float]],
) -> ConversionReport:
    """The report of a conversion, without its times; `errors`: the largest and the mean one, by the step."""
    tensors = []
    for number, placed in enumerate(work.steps):
        if source.files[placed.source].contents is None:  # a file without tensors, which is copied
            continue
        array, result = placed.step.source.stored_array, placed.step.results[0]
        is_copy = placed.step.rule is None
        was, now = (
            f"{one.kind.word} {one.shape}" if one.desc is None or is_copy else str(one.desc)
            for one in (array, result)
        )
        nbytes = sum(one.nbytes for one in placed.step.results)
        file, off = source.files[placed.source].name, errors.get(number, (None, None))
        rule = "" if placed.step.rule is None else str(placed.step.rule)
        name, nbytes_read = placed.step.source.array.name, placed.step.source.array.nbytes
        tensors.append(ConvertedTensor(name, rule, was, now, nbytes_read, nbytes, file, *off))
    metadata = [read.contents.metadata for read in source.files if read.contents is not None]
    is_gguf = any(file.name.lower().endswith(".gguf") for file in work.files)
    used = {str(placed.step.rule) for placed in work.steps} | {misfit.rule for misfit in work.misfits}
    return ConversionReport(
        tuple(tensors),
        work.nbytes_read,
        work.nbytes_written,
        2 * jobs * work.tile_bytes,
        seconds=None,
        unused_rules=tuple(str(rule) for rule in rules if str(rule) not in used),
        lost_metadata=work.lost_metadata,
        misfits=work.misfits,
        is_model=not is_gguf or any("general.architecture" in words for words in metadata),
    )
