"""The primitives bound by memory that are measured, and how restride, oneDNN's C API and torch call each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import restride as rs
from restride import MemoryDesc

from .onednn import int64s

_TRAINING, _INFERENCE, _BACKWARD = 64, 96, 128
_GLOBAL, _SCALE_SHIFT = 7, 6
GROUPS, EPSILON = 32, 1e-5
LRN = (5, 1e-4, 0.75, 1.0)
TORCH_ARGUMENTS = (
    *(rs.onednn.Arg.DIFF_DST, rs.onednn.Arg.SRC_1, rs.onednn.Arg.WEIGHTS),
    *(rs.onednn.Arg.MEAN, rs.onednn.Arg.VARIANCE, rs.onednn.Arg.SCALE, rs.onednn.Arg.SHIFT),
)
"""The arguments of torch's functions after the source, in this order."""

TorchCall = Callable[[Any, Any, list[Any]], Any]
"""Of the module, the source, and the other arguments in the order of `TORCH_ARGUMENTS`."""
Tensors = Callable[[MemoryDesc], dict[str, MemoryDesc]]
"""The tensors of a primitive by name, given the one that others are like."""


@dataclass(frozen=True)
class MemoryBoundCase:
    """One primitive: how restride, oneDNN's C API and torch call it, which is None where torch has none.

    `kind` takes `tensors` and `how` by name. `call` is the name of oneDNN's function and what follows its
    engine, where a name stands for a tensor; `hint` the same for the forward step of a gradient. `torch`
    takes source and what stands in `TORCH_ARGUMENTS`. `twice`: tensors that must be read twice where they are
    larger than the caches; `formats`: False where none makes a difference.
    """

    name: str
    kind: Any
    tensors: Tensors
    call: Sequence[Any]
    torch: TorchCall | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    hint: Sequence[Any] = ()
    of_rows: bool = False
    twice: tuple[int, ...] = ()
    formats: bool = True

    def make(self, engine: rs.Engine, md: MemoryDesc) -> tuple[Any, Any]:
        """The class of the primitive, and its descriptor."""
        forward = {"prop_kind": "forward_inference"} if self.kind.__name__.endswith("Forward") else {}
        return self.kind, self.kind.PrimitiveDesc(
            engine=engine, **{**forward, **self.tensors(md), **self.how}
        )


def _forward(md: MemoryDesc) -> dict[str, MemoryDesc]:
    return {"src": md, "dst": MemoryDesc(md.dims, "f32", "any")}


def _resized(change: Callable[[int], int]) -> Tensors:
    """A result with other spatial dims."""
    return lambda md: {"src": md, "dst": MemoryDesc(_dims(md, change), "f32", "any")}


def _dims(md: MemoryDesc, change: Callable[[int], int]) -> tuple[int, ...]:
    return (*md.dims[:2], *map(change, md.dims[2:]))


def _gradient(data: str) -> Tensors:
    """Gradients like the source, or the result, that is needed for them."""
    return lambda md: {data: md, "diff_src": md, "diff_dst": md}


def _floats(*numbers: float) -> tuple[Any, ...]:
    return tuple(map(ctypes.c_float, numbers))


_LRN_NUMBERS = (ctypes.c_int64(int(LRN[0])), *_floats(*LRN[1:]))
_LRN_HOW = {
    "algorithm": "lrn_across_channels",
    **dict(zip(("local_size", "alpha", "beta", "k"), LRN, strict=True)),
}
_AFFINE = {"epsilon": EPSILON, "flags": "use_scale|use_shift"}
_NORM = (*_floats(EPSILON), _SCALE_SHIFT)
_GROUP = (ctypes.c_int64(GROUPS), *_NORM)
_GRADIENT = ("diff_src", "diff_dst", "src")


# --- functions of elements ----------------------------------------------------------------------------------


def _eltwise(
    alg: str, number: int, torch: TorchCall, alpha: float = 0.0, beta: float = 0.0
) -> MemoryBoundCase:
    return MemoryBoundCase(
        f"eltwise {alg}",
        rs.onednn.EltwiseForward,
        _forward,
        ("eltwise_forward", _INFERENCE, number, "src", "dst", *_floats(alpha, beta)),
        torch,
        {"algorithm": alg, "alpha": alpha, "beta": beta},
        formats=alg == "relu",
    )


