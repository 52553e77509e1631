"""Options and settings that hold for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Machines that run the tests are shared: no deadlines. The fast tests try the same examples everywhere.
_CALM = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "same", deadline=None, derandomize=True, database=None, print_blob=True, suppress_health_check=_CALM
)
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=_CALM)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the texts in tests/golden anew instead of comparing",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with the file of that name in tests/golden."""
    return Golden(Path(__file__).parent / "golden", bool(request.config.getoption("--update-golden")))


class Golden:
    """Texts that a change must not alter by accident."""

    def __init__(self, folder: Path, updates: bool) -> None:
        self._folder, self._updates = folder, updates

    def check(self, name: str, text: str) -> None:
        """The text is that of the golden file `name`; with --update-golden it becomes it."""
        path = self._folder / name
        if self._updates:
            path.write_text(text, encoding="utf-8", newline="\n")
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        if kept == text:
            return
        pytest.fail(
            f"{name} changed{_first_difference(kept, text)}\nif meant: pytest --update-golden", pytrace=False
        )


def _first_difference(old: str, new: str) -> str:
    lines = zip(old.split("\n"), new.split("\n"), strict=False)
    where = next((i for i, (a, b) in enumerate(lines) if a != b), None)
    if where is None:
        return f": {old.count(chr(10))} lines became {new.count(chr(10))}"
    return f" in line {where + 1}\n- {old.split(chr(10))[where]}\n+ {new.split(chr(10))[where]}"
