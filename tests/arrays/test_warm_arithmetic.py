"""Warm calls that compute: other values take the same kernel, and give other results (N1)."""

import threading
from dataclasses import replace

import numpy as np
import pytest

import restride as rs
from support.errors import refused

X = np.random.default_rng(0).normal(scale=40, size=(6, 10)).astype(np.float32)
ROWS = np.random.default_rng(1).normal(size=(8, 10)).astype(np.float32)


def to_s8(values):
    return np.clip(np.rint(np.asarray(values, np.float32)), -128, 127).astype(np.int8)


def f32(value):
    return np.float32(value)


# (the call for value i, what it gives)
CALLS = {
    "scale and zero point": (
        lambda i: rs.reorder(X, "ba", dtype="s8", scale=i / 8, zero_point=i),
        lambda i: to_s8(X * f32(i / 8) + f32(i)),
    ),
    "scales and zero points": (
        lambda i: rs.reorder(X, "ba", dtype="s8", scale=ROWS[i], zero_point=np.arange(10) + i, axis=1),
        lambda i: to_s8(X * ROWS[i] + np.float32(np.arange(10) + i)),
    ),
    "zero points of the source": (
        lambda i: rs.reorder(to_s8(X), None, dtype="f32", scale=ROWS[i], zero_point=i, axis=-1),
        lambda i: (np.float32(to_s8(X)) - f32(i)) * ROWS[i],
    ),
    "a list of zero points of the source": (
        lambda i: rs.reorder(to_s8(X), None, dtype="f32", scale=i + 0.5, zero_point=[i] * 6, axis=0),
        lambda i: (np.float32(to_s8(X)) - f32(i)) * f32(i + 0.5),
    ),
    "bounds": (
        lambda i: rs.reorder(X, "ba", post_ops=[("clip", -i, 2 * i)]),
        lambda i: np.clip(X, -i, 2 * i),
    ),
    "a slope": (
        lambda i: rs.reorder(X, "ba", post_ops=["abs", ("relu", i)]),
        lambda i: np.abs(X),
    ),
    "usual numbers, and given ones": (
        lambda i: rs.reorder(X, None, scale=i + 1, post_ops=["hardsigmoid", ("linear", i)]),
        lambda i: f32(i) * np.clip(f32(1 / 6) * (f32(i + 1) * X) + f32(0.5), f32(0), f32(1)),
    ),
    "operands": (
        lambda i: rs.reorder(X, "ba", post_ops=[("mul", ROWS[i]), ("add", i), ("max", ROWS[i][::-1])]),
        lambda i: np.maximum(X * ROWS[i] + f32(i), ROWS[i][::-1]),
    ),
    "a whole operand that lies otherwise": (
        lambda i: rs.reorder(X, None, post_ops=[("sub", np.asfortranarray(X + f32(i)))]),
        lambda i: X - (X + f32(i)),
    ),
    "a chain": (
        lambda i: rs.reorder(X, None, scale=0.5, zero_point=-i, dtype="s8", post_ops=chain(i)),
        lambda i: to_s8(np.minimum(f32(0.5) * X * f32(i), f32(i)) - f32(i)),
    ),
    "what is there": (
        lambda i: rs.reorder(X, None, beta=i, post_ops=[("add", ROWS[i])], out=np.ones_like(X)),
        lambda i: X + f32(i) + ROWS[i],
    ),
    "a blocked result": (
        lambda i: rs.reorder(X, "aB8b", post_ops=[("add", ROWS[i])]).to_numpy(),
        lambda i: X + ROWS[i],
    ),
}


def chain(i):
    ops = rs.PostOps()
    ops.append_eltwise("linear", i)
    ops.append_eltwise("clip", -1e30, i)
    return ops


@pytest.mark.parametrize("name", CALLS)
def test_other_values_give_other_results_and_fill_no_cache(name):
    call, wanted = CALLS[name]
    np.testing.assert_array_equal(call(1), wanted(1))
    before = rs.cache_info()
    for i in (2, 3, 5, 7, 2):
        np.testing.assert_array_equal(call(i), wanted(i))
    after = rs.cache_info()
    found = after["calls"].hits - before["calls"].hits
    assert after == before | {"calls": replace(before["calls"], hits=before["calls"].hits + found)}


def test_neutral_values_are_calls_of_their_own():
    for zero_point in (0, 3, 0, 3):
        got = rs.reorder(X, None, dtype="s8", scale=1, zero_point=zero_point, post_ops=[])
        np.testing.assert_array_equal(got, to_s8(X + f32(zero_point)))


