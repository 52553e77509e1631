"""ATen's operators as operations of the graph, by way of the ONNX operators that do the same.

A node has all arguments of the call as attributes, tensors among them as `TensorArgument`s. Functions take
the first ones by position, as overloads name them differently, and others by their names in the schema.
Shapes are numbers: a program of torch is exported for inputs of known dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan, prod
from typing import Any

import numpy as np

from ....dtypes import DataType
from ....errors import Unimplemented
from ....ops.binary import BinaryProblem
from ....ops.elementwise import ElementwiseProblem
from ....ops.reduction import ReductionProblem
from ...dims import by
from ..onnx import operators
from ..onnx.known import axis_of
from ..onnx.rows import enter_rows, specifications
from ..onnx.tensors import ELEMENTS
from ..operator_call import ATEN, Function, Made, OperatorCall

__all__ = ["TORCH_OPERATORS", "AtenCall", "TensorArgument", "operators", "translate_aten"]

_F32 = np.float32
CALL = ""
"""The attribute of a node that has its `AtenCall`."""


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """An argument that is a tensor: the place of it among the inputs of the node."""

    place: int


@dataclass(frozen=True, slots=True)
class AtenCall:
    """The schema and results of a call by torch: the names of its arguments by position; those of all
    arguments that are not their defaults, so that they must be read; dims and data type of each result.
    """

    positional: tuple[str, ...]
    marked: frozenset[str]
    results: tuple[tuple[tuple[int, ...], str], ...]


def translate_aten(call: OperatorCall) -> Made:
    """The values and tensors that stand for a call. Raises Unimplemented, which names it, for arguments that
    its function has not, and where the result is not what torch says.
    """
    arguments = dict(call.node.attributes)
    aten: AtenCall = arguments.pop(CALL)
    arguments = {name: _argument(call, value) for name, value in arguments.items()}
    inputs = [arguments[name] for name in aten.positional]
    try:
        result = ATEN.run(call.with_outputs(1), inputs, arguments, aten.positional, aten.marked)
    except Unimplemented as error:
        raise error.with_context(f"node {call.node}") from None
    values = result if isinstance(result, tuple) else (result,)
    for value, (dims, data_type) in zip(values, aten.results, strict=False):
        kind = call.builder.type(value) if isinstance(value, str) else None
        if call.dims(value) != dims or (kind and str(kind.data_type.numpy) != data_type):
            raise call.unimplemented(
                f"its result would be {kind or call.dims(value)}, torch makes {data_type} {by(dims)}"
            )
    return result


def _argument(call: OperatorCall, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_argument(call, item) for item in value)
    return call.values[value.place] if isinstance(value, TensorArgument) else value


def _of_axes(values: Sequence[int] | int, rank: int) -> tuple[int, ...]:
    """Numbers of all axes, of which one number may stand for all."""
    numbers = (values,) if isinstance(values, int) else tuple(values)
    return numbers * rank if len(numbers) == 1 else numbers


def _promoted(row: Any) -> Function:
    """A function of elements whose operands are of one type first, as torch promotes them."""

    def run(call: OperatorCall, *xs: Any) -> Made:
        values = _of_one_type(call, xs)
        if (
            call.node.operator.removeprefix("aten.") in _OF_FLOATS
            and call.numpy_type(values[0]).kind in "bui"
        ):
            values = [_as_type(call, x, np.dtype(_F32)) for x in values]
        made: Made = call.onnx(row, *values) if isinstance(row, str) else row(call, *values)
        return made

    return run


def _of_one_type(call: OperatorCall, xs: Sequence[Any]) -> list[Any]:
    """Numbers and tensors as torch computes with them: floats before integers before truth values; of a kind
    tensors of dims before those without, and these before numbers.
    """
    tensors = [x for x in xs if isinstance(x, str | np.ndarray)]
    if len(xs) < 2 or not tensors or len(tensors) + sum(isinstance(x, int | float) for x in xs) != len(xs):
        return [*xs]
    groups = [
        [call.numpy_type(x) for x in tensors if call.dims(x)],
        [call.numpy_type(x) for x in tensors if not call.dims(x)],
        [np.dtype(_OF_NUMBERS[type(x)]) for x in xs if isinstance(x, int | float)],
    ]
    common: Any = None
    for group in filter(None, groups):
        last = max(_KIND_ORDER.index(kind.kind) for kind in group)
        own = np.result_type(*(kind for kind in group if _KIND_ORDER.index(kind.kind) == last))
        if common is None or _KIND_ORDER.index(own.kind) > _KIND_ORDER.index(common.kind):
            common = own
    return [_as_type(call, x, common) for x in xs]


_OF_NUMBERS: Mapping[type, Any] = {bool: np.bool_, int: np.int64, float: np.float32}
_KIND_ORDER = "buifV"
"""Kinds of NumPy's types, each of which makes what is computed with those before it of its kind."""


