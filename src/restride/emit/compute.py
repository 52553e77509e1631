"""The steps of a computation on one register of values (N1). `plan/contract.py` is the definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..dtypes import DataType
from ..plan.compute import Compute, Step
from ..plan.eltwise import ALGORITHMS
from ..plan.eltwise import apply as eltwise
from .arithmetic import VectorArithmetic
from .builder import Builder, Value, element_of, lanes_of
from .convert import Abilities, canonical_nan, from_real, real_type, to_real

_CHOICES = {"min": "fcmp olt", "max": "fcmp ogt"}
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
class Inputs:
    """What the steps read: `scalars` in the real type; `tensor(i)` and `old(type)` in a register's lanes.

    `tensor` gives real values, `old` the bits of the old destination as a data type.
    """

    scalars: tuple[Value, ...]
    tensor: Callable[[int], Value]
    old: Callable[[DataType], Value]


def load_scalars(b: Builder, compute: Compute, at: Value, first_slot: int, real: str) -> tuple[Value, ...]:
    """Load the scalars, doubles in the slots of `at` from `first_slot` on, in the real type."""
    return tuple(_load_scalar(b, b.advance(at, 8 * (first_slot + i)), real) for i in range(compute.scalars))


def _load_scalar(b: Builder, at: Value, real: str) -> Value:
    wide = b.value("double", f"load double, {at}, align 8")
    return wide if real == "double" else b.value("float", f"fptrunc {wide} to float")


def run_steps(
    b: Builder, v: Value, types: tuple[DataType, DataType], compute: Compute, inputs: Inputs, can: Abilities
) -> Value:
    """Source bits to destination bits through every step; a NaN result is the one quiet NaN."""
    value = real_steps(b, v, types, compute, inputs, can)
    if types[1].kind == "float":
        value = canonical_nan(b, value)
    return from_real(b, value, types[1], can)


def real_steps(
    b: Builder, v: Value, types: tuple[DataType, DataType], compute: Compute, inputs: Inputs, can: Abilities
) -> Value:
    """Source bits to the real values that every step leaves."""
    src, dst = types
    value = to_real(b, v, src, real_type(src, dst, compute), can)
    for step, first in compute.numbered():
        scalars = [b.broadcast(s, lanes_of(v)) for s in inputs.scalars[first : first + step.scalars]]
        value = _apply(b, step, value, dst, scalars, inputs, can)
    return value


def _apply(
    b: Builder, step: Step, t: Value, dst: DataType, scalars: list[Value], inputs: Inputs, can: Abilities
) -> Value:
    if step.is_sum:
        old = _old(b, step, dst, inputs, element_of(t), can)
        shifted = b.op("fsub", old, scalars[1]) if len(scalars) > 1 else old
        return b.op("fadd", t, b.op("fmul", scalars[0], shifted))
    if step.is_eltwise:
        *given, scale = scalars
        return b.op("fmul", scale, _eltwise(b, step.name, (t, *given), can))
    if step.operand < 0:
        return _binary(b, step.name, t, scalars[0])
    x = inputs.tensor(step.operand)
    if step.name == "accumulate":
        return b.op("fadd", t, b.op("fmul", scalars[0], x))
    if step.name == "rescale":
        return b.op("fmul", t, b.op("fdiv", b.splat(element_of(t), lanes_of(t), "1.0"), x))
    return _binary(b, step.name, t, x)


def _eltwise(b: Builder, name: str, args: tuple[Value, ...], can: Abilities) -> Value:
    """What takes a hundred instructions is a function: one copy for all registers of a tile and all steps.

    Inline, a tile of sixteen registers takes LLVM half a second, and thirty steps half a minute.
    """

    def write(inner: Builder, given: Sequence[Value]) -> Value:
        return eltwise(name, VectorArithmetic(inner, can.round_even), *given)

    if not ALGORITHMS[name].in_double:
        return write(b, args)
    return b.call_own(f"{name}.{lanes_of(args[0])}.{element_of(args[0])}", args, write)


def _old(b: Builder, step: Step, dst: DataType, inputs: Inputs, real: str, can: Abilities) -> Value:
    if step.operand >= 0:
        return inputs.tensor(step.operand)
    read_as = step.data_type or dst
    return to_real(b, inputs.old(read_as), read_as, real, can)


def _binary(b: Builder, name: str, t: Value, x: Value) -> Value:
    if name in _OPERATIONS:
        return b.op(_OPERATIONS[name], t, x)
    if name in _CHOICES:
        return b.select(b.compare(_CHOICES[name], t, x), t, x)
    return b.cast("uitofp", b.compare(_COMPARISONS[name], t, x), element_of(t))
