"""The driver from the command line: exit status, lines, JSON, processes, progress."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import restride as rs
from restride.cli.main import main
from restride_bench.driver import jobs
from restride_bench.driver.expand import Test, expand
from restride_bench.driver.result import Outcome, Result
from restride_bench.driver.run import run


def _run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main(["bench", *line.split()])
    return status, capsys.readouterr().out


@pytest.fixture
def wrong_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that never writes anything."""

    def nothing(primitive: Any, stream: rs.Stream, args: dict[int, rs.Memory]) -> None:
        """Leave the destination as it is."""

    monkeypatch.setattr(jobs, "run", lambda test: run(test, nothing))


def test_right_answers_are_reported_with_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = _run("--reorder --dtag=ab,ba 3x4", capsys)
    lines = out.splitlines()
    assert status == 0
    assert lines[:2] == [
        "0:PASSED __REPRO: --reorder --dtag=ab 3x4",
        "1:PASSED __REPRO: --reorder --dtag=ba 3x4",
    ]
    assert lines[2].startswith("tests:2 passed:2 skipped:0 ")
    assert lines[3].startswith("total: ")


@pytest.mark.usefixtures("wrong_engine")
def test_a_wrong_engine_is_reported_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = _run("--reorder --ddt=s8 3x4", capsys)
    assert status == 1
    assert "0:FAILED (errors:" in out
    assert out.count("__REPRO: --reorder --ddt=s8 3x4") == 2
    assert "failed:1" in out


def test_a_refusal_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = _run("--reorder --attr-scales=wei:common:2 3x4", capsys)
    assert status == 1
    assert "0:UNIMPLEMENTED (" in out
    assert "unimplemented:1 invalid_arguments:0 failed:1" in out


def test_skipped_and_listed_tests_are_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = _run("--reorder --sdt=s2 3x4 --mode=L --sdt=f32 3x4", capsys)
    assert status == 0
    assert "0:SKIPPED (Data type not supported: s2) __REPRO: --reorder --sdt=s2 3x4" in out
    assert "1:LISTED __REPRO: --mode=L --reorder 3x4" in out


