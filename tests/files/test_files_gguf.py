"""Headers of GGUF: what is kept and copied, and that nothing that a file claims is believed."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.files.formats.gguf import GgufValue, gguf_image
from restride.files.stored_tensors import GGML_KINDS, KINDS, plain_array
from support.errors import refused
from support.file_contents import contents_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def text(value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(content)) + content


def value(key: str, kind: int, content: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + content


def tensor(name: str | bytes = "a", dims: tuple[int, ...] = (3, 2), kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf(
    values: list[bytes] | None = None,
    tensors: list[bytes] | None = None,
    data: int = 32,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    values, tensors = values or [], [tensor()] if tensors is None else tensors
    head = b"GGUF" + struct.pack("<IQQ", version, *(counts or (len(tensors), len(values))))
    head += b"".join(values) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + bytes(data)


_ARRAY = struct.pack("<IQ", 8, 2) + text("ä") + text("b")
_VALUES = [
    value("general.architecture", 8, text("llama")),
    value("general.alignment", 4, struct.pack("<I", 32)),
    value("some.float", 6, struct.pack("<f", 0.5)),
    value("some.flag", 7, b"\x01"),
    value("some.words", 9, _ARRAY),
    value("some.numbers", 9, struct.pack("<IQ3i", 5, 3, 1, -2, 3)),
]


def test_metadata_and_quantized_tensors_are_kept_as_they_are() -> None:
    blocks = tensor("q", (64, 2), 2, 32)
    content = gguf(_VALUES, [tensor(), blocks], 32 + 96)
    body = bytes(range(128))
    Path("a.gguf").write_bytes(content[: -len(body)] + body)
    rs.convert("a.gguf", "b.gguf", ["a=ba"], verify=True)
    before, after = contents_of("a.gguf"), contents_of("b.gguf")
    assert before.metadata == after.metadata
    assert list(after.metadata) == list(before.metadata)
    assert [t.array.kind.word for t in after.tensors] == ["F32", "Q4_0"]
    assert after.tensors[0].array.shape == (3, 2)
    found = Path("b.gguf").read_bytes()
    assert found[after.tensors[1].start :][:72] == body[32:104]
    a = np.frombuffer(body[:24], np.float32).reshape(2, 3)
    assert np.array_equal(rs.load("b.gguf")["a"].to_numpy().view(np.uint32), a.view(np.uint32))


def test_blocks_of_ggml_are_loaded_with_their_scales() -> None:
    """In place: 18 bytes for 32 elements are an f16 scale, and 4-bit values, i and i + 16 in a byte."""
    Path("a.gguf").write_bytes(gguf([], [tensor("q", (64, 2), 2, 0)], 72))
    content = bytearray(Path("a.gguf").read_bytes())
    raw = np.random.default_rng(0).integers(0, 256, (2, 2, 18), np.uint8)
    raw[:, :, :2] = np.full((2, 2, 1), 0.25, np.float16).view(np.uint8)
    content[-72:] = raw.tobytes()
    Path("a.gguf").write_bytes(content)
    found = rs.load("a.gguf")["q"]
    codes = np.concatenate([raw[:, :, 2:] & 15, raw[:, :, 2:] >> 4], 2).reshape(2, 64)
    np.testing.assert_array_equal(rs.dequantize(found), (codes - np.float32(8)) / 4)
    rs.save({"q": found}, "b.safetensors")
    np.testing.assert_array_equal(rs.dequantize(rs.load("b.safetensors")["q"]), (codes - np.float32(8)) / 4)


def test_blocks_of_nothing_are_loaded() -> None:
    empty = [tensor("q", (64, 0), 2, 0), tensor("k", (0, 2), 12, 0)]
    Path("a.gguf").write_bytes(gguf([], empty, 0))
    found = rs.load("a.gguf")
    assert rs.dequantize(found["q"]).shape == (0, 64)
    assert rs.dequantize(found["k"]).shape == (2, 0)


def test_other_blocks_of_ggml_are_loaded_as_the_bytes_of_rows() -> None:
    Path("a.gguf").write_bytes(gguf([], [tensor("q", (512, 3), 16, 0)], 3 * 132))
    raw = rs.load("a.gguf")["q"]
    assert (raw.shape, raw.dtype) == ((3, 132), np.uint8)


def test_blocks_of_bits_are_loaded_in_place_written_as_they_are_and_converted() -> None:
    Path("a.gguf").write_bytes(gguf([], [tensor("q", (512, 3), 12, 0)], 3 * 288))
    content = bytearray(Path("a.gguf").read_bytes())
    raw = np.random.default_rng(0).integers(0, 60, 3 * 288, np.uint8)
    content[-3 * 288 :] = raw.tobytes()
    Path("a.gguf").write_bytes(content)
    found = rs.load("a.gguf")["q"]
    exact = rs.dequantize(rs.formats.gguf.q4_k((3, 512)).wrap(raw))
    assert (found.dims, found.nbytes, found.groups) == ((3, 512), 3 * 288, (1, 32))
    np.testing.assert_array_equal(rs.dequantize(found), exact)
    rs.save({"q": found}, "b.gguf")
    assert contents_of("b.gguf").tensors[0].array.kind.word == "Q4_K"
    assert Path("b.gguf").read_bytes()[-3 * 288 :] == raw.tobytes()
    for number, words in enumerate(("f32", "bf16", "ba,f16")):
        rs.convert("a.gguf", f"{number}.safetensors", [f"q={words}"], verify=True)
        one = rs.load(f"{number}.safetensors")["q"]
        wanted = rs.dequantize(found, dtype=words[-4:].strip("a,"))
        np.testing.assert_array_equal(one.to_numpy(), wanted)
    with refused("blocks of IQ2_XXS can be copied but not converted"):
        Path("c.gguf").write_bytes(gguf([], [tensor("q", (512, 3), 16, 0)], 3 * 132))
        rs.convert("c.gguf", "d.safetensors", ["q=f32"])
    with refused("no scale from floats"):
        rs.convert("a.gguf", "d.safetensors", ["q=s8"])
    with refused("blocks of Q4_K can be copied but not converted", "no other layout"):
        rs.convert("a.gguf", "d.gguf", ["q=ba"])


def test_rules_make_blocks_of_bits() -> None:
    x = np.random.default_rng(1).standard_normal((5, 3, 512)).astype(np.float32)
    rs.save({"x": x, "y": rs.Memory.from_numpy(x).to("cab")}, "a.safetensors")
    for name in ("q5_0", "q6_k"):
        rs.convert("a.safetensors", f"{name}.gguf", [f"*={name}"], verify=True)
        found, wanted = rs.load(f"{name}.gguf"), np.asarray(rs.quantize(x, name).packed)
        np.testing.assert_array_equal(np.asarray(found["x"].packed), wanted)
        np.testing.assert_array_equal(np.asarray(found["y"].packed), wanted)
    with refused("q6_k takes no other arguments"):
        rs.convert("a.safetensors", "b.gguf", ["*=q6_k,acb"])
    rs.save({"x": x[..., :128].copy()}, "b.safetensors")
    with refused("the last dim is 128"):
        rs.convert("b.safetensors", "b.gguf", ["*=q6_k"])


def test_blocks_that_are_cut_off_are_refused() -> None:
    Path("a.gguf").write_bytes(gguf([], [tensor("q", (512, 3), 12, 0)], 3 * 288)[:-1])
    with refused("a tensor is outside the file"):
        rs.load("a.gguf")
    Path("a.gguf").write_bytes(gguf([], [tensor("q", (128, 3), 12, 0)], 3 * 72))
    with refused("not a multiple of a block of Q4_K"):
        rs.load("a.gguf")


def test_metadata_become_text_in_other_files() -> None:
    Path("a.gguf").write_bytes(gguf(_VALUES))
    rs.convert("a.gguf", "b.safetensors", verify=True)
    assert contents_of("b.safetensors").metadata == {
        "general.architecture": "llama",
        "general.alignment": "32",
        "some.float": "0.5",
        "some.flag": "true",
        "some.words": '["\\u00e4", "b"]',
        "some.numbers": "[1, -2, 3]",
    }
    rs.convert("b.safetensors", "c.gguf")
    assert contents_of("c.gguf").metadata["general.architecture"] == GgufValue(8, text("llama"))


def test_metadata_are_read_as_values() -> None:
    long = struct.pack("<IQ", 8, 40_000) + b"".join(text("ä" * (i % 100)) for i in range(40_000))
    Path("a.gguf").write_bytes(gguf([*_VALUES, value("some.texts", 9, long)]))
    found = rs.load_metadata("a.gguf")
    assert found["general.architecture"] == "llama"
    assert (found["some.float"], found["some.flag"], found["some.words"]) == (0.5, True, ["ä", "b"])
    assert found["some.numbers"] == [1, -2, 3]
    assert found["some.texts"] == ["ä" * (i % 100) for i in range(40_000)]
    rs.save({"x": np.ones(3, np.float32)}, "x.safetensors", metadata={"format": "pt"})
    rs.save({"x": np.ones(3, np.float32)}, "x.npz")
    assert (rs.load_metadata("x.safetensors"), rs.load_metadata("x.npz")) == ({"format": "pt"}, {})


def test_an_alignment_of_its_own_is_kept() -> None:
    wide = value("general.alignment", 4, struct.pack("<I", 128))
    rs.save({"a": np.ones(3, np.float32)}, "x.gguf")
    Path("a.gguf").write_bytes(gguf([wide], [], 96))
    rs.convert("a.gguf", "b.gguf")
    assert contents_of("b.gguf").metadata["general.alignment"].content == struct.pack("<I", 128)


def test_more_axes_than_the_format_has_come_back() -> None:
    x = np.arange(64, dtype=np.float32).reshape((2,) * 6)
    memory = rs.Memory.from_numpy(x)
    rs.save({"x": memory, "y": memory.to("acbfed")}, "a.gguf")
    found = rs.load("a.gguf")
    assert found["x"].desc == memory.desc
    assert np.array_equal(found["x"].to_numpy(), x)
    assert np.array_equal(found["y"].to_numpy(), x)


_HOSTILE = {
    "only the magic": b"GGUF",
    "cut counts": gguf()[:20],
    "version 1": gguf(version=1),
    "big endian": gguf(version=3 << 24),
    "more tensors than bytes": gguf(counts=(2**60, 0)),
    "more values than bytes": gguf(counts=(0, 2**63)),
    "cut values": gguf(counts=(1, 3)),
    "a key of 2**62 bytes": gguf([struct.pack("<Q", 2**62)]),
    "a key that is no UTF-8": gguf([text(b"\xff\xfe") + struct.pack("<I", 7) + b"\0"]),
    "a key twice": gguf([_VALUES[0], _VALUES[0]]),
    "a value of type 13": gguf([value("a", 13, b"")]),
    "an array of arrays": gguf([value("a", 9, struct.pack("<IQ", 9, 1) * 1000)]),
    "an array of 2**61 numbers": gguf([value("a", 9, struct.pack("<IQ", 10, 2**61))]),
    "an array of 2**61 texts": gguf([value("a", 9, struct.pack("<IQ", 8, 2**61))]),
    "an alignment of 0": gguf([value("general.alignment", 4, bytes(4))]),
    "an alignment of 3": gguf([value("general.alignment", 4, b"\3\0\0\0")]),
    "an alignment of 2**31": gguf([value("general.alignment", 4, b"\0\0\0\x80")]),
    "an alignment that is text": gguf([value("general.alignment", 8, text("32"))]),
    "5 axes": gguf(tensors=[tensor(dims=(1,) * 5)]),
    "2**32 - 1 axes": gguf(tensors=[text("a") + b"\xff" * 4]),
    "type 99": gguf(tensors=[tensor(kind=99)]),
    "a huge shape": gguf(tensors=[tensor(dims=(2**62, 2**62))]),
    "a huge shape but empty": gguf(tensors=[tensor(dims=(2**63, 0))]),
    "half a block": gguf(tensors=[tensor(dims=(16, 2), kind=2)]),
    "a name twice": gguf(tensors=[tensor(), tensor(offset=32)], data=64),
    "overlapping": gguf(tensors=[tensor(), tensor("b", (16,))], data=64),
    "off the alignment": gguf(tensors=[tensor(offset=4)], data=64),
    "beyond the file": gguf(tensors=[tensor(offset=32)]),
    "far beyond the file": gguf(tensors=[tensor(offset=2**64 - 32)]),
    "cut data": gguf()[:-12],
    "our metadata are a number": gguf([value("restride", 7, b"\1")]),
    "our metadata are no JSON": gguf([value("restride", 8, text("{"))]),
    "our metadata of another version": gguf([value("restride", 8, text('{"version": 9}'))]),
    "a note that does not fit": gguf(
        [value("restride", 8, text('{"version": 1, "tensors": {"a": {"desc": {}, "shape": [6]}}}'))]
    ),
}


@pytest.mark.parametrize("content", _HOSTILE.values(), ids=_HOSTILE)
def test_damaged_and_hostile_files_are_refused(content: bytes) -> None:
    Path("a.gguf").write_bytes(content)
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.load("a.gguf")
    assert caught.value.code == "RS-F01"
    assert caught.value.hint
    assert len(caught.value.message) < 1000


def test_a_tensor_of_no_axes_comes_back() -> None:
    rs.save({"x": np.float32(3)}, "a.gguf")
    rs.convert("a.gguf", "b.safetensors", verify=True)
    for name in ("a.gguf", "b.safetensors"):
        found = rs.load(name)["x"]
        assert found.shape == ()
        assert found == 3


def test_many_tensors_beside_long_metadata_take_no_time_of_their_own() -> None:
    tokens = GgufValue(9, struct.pack("<IQ", 0, 8 << 20) + bytes(8 << 20))
    arrays = [plain_array(f"layers.{i}", KINDS["F32"], (4,)) for i in range(20_000)]
    started = time.process_time()
    image = gguf_image(arrays, {"tokens": tokens})
    assert time.process_time() - started < 5
    assert len(image.pieces[0][1]) > 8 << 20


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fnuz, np.complex64])
def test_what_the_format_has_no_type_for_is_refused(kind: Any) -> None:
    with pytest.raises(rs.Unimplemented):
        rs.save({"x": np.ones(3, kind)}, "a.gguf")


@pytest.mark.peer
def test_the_library_of_the_format_reads_and_writes_the_same() -> None:
    library = pytest.importorskip("gguf")
    x = np.arange(128, dtype=np.float32).reshape(2, 64)
    writer = library.GGUFWriter("theirs.gguf", "llama")
    writer.add_array("words", ["a", "b"])
    writer.add_tensor("x", x)
    quantized = library.quantize(x, library.GGMLQuantizationType.Q8_0)
    writer.add_tensor("q", quantized, raw_dtype=library.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    rs.convert("theirs.gguf", "ours.gguf", ["x=ba,f16"], verify=True)
    reader = library.GGUFReader("ours.gguf")
    found = {tensor.name: tensor for tensor in reader.tensors}
    assert np.array_equal(found["x"].data, x.T.astype(np.float16))
    assert np.array_equal(found["q"].data, quantized)
    assert reader.get_field("general.architecture").contents() == "llama"
    assert reader.get_field("words").contents() == ["a", "b"]
    for kind, (block, nbytes) in library.GGML_QUANT_SIZES.items():
        ours = GGML_KINDS.get(int(kind))
        assert ours is None or (ours.block, ours.bits) == (block, 8 * nbytes)
