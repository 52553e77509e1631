"""Zero points of what is multiplied, and weights that are decompressed: beside NumPy's integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.ops.matmul import MatmulProblem
from support.computed import computed, elements, memory_of
from support.convolved import Case, backward_data, forward
from support.effort import examples
from support.errors import refused

CPU = rs.Engine("cpu")
LIMITS = {"u8": (0, 256), "s8": (-128, 128), "u4": (0, 16), "s4": (-8, 8)}
SHAPES = [
    Case(2, 1, 20, 24, (9, 11), (3, 3), (1, 1), (0, 0), (1, 1)),
    Case(1, 1, 21, 17, (7, 30), (3, 3), (2, 2), (0, 0), (1, 1)),
    Case(1, 20, 1, 1, (9, 11), (3, 3), (1, 1), (0, 0), (1, 1)),
    Case(1, 2, 6, 20, (9, 11), (3, 3), (1, 1), (1, 1), (2, 2)),
]


def whole(data_type: str, dims: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers of all of a type."""
    return np.random.default_rng(seed).integers(*LIMITS[data_type], dims)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("formats", ["any", None])
@pytest.mark.parametrize("types", ["u8 s8 u8", "s8 s8 s32"])
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_a_zero_point_of_a_source_counts_where_a_window_has_elements(case, types, formats):
    kinds, zero = types.split(), 7
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_SRC, 0, [zero])
    attr.set_zero_points(rs.ARG_DST, 0, [5])
    mds = [rs.MemoryDesc(dims, kind, formats) for dims, kind in zip(case.dims, kinds, strict=True)]
    x, w = (whole(kind, dims, i) for i, (kind, dims) in enumerate(zip(kinds[:2], case.dims, strict=False)))
    pd = rs.ConvolutionForward.PrimitiveDesc(
        CPU, "forward_inference", "convolution_direct", *mds, *case.window, attr=attr
    )
    made = computed(rs.ConvolutionForward, pd, CPU, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, rs.ARG_DST)
    wanted = forward(case, x - zero, w) + 5
    wanted = wanted.clip(0, 255) if kinds[2] == "u8" else wanted
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), wanted)


def test_a_zero_point_of_a_source_that_is_deconvolved(engine):
    if engine.is_sycl:
        pytest.skip("devices have no kernels of loop trees yet")
    case, zero = Case(1, 1, 20, 8, (5, 6), (3, 3), (2, 2), (0, 0), (1, 1)), 3
    source, (outputs, inputs, *kernel), dst = case.dims[2], case.dims[1], case.dims[0]
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_SRC, 0, [zero])
    x, w = whole("u8", source, 0), whole("s8", (inputs, outputs, *kernel), 1)
    rows = zip((source, w.shape, dst), ("u8", "s8", "s32"), strict=True)
    pd = rs.DeconvolutionForward.PrimitiveDesc(
        *(engine, "forward_inference", "deconvolution_direct"),
        *(rs.MemoryDesc(dims, kind, "any") for dims, kind in rows),
        *case.window,
        attr=attr,
    )
    made = computed(rs.DeconvolutionForward, pd, engine, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, rs.ARG_DST)
    wanted = backward_data(case, x - zero, w.swapaxes(0, 1))
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), wanted)


_N = st.integers(1, 40)


