"""Convolution and deconvolution: `--conv --dir=FWD_B --dt=bf16 g2ic16oc32_ih14oh14kh3ph1`, `--deconv …`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs

from ..attr_text import PostOpText, wrong
from ..fill import Array, rounded
from ..formulas import after_post_ops, finished, scale_of, zero_point_of
from ..knobs import Several, caseless
from ..operands import CaseOperand, Values
from ..problems import Dims, padding_behind, parse_lettered
from ..products import EXACT, LARGEST, ProductCase, of_numbers

Slices = tuple[slice, ...]
Tap = tuple[slice | int, ...]

_LETTERS = ("g", "mb", "ic", "oc", *(f"{kind}{dim}" for kind in "iokspd" for dim in "dhw"))
_ALGORITHMS = ("direct", "auto", "wino")
_NAMES = {f"{kind}_{alg}": alg for kind in ("convolution", "deconvolution") for alg in _ALGORITHMS}
_DEPTHWISE = {"weights": rs.ARG_WEIGHTS, "bias": rs.ARG_BIAS}
_WINDOWS = ("strides", "dilates", "padding_l", "padding_r")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvCase(ProductCase):
    """A convolution. `source` are the spatial dims of the source; `groups` is 0 where none are written."""

    driver: ClassVar[str] = "conv"
    primitive: ClassVar[str] = "Convolution"
    template: ClassVar[str] = "%dir%,%dt%,%stag%,%dtag%,%alg%,%DESC%"
    takes_depthwise: ClassVar[bool] = True

    alg: Annotated[str, caseless(*_ALGORITHMS, also=_NAMES)] = "direct"
    channels: int = 0
    groups: int = 0
    source: Dims = ()
    kernel: Dims = ()
    window_strides: Dims = ()
    dilation: Dims = ()
    padding: Dims = ()

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of the result, groups, channels, and the windows."""
        problem = parse_lettered(text, _LETTERS)
        windows = problem.windows("ic", "oc", is_transposed=cls.driver == "deconv")
        inputs, outputs, groups = (problem.whole(key) for key in ("ic", "oc", "g"))
        if ("g" in problem.numbers and not groups) or (groups and (inputs % groups or outputs % groups)):
            raise wrong("the problem", text, f"{groups} groups of {inputs} and {outputs} channels", "")
        dims = problem.whole("mb", 2), outputs, *windows.pop("result")
        return {**problem.written, "dims": dims, "channels": inputs, "groups": groups, **windows}

    @property
    def prefix(self) -> str:
        """The operation as functions and algorithms of oneDNN have it."""
        return self.primitive.lower()

    @property
    def src_dims(self) -> Dims:
        """The dims of the source."""
        return (self.dims[0], self.channels, *self.source)

    @property
    def weight_dims(self) -> Dims:
        """The dims of the weights."""
        count = max(self.groups, 1)
        dims = (self.dims[1] // count, self.channels // count, *self.kernel)
        return (self.groups, *dims) if self.groups else dims

    @property
    def terms(self) -> int:
        """How many products a sum has, at most."""
        if self.propagation == "backward_weights":
            return self.dims[0] * prod(self.point_sizes)
        channels = self.channels if self.is_forward else self.dims[1]
        behind = self.fused
        most = LARGEST * prod(behind.kernel) if behind is not None else 1
        return channels // max(self.groups, 1) * prod(self.kernel) * most

    @property
    def zeros(self) -> float:
        """How many percent of a result may be zero: where windows leave gaps, much of what is under them."""
        return 100 - 30 / prod(self.window_strides)

    @property
    def window_sizes(self) -> Dims:
        """The spatial dims of the tensor that windows slide over."""
        return self.source

    @property
    def point_sizes(self) -> Dims:
        """The spatial dims of the tensor with a point for each window."""
        return self.dims[2:]

    @property
    def windows(self) -> tuple[Dims, ...]:
        """The numbers that a descriptor takes, in its order."""
        behind = padding_behind(
            *(self.point_sizes, self.window_sizes, self.kernel),
            *(self.window_strides, self.dilation, self.padding),
        )
        return self.window_strides, self.dilation, self.padding, behind

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """Tensors and windows."""
        tensors = super(ConvCase, self).arguments(is_forward)
        windows = dict(zip(_WINDOWS, self.windows, strict=True))
        return {"algorithm": f"{self.prefix}_{self.alg}", **tensors, **windows}

    # --- a depthwise convolution behind ---

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

    def attr_dims(self, arg: str) -> Dims:
        """The dims of the tensor that scales and zero points of an argument are of."""
        behind = self.fused
        if behind is not None and arg.startswith("attr_post_op_dw"):
            return behind.weight_dims if arg.endswith("wei") else behind.dims
        return super(ConvCase, self).attr_dims(arg)

    def post_op_dims(self, index: int) -> Dims:
        """The dims of what a post-op is done to."""
        behind = self.fused
        return self.dims if behind is None or index < self.fused_place else behind.dims

    def append_depthwise(self, post_ops: rs.PostOps, op: PostOpText) -> list[CaseOperand]:
        """Append a depthwise convolution of the result; its weights, and its bias where there is one."""
        behind = self.fused
        assert behind is not None
        mds = behind.mds
        bias_type = behind.bias_type if "bias" in mds else "undef"
        post_ops.append_dw(behind.dt[1], bias_type, behind.dt[2], *op.window)
        terms = (EXACT - 1) // LARGEST**2
        return [
            of_numbers(rs.ARG_ATTR_POST_OP_DW | arg, mds[name], terms, seed)
            for seed, (name, arg) in enumerate(_DEPTHWISE.items(), 7)
            if name in mds
        ]

    def finish(self, total: Array, values: Values) -> Array:
        """What becomes of sums: with a depthwise convolution behind, those of two convolutions."""
        behind, place = self.fused, self.fused_place
        if behind is None:
            return finished(self, total, values)
        held = after_post_ops(self, total, values, range(place))
        scale, zero = scale_of(self, "dst", values), zero_point_of(self, "dst", values)
        held = rounded(held / scale + zero, rs.DataType.parse(self.dt[2])).astype(np.float64)
        weights, bias = (values.get(rs.ARG_ATTR_POST_OP_DW | arg) for arg in _DEPTHWISE.values())
        assert weights is not None
        weights = weights * scale_of(self, "attr_post_op_dw_wei", values)
        sums = behind.points((held - zero) * scale, weights)
        sums += 0.0 if bias is None else bias.reshape(-1, 1, 1)
        made = after_post_ops(self, sums, values, range(place + 1, len(self.attr_post_ops)))
        return np.asarray(made / scale_of(self, "attr_post_op_dw_dst", values))

    # --- the formula ---

    def product(self, first: Array, second: Array) -> Array:
        """By direction, sums of windows, sums of points, or weights."""
        if self.propagation == "backward_weights":
            return self.correlated(first, second).reshape(self.weight_dims)
        weights = second.reshape(-1, *second.shape[-2 - len(self.kernel) :])
        return self.points(first, weights) if self.is_forward else self.under(first, weights)

    def taps(self) -> Iterator[tuple[Tap, Slices, Slices]]:
        """For each tap of the kernel: which elements under windows meet which points."""
        for tap in itertools.product(*map(range, self.kernel)):
            at = [self._along(dim, step) for dim, step in enumerate(tap)]
            every = (slice(None),) * 3
            yield (
                (*every, *tap),
                (*every, *(window for window, _ in at)),
                (*every, *(point for _, point in at)),
            )

    def _along(self, dim: int, tap: int) -> tuple[slice, slice]:
        stride = self.window_strides[dim]
        first = tap * (self.dilation[dim] + 1) - self.padding[dim]
        low = max(0, -(first // stride))
        high = min(self.point_sizes[dim], (self.window_sizes[dim] - 1 - first) // stride + 1)
        if high <= low:
            return slice(0, 0), slice(0, 0)
        return slice(first + low * stride, first + (high - 1) * stride + 1, stride), slice(low, high)

    def split(self, x: Array) -> Array:
        """A tensor with its channels in groups."""
        groups = max(self.groups, 1)
        return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])

    def points(self, x: Array, weights: Array) -> Array:
        """For each window the sum of what lies under it, times the weights (groups, points, windows, …)."""
        x, sizes = self.split(x), self.point_sizes
        out = np.zeros((*x.shape[:2], weights.shape[1], *sizes))
        for tap, window, point in self.taps():
            part = out[point]
            part += (weights[tap] @ _flat(x[window])).reshape(part.shape)
        return out.reshape(len(x), -1, *sizes)

    def under(self, y: Array, weights: Array) -> Array:
        """For each element under windows the sum of the points that it is part of, times the weights."""
        y, sizes = self.split(y), self.window_sizes
        out = np.zeros((*y.shape[:2], weights.shape[2], *sizes))
        for tap, window, point in self.taps():
            part = out[window]
            part += (np.swapaxes(weights[tap], 1, 2) @ _flat(y[point])).reshape(part.shape)
        return out.reshape(len(y), -1, *sizes)

    def correlated(self, x: Array, y: Array) -> Array:
        """For each weight the sum of elements under windows times points."""
        x, y = self.split(x), self.split(y)
        out = np.zeros((y.shape[1], y.shape[2], x.shape[2], *self.kernel))
        for tap, window, point in self.taps():
            out[tap] = (_flat(y[point]) @ np.swapaxes(_flat(x[window]), 2, 3)).sum(0)
        return out

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense, or is not supported."""
        yield from super(ConvCase, self).invalid()
        if self.fused is not None:
            op, *behind = self.attr_post_ops[self.fused_place :]
            if not self.is_forward:
                yield f"Invalid case: {op} of a gradient"
            if len(self.dims) != 2 + len("hw") or any(other.kind == "dw" for other in behind):
                yield f"Case not supported: {op}, there is one in two spatial dims"
            if any(other.kind == "sum" for other in self.attr_post_ops[: self.fused_place]):
                yield f"Invalid case: a sum in front of {op}, of a result that nobody has"
        if self.alg == "wino":
            yield "Case not supported: --alg=wino, there is direct"


def _flat(x: Array) -> Array:
    return x.reshape(*x.shape[:3], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeconvCase(ConvCase):
    """A deconvolution: windows slide over its result."""

    driver: ClassVar[str] = "deconv"
    primitive: ClassVar[str] = "Deconvolution"
    takes_depthwise: ClassVar[bool] = False

    @property
    def window_sizes(self) -> Dims:
        """The spatial dims of the result."""
        return self.dims[2:]

    @property
    def point_sizes(self) -> Dims:
        """The spatial dims of the source."""
        return self.source

    def product(self, first: Array, second: Array) -> Array:
        """By direction, sums of points, sums of windows, or weights; their channels change places."""
        if self.propagation == "backward_weights":
            return np.swapaxes(self.correlated(second, first), 1, 2).reshape(self.weight_dims)
        weights = np.swapaxes(second.reshape(-1, *second.shape[-2 - len(self.kernel) :]), 1, 2)
        return self.under(first, weights) if self.is_forward else self.points(first, weights)
