"""The documentation as pages: made without a warning, every link within leads somewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


@pytest.mark.site
def test_all_pages_are_made_without_a_warning(tmp_path: Path) -> None:
    for library in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    options = ["-W", "--keep-going", "-q", "-E", "-c", "docs", "-d", str(tmp_path / "read")]
    command = [sys.executable, "-m", "sphinx", *options, ".", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site" / "docs" / "reference" / "index.html").exists()
