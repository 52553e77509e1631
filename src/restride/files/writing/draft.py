"""What is written under another name in the same folder until it is whole, and which parts of it are done.

    .NAME.restride-part       the files, at their full length from the start: a full disk is known at once
    .NAME.restride-journal    what they are made from, and how many tiles are done

The journal is locked while somebody works, so that two never write one draft. Its lines say how many tiles
are written ("done"), for how many of them the disk has said so ("safe"), and the checksums of tiles. After a
kill the system still has what was written; after a power cut, which the system's boot tells, only what is
safe counts. Whoever goes on compares checksums first.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...errors import refuse
from ..places import TensorPlace
from .draft_parts import DraftPart, Image, check_owner, create_part, open_part
from .draft_room import draft_paths
from .replacement import Replacement, cannot_write, shown, sync_folder
from .safe_files import boot_id

_VERSION = 2
_MOST_JOURNAL = 64 << 20
_LINE = re.compile(rb"(done|safe) (\d{1,18}) (\d{1,18}):([0-9a-f,]*)")


class Origin(NamedTuple):
    """What a draft is made from and what is made of it, as hashes."""

    source: str
    plan: str


class DraftFile(NamedTuple):
    """A file of a draft: its name below the draft, "." for all of it, and what it is."""

    name: str
    image: Image


def check_place(path: str, *, is_folder: bool) -> None:
    """Raise RuntimeFailure, as making a draft does, where the folder that it would be in is not there."""
    if os.path.isdir(os.path.dirname(os.path.realpath(path))):
        return
    if is_folder:
        _check_folder(path, os.path.realpath(path))
    else:
        Replacement(path)


class AtomicOutput:
    """A file, or with `is_folder` a folder of them, that will stand under `path` when it is whole.

    Making one checks the place, and locks it. Raises RuntimeFailure where nothing can be put there, or where
    another conversion writes there.
    """

    def __init__(self, path: str, *, is_folder: bool) -> None:
        self.path, self.is_folder = path, is_folder
        self._replacement = None if is_folder else Replacement(path)
        target = (
            os.path.realpath(path) if is_folder or self._replacement is None else self._replacement.target
        )
        if is_folder:
            _check_folder(path, target)
        self._target, self._parent = target, os.path.dirname(target)
        self._part, self._journal = draft_paths(target)
        self._parts: list[DraftPart] = []
        self._is_published = False
        self.sums: dict[int, int] = {}
        """Of a draft that is gone on with: the sums of its tiles, by their numbers."""
        self._lock = self._locked()

    def open(self, files: Sequence[DraftFile], origin: Origin, *, resume: bool) -> int:
        """Make the files, or take those up that are there; return how many tiles are done.

        Raises InvalidArguments where there is a draft of another source, or of other rules.
        """
        try:
            done = self._done_before(origin) if resume else None
            if done is not None and self._take_up(files):
                return done
            self._start(files, origin)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        return 0

    def place(self, file: int, start: int) -> TensorPlace:
        """Where a tensor of a file of the draft goes."""
        return self._parts[file].place(start)

    def note(self, done: int, safe: bool = False, first: int = 0, sums: Sequence[int] = ()) -> None:
        """Say in the journal that the tiles below `done` are written; `safe`: once the disk says so.

        `sums`: of what tiles have written, from the `first` on.
        """
        text = ",".join(f"{value:x}" for value in sums)
        try:
            if safe:
                for part in self._parts:
                    part.make_safe()
            os.write(self._lock, f"{'safe' if safe else 'done'} {done} {first}:{text}\n".encode())
            if safe:
                os.fdatasync(self._lock)
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def complete(self) -> None:
        """Write what depends on the tiles, and force all to the disk."""
        try:
            for part in self._parts:
                part.complete()
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def forget_cached(self) -> None:
        """Let the next reads come from the disk, where the system can be told so."""
        for part in self._parts:
            part.forget_cached()

    def publish(self) -> None:
        """Give the whole draft its name, in one step. Where that fails, there is still the draft."""
        try:
            self._close()
            if self.is_folder:
                for folder, _, _ in os.walk(self._part):
                    sync_folder(folder)
                os.rename(self._part, self._target)
            else:
                mode = None if self._replacement is None else self._replacement.mode
                if mode is not None:
                    os.chmod(self._part, mode)
                os.replace(self._part, self._target)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        self._is_published = True
        try:
            sync_folder(self._parent)
        finally:
            self._forget_journal()

    def abandon(self, *, keep: bool) -> None:
        """Leave without a result; `keep` what is done for the next time.

        Nothing is done where the draft has its name already: another one may have been begun meanwhile.
        """
        if self._is_published:
            return
        self._close()
        # A journal has its first line when all files are there: a draft that found no room is not kept.
        if keep and os.fstat(self._lock).st_size:
            os.close(self._lock)
            return
        self._remove_part()
        self._forget_journal()

    def _forget_journal(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._journal)
        os.close(self._lock)

    def _close(self) -> None:
        for part in self._parts:
            part.close()
        self._parts = []

    def _locked(self) -> int:
        """The handle of the locked journal, which nobody has unlinked meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        while True:
            try:
                handle = os.open(self._journal, flags, 0o600)
            except OSError as error:
                raise cannot_write(self.path, error) from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found = os.fstat(handle)
                check_owner(self.path, found)
                if os.path.samestat(found, os.stat(self._journal, follow_symlinks=False)):
                    return handle
            except FileNotFoundError:
                pass
            except BlockingIOError:
                os.close(handle)
                raise refuse("RS-F08:another-conversion-writes", path=shown(self.path)) from None
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def _done_before(self, origin: Origin) -> int | None:
        """How many tiles of the draft that is there are done; None where there is none to go on with."""
        text = os.pread(self._lock, _MOST_JOURNAL, 0)
        lines = text.split(b"\n")[:-1]
        if not lines:
            return None
        try:
            head = json.loads(lines[0])
            found = Origin(str(head["source"]), str(head["plan"]))
            is_same_boot = head["version"] == _VERSION and head["boot"] == boot_id()
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if found.source != origin.source:
            raise refuse("RS-F08:source-changed-since", path=shown(self.path))
        if found.plan != origin.plan:
            raise refuse("RS-F08:rules-options-were", path=shown(self.path))
        counts = [0]
        for line in lines[1:]:
            said = _LINE.fullmatch(line)
            if said is None:
                continue
            word, number, tile, values = said.groups()
            if word == b"safe" or is_same_boot:
                counts.append(int(number))
            self.sums |= dict(enumerate((int(value, 16) for value in values.split(b",") if value), int(tile)))
        return max(counts)

    def _take_up(self, files: Sequence[DraftFile]) -> bool:
        """Open the files that are there. False where they are not what they must be."""
        try:
            for file in files:
                self._parts.append(open_part(self._file_path(file), self.path, file.image))
        except FileNotFoundError:
            self._close()
            return False
        return True

    def _start(self, files: Sequence[DraftFile], origin: Origin) -> None:
        self._remove_part()
        os.ftruncate(self._lock, 0)
        if self.is_folder:
            os.mkdir(self._part, 0o777)
        for file in files:
            path = self._file_path(file)
            if self.is_folder:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            self._parts.append(create_part(path, self.path, file.image))
        head = {"version": _VERSION, **origin._asdict(), "boot": boot_id()}
        os.write(self._lock, json.dumps(head).encode() + b"\n")
        os.fdatasync(self._lock)

    def _file_path(self, file: DraftFile) -> str:
        return os.path.normpath(os.path.join(self._part, file.name)) if self.is_folder else self._part

    def _remove_part(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(os.lstat(self._part).st_mode):
                shutil.rmtree(self._part)
            else:
                os.unlink(self._part)


def _check_folder(path: str, target: str) -> None:
    """Refuse a folder that holds something: it would be lost, or mixed."""
    try:
        if not os.path.isdir(os.path.dirname(target)):
            raise refuse("RS-F02:no-folder", path=shown(path))
        if os.path.lexists(target) and (not os.path.isdir(target) or next(_names(target), None)):
            raise refuse("RS-F02:something-name-already", path=shown(path))
    except OSError as error:
        raise cannot_write(path, error) from None


def _names(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name
