"""The documentation as pages: made without a warning, every link within leads somewhere."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.mark.site
def test_all_pages_are_made_without_a_warning(tmp_path: Path) -> None:
    for library in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    options = ["-W", "--keep-going", "-q", "-E", "-c", "docs", "-d", str(tmp_path / "read")]
    command = [sys.executable, "-m", "sphinx", *options, ".", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site" / "docs" / "reference" / "index.html").exists()


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="Sphinx is not installed")
    broken = runpy.run_path(str(_ROOT / "docs" / "_sphinx" / "site_links.py"))["broken"]
    (tmp_path / "one.html").write_text('<a href="two.html#here">a</a> <a href="two.html#there">b</a>')
    (tmp_path / "two.html").write_text('<p id="here"><img src="no.png"> <a href="https://example.org/">c</a>')
    assert sorted(broken(tmp_path)) == ["one.html: two.html#there", "two.html: no.png"]
