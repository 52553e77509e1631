"""Functions of elements and folds: `--eltwise`, `--binary`, `--prelu`, `--softmax`, `--reduction`."""
# ruff: noqa: D102 (what every operation says, its base class explains)

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType
from restride.ir.conversion import INTEGER_LIMITS

from .. import fill, knobs
from ..attr_text import BINARY_NAMES, ELTWISE_NAMES, OF_DST
from ..cases import Case, why_no_gradient, why_not_in_place
from ..compare import COMPARISONS, Points, Tolerance, epsilon
from ..fill import Array, eltwise_values, rounded, whole_numbers
from ..formulas import BINARY, eltwise, eltwise_gradient, erf, finished, scale_of
from ..knobs import Strides, caseless
from ..operands import Values, arg_of, desc_of
from ..problems import parse_several_dims

# --- eltwise ------------------------------------------------------------------------------------------------

_FUNCTIONS = {spelled: alg for spelled, alg in ELTWISE_NAMES.items() if alg != "nan_to_zero"}
_ROUGHER = ("gelu_tanh", "elu", "swish", "tanh", "soft_relu", "mish", "log")
_ROUGHER_FORWARD = ("elu_dst", "tanh_dst")
_GIVING_NAN = ("exp", "exp_dst", "log", "pow", "sqrt", "sqrt_dst", "square")


@dataclass(frozen=True, slots=True, kw_only=True)
class EltwiseCase(Case):
    """A function of every element: `--eltwise --dir=BWD_D --alg=relu --alpha=0.5 2x17x5x3`. Its gradient is
    found from the source, or of some functions from the result.
    """

    driver: ClassVar[str] = "eltwise"
    primitive: ClassVar[str] = "Eltwise"
    template: ClassVar[str] = "%dir%,%dt%,%tag%,%alg%,%DESC%"

    dir: knobs.Inference = "FWD_D"
    dt: knobs.TypeName = "f32"
    tag: knobs.Tag = "abx"
    alg: Annotated[str, caseless(*dict.fromkeys(_FUNCTIONS.values()), also=_FUNCTIONS)] = "relu"
    alpha: knobs.Real = 0.0
    beta: knobs.Real = 0.0
    mb: knobs.Count = 0
    inplace: knobs.Flag = False

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        known, like = rs.MemoryDesc(self.dims, self.dt, self.tag), desc_of(self.dims, self.dt)
        if is_forward:
            return {"src": known, "dst": like}
        return {"dst" if self.alg in OF_DST else "src": known, "diff_dst": like, "diff_src": like}

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        how = {"algorithm": OF_DST.get(self.alg, self.alg), "alpha": self.alpha, "beta": self.beta}
        return how if is_forward else {**how, "data": next(iter(self.tensors(False).values()))}

    def values(self, name: str) -> Array:
        is_result = name == "dst" and not self.is_forward
        seed = 1 if is_result else {"dst": 2, "diff_dst": 3}.get(name, 1)
        numbers = self.alpha, self.beta
        found = eltwise_values(self.dims, DataType.parse(self.dt), *numbers, self.alg == "log", seed)
        return eltwise(self.alg, found, *numbers) if is_result else found

    def formula(self, values: Values) -> Values:
        numbers = self.alpha, self.beta
        if not self.is_forward:
            data = values["dst" if self.alg in OF_DST else "src"]
            with np.errstate(all="ignore"):
                return {"diff_src": values["diff_dst"] * eltwise_gradient(self.alg, data, *numbers)}
        result = eltwise(self.alg, values["src"], *numbers)
        with np.errstate(over="ignore"):
            # What is larger than an f32 holds is infinite, and stays so: times 0 it is NaN.
            is_over = np.isinf(result.astype(np.float64 if self.dt == "f64" else np.float32))
        return {"dst": finished(self, np.where(is_over, np.copysign(np.inf, result), result), values)}

    def tolerance(self, name: str) -> Tolerance:
        """More where functions cancel."""
        data_type, is_wide = DataType.parse(self.dt), self.dt in ("f32", "f64")
        threshold = 4e-6 if is_wide else epsilon(data_type)
        if is_wide and (self.alg in _ROUGHER or (self.is_forward and self.alg in _ROUGHER_FORWARD)):
            threshold = 4e-5
        is_flat = (
            data_type.is_integral
            or (self.alg == "linear" and self.alpha == 0)
            or (self.alg.startswith("clip") and (not self.is_forward or self.alpha == self.beta == 0))
            or (self.alg == "pow" and (self.alpha == 0 or (not self.is_forward and self.beta == 0)))
        )
        allows = partial(self.is_near, threshold)
        return Tolerance(threshold, 100.0 if is_flat else 65.0, self.alg in _GIVING_NAN, allows)

    def is_near(self, threshold: float, points: Points) -> Array:
        """True where a formula cancels, and the absolute difference is small."""
        if not threshold:
            return np.zeros(points.index.shape, np.bool_)
        is_small, limit = points.diff <= threshold, 2 * epsilon(DataType.f32) / threshold
        if any(op.kind == "binary" for op in self.attr_post_ops):
            return np.asarray(is_small)
        size = (_CANCELLING if self.is_forward else _CANCELLING_GRADIENTS).get(self.alg, _never)
        read = self.values(next(iter(self.tensors(self.is_forward)))).reshape(-1)[points.index]
        with np.errstate(all="ignore"):
            return np.asarray((size(read, self.alpha) <= limit) & is_small)

    def invalid(self) -> Iterator[str]:
        if self.alg.startswith("clip") and self.beta < self.alpha:
            yield "Invalid case: a clip to an empty range"
        if self.alg in ("elu_dst", "relu_dst") and self.alpha < 0:
            yield f"Invalid case: {self.alg} with a slope below 0"
        if self.alg == "round" and not self.is_forward:
            yield "Invalid case: round has no gradient"
        if self.inplace and not self.is_forward and self.alg not in OF_DST:
            yield "Invalid case: in place forward, and the source is needed backward"
        if self.inplace:
            yield from why_not_in_place((self.dt, self.tag), (self.dt, "any"))


