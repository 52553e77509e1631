"""How much random tests try: some of it at every change, all of it with `make test-all`."""

from __future__ import annotations

import os

_SHARE = 1 if os.environ.get("RESTRIDE_TEST_EFFORT") == "all" else 4


def examples(most: int) -> int:
    """How many of `most` examples a test tries: all where RESTRIDE_TEST_EFFORT is "all", else a quarter."""
    return -(-most // _SHARE)
