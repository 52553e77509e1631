"""Concat and sum of arrays of a kind that has been seen: the same results and errors as at first."""

from __future__ import annotations

import contextlib
import weakref

import numpy as np
import pytest

import restride as rs
from restride.arrays import concat_and_sum
from restride.arrays.calls import function
from restride.arrays.calls.binder import CompiledCall
from restride.runtime.cache import calls
from restride.runtime.cpu.executable import CpuExecutable
from support.errors import refused


def numbers(*shape: int, dtype: object = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)  # type: ignore[arg-type]


@pytest.fixture
def only_known(monkeypatch: pytest.MonkeyPatch):
    """From its call on, every call that is not of a known kind fails."""

    def check(*args: object) -> None:
        raise AssertionError("the arguments were checked in full")

    return lambda: monkeypatch.setattr(function, "is_foreign", check)


def _views(seed: int) -> list[np.ndarray]:
    x, y = numbers(4, 6, 5, seed=seed), numbers(5, 3, 4, seed=seed + 1)
    return [x[:, ::-2], y.transpose(2, 1, 0)[::-1]]


def test_arrays_of_a_known_kind_are_joined_at_once(only_known) -> None:
    out = np.zeros((4, 6, 5), np.float32)
    for first in (True, False):
        views = _views(first)
        np.testing.assert_array_equal(rs.concat(views, axis=1), np.concatenate(views, 1))
        np.testing.assert_array_equal(rs.concat(tuple(views), axis=1), np.concatenate(views, 1))
        np.testing.assert_array_equal(rs.concat(views, axis=-2, dtype="s32"), np.concatenate(views, 1))
        assert rs.concat(views, axis=1, out=out) is out
        np.testing.assert_array_equal(out, np.concatenate(views, 1))
        blocked = rs.concat(views, 1, dst="aBc4b")
        assert isinstance(blocked, rs.Memory)
        np.testing.assert_array_equal(blocked.to_numpy(), np.concatenate(views, 1))
        if first:
            only_known()


def test_arrays_of_a_known_kind_are_added_at_once(only_known) -> None:
    out = np.zeros((4, 3, 5), np.float32)
    for first in (True, False):
        x, y = _views(first)
        np.testing.assert_array_equal(rs.add_n([x, y]), x + y)
        np.testing.assert_array_equal(rs.add_n([x, y], scales=[0.5, 2]), x / 2 + y * 2)
        np.testing.assert_array_equal(rs.add_n([x, y], dtype=np.int32), (x + y).astype(np.int32))
        assert rs.add_n([x, y], (1, -1.0), out=out) is out
        np.testing.assert_array_equal(out, x - y)
        if first:
            only_known()


def test_a_call_outlives_other_calls_of_its_executable() -> None:
    # Sources of two types are two launches. What is bound to them holds the address of their list alone.
    x, y = numbers(5, 7), numbers(5, 3, dtype=np.int8)
    rs.concat([x, y], 1, dtype="f32")
    found = [call.impl.executable for call in calls._calls.values() if isinstance(call, CompiledCall)]
    lists = [each._lists.get((True, 0)) for each in found if isinstance(each, CpuExecutable)]
    tables = [weakref.ref(each._table) for each in lists if each]
    assert tables
    del lists
    rs.concat([x, y], 1, out=np.empty((5, 10), np.float32))
    assert all(table() is not None for table in tables)


class _NoKey(str):
    """A word that is no key of a dict."""

    def __hash__(self) -> int:
        raise KeyError("no hash")


@pytest.mark.parametrize("words", [{"dtype": _NoKey("f32")}, {"layout": _NoKey("ab")}])
def test_words_of_other_classes_are_of_no_kind(words: dict[str, str]) -> None:
    x = numbers(2, 3)
    np.testing.assert_array_equal(rs.concat([x, x], **words), np.concatenate([x, x]))


