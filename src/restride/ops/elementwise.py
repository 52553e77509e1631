"""Elementwise: functions that `eltwise` and `binary` do not have, on elements of any type, from one table.

    dst = f(src0), f(src0, src1) or f(src0, src1, src2)          sources are broadcast along their dims of 1
    diff_src = sum(diff_dst * df/dsrc0)                          or of another source; over broadcast dims

Reals are computed in f32, or in f64 if a tensor is f64 or an integer of 32 bits or more. Integers are
computed at the width of the tensors and wrap, as in NumPy, ONNX and torch: unsigned types in the next wider
signed type, u64 in 64 bits with its own comparisons, quotients and shifts. Division by 0 gives 0, and the
least number over -1 gives itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, nan, pi, sqrt
from typing import Any

from ..desc.arguments import ARG_DIFF_DST, ARG_SRC_0, ARG_SRC_1, ARG_SRC_2, short_name
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import refuse
from ..ir.expression import Const, Expr, Ref, TreeAxis, apply
from ..ir.numbers import Number
from ..ir.pointwise import function_bytes
from ..ir.scale_rule import LARGEST
from ..ir.tree import Each, Item, Let, LoopTree, TreeTensor, fold_over
from ..model.derived import make_primitive
from ..model.forms import WrongCall
from ..model.operation import GradientProblem, OperationProblem, is_computed_wide
from ..model.primitive import Primitive
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, broadcast
from .binary import broadcast_descs

# --- the functions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _FormulaWriter:
    """Builds a formula. `is_unsigned`: unsigned 64-bit integers are computed in signed ones.

    `lets`: named values that are computed once.
    """

    number: Number
    is_unsigned: bool
    dst: DataType
    alpha: float
    beta: float
    lets: list[Let] = field(default_factory=list)

    def let(self, value: Expr) -> Expr:
        """Name a value that is used several times."""
        self.lets.append(Let(f"t{len(self.lets)}", value))
        return Ref(self.lets[-1].name)

    def less(self, a: Expr, b: Expr) -> Expr:
        """Return 1 where a < b, else 0."""
        if self.is_unsigned:  # subtracting half of the range turns unsigned order into signed order
            a, b = a + _LEAST, b + _LEAST
        return apply("lt", a, b)

    def quotient(self, a: Expr, b: Expr) -> Expr:
        """Return the integer quotient, truncated toward zero."""
        if not self.is_unsigned:
            return apply("div", a, b)
        # Half of a fits a signed integer, and so does b if its top bit is clear; else the quotient is 0 or 1.
        halves = self.let(apply("shift_left", apply("div", apply("shift_right", a, 1), b), 1))
        below = halves + _not(self.less(a - halves * b, b))
        return _select(apply("eq", b, 0), 0, _select(apply("lt", b, 0), _not(self.less(a, b)), below))


_LEAST = -(1 << 63)
_Formula = Callable[..., Expr]


@dataclass(frozen=True, slots=True)
class ElementFunction:
    """A function: its formulas on reals and on integers (None if undefined) and its number of sources.

    `is_test`: its result is true or false; `is_cast`: it accepts every type.
    """

    sources: int
    reals: _Formula | None
    integers: _Formula | None
    is_test: bool = False
    is_cast: bool = False


def _select(condition: Expr, yes: Expr | float, no: Expr | float) -> Expr:
    return apply("select", condition, yes, no)


def _not(condition: Expr) -> Expr:
    return apply("eq", condition, 0)


def _xor(a: Expr, b: Expr) -> Expr:
    return apply("or", a, b) - apply("and", a, b)


def _nan_or(a: Expr, other: Expr) -> Expr:
    """Return NaN where `a` is NaN, else the other."""
    return _select(apply("ne", a, a), a, other)


def _has_other_sign(a: Expr, b: Expr) -> Expr:
    return apply("ne", apply("lt", a, 0), apply("lt", b, 0))


def _remainder(w: _FormulaWriter, a: Expr, b: Expr) -> Expr:
    """Return the remainder of truncated division, with the sign of a; 0 for a divisor of 0."""
    return _select(apply("eq", b, 0), 0, a - w.quotient(a, b) * b)


def _modulo(w: _FormulaWriter, a: Expr, b: Expr) -> Expr:
    """Return the remainder of floored division, with the sign of b."""
    rest = w.let(_remainder(w, a, b) if w.number.is_integer else apply("fmod", a, b))
    if w.is_unsigned:
        return rest
    return _select(apply("eq", rest, 0), rest, _select(_has_other_sign(rest, b), rest + b, rest))


def _floor_divide(w: _FormulaWriter, a: Expr, b: Expr) -> Expr:
    if w.is_unsigned:
        return w.quotient(a, b)
    if w.number.is_integer:
        quotient = w.let(w.quotient(a, b))
        is_below = _select(apply("eq", quotient * b, a), 0, _has_other_sign(a, b))
        return _select(apply("eq", b, 0), 0, quotient - is_below)
    # The exact quotient is whole once the remainder is subtracted: rounding cannot cross a whole number.
    rest = w.let(_modulo(w, a, b))
    return _select(apply("eq", b, 0), a / b, apply("round", (a - rest) / b))


def _integer_power(w: _FormulaWriter, a: Expr, b: Expr) -> Expr:
    """Square and multiply; a negative exponent gives the truncated inverse: 0, except for 1 and -1."""
    result: Expr = Const(1)
    square = a
    bits = w.number.bits if w.is_unsigned else w.number.bits - 1
    for bit in range(bits):
        mask = 1 << bit if bit < 63 else _LEAST
        result = w.let(_select(apply("and", b, mask), result * square, result))
        square = w.let(square * square)
    if w.is_unsigned:
        return result
    of_one = _select(apply("eq", a, 1), 1, _select(apply("eq", a, -1), 1 - apply("and", b, 1) * 2, 0))
    return _select(apply("lt", b, 0), of_one, result)


def _real_power(w: _FormulaWriter, a: Expr, b: Expr) -> Expr:
    power = apply("pow", a, 1, b)
    return apply("trunc", power) if w.dst.is_integral else power


def _shift_right(w: _FormulaWriter, a: Expr, b: Expr) -> Expr:
    """Shift arithmetically: signed numbers keep their sign."""
    moved = apply("shift_right", a, b)
    if w.is_unsigned:
        return moved
    return _select(apply("lt", a, 0), -1 - apply("shift_right", -1 - a, b), moved)


def _integer_sign(w: _FormulaWriter, a: Expr) -> Expr:
    return apply("ne", a, 0) if w.is_unsigned else apply("gt", a, 0) - apply("lt", a, 0)


def _real_sign(w: _FormulaWriter, a: Expr) -> Expr:
    return _select(apply("gt", a, 0), 1, _select(apply("lt", a, 0), -1, a + 0))


def _clip(w: _FormulaWriter, x: Expr, low: Expr, high: Expr) -> Expr:
    """Clip to both bounds; the upper one wins."""
    return _least(w, w.let(_largest(w, x, low)), high)


def _largest(w: _FormulaWriter, a: Expr, b: Expr) -> Expr:
    larger = _select(w.less(a, b), b, a)
    return larger if w.number.is_integer else _nan_or(b, larger)


def _least(w: _FormulaWriter, a: Expr, b: Expr) -> Expr:
    smaller = _select(w.less(b, a), b, a)
    return smaller if w.number.is_integer else _nan_or(b, smaller)


def _is_infinite(w: _FormulaWriter, a: Expr) -> Expr:
    """Test for infinity; `alpha`: -infinity counts, `beta`: +infinity counts."""
    ends = [apply("eq", a, end) for end, counts in ((-inf, w.alpha), (inf, w.beta)) if counts]
    return ends[0] + ends[1] if len(ends) == 2 else ends[0] if ends else apply("lt", a, a)


def _shrink(w: _FormulaWriter, x: Expr) -> Expr:
    """Shrink toward 0; `alpha`: the bias; `beta`: the magnitude up to which the result is 0."""
    below = _select(apply("lt", x, -w.beta), x + w.alpha, _nan_or(x, Const(0)))
    return _select(apply("gt", x, w.beta), x - w.alpha, below)


def _lerp(w: _FormulaWriter, a: Expr, b: Expr, weight: Expr) -> Expr:
    """Interpolate from the nearer end, so that both ends are exact."""
    is_near = apply("lt", apply("abs", weight), 0.5)
    return _select(is_near, a + weight * (b - a), b - (b - a) * (1 - weight))


def _within(w: _FormulaWriter, x: Expr) -> Expr:
    """Clamp to the finite range of the destination type; NaN stays."""
    most = LARGEST[w.dst]
    return _nan_or(x, apply("min", apply("max", x, -most), most))


def _power(w: _FormulaWriter, x: Expr, operation: str) -> Expr:
    """Return a power of two next to a positive number; `alpha`: clamp to the range of e8m0."""
    power = apply(operation, x)
    if w.alpha:
        power = apply("min", apply("max", power, 2.0**-127), 2.0**127)
    return _nan_or(x, _select(apply("lt", x, 0), nan, power))


def _lowest_bits(w: _FormulaWriter, x: Expr) -> Expr:
    return apply("and", x, 15) if w.dst is DataType.u4 else x


def _of_all(sources: int, formula: _Formula, **kind: bool) -> ElementFunction:
    return ElementFunction(sources, formula, formula, **kind)


def _of_reals(name: str, sources: int = 1) -> ElementFunction:
    """Wrap an expression operation as a function of reals."""
    return ElementFunction(sources, lambda w, *xs: apply(name, *xs), None)


FUNCTIONS = {
    # arithmetic
    "add": _of_all(2, lambda w, a, b: a + b),
    "sub": _of_all(2, lambda w, a, b: a - b),
    "mul": _of_all(2, lambda w, a, b: a * b),
    "div": ElementFunction(2, lambda w, a, b: a / b, lambda w, a, b: w.quotient(a, b)),
    "floor_divide": _of_all(2, _floor_divide),
    "fmod": ElementFunction(2, lambda w, a, b: apply("fmod", a, b), _remainder),
    "mod": _of_all(2, _modulo),
    "pow": ElementFunction(2, _real_power, _integer_power),
    "neg": _of_all(1, lambda w, a: a * -1),
    "abs": ElementFunction(
        1,
        lambda w, a: apply("abs", a),
        lambda w, a: a if w.is_unsigned else _select(apply("lt", a, 0), a * -1, a),
    ),
    "sign": ElementFunction(1, _real_sign, _integer_sign),
    "min": _of_all(2, _least),
    "max": _of_all(2, _largest),
    "clip": _of_all(3, _clip),
    "relu": ElementFunction(1, None, lambda w, a: a if w.is_unsigned else apply("max", a, 0)),
    "prelu": _of_all(2, lambda w, a, b: a if w.is_unsigned else _select(apply("lt", a, 0), a * b, a)),
    # comparisons
    "eq": _of_all(2, lambda w, a, b: apply("eq", a, b), is_test=True),
    "ne": _of_all(2, lambda w, a, b: apply("ne", a, b), is_test=True),
    "lt": _of_all(2, lambda w, a, b: w.less(a, b), is_test=True),
    "gt": _of_all(2, lambda w, a, b: w.less(b, a), is_test=True),
    "le": ElementFunction(
        2, lambda w, a, b: apply("le", a, b), lambda w, a, b: _not(w.less(b, a)), is_test=True
    ),
    "ge": ElementFunction(
        2, lambda w, a, b: apply("ge", a, b), lambda w, a, b: _not(w.less(a, b)), is_test=True
    ),
    "is_nan": ElementFunction(1, lambda w, a: apply("ne", a, a), None, is_test=True),
    "is_inf": ElementFunction(1, _is_infinite, None, is_test=True),
    # truth values, and bits
    "and": _of_all(2, lambda w, a, b: _select(a, apply("ne", b, 0), 0), is_test=True),
    "or": _of_all(2, lambda w, a, b: _select(a, 1, apply("ne", b, 0)), is_test=True),
    "xor": _of_all(2, lambda w, a, b: apply("ne", apply("eq", a, 0), apply("eq", b, 0)), is_test=True),
    "not": _of_all(1, lambda w, a: _not(a), is_test=True),
    "bitwise_and": ElementFunction(2, None, lambda w, a, b: apply("and", a, b)),
    "bitwise_or": ElementFunction(2, None, lambda w, a, b: apply("or", a, b)),
    "bitwise_xor": ElementFunction(2, None, lambda w, a, b: _xor(a, b)),
    "bitwise_not": ElementFunction(1, None, lambda w, a: -1 - a),
    "shift_left": ElementFunction(2, None, lambda w, a, b: apply("shift_left", a, b)),
    "shift_right": ElementFunction(2, None, _shift_right),
    # choices and casts
    "where": ElementFunction(3, None, lambda w, c, a, b: _select(c, a, b)),
    "truncate": ElementFunction(1, lambda w, a: apply("trunc", a), None, is_cast=True),
    "wrap": ElementFunction(1, None, _lowest_bits, is_cast=True),
    "within": ElementFunction(1, _within, None, is_cast=True),
    "power_above": ElementFunction(1, lambda w, a: _power(w, a, "binade_above"), None, is_cast=True),
    "power_below": ElementFunction(1, lambda w, a: _power(w, a, "binade"), None, is_cast=True),
    # functions of reals
    **{name: _of_reals(name) for name in ("floor", "ceil", "trunc", "erf", "expm1", "log1p")},
    **{name: _of_reals(name) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: _of_reals(name) for name in ("sinh", "cosh", "asinh", "acosh", "atanh")},
    "atan2": _of_reals("atan2", 2),
    "celu": ElementFunction(
        1, lambda w, x: _select(apply("lt", x, 0), apply("expm1", x / w.alpha) * w.alpha, x), None
    ),
    "thresholded_relu": ElementFunction(1, lambda w, x: _select(apply("le", x, w.alpha), 0, x), None),
    "shrink": ElementFunction(1, _shrink, None),
    "softsign": ElementFunction(1, lambda w, x: x / (apply("abs", x) + 1), None),
    "lerp": ElementFunction(3, _lerp, None),
}
"""The functions by name, grouped by purpose."""

_ONE, _ZERO = Const(1.0), Const(0.0)


def _power_slope(w: _FormulaWriter, a: Expr, b: Expr) -> Expr:
    return _select(apply("eq", b, 0), 0, b * apply("pow", a, 1, b - 1))


def _exponent_slope(w: _FormulaWriter, a: Expr, b: Expr) -> Expr:
    is_flat = apply("min", apply("eq", a, 0), apply("ge", b, 0))
    return _select(is_flat, 0, apply("pow", a, 1, b) * apply("log", a))


def _extreme_slope(is_other: str) -> _Formula:
    """Equal sources get half of the gradient each; if one is NaN, both get all of it."""
    return lambda w, a, b: _select(apply("eq", a, b), 0.5, _not(apply(is_other, a, b)))


def _turn(x: Expr, a: Expr, b: Expr) -> Expr:
    """Return x / (a**2 + b**2), where the denominator is not 0."""
    squares = a * a + b * b
    return _select(apply("eq", squares, 0), 0, x / squares)


def _off_square(x: Expr) -> Expr:
    """Return 1 - x**2 without cancellation."""
    return (1 - x) * (x + 1)


SLOPES: dict[str, tuple[_Formula, ...]] = {
    "add": (lambda w, a, b: _ONE, lambda w, a, b: _ONE),
    "sub": (lambda w, a, b: _ONE, lambda w, a, b: Const(-1.0)),
    "mul": (lambda w, a, b: b, lambda w, a, b: a),
    "div": (lambda w, a, b: 1 / b, lambda w, a, b: a / b / (b * -1)),
    "fmod": (lambda w, a, b: _ONE, lambda w, a, b: apply("trunc", a / b) * -1),
    "mod": (lambda w, a, b: _ONE, lambda w, a, b: apply("floor", a / b) * -1),
    "pow": (_power_slope, _exponent_slope),
    "neg": (lambda w, a: Const(-1.0),),
    "abs": (_real_sign,),
    "min": (_extreme_slope("gt"), _extreme_slope("lt")),
    "max": (_extreme_slope("lt"), _extreme_slope("gt")),
    "clip": (
        lambda w, x, low, high: apply("min", apply("ge", x, low), apply("le", x, high)),
        lambda w, x, low, high: apply("min", apply("lt", x, low), apply("lt", low, high)),
        lambda w, x, low, high: apply("max", apply("gt", x, high), apply("lt", high, low)),
    ),
    "where": (
        lambda w, c, a, b: _ZERO,
        lambda w, c, a, b: apply("ne", c, 0),
        lambda w, c, a, b: apply("eq", c, 0),
    ),
    **{name: (lambda w, a: _ZERO,) for name in ("sign", "floor", "ceil", "trunc")},
    "erf": (lambda w, x: apply("exp", x * x * -1) * (2 / sqrt(pi)),),
    "expm1": (lambda w, x: apply("exp", x),),
    "log1p": (lambda w, x: 1 / (x + 1),),
    "sin": (lambda w, x: apply("cos", x),),
    "cos": (lambda w, x: apply("sin", x) * -1,),
    "tan": (lambda w, x: 1 / (apply("cos", x) * apply("cos", x)),),
    "asin": (lambda w, x: 1 / apply("sqrt", _off_square(x)),),
    "acos": (lambda w, x: -1 / apply("sqrt", _off_square(x)),),
    "atan": (lambda w, x: 1 / (x * x + 1),),
    "sinh": (lambda w, x: apply("cosh", x),),
    "cosh": (lambda w, x: apply("sinh", x),),
    "asinh": (lambda w, x: 1 / apply("sqrt", x * x + 1),),
    "acosh": (lambda w, x: 1 / apply("sqrt", (x - 1) * (x + 1)),),
    "atanh": (lambda w, x: 1 / _off_square(x),),
    "atan2": (lambda w, a, b: _turn(b, a, b), lambda w, a, b: _turn(a, a, b) * -1),
    "celu": (lambda w, x: _select(apply("gt", x, 0), 1, apply("exp", x / w.alpha)),),
    "thresholded_relu": (lambda w, x: _not(apply("le", x, w.alpha)),),
    "shrink": (lambda w, x: _not(apply("le", apply("abs", x), w.beta)),),
    "softsign": (lambda w, x: 1 / ((apply("abs", x) + 1) * (apply("abs", x) + 1)),),
    "lerp": (lambda w, a, b, t: 1 - t, lambda w, a, b, t: t, lambda w, a, b, t: b - a),
}
"""The derivatives of functions of reals, by source. Functions that torch cannot differentiate are absent."""

# Functions that pass a source through or drop it: a dropped source gets no gradient, not even NaN.
_CHOICES = "min", "max", "clip", "where", "thresholded_relu", "shrink", "sign", "floor", "ceil", "trunc"
# Functions that take no longer than moving a few bytes.
_CHEAP = (*tuple(name for name, each in FUNCTIONS.items() if each.integers), "floor", "ceil", "trunc", "lerp")
_SOURCES = "src0", "src1", "src2"
_ARGS = ARG_SRC_0, ARG_SRC_1, ARG_SRC_2


# --- the primitive ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ElementwiseProblem(OperationProblem):
    """An elementwise function on any type: `dst = f(src0, src1, src2)`.

    Executed with `ARG_SRC_0`, `ARG_DST` and, for more sources, `ARG_SRC_1` and `ARG_SRC_2`. `ARG_DST` can
    share memory with a source of the same descriptor.
    """

    operation = "elementwise"
    primitive = "Elementwise"
    call = "algorithm", "dst", *_SOURCES, "alpha", "beta"
    defaults = {"src1": None, "src2": None, "alpha": 0.0, "beta": 0.0}
    prop_kinds = (PropKind.undef,)
    node_reads = "src0", "src1?", "src2?"
    algorithms = tuple(FUNCTIONS)
    onnx = {
        "Acos": "acos",
        "Acosh": "acosh",
        "And": "and",
        "Asin": "asin",
        "Asinh": "asinh",
        "Atan": "atan",
        "Atanh": "atanh",
        "BitShift": lambda direction: (f"shift_{direction.lower()}",),
        "BitwiseAnd": "bitwise_and",
        "BitwiseNot": "bitwise_not",
        "BitwiseOr": "bitwise_or",
        "BitwiseXor": "bitwise_xor",
        "Ceil": "ceil",
        "Celu": lambda alpha=1.0: ("celu", alpha),
        "Cos": "cos",
        "Cosh": "cosh",
        "Equal": "eq",
        "Erf": "erf",
        "Floor": "floor",
        "Greater": "gt",
        "GreaterOrEqual": "ge",
        "IsInf": lambda detect_negative=1, detect_positive=1: ("is_inf", detect_negative, detect_positive),
        "IsNaN": "is_nan",
        "Less": "lt",
        "LessOrEqual": "le",
        "Mod": lambda fmod=0: ("fmod" if fmod else "mod",),
        "Not": "not",
        "Or": "or",
        "Selu": lambda call, x, *, alpha=1.6732632423543772, gamma=1.0507009873554805: call.onnx(
            "Mul", call.onnx("Elu", x, alpha=alpha), float(gamma)
        ),
        "Shrink": lambda bias=0.0, lambd=0.5: ("shrink", bias, lambd),
        "Sign": "sign",
        "Sin": "sin",
        "Sinh": "sinh",
        "Softsign": "softsign",
        "Swish": lambda call, x, *, alpha=1.0: call.function(x, "swish", alpha),
        "Tan": "tan",
        "ThresholdedRelu": lambda alpha=1.0: ("thresholded_relu", alpha),
        "Xor": "xor",
    }
    integers = {
        **{name: name.lower() for name in ("Abs", "Add", "Div", "Max", "Min", "Mul", "Neg", "PRelu")},
        **{name: name.lower() for name in ("Relu", "Sub")},
        "Sum": "add",
    }
    aten = {
        **{name: name.capitalize() for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil")},
        **{name: name.capitalize() for name in ("cos", "cosh", "erf", "floor", "sign", "sin", "sinh", "tan")},
        **{f"bitwise_{name}": f"Bitwise{name.capitalize()}" for name in ("and", "not", "or", "xor")},
        **{f"logical_{name}": name.capitalize() for name in ("and", "not", "or", "xor")},
        "eq": "Equal",
        "ge": "GreaterOrEqual",
        "gt": "Greater",
        "le": "LessOrEqual",
        "lt": "Less",
        "pow": "Pow",
        "isinf": "IsInf",
        "isnan": "IsNaN",
        **{
            torch_name: lambda call, *xs, _name=name: call.elements(_name, *xs)
            for torch_name, name in {
                **{word: word for word in ("atan2", "expm1", "floor_divide", "fmod", "lerp", "log1p", "ne")},
                "__lshift__": "shift_left",
                "__rshift__": "shift_right",
                "bitwise_left_shift": "shift_left",
                "bitwise_right_shift": "shift_right",
                "remainder": "mod",
                "trunc": "trunc",
            }.items()
        },
    }
    openvino = {
        **{name: name for name in ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf")},
        **{name: name for name in ("Equal", "Floor", "Greater", "IsInf", "IsNaN", "Less", "Sign")},
        **{name: name for name in ("Selu", "Sin", "Sinh", "Tan")},
        **{f"Logical{name}": name for name in ("And", "Not", "Or", "Xor")},
        **{f"Bitwise{name}": f"Bitwise{name}" for name in ("And", "Not", "Or", "Xor")},
        "Ceiling": "Ceil",
        "FloorMod": lambda call, a, b: call.elements("mod", a, b),
        "GreaterEqual": "GreaterOrEqual",
        "LessEqual": "LessOrEqual",
        "Mod": lambda call, a, b: call.elements("fmod", a, b),
        "NotEqual": lambda call, a, b: call.elements("ne", a, b),
        "SoftSign": "Softsign",
    }
    arguments = """
    `algorithm`: "elementwise_add" or "add", and so on; it determines the number of sources. Each dim of a
    source is that of the destination, or 1, which is broadcast. Sources of format "any" follow the first;
    `dst` follows the first source that has its dims. `alpha`, `beta`: parameters of celu, thresholded_relu,
    shrink, is_inf. `attr`: the scratchpad mode."""

    algorithm: str
    srcs: tuple[MemoryDesc, ...]
    dst: MemoryDesc
    alpha: float = 0.0
    beta: float = 0.0
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> ElementwiseProblem:
        algorithm = call.algorithm()
        srcs, dst = broadcast_descs(call, _source_names(call, algorithm, Elementwise))
        problem = cls(algorithm, srcs, dst, call.number("alpha"), call.number("beta"), call.attr())
        problem._check_types(call.what)
        return problem

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        if len(tensors) != FUNCTIONS[_name_of(node)].sources:
            raise Misfit(f"{node.algorithm} takes a different number of tensors")
        return broadcast(*(tensor.dims for tensor in tensors))

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        function = FUNCTIONS[_name_of(node)]
        if function.is_cast:
            return (node.data_type,)
        if function.is_test:
            return (DataType.boolean,)
        return (tensors[_name_of(node) == "where"].data_type,)

    @property
    def verbose_aux(self) -> str:
        numbers = f" alpha:{self.alpha:g} beta:{self.beta:g}" if self.alpha or self.beta else ""
        return f"alg:elementwise_{self.algorithm}{numbers}"

    def sources(self) -> dict[int, MemoryDesc]:
        return dict(zip(_ARGS, self.srcs, strict=False))

    @property
    def is_of_integers(self) -> bool:
        """True if it is computed in integers; a choice counts, since it moves the bits of its elements."""
        types = [md.data_type for md in self.srcs]
        has_no_reals = all(kind.is_integral or kind is DataType.boolean for kind in types)
        return self.algorithm == "where" or (has_no_reals and FUNCTIONS[self.algorithm].integers is not None)

    def _check_types(self, what: str) -> None:
        """Raise Unimplemented for types that the function does not support."""
        function, kinds, to = (
            FUNCTIONS[self.algorithm],
            [md.data_type for md in self.srcs],
            self.dst.data_type,
        )
        if self.algorithm == "where":
            fits = {*kinds[1:]} == {to} and to.bits >= 8
        elif self.is_of_integers:
            fits = to.is_integral or to is DataType.boolean
        else:
            is_of_f32 = not is_computed_wide(*self.srcs, self.dst)
            fits = (
                function.reals is not None
                and (is_of_f32 or not self.algorithm.startswith("power_"))
                and (self.algorithm != "within" or (to.kind == "float" and to in LARGEST))
            )
        if not fits:
            types = ", ".join(map(str, (*kinds, to)))
            raise refuse("RS-L02:function-of-types", what=what, algorithm=self.algorithm, types=types)

    def _numbers(self) -> tuple[Number, bool]:
        """The type of the computation, and whether it stands for unsigned 64-bit integers."""
        if self.algorithm == "where":
            return Number.integer(self.dst.data_type.bits), False
        if not self.is_of_integers:
            return Number.real(is_wide=is_computed_wide(*self.srcs, self.dst)), False
        kinds = [md.data_type for md in self.srcs]
        widths = (max(kind.bits * (1 + (kind.kind == "uint")), 8 + 8 * (kind.bits == 4)) for kind in kinds)
        return Number.integer(min(max(widths), 64)), DataType.u64 in kinds

    def tree(self) -> LoopTree:
        """The loop tree: one value for each element."""
        number, is_unsigned = self._numbers()
        writer = _FormulaWriter(number, is_unsigned, self.dst.data_type, self.alpha, self.beta)
        tensors = [TreeTensor.of_desc(short_name(arg), md) for arg, md in self.by_argument().items()]
        index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.dst.dims))
        function = FUNCTIONS[self.algorithm]
        formula = function.integers if self.is_of_integers else function.reals
        assert formula is not None
        value = formula(writer, *(tensor.load(*index) for tensor in tensors[:-1]))
        loop = Each(index, (*writer.lets, tensors[-1].store(index, value)))
        return LoopTree(tuple(tensors), (loop,), 0, number).verify()

    @property
    def work_bytes(self) -> int:
        return self.moved_bytes + function_bytes(self.attr, _cost_of(self.algorithm)) * self.dst.nelems


@dataclass(frozen=True, slots=True)
class ElementwiseBackwardProblem(GradientProblem):
    """The gradient of one source of an elementwise function: `diff_src = diff_dst * df/dsrc0`.

    Executed with `ARG_DIFF_DST`, the sources as in the forward step, and `ARG_DIFF_SRC`, which can share
    memory with a source of the same descriptor. It is summed over the dims that the source broadcasts. At
    discontinuities it equals torch's.
    """

    operation = "elementwise"
    primitive = "ElementwiseBackward"
    call = "algorithm", "diff_src", "diff_dst", *_SOURCES, "source", "alpha", "beta"
    defaults = {"src1": None, "src2": None, "source": 0, "alpha": 0.0, "beta": 0.0}
    algorithms = tuple(SLOPES)
    arguments = """
    `algorithm`, the sources, `alpha` and `beta` are as in the forward step. `source`: the index of the source
    it is the gradient of, 0, 1 or 2. Gradients of format "any" follow the first source."""

    algorithm: str
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    srcs: tuple[MemoryDesc, ...]
    source: int = 0
    alpha: float = 0.0
    beta: float = 0.0
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> ElementwiseBackwardProblem:
        algorithm, source = call.algorithm(), call.integer("source")
        names = _source_names(call, algorithm, ElementwiseBackward)
        srcs, diff_dst = broadcast_descs(call, names, "diff_dst")
        if not 0 <= source < len(srcs):
            raise refuse("RS-V05:gradient-source", what=call.what, source=source, last=len(srcs) - 1)
        diff_src = call.written("diff_src", srcs[source])
        call.same_dims(**{_SOURCES[source]: srcs[source], "diff_src": diff_src})
        numbers = call.number("alpha"), call.number("beta")
        return cls(algorithm, diff_src, diff_dst, srcs, source, *numbers, call.attr())

    @property
    def verbose_aux(self) -> str:
        numbers = f" alpha:{self.alpha:g} beta:{self.beta:g}" if self.alpha or self.beta else ""
        return f"alg:elementwise_{self.algorithm} source:{self.source}{numbers}"

    def sources(self) -> dict[int, MemoryDesc]:
        return {ARG_DIFF_DST: self.diff_dst, **dict(zip(_ARGS, self.srcs, strict=False))}

    def tree(self) -> LoopTree:
        """The loop tree: one value for each element, or a fold over broadcast dims."""
        number = Number.real(is_wide=is_computed_wide(*self.srcs, self.diff_src, self.diff_dst))
        writer = _FormulaWriter(number, False, self.diff_dst.data_type, self.alpha, self.beta)
        gradient, *sources, out = (
            TreeTensor.of_desc(short_name(arg), md) for arg, md in self.by_argument().items()
        )
        index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.diff_dst.dims))
        slope = SLOPES[self.algorithm][self.source](writer, *(tensor.load(*index) for tensor in sources))
        value: Expr = gradient.load(*index) * slope
        if self.algorithm in _CHOICES:
            value = _select(apply("ne", slope, 0), value, 0)
        repeated = tuple(axis for axis, n in zip(index, out.sizes, strict=True) if axis.extent != n)
        items: tuple[Item, ...] = tuple(writer.lets)
        if repeated:
            items, value = (Each(repeated, (*items, fold_over("sum", "total", value))),), Ref("total")
        axes = tuple(axis for axis in index if axis not in repeated)
        loop = Each(axes, (*items, out.store(index, value)))
        return LoopTree((gradient, *sources, out), (loop,), 0, number).verify()

    @property
    def work_bytes(self) -> int:
        return self.moved_bytes + function_bytes(self.attr, _cost_of(self.algorithm)) * self.diff_dst.nelems


def _source_names(call: ArgumentReader, algorithm: str, primitive: type[Primitive]) -> list[str]:
    """Return the names of the sources; their number must fit the function. Raises InvalidArguments."""
    count = FUNCTIONS[algorithm].sources
    names = [name for name in _SOURCES if name == "src0" or getattr(call, name) is not None]
    if names != [*_SOURCES[:count]]:
        raise refuse(
            "RS-V07:wrong-number-sources",
            error=WrongCall,
            what=call.what,
            algorithm=algorithm,
            which=("one", "two", "three")[count - 1],
            shown=primitive.PrimitiveDesc.form.shown,
        )
    return names


def _name_of(node: Any) -> str:
    """Return the function of a graph node."""
    name = str(node.algorithm).removeprefix("elementwise_")
    if name not in FUNCTIONS:
        raise Misfit(f"unknown function {name}")
    return name


def _cost_of(algorithm: str) -> str:
    """Return an eltwise function that takes about as long."""
    return "relu" if algorithm in _CHEAP else "exp"


Elementwise = make_primitive(ElementwiseProblem)
ElementwiseBackward = make_primitive(ElementwiseBackwardProblem)
