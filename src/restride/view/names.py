"""Text shared by pictures and explanations: names of axes, titles, counts, aligned columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..desc.memory_desc import MemoryDesc
from ..desc.tag_names import LETTERS, axes_of_letters
from ..desc.winograd import winograd_tile
from ..errors import Error
from .walk import Elision


def axis_names(ndims: int, tag: str = "") -> str:
    """Return one letter for each axis, in logical order: `axis_names(4, "nChw16c")` → `"nchw"`.

    A base tag, a rank-generic one, or no tag gives the letters of base tags, `"abcd"`.
    """
    split = next((i for i, char in enumerate(tag) if char.isdigit()), len(tag))
    axes = axes_of_letters(tag[:split].lower())
    if axes is None or len(axes) != ndims:
        return LETTERS[:ndims]
    return "".join(sorted(axes, key=lambda letter: axes[letter]))


def title(md: MemoryDesc, tag: str = "") -> str:
    """Return the descriptor on one line, with the format as the user spelled it: `f32 1x17x2x2 aBcd16b
    (nChw16c)`.

    A format with another layout only names the axes and is not shown.
    """
    text = str(md)
    return f"{text} ({tag})" if tag and tag not in text.split() and not _is_of_another(md, tag) else text


def _is_of_another(md: MemoryDesc, tag: str) -> bool:
    try:
        return MemoryDesc(md.dims, md.data_type, tag) != md
    except Error:
        return False


def has_layout(md: MemoryDesc) -> bool:
    """Return True if every offset is known: not for the zero descriptor, `any` and runtime dims."""
    return md.format_kind == "blocked" and not md.layout.has_runtime


def why_no_layout(md: MemoryDesc) -> str:
    """Return why `has_layout` is false, as a sentence."""
    if md.is_zero():
        return "It describes no memory."
    if md.format_kind == "any":
        return "A primitive has not chosen the format yet."
    return "Some dims or strides are known only at execution."


def about_opaque(md: MemoryDesc) -> str:
    """Describe an opaque format in words."""
    tile = winograd_tile(md.layout)
    taps, window = md.dims[-len(tile) :], md.padded_dims[-len(tile) :]
    return (
        f"For Winograd's algorithm, each window of {_times(taps)} taps of these weights became one of "
        f"{_times(window)} numbers,\nfor tiles of {_times(tile)} points. Those "
        f"of all windows at one place are a matrix of inputs by outputs."
    )


def _times(extents: Sequence[object]) -> str:
    return " by ".join(map(str, extents))


def byte_text(md: MemoryDesc, offset: int) -> str:
    """Return the byte of an element offset; 4-bit elements may start at half a byte: `"3.5"`."""
    whole, part = divmod(md.data_type.bits * offset, 8)
    return f"{whole}.5" if part else str(whole)


def counted(number: int, noun: str) -> str:
    """`counted(3, "line")` → `"3 lines"`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def aligned(rows: Sequence[Sequence[object]], sides: str) -> Iterator[str]:
    """Yield the rows of a table as lines; `sides` has `<` or `>` for each column."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(sides))]
    for row in texts:
        cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        yield "  ".join(cells).rstrip()


def elision_text(left: Elision, names: str) -> str:
    """Return the text in place of omitted lines: `48 lines more: h 7 to 54`."""
    more = f"{counted(left.lines, 'line')} more"
    if left.axis is None:
        return more
    last = f" to {left.last}" if left.last != left.first else ""
    return f"{more}: {names[left.axis]} {left.first}{last}"
