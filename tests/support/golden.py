"""Texts kept in tests/golden, so that a change of a kernel is seen and meant."""

from __future__ import annotations

from pathlib import Path

import pytest


class Golden:
    """Compares texts with the files of a folder, or writes the files anew."""

    def __init__(self, folder: Path, updates: bool) -> None:
        self._folder, self._updates = folder, updates

    def check(self, name: str, text: str) -> None:
        """The text is that of the file `name`; with --update-golden it becomes it."""
        path = self._folder / name
        if self._updates:
            path.write_text(text, encoding="utf-8", newline="\n")
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        if kept != text:
            why = f"{name} changed{_first_difference(kept, text)}\nif meant: pytest --update-golden"
            pytest.fail(why, pytrace=False)


def _first_difference(old: str, new: str) -> str:
    before, after = old.split("\n"), new.split("\n")
    where = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    if where is None:
        return f": {len(before)} lines became {len(after)}"
    return f" in line {where + 1}\n- {before[where]}\n+ {after[where]}"
