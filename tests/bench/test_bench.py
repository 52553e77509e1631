"""The harness: what it checks answers against, how it times, what it reports. No timing decides a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main
from restride_bench import __main__ as command
from restride_bench import chart, figures, machine, report, rows, suite
from restride_bench.array_peers import NumPy
from restride_bench.figures import Figure, growth_sizes
from restride_bench.measure import Quartiles, Timing, alternate, batch_size, geometric_mean
from restride_bench.onednn import OneDNN
from restride_bench.onednn_library import OneDNNError
from restride_bench.peer import Peer, PeerRefusal
from restride_bench.peers import PEERS, Restride, open_peers
from restride_bench.problem import DenseFormat, PeerArithmetic, PeerProblem
from restride_bench.study import WARM, BenchRow, BenchSetup


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    """Opening the restride peer sets the number of threads of the whole process."""
    before = rs.get_num_threads()
    yield
    rs.set_num_threads(before)


LAYOUTS = [
    ((2, 17, 3), "abc"),
    ((2, 17, 3), "cab"),
    ((2, 17, 3), "aBc16b"),
    ((5, 17, 3), "BAc8b4a"),
    ((20, 37), "AB16b16a"),
    ((70, 37), "BA16a16b4a"),
    ((33, 9, 2), "ABc4b16a4b"),
]


@pytest.mark.parametrize(("dims", "tag"), LAYOUTS)
def test_offsets_are_those_of_the_descriptor(dims: tuple[int, ...], tag: str) -> None:
    layout, desc = DenseFormat.parse(dims, tag), rs.MemoryDesc(dims, "u8", tag)
    assert layout.padded == desc.padded_dims
    assert layout.elements == desc.size
    grid = layout.grid(0, dims[0])
    assert all(grid[index] == desc.offset(*index) for index in product(*map(range, dims)))


@pytest.mark.parametrize(("dims", "src"), LAYOUTS)
def test_boxes_hold_every_element_and_all_padding_once(dims: tuple[int, ...], src: str) -> None:
    for dst in (tag for shape, tag in LAYOUTS if len(shape) == len(dims)):
        problem = PeerProblem("", dims, "u8", src, "u8", dst)
        seen = np.zeros(problem.dst.elements, int)
        came = np.full(problem.dst.elements, -1)
        for box in problem.boxes():
            at = _positions(box.shape, box.dst_strides, box.dst_start)
            np.add.at(seen, at, 1)
            came[at] = _positions(box.shape, box.src_strides, box.src_start)
        for box in problem.padding():
            np.add.at(seen, _positions(box.shape, box.dst_strides, box.dst_start), 2)
        expected = np.full(problem.dst.elements, 2)
        expected[problem.dst.grid(0, dims[0])] = 1
        assert np.array_equal(seen, expected)
        assert np.array_equal(came[problem.dst.grid(0, dims[0])], problem.src.grid(0, dims[0]))


def _positions(shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> np.ndarray:
    return start + sum(i * s for i, s in zip(np.indices(shape), strides, strict=True)).reshape(-1)


def test_blocks_that_do_not_nest_are_refused_by_numpy() -> None:
    problem = PeerProblem("", (96, 2), "f32", "Ab32a", "f32", "Ab48a")
    with pytest.raises(PeerRefusal, match="do not nest"):
        NumPy(1).prepare(problem, problem.source(), problem.destination())


def _tiny() -> list[PeerProblem]:
    """Every row of the suite with small extents that leave tails, or that its groups divide."""
    small = {2: (70, 37), 4: (3, 21, 5, 7)}
    shuffled = (3, 48, 5, 7)
    # Work in the caches is large work of fewer images: what is alike is checked once.
    large = {"in the caches": "layout", "types in the caches": "convert", "small weights": "weights"}
    return [
        replace(
            row,
            dims=small[len(row.dims)] if row.group_size is None else shuffled,
            group=large.get(row.group, row.group),
        )
        for row in rows.suite(least=0)
    ]


def _check(problem: PeerProblem, peer: Peer) -> None:
    source, result = problem.source(), problem.destination()
    try:
        prepared = peer.prepare(problem, source, result)
    except PeerRefusal:
        # In which rows peers do is in the report.
        assert peer.name != "restride"
        is_shuffle = problem.group_size is not None
        is_hard = is_shuffle or problem.group == "apart" or not problem.arithmetic.is_plain
        assert peer.name != "NumPy" or is_hard
        return
    prepared.call()
    prepared.finish()
    # oneDNN rounds twice on the way to 8-bit floats, to f8_e5m2 without AVX-512; torch multiplies f16 in f16.
    is_known = (peer.name, problem.dst_type) == ("oneDNN", "f8_e4m3")
    is_known |= peer.name == "torch" and problem.src_type in ("f16", "bf16") and problem.scale is not None
    if (peer.name, problem.src_type, problem.dst_type) == ("oneDNN", "f32", "f8_e5m2"):
        halves = source.view(np.float32).astype(np.float16).astype(np.float32)
        is_known |= problem.wrong(halves.view(np.uint8), result) == ""
    assert is_known or problem.wrong(source, result) == "", (problem.label, peer.name)


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_numpy_and_restride_give_the_right_answer_in_every_row(step: int) -> None:
    """In every third at every change."""
    peers, missing = open_peers(["NumPy", "restride", "fresh result"], 2)
    assert not missing
    for problem, peer in product(list(dict.fromkeys(_tiny()))[::step], peers):
        _check(problem, peer)


@pytest.mark.peer
def test_torch_and_onednn_give_the_right_answer_in_every_row() -> None:
    peers, missing = open_peers(["torch", "oneDNN"], 2)
    if missing:
        pytest.skip(f"missing: {missing}")
    for problem, peer in product(dict.fromkeys(_tiny()), peers):
        _check(problem, peer)


def test_a_wrong_element_and_dirty_padding_are_found() -> None:
    problem = PeerProblem("", (2, 17, 3), "f32", "abc", "f32", "aBc16b")
    source, result = problem.source(), problem.destination()
    NumPy(1).prepare(problem, source, result).call()
    assert problem.wrong(source, result) == ""
    result.view(np.float32)[problem.dst.grid(0, 2)[1, 16, 2]] += 1
    assert problem.wrong(source, result).startswith("1 of 102 elements differ")
    NumPy(1).prepare(problem, source, result).call()
    result[-1] = 1
    assert problem.wrong(source, result) == "padding is not zero"


def test_conversions_round_half_to_even_and_saturate() -> None:
    to_s8 = PeerProblem("", (8,), "f32", "a", "s8", "a", arithmetic=PeerArithmetic(0.5))
    values = np.float32([1, 3, 5, -1, 253, 255, 1e9, -1e9])
    assert to_s8.convert(values).tolist() == [0, 2, 2, 0, 126, 127, 127, -128]
    to_s32 = PeerProblem("", (2,), "f32", "a", "s32", "a")
    assert to_s32.convert(np.float32([3e9, -3e9])).tolist() == [2147483520, -2147483648]
    narrower = PeerProblem("", (2,), "s32", "a", "u8", "a")
    assert narrower.convert(np.int32([300, -1])).tolist() == [255, 0]


def test_rows_grow_to_the_size_asked_for_and_have_names_of_their_own() -> None:
    every = rows.suite()
    near = [row for row in every if row.group.endswith("in the caches")]
    assert all(1 << 16 <= row.moved <= WARM for row in near)
    assert {row.group for row in near} == {f"{word}in the caches" for word in ("", "types ", "shuffles ")}
    assert all(row.moved >= rows.LARGE for row in every if row not in near and row.group != "small weights")
    assert len({(row.label, row.group) for row in every}) == len(every)
    assert {row.name for row in rows.select(every, "^u8 .*→nhwc")} == {
        "u8 nchw→nhwc",
        "u8 nChw8c→nhwc",
        "u8 nchw→nhwc zero point 3",
    }


def test_alternate_takes_every_call_once_a_round_and_drops_the_warm_up() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in "abc"}
    times = alternate(calls, rounds=3, warmup=1, settle=0, before={"b": lambda: order.append("set")})
    assert "".join(order).replace("set", "") == "abcbcacababc"
    assert [order[i - 1] for i, name in enumerate(order) if name == "b"] == ["set"] * 4
    assert {name: len(timing.seconds) for name, timing in times.items()} == dict.fromkeys("abc", 3)


def test_a_ratio_is_taken_within_each_round() -> None:
    slow, fast = Timing((2.0, 20.0, 2.0)), Timing((1.0, 10.0, 1.0))
    assert fast.times_faster_than(slow) == Quartiles(2.0, 2.0, 2.0)
    assert Timing((1.0, 2.0, 3.0, 4.0, 5.0)).spread == Quartiles(3.0, 2.0, 4.0)
    assert Quartiles(4.0, 3.0, 5.0).relative == 0.5
    assert Quartiles.of([7.0]) == Quartiles(7.0, 7.0, 7.0)
    assert geometric_mean([]) is None
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


def test_short_calls_are_sampled_in_batches() -> None:
    assert batch_size(lambda: None, 1e-4) > 50


def test_a_missing_onednn_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(OneDNNError, match="pip install onednn"):
        OneDNN(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libdnnl.so.3").write_bytes(b"not a library")
    with pytest.raises(OneDNNError, match="cannot be loaded"):
        OneDNN(tmp_path)


def test_optional_libraries_stay_unimported() -> None:
    code = "import sys, restride_bench.__main__; print({'torch', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


def test_a_measured_row_holds_times_the_roof_and_the_kernel() -> None:
    peers = [NumPy(1), Restride(1)]
    row = suite.measure(_tiny()[2], BenchSetup(peers, peers, 1, 2, 0))
    assert set(row.times) == {"NumPy", "restride", "memcpy"}
    assert row.copier.startswith("copy by ")
    assert row.kernels["restride"]
    assert not row.wrong
    assert not row.refused
    assert row.over("NumPy") is not None
    assert row.over("oneDNN") is None


def test_a_wrong_answer_has_no_ratio_and_is_named() -> None:
    row = replace(_row("f32 nchw→nhwc", {"restride": 1.0, "oneDNN": 2.0}), wrong={"restride": "padding"})
    assert row.over("memcpy") is None
    assert row.over("oneDNN") is None
    assert row.over("restride", "oneDNN") is None
    made = _report([row])
    assert made.wrong == ["f32 nchw→nhwc 2x3x4x5: restride: padding"]
    assert "**wrong**" in report.as_markdown(made)


def test_means_leave_out_the_reference_of_onednn() -> None:
    own = _row("f32 nchw→nhwc", {"restride": 1.0, "oneDNN": 2.0}, kernel="jit:uni")
    reference = _row("f16 nchw→nhwc", {"restride": 1.0, "oneDNN": 200.0}, kernel="simple:any")
    means = {mean.name: mean for mean in report.means([own, reference])}
    assert means["× oneDNN"].value == pytest.approx(20.0)
    assert means["× oneDNN: layout"].value == pytest.approx(2.0)
    assert means["of memcpy: layout"].value == pytest.approx(0.5)
    assert means["× oneDNN"].worst_row == "f32 nchw→nhwc 2x3x4x5"


def test_a_report_is_written_whole(tmp_path: Path) -> None:
    made = _report([_row("f32 nchw→nhwc", {"restride": 1.0, "oneDNN": 2.0})])
    written = report.write(made, tmp_path / "deep" / "results")
    assert [path.name for path in written] == ["bench.json", "bench.md"]
    read = json.loads(written[0].read_text("utf-8"))
    assert read["rows"][0]["of_memcpy"] == [0.5, 0.5, 0.5]
    assert read["figures"][0]["met"] is True
    page = written[1].read_text("utf-8")
    for words in (
        "**missing**: torch (pip install torch)",
        "| f32 nchw→nhwc |",
        "≤ 1 µs",
        "last-level cache",
    ):
        assert words in page


def test_a_chart_has_a_panel_per_type_and_group() -> None:
    layouts = [_row(f"{t} nchw→nhwc", {"restride": 1.0}) for t in ("f32", "u8")]
    convert = _row("f32→s8 nchw→nchw", {"restride": 1.0}, group="convert")
    by_type, by_group = chart.bands(_report([*layouts, convert]))
    assert [panel.title.split("\n")[0] for panel in by_type] == ["f32", "u8"]
    assert [panel.named for panel in by_type] == [True, False]
    assert [panel.words for panel in by_group] == [["f32→s8 nchw→nchw"]]


def test_shuffles_have_a_band_of_their_own_with_a_line_for_each_shape() -> None:
    shuffles = [_row(f"{t} nchw g2", {"restride": 1.0}, group="shuffle") for t in ("f32", "u8")]
    (band,) = chart.bands(_report(shuffles))
    assert [panel.title.split("\n")[0] for panel in band] == ["shuffle f32", "shuffle u8"]
    assert {word for panel in band for word in panel.words} == {"nchw g2  3×4×5"}
    near = [replace(row, about=replace(row.about, group="shuffles in the caches")) for row in shuffles]
    assert len(chart.bands(_report([*shuffles, *near]))) == 2
    assert [panel.goal for panel in chart.bands(_report(near))[0]] == [0.6, 0.6]


def test_a_chart_is_drawn_as_png_and_svg(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = _report([_row("f32 nchw→nhwc", {"restride": 1.0, "oneDNN": 2.0})])
    png, svg = chart.draw(made, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text("utf-8")


def test_the_command_lists_measures_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list", "--rows", "f32 nchw→nhwc.*layout|^growth"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == ["f32", "f32", "growth"]
    arguments = ["--quick", "--rounds", "1", "--rows", "s8 ab→BA.*small|import", "--peers", "restride"]
    assert command.main([*arguments, "--out", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "bench.json").read_text("utf-8"))["settings"]["quick"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--peers", "cupy"], "no peer 'cupy'"),
        (["--rows", "("], "no regular expression"),
        (["--rows", "no such row"], "finds nothing"),
        (["--rounds", "0"], "not a number from 1"),
        (["--threads", "-1"], "not a number from 1"),
    ],
)
def test_a_usage_error_exits_with_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments, "--json"]) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert words in json.loads(told.out)["error"]["what"]


def test_nothing_is_written_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["--quick", "--rounds", "1", "--rows", "s8 ab→BA.*small", "--peers", "restride"]
    assert main(["bench", *rows]) == 0
    assert "written" not in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_quick_run_is_a_dozen_rows_of_all_kinds() -> None:
    chosen = rows.quick(rows.suite(least=4_000_000))
    assert len(chosen) == len(rows._QUICK)
    assert {"layout", "convert", "quantize", "weights", "tails", "shuffle"} <= {row.group for row in chosen}


def test_a_quick_run_ends_in_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_QUICK_SECONDS", -1.0)
    assert main(["bench", "--quick", "--json", "--peers", "restride"]) == 0
    settings = json.loads(capsys.readouterr().out)["bench"]["settings"]
    assert settings["left out"].startswith("15 of 15")


def test_a_ratio_is_the_quotient_of_the_printed_figures() -> None:
    fast, slow = Timing((1.0, 2.0, 9.0)), Timing((3.0, 8.0, 2.0))
    found = fast.times_faster_than(slow)
    assert found.median == slow.spread.median / fast.spread.median
    assert found.low <= found.median <= found.high


def test_the_command_answers_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another test measures it.
    monkeypatch.setattr(figures, "_run", lambda *_: [0.001])
    assert main(["bench", "--json", "--list", "--rows", "f32 nchw→nhwc.*layout|^growth"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["group"] for row in listed["rows"]] == ["layout", "layout"]
    assert (listed["figures"], listed["studies"]) == (["growth"], [])
    rows = ["--quick", "--rounds", "1", "--rows", "s8 ab→BA.*small|import", "--peers", "restride"]
    assert main(["bench", "--json", *rows, "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)["bench"]
    written = json.loads((tmp_path / "bench.json").read_text("utf-8"))
    assert {name: found[name] for name in written} == written
    assert str(tmp_path / "bench.md") in found["written"]


@pytest.mark.parametrize(
    ("largest", "sizes"),
    [
        (1_000_000_000, [1, 4, 16, 64, 256, 1000]),
        (16_000_000, [1, 4, 16]),
        (17_000_000, [1, 4, 16, 17]),
        (1_000_000, [1]),
        (500_000, [0.5]),
    ],
)
def test_the_growth_series_ends_at_the_largest(largest: int, sizes: list[float]) -> None:
    assert growth_sizes(largest) == [size * 1_000_000 for size in sizes]


def test_missing_peers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    peers, missing = open_peers(["NumPy", "torch"], 1)
    assert [peer.name for peer in peers] == ["NumPy"]
    assert "pip install torch" in missing["torch"]
    assert list(PEERS) == ["restride", "fresh result", "oneDNN", "torch", "NumPy"]


def test_the_machine_is_described() -> None:
    facts = machine.describe()
    assert all(facts.values())
    assert int(facts["cores"]) >= 1


def _row(name: str, seconds: dict[str, float], *, kernel: str = "jit:uni", group: str = "layout") -> BenchRow:
    problem = PeerProblem(
        name, (2, 3, 4, 5), name.split()[0].split("→")[0], "abcd", "f32", "acdb", group=group
    )
    times = {peer: Timing((value,) * 3) for peer, value in seconds.items()}
    times["memcpy"] = Timing((0.5,) * 3)
    return BenchRow(problem.label, problem.moved, times, kernels={"oneDNN": kernel}, about=problem)


def _report(measured: list[BenchRow]) -> report.SuiteReport:
    figure = Figure("one execute", Quartiles(0.5, 0.4, 0.6), "µs", 1.0, comparisons={"torch": 1.1})
    facts = {"processor": "a processor", "last-level cache": "32 MiB"}
    missing = {"torch": "pip install torch"}
    step = BenchRow("growth", 10, {"restride": Timing((10.0,)), "memcpy": Timing((5.0,))})
    return report.SuiteReport(facts, {"NumPy": "2"}, {"threads": "2"}, missing, measured, [figure], [step])


def test_importing_is_timed_with_bytecode_that_a_first_import_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def run(command, environment):
        runs.append(
            (os.listdir(environment["PYTHONPYCACHEPREFIX"]), "PYTHONDONTWRITEBYTECODE" in environment)
        )
        Path(environment["PYTHONPYCACHEPREFIX"], "written").touch()
        return [0.5 if len(runs) == 1 else 0.002]

    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(figures, "_run", run)
    assert figures.import_time(None).spread.high == 2.0
    assert runs == [([], False), *[(["written"], False)] * 9]
