"""Operators that are graphs of others: functions of a model, and those that ONNX defines by a body.

Bodies come from the package onnx, which is optional. Some are made for a specific node, from its attributes
and the types of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from ....desc.parse import short_repr
from ..operator_call import OperatorCall, Value
from .loops import LOOPS
from .model import OnnxBranch, OnnxFunction, OnnxModel, OnnxNode, no_model, read_function
from .tensors import NUMBERS

__all__ = [
    "all_nodes",
    "body_of",
    "check_functions",
    "count_nodes",
    "has_bodies",
    "missing_operators",
    "node_proto",
]

# Limit on the number of nodes after expansion: nested functions can exceed any memory.
_MOST_NODES = 1 << 18
_DEEPEST = 64


def check_functions(model: OnnxModel) -> None:
    """Raise InvalidArguments for functions that are recursive, too deep, or too large."""
    functions, sizes = model.functions or {}, dict[str, int]()

    def size(nodes: Iterable[OnnxNode], path: tuple[str, ...]) -> int:
        if len(path) > _DEEPEST:
            raise no_model(f"its functions are nested {_DEEPEST} levels deep, or more")
        total = 0
        for node in all_nodes(nodes):
            name = node.operator
            if name in path:
                raise no_model(f"function {short_repr(name)} is recursive")
            if name in functions and name not in sizes:
                sizes[name] = 1 + size(functions[name].nodes, (*path, name))
            total += sizes.get(name, 1)
            if total > _MOST_NODES:
                raise no_model(f"its functions have more than {_MOST_NODES} nodes")
        return total

    size(model.nodes, ())


def all_nodes(nodes: Iterable[OnnxNode]) -> Iterator[OnnxNode]:
    """Yield the nodes, and those of their branches."""
    for node in nodes:
        yield node
        yield from all_nodes(node.inner_nodes())


def count_nodes(nodes: Iterable[OnnxNode]) -> int:
    """Count nodes, including those of their branches."""
    return sum(1 for _ in all_nodes(nodes))


def missing_operators(
    model: OnnxModel, nodes: Iterable[OnnxNode], operators: frozenset[str]
) -> dict[str, list[str]]:
    """Return the names of nodes, by operator, whose operator is not in `operators`, including those inside
    functions and loop bodies. Branches are checked only when they are taken.
    """
    missing: dict[str, list[str]] = {}
    own, seen = model.functions, set[str]()

    def look(nodes: Iterable[OnnxNode], opset: int, path: str) -> None:
        for node in nodes:
            name = node.operator
            if name in LOOPS:
                look(node.inner_nodes(), opset, f"{path}{node.name}/")
            if name in operators or name in seen:
                continue
            body = None if own is None else own.get(name) or _plain_body(name, opset)
            if body is not None:
                seen.add(name)
                look(body.nodes, body.opset, f"{path}{node.name}/")
            elif own is None or not _is_built(name, opset):
                missing.setdefault(name, []).append(f"{path}{node.name}")

    look(nodes, model.opset, "")
    return missing


def body_of(call: OperatorCall) -> OnnxFunction | None:
    """Return the body that ONNX gives the operator of a node, or None (also without the package onnx)."""
    node, opset = call.node, call.opset
    schema = _schema(node.operator, opset)
    if schema is None or not {*node.attributes} <= {*schema.attributes}:
        return None  # the body would ignore an attribute
    body = _plain_body(node.operator, opset)
    if body is not None or not _is_built(node.operator, opset):
        return body
    version = max(schema.context_dependent_function_opset_versions)
    types = [_type_proto(call, value) for value in call.values]
    content = schema.get_context_dependent_function_with_opset_version(version, node_proto(node), types)
    return _read(schema, content) if content else None


def has_bodies() -> bool:
    """True if the package onnx is installed."""
    return find_spec("onnx") is not None


@cache
def _schema(operator: str, opset: int) -> Any:
    """Return the package onnx's schema of an operator, or None."""
    try:
        from onnx import defs
    except ImportError:
        return None
    domain, _, name = operator.rpartition(".")
    try:
        return defs.get_schema(name, domain) if domain else defs.get_schema(name, opset, "")
    except defs.SchemaError:
        return None


@cache
def _plain_body(operator: str, opset: int) -> OnnxFunction | None:
    """Return the body of an operator that is the same for every node."""
    schema = _schema(operator, opset)
    if schema is None or not schema.has_function:
        return None
    return _read(schema, schema.get_function_with_opset_version(max(schema.function_opset_versions)))


def _is_built(operator: str, opset: int) -> bool:
    """True for an operator whose body is built for each node."""
    schema = _schema(operator, opset)
    return schema is not None and bool(schema.has_context_dependent_function)


def _read(schema: Any, content: bytes) -> OnnxFunction:
    """Parse a function from its bytes; attributes that a node omits default to those of the operator."""
    import onnx

    function = onnx.FunctionProto.FromString(content)
    own = {attribute.name for attribute in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if name not in own and attribute.default_value.name:
            function.attribute_proto.append(attribute.default_value)
    return read_function(function.SerializeToString())


def node_proto(node: OnnxNode) -> bytes:
    """Return a node as the package onnx has it, without empty fields."""
    from onnx import GraphProto, helper, numpy_helper

    domain, _, name = node.operator.rpartition(".")
    attributes: dict[str, Any] = {}
    for key, value in node.attributes.items():
        if isinstance(value, np.ndarray):
            attributes[key] = numpy_helper.from_array(value)
        elif isinstance(value, OnnxBranch):
            attributes[key] = GraphProto.FromString(bytes(value.content))
        elif isinstance(value, int | float | str) or (isinstance(value, tuple) and value):
            attributes[key] = value
    made = helper.make_node(name, node.inputs, node.outputs, node.name, domain=domain, **attributes)
    return bytes(made.SerializeToString())


def _type_proto(call: OperatorCall, value: Value | None) -> bytes:
    from onnx import TypeProto, helper

    if value is None:
        return bytes(TypeProto().SerializeToString())
    number = NUMBERS.get(call.numpy_type(value), 0)
    kind = helper.make_tensor_type_proto(number, call.dims(value))
    return bytes(kind.SerializeToString())
