"""The graph of a network: tensors by name, and the nodes that make them, as frozen values.

    graph := input* constant* node* output*
    node  := operation(attributes) of tensors, epilogues -> tensor+

Nodes are ordered so that every tensor is made before it is read. Rewrites are functions from graph to graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arrays.calls.tensors import numpy_of
from ..dtypes import DataType
from ..errors import InvalidArguments, refuse
from ..files.mapped_file import release_pages
from ..model.result_dims import Misfit, broadcast
from ..runtime.free_memory import check_room
from .fields import check_fields
from .nodes.operations import (
    BinaryOperation,
    EltwiseOperation,
    Operation,
    TensorType,
    unfit,
)

FloatArray = np.ndarray[Any, np.dtype[Any]]
_BEGIN = 4096
_MOST_BYTES = 1 << 63


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """The row-major values of a constant tensor. Equal if types, dims and bytes are.

    Raises InvalidArguments for anything but an array of a supported type, OutOfMemory for a broadcast array
    whose values exceed the memory.
    """

    values: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", numpy_of(self.values, "a constant"))
        DataType.parse(self.values.dtype)
        if not self.values.flags.c_contiguous:
            check_room(self.values.nbytes)
        try:
            values = np.ascontiguousarray(self.values).reshape(np.shape(self.values)).view()
        except MemoryError:
            raise refuse("RS-D01:bytes-wanted", nbytes=self.values.nbytes) from None
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    @property
    def type(self) -> TensorType:
        """Dims and data type."""
        return TensorType(self.values.shape, DataType.parse(self.values.dtype))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        if self is other or self.type != other.type:
            return self is other
        own, others = self._bytes, other._bytes
        # Constants that differ mostly do so near the beginning.
        is_same = np.array_equal(own[:_BEGIN], others[:_BEGIN]) and np.array_equal(own, others)
        # Values that were packed earlier are not read again.
        for data in (own, others):
            release_pages(data)
        return is_same

    def __hash__(self) -> int:
        return hash(self.type)

    @property
    def _bytes(self) -> FloatArray:
        return self.values.reshape(-1).view(np.uint8)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A change of a node's result before it is stored: a function, or a combination with another tensor.

    A binary operation has the result on its left; on its right is the next of the node's trailing inputs.
    """

    operation: EltwiseOperation | BinaryOperation

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def has_operand(self) -> bool:
        """True if another tensor is read."""
        return isinstance(self.operation, BinaryOperation)


@dataclass(frozen=True, slots=True)
class Node:
    """An operation on named tensors.

    `inputs` are those of the operation, then one for each epilogue that has an operand, in order. `data_type`
    is that of the results, if it differs from the one the operation makes: results computed from integers can
    be stored as floats, or as other integers, after the epilogues.
    """

    name: str
    operation: Operation
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    epilogues: tuple[Epilogue, ...] = ()
    data_type: DataType | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def kind(self) -> str:
        """The operation's word."""
        return self.operation.kind

    @property
    def output(self) -> str:
        """The first output; most nodes have only one."""
        return self.outputs[0]

    @property
    def sources(self) -> tuple[str, ...]:
        """The inputs of the operation itself."""
        return self.inputs[: len(self.inputs) - self._operand_count]

    @property
    def operands(self) -> tuple[str, ...]:
        """The inputs of the epilogues."""
        return self.inputs[len(self.inputs) - self._operand_count :]

    @property
    def _operand_count(self) -> int:
        return sum(epilogue.has_operand for epilogue in self.epilogues)

    def results(self, types: Mapping[str, TensorType]) -> dict[str, TensorType]:
        """Return the types of the outputs, by name.

        Raises InvalidArguments, naming the node, if inputs do not fit.
        """
        missing = [name for name in self.inputs if name not in types]
        if missing:
            raise refuse("RS-G01:no-origin", owner=self, missing=", ".join(map(repr, missing)))
        try:
            kinds = self.operation.results([types[name] for name in self.sources])
            if len(kinds) != len(self.outputs):
                raise unfit(f"it makes {len(kinds)} tensors, not {len(self.outputs)}", kinds)
            if any(kind.nbytes >= _MOST_BYTES for kind in kinds):
                raise unfit(f"it makes {' and '.join(map(str, kinds))}: the size exceeds 64 bits", kinds)
            for operand in map(types.__getitem__, self.operands):
                if _broadcast(kinds[0], operand) != kinds[0].dims:
                    raise unfit("the operand of an epilogue is larger than the result", (kinds[0], operand))
        except InvalidArguments as error:
            raise error.with_context(f"node {self.name!r} ({self.kind}): {error.what}") from None
        outputs = (replace(kind, data_type=self.data_type or kind.data_type) for kind in kinds)
        return dict(zip(self.outputs, outputs, strict=True))

    def __str__(self) -> str:
        tail = "".join(f" + {epilogue.operation.algorithm}" for epilogue in self.epilogues)
        tail += f" as {self.data_type}" * (self.data_type is not None)
        return f"{', '.join(self.outputs)} = {_text(self.operation)}({', '.join(self.inputs)}){tail}"


