"""JAX's side of the primitives bound by memory: programs that XLA compiles, on arrays of the same bytes.

Arrays are the tensors as they lie, so that channels are axis 1 of nchw and the last of nhwc; blocked formats
JAX has not. Gradients that are no formula here are what `jax.vjp` makes of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import restride as rs

from .memory_bound_cases import EPSILON, GROUPS, LRN, TORCH_ARGUMENTS
from .peer import Call

Array = Any
# Of JAX's module, the source, the other arguments as in `TORCH_ARGUMENTS`, and the axis of channels.
JaxCall = Callable[[Any, Array, list[Array], int], Any]


def _along(j: Any, values: Array, x: Array, axis: int) -> Array:
    """Values of channels, to be broadcast over an array."""
    return j.numpy.reshape(values, [-1 if dim == axis else 1 for dim in range(x.ndim)])


def _normal(j: Any, x: Array, axes: tuple[int, ...]) -> Array:
    mean = x.mean(axes, keepdims=True)
    return (x - mean) * j.lax.rsqrt(j.numpy.square(x - mean).mean(axes, keepdims=True) + EPSILON)


def _affine(j: Any, y: Array, scale: Array, shift: Array, axis: int) -> Array:
    return y * _along(j, scale, y, axis) + _along(j, shift, y, axis)


def _batch_norm(j: Any, x: Array, w: list[Array], axis: int) -> Array:
    mean, variance, scale, shift = w
    factor = j.lax.rsqrt(variance + EPSILON) * scale
    return _affine(j, x - _along(j, mean, x, axis), factor, shift, axis)


def _others(x: Array, *axes: int) -> tuple[int, ...]:
    return tuple(dim for dim in range(x.ndim) if dim not in axes)


def _group_norm(j: Any, x: Array, w: list[Array], axis: int) -> Array:
    split = x.reshape(*x.shape[:axis], GROUPS, x.shape[axis] // GROUPS, *x.shape[axis + 1 :])
    return _affine(j, _normal(j, split, _others(split, 0, axis)).reshape(x.shape), w[-2], w[-1], axis)


def _batch_norm_gradient(j: Any, x: Array, w: list[Array], axis: int) -> Any:
    dy, mean, variance, scale = w
    inverse, count = j.lax.rsqrt(variance + EPSILON), x.size // x.shape[axis]
    h = (x - _along(j, mean, x, axis)) * _along(j, inverse, x, axis)
    sums = tuple(each.sum(_others(x, axis), keepdims=True) for each in (dy * h, dy))
    return (dy - sums[1] / count - h * sums[0] / count) * _along(j, inverse * scale, x, axis), sums


def _layer_norm_gradient(j: Any, x: Array, w: list[Array], axis: int) -> Any:
    dy, mean, variance, scale = w
    inverse = j.lax.rsqrt(variance + EPSILON)[:, None]
    h, g = (x - mean[:, None]) * inverse, dy * scale
    found = (g - g.mean(1, keepdims=True) - h * (g * h).mean(1, keepdims=True)) * inverse
    return found, ((dy * h).sum(0), dy.sum(0))


def _lrn(j: Any, x: Array, w: list[Array], axis: int) -> Array:
    size, alpha, beta, k = LRN
    window = [size if dim == axis else 1 for dim in range(x.ndim)]
    padding = [(size // 2,) * 2 if dim == axis else (0, 0) for dim in range(x.ndim)]
    total = j.lax.reduce_window(x * x, 0.0, j.lax.add, window, [1] * x.ndim, padding)
    return x * (k + alpha / size * total) ** -beta


def _pool(kernel: int, stride: int, padding: int, is_max: bool) -> JaxCall:
    def run(j: Any, x: Array, w: list[Array], axis: int) -> Array:
        sizes, steps, margins = (
            [none if dim in (0, axis) else each for dim in range(4)]
            for none, each in ((1, kernel), (1, stride), ((0, 0), (padding, padding)))
        )
        if is_max:
            return j.lax.reduce_window(x, -np.inf, j.lax.max, sizes, steps, margins)
        return j.lax.reduce_window(x, 0.0, j.lax.add, sizes, steps, margins) / kernel**2

    return run


def _resized(method: str) -> JaxCall:
    def run(j: Any, x: Array, w: list[Array], axis: int) -> Array:
        shape = [n if dim in (0, axis) else 2 * n for dim, n in enumerate(x.shape)]
        return j.image.resize(x, shape, method)

    return run


def _gradient_of_linear(forward: JaxCall, *, halves: bool = False) -> JaxCall:
    """The gradient of what halves or doubles sizes, of that of its result alone."""

    def run(j: Any, dy: Array, w: list[Array], axis: int) -> Array:
        shape = [n if i in (0, axis) else 2 * n if halves else n // 2 for i, n in enumerate(dy.shape)]
        return j.vjp(lambda y: forward(j, y, [], axis), j.numpy.zeros(shape, dy.dtype))[1](dy)[0]

    return run


def _gradient(forward: JaxCall) -> JaxCall:
    """The gradient of the source. The first of the other arguments is that of the result."""
    return lambda j, x, w, axis: j.vjp(lambda y: forward(j, y, w[1:], axis), x)[1](w[0])[0]


def _prelu(j: Any, x: Array, w: list[Array], axis: int) -> Array:
    return j.numpy.where(x > 0, x, x * _along(j, w[-1].ravel(), x, axis))


def _relu(j: Any, x: Array, w: list[Array], axis: int) -> Array:
    return j.nn.relu(x)


def _gelu(j: Any, x: Array, w: list[Array], axis: int) -> Array:
    return j.nn.gelu(x, approximate=False)


CALLS: Mapping[str, JaxCall] = {
    "eltwise relu": _relu,
    "eltwise tanh": lambda j, x, w, axis: j.numpy.tanh(x),
    "eltwise logistic": lambda j, x, w, axis: j.nn.sigmoid(x),
    "eltwise exp": lambda j, x, w, axis: j.numpy.exp(x),
    "eltwise log": lambda j, x, w, axis: j.numpy.log(x),
    "eltwise gelu_tanh": lambda j, x, w, axis: j.nn.gelu(x),
    "eltwise gelu_erf": _gelu,
    "eltwise pow": lambda j, x, w, axis: x**0.75,
    "eltwise relu backward": _gradient(_relu),
    "eltwise gelu_erf backward": _gradient(_gelu),
    "binary add": lambda j, x, w, axis: x + w[0],
    "prelu": _prelu,
    "prelu backward": _gradient(_prelu),
    "batch normalization": _batch_norm,
    "batch normalization training": lambda j, x, w, axis: _affine(
        j, _normal(j, x, _others(x, axis)), w[-2], w[-1], axis
    ),
    "batch normalization backward": _batch_norm_gradient,
    "group normalization": _group_norm,
    "layer normalization": lambda j, x, w, axis: _affine(j, _normal(j, x, (1,)), w[-2], w[-1], 1),
    "layer normalization backward": _layer_norm_gradient,
    "lrn across channels": _lrn,
    "lrn across channels backward": _gradient(_lrn),
    "pooling max 3x3": _pool(3, 2, 1, True),
    "pooling avg_include_padding 56x56": _pool(56, 1, 0, False),
    "pooling avg_include_padding 3x3 backward": _gradient_of_linear(_pool(3, 2, 1, False), halves=True),
    "resampling nearest x2": _resized("nearest"),
    "resampling linear x2": _resized("linear"),
    "resampling nearest x2 backward": _gradient_of_linear(_resized("nearest")),
    "resampling linear x2 backward": _gradient_of_linear(_resized("linear")),
    "reduction sum": lambda j, x, w, axis: x.sum(_others(x, 0, axis), keepdims=True),
    "softmax": lambda j, x, w, axis: j.nn.softmax(x, 1),
    "softmax backward": lambda j, y, w, axis: y * (w[0] - (w[0] * y).sum(1, keepdims=True)),
}
"""The functions by the names of the cases. Gradients that no program of JAX has on their own are left out."""


def by_jax(name: str, memories: Mapping[int, rs.Memory]) -> tuple[Call, Callable[[], Any]]:
    """A call that waits for its result, and the answer. Raises ValueError for what JAX does not do."""
    try:
        import jax
    except ImportError:
        raise ValueError("JAX is not installed") from None
    names = rs.onednn.Arg.SRC, rs.onednn.Arg.DST, rs.onednn.Arg.DIFF_DST
    source = next(memories[arg] for arg in names if arg in memories).desc
    if name not in CALLS or source.inner_blks:
        raise ValueError("JAX has no such function, or no blocked formats")
    order = source.outer_order
    ends = dict.fromkeys([next(arg for arg in names if arg in memories), *TORCH_ARGUMENTS])
    arrays = [np.asarray(memories[arg]) for arg in ends if arg in memories]
    x, *w = (jax.numpy.asarray(_as_it_lies(each, order)) for each in arrays)
    axis = order.index(1) if source.ndims > 1 else 0
    program = jax.jit(lambda x, w: CALLS[name](jax, x, w, axis))

    def run() -> Any:
        return jax.block_until_ready(program(x, w))

    def answer() -> Any:
        found = run()
        # Gradients of scale and shift come with that of the source.
        return np.transpose(np.asarray(found[0] if isinstance(found, tuple) else found), np.argsort(order))

    return run, answer


def _as_it_lies(values: Any, order: tuple[int, ...]) -> Any:
    return np.ascontiguousarray(values.transpose(order) if values.ndim == len(order) else values)
