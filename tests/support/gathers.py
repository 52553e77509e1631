"""Loop trees whose indices are elements of tensors, and loops in order, each with what NumPy makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from restride.desc.memory_desc import MemoryDesc
from restride.ir.conversion import Array
from restride.ir.parse import parse_tree
from restride.ir.tree import LoopTree, TreeTensor

from .trees import flat_of, values_in

Formula = Callable[..., Array]


class Gather(NamedTuple):
    """A tree: its tensors, the last one written, the text of its loops, and a formula of the other values."""

    mds: dict[str, MemoryDesc]
    loops: str
    formula: Formula

    def tree(self) -> LoopTree:
        tensors = [str(TreeTensor.of_desc(name, md)) for name, md in self.mds.items()]
        return parse_tree("\n".join(tensors) + self.loops)

    def flats(self, seed: int = 0) -> list[Array]:
        """Values for the tensors: of integers any, so that most are no index; the last one is all zeros."""
        rng = np.random.default_rng(seed)
        *read, written = self.mds.values()
        flats = [
            flat_of(md, rng.integers(-30 if md.data_type.kind != "uint" else 0, 30, md.dims)) for md in read
        ]
        return [*flats, flat_of(written, np.zeros(written.dims), fill=0)]

    def result(self, flat: Array) -> Array:
        """The values of what is written."""
        return values_in(list(self.mds.values())[-1], flat)

    def wanted(self, flats: list[Array]) -> Array:
        """Compute the result with NumPy."""
        *read, _ = self.mds.values()
        return self.formula(*(values_in(md, flat) for md, flat in zip(read, flats, strict=False)))


def inside(index: Array, size: int) -> Array:
    """Real numbers as indices of a dim: from its end where they are below 0, and the nearer end."""
    at = index.astype(np.int64)
    return np.clip(np.where(at < 0, at + size, at), 0, size - 1)


def _added(index: Array, values: Array, size: int) -> Array:
    found = np.zeros((size, *values.shape[1:]), np.float32)
    for at, row in zip(inside(index, size), values, strict=True):
        found[at] += row
    return found


def _last(index: Array, values: Array, size: int) -> Array:
    found = np.zeros((size, *values.shape[1:]), np.float32)
    for at, row in zip(inside(index, size), values, strict=True):
        found[at] = row
    return found


def _halves(x: Array) -> Array:
    found = np.zeros_like(x)
    for t in range(x.shape[0]):
        found[t] = x[t] + (found[t - 1] / 2 if t else 0)
    return found


def _windows(x: Array, i: Array) -> Array:
    taken = np.pad(x[inside(i, len(x))], 1)
    return taken[:-2] + taken[1:-1] + taken[2:]


def _md(dims: tuple[int, ...], kind: str = "f32", tag: str = "") -> MemoryDesc:
    return MemoryDesc(dims, kind, tag or "abcd"[: len(dims)])


def _rows(tag: str, kind: str) -> Gather:
    mds = {"x": _md((5, 21), "f32", tag), "i": _md((3, 4), kind), "y": _md((3, 4, 21))}
    return Gather(
        mds, "\neach a 3, b 4, j 21:\n  y[a, b, j] = x[i[a, b], j] * 2", lambda x, i: 2 * x[inside(i, 5)]
    )


def _elements(kind: str, tag: str) -> Gather:
    mds = {"x": _md((9,)), "i": _md((137,), kind, tag), "y": _md((137,))}
    return Gather(mds, "\neach a 137:\n  y[a] = x[i[a]]", lambda x, i: x[inside(i, 9)])


def _columns(tag: str) -> Gather:
    mds = {"x": _md((6, 19), "s8", tag), "i": _md((37,), "s32"), "y": _md((6, 37), "u8", tag)}
    loops = "\neach a 6, b 37:\n  y[a, b] = x[a, i[b]]"
    return Gather(mds, loops, lambda x, i: np.maximum(x[:, inside(i, 19)], 0))


def _scattered(tag: str, added: bool) -> Gather:
    mds = {"x": _md((40, 9)), "i": _md((40,), "s32"), "y": _md((6, 9), "f32", tag)}
    old = "y[i[t], c] + " if added else ""
    loops = f"\neach t 40 in order:\n  each c 9:\n    y[i[t], c] = {old}x[t, c]"
    return Gather(mds, loops, lambda x, i: (_added if added else _last)(i, x, 6))


def _scattered_along_columns(tag: str) -> Gather:
    mds = {"x": _md((5, 40)), "i": _md((40,), "s8"), "y": _md((5, 20), "f32", tag)}
    loops = "\neach t 40 in order, n 1:\n  each c 5:\n    y[c, i[t]] = y[c, i[t]] + x[c, t]"
    return Gather(mds, loops.replace(" in order, n 1", ", n 1 in order"), lambda x, i: _added(i, x.T, 20).T)


_SCAN = """
each t 30 in order:
  each c 21:
    local old[1]
    old[0] = 0
    each once:
      where 0 <= t - 1 < 30
      old[0] = y[t - 1, c]
    y[t, c] = x[t, c] + old[0] * 0.5"""
_STATE = """
each c 21:
  local h[1]
  h[0] = 0
  each t 30 in order:
    h[0] = h[0] / 2 + x[t, c]
    y[t, c] = h[0]"""
_FOLD = """
each b 5, j 21:
  each k 7:
    s = sum(x[i[b, k], j])
  y[b, j] = s"""
_LAST = """
each j 21:
  each t 30 in order:
    m, p = argmax(x[i[t], j], index(t))
  y[j] = m"""
_WINDOW = """
each a 50:
  each k 3:
    where 0 <= a + k - 1 < 50
    s = sum(x[i[a + k - 1]])
  y[a] = s"""

CASES = {
    **{
        f"rows of {tag} by {kind}": _rows(tag, kind)
        for tag in ("ab", "ba", "aB8b", "Ab4a")
        for kind in ("s8", "s16", "s32", "s64")
    },
    **{
        f"elements by {kind} in {tag}": _elements(kind, tag)
        for kind in ("s64", "s32", "s16", "s8", "u32", "u16", "u8")
        for tag in ("a", "A16a")
    },
    **{f"columns of {tag}": _columns(tag) for tag in ("ab", "ba", "aB16b")},
    **{f"scattered rows of {tag}": _scattered(tag, False) for tag in ("ab", "ba", "aB8b")},
    **{f"added rows of {tag}": _scattered(tag, True) for tag in ("ab", "ba", "aB8b", "Ab8a")},
    **{f"added columns of {tag}": _scattered_along_columns(tag) for tag in ("ab", "aB8b")},
    "both": Gather(
        {"x": _md((6, 7)), "i": _md((4,), "s8"), "j": _md((33,), "s32"), "y": _md((4, 33))},
        "\neach a 4, b 33:\n  y[a, b] = x[i[a], j[b]]",
        lambda x, i, j: x[inside(i, 6)][:, inside(j, 7)],
    ),
    "guarded": Gather({"x": _md((11,)), "i": _md((50,), "s32"), "y": _md((50,))}, _WINDOW, _windows),
    "folded": Gather(
        {"x": _md((9, 21)), "i": _md((5, 7), "s32"), "y": _md((5, 21))},
        _FOLD,
        lambda x, i: x[inside(i, 9)].sum(1),
    ),
    "folded in order": Gather(
        {"x": _md((9, 21)), "i": _md((30,), "s32"), "y": _md((21,))},
        _LAST,
        lambda x, i: x[inside(i, 9)].max(0),
    ),
    **{
        f"{name} along {tag}": Gather(
            {"x": _md((30, 21), "f32", tag), "y": _md((30, 21), "f32", tag)}, text, _halves
        )
        for name, text in (("scan", _SCAN), ("state", _STATE))
        for tag in ("ab", "ba", "aB8b")
    },
}
"""Cases by name."""
