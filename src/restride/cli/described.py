"""The layout to `show` or `explain`: a format and dims from the command line, or a .npy file's."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import Error
from ..files.formats.npy import read_desc
from ..formats import TensorFormat, example_shape, named, names
from ..nearest import nearest
from .named_files import PIPE, SEVERAL, input_file, is_file_name
from .usage import Parser, UsageError, checked, parse_data_type, parse_format, parse_shape, typed, wrong_usage


class NamedDesc(NamedTuple):
    """A descriptor, and its format as the user spelled it."""

    desc: MemoryDesc
    tag: str


def add_arguments(parser: Parser, otherwise: str = "") -> None:
    """Add FORMAT DIMS or FILE; `otherwise` describes alternatives in their place."""
    parser.add_argument(
        "format",
        metavar="FORMAT",
        nargs="?" if otherwise else None,
        help="a tag or alias, such as nChw16c; a stored format, such as gguf.q4_0; or a .npy file, - for "
        f"standard input{otherwise}",
    )
    parser.add_argument(
        "dims",
        metavar="DIMS",
        nargs="?",
        type=checked(parse_shape),
        help="extents, such as 1x17x2x2; none for a file",
    )
    parser.add_argument(
        "--dtype",
        type=checked(parse_data_type),
        metavar="TYPE",
        help="data type of the elements; default f32",
    )


def stored_format(options: argparse.Namespace) -> TensorFormat | None:
    """Return the stored format for the options, with their dims or a small tensor; None for other words."""
    if options.format not in names():
        return None
    if options.dtype is not None:
        raise wrong_usage("--dtype with a stored format", why="its parts have their own types")
    shape = options.dims or example_shape(options.format)
    tensor_format: TensorFormat = typed(named, options.format, shape)
    return tensor_format


def _parse_tag(word: str) -> str:
    """Parse a tag; for an invalid one, the error suggests stored formats too."""
    try:
        return parse_format(word)
    except Error as error:
        near = nearest(word[:40].lower(), names())
        raise error.with_context(error.what, hint=f"did you mean {near!r}?" if near else "") from None


def described(options: argparse.Namespace) -> NamedDesc:
    """Return the descriptor for the options. Raises UsageError for an invalid tag, or one of another rank."""
    if options.dims is None and (options.format == PIPE or options.format.endswith(".npy")):
        if options.dtype is not None:
            raise wrong_usage("--dtype with a file", why="the file has its own data type")
        with input_file(options.format, ".npy") as name:
            return NamedDesc(read_desc(name), "")
    if options.dims is None and options.format.endswith(SEVERAL):
        raise wrong_usage(
            f"{options.format[:120]} may hold several tensors",
            why="pass one .npy file, or a format and dims",
            hint=f"list them with restride show {options.format[:120]}, draw one with --tensor NAME",
        )
    try:
        tag = typed(_parse_tag, options.format)
    except UsageError:
        if options.dims is None or not (options.format == PIPE or is_file_name(options.format)):
            raise
        raise wrong_usage("DIMS with a file", why="the file has its own dims", hint="omit them") from None
    if options.dims is None:
        raise wrong_usage("DIMS is missing", why="a tag has no extents", hint="for example 1x17x2x2")
    dtype = options.dtype or DataType.f32
    return NamedDesc(typed(MemoryDesc, options.dims, dtype, tag), tag)
