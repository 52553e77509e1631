"""The programs of the page on SYCL run, where there is a device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.sycl import sycl_engine

pytestmark = pytest.mark.sycl
_PAGE = Path(__file__).parents[1] / "docs" / "sycl.md"


def test_the_programs_of_the_page_run():
    sycl_engine()
    names: dict[str, object] = {}
    blocks = re.findall(r"^```py\n(.*?)^```", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    names["stream"].wait()
