"""Convert tensors in files to other layouts and types by rules, in bounded memory. Each file appears whole or
not at all.

  restride convert model.safetensors out.safetensors --rule '*.weight=OIhw4i16o4i,s8,axis=0,scale=absmax'
  restride convert checkpoint/ packed/ --rule '*_proj.weight=ba,s8,group=32,scale=absmax' --verify
  restride convert weights.npz weights.safetensors --rule '*=bf16' --dry-run
  restride convert awq.safetensors model.gguf --rule '*.weight=q4_k' --fallback q8_0

SRC is a .npy, .npz, .safetensors or .gguf file, Zarr arrays, a folder of files (a sharded checkpoint),
or the index of such a checkpoint. The suffix of DST selects the format to write, .zarr too; a folder
becomes a folder. The first rule whose glob matches a tensor's name applies; a tensor that no rule matches
is copied byte for byte. A rule names a format, a type, or both, and how to scale:

  scale=0.5        multiply by a number        scale=absmax   find symmetric scales from the data
  zero_point=3     then add it                 scale=minmax   find scales and zero points
  axis=0           a scale for each index      group=32       a scale for 32 elements of an axis
  mxfp4            in groups, like MXFP4       scale_type=f16 the type of the scales of groups
  q4_k             in blocks of ggml, for .gguf files: mxfp4, q4_0 to q8_0, iq4_nl, q2_k to q6_k, q8_k
  awq, gptq        as layers of checkpoints: X.qweight, X.qzeros, X.scales, with config.json in folders
  marlin           in the layout of that format, for other files: torchao_int4_cpu, fp8_blocks, mxfp8, nvfp4

Tensors that are quantized (in blocks of ggml, with separate scales, or in AWQ and GPTQ checkpoints) are
converted by their values if a rule names a type. Tensors whose shapes do not fit their rules, such as rows
of 688 in blocks of 256, are all listed before anything is written, with types that fit; --fallback converts
them to such a type.
Scales outside blocks are written as separate tensors, NAME_scale and NAME_zero_point. restride reads layouts
and scales back from the file's metadata; all other programs read the physical arrays, and the config.json of
a model then makes transformers and vLLM refuse the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Self

from ..files.conversion.report import ConversionProgress, ConversionReport, ConvertedTensor
from ..files.conversion.rules import parse_rules
from ..files.conversion.targets import FALLBACKS
from ..files.conversion.tiles import parse_memory
from ..files.convert import ConversionOptions, run_conversion
from ..files.tensor_file import FILE_ENDS, image_maker, is_file_name
from ..files.writing.replacement import shown
from ..view.names import aligned, counted
from ..view.units import data_size, duration
from .named_files import add_force, check_no_pipe, check_output
from .output import CommandResult, print_stderr
from .progress import Progress
from .usage import Parser, checked, typed

_MOST_ROWS = 40
_MOST_KEYS = 8
# The time between two lines of progress.
_LOG_S = 60.0
_JSON_S = 1.0


def add_arguments(parser: Parser) -> None:
    """Add SRC, DST, rules and options."""
    add = parser.add_argument
    add("source", metavar="SRC", help="a file of tensors, or a folder of them")
    add("target", metavar="DST", help="the file or folder to write")
    add("--rule", action="append", default=[], metavar="RULE", help="GLOB=FORMAT,TYPE,...; may be repeated")
    add(
        "--memory",
        type=checked(lambda text: parse_memory(text, "convert: memory")),
        default="1GiB",
        metavar="SIZE",
        help="memory limit of the tiles, such as 512MiB; default 1GiB, at least 96MiB",
    )
    add("--dry-run", action="store_true", help="only print the plan")
    add(
        "--resume",
        action="store_true",
        help="resume an interrupted conversion; keep finished parts if this one fails",
    )
    add("--verify", action="store_true", help="read back and compare before DST gets its name")
    add_force(parser)
    add("--jobs", type=_jobs, metavar="N", help="parallel tiles; default: the number of threads")
    add(
        "--fallback",
        choices=FALLBACKS,
        help="type of tensors whose shapes do not fit their rules; default: list them and stop",
    )
    add("--follow-links", action="store_true", help="follow links out of the folder")


def run(options: argparse.Namespace) -> CommandResult:
    """Convert, and report the result for each tensor."""
    rules = typed(parse_rules, options.rule)
    check_no_pipe("restride convert", options.source, options.target)
    if os.path.isfile(options.source) and not is_file_name(options.target):
        typed(image_maker, options.target)
    if not options.dry_run and os.path.isfile(options.target):
        check_output("restride convert", options.target, FILE_ENDS, options.force)
    # A folder can contain thousands of files.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with Watcher(options.json) as watcher:
        words = ConversionOptions(
            options.memory,
            options.dry_run,
            options.resume,
            options.verify,
            options.jobs,
            watcher.report,
            options.follow_links,
            fallback=options.fallback,
        )
        report = run_conversion(options.source, options.target, rules, words)
    for rule in () if options.json else report.unused_rules:
        print_stderr(f"warning: the rule {rule} matches no tensor, or only those of earlier rules")
    for name in () if options.json else report.marked:
        print_stderr(
            f"warning: only restride reads some of these weights; {shown(name)} makes transformers and vLLM "
            "refuse them"
        )
    values = {"source": options.source, "target": options.target, "dry_run": options.dry_run}
    values |= asdict(report)
    lacks = bool(report.misfits) and options.fallback is None
    status = 1 if report.shortfall or lacks else 0
    return CommandResult("\n".join(_lines(options, report)), values, status)


def _lines(options: argparse.Namespace, report: ConversionReport) -> Sequence[str]:
    copied = sum(not tensor.rule for tensor in report.tensors)
    rows = [_row(tensor, options.dry_run) for tensor in report.tensors if tensor.rule or options.dry_run]
    lines = aligned(rows[:_MOST_ROWS], "<<<<") if rows else []
    if len(rows) > _MOST_ROWS:
        more = counted(len(rows) - _MOST_ROWS, "tensor")
        lines = [*lines, f"and {more} more{'' if options.dry_run else ' by rules'}: --json lists all"]
    if copied:
        lines = [*lines, f"{counted(copied, 'tensor')} copied byte for byte"]
    if report.left:
        names = _some(report.left)
        lines = [*lines, f"left as they are, unless a rule has the exact name: {names}"]
    lines = [*lines, *_misfits(options, report)]
    if report.lost_metadata:
        lines = [*lines, f"metadata that the file cannot store: {_some(report.lost_metadata)}"]
    if not report.is_model:
        words = "contains only tensors: llama.cpp also needs an architecture, a tokenizer and its own names"
        lines = [*lines, f"{shown(options.target)} {words}"]
    sizes = f"{data_size(report.nbytes_read)} -> {data_size(report.nbytes_written)}"
    if report.seconds is None:
        return [*lines, *_forecast(options, report, sizes)]
    words = f"{shown(options.target)}: {sizes} in {duration(report.seconds)}"
    words += f", resumed at {data_size(report.resumed_at)}" if report.resumed_at else ""
    words += f", {data_size(report.verified)} verified" if report.verified else ""
    return [*lines, words]


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_KEYS
    return ", ".join(map(shown, names[:_MOST_KEYS])) + (f" and {rest} more" if rest > 0 else "")


def _misfits(options: argparse.Namespace, report: ConversionReport) -> Sequence[str]:
    """Return lines for tensors whose shapes do not match their rules."""
    misfits = report.misfits
    if not misfits:
        return ()
    lines = [f"{misfit.rule} does not fit {misfit}" for misfit in misfits[:_MOST_ROWS]]
    if len(misfits) > _MOST_ROWS:
        lines = [*lines, f"and {counted(len(misfits) - _MOST_ROWS, 'tensor')} more: --json lists all"]
    if options.fallback is None:
        lines = [*lines, f"put rules that fit before it, or pass --fallback {' or '.join(FALLBACKS)}"]
    return lines


def _forecast(options: argparse.Namespace, report: ConversionReport, sizes: str) -> Sequence[str]:
    """Return the last lines of a dry run."""
    memory = data_size(report.tile_memory)
    took = "" if report.expected_seconds is None else f" about {duration(report.expected_seconds)},"
    words = f"dry run: {sizes},{took} tiles of at most {memory}; nothing was written"
    if not report.shortfall:
        return [words]
    lack = f"not enough space for {shown(options.target)}: {data_size(report.shortfall)} more are needed"
    return [words, lack]


def _row(tensor: ConvertedTensor, has_rule: bool) -> tuple[str, ...]:
    sizes = f"{data_size(tensor.nbytes_read)} -> {data_size(tensor.nbytes_written)}"
    row = shown(tensor.name), f"{tensor.source} -> {tensor.target}", sizes
    if has_rule:
        return (*row, tensor.rule or "copied")
    largest, mean = tensor.largest_error, tensor.mean_error
    is_off = largest is not None
    return (*row, f"largest error {largest:.2%} of the range, mean {mean:.3%}" if is_off else "")


def _jobs(text: str) -> int:
    if text.isdecimal() and text.isascii() and len(text) < 6:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a number of threads")


class Watcher:
    """Writes the progress of a conversion to stderr: one line on a terminal, a line a minute in a log, or
    JSON lines.
    """

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._bar: Progress | None = None
        self._stage = ""
        self._written = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.clear()

    def report(self, progress: ConversionProgress) -> None:
        """Report progress; called several times a second."""
        now = time.monotonic()
        if self._as_json:
            if now - self._written >= _JSON_S:
                self._written = now
                text = f"{data_size(progress.done)} of {data_size(progress.total)}"
                values = {"stage": progress.stage, "bytes": progress.done, "of": progress.total}
                values |= {"seconds": round(progress.seconds, 3), "tensor": progress.name, "text": text}
                print_stderr(json.dumps({"progress": values}))
            return
        if self._bar is None or self._stage != progress.stage:
            if self._bar is not None:
                self._bar.clear()
            self._stage = progress.stage
            self._bar = Progress(progress.stage, progress.total, done=progress.done)
        bar = self._bar
        bar.label = progress.name
        bar.advance(progress.done - bar.done)
        if not bar.shows and now - self._written >= _LOG_S:
            self._written = now
            print_stderr(bar.line(200))
