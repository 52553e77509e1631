"""Memory in a wide and empty address space, for tensors whose rows lie gigabytes apart."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

import restride as rs
from support.by_offset import positions

Array = npt.NDArray[np.generic]
_MAP_NORESERVE = 0x4000  # a name in mmap only from Python 3.13 on


class SparseMemory:
    """A file in memory that is all holes: only pages that are touched take memory, and they are known."""

    def __init__(self, nbytes: int) -> None:
        if sys.platform != "linux":
            pytest.skip("needs memory that is only addresses")
        self._nbytes, self._file = nbytes, os.memfd_create("far")
        try:
            os.ftruncate(self._file, nbytes)
            self.mapped = mmap.mmap(self._file, nbytes, flags=mmap.MAP_SHARED | _MAP_NORESERVE)
        except OSError:
            pytest.skip("the system gives no such address space")
        self.data = np.frombuffer(self.mapped, np.uint8)

    def close(self) -> None:
        """Give the file back; the addresses live as long as `data`."""
        os.close(self._file)

    def memory(self, md: rs.MemoryDesc, codes: Array | None = None) -> rs.Memory:
        """A memory of a descriptor, all zeros but for the bits of its elements."""
        os.ftruncate(self._file, 0)
        os.ftruncate(self._file, self._nbytes)
        if codes is not None:
            places, held = _bytes_at(md, codes)
            self.data[places] = held
        return rs.Memory(md, rs.Engine("cpu"), self.mapped)

    def elements(self, md: rs.MemoryDesc) -> Array:
        """The bits of all elements, one to a place; of types of whole bytes."""
        width = md.data_type.bits // 8
        places = positions(md, md.dims)[..., None] * width + np.arange(width)
        return self.data[places].view(f"u{width}")[..., 0]

    def check(self, md: rs.MemoryDesc, codes: Array) -> None:
        """These elements are where the descriptor has them, and every other byte is zero."""
        places, held = _bytes_at(md, codes)
        seen = 0
        for low, high in self._touched():
            wanted = np.zeros(high - low, np.uint8)
            first, last = np.searchsorted(places, (low, high))
            wanted[places[first:last] - low] = held[first:last]
            np.testing.assert_array_equal(self.data[low:high], wanted)
            seen += int(last - first)
        assert seen == places.size, f"{places.size - seen} bytes were never written"

    def _touched(self) -> Iterator[tuple[int, int]]:
        """The runs of pages that exist."""
        end = 0
        while True:
            try:
                start = os.lseek(self._file, end, os.SEEK_DATA)
            except OSError:
                return
            end = os.lseek(self._file, start, os.SEEK_HOLE)
            yield start, end


def _bytes_at(md: rs.MemoryDesc, codes: Array) -> tuple[Array, Array]:
    """The offsets of all bytes that elements have a part in, in order, and what is in them."""
    bits, offsets = md.data_type.bits, positions(md, md.dims).ravel()
    plain = np.ascontiguousarray(codes).ravel()
    if bits == 4:
        places, which = np.unique(offsets // 2, return_inverse=True)
        held = np.zeros(places.size, np.uint8)
        np.bitwise_or.at(held, which, (plain.astype(np.uint8) & 15) << (offsets % 2 * 4).astype(np.uint8))
        return places, held
    width = bits // 8
    found = (offsets[:, None] * width + np.arange(width)).ravel()
    order = np.argsort(found)
    return found[order], plain.view(np.uint8)[order]