Cancelling = Callable[[Array, float], Array]
_ROOT = math.sqrt(2 / math.pi)


def _never(s: Array, alpha: float) -> Array:
    return np.full(s.shape, np.inf)


def _below_zero(s: Array, size: Array) -> Array:
    return np.where(np.signbit(s), size, np.inf)


def _gelu_tanh_gradient(s: Array, alpha: float) -> Array:
    v = np.tanh(_ROOT * s * (1 + 0.044715 * s * s))
    at_root = np.abs(1 + s * (1 - v) * _ROOT * (1 + 3 * 0.044715 * s * s)) / 4
    return np.asarray(np.fmin(np.abs(1 + v), _below_zero(s, at_root)))


# How near to 0 is what cancels in a function.
_CANCELLING: dict[str, Cancelling] = {
    "elu": lambda s, alpha: _below_zero(s, np.abs(np.expm1(s))),
    "elu_dst": lambda s, alpha: _below_zero(s, np.abs(np.expm1(s))),
    "gelu_tanh": lambda s, alpha: np.abs(1 + np.tanh(_ROOT * s * (1 + 0.044715 * s * s))),
    "gelu_erf": lambda s, alpha: np.abs(1 + erf(s / math.sqrt(2))),
    "soft_relu": lambda s, alpha: _below_zero(alpha * s, np.log1p(np.exp(alpha * s)) / 10),
    "mish": lambda s, alpha: _below_zero(s, s * np.tanh(np.logaddexp(0, s)) / 10),
}
_CANCELLING_GRADIENTS: dict[str, Cancelling] = {
    "gelu_tanh": _gelu_tanh_gradient,
    "gelu_erf": lambda s, alpha: (
        np.abs(1 + erf(s / math.sqrt(2)) + s * math.sqrt(2 / math.pi) * np.exp(-s * s / 2)) / 2
    ),
    "tanh": lambda s, alpha: 1 - np.tanh(np.abs(s)),
    "tanh_dst": lambda d, alpha: 1 - d * d,
    "logistic": lambda s, alpha: np.where(np.signbit(s), np.inf, 1 / (1 + np.exp(s))),
    "logistic_dst": lambda d, alpha: np.minimum(1 - d, d),
    "swish": lambda s, alpha: alpha * s * (1 - 1 / (1 + np.exp(-alpha * s))),
}


