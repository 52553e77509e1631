"""Buffers between pages that nobody may touch, and a program that runs kernels on them in its own process.

    python -m support.guarded FAMILY LEVEL

prints the case that it is about to run, so that a crash names its case, and `done` at the end.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np

from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.ir.nest import Axis, LoopNest
from restride.targets import cpu
from restride.targets.isa import Isa

from .cases import CASES, Case
from .kernels import (
    POISON,
    TINY,
    Bytes,
    Kernel,
    compiled,
    destination,
    difference,
    expected,
    isa_id,
    random_source,
    room,
    runnable,
    tame,
)
from .shuffles import DIRECT, STAGED, ShuffleCase, staged_kernel, ways

_PAGE = mmap.PAGESIZE
_NONE, _READ, _READ_WRITE = 0, 1, 3
_LINE = 64


class Guarded:
    """`nbytes` bytes between two forbidden pages; they touch the first or, `at_end`, the second."""

    def __init__(self, nbytes: int, *, at_end: bool) -> None:
        pages = max(-(-nbytes // _PAGE), 1)
        self._inside = pages * _PAGE
        self._map = mmap.mmap(-1, self._inside + 2 * _PAGE)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + _PAGE
        self.address = self._start + (self._inside - nbytes if at_end else 0)
        self.nbytes, self._offset = nbytes, _PAGE + self.address - self._start
        _protect(self._start - _PAGE, _PAGE, _NONE)
        _protect(self._start + self._inside, _PAGE, _NONE)

    def write(self, data: bytes) -> None:
        """Fill the bytes, and all around them in their pages with poison."""
        ctypes.memset(self._start, POISON, self._inside)
        ctypes.memmove(self.address, data, self.nbytes)

    def read(self) -> bytes:
        """The bytes."""
        return ctypes.string_at(self.address, self.nbytes)

    def array(self) -> Bytes:
        """The bytes in place; they live as long as this."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.nbytes).from_buffer(self._map, self._offset))

    def around(self) -> set[int]:
        """Values of the bytes that share a page with ours."""
        before = ctypes.string_at(self._start, self.address - self._start)
        end = self.address + self.nbytes
        return {*before, *ctypes.string_at(end, self._start + self._inside - end)}

    def lock(self) -> None:
        """Make the pages read-only."""
        _protect(self._start, self._inside, _READ)


def _protect(address: int, nbytes: int, access: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), access):
        raise OSError(ctypes.get_errno(), "mprotect")


def _span(desc: MemoryDesc) -> tuple[int, int]:
    """The first byte that belongs to a tensor, and how many from there on."""
    low, high = desc.extent_range()
    width = desc.data_type.bits // 8
    return low * width, (high - low) * width


def run_case(case: Case, isa: Isa, *, at_end: bool, parts: int) -> None:
    """The kernel reads the source alone, writes the destination alone, and there what is interpreted."""
    nest = case.nest
    (src_low, src_size), (dst_low, dst_size) = _span(case.src), _span(case.dst)
    data, before, wanted = _reordered(case)
    source, target = Guarded(src_size, at_end=at_end), Guarded(dst_size, at_end=at_end)
    source.write(data[src_low : src_low + src_size].tobytes())
    source.lock()
    target.write(before[dst_low:].tobytes())
    to = target.address - dst_low
    streams = to % _LINE == 0 and cpu.lower_nest(nest, isa, TINY).streams
    kernel = compiled(nest, isa, streams, TINY)
    kernel(source.address - src_low, to, *case.factors, parts=parts)
    problem = difference(_bytes(target.read()), wanted[dst_low:], nest.dst_type)
    if problem or target.around() - {POISON}:
        raise AssertionError(problem or "bytes outside the destination were written")


# Each case runs twice in a row, at both ends of its pages: what is right is interpreted once.


@functools.lru_cache(maxsize=1)
def _reordered(case: Case) -> tuple[Bytes, Bytes, Bytes]:
    """The source, the destination before, and as it must be then."""
    data = random_source(case.src, 1)
    tame(data, case.src.data_type, 2)
    before = room(sum(_span(case.dst)))
    before[:] = random_source(case.dst, 3)[: before.size] if case.beta else POISON
    return data, before, expected(case.nest, data, before, *case.factors)


@functools.lru_cache(maxsize=1)
def _shuffled(case: ShuffleCase) -> tuple[Bytes, Bytes, Bytes]:
    """As `_reordered`; all of the destination is there."""
    data, before = random_source(case.src, 1), destination(case.dst)
    return data, before, expected(case.nest, data, before)


def _bytes(data: bytes) -> Bytes:
    made = room(len(data))
    made[:] = bytearray(data)
    return made


def run_staged(case: ShuffleCase, isa: Isa, *, at_end: bool, parts: int) -> None:
    """Work in stages reads the source alone and writes the destination alone, flushed out or not."""
    data, before, wanted = _shuffled(case)
    for way in ways(case, isa):
        source, target = Guarded(data.size, at_end=at_end), Guarded(before.size, at_end=at_end)
        source.write(data.tobytes())
        source.lock()
        target.write(before.tobytes())
        if way == "streamed" and target.address % _LINE:
            continue
        staged_kernel(case, isa, way)(source.address, target.address, parts=parts)
        problem = difference(_bytes(target.read()), wanted, case.dst.data_type)
        if problem or target.around() - {POISON}:
            raise AssertionError(problem or "bytes outside the destination were written")


