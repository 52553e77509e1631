"""Object code on disk, and other facts that later processes need not find out again.

Machine code is loaded only from files that nobody but the user or root can have written: the folder belongs
to the user with mode 0700, or to root and is not writable by group or others; an entry is a regular file of
one of these, and its content hash is checked before use.
Anything else is ignored with one warning. No failure here is an error: without the store, all is compiled.

One entry is one file `<key>.o`: magic, SHA-256 of (key, object code), object code.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import stat
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from restride import settings
from restride.targets.store_files import make_private, read_all, take_name, write_all
from restride.verbose import log_event

MAGIC = b"restride object\x01"
HEADER = len(MAGIC) + hashlib.sha256().digest_size
_SUFFIX = ".o"
_TEMPORARY = ".tmp"
_HALF_WRITTEN_S = 3600.0
_DAY_S = 86400.0
_LIMIT_BYTES = 256 << 20
_LARGEST_BYTES = 16 << 20
_BLOCK_BYTES = 4096
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")

# Without dir_fd (Windows) or user ids, the access rights of the profile folder must suffice.
_RELATIVE = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd
_PRIVATE = hasattr(os, "geteuid")
_READ = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO in the folder must not hang us
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | (_READ & ~getattr(os, "O_NONBLOCK", 0))


@dataclass(frozen=True)
class StoreInfo:
    """The answers of `restride info`: the folder, whether it is used or why not, and its content."""

    path: str
    enabled: bool
    why: str
    entries: int
    bytes: int


class _Unusable(Exception):
    """The folder must not or cannot be used; the text gives the reason."""


class ObjectStore:
    """Object code by key in `directory`; None turns it off. Threads, processes and forks may share it."""

    def __init__(self, directory: Path | None, *, limit_bytes: int = _LIMIT_BYTES, why_off: str = "") -> None:
        self._path = None if directory is None else os.path.abspath(directory)
        self._limit = limit_bytes
        self._why_off = why_off or "turned off by RESTRIDE_CACHE_DIR"
        self._warned: set[str] = set()
        self._writable = True

    def get(self, key: str) -> bytes | None:
        """Return the verified object code of `key`, or None if there is none that can be used."""
        try:
            with self._folder(create=False) as folder:
                return self._read(folder, key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, _Unusable) as error:
            self._warn_once("unusable", f"{error}; compiling without it")
            return None

    def put(self, key: str, data: bytes) -> None:
        """Keep `data` under `key`, whole or not at all. After a failure: one warning, no more attempts."""
        if not self._writable or self._path is None or len(data) > _LARGEST_BYTES:
            return
        try:
            with self._folder(create=True) as folder:
                self._write(folder, key, data)
        except IsADirectoryError:
            self._reject(key, "a folder")
        except (OSError, _Unusable) as error:
            self._writable = False
            self._warn_once("unusable", f"{error}; new kernels are not kept")
            return
        # One key in 256 triggers a check of the folder: keys are uniform, so growth between checks is small.
        if key.startswith("00"):
            self.prune()

    def prune(self) -> int:
        """Remove partly written files and, past the size limit, the oldest entries; return how many."""
        try:
            with self._folder(create=False) as folder:
                return self._prune(folder)
        except (OSError, _Unusable):
            return 0

    def info(self) -> StoreInfo:
        """Return the state and content of the folder, without creating or changing it."""
        if self._path is None:
            return StoreInfo("", False, self._why_off, 0, 0)
        try:
            with self._folder(create=False) as folder:
                sizes = [size for name, size, _ in _entries(folder, self._path) if name.endswith(_SUFFIX)]
        except FileNotFoundError:
            return StoreInfo(self._path, True, "", 0, 0)
        except (OSError, _Unusable) as error:
            return StoreInfo(self._path, False, str(error), 0, 0)
        return StoreInfo(self._path, True, "", len(sizes), sum(sizes))

    @contextlib.contextmanager
    def _folder(self, *, create: bool) -> Iterator[int | None]:
        """Yield a handle of the checked folder: the one checked is the one used. None without dir_fd."""
        if self._path is None:
            raise FileNotFoundError(errno.ENOENT, self._why_off)
        if create:
            make_private(self._path)
        if not _RELATIVE:
            os.stat(self._path)
            yield None
            return
        handle = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _check_private(self._path, os.fstat(handle))
            yield handle
        finally:
            os.close(handle)

    def _name(self, folder: int | None, name: str) -> str:
        return name if folder is not None else os.path.join(self._path or "", name)

    def _read(self, folder: int | None, key: str) -> bytes | None:
        name = self._name(folder, key + _SUFFIX)
        try:
            handle = os.open(name, _READ, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            # O_NOFOLLOW reports a symbolic link as ELOOP.
            why = "a symbolic link" if error.errno == errno.ELOOP else str(error.strerror)
            self._reject(key, why)
            return None
        try:
            status = os.fstat(handle)
            wrong = _why_foreign(status)
            content = b"" if wrong else read_all(handle, status.st_size)
        finally:
            os.close(handle)
        if wrong or not _is_whole(key, content):
            self._reject(key, wrong or "damaged")
            return None
        self._refresh(folder, name, status.st_mtime)
        return content[HEADER:]

    def _reject(self, key: str, why: str) -> None:
        self._warn_once("entry", f"entry {key[:12]} is {why}; it is compiled again")

    def _refresh(self, folder: int | None, name: str, last_used: float) -> None:
        """Record the use of an entry, once a day: the oldest are pruned first."""
        if abs(time.time() - last_used) > _DAY_S:
            with contextlib.suppress(OSError):
                os.utime(name, dir_fd=folder)

    def _write(self, folder: int | None, key: str, data: bytes) -> None:
        temporary = self._name(folder, f".{os.urandom(8).hex()}{_TEMPORARY}")
        handle = os.open(temporary, _WRITE, 0o600, dir_fd=folder)
        try:
            # Not synced to disk: a file torn by a crash fails its content hash.
            try:
                write_all(handle, MAGIC + _content_hash(key, data) + data)
            finally:
                os.close(handle)
            target = self._name(folder, key + _SUFFIX)
            take_name(folder, temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def _prune(self, folder: int | None) -> int:
        entries = _entries(folder, self._path or "")
        stale = [name for name, _, used in entries if _is_stale(name, used)]
        files = sorted((used, name, size) for name, size, used in entries if name.endswith(_SUFFIX))
        excess = sum(size for _, _, size in files)
        excess = excess - self._limit * 3 // 4 if excess > self._limit else 0
        for _, name, size in files:
            if excess <= 0:
                break
            stale.append(name)
            excess -= size
        for name in stale:
            with contextlib.suppress(OSError):
                os.unlink(self._name(folder, name), dir_fd=folder)
        return len(stale)

    def _warn_once(self, kind: str, text: str) -> None:
        if kind in self._warned:
            return
        self._warned.add(kind)
        _warn(f"restride's kernel cache {self._path}: {text}")


def _warn(text: str) -> None:
    log_event(text, {"event": "cache"})
    warnings.warn(text, RuntimeWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """Return the `stacklevel` with which the caller of this points at the first line outside restride."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def _entries(folder: int | None, path: str) -> list[tuple[str, int, float]]:
    """Return (name, bytes on disk, time of last use) of our files in the folder."""
    entries = []
    with os.scandir(folder if folder is not None else path) as listing:
        for entry in listing:
            if not entry.name.endswith((_SUFFIX, _TEMPORARY)):
                continue
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                blocks = -(-status.st_size // _BLOCK_BYTES)
                entries.append((entry.name, blocks * _BLOCK_BYTES, status.st_mtime))
    return entries


def _is_stale(name: str, used: float) -> bool:
    """Return whether a file was left by a process that was killed while writing."""
    return name.endswith(_TEMPORARY) and time.time() - used > _HALF_WRITTEN_S


def _content_hash(key: str, data: bytes) -> bytes:
    # The hash includes the key, so an entry moved to another name is detected like a damaged one.
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


def _is_whole(key: str, content: bytes) -> bool:
    if len(content) <= HEADER or not content.startswith(MAGIC):
        return False
    return content[len(MAGIC) : HEADER] == _content_hash(key, content[HEADER:])


def _why_foreign(status: os.stat_result) -> str:
    """Return why machine code must not be loaded from a file of this status; empty if it can be."""
    if not stat.S_ISREG(status.st_mode):
        return "not a plain file"
    if _PRIVATE and status.st_uid not in (0, os.geteuid()):
        return "another user's"
    if _PRIVATE and status.st_mode & 0o022:
        return "writable by others"
    return "too large" if status.st_size > _LARGEST_BYTES + HEADER else ""


def _check_private(path: str, status: os.stat_result) -> None:
    if not _PRIVATE:
        return
    if status.st_uid == 0 != os.geteuid():
        # The system's own: whoever else can read it cannot change it.
        if status.st_mode & 0o022:
            raise _Unusable("the folder is root's, and group or others may write to it")
        return
    if status.st_uid != os.geteuid():
        raise _Unusable("the folder belongs to another user")
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise _Unusable(f"the folder's mode is {mode:04o}, not 0700 (chmod 700 {path})")


def default_store() -> ObjectStore:
    """Return the store that the environment selects (RESTRIDE_CACHE_DIR; empty or "off" is none)."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return _store_for(settings.lookup("CACHE_DIR"), home, os.environ.get("HOME"))


@functools.cache
def _store_for(folder: str | None, xdg_cache_home: str, home: str | None) -> ObjectStore:
    """Return one store per setting: warnings are given once, and a changed environment takes effect."""
    if folder is not None and folder.strip().lower() in ("", "off"):
        return ObjectStore(None)
    usual = xdg_cache_home if os.path.isabs(xdg_cache_home) else os.path.join("~", ".cache")
    path = os.path.expanduser(os.path.join(usual, "restride") if folder is None else folder)
    # An empty or relative HOME would name a folder at the root, or below wherever the program runs.
    is_in_home = path != folder and not (folder is None and os.path.isabs(xdg_cache_home))
    if is_in_home and (path.startswith("~") or (home is not None and not os.path.isabs(home))):
        why = "no home folder is known"
        _warn(f"restride keeps no kernels on disk: {why}; RESTRIDE_CACHE_DIR names a folder, or is off")
        return ObjectStore(None, why_off=why)
    return ObjectStore(Path(path))
