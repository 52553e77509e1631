"""Progress of long work: one line on a terminal, with the remaining time.

    converting ████████████▌········· 57 %  7.6 of 13.4 GB  1.9 GB/s  3.1 s left

    with Progress("converting", nbytes, "bytes") as bar:
        for tensor in tensors:
            bar.label = tensor.name
            for tile in tensor.tiles:
                ...
                bar.advance(tile.nbytes)

The line goes to stderr, and only if that is a terminal: nothing is written to files and pipes. Work of less
than half a second shows nothing. The line is removed when the work ends, even with an exception.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from math import ceil
from types import TracebackType
from typing import Self, TextIO

from ..view.terminal import is_terminal, printable
from ..view.units import data_size, duration

__all__ = ["Progress"]

_QUIET, _EVERY = 0.5, 0.1
# The rate covers the last half minute, or the last third of the elapsed time, whichever is longer: initial
# reads from a cache say little about the rest, and one slow second does not double the remaining time.
_WINDOW, _PART = 30.0, 1 / 3
_MOST_SAMPLES = 400
_COLUMNS = 80
_FEWEST_CELLS, _MOST_CELLS = 10, 30
# Columns for the text after the bar; on narrower terminals the bar is omitted.
_LEAST_WORDS = 30
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Progress:
    """A line that shows how much of `total` is done, in `unit`: `"bytes"`, or a noun such as `"rows"`.

    `done` is the initial amount, for example when work is resumed: it counts as done, but not for the speed.
    Any thread can call `advance`. `stream` and `clock` are for tests.
    """

    def __init__(
        self,
        name: str,
        total: int,
        unit: str = "bytes",
        *,
        done: int = 0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.label = ""
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._shows = is_terminal(self._stream) and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._done = done
        self._start = self._drawn = clock()
        self._samples: deque[tuple[float, int]] = deque([(self._start, done)])
        self._length = 0

    @property
    def shows(self) -> bool:
        """True if there is a terminal to draw on."""
        return self._shows

    @property
    def done(self) -> int:
        """The part of `total` that is done."""
        return self._done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def advance(self, amount: int = 1) -> None:
        """Count `amount` more as done, and redraw the line when it is due."""
        with self._lock:
            self._done += amount
            if self._shows:
                self._draw()

    def clear(self) -> None:
        """Remove the line, so that other text can be printed; the next `advance` draws it again."""
        with self._lock:
            if self._length:
                self._write("\r" + " " * self._length + "\r")
                self._length = 0

    def seconds_left(self) -> float | None:
        """The remaining time at the recent speed; None if unknown."""
        (then, before), now = self._samples[0], self._clock()
        speed = (self._done - before) / (now - then) if now > then else 0
        return max(0, self.total - self._done) / speed if speed > 0 else None

    def line(self, columns: int = 80) -> str:
        """Return the line for a terminal of that many columns."""
        part = min(1.0, self._done / self.total) if self.total > 0 else 1.0
        words = f" {int(part * 100):3d} %  {self._amount()}"
        left = self.seconds_left()
        words += f"  {_whole_seconds(left)} left" if left is not None else ""
        label = "".join(char if char.isprintable() else "?" for char in self.label)
        words += f"  {label}" if label else ""
        room = max(0, columns - 1)
        cells = min(_MOST_CELLS, max(_FEWEST_CELLS, room - len(self.name) - 1 - len(words)))
        bar = f" {self._bar(part, cells)}" if room > len(self.name) + cells + _LEAST_WORDS else ""
        return (self.name + bar + words)[:room]

    def _amount(self) -> str:
        if self.unit != "bytes":
            return f"{self._done} of {self.total} {self.unit}"
        return f"{data_size(self._done)} of {data_size(self.total)}"

    def _bar(self, part: float, cells: int) -> str:
        if printable(_EIGHTHS, self._stream) != _EIGHTHS:
            full = int(part * cells)
            return "#" * full + "." * (cells - full)
        eighths = int(part * cells * 8)
        text = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
        return text + "·" * (cells - len(text))

    def _draw(self) -> None:
        now = self._clock()
        if now - self._drawn < _EVERY or now - self._start < _QUIET:
            return
        self._drawn = now
        self._forget(now)
        self._samples.append((now, self._done))
        text = self.line(self._columns())
        self._write("\r" + text.ljust(self._length))
        self._length = len(text)

    def _columns(self) -> int:
        """Return the terminal's width, queried each time because windows are resized."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _COLUMNS
        except (OSError, ValueError):
            return _COLUMNS

    def _forget(self, now: float) -> None:
        """Drop samples that are too old for the speed, but keep at least one."""
        oldest = now - max(_WINDOW, (now - self._start) * _PART)
        while len(self._samples) > 1 and self._samples[1][0] <= oldest:
            self._samples.popleft()
        if len(self._samples) >= _MOST_SAMPLES:
            # Every other sample suffices; the first is the reference for the speed.
            self._samples = deque(list(self._samples)[::2])

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(printable(text, self._stream))
            self._stream.flush()


def _whole_seconds(seconds: float) -> str:
    """Format a remaining time in whole seconds, at least one."""
    whole = max(1, ceil(seconds))
    return f"{whole} s" if whole < 60 else duration(whole)