@settings(max_examples=examples(40))
@given(
    sizes=st.tuples(_N, _N, _N),
    types=st.sampled_from(("u8 s8", "s8 s8", "u8 u8", "s8 u8")),
    format=st.sampled_from(("any", None, "ba")),
    has_source=st.booleans(),
    of_weights=st.sampled_from(("none", "one", "columns")),
    is_later=st.booleans(),
)
def test_zero_points_of_both_factors_come_out_of_the_sum(
    sizes, types, format, has_source, of_weights, is_later
):
    m, k, n = sizes
    first, second = types.split()
    attr, more = rs.PrimitiveAttr(), {}
    zero = 100 if has_source else 0
    zeros = np.random.default_rng(3).integers(-60, 60, 1 if of_weights == "one" else n, np.int32)
    zeros = np.zeros(1, np.int32) if of_weights == "none" else zeros
    if has_source:
        attr.set_zero_points(rs.ARG_SRC, 0, [zero])
    if of_weights != "none":
        mask = 2 if of_weights == "columns" else 0
        attr.set_zero_points(rs.ARG_WEIGHTS, mask, None if is_later else zeros)
        if is_later:
            more[rs.ARG_ATTR_ZERO_POINTS | rs.ARG_WEIGHTS] = rs.Memory.from_numpy(zeros)
    mds = [
        rs.MemoryDesc(dims, kind, tag)
        for dims, kind, tag in zip(
            ((m, k), (k, n), (m, n)), (first, second, "s32"), (None, format, None), strict=True
        )
    ]
    pd = rs.Matmul.PrimitiveDesc(CPU, *mds, attr)
    x, w = whole(first, (m, k), 1), whole(second, (k, n), 2)
    memories = {
        rs.ARG_SRC: memory_of(pd.src_desc(), x, CPU),
        rs.ARG_WEIGHTS: memory_of(pd.weights_desc(), w, CPU),
    }
    memories[rs.ARG_DST] = rs.Memory(pd.dst_desc(), CPU)
    rs.Matmul(pd).execute(rs.Stream(CPU), memories | more)
    np.testing.assert_array_equal(elements(memories[rs.ARG_DST]), (x - zero) @ (w - zeros))


COMPRESSED = ["s4", "u4", "s8", "u8", "f4_e2m1", "f4_e3m0", "f8_e4m3"]


