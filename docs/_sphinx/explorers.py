"""Pages to explore a layout with, which pages of the documentation link to: they go along as they are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

_FOLDER = Path("docs", "pictures")


def _copy(app: Any, failure: Exception | None) -> None:
    target = Path(app.outdir, _FOLDER)
    target.mkdir(parents=True, exist_ok=True)
    for page in Path(app.srcdir, _FOLDER).glob("*.html"):
        shutil.copy(page, target)


def setup(app: Any) -> dict[str, bool]:
    """Copy before links are checked."""
    app.connect("build-finished", _copy, priority=100)
    return {"parallel_read_safe": True}
