"""A random problem of a primitive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import restride as rs

Pd = Any


@dataclass(frozen=True)
class RandomProblem:
    """A primitive, and what makes its descriptor on an engine. `positions`: of a window, which a workspace
    may name.
    """

    primitive: Any
    pd: Callable[[rs.Engine], Pd]
    positions: int = 0
