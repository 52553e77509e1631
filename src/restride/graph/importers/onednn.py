"""oneDNN graphs, as JSON of its graph driver: operations become ONNX operators, or formulas of these."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...desc.parse import short_repr
from ...dtypes import DataType
from ...errors import refuse
from ...files.mapped_file import MappedFile
from ...model.result_dims import Misfit, from_end
from .onnx import operators as _operators  # noqa: F401  (registers the ONNX operators used here)
from .onnx.model import OnnxInput, OnnxModel, OnnxNode, listed
from .onnx.tensors import ELEMENTS, NUMBERS
from .operator_call import Made, OperatorCall, OperatorTable, Value

__all__ = ["read_graph", "translate_operation"]

# ONNX's numbers of element types, by oneDNN's words.
_NUMBERS = {kind.name: NUMBERS[kind.numpy] for kind in DataType if kind.numpy in NUMBERS}
ONEDNN_GRAPH = OperatorTable(())
"""The operations of graphs, by kind."""


def read_graph(source: str | os.PathLike[str] | IO[str] | IO[bytes]) -> OnnxModel:
    """Read the operations of a graph as nodes, whose tensors are named by their numbers.

    Raises RuntimeFailure if the system refuses the file, InvalidArguments for anything but a graph,
    Unimplemented for unsupported operations.
    """
    text, where = _text(source), ""
    try:
        graph = json.loads(text)
        nodes, tensors = [], dict[str, Any]()
        for at, operation in enumerate(_part(graph, "graph", list)):
            where = f"operation {at}"
            kind = _part(operation, "kind", str)
            name = operation.get("name") or operation.get("id", "")
            where += f", {kind} {short_repr(name)}"
            node = _node(operation, kind, str(name))
            for each in (*operation["outputs"], *operation["inputs"]):
                before = tensors.setdefault(str(each["id"]), each)
                if _input("", before) != _input("", each):
                    raise ValueError(f"tensor {each['id']} has a different shape or type than before")
            nodes += [] if kind in ("End", "Wildcard") else [node]
        where = ""
        made = {name for node in nodes for name in node.outputs}
        read = dict.fromkeys(name for node in nodes for name in node.inputs if name not in made)
        first = [str(port) for port in _numbers(graph, "input_ports")] if "input_ports" in graph else []
        order = dict.fromkeys((*(port for port in first if port in read), *read))
        inputs = tuple(_input(name, tensors[name]) for name in order)
        unread = made - {name for node in nodes for name in node.inputs}
        ports = _numbers(graph, "output_ports") if "output_ports" in graph else []
        outputs = tuple(map(str, ports)) or tuple(sorted(unread, key=int))
    except (RecursionError, ValueError) as error:
        raise refuse("RS-F04:onednn-graph", where=where, why=str(error)[:200]) from None
    if missing := [node for node in nodes if node.operator not in ONEDNN_GRAPH]:
        texts, count = listed([f"{node.operator} {node.name}" for node in missing]), len(missing)
        raise refuse("RS-G02:operators-restride-not", what="the graph of oneDNN", texts=texts, count=count)
    return OnnxModel(_in_order(nodes), {}, inputs, outputs, opset=18)


def _in_order(nodes: Sequence[OnnxNode]) -> tuple[OnnxNode, ...]:
    """Sort nodes after the producers of their inputs, otherwise keeping their order; cycles come last."""
    made = {name for node in nodes for name in node.outputs}
    waits, readers = [{*node.inputs} & made for node in nodes], dict[str, list[int]]()
    for at, names in enumerate(waits):
        for name in names:
            readers.setdefault(name, []).append(at)
    ready, order = [at for at, names in enumerate(waits) if not names], list[int]()
    while ready:
        order.append(heappop(ready))
        for name in nodes[order[-1]].outputs:
            for at in readers.pop(name, ()):
                waits[at].remove(name)
                if not waits[at]:
                    heappush(ready, at)
    return tuple(nodes[at] for at in (*order, *(at for at, names in enumerate(waits) if names)))


def translate_operation(call: OperatorCall) -> Made:
    """Return the values and tensors that stand for an operation."""
    named = {name: value for name, value in call.node.attributes.items() if not name.startswith("_")}
    if len(call.node.outputs) != 1:
        raise call.unimplemented(f"it has {len(call.node.outputs)} outputs")
    made = ONEDNN_GRAPH.run(call, call.values, named)
    ((word, shape),) = call.node.attributes["_results"]
    result = made[0] if isinstance(made, tuple) else made
    kind, dims = call.type_of(result), call.dims(result)
    if word not in ("undef", kind.name):
        raise call.unimplemented(f"its result type is {short_repr(word)}, but restride's is {kind}")
    # An empty shape is unknown, or that of a scalar.
    said = [m if n is None else n for n, m in zip(shape, dims, strict=False)]
    if shape and (len(shape) != len(dims) or said != [*dims]):
        raise Misfit(f"its result dims are {list(dims)}, but the graph says {list(shape)}")
    return made


def _text(source: str | os.PathLike[str] | IO[str] | IO[bytes]) -> str | bytes:
    if isinstance(source, str | os.PathLike):
        return bytes(MappedFile(str(Path(source)), "a .json file").content)
    try:
        return source.read()
    except Exception as error:  # a foreign file may raise anything
        raise refuse("RS-F04:onednn-graph", where="", why=f"it cannot be read: {str(error)[:200]}") from None


def _part(value: Any, name: str, kind: type) -> Any:
    """Return a field of a JSON object. Raises ValueError if it is missing or of another kind."""
    if not isinstance(value, dict) or name not in value:
        raise ValueError(f"{name!r} is missing in {short_repr(value)}")
    if not isinstance(value[name], kind) or isinstance(value[name], bool):
        raise ValueError(f"its {name!r} is {short_repr(value[name])}")
    return value[name]


def _numbers(value: Any, name: str) -> list[int]:
    """Return a field that is a list of integers. Raises ValueError."""
    found: list[int] = _part(value, name, list)
    for n in found:
        if type(n) is not int:
            raise ValueError(f"its {name!r} contains {short_repr(n)}, which is not an integer")
    return found


def _node(operation: Any, kind: str, name: str) -> OnnxNode:
    inputs, outputs = (
        tuple(str(_part(each, "id", int)) for each in _part(operation, part, list))
        for part in ("inputs", "outputs")
    )
    attributes: dict[str, Any] = {}
    for word, each in (_part(operation, "attrs", dict) if "attrs" in operation else {}).items():
        if not isinstance(each, dict) or "value" not in each:
            raise ValueError(f"attribute {short_repr(word)} has no 'value'")
        value = each["value"]
        attributes[word] = tuple(value) if isinstance(value, list) else value
    # Only its result says what a cast makes.
    attributes["_results"] = tuple((_part(x, "dtype", str), _dims(x)) for x in operation["outputs"])
    return OnnxNode(kind, f"{name} {','.join(outputs)}", inputs, outputs, attributes)


def _dims(tensor: Any) -> tuple[int | None, ...]:
    """Return the dims of a tensor, with None for those known only in a run."""
    return tuple(n if n >= 0 else None for n in _numbers(tensor, "shape"))


def _input(name: str, tensor: Any) -> OnnxInput:
    return OnnxInput(name, _dims(tensor), _NUMBERS.get(_part(tensor, "dtype", str), 0))


def _number(call: OperatorCall) -> int:
    """Return ONNX's number of the result type."""
    ((word, _),) = call.node.attributes["_results"]
    if word not in _NUMBERS:
        raise call.unimplemented(f"its result type is {short_repr(word)}")
    return _NUMBERS[word]


