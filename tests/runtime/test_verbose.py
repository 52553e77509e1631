"""Reports on stderr: their contents, times and format."""

import importlib
import io
import os
import re
import subprocess
import sys
import threading
import warnings

import pytest

from restride.errors import InvalidArguments
from restride.verbose import Level, Line, flags, get_verbose, set_verbose, write

# By name: the package's attribute `verbose` is the function `set_verbose`.
verbose = importlib.import_module("restride.verbose")

LINE = Line(
    "exec", "cpu", "reorder", "jit:tile", "undef", "src:f32::blocked:abcd::f0", "", "", "2x17x7x7", 0.0168
)
WORDS = ("error", "warn", "check", "dispatch", "profile_create", "profile_exec")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Every test starts at the default level, with the header lines behind it."""
    monkeypatch.setattr(verbose, "_pending_header", [])
    monkeypatch.setattr(flags, "timestamp", False)
    with set_verbose("error"):
        yield


def reported():
    return {word for word in WORDS if getattr(flags, word)}


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("none", set()),
        ("0", set()),
        (0, set()),
        ("error", {"error"}),
        ("", {"error"}),
        ("warn", {"error", "warn"}),
        ("check", {"error", "check"}),
        ("dispatch", {"error", "dispatch"}),
        ("profile_create", {"error", "profile_create"}),
        ("profile_exec", {"error", "profile_exec"}),
        ("1", {"error", "profile_exec"}),
        (1, {"error", "profile_exec"}),
        ("profile", {"error", "profile_create", "profile_exec"}),
        ("2", {"error", "profile_create", "profile_exec"}),
        (2, {"error", "profile_create", "profile_exec"}),
        ("all", set(WORDS)),
        (-1, set(WORDS)),
        ("check,dispatch", {"error", "check", "dispatch"}),
        (" Profile_Exec , WARN ,", {"error", "profile_exec", "warn"}),
        ("none,profile_exec", {"profile_exec"}),
        ("all,none", set()),
        ("all,debuginfo=3", set(WORDS)),
        (Level.profile, {"profile_create", "profile_exec"}),
        (Level.none, set()),
    ],
)
def test_each_level_switches_its_flags(level, words):
    set_verbose(level)
    assert reported() == words


@pytest.mark.parametrize(
    "level",
    [
        "bogus",
        "profile,bogus",
        "3",
        "filter=(",
        "filter=",
        "debuginfo=x",
        "🦉",
        pytest.param("x" * 10_000, id="long"),
    ],
)
def test_an_unknown_word_is_refused_and_changes_nothing(level):
    set_verbose("profile")
    with pytest.raises(InvalidArguments, match="unknown verbose level") as caught:
        set_verbose(level)
    assert "profile_exec" in caught.value.why
    assert len(caught.value.message) < 500
    assert reported() == {"error", "profile_create", "profile_exec"}


@pytest.mark.parametrize(
    "level", [None, True, 3, -2, 1.0, b"all", ["all"], pytest.param(10**5000, id="huge")]
)
def test_what_is_no_level_is_refused(level):
    with pytest.raises(InvalidArguments, match="cannot set the level"):
        set_verbose(level)


def test_as_a_context_manager_the_level_is_put_back():
    with set_verbose("profile"):
        assert flags.profile_exec
        with set_verbose("none"):
            assert reported() == set()
        assert flags.profile_exec
    assert reported() == {"error"}


def test_the_level_is_put_back_after_an_error():
    with pytest.raises(ZeroDivisionError), set_verbose("all"):
        1 / 0  # noqa: B018
    assert reported() == {"error"}


def test_a_context_can_be_entered_again():
    profile = set_verbose("profile")
    for _ in range(2):
        with profile:
            assert flags.profile_create
        assert not flags.profile_create


@pytest.mark.parametrize("level", ["none", "error", "profile", "all", "check,filter=^re", Level.profile_exec])
def test_the_level_in_force_can_be_set_again(level):
    set_verbose(level)
    before, setting, text = reported(), flags.setting, get_verbose()
    set_verbose("all")
    set_verbose(text)
    assert reported() == before
    assert flags.setting == setting


def test_a_line_has_the_fields_of_the_document_in_order(capsys):
    write(LINE)
    assert capsys.readouterr() == (
        "",
        "restride_verbose,v1,primitive,exec,cpu,reorder,jit:tile,undef,src:f32::blocked:abcd::f0,,,2x17x7x7,0.0168\n",
    )


@pytest.mark.parametrize(("time_ms", "text"), [(0.0371094, "0.0371094"), (123.456789, "123.457"), (0.0, "0")])
def test_times_have_six_digits(capsys, time_ms, text):
    write(LINE._replace(time_ms=time_ms))
    assert capsys.readouterr().err.endswith(f",{text}\n")


def test_a_field_breaks_neither_line_nor_columns(capsys):
    write(LINE._replace(implementation="a, b\nc\r\nd\u2028e"))
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.split(",")[6] == "a; b c d e"
    assert len(err.split(",")) == 13


def test_any_sequence_of_fields_is_a_line(capsys):
    write(("create:dispatch", "cpu", "shuffle", 3))
    assert capsys.readouterr().err == "restride_verbose,v1,primitive,create:dispatch,cpu,shuffle,3\n"


def test_a_filter_keeps_matching_primitive_kinds(capsys):
    set_verbose("profile,filter=^reo")
    write(LINE)
    write(LINE._replace(primitive="shuffle"))
    write(("exec",))
    assert capsys.readouterr().err.count("\n") == 1


def test_a_time_stamp_comes_after_the_version(capsys, monkeypatch):
    monkeypatch.setattr(flags, "timestamp", True)
    write(LINE)
    assert re.match(r"restride_verbose,v1,1\d{12}\.\d{3},primitive,exec,cpu,", capsys.readouterr().err)


@pytest.mark.parametrize("stamped", [False, True])
def test_the_header_precedes_the_first_line_once(capsys, monkeypatch, stamped):
    monkeypatch.setattr(flags, "timestamp", stamped)
    monkeypatch.setattr(verbose, "_pending_header", [tuple])
    verbose.set_header(lambda: ["restride v0.1.0", "cpu,runtime:threads,nthr:2", "cpu,isa:Intel AVX2"])
    write(LINE)
    write(LINE)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("restride_verbose,v1,")
    assert lines[0].endswith("info,restride v0.1.0")
    assert lines[1].endswith("info,cpu,runtime:threads,nthr:2")
    assert lines[2].endswith("info,cpu,isa:Intel AVX2")
    template = lines[3].partition("primitive,info,template:")[2].split(",")
    assert template[0] == ("timestamp" if stamped else "operation")
    assert len(template) == len(Line._fields) + stamped


def test_a_header_set_after_the_first_line_is_not_printed(capsys):
    verbose.set_header(lambda: ["late"])
    write(LINE)
    assert "late" not in capsys.readouterr().err


def test_a_header_that_raises_does_not_stop_the_line(capsys, monkeypatch):
    monkeypatch.setattr(verbose, "_pending_header", [lambda: 1 / 0])
    write(LINE)
    assert "info,template" in capsys.readouterr().err


class _Unwritable(io.TextIOBase):
    def __init__(self, error):
        self.error = error

    def write(self, text):
        raise self.error


def _closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize(
    "stream", [None, _closed(), _Unwritable(BrokenPipeError()), _Unwritable(RuntimeError()), object()]
)
def test_writing_never_raises(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    write(LINE)


def test_writing_survives_a_field_without_a_text():
    class Nameless:
        def __str__(self):
            raise RuntimeError

    write((Nameless(),))


def test_writing_survives_an_encoding_without_the_character(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    write(("exec", "β"))


def test_a_line_is_one_write_call_and_threads_do_not_mix(monkeypatch):
    written = []

    class Recorder:
        def write(self, text):
            written.append(text)

    monkeypatch.setattr(sys, "stderr", Recorder())
    monkeypatch.setattr(verbose, "_pending_header", [lambda: ["once"]])
    threads = [threading.Thread(target=lambda: [write(LINE) for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == 400
    assert all(text.endswith("0.0168\n") for text in written)
    assert sum("info,once" in text for text in written) == 1


def read(monkeypatch, **environ):
    for prefix in ("RESTRIDE_", "ONEDNN_", "DNNL_"):
        monkeypatch.delenv(prefix + "VERBOSE", raising=False)
        monkeypatch.delenv(prefix + "VERBOSE_TIMESTAMP", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    verbose.read_environment()


@pytest.mark.parametrize("name", ["RESTRIDE_VERBOSE", "ONEDNN_VERBOSE", "DNNL_VERBOSE"])
def test_the_environment_sets_the_level(monkeypatch, name):
    read(monkeypatch, **{name: "profile_exec"})
    assert reported() == {"error", "profile_exec"}


def test_our_own_variable_comes_first(monkeypatch):
    read(monkeypatch, RESTRIDE_VERBOSE="none", ONEDNN_VERBOSE="all", DNNL_VERBOSE="all")
    assert reported() == set()


@pytest.mark.parametrize("environ", [{}, {"RESTRIDE_VERBOSE": ""}, {"RESTRIDE_VERBOSE": "  "}])
def test_without_a_value_errors_are_reported(monkeypatch, environ):
    read(monkeypatch, **environ)
    assert reported() == {"error"}


@pytest.mark.parametrize(
    ("value", "words"), [("bogus", set()), ("7", set()), ("profile_exec,bogus", {"error", "profile_exec"})]
)
def test_an_unknown_word_in_the_environment_warns_and_reports_nothing(monkeypatch, value, words):
    with pytest.warns(RuntimeWarning, match="RESTRIDE_VERBOSE: unknown verbose level") as caught:
        read(monkeypatch, RESTRIDE_VERBOSE=value)
    assert len(caught) == 1
    assert reported() == words


@pytest.mark.parametrize(("value", "stamped"), [("1", True), ("0", False), ("", False), (" 0 ", False)])
def test_the_environment_switches_time_stamps(monkeypatch, value, stamped):
    read(monkeypatch, ONEDNN_VERBOSE_TIMESTAMP=value)
    assert flags.timestamp is stamped


def test_a_fresh_process_reads_the_environment_and_warns_once():
    code = "from restride.verbose import get_verbose; print(get_verbose())"
    environ = {**os.environ, "RESTRIDE_VERBOSE": "bogus"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "none\n"
    assert done.stderr.count("unknown verbose level 'bogus'") == 1


def test_restoring_needs_no_warning(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(monkeypatch, RESTRIDE_VERBOSE="all")
