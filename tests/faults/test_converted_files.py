"""Conversions that are killed, refused by the disk or cheated: whole under the name, or not at all."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main
from restride.files.conversion import tile_threads, tiles
from restride.files.conversion.steps import MoveStep
from restride.files.writing import draft

_OLD = b"the old content"
_RULES = ["a=ba,s8,axis=0,scale=absmax", "b=BA16a4b"]
# Some two hundred tiles of a few milliseconds each, and a journal that follows closely.
_SLOW = """
import sys, time
import restride as rs
from restride.files.conversion import tiles, tile_threads
from restride.files.convert import _Run

tiles._LEAST_BYTES, tiles._LONG_RUN, tile_threads._NOTE_S, tile_threads._SAFE_S = 2000, 1, 0.004, 0.3
do = _Run.tile

def slowly(run, number, space):
    time.sleep(0.01)
    return do(run, number, space)

_Run.tile = slowly
rules = sys.argv[1].split(";")
print("begun", flush=True)
report = rs.convert("a.safetensors", "b.safetensors", rules, resume=True, verify=True, jobs=2)
print(report.resumed_at)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    made = {"a": rng.normal(size=(256, 96)), "b": rng.normal(size=(200, 300)), "c": rng.normal(size=(5,))}
    rs.save({name: x.astype(np.float32) for name, x in made.items()}, "a.safetensors")
    return tmp_path


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "_LEAST_BYTES", 2000)
    monkeypatch.setattr(tiles, "_LONG_RUN", 1)


def sharded() -> None:
    """A checkpoint in two shards, in the folder `in`."""
    found = rs.load("a.safetensors")
    Path("in").mkdir()
    for name in "ab":
        rs.save({name: found[name]}, f"in/{name}.safetensors")
    shards = {name: f"{name}.safetensors" for name in "ab"}
    Path("in/model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": shards}))


