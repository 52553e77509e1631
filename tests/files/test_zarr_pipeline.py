"""Chunks of Zarr that skip its copies: the same bytes and the same elements as by its own pipeline."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3.1")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("default")]

_OURS = {"codec_pipeline.path": "restride.files.zarr_pipeline.ReorderPipeline"}
_THEIRS = {"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pieces of some rows; which chunks are moved directly is told."""
    from restride.files import zarr_pipeline

    moved: list[str] = []
    chunk = zarr_pipeline._ChunkFile
    read, write = chunk.read, chunk.write

    def note_read(file: Any, within: Any, into: Any) -> bool:
        found = read(file, within, into)
        moved.extend(["read"] if found else [])
        return found

    def note_write(file: Any, content: Any) -> None:
        write(file, content)
        moved.append("written")

    monkeypatch.setattr(zarr_pipeline, "_PIECE", 3000)
    monkeypatch.setattr(chunk, "read", note_read)
    monkeypatch.setattr(chunk, "write", note_write)
    return moved


def random(shape: tuple[int, ...] = (20, 48, 30), dtype: Any = np.float32) -> Any:
    return (100 * np.random.default_rng(5).normal(size=shape)).astype(dtype)


def turns(*orders: tuple[int, ...]) -> dict[str, Any]:
    return {"filters": [zarr.codecs.TransposeCodec(order=order) for order in orders], "compressors": None}


def created(path: Path, how: dict[str, Any], **words: Any) -> Any:
    with zarr.config.set(how):
        zarr.create_array(path, **words)
        return zarr.open_array(path, mode="r+")


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1", "i2", "c8", "?", "f2"])
@pytest.mark.parametrize("orders", [[(2, 0, 1)], [(2, 1, 0)], [(0, 2, 1)], [], [(1, 2, 0), (0, 2, 1)]])
def test_files_and_elements_are_those_of_the_library(
    tmp_path: Path, small_pieces: list[str], dtype: str, orders: list[Any]
) -> None:
    x = random(dtype=dtype)
    words = {"shape": x.shape, "chunks": (8, 48, 16), "dtype": x.dtype, **turns(*orders)}
    ours, theirs = (created(tmp_path / name, how, **words) for name, how in (("a", _OURS), ("b", _THEIRS)))
    ours[:], theirs[:] = x, x
    assert small_pieces.count("written") == 2
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert np.array_equal(ours[:], x)
    assert small_pieces.count("read") >= 6
    assert np.array_equal(theirs[:], x)


@pytest.mark.parametrize(
    "selection",
    [
        np.s_[3:17, 5:40, 2:29],
        np.s_[7],
        np.s_[:, 3],
        np.s_[..., -1],
        np.s_[::2, 1::3, 5],
        np.s_[4:4],
        np.s_[19:, 47:, 29:],
    ],
)
def test_any_selection_is_read_and_written(tmp_path: Path, selection: Any) -> None:
    x = random()
    words = {"shape": x.shape, "chunks": (8, 16, 7), "dtype": x.dtype, **turns((2, 0, 1))}
    array = created(tmp_path / "a", _OURS, **words)
    array[:] = x
    assert np.array_equal(array[selection], x[selection])
    y = x.copy()
    y[selection] = -x[selection]
    array[selection] = -x[selection]
    assert np.array_equal(zarr.open_array(tmp_path / "a")[:], y)
    assert np.array_equal(array.oindex[[3, 1], :, [2, 9, 4]], y[np.ix_([3, 1], range(48), [2, 9, 4])])
    assert np.array_equal(array.vindex[[3, 1], [0, 2], [2, 9]], y[[3, 1], [0, 2], [2, 9]])


@pytest.mark.parametrize("fill", [0, 2.5, float("nan"), -0.0])
@pytest.mark.parametrize("keeps_empty", [False, True])
def test_chunks_of_fill_values_have_no_file(tmp_path: Path, fill: float, keeps_empty: bool) -> None:
    x = np.full((8, 12), fill, "f4")
    x[5, 7] = 9
    words = {"shape": x.shape, "chunks": (4, 4), "dtype": "f4", "fill_value": fill, **turns((1, 0))}
    words["config"] = {"write_empty_chunks": keeps_empty}
    ours, theirs = (created(tmp_path / name, how, **words) for name, how in (("a", _OURS), ("b", _THEIRS)))
    for array in (ours, theirs):
        array[:] = 7
        array[:] = x
        assert np.array_equal(array[:], x, equal_nan=True)
    assert set(files_of(tmp_path / "a")) == set(files_of(tmp_path / "b"))


def test_what_lies_otherwise_goes_the_usual_way(tmp_path: Path, small_pieces: list[str]) -> None:
    x = random((12, 10))
    kinds: list[dict[str, Any]] = [
        {},
        {"compressors": None, "shards": (12, 10)},
        {"compressors": None, "dtype": ">f4"},
        {"compressors": None, "dtype": "c16"},
        {"compressors": None, "zarr_format": 2, "order": "F"},
        {**turns((1, 0)), "store": {}},
        {**turns((1, 0)), "serializer": zarr.codecs.BytesCodec(endian="big")},
    ]
    for number, words in enumerate(kinds):
        words = {"store": str(tmp_path / f"a{number}"), "dtype": "f4", **words}
        with zarr.config.set(_OURS):
            array = zarr.create_array(shape=x.shape, chunks=(4, 5), **words)
            array[:] = x
            assert np.array_equal(array[:], x)
    with zarr.config.set(_OURS):
        for shape in ((), (0, 3)):
            array = zarr.create_array(tmp_path / f"b{len(shape)}", shape=shape, dtype="f4", compressors=None)
            array[...] = np.ones(shape, "f4")
            assert np.array_equal(array[...], np.ones(shape, "f4"))
        array = zarr.create_array(tmp_path / "c", shape=(4,), dtype="f4", compressors=None)
        small_pieces.clear()
        array[:] = 3
        assert not small_pieces
        assert array[:].tolist() == [3] * 4


def test_a_chunk_of_another_length_is_left_to_the_library(tmp_path: Path) -> None:
    array = created(tmp_path / "a", _OURS, shape=(8, 8), chunks=(4, 8), dtype="f4", **turns((1, 0)))
    array[:] = 1
    chunk = tmp_path / "a" / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"reshape|cannot|size"):
        array[:]
    chunk.unlink()
    assert array[:].tolist() == [[1] * 8] * 4 + [[0] * 8] * 4


def test_stores_that_are_only_read_are_not_written(tmp_path: Path) -> None:
    created(tmp_path / "a", _OURS, shape=(8, 8), chunks=(4, 8), dtype="f4", **turns((1, 0)))[:] = 1
    with zarr.config.set(_OURS):
        array = zarr.open_array(tmp_path / "a", mode="r")
        with pytest.raises(ValueError, match=r"read-only|read only"):
            array[:] = 2
    assert (zarr.open_array(tmp_path / "a")[:] == 1).all()


def test_a_full_disk_leaves_the_old_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = created(tmp_path / "a", _OURS, shape=(8, 8), chunks=(8, 8), dtype="f4", **turns((1, 0)))
    array[:] = 1

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="full"):
            array[:] = np.full((8, 8), 2, "f4")
    assert (array[:] == 1).all()
    assert not list(tmp_path.rglob("*.partial"))
