"""The descriptions of error codes, from the catalog: one entry for each code."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import CATALOGUE

PAGE = Path(CATALOGUE)
_ENTRY = re.compile(
    r"^## (?P<code>RS-[A-Z]\d\d) (?P<title>[^\n]+)\n+(?P<meaning>.+?)\n+"
    r"```(?P<language>py|sh)\n(?P<example>.+?)```\n+(?P<remedy>.+?)\n*(?=^## |^```text|\Z)",
    re.MULTILINE | re.DOTALL,
)
_LIKE_A_CODE = re.compile(r"rs-.*|[a-z]\d{1,2}", re.IGNORECASE)
_SHORT = re.compile(r"(?:RS-?)?([A-Z])(\d{1,2})")
_WIDEST = 100
# Names that examples assume, with the statements that define them.
_GIVEN = {
    "np": "import numpy as np",
    "rs": "import restride as rs",
    "x": "x = np.ones((2, 16, 4, 4), np.float32)",
    "md": 'md = rs.MemoryDesc((2, 16, 4, 4), "f32", "nchw")',
    "engine": 'engine = rs.Engine("cpu")',
    "stream": "stream = rs.onednn.Stream(engine)",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One error code: its meaning, an example that causes it (Python or shell), and the remedy."""

    code: str
    title: str
    meaning: str
    language: str
    example: str
    remedy: str

    def script(self) -> str:
        """The example with everything that it assumes."""
        lines = [self.example.rstrip()]
        for name, line in reversed(_GIVEN.items() if self.language == "py" else ()):
            if any(re.search(rf"\b{name}\b(?!\.npy)", used) for used in lines):
                lines.insert(0, line)
        return "\n".join(lines)

    def text(self, width: int) -> str:
        """Return the entry for a terminal of `width` columns."""
        example = "\n".join(["For example", "", textwrap.indent(self.script(), "    ")])
        heading = f"{self.code}  {self.title}"
        return "\n\n".join([heading, _fill(self.meaning, width), example, _fill(self.remedy, width)])


@cache
def refusals() -> Mapping[str, Refusal]:
    """Return all entries by code, in the order of the page."""
    text = PAGE.read_text(encoding="utf-8")
    return {entry["code"]: Refusal(**entry.groupdict()) for entry in _ENTRY.finditer(text)}


def is_like_a_code(text: str) -> bool:
    """Return True for text like a code and not a format: `RS-M11`, `rs-x`, `m11`; no tag has a hyphen."""
    return _LIKE_A_CODE.fullmatch(text) is not None


def spelled_out(text: str) -> str:
    """Return a code as in messages: `n9` is RS-N09."""
    short = _SHORT.fullmatch(text.upper())
    return f"RS-{short[1]}{int(short[2]):02}" if short else text.upper()


def listed() -> str:
    """Return a line for each code, with a blank line between letters."""
    lines: list[str] = []
    for code, entry in refusals().items():
        if lines and lines[-1][:4] != code[:4]:
            lines.append("")
        lines.append(f"{code}  {entry.title}")
    return "\n".join(lines)


def _fill(text: str, width: int) -> str:
    return textwrap.fill(text, min(width, _WIDEST), break_on_hyphens=False)
