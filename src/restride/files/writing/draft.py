"""Drafts: files under another name in the same folder until they are complete, and a record of finished
tiles.

        .NAME.restride-part       the files, at full length from the start: a full disk is detected at once
        .NAME.restride-journal    a hash of the source and the plan, and the number of finished tiles

The journal is locked during work, so that two processes never write the same draft. Its lines record how many
tiles are written ("done"), how many of them are flushed to disk ("safe"), and the checksums of tiles. After a
kill, the system still has what was written; after a power failure, detected by the system's boot id, only
safe tiles count. Resuming compares checksums first.
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
# The unit of stat's block counts, whatever the disk.
_STAT_BLOCK = 512
_VERSION = 2
_MOST_JOURNAL = 64 << 20
_MOST_HEAD = 4096
_JOURNAL = ".restride-journal"
_MOST_HEAD = 4096
_LINE = re.compile(rb"(done|safe) (\d{1,18}) (\d{1,18}):([0-9a-f,]*)")

Image = FileImage | ZarrImage


class Origin(NamedTuple):
    """The source of a draft and the plan for its result, as hashes, and the most bytes of a tile."""

    source: str
    plan: str
    tile_bytes: int = 0


class DraftFile(NamedTuple):
    """A file of a draft: its name below the draft, "." for the draft itself, and its image."""

    name: str
    image: Image


def check_place(path: str, *, is_folder: bool) -> None:
    """Raise RuntimeFailure, as creating a draft does, if its parent folder does not exist."""
    if os.path.isdir(os.path.dirname(os.path.realpath(path))):
        return
    if is_folder:
        _check_folder(path, os.path.realpath(path))
    else:
        Replacement(path)


class FilePart:
    """A file of a draft, at full length from the start; new or existing.

    Raises FileNotFoundError if an existing file is not as expected, RuntimeFailure if it has another owner.
    All other system errors are raised unchanged.
    """

    def __init__(self, path: str, label: str, image: FileImage, *, is_new: bool) -> None:
        flags = os.O_CREAT | os.O_EXCL if is_new else os.O_NOFOLLOW
        self._label, self._image = label, image
        self._handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o666)
        try:
            if is_new:
                # Detects a full disk at once.
                reserve(self._handle, image.nbytes)
                os.ftruncate(self._handle, image.nbytes)
            else:
                status = os.fstat(self._handle)
                check_owner(label, status)
                if status.st_size != image.nbytes:
                    raise FileNotFoundError
            # In existing files, no checksum of a tile covers these bytes.
            for start, piece in image.pieces:
                write_at(self._handle, start, memoryview(piece))
            os.fdatasync(self._handle)
        except BaseException:
            self.close()
            raise

    def place(self, start: int) -> FilePlace:
        """Return the place of the tensor that starts at this byte of the image."""
        return FilePlace(self._handle, self._label, start)

    def make_safe(self) -> None:
        """Flush to disk what was written so far; the length was safe before."""
        os.fdatasync(self._handle)

    def complete(self) -> None:
        """Write everything that depends on the tensors, and flush all to disk."""
        if self._image.finish is not None:
            self._image.finish(self._handle)
        os.fsync(self._handle)

    def forget_cached(self) -> None:
        """Make the next reads come from disk, if the system supports that."""
        with contextlib.suppress(OSError, AttributeError):
            os.posix_fadvise(self._handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            os.close(self._handle)


class AtomicOutput:
    """A file, or with `is_folder` a folder, that appears under `path` when it is complete.

    Creating one checks the place and locks it. Raises RuntimeFailure if nothing can be put there, or if
    another conversion is writing there.
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
        """For a resumed draft: the checksums of its tiles, by number."""
        self._lock = self._lock_journal()
        _remove_abandoned(os.path.dirname(self._target))

    @property
    def earlier_tile_bytes(self) -> int:
        """The most bytes of the tiles of an earlier draft; 0 if there is none to resume."""
        try:
            found = json.loads(os.pread(self._lock, _MOST_HEAD, 0).split(b"\n")[0])["tile_bytes"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return 0
        return found if type(found) is int and found > 0 else 0

    def open(self, files: Sequence[DraftFile], origin: Origin, *, resume: bool) -> int:
        """Create the files, or resume existing ones; return how many tiles are done.

        Raises InvalidArguments for a draft of another source, or with other rules.
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
        """Return the place of a tensor of a file of the draft."""
        return self._parts[file].place(start)

    def note(self, done: int, safe: bool = False, first: int = 0, sums: Sequence[int] = ()) -> None:
        """Record in the journal that the tiles below `done` are written; with `safe`, after flushing them.

        `sums`: checksums of the output of tiles, from `first` on.
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
        """Write everything that depends on the tiles, and flush all to disk."""
        try:
            for part in self._parts:
                part.complete()
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def forget_cached(self) -> None:
        """Make the next reads come from disk, if the system supports that."""
        for part in self._parts:
            part.forget_cached()

    def publish(self) -> None:
        """Rename the whole draft to its final name, in one step. If that fails, the draft remains."""
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
        """Leave without a result; `keep` finished work for resuming.

        Does nothing if the draft has been published: another one may have been started meanwhile.
        """
        if self._is_published:
            return
        self._close()
        # A journal gets its first line once all files exist: a draft that found no room is not kept.
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
        """Return the handle of the locked journal, making sure that it has not been unlinked meanwhile."""
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
        """Return the number of finished tiles of an earlier draft; None if there is none to resume."""
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
    """Reject a non-empty folder, whose content would be lost or mixed."""
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
    """Return the paths of the draft of a file or folder, and of its journal."""
    parent, name = os.path.split(target)
    if len(os.fsencode(name)) > _LONG_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    hidden = os.path.join(parent, f".{name}.restride-")
    return f"{hidden}part", f"{hidden}journal"


def room_for(path: str) -> int | None:
    """Return the bytes available for a draft of `path`: free space, and the size of an older draft of it.

    None if the system does not provide it.
    """
    part, _ = draft_paths(os.path.realpath(path))
    try:
        space = os.statvfs(os.path.dirname(part))
        files = files_below(part) if os.path.isdir(part) and not os.path.islink(part) else [part]
        draft_blocks = sum(os.lstat(file).st_blocks for file in files if os.path.lexists(file))
        return space.f_bavail * space.f_frsize + draft_blocks * _STAT_BLOCK
    except (OSError, AttributeError):
        return None