def _eltwise_gradient(alg: str, number: int, torch: TorchCall) -> MemoryBoundCase:
    return MemoryBoundCase(
        f"eltwise {alg} backward",
        rs.onednn.EltwiseBackward,
        _gradient("data"),
        ("eltwise_backward", number, *_GRADIENT, *_floats(0, 0)),
        torch,
        {"algorithm": alg},
        ("eltwise_forward", _TRAINING, number, "src", "dst", *_floats(0, 0)),
        formats=False,
    )


def _slopes(md: MemoryDesc) -> MemoryDesc:
    return MemoryDesc((1, md.dims[1], 1, 1), "f32", "abcd")


_ELTWISE = (
    _eltwise("relu", 0x20, lambda t, x, _: t.nn.functional.relu(x)),
    _eltwise("tanh", 0x21, lambda t, x, _: t.tanh(x)),
    _eltwise("logistic", 0x29, lambda t, x, _: t.sigmoid(x)),
    _eltwise("exp", 0x2A, lambda t, x, _: t.exp(x)),
    _eltwise("gelu_tanh", 0x2B, lambda t, x, _: t.nn.functional.gelu(x, approximate="tanh")),
    _eltwise("log", 0x2D, lambda t, x, _: t.log(x)),
    _eltwise("pow", 0x30, lambda _t, x, _: x**0.75, 1.0, 0.75),
    _eltwise("gelu_erf", 0x31, lambda t, x, _: t.nn.functional.gelu(x)),
    _eltwise_gradient("relu", 0x20, lambda t, x, w: t.ops.aten.threshold_backward(w[0], x, 0.0)),
    _eltwise_gradient("gelu_erf", 0x31, lambda t, x, w: t.ops.aten.gelu_backward(w[0], x)),
    MemoryBoundCase(
        "binary add",
        rs.onednn.Binary,
        lambda md: {"src0": md, "src1": md, "dst": MemoryDesc(md.dims, "f32", "any")},
        ("binary", 0x1FFF0, "src", "src_1", "dst"),
        lambda t, x, w: t.add(x, w[0]),
        {"algorithm": "binary_add"},
    ),
    MemoryBoundCase(
        "prelu",
        rs.onednn.PReLUForward,
        lambda md: {**_forward(md), "weights": _slopes(md)},
        ("prelu_forward", _INFERENCE, "src", "weights", "dst"),
        lambda t, x, w: t.nn.functional.prelu(x, w[0].flatten()),
    ),
)


# --- normalizations -----------------------------------------------------------------------------------------

