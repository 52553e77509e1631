"""Attention that is written as its formula: one node, which gives what the formula gives."""

from math import inf

import numpy as np
import pytest

import restride as rs
from restride.graph.nodes.operations import PrimitiveOperation
from restride.graph.rewrites.fusions import fuse
from support.graph_values import graph_values

RNG = np.random.default_rng(38)
BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 4, 5, 7, 8
MATMUL = rs.graph.MatmulOperation()
ADD, SELECT = rs.graph.BinaryOperation("binary_add"), rs.graph.BinaryOperation("binary_select")
LEAST = float(np.finfo(np.float32).min)


class Formula:
    """A graph of queries, keys and values, and the steps of attention on them."""

    def __init__(self, batch=BATCH, heads=HEADS, queries=QUERIES, keys=KEYS, key_heads=HEADS):
        self.builder = rs.graph.GraphBuilder()
        self.inputs = {}
        self.q = self.input("q", (batch, heads, queries, WIDTH))
        self.k = self.input("k", (batch, key_heads, keys, WIDTH))
        self.v = self.input("v", (batch, key_heads, keys, WIDTH + 2))

    def input(self, name, dims, kind="f32"):
        is_truth = kind == "boolean"
        self.inputs[name] = RNG.random(dims) > 0.4 if is_truth else RNG.normal(size=dims).astype(np.float32)
        return self.builder.input(name, dims, kind)

    def dims(self, name):
        return self.builder.type(name).dims

    def constant(self, values):
        values = np.asarray(values)
        return self.builder.constant(values if values.dtype == np.bool_ else values.astype(np.float32))

    def number(self, value, rank=4):
        return self.constant(np.full((1,) * rank, value))

    def add(self, operation, *inputs):
        return self.builder.add(operation, *inputs)

    def times(self, x, factor):
        return self.add(rs.graph.EltwiseOperation("eltwise_linear", factor, 0.0), x)

    def turned(self, x):
        rank = len(self.dims(x))
        return self.add(rs.graph.TransposeOperation((*range(rank - 2), rank - 1, rank - 2)), x)

    def reshaped(self, x, *dims):
        return self.add(rs.graph.ReshapeOperation(dims), x)

    def product(self):
        return self.add(MATMUL, self.q, self.turned(self.k))

    def powers(self, scores):
        axis = len(self.dims(scores)) - 1
        return self.add(rs.graph.SoftmaxOperation("softmax_accurate", axis), scores)

    def result(self, powers):
        return self.add(MATMUL, powers, self.v)

    def check(self, *names, count=1, tolerance=1e-5, has_nan=False, **parameters):
        """The graph with so many nodes of attention, of these parameters, gives what it gave before."""
        graph = self.builder.graph(*names)
        found = fuse(graph)
        with np.errstate(invalid="ignore"):
            wanted = graph_values(graph, self.inputs)
        for made in (graph_values(found.graph, self.inputs), rs.Network(graph)(self.inputs)):
            for name in names:
                own = made[name] if isinstance(made, dict) else made
                np.testing.assert_allclose(
                    own, np.nan_to_num(wanted[name]) if has_nan else wanted[name], rtol=0, atol=tolerance
                )
        nodes = [node for node in found.graph.nodes if node.kind == "attention"]
        assert len(nodes) == count
        assert len([each for each in found.applied if each.fusion == "attention"]) == count
        assert not count or "softmax" not in [node.kind for node in found.graph.nodes]
        for node in nodes:
            own = dict(node.operation.parameters)
            assert all(own[name] == pytest.approx(value) for name, value in parameters.items())
        assert not [node for node in fuse(graph, ["attention"]).graph.nodes if node.kind == "attention"]
        return nodes


def test_products_and_a_softmax():
    f = Formula()
    (node,) = f.check(f.result(f.powers(f.product())), scale=1.0, causal="none")
    assert node.inputs == ("q", "k", "v")


@pytest.mark.parametrize("places", ["q", "k", "s", "qk", "qks", "kk", "t", "qt"])
def test_factors_are_one_scale(places):
    f, factor = Formula(), 1.0
    if "q" in places:
        f.q, factor = f.times(f.q, 0.5), factor * 0.5
    for _ in range(places.count("k")):
        f.k, factor = f.times(f.k, 0.7), factor * 0.7
    right, factor = f.turned(f.k), factor * (0.9 if "t" in places else 1.0)
    scores = f.add(MATMUL, f.q, f.times(right, 0.9) if "t" in places else right)
    if "s" in places:
        scores, factor = f.times(scores, 0.3), factor * 0.3
    (node,) = f.check(f.result(f.powers(scores)), scale=factor)
    assert node.inputs == ("q", "k", "v")


