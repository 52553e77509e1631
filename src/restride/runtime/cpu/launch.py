"""Launches of the CPU: kernels with the parts of a program's memory that they run on.

A program's memory is a row of addresses (`Addresses`). A launch looks up its places there and calls its
kernel; a list of launches can run in one native call (`launch_list`).
"""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Sequence
from dataclasses import field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...frozen import dataclass
from ...ir.program import DST, SRC, Place, TreeStep, moved_places
from ...schedule.machine import LINE
from ..alloc import Array, address_of
from .kernel import Kernel, KernelWords, is_small, kernel_of
from .thread_pool import default_pool

if TYPE_CHECKING:
    from ...targets.lowered import Lowered


@dataclass(frozen=True, slots=True)
class Addresses:
    """The memory of one run: addresses of all slots, of the temporaries, and the scalars."""

    slots: Sequence[int]
    temporaries: Sequence[int]
    scalars: Sequence[float]

    def at(self, place: Place) -> int:
        """Return the address of a place."""
        buffer, offset = place
        return (self.slots[buffer] if buffer >= 0 else self.temporaries[~buffer]) + offset


@dataclass(slots=True, eq=False)
class Launch:
    """A kernel of a program, and the places that it works on.

    It is called with three addresses: that of `src`, or of the numbers of the lowered loops; that of the
    first of `targets`, which must begin at cache lines if it uses streaming stores; and that of words: the
    addresses of `places`, then scalars, as doubles. These are `constants`, or scalars of an execution:
    `scalars` has the index of the first, and their number. `strides`: the bytes by which each place moves
    from one turn of a repeat to the next. A launch that is not `is_named` only serves another one; `note` is
    shown with the schedule, and `rewrites` are the transforms that made several launches of one tree.
    `inner`: the launches whose kernels it calls, by the positions of their addresses among the numbers.
    `called`: its kind, if that is not the one of its loops.
    """

    lowered: Lowered
    places: tuple[Place, ...]
    work_bytes: int
    src: Place = Place(SRC)
    targets: tuple[Place, ...] = (Place(DST),)
    scalars: tuple[int, int] = (0, 0)
    constants: tuple[float, ...] = ()
    strides: tuple[int, ...] = ()
    is_named: bool = True
    note: str = ""
    rewrites: str = ""
    inner: tuple[tuple[int, Launch], ...] = ()
    called: str = ""
    _kernels: dict[bool, Kernel] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of kernel."""
        return self.called or self.lowered.kind

    @property
    def why(self) -> str:
        """The reason for it."""
        return f"{self.lowered.why}; {self.note}" if self.note else self.lowered.why

    @property
    def params(self) -> int:
        """The number of words that the kernel reads."""
        return len(self.places) + (len(self.constants) or self.scalars[1])

    @property
    def threads(self) -> int:
        """The number of threads that it can use."""
        is_alone = is_small(self.lowered.steps, self.work_bytes)
        return 1 if is_alone else min(default_pool().threads, self.lowered.steps)

    @property
    def is_shared(self) -> bool:
        """True if threads can share it, or its kernel depends on where targets begin."""
        return self.lowered.streams or not is_small(self.lowered.steps, self.work_bytes)

    def __str__(self) -> str:
        sources = ", ".join(map(str, self.places))
        return f"{self.kind}: {self.src}, {sources} -> {', '.join(map(str, self.targets))}"

    def prepare(self) -> None:
        """Compile for aligned targets, the common case."""
        self.kernel(0)

    def kernel(self, begins: int) -> Kernel:
        """Return the kernel for targets with these addresses, or-ed: streaming stores need whole lines."""
        is_aligned = not self.lowered.unaligned or not begins % LINE
        native_kernel = self._kernels.get(is_aligned)
        if native_kernel is None:
            plain = self.lowered.unaligned
            lowered = self.lowered if is_aligned or plain is None else plain()
            # The first one stays: another thread may already hold its address, without a reference.
            inner = {at: launch.kernel(0).code for at, launch in self.inner}
            native_kernel = self._kernels.setdefault(is_aligned, kernel_of(lowered, self.work_bytes, inner))
        return native_kernel

    def run(self, memory: Addresses, turn: int = 0) -> None:
        """Run on checked memory."""
        first, count = self.scalars
        places = moved_places(self.places, self.strides, turn) if turn else self.places
        scalars = self.constants or memory.scalars[first : first + count]
        words = KernelWords(scalars, [memory.at(place) for place in places])
        targets = [memory.at(place) for place in self.targets]
        kernel = self.kernel(functools.reduce(operator.or_, targets))
        kernel.run(kernel.numbers_address or memory.at(self.src), targets[0], words.address)


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """Launches that run in sequence, `turns` times: once, except for time steps."""

    launches: tuple[Launch | FusedSumsLaunch, ...]
    turns: int = 1

    @property
    def native(self) -> tuple[Launch, ...]:
        """The launches that can be in a native list."""
        return tuple(launch for launch in self.launches if isinstance(launch, Launch))

    @property
    def is_native(self) -> bool:
        """True if all are plain kernel launches, so that a native list can have them."""
        return len(self.native) == len(self.launches)

    @property
    def turn_bytes(self) -> int:
        """The number of bytes that could be moved in the time of one turn."""
        return sum(launch.work_bytes for launch in self.native)

    @property
    def work_bytes(self) -> int:
        """The number of bytes that could be moved in the time of all turns."""
        return self.turns * self.turn_bytes

    def __str__(self) -> str:
        if self.turns == 1:
            return "\n".join(map(str, self.launches))
        return "\n".join([f"{self.turns} times:", *(f"  {launch}" for launch in self.launches)])

    def run(self, memory: Addresses) -> None:
        """Run the launches in sequence on checked memory."""
        for turn in range(self.turns):
            for launch in self.launches:
                launch.run(memory, turn)


@dataclass(slots=True, eq=False)
class FusedSumsLaunch:
    """A nest whose destination is summed as it is written."""

    nest: Launch
    sums: TreeStep
    lowered: Lowered
    _kernels: list[Kernel] = field(default_factory=list)

    is_shared, threads = True, 1

    @property
    def is_named(self) -> bool:
        """True unless the nest only serves another launch."""
        return self.nest.is_named

    @property
    def kind(self) -> str:
        """The kind of kernel that the nest alone would be."""
        return self.nest.kind

    @property
    def why(self) -> str:
        """The reason for it."""
        return f"{self.nest.why}; {self.lowered.why}"

    def __str__(self) -> str:
        return f"{self.nest}, with sums -> {', '.join(map(str, self.sums.targets))}"

    def prepare(self) -> None:
        """Compile."""
        if not self._kernels:
            self._kernels.append(kernel_of(self.lowered, self.nest.work_bytes))

    def run(self, memory: Addresses, turn: int = 0) -> None:
        """Run on checked memory."""
        self.prepare()
        nest, (first, count) = self.nest, self.nest.scalars
        params = KernelWords(
            memory.scalars[first : first + count], [memory.at(place) for place in nest.places]
        )
        places, tensors = self.sums.places[1:], self.sums.tree.tensors[1:]
        outs, parts = [memory.at(place) for place in places], self._kernels[0].parts()
        planes: list[Array] = []
        if self.lowered.plan.is_shared:
            planes = [np.zeros((parts, prod(tensor.sizes)), np.int32) for tensor in tensors]
        words = KernelWords((), [params.address, *(map(address_of, planes) if planes else outs)])
        self._kernels[0].run_in(memory.at(nest.src), memory.at(nest.targets[0]), words.address, parts)
        for out, plane in zip(outs, planes, strict=False):
            sums = np.add.reduce(plane, axis=0, dtype=np.int32)
            ctypes.memmove(out, address_of(sums), sums.nbytes)
