"""Details behind the table: speed over size, one transpose step by step, instructions; a page and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import (
    attention,
    instructions,
    jax_programs,
    ladder,
    layers,
    memory_bound,
    permutations,
    predictions,
    quantized,
    roofline,
    stored_formats,
)
from .pages import page, write_both
from .study import BenchRow, BenchSetup, Study

STUDIES: Mapping[str, Study] = {
    "roofline": roofline.STUDY,
    "ladder": ladder.STUDY,
    "instructions": instructions.STUDY,
    "formats": stored_formats.STUDY,
    "layers": layers.STUDY,
    "primitives": memory_bound.STUDY,
    "levels": memory_bound.STUDY_OF_LEVELS,
    "attention": attention.STUDY,
    "quantized": quantized.STUDY,
    "jax": jax_programs.STUDY,
    "permutations": permutations.STUDY,
    "predictions": predictions.STUDY,
}


@dataclass
class Studies:
    """The rows of one run by the names of studies, on which machine, versions and settings."""

    about: dict[str, dict[str, str]] = field(default_factory=dict)
    rows: dict[str, list[BenchRow]] = field(default_factory=dict)

    @property
    def is_quick(self) -> bool:
        """True if the figures are not to be quoted."""
        return "quick" in self.about.get("settings", {})

    @property
    def wrong(self) -> list[str]:
        """Every wrong answer."""
        rows = [row for name in STUDIES for row in self.rows.get(name, [])]
        return [f"{row.name}: {side}: {why}" for row in rows for side, why in row.wrong.items()]

    def run(self, name: str, setting: BenchSetup) -> None:
        """Measure the rows of one of STUDIES."""
        self.rows[name] = STUDIES[name].measure(setting)


def write(studied: Studies, folder: Path, name: str = "inside") -> list[Path]:
    """Write `<name>.json` and `<name>.md` into `folder`."""
    return write_both(folder / name, as_json(studied), as_markdown(studied))


def as_json(studied: Studies) -> dict[str, Any]:
    """Plain values: seconds as quartiles, bytes, instructions."""
    rows = {name: [row.values() for row in studied.rows.get(name, [])] for name in STUDIES}
    return {**studied.about, **rows}


def as_markdown(studied: Studies) -> str:
    """One page."""
    facts = [f"{name}: {value}" for part in studied.about.values() for name, value in part.items()]
    sections = {study.title: study.page(studied.rows.get(name, [])) for name, study in STUDIES.items()}
    wrong = "\n".join(f"- {line}" for line in studied.wrong)
    return page("Looking inside", facts, {**sections, "Wrong answers": wrong})
