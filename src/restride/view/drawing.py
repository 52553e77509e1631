"""SVG as text: shapes, tooltips, and the frame around them. All text is escaped here."""

from __future__ import annotations

import hashlib
from colorsys import hls_to_rgb
from html import escape
from typing import NamedTuple

MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
LETTER = 7.3
"""The approximate width of a character in the pictures' font, in pixels."""
INK, FAINT, PAPER, LINE = "#1c2733", "#5c6b7a", "#ffffff", "#33475b"


class Rectangle(NamedTuple):
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float


class Drawing:
    """Shapes in the order of addition; coordinates are pixels from the top left corner."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width, self.height = 0.0, 0.0

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, **style: str
    ) -> None:
        """Add text vertically centered at `y`; `style` are attributes, such as `fill` and `font_weight`."""
        more = "".join(f' {name.replace("_", "-")}="{escape(value)}"' for name, value in style.items())
        side = "" if anchor == "start" else f' text-anchor="{anchor}"'
        sized = "" if size == 12 else f' font-size="{size}"'
        self.parts.append(f'<text x="{x:g}" y="{y + 4:g}"{side}{sized}{more}>{escape(words)}</text>')
        if anchor == "start":
            self._reach(x + len(words) * LETTER * size / 12, y + size)

    def cell(self, box: Rectangle, words: str, *, fill: str, tip: str) -> None:
        """Add a filled box with centered text and a tooltip."""
        x, y, width, height = box
        label = f'<text x="{x + width / 2:g}" y="{y + height / 2 + 4:g}">{escape(words)}</text>'
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        shape = f'<rect {place} fill="{fill}" stroke="{PAPER}"/>'
        self.parts.append(f"<g><title>{escape(tip)}</title>{shape}{label if words else ''}</g>")
        self._reach(x + width, y + height)

    def outline(self, box: Rectangle, thickness: int) -> None:
        """Add an unfilled frame."""
        x, y, width, height = box
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self.parts.append(f'<rect {place} rx="3" fill="none" stroke="{LINE}" stroke-width="{thickness}"/>')
        self._reach(x + width, y + height)

    def open_cells(self) -> None:
        """Begin a group of cells: small font, centered, thin borders."""
        style = f'font-size="11" text-anchor="middle" fill="{INK}"'
        self.parts.append(f'<g class="cells" {style}>')

    def close(self) -> None:
        """End a group."""
        self.parts.append("</g>")

    def place(self, other: Drawing, x: float, y: float) -> None:
        """Add another drawing with its corner at (x, y)."""
        self.parts.append(f'<g transform="translate({x:g} {y:g})">{"".join(other.parts)}</g>')
        self._reach(x + other.width, y + other.height)

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def document(self, label: str, *, margin: float = 12) -> str:
        """Return the whole SVG element; `label` is its text for screen readers."""
        body = "".join(self.parts)
        # Several pictures share a page: a pattern must not refer to another, hidden one.
        hatch = "hatch-" + hashlib.sha256((label + body).encode()).hexdigest()[:10]
        wide, high = self.width + 2 * margin, self.height + 2 * margin
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(label)}" '
            f'width="{wide:.0f}" height="{high:.0f}" viewBox="{-margin:g} {-margin:g} {wide:.0f} {high:.0f}" '
            f'font-family="{MONO}" font-size="12" fill="{INK}">'
            f"<defs>{_HATCH.replace('ID', hatch)}</defs>"
            f'<rect x="{-margin:g}" y="{-margin:g}" width="100%" height="100%" fill="{PAPER}"/>'
            f"{body.replace('url(#hatch)', f'url(#{hatch})')}</svg>"
        )


_HATCH = (
    '<pattern id="ID" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#f3f4f6"/><rect width="2" height="6" fill="#b6bec8"/></pattern>'
)


def hsl(hue: int) -> str:
    """Return the fill color of an element of that hue in hexadecimal, light enough for dark text.

    Renderers other than browsers draw CSS color functions black.
    """
    return "#" + "".join(f"{round(255 * part):02x}" for part in hls_to_rgb(hue % 360 / 360, 0.84, 0.7))