def _decompressed(engine, weights_type, source_type, format, groups, is_later):
    """A product with weights of groups, and what it should be."""
    m, k, n = 9, 64, 21
    rng = np.random.default_rng(5)
    extents = (k // groups, n)
    scales = (2.0 ** rng.integers(-3, 3, extents)).astype(np.float32)
    has_zeros = weights_type in LIMITS
    zeros = rng.integers(-3, 4, extents).astype(np.int32) if has_zeros else np.zeros(extents, np.int32)
    w = whole(weights_type, (k, n), 6) if has_zeros else rng.choice([0, 0.5, 1, 2, 4, -1, -4], (k, n))
    attr, shared = rs.PrimitiveAttr(), (groups, 1)
    attr.set_scales(rs.ARG_WEIGHTS, 3, None if is_later else scales.ravel(), shared)
    attr.set_scales(rs.ARG_SRC, 0, [0.5])
    more = {rs.ARG_ATTR_SCALES | rs.ARG_WEIGHTS: rs.Memory.from_numpy(scales)} if is_later else {}
    if has_zeros:
        attr.set_zero_points(rs.ARG_WEIGHTS, 3, None if is_later else zeros.ravel(), shared)
    if has_zeros and is_later:
        more[rs.ARG_ATTR_ZERO_POINTS | rs.ARG_WEIGHTS] = rs.Memory.from_numpy(zeros)
    x = rng.integers(-3, 4, (m, k)).astype(np.float32)
    bias = rng.integers(-3, 4, (1, n)).astype(np.float32)
    pd = rs.Matmul.PrimitiveDesc(
        engine,
        rs.MemoryDesc((m, k), source_type),
        rs.MemoryDesc((k, n), weights_type, format),
        rs.MemoryDesc((1, n), "f32"),
        rs.MemoryDesc((m, n), "f32"),
        attr,
    )
    memories = {
        rs.ARG_SRC: rs.Memory(pd.src_desc(), engine),
        rs.ARG_WEIGHTS: rs.Memory(pd.weights_desc(), engine),
    }
    for memory, values in zip(memories.values(), (x, w.astype(np.float32)), strict=True):
        rs.reorder(values, None, out=memory)
    memories |= {
        rs.ARG_BIAS: rs.Memory.from_numpy(bias, engine=engine),
        rs.ARG_DST: rs.Memory(pd.dst_desc(), engine),
    }
    rs.Matmul(pd).execute(rs.Stream(engine), memories | more)
    table = (w - np.repeat(zeros, groups, 0)) * np.repeat(scales, groups, 0)
    return elements(memories[rs.ARG_DST]), 0.5 * (x.astype(np.float64) @ table) + bias


@pytest.mark.sweep(1)
@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize(
    ("source_type", "format", "groups"), [("f32", "any", 32), ("bf16", "ba", 1), ("f16", "ab", 16)]
)
@pytest.mark.parametrize("weights_type", COMPRESSED)
def test_weights_are_decompressed_with_the_factors_of_their_groups(
    weights_type, source_type, format, groups, is_later
):
    made, wanted = _decompressed(CPU, weights_type, source_type, format, groups, is_later)
    np.testing.assert_array_equal(made, wanted)


def test_the_reference_engine_decompresses_too():
    made, wanted = _decompressed(rs.Engine("reference"), "s4", "f32", "any", 32, False)
    np.testing.assert_array_equal(made, wanted)


def _multiplied(engine, x, w, mds, attr):
    """What a product without bias writes; x and w are numbers that the types have."""
    pd = rs.Matmul.PrimitiveDesc(engine, *mds, attr)
    memories = {
        rs.ARG_SRC: rs.Memory(pd.src_desc(), engine),
        rs.ARG_WEIGHTS: rs.Memory(pd.weights_desc(), engine),
    }
    for memory, values in zip(memories.values(), (x, w), strict=True):
        rs.reorder(values.astype(np.float32), None, out=memory)
    memories[rs.ARG_DST] = rs.Memory(pd.dst_desc(), engine)
    rs.Matmul(pd).execute(rs.Stream(engine), memories)
    return elements(memories[rs.ARG_DST]).astype(np.float64)


def _engines():
    return [CPU, rs.Engine("reference")]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("engine", _engines(), ids=str)
@pytest.mark.parametrize("formats", [("any", "any"), ("ab", "ba")])
@pytest.mark.parametrize(
    ("types", "groups", "zeros_of"),
    [
        ("s8 s8", (32, 16), "src wei"),
        ("u8 s4", (64, 32), "wei"),
        ("s8 u4", (1, 64), "src"),
        ("u8 u8", (16, 1), ""),
    ],
)
def test_both_factors_may_have_scales_and_zero_points_of_groups(types, groups, zeros_of, formats, engine):
    m, k, n = 5, 64, 21
    kinds, rng = types.split(), np.random.default_rng(8)
    x, w = whole(kinds[0], (m, k), 1), whole(kinds[1], (k, n), 2)
    rows = [(rs.ARG_SRC, "src", (1, groups[0])), (rs.ARG_WEIGHTS, "wei", (groups[1], 1))]
    attr, factors = rs.PrimitiveAttr(), []
    for (arg, name, shared), values in zip(rows, (x, w), strict=True):
        extents = tuple(a // b for a, b in zip(values.shape, shared, strict=True))
        scales = rng.choice([0.5, 1, 2], extents).astype(np.float32)
        zeros = rng.integers(-8, 8, extents, np.int32) * (name in zeros_of)
        attr.set_scales(arg, 3, scales.ravel(), shared)
        if name in zeros_of:
            attr.set_zero_points(arg, 3, zeros.ravel(), shared)
        factors.append((values - np.kron(zeros, np.ones(shared))) * np.kron(scales, np.ones(shared)))
    dims, kinds = ((m, k), (k, n), (m, n)), (*kinds, "f32")
    mds = [rs.MemoryDesc(*row) for row in zip(dims, kinds, (*formats, "ab"), strict=True)]
    np.testing.assert_array_equal(_multiplied(engine, x, w, mds, attr), factors[0] @ factors[1])


@pytest.mark.sweep(1)
@pytest.mark.parametrize("engine", _engines(), ids=str)
@pytest.mark.parametrize("format", ["any", "ab", "ba"])
@pytest.mark.parametrize("types", ["s8 s4 s32", "u8 u4 f32"])
def test_weights_of_4_bits_are_multiplied_by_bytes_as_bytes(types, format, engine):
    dims, kinds = ((7, 33), (33, 40), (7, 40)), types.split()
    x, w = (whole(kind, size, i) for i, (kind, size) in enumerate(zip(kinds[:2], dims, strict=False)))
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_WEIGHTS, 0, [3])
    mds = [rs.MemoryDesc(*row) for row in zip(dims, kinds, (format, format, "ab"), strict=True)]
    np.testing.assert_array_equal(_multiplied(engine, x, w, mds, attr), x @ (w - 3))


@pytest.mark.sweep(1)
@pytest.mark.parametrize("engine", _engines(), ids=str)
@pytest.mark.parametrize("format", ["any", "ab", "ba"])
@pytest.mark.parametrize("types", ["f4_e2m1 f4_e2m1 f4_e2m1", "f4_e2m1 f4_e3m0 f32", "f32 f32 s4"])
def test_floats_of_4_bits_are_multiplied_and_written(types, format, engine):
    dims, kinds, rng = ((5, 33), (33, 22), (5, 22)), types.split(), np.random.default_rng(9)
    x, w = rng.choice([0, 0.25, 0.5], dims[0]), rng.choice([-1.0, 0, 1, 2], dims[1])
    x = x * 2 if kinds[0] != "f32" else x
    mds = [rs.MemoryDesc(*row) for row in zip(dims, kinds, [format] * 3, strict=True)]
    made, wanted = _multiplied(engine, x, w, mds, rs.PrimitiveAttr()), x @ w
    if kinds[2] == "f4_e2m1":
        wanted = wanted.clip(-6, 6).astype(rs.DataType.f4_e2m1.numpy).astype(np.float64)
    elif kinds[2] == "s4":
        wanted = np.rint(wanted).clip(-8, 7)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("outputs_have_their_own", [False, True])
@pytest.mark.parametrize("formats", ["any", None])
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_a_zero_point_of_weights_counts_where_a_window_has_elements(case, formats, outputs_have_their_own):
    outputs = case.groups * case.outputs
    zeros = np.random.default_rng(4).integers(-60, 60, outputs if outputs_have_their_own else 1, np.int32)
    mask = 0 if not outputs_have_their_own else 3 if case.groups > 1 else 1
    attr, kinds = rs.PrimitiveAttr(), ("u8", "s8", "s32")
    attr.set_zero_points(rs.ARG_WEIGHTS, mask, zeros)
    attr.set_zero_points(rs.ARG_SRC, 0, [9])
    mds = [rs.MemoryDesc(dims, kind, formats) for dims, kind in zip(case.dims, kinds, strict=True)]
    x, w = (whole(kind, dims, i) for i, (kind, dims) in enumerate(zip(kinds[:2], case.dims, strict=False)))
    pd = rs.ConvolutionForward.PrimitiveDesc(
        CPU, "forward_inference", "convolution_direct", *mds, *case.window, attr=attr
    )
    made = computed(rs.ConvolutionForward, pd, CPU, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, rs.ARG_DST)
    flat = np.broadcast_to(zeros, outputs).reshape(
        *w.shape[: w.ndim - 1 - len(case.kernel)], *[1] * (1 + len(case.kernel))
    )
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), forward(case, x - 9, w - flat))


