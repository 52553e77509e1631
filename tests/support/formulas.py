"""Formulas over an arithmetic, compiled for an instruction set and run on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from restride.emit.builder import Builder, Value, i64, vector
from restride.emit.compute import VectorArithmetic
from restride.targets.cpu_ir import style_of
from restride.targets.isa import Isa
from support.kernels import runnable
from support.machine_code import loaded

Reals = npt.NDArray[np.floating[Any]]
# (arithmetic, x, y, z) -> result, all values of one type.
Formula = Callable[[Any, Any, Any, Any], Any]

ISAS = tuple(isa for isa in runnable() if isa == Isa.for_name(isa.name)) or runnable()
TYPES = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}
_ARGS = ("%x", "%y", "%z", "%dst")


def module(isa: Isa, formulas: Mapping[str, Formula]) -> str:
    """IR of `void name_type(x, y, z, dst, count)` for each formula and type; `count` vectors."""
    made = [_function(f"{name}_{real}", run, real, isa) for name, run in formulas.items() for real in TYPES]
    declared = {name: text for _, needs in made for name, text in needs.items()}
    return "\n".join([*declared.values(), *(text for text, _ in made)])


def _function(name: str, formula: Formula, real: str, isa: Isa) -> tuple[str, dict[str, str]]:
    b, kind = Builder(), vector(real, lanes(isa))
    with b.loop(i64(0), Value("i64", "%count")) as step:
        offset = b.op("mul", step, i64(lanes(isa) * TYPES[real].itemsize))
        *sources, to = [b.advance(Value("ptr", arg), offset) for arg in _ARGS]
        given = [b.value(kind, f"load {kind}, {at}, align 1") for at in sources]
        result = formula(VectorArithmetic(b, style_of(isa).can.round_even), *given)
        b.line(f"store {result}, {to}, align 1")
    b.line("ret void")
    head = f"define void @{name}({', '.join(f'ptr {arg}' for arg in _ARGS)}, i64 %count) nounwind"
    return f"{head} {{\nentry:\n{b.body()}\n}}", b.declared


def lanes(isa: Isa) -> int:
    """As many as fill a register with f32, so that f64 takes two."""
    return isa.vector_bytes // 4


class Compiled:
    """Formulas as machine code. `compiled(name, x, y, z)` runs one on arrays of one size and type."""

    def __init__(self, isa: Isa, formulas: Mapping[str, Formula]) -> None:
        self._lanes = lanes(isa)
        self._library = loaded(module(isa, formulas), isa)

    def __call__(self, name: str, *given: Reals) -> Reals:
        kind = given[0].dtype
        real = next(real for real, dtype in TYPES.items() if dtype == kind)
        size = given[0].size
        padded = [np.concatenate([array, np.zeros(-size % self._lanes, kind)]) for array in given]
        result = np.empty_like(padded[0])
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)
        run = prototype(self._library.address(f"{name}_{real}"))
        run(*(array.ctypes.data for array in padded), result.ctypes.data, result.size // self._lanes)
        return result[:size]


def unlike(got: Reals, wanted: Reals) -> npt.NDArray[np.bool_]:
    """Return the positions where bits differ; all NaNs are equal."""
    kind = f"u{wanted.itemsize}"
    return (got.view(kind) != wanted.view(kind)) & ~(np.isnan(got) & np.isnan(wanted))
