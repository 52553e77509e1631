"""Codes of errors: each that is raised has an entry, each entry is raised, and its example raises it."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import restride as rs
import restride_bench
from restride import errors
from restride.cli.main import main
from restride.cli.refusals import PAGE, Refusal, is_like_a_code, refusals, spelled_out
from restride.desc.tags import FormatTag
from restride.errors import CATALOGUE, Error, messages, refuse
from support.sycl import sycl_engine

_PACKAGES = tuple(Path(package.__file__).parent for package in (rs, restride_bench))
_CODE = re.compile(r"RS-[A-Z]\d\d")
_KEY = re.compile(r"(RS-[A-Z]\d\d)(:[a-z0-9-]+)?")
_KINDS = ("InvalidArguments", "Unimplemented", "OutOfMemory", "RuntimeFailure", "Error")


class _Call(NamedTuple):
    """A call of a name."""

    place: str
    name: str
    words: set[str | None]


class _Refused(NamedTuple):
    """A call of `refuse`: its keys, two where it chooses one, and the names of its values."""

    place: str
    keys: list[str | None]
    fields: set[str | None]


class _Source(NamedTuple):
    """Of all modules: the bases of all classes, all calls of a name, all texts, and all refusals."""

    bases: dict[str, set[str]]
    calls: list[_Call]
    texts: set[str]
    refused: list[_Refused]


@functools.cache
def _source() -> _Source:
    source = _Source({}, [], set(), [])
    for path in sorted(path for package in _PACKAGES for path in package.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
        imported = [alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
        may_refuse = "refuse" in imported or path.name == "errors.py"
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                source.texts.add(node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                call = _Call(f"{path}:{node.lineno}", node.func.id, {word.arg for word in node.keywords})
                source.calls.append(call)
                if may_refuse and call.name == "refuse":
                    source.refused.append(_refused(node, call))
            elif isinstance(node, ast.ClassDef):
                names = {base.id for base in node.bases if isinstance(base, ast.Name)}
                source.bases[node.name] = source.bases.get(node.name, set()) | names
    return source


def _refused(node: ast.Call, call: _Call) -> _Refused:
    (key,) = node.args
    ends = [key.body, key.orelse] if isinstance(key, ast.IfExp) else [key]
    keys = [end.value if isinstance(end, ast.Constant) else None for end in ends]
    return _Refused(call.place, keys, call.words - {"error"})


def _error_classes() -> set[str]:
    """The names of all subclasses of `Error`, wherever they are defined."""
    found = set(_KINDS)
    for _ in range(3):
        found |= {name for name, bases in _source().bases.items() if bases & found}
    return found


def _raised() -> set[str]:
    return {found[1] for text in _source().texts if (found := _KEY.fullmatch(text))}


_messages = functools.cache(messages)


@functools.cache
def _fields(key: str) -> set[str]:
    """The names of the values that a message of the catalog takes."""
    parts = (each for text in _messages()[key][1:] for each in string.Formatter().parse(text))
    return {name.partition(".")[0] for _, name, _, _ in parts if name is not None}


def test_every_error_that_is_made_has_a_code_a_reason_and_a_way_out() -> None:
    kinds = _error_classes()
    made = [(place, words) for place, name, words in _source().calls if name in kinds]
    assert len(made) + len(_source().refused) > 700
    assert [place for place, words in made if not {"code", "why", "hint"} <= words] == []


def test_every_refusal_has_a_message_that_takes_its_values() -> None:
    assert len(_source().refused) > 500
    for place, keys, fields in _source().refused:
        for key in keys:
            assert key in _messages(), place
            assert fields == _fields(key), f"{place}: {key}"


def test_every_message_of_the_catalog_is_used_and_stands_with_its_code_once() -> None:
    assert set(messages()) == {key for refused in _source().refused for key in refused.keys}
    page = PAGE.read_text(encoding="utf-8")
    headings = [line for line in page.split("\n") if _KEY.match(line) or line.startswith("## RS-")]
    code, keys = "", []
    for line in headings:
        if line.startswith("## "):
            code = line.split()[1]
        else:
            keys.append(line.split()[0])
            assert keys[-1].partition(":")[0] == code
    assert keys == list(messages())


def test_every_message_says_why_or_a_rule_says_it_and_gives_a_way_out() -> None:
    """An error in a step of a conversion names the rule that led to it."""
    without = {key for key, message in messages().items() if not (message.what and message.hint)}
    # The layer's own description says what to do.
    assert without == {"RS-O01:many-axes"}
    assert {key.partition(":")[0] for key, message in messages().items() if not message.why} <= {
        "RS-A10",
        "RS-A15",
        "RS-F07",
    }


class _Unshown:
    """A value that cannot be formatted, nor looked into."""

    def __getattr__(self, name: str) -> object:
        raise ValueError(name)

    def __format__(self, spec: str) -> str:
        raise RuntimeError("no format")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "make", [_Unshown, object, lambda: None, lambda: "{0}", lambda: "{", lambda: 10**5000]
)
def test_a_value_never_breaks_an_error(make: Callable[[], object]) -> None:
    value = make()
    for key in messages():
        names = _fields(key)
        error = refuse(key, **dict.fromkeys(names, value))
        assert error.code == key.partition(":")[0]
        assert error.what


def test_braces_of_a_value_are_text() -> None:
    error = refuse("RS-V06", what="{what} {0}", value="}{")
    assert error.what == "{what} {0} is }{"


def test_a_missing_value_or_message_is_an_error_with_the_code() -> None:
    assert refuse("RS-V06", what="x").what == "x is {value}"
    error = refuse("RS-V06:nowhere", x=3)
    assert (type(error), error.code, error.why) == (rs.RuntimeFailure, "RS-V06", "x 3")


def test_an_error_is_told_where_the_catalog_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def unread() -> object:
        raise OSError(24, "Too many open files")

    errors._message.cache_clear()
    monkeypatch.setattr("restride.errors._catalog", unread)
    error = refuse("RS-V06", what="x", value=3)
    assert isinstance(error, Error)
    assert (error.code, error.why) == ("RS-V06", "what x, value 3")
    assert CATALOGUE in error.hint


def test_every_code_has_an_entry_and_every_entry_a_code_that_is_raised() -> None:
    assert _raised() == set(refusals())


def test_every_heading_of_the_page_is_an_entry_and_stands_once() -> None:
    headings = re.findall(r"^## (\S+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == list(refusals())


@pytest.mark.parametrize("entry", refusals().values(), ids=lambda entry: entry.code)
def test_the_example_raises_the_code(entry: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if "sycl" in entry.example and "get_device" not in entry.example:
        sycl_engine()
    if "onnx.helper" in entry.example:
        pytest.importorskip("onnx")
    if "restride.torch" in entry.example:
        pytest.importorskip("torch")
    run = _in_a_shell if entry.language == "sh" else _alone if "os.environ" in entry.example else _here
    assert run(entry.script()) == entry.code


def _here(script: str) -> str:
    with pytest.raises(rs.Error) as caught:
        exec(compile(script, "example", "exec"), {})
    return caught.value.code


def _alone(script: str) -> str:
    """In a process of its own, whose environment and caches it may change."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.split()[-1]


