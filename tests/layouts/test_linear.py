"""Linear layouts and swizzles, against their definition on every index."""

from __future__ import annotations

from functools import reduce
from operator import xor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restride.layouts import ComposedLayout, Layout, LinearLayout, Swizzle
from support.errors import refused
from support.layouts import flat, layouts, offsets

_BASES = st.lists(st.integers(0, 63), max_size=6)


def _table(bases: list[int]) -> list[int]:
    chosen = ([basis for i, basis in enumerate(bases) if at >> i & 1] for at in range(2 ** len(bases)))
    return [reduce(xor, each, 0) for each in chosen]


@given(_BASES)
def test_offsets_are_the_xor_of_bases(bases: list[int]) -> None:
    a = LinearLayout(bases)
    assert a.offsets().tolist() == _table(bases) == [a(i) for i in range(a.size)]
    assert LinearLayout.from_matrix(a.matrix) == a == eval(repr(a))
    assert 2**a.bit_rank == len(set(_table(bases)))
    bits = np.arange(a.size) >> np.arange(len(bases))[:, None] & 1
    product = a.matrix.astype(int) @ bits % 2
    assert (product.T @ (1 << np.arange(len(product))) == a.offsets()).all()


@given(_BASES, _BASES)
def test_composition_is_the_function_of_the_function(outer: list[int], inner: list[int]) -> None:
    a, b = LinearLayout(outer), LinearLayout(inner)
    if b.cosize > a.size:
        with refused("RS-A18"):
            a.compose(b)
    else:
        assert a.compose(b).offsets().tolist() == [_table(outer)[i] for i in _table(inner)]


@given(_BASES)
def test_inverses_exist_where_they_can(bases: list[int]) -> None:
    a, table = LinearLayout(bases), _table(bases)
    if len(set(table)) == a.size:
        assert [a.left_inverse()(offset) for offset in table] == list(range(a.size))
    else:
        with refused("RS-A18"):
            a.left_inverse()
    if set(table) == set(range(a.cosize)):
        assert [a(i) for i in a.right_inverse().offsets()] == list(range(a.cosize))
    else:
        with refused("RS-A18"):
            a.right_inverse()
    if sorted(table) == list(range(a.size)):
        assert a.inverse().offsets().tolist() == np.argsort(table).tolist()
    else:
        with refused("RS-A18"):
            a.inverse()


@given(layouts())
def test_a_layout_is_linear_where_its_function_is(a: Layout) -> None:
    table = offsets(a)
    powers = not any(n & (n - 1) for n in flat(a.shape))
    if powers and all(table[i ^ j] == table[i] ^ table[j] for i in range(a.size) for j in range(a.size)):
        found = LinearLayout.from_layout(a)
        assert (found.shape, found.offsets().tolist()) == (a.shape, table)
        assert offsets(found.to_layout()) == table
    else:
        with refused("RS-A18"):
            LinearLayout.from_layout(a)


@given(st.integers(0, 3), st.integers(0, 3), st.integers(-4, 4))
def test_a_swizzle_moves_bits_as_cute_does_and_undoes_itself(bits: int, base: int, shift: int) -> None:
    if abs(shift) < bits:
        with refused("RS-A18"):
            Swizzle(bits, base, shift)
        return
    swizzle = Swizzle(bits, base, shift)
    mask = (2**bits - 1) << base + max(0, shift)
    for offset in range(2 ** (bits + base + abs(shift) + 1)):
        read = offset & mask
        assert swizzle(offset) == offset ^ (read >> shift if shift >= 0 else read << -shift)
        assert swizzle.inverse()(swizzle(offset)) == offset


def test_a_swizzled_layout_is_a_function_and_a_matrix() -> None:
    swizzle, tile = Swizzle(3, 3, 3), Layout("(8,64):(64,1)")
    found = swizzle.compose(tile)
    assert str(found) == "Sw<3,3,3> o 0 o (8,64):(64,1)"
    assert found.offsets().tolist() == [swizzle(offset) for offset in offsets(tile)]
    matrix = LinearLayout.from_layout(found)
    assert matrix.offsets().tolist() == found.offsets().tolist()
    assert matrix == LinearLayout.from_layout(swizzle).compose(tile)
    assert matrix.inverse().compose(matrix).bases == tuple(1 << i for i in range(9))
    assert LinearLayout.from_layout(swizzle).bases[:6] == (1, 2, 4, 8, 16, 32)
    assert (found(3, 5), found.cosize, found.rank, found.size) == (swizzle(197), 512, 2, 512)
    assert Swizzle(2, 0, 2).compose("(3,5):(5,1)").offsets().max() == 15


REFUSED = [
    *(lambda b=b: LinearLayout(b) for b in (None, 5, [1.5], [-1], [2**62], [1] * 63, ["a"], [float("nan")])),
    *(lambda s=s: LinearLayout([1, 2], s) for s in (3, (2, 2, 2), (1, 3), "4", 8)),
    *(lambda m=m: LinearLayout.from_matrix(m) for m in (None, [1], [[2]], np.zeros((2, 99)), [["a"]], "x")),
    *(lambda x=x: LinearLayout.from_layout(x) for x in ("3:1", "(2,2):(1,1)", "4:-1", None, object())),
    *(
        lambda a=a: Swizzle(*a)
        for a in ((-1, 0, 0), (0, -1, 0), (3, 0, 2), (1.5, 0, 3), (3, 60, 3), ("a", 0, 0))
    ),
    lambda: Swizzle(3, 4, 3)(-1),
    lambda: Swizzle(3, 4, 3)("x"),
    lambda: Swizzle(3, 4, 3).compose("4:-1"),
    lambda: Swizzle(3, 4, 3).compose(None),
    lambda: ComposedLayout("a", Layout(4)),
    lambda: ComposedLayout(Swizzle(1, 1, 1), "4"),
    lambda: LinearLayout([3, 1]).to_layout(),
    lambda: LinearLayout([1, 2]).compose("8:1"),
    lambda: LinearLayout([1] * 40).offsets(),
]


@pytest.mark.parametrize("make", REFUSED, ids=range(len(REFUSED)))
def test_what_is_not_linear_is_refused(make: Any) -> None:
    with refused():
        make()


def test_a_composed_layout_is_read_as_it_is_printed_and_divided() -> None:
    text = "Sw<2,3,3> o 0 o (32,32):(32,1)"
    layout = ComposedLayout.parse(text)
    assert str(layout) == text
    tiled = layout.divide("4")
    assert sorted(tiled.offsets()) == sorted(layout.offsets())
    with refused("RS-A18"):
        ComposedLayout.parse("(4,8)")
