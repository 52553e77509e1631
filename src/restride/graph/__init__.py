"""Networks as graphs: operations, the tensors between them, and rewrites of both.

>>> import numpy as np
>>> import restride as rs
>>> builder = rs.graph.GraphBuilder()
>>> image = builder.input("image", (1, 3, 8, 8))
>>> weights = builder.constant(np.ones((16, 3, 3, 3), np.float32), "weights")
>>> window = rs.graph.ConvolutionOperation((1, 1), (0, 0), (1, 1), (1, 1))
>>> features = builder.add(window, image, weights, name="features")
>>> graph = builder.graph(features)
>>> graph.tensors[features].dims
(1, 16, 8, 8)
"""

import sys as _sys
import typing as _typing

from ..loading import load_whole as _load_whole

if _typing.TYPE_CHECKING:
    from .build import GraphBuilder
    from .graph import Constant, Epilogue, Graph, Node
    from .network.inputs import NetworkInput
    from .nodes.layers import (
        BatchNormalizationOperation,
        LayerNormalizationOperation,
        LrnOperation,
        PoolingOperation,
        ReductionOperation,
        ResamplingOperation,
        SoftmaxOperation,
    )
    from .nodes.moves import (
        ConcatOperation,
        PadOperation,
        ReorderOperation,
        ReshapeOperation,
        ShuffleOperation,
        SliceOperation,
        TransposeOperation,
    )
    from .nodes.operations import (
        BinaryOperation,
        DequantizeOperation,
        EltwiseOperation,
        Operation,
        PReluOperation,
        PrimitiveOperation,
        QuantizeOperation,
        SumOperation,
        TensorType,
    )
    from .nodes.products import (
        ConvolutionOperation,
        DeconvolutionOperation,
        InnerProductOperation,
        MatmulOperation,
        QuantizedMatmulOperation,
        WinogradConvolutionOperation,
    )
    from .nodes.recurrent import RecurrentOperation
    from .quantization.quantize import QuantizedNetwork
    from .rewrites.fusions import FUSIONS, AppliedFusion, FusedGraph, fuse

__all__ = [
    "FUSIONS",
    "AppliedFusion",
    "BatchNormalizationOperation",
    "BinaryOperation",
    "ConcatOperation",
    "Constant",
    "ConvolutionOperation",
    "DeconvolutionOperation",
    "DequantizeOperation",
    "EltwiseOperation",
    "Epilogue",
    "FusedGraph",
    "Graph",
    "GraphBuilder",
    "InnerProductOperation",
    "LayerNormalizationOperation",
    "LrnOperation",
    "MatmulOperation",
    "NetworkInput",
    "Node",
    "Operation",
    "PReluOperation",
    "PadOperation",
    "PoolingOperation",
    "PrimitiveOperation",
    "QuantizeOperation",
    "QuantizedMatmulOperation",
    "QuantizedNetwork",
    "RecurrentOperation",
    "ReductionOperation",
    "ReorderOperation",
    "ResamplingOperation",
    "ReshapeOperation",
    "ShuffleOperation",
    "SliceOperation",
    "SoftmaxOperation",
    "SumOperation",
    "TensorType",
    "TransposeOperation",
    "WinogradConvolutionOperation",
    "fuse",
]


_LATER = {
    name: module
    for module, names in {
        "build": "GraphBuilder",
        "graph": "Constant Epilogue Graph Node",
        "network.inputs": "NetworkInput",
        "nodes.layers": "BatchNormalizationOperation LayerNormalizationOperation LrnOperation "
        "PoolingOperation ReductionOperation ResamplingOperation SoftmaxOperation",
        "nodes.moves": "ConcatOperation PadOperation ReorderOperation ReshapeOperation ShuffleOperation "
        "SliceOperation TransposeOperation",
        "nodes.operations": "BinaryOperation DequantizeOperation EltwiseOperation Operation PReluOperation "
        "PrimitiveOperation QuantizeOperation SumOperation TensorType",
        "nodes.products": "ConvolutionOperation DeconvolutionOperation InnerProductOperation MatmulOperation "
        "QuantizedMatmulOperation WinogradConvolutionOperation",
        "nodes.recurrent": "RecurrentOperation",
        "quantization.quantize": "QuantizedNetwork",
        "rewrites.fusions": "AppliedFusion FUSIONS FusedGraph fuse",
    }.items()
    for name in names.split()
}


if not _typing.TYPE_CHECKING:  # to a type checker a name that is not public is an error

    def __getattr__(name: str) -> _typing.Any:
        """Return the public name `name`, loading its module on first use (PEP 562)."""
        if name not in _LATER:
            what = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(what, name=name, obj=_sys.modules[__name__])
        value = globals()[name] = getattr(_load_whole(f"{__name__}.{_LATER[name]}"), name)
        return value


def __dir__() -> list[str]:
    """Return the public names only."""
    return sorted(__all__)
