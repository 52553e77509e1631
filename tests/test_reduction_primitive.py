"""Reductions by every algorithm, along any dims, in every format; what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import restride as rs
from support.computed import FORMATS, any_like, computed, elements, memory_of, padding_is_zero, random
from support.engines import run
from support.errors import refused

DIMS = (2, 19, 5, 3)
OVER = [(1,), (0,), (2, 3), (0, 2, 3), (0, 1, 2, 3), ()]
PD = rs.Reduction.PrimitiveDesc


def _md(dims=DIMS, format="abcd", data_type="f32"):
    return rs.MemoryDesc(dims, data_type, format)


def folded_dims(dims, over):
    return tuple(1 if i in over else n for i, n in enumerate(dims))


def wanted(alg, x, over, p=2.0, eps=0.5):
    x = x.astype(np.float64)
    simple = {"max": np.max, "min": np.min, "sum": np.sum, "mul": np.prod, "mean": np.mean}
    if alg in simple:
        return simple[alg](x, over, keepdims=True) if over else x
    total = (np.abs(x) ** p).sum(over, keepdims=True) if over else np.abs(x) ** p
    total = np.maximum(total, eps) if alg.endswith("_max") else total + eps
    return total if "power" in alg else total ** (1 / p)


def reduced(engine, alg, x, src, dst, *numbers, attr=None, more=None):
    pd = PD(engine, alg, src, dst, *numbers, attr=attr)
    return computed(rs.Reduction, pd, engine, {rs.ARG_SRC: x, **(more or {})}, rs.ARG_DST)[rs.ARG_DST]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("over", OVER, ids=str)
@pytest.mark.parametrize("alg", ["max", "min", "sum", "mul", "mean"])
def test_what_is_folded_is_what_numpy_folds(engine, alg, over):
    x = random(DIMS) if alg != "mul" else np.sign(random(DIMS)) * np.float32(1.01)
    dst = reduced(engine, f"reduction_{alg}", x, _md(), any_like(_md(folded_dims(DIMS, over))))
    np.testing.assert_allclose(elements(dst), wanted(alg, x, over), rtol=1e-5, atol=1e-5)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("p", [1.0, 2.0, 3.5])
@pytest.mark.parametrize("alg", ["norm_lp_max", "norm_lp_sum", "norm_lp_power_p_max", "norm_lp_power_p_sum"])
def test_norms(engine, alg, p):
    x = random(DIMS)
    dst = reduced(engine, alg, x, _md(), any_like(_md((2, 1, 1, 3))), p, 0.5)
    np.testing.assert_allclose(elements(dst), wanted(alg, x, (1, 2), p), rtol=1e-5)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("format", FORMATS, ids=str)
@pytest.mark.parametrize("over", OVER, ids=str)
def test_every_format_is_read_and_written(engine, format, over):
    x = random(DIMS)
    dst = reduced(engine, "sum", x, _md(format=format), _md(folded_dims(DIMS, over), "aBcd16b"))
    np.testing.assert_allclose(elements(dst), wanted("sum", x, over), rtol=1e-5, atol=1e-5)
    assert padding_is_zero(dst)


@pytest.mark.parametrize(
    ("kind", "out"), [("bf16", "f32"), ("s8", "s32"), ("u8", "f32"), ("s32", "s32"), ("f64", "f64")]
)
def test_types(engine, kind, out):
    x = np.random.default_rng(5).integers(0, 100, (7, 33)).astype(np.float32)
    dst = reduced(engine, "sum", x, _md(x.shape, "ab", kind), _md((7, 1), "ab", out))
    assert (elements(dst) == x.sum(1, keepdims=True)).all()


def test_much_into_little_is_split_and_has_the_bits_of_one_thread(engine):
    x = random((64, 3, 20, 40))
    dst = reduced(engine, "sum", x, _md(x.shape), _md((1, 3, 1, 1)))
    np.testing.assert_allclose(elements(dst), wanted("sum", x, (0, 2, 3)), rtol=1e-4, atol=1e-3)
    before = rs.get_num_threads()
    try:
        rs.set_num_threads(1)
        alone = reduced(engine, "sum", x, _md(x.shape), _md((1, 3, 1, 1)))
    finally:
        rs.set_num_threads(before)
    assert elements(alone).tolist() == elements(dst).tolist()


def test_post_ops_are_of_the_result(engine):
    x, old = random(DIMS), random((2, 1, 5, 3), 1)
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    ops.append_sum(0.5)
    ops.append_eltwise("relu", 0.1)
    ops.append_binary("mul", _md((1, 1, 5, 1)))
    attr.set_post_ops(ops)
    factor = random((1, 1, 5, 1), 2)
    arg = rs.arg_attr_multiple_post_op(2) | rs.ARG_SRC_1
    pd = PD(engine, "mean", _md(), _md((2, 1, 5, 3)), attr=attr)
    descs = {arg: pd.query_md("exec_arg_md", arg) for arg in (rs.ARG_SRC, arg, rs.ARG_DST)}
    args = {
        at: memory_of(md, value, engine)
        for (at, md), value in zip(descs.items(), (x, factor, old), strict=True)
    }
    run(rs.Reduction(pd), engine, args)
    dst = args[rs.ARG_DST]
    t = wanted("mean", x, (1,)) + 0.5 * old
    np.testing.assert_allclose(elements(dst), np.where(t > 0, t, 0.1 * t) * factor, rtol=1e-4, atol=1e-6)


def test_nothing_folded_is_what_folds_begin_with(engine):
    src, dst = _md((2, 0, 3), "abc"), _md((2, 1, 3), "abc")
    for alg, value in (("sum", 0), ("mul", 1), ("max", -np.inf), ("min", np.inf)):
        made = reduced(engine, alg, np.zeros(src.dims, np.float32), src, dst)
        assert (elements(made) == value).all()


def test_a_descriptor_answers_and_is_copied():
    engine = rs.Engine("cpu")
    pd = PD(engine, "reduction_norm_lp_sum", _md(format="aBcd16b"), any_like(_md((2, 1, 5, 3))), 3.0, 0.25)
    assert (pd.get_algorithm(), pd.get_p(), pd.get_epsilon()) == ("reduction_norm_lp_sum", 3.0, 0.25)
    assert (pd.get_kind(), pd.get_prop_kind()) == ("reduction", rs.PropKind.undef)
    assert pickle.loads(pickle.dumps(pd)).get_p() == 3.0
    assert PD(engine, "sum", _md(), _md((1, 19, 1, 1)), 3.0).get_p() == 0.0
    assert not PD()


def test_what_makes_no_sense_is_refused():
    engine = rs.Engine("cpu")
    with refused("dst does not fit src"):
        PD(engine, "sum", _md(), _md((2, 2, 5, 3)))
    with refused("dst does not fit src"):
        PD(engine, "sum", _md(), _md((2, 19, 5), "abc"))
    with refused("algorithm is 'median'"):
        PD(engine, "median", _md(), _md())
    with refused("norm_lp_sum with p 0.5"):
        PD(engine, "norm_lp_sum", _md(), _md(), 0.5)
    with refused("norm_lp_sum with p nan"):
        PD(engine, "norm_lp_sum", _md(), _md(), float("nan"))
    with refused("unsupported attribute, scales", kind=rs.Unimplemented):
        attr = rs.PrimitiveAttr()
        attr.set_scales(rs.ARG_SRC, 0, [0.5])
        PD(engine, "sum", _md(), _md(), attr=attr)
