"""Names: a class name stands for one thing in all of the source."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import restride
import restride_bench

_PACKAGES = tuple(Path(package.__file__).parent for package in (restride, restride_bench))


def _classes() -> Counter[str]:
    """Each name of a class, without the underscore that makes it private, and how many classes have it."""
    paths = (path for package in _PACKAGES for path in package.rglob("*.py"))
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_bytes())))
    return Counter(node.name.lstrip("_") for node in nodes if isinstance(node, ast.ClassDef))


def test_a_class_name_stands_for_one_class() -> None:
    several = [name for name, count in _classes().items() if count > 1]
    assert not several, "find names in the words of what each class is for"
