"""Codecs and chunks of Zarr: what others read stays as it is, blocks and scales come back."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.files import chunk_files as chunk_module
from restride.files.chunk_files import chunk_files

zarr = pytest.importorskip("zarr", minversion="3.1")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("default")]


@pytest.fixture
def codecs() -> Any:
    from restride.files import zarr_codecs

    return zarr_codecs


def random(shape: tuple[int, ...] = (20, 48, 30), dtype: Any = np.float32) -> Any:
    return (100 * np.random.default_rng(5).normal(size=shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1", "i2", "c8", "?", "f2"])
@pytest.mark.parametrize("order", [(2, 0, 1), (2, 1, 0), (0, 2, 1)])
def test_transposed_chunks_are_the_same_bytes_for_every_program(
    codecs: Any, tmp_path: Path, dtype: str, order: tuple[int, ...]
) -> None:
    x = random(dtype=dtype)
    chosen = {"codecs.transpose": "restride.files.zarr_codecs.ReorderTransposeCodec"}
    plain = {"codecs.transpose": "zarr.codecs.transpose.TransposeCodec"}
    for name, options in (("ours", chosen), ("theirs", plain)):
        with zarr.config.set(options):
            array = zarr.create_array(
                tmp_path / name, shape=x.shape, chunks=(8, 48, 16), dtype=x.dtype, compressors=None,
                filters=[zarr.codecs.TransposeCodec(order=order)],
            )  # fmt: skip
            array[:] = x
    for name, options in (("ours", plain), ("theirs", chosen)):
        with zarr.config.set(options):
            assert np.array_equal(zarr.open_array(tmp_path / name)[:], x)
    for file in (tmp_path / "theirs" / "c").rglob("*"):
        if file.is_file():
            same = tmp_path / "ours" / file.relative_to(tmp_path / "theirs")
            assert same.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("format", "data_type", "group", "error"),
    [
        ("aBc16b", None, None, 0),
        ("cBa4b", "bf16", None, 2**-8),
        (None, "mxfp4", None, 0.3),
        ("aBc16b", "s8", 6, 0.01),
        (None, "f8_e4m3", 10, 0.07),
    ],
)
def test_chunks_in_blocks_and_scales_come_back(
    codecs: Any, tmp_path: Path, format: str | None, data_type: str | None, group: int | None, error: float
) -> None:
    x = random((20, 48, 64)) if data_type == "mxfp4" else random()
    chunks = (8, 48, 32) if data_type == "mxfp4" else (8, 32, 30)
    codec = codecs.RestrideCodec(format=format, data_type=data_type, group=group)
    array = zarr.create_array(
        tmp_path / "a", shape=x.shape, chunks=chunks, dtype=x.dtype, serializer=codec, compressors=None
    )
    array[:] = x
    told = json.loads((tmp_path / "a" / "zarr.json").read_text())["codecs"][0]
    assert told["name"] == "restride"
    found = zarr.open_array(tmp_path / "a")[:]
    assert np.abs(found - x).max() <= error * np.abs(x).max()
    if data_type is None:
        chunk = np.frombuffer((tmp_path / "a" / "c" / "0" / "0" / "0").read_bytes(), np.float32)
        whole = rs.reorder(np.ascontiguousarray(x[:8, :32]), "aBc16b")
        assert np.array_equal(chunk, whole.data)


def test_damaged_chunks_and_configurations_are_refused(codecs: Any, tmp_path: Path) -> None:
    x = random((16, 32))
    codec = codecs.RestrideCodec(format="aB16b")
    array = zarr.create_array(
        tmp_path / "a", shape=x.shape, chunks=x.shape, dtype=x.dtype, serializer=codec, compressors=None
    )
    array[:] = x
    (chunk,) = [path for path in (tmp_path / "a" / "c").rglob("*") if path.is_file()]
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(rs.InvalidArguments, match="damaged"):
        array[:]
    with pytest.raises(rs.InvalidArguments):
        codecs.RestrideCodec.from_dict({"configuration": {"speed": 9}})
    for wrong in ({"data_type": "u8", "group": 4}, {"data_type": "nvfp4"}, {"data_type": "s8", "group": 5}):
        with pytest.raises(rs.Error):
            zarr.create_array(
                tmp_path / "b", shape=x.shape, chunks=x.shape, dtype=x.dtype,
                serializer=codecs.RestrideCodec(**wrong), compressors=None,
            )  # fmt: skip


@pytest.mark.parametrize(("read", "written"), [((10, 8, 30), (7, 48, 10)), ((1, 48, 30), (20, 48, 1))])
def test_arrays_are_rechunked(tmp_path: Path, read: Any, written: Any) -> None:
    x = random()
    source = zarr.create_array(tmp_path / "a", shape=x.shape, chunks=read, dtype=x.dtype)
    source[:] = x
    target = zarr.create_array(tmp_path / "b", shape=x.shape, chunks=written, dtype=x.dtype)
    rs.rechunk(source, str(tmp_path / "b"), memory=1 << 20)
    assert np.array_equal(target[:], x)
    assert dict(zarr.open_array(tmp_path / "b").attrs) == {}


@pytest.mark.parametrize("dtype", ["u1", "<f4", "c8", "?"])
@pytest.mark.parametrize("keeps_empty", [False, True])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_plain_chunks_are_rechunked_as_the_library_would(
    tmp_path: Path, dtype: str, keeps_empty: bool, zarr_format: Any
) -> None:
    x = np.random.default_rng(0).integers(0, 2, (23, 17, 9)).astype(dtype)
    x[:8], x[20, 3, 4] = 1, 0
    settings = {"shape": x.shape, "dtype": x.dtype, "zarr_format": zarr_format, "fill_value": x.dtype.type(1)}
    source = zarr.create_array(tmp_path / "a", chunks=(5, 6, 9), compressors=None, **settings)
    source[:] = x
    wanted, found = (
        zarr.create_array(
            tmp_path / name, chunks=(7, 17, 2), compressors=None, config={"write_empty_chunks": keeps_empty},
            **settings,
        )
        for name in "bc"
    )  # fmt: skip
    assert chunk_files(source) is not None
    wanted[:] = x
    found[:] = 0
    rs.rechunk(source, found, memory=1 << 20)
    assert np.array_equal(found[:], x)
    files = [
        {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "b", tmp_path / "c")
    ]
    assert files[0] == files[1]


def test_plain_chunks_are_left_to_the_library_where_they_are_not_files_of_elements(tmp_path: Path) -> None:
    settings: list[dict[str, Any]] = [
        {},
        {"compressors": None, "shards": (4, 4)},
        {"compressors": None, "dtype": ">f4"},
        {"compressors": None, "filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
        {"compressors": None, "zarr_format": 2, "order": "F"},
        {"compressors": None, "store": "memory://x"},
    ]
    x = np.arange(64, dtype="f4").reshape(8, 8)
    for number, words in enumerate(settings):
        words = {"store": tmp_path / f"a{number}", "dtype": "f4", **words}
        source = zarr.create_array(shape=x.shape, chunks=(2, 4), **words)
        source[:] = x
        assert chunk_files(source) is None
        target = zarr.create_array(tmp_path / f"b{number}", shape=x.shape, chunks=(4, 2), dtype=source.dtype)
        rs.rechunk(source, target)
        assert np.array_equal(target[:], x)


def test_a_plain_chunk_of_another_length_is_refused(tmp_path: Path) -> None:
    plain: Any = {"shape": (8, 8), "dtype": "f4", "compressors": None}
    source = zarr.create_array(tmp_path / "a", chunks=(4, 4), **plain)
    source[:] = 1
    target = zarr.create_array(tmp_path / "b", chunks=(8, 2), **plain)
    chunk = tmp_path / "a" / "c" / "1" / "0"
    for content in (b"", chunk.read_bytes()[:-1], chunk.read_bytes() + b"x"):
        chunk.write_bytes(content)
        with pytest.raises(rs.InvalidArguments, match="another length"):
            rs.rechunk(source, target)


def test_a_full_disk_leaves_a_rechunk_to_go_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(1 << 20, dtype=np.float32).reshape(64, 1 << 14) + 1
    plain: Any = {"shape": x.shape, "dtype": x.dtype, "compressors": None}
    source = zarr.create_array(tmp_path / "a", chunks=(64, 256), **plain)
    source[:] = x
    target = zarr.create_array(tmp_path / "b", chunks=(8, 1 << 12), **plain)
    left, write = [5], os.write

    def full(handle: int, content: Any) -> int:
        left[0] -= len(content) > 1000
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "full")
        return write(handle, content)

    monkeypatch.setattr(chunk_module.os, "write", full)
    with pytest.raises(rs.RuntimeFailure, match="No space"):
        rs.rechunk(source, target, memory=1 << 20)
    assert not list(tmp_path.rglob("*.partial"))
    monkeypatch.undo()
    rs.rechunk(source, target, memory=1 << 20, resume=True)
    assert np.array_equal(target[:], x)


def test_a_rechunk_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(1 << 20, dtype=np.float32).reshape(64, 1 << 14)
    plain = {"shape": x.shape, "dtype": x.dtype, "compressors": None}
    source = zarr.create_array(tmp_path / "a", chunks=(64, 256), **plain)
    source[:] = x
    target = zarr.create_array(tmp_path / "b", chunks=(8, 1 << 12), **plain)
    with pytest.raises(rs.InvalidArguments, match="nothing to go on with"):
        rs.rechunk(source, target, resume=True)
    count = [0]

    def stop(_: object) -> None:
        count[0] += 1
        if count[0] > 1:
            raise KeyboardInterrupt

    from restride.files import tile_threads

    monkeypatch.setattr(tile_threads, "_WATCH_S", 0.001)
    with pytest.raises(KeyboardInterrupt):
        rs.rechunk(source, target, memory=1 << 20, progress=stop)
    rs.rechunk(source, tmp_path / "b", memory=1 << 20, resume=True)
    assert np.array_equal(target[:], x)


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    source = zarr.create_array(tmp_path / "a", shape=(4, 4), chunks=(2, 2), dtype="f4")
    other = zarr.create_array(tmp_path / "b", shape=(4, 5), chunks=(2, 2), dtype="f4")
    for dst in (other, tmp_path / "nowhere", 3):
        with pytest.raises(rs.InvalidArguments):
            rs.rechunk(source, dst)
    with pytest.raises(rs.InvalidArguments):
        rs.rechunk(source, source, memory="1KiB")
