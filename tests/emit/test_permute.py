"""Permutations of registers: what their masks say of lanes that nobody needs."""

from __future__ import annotations

import pytest

from restride.emit.permute import wanted_part
from restride.emit.register_permutation import NOTHING, Lanes


def _interleaved(wanted: int, ways: int = 2) -> tuple[Lanes, set[int]]:
    """64 lanes of one register taken from so many runs by turns, and which of them are wanted."""
    return tuple(i // ways + 64 // ways * (i % ways) for i in range(64)), set(range(wanted))


@pytest.mark.parametrize("wanted", [2, 8, 18, 24, 34, 40, 50, 56])
@pytest.mark.parametrize("ways", [2, 4])
def test_a_permutation_of_one_wide_register_keeps_whole_sixteens(wanted: int, ways: int) -> None:
    mask, lanes = _interleaved(wanted, ways)
    whole = -(-wanted // 16) * 16
    assert wanted_part(mask, lanes, is_alone=True) == mask[:whole] + (NOTHING,) * (64 - whole)


@pytest.mark.parametrize("wanted", [2, 8, 18, 34])
def test_other_permutations_keep_eighths(wanted: int) -> None:
    whole = -(-wanted // 8) * 8
    mask, lanes = _interleaved(wanted, 8)
    assert wanted_part(mask, lanes, is_alone=True) == mask[:whole] + (NOTHING,) * (64 - whole)
    pairs = tuple(i // 2 + 64 * (i % 2) for i in range(64))
    assert wanted_part(pairs, lanes, is_alone=False) == pairs[:whole] + (NOTHING,) * (64 - whole)
