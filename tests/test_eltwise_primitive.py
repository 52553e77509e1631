"""Eltwise: functions and gradients in every format, in place, with post-ops; what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import restride as rs
from restride_bench.driver.formulas import ELTWISE, GRADIENTS, eltwise, eltwise_gradient
from support.computed import (
    FORMATS,
    any_like,
    computed,
    elements,
    memory_of,
    padding_is_zero,
    random,
)
from support.engines import run
from support.errors import refused

CPU = rs.Engine("cpu")
DIMS = (2, 17, 5, 3)
PD, BackwardPD = rs.EltwiseForward.PrimitiveDesc, rs.EltwiseBackward.PrimitiveDesc
_NUMBERS = {"clip": (-2.0, 3.0), "clip_v2": (-2.0, 3.0), "clip_v2_dst": (-2.0, 3.0), "pow": (1.5, 2.0)}
_OTHER = rs.MemoryDesc((2, 17, 5, 4), "f32")
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


@pytest.mark.parametrize("alg", sorted(ELTWISE))
def test_a_function_is_that_of_its_formula(engine, alg):
    x = _source(alg)
    pd = _forward(alg, engine, _md())
    made = computed(rs.EltwiseForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)
    wanted = eltwise(alg, x.astype(np.float64), *_numbers(alg))
    np.testing.assert_allclose(elements(made[rs.ARG_DST]), wanted, rtol=3e-7, atol=1e-6)


@pytest.mark.parametrize("alg", sorted(set(GRADIENTS) - {"round"}))
def test_a_gradient_is_that_of_its_formula(engine, alg):
    is_of_dst = alg.endswith("_dst")
    x, gradient = _source(alg), random(DIMS, 1)
    data = eltwise(alg, x, *_numbers(alg)).astype(np.float32) if is_of_dst else x
    pd = _backward(alg, engine, _md())
    arg = rs.ARG_DST if is_of_dst else rs.ARG_SRC
    made = computed(rs.EltwiseBackward, pd, engine, {arg: data, rs.ARG_DIFF_DST: gradient}, rs.ARG_DIFF_SRC)
    wanted = gradient * eltwise_gradient(alg, data.astype(np.float64), *_numbers(alg))
    np.testing.assert_allclose(elements(made[rs.ARG_DIFF_SRC]), wanted, rtol=1e-6, atol=1e-6)


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


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_every_format_gives_the_bits_of_the_reference(engine, format):
    x = random(DIMS)
    src = _md(format)
    pd = _forward("tanh", engine, src)
    assert pd.dst_desc() == src
    dst = computed(rs.EltwiseForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)[rs.ARG_DST]
    ref = rs.Engine("reference")
    wanted = computed(rs.EltwiseForward, _forward("tanh", ref, _md()), ref, {rs.ARG_SRC: x}, rs.ARG_DST)
    assert elements(dst).tobytes() == elements(wanted[rs.ARG_DST]).tobytes()
    assert isinstance(format, tuple) or padding_is_zero(dst)


@pytest.mark.parametrize("data_type", ["bf16", "f16", "f64", "s8", "u8", "s32", "f8_e5m2"])
def test_every_type_is_computed_and_rounded_once(engine, data_type):
    x = random(DIMS, 2, data_type)
    pd = _forward("linear", engine, _md("aBcd16b", data_type), _md("acdb", data_type))
    dst = computed(rs.EltwiseForward, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)[rs.ARG_DST]
    wanted = x.astype(np.float64) * 0.5 + 0.25
    kind = rs.DataType.parse(data_type)
    wanted = np.rint(wanted).clip(0 if data_type == "u8" else -128, None) if kind.is_integral else wanted
    assert (elements(dst) == wanted.astype(kind.numpy)).all()


@pytest.mark.parametrize("tag", ["acdb", "aBcd16b"])
def test_source_and_destination_may_be_one_memory(engine, tag):
    x, src = random(DIMS), _md(tag)
    memory = memory_of(src, x, engine)
    run(rs.EltwiseForward(_forward("square", engine, src)), engine, {rs.ARG_SRC: memory, rs.ARG_DST: memory})
    assert (elements(memory) == x * x).all()
    gradient = memory_of(src, x, engine)
    args = {rs.ARG_SRC: memory, rs.ARG_DIFF_DST: gradient, rs.ARG_DIFF_SRC: gradient}
    run(rs.EltwiseBackward(_backward("relu", engine, src)), engine, args)
    assert (elements(gradient) == np.where(x == 0, 0.5 * x, x)).all()


def test_post_ops_follow_the_function(engine):
    x, more = random(DIMS), random((1, 17, 1, 1), 1)
    post_ops, attr = rs.PostOps(), rs.PrimitiveAttr()
    post_ops.append_binary("mul", rs.MemoryDesc((1, 17, 1, 1), "f32", "abcd"))
    post_ops.append_eltwise("abs")
    attr.set_post_ops(post_ops)
    pd = _forward("relu", engine, _md("acdb"), attr=attr)
    operand = rs.arg_attr_multiple_post_op(0) | rs.ARG_SRC_1
    made = computed(rs.EltwiseForward, pd, engine, {rs.ARG_SRC: x, operand: more}, rs.ARG_DST)
    assert (elements(made[rs.ARG_DST]) == np.abs(np.where(x > 0, x, np.float32(0.5) * x) * more)).all()


@pytest.mark.parametrize("dims", [(0, 3), (2, 0, 4), (1,)])
def test_tensors_without_elements_and_of_one(engine, dims):
    md = rs.MemoryDesc(dims, "f32")
    pd = PD(engine, "forward_inference", "exp", md, any_like(md))
    made = computed(rs.EltwiseForward, pd, engine, {rs.ARG_SRC: np.zeros(dims)}, rs.ARG_DST)
    assert (elements(made[rs.ARG_DST]) == np.ones(dims)).all()


# --- descriptors --------------------------------------------------------------------------------------------


def test_a_descriptor_answers_what_it_is():
    pd = _forward("relu", CPU, _md("acdb"))
    assert (pd.get_kind(), pd.get_prop_kind(), pd.get_algorithm()) == (
        "eltwise",
        rs.PropKind.forward_training,
        "eltwise_relu",
    )
    assert (pd.get_alpha(), pd.get_beta()) == (0.5, 0.25)
    assert pd.src_desc() == pd.dst_desc() == _md("acdb")
    back = _backward("tanh_dst", CPU, _md("acdb"))
    assert back.get_algorithm() == "eltwise_tanh_use_dst_for_bwd"
    assert back.get_prop_kind() is rs.PropKind.backward_data
    assert (back.diff_src_desc(), back.diff_dst_desc(), back.dst_desc()) == (_md("acdb"),) * 3
    assert back.src_desc().is_zero()


def test_a_copy_is_made_of_the_same_arguments():
    pd = _forward("relu", CPU, _md("acdb"))
    again = pickle.loads(pickle.dumps(pd))
    assert (again.dst_desc(), again.get_alpha()) == (pd.dst_desc(), 0.5)
    back = BackwardPD(
        CPU, "relu", _md(), _md(), _md(), hint_pd=PD(CPU, "forward_training", "relu", _md(), _md())
    )
    assert pickle.loads(pickle.dumps(back)).diff_src_desc() == _md()
    assert not pickle.loads(pickle.dumps(PD()))


def test_a_hint_may_stand_where_it_does_in_c():
    md = _md("acdb")
    hint = PD(CPU, "forward_training", "elu", md, any_like(md), 0.5)
    pd = BackwardPD(CPU, "elu", any_like(md), any_like(md), md, 0.5, 0.0, hint, rs.PrimitiveAttr())
    assert pd.diff_src_desc() == md


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
        ((CPU, "forward_training", "relu", any_like(_md()), _md()), ("src has no format",)),
        (
            (CPU, "forward_training", "relu", _md(), rs.MemoryDesc((2, 17, 5, 4), "f32")),
            ("different shapes",),
        ),
        ((CPU, "forward_training", "clip", _md(), _md(), 3.0, -2.0), ("empty range",)),
        ((CPU, "forward_training", "relu", _md(), _md(), "x"), ("alpha",)),
        ((CPU, "forward_training", "relu", _md(), _md((0, 15, 3, 1))), ("share memory",)),
        (("cpu", "forward_training", "relu", _md(), _md()), ("no engine",)),
        ((CPU, "forward_training", "relu", "f32", _md()), ("src is no descriptor",)),
        ((CPU, "forward_training", "relu", _md(), rs.MemoryDesc()), ("dst is no descriptor",)),
    ],
)
def test_what_makes_no_sense_is_refused(args, texts):
    with refused(*texts):
        PD(*args)
    assert not PD(*args, allow_empty=True)


def test_what_no_gradient_has_is_refused():
    with refused("no backward step", kind=rs.Unimplemented):
        BackwardPD(CPU, "round", _md(), _md(), _md())
    with refused("does not tell the sign"):
        BackwardPD(CPU, "eltwise_relu_use_dst_for_bwd", _md(), _md(), _md(), -1.0)
    with refused("data has no format"):
        BackwardPD(CPU, "relu", _md(), _md(), any_like(_md()))
    with refused("unsupported attribute, scales", kind=rs.Unimplemented):
        attr = rs.PrimitiveAttr()
        attr.set_scales(rs.ARG_SRC, 0, [2.0])
        _forward("relu", CPU, _md(), attr=attr)


def test_a_hint_of_another_problem_is_refused():
    md = _md()
    for hint in (rs.Sum.PrimitiveDesc(CPU, [1.0], [md]), PD()):
        with refused("hint_pd is no hint"):
            BackwardPD(CPU, "relu", md, md, md, hint_pd=hint)
    with refused("the hint is of another problem", "its algorithm"):
        BackwardPD(CPU, "relu", md, md, md, hint_pd=PD(CPU, "forward_training", "elu", md, md))


def test_memories_that_overlap_otherwise_are_refused():
    pd = _forward("relu", CPU, _md("abcd"), _md("acdb"))
    src = memory_of(_md("abcd"), random(DIMS), CPU)
    dst = rs.Memory(_md("acdb"), CPU, src.data)
    with refused("overlap"):
        run(rs.EltwiseForward(pd), CPU, {rs.ARG_SRC: src, rs.ARG_DST: dst})
    assert (elements(src) == random(DIMS)).all()


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


def test_descriptors_of_powers_answer_what_they_were_made_with():
    pd = PD(CPU, "forward_inference", "eltwise_pow", _md(), _md(), 1.5, 2.0)
    assert (pd.get_algorithm(), pd.get_alpha(), pd.get_beta()) == ("eltwise_pow", 1.5, 2.0)
