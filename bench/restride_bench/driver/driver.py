"""What makes a driver: the case, its knobs, what a problem looks like, what is run, and what is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .cases import Case
from .knobs import Knob, parse_dims
from .work import CaseWork


def _nothing(case: Any) -> Iterator[str]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Driver:
    """A primitive that the driver runs.

    `case` holds one test, which `knobs` and the words that `parse` reads make; `work` says what is run.
    `types` are the names of its data types, `invalid` why a case makes no sense: both are reasons to skip it.
    `template` is what the performance template `csv` has of it.
    """

    case: type[Case]
    knobs: dict[str, Knob]
    work: Callable[[Any], CaseWork]
    types: Callable[[Any], tuple[str, ...]]
    template: str
    invalid: Callable[[Any], Iterator[str]] = _nothing
    parse: Callable[[str], dict[str, Any]] = parse_dims
