"""Events: the end of one execution (programming model)."""

from __future__ import annotations


class Event:
    """The end of one execution on an in-order stream of the CPU, which is over when its call returns.

    Waiting on the event suffices before reading the destination.
    """

    __slots__ = ()

    def wait(self) -> Event:
        """Block until the execution has ended, and return the event."""
        return self

    def is_complete(self) -> bool:
        """True once the execution has ended."""
        return True

    def __repr__(self) -> str:
        return "restride.Event(complete)"


# A shared instance suffices: a completed event has no state.
COMPLETED = Event()
