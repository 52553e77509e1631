"""Counts of the Python functions that a call runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def python_calls(run: Callable[[], object], endings: tuple[str, ...] = ("",)) -> int:
    """Return the number of functions that `run` calls; `endings`: of the files that count."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith(endings):
            found.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return len(found) - 1
