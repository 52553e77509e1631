"""Reorder the array of a .npy file into another memory format, data type, or both.

  restride reorder in.npy out.npy --dst nChw16c
  restride reorder out.npy back.npy --dst nchw
  restride reorder photos.npy out.npy --src nhwc --dst nChw16c --dtype f32 --scale 0.00392156862745098
  restride reorder weights.npy out.npy --dst OIhw4i16o4i --dtype s8 --scale 127
  cat in.npy | restride reorder - - --dst nhwc > out.npy

Files hold physical arrays: axes in the order of memory, inner blocks last. A row-major array is an
ordinary .npy file; any other keeps its descriptor in a comment of its header, which NumPy ignores and
restride reads, so a file written here can be passed to restride again without further options. For
arrays from elsewhere that are not row-major pass --src, and --dims if blocks contain padding.

An existing OUT is replaced only with --force; then it may be IN. It is replaced as a whole or not at all.
"""

from __future__ import annotations

import argparse

from ..arrays.calls.formats import target_desc
from ..desc.memory_desc import MemoryDesc
from ..files.conversion.report import ConversionReport
from ..files.conversion.rules import ConversionRule, needs_scale
from ..files.convert import ConversionOptions, run_conversion
from ..files.formats.npy import NpyOverride, read_desc
from ..files.writing.replacement import shown
from ..view.names import aligned, counted
from ..view.units import duration
from .convert import Watcher
from .named_files import PIPE, SEVERAL, add_force, check_output, input_file, output_file
from .output import CommandResult, print_stderr
from .usage import Parser, checked, parse_data_type, parse_format, parse_shape, wrong_usage


def add_arguments(parser: Parser) -> None:
    """Add IN, OUT and options."""
    add = parser.add_argument
    tag, data_type = checked(parse_format), checked(parse_data_type)
    add("source", metavar="IN", help="a .npy file; - is standard input")
    add("target", metavar="OUT", help="the .npy file to write; - is standard output")
    add(
        "--dst",
        type=tag,
        metavar="FORMAT",
        help="format of OUT, such as nhwc or nChw16c; default: that of IN",
    )
    add(
        "--dtype", type=data_type, metavar="TYPE", help="type of OUT, such as s8 or bf16; default: that of IN"
    )
    add("--scale", type=_number, metavar="X", help="multiply every element by X")
    add("--zero-point", type=_integer, metavar="N", help="then add N; integer types only")
    add("--src", type=tag, metavar="FORMAT", help="format of IN; default: that of the file, else row-major")
    add("--dims", type=checked(parse_shape), metavar="DIMS", help="logical dims of IN, such as 1x17x2x2")
    add_force(parser)
    add(
        "--src-dtype",
        type=data_type,
        metavar="TYPE",
        help="type of IN if .npy has no word for it, such as bf16",
    )


def run(options: argparse.Namespace) -> CommandResult:
    """Read, reorder, write."""
    changes = (options.dst, options.dtype, options.scale, options.zero_point)
    if all(value is None for value in changes):
        raise wrong_usage("restride reorder: nothing to do", hint="pass --dst, --dtype or --scale")
    if options.source.lower().endswith(SEVERAL):
        raise wrong_usage(
            f"restride reorder: {shown(options.source)} may hold several tensors",
            why="this command reads one .npy file",
            hint=f"restride convert {shown(options.source)} OUT --rule 'NAME=FORMAT'",
        )
    check_output("restride reorder", options.target, (".npy",), options.force)
    if options.json and options.target == PIPE:
        raise wrong_usage("--json with the array on standard output", hint="pass a file name for OUT")
    with input_file(options.source, ".npy") as read, output_file(options.target, ".npy") as target:
        answer = _reordered(options, read, target)
    if options.target != PIPE:
        return answer
    print_stderr(answer.text)
    return CommandResult("")


def _reordered(options: argparse.Namespace, read: str, output: str) -> CommandResult:
    """Convert the file `read` to the file `output`."""
    override = NpyOverride(options.src, options.dims, options.src_dtype)
    source = read_desc(read, override)
    target = target_desc(source, options.dst, options.dtype)
    rule = ConversionRule("*", options.dst, options.dtype, options.scale, options.zero_point)
    with Watcher(options.json) as watcher:
        report = run_conversion(
            read, output, [rule], ConversionOptions(override=override, progress=watcher.report)
        )
    return _answer(options, source, target, report)


def _answer(
    options: argparse.Namespace, src: MemoryDesc, dst: MemoryDesc, report: ConversionReport
) -> CommandResult:
    files = [(options.source, src), (options.target, dst)]
    rows = [(shown(path), desc, counted(desc.size, "byte")) for path, desc in files]
    values = [
        {"path": path, "text": str(desc), "desc": desc.to_dict(), "bytes": desc.size} for path, desc in files
    ]
    seconds = report.seconds or 0.0
    lines = list(aligned(rows, "<<<"))
    if options.scale is None and needs_scale(src.data_type, dst.data_type):
        lines.append("floats were rounded, and small ones became 0: --scale multiplies them first")
    return CommandResult(
        "\n".join([*lines, f"reordered in {duration(seconds)}, files included"]),
        {"source": values[0], "target": values[1], "seconds": seconds},
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a number") from None


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not an integer") from None
