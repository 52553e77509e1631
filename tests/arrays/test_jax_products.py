"""restride.jax: products inside programs, beside JAX's own, with derivatives of every order and vmap."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.errors import refused

pytestmark = pytest.mark.peer
jax = pytest.importorskip("jax")
rj = pytest.importorskip("restride.jax")
jnp = pytest.importorskip("jax.numpy")
check_grads = pytest.importorskip("jax.test_util").check_grads


def _numbers(dims, dtype="float32", seed=0):
    """Whole numbers so small that all sums are exact."""
    return jnp.asarray(np.random.default_rng(seed).integers(-3, 4, dims), dtype)


def _exact(x):
    return np.asarray(x).astype(np.float64)


def _convolved(x, weights, stride=1, padding=0, dilation=1, groups=1):
    count = x.ndim - 2
    letters = "DHW"[3 - count :]
    numbers = jax.lax.conv_dimension_numbers(
        x.shape, weights.shape, (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    )
    return jax.lax.conv_general_dilated(
        x,
        weights,
        (stride,) * count,
        [(padding, padding)] * count,
        rhs_dilation=(dilation,) * count,
        dimension_numbers=numbers,
        feature_group_count=groups,
    )


_MATRICES = {
    "two dims": ((5, 7), (7, 9)),
    "rows of a batch": ((2, 3, 5, 7), (7, 9)),
    "batches": ((2, 3, 5, 7), (2, 3, 7, 4)),
    "repeated weights": ((2, 3, 5, 7), (1, 3, 7, 4)),
    "a repeated source": ((1, 5, 7), (4, 7, 3)),
    "no rows": ((0, 7), (7, 3)),
}


@pytest.mark.parametrize("name", _MATRICES)
def test_a_matmul_is_that_of_jax_in_a_program_and_outside(name):
    x, weights = (_numbers(dims, seed=i) for i, dims in enumerate(_MATRICES[name]))
    bias = _numbers((weights.shape[-1],), seed=3)
    for program in (rj.matmul, jax.jit(rj.matmul)):
        np.testing.assert_array_equal(program(x, weights, bias), x @ weights + bias)
        np.testing.assert_array_equal(program(x, weights), x @ weights)
    turned = jnp.swapaxes(weights, -1, -2)
    np.testing.assert_array_equal(jax.jit(rj.linear)(x, turned, bias), x @ weights + bias)


_CONVOLUTIONS = {
    "three by three": ((2, 5, 8, 9), (6, 5, 3, 3), {"padding": 1}),
    "strides that leave a rest": ((1, 4, 8, 8), (3, 4, 3, 3), {"stride": 2}),
    "groups, dilated": ((2, 4, 9), (6, 2, 3), {"groups": 2, "dilation": 2, "padding": 2}),
    "depthwise": ((1, 17, 6, 5), (17, 1, 3, 3), {"groups": 17, "padding": 1}),
    "volumes": ((1, 2, 4, 5, 3), (3, 2, 2, 2, 2), {}),
}


@pytest.mark.parametrize("name", _CONVOLUTIONS)
def test_a_convolution_is_that_of_jax(name):
    dims, table, options = _CONVOLUTIONS[name]
    x, weights, bias = _numbers(dims), _numbers(table, seed=1), _numbers((table[0],), seed=2)
    wanted = _convolved(x, weights, **options) + bias.reshape(-1, *[1] * (x.ndim - 2))
    for program in (
        rj.convolution,
        jax.jit(rj.convolution, static_argnames=("stride", "padding", "dilation", "groups")),
    ):
        np.testing.assert_array_equal(program(x, weights, bias, **options), wanted)


_DECONVOLUTIONS = {
    "three by three": ((2, 5, 8, 9), (5, 6, 3, 3), {"padding": 1}),
    "twice the size": ((1, 4, 5, 7), (4, 3, 4, 4), {"stride": 2, "padding": 1}),
    "a rest behind": ((1, 4, 5, 5), (4, 3, 3, 3), {"stride": 3, "padding": 1, "output_padding": 2}),
    "groups, dilated": ((2, 4, 9), (4, 3, 3), {"groups": 2, "dilation": 2, "stride": 2}),
    "depthwise": ((1, 17, 6, 5), (17, 1, 3, 3), {"groups": 17, "stride": 2, "padding": 1}),
    "volumes": ((1, 2, 4, 5, 3), (2, 3, 2, 2, 2), {"stride": 2}),
}


def _deconvolved(x, weights, output_padding=0, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of JAX's convolution of what has that shape."""
    windows = zip(x.shape[2:], weights.shape[2:], strict=True)
    points = ((n - 1) * stride - 2 * padding + (k - 1) * dilation + 1 + output_padding for n, k in windows)
    origin = jnp.zeros((x.shape[0], weights.shape[1] * groups, *points))
    return jax.vjp(lambda y: _convolved(y, weights, stride, padding, dilation, groups), origin)[1](x)[0]


