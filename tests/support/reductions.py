"""Sums and ranges for the tests: what one must give, from `MemoryDesc.offset` alone, and their kernels."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from restride.desc.memory_desc import MemoryDesc
from restride.ir.conversion import storage_dtype, to_real
from restride.ir.interpret_tree import interpret_tree
from restride.ir.ranges import amax_tree, min_max_tree, sum_tree
from restride.ir.tree import LoopTree
from restride.runtime.cpu.executable import CpuExecutable
from restride.runtime.cpu.kernel import KernelWords
from restride.runtime.cpu.ranges import fold_program
from restride.targets.isa import CacheSizes, Isa

from .by_offset import positions
from .kernels import COMMON, POISON, elements, room

Array = npt.NDArray[np.generic]
Bytes = npt.NDArray[np.uint8]

# With these caches every order of loops is that of a tensor larger than all of them.
NO_CACHE = CacheSizes(l1d=1, l2=1, l3=1)


@dataclass(frozen=True)
class Reduced:
    """A descriptor, the mask of kept dims, what to fold with, and the factor of sums."""

    name: str
    md: MemoryDesc
    mask: int
    op: str
    factor: int = 1

    @property
    def tree(self) -> LoopTree:
        """The loop tree."""
        if self.op == "sum":
            return sum_tree(self.md, self.mask, (self.factor,))
        return (amax_tree if self.op == "amax" else min_max_tree)(self.md, self.mask)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents that are kept."""
        extents = self.md.padded_dims if self.op == "sum" else self.md.dims
        return tuple(n for dim, n in enumerate(extents) if self.mask >> dim & 1)

    def new_results(self) -> list[Bytes]:
        """Bytes for each result, with what must be overwritten."""
        outs = self.tree.tensors[1:]
        return [np.full(out.data_type.nbytes(math.prod(self.shape)), POISON, np.uint8) for out in outs]

    def values(self, results: Sequence[Bytes]) -> tuple[Array, ...]:
        """Results as numbers."""
        if self.op == "sum":
            return tuple(bits.view(np.int32).reshape(self.shape) for bits in results)
        kind, real = self.md.data_type, np.float64 if self.md.data_type.bits == 64 else np.float32
        low, *high = (
            to_real(bits.view(storage_dtype(kind)), kind, real).reshape(self.shape) for bits in results
        )
        return (low,) if not high else (np.asarray(real(0) - low), high[0] + real(0))


