"""SIGTERM and SIGHUP end a command as Ctrl-C does: what it has begun is cleaned up first.

Only the command line handles signals. A program that imports restride has them to itself.
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
    """A signal has asked the command to end. No error: like Ctrl-C it passes handlers of errors."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP raise `Terminated`, but where it is ended already, by them or by
    Ctrl-C: then they leave what is cleaned up in peace.

    Afterwards handlers are what they were. A signal that is ignored, as below nohup, or handled by somebody
    else stays so. Only the main thread is told of signals: in others nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = os.getpid()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:
            # A child of a fork, which has nothing of the command's to clean up.
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
