"""Concats whose parts are written into the whole: when they are, when not, and the bytes of both."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import restride as rs
from restride.graph.graph import Graph
from restride.graph.network import plan as network_plan

Array = np.ndarray
SAME = rs.graph.ConvolutionOperation((1, 1), (0, 0), (1, 1), (1, 1))
POINT = rs.graph.ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0))
POOL = rs.graph.PoolingOperation("pooling_max", (3, 3), (1, 1), (0, 0), (1, 1), (1, 1))
RELU = rs.graph.EltwiseOperation("eltwise_relu")


def values(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *dims)).standard_normal(dims).astype(np.float32)


class Branches:
    """A graph of branches that begin with one tensor."""

    def __init__(self, batch: int = 2) -> None:
        self.builder = rs.graph.GraphBuilder()
        self.x = self.builder.input("x", (batch, 32, 9, 7))

    def convolution(self, source: str, outputs: int, name: str = "") -> str:
        inputs = self.builder.type(source).dims[1]
        weights = self.builder.constant(values(outputs, inputs, 3, 3, seed=outputs) / 10)
        return self.builder.add(SAME, source, weights, name=name)

    def concat(self, *parts: str, name: str = "y") -> str:
        return self.builder.add(rs.graph.ConcatOperation(1), *parts, name=name)

    def graph(self, *outputs: str) -> Graph:
        return self.builder.graph(*outputs)


def two_branches() -> Graph:
    made = Branches()
    y = made.concat(made.convolution(made.x, 32), made.builder.add(POOL, made.convolution(made.x, 48)))
    return made.graph(made.convolution(y, 16, "z"))


def one_branch_of_a_batch_of_one() -> Graph:
    made = Branches(1)
    y = made.concat(made.convolution(made.x, 16), made.convolution(made.x, 16))
    return made.graph(made.convolution(y, 16, "z"))


def concat_at_the_end() -> Graph:
    made = Branches()
    return made.graph(made.concat(made.convolution(made.x, 32), made.convolution(made.x, 48)))


def concat_of_concats() -> Graph:
    made = Branches()
    inner = made.concat(made.convolution(made.x, 16), made.convolution(made.x, 32), name="inner")
    return made.graph(made.convolution(made.concat(inner, made.convolution(made.x, 16)), 16, "z"))


def a_part_that_others_read() -> Graph:
    made = Branches()
    part = made.convolution(made.x, 32)
    y = made.concat(part, made.convolution(made.x, 32))
    return made.graph(made.convolution(y, 16, "z"), made.convolution(part, 16, "other"))


def a_part_that_comes_twice() -> Graph:
    made = Branches()
    part = made.convolution(made.x, 32)
    return made.graph(made.convolution(made.concat(part, part), 16, "z"))


def a_part_that_is_an_input() -> Graph:
    made = Branches()
    return made.graph(made.convolution(made.concat(made.x, made.convolution(made.x, 32)), 16, "z"))


def a_part_that_is_an_output() -> Graph:
    made = Branches()
    part = made.convolution(made.x, 32, "part")
    y = made.concat(part, made.convolution(made.x, 32))
    return made.graph(made.convolution(y, 16, "z"), part)


def parts_that_cut_blocks() -> Graph:
    made = Branches()
    y = made.concat(made.convolution(made.x, 20), made.convolution(made.x, 17))
    return made.graph(made.convolution(y, 16, "z"))


GRAPHS: list[tuple[Callable[[], Graph], int | None]] = [
    (two_branches, 0),
    (one_branch_of_a_batch_of_one, 0),
    (concat_at_the_end, None),
    (concat_of_concats, 1),
    (a_part_that_others_read, 1),
    (a_part_that_comes_twice, 1),
    (a_part_that_is_an_input, 1),
    (a_part_that_is_an_output, 1),
    (parts_that_cut_blocks, None),
]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("rule", ["plain", "greedy", "optimal"])
@pytest.mark.parametrize(("make", "concats"), GRAPHS, ids=lambda each: getattr(each, "__name__", ""))
def test_parts_in_place_give_the_bytes_of_copies(
    make: Callable[[], Graph], concats: int | None, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make()
    x = values(*graph.tensors["x"].dims)
    net = rs.Network(graph, rule=rule)
    found = net(x)
    kinds = [step.operation for step in net.plan().steps]
    # The best formats may want a reorder in front of a concat.
    assert concats is None or rule == "optimal" or kinds.count("concat") == concats
    monkeypatch.setattr(network_plan, "concat_parts", lambda *_: {})
    copied = rs.Network(graph, rule=rule)
    wanted = copied(x)
    assert copied.plan().formats == net.plan().formats
    several = found if isinstance(found, dict) else {"y": found}
    others = wanted if isinstance(wanted, dict) else {"y": wanted}
    assert {name: each.tobytes() for name, each in several.items()} == {
        name: each.tobytes() for name, each in others.items()
    }


def test_a_whole_lives_from_its_first_part_on() -> None:
    plan = rs.Network(two_branches(), rule="plain").plan()
    writers = [at for at, step in enumerate(plan.steps) if step.writes[0].storage.name == "y"]
    assert len(writers) == 2
    live = [
        step.writes[0].storage.name
        for step in plan.steps[writers[0] : writers[1]]
        if step.writes[0].storage.where == "arena"
    ]
    start, size = plan.arena.offsets["y"], 2 * 80 * 9 * 7 * 4
    for name in set(live) - {"y"}:
        offset = plan.arena.offsets[name]
        assert offset >= start + size or offset < start


def test_saved_networks_write_parts_in_place_too(tmp_path: object) -> None:
    net, path = rs.Network(two_branches()), f"{tmp_path}/parts.net"
    net.save(path)
    x = values(2, 32, 9, 7)
    assert rs.Network.load(path)(x).tobytes() == net(x).tobytes()
