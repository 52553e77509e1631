"""Stored formats as pictures and text: which element, which half, which scale is in each byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..desc.packed_blocks import BitNumbers, PackedBlocks
from ..formats import TensorFormat
from .drawing import FAINT, LETTER, Drawing, Rectangle, hsl
from .explain import explain
from .names import aligned

_MOST_OF_A_LINE = 20
_MOST_BYTES = 36
_CELL, _HEIGHT, _LEFT = 46.0, 24.0, 52.0
_MOST_OF_A_FIELD = 8
_HUES = {"values": 205, "scale": 45, "zero_point": 130, "minimum": 330, "d": 75, "d_minimum": 300}


class ShownBits(NamedTuple):
    """The meaning of some bits of a buffer: a part of the format, the index of its element, and the number of
    the element's lower bits that are stored elsewhere.
    """

    bit: int
    bits: int
    part: str
    place: tuple[int, ...]
    below: int = 0


def bit_fields(parts: dict[str, MemoryDesc], nbytes: int) -> list[ShownBits]:
    """Return the fields in the first bytes of a buffer, in the order of their bits."""
    fields: list[ShownBits] = []
    for name, md in parts.items():
        width = md.data_type.bits
        for offset in range(nbytes * 8 // width):
            index = md.index(offset)
            if index is not None:
                fields.append(ShownBits(offset * width, width, name, index))
    return sorted(fields)


def packed_fields(blocks: PackedBlocks) -> list[ShownBits]:
    """Return the fields in a block of bits, in the order of their bits; an index is that within the block."""
    d = ("d", "d_minimum") if blocks.scales else ("scale", "minimum")
    fields = [ShownBits(8 * blocks.scale_at, blocks.scale_type.bits, d[0], (0,))]
    if blocks.minimum_at is not None:
        fields.append(ShownBits(8 * blocks.minimum_at, 16, d[1], (0,)))
    for name, numbers in _numbers(blocks).items():
        below = 0
        for field in numbers.fields:
            fields += [ShownBits(field.bit(i), field.bits, name, (i,), below) for i in range(numbers.count)]
            below += field.bits
    return sorted(fields)


def _numbers(blocks: PackedBlocks) -> dict[str, BitNumbers]:
    named = {"values": blocks.values, "scale": blocks.scales, "minimum": blocks.minima}
    return {name: numbers for name, numbers in named.items() if numbers is not None}


def _fields_in_view(blocks: PackedBlocks) -> tuple[list[ShownBits], list[range]]:
    """Return the fields of a block, and the bytes to show: the first of each field, and a few after it."""
    fields = packed_fields(blocks)
    starts = {field.start // 8 for numbers in _numbers(blocks).values() for field in numbers.fields}
    starts |= {h.bit // 8 for h in fields if h.part.startswith("d") or h.bits >= 16}
    ends = [*sorted(starts)[1:], blocks.nbytes]
    shown: list[range] = []
    for start, end in zip(sorted(starts), ends, strict=True):
        stop = min(end, start + _MOST_OF_A_FIELD)
        if shown and shown[-1].stop == start and stop - shown[-1].start <= _MOST_OF_A_LINE:
            shown[-1] = range(shown[-1].start, stop)
        else:
            shown.append(range(start, stop))
    return fields, shown


def buffers(stored: TensorFormat) -> dict[str, dict[str, MemoryDesc]]:
    """Return the parts of each buffer by name."""
    if stored.nbytes:
        return {"": stored.parts}
    return {name: {name: md} for name, md in stored.parts.items()}


def stored_text(stored: TensorFormat) -> str:
    """Describe a format: text, the bytes of its first elements, and its descriptors."""
    lines = [f"{stored.name}: {stored.about}.", "", _formula(stored), ""]
    if stored.blocks is not None:
        fields, shown = _fields_in_view(stored.blocks)
        lines += ["bytes", *_table(fields, [byte for part in shown for byte in part]), ""]
        return "\n".join((*lines, *_of_fields(stored.blocks)))
    for name, parts in buffers(stored).items():
        count = _bytes_in_view(stored, parts)
        table = _table(bit_fields(parts, count), range(count))
        lines += [f"bytes of {name}" if name else "bytes", *table, ""]
    for name, md in stored.parts.items():
        lines += [f"{name}", explain(md), ""]
    return "\n".join(lines).rstrip()


def stored_svg(stored: TensorFormat) -> str:
    """Return the same bytes as a picture: low halves below high ones, scales in a separate color."""
    drawing, top = Drawing(), 8.0
    drawing.text(0, top, stored.name, size=14, font_weight="bold")
    drawing.text(0, top + 22, _formula(stored), fill=FAINT)
    top += 46
    if stored.blocks is not None:
        for line in _of_fields(stored.blocks):
            drawing.text(0, top, line, fill=FAINT)
            top += 18
        fields, shown = _fields_in_view(stored.blocks)
        _draw(drawing, fields, shown, top + 4)
        return drawing.document(f"the bytes of {stored.name}")
    for parts in buffers(stored).values():
        for name, md in parts.items():
            drawing.text(0, top, f"{name}: {md}{_sharing(stored, name)}", fill=FAINT)
            top += 18
        count = _bytes_in_view(stored, parts)
        step = _bytes_of_a_line(count)
        lines = [range(start, min(start + step, count)) for start in range(0, count, step)]
        top = _draw(drawing, bit_fields(parts, count), lines, top + 4) + 14
    return drawing.document(f"the bytes of {stored.name}")


def _of_fields(blocks: PackedBlocks) -> Iterator[str]:
    """Yield a line for each bit field."""
    for name, numbers in _numbers(blocks).items():
        below = 0
        for field in numbers.fields:
            digits = " ".join(f"{extent}/{stride}" for extent, stride in field.digits)
            above = f", above {below}" if below else ""
            count = f"{field.bits} bit{'s' * (field.bits > 1)}"
            yield f"{name}: {count}{above}, from byte {field.start / 8:g} on: digits {digits}"
            below += field.bits


def _formula_of_blocks(blocks: PackedBlocks) -> str:
    names = {"values": "value", "scale": "scale", "minimum": "minimum"}
    for name, numbers in _numbers(blocks).items():
        word = f"table[{names[name]}]" if numbers.table else names[name]
        names[name] = f"({word} - {numbers.zero_point})" if numbers.zero_point else word
    scale = f"d * {names['scale']}" if blocks.scales else "scale"
    minimum = " - d_minimum * minimum" if blocks.minima else " + minimum"
    return f"x = {scale} * {names['values']}{'' if blocks.minimum_at is None else minimum}"


def _formula(stored: TensorFormat) -> str:
    if stored.blocks is not None:
        return _formula_of_blocks(stored.blocks)
    parts = stored.parts
    value = "value"
    if "zero_point" in parts:
        value = "(value - zero_point)"
    elif stored.zero_point:
        value = f"(value - {stored.zero_point})"
    whole = "tensor_scale * " if stored.has_tensor_scale else ""
    apart = "" if "scale" in parts else ", with separate scales"
    return f"x = {whole}scale * {value}" + (" + minimum" if "minimum" in parts else "") + apart


def _sharing(stored: TensorFormat, name: str) -> str:
    """Return the number of elements that share such a number."""
    return "" if name == "values" else f", one for {'x'.join(map(str, stored.groups))} elements"


def _bytes_in_view(stored: TensorFormat, parts: dict[str, MemoryDesc]) -> int:
    """Return the number of bytes to show: those of the first block, or a line or two of others."""
    whole = stored.nbytes or max(md.size for md in parts.values())
    block = _block_of(parts) if stored.nbytes else _MOST_BYTES // 2 - 2
    return min(whole, block, _MOST_BYTES)


def _block_of(parts: dict[str, MemoryDesc]) -> int:
    """Return the number of bytes from one scale to the next."""
    scale = parts["scale"]
    return scale.strides[-1] * scale.data_type.bits // 8


def _table(fields: Sequence[ShownBits], shown: Iterable[int]) -> Iterator[str]:
    rows: list[tuple[object, ...]] = [("  byte", "content")]
    for first in shown:
        here = [h for h in fields if h.bit // 8 == first]
        words = ", ".join(_words(h) for h in here)
        if words:
            rows.append((f"  {first}", words))
    yield from aligned(rows, "><")


def _words(field: ShownBits) -> str:
    first, last = field.bit % 8, field.bit % 8 + field.bits - 1
    where = "" if field.bits >= 8 else f" in bits {first} to {last}" if last > first else f" in bit {first}"
    if field.bits == 4 and first % 4 == 0:
        where = " in the high half" if first else " in the low half"
    size = f", {field.bits // 8} bytes" if field.bits > 8 else ""
    high = "high part of " if field.below else ""
    return f"{high}{field.part} {_index(field.place)}{where}{size}"


def _index(index: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, index))})"


def _draw(drawing: Drawing, fields: list[ShownBits], lines: Sequence[range], top: float) -> float:
    """Draw lines of bytes; return the top of whatever follows."""
    here = [h for h in fields if any(h.bit // 8 in line for line in lines)]
    # A byte has as many cells as the smallest field requires.
    cells = 8 // min(8, *(h.bits for h in here))
    height = _HEIGHT * cells
    is_row, is_alone = not any(any(h.place[:-1]) for h in here), len({h.part for h in here}) == 1
    hues = _hues_of(here)
    for line in lines:
        drawing.text(0, top, "byte", fill=FAINT, size=11)
        for place, byte in enumerate(line):
            middle = _LEFT + (place + 0.5) * _CELL
            drawing.text(middle, top, str(byte), anchor="middle", fill=FAINT, size=11)
        top += 12
        for place in range(cells if cells > 1 else 0):
            bit = 8 - (place + 1) * 8 // cells
            words = ("high", "low")[place] if cells == 2 else f"bit {bit}"
            drawing.text(0, top + (place + 0.5) * _HEIGHT, words, fill=FAINT, size=11)
        drawing.open_cells()
        for h in here:
            byte = h.bit // 8
            if byte in line:
                hue = hues.get(h.place, 0) if h.part == "values" else _HUES[h.part]
                box = _box(h, byte - line.start, top, height)
                drawing.cell(box, _label(h, is_row, is_alone), fill=hsl(hue), tip=_words(h))
        drawing.close()
        top += height + 14
    return top


def _bytes_of_a_line(nbytes: int) -> int:
    """Return all of them if that is a short line, else an even part."""
    return -(-nbytes // -(-nbytes // _MOST_OF_A_LINE))


def _hues_of(fields: Iterable[ShownBits]) -> dict[tuple[int, ...], int]:
    """Return the colors of elements, in the order of their indices."""
    places = sorted({h.place for h in fields if h.part == "values"})
    return {place: _HUES["values"] + 160 * number // len(places) for number, place in enumerate(places)}


def _box(field: ShownBits, byte: int, top: float, height: float) -> Rectangle:
    left = _LEFT + byte * _CELL
    if field.bits < 8:
        # Low bits are below high ones.
        share = height / 8
        above = (8 - field.bit % 8 - field.bits) * share
        return Rectangle(left, top + above, _CELL, field.bits * share)
    return Rectangle(left, top, _CELL * field.bits / 8, height)


def _label(field: ShownBits, is_row: bool, is_alone: bool) -> str:
    """Return the index; in the first row only the position in it; for a scale among elements, its kind."""
    words = str(field.place[-1]) if is_row else ",".join(map(str, field.place))
    if field.part == "values" or is_alone:
        return words
    names = {"scale": "scale", "zero_point": "zero", "minimum": "min", "d": "d", "d_minimum": "d min"}
    name = names[field.part]
    if name.startswith("d"):
        return name
    text = f"{name} {words}"
    return text if len(text) * LETTER < _CELL * max(1, field.bits // 8) else name
