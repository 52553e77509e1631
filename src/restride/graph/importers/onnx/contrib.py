"""Functions, normalizations and products of com.microsoft, which optimized models use.

An operator of the same name in ONNX's own domain is a different one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd, prod
from typing import Annotated

import numpy as np

from ....desc.memory_desc import MemoryDesc
from ....dtypes import DataType
from ....model.result_dims import Misfit
from ....runtime.alloc import Array
from ....runtime.views import packed_nibbles
from ...dims import Dims
from ...nodes.moves import PadOperation
from ...stored_constant import StoredConstant
from ..operator_call import ONNX, Floats, Made, Operand, OperatorCall, Tensor, Value
from .known import axis_of
from .layers import matrix_product
from .quantized import check_blocks, dequantized, whole_groups
from .windows import OnnxWindow

_S32 = 6
_STATISTICS = "it outputs statistics, which only training needs", "save the model for inference"


def _microsoft(name: str) -> str:
    return f"com.microsoft.{name}"


# --- functions ----------------------------------------------------------------------------------------------


@ONNX(_microsoft("Gelu"), _microsoft("BiasGelu"))
def _gelu(call: OperatorCall, x: Tensor, bias: Operand | None = None) -> Value:
    return call.function(x if bias is None else call.with_outputs(0).onnx("Add", x, bias), "gelu_erf")


@ONNX(_microsoft("FastGelu"))
def _fast_gelu(call: OperatorCall, x: Tensor, bias: Operand | None = None) -> Value:
    return call.function(x if bias is None else call.with_outputs(0).onnx("Add", x, bias), "gelu_tanh")


@ONNX(_microsoft("QuickGelu"))
def _quick_gelu(call: OperatorCall, x: Tensor, *, alpha: float = 1.702) -> Value:
    return call.function(x, "swish", alpha)


@dataclass(frozen=True, slots=True)
class _Activation:
    """The function applied after a product: its name in ONNX, and its parameters."""

    activation: str = ""
    activation_alpha: float | None = None
    activation_beta: float | None = None
    activation_gamma: float | None = None
    activation_params: Floats = ()

    def __call__(self, call: OperatorCall, x: Value) -> Value:
        if not self.activation:
            return x
        names = _NUMBERS_OF.get(self.activation)
        if names is None:
            raise call.unimplemented(f"its activation is {self.activation!r}")
        single = self.activation_alpha, self.activation_beta
        numbers = self.activation_params or [each for each in single if each is not None]
        if self.activation == "Clip":
            return call.onnx("Clip", x, *numbers)
        return call.onnx(self.activation, x, **dict(zip(names, map(float, numbers), strict=False)))


_NUMBERS_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Tanh", "Sigmoid"), ()),
    "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Clip": ("min", "max"),
}  # fmt: skip

# --- products -----------------------------------------------------------------------------------------------


@ONNX(_microsoft("FusedMatMul"), _microsoft("TransposeMatMul"))
def _matmul(
    call: OperatorCall,
    left: Operand,
    right: Operand,
    *,
    alpha: float = 1.0,
    transA: bool = False,  # noqa: N803
    transB: bool = False,  # noqa: N803
    transBatchA: bool = False,  # noqa: N803
    transBatchB: bool = False,  # noqa: N803
) -> Value:
    if transBatchA or transBatchB:
        raise call.unimplemented("its batch dims are transposed", "transpose them first")
    flipped = (
        call.matrices_transposed(x) if is_flipped and len(call.dims(x)) > 1 else x
        for x, is_flipped in ((left, transA), (right, transB))
    )
    if alpha == 1:
        return call.onnx("MatMul", *flipped)
    return call.onnx("Mul", call.with_outputs(0).onnx("MatMul", *flipped), alpha)


@ONNX(_microsoft("FusedGemm"))
def _gemm(
    call: OperatorCall,
    left: Tensor,
    right: Operand,
    added: Operand | None = None,
    *,
    after: _Activation,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: bool = False,  # noqa: N803
    transB: bool = False,  # noqa: N803
) -> Value:
    attributes = {"alpha": alpha, "beta": beta, "transA": transA, "transB": transB}
    return after(call, call.with_outputs(0).onnx("Gemm", left, right, added, **attributes))


@ONNX(_microsoft("FusedConv"))
def _convolution(
    call: OperatorCall,
    x: Tensor,
    weights: Operand,
    bias: Operand | None = None,
    added: Operand | None = None,
    *,
    window: OnnxWindow,
    group: int = 1,
    after: _Activation,
) -> Value:
    apart, attributes = call.with_outputs(0), {**call.node.attributes}
    for name in _Activation.__dataclass_fields__:
        attributes.pop(name, None)
    result = apart.onnx("Conv", x, weights, bias, **attributes)
    return after(call, result if added is None else apart.onnx("Add", result, added))


@ONNX(_microsoft("MatMulNBits"))
def _matmul_of_bits(
    call: OperatorCall,
    x: Tensor,
    weights: Array,
    scales: Array,
    zeros: Array | None = None,
    groups: Array | None = None,
    bias: Operand | None = None,
    *,
    K: int,  # noqa: N803
    N: int,  # noqa: N803
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
) -> Value:
    """Weights (N, blocks, bytes) are unsigned integers, lowest bits first, with a scale and a zero point for
    each block of a row. At `accuracy_level` 4 the source may be rounded to bytes.

    If groups consist of scattered elements of a row, elements of weights and source are sorted by group.
    """
    blocks, apart = -(-K // block_size), call.with_outputs(0)
    order = None if groups is None else _order(call, groups.reshape(-1), K, block_size)
    stored = _stored(call, weights, bits, (N, blocks * block_size), order)
    factors = scales.reshape(N, blocks), _zero_points(zeros, bits, (N, blocks))
    matrix = dequantized(apart, stored, *factors, call.type_of(x))
    if K % block_size:
        # The last block is complete in memory: padding elements are multiplied by zeros.
        rest = (0,) * (len(call.dims(x)) - 1)
        x = call.builder.add(PadOperation((*rest, 0), (*rest, -K % block_size)), x)
    if order is not None:
        x = call.placed(apart.onnx("Gather", x, order, axis=-1))
    mode = "any" if accuracy_level == 4 else "strict"
    result = matrix_product(call, x, apart.transposed(matrix, (1, 0)), fpmath_mode=mode)
    return result if bias is None else call.onnx("Add", result, bias)


@ONNX(_microsoft("GatherBlockQuantized"))
def _rows_of_bits(
    call: OperatorCall,
    table: Value,
    indices: Annotated[Value, "indices"],
    scales: Array,
    zeros: Array | None = None,
    *,
    gather_axis: int = 0,
    quantize_axis: int = 1,
    block_size: int = 128,
    bits: int = 4,
) -> Value:
    """Dequantize rows of integers, of 4 or 8 bits in bytes or of a separate type."""
    apart, dims = call.with_outputs(0), call.dims(table)
    axis = axis_of(quantize_axis, len(dims))
    if isinstance(table, str) and call.builder.known(table) is None:
        raise call.known_in_run("its table")
    if not isinstance(table, str) and table.dtype == np.uint8:
        if axis != len(dims) - 1:
            raise call.unimplemented("its blocks are not along the last axis, and its integers are bytes")
        count = dims[-1] * 8 // bits
        if zeros is None:
            zeros = np.full((), 1 << bits - 1, np.uint8)
        else:
            zeros = _zero_points(zeros, bits, scales.shape)
        dims = (*dims[:-1], count)
        stored = _stored(apart, table, bits, dims)
    else:
        stored = call.placed(table)
    for factors in (scales, *([zeros] if zeros is not None and zeros.ndim else [])):
        check_blocks(dims, factors.shape, axis, block_size)
    size = gcd(dims[axis], block_size)
    parts, count = block_size // size, dims[axis] // size
    zeros = np.zeros((), np.uint8) if zeros is None else zeros
    scales, zeros = (whole_groups(n, axis, parts, count) if n.ndim else n for n in (scales, zeros))
    reals = dequantized(apart, stored, scales, zeros, call.type_of(scales))
    return call.onnx("Gather", reals, indices, axis=gather_axis)


def _order(call: OperatorCall, groups: Array, count: int, size: int) -> Array | None:
    """Return the order that makes elements of a group adjacent, or None if they already are.

    Padding elements fill the groups that are too small.
    """
    blocks = -(-count // size)
    if groups.size < count or np.any((groups < 0) | (groups >= blocks)):
        raise Misfit(f"g_idx has {groups.size} groups for {count} elements in {blocks} blocks")
    missing = size - np.bincount(groups[:count], minlength=blocks)
    if np.any(missing < 0):
        raise call.unimplemented(f"its g_idx has a group of more than {size} elements")
    order = np.argsort(np.append(groups[:count], np.arange(blocks).repeat(missing)), kind="stable")
    return None if np.array_equal(order, np.arange(order.size)) else order


def _stored(call: OperatorCall, content: Array, bits: int, dims: Dims, order: Array | None = None) -> str:
    """Return 4- or 8-bit integers as a tensor without copying; 2 bits become 4. `order`: of the last axis."""
    if bits not in _OF_BITS:
        raise call.unimplemented(f"its weights have {bits} bits", "2, 4 and 8 are supported")
    kind = _OF_BITS[bits]
    if content.size * 8 != prod(dims) * bits:
        raise Misfit(f"{content.size} bytes for {prod(dims)} integers of {bits} bits")
    if bits < kind.bits or order is not None:
        digits = _digits(content, bits).reshape(dims)
        digits = digits if order is None else digits[..., order]
        content = packed_nibbles(digits) if kind is DataType.u4 else digits
    return call.builder.constant(StoredConstant(np.ascontiguousarray(content), MemoryDesc(dims, kind)))


def _zero_points(zeros: Array | None, bits: int, dims: Dims) -> Array:
    """Return the zero points of blocks: half the range of the bits, packed along the last axis, or floats."""
    if zeros is None:
        return np.full((), 1 << bits - 1, np.uint8)
    if zeros.dtype == np.uint8:
        return _digits(zeros, bits).reshape(*dims[:-1], -1)[..., : dims[-1]]
    return zeros.reshape(dims)


def _digits(content: Array, bits: int) -> Array:
    """Unpack integers of `bits` bits from bytes, lowest bits first."""
    parts = [content >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(-1)


_OF_BITS = {2: DataType.u4, 4: DataType.u4, 8: DataType.u8}


# --- normalizations -----------------------------------------------------------------------------------------


@ONNX("SimplifiedLayerNormalization", _microsoft("SimplifiedLayerNormalization"))
def _simplified_normalization(
    call: OperatorCall,
    x: Tensor,
    scale: Operand,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Made:
    result = call.onnx("RMSNormalization", x, scale, axis=axis, epsilon=epsilon)
    if call.count_of_outputs < 2:
        return result
    apart, rank = call.with_outputs(0), len(call.dims(x))
    wide = apart.onnx("Cast", x, to=1)
    axes = tuple(range(axis % rank, rank))
    mean = apart.onnx("ReduceMean", apart.onnx("Mul", wide, wide), axes)
    return result, apart.onnx("Reciprocal", apart.onnx("Sqrt", apart.onnx("Add", mean, epsilon)))


@ONNX(_microsoft("SkipLayerNormalization"))
def _normalization_of_sum(
    call: OperatorCall,
    x: Tensor,
    skip: Operand,
    scale: Operand,
    shift: Operand | None = None,
    bias: Operand | None = None,
    *,
    epsilon: float = 1e-12,
) -> Made:
    """The sum is also a result."""
    total = _sum(call, x, skip, bias)
    if any(call.node.outputs[1:3]):
        raise call.unimplemented(*_STATISTICS)
    result = call.with_outputs(1).onnx("LayerNormalization", total, scale, shift, axis=-1, epsilon=epsilon)
    return result, "", "", total


def _sum(call: OperatorCall, *values: Value | None) -> Value:
    apart = call.with_outputs(0)
    first, *others = [each for each in values if each is not None]
    for other in others:
        first = apart.onnx("Add", first, other)
    return first


@ONNX(_microsoft("SkipSimplifiedLayerNormalization"))
def _simplified_normalization_of_sum(
    call: OperatorCall,
    x: Tensor,
    skip: Operand,
    scale: Operand,
    bias: Operand | None = None,
    *,
    epsilon: float = 1e-12,
) -> Made:
    if any(call.node.outputs[1:3]):
        raise call.unimplemented(*_STATISTICS)
    total = _sum(call, x, skip, bias)
    result = call.with_outputs(1).onnx("RMSNormalization", total, scale, axis=-1, epsilon=epsilon)
    return result, "", "", total


@ONNX(_microsoft("EmbedLayerNormalization"))
def _normalization_of_embeddings(
    call: OperatorCall,
    words: Value,
    segments: Value | None,
    word_rows: Operand,
    position_rows: Operand,
    segment_rows: Operand | None,
    scale: Operand,
    shift: Operand,
    mask: Value | None = None,
    positions: Value | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Made:
    """Sum the rows of three tables, and count the words by the mask."""
    apart = call.with_outputs(0)
    batch, length = call.dims(words)
    where = np.arange(length)[None] if positions is None else positions
    parts: list[Value | None] = [
        apart.onnx("Gather", word_rows, words),
        apart.onnx("Gather", position_rows, where),
    ]
    if segments is not None:
        parts.append(apart.onnx("Gather", segment_rows, segments))
    total = _sum(call, *parts)
    result = call.with_outputs(1).onnx("LayerNormalization", total, scale, shift, axis=-1, epsilon=epsilon)
    count: Value = np.zeros(batch, np.int32)
    if mask is not None:
        count = apart.onnx("ReduceSum", apart.onnx("Cast", mask, to=_S32), (1,), keepdims=0)
    return result, count, total
