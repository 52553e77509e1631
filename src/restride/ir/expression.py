"""Expressions of loop trees: values at one position of the loops, each operation written once.

    expr  := number | scalar | load | coordinate | name | op expr*
    load  := tensor index*
    index := (constant + sum of coefficient * axis) / divisor | load

`Term` defines every operation and every fold over any arithmetic (`ir/arithmetic.py`): NumPy in the
interpreter, vectors of LLVM in kernels. Values are reals, f32 or f64; a condition is 1 or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Any

from .arithmetic import Arithmetic, Term, V, with_sign
from .eltwise import ALGORITHMS
from .eltwise import apply as eltwise
from .eltwise_singles import limited, weigh

# --- indices ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Affine:
    """An index: `(constant + sum of coefficient * axis) / divisor`.

    If the divisor does not divide, or the index can be out of range, a `Guard` must exclude such positions.
    """

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0
    divisor: int = 1

    def __add__(self, other: Affine | TreeAxis | int) -> Affine:
        added = _affine(other)
        counts = dict(self.terms)
        for name, factor in added.terms:
            counts[name] = counts.get(name, 0) + factor
        terms = tuple((name, factor) for name, factor in counts.items() if factor)
        return Affine(terms, self.constant + added.constant)

    def __sub__(self, other: Affine | TreeAxis | int) -> Affine:
        return self + _affine(other) * -1

    def __mul__(self, factor: int) -> Affine:
        terms = tuple((name, each * factor) for name, each in self.terms if factor)
        return Affine(terms, self.constant * factor)

    def __floordiv__(self, divisor: int) -> Affine:
        return Affine(self.terms, self.constant, self.divisor * divisor)

    @property
    def axes(self) -> frozenset[str]:
        """The names of the axes that it depends on."""
        return frozenset(name for name, _ in self.terms)

    def with_axes(self, others: Mapping[str, Affine]) -> Affine:
        """Return the index with named axes replaced."""
        total = Affine((), self.constant)
        for name, factor in self.terms:
            total = total + others.get(name, Affine(((name, 1),))) * factor
        return replace(total, divisor=self.divisor)

    @property
    def axis(self) -> str | None:
        """The name of the axis if the index is just that axis, else None."""
        plain = len(self.terms) == 1 and self.terms[0][1] == 1 and not self.constant and self.divisor == 1
        return self.terms[0][0] if plain else None

    def __str__(self) -> str:
        parts = [name if factor == 1 else f"{factor} * {name}" for name, factor in self.terms]
        text = " + ".join([*parts, *([str(self.constant)] if self.constant or not parts else [])])
        text = text.replace("+ -", "- ")
        return text if self.divisor == 1 else f"({text}) / {self.divisor}"


@dataclass(frozen=True, slots=True)
class TreeAxis:
    """A named loop axis: positions 0 to `extent` - 1. It can be used as an index."""

    name: str
    extent: int

    def __add__(self, other: Affine | TreeAxis | int) -> Affine:
        return _affine(self) + other

    def __sub__(self, other: Affine | TreeAxis | int) -> Affine:
        return _affine(self) - other

    def __mul__(self, factor: int) -> Affine:
        return _affine(self) * factor

    def __str__(self) -> str:
        return f"{self.name} {self.extent}"


def _affine(index: Affine | TreeAxis | int) -> Affine:
    if isinstance(index, TreeAxis):
        return Affine(((index.name, 1),))
    return Affine((), index) if isinstance(index, int) else index


def index_of(*indices: Affine | TreeAxis | int) -> tuple[Affine, ...]:
    """Return axes and numbers as indices."""
    return tuple(map(_affine, indices))


def place_of(*indices: Index | TreeAxis | int) -> tuple[Index, ...]:
    """Return the same, where some can be elements of tensors."""
    return tuple(at if isinstance(at, Load) else _affine(at) for at in indices)


# --- expressions --------------------------------------------------------------------------------------------


class Expr:
    """A value at one position. Operators create `Apply`s; plain numbers are constants."""

    __slots__ = ()

    def __add__(self, other: Expr | float) -> Apply:
        return apply("add", self, other)

    def __sub__(self, other: Expr | float) -> Apply:
        return apply("sub", self, other)

    def __rsub__(self, other: float) -> Apply:
        return apply("sub", other, self)

    def __mul__(self, other: Expr | float) -> Apply:
        return apply("mul", self, other)

    def __truediv__(self, other: Expr | float) -> Apply:
        return apply("div", self, other)

    def __rtruediv__(self, other: float) -> Apply:
        return apply("div", other, self)


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A number, rounded to the computed type; integers are taken modulo their range.

    There is only one NaN, so that equal trees are equal.
    """

    number: float

    def __post_init__(self) -> None:
        if self.number != self.number:
            object.__setattr__(self, "number", nan)

    def __eq__(self, other: object) -> bool:
        # From Python 3.13 on, a dataclass's generated comparison no longer treats identical NaNs as equal.
        return type(other) is Const and (self.number is other.number or self.number == other.number)

    def __str__(self) -> str:
        short = f"{self.number:g}"
        if self.number != self.number or float(short) == self.number:
            return short
        is_double = float(self.number) == self.number
        return repr(float(self.number)).removesuffix(".0") if is_double else str(self.number)


