"""`with rs.profile() as p:` records everything that is executed, as a table, a picture and a trace."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from os import PathLike
from typing import Any, Self

from .desc.viewer import viewer
from .files.plain_file import path_text
from .files.writing.replacement import Replacement
from .verbose import printable
from .watching import KINDS, Activity, add_hook

__all__ = ["Profile", "profile"]

_ARGUMENTS = "node", "dims", "formats", "implementation", "bytes", "flops"


class Profile:
    """Everything executed, by all threads, inside its `with` block; see `profile`."""

    def __init__(self) -> None:
        self._activities: list[Activity] = []
        self._hooks: list[ExitStack] = []

    @property
    def activities(self) -> tuple[Activity, ...]:
        """All executions, steps of networks, compiles and plans, in the order in which they ended."""
        return tuple(self._activities)

    def __enter__(self) -> Self:
        hooks = ExitStack()
        self._hooks.append(hooks)
        for kind in KINDS:
            hooks.enter_context(add_hook(f"after_{kind}", self._activities.append))
        return self

    def __exit__(self, *_: object) -> None:
        self._hooks.pop().close()

    def save(self, path: str | PathLike[str]) -> None:
        """Write a trace for ui.perfetto.dev and chrome://tracing: a JSON object of trace events.

        Each activity is an event with its bytes, operations, formats and kernel, on the track of its thread;
        steps are nested in their network's run. Raises RuntimeFailure if the system refuses access to the
        file.
        """
        name = path_text(path, "Profile.save: path", "the file to write")
        content = json.dumps(self._trace(), separators=(",", ":")).encode()
        with Replacement(name).open(len(content)) as file:
            file.write(content)

    def _trace(self) -> dict[str, Any]:
        activities, pid = self.activities, os.getpid()
        names = {each.thread: printable(each.thread_name) for each in activities}
        start = min((each.start_ns for each in activities), default=0)
        heads = [("process_name", pid, "restride"), *(("thread_name", *item) for item in names.items())]
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": what, "pid": pid, "tid": thread, "args": {"name": name}}
            for what, thread, name in heads
        ]
        for each in activities:
            times = {"ts": (each.start_ns - start) / 1e3, "dur": each.seconds * 1e6}
            values = {name: getattr(each, name) for name in _ARGUMENTS}
            values["error"] = each.error and type(each.error).__name__
            event = {"ph": "X", "name": printable(f"{each.name} {each.node}".rstrip()), "cat": each.kind}
            args = {name: printable(v) if isinstance(v, str) else v for name, v in values.items() if v}
            events.append(event | times | {"pid": pid, "tid": each.thread, "args": args})
        return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"start_ns": str(start)}}

    def __repr__(self) -> str:
        return f"<Profile of {len(self._activities)} activities>"

    def __str__(self) -> str:
        return str(viewer().watched().profile_text(self))

    def _repr_html_(self) -> str:
        return str(viewer().watched().html_of(self))


def profile() -> Profile:
    """Record everything executed inside `with rs.profile() as p:`, by all threads of the process.

    Primitives, functions on arrays, and networks step by step with the names of their nodes, as well as
    compiles and plans. `print(p)` shows a table with the time of each, its rate, and its share of the
    machine's peak, which the first table on a machine measures with copies and multiply-adds for about two
    seconds. `p.save("trace.json")` writes a trace for ui.perfetto.dev. Profiles can be nested and can overlap
    between threads; each records everything. Calls take longer while a profile is open, and the time between
    executions is not measured.

    >>> import numpy as np, restride as rs
    >>> with rs.profile() as p:
    ...     _ = rs.reorder(np.ones((2, 3), np.float32), "ba")
    >>> [(each.kind, each.name, each.dims, each.bytes) for each in p.activities if each.kind == "execution"]
    [('execution', 'reorder', '2x3', 48)]
    """
    return Profile()
