"""Random convolutions, inner products and products of matrices, with scales, zero points and post-ops."""

from __future__ import annotations

import random
from collections.abc import Callable

import restride as rs
from support.primitive_problem import Pd, RandomProblem
from support.random_descs import Dims, broadcast_dims, open_desc, random_desc, random_windows


def _convolution(name: str) -> Callable[[random.Random], RandomProblem]:
    kinds = [getattr(rs, f"{name}{way}") for way in ("Forward", "BackwardData", "BackwardWeights")]
    algorithm = f"{name.lower()}_direct"

    def draw(rng: random.Random) -> RandomProblem:
        groups = rng.choice((1, 1, 1, 2, 4))
        inputs, outputs = groups * rng.choice((1, 3, 4, 8, 17)), groups * rng.choice((1, 2, 5, 8, 16, 33))
        if rng.random() < 0.15:
            groups = inputs = outputs = rng.choice((5, 8, 16, 17))
        sizes = tuple(rng.choice((1, 4, 5, 7, 9)) for _ in range(rng.choice((1, 2, 2, 2, 3))))
        (strides, kernel, *others), results = random_windows(rng, sizes)
        of_weights = (outputs // groups, inputs // groups, *kernel)
        if groups > 1:
            of_weights = (groups, *of_weights)
        batch, way = rng.choice((1, 2, 3)), rng.choice((0, 0, 1, 2))
        if name == "Deconvolution":
            sizes, results = results, sizes
        types = _product_types(rng, has_bytes=way == 0)
        every = (batch, inputs, *sizes), of_weights, (batch, outputs, *results)
        src, weights, dst = (open_desc(rng, each, kind) for each, kind in zip(every, types, strict=True))
        bias = rs.MemoryDesc((outputs,), "f32", "a") if rng.random() < 0.5 else None
        windows = strides, *others
        attr = _attr(rng, types, every[2], 3 if groups > 1 else 1) if way == 0 else None

        def forward(engine: rs.Engine) -> Pd:
            mds = src, weights, bias, dst
            return kinds[0].PrimitiveDesc(engine, "forward_training", algorithm, *mds, *windows, attr)

        def backward(engine: rs.Engine) -> Pd:
            mds = (src, weights, dst) if way == 1 else (src, weights, bias, dst)
            return kinds[way].PrimitiveDesc(engine, algorithm, *mds, *windows, hint_pd=forward(engine))

        return RandomProblem(kinds[way], backward if way else forward)

    return draw


def random_winograd(rng: random.Random) -> RandomProblem:
    """A convolution by Winograd's algorithm, of any formats, attributes, and tiles cut off at the edges."""
    taps, rank = rng.choice((3, 3, 3, 5)), rng.choice((1, 2, 2, 2))
    batch, inputs, outputs = rng.choice((1, 2, 5)), rng.randint(1, 34), rng.randint(1, 40)
    sizes = tuple(rng.randint(1, 21) for _ in range(rank))
    padding = tuple(tuple(rng.randint(0, taps - 1) for _ in range(rank)) for _ in range(2))
    both = zip(sizes, *padding, strict=True)
    results = tuple(max(n + before + behind - taps + 1, 0) for n, before, behind in both)
    ones, zeros = (1,) * rank, (0,) * rank
    every = (batch, inputs, *sizes), (outputs, inputs, *(taps,) * rank), (batch, outputs, *results)
    src, weights, dst = (open_desc(rng, each, "f32") for each in every)
    bias = rs.MemoryDesc((outputs,), rng.choice(("f32", "bf16")), "a") if rng.random() < 0.5 else None
    attr = _attr(rng, ("f32", "f32", "f32"), every[2], 1)
    words = "forward_inference", "convolution_winograd"
    return RandomProblem(
        rs.ConvolutionForward,
        lambda engine: rs.ConvolutionForward.PrimitiveDesc(
            engine, *words, src, weights, bias, dst, ones, zeros, *padding, attr
        ),
    )


def _product_types(rng: random.Random, *, has_bytes: bool) -> tuple[str, str, str]:
    draw = rng.random()
    if draw < 0.2:
        return "bf16", "bf16", rng.choice(("f32", "bf16"))
    if draw < 0.45 and has_bytes:
        return rng.choice(("u8", "s8")), "s8", rng.choice(("s32", "f32", "u8", "s8"))
    return "f32", "f32", "f32"


def _attr(rng: random.Random, types: tuple[str, str, str], dims: Dims, per_channel: int) -> rs.PrimitiveAttr:
    """Scales, zero points and post-ops, as quantized networks have them. `per_channel`: the weights' mask."""
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    if rng.random() < 0.5:
        return attr
    is_quantized = types[1] == "s8"
    if is_quantized or rng.random() < 0.2:
        attr.set_scales(rs.ARG_SRC, 0, None if rng.random() < 0.5 else [0.5])
        attr.set_scales(rs.ARG_WEIGHTS, rng.choice((0, per_channel)))
    if is_quantized and rng.random() < 0.5:
        attr.set_zero_points(rs.ARG_SRC, 0, None if rng.random() < 0.5 else [3])
    for _ in range(rng.choice((0, 1, 1, 2))):
        kind = rng.choice(("eltwise", "eltwise", "binary", "sum"))
        if kind == "eltwise":
            ops.append_eltwise("eltwise_" + rng.choice(("relu", "linear", "clip", "tanh")), 0.5, 1.0)
        elif kind == "binary":
            operand = random_desc(rng, broadcast_dims(rng, dims), rng.choice(("f32", "bf16", "u8")))
            ops.append_binary("binary_" + rng.choice(("add", "mul")), operand)
        elif not len(ops):
            ops.append_sum(rng.choice((1.0, 0.5)))
    attr.set_post_ops(ops)
    return attr


def _inner_product(rng: random.Random) -> RandomProblem:
    sizes = tuple(rng.choice((1, 3, 4)) for _ in range(rng.choice((0, 0, 1, 2))))
    batch, inputs = rng.choice((1, 2, 3, 7, 16, 33)), rng.choice((1, 3, 8, 17, 40))
    outputs, way = rng.choice((1, 5, 16, 17, 33, 70)), rng.choice((0, 0, 1, 2))
    types = _product_types(rng, has_bytes=way == 0)
    every = (batch, inputs, *sizes), (outputs, inputs, *sizes), (batch, outputs)
    src, weights, dst = (open_desc(rng, each, kind) for each, kind in zip(every, types, strict=True))
    bias = rs.MemoryDesc((outputs,), "f32", "a") if rng.random() < 0.5 else None
    kinds = rs.InnerProductForward, rs.InnerProductBackwardData, rs.InnerProductBackwardWeights
    attr = _attr(rng, types, every[2], 1) if way == 0 else None

    def forward(engine: rs.Engine) -> Pd:
        return kinds[0].PrimitiveDesc(engine, "forward_training", src, weights, bias, dst, attr)

    def backward(engine: rs.Engine) -> Pd:
        mds = (src, weights, dst) if way == 1 else (src, weights, bias, dst)
        return kinds[way].PrimitiveDesc(engine, *mds, hint_pd=forward(engine))

    return RandomProblem(kinds[way], backward if way else forward)


def _matmul(rng: random.Random) -> RandomProblem:
    batch = tuple(rng.choice((1, 2, 3)) for _ in range(rng.choice((0, 0, 1, 2))))
    rows, columns = rng.choice((1, 2, 5, 7, 16, 33)), rng.choice((1, 2, 5, 16, 17, 33, 70))
    terms = rng.choice((1, 3, 8, 17, 45, 64))
    first, second = (tuple(n if rng.random() < 0.8 else 1 for n in batch) for _ in range(2))
    both = tuple(map(max, first, second))
    types = _product_types(rng, has_bytes=True)
    every = (*first, rows, terms), (*second, terms, columns), (*both, rows, columns)
    src, weights, dst = (open_desc(rng, each, kind) for each, kind in zip(every, types, strict=True))
    of_bias = (*(1 for _ in both), 1, columns)
    bias = random_desc(rng, of_bias, "f32") if rng.random() < 0.4 else None
    attr = _attr(rng, types, every[2], 1 << (len(both) + 1))
    return RandomProblem(
        rs.Matmul, lambda engine: rs.Matmul.PrimitiveDesc(engine, src, weights, bias, dst, attr)
    )


def _compressed_matmul(rng: random.Random) -> RandomProblem:
    """Weights of few bits with scales of groups."""
    rows, columns = rng.choice((1, 2, 7, 16)), rng.choice((2, 16, 17, 34, 70))
    group = rng.choice((8, 16, 32))
    terms = group * rng.choice((1, 2, 3))
    source, kind = rng.choice(("f32", "bf16", "f16")), rng.choice(("s8", "u8", "s4", "u4"))
    src, dst = open_desc(rng, (rows, terms), source), random_desc(rng, (rows, columns), "f32")
    tag = rng.choice(("ab", "ba", "any", "BA16b4a", "AB8a16b"))
    weights, attr = rs.MemoryDesc((terms, columns), kind, tag), rs.PrimitiveAttr()
    attr.set_fpmath_mode("f16" if source == "f16" else "bf16", True)
    attr.set_scales(rs.ARG_WEIGHTS, 3, None, (group, 1))
    if rng.random() < 0.5:
        attr.set_zero_points(rs.ARG_WEIGHTS, 3, None, (group, 1))
    return RandomProblem(
        rs.Matmul, lambda engine: rs.Matmul.PrimitiveDesc(engine, src, weights, None, dst, attr)
    )


PRODUCTS: dict[str, Callable[[random.Random], RandomProblem]] = {
    "convolution": _convolution("Convolution"),
    "deconvolution": _convolution("Deconvolution"),
    "inner product": _inner_product,
    "matmul": _matmul,
    "compressed matmul": _compressed_matmul,
    "winograd": random_winograd,
}
