"""Operations, one file each: the checked problem, its arguments, its loop tree and its gradient.

A class of problems says all that is special about an operation. `restride.model` derives primitive
descriptors and primitives from it, `restride.graph` the nodes of networks and the rows of importers.
"""

PRIMITIVES = {
    "batch_normalization": "BatchNormalizationBackward BatchNormalizationForward",
    "binary": "Binary",
    "concat": "Concat",
    "convolution": "ConvolutionBackwardData ConvolutionBackwardWeights ConvolutionForward "
    "DeconvolutionBackwardData DeconvolutionBackwardWeights DeconvolutionForward",
    "eltwise": "EltwiseBackward EltwiseForward",
    "group_normalization": "GroupNormalizationBackward GroupNormalizationForward",
    "inner_product": "InnerProductBackwardData InnerProductBackwardWeights InnerProductForward",
    "layer_normalization": "LayerNormalizationBackward LayerNormalizationForward",
    "lrn": "LRNBackward LRNForward",
    "matmul": "Matmul",
    "pooling": "PoolingBackward PoolingForward",
    "prelu": "PReLUBackward PReLUForward",
    "reduction": "Reduction",
    "resampling": "ResamplingBackward ResamplingForward",
    "rnn": "GRUBackward GRUForward LBRGRUBackward LBRGRUForward LSTMBackward LSTMForward "
    "VanillaRNNBackward VanillaRNNForward",
    "shuffle": "ShuffleBackward ShuffleForward",
    "softmax": "SoftmaxBackward SoftmaxForward",
    "sum": "Sum",
}
"""The file of each operation, and the primitives that are made of it."""