def source(md: MemoryDesc, seed: int, op: str) -> Bytes:
    """Random bits; for sums zero in the padding, as reorders leave it."""
    data = room(elements(md) * md.data_type.bits // 8)
    rng = np.random.default_rng(seed)
    if op != "sum" or md.padded_dims == md.dims:
        data[:] = rng.integers(0, 256, data.size, np.uint8)
        return data
    places = positions(md, md.dims)
    noise = rng.integers(0, 256, places.size * md.data_type.bits // 8, np.uint8)
    data.view(storage_dtype(md.data_type))[places] = noise.view(storage_dtype(md.data_type)).reshape(md.dims)
    return data


def expected(case: Reduced, data: Bytes) -> tuple[Array, ...]:
    """The results, element by element: each element's offset is that of the descriptor."""
    md = case.md
    extents = md.padded_dims if case.op == "sum" else md.dims
    over = tuple(d for d in range(md.ndims) if not case.mask >> d & 1)
    if case.op == "sum":
        return (_sums(data.view(md.data_type.numpy), positions(md, extents), over, case.factor),)
    with np.errstate(all="ignore"):
        values = data.view(md.data_type.numpy)[positions(md, extents)].astype(np.float64)
    kind = np.float64 if md.data_type.bits == 64 else np.float32
    is_finite = np.isfinite(values)
    if case.op == "amax":
        return (np.abs(values).max(over, initial=0, where=is_finite).astype(kind),)
    low = values.min(over, initial=np.inf, where=is_finite)
    high = values.max(over, initial=-np.inf, where=is_finite)
    return tuple((np.where(np.isfinite(end), end, 0) + 0.0).astype(kind) for end in (low, high))


def _sums(flat: Array, places: Array, over: tuple[int, ...], factor: int) -> Array:
    values = flat.view(np.uint8)[places] != 0 if flat.dtype == np.bool_ else flat[places]
    return np.asarray(values.astype(np.int64).sum(over) * factor).astype(np.int32)


@functools.lru_cache(maxsize=256)
def compiled(case: Reduced, isa: Isa, caches: CacheSizes = COMMON) -> CpuExecutable:
    """The kernels of a case, compiled once per test process."""
    return CpuExecutable(fold_program(case.tree), isa, caches)


def found(case: Reduced, data: Bytes, isa: Isa, caches: CacheSizes = COMMON) -> tuple[Array, ...]:
    """Return the results of kernels."""
    results = case.new_results()
    run(compiled(case, isa, caches), data.ctypes.data, [bits.ctypes.data for bits in results])
    return case.values(results)


def run(executable: CpuExecutable, src: int, outs: Sequence[int]) -> None:
    """Run on addresses."""
    first, *others = outs
    words = KernelWords((), others)
    executable.run(src, first, words.address)


def interpreted(case: Reduced, data: Bytes) -> tuple[Array, ...]:
    """Return the results of the interpreter."""
    results = case.new_results()
    kinds = [storage_dtype(tensor.data_type) for tensor in case.tree.tensors]
    flats = [bits.view(kind) for bits, kind in zip((data, *results), kinds, strict=True)]
    interpret_tree(case.tree, flats)
    return case.values(results)


def same(got: tuple[Array, ...], wanted: tuple[Array, ...]) -> None:
    """Equal shapes, types and bits."""
    assert [(a.shape, a.dtype) for a in got] == [(a.shape, a.dtype) for a in wanted]
    for a, b in zip(got, wanted, strict=True):
        # Bytes, so that -0 is not 0.
        bits = f"u{a.itemsize}"
        np.testing.assert_array_equal(a.reshape(-1).view(bits), b.reshape(-1).view(bits))


def _case(name: str, dims: tuple[int, ...], kind: str, tag: str, mask: int, op: str) -> Reduced:
    return Reduced(f"{name}: {op} of {kind} {tag} keeping {mask:b}", MemoryDesc(dims, kind, tag), mask, op)


def _strides(dims: tuple[int, ...], kind: str, steps: tuple[int, ...], mask: int, op: str) -> Reduced:
    start = sum((n - 1) * -s for n, s in zip(dims, steps, strict=True) if s < 0)
    name = f"strides {steps}: {op} of {kind} keeping {mask:b}"
    return Reduced(name, MemoryDesc.from_strides(dims, kind, steps, start), mask, op)


def _window(kind: str, tag: str, mask: int, op: str) -> Reduced:
    md = MemoryDesc((9, 70, 11), kind, tag).submemory_desc((5, 22, 7), (3, 48, 2))
    return Reduced(f"window: {op} of {kind} {tag} keeping {mask:b}", md, mask, op)


_SUM, _AMAX, _BOTH = "sum", "amax", "min_max"

CASES = (
    _case("one element", (1,), "s8", "a", 0, _SUM),
    _case("one element", (1, 1), "f32", "ab", 3, _BOTH),
    _case("a line", (1003,), "f32", "a", 0, _AMAX),
    _case("a line", (4099,), "f8_e4m3", "a", 0, _BOTH),
    _case("a line", (517,), "boolean", "a", 0, _SUM),
    _case("a line", (2049,), "s32", "a", 0, _SUM),
    _case("each element", (261,), "f16", "a", 1, _BOTH),
    _case("rows", (19, 333), "bf16", "ab", 1, _AMAX),
    _case("rows", (19, 333), "u8", "ab", 1, _SUM),
    _case("columns", (19, 333), "f64", "ab", 2, _BOTH),
    _case("columns", (83, 70), "s8", "ab", 2, _SUM),
    _case("columns", (83, 600), "f32", "ab", 2, _AMAX),
    _case("a few columns", (83, 3), "f32", "ab", 2, _BOTH),
    _case("a few columns", (83, 5), "s8", "ab", 2, _SUM),
    _case("short rows", (130, 9), "f32", "ab", 1, _AMAX),
    _case("short rows", (130, 4), "s8", "ab", 1, _SUM),
    _case("channels", (3, 21, 7, 7), "f32", "nchw", 2, _BOTH),
    _case("channels", (2, 17, 28, 19), "bf16", "nchw", 2, _AMAX),
    _case("channels last", (3, 21, 7, 7), "f16", "nhwc", 2, _BOTH),
    _case("channels last", (2, 40, 9, 5), "f32", "nhwc", 2, _AMAX),
    _case("blocked channels", (2, 17, 5, 7), "f32", "nChw16c", 2, _BOTH),
    _case("blocked channels", (2, 37, 5, 7), "f64", "nChw8c", 0, _AMAX),
    _case("blocked channels", (2, 37, 5, 7), "s8", "nChw16c", 2, _SUM),
    _case("blocked channels", (3, 40, 3, 3), "f8_e5m2", "nChw16c", 5, _BOTH),
    _case("images", (5, 24, 6, 7), "f32", "nChw8c", 1, _AMAX),
    _case("weights", (33, 21, 3, 3), "s8", "OIhw4i16o4i", 1, _SUM),
    _case("weights", (33, 21, 3, 3), "f32", "OIhw4i16o4i", 1, _BOTH),
    _case("weights", (33, 21, 3, 3), "s8", "oihw", 1, _SUM),
    _case("weights", (33, 21, 3, 3), "s8", "hwio", 1, _SUM),
    _case("weights", (33, 21, 3, 3), "u8", "OIhw16i16o", 3, _SUM),
    _case("groups", (3, 20, 18, 3, 3), "s8", "gOIhw4i16o4i", 3, _SUM),
    _case("groups", (3, 20, 18, 3, 3), "bf16", "gOIhw4i16o4i", 3, _AMAX),
    _case("matmul", (70, 130), "s8", "BA16a64b4a", 2, _SUM),
    _case("matmul", (70, 130), "f16", "BA16a64b4a", 2, _BOTH),
    _case("batched matmul", (3, 40, 70), "s8", "aCB16b64c4b", 5, _SUM),
    _case("outer and inner kept", (5, 6, 7, 8), "f32", "abcd", 0b1001, _BOTH),
    _case("turned around", (5, 6, 7, 8), "s32", "dcba", 0b0101, _SUM),
    _case("everything kept", (5, 6, 33), "f8_e5m2", "cab", 7, _AMAX),
    _case("twice the same dim", (35, 9), "u8", "Ab8a4b2a", 1, _SUM),
    _case("blocks that do not nest", (53, 36), "bf16", "BA10a7b", 2, _AMAX),
    _strides((9, 50), "f32", (64, 1), 1, _AMAX),
    _strides((9, 50), "s8", (64, 1), 2, _SUM),
    _strides((21, 34), "f32", (100, 3), 1, _BOTH),
    _strides((21, 34), "u8", (100, 3), 2, _SUM),
    _strides((13, 29), "f64", (-29, -1), 2, _BOTH),
    _strides((13, 29), "s8", (29, -1), 2, _SUM),
    _strides((7, 66), "s8", (1, 0), 1, _SUM),
    _strides((7, 66), "f32", (0, 1), 1, _AMAX),
    _strides((30, 9), "bf16", (1, 1), 2, _BOTH),
    _window("f32", "abc", 2, _BOTH),
    _window("s8", "aBc16b", 2, _SUM),
    _window("f16", "aBc16b", 4, _AMAX),
)  # fmt: skip
