"""ONNX's `Gradient`: reverse-mode differentiation of a tensor of the model.

Each operator has a rule, which maps the gradient of its result to the gradients of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import pi, prod, sqrt

import numpy as np

from ....dtypes import DataType
from ....model.result_dims import from_end
from ..operator_call import OperatorCall, Value
from .model import OnnxNode

__all__ = ["GRADIENT", "gradients", "times"]

GRADIENT = "ai.onnx.preview.training.Gradient"
"""The operator whose attributes, not inputs, say what is differentiated."""

Rule = Callable[..., tuple[Value | None, ...]]
"""`rule(call, g, y, *xs)`: `call` has the node's attributes, `g` is the gradient of its result `y`."""

_RULES: dict[str, Rule] = {
    "Identity": lambda call, g, y, x: (g,),
    "Add": lambda call, g, y, *xs: (g,) * len(xs),
    "Sum": lambda call, g, y, *xs: (g,) * len(xs),
    "Sub": lambda call, g, y, a, b: (g, call.onnx("Neg", g)),
    "Mul": lambda call, g, y, a, b: (call.onnx("Mul", g, b), call.onnx("Mul", g, a)),
    "Neg": lambda call, g, y, x: (call.onnx("Neg", g),),
    "Exp": lambda call, g, y, x: (call.onnx("Mul", g, y),),
    "Log": lambda call, g, y, x: (call.onnx("Div", g, x),),
    "Sqrt": lambda call, g, y, x: (call.onnx("Div", g, call.onnx("Add", y, y)),),
    "Sin": lambda call, g, y, x: (call.onnx("Mul", g, call.onnx("Cos", x)),),
    "Cos": lambda call, g, y, x: (call.onnx("Neg", call.onnx("Mul", g, call.onnx("Sin", x))),),
    "Abs": lambda call, g, y, x: (call.onnx("Mul", g, call.onnx("Sign", x)),),
    "Relu": lambda call, g, y, x: (call.onnx("Mul", g, call.onnx("Sign", y)),),
    "Softplus": lambda call, g, y, x: (call.onnx("Mul", g, call.onnx("Sigmoid", x)),),
    "Tanh": lambda call, g, y, x: (call.onnx("Sub", g, call.onnx("Mul", g, call.onnx("Mul", y, y))),),
    "Sigmoid": lambda call, g, y, x: (call.onnx("Mul", g, call.onnx("Sub", y, call.onnx("Mul", y, y))),),
    "Reshape": lambda call, g, y, x, *_: (call.reshaped(g, call.dims(x)),),
}
_RULES |= dict.fromkeys(("Flatten", "Squeeze", "Unsqueeze"), _RULES["Reshape"])


def _rule(operator: str) -> Callable[[Rule], Rule]:
    return lambda rule: _RULES.setdefault(operator, rule)


@_rule("Div")
def _of_div(call: OperatorCall, g: Value, y: Value, a: Value, b: Value) -> tuple[Value, ...]:
    of_a = call.onnx("Div", g, b)
    return of_a, call.onnx("Neg", call.onnx("Mul", of_a, y))


@_rule("Erf")
def _of_erf(call: OperatorCall, g: Value, y: Value, x: Value) -> tuple[Value, ...]:
    bell = call.onnx("Exp", call.onnx("Neg", call.onnx("Mul", x, x)))
    return (call.onnx("Mul", g, times(call, bell, 2 / sqrt(pi))),)


@_rule("Pow")
def _of_pow(call: OperatorCall, g: Value, y: Value, a: Value, b: Value) -> tuple[Value | None, ...]:
    if not isinstance(b, np.ndarray):
        raise call.unimplemented("it is differentiated, but its exponents are known only in a run")
    less = call.onnx("Pow", a, np.where(b == 0, 0, b - 1).astype(b.dtype))
    return call.onnx("Mul", g, call.onnx("Mul", less, b.astype(call.numpy_type(a)))), None


@_rule("Transpose")
def _of_transpose(call: OperatorCall, g: Value, y: Value, x: Value) -> tuple[Value, ...]:
    rank = len(call.dims(x))
    order = call.node.attributes.get("perm", range(rank)[::-1])
    return (call.transposed(g, [*map(int, np.argsort(order))]),)


@_rule("MatMul")
def _of_matmul(call: OperatorCall, g: Value, y: Value, a: Value, b: Value) -> tuple[Value, ...]:
    # A vector is a matrix of one row or one column, an extent that the product lacks.
    rows = call.reshaped(a, (1, *call.dims(a))) if len(call.dims(a)) == 1 else a
    columns = call.reshaped(b, (*call.dims(b), 1)) if len(call.dims(b)) == 1 else b
    batch = np.broadcast_shapes(call.dims(rows)[:-2], call.dims(columns)[:-2])
    g = call.reshaped(g, (*batch, call.dims(rows)[-2], call.dims(columns)[-1]))
    of_a = call.onnx("MatMul", g, call.matrices_transposed(columns))
    of_b = call.onnx("MatMul", call.matrices_transposed(rows), g)
    shapes = (call.dims(rows), call.dims(columns))
    of_a, of_b = (_summed(call, each, dims) for each, dims in zip((of_a, of_b), shapes, strict=True))
    return call.reshaped(of_a, call.dims(a)), call.reshaped(of_b, call.dims(b))


