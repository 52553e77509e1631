"""Outputs appear whole under their name or not at all: bad places, full disks, Ctrl-C, kills (row 30)."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main
from restride.files import convert
from restride.files.conversion import tiles
from restride.files.writing import replacement
from restride.files.writing.replacement import Replacement

_OLD = b"the old content"
# Writes a part of an output, says so, and waits to be interrupted or killed.
_STALLED = """
import signal, sys, time
from restride.cli.convert import Watcher
from restride.cli.main import main

def stall(watcher, progress):
    print("half", flush=True)
    time.sleep(600)

Watcher.report = stall
# Who is started in the background has Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(["reorder", "a.npy", "out.npy", "--dtype", "s8", "--force"]))
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(12, dtype=np.float32).reshape(3, 4))
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["reorder", *arguments, "--force"]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("error: cannot write ")
    return err


def names(folder: str = ".") -> list[str]:
    return sorted(os.listdir(folder))


# Places where no file can be put


def test_places_that_take_no_file_are_refused_before_any_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("folder").mkdir()
    Path("file").write_bytes(_OLD)
    os.mkfifo("pipe")
    monkeypatch.setattr(convert, "do_tiles", None)
    for place in ("nowhere/out.npy", "folder", "pipe", "file/out.npy", "", "zero\0.npy", "a" * 300 + ".npy"):
        assert "\n  why: " in refused(capsys, "a.npy", place, "--dst", "ba") or not place
    assert names() == ["a.npy", "file", "folder", "pipe"]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full", "/dev/stdout"])
def test_devices_are_never_replaced(capsys: pytest.CaptureFixture[str], device: str) -> None:
    if not os.path.exists(device):
        pytest.skip(f"no {device}")
    before = os.stat(device).st_mode
    if stat.S_ISREG(before):
        pytest.skip("stdout is a file here")
    refused(capsys, "a.npy", device, "--dst", "ba")
    assert os.stat(device).st_mode == before


def test_a_folder_that_vanishes_meanwhile_is_an_error(here: Path) -> None:
    Path("gone").mkdir()
    replacement = Replacement("gone/out.npy")
    Path("gone").rmdir()
    with pytest.raises(rs.RuntimeFailure, match=r"gone/out\.npy"), replacement.open(1) as file:
        file.write(b"x")
    assert names() == ["a.npy"]


def test_a_folder_that_vanishes_while_writing_is_an_error(here: Path) -> None:
    Path("gone").mkdir()

    def write() -> None:
        with Replacement("gone/out.npy").open(1) as file:
            file.write(b"x")
            for path in Path("gone").iterdir():
                path.unlink()
            Path("gone").rmdir()

    with pytest.raises(rs.RuntimeFailure, match="No such file"):
        write()
    assert names() == ["a.npy"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_files_and_folders_are_respected(capsys: pytest.CaptureFixture[str]) -> None:
    Path("fixed.npy").write_bytes(_OLD)
    Path("fixed.npy").chmod(0o444)
    refused(capsys, "a.npy", "fixed.npy", "--dst", "ba")
    Path("closed").mkdir(0o555)
    refused(capsys, "a.npy", "closed/out.npy", "--dst", "ba")
    assert Path("fixed.npy").read_bytes() == _OLD


# What replaces what


def test_the_output_replaces_a_file_and_keeps_its_access_rights() -> None:
    Path("out.npy").write_bytes(_OLD)
    Path("out.npy").chmod(0o640)
    assert main(["reorder", "a.npy", "out.npy", "--dst", "ba", "--force"]) == 0
    assert np.load("out.npy").shape == (4, 3)
    assert stat.S_IMODE(os.stat("out.npy").st_mode) == 0o640
    assert names() == ["a.npy", "out.npy"]


def test_a_new_file_has_the_usual_access_rights() -> None:
    before = os.umask(0o027)
    try:
        assert main(["reorder", "a.npy", "out.npy", "--dst", "ba", "--force"]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("out.npy").st_mode) == 0o640


def test_a_symbolic_link_is_followed_and_stays() -> None:
    Path("there").mkdir()
    Path("link.npy").symlink_to("there/real.npy")
    for _ in range(2):
        assert main(["reorder", "a.npy", "link.npy", "--dst", "ba", "--force"]) == 0
    assert Path("link.npy").is_symlink()
    assert names("there") == ["real.npy"]
    assert np.load("there/real.npy").shape == (4, 3)


def test_output_may_be_input_by_any_name() -> None:
    os.link("a.npy", "same.npy")
    Path("link.npy").symlink_to("a.npy")
    x = np.load("a.npy")
    for name in ("a.npy", "link.npy", "same.npy"):
        assert main(["reorder", "a.npy", name, "--dst", "ab", "--force"]) == 0
        assert np.array_equal(np.load(name), x)


def test_output_may_be_an_input_of_many_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "_LEAST_BYTES", 16)
    monkeypatch.setattr(tiles, "_LONG_RUN", 1)
    x = np.load("a.npy")
    assert main(["reorder", "a.npy", "a.npy", "--dst", "ba", "--dtype", "s8", "--force"]) == 0
    assert np.array_equal(np.load("a.npy"), x.T)


