"""f8_e3m4 into every type and from every type, on every engine, against ml_dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.ir.conversion import PROVIDED
from restride.ir.ranges import NOT_FINITE
from support.engines import allocated, memory_over, storage
from support.packed import bytes_of, elements_of, values_of
from support.rounding import bits_of
from support.values import patterns

ROWS = 65


@pytest.mark.parametrize("tags", [("ab", "ab"), ("ab", "ba")], ids=str)
@pytest.mark.parametrize("other", PROVIDED, ids=str)
@pytest.mark.parametrize("is_read", [True, False], ids=["from f8_e3m4", "to f8_e3m4"])
def test_conversions(engine: rs.Engine, other: rs.DataType, tags: tuple[str, str], is_read: bool) -> None:
    src_type, dst_type = (rs.f8_e3m4, other) if is_read else (other, rs.f8_e3m4)
    bits = patterns(src_type)[:: 1 if src_type.bits <= 8 else 7]
    dims = ROWS, bits.size // ROWS + 2
    bits = np.resize(bits, dims)
    src_md, dst_md = (rs.MemoryDesc(dims, *side) for side in zip((src_type, dst_type), tags, strict=True))
    src = memory_over(src_md, engine, storage(bytes_of(bits.reshape(-1), src_type), engine))
    dst, stream = allocated(dst_md, engine), rs.Stream(engine)
    rs.Reorder(src, dst).execute(stream, src, dst)
    stream.wait()
    found = elements_of(np.array(dst.data).view(np.uint8), dst_type)[: bits.size]
    real = np.float64 if rs.f64 in (src_type, dst_type) else np.float32
    with np.errstate(all="ignore"):
        values = values_of(bits if tags[1] == "ab" else bits.T, src_type).reshape(-1).astype(real)
    is_nan = np.isnan(values) & (dst_type.kind == "float")
    np.testing.assert_array_equal(found[~is_nan], bits_of(values, dst_type)[~is_nan])
    # A NaN is one, whatever its sign.
    if dst_type is rs.f8_e3m4:
        assert (found[is_nan] & 0x7F > NOT_FINITE[dst_type]).all()
