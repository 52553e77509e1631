"""Products of f32 that a mode allows to round to bf16: where the processor multiplies pairs of these."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.ops import product
from restride.targets import jit
from restride.targets.cpu_kernels import lower_contraction
from restride.targets.isa import CacheSizes, Isa
from support.computed import computed, elements

CPU = rs.Engine("cpu")
INFERENCE, ONES = rs.PropKind.forward_inference, (1, 1)
OF_BF16 = Isa(
    "avx512", 64, "x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit,+fast-dpwssd,+avx512bf16"
)


def attr_of(mode, *, apply_to_int=False):
    attr = rs.PrimitiveAttr()
    attr.set_fpmath_mode(mode, apply_to_int)
    return attr


def matmul(rows, mds, attr):
    """The primitive, its dims, and what doubles give."""
    dims = (rows, 48), (48, 40), (rows, 40)
    pd = rs.Matmul.PrimitiveDesc(CPU, *mds(dims), attr=attr)
    return rs.Matmul, pd, dims, lambda x, w: x @ w


def inner_product(rows, mds, attr):
    dims = (rows, 48), (40, 48), (rows, 40)
    pd = rs.InnerProductForward.PrimitiveDesc(CPU, INFERENCE, *mds(dims), attr=attr)
    return rs.InnerProductForward, pd, dims, lambda x, w: x @ w.T


def convolution(rows, mds, attr):
    dims = (1, 48, rows, 9), (40, 48, 3, 3), (1, 40, rows, 9)
    how = INFERENCE, "convolution_direct", *mds(dims), ONES, ONES, ONES
    pd = rs.ConvolutionForward.PrimitiveDesc(CPU, *how, attr=attr)

    def sums(x, w):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        return np.einsum("nchwij,ocij->nohw", windows, w)

    return rs.ConvolutionForward, pd, dims, sums


def any_format(dims):
    return [rs.MemoryDesc(own, "f32", "any") for own in dims]


def row_major(dims):
    return [rs.MemoryDesc(own, "f32") for own in dims]


def error(kind, pd, dims, formula):
    """Return the error of results relative to the largest result in doubles."""
    x, w = (
        np.random.default_rng(i).standard_normal(own).astype(np.float32) for i, own in enumerate(dims[:2])
    )
    made = computed(kind, pd, CPU, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, rs.ARG_DST)
    wanted = formula(x.astype(np.float64), w.astype(np.float64))
    return np.abs(elements(made[rs.ARG_DST]) - wanted).max() / np.abs(wanted).max()


@pytest.fixture
def has_dots(monkeypatch):
    """A processor that multiplies pairs of bf16, as far as problems know: kernels do the same without."""
    monkeypatch.setattr(product, "has_dots_of_bf16", lambda: True)


@pytest.fixture
def has_none(monkeypatch):
    monkeypatch.setattr(product, "has_dots_of_bf16", lambda: False)


@pytest.mark.usefixtures("has_dots")
@pytest.mark.parametrize("mode", ["bf16", "any"])
@pytest.mark.parametrize("mds", [any_format, row_major])
@pytest.mark.parametrize("make", [matmul, inner_product, convolution])
def test_factors_are_rounded_where_each_is_used_often(make, mds, mode):
    case = make(64, mds, attr_of(mode))
    assert case[1].impl_info_str.endswith("bf16_contraction")
    assert 1e-4 < error(*case) < 1e-2
    steps = [step.tree for step in case[1]._impl.problem.program().steps if hasattr(step, "tree")]
    assert "vdpbf16ps" in jit.assembly(lower_contraction(steps[-1], OF_BF16, CacheSizes()).ir(), OF_BF16)
    # A pickle and a copy of the attributes have the mode, and give the same.
    again = make(64, mds, case[1].get_primitive_attr())
    assert again[1].impl_info_str == case[1].impl_info_str
    assert "attr-fpmath:" + mode in repr(again[1].get_primitive_attr())


@pytest.mark.usefixtures("has_dots")
@pytest.mark.parametrize("mode", ["strict", "f16", "tf32"])
def test_other_modes_change_nothing(mode):
    case = matmul(64, any_format, attr_of(mode, apply_to_int=True))
    assert case[1].impl_info_str == matmul(64, any_format, None)[1].impl_info_str
    assert error(*case) < 1e-6


@pytest.mark.usefixtures("has_dots")
def test_few_rows_are_multiplied_as_they_are():
    assert error(*matmul(4, any_format, attr_of("bf16"))) < 1e-6


@pytest.mark.usefixtures("has_none")
@pytest.mark.parametrize("make", [matmul, inner_product, convolution])
def test_all_is_f32_where_no_instruction_multiplies_pairs(make):
    case = make(64, any_format, attr_of("bf16"))
    assert "bf16" not in case[1].impl_info_str
    assert error(*case) < 1e-6
    assert case[1].weights_desc() == make(64, any_format, None)[1].weights_desc()


@pytest.mark.usefixtures("has_dots")
def test_scales_are_of_what_is_rounded():
    attr = attr_of("bf16")
    attr.set_scales(rs.ARG_SRC, 0, [0.5])
    attr.set_scales(rs.ARG_WEIGHTS, 2, np.linspace(1, 3, 40))
    kind, pd, dims, _ = matmul(64, row_major, attr)
    assert 1e-4 < error(kind, pd, dims, lambda x, w: 0.5 * x @ (w * np.linspace(1, 3, 40))) < 1e-2


@pytest.mark.usefixtures("has_dots")
def test_dims_that_come_at_execution_may_be_rounded():
    rows, shapes = 64, ((rs.RUNTIME_DIM, 48), (48, 40), (rs.RUNTIME_DIM, 40))
    pd = rs.Matmul.PrimitiveDesc(CPU, *row_major(shapes), attr=attr_of("bf16"))
    x, w = (
        np.random.default_rng(i).standard_normal(d).astype(np.float32)
        for i, d in enumerate(((rows, 48), (48, 40)))
    )
    memories = {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w, rs.ARG_DST: np.zeros((rows, 40), np.float32)}
    memories = {arg: rs.Memory.from_numpy(values, None, CPU) for arg, values in memories.items()}
    rs.Matmul(pd).execute(rs.Stream(CPU), memories)
    found = memories[rs.ARG_DST].to_numpy()
    assert 1e-4 < np.abs(found - x @ w).max() / np.abs(found).max() < 1e-2
