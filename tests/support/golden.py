"""Texts kept in tests/golden, so that a change of a kernel is seen and meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

_MOST_SHOWN = 10


class Golden:
    """Compares texts with the files of a folder, or writes the files anew."""

    def __init__(self, folder: Path, updates: bool) -> None:
        self._folder, self.updates = folder, updates

    def check(self, name: str, text: str) -> None:
        """The text is that of the file `name`; with --update-golden it becomes it."""
        path = self._folder / name
        if self.updates:
            path.write_text(text, encoding="utf-8", newline="\n")
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        if kept != text:
            why = f"{name} changed{_first_difference(kept, text)}\nif meant: pytest --update-golden"
            pytest.fail(why, pytrace=False)

    def check_table(self, name: str, lines: Sequence[str], hint: str, share: Callable[[str], bool]) -> None:
        """As `check`, of lines that begin with a name and " | ": a failure says which of them differ.

        `share`: which names the lines are of; the file is compared in these alone.
        """
        path = self._folder / name
        kept = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        before = [line for line in kept if share(line.split(" | ")[0])]
        if self.updates or not path.exists():
            others = set(kept) - set(before)
            whole = sorted([*lines, *others], key=lambda line: line.split(" | ")[0]) if others else lines
            self.check(name, "".join(f"{line}\n" for line in whole))
            return
        if before != list(lines):
            pytest.fail(f"{name}: {_differing(before, lines)}\n{hint}", pytrace=False)


def _differing(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the number of differing lines, and the name of the first."""
    old, new = (dict(line.split(" | ", 1) for line in lines) for lines in (before, after))
    words = [(name, "is new") for name in new if name not in old]
    words += [(name, "is gone") for name in old if name not in new]
    words += [
        (name, f"was {old[name]}; is {new[name]}") for name in new if new[name] != old.get(name, new[name])
    ]
    shown = [f"  {name}: {what}" for name, what in words[:_MOST_SHOWN]]
    return "\n".join([f"{len(words)} of {len(new)} differ", *shown, *["  ..."][: len(words) > _MOST_SHOWN]])


def _first_difference(old: str, new: str) -> str:
    before, after = old.split("\n"), new.split("\n")
    where = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    if where is None:
        return f": {len(before)} lines became {len(after)}"
    return f" in line {where + 1}\n- {before[where]}\n+ {after[where]}"