@_rule("Gemm")
def _of_gemm(call: OperatorCall, g: Value, y: Value, a: Value, b: Value, *c: Value) -> tuple[Value, ...]:
    named = call.node.attributes
    flips = [bool(named.get(name)) for name in ("transA", "transB")]
    left, right = (call.matrices_transposed(x) if flip else x for x, flip in zip((a, b), flips, strict=True))
    scaled = times(call, g, float(named.get("alpha", 1.0)))
    of_a = call.onnx("MatMul", scaled, call.matrices_transposed(right))
    of_b = call.onnx("MatMul", call.matrices_transposed(left), scaled)
    of_ab = (call.matrices_transposed(x) if flip else x for x, flip in zip((of_a, of_b), flips, strict=True))
    return (*of_ab, *(times(call, g, float(named.get("beta", 1.0))) for _ in c))


@_rule("Softmax")
def _of_softmax(call: OperatorCall, g: Value, y: Value, x: Value) -> tuple[Value, ...]:
    if call.opset < 13:
        raise call.unimplemented("it is differentiated in its form before opset 13")
    product = call.onnx("Mul", g, y)
    total = call.onnx("ReduceSum", product, (int(call.node.attributes.get("axis", -1)),))
    return (call.onnx("Sub", product, call.onnx("Mul", y, total)),)


@_rule("ReduceSum")
def _of_sum(call: OperatorCall, g: Value, y: Value, x: Value, axes: Value | None = None) -> tuple[Value, ...]:
    named, dims = call.node.attributes, call.dims(x)
    given = named.get("axes", ()) if axes is None else axes
    if isinstance(given, str):
        raise call.unimplemented("it is differentiated, but its axes are known only in a run")
    summed = {from_end(int(axis), len(dims)) for axis in given}
    if not summed and not named.get("noop_with_empty_axes"):
        summed = {*range(len(dims))}
    kept = call.reshaped(g, tuple(1 if axis in summed else n for axis, n in enumerate(dims)))
    return (call.onnx("Expand", kept, dims),)


@_rule("ReduceMean")
def _of_mean(call: OperatorCall, g: Value, y: Value, x: Value, *axes: Value) -> tuple[Value, ...]:
    (spread,) = _of_sum(call, g, y, x, *axes)
    assert spread is not None
    return (times(call, spread, prod(call.dims(y)) / max(prod(call.dims(x)), 1)),)


def gradients(
    call: OperatorCall, nodes: Sequence[OnnxNode], values: Mapping[str, Value]
) -> tuple[Value, ...]:
    """Return the results of a node `Gradient`: `nodes` precede it, `values` are all tensors they made."""
    named = call.node.attributes
    xs, y = named.get("xs", ()), named.get("y", "")
    if call.node.inputs != (*xs, *named.get("zs", ())):
        raise call.unimplemented("its inputs differ from the tensors named by its `xs` and `zs`")
    if y not in {*xs, *(name for node in nodes for name in node.outputs if name)}:
        raise call.unimplemented(f"its tensor {y!r} is not made by any node before it")
    if (kind := call.type_of(values[y])).kind != "float":
        raise call.unimplemented(f"its tensor {y!r} is of {kind}")
    follows = {*xs}
    for node in nodes:
        if not follows.isdisjoint(node.reads()):
            follows.update(filter(None, node.outputs))
    apart = call.with_outputs(0)
    changes: dict[str, Value] = {y: np.ones(call.dims(values[y]), call.numpy_type(values[y]))}
    for node in reversed(nodes):
        if changes.keys().isdisjoint(node.outputs) or follows.isdisjoint(node.reads()):
            continue
        rule = _RULES.get(node.operator)
        if rule is None or not changes.keys().isdisjoint(node.outputs[1:]):
            raise call.unimplemented(f"it involves {node}, an operator without a gradient")
        result = node.outputs[0]
        read = [values[name] if name else None for name in node.inputs]
        here = OperatorCall(
            OnnxNode(node.operator, call.node.name, (), (), node.attributes), read, call.builder, call.opset
        )
        changed = rule(here, changes[result], values[result], *read)
        for at, (name, change) in enumerate(zip(node.inputs, changed, strict=False)):
            if change is None and name in follows:
                raise call.unimplemented(f"it involves {node}, which has no gradient for input {at}")
            if change is not None and name in follows:
                fitting = _summed(here, change, call.dims(values[name]))
                changes[name] = apart.onnx("Add", changes[name], fitting) if name in changes else fitting
    return tuple(
        changes.get(x, np.zeros(call.dims(values[x]), call.numpy_type(values[x])))
        for x in xs[: len(call.node.outputs)]
    )


def times(call: OperatorCall, value: Value, number: float) -> Value:
    """Multiply a value by a number, in the type of the value; the number is not rounded to 16 bits."""
    if isinstance(value, np.ndarray):
        return np.asarray(value.astype(np.float64) * number).astype(value.dtype)
    is_wide = call.type_of(value) is DataType.f64
    return call.onnx("Mul", value, np.asarray(number, np.float64 if is_wide else np.float32))


def _summed(call: OperatorCall, value: Value, dims: tuple[int, ...]) -> Value:
    """Sum the gradient of a broadcast tensor to the dims of that tensor."""
    own = call.dims(value)
    fresh = len(own) - len(dims)
    axes = tuple(
        axis
        for axis, n in enumerate(own)
        if axis < fresh or (n != dims[axis - fresh] and dims[axis - fresh] == 1)
    )
    summed = call.onnx("ReduceSum", value, axes, keepdims=0) if axes else value
    # The gradient of a constant may still be a scalar.
    return (
        call.reshaped(summed, dims)
        if prod(call.dims(summed)) == prod(dims)
        else call.onnx("Expand", summed, dims)
    )
