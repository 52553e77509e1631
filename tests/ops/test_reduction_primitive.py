"""Reductions by every algorithm, along any dims, in every format; what is refused."""

from __future__ import annotations

import numpy as np

import restride as rs
from support.computed import computed, elements, random
from support.errors import refused

DIMS = (2, 19, 5, 3)
PD = rs.Reduction.PrimitiveDesc


def _md(dims=DIMS, format="abcd", data_type="f32"):
    return rs.MemoryDesc(dims, data_type, format)


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


def test_nothing_folded_is_what_folds_begin_with(engine):
    src, dst = _md((2, 0, 3), "abc"), _md((2, 1, 3), "abc")
    for alg, value in (("sum", 0), ("mul", 1), ("max", -np.inf), ("min", np.inf)):
        made = reduced(engine, alg, np.zeros(src.dims, np.float32), src, dst)
        assert (elements(made) == value).all()


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
