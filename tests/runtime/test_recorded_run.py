"""Records of runs of a saved network: the next process plans nothing that was recorded."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.graph.network import recorded_run
from restride.targets import object_store

Array = np.ndarray
SAME = rs.graph.ConvolutionOperation((1, 1), (0, 0), (1, 1), (1, 1))


def values(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *dims)).standard_normal(dims).astype(np.float32)


X = values(2, 20, 6, 7)


def graph() -> rs.graph.Graph:
    """A convolution, a function with numbers of its own, a sum: packed weights, a bias as it is."""
    builder = rs.graph.GraphBuilder()
    x = builder.input("x", X.shape)
    y = builder.add(SAME, x, builder.constant(values(20, 20, 3, 3)), builder.constant(values(20)))
    z = builder.add(rs.graph.EltwiseOperation("eltwise_linear", 0.5, 2.0), y)
    z = builder.add(rs.graph.SoftmaxOperation("softmax_accurate", 1), z)
    return builder.graph(builder.add(rs.graph.SumOperation((1.0, -0.5)), y, z, name="y"))


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "store"))
    # Kernels that this process has already would not lie in that store.
    rs.set_primitive_cache_capacity(0)
    rs.set_primitive_cache_capacity(1024)
    path = tmp_path / "small.net"
    rs.Network(graph()).save(path)
    return path


def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record the plans made from now on."""
    made: list[object] = []
    plan = rs.Network._plans.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(rs.Network, "_plans", property(lambda net: made.append(net) or plan(net)))
    return made


def test_the_next_process_gives_the_same_bytes_and_plans_nothing(saved: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    code = (
        "import sys, numpy as np, restride as rs\n"
        "net = rs.Network.load(sys.argv[1])\n"
        "np.save(sys.argv[3], net(np.load(sys.argv[2])))\n"
        "loaded = [name for name in sys.modules if name.startswith('restride.')]\n"
        "print(*sorted(set(loaded) & {'restride.graph.' + each for each in"
        " ('planned_runs', 'network_plan', 'graph', 'operations', 'lowering', 'running')}))\n"
    )
    paths = [str(saved), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    env = os.environ | {"RESTRIDE_NUM_THREADS": str(rs.get_num_threads())}
    command = [sys.executable, "-c", code, *paths]
    done = subprocess.run(command, check=True, timeout=120, env=env, capture_output=True, text=True)
    assert done.stdout.split() == []
    assert np.load(tmp_path / "y.npy").tobytes() == rs.Network(graph())(X).tobytes()


def test_a_record_is_found_here_and_runs_again_and_again(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, made = rs.Network(graph())(X).tobytes(), planned(monkeypatch)
    net = rs.Network.load(saved)
    assert [net(X).tobytes() for _ in range(3)] == [wanted] * 3
    assert not made
    # What asks for the plan gets it, of the same network.
    assert net.plan().formats.rule == "optimal"
    assert len(net.profile(X)) == len(net.plan().steps)
    assert net(X).tobytes() == wanted


def test_what_was_planned_of_a_file_is_recorded(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_run, "_source", lambda: (("other.py", 1, 1),))
    made = planned(monkeypatch)
    wanted = rs.Network.load(saved)(X).tobytes()
    assert made
    made.clear()
    assert rs.Network.load(saved)(X).tobytes() == wanted
    assert not made


def test_with_other_threads_it_is_planned(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, wanted = rs.Network.load(saved), rs.Network(graph())(X)
    net(X)
    before, made = rs.get_num_threads(), planned(monkeypatch)
    rs.set_num_threads(before + 1)
    try:
        # Another split of the threads adds up in another order: elements are as large as 60.
        assert np.allclose(net(X), wanted, rtol=1e-5, atol=1e-4)
        assert made
    finally:
        rs.set_num_threads(before)


def test_without_its_kernels_a_record_is_none(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, made = rs.Network(graph())(X).tobytes(), planned(monkeypatch)
    entries = sorted((tmp_path / "store").glob("*.o"))
    for entry in entries:
        if b'"arena"' not in entry.read_bytes():
            entry.unlink()
    assert rs.Network.load(saved)(X).tobytes() == wanted
    assert made


def test_a_damaged_tensor_is_refused(saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    (nbytes,) = struct.unpack_from("<Q", data, 24)
    data[-(-(64 + nbytes) // 64) * 64 + 5] ^= 1
    saved.write_bytes(data)
    with pytest.raises(rs.RuntimeFailure) as caught:
        rs.Network.load(saved)(X)
    assert caught.value.code == "RS-F10"


def test_a_record_is_of_one_header_and_lies_in_the_store_alone(saved: Path, tmp_path: Path) -> None:
    records = [each for each in (tmp_path / "store").glob("*.o") if b'"arena"' in each.read_bytes()]
    assert len(records) == 1
    told = json.loads(records[0].read_bytes()[object_store.HEADER :])
    assert set(told) == set(recorded_run.RunRecord.__dataclass_fields__)
    assert told["inputs"] == ["x"]
    assert b'"arena"' not in saved.read_bytes()