@dataclass(frozen=True, slots=True)
class Scalar(Expr):
    """A number passed at execution: its index among the scalars of the step."""

    number: int

    def __str__(self) -> str:
        return f"scalar {self.number}"


@dataclass(frozen=True, slots=True)
class Load(Expr):
    """An element of a tensor, as a real number.

    As an index of another tensor, it is the integer it holds, exactly: a negative one counts from the end of
    the dim, and one still out of range is clamped, so that memory outside is never accessed. The index of
    such a load contains no loads.
    """

    tensor: str
    index: tuple[Index, ...]

    @property
    def axes(self) -> frozenset[str]:
        """The names of the axes that it depends on."""
        return frozenset[str]().union(*(at.axes for at in self.index))

    @property
    def axis(self) -> None:
        """None, as an element used as an index is never just an axis."""
        return

    @property
    def elements(self) -> tuple[Load, ...]:
        """The indices that are elements of other tensors."""
        return tuple(at for at in self.index if isinstance(at, Load))

    def with_axes(self, others: Mapping[str, Affine]) -> Load:
        """Return the load with named axes replaced."""
        return Load(self.tensor, tuple(at.with_axes(others) for at in self.index))

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.index))}]"


Index = Affine | Load
"""The index of an element along a dim."""


@dataclass(frozen=True, slots=True)
class Coordinate(Expr):
    """An index as a number."""

    index: Affine

    def __str__(self) -> str:
        return f"index({self.index})"


@dataclass(frozen=True, slots=True)
class Ref(Expr):
    """The value of a `Let`, or the result of a `Fold` after its loops."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Apply(Expr):
    """An operation: one of `OPERATIONS`, or an eltwise function of (value, alpha, beta)."""

    op: str
    args: tuple[Expr, ...]

    def __str__(self) -> str:
        if self.op in _SYMBOLS and len(self.args) == 2:
            first, second = map(_inner_text, self.args)
            return f"{first} {_SYMBOLS[self.op]} {second}"
        return f"{self.op}({', '.join(map(str, self.args))})"


def _inner_text(expr: Expr) -> str:
    return f"({expr})" if isinstance(expr, Apply) and expr.op in _SYMBOLS else str(expr)


_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def apply(op: str, *args: Expr | float) -> Apply:
    """Return an operation on expressions and numbers."""
    return Apply(op, tuple(arg if isinstance(arg, Expr) else Const(arg) for arg in args))


def parts_of(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and its subexpressions."""
    yield expr
    if isinstance(expr, Apply):
        for arg in expr.args:
            yield from parts_of(arg)
    elif isinstance(expr, Load):
        yield from expr.elements


# --- operations ---------------------------------------------------------------------------------------------

_Operation = Callable[..., Term[Any]]


def _truth(condition: Term[V], like: Term[V]) -> Term[V]:
    return condition.where(like.number(1.0), like.number(0.0))


def _less(a: Term[V], b: Term[V]) -> Term[V]:
    return _truth(a < b, a)


def _less_equal(a: Term[V], b: Term[V]) -> Term[V]:
    return _truth((a < b) | a.equals(b), a)


def _equal(a: Term[V], b: Term[V]) -> Term[V]:
    return _truth(a.equals(b), a)


def _unequal(a: Term[V], b: Term[V]) -> Term[V]:
    return a.equals(b).where(a.number(0.0), a.number(1.0))


# (e**r - 1 - r) / r**2 for |r| <= ln(2) / 2, lowest power first; to 2**-29 of e**r.
_EXP = tuple(
    map(float.fromhex, ("0x1p-1", "0x1.5554d8p-3", "0x1.5554e4p-5", "0x1.121072p-7", "0x1.6d4926p-10"))
)
# 1 / ln(2), and ln(2) in two parts: products of the first with an exponent are exact.
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.4426950216293335, 0.693145751953125, 1.428606765330187e-06
# 1.5 * 2**23: adding it rounds to a whole number, which then stands in the lowest bits.
_ROUNDER, _ROUNDER_BITS, _BIAS = 12582912.0, 0x4B400000, 127
# Below this, e**x is not a normal number.
_LEAST_EXPONENT = -87.0


