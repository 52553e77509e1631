"""Reorders with sums in addition to the destination, and what the sums must be."""

from __future__ import annotations

import numpy as np

import restride as rs

from .attributes import places
from .engines import Array, allocated, from_numpy, run


def attr_of(
    mask: int, s8s8: bool = True, zero_point: bool = True, scale: Array | None = None
) -> rs.PrimitiveAttr:
    """Compensation, and scales of the output by the first dim."""
    attr = rs.PrimitiveAttr()
    attr.set_compensation(mask, s8s8, zero_point)
    if scale is not None:
        attr.set_output_scales(1, scale)
    return attr


def reordered(
    engine: rs.Engine, x: Array, dst: rs.MemoryDesc, attr: rs.PrimitiveAttr
) -> tuple[rs.Memory, Array, Array]:
    """The destination and both sums, which were full of poison."""
    source, target = from_numpy(x, engine), allocated(dst, engine)
    pd = rs.Reorder.PrimitiveDesc(source, target, attr)
    sums = [allocated(pd.query_md("exec_arg_md", arg), engine) for arg in (rs.ARG_DST_1, rs.ARG_DST_2)]
    for memory in (target, *sums):
        memory.data.view(np.uint8)[:] = 0xA5
    held = {rs.ARG_FROM: source, rs.ARG_TO: target, rs.ARG_DST_1: sums[0], rs.ARG_DST_2: sums[1]}
    run(rs.Reorder(pd), engine, held)
    return target, *(memory.data for memory in sums)


def totals(memory: rs.Memory, mask: int) -> Array:
    """Sums of what the destination holds, one element at a time, as Python's integers."""
    md = memory.desc
    stored = memory.data[places(md, md.padded_dims)].astype(object).reshape(md.padded_dims)
    lost = tuple(d for d in range(md.ndims) if not mask >> d & 1)
    return np.asarray(stored.sum(axis=lost)).reshape(-1)
