"""The arguments of primitive descriptors of convolutions: as oneDNN has them, by place or by name.

Bias and dilations may be left out by place too: what follows them is told by its type.
"""

from __future__ import annotations

from inspect import Signature
from typing import Any, NamedTuple

from ..desc.memory_desc import MemoryDesc
from .forms import signature

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class ConvolutionForwardArguments(NamedTuple):
    """Of a forward primitive descriptor."""

    engine: Any
    prop_kind: Any
    algorithm: Any
    src: Any
    weights: Any
    bias: Any = None
    dst: Any = None
    strides: Any = None
    dilates: Any = None
    padding_l: Any = None
    padding_r: Any = None
    attr: Any = None
    allow_empty: bool = False

    @property
    def hint_pd(self) -> None:
        """A forward step has none."""

    @property
    def tensors(self) -> dict[str, Any]:
        """Source, weights and destination by name."""
        return {"src": self.src, "weights": self.weights, "dst": self.dst}


class ConvolutionDataArguments(NamedTuple):
    """Of a primitive descriptor that writes the gradient of the source."""

    engine: Any
    algorithm: Any
    diff_src: Any
    weights: Any
    diff_dst: Any
    strides: Any = None
    dilates: Any = None
    padding_l: Any = None
    padding_r: Any = None
    hint_pd: Any = None
    attr: Any = None
    allow_empty: bool = False

    @property
    def prop_kind(self) -> str:
        """The propagation kind."""
        return "backward_data"

    @property
    def bias(self) -> None:
        """The gradient of a source has no part in it."""

    @property
    def tensors(self) -> dict[str, Any]:
        """The gradients of source and destination, and the weights."""
        return {"diff_src": self.diff_src, "weights": self.weights, "diff_dst": self.diff_dst}


class ConvolutionWeightsArguments(NamedTuple):
    """Of a primitive descriptor that writes the gradients of weights and bias."""

    engine: Any
    algorithm: Any
    src: Any
    diff_weights: Any
    diff_bias: Any = None
    diff_dst: Any = None
    strides: Any = None
    dilates: Any = None
    padding_l: Any = None
    padding_r: Any = None
    hint_pd: Any = None
    attr: Any = None
    allow_empty: bool = False

    @property
    def prop_kind(self) -> str:
        """The propagation kind."""
        return "backward_weights"

    @property
    def bias(self) -> Any:
        """The gradient of the bias."""
        return self.diff_bias

    @property
    def tensors(self) -> dict[str, Any]:
        """The source, and the gradients of weights and destination."""
        return {"src": self.src, "diff_weights": self.diff_weights, "diff_dst": self.diff_dst}


ConvolutionArguments = ConvolutionForwardArguments | ConvolutionDataArguments | ConvolutionWeightsArguments


def shown(made: type[ConvolutionArguments]) -> Signature:
    """The signature of the call that makes such arguments."""
    optional = made._field_defaults
    return signature(*(name for name in made._fields if name not in optional), **optional)


def completed(made: type[ConvolutionArguments], args: tuple[Any, ...], named: dict[str, Any]) -> Arguments:
    """Arguments by place with None where there is no bias, and where there are no dilations."""
    row, fields = list(args), made._fields
    bias = next((i for i, name in enumerate(fields) if name in ("bias", "diff_bias")), len(row))
    has_target = len(row) > bias + 1 and isinstance(row[bias + 1], MemoryDesc)
    if len(row) > bias and not has_target and not {"dst", "diff_dst", "bias", "diff_bias"} & set(named):
        row.insert(bias, None)
    start = fields.index("strides")
    lists = [_is_run(each) for each in row[start : start + 4]]
    if lists[:3] == [True] * 3 and lists[3:] != [True]:
        row.insert(start + 1, None)
    return tuple(row), named


def _is_run(value: object) -> bool:
    """True for what may be one number for each spatial dim."""
    return isinstance(value, int | list | tuple) and not isinstance(value, bool)
