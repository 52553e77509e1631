"""Details behind the benchmark's table: its page, JSON and pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from restride_bench import __main__ as command
from restride_bench import curves, stored_formats, studies
from restride_bench.array_peers import NumPy
from restride_bench.measure import Timing
from restride_bench.studies import STUDIES, Studies
from restride_bench.study import MEMCPY, OWN, BenchRow, BenchSetup, Study

SECOND, HALF = Timing((0.8, 0.9, 1.0, 1.1, 1.2)), {OWN: Timing((2.0, 2.0)), MEMCPY: Timing((1.0, 1.0))}
ABOUT = {"machine": {"processor": "a processor"}, "versions": {"NumPy": "2"}, "settings": {"rounds": "15"}}


def _studies(wrong: str = "") -> Studies:
    kernel = "f32 nchw→nhwc"
    points = [
        BenchRow(
            f"{size / 1e9:g} GB",
            size,
            {kernel: SECOND, MEMCPY: SECOND},
            wrong={kernel: wrong} if wrong else {},
            about={
                "threads": threads,
                "moved by": {MEMCPY: size, kernel: size},
                "predicted": {kernel: 2.0},
            },
        )
        for threads in (1, 2)
        for size in (4_096, 4_000_000_000)
    ]
    points.append(BenchRow("8 GB", 8_000_000_000, {}, refused={OWN: "there is no room"}))
    about = {"elements": 100, "stepping": 50, "callgrind": None}
    counts = [BenchRow(kernel, 1000, {}, kernels={OWN: "jit:avx2"}, about=about)]
    counts.append(BenchRow("not counted", 0, {}, refused={"callgrind": "not here"}))
    times, refused = {**HALF, "gguf": Timing((10.0, 10.0))}, {"torchao": "refused: no such type"}
    layers = [
        BenchRow(
            *("a layer", 10**8, {name: Timing((seconds,)) for name, seconds in seconds.items()}),
            operations=8 * 10**9,
            about={"types": "f32", "threads": threads, "peak": 10e9, "bandwidth": 2e10},
            is_by_least=True,
        )
        for threads, seconds in (
            (1, {OWN: 1.0, "oneDNN": 1.5, f"{OWN}, reordered": 1.0, "oneDNN, reordered": 3.0}),
            (2, {OWN: 1.0, f"{OWN}, reordered": 1.0}),
        )
    ]
    rows = {
        "roofline": points,
        "ladder": [BenchRow(kernel, 10**9, {"a loop": SECOND}, about={"threads": {"a loop": 1}})],
        "instructions": counts,
        "formats": [BenchRow("dequantize q4_0", 4 * 10**9, times, refused=refused)],
        "layers": layers,
    }
    return Studies(ABOUT, rows)


def test_the_page_tells_everything() -> None:
    page = studies.as_markdown(_studies())
    for words in (
        "# Looking inside",
        "- processor: a processor",
        "| moved, 1 thread | memcpy | f32 nchw→nhwc | ± |",
        "| 4 GB | 4.0 | 4.0 (2) | 10% |",
        "Left out: 8 GB, there is no room.",
        "off by a factor of 2.00",
        "| a loop | 1 | 1.0 | 10% |",
        "| f32 nchw→nhwc | jit:avx2 | 1000 | 50 | – | 20.0 | 0.500 |",
        "Not counted by callgrind: not here.",
        "| dequantize q4_0 | 2.0 | 0.50 | 0.40 |",
        "- dequantize q4_0, torchao: refused: no such type",
        "| a layer | f32 | 1 | 8 | 80 | 80% | 1.50 | 3.00 | – |",
        "| a layer | f32 | 2 | 8 | 80 | 80% | – | – | – |",
        "| f32 | 1 | 80% | 80% | 1.50 | 1.50 |",
    ):
        assert words in page
    assert "Wrong" not in page


def test_a_wrong_answer_is_named_and_has_no_speed() -> None:
    found = _studies(wrong="1 of 3 elements differ")
    assert found.wrong[0] == "4.096e-06 GB: f32 nchw→nhwc: 1 of 3 elements differ"
    assert "**wrong**" in studies.as_markdown(found)
    assert "## Wrong answers" in studies.as_markdown(found)


def test_page_and_json_are_written(tmp_path: Path) -> None:
    written = studies.write(_studies(), tmp_path / "deep")
    assert [path.name for path in written] == ["inside.json", "inside.md"]
    read = json.loads(written[0].read_text("utf-8"))
    assert read["machine"] == ABOUT["machine"]
    assert read["roofline"][1]["seconds"]["memcpy"] == [0.9, 1.0, 1.1]
    assert read["instructions"][0]["stepping"] == 50
    assert read["roofline"][-1]["refused"] == {"restride": "there is no room"}


def test_nothing_studied_is_an_empty_page() -> None:
    assert studies.as_markdown(Studies()) == "# Looking inside\n"


def _measured(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    rows, study = _studies().rows.get(name, []), STUDIES[name]
    monkeypatch.setitem(STUDIES, name, Study(study.title, lambda _: rows, study.page))


def test_studies_are_run_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Studies(ABOUT)
    for name in STUDIES:
        _measured(monkeypatch, name)
        found.run(name, BenchSetup([], [], 1, 1, 1))
    assert {name: rows for name, rows in found.rows.items() if rows} == _studies().rows


def test_stored_formats_are_measured_against_what_is_installed() -> None:
    rows = stored_formats.measure(BenchSetup([], [NumPy(1)], 1, 1, 1))
    assert {OWN, MEMCPY} <= set.intersection(*(set(row.times) for row in rows))
    assert not [row for row in rows if row.wrong or set(row.refused) & {"gguf", "NumPy"}]
    assert all(row.rate() > 0 and row.over(MEMCPY) for row in rows)


def test_pictures_are_drawn_as_png_and_svg(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = curves.draw(_studies(), tmp_path)
    stems = "roofline", "ladder", "layers"
    assert [path.name for path in written] == [f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")]
    assert written[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in written[3].read_text("utf-8")
    assert curves.draw(Studies(), tmp_path / "none") == []


def test_the_command_lists_and_runs_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = f"^({'|'.join(studies.STUDIES)})$"
    assert command.main(["--list", "--rows", names]) == 0
    assert capsys.readouterr().out.split() == list(studies.STUDIES)
    _measured(monkeypatch, "instructions")
    asked = ["--quick", "--rows", "^instructions$", "--peers", "NumPy", "--out", str(tmp_path)]
    assert command.main(asked) == 0
    page = (tmp_path / "inside.md").read_text("utf-8")
    assert "not to be quoted" in page
    assert not (tmp_path / "bench.md").exists()
