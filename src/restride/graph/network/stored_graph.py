"""Graphs as JSON values, and back: they contain no code, and invalid ones are refused.

    graph     := {"inputs": [name], "outputs": [name], "types": {name: type of an input},
                  "constants": {name: number of a tensor}, "nodes": [node]}
    node      := {"name", "kind", "attributes", "inputs", "outputs", "epilogues": [{"kind", "attributes"}],
                  "data_type": null or "u8"}
    type      := {"dims": [...], "data_type": "f32"}
    attribute := number | text | [attribute] | {"data_type": "bf16"}

The types of all other tensors follow from the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ...desc.parse import short_repr
from ...dtypes import DataType
from ...errors import refuse
from ..graph import Constant, Epilogue, Graph, Node
from ..nodes import layers as layer_operations
from ..nodes import moves as move_operations
from ..nodes import operations, recurrent
from ..nodes import products as product_operations
from ..nodes.operations import (
    BinaryOperation,
    EltwiseOperation,
    Operation,
    PrimitiveOperation,
    TensorType,
)

__all__ = ["graph_of_values", "type_of_values", "type_values", "values_of_graph"]

Values = dict[str, Any]


_MODULES = (operations, product_operations, layer_operations, move_operations, recurrent)


_KINDS = {
    cls.kind: cls
    for module in _MODULES
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, Operation) and isinstance(cls.kind, str) and cls.kind
}
# Operations of this kind have the primitive as an attribute.
_PRIMITIVE = "primitive"
_KINDS[_PRIMITIVE] = PrimitiveOperation


def type_values(kind: TensorType) -> Values:
    """Return the dims and the data type of a tensor as values."""
    return {"dims": list(kind.dims), "data_type": str(kind.data_type)}


def type_of_values(values: Mapping[str, Any]) -> TensorType:
    """Return a type from its values. Raises InvalidArguments for invalid extents."""
    return TensorType(_extents(values["dims"]), DataType.parse(values["data_type"]))


def values_of_graph(graph: Graph, number: Callable[[Constant], int]) -> Values:
    """Return a graph as values; `number` returns the tensor number of a constant."""
    return {
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "types": {name: type_values(graph.tensors[name]) for name in graph.inputs},
        "constants": {name: number(constant) for name, constant in graph.constants.items()},
        "nodes": [_node_values(node) for node in graph.nodes],
    }


def graph_of_values(values: Mapping[str, Any], constant: Callable[[int], Constant]) -> Graph:
    """Return a graph from values; `constant` returns a constant by its number. Raises InvalidArguments."""
    inputs = tuple(map(_text, values["inputs"]))
    types = {name: type_of_values(values["types"][name]) for name in inputs}
    constants = {_text(name): constant(number) for name, number in values["constants"].items()}
    types |= {name: tensor.type for name, tensor in constants.items()}
    nodes = tuple(map(_node, values["nodes"]))
    for node in nodes:
        types |= node.results(types)
    return Graph(inputs, tuple(map(_text, values["outputs"])), types, constants, nodes)


def _node_values(node: Node) -> Values:
    return {
        "name": node.name,
        **_operation_values(node.operation),
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "epilogues": [_operation_values(epilogue.operation) for epilogue in node.epilogues],
        "data_type": None if node.data_type is None else str(node.data_type),
    }


def _node(values: Mapping[str, Any]) -> Node:
    epilogues = []
    for epilogue in values["epilogues"]:
        operation = _operation(epilogue)
        if not isinstance(operation, EltwiseOperation | BinaryOperation):
            raise refuse("RS-F10:epilogue-function-combination", each=short_repr(epilogue["kind"]))
        epilogues.append(Epilogue(operation))
    inputs, outputs = (tuple(map(_text, values[key])) for key in ("inputs", "outputs"))
    type_name = values["data_type"]
    data_type = None if type_name is None else DataType.parse(type_name)
    return Node(_text(values["name"]), _operation(values), inputs, outputs, tuple(epilogues), data_type)


def _operation_values(operation: Operation) -> Values:
    attributes = {f.name: _attribute_values(getattr(operation, f.name)) for f in fields(operation)}
    kind = _PRIMITIVE if isinstance(operation, PrimitiveOperation) else operation.kind
    return {"kind": kind, "attributes": attributes}


def _operation(values: Mapping[str, Any]) -> Operation:
    cls, attributes = _KINDS.get(values["kind"]), values["attributes"]
    if cls is None:
        raise refuse("RS-F10:no-operation-word", values=short_repr(values["kind"]))
    # Keyword-only fields were added later: older files lack them.
    if set(attributes) | {f.name for f in fields(cls) if f.kw_only} != {f.name for f in fields(cls)}:
        raise refuse("RS-F10:other-attributes", attributes=short_repr(sorted(attributes)), kind=cls.kind)
    return cls(**{name: _attribute(value) for name, value in attributes.items()})


def _attribute_values(value: Any) -> Any:
    if isinstance(value, DataType):
        return {"data_type": str(value)}
    return list(map(_attribute_values, value)) if isinstance(value, tuple) else value


def _attribute(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_attribute, value))
    return DataType.parse(value["data_type"]) if isinstance(value, dict) else value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise refuse("RS-F10:name-text", where=short_repr(value))
    return value


def _extents(values: Any) -> tuple[int, ...]:
    if not all(type(n) is int and n >= 0 for n in values):
        raise refuse("RS-F10:extent-0-more", values=short_repr(values))
    return tuple(values)
