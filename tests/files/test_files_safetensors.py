"""Headers of safetensors: nothing that a file claims is believed."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from support.file_contents import contents_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_header(text: bytes, nbytes: int = 24) -> bytes:
    return struct.pack("<Q", len(text)) + text + bytes(nbytes)


def of_entry(nbytes: int = 24, **changes: Any) -> bytes:
    entry = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **changes}
    return with_header(json.dumps({"a": entry}).encode(), nbytes)


def with_note(note: Any) -> bytes:
    said = {"version": 1, "tensors": {"a": note}}
    entry = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    return with_header(json.dumps({"__metadata__": {"restride": json.dumps(said)}, "a": entry}).encode())


_DESC = rs.MemoryDesc((3, 2), "f32", "ba").to_dict()
_TWO = (
    b'{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},'
    b'"b":{"dtype":"U8","shape":[8],"data_offsets":[%d,%d]}}'
)
_HOSTILE = {
    "nothing": b"\x01",
    "cut length": b"\x01\x00",
    "header beyond the file": struct.pack("<Q", 100) + b"{}",
    "huge header": struct.pack("<Q", 2**63) + b"{}",
    "header of all ones": b"\xff" * 16,
    "not JSON": with_header(b"{]}", 0),
    "a list": with_header(b"[]", 0),
    "deep": with_header(b"[" * 200_000, 0),
    "deep objects": with_header(b'{"a":' * 100_000, 0),
    "many empty lists": with_header(b'{"a":[' + b"[]," * 100_000 + b"[]]}", 0),
    "no UTF-8": with_header(b'{"\xff\xfe":1}', 0),
    "half a character": with_header(b'{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', 0),
    "not a number": of_entry(shape=[float("nan")]),
    "infinite": of_entry(data_offsets=[0, float("inf")]),
    "an integer of 5000 digits": with_header(b'{"a":' + b"9" * 5000 + b"}", 0),
    "a name twice": with_header(_TWO.replace(b'"b"', b'"a"') % (8, 16), 16),
    "a key twice": with_header(b'{"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}}', 0),
    "an entry that is a number": with_header(b'{"a":1}', 0),
    "an entry that is null": with_header(b'{"a":null}', 0),
    "cut data": of_entry(23),
    "data behind the tensors": of_entry(25),
    "a hole before the tensors": of_entry(28, data_offsets=[4, 28]),
    "a hole between": with_header(_TWO % (9, 17), 17),
    "overlapping": with_header(_TWO % (4, 12), 16),
    "the same place": with_header(_TWO % (0, 8), 8),
    "unknown type": of_entry(dtype="F3"),
    "type is a list": of_entry(dtype=["F32"]),
    "no type": of_entry(dtype=None),
    "shape is text": of_entry(shape="23"),
    "shape is a number": of_entry(shape=6),
    "negative shape": of_entry(shape=[-2, -3]),
    "shape of bool": of_entry(shape=[True, 6]),
    "shape of floats": of_entry(shape=[2.0, 3.0]),
    "too many axes": of_entry(shape=[1] * 100 + [6]),
    "huge shape": of_entry(shape=[2**62, 2**62]),
    "huge but empty": of_entry(0, shape=[2**70, 0], data_offsets=[0, 0]),
    "another shape": of_entry(shape=[7]),
    "half a byte": of_entry(dtype="F4", shape=[3], data_offsets=[0, 2]),
    "no offsets": of_entry(data_offsets=None),
    "three offsets": of_entry(data_offsets=[0, 12, 24]),
    "offsets turned round": of_entry(data_offsets=[24, 0]),
    "offsets beyond the data": of_entry(data_offsets=[4, 28]),
    "offsets beyond 64 bits": of_entry(data_offsets=[2**64, 2**64 + 24]),
    "negative offsets": of_entry(data_offsets=[-24, 0]),
    "metadata are a list": with_header(b'{"__metadata__":[]}', 0),
    "metadata of numbers": with_header(b'{"__metadata__":{"a":1}}', 0),
    "our metadata are no JSON": with_header(b'{"__metadata__":{"restride":"{"}}', 0),
    "our metadata are a list": with_header(b'{"__metadata__":{"restride":"[]"}}', 0),
    "our metadata of another version": with_header(b'{"__metadata__":{"restride":"{\\"version\\":9}"}}', 0),
    "a note that is a number": with_note(1),
    "a descriptor that is text": with_note({"desc": "ba"}),
    "a descriptor of other dims": with_note({"desc": {**_DESC, "dims": [3, 3], "padded_dims": [3, 3]}}),
    "a descriptor of another type": with_note({"desc": {**_DESC, "data_type": "s8"}}),
    "a descriptor of any": with_note({"desc": rs.MemoryDesc((2, 3), "f32", "any").to_dict()}),
    "a descriptor beyond the data": with_note({"desc": {**_DESC, "strides": [1, 2**40]}}),
    "scales that are not there": with_note({"scaling": {"scale": "b"}}),
    "scales that are a number": with_note({"scaling": {"scale": 3}}),
    "scales of a negative axis": with_note({"scaling": {"scale": "a", "axis": -1}}),
}


@pytest.mark.parametrize("content", _HOSTILE.values(), ids=_HOSTILE)
def test_damaged_and_hostile_files_are_refused(content: bytes) -> None:
    Path("a.safetensors").write_bytes(content)
    for read in (contents_of, rs.load):
        with pytest.raises(rs.InvalidArguments) as caught:
            read("a.safetensors")
        assert caught.value.code == "RS-F01"
        assert caught.value.hint
        assert len(caught.value.message) < 1000


def test_what_the_format_does_not_know_is_carried_along() -> None:
    Path("a.safetensors").write_bytes(of_entry(note="mine", more=[1, 2]))
    (tensor,) = contents_of("a.safetensors").tensors
    assert tensor.array.unknown == {"note": "mine", "more": [1, 2]}
    assert tensor.start == Path("a.safetensors").stat().st_size - 24


def test_types_that_restride_lacks_are_arrays() -> None:
    Path("a.safetensors").write_bytes(of_entry(4, dtype="F6_E2M3", shape=[4], data_offsets=[0, 3])[:-1])
    assert np.array_equal(rs.load("a.safetensors")["a"], np.zeros(3, np.uint8))


@pytest.mark.peer
def test_the_library_of_the_format_reads_and_writes_the_same() -> None:
    library = pytest.importorskip("safetensors.numpy")
    x = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.arange(4), "c": np.ones((), "f2")}
    rs.save(x, "ours.safetensors", metadata={"k": "v"})
    library.save_file(x, "theirs.safetensors", metadata={"k": "v"})
    for name in ("ours", "theirs"):
        theirs, ours = library.load_file(f"{name}.safetensors"), rs.load(f"{name}.safetensors")
        assert set(theirs) == set(ours) == set(x)
        for key, value in x.items():
            assert np.array_equal(theirs[key], value)
            assert np.array_equal(np.asarray(ours[key]), value)
    assert contents_of("theirs.safetensors").metadata == {"k": "v"}


def test_tensors_of_one_shape_and_type_share_a_descriptor(tmp_path: Path) -> None:
    rs.save({f"t{i}": np.zeros((2, 3), np.float32) for i in range(100)}, tmp_path / "x.safetensors")
    loaded = rs.load(tmp_path / "x.safetensors")
    assert len({id(tensor.desc) for tensor in loaded.values()}) == 1
