"""The facts about a machine, and what follows from them."""

from __future__ import annotations

from collections import Counter

import pytest

from restride.schedule.machine import Cache, Machine


@pytest.mark.parametrize("cache", [Cache(512, 4), Cache(768, 12), Cache(640, 8)], ids=str)
@pytest.mark.parametrize("step", [1, 24, 64, 96, 128, 160, 1024])
def test_rows_overflow_a_cache_where_more_of_them_share_a_place_in_its_ways_than_there_are_ways(
    cache: Cache, step: int
) -> None:
    way = cache.size // cache.ways
    for rows in range(1, 200):
        shared = Counter(row * step % way for row in range(rows))
        assert cache.overflows(rows, step) == (max(shared.values()) > cache.ways)


def test_a_way_of_the_first_cache_is_a_page() -> None:
    machine = Machine()
    assert machine.first_cache.size // machine.first_cache.ways == machine.page


def test_the_second_cache_has_the_size_that_was_told() -> None:
    assert Machine(l2=3 << 20).second_cache.size == 3 << 20


def test_rows_of_no_distance_are_one_row() -> None:
    assert not Cache(512, 4).overflows(1 << 20, 0)
