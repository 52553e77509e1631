"""Effort of random tests: a part at every change, all with `make test-all`, more on request.

`RESTRIDE_TEST_EFFORT` is "all", or how many times all: with 25 what tries 4,000 models tries 100,000.
"""

from __future__ import annotations

import os

_EFFORT = os.environ.get("RESTRIDE_TEST_EFFORT", "")


def examples(most: int) -> int:
    """Return the number of examples that a test tries, of at most `most`: by default a quarter."""
    return most * int(_EFFORT) if _EFFORT.isdecimal() else most if _EFFORT == "all" else -(-most // 4)
