"""Arrays of Dask: chunk by chunk the same as the whole, in the threads of this process and in others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import restride as rs

da = pytest.importorskip("dask.array")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("default")]


def random(shape: tuple[int, ...] = (4, 40, 6, 5)) -> Any:
    return (100 * np.random.default_rng(5).normal(size=shape)).astype(np.float32)


@pytest.mark.parametrize("format", ["nhwc", "nChw16c", "chwn", "hwNC16n4c", "ABcd4b8a"])
@pytest.mark.parametrize("options", [{}, {"dtype": "s8", "scale": 0.5}])
def test_chunks_are_reordered_as_the_whole(format: str, options: dict[str, Any]) -> None:
    x = random((32, 40, 6, 5))
    array = da.from_array(x, chunks=(16, 16, 6, 3))
    found = rs.dask.reorder(array, format, **options)
    whole = rs.reorder(x, format, **options)
    expected = whole.physical() if isinstance(whole, rs.Memory) else whole
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert np.array_equal(found.compute(scheduler="threads"), expected)


def test_chunks_that_cut_blocks_are_refused() -> None:
    with pytest.raises(rs.InvalidArguments, match="cut blocks") as caught:
        rs.dask.reorder(da.ones((4, 40), chunks=(4, 20)), "aB16b")
    assert "rechunk({1: 32})" in caught.value.hint
    assert rs.dask.reorder(da.ones((4, 40), chunks=(4, 40)), "aB16b").shape == (4, 3, 16)


def test_what_cannot_be_reordered_is_refused_before_it_is_computed() -> None:
    x = da.ones((4, 40))
    for arguments in ((np.ones(3), "a"), (x, "nchw"), (x, 3), (da.ones(4, dtype="i8"), "a")):
        with pytest.raises(rs.Error):
            rs.dask.reorder(*arguments)
    with pytest.raises(rs.InvalidArguments, match="whole bytes"):
        rs.dask.reorder(x, "ba", dtype="s4")
    with pytest.raises(rs.InvalidArguments, match="unknown"):
        rs.dask.reorder(x[x[:, 0] > 0], "ba")


@pytest.mark.slow
def test_a_cluster_of_several_processes_computes_the_same() -> None:
    distributed = pytest.importorskip("distributed")
    x = random((16, 64, 12, 10))
    array = da.from_array(x, chunks=(2, 32, 12, 10))
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        found = rs.dask.reorder(array, "nChw16c", dtype="bf16").compute()
    assert np.array_equal(found, rs.reorder(x, "nChw16c", dtype="bf16").physical())
