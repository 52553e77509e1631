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
from dataclasses import dataclass, field
from typing import Any, Self

from .desc.parse import check_function, parse_word
from .errors import Error
from .verbose import Level, Line, alone, attach_logger, flags, hear, lock, log_event, report

KINDS = ("compile", "plan", "execution", "step")
EVENTS = (*(f"{when}_{kind}" for when in ("before", "after") for kind in KINDS), "error")

Describe = Callable[[str, Any, float], Iterable[object]]
"""The fields of a verbose line, of operation, implementation and milliseconds."""
NETWORK = "network"


@dataclass(slots=True, eq=False)
class Activity:
    """A compile, a plan, an execution, or a step of a network, as hooks and profiles get it.

    kind            "compile", "plan", "execution" or "step"; "error" for a call of a network that failed
    name            the primitive, such as "reorder"; "network" for a whole run; of a compile a kind of kernel
    node            of a step, the name of its node in the network
    implementation  the kernels, as `impl_info_str` has them
    formats, dims   the tensors, and the dims of the problem, as in a verbose line
    bytes           what it must read and write, each tensor once; 0 where that is not known
    flops           operations of sums of products, two for each product; 0 for all else
    factor_types    the data types of what is multiplied
    start_ns        when it began, in nanoseconds since 1970
    seconds         how long it took, 0 before its end
    thread          the number that the system gives its thread, and `thread_name`
    error           what it raised, or None
    data            for hooks: what one sets the hook after it finds
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
# Each is replaced as a whole, so that whoever reads it needs no lock.
_hooks: dict[str, tuple[Hook, ...]] = {}


def add_hook(event: str, function: Callable[[Activity], object]) -> ExitStack:
    """Call `function(activity)` at every event of a kind, in any thread, until the result is closed: by its
    `close()` or the end of a `with`.

    `event`: `"before_compile"`, `"after_compile"` (of a kernel that is not in the store on disk), and so on
    with `plan` (of a network, for given dims), `execution` (of a primitive, a function on arrays, or a
    network) and `step` (of a network, whose steps then run one by one); or `"error"`: a call of a network
    that raised an `rs.Error`, also one whose inputs were refused, so that nothing was executed. `function`
    gets an `Activity`, the same before and after. An exception that it raises becomes a RuntimeWarning; what
    it runs itself calls no hooks. Raises InvalidArguments for another word, and for a function that cannot be
    called.

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


def _update() -> None:
    hear(event.partition("_")[2] for event, hooks in _hooks.items() if hooks)


class Watch:
    """An activity from its begin to its end, told to all that listen; `seconds` is known after it.

    `what`: a verbose line, or what makes that of an implementation.
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
                tuple(md.data_type for md in getattr(problem, "tensors", ())[:2]),
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
                warnings.warn(told, RuntimeWarning, stacklevel=4)


def tell_error(rule: str, error: Error) -> None:
    """Tell hooks and the logger of a call of a network that failed."""
    _tell("error", Activity("error", NETWORK, "", rule, "", "", 0, 0, (), time.time_ns(), error=error))
    text = f"a call of a network failed: {error.code} {error.what}: {error.why}"
    log_event(text, event="error", code=error.code, status=error.status.name, where=error.where)


def products_of(problem: object) -> int:
    """The number of products that a problem adds up; 0 for what sums none."""
    terms = getattr(problem, "terms", 0)
    return terms if isinstance(terms, int) else 0


def watch_network(rule: str, dims: Iterable[Iterable[int]]) -> Watch:
    """The watch over a whole run of a network for inputs of these dims."""
    sizes = " ".join("x".join(map(str, each)) for each in dims)
    return Watch("execution", Line("exec", "cpu", NETWORK, rule, problem_desc=sizes))
