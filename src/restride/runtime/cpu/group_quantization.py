"""Quantisation in groups on the CPU, in one pass: compiled, kept, run on as many threads as it is worth."""

from __future__ import annotations

from typing import NamedTuple

from ...desc.memory_desc import MemoryDesc
from ...ir.group_quantization import GroupQuantization, group_quantization
from ...ir.program import DST, Place
from ...ir.ranges import NOT_FINITE
from ...ir.scale_rule import ScaleRule
from ...targets.cpu_kernels import lower_groups
from ...targets.isa import host_caches, host_isa
from ..cache import LruCache, cache_level
from .launch import Addresses, Launch


class GroupAddresses(NamedTuple):
    """The addresses of element offset 0 of source, elements and scales; of zero points, a byte each, or 0."""

    src: int
    dst: int
    scale: int
    zero: int = 0


class GroupProgram:
    """A quantisation lowered for this CPU; not `is_provided` where one pass does not do it."""

    __slots__ = ("_launch",)

    def __init__(self, quantization: GroupQuantization | None) -> None:
        lowered = None if quantization is None else lower_groups(quantization, host_isa(), host_caches())
        self._launch: Launch | None = None
        if quantization is not None and lowered is not None:
            places = (Place(DST + 1), Place(DST + 2))
            self._launch = Launch(lowered, places, quantization.moved_bytes, scalars=(0, 1))

    @property
    def is_provided(self) -> bool:
        """True where there is such a kernel."""
        return self._launch is not None

    def run(self, at: GroupAddresses, tensor_scale: float) -> None:
        """Run on addresses that the caller has checked."""
        assert self._launch is not None
        self._launch.run(Addresses(at, (), (tensor_scale,)))


_programs: LruCache[GroupProgram] = cache_level("sums")


def group_program(src: MemoryDesc, dst: MemoryDesc, scale: MemoryDesc, rule: ScaleRule) -> GroupProgram:
    """The program for tensors of equal dims, where `scale` has 1 along the axes within a group."""
    key = (src, dst, scale, rule)

    def make() -> GroupProgram:
        is_folded = src.data_type in NOT_FINITE and src.data_type.bits <= 32
        return GroupProgram(group_quantization(src, dst, scale, rule) if is_folded else None)

    program, _ = _programs.get_or_make(key, make)
    return program
