"""Recurrent layers as operations of a graph: what they make, what does not fit; the benchmark of networks."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride_bench.recurrent import NetworkShape, measure

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
        (rs.graph.RecurrentOperation("lstm"), {}),
        (rs.graph.RecurrentOperation("vanilla_lstm", "both"), {}),
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


def test_one_state_of_two_is_refused() -> None:
    with pytest.raises(rs.InvalidArguments, match="perhaps 2 states"):
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
    row = measure(shape, None, has_torch=False)
    assert row.least("restride") > 0
    assert (row.over("oneDNN"), row.wrong, shape.flops) == ("", (), 4 * 2 * 4 * 256)