def test_primitives_of_other_values_are_found_in_the_cache():
    desc, cpu = rs.MemoryDesc((6, 10), "f32", "ab"), rs.Engine("cpu")
    to = rs.MemoryDesc((6, 10), "s8", "ba")

    def made(i):
        attr, ops = rs.PrimitiveAttr(), rs.PostOps()
        attr.set_scales(rs.ARG_SRC, 2, ROWS[i])
        attr.set_zero_points(rs.ARG_DST, 0, [i])
        ops.append_eltwise("clip", -i, 10 * i)
        attr.set_post_ops(ops)
        return rs.Reorder(rs.Reorder.PrimitiveDesc(cpu, desc, cpu, to, attr))

    first, before = made(1), rs.cache_info()
    primitives = [made(i) for i in range(2, 8)]
    after = rs.cache_info()
    assert after["kernels"] == before["kernels"]
    assert (after["primitives"].misses, after["primitives"].size) == (
        before["primitives"].misses,
        before["primitives"].size,
    )
    for i, primitive in enumerate((first, *primitives), 1):
        dst = rs.Memory(to, cpu)
        primitive.execute(rs.Stream(cpu), rs.Memory.from_numpy(X), dst)
        np.testing.assert_array_equal(dst.to_numpy(), to_s8(np.clip(X * ROWS[i], -i, 10 * i) + f32(i)))
        assert primitive.get_primitive_desc().get_primitive_attr().get_zero_points(rs.ARG_DST)[1] == [i]


def test_a_warm_call_still_refuses_what_will_not_do():
    out, whole = np.full((6, 10), 7, np.float32), np.zeros(80, np.float32)
    for _ in range(2):
        rs.reorder(X, None, post_ops=[("add", ROWS[0])], out=whole[:60].reshape(6, 10))
        rs.reorder(X, None, dtype="s8", zero_point=[1] * 10, axis=1)
        with refused("overlap"):
            rs.reorder(X, None, post_ops=[("add", whole[55:65])], out=whole[:60].reshape(6, 10))
        with refused("x and out overlap"):
            rs.reorder(whole[10:70].reshape(6, 10), None, post_ops=["abs"], out=whole[:60].reshape(6, 10))
        with refused("zero points are whole numbers of 32 bits"):
            rs.reorder(X, None, dtype="s8", zero_point=[1] * 9 + [2**40], axis=1)
        with refused("zero_point without integers"):
            rs.reorder(X, None, zero_point=[0] * 9 + [1], axis=1)
        np.testing.assert_array_equal(rs.reorder(X, None, zero_point=[0] * 10, axis=1), X)
        with refused("beta without out"):
            rs.reorder(X, None, beta=0.5, post_ops=["abs"])
        with refused("empty range"):
            rs.reorder(X, None, post_ops=[("clip", 1, 0)], out=out)
        rs.reorder(X, None, post_ops=[("clip", 0, 0)], out=out.copy())
        out.flags.writeable = False
        with refused("read-only"):
            rs.reorder(X, None, post_ops=[("clip", 0, 1)], out=out)
        out.flags.writeable = True
    assert (out == 7).all()


def test_no_more_recipes_are_kept_than_primitives():
    capacity = rs.get_primitive_cache_capacity()
    try:
        for size in (3, 0):
            rs.set_primitive_cache_capacity(size)
            for n in (*range(1, 8), 1):
                x = np.ones((n, 3), np.float32)
                np.testing.assert_array_equal(rs.reorder(x, "ba", post_ops=[("add", n)]), x + f32(n))
    finally:
        rs.set_primitive_cache_capacity(capacity)


def test_threads_share_a_recipe_and_not_their_values():
    wrong = []

    def work(i):
        for k in range(200):
            got = rs.reorder(X, "ba", scale=i, post_ops=[("add", ROWS[i]), ("linear", 1, k)])
            if not np.array_equal(got, X * f32(i) + ROWS[i] + f32(k)):
                wrong.append((i, k))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize(("mask", "shape"), [(0, (1, 1)), (1, (6, 1)), (2, (1, 10)), (3, (6, 10))])
@pytest.mark.parametrize("tag", ["ba", "aB4b"])
def test_a_prelu_has_weights_for_the_dims_of_its_mask(engine, mask, shape, tag):
    attr, ops, on = rs.PrimitiveAttr(), rs.PostOps(), rs.Engine(engine)
    ops.append_eltwise("linear", 2.0, 1.0)
    ops.append_prelu(mask)
    attr.set_post_ops(ops)
    weights = np.random.default_rng(mask).normal(size=shape).astype(np.float32)
    src, dst = rs.Memory.from_numpy(X, engine=on), rs.Memory(rs.MemoryDesc(X.shape, "f32", tag), on)
    number = rs.arg_attr_multiple_post_op(1) | rs.ARG_WEIGHTS
    args = {
        rs.ARG_SRC: src,
        rs.ARG_DST: dst,
        number: rs.Memory(rs.MemoryDesc((weights.size,), "f32", "a"), on, weights.reshape(-1)),
    }
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(on, src.desc, on, dst.desc, attr))
    primitive.execute(rs.Stream(on), args)
    t = X * f32(2) + f32(1)
    np.testing.assert_array_equal(dst.to_numpy(), np.where(t > 0, t, t * weights))
    with refused("ARG_WEIGHTS) is missing"):
        primitive.execute(rs.Stream(on), {rs.ARG_SRC: src, rs.ARG_DST: dst})


def test_a_prelu_of_dims_that_are_not_there_is_refused():
    attr, ops, cpu = rs.PrimitiveAttr(), rs.PostOps(), rs.Engine("cpu")
    ops.append_prelu(4)
    attr.set_post_ops(ops)
    md = rs.MemoryDesc((2, 3), "f32")
    with refused("mask of the prelu"):
        rs.Reorder.PrimitiveDesc(cpu, md, cpu, md, attr)
    with refused("post_ops names an operand"):
        rs.reorder(X, "ba", post_ops=ops)