@pytest.mark.parametrize("name", _DECONVOLUTIONS)
def test_a_deconvolution_is_the_gradient_of_a_convolution_of_jax(name):
    dims, table, options = _DECONVOLUTIONS[name]
    x, weights = _numbers(dims), _numbers(table, seed=1)
    wanted = _deconvolved(x, weights, **options)
    bias = _numbers((wanted.shape[1],), seed=2)
    along = bias.reshape(-1, *[1] * (x.ndim - 2))
    for program in (rj.deconvolution, jax.jit(rj.deconvolution, static_argnames=tuple(options))):
        np.testing.assert_array_equal(program(x, weights, **options), wanted)
        np.testing.assert_array_equal(program(x, weights, bias, **options), wanted + along)

    def gradients(function):
        loss = jax.grad(lambda *args: (function(*args, **options) ** 2).sum(), argnums=(0, 1))
        return jax.jit(loss)(x / 4, weights / 4)

    for made, known in zip(gradients(rj.deconvolution), gradients(_deconvolved), strict=True):
        np.testing.assert_allclose(made, known, rtol=1e-5, atol=1e-4)
    check_grads(
        lambda *args: rj.deconvolution(*args, **options), (x / 4, weights / 4, bias / 4), order=2,
        atol=0.1, rtol=0.1,
    )  # fmt: skip
    batch = jnp.stack([x, -x])
    np.testing.assert_array_equal(
        jax.vmap(lambda x: rj.deconvolution(x, weights, **options))(batch), jnp.stack([wanted, -wanted])
    )


