"""Drafts: files under another name in the same folder until they are whole, and the tiles that are done.

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
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import refuse
from ..places import FilePlace, TensorPlace, write_at
from ..stored_tensors import FileImage
from ..zarr.arrays import ZarrImage, ZarrPart
from .replacement import (
    Replacement,
    boot_id,
    cannot_write,
    check_owner,
    files_below,
    reserve,
    shown,
    sync_folder,
)

_LONG_NAME = 200
# In which stat counts, whatever the disk.
_STAT_BLOCK = 512
_VERSION = 2
_MOST_JOURNAL = 64 << 20
_JOURNAL = ".restride-journal"
_MOST_HEAD = 4096
_LINE = re.compile(rb"(done|safe) (\d{1,18}) (\d{1,18}):([0-9a-f,]*)")

Image = FileImage | ZarrImage


class Origin(NamedTuple):
    """The source of a draft, and the plan of what is made of it, as hashes."""

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


class FilePart:
    """A file of a draft, at its full length from the start; a new one, or one that is there.

    Raises FileNotFoundError where it is not what it must be, RuntimeFailure where it is somebody else's. All
    other system errors are raised as they come.
    """

    def __init__(self, path: str, label: str, image: FileImage, *, is_new: bool) -> None:
        flags = os.O_CREAT | os.O_EXCL if is_new else os.O_NOFOLLOW
        self._label, self._image = label, image
        self._handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o666)
        try:
            if is_new:
                # A full disk is known at once.
                reserve(self._handle, image.nbytes)
                os.ftruncate(self._handle, image.nbytes)
            else:
                status = os.fstat(self._handle)
                check_owner(label, status)
                if status.st_size != image.nbytes:
                    raise FileNotFoundError
            # Of those that are there no checksum of a tile says whether they are what they were.
            for start, piece in image.pieces:
                write_at(self._handle, start, memoryview(piece))
            os.fdatasync(self._handle)
        except BaseException:
            self.close()
            raise

    def place(self, start: int) -> FilePlace:
        """The place of the tensor that the image has at this byte."""
        return FilePlace(self._handle, self._label, start)

    def make_safe(self) -> None:
        """Force to the disk what was written so far; the length was safe before."""
        os.fdatasync(self._handle)

    def complete(self) -> None:
        """Write what depends on the tensors, and force all to the disk."""
        if self._image.finish is not None:
            self._image.finish(self._handle)
        os.fsync(self._handle)

    def forget_cached(self) -> None:
        """Let the next reads come from the disk, where the system can be told so."""
        with contextlib.suppress(OSError, AttributeError):
            os.posix_fadvise(self._handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            os.close(self._handle)


class AtomicOutput:
    """A file, or with `is_folder` a folder of them, that will stand under `path` when it is whole.

    Making one checks the place, and locks it. Raises RuntimeFailure where nothing can be put there, or where
    another conversion writes there.
    """

    def __init__(self, path: str, *, is_folder: bool) -> None:
        self.path, self.is_folder = path, is_folder
        self._mode: int | None = None
        if is_folder:
            self._target = os.path.realpath(path)
            _check_folder(path, self._target)
        else:
            replacement = Replacement(path)
            self._target, self._mode = replacement.target, replacement.mode
        self._part, self._journal = draft_paths(self._target)
        self._parts: list[FilePart | ZarrPart] = []
        self._is_published = False
        self.sums: dict[int, int] = {}
        """Of a draft that is gone on with: the sums of its tiles, by their numbers."""
        self._lock = self._lock_journal()
        _remove_abandoned(os.path.dirname(self._target))

    def open(self, files: Sequence[DraftFile], origin: Origin, *, resume: bool) -> int:
        """Make the files, or take those up that are there; return how many tiles are done.

        Raises InvalidArguments where there is a draft of another source, or of other rules.
        """
        try:
            done = self._done_before(origin) if resume else None
            if done is not None:
                try:
                    self._open_parts(files, is_new=False)
                    return done
                except FileNotFoundError:
                    self._close()
            self._start(files, origin, resume)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        return 0

    def place(self, file: int, start: int) -> TensorPlace:
        """The place of a tensor of a file of the draft."""
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
                if self._mode is not None:
                    os.chmod(self._part, self._mode)
                os.replace(self._part, self._target)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        self._is_published = True
        try:
            sync_folder(os.path.dirname(self._target))
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

    def _lock_journal(self) -> int:
        """The handle of the locked journal, which nobody has unlinked meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        while True:
            try:
                handle = os.open(self._journal, flags, 0o600)
            except OSError as error:
                raise cannot_write(self.path, error) from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                status = os.fstat(handle)
                check_owner(self.path, status)
                if os.path.samestat(status, os.stat(self._journal, follow_symlinks=False)):
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
        """The number of tiles of an earlier draft that are done; None where there is none to go on with."""
        text = os.pread(self._lock, _MOST_JOURNAL, 0)
        lines = text.split(b"\n")[:-1]
        if not lines:
            return None
        try:
            head = json.loads(lines[0])
            earlier = Origin(str(head["source"]), str(head["plan"]))
            is_same_boot = head["version"] == _VERSION and head["boot"] == boot_id()
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if earlier.source != origin.source:
            raise refuse("RS-F08:source-changed-since", path=shown(self.path))
        if earlier.plan != origin.plan:
            raise refuse("RS-F08:rules-options-were", path=shown(self.path))
        counts = [0]
        for line in lines[1:]:
            words = _LINE.fullmatch(line)
            if words is None:
                continue
            word, number, tile, values = words.groups()
            if word == b"safe" or is_same_boot:
                counts.append(int(number))
            self.sums |= dict(enumerate((int(value, 16) for value in values.split(b",") if value), int(tile)))
        return max(counts)

    def _start(self, files: Sequence[DraftFile], origin: Origin, resume: bool) -> None:
        self._remove_part()
        os.ftruncate(self._lock, 0)
        if self.is_folder:
            os.mkdir(self._part, 0o777)
        self._open_parts(files, is_new=True)
        head = {"version": _VERSION, **origin._asdict(), "boot": boot_id(), "resume": resume}
        os.write(self._lock, json.dumps(head).encode() + b"\n")
        os.fdatasync(self._lock)

    def _open_parts(self, files: Sequence[DraftFile], *, is_new: bool) -> None:
        for name, image in files:
            path = os.path.normpath(os.path.join(self._part, name)) if self.is_folder else self._part
            if is_new and self.is_folder:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            if isinstance(image, ZarrImage):
                self._parts.append(ZarrPart(path, self.path, image, is_new=is_new))
            else:
                self._parts.append(FilePart(path, self.path, image, is_new=is_new))

    def _remove_part(self) -> None:
        _remove(self._part)


