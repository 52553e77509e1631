"""What resampling adds up: for each element along a dim, where it looks and with what weight."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .computation import Array

NEAREST = "nearest"

LINEAR = "linear"

ALGORITHMS = (NEAREST, LINEAR)


@dataclass(frozen=True, slots=True)
class DimTerm:
    """One of what is added along a dim: where each element of the result looks, and the weight there."""

    index: tuple[int, ...]
    weights: tuple[float, ...]


def dim_terms(alg: str, src: int, dst: int) -> tuple[DimTerm, ...]:
    """What each of `dst` elements looks at among `src`."""
    at = (np.arange(dst, dtype=np.float32) + np.float32(0.5)) * np.float32(src) / np.float32(max(dst, 1))
    at = at - np.float32(0.5)
    if alg == NEAREST:
        near = np.clip(np.floor(at + np.float32(0.5)), 0, max(src - 1, 0)).astype(np.int64)
        return (_term(near, np.ones(dst, np.float32)),)
    low = np.floor(at)
    weight = (at - low).astype(np.float32)
    places = (np.clip(low + more, 0, max(src - 1, 0)).astype(np.int64) for more in (0, 1))
    pair = zip(places, (np.float32(1) - weight, weight), strict=True)
    return tuple(_term(index, part) for index, part in pair if part.any())


def gradient_terms(alg: str, src: int, dst: int) -> tuple[DimTerm, ...]:
    """What each of `src` elements adds up: those of `dst` that have looked at it."""
    found: list[list[tuple[int, float]]] = [[] for _ in range(src)]
    for term in dim_terms(alg, src, dst):
        for out, (place, weight) in enumerate(zip(term.index, term.weights, strict=True)):
            if weight:
                found[place].append((out, weight))
    most = max(map(len, found), default=0) or 1
    rows = [_of_length(sorted(each), most) for each in found]
    return tuple(
        DimTerm(tuple(row[i][0] for row in rows), tuple(row[i][1] for row in rows)) for i in range(most)
    )


def _of_length(looks: list[tuple[int, float]], length: int) -> list[tuple[int, float]]:
    """So many places and weights that add up to the same. The first is split in halves: a place of weight 0
    would make a NaN of an infinite gradient there.
    """
    if not looks:
        return [(0, 0.0)] * length
    (place, weight), *rest = looks
    halves = [weight / 2**i for i in range(1, length - len(looks) + 1)]
    return [*((place, each) for each in halves), (place, weight - sum(halves)), *rest]


def _term(index: Array, weights: Array) -> DimTerm:
    return DimTerm(tuple(index.tolist()), tuple(map(float, weights)))


class Tap(NamedTuple):
    """One term of all dims: tables by dim, and the weights over the spatial dims, None for ones."""

    tables: dict[int, tuple[int, ...]]
    weights: Array | None


def taps_of(by_dim: dict[int, tuple[DimTerm, ...]], sizes: Sequence[int]) -> list[Tap]:
    """All combinations of what is added along some dims, of a result whose spatial dims have these sizes."""
    found: list[Tap] = []
    for chosen in itertools.product(*by_dim.values()):
        weights = np.ones((), np.float32)
        parts = dict(zip(by_dim, chosen, strict=True))
        for dim, size in enumerate(sizes, 2):
            along = np.array(parts[dim].weights, np.float32) if dim in parts else np.ones(size, np.float32)
            weights = weights[..., None] * along
        is_one = bool((weights == 1).all())
        found.append(Tap({dim: part.index for dim, part in parts.items()}, None if is_one else weights))
    return found
