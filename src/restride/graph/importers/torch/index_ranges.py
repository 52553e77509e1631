"""Indices among the inputs of a torch graph, and their ranges: for an index out of range a network reads the
nearest element, but torch raises an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

__all__ = ["IndexRange", "index_ranges"]

_ATEN = torch.ops.aten
# Operators whose results are elements of the first tensor only.
_MOVES = (
    *(_ATEN._to_copy, _ATEN.alias, _ATEN.clone, _ATEN.detach, _ATEN.expand, _ATEN.permute),
    *(_ATEN.select, _ATEN.slice, _ATEN.squeeze, _ATEN.unsqueeze, _ATEN.view),
)


class IndexRange(NamedTuple):
    """The input at index `place` has indices in [`least`, `end`), or equal to `ignored`."""

    place: int
    least: int
    end: int
    ignored: int | None = None

    def has(self, args: Sequence[Any]) -> bool:
        """True if all indices are in the range."""
        x = args[self.place]
        if not x.numel():
            return True
        low, high = torch.aminmax(x)
        if self.least <= int(low) and int(high) < self.end:
            return True
        is_wrong = (x < self.least) | (x >= self.end)
        return self.ignored is not None and not bool((is_wrong & (x != self.ignored)).any())


def index_ranges(graph: fx.Graph) -> list[IndexRange]:
    """Return the ranges of the indices that are inputs of a graph, or parts of one."""
    places = {node: at for at, node in enumerate(graph.find_nodes(op="placeholder"))}
    found = dict[IndexRange, None]()
    for node in graph.nodes:
        for source, *bounds in _of_node(node):
            while getattr(source.target, "overloadpacket", None) in _MOVES:
                source = source.args[0]
            value = source.meta.get("val")
            is_whole = isinstance(value, torch.Tensor) and not value.dtype.is_floating_point
            if source in places and is_whole and value.dtype is not torch.bool:
                found[IndexRange(places[source], *bounds)] = None
    return list(found)


def _of_node(node: fx.Node) -> Iterator[tuple[Any, ...]]:
    """Yield the index tensors that a node reads, each with its range."""
    packet = getattr(node.target, "overloadpacket", None)
    if packet not in (_ATEN.embedding, _ATEN.gather, _ATEN.index, _ATEN.index_select, _ATEN.nll_loss_forward):
        return
    dims = node.args[0].meta["val"].shape
    if not all(isinstance(size, int) for size in dims):
        return
    if packet is _ATEN.embedding:
        yield node.args[1], 0, dims[0]
    elif packet is _ATEN.nll_loss_forward:
        yield node.args[1], 0, dims[-1 if len(dims) < 2 else 1], node.args[4]
    elif packet is _ATEN.index:
        for size, indices in zip(dims, node.args[1], strict=False):
            if indices is not None and indices.meta["val"].dtype is not torch.bool:
                yield indices, -size, size
    elif dims:
        yield node.args[2], 0, dims[node.args[1]]