_NORMALIZATIONS = (
    MemoryBoundCase(
        "batch normalization",
        rs.onednn.BatchNormalizationForward,
        _forward,
        ("batch_normalization_forward", _INFERENCE, "src", "dst", *_floats(EPSILON), _GLOBAL),
        lambda t, x, w: t.nn.functional.batch_norm(x, *w),
        {"epsilon": EPSILON, "flags": "use_global_stats|use_scale|use_shift"},
    ),
    MemoryBoundCase(
        "batch normalization training",
        rs.onednn.BatchNormalizationForward,
        _forward,
        ("batch_normalization_forward", _TRAINING, "src", "dst", *_NORM),
        lambda t, x, w: t.nn.functional.batch_norm(x, None, None, w[2], w[3], training=True),
        {**_AFFINE, "prop_kind": "forward_training"},
        twice=(rs.onednn.Arg.SRC,),
    ),
    MemoryBoundCase(
        "batch normalization backward",
        rs.onednn.BatchNormalizationBackward,
        _gradient("src"),
        ("batch_normalization_backward", _BACKWARD, *_GRADIENT, *_NORM),
        lambda t, x, w: t.ops.aten.native_batch_norm_backward(
            w[0], x, w[3], None, None, w[1], (w[2] + EPSILON).rsqrt(), True, EPSILON, [True] * 3
        )[0],
        {**_AFFINE, "prop_kind": "backward"},
        ("batch_normalization_forward", _TRAINING, "src", "dst", *_NORM),
        twice=(rs.onednn.Arg.SRC, rs.onednn.Arg.DIFF_DST),
    ),
    MemoryBoundCase(
        "group normalization",
        rs.onednn.GroupNormalizationForward,
        _forward,
        ("group_normalization_forward", _INFERENCE, "src", "dst", *_GROUP),
        lambda t, x, w: t.nn.functional.group_norm(x, GROUPS, *w),
        {**_AFFINE, "groups": GROUPS},
    ),
    MemoryBoundCase(
        "lrn across channels",
        rs.onednn.LRNForward,
        _forward,
        ("lrn_forward", _INFERENCE, 0xAFF, "src", "dst", *_LRN_NUMBERS),
        lambda t, x, _: t.nn.functional.local_response_norm(x, *LRN),
        _LRN_HOW,
    ),
    MemoryBoundCase(
        "layer normalization",
        rs.onednn.LayerNormalizationForward,
        _forward,
        ("layer_normalization_forward", _INFERENCE, "src", "dst", "statistics", *_NORM),
        lambda t, x, w: t.nn.functional.layer_norm(x, x.shape[1:], *w),
        {**_AFFINE, "stat": None},
        of_rows=True,
    ),
    MemoryBoundCase(
        "layer normalization backward",
        rs.onednn.LayerNormalizationBackward,
        _gradient("src"),
        ("layer_normalization_backward", _BACKWARD, *_GRADIENT, "statistics", *_NORM),
        lambda t, x, w: t.ops.aten.native_layer_norm_backward(
            *(w[0], x, x.shape[1:], w[1][:, None], (w[2] + EPSILON).rsqrt()[:, None], w[3], w[3]),
            [True] * 3,
        )[0],
        {**_AFFINE, "stat": None, "prop_kind": "backward"},
        ("layer_normalization_forward", _TRAINING, "src", "dst", "statistics", *_NORM),
        of_rows=True,
    ),
)


# --- windows, sums, sizes -----------------------------------------------------------------------------------


