"""Plans in words: every fusion, tensor and reorder of a plan has its line."""

import numpy as np
import pytest

import restride as rs


def _network(rule="optimal", without=()):
    b = rs.graph.GraphBuilder()
    y = b.input("image", (1, 3, 16, 16))
    window = rs.graph.ConvolutionOperation((1, 1), (0, 0), (1, 1), (1, 1))
    for number, channels in ((1, 3), (2, 32)):
        weights = b.constant(np.ones((32, channels, 3, 3), np.float32), f"w{number}")
        y = b.add(window, y, weights, name=f"conv{number}")
        y = b.add(rs.graph.EltwiseOperation("eltwise_relu"), y, name=f"relu{number}")
    return rs.Network(b.graph(y), rule=rule, without=without)


@pytest.mark.parametrize("rule", ["plain", "greedy", "optimal"])
def test_fusions_tensors_reorders_and_memory_are_told(rule):
    net = _network(rule)
    text, plan = str(net.explain()), net.plan()
    assert "fusions: 2 epilogues, 1 winograd\n  epilogues: relu1 into conv1\n" in text
    assert f"formats: {rule}, predicted " in text
    assert all(f"\n  {name}: " in text for name in ("image", "relu1", "relu2"))
    assert all(str(each) in text for each in plan.formats.reorders)
    assert f"memory: {plan.arena.peak} bytes a run" in text
    assert f"kernels of {len(plan.steps)} steps" in text
    for step in plan.steps:
        assert f"  {step.node}: {step.operation}, {step.lowered.pd.impl_info_str}" in text
        assert all(line in text for line in step.lowered.pd.schedule.splitlines() if line[0] != "#")


def test_fusions_that_are_off_are_not_told():
    net = _network(without=["epilogues", "winograd"])
    assert str(net.explain()).startswith("fusions: none\n")
    assert [step.operation for step in net.plan().steps].count("eltwise") == 2


def test_a_prompt_shows_the_text_itself():
    assert repr(_network().explain()) == str(_network().explain())


def test_a_fusion_that_there_is_not_is_refused_before_anything_runs():
    with pytest.raises(rs.InvalidArguments, match="epilogues"):
        _network(without=["epilogue"])
