"""Products that are added in groups: elements of a sum that are adjacent in both factors.

Bytes are multiplied four at a time, 16-bit floats two at a time, and their products added to one 32-bit sum.
This requires that the innermost digit of a summed axis has this many positions, that the elements of a column
are adjacent, and that the columns follow them: weights `OIhw4i16o4i`, `BA16b4a`, and the like. Such a digit
is a **pack**. Each row then broadcasts 32 bits at once.

A 32-bit word of a column can be eight 4-bit elements. They are decoded word by word, to floats; or, if rows
are bytes too, multiplied as bytes: first those at even positions, then the odd ones, and up to four words
are added in 16 bits. Rows are stored in that order then.

If a pack at the end of an axis is not full, its padding does not contribute to the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ...dtypes import DataType
from ...ir.tree import TreeTensor
from ..machine import Machine
from .strides import FIRST, SECOND, Contraction, ContractionLoop

_PACKED_BITS = 32
# The rows of a tile share the column sums that an offset requires; with fewer rows than this, they cost more
# than they gain.
_LEAST_MOVED = 4
# Vectors with instructions for packs have at least this many sums.
_LEAST_SUMS = 4
# The 4-bit elements in a word; and those whose products with bytes can be added in 16 bits: 15 * 127 each.
_NIBBLES = 8
_NIBBLES_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Pack:
    """`count` positions of `loop` are multiplied at once; if `rest` is not 0, the last pack has that many.

    `others`: further loops of its axis that are in the pack.
    """

    loop: ContractionLoop
    count: int
    others: tuple[ContractionLoop, ...] = ()

    @property
    def rest(self) -> int:
        """The number of positions in the last pack; 0 if it is full."""
        return self.loop.size % self.count


def find_pack(contraction: Contraction, lane: ContractionLoop, block: int, machine: Machine) -> Pack | None:
    """Return the pack of a contraction whose columns run along `lane`, in blocks of `block`, if any."""
    count = packed_count(*_types(contraction))
    are_bytes = contraction.sums_integers and count < _NIBBLES
    if count == 1 or (are_bytes and not machine.adds_pairs):
        return None
    sums = machine.vector_bytes * 8 // _PACKED_BITS
    if contraction.role(lane) == "batch" or (gcd(sums, block) if block else sums) < _LEAST_SUMS:
        return None
    if (lane.strides[FIRST], lane.strides[SECOND]) != (0, count):
        return None
    limited = {name for limit in contraction.limits for name, _ in limit.terms}
    loops = [loop for loop in contraction.summed if loop.step == 1 and loop.axis not in limited]
    if count == _NIBBLES and contraction.sums_integers:
        return _nibble_pack(contraction)
    fitting = [loop for loop in loops if loop.strides[:2] == (1, 1) and loop.extent == min(count, loop.size)]
    if not fitting and _reaches_beginnings_alone(contraction, count):
        # Loops of one position do not matter, whichever axis they belong to.
        fitting = [loop for loop in loops if loop.size == 1]
    if not fitting:
        return None
    pack = Pack(fitting[0], count)
    is_whole = not pack.rest or has_whole_packs(contraction.accesses[SECOND].tensor, count)
    return pack if is_whole else None


def _nibble_pack(contraction: Contraction) -> Pack | None:
    """Return the pack of 4-bit words times bytes, for an axis whose products can all be added in 16 bits."""
    axis = contraction.summed[-1].axis
    *words, pairs, last = (loop for loop in contraction.summed if loop.axis == axis)
    shape = [(loop.step, loop.extent, *loop.strides[:2]) for loop in (pairs, last)]
    if last.size % _NIBBLES or last.size > _NIBBLES_AT_ONCE or shape != [(2, 4, 1, 2), (1, 2, 4, 1)]:
        return None
    return Pack(last, _NIBBLES, (pairs,)) if all(loop.step == _NIBBLES for loop in words) else None


def _reaches_beginnings_alone(contraction: Contraction, count: int) -> bool:
    """Return whether every loop position begins a pack, in tensors that are read by packs: one inside the
    last pack would read past the end.
    """
    factors = (FIRST, SECOND) if has_whole_packs(contraction.accesses[FIRST].tensor, count) else (SECOND,)
    loops = (loop for loop in (*contraction.outer, *contraction.summed) if loop.extent > 1)
    return all(loop.strides[factor] % count == 0 for loop in loops for factor in factors)


def packed_count(first: DataType, second: DataType) -> int:
    """Return the most products of these types that are added at once."""
    if all(each.is_integral and each.bits == 8 for each in (first, second)):
        return 4
    if second.bits == 4 and first in (DataType.f32, DataType.s8, DataType.bf16):
        return _NIBBLES
    return 2 if first is second is DataType.bf16 else 1


def has_whole_packs(tensor: TreeTensor, count: int) -> bool:
    """Return whether adjacent elements are in blocks of whole packs, so that a whole pack can always be
    read.
    """
    blocked = (digits for digits in tensor.digits if digits[0].stride == 1 and digits[0].step == 1)
    return any(digit.step % count == 0 for digits in blocked for digit in digits[1:2])


def has_one_instruction(contraction: Contraction, machine: Machine, rows: int) -> bool:
    """Return whether one instruction multiplies packs and adds them to sums; see `is_moved`."""
    first, second = _types(contraction)
    if second.bits == 4:
        pair = {DataType.s8: (DataType.u8, DataType.s8), DataType.bf16: (DataType.bf16, DataType.bf16)}
        return pair.get(first) in machine.dots
    if is_moved(contraction):
        # Sums of columns are not available for groups.
        return (
            contraction.groups is None and rows >= _LEAST_MOVED and (DataType.u8, DataType.s8) in machine.dots
        )
    return (first, second) in machine.dots or (second, first) in machine.dots


def has_lane_instruction(contraction: Contraction, machine: Machine, lanes: int) -> bool:
    """Return whether such an instruction multiplies elements of both factors lane by lane, each a pack padded
    with zeros: bf16, or bytes as 16 bits.
    """
    if lanes < _LEAST_SUMS:
        return False
    first, second = _types(contraction)
    if contraction.is_integral and packed_count(first, second) > 1:
        return (DataType.u8, DataType.s8) in machine.dots
    return (first, second) == (DataType.bf16, DataType.bf16) and (first, second) in machine.dots


def is_moved(contraction: Contraction) -> bool:
    """Return whether both factors are signed, and 128 is added to the rows' factor for an instruction that
    takes an unsigned one: `sum(a * b) = sum((a + 128) * b) - 128 * sum(b)`.
    """
    return _types(contraction) == (DataType.s8, DataType.s8)


def _types(contraction: Contraction) -> tuple[DataType, DataType]:
    first, second = (contraction.accesses[i].tensor.data_type for i in (FIRST, SECOND))
    return first, second