def _pool(alg: str, kernel: int, stride: int, padding: int, torch: TorchCall | None) -> MemoryBoundCase:
    names = ("strides", "kernel", "dilation", "padding_l", "padding_r")
    two = [(n, n) for n in (stride, kernel, 0, padding, padding)]
    number = 0x1FF if alg == "max" else 0x2FF
    return MemoryBoundCase(
        f"pooling {alg} {kernel}x{kernel}",
        rs.onednn.PoolingForward,
        _resized(lambda n: (n + 2 * padding - kernel) // stride + 1),
        ("pooling_forward", _INFERENCE, number, "src", "dst", *map(int64s, two)),
        torch,
        {"algorithm": f"pooling_{alg}", **dict(zip(names, two, strict=True))},
    )


def _pool_gradient(alg: str, padding: int, torch: TorchCall | None) -> MemoryBoundCase:
    """Windows of 3 by 3 whose strides are 2. A workspace of zeros and ones chooses two positions of each."""
    like = _pool(alg, 3, 2, padding, torch)
    return MemoryBoundCase(
        f"{like.name} backward",
        rs.onednn.PoolingBackward,
        lambda md: {
            "diff_src": md,
            "diff_dst": MemoryDesc(_dims(md, lambda n: (n + 2 * padding - 3) // 2 + 1), "f32", md.tag),
        },
        ("pooling_backward", like.call[2], "diff_src", "diff_dst", *like.call[5:]),
        torch,
        like.how,
        ("pooling_forward", _TRAINING, *like.call[2:]),
    )


def _resampling(alg: str, number: int, torch: TorchCall) -> MemoryBoundCase:
    return MemoryBoundCase(
        f"resampling {alg} x2",
        rs.onednn.ResamplingForward,
        _resized(lambda n: 2 * n),
        ("resampling_forward", _INFERENCE, number, None, "src", "dst"),
        torch,
        {"algorithm": f"resampling_{alg}"},
    )


def _resampling_gradient(alg: str, number: int, torch: TorchCall) -> MemoryBoundCase:
    return MemoryBoundCase(
        f"resampling {alg} x2 backward",
        rs.onednn.ResamplingBackward,
        lambda md: {"diff_src": MemoryDesc(_dims(md, lambda n: n // 2), "f32", md.tag), "diff_dst": md},
        ("resampling_backward", number, None, "diff_src", "diff_dst"),
        torch,
        {"algorithm": f"resampling_{alg}"},
        ("resampling_forward", _TRAINING, number, None, "src", "dst"),
    )


def _upsampled(name: str, *more: Any) -> TorchCall:
    """torch's gradient of an interpolation."""

    def run(t: Any, d: Any, w: list[Any]) -> Any:
        n, c, h, v = d.shape
        return getattr(t.ops.aten, f"upsample_{name}2d_backward")(d, [h, v], [n, c, h // 2, v // 2], *more)

    return run


def _averaged(t: Any, d: Any, w: list[Any]) -> Any:
    n, c, h, v = d.shape
    like = d.new_empty((n, c, 2 * h, 2 * v))
    return t.ops.aten.avg_pool2d_backward(d, like, [3, 3], [2, 2], [1, 1], False, True, None)


PRIMITIVES = (
    *_ELTWISE,
    *_NORMALIZATIONS,
    _pool("max", 3, 2, 1, lambda t, x, _: t.nn.functional.max_pool2d(x, 3, 2, 1)),
    _pool("avg_include_padding", 56, 1, 0, lambda t, x, _: t.nn.functional.avg_pool2d(x, 56)),
    MemoryBoundCase(
        "reduction sum",
        rs.onednn.Reduction,
        _resized(lambda n: 1),
        ("reduction", 0x2FFF4, "src", "dst", *_floats(0, 0)),
        lambda _t, x, _: x.sum((2, 3), True),
        {"algorithm": "reduction_sum"},
    ),
    _resampling("nearest", 0x2FFF0, lambda t, x, _: t.nn.functional.interpolate(x, scale_factor=2)),
    _resampling(
        "linear", 0x2FFF1, lambda t, x, _: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    ),
    MemoryBoundCase(
        "softmax",
        rs.onednn.SoftmaxForward,
        _forward,
        ("softmax_forward", _INFERENCE, 0x30000, "src", "dst", 1),
        lambda t, x, _: t.softmax(x, 1),
        {"algorithm": "softmax_accurate", "axis": 1},
        of_rows=True,
    ),
    MemoryBoundCase(
        "softmax backward",
        rs.onednn.SoftmaxBackward,
        _gradient("dst"),
        ("softmax_backward", 0x30000, "diff_src", "diff_dst", "dst", 1),
        lambda t, x, w: t.ops.aten._softmax_backward_data(w[0], x, 1, x.dtype),
        {"algorithm": "softmax_accurate", "axis": 1},
        ("softmax_forward", _TRAINING, 0x30000, "src", "dst", 1),
        of_rows=True,
    ),
)
GRADIENTS = (
    _pool_gradient("max", 0, None),
    _pool_gradient("avg_include_padding", 1, _averaged),
    _resampling_gradient("nearest", 0x2FFF0, _upsampled("nearest")),
    _resampling_gradient("linear", 0x2FFF1, _upsampled("bilinear", False)),
    MemoryBoundCase(
        "prelu backward",
        rs.onednn.PReLUBackward,
        lambda md: {**_gradient("src")(md), "weights": _slopes(md), "diff_weights": _slopes(md)},
        ("prelu_backward", "src", "weights", "diff_src", "diff_weights", "diff_dst"),
        lambda t, x, w: t.ops.aten._prelu_kernel_backward(w[0], x, w[1])[0],
        hint=("prelu_forward", _TRAINING, "src", "weights", "dst"),
    ),
    MemoryBoundCase(
        "lrn across channels backward",
        rs.onednn.LRNBackward,
        _gradient("src"),
        ("lrn_backward", 0xAFF, *_GRADIENT, *_LRN_NUMBERS),
        how=_LRN_HOW,
        hint=("lrn_forward", _TRAINING, 0xAFF, "src", "dst", *_LRN_NUMBERS),
    ),
    MemoryBoundCase(
        "group normalization backward",
        rs.onednn.GroupNormalizationBackward,
        _gradient("src"),
        ("group_normalization_backward", _BACKWARD, *_GRADIENT, *_GROUP),
        how={**_AFFINE, "groups": GROUPS, "prop_kind": "backward"},
        hint=("group_normalization_forward", _TRAINING, "src", "dst", *_GROUP),
    ),
)
"""Gradients of windows, sizes, weights and groups."""
CASES = (*PRIMITIVES, *GRADIENTS)