def _as_type(call: OperatorCall, x: Any, dtype: Any) -> Any:
    if isinstance(x, int | float):
        return np.array(x, dtype)
    return x if call.numpy_type(x) == dtype else call.onnx("Cast", x, to=_NUMBERS[dtype])


_OF_FLOATS = (
    *(
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cos",
        "cosh",
        "erf",
        "exp",
        "expm1",
        "log",
    ),
    *("log1p", "reciprocal", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
)
"""Functions that give floats of integers too."""
_NUMBERS = {dtype: number for number, dtype in ELEMENTS.items()}

for _specification in specifications():
    are_of_elements = _specification in (BinaryProblem, ElementwiseProblem)
    enter_rows(
        ATEN,
        {
            name: _promoted(row) if are_of_elements or name in _OF_FLOATS else row
            for name, row in _specification.aten.items()
        },
    )

# --- functions ----------------------------------------------------------------------------------------------


@ATEN("add", "sub")
def _sum(call: OperatorCall, x: Any, y: Any, *, alpha: Any = 1) -> Made:
    x, y = _of_one_type(call, (x, y))
    y = call.onnx("Mul", y, np.array(alpha, call.numpy_type(y))) if alpha != 1 else y
    return call.onnx("Add" if call.node.operator == "aten.add" else "Sub", x, y)


@ATEN("div")
def _quotient(call: OperatorCall, x: Any, y: Any, *, rounding_mode: str | None = None) -> Made:
    """A quotient of integers has fractions, where it is not rounded."""
    x, y = _of_one_type(call, (x, y))
    if rounding_mode == "floor":
        return call.elements("floor_divide", x, y)
    is_whole = call.numpy_type(x).kind in "iub"
    if rounding_mode == "trunc":
        quotient = call.onnx("Div", x, y)
        return quotient if is_whole else call.elements("trunc", quotient)
    return call.onnx("Div", *(_as_type(call, each, np.dtype(_F32)) if is_whole else each for each in (x, y)))


@ATEN("where")
def _where(call: OperatorCall, condition: Any, x: Any, y: Any) -> Made:
    return call.onnx("Where", condition, *_of_one_type(call, (x, y)))


@ATEN("addcmul", "addcdiv")
def _scaled_sum(call: OperatorCall, x: Any, left: Any, right: Any, *, value: Any = 1) -> Made:
    made = call.onnx("Mul" if call.node.operator == "aten.addcmul" else "Div", left, right)
    factor = np.array(value, call.numpy_type(made))
    return call.onnx("Add", x, made if value == 1 else call.onnx("Mul", made, factor))


@ATEN("elu")
def _elu(
    call: OperatorCall, x: Any, *, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Made:
    """With scales selu, and celu."""
    if input_scale not in (1.0, 1.0 / alpha if alpha else 0.0):
        raise call.unimplemented(f"it has input_scale={input_scale}")
    made = call.onnx("Elu" if input_scale == 1 else "Celu", x, alpha=alpha)
    return made if scale == 1 else call.onnx("Mul", made, np.array(scale, call.numpy_type(made)))


@ATEN("_to_copy")
def _to_copy(call: OperatorCall, x: Any, *, dtype: Any = None) -> Made:
    """The result has the type that torch says."""
    aten: AtenCall = call.node.attributes[CALL]
    made: Made = _as_type(call, x, DataType.parse(aten.results[0][1]).numpy)
    return made


@ATEN("full", "full_like", "scalar_tensor")
def _full(call: OperatorCall, shape: Any, value: Any = None) -> Made:
    """Numbers of the type that torch says; a tensor of no dims has its value alone."""
    ((dims, data_type),) = call.node.attributes[CALL].results
    number = shape if call.node.operator == "aten.scalar_tensor" else value
    return np.full(dims, number, DataType.parse(data_type).numpy)


@ATEN("masked_fill")
def _masked_fill(call: OperatorCall, x: Any, mask: Any, value: Any) -> Made:
    return call.onnx("Where", mask, _as_type(call, value, call.numpy_type(x)), x)


@ATEN("clamp", "clamp_min")
def _clamp(call: OperatorCall, x: Any, low: float = -inf, high: float = inf) -> Made:
    if isnan(low) or isnan(high):
        raise call.unimplemented("a limit is no number")
    if (low, high) == (0.0, inf):
        return call.onnx("Relu", x)
    limits = (np.array(limit, call.numpy_type(x)) if isfinite(limit) else None for limit in (low, high))
    return call.onnx("Clip", x, *limits)


@ATEN("prelu")
def _prelu(call: OperatorCall, x: Any, slopes: Any) -> Made:
    rank = len(call.dims(x))
    return call.onnx(
        "PRelu", x, call.onnx("Reshape", slopes, (1, -1, *(1,) * (rank - 2)) if rank > 1 else (-1,))
    )


# --- normalizations and reductions --------------------------------------------------------------------------


@ATEN("_native_batch_norm_legit_no_training")
def _batch_normalization(
    call: OperatorCall, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *, eps: float
) -> Made:
    scale, shift = (
        make(call.dims(mean), _F32) if tensor is None else tensor
        for make, tensor in ((np.ones, weight), (np.zeros, bias))
    )
    return call.onnx("BatchNormalization", x, scale, shift, mean, variance, epsilon=eps)


@ATEN("native_layer_norm")
def _layer_normalization(
    call: OperatorCall, x: Any, shape: Any, weight: Any, bias: Any, *, eps: float
) -> Made:
    scale = np.ones(shape, _F32) if weight is None else weight
    return call.onnx("LayerNormalization", x, scale, bias, axis=-len(shape), epsilon=eps)


def _normalized_rows(
    call: OperatorCall, x: Any, affine: Sequence[Any], eps: float, groups: int, order: Sequence[int]
) -> Made:
    """Rows of zero mean and a variance of 1, then a factor and a summand of each channel.

    `groups` rows of an image are its channels in so many parts; those of all images where their axis is not
    the first of `order`.
    """
    dims = call.dims(x)
    shape, back = [dims[axis] for axis in order], [order.index(axis) for axis in range(len(dims))]
    rows = groups * (dims[0] if order[0] == 0 else 1)
    result = call.onnx("Reshape", call.onnx("Transpose", x, perm=order), (rows, prod(dims) // rows))
    result = call.onnx("LayerNormalization", result, np.ones(prod(dims) // rows, _F32), axis=-1, epsilon=eps)
    result = call.onnx("Transpose", call.onnx("Reshape", result, shape), perm=back)
    for operator, values in zip(("Mul", "Add"), affine, strict=True):
        if values is not None:
            channels = call.onnx("Reshape", values, (1, -1, *(1,) * (len(dims) - 2)))
            result = call.onnx(operator, result, channels)
    return result


@ATEN("native_group_norm")
def _group_normalization(call: OperatorCall, x: Any, weight: Any, bias: Any, *numbers: Any) -> Made:
    *_, groups, eps = numbers  # the dims of the source before
    return _normalized_rows(call, x, (weight, bias), eps, groups, range(len(call.dims(x))))


@ATEN("_native_batch_norm_legit")
def _batch_statistics(call: OperatorCall, x: Any, weight: Any, bias: Any, *numbers: Any) -> Made:
    """A batch normalization by the mean and the variance of what comes: instances are a batch of one."""
    *running, training, _, eps = numbers
    if running or not training:
        raise call.unimplemented("it changes its running statistics")
    dims = call.dims(x)
    return _normalized_rows(call, x, (weight, bias), eps, dims[1], (1, 0, *range(2, len(dims))))


@ATEN(*ReductionProblem.aten)
def _reduction(call: OperatorCall, x: Any, dim: Any = None, *, keepdim: bool = False) -> Made:
    axes = (dim,) if isinstance(dim, int) else dim
    operator = ReductionProblem.aten[call.node.operator.removeprefix("aten.")]
    return call.onnx(str(operator), x, axes or None, keepdims=keepdim)


@ATEN("var")
def _variance(
    call: OperatorCall,
    x: Any,
    dim: Any = None,
    *,
    unbiased: bool = True,
    correction: Any = None,
    keepdim: bool = False,
) -> Made:
    dims = call.dims(x)
    axes = list(range(len(dims))) if dim is None else list(dim)
    count = prod(dims[axis] for axis in axes)
    distance = call.onnx("Sub", x, call.onnx("ReduceMean", x, axes, keepdims=1))
    mean = call.onnx("ReduceMean", call.onnx("Mul", distance, distance), axes, keepdims=keepdim)
    rest = count - (int(unbiased) if correction is None else correction)
    return call.onnx("Mul", mean, float(count / rest if rest > 0 else inf))


# --- products -----------------------------------------------------------------------------------------------


@ATEN("linear")
def _linear(call: OperatorCall, x: Any, weights: Any, bias: Any = None) -> Made:
    dims, outputs = call.dims(x), call.dims(weights)[0]
    rows = call.onnx("Reshape", x, (prod(dims[:-1]), dims[-1]))
    return call.onnx("Reshape", call.onnx("Gemm", rows, weights, bias, transB=1), (*dims[:-1], outputs))


@ATEN("scaled_dot_product_attention")
def _attention(
    call: OperatorCall,
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    is_causal: bool = False,
    enable_gqa: bool = False,
    scale: float | None = None,
) -> Made:
    """Scaled dot products, a softmax, and a weighted sum."""
    if is_causal or enable_gqa:
        raise call.unimplemented("it is causal, or of grouped queries", "bring the mask as a tensor")
    dims = call.dims(query)
    factor = np.array(dims[-1] ** -0.5 if scale is None else scale, _F32)
    scores = call.onnx("Mul", call.onnx("MatMul", query, call.matrices_transposed(key)), factor)
    scores = scores if mask is None else call.onnx("Add", scores, mask)
    return call.onnx("MatMul", call.onnx("Softmax", scores, axis=-1), value)


# --- windows ------------------------------------------------------------------------------------------------


@ATEN("convolution")
def _convolution(call: OperatorCall, x: Any, weights: Any, bias: Any, *numbers: Any) -> Made:
    strides, padding, dilations, is_transposed, more, group = numbers
    rank = len(call.dims(weights)) - 2
    names = "strides", "dilations", "pads", "output_padding"
    options = {
        name: _of_axes(value, rank)
        for name, value in zip(names, (strides, dilations, padding, more), strict=True)
        if is_transposed or name != "output_padding"
    }
    options["pads"] *= 2
    return call.onnx("ConvTranspose" if is_transposed else "Conv", x, weights, bias, group=group, **options)


@dataclass(frozen=True, slots=True)
class _PoolArguments:
    """The arguments of poolings behind the kernel."""

    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = False

    def onnx(self, kernel_size: Any, rank: int) -> dict[str, Any]:
        """The attributes of ONNX."""
        kernel = _of_axes(kernel_size, rank)
        strides, pads = _of_axes(self.stride or kernel, rank), _of_axes(self.padding, rank) * 2
        return {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": self.ceil_mode}


@ATEN("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _average_pooling(
    call: OperatorCall, x: Any, kernel_size: Any, *, pool: _PoolArguments, count_include_pad: bool = True
) -> Made:
    attributes = pool.onnx(kernel_size, int(call.node.operator[-2]))
    return call.onnx("AveragePool", x, count_include_pad=count_include_pad, **attributes)


@ATEN("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pooling(
    call: OperatorCall, x: Any, kernel_size: Any, *, pool: _PoolArguments, dilation: Any = 1
) -> Made:
    rank = int(call.node.operator[len("aten.max_pool")])
    return call.onnx("MaxPool", x, dilations=_of_axes(dilation, rank), **pool.onnx(kernel_size, rank))


@ATEN("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _adaptive_average(call: OperatorCall, x: Any, sizes: Any) -> Made:
    spatial = call.dims(x)[-len(sizes) :]
    if any(not size or n % size for n, size in zip(spatial, sizes, strict=True)):
        raise call.unimplemented("its windows are of several sizes", "use sizes that divide the input's")
    kernel = [n // size for n, size in zip(spatial, sizes, strict=True)]
    return call.onnx("AveragePool", x, kernel_shape=kernel, strides=kernel)


@ATEN("upsample_bilinear2d", "upsample_nearest2d")
def _resize(
    call: OperatorCall,
    x: Any,
    *,
    output_size: Any = None,
    align_corners: bool = False,
    scale_factors: Any = None,
) -> Made:
    """Upsampling to sizes or by scales."""
    mode = "linear" if "linear" in call.node.operator else "nearest"
    dims = call.dims(x)
    exact = output_size or [n * scale for n, scale in zip(dims[2:], scale_factors, strict=True)]
    spatial = list(map(int, exact))
    if spatial != list(exact) and not align_corners:
        raise call.unimplemented(f"it samples by {scale_factors}, which make no whole extents", "pass a size")
    word = "align_corners" if align_corners else "half_pixel" if mode == "linear" else "asymmetric"
    return call.onnx(
        "Resize",
        *(x, None, None, (*dims[:2], *spatial)),
        mode=mode,
        coordinate_transformation_mode=word,
        nearest_mode="floor",
    )


# --- moves --------------------------------------------------------------------------------------------------


@ATEN("squeeze")
def _squeeze(call: OperatorCall, x: Any, axes: Any) -> Made:
    dims = call.dims(x)
    places = [axis_of(axis, len(dims)) for axis in ((axes,) if isinstance(axes, int) else axes)]
    ones = [axis for axis in places if dims[axis] == 1]
    return call.onnx("Squeeze", x, ones) if ones else x


@ATEN("expand")
def _expand(call: OperatorCall, x: Any, extents: Any) -> Made:
    dims = call.dims(x)
    full = (1,) * (len(extents) - len(dims)) + dims
    if not all(size in (-1, n) for n, size in zip(full, extents, strict=True)):
        raise call.unimplemented("it repeats elements", "operators repeat dims of 1 by themselves")
    return call.onnx("Reshape", x, full)


@ATEN("split_with_sizes")
def _split(call: OperatorCall, x: Any, sizes: Any, dim: int = 0) -> Made:
    axis, apart = axis_of(dim, len(call.dims(x))), call.with_outputs(0)
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    return tuple(
        apart.onnx("Slice", x, (end - size,), (end,), (axis,), (1,))
        for size, end in zip(sizes, ends, strict=True)
    )


@ATEN("slice")
def _slice(
    call: OperatorCall, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Made:
    size = call.dims(x)[dim]
    return call.onnx(
        "Slice", x, (start or 0,), (size if end is None else min(end, size),), (dim,), (step or 1,)
    )


@ATEN("constant_pad_nd")
def _pad(call: OperatorCall, x: Any, pairs: Any, value: float = 0.0) -> Made:
    rank = len(call.dims(x))
    low, high = [0] * rank, [0] * rank
    # Pairs of torch begin with the last dim.
    for place in range(len(pairs) // 2):
        low[rank - 1 - place], high[rank - 1 - place] = pairs[2 * place], pairs[2 * place + 1]
    return call.onnx("Pad", x, (*low, *high), value)


@ATEN("channel_shuffle")
def _shuffle(call: OperatorCall, x: Any, groups: int) -> Made:
    batch, channels, *rest = call.dims(x)
    digits = call.onnx("Reshape", x, (batch, groups, channels // groups, *rest))
    mixed = call.onnx("Transpose", digits, perm=[0, 2, 1, *range(3, len(rest) + 3)])
    return call.onnx("Reshape", mixed, (batch, channels, *rest))


_ROWS: Mapping[str, Function | str] = {
    **dict.fromkeys(("alias", "clone", "detach", "lift_fresh_copy"), lambda call, x: x),
    **dict.fromkeys(
        ("_unsafe_view", "reshape", "view"), lambda call, x, size: call.onnx("Reshape", x, size, allowzero=1)
    ),
    **dict.fromkeys(("bmm", "matmul", "mm"), "MatMul"),
    "_log_softmax": lambda call, x, dim: call.onnx("LogSoftmax", x, axis=dim),
    "_softmax": lambda call, x, dim: call.onnx("Softmax", x, axis=dim),
    "addmm": lambda call, added, left, right: call.onnx("Gemm", left, right, added),
    "cat": lambda call, xs, dim=0: call.onnx("Concat", *xs, axis=dim),
    "hardtanh": lambda call, x, low=-1.0, high=1.0: _clamp(call, x, float(low), float(high)),
    "permute": lambda call, x, dims: call.onnx(
        "Transpose", x, perm=[axis_of(axis, len(dims)) for axis in dims]
    ),
    "relu6": lambda call, x: _clamp(call, x, 0.0, 6.0),
    "rsqrt": lambda call, x: call.onnx("Reciprocal", call.onnx("Sqrt", x)),
    "select": lambda call, x, dim, index: call.onnx("Gather", x, np.array(index, np.int64), axis=dim),
    "silu": lambda call, x: call.onnx("Mul", x, call.onnx("Sigmoid", x)),
    "softplus": lambda call, x: call.onnx("Softplus", x),
    "unsqueeze": lambda call, x, axis: call.onnx("Unsqueeze", x, (axis,)),
}
enter_rows(ATEN, _ROWS)

TORCH_OPERATORS = frozenset(ATEN)
"""The operators that an exported program may have, by their names without overloads."""
