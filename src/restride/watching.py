"""Compiles, plans, executions and steps of networks, reported to hooks and profiles.

        with Watch("execution", describe, impl):   timed, and reported to hooks before and after, to profiles,
            run(impl, memories)                    to the logger and in a verbose line

A **step** is a part of a network that is run separately; the whole run is one execution, in one piece unless
someone listens to steps. While nobody listens, prepared calls bypass this module: see `verbose.flags`.
"""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from .desc.parse import parse_word, short_repr
from .errors import Error, refuse
from .verbose import Level, Line, Record, alone, attach_logger, flags, hear, lock, log_event, report

KINDS = ("compile", "plan", "execution", "step")
EVENTS = (*(f"{when}_{kind}" for when in ("before", "after") for kind in KINDS), "error")

Describe = Callable[[str, Any, float], Iterable[object]]
"""The fields of a verbose line for an operation, an implementation and milliseconds."""
NETWORK = "network"
# Messages name the node that does not accept its inputs: by its operation or operator, and its name.
_NODE = re.compile(r"\bnode (?:\S+ )?'([^']*)'")


@dataclass(slots=True, eq=False)
class Activity:
    """A compile, a plan, an execution, or a step of a network, as hooks and profiles get it.

    kind            "compile", "plan", "execution" or "step"; "error" for a failed call of a network
    name            the primitive, such as "reorder"; "network" for a whole run; for a compile, the kind of
                    kernel
    node            for a step, the name of its node in the network
    implementation  the kernels, as `impl_info_str` has them
    formats, dims   the tensors, and the dims of the problem, as in a verbose line
    bytes           the bytes that must be read and written, each tensor once; 0 if not known
    flops           operations in sums of products, two for each product; 0 for everything else
    factor_types    the data types of the factors
    start_ns        start time, in nanoseconds since 1970
    seconds         duration, 0 before the end
    thread          the system's number of its thread; `thread_name` is the name
    error           the exception raised, or None
    data            for hooks: a value set by the hook before, for the hook after
    """

    kind: str
    name: str
    node: str
    implementation: str
    formats: str
    dims: str
    bytes: int
    flops: int
    factor_types: tuple[Any, ...]
    start_ns: int = 0
    seconds: float = 0.0
    thread: int = field(default_factory=threading.get_native_id)
    thread_name: str = field(default_factory=lambda: threading.current_thread().name)
    error: BaseException | None = None
    data: Any = None


Hook = Callable[[Activity], object]
# Each is replaced as a whole, so that readers need no lock.
_hooks: dict[str, tuple[Hook, ...]] = {}


def add_hook(event: str, function: Callable[[Activity], object]) -> ExitStack:
    """Call `function(activity)` at every event of a kind, in any thread, until the result is closed, by its
    `close()` or at the end of a `with` block.

    `event`: `"before_compile"`, `"after_compile"` (of a kernel that is not in the disk cache), and likewise
    with `plan` (of a network, for given dims), `execution` (of a primitive, a function on arrays, or a
    network) and `step` (of a network, whose steps are then run separately); or `"error"`: a call of a network
    that raised an `rs.Error`, even if its inputs were refused and nothing was executed. `function` receives
    an `Activity`, the same object before and after. An exception that it raises becomes a RuntimeWarning;
    calls that it makes trigger no hooks. Raises InvalidArguments for an unknown event or a function that is
    not callable.

    >>> import numpy as np, restride as rs
    >>> seen = []
    >>> with rs.add_hook("after_execution", lambda each: seen.append((each.name, each.dims))):
    ...     _ = rs.reorder(np.ones((2, 3), np.float32), "ba")
    >>> seen
    [('reorder', '2x3')]
    """
    event = parse_word("add_hook: event", event, EVENTS)
    if not callable(function):
        raise refuse("RS-V08:hook", value=short_repr(function))

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


def _update() -> None:
    hear(event.partition("_")[2] for event, hooks in _hooks.items() if hooks)


