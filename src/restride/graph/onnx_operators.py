"""ONNX operators as operations of the graph: one function each, by the operator's name (G2)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ..dtypes import DataType
from ..runtime.alloc import Array
from .onnx_context import OnnxContext, Value
from .onnx_known import KNOWN, axis_of, listed_input, new_dims, slices, squeezed, unsqueezed
from .onnx_quantised import dequantize, quantize
from .onnx_recurrent import gru, lstm, vanilla_rnn
from .onnx_tensors import ELEMENTS
from .onnx_windows import (
    average_pooling,
    convolution,
    deconvolution,
    global_average_pooling,
    global_max_pooling,
    max_pooling,
    resize,
)
from .operations import (
    BatchNormalizationOperation,
    BinaryOperation,
    ConcatOperation,
    EltwiseOperation,
    InnerProductOperation,
    LayerNormalizationOperation,
    LrnOperation,
    MatmulOperation,
    PadOperation,
    PReluOperation,
    ReductionOperation,
    ReorderOperation,
    SliceOperation,
    SoftmaxOperation,
    SumOperation,
    reciprocal_of,
)

Made = Value | tuple[Value, ...]
Translator = Callable[[OnnxContext], Made]


def made_of_onnx(context: OnnxContext) -> Made:
    """What a node becomes: values where all that it reads is known, else a tensor of the graph.

    Raises Unimplemented for an operator that computes with integers which only a run knows: restride does so
    in f32 and saturates, ONNX exactly and modulo 2**n.
    """
    node, known = context.node, [each for each in context.values if not isinstance(each, str)]
    if len(known) == len(context.values) and node.operator in KNOWN:
        return KNOWN[node.operator](node, known)
    translator = TRANSLATORS.get(node.operator)
    if translator is None:
        raise context.known_later("it reads what is known only in a run; restride has it for shapes alone")
    if node.operator not in _OF_ANY_TYPE:
        _check_floats(context)
    return translator(context)


def _check_floats(context: OnnxContext) -> None:
    for kind in context.types():
        is_exact = kind in (DataType.s8, DataType.u8) and context.node.operator in _OF_BYTES
        if kind.is_integral and not is_exact:
            raise context.unimplemented(
                f"it computes with {kind}, which restride rounds and saturates where ONNX wraps around",
                "compute with floats there",
            )


# --- elements -----------------------------------------------------------------------------------------------


def _eltwise(algorithm: str, alpha: float = 0.0, beta: float = 0.0, *named: str) -> Translator:
    """A function of these numbers, or of attributes that are `named` as they are."""

    def run(context: OnnxContext) -> Value:
        numbers = {"alpha": alpha, "beta": beta}
        numbers |= {name: float(context.attribute(name, numbers[name])) for name in named}
        return context.add(EltwiseOperation(f"eltwise_{algorithm}", **numbers), context.tensor(0))

    return run


def _clip(context: OnnxContext) -> Value:
    limits = []
    for at, name, most in ((1, "min", -np.inf), (2, "max", np.inf)):
        found = context.needed(at, name) if context.has(at) else context.attribute(name, most)
        limits.append(float(np.asarray(found).reshape(())))
    low, high = limits
    if low == 0 and high == np.inf:
        return context.add(EltwiseOperation("eltwise_relu"), context.tensor(0))
    return context.add(EltwiseOperation("eltwise_clip", low, high), context.tensor(0))


def _gelu(context: OnnxContext) -> Value:
    word = "gelu_tanh" if context.attribute("approximate", "none") == "tanh" else "gelu_erf"
    return context.add(EltwiseOperation(f"eltwise_{word}"), context.tensor(0))


def _prelu(context: OnnxContext) -> Value:
    slopes = context.of_rank(context.value(1), len(context.dims(0)))
    return context.add(PReluOperation(), context.tensor(0), slopes)


def _linear(context: OnnxContext, alpha: float, beta: float, at: int) -> Value:
    return context.add(EltwiseOperation("eltwise_linear", alpha, beta), context.tensor(at))


def _scalar(context: OnnxContext, at: int) -> float | None:
    """An input of one known value that does not make the other larger."""
    found = context.known(at)
    if found is None or found.size != 1 or found.ndim > len(context.dims(1 - at)):
        return None
    return float(found.reshape(()))


def _add(context: OnnxContext) -> Value:
    for at in (0, 1):
        number = _scalar(context, at)
        if number is not None:
            return _linear(context, 1.0, number, 1 - at)
    return context.binary("add", context.value(0), context.value(1))


def _subtract(context: OnnxContext) -> Value:
    left, right = _scalar(context, 0), _scalar(context, 1)
    if right is not None:
        return _linear(context, 1.0, -right, 0)
    if left is not None:
        return _linear(context, -1.0, left, 1)
    return context.binary("sub", context.value(0), context.value(1))


def _multiply(context: OnnxContext) -> Value:
    for at in (0, 1):
        number = _scalar(context, at)
        if number is not None:
            return _linear(context, number, 0.0, 1 - at)
    return context.binary("mul", context.value(0), context.value(1))


def _divide(context: OnnxContext) -> Value:
    left, right = _scalar(context, 0), _scalar(context, 1)
    factor = None if right is None else reciprocal_of(right)
    if factor is not None:
        return _linear(context, factor, 0.0, 0)
    if left is not None:
        return context.add(EltwiseOperation("eltwise_pow", left, -1.0), context.tensor(1))
    return context.binary("div", context.value(0), context.value(1))


def _power(context: OnnxContext) -> Value:
    exponent = _scalar(context, 1)
    if exponent is None:
        raise context.unimplemented("its exponent is no single known number", "use Exp and Log")
    if exponent == 2:
        return context.add(EltwiseOperation("eltwise_square"), context.tensor(0))
    return context.add(EltwiseOperation("eltwise_pow", 1.0, exponent), context.tensor(0))


def _several(algorithm: str) -> Callable[[OnnxContext], Value]:
    """A binary operation on two inputs or more, from left to right."""

    def run(context: OnnxContext) -> Value:
        made: Value = context.value(0)
        for at in range(1, len(context.values)):
            made = context.binary(algorithm, made, context.value(at))
        return made

    return run


def _sum(context: OnnxContext) -> Value:
    names = [context.tensor(at) for at in range(len(context.values))]
    dims = {context.builder.type(name).dims for name in names}
    if len(names) > 2 and len(dims) == 1:
        return context.add(SumOperation((1.0,) * len(names)), *names)
    return _several("add")(context)


def _cast(context: OnnxContext) -> Value:
    number = int(context.attribute("to"))
    wanted = DataType.bf16 if number == 16 else DataType.parse(ELEMENTS[number])
    name = context.tensor(0)
    before = context.builder.type(name).data_type
    if wanted is before:
        return name
    if wanted.is_integral and not before.is_integral:
        raise context.unimplemented(
            "it cuts off fractions, where restride rounds", "compute with floats there"
        )
    if wanted.is_integral and wanted is not DataType.s32:
        raise context.unimplemented(
            f"it keeps the low bits of {before}, where restride saturates", "QuantizeLinear saturates too"
        )
    return context.add(ReorderOperation(wanted), name)


# --- normalizations -----------------------------------------------------------------------------------------


def _batch_normalization(context: OnnxContext) -> Value:
    if len([name for name in context.node.outputs if name]) > 1 or context.attribute("training_mode", 0):
        raise context.unimplemented("it trains", "save the model for inference")
    operation = BatchNormalizationOperation(float(context.attribute("epsilon", 1e-5)))
    return context.add(operation, *(context.tensor(at) for at in range(5)))


def _layer_normalization(context: OnnxContext) -> Value:
    rank = len(context.dims(0))
    if axis_of(context.attribute("axis", -1), rank) != rank - 1 or len(context.node.outputs) > 1:
        raise context.unimplemented("its statistics are not of the last dim alone, or are outputs")
    channels = context.dims(0)[-1]
    shift = context.tensor(2) if context.has(2) else context.placed(np.zeros(channels, np.float32))
    operation = LayerNormalizationOperation(float(context.attribute("epsilon", 1e-5)))
    source, scale, dims = context.tensor(0), context.tensor(1), context.dims(0)
    if rank > 1:
        return context.add(operation, source, scale, shift)
    row = context.builder.add(operation, context.reshaped(source, (1, *dims)), scale, shift)
    return context.reshaped(row, dims)


def _lrn(context: OnnxContext) -> Value:
    numbers = [float(context.attribute(*each)) for each in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))]
    operation = LrnOperation("lrn_across_channels", int(context.attribute("size")), *numbers)
    return context.add(operation, context.tensor(0))


def _softmax(algorithm: str) -> Translator:
    def run(context: OnnxContext) -> Value:
        dims, name = context.dims(0), context.tensor(0)
        axis = axis_of(context.attribute("axis", 1 if context.opset < 13 else -1), len(dims))
        rest = prod(dims[axis + 1 :])
        if context.opset >= 13 or rest == 1:
            return context.add(SoftmaxOperation(algorithm, axis), name)
        # Before opset 13 all dims from the axis on were one.
        flat = context.reshaped(name, (prod(dims[:axis]), prod(dims[axis:])))
        return context.reshaped(context.builder.add(SoftmaxOperation(algorithm, 1), flat), dims)

    return run


def _reduction(algorithm: str) -> Translator:
    def run(context: OnnxContext) -> Value:
        dims, name = context.dims(0), context.tensor(0)
        if context.has(1):
            context.needed(1, "the list of axes")
        axes = listed_input(context.node, [None, context.known(1)], 1, "axes")
        if not axes and context.attribute("noop_with_empty_axes", 0):
            return name
        which = tuple(sorted({axis_of(axis, len(dims)) for axis in axes or range(len(dims))}))
        if context.builder.type(name).data_type is DataType.boolean and not prod(dims[i] for i in which):
            raise context.unimplemented("it reduces no elements to a truth value")
        p = 2.0 if algorithm.endswith("_sum") and "norm" in algorithm else 0.0
        made = context.builder.add(ReductionOperation(f"reduction_{algorithm}", which, p), name)
        if context.attribute("keepdims", 1):
            return made
        return context.reshaped(made, [n for i, n in enumerate(dims) if i not in which])

    return run


# --- products -----------------------------------------------------------------------------------------------


def _product(context: OnnxContext) -> Value:
    """Gemm: an inner product where the right side is known, else a matmul."""
    alpha, beta = (float(context.attribute(name, 1.0)) for name in ("alpha", "beta"))
    right, added = context.known(1), context.known(2)
    left = context.tensor(0)
    if context.attribute("transA", 0):
        left = context.transposed(left, (1, 0))
    if right is None or right.ndim != 2 or (context.has(2) and added is None):
        return _general_product(context, left, alpha, beta)
    weights = right if context.attribute("transB", 0) else right.T
    outputs = weights.shape[0]
    operands = [left, context.placed(weights * np.float32(alpha) if alpha != 1 else weights)]
    if added is not None and beta:
        if added.size not in (1, outputs) or (added.ndim == 2 and added.shape[0] != 1):
            return _general_product(context, left, alpha, beta)
        bias = np.broadcast_to(added.reshape(-1) * np.float32(beta), outputs)
        operands.append(context.placed(bias))
    return context.add(InnerProductOperation(), *operands)


def _general_product(context: OnnxContext, left: str, alpha: float, beta: float) -> Value:
    right = context.tensor(1)
    if context.attribute("transB", 0):
        right = context.transposed(right, (1, 0))
    made = context.builder.add(MatmulOperation(), left, right)
    if alpha != 1:
        made = context.builder.add(EltwiseOperation("eltwise_linear", alpha), made)
    if not context.has(2) or not beta:
        return made
    added = context.tensor(2)
    if beta != 1:
        added = context.builder.add(EltwiseOperation("eltwise_linear", beta), added)
    return context.binary("add", made, added)


def _matmul(context: OnnxContext) -> Value:
    left, right = context.dims(0), context.dims(1)
    names = [context.tensor(0), context.tensor(1)]
    if len(left) == 1:
        names[0] = context.reshaped(names[0], (1, *left))
    if len(right) == 1:
        names[1] = context.reshaped(names[1], (*right, 1))
    dims = [context.builder.type(name).dims for name in names]
    if len(dims[1]) == 2 < len(dims[0]):
        # Rows of all matrices times one matrix: a single product.
        flat = context.reshaped(names[0], (prod(dims[0][:-1]), dims[0][-1]))
        made = context.builder.add(MatmulOperation(), flat, names[1])
        full: tuple[int, ...] = (*dims[0][:-1], dims[1][-1])
    else:
        rank = max(map(len, dims))
        made = context.builder.add(MatmulOperation(), *(context.of_rank(name, rank) for name in names))
        full = context.builder.type(made).dims
    if len(left) == 1:
        full = (*full[:-2], full[-1])
    return context.reshaped(made, full[:-1] if len(right) == 1 else full)


# --- moves --------------------------------------------------------------------------------------------------


def _concat(context: OnnxContext) -> Value:
    axis = axis_of(context.attribute("axis"), len(context.dims(0)))
    names = [context.tensor(at) for at in range(len(context.values))]
    return names[0] if len(names) == 1 else context.add(ConcatOperation(axis), *names)


def _split(context: OnnxContext) -> Made:
    dims = context.dims(0)
    axis, parts = axis_of(context.attribute("axis", 0), len(dims)), len(context.node.outputs)
    if context.has(1):
        context.needed(1, "the list of sizes")
    sizes = listed_input(context.node, [None, context.known(1)], 1, "split")
    if sizes is None:
        each = -(-dims[axis] // parts)
        sizes = [each] * (parts - 1) + [dims[axis] - each * (parts - 1)]
    if sum(sizes) != dims[axis] or len(sizes) != parts or min(sizes) < 0:
        raise ValueError(f"parts of {sizes} of {dims[axis]} elements, and {parts} outputs")
    starts = [sum(sizes[:i]) for i in range(parts)]
    return tuple(_part(context, axis, start, size) for start, size in zip(starts, sizes, strict=True))


def _part(context: OnnxContext, axis: int, start: int, size: int) -> Value:
    dims = context.dims(0)
    starts, sizes = [0] * len(dims), list(dims)
    starts[axis], sizes[axis] = start, size
    operation = SliceOperation(tuple(starts), tuple(sizes), (1,) * len(dims))
    return context.builder.add(operation, context.tensor(0))


def _slice(context: OnnxContext) -> Value:
    for at in range(1, len(context.values)):
        if context.has(at):
            context.needed(at, "what it takes")
    dims = context.dims(0)
    known: list[Array | None] = [None, *(context.known(at) for at in range(1, len(context.values)))]
    ranges = [each.indices(n) for each, n in zip(slices(context.node, known, len(dims)), dims, strict=True)]
    sizes = tuple(len(range(*each)) for each in ranges)
    starts = tuple(start if size else 0 for (start, _, _), size in zip(ranges, sizes, strict=True))
    # Of one element, or none, there is no next one.
    steps = tuple(step if size > 1 else 1 for (_, _, step), size in zip(ranges, sizes, strict=True))
    if sizes == dims and min(steps, default=1) > 0:
        return context.tensor(0)
    return context.add(SliceOperation(starts, sizes, steps), context.tensor(0))


def _gather(context: OnnxContext) -> Value:
    indices = context.needed(1, "the list of indices")
    dims = context.dims(0)
    axis = axis_of(context.attribute("axis", 0), len(dims))
    if indices.dtype.kind not in "iu":
        raise ValueError(f"its indices are {indices.dtype}")
    flat = [axis_of(n, dims[axis], "element") for n in indices.reshape(-1)]
    if not flat or flat != list(range(flat[0], flat[0] + len(flat))):
        raise context.unimplemented("its indices do not follow each other", "use Slice and Concat")
    part = _part(context, axis, flat[0], len(flat))
    assert isinstance(part, str)
    return context.reshaped(part, (*dims[:axis], *indices.shape, *dims[axis + 1 :]))


def _transpose(context: OnnxContext) -> Value:
    rank = len(context.dims(0))
    return context.transposed(context.tensor(0), context.attribute("perm") or range(rank)[::-1])


def _reshape(context: OnnxContext) -> Value:
    if context.has(1):
        context.needed(1, "the new shape")
    wanted = listed_input(context.node, [None, context.known(1)], 1, "shape")
    return context.reshaped(context.tensor(0), new_dims(context.dims(0), wanted or [], context.node))


def _flatten(context: OnnxContext) -> Value:
    # As many dims as there are may be in front.
    dims, axis = context.dims(0), int(context.attribute("axis", 1))
    axis = axis if axis == len(dims) else axis_of(axis, len(dims))
    return context.reshaped(context.tensor(0), (prod(dims[:axis]), prod(dims[axis:])))


def _squeeze(context: OnnxContext) -> Value:
    axes = listed_input(context.node, [None, context.known(1)], 1, "axes")
    return context.reshaped(context.tensor(0), squeezed(context.dims(0), axes))


def _unsqueeze(context: OnnxContext) -> Value:
    axes = listed_input(context.node, [None, context.known(1)], 1, "axes")
    return context.reshaped(context.tensor(0), unsqueezed(context.dims(0), axes or []))


def _pad(context: OnnxContext) -> Value:
    mode = context.attribute("mode", "constant")
    if context.has(1):
        context.needed(1, "the padding")
    pads = listed_input(context.node, [None, context.known(1)], 1, "pads") or []
    rank = len(context.dims(0))
    if context.has(3):
        axes = [axis_of(axis, rank) for axis in context.needed(3, "the list of axes").reshape(-1)]
        ends = dict(zip(axes, zip(pads[: len(axes)], pads[len(axes) :], strict=True), strict=True))
        pads = [ends.get(axis, (0, 0))[side] for side in (0, 1) for axis in range(rank)]
    low, high = tuple(pads[:rank]), tuple(pads[rank:])
    if mode == "reflect":
        return _reflected(context, low, high)
    if mode != "constant":
        raise context.unimplemented("it pads with other than a constant or a reflection")
    value = context.needed(2, "the value") if context.has(2) else np.array(context.attribute("value", 0.0))
    return context.add(PadOperation(low, high, float(value.reshape(()))), context.tensor(0))


def _reflected(context: OnnxContext, low: tuple[int, ...], high: tuple[int, ...]) -> Value:
    """Dim by dim the elements beside the first one and the last one, backwards, around the tensor."""
    name = context.tensor(0)
    for axis, (before, behind) in enumerate(zip(low, high, strict=True)):
        dims = context.builder.type(name).dims
        if not 0 <= min(before, behind) <= max(before, behind) < max(dims[axis], 1):
            raise ValueError(f"{before} and {behind} elements are reflected of {dims[axis]}")
        parts = [
            _backwards(context, name, axis, before, before),
            name,
            _backwards(context, name, axis, dims[axis] - 2, behind),
        ]
        found = [part for part in parts if part]
        if len(found) > 1:
            name = context.builder.add(ConcatOperation(axis), *found)
    return name


def _backwards(context: OnnxContext, name: str, axis: int, start: int, size: int) -> str:
    """`size` elements of an axis from `start` on, one after the other towards the first; "" of none."""
    if not size:
        return ""
    dims = context.builder.type(name).dims
    starts, sizes, steps = [0] * len(dims), list(dims), [1] * len(dims)
    starts[axis], sizes[axis], steps[axis] = start, size, -1
    return context.builder.add(SliceOperation(tuple(starts), tuple(sizes), tuple(steps)), name)


def _shape(context: OnnxContext) -> Value:
    dims = context.dims(0)[context.attribute("start", 0) : context.attribute("end")]
    return np.array(dims, np.int64)


def _size(context: OnnxContext) -> Value:
    return np.array(prod(context.dims(0)), np.int64)


def _same(context: OnnxContext) -> Value:
    return context.value(0)


def _dropout(context: OnnxContext) -> Value:
    """Nothing: it is for training."""
    if context.has(2) and context.needed(2, "whether it trains").any():
        raise context.unimplemented("it trains", "save the model for inference")
    return context.value(0)


def _where(context: OnnxContext) -> Value:
    values = [context.value(at) for at in (1, 2, 0)]
    rank = max(len(context.dims(at)) for at in range(3))
    return context.add(BinaryOperation("binary_select"), *(context.of_rank(each, rank) for each in values))


TRANSLATORS: dict[str, Translator] = {
    "Abs": _eltwise("abs"),
    "Add": _add,
    "AveragePool": average_pooling,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": convolution,
    "ConvTranspose": deconvolution,
    "DequantizeLinear": dequantize,
    "Div": _divide,
    "Dropout": _dropout,
    "Elu": _eltwise("elu", 1.0, 0.0, "alpha"),
    "Exp": _eltwise("exp"),
    "Flatten": _flatten,
    "GRU": gru,
    "Gather": _gather,
    "Gelu": _gelu,
    "Gemm": _product,
    "GlobalAveragePool": global_average_pooling,
    "GlobalMaxPool": global_max_pooling,
    "HardSigmoid": _eltwise("hardsigmoid", 0.2, 0.5, "alpha", "beta"),
    "HardSwish": _eltwise("hardswish", 1 / 6, 0.5),
    "Identity": _same,
    "LRN": _lrn,
    "LSTM": lstm,
    "LayerNormalization": _layer_normalization,
    "LeakyRelu": _eltwise("relu", 0.01, 0.0, "alpha"),
    "Log": _eltwise("log"),
    "LogSoftmax": _softmax("softmax_log"),
    "MatMul": _matmul,
    "Max": _several("max"),
    "MaxPool": max_pooling,
    "Min": _several("min"),
    "Mish": _eltwise("mish"),
    "Mul": _multiply,
    "Neg": _eltwise("linear", -1.0),
    "PRelu": _prelu,
    "RNN": vanilla_rnn,
    "Pad": _pad,
    "Pow": _power,
    "QuantizeLinear": quantize,
    "Reciprocal": _eltwise("pow", 1.0, -1.0),
    "ReduceL2": _reduction("norm_lp_sum"),
    "ReduceMax": _reduction("max"),
    "ReduceMean": _reduction("mean"),
    "ReduceMin": _reduction("min"),
    "ReduceProd": _reduction("mul"),
    "ReduceSum": _reduction("sum"),
    "Relu": _eltwise("relu"),
    "Reshape": _reshape,
    "Resize": resize,
    "Round": _eltwise("round"),
    "Shape": _shape,
    "Sigmoid": _eltwise("logistic"),
    "Size": _size,
    "Slice": _slice,
    "Softmax": _softmax("softmax_accurate"),
    "Softplus": _eltwise("soft_relu", 1.0),
    "Split": _split,
    "Sqrt": _eltwise("sqrt"),
    "Squeeze": _squeeze,
    "Sub": _subtract,
    "Sum": _sum,
    "Tanh": _eltwise("tanh"),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Upsample": resize,
    "Where": _where,
}
"""What each operator becomes where some of its inputs are known only in a run."""

_OF_ANY_TYPE = frozenset((
    "Cast", "Concat", "DequantizeLinear", "Dropout", "Flatten", "Gather", "Identity", "Pad", "QuantizeLinear",
    "Reshape", "Shape", "Size", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
))  # fmt: skip
"""Operators that move elements, or say themselves which types they take."""

_OF_BYTES = frozenset((
    "Clip", "GlobalMaxPool", "Max", "MaxPool", "Min", "ReduceMax", "ReduceMin", "Relu", "Where",
))  # fmt: skip
"""Operators that give one of the elements which they read: exact in f32 for integers of 8 bits."""

CONDITIONAL = "If"
"""The operator whose branches are graphs: the one that a known condition takes is translated in its place."""

OPERATORS = frozenset((*TRANSLATORS, *KNOWN, CONDITIONAL))
"""All operators that a model may have; those of `KNOWN` alone only on known values."""
