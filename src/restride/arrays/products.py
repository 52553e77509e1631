"""Matrix products and convolutions on arrays, with plain or packed weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..desc.arguments import ARG_ATTR_SCALES, ARG_ATTR_ZERO_POINTS, ARG_SRC, ARG_WEIGHTS
from ..desc.attr import PrimitiveAttr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, parse_word
from ..desc.tags import Tag
from ..dtypes import DataType
from ..errors import refuse
from ..model.primitive import Primitive
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .calls.binder import CallKey
from .calls.function import ArrayFunction, Parameters, plain_key
from .calls.operands import engine_of
from .calls.product_arguments import bias_of, numbers_of_dims, operand_of, result_type, target_of
from .calls.product_calls import SlidingWindow, convolution_primitive, execute_product, matmul_primitive
from .calls.tensors import as_array, as_numpy
from .reorders import reorder
from .scaling.factors import as_factor, by_columns
from .scaling.grouped import groups_of
from .scaling.quantized_tensor import QuantizedTensor

if TYPE_CHECKING:
    from ..typing import ArrayLike, OtherArray, TypeLike

__all__ = ["convolution", "matmul", "pack_weights"]

_PRIMITIVES = "matmul", "convolution"
_MODES = "strict", "bf16", "any"
_MATRIX = 2
_MATMUL, _CONVOLUTION = (
    ArrayFunction(name, narrows_lists=False, others=("weights", "bias", "scale", "zero_point"))
    for name in _PRIMITIVES
)


def matmul(
    x: Any,
    weights: Any,
    bias: Any = None,
    *,
    dtype: Any = None,
    out: Any = None,
    fpmath_mode: Any = "strict",
) -> Any:
    """Return the matrix product `x @ weights + bias`.

    x        (..., M, K): a NumPy array, lists, a torch tensor, any object with `__dlpack__`, or a `Memory`
    weights  (K, N), or (..., K, N) with as many dims as `x`, where dims of 1 are broadcast; a `Memory` of any
             format, such as `pack_weights` returns, is read in place; a `QuantizedTensor` with groups along
             the rows, `rs.quantize(w, "s4", 0, group=32)`, is decoded in registers
    bias     (N)
    dtype    type of the result; by default that of `x`, or s32 if `x` is integer
    out      destination: an array or `Memory` of (..., M, N), which is returned
    fpmath_mode  "strict"; "any": if the weights are quantized to integers, rows of `x` are quantized to 8
             bits too, so that bytes are multiplied; "bf16": with 4-bit weights, rows are rounded to bf16 if
             the processor multiplies pairs of them

    Floats are accumulated in f32, or in f64 if one is f64; integers exactly. NumPy in, NumPy out; a tensor
    in, a tensor out; a `Memory` in, a `Memory` out.

    Raises InvalidArguments, before anything is written, for dims that do not match; Unimplemented for
    unsupported combinations of types.

    >>> import numpy as np, restride as rs
    >>> rs.matmul(np.eye(2, dtype=np.float32), [[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0])
    array([[11., 22.],
           [13., 24.]], dtype=float32)
    """
    mode = parse_word("matmul: fpmath_mode", fpmath_mode, _MODES, "these are the supported modes")
    parameters: Parameters = (dtype, mode)
    operands: tuple[Any, ...] = (weights, bias)
    if isinstance(weights, QuantizedTensor):
        q = as_factor(weights)
        parameters, operands = (*parameters, q.tensor_scale), (q.values, bias, q.scale, q.zero_point)
    return _MATMUL.call(_matmul, parameters, plain_key(parameters), x, out, operands)


def convolution(
    x: Any,
    weights: Any,
    bias: Any = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """Return the convolution of a batch with one to three spatial dims.

    x        (N, C, ...): a NumPy array, lists, a torch tensor, any object with `__dlpack__`, or a `Memory`
    weights  (O, C / groups, ...); a `Memory` of any format, such as `pack_weights` returns, is read in place:
             with several groups it is (groups, O / groups, C / groups, ...)
    bias     (O)
    stride, padding, dilation  one number, or one for each spatial dim; a dilation of 1 is dense
    dtype    type of the result; by default that of `x`, or s32 if `x` is integer
    out      destination: an array or `Memory`, which is returned

    Array results have the layout of `x`; a `Memory` result has the format that is fastest on this machine.

    Raises InvalidArguments, before anything is written, for dims that do not match; Unimplemented for
    unsupported combinations of types.

    >>> import numpy as np, restride as rs
    >>> x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    >>> rs.convolution(x, np.ones((1, 1, 2, 2), np.float32)).tolist()
    [[[[8.0, 12.0], [20.0, 24.0]]]]
    """
    parameters = stride, padding, dilation, groups, dtype
    key = plain_key(tuple([tuple(item) if type(item) is list else item for item in parameters]))
    return _CONVOLUTION.call(_convolution, parameters, key, x, out, (weights, bias))


@overload
def pack_weights(
    weights: QuantizedTensor,
    primitive: str = "matmul",
    *,
    groups: int = 1,
    dtype: TypeLike | None = None,
    fpmath_mode: str = "strict",
) -> QuantizedTensor: ...
@overload
def pack_weights(
    weights: OtherArray | ArrayLike,
    primitive: str = "matmul",
    *,
    groups: int = 1,
    dtype: TypeLike | None = None,
    fpmath_mode: str = "strict",
) -> Memory: ...
def pack_weights(
    weights: QuantizedTensor | OtherArray | ArrayLike,
    primitive: str = "matmul",
    *,
    groups: int = 1,
    dtype: TypeLike | None = None,
    fpmath_mode: str = "strict",
) -> Memory | QuantizedTensor:
    """Return weights in the format that a primitive reads fastest on this machine.

    weights    (..., K, N) for a matmul, (O, C / groups, ...) for a convolution. For a `QuantizedTensor` (K,
               N) of a matmul, the result is one whose elements are in the order of the kernels
    primitive  "matmul" or "convolution"
    dtype      type of the source that they will be multiplied by; by default that of the weights, or f32 if
               they are quantized
    fpmath_mode  of `matmul`: "any" requires another order of bytes

    This pays off for weights that are used repeatedly: it does once what `matmul` and `convolution` would do
    in every call. Raises InvalidArguments for anything else.

    >>> import numpy as np, restride as rs
    >>> rs.pack_weights(np.zeros((64, 48), np.float32)).desc.tag in ("Ba16b", "Ba8b")
    True
    """
    why = "it packs weights only for these"
    word = parse_word("pack_weights: primitive", primitive, _PRIMITIVES, why)
    mode = parse_word("pack_weights: fpmath_mode", fpmath_mode, _MODES, "these are the supported modes")
    if isinstance(weights, QuantizedTensor):
        return _packed(weights, word, DataType.f32 if dtype is None else DataType.parse(dtype), mode)
    engine = engine_of(weights, None, None)
    is_grouped = word == "convolution"
    source = _grouped("pack_weights", weights, groups if is_grouped else 1, engine)
    md = source.desc
    kind = md.data_type if dtype is None else DataType.parse(dtype)
    open_md = MemoryDesc(md.dims, md.data_type, "any")
    consumer: Primitive
    if is_grouped:
        ndims = md.ndims - (groups > 1)
        outputs, kernel = outputs_and_kernel(md, ndims)
        inputs = md.dims[1] if groups == 1 else md.dims[0] * md.dims[2]
        window = SlidingWindow(*((number,) * len(kernel) for number in (1, 0, 0)))
        src = MemoryDesc((1, inputs, *kernel), kind, "any")
        dst = MemoryDesc((1, outputs, *[1] * len(kernel)), "f32", "any")
        consumer = convolution_primitive(engine, src, open_md, None, dst, window)
    else:
        *batch, k, n = md.dims if md.ndims >= _MATRIX else (0, 0)
        src, dst = MemoryDesc((*batch, 1, k), kind), MemoryDesc((*batch, 1, n), "f32")
        consumer = matmul_primitive(engine, src, open_md, None, dst)
    packed = Memory(consumer.get_primitive_desc().weights_desc(), engine)
    reorder(source, None, out=packed)
    return packed


def _packed(q: QuantizedTensor, primitive: str, kind: DataType, mode: str) -> QuantizedTensor:
    """Return quantized weights with their elements in the order in which a matmul reads them."""
    if primitive != "matmul" or len(q.dims) < _MATRIX:
        raise refuse("RS-X02:pack-quantized", primitive=primitive, q=q.desc)
    q = by_columns(as_factor(q))
    *batch, k, n = q.dims
    engine, (attr, _) = q.values.engine, _scaling_of(q, mode)
    src, dst = MemoryDesc((*batch, 1, k), kind), MemoryDesc((*batch, 1, n), "f32")
    open_md = MemoryDesc(q.dims, q.desc.data_type, "any")
    consumer = matmul_primitive(engine, src, open_md, None, dst, attr=attr)
    values = Memory(consumer.get_primitive_desc().weights_desc(), engine)
    reorder(q.values, None, out=values)
    return replace(q, values=values)


# --- products -----------------------------------------------------------------------------------------------


def _matmul(x: Any, out: Any, operands: Sequence[Any], parameters: Parameters, signed: CallKey | None) -> Any:
    (weights, bias, *factors), (dtype, *more), engine = operands, parameters, engine_of(x, out, None)
    table = operand_of("matmul", "weights", weights, engine)
    if isinstance(x, np.ndarray) and x.ndim > table.desc.ndims == _MATRIX:
        return _by_rows(x, out, operands, parameters, table.desc.dims[-1])
    attr, scaling = None, dict[int, Memory]()
    if factors:
        (mode, tensor_scale), (scale, zero) = more, factors
        attr, scaling = _scaling_of(QuantizedTensor(weights, scale, zero, tensor_scale), mode)
    source = operand_of("matmul", "x", x, engine)
    dims, rows = source.desc.dims, table.desc.dims
    if not _MATRIX <= len(dims) == len(rows):
        raise refuse(
            "RS-X01:dims", desc=source.desc, table_desc=table.desc, count=len(dims), count2=len(rows)
        )
    batch = (b if a == 1 else a for a, b in zip(dims[:-2], rows[:-2], strict=True))
    result = MemoryDesc((*batch, dims[-2], rows[-1]), result_type(source, dtype))
    target = target_of("matmul", result, out, engine)
    shifts = None if bias is None else bias_of("matmul", bias, engine, result.ndims)
    descs = source.desc, table.desc, None if shifts is None else shifts.desc, target.desc
    primitive = matmul_primitive(engine, *descs, attr=attr)
    execute_product(primitive, source, table, shifts, target, signed, scaling)
    return target


def _scaling_of(q: QuantizedTensor, mode: str) -> tuple[PrimitiveAttr, dict[int, Memory]]:
    """Return the attributes of a product by quantized weights, and the memory objects for them."""
    attr, memories = PrimitiveAttr(), {ARG_ATTR_SCALES | ARG_WEIGHTS: q.scale}
    attr.set_fpmath_mode(mode, apply_to_int=mode != "strict")
    every = (1 << q.values.desc.ndims) - 1
    attr.set_scales(ARG_WEIGHTS, every, None, [max(n, 1) for n in q.groups], q.scale.desc.data_type)
    if q.tensor_scale != 1.0:
        attr.set_scales(ARG_SRC, 0, [q.tensor_scale])
    if q.zero_point is not None:
        md = q.zero_point.desc
        attr.set_zero_points(ARG_WEIGHTS, every, None, groups_of(q.dims, md), md.data_type)
        memories[ARG_ATTR_ZERO_POINTS | ARG_WEIGHTS] = q.zero_point
    return attr, memories


def _by_rows(x: Array, out: Any, operands: Sequence[Any], parameters: Parameters, columns: int) -> Any:
    """Return one product of all rows of a batch with the same weights: kernels see one tall matrix."""
    dims, count = (*x.shape[:-1], columns), prod(x.shape[:-1])
    rows = x.reshape(count, x.shape[-1])
    is_direct = isinstance(out, np.ndarray) and out.shape == dims and out.flags.c_contiguous
    target, key = out.reshape(count, columns) if is_direct else None, plain_key(parameters)
    result = _MATMUL.call(_matmul, parameters, key, rows, target, operands).reshape(dims)
    return result if is_direct or out is None else reorder(result, None, out=out)


def _convolution(
    x: Any, out: Any, operands: Sequence[Any], parameters: Parameters, signed: CallKey | None
) -> Memory:
    (weights, bias), (stride, padding, dilation, groups, dtype) = operands, parameters
    engine = engine_of(x, out, None)
    source = operand_of("convolution", "x", x, engine)
    md, count = source.desc, source.desc.ndims - 2
    window = SlidingWindow(
        numbers_of_dims("convolution", "stride", stride, count),
        tuple(distance - 1 for distance in numbers_of_dims("convolution", "dilation", dilation, count)),
        numbers_of_dims("convolution", "padding", padding, count),
    )
    table = _grouped("convolution", weights, groups, engine)
    outputs, kernel = outputs_and_kernel(table.desc, md.ndims)
    dims = (md.dims[0], outputs, *window.points(md.dims[2:], kernel))
    tag = Tag(md.outer_order) if not isinstance(x, Memory) else "any"
    target = None if out is None else target_of("convolution", MemoryDesc(dims, md.data_type), out, engine)
    result = MemoryDesc(dims, result_type(source, dtype), tag) if target is None else target.desc
    shifts = None if bias is None else bias_of("convolution", bias, engine, 1)
    descs = md, table.desc, None if shifts is None else shifts.desc, result
    primitive = convolution_primitive(engine, *descs, window)
    target = Memory(primitive.get_primitive_desc().dst_desc(), engine) if target is None else target
    execute_product(primitive, source, table, shifts, target, signed)
    return target


def outputs_and_kernel(md: MemoryDesc, ndims: int) -> tuple[int, tuple[int, ...]]:
    """Return the number of outputs of weights and their window, for a source of `ndims` dims."""
    dims = md.dims
    if len(dims) not in (ndims, ndims + 1) or ndims < 1 + _MATRIX:
        raise refuse("RS-X01:x-batch-channels", ndims=ndims, md=md)
    return (dims[0] * dims[1], dims[3:]) if len(dims) > ndims else (dims[0], dims[2:])


def _grouped(call: str, weights: Any, groups: int, engine: Engine) -> Memory:
    """Return weights with a group dim if there are several groups; a `Memory` already has it."""
    number = parse_int(groups, f"{call}: groups")
    if isinstance(weights, Memory) or number == 1:
        return operand_of(call, "weights", weights, engine)
    data = np.asarray(as_numpy(as_array(weights, f"{call}: weights"), f"{call}: weights"))
    if number < 1 or data.ndim < 1 or data.shape[0] % number:
        raise refuse("RS-X01:every-group-many", call=call, number=number, shape=data.shape, axis=0)
    return operand_of(call, "weights", data.reshape(number, data.shape[0] // number, *data.shape[1:]), engine)
