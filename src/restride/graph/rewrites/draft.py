"""A graph under rewriting: nodes by place, with the producer and the readers of each tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ..dims import Dims
from ..fields import check_fields
from ..graph import Constant, Graph, Node
from ..nodes.moves import ReshapeOperation
from ..nodes.operations import AS_F32, Operation, TensorType
from ..stored_constant import as_constant

__all__ = ["AppliedFusion", "GraphDraft"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class AppliedFusion:
    """The record of a fusion: its name, the nodes that it removed, and the node that does their work now.

    `into` is "" if the work disappeared.
    """

    fusion: str
    nodes: tuple[str, ...]
    into: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    def __str__(self) -> str:
        return f"{self.fusion}: {', '.join(self.nodes)}" + (f" into {self.into}" if self.into else "")


class GraphDraft:
    """The nodes of a graph, each at a place; a fused node takes the last place of those that it replaces.

    So the inputs of a node always precede it, and tensors keep their names: those that are read later are
    made by another node.
    """

    def __init__(self, graph: Graph, fusion: str) -> None:
        self.graph, self.fusion = graph, fusion
        self.applied: list[AppliedFusion] = []
        self._nodes: dict[int, Node] = {}
        self._before: dict[int, list[Node]] = {}
        self._makers: dict[str, int] = {}
        self._readers: dict[str, list[int]] = {}
        self._new: dict[str, Constant] = {}
        self._types: dict[str, TensorType] = {}
        self._taken_names = set(graph.tensors)
        for place, node in enumerate(graph.nodes):
            self._put(place, node)

    def __iter__(self) -> Iterator[tuple[int, Node]]:
        """Yield places and nodes; those removed meanwhile are skipped."""
        for place in range(len(self.graph.nodes)):
            if place in self._nodes:
                yield place, self._nodes[place]

    # --- queries --------------------------------------------------------------------------------------------

    def at(self, place: int) -> Node | None:
        """Return the node at a place; None if it was removed."""
        return self._nodes.get(place)

    def type(self, name: str) -> TensorType:
        """Return the dims and the type of a tensor."""
        if name in self._new:
            return self._new[name].type
        return self._types.get(name) or self.graph.tensors[name]

    def is_computed_as_f32(self, node: Node) -> bool:
        """True if the arithmetic of all types that a node reads and writes is that of f32."""
        return all(self.type(name).data_type in AS_F32 for name in (*node.inputs, *node.outputs))

    def known(self, name: str) -> Constant | None:
        """Return a constant; None for a computed tensor."""
        return self._new.get(name) or self.graph.constants.get(name)

    def constant(self, name: str) -> Array | None:
        """Return the values of a constant; None for a computed tensor."""
        constant = self.known(name)
        return None if constant is None else constant.values

    def scalar(self, name: str) -> float | None:
        """Return the value of a constant of one element."""
        values = self.constant(name)
        return float(values.reshape(())) if values is not None and values.size == 1 else None

    def maker(self, name: str) -> tuple[int, Node] | None:
        """Return the place and the node that make a tensor; None for inputs and constants."""
        place = self._makers.get(name)
        return None if place is None else (place, self._nodes[place])

    def private_maker(self, name: str) -> tuple[int, Node] | None:
        """The same if the tensor is read once, and is not an output."""
        is_private = len(self._readers.get(name, ())) == 1 and name not in self.graph.outputs
        return self.maker(name) if is_private else None

    def readers(self, name: str) -> list[int]:
        """Return the places of all readers of a tensor, once per read."""
        return list(self._readers.get(name, ()))

    # --- rewriting ------------------------------------------------------------------------------------------

    def fuse(self, place: int, node: Node, *others: int) -> None:
        """Put a node at `place` that also does the work of the nodes at `others`, which are removed."""
        old = self._nodes[place].name
        names = [self._nodes[at].name for at in (*others, place) if self._nodes[at].name != node.name]
        for at in (*others, place):
            self._take(at)
        self._put(place, node)
        self.applied.append(AppliedFusion(self.fusion, tuple(names) or (old,), node.name))

    def drop(self, place: int) -> bool:
        """Remove a node that returns its first input; False if names of inputs or outputs prevent it."""
        node = self._nodes[place]
        if not self._redirect(place, node.inputs[0], node.output):
            return False
        self.applied.append(AppliedFusion(self.fusion, (node.name,)))
        return True

    def fold(self, place: int, values: Array) -> None:
        """Make the output of a node a constant."""
        node = self._take(place)
        self._new[node.output] = as_constant(values)
        self.applied.append(AppliedFusion(self.fusion, (node.name,)))

    def new_constant(self, values: Array | Constant, near: str) -> str:
        """Add a constant with a new name derived from a tensor's."""
        name = self._new_name(near)
        self._new[name] = as_constant(values)
        return name

    def can_give(self, name: str, dims: Dims) -> bool:
        """True if `given` can supply these dims: a reshape makes the tensor from them, or for one reader."""
        maker = self.maker(name)
        if maker is None or not isinstance(maker[1].operation, ReshapeOperation):
            return False
        is_private = self.private_maker(name) is not None
        return prod(dims) == prod(self.type(name).dims) and (
            is_private or self.type(maker[1].sources[0]).dims == dims
        )

    def given(self, name: str, dims: Dims) -> str:
        """Return a reshaped tensor with these dims, under another name."""
        place, node = self._makers[name], self._nodes[self._makers[name]]
        source = node.sources[0]
        if self.type(source).dims == dims:
            return source
        other = self._new_name(name)
        self._types[other] = replace(self.type(name), dims=dims)
        readers = self.readers(name)
        self._take(place)
        self._put(place, replace(node, operation=ReshapeOperation(dims), outputs=(other,)))
        for reader in readers:
            reading = self._take(reader)
            inputs = tuple(other if each == name else each for each in reading.inputs)
            self._put(reader, replace(reading, inputs=inputs))
        return other

    def before(self, place: int, operation: Operation, *inputs: str) -> str:
        """Insert a node before the one at a place, and return its output."""
        near = self._nodes[place].output
        node = Node(self._new_name(near), operation, inputs, (self._new_name(near),))
        self._types |= node.results({name: self.type(name) for name in inputs})
        self._before.setdefault(place, []).append(node)
        for name in inputs:
            self._readers.setdefault(name, []).append(place)
        return node.output

    def swap(self, first: int, second: int, node: Node) -> None:
        """Move the node at `second` before that at `first`, which it reads: y = f(x), z = g(y).

        `node` is g, reading x. It writes what was y's name in x's dims; so f comes last, and writes z.
        """
        maker, before, after = (
            self._makers[self._nodes[first].inputs[0]],
            self._take(first),
            self._take(second),
        )
        main = self._take(maker)
        source = before.inputs[0]
        name = self._new_name(source)
        self._types[name] = self.type(source)
        self._put(maker, replace(main, outputs=(name,)))
        inputs = tuple(name if operand == source else operand for operand in node.inputs)
        self._put(first, replace(node, inputs=inputs, outputs=(source,)))
        self._put(second, replace(before, outputs=after.outputs))
        self.applied.append(AppliedFusion(self.fusion, (after.name,), main.name))

    def _new_name(self, near: str) -> str:
        names = (f"{near}.{self.fusion}{i or ''}" for i in range(len(self._taken_names) + 1))
        name = next(name for name in names if name not in self._taken_names)
        self._taken_names.add(name)
        return name

    def finished(self) -> Graph:
        """Return the graph of the remaining nodes, in order."""
        if not self.applied:
            return self.graph
        nodes = list[Node]()
        for place in range(len(self.graph.nodes)):
            nodes += self._before.get(place, [])
            nodes += [self._nodes[place]] if place in self._nodes else []
        return self.graph.replaced(nodes, self._new)

    def _redirect(self, place: int, source: str, result: str) -> bool:
        if result in self.graph.outputs:
            maker = self.private_maker(source)
            if maker is None or len(maker[1].outputs) > 1:
                return False
            self._take(place)
            self._take(maker[0])
            self._put(maker[0], replace(maker[1], outputs=(result,)))
            return True
        self._take(place)
        for reader in dict.fromkeys(self.readers(result)):
            node = self._take(reader)
            inputs = tuple(source if name == result else name for name in node.inputs)
            self._put(reader, replace(node, inputs=inputs))
        return True

    def _put(self, place: int, node: Node) -> None:
        self._nodes[place] = node
        for name in node.outputs:
            self._makers[name] = place
        for name in node.inputs:
            self._readers.setdefault(name, []).append(place)

    def _take(self, place: int) -> Node:
        node = self._nodes.pop(place)
        for name in node.outputs:
            if self._makers.get(name) == place:
                del self._makers[name]
        for name in node.inputs:
            self._readers[name].remove(place)
        return node
