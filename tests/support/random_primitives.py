"""Random problems of every primitive that computes, each a function of its number alone.

A problem has small extents, any formats, blocks of which whole vectors are padding among them, and any of
the usual types. `guarded_primitives` runs them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import restride as rs
from support import rnn
from support.primitive_problem import Pd, RandomProblem
from support.random_descs import broadcast_dims, random_desc, random_dims, random_windows
from support.random_indices import INDEXED
from support.random_moves import MOVES
from support.random_products import PRODUCTS

_FLOATS = ("f32", "f32", "f32", "bf16", "f16")


def random_primitive(number: int) -> tuple[str, RandomProblem]:
    """The kind and the problem of a number."""
    rng = random.Random(number)
    kind = tuple(KINDS)[number % len(KINDS)]
    return kind, KINDS[kind](rng)


def _pooling(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng), rng.choice(_FLOATS)
    windows, sizes = random_windows(rng, dims[2:])
    algorithm = "pooling_" + rng.choice(("max", "avg_include_padding", "avg_exclude_padding"))
    both = dims, (*dims[:2], *sizes)
    src, dst, diff_src, diff_dst = (random_desc(rng, each, kind) for each in both * 2)
    positions = 1
    for extent in windows[1]:
        positions *= extent

    def forward(engine: rs.Engine) -> Pd:
        return rs.PoolingForward.PrimitiveDesc(engine, "forward_training", algorithm, src, dst, *windows)

    def backward(engine: rs.Engine) -> Pd:
        hint = forward(engine)
        return rs.PoolingBackward.PrimitiveDesc(engine, algorithm, diff_src, diff_dst, *windows, hint_pd=hint)

    if rng.random() < 0.4:
        return RandomProblem(rs.PoolingForward, forward)
    return RandomProblem(rs.PoolingBackward, backward, positions)


def _normalization(name: str) -> Callable[[random.Random], RandomProblem]:
    kinds = getattr(rs, f"{name}Forward"), getattr(rs, f"{name}Backward")

    def draw(rng: random.Random) -> RandomProblem:
        dims, data_type = random_dims(rng), rng.choice(_FLOATS)
        own: tuple[Any, ...] = ()
        if name == "GroupNormalization":
            dims, own = (dims[0], 2 * dims[1], *dims[2:]), (rng.choice((1, 2)),)
        elif name == "LayerNormalization":
            own = (random_desc(rng, dims[:-1], "f32"),)
        flags = rng.choice(("none", "use_scale", "use_shift"))
        kind = rng.choice(("forward_training", "forward_inference"))
        src, dst, diff_src, diff_dst = (random_desc(rng, dims, data_type) for _ in range(4))
        is_forward = rng.random() < 0.45

        def forward(engine: rs.Engine) -> Pd:
            prop = kind if is_forward else "forward_training"
            return kinds[0].PrimitiveDesc(engine, prop, src, dst, *own, 1e-3, flags)

        def backward(engine: rs.Engine) -> Pd:
            hint = forward(engine)
            return kinds[1].PrimitiveDesc(
                engine, "backward", diff_src, diff_dst, src, *own, 1e-3, flags, hint_pd=hint
            )

        return RandomProblem(kinds[0], forward) if is_forward else RandomProblem(kinds[1], backward)

    return draw


def _lrn(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng), rng.choice(_FLOATS)
    src, dst, diff_src, diff_dst = (random_desc(rng, dims, kind) for _ in range(4))
    args = "lrn_" + rng.choice(("across_channels", "within_channel")), rng.choice((1, 3, 5))

    def forward(engine: rs.Engine) -> Pd:
        return rs.LRNForward.PrimitiveDesc(engine, "forward_training", args[0], src, dst, args[1], 0.1, 0.75)

    def backward(engine: rs.Engine) -> Pd:
        numbers = args[1], 0.1, 0.75
        return rs.LRNBackward.PrimitiveDesc(
            engine, args[0], diff_src, diff_dst, src, *numbers, hint_pd=forward(engine)
        )

    forwards, backwards = (rs.LRNForward, forward), (rs.LRNBackward, backward)
    return RandomProblem(*rng.choice((forwards, backwards)))


def _softmax(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng), rng.choice(_FLOATS)
    axis, algorithm = rng.randrange(len(dims)), rng.choice(("softmax_accurate", "softmax_log"))
    src, dst, diff_src, diff_dst = (random_desc(rng, dims, kind) for _ in range(4))

    def forward(engine: rs.Engine) -> Pd:
        return rs.SoftmaxForward.PrimitiveDesc(engine, "forward_training", algorithm, src, dst, axis)

    def backward(engine: rs.Engine) -> Pd:
        hint = forward(engine)
        return rs.SoftmaxBackward.PrimitiveDesc(
            engine, algorithm, diff_src, diff_dst, dst, axis, hint_pd=hint
        )

    forwards, backwards = (rs.SoftmaxForward, forward), (rs.SoftmaxBackward, backward)
    return RandomProblem(*rng.choice((forwards, backwards)))


def _prelu(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng), rng.choice(_FLOATS)
    of_weights = broadcast_dims(rng, dims)
    src, dst, diff_src, diff_dst = (random_desc(rng, dims, kind) for _ in range(4))
    weights, diff_weights = (random_desc(rng, of_weights, kind) for _ in range(2))

    def forward(engine: rs.Engine) -> Pd:
        return rs.PReLUForward.PrimitiveDesc(engine, "forward_training", src, weights, dst)

    def backward(engine: rs.Engine) -> Pd:
        mds = src, weights, diff_src, diff_weights, diff_dst
        return rs.PReLUBackward.PrimitiveDesc(engine, *mds, hint_pd=forward(engine))

    forwards, backwards = (rs.PReLUForward, forward), (rs.PReLUBackward, backward)
    return RandomProblem(*rng.choice((forwards, backwards)))


def _larger(rng: random.Random, kind: str) -> tuple[rs.MemoryDesc, rs.MemoryDesc]:
    """Two tensors of one format, one of them with rows two or four times as long."""
    format = rng.choice(("abx", "axb", "aBx8b", "aBx16b"))
    small = tuple(rng.choice((2, 3, 5, 9, 17, 33)) for _ in range(rng.choice((1, 2, 2, 3))))
    others = tuple(n * rng.choice((1, 2)) for n in small[-2:-1])
    large = *small[:-2], *others, small[-1] * rng.choice((2, 2, 4))
    outer = rng.choice((1, 2)), rng.choice((16, 16, 32, 12))
    return rs.MemoryDesc((*outer, *small), kind, format), rs.MemoryDesc((*outer, *large), kind, format)


def _resampling(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng), rng.choice(_FLOATS)
    result = (*dims[:2], *(rng.choice((1, 2, 5, 9, 12)) for _ in dims[2:]))
    algorithm = "resampling_" + rng.choice(("nearest", "linear"))
    src, dst, diff_src, diff_dst = (random_desc(rng, each, kind) for each in (dims, result) * 2)
    if rng.random() < 0.4:
        algorithm, (src, dst) = "resampling_linear", _larger(rng, kind)
        diff_src, diff_dst = src, dst

    def forward(engine: rs.Engine) -> Pd:
        return rs.ResamplingForward.PrimitiveDesc(engine, "forward_training", algorithm, src, dst)

    def backward(engine: rs.Engine) -> Pd:
        hint = forward(engine)
        return rs.ResamplingBackward.PrimitiveDesc(engine, algorithm, diff_src, diff_dst, hint_pd=hint)

    forwards, backwards = (rs.ResamplingForward, forward), (rs.ResamplingBackward, backward)
    return RandomProblem(*rng.choice((forwards, backwards)))


def _reduction(rng: random.Random) -> RandomProblem:
    dims = random_dims(rng, rng.choice((2, 3, 4, 5)))
    kind = rng.choice((*_FLOATS, "s8", "u8"))
    algorithm = "reduction_" + rng.choice(("max", "min", "sum", "mean", "norm_lp_max", "norm_lp_sum"))
    src, dst = (
        random_desc(rng, dims, kind),
        random_desc(rng, broadcast_dims(rng, dims), rng.choice(("f32", kind))),
    )
    return RandomProblem(
        rs.Reduction, lambda engine: rs.Reduction.PrimitiveDesc(engine, algorithm, src, dst, 2.0, 0.0)
    )


def _eltwise(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng, rng.choice((2, 3, 4, 5))), rng.choice(_FLOATS)
    names = ("relu", "tanh", "gelu_tanh", "linear", "abs", "square", "clip", "hardswish", "logistic")
    algorithm = "eltwise_" + rng.choice(names)
    src, dst, diff_src, diff_dst = (random_desc(rng, dims, kind) for _ in range(4))

    def forward(engine: rs.Engine) -> Pd:
        return rs.EltwiseForward.PrimitiveDesc(engine, "forward_training", algorithm, src, dst, 0.5, 1.0)

    def backward(engine: rs.Engine) -> Pd:
        mds = diff_src, diff_dst, src
        return rs.EltwiseBackward.PrimitiveDesc(engine, algorithm, *mds, 0.5, 1.0, hint_pd=forward(engine))

    forwards, backwards = (rs.EltwiseForward, forward), (rs.EltwiseBackward, backward)
    return RandomProblem(*rng.choice((forwards, backwards)))


def _binary(rng: random.Random) -> RandomProblem:
    dims = random_dims(rng, rng.choice((2, 3, 4, 5)))
    algorithm = "binary_" + rng.choice(("add", "mul", "max", "min", "sub", "ge"))
    kinds = [rng.choice((*_FLOATS, "s8", "u8", "s32")) for _ in range(3)]
    every = dims, broadcast_dims(rng, dims), dims
    mds = [random_desc(rng, each, kind) for each, kind in zip(every, kinds, strict=True)]
    return RandomProblem(rs.Binary, lambda engine: rs.Binary.PrimitiveDesc(engine, algorithm, *mds))


def _recurrent(rng: random.Random) -> RandomProblem:
    shape = rnn.Shape(*map(rng.choice, ((1, 3), (1, 2, 5, 17), (1, 5, 16, 33), (1, 7, 16, 40), (1, 2))))
    cell, direction = rng.choice(tuple(rnn.CELLS)), rng.choice(tuple(rnn.DIRECTIONS))
    if shape.inputs != shape.channels:
        shape = shape._replace(layers=1)
    formats = {
        "layer": rng.choice(("tnc", "ntc")),
        "weights": rng.choice(("any", "ldigo", "ldgoi")),
        "states": rng.choice(("ldnc", None)),
        "bias": rng.choice(("ldgo", None)),
        "data_type": rng.choice(("f32", "f32", "bf16")),
    }
    return RandomProblem(
        getattr(rs, f"{cell}Forward"),
        lambda engine: rnn.forward(engine, shape, cell, direction, **formats),
    )


KINDS: dict[str, Callable[[random.Random], RandomProblem]] = {
    "pooling": _pooling,
    "batch normalization": _normalization("BatchNormalization"),
    "layer normalization": _normalization("LayerNormalization"),
    "group normalization": _normalization("GroupNormalization"),
    "LRN": _lrn,
    "softmax": _softmax,
    "PReLU": _prelu,
    "resampling": _resampling,
    "reduction": _reduction,
    "eltwise": _eltwise,
    "binary": _binary,
    "recurrent": _recurrent,
    **PRODUCTS,
    **MOVES,
    **INDEXED,
}
