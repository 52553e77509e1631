"""Launches of the CPU: which kernel runs on which of a program's memory.

A program's memory is a row of addresses (`Addresses`). A launch looks up its places there and calls its
kernel; a list of launches can be done by one native call (`launch_list`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from math import prod
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from ...frozen import dataclass
from ...ir.program import NestStep, Place, TreeStep, moved_places
from ...schedule.machine import LINE
from ..alloc import Array, address_of
from .kernel import Kernel, KernelWords, LoweredWork, kernel_of

if TYPE_CHECKING:
    from ...targets.cpu import LoweredNest
    from ...targets.cpu_contraction import LoweredContraction
    from ...targets.cpu_kernels import LoweredFusedSums, LoweredInterleaved, LoweredTree


@dataclass(frozen=True, slots=True)
class Addresses:
    """The memory of one run: addresses of all slots, of the temporaries, and the scalars."""

    slots: Sequence[int]
    temporaries: Sequence[int]
    scalars: Sequence[float]

    def at(self, place: Place) -> int:
        """The address of a place."""
        buffer, offset = place
        return (self.slots[buffer] if buffer >= 0 else self.temporaries[~buffer]) + offset


class _LoweredStep(LoweredWork, Protocol):
    """The lowered form of a step, and the reason for it."""

    @property
    def why(self) -> str:
        """The reason for this kind of kernel."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers that each launch passes to code of several sizes."""


_StepT = TypeVar("_StepT", NestStep, TreeStep)
_LoweredT = TypeVar("_LoweredT", bound=_LoweredStep)


class Launch(Protocol):
    """One launch of a program that has been compiled for the CPU."""

    @property
    def is_native(self) -> bool:
        """True where the launch is one kernel and nothing else, so that a native list may have it."""

    @property
    def kind(self) -> str:
        """The kind of kernel; empty where the launch only serves another one."""

    @property
    def why(self) -> str:
        """The reason for it."""

    def prepare(self) -> None:
        """Compile."""

    def run(self, memory: Addresses) -> None:
        """Run on checked memory."""


@dataclass(slots=True, eq=False)
class _StepLaunch(Generic[_StepT, _LoweredT]):
    """A step, lowered for this CPU. `lower_unaligned`: without streaming stores, where it has some."""

    step: _StepT
    lowered: _LoweredT
    lower_unaligned: Callable[[], _LoweredT] | None = None
    _kernels: dict[bool, Kernel] = field(default_factory=dict)

    @property
    def why(self) -> str:
        """The reason for this kind of kernel."""
        return f"{self.lowered.why}; {self.step.note}" if self.step.note else self.lowered.why

    @property
    def work_bytes(self) -> int:
        """The number of bytes that could be moved in the time that it takes."""
        return self.step.work_bytes

    def prepare(self) -> None:
        """Compile for a destination that is aligned, as most are."""
        self.kernel(0)

    def kernel(self, dst: int) -> Kernel:
        """The kernel for a destination at this address: streaming stores need whole cache lines."""
        is_aligned = self.lower_unaligned is None or not dst % LINE
        native_kernel = self._kernels.get(is_aligned)
        if native_kernel is None:
            lowered = self.lowered if is_aligned or self.lower_unaligned is None else self.lower_unaligned()
            # The first one stays: another thread may already hold its address, and no more than that.
            native_kernel = kernel_of(lowered, self.work_bytes, lowered.numbers)
            native_kernel = self._kernels.setdefault(is_aligned, native_kernel)
        return native_kernel


# What was lowered is loaded with the first problem alone.
if TYPE_CHECKING:
    _OfNest = _StepLaunch[NestStep, LoweredNest]
    _OfTree = _StepLaunch[TreeStep, LoweredTree | LoweredContraction]
else:
    _OfNest = _OfTree = _StepLaunch


@dataclass(slots=True, eq=False)
class NestLaunch(_OfNest):
    """A nest, scheduled for this CPU."""

    @property
    def is_native(self) -> bool:
        """True where the execution brings all scalars."""
        return not self.step.constants

    @property
    def kind(self) -> str:
        """The kind of kernel; empty where the step only serves another one."""
        return self.lowered.kind if self.step.is_named else ""

    @property
    def places(self) -> tuple[Place, ...]:
        """The operands."""
        return self.step.operands

    def __str__(self) -> str:
        return f"{self.lowered.kind}: {self.step.src} -> {self.step.dst}"

    def run(self, memory: Addresses) -> None:
        """Run on checked memory."""
        step = self.step
        first, count = step.scalars
        scalars = step.constants or memory.scalars[first : first + count]
        params = KernelWords(scalars, [memory.at(place) for place in step.operands])
        dst = memory.at(step.dst)
        self.kernel(dst).run(memory.at(step.src), dst, params.address)


