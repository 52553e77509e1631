"""What lies behind the table of the benchmark: the page, the JSON and the pictures of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from restride_bench import __main__ as command
from restride_bench import (
    curves,
    instructions,
    isa_levels,
    ladder,
    layers,
    memory_bound,
    roofline,
    stored_formats,
    studies,
)
from restride_bench.array_peers import NumPy
from restride_bench.figures import BenchSetup
from restride_bench.instructions import Count, Counts
from restride_bench.ladder import Rung
from restride_bench.layers import LayerTime
from restride_bench.measure import Quartiles, Timing
from restride_bench.roofline import MEMCPY, Point, Roofline
from restride_bench.stored_formats import FormatRow
from restride_bench.studies import Studies

SECOND = Quartiles(1.0, 0.9, 1.1)
ABOUT = {"machine": {"processor": "a processor"}, "versions": {"NumPy": "2"}, "settings": {"rounds": "15"}}


def _studies(wrong: str = "") -> Studies:
    points = [
        Point(name, threads, size, SECOND, None if name == MEMCPY else 2.0, wrong)
        for threads in (1, 2)
        for size in (4_096, 4_000_000_000)
        for name in (MEMCPY, "f32 nchw→nhwc")
    ]
    counts = Counts([Count("f32 nchw→nhwc", "jit:avx2", 1000, 100, 50, None)], ["callgrind: not here"])
    left_out = [(8_000_000_000, "there is no room")]
    times = {"restride": Timing((2.0, 2.0)), "copy": Timing((1.0, 1.0)), "gguf": Timing((10.0, 10.0))}
    rows = [FormatRow("dequantise q4_0", 4 * 10**9, times, {"torchao": "refused: no such type"})]
    rungs = [Rung("a loop", 1, 10**9, SECOND)]
    layer_times = [
        LayerTime("a layer", "f32", threads, 8 * 10**9, 10**8, 10e9, 1.0, theirs, again, 2e10)
        for threads, theirs, again in (
            (1, {"oneDNN": 1.5}, {"restride": 1.0, "oneDNN": 3.0}),
            (2, {}, {"restride": 1.0}),
        )
    ]
    return Studies(ABOUT, Roofline(points, left_out), rungs, counts, rows, layer_times)


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
        "| dequantise q4_0 | 2.0 | 0.50 | 0.40 |",
        "- dequantise q4_0, torchao: refused: no such type",
        "| a layer | f32 | 1 | 8 | 80 | 80% | 1.50 | 3.00 | – |",
        "| a layer | f32 | 2 | 8 | 80 | 80% | – | – | – |",
        "| f32 | 1 | 80% | 80% | 1.50 | 1.50 |",
    ):
        assert words in page
    assert "Wrong" not in page


def test_a_wrong_answer_is_named_and_has_no_speed() -> None:
    found = _studies(wrong="1 of 3 elements differ")
    assert found.wrong[0] == "memcpy, 4096 bytes moved: 1 of 3 elements differ"
    assert "**wrong**" in studies.as_markdown(found)
    assert "## Wrong answers" in studies.as_markdown(found)


def test_page_and_json_are_written(tmp_path: Path) -> None:
    written = studies.write(_studies(), tmp_path / "deep")
    assert [path.name for path in written] == ["inside.json", "inside.md"]
    read = json.loads(written[0].read_text("utf-8"))
    assert read["machine"] == ABOUT["machine"]
    assert read["roofline"][1]["seconds"] == {"median": 1.0, "low": 0.9, "high": 1.1}
    assert read["instructions"][0]["stepped"] == 50
    assert read["left_out"] == [{"moved": 8_000_000_000, "why": "there is no room"}]


def test_nothing_studied_is_an_empty_page() -> None:
    assert Studies().is_empty
    assert not _studies().is_empty
    assert studies.as_markdown(Studies()) == "# Looking inside\n"


def test_studies_are_run_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _studies()
    monkeypatch.setattr(roofline, "measure", lambda _: whole.roofline)
    monkeypatch.setattr(ladder, "measure", lambda _: whole.ladder)
    monkeypatch.setattr(instructions, "measure", lambda: whole.counts)
    monkeypatch.setattr(stored_formats, "measure", lambda _: whole.formats)
    monkeypatch.setattr(layers, "measure", lambda _: whole.layers)
    monkeypatch.setattr(memory_bound, "measure", lambda _: whole.primitives)
    monkeypatch.setattr(isa_levels, "measure", lambda _: whole.levels)
    found = Studies(ABOUT)
    for name in studies.STUDIES:
        found.run(name, None)  # type: ignore[arg-type]
    assert found == whole


def test_stored_formats_are_measured_beside_what_is_installed() -> None:
    rows = stored_formats.measure(BenchSetup([], [NumPy(1)], 1, 1, 1))
    assert {"restride", "copy"} <= set.intersection(*(set(row.times) for row in rows))
    assert not [row.wrong for row in rows if set(row.wrong) & {"restride", "gguf", "NumPy"}]
    assert all(row.rate("restride") > 0 and row.of_copy() > 0 for row in rows)


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
    names = "^(roofline|ladder|instructions|formats|layers|primitives|levels)$"
    assert command.main(["--list", "--rows", names]) == 0
    assert capsys.readouterr().out.split() == list(studies.STUDIES)
    monkeypatch.setattr(instructions, "measure", lambda: _studies().counts)
    asked = ["--quick", "--rows", "^instructions$", "--peers", "NumPy", "--out", str(tmp_path)]
    assert command.main(asked) == 0
    page = (tmp_path / "inside.md").read_text("utf-8")
    assert "not to be quoted" in page
    assert not (tmp_path / "bench.md").exists()
