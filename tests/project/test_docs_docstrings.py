"""The library's docstrings as reStructuredText, for the pages of the reference."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

_MODULE = Path(__file__).parents[2] / "docs" / "_sphinx" / "docstrings.py"
converted = runpy.run_path(str(_MODULE))["converted"]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("Copy `x` to `out`.", "Copy ``x`` to ``out``."),
        ("A `MemoryDesc`, or `rs.f32`.", "A :py:obj:`MemoryDesc <restride.MemoryDesc>`, or"),
        ("Rounds (M10, P10) once.", "Rounds once."),
        ("As documented (spec 1.6).", "As documented."),
        (
            "May not overlap (N9).",
            "overlap (`N9 <../numerics.html#n9-source-and-destination-in-one-buffer>`__).",
        ),
        (">>> `x`", ">>> `x`"),
        ("    indented `text`", "::\n\n    indented `text`"),
        ("x       what is\n        read\nout     where", "``x``\n    what is read\n``out``\n    where"),
    ],
)
def test_a_docstring_becomes_markup(said: str, wanted: str) -> None:
    assert wanted in converted(said)
