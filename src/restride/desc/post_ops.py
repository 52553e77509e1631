"""Post-ops: operations applied to a result before it is stored (N13)."""

from __future__ import annotations

from typing import Any, TypeVar

from ..dtypes import DataType
from ..errors import refuse
from ..foreign import plain_text
from .algorithm import Algorithm
from .memory_desc import MemoryDesc
from .parse import one_of, parse_int, short_repr, to_f32
from .post_op_values import (
    BINARY,
    ELTWISE,
    ELTWISE_OF_DST,
    MAX_POST_OPS,
    BinaryOp,
    DepthwiseOp,
    EltwiseOp,
    PostOp,
    PReLUOp,
    SumOp,
    chain_str,
    check_depthwise,
    check_eltwise,
)
from .tags import MAX_NDIMS

_OTHER_WORDS = {
    "silu": "swish",
    "gelu": "gelu_erf",
    "sigmoid": "logistic",
    "softplus": "soft_relu",
    "leaky_relu": "relu",
    "relu6": "clip",
    "clamp": "clip",
    "hard_swish": "hardswish",
    "hard_sigmoid": "hardsigmoid",
    "power": "pow",
    "multiply": "mul",
    "divide": "div",
    "subtract": "sub",
    "minimum": "min",
    "maximum": "max",
    "equal": "eq",
    "greater": "gt",
    "less": "lt",
}
_S32 = 2**31

_Op = TypeVar("_Op", SumOp, EltwiseOp, BinaryOp, PReLUOp, DepthwiseOp)
_KINDS = {
    SumOp: "sum",
    EltwiseOp: "eltwise",
    BinaryOp: "binary",
    PReLUOp: "prelu",
    DepthwiseOp: "convolution",
}


