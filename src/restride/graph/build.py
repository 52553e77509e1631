"""A builder of graphs, which names and types the result of each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..desc.parse import parse_dims, short_repr
from ..dtypes import DataType
from ..errors import refuse
from .fields import parse_field
from .graph import Constant, Epilogue, Graph, Node
from .nodes.operations import Operation, TensorType
from .stored_constant import as_constant


class GraphBuilder:
    """Collects inputs, constants and nodes, and makes a `Graph` of them.

    Every call checks what it adds. Tensors are passed by name; the calls return the names.

    >>> import numpy as np
    >>> import restride as rs
    >>> builder = rs.graph.GraphBuilder()
    >>> x = builder.input("x", (2, 3))
    >>> y = builder.add(rs.graph.EltwiseOperation("eltwise_relu"), x)
    >>> print(builder.graph(y))
    input x: f32 2x3
    eltwise = eltwise[eltwise_relu, 0.0, 0.0](x): f32 2x3
    output eltwise
    """

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._constants: dict[str, Constant] = {}
        self._types: dict[str, TensorType] = {}
        self._nodes: list[Node] = []

    def input(self, name: str, dims: Sequence[int], data_type: object = "f32") -> str:
        """Add an input of the network. Raises InvalidArguments for a name that is taken."""
        name, extents = self._new(name), parse_dims(dims, f"input {short_repr(name)}: dims")
        if min(extents, default=0) < 0:
            raise refuse("RS-G01:dims", name=name, extents=extents)
        self._types[name] = TensorType(extents, DataType.parse(data_type))
        self._inputs.append(name)
        return name

    def constant(self, values: Any, name: str = "") -> str:
        """Add a constant from an array, a `Constant`, or a `Memory`, which is not copied."""
        constant = as_constant(values)
        name = self._name_for(name, "constant")
        self._types[name], self._constants[name] = constant.type, constant
        return name

    def add(
        self,
        operation: Operation,
        *inputs: str,
        name: str = "",
        epilogues: Sequence[Epilogue] = (),
        data_type: object = None,
    ) -> str:
        """Add a node and return the name of its first output: `name`, or one derived from the operation.

        `inputs` are those of the operation, then the operands of the epilogues. `data_type`: that of the
        result, if it differs from the one the operation makes. Raises InvalidArguments, naming the node, if
        they do not fit.
        """
        return self._added(operation, inputs, name, epilogues, data_type)[0]

    def add_all(self, operation: Operation, *inputs: str, name: str = "") -> tuple[str, ...]:
        """Add a node and return the names of all its outputs: those after the first end in `.1`, `.2`.

        Raises as `add` does.
        """
        return self._added(operation, inputs, name, ())

    def _added(
        self,
        operation: Operation,
        inputs: tuple[str, ...],
        name: str,
        epilogues: Sequence[Epilogue],
        data_type: object = None,
    ) -> tuple[str, ...]:
        operation = parse_field("GraphBuilder.add: operation", Operation, operation)
        after = parse_field("GraphBuilder.add: epilogues", tuple[Epilogue, ...], epilogues)
        name = self._name_for(name, operation.kind)
        count = operation.count_of_results
        more = tuple(self._new(f"{name}.{number}") for number in range(1, count))
        kind = None if data_type is None else DataType.parse(data_type)
        node = Node(name, operation, inputs, (name, *more), after, kind)
        self._types |= node.results(self._types)
        self._nodes.append(node)
        return node.outputs

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename tensors that nodes make, `{old: new}`; a tensor already called `new` gets a free name."""
        names = parse_field("GraphBuilder.rename: names", Mapping[str, str], names)
        conflicts = [new for new in names.values() if new in self._types and new not in names]
        all_names = {**names, **{name: self._free(f"{name}.inner") for name in conflicts}}

        def new(name: str) -> str:
            return all_names.get(name, name)

        self._types = {new(name): tensor_type for name, tensor_type in self._types.items()}
        self._constants = {new(name): constant for name, constant in self._constants.items()}
        self._nodes = [
            replace(
                node,
                name=new(node.name),
                inputs=tuple(map(new, node.inputs)),
                outputs=tuple(map(new, node.outputs)),
            )
            for node in self._nodes
        ]

    def is_made(self, name: str) -> bool:
        """True for a tensor that a node makes."""
        exists = parse_field("GraphBuilder.is_made: name", str, name) in self._types
        return exists and name not in self._constants and name not in self._inputs

    def known(self, name: str) -> Constant | None:
        """Return the values of a constant, or None for an input or a tensor that a node makes."""
        return self._constants.get(name)

    def type(self, name: str) -> TensorType:
        """Return the dims and the data type of a tensor. Raises InvalidArguments for an unknown name."""
        tensor_type = self._types.get(parse_field("GraphBuilder.type: name", str, name))
        if tensor_type is None:
            raise refuse("RS-G01:no-tensor", name=short_repr(name))
        return tensor_type

    def is_free(self, name: str) -> bool:
        """True for a name that no tensor has yet."""
        return bool(parse_field("the name of a tensor", str, name)) and name not in self._types

    def graph(self, *outputs: str) -> Graph:
        """Return the graph with these outputs. Whatever none of them needs is left out."""
        everything = Graph(tuple(self._inputs), outputs, self._types, self._constants, tuple(self._nodes))
        return everything.replaced(everything.nodes)

    def _new(self, name: str) -> str:
        if self.is_free(name):
            return name
        raise refuse("RS-G01:tensor-cannot-added", name=short_repr(name))

    def _name_for(self, name: str, word: str) -> str:
        return self._new(name) if parse_field("the name of a tensor", str, name) else self._free(word)

    def _free(self, word: str) -> str:
        if word not in self._types:
            return word
        return next(
            name for i in range(2, len(self._types) + 3) if (name := f"{word}_{i}") not in self._types
        )
