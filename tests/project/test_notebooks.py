"""The notebooks of the documentation run, and show what is kept in them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

_FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
_NOTEBOOKS = sorted(_FOLDER.glob("*.ipynb"))


def _shown(cells: list[dict[str, Any]]) -> list[list[Any]]:
    """The outputs of each code cell, in all forms, without execution counts."""
    return [
        [(output["output_type"], output.get("data", output.get("text"))) for output in cell["outputs"]]
        for cell in cells
        if cell["cell_type"] == "code"
    ]


# The kernel's libraries warn, of sockets and of event loops, as they please.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_kept_in_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "cache"))
    now = runpy.run_path(str(_FOLDER / "run.py"))["run"](path)
    kept = runpy.run_path(str(_FOLDER / "run.py"))["kept"](path)
    assert _shown(now["cells"]) == _shown(kept["cells"])


@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_what_it_shows(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert sum("text/html" in output.get("data", {}) for cell in cells for output in cell["outputs"]) >= 3
    assert all(cell["execution_count"] for cell in cells)