class Watch:
    """An activity from start to end, reported to all listeners; `seconds` is known afterward.

    `what`: a verbose line, or a function that returns one for an implementation.
    """

    __slots__ = ("_activity", "_start", "_what", "is_heard", "kind", "node", "of", "seconds")

    def __init__(self, kind: str, what: Line | Describe, of: Any = None, node: str = "") -> None:
        self.kind, self._what, self.of, self.node = kind, what, of, node
        self._activity: Activity | None = None
        self.is_heard, self.seconds = False, 0.0

    def __enter__(self) -> Self:
        attach_logger()
        self.is_heard = flags.profile_exec or self.kind in flags.heard
        if self.kind in flags.heard:
            line, problem = Line(*map(str, self._line())), getattr(self.of, "problem", None)
            self._activity = Activity(
                self.kind,
                line.primitive,
                self.node,
                line.implementation,
                line.memory_descriptors,
                line.problem_desc,
                getattr(problem, "moved_bytes", 0),
                2 * products_of(problem),
                getattr(problem, "factor_types", ()),
            )
            _tell(f"before_{self.kind}", self._activity)
            self._activity.start_ns = time.time_ns()
        self._start = time.perf_counter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.seconds = time.perf_counter() - self._start
        if self._activity is not None:
            self._activity.seconds, self._activity.error = self.seconds, error
            _tell(f"after_{self.kind}", self._activity)
        is_line = Level.profile_exec in flags.setting.level or flags.logged[1]
        if is_line and error is None and self.kind in ("execution", "step"):
            line = tuple(self._line())
            if line[2] != NETWORK:
                report(line, self.node)

    def _line(self) -> Iterable[object]:
        ms = self.seconds * 1e3
        return (
            self._what._replace(time_ms=ms)
            if isinstance(self._what, Line)
            else self._what("exec", self.of, ms)
        )


def _tell(event: str, activity: Activity) -> None:
    for hook in _hooks.get(event, ()):
        with alone() as is_first:
            try:
                if is_first:
                    hook(activity)
            except Exception as error:
                told = f"a hook {event} raised {type(error).__name__}: {error}"
                # If warnings are errors, the activity's own error is raised instead of this one.
                with suppress(RuntimeWarning) if activity.error is not None else nullcontext():
                    warnings.warn(told, RuntimeWarning, stacklevel=4)


def tell_error(rule: str, error: Error, x: object) -> None:
    """Tell hooks and the logger of a call of a network that failed; `x`: its input, or a dict of them."""
    arrays = x if isinstance(x, Mapping) else {"": x}
    formats = dims = ""
    with suppress(Exception):  # foreign objects can raise anything
        kinds = {name: getattr(array, "dtype", type(array).__name__) for name, array in arrays.items()}
        formats = " ".join(f"{name}:{kind}".lstrip(":") for name, kind in kinds.items())
        dims = " ".join("x".join(map(str, getattr(array, "shape", ()))) for array in arrays.values())
    named = _NODE.search(f"{error.what} {error.why}")
    node = "" if named is None else named[1]
    values = NETWORK, node, rule, formats, dims, 0, 0, (), time.time_ns()
    _tell("error", Activity("error", *values, error=error))
    record: Record = {
        "event": "error",
        "primitive": NETWORK,
        "implementation": rule,
        "node": node,
        "formats": formats,
        "dims": dims,
        "code": error.code,
        "status": error.status.name,
        "where": error.where or f"{error.what}, inputs {formats} {dims}",
        "why": error.why,
    }
    log_event(f"a call of a network failed: {error.code} {error.what}: {error.why}", record)


def products_of(problem: object) -> int:
    """Return the number of products that a problem sums; 0 if it sums none."""
    terms = getattr(problem, "terms", 0)
    return terms if isinstance(terms, int) else 0


def watch_network(rule: str, dims: Iterable[Iterable[int]]) -> Watch:
    """Return the watch over a whole run of a network for inputs of these dims."""
    sizes = " ".join("x".join(map(str, each)) for each in dims)
    return Watch("execution", Line("exec", "cpu", NETWORK, rule, problem_desc=sizes))
