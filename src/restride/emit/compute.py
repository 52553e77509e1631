"""The steps of a computation on one register of values (N1). `ir/conversion.py` is the definition."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..dtypes import DataType
from ..ir.eltwise import ALGORITHMS
from ..ir.eltwise import apply as eltwise
from ..ir.expression import evaluate, is_costly
from ..ir.nest import SCALAR, Compute, Step
from .access import are_close, are_scattered, load_apart, load_close, load_run
from .builder import Builder, Value, element_of, lanes_of, vector
from .convert import Abilities, bits_type, from_real, real_type, to_real
from .register_permutation import NOTHING, Lanes

# --- arithmetic --------------------------------------------------------------
# The arithmetic of `ir/arithmetic.py` as LLVM IR, on vectors of any number of lanes (N1).

_BITS = {"float": "i32", "double": "i64"}
_REALS = {bits: real for real, bits in _BITS.items()}
# Magnitudes from which on every value is an integer: 2**23 and 2**52.
_WHOLE_FROM = {"float": 2.0**23, "double": 2.0**52}

_Two = Callable[["VectorArithmetic", Value, Value], Value]
_Shift = Callable[["VectorArithmetic", Value, int], Value]


def _op(name: str) -> _Two:
    """Return a method that writes a binary operation; that of reals has an f before its name."""

    def write(self: VectorArithmetic, a: Value, b: Value) -> Value:
        return self.b.op(f"f{name}" if element_of(a) in _BITS else name, a, b)

    return write


def _shift(name: str) -> _Shift:
    def write(self: VectorArithmetic, a: Value, count: int) -> Value:
        return self.b.op(name, a, self.constant(count, a))

    return write


@dataclass(frozen=True, slots=True)
class VectorArithmetic:
    """Writes each operation of `Arithmetic` into `b`; operands have equal numbers of lanes.

    `round_even`: the instruction set can round half to even (`Abilities`).
    """

    b: Builder
    round_even: bool = False

    def constant(self, number: float, like: Value) -> Value:
        """Return `number` in every lane, in the type of `like`."""
        element = element_of(like)
        text = str(int(number)) if element.startswith("i") else _text(number, element)
        return self.b.splat(element, lanes_of(like), text)

    def is_wide(self, a: Value) -> bool:
        """Return whether values are f64."""
        return element_of(a) == "double"

    def sqrt(self, a: Value) -> Value:
        """Square root: one instruction everywhere, correctly rounded."""
        return self.b.intrinsic("sqrt", a)

    def round(self, a: Value) -> Value:
        """Round half to even; without an instruction, adding 2**23 or 2**52 removes the fraction."""
        if self.round_even:
            return self.b.intrinsic("roundeven", a)
        limit, size = self.constant(_WHOLE_FROM[element_of(a)], a), self.b.intrinsic("fabs", a)
        whole = self.sub(self.add(size, limit), limit)
        return self.select(self.less(size, limit), self.b.intrinsic("copysign", whole, a), a)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Lanes of `a` where the condition holds, else of `b`."""
        made = self.b.select(condition, a, b)
        if (a, b) == (self.constant(1, a), self.constant(0, a)):
            self.b.conditions[made.ref] = condition
        return made

    def equal(self, a: Value, b: Value) -> Value:
        """Return whether two reals are equal. For a number made from a condition, that is the condition."""
        is_integer = element_of(a).startswith("i")
        condition = self.b.conditions.get(a.ref)
        if condition is None or b != self.constant(0, a):
            return self.b.compare("icmp eq" if is_integer else "fcmp oeq", a, b)
        # No `xor`: Intel's SPIR-V compiler does not support it on booleans.
        return self.b.compare("icmp eq", condition, self.b.splat("i1", lanes_of(condition), "false"))

    def less(self, a: Value, b: Value) -> Value:
        """Return whether one number is less than another."""
        return self.b.compare("icmp slt" if element_of(a).startswith("i") else "fcmp olt", a, b)

    def bits(self, a: Value) -> Value:
        """The bits of reals."""
        return self.b.bitcast(a, _BITS[element_of(a)])

    def real(self, a: Value) -> Value:
        """The reals of bits."""
        return self.b.bitcast(a, _REALS[element_of(a)])

    def widen(self, a: Value) -> Value:
        """Convert f32 to f64."""
        return a if element_of(a) == "double" else self.b.cast("fpext", a, "double")

    def narrow(self, a: Value, like: Value) -> Value:
        """Round f64 to the type of `like`."""
        return a if element_of(like) == "double" else self.b.cast("fptrunc", a, "float")

    def single(self, a: Value) -> Value:
        """Round f64 to f32, kept in f64."""
        return (
            a
            if element_of(a) == "float"
            else self.b.cast("fpext", self.b.cast("fptrunc", a, "float"), "double")
        )

    def div(self, a: Value, b: Value) -> Value:
        """Quotient; integer division never traps."""
        if element_of(a) in _BITS:
            return self.b.op("fdiv", a, b)
        zero = self.constant(0, a)
        is_zero = self.b.compare("icmp eq", b, zero)
        least = self.b.compare("icmp eq", a, self.constant(-1 << int(element_of(a)[1:]) - 1, a))
        overflows = self.b.op("and", least, self.b.compare("icmp eq", b, self.constant(-1, a)))
        divisor = self.b.select(self.b.op("or", is_zero, overflows), self.constant(1, a), b)
        return self.b.select(is_zero, zero, self.b.op("sdiv", a, divisor))

    def shift_left_by(self, a: Value, counts: Value) -> Value:
        """Shift integers left by counts, none of which reaches the width."""
        return self._moved("shl", a, counts)

    def shift_right_by(self, a: Value, counts: Value) -> Value:
        """Shift integers right by counts."""
        return self._moved("lshr", a, counts)

    def _moved(self, name: str, a: Value, counts: Value) -> Value:
        zero, bits = self.constant(0, a), int(element_of(a)[1:])
        is_inside = self.b.compare("icmp ult", counts, self.constant(bits, a))
        return self.b.select(is_inside, self.b.op(name, a, self.b.select(is_inside, counts, zero)), zero)

    add, sub, mul = _op("add"), _op("sub"), _op("mul")
    both, either = _op("and"), _op("or")
    shift_left, shift_right = _shift("shl"), _shift("lshr")


