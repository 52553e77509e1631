"""When all pages are written, every link from one to another must lead somewhere, anchors included."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

from sphinx.util import logging

_log = logging.getLogger(__name__)


class _Page(HTMLParser):
    """What a page links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links and the anchors of one tag."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.links += [values[name] for name in ("href", "src") if name in values]


def broken(site: Path) -> Iterator[str]:
    """The links that lead nowhere, each with its page."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            if not _leads(path, link, pages):
                yield f"{path.relative_to(site)}: {link}"


def _leads(page: Path, link: str, pages: dict[Path, _Page]) -> bool:
    name, anchor = urldefrag(link)
    if "://" in name or name.startswith(("mailto:", "data:")):
        return True
    target = (page.parent / unquote(name.partition("?")[0])).resolve() if name else page
    if not target.exists():
        return False
    # With `=` it is what the page to explore layouts shows.
    is_state = "=" in anchor
    return not anchor or is_state or target not in pages or unquote(anchor) in pages[target].anchors


def _check(app: Any, failure: Exception | None) -> None:
    if failure is None and app.builder.format == "html":
        for link in broken(Path(app.outdir).resolve()):
            _log.warning("broken link: %s", link)


def setup(app: Any) -> dict[str, bool]:
    """Check once everything is written."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True}
