"""Arrays of Zarr are converted as files are: the same bytes, whole or not at all, plain to their library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.files.conversion import tiles
from restride.files.conversion.steps import MoveStep
from restride.files.zarr.arrays import open_zarr

zarr = pytest.importorskip("zarr", minversion="3.1")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("default")]

_RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tiles, "_LEAST_BYTES", 2000)
    monkeypatch.setattr(tiles, "_LONG_RUN", 1)
    return tmp_path


def random(shape: tuple[int, ...] = (48, 20, 3, 3), dtype: Any = np.float32) -> Any:
    return _RNG.normal(size=shape).astype(dtype)


def checkpoint(name: str) -> None:
    tensors = {
        "conv.weight": random(),
        "fc/weight": random((64, 96), ml_dtypes.bfloat16),
        "steps": np.arange(7),
        "flags": np.array([True, False]),
        "scalar": np.float32(2),
        "none": np.zeros((0, 3), np.float16),
        "complex": random((4, 6)).astype(np.complex64),
        "packed": rs.Memory.from_numpy(random((32, 20, 4))).to("aBc8b", "f8_e4m3"),
        "nibbles": rs.reorder(_RNG.integers(-8, 8, (16, 30)).astype(np.int8), "ba", dtype="s4"),
    }
    rs.save(tensors, name, metadata={"format": "pt", "made": "here"})


def names() -> list[str]:
    return sorted(os.listdir())


@pytest.mark.parametrize(
    "rules",
    [
        [],
        ["conv.weight=OIhw4i16o4i", "fc/*=ba"],
        ["conv.weight=nhwc,bf16", "fc/*=AB16b4a,f32", "packed=keep"],
        ["conv.weight=OIhw4i16o4i,s8,axis=0,scale=absmax", "fc/*=mxfp4"],
        ["conv.weight=s8,axis=1,scale=minmax", "fc/*=ba,u8,group=32,scale=minmax"],
        ["conv.weight=f4_e2m1,scale=1", "fc/*=nvfp4"],
        ["packed=abc", "nibbles=ab,f16", "fc/*=s4,scale=1.5"],
    ],
)
def test_what_went_through_zarr_is_what_goes_straight(rules: list[str]) -> None:
    checkpoint("a.safetensors")
    straight = rs.convert("a.safetensors", "straight.safetensors", rules)
    through = rs.convert("a.safetensors", "b.zarr", rules, verify=True)
    # Only what was verified has errors.
    tensors = [replace(tensor, largest_error=None, mean_error=None) for tensor in through.tensors]
    assert tensors == list(straight.tensors)
    rs.convert("b.zarr", "c.safetensors", verify=True)
    assert Path("c.safetensors").read_bytes() == Path("straight.safetensors").read_bytes()
    rs.convert("a.safetensors", "d.zarr")
    rs.convert("d.zarr", "e.zarr", rules, verify=True)
    rs.convert("e.zarr", "e.safetensors")
    assert Path("e.safetensors").read_bytes() == Path("straight.safetensors").read_bytes()


def test_the_library_reads_physical_arrays_in_their_chunks() -> None:
    x = random()
    rs.save({"w": x, "b": x[0].astype(ml_dtypes.bfloat16)}, "a.safetensors", metadata={"format": "pt"})
    rs.convert("a.safetensors", "b.zarr", ["w=OIhw4i16o4i"])
    group = zarr.open_group("b.zarr", mode="r")
    assert group.attrs["format"] == "pt"
    assert len(list(Path("b.zarr/w").rglob("[0-9]"))) > 2
    wanted = rs.Memory.from_numpy(x).to("OIhw4i16o4i")
    np.testing.assert_array_equal(group["w"][:], wanted.physical())
    np.testing.assert_array_equal(group["b"][:], x[0].astype(ml_dtypes.bfloat16).view(np.uint16))
    assert rs.load("b.zarr")["w"].desc == wanted.desc


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (7, 5, 3, 2)},
        {"chunks": (5, 20, 3, 3), "compressors": zarr.codecs.BloscCodec(cname="zstd")},
        {"chunks": (6, 4, 3, 3), "shards": (24, 20, 3, 3)},
        {"chunks": (48, 20, 3, 3), "filters": [zarr.codecs.TransposeCodec(order=(3, 1, 0, 2))]},
        {"chunks": (9, 20, 3, 3), "zarr_format": 2},
        {"chunks": (9, 20, 3, 3), "zarr_format": 2, "dtype": ">f4"},
    ],
    ids=str,
)
def test_arrays_of_other_programs_are_read_whatever_their_chunks(options: dict[str, Any]) -> None:
    x, options = random(), dict(options)
    group = zarr.create_group("a.zarr", zarr_format=options.pop("zarr_format", 3))
    made = group.create_array(
        "deep/w", shape=x.shape, **{"dtype": "f4", "attributes": {"unit": ["m", 2]}, **options}
    )
    made[:] = x
    rs.convert("a.zarr", "b.safetensors", ["*=chwn"], verify=True)
    np.testing.assert_array_equal(rs.load("b.safetensors")["deep/w"].to_numpy(), x)
    rs.convert("a.zarr", "b.zarr")
    assert zarr.open_group("b.zarr")["deep/w"].attrs["unit"] == ["m", 2]
    np.testing.assert_array_equal(rs.load("a.zarr")["deep/w"].to_numpy(), x)


def test_names_of_axes_and_attributes_of_groups_are_kept() -> None:
    group = zarr.open_group("a.zarr", mode="w", attributes={"by": "me"})
    inner = group.create_group("sub", attributes={"of": [1, 2]})
    for name in ("kept", "turned", "other"):
        inner.create_array(name, data=random((4, 6)), dimension_names=("y", None))
    inner.create_array("bare", data=random((4, 6)))
    rs.convert("a.zarr", "b.zarr", ["*/turned=ba", "*/other=f16"], verify=True)
    found = zarr.open_group("b.zarr", mode="r")
    assert found.attrs["by"] == "me"
    assert dict(found["sub"].attrs) == {"of": [1, 2]}
    names = {name: array.metadata.dimension_names for name, array in found["sub"].arrays()}
    assert names == {"kept": ("y", None), "other": ("y", None), "turned": None, "bare": None}


def test_an_array_alone_and_what_was_never_written() -> None:
    array = zarr.create_array("a.zarr", shape=(40, 30), chunks=(16, 16), dtype="f4", fill_value=3.5)
    array[:16, :16] = 1
    rs.convert("a.zarr", "b.npy", ["*=ba"], verify=True)
    np.testing.assert_array_equal(rs.load("b.npy").to_numpy(), array[:])
    np.testing.assert_array_equal(rs.load("a.zarr").to_numpy(), array[:])


@pytest.mark.parametrize("end", ["safetensors", "npz"])
def test_saved_and_loaded(end: str) -> None:
    checkpoint("a.safetensors")
    found = rs.load("a.safetensors")
    rs.save(found, "b.zarr", metadata={"format": "pt"})
    again = rs.load("b.zarr")
    assert list(again) == list(found)
    for name, value in found.items():
        if isinstance(value, rs.Memory):
            assert again[name].desc == value.desc
            np.testing.assert_array_equal(again[name].data.view(np.uint8), value.data.view(np.uint8))
        else:
            np.testing.assert_array_equal(again[name], value)
    quantized = rs.quantize(random((8, 64)), "nvfp4")
    rs.save({"q": quantized}, "q.zarr")
    np.testing.assert_array_equal(rs.dequantize(rs.load("q.zarr")["q"]), rs.dequantize(quantized))


# Faults


def after_tiles(monkeypatch: pytest.MonkeyPatch, count: int, what: Any) -> None:
    """Let something happen before that tile."""
    do, seen = MoveStep.run, [0]

    def run(step: MoveStep, *args: Any) -> None:
        seen[0] += 1
        if seen[0] == count:
            what()
        do(step, *args)

    monkeypatch.setattr(MoveStep, "run", run)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_what_was_stopped_goes_on_and_gives_the_same_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    rs.save({"w": random(), "v": random((64, 96))}, "a.safetensors")
    rules = ["w=nhwc", "v=ba"]
    with monkeypatch.context() as patch:
        after_tiles(patch, 9, interrupt)
        with pytest.raises(KeyboardInterrupt):
            rs.convert("a.safetensors", "b.zarr", rules, resume=True, jobs=1)
    assert not Path("b.zarr").exists()
    # What a kill leaves of the library's own drafts.
    Path(".b.zarr.restride-part/w/c/0.0123abcd.partial").write_bytes(b"half")
    report = rs.convert("a.safetensors", "b.zarr", rules, resume=True, verify=True)
    assert report.resumed_at > 0
    rs.convert("a.safetensors", "c.zarr", rules)
    for found in ("b.zarr", "c.zarr"):
        assert not list(Path(found).rglob("*.partial"))
    files = [sorted(p.relative_to(f) for p in Path(f).rglob("*")) for f in ("b.zarr", "c.zarr")]
    assert files[0] == files[1]
    assert all(
        (Path("b.zarr") / name).read_bytes() == (Path("c.zarr") / name).read_bytes()
        for name in files[0]
        if (Path("b.zarr") / name).is_file()
    )
    assert names() == ["a.safetensors", "b.zarr", "c.zarr"]


def test_without_resume_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    rs.save({"w": random()}, "a.safetensors")
    after_tiles(monkeypatch, 3, interrupt)
    with pytest.raises(KeyboardInterrupt):
        rs.convert("a.safetensors", "b.zarr", ["w=nhwc"])
    assert names() == ["a.safetensors"]


def test_chunks_are_on_the_disk_before_the_folder_gets_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rs.save({"w": random()}, "a.safetensors")
    synced: set[str] = set()
    sync, rename = os.fsync, os.rename

    def note_sync(handle: int) -> None:
        synced.add(os.path.realpath(f"/proc/self/fd/{handle}"))
        sync(handle)

    def check_rename(src: str, dst: str) -> None:
        made = [os.path.join(here, name) for here, _, files in os.walk(src) for name in files]
        assert len(made) > 3
        assert set(made) <= synced
        rename(src, dst)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "rename", check_rename)
    rs.convert("a.safetensors", "b.zarr", ["w=nhwc"])


def test_a_full_disk_leaves_nothing() -> None:
    disk = Path("disk")
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        rs.save({"w": random((300, 300))}, "a.npz")
        for make in (rs.convert, lambda src, dst: rs.save(rs.load(src), dst)):
            with pytest.raises(rs.RuntimeFailure, match="No space left"):
                make("a.npz", "disk/b.zarr")
            assert os.listdir(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("change", ["chunk", "metadata", "new"])
@pytest.mark.parametrize("resume", [False, True])
def test_a_source_that_changes_underway_is_noticed(
    monkeypatch: pytest.MonkeyPatch, change: str, resume: bool
) -> None:
    zarr.create_group("a.zarr").create_array("w", data=random(), chunks=(12, 20, 3, 3))

    def meanwhile() -> None:
        path = {"chunk": Path("a.zarr/w/c/1/0/0/0"), "metadata": Path("a.zarr/w/zarr.json")}
        if change == "new":
            Path("a.zarr/more").write_bytes(b"x")
        else:
            os.utime(path[change], (1, 1))

    after_tiles(monkeypatch, 3, meanwhile)
    with pytest.raises(rs.RuntimeFailure, match="changed while it was read"):
        rs.convert("a.zarr", "b.zarr", ["w=nhwc"], resume=resume)
    assert names() == ["a.zarr"]


_CONVERT = """
import sys
import restride as rs
rs.convert(sys.argv[1], "b.npy", ["*=ba"], memory="96MiB", jobs=2)
(peak,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(int(peak) >> 10)
"""


def test_chunks_larger_than_the_memory_are_read_in_parts_or_refused() -> None:
    for name, codecs in (("plain", {"compressors": None}), ("packed", {})):
        zarr.create_array(f"{name}.zarr", shape=(8000, 8000), chunks=(8000, 8000), dtype="f4", **codecs)
    x = random((8000, 1))
    for name in ("plain", "packed"):
        zarr.open_array(f"{name}.zarr", mode="r+")[:] = np.broadcast_to(x, (8000, 8000))
    ran = subprocess.run([sys.executable, "-c", _CONVERT, "plain.zarr"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 96 + 64
    assert np.array_equal(rs.load("b.npy").to_numpy()[:, ::999], np.broadcast_to(x, (8000, 9)))
    with pytest.raises(rs.OutOfMemory, match="a chunk takes 256000000 bytes"):
        rs.convert("packed.zarr", "c.npy", ["*=ba"], memory="96MiB")


def test_boxes_are_read_from_any_plain_chunks() -> None:
    x = random((20, 31, 14))
    array = zarr.create_array(
        "a.zarr", shape=x.shape, chunks=(7, 9, 14), dtype="f4", fill_value=3, compressors=None
    )
    array[:14], x[14:] = x[:14], 3
    (place,) = (open_zarr("a.zarr").place(tensor) for tensor in open_zarr("a.zarr").tensors)
    desc = rs.MemoryDesc(x.shape, "f32")
    for start, size in (
        ((0, 0, 0), x.shape),
        ((3, 8, 2), (9, 11, 5)),
        ((13, 0, 0), (7, 31, 14)),
        ((5, 30, 13), (1, 1, 1)),
    ):
        into = np.empty(4 * np.prod(size), np.uint8)
        place.read(desc, start, size, into)
        box = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
        assert np.array_equal(into.view("f4").reshape(size), x[box])


@pytest.mark.parametrize("put", ["folder", "pipe", "broken link", "link to a folder"])
def test_what_is_no_file_in_place_of_a_chunk_is_refused(put: str) -> None:
    zarr.create_array("a.zarr", data=random((8, 8)), chunks=(4, 4))
    chunk = Path("a.zarr/c/1/0")
    chunk.unlink()
    if put == "folder":
        chunk.mkdir()
    elif put == "pipe":
        os.mkfifo(chunk)
    else:
        chunk.symlink_to("nowhere" if put == "broken link" else "../0")
    for act in (rs.load, lambda path: rs.convert(path, "b.npy", ["*=ba"])):
        with pytest.raises(rs.InvalidArguments, match=r"a pipe"):
            act("a.zarr")
    assert names() == ["a.zarr"]


def test_damaged_chunks_are_refused_and_leave_the_destination_as_it_was() -> None:
    zarr.create_array("a.zarr", data=random(), chunks=(12, 20, 3, 3))
    chunk = Path("a.zarr/c/1/0/0/0")
    chunk.write_bytes(chunk.read_bytes()[:50])
    Path("b.npy").write_bytes(b"old")
    with pytest.raises(rs.InvalidArguments, match="cannot read"):
        rs.convert("a.zarr", "b.npy", ["*=nhwc"])
    assert Path("b.npy").read_bytes() == b"old"
    with pytest.raises(rs.InvalidArguments):
        rs.load("a.zarr")


_HOSTILE: dict[str, Any] = {
    "no JSON": "{",
    "no object": "[1]",
    "not UTF-8": b"\xff\xfe",
    "deep": "[" * 100_000,
    "negative": {"shape": [-1, 3]},
    "huge": {"shape": [2**62, 2**62]},
    "chunks of 0": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 0]}}},
    "another type": {"data_type": "complex256"},
    "text": {"data_type": "string", "fill_value": "", "codecs": [{"name": "vlen-utf8"}]},
    "another codec": {"codecs": [{"name": "exec", "configuration": {}}]},
    "a note that is none": {"attributes": {"restride": 3}},
    "a kind of another width": {"attributes": {"restride": {"kind": "BF16"}}},
    "a kind that is none": {"attributes": {"restride": {"kind": ["F32"]}}},
    "a layout of another tensor": {"attributes": {"restride": {"desc": {"dims": [9]}}}},
    "scales that are not there": {"attributes": {"restride": {"scaling": {"scale": "../../x"}}}},
}


@pytest.mark.parametrize("change", _HOSTILE.values(), ids=_HOSTILE)
def test_hostile_metadata_are_refused(change: Any) -> None:
    rs.save({"w": random((4, 6))}, "a.zarr")
    path = Path("a.zarr/w/zarr.json")
    if isinstance(change, dict):
        change = json.dumps({**json.loads(path.read_text()), **change})
    path.write_bytes(change if isinstance(change, bytes) else change.encode())
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.convert("a.zarr", "b.npz", ["*=f16"])
    assert caught.value.code in ("RS-F01", "RS-F07")
    assert names() == ["a.zarr"]


def test_links_out_of_the_folder_are_followed_only_when_told() -> None:
    rs.save({"w": random((4, 6))}, "a.zarr")
    os.rename("a.zarr/w/c/0/0", "secret")
    os.symlink("../../../../secret", "a.zarr/w/c/0/0")
    with pytest.raises(rs.InvalidArguments, match="cannot read") as caught:
        rs.convert("a.zarr", "b.npz")
    assert "which is outside the folder" in str(caught.value)
    rs.convert("a.zarr", "b.npz", follow_links=True)


@pytest.mark.parametrize("name", ["../out", "a//b", "", "a/../../b", "__x", "a/zarr.json", "x" * 300, "w/c"])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    rs.save({name or "empty": random((4, 6)), "w": random((4, 6))}, "a.safetensors")
    if not name:
        raw = Path("a.safetensors").read_bytes().replace(b'"empty"', b'""     ')
        Path("a.safetensors").write_bytes(raw)
    with pytest.raises(rs.InvalidArguments, match="an invalid name for a Zarr array"):
        rs.convert("a.safetensors", "b.zarr")
    assert names() == ["a.safetensors"]


@pytest.mark.parametrize("dst", ["a.zarr", "a.zarr/w", "a.zarr/b.zarr", "a.zarr/x.npz"])
def test_a_folder_is_never_written_into(dst: str) -> None:
    rs.save({"w": random((4, 6))}, "a.zarr")
    before = sorted(Path("a.zarr").rglob("*"))
    with pytest.raises(rs.Error):
        rs.convert("a.zarr", dst)
    assert sorted(Path("a.zarr").rglob("*")) == before


def test_a_folder_that_holds_something_is_not_replaced() -> None:
    rs.save({"w": random((4, 6))}, "a.npz")
    rs.save({"w": random((4, 6))}, "b.zarr")
    with pytest.raises(rs.RuntimeFailure, match="cannot write"):
        rs.convert("a.npz", "b.zarr")
    with pytest.raises(rs.RuntimeFailure, match="cannot write"):
        rs.save({"w": random((4, 6))}, "b.zarr")
    assert names() == ["a.npz", "b.zarr"]


def test_elements_that_cannot_be_there_are_refused() -> None:
    raw = np.zeros(144, np.uint8)
    header = {"q": {"dtype": "F6_E2M3", "shape": [4, 48], "data_offsets": [0, 144]}}
    text = json.dumps(header).encode()
    Path("a.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + raw.tobytes())
    with pytest.raises(rs.Unimplemented, match="F6_E2M3 in a Zarr array"):
        rs.convert("a.safetensors", "b.zarr")
