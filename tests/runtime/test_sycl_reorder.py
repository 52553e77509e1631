"""Reorders and shuffles on a SYCL device: the bits of the reference engine, across engines too."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.errors import InvalidArguments
from support.sycl import filled, host, on_device, raw_bytes, sycl_engine

pytestmark = pytest.mark.sycl
TYPES = ("f64", "f32", "bf16", "f16", "f8_e5m2", "f8_e4m3", "s32", "s8", "u8", "s4", "u4", "boolean")
DIMS = (2, 17, 5, 3)


@pytest.fixture(scope="module")
def engine():
    return sycl_engine()


def both(engine, src_md, dst_md, attr=None, seed=1):
    """The destination's bytes of the device and of the reference engine, from the same bytes before."""
    src, old = filled(src_md, seed), filled(dst_md, seed + 1)
    there, here = on_device(old, engine), host(old)
    there_src, here_src = on_device(src, engine), host(src)
    stream = rs.Stream(engine)
    rs.Reorder(there_src, there, attr).execute(stream, there_src, there)
    rs.Reorder(here_src, here, attr).execute(rs.Stream(here.engine), here_src, here)
    return raw_bytes(there), raw_bytes(here)


@pytest.mark.parametrize("dst_type", TYPES)
@pytest.mark.parametrize("src_type", TYPES)
def test_every_pair_of_types_has_the_reference_bits(engine, src_type, dst_type):
    found, wanted = both(
        engine, rs.MemoryDesc(DIMS, src_type, "nchw"), rs.MemoryDesc(DIMS, dst_type, "nChw16c")
    )
    assert (found == wanted).all()


FORMATS = [
    ("nchw", "nhwc"),
    ("nChw16c", "nchw"),
    ("nhwc", "nChw8c"),
    ("nchw", "ABcd8a16b"),
    ("abdc", "Abcd4a"),
    ("nchw", "aBcd5b"),
]


@pytest.mark.parametrize(("src_format", "dst_format"), FORMATS)
@pytest.mark.parametrize("data_type", ["f32", "u8", "s4", "f64"])
def test_every_layout_has_the_reference_bits(engine, data_type, src_format, dst_format):
    mds = (rs.MemoryDesc((9, 20, 7, 6), data_type, fmt) for fmt in (src_format, dst_format))
    found, wanted = both(engine, *mds)
    assert (found == wanted).all()


@pytest.mark.parametrize("fmt", ["abc", "cba", "aBc16b"])
@pytest.mark.parametrize(
    "types", [("f4_e2m1", "f64"), ("f4_e3m0", "f32"), ("bf16", "f4_e2m1"), ("f32", "nf4"), ("nf4", "f16")]
)
def test_rows_of_half_bytes_begin_in_either_half(engine, types, fmt):
    attr = rs.PrimitiveAttr()
    attr.set_output_scales(1, [0.5, -0.25, 4.0])
    mds = (rs.MemoryDesc((3, 5, 31), kind, tag) for kind, tag in zip(types, ("abc", fmt), strict=True))
    found, wanted = both(engine, *mds, attr)
    assert (found == wanted).all()


def test_gaps_between_elements_stay(engine):
    found, wanted = both(
        engine, rs.MemoryDesc((6, 5), "f32", (9, 1)), rs.MemoryDesc((6, 5), "s8", (11, 2)), seed=7
    )
    assert (found == wanted).all()


def scaled(attr):
    attr.set_scales(rs.ARG_SRC, 2, np.linspace(0.1, 3, 17).astype(np.float32))


def quantized(attr):
    attr.set_scales(rs.ARG_SRC, 0, [1.5])
    attr.set_scales(rs.ARG_DST, 1, np.array([0.3, 7], np.float32))


def shifted(attr):
    attr.set_zero_points(rs.ARG_SRC, 0, [3])
    attr.set_zero_points(rs.ARG_DST, 2, np.arange(17, dtype=np.int32))


def summed(attr):
    ops = rs.PostOps()
    ops.append_sum(0.37)
    attr.set_post_ops(ops)


def eltwise(*names):
    def write(attr):
        ops = rs.PostOps()
        for name in names:
            ops.append_eltwise(name, 0.3, 0.7)
        attr.set_post_ops(ops)

    return write


