"""One small reorder, plain to blocked with padding, for what holds for every primitive."""

from __future__ import annotations

from typing import Any

import restride as rs

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
STREAM = rs.Stream(CPU)
PD = rs.Reorder.PrimitiveDesc
NCHW = rs.MemoryDesc((2, 17, 3, 5), "f32", "nchw")
BLOCKED = rs.MemoryDesc((2, 17, 3, 5), "f32", "nChw16c")


def desc(dims: tuple[int, ...], data_type: Any, format: Any) -> rs.MemoryDesc:
    """A descriptor."""
    return rs.MemoryDesc(dims, data_type, format)


def pair(
    src: rs.MemoryDesc = NCHW, dst: rs.MemoryDesc = BLOCKED, engine: rs.Engine = CPU
) -> tuple[rs.Memory, rs.Memory]:
    """New memories of both descriptors."""
    return rs.Memory(src, engine), rs.Memory(dst, engine)