@dataclass(frozen=True)
class Graph:
    """A network: frozen, with concrete dims.

    inputs     names of the input tensors
    outputs    names of the output tensors
    tensors    the type of every tensor, by name
    constants  the values of constant tensors, by name
    nodes      in execution order

    Raises InvalidArguments, naming the node, if the parts do not fit.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, TensorType]
    constants: Mapping[str, Constant] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "tensors", MappingProxyType(self.tensors))
        object.__setattr__(self, "constants", MappingProxyType(self.constants))
        self.verify()

    def __reduce__(self) -> tuple[Any, ...]:
        return Graph, (self.inputs, self.outputs, dict(self.tensors), dict(self.constants), self.nodes)

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs, self.nodes))

    def verify(self) -> None:
        """Raise InvalidArguments for a tensor that is made twice, never, too late, or with another type."""
        types = self._source_types()
        for node in self.nodes:
            for name, result in node.results(types).items():
                if name in types:
                    raise refuse("RS-G01:node-tensor-made", node=node, name=name)
                if self.tensors.get(name) != result:
                    raise refuse(
                        "RS-G01:node-makes-tensor",
                        node=node,
                        name=name,
                        tensors=self.tensors.get(name),
                        made=result,
                    )
                types[name] = result
        missing = [name for name in self.outputs if name not in types]
        if missing:
            raise refuse("RS-G01:output-graph-no", missing=", ".join(map(repr, missing)))

    def _source_types(self) -> dict[str, TensorType]:
        """Return the types of the tensors that no node makes."""
        missing = [name for name in self.inputs if name not in self.tensors]
        if missing:
            raise refuse("RS-G01:input-graph-no", missing=", ".join(map(repr, missing)))
        types = {name: self.tensors[name] for name in self.inputs}
        if len(types) < len(self.inputs):
            raise refuse("RS-G01:every-tensor-origin", inputs=", ".join(self.inputs))
        for name, constant in self.constants.items():
            if name in types:
                raise refuse("RS-G01:every-tensor-origin-give", name=name)
            if self.tensors.get(name) != constant.type:
                raise refuse("RS-G01:constant-graph-no", where=", ".join(map(repr, [name])))
            types[name] = constant.type
        return types

    # --- looking --------------------------------------------------------------------------------------------

    def producer(self, name: str) -> Node | None:
        """Return the node that makes a tensor, or None for an input or a constant."""
        return next((node for node in self.nodes if name in node.outputs), None)

    def consumers(self, name: str) -> tuple[Node, ...]:
        """Return the nodes that read a tensor, in order."""
        return tuple(node for node in self.nodes if name in node.inputs)

    def readers(self) -> dict[str, tuple[Node, ...]]:
        """Return the consumers of every tensor, found in one pass."""
        readers: dict[str, list[Node]] = {name: [] for name in self.tensors}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                readers[name].append(node)
        return {name: tuple(nodes) for name, nodes in readers.items()}

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __str__(self) -> str:
        lines = [f"input {name}: {self.tensors[name]}" for name in self.inputs]
        lines += [f"constant {name}: {constant.type}" for name, constant in self.constants.items()]
        lines += [
            f"{node}: {', '.join(str(self.tensors[name]) for name in node.outputs)}" for node in self.nodes
        ]
        return "\n".join([*lines, *(f"output {name}" for name in self.outputs)])

    # --- rewriting ------------------------------------------------------------------------------------------

    def replaced(self, nodes: Iterable[Node], constants: Mapping[str, Constant] | None = None) -> Graph:
        """Return the graph with these nodes, reordered so that they can run; unused ones are left out.

        `constants` are added to the existing ones. The types of tensors follow from the nodes.
        """
        all_constants = {**self.constants, **(constants or {})}
        tensors, live = set(self.outputs), list[Node]()
        for node in reversed(tuple(nodes)):
            if tensors.intersection(node.outputs):
                tensors.update(node.inputs)
                live.insert(0, node)
        used = {name for node in live for name in node.inputs} | set(self.outputs)
        types = {name: self.tensors[name] for name in self.inputs}
        types |= {name: constant.type for name, constant in all_constants.items() if name in used}
        for node in live:
            types |= node.results(types)
        constants = {name: constant for name, constant in all_constants.items() if name in used}
        return Graph(self.inputs, self.outputs, types, constants, tuple(live))

    def renamed(self, names: Mapping[str, str]) -> tuple[Node, ...]:
        """Return the nodes with inputs renamed, `{old: new}`. Outputs keep their names."""
        return tuple(
            replace(node, inputs=tuple(names.get(name, name) for name in node.inputs)) for node in self.nodes
        )


def _broadcast(result: TensorType, operand: TensorType) -> tuple[int, ...]:
    try:
        return broadcast(result.dims, operand.dims)
    except Misfit as misfit:
        raise unfit(misfit.why, (result, operand), misfit.hint) from None


def _text(operation: Operation) -> str:
    """Describe an operation with its attributes: `pooling[pooling_max, (3, 3), ...]`."""
    values = [str(getattr(operation, attribute.name)) for attribute in fields(operation)]
    return f"{operation.kind}[{', '.join(values)}]" if values else operation.kind
