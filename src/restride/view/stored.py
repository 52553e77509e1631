"""Stored formats as pictures and words: which element, which half, which scale lies in each byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..formats import TensorFormat
from .drawing import FAINT, LETTER, Drawing, Rectangle, hsl
from .explain import explain
from .names import aligned

_MOST_OF_A_LINE = 20
_MOST_BYTES = 36
_CELL, _HEIGHT, _LEFT = 46.0, 24.0, 52.0
_HUES = {"values": 205, "scale": 45, "zero_point": 130, "minimum": 330}


class BitField(NamedTuple):
    """The meaning of some bits of a buffer: a part of the format, and the index of its element."""

    bit: int
    bits: int
    part: str
    place: tuple[int, ...]


def bit_fields(parts: dict[str, MemoryDesc], nbytes: int) -> list[BitField]:
    """All that lies in the first bytes of a buffer, in the order of its bits."""
    fields: list[BitField] = []
    for name, md in parts.items():
        width = md.data_type.bits
        for offset in range(nbytes * 8 // width):
            index = md.index(offset)
            if index is not None:
                fields.append(BitField(offset * width, width, name, index))
    return sorted(fields)


def buffers(stored: TensorFormat) -> dict[str, dict[str, MemoryDesc]]:
    """The parts of each buffer by its name."""
    if stored.nbytes:
        return {"": stored.parts}
    return {name: {name: md} for name, md in stored.parts.items()}


def stored_text(stored: TensorFormat) -> str:
    """The description of a format, the places of the bytes of its first elements, and its descriptors."""
    lines = [f"{stored.name}: {stored.about}.", "", _formula(stored), ""]
    for name, parts in buffers(stored).items():
        lines += [f"bytes of {name}" if name else "bytes", *_table(parts, _bytes_in_view(stored, parts)), ""]
    for name, md in stored.parts.items():
        lines += [f"{name}", explain(md), ""]
    return "\n".join(lines).rstrip()


def stored_svg(stored: TensorFormat) -> str:
    """The same bytes as a picture: low halves below high ones, scales in a colour of their own."""
    drawing, top = Drawing(), 8.0
    drawing.text(0, top, stored.name, size=14, font_weight="bold")
    drawing.text(0, top + 22, _formula(stored), fill=FAINT)
    top += 46
    for parts in buffers(stored).values():
        for name, md in parts.items():
            drawing.text(0, top, f"{name}: {md}{_sharing(stored, name)}", fill=FAINT)
            top += 18
        top = _draw(drawing, bit_fields(parts, count := _bytes_in_view(stored, parts)), count, top + 4) + 14
    return drawing.document(f"the bytes of {stored.name}")


def _formula(stored: TensorFormat) -> str:
    parts = stored.parts
    value = "value"
    if "zero_point" in parts:
        value = "(value - zero_point)"
    elif stored.zero_point:
        value = f"(value - {stored.zero_point})"
    whole = "tensor_scale * " if stored.has_tensor_scale else ""
    apart = "" if "scale" in parts else ", its scales held apart"
    return f"x = {whole}scale * {value}" + (" + minimum" if "minimum" in parts else "") + apart


def _sharing(stored: TensorFormat, name: str) -> str:
    """Of how many elements there is one such number."""
    return "" if name == "values" else f", one for {'x'.join(map(str, stored.groups))} elements"


def _bytes_in_view(stored: TensorFormat, parts: dict[str, MemoryDesc]) -> int:
    """The number of bytes that are shown: those of the first block, a line or two of others."""
    whole = stored.nbytes or max(md.size for md in parts.values())
    block = _block_of(parts) if stored.nbytes else _MOST_BYTES // 2 - 2
    return min(whole, block, _MOST_BYTES)


def _block_of(parts: dict[str, MemoryDesc]) -> int:
    """Bytes from one scale to the next."""
    scale = parts["scale"]
    return scale.strides[-1] * scale.data_type.bits // 8


def _table(parts: dict[str, MemoryDesc], nbytes: int) -> Iterator[str]:
    rows: list[tuple[object, ...]] = [("  byte", "what lies there")]
    fields = bit_fields(parts, nbytes)
    for first in range(nbytes):
        here = [h for h in fields if h.bit // 8 == first]
        words = ", ".join(_words(h) for h in here)
        if words:
            rows.append((f"  {first}", words))
    yield from aligned(rows, "><")


def _words(field: BitField) -> str:
    where = "" if field.bits >= 8 else (" in the high half" if field.bit % 8 else " in the low half")
    size = f", {field.bits // 8} bytes" if field.bits > 8 else ""
    return f"{field.part} {_index(field.place)}{where}{size}"


def _index(index: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, index))})"


def _draw(drawing: Drawing, fields: list[BitField], nbytes: int, top: float) -> float:
    """Lines of bytes; where the next thing may begin."""
    line = _bytes_of_a_line(nbytes)
    height = _HEIGHT * (2 if any(h.bits < 8 for h in fields) else 1)
    is_row, is_alone = not any(any(h.place[:-1]) for h in fields), len({h.part for h in fields}) == 1
    hues = _hues_of(fields)
    for start in range(0, nbytes, line):
        drawing.text(0, top, "byte", fill=FAINT, size=11)
        for byte in range(min(line, nbytes - start)):
            middle = _LEFT + (byte + 0.5) * _CELL
            drawing.text(middle, top, str(start + byte), anchor="middle", fill=FAINT, size=11)
        top += 12
        if height > _HEIGHT:
            for place, half in enumerate(("high", "low")):
                drawing.text(0, top + (place + 0.5) * _HEIGHT, half, fill=FAINT, size=11)
        drawing.open_cells()
        for h in fields:
            byte = h.bit // 8 - start
            if 0 <= byte < min(line, nbytes - start):
                hue = hues.get(h.place, 0) if h.part == "values" else _HUES[h.part]
                drawing.cell(
                    _box(h, byte, top, height), _label(h, is_row, is_alone), fill=hsl(hue), tip=_words(h)
                )
        drawing.close()
        top += height + 14
    return top


def _bytes_of_a_line(nbytes: int) -> int:
    """All of them where that is a short line, else an even part."""
    return -(-nbytes // -(-nbytes // _MOST_OF_A_LINE))


def _hues_of(fields: Iterable[BitField]) -> dict[tuple[int, ...], int]:
    """The colours of elements, which run in the order of their indices."""
    places = sorted({h.place for h in fields if h.part == "values"})
    return {place: _HUES["values"] + 160 * number // len(places) for number, place in enumerate(places)}


def _box(field: BitField, byte: int, top: float, height: float) -> Rectangle:
    left = _LEFT + byte * _CELL
    if field.bits < 8:
        # The low half is the lower one.
        return Rectangle(left, top + (0 if field.bit % 8 else height / 2), _CELL, height / 2)
    return Rectangle(left, top, _CELL * field.bits / 8, height)


def _label(field: BitField, is_row: bool, is_alone: bool) -> str:
    """The index; of elements of the first row alone the place in it, beside elements what a scale is."""
    words = str(field.place[-1]) if is_row else ",".join(map(str, field.place))
    if field.part == "values" or is_alone:
        return words
    name = {"scale": "scale", "zero_point": "zero", "minimum": "min"}[field.part]
    text = f"{name} {words}"
    return text if len(text) * LETTER < _CELL * max(1, field.bits // 8) else name
