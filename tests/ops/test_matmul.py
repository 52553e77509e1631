"""Matmul: batches, broadcasts, formats, biases, attributes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import computed, elements, memory_of
from support.errors import refused

CPU = rs.Engine("cpu")


def whole(dims: tuple[int, ...], seed: int) -> np.ndarray:
    """Small whole numbers, whose sums of products are exact."""
    return np.random.default_rng(seed).integers(-3, 4, dims).astype(np.float32)


def md(dims, format=None, data_type="f32"):
    return rs.MemoryDesc(dims, data_type, format)


@pytest.mark.parametrize("types", ["f32 f32 f32", "bf16 bf16 f32", "u8 s8 s32", "f32 s4 f32"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_sums_of_nothing_are_zero(types, has_bias):
    bias, dims = np.array([[1.0, 2.0, 3.0]], np.float32), ((7, 0), (0, 3), (7, 3))
    mds = [rs.MemoryDesc(each, kind, "any") for each, kind in zip(dims, types.split(), strict=True)]
    shifts = rs.MemoryDesc((1, 3), "f32") if has_bias else None
    pd = rs.Matmul.PrimitiveDesc(CPU, *mds[:2], shifts, mds[2])
    dst = rs.Memory(pd.dst_desc(), CPU, np.full(pd.dst_desc().size, 0x7F, np.uint8))
    memories = {rs.ARG_SRC: rs.Memory(pd.src_desc(), CPU), rs.ARG_WEIGHTS: rs.Memory(pd.weights_desc(), CPU)}
    if has_bias:
        memories[rs.ARG_BIAS] = rs.Memory(shifts, CPU, bias)
    rs.Matmul(pd).execute(rs.Stream(CPU), {**memories, rs.ARG_DST: dst})
    np.testing.assert_array_equal(dst.to_numpy(), np.broadcast_to(bias if has_bias else 0, (7, 3)))


@pytest.mark.parametrize("types", [("u8", "s8", "s32"), ("s8", "s8", "f32"), ("u8", "s8", "s8")])
def test_sums_of_integers_are_exact(types):
    x = np.random.default_rng(0).integers(0, 127, (9, 300))
    w = np.random.default_rng(1).integers(-128, 128, (300, 20))
    mds = [md(dims, None, kind) for dims, kind in zip(((9, 300), (300, 20), (9, 20)), types, strict=True)]
    pd = rs.Matmul.PrimitiveDesc(CPU, *mds)
    made = computed(rs.Matmul, pd, CPU, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, rs.ARG_DST)
    wanted = (x @ w).clip(-128, 127) if types[2] == "s8" else x @ w
    np.testing.assert_array_equal(elements(made[rs.ARG_DST]), wanted)


def test_any_becomes_blocks_of_columns():
    pd = rs.Matmul.PrimitiveDesc(CPU, md((8, 32), "any"), md((32, 64), "any"), md((8, 64), "any"))
    assert pd.weights_desc().tag in ("Ba16b", "Ba8b")
    assert (pd.src_desc().tag, pd.dst_desc().tag) == ("ab", "ab")
    assert pd.impl_info_str.endswith(":contraction")


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        (((4, 5), (6, 7), (4, 7)), "4 x 5 times 6 x 7"),
        (((4, 5), (5, 7), (4, 8)), "into 4 x 8"),
        (((2, 4, 5), (5, 7), (4, 7)), "ranks are 3, 2 and 2"),
        (((2, 4, 5), (3, 5, 7), (3, 4, 7)), "batch dim 0 is 2, 3 and 3"),
        (((1, 4, 5), (1, 5, 7), (3, 4, 7)), "batch dim 0 is 1, 1 and 3"),
        (((5,), (5,), (5,)), "2 or more"),
    ],
    ids=str,
)
def test_dims_that_do_not_fit_are_refused(dims, words):
    with refused(words):
        rs.Matmul.PrimitiveDesc(CPU, *map(md, dims))


def test_results_past_what_can_be_addressed_are_refused():
    with refused("below 2**63 bytes"):
        rs.Matmul.PrimitiveDesc(CPU, *map(md, ((1 << 33, 4), (4, 1 << 33), (1 << 33, 1 << 33))))


def test_a_bias_that_does_not_fit_is_refused():
    with refused("the bias is (9,)"):
        rs.Matmul.PrimitiveDesc(CPU, md((4, 5)), md((5, 9)), md((9,)), md((4, 9)))
    with refused("wrong arguments"):
        rs.Matmul.PrimitiveDesc(CPU)


# --- dims that only an execution knows ----------------------------------------------------------------------

OPEN = rs.RUNTIME_DIM


@pytest.mark.sweep(1)
@pytest.mark.parametrize("weights", ["ab", "any"])
@pytest.mark.parametrize("mode", ["library", "user"])
@pytest.mark.parametrize("data_type", ["f32", "bf16"])
def test_dims_may_be_known_only_at_execution(weights, mode, data_type, engine):
    if engine.is_sycl:
        pytest.skip("devices have no kernels of loop trees yet")
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_WEIGHTS, 2)
    attr.set_scratchpad_mode(mode)
    mds = (
        md((OPEN, 30), "ab", data_type),
        md((30, 20), weights, data_type),
        md((1, 20)),
        md((OPEN, 20), "ab"),
    )
    pd = rs.Matmul.PrimitiveDesc(engine, *mds, attr)
    product, scales = rs.Matmul(pd), np.linspace(1, 2, 20, dtype=np.float32)
    w, bias = whole((30, 20), 2), whole((1, 20), 3)
    shared = {
        rs.ARG_WEIGHTS: memory_of(pd.weights_desc(), w, engine),
        rs.ARG_BIAS: memory_of(md((1, 20)), bias, engine),
        rs.ARG_ATTR_SCALES | rs.ARG_WEIGHTS: memory_of(md((20,)), scales, engine),
    }
    for m in (1, 40, 7, 40, 0):
        x = whole((m, 30), m)
        own = {rs.ARG_SRC: memory_of(md((m, 30), "ab", data_type), x, engine)}
        dst = rs.Memory(md((m, 20), "ab"), engine)
        product.execute(rs.Stream(engine), {**shared, **own, rs.ARG_DST: dst})
        np.testing.assert_array_equal(elements(dst), (x @ w) * scales + bias)
    shared[rs.ARG_DST] = rs.Memory(md((8, 20), "ab"), engine)
    for dims, words in (((40, 30), "40 x 30 times 30 x 20 into 8 x 20"), ((8, 31), "src is not valid")):
        source = memory_of(md(dims, "ab", data_type), whole(dims, 1), engine)
        with refused(words):
            product.execute(rs.Stream(engine), {**shared, rs.ARG_SRC: source})


def test_strides_and_batches_may_be_known_only_at_execution():
    whole_md = md((OPEN, OPEN, OPEN), (OPEN, OPEN, OPEN))
    product = rs.Matmul(rs.Matmul.PrimitiveDesc(CPU, *[whole_md] * 3))
    for batch, m, k, n, tag in ((2, 3, 4, 5, "abc"), (1, 17, 40, 33, "acb"), (3, 1, 1, 1, "abc")):
        x, w = whole((batch, m, k), 1), whole((1, k, n), 2)
        memories = {rs.ARG_SRC: memory_of(md(x.shape, tag), x, CPU)}
        memories[rs.ARG_WEIGHTS] = memory_of(md(w.shape, tag), w, CPU)
        memories[rs.ARG_DST] = rs.Memory(md((batch, m, n), tag), CPU)
        product.execute(rs.Stream(CPU), memories)
        np.testing.assert_array_equal(elements(memories[rs.ARG_DST]), x @ w)


def test_an_open_format_needs_dims():
    with refused("format 'any' of weights"):
        rs.Matmul.PrimitiveDesc(CPU, md((4, OPEN), "ab"), md((OPEN, 8), "any"), md((4, 8)))
    with refused("4 x 5 times 6 x"):
        rs.Matmul.PrimitiveDesc(CPU, md((4, 5)), md((6, OPEN), "ab"), md((4, OPEN), "ab"))


@pytest.mark.parametrize(
    ("m", "k", "n", "tag", "name"),
    [
        (8, 1500, 1500, "ab", "copy+contraction"),
        (7, 1500, 1500, "ab", "rows+columns"),
        (1, 1500, 1500, "ab", "rows+columns"),
        (16, 1200, 1200, "ab", "contraction"),
        (4, 1200, 1200, "ba", "transpose+contraction"),
        (16, 4096, 32, "ab", "contraction"),
        (16, 1 << 17, 1, "ab", "rows"),
        (16, 16, 8192, "ab", "contraction"),
        (64, 64, 64, "ab", "contraction"),
    ],
)
def test_plain_weights_are_moved_where_this_is_faster(m: int, k: int, n: int, tag: str, name: str) -> None:
    src, weights, dst = (
        rs.MemoryDesc(*each) for each in (((m, k), "f32"), ((k, n), "f32", tag), ((m, n), "f32"))
    )
    pd = rs.onednn.Matmul.PrimitiveDesc(rs.Engine("cpu"), src, weights, None, dst)
    assert pd.impl_info_str.split(":")[2] == name


@pytest.mark.parametrize(("m", "k", "n", "is_moved"), [(16, 256, 64, 1), (16, 64, 64, 0), (64, 4096, 1, 0)])
def test_narrow_floats_become_f32_where_this_is_faster(m: int, k: int, n: int, is_moved: int) -> None:
    weights = rs.MemoryDesc((k, n), "nf4", "any")
    pd = rs.onednn.Matmul.PrimitiveDesc(
        rs.Engine("cpu"), rs.MemoryDesc((m, k), "f32"), weights, None, rs.MemoryDesc((m, n), "f32")
    )
    assert ("+" in pd.impl_info_str.split(":")[2]) == is_moved


@pytest.mark.parametrize("kinds", [("f32", "f32"), ("f32", "bf16"), ("f16", "f16"), ("f32", "f8_e4m3")])
@pytest.mark.parametrize("m", [1, 3, 7])
def test_few_rows_read_large_weights_row_by_row(m: int, kinds: tuple[str, str]) -> None:
    """Beside doubles, with all that attributes add; threads share the work and change no bit."""
    engine, (k, n), rng = rs.Engine("cpu"), (2051, 2053), np.random.default_rng(2)
    arrays = rng.standard_normal((m, k)), rng.standard_normal((k, n)), rng.standard_normal((1, n))
    x, weights, bias = (
        rs.reorder(each.astype(np.float32), None, dtype=kind)
        for each, kind in zip(arrays, (*kinds, "f32"), strict=True)
    )
    attr = rs.onednn.PrimitiveAttr()
    ops = rs.onednn.PostOps()
    ops.append_sum(0.5)
    ops.append_eltwise("eltwise_relu", 0.25, 0.0)
    attr.set_post_ops(ops)
    mds = [
        rs.MemoryDesc((m, k), kinds[0]),
        rs.MemoryDesc((k, n), kinds[1], "ab"),
        rs.MemoryDesc((1, n), "f32"),
    ]
    pd = rs.onednn.Matmul.PrimitiveDesc(engine, *mds, rs.MemoryDesc((m, n), "f32"), attr)
    results, before = [], rs.get_num_threads()
    for count in (1, 2, 5):
        rs.set_num_threads(count)
        held = [rs.Memory(md, engine, each) for md, each in zip(mds, (x, weights, bias), strict=True)]
        out = rs.Memory(pd.dst_desc(), engine, np.ones((m, n), np.float32))
        numbers = rs.onednn.Arg.SRC, rs.onednn.Arg.WEIGHTS, rs.onednn.Arg.BIAS, rs.onednn.Arg.DST
        rs.onednn.Matmul(pd).execute(rs.onednn.Stream(engine), dict(zip(numbers, (*held, out), strict=True)))
        results.append(out.to_numpy().copy())
    rs.set_num_threads(before)
    found = np.asarray(x, np.float64) @ np.asarray(weights, np.float64) + np.asarray(bias, np.float64) + 0.5
    expected = np.where(found > 0, found, found * 0.25)
    assert np.abs(results[0] - expected).max() <= 1e-6 * np.abs(expected).max()
    assert all(np.array_equal(results[0], other) for other in results)


@pytest.mark.parametrize(("m", "name"), [(8, "copy+contraction")])
def test_large_weights_are_put_into_blocks_for_some_rows(m: int, name: str) -> None:
    """Columns of 2048 f32 lie 8192 bytes apart; the bits are those of weights in blocks."""
    engine, k, n = rs.Engine("cpu"), 512, 2048
    rng = np.random.default_rng(1)
    x, weights = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    src, dst = rs.MemoryDesc((m, k), "f32", "ab"), rs.MemoryDesc((m, n), "f32", "ab")
    results = []
    for tag in ("ab", "any"):
        wanted = rs.MemoryDesc((k, n), "f32", tag)
        pd = rs.onednn.Matmul.PrimitiveDesc(engine, src, wanted, None, dst)
        held = rs.reorder(weights, out=rs.Memory(pd.weights_desc(), engine))
        out = rs.Memory(dst, engine)
        args = {
            rs.onednn.Arg.SRC: rs.Memory(src, engine, x),
            rs.onednn.Arg.WEIGHTS: held,
            rs.onednn.Arg.DST: out,
        }
        rs.onednn.Matmul(pd).execute(rs.onednn.Stream(engine), args)
        results.append(out.to_numpy())
        assert tag == "any" or pd.impl_info_str.split(":")[2] == name
    assert np.array_equal(*results)
    np.testing.assert_allclose(results[0], x @ weights, rtol=1e-3, atol=1e-3)
