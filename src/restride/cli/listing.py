"""The table of tensors in a file or a folder that `restride show` prints, and the choice of one to draw."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..errors import Error
from ..files.formats.npy import has_desc
from ..files.inspection import Statistics, statistics
from ..files.writing.replacement import shown
from ..graph.dims import by
from ..nearest import nearest
from ..view.names import aligned, counted
from ..view.units import data_size
from .named_files import is_file_name
from .output import CommandResult
from .progress import Progress
from .tensors import ListedTensor, TensorFiles, short
from .usage import Parser, wrong_usage

_HEADS = (
    *("name", "dims", "type", "format", "size", "group"),
    *("min", "max", "mean", "zeros", "NaN", "Inf"),
    "file",
)
_SIDES = "<><<>>" + ">" * 6 + "<"
# Columns that are shown even if empty.
_ALWAYS = 5
_COUNTS = ("tensors", "elements", "nbytes")


def add_arguments(parser: Parser) -> None:
    """Add filters for tensors, and the level of detail."""
    parser.add_argument(
        "--stats", action="store_true", help="for a file: also read the values, block by block"
    )
    parser.add_argument("--tensor", metavar="NAME", help="for a file: draw the layout of this tensor")
    parser.add_argument("--match", metavar="GLOB", help="for a file: only tensors with matching names")


def is_of_files(options: argparse.Namespace) -> bool:
    """Return True if the argument is a file or folder of tensors to list. A single .npy file is drawn, unless
    its array has no memory format.
    """
    path = options.format
    if options.dims is not None:
        return False
    if path.endswith(".npy") and not (options.stats or options.tensor):
        has_picture = any(each is not None for each in (options.svg, options.html, options.dst, options.at))
        return not has_picture and os.path.exists(path) and not has_desc(path)
    return is_file_name(path)


def chosen_tensor(options: argparse.Namespace) -> ListedTensor:
    """Return the tensor to draw. Raises UsageError if there is none of that name."""
    with TensorFiles(options.format, None, only_heads=True, skip_links=True) as files:
        tensors = {tensor.name: tensor for tensor in files.stored()}
    if options.tensor in tensors:
        return tensors[options.tensor]
    near = nearest(options.tensor[:80], tensors)
    raise wrong_usage(
        f"{shown(options.format)} has no tensor {short(options.tensor)}",
        hint=f"did you mean {near!r}?" if near else f"restride show {shown(options.format)} lists them",
    )


def list_tensors(options: argparse.Namespace) -> CommandResult:
    """Return the table. If some numbers cannot be read, the row shows the reason, and the status is 1."""
    only_heads = not options.stats
    with TensorFiles(options.format, options.match, only_heads=only_heads, skip_links=True) as files:
        tensors = list(files.stored())
        with Progress("reading", sum(tensor.nbytes for tensor in tensors)) as progress:
            facts = [_facts(tensor, progress) if options.stats else None for tensor in tensors]
        names = list(dict.fromkeys(file.name for file in files.files if file.tensors))
    rows = [tensor.words | _fact_values(found) for tensor, found in zip(tensors, facts, strict=True)]
    totals = _totals(tensors)
    values = {"source": options.format, "files": names, "tensors": rows, "totals": totals}
    lines = _table(tensors, facts, len(names) > 1)
    status = int(any(isinstance(found, str) for found in facts))
    return CommandResult("\n".join((*lines, *_total_lines(totals, options.match))), values, status)


def _facts(tensor: ListedTensor, progress: Progress) -> Statistics | str | None:
    """Return the statistics of a tensor, or the reason why there are none."""
    try:
        progress.label = short(tensor.name)
        return statistics(tensor.read)
    except Error as error:
        return error.why or error.what
    finally:
        progress.advance(tensor.nbytes)


def _fact_values(found: Statistics | str | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {"error": found} if isinstance(found, str) else {"stats": asdict(found)}


def _table(
    tensors: Sequence[ListedTensor], facts: Sequence[Statistics | str | None], has_files: bool
) -> list[str]:
    """Return the lines of the table, without columns that are empty in all rows."""
    rows = [list(_HEADS)]
    for tensor, found in zip(tensors, facts, strict=True):
        group = "" if tensor.group is None else by(tensor.group)
        row = [
            short(tensor.name),
            by(tensor.dims),
            tensor.type,
            tensor.format,
            data_size(tensor.nbytes),
            group,
        ]
        file = shown(tensor.file) if has_files else ""
        rows.append([*row, *_fact_cells(found), file])
    kept = [i for i in range(len(_HEADS)) if i < _ALWAYS or any(row[i] for row in rows[1:])]
    sides = "".join(_SIDES[i] for i in kept)
    return list(aligned([[row[i] for i in kept] for row in rows], sides))


def _fact_cells(found: Statistics | str | None) -> Sequence[str]:
    if not isinstance(found, Statistics):
        return (found or "", *[""] * 5)
    ends = ("" if x is None else f"{x:.4g}" for x in (found.minimum, found.maximum, found.mean))
    zeros = f"{found.zeros / found.count:.1%}" if found.count else ""
    return (*ends, zeros, *(str(n) if n else "" for n in (found.nans, found.infinities)))


def _totals(tensors: Sequence[ListedTensor]) -> dict[str, Any]:
    types: dict[str, dict[str, int]] = {}
    for tensor in tensors:
        total = types.setdefault(tensor.type, dict.fromkeys(_COUNTS, 0))
        for key, n in zip(_COUNTS, (1, tensor.elements, tensor.nbytes), strict=True):
            total[key] += n
    return {key: sum(total[key] for total in types.values()) for key in _COUNTS} | {"types": types}


def _total_lines(totals: dict[str, Any], glob: str | None) -> list[str]:
    def words(total: dict[str, Any]) -> str:
        tensors, elements = counted(total["tensors"], "tensor"), counted(total["elements"], "element")
        return f"{tensors}, {elements}, {data_size(total['nbytes'])}"

    fitting = f" with names like {short(glob)}" if glob else ""
    types = sorted(totals["types"].items(), key=lambda item: -item[1]["nbytes"])
    each = [f"  {name}: {words(total)}" for name, total in types] if len(types) > 1 else []
    return ["", f"total{fitting}: {words(totals)}", *each]
