"""s16 into every type and from every type, on every engine, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.ir.conversion import PROVIDED
from support.engines import allocated, memory_over, storage
from support.packed import bytes_of, elements_of, values_of
from support.rounding import bits_of
from support.values import patterns

ROWS = 65
RANGES = {"s32": (-(2**31), 2**31 - 1), "s16": (-(2**15), 2**15 - 1), "s8": (-128, 127), "u8": (0, 255)}
RANGES |= {"s4": (-8, 7), "u4": (0, 15)}


def wanted(values: np.ndarray, dst: rs.DataType) -> np.ndarray:
    """Values, which a double holds, as the bits of a type."""
    if dst.kind == "bool":
        return (values != 0).astype(np.uint8)
    if dst.is_integral:
        whole = np.rint(
            np.clip(np.nan_to_num(values.astype(np.float64), posinf=1e9, neginf=-1e9), *RANGES[dst.name])
        )
        bits = whole.astype(np.int64).astype(f"i{max(dst.bits // 8, 1)}").view(f"u{max(dst.bits // 8, 1)}")
        return bits & 15 if dst.bits == 4 else bits
    return bits_of(values.astype(dst.numpy if dst.bits >= 32 else np.float32), dst)


@pytest.mark.parametrize("tags", [("ab", "ab"), ("ab", "ba")], ids=str)
@pytest.mark.parametrize("other", PROVIDED, ids=str)
@pytest.mark.parametrize("is_read", [True, False], ids=["from s16", "to s16"])
def test_conversions(engine: rs.Engine, other: rs.DataType, tags: tuple[str, str], is_read: bool) -> None:
    src_type, dst_type = (rs.s16, other) if is_read else (other, rs.s16)
    if src_type.bits <= 16:
        bits = patterns(src_type)
    else:
        bits = np.linspace(-40000, 40000, 1 << 14).astype(src_type.numpy).view(f"u{src_type.bits // 8}")
    dims = ROWS, bits.size // ROWS + 2
    bits = np.resize(bits, dims)
    src_md, dst_md = (rs.MemoryDesc(dims, *side) for side in zip((src_type, dst_type), tags, strict=True))
    src = memory_over(src_md, engine, storage(bytes_of(bits.reshape(-1), src_type), engine))
    dst, stream = allocated(dst_md, engine), rs.Stream(engine)
    rs.Reorder(src, dst).execute(stream, src, dst)
    stream.wait()
    found = elements_of(np.array(dst.data).view(np.uint8), dst_type)[: bits.size]
    with np.errstate(all="ignore"):
        values = wanted(values_of(bits, src_type), dst_type)
    np.testing.assert_array_equal(found, (values if tags[1] == "ab" else values.T).reshape(-1))
