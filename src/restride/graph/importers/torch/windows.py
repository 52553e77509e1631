"""ATen's operators on windows: convolutions, poolings, resizing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..onnx.context import Made, OnnxContext, Translator
from .arguments import (
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
    values = [value_at(context, at) for at in range(3) if at < 2 or argument_at(context, at) is not None]
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
            "pads": for_each_axis(argument_at(context, "padding", 0), rank) * 2,
            "ceil_mode": int(bool(argument_at(context, "ceil_mode", False))),
        }
        if operator == "MaxPool":
            named["dilations"] = for_each_axis(argument_at(context, "dilation", 1), rank)
            return by_onnx(context, operator, value_at(context, 0), **named)
        if argument_at(context, "divisor_override") is not None:
            raise context.unimplemented("it divides by another number than there are elements")
        named["count_include_pad"] = int(bool(argument_at(context, "count_include_pad", True)))
        return by_onnx(context, operator, value_at(context, 0), **named)

    return run


def _adaptive_average(context: OnnxContext) -> Made:
    source, sizes = value_at(context, 0), argument_at(context, 1)
    spatial = dims_of(context, source)[-len(sizes) :]
    if any(not size or n % size for n, size in zip(spatial, sizes, strict=True)):
        raise context.unimplemented("its windows are of several sizes", "use sizes that divide the input's")
    kernel = [n // size for n, size in zip(spatial, sizes, strict=True)]
    return by_onnx(context, "AveragePool", source, kernel_shape=kernel, strides=kernel)


def _resize(mode: str) -> Translator:
    """Upsampling to sizes or by scales."""

    def run(context: OnnxContext) -> Made:
        source, sizes = value_at(context, 0), argument_at(context, "output_size")
        dims, scales = dims_of(context, source), argument_at(context, "scale_factors")
        exact = sizes or [n * scale for n, scale in zip(dims[2:], scales, strict=True)]
        spatial = list(map(int, exact))
        is_aligned = bool(argument_at(context, "align_corners", False))
        if spatial != list(exact) and not is_aligned:
            raise context.unimplemented(f"it samples by {scales}, which make no whole extents", "pass a size")
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
    "aten.upsample_bilinear2d": _resize("linear"),
    "aten.upsample_nearest2d": _resize("nearest"),
}
"""By the name of the operator."""
