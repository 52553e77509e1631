"""ONNX operators on elements, each at its index: functions, sums, products, types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....dtypes import DataType
from ...nodes.moves import ReorderOperation
from ...nodes.operations import PReluOperation, SumOperation
from .context import OnnxContext, Translator, Value
from .tensors import ELEMENTS


def _eltwise(algorithm: str, alpha: float = 0.0, beta: float = 0.0, *named: str) -> Translator:
    """A function of these numbers, which ONNX has as f32, or of attributes that are `named` as they are."""

    def run(context: OnnxContext) -> Value:
        numbers = {"alpha": float(np.float32(alpha)), "beta": float(np.float32(beta))}
        numbers |= {name: float(context.attribute(name, numbers[name])) for name in named}
        return context.function(algorithm, **numbers)

    return run


def _clip(context: OnnxContext) -> Value:
    """The largest of the lower limit, and the least of that and the upper one, which has the last word."""
    limits = []
    for at, name, most in ((1, "min", -np.inf), (2, "max", np.inf)):
        found = context.needed(at, name) if context.has(at) else context.attribute(name, most)
        limits.append(float(np.asarray(found).reshape(())))
    low, high = min(limits), limits[1]
    if low == 0 and high == np.inf:
        return context.function("relu")
    if context.type_of(context.value(0)) is not DataType.f64:
        return context.function("clip", low, high)
    made = context.value(0)
    for word, limit in (("max", low), ("min", high)):
        made = context.binary(word, made, np.array(limit))
    return made


def _gelu(context: OnnxContext) -> Value:
    return context.function("gelu_tanh" if context.attribute("approximate", "none") == "tanh" else "gelu_erf")


def _prelu(context: OnnxContext) -> Value:
    slopes = context.of_rank(context.value(1), len(context.dims(0)))
    return context.add(PReluOperation(), context.tensor(0), slopes)


def _power(context: OnnxContext) -> Value:
    exponent = context.known(1)
    if exponent is None or exponent.size != 1 or exponent.ndim > len(context.dims(0)):
        raise context.unimplemented("its exponent is no single known number", "use Exp and Log")
    number = float(exponent.reshape(()))
    if number == 2:
        return context.function("square")
    if float(np.float32(number)) != number:
        raise context.unimplemented(f"its exponent {number} is no f32", "use Exp and Log")
    return context.function("pow", 1.0, number)


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
    wanted = DataType.parse(ELEMENTS[number])
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
    "Add": _several("add"),
    "Cast": _cast,
    "Clip": _clip,
    "Div": _several("div"),
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
    "Mul": _several("mul"),
    "Neg": _eltwise("linear", -1.0),
    "PRelu": _prelu,
    "Pow": _power,
    "Reciprocal": _eltwise("pow", 1.0, -1.0),
    "Relu": _eltwise("relu"),
    "Round": _eltwise("round"),
    "Sigmoid": _eltwise("logistic"),
    "Softplus": _eltwise("soft_relu", 1.0),
    "Sqrt": _eltwise("sqrt"),
    "Sub": _several("sub"),
    "Sum": _sum,
    "Tanh": _eltwise("tanh"),
}
"""By the name of the operator."""
