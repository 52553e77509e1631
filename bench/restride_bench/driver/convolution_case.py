"""The cases of convolutions and deconvolutions, and how they are written: `g2ic16oc32_ih14oh14kh3ph1`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import restride as rs

from .attr_text import wrong
from .cases import ATTR_KNOB_NAMES, Several
from .products import LARGEST, ProductCase
from .spatial import parse_lettered

_LETTERS = ("g", "mb", "ic", "oc", *(f"{kind}{dim}" for kind in "iokspd" for dim in "dhw"))
Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvCase(ProductCase):
    """A convolution. `source` are the spatial dims of the source; `groups` is 0 where none are written."""

    driver: ClassVar[str] = "conv"
    prefix: ClassVar[str] = "convolution"

    takes_depthwise: ClassVar[bool] = True

    alg: str = "direct"
    channels: int = 0
    groups: int = 0
    source: Sizes = ()
    kernel: Sizes = ()
    window_strides: Sizes = ()
    dilation: Sizes = ()
    padding: Sizes = ()

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        own = ("dir", "dt", "bia_dt", "stag", "wtag", "dtag", "strides", "alg", "mb")
        return (*own, *ATTR_KNOB_NAMES)

    @property
    def src_dims(self) -> Sizes:
        """The dims of the source."""
        return (self.dims[0], self.channels, *self.source)

    @property
    def weight_dims(self) -> Sizes:
        """The dims of the weights."""
        count = max(self.groups, 1)
        dims = (self.dims[1] // count, self.channels // count, *self.kernel)
        return (self.groups, *dims) if self.groups else dims

    @property
    def terms(self) -> int:
        """How many products a sum has, at most."""
        if self.direction == "backward_weights":
            return self.dims[0] * prod(self.dims[2:])
        channels = self.channels if self.direction == "forward" else self.dims[1]
        behind = self.fused
        most = LARGEST * prod(behind.kernel) if behind is not None else 1
        return channels // max(self.groups, 1) * prod(self.kernel) * most

    @property
    def zeros(self) -> float:
        """How many percent of a result may be zero: where windows leave gaps, much of what is under them."""
        return 100 - 30 / prod(self.window_strides)

    @property
    def window_sizes(self) -> Sizes:
        """The spatial dims of the tensor that windows slide over."""
        return self.source

    @property
    def point_sizes(self) -> Sizes:
        """The spatial dims of the tensor with a point for each window."""
        return self.dims[2:]

    @property
    def windows(self) -> tuple[Sizes, ...]:
        """The numbers that a descriptor takes, in its order."""
        parts = zip(
            *(self.window_sizes, self.point_sizes, self.kernel),
            *(self.window_strides, self.dilation, self.padding),
            strict=True,
        )
        behind = tuple((o - 1) * s - i + (k - 1) * (d + 1) + 1 - p for i, o, k, s, d, p in parts)
        return self.window_strides, self.dilation, self.padding, behind

    @property
    def fused(self) -> ConvCase | None:
        """The depthwise convolution of the result among the post-ops, as a case; None where there is none."""
        op = next((op for op in self.attr_post_ops if op.kind == "dw"), None)
        if op is None or not self.takes_depthwise:
            return None
        kernel, stride, padding = op.window
        sizes, count = self.dims[2:], len(self.dims) - 2
        return ConvCase(
            dims=(*self.dims[:2], *(-(-size // stride) for size in sizes)),
            dir=self.dir,
            bia_dt=self.bia_dt,
            dt=Several((self.dt[2], self.dt[1], op.result_type)),
            channels=self.dims[1],
            groups=self.dims[1],
            source=sizes,
            kernel=(kernel,) * count,
            window_strides=(stride,) * count,
            dilation=(0,) * count,
            padding=(padding,) * count,
        )

    @property
    def fused_place(self) -> int:
        """Which of the post-ops the depthwise convolution is; as many as there are where there is none."""
        kinds = [op.kind for op in self.attr_post_ops]
        return kinds.index("dw") if "dw" in kinds else len(kinds)

    @property
    def written(self) -> rs.MemoryDesc:
        """What forward writes: behind a depthwise convolution in its own format."""
        behind = self.fused
        return self.mds["dst"] if behind is None else behind.mds["dst"]

    def attr_dims(self, arg: str) -> Sizes:
        """The dims of the tensor that scales and zero points of an argument are of."""
        behind = self.fused
        if behind is not None and arg.startswith("attr_post_op_dw"):
            return behind.weight_dims if arg.endswith("wei") else behind.dims
        return ProductCase.attr_dims(self, arg)

    def post_op_dims(self, index: int) -> Sizes:
        """The dims of what a post-op is done to."""
        behind = self.fused
        return self.dims if behind is None or index < self.fused_place else behind.dims


@dataclass(frozen=True, slots=True, kw_only=True)
class DeconvCase(ConvCase):
    """A deconvolution: windows slide over its result."""

    takes_depthwise: ClassVar[bool] = False

    driver: ClassVar[str] = "deconv"
    prefix: ClassVar[str] = "deconvolution"

    @property
    def window_sizes(self) -> Sizes:
        """The spatial dims of the result."""
        return self.dims[2:]

    @property
    def point_sizes(self) -> Sizes:
        """The spatial dims of the source."""
        return self.source

    @property
    def terms(self) -> int:
        """How many products a sum has, at most."""
        if self.direction == "backward_weights":
            return self.dims[0] * prod(self.source)
        channels = self.channels if self.direction == "forward" else self.dims[1]
        return channels // max(self.groups, 1) * prod(self.kernel)


# --- problems -----------------------------------------------------------------------------------------------


def parse_convolution(text: str) -> dict[str, Any]:
    """The fields of a convolution."""
    return _parsed(text, is_transposed=False)


def parse_deconvolution(text: str) -> dict[str, Any]:
    """The fields of a deconvolution."""
    return _parsed(text, is_transposed=True)


def _parsed(text: str, *, is_transposed: bool) -> dict[str, Any]:
    found = parse_lettered(text, _LETTERS)
    windows = found.windows("ic", "oc", is_transposed=is_transposed)
    inputs, outputs, groups = (found.whole(key) for key in ("ic", "oc", "g"))
    if ("g" in found.numbers and not groups) or (groups and (inputs % groups or outputs % groups)):
        raise wrong("the problem", text, f"{groups} groups of {inputs} and {outputs} channels", "")
    return {
        "problem": found.text,
        "name": found.name,
        "dims": (found.whole("mb", 2), outputs, *windows.pop("result")),
        "channels": inputs,
        "groups": groups,
        **windows,
    }