# --- families ----------------------------------------------------------------------------------------------

_TYPES = ("f32 f32", "u8 u8", "f32 s8", "bf16 f32", "s32 bf16", "s64 s16", "u16 s64")
_TAILS = (*range(1, 20), 23, 31, 32, 33, 47, 48, 49, 63, 64, 65, 67, 95, 100, 127, 128, 129, 131)


def run_shuffle(case: ShuffleCase, isa: Isa, *, at_end: bool, parts: int) -> None:
    """A shuffle in one stage reads the source alone, and writes the destination alone."""
    (src_low, src_size), (dst_low, dst_size) = _span(case.src), _span(case.dst)
    data, before = random_source(case.src, 1), room(dst_low + dst_size)
    before[:] = POISON
    wanted = expected(case.nest, data, before)
    source, target = Guarded(src_size, at_end=at_end), Guarded(dst_size, at_end=at_end)
    source.write(data[src_low : src_low + src_size].tobytes())
    source.lock()
    target.write(before[dst_low:].tobytes())
    to = target.address - dst_low
    streams = to % _LINE == 0 and cpu.lower_nest(case.nest, isa, TINY).streams
    compiled(case.nest, isa, streams, TINY)(source.address - src_low, to, parts=parts)
    problem = difference(_bytes(target.read()), wanted[dst_low:], case.dst.data_type)
    if problem or target.around() - {POISON}:
        raise AssertionError(problem or "bytes outside the destination were written")


def _fast() -> Iterator[Case]:
    """One of each family."""
    names = {
        "copy",
        "convert down",
        "rows of whole lines",
        "transpose of whole lines",
        "scaled sum into bytes",
        "transpose",
        "transpose of bytes",
        "three channels apart",
        "three channels together",
        "into blocks",
        "blocks that do not nest",
        "guarded sum",
        "strided",
        "gaps between rows",
        "reversed",
        "a window of blocks",
    }
    return (case for case in CASES if case.name in names)


def _sized(family: str) -> Iterator[Case]:
    """A family at every tail."""
    for n, types in product(_TAILS, _TYPES):
        src, dst = types.split()
        yield from _of_family(family, n, src, dst)


def _of_family(family: str, n: int, src: str, dst: str) -> Iterator[Case]:
    forms: dict[str, tuple[tuple[int, ...], object, object]] = {
        "copies": ((n,), "a", "a"),
        "rows": ((3, n), (n + 5, 1), (n + 3, 1)),
        "transposes": ((n, 37), "ab", "ba"),
        "channels": ((2, 3, n), "acb", "abc"),
        "channels_last": ((2, 3, n), "abc", "acb"),
        "blocks": ((2, n, 5), "abc", "aBc16b"),
        "plain": ((2, n, 5), "aBc16b", "abc"),
        "strides": ((n, 3), (7, 2), (2, 2 * n + 1)),
    }
    dims, read, written = forms[family]
    made = (MemoryDesc(dims, kind, form) for kind, form in ((src, read), (dst, written)))  # type: ignore[arg-type]
    yield Case(f"{family} {n} {src} {dst}", "", *made)
    if (src, dst) in (("bf16", "f32"), ("f32", "s8")):
        made = (MemoryDesc(dims, kind, form) for kind, form in ((src, read), (dst, written)))  # type: ignore[arg-type]
        yield Case(f"{family} {n} {src} {dst} sum", "", *made, 0.5, 0.75)


FAMILIES = ("copies", "rows", "transposes", "channels", "channels_last", "blocks", "plain", "strides")


# --- the guard itself --------------------------------------------------------------------------------------


def _strays(isa: Isa) -> None:
    """Touch one byte too many, as a wrong kernel would; print how each attempt ends."""
    kernel = Kernel(LoopNest(DataType.u8, DataType.u8, (Axis(1, 1, 1),)), isa)
    source, target = Guarded(100, at_end=True), Guarded(100, at_end=True)
    first = Guarded(100, at_end=False)
    source.lock()
    attempts = {
        "read after": (source.address + 100, target.address),
        "read before": (first.address - 1, target.address),
        "write after": (source.address, target.address + 100),
        "write before": (source.address, first.address - 1),
        "write source": (source.address, source.address),
        "the last byte": (source.address + 99, target.address + 99),
    }
    for name, (at, to) in attempts.items():
        child = os.fork()
        if not child:
            kernel(at, to)
            os._exit(0)
        print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def main(family: str, level: str) -> None:
    """Run a family of cases for one instruction set."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    isa = next(isa for isa in runnable() if isa_id(isa) == level)
    if family == "strays":
        _strays(isa)
        return
    if family == "staged":
        _run_all(STAGED, run_staged, isa, level)
        return
    if family == "shuffles":
        _run_all(DIRECT, run_shuffle, isa, level)
        return
    cases = {"fast": _fast, "all": lambda: iter(CASES)}.get(family, lambda: _sized(family))
    _run_all(cases(), run_case, isa, level)


def _run_all(cases: Iterable[Any], run: Callable[..., None], isa: Isa, level: str) -> None:
    for number, case in enumerate(cases):
        for at_end in (False, True):
            print(f"{case.name} for {level}, at the {'end' if at_end else 'start'}", flush=True)
            run(case, isa, at_end=at_end, parts=1 + number % 3)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