# Failures while writing


@pytest.fixture
def no_room(here: Path) -> Iterator[None]:
    """Files may have 64 bytes at most; Python ignores the signal that would go with it."""
    # Compiled before: the kernel cache would need room too.
    assert main(["reorder", "a.npy", "warm.npy", "--dst", "ba", "--force"]) == 0
    Path("warm.npy").unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("no_room")
@pytest.mark.parametrize("can_reserve", [True, False])
def test_a_full_disk_leaves_the_old_file_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, can_reserve: bool
) -> None:
    Path("out.npy").write_bytes(_OLD)
    if not can_reserve:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    capsys.readouterr()
    text = refused(capsys, "a.npy", "out.npy", "--dst", "ba")
    assert "File too large" in text
    assert "\n  hint: " in text
    assert Path("out.npy").read_bytes() == _OLD
    assert names() == ["a.npy", "out.npy"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("step", ["posix_fallocate", "fsync", "replace"])
def test_any_failing_step_leaves_the_old_file_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    Path("out.npy").write_bytes(_OLD)
    monkeypatch.setattr(replacement.os, step, fail, raising=False)
    assert os.strerror(code) in refused(capsys, "a.npy", "out.npy", "--dst", "ba")
    assert Path("out.npy").read_bytes() == _OLD
    assert names() == ["a.npy", "out.npy"]


def test_disks_that_cannot_reserve_are_written_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(replacement.os, "posix_fallocate", refuse, raising=False)
    assert main(["reorder", "a.npy", "out.npy", "--dst", "ba", "--force"]) == 0
    assert np.load("out.npy").shape == (4, 3)


def test_an_error_in_the_work_leaves_the_old_file_whole(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out.npy").write_bytes(_OLD)
    assert main(["reorder", "a.npy", "out.npy", "--dst", "nchw", "--force"]) == 1
    assert Path("out.npy").read_bytes() == _OLD
    assert names() == ["a.npy", "out.npy"]


@pytest.mark.parametrize(("kill", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_process_stopped_midway_leaves_the_old_file_whole(kill: signal.Signals, status: int) -> None:
    Path("out.npy").write_bytes(_OLD)
    command = [sys.executable, "-c", _STALLED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"half\n"
            process.send_signal(kill)
            _, err = process.communicate(timeout=600)
        finally:
            process.kill()
    assert process.returncode == status
    assert b"Traceback" not in err
    assert Path("out.npy").read_bytes() == _OLD
    left = [name for name in names() if name not in ("a.npy", "out.npy")]
    # Nobody can tidy up after a kill; what is left is hidden and says what it is.
    assert left == [] if kill == signal.SIGINT else all(name.startswith(".out.npy.") for name in left)


def test_what_a_kill_left_behind_is_in_nobodys_way() -> None:
    Path(".out.npy.0123456789ab.tmp").write_bytes(b"half")
    assert main(["reorder", "a.npy", "out.npy", "--dst", "ba", "--force"]) == 0
    assert np.load("out.npy").shape == (4, 3)


# Shrinks its input, of 64 MiB and more, once its length is known: to less, and to nothing.
_SHRINKING = """
import os, sys
from restride.cli.main import main
from restride.files.conversion import sources

read_npy = sources.read_npy

def shrinking(*args):
    contents = read_npy(*args)
    os.truncate("a.npy", int(sys.argv[1]))
    return contents

sources.read_npy = shrinking
sys.exit(main(["reorder", "a.npy", "out.npy", "--dst", "ba", "--force"]))
"""


@pytest.mark.sweep(1)
@pytest.mark.parametrize("length", [0, 200_000, 70 << 20])
@pytest.mark.parametrize("rows", [300, 20_000])
def test_a_file_that_shrinks_while_it_is_read_is_an_error(rows: int, length: int) -> None:
    whole_length = rows * 1000 * 4
    np.save("a.npy", np.zeros((rows, 1000), np.float32))
    command = [sys.executable, "-c", _SHRINKING, str(min(length, whole_length))]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1, ran
    assert "it became shorter while it was read" in ran.stderr
    assert names() == ["a.npy"]
