"""Command lines and batch files as a list of tests: a state machine, and nothing is run.

Knobs change the state; dims give one test for each combination of the state's values.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from restride.cli.usage import UsageError, wrong_usage
from restride.nearest import nearest

from . import words
from .cases import Case
from .common import COMMON_KNOBS, CommonKnobs, by_default
from .driver import Driver
from .drivers import ABSENT, DRIVERS

_DEEPEST = 16
_MOST_TESTS = 5_000_000
_INDENT = " " * len("  where: ")
Values = dict[str, tuple[Any, ...]]


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
    machine.take_all(arguments)
    if machine.driver is None:
        raise wrong_usage("restride bench: no driver", hint=f"begin with {_named()}")
    return Expansion(tuple(machine.tests), machine.common)


class _PlacedError(UsageError):
    """An error that names the batch file and the line."""


class _ExpansionState:
    """The state while words are read."""

    def __init__(self) -> None:
        self.common, self.tests = CommonKnobs(), list[Test]()
        self.driver: Driver | None = None
        self.settings = {name: _defaults(driver) for name, driver in DRIVERS.items()}
        self.match = self.typed_match = ""
        self.folders: list[Path] = []

    def take_all(self, found: Sequence[str]) -> None:
        for word in found:
            self.take(word)

    def take(self, word: str) -> None:
        if not word.startswith("-"):
            self.expand(word)
            return
        name, has_value, text = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if name in ABSENT and not has_value:
            raise wrong_usage(f"restride bench: there is no driver --{name}", why=ABSENT[name], hint=_named())
        if name in DRIVERS and not has_value:
            self.driver = DRIVERS[name]
        elif re.match(r"-v[0-9]+\Z", word):
            self.common = COMMON_KNOBS["verbose"](self.common, word[2:])
        elif name in ("batch", "reset", "match"):
            getattr(self, f"_{name}")(text)
        elif self.driver is not None and name in self.driver.knobs:
            self.values.update(self._settings(self.driver, name, bool(has_value), text))
        elif name in COMMON_KNOBS:
            is_empty = has_value and not text
            self.common = by_default(self.common, name) if is_empty else COMMON_KNOBS[name](self.common, text)
        else:
            raise self.unknown(word, name)

    def _settings(self, driver: Driver, name: str, has_value: bool, text: str) -> Values:
        """What a knob of the driver sets; an empty value is the default."""
        knob = driver.knobs[name]
        if has_value and not text:
            return {field: _defaults(driver)[field] for field in knob.fields}
        return knob.settings(f"--{name}", text)

    @property
    def values(self) -> Values:
        """What the knobs of the driver are set to."""
        assert self.driver is not None
        return self.settings[self.driver.case.driver]

    def expand(self, word: str) -> None:
        if self.driver is None:
            raise wrong_usage(
                f"restride bench: {word[:80]!r} before a driver", hint=f"{_named()} comes first"
            )
        problem = self.driver.parse(word)
        order = self.driver.case.loops()
        for chosen in itertools.product(*(self.values[field] for field in order)):
            case = self.driver.case(**problem, **dict(zip(order, chosen, strict=True)))
            self.add(Test(case, self.common))

    def add(self, test: Test) -> None:
        if self.match and not re.search(self.match, test.case.words()):
            return
        self.tests += [test] * self.common.repeats_per_prb
        if len(self.tests) > _MOST_TESTS:
            raise wrong_usage(f"restride bench: more than {_MOST_TESTS} tests", hint="run fewer at once")

    def _batch(self, text: str) -> None:
        if self.driver is None:
            raise wrong_usage("--batch before a driver", hint=f"{_named()} comes first")
        if len(self.folders) >= _DEEPEST:
            raise wrong_usage("--batch: files include each other", why=f"{_DEEPEST} deep, at {text[:80]!r}")
        folder = self.folders[-1] if self.folders else None
        found, path = words.read(text, self.driver.case.driver, folder)
        self.folders.append(path.parent)
        for word in found:
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
            raise _PlacedError(usage.error.retold(where=where)) from None

    def _reset(self, text: str) -> None:
        """Knobs of the driver to their defaults. The --match that was typed outlives a batch file's reset."""
        if self.driver is not None:
            self.settings[self.driver.case.driver] = _defaults(self.driver)
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
        drivers = [f"--{driver}" for driver, found in DRIVERS.items() if name in found.knobs]
        if drivers:
            owner = " or ".join(drivers)
            what = f"restride bench: unknown option {word[:80]!r} here, it belongs to {owner}"
            return wrong_usage(what, hint=f"it comes behind {owner}")
        known = [*DRIVERS, *COMMON_KNOBS, "batch", "reset", "match"]
        known += self.driver.knobs if self.driver else []
        near = nearest(name[:40], known)
        hint = f"did you mean --{near}?" if near else "the knobs are in docs/bench.md"
        return wrong_usage(f"restride bench: unknown option {word[:80]!r}", hint=hint)


def _defaults(driver: Driver) -> Values:
    names = driver.case.order()
    return {f.name: (f.default,) for f in fields(driver.case) if f.name in names}


def _named() -> str:
    return "one of " + ", ".join(f"--{name}" for name in DRIVERS)
