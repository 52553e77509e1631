"""Quantisation in groups on the CPU, in one pass: compiled, kept, run on as many threads as it is worth."""

from __future__ import annotations

from typing import NamedTuple

from ...desc.memory_desc import MemoryDesc
from ...ir.group_quantization import GroupQuantization, group_quantization
from ...ir.ranges import NOT_FINITE
from ...ir.scale_rule import ScaleRule
from ...schedule.machine import LINE
from ...targets.cpu_kernels import LoweredGroups, lower_groups
from ...targets.isa import host_caches, host_isa
from ..cache import LruCache, cache_level
from .kernel import Kernel, KernelWords, kernel_of


class GroupAddresses(NamedTuple):
    """The addresses of element offset 0 of source, elements and scales; of zero points, a byte each, or 0."""

    src: int
    dst: int
    scale: int
    zero: int = 0


class GroupProgram:
    """A quantisation lowered for this CPU; not `is_provided` where one pass does not do it."""

    __slots__ = ("_kernels", "_lowered", "_moved_bytes")

    def __init__(self, quantization: GroupQuantization | None) -> None:
        self._lowered: LoweredGroups | None = None
        self._kernels: dict[bool, Kernel] = {}
        if quantization is not None:
            self._lowered = lower_groups(quantization, host_isa(), host_caches())
            self._moved_bytes = quantization.moved_bytes

    @property
    def is_provided(self) -> bool:
        """True where there is such a kernel."""
        return self._lowered is not None

    def run(self, at: GroupAddresses, tensor_scale: float) -> None:
        """Run on addresses that the caller has checked."""
        words = KernelWords((tensor_scale,), (at.scale, at.zero))
        self._kernel(is_aligned=at.dst % LINE == 0).run(at.src, at.dst, words.address)

    def _kernel(self, *, is_aligned: bool) -> Kernel:
        """The kernel for elements that begin at a cache line, or not: where it streams these are two."""
        assert self._lowered is not None
        kernel = self._kernels.get(is_aligned)
        if kernel is None:
            plain = None if is_aligned else self._lowered.without_streams()
            kernel = self._kernels[is_aligned] = kernel_of(plain or self._lowered, self._moved_bytes)
        return kernel


_programs: LruCache[GroupProgram] = cache_level("sums")


def group_program(src: MemoryDesc, dst: MemoryDesc, scale: MemoryDesc, rule: ScaleRule) -> GroupProgram:
    """The program for tensors of equal dims, where `scale` has 1 along the axes within a group."""
    key = (src, dst, scale, rule)

    def make() -> GroupProgram:
        is_folded = src.data_type in NOT_FINITE and src.data_type.bits <= 32
        return GroupProgram(group_quantization(src, dst, scale, rule) if is_folded else None)

    program, _ = _programs.get_or_make(key, make)
    return program
