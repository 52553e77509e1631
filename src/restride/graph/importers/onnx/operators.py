"""ONNX operators as operations of the graph: one function each, by the operator's name."""

from __future__ import annotations

from math import prod

import numpy as np

from ....dtypes import DataType
from ...nodes.layers import (
    BatchNormalizationOperation,
    LayerNormalizationOperation,
    LrnOperation,
    ReductionOperation,
    SoftmaxOperation,
)
from ...nodes.operations import AS_F32, EltwiseOperation
from ...nodes.products import InnerProductOperation, MatmulOperation
from .context import Made, OnnxContext, Translator, Value
from .elements import ELEMENT_TRANSLATORS
from .known import KNOWN, axis_of, listed_input
from .moves import MOVE_TRANSLATORS
from .quantised import dequantize, quantize
from .recurrent import gru, lstm, vanilla_rnn
from .windows import (
    average_pooling,
    convolution,
    deconvolution,
    global_average_pooling,
    global_max_pooling,
    max_pooling,
    resize,
)


def translate_node(context: OnnxContext) -> Made:
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
        _check_types(context)
    return translator(context)


def _check_types(context: OnnxContext) -> None:
    """Raise Unimplemented for integers that f32 rounds, and for doubles beside other floats."""
    operator = context.node.operator
    read = context.values[:1] if operator in _OF_FIRST else context.values
    kinds = tuple(dict.fromkeys(context.type_of(each) for each in read if each is not None))
    if DataType.f64 in kinds and any(kind in AS_F32 for kind in kinds):
        raise context.unimplemented(f"it mixes {' and '.join(map(str, kinds))}", "cast all to one type")
    for kind in kinds:
        is_exact = kind in (DataType.s8, DataType.u8) and operator in _OF_BYTES
        if kind.is_integral and not is_exact:
            raise context.unimplemented(
                f"it computes with {kind}, which restride rounds and saturates where ONNX wraps around",
                "compute with floats there",
            )


# --- normalizations -----------------------------------------------------------------------------------------


def _batch_normalization(context: OnnxContext) -> Value:
    if len([name for name in context.node.outputs if name]) > 1 or context.attribute("training_mode", 0):
        raise context.unimplemented("it trains", "save the model for inference")
    operation = BatchNormalizationOperation(float(context.attribute("epsilon", 1e-5)))
    parameters = [context.parameter(context.value(at)) for at in range(1, 5)]
    return context.add(operation, context.tensor(0), *parameters)


def _layer_normalization(context: OnnxContext) -> Value:
    rank = len(context.dims(0))
    if axis_of(context.attribute("axis", -1), rank) != rank - 1 or len(context.node.outputs) > 1:
        raise context.unimplemented("its statistics are not of the last dim alone, or are outputs")
    channels = context.dims(0)[-1]
    shift = context.parameter(context.value(2) if context.has(2) else np.zeros(channels, np.float32))
    operation = LayerNormalizationOperation(float(context.attribute("epsilon", 1e-5)))
    source, scale, dims = context.tensor(0), context.parameter(context.value(1)), context.dims(0)
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


def _reduction(algorithm: str, p: float = 0.0, alone: str = "") -> Translator:
    """A reduction; `alone`: the function that it is of one element."""

    def run(context: OnnxContext) -> Value:
        dims, name = context.dims(0), context.tensor(0)
        if context.has(1):
            context.needed(1, "the list of axes")
        axes = listed_input(context.node, [None, context.known(1)], 1, "axes")
        if not axes and not context.attribute("noop_with_empty_axes", 0):
            axes = list(range(len(dims)))
        which = tuple(sorted({axis_of(axis, len(dims)) for axis in axes or ()}))
        if not which:
            return context.function(alone) if alone else name
        if context.builder.type(name).data_type is DataType.boolean and not prod(dims[i] for i in which):
            raise context.unimplemented("it reduces no elements to a truth value")
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


TRANSLATORS: dict[str, Translator] = {
    **ELEMENT_TRANSLATORS,
    **MOVE_TRANSLATORS,
    "AveragePool": average_pooling,
    "BatchNormalization": _batch_normalization,
    "Conv": convolution,
    "ConvTranspose": deconvolution,
    "DequantizeLinear": dequantize,
    "GRU": gru,
    "Gemm": _product,
    "GlobalAveragePool": global_average_pooling,
    "GlobalMaxPool": global_max_pooling,
    "LRN": _lrn,
    "LSTM": lstm,
    "LayerNormalization": _layer_normalization,
    "LogSoftmax": _softmax("softmax_log"),
    "MatMul": _matmul,
    "MaxPool": max_pooling,
    "RNN": vanilla_rnn,
    "QuantizeLinear": quantize,
    "ReduceL1": _reduction("norm_lp_sum", 1.0, "abs"),
    "ReduceL2": _reduction("norm_lp_sum", 2.0, "abs"),
    "ReduceMax": _reduction("max"),
    "ReduceMean": _reduction("mean"),
    "ReduceMin": _reduction("min"),
    "ReduceProd": _reduction("mul"),
    "ReduceSum": _reduction("sum"),
    "ReduceSumSquare": _reduction("norm_lp_power_p_sum", 2.0, "square"),
    "Resize": resize,
    "Softmax": _softmax("softmax_accurate"),
    "Upsample": resize,
}
"""What each operator becomes where some of its inputs are known only in a run."""

_OF_ANY_TYPE = frozenset((
    "Cast", "Concat", "DequantizeLinear", "Dropout", "Flatten", "GRU", "Gather", "Identity", "LSTM", "Pad",
    "QuantizeLinear", "RNN", "Reshape", "Shape", "Size", "Slice", "Split", "Squeeze", "Transpose",
    "Unsqueeze",
))  # fmt: skip
"""Operators that move elements, or say themselves which types they take."""

_OF_FIRST = frozenset(("Pow", "Resize", "Upsample", *(name for name in TRANSLATORS if name[:6] == "Reduce")))
"""Operators whose result is of the type of the first input; the others, of any types, are numbers for it."""

_OF_BYTES = frozenset((
    "Clip", "GlobalMaxPool", "Max", "MaxPool", "Min", "ReduceMax", "ReduceMin", "Relu", "Where",
))  # fmt: skip
"""Operators that give one of the elements which they read: exact in f32 for integers of 8 bits."""

CONDITIONAL = "If"
"""The operator whose branches are graphs: the one that a known condition takes is translated in its place."""

OPERATORS = frozenset((*TRANSLATORS, *KNOWN, CONDITIONAL))
"""All operators that a model may have; those of `KNOWN` alone only on known values."""