# --- two tensors --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryCase(Case):
    """An operation of two tensors: `--binary --alg=MUL --sdt=s8:f32 --ddt=s8 3x5x6:1x5x6`. The condition of a
    select lies as the first source does.
    """

    driver: ClassVar[str] = "binary"
    primitive: ClassVar[str] = "Binary"
    template: ClassVar[str] = "%sdt%,%ddt%,%stag%,%dtag%,%alg%,%DESC%"
    argument_names: ClassVar[Mapping[str, str]] = {f"src_{i}": f"src{i}" for i in range(3)}

    sdt: knobs.TwoTypes = knobs.F32_TWICE
    ddt: knobs.TypeName = "f32"
    stag: knobs.TwoTags = knobs.FOLLOWING
    dtag: knobs.Tag = "any"
    strides: Annotated[Strides, knobs.strides("SRC0", "SRC1", "DST")] = knobs.NO_STRIDES_OF_THREE
    alg: Annotated[str, caseless(also={spelled: name.upper() for spelled, name in BINARY_NAMES.items()})] = (
        "ADD"
    )
    inplace: knobs.Flag = False

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        return parse_several_dims(text)

    @property
    def formats(self) -> tuple[Any, ...]:
        """Tags or strides of both sources and of the result."""
        return self.strides.formats(*self.stag, self.dtag)

    @property
    def operation(self) -> str:
        """The algorithm in small letters."""
        return self.alg.lower()

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        every = list(zip(self.vdims, self.sdt, self.formats, strict=False))
        if self.operation == "select":
            every.append((self.vdims[0], "s8", self.formats[0]))
        srcs = {f"src_{i}": rs.MemoryDesc(*each) for i, each in enumerate(every)}
        return {**srcs, "dst": rs.MemoryDesc(self.dims, self.ddt, self.formats[-1])}

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        return {"algorithm": f"binary_{self.operation}"}

    def values(self, name: str) -> Array:
        """Whole numbers about 0; of the first source halves, of the second none that is 0."""
        md = self.tensors(True)[name]
        low = 0 if name == "src_2" else max(-8, INTEGER_LIMITS.get(md.data_type, (-8, 8))[0])
        values = whole_numbers(md.dims, low, 8, seed=7 * arg_of(name))
        if name == "src_0":
            return values * 0.5
        return np.where(values == 0, 1.0, values) if name == "src_1" else values

    def formula(self, values: Values) -> Values:
        first = values["src_0"] * scale_of(self, "src", values)
        second = values["src_1"] * scale_of(self, "src1", values)
        with np.errstate(all="ignore"):
            if self.operation == "select":
                result = np.where(values["src_2"] != 0, first, second)
            else:
                result = BINARY[self.operation](first, second)
        return {"dst": finished(self, np.asarray(result), values)}

    def tolerance(self, name: str) -> Tolerance:
        """A rounding; of quotients the last place."""
        step, is_quotient = epsilon(DataType.parse(self.ddt)), self.operation == "div"
        names = (self.operation, *(op.name for op in self.attr_post_ops))
        zeros = 99.0 if any(name in COMPARISONS for name in names) else 30.0
        return Tolerance(step, zeros, allows=lambda points: is_quotient & (points.diff < step))

    def invalid(self) -> Iterator[str]:
        if len(self.vdims) != 2 or len(self.sdt) != 2 or len(self.stag) != 2:
            yield "Invalid case: there are two sources"
            return
        yield from self.strides.why_invalid(src0=self.stag[0], src1=self.stag[1], dst=self.dtag)
        is_repeated = any(n == 1 != of for n, of in zip(*self.vdims, strict=True))
        if is_repeated and (self.inplace or self.has_sum):
            yield "Invalid case: in place of a source that is repeated"
        if self.inplace and self.has_sum:
            yield "Invalid case: in place, and the old destination is summed"
        if self.inplace:
            yield from why_not_in_place((self.sdt[0], self.formats[0]), (self.ddt, self.formats[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PReLUCase(Case):
    """Slopes below zero: `--prelu --dir=BWD_DW --sdt=bf16:f32 3x64x8:1x64x1`; one type stands for the source
    and the weights.
    """

    driver: ClassVar[str] = "prelu"
    primitive: ClassVar[str] = "PReLU"
    template: ClassVar[str] = "%dir%,%sdt%,%stag%,%DESC%"

    dir: Annotated[str, knobs.direction("FWD_D", "FWD_I", "BWD_DW")] = "FWD_D"
    sdt: knobs.TwoTypes = knobs.F32_TWICE
    stag: knobs.TwoTags = knobs.FOLLOWING

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        return parse_several_dims(text)

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        src, weights = (rs.MemoryDesc(*each) for each in zip(self.vdims, self.sdt, self.stag, strict=True))
        like, like_weights = (desc_of(md.dims, str(md.data_type)) for md in (src, weights))
        if is_forward:
            return {"src": src, "weights": weights, "dst": like}
        gradients = {"diff_dst": like, "diff_src": like, "diff_weights": like_weights}
        return {"src": src, "weights": weights, **gradients}

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        found = super(PReLUCase, self).arguments(is_forward)
        if not is_forward and found["weights"].format_kind == "any":
            found["weights"] = self.described(rs.Engine("cpu")).weights_desc()
        return found

    def values(self, name: str) -> Array:
        """Small whole numbers, powers of two for weights, sixteenths for gradients: their sums are exact."""
        md, random = self.tensors(self.is_forward)[name], np.random.default_rng(arg_of(name))
        if md.data_type.is_integral:
            values = random.integers(0, 6, md.dims).astype(np.float64)
        elif name == "weights":
            values = (64 >> random.integers(0, 7, md.dims)) / 8
        else:
            values = random.integers(0, 3, md.dims) / (16 if name == "diff_dst" else 1)
        if md.data_type is DataType.u8:
            return np.asarray(values)
        return np.where(random.random(md.dims) < 0.1, -values, values)

    def formula(self, values: Values) -> Values:
        """Slopes; and their gradients, those of weights summed where these are repeated."""
        src, weights = values["src"], values["weights"]
        if self.is_forward:
            return {"dst": np.where(src > 0, src, src * weights)}
        gradient = values["diff_dst"]
        repeated = tuple(dim for dim, (n, of) in enumerate(zip(*self.vdims, strict=True)) if n != of)
        terms = np.where(src > 0, 0.0, src * gradient)
        return {
            "diff_src": np.where(src > 0, gradient, gradient * weights),
            "diff_weights": terms.sum(repeated, keepdims=True),
        }

    def tolerance(self, name: str) -> Tolerance:
        is_sum = name == "diff_weights"
        return Tolerance(2 * epsilon(DataType.parse(self.sdt[is_sum])), 99.0 if is_sum else 50.0)

    def invalid(self) -> Iterator[str]:
        if len(self.vdims) != 2 or len(self.sdt) != 2 or len(self.stag) != 2:
            yield "Invalid case: there are a source and weights"


# --- softmax ------------------------------------------------------------------------------------------------

_SOFTMAX = {
    "SOFTMAX": "softmax_accurate",
    "LOGSOFTMAX": "softmax_log",
    "SOFTMAX_INF_AS_ZERO": "softmax_accurate_inf_as_zero",
}
_TOPS = ((1, 2), (2, 5), (5, 8))
_TOPS_OF_BYTES = ((1, 1), (1, 1), (0, 4))
_LARGE = 88  # an f32 holds no exp of more
_CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxCase(Case):
    """A softmax along an axis: `--softmax --dir=BWD_D --alg=LOGSOFTMAX --axis=1 2x19x16x64`."""

    driver: ClassVar[str] = "softmax"
    primitive: ClassVar[str] = "Softmax"
    template: ClassVar[str] = "%dir%,%sdt%,%ddt%,%stag%,%dtag%,%alg%,%axis%,%DESC%"

    dir: knobs.Inference = "FWD_D"
    sdt: knobs.TypeName = "f32"
    ddt: knobs.TypeName = "f32"
    stag: knobs.Tag = "abx"
    dtag: knobs.Tag = "any"
    alg: Annotated[str, caseless(*_SOFTMAX, also={name: alg for alg, name in _SOFTMAX.items()})] = "SOFTMAX"
    axis: knobs.Axis = 1
    mb: knobs.Count = 0
    inplace: knobs.Flag = False

    @property
    def is_log(self) -> bool:
        """True for the logarithm."""
        return self.alg == "LOGSOFTMAX"

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        """Backward the tag of the source is that of the result."""
        dst = rs.MemoryDesc(self.dims, self.ddt, self.dtag if self.is_forward else self.stag)
        if is_forward:
            return {"src": rs.MemoryDesc(self.dims, self.sdt, self.stag), "dst": dst}
        return {
            "dst": dst,
            "diff_dst": desc_of(self.dims, self.ddt),
            "diff_src": desc_of(self.dims, self.sdt),
        }

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        return {"algorithm": _SOFTMAX[self.alg], "axis": self.axis}

    def values(self, name: str) -> Array:
        """Backward one of both is negative, so that nothing cancels; of a logarithm the other."""
        if self.is_forward:
            return self.source() if name == "src" else whole_numbers(self.dims, -8, 8, 2)
        is_gradient = name == "diff_dst"
        is_negative = is_gradient == self.is_log
        span = 128 if is_negative and self.ddt != "f16" else 8
        values = (11.0 * np.arange(prod(self.dims)) + 37 + 19 * is_negative) % span
        return (values * (-1 if is_negative else 1) / (1 if is_gradient else span)).reshape(self.dims)

    def source(self) -> Array:
        """A few large numbers in each row, one or two of them a little larger, and almost nothing else.

        All are positive or all negative; what is left of a row are few different results, none near another.
        """
        outer, size = prod(self.dims[: self.axis]), self.dims[self.axis]
        inner = prod(self.dims[self.axis + 1 :])
        random, rows = np.random.default_rng(1), outer * inner
        kinds = DataType.parse(self.sdt), DataType.parse(self.ddt)
        ranges = _TOPS_OF_BYTES if kinds[1].bits == 8 else _TOPS
        counts = np.stack([random.integers(low, high, rows, endpoint=True) for low, high in ranges])
        ends = np.minimum(np.cumsum(counts, 0), size)
        starts = random.integers(0, size - ends[-1], endpoint=True)
        chunks = np.repeat(np.arange(outer) // _CHUNK, inner)
        sign = np.where((chunks % 2 == 1) & (kinds[0] is not DataType.u8), -1, 1)
        places = np.arange(size)[:, None] - starts
        rank = (places >= ends[:, None]).sum(0)
        lowest = max(fill.limits(kind)[0] for kind in kinds)
        values = np.where((places >= 0) & (rank < 3), sign * _LARGE + 2 - rank, lowest)
        values = rounded(values.reshape(size, outer, inner).swapaxes(0, 1).astype(np.float64), kinds[0])
        return np.asarray(values.astype(np.float64).reshape(self.dims))

    def formula(self, values: Values) -> Values:
        if self.is_forward:
            shifted = values["src"] - values["src"].max(self.axis, keepdims=True)
            total = np.exp(shifted).sum(self.axis, keepdims=True)
            y = shifted - np.log(total) if self.is_log else np.exp(shifted) / total
            return {"dst": finished(self, np.asarray(y * scale_of(self, "src", values)), values)}
        y, dy = values["dst"], values["diff_dst"]
        if self.is_log:
            return {"diff_src": dy - np.exp(y) * dy.sum(self.axis, keepdims=True)}
        return {"diff_src": y * (dy - (y * dy).sum(self.axis, keepdims=True))}

    def tolerance(self, name: str) -> Tolerance:
        """Floats of 16 bits are exact, unless accumulation is relaxed. A logarithm is five times, a gradient
        four times as rough.
        """
        kind = self.ddt if self.is_forward else self.sdt
        is_wide, step = kind in ("f32", "f64"), max(epsilon(DataType.parse(kind)), epsilon(DataType.f32))
        is_relaxed = kind in ("f16", "bf16") and self.attr_acc_mode not in ("strict", "f32")
        rough = (5 if self.is_log else 1) * (1 if self.is_forward else 4) * (10 if is_wide else 1)
        size, is_integral = self.dims[self.axis], DataType.parse(self.ddt).is_integral
        zeros = 100 * (size - 1 if is_integral else max(0, size - 8)) / max(size, 1)
        if self.is_log and (size == 1 or self.ddt == "u8"):
            zeros = 100
        return Tolerance(
            rough * step if is_wide or is_relaxed else 0.0,
            zeros if self.is_forward else 30.0,
            allows=lambda points: np.asarray(points.diff < epsilon(DataType.f32)),
        )

    def invalid(self) -> Iterator[str]:
        if self.alg == "SOFTMAX_INF_AS_ZERO":
            yield f"Case not supported: --alg={self.alg}"
        if not 0 <= self.axis < len(self.dims):
            yield f"Invalid case: there is no axis {self.axis}"
        if self.inplace:
            yield from why_not_in_place((self.sdt, self.stag), (self.ddt, self.dtag))
        yield from why_no_gradient(self, self.sdt, self.ddt)


# --- reductions ---------------------------------------------------------------------------------------------

_FOLDS: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "mul": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
}
_NORMS = ("norm_lp_max", "norm_lp_sum", "norm_lp_power_p_max", "norm_lp_power_p_sum")
_REDUCTIONS = {f"reduction_{alg}": alg for alg in (*_FOLDS, *_NORMS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionCase(Case):
    """A reduction: `--reduction --alg=norm_lp_sum --p=2 --eps=0.5 5x3x2x9:1x3x2x9`."""

    driver: ClassVar[str] = "reduction"
    primitive: ClassVar[str] = "Reduction"
    template: ClassVar[str] = "%sdt%,%ddt%,%stag%,%dtag%,%alg%,%DESC%"

    sdt: knobs.TypeName = "f32"
    ddt: knobs.TypeName = "f32"
    stag: knobs.Tag = "abx"
    dtag: knobs.Tag = "any"
    alg: Annotated[str, caseless(*_REDUCTIONS.values(), also=_REDUCTIONS)] = "sum"
    p: knobs.Real = 1.0
    eps: knobs.Real = 0.0

    def __post_init__(self) -> None:
        if len(self.vdims) == 2:
            object.__setattr__(self, "dims", self.vdims[1])

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        return parse_several_dims(text)

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        src = rs.MemoryDesc(self.vdims[0], self.sdt, self.stag)
        return {"src": src, "dst": desc_of(self.dims, self.ddt, self.dtag)}

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        return {"algorithm": self.alg, "p": self.p, "eps": self.eps}

    def values(self, name: str) -> Array:
        """Small whole numbers; for products ones, and a few twos."""
        is_unsigned = DataType.parse(self.sdt).kind == "uint"
        if name == "dst":
            return whole_numbers(self.dims, 0, 4, 2)
        if self.alg != "mul":
            return whole_numbers(self.vdims[0], 0 if is_unsigned else -4, 4, 1)
        ones = np.ones(self.vdims[0])
        ones.reshape(-1)[::37] = 2
        return ones if is_unsigned else ones * np.where(whole_numbers(self.vdims[0], 0, 1, 1), 1, -1)

    def formula(self, values: Values) -> Values:
        """The fold of the dims that differ."""
        x = values["src"]
        over = tuple(i for i, (n, out) in enumerate(zip(*self.vdims, strict=True)) if n != out)
        if self.alg in _FOLDS:
            total = _FOLDS[self.alg](x, over, keepdims=True) if over else x
        else:
            total = (np.abs(x) ** self.p).sum(over, keepdims=True)
            total = np.maximum(total, self.eps) if self.alg.endswith("_max") else total + self.eps
            total = total if "power" in self.alg else total ** (1 / self.p)
        return {"dst": finished(self, np.asarray(total), values)}

    def tolerance(self, name: str) -> Tolerance:
        """A rounding; some more of norms."""
        return Tolerance((5 if self.alg in _NORMS else 1) * epsilon(DataType.parse(self.ddt)), 100.0)

    def invalid(self) -> Iterator[str]:
        if len(self.vdims) != 2:
            yield "Invalid case: there are a source and a destination"
        elif any(out not in (1, n) for n, out in zip(*self.vdims, strict=True)):
            yield "Invalid case: a dim of the destination is neither that of the source nor 1"
        if self.alg in _NORMS and self.p < 1:
            yield f"Invalid case: a norm of p {self.p:g}"
