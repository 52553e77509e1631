"""Expected results of reorders, computed from `MemoryDesc.offset`, without nests or plans."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import restride as rs
from restride.ir.conversion import Inputs, convert
from restride.ir.nest import linear
from support.engines import memory_over, run, storage
from support.kernels import factors_of
from support.packed import elements_of

Array = npt.NDArray[np.generic]
_MARGIN = 192
_CANARY = 0xA5
POISON = 0xFF


@functools.lru_cache(maxsize=64)
def positions(md: rs.MemoryDesc, extents: tuple[int, ...]) -> Array:
    """The element offset of each position of `extents`: those of the axes add up. Not to be written."""
    if 0 in extents:
        return np.zeros(extents, np.int64)
    zero = (0,) * md.ndims
    start = md.offset(*zero)
    total = np.full((1,) * md.ndims, start, np.int64)
    for axis, n in enumerate(extents):
        along = [md.offset(*zero[:axis], i, *zero[axis + 1 :]) - start for i in range(n)]
        total = total + np.array(along, np.int64).reshape([n if d == axis else 1 for d in range(md.ndims)])
    total.flags.writeable = False
    return total


def expected(
    src: Array,
    src_md: rs.MemoryDesc,
    dst: Array,
    dst_md: rs.MemoryDesc,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> Array:
    """The elements `dst` as a reorder must leave them; both are flat, offset 0 first, one to a place."""
    wanted = dst.copy()
    if not dst_md.nelems:
        return wanted
    compute = linear(scaled=alpha != 1.0, summed=beta != 0.0)
    values = src[positions(src_md, src_md.dims)]
    places = positions(dst_md, dst_md.dims)
    inputs = Inputs(dst[places], tuple(factors_of(compute, alpha, beta)))
    written = convert(values, (src_md.data_type, dst_md.data_type), compute, inputs)
    wanted[positions(dst_md, dst_md.padded_dims)] = 0
    wanted[places] = written
    return wanted


@dataclass(frozen=True)
class Guarded:
    """A memory in the midst of canaries, `start` bytes past an aligned address."""

    whole: Array
    memory: rs.Memory

    @property
    def elements(self) -> Array:
        """The bits of each element, from offset 0 on; gaps and padding among them."""
        return elements_of(self.memory.data, self.memory.desc.data_type)

    def check_canaries(self) -> None:
        """Nothing outside the memory was written."""
        start = self.memory.data.ctypes.data - self.whole.ctypes.data if self.memory.desc.nelems else 0
        outside = np.concatenate([self.whole[:start], self.whole[start + self.memory.data.nbytes :]])
        assert (outside == _CANARY).all() or not self.memory.desc.nelems


def guarded(md: rs.MemoryDesc, engine: rs.Engine, start: int = 0, fill: int = POISON) -> Guarded:
    """A memory of `md` that holds `fill` in every byte."""
    low, high = md.extent_range() if md.nelems else (0, 0)
    nbytes = md.data_type.nbytes(max(high, low + md.size * 8 // md.data_type.bits))
    whole = storage(np.full(nbytes + 3 * _MARGIN, _CANARY, np.uint8), engine)
    first = -whole.ctypes.data % 64 + 64 + start
    inside = whole[first : first + nbytes]
    inside[:] = fill
    return Guarded(whole, memory_over(md, engine, inside))


def random_bits(held: Guarded, seed: int) -> None:
    """Fill a memory with random bits: NaN payloads, subnormals and infinities among them."""
    view = held.memory.data.view(np.uint8)
    view[:] = np.random.default_rng(seed).integers(0, 256, view.size, np.uint8)


def check_reorder(
    src_md: rs.MemoryDesc,
    dst_md: rs.MemoryDesc,
    engine: rs.Engine,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    starts: tuple[int, int] = (0, 0),
    seed: int = 0,
) -> None:
    """A reorder by the primitive writes what `MemoryDesc.offset` says, zero padding, and nothing else."""
    src, dst = guarded(src_md, engine, starts[0]), guarded(dst_md, engine, starts[1])
    random_bits(src, seed)
    if beta:
        random_bits(dst, seed + 1)
    wanted = expected(src.elements, src_md, dst.elements, dst_md, alpha, beta)
    before = src.elements.copy()
    primitive = rs.Reorder(src.memory, dst.memory, attr_of(alpha, beta))
    run(primitive, engine, src.memory, dst.memory)
    np.testing.assert_array_equal(dst.elements, wanted)
    np.testing.assert_array_equal(src.elements, before)
    src.check_canaries()
    dst.check_canaries()


def attr_of(alpha: float, beta: float) -> rs.PrimitiveAttr:
    """Attributes with an output scale and a sum."""
    attr = rs.PrimitiveAttr()
    attr.set_output_scales(0, [alpha])
    if beta:
        ops = rs.PostOps()
        ops.append_sum(beta)
        attr.set_post_ops(ops)
    return attr


def every_index(dims: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All logical indices, last axis fastest."""
    return itertools.product(*map(range, dims))
