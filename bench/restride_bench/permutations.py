"""Permuted axes of plain arrays: of ranks 2 to 6, as the benchmark set of HPTT has, and of up to 26 bits.

A tensor of a network of tensors, or the state of a quantum computer, has many axes of two; each permutation
of them is another, and most have no two axes that stay together. Results lie in order of their axes, in
memory that begins at a cache line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

import restride as rs

from .pages import Columns, cells, gb, mean_of, ratio, size_words, table
from .peer import PreparedCall
from .problem import storage
from .study import MEMCPY, OWN, BenchRow, BenchSetup, RowPlan, Study, race


class PermutationRow(NamedTuple):
    """An array of f32 and the order of its axes in the result."""

    group: str
    shape: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def name(self) -> str:
        """The row as the table has it."""
        words = "x".join(map(str, self.shape)) if len(self.shape) < 8 else f"{len(self.shape)} axes of 2"
        return f"{words} → {','.join(map(str, self.order))}"


# About 32 MB moved each: extents alike and not, the first axis that stays and one that does not.
_PLAIN = (
    *(((2048, 2048), (1, 0)), ((3616, 1216), (1, 0)), ((1216, 3616), (1, 0))),
    *(((160, 160, 160), order) for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1))),
    *(((1072, 32, 112), (2, 1, 0)), ((96, 96, 464), (0, 2, 1)), ((464, 96, 96), (1, 0, 2))),
    *(((48, 48, 40, 48), order) for order in ((0, 3, 2, 1), (2, 1, 3, 0), (3, 2, 1, 0), (2, 0, 3, 1))),
    *(((16, 96, 16, 144), (1, 3, 0, 2)), ((144, 16, 96, 16), (3, 0, 2, 1))),
    *(((24, 24, 24, 16, 16), order) for order in ((0, 4, 2, 1, 3), (3, 2, 1, 4, 0), (4, 3, 2, 1, 0))),
    *(((48, 8, 16, 16, 40), (2, 0, 4, 1, 3)), ((8, 48, 16, 16, 40), (0, 3, 1, 4, 2))),
    *(
        ((16, 16, 16, 16, 16, 4), order)
        for order in ((0, 3, 2, 5, 4, 1), (3, 2, 0, 5, 1, 4), (5, 4, 3, 2, 1, 0))
    ),
)
_BITS = (13, 14, 16, 18, 20, 22, 24, 26)


def rows() -> Iterator[PermutationRow]:
    """The plain ones, and two random permutations for each number of bits."""
    yield from (PermutationRow("ranks 2 to 6", *each) for each in _PLAIN)
    random = np.random.default_rng(0)
    for bits in (*_BITS, *_BITS):
        yield PermutationRow("axes of 2", (2,) * bits, tuple(map(int, random.permutation(bits))))


def measure(setting: BenchSetup) -> list[BenchRow]:
    """All rows that are no larger than the setting has it."""
    return [measure_row(row, setting) for row in rows() if 8 * prod(row.shape) <= setting.largest]


def measure_row(row: PermutationRow, setting: BenchSetup) -> BenchRow:
    """A row compared with NumPy, and with torch if it is a peer."""
    rs.set_num_threads(setting.threads)
    nbytes = 4 * prod(row.shape)
    x = storage(nbytes).view(np.float32).reshape(row.shape)
    x[...] = np.random.default_rng(1).random(row.shape, np.float32)
    view = x.transpose(row.order)
    sides, outs = dict[str, PreparedCall](), dict[str, Any]()

    def add(name: str, copy: Any, target: Any = lambda array: array) -> None:
        outs[name] = storage(nbytes).view(np.float32).reshape(view.shape)
        sides[name] = PreparedCall(partial(copy, target(outs[name])))

    add(OWN, lambda out: rs.reorder(view, out=out))
    add("NumPy", lambda out: np.copyto(out, view))
    if setting.torch is not None:
        import torch

        axes = torch.from_numpy(x).permute(row.order)
        add("torch", lambda out: out.copy_(axes), torch.from_numpy)

    def check() -> dict[str, str]:
        return {name: "differs" for name, out in outs.items() if not np.array_equal(out, view)}

    plan = RowPlan(row.name, 2 * nbytes, sides, check, about={"group": row.group})
    return race(plan, replace(setting, peers=[]))


def page(found: Sequence[BenchRow]) -> str:
    """The means of each group, and every row."""
    columns: Columns = {
        "array → order of axes": lambda row: row.name,
        "moved": lambda row: size_words(row.moved),
        "GB/s": lambda row: gb(row.rate()),
        "of memcpy": lambda row: ratio(row.over(MEMCPY)),
        "× NumPy": lambda row: ratio(row.over("NumPy")),
        "× torch": lambda row: ratio(row.over("torch")),
    }
    means = []
    for group in dict.fromkeys(row.about["group"] for row in found):
        same = [row for row in found if row.about["group"] == group]
        for other in (MEMCPY, "NumPy", "torch"):
            if mean := mean_of(row.over(other) for row in same):
                means.append([f"{group}: {'of' if other == MEMCPY else '×'} {other}", *map(ratio, mean)])
    if not found:
        return ""
    head = table(["restride", "geometric mean", "least"], means)
    return f"{head}\n\n{table(list(columns), cells(found, columns))}"


STUDY = Study("Permuted axes", measure, page)
