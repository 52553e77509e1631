"""Random reorders, shuffles, concats and sums: any types, blocks in steps, scales and zero points."""

from __future__ import annotations

import random
from collections.abc import Callable

import restride as rs
from restride.ir.conversion import PROVIDED
from support.primitive_problem import RandomProblem
from support.random_descs import Dims, random_desc, random_dims

_TYPES = tuple(str(kind) for kind in PROVIDED)
_COMMON = ("f32", "f32", "bf16", "f16", "s8", "u8", "s32")


def _type(rng: random.Random) -> str:
    return rng.choice(_COMMON if rng.random() < 0.6 else _TYPES)


def _desc(rng: random.Random, dims: Dims, data_type: str) -> rs.MemoryDesc:
    """A descriptor of any format; elements of few bits lie in blocks or rows, whole bytes of them."""
    while True:
        made = random_desc(rng, dims, data_type)
        if made.data_type.bits == 8 or made.tag or made.data_type.bits > 8:
            return made


def _reorder(rng: random.Random) -> RandomProblem:
    dims = random_dims(rng, rng.choice((2, 3, 4, 5)))
    src, dst = _desc(rng, dims, _type(rng)), _desc(rng, dims, _type(rng))
    attr, has_numbers = rs.PrimitiveAttr(), {src.data_type, dst.data_type}.isdisjoint({rs.e8m0, rs.boolean})
    if has_numbers and rng.random() < 0.4:
        attr.set_scales(rs.ARG_SRC, rng.choice((0, 1, 2, 3)), None)
        if dst.data_type.is_integral and rng.random() < 0.5:
            attr.set_zero_points(rs.ARG_DST, 0, [3])
    if has_numbers and rng.random() < 0.2:
        ops = rs.PostOps()
        ops.append_sum(0.5)
        attr.set_post_ops(ops)
    return RandomProblem(rs.Reorder, lambda engine: rs.Reorder.PrimitiveDesc(engine, src, engine, dst, attr))


def _shuffle(rng: random.Random) -> RandomProblem:
    dims = random_dims(rng, rng.choice((2, 3, 4, 5)))
    axis = rng.randrange(len(dims))
    group = rng.choice([n for n in range(1, dims[axis] + 1) if dims[axis] % n == 0])
    md = _desc(rng, dims, _type(rng))
    way = rng.choice(("Forward", "Backward"))

    def forward(engine: rs.Engine) -> object:
        return rs.ShuffleForward.PrimitiveDesc(engine, "forward_training", md, md, axis, group)

    if way == "Forward":
        return RandomProblem(rs.ShuffleForward, forward)
    return RandomProblem(
        rs.ShuffleBackward,
        lambda engine: rs.ShuffleBackward.PrimitiveDesc(engine, md, md, axis, group, forward(engine)),
    )


def _concat(rng: random.Random) -> RandomProblem:
    dims = random_dims(rng, rng.choice((2, 3, 4)))
    axis, count = rng.randrange(len(dims)), rng.choice((1, 2, 3, 5))
    every = [(*dims[:axis], rng.choice((1, 3, 8, 16, 17)), *dims[axis + 1 :]) for _ in range(count)]
    sources = [_desc(rng, each, _type(rng)) for each in every]
    result = (*dims[:axis], sum(each[axis] for each in every), *dims[axis + 1 :])
    dst = _desc(rng, result, _type(rng))
    return RandomProblem(rs.Concat, lambda engine: rs.Concat.PrimitiveDesc(engine, dst, axis, sources))


def _sum(rng: random.Random) -> RandomProblem:
    dims, count = random_dims(rng, rng.choice((2, 3, 4))), rng.choice((1, 2, 3, 5))
    sources = [_desc(rng, dims, rng.choice(_COMMON)) for _ in range(count)]
    dst = _desc(rng, dims, rng.choice(_COMMON))
    scales = [rng.choice((1.0, 0.5, -2.0)) for _ in sources]
    return RandomProblem(rs.Sum, lambda engine: rs.Sum.PrimitiveDesc(engine, dst, scales, sources))


MOVES: dict[str, Callable[[random.Random], RandomProblem]] = {
    "reorder": _reorder,
    "shuffle": _shuffle,
    "concat": _concat,
    "sum": _sum,
}
