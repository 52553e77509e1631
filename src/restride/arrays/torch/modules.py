"""torch layers computed by restride: linear and two-dimensional convolution, as functions and modules.

Only `restride.torch` may import this module, because it imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch

from ...desc.parse import parse_word
from ...errors import refuse
from .modes import check_device, is_plain, refuse_transforms
from .products import PackedWeights, convolved, packed_matmul

_SPATIAL = 2
_CONV_SIZES = (
    *("in_channels", "out_channels", "kernel_size", "stride"),
    *("padding", "dilation", "groups", "padding_mode"),
)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Compute `torch.nn.functional.linear`, `x @ weight.T + bias`, with gradients.

    `x` (..., inputs), `weight` (outputs, inputs), `bias` (outputs), all of the same floating-point type.
    """
    _check_tensors("linear", x, weight, bias)
    if x.dim() == 1:
        return linear(x[None], weight, bias)[0]
    result: torch.Tensor = torch.ops.restride.matmul(x, weight.mT, bias)
    return result


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> torch.Tensor:
    """Compute `torch.nn.functional.conv2d`, with gradients, in the layout of `x`.

    `x` (N, C, H, W) or (C, H, W), `weight` (O, C / groups, kh, kw), `bias` (O),
    all of one floating-point type.
    `padding`: numbers, "valid" or, where `stride` is 1, "same".
    """
    _check_tensors("conv2d", x, weight, bias)
    if x.dim() == 1 + _SPATIAL:
        return conv2d(x[None], weight, bias, stride, padding, dilation, groups)[0]
    if isinstance(padding, str):
        x, padding = _padded(x, weight, _pair(stride), padding, _pair(dilation))
    window = map(_pair, (stride, padding, dilation))
    result: torch.Tensor = torch.ops.restride.convolution(x, weight, bias, *window, groups)
    return result


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """Drop-in replacement for `torch.nn.Linear`. Without gradients, weights are packed at the first call.

    They are packed again after the parameter has changed; changes through `weight.data`, which torch does not
    track, are not detected.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._packed = PackedWeights()

    @classmethod
    def of(cls, module: torch.nn.Linear) -> Self:
        """Create the layer with the parameters of another."""
        layer: Self = _layer_of(cls, module, "in_features", "out_features")
        return layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product plus bias."""
        if x.dim() == 1 or not _is_fixed(x, self):
            return linear(x, self.weight, self.bias)
        _check_types("Linear", x, self.weight, self.bias)
        result: torch.Tensor = packed_matmul(x, self._packed.of(self.weight, "matmul"), self.bias)
        return result

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies, which pack their own weights."""
        return {**self.__dict__, "_packed": PackedWeights()}


class Conv2d(torch.nn.Conv2d):  # type: ignore[misc]
    """Drop-in replacement for `torch.nn.Conv2d`. Without gradients, weights are packed at the first call.

    Otherwise as `Linear`. Nonzero padding modes, and padding given as a word, are left to torch.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._packed = PackedWeights()

    @classmethod
    def of(cls, module: torch.nn.Conv2d) -> Self:
        """Create the layer with the parameters of another."""
        layer: Self = _layer_of(cls, module, *_CONV_SIZES)
        return layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the convolution, in the layout of `x`."""
        if self.padding_mode != "zeros" or isinstance(self.padding, str) or x.dim() != 2 + _SPATIAL:
            result: torch.Tensor = super().forward(x)
            return result
        window = (*map(_pair, (self.stride, self.padding, self.dilation)), self.groups)
        if not _is_fixed(x, self):
            return conv2d(x, self.weight, self.bias, *window)
        _check_types("Conv2d", x, self.weight, self.bias)
        packed = self._packed.of(self.weight, "convolution", self.groups)
        output: torch.Tensor = convolved(x, packed, self.bias, self.weight.shape, *window)
        return output

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies, which pack their own weights."""
        return {**self.__dict__, "_packed": PackedWeights()}


def _layer_of(cls: Any, module: Any, *sizes: str) -> Any:
    extents = {name: getattr(module, name) for name in sizes}
    layer = cls(**extents, bias=module.bias is not None, device="meta")
    layer.weight, layer.bias = module.weight, module.bias
    layer.train(module.training)
    return layer


def _check_types(call: str, x: Any, weight: Any, bias: Any) -> None:
    """Raise InvalidArguments for tensors of different types, which torch would reject too."""
    kinds = {tensor.dtype for tensor in (x, weight, bias) if tensor is not None}
    if len(kinds) > 1:
        raise refuse("RS-A17:tensors-different-types", call=call, kinds=", ".join(sorted(map(str, kinds))))


def _check_tensors(call: str, x: Any, weight: Any, bias: Any) -> None:
    for tensor in (x, weight, bias):
        if isinstance(tensor, torch.Tensor):
            check_device(tensor)
    _check_types(call, x, weight, bias)
    refuse_transforms(call, x, weight, bias)


def _is_fixed(x: torch.Tensor, module: Any) -> bool:
    """Return True if only the result is needed, for plain tensors."""
    return is_plain(x) and all(
        tensor is None or (tensor.is_cpu and not (tensor.requires_grad and torch.is_grad_enabled()))
        for tensor in (module.weight, module.bias)
    )


def _padded(
    x: torch.Tensor, weight: torch.Tensor, stride: list[int], word: str, dilation: list[int]
) -> tuple[torch.Tensor, list[int]]:
    """The source and the padding on both sides that a word stands for: odd rows of zeros come last."""
    word = parse_word("conv2d: padding", word, ("same", "valid"))
    if word == "valid":
        return x, [0] * _SPATIAL
    if stride != [1] * _SPATIAL:
        raise refuse("RS-A17:same-stride", stride=stride)
    sums = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    odd = [0, sums[1] % 2, 0, sums[0] % 2]
    return torch.nn.functional.pad(x, odd) if any(odd) else x, [n // 2 for n in sums]


def _pair(value: Any) -> list[int]:
    """Return one number for each of both dims, from one or two numbers."""
    return list(value) if isinstance(value, Sequence) else [value] * _SPATIAL
