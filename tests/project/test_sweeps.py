"""Sweeps: the part that every change runs has what it promises, and the rest is not lost."""

from __future__ import annotations

from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import pytest

from support.sweeps import beside_sweeps, covering


@pytest.mark.parametrize("together", [1, 2, 3])
@pytest.mark.parametrize("extents", [(4, 3, 5), (2, 7, 2, 3), (1, 6, 6, 1), (8, 4, 3, 2, 2)], ids=str)
def test_each_choice_of_places_is_in_a_case(extents: tuple[int, ...], together: int) -> None:
    cases = list(product(*map(range, extents)))
    found = covering(cases, together)
    assert found == covering(cases, together) == sorted(set(found))
    for axes in combinations(range(len(extents)), together):
        some = {tuple(cases[number][axis] for axis in axes) for number in found}
        assert some == set(product(*(range(extents[axis]) for axis in axes)))


def test_cases_are_few() -> None:
    def count(*extents: int, together: int) -> int:
        return len(covering(list(product(*map(range, extents))), together))

    assert count(12, 4, 3, together=1) == 12
    assert count(12, 4, 3, together=2) < 60
    assert count(7, 5, together=2) == 35


_LETTERS, _NUMBERS = ("a", "b", "c", "slow"), range(5)
_MARKS = {
    "sweep": pytest.mark.sweep(1).mark,
    "letter": pytest.mark.parametrize("letter", _LETTERS).mark,
    "number": pytest.mark.parametrize(("number", "twin"), [(number, number % 2) for number in _NUMBERS]).mark,
}


def _item(engine: str, letter: str, number: int) -> Any:
    """A case as pytest collects it."""
    params = {"engine": engine, "letter": letter, "number": number, "twin": number % 2}
    return SimpleNamespace(
        nodeid=f"test_one.py::test_it[{engine}-{letter}-{number}]",
        keywords={engine, letter},
        callspec=SimpleNamespace(params=params),
        get_closest_marker=_MARKS.get,
        iter_markers=lambda _: [_MARKS["letter"], _MARKS["number"]],
    )


def test_each_engine_runs_a_part_and_the_slow_tests_the_rest() -> None:
    items = [_item(*case) for case in product(("cpu", "reference", "second", "sycl"), _LETTERS, _NUMBERS)]
    beside = beside_sweeps(items)
    run = [item for item in items if item not in beside]
    assert {item.nodeid for item in run if "slow" in item.keywords} == {
        item.nodeid for item in items if "slow" in item.keywords
    }
    fast = [item.callspec.params for item in run if "slow" not in item.keywords]
    for engine in ("cpu", "reference"):
        cases = [case for case in fast if case["engine"] == engine]
        assert len(cases) == 5
        assert {case["letter"] for case in cases} == set(_LETTERS) - {"slow"}
        assert {case["number"] for case in cases} == set(_NUMBERS)
    assert [case["engine"] for case in fast].count("second") == 2
    assert [case["engine"] for case in fast].count("sycl") == 15
