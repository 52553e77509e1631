"""Propagation: the rules, the total of each, and the proof that no choice has a lower one."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.graph.formats.elimination import CostTable, least_cost
from restride.graph.formats.problem import Alternative, EdgeCost, FormatProblem, FormatStep
from restride.graph.formats.propagation import priced, propagate

TAGS = ("nchw", "nhwc", "nChw16c")
PLAIN, LAST, BLOCKED = FORMATS = tuple(rs.MemoryDesc((1, 32, 4, 4), "f32", tag) for tag in TAGS)


def _edges(costs):
    """The cost of reorders, in whole seconds, so that sums are exact."""
    return lambda src, dst: EdgeCost(costs[FORMATS.index(src)][FORMATS.index(dst)], 100)


ALIKE = _edges([[0, 10, 10], [10, 0, 10], [10, 10, 0]])


def _chooses(name, source, *alternatives):
    return FormatStep(name, (source,), (name,), tuple(Alternative((a,), (b,), s) for a, b, s in alternatives))


def _follows(name, *sources, seconds=1):
    ways = tuple(Alternative((md,) * len(sources), (md,), seconds) for md in FORMATS)
    return FormatStep(name, sources, (name,), ways, follows=True)


def _problem(*steps, edge_cost=ALIKE, outputs=None, inputs=(("x", PLAIN),), constants=()):
    given = ((steps[-1].outputs[0], PLAIN),) if outputs is None else outputs
    return FormatProblem(steps, inputs, given, edge_cost, frozenset(constants))


def _total(problem, choices):
    """The cost by definition: own seconds, and a reorder for each tensor and format that some step reads."""
    formats, needed = dict(problem.inputs), set()
    total = 0
    for step, choice in zip(problem.steps, choices, strict=True):
        way = step.alternatives[choice]
        total += way.seconds
        needed |= set(zip(step.inputs, way.inputs, strict=True))
        formats |= dict(zip(step.outputs, way.outputs, strict=True))
    needed |= set(problem.outputs)
    moved = [(n, md) for n, md in needed if n not in problem.constants and formats[n] != md]
    return total + sum(problem.edge_cost(formats[name], md).seconds for name, md in moved)


def _brute(problem):
    ways = (range(len(step.alternatives)) for step in problem.steps)
    return min(_total(problem, choices) for choices in product(*ways))


@st.composite
def _random_problems(draw, most_steps=12, most_choices=600):
    """Steps that read earlier tensors, in formats at random; few enough ways to try them all."""
    tensors, steps, ways = ["x", "w"], [], 1
    formats = st.sampled_from(FORMATS)
    for place in range(draw(st.integers(1, most_steps))):
        sources = tuple(draw(st.lists(st.sampled_from(tensors[-4:]), min_size=1, max_size=3)))
        written = tuple(f"t{place}.{i}" for i in range(draw(st.sampled_from([1, 1, 1, 2]))))
        count = draw(st.integers(1, 3))
        count = count if ways * count <= most_choices else 1
        ways *= count
        alternatives = tuple(
            Alternative(
                tuple(draw(formats) for _ in sources),
                tuple(draw(formats) for _ in written),
                draw(st.integers(0, 9)),
            )
            for _ in range(count)
        )
        steps.append(FormatStep(f"s{place}", sources, written, alternatives, draw(st.booleans())))
        tensors += written
    costs = [[0 if a == b else draw(st.integers(1, 9)) for b in FORMATS] for a in FORMATS]
    outputs = draw(st.lists(st.tuples(st.sampled_from(tensors[2:]), formats), max_size=3))
    constants = draw(st.sampled_from([(), ("w",)]))
    return _problem(
        *steps,
        edge_cost=_edges(costs),
        outputs=tuple(outputs),
        inputs=(("x", draw(formats)), ("w", draw(formats))),
        constants=constants,
    )


@given(_random_problems())
@settings(max_examples=40)
def test_no_choice_has_a_lower_total_than_the_optimal_one(problem):
    found = propagate(problem)
    assert found.is_exact
    assert found.seconds == _brute(problem) == _total(problem, found.choices)


@given(_random_problems(), st.sampled_from([1, 4, 30]))
@settings(max_examples=40)
def test_with_small_tables_the_total_is_never_above_the_eager_one(problem, most_costs):
    found, eager = propagate(problem, most_costs=most_costs), propagate(problem, "greedy")
    assert found.seconds <= eager.seconds
    assert found.seconds == _total(problem, found.choices)
    if found.is_exact:
        assert found.seconds == _brute(problem)


@pytest.mark.slow
@given(_random_problems(most_choices=60_000))
@settings(max_examples=150, deadline=None)
def test_no_choice_of_many_has_a_lower_total_than_the_optimal_one(problem):
    assert propagate(problem).seconds == _brute(problem)


@given(_random_problems())
@settings(max_examples=20)
def test_the_total_is_that_of_the_definition_for_every_rule(problem):
    for rule in ("plain", "greedy", "optimal"):
        found = propagate(problem, rule)
        assert found.seconds == _total(problem, found.choices)
        assert found.bytes_moved == 100 * sum(not each.is_constant for each in found.reorders)


def test_a_chain_between_two_that_choose_stays_in_their_format():
    chosen = (BLOCKED, BLOCKED, 5), (PLAIN, PLAIN, 60)
    problem = _problem(
        _chooses("conv1", "x", *chosen),
        _follows("relu", "conv1"),
        _follows("pool", "relu"),
        _chooses("conv2", "pool", *chosen),
    )
    found = propagate(problem)
    assert [(each.tensor, each.dst) for each in found.reorders] == [("x", BLOCKED), ("conv2", PLAIN)]
    assert found.seconds == propagate(problem, "greedy").seconds == 10 + 5 + 1 + 1 + 5 + 10
    assert propagate(problem, "plain").seconds == 60 + 1 + 1 + 60


def test_the_optimum_leaves_a_format_that_is_too_short_to_pay():
    # The convolution is 5 faster in blocks, and the two reorders around it take 20.
    problem = _problem(
        _chooses("conv", "x", (BLOCKED, BLOCKED, 5), (PLAIN, PLAIN, 10)), _follows("relu", "conv")
    )
    assert propagate(problem, "greedy").seconds == 10 + 5 + 1 + 10
    found = propagate(problem)
    assert found.seconds == 11
    assert found.reorders == ()


def test_a_reorder_stands_behind_what_makes_its_tensor_small():
    small = _edges([[0, 10, 10], [10, 0, 10], [10, 3, 0]])
    problem = _problem(_follows("pool", "x"), _chooses("conv", "pool", (LAST, PLAIN, 1)), edge_cost=small)
    assert [each.tensor for each in propagate(problem).reorders] == ["pool"]


def test_a_join_of_two_formats_reorders_the_cheaper_side():
    problem = _problem(
        _chooses("a", "x", (PLAIN, BLOCKED, 1)),
        _chooses("b", "x", (PLAIN, LAST, 1)),
        _follows("sum", "a", "b"),
        edge_cost=_edges([[0, 10, 10], [2, 0, 50], [10, 3, 0]]),
    )
    found = propagate(problem)
    assert [(each.tensor, each.dst) for each in found.reorders] == [("a", LAST), ("sum", PLAIN)]
    assert found.seconds < propagate(problem, "greedy").seconds


def test_readers_of_one_format_share_a_reorder():
    problem = _problem(
        *(_chooses(f"c{i}", "x", (BLOCKED, PLAIN, 1)) for i in range(3)),
        _chooses("last", "x", (LAST, PLAIN, 1)),
        outputs=(("x", BLOCKED),),
    )
    found = propagate(problem)
    assert [(each.dst, each.readers) for each in found.reorders] == [
        (BLOCKED, ("c0", "c1", "c2", "")),
        (LAST, ("last",)),
    ]
    assert found.reorder_seconds == 20
    assert "c0, c1, c2 read and the network outputs aBcd16b" in found.reorders[0].why


def test_constants_are_reordered_once_and_cost_nothing():
    weights = ("w", PLAIN)
    step = FormatStep("conv", ("x", "w"), ("y",), (Alternative((PLAIN, BLOCKED), (PLAIN,), 1),))
    found = propagate(_problem(step, inputs=(("x", PLAIN), weights), constants=("w",)))
    (moved,) = found.reorders
    assert moved.is_constant
    assert (found.seconds, found.bytes_moved) == (1, 0)
    assert "(once)" in str(moved)


def test_what_follows_takes_the_first_input_that_is_no_constant():
    step = FormatStep(
        "scale", ("w", "x"), ("y",), tuple(Alternative((md, md), (md,), 1) for md in FORMATS), follows=True
    )
    problem = _problem(step, inputs=(("x", BLOCKED), ("w", LAST)), constants=("w",))
    assert propagate(problem, "greedy").formats["y"] == BLOCKED


def test_the_eager_rule_takes_what_comes_and_the_first_alternative_of_what_chooses():
    # As primitives do with "any": the first convolution decides, and the ReLU and the shuffle follow it.
    problem = _problem(
        _chooses("conv", "x", (PLAIN, BLOCKED, 9), (PLAIN, PLAIN, 1)),
        _follows("relu", "conv"),
        FormatStep("odd", ("relu",), ("odd",), (Alternative((PLAIN,), (PLAIN,), 1),), follows=True),
    )
    found = propagate(problem, "greedy")
    assert [found.formats[name] for name in ("conv", "relu", "odd")] == [BLOCKED, BLOCKED, PLAIN]
    assert [each.tensor for each in found.reorders] == ["relu"]


def test_a_wide_join_of_many_is_solved_exactly_and_fast():
    # As in DenseNet: each step concatenates all before it.
    steps, names = [], ["x"]
    for i in range(40):
        steps.append(_follows(f"concat{i}", *dict.fromkeys(names[-2:])))
        steps.append(
            _chooses(f"conv{i}", f"concat{i}", (BLOCKED, BLOCKED, 5), (LAST, LAST, 6), (PLAIN, PLAIN, 9))
        )
        names += [f"conv{i}"]
    found = propagate(_problem(*steps))
    assert found.is_exact
    assert found.seconds <= propagate(_problem(*steps), "greedy").seconds


def test_a_plan_is_told_in_words():
    problem = _problem(_chooses("conv", "x", (BLOCKED, BLOCKED, 5)))
    assert str(propagate(problem, "greedy")) == (
        "greedy: 2 reorders of 200 bytes, 2e+04 ms of 2.5e+04 ms\n"
        "  x: abcd to aBcd16b (100 bytes, 1e+07 us): the network receives abcd, conv reads aBcd16b\n"
        "  conv: aBcd16b to abcd (100 bytes, 1e+07 us): conv writes aBcd16b, the network outputs abcd"
    )


def test_a_tensor_without_a_tag_is_named_by_its_strides():
    gap = rs.MemoryDesc((1, 32, 4, 4), "f32", (1024, 32, 8, 1))
    step = FormatStep("cut", ("x",), ("y",), (Alternative((gap,), (PLAIN,)),))
    problem = _problem(step, edge_cost=lambda *_: EdgeCost(1, 1))
    assert "strides 1024x32x8x1" in str(propagate(problem))


@pytest.mark.parametrize(
    ("steps", "match"),
    [
        ((_follows("a", "b"), _follows("b", "x")), "step a reads 'b'"),
        ((_follows("a", "x"), _follows("a", "x")), "writes 'a' a second time"),
        ((FormatStep("a", ("x",), ("a",), ()),), "has no alternatives"),
        ((FormatStep("a", ("x",), ("a",), (Alternative((), (PLAIN,)),)),), "0 inputs and 1 outputs"),
        ((_follows("a", "x", seconds=float("nan")),), "nan seconds"),
    ],
)
def test_a_problem_that_does_not_hold_together_is_refused(steps, match):
    with pytest.raises(rs.InvalidArguments, match=match):
        _problem(*steps)


def test_an_output_that_nothing_writes_is_refused():
    with pytest.raises(rs.InvalidArguments, match="the network gives 'y'"):
        _problem(_follows("a", "x"), outputs=(("y", PLAIN),))


def test_a_rule_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(rs.InvalidArguments, match="optimal"):
        propagate(_problem(_follows("a", "x")), "optimum")


def test_a_network_without_steps_reorders_what_it_passes_on():
    problem = _problem(outputs=(("x", BLOCKED),))
    for rule in ("plain", "greedy", "optimal"):
        assert [each.dst for each in propagate(problem, rule).reorders] == [BLOCKED]
    assert priced(problem, (), "none").seconds == 10


@given(st.data())
@settings(max_examples=40)
def test_elimination_finds_the_least_sum_of_tables(data):
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    scopes = st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=3, unique=True).map(sorted)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    tables = [
        CostTable(tuple(scope), rng.integers(0, 50, [sizes[v] for v in scope]).astype(float))
        for scope in data.draw(st.lists(scopes, max_size=7))
    ]

    def total(states):
        return sum(t.costs[tuple(states[v] for v in t.variables)] for t in tables)

    found = least_cost(sizes, tables, [0] * len(sizes))
    assert found.is_exact
    assert total(found.states) == min(map(total, product(*map(range, sizes))))
