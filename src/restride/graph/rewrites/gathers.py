"""Rows that several moves reorder, and copy more than once, are copied once.

    concat(slice(x), slice(x))  ->  rows of x by a table: a roll of an image, parts of windows side by side

including all moves of whole rows before and after it. For example, rolling an image along two axes and
cutting it into windows takes four copies of slices and one into windows; these become one copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..graph import Node
from ..nodes.moves import ConcatOperation, ReshapeOperation, SliceOperation, TransposeOperation
from ..nodes.operations import PrimitiveOperation
from .constants import moved_values
from .draft import Array, GraphDraft

__all__ = ["fuse_gathers"]

_MOVES = (ReshapeOperation, TransposeOperation, SliceOperation, ConcatOperation)
# Moves copy shorter rows faster themselves; longer tables would be large tensors.
_LEAST_ROW, _MOST_ROWS = 64, 1 << 20


@dataclass(frozen=True)
class _MovedRows:
    """A tensor as rows of another one: their indices, with the dims of the tensor except the last.

    `is_copied`: parts have been concatenated, which descriptors cannot express.
    """

    source: str
    numbers: Array
    is_copied: bool = False


def fuse_gathers(draft: GraphDraft) -> None:
    """Match chains of moves that contain a concat, from the tensor that they begin with."""
    found: dict[str, _MovedRows] = {}
    for _, node in draft:
        if not isinstance(node.operation, _MOVES) or node.epilogues or node.data_type:
            continue
        rows = _moved(draft, node, found)
        if rows is not None:
            found[node.output] = rows
    for place, node in [*draft]:
        rows = found.get(node.output)
        if rows is not None and rows.is_copied and not _goes_on(draft, node, found):
            _gather(draft, place, node, rows)


def _goes_on(draft: GraphDraft, node: Node, found: dict[str, _MovedRows]) -> bool:
    """True if all readers of a node are moves in the same chain."""
    readers = [draft.at(place) for place in draft.readers(node.output)]
    all_moves = all(reader is not None and reader.output in found for reader in readers)
    return bool(readers) and all_moves and node.output not in draft.graph.outputs


def _moved(draft: GraphDraft, node: Node, found: dict[str, _MovedRows]) -> _MovedRows | None:
    """Return the rows that a move makes; None unless it moves whole rows of one tensor."""
    operation, dims = node.operation, draft.type(node.output).dims
    parts = [found.get(name) or _whole(draft, name) for name in node.sources]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not dims or len({part.source for part in known}) > 1:
        return None
    source = known[0].source
    width = draft.type(source).dims[-1]
    is_whole_row = _keeps_rows(node, dims, width)
    if not is_whole_row:
        return None
    if isinstance(operation, ReshapeOperation):
        operation = ReshapeOperation((*dims[:-1], dims[-1] // width))
    if isinstance(operation, SliceOperation):
        starts, sizes = (
            (*operation.starts[:-1], operation.starts[-1] // width),
            (*dims[:-1], dims[-1] // width),
        )
        operation = SliceOperation(starts, sizes, operation.steps)
    numbers = moved_values(operation, [part.numbers for part in known])
    is_copied = isinstance(operation, ConcatOperation) or any(part.is_copied for part in known)
    return None if numbers is None else _MovedRows(source, numbers, is_copied)


def _whole(draft: GraphDraft, name: str) -> _MovedRows | None:
    """Return a tensor as its own rows; None if they are short, or many."""
    kind = draft.type(name)
    if not kind.dims or not kind.elements or kind.data_type.nbytes(kind.dims[-1]) < _LEAST_ROW:
        return None
    count = kind.elements // kind.dims[-1]
    if count > _MOST_ROWS or draft.known(name) is not None or kind.data_type.bits < 8:
        return None
    return _MovedRows(name, np.arange(count, dtype=np.int64).reshape(*kind.dims[:-1], 1))


def _keeps_rows(node: Node, dims: tuple[int, ...], width: int) -> bool:
    operation, last = node.operation, len(dims) - 1
    if isinstance(operation, TransposeOperation) and operation.order[-1] != last:
        return False
    if isinstance(operation, SliceOperation):
        is_whole = operation.steps[-1] == 1 and operation.starts[-1] % width == 0
        return is_whole and dims[-1] % width == 0
    return dims[-1] % width == 0


def _gather(draft: GraphDraft, place: int, node: Node, rows: _MovedRows) -> None:
    """Make a tensor from rows of the first one of its chain."""
    kind, dims = draft.type(rows.source), draft.type(node.output).dims
    width = kind.dims[-1]
    table = draft.new_constant(np.ascontiguousarray(rows.numbers.reshape(-1)), node.output)
    flat = draft.before(place, ReshapeOperation((kind.elements // width, width)), rows.source)
    gather = PrimitiveOperation("Gather", (("algorithm", "axis"), ("axis", 0)))
    taken = draft.before(place, gather, flat, table)
    draft.fuse(place, Node(node.name, ReshapeOperation(dims), (taken,), node.outputs))