@pytest.mark.parametrize("call", ["convolution", "deconvolution"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_channels_last_is_the_same_and_moves_nothing_in_a_program(call, count, groups):
    function = getattr(rj, call)
    x, bias = _numbers((2, *(7, 6, 5)[:count], 8)), _numbers((8,), seed=2)
    weights = _numbers((*(3, 2, 3)[:count], 8 // groups, 8), seed=1)
    options = {"stride": 2, "padding": 1, "groups": groups}

    def of_first(x, weights, bias):
        x, weights = jnp.moveaxis(x, -1, 1), jnp.moveaxis(weights, (-1, -2), (0, 1))
        return jnp.moveaxis(function(x, weights, bias, **options), 1, -1)

    def of_last(x, weights, *bias):
        return function(x, weights, *bias, **options, channels_last=True)

    programs = [jax.jit(each) for each in (of_first, of_last)]
    wanted, made = (each(x, weights, bias) for each in programs)
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(of_last(x, weights, bias), wanted)
    steps = programs[1].lower(x, weights).compile().as_text()
    assert not any(word in steps for word in (" transpose(", " copy(", "fusion("))
    found = [
        jax.jit(jax.grad(lambda *args, f=f: (f(*args) ** 2).sum(), argnums=(0, 1, 2)))(x, weights, bias)
        for f in (of_first, of_last)
    ]
    for known, own in zip(*found, strict=True):
        np.testing.assert_array_equal(own, known)


def test_a_deconvolution_refuses_what_no_convolution_has_as_its_gradient():
    x, weights = _numbers((1, 4, 5, 5)), _numbers((4, 3, 3, 3))
    for options in ({"output_padding": 2, "stride": 2}, {"stride": 0}, {"padding": 9}, {"groups": 3}):
        with refused():
            jax.jit(lambda x, w, options=options: rj.deconvolution(x, w, **options))(x, weights)
    with refused("there are 3 outputs"):
        rj.deconvolution(x, weights, jnp.ones(2))
    with refused("output_padding is None"):
        rj.deconvolution(x, jnp.ones((4, 4, 3, 3)), output_padding=None)
    for dims in ((4, 5), (4, 5, 5)):
        with refused("with channels last"):
            rj.convolution(jnp.ones(dims), jnp.ones((3, 3, 3, 3)), channels_last=True)
    with refused(kind=rs.Unimplemented):
        rj.deconvolution(x.astype("int8"), weights.astype("int8"))


@pytest.mark.parametrize(
    ("kind", "to"),
    [("bfloat16", None), ("float16", None), ("bfloat16", "f32"), ("int8", None), ("uint8", "f32")],
)
def test_types_are_those_of_restride(kind, to):
    x, weights = (
        jnp.abs(_numbers((5, 16), kind)),
        _numbers((16, 9), "int8" if "int" in kind else kind, seed=1),
    )
    made = jax.jit(lambda x, weights: rj.matmul(x, weights, dtype=to))(x, weights)
    wanted = rs.matmul(np.asarray(x), np.asarray(weights), dtype=to)
    assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(_exact(made), _exact(wanted))
    np.testing.assert_array_equal(_exact(made), _exact(x) @ _exact(weights))


@pytest.mark.parametrize("name", _MATRICES)
def test_gradients_of_a_matmul_of_every_order(name):
    x, weights = (_numbers(dims, seed=i) / 4 for i, dims in enumerate(_MATRICES[name]))
    bias = _numbers((weights.shape[-1],), seed=3) / 4

    def loss(multiply):
        return jax.jit(jax.grad(lambda *args: (multiply(*args) ** 2).sum(), argnums=(0, 1, 2)))

    for made, wanted in zip(
        loss(rj.matmul)(x, weights, bias), loss(lambda x, w, b: x @ w + b)(x, weights, bias), strict=True
    ):
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)
    if x.size:
        turned = jnp.swapaxes(weights, -1, -2)
        check_grads(rj.linear, (x, turned, bias), order=2, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("name", _CONVOLUTIONS)
def test_gradients_of_a_convolution_of_every_order(name):
    dims, table, options = _CONVOLUTIONS[name]
    x, weights, bias = _numbers(dims) / 4, _numbers(table, seed=1) / 4, _numbers((table[0],), seed=2) / 4

    def loss(convolve):
        return jax.grad(lambda *args: (convolve(*args, **options) ** 2).sum(), argnums=(0, 1))

    for made, wanted in zip(loss(rj.convolution)(x, weights), loss(_convolved)(x, weights), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-4)
    check_grads(
        lambda *args: rj.convolution(*args, **options), (x, weights, bias), order=2, atol=0.1, rtol=0.1
    )


def test_gradients_have_the_types_of_what_they_are_of_and_integers_have_none():
    x, weights, bias = _numbers((4, 8), "bfloat16"), _numbers((8, 3), "bfloat16", 1), _numbers((3,), seed=2)
    found = jax.grad(lambda *args: rj.matmul(*args, dtype="f32").sum(), argnums=(0, 1, 2))(x, weights, bias)
    assert [each.dtype for each in found] == [ml_dtypes.bfloat16, ml_dtypes.bfloat16, np.float32]
    np.testing.assert_array_equal(_exact(found[0]), np.broadcast_to(_exact(weights).sum(1), (4, 8)))
    whole, table = _numbers((4, 8), "int8"), _numbers((8, 3), "int8", 1)
    made = jax.grad(lambda bias: rj.matmul(whole, table, bias, dtype="f32").sum())(bias)
    np.testing.assert_array_equal(made, [4, 4, 4])
    assert not jax.grad(lambda x: rj.matmul(x, weights, dtype="s32").sum().astype("float32"))(x).any()


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (1, 2, 0), (0, 0, None)], ids=str)
def test_vmap_is_a_call_for_each(axes):
    dims = [(5, 7), (7, 3), (3,)]
    args = [
        _numbers(each if at is None else (*each[:at], 4, *each[at:]), seed=i)
        for i, (each, at) in enumerate(zip(dims, axes, strict=True))
    ]
    made = jax.jit(jax.vmap(rj.matmul, axes))(*args)
    np.testing.assert_array_equal(made, jax.vmap(lambda x, w, b: x @ w + b, axes)(*args))


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (2, 1)], ids=str)
def test_vmap_of_a_convolution_and_of_its_gradient(axes):
    dims = [(2, 4, 6, 5), (3, 4, 3, 3)]
    args = [
        _numbers(each if at is None else (*each[:at], 3, *each[at:]), seed=i)
        for i, (each, at) in enumerate(zip(dims, axes, strict=True))
    ]

    def gradient(convolve):
        return jax.vmap(jax.grad(lambda *args: (convolve(*args) ** 2).sum(), argnums=(0, 1)), axes)

    np.testing.assert_array_equal(jax.vmap(rj.convolution, axes)(*args), jax.vmap(_convolved, axes)(*args))
    for made, wanted in zip(gradient(rj.convolution)(*args), gradient(_convolved)(*args), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-3)


