"""How far a conversion is, told: a line on a terminal, one a minute in a log, JSON lines with `--json`."""

from __future__ import annotations

import json
import time
from types import TracebackType
from typing import Self

from ..files.conversion.report import ConversionProgress
from ..view.units import data_size
from .output import print_stderr
from .progress import Progress

_LOG_S = 60.0
_JSON_S = 1.0


class Watcher:
    """Told of a conversion's progress, it writes to stderr what suits the reader there."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._bar: Progress | None = None
        self._stage = ""
        self._told = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.clear()

    def report(self, found: ConversionProgress) -> None:
        """Called several times a second."""
        now = time.monotonic()
        if self._as_json:
            if now - self._told >= _JSON_S:
                self._told = now
                print_stderr(json.dumps({"progress": _values(found)}))
            return
        bar = self._bar_of(found)
        bar.label = found.name
        bar.advance(found.done - bar.done)
        if not bar.shows and now - self._told >= _LOG_S:
            self._told = now
            print_stderr(bar.line(200))

    def _bar_of(self, found: ConversionProgress) -> Progress:
        """The bar of this stage."""
        if self._bar is None or self._stage != found.stage:
            if self._bar is not None:
                self._bar.clear()
            self._stage = found.stage
            self._bar = Progress(found.stage, found.total, done=found.done)
        return self._bar


def _values(found: ConversionProgress) -> dict[str, object]:
    return {
        "stage": found.stage,
        "bytes": found.done,
        "of": found.total,
        "seconds": round(found.seconds, 3),
        "tensor": found.name,
        "text": f"{data_size(found.done)} of {data_size(found.total)}",
    }
