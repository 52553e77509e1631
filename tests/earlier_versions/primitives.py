"""Primitives of every kind, as they are pickled. Run with the version to keep: `primitives.py FOLDER`."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import restride as rs


def descriptors() -> dict[str, Any]:
    """A primitive descriptor of each kind, by the name of its primitive."""
    engine, train, infer = rs.Engine("cpu"), "forward_training", "forward_inference"
    x, small = rs.MemoryDesc((2, 16, 8, 8), "f32", "nChw8c"), rs.MemoryDesc((2, 16, 4, 4), "f32", "nChw8c")
    row, plain = rs.MemoryDesc((1, 16, 1, 1), "f32", "abcd"), rs.MemoryDesc((2, 16, 8, 8), "f32", "nhwc")
    weights, kernel = rs.MemoryDesc((16, 16, 3, 3), "f32", "any"), ((1, 1), (0, 0), (1, 1), (1, 1))
    matrix = rs.MemoryDesc((16, 16), "f32", "ab")
    window = (2, 2), (2, 2), (0, 0), (0, 0), (0, 0)
    steps = [rs.MemoryDesc((3, 2, 16), "f32", "abc"), rs.MemoryDesc((1, 1, 2, 16), "f32", "abcd")]
    gates = [rs.MemoryDesc((1, 1, 16, n, 16), "f32", "any") for n in (1, 3, 4)]
    bias = [rs.MemoryDesc((1, 1, n, 16), "f32", "abcd") for n in (1, 3, 4)]
    rnn = [(steps[0], steps[1], w, w, b, steps[0], steps[1]) for w, b in zip(gates, bias, strict=True)]
    way = "unidirectional_left2right"
    pool = rs.PoolingForward.PrimitiveDesc(engine, train, "pooling_max", x, small, *window)
    return {
        "BatchNormalizationForward": rs.BatchNormalizationForward.PrimitiveDesc(
            engine, train, x, x, 1e-5, "use_scale"
        ),
        "BatchNormalizationBackward": rs.BatchNormalizationBackward.PrimitiveDesc(
            engine, "backward", x, x, x, 1e-5, "use_scale|use_shift"
        ),
        "Binary": rs.Binary.PrimitiveDesc(engine, "binary_mul", x, row, x),
        "Concat": rs.Concat.PrimitiveDesc(engine, 1, [x, plain]),
        "ConvolutionForward": rs.ConvolutionForward.PrimitiveDesc(
            engine, infer, "convolution_direct", x, weights, None, x, *kernel
        ),
        "ConvolutionBackwardData": rs.ConvolutionBackwardData.PrimitiveDesc(
            engine, "convolution_direct", x, weights, x, *kernel
        ),
        "DeconvolutionForward": rs.DeconvolutionForward.PrimitiveDesc(
            engine, infer, "deconvolution_direct", x, weights, None, x, *kernel
        ),
        "EltwiseForward": rs.EltwiseForward.PrimitiveDesc(engine, infer, "eltwise_elu", x, x, 0.5),
        "EltwiseBackward": rs.EltwiseBackward.PrimitiveDesc(engine, "eltwise_relu", x, x, x),
        "GRUForward": rs.GRUForward.PrimitiveDesc(engine, infer, way, *rnn[1]),
        "GroupNormalizationForward": rs.GroupNormalizationForward.PrimitiveDesc(
            engine, infer, x, x, 4, 1e-5, "none"
        ),
        "InnerProductForward": rs.InnerProductForward.PrimitiveDesc(
            engine, infer, matrix, matrix, None, matrix
        ),
        "InnerProductBackwardWeights": rs.InnerProductBackwardWeights.PrimitiveDesc(
            engine, matrix, matrix, None, matrix
        ),
        "LRNForward": rs.LRNForward.PrimitiveDesc(engine, infer, "lrn_across_channels", x, x, 5, 1e-4, 0.75),
        "LRNBackward": rs.LRNBackward.PrimitiveDesc(
            engine, "lrn_within_channel", x, x, x, 3, 1e-4, 0.75, 2.0
        ),
        "LayerNormalizationForward": rs.LayerNormalizationForward.PrimitiveDesc(
            engine, infer, matrix, matrix, None, 1e-5, "use_shift"
        ),
        "LayerNormalizationBackward": rs.LayerNormalizationBackward.PrimitiveDesc(
            engine, "backward_data", matrix, matrix, matrix, None, 1e-5, "none"
        ),
        "Matmul": rs.Matmul.PrimitiveDesc(engine, matrix, matrix, None, matrix),
        "PReLUForward": rs.PReLUForward.PrimitiveDesc(engine, infer, x, row, x),
        "PReLUBackward": rs.PReLUBackward.PrimitiveDesc(engine, x, row, x, row, x),
        "PoolingForward": pool,
        "PoolingBackward": rs.PoolingBackward.PrimitiveDesc(
            engine, "pooling_max", x, small, *window, hint_pd=pool
        ),
        "Reduction": rs.Reduction.PrimitiveDesc(engine, "reduction_norm_lp_sum", x, row, 2.0, 0.5),
        "ResamplingForward": rs.ResamplingForward.PrimitiveDesc(engine, infer, "resampling_linear", small, x),
        "ResamplingBackward": rs.ResamplingBackward.PrimitiveDesc(engine, "resampling_nearest", small, x),
        "ShuffleForward": rs.ShuffleForward.PrimitiveDesc(engine, train, x, x, 1, 4),
        "ShuffleBackward": rs.ShuffleBackward.PrimitiveDesc(engine, x, x, 1, 4, None),
        "SoftmaxForward": rs.SoftmaxForward.PrimitiveDesc(engine, infer, "softmax_log", x, x, 1),
        "SoftmaxBackward": rs.SoftmaxBackward.PrimitiveDesc(engine, "softmax_accurate", x, x, x, 3),
        "Sum": rs.Sum.PrimitiveDesc(engine, [1.0, 2.0], [x, plain]),
        "VanillaRNNForward": rs.VanillaRNNForward.PrimitiveDesc(engine, infer, "eltwise_tanh", way, *rnn[0]),
    }


def values() -> dict[str, Any]:
    """The pickled objects: descriptors, primitives, enumerations, the descriptors of version 0.9."""
    made = descriptors()
    x = rs.MemoryDesc((2, 16, 8, 8), "f32", "nchw")
    return {
        **{f"{name}.PrimitiveDesc": pd for name, pd in made.items()},
        **{name: getattr(rs, name)(pd) for name, pd in made.items()},
        "flags": [*rs.NormalizationFlags, *rs.RNNFlags, *rs.RNNDirection],
        "shuffles": [rs.ShuffleForward.Desc("forward", x, 1, 4), rs.ShuffleBackward.Desc(x, 1, 4)],
    }


def main(folder: Path) -> None:
    made = values()
    for protocol in (2, 5):
        held = {name: pickle.dumps(value, protocol) for name, value in made.items()}
        (folder / f"primitives-{protocol}.pickle").write_bytes(pickle.dumps(held, 2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
