"""Command lines and batch files as a list of tests: a state machine, and nothing is run.

Knobs change the state; dims give one test for each combination of the state's values.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restride.cli.usage import UsageError, wrong_usage
from restride.nearest import nearest

from . import words
from .cases import Case, table_of
from .common import COMMON_KNOBS, CommonKnobs
from .operations import ABSENT, OPERATIONS

_DEEPEST = 16
_MOST_TESTS = 5_000_000
_INDENT = " " * len("  where: ")
_NAMED = "one of " + ", ".join(f"--{name}" for name in OPERATIONS)
Settings = dict[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Test:
    """One case, and how it is to be run."""

    __test__ = False  # pytest takes classes of this name for its own

    case: Case
    common: CommonKnobs

    @property
    def repro(self) -> str:
        """The words that give this test again."""
        return " ".join((*self.common.words(), self.case.words(self.common.canonical)))


@dataclass(frozen=True, slots=True)
class Expansion:
    """All tests of a command line in order, and the common knobs as they were at its end."""

    tests: tuple[Test, ...]
    common: CommonKnobs


def expand(arguments: Sequence[str]) -> Expansion:
    """The tests of a command line. Raises UsageError for a word that is no knob, no driver and no problem."""
    machine = _ExpansionState()
    for word in arguments:
        machine.take(word)
    if machine.operation is None:
        raise wrong_usage("restride bench: no driver", hint=f"begin with {_NAMED}")
    return Expansion(tuple(machine.tests), machine.common)


class _PlacedError(UsageError):
    """An error that names the batch file and the line."""


class _ExpansionState:
    """The state while words are read."""

    def __init__(self) -> None:
        self.common, self.tests = CommonKnobs(), list[Test]()
        self.operation: type[Case] | None = None
        # What knobs of each operation were set to; others are at their defaults.
        self.settings: dict[str, Settings] = {name: {} for name in OPERATIONS}
        self.match = self.typed_match = ""
        self.folders: list[Path] = []

    def take(self, word: str) -> None:
        if not word.startswith("-"):
            self.expand(word)
            return
        name, has_value, text = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if name in ABSENT and not has_value:
            raise wrong_usage(f"restride bench: there is no driver --{name}", why=ABSENT[name], hint=_NAMED)
        if name in OPERATIONS and not has_value:
            self.operation = OPERATIONS[name]
        elif re.match(r"-v[0-9]+\Z", word):
            self.common = self.common.taken("verbose", word[2:])
        elif name in ("batch", "reset", "match"):
            getattr(self, f"_{name}")(text)
        elif self.operation is not None and name == self.operation.problem_knob:
            self.expand(str(words.found(text, self.operation.driver, self._folder, f"--{name}")))
        elif self.operation is not None and name in table_of(self.operation).knobs:
            knob, settings = table_of(self.operation).knobs[name], self.settings[self.operation.driver]
            if has_value and not text:
                for field in knob.fields(name.replace("-", "_")):
                    settings.pop(field, None)
            else:
                settings.update(knob.settings(name, text))
        elif name in COMMON_KNOBS:
            self.common = self.common.taken(name, text, is_empty=bool(has_value) and not text)
        else:
            raise self.unknown(word, name)

    def expand(self, word: str) -> None:
        operation = self.operation
        if operation is None:
            raise wrong_usage(f"restride bench: {word[:80]!r} before a driver", hint=f"{_NAMED} comes first")
        problem, settings, defaults = (
            operation.parse(word),
            self.settings[operation.driver],
            table_of(operation).defaults,
        )
        order = operation.loops()
        for chosen in itertools.product(*(settings.get(field, (defaults[field],)) for field in order)):
            case = operation(**problem, **dict(zip(order, chosen, strict=True)))
            if self.match and not re.search(self.match, case.words()):
                continue
            self.tests += [Test(case, self.common)] * self.common.repeats_per_prb
            if len(self.tests) > _MOST_TESTS:
                raise wrong_usage(f"restride bench: more than {_MOST_TESTS} tests", hint="run fewer at once")

    @property
    def _folder(self) -> Path | None:
        """The folder of the innermost batch file."""
        return self.folders[-1] if self.folders else None

    def _batch(self, text: str) -> None:
        if self.operation is None:
            raise wrong_usage("--batch before a driver", hint=f"{_NAMED} comes first")
        if len(self.folders) >= _DEEPEST:
            raise wrong_usage("--batch: files include each other", why=f"{_DEEPEST} deep, at {text[:80]!r}")
        every, path = words.read(text, self.operation.driver, self._folder)
        self.folders.append(path.parent)
        for word in every:
            self.take_from(path, word)
        self.folders.pop()

    def take_from(self, path: Path, word: words.Word) -> None:
        """Take a word of a batch file. Its errors say where it stands, in the innermost of the files."""
        try:
            self.take(word.text)
        except _PlacedError:
            raise
        except UsageError as usage:
            place = f"{path}:{word.line}"
            where = f"{place}\n{_INDENT}{usage.error.where}" if usage.error.where else place
            raise _PlacedError(usage.error.with_context(where=where)) from None

    def _reset(self, text: str) -> None:
        """Knobs of the operation to their defaults. A --match that was typed outlives the reset of a file."""
        if self.operation is not None:
            self.settings[self.operation.driver] = {}
        if not self.folders:
            self.typed_match = ""
        self.match = self.typed_match

    def _match(self, text: str) -> None:
        try:
            re.compile(text)
        except re.error as error:
            raise wrong_usage(f"--match: {text[:80]!r} is no regular expression", why=str(error)) from None
        self.match = text
        if not self.folders:
            self.typed_match = text

    def unknown(self, word: str, name: str) -> UsageError:
        owners = [f"--{driver}" for driver, each in OPERATIONS.items() if name in table_of(each).knobs]
        if owners:
            owner = " or ".join(owners)
            what = f"restride bench: unknown option {word[:80]!r} here, it belongs to {owner}"
            return wrong_usage(what, hint=f"it comes behind {owner}")
        known = [*OPERATIONS, *COMMON_KNOBS, "batch", "reset", "match"]
        known += table_of(self.operation).knobs if self.operation else []
        near = nearest(name[:40], known)
        hint = f"did you mean --{near}?" if near else "the knobs are in docs/bench.md"
        return wrong_usage(f"restride bench: unknown option {word[:80]!r}", hint=hint)
