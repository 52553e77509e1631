"""Tensors in files: what `rs.save` writes is read by `rs.load`, and by other programs."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.files.formats import npz
from support.descriptors import shapes, strided, tags
from support.errors import refused
from support.file_contents import contents_of

_FORMATS = ("npy", "npz", "safetensors", "gguf")
_TYPES = tuple(t for t in rs.DataType if t is not rs.undef)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def filled(desc: rs.MemoryDesc) -> rs.Memory:
    """A memory whose every byte up to its last element is set."""
    memory = rs.Memory(desc, rs.Engine("cpu"))
    data = memory.data
    if data is not None and desc.nelems:
        content = data.view(np.uint8)
        content[:] = np.arange(content.size) * 37 % 251
    return memory


def loaded(name: str) -> Any:
    found = rs.load(name)
    return found["x"] if isinstance(found, dict) else found


def elements(memory: rs.Memory) -> list[int]:
    """The bits of every logical element, from the formula of the offsets."""
    desc, data = memory.desc, memory.data
    if data is None:
        return []
    content, bits = data.view(np.uint8), desc.data_type.bits
    found = []
    for index in np.ndindex(*desc.dims):
        at = desc.offset(*index) * bits
        raw = int.from_bytes(bytes(content[at // 8 : at // 8 + max(bits // 8, 1)]), "little")
        found.append(raw if bits >= 8 else raw >> at % 8 & 15)
    return found


@pytest.mark.parametrize("end", _FORMATS)
@pytest.mark.parametrize("data_type", _TYPES, ids=str)
@pytest.mark.parametrize("format", ["abc", "aBc4b", "cba", "BcA3a2b"])
def test_every_type_and_layout_comes_back_with_every_byte(end: str, data_type: Any, format: str) -> None:
    memory = filled(rs.MemoryDesc((3, 5, 2), data_type, format))
    rs.save(memory, f"x.{end}")
    found = loaded(f"x.{end}")
    assert found.desc == memory.desc
    assert found.readonly
    assert bytes(found.data.view(np.uint8)) == bytes(memory.data.view(np.uint8))


@settings(max_examples=40)
@given(st.data())
def test_random_layouts_come_back(data: st.DataObject) -> None:
    dims = data.draw(shapes(max_ndims=5, most=200))
    data_type = data.draw(st.sampled_from((rs.f32, rs.bf16, rs.s8, rs.u4)))
    is_blocked = data.draw(st.booleans())
    layout = tags(dims, most=2000) if is_blocked else strided(dims, data_type)
    found = data.draw(layout)
    desc = rs.MemoryDesc(dims, data_type, found) if is_blocked else found
    memory = filled(desc)
    name = f"x.{data.draw(st.sampled_from(_FORMATS))}"
    rs.save(memory, name)
    assert loaded(name).desc == desc
    assert elements(loaded(name)) == elements(memory)


@pytest.mark.parametrize("name", rs.formats.names())
def test_every_named_format_comes_back_with_all_its_parts(name: str) -> None:
    stored = rs.formats.named(name, (128, 256))
    rng = np.random.default_rng(0)
    if stored.nbytes:
        tensor = stored.wrap(rng.integers(0, 60, stored.nbytes, np.uint8))
    else:
        parts = {part: rng.integers(0, 60, md.size, np.uint8) for part, md in stored.parts.items()}
        tensor = stored.wrap(**parts)
    same_after_files(tensor)


@pytest.mark.parametrize(
    ("name", "block", "nbytes"),
    [
        ("q5_0", 32, 22), ("q5_1", 32, 24), ("q2_k", 256, 84), ("q3_k", 256, 110), ("q4_k", 256, 144),
        ("q5_k", 256, 176), ("q6_k", 256, 210),
    ],
)  # fmt: skip
def test_unpacked_blocks_come_back_with_their_minima(name: str, block: int, nbytes: int) -> None:
    content = np.random.default_rng(0).integers(0, 60, 1024 // block * nbytes, np.uint8)
    same_after_files(rs.formats.unpack(name, content, (2, 512)))


@pytest.mark.parametrize("name", ["mxfp4", "mxfp8", "nvfp4"])
def test_what_is_quantized_by_a_name_comes_back(name: str) -> None:
    same_after_files(rs.quantize(np.random.default_rng(0).normal(size=(16, 64)).astype("f4"), name))


def same_after_files(tensor: rs.QuantizedTensor) -> None:
    """Every part of a quantized tensor is the same after a trip through each format of files."""
    exact = np.asarray(tensor.dequantize("f32"))
    for end in _FORMATS[1:]:
        rs.save({"x": tensor, "y": np.ones(3)}, f"x.{end}")
        found = rs.load(f"x.{end}")
        assert list(found) == ["x", "y"]
        assert found["x"].groups == tensor.groups
        assert found["x"].values.desc.data_type is tensor.values.desc.data_type
        assert np.array_equal(np.asarray(found["x"].dequantize("f32")), exact, equal_nan=True)


def test_bytes_between_the_elements_are_not_written() -> None:
    desc = rs.MemoryDesc.from_strides((2, 2), "u8", (8, 2))
    rs.save(rs.Memory(desc, rs.Engine("cpu"), np.full(16, 7, np.uint8)), "x.safetensors")
    assert bytes(loaded("x.safetensors").data) == bytes([7, 0, 7, 0, 0, 0, 0, 0, 7, 0, 7])


@pytest.mark.parametrize("end", ["npz", "safetensors"])
def test_arrays_of_every_kind_come_back_in_order(end: str) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    arrays = {
        "f32": x.astype("f4"),
        "turned": x.astype("f4").T,
        "i64": x,
        "u16": x.astype("u2"),
        "complex": x.astype("c8"),
        "scalar": np.float64(3),
        "bf16": x.astype(ml_dtypes.bfloat16),
        "none": np.zeros((0, 4), "i4"),
        "ünïcode/../\n": x.astype("i1"),
    }
    rs.save(arrays, f"a.{end}")
    found = rs.load(f"a.{end}")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        got = np.asarray(found[name])
        assert got.dtype == array.dtype
        assert np.array_equal(got, array)


@pytest.mark.parametrize("end", ["npz", "safetensors", "gguf"])
def test_a_file_of_no_tensors_comes_back(end: str) -> None:
    rs.save({}, f"a.{end}")
    assert rs.load(f"a.{end}") == {}
    rs.convert(f"a.{end}", "b.npz", verify=True)
    with np.load("b.npz") as found:
        assert found.files == []


def test_numpy_reads_what_is_saved_as_npz() -> None:
    x = np.arange(2 * 17 * 9, dtype=np.float32).reshape(2, 17, 3, 3)
    blocked = rs.Memory.from_numpy(x).to("nChw16c")
    rs.save({"x": x, "blocked": blocked}, "a.npz")
    assert zipfile.ZipFile("a.npz").testzip() is None
    with np.load("a.npz") as found:
        assert np.array_equal(found["x"], x)
        assert np.array_equal(found["blocked"], blocked.physical())
    np.savez("b.npz", x=x, n=np.arange(3))
    again = rs.load("b.npz")
    assert np.array_equal(again["x"].to_numpy(), x)
    assert again["n"].to_numpy().tolist() == [0, 1, 2]


def test_members_of_an_npz_start_at_whole_cache_lines() -> None:
    rs.save({"a" * n: np.arange(n, dtype="u1") for n in range(1, 9)}, "a.npz")
    assert {tensor.start % 64 for tensor in contents_of("a.npz").tensors} == {0}


def test_a_blocked_tensor_is_plain_to_other_readers_of_safetensors() -> None:
    memory = filled(rs.MemoryDesc((3, 20), "f32", "aB16b"))
    rs.save({"x": memory, "y": np.ones((2, 2), "f4")}, "a.safetensors", metadata={"format": "pt"})
    content = Path("a.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert (8 + length) % 8 == 0
    assert header["x"] == {"dtype": "F32", "shape": [3, 2, 16], "data_offsets": [0, 384]}
    assert header["y"]["shape"] == [2, 2]
    assert header["__metadata__"]["format"] == "pt"
    assert list(json.loads(header["__metadata__"]["restride"])["tensors"]) == ["x"]


def test_wide_elements_go_first_where_the_order_would_leave_them_at_odd_places() -> None:
    rs.save({"a": np.ones(3, "i1"), "b": np.ones(2, "f8"), "c": np.ones(1, "f2")}, "a.safetensors")
    tensors = contents_of("a.safetensors").tensors
    assert [tensor.array.name for tensor in tensors] == ["a", "b", "c"]
    assert all(tensor.start * 8 % tensor.array.kind.bits == 0 for tensor in tensors)


@pytest.mark.parametrize("end", ["npz", "safetensors"])
def test_files_say_in_which_order_scales_lie(end: str) -> None:
    """Bytes do not tell tiles of 128 by 4 from rows: a reader must not have to guess."""
    made = rs.quantize(np.random.default_rng(0).standard_normal((128, 64), np.float32), "nvfp4")
    tiled = rs.formats.nvfp4((128, 64)).pack(made)
    rs.save(
        {"rows": made.scale, "tiles": tiled.scale, "w": rs.formats.gguf.q4_0((4, 64)).empty().values},
        f"s.{end}",
    )
    found = {
        name: rs.Memory.from_numpy(x) if isinstance(x, np.ndarray) else x
        for name, x in rs.load(f"s.{end}").items()
    }
    assert found["rows"].desc == made.scale.desc
    assert found["tiles"].desc == rs.formats.nvfp4((128, 64)).scale
    assert found["w"].desc.inner_steps == (1, 16)
    np.testing.assert_array_equal(found["tiles"].to_numpy().view("u1"), made.scale.to_numpy().view("u1"))


def test_a_plain_array_needs_no_metadata() -> None:
    rs.save(np.ones((2, 3), "f4"), "x.npy")
    rs.save({"x": np.ones((2, 3), "f4")}, "x.safetensors")
    assert b"restride" not in Path("x.npy").read_bytes() + Path("x.safetensors").read_bytes()


def test_a_memory_that_is_loaded_outlives_the_name_of_its_file() -> None:
    rs.save({"x": np.arange(4, dtype="f4")}, "x.safetensors")
    found = rs.load(Path("x.safetensors"))["x"]
    Path("x.safetensors").unlink()
    assert found.to_numpy().tolist() == [0, 1, 2, 3]
    with pytest.raises(rs.InvalidArguments):
        rs.reorder(np.zeros(4, "f4"), None, out=found)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"a": np.ones(2), "b": np.ones(2)}, "x.npy"),
        (np.ones(2), "x.dat"),
        (np.ones(2), ""),
        (np.ones(2), "nowhere/x.npy"),
        ({1: np.ones(2)}, "x.npz"),
        ({"\ud800": np.ones(2)}, "x.npz"),
        ({"": np.ones(2)}, "x.npz"),
        ("text", "x.npz"),
        (None, "x.npz"),
        (rs.Memory(), "x.npz"),
        (np.array([object()]), "x.npz"),
        (np.array(["text"]), "x.npz"),
        (np.ones(2, ">f4"), "x.npz"),
        (np.ma.masked_array(np.ones(2), True), "x.npz"),
        (rs.Memory(rs.MemoryDesc((2,), "f32"), rs.Engine("cpu"), rs.NO_DATA), "x.npz"),
        (np.ones(2), 3),
    ],
)
def test_what_cannot_be_saved_is_refused_and_leaves_no_file(here: Path, value: Any, name: Any) -> None:
    with pytest.raises(rs.Error) as caught:
        rs.save(value, name)
    assert caught.value.code
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("end", ["npy", "npz"])
def test_metadata_that_have_no_place_are_refused(here: Path, end: str) -> None:
    with pytest.raises(rs.InvalidArguments, match="metadata"):
        rs.save(np.ones(2), f"x.{end}", metadata={"a": "b"})
    rs.save(np.ones(2), f"x.{end}", metadata={})
    assert [entry.name for entry in here.iterdir()] == [f"x.{end}"]


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}, {"restride": "mine"}])
def test_metadata_that_are_no_text_are_refused(metadata: Any) -> None:
    with pytest.raises(rs.InvalidArguments, match="metadata"):
        rs.save(np.ones(2), "x.safetensors", metadata=metadata)


def test_a_compressed_archive_is_loaded_and_converted_as_one_that_is_not(here: Path) -> None:
    tensors = {"x": np.arange(70000.0).reshape(700, 100), "none": np.zeros((0, 3), "i2"), "s": np.float32(2)}
    np.savez_compressed("a.npz", **tensors)
    np.savez("b.npz", **tensors)
    for name, one in rs.load("a.npz").items():
        found = one.to_numpy() if isinstance(one, rs.Memory) else one
        np.testing.assert_array_equal(found, tensors[name], strict=True)
    for src in "ab":
        rs.convert(f"{src}.npz", f"{src}.safetensors", ["x=ba,f32"], verify=True)
    assert Path("a.safetensors").read_bytes() == Path("b.safetensors").read_bytes()
    assert sorted(os.listdir()) == ["a.npz", "a.safetensors", "b.npz", "b.safetensors"]


def test_bzip2_is_read_too_and_lzma_is_not() -> None:
    held = io.BytesIO()
    np.save(held, np.arange(999))
    for name, method in (("a.npz", zipfile.ZIP_BZIP2), ("b.npz", zipfile.ZIP_LZMA)):
        with zipfile.ZipFile(name, "w", method) as archive:
            archive.writestr("x.npy", held.getvalue())
    np.testing.assert_array_equal(rs.load("a.npz")["x"], np.arange(999))
    with pytest.raises(rs.InvalidArguments, match="unknown compression"):
        rs.load("b.npz")
    whole = Path("a.npz").read_bytes()
    Path("c.npz").write_bytes(whole[:60] + bytes(20) + whole[80:])
    with pytest.raises(rs.InvalidArguments, match="damaged"):
        rs.load("c.npz")


def test_no_damage_of_a_compressed_archive_gives_values_or_another_error() -> None:
    x = np.random.default_rng(0).integers(0, 9, 4000)
    np.savez_compressed("a.npz", x=x)
    whole = Path("a.npz").read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(300):
        at, bit = int(rng.integers(len(whole))), int(rng.integers(8))
        Path("b.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        try:
            found = rs.load("b.npz")
        except (rs.InvalidArguments, rs.RuntimeFailure):
            continue
        for one in found.values():
            np.testing.assert_array_equal(one, x)


def test_an_archive_that_lies_about_its_length_or_does_not_fit_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    np.savez_compressed("a.npz", x=np.zeros(4000))
    whole = bytearray(Path("a.npz").read_bytes())
    at = whole.index(b"PK\x01\x02") + 24
    for said in (100, 0xFFFFFFF0):
        whole[at : at + 4] = said.to_bytes(4, "little")
        Path("b.npz").write_bytes(whole)
        with pytest.raises(rs.InvalidArguments, match=r"damaged|another length"):
            rs.load("b.npz")
    room = SimpleNamespace(f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(npz.os, "fstatvfs", lambda handle: room)
    with pytest.raises(rs.RuntimeFailure, match="with room"):
        rs.load("a.npz")


@pytest.mark.parametrize(
    ("content", "why", "hint"),
    [
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "pickled Python objects", "torch.load"),
        (b"\x89HDF\r\n\x1a\n" + bytes(40), "HDF5", "h5py"),
        (b'{"metadata": {}, "weight_map": {}}', "JSON", "shards"),
        (b"hi", "is not a recognized tensor file", ".safetensors"),
        (b"#!/bin/sh\necho\n", "is not a recognized tensor file", ".safetensors"),
    ],
    ids=["pickle", "hdf5", "json", "short", "text"],
)
def test_files_of_other_kinds_are_told_as_such(content: bytes, why: str, hint: str) -> None:
    Path("x.bin").write_bytes(content)
    for read in (rs.load, lambda name: rs.convert(name, "y.safetensors", [])):
        with refused("cannot read x.bin", why, hint):
            read("x.bin")
    Path("x.safetensors").write_bytes(content)
    with refused("cannot read x.safetensors", "truncated or damaged"):
        rs.load("x.safetensors")


def test_an_archive_of_torch_is_told_as_such() -> None:
    with zipfile.ZipFile("x.pt", "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02}.")
        archive.writestr("x/data/0", bytes(8))
    with refused("cannot read x.pt", "pickled Python objects", "torch.load"):
        rs.load("x.pt")