# --- operations that ONNX has -------------------------------------------------------------------------------

# By number of inputs: names in oneDNN, followed by that in ONNX if it differs.
_SAME = {
    1: "Abs Exp Log Reciprocal ReLU:Relu Reorder:Identity Round Sigmoid Sqrt Tanh",
    2: "Add Divide:Div Maximum:Max Minimum:Min Multiply:Mul Subtract:Sub GreaterEqual:GreaterOrEqual",
    3: "Select:Where",
}
_ONNX_NAMES = {
    name: (count, twin or name)
    for count, names in _SAME.items()
    for name, _, twin in (each.partition(":") for each in names.split())
}


@ONEDNN_GRAPH(*_ONNX_NAMES)
def _same(call: OperatorCall, *xs: Value, auto_broadcast: str = "numpy") -> Made:
    count, name = _ONNX_NAMES[call.node.operator]
    if auto_broadcast not in ("numpy", "none"):
        raise Misfit(f"auto_broadcast is {auto_broadcast!r}")
    if len(xs) != count:
        raise Misfit(f"it has {len(xs)} inputs, not {count}")
    return call.onnx(name, *xs)


@ONEDNN_GRAPH("MatMul")
def _matmul(
    call: OperatorCall,
    a: Value,
    b: Value,
    bias: Value | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Made:
    left, right = (
        call.matrices_transposed(x) if flip and len(call.dims(x)) > 1 else x
        for x, flip in ((a, transpose_a), (b, transpose_b))
    )
    inner = call if bias is None else call.with_outputs(0)
    product = inner.onnx("MatMul", left, right)
    return product if bias is None else call.onnx("Add", product, bias)


@ONEDNN_GRAPH("SoftMax", "LogSoftmax")
def _softmax(call: OperatorCall, x: Value, *, axis: int = 1, mode: str = "none") -> Made:
    if mode != "none":
        raise call.unimplemented(f"its mode is {mode!r}")
    return call.onnx("Softmax" if call.node.operator == "SoftMax" else "LogSoftmax", x, axis=axis)


@ONEDNN_GRAPH("SoftMaxBackward")
def _softmax_backward(call: OperatorCall, diff_dst: Value, dst: Value, *, axis: int = 1) -> Made:
    apart = call.with_outputs(0)
    product = apart.onnx("Mul", diff_dst, dst)
    total = apart.onnx("ReduceSum", product, (axis,))
    return call.onnx("Mul", apart.onnx("Sub", diff_dst, total), dst)


@ONEDNN_GRAPH("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
def _reduction(call: OperatorCall, x: Value, *, axes: tuple[int, ...] = (), keep_dims: bool = False) -> Made:
    return call.onnx(call.node.operator, x, axes, keepdims=int(keep_dims)) if axes else x


@ONEDNN_GRAPH("StaticReshape")
def _reshape(call: OperatorCall, x: Value, *, shape: tuple[int, ...], special_zero: bool) -> Made:
    return call.onnx("Reshape", x, shape, allowzero=int(not special_zero))


@ONEDNN_GRAPH("StaticTranspose")
def _transpose(call: OperatorCall, x: Value, *, order: tuple[int, ...]) -> Made:
    rank = len(call.dims(x))
    return call.onnx("Transpose", x, perm=tuple(axis + rank * (axis < 0) for axis in order))


@ONEDNN_GRAPH("Concat")
def _concat(call: OperatorCall, *xs: Value, axis: int) -> Made:
    return call.onnx("Concat", *xs, axis=axis)


@ONEDNN_GRAPH("TypeCast")
def _cast(call: OperatorCall, x: Value) -> Made:
    return call.onnx("Cast", x, to=_number(call))


@ONEDNN_GRAPH("Square")
def _square(call: OperatorCall, x: Value) -> Made:
    return call.onnx("Mul", x, x)


@ONEDNN_GRAPH("Pow")
def _pow(call: OperatorCall, x: Value, *, beta: float) -> Made:
    return call.onnx("Pow", x, np.array(beta, np.float32))


@ONEDNN_GRAPH("GELU")
def _gelu(call: OperatorCall, x: Value, *, mode: str = "gelu_erf") -> Made:
    if mode not in ("gelu_erf", "gelu_tanh"):
        raise call.unimplemented(f"its mode is {mode!r}")
    return call.onnx("com.microsoft.Gelu" if mode == "gelu_erf" else "com.microsoft.FastGelu", x)


# --- quantization -------------------------------------------------------------------------------------------


@ONEDNN_GRAPH("Dequantize", "Quantize")
def _quantization(
    call: OperatorCall,
    x: Value,
    *,
    scales: tuple[float, ...],
    zps: tuple[int, ...] = (),
    qtype: str = "per_tensor",
    axis: int = 1,
) -> Made:
    if qtype not in ("per_tensor", "per_channel"):
        raise call.unimplemented(f"its qtype is {qtype!r}")
    operator = call.node.operator
    kind = ELEMENTS[_number(call)] if operator == "Quantize" else call.numpy_type(x)
    return call.onnx(f"{operator}Linear", x, *_factors(kind, scales, zps, qtype), axis=axis)


def _factors(
    kind: np.dtype[Any], scales: Sequence[float], zps: Sequence[int], qtype: str
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return scales and zero points as ONNX has them: scalars if they are for the whole tensor."""
    points = np.zeros(len(scales), kind) if not zps else np.array(zps).astype(kind)
    if zps and not np.array_equal(points, zps):
        raise Misfit(f"zps {list(zps)[:4]} are not values of {kind}")
    factors = np.array(scales, np.float32)
    if qtype == "per_tensor" and not len(scales) == len(points) == 1:
        raise Misfit(f"{len(scales)} scales and {len(points)} zero points, instead of one for the tensor")
    return (factors.reshape(()), points.reshape(())) if qtype == "per_tensor" else (factors, points)


@ONEDNN_GRAPH("DynamicDequantize")
def _dynamic_dequantize(
    call: OperatorCall,
    x: Value,
    scales: Value,
    zps: Value | None = None,
    *,
    qtype: str = "per_tensor",
    axis: int = 1,
    group_shape: tuple[int, ...] = (),
) -> Made:
    dims, apart, number = call.dims(x), call.with_outputs(0), _number(call)
    if qtype == "per_group":
        counts = call.dims(scales)
    elif qtype == "per_channel":
        counts = tuple(n if at == from_end(axis, len(dims)) else 1 for at, n in enumerate(dims))
    elif qtype == "per_tensor":
        counts = (1,) * len(dims)
    else:
        raise call.unimplemented(f"its qtype is {qtype!r}")
    groups = tuple(n // max(count, 1) for n, count in zip(dims, counts, strict=True))
    if any(n != count * group for n, count, group in zip(dims, counts, groups, strict=True)):
        raise Misfit(f"scales of {counts} do not fit {dims}")
    if group_shape and group_shape != groups:
        raise Misfit(f"group_shape is {group_shape}, but the scales imply {groups}")
    split = tuple(n for pair in zip(counts, groups, strict=True) for n in pair)
    spread = tuple(n for count in counts for n in (count, 1))
    # Computed in f32, and rounded once.
    value = call.reshaped(apart.onnx("Cast", x, to=1), split)
    if zps is not None:
        value = apart.onnx("Sub", value, call.reshaped(apart.onnx("Cast", zps, to=1), spread))
    value = apart.onnx("Mul", value, call.reshaped(apart.onnx("Cast", scales, to=1), spread))
    return call.onnx("Cast", call.reshaped(value, dims), to=number)
