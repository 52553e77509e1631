"""Sums of products: `--conv`, `--deconv`, `--ip`, `--matmul`.

Factors are whole numbers so small that sums are exact in any order.
"""
# ruff: noqa: D102 (what every operation says, its base class explains)

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from .. import knobs
from ..attr_text import FactorText, PostOpText, wrong
from ..cases import Case, bits_of, why_no_gradient
from ..compare import Points, Tolerance
from ..fill import Array, rounded
from ..formulas import after_post_ops, finished, scale_of, taps, zero_point_of
from ..knobs import Knob, Several, caseless, matching, parse_count
from ..operands import CaseOperand, Values
from ..problems import LETTERS_OF_WINDOWS, Dims, padding_behind, parse_lettered, parse_several_dims

_EXACT = 1 << 24  # sums below it are exact as f32, whatever their order
_LARGEST = 4  # the largest factor of most types
_LARGEST_OF = {"f64": 32, "f32": 32, "u8": 8, "s8": 5}
_SEEDS = {"src": 1, "weights": 2, "dst": 3, "bias": 4}


def numbers(md: rs.MemoryDesc, terms: int, seed: int) -> Array:
    """Whole numbers for one of two tensors of which so many products are summed."""
    kind = md.data_type
    most = min(_LARGEST_OF.get(kind.name, _LARGEST), int((_EXACT / max(terms, 1)) ** 0.5))
    low, random = 0 if kind.kind == "uint" else -max(most, 1), np.random.default_rng(seed)
    values: Array = random.integers(low, max(most, 1), md.dims, np.int8, endpoint=True)
    # Of one value that were zero, all sums would be.
    values.reshape(-1)[:1] = 1
    if kind.bits >= 8:
        # Every such type holds them.
        return values.astype(kind.numpy)
    return np.asarray(rounded(values.astype(np.float64), kind).astype(np.float64))


def sums_of(case: Case, values: Values, product: Callable[[Array, Array], Array]) -> Array:
    """Sums of products of what scales and zero points make of the factors."""
    factors = []
    for name, tensor in (("src", "src"), ("wei", "weights")):
        zero_point, scale = zero_point_of(case, name, values), scale_of(case, name, values)
        # A copy of large weights that nothing changes is a copy too many.
        moved = values[tensor]
        moved = moved if isinstance(zero_point, float) and not zero_point else moved - zero_point
        factors.append(moved if isinstance(scale, float) and scale == 1.0 else moved * scale)
    return product(*factors)


def invalid_attributes(case: Case, dst_type: str, *, shifts_floats: bool = False) -> Iterator[str]:
    """Why attributes make no sense with a result of this type; `shifts_floats`: floats have zero points."""
    dst = DataType.parse(dst_type)
    for factor in case.attr_zero_points:
        if factor.arg == "dst" and not dst.is_integral and not shifts_floats:
            yield f"Invalid case: zero points of dst, which is {dst}"
    for op in case.attr_post_ops:
        kind = op.fields[2] if op.kind == "sum" and len(op.fields) > 2 else dst_type
        if bits_of(kind) != dst.bits:
            yield f"Invalid case: {op} reads {dst} as a type of another size"


# --- convolutions and inner products ------------------------------------------------------------------------

