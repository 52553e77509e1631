"""Notebooks as pages: their text, their code, and what they showed when they were last run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from myst_parser.parsers.sphinx_ import MystParser

_FENCE = "`" * 6


class NotebookParser(MystParser):  # type: ignore[misc]
    """Reads the cells of an .ipynb file as one MyST page."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: Any) -> None:
        """Fill `document` with the cells and their outputs."""
        super().parse("\n\n".join(_parts(json.loads(inputstring)["cells"])), document)


def _parts(cells: list[dict[str, Any]]) -> Iterator[str]:
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield text
            continue
        yield f"{_FENCE}python\n{text}\n{_FENCE}"
        yield from map(_shown, cell["outputs"])


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        html = "".join(data["text/html"])
        return f'{_FENCE}{{raw}} html\n<div class="notebook-output">{html}</div>\n{_FENCE}'
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"{_FENCE}text\n{text}\n{_FENCE}"


def setup(app: Any) -> dict[str, bool]:
    """Let Sphinx read .ipynb files."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
