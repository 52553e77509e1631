"""Formats of bit fields: every element as its bits say, one by one, and as its owner's code says."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import restride as rs
from support.errors import refused

_RNG = np.random.default_rng(23)
# Elements and bytes of a block, and where its f16 numbers are.
_BLOCKS = {
    "q5_0": (32, 22, (0,)),
    "q5_1": (32, 24, (0, 2)),
    "q2_k": (256, 84, (80, 82)),
    "q3_k": (256, 110, (108,)),
    "q4_k": (256, 144, (0, 2)),
    "q5_k": (256, 176, (0, 2)),
    "q6_k": (256, 210, (208,)),
    "iq4_nl": (32, 18, (0,)),
}


def _random(name: str, count: int) -> np.ndarray:
    _, nbytes, floats = _BLOCKS[name]
    raw = _RNG.integers(0, 256, (count, nbytes), np.uint8)
    for at in floats:
        raw[:, at : at + 2] = _RNG.normal(size=count).astype(np.float16).view(np.uint8).reshape(count, 2)
    return raw


def _half(raw: bytes, at: int) -> np.float32:
    return np.float32(np.frombuffer(raw, np.float16, 1, at)[0])


# What an element is, by its number in the block.


def _q5_0(raw: bytes, i: int) -> np.float32:
    low = raw[6 + i % 16] >> 4 * (i // 16) & 15
    high = raw[2 + i // 8] >> i % 8 & 1
    return _half(raw, 0) * np.float32((low | high << 4) - 16)


def _q5_1(raw: bytes, i: int) -> np.float32:
    low = raw[8 + i % 16] >> 4 * (i // 16) & 15
    high = raw[4 + i // 8] >> i % 8 & 1
    return _half(raw, 0) * np.float32(low | high << 4) + _half(raw, 2)


def _q2_k(raw: bytes, i: int) -> np.float32:
    q = raw[16 + 32 * (i // 128) + i % 32] >> 2 * (i % 128 // 32) & 3
    scale = raw[i // 16]
    d, m = _half(raw, 80) * np.float32(scale & 15), _half(raw, 82) * np.float32(scale >> 4)
    return d * np.float32(q) - m


def _q3_k(raw: bytes, i: int) -> np.float32:
    q = raw[32 + 32 * (i // 128) + i % 32] >> 2 * (i % 128 // 32) & 3
    q -= 0 if raw[i % 32] >> i // 32 & 1 else 4
    group = i // 16
    low = raw[96 + group % 8] >> 4 * (group // 8) & 15
    high = raw[104 + group % 4] >> 2 * (group // 4) & 3
    return _half(raw, 108) * np.float32((low | high << 4) - 32) * np.float32(q)


def _six_bits(raw: bytes, group: int) -> tuple[int, int]:
    if group < 4:
        return raw[4 + group] & 63, raw[8 + group] & 63
    scale = raw[8 + group] & 15 | raw[group] >> 6 << 4
    return scale, raw[8 + group] >> 4 | raw[4 + group] >> 6 << 4


def _of_six_bits(raw: bytes, i: int, q: int) -> np.float32:
    scale, least = _six_bits(raw, i // 32)
    return _half(raw, 0) * np.float32(scale) * np.float32(q) - _half(raw, 2) * np.float32(least)


def _q4_k(raw: bytes, i: int) -> np.float32:
    return _of_six_bits(raw, i, raw[16 + 32 * (i // 64) + i % 32] >> 4 * (i % 64 // 32) & 15)


def _q5_k(raw: bytes, i: int) -> np.float32:
    low = raw[48 + 32 * (i // 64) + i % 32] >> 4 * (i % 64 // 32) & 15
    return _of_six_bits(raw, i, low | (raw[16 + i % 32] >> i // 32 & 1) << 4)


def _q6_k(raw: bytes, i: int) -> np.float32:
    low = raw[64 * (i // 128) + i % 64] >> 4 * (i % 128 // 64) & 15
    high = raw[128 + 32 * (i // 128) + i % 32] >> 2 * (i % 128 // 32) & 3
    scale = np.float32(np.int8(raw[192 + i // 16] - 256 if raw[192 + i // 16] > 127 else raw[192 + i // 16]))
    return _half(raw, 208) * scale * np.float32((low | high << 4) - 32)


def _iq4_nl(raw: bytes, i: int) -> np.float32:
    table = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
    return _half(raw, 0) * np.float32(table[raw[2 + i % 16] >> 4 * (i // 16) & 15])


_ELEMENT: dict[str, Callable[[bytes, int], np.float32]] = {
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q2_k": _q2_k,
    "q3_k": _q3_k,
    "q4_k": _q4_k,
    "q5_k": _q5_k,
    "q6_k": _q6_k,
    "iq4_nl": _iq4_nl,
}


@pytest.mark.parametrize("name", _BLOCKS)
def test_each_element_is_what_its_bits_say(name: str) -> None:
    block = _BLOCKS[name][0]
    raw = _random(name, 6)
    found = rs.formats.unpack(name, raw, (3, 2 * block))
    wanted = [_ELEMENT[name](one.tobytes(), i) for one in raw for i in range(block)]
    np.testing.assert_array_equal(rs.dequantize(found).reshape(-1), np.array(wanted))
    assert found.values.desc.dims == (3, 2 * block)
    packed = rs.formats.named(f"gguf.{name}", (3, 2 * block)).wrap(raw)
    assert (packed.dims, packed.nbytes, packed.groups) == (found.dims, raw.size, found.groups)
    np.testing.assert_array_equal(rs.dequantize(packed).reshape(-1), np.array(wanted))


def test_blocks_of_bytes_have_a_scale_in_f32() -> None:
    raw = _RNG.integers(0, 256, (6, 292), np.uint8)
    raw[:, :4] = _RNG.normal(size=6).astype(np.float32).view(np.uint8).reshape(6, 4)
    found = rs.formats.gguf.q8_k((3, 512)).wrap(raw)
    wanted = raw[:, :4].copy().view(np.float32) * raw[:, 4:260].view(np.int8)
    np.testing.assert_array_equal(rs.dequantize(found), wanted.reshape(3, 512))


def test_packed_tensors_are_quantized_tensors_in_any_type_and_layout() -> None:
    raw = _random("q5_k", 32)
    found = rs.formats.gguf.q5_k((4, 2, 1024)).wrap(raw)
    exact = rs.dequantize(found)
    assert isinstance(found, rs.QuantizedTensor)
    assert repr(found) == "<PackedTensor q5_k 4x2x1024>"
    assert found.desc == found.values.desc
    assert (found.zero_point, found.tensor_scale, found.format) == (None, 1.0, "q5_k")
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(rs.dequantize(again), exact)
    parts = rs.QuantizedTensor(found.values, found.scale, minimum=found.minimum)
    np.testing.assert_array_equal(rs.dequantize(parts), exact)
    for kind in ("bf16", "f16", "f64"):
        np.testing.assert_array_equal(rs.dequantize(found, dtype=kind), rs.reorder(exact, dtype=kind))
    blocked = rs.dequantize(found, dst="aBc4b")
    np.testing.assert_array_equal(rs.reorder(blocked, "abc"), exact)
    out = np.empty((4, 2, 1024), np.float32)
    assert rs.dequantize(found, out=out) is out
    np.testing.assert_array_equal(out, exact)
    out.flags.writeable = False
    with refused("read-only"):
        rs.dequantize(found, out=out)
    with refused("different shapes"):
        rs.dequantize(found, out=np.empty((4, 2, 1023), np.float32))
    with refused("products of low-bit numbers"):
        rs.formats.gguf.q5_k((4, 2, 1024)).pack(found)


def test_results_that_lie_over_the_blocks_are_written_whole() -> None:
    raw = _random("q6_k", 8)
    exact = rs.dequantize(rs.formats.gguf.q6_k((2, 1024)).wrap(raw))
    room = np.zeros(8192, np.uint8)
    room[: raw.size] = raw.reshape(-1)
    rs.dequantize(
        rs.formats.gguf.q6_k((2, 1024)).wrap(room[: raw.size]), out=room.view(np.float32).reshape(2, 1024)
    )
    np.testing.assert_array_equal(room.view(np.float32).reshape(2, 1024), exact)


def test_many_blocks_are_unpacked_as_few() -> None:
    raw = _random("q4_k", 5000)
    found = rs.dequantize(rs.formats.unpack("Q4_K", raw.reshape(-1), (50, 100 * 256))).reshape(-1, 256)
    for at in (0, 4095, 4096, 4999):
        one = rs.formats.unpack("q4_k", raw[at], (256,))
        np.testing.assert_array_equal(rs.dequantize(one), found[at])


def test_nf4_is_a_table_and_a_scale() -> None:
    codes = _RNG.integers(0, 16, (4, 128))
    packed = (codes[:, ::2] << 4 | codes[:, 1::2]).astype(np.uint8)
    absmax = _RNG.random(8).astype(np.float32)
    found = rs.dequantize(rs.formats.unpack_nf4(packed, absmax, (4, 128)))
    np.testing.assert_array_equal(found, rs.formats.NF4[codes] * absmax.reshape(4, 2).repeat(64, 1))
    assert rs.formats.NF4[[0, 7, 15]].tolist() == [-1, 0, 1]


def test_nothing_is_nothing() -> None:
    assert rs.dequantize(rs.formats.unpack("q6_k", b"", (0, 256))).shape == (0, 256)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: rs.formats.unpack("q4_0", b"", (1, 256)), "not a format of ggml"),
        (lambda: rs.formats.unpack(4, b"", (1, 256)), "not a format of ggml"),  # type: ignore[arg-type]
        (lambda: rs.formats.unpack("q4_k", np.zeros(144, np.uint8), (2, 128)), "not a multiple of 256"),
        (lambda: rs.formats.unpack("q4_k", np.zeros(144, np.uint8), ()), "not a multiple of 256"),
        (lambda: rs.formats.unpack("q4_k", np.zeros(143, np.uint8), (256,)), "144 are required"),
        (lambda: rs.formats.unpack("q4_k", np.zeros((144, 2), np.uint8)[:, 0], (256,)), "without gaps"),
        (lambda: rs.formats.unpack("q4_k", [None] * 18, (256,)), "Python objects"),
        (lambda: rs.formats.unpack("q4_k", np.zeros(72, ">u2"), (256,)), "in the other byte order"),
        (lambda: rs.formats.unpack_nf4(np.zeros(32, np.uint8), np.ones(2), (64,)), "2 scales for 1 blocks"),
        (lambda: rs.formats.unpack_nf4(np.zeros(32, np.uint8), np.ones(1), (64,), 48), "a multiple of 48"),
        (lambda: rs.formats.unpack_nf4(np.zeros(32, np.uint8), np.ones(1), (64,), 0), "a multiple of 0"),
    ],
)
def test_what_does_not_fit_is_refused(make: Callable[[], object], why: str) -> None:
    with refused(why):
        make()


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore:(overflow|invalid):RuntimeWarning")
@pytest.mark.parametrize("name", _BLOCKS)
def test_gguf_reads_the_same_numbers(name: str) -> None:
    quants = pytest.importorskip("gguf.quants")
    kind = getattr(pytest.importorskip("gguf").GGMLQuantizationType, name.upper())
    raw = _random(name, 64)
    found = rs.dequantize(rs.formats.unpack(name, raw, (8, 8 * _BLOCKS[name][0])))
    np.testing.assert_array_equal(found, quants.dequantize(raw.reshape(8, -1), kind))
    # Any bytes: scales that are infinite, and no numbers.
    raw = _RNG.integers(0, 256, (64, _BLOCKS[name][1]), np.uint8)
    found = rs.dequantize(rs.formats.named(f"gguf.{name}", (8, 8 * _BLOCKS[name][0])).wrap(raw))
    wanted = quants.dequantize(raw.reshape(8, -1), kind)
    np.testing.assert_array_equal(found, wanted)
    is_number = ~np.isnan(wanted)
    np.testing.assert_array_equal(found.view(np.uint32)[is_number], wanted.view(np.uint32)[is_number])


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", [64, 128])
def test_bitsandbytes_reads_the_same_numbers(block: int) -> None:
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("bitsandbytes").functional
    x = torch.from_numpy(_RNG.normal(size=(32, 256)).astype(np.float32))
    packed, state = functional.quantize_4bit(x, blocksize=block, quant_type="nf4")
    found = rs.formats.unpack_nf4(packed.numpy(), state.absmax.numpy(), (32, 256), block)
    np.testing.assert_array_equal(rs.dequantize(found), functional.dequantize_4bit(packed, state).numpy())


def test_a_verbose_line_says_what_unpacks(capfd: pytest.CaptureFixture[str]) -> None:
    with rs.set_verbose("profile_exec"):
        rs.formats.unpack("Q5_0", np.zeros((2, 22), np.uint8), (1, 64))
        rs.formats.unpack_nf4(np.zeros(64, np.uint8), np.ones(2, np.float32), (2, 64))
        rs.formats.quantize_blocks(np.ones((1, 32), np.float32), "q4_0")
    found = [line.split(",")[2:] for line in capfd.readouterr().err.splitlines() if ",exec," in line]
    assert [(line[3], line[4].split(":")[0], line[8], line[9]) for line in found] == [
        ("unpack", "jit", "q5_0", "1x64"),
        ("unpack", "numpy", "nf4", "2x64"),
        ("quantize_blocks", "numpy", "q4_0", "1x32"),
    ]
