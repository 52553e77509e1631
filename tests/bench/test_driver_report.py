"""The lines of a report, its totals, and what they count."""

from __future__ import annotations

from restride_bench.driver.common import CommonKnobs
from restride_bench.driver.expand import Test, expand
from restride_bench.driver.report import DriverReport, peer_line, status_line
from restride_bench.driver.result import Outcome, PeerTime, Perf, Result

_PERF = Perf(0.5, 0.75, 1.0, 3, 0.25, 2.0, 1_000_000, 3_000_000)


def _test(line: str = "--reorder --ddt=s8 2x3") -> Test:
    (test,) = expand(line.split()).tests
    return test


def test_the_line_of_a_test_has_status_reason_errors_and_reproducer() -> None:
    assert status_line(3, _test(), Result(Outcome.PASSED)) == "3:PASSED __REPRO: --reorder --ddt=s8 2x3"
    failed = Result(Outcome.FAILED, "padding is not zero", 2, 6)
    assert status_line(4, _test("--reorder 2x3"), failed) == (
        "4:FAILED (padding is not zero) (errors:2 total:6) __REPRO: --reorder 2x3"
    )


def test_totals_count_what_was_refused_among_the_failed() -> None:
    report = DriverReport()
    for index, status in enumerate(Outcome):
        list(report.add(index, _test(), Result(status)))
    line = list(report.closing(CommonKnobs(), 1.0))[-2]
    assert line == (
        "tests:10 passed:3 skipped:1 mistrusted:1 unimplemented:1 invalid_arguments:1 failed:4 listed:1"
    )
    assert report.exit_status == 1


def test_a_run_without_failures_has_status_0_and_no_summary() -> None:
    report = DriverReport()
    list(report.add(0, _test(), Result(Outcome.MISTRUSTED)))
    list(report.add(1, _test(), Result(Outcome.SKIPPED, "Skip start")))
    assert report.exit_status == 0
    assert len(list(report.closing(CommonKnobs(), 1.0))) == 2


def test_the_first_ten_failures_are_told_again() -> None:
    report = DriverReport()
    for index in range(12):
        list(report.add(index, _test(), Result(Outcome.FAILED, errors=1, total=6)))
    lines = list(report.closing(CommonKnobs(), 1.0))
    assert sum("__REPRO" in line for line in lines) == 10
    assert "... and 2 more" in lines
    assert not any("__REPRO" in line for line in report.closing(CommonKnobs(summary="no-failures"), 1.0))


def test_stages_are_shares_of_the_time_of_all_processes() -> None:
    report = DriverReport(processes=2)
    list(report.add(0, _test(), Result(Outcome.PASSED, stages=(("fill", 1.0), ("execute", 0.5)))))
    last = list(report.closing(CommonKnobs(), 1.0))[-1]
    created = "create_pd: 0.00s (0%); create_prim: 0.00s (0%);"
    assert last == f"total: 1.00s; {created} fill: 1.00s (50%); execute: 0.50s (25%);"


def test_the_template_is_told_once_and_totals_are_the_sums_of_times() -> None:
    report = DriverReport()
    test = _test("--mode=P --reorder --perf-template=%idx%:%-time% 2x3")
    result = Result(Outcome.EXECUTED, impl="jit", perf=_PERF)
    lines = [line for index in range(2) for line in report.add(index, test, result)]
    assert lines == ["Output template: %idx%:%-time%", "0:0.5", "1:0.5"]
    assert "total perf: min(ms):1 avg(ms):1.5" in list(report.closing(CommonKnobs(), 1.0))


def test_mismatches_come_before_the_status_and_the_verbose_level_adds_lines() -> None:
    test = _test("-v5 --reorder 2x3")
    result = Result(Outcome.FAILED, errors=1, total=6, lines=("[   0][DST][0:0] …",), impl="jit:copy")
    assert list(DriverReport().add(0, test, result)) == [
        "implementation: jit:copy",
        "[   0][DST][0:0] …",
        "0:FAILED (errors:1 total:6) __REPRO: --reorder 2x3",
    ]


def test_the_summary_of_implementations_is_given_when_asked_for() -> None:
    report = DriverReport()
    list(report.add(0, _test(), Result(Outcome.PASSED, impl="jit:copy")))
    assert "| jit:copy : 1 (100%) |" in list(report.closing(CommonKnobs(summary="impl"), 1.0))
    assert "| jit:copy : 1 (100%) |" not in list(report.closing(CommonKnobs(summary="impl+no-impl"), 1.0))
    lines = list(report.closing(CommonKnobs(summary="impl-csv"), 1.0))
    assert "benchdnn_summary,impl_names,jit:copy:1" in lines


def test_values_hold_everything() -> None:
    report = DriverReport(keeps_cases=True)
    list(report.add(0, _test("--mode=P --reorder 2x3"), Result(Outcome.EXECUTED, impl="jit", perf=_PERF)))
    values = report.values(2.0)
    assert values["totals"]["passed"] == 1
    assert values["status"] == 0
    assert values["perf"] == {"min_ms": 0.5, "avg_ms": 0.75}
    (case,) = values["cases"]
    assert (case["status"], case["implementation"], case["perf"]["rounds"]) == ("EXECUTED", "jit", 3)


def test_a_peer_has_a_line_with_the_ratio_and_its_quartiles() -> None:
    peer = PeerTime("onednn", "jit:uni", 0.5, 0.75, (1.5, 1.25, 2.0))
    assert peer_line(peer) == "peer,onednn,jit:uni,0.5,0.75,x1.50 [1.25 2.00]"
    assert peer_line(PeerTime("torch", refused="not installed")) == "peer,torch,,,,refused: not installed"
    assert peer_line(PeerTime("numpy", ratio=(1, 1, 1), other_answer=True)).endswith(",other bits")
