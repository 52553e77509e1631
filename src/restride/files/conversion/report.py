"""Progress of a conversion, and the report of the outcome for each tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..stored_tensors import FileImage
from .layers import ENDS, is_config, is_marked
from .plan import Conversion
from .rules import ConversionRule, rule_for
from .sources import ConversionSource
from .targets import MisfitTensor


@dataclass(frozen=True, slots=True)
class ConversionProgress:
    """The progress of a conversion: source bytes that are done, total bytes, and the current tensor."""

    stage: str
    done: int
    total: int
    seconds: float
    name: str


@dataclass(frozen=True, slots=True)
class ConvertedTensor:
    """The outcome for a tensor: the matching rule, or "" for a copy; its form before and after, and the
    sizes.

    `largest_error`, `mean_error`: deviation of its values from the source's, if verified; None if they are
    the same. Relative to the range of the values that share a scale: their largest magnitude, or with
    "minmax" from the smallest to the largest.
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
    """The work done, or with `dry_run` planned: tensors, bytes of files, and the memory for tiles.

    `seconds`: elapsed time; None for a dry run. `expected_seconds`: for a dry run, the estimated time from a
    few sample tiles; None if no sample could be taken. `resumed_at`: bytes of the source that an earlier run
    had done. `verified`: bytes of the source that were compared with the output. `shortfall`: for a dry run,
    the bytes of disk space that are missing at the destination; 0 if there is enough. `unused_rules`: rules
    that were not the first match for any tensor: misspelled, or after another rule that matches.
    `lost_metadata`: keys of the source's metadata that `.npy` and `.npz` files cannot store. `misfits`:
    tensors that got the fallback, or would be rejected without one, because their shapes do not match their
    rules. `is_model`: False for a .gguf file of tensors alone, without "general.architecture": no program
    runs it. `left`: tensors that globs match and do not convert, such as norms and embeddings: a rule with
    the exact name does. `marked`: configurations of models that now make other programs refuse the folder,
    because only restride reads some of its weights.
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
    left: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()


def report_of(
    work: Conversion,
    source: ConversionSource,
    rules: Sequence[ConversionRule],
    jobs: int,
    errors: Mapping[int, tuple[float, float]],
) -> ConversionReport:
    """Return the report of a conversion, without times; `errors`: the largest and the mean error, by step."""
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
    misfits, left = {misfit.name for misfit in work.misfits}, []
    packed = {tensor.name for tensor in tensors if tensor.name.endswith(ENDS["values"])}
    for tensor in tensors:
        if tensor.name.rpartition(".")[0] + ENDS["values"] in packed - {tensor.name}:
            continue  # a part of a layer
        matching = None if tensor.rule or tensor.name in misfits else rule_for(tensor.name, rules)
        if matching is not None and not matching.is_copy and tensor.source == tensor.target:
            left.append(tensor.name)
            used.add(str(matching))
    return ConversionReport(
        tuple(tensors),
        work.nbytes_read,
        work.nbytes_written,
        2 * jobs * work.tile_bytes,
        seconds=None,
        unused_rules=tuple(str(rule) for rule in rules if str(rule) not in used),
        lost_metadata=work.lost_metadata,
        misfits=work.misfits,
        left=tuple(left),
        marked=tuple(
            file.name
            for file in work.files
            if is_config(file.name)
            and isinstance(file.image, FileImage)
            and any(is_marked(piece) for _, piece in file.image.pieces)
        ),
        is_model=not is_gguf or any("general.architecture" in words for words in metadata),
    )