@pytest.mark.parametrize(
    "dims", [(1, 1, 1, KEYS), (BATCH, 1, 1, KEYS), (1, HEADS, QUERIES, KEYS), (1, 1, 5, 1)]
)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_mask_is_added(dims, is_known):
    f = Formula()
    mask = f.constant(RNG.normal(size=dims)) if is_known else f.input("m", dims)
    f.check(f.result(f.powers(f.add(ADD, mask, f.times(f.product(), 0.4)))), scale=0.4)


def test_several_masks_are_one():
    f = Formula()
    scores = f.product()
    known = (f.constant(RNG.normal(size=dims)) for dims in ((1, HEADS, QUERIES, KEYS), (BATCH, 1, 1, KEYS)))
    for mask in (*known, f.input("m", (BATCH, 1, 1, KEYS)), f.input("n", (1, 1, QUERIES, 1))):
        scores = f.add(ADD, scores, mask)
    f.check(f.result(f.powers(scores)))


def test_a_factor_behind_a_mask_stays():
    f = Formula()
    f.check(f.result(f.powers(f.times(f.add(ADD, f.product(), f.input("m", (1, 1, 1, KEYS))), 0.5))), count=0)


@pytest.mark.parametrize("least", [-inf, LEAST])
@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
def test_scores_are_selected(least, is_seen, is_known):
    f, dims = Formula(), (BATCH, 1, QUERIES, KEYS)
    mask = f.constant(RNG.random(dims) > 0.5) if is_known else f.input("m", dims, "boolean")
    pair = f.product(), f.number(least)
    scores = f.add(SELECT, *(pair if is_seen else pair[::-1]), mask)
    f.check(f.result(f.powers(scores)), has_nan=True)


def test_a_number_that_hides_not_all_of_a_score_stays_a_choice():
    f = Formula()
    mask = f.input("m", (BATCH, 1, QUERIES, KEYS), "boolean")
    f.check(f.result(f.powers(f.add(SELECT, f.product(), f.number(-3.0), mask))), count=0)


@pytest.mark.parametrize("least", [-inf, LEAST, -1e9])
@pytest.mark.parametrize(("shift", "word"), [(0, "top_left"), (KEYS - QUERIES, "bottom_right")])
def test_a_triangle_is_causal(least, shift, word):
    f = Formula()
    mask = f.constant(np.where(np.tri(QUERIES, KEYS, shift), 0, least)[None, None])
    (node,) = f.check(f.result(f.powers(f.add(ADD, f.product(), mask))), causal=word)
    assert len(node.inputs) == 3
    f = Formula()
    mask = f.constant(np.tri(QUERIES, KEYS, shift, dtype=np.bool_)[None, None])
    f.check(f.result(f.powers(f.add(SELECT, f.product(), f.number(-1e4), mask))), causal=word)


def test_a_triangle_beside_another_mask_is_causal():
    f = Formula()
    mask = f.constant(np.where(np.tri(QUERIES, KEYS), 0, -inf)[None, None])
    scores = f.add(ADD, f.add(ADD, f.product(), mask), f.input("m", (BATCH, 1, 1, KEYS)))
    (node,) = f.check(f.result(f.powers(scores)), causal="top_left")
    assert node.inputs[3] == "m"


@pytest.mark.parametrize(("shift", "hides"), [(0, -30.0), (1, -inf)])
def test_another_triangle_is_a_mask(shift, hides):
    f = Formula()
    mask = f.constant(np.where(np.tri(QUERIES, KEYS, shift), 0, hides)[None, None])
    f.check(f.result(f.powers(f.add(ADD, f.product(), mask))), causal="none")


def test_rows_without_keys_are_zeros():
    f = Formula()
    hidden = f.input("m", (BATCH, 1, 1, KEYS), "boolean")
    f.inputs["m"][0] = False
    powers = f.powers(f.add(SELECT, f.product(), f.number(-inf), hidden))
    is_nan = f.add(PrimitiveOperation("Elementwise", (("algorithm", "elementwise_is_nan"),)), powers)
    guarded = f.add(SELECT, f.number(0.0), powers, is_nan)
    f.check(f.result(guarded))


