"""Sums over the quantised destination, found in the pass that writes it (spec 2.4).

A convolution of s8 activations and s8 weights on instructions that want u8 adds 128 to its source; one with a
zero point of its source shifts it. Both are taken back by one s32 for each output channel: -128 times the sum
of its weights, and -1 times it. Behind the bytes of the weights, in this order, is where oneDNN looks for
them.

On the CPU one kernel does both, a block at a time (`plan/summed.py`). Where no axis of the destination gives
blocks that keep long runs on both sides, where the sums lie in another order than the destination
(`runtime/ordered_sums.py`), and for 4-bit types, they are found in a second pass over what the first left in
the caches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..desc.attr import Compensation
from ..desc.memory_desc import MemoryDesc
from ..plan.compute import Compute
from ..plan.nest import LoopNest
from ..plan.nibbles import wide_type
from ..plan.reduction import Op, interpret, reduction_of
from ..plan.reorder import reorder_nest
from ..runtime.alloc import Array, address_of
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.ordered_sums import ProductProgram, TurnedProgram, ordered_sums
from ..runtime.reduction import SumProgram
from ..runtime.reference import run_nest, storage
from ..runtime.spread import make_program
from ..runtime.summed import SummedProgram, summed_program
from .compensation import compensation_descs
from .feeding import Entry, Extras


class Sums:
    """What finds the sums of one destination, s32 modulo 2**32, and where they go."""

    def __init__(self, wanted: Compensation, dst: MemoryDesc, engine: Engine) -> None:
        self.outputs = compensation_descs(wanted, dst)
        # Where both are wanted one pass is enough: -128 times a sum is 128 times -1 times it.
        self._factor = -1 if wanted.zero_point else -128
        is_compiled = engine.kind != "reference"
        self._bytes = _Bytes(dst, is_compiled) if dst.data_type.bits < 8 else None
        summed = self._bytes.desc if self._bytes else dst
        self._reduction = reduction_of(summed, wanted.mask, Op.total)
        self._program = _program(summed, wanted.mask, self._factor) if is_compiled else None
        self._row: Any = ctypes.c_int32 * self._reduction.outputs

    def write(self, dst: Memory, extras: Extras) -> None:
        """Find the sums of a destination that has been written."""
        outputs = [extras[arg] for arg in self.outputs]
        if self._program is not None:
            self.write_at(dst._address, [memory._address for memory in outputs])
        elif self._reduction.outputs:
            read = self._bytes.interpreted(dst) if self._bytes else storage(dst)
            found = interpret(self._reduction, read, self._factor)[0].reshape(-1)
            self._at(outputs[-1]._address)[:] = found
            self.multiply(outputs[0]._address, outputs[-1]._address)

    def write_at(self, dst: int, outputs: Sequence[int]) -> None:
        """The same on addresses of checked memories, those of the outputs in their order."""
        assert self._program is not None
        held = self._bytes.spread(dst) if self._bytes else None
        self._program.run(dst if held is None else address_of(held), outputs[-1])
        self.multiply(outputs[0], outputs[-1])

    def fused(self, nest: LoopNest, moved_bytes: int) -> SummedProgram | None:
        """What writes the destination and finds its sums in one pass; None where that takes two."""
        if self._bytes is not None or not isinstance(self._program, SumProgram):
            return None
        return summed_program(nest, self._reduction, moved_bytes, self._factor)

    def multiply(self, first: int, last: int) -> None:
        """Make -128 times the sums of -1 times them, where both are wanted."""
        if first != last:
            np.multiply(self._at(last), np.int32(128), out=self._at(first))

    def _at(self, address: int) -> Array:
        """The sums at an address."""
        return np.frombuffer(self._row.from_address(address), np.int32)


def _program(summed: MemoryDesc, mask: int, factor: int) -> SumProgram | ProductProgram | TurnedProgram:
    """The program of a pass that finds the sums."""
    return ordered_sums(summed, mask, factor) or SumProgram(summed, mask, factor, padded=True)


class _Bytes:
    """4-bit elements of a destination in a byte each, for sums; their padding is zero there too."""

    def __init__(self, packed: MemoryDesc, is_compiled: bool) -> None:
        self.desc = packed.as_type(wide_type(packed.data_type))
        self._nest = reorder_nest(packed, self.desc, Compute())
        spans = packed.extent_range(), self.desc.extent_range()
        self._runner = make_program(self._nest, packed.nelems, *spans, True) if is_compiled else None

    def spread(self, packed: int) -> Array:
        """The bytes, given the address of the packed ones."""
        assert self._runner is not None
        made = np.empty(max(self.desc.extent_range()[1], 1), np.uint8)
        self._runner.run(packed, address_of(made), 0)
        return made

    def interpreted(self, packed: Memory) -> Array:
        """The same by the interpreter."""
        wide = Memory(self.desc, packed.engine)
        run_nest(self._nest, packed, wide)
        return storage(wide)


class Compensated:
    """A solved reorder that also writes the sums of its destination, by `fused` where there is one."""

    def __init__(self, inner: Any, sums: Sums, fused: SummedProgram | None = None) -> None:
        self._inner, self.problem, self.chain = inner, inner.problem, inner.chain
        self.name, self.why = inner.name, f"{inner.why}; {fused.why}" if fused else inner.why
        self.scratch_bytes = getattr(inner, "scratch_bytes", 0)
        self.outputs, self._sums, self._fused = sums.outputs, sums, fused

    def with_values(self, problem: Any) -> Compensated:
        """The same sums for the values of a problem of the same structure."""
        return Compensated(self._inner.with_values(problem), self._sums, self._fused)

    def prepare(self) -> None:
        """Compile; there is more to pass than to a direct call."""
        (self._fused or self._inner).prepare()

    def entry(self) -> Entry | None:
        """What a run on addresses needs; None on the reference engine."""
        if self._fused is not None:
            return Entry(_nowhere, self.chain, 0, tuple(self.outputs), self._write_fused, self)
        entry: Entry | None = self._inner.entry()
        return entry and entry._replace(outputs=tuple(self.outputs), write=partial(self._write, entry.call))

    def run(self, src: Memory, dst: Memory, extras: Extras) -> None:
        """Run on checked memories."""
        if self._fused is None:
            self._inner.run(src, dst, extras)
            self._sums.write(dst, extras)
            return
        read, written = src._buffer, dst._buffer
        held: list[object] = []
        if read is None or written is None:
            return
        outputs = [extras[arg]._buffer for arg in self.outputs]
        params = self._inner.params_of(extras, held)
        self._write_fused(
            read.address, written.address, params.address, [each.address for each in outputs if each]
        )

    def _write_fused(self, src: int, dst: int, params: int, outputs: Sequence[int]) -> None:
        assert self._fused is not None
        self._fused.run(src, dst, params, outputs[-1])
        self._sums.multiply(outputs[0], outputs[-1])

    def _write(
        self, call: Callable[[int, int, int], None], src: int, dst: int, params: int, outputs: Sequence[int]
    ) -> None:
        call(src, dst, params)
        self._sums.write_at(dst, outputs)


def _nowhere(src: int, dst: int, params: int) -> None:
    """Never called: there are outputs to write."""
