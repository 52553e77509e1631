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
from restride.files import rechunk as rechunk_module
from restride.files.zarr.chunk_files import chunk_files

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
    left, write = [5], os.pwrite

    def full(handle: int, content: Any, start: int) -> int:
        left[0] -= len(content) > 1000
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "full")
        return write(handle, content, start)

    monkeypatch.setattr(os, "pwrite", full)
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
    with pytest.raises(rs.InvalidArguments, match="nothing to resume"):
        rs.rechunk(source, target, resume=True)
    count = [0]

    def stop(_: object) -> None:
        count[0] += 1
        if count[0] > 1:
            raise KeyboardInterrupt

    from restride.files.conversion import tile_threads

    monkeypatch.setattr(tile_threads, "_WATCH_S", 0.001)
    with pytest.raises(KeyboardInterrupt):
        rs.rechunk(source, target, memory=1 << 20, progress=stop)
    rs.rechunk(source, tmp_path / "b", memory=1 << 20, resume=True)
    assert np.array_equal(target[:], x)


@pytest.mark.parametrize("codecs", [{"compressors": None}, {}])
@pytest.mark.parametrize("put", ["folder", "pipe", "broken link"])
def test_what_is_no_file_in_place_of_a_chunk_is_refused(tmp_path: Path, codecs: Any, put: str) -> None:
    source = zarr.create_array(tmp_path / "a", shape=(8, 8), dtype="f4", chunks=(4, 4), **codecs)
    source[:] = 1
    target = zarr.create_array(tmp_path / "b", shape=(8, 8), dtype="f4", chunks=(8, 2), **codecs)
    chunk = tmp_path / "a" / "c" / "1" / "0"
    chunk.unlink()
    if put == "folder":
        chunk.mkdir()
    elif put == "pipe":
        os.mkfifo(chunk)
    else:
        chunk.symlink_to("nowhere")
    with pytest.raises(rs.InvalidArguments, match=r"a pipe"):
        rs.rechunk(source, target)


def test_a_damaged_chunk_is_refused_where_the_library_reads_it(tmp_path: Path) -> None:
    source = zarr.create_array(tmp_path / "a", shape=(8, 8), dtype="f4", chunks=(4, 4))
    source[:] = random((8, 8))
    target = zarr.create_array(tmp_path / "b", shape=(8, 8), dtype="f4", chunks=(8, 2))
    chunk = tmp_path / "a" / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:10])
    with pytest.raises(rs.InvalidArguments, match="chunks: "):
        rs.rechunk(source, target)


@pytest.mark.parametrize("codecs", [{"compressors": None}, {}])
def test_a_source_that_changes_underway_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codecs: Any
) -> None:
    x = random((64, 64))
    source = zarr.create_array(tmp_path / "a", data=x, chunks=(16, 64), **codecs)
    target = zarr.create_array(tmp_path / "b", shape=x.shape, dtype=x.dtype, chunks=(64, 16), **codecs)
    do = rechunk_module.do_tiles

    def meanwhile(*args: Any) -> None:
        do(*args)
        source[20, 20] = 9

    with monkeypatch.context() as patched:
        patched.setattr(rechunk_module, "do_tiles", meanwhile)
        with pytest.raises(rs.RuntimeFailure, match="changed while it was read"):
            rs.rechunk(source, target)
    with pytest.raises(rs.InvalidArguments, match="nothing to resume"):
        rs.rechunk(source, target, resume=True)
    rs.rechunk(source, target)
    assert np.array_equal(target[:], source[:])