ATTRIBUTES = {
    "scaled": scaled,
    "quantized": quantized,
    "summed": summed,
    "sqrt": eltwise("sqrt", "linear"),
    "exact": eltwise("round", "relu", "abs", "square"),
    "in_double": eltwise("gelu_erf", "exp"),
    "logistic": eltwise("logistic", "tanh", "mish"),
    "log": eltwise("log", "soft_relu", "pow"),
}


ATTRIBUTED = [
    (how, types)
    for how in ATTRIBUTES
    for types in ("f32 f32", "f32 s8", "s8 f32", "bf16 f16", "f64 f32", "u8 u4", "s4 bf16", "s32 f64")
]


@pytest.mark.parametrize(
    ("how", "types"), [*ATTRIBUTED, ("shifted", "u8 s8"), ("shifted", "s4 s32"), ("shifted", "s32 s4")]
)
def test_attributes_have_the_reference_bits(engine, types, how):
    attr = rs.PrimitiveAttr()
    (ATTRIBUTES | {"shifted": shifted})[how](attr)
    src, dst = types.split()
    found, wanted = both(
        engine, rs.MemoryDesc(DIMS, src, "nchw"), rs.MemoryDesc(DIMS, dst, "nChw16c"), attr, seed=3
    )
    assert (found == wanted).all()


def test_division_and_subnormals_are_exact(engine):
    x = np.array([1e-38, 3e-39, 1e-45, -2e-40, 1.17549435e-38, 7.0, 1 / 3, 3e38], np.float32)
    divisor = np.array([3.0, 7.0, 0.3, 1e-3, 49.0, 3.0, 1e-40, 1.5], np.float32)
    md = rs.MemoryDesc((8,), "f32", "a")
    ops, attr = rs.PostOps(), rs.PrimitiveAttr()
    ops.append_binary("div", md)
    attr.set_post_ops(ops)
    args = {rs.ARG_FROM: x, rs.arg_attr_multiple_post_op(0) | rs.ARG_SRC_1: divisor}
    stream, out = rs.Stream(engine), rs.Memory(md, engine)
    memories = {arg: on_device(rs.Memory.from_numpy(value), engine) for arg, value in args.items()}
    pd = rs.Reorder.PrimitiveDesc(engine, md, engine, md, attr)
    rs.Reorder(pd).execute(stream, {**memories, rs.ARG_TO: out})
    with np.errstate(all="ignore"):
        wanted = x / divisor
    assert out.to_numpy().view(np.uint32).tolist() == wanted.view(np.uint32).tolist()


def test_products_and_sums_round_one_by_one(engine):
    x = np.float32([1 + 2**-12] * 64)
    md = rs.MemoryDesc((64,), "f32", "a")
    ops, attr = rs.PostOps(), rs.PrimitiveAttr()
    ops.append_eltwise("linear", float(x[0]), -1.0)
    attr.set_post_ops(ops)
    src, out = on_device(rs.Memory.from_numpy(x), engine), rs.Memory(md, engine)
    rs.Reorder(src, out, attr).execute(rs.Stream(engine), src, out)
    assert out.to_numpy()[0] == x[0] * x[0] - np.float32(1)