@pytest.mark.parametrize("middle", [False, True])
def test_heads_and_batch_are_joined_for_products(middle):
    """As `bmm` has it; `middle`: a mask stands between, in dims of their own."""
    f = Formula()
    f.q, f.k, f.v = (f.reshaped(x, BATCH * HEADS, *f.dims(x)[2:]) for x in (f.q, f.k, f.v))
    scores = f.product()
    if middle:
        scores = f.reshaped(scores, BATCH, HEADS, QUERIES, KEYS)
        scores = f.add(ADD, scores, f.input("m", (BATCH, 1, 1, KEYS)))
        scores = f.reshaped(scores, BATCH * HEADS, QUERIES, KEYS)
    f.check(f.result(f.powers(scores)))


def test_windows_have_masks_of_their_own():
    """As shifted windows have them: two images of four windows, a bias of heads, a mask of windows."""
    f = Formula(batch=8)
    scores = f.add(ADD, f.product(), f.constant(RNG.normal(size=(1, HEADS, QUERIES, KEYS))))
    mask = f.constant(RNG.normal(size=(1, 4, 1, QUERIES, KEYS)))
    scores = f.add(ADD, f.reshaped(scores, 2, 4, HEADS, QUERIES, KEYS), mask)
    f.check(f.result(f.powers(f.reshaped(scores, 8, HEADS, QUERIES, KEYS))))


@pytest.mark.parametrize("way", ["tile", "turned in three dims"])
def test_repeated_keys_are_fewer_heads(way):
    f = Formula(key_heads=2)

    def repeated(x):
        *_, keys, width = f.dims(x)
        x = f.add(
            PrimitiveOperation("Tile", (("repeats", (1, 1, 2, 1, 1)),)),
            f.reshaped(x, BATCH, 2, 1, keys, width),
        )
        return f.reshaped(x, BATCH, HEADS, keys, width)

    f.k, f.v = map(repeated, (f.k, f.v))
    if way == "tile":
        scores = f.product()
    else:
        joined = f.turned(f.reshaped(f.k, BATCH * HEADS, KEYS, WIDTH))
        scores = f.add(MATMUL, f.q, f.reshaped(joined, BATCH, HEADS, WIDTH, KEYS))
    (node,) = f.check(f.result(f.powers(scores)))
    assert node.inputs == ("q", "k", "v")


def test_what_others_read_stays():
    f = Formula()
    scores = f.product()
    f.check(f.result(f.powers(scores)), scores, count=0)
    f = Formula()
    powers = f.powers(f.product())
    f.check(f.result(powers), powers, count=0)


def test_keys_that_serve_a_whole_batch_stay_products():
    f = Formula()
    f.k, f.v = f.input("k1", (1, HEADS, KEYS, WIDTH)), f.input("v1", (1, HEADS, KEYS, WIDTH))
    f.check(f.result(f.powers(f.product())), count=0)


def test_explain_lists_what_became_attention():
    f = Formula()
    network = rs.Network(f.builder.graph(f.result(f.powers(f.product()))))
    text = str(network.explain(*[f.dims(name) for name in ("q", "k", "v")]))
    assert "1 attention" in text


