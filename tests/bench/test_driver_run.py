"""One test run to its status. A wrong engine has to be found out, whatever it does wrong."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride_bench.driver import timing
from restride_bench.driver.expand import Test, expand
from restride_bench.driver.result import Outcome, Result
from restride_bench.driver.run import Execute, create, execute, run

Args = dict[int, rs.Memory]


def _run(line: str, how: Execute = execute) -> Result:
    (test,) = expand(line.split()).tests
    return run(test, how)


@pytest.mark.parametrize(
    "line",
    [
        "--reorder --dtag=aBx16b 2x17x3",
        "--reorder --sdt=f32 --ddt=s8 --attr-scales=src:per_dim_1+dst:common:2 --dtag=axb 2x5x3",
        "--reorder --ddt=u8 --attr-zero-points=dst:common:3 --attr-post-ops=sum:0.5 2x5",
        "--reorder --attr-post-ops=relu:0.5+add:f32:per_dim_0+mul:bf16:per_tensor:axb 2x5x3",
        "--reorder --ddt=s8 --dtag=AB4b4a --oflag=s8s8_comp:1+zp_comp:1 5x6",
        "--reorder --sdt=s4 --attr-scales=src:per_dim_01:f16:1x4 --attr-zero-points=src:3:u4:1x4 4x8",
        "--reorder --strides=7x1:1x5 3x4",
        "--reorder --runtime-dim-mask=63 --dtag=ba 3x4",
        "--reorder --sdt=boolean --ddt=f64 3x4",
        "--reorder --dt=s8:f32 --attr-zero-points=src:host_scalar:2 3x4",
        "--reorder --sdt=u4 --ddt=s4 6x4",
        "--reorder 0x4",
        "--reorder --ctx-init=1 --ctx-exe=1 3x4",
        "--engine=reference --reorder --dtag=ba 3x4",
    ],
)
def test_what_restride_does_passes(line: str) -> None:
    assert _run(line).status in (Outcome.PASSED, Outcome.MISTRUSTED), _run(line)


@pytest.mark.parametrize(
    ("mode", "status"),
    [("L", "LISTED"), ("I", "INITIALIZED"), ("R", "EXECUTED"), ("B", "PASSED"), ("C", "PASSED")],
)
def test_a_mode_ends_with_its_status(mode: str, status: str) -> None:
    assert _run(f"--mode={mode} --reorder 3x4").status is Outcome[status]


def test_a_primitive_that_is_only_made_needs_no_memory() -> None:
    assert _run("--mode=I --reorder 1000000x1000000x10").status is Outcome.INITIALIZED


def test_a_destination_of_zeros_is_not_trusted() -> None:
    result = _run("--reorder --ddt=u8 --attr-scales=src:common:0 8x8")
    assert result.status is Outcome.MISTRUSTED


# --- a wrong engine --------------------------------------------------------------------------------------


def _then(spoil: Callable[[Args], Any]) -> Execute:
    """An engine that does the work, and then something else."""

    def wrong(primitive: Any, stream: rs.Stream, args: Args) -> None:
        execute(primitive, stream, args)
        spoil(args)

    return wrong


def _bytes(memory: rs.Memory) -> np.ndarray[Any, Any]:
    assert memory.data is not None
    return memory.data.view(np.uint8)


def _spoil(memory: rs.Memory, place: int) -> None:
    _bytes(memory)[place] ^= 1


def test_one_wrong_bit_fails_and_is_named() -> None:
    result = _run("--reorder --ddt=s8 --dtag=ba 3x4", _then(lambda args: _spoil(args[rs.ARG_TO], 5)))
    assert (result.status, result.errors, result.total) == (Outcome.FAILED, 1, 12)
    (line,) = result.lines
    # Byte 5 of 3x4 by columns is row 2 of column 1: element 2 * 4 + 1.
    assert line.startswith("[   9][DST][2:1] exp_f32:")


def test_an_engine_that_does_nothing_fails() -> None:
    result = _run("--reorder --ddt=s8 3x4", lambda primitive, stream, args: None)
    assert result.status is Outcome.FAILED
    assert result.errors > 8


def test_no_more_than_ten_elements_are_shown() -> None:
    assert len(_run("--reorder 30x4", lambda primitive, stream, args: None).lines) == 10


def test_padding_that_is_not_zero_fails() -> None:
    result = _run("--reorder --dtag=aB16b 1x3", _then(lambda args: _spoil(args[rs.ARG_TO], 63)))
    assert (result.status, result.reason) == (Outcome.FAILED, "padding is not zero")


def test_a_gap_that_is_written_fails() -> None:
    # Rows of 3 bytes, 5 apart: byte 3 is a gap.
    result = _run("--reorder --ddt=s8 --strides=:5x1 2x3", _then(lambda args: _spoil(args[rs.ARG_TO], 3)))
    assert (result.status, result.reason) == (Outcome.FAILED, "gaps between elements were written")


@pytest.mark.parametrize(
    ("line", "place", "bits"),
    [
        ("--ddt=s4 --strides=:10x1 2x4", 2, 0x01),
        ("--ddt=s4 --strides=:9x1 2x3", 1, 0x10),
        ("--ddt=u4 3x3", 4, 0x10),
        ("--ddt=s4 --dtag=ba 3x3", 4, 0x80),
        ("--strides=:10x1 --attr-post-ops=sum:2 2x4", 16, 0x01),
        ("--ddt=s8 --strides=:5x1 --attr-post-ops=sum 2x3", 4, 0x01),
        ("--ddt=bf16 --strides=:1x5 2x3", 4, 0x80),
    ],
    ids=["s4", "s4 half byte", "u4 end", "s4 turned", "sum of f32", "sum of s8", "bf16"],
)
def test_a_bit_between_elements_that_is_written_fails(line: str, place: int, bits: int) -> None:
    def spoil(args: Args) -> None:
        _bytes(args[rs.ARG_TO])[place] ^= bits

    result = _run(f"--reorder {line}", _then(spoil))
    assert (result.status, result.reason) == (Outcome.FAILED, "gaps between elements were written")
    assert _run(f"--reorder {line}").status is Outcome.PASSED


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("mode", ["C", "R", "B", "CP"])
def test_a_scratchpad_of_the_user_is_brought(mode: str, engine: str) -> None:
    line = "--sdt=s4 --ddt=s4 --stag=ab --dtag=ba --attr-scratchpad=user 65x65"
    result = _run(f"--mode={mode} --engine={engine} --fix-times-per-prb=1 --reorder {line}")
    assert result.status in (Outcome.PASSED, Outcome.EXECUTED), result


def test_a_byte_beside_the_scratchpad_fails() -> None:
    def overrun(args: Args) -> None:
        pad = args[rs.ARG_SCRATCHPAD]
        ctypes.memset(pad.get_data_handle() + pad.desc.size, 0, 1)

    line = "--reorder --sdt=s4 --ddt=s4 --stag=ab --dtag=ba --attr-scratchpad=user 65x65"
    result = _run(line, _then(overrun))
    assert result.status is Outcome.FAILED
    assert result.reason.startswith("canaries")


@pytest.mark.parametrize("arg", [rs.ARG_TO, rs.ARG_FROM], ids=["destination", "source"])
@pytest.mark.parametrize("distance", [-1, 0], ids=["before", "behind"])
def test_a_byte_beside_the_storage_fails(arg: int, distance: int) -> None:
    def overrun(args: Args) -> None:
        memory = args[arg]
        at = memory.get_data_handle() + (memory.desc.size if distance == 0 else distance)
        ctypes.memset(at, 0, 1)

    result = _run("--reorder --dtag=ba 3x4", _then(overrun))
    assert result.status is Outcome.FAILED
    assert result.reason.startswith("canaries")


def test_a_wrong_sum_of_compensation_fails() -> None:
    line = "--reorder --ddt=s8 --oflag=zp_comp:1 3x4"
    result = _run(line, _then(lambda args: _spoil(args[rs.ARG_DST_2], 0)))
    assert (result.status, result.errors) == (Outcome.FAILED, 1)


def test_a_sum_that_forgets_the_old_destination_fails() -> None:
    def forgetful(primitive: Any, stream: rs.Stream, args: Args) -> None:
        _bytes(args[rs.ARG_TO])[:] = 0
        execute(primitive, stream, args)

    assert _run("--reorder --attr-post-ops=sum 3x4", forgetful).status is Outcome.FAILED


def test_an_engine_that_raises_fails() -> None:
    def raising(primitive: Any, stream: rs.Stream, args: Args) -> None:
        raise ZeroDivisionError("no kernel")

    result = _run("--reorder 3x4", raising)
    assert (result.status, result.reason) == (
        Outcome.FAILED,
        "execution raised ZeroDivisionError: no kernel",
    )


def test_other_bits_in_a_second_run_fail_in_mode_b() -> None:
    runs = iter(range(9))
    result = _run("--mode=B --reorder 3x4", _then(lambda args: _spoil(args[rs.ARG_TO], next(runs))))
    assert (result.status, result.reason) == (Outcome.FAILED, "a second run gave other bits")


# --- what is not run -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--reorder --sdt=s2 2x4", "Data type not supported: s2"),
        ("--reorder --attr-zero-points=src:common:1 2x4", "Invalid case: zero points of src, which is f32"),
        ("--reorder --oflag=s8s8_comp:1 2x4", "Invalid case: compensation of f32"),
        ("--reorder --ddt=s8 --oflag=s8s8_comp:1+zp_comp:2 2x4", "Case not supported: two kinds"),
        ("--reorder --cross-engine=cpu2gpu 2x4", "Case not supported: --cross-engine"),
        ("--reorder --strides=3x1:1x2 --stag=ab 2x3", "Invalid case: strides and a tag, ab, for src"),
        ("--reorder --strides=3x1:1x2 --dtag=ba 2x3", "Invalid case: strides and a tag, ba, for dst"),
        ("--reorder --attr-post-ops=add:f32:4 2x3", "Invalid case: the mask of add:f32:4"),
        ("--reorder --ctx-exe=99999 2x3", "Case not supported: threading context 99999"),
        ("--reorder --attr-rounding-mode=dst:stochastic:1 2x4", "Case not supported: --attr-rounding-mode"),
        ("--reorder --attr-dropout=0.5 2x4", "Case not supported: --attr-dropout"),
        (
            "--reorder --attr-precomputed-reductions=src:per_tensor:s32:1x4 2x4",
            "Case not supported: --attr-pre",
        ),
        ("--reorder --buffer-prefix=here 2x4", "Case not supported: --buffer-prefix"),
        ("--reorder --attr-post-ops=prelu:4 2x4", "Invalid case: the mask of prelu:4"),
        ("--reorder --ctx-exe=2:1 2x4", "Case not supported: threading context"),
        ("--reorder --engine=gpu:99 2x4", "Case not supported: there is no engine gpu"),
        ("--reorder --engine=sycl:opencl:cpu:99 2x4", "Case not supported: there is no engine sycl:opencl"),
        ("--reorder --memory-kind=usm_shared 2x4", "Case not supported: --memory-kind"),
        ("--reorder --memory-kind=buffer 2x4", "Case not supported: --memory-kind"),
        ("--reorder --stream-kind=out_of_order 2x4", "Case not supported: --stream-kind"),
        ("--reorder --num-streams=2 2x4", "Case not supported: --num-streams"),
        ("--reorder --cold-cache=custom 2x4", "Case not supported: --cold-cache"),
        ("--reorder --cpu-isa-hints=prefer_ymm 2x4", "Case not supported: --cpu-isa-hints"),
        ("--reorder --execution-mode=graph 2x4", "Case not supported: --execution-mode"),
        ("--reorder --skip-impl=simple,jit 2x4", "Skip-impl option hit"),
        ("--reorder --impl=ref 2x4", "Skip-impl option hit"),
        ("--reorder --global-skip-impl=jit 2x4", "Skip-impl option hit"),
        ("--reorder 1000000x1000000x10", "Not enough RAM"),
    ],
)
def test_what_makes_no_sense_here_is_skipped_and_says_why(line: str, reason: str) -> None:
    result = _run(line)
    assert result.status is Outcome.SKIPPED
    assert result.reason.startswith(reason)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("--reorder --attr-scales=wei:common:2 2x4", Outcome.UNIMPLEMENTED),
        ("--reorder --stag=any 2x4", Outcome.INVALID_ARGUMENTS),
        ("--reorder --dtag=nchw 2x4", Outcome.INVALID_ARGUMENTS),
        ("--reorder --attr-scales=src:per_dim_2 2x4", Outcome.INVALID_ARGUMENTS),
        ("--reorder --strides=:0x1 2x4", Outcome.INVALID_ARGUMENTS),
    ],
)
def test_what_restride_refuses_has_the_status_of_the_refusal(line: str, status: Outcome) -> None:
    result = _run(line)
    assert result.status is status
    assert result.reason


def test_a_reference_implementation_is_reported_where_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _run("--check-ref-impl=1 --reorder 2x4").status is Outcome.PASSED
    assert _run("--attr-same-pd-check=1 --reorder --attr-scales=src:common:2 2x4").status is Outcome.PASSED


# --- shuffles --------------------------------------------------------------------------------------------


def test_a_shuffle_the_wrong_way_round_fails() -> None:
    def other_way(primitive: Any, stream: rs.Stream, args: Args) -> None:
        _bytes(args[rs.ARG_DST])[:] = np.roll(_bytes(args[rs.ARG_SRC]), 1)

    assert _run("--shuffle --group=3 2x12x3", other_way).status is Outcome.FAILED


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("--shuffle --group=5 2x12", Outcome.INVALID_ARGUMENTS),
        ("--shuffle --axis=2 --group=2 2x12", Outcome.INVALID_ARGUMENTS),
        ("--shuffle --axis=-1 --group=2 2x12", Outcome.INVALID_ARGUMENTS),
        ("--shuffle --group=2 --attr-scales=src:common:2 2x12", Outcome.UNIMPLEMENTED),
        ("--shuffle --group=2 --dt=s2 2x12", Outcome.SKIPPED),
    ],
)
def test_shuffles_that_make_no_sense_are_refused(line: str, status: Outcome) -> None:
    assert _run(line).status is status


# --- performance -----------------------------------------------------------------------------------------


def test_performance_takes_as_many_rounds_as_asked_for() -> None:
    perf = _run("--mode=P --fix-times-per-prb=7 --reorder --dtag=aB16b 2x4").perf
    assert perf is not None
    assert perf.rounds == 7
    assert perf.least <= perf.mean <= perf.most
    # 2x4 of f32, and 2x16 with padding.
    assert (perf.read, perf.written) == (32, 128)


def test_simulation_runs_once() -> None:
    perf = _run("--mode=S --reorder 2x4").perf
    assert perf is not None
    assert perf.rounds == 1


def test_performance_of_a_wrong_answer_is_not_taken_in_mode_cp() -> None:
    result = _run("--mode=CP --reorder 3x4", lambda primitive, stream, args: None)
    assert (result.status, result.perf) == (Outcome.FAILED, None)


def test_caches_are_emptied_between_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_FLUSHED", 1 << 16)
    monkeypatch.setattr(timing, "last_level_cache", lambda: None)
    perf = _run("--mode=P --cold-cache=all --fix-times-per-prb=2 --reorder 2x4").perf
    assert perf is not None
    assert perf.rounds == 2


def test_an_exception_while_a_case_is_looked_at_fails_that_test_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raising(test: Test) -> str:
        raise ZeroDivisionError("here")

    monkeypatch.setattr("restride_bench.driver.run.why_skipped", raising)
    (test,) = expand(["--reorder", "2x3"]).tests
    assert run(test).status is Outcome.FAILED
    assert "looking at the case raised ZeroDivisionError: here" in run(test).reason
    create(test)
