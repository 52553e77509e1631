"""Types: what type checkers say of right and wrong uses, and that the words they know are those that work."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

import restride as rs
from restride.desc.literals import BlockedTag, NibbleName, PlainTag, TypeName, WayName
from restride.desc.tags import to_tag
from restride.dtypes import _WORDS
from support import array_stub, onednn_stub

_ROOT = Path(__file__).parents[2]
_USES = _ROOT / "tests" / "typing" / "uses.py"
_TORCH_USES = _USES.with_name("uses_torch.py")


def _wrong_lines() -> set[int]:
    return {i for i, line in enumerate(_USES.read_text("utf-8").splitlines(), 1) if line.endswith("# wrong")}


def test_mypy_finds_the_wrong_uses_and_no_other() -> None:
    pytest.importorskip("mypy")
    options = ["--no-error-summary", "--hide-error-context"]
    command = [sys.executable, "-m", "mypy", *options, str(_USES), str(_TORCH_USES)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=600)
    found = re.findall(r"uses\.py:(\d+): error: (.*)", done.stdout)
    assert "uses_torch.py" not in done.stdout
    assert {int(line) for line, _ in found} == _wrong_lines(), done.stdout + done.stderr


@pytest.mark.peer
def test_pyright_finds_the_wrong_uses_and_no_other() -> None:
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    own = [_USES, _TORCH_USES] if importlib.util.find_spec("torch") else [_USES]
    command = [pyright, "--outputjson", "--pythonpath", sys.executable, *map(str, own)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=600)
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert {Path(each["file"]).name for each in found} == {_USES.name}, found
    errors = {each["range"]["start"]["line"] + 1: each["message"] for each in found}
    assert set(errors) == _wrong_lines(), errors


@pytest.mark.parametrize("name", get_args(PlainTag))
def test_every_plain_name_is_a_plain_format(name: str) -> None:
    tag = rs.FormatTag.parse(name)
    assert isinstance(tag, rs.FormatTag) or not tag.inner_blks


@pytest.mark.parametrize("name", get_args(BlockedTag))
def test_every_blocked_name_is_a_blocked_format(name: str) -> None:
    tag = rs.FormatTag.parse(name)
    assert not isinstance(tag, rs.FormatTag)
    assert tag.inner_blks


def test_all_named_tags_are_known_to_type_checkers() -> None:
    members = {name for name in rs.FormatTag.__members__ if name not in ("any", "undef")}
    assert members <= set(get_args(PlainTag))
    assert str(to_tag("nchw", 4)) == "abcd"


def test_the_words_of_types_are_all_there_are() -> None:
    words = {*rs.DataType.__members__, *_WORDS} - {"undef"}
    assert {*get_args(TypeName), *get_args(NibbleName)} == words
    assert {word for word in words if rs.DataType.parse(word).bits < 8} == set(get_args(NibbleName))


def test_the_ways_of_quantizing_are_those_that_have_names() -> None:
    from restride.arrays.scaling.group import NAMED
    from restride.arrays.scaling.quantization import WHOLE_BLOCKS
    from restride.desc.ggml_blocks import GGML_BLOCKS

    assert set(get_args(WayName)) == {*NAMED, *GGML_BLOCKS, *WHOLE_BLOCKS}


def test_types_for_annotations_are_public() -> None:
    typing = importlib.import_module("restride.typing")
    assert all(hasattr(typing, name) for name in typing.__all__)
    assert {"FormatLike", "TypeLike", "ArrayLike"} <= set(typing.__all__)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("__init__.pyi", onednn_stub.package_text),
        ("onednn.pyi", onednn_stub.onednn_text),
        ("ops/__init__.pyi", onednn_stub.ops_text),
        ("arrays/functions.pyi", array_stub.text),
    ],
)
def test_the_stubs_are_those_of_what_runs(
    request: pytest.FixtureRequest, path: str, text: Callable[[], str]
) -> None:
    """`--update-golden` writes them."""
    whole = Path(rs.__file__).parent / path
    if request.config.getoption("--update-golden"):
        whole.write_text(text(), "utf-8")
        subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(whole)], check=True, cwd=_ROOT)
    assert ast.dump(ast.parse(whole.read_text("utf-8"))) == ast.dump(ast.parse(text()))


def test_every_function_whose_result_is_of_many_types_is_in_the_stub() -> None:
    functions = {name: value for name in rs.__all__ if inspect.isfunction(value := getattr(rs, name))}
    of_many = {
        name
        for name, value in functions.items()
        if value.__module__.startswith("restride.arrays") and value.__annotations__["return"] == "Any"
    }
    assert of_many == set(array_stub.NAMES)
