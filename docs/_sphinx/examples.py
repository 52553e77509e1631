"""Examples end in an empty line, as doctest wants it. Readers of the pages need not see it."""

from __future__ import annotations

import re
from typing import Any


def _trim(app: Any, page: str, source: list[str]) -> None:
    source[0] = re.sub(r"\n *\n( *```+)$", r"\n\1", source[0], flags=re.MULTILINE)


def setup(app: Any) -> dict[str, bool]:
    """Take part in the reading of pages."""
    app.connect("source-read", _trim)
    return {"parallel_read_safe": True}
