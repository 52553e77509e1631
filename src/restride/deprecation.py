"""Old names: silent in the minor version that replaces them, deprecated in the next, removed in the third."""

from __future__ import annotations

import sys
import warnings

from .version import VERSION

# The first minor version that warns about the names replaced in 0.2, and the one that removes them.
WARNED_SINCE, REMOVED_IN = (0, 3), "0.4"


def old_name(old: str, new: str) -> None:
    """Warn about the name `old` at the line outside restride that uses it; do nothing before 0.3.

    Code that reads files and pickles of earlier versions does not call this: they stay readable without a
    warning.
    """
    if tuple(map(int, VERSION.split(".")[:2])) < WARNED_SINCE:
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "restride":
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"{old} is now {new}; restride {REMOVED_IN} removes the old name", DeprecationWarning, level
    )
