"""Peers of restride: the problems they get, and that their answers are the same."""

from __future__ import annotations

import pytest

from restride_bench.driver import peers
from restride_bench.driver.expand import expand
from restride_bench.driver.fill import Bytes
from restride_bench.driver.peers import arithmetic_of
from restride_bench.driver.primitives.moves import ReorderCase
from restride_bench.driver.result import Outcome, PeerTime
from restride_bench.driver.run import run
from restride_bench.peer import PeerRefusal, PreparedCall
from restride_bench.problem import PeerArithmetic, PeerProblem


def _peers(line: str, names: str = "numpy,memcpy") -> dict[str, PeerTime]:
    (test,) = expand(f"--mode=P --fix-times-per-prb=3 --peers={names} {line}".split()).tests
    return {peer.name: peer for peer in run(test).peers}


def _arithmetic(line: str) -> PeerArithmetic:
    (test,) = expand(f"--reorder {line}".split()).tests
    assert isinstance(test.case, ReorderCase)
    return arithmetic_of(test.case)


@pytest.mark.parametrize(
    "line",
    [
        "--reorder --dtag=axb 2x3x4x5",
        "--reorder --dtag=aBx4b 2x6x4x5",
        "--reorder --ddt=s8 --attr-scales=src:common:0.5 --dtag=ba 6x7",
        "--reorder --sdt=bf16 --ddt=f32 --stag=ba 6x7",
    ],
)
def test_numpy_and_memcpy_are_timed_and_give_the_same_bits(line: str) -> None:
    found = _peers(line)
    assert list(found) == ["numpy", "memcpy"]
    for peer in found.values():
        assert not peer.refused
        assert not peer.other_answer
        assert 0 < peer.least <= peer.median
        middle, low, high = peer.ratio
        assert 0 < low <= middle <= high


def test_peers_are_measured_in_mode_c_too() -> None:
    (test,) = expand(["--fix-times-per-prb=2", "--peers=memcpy", "--reorder", "2x3"]).tests
    result = run(test)
    assert result.status is Outcome.PASSED
    assert [peer.name for peer in result.peers] == ["memcpy"]


@pytest.mark.parametrize(
    "line",
    [
        "--shuffle --group=4 2x12x3",
        "--shuffle --dir=BWD_D --dt=s8 --tag=axb --group=3 2x12x3",
        "--shuffle --dt=bf16 --tag=aBx4b --axis=2 --group=2 2x5x6",
    ],
)
def test_shuffles_of_numpy_give_the_same_bits(line: str) -> None:
    peer = _peers(line, "numpy")["numpy"]
    assert not peer.refused
    assert not peer.other_answer


@pytest.mark.peer
@pytest.mark.parametrize("name", ["onednn", "torch"])
@pytest.mark.parametrize(
    "line",
    [
        "--reorder --dtag=axb 2x3x4x5",
        "--reorder --dtag=aBx8b 2x11x4x5",
        "--reorder --sdt=f32 --ddt=u8 --attr-scales=src:common:2 --stag=ba 6x7",
    ],
)
def test_installed_peers_give_the_same_bits(name: str, line: str) -> None:
    peer = _peers(line, name)[name]
    if "install" in peer.refused:
        pytest.skip(peer.refused)
    assert not peer.refused
    assert not peer.other_answer


def test_what_a_peer_is_not_asked_is_said() -> None:
    found = _peers("--reorder --attr-post-ops=relu 2x3")
    assert found["numpy"].refused == "of post-ops, peers are asked for one sum with a scale"
    assert not found["memcpy"].refused


def test_the_names_of_peers_are_kept_in_order_and_a_missing_one_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    peer = _peers("--reorder 2x5", "torch")["torch"]
    assert "torch is not installed" in peer.refused


@pytest.mark.parametrize("data_type", ["s4", "u4"])
@pytest.mark.parametrize("tag", ["abx", "axb", "aBx8b"])
@pytest.mark.parametrize("name", ["numpy", "onednn", "torch"])
def test_no_peer_is_asked_to_shuffle_halves_of_bytes(
    name: str, tag: str, data_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_peer", lambda name, threads: _Failing())
    peer = _peers(f"--shuffle --dt={data_type} --tag={tag} --group=2 2x8x9x2", name)[name]
    assert peer.refused == f"peers are not asked for {data_type}"


class _Failing:
    """A peer that takes every problem, and fails of all when it runs."""

    def prepare(self, problem: PeerProblem, src: Bytes, dst: Bytes) -> PreparedCall:
        def fail() -> None:
            raise RuntimeError("no kernel for this\nand a page about why")

        return PreparedCall(fail)


def test_a_peer_that_fails_is_refused_and_the_test_keeps_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_peer", lambda name, threads: _Failing())
    (test,) = expand(["--mode=P", "--fix-times-per-prb=2", "--peers=torch,memcpy", "--reorder", "2x3"]).tests
    result = run(test)
    assert result.status is Outcome.EXECUTED
    assert result.perf is not None
    found = {peer.name: peer.refused for peer in result.peers}
    assert found == {"memcpy": "", "torch": "RuntimeError: no kernel for this"}


class _Unprepared:
    """A peer that knows no type."""

    def prepare(self, problem: PeerProblem, src: Bytes, dst: Bytes) -> PreparedCall:
        raise KeyError(problem.src_type)


def test_a_peer_that_cannot_take_a_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_peer", lambda name, threads: _Unprepared())
    found = _peers("--reorder --sdt=f8_e5m2 8x8")
    assert found["numpy"].refused == "KeyError: 'f8_e5m2'"
    assert not found["memcpy"].refused


def test_warnings_of_numpy_stay_inside() -> None:
    # The test run makes errors of warnings: one of them would refuse the peer.
    found = _peers("--reorder --ddt=s8 --attr-scales=src:common:inf 8x8")
    assert not found["numpy"].refused


def test_a_reproducer_line_names_the_peers() -> None:
    (test,) = expand(["--peers=numpy,memcpy", "--reorder", "2x3"]).tests
    assert test.repro == "--peers=numpy,memcpy --reorder 2x3"
    assert expand(test.repro.split()).tests == (test,)


@pytest.mark.parametrize(
    ("line", "arithmetic"),
    [
        ("2x3", PeerArithmetic()),
        ("--attr-scales=src:common:2 2x3", PeerArithmetic(2)),
        ("--attr-scales=src:per_dim_1+dst:per_dim_0 2x3", PeerArithmetic(0.5, 1, dst_axis=0)),
        (
            "--ddt=s8 --attr-zero-points=dst:common:3 --attr-post-ops=sum:0.5 2x3",
            PeerArithmetic(None, None, 3, 0.5),
        ),
        ("--sdt=s8 --attr-zero-points=src:common:3 2x3", PeerArithmetic(zero_point=3)),
    ],
)
def test_attributes_are_put_as_peers_know_them(line: str, arithmetic: PeerArithmetic) -> None:
    assert _arithmetic(line) == arithmetic


@pytest.mark.parametrize(
    "line",
    [
        "--attr-scales=dst:common:2 2x3",
        "--attr-scales=src:per_dim_01 2x3",
        "--attr-scales=src:per_tensor:f32:1x3 2x3",
        "--ddt=s8 --attr-zero-points=src:common:2 2x3",
        "--attr-post-ops=sum:1:2 2x3",
    ],
)
def test_other_attributes_are_refused(line: str) -> None:
    with pytest.raises(PeerRefusal):
        _arithmetic(line)
