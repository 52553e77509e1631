"""All drivers by their names. A driver for one more primitive is a file in `primitives/`, and a line here."""

from __future__ import annotations

from .cases import Case
from .driver import Driver
from .primitives.concat import CONCAT
from .primitives.reorder import REORDER
from .primitives.shuffle import SHUFFLE
from .primitives.sum import SUM

DRIVERS: dict[str, Driver] = {each.case.driver: each for each in (REORDER, SHUFFLE, CONCAT, SUM)}


def driver_of(case: Case) -> Driver:
    """The driver of a case."""
    return DRIVERS[case.driver]
