"""Each post-op as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ..dtypes import DataType
from ..errors import refuse
from ..frozen import dataclass
from .memory_desc import MemoryDesc
from .parse import f32_bits
from .text_forms import order_tag

MAX_POST_OPS = 32
"""The maximum length of a chain."""

ELTWISE: Mapping[str, tuple[float, ...]] = {
    "abs": (),
    "clip": (),
    "clip_v2": (),
    "elu": (1.0,),
    "exp": (),
    "gelu_erf": (),
    "gelu_tanh": (),
    "hardsigmoid": (1 / 6, 0.5),
    "hardswish": (1 / 6, 0.5),
    "linear": (),
    "log": (),
    "logistic": (),
    "mish": (),
    "nan_to_zero": (),
    "pow": (),
    "relu": (),
    "round": (),
    "soft_relu": (1.0,),
    "sqrt": (),
    "square": (),
    "swish": (1.0,),
    "tanh": (),
}
"""oneDNN's eltwise algorithms by name, and nan_to_zero.

Functions that need parameters are included only where the name alone has a meaning, as in torch.
"""

_USE_DST = "_use_dst_for_bwd"
ELTWISE_OF_DST = tuple(
    alg + _USE_DST for alg in ("clip_v2", "elu", "exp", "logistic", "relu", "sqrt", "tanh")
)
"""Algorithms whose gradient is computed from the result. Forward they are the same as without the suffix."""

BINARY = ("add", "sub", "mul", "div", "min", "max", "ge", "gt", "le", "lt", "eq", "ne")
"""oneDNN's binary algorithms with one additional operand, by name."""

FIXED_POWERS = {
    -1.0: "pow_reciprocal",
    0.0: "pow_constant",
    0.5: "pow_root",
    1.0: "pow_product",
    2.0: "pow_square",
    3.0: "pow_cube",
}
"""The functions that replace pow for exponents of few operations."""

# Represents all exponents without a function of their own.
_ANY_EXPONENT = 0.25


@dataclass(frozen=True, slots=True)
class SumOp:
    """The sum post-op: dst = result + scale * (old dst - zero_point), old dst read as `data_type`.

    `scale` is an f32 value. Equality compares its bits, so -0.0 differs from 0.0 and NaN equals itself.
    """

    scale: float = field(default=1.0, compare=False)
    zero_point: int = 0
    data_type: DataType | None = None
    scale_bits: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale_bits", f32_bits(self.scale))

    def verbose_str(self) -> str:
        """Return `sum`, `sum:0.5`, or `sum:0.5:3:u8` with a zero point or a type."""
        if self.zero_point or self.data_type is not None:
            return f"sum:{self.scale:g}:{self.zero_point}:{self.data_type or ''}".rstrip(":")
        return "sum" if self.scale == 1.0 else f"sum:{self.scale:g}"


@dataclass(frozen=True, slots=True)
class EltwiseOp:
    """An elementwise function of the result: result = scale * alg(result; alpha, beta).

    `alg` is one of ELTWISE or ELTWISE_OF_DST. The numbers are f32 values. Equality compares their bits.
    """

    alg: str
    alpha: float = field(compare=False)
    beta: float = field(compare=False)
    scale: float = field(compare=False)
    bits: tuple[int, int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        bits = (f32_bits(self.alpha), f32_bits(self.beta), f32_bits(self.scale))
        object.__setattr__(self, "bits", bits)

    @property
    def is_of_dst(self) -> bool:
        """True if the gradient is computed from the result."""
        return self.alg.endswith(_USE_DST)

    @property
    def function(self) -> str:
        """The forward function of a kernel: for a pow with an exponent in `FIXED_POWERS` its replacement, and
        "silu" for a swish whose alpha is 1.
        """
        if self.alg == "swish" and self.alpha == 1.0:
            return "silu"
        if self.alg == "pow":
            return FIXED_POWERS.get(self.beta, self.alg)
        return self.alg.removesuffix(_USE_DST)

    def structure(self) -> EltwiseOp:
        """The operation with placeholders for the numbers that a kernel reads: equal for one `function`."""
        beta = self.beta if self.function in FIXED_POWERS.values() else _ANY_EXPONENT
        return EltwiseOp(self.alg, float(self.function == "silu"), beta, 1.0)

    def verbose_str(self) -> str:
        """Return `eltwise_relu`, with alpha, beta and scale up to the last that is not the default."""
        texts = [f"{value:g}" for value in (self.alpha, self.beta, self.scale)]
        defaults = ("0", "0", "1")
        while texts and texts[-1] == defaults[len(texts) - 1]:
            texts.pop()
        return ":".join((f"eltwise_{self.alg}", *texts))


@dataclass(frozen=True, slots=True)
class BinaryOp:
    """The result combined with another tensor: result = alg(result, other).

    `alg` is one of BINARY. `desc` has the rank of dst; dims of 1 are broadcast.
    """

    alg: str
    desc: MemoryDesc

    def verbose_str(self) -> str:
        """Return `binary_add:f32:2:abcd`: type, mask of the dims that are not broadcast, tag."""
        mask = sum(1 << i for i, n in enumerate(self.desc.dims) if n != 1)
        return f"binary_{self.alg}:{self.desc.data_type}:{mask}:{order_tag(self.desc.layout)}"


@dataclass(frozen=True, slots=True)
class PReLUOp:
    """Multiplies non-positive results by a weight: one for each index of the dims in `mask`."""

    mask: int

    def verbose_str(self) -> str:
        """Return `prelu:2`: the mask."""
        return f"prelu:{self.mask}"


@dataclass(frozen=True, slots=True)
class DepthwiseOp:
    """A depthwise convolution of the result, in two spatial dims: its types, and one number for both.

    `bias_type` is undef if there is no bias.
    """

    weights_type: DataType
    bias_type: DataType
    dst_type: DataType
    kernel: int
    stride: int
    padding: int

    def verbose_str(self) -> str:
        """Return `dw:k3s1p1:f32`."""
        return f"dw:k{self.kernel}s{self.stride}p{self.padding}:{self.dst_type}"


PostOp = SumOp | EltwiseOp | BinaryOp | PReLUOp | DepthwiseOp


def chain_str(entries: Sequence[PostOp]) -> str:
    """Return a chain for a verbose line: `sum:0.5+eltwise_relu`."""
    return "+".join(entry.verbose_str() for entry in entries)


def check_eltwise(op: EltwiseOp, call: str = "append_eltwise") -> None:
    """Raise InvalidArguments for a clip to an empty range, and for a result that loses the source's sign."""
    if op.is_of_dst and op.function in ("relu", "elu") and not op.alpha >= 0:
        raise refuse("RS-P06:eltwise-alpha", call=call, op=op)
    if op.function not in ("clip", "clip_v2") or op.alpha <= op.beta:
        return
    raise refuse("RS-P06:empty-range", call=call, op=op)


def check_depthwise(op: DepthwiseOp) -> None:
    """Raise InvalidArguments unless there is a window and the padding is smaller than the kernel."""
    if DataType.undef in (op.weights_type, op.dst_type):
        raise refuse("RS-P06:type-undef")
    if op.kernel < 1 or op.stride < 1 or not 0 <= op.padding < op.kernel:
        raise refuse("RS-P06:kernel-stride-padding", op=op)
