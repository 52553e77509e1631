"""The terms of resampling: for each element along a dim, which positions it reads with what weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...ir.computation import Array

NEAREST = "nearest"

LINEAR = "linear"

ALGORITHMS = (NEAREST, LINEAR)


@dataclass(frozen=True, slots=True, eq=False)
class DimTerm:
    """A term along a dim: the position each element of the result reads, and its weight."""

    index: Array
    weights: Array


def dim_terms(alg: str, src: int, dst: int) -> tuple[DimTerm, ...]:
    """Return which of `src` elements each of `dst` elements reads."""
    at = (np.arange(dst, dtype=np.float32) + np.float32(0.5)) * np.float32(src) / np.float32(max(dst, 1))
    at = at - np.float32(0.5)
    if alg == NEAREST:
        near = np.clip(np.floor(at + np.float32(0.5)), 0, max(src - 1, 0)).astype(np.int64)
        return (DimTerm(near, np.ones(dst, np.float32)),)
    low = np.floor(at)
    weight = (at - low).astype(np.float32)
    places = (np.clip(low + more, 0, max(src - 1, 0)).astype(np.int64) for more in (0, 1))
    pair = zip(places, (np.float32(1) - weight, weight), strict=True)
    return tuple(DimTerm(index, part) for index, part in pair if part.any())


def gradient_terms(alg: str, src: int, dst: int) -> tuple[DimTerm, ...]:
    """Return the terms of each of `src` elements: those of `dst` that read it, in order.

    Each element has equally many terms: if one has fewer, its first is split in halves, since a term of
    weight 0 would turn an infinite gradient there into NaN. Without terms, it reads position 0 with weight 0.
    """
    terms = dim_terms(alg, src, dst)
    place = np.concatenate([term.index for term in terms]) if terms else np.zeros(0, np.int64)
    look = np.tile(np.arange(dst), len(terms))
    weight = np.concatenate([term.weights for term in terms]).astype(np.float64) if terms else np.zeros(0)
    order = np.lexsort((weight, look, place))
    order = order[weight[order] != 0]
    place, look, weight = place[order], look[order], weight[order]
    counts = np.bincount(place, minlength=src)
    most = int(counts.max(initial=0)) or 1
    index, weights = np.zeros((most, src), np.int64), np.zeros((most, src))
    missing = (most - counts)[place]
    rank = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
    index[rank + missing, place], weights[rank + missing, place] = look, weight
    for halves in range(1, most):
        split = place[(rank == 0) & (missing == halves)]
        whole = weights[halves, split].copy()
        for number in range(halves):
            index[number, split], weights[number, split] = index[halves, split], whole / 2 ** (number + 1)
        weights[halves, split] = whole - weights[:halves, split].sum(0)
    return tuple(DimTerm(*each) for each in zip(index, weights, strict=True))


class Tap(NamedTuple):
    """A term over all dims: tables by dim, and the weights over the spatial dims, None for ones."""

    tables: dict[int, Array]
    weights: Array | None


def taps_of(by_dim: dict[int, tuple[DimTerm, ...]], sizes: Sequence[int]) -> list[Tap]:
    """Return all combinations of terms along some dims, for a result with spatial dims of these sizes."""
    taps: list[Tap] = []
    for chosen in itertools.product(*by_dim.values()):
        weights = np.ones((), np.float32)
        parts = dict(zip(by_dim, chosen, strict=True))
        for dim, size in enumerate(sizes, 2):
            along = np.array(parts[dim].weights, np.float32) if dim in parts else np.ones(size, np.float32)
            weights = weights[..., None] * along
        is_one = bool((weights == 1).all())
        taps.append(Tap({dim: part.index for dim, part in parts.items()}, None if is_one else weights))
    return taps
