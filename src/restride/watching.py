"""Compiles, plans, executions and steps of networks, for whoever wants to hear of them: hooks and profiles.

    with Watch("execution", describe, impl):   timed, and told to hooks before and after, to profiles, to
        run(impl, memories)                    the logger and in a verbose line

A **step** is what a network runs one by one; its whole run is an execution, in one piece where nobody wants
to hear of steps. While nobody listens, prepared calls do not come here at all: see `verbose.flags`.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, Self

from .desc.parse import check_function, parse_word
from .verbose import Level, Line, alone, attach_logger, flags, hear, lock, report

KINDS = ("compile", "plan", "execution", "step")
EVENTS = tuple(f"{when}_{kind}" for when in ("before", "after") for kind in KINDS)

Describe = Callable[[str, Any, float], Iterable[object]]
"""The fields of a verbose line, of operation, implementation and milliseconds."""
_NETWORK = "network"


class Activity:
    """A compile, a plan, an execution, or a step of a network, as hooks and profiles get it.

    `kind`: "compile", "plan", "execution" or "step". `node`: of a step, the name of its node in the network.
    `start_ns`: when it began, in nanoseconds since 1970. `seconds`: how long it took, 0 before its end.
    `thread`, `thread_name`: who ran it. `error`: what it raised, or None. A hook may set `data` to anything,
    for the hook after it to find.
    """

    __slots__ = (
        "_describe",
        "_line",
        "_of",
        "data",
        "error",
        "kind",
        "node",
        "seconds",
        "start_ns",
        "thread",
        "thread_name",
    )

    def __init__(self, kind: str, describe: Describe, of: Any = None, node: str = "") -> None:
        self.kind, self.node, self.seconds, self.start_ns = kind, node, 0.0, time.time_ns()
        thread = threading.current_thread()
        self.thread, self.thread_name = threading.get_native_id(), thread.name
        self.error: BaseException | None = None
        self.data: Any = None
        # What is equal for two activities runs alike: who has many of them describes it once.
        self._of = of
        self._describe, self._line = describe, Line("", "", "", "")

    @property
    def line(self) -> Line:
        """The fields of its verbose line."""
        if not self._line.operation:
            self._line = Line(*map(str, self._describe("exec", self._of, self.seconds * 1e3)))
        return self._line

    @property
    def name(self) -> str:
        """The primitive, such as "reorder"; "network" for a whole run; of a compile the kind of kernel."""
        return self.line.primitive

    @property
    def implementation(self) -> str:
        """The kernels, as `impl_info_str` has them."""
        return self.line.implementation

    @property
    def formats(self) -> str:
        """The tensors, as in a verbose line."""
        return self.line.memory_descriptors

    @property
    def dims(self) -> str:
        """The dims of the problem, as in a verbose line: "2x3"."""
        return self.line.problem_desc

    @property
    def bytes(self) -> int:
        """Bytes that it must read and write, each tensor once; 0 where that is not known."""
        return int(getattr(self._problem, "moved_bytes", 0))

    @property
    def flops(self) -> int:
        """Operations of sums of products, two for each product; 0 for all else."""
        return 2 * products_of(self._problem)

    @property
    def _factor_types(self) -> tuple[Any, ...]:
        """The data types of what is multiplied."""
        return tuple(md.data_type for md in getattr(self._problem, "tensors", ())[:2])

    @property
    def _problem(self) -> object:
        return getattr(self._of, "problem", None)

    def __repr__(self) -> str:
        node = f", node {self.node!r}" if self.node else ""
        return f"<{self.kind} of {self.name} {self.dims}{node}, {self.seconds:.3g} s>"


Hook = Callable[[Activity], object]
# Replaced as wholes, so that whoever reads them needs no lock.
_hooks: dict[str, tuple[Hook, ...]] = {}
_profiles: tuple[list[Activity], ...] = ()


def add_hook(event: str, function: Callable[[Activity], object]) -> ExitStack:
    """Call `function(activity)` at every such event from now on, in any thread. The result ends that: its
    `close()`, or the end of a `with`.

    `event`: "before_" or "after_", and then "compile" (of a kernel that is not in the store on disk), "plan"
    (of a network, for certain dims), "execution" (of a primitive, a function on arrays, or a network) or
    "step" (of a network, which then runs them one by one). `function` gets an `Activity`, the same before and
    after. What it raises becomes a RuntimeWarning; what it runs itself is not told to hooks.
    Raises InvalidArguments for another word, and for what cannot be called.

    >>> import numpy as np, restride as rs
    >>> seen = []
    >>> with rs.add_hook("after_execution", lambda each: seen.append((each.name, each.dims))):
    ...     _ = rs.reorder(np.ones((2, 3), np.float32), "ba")
    >>> seen
    [('reorder', '2x3')]
    """
    event = parse_word("add_hook: event", event, EVENTS)
    check_function("add_hook: function", 0 if function is None else function)

    def hook(activity: Activity) -> object:
        return function(activity)

    def remove() -> None:
        with lock:
            _hooks[event] = tuple(each for each in _hooks[event] if each is not hook)
            _update()

    with lock:
        _hooks[event] = (*_hooks.get(event, ()), hook)
        _update()
    removal = ExitStack()
    removal.callback(remove)
    return removal


def collect(activities: list[Activity], *, is_on: bool) -> None:
    """Append all activities to the list from now on, or no more: the list itself, not one like it."""
    global _profiles
    with lock:
        others = list(_profiles)
        at = next((i for i, each in enumerate(others) if each is activities), None)
        if is_on:
            others.append(activities)
        elif at is not None:
            del others[at]
        _profiles = tuple(others)
        _update()


def _update() -> None:
    hear(KINDS if _profiles else {event.partition("_")[2] for event, hooks in _hooks.items() if hooks})


class Watch:
    """An activity from its begin to its end, told to all that listen; `seconds` is known after it."""

    __slots__ = ("_activity", "_arguments", "_start", "is_heard", "seconds")

    def __init__(self, kind: str, describe: Describe, of: Any = None, node: str = "") -> None:
        self._arguments = kind, describe, of, node
        self._activity: Activity | None = None
        self.is_heard, self.seconds = False, 0.0

    def __enter__(self) -> Self:
        attach_logger()
        kind = self._arguments[0]
        self.is_heard = flags.profile_exec or kind in flags.heard
        if kind in flags.heard:
            self._activity = Activity(*self._arguments)
            _call_hooks(f"before_{kind}", self._activity)
            self._activity.start_ns = time.time_ns()
        self._start = time.perf_counter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.seconds = time.perf_counter() - self._start
        name, describe, of, node = self._arguments
        activity = self._activity
        if activity is not None:
            activity.seconds, activity.error = self.seconds, error
            for activities in _profiles:
                activities.append(activity)
            _call_hooks(f"after_{name}", activity)
        is_line = Level.profile_exec in flags.setting.level or flags.logged[1]
        if is_line and error is None and name in ("execution", "step"):
            fields = tuple(describe("exec", of, self.seconds * 1e3))
            if fields[2] != _NETWORK:
                report(fields, node)


def products_of(problem: object) -> int:
    """The number of products that a problem adds up; 0 for what sums none."""
    terms = getattr(problem, "terms", 0)
    return terms if isinstance(terms, int) else 0


def watch_network(rule: str, dims: Iterable[Iterable[int]]) -> Watch:
    """The watch over a whole run of a network for inputs of these dims."""
    sizes = " ".join("x".join(map(str, each)) for each in dims)

    def describe(op: str, of: object, ms: float) -> Line:
        return Line(op, "cpu", _NETWORK, rule, problem_desc=sizes, time_ms=ms)

    return Watch("execution", describe)


def _call_hooks(event: str, activity: Activity) -> None:
    for hook in _hooks.get(event, ()):
        with alone() as is_first:
            try:
                if is_first:
                    hook(activity)
            except Exception as error:
                told = f"a hook {event} raised {type(error).__name__}: {error}"
                warnings.warn(told, RuntimeWarning, stacklevel=2)
