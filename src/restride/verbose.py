"""restride's reports on stderr: `RESTRIDE_VERBOSE` and `rs.set_verbose(level)`.

A line has oneDNN's v1 fields after restride's own marker:

    restride_verbose,v1[,timestamp_ms],primitive,OP,ENGINE,KIND,IMPL,PROP,MDS,ATTRS,AUX,DIMS,TIME_MS

Callers on the hot path import `flags` and test one plain slot, `if flags.profile_exec:`; this is the only
cost while reporting is off. Writing never raises: a closed stderr must not make a computation fail.

The same lines go to `logging.getLogger("restride")`: creations at INFO, everything else at DEBUG, with the
fields of `Record` in the record's attribute `restride`. Warnings and failed calls of networks go there at
WARNING. `logging` is loaded with the first primitive, not with the library. Profiles and hooks
(`watching.py`) set slots too.
"""

from __future__ import annotations

import contextlib
import enum
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from . import forks
from .errors import refuse
from .foreign import plain_text
from .loading import load_whole
from .settings import lookup

if TYPE_CHECKING:
    from logging import Logger

_MARKER = "restride_verbose,v1"
_TEMPLATE = (
    "primitive,info,template:{stamp}operation,engine,primitive,implementation,prop_kind,"
    "memory_descriptors,attributes,auxiliary,problem_desc,exec_time"
)


class Level(enum.Flag):
    """Kinds of reports; combine them with `|`."""

    none = 0
    error = 1
    warn = 2
    check = 4
    dispatch = 8
    profile_create = 16
    profile_exec = 32
    profile = profile_create | profile_exec
    all = error | warn | check | dispatch | profile


# "error" stays on with every other word, as in oneDNN; only none and 0 clear the words before them.
_CLEARING = ("none", "0")
_WORDS: Mapping[str, Level] = {
    **Level.__members__,
    "0": Level.none,
    "1": Level.profile_exec,
    "2": Level.profile,
    "-1": Level.all,
}
_DEFAULT = Level.error
# Levels of `logging`, and the operations that are logged at the first of them.
_WARNING, _INFO, _DEBUG = 30, 20, 10
_MADE = ("create", "create:cache_miss")


class Setting(NamedTuple):
    """One parsed verbose level: what is reported, and for which primitive kinds (None: for all)."""

    level: Level = _DEFAULT
    pattern: re.Pattern[str] | None = None

    def __str__(self) -> str:
        cleared = [] if _DEFAULT in self.level else ["none"]
        words = [flag.name or "" for flag in self.level]
        return ",".join(cleared + words + ([f"filter={self.pattern.pattern}"] if self.pattern else []))


class Flags:
    """The reports that are enabled, as plain slots: read anywhere, changed only in this module.

    `heard`: kinds of `watching.py` that a profile or a hook listens to. `logged`: whether the logger accepts
    INFO, and DEBUG.
    """

    __slots__ = (
        "check",
        "dispatch",
        "error",
        "heard",
        "logged",
        "logger",
        "profile",
        "profile_create",
        "profile_exec",
        "setting",
        "timestamp",
        "warn",
    )

    error: bool
    warn: bool
    check: bool
    dispatch: bool
    profile_create: bool
    profile_exec: bool
    # While the level changes, every call must be reported.
    profile: bool
    setting: Setting
    timestamp: bool
    heard: frozenset[str]
    logged: tuple[bool, bool]
    logger: Logger | None


class Line(NamedTuple):
    """The fields of one line, in order; `write` accepts any tuple of fields."""

    operation: str
    engine: str
    primitive: str
    implementation: str
    prop_kind: str = "undef"
    memory_descriptors: str = ""
    attributes: str = ""
    auxiliary: str = ""
    problem_desc: str = ""
    time_ms: float | str = ""


class Record(TypedDict, total=False):
    """The attribute `restride` of log records; all have the fields up to `time_ms`, "" and 0.0 if unknown.

    `event`: the operation of a line, or "error" and "cache". The last four are those of errors.
    """

    event: str
    primitive: str
    implementation: str
    node: str
    formats: str
    dims: str
    time_ms: float
    engine: str
    prop_kind: str
    attributes: str
    auxiliary: str
    code: str
    status: str
    where: str
    why: str


# The fields of `Line`, in order, by their names in records.
_LINE_NAMES = (
    *("event", "engine", "primitive", "implementation", "prop_kind", "formats", "attributes", "auxiliary"),
    *("dims", "time_ms"),
)

flags = Flags()
flags.heard, flags.logged, flags.logger = frozenset(), (False, False), None
# Guards everything that sets or clears slots.
lock = threading.RLock()
forks.hold(lambda: lock)
_reporting = threading.local()