def _power_parts(x: Term[V]) -> tuple[Term[V], Term[V]]:
    """Return e**x as (1 + first) * second, for |x| <= 87: the second is a power of 2."""
    shifted = x * _LOG2_E + _ROUNDER
    k = shifted - _ROUNDER
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    square = r * r
    even = (square * _EXP[4] + _EXP[2]) * square + _EXP[0]
    odd = (square * _EXP[3] + _EXP[1]) * r
    power = ((shifted.bits() - (_ROUNDER_BITS - _BIAS)) << 23).real()
    return (even + odd) * square + r, power


def _exp_down(x: Term[V]) -> Term[V]:
    """Return e**x as f32, for x <= 0, to its last two places; 0 where that is not a normal number."""
    first, power = _power_parts((x < _LEAST_EXPONENT).where(_LEAST_EXPONENT, x))
    return (x < _LEAST_EXPONENT).where(0.0, (first + 1.0) * power)


def _logistic_single(x: Term[V]) -> Term[V]:
    """Return 1 / (1 + e**-x) as f32, to its last two places; x is clamped at -87."""
    above = (x < _LEAST_EXPONENT).where(_LEAST_EXPONENT, x)
    inside = (above > -_LEAST_EXPONENT).where(-_LEAST_EXPONENT, above)
    first, power = _power_parts(0.0 - inside)
    return 1.0 / ((first + 1.0) * power + 1.0)


def _tanh_single(x: Term[V]) -> Term[V]:
    """Return tanh(x) as f32, to its last two places: (1 - e**-2|x|) / (1 + e**-2|x|) does not cancel."""
    size = (x < 0.0).where(x, 0.0 - x) * 2.0
    first, power = _power_parts((size < _LEAST_EXPONENT).where(_LEAST_EXPONENT, size))
    less = (1.0 - power) - power * first
    above = less / (2.0 - less)
    return (x < 0.0).where(0.0 - above, above)


def _linear_single(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    return ((alpha * s).single() + beta).single()


def _hardsigmoid_single(s: Term[V], alpha: Term[V], beta: Term[V]) -> Term[V]:
    return limited(_linear_single(s, alpha, beta), 0.0, 1.0)


# The exponents of f32 among its bits, and one more of them.
_EXPONENT, _EXPONENT_STEP = 0x7F800000, 1 << 23


def _floor(a: Term[V]) -> Term[V]:
    near = a.round()
    return (near > a).where(near - 1.0, near)


def _ceil(a: Term[V]) -> Term[V]:
    near = a.round()
    return with_sign((near < a).where(near + 1.0, near), a)


def _trunc(a: Term[V]) -> Term[V]:
    size = (a < 0.0).where(0.0 - a, a)
    near = size.round()
    return with_sign((near > size).where(near - 1.0, near), a)


OPERATIONS: dict[str, tuple[int, _Operation]] = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul": (2, lambda a, b: a * b),
    "div": (2, lambda a, b: a / b),
    "min": (2, lambda a, b: (a < b).where(a, b)),
    "max": (2, lambda a, b: (a > b).where(a, b)),
    "lt": (2, _less),
    "le": (2, _less_equal),
    "gt": (2, lambda a, b: _less(b, a)),
    "ge": (2, lambda a, b: _less_equal(b, a)),
    "eq": (2, _equal),
    "ne": (2, _unequal),
    "exp_down": (1, _exp_down),
    "logistic_single": (1, _logistic_single),
    "tanh_single": (1, _tanh_single),
    "linear_single": (3, _linear_single),
    "hardsigmoid_single": (3, _hardsigmoid_single),
    "hardswish_single": (3, lambda s, *more: weigh(s, _hardsigmoid_single(s, *more)).single()),
    "floor": (1, _floor),
    "ceil": (1, _ceil),
    "trunc": (1, _trunc),
    "and": (2, lambda a, b: a & b),
    "or": (2, lambda a, b: a | b),
    "shift_left": (2, lambda a, b: a << b),
    "shift_right": (2, lambda a, b: a >> b),
    "select": (3, lambda c, a, b: c.equals(0.0).where(b, a)),
    "single": (1, lambda a: a.single()),
    "binade": (1, lambda a: (a.bits() & _EXPONENT).real()),
    "binade_above": (1, lambda a: (a.bits() + (_EXPONENT_STEP - 1) & _EXPONENT).real()),
}
"""Operations by name: the number of arguments, and the meaning.

As in the steps of post-ops, if a side is NaN, min and max give the second, and every comparison but `ne`
gives 0. `select(c, a, b)` is b where c is 0. `single` rounds to f32: in an f64 tree, operations between such
roundings are those of f32. Only for integers, bitwise: `and`, `or`, and shifts, which fill with zeros and
give 0 for counts of at least the width. Integer division truncates toward zero, and division by 0 gives 0.
"""


