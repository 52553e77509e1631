"""Watching: the logger, profiles, traces, hooks; pictures of networks, plans and quantized tensors."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.verbose import flags, set_verbose
from restride.watching import EVENTS

X = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
NODE = "me\x1b[31mans\n<b>"


def network(name: str = NODE) -> rs.Network:
    builder = rs.graph.GraphBuilder()
    x = builder.input("x", (1, 8, 6, 6))
    weights = builder.constant(np.ones((8, 8, 3, 3), np.float32))
    window = rs.graph.ConvolutionOperation(strides=(1, 1), dilates=(0, 0), padding_l=(1, 1), padding_r=(1, 1))
    return rs.Network(builder.graph(builder.add(window, x, weights, name=name)))


IMAGE = np.ones((1, 8, 6, 6), np.float32)


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    """After each test nothing is watched any more."""
    rs.reorder(X, "acdb")
    yield
    logging.getLogger("restride").setLevel(logging.NOTSET)
    assert not (flags.profile)
    assert not (flags.profile_exec)
    assert not (flags.profile_create)
    assert not (flags.heard)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Record the output of restride's logger."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logging.getLogger("restride").addHandler(handler)
    yield text
    logging.getLogger("restride").removeHandler(handler)


# --- logging ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["restride", None])
def test_the_level_of_any_logger_above_turns_the_lines_on_and_off(
    name: str | None, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        rs.reorder(X, "acdb")
    finally:
        logger.setLevel(before)
    rs.reorder(X, "acdb")
    found = log.getvalue().splitlines()
    assert [line.split(",")[:3] for line in found[-2:]] == [
        ["create:cache_hit", "cpu", "reorder"],
        ["exec", "cpu", "reorder"],
    ]
    assert "restride_verbose" not in capsys.readouterr().err


def test_at_info_only_what_is_made_is_logged_and_calls_stay_prepared(log: io.StringIO) -> None:
    logging.getLogger("restride").setLevel(logging.INFO)
    assert not flags.profile
    for _ in range(3):
        rs.reorder(np.ones((3, 1, 5, 77), np.float32), "acdb")
    assert [line.split(",")[0] for line in log.getvalue().splitlines()] in ([], ["create:cache_miss"])


def test_the_logger_names_nodes_harmlessly_and_verbose_lines_stay_as_they_are(
    log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    net = network()
    net(IMAGE)
    logging.getLogger("restride").setLevel(logging.DEBUG)
    with set_verbose("profile_exec"):
        net(IMAGE)
    nodes = [line for line in log.getvalue().splitlines() if "node:me" in line]
    assert len(nodes) == 1
    assert "\x1b" not in nodes[0]
    said = capsys.readouterr().err
    assert "convolution" in said
    assert "node:" not in said
    assert ",network," not in said


_ALL = {"event", "primitive", "implementation", "node", "formats", "dims", "time_ms"}


def test_records_say_what_ran_where_and_for_how_long(caplog: pytest.LogCaptureFixture) -> None:
    net = network("means")
    net(IMAGE)
    with caplog.at_level("DEBUG", "restride"):
        net(IMAGE)
        rs.reorder(X, "acdb")
    found: dict[str, Any] = {
        record.restride["primitive"]: record.restride  # type: ignore[attr-defined]
        for record in caplog.records
        if record.restride["event"] == "exec"  # type: ignore[attr-defined]
    }
    convolution, reorder = found["convolution"], found["reorder"]
    assert convolution["node"] == "means"
    assert convolution["dims"] == "1x8x6x6"
    assert convolution["formats"].count("f32") >= 2
    assert convolution["implementation"]
    assert (reorder["node"], reorder["dims"]) == ("", "2x3x2x2")
    assert "src" in reorder["formats"]
    assert all(record["time_ms"] > 0 and set(record) >= _ALL for record in found.values())
    json.dumps(list(found.values()))


def test_a_record_of_a_failed_call_has_the_inputs(caplog: pytest.LogCaptureFixture) -> None:
    net = network()
    with caplog.at_level("WARNING", "restride"):
        for wrong in (np.ones((3, 2)), {"a": IMAGE, "b": np.ones(5, np.int8)}, {"x": object()}, 3):
            with pytest.raises(rs.InvalidArguments):
                net(wrong)
    records = [record.restride for record in caplog.records]  # type: ignore[attr-defined]
    assert [(each["formats"], each["dims"]) for each in records] == [
        ("float64", "3x2"),
        ("a:float32 b:int8", "1x8x6x6 5"),
        ("x:object", ""),
        ("int", ""),
    ]
    assert [each["code"] for each in records] == ["RS-G13", "RS-G12", "RS-A04", "RS-G13"]
    for each in records:
        assert (each["event"], each["primitive"]) == ("error", "network")
        assert each["where"]
        assert each["why"]
        assert set(each) >= _ALL


def test_a_record_of_a_failed_call_has_the_node_that_does_not_accept_its_inputs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    onnx = pytest.importorskip("onnx")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", "m"]) for name in "xy")
    weights = onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "dense")
    net = rs.onnx.load(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y], [weights])))
    seen = []
    told = rs.add_hook("error", seen.append)
    with caplog.at_level("WARNING", "restride"), told, pytest.raises(rs.InvalidArguments):
        net(np.ones((2, 5), np.float32))
    assert [each.node for each in seen] == ["dense"]
    assert [record.restride["node"] for record in caplog.records] == ["dense"]  # type: ignore[attr-defined]


def test_logging_that_is_disabled_turns_nothing_on(log: io.StringIO) -> None:
    logging.disable(logging.CRITICAL)
    try:
        logging.getLogger("restride").setLevel(logging.DEBUG)
        assert not flags.profile
    finally:
        logging.disable(logging.NOTSET)
    assert flags.profile


def test_a_handler_may_execute(log: io.StringIO) -> None:
    class Executing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            rs.reorder(X, "acdb")

    handler = Executing()
    logger = logging.getLogger("restride")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    rs.reorder(X, "acdb")
    logger.removeHandler(handler)
    assert log.getvalue().count("exec,") == 1


# --- profiles -----------------------------------------------------------------------------------------------


def test_a_profile_has_primitives_functions_and_the_steps_of_networks() -> None:
    engine, net = rs.Engine("cpu"), network()
    src = rs.Memory(rs.MemoryDesc((2, 3), "f32", "ab"), engine)
    dst = rs.Memory(rs.MemoryDesc((2, 3), "f32", "ba"), engine)
    reorder, stream = rs.onednn.Reorder(rs.onednn.Reorder.PrimitiveDesc(src, dst)), rs.onednn.Stream(engine)
    reorder.execute(stream, src, dst)
    net(IMAGE)
    with rs.profile() as p:
        reorder.execute(stream, src, dst)
        rs.softmax(X)
        net(IMAGE)
    steps = [each for each in p.activities if each.kind == "step"]
    assert [each.name for each in p.activities if each.kind == "execution"] == [
        "reorder",
        "softmax",
        "network",
    ]
    assert NODE in [each.node for each in steps]
    convolution = next(each for each in steps if each.node == NODE)
    assert convolution.flops == 2 * 8 * 8 * 9 * 36
    assert convolution.bytes > 0
    inner, outer = sum(each.seconds for each in steps), p.activities[-1].seconds
    assert 0 < inner <= outer


def _fail_within(profile: Any) -> None:
    with profile:
        rs.reorder(X, "acdb")
        raise ZeroDivisionError


def test_profiles_nest_end_with_an_exception_and_see_all_threads() -> None:
    with rs.profile() as outer:
        inner = rs.profile()
        with pytest.raises(ZeroDivisionError):
            _fail_within(inner)
        threads = [threading.Thread(target=rs.reorder, args=(X, "acdb"), name=f"t{i}") for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(inner.activities) == 1
    assert len(outer.activities) == 4
    assert {each.thread_name for each in outer.activities} == {"MainThread", "t0", "t1", "t2"}
    assert len(rs.profile().activities) == 0


def test_profiles_open_in_several_threads_end_on_their_own() -> None:
    counts = []

    def work() -> None:
        for _ in range(20):
            with rs.profile() as p:
                rs.reorder(X, "acdb")
            counts.append(len(p.activities))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 80
    assert min(counts) >= 1


def test_the_table_has_rates_and_shares_of_the_roof_and_no_orders_for_terminals() -> None:
    net = network()
    with rs.profile() as p:
        net(IMAGE)
        for _ in range(3):
            rs.reorder(X, "acdb")
    head, *rows = str(p).splitlines()
    assert head.split()[:7] == ["time", "share", "calls", "bytes", "rate", "of", "roof"]
    assert any("GFLOP/s" in row and "me?[31mans" in row for row in rows)
    assert any("GB/s" in row and "f32 abcd -> f32 acdb" in row and " 3 " in row for row in rows)
    assert "\x1b" not in str(p)
    assert "&lt;b&gt;" in p._repr_html_()
    assert "<b>" not in p._repr_html_()


def test_an_empty_profile_is_shown() -> None:
    assert "nothing was executed" in str(rs.profile())
    assert "<pre>" in rs.profile()._repr_html_()


def test_a_trace_has_the_events_of_its_format(tmp_path: Path) -> None:
    net = network()
    with rs.profile() as p:
        net(IMAGE)
    p.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["displayTimeUnit"] in ("ms", "ns")
    for event in trace["traceEvents"]:
        assert event["ph"] in "XM"
        assert event["name"].isprintable()
        assert event["pid"] == os.getpid()
        assert isinstance(event["tid"], int)
        assert isinstance(event["args"], dict)
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] > 0
            assert event["cat"] in ("step", "execution", "plan", "compile")
    spans = {each["name"]: each for each in trace["traceEvents"] if each["ph"] == "X"}
    step, run = next(v for k, v in spans.items() if k.startswith("convolution")), spans["network"]
    assert run["ts"] <= step["ts"] + 50
    assert step["ts"] + step["dur"] <= run["ts"] + run["dur"] + 50
    for path in (3, "", str(tmp_path)):
        with pytest.raises(rs.Error):
            p.save(path)  # type: ignore[arg-type]


# --- hooks --------------------------------------------------------------------------------------------------


def test_hooks_get_the_same_activity_before_and_after() -> None:
    seen = []
    hooks = [rs.add_hook(event, lambda each, e=event: seen.append((e, each))) for event in EVENTS]
    net = network("plain")
    net(IMAGE)
    for hook in hooks:
        hook.close()
        hook.close()
    count = len(seen)
    net(IMAGE)
    assert len(seen) == count
    before = [each for event, each in seen if event.startswith("before")]
    after = [each for event, each in seen if event.startswith("after")]
    assert {id(each) for each in before} == {id(each) for each in after}
    assert len(before) == len(after)
    assert {each.kind for each in after} >= {"plan", "execution", "step"}
    assert "plain" in [each.node for each in after]


def test_a_network_stays_in_one_piece_for_hooks_of_executions() -> None:
    net, seen = network(), []
    net(IMAGE)
    with rs.add_hook("after_execution", seen.append):
        assert not flags.profile_exec
        net(IMAGE)
    assert [(each.name, each.dims) for each in seen] == [("network", "1x8x6x6")]


def test_a_hook_that_raises_or_executes_harms_nothing() -> None:
    calls = []

    def bad(each: object) -> None:
        calls.append(each)
        rs.reorder(X, "acdb")
        raise ValueError("no")

    with rs.add_hook("before_execution", bad), pytest.warns(RuntimeWarning, match="before_execution raised"):
        result = rs.reorder(X, "acdb")
    assert len(calls) == 1
    assert result.shape == X.shape


def test_an_execution_that_raises_is_told_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("restride.arrays.calls.function.run", interrupted)
    seen = []
    with rs.add_hook("after_execution", seen.append), rs.profile() as p, pytest.raises(KeyboardInterrupt):
        rs.softmax(X)
    assert [type(each.error) for each in seen] == [KeyboardInterrupt]
    assert "activity that raised: 1" in str(p)


@pytest.mark.parametrize("event", ["execution", "after", None, 3, "after_runs"])
def test_events_that_are_none_are_refused(event: object) -> None:
    with pytest.raises(rs.InvalidArguments, match="add_hook: event"):
        rs.add_hook(event, print)  # type: ignore[arg-type]
    with pytest.raises(
        rs.InvalidArguments, match=r"add_hook: function is None(.|\n)*hint: pass a function of one argument"
    ):
        rs.add_hook("after_plan", None)  # type: ignore[arg-type]


# --- notebooks ----------------------------------------------------------------------------------------------


def test_networks_and_plans_have_pictures_and_nothing_is_planned_for_them() -> None:
    net = network()
    with rs.profile() as p:
        before = net._repr_html_()
    assert "not planned yet" in before
    assert not p.activities
    net(IMAGE)
    for picture in (net._repr_html_(), net.plan()._repr_html_()):
        assert "<iframe srcdoc=" in picture
        assert "convolution" in picture
        assert "<b>" not in picture


def test_plans_of_reorders_have_pictures_of_both_sides() -> None:
    picture = rs.plan(rs.MemoryDesc((1, 20, 4, 4), "f32", "nchw"), "nChw16c")._repr_html_()
    assert picture.count("<svg") == 1
    assert "Memory of f32 1x20x4x4 abcd, and of f32 1x20x4x4 aBcd16b" in picture
    large = rs.plan(rs.MemoryDesc((64, 64, 56, 56), "f32", "nchw"), "nhwc")._repr_html_()
    assert len(large) < 150_000
    assert "moves" in picture
    assert "<summary>loops and schedule</summary>" in picture


def test_quantized_tensors_have_pictures() -> None:
    picture = rs.quantize(np.ones((4, 64), np.float32), "u4", group=32)._repr_html_()
    assert "4×64 of u4" in picture
    assert "scale" in picture
    assert "<svg" in picture
