"""Free memory: of the machine, of its control groups, and on systems that do not report it."""

from __future__ import annotations

from pathlib import Path

import pytest

from restride.runtime.free_memory import FreeMemory, free_memory

MIB = 1 << 20


def _write(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _told(root: Path, texts: dict[str, str]) -> FreeMemory:
    meminfo = "MemTotal:       1048576 kB\nMemFree: 3 kB\nMemAvailable:    524288 kB\nHugePages_Free: 0\n"
    _write(root, {"proc/meminfo": meminfo, **texts})
    return free_memory(str(root / "proc"), str(root / "groups"))


def test_without_control_groups_it_is_the_machine_that_limits(tmp_path: Path) -> None:
    assert _told(tmp_path, {}) == (1024 * MIB, 512 * MIB)


def test_a_control_group_limits_and_cached_files_are_free(tmp_path: Path) -> None:
    texts = {
        "proc/self/cgroup": "0::/box/job\n",
        "groups/box/job/memory.max": f"{100 * MIB}\n",
        "groups/box/job/memory.current": f"{90 * MIB}\n",
        "groups/box/job/memory.stat": f"anon 5\ninactive_file {30 * MIB}\n",
    }
    assert _told(tmp_path, texts) == (100 * MIB, 40 * MIB)


def test_the_tightest_of_nested_groups_counts(tmp_path: Path) -> None:
    texts = {
        "proc/self/cgroup": "0::/box/job\n",
        "groups/box/job/memory.max": "max\n",
        "groups/box/memory.max": f"{64 * MIB}\n",
        "groups/box/memory.current": f"{80 * MIB}\n",
    }
    assert _told(tmp_path, texts) == (64 * MIB, 0)


def test_groups_of_the_first_version_are_read_too(tmp_path: Path) -> None:
    texts = {
        "proc/self/cgroup": "4:cpu,memory:/job\n1:cpu:/\n0::/\n",
        "groups/memory/job/memory.limit_in_bytes": f"{100 * MIB}\n",
        "groups/memory/job/memory.usage_in_bytes": f"{25 * MIB}\n",
        "groups/memory/memory.limit_in_bytes": "9223372036854771712\n",
    }
    assert _told(tmp_path, texts) == (100 * MIB, 75 * MIB)


@pytest.mark.parametrize("text", ["", "nonsense", "0::", "::::\n", "0::/../../etc\n", "\xff\x00"])
def test_what_says_something_else_sets_no_limit(tmp_path: Path, text: str) -> None:
    assert _told(tmp_path, {"proc/self/cgroup": text}) == (1024 * MIB, 512 * MIB)


def test_without_any_file_there_is_an_answer(tmp_path: Path) -> None:
    total, free = free_memory(str(tmp_path), str(tmp_path))
    assert 0 < free <= total


def test_of_this_machine_some_is_free() -> None:
    total, free = free_memory()
    assert 0 < free <= total
