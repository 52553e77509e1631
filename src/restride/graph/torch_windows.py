"""ATen's operators on windows: convolutions, poolings, resizing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .onnx_context import Made, OnnxContext, Translator
from .torch_arguments import (
    argument_at,
    by_onnx,
    dims_of,
    for_each_axis,
    integers,
    value_at,
)


def _convolution(context: OnnxContext) -> Made:
    strides, padding, dilations, is_transposed, more, groups = (
        argument_at(context, at) for at in range(3, 9)
    )
    values = [value_at(context, at) for at in range(3 if argument_at(context, 2) is not None else 2)]
    assert values[1] is not None
    rank = len(dims_of(context, values[1])) - 2
    named: dict[str, Any] = {
        "strides": for_each_axis(strides, rank),
        "dilations": for_each_axis(dilations, rank),
        "pads": for_each_axis(padding, rank) * 2,
        "group": groups,
    }
    if is_transposed:
        return by_onnx(context, "ConvTranspose", *values, output_padding=for_each_axis(more, rank), **named)
    return by_onnx(context, "Conv", *values, **named)


def _pooling(operator: str, rank: int) -> Translator:
    def run(context: OnnxContext) -> Made:
        kernel = for_each_axis(argument_at(context, 1), rank)
        named: dict[str, Any] = {
            "kernel_shape": kernel,
            "strides": for_each_axis(argument_at(context, 2) or kernel, rank),
            "pads": for_each_axis(argument_at(context, 3) or 0, rank) * 2,
        }
        if operator == "MaxPool":
            named["dilations"] = for_each_axis(argument_at(context, 4) or 1, rank)
            return by_onnx(
                context, operator, value_at(context, 0), ceil_mode=int(bool(argument_at(context, 5))), **named
            )
        if argument_at(context, 6, "divisor_override") is not None:
            raise context.unimplemented("it divides by another number than there are elements")
        named["ceil_mode"] = int(bool(argument_at(context, 4, "ceil_mode", False)))
        named["count_include_pad"] = int(bool(argument_at(context, 5, "count_include_pad", True)))
        return by_onnx(context, operator, value_at(context, 0), **named)

    return run


def _adaptive_average(context: OnnxContext) -> Made:
    source, sizes = value_at(context, 0), argument_at(context, 1)
    assert source is not None
    spatial = dims_of(context, source)[-len(sizes) :]
    if any(not size or n % size for n, size in zip(spatial, sizes, strict=True)):
        raise context.unimplemented("its windows are of several sizes", "use sizes that divide the input's")
    kernel = [n // size for n, size in zip(spatial, sizes, strict=True)]
    return by_onnx(context, "AveragePool", source, kernel_shape=kernel, strides=kernel)


def _resize(mode: str, flags: int) -> Translator:
    """Upsampling to sizes or by scales; `flags` is the place of the sizes' last neighbour, the scales."""

    def run(context: OnnxContext) -> Made:
        source, sizes = value_at(context, 0), argument_at(context, 1)
        assert source is not None
        dims, scales = dims_of(context, source), argument_at(context, flags)
        spatial = sizes or [int(n * scale) for n, scale in zip(dims[2:], scales, strict=True)]
        is_aligned = flags > 2 and bool(argument_at(context, 2))
        word = "align_corners" if is_aligned else "half_pixel" if mode == "linear" else "asymmetric"
        return by_onnx(
            context,
            "Resize",
            *(source, None, None, integers(*dims[:2], *spatial)),
            mode=mode,
            coordinate_transformation_mode=word,
            nearest_mode="floor",
        )

    return run


WINDOW_TRANSLATORS: Mapping[str, Translator] = {
    "aten._adaptive_avg_pool2d": _adaptive_average,
    "aten._adaptive_avg_pool3d": _adaptive_average,
    "aten.avg_pool1d": _pooling("AveragePool", 1),
    "aten.avg_pool2d": _pooling("AveragePool", 2),
    "aten.avg_pool3d": _pooling("AveragePool", 3),
    "aten.convolution": _convolution,
    "aten.max_pool2d_with_indices": _pooling("MaxPool", 2),
    "aten.max_pool3d_with_indices": _pooling("MaxPool", 3),
    "aten.upsample_bilinear2d": _resize("linear", 3),
    "aten.upsample_nearest2d": _resize("nearest", 2),
}
"""By the name of the operator."""
