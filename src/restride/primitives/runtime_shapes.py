"""Reorders of dims or strides that only an execution knows: solved for each concrete shape (2.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..desc.layout import RUNTIME_DIM, Layout
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .args import ARG_DST_1, ARG_DST_2
from .chain import chain_of
from .feeding import Extras
from .problem import Problem

Solve = Callable[[Problem], Any]


class RuntimeReorder:
    """A reorder that is solved when its memories are there. Holds no shape: solved ones are in the cache."""

    why = "dims or strides are known only at execution"

    def __init__(self, problem: Problem, engine: Engine, solve: Solve) -> None:
        self.problem, self._engine, self._solve = problem, engine, solve
        self.chain = chain_of(problem.attr, problem.src, problem.dst)
        # How long the sums are is known at execution as well.
        open_md = MemoryDesc((RUNTIME_DIM,), "s32", "a")
        wanted = problem.attr.compensation
        asked = () if wanted is None else ((ARG_DST_1, wanted.s8s8), (ARG_DST_2, wanted.zero_point))
        self.outputs = {arg: open_md for arg, is_wanted in asked if is_wanted}
        self.name = "ref:any" if engine.kind == "reference" else "jit:at_execution"

    def with_values(self, problem: Problem) -> RuntimeReorder:
        """The same for the values of a problem of the same structure."""
        return RuntimeReorder(problem, self._engine, self._solve)

    def prepare(self) -> None:
        """Nothing can be compiled yet."""

    def concrete(self, src: Memory, dst: Memory) -> Any:
        """The implementation for the shapes of two memories."""
        return self._solve(Problem(src.desc, dst.desc, self.problem.attr))

    def run(self, src: Memory, dst: Memory, extras: Extras) -> None:
        """Run on memories whose descriptors fit."""
        self.concrete(src, dst).run(src, dst, extras)


def check_fits(call: str, name: str, memory: Memory, pattern: MemoryDesc) -> None:
    """Raise InvalidArguments unless a memory's descriptor is the primitive's wherever that one is known."""
    why = _difference(memory.desc, pattern)
    if why:
        raise InvalidArguments(
            f"{call}: {name} will not do",
            code="RS-R07",
            where=f"memory {memory.desc}; primitive {pattern}",
            why=why,
            hint="only dims and strides that the primitive leaves open may differ",
        )


def _difference(md: MemoryDesc, pattern: MemoryDesc) -> str:
    if md.data_type is not pattern.data_type:
        return f"its elements are {md.data_type}, not {pattern.data_type}"
    if md.ndims != pattern.ndims or md.format_kind != "blocked" or md.layout.has_runtime:
        return "it must be concrete and of the same rank"
    ours, theirs = md.layout, pattern.layout
    if (ours.inner_blks, ours.inner_idxs) != (theirs.inner_blks, theirs.inner_idxs):
        return "its inner blocks are others"
    if theirs.offset0 not in (RUNTIME_DIM, ours.offset0):
        return f"its offset0 is {ours.offset0}, not {theirs.offset0}"
    return _first_difference(ours, theirs)


def _first_difference(ours: Layout, theirs: Layout) -> str:
    for d, (dim, wanted) in enumerate(zip(ours.dims, theirs.dims, strict=True)):
        if wanted not in (RUNTIME_DIM, dim):
            return f"dim {d} is {dim}, not {wanted}"
        if dim > 1 and theirs.strides[d] not in (RUNTIME_DIM, ours.strides[d]):
            return f"the stride of dim {d} is {ours.strides[d]}, not {theirs.strides[d]}"
    return ""
