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
    from .fusions import FUSIONS, AppliedFusion, FusedGraph, fuse
    from .graph import Constant, Epilogue, Graph, Node
    from .layer_operations import (
        BatchNormalizationOperation,
        LayerNormalizationOperation,
        LrnOperation,
        PoolingOperation,
        ReductionOperation,
        ResamplingOperation,
        SoftmaxOperation,
    )
    from .move_operations import (
        ConcatOperation,
        PadOperation,
        ReorderOperation,
        ReshapeOperation,
        ShuffleOperation,
        SliceOperation,
        TransposeOperation,
    )
    from .operations import (
        BinaryOperation,
        DequantizeOperation,
        EltwiseOperation,
        Operation,
        PReluOperation,
        QuantizeOperation,
        SumOperation,
        TensorType,
    )
    from .product_operations import (
        ConvolutionOperation,
        DeconvolutionOperation,
        InnerProductOperation,
        MatmulOperation,
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
    "BatchNormalizationOperation": "layer_operations",
    "BinaryOperation": "operations",
    "ConcatOperation": "move_operations",
    "Constant": "graph",
    "ConvolutionOperation": "product_operations",
    "DeconvolutionOperation": "product_operations",
    "DequantizeOperation": "operations",
    "EltwiseOperation": "operations",
    "Epilogue": "graph",
    "FUSIONS": "fusions",
    "FusedGraph": "fusions",
    "Graph": "graph",
    "GraphBuilder": "build",
    "InnerProductOperation": "product_operations",
    "LayerNormalizationOperation": "layer_operations",
    "LrnOperation": "layer_operations",
    "MatmulOperation": "product_operations",
    "Node": "graph",
    "Operation": "operations",
    "PReluOperation": "operations",
    "PadOperation": "move_operations",
    "PoolingOperation": "layer_operations",
    "QuantizeOperation": "operations",
    "RecurrentOperation": "recurrent",
    "ReductionOperation": "layer_operations",
    "ReorderOperation": "move_operations",
    "ResamplingOperation": "layer_operations",
    "ReshapeOperation": "move_operations",
    "ShuffleOperation": "move_operations",
    "SliceOperation": "move_operations",
    "SoftmaxOperation": "layer_operations",
    "SumOperation": "operations",
    "TensorType": "operations",
    "TransposeOperation": "move_operations",
    "fuse": "fusions",
}


if not _typing.TYPE_CHECKING:  # to a type checker a name that is not public is an error

    def __getattr__(name: str) -> _typing.Any:
        """The public name `name`, from its module, which is loaded now (PEP 562)."""
        if name not in _LATER:
            what = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(what, name=name, obj=_sys.modules[__name__])
        found = globals()[name] = getattr(_load_whole(f"{__name__}.{_LATER[name]}"), name)
        return found


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
