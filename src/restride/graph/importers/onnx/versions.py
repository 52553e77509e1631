"""The supported versions of ONNX's operators, and the operators and types in each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....desc.parse import short_repr
from ....errors import Error, refuse
from .functions import all_nodes
from .model import OnnxModel, OnnxNode

__all__ = ["NEWEST", "version_errors"]

NEWEST = 28
"""The newest version of the operators that is read; the oldest is 1."""

# The version that added each operator, if later than 1. LayerNormalization, added in 17, is read in every
# version: ONNX Runtime writes it into models of any version, and runs it.
_CAME = {
    7: "Acos Asin Atan Cos Sin Tan",
    8: "Expand Scan",
    9: "Acosh Asinh Atanh Compress ConstantOfShape Cosh Erf EyeLike IsNaN MaxUnpool "
    "MeanVarianceNormalization OneHot Scatter Shrink Sign Sinh Where",
    10: "ConvInteger DequantizeLinear IsInf MatMulInteger Mod QLinearConv QLinearMatMul QuantizeLinear "
    "Resize ReverseSequence ThresholdedRelu",
    11: "BitShift ConcatFromSequence CumSum DynamicQuantizeLinear GatherElements GatherND Range Round "
    "ScatterElements ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert "
    "SequenceLength SplitToSequence",
    12: "Celu Einsum GreaterOrEqual LessOrEqual",
    14: "HardSwish Trilu",
    15: "CastLike Optional OptionalGetElement OptionalHasElement",
    16: "GridSample",
    17: "DFT STFT",
    18: "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor GroupNormalization Mish",
    20: "Gelu",
    23: "Attention RMSNormalization RotaryEmbedding",
    24: "Swish",
    26: "CumProd",
}
_FIRST: Mapping[str, int] = {name: version for version, names in _CAME.items() for name in names.split()}

# The attributes that became inputs, by version and operator.
_INPUTS_SINCE = {
    5: {"Reshape": "shape"},
    10: {"Slice": "starts ends axes", "TopK": "k"},
    11: {"Clip": "min max", "Pad": "pads value"},
    12: {"Dropout": "ratio"},
    13: {"ReduceSum": "axes", "Split": "split", "Squeeze": "axes", "Unsqueeze": "axes"},
    18: {
        "ReduceL1": "axes",
        "ReduceL2": "axes",
        "ReduceLogSum": "axes",
        "ReduceLogSumExp": "axes",
        "ReduceMax": "axes",
        "ReduceMean": "axes",
        "ReduceMin": "axes",
        "ReduceProd": "axes",
        "ReduceSumSquare": "axes",
    },
    20: {"DFT": "axis"},
}
_ENDED = {
    (operator, name): version
    for version, each in _INPUTS_SINCE.items()
    for operator, names in each.items()
    for name in names.split()
}


def version_errors(model: OnnxModel) -> Iterator[tuple[OnnxNode | None, Error]]:
    """Yield an Unimplemented error for each version that is not read, and an InvalidArguments error, with the
    node, for each operator or attribute that its version lacks.
    """
    if model.functions is None:  # operators of another table than ONNX's
        return
    graphs = [("the ONNX model", model.opset, model.nodes)]
    graphs += [
        (f"function {short_repr(name)}", each.opset, each.nodes) for name, each in model.functions.items()
    ]
    for what, opset, top in graphs:
        nodes = list(all_nodes(top))
        if any(node.has_onnx_operator for node in nodes) and not 1 <= opset <= NEWEST:
            yield None, refuse("RS-G02:opset", what=what, opset=opset or "none", newest=NEWEST)
            continue
        for node in nodes:
            first = _FIRST.get(node.operator, 1)
            if opset < first:
                yield node, refuse("RS-G01:operator-not-in-opset", node=node, opset=opset, first=first)
            for name in node.attributes:
                ended = _ENDED.get((node.operator, name), NEWEST + 1)
                if opset >= ended:
                    raised = refuse(
                        "RS-G01:attribute-not-in-opset", node=node, name=name, opset=opset, ended=ended
                    )
                    yield node, raised
