"""The links of the package's metadata, and of its description: they lead to the repository that builds it.

`PROJECT_URL=https://forge/owner/restride make wheel`, as the workflow of the tests does. Without it there are
no links in the metadata, and those of the description stay relative: a checkout does not know its address.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PLACES = {
    "Homepage": "",
    "Documentation": "/tree/main/docs",
    "Source": "",
    "Issues": "/issues",
    "Changelog": "/blob/main/CHANGELOG.md",
}
# `[text](docs/index.md)` and `![text](picture.svg)` lead nowhere on the page of a package index.
_RELATIVE = re.compile(r"(!?\[[^\]]*\])\((?![a-z]+:|#)([^)\s]+)\)")


class ProjectLinks(MetadataHookInterface):
    """Fills in `project.urls` and `project.readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the links; none without PROJECT_URL, or if it is no https address."""
        url = os.environ.get("PROJECT_URL", "").rstrip("/")
        is_public = url.startswith("https://") and "@" not in url
        metadata["urls"] = {name: url + place for name, place in _PLACES.items()} if is_public else {}
        text = Path(self.root, "README.md").read_text("utf-8")
        if is_public:
            text = _RELATIVE.sub(
                lambda link: f"{link[1]}({url}/{'raw' if link[1][0] == '!' else 'blob'}/main/{link[2]})", text
            )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
