"""Reorders with operands shared by groups of elements: scales and zero points in any layout (N1).

Each dim of an operand is that of the tensor divided by its group. Axes are split at group boundaries, so that
an operand is broadcast along dims of 1, and kernels treat it like that of any binary post-op.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

from ...desc.arguments import ARG_FROM, ARG_SRC_1, ARG_TO, arg_attr_multiple_post_op
from ...desc.attr import PrimitiveAttr
from ...desc.memory_desc import MemoryDesc
from ...desc.post_ops import PostOps
from ...errors import refuse
from ...ops.reorder import Reorder
from ...runtime.cache import calls
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.stream import Stream

Dims = tuple[int, ...]


class GroupStep(NamedTuple):
    """One arithmetic step: a binary post-op with a memory, or an eltwise one with two numbers."""

    name: str
    operand: Memory | None = None
    numbers: tuple[float, float] = (0.0, 0.0)


class GroupedReorder:
    """A reorder with such steps, for memory objects of certain descriptors; immutable.

    Raises InvalidArguments if the dims of an operand do not divide those of the tensor, if groups do not
    nest, or if blocks of a layout cross a group boundary.
    """

    def __init__(
        self, src: MemoryDesc, dst: MemoryDesc, steps: Sequence[GroupStep], engines: tuple[Engine, Engine]
    ) -> None:
        operands = [step.operand.desc for step in steps if step.operand is not None]
        self._views = split_views(src, dst, operands)
        self._numbers = [ARG_FROM, ARG_TO]
        chain = PostOps()
        for step in steps:
            if step.operand is None:
                chain.append_eltwise(step.name, *step.numbers)
                continue
            view = self._views[len(self._numbers)]
            self._numbers.append(arg_attr_multiple_post_op(len(chain)) | ARG_SRC_1)
            chain.append_binary(step.name, view)
        attr = PrimitiveAttr()
        attr.set_post_ops(chain)
        pd = Reorder.PrimitiveDesc(engines[0], self._views[0], engines[1], self._views[1], attr)
        self._primitive, self._engine = Reorder(pd), engines[1]

    def run(self, src: Memory, dst: Memory, operands: Sequence[Memory]) -> None:
        """Write `dst`; the operands are those of the steps, in order."""
        memories = (src, dst, *operands)
        views = (over(memory, md) for memory, md in zip(memories, self._views, strict=True))
        stream = Stream(self._engine)
        self._primitive.execute(stream, dict(zip(self._numbers, views, strict=True)))
        stream.wait()


def reorder_in_groups(src: Memory, dst: Memory, steps: Sequence[GroupStep]) -> None:
    """Write `src`, transformed by the steps in order, to `dst`, which has the same dims."""
    if not src.desc.nelems:
        return
    operands = [step.operand for step in steps if step.operand is not None]
    step_keys = tuple((step.name, step.operand and step.operand.desc, step.numbers) for step in steps)
    key = "groups", src.desc, dst.desc, step_keys, src.engine, dst.engine
    grouped_reorder: GroupedReorder | None = calls.find(key)
    if grouped_reorder is None:
        grouped_reorder = calls.keep(key, GroupedReorder(src.desc, dst.desc, steps, (src.engine, dst.engine)))
    else:
        calls.count_hit()
    grouped_reorder.run(src, dst, operands)


def group_extents(dims: Dims, groups: Dims) -> Dims:
    """Return the number of groups along each axis. Raises InvalidArguments for groups that do not divide."""
    for axis, (n, group) in enumerate(zip(dims, groups, strict=True)):
        if group < 1 or n % group:
            raise refuse("RS-A15:groups-elements-not", group=group, axis=axis, dims=dims, groups=groups, n=n)
    return tuple(n // group for n, group in zip(dims, groups, strict=True))


def split_in_groups(md: MemoryDesc, groups: Dims) -> MemoryDesc:
    """Return the descriptor with each axis split in two: the group, and the element inside it."""
    parts = [(n // group, group) for n, group in zip(md.dims, groups, strict=True)]
    return md.reshape([n for part in parts for n in part])


def split_views(src: MemoryDesc, dst: MemoryDesc, operands: Sequence[MemoryDesc]) -> list[MemoryDesc]:
    """Return source, destination and operands with dims split at group boundaries; within its groups an
    operand has dims of 1.
    """
    dims = src.dims
    if dst.dims != dims:
        raise refuse("RS-A15:destination-tensor", dims=dst.dims, dims2=dims)
    groups = [groups_of(dims, operand) for operand in operands]
    cuts = [_cuts(axis, n, [group[axis] for group in groups]) for axis, n in enumerate(dims)]
    # The tensor has its dims in parts; an operand has 1 instead of those within its groups.
    splits = [_split(dims, cuts, (1,) * len(dims))] * 2 + [_split(dims, cuts, group) for group in groups]
    pairs = zip((src, dst, *operands), splits, strict=True)
    return [md if md.dims == split else md.reshape(split) for md, split in pairs]


def groups_of(dims: Dims, operand: MemoryDesc) -> Dims:
    """Return the group size along each axis. Raises InvalidArguments if it does not divide the dims."""
    if len(operand.dims) == len(dims) and all(
        m and n % m == 0 for n, m in zip(dims, operand.dims, strict=True)
    ):
        return tuple(n // m for n, m in zip(dims, operand.dims, strict=True))
    raise refuse("RS-A15:dims-scales-zero", dims=dims, operand_dims=operand.dims)


def _cuts(axis: int, n: int, groups: Sequence[int]) -> list[int]:
    """Return the boundaries along one axis, from the whole axis down to 1."""
    cuts = sorted({n, 1, *groups}, reverse=True) if n else [0]
    for outer, inner in pairwise(cuts):
        if outer % inner:
            raise refuse("RS-A15:groups-along-axis", axis=axis, inner=inner, outer=outer)
    return cuts


def _split(dims: Dims, cuts: Sequence[list[int]], groups: Dims) -> Dims:
    extents: list[int] = []
    for n, cut, group in zip(dims, cuts, groups, strict=True):
        extents += [outer // inner if inner >= group else 1 for outer, inner in pairwise(cut)] or [n]
    return tuple(extents)


def over(memory: Memory, md: MemoryDesc) -> Memory:
    """Return another descriptor over the bytes of a memory, which is kept alive."""
    if md is memory.desc:
        return memory
    if not prod(md.dims):
        return Memory(md, memory.engine)
    nbytes = memory.desc.data_type.nbytes(memory.desc.extent_range()[1])
    address = memory.get_data_handle()
    return Memory.from_pointer(address, nbytes, md, memory.engine, owner=memory, readonly=memory.readonly)
