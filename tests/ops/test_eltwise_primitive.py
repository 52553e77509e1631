"""Eltwise: functions and gradients in every format, in place, with post-ops; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import (
    any_like,
    computed,
    elements,
    random,
)
from support.errors import refused

CPU = rs.Engine("cpu")
DIMS = (2, 17, 5, 3)
PD, BackwardPD = rs.EltwiseForward.PrimitiveDesc, rs.EltwiseBackward.PrimitiveDesc
_NUMBERS = {"clip": (-2.0, 3.0), "clip_v2": (-2.0, 3.0), "clip_v2_dst": (-2.0, 3.0), "pow": (1.5, 2.0)}
_POSITIVE = ("log", "sqrt", "pow", "sqrt_dst")


def _md(format="abcd", data_type="f32"):
    return rs.MemoryDesc(DIMS, data_type, format)


def _numbers(alg):
    return _NUMBERS.get(alg, (0.5, 0.25))


def _source(alg):
    x = random(DIMS)
    return np.abs(x) + np.float32(0.1) if alg in _POSITIVE else x


def _forward(alg, engine, src, dst=None, attr=None):
    return PD(engine, "forward_training", f"eltwise_{alg}", src, dst or any_like(src), *_numbers(alg), attr)


def _backward(alg, engine, data):
    name = alg.replace("_dst", "_use_dst_for_bwd")
    return BackwardPD(engine, f"eltwise_{name}", any_like(data), any_like(data), data, *_numbers(alg))


# --- values -------------------------------------------------------------------------------------------------


_ENDS = {"linear": (0.5, 0.5), "swish": (0.0, 1.0), "relu": (0.5, 1.0), "square": (-np.inf, np.inf)}
_ENDS |= dict.fromkeys(("tanh", "logistic", "hardsigmoid"), (0.0, 0.0))
_ENDS |= dict.fromkeys(("soft_relu", "gelu_tanh", "gelu_erf", "mish", "hardswish", "elu"), (0.0, 1.0))


@pytest.mark.parametrize("data_type", ["f32", "f64"])
@pytest.mark.parametrize("alg", sorted(_ENDS))
def test_a_gradient_at_infinity_is_its_limit(engine, alg, data_type):
    md = rs.MemoryDesc((2,), data_type, "a")
    pd = _backward(alg, engine, md)
    values = {rs.ARG_SRC: np.array([-np.inf, np.inf]), rs.ARG_DIFF_DST: np.ones(2)}
    made = computed(rs.EltwiseBackward, pd, engine, values, rs.ARG_DIFF_SRC)[rs.ARG_DIFF_SRC]
    assert tuple(elements(made)) == _ENDS[alg]


def test_algorithms_share_kernels_whatever_their_numbers():
    first, second = (
        PD(CPU, "forward_training", "swish", _md("dcba"), any_like(_md()), alpha) for alpha in (0.5, 0.25)
    )
    assert first._implementation().executable is second._implementation().executable


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "texts"),
    [
        ((CPU, "forward_training", "eltwise_gelu", _md(), _md()), ("algorithm is 'eltwise_gelu'",)),
        ((CPU, "backward", "relu", _md(), _md()), ("prop_kind is backward",)),
        (
            (CPU, "forward_training", "relu", _md(), rs.MemoryDesc((2, 17, 5, 4), "f32")),
            ("different shapes",),
        ),
        ((CPU, "forward_training", "clip", _md(), _md(), 3.0, -2.0), ("empty range",)),
        ((CPU, "forward_training", "relu", _md(), _md(), "x"), ("alpha",)),
        ((CPU, "forward_training", "relu", _md(), _md((0, 15, 3, 1))), ("share memory",)),
        (("cpu", "forward_training", "relu", _md(), _md()), ("not an engine",)),
        ((CPU, "forward_training", "relu", "f32", _md()), ("src is not a descriptor",)),
        ((CPU, "forward_training", "relu", _md(), rs.MemoryDesc()), ("dst does not describe",)),
    ],
)
def test_what_makes_no_sense_is_refused(args, texts):
    with refused(*texts):
        PD(*args)
    assert not PD(*args, allow_empty=True)


def test_what_no_gradient_has_is_refused():
    with refused("no backward step", kind=rs.Unimplemented):
        BackwardPD(CPU, "round", _md(), _md(), _md())
    with refused("does not determine the sign"):
        BackwardPD(CPU, "eltwise_relu_use_dst_for_bwd", _md(), _md(), _md(), -1.0)
    with refused("data has no format"):
        BackwardPD(CPU, "relu", _md(), _md(), any_like(_md()))
    with refused("unsupported attribute, scales", kind=rs.Unimplemented):
        attr = rs.PrimitiveAttr()
        attr.set_scales(rs.ARG_SRC, 0, [2.0])
        _forward("relu", CPU, _md(), attr=attr)


def test_a_hint_of_another_problem_is_refused():
    md = _md()
    with refused("hint_pd is not a hint"):
        BackwardPD(CPU, "relu", md, md, md, hint_pd=PD())
    with refused("the hint is for another problem", "its algorithm"):
        BackwardPD(CPU, "relu", md, md, md, hint_pd=PD(CPU, "forward_training", "elu", md, md))


# --- powers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spell", [lambda *numbers: [("pow", *numbers)], lambda *numbers: _chain(*numbers)])
def test_a_call_with_another_exponent_is_not_that_of_the_one_before(spell):
    """Kernels of fixed exponents are others; what calls have found is shared by those of one kind."""
    x = _source("pow")
    for beta in (2.2, 2.0, 0.5, 0.4, 3.0, -1.0, 1.0, 0.0, 2.0, 2.2):
        made = rs.reorder(x, "nhwc", post_ops=spell(1.5, beta))
        wanted = 1.5 * x.astype(np.float64) ** float(np.float32(beta))
        np.testing.assert_allclose(made, wanted, rtol=2e-7)


def _chain(alpha, beta):
    chain = rs.PostOps()
    chain.append_eltwise("eltwise_pow", alpha, beta)
    return chain
