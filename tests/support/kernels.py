"""Compile a nest for an instruction set and run it on plain NumPy buffers, without engine, cache or pool."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.emit import entry
from restride.ir.conversion import storage_dtype
from restride.ir.interpret_nest import interpret
from restride.ir.nest import Compute, LoopNest, linear
from restride.runtime.cpu.kernel import KernelWords
from restride.targets import cpu
from restride.targets.isa import CacheSizes, Isa, host_isa
from restride.targets.lowered import Lowered

from .machine_code import loaded

Array = npt.NDArray[np.generic]
Bytes = npt.NDArray[np.uint8]

LEVELS = ("generic", "sse41", "avx2", "avx512")
COMMON = CacheSizes()
# With a last cache of one byte every kernel that may write past the caches does.
TINY = CacheSizes(l2=1, l3=1)
POISON = 0xFF
_PAGE = 4096


@functools.cache
def runnable() -> tuple[Isa, ...]:
    """The instruction sets that this machine can run: the plain levels up to its best, and its own."""
    own = host_isa()
    if own.name not in LEVELS:
        return (own,)
    levels = [Isa.for_name(name) for name in LEVELS[: LEVELS.index(own.name) + 1]]
    return (*levels, own) if own not in levels else tuple(levels)


def isa_id(isa: Isa) -> str:
    """A short name for test ids: the level, and `+` where the host has more than the level asks for."""
    return isa.name if isa == Isa.for_name(isa.name) else f"{isa.name}+"


class Kernel:
    """The machine code of one nest. `kernel(src, dst)` takes addresses and runs every part in turn."""

    def __init__(
        self, nest: LoopNest, isa: Isa, *, may_stream: bool = False, caches: CacheSizes = COMMON
    ) -> None:
        self._take(cpu.lower_nest(nest, isa, caches, may_stream=may_stream))

    def _take(self, lowered: Lowered) -> None:
        self.lowered, self._compute = lowered, lowered.nests[0].compute
        self._library = loaded(lowered.ir(), lowered.isa)
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        kind = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, count, count)
        self._entry = kind(self._library.address(entry.ENTRY))

    def part(self, src: int, dst: int, part: int, parts: int, alpha: float = 1.0, beta: float = 0.0) -> None:
        """Run one share."""
        params = KernelWords(factors_of(self._compute, alpha, beta))
        self._entry(src, dst, params.address, part, parts)

    def __call__(self, src: int, dst: int, alpha: float = 1.0, beta: float = 0.0, parts: int = 1) -> None:
        """Run all shares, the last one first: their order must not matter."""
        for part in reversed(range(parts)):
            self.part(src, dst, part, parts, alpha, beta)


@functools.lru_cache(maxsize=256)
def compiled(nest: LoopNest, isa: Isa, may_stream: bool = False, caches: CacheSizes = COMMON) -> Kernel:
    """The kernel of a nest, compiled once per test process."""
    return Kernel(nest, isa, may_stream=may_stream, caches=caches)


def room(nbytes: int, start: int = 0) -> Bytes:
    """`nbytes` zero bytes that begin `start` bytes past a page border."""
    raw = np.zeros(nbytes + start + 2 * _PAGE, np.uint8)
    first = -raw.ctypes.data % _PAGE + start
    return raw[first : first + nbytes]


def elements(desc: MemoryDesc) -> int:
    """Return the number of elements of a buffer for `desc`, from offset 0 of its address."""
    return max(desc.extent_range()[1], desc.offset0 + desc.size * 8 // desc.data_type.bits)


def random_source(desc: MemoryDesc, seed: int, start: int = 0) -> Bytes:
    """Random bits: every NaN payload, subnormal and limit is as likely as its pattern."""
    data = room(elements(desc) * desc.data_type.bits // 8, start)
    data[:] = np.random.default_rng(seed).integers(0, 256, data.size, np.uint8)
    return data


def tame(data: Bytes, data_type: DataType, seed: int) -> None:
    """Replace half of the floats by values in and around the integer ranges, where rounding shows."""
    if data_type.kind != "float" or data_type.bits < 8:
        return
    values = data.view(data_type.numpy)
    rng = np.random.default_rng(seed)
    near = rng.choice([1.0, 0.5, 50.0, 300.0, 1e9], values.size) * rng.standard_normal(values.size)
    halves = np.round(near * 2) / 2
    kept = rng.random(values.size) < 0.5
    with np.errstate(all="ignore"):
        values[kept] = np.where(rng.random(values.size) < 0.5, near, halves).astype(data_type.numpy)[kept]


def destination(desc: MemoryDesc, seed: int | None = None, start: int = 0) -> Bytes:
    """A poisoned destination, or with a seed one of random bits, as a sum needs."""
    data = room(elements(desc) * desc.data_type.bits // 8, start)
    data[:] = POISON if seed is None else np.random.default_rng(seed).integers(0, 256, data.size, np.uint8)
    return data


def expected(nest: LoopNest, src: Bytes, dst: Bytes, alpha: float = 1.0, beta: float = 0.0) -> Bytes:
    """Interpret a nest on copies of these buffers. Bytes that the nest does not write stay."""
    wide_src = room(src.size)
    wide_src[:] = src
    result = room(dst.size)
    result[:] = dst
    scalars = factors_of(nest.compute, alpha, beta)
    interpret(nest, _elements_of(wide_src, nest.src_type), _elements_of(result, nest.dst_type), scalars)
    return result


def _elements_of(data: Bytes, data_type: DataType) -> Array:
    return data.view(storage_dtype(data_type))


def canonical(data: Bytes, data_type: DataType) -> Array:
    """Bits to compare. NaNs count: the contract fixes their bits too."""
    return data.view(storage_dtype(data_type))


def difference(got: Bytes, wanted: Bytes, data_type: DataType) -> str:
    """The first elements that differ, readable; empty where there are none."""
    a, b = canonical(got, data_type), canonical(wanted, data_type)
    bad = np.flatnonzero(a != b)
    shown = ", ".join(f"[{i}] got {int(a[i]):#x} for {int(b[i]):#x}" for i in bad[:6])
    return f"{bad.size} of {a.size} differ: {shown}" if bad.size else ""


def check(
    nest: LoopNest,
    src: Bytes,
    dst: Bytes,
    isas: Iterable[Isa],
    *,
    factors: tuple[float, float] = (1.0, 0.0),
    parts: int = 1,
    may_stream: bool = False,
    caches: CacheSizes = COMMON,
) -> None:
    """The kernel of `nest` for each instruction set writes what the interpreter writes, and nothing else."""
    wanted = expected(nest, src, dst, *factors)
    for isa in isas:
        got = room(dst.size, dst.ctypes.data % _PAGE)
        got[:] = dst
        kernel = compiled(nest, isa, may_stream, caches)
        kernel(src.ctypes.data, got.ctypes.data, *factors, parts=parts)
        problem = difference(got, wanted, nest.dst_type)
        assert not problem, f"{isa_id(isa)}: {problem}\n{nest}\n{kernel.lowered}"


def factors_of(compute: Compute, alpha: float, beta: float) -> list[float]:
    """The inputs of `linear` computations, as f32 values."""
    named = {"mul": alpha, "sum": beta}
    with np.errstate(all="ignore"):
        return [float(np.float32(named[step.name])) for step in compute.steps]


def compute_of(alpha: float, beta: float) -> Compute:
    """The computation of a reorder with these factors; none for alpha 1 and beta 0."""
    return linear(scaled=math.isnan(alpha) or alpha != 1.0, summed=math.isnan(beta) or beta != 0.0)
