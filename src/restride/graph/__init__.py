"""Networks as graphs: operations, the tensors between them, and rewrites of both (G1).

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

import typing as _typing

from ..loading import load_whole as _load_whole

if _typing.TYPE_CHECKING:
    from .build import GraphBuilder
    from .fusions import FUSIONS, AppliedFusion, FusedGraph, fuse
    from .graph import Constant, Epilogue, Graph, Node
    from .operations import (
        BatchNormalizationOperation,
        BinaryOperation,
        ConcatOperation,
        ConvolutionOperation,
        DeconvolutionOperation,
        DequantizeOperation,
        EltwiseOperation,
        InnerProductOperation,
        LayerNormalizationOperation,
        LrnOperation,
        MatmulOperation,
        Operation,
        PadOperation,
        PoolingOperation,
        PReluOperation,
        QuantizeOperation,
        ReductionOperation,
        ReorderOperation,
        ResamplingOperation,
        ReshapeOperation,
        ShuffleOperation,
        SliceOperation,
        SoftmaxOperation,
        SumOperation,
        TensorType,
        TransposeOperation,
    )
    from .recurrent import RecurrentOperation

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
    "Node",
    "Operation",
    "PReluOperation",
    "PadOperation",
    "PoolingOperation",
    "QuantizeOperation",
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
    "fuse",
]


_LATER = {
    "AppliedFusion": "fusions",
    "BatchNormalizationOperation": "operations",
    "BinaryOperation": "operations",
    "ConcatOperation": "operations",
    "Constant": "graph",
    "ConvolutionOperation": "operations",
    "DeconvolutionOperation": "operations",
    "DequantizeOperation": "operations",
    "EltwiseOperation": "operations",
    "Epilogue": "graph",
    "FUSIONS": "fusions",
    "FusedGraph": "fusions",
    "Graph": "graph",
    "GraphBuilder": "build",
    "InnerProductOperation": "operations",
    "LayerNormalizationOperation": "operations",
    "LrnOperation": "operations",
    "MatmulOperation": "operations",
    "Node": "graph",
    "Operation": "operations",
    "PReluOperation": "operations",
    "PadOperation": "operations",
    "PoolingOperation": "operations",
    "QuantizeOperation": "operations",
    "RecurrentOperation": "recurrent",
    "ReductionOperation": "operations",
    "ReorderOperation": "operations",
    "ResamplingOperation": "operations",
    "ReshapeOperation": "operations",
    "ShuffleOperation": "operations",
    "SliceOperation": "operations",
    "SoftmaxOperation": "operations",
    "SumOperation": "operations",
    "TensorType": "operations",
    "TransposeOperation": "operations",
    "fuse": "fusions",
}


if not _typing.TYPE_CHECKING:  # to a type checker a name that is not public is an error

    def __getattr__(name: str) -> _typing.Any:
        """The public name `name`, from its module, which is loaded now (PEP 562)."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(_load_whole(f"{__name__}.{_LATER[name]}"), name)
        return found


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