def begun(rules: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _SLOW, ";".join(rules)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    return process


def names() -> list[str]:
    return sorted(os.listdir())


def killed_and_resumed(seed: int) -> int:
    """Kill at random moments until it is done; how many bytes the last run found done."""
    moments = random.Random(seed)
    Path("b.safetensors").write_bytes(_OLD)
    for _ in range(3):
        process = begun(_RULES)
        time.sleep(moments.uniform(0, 1.5))
        process.kill()
        process.communicate()
        assert Path("b.safetensors").read_bytes() in (_OLD, Path("c.safetensors").read_bytes())
    process = begun(_RULES)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return int(out)


@pytest.mark.parametrize("seed", [3])
def test_what_was_killed_goes_on_and_gives_the_same_bytes(seed: int) -> None:
    rs.convert("a.safetensors", "c.safetensors", _RULES)
    killed_and_resumed(seed)
    assert Path("b.safetensors").read_bytes() == Path("c.safetensors").read_bytes()
    assert names() == ["a.safetensors", "b.safetensors", "c.safetensors"]


@pytest.mark.slow
def test_what_was_killed_at_fifty_moments_goes_on_each_time() -> None:
    rs.convert("a.safetensors", "c.safetensors", _RULES)
    found = [killed_and_resumed(100 + seed) for seed in range(50)]
    assert Path("b.safetensors").read_bytes() == Path("c.safetensors").read_bytes()
    assert max(found) > 0


def stopped(how: signal.Signals = signal.SIGKILL) -> None:
    """A conversion that was stopped in the middle."""
    process = begun(_RULES)
    journal = Path(".b.safetensors.restride-journal")
    while process.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") > 4:
            break
        time.sleep(0.002)
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode != 0


@pytest.mark.usefixtures("small_tiles")
def test_a_resumed_conversion_does_only_what_is_left() -> None:
    stopped()
    report = rs.convert("a.safetensors", "b.safetensors", _RULES, resume=True, verify=True)
    assert report.resumed_at > 0
    assert names() == ["a.safetensors", "b.safetensors"]


def changed_head(part: Path, journal: Path) -> None:
    with part.open("r+b") as file:
        file.seek(20)
        file.write(b"XX")


def number_of_no_tile(part: Path, journal: Path) -> None:
    with journal.open("ab") as file:
        file.write(b"done 999999 0:\n")


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("change", [changed_head, number_of_no_tile])
def test_what_was_changed_beside_the_tiles_is_made_anew(change: Any) -> None:
    rs.convert("a.safetensors", "c.safetensors", _RULES)
    stopped()
    change(Path(".b.safetensors.restride-part"), Path(".b.safetensors.restride-journal"))
    rs.convert("a.safetensors", "b.safetensors", _RULES, resume=True, verify=True)
    assert Path("b.safetensors").read_bytes() == Path("c.safetensors").read_bytes()


def test_ctrl_c_keeps_what_is_done_for_who_resumes() -> None:
    stopped(signal.SIGINT)
    assert ".b.safetensors.restride-part" in names()
    assert not Path("b.safetensors").exists()


_COMMAND = """
import sys, time
from restride.cli.main import main
from restride.files.conversion import tiles, tile_threads
from restride.files.convert import _Run

tiles._LEAST_BYTES, tiles._LONG_RUN, tile_threads._NOTE_S = 2000, 1, 0.004
do = _Run.tile

def slowly(run, number, space):
    time.sleep(0.01)
    return do(run, number, space)

_Run.tile = slowly
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("how", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_signals_that_end_a_command_leave_nothing_but_for_who_resumes(
    how: signal.Signals, status: int, resume: list[str]
) -> None:
    Path("b.safetensors").write_bytes(_OLD)
    command = ["convert", "a.safetensors", "b.safetensors", "--force", "--rule", "a=ba", "--rule", "b=ba"]
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *command, *resume], stderr=subprocess.PIPE, text=True
    )
    journal = Path(".b.safetensors.restride-journal")
    while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > 4):
        time.sleep(0.002)
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, "terminated\n")
    assert Path("b.safetensors").read_bytes() == _OLD
    hidden = [name for name in names() if name.startswith(".")]
    assert len(hidden) == (2 if resume else 0)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_is_cleaned_up_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, first: signal.Signals
) -> None:
    remove = os.unlink

    def slowly(path: Any) -> None:
        remove(path)
        # Others, such as the store of kernels, remove files too, when no handler is set.
        for number in (signal.SIGHUP, signal.SIGTERM) if ".b.safetensors" in str(path) else ():
            os.kill(os.getpid(), number)

    def end(*_: object) -> None:
        monkeypatch.setattr(os, "unlink", slowly)
        os.kill(os.getpid(), first)
        time.sleep(1)

    monkeypatch.setattr("restride.files.convert.do_tiles", end)
    assert main(["convert", "a.safetensors", "b.safetensors"]) == 128 + first
    assert names() == ["a.safetensors"]


def test_signals_of_others_stay_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    handlers: list[Any] = []

    def look(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        handlers.append(signal.getsignal(signal.SIGHUP))
        raise MemoryError

    monkeypatch.setattr("restride.cli.show.described", look)
    try:
        assert main(["show", "ab", "1x2"]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, hang_up)
    assert seen == [signal.SIGTERM]
    assert handlers == [signal.SIG_IGN]


def test_handlers_of_signals_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)

    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(main(["--version"])))
    thread.start()
    thread.join()
    assert found == [0]
    monkeypatch.setattr("restride.cli.show.described", end)
    assert main(["show", "ab", "1x2"]) == 143
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.usefixtures("small_tiles")
def test_without_resume_it_starts_anew() -> None:
    stopped()
    assert len(names()) == 3
    rs.convert("a.safetensors", "b.safetensors", ["c=keep"])
    assert Path("b.safetensors").read_bytes() == Path("a.safetensors").read_bytes()
    assert names() == ["a.safetensors", "b.safetensors"]


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("change", ["rules", "content", "content and time", "header"])
def test_a_draft_of_something_else_is_not_gone_on_with(change: str) -> None:
    stopped()
    rules = _RULES
    if change == "rules":
        rules = ["[ab]=ba"]
    elif change.startswith("content"):
        before = os.stat("a.safetensors")
        with open("a.safetensors", "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\0")
        if change == "content and time":
            os.utime("a.safetensors", ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        rs.save({"a": np.ones((256, 96), np.float32)}, "a.safetensors")
        rules = rules[:1]
    with pytest.raises(rs.InvalidArguments, match="cannot resume") as caught:
        rs.convert("a.safetensors", "b.safetensors", rules, resume=True)
    assert caught.value.code == "RS-F08"
    assert "--resume" in caught.value.hint
    assert not Path("b.safetensors").exists()


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("has_sums", [True, False])
def test_what_was_written_and_changed_since_is_written_again(has_sums: bool) -> None:
    rs.convert("a.safetensors", "c.safetensors", _RULES)
    stopped()
    part, journal = Path(".b.safetensors.restride-part"), Path(".b.safetensors.restride-journal")
    if has_sums:
        wrong = bytearray(part.read_bytes())
        wrong[Path("c.safetensors").stat().st_size // 9] ^= 1
        part.write_bytes(wrong)
    else:
        # As a run without --resume leaves it.
        journal.write_text(re.sub(r"(?m):[0-9a-f,]*$", ":", journal.read_text()))
    report = rs.convert("a.safetensors", "b.safetensors", _RULES, resume=True)
    assert Path("b.safetensors").read_bytes() == Path("c.safetensors").read_bytes()
    assert (report.resumed_at > 0) == has_sums


@pytest.mark.usefixtures("small_tiles")
def test_a_damaged_journal_is_started_over() -> None:
    stopped()
    part = Path(".b.safetensors.restride-part").read_bytes()
    for journal in (
        b"",
        b"\n",
        b"no JSON\n",
        b"[]\n",
        b"{}\ndone 5\n",
        b"\xff" * 100 + b"\n",
        b"[" * 9999 + b"\n",
    ):
        Path(".b.safetensors.restride-part").write_bytes(part)
        Path(".b.safetensors.restride-journal").write_bytes(journal)
        rs.convert("a.safetensors", "b.safetensors", _RULES, resume=True, verify=True)
        assert names() == ["a.safetensors", "b.safetensors"], journal
        Path("b.safetensors").unlink()


@pytest.mark.usefixtures("small_tiles")
def test_after_a_power_cut_only_what_the_disk_has_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rs.convert("a.safetensors", "c.safetensors", _RULES)
    stopped()
    journal = Path(".b.safetensors.restride-journal")
    lines = [line for line in journal.read_text().splitlines() if not line.startswith("safe")]
    journal.write_text("\n".join([*lines[:2], "safe 1 0:", *lines[2:], "done 3 0:"]) + "\nsafe 9999 0:")
    monkeypatch.setattr(draft, "boot_id", lambda: "another")
    # What the disk has not said that it has is lost.
    with open(".b.safetensors.restride-part", "r+b") as file:
        size = os.path.getsize(file.name)
        file.seek(size // 2)
        file.write(bytes(size - size // 2))
    report = rs.convert("a.safetensors", "b.safetensors", _RULES, resume=True)
    assert 0 < report.resumed_at < 10_000
    assert Path("b.safetensors").read_bytes() == Path("c.safetensors").read_bytes()


# Others, meanwhile


def slow_tiles(monkeypatch: pytest.MonkeyPatch, meanwhile: Any) -> None:
    """Let something happen when the second tile is done."""
    do, count = MoveStep.run, [0]

    def run(step: MoveStep, *args: Any) -> None:
        count[0] += 1
        if count[0] == 2:
            meanwhile()
        do(step, *args)

    monkeypatch.setattr(MoveStep, "run", run)


@pytest.mark.usefixtures("small_tiles")
def test_two_conversions_never_write_one_destination(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[rs.Error] = []

    def other() -> None:
        for resume in (False, True):
            with pytest.raises(rs.RuntimeFailure, match="another conversion") as caught:
                rs.convert("a.safetensors", "b.safetensors", resume=resume)
            errors.append(caught.value)

    slow_tiles(monkeypatch, other)
    rs.convert("a.safetensors", "b.safetensors", _RULES, verify=True)
    assert [error.code for error in errors] == ["RS-F08"] * 2


def test_many_conversions_to_one_destination_leave_one_whole_file() -> None:
    rs.convert("a.safetensors", "c.safetensors", _RULES)
    done: list[object] = []

    def convert() -> None:
        try:
            done.append(rs.convert("a.safetensors", "b.safetensors", _RULES))
        except rs.RuntimeFailure as error:
            done.append(error.code)

    threads = [threading.Thread(target=convert) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one for one in done if isinstance(one, str)} <= {"RS-F08"}
    assert len(done) == 8
    assert Path("b.safetensors").read_bytes() == Path("c.safetensors").read_bytes()
    assert names() == ["a.safetensors", "b.safetensors", "c.safetensors"]


def test_another_process_that_writes_there_is_an_error_and_not_disturbed() -> None:
    rs.convert("a.safetensors", "c.safetensors", _RULES)
    first = begun(_RULES)
    while not Path(".b.safetensors.restride-part").exists():
        time.sleep(0.002)
    second = begun(_RULES)
    _, err = second.communicate(timeout=60)
    assert b"another conversion" in err
    assert first.poll() is None
    first.communicate(timeout=600)
    assert first.returncode == 0
    assert Path("b.safetensors").read_bytes() == Path("c.safetensors").read_bytes()
    assert names() == ["a.safetensors", "b.safetensors", "c.safetensors"]


def touched() -> None:
    os.utime("a.safetensors", (1, 1))


def rewritten() -> None:
    shutil.copy("a.safetensors", "other")
    os.replace("other", "a.safetensors")


def removed() -> None:
    os.unlink("a.safetensors")


def cut() -> None:
    os.truncate("a.safetensors", 1000)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("change", [touched, rewritten, removed, cut])
@pytest.mark.parametrize("resume", [False, True])
def test_a_source_that_changes_underway_is_noticed(
    monkeypatch: pytest.MonkeyPatch, change: Any, resume: bool
) -> None:
    Path("b.safetensors").write_bytes(_OLD)
    slow_tiles(monkeypatch, change)
    with pytest.raises(rs.Error, match=r"changed while it was read|became shorter"):
        rs.convert("a.safetensors", "b.safetensors", ["*=f16"], resume=resume)
    assert Path("b.safetensors").read_bytes() == _OLD
    assert [name for name in names() if name.startswith(".")] == []


# Disks


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 200 KB, where one can be made."""
    folder = Path("disk")
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    made = shutil.which("mount") and subprocess.run(command, capture_output=True).returncode == 0
    if not made:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("can_reserve", [True, False])
def test_a_full_disk_leaves_the_old_file_whole(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, can_reserve: bool
) -> None:
    if not can_reserve:
        monkeypatch.delattr(os, "posix_fallocate")
    (small_disk / "b.safetensors").write_bytes(_OLD)
    with pytest.raises(rs.RuntimeFailure, match="No space left") as caught:
        rs.convert("a.safetensors", small_disk / "b.safetensors", ["[ab]=ba"])
    assert "free space" in caught.value.hint
    assert os.listdir(small_disk) == ["b.safetensors"]
    assert (small_disk / "b.safetensors").read_bytes() == _OLD


@pytest.mark.parametrize("rules", [[], ["b=BA16a4b"]])
def test_a_full_disk_leaves_nothing_of_a_folder(small_disk: Path, rules: list[str]) -> None:
    sharded()
    with pytest.raises(rs.RuntimeFailure, match="No space left"):
        rs.convert("in", small_disk / "out", rules)
    assert os.listdir(small_disk) == []


def test_a_dry_run_says_how_much_room_is_missing(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dst = str(small_disk / "b.safetensors")
    report = rs.convert("a.safetensors", dst, ["[ab]=ba"], dry_run=True)
    free = os.statvfs(small_disk)
    assert report.shortfall == report.nbytes_written - free.f_bavail * free.f_frsize > 0
    assert main(["convert", "a.safetensors", dst, "--rule", "[ab]=ba", "--dry-run"]) == 1
    assert f"not enough space for {dst}: " in capsys.readouterr().out
    # What an earlier run has left is used again.
    assert rs.convert("a.safetensors", dst, ["*=s8,scale=absmax"], dry_run=True).shortfall == 0
    (small_disk / ".b.safetensors.restride-part").write_bytes(bytes(150_000))
    assert rs.convert("a.safetensors", dst, ["*=s8,scale=absmax"], dry_run=True).shortfall == 0
    assert (
        rs.convert("a.safetensors", small_disk / "c.npz", ["*=s8,scale=absmax"], dry_run=True).shortfall > 0
    )


def test_a_draft_that_finds_no_room_is_not_kept_for_who_resumes(small_disk: Path) -> None:
    sharded()
    for source, dst in (("in", "out"), ("a.safetensors", "b.safetensors")):
        with pytest.raises(rs.RuntimeFailure, match="No space left"):
            rs.convert(source, small_disk / dst, ["[ab]=ba"], resume=True)
    assert os.listdir(small_disk) == []


def test_a_disk_that_cannot_be_written_keeps_what_it_has(small_disk: Path) -> None:
    (small_disk / "b.safetensors").write_bytes(_OLD)
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(remount, check=True)
    for dst, why in (("b.safetensors", "you may not write"), ("new.safetensors", "Read-only file system")):
        with pytest.raises(rs.RuntimeFailure, match=why):
            rs.convert("a.safetensors", small_disk / dst, _RULES)
    assert rs.convert("a.safetensors", small_disk / "b.safetensors", _RULES, dry_run=True).nbytes_written > 0
    assert os.listdir(small_disk) == ["b.safetensors"]
    assert (small_disk / "b.safetensors").read_bytes() == _OLD


@pytest.mark.parametrize("step", ["posix_fallocate", "pwrite", "fdatasync", "fsync", "replace", "ftruncate"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_any_step_that_fails_leaves_the_old_file_whole(
    monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    Path("b.safetensors").write_bytes(_OLD)
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(rs.RuntimeFailure, match=os.strerror(code)):
        rs.convert("a.safetensors", "b.safetensors", _RULES)
    assert Path("b.safetensors").read_bytes() == _OLD
    assert names() == ["a.safetensors", "b.safetensors"]


def test_a_file_that_fails_to_be_read_leaves_the_old_file_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    Path("b.safetensors").write_bytes(_OLD)
    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(rs.RuntimeFailure, match="cannot read"):
        rs.convert("a.safetensors", "b.safetensors", _RULES)
    assert Path("b.safetensors").read_bytes() == _OLD


def test_a_source_that_changes_while_it_is_verified_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check = MoveStep.check

    def late(step: MoveStep, *args: Any) -> Any:
        with open("a.safetensors", "r+b") as file:
            file.seek(-1000, os.SEEK_END)
            file.write(os.urandom(1000))
        os.utime("a.safetensors", ns=(1, 1))
        errors = check(step, *args)
        found.append(errors.is_right)
        return errors

    found: list[bool] = []
    monkeypatch.setattr(MoveStep, "check", late)
    with pytest.raises(rs.RuntimeFailure, match="changed while it was read"):
        rs.convert("a.safetensors", "b.safetensors", ["b=ba"], verify=True)
    assert found == [False]
    assert names() == ["a.safetensors"]


def test_what_a_disk_spoils_is_seen_when_it_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite

    def spoil(handle: int, content: Any, start: int) -> int:
        spoilt = bytearray(content)
        if len(spoilt) > 20_000:
            spoilt[10_000] ^= 0x40
        return write(handle, spoilt, start)

    monkeypatch.setattr(os, "pwrite", spoil)
    for rules in ([], ["*=f16"], ["b=ba"], ["*=s8,scale=absmax"], ["b=s8,axis=0,scale=absmax"]):
        with pytest.raises(rs.RuntimeFailure, match="written incorrectly") as caught:
            rs.convert("a.safetensors", "b.safetensors", rules, verify=True)
        assert caught.value.code == "RS-F09"
        assert names() == ["a.safetensors"]


def test_the_content_is_on_the_disk_before_it_gets_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def told(name: str) -> Any:
        do = getattr(os, name)

        def call(*args: Any) -> Any:
            calls.append(name)
            return do(*args)

        return call

    rs.convert("a.safetensors", "b.safetensors", _RULES)  # compiles, and stores what it has compiled
    for name in ("pwrite", "fsync", "replace"):
        monkeypatch.setattr(os, name, told(name))
    rs.convert("a.safetensors", "b.safetensors", _RULES)
    written = len(calls) - 1 - calls[::-1].index("pwrite")
    # The file, then its name, then the folder.
    assert calls[written + 1 :] == ["fsync", "replace", "fsync"]


def test_every_file_of_a_folder_is_on_the_disk_before_it_gets_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sharded()
    synced: set[str] = set()
    sync, rename = os.fsync, os.rename

    def note_sync(handle: int) -> None:
        synced.add(os.path.realpath(f"/proc/self/fd/{handle}"))
        sync(handle)

    def check_rename(src: str, dst: str) -> None:
        made = [os.path.join(src, name) for name in os.listdir(src)]
        assert len(made) == 3
        assert {src, *made} <= synced
        rename(src, dst)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "rename", check_rename)
    rs.convert("in", "out", _RULES)
    assert len(os.listdir("out")) == 3


@pytest.mark.parametrize("put", ["link", "folder", "hard link"])
def test_what_somebody_put_in_the_way_of_the_draft_is_not_written_to(here: Path, put: str) -> None:
    Path("victim").write_bytes(_OLD)
    part, journal = Path(".b.safetensors.restride-part"), Path(".b.safetensors.restride-journal")
    if put == "folder":
        part.mkdir()
        (part / "x").write_bytes(b"x")
    elif put == "link":
        part.symlink_to("victim")
    else:
        os.link("victim", journal)
    try:
        rs.convert("a.safetensors", "b.safetensors", _RULES)
    except rs.RuntimeFailure:
        assert put == "hard link"
    assert Path("victim").read_bytes() == _OLD
    journal.unlink(missing_ok=True)
    journal.symlink_to("victim")
    with pytest.raises(rs.RuntimeFailure):
        rs.convert("a.safetensors", "b.safetensors", _RULES)
    assert Path("victim").read_bytes() == _OLD


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folders_that_may_not_be_written_are_refused() -> None:
    Path("closed").mkdir(0o555)
    with pytest.raises(rs.RuntimeFailure, match="Permission"):
        rs.convert("a.safetensors", "closed/b.safetensors", _RULES)


def test_too_many_open_files_are_an_error_that_says_what_to_do() -> None:
    sharded()
    for number in range(40):
        Path(f"in/{number}.txt").write_text("x")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    for more in (30, 60):
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, before[1]))
        try:
            with pytest.raises(rs.RuntimeFailure, match="Too many open files") as caught:
                rs.convert("in", "out")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert "ulimit -n" in caught.value.hint
        assert names() == ["a.safetensors", "in"]


def test_the_command_may_have_as_many_open_files_as_the_system_allows() -> None:
    Path("many").mkdir()
    for number in range(80):
        shutil.copy("a.safetensors" if not number else "many/0.txt", f"many/{number}.txt")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.rename("many/0.txt", "many/0.safetensors")
    command = [sys.executable, "-m", "restride", "convert", "many", "out"]

    def allow_few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))

    ran = subprocess.run(command, capture_output=True, text=True, preexec_fn=allow_few)
    assert ran.returncode == 0, ran.stderr
    assert len(os.listdir("out")) == 80


