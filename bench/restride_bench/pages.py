"""Reports of results: Markdown tables, a page, and JSON files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .measure import Quartiles, geometric_mean
from .study import MEMCPY, OWN, BenchRow

Columns = Mapping[str, Callable[[BenchRow], str]]
"""The heads of a table, and what stands below each."""
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B"))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; "" without rows."""
    lines = [head, ["---"] * len(head), *rows] if rows else []
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cells(rows: Iterable[BenchRow], columns: Columns) -> list[list[str]]:
    """A line for each row."""
    return [[cell(row) for cell in columns.values()] for row in rows]


def sides(rows: Iterable[BenchRow], *without: str) -> list[str]:
    """The sides that have a time in some row, but for memcpy, our own, and those that are named."""
    return [
        side
        for side in dict.fromkeys(s for r in rows for s in r.times)
        if side not in (OWN, MEMCPY, *without)
    ]


def ratio(value: Quartiles | float | None) -> str:
    """A ratio, or a dash where there is none."""
    value = value.median if isinstance(value, Quartiles) else value
    return "–" if value is None else f"{value:.2f}"


def mean_of(values: Iterable[Quartiles | None]) -> tuple[float, float] | None:
    """Geometric mean and least of those that are there."""
    there = [value.median for value in values if value is not None]
    mean = geometric_mean(there)
    return None if mean is None else (mean, min(there))


def gb(rate: float) -> str:
    """Bytes per second as GB/s, with digits enough that quotients of two agree with their ratio."""
    return f"{rate / 1e9:.1f}" if rate >= 9.95e9 else f"{rate / 1e9:.2f}"


def size_words(nbytes: float) -> str:
    """A number of bytes in decimal units, such as "103 MB"."""
    unit, name = next((each for each in _UNITS if nbytes >= each[0]), _UNITS[-1])
    return f"{nbytes / unit:.3g} {name}"


def page(title: str, facts: Iterable[str], sections: Mapping[str, str]) -> str:
    """One page of the sections that are not empty."""
    parts = [f"# {title}", "\n".join(f"- {fact}" for fact in facts)]
    parts += [f"## {name}\n\n{body}" for name, body in sections.items() if body]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_both(stem: Path, values: dict[str, Any], text: str) -> list[Path]:
    """Write values as JSON, and a page."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    texts = {".json": json.dumps(values, indent=1, ensure_ascii=False) + "\n", ".md": text}
    for suffix, each in texts.items():
        stem.with_suffix(suffix).write_text(each, encoding="utf-8")
    return [stem.with_suffix(suffix) for suffix in texts]
