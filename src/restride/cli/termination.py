"""SIGTERM and SIGHUP end a command as Ctrl-C does: unfinished work is cleaned up first.

Only the command line handles signals. A program that imports restride handles its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")


class Terminated(BaseException):
    """Raised for a signal that ends the command. Not an Exception: like Ctrl-C, it passes error handlers."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise `Terminated` inside the block, unless it is already ending because of
    them or Ctrl-C: then they do not disturb the cleanup.

    Handlers are restored afterward. A signal that is ignored, as with nohup, or handled by other code is
    left alone. Only the main thread receives signals: in other threads nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = os.getpid()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:
            # A forked child, which has nothing to clean up for the command.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif not isinstance(sys.exception(), KeyboardInterrupt | Terminated):
            raise Terminated(number)

    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    free = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in free:
            signal.signal(number, end)
        yield
    finally:
        for number in free:
            signal.signal(number, signal.SIG_DFL)
