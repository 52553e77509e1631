"""Performance reports: a template of tokens becomes one line for each test."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from . import clock
from .cases import Case
from .expand import Test
from .result import Perf, Result
from .tokens import PLAIN, TOKEN

_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}


def render(template: str, index: int, test: Test, result: Result) -> str:
    """The line of one test."""
    assert result.perf is not None
    perf = result.perf

    def value(found: re.Match[str]) -> str:
        which, unit, name = found.groups()
        if name in RATES:
            return f"{RATES[name](perf, which) / _UNITS[unit]:.6g}"
        return str(VALUES[unit + name](index, test, result))

    return TOKEN.sub(value, template)


def _field(*names: str) -> Callable[[int, Test, Result], Any]:
    """The first of these fields that the case has; empty for none."""
    return lambda index, test, result: next(
        (getattr(test.case, name) for name in names if hasattr(test.case, name)), ""
    )


def _flags(case: Case) -> str:
    return str(getattr(case, "flags", "")) or "+".join(map(str, getattr(case, "oflag", ())))


VALUES: dict[str, Callable[[int, Test, Result], Any]] = {
    **{name: _field(name) for name in PLAIN},
    "idx": lambda index, test, result: index,
    "driver": lambda index, test, result: test.case.driver,
    "engine": lambda index, test, result: test.common.engine,
    "impl": lambda index, test, result: result.impl,
    "prb": lambda index, test, result: test.repro,
    "desc": lambda index, test, result: test.case.desc,
    "DESC": lambda index, test, result: test.case.shape,
    "attr": lambda index, test, result: test.case.attr_words(),
    "flags": lambda index, test, result: _flags(test.case),
    "idt": _field("sdt"),
    "odt": _field("ddt"),
    "itag": _field("stag"),
    "otag": _field("dtag"),
    "cfg": _field("cfg", "dt", "sdt"),
}


def _ms(perf: Perf, which: str) -> float:
    return {"0": perf.mean, "+": perf.most}.get(which, perf.least)


def _bandwidth(perf: Perf, which: str) -> float:
    ms = _ms(perf, which)
    return (perf.read + perf.written) / (ms * 1e-3) if ms else 0.0


# Moving elements counts no operations: these are 0, as in benchdnn.
RATES: dict[str, Callable[[Perf, str], float]] = {
    "time": _ms,
    "bw": _bandwidth,
    "ctime": lambda perf, which: perf.create_desc + perf.create_primitive,
    "cpdtime": lambda perf, which: perf.create_desc,
    "cptime": lambda perf, which: perf.create_primitive,
    "ibytes": lambda perf, which: perf.read,
    "obytes": lambda perf, which: perf.written,
    "iobytes": lambda perf, which: perf.read + perf.written,
    "ops": lambda perf, which: 0.0,
    "flops": lambda perf, which: 0.0,
    "clocks": lambda perf, which: _ms(perf, which) * 1e-3 * clock.rate(),
    "freq": lambda perf, which: clock.rate(),
}
