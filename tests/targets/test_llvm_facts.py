"""Facts about LLVM and this machine: stored on disk, and read back unchanged."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from restride.targets import llvm_facts
from restride.targets.llvm import llvm

_TELL = """
import sys
from restride.targets.isa import host_isa
from restride.targets.llvm_facts import llvm_facts
print(llvm_facts(), host_isa(), 'llvmlite.binding' in sys.modules, sep='\\n')
"""


def told(folder: object) -> list[str]:
    """The facts, the instruction set, and whether LLVM was loaded, in a process of its own."""
    env = os.environ | {"RESTRIDE_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", _TELL], capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_facts_are_what_llvm_says() -> None:
    found, binding = llvm_facts.llvm_facts(), llvm()
    assert found.version == ".".join(map(str, binding.llvm_version_info))
    assert found.triple == binding.get_process_triple()
    assert found.features == dict(binding.get_host_cpu_features())
    assert found.llvmlite == sys.modules["llvmlite"].__version__


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere LLVM is asked each time")
def test_the_second_process_finds_them_and_loads_no_llvm(tmp_path: Path) -> None:
    first, second = told(tmp_path / "store"), told(tmp_path / "store")
    assert first[:2] == second[:2]
    assert (first[2], second[2]) == ("True", "False")


def test_without_a_store_llvm_is_asked() -> None:
    assert told("off")[2] == "True"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the text is that of x86")
def test_the_key_does_not_change_with_the_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = []
    for mhz, flags in ((1000, "sse avx"), (2500, "sse avx"), (2500, "sse")):
        path = tmp_path / "cpuinfo"
        path.write_text(f"processor\t: 0\nflags\t\t: {flags}\ncpu MHz\t\t: {mhz}\n\nprocessor\t: 1\n")
        monkeypatch.setattr(llvm_facts, "_PROCESSOR", str(path))
        keys.append(llvm_facts._key())
    assert keys[0] == keys[1] != keys[2]
    monkeypatch.setattr(llvm_facts, "_PROCESSOR", str(tmp_path / "none"))
    assert not llvm_facts._key()
