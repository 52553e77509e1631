"""A layout in words: order, strides, blocks, padding, size, and the offset formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from ..desc.inner_blocks import usual_steps
from ..desc.layout import BlockedLayout, LayoutDigit, layout_digits, storage_elements
from ..desc.memory_desc import MemoryDesc, stored_desc
from .names import about_opaque, aligned, axis_names, counted, has_layout, title, why_no_layout


def explain(md: MemoryDesc, *, tag: str = "") -> str:
    """Return the meaning of `md` in words and symbols; strides and offsets count elements.

    `tag` is the format as the user spelled it: an alias names the axes. The formula is a Python expression of
    the axes' names that equals `md.offset` for every index.
    """
    if md.format_kind == "opaque":
        return "\n".join(
            [str(md), about_opaque(md), "", *_Words(stored_desc(md), axis_names(md.ndims)).lines()]
        )
    if not has_layout(md):
        return f"{title(md, tag)}\n{why_no_layout(md)}"
    return "\n".join([title(md, tag), "", *_Words(md, axis_names(md.ndims, tag)).lines()])


def formula(md: MemoryDesc, names: str) -> str:
    """Return the element offset as a Python expression of `names`, a letter for each axis: `n*128 +
    c//16*64`.

    It equals `md.offset` for every position, padding included. `md` must have a layout.
    """
    terms = [str(md.offset0)] if md.offset0 else []
    for digit in _digits(md.layout):
        terms += [digit.term(names)] if digit.level.extent > 1 and digit.level.stride else []
    return " + ".join(terms).replace("+ -", "- ") or "0"


def fields(md: MemoryDesc, names: str) -> dict[str, Any]:
    """Return everything in the explanation as plain values; the formula only if there is a layout."""
    values = {**md.to_dict(), "size": md.size, "nelems": md.nelems, "tag": md.tag, "text": str(md)}
    if not has_layout(md):
        return values
    layout = md.layout
    return {
        **values,
        "axes": list(names),
        "blocks": list(layout.blocks),
        "order": list(layout.outer_order),
        "inner_strides": list(layout.inner_strides),
        "physical_shape": list(md.physical_shape),
        "physical_strides": list(md.physical_strides),
        "storage": storage_elements(layout),
        "padding": prod(md.padded_dims) - md.nelems,
        "formula": formula(md, names),
    }


@dataclass(frozen=True, slots=True)
class _AxisDigit:
    """One digit of a position on an axis; `top` if no digit of that axis is more significant."""

    level: LayoutDigit
    top: bool

    def symbol(self, names: str) -> str:
        """Return the digit's value: `c//16`, `c%16`, `i%16//4`."""
        name, (_, extent, weight, _) = names[self.level.axis], self.level
        rest = name if self.top else f"{name}%{extent * weight}"
        return rest if weight == 1 else f"{rest}//{weight}"

    def term(self, names: str) -> str:
        """Return the summand of the digit in the offset."""
        stride = self.level.stride
        # A minus would bind more tightly than // and %, but only plain axes, whose symbol is a name, run
        # backwards.
        sign = "-" if stride < 0 else ""
        return sign + self.symbol(names) + (f"*{abs(stride)}" if abs(stride) != 1 else "")


def _digits(layout: BlockedLayout) -> list[_AxisDigit]:
    """Return the digits of all axes in memory order, outermost first."""
    digits = layout_digits(layout)
    ordered = [*(digits[d] for d in layout.outer_order), *digits[len(layout.dims) :]]
    most = {level.axis: level.weight for level in sorted(ordered, key=lambda v: v.weight) if level.extent > 1}
    return [_AxisDigit(level, level.weight >= most.get(level.axis, 1)) for level in ordered]


class _Words:
    """The paragraphs about one layout."""

    def __init__(self, md: MemoryDesc, names: str) -> None:
        self.md, self.layout, self.names = md, md.layout, names

    def lines(self) -> Iterator[str]:
        """Yield all lines below the title."""
        yield from self._table()
        yield ""
        yield f"order    {self._order()}"
        yield f"padding  {self._padding()}"
        yield f"size     {self._size()}"
        yield ""
        yield f"The element at ({', '.join(self.names)}) is at offset, in elements:"
        yield ""
        yield f"    {formula(self.md, self.names)}"
        yield ""
        yield from self._steps()

    def _table(self) -> Iterator[str]:
        layout = self.layout
        rows: list[tuple[object, ...]] = [("axis", "dim", "padded", "block", "stride")]
        for d, name in enumerate(self.names):
            block = layout.blocks[d] if layout.blocks[d] > 1 else "-"
            rows.append((name, layout.dims[d], layout.padded_dims[d], block, layout.strides[d]))
        yield from aligned(rows, "<>>>>")

    def _order(self) -> str:
        """Return `n, c in blocks, h, w, then a block of 16 c`, outermost first."""
        outer = (
            f"{self.names[d]} in blocks of {self.layout.blocks[d]}"
            if self.layout.blocks[d] > 1
            else self.names[d]
            for d in self.layout.outer_order
        )
        layout = self.layout
        blocks = zip(*layout.inner, usual_steps(layout.inner_blks, layout.inner_idxs), strict=True)
        inner = " by ".join(
            f"{blk} {self.names[d]}" + (f" {step} apart" if step != usual else "")
            for blk, d, step, usual in blocks
        )
        inside = f"; inside a block {inner}" if inner else ""
        return f"outermost to innermost: {', '.join(outer)}{inside}"

    def _padding(self) -> str:
        md = self.md
        grown = [
            f"{self.names[d]} from {n} to {whole}"
            for d, (n, whole) in enumerate(zip(md.dims, md.padded_dims, strict=True))
            if n != whole
        ]
        if not grown:
            return "none"
        whole, zeros = prod(md.padded_dims), prod(md.padded_dims) - md.nelems
        part = f" ({100 * zeros / whole:.3g} %)" if whole else ""
        return f"{', '.join(grown)}: {zeros} of {whole} elements{part} are zero padding"

    def _size(self) -> str:
        md, storage = self.md, storage_elements(self.layout)
        bits = f"{md.data_type.bits} bits"
        width = counted(md.data_type.bits // 8, "byte") if md.data_type.bits >= 8 else bits
        text = f"{md.size} bytes: {counted(storage, 'element')} of {width}"
        gaps = storage - prod(md.padded_dims)
        text += f", {gaps} of them in gaps that are never touched" if gaps > 0 and md.nelems else ""
        return text + (f"; the first is at offset {md.offset0}" if md.offset0 else "")

    def _steps(self) -> Iterator[str]:
        """Yield a table of the digits, outermost first."""
        rows: list[tuple[object, ...]] = [("    term", "values", "stride", "meaning")]
        for digit in _digits(self.layout):
            level, symbol = digit.level, digit.symbol(self.names)
            if level.extent > 1:
                values = f"0..{level.extent - 1}"
                rows.append((f"    {symbol}", values, level.stride, self._meaning(digit)))
        yield from aligned(rows, "<>><") if len(rows) > 1 else ()

    def _meaning(self, digit: _AxisDigit) -> str:
        level, name = digit.level, self.names[digit.level.axis]
        if self.layout.blocks[level.axis] == 1:
            return f"index {name}"
        if level.weight == 1:
            return f"the position of {name} among {level.extent} neighbors"
        return f"which {level.weight} of {name}"
