"""The reference: every public name, and every public member of a class, has an example that is run."""

from __future__ import annotations

import ast
import doctest
import enum
import inspect
import re
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import restride as rs

_DOCS = Path(__file__).parents[2] / "docs"
_REFERENCE = (*sorted((_DOCS / "reference").glob("*.md")), _DOCS / "stored-formats.md", _DOCS / "errors.md")
# Without an underscore for the sake of the package's other modules; not for its users.
_INSIDE = {
    *(
        "allocated",
        "device",
        "fields",
        "form",
        "freeze",
        "kind",
        "layout",
        "name",
        "of",
        "of_desc",
        "of_device",
    ),
    *("of_mds", "of_queue", "reads", "usage", "writes"),
}
_INNER = ("Desc", "PrimitiveDesc")
_PUBLIC = sorted({*rs.__all__, *rs.onednn.__all__})
_MODEL = (*(f"Arg.{name}" for name in rs.onednn.Arg.__members__), *rs.onednn.__all__)


@cache
def _sources() -> str:
    """All examples of the reference, and those of the docstrings of public names."""
    blocks = [
        block
        for page in _REFERENCE
        for block in re.findall(r"^```(?:python|pycon)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    ]
    docs = [inspect.getdoc(getattr(rs, name)) or "" for name in _PUBLIC]
    examples = (doctest.DocTestParser().get_examples(text) for text in (*blocks, *docs))
    return "".join(example.source for found in examples for example in found)


@cache
def _used() -> tuple[set[str], set[str]]:
    """Return the names used as `rs.name`, and as `anything.name`."""
    nodes = [node for node in ast.walk(ast.parse(_sources())) if isinstance(node, ast.Attribute)]
    public = {node.attr for node in nodes if ast.unparse(node.value) in ("rs", "rs.onednn", "rs.onednn.Arg")}
    return public, {node.attr for node in nodes}


def test_every_public_name_has_an_example() -> None:
    assert sorted({*_PUBLIC, *rs.onednn.Arg.__members__} - _used()[0]) == []


def test_every_public_name_is_described() -> None:
    """By autodoc, or as data; the members of modules are listed one by one."""
    text = "".join(page.read_text("utf-8") for page in _REFERENCE)
    described = set(
        re.findall(r"^(?:\.\. \w+:?\w*:: | +)restride\.(?:onednn\.)?((?:Arg\.)?\w+)", text, re.MULTILINE)
    )
    assert sorted({*rs.__all__, *_MODEL} - described) == []


def _classes() -> Iterator[tuple[str, type[Any]]]:
    for name in _PUBLIC:
        value = getattr(rs, name)
        if isinstance(value, types.ModuleType):
            classes = {n: c for n in value.__all__ if inspect.isclass(c := getattr(value, n))}
            yield from ((f"{name}.{n}", c) for n, c in classes.items() if not issubclass(c, enum.Enum))
        elif inspect.isclass(value) and not issubclass(value, (enum.Enum, Exception)):
            yield name, value
            yield from ((f"{name}.{n}", getattr(value, n)) for n in _INNER if hasattr(value, n))


def _members() -> list[str]:
    return [
        f"{name}.{member}"
        for name, value in _classes()
        for member in dir(value)
        if not member.startswith("_") and member not in _INSIDE and not hasattr(tuple, member)
        if hasattr(value, member)
    ]


def test_every_public_member_has_an_example() -> None:
    assert [member for member in _members() if member.rpartition(".")[2] not in _used()[1]] == []


@pytest.mark.parametrize("module", ["openvino", "sycl_interop"])
def test_every_name_of_a_public_module_has_an_example(module: str) -> None:
    used = set(re.findall(rf"\brs\.{module}\.(\w+)", _sources()))
    assert sorted(set(getattr(rs, module).__all__) - used) == []