def test_a_large_result_of_a_known_kind() -> None:
    for seed in (0, 1):
        x, y = numbers(64, 20, 40, 7, seed=seed), numbers(64, 44, 40, 7, seed=seed + 2)
        np.testing.assert_array_equal(rs.concat([x, y], axis=1), np.concatenate([x, y], 1))


def test_kinds_are_told_apart() -> None:
    x = numbers(3, 3, 3)
    for _ in range(2):
        assert np.signbit(rs.add_n([abs(x * 0)], scales=[-0.0])).all()
        assert not np.signbit(rs.add_n([abs(x * 0)], scales=[0.0])).any()
        assert rs.concat([x, x], 1, dtype="s8").dtype == np.int8
        assert rs.concat([x, x], 1, dtype="f64").dtype == np.float64
        assert rs.concat([x, x], 0).shape == (6, 3, 3)
        assert rs.concat([x, x], 2).shape == (3, 3, 6)
        assert rs.concat([x, x], 0, dst="cba").strides == (4, 24, 72)
        np.testing.assert_array_equal(rs.concat([x.T, x]), np.concatenate([x.T, x]))


def test_a_known_kind_is_refused_what_it_was_refused_before() -> None:
    x, whole = numbers(3, 4), np.zeros((6, 4), np.float32)
    for _ in range(2):
        rs.concat([x, x], out=whole)
        with refused("array 1 and out overlap"):
            rs.concat([x, whole[2:5]], out=whole)
        whole.flags.writeable = False
        with refused("read-only"):
            rs.concat([x, x], out=whole)
        whole.flags.writeable = True


def test_what_is_in_its_place_stays_there() -> None:
    x, whole = numbers(3, 4), np.zeros((6, 4), np.float32)
    rs.concat([x, x.copy()], out=whole)
    whole[:3] = 7
    rs.concat([whole[:3], x], out=whole)
    assert (whole[:3] == 7).all()
    rs.add_n([whole, whole], out=whole)
    assert (whole[:3] == 14).all()


def test_a_known_kind_still_has_its_verbose_lines(capfd) -> None:
    x = numbers(2, 1019)
    rs.concat([x, x])
    with rs.set_verbose("profile"):
        rs.concat([x, x])
    words = [line.split(",")[3] for line in capfd.readouterr().err.splitlines() if ",concat," in line]
    assert [word for word in words if word != "cache:evict"] == ["create:cache_hit", "exec"]


@pytest.mark.parametrize(
    ("arrays", "layout", "dtype"),
    [
        ([[1.0], [2.0]], None, None),
        (iter([]), None, None),
        ([np.ma.masked_array([1.0])], None, None),
        ([np.zeros(2)], (1,), None),
        ([np.zeros(2)], None, ["f4"]),
    ],
)
def test_what_is_not_plain_is_of_no_kind(
    monkeypatch: pytest.MonkeyPatch, arrays: object, layout: object, dtype: object
) -> None:
    kinds: list[object] = []
    monkeypatch.setattr(concat_and_sum, "_computed", lambda *call: kinds.append(call[-1]))
    with contextlib.suppress(rs.Error):
        rs.concat(arrays, 0, layout, dtype)
    assert not any(kinds)


@pytest.mark.parametrize("scales", [3.0, [True], ["1"], [2**24 + 1], [np.float32(1)], np.ones(2)])
def test_scales_that_are_no_plain_numbers_are_of_no_kind(scales: object) -> None:
    assert concat_and_sum._scales_key(scales) is None


def test_no_more_kinds_are_kept_than_primitives() -> None:
    before = rs.get_primitive_cache_capacity()
    try:
        rs.set_primitive_cache_capacity(2)
        for n in range(2, 6):
            rs.concat([numbers(n, 1), numbers(n, 2)], axis=1)
        assert len(calls._calls) == 2
        rs.set_primitive_cache_capacity(0)
        assert not calls._calls
        rs.concat([numbers(2, 1), numbers(2, 2)], axis=1)
        assert not calls._calls
    finally:
        rs.set_primitive_cache_capacity(before)