class PostOps:
    """A chain of post-ops in order of execution (`dnnl::post_ops`). Mutable; attributes copy it."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: tuple[PostOp, ...] = ()

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return self._entries == other._entries if isinstance(other, PostOps) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<PostOps {chain_str(self._entries) or 'none'}>"

    def copy(self) -> PostOps:
        """Return an independent chain with the same entries."""
        return PostOps.of(self._entries)

    def freeze(self) -> tuple[PostOp, ...]:
        """Return the current entries, as hashable values."""
        return self._entries

    @classmethod
    def of(cls, entries: tuple[PostOp, ...]) -> PostOps:
        """Return a mutable chain of frozen entries."""
        chain = cls()
        chain._entries = entries
        return chain

    def append_sum(self, scale: float = 1.0, zero_point: int = 0, data_type: Any = None) -> None:
        """Add `scale * (old dst - zero_point)` to the result; scale 0 does not read dst.

        `data_type` reads the bits of dst as another type of the same size. Each of several sums adds the
        content of dst before the execution, with its own scale and zero point; all read one type.
        """
        factor = to_f32(scale, "append_sum: scale")
        shift = _parse_s32(zero_point, "append_sum: zero_point")
        dtype = None if data_type is None else DataType.parse(data_type)
        self._check_length("append_sum")
        self._entries += (SumOp(factor, shift, None if dtype is DataType.undef else dtype),)

    def append_eltwise(
        self, alg: Algorithm | str, alpha: float | None = None, beta: float = 0.0, scale: float = 1.0
    ) -> None:
        """Replace the result by `scale * alg(result; alpha, beta)`.

        `alg` is an `Algorithm` or its name, such as "relu" or "eltwise_relu". `alpha`: by default 0, or 1 for
        soft_relu, as in oneDNN. Algorithms with `_use_dst_for_bwd` compute the same as those without; only
        their gradients differ. Raises InvalidArguments for other names, for a clip to an empty range, and for
        arguments that the eltwise primitive rejects.
        """
        name, alpha, beta = _of_older(alg, alpha, beta)
        name = _parse_alg("append_eltwise", name, "eltwise_", (*ELTWISE, *ELTWISE_OF_DST))
        alpha = _USUAL_ALPHA.get(name, 0.0) if alpha is None else alpha
        numbers = {"alpha": alpha, "beta": beta, "scale": scale}
        op = EltwiseOp(name, *(to_f32(v, f"append_eltwise: {key}") for key, v in numbers.items()))
        check_eltwise(op)
        self._check_length("append_eltwise")
        self._entries += (op,)

    def append_binary(self, alg: Algorithm | str, desc: MemoryDesc) -> None:
        """Replace the result by `alg(result, other)`, `other` being a tensor of `desc`.

        `alg` is an `Algorithm` or its name, such as "add" or "binary_add". `desc` has the rank of dst; its
        dims are those of dst or 1. Raises InvalidArguments for other names, and for a descriptor that is not
        concrete.
        """
        name = _parse_alg("append_binary", alg, "binary_", BINARY)
        _check_operand(desc)
        self._check_length("append_binary")
        self._entries += (BinaryOp(name, desc),)

    def append_prelu(self, mask: int) -> None:
        """Multiply the result by a weight where it is not positive.

        `mask`: bit i is set if there is a weight for each index of dim i of dst; 0 is one weight for all. An
        execution passes them as f32, in logical order, as `arg_attr_multiple_post_op(index) | ARG_WEIGHTS`.
        Raises InvalidArguments for an invalid mask.
        """
        bits = parse_int(mask, "append_prelu: mask")
        if not 0 <= bits < 1 << MAX_NDIMS:
            raise refuse("RS-N10:bit-stands-most", bits=short_repr(bits), max_ndims=MAX_NDIMS)
        self._check_length("append_prelu")
        self._entries += (PReLUOp(bits),)

    def append_dw(
        self,
        weights_data_type: Any,
        bias_data_type: Any,
        dst_data_type: Any,
        kernel_size: int,
        stride_size: int,
        padding_l_size: int,
    ) -> None:
        """Convolve the result of a two-dimensional convolution again, each channel separately.

        `bias_data_type`: "undef" for none. One kernel size, stride and padding for both dims; the result has
        `ceil(size / stride)` points. An execution passes `ARG_ATTR_POST_OP_DW | ARG_WEIGHTS` of (C, 1, 1,
        kernel, kernel), and `ARG_ATTR_POST_OP_DW | ARG_BIAS` of (C). Later post-ops apply to its result.
        Raises InvalidArguments for a second depthwise post-op, and for an invalid window.
        """
        op = DepthwiseOp(
            DataType.parse(weights_data_type),
            DataType.parse(bias_data_type),
            DataType.parse(dst_data_type),
            parse_int(kernel_size, "append_dw: kernel_size"),
            parse_int(stride_size, "append_dw: stride_size"),
            parse_int(padding_l_size, "append_dw: padding_l_size"),
        )
        check_depthwise(op)
        self._check_length("append_dw")
        if any(isinstance(entry, DepthwiseOp) for entry in self._entries):
            raise refuse("RS-P06:chain-depthwise-convolution", owner=self)
        self._entries += (op,)

    def kind(self, index: int) -> str:
        """Return `"sum"`, `"eltwise"`, `"binary"`, `"prelu"`, or `"convolution"` for a depthwise one.

        Raises InvalidArguments beyond the chain.
        """
        return _KINDS[type(self._entry(index))]

    def get_params_sum(self, index: int) -> tuple[float, int, DataType | None]:
        """Return scale, zero point and data type of the sum at `index`."""
        entry = self._entry_of(index, SumOp)
        return entry.scale, entry.zero_point, entry.data_type

    def get_params_eltwise(self, index: int) -> tuple[str, float, float, float]:
        """Return algorithm, alpha, beta, scale of the eltwise at `index`."""
        entry = self._entry_of(index, EltwiseOp)
        return entry.alg, entry.alpha, entry.beta, entry.scale

    def get_params_binary(self, index: int) -> tuple[str, MemoryDesc]:
        """Return algorithm and descriptor of the binary at `index`."""
        entry = self._entry_of(index, BinaryOp)
        return entry.alg, entry.desc

    def get_params_prelu(self, index: int) -> int:
        """Return the mask of the prelu at `index`."""
        return self._entry_of(index, PReLUOp).mask

    def get_params_dw(self, index: int) -> tuple[DataType, DataType, DataType, int, int, int]:
        """Return types of weights, bias, result; kernel size, stride and padding of a depthwise post-op."""
        entry = self._entry_of(index, DepthwiseOp)
        kinds = entry.weights_type, entry.bias_type, entry.dst_type
        return *kinds, entry.kernel, entry.stride, entry.padding

    def _check_length(self, call: str) -> None:
        if len(self._entries) < MAX_POST_OPS:
            return
        raise refuse("RS-P06:chain-full", call=call, max_post_ops=MAX_POST_OPS)

    def _entry(self, index: int) -> PostOp:
        at = parse_int(index, "post-op index")
        if not 0 <= at < len(self._entries):
            raise refuse("RS-V05:post-op-index", at=short_repr(at), count=len(self._entries))
        return self._entries[at]

    def _entry_of(self, index: int, kind: type[_Op]) -> _Op:
        entry = self._entry(index)
        if isinstance(entry, kind):
            return entry
        raise refuse("RS-P06:post-op-no", index=index, kinds=_KINDS[kind], owner=self.kind(index))


# The default alpha of a function; 0 for all others.
_USUAL_ALPHA = {"soft_relu": 1.0}


def _of_older(alg: object, alpha: Any, beta: Any) -> tuple[object, Any, Any]:
    """Convert an eltwise function of an older oneDNN version to its replacement."""
    name = plain_text(alg)
    if not isinstance(name, str):
        return alg, alpha, beta
    if name == "eltwise_gelu":
        return "gelu_tanh", alpha, beta
    if name in ("bounded_relu", "eltwise_bounded_relu"):
        return "clip", 0.0, 0.0 if alpha is None else alpha
    if name in ("logsigmoid", "eltwise_logsigmoid"):
        return "soft_relu", -1.0, beta
    return name, alpha, beta


def _parse_alg(call: str, alg: object, prefix: str, words: tuple[str, ...]) -> str:
    name = str.removeprefix(alg, prefix) if isinstance(alg, str) else ""
    if name in words:
        return name
    others = {word: ours for word, ours in _OTHER_WORDS.items() if ours in words}
    hint = one_of(words, name, others)
    if name == "select" and words is BINARY:
        raise refuse("RS-V04:needs-third-operand", call=call, alg=short_repr(alg), hint=hint)
    raise refuse("RS-V04:no-such-algorithm", call=call, alg=short_repr(alg), hint=hint)


def _parse_s32(value: object, name: str) -> int:
    number = parse_int(value, name)
    if not -_S32 <= number < _S32:
        what, hint = f"{name} is {short_repr(number)}", "use a smaller zero point"
        raise refuse("RS-R27:fit-32-bits", what=what, hint=hint)
    return number


def _check_operand(desc: object) -> None:
    if not isinstance(desc, MemoryDesc) or desc.is_zero():
        why = "it must be a MemoryDesc of the other operand"
        raise refuse("RS-P06:desc", desc=short_repr(desc), why=why)
    if desc.format_kind != "blocked" or desc.layout.has_runtime:
        why = "dims, strides and format must be known"
        raise refuse("RS-P06:desc-not-concrete", desc=desc, why=why)
