"""The programming model of oneDNN, by the names of `dnnl`: engines, streams, memories, and primitives.

A primitive is made of its operation, in `restride.ops`, when it is first asked for. `Arg` has the arguments
of executions: `Arg.SRC` is `DNNL_ARG_SRC`.
"""

from __future__ import annotations

from .loading import lazy_attributes
from .model.base import PrimitiveDescBase as PrimitiveDesc

_LAZY_NAMES, __getattr__ = lazy_attributes(
    __name__,
    {
        "desc.algorithm": "Algorithm ScratchpadMode",
        "desc.arguments": "Arg arg_attr_multiple_post_op",
        "desc.attr": "PrimitiveAttr RUNTIME_F32_VAL RUNTIME_S32_VAL",
        "desc.layout": "RUNTIME_DIM",
        "desc.memory_desc": "MemoryDesc",
        "desc.post_ops": "PostOps",
        "desc.tags": "FormatTag MAX_NDIMS",
        "dtypes": "DataType",
        "errors": "Status",
        "model.primitive": "Primitive",
        "model.prop_kind": "PrimitiveKind PropKind",
        "model.query": "Query",
        "ops.batch_normalization": "BatchNormalizationBackward BatchNormalizationForward",
        "ops.binary": "Binary",
        "ops.concat": "Concat",
        "ops.convolution": "ConvolutionBackwardData ConvolutionBackwardWeights ConvolutionForward "
        "DeconvolutionBackwardData DeconvolutionBackwardWeights DeconvolutionForward",
        "ops.eltwise": "EltwiseBackward EltwiseForward",
        "ops.group_normalization": "GroupNormalizationBackward GroupNormalizationForward",
        "ops.inner_product": "InnerProductBackwardData InnerProductBackwardWeights InnerProductForward",
        "ops.layer_normalization": "LayerNormalizationBackward LayerNormalizationForward",
        "ops.lrn": "LRNBackward LRNForward",
        "ops.matmul": "Matmul",
        "ops.normalization": "NormalizationFlags",
        "ops.pooling": "PoolingBackward PoolingForward",
        "ops.prelu": "PReLUBackward PReLUForward",
        "ops.reduction": "Reduction",
        "ops.reorder": "Reorder",
        "ops.resampling": "ResamplingBackward ResamplingForward",
        "ops.rnn": "GRUBackward GRUForward LBRGRUBackward LBRGRUForward LSTMBackward LSTMForward "
        "VanillaRNNBackward VanillaRNNForward",
        "ops.rnn_checks": "RNNDirection RNNFlags",
        "ops.shuffle": "ShuffleBackward ShuffleForward",
        "ops.softmax": "SoftmaxBackward SoftmaxForward",
        "ops.sum": "Sum",
        "runtime.alloc": "NO_DATA",
        "runtime.cache": "get_primitive_cache_capacity set_primitive_cache_capacity",
        "runtime.engine": "Engine EngineKind",
        "runtime.event": "Event",
        "runtime.memory": "Memory",
        "runtime.stream": "Stream StreamFlags",
    },
)
__all__ = ["PrimitiveDesc"]
__all__ += _LAZY_NAMES


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted(__all__)
