"""Outputs of networks in memory of the caller: what comes back, how it may lie, what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.graph import ConvolutionOperation, EltwiseOperation, Graph, GraphBuilder

Array = np.ndarray
SAME = ConvolutionOperation((1, 1), (0, 0), (1, 1), (1, 1))
# Two outputs, the first of more than 256 KB, so that kernels may write it past the caches.
DIMS = (2, 40, 40, 40)


def values(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *dims)).standard_normal(dims).astype(np.float32)


def graph() -> Graph:
    builder = GraphBuilder()
    x = builder.input("x", DIMS)
    large = builder.add(SAME, x, builder.constant(values(40, 40, 3, 3)), name="large")
    twice = builder.add(EltwiseOperation("eltwise_linear", 2.0), x, name="twice")
    return builder.graph(large, twice)


X = values(*DIMS)


@pytest.fixture(scope="module")
def net() -> rs.Network:
    return rs.Network(graph())


@pytest.fixture(scope="module")
def wanted(net: rs.Network) -> Mapping[str, Array]:
    made: Mapping[str, Array] = net(X)
    assert np.array_equal(made["twice"], 2 * X)
    return made


def _strided() -> Array:
    return np.zeros((*DIMS[:3], 80), np.float32)[..., ::2]


def _between_lines() -> Array:
    made = rs.empty((np.prod(DIMS) + 1,))[1:].reshape(DIMS)
    assert made.ctypes.data % 64
    return made


@pytest.mark.parametrize("make", [lambda: rs.empty(DIMS), _strided, _between_lines])
def test_an_output_lies_where_the_caller_wants_it(make: Any, net: rs.Network, wanted: Any) -> None:
    out = make()
    made = net(X, out={"large": out})
    assert made["large"] is out
    assert np.array_equal(out, wanted["large"])
    assert np.array_equal(made["twice"], wanted["twice"])


def test_what_is_whole_is_written_without_other_memory(net: rs.Network, wanted: Any) -> None:
    out = {name: rs.empty(DIMS) for name in net.outputs}
    before = {name: each.ctypes.data for name, each in out.items()}
    made = net(X, out=out)
    assert all(made[name] is out[name] and out[name].ctypes.data == before[name] for name in out)
    assert all(np.array_equal(out[name], wanted[name]) for name in out)


def test_the_input_itself_may_become_the_output(net: rs.Network, wanted: Any) -> None:
    x = X.copy()
    net(x, out={"large": x})
    assert np.array_equal(x, wanted["large"])


def test_one_output_takes_one_array_and_a_saved_network_too(tmp_path: Path) -> None:
    builder = GraphBuilder()
    x = builder.input("x", (3, 5))
    made = rs.Network(builder.graph(builder.add(EltwiseOperation("eltwise_square"), x, name="y")))
    made.save(tmp_path / "a.net")
    for each in (made, rs.Network.load(tmp_path / "a.net")):
        out = rs.empty((3, 5))
        assert each(values(3, 5), out=out) is out
        assert np.array_equal(out, values(3, 5) ** 2)


def test_tensors_of_torch_are_told_that_they_were_written(net: rs.Network, wanted: Any) -> None:
    torch = pytest.importorskip("torch")
    out = torch.zeros(DIMS)
    version = out._version
    assert net(torch.from_numpy(X), out={"large": out})["large"] is out
    assert out._version > version
    assert np.array_equal(out.numpy(), wanted["large"])


def _read_only() -> Array:
    made = np.zeros(DIMS, np.float32)
    made.flags.writeable = False
    return made


_SHARED = np.zeros(DIMS, np.float32)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ({"large": np.zeros(DIMS[1:], np.float32)}, "the output is f32 2x40x40x40"),
        ({"large": np.zeros(DIMS)}, "it is float64 2x40x40x40"),
        ({"large": _read_only()}, "it is read-only"),
        ({"large": [1.0]}, "it is list"),
        ({"small": np.zeros(DIMS, np.float32)}, "the outputs are 'large', 'twice'"),
        (np.zeros(DIMS, np.float32), "out is one array"),
        ({"large": _SHARED, "twice": _SHARED}, "overlap"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    out: Any, said: str, net: rs.Network
) -> None:
    with pytest.raises(rs.InvalidArguments, match="out") as caught:
        net(X, out=out)
    assert said in str(caught.value)
    assert not _SHARED.any()
