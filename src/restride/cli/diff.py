"""Compare the tensors of two files or folders: names, dims, types, formats and values, in bounded memory.

  restride diff model.safetensors packed.safetensors
  restride diff checkpoint/ model.gguf --values --tolerance 0.05
  restride diff before.onnx after.onnx --match '*.weight' --json

Files can have any format that `restride show` lists, and may have different ones. Tensors with the same name
are compared; if each side has a single tensor, those two are. Quantized tensors are compared by their
dequantized values. For values it prints how many differ, the largest difference, its share of the largest
magnitude in A, and the first index. NaN equals NaN.

--values ignores types, formats and groups. --tolerance ignores differences of values up to that share.
Status 0 if nothing differs, 1 if something differs or cannot be read, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from math import inf
from typing import Any, NamedTuple

from ..errors import Error, refuse
from ..files.inspection import ValueDifference, are_comparable, difference
from ..files.writing.replacement import shown
from ..graph.dims import by
from ..view.names import aligned, counted
from .named_files import check_no_pipe
from .output import CommandResult
from .progress import Progress
from .tensors import ListedTensor, TensorFiles, short
from .usage import Parser, wrong_usage

__all__ = ["add_arguments", "run"]

_FIELDS = ("dims", "type", "format", "group")


class _Difference(NamedTuple):
    """A tensor that differs between the sides: its fields and values, or why the values are unknown."""

    name: str
    sides: tuple[ListedTensor, ListedTensor]
    fields: tuple[str, ...]
    values: ValueDifference | None
    why: str


def add_arguments(parser: Parser) -> None:
    """Add A, B and filters."""
    parser.add_argument("first", metavar="A", help="a file of tensors, or a folder of them")
    parser.add_argument("second", metavar="B", help="the one to compare it with")
    parser.add_argument("--match", metavar="GLOB", help="only tensors with matching names")
    parser.add_argument("--values", action="store_true", help="ignore types, formats and groups")
    parser.add_argument(
        "--tolerance",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="share of the largest magnitude, such as 0.01: smaller differences are ignored; default 0",
    )


def run(options: argparse.Namespace) -> CommandResult:
    """Return the differences; as values the same, by name."""
    check_no_pipe("restride diff", options.first, options.second)
    with TensorFiles(options.first, options.match) as a, TensorFiles(options.second, options.match) as b:
        first, second = _by_name(options.first, a), _by_name(options.second, b)
        if options.match is not None and not (first or second):
            raise wrong_usage(f"restride diff: no name matches {short(options.match)}", hint="quote the glob")
        pairs = {name: (one, second[name]) for name, one in first.items() if name in second}
        if len(first) == len(second) == 1 and not pairs:
            pairs = {name: (one, next(iter(second.values()))) for name, one in first.items()}
            second = first
        with Progress("comparing", sum(one.nbytes for one, _ in pairs.values())) as progress:
            found = [_compared(name, pair, options, progress) for name, pair in pairs.items()]
    differing = [each for each in found if each is not None]
    lost = [one for name, one in first.items() if name not in second]
    new = [one for name, one in second.items() if name not in first]
    is_same = not (differing or lost or new)
    values = {
        "same": is_same,
        "only_in_first": [one.words for one in lost],
        "only_in_second": [one.words for one in new],
        "differing": [_values(each) for each in differing],
        "equal": len(pairs) - len(differing),
    }
    lines = [f"only in {shown(options.first)}: {short(one.name)}  {_title(one)}" for one in lost]
    lines += [f"only in {shown(options.second)}: {short(one.name)}  {_title(one)}" for one in new]
    lines += aligned([(short(each.name), _text(each)) for each in differing], "<<") if differing else []
    counts = f"{counted(len(pairs), 'tensor')} compared, {len(differing)} differ"
    rest = f"{len(lost)} only in {shown(options.first)}, {len(new)} only in {shown(options.second)}"
    return CommandResult("\n".join([*lines, f"{counts}; {rest}"]), values, status=int(not is_same))


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if 0 <= share < inf:
        return share
    raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a share: write a number of 0 or more")


def _by_name(path: str, files: TensorFiles) -> Mapping[str, ListedTensor]:
    tensors: dict[str, ListedTensor] = {}
    for one in files.numbers():
        if (other := tensors.setdefault(one.name, one)) is not one:
            raise refuse(
                "RS-F01:name-in-two-files",
                path=shown(path),
                name=one.name[:60],
                first=shown(other.file),
                second=shown(one.file),
            )
    return tensors


def _compared(
    name: str, sides: tuple[ListedTensor, ListedTensor], options: argparse.Namespace, progress: Progress
) -> _Difference | None:
    """Return the difference of two tensors; None if there is none to report."""
    one, other = sides
    counting = _FIELDS[:1] if options.values else _FIELDS
    fields = tuple(field for field in counting if getattr(one, field) != getattr(other, field))
    values, why = None, ""
    progress.label = short(name)
    try:
        if are_comparable(one.read, other.read):
            values = difference(one.read, other.read)
        elif "dims" not in fields:
            why = "restride cannot read the values of one of them"
    except Error as error:
        why = error.why or error.what
    progress.advance(one.nbytes)
    if values is not None and (not values.differing or values.relative <= options.tolerance):
        values = None
    return _Difference(name, sides, fields, values, why) if fields or why or values is not None else None


def _title(one: ListedTensor) -> str:
    return " ".join(filter(None, (by(one.dims), one.type, one.format)))


def _text(each: _Difference) -> str:
    """Return the difference in one line."""
    words = [f"{field} {' -> '.join(_cell(one, field) for one in each.sides)}" for field in each.fields]
    values = each.values
    if values is not None:
        unit = "byte" if values.are_bytes else "value"
        at = ", ".join(map(str, values.first or ()))
        most = (
            ""
            if values.are_bytes
            else f" by up to {values.largest:.3g} ({values.relative:.3g} of the largest)"
        )
        words.append(f"{values.differing} of {counted(values.count, unit)} differ{most}, first at ({at})")
    return "; ".join(filter(None, (*words, each.why)))


def _cell(one: ListedTensor, field: str) -> str:
    value = getattr(one, field)
    return (by(value) if isinstance(value, tuple) else value) or "none"


def _values(each: _Difference) -> dict[str, Any]:
    # JSON has no infinity.
    words = {} if each.values is None else asdict(each.values)
    values = {key: None if word == inf else word for key, word in words.items()} or None
    sides = dict(zip(("first", "second"), (one.words for one in each.sides), strict=True))
    return {
        "name": each.name,
        "fields": list(each.fields),
        **sides,
        "values": values,
        "error": each.why or None,
    }
