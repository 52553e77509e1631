"""`rs.convert`: converts tensors in files to other layouts and types, in bounded memory, atomically."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ..desc.parse import check_function, parse_bool, parse_int, short_repr
from ..errors import Error, InvalidArguments, raises_at_the_call, refuse
from ..runtime.cpu.thread_pool import get_num_threads
from .conversion.plan import Conversion, check_scaled, plan_conversion
from .conversion.reals import place_of
from .conversion.report import ConversionProgress, ConversionReport, report_of
from .conversion.rules import parse_rules
from .conversion.sources import ConversionSource, open_source
from .conversion.steps import ConversionStep, QuantizeStep, read_box
from .conversion.targets import MisfitTensor, check_fallback
from .conversion.tile_threads import TileProgress, do_tiles
from .conversion.tiles import parse_memory
from .conversion.time_estimate import SamplePlaces, expected_seconds
from .conversion.value_errors import EXACT, ValueErrors
from .formats.npy import NpyOverride, npy_image
from .places import Checksum, SummedPlace, TensorPlace, Workspace
from .plain_file import path_text
from .writing.draft import AtomicOutput, check_place, room_for
from .writing.replacement import shown

__all__ = ["convert"]

# Memory of a process that has loaded the compiler: not available to tiles.
_PROCESS_BYTES = 256 << 20
_LEAST_MEMORY = 96 << 20
_MOST_JOBS = 256
_MOST_NAMED = 20
_PASS_TEXT = 'rs.convert("a.safetensors", "b.safetensors", rules)'


@raises_at_the_call
def convert(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    rules: Sequence[Any] = (),
    *,
    memory: str | int = "1GiB",
    dry_run: bool = False,
    resume: bool = False,
    verify: bool = False,
    jobs: int | None = None,
    progress: Callable[[ConversionProgress], None] | None = None,
    follow_links: bool = False,
    fallback: str | None = None,
) -> ConversionReport:
    """Convert tensors in files to other layouts and types by rules; the first rule matching a name applies.

    src     a .npy, .npz, .safetensors or .gguf file, Zarr arrays, a folder of files such as a sharded
            checkpoint, or its index
    dst     the file or folder to write; a file's suffix selects its format
    rules   texts such as `"*.weight=OIhw4i16o4i,s8,axis=0,scale=absmax"`, or tuples of their parts; tensors
            without a matching rule are copied byte for byte. `scale`: a factor, "absmax", or "minmax" for
            ranges with a zero point; scales are found for the tensor, each index of `axis`, or each `group`
            of that many elements along it, and are written as `NAME_scale` and `NAME_zero_point`. Floats
            become integers, or 4-bit floats, only with a scale
    memory  memory limit of the conversion, whatever the size of the files: bytes, or text such as "512MiB";
            at least 96 MiB
    dry_run   only report what would be done
    resume    continue an interrupted run, and keep finished work if this one fails
    verify    read back the output and compare: moves must be exact, and no value may deviate from the
            source's by more than its format allows. The report has the largest and the mean error of each
            tensor
    jobs      number of tiles processed at the same time; by default the number of threads
    progress  a function called with a `ConversionProgress` several times a second, by this thread
    follow_links  follow links that lead out of a folder
    fallback  type of tensors whose shapes do not match their rules, for example rows of 688 elements in
            blocks of 256: "q8_0", a type of .gguf files, if rows are whole blocks of 32, or "keep". Without
            it, all such tensors are listed in an error, or in the report of a dry run

    The result gets its name when it is complete and on disk, in one step; until then an existing file stays.
    It is then replaced, as by `rs.save`: only the command requires --force. A folder must be empty. The
    `config.json` of a model in it describes its AWQ or GPTQ layers, and makes transformers and vLLM refuse
    the folder if only restride reads some of the weights.

    Raises InvalidArguments for damaged files and rules that do not match, RuntimeFailure if the system
    refuses access or the source changes meanwhile, OutOfMemory if `memory` does not suffice.

    >>> import numpy as np, restride as rs, tempfile, os
    >>> folder = tempfile.mkdtemp()
    >>> src, dst = (os.path.join(folder, name) for name in ("a.safetensors", "b.safetensors"))
    >>> rs.save({"conv.weight": np.ones((32, 16, 3, 3), "f4"), "conv.bias": np.ones(32, "f4")}, src)
    >>> report = rs.convert(src, dst, ["*.weight=OIhw4i16o4i,s8,axis=0,scale=absmax"])
    >>> [(tensor.name, tensor.target) for tensor in report.tensors]
    [('conv.weight', 's8 32x16x3x3 ABcd4b16a4b'), ('conv.bias', 'F32 (32,)')]
    >>> rs.load(dst)["conv.weight_scale"].desc.dims
    (32,)
    """
    options = ConversionOptions(
        memory,
        parse_bool("convert: dry_run", dry_run),
        parse_bool("convert: resume", resume),
        parse_bool("convert: verify", verify),
        jobs,
        progress,
        parse_bool("convert: follow_links", follow_links),
        fallback=check_fallback(fallback),
    )
    source, target = path_text(src, "convert: src", _PASS_TEXT), path_text(dst, "convert: dst", _PASS_TEXT)
    return run_conversion(source, target, rules, options)


class ConversionOptions(NamedTuple):
    """The options of `convert`. With an `override` both files are .npy, and it describes the source as far as
    the file cannot.
    """

    memory: str | int = "1GiB"
    dry_run: bool = False
    resume: bool = False
    verify: bool = False
    jobs: int | None = None
    progress: Callable[[ConversionProgress], None] | None = None
    follow_links: bool = False
    override: NpyOverride | None = None
    fallback: str | None = None


def run_conversion(src: str, dst: str, rules: Sequence[Any], options: ConversionOptions) -> ConversionReport:
    """Run a conversion with these options, as `convert` does."""
    check_function("convert: progress", options.progress)
    checked = parse_rules(rules)
    workers = _jobs(options.jobs)
    memory = parse_memory(options.memory, "convert: memory")
    most = _tile_memory(memory, workers)
    started = time.perf_counter()
    spare, override = os.path.dirname(os.path.abspath(dst)), options.override
    source = open_source(src, override, follow_links=options.follow_links, spare=spare)
    try:
        if os.path.isdir(source.path):
            source_path, target_path = os.path.realpath(source.path), os.path.realpath(dst)
            if os.path.commonpath((source_path, target_path)) in (source_path, target_path):
                raise refuse("RS-F08:two-inside-other", dst=shown(dst), path=shown(source.path))
        make = None if override is None else npy_image
        work = plan_conversion(source, dst, checked, most, make, options.fallback)
        if override is None:
            for placed in work.steps:
                check_scaled(placed.step)
        if options.dry_run:
            check_place(dst, is_folder=work.is_folder)
            expected, room = _expected_seconds(source, work, dst, workers, options.verify), room_for(dst)
            shortfall = 0 if room is None else max(work.nbytes_written - room, 0)
            report = report_of(work, source, checked, workers, {})
            return replace(report, expected_seconds=expected, shortfall=shortfall)
        if work.misfits and options.fallback is None:
            raise _misfit(work.misfits)
        draft = AtomicOutput(dst, is_folder=work.is_folder)
        try:
            earlier, room = draft.earlier_tile_bytes, _tile_memory(memory, 1)
            if options.resume and earlier not in (0, most) and earlier <= room:
                # The tiles stay what they were, with as many jobs as the memory has room for.
                workers = min(workers, room // earlier)
                work = plan_conversion(source, dst, checked, earlier, make, options.fallback)
            first = min(draft.open(work.files, work.origin, resume=options.resume), work.tiles)
            run = _Run(source, work, draft.place, options.progress, started)
            if first:
                unlike: list[int] = []
                compare = partial(run.compare_sum, draft.sums, unlike)
                do_tiles(first, 0, workers, compare, None, run.watcher("checking", 0))
                first = min(unlike, default=first)
            sums = run.sum_up() if options.resume else None
            note = draft.note if sums is None else partial(_note_sums, draft, sums)
            do_tiles(work.tiles, first, workers, run.tile, note, run.watcher("converting", first))
            draft.complete()
            _check_unchanged(source)
            if options.verify:
                draft.forget_cached()
                do_tiles(work.tiles, 0, workers, run.check, None, run.watcher("verifying", 0))
                run.judge()
            draft.publish()
        except BaseException as error:
            draft.abandon(keep=options.resume and not _is_spoilt(error, source))
            raise
        return replace(
            report_of(work, source, checked, workers, run.errors),
            seconds=time.perf_counter() - started,
            resumed_at=work.weight_before(first),
            verified=work.nbytes_read if options.verify else 0,
        )
    finally:
        source.close()


class _Run:
    """A running conversion."""

    def __init__(
        self,
        source: ConversionSource,
        work: Conversion,
        place: Callable[[int, int], TensorPlace],
        progress: Callable[[ConversionProgress], None] | None = None,
        started: float = 0.0,
    ) -> None:
        self._source, self._work, self._place = source, work, place
        self._progress, self._started = progress, started
        self._sums: dict[int, int] | None = None
        self._lock, self._compared = threading.Lock(), [ValueErrors()] * len(work.steps)
        self.errors: dict[int, tuple[float, float]] = {}

    def tile(self, number: int, space: Workspace) -> int:
        """Do a tile; return its weight."""
        step, tile, source, targets = self._placed(number)
        if self._sums is None:
            step.run(tile, source, targets, space)
        else:
            checksum = Checksum()
            step.run(tile, source, [SummedPlace(place, checksum) for place in targets], space)
            self._sums[number] = checksum.value
        return step.weight(tile)

    def sum_up(self) -> dict[int, int]:
        """Compute checksums of what tiles write from now on; return them by tile number."""
        self._sums = {}
        return self._sums

    def compare_sum(self, sums: Mapping[int, int], unlike: list[int], number: int, space: Workspace) -> int:
        """Add a tile to `unlike` if its output has changed since it was written; return its weight."""
        step, tile, _, targets = self._placed(number)
        checksum = Checksum()
        for result, desc, start, size in step.boxes(tile):
            read_box(SummedPlace(targets[result], checksum), desc, start, size, space, "written")
        if sums.get(number) != checksum.value:
            unlike.append(number)
        return step.weight(tile)

    def compare(self, number: int, space: Workspace) -> ValueErrors:
        """Compare a tile with its output."""
        step, tile, source, targets = self._placed(number)
        return step.check(tile, source, targets, space)

    def check(self, number: int, space: Workspace) -> int:
        """Do the same, but raise for a difference; return the tile's weight."""
        errors, (at, tile) = self.compare(number, space), self._work.at(number)
        step = self._work.steps[at].step
        if not errors.is_right:
            _check_unchanged(self._source)
            raise _unlike(
                step,
                "the output differs from the converted source, or a value exceeds the range of its type",
                "choose another scale or type; if they are right, test disk and memory",
            )
        with self._lock:
            self._compared[at] += errors
        return step.weight(tile)

    def judge(self) -> None:
        """Raise RuntimeFailure for a tensor whose error exceeds the bound of its format."""
        for at, (placed, errors) in enumerate(zip(self._work.steps, self._compared, strict=True)):
            tolerance = placed.step.tolerance
            if tolerance is None:
                continue
            self.errors[at] = largest, mean = tolerance.relative(errors)
            if errors.vanished:
                raise _unlike(
                    placed.step,
                    f"{errors.vanished} NaN or infinite values of the source have become others",
                    "replace them in the source, or choose a type that has them, such as bf16",
                )
            if tolerance is EXACT and errors.largest:
                raise _unlike(
                    placed.step,
                    f"integers of the source have changed, by up to {errors.largest:.9g}",
                    "keep them, or choose a type that has them, such as f64",
                )
            if tolerance.is_exceeded(errors):
                raise _unlike(
                    placed.step,
                    f"its largest error is {largest:.3g} of the range of the values that share a scale, the "
                    f"mean {mean:.3g}: the format allows {tolerance.bound:.3g}, and half of all values",
                    "scale=absmax finds a suitable scale; group scales may need a wider scale_type",
                )

    def watcher(self, stage: str, first: int) -> Callable[[TileProgress], None] | None:
        """Return a function for `do_tiles` that passes progress to the caller's."""
        report = self._progress
        if report is None:
            return None
        before, total = self._work.weight_before(first), self._work.nbytes_read

        def watch(tally: TileProgress) -> None:
            done = min(before + tally.weight, total)
            at = min(tally.tile, self._work.tiles - 1)
            name = self._work.steps[self._work.at(at)[0]].step.source.array.name if self._work.tiles else ""
            report(ConversionProgress(stage, done, total, time.perf_counter() - self._started, name))

        return watch

    def _placed(self, number: int) -> tuple[ConversionStep, int, TensorPlace, list[TensorPlace]]:
        """Return a tile's step, its number there, and the places for reading and writing."""
        at, tile = self._work.at(number)
        placed = self._work.steps[at]
        read = place_of(self._source.files[placed.source], placed.step.source)
        return placed.step, tile, read, [self._place(file, start) for file, start in placed.targets]


