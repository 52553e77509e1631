"""How much random tests try: some of it at every change, all of it with `make test-all`, more by a number.

`RESTRIDE_TEST_EFFORT` is "all", or how many times all: with 25 what tries 4,000 models tries 100,000.
"""

from __future__ import annotations

import os

_EFFORT = os.environ.get("RESTRIDE_TEST_EFFORT", "")


def examples(most: int) -> int:
    """How many of `most` examples a test tries: a quarter where nothing is said."""
    return most * int(_EFFORT) if _EFFORT.isdecimal() else most if _EFFORT == "all" else -(-most // 4)