# Memory

_BOUNDED = """
import resource, sys
import restride as rs
report = rs.convert("big.npy", "out.npy", ["*=ba,f16"], memory="96MiB", jobs=2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_file() -> None:
    found = []
    for rows in (500, 25_000):
        header = np.lib.format.open_memmap("big.npy", "w+", np.float32, (rows, 2000))
        del header
        ran = subprocess.run([sys.executable, "-c", _BOUNDED], capture_output=True, text=True, check=True)
        found.append(int(ran.stdout) >> 10)
    assert found[1] - found[0] < 64


_VERIFIED = """
import resource
import restride as rs
report = rs.convert("big.npy", "out.npz", ["*=s8,scale=absmax"], verify=True, jobs=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_what_is_verified_is_bounded_too() -> None:
    found = []
    for rows in (500, 8000):
        np.lib.format.open_memmap("big.npy", "w+", np.float32, (rows, 1000)).flush()
        ran = subprocess.run([sys.executable, "-c", _VERIFIED], capture_output=True, text=True, check=True)
        found.append(int(ran.stdout) >> 10)
    # All of it shares a scale, and is in memory once as it was and as it is; as floats a piece at a time.
    assert found[1] - found[0] < 100


def test_large_files_need_no_address_space_of_their_own() -> None:
    # Far below what mapping or reading it whole would take.
    np.lib.format.open_memmap("big.npy", "w+", np.uint8, (4 << 30,)).flush()
    rs.convert("a.safetensors", "warm.safetensors", ["b=BA16a4b"])
    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(Path("/proc/self/statm").read_text().split()[5]) * 4096
    resource.setrlimit(resource.RLIMIT_DATA, (used + (1 << 30), before[1]))
    try:
        report = rs.convert("big.npy", "out.safetensors", dry_run=True)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
    assert report.nbytes_read == 4 << 30


def test_work_that_fails_ends_all_threads() -> None:
    before = threading.active_count()

    def fail(tile: int, space: object) -> int:
        if tile == 3:
            raise ValueError("mine")
        return 1

    with pytest.raises(ValueError, match="mine"):
        tile_threads.do_tiles(100, 0, 4, fail, lambda done, safe: None)
    assert threading.active_count() == before


def test_a_second_ctrl_c_still_waits_for_what_is_being_written() -> None:
    before, old = threading.active_count(), signal.signal(signal.SIGINT, signal.default_int_handler)
    begun, ends, both = threading.Event(), list[int](), threading.Barrier(2)

    def press(tally: tile_threads.TileProgress) -> None:
        if begun.is_set():
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            os.kill(os.getpid(), signal.SIGINT)

    def slowly(tile: int, space: object) -> int:
        both.wait()
        begun.set()
        # The thread that is waited for first ends last.
        time.sleep(0.8 if tile == 0 else 0.4)
        ends.append(tile)
        return 1

    try:
        with pytest.raises(KeyboardInterrupt):
            tile_threads.do_tiles(100, 0, 2, slowly, lambda done, safe: None, press)
    finally:
        signal.signal(signal.SIGINT, old)
    assert sorted(ends) == [0, 1]
    assert threading.active_count() == before


def test_tiles_are_done_once_and_counted_in_order() -> None:
    seen: list[int] = []
    notes: list[int] = []

    def run(tile: int, space: object) -> int:
        seen.append(tile)
        return 2

    weights: list[int] = []
    tile_threads.do_tiles(
        50, 7, 3, run, lambda done, safe: notes.append(done), lambda tally: weights.append(tally.weight)
    )
    assert sorted(seen) == list(range(7, 50))
    assert notes[-1] == 50
    assert weights[-1] == 86
