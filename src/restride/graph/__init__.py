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


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