# Emptied by the first line. `list.pop` is atomic: no lock, so none that a fork could leave held.
_pending_header: list[Callable[[], Iterable[str]]] = [tuple]


class Restore:
    """Result of `set_verbose`: the level is already set; leaving a `with` block restores the old one."""

    __slots__ = ("_after", "_setting")

    def __init__(self, setting: Setting, after: Setting) -> None:
        self._setting, self._after = setting, after

    def __enter__(self) -> None:
        _apply(self._setting)

    def __exit__(self, *_: object) -> None:
        _apply(self._after)


def set_verbose(level: str | int | Level) -> Restore:
    """Report `level` from now on, or with `with rs.set_verbose("profile"):` inside the block only.

    `level` is one of none, error, warn, check, dispatch, profile_create, profile_exec, profile, all, or
    several of them separated by commas; the old numbers 0 (none), 1 (profile_exec), 2 (profile); or a
    `Level`. `filter=REGEX` keeps only the lines of matching primitive kinds. The setting applies to the whole
    process. Raises InvalidArguments for anything else.
    """
    before = flags.setting
    setting = _checked(level)
    _apply(setting)
    return Restore(setting, before)


def get_verbose() -> str:
    """Return the current level as a text that `set_verbose` accepts."""
    return str(flags.setting)


def set_header(facts: Callable[[], Iterable[str]]) -> None:
    """Register the facts for the info lines that precede the first line written.

    `facts()` returns one text per line, such as "restride v0.2.0" or "cpu,runtime:threads,nthr:8"; it is
    called at most once, and only when something is reported.
    """
    if _pending_header:
        _pending_header[:] = [facts]


def write(fields: Iterable[object]) -> None:
    """Print one line of `fields`, starting with the operation, to stderr; see `Line` for their order.

    A float is a time in milliseconds and is printed with six digits. The caller decides by `flags` whether to
    write; here only `filter=` can drop the line. Never raises.
    """
    with contextlib.suppress(Exception):
        texts = [_text(field) for field in fields]
        if _kept(texts):
            _emit([*_header(), f"{_stamp()}primitive,{','.join(texts)}"])


def report(line: Iterable[object], node: str = "") -> None:
    """Write a line to all listeners: stderr by the verbose level, and the logger by its own level, with the
    name of the network's node. Never raises.
    """
    fields = tuple(line)
    with contextlib.suppress(Exception), alone() as is_first:
        level = {"exec": Level.profile_exec, "exec:check": Level.check}.get(
            str(fields[0]), Level.profile_create
        )
        if is_first and level in flags.setting.level:
            write(fields)
        if is_first and any(flags.logged) and flags.logger is not None:
            texts = [_text(field) for field in fields]
            texts[7] = f"{texts[7]} node:{printable(node)}".lstrip() if node else texts[7]
            values = [field if isinstance(field, float) else str(field) for field in fields]
            named: Any = {**dict(zip(_LINE_NAMES, values, strict=False)), "node": node}
            _log(_INFO if texts[0] in _MADE else _DEBUG, ",".join(texts), named)


def log_event(text: str, values: Record) -> None:
    """Log a warning, with `values` as the attribute `restride` of its record, where there is a handler to
    take it: the last resort of `logging` would print what the warning itself says already. Never raises.
    """
    with contextlib.suppress(Exception), alone():
        attach_logger()
        if flags.logger is not None and flags.logger.hasHandlers():
            _log(_WARNING, text, values)


def _log(level: int, text: str, values: Record) -> None:
    record: Record = {
        "event": "",
        "primitive": "",
        "implementation": "",
        "node": "",
        "formats": "",
        "dims": "",
    }
    assert flags.logger is not None
    flags.logger.log(level, "%s", text, extra={"restride": {**record, "time_ms": 0.0, **values}})


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """Yield True unless this thread is inside such a block: calls made by hooks are not reported."""
    is_first = not getattr(_reporting, "is_on", False)
    _reporting.is_on = True
    try:
        yield is_first
    finally:
        _reporting.is_on = not is_first


def printable(text: str) -> str:
    """Return a name as one line of text without control sequences."""
    return "".join(char if char.isprintable() else "?" for char in _text(text))


def hear(kinds: Iterable[str]) -> None:
    """Set the slots for these kinds of `watching.py`, and clear those that nobody listens to any more."""
    with lock:
        flags.heard = frozenset(kinds)
        _apply(flags.setting)


