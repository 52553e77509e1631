"""Studies of moves: permuted axes and predictions give rows with right answers, and tables of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import restride as rs
from restride_bench import permutations, predictions
from restride_bench.rows import suite
from restride_bench.study import BenchSetup


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = rs.get_num_threads()
    yield
    rs.set_num_threads(before)


def test_permutations_are_of_plain_arrays_and_of_many_axes() -> None:
    rows = list(permutations.rows())
    assert {len(row.shape) for row in rows} >= {2, 3, 4, 5, 6, 13, 26}
    assert all(sorted(row.order) == list(range(len(row.shape))) for row in rows)
    setting = BenchSetup([], [], threads=1, rounds=1, largest=1 << 17)
    found = permutations.measure(setting)
    assert [row.moved for row in found] == [1 << 16, 1 << 17] * 2
    assert not any(row.wrong for row in found)
    page = permutations.page(found)
    assert "| axes of 2: × NumPy |" in page
    assert "13 axes of 2 →" in page


def test_predictions_are_compared_with_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    small = [row for row in suite() if row.group == "in the caches"][:4]
    monkeypatch.setattr(predictions, "suite", lambda **_: small)
    found = predictions.measure(BenchSetup([], [], threads=1, rounds=1, largest=1 << 30))
    assert {row.name for row in found} == {row.label for row in small}
    assert all(row.about["predicted"] > 0 for row in found)
    assert "Of 4 rows" in predictions.page(found)
