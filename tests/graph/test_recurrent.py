"""Recurrent layers as operations of a graph: what they make, what does not fit; the benchmark of networks."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.cli.usage import UsageError
from restride.ops.rnn_checks import parse_direction
from restride_bench.driver.expand import expand
from restride_bench.recurrent import NetworkShape, measure, parse
from restride_bench.study import BenchSetup

CELLS = {"vanilla_rnn": (1, 1), "vanilla_lstm": (4, 4), "vanilla_gru": (3, 3), "lbr_gru": (3, 4)}


def types(cell: str, directions: int = 1, states: int = 0) -> list[rs.graph.TensorType]:
    gates, biases = CELLS[cell]
    runs = (1, directions)
    dims = [(5, 2, 3), (*runs, 3, gates, 4), (*runs, 4, gates, 4), (*runs, biases, 4)]
    return [rs.graph.TensorType(each) for each in [*dims, *[(*runs, 2, 4)] * states]]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    ("direction", "wide"), [("left2right", 4), ("right2left", 4), ("concat", 8), ("sum", 4)]
)
def test_a_layer_makes_its_states_and_the_last_ones(cell: str, direction: str, wide: int) -> None:
    operation = rs.graph.RecurrentOperation(cell, direction, "tanh" if cell == "vanilla_rnn" else "")
    runs, last = operation.directions, 2 if cell == "vanilla_lstm" else 1
    for states in (0, last):
        found = operation.results(types(cell, runs, states))
        assert [each.dims for each in found] == [(5, 2, wide), *[(1, runs, 2, 4)] * last]
        assert len(found) == operation.count_of_results


@pytest.mark.parametrize(
    ("operation", "changes"),
    [
        (rs.graph.RecurrentOperation("vanilla_lstm", "concat"), {}),
        (rs.graph.RecurrentOperation("vanilla_gru"), {}),
        (rs.graph.RecurrentOperation("vanilla_lstm"), {0: (5, 2)}),
        (rs.graph.RecurrentOperation("vanilla_lstm"), {0: (0, 2, 3)}),
        (rs.graph.RecurrentOperation("vanilla_lstm"), {1: (1, 1, 4, 4, 4)}),
        (rs.graph.RecurrentOperation("vanilla_lstm"), {2: (1, 1, 4, 4, 5)}),
        (rs.graph.RecurrentOperation("vanilla_lstm"), {3: (4, 4)}),
        (rs.graph.RecurrentOperation("vanilla_lstm"), {4: (1, 1, 3, 4)}),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    operation: rs.graph.RecurrentOperation, changes: dict[int, tuple[int, ...]]
) -> None:
    found = types("vanilla_lstm", states=2)
    for place, dims in changes.items():
        found[place] = rs.graph.TensorType(dims)
    with pytest.raises(rs.InvalidArguments, match="do not fit the operation"):
        operation.results(found)


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (("lstm",), "cell is 'lstm'", "did you mean 'vanilla_lstm'? use one of vanilla_rnn"),
        ((None,), "cell is None", "use one of vanilla_rnn"),
        (("vanilla_lstm", "both"), "direction is 'both'", "use one of left2right, right2left, concat, sum"),
        (("vanilla_gru", "unidirectional_right2left"), "direction is", "did you mean 'right2left'?"),
        (("vanilla_gru", "bidirectional_sum"), "direction is", "did you mean 'sum'?"),
        (("vanilla_rnn",), "activation is ''", "use one of relu, tanh, logistic"),
        (("vanilla_rnn", "concat", "eltwise_tanh"), "activation is", "did you mean 'tanh'?"),
        (("vanilla_rnn", "concat", "gelu"), "activation is 'gelu'", "use one of relu"),
        (("vanilla_lstm", "concat", "relu"), "activation is 'relu'", "leave it out"),
    ],
)
def test_words_of_an_operation_are_checked_when_it_is_made(
    words: tuple[str, ...], said: str, hint: str
) -> None:
    with pytest.raises(rs.InvalidArguments, match="RecurrentOperation") as caught:
        rs.graph.RecurrentOperation(*words)
    assert said in caught.value.what
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("left2right", "unidirectional_left2right"),
        ("concat", "bidirectional_concat"),
        ("sum", "bidirectional_sum"),
    ],
)
def test_primitives_and_the_driver_suggest_their_words_of_directions(word: str, wanted: str) -> None:
    with pytest.raises(rs.InvalidArguments) as caught:
        parse_direction("LSTMForward.PrimitiveDesc", word)
    assert f"did you mean {wanted!r}?" in caught.value.hint
    with pytest.raises(UsageError, match="there is no such direction") as refused:
        expand(f"--rnn --direction={wanted} t2mb1_sic3".split())
    assert f"did you mean {word!r}?" in str(refused.value)


def test_one_state_of_two_is_refused() -> None:
    with pytest.raises(rs.InvalidArguments, match="optionally 2 states"):
        rs.graph.RecurrentOperation("vanilla_lstm").results(types("vanilla_lstm", states=1))


def test_fusions_leave_layers_and_move_what_is_around_them() -> None:
    rng = np.random.default_rng(0)
    builder = rs.graph.GraphBuilder()
    x = builder.input("x", (2, 5, 3))
    swapped = builder.add(rs.graph.TransposeOperation((1, 0, 2)), x)
    weights = [rng.standard_normal(each.dims).astype(np.float32) for each in types("vanilla_gru")[1:]]
    names = [builder.constant(each) for each in weights]
    y, last = builder.add_all(rs.graph.RecurrentOperation("vanilla_gru"), swapped, *names)
    relu = builder.add(rs.graph.EltwiseOperation("eltwise_relu"), y)
    graph = builder.graph(relu, last)
    values = rng.standard_normal((2, 5, 3)).astype(np.float32)
    found = [
        rs.Network(graph, rule=rule, without=off)(values)
        for rule, off in (("optimal", ()), ("plain", rs.graph.FUSIONS))
    ]
    for one, other in zip(*(each.values() for each in found), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    np.testing.assert_allclose(found[0][relu][-1], np.maximum(found[0][last][0, 0], 0), atol=1e-6)


def test_a_row_of_the_benchmark_is_timed_and_compared() -> None:
    shape = NetworkShape("LSTM", 2, 1, 16)
    row = measure(shape, BenchSetup((), (), 1, 2, 0))
    assert row.seconds() > 0
    assert (row.over("oneDNN"), row.wrong, shape.flops) == (None, {}, 4 * 2 * 4 * 256)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["-h"], 0, "Rows are LSTM of f32, bf16, u8; GRU of f32, bf16, u8; LBRGRU of f32, bf16."),
        (["LSTM"], 2, "'LSTM' is no number of threads"),
        (["0"], 2, "'0' is no number of threads"),
        (["1", "lstm"], 2, "lstm: cells and types are LSTM, GRU, LBRGRU, f32, bf16, u8"),
        (["1", "FOO", "f32"], 2, "FOO: cells and types are"),
        (["1", "LBRGRU", "u8"], 2, "LBRGRU u8: there is no such row"),
    ],
)
def test_what_is_no_row_of_the_benchmark_exits_with_its_usage(
    words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(words)
    assert caught.value.code == status
    shown = " ".join("".join(capsys.readouterr()).split())
    assert "usage: python -m restride_bench.recurrent" in shown
    assert said in shown


def test_cells_and_types_of_the_benchmark_are_those_that_are_named() -> None:
    assert parse(["2", "GRU", "bf16"]) == (2, ["GRU", "bf16"])
    assert parse([]) == (rs.get_num_threads(), [])