@pytest.mark.parametrize(
    "line", ["--reorder --sdt=x 3x4", "--reorder 3x4 --perf-template=%what%", "--reorder --batch=none"]
)
def test_a_wrong_command_is_status_2_and_runs_nothing(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(line, capsys) == (2, "")


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = _run("--reorder 3x4 --json --mode=CP --fix-times-per-prb=2 3x4", capsys)
    values = json.loads(out)
    assert status == values["status"] == 0
    assert values["complete"]
    assert values["totals"]["tests"] == 2
    assert [case["repro"] for case in values["cases"]] == [
        "--reorder 3x4",
        "--mode=CP --fix-times-per-prb=2 --reorder 3x4",
    ]
    assert values["cases"][1]["perf"]["rounds"] == 2


def test_usage_errors_are_objects_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = _run("--json --reorder --sdt=x 3x4", capsys)
    assert (status, json.loads(out)["error"]["status"]) == (2, "invalid_arguments")


def test_help_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = _run("--reorder --help", capsys)
    assert status == 0
    assert "--batch=FILE" in out


def test_performance_prints_its_template_and_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = _run("--mode=P --fix-times-per-prb=2 --perf-template=%DESC%:%-Gbw% --reorder 3x4", capsys)
    lines = out.splitlines()
    assert lines[0] == "Output template: %DESC%:%-Gbw%"
    assert float(lines[1].removeprefix("3x4:")) > 0
    assert any(line.startswith("total perf: min(ms):") for line in lines)


def test_a_verbose_run_names_each_test_before_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = list[str]()
    monkeypatch.setattr(jobs, "run", lambda test: said.append(capsys.readouterr().out) or run(test))
    assert main(["bench", "-v1", "--reorder", "3x4"]) == 0
    assert said == ["run: --reorder 3x4\n"]


def test_progress_is_the_last_line_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("restride.cli.progress.is_terminal", lambda stream: True)
    monkeypatch.setattr("restride.cli.progress._QUIET", 0.0)
    monkeypatch.setattr("restride.cli.progress._EVERY", 0.0)
    assert main(["bench", "--reorder", "3x4", "5x6"]) == 0
    shown = capsys.readouterr().err
    assert "1 of 2 cases" in shown
    assert shown.endswith(" \r")


def test_a_later_start_skips_the_tests_before(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = _run("--start=1 --reorder 3x4 5x6", capsys)
    assert "0:SKIPPED (Skip start) __REPRO" in out
    assert "1:PASSED" in out


def test_processes_give_the_same_results_in_the_same_order(capsys: pytest.CaptureFixture[str]) -> None:
    line = "--reorder --sdt=s8,u8 --ddt=f32,s32,f4_e2m1 --dtag=ab,ba 3x4 5x3"
    _, alone = _run(f"--jobs=1 {line}", capsys)
    _, shared = _run(f"--jobs=2 {line}", capsys)
    assert alone.splitlines()[:-1] == shared.splitlines()[:-1]


def test_times_are_taken_in_one_process() -> None:
    tests = expand(["--mode=P", "--reorder", "3x4"]).tests * 500
    assert jobs.processes(tests, 8) == 1


def test_primitives_made_in_threads_ahead_give_the_same_results(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = _run("--mode-modifier=P --reorder --dtag=ab,ba 3x4 5x3", capsys)
    assert status == 0
    assert "passed:4" in out


def test_a_process_that_dies_takes_one_test_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_run_all", _deadly)
    monkeypatch.setattr(jobs, "_CHUNK", 1)
    tests = expand(["--reorder", "6x6", "3x5"]).tests
    found = [result.status for result in jobs._shared(list(enumerate(tests)), 1)]
    assert found == [Outcome.UNTESTED, Outcome.PASSED]


def _deadly(tests: list[tuple[int, Test]]) -> list[Result]:
    if any(test.case.shape == "6x6" for _, test in tests):
        os._exit(3)
    return [run(test) for _, test in tests]


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    words = ["bench", "--jobs=2", "--reorder", "--dtag=ab,ba", "3x4"]
    script.write_text(f"from restride.cli.main import main\nprint('begun')\nmain({words})")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.count("begun") == 1
    assert "tests:2 passed:2" in done.stdout


def test_large_tests_run_in_the_first_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_LARGE", 11)
    monkeypatch.setattr(jobs, "run", lambda test: Result(Outcome.LISTED, test.case.shape))
    tests = expand(["--reorder", "3x4", "2x3", "4x3"]).tests
    # The processes import the module anew: what is marked has been run here.
    statuses = [result.status for result in jobs.results(tests, 2)]
    assert statuses == [Outcome.LISTED, Outcome.PASSED, Outcome.LISTED]


def test_an_interrupted_run_tells_what_it_knows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(test: Test) -> Result:
        if test.case.shape == "2x3":
            raise KeyboardInterrupt
        return run(test)

    monkeypatch.setattr(jobs, "run", interrupted)
    status, out = _run("--reorder 3x4 2x3 4x3", capsys)
    assert status == 130
    assert "incomplete: 1 of 3 tests were run\ntests:1 passed:1" in out


def test_an_interrupted_run_is_marked_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(test: Test) -> Result:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "run", interrupted)
    status, out = _run("--json --reorder 3x4 2x3", capsys)
    values = json.loads(out)
    assert (status, values["complete"], values["status"]) == (130, False, None)


@pytest.mark.parametrize("mode", ["L", "R", "B", "I"])
def test_peers_where_nothing_is_measured_are_told_once(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"bench --peers=numpy --mode={mode} --reorder 3x4 5x6"
    said = f"--peers=numpy is SKIPPED in mode {mode}, which measures nothing"
    assert main(line.split()) == 0
    assert capsys.readouterr().err == f"notice: {said}\n"
    assert main([*line.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notices"] == [said]


def test_a_file_of_knobs_runs_as_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("--reset\n--sdt=f32,s8 # both\n--dtag=ab, \\\n ba\n3x4 5x6\n")
    status, out = _run(f"--reorder --batch={tmp_path / 'file'}", capsys)
    assert status == 0
    assert "tests:8 passed:8" in out