def _expected_seconds(
    source: ConversionSource, work: Conversion, dst: str, jobs: int, verify: bool
) -> float | None:
    """Estimate the seconds of the work; None if no sample can be written at the destination."""
    try:
        places = SamplePlaces(dst)
    except OSError:
        return None
    try:
        # A sample tile uses its own range as that of the whole tensor.
        steps = tuple(
            replace(placed, step=replace(placed.step, value_range=None))
            if isinstance(placed.step, QuantizeStep)
            else placed
            for placed in work.steps
        )
        run = _Run(source, replace(work, steps=steps), places.place)
        return expected_seconds(work, jobs, run.tile, run.compare if verify else None, places)
    finally:
        places.close()


def _check_unchanged(source: ConversionSource) -> None:
    path = source.changed()
    if path is not None:
        raise refuse("RS-F08:source-changed", path=shown(path))


def _note_sums(draft: AtomicOutput, sums: dict[int, int], done: int, safe: bool) -> None:
    """Record how many tiles are done, and the checksums of those not recorded yet."""
    first = min(sums, default=done)
    draft.note(done, safe, first, [sums.pop(tile) for tile in range(first, done)])


def _unlike(step: ConversionStep, why: str, hint: str) -> Error:
    """Return the error for a tensor with wrong output."""
    return refuse("RS-F09", name=step.source.array.name[:120], rule=step.rule, why=why, hint=hint)


