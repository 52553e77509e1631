"""Wide sweeps, of which every change runs a part.

`@pytest.mark.sweep(n)` above a stack of `parametrize`: on each engine so many of the cases run at every
change that each choice of values of any n arguments is in one of them. The others are slow; on SYCL devices
none is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations

import pytest

# Of so many cases of a test the second device runs one at every change: it is the CPU behind other handles,
# and what only it has is alike in all cases.
_SHARE_OF_SECOND = 4
_Case = tuple[int, ...]


def widest(levels: Sequence[str]) -> pytest.MarkDecorator:
    """Parameters `level`: every change runs the last of them, the widest; the others are slow."""
    *narrower, last = levels
    slow = [pytest.param(level, marks=pytest.mark.slow) for level in narrower]
    return pytest.mark.parametrize("level", [*slow, last])


def beside_sweeps(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests that not every change runs."""
    beside = []
    for (_, engine), cases in _cases_by_test(items).items():
        chosen = _chosen(cases)
        if engine == "second":
            chosen = chosen[::_SHARE_OF_SECOND]
        beside += [case for number, case in enumerate(cases) if number not in set(chosen)]
    return beside


def _cases_by_test(items: Iterable[pytest.Item]) -> dict[tuple[str, Hashable], list[pytest.Item]]:
    """The cases of each test on each engine; those alone that would run at every change."""
    found = defaultdict(list)
    for item in items:
        values = item.callspec.params if hasattr(item, "callspec") else {}
        if values and "slow" not in item.keywords and "sycl" not in item.keywords:
            engine = values.get("engine")
            found[item.nodeid.partition("[")[0], engine if isinstance(engine, str) else ""].append(item)
    return found


def _chosen(items: Sequence[pytest.Item]) -> list[int]:
    mark = items[0].get_closest_marker("sweep")
    if mark is None:
        return list(range(len(items)))
    axes = [_names(way.args[0]) for way in items[0].iter_markers("parametrize")]
    places = [
        _places([tuple(id(item.callspec.params[name]) for name in axis) for item in items]) for axis in axes
    ]
    return covering(list(zip(*places, strict=True)), *mark.args)


def _names(names: str | Sequence[str]) -> Sequence[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


def _places(values: Sequence[Hashable]) -> list[int]:
    """Numbers in place of values, in the order in which they come."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def covering(cases: Sequence[_Case], together: int) -> list[int]:
    """Numbers of few cases, the same each time, that have each choice of `together` coordinates of a case."""
    choices = [set(combinations(enumerate(case), together)) for case in cases]
    having = defaultdict(list)
    for number, some in enumerate(choices):
        for choice in some:
            having[choice].append(number)
    missing, found = dict.fromkeys(sorted(having)), []
    while missing:
        number = max(having[next(iter(missing))], key=lambda number: len(choices[number] & missing.keys()))
        for choice in choices[number]:
            missing.pop(choice, None)
        found.append(number)
    return sorted(found)
