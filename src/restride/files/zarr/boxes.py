"""Boxes of arrays of Zarr by its library, which takes whatever is no file for a chunk of fill values."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ...errors import Error, refuse
from ...runtime.alloc import Array
from ..writing.replacement import cannot_write, shown, system_error


def read_box(array: Any, box: tuple[slice, ...], path: str) -> Array:
    """A box of an array, by the library; `path` is what errors call it.

    Raises InvalidArguments for damaged chunks, RuntimeFailure where the system refuses.
    """
    try:
        for chunk in chunk_paths(array, box):
            check_chunk(chunk)
        return np.asarray(array[box])
    except OSError as error:
        raise system_error("read", path, error) from None
    except (Error, MemoryError):
        raise
    except Exception as error:  # whatever a codec says
        name = f" of {array.basename[:60]!r}" if array.basename else ""
        raise refuse(
            "RS-F01:chunks", path=shown(path), name=name, reason=str(error)[:200] or type(error).__name__
        ) from None


def write_box(array: Any, box: tuple[slice, ...], content: Array, path: str) -> None:
    """Put a box of whole chunks into an array, by the library. Raises RuntimeFailure."""
    try:
        array[box] = content
    except OSError as error:
        raise cannot_write(path, error) from None


def array_folder(array: Any) -> str | None:
    """The folder of an array; None where it lies in no local one."""
    from zarr.storage import LocalStore

    store = array.store_path.store
    return os.path.join(str(store.root), array.store_path.path) if type(store) is LocalStore else None


def chunk_paths(array: Any, box: tuple[slice, ...]) -> Iterator[str]:
    """The files of the chunks, or shards, that a box touches; none where they are in no local folder."""
    folder = array_folder(array)
    if folder is None:
        return
    units = array.shards or array.chunks
    spans = (part.indices(n) for part, n in zip(box, array.shape, strict=True))
    ranges = (range(first // n, -(-last // n)) for (first, last, _), n in zip(spans, units, strict=True))
    for number in product(*ranges):
        yield os.path.join(folder, array.metadata.encode_chunk_key(number))


def check_chunk(path: str) -> None:
    """Refuse what is there and is no file: the library takes it for fill values, or waits for a pipe.

    System errors are raised as they come.
    """
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        is_file = not os.path.islink(path)
    if not is_file:
        raise refuse("RS-F01:folder-pipe-broken", path=shown(path))


@contextlib.contextmanager
def new_chunk(path: str) -> Iterator[int]:
    """The handle of a file that takes the name of a chunk's when the block ends well.

    System errors are raised as they come.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # As Zarr's library names what it has not finished.
    part = f"{path}.{secrets.token_hex(16)}.partial"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            yield handle
        finally:
            os.close(handle)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
