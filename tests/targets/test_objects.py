"""Kernels as files and as names for perf: JIT_DUMP and JIT_PROFILE."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import restride as rs
from restride.targets.isa import Isa
from restride.targets.jit import compile_ir
from restride.targets.objects import function_sizes

# --- kernel files ------------------------------------------------------------

CODE = """
import os, sys
import numpy as np
import restride as rs
x = np.arange(20 * 33, dtype="f4").reshape(20, 33)
for _ in range(2):
    assert (rs.reorder(x, "ba", dtype="f16") == x.astype("f2")).all()
if len(sys.argv) > 1:
    with open(f"/tmp/perf-{os.getpid()}.map") as file:
        print(file.read(), end="")
    os.unlink(f"/tmp/perf-{os.getpid()}.map")
"""
SETTINGS = ("JIT_DUMP", "JIT_PROFILE", "CACHE_DIR")


def run(cwd: Path, *args: str, **settings: str) -> tuple[str, str]:
    """Run a program of one kernel with a given folder and settings; return its output."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(SETTINGS)}
    package = str(Path(rs.__file__).resolve().parents[1])
    env = kept | {"RESTRIDE_CACHE_DIR": "", "PYTHONPATH": package} | settings
    command = [sys.executable, "-c", CODE, *args]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def files(folder: Path) -> dict[str, Path]:
    return {path.suffix: path for path in folder.iterdir()}


# Files


@pytest.mark.parametrize("variable", ["RESTRIDE_JIT_DUMP", "ONEDNN_JIT_DUMP", "DNNL_JIT_DUMP"])
def test_each_kernel_is_three_files_in_the_folder_that_is_named(tmp_path, variable):
    folder = tmp_path / "some" / "dump"
    assert run(tmp_path, **{variable: str(folder)}) == ("", "")
    found = files(folder)
    assert sorted(found) == [".ll", ".o", ".s"]
    assert len({path.stem for path in found.values()}) == 1
    assert found[".ll"].name.startswith("restride.")
    text = found[".ll"].read_text()
    assert text.startswith("; # transpose of ")
    assert "define void @restride(" in text
    assert "restride" in found[".s"].read_text()
    assert found[".o"].read_bytes()


def test_1_is_the_working_folder_as_in_onednn(tmp_path):
    run(tmp_path, ONEDNN_JIT_DUMP="1")
    assert sorted(files(tmp_path)) == [".ll", ".o", ".s"]


@pytest.mark.parametrize("value", ["", "0"])
def test_nothing_is_written_without_a_folder(tmp_path, value):
    run(tmp_path, RESTRIDE_JIT_DUMP=value)
    assert not list(tmp_path.iterdir())


def test_kernels_that_come_from_the_cache_on_disk_are_written_too(tmp_path):
    cache = tmp_path / "cache"
    run(tmp_path, RESTRIDE_CACHE_DIR=str(cache))
    run(tmp_path, RESTRIDE_CACHE_DIR=str(cache), RESTRIDE_JIT_DUMP=str(tmp_path / "dump"))
    assert sorted(files(tmp_path / "dump")) == [".ll", ".o", ".s"]


def test_a_folder_that_cannot_be_is_one_warning(tmp_path):
    (tmp_path / "file").write_text("")
    out, told = run(tmp_path, RESTRIDE_JIT_DUMP=str(tmp_path / "file"))
    assert out == ""
    assert told.count("RuntimeWarning") == 1
    assert "RESTRIDE_JIT_DUMP" in told


# Names for perf

linux = pytest.mark.skipif(sys.platform != "linux", reason="perf is Linux's")


@linux
@pytest.mark.parametrize("bits", ["2", "6"])
def test_perf_learns_where_each_function_lies(tmp_path, bits):
    lines = [line.split(" ", 2) for line in run(tmp_path, "read", RESTRIDE_JIT_PROFILE=bits)[0].splitlines()]
    assert [name.rpartition(":")[2] for _, _, name in lines] == ["restride", "restride_whole"]
    assert all(name.startswith("restride:") and ":transpose:" in name for _, _, name in lines)
    (start, size), (behind, _) = [(int(at, 16), int(size, 16)) for at, size, _ in lines]
    assert 0 < size < 1 << 16
    assert start + size <= behind


@linux
@pytest.mark.parametrize("bits", ["", "0", "1", "4"])
def test_without_that_bit_nothing_is_written(tmp_path, bits):
    with pytest.raises(AssertionError, match="No such file"):
        run(tmp_path, "read", RESTRIDE_JIT_PROFILE=bits)


@linux
def test_bits_that_are_none_are_told_by_the_name_of_the_variable(tmp_path):
    with pytest.raises(AssertionError, match="DNNL_JIT_PROFILE"):
        run(tmp_path, DNNL_JIT_PROFILE="perf")


# --- symbols -----------------------------------------------------------------
# The functions of object code, as its symbol table has them.

IR = """
@table = global i64 7
declare void @elsewhere()
define i64 @short(i64 %x) {
  ret i64 %x
}
define i64 @longer(i64 %x) {
  %y = load volatile i64, ptr @table
  %z = mul i64 %x, %y
  call void @elsewhere()
  ret i64 %z
}
define internal i64 @hidden(i64 %x) noinline {
  ret i64 3
}
"""


@pytest.mark.parametrize("level", ["avx2", "neon"])
def test_functions_are_found_with_their_sizes(level):
    sizes = function_sizes(compile_ir(IR, Isa.for_name(level)))
    assert set(sizes) == {"short", "longer"}
    assert 0 < sizes["short"] < sizes["longer"]


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"\xcf\xfa\xed\xfe" + bytes(60), bytes(100)])
def test_other_forms_have_no_functions_that_are_known(code):
    assert function_sizes(code) == {}
