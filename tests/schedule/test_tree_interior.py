"""Regions where guards always hold, compared with all positions."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from restride.ir.expression import Affine, TreeAxis
from restride.ir.tree import Each, Guard
from restride.schedule.trees.interior import interior


@given(
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(-3, 3).filter(bool),
    st.integers(-2, 2),
    st.integers(-6, 6),
    st.integers(1, 12),
)
def test_guards_hold_inside_and_not_at_the_edges(n, k, m, factor, other, constant, size):
    """Inside a guard holds for all of the window; at each position outside there is one for which not."""
    terms = tuple((name, each) for name, each in (("a", factor), ("k", other), ("m", 1)) if each)
    guard = Guard(Affine(terms, constant), size)
    window = Each((TreeAxis("k", k), TreeAxis("m", m)), (), (guard,))
    outer, extents = Each((TreeAxis("a", n),), (window,)), {"a": n, "k": k, "m": m}
    low, high, guards = interior(outer, "a", extents, (0, n))
    always = [
        a
        for a in range(n)
        if all(0 <= factor * a + other * i + j + constant < size for i, j in product(range(k), range(m)))
    ]
    assert guards == {guard}
    assert list(range(low, high)) == always


def test_guards_of_other_axes_and_of_divided_indices_are_left_out():
    other = Guard(Affine((("b", 1),), -1), 5)
    divided = Guard(Affine((("a", 1), ("k", 1)), 0, 2), 5)
    outer = Each((TreeAxis("a", 4),), (Each((TreeAxis("k", 2),), (), (other, divided)),))
    assert interior(outer, "a", {"a": 4, "b": 7, "k": 2}, (0, 4)) == (0, 4, frozenset())