def test_chunks_without_extents_are_refused(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a", shape=(8, 8), dtype="f4", chunks=(4, 4))
    target = zarr.create_array(tmp_path / "b", shape=(8, 8), dtype="f4", chunks=(8, 2))
    path = tmp_path / "a" / "zarr.json"
    told = json.loads(path.read_text())
    told["chunk_grid"]["configuration"]["chunk_shape"] = [0, 4]
    path.write_text(json.dumps(told))
    with pytest.raises(rs.InvalidArguments, match=r"no extents|not a Zarr array"):
        rs.rechunk(tmp_path / "a", target)


@pytest.mark.parametrize("codecs", [{"compressors": None}, {}])
def test_after_a_power_cut_only_what_the_disk_has_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codecs: Any
) -> None:
    x = np.arange(1 << 20, dtype=np.float32).reshape(64, 1 << 14) + 1
    source = zarr.create_array(tmp_path / "a", data=x, chunks=(64, 256), **codecs)
    target = zarr.create_array(tmp_path / "b", shape=x.shape, dtype=x.dtype, chunks=(8, 1 << 12), **codecs)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rechunk_module, "do_tiles", stop)
        with pytest.raises(KeyboardInterrupt):
            rs.rechunk(source, target, memory=1 << 20)
    told = json.loads(target.attrs["restride_rechunk"])
    note = {**told, "boot": "another", "done": 4, "safe": 1}
    target.update_attributes({"restride_rechunk": json.dumps(note)})
    synced: set[str] = set()
    sync = os.fsync

    def note_sync(handle: int) -> None:
        synced.add(os.path.realpath(f"/proc/self/fd/{handle}"))
        sync(handle)

    monkeypatch.setattr(os, "fsync", note_sync)
    rs.rechunk(source, target, memory=1 << 20, resume=True)
    found = zarr.open_array(tmp_path / "b")
    # The first box was not done at all here, and is believed to be on the disk; all others are done again.
    rows, columns = np.nonzero(found[:] != x)
    assert len(rows) == (max(rows) + 1) * (max(columns) + 1) < 1 << 19
    assert {str(path) for path in (tmp_path / "b" / "c").rglob("*") if path.is_file()} <= synced
    assert dict(found.attrs) == {}


@pytest.mark.parametrize("codecs", [None, "auto"])
def test_chunks_that_do_not_fit_into_the_memory_are_refused(tmp_path: Path, codecs: Any) -> None:
    x = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    source = zarr.create_array(tmp_path / "a.zarr", data=x, chunks=(64, 1024), compressors=codecs)
    made = {"shape": x.shape, "dtype": x.dtype, "compressors": codecs}
    target = zarr.create_array(tmp_path / "b.zarr", chunks=(1024, 1024), **made)
    with pytest.raises(rs.OutOfMemory, match="chunks"):
        rs.rechunk(source, target, memory="4MiB")
    assert not dict(target.attrs)
    # Directly one chunk of each, by the library a box as it is read and as its chunks are encoded.
    rs.rechunk(source, target, memory=(4 << 20) + (256 << 10) if codecs is None else "12MiB")
    assert np.array_equal(target[:], x)


@pytest.mark.parametrize("is_other_name", [False, True])
def test_an_array_is_not_rechunked_into_itself(tmp_path: Path, is_other_name: bool) -> None:
    x = np.arange(96, dtype=np.float32)
    array = zarr.create_array(tmp_path / "a.zarr", data=x, chunks=(32,))
    (tmp_path / "b.zarr").symlink_to("a.zarr")
    with pytest.raises(rs.InvalidArguments, match="one array"):
        rs.rechunk(array, str(tmp_path / "b.zarr") if is_other_name else array)
    assert np.array_equal(array[:], x)
    assert not dict(array.attrs)


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    source = zarr.create_array(tmp_path / "a", shape=(4, 4), chunks=(2, 2), dtype="f4")
    other = zarr.create_array(tmp_path / "b", shape=(4, 5), chunks=(2, 2), dtype="f4")
    for dst in (other, tmp_path / "nowhere", 3):
        with pytest.raises(rs.InvalidArguments):
            rs.rechunk(source, dst)
    with pytest.raises(rs.InvalidArguments):
        rs.rechunk(source, source, memory="1KiB")


def test_floats_are_stored_as_integers_only_with_scales(codecs: Any, tmp_path: Path) -> None:
    x = (0.02 * random((16, 32))).astype(np.float32)
    for data_type in ("s8", "int4", "f4_e2m1"):
        with pytest.raises(rs.InvalidArguments, match="without scales"):
            zarr.create_array(
                tmp_path / "a", shape=x.shape, chunks=x.shape, dtype=x.dtype,
                serializer=codecs.RestrideCodec(data_type=data_type), compressors=None,
            )  # fmt: skip
