"""Names: a class name stands for one thing in all of the source, a private one stays in its module."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import restride
import restride_bench

_PACKAGES = tuple(Path(package.__file__).parent for package in (restride, restride_bench))
_HEADING = re.compile(r"^# --- (.+?) -+$", re.MULTILINE)


def _paths() -> Iterator[Path]:
    return (path for package in _PACKAGES for path in package.rglob("*.py"))


@functools.cache
def _names() -> tuple[list[str], list[tuple[str, str]]]:
    """The names of all classes; what is imported from modules, with the file that imports it."""
    classes, imported = [], []
    for path in _paths():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                classes.append(node.name)
            elif isinstance(node, ast.ImportFrom):
                imported += [(path.name, each.name) for each in node.names]
    return classes, imported


def test_a_class_name_stands_for_one_class() -> None:
    # A private class has its name without the underscore.
    counts = Counter(name.lstrip("_") for name in _names()[0])
    several = [name for name, count in counts.items() if count > 1]
    assert not several, "find names in the words of what each class is for"


def test_a_private_name_is_imported_by_no_other_module() -> None:
    found = [(path, name) for path, name in _names()[1] if re.match("_[^_]", name)]
    assert not found, "give it a public name, or move what needs it"


def test_below_the_heading_of_a_section_there_is_one() -> None:
    parts = ((path.name, _HEADING.split(path.read_text("utf-8"))) for path in _paths())
    empty = [
        (name, heading)
        for name, (_, *sections) in parts
        for heading, below in zip(sections[::2], sections[1::2], strict=True)
        if not below.strip()
    ]
    assert not empty


def test_no_two_test_modules_have_one_name() -> None:
    # pytest imports them by their names alone: the second would not be collected.
    counts = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name, count in counts.items() if count > 1] == []