@pytest.mark.parametrize("word", ["mul", "div"])
@pytest.mark.parametrize(
    "dims",
    [(1, 1, 1, 1), (1, HEADS, 1, 1), (BATCH, 1, QUERIES, 1), (1, HEADS, 1, KEYS)],
    ids=["one", "of heads", "of rows", "of columns"],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_factors_that_a_run_makes_are_those_of_queries_or_keys(word, dims, is_known):
    f = Formula()
    factor = f.constant(RNG.uniform(2, 3, dims)) if is_known else f.input("f", dims)
    if not is_known:
        f.inputs["f"] = RNG.uniform(2, 3, dims).astype(np.float32)
    scores = f.add(rs.graph.BinaryOperation(f"binary_{word}"), f.times(f.product(), 0.3), factor)
    f.check(f.result(f.powers(f.add(ADD, scores, f.input("m", (BATCH, 1, 1, KEYS))))))


def test_a_factor_of_other_dims_than_those_of_queries_stays():
    f = Formula(heads=8, key_heads=8)
    scores = f.reshaped(f.product(), 1, 16, QUERIES, KEYS)
    scores = f.add(rs.graph.BinaryOperation("binary_mul"), scores, f.input("f", (1, 16, 1, 1)))
    f.check(f.result(f.powers(f.reshaped(scores, 2, 8, QUERIES, KEYS))), count=0)
    f = Formula(heads=8, key_heads=8)
    scores = f.reshaped(f.product(), 1, 16, QUERIES, KEYS)
    scores = f.add(rs.graph.BinaryOperation("binary_mul"), scores, f.input("f", (1, 1, 1, 1)))
    f.check(f.result(f.powers(f.reshaped(scores, 2, 8, QUERIES, KEYS))))


@pytest.mark.parametrize("dims", [(1, 1, 1, KEYS), (BATCH, 1, 1, KEYS), (BATCH, HEADS, 1, KEYS)])
@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize("least", [-inf, LEAST, 0.25])
def test_a_number_that_a_run_makes_stands_for_the_scores_of_a_key(dims, is_seen, least):
    f = Formula()
    condition, number = f.input("c", dims, "boolean"), f.input("n", (1, 1, 1, 1))
    f.inputs["n"][:], f.inputs["c"][..., 2] = least, is_seen
    scores = f.add(rs.graph.BinaryOperation("binary_div"), f.product(), f.input("f", (1, 1, 1, 1)))
    f.inputs["f"][:] = 1.7
    pair = (scores, number) if is_seen else (number, scores)
    scores = f.add(SELECT, *pair, condition)
    f.check(f.result(f.powers(f.add(ADD, scores, f.input("m", (1, 1, QUERIES, KEYS))))))


@pytest.mark.parametrize("what", ["of pairs", "a mask below"])
def test_a_number_that_a_run_makes_stays_a_choice(what):
    f = Formula()
    dims = (1, 1, QUERIES if what == "of pairs" else 1, KEYS)
    scores = f.add(ADD, f.product(), f.input("m", (1, 1, 1, KEYS))) if what == "a mask below" else f.product()
    scores = f.add(SELECT, scores, f.input("n", (1, 1, 1, 1)), f.input("c", dims, "boolean"))
    f.check(f.result(f.powers(scores)), count=0)


@pytest.mark.parametrize("front", [(BATCH, 1, 1), (1, 2, 2), (BATCH, 2, 2), (1, 1, 1)])
def test_groups_of_heads_have_a_dim_of_their_own(front):
    f = Formula(key_heads=2)
    f.q = f.reshaped(f.q, BATCH, 2, 2, QUERIES, WIDTH)
    f.k, f.v = (f.reshaped(x, BATCH, 2, 1, *f.dims(x)[2:]) for x in (f.k, f.v))
    scores = f.add(rs.graph.BinaryOperation("binary_div"), f.product(), f.input("f", (1,) * 5))
    f.inputs["f"][:] = 1.7
    scores = f.add(ADD, scores, f.input("m", (*front, 1, KEYS)))
    (node,) = f.check(f.reshaped(f.result(f.powers(scores)), BATCH, HEADS, QUERIES, WIDTH + 2))
    assert node.inputs[1:3] == ("k", "v")


@pytest.mark.parametrize("kind", ["bf16", "f16"])
@pytest.mark.parametrize("ends", [True, False])
def test_casts_between_floats_are_passed(kind, ends):
    """`ends`: the result is of the type of the values, which is not that of the queries."""
    f = Formula()
    narrow, wide = (rs.graph.ReorderOperation(rs.DataType.parse(each)) for each in (kind, "f32"))
    if not ends:
        f.q = f.add(narrow, f.q)
    f.k, f.v = f.add(narrow, f.k), f.add(narrow, f.v)
    powers = f.add(narrow, f.powers(f.add(wide, f.times(f.add(narrow, f.product()), 0.4))))
    y = f.result(powers)
    f.check(f.add(wide, y), tolerance=0.03, scale=0.4)


def test_factors_of_heads_are_those_of_queries():
    f = Formula()
    scores = f.add(
        rs.graph.BinaryOperation("binary_mul"), f.product(), f.constant(RNG.normal(size=(1, HEADS, 1, 1)))
    )
    f.check(f.result(f.powers(f.add(ADD, scores, f.input("m", (1, 1, 1, KEYS))))))


def test_values_in_front_of_powers_give_the_transpose():
    """As images have it, whose positions are the last dim."""
    f = Formula()
    scores = f.add(MATMUL, f.turned(f.turned(f.q)), f.turned(f.k))
    y = f.add(MATMUL, f.turned(f.v), f.turned(f.powers(f.times(scores, 0.5))))
    f.check(y, scale=0.5)
    f = Formula()
    f.q, f.k, f.v = (f.reshaped(x, BATCH * HEADS, *f.dims(x)[2:]) for x in (f.q, f.k, f.v))
    f.check(f.add(MATMUL, f.turned(f.v), f.turned(f.powers(f.product()))))
