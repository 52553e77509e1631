"""Reductions for the tests: what one must give, from `MemoryDesc.offset` alone, and kernels run by hand."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from restride.desc.memory_desc import MemoryDesc
from restride.emit import entry
from restride.ir.conversion import storage_dtype
from restride.ir.reduction import Op, ReductionNest, reduction_of
from restride.schedule.reduction import finish, new_planes
from restride.targets.cpu_kernels import lower_reduction
from restride.targets.isa import CacheSizes, Isa

from .by_offset import positions
from .kernels import COMMON, elements, room
from .machine_code import loaded

Array = npt.NDArray[np.generic]
Bytes = npt.NDArray[np.uint8]

# With these caches every order of loops is that of a tensor larger than all of them.
NO_CACHE = CacheSizes(l1d=1, l2=1, l3=1)


@dataclass(frozen=True)
class Reduced:
    """A descriptor, the mask of kept dims, and what to fold with."""

    name: str
    md: MemoryDesc
    mask: int
    op: Op

    @property
    def reduction(self) -> ReductionNest:
        """As the planner makes it."""
        return reduction_of(self.md, self.mask, self.op)


def source(md: MemoryDesc, seed: int, op: Op) -> Bytes:
    """Random bits; for sums zero in the padding, as reorders leave it."""
    data = room(elements(md) * md.data_type.bits // 8)
    rng = np.random.default_rng(seed)
    if op is not Op.total or md.padded_dims == md.dims:
        data[:] = rng.integers(0, 256, data.size, np.uint8)
        return data
    places = positions(md, md.dims)
    noise = rng.integers(0, 256, places.size * md.data_type.bits // 8, np.uint8)
    data.view(storage_dtype(md.data_type))[places] = noise.view(storage_dtype(md.data_type)).reshape(md.dims)
    return data


def expected(case: Reduced, data: Bytes, factor: int = 1) -> tuple[Array, ...]:
    """The results, element by element: each element's offset is that of the descriptor."""
    md = case.md
    extents = md.padded_dims if case.op is Op.total else md.dims
    over = tuple(d for d in range(md.ndims) if not case.mask >> d & 1)
    if case.op is Op.total:
        return (_sums(data.view(md.data_type.numpy), positions(md, extents), over, factor),)
    with np.errstate(all="ignore"):
        values = data.view(md.data_type.numpy)[positions(md, extents)].astype(np.float64)
    kind = np.float64 if md.data_type.bits == 64 else np.float32
    is_finite = np.isfinite(values)
    if case.op is Op.amax:
        return (np.abs(values).max(over, initial=0, where=is_finite).astype(kind),)
    low = values.min(over, initial=np.inf, where=is_finite)
    high = values.max(over, initial=-np.inf, where=is_finite)
    return tuple((np.where(np.isfinite(end), end, 0) + 0.0).astype(kind) for end in (low, high))


def _sums(flat: Array, places: Array, over: tuple[int, ...], factor: int) -> Array:
    values = flat.view(np.uint8)[places] != 0 if flat.dtype == np.bool_ else flat[places]
    return np.asarray(values.astype(np.int64).sum(over) * factor).astype(np.int32)


class Kernel:
    """The machine code of a reduction. `kernel(data)` runs every part in turn, the last one first."""

    def __init__(self, reduction: ReductionNest, isa: Isa, caches: CacheSizes) -> None:
        self.reduction, self.lowered = reduction, lower_reduction(reduction, isa, caches)
        self.planes = sum(plan.planes for plan in self.lowered.plan)
        self._library = loaded(self.lowered.ir(), isa)
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        kind = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, count, count)
        self.entry = kind(self._library.address(entry.ENTRY))

    def __call__(self, data: Bytes, factor: int = 1, parts: int = 1) -> tuple[Array, ...]:
        planes = new_planes(self.reduction, self.planes)
        for part in reversed(range(parts)):
            self.part(data.ctypes.data, planes.ctypes.data, factor, part, parts)
        return finish(self.reduction, planes)

    def part(self, src: int, planes: int, factor: int, part: int, parts: int) -> None:
        """Run one share."""
        self.entry(src, planes, ctypes.addressof(ctypes.c_int32(factor)), part, parts)


@functools.lru_cache(maxsize=256)
def compiled(reduction: ReductionNest, isa: Isa, caches: CacheSizes = COMMON) -> Kernel:
    """The kernel of a reduction, compiled once per test process."""
    return Kernel(reduction, isa, caches)


def same(got: tuple[Array, ...], wanted: tuple[Array, ...]) -> None:
    """Equal shapes, types and bits."""
    assert [(a.shape, a.dtype) for a in got] == [(a.shape, a.dtype) for a in wanted]
    for a, b in zip(got, wanted, strict=True):
        # Bytes, so that -0 is not 0.
        bits = f"u{a.itemsize}"
        np.testing.assert_array_equal(a.reshape(-1).view(bits), b.reshape(-1).view(bits))


def _case(name: str, dims: tuple[int, ...], kind: str, tag: str, mask: int, op: Op) -> Reduced:
    return Reduced(
        f"{name}: {op.value} of {kind} {tag} keeping {mask:b}", MemoryDesc(dims, kind, tag), mask, op
    )


def _strides(dims: tuple[int, ...], kind: str, steps: tuple[int, ...], mask: int, op: Op) -> Reduced:
    start = sum((n - 1) * -s for n, s in zip(dims, steps, strict=True) if s < 0)
    name = f"strides {steps}: {op.value} of {kind} keeping {mask:b}"
    return Reduced(name, MemoryDesc.from_strides(dims, kind, steps, start), mask, op)


def _window(kind: str, tag: str, mask: int, op: Op) -> Reduced:
    md = MemoryDesc((9, 70, 11), kind, tag).submemory_desc((5, 22, 7), (3, 48, 2))
    return Reduced(f"window: {op.value} of {kind} {tag} keeping {mask:b}", md, mask, op)


_SUM, _AMAX, _BOTH = Op.total, Op.amax, Op.min_max

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