# Functions that round after each operation.
_SEVERAL = ("linear", "hardsigmoid", "hardswish")


def in_single(value: Expr) -> Expr:
    """Return an f64 expression computed in f32: its inputs and the results of all operations are rounded.

    A sum, product, quotient or root of f32 values computed in f64 and then rounded equals that in f32.
    Functions of several such operations are replaced by those that round each of them.
    """
    if isinstance(value, Const):
        return value
    if isinstance(value, Apply):
        op = f"{value.op}_single" if value.op in _SEVERAL else value.op
        value = Apply(op, tuple(map(in_single, value.args)))
    return apply("single", value)


def operands_of(op: str) -> int:
    """Return the number of arguments of an operation; for an eltwise function, the most."""
    return OPERATIONS[op][0] if op in OPERATIONS else 3


def evaluate(op: str, ar: Arithmetic[V], args: Sequence[V]) -> V:
    """Evaluate an operation on values of an arithmetic."""
    if op in OPERATIONS:
        result: Term[V] = OPERATIONS[op][1](*(Term(ar, arg) for arg in args))
        return result.value
    value, *more = args
    alpha, beta = (*more, *[ar.constant(0.0, value)] * 2)[:2]
    return eltwise(op, ar, value, alpha, beta)


def is_never_nan(value: Expr, integral: Container[str] = ()) -> bool:
    """Return whether an expression is provably not NaN; `integral`: tensors of integers."""
    if isinstance(value, Const | Load):
        return _is_finite(value, integral)
    if not isinstance(value, Apply):
        return False
    if value.op in ("min", "max"):
        # With a NaN on one side, they give the second argument.
        return is_never_nan(value.args[1], integral)
    is_sum = value.op == "add" and _is_finite(value.args[1], integral)
    return value.op == "nan_to_zero" or (is_sum and is_never_nan(value.args[0], integral))


def _is_finite(value: Expr, integral: Container[str]) -> bool:
    is_finite = isinstance(value, Const) and isfinite(value.number)
    return is_finite or (isinstance(value, Load) and value.tensor in integral)


def is_costly(op: str) -> bool:
    """Return whether a function takes many operations."""
    return op in ALGORITHMS and ALGORITHMS[op].in_double


def is_long(op: str) -> bool:
    """Return whether a function's code is tens of operations, including fast ones."""
    return op == "exp_down" or is_costly(op)


# --- folds --------------------------------------------------------------------------------------------------

States = tuple[Term[Any], ...]


@dataclass(frozen=True, slots=True)
class FoldOp:
    """An associative operation: its neutral element, and the combination of two states."""

    identity: tuple[float, ...]
    combine: Callable[[States, States], States]


def _larger(a: States, b: States) -> States:
    """Return the larger; NaN wins."""
    (x,), (y,) = a, b
    return (y.equals(y).where((y > x).where(y, x), y),)


def _smaller(a: States, b: States) -> States:
    (x,), (y,) = a, b
    return (y.equals(y).where((y < x).where(y, x), y),)


def _first_largest(a: States, b: States) -> States:
    """Return value and position of the largest; the first of equal ones, and the first NaN if any."""
    (x, i), (y, j) = a, b
    is_number, is_first, never = y.equals(y), i < j, i < i
    of_numbers = is_number.where((x > y) | (x.equals(y) & is_first), never)
    keeps = x.equals(x).where(of_numbers, is_number | is_first)
    return keeps.where(x, y), keeps.where(i, j)


def _moments(a: States, b: States) -> States:
    """Combine count, mean and sum of squared deviations of two groups."""
    (n, mean, square), (m, other, more) = a, b
    count = n + m
    weight = count.equals(0.0).where(n.number(0.0), m / count)
    distance = other - mean
    return count, mean + distance * weight, square + more + distance * distance * (n * weight)


_INFINITY = float("inf")
FOLDS: dict[str, FoldOp] = {
    "sum": FoldOp((0.0,), lambda a, b: (a[0] + b[0],)),
    "mul": FoldOp((1.0,), lambda a, b: (a[0] * b[0],)),
    "max": FoldOp((-_INFINITY,), _larger),
    "min": FoldOp((_INFINITY,), _smaller),
    "argmax": FoldOp((-_INFINITY, _INFINITY), _first_largest),
    "moments": FoldOp((0.0, 0.0, 0.0), _moments),
}
"""Folds by name. `argmax` has a value and a position, `moments` a count, a mean and a sum of squares."""


def fold(op: str, ar: Arithmetic[V], one: Sequence[V], other: Sequence[V]) -> tuple[V, ...]:
    """Combine two states of a fold."""
    a, b = (tuple(Term(ar, each) for each in side) for side in (one, other))
    return tuple(term.value for term in FOLDS[op].combine(a, b))
