"""Zero points of what is multiplied, and weights that are decompressed: beside NumPy's integers."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.ops.matmul import MatmulProblem
from support.computed import computed, elements
from support.errors import refused

CPU = rs.Engine("cpu")
LIMITS = {"u8": (0, 256), "s8": (-128, 128), "u4": (0, 16), "s4": (-8, 8)}


def whole(data_type: str, dims: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers of all of a type."""
    return np.random.default_rng(seed).integers(*LIMITS[data_type], dims)


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
    attr.set_scales(rs.ARG_DST, 0, [0.007])
    ops.append_eltwise("relu", 0.1, 0.0)
    ops.append_binary("add", rs.MemoryDesc((m, n), "f32"))
    ops.append_eltwise("tanh", 0.0, 0.0)
    ops.append_eltwise("linear", 90.1, 3.3)
    ops.append_eltwise("hardswish", 0.02, 0.5)
    ops.append_eltwise("hardsigmoid", 0.05, 0.25)
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
    t = t * f32(90.1) + f32(3.3)
    t = t * (t * f32(0.02) + f32(0.5)).clip(0, 1)
    t = (t * f32(0.05) + f32(0.25)).clip(0, 1) * (f32(1) / f32(0.007))
    wanted = np.rint(t).clip(0, 255) if dst_type == "u8" else t.astype(rs.DataType.parse(dst_type).numpy)
    np.testing.assert_array_equal(made.astype(f32), wanted.astype(f32))


def test_many_functions_behind_integers_take_no_more_than_their_number():
    ops, attr = rs.PostOps(), rs.PrimitiveAttr()
    for _ in range(12):
        ops.append_eltwise("hardswish", 0.2, 0.5)
    attr.set_post_ops(ops)
    mds = [rs.MemoryDesc(dims, kind) for dims, kind in (((4, 16), "u8"), ((16, 16), "s8"), ((4, 16), "f32"))]
    pd = rs.Matmul.PrimitiveDesc(CPU, *mds, attr)
    x, w = whole("u8", (4, 16), 1), whole("s8", (16, 16), 2)
    made = elements(computed(rs.Matmul, pd, CPU, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, rs.ARG_DST)[rs.ARG_DST])
    t = (x @ w).astype(np.float32)
    for _ in range(12):
        t = t * (t * np.float32(0.2) + np.float32(0.5)).clip(0, 1)
    np.testing.assert_array_equal(made, t)


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
    with refused("bytes by bytes in forward steps", kind=rs.Unimplemented):
        _matmul(rs.PrimitiveAttr(), "f64", "s4", "f64")
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_WEIGHTS, 2, np.ones(16, np.int32))
    md = rs.MemoryDesc((1, 16, 5, 5), "u8")
    with refused("masks must be 0 or 1", kind=rs.Unimplemented):
        rs.ConvolutionForward.PrimitiveDesc(
            CPU, "forward_inference", "convolution_direct", md, rs.MemoryDesc((16, 16, 3, 3), "s8"), md,
            [1, 1], [1, 1], [1, 1], attr=attr,
        )  # fmt: skip
    with refused("scales of argument 33", kind=rs.Unimplemented):
        rs.Reorder.PrimitiveDesc(CPU, md, CPU, md, attr)