@dataclass(slots=True, eq=False)
class InterleavedLaunch:
    """Nests of one destination, in step: the sources are read as operands."""

    lowered: LoweredInterleaved
    places: tuple[Place, ...]
    dst: Place
    work_bytes: int
    _kernels: list[Kernel] = field(default_factory=list)

    is_native = True

    @property
    def kind(self) -> str:
        """The kind of kernel."""
        return self.lowered.kind

    @property
    def why(self) -> str:
        """The reason for it."""
        return self.lowered.why

    def __str__(self) -> str:
        return f"{self.lowered.kind}: {', '.join(map(str, self.places))} -> {self.dst}"

    def prepare(self) -> None:
        """Compile."""
        self.kernel(0)

    def kernel(self, dst: int) -> Kernel:
        """The kernel, for any destination."""
        if not self._kernels:
            self._kernels.append(kernel_of(self.lowered, self.work_bytes))
        return self._kernels[0]

    def run(self, memory: Addresses) -> None:
        """Run on checked memory."""
        params = KernelWords((), [memory.at(place) for place in self.places])
        self.kernel(0).run(0, memory.at(self.dst), params.address)


@dataclass(slots=True, eq=False)
class TreeLaunch(_OfTree):
    """A loop tree of one outermost loop: its tensors are read and written as operands."""

    is_native = True

    @property
    def kind(self) -> str:
        """The kind of kernel; empty where the step only serves another one."""
        return self.lowered.kind if self.step.is_named else ""

    @property
    def places(self) -> tuple[Place, ...]:
        """The tensors."""
        return self.step.places

    @property
    def dst(self) -> Place:
        """The first tensor that is written."""
        return self.step.targets[0]

    def __str__(self) -> str:
        return f"{self.lowered.kind}: {', '.join(map(str, self.places))}"

    def run(self, memory: Addresses) -> None:
        """Run on checked memory."""
        first, count = self.step.scalars
        addresses = [memory.at(place) for place in self.step.places]
        params = KernelWords(memory.scalars[first : first + count], addresses)
        alignment_bits = 0
        for place in self.step.targets:
            alignment_bits |= memory.at(place)
        kernel = self.kernel(alignment_bits)
        kernel.run(kernel.numbers_address, memory.at(self.dst), params.address)


@dataclass(frozen=True, slots=True, eq=False)
class RepeatLaunch:
    """Trees that run in turn, again and again. `strides`: how many bytes each place moves for each turn."""

    turns: int
    launches: tuple[TreeLaunch, ...]
    strides: tuple[tuple[int, ...], ...]

    is_native = True

    @property
    def kind(self) -> str:
        """The kinds of kernel of a turn."""
        return "+".join(dict.fromkeys(launch.kind for launch in self.launches))

    @property
    def why(self) -> str:
        """The reasons for them."""
        return "; ".join(dict.fromkeys(launch.why for launch in self.launches))

    @property
    def turn_bytes(self) -> int:
        """The number of bytes that could be moved in the time that one turn takes."""
        return sum(launch.work_bytes for launch in self.launches)

    @property
    def work_bytes(self) -> int:
        """The number of bytes that could be moved in the time that all turns take."""
        return self.turns * self.turn_bytes

    def __str__(self) -> str:
        return "\n".join([f"{self.turns} times:", *(f"  {launch}" for launch in self.launches)])

    def prepare(self) -> None:
        """Compile."""
        for launch in self.launches:
            launch.prepare()

    def part(self, first: int, turns: int) -> RepeatLaunch:
        """Some of the turns, the first of them number `first`."""
        launches = tuple(
            replace(launch, step=replace(launch.step, places=moved_places(launch.places, strides, first)))
            for launch, strides in zip(self.launches, self.strides, strict=True)
        )
        return RepeatLaunch(turns, launches, self.strides)

    def run(self, memory: Addresses) -> None:
        """Run on checked memory, one launch after the other."""
        for turn in range(self.turns):
            for launch in self.part(turn, 1).launches:
                launch.run(memory)


@dataclass(slots=True, eq=False)
class FusedSumsLaunch:
    """A nest whose destination is summed as it is written."""

    nest: NestLaunch
    sums: TreeStep
    lowered: LoweredFusedSums
    _kernels: list[Kernel] = field(default_factory=list)

    is_native = False

    @property
    def kind(self) -> str:
        """The kind of kernel that the nest alone would be."""
        return self.nest.kind

    @property
    def why(self) -> str:
        """The reason for it."""
        return f"{self.nest.why}; {self.lowered.why}"

    def __str__(self) -> str:
        return f"{self.nest}, summed meanwhile -> {', '.join(map(str, self.sums.targets))}"

    def prepare(self) -> None:
        """Compile."""
        if not self._kernels:
            self._kernels.append(kernel_of(self.lowered, self.nest.work_bytes))

    def run(self, memory: Addresses) -> None:
        """Run on checked memory."""
        self.prepare()
        step = self.nest.step
        first, count = step.scalars
        params = KernelWords(
            memory.scalars[first : first + count], [memory.at(place) for place in step.operands]
        )
        places, tensors = self.sums.places[1:], self.sums.tree.tensors[1:]
        outs, parts = [memory.at(place) for place in places], self._kernels[0].parts()
        planes: list[Array] = []
        if self.lowered.fused.is_shared:
            planes = [np.zeros((parts, prod(tensor.sizes)), np.int32) for tensor in tensors]
        words = KernelWords((), [params.address, *(map(address_of, planes) if planes else outs)])
        self._kernels[0].run_in(memory.at(step.src), memory.at(step.dst), words.address, parts)
        for out, plane in zip(outs, planes, strict=False):
            sums = np.add.reduce(plane, axis=0, dtype=np.int32)
            ctypes.memmove(out, address_of(sums), sums.nbytes)