def _misfit(misfits: Sequence[MisfitTensor]) -> Error:
    """Return the error for all tensors whose shapes do not match their rules."""
    more = f"; and {len(misfits) - _MOST_NAMED} more" if len(misfits) > _MOST_NAMED else ""
    tensors, rule = "; ".join(map(str, misfits[:_MOST_NAMED])) + more, misfits[0].rule
    return refuse("RS-F07:shapes-not-fit", count=len(misfits), rule=rule, tensors=tensors)


def _is_spoilt(error: BaseException, source: ConversionSource) -> bool:
    """Return True if finished work is worthless: the source or the output is wrong."""
    codes = ("RS-F08", "RS-F09")
    if getattr(error, "code", "") in codes:
        return not isinstance(error, InvalidArguments)
    with suppress(Exception):
        return source.changed() is not None
    return True


def _tile_memory(memory: int, jobs: int) -> int:
    """Return the memory limit of a tile: each job takes about three times as much."""
    if memory < _LEAST_MEMORY:
        raise refuse("RS-V08:less-mib-not", memory=memory, least_memory=_LEAST_MEMORY >> 20)
    return max(memory - _PROCESS_BYTES, memory // 4) // (3 * jobs)


def _jobs(jobs: object) -> int:
    if jobs is None:
        return min(get_num_threads(), _MOST_JOBS)
    count = parse_int(jobs, "convert: jobs")
    if 1 <= count <= _MOST_JOBS:
        return count
    raise refuse("RS-V08:jobs", found=short_repr(count), most_jobs=_MOST_JOBS)
