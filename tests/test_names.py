"""Names: a class name stands for one thing in all of the source."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import restride
import restride_bench

_PACKAGES = tuple(Path(package.__file__).parent for package in (restride, restride_bench))
# Still the names of several classes, and of how many at most. The list only gets shorter.
_SEVERAL = {
    "Arithmetic": 2,
    "Bound": 2,
    "Cursor": 2,
    "Inputs": 2,
    "Layout": 2,
    "Level": 3,
    "Reader": 2,
    "Section": 4,
    "Shuffle": 2,
    "Step": 2,
    "Sum": 2,
    "Tensor": 2,
    "Tile": 2,
}


def _classes() -> Counter[str]:
    """Each name of a class, without the underscore that makes it private, and how many classes have it."""
    paths = (path for package in _PACKAGES for path in package.rglob("*.py"))
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_bytes())))
    return Counter(node.name.lstrip("_") for node in nodes if isinstance(node, ast.ClassDef))


def test_a_class_name_stands_for_one_class() -> None:
    several = {name: count for name, count in _classes().items() if count > _SEVERAL.get(name, 1)}
    assert not several, "find names in the words of what each class is for"


def test_no_exception_is_left_that_is_not_needed() -> None:
    counts = _classes()
    assert not [name for name in _SEVERAL if counts[name] < 2], "take these out of the list"