# By propagation the tensors of a step, what is written last; the bias where there is one.
_STEPS: dict[str, tuple[str, ...]] = {
    "forward": ("src", "weights", "bias", "dst"),
    "backward_data": ("weights", "diff_dst", "diff_src"),
    "backward_weights": ("src", "diff_dst", "diff_weights", "diff_bias"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductCase(Case):
    """The common part of convolutions and inner products."""

    dir: Annotated[str, caseless("FWD_D", "FWD_B", "FWD_I", "BWD_D", "BWD_W", "BWD_WB")] = "FWD_B"
    dt: knobs.ThreeTypes = knobs.F32_THRICE
    bia_dt: knobs.TypeName = "undef"
    stag: knobs.Tag = "any"
    wtag: knobs.Tag = "any"
    dtag: knobs.Tag = "any"
    strides: knobs.ProductStrides = knobs.NO_STRIDES_OF_THREE
    alg: str = "direct"
    mb: knobs.Count = 0

    @property
    def src_dims(self) -> Dims:
        """The dims of the source."""
        raise NotImplementedError

    @property
    def weight_dims(self) -> Dims:
        """The dims of the weights."""
        raise NotImplementedError

    @property
    def terms(self) -> int:
        """The largest number of products in a sum of this direction."""
        raise NotImplementedError

    def product(self, first: Array, second: Array) -> Array:
        """By direction, sums of source times weights, of result times weights, or of source times result."""
        raise NotImplementedError

    def finish(self, total: Array, values: Values) -> Array:
        """Apply bias and attributes to sums."""
        return finished(self, total, values)

    @property
    def zeros(self) -> float:
        """The percentage of a result that may be zero."""
        return 70.0

    @property
    def propagation(self) -> str:
        if self.dir.startswith("FWD"):
            return "forward"
        return "backward_data" if self.dir == "BWD_D" else "backward_weights"

    @property
    def bias_type(self) -> str:
        """The type of the bias, undef for none; with a direction that names a bias, f32, or f64 of f64."""
        if self.dir in ("FWD_B", "BWD_WB"):
            return "f64" if self.dt[1] == "f64" else "f32"
        return self.bia_dt

    @property
    def types(self) -> tuple[str, ...]:
        return (*self.dt, *({self.bias_type} - {"undef"}))

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        formats = self.strides.formats(self.stag, self.wtag, self.dtag)
        every = zip((self.src_dims, self.weight_dims, self.dims), self.dt, formats, strict=True)
        named = zip(("src", "weights", "dst"), every, strict=True)
        mds = {name: rs.MemoryDesc(*each) for name, each in named}
        if self.bias_type != "undef" and self.propagation != "backward_data":
            mds["bias"] = rs.MemoryDesc(self.dims[1:2], self.bias_type, "a")
        names = _STEPS["forward" if is_forward else self.propagation]
        return {name: mds[short] for name in names if (short := name.removeprefix("diff_")) in mds}

    def values(self, name: str) -> Array:
        short = name.removeprefix("diff_")
        return numbers(self.tensors(self.is_forward)[name], self.terms, _SEEDS[short])

    def attr_dims(self, arg: str) -> Dims:
        return {"src": self.src_dims, "wei": self.weight_dims}.get(arg, self.dims)

    def attr_mask(self, factor: FactorText) -> int:
        """Outputs are the first dims of weights."""
        ndims = len(self.attr_dims(factor.arg))
        if not factor.arg.endswith("wei") or factor.policy not in ("per_oc", "per_ocic"):
            return factor.mask(ndims)
        outputs = 2 if ndims > len(self.src_dims) else 1
        return (1 << outputs + (factor.policy == "per_ocic")) - 1

    def formula(self, values: Values) -> Values:
        """Sums of products with the bias, or gradients."""
        if self.is_forward:
            bias = values["bias"].reshape(-1, *[1] * (len(self.dims) - 2)) if "bias" in values else 0.0
            return {"dst": self.finish(np.asarray(sums_of(self, values, self.product) + bias), values)}
        gradient = values["diff_dst"]
        if self.propagation == "backward_data":
            return {"diff_src": self.product(gradient, values["weights"])}
        bias = gradient.sum((0, *range(2, gradient.ndim)))
        return {"diff_weights": self.product(values["src"], gradient), "diff_bias": bias}

    def tolerance(self, name: str) -> Tolerance:
        """Sums are exact: what is left is the rounding of the result, and of post-ops."""
        return Tolerance(0.0, 70.0 if name == "diff_bias" else self.zeros)

    def invalid(self) -> Iterator[str]:
        yield from self.strides.why_invalid(src=self.stag, wei=self.wtag, dst=self.dtag)
        yield from invalid_attributes(self, self.dt[2])
        yield from why_no_gradient(self, *self.dt)


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerProductCase(ProductCase):
    """An inner product: `--ip --dir=FWD_B --dt=bf16 mb16ic240oc4096`, with spatial dims `ic64ih7oc1000`.
    `inputs` are the channels and the spatial dims of the source.
    """

    driver: ClassVar[str] = "ip"
    primitive: ClassVar[str] = "InnerProduct"
    template: ClassVar[str] = "%dir%,%dt%,%stag%,%dtag%,%DESC%"

    inputs: Dims = ()

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """Batch, inputs and outputs."""
        problem = parse_lettered(text, ("mb", "ic", "oc", "id", "ih", "iw"))
        inputs, outputs = problem.whole("ic"), problem.whole("oc")
        if not inputs or not outputs:
            raise wrong("the problem", text, "ic and oc are needed", "mb16ic240oc4096")
        dims = problem.whole("mb", 2), outputs
        return {**problem.written, "dims": dims, "inputs": (inputs, *problem.each("i"))}

    @property
    def src_dims(self) -> Dims:
        return (self.dims[0], *self.inputs)

    @property
    def weight_dims(self) -> Dims:
        return (self.dims[1], *self.inputs)

    @property
    def terms(self) -> int:
        every = {"forward": prod(self.inputs), "backward_data": self.dims[1]}
        return every.get(self.propagation, self.dims[0])

    def product(self, first: Array, second: Array) -> Array:
        """Products of matrices: inputs are one dim."""
        a, b = (x.reshape(len(x), -1) for x in (first, second))
        if self.is_forward:
            return a @ b.T
        if self.propagation == "backward_data":
            return (a @ b).reshape(self.src_dims)
        return (b.T @ a).reshape(self.weight_dims)


_ALGORITHMS = ("direct", "auto", "wino")
_NAMES = {f"{kind}_{alg}": alg for kind in ("convolution", "deconvolution") for alg in _ALGORITHMS}
_WINOGRAD_ERROR = 3e-5
_DEPTHWISE = {"weights": rs.onednn.Arg.WEIGHTS, "bias": rs.onednn.Arg.BIAS}
_WINDOWS = ("strides", "dilates", "padding_l", "padding_r")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvCase(ProductCase):
    """A convolution: `--conv --dir=FWD_B --dt=bf16 g2ic16oc32_ih14oh14kh3ph1`. `source` are the spatial dims
    of the source; `groups` is 0 where none are written.
    """

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
        problem = parse_lettered(text, ("g", "mb", "ic", "oc", *LETTERS_OF_WINDOWS))
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
        return (self.dims[0], self.channels, *self.source)

    @property
    def weight_dims(self) -> Dims:
        count = max(self.groups, 1)
        dims = (self.dims[1] // count, self.channels // count, *self.kernel)
        return (self.groups, *dims) if self.groups else dims

    @property
    def terms(self) -> int:
        if self.propagation == "backward_weights":
            return self.dims[0] * prod(self.window_sizes[0])
        channels = self.channels if self.is_forward else self.dims[1]
        behind = self.fused
        most = _LARGEST * prod(behind.kernel) if behind is not None else 1
        return channels // max(self.groups, 1) * prod(self.kernel) * most

    @property
    def zeros(self) -> float:
        """The percentage of a result that may be zero: more where windows leave gaps."""
        return 100 - 30 / prod(self.window_strides)

    @property
    def window_sizes(self) -> tuple[Dims, Dims]:
        """The spatial dims of the tensor with a point for each window, and of that under windows."""
        return self.dims[2:], self.source

    @property
    def windows(self) -> tuple[Dims, ...]:
        """The numbers that a descriptor takes, in its order."""
        numbers = self.window_strides, self.dilation, self.padding
        return (*numbers, padding_behind(*self.window_sizes, self.kernel, *numbers))

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        name = self.alg.replace("wino", "winograd")
        return {"algorithm": f"{self.prefix}_{name}", **dict(zip(_WINDOWS, self.windows, strict=True))}

    @property
    def reason_against_winograd(self) -> str:
        """Why the case has no Winograd's algorithm; empty where it has."""
        if self.driver == "deconv" or not self.is_forward:
            return "only convolutions forward have it"
        if self.groups > 1 or len(self.kernel) > 2 or set(self.kernel) not in ({3}, {5}):
            return "kernels are of 3 or 5 taps in one or two dims, without groups"
        if {*self.window_strides, *(n + 1 for n in self.dilation)} != {1}:
            return "strides are 1, and dilates 0"
        return "" if set(map(str, self.dt)) == {"f32"} else "tensors are f32"

    def tolerance(self, name: str) -> Tolerance:
        """Winograd's transforms are rounded: errors are shares of the largest value."""
        own = super(ConvCase, self).tolerance(name)
        return replace(own, allows=_is_near_largest) if self.alg == "wino" else own

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
        """The index of the depthwise convolution among the post-ops; their number if there is none."""
        kinds = [op.kind for op in self.attr_post_ops]
        return kinds.index("dw") if "dw" in kinds else len(kinds)

    def writes(self) -> list[CaseOperand]:
        """Behind a depthwise convolution the result is in its own format."""
        found, behind = super(ConvCase, self).writes(), self.fused
        if behind is None or not self.is_forward:
            return found
        md = behind.tensors(True)["dst"]
        return [CaseOperand("dst", md, values=partial(numbers, md, self.terms, _SEEDS["dst"]))]

    def attr_dims(self, arg: str) -> Dims:
        behind = self.fused
        if behind is not None and arg.startswith("attr_post_op_dw"):
            return behind.weight_dims if arg.endswith("wei") else behind.dims
        return super(ConvCase, self).attr_dims(arg)

    def post_op_dims(self, index: int) -> Dims:
        behind = self.fused
        return self.dims if behind is None or index < self.fused_place else behind.dims

    def append_depthwise(self, post_ops: rs.onednn.PostOps, op: PostOpText) -> list[CaseOperand]:
        behind = self.fused
        assert behind is not None
        mds = behind.tensors(True)
        bias_type = behind.bias_type if "bias" in mds else "undef"
        post_ops.append_dw(behind.dt[1], bias_type, behind.dt[2], *op.window)
        terms = (_EXACT - 1) // _LARGEST**2
        return [
            CaseOperand(
                rs.onednn.Arg.ATTR_POST_OP_DW | arg,
                mds[name],
                values=partial(numbers, mds[name], terms, seed),
            )
            for seed, (name, arg) in enumerate(_DEPTHWISE.items(), 7)
            if name in mds
        ]

    def finish(self, total: Array, values: Values) -> Array:
        """With a depthwise convolution behind, the sums of two convolutions."""
        behind, place = self.fused, self.fused_place
        if behind is None:
            return finished(self, total, values)
        held = after_post_ops(self, total, values, range(place))
        scale, zero = scale_of(self, "dst", values), zero_point_of(self, "dst", values)
        held = rounded(held / scale + zero, DataType.parse(self.dt[2])).astype(np.float64)
        weights, bias = (values.get(rs.onednn.Arg.ATTR_POST_OP_DW | arg) for arg in _DEPTHWISE.values())
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

    def taps(self) -> Iterator[tuple[Any, Any, Any]]:
        """The places of each tap in weights, in elements under windows, and in points."""
        every, sizes = (slice(None),) * 3, (self.window_strides, self.dilation, self.padding)
        for each in taps(*self.window_sizes, self.kernel, *sizes):
            tap, window, point = ((*every, *place) for place in each)
            yield tap, window, point

    def split(self, x: Array) -> Array:
        """A tensor with its channels in groups."""
        groups = max(self.groups, 1)
        return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])

    def points(self, x: Array, weights: Array) -> Array:
        """For each window the sum of what lies under it, times the weights (groups, points, windows, …)."""
        x, (sizes, _) = self.split(x), self.window_sizes
        out = np.zeros((*x.shape[:2], weights.shape[1], *sizes))
        for tap, window, point in self.taps():
            part = out[point]
            part += (weights[tap] @ _flat(x[window])).reshape(part.shape)
        return out.reshape(len(x), out.shape[1] * out.shape[2], *sizes)

    def under(self, y: Array, weights: Array) -> Array:
        """For each element under windows the sum of the points that it is part of, times the weights."""
        y, (_, sizes) = self.split(y), self.window_sizes
        out = np.zeros((*y.shape[:2], weights.shape[2], *sizes))
        for tap, window, point in self.taps():
            part = out[window]
            part += (np.swapaxes(weights[tap], 1, 2) @ _flat(y[point])).reshape(part.shape)
        return out.reshape(len(y), out.shape[1] * out.shape[2], *sizes)

    def correlated(self, x: Array, y: Array) -> Array:
        """For each weight the sum of elements under windows times points."""
        x, y = self.split(x), self.split(y)
        out = np.zeros((y.shape[1], y.shape[2], x.shape[2], *self.kernel))
        for tap, window, point in self.taps():
            out[tap] = (_flat(y[point]) @ np.swapaxes(_flat(x[window]), 2, 3)).sum(0)
        return out

    def invalid(self) -> Iterator[str]:
        yield from super(ConvCase, self).invalid()
        if self.fused is not None:
            op, *behind = self.attr_post_ops[self.fused_place :]
            if not self.is_forward:
                yield f"Invalid case: {op} of a gradient"
            if len(self.dims) != 2 + len("hw") or any(other.kind == "dw" for other in behind):
                yield f"Case not supported: {op}, there is one in two spatial dims"
            if any(other.kind == "sum" for other in self.attr_post_ops[: self.fused_place]):
                yield f"Invalid case: a sum in front of {op}, of a result that nobody has"
        if self.alg == "wino" and self.reason_against_winograd:
            yield f"Case not supported: --alg=wino, {self.reason_against_winograd}"


def _is_near_largest(points: Points) -> Array:
    return np.asarray(points.diff <= _WINOGRAD_ERROR * np.abs(points.right).max(initial=0.0))


def _flat(x: Array) -> Array:
    return x.reshape(*x.shape[:3], math.prod(x.shape[3:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeconvCase(ConvCase):
    """A deconvolution: windows slide over its result."""

    driver: ClassVar[str] = "deconv"
    primitive: ClassVar[str] = "Deconvolution"
    takes_depthwise: ClassVar[bool] = False

    @property
    def window_sizes(self) -> tuple[Dims, Dims]:
        return self.source, self.dims[2:]

    def product(self, first: Array, second: Array) -> Array:
        """By direction, sums of points, sums of windows, or weights; their channels change places."""
        if self.propagation == "backward_weights":
            return np.swapaxes(self.correlated(second, first), 1, 2).reshape(self.weight_dims)
        weights = np.swapaxes(second.reshape(-1, *second.shape[-2 - len(self.kernel) :]), 1, 2)
        return self.under(first, weights) if self.is_forward else self.points(first, weights)


# --- products of matrices -----------------------------------------------------------------------------------

_ENCODINGS = r"((csr|coo|packed)?(\+[0-9.]+)?(:(csr|coo|packed)?(\+[0-9.]+)?){2})?"
_GROUPED = r"([01]:[0-9]{1,9}:[0-9]{1,18}(\+[0-9]{1,18})*(:[0-9]{1,18})?)?"
_NO_MASKS = Several()


def _parse_masks(knob: str, text: str) -> Several:
    return Several(parse_count(knob, part) for part in text.split(":")) if text else _NO_MASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulCase(Case):
    """A product: `--matmul --dt=u8:s8:f32 --wtag=ba --bia-dt=f32 --bia-mask=2 77x133:133x117`. `vdims` are
    those of both factors, or of all three tensors.
    """

    driver: ClassVar[str] = "matmul"
    primitive: ClassVar[str] = "Matmul"
    template: ClassVar[str] = "%dt%,%stag%,%dtag%,%DESC%"

    dt: knobs.ThreeTypes = knobs.F32_THRICE
    stag: knobs.Tag = "any"
    wtag: knobs.Tag = "any"
    dtag: knobs.Tag = "any"
    strides: knobs.ProductStrides = knobs.NO_STRIDES_OF_THREE
    encoding: Annotated[str, matching(_ENCODINGS, "it is SRC:WEI:DST of csr, coo or packed[+SPARSITY]")] = ""
    grouped: Annotated[str, matching(_GROUPED, "it is DIM:COUNT:SIZE+SIZE…[:LARGEST]")] = ""
    runtime_dims_masks: Annotated[Several, Knob(_parse_masks)] = _NO_MASKS
    bia_dt: knobs.TypeName = "undef"
    bia_mask: knobs.Count = 2

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of the factors, and of the result."""
        problem = parse_several_dims(text)
        first, *others = problem["vdims"]
        if not others or len(first) < 2:
            raise wrong("the problem", text, "it has two factors of 2 dims or more", "77x133:133x117")
        batch = (max(sizes) for sizes in zip(first[:-2], others[0][:-2], strict=True))
        return {**problem, "dims": others[1] if others[1:] else (*batch, first[-2], others[0][-1])}

    @property
    def types(self) -> tuple[str, ...]:
        return (*self.dt, *([] if self.bia_dt == "undef" else [self.bia_dt]))

    @property
    def formats(self) -> tuple[Any, ...]:
        """Tags or strides of source, weights and result."""
        return self.strides.formats(self.stag, self.wtag, self.dtag)

    def attr_dims(self, arg: str) -> Dims:
        return {"src": self.vdims[0], "wei": self.vdims[1]}.get(arg, self.dims)

    def attr_mask(self, factor: FactorText) -> int:
        """Columns are the last dim, rows the one before."""
        columns = 1 << len(self.dims) - 1
        masks = {"per_oc": columns, "per_ocic": columns | columns >> 1}
        return masks.get(factor.policy, factor.mask(len(self.dims)))

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        return self.mds((0,) * 4)

    def mds(self, masks: Sequence[int]) -> dict[str, rs.MemoryDesc]:
        """All tensors, the dims of each that are in its mask left to the execution."""
        bias = [n if self.bia_mask >> i & 1 else 1 for i, n in enumerate(self.dims)]
        every = zip((*self.vdims[:2], self.dims, bias), masks, strict=True)
        dims = [
            [rs.onednn.RUNTIME_DIM if mask >> i & 1 else n for i, n in enumerate(each)]
            for each, mask in every
        ]
        named = zip(("src", "weights", "dst", "bias"), dims, self.types, (*self.formats, "abx"), strict=False)
        return {name: rs.MemoryDesc(*each) for name, *each in named}

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """For each tensor the dims that are left to the execution follow from those of the factors."""
        of_src, of_weights = (*self.runtime_dims_masks, 0, 0)[:2]
        columns = 1 << len(self.dims) - 1
        batch = (1 << len(self.dims) - 2) - 1
        of_dst = (of_src | of_weights) & batch | of_src & columns >> 1 | of_weights & columns
        return {**self.mds((of_src, of_weights, of_dst, of_dst & self.bia_mask))}

    def values(self, name: str) -> Array:
        return numbers(self.tensors(True)[name], 1 if name == "bias" else self.vdims[0][-1], _SEEDS[name])

    def formula(self, values: Values) -> Values:
        def product(a: Array, b: Array) -> Array:
            # Of matrices that lie otherwise NumPy makes no call of BLAS.
            return np.asarray(np.matmul(np.ascontiguousarray(a), np.ascontiguousarray(b)))

        total = sums_of(self, values, product) + values.get("bias", 0.0)
        return {"dst": finished(self, np.asarray(total), values)}

    def tolerance(self, name: str) -> Tolerance:
        """Sums are exact: what is left is the rounding of the result, and of post-ops."""
        return Tolerance(0.0, 70.0)

    def invalid(self) -> Iterator[str]:
        for name in ("encoding", "grouped"):
            if getattr(self, name).strip(":"):
                yield f"Case not supported: --{name}={getattr(self, name)}"
                return
        if len(self.vdims) > 3:
            yield "Invalid case: there are two factors and a result"
            return
        yield from self.strides.why_invalid(src=self.stag, wei=self.wtag, dst=self.dtag)
        are_whole = all(DataType.parse(kind).is_integral for kind in self.dt[:2])
        yield from invalid_attributes(self, self.dt[2], shifts_floats=are_whole)
        source = DataType.parse(self.dt[0])
        if source.is_integral and source.bits < 8:
            yield f"Case not supported: a source of {source}; integers of 4 bits are weights alone"
        src, weights = self.vdims[:2]
        if src[-1] != weights[-2]:
            yield f"Invalid case: {src[-1]} columns times {weights[-2]} rows"
        if any(a != b and 1 not in (a, b) for a, b in zip(src[:-2], weights[:-2], strict=True)):
            yield "Invalid case: batch dims that differ, and are not 1"
        if self.bia_dt != "undef" and self.bia_mask >> len(self.dims):
            yield f"Invalid case: the mask {self.bia_mask} of the bias names dims that are not there"
        if any(self.runtime_dims_masks) and "any" in self.formats:
            yield "Invalid case: dims that are known only at execution, and a tag that is any"
        for factor in (*self.attr_scales, *self.attr_zero_points):
            if factor.arg in ("src", "wei") and factor.groups:
                dims = self.attr_dims(factor.arg)[-len(factor.groups) :]
                if any(n % size for n, size in zip(dims, factor.groups, strict=True)):
                    yield f"Invalid case: groups of {factor} do not divide {self.desc}"
