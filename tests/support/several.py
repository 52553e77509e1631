"""Expected results of concat and sum, computed from `MemoryDesc.offset`, without any plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import restride as rs
from restride.ir.conversion import INTEGER_LIMITS, Inputs, convert, from_real, storage_dtype, to_real
from restride.ir.interpret_nest import gather, scatter
from restride.ir.nest import linear

from .by_offset import Array, Guarded, guarded, positions, random_bits
from .descriptors import data_types, destinations, meet_soon, sources
from .engines import run
from .kernels import tame

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")


def storage(held: Guarded) -> Array:
    """The bits of all elements, from offset 0 on; of 4-bit types the bytes that hold two."""
    data = held.memory.data
    return data.view(storage_dtype(held.memory.desc.data_type))


def take(held: Guarded) -> Array:
    """The bits of the elements, in logical order; of 4-bit types each in a byte."""
    md = held.memory.desc
    return gather(storage(held), md.data_type, positions(md, md.dims))


def zeroed(bits: Array, md: rs.MemoryDesc) -> Array:
    """A copy with zero in every element and in the padding."""
    made = bits.copy()
    if md.nelems:
        scatter(made, md.data_type, positions(md, md.padded_dims), np.zeros((), made.dtype))
    return made


def filled(md: rs.MemoryDesc, engine: rs.Engine, seed: int, start: int = 0) -> Guarded:
    """A memory of random bits, half of the floats near integers."""
    held = guarded(md, engine, start)
    random_bits(held, seed)
    view = held.memory.data.view(np.uint8)
    tame(view, md.data_type, seed)
    return held


def concat_expected(
    srcs: Sequence[Guarded], dst: Array, md: rs.MemoryDesc, axis: int, scales: Sequence[float]
) -> Array:
    """The storage `dst` as a concat must leave it."""
    wanted = zeroed(dst, md)
    if not md.nelems:
        return wanted
    places = np.moveaxis(positions(md, md.dims), axis, 0)
    start = 0
    for held, scale in zip(srcs, scales, strict=True):
        src = held.memory.desc
        n = src.dims[axis]
        if n:
            compute = linear(scaled=scale != 1.0)
            scalars = (scale,) if scale != 1.0 else ()
            bits = convert(take(held), (src.data_type, md.data_type), compute, Inputs(None, scalars))
            scatter(wanted, md.data_type, np.moveaxis(places[start : start + n], 0, axis), bits)
        start += n
    return wanted


def check_concat(
    mds: Sequence[rs.MemoryDesc],
    dst_md: rs.MemoryDesc,
    axis: int,
    engine: rs.Engine,
    scales: Sequence[float] = (),
    starts: tuple[int, int] = (0, 0),
) -> rs.Concat.PrimitiveDesc:
    """A concat writes what `MemoryDesc.offset` says, zero padding, and nothing else."""
    factors = [float(np.float32(scale)) for scale in scales] or [1.0] * len(mds)
    srcs = [filled(md, engine, i, starts[0]) for i, md in enumerate(mds)]
    dst = guarded(dst_md, engine, starts[1])
    random_bits(dst, 99)
    wanted = concat_expected(srcs, storage(dst), dst_md, axis, factors)
    before = [storage(held).copy() for held in srcs]
    pd = rs.Concat.PrimitiveDesc(engine, axis, mds, dst_md, scaled(factors))
    run(rs.Concat(pd), engine, [held.memory for held in srcs], dst.memory)
    np.testing.assert_array_equal(storage(dst), wanted)
    for held, old in zip([*srcs, dst], [*before, wanted], strict=True):
        np.testing.assert_array_equal(storage(held), old)
        held.check_canaries()
    return pd


def scaled(scales: Sequence[float]) -> rs.PrimitiveAttr:
    """Attributes with a scale for each source."""
    attr = rs.PrimitiveAttr()
    for i, scale in enumerate(scales):
        attr.set_scales(rs.ARG_MULTIPLE_SRC + i, 0, [scale])
    return attr


def is_wide(mds: Sequence[rs.MemoryDesc], dst: rs.MemoryDesc, scales: Sequence[float]) -> bool:
    """True where a sum is in doubles: of f64, of wide integers but s32, of integers that f32 may not add."""
    types = [md.data_type for md in (*mds, dst)]
    is_moved = len(mds) == 1 and scales[0] == 1.0
    if {rs.f64} & {*types} or (not is_moved and {rs.s64, rs.u64, rs.u32} & {*types}):
        return True
    exact = all(t.is_integral or t is rs.boolean for t in types) and all(s == 1.0 for s in scales)
    most = max(INTEGER_LIMITS[t][1] + 1 if t.is_integral else 1 for t in types[:-1]) if exact else 0
    return len(mds) > 1 and most * len(mds) > 2**24


def sum_expected(srcs: Sequence[Guarded], dst: Array, md: rs.MemoryDesc, scales: Sequence[float]) -> Array:
    """The storage `dst` as a sum must leave it: added in order, rounded once."""
    wanted = zeroed(dst, md)
    if not md.nelems:
        return wanted
    mds = [held.memory.desc for held in srcs]
    places = positions(md, md.dims)
    if len(srcs) == 1 and scales[0] == 1.0:
        bits = convert(take(srcs[0]), (mds[0].data_type, md.data_type), linear(), Inputs())
        scatter(wanted, md.data_type, places, bits)
        return wanted
    real = np.float64 if is_wide(mds, md, scales) else np.float32
    with np.errstate(all="ignore"):
        values = [to_real(take(held), held.memory.desc.data_type, real) for held in srcs]
        total = real(scales[0]) * values[0]
        for scale, value in zip(scales[1:], values[1:], strict=True):
            total = total + real(scale) * value
        total = np.where(np.isnan(total), real(np.nan), total)
    scatter(wanted, md.data_type, places, from_real(total, md.data_type))
    return wanted


def check_sum(
    mds: Sequence[rs.MemoryDesc],
    dst_md: rs.MemoryDesc,
    engine: rs.Engine,
    scales: Sequence[float] = (),
    starts: tuple[int, int] = (0, 0),
) -> rs.Sum.PrimitiveDesc:
    """A sum writes what `MemoryDesc.offset` says, zero padding, and nothing else."""
    factors = [float(np.float32(scale)) for scale in scales] or [1.0] * len(mds)
    srcs = [filled(md, engine, i, starts[0]) for i, md in enumerate(mds)]
    dst = guarded(dst_md, engine, starts[1])
    random_bits(dst, 99)
    wanted = sum_expected(srcs, storage(dst), dst_md, factors)
    before = [storage(held).copy() for held in srcs]
    pd = rs.Sum.PrimitiveDesc(engine, factors, mds, dst_md)
    run(rs.Sum(pd), engine, [held.memory for held in srcs], dst.memory)
    np.testing.assert_array_equal(storage(dst), wanted)
    for held, old in zip([*srcs, dst], [*before, wanted], strict=True):
        np.testing.assert_array_equal(storage(held), old)
        held.check_canaries()
    return pd


# --- hypothesis ---------------------------------------------------------------------------------------------

_SCALES = (1.0, 1.0, 0.5, -3.7, 0.0, -0.0, float("inf"), float("nan"), 4294967295.0)
_PARTS = (0, 1, 1, 2, 3, 5, 8, 15, 16, 17, 32, 40)
_OTHERS = (1, 2, 3, 4, 5, 7, 16, 17, 33)


@st.composite
def concats(draw: st.DrawFn) -> tuple[list[rs.MemoryDesc], rs.MemoryDesc, int, list[float]]:
    """Sources of any layout and type, a destination likewise, the axis, and a scale for each source."""
    ndims = draw(st.integers(1, 4))
    axis = draw(st.integers(0, ndims - 1))
    rest = [draw(st.sampled_from(_OTHERS)) for _ in range(ndims)]
    parts = draw(st.lists(st.sampled_from(_PARTS), min_size=1, max_size=5))
    if sum(parts) == 0:
        parts.append(3)
    dims = [(*rest[:axis], n, *rest[axis + 1 :]) for n in parts]
    whole = (*rest[:axis], sum(parts), *rest[axis + 1 :])
    mds = [
        rs.MemoryDesc(shape, draw(data_types)) if 0 in shape else draw(sources(shape, draw(data_types)))
        for shape in dims
    ]
    has_scales = draw(st.booleans())
    scales = [draw(st.sampled_from(_SCALES)) if has_scales else 1.0 for _ in mds]
    dst = draw(destinations(whole, draw(data_types)))
    assume(all(meet_soon(md, dst) for md in mds))
    return mds, dst, axis, scales


@st.composite
def sums(draw: st.DrawFn, most: int = 5) -> tuple[list[rs.MemoryDesc], rs.MemoryDesc, list[float]]:
    """Sources of any layout and type, a destination likewise, and a scale for each source."""
    dims = tuple(draw(st.lists(st.sampled_from(_OTHERS), min_size=1, max_size=4)))
    count = draw(st.integers(1, most))
    kinds = draw(st.one_of(st.none(), st.sampled_from((rs.s32, rs.f32, rs.f64, rs.s4))))
    mds = [draw(sources(dims, kinds or draw(data_types))) for _ in range(count)]
    has_scales = draw(st.booleans())
    scales = [draw(st.sampled_from(_SCALES)) if has_scales else 1.0 for _ in mds]
    dst = draw(destinations(dims, kinds or draw(data_types)))
    assume(meet_soon(*set(mds), dst))
    return mds, dst, scales