@pytest.mark.parametrize("format", ["any", None])
def test_zero_points_of_an_inner_product_come_out_of_the_sum(format, engine):
    if engine.is_sycl:
        pytest.skip("devices have no kernels of loop trees yet")
    dims, kinds = ((9, 12, 3, 2), (21, 12, 3, 2), (9, 21)), ("u8", "s8", "f32")
    zeros = np.random.default_rng(4).integers(-60, 60, 21, np.int32)
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_WEIGHTS, 1, zeros)
    attr.set_zero_points(rs.ARG_SRC, 0, [5])
    mds = [rs.MemoryDesc(*row) for row in zip(dims, kinds, (format, format, None), strict=True)]
    x, w = whole("u8", dims[0], 1), whole("s8", dims[1], 2)
    pd = rs.InnerProductForward.PrimitiveDesc(engine, "forward_inference", *mds, attr=attr)
    made = computed(rs.InnerProductForward, pd, engine, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, rs.ARG_DST)
    wanted = np.einsum("nchw,ochw->no", x - 5, w - zeros[:, None, None, None])
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), wanted)


def test_other_values_of_attributes_share_an_executable():
    found = set()
    for value in (1, 2):
        attr = rs.PrimitiveAttr()
        attr.set_zero_points(rs.ARG_SRC, 0, [value])
        mds = [
            rs.MemoryDesc(dims, kind) for dims, kind in (((4, 8), "u8"), ((8, 16), "s8"), ((4, 16), "s32"))
        ]
        problem = rs.Matmul.PrimitiveDesc(CPU, *mds, attr)._implementation().problem
        assert isinstance(problem, MatmulProblem)
        found.add(problem.structure())
    assert len(found) == 1


# --- what becomes of exact sums -----------------------------------------------------------------------------


