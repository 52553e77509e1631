"""Files that are mapped: what was read of them, and let go again, takes no memory."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from restride.files.mapped_file import MappedFile, release_pages
from restride.graph.graph import Constant

SIZE = 1 << 23
Array = np.ndarray


def resident(path: Path) -> int:
    """Return the number of bytes of a mapped file that are resident in this process."""
    pages, is_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            is_file = line.endswith(str(path))
        elif first == "Rss:" and is_file:
            pages += int(line.split()[1])
    return pages << 10


@pytest.fixture
def mapped(tmp_path: Path) -> tuple[Path, Array]:
    if sys.platform != "linux":
        pytest.skip("only Linux tells what is resident")
    path = tmp_path / "values.bin"
    path.write_bytes(np.arange(SIZE // 4, dtype=np.float32).tobytes())
    return path, np.frombuffer(MappedFile(str(path), "a file").content, np.float32)


def test_what_is_let_go_takes_no_memory(mapped: tuple[Path, Array]) -> None:
    path, values = mapped
    for part in np.split(values, 64):
        assert part.sum() > 0
        release_pages(part)
    assert resident(path) == 0
    assert values[-1] == SIZE // 4 - 1


def test_constants_that_were_compared_take_no_memory(mapped: tuple[Path, Array]) -> None:
    path, values = mapped
    parts = [Constant(part) for part in np.split(values, 64)]
    assert all(one != other for one in parts for other in parts if one is not other)
    assert resident(path) == 0
    assert parts[3] == Constant(parts[3].values.copy())
    assert resident(path) == 0
