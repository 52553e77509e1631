"""Vectors of floats as ordered codes of at most a byte: four registers become one by packs (`pack.py`), or,
with 64-byte tables, floats of 8 and 4 bits by words (`word_codes.py`).
"""

from __future__ import annotations

from ..dtypes import DataType
from ..ir.nest import Compute
from .builder import Builder, Value, element_of, lanes_of
from .convert import Abilities, canonical_nan
from .pack import PARTS, can_pack, integers_of, is_small_float, pack, packed_order
from .small_float import small_code
from .word_codes import codes_of_words, words_of_reals

_MOVE = Compute()


def has_byte_codes(value: Value, dst: DataType, can: Abilities, size: int) -> bool:
    """Return whether `byte_codes` supports these values: whole registers of `size` bytes."""
    is_whole = can.packs and lanes_of(value) % size == 0
    return is_whole and element_of(value) == "float" and can_pack(DataType.f32, dst, _MOVE)


def byte_codes(
    b: Builder,
    value: Value,
    dst: DataType,
    style: tuple[Abilities, int],
    *,
    is_number: bool,
    is_clipped: bool,
) -> Value:
    """Return the codes, a byte each. `is_number`: no value is NaN; `is_clipped`: none exceeds the largest.

    `style`: the available instructions, and the bytes of a register.
    """
    can, size = style
    registers = [b.lanes(value, first, size) for first in range(0, lanes_of(value), size)]
    return b.join([_register(b, each, dst, can, (is_number, is_clipped)) for each in registers])


def _register(b: Builder, value: Value, dst: DataType, can: Abilities, known: tuple[bool, bool]) -> Value:
    count = lanes_of(value) // PARTS
    reals = [b.lanes(value, part * count, count) for part in range(PARTS)]
    is_number, is_clipped = known
    if not is_small_float(dst):
        return _in_order(b, [integers_of(b, real, dst, is_number=is_number) for real in reals], dst)

    def exact() -> Value:
        plain = reals if is_number else [canonical_nan(b, real) for real in reals]
        return _in_order(b, [small_code(b, b.bitcast(real, "i32"), dst) for real in plain], dst)

    # Words saturate by themselves, as 4-bit floats do.
    if can.has_tables and (is_clipped or dst.bits == 4) and dst is not DataType.e8m0:
        return codes_of_words(b, words_of_reals(b, reals), dst, exact)
    return exact()


def _in_order(b: Builder, parts: list[Value], dst: DataType) -> Value:
    """Return four parts as one register of bytes, in the order of their elements."""
    packed = pack(b, parts, dst)
    order = packed_order(tuple(range(lanes_of(packed))))
    return b.shuffle_wide(packed, packed, tuple(sorted(range(len(order)), key=order.__getitem__)))
