"""Functions on arrays find what an earlier call of the same kinds and parameters has found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import restride as rs
from support.errors import refused
from support.python_calls import python_calls

RNG = np.random.default_rng(11)
DIMS = (2, 6, 5, 8)
CHANNELS, COLUMNS = (RNG.random(count).astype("f4") + 1 for count in (6, 8))
CALLS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, **more: rs.softmax(x, 1, **more),
    "logarithms": lambda x, **more: rs.softmax(x, log=True, **more),
    "maxima": lambda x, **more: rs.pool(x, 2, **more),
    "averages": lambda x, **more: rs.pool(x, [3, 3], alg="avg", padding=(1, 1), stride=1, **more),
    "layers": lambda x, **more: rs.layer_norm(x, **more),
    "layers with weights": lambda x, **more: rs.layer_norm(x, COLUMNS, COLUMNS, **more),
    "layers with a shift": lambda x, **more: rs.layer_norm(x, None, COLUMNS, **more),
    "groups": lambda x, **more: rs.group_norm(x, 3, CHANNELS, CHANNELS, epsilon=0.5, **more),
    "batches": lambda x, **more: rs.batch_norm(x, CHANNELS, CHANNELS, None, CHANNELS, **more),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def _held(data_type: str = "f4") -> np.ndarray[Any, Any]:
    return RNG.random(DIMS).astype(data_type)


def _first(call: Callable[..., Any], x: Any) -> Any:
    """Return the result of a call that misses the primitive cache."""
    before = rs.get_primitive_cache_capacity()
    rs.set_primitive_cache_capacity(0)
    try:
        return call(x)
    finally:
        rs.set_primitive_cache_capacity(before)


@each_call
def test_later_calls_are_short_and_give_what_the_first_gives(call: Callable[..., Any]) -> None:
    # Lists of launches are made with the first result at a cache line, and the first beside one.
    for _ in range(2):
        call(_held())
    x = _held()
    counts = sorted(python_calls(lambda: call(x)) for _ in range(9))
    assert counts[4] < 40
    assert sum(count >= 40 for count in counts) <= 2
    assert call(x).tobytes() == _first(call, x).tobytes()


@each_call
@pytest.mark.parametrize(
    "lie",
    [lambda x: x[:, ::-1], lambda x: x.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2), np.float64],
    ids=["reversed", "turned", "doubles"],
)
def test_arrays_that_lie_otherwise_or_of_other_types_are_other_calls(
    call: Callable[..., Any], lie: Callable[[Any], Any]
) -> None:
    for _ in range(3):
        x = lie(_held())
        found = call(x)
        np.testing.assert_array_equal(found, _first(call, x))
        assert found.dtype == x.dtype


@each_call
def test_results_go_where_it_is_told_again_and_again(call: Callable[..., Any]) -> None:
    out = np.empty_like(call(_held()), np.float64)[..., ::-1]
    for _ in range(3):
        x = _held()
        assert call(x, out=out) is out
        np.testing.assert_allclose(out, _first(call, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("maxima", "averages")])
def test_in_place_is_right_again_and_again_and_overlaps_are_refused(name: str) -> None:
    call, large = CALLS[name], np.zeros((3, *DIMS[1:]), np.float32)
    for _ in range(3):
        x = _held()
        wanted = _first(call, x)
        assert call(x, out=x) is x
        np.testing.assert_array_equal(x, wanted)
        with refused("overlap"):
            call(large[:2], out=large[1:])


@each_call
def test_memories_give_memories_again_and_again(call: Callable[..., Any]) -> None:
    for _ in range(3):
        x = _held()
        found = call(rs.reorder(x, "nChw8c"))
        assert isinstance(found, rs.Memory)
        np.testing.assert_allclose(found.to_numpy(), _first(call, x), rtol=1e-5, atol=1e-6)


def test_parameters_that_only_seem_equal_are_refused_as_before() -> None:
    x = _held()
    rs.softmax(x, 1), rs.pool(x, 2), rs.group_norm(x, 3)
    for call in (lambda: rs.softmax(x, 1.0), lambda: rs.pool(x, 2.0), lambda: rs.group_norm(x, 3.0)):  # type: ignore[arg-type]
        with refused("is"):
            call()


def test_weights_of_other_types_are_converted_at_each_call() -> None:
    for _ in range(3):
        x, scale = _held(), RNG.random(8)
        wanted = _first(lambda x, scale=scale: rs.layer_norm(x, scale.astype("f4")), x)
        np.testing.assert_array_equal(rs.layer_norm(x, scale), wanted)
        np.testing.assert_array_equal(rs.layer_norm(x, scale.tolist()), wanted)


@each_call
def test_arrays_without_images_stay_so(call: Callable[..., Any]) -> None:
    for _ in range(3):
        assert call(_held()[:0]).shape[0] == 0
