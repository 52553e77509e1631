"""The links of the package's metadata: they lead to the forge that builds it, which says where it is.

`PROJECT_URL=https://forge/owner/restride make wheel`, as the workflow of the tests does. Without it there
are no links: a checkout does not know which place is the right one.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PLACES = {
    "Homepage": "",
    "Documentation": "/tree/main/docs",
    "Source": "",
    "Issues": "/issues",
    "Changelog": "/blob/main/CHANGELOG.md",
}


class ProjectLinks(MetadataHookInterface):
    """Fills in `project.urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the links to the metadata; none without PROJECT_URL, or where it is no https address."""
        url = os.environ.get("PROJECT_URL", "").rstrip("/")
        is_public = url.startswith("https://") and "@" not in url
        metadata["urls"] = {name: url + place for name, place in _PLACES.items()} if is_public else {}
