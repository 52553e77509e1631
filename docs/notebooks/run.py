"""Run the notebooks in this folder anew, and keep what they show: `make notebooks`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

_HERE = Path(__file__).parent
# A socket among files: no port is opened, and none is needed.
_LOCAL = Config({name: {"transport": "ipc"} for name in ("KernelManager", "AsyncKernelManager")})


def kept(path: Path) -> Any:
    """The notebook at `path` as it was saved."""
    return nbformat.read(path, as_version=4)


def _folders(folder: str) -> dict[str, str]:
    return dict.fromkeys(("IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"), folder)


def run(path: Path) -> Any:
    """The notebook at `path`, executed from an empty kernel; errors of its cells are raised."""
    notebook = kept(path)
    options = {
        "timeout": 600,
        "startup_timeout": 600,
        "kernel_name": "python3",
        "record_timing": False,
        "coalesce_streams": True,
    }
    # What the kernel writes for itself goes away with it, and no other kernel of the user's is found. Sockets
    # want short paths.
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, _folders(folder)):
        NotebookClient(notebook, config=_LOCAL, **options).execute()
    # What the kernel says of itself differs from machine to machine.
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main() -> None:
    """Write every notebook with its new outputs."""
    for path in sorted(_HERE.glob("*.ipynb")):
        text = nbformat.writes(run(path), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        print(f"ran {path.name}")


if __name__ == "__main__":
    main()
