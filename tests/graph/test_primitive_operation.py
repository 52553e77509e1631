"""Nodes of any primitive: what they make follows from the specification, in graphs and in files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import restride as rs
from restride.graph.network.stored_graph import graph_of_values, values_of_graph
from restride.graph.nodes.operations import PrimitiveOperation, TensorType
from support.errors import refused

SUM = PrimitiveOperation(
    "Reduction", [["algorithm", "reduction_sum"], ["axes", [1]], ["p", 0.0], ["epsilon", 0.0]]
)


def _graph():
    builder = rs.graph.GraphBuilder()
    x = builder.input("x", (2, 3, 4))
    return builder.graph(builder.add(SUM, x, name="y"))


def test_a_node_of_any_primitive_runs():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(rs.Network(_graph())(x), x.sum(1, keepdims=True))


def test_parameters_read_as_attributes():
    assert (SUM.kind, SUM.inputs, SUM.count_of_results) == ("reduction", (1, 1), 1)
    assert (SUM.algorithm, SUM.axes) == ("reduction_sum", (1,))
    assert SUM.result(TensorType((2, 3))) == TensorType((2, 1))
    assert pickle.loads(pickle.dumps(SUM)) == SUM
    assert hash(SUM) == hash(PrimitiveOperation(SUM.primitive, SUM.parameters))
    with pytest.raises(AttributeError, match="no parameter 'size'"):
        SUM.size  # noqa: B018


def test_graphs_are_stored_with_the_name_of_the_primitive():
    graph = _graph()
    values = values_of_graph(graph, lambda constant: 0)
    assert values["nodes"][0]["kind"] == "primitive"
    assert graph_of_values(values, lambda number: graph.constants["x"]) == graph
    values["nodes"][0]["attributes"]["primitive"] = "Reducktion"
    with refused("primitive is 'Reducktion'", "Reduction"):
        graph_of_values(values, lambda number: graph.constants["x"])


def test_what_no_file_could_hold_is_no_parameter():
    with refused("PrimitiveOperation: axes is"):
        PrimitiveOperation("Reduction", (("axes", {1}),))
