"""Checks of answers: elements against the reference engine, padding, gaps, and surrounding bytes (N14)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

import restride as rs
from restride.runtime.result_pool import allocate

from .compare import Points, Tolerance, are_near, points_of
from .fill import Array, Bytes
from .operands import CaseOperand
from .problems import Dims

GUARD = 256  # bytes before and behind; a multiple of a cache line, so that alignment stays
_CANARY = 0xC7
_SHOWN = 10
_LEAST_TRUSTED = 10  # elements; of fewer, many may be zero by chance
_NAMES = {
    rs.onednn.Arg.DST: "DST",
    rs.onednn.Arg.DST_1: "DST_1",
    rs.onednn.Arg.DST_2: "DST_2",
    rs.onednn.Arg.DIFF_SRC: "DIFF_SRC",
}
_NAMES |= {rs.onednn.Arg.DIFF_WEIGHTS: "DIFF_WEI", rs.onednn.Arg.WORKSPACE: "WS"}


class GuardedStorage:
    """Storage between canaries."""

    def __init__(self, nbytes: int) -> None:
        self.whole: Bytes = allocate(nbytes + 2 * GUARD).bytes()
        self.whole[:GUARD] = _CANARY
        self.whole[GUARD + nbytes :] = _CANARY
        self.bytes: Bytes = self.whole[GUARD : GUARD + nbytes]

    def is_intact(self) -> bool:
        """False if something was written outside the storage."""
        edges = self.whole[:GUARD], self.whole[GUARD + self.bytes.size :]
        return all(bool((edge == _CANARY).all()) for edge in edges)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check: why it failed, or ""; the numbers of wrong and of all elements; examples.

    `zeros`: the part of them that is zero. `trusted`: the largest part at which the check is trusted.
    """

    reason: str = ""
    errors: int = 0
    total: int = 0
    lines: tuple[str, ...] = ()
    zeros: float = 0.0
    trusted: float = 0.8

    @property
    def is_empty(self) -> bool:
        """True where so many elements are zero that they tell little."""
        return self.zeros > self.trusted and self.total >= _LEAST_TRUSTED


def judge(
    operand: CaseOperand, got: GuardedStorage, wanted: GuardedStorage, before: Callable[[], Bytes]
) -> Verdict:
    """Compare an answer with the reference's, bit by bit. `before` makes the storage as it was."""
    found, right = logical(operand.md, got.bytes), logical(operand.md, wanted.bytes)
    differ = np.flatnonzero(_words(found) != _words(right))
    shown = differ[:_SHOWN]
    wide, exact = (each.reshape(-1)[shown].astype(np.float64) for each in (found, right))
    diff = np.abs(wide - exact)
    points = Points(shown, exact, exact, wide, diff, diff / np.where(exact != 0, np.abs(exact), 1.0))
    lines = tuple(_line(operand, found.shape, i, points, at) for at, i in enumerate(shown.tolist()))
    zeros = float(np.mean(_words(found) == 0)) if found.size else 0.0
    reason = "" if differ.size else _outside(operand, got, before)
    return Verdict(reason, int(differ.size), int(found.size), lines, zeros)


def judge_near(
    operand: CaseOperand, got: GuardedStorage, exact: Array, tolerance: Tolerance, before: Callable[[], Bytes]
) -> Verdict:
    """Compare an answer with what a formula says, as near as a tolerance says. Padding must be zero, too."""
    data_type, found = operand.md.data_type, logical(operand.md, got.bytes)
    points = points_of(found, np.broadcast_to(exact, found.shape), data_type)
    wrong = np.flatnonzero(~are_near(points, data_type, tolerance))
    lines = tuple(
        _line(operand, found.shape, int(points.index[at]), points, at) for at in wrong[:_SHOWN].tolist()
    )
    zeros = float(np.mean(found == 0)) if found.size else 0.0
    reason = "" if wrong.size else _outside(operand, got, before)
    return Verdict(reason, int(wrong.size), int(found.size), lines, zeros, tolerance.trusted_zeros(data_type))


def _line(operand: CaseOperand, shape: Dims, index: int, points: Points, at: int) -> str:
    place = ":".join(map(str, np.unravel_index(index, shape)))
    return (
        f"[{index:4d}][{_NAMES.get(operand.arg, str(operand.arg))}][{place}] "
        f"exp_f32:{points.exact[at]:12.6g} exp:{points.right[at]:12.6g} got:{points.got[at]:12.6g} "
        f"diff:{points.diff[at]:8.6g} rdiff:{points.rdiff[at]:8.6g}"
    )


def logical(md: rs.MemoryDesc, storage: Bytes) -> Array:
    """The elements in row-major order; of a type that NumPy lacks as f32."""
    memory = rs.Memory(md, rs.Engine("cpu"), storage)
    if md.data_type.numpy is not None or not md.nelems:
        return memory.to_numpy()
    return np.asarray(rs.reorder(memory, rs.MemoryDesc(md.dims, "f32")))


def _words(values: Array) -> Array:
    return values.reshape(-1).view(f"u{values.itemsize}")


def _outside(operand: CaseOperand, got: GuardedStorage, before: Callable[[], Bytes]) -> str:
    """Return what is wrong apart from the elements."""
    if not got.is_intact():
        return "canaries: bytes outside the destination were written"
    if not _has_zero_padding(operand, got.bytes):
        return "padding is not zero"
    if not _keeps_gaps(operand, got.bytes, before):
        return "gaps between elements were written"
    return ""


def _has_zero_padding(operand: CaseOperand, storage: Bytes) -> bool:
    md = operand.md
    if md.padded_dims == md.dims or not md.nelems:
        return True
    # Of nf4 the bits of 0 are a number.
    kind = rs.u4 if md.data_type is rs.nf4 else md.data_type
    whole = logical(rs.MemoryDesc(md.padded_dims, kind, operand.format), storage).copy()
    bits = whole.view(f"u{whole.itemsize}")
    bits[tuple(slice(n) for n in md.dims)] = 0
    return not bits.any()


def _keeps_gaps(operand: CaseOperand, storage: Bytes, before: Callable[[], Bytes]) -> bool:
    """True where every bit that belongs to no element is as it was, half bytes too."""
    if not has_gaps(operand.md):
        return True
    return not ((storage ^ before()) & ~_bits_of_elements(operand)).any()


def has_gaps(md: rs.MemoryDesc) -> bool:
    """True where some bits of the storage belong to no element, and not to the padding."""
    return bool(md.nelems) and prod(md.padded_dims) * md.data_type.bits != md.size * 8


def _bits_of_elements(operand: CaseOperand) -> Bytes:
    """A mask of the storage: ones where elements or padding lie."""
    md = operand.md
    # In the same format with a byte for each element, byte i is element i of the storage.
    twin = rs.MemoryDesc(md.dims, "u8", operand.format)
    held = np.zeros(md.size * 8 // md.data_type.bits, np.uint8)
    rs.Memory(twin, rs.Engine("cpu"), held[: twin.size]).physical()[...] = 1
    if md.data_type.bits == 4:
        return np.asarray(held[::2] * 0x0F | held[1::2] * 0xF0, np.uint8)
    return np.repeat(held * np.uint8(0xFF), md.data_type.bits // 8)
