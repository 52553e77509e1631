"""Gradients of gathers, scatters, scans, tiles, interpolations and functions of elements, beside torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import restride as rs
from support.errors import refused
from support.executions import executed, inside

torch = pytest.importorskip("torch")

Arg = rs.onednn.Arg
DIMS = (3, 17, 6)
TAGS = "abc", "cab", "aBc16b", "Abc4a"
RNG = np.random.default_rng(1)


def reals(dims: tuple[int, ...], kind: str = "f32") -> np.ndarray:
    return RNG.standard_normal(dims).astype(rs.DataType[kind].numpy)


def by_torch(function: Callable[..., Any], diff_dst: np.ndarray, *sources: np.ndarray) -> list[np.ndarray]:
    """The gradients of sources, in f64."""
    leaves = [torch.tensor(x.astype(np.float64), requires_grad=True) for x in sources]
    function(*leaves).backward(torch.tensor(diff_dst.astype(np.float64)))
    return [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in leaves]


def is_close(found: np.ndarray, wanted: np.ndarray) -> None:
    bits = np.finfo(found.dtype).nmant if found.dtype.kind == "f" else 7
    np.testing.assert_allclose(
        found.astype(np.float64), wanted, rtol=2.0 ** (2 - bits), atol=2.0 ** (4 - bits)
    )


# --- gathers ------------------------------------------------------------------------------------------------


def gather_gradient(
    engine: rs.Engine, algorithm: str, dims: tuple[int, ...], at: np.ndarray, d: np.ndarray, **more: Any
) -> np.ndarray:
    tag = more.get("tag", "abc")
    diff_src = rs.MemoryDesc(dims, more.get("kind", d.dtype), tag)
    diff_dst = rs.MemoryDesc(d.shape, d.dtype, tag if d.ndim == 3 else "abcd"[: d.ndim])
    arguments = algorithm, diff_src, rs.MemoryDesc(at.shape, at.dtype), diff_dst
    inputs = {Arg.DIFF_DST: d, Arg.SRC_1: at}
    last = more.get("axis", 0), more.get("batch_dims", 0)
    return executed(engine, "GatherBackward", inputs, *arguments, *last)[Arg.DIFF_SRC]


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", TAGS)
def test_gathers_along_an_axis(engine: rs.Engine, axis: int, tag: str) -> None:
    at = np.array([0, -1, 2, 1, 1, 40], np.int32)
    places, d = torch.tensor(inside(at, DIMS[axis])), reals((*DIMS[:axis], 6, *DIMS[axis + 1 :]))
    (wanted,) = by_torch(lambda x: x.index_select(axis, places), d, reals(DIMS))
    is_close(gather_gradient(engine, "axis", DIMS, at, d, axis=axis, tag=tag), wanted)


@pytest.mark.parametrize("kind", ["f64", "f16", "bf16"])
def test_embeddings_add_up_in_more_than_16_bits(engine: rs.Engine, kind: str) -> None:
    at, d = RNG.integers(0, 4, (9, 40)), reals((9, 40, 8), kind)
    places = torch.tensor(at)
    (wanted,) = by_torch(lambda x: torch.nn.functional.embedding(places, x), d, reals((5, 8)))
    diff_src, diff_dst = rs.MemoryDesc((5, 8), kind), rs.MemoryDesc(d.shape, kind)
    mds = diff_src, rs.MemoryDesc(at.shape, "s64"), diff_dst
    found = executed(engine, "GatherBackward", {Arg.DIFF_DST: d, Arg.SRC_1: at}, "gather_axis", *mds)
    is_close(found[Arg.DIFF_SRC], wanted)


def test_gathers_of_batches(engine: rs.Engine) -> None:
    at, d = RNG.integers(-6, 6, (3, 4)), reals((3, 17, 4))
    places = torch.tensor(inside(at, 6))
    wanted = np.stack(
        [
            by_torch(lambda x, row=row: x.index_select(1, row), each, reals((17, 6)))[0]
            for row, each in zip(places, d, strict=True)
        ]
    )
    is_close(gather_gradient(engine, "axis", DIMS, at, d, axis=2, batch_dims=1), wanted)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", TAGS)
def test_gathers_of_elements(engine: rs.Engine, axis: int, tag: str) -> None:
    dims = tuple(9 if i == axis else n - 1 for i, n in enumerate(DIMS))
    at, d = RNG.integers(-DIMS[axis], DIMS[axis], dims), reals(dims)
    places = torch.tensor(inside(at, DIMS[axis]))
    (wanted,) = by_torch(lambda x: x.gather(axis, places), d, reals(DIMS))
    is_close(gather_gradient(engine, "elements", DIMS, at, d, axis=axis, tag=tag), wanted)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("tag", TAGS)
def test_gathers_of_several_dims(engine: rs.Engine, count: int, tag: str) -> None:
    at, d = RNG.integers(-40, 40, (50, 2, count)).astype(np.int32), reals((50, 2, *DIMS[count:]))
    places = tuple(torch.tensor(inside(at[..., i], DIMS[i])) for i in range(count))
    (wanted,) = by_torch(lambda x: x[places], d, reals(DIMS))
    is_close(gather_gradient(engine, "nd", DIMS, at, d, tag=tag), wanted)


def test_gathers_of_several_dims_of_each_element_of_a_batch(engine: rs.Engine) -> None:
    at, d = RNG.integers(-6, 6, (3, 40, 2)), reals((3, 40))
    places = (torch.arange(3)[:, None], *(torch.tensor(inside(at[..., i], DIMS[1 + i])) for i in range(2)))
    (wanted,) = by_torch(lambda x: x[places], d, reals(DIMS))
    is_close(gather_gradient(engine, "nd", DIMS, at, d, batch_dims=1), wanted)


@pytest.mark.parametrize("first", [0, 3, 100, -17, -3])
def test_parts(engine: rs.Engine, first: int) -> None:
    start, d = min(max(first + 17 if first < 0 else first, 0), 12), reals((3, 5, 6))
    (wanted,) = by_torch(lambda x: x[:, start : start + 5], d, reals(DIMS))
    is_close(gather_gradient(engine, "window", DIMS, np.array([first]), d, axis=1), wanted)


@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_by_their_indices(engine: rs.Engine, largest: bool) -> None:
    x, d = reals(DIMS), reals((3, 4, 6))
    at = torch.tensor(x).topk(4, 1, largest).indices.numpy()
    (wanted,) = by_torch(lambda x: x.topk(4, 1, largest)[0], d, x)
    is_close(gather_gradient(engine, "elements", DIMS, at, d, axis=1), wanted)


def test_gradients_of_another_gather_are_refused() -> None:
    cpu, at = rs.Engine("cpu"), rs.MemoryDesc((5,), "s32")
    with refused("diff_dst"):
        rs.onednn.GatherBackward.PrimitiveDesc(
            cpu, "axis", rs.MemoryDesc((4, 3), "f32"), at, rs.MemoryDesc((4, 3), "f32")
        )
