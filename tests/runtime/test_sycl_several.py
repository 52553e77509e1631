"""Concats and sums on a SYCL device: the bits of the reference engine."""

from __future__ import annotations

import pytest

import restride as rs
from support.sycl import filled, host, on_device, raw_bytes, sycl_engine

pytestmark = pytest.mark.sycl


@pytest.fixture(scope="module")
def engine():
    return sycl_engine()


def answers(engine, mds, create):
    """The destination's bytes of the device and of the reference engine."""
    sources, found = [filled(md, i) for i, md in enumerate(mds)], []
    for there in (engine, rs.Engine("reference")):
        primitive = create(there)
        held = [on_device(src, there) if there.is_sycl else host(src) for src in sources]
        dst = rs.Memory(primitive.get_primitive_desc().dst_desc(), there)
        primitive.execute(rs.Stream(there), held, dst)
        found.append(raw_bytes(dst))
    return found


CONCATS = [
    ("f32", ["f32", "f32"], "nchw", "nchw"),
    ("s8", ["f32", "u8", "bf16"], "nhwc", "nChw16c"),
    ("u4", ["u4", "s4"], "nchw", "nchw"),
]


@pytest.mark.parametrize(("dst", "srcs", "src_format", "dst_format"), CONCATS)
def test_concats(engine, dst, srcs, src_format, dst_format):
    mds = [rs.MemoryDesc((2, 5 + 6 * i, 3, 4), kind, src_format) for i, kind in enumerate(srcs)]
    channels = sum(md.dims[1] for md in mds)
    target = rs.MemoryDesc((2, channels, 3, 4), dst, dst_format)
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_MULTIPLE_SRC, 0, [0.5])
    found, wanted = answers(
        engine, mds, lambda there: rs.Concat(rs.Concat.PrimitiveDesc(there, 1, mds, target, attr))
    )
    assert (found == wanted).all()


SUMS = [
    ("f32", ["f32", "s8", "bf16"], [1.0, 0.3, -2.0]),
    ("s32", ["s32", "s32"], [1.0, 1.0]),
    ("u8", ["u4", "s4", "f16"], [0.5, 3.0, 1.0]),
    pytest.param("bf16", ["f32"] * 40, [0.7] * 40, id="many"),
]


@pytest.mark.parametrize(("dst", "srcs", "scales"), SUMS)
def test_sums(engine, dst, srcs, scales):
    mds = [rs.MemoryDesc((2, 17, 3), kind, "abc" if i % 2 else "acb") for i, kind in enumerate(srcs)]
    target = rs.MemoryDesc((2, 17, 3), dst, "aBc8b")
    found, wanted = answers(
        engine, mds, lambda there: rs.Sum(rs.Sum.PrimitiveDesc(there, scales, mds, target))
    )
    assert (found == wanted).all()


def test_a_concat_gives_one_event(engine):
    md = rs.MemoryDesc((3, 4), "f32", "ab")
    pd = rs.Concat.PrimitiveDesc(engine, 0, [md, md])
    sources = [on_device(filled(md, i), engine) for i in range(2)]
    dst = rs.Memory(pd.dst_desc(), engine)
    event = rs.Concat(pd).execute_sycl(rs.Stream(engine, "out_of_order"), sources, dst)
    event.wait()
    assert (raw_bytes(dst)[:48] == raw_bytes(sources[0])).all()
