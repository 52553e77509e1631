"""Which implementation solves a concat or a sum on an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..loading import load_whole
from ..runtime.engine import Engine
from .concat_problem import ConcatProblem
from .concat_solved import CpuConcat, ReferenceConcat
from .sum_problem import CpuSum, ReferenceSum, SumProblem

if TYPE_CHECKING:
    from .sycl_several import SyclConcat, SyclSum


def solve_concat(problem: ConcatProblem, engine: Engine) -> CpuConcat | ReferenceConcat | SyclConcat:
    """The implementation of a checked problem on an engine."""
    if engine._device is not None:
        load_whole("restride.primitives.sycl_several")
        from .sycl_several import SyclConcat

        return SyclConcat(problem, engine._device)
    return ReferenceConcat(problem) if engine.kind == "reference" else CpuConcat(problem)


def solve_sum(problem: SumProblem, engine: Engine) -> CpuSum | ReferenceSum | SyclSum:
    """The implementation of a checked problem on an engine."""
    if engine._device is not None:
        load_whole("restride.primitives.sycl_several")
        from .sycl_several import SyclSum

        return SyclSum(problem, engine._device)
    return ReferenceSum(problem) if engine.kind == "reference" else CpuSum(problem)
