"""ONNX operators on elements, each at its index: functions, sums, products, types (G2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..dtypes import DataType
from .move_operations import ReorderOperation
from .onnx_context import OnnxContext, Translator, Value
from .onnx_tensors import ELEMENTS
from .operations import EltwiseOperation, PReluOperation, SumOperation, reciprocal_of


def _eltwise(algorithm: str, alpha: float = 0.0, beta: float = 0.0, *named: str) -> Translator:
    """A function of these numbers, or of attributes that are `named` as they are."""

    def run(context: OnnxContext) -> Value:
        numbers = {"alpha": alpha, "beta": beta}
        numbers |= {name: float(context.attribute(name, numbers[name])) for name in named}
        return context.add(EltwiseOperation(f"eltwise_{algorithm}", **numbers), context.tensor(0))

    return run


def _clip(context: OnnxContext) -> Value:
    limits = []
    for at, name, most in ((1, "min", -np.inf), (2, "max", np.inf)):
        found = context.needed(at, name) if context.has(at) else context.attribute(name, most)
        limits.append(float(np.asarray(found).reshape(())))
    low, high = limits
    if low == 0 and high == np.inf:
        return context.add(EltwiseOperation("eltwise_relu"), context.tensor(0))
    return context.add(EltwiseOperation("eltwise_clip", low, high), context.tensor(0))


def _gelu(context: OnnxContext) -> Value:
    word = "gelu_tanh" if context.attribute("approximate", "none") == "tanh" else "gelu_erf"
    return context.add(EltwiseOperation(f"eltwise_{word}"), context.tensor(0))


def _prelu(context: OnnxContext) -> Value:
    slopes = context.of_rank(context.value(1), len(context.dims(0)))
    return context.add(PReluOperation(), context.tensor(0), slopes)


def _linear(context: OnnxContext, alpha: float, beta: float, at: int) -> Value:
    return context.add(EltwiseOperation("eltwise_linear", alpha, beta), context.tensor(at))


def _scalar(context: OnnxContext, at: int) -> float | None:
    """An input of one known value that does not make the other larger."""
    found = context.known(at)
    if found is None or found.size != 1 or found.ndim > len(context.dims(1 - at)):
        return None
    return float(found.reshape(()))


def _add(context: OnnxContext) -> Value:
    for at in (0, 1):
        number = _scalar(context, at)
        if number is not None:
            return _linear(context, 1.0, number, 1 - at)
    return context.binary("add", context.value(0), context.value(1))


def _subtract(context: OnnxContext) -> Value:
    left, right = _scalar(context, 0), _scalar(context, 1)
    if right is not None:
        return _linear(context, 1.0, -right, 0)
    if left is not None:
        return _linear(context, -1.0, left, 1)
    return context.binary("sub", context.value(0), context.value(1))


def _multiply(context: OnnxContext) -> Value:
    for at in (0, 1):
        number = _scalar(context, at)
        if number is not None:
            return _linear(context, number, 0.0, 1 - at)
    return context.binary("mul", context.value(0), context.value(1))


def _divide(context: OnnxContext) -> Value:
    left, right = _scalar(context, 0), _scalar(context, 1)
    factor = None if right is None else reciprocal_of(right)
    if factor is not None:
        return _linear(context, factor, 0.0, 0)
    if left is not None:
        return context.add(EltwiseOperation("eltwise_pow", left, -1.0), context.tensor(1))
    return context.binary("div", context.value(0), context.value(1))


def _power(context: OnnxContext) -> Value:
    exponent = _scalar(context, 1)
    if exponent is None:
        raise context.unimplemented("its exponent is no single known number", "use Exp and Log")
    if exponent == 2:
        return context.add(EltwiseOperation("eltwise_square"), context.tensor(0))
    return context.add(EltwiseOperation("eltwise_pow", 1.0, exponent), context.tensor(0))


def _several(algorithm: str) -> Callable[[OnnxContext], Value]:
    """A binary operation on two inputs or more, from left to right."""

    def run(context: OnnxContext) -> Value:
        made: Value = context.value(0)
        for at in range(1, len(context.values)):
            made = context.binary(algorithm, made, context.value(at))
        return made

    return run


def _sum(context: OnnxContext) -> Value:
    names = [context.tensor(at) for at in range(len(context.values))]
    dims = {context.builder.type(name).dims for name in names}
    if len(names) > 2 and len(dims) == 1:
        return context.add(SumOperation((1.0,) * len(names)), *names)
    return _several("add")(context)


def _cast(context: OnnxContext) -> Value:
    number = int(context.attribute("to"))
    wanted = DataType.bf16 if number == 16 else DataType.parse(ELEMENTS[number])
    name = context.tensor(0)
    before = context.builder.type(name).data_type
    if wanted is before:
        return name
    if wanted.is_integral and not before.is_integral:
        raise context.unimplemented(
            "it cuts off fractions, where restride rounds", "compute with floats there"
        )
    if wanted.is_integral and wanted is not DataType.s32:
        raise context.unimplemented(
            f"it keeps the low bits of {before}, where restride saturates", "QuantizeLinear saturates too"
        )
    return context.add(ReorderOperation(wanted), name)


ELEMENT_TRANSLATORS: dict[str, Translator] = {
    "Abs": _eltwise("abs"),
    "Add": _add,
    "Cast": _cast,
    "Clip": _clip,
    "Div": _divide,
    "Elu": _eltwise("elu", 1.0, 0.0, "alpha"),
    "Exp": _eltwise("exp"),
    "Gelu": _gelu,
    "HardSigmoid": _eltwise("hardsigmoid", 0.2, 0.5, "alpha", "beta"),
    "HardSwish": _eltwise("hardswish", 1 / 6, 0.5),
    "LeakyRelu": _eltwise("relu", 0.01, 0.0, "alpha"),
    "Log": _eltwise("log"),
    "Max": _several("max"),
    "Min": _several("min"),
    "Mish": _eltwise("mish"),
    "Mul": _multiply,
    "Neg": _eltwise("linear", -1.0),
    "PRelu": _prelu,
    "Pow": _power,
    "Reciprocal": _eltwise("pow", 1.0, -1.0),
    "Relu": _eltwise("relu"),
    "Round": _eltwise("round"),
    "Sigmoid": _eltwise("logistic"),
    "Softplus": _eltwise("soft_relu", 1.0),
    "Sqrt": _eltwise("sqrt"),
    "Sub": _subtract,
    "Sum": _sum,
    "Tanh": _eltwise("tanh"),
}
"""By the name of the operator."""
