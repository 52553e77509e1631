"""Problems that once read or wrote outside a tensor, left padding as it was, or gave other values."""

from __future__ import annotations

import restride as rs
from support.primitive_problem import Pd, RandomProblem

_Sides = tuple[str, tuple[int, ...], str]


def _desc(side: _Sides) -> rs.MemoryDesc:
    data_type, dims, tag = side
    return rs.MemoryDesc(dims, data_type, tag)


def _matmul(*sides: _Sides) -> RandomProblem:
    src, weights, dst = map(_desc, sides)
    return RandomProblem(rs.Matmul, lambda engine: rs.Matmul.PrimitiveDesc(engine, src, weights, None, dst))


def _inner_product(*sides: _Sides) -> RandomProblem:
    src, weights, dst = map(_desc, sides)

    def pd(engine: rs.Engine) -> Pd:
        kind = "forward_inference"
        return rs.InnerProductForward.PrimitiveDesc(engine, kind, src, weights, None, dst)

    return RandomProblem(rs.InnerProductForward, pd)


def _convolution(*sides: _Sides, padding: int = 0) -> RandomProblem:
    src, weights, dst = map(_desc, sides)
    ones, zeros, padded = ((number,) * (src.ndims - 2) for number in (1, 0, padding))
    windows = ones, zeros, padded, padded

    def pd(engine: rs.Engine) -> Pd:
        args = "forward_inference", "convolution_direct", src, weights, None, dst
        return rs.ConvolutionForward.PrimitiveDesc(engine, *args, *windows)

    return RandomProblem(rs.ConvolutionForward, pd)


def _average_gradient(diff_src: _Sides, diff_dst: _Sides, stride: int, kernel: int) -> RandomProblem:
    src, dst = _desc(diff_src), _desc(diff_dst)
    spatial = src.ndims - 2
    windows = (stride,) * spatial, (kernel,) * spatial, *(((0,) * spatial,) * 3)

    def pd(engine: rs.Engine) -> Pd:
        algorithm = "pooling_avg_include_padding"
        kinds = rs.PoolingForward.PrimitiveDesc, rs.PoolingBackward.PrimitiveDesc
        hint = kinds[0](engine, "forward_training", algorithm, src, dst, *windows)
        return kinds[1](engine, algorithm, src, dst, *windows, hint_pd=hint)

    return RandomProblem(rs.PoolingBackward, pd)


PROBLEMS = {
    "every second element of a row, of which the last vector is not full": _average_gradient(
        ("f32", (1, 3, 1, 14), "abcd"), ("f32", (1, 3, 1, 7), "abcd"), 2, 1
    ),
    "the same of a vector alone": _average_gradient(
        ("s8", (1, 3, 1, 6), "abcd"), ("s8", (1, 3, 1, 3), "abcd"), 2, 1
    ),
    "a summed axis of three digits": _convolution(
        ("f32", (3, 17, 9, 5), "acdB4b"), ("f32", (33, 17, 1, 4), "abcd"), ("f32", (3, 33, 9, 2), "bdcA4a")
    ),
    "padding of several tiles": _matmul(
        ("f32", (2, 8), "ab"), ("f32", (8, 70), "AB16a16b"), ("f32", (2, 70), "aB32b32b")
    ),
    "padding that no loop of columns reaches": _inner_product(
        ("f32", (16, 8), "ab"), ("f32", (5, 8), "ab"), ("f32", (16, 5), "aB8b16b")
    ),
    "weights with less padding than the result": _convolution(
        ("f32", (3, 8, 9, 7), "aBcd4b"), ("f32", (5, 8, 4, 2), "Abcd4a"), ("f32", (3, 5, 6, 6), "cadB32b")
    ),
    "packs of an axis of one position": _inner_product(
        ("u8", (16, 8, 4, 1), "abdc"), ("s8", (16, 8, 4, 1), "AcdB16a4b"), ("s32", (16, 16), "ab")
    ),
    "two lanes": _convolution(
        ("u8", (2, 16, 9, 5), "aBcd16b"),
        ("s8", (16, 1, 1, 4, 3), "Abcde2a"),
        ("f32", (2, 16, 6, 3), "aBcd16b"),
    ),
    "zeros behind the last phase": _average_gradient(
        ("f32", (2, 5, 13), "ABc16b16a"), ("f32", (2, 5, 6), "ABc16b16a"), 2, 3
    ),
    "zeros where a phase has values": _average_gradient(
        ("bf16", (1, 16, 6), "aBC8c16b"), ("bf16", (1, 16, 3), "abc"), 2, 2
    ),
    "a last tile in each block of rows": _matmul(
        ("f32", (51, 5), "Ab17a"), ("f32", (5, 48), "ab"), ("f32", (51, 48), "ab")
    ),
    "an edge in some blocks of rows": _convolution(
        ("f32", (2, 5, 6, 24), "acdb"),
        ("f32", (16, 5, 3, 3), "cdba"),
        ("f32", (2, 16, 6, 24), "aBDc8d16b"),
        padding=1,
    ),
    "one lane of 16 bits": _average_gradient(
        ("bf16", (2, 31, 9, 7, 5), "acdeB32b2b"), ("bf16", (2, 31, 5, 4, 3), "abcDe32d"), 2, 1
    ),
}