def test_large_work_is_shared_by_the_pool_inside_a_program():
    x, weights = _numbers((512, 256)), _numbers((256, 512), seed=1)
    step = jax.jit(lambda x, weights: rj.matmul(jnp.tanh(x) * 0 + x, weights) * 2)
    np.testing.assert_array_equal(step(x, weights), 2 * (x @ weights))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: rj.matmul(x, x), "dims do not fit"),
        (lambda x: rj.matmul(x, x[0]), "they have 2 and 1 dims"),
        (lambda x: rj.matmul(x, None), "None is not an array"),
        (lambda x: rj.matmul(x, x.T, x), "the bias has 2 dims"),
        (lambda x: rj.matmul(x, x.T, x[0]), "bias"),
        (lambda x: rj.convolution(x, x), "x and weights do not fit"),
        (lambda x: rj.convolution(x[None, None], x[None, None], groups=3), "groups is 3"),
        (lambda x: rj.convolution(x[None, None], x[None, None], groups=0), "groups is 0"),
        (
            lambda x: rj.convolution(x[None, None], x[None, None], stride=(1, 2, 3)),
            "there are 2 spatial dims",
        ),
        (lambda x: rj.convolution(x[None, None], x[None, None, :1, :1], stride=0), "stride"),
        (lambda x: rj.convolution(x[None], x[None, :2]), "dims do not fit"),
        (lambda x: rj.matmul([[1.0]], x), "list is not an array"),
    ],
)
@pytest.mark.parametrize("is_traced", [False, True], ids=["at hand", "traced"])
def test_what_does_not_fit_is_refused_when_it_is_traced(call, text, is_traced):
    x = _numbers((3, 4))
    with refused(text):
        (jax.jit(call) if is_traced else call)(x)


def test_types_that_do_not_go_together_are_refused():
    with refused("s32", kind=rs.Unimplemented):
        rj.matmul(_numbers((2, 3), "int32"), _numbers((3, 2), "int32"))