def _text(number: float, element: str) -> str:
    """Return a real, rounded to `element`, in LLVM's syntax for both kinds: the bits of the f64."""
    held = number if element == "double" else struct.unpack("<f", struct.pack("<f", number))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', held))[0]:016X}"


# --- operand -----------------------------------------------------------------
# Operands of a computation in the lanes of a register: loaded once for a tile.


class Tensors:
    """The operands at one tile: their addresses, types, and the offset of each element of the tile."""

    def __init__(
        self,
        b: Builder,
        pointers: Sequence[Value],
        types: Sequence[DataType],
        offsets: Sequence[tuple[int, ...]],
        present: tuple[bool, ...],
        real: str,
        can: Abilities,
    ) -> None:
        self._b, self._pointers, self._types, self._offsets = b, pointers, types, offsets
        self._present, self._real, self._can = present, real, can
        self._known: dict[tuple[int, tuple[int, ...]], Value] = {}
        self._all = tuple(_distinct(places, present) for places in offsets)

    def lanes(self, index: int, lanes: Lanes) -> Value:
        """Return real values of operand `index` for the elements in `lanes`; undefined for others."""
        offsets = self._offsets[index]
        wanted = [offsets[e] if e != NOTHING and self._present[e] else None for e in lanes]
        distinct = tuple(sorted({offset for offset in wanted if offset is not None}))
        if self._are_of_groups(index, distinct, len(lanes)):
            distinct = self._all[index]
        values = self._values(index, distinct)
        place = {offset: lane for lane, offset in enumerate(distinct)}
        mask = [0 if offset is None else place[offset] for offset in wanted]
        if mask == list(range(lanes_of(values))):
            return values
        return self._b.shuffle(values, values, mask)

    def offsets(self, lanes: Lanes) -> list[tuple[int, ...]]:
        """Return the offsets of all operands for the elements in `lanes`."""
        return [tuple(offsets[e] for offsets in self._offsets) for e in lanes]

    def _are_of_groups(self, index: int, distinct: tuple[int, ...], lanes: int) -> bool:
        """Return whether many lanes share the converted values, and one short load covers the tile."""
        if self._types[index] is DataType.f32:
            return False
        every = self._all[index]
        is_short = 1 < len(every) <= _CONVERTED_AT_ONCE and len(_runs(every)) == 1
        return is_short and len(distinct) * _SHARED_BY <= lanes

    def _values(self, index: int, distinct: tuple[int, ...]) -> Value:
        key = index, distinct
        if key not in self._known:
            bits = self._load(index, distinct)
            self._known[key] = to_real(self._b, bits, self._types[index], self._real, self._can)
        return self._known[key]

    def _load(self, index: int, distinct: tuple[int, ...]) -> Value:
        """Load each run of consecutive offsets at once; fewer loads if single ones are close together."""
        b, data_type, runs = self._b, self._types[index], _runs(distinct)
        kind = bits_type(data_type)
        if len(runs) > 2 and are_close(data_type, distinct[-1] - distinct[0] + 1, len(distinct)):
            base = b.advance(self._pointers[index], distinct[0] * data_type.bits // 8)
            return load_close(b, self._can, data_type, base, [offset - distinct[0] for offset in distinct])
        if data_type.bits == 4 and are_scattered(self._pointers[index], distinct, len(runs)):
            return load_apart(b, data_type, self._pointers[index], distinct)
        parts = [self._run(index, run) for run in runs]
        value = parts[0]
        for part in parts[1:]:
            value = _append(b, value, part, kind)
        return value

    def _run(self, index: int, run: list[int]) -> Value:
        data_type = self._types[index]
        if data_type.bits == 4:
            return load_run(self._b, data_type, self._pointers[index], run[0], len(run))
        address = self._b.advance(self._pointers[index], run[0] * data_type.bits // 8)
        full = vector(bits_type(data_type), len(run))
        return self._b.value(full, f"load {full}, {address}, align 1")


# Elements of an operand are converted together if this many lanes share each of them.
_CONVERTED_AT_ONCE, _SHARED_BY = 16, 8


def _distinct(offsets: tuple[int, ...], present: tuple[bool, ...]) -> tuple[int, ...]:
    return tuple(sorted({offset for offset, is_there in zip(offsets, present, strict=True) if is_there}))


def _runs(offsets: tuple[int, ...]) -> list[list[int]]:
    numbered = groupby(enumerate(offsets), key=lambda pair: pair[1] - pair[0])
    return [[offset for _, offset in run] for _, run in numbered]


def _append(b: Builder, value: Value, part: Value, kind: str) -> Value:
    """Return the lanes of `value`, then those of `part`."""
    have, more = lanes_of(value), lanes_of(part)
    if more == 1:
        scalar = b.value(kind, f"extractelement {part}, i64 0")
        wide = b.shuffle(value, value, [*range(have), -1])
        return b.value(wide.type, f"insertelement {wide}, {scalar}, i64 {have}")
    size = max(have, more)
    first = b.shuffle(value, value, [*range(have), *[-1] * (size - have)])
    second = b.shuffle(part, part, [*range(more), *[-1] * (size - more)])
    return b.shuffle(first, second, [*range(have), *range(size, size + more)])


# --- compute -----------------------------------------------------------------
# The steps of a computation on one register of values (N1). `ir/conversion.py` is the definition.

_CHOICES = {"min": "fcmp olt", "max": "fcmp ogt"}
_SLOPES = ("prelu", "prelu_slope")
_OPERATIONS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARISONS = {
    "ge": "fcmp oge",
    "gt": "fcmp ogt",
    "le": "fcmp ole",
    "lt": "fcmp olt",
    "eq": "fcmp oeq",
    "ne": "fcmp une",
}


@dataclass(frozen=True, slots=True)
class StepInputs:
    """The inputs of steps: `scalars` in the real type; `tensor(i)` and `old(type)` in a register's lanes.

    `tensor` gives real values, `old` the bits of the old destination as a data type.
    """

    scalars: tuple[Value, ...]
    tensor: Callable[[int], Value]
    old: Callable[[DataType], Value]


def load_scalars(b: Builder, compute: Compute, at: Value, first_slot: int, real: str) -> tuple[Value, ...]:
    """Load the scalars, f64 in the slots of `at` from `first_slot` on, in the real type."""
    return tuple(_load_scalar(b, b.advance(at, 8 * (first_slot + i)), real) for i in range(compute.scalars))


def _load_scalar(b: Builder, at: Value, real: str) -> Value:
    wide = b.value("double", f"load double, {at}, align 8")
    return wide if real == "double" else b.value("float", f"fptrunc {wide} to float")


def run_steps(
    b: Builder,
    v: Value,
    types: tuple[DataType, DataType],
    compute: Compute,
    inputs: StepInputs,
    can: Abilities,
) -> Value:
    """Convert source bits to destination bits through every step; a NaN result is the one quiet NaN."""
    value = real_steps(b, v, types, compute, inputs, can)
    return from_real(b, value, types[1], can, is_result=True)


def real_steps(
    b: Builder,
    v: Value,
    types: tuple[DataType, DataType],
    compute: Compute,
    inputs: StepInputs,
    can: Abilities,
) -> Value:
    """Convert source bits to real values through every step."""
    src, dst = types
    value = to_real(b, v, src, real_type(src, dst, compute), can)
    for step, first in compute.steps_with_scalars():
        numbers = inputs.scalars[first : first + step.scalars]
        if step.is_eltwise and is_costly(step.name):
            *parameters, scale = numbers
            made = call_function(b, step.name, (value, *parameters), can)
            value = b.op("fmul", b.broadcast(scale, lanes_of(v)), made)
            continue
        scalars = [b.broadcast(number, lanes_of(v)) for number in numbers]
        value = _apply(b, step, value, dst, scalars, inputs, can)
    return value


def _apply(
    b: Builder, step: Step, t: Value, dst: DataType, scalars: list[Value], inputs: StepInputs, can: Abilities
) -> Value:
    if step.is_sum:
        old = _old_destination(b, step, dst, inputs, element_of(t), can)
        shifted = b.op("fsub", old, scalars[1]) if len(scalars) > 1 else old
        return b.op("fadd", t, b.op("fmul", scalars[0], shifted))
    if step.is_eltwise:
        *given, scale = scalars
        return b.op("fmul", scale, eltwise(step.name, VectorArithmetic(b, can.round_even), t, *given))
    if step.operand < 0:
        return _binary(b, step.name, t, scalars[0])
    x = _operand(b, step, scalars, inputs)
    if step.name == "rescale":
        return b.op("fmul", t, b.op("fdiv", b.splat(element_of(t), lanes_of(t), "1.0"), x))
    if step.name == "select":
        zero = b.splat(element_of(t), lanes_of(t), "0.0")
        return b.select(b.compare("fcmp une", inputs.tensor(step.condition), zero), t, x)
    return _binary(b, step.name, t, x)


def _operand(b: Builder, step: Step, scalars: list[Value], inputs: StepInputs) -> Value:
    """Return the operand of a step, times its factor."""
    x = inputs.tensor(step.operand)
    if step.factor == SCALAR:
        return b.op("fmul", scalars[0], x)
    return x if step.factor < 0 else b.op("fmul", inputs.tensor(step.factor), x)


# Functions that need so many live values that four of 16 registers at once are too many (measured).
_KEEP_MUCH = ("swish", "elu")


def lanes_together(name: str, real: str, vector_bytes: int, can: Abilities) -> int:
    """Return the lanes that a call of a costly function has: those of four registers, or of two.

    Each operation depends on the previous one: with several registers, one runs while another waits. f64
    takes two if there are 16 registers: its functions are longer, and live values would not fit.
    """
    is_double = real == "double" or (name in ALGORITHMS and ALGORITHMS[name].is_all_double)
    has_room = can.masks or can.neon or not (is_double or name in _KEEP_MUCH)
    return (4 if has_room else 2) * vector_bytes // (8 if is_double else 4)


def call_function(b: Builder, name: str, args: Sequence[Value], can: Abilities) -> Value:
    """Call a costly function of the first of `args`; the others are scalars, or have one lane or as many.

    A hundred instructions go into a separate function: one copy for all registers of a tile and all steps.
    Inlined, a tile of sixteen registers takes LLVM half a second, and thirty steps half a minute.
    """
    first, *others = args[: ALGORITHMS[name].operands]
    lanes = lanes_of(first)

    def write(inner: Builder, named: Sequence[Value]) -> Value:
        whole = [_in_lanes(inner, each, lanes) for each in named]
        return evaluate(name, VectorArithmetic(inner, can.round_even), whole)

    kinds = "".join(f".{other.type.split()[0].strip('<')}" for other in others)
    return b.call_own(f"{name}.{lanes}.{element_of(first)}{kinds}", (first, *others), write)


def _in_lanes(b: Builder, value: Value, lanes: int) -> Value:
    if not value.type.startswith("<"):
        return b.broadcast(value, lanes)
    return value if lanes_of(value) == lanes else b.shuffle(value, value, (0,) * lanes)


def _old_destination(
    b: Builder, step: Step, dst: DataType, inputs: StepInputs, real: str, can: Abilities
) -> Value:
    if step.operand >= 0:
        return inputs.tensor(step.operand)
    read_as = step.data_type or dst
    return to_real(b, inputs.old(read_as), read_as, real, can)


def _binary(b: Builder, name: str, t: Value, x: Value) -> Value:
    if name in _OPERATIONS:
        return b.op(_OPERATIONS[name], t, x)
    if name in _CHOICES:
        return b.select(b.compare(_CHOICES[name], t, x), t, x)
    if name in _SLOPES:
        kind, lanes = element_of(t), lanes_of(t)
        is_above = b.compare("fcmp ogt", t, b.splat(kind, lanes, "0.0"))
        if name == "prelu":
            return b.select(is_above, t, b.op("fmul", t, x))
        return b.select(is_above, b.splat(kind, lanes, "1.0"), x)
    return b.cast("uitofp", b.compare(_COMPARISONS[name], t, x), element_of(t))
