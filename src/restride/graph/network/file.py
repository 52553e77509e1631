"""The file of a saved network: a verified header, and mapped tensors.

    file    := head header tensor*
    head    := "restride network" version 0 bytes-of-header sha256-of-header      16, 4, 4, 8 and 32 bytes
    header  := JSON: rule, precision, inputs, outputs, machine, plans, graphs for other batches, and numbered
               lists of tensors, of constants, and of their copies in other formats
    tensor  := bytes at a multiple of 64, in the order of the list; each has its CRC-32 in the header

Nothing in a file is executed, and it contains no addresses or kernels. Tensors are mapped, and verified at
their first use. The graphs in the header are read, and checked, by `saved.py`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from struct import Struct
from typing import Any, TypeVar

import numpy as np

from ...dtypes import DataType
from ...errors import Error, refuse
from ...files.plain_file import opened, read_at
from ...files.writing.replacement import shown, system_error
from ...runtime.alloc import Array
from ...targets.isa import host_isa
from ...version import VERSION
from ..dims import Dims
from .inputs import NetworkInput

__all__ = [
    "ALIGNMENT",
    "FILE_VERSION",
    "HEAD",
    "MAGIC",
    "NetworkFile",
    "aligned",
    "damaged",
    "is_saved_network",
    "machine_facts",
    "naming_file",
    "read_network_file",
]

MAGIC, FILE_VERSION, ALIGNMENT = b"restride network", 3, 64
HEAD = Struct("<16sIIQ32s")
"""Magic, version, zero, bytes of the header, and its SHA-256."""
# An earlier version, in which all constants were row-major.
_WITHOUT_ORDERS = 2

_MOST_HEADER = 1 << 28
_WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError)
_T = TypeVar("_T")


def is_saved_network(path: str) -> bool:
    """True for a file that begins like those of `Network.save`. Raises RuntimeFailure as reading does."""
    with opened(path, "a model, or a file that Network.save wrote") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_network_file(path: str) -> NetworkFile:
    """Map the file of a network.

    Raises RuntimeFailure for another or a damaged file, and if the system refuses.
    """
    with opened(path, "a file that Network.save wrote") as file:
        magic, version, zero, nbytes, digest = HEAD.unpack(read_at(file, path, 0, HEAD.size))
        if magic != MAGIC:
            raise refuse("RS-F10:not-begin-network", path=shown(path))
        if version not in (FILE_VERSION, _WITHOUT_ORDERS) or zero:
            raise refuse(
                "RS-F10:version-restride-reads", path=shown(path), version=version, file_version=FILE_VERSION
            )
        if nbytes > _MOST_HEADER:
            raise refuse("RS-F10:header-too-long", path=shown(path), nbytes=nbytes)
        text = read_at(file, path, HEAD.size, nbytes)
        if sha256(text).digest() != digest:
            raise refuse("RS-F10:header-changed", path=shown(path))
        try:
            mapped = np.memmap(file, np.uint8, "r")
        except OSError as error:
            raise system_error("map", path, error) from None
    begin = aligned(HEAD.size + nbytes)
    return naming_file(path, lambda: NetworkFile(path, json.loads(text), digest, mapped, begin))


class NetworkFile:
    """The content of a file: inputs, outputs, a header, and tensors by number. Threads can share it.

    `digest`: the SHA-256 of the header, which covers the locations, sizes and checksums of all tensors.
    """

    def __init__(
        self, path: str, header: Mapping[str, Any], digest: bytes, mapped: Array, begin: int
    ) -> None:
        self.path, self.header, self.digest = path, header, digest
        self._mapped, self._begin = mapped, begin
        self.inputs = tuple(map(_input, header["inputs"]))
        self.outputs = tuple(map(str, header["outputs"]))
        self.rule, self.precision = str(header["rule"]), str(header.get("precision", "f32"))
        self._check_places()
        self._checked: set[int] = set()

    @property
    def dims(self) -> tuple[tuple[Dims, ...], ...]:
        """The dims of inputs that it was saved for."""
        return naming_file(
            self.path, lambda: tuple(tuple(map(tuple, plan["dims"])) for plan in self.header["plans"])
        )

    def tensor(self, number: int) -> Array:
        """Return the bytes of a tensor."""
        start, nbytes = self.place(number)
        return self._mapped[start : start + nbytes]

    def place(self, number: int) -> tuple[int, int]:
        """Return the offset in the file at which a tensor starts, and its length."""
        place = self.header["tensors"][number]
        return self._begin + place["start"], place["nbytes"]

    def check(self, number: int) -> None:
        """Raise RuntimeFailure if the bytes of a tensor differ from those that were written."""
        if number in self._checked:
            return
        if zlib.crc32(self.tensor(number).data) != self.header["tensors"][number]["crc32"]:
            raise refuse("RS-F10:bytes-tensor-not", path=shown(self.path), number=number)
        self._checked.add(number)

    def _check_places(self) -> None:
        for number, place in enumerate(self.header["tensors"]):
            start, nbytes = place["start"], place["nbytes"]
            is_place = type(start) is type(nbytes) is type(place["crc32"]) is int and min(start, nbytes) >= 0
            if not is_place or start % ALIGNMENT:
                raise refuse("RS-F10:tensor-lies-nowhere", path=shown(self.path), number=number)
            # The file ends where another tensor could begin: cutting even the final padding is detected.
            if self._begin + aligned(start + nbytes) > self._mapped.nbytes:
                raise refuse("RS-F10:ends-before-tensor", path=shown(self.path), number=number)


def machine_facts() -> list[str | int]:
    """The facts, in addition to the graph, on which the choices of propagation depend."""
    isa = host_isa()
    return [VERSION, isa.name, isa.features]


def _input(values: Mapping[str, Any]) -> NetworkInput:
    dims = None if values["dims"] is None else tuple(None if n is None else int(n) for n in values["dims"])
    return NetworkInput(str(values["name"]), dims, DataType.parse(values["data_type"]))


def aligned(nbytes: int) -> int:
    """Return the next offset at which a tensor can begin."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def naming_file(path: str, function: Callable[[], _T]) -> _T:
    """Call a function that reads a file, adding the file's name to every error."""
    try:
        return function()
    except MemoryError:
        raise refuse("RS-D01:header", path=shown(path)) from None
    except Error as error:
        if error.code in ("RS-F10", "RS-F02"):
            raise
        raise refuse("RS-F10:inner", path=shown(path), reason=error) from None
    except _WRONG as error:
        raise refuse(
            "RS-F10:header-not-hold", path=shown(path), type=type(error).__name__, reason=str(error)[:200]
        ) from None


def damaged(path: str, why: str) -> Error:
    """Return the error of a damaged file."""
    return refuse("RS-F10:cannot-read", path=shown(path), why=why)