@pytest.mark.sweep(1)
@pytest.mark.parametrize("dst_type", ["f32", "u8", "bf16"])
@pytest.mark.parametrize("format", [None, "ba"])
@pytest.mark.parametrize("sizes", [(20, 300, 33), (3, 5, 2)])
def test_exact_sums_become_f32_and_so_does_all_that_follows(sizes, format, dst_type, engine):
    if engine.is_sycl:
        pytest.skip("devices have no kernels of loop trees yet")
    m, k, n = sizes
    rng = np.random.default_rng(8)
    x, w = whole("u8", (m, k), 1), whole("s8", (k, n), 2)
    scales, more = rng.random(n, np.float32), rng.standard_normal((m, n)).astype(np.float32)
    bias = rng.integers(-(1 << 30), 1 << 30, (1, n)).astype(np.int32)
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    attr.set_scales(rs.ARG_SRC, 0, [0.3])
    attr.set_scales(rs.ARG_WEIGHTS, 2, scales)
    attr.set_scales(rs.ARG_DST, 0, [7.7])
    ops.append_eltwise("relu", 0.1, 0.0)
    ops.append_binary("add", rs.MemoryDesc((m, n), "f32"))
    ops.append_eltwise("tanh", 0.0, 0.0)
    ops.append_eltwise("linear", 90.1, 3.3)
    attr.set_post_ops(ops)
    mds = rs.MemoryDesc((m, k), "u8"), rs.MemoryDesc((k, n), "s8", format), rs.MemoryDesc((1, n), "s32")
    pd = rs.Matmul.PrimitiveDesc(engine, *mds, rs.MemoryDesc((m, n), dst_type, format), attr)
    values = {
        rs.ARG_SRC: x,
        rs.ARG_WEIGHTS: w,
        rs.ARG_BIAS: bias,
        rs.arg_attr_multiple_post_op(1) | rs.ARG_SRC_1: more,
    }
    made = elements(computed(rs.Matmul, pd, engine, values, rs.ARG_DST)[rs.ARG_DST])
    f32 = np.float32
    t = (x @ w).astype(f32) * f32(0.3) * scales + bias.astype(f32)
    t = np.where(t > 0, t, t * f32(0.1)) + more
    t = np.tanh(t.astype(np.float64)).astype(f32)
    # A function of several operations is rounded once.
    t = (t.astype(np.float64) * f32(90.1) + f32(3.3)).astype(f32) * (f32(1) / f32(7.7))
    wanted = np.rint(t).clip(0, 255) if dst_type == "u8" else t.astype(rs.DataType.parse(dst_type).numpy)
    np.testing.assert_array_equal(made.astype(f32), wanted.astype(f32))


# --- what is refused ----------------------------------------------------------------------------------------


def _matmul(attr, *types):
    dims = (4, 8), (8, 16), (4, 16)
    mds = [rs.MemoryDesc(each, kind) for each, kind in zip(dims, types, strict=True)]
    return rs.Matmul.PrimitiveDesc(CPU, *mds, attr)


def test_zero_points_and_types_without_a_meaning_are_refused():
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_WEIGHTS, 3, None, (3, 1))
    with refused("zero points of weights in groups of 3x1"):
        _matmul(attr, "u8", "s8", "s32")
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_WEIGHTS, 0, [3])
    with refused("zero points of weights, which is f32"):
        _matmul(attr, "f32", "f32", "f32")
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    ops.append_sum(1.0, 0, "u4")
    attr.set_post_ops(ops)
    with refused("reads s4 as u4", kind=rs.Unimplemented):
        _matmul(attr, "f32", "f32", "s4")
    with refused("bytes forward by bytes", kind=rs.Unimplemented):
        _matmul(rs.PrimitiveAttr(), "f64", "s4", "f64")
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_WEIGHTS, 2, np.ones(16, np.int32))
    md = rs.MemoryDesc((1, 16, 5, 5), "u8")
    with refused("masks are 0 or 1", kind=rs.Unimplemented):
        rs.ConvolutionForward.PrimitiveDesc(
            CPU, "forward_inference", "convolution_direct", md, rs.MemoryDesc((16, 16, 3, 3), "s8"), md,
            [1, 1], [1, 1], [1, 1], attr=attr,
        )  # fmt: skip
    with refused("scales of argument 33", kind=rs.Unimplemented):
        rs.Reorder.PrimitiveDesc(CPU, md, CPU, md, attr)