def _in_a_shell(script: str) -> str:
    python = f'"{sys.executable}"'
    lines = [line.removeprefix("$ ") for line in script.splitlines()]
    functions = [f'restride() {{ {python} -m restride "$@"; }}', f'python() {{ {python} "$@"; }}']
    done = subprocess.run(
        ["/bin/sh", "-c", "\n".join([*functions, *lines]) + " --json"], capture_output=True, text=True
    )
    assert done.returncode in (1, 2)
    return str(json.loads(done.stdout)["error"]["code"])


def _said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    status = main(["explain", *words, "--json"])
    said = json.loads(capsys.readouterr().out)
    assert status == (2 if "error" in said else 0)
    return said


def test_explain_tells_a_code_in_any_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("RS-N09", "rs-n09", "RS-N9", "n9", "N09"):
        assert _said(capsys, text)["code"] == "RS-N09"
    assert main(["explain", "RS-N09"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("RS-N09  Source and destination overlap\n\n")
    assert "    import restride as rs\n" in out
    assert max(map(len, out.splitlines())) <= 100


def test_explain_alone_lists_all_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert _said(capsys)["codes"] == {code: entry.title for code, entry in refusals().items()}
    assert main(["explain"]) == 0
    assert re.findall(r"^(RS-\S+)  ", capsys.readouterr().out, re.MULTILINE) == list(refusals())


@pytest.mark.parametrize(("typed", "near"), [("RS-M12", "RS-M11"), ("rs-r99", "RS-R34")])
def test_an_unknown_code_gives_the_nearest(capsys: pytest.CaptureFixture[str], typed: str, near: str) -> None:
    error = _said(capsys, typed)["error"]
    assert error["code"] == "RS-C01"
    assert f"did you mean {near}" in error["hint"]


@pytest.mark.parametrize("typed", ["RS-Q01", "RS-", "rs-zzz"])
def test_of_a_letter_without_codes_none_is_near(capsys: pytest.CaptureFixture[str], typed: str) -> None:
    assert _said(capsys, typed)["error"]["hint"] == "a code looks like RS-M11"


def test_codes_and_formats_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert _said(capsys, "nchw")["error"]["what"] == "DIMS is missing"
    assert _said(capsys, "nchw8")["error"]["code"] == "RS-M11"
    assert _said(capsys, "ab", "2x3")["strides"] == [3, 1]
    assert "data type" in _said(capsys, "RS-M11", "--dtype", "s8")["error"]["why"]
    assert [name for name in FormatTag.__members__ if is_like_a_code(name)] == []


@pytest.mark.parametrize("letter", "abcdefghijklmnopqrstuvwxyz")
def test_what_is_like_a_code_is_no_format(letter: str) -> None:
    for text in (f"{letter}{n}" for n in range(100)):
        assert is_like_a_code(text)
        with pytest.raises(rs.InvalidArguments):
            FormatTag.parse(text)
    assert spelled_out(f"{letter}7") == f"RS-{letter.upper()}07"


def test_the_texts_are_read_only_when_they_are_asked_for() -> None:
    script = (
        "import sys, restride, restride.errors; "
        "read = restride.errors._catalog.cache_info().currsize; "
        "sys.exit(read or 'restride.cli.refusals' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], env=dict(os.environ)).returncode == 0


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda x: rs.reorder(x, None, post_ops=["rellu"]), "reorder: post_ops: alg is 'rellu'"),
        (
            lambda x: rs.reorder(x, None, dtype="u8", zero_point=2**40),
            "reorder: zero_point: zero_points[0] is 1099511627776",
        ),
        (lambda x: rs.dequantize(x, "half"), "dequantize: scale is 'half'"),
    ],
    ids=["post_ops", "zero_point", "dequantize"],
)
def test_a_refusal_names_the_call_that_was_made(call: Callable[[Any], object], what: str) -> None:
    with pytest.raises(rs.InvalidArguments) as caught:
        call(np.ones((2, 3), np.float32))
    assert caught.value.what == what