def attach_logger() -> None:
    """Let the levels of `logging.getLogger("restride")` control the slots from now on."""
    if flags.logger is not None:
        return
    load_whole("logging")
    import logging

    logger = logging.getLogger("restride")

    class LevelCache(dict[int, bool]):
        """The logger's cache of levels: `logging` clears it whenever a level of any logger changes."""

        def clear(self) -> None:
            super().clear()
            # Called first: no thread may wait for the lock of `logging` while holding the other one.
            logged = logger.isEnabledFor(_INFO), logger.isEnabledFor(_DEBUG)
            with lock:
                flags.logged = logged
                _apply(flags.setting)

    cache: Any = LevelCache()
    logger._cache = cache  # type: ignore[attr-defined]
    flags.logger = logger
    logger.setLevel(logger.level)


def read_environment() -> None:
    """Set level and timestamps from RESTRIDE_VERBOSE and RESTRIDE_VERBOSE_TIMESTAMP (or oneDNN's spellings).

    Runs once, at import; later changes go through `set_verbose`. Unknown words have no effect but a warning.
    """
    text = lookup("VERBOSE") or ""
    flags.timestamp = (lookup("VERBOSE_TIMESTAMP") or "").strip() not in ("", "0")
    setting, unknown = _parse(text)
    _apply(setting)
    if unknown:
        warnings.warn(f"RESTRIDE_VERBOSE: {_complaint(unknown)}", RuntimeWarning, stacklevel=2)


def _apply(setting: Setting) -> None:
    with lock:
        is_made_logged, is_all_logged = flags.logged
        on = {flag.name or "": flag in setting.level for flag in Level.all}
        on["check"] |= is_all_logged
        # Repeated calls create nothing: they can take the fast path if only creations are logged.
        on["profile"] = on["profile_create"] or on["profile_exec"] or is_all_logged
        on["profile"] |= not flags.heard.isdisjoint(("execution", "step"))
        on["profile_create"] |= is_made_logged
        on["profile_exec"] |= is_all_logged or "step" in flags.heard
        flags.setting = setting
        # Assigned once: a slot that stays on is never off in between.
        for name, is_on in on.items():
            setattr(flags, name, is_on)


def _checked(value: object) -> Setting:
    level = plain_text(value)
    if isinstance(level, Level):
        return Setting(level)
    number = type(level) is int and -1 <= level <= 2
    if not (number or isinstance(level, str)):
        raise refuse("RS-V04:given-neither-words", type=type(level).__name__)
    setting, unknown = _parse(str(level))
    if unknown:
        raise refuse("RS-V04:cannot-set-level", complaint=_complaint(unknown))
    return setting


def _parse(text: str) -> tuple[Setting, list[str]]:
    """Return the setting that `text` names, and the unknown words in it."""
    level, pattern, unknown = _DEFAULT, None, []
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        key, _, value = word.partition("=")
        if word.lower() in _WORDS:
            level = Level.none if word.lower() in _CLEARING else level | _WORDS[word.lower()]
        elif key == "filter" and _compiled(value):
            pattern = _compiled(value)
        elif not (key == "debuginfo" and value.isdecimal()):  # accepted for oneDNN's sake, without effect
            unknown.append(word)
    if unknown and len(unknown) == len(words):
        level = Level.none
    return Setting(level, pattern), unknown


def _compiled(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except (re.error, OverflowError, RecursionError):
        return None


def _complaint(unknown: list[str]) -> str:
    words = ", ".join(repr(word[:40]) for word in unknown[:3])
    return f"unknown verbose level {words}; use {', '.join(Level.__members__)}, 0, 1, 2 or filter=REGEX"


def _text(field: object) -> str:
    """Return a field as text that breaks neither the line nor its columns."""
    text = f"{field:.6g}" if isinstance(field, float) else str(field)
    return " ".join(text.splitlines()).replace(",", ";")


def _kept(texts: list[str]) -> bool:
    pattern = flags.setting.pattern
    return pattern is None or (len(texts) > 2 and pattern.search(texts[2]) is not None)


def _stamp() -> str:
    return f"{time.time() * 1e3:.3f}," if flags.timestamp else ""


def _header() -> list[str]:
    try:
        facts = _pending_header.pop()
    except IndexError:
        return []
    lines = [_TEMPLATE.format(stamp="timestamp," if flags.timestamp else "")]
    with contextlib.suppress(Exception):
        lines = [f"info,{' '.join(fact.splitlines())}" for fact in facts()] + lines
    return [_stamp() + line for line in lines]


def _emit(lines: list[str]) -> None:
    # One write call, so that lines of several threads do not mix.
    sys.stderr.write("".join(f"{_MARKER},{line}\n" for line in lines))


read_environment()
