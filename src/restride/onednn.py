"""The programming model of oneDNN: primitives, each with its descriptor, by the names of `dnnl`.

A primitive is made of its operation, in `restride.ops`, when it is first asked for.
"""

from __future__ import annotations

from typing import Any

from .loading import load_whole

_OPERATIONS = {
    "BatchNormalizationBackward": "batch_normalization",
    "BatchNormalizationForward": "batch_normalization",
    "Binary": "binary",
    "Concat": "concat",
    "ConvolutionBackwardData": "convolution",
    "ConvolutionBackwardWeights": "convolution",
    "ConvolutionForward": "convolution",
    "DeconvolutionBackwardData": "convolution",
    "DeconvolutionBackwardWeights": "convolution",
    "DeconvolutionForward": "convolution",
    "EltwiseBackward": "eltwise",
    "EltwiseForward": "eltwise",
    "GroupNormalizationBackward": "group_normalization",
    "GroupNormalizationForward": "group_normalization",
    "GRUBackward": "rnn",
    "GRUForward": "rnn",
    "InnerProductBackwardData": "inner_product",
    "InnerProductBackwardWeights": "inner_product",
    "InnerProductForward": "inner_product",
    "LayerNormalizationBackward": "layer_normalization",
    "LayerNormalizationForward": "layer_normalization",
    "LBRGRUBackward": "rnn",
    "LBRGRUForward": "rnn",
    "LRNBackward": "lrn",
    "LRNForward": "lrn",
    "LSTMBackward": "rnn",
    "LSTMForward": "rnn",
    "Matmul": "matmul",
    "PoolingBackward": "pooling",
    "PoolingForward": "pooling",
    "PReLUBackward": "prelu",
    "PReLUForward": "prelu",
    "Reduction": "reduction",
    "ResamplingBackward": "resampling",
    "ResamplingForward": "resampling",
    "ShuffleBackward": "shuffle",
    "ShuffleForward": "shuffle",
    "SoftmaxBackward": "softmax",
    "SoftmaxForward": "softmax",
    "Sum": "sum",
    "VanillaRNNBackward": "rnn",
    "VanillaRNNForward": "rnn",
}

__all__ = list(_OPERATIONS)


def __getattr__(name: str) -> Any:
    """A primitive, loaded now (PEP 562)."""
    if name not in _OPERATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = globals()[name] = getattr(load_whole(f"restride.ops.{_OPERATIONS[name]}"), name)
    return found


def __dir__() -> list[str]:
    """The primitives, loaded or not."""
    return sorted(__all__)
