"""Schedules that were found, on disk: read once, by work and threads; nothing there is trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.schedule.language import parse_schedule, schedule_text
from restride.targets.cpu_kernels import lower_tree
from restride.targets.isa import CacheSizes, Isa
from restride.targets.lowered import ScheduleChoice
from restride.targets.object_store import ObjectStore
from restride.targets.schedule_store import ScheduleStore
from support.trees import softmax_tree

_ISA, _CACHES = Isa.for_name("avx2"), CacheSizes()
_SIZE = 1 << 20


def _choose(extent: int = 70) -> ScheduleChoice:
    md = MemoryDesc((8, extent, 19), "f32", "abc")
    choice = lower_tree(softmax_tree(md, md, 1), _ISA, _CACHES).loops[0].choice
    assert choice is not None
    return choice()


_OTHER = parse_schedule("vectorize(d2/1, 16) · parallel(d0/1, 1)")


def _store(folder: Path) -> ScheduleStore:
    return ScheduleStore(ObjectStore(folder / "store"), _ISA, _CACHES)


def test_what_is_kept_is_found_by_its_work_in_this_process_and_in_others(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.is_empty
    assert store.find(_SIZE, 2, _choose) is None
    store.keep(_SIZE, 2, _choose(), _OTHER)
    store.keep(_SIZE, 2, _choose(65), ())
    for each in (store, _store(tmp_path)):
        assert not each.is_empty
        assert each.find(_SIZE, 2, _choose) == _OTHER
        assert each.find(_SIZE, 2, lambda: _choose(65)) == ()
        others = [(_SIZE, 1, 70), (_SIZE + 1, 2, 70), (_SIZE, 2, 66)]
        assert [each.find(size, threads, lambda n=n: _choose(n)) for size, threads, n in others] == [None] * 3


def test_of_two_processes_both_are_kept_and_the_later_wins(tmp_path: Path) -> None:
    one, other = _store(tmp_path), _store(tmp_path)
    assert [one.is_empty, other.is_empty] == [True, True]
    one.keep(_SIZE, 1, _choose(), ())
    other.keep(_SIZE, 2, _choose(), _OTHER)
    other.keep(_SIZE, 1, _choose(), _OTHER)
    assert _store(tmp_path).find(_SIZE, 1, _choose) == _store(tmp_path).find(_SIZE, 2, _choose) == _OTHER


def test_work_of_another_size_costs_no_look_at_its_schedule(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.keep(_SIZE, 2, _choose(), _OTHER)

    def choose() -> ScheduleChoice:
        raise AssertionError

    assert store.find(_SIZE + 1, 2, choose) is None


@pytest.mark.parametrize(
    "text",
    [
        "vectorize(c/1, 16)",  # other sums
        "vectorize(d2/1, 16) · 1.unroll()",  # too much code
        "vectorize(d2/1, 16",
        "__import__(os)",
        "tile(a0, 4)",
        "\udcff",
        "parallel(d0/1, 99999999999999999999)",
        "· " * 40000,
    ],
)
def test_a_text_that_does_not_fit_is_as_if_it_were_not_there(tmp_path: Path, text: str) -> None:
    store = _store(tmp_path)
    store.keep(_SIZE, 2, _choose(), _OTHER)
    (key,) = store._texts
    store._texts[key] = text
    assert store.find(_SIZE, 2, _choose) is None


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"1", b"\n\n \n", b"x y z", b"-1 a b", b"9" * 5000 + b" a b"]
)
def test_a_file_that_is_none_is_as_if_it_were_empty(tmp_path: Path, content: bytes) -> None:
    store = _store(tmp_path)
    store._store.put(store._name, content)
    assert _store(tmp_path).is_empty


def test_without_a_store_schedules_live_as_long_as_the_process() -> None:
    off = ObjectStore(None)
    store = ScheduleStore(off, _ISA, _CACHES)
    store.keep(_SIZE, 2, _choose(), _OTHER)
    assert store.find(_SIZE, 2, _choose) == _OTHER
    assert ScheduleStore(off, _ISA, _CACHES).is_empty


def test_a_large_file_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restride.targets.schedule_store._MOST_LINES", 2)
    store, choice = _store(tmp_path), _choose()
    for threads in (1, 2, 1, 3):
        store.keep(_SIZE, threads, choice, _OTHER)
    found = [_store(tmp_path).find(_SIZE, threads, _choose) for threads in (1, 2, 3)]
    assert list(map(bool, found)) == [True, False, True]
    assert schedule_text(_OTHER) in {*_store(tmp_path)._texts.values()}
