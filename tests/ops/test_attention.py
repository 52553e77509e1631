"""Attention is what its formula says in f64, whatever hides keys, however heads lie, on every engine."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.executions import executed

QUERY, KEY, VALUE, MASK = rs.ARG_SRC, rs.ARG_SRC_1, rs.ARG_SRC_2, rs.ARG_SHIFT
LENGTHS, SINKS, STATS = rs.ARG_SRC_3, rs.ARG_BIAS, rs.ARG_DST_1
_LEAST = -3e38


class Problem:
    """Tensors of a problem, what is computed of them, and what should be."""

    def __init__(
        self, dims, key_heads=None, kind="f32", tag="abcd", mask=None, lengths=None, sinks=False, **rest
    ):
        self.batch, self.heads, self.queries, self.keys, self.width, self.values = dims
        self.key_heads, self.kind, self.tag, self.rest = key_heads or self.heads, kind, tag, rest
        rng = np.random.default_rng(sum(dims))
        twin = rs.DataType[kind].numpy
        shapes = {
            QUERY: (self.batch, self.heads, self.queries, self.width),
            KEY: (self.batch, self.key_heads, self.keys, self.width),
            VALUE: (self.batch, self.key_heads, self.keys, self.values),
        }
        self.inputs = {arg: rng.standard_normal(dims).astype(twin) for arg, dims in shapes.items()}
        if mask is not None:
            dims, of = mask
            self.inputs[MASK] = rng.standard_normal(dims).astype(np.float32)
            if of == "boolean":
                self.inputs[MASK] = self.inputs[MASK] > -0.4
        if lengths is not None:
            self.inputs[LENGTHS] = np.array(lengths, np.int64)
        if sinks:
            self.inputs[SINKS] = rng.standard_normal(self.heads).astype(np.float32)

    def result(self, engine, stats=True):
        mds = {
            arg: rs.MemoryDesc(x.shape, x.dtype, self.tag if x.ndim == 4 and arg != MASK else None)
            for arg, x in self.inputs.items()
        }
        rows = self.batch, self.heads, self.queries
        dst = rs.MemoryDesc((*rows, self.values), self.kind, self.tag)
        told = rs.MemoryDesc(rows, "f32") if stats else None
        others = [mds.get(arg) for arg in (MASK, LENGTHS, SINKS)]
        arguments = [mds[QUERY], mds[KEY], mds[VALUE], dst, *others, told]
        words = [self.rest.get(name, default) for name, default in _WORDS.items()]
        return executed(engine, "ScaledDotProductAttention", self.inputs, *arguments, *words)

    def wanted(self):
        """The result and its statistics, in f64."""
        group = self.heads // self.key_heads
        query, key, value = (self.inputs[arg].astype(np.float64) for arg in (QUERY, KEY, VALUE))
        key, value = (np.repeat(x, group, 1) for x in (key, value))
        scale = self.rest.get("scale")
        scores = query @ key.swapaxes(2, 3) * (self.width**-0.5 if scale is None else scale)
        if cap := self.rest.get("soft_cap"):
            scores = cap * np.tanh(scores / cap)
        mask = self.inputs.get(MASK)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
        scores = np.where(self.is_hidden()[:, None], -np.inf, scores)
        sinks = self.inputs.get(SINKS, np.full(self.heads, -np.inf))[None, :, None, None].astype(np.float64)
        top = np.maximum(np.maximum(scores.max(-1, keepdims=True), sinks), _LEAST)
        powers = np.exp(scores - top)
        total = powers.sum(-1, keepdims=True) + np.exp(sinks - top)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(total > 0, powers @ np.where(np.isnan(value), 0, value) / total, 0)
            return found, (top + np.log(total))[..., 0]

    def is_hidden(self):
        """Return a mask of the keys that queries do not see."""
        i, j = np.arange(self.queries)[None, :, None], np.arange(self.keys)[None, None, :]
        count = self.inputs.get(LENGTHS, np.array([self.keys]))[:, None, None].clip(0, self.keys)
        causal, (before, behind) = self.rest.get("causal", "none"), self.rest.get("window", (-1, -1))
        place = i + (count - self.queries if causal == "bottom_right" else 0)
        hidden = np.broadcast_to(j >= count, (self.batch, self.queries, self.keys)).copy()
        hidden |= (causal != "none") & (j > place)
        hidden |= (before >= 0) & (j < place - before)
        return hidden | ((behind >= 0) & (j > place + behind))


_WORDS = {"scale": None, "causal": "none", "window": None, "soft_cap": 0.0}
_STEPS = {"f32": 3e-6, "f64": 1e-6, "bf16": 2.0**-7, "f16": 2.0**-10}


def check(engine, problem):
    found, (wanted, stats) = problem.result(engine), problem.wanted()
    most = max(float(np.abs(wanted).max()), 1e-3)
    result = found[rs.ARG_DST].astype(np.float64)
    np.testing.assert_allclose(result, wanted, atol=_STEPS[problem.kind] * most, rtol=_STEPS[problem.kind])
    has_keys = np.isfinite(stats) & (stats > _LEAST)
    if problem.kind in ("f32", "f64"):
        np.testing.assert_allclose(found[STATS][has_keys], stats[has_keys], atol=1e-4, rtol=1e-5)


# (batch, heads, queries, keys, width, width of values): blocks of one size and of two, and tails.
SHORT, LONG, ONE, FEW = (
    (2, 4, 17, 33, 16, 24),
    (1, 2, 130, 700, 8, 8),
    (1, 4, 1, 600, 32, 32),
    (2, 2, 3, 1100, 8, 8),
)


@pytest.mark.parametrize("dims", [SHORT, LONG, ONE, FEW], ids=str)
@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"causal": "top_left"},
        {"causal": "bottom_right", "soft_cap": 2.0},
        {"causal": "bottom_right", "window": (40, -1)},
        {"window": (5, 9), "scale": 0.3},
        {"sinks": True, "scale": 1.0},
    ],
    ids=str,
)
def test_what_hides_keys(engine, dims, rest):
    check(engine, Problem(dims, **rest))


@pytest.mark.parametrize("key_heads", [1, 2])
@pytest.mark.parametrize("dims", [SHORT, (*LONG[:1], 4, *LONG[2:]), ONE], ids=str)
def test_heads_of_keys_serve_several_heads_of_queries(engine, dims, key_heads):
    check(engine, Problem(dims, key_heads, causal="bottom_right"))


@pytest.mark.parametrize("tag", ["acbd", "abcD8d", "abCd8c", "bacd", "abdc", "aBcd16b", "abCD4c4d"])
@pytest.mark.parametrize("dims", [SHORT, LONG, ONE], ids=str)
def test_every_format(engine, dims, tag):
    check(engine, Problem(dims, tag=tag, causal="top_left"))


@pytest.mark.parametrize("kind", ["bf16", "f16", "f64"])
@pytest.mark.parametrize("dims", [SHORT, LONG, ONE], ids=str)
def test_every_type(engine, dims, kind):
    check(engine, Problem(dims, kind=kind))


@pytest.mark.parametrize("of", ["f32", "boolean"])
@pytest.mark.parametrize("dims", [SHORT, LONG, ONE], ids=str)
def test_masks_are_repeated_along_dims_of_1(engine, dims, of):
    batch, heads, queries, keys = dims[:4]
    for mask in (
        (batch, heads, queries, keys),
        (1, 1, queries, keys),
        (batch, 1, 1, keys),
        (1, heads, queries, 1),
    ):
        check(engine, Problem(dims, mask=(mask, of)))


@pytest.mark.parametrize("causal", ["none", "bottom_right"])
@pytest.mark.parametrize(
    "dims", [(2, 4, 17, 90, 16, 24), (2, 2, 130, 700, 8, 8), (2, 4, 1, 600, 32, 32)], ids=str
)
def test_lengths_are_known_in_the_run_and_what_lies_behind_has_no_share(engine, dims, causal):
    problem = Problem(dims, 2, causal=causal, lengths=(40, dims[3] + 5))
    problem.inputs[KEY][0, :, 40:] = problem.inputs[VALUE][0, :, 40:] = np.nan
    found, (wanted, _) = problem.result(engine, stats=False)[rs.ARG_DST], problem.wanted()
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_rows_that_see_no_key_are_zeros(engine):
    for dims in (SHORT, LONG, ONE):
        problem = Problem(dims, lengths=(0,) * dims[0])
        assert not problem.result(engine)[rs.ARG_DST].any()
    problem = Problem((1, 1, 9, 4, 8, 8), causal="bottom_right")
    found = problem.result(engine)[rs.ARG_DST]
    assert not found[:, :, :5].any()
    check(engine, problem)


@pytest.mark.parametrize(
    "dims", [(0, 2, 3, 4, 5, 6), (1, 2, 0, 4, 5, 6), (1, 2, 3, 0, 5, 6), (1, 2, 3, 4, 5, 0)], ids=str
)
def test_dims_of_0(engine, dims):
    found = Problem(dims).result(engine, stats=False)[rs.ARG_DST]
    assert found.shape == (*dims[:3], dims[5])
    assert not found.any()


def test_values_that_no_stack_holds_are_summed_by_steps_of_the_whole(engine):
    check(engine, Problem((1, 1, 20, 9, 4, 70_000)))


@pytest.mark.parametrize("dims", [SHORT, (2, 4, 300, 700, 16, 16), (4, 8, 1, 600, 64, 64)], ids=str)
def test_no_number_of_threads_changes_a_bit(dims):
    problem, before, found = Problem(dims, 2, causal="bottom_right"), rs.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            rs.set_num_threads(threads)
            found.append(problem.result(rs.Engine("cpu"))[rs.ARG_DST].tobytes())
    finally:
        rs.set_num_threads(before)
    assert len(set(found)) == 1


def _descs(**others):
    dims = {"query": (2, 4, 5, 8), "key": (2, 2, 7, 8), "value": (2, 2, 7, 6), "dst": (2, 4, 5, 6), **others}
    return {name: rs.MemoryDesc(each, "f32") for name, each in dims.items()}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (_descs(key=(2, 2, 7, 9)), "RS-R10", "width"),
        (
            _descs(key=(2, 3, 7, 8), value=(2, 3, 7, 6)),
            "RS-R10",
            "4 heads of queries are not a multiple of 3",
        ),
        (_descs(value=(2, 2, 6, 6)), "RS-R10", "keys and values"),
        (_descs(query=(4, 5, 8)), "RS-R10", "four dims"),
        (_descs(dst=(2, 4, 5, 7)), "RS-R10", "dst"),
        ({**_descs(), "mask": rs.MemoryDesc((2, 4, 5, 6), "f32")}, "RS-R10", "mask"),
        ({**_descs(), "lengths": rs.MemoryDesc((2,), "f32")}, "RS-R10", "lengths"),
        ({**_descs(), "window": (1, -2)}, "RS-V05", "window"),
        ({**_descs(), "window": "ab"}, "RS-V05", "window"),
        ({**_descs(), "causal": "left"}, "RS-V04", "causal"),
        ({**_descs(), "query": rs.MemoryDesc((2, 4, 5, 8), "s8")}, "RS-X02", "query"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_does_not_fit_is_refused(arguments, code, words):
    make = rs.onednn.ScaledDotProductAttention.PrimitiveDesc
    with pytest.raises(rs.Error) as found:
        make(rs.Engine("cpu"), **arguments)
    assert found.value.code == code
    assert words in str(found.value)


# --- gradients ----------------------------------------------------------------------------------------------


def _gradients(problem, diff):
    """Gradients of queries, keys and values by the formulas, in f64."""
    group = problem.heads // problem.key_heads
    query, key, value = (problem.inputs[arg].astype(np.float64) for arg in (QUERY, KEY, VALUE))
    key, value = (np.repeat(x, group, 1) for x in (key, value))
    found, stats = problem.wanted()
    scale = problem.rest.get("scale") or problem.width**-0.5
    scores = query @ key.swapaxes(2, 3) * scale
    slope, cap = 1.0, problem.rest.get("soft_cap")
    if cap:
        slope = 1 - np.tanh(scores / cap) ** 2
        scores = cap * np.tanh(scores / cap)
    mask = problem.inputs.get(MASK)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    scores = np.where(problem.is_hidden()[:, None], -np.inf, scores)
    has_keys = (stats > _LEAST)[..., None]
    powers = np.where(has_keys, np.exp(scores - np.where(has_keys, stats[..., None], 0)), 0)
    delta = (found * diff).sum(-1, keepdims=True)
    of_scores = powers * (diff @ value.swapaxes(2, 3) - delta) * slope * scale
    joined = (problem.batch, problem.key_heads, group, problem.keys)
    return (
        of_scores @ key,
        (of_scores.swapaxes(2, 3) @ query).reshape(*joined, -1).sum(2),
        (powers.swapaxes(2, 3) @ diff).reshape(*joined, -1).sum(2),
    )


@pytest.mark.parametrize("tag", ["abcd", "acbd", "abCD4c4d"])
@pytest.mark.parametrize(
    ("dims", "rest"),
    [
        (SHORT, {}),
        (SHORT, {"causal": "bottom_right", "soft_cap": 2.0, "sinks": True}),
        (LONG, {"causal": "top_left", "window": (60, -1)}),
        (ONE, {"mask": ((1, 4, 1, 600), "f32"), "scale": 0.4}),
        (SHORT, {"mask": ((2, 1, 17, 33), "boolean"), "lengths": (20, 0)}),
        ((1, 1, 9, 4, 8, 8), {"causal": "bottom_right"}),
        (SHORT, {"kind": "f64"}),
        (SHORT, {"kind": "bf16"}),
    ],
    ids=str,
)
def test_gradients(engine, dims, rest, tag):
    problem = Problem(dims, 2 if dims[1] > 1 else 1, tag=tag, **rest)
    diff = np.random.default_rng(5).standard_normal((*dims[:3], dims[5])).astype(problem.inputs[QUERY].dtype)
    forward = problem.result(engine)
    mds = {
        arg: rs.MemoryDesc(x.shape, x.dtype, tag if arg in (QUERY, KEY, VALUE) else None)
        for arg, x in problem.inputs.items()
    }
    dst = rs.MemoryDesc(forward[rs.ARG_DST].shape, problem.kind, tag)
    three = [mds[arg] for arg in (QUERY, KEY, VALUE)]
    arguments = [*three, dst, rs.MemoryDesc(forward[STATS].shape, "f32"), *three, dst]
    arguments += [mds.get(arg) for arg in (MASK, LENGTHS, SINKS)]
    arguments += [problem.rest.get(name, default) for name, default in _WORDS.items()]
    inputs = {**problem.inputs, rs.ARG_DST: forward[rs.ARG_DST], STATS: forward[STATS], rs.ARG_DIFF_DST: diff}
    found = executed(engine, "ScaledDotProductAttentionBackward", inputs, *arguments)
    step = {"bf16": 2.0**-6}.get(problem.kind, 2e-5)
    wanted = _gradients(problem, diff.astype(np.float64))
    for arg, array in zip((rs.ARG_DIFF_SRC, rs.ARG_DIFF_SRC_1, rs.ARG_DIFF_SRC_ITER_C), wanted, strict=True):
        most = max(np.abs(array).max(), 1e-3)
        np.testing.assert_allclose(found[arg].astype(np.float64), array, atol=step * most, rtol=step)


def test_gradients_take_the_statistics_of_the_forward_step():
    md, make = rs.MemoryDesc((1, 1, 4, 8), "f32"), rs.onednn.ScaledDotProductAttentionBackward.PrimitiveDesc
    with pytest.raises(rs.Error) as found:
        make(rs.Engine("cpu"), md, md, md, md, None, md, md, md, md)
    assert found.value.code == "RS-R10"
    assert "stats" in str(found.value)


def _gradients_beside(engine, fill, at, width=8, **hides):
    """The gradients of 3 queries and 7 keys, of which the last four are `fill` in the places of `at`."""
    problem = Problem((1, 2, 3, 7, width, 8), **hides)
    forward = problem.result(engine)
    for arg in at:
        problem.inputs[arg][:, :, 3:] = fill
    inputs = {**problem.inputs, **forward, rs.ARG_DIFF_DST: np.ones_like(forward[rs.ARG_DST])}
    query, key, value, dst, stats = (
        rs.MemoryDesc(inputs[arg].shape, "f32") for arg in (QUERY, KEY, VALUE, rs.ARG_DST, STATS)
    )
    others = [
        rs.MemoryDesc(inputs[arg].shape, inputs[arg].dtype) if arg in inputs else None
        for arg in (MASK, LENGTHS, SINKS)
    ]
    words = [problem.rest.get(name, default) for name, default in _WORDS.items()]
    arguments = (query, key, value, dst, stats, query, key, value, dst, *others, *words)
    found = executed(engine, "ScaledDotProductAttentionBackward", inputs, *arguments)
    return [found[arg] for arg in (rs.ARG_DIFF_SRC, rs.ARG_DIFF_SRC_1, rs.ARG_DIFF_SRC_ITER_C)]


@pytest.mark.parametrize("fill", [np.nan, np.inf])
@pytest.mark.parametrize("at", [(KEY,), (VALUE,), (KEY, VALUE)])
@pytest.mark.parametrize(
    "hides",
    [{"lengths": [3]}, {"causal": "top_left"}, {"window": (5, 0)}, {"causal": "top_left", "soft_cap": 2.0}],
    ids=str,
)
def test_what_no_query_sees_has_no_share_in_gradients(engine, fill, at, hides):
    found, wanted = (_gradients_beside(engine, each, at, **hides) for each in (fill, 0.0))
    for mine, clean in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, clean)


def test_a_value_that_is_seen_and_nan_makes_gradients_nan(engine):
    found = _gradients_beside(engine, np.nan, (VALUE,))
    assert np.isnan(found[0]).all()


def test_values_have_gradients_where_queries_have_no_width(engine):
    found = _gradients_beside(engine, 0.0, (), width=0)
    np.testing.assert_allclose(found[2], 3 / 7, rtol=1e-6)
