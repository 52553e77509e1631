"""Layers of torch whose products are restride's: linear and two-dimensional convolution, as modules too.

This module imports torch; nothing does so but `restride.torch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch

from .modes import is_plain, refuse_transforms
from .products import PackedWeights, convolution, convolved, matmul, packed_matmul, same_types

_SPATIAL = 2


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`torch.nn.functional.linear`: `x @ weight.T + bias`, with gradients.

    `x` (..., inputs), `weight` (outputs, inputs), `bias` (outputs), all of one type of floats.
    """
    same_types("linear", x, weight, bias)
    refuse_transforms("linear", x, weight, bias)
    found: torch.Tensor = matmul(x, weight.mT, bias)
    return found


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> torch.Tensor:
    """`torch.nn.functional.conv2d` of a batch, with gradients, in the layout of `x`.

    `x` (N, C, H, W), `weight` (O, C / groups, kh, kw), `bias` (O), all of one type of floats.
    """
    same_types("conv2d", x, weight, bias)
    refuse_transforms("conv2d", x, weight, bias)
    window = (_pair(stride), _pair(padding), _pair(dilation))
    found: torch.Tensor = convolution(x, weight, bias, *window, groups)
    return found


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """A drop-in for `torch.nn.Linear`. Where no gradient is wanted, weights are packed at the first call.

    They are packed anew when the parameter has been changed; a change of `weight.data`, of which torch keeps
    no count, is not seen.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._packed = PackedWeights()

    @classmethod
    def of(cls, module: torch.nn.Linear) -> Self:
        """The layer with the parameters of another."""
        made = cls(module.in_features, module.out_features, module.bias is not None, device="meta")
        made.weight, made.bias = module.weight, module.bias
        made.train(module.training)
        return made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The product, and the bias."""
        if not _is_fixed(x, self):
            return linear(x, self.weight, self.bias)
        same_types("Linear", x, self.weight, self.bias)
        found: torch.Tensor = packed_matmul(x, self._packed.of(self.weight, "matmul"), self.bias)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return _without_packed(self)


class Conv2d(torch.nn.Conv2d):  # type: ignore[misc]
    """A drop-in for `torch.nn.Conv2d`. Where no gradient is wanted, weights are packed at the first call.

    As `Linear`. Padding other than of zeros, and by a word, is torch's own.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._packed = PackedWeights()

    @classmethod
    def of(cls, module: torch.nn.Conv2d) -> Self:
        """The layer with the parameters of another."""
        made = cls(
            *(module.in_channels, module.out_channels, module.kernel_size, module.stride),
            *(module.padding, module.dilation, module.groups, module.bias is not None),
            padding_mode=module.padding_mode,
            device="meta",
        )
        made.weight, made.bias = module.weight, module.bias
        made.train(module.training)
        return made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The convolution, in the layout of `x`."""
        if self.padding_mode != "zeros" or isinstance(self.padding, str) or x.dim() != 2 + _SPATIAL:
            found: torch.Tensor = super().forward(x)
            return found
        window = (*map(_pair, (self.stride, self.padding, self.dilation)), self.groups)
        if not _is_fixed(x, self):
            return conv2d(x, self.weight, self.bias, *window)
        same_types("Conv2d", x, self.weight, self.bias)
        packed = self._packed.of(self.weight, "convolution", self.groups)
        made: torch.Tensor = convolved(x, packed, self.bias, tuple(self.weight.shape), *window)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return _without_packed(self)


def _is_fixed(x: torch.Tensor, module: Any) -> bool:
    """True where the result alone is wanted, of tensors as they are."""
    return is_plain(x) and all(
        _is_constant(each) for each in (module.weight, module.bias) if each is not None
    )


def _is_constant(parameter: torch.Tensor) -> bool:
    """True where nothing is recorded of a parameter."""
    return parameter.is_cpu and not (parameter.requires_grad and torch.is_grad_enabled())


def _without_packed(module: Any) -> dict[str, Any]:
    """The state of a module for copies, which pack their own weights."""
    return {**module.__dict__, "_packed": PackedWeights()}


def _pair(value: Any) -> list[int]:
    """One number for both dims, or one for each."""
    return list(value) if isinstance(value, Sequence) else [value] * _SPATIAL