def _remove(part: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(part).st_mode):
            shutil.rmtree(part)
        else:
            os.unlink(part)


def _remove_abandoned(folder: str) -> None:
    """Remove the drafts in a folder whose writers were killed, and which were not to be resumed.

    They are this user's, nobody has locked them, and their journals say so.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        journals = [entry.path for entry in entries if entry.name.endswith(_JOURNAL)]
        for journal in journals:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                handle = os.open(journal, os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    head = json.loads(os.pread(handle, _MOST_HEAD, 0).partition(b"\n")[0])
                    if head.get("resume") is False and os.fstat(handle).st_uid == os.geteuid():
                        _remove(journal.removesuffix("journal") + "part")
                        os.unlink(journal)
                finally:
                    os.close(handle)


def _check_folder(path: str, target: str) -> None:
    """Refuse a folder that holds something: it would be lost, or mixed."""
    try:
        if not os.path.isdir(os.path.dirname(target)):
            raise refuse("RS-F02:no-folder", path=shown(path))
        if not os.path.lexists(target):
            return
        if os.path.isdir(target):
            with os.scandir(target) as entries:
                if next(entries, None) is None:
                    return
        raise refuse("RS-F02:something-name-already", path=shown(path))
    except OSError as error:
        raise cannot_write(path, error) from None


def draft_paths(target: str) -> tuple[str, str]:
    """The paths of the draft of a file or folder, and of its journal."""
    parent, name = os.path.split(target)
    if len(os.fsencode(name)) > _LONG_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    hidden = os.path.join(parent, f".{name}.restride-")
    return f"{hidden}part", f"{hidden}journal"


def room_for(path: str) -> int | None:
    """Bytes that a draft of `path` may take: what is free, and what an older draft of it holds.

    None where the system does not say.
    """
    part, _ = draft_paths(os.path.realpath(path))
    try:
        space = os.statvfs(os.path.dirname(part))
        files = files_below(part) if os.path.isdir(part) and not os.path.islink(part) else [part]
        draft_blocks = sum(os.lstat(file).st_blocks for file in files if os.path.lexists(file))
        return space.f_bavail * space.f_frsize + draft_blocks * _STAT_BLOCK
    except (OSError, AttributeError):
        return None