def test_zero_points_of_half_a_byte_are_read_when_it_runs(engine):
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_SRC, 2, data_type="s4")
    md, out = rs.MemoryDesc((2, 6), "s8", "ab"), rs.MemoryDesc((2, 6), "f32", "ab")
    zero = rs.Memory(rs.MemoryDesc((6,), "s4", "a"), rs.Engine("cpu"), np.uint8([0x21, 0xF3, 0x87]))
    results = []
    for there in (engine, rs.Engine("reference")):
        pd = rs.Reorder.PrimitiveDesc(there, md, there, out, attr)
        values = rs.Memory.from_numpy(np.arange(12, dtype=np.int8).reshape(2, 6), engine=rs.Engine("cpu"))
        held = [values, zero]
        moved = [on_device(m, there) if there.is_sycl else host(m) for m in held]
        made = rs.Memory(out, there)
        args = {rs.ARG_FROM: moved[0], rs.ARG_ATTR_ZERO_POINTS | rs.ARG_SRC: moved[1], rs.ARG_TO: made}
        rs.Reorder(pd).execute(rs.Stream(there), args)
        results.append(made.to_numpy().tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize("host_kind", ["cpu", "reference"])
@pytest.mark.parametrize("types", ["f32 f32", "f32 s8", "s4 u4"])
def test_reorders_cross_from_the_host_to_the_device_and_back(engine, types, host_kind):
    first, second = types.split()
    plain, blocked = rs.MemoryDesc(DIMS, first, "nchw"), rs.MemoryDesc(DIMS, second, "nChw16c")
    back = rs.MemoryDesc(DIMS, "f32", "nhwc")
    attr = rs.PrimitiveAttr()
    scaled(attr)
    src = host(filled(plain, 5), host_kind)
    there, home = rs.Memory(blocked, engine), host(filled(back, 6), host_kind)
    wanted, again = rs.Memory(blocked, src.engine), rs.Memory(back, src.engine)
    stream = rs.Stream(engine, "out_of_order")
    done = rs.Reorder(src, there, attr).execute_sycl(stream, src, there)
    rs.Reorder(there, home).execute_sycl(stream, there, home, deps=[done]).wait()
    here = rs.Stream(src.engine)
    rs.Reorder(src, wanted, attr).execute(here, src, wanted)
    rs.Reorder(wanted, again).execute(here, wanted, again)
    assert (raw_bytes(there) == raw_bytes(wanted)).all()
    assert (raw_bytes(home) == raw_bytes(again)).all()


def test_a_read_only_source_of_the_host_crosses(engine):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    x.flags.writeable = False
    src = rs.Memory.from_numpy(x)
    out = rs.Memory(rs.MemoryDesc((3, 4), "f32", "ba"), engine)
    rs.Reorder(src, out).execute(rs.Stream(engine), src, out)
    assert out.to_numpy().tolist() == x.tolist()


@pytest.mark.parametrize("dims", [(0, 3), (3, 0)])
def test_tensors_without_elements_are_no_work(engine, dims):
    md = rs.MemoryDesc(dims, "f32", "ab")
    src, dst = rs.Memory(md, engine), rs.Memory(md, engine)
    rs.Reorder(src, dst).execute_sycl(rs.Stream(engine), src, dst).wait()
    assert dst.to_numpy().shape == dims


def test_dims_that_are_known_at_execution(engine):
    open_md = rs.MemoryDesc((rs.RUNTIME_DIM, 3), "f32", (3, 1))
    pd = rs.Reorder.PrimitiveDesc(engine, open_md, engine, rs.MemoryDesc((rs.RUNTIME_DIM, 3), "s8", (3, 1)))
    src = on_device(filled(rs.MemoryDesc((4, 3), "f32", "ab"), 2), engine)
    dst = rs.Memory(rs.MemoryDesc((4, 3), "s8", "ab"), engine)
    rs.Reorder(pd).execute(rs.Stream(engine), src, dst)
    assert dst.to_numpy().shape == (4, 3)


def test_overlap_is_refused(engine):
    md = rs.MemoryDesc((4, 3), "f32", "ab")
    src = rs.Memory(md, engine)
    dst = rs.Memory(rs.MemoryDesc((4, 3), "f32", "ba"), engine, src)
    with pytest.raises(InvalidArguments, match="overlap"):
        rs.Reorder(src, dst).execute(rs.Stream(engine), src, dst)


@pytest.mark.parametrize("data_type", ["f32", "u8", "s4"])
@pytest.mark.parametrize("fmt", ["nchw", "nhwc", "nChw16c"])
def test_shuffles_have_the_reference_bits(engine, fmt, data_type):
    md = rs.MemoryDesc((2, 20, 3, 5), data_type, fmt)
    src, results = filled(md, 9), []
    for there in (engine, rs.Engine("reference")):
        given = on_device(src, there) if there.is_sycl else host(src)
        pd = rs.ShuffleForward.PrimitiveDesc(rs.ShuffleForward.Desc("forward", md, 1, 4), there)
        made = rs.Memory(md, there)
        rs.ShuffleForward(pd).execute(rs.Stream(there), {rs.ARG_SRC: given, rs.ARG_DST: made})
        results.append(raw_bytes(made))
    assert (results[0] == results[1]).all()
