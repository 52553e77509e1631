"""Operations, one file each: the checked problem, its arguments, its loop tree and its gradient.

A problem class holds everything specific to an operation. `restride.model` derives primitive descriptors and
primitives from it; `restride.graph` derives the nodes of networks, the importers' table rows, and functions
on arrays named after ONNX operators, which are the public names here.

>>> import numpy as np
>>> import restride as rs
>>> rs.ops.LeakyRelu(np.array([-2, 3], np.float32), alpha=0.5)
array([-1.,  3.], dtype=float32)
>>> rs.ops.ReduceSum(np.ones((2, 3), np.float32), (1,), keepdims=False)
array([3., 3.], dtype=float32)
"""

from __future__ import annotations

import sys
from typing import Any

from ..loading import load_whole

PRIMITIVES = {
    "attention": "ScaledDotProductAttention ScaledDotProductAttentionBackward",
    "batch_normalization": "BatchNormalizationBackward BatchNormalizationForward",
    "binary": "Binary",
    "concat": "Concat",
    "convolution": "ConvolutionBackwardData ConvolutionBackwardWeights ConvolutionForward "
    "DeconvolutionBackwardData DeconvolutionBackwardWeights DeconvolutionForward",
    "elementwise": "Elementwise ElementwiseBackward",
    "eltwise": "EltwiseBackward EltwiseForward",
    "gather": "Gather GatherBackward ReverseSequence",
    "group_normalization": "GroupNormalizationBackward GroupNormalizationForward",
    "inner_product": "InnerProductBackwardData InnerProductBackwardWeights InnerProductForward",
    "interpolation": "Interpolation InterpolationBackward",
    "layer_normalization": "LayerNormalizationBackward LayerNormalizationForward",
    "lrn": "LRNBackward LRNForward",
    "matmul": "Matmul",
    "pooling": "MaxPooling PoolingBackward PoolingForward",
    "prelu": "PReLUBackward PReLUForward",
    "reduction": "Reduction ReductionBackward",
    "resampling": "ResamplingBackward ResamplingForward",
    "rnn": "GRUBackward GRUForward LBRGRUBackward LBRGRUForward LSTMBackward LSTMForward "
    "VanillaRNNBackward VanillaRNNForward",
    "scan": "Scan ScanBackward",
    "scatter": "OneHot Scatter ScatterBackward",
    "selection": "ArgReduction TopK",
    "shuffle": "ShuffleBackward ShuffleForward",
    "softmax": "SoftmaxBackward SoftmaxForward",
    "sum": "Sum",
    "tile": "Tile TileBackward Trilu",
}
"""The module of each operation, and the primitives built from it."""

_FUNCTIONS = "restride.graph.operator_functions"


def __getattr__(name: str) -> Any:
    """Return the function of an ONNX operator, built on first access (PEP 562)."""
    if name == "__all__":
        return __dir__()
    if not name[:1].isupper():  # the import system looks up submodules here before they are loaded
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    globals()[name] = function = load_whole(_FUNCTIONS).operator_function(name)
    return function


def __dir__() -> list[str]:
    """Return the names of the operators."""
    return list(load_whole(_FUNCTIONS).operator_names())
