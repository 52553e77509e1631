"""Formats that models are stored in: each permutation written down, and held against its owner's code."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.formats import example_shape, named, names
from restride.ir.digits import reorder_nest
from restride.ir.nest import Compute
from restride.targets.isa import Isa
from support.errors import refused
from support.kernels import TINY, Kernel, isa_id, runnable

_RNG = np.random.default_rng(5)


def _nibbles(raw: np.ndarray) -> np.ndarray:
    """4-bit values in the order of memory, the low half of a byte first."""
    flat = np.ascontiguousarray(raw).view(np.uint8).reshape(-1)
    return np.stack([flat & 15, flat >> 4], 1).reshape(-1)


def _packed(md: rs.MemoryDesc, codes: np.ndarray) -> np.ndarray:
    """Return the result of a reorder of 4-bit values from row-major."""
    return rs.reorder(codes.astype(np.uint8), md).data.copy()


# --- permutations, from their descriptions ---------------------------------------------------------------


def _awq(codes: np.ndarray) -> np.ndarray:
    """A word of 32 bits holds in its nibble i the column 8 c + order[i]."""
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    words = np.zeros((codes.shape[0], codes.shape[1] // 8), np.uint32)
    for i, column in enumerate(order):
        words |= codes[:, column::8].astype(np.uint32) << np.uint32(4 * i)
    return words


def _gptq(codes: np.ndarray) -> np.ndarray:
    """A word of 32 bits holds in its nibble i the row 8 r + i."""
    words = np.zeros((codes.shape[0] // 8, codes.shape[1]), np.uint32)
    for i in range(8):
        words |= codes[i::8].astype(np.uint32) << np.uint32(4 * i)
    return words


def _places_of_marlin(order: tuple[int, ...]) -> Iterator[int]:
    """The source of each of the 1024 elements of a tile of 16 by 64, made of tiles of 16 by 16 in a row.

    32 threads have 4 tiles of 16 by 16 each, and in each tile 2 columns, 8 apart, of 4 rows, in pairs 8
    apart: what one lane of a tensor core's fragment holds. Each 8 are then put in `order`.
    """
    for thread in range(32):
        for tile in range(4):
            held = [
                256 * tile + 16 * (2 * (thread % 4) + row) + thread // 4 + 8 * block
                for block in (0, 1)
                for row in (0, 1, 8, 9)
            ]
            for start in range(0, 8, len(order)):
                yield from (held[start + i] for i in order)


def _marlin(codes: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """The elements in the order of memory."""
    rows, columns = codes.shape
    tiles = codes.reshape(rows // 16, 16, columns // 16, 16).transpose(0, 2, 1, 3).reshape(-1, 1024)
    return tiles[:, list(_places_of_marlin(order))].reshape(-1)


def _tiles_of_scales(scales: np.ndarray) -> np.ndarray:
    """512 bytes for 128 rows and 4 columns: row r and column c lie at 16 (r % 32) + 4 (r // 32) + c."""
    rows, columns = scales.shape
    out = np.zeros((-(-rows // 128), -(-columns // 4), 512), scales.dtype)
    for r in range(rows):
        for c in range(columns):
            out[r // 128, c // 4, r % 32 * 16 + r % 128 // 32 * 4 + c % 4] = scales[r, c]
    return out.reshape(-1)


def test_awq_has_its_columns_in_the_order_0_2_4_6_1_3_5_7():
    codes = _RNG.integers(0, 16, (128, 64))
    md = rs.formats.awq((128, 64), group=64).values
    np.testing.assert_array_equal(_packed(md, codes), _awq(codes).view(np.uint8).reshape(-1))


def test_gptq_has_eight_rows_in_a_word():
    codes = _RNG.integers(0, 16, (128, 24))
    md = rs.formats.gptq((128, 24), group=32).values
    np.testing.assert_array_equal(_packed(md, codes), _gptq(codes).view(np.uint8).reshape(-1))


def test_marlin_has_what_each_lane_of_a_tensor_core_reads_together():
    codes = _RNG.integers(0, 16, (48, 192))
    packed = _packed(rs.formats.marlin((48, 192)).values, codes)
    np.testing.assert_array_equal(_nibbles(packed), _marlin(codes, (0, 2, 4, 6, 1, 3, 5, 7)))
    wide = _RNG.integers(0, 256, (32, 128)).astype(np.uint8)
    memory = rs.reorder(wide, rs.formats.marlin((32, 128), bits=8).values)
    np.testing.assert_array_equal(memory.data, _marlin(wide, (0, 2, 1, 3)))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", [32, 0])
def test_scales_of_marlin_lie_in_an_order_of_their_own(bits, group):
    """Of groups place 8 i + j of 64 has column i + 8 j; of whole columns pairs of 32 take turns by eights."""
    scales = _RNG.standard_normal((96 // group if group else 1, 192)).astype(np.float16)
    found = rs.formats.marlin((96, 192), bits, group).scale
    if group:
        order = [i + 8 * j for i in range(8) for j in range(8)]
    else:
        order = [2 * i + j for i in range(4) for j in (0, 1, 8, 9, 16, 17, 24, 25)]
    wanted = scales.reshape(-1, len(order))[:, order].reshape(-1)
    np.testing.assert_array_equal(rs.reorder(scales, found).data, wanted)


def test_a_tensor_is_packed_for_marlin_with_its_scales():
    x = _RNG.standard_normal((64, 128)).astype(np.float32)
    for group in (32, 64):
        made = rs.quantize(x, "u4", axis=0, group=group, scale_type="f16")
        packed = rs.formats.marlin((64, 128), group=group % 64).pack(made)
        assert packed.scale.desc == rs.formats.marlin((64, 128), group=group % 64).scale
        np.testing.assert_array_equal(rs.dequantize(packed), rs.dequantize(made))


def test_scales_of_nvfp4_lie_in_rows_in_checkpoints():
    assert rs.formats.nvfp4((256, 64), scales="rows").scale == rs.MemoryDesc((256, 4), "f8_e4m3")
    made = rs.quantize(_RNG.standard_normal((256, 64)).astype(np.float32), "nvfp4")
    tiled = rs.formats.nvfp4((256, 64)).pack(rs.formats.nvfp4((256, 64), "rows").pack(made))
    np.testing.assert_array_equal(rs.dequantize(tiled), rs.dequantize(made))


@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
@pytest.mark.parametrize(("source", "target"), [("gptq", "awq"), ("awq", "marlin"), ("marlin", "gptq")])
def test_repacks_past_the_caches_write_the_same_bytes(source: str, target: str, isa: Isa) -> None:
    """With last caches of one byte whole lines of 4-bit elements go by them."""
    make = {"gptq": _gptq, "awq": _awq, "marlin": lambda c: _pairs(_marlin(c, (0, 2, 4, 6, 1, 3, 5, 7)))}
    codes = _RNG.integers(0, 16, (128, 256))
    md_in, md_out = (getattr(rs.formats, name)(codes.shape).values for name in (source, target))
    kernel = Kernel(reorder_nest(md_in, md_out, Compute()), isa, may_stream=True, caches=TINY)
    raw = np.ascontiguousarray(make[source](codes)).view(np.uint8).reshape(-1)
    read, written = (rs.Memory(md, rs.Engine("cpu")) for md in (md_in, md_out))
    read.data[...] = raw
    kernel(read.get_data_handle(), written.get_data_handle())
    wanted = np.ascontiguousarray(make[target](codes)).view(np.uint8).reshape(-1)
    np.testing.assert_array_equal(written.data, wanted)
    if isa.name == "avx512":
        assert "!nontemporal" in kernel.lowered.ir()


def _pairs(nibbles: np.ndarray) -> np.ndarray:
    return (nibbles[::2] | nibbles[1::2] << 4).astype(np.uint8)


@pytest.mark.parametrize("shape", [(128, 4), (256, 16), (200, 7), (5, 1)])
def test_scales_of_nvfp4_lie_in_tiles_of_128_by_4(shape):
    scales = _RNG.integers(0, 127, shape).astype(np.uint8).view(ml_dtypes.float8_e4m3fn)
    memory = rs.reorder(scales, rs.formats.nvfp4_scales_128x4(shape))
    wanted = _tiles_of_scales(scales.view(np.uint8))
    np.testing.assert_array_equal(memory.data.view(np.uint8), wanted)


@pytest.mark.parametrize("block", [32, 64])
def test_int4_of_torch_for_cpus_has_a_block_of_outputs_for_each_input(block):
    codes = _RNG.integers(0, 16, (128, 6))
    packed = _packed(rs.formats.torchao_int4_cpu((128, 6), block).values, codes)
    half = block // 2
    blocks = codes.reshape(128 // block, 2, half, 6)
    wanted = (blocks[:, 0] | blocks[:, 1] << 4).transpose(0, 2, 1)
    np.testing.assert_array_equal(packed, wanted.astype(np.uint8).reshape(-1))


def _blocks(raw: np.ndarray, *fields: tuple[str, int]) -> np.ndarray:
    return raw.view(np.dtype([(name, np.uint8, size) for name, size in fields]))


def _halves_of(q: np.ndarray) -> np.ndarray:
    """Bytes of which the low halves are the first 16 elements of a block."""
    return np.concatenate([q & 15, q >> 4], -1)


def test_q4_0_is_a_scale_and_then_halves():
    raw = _RNG.integers(0, 256, 6 * 18, np.uint8)
    raw[1::18] &= 0x7B
    parts = _blocks(raw, ("d", 2), ("q", 16))
    scales = parts["d"].copy().view(np.float16).astype(np.float32)
    wanted = (scales * (_halves_of(parts["q"]).astype(np.float32) - 8)).reshape(3, 64)
    np.testing.assert_array_equal(rs.dequantize(rs.formats.gguf.q4_0((3, 64)).wrap(raw)), wanted)


def test_q4_1_has_a_minimum_beside_the_scale():
    raw = _RNG.integers(0, 256, 6 * 20, np.uint8)
    raw[1::20], raw[3::20] = raw[1::20] & 0x7B, raw[3::20] & 0x7B
    parts = _blocks(raw, ("d", 2), ("m", 2), ("q", 16))
    d, m = (parts[name].copy().view(np.float16).astype(np.float32) for name in "dm")
    wanted = (d * _halves_of(parts["q"]).astype(np.float32) + m).reshape(3, 64)
    np.testing.assert_array_equal(rs.dequantize(rs.formats.gguf.q4_1((3, 64)).wrap(raw)), wanted)


def test_mxfp4_of_gguf_has_a_byte_of_exponent_for_each_block():
    raw = _RNG.integers(0, 255, 6 * 17, np.uint8)
    raw[::17] = _RNG.integers(100, 150, 6)
    parts = _blocks(raw, ("e", 1), ("q", 16))
    values = _halves_of(parts["q"]).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    wanted = (np.exp2(parts["e"].astype(np.float32) - 127) * values).reshape(2, 96)
    np.testing.assert_array_equal(rs.dequantize(rs.formats.gguf.mxfp4((2, 96)).wrap(raw)), wanted)


# --- what all of them do ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_a_tensor_goes_into_each_format_and_comes_back(name):
    shape = tuple(2 * n for n in example_shape(name))
    found = named(name, shape)
    made = found.empty()
    codes = _RNG.integers(0, 256, found.values.size, np.uint8)
    plain = rs.MemoryDesc(shape, found.values.data_type)
    src = rs.Memory(plain, rs.Engine("cpu"), codes[: plain.size].copy())
    rs.reorder(src, None, out=made.values)
    back = rs.reorder(made.values, plain)
    back = back if isinstance(back, rs.Memory) else rs.Memory.from_numpy(back)
    np.testing.assert_array_equal(back.data.view(np.uint8), src.data.view(np.uint8))
    assert found.about
    assert found.groups == made.groups or found.scale is None


@pytest.mark.parametrize("name", names())
def test_each_format_has_a_section_with_its_picture(name):
    page = (Path(__file__).parents[2] / "docs" / "stored-formats.md").read_text(encoding="utf-8")
    assert f"| `{name}` |" in page
    assert f"(pictures/{name}.svg)" in page


def test_a_format_is_packed_from_another_without_arithmetic():
    x = _RNG.standard_normal((8, 64)).astype(np.float32)
    quantized = rs.quantize(x, "mxfp4")
    packed = rs.formats.gguf.mxfp4((8, 64)).pack(quantized)
    np.testing.assert_array_equal(rs.dequantize(packed), rs.dequantize(quantized))
    again = rs.formats.mxfp4((8, 64)).pack(packed)
    assert (again.values.data == quantized.values.data).all()
    assert (again.scale.data.view("u1") == quantized.scale.data.view("u1")).all()
    swizzled = rs.formats.nvfp4((8, 64)).pack(made := rs.quantize(x, "nvfp4"))
    np.testing.assert_array_equal(rs.dequantize(swizzled), rs.dequantize(made))
    np.testing.assert_array_equal(swizzled.scale.to_numpy().view("u1"), made.scale.to_numpy().view("u1"))


def test_formats_that_hold_scales_apart_keep_those_of_the_tensor():
    x = _RNG.standard_normal((64, 128)).astype(np.float32)
    made = rs.quantize(x, "u4", axis=0, group=32)
    for packed in (
        rs.formats.marlin((64, 128)).pack(made),
        rs.formats.torchao_int4_cpu((64, 128)).pack(made),
    ):
        assert packed.values.desc != made.values.desc
        np.testing.assert_array_equal(rs.dequantize(packed, dtype="f32"), rs.dequantize(made))


def _unsigned() -> rs.QuantizedTensor:
    return rs.quantize(np.arange(128.0).reshape(4, 32), "u4", group=32, scale_type="f16", symmetric=False)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: rs.formats.gguf.q4_0((4, 33)), "whole blocks of 32"),
        (lambda: rs.formats.gguf.q4_0(()), "whole blocks of 32"),
        (lambda: rs.formats.mxfp4((4, 33)), "33 is not a multiple of 32"),
        (lambda: rs.formats.mxfp4(()), "groups apply to the last dim"),
        (lambda: rs.formats.marlin((16, 65)), "tiles have 16 by 64"),
        (lambda: rs.formats.marlin((16, 64), bits=3), "Marlin has 4 or 8 bits"),
        (lambda: rs.formats.marlin((16, 64), bits=4.0), "an integer"),  # type: ignore[arg-type]
        (lambda: rs.formats.torchao_int4_cpu((64, 4), block=64.0), "an integer"),  # type: ignore[arg-type]
        (lambda: rs.formats.marlin((16, 64), group=5), "16 is not a multiple of 5"),
        (lambda: rs.formats.marlin((16, 64), group=-16), "not a multiple of -16"),
        (lambda: rs.formats.marlin((16, 64), group="all"), "an integer"),  # type: ignore[arg-type]
        (lambda: rs.formats.nvfp4((128, 64), scales="columns"), "in tiles or in rows"),
        (lambda: rs.formats.awq((128,)), "only matrices"),
        (lambda: rs.formats.awq((128, 9)), "each word holds eight elements"),
        (lambda: rs.formats.gptq((100, 8)), "each word holds eight elements"),
        (lambda: rs.formats.torchao_int4_cpu((65, 4)), "whole blocks of 64 outputs"),
        (lambda: rs.formats.fp8_blocks((100, 128)), "100 is not a multiple of 128"),
        (lambda: rs.formats.fp8_blocks((128, 128), group=128), "sequence of integers"),  # type: ignore[arg-type]
        (lambda: rs.formats.fp8_blocks((128, 128), group=(128,)), "of rows and columns"),
        (lambda: rs.formats.fp8_blocks((128, 128), group="ab"), "sequence of integers"),  # type: ignore[arg-type]
        (lambda: rs.formats.mxfp4((4, 32)).pack(np.ones((4, 32))), "expected a QuantizedTensor"),  # type: ignore[arg-type]
        (lambda: rs.formats.unpack("q4_k", b"123", (1, 256)), "pass 144 bytes"),
        (lambda: rs.formats.unpack("Q4_0", bytes(18), (1, 32)), "rs.formats.gguf.q4_0(shape).wrap"),
        (lambda: named("MXFP4", (4, 32)), "did you mean 'mxfp4'?"),
        (lambda: named("gguf.q4_9", (4, 32)), "no format has this name"),
        (lambda: named(["awq"], (128, 8)), "no format has this name"),  # type: ignore[arg-type]
        (lambda: rs.formats.gguf.q4_0((4, 32)).wrap(np.zeros(71, np.uint8)), "72 are required"),
        (lambda: rs.formats.gguf.q4_0((4, 32)).wrap(np.zeros((36, 4), np.uint8)[:, ::2]), "without gaps"),
        (lambda: rs.formats.gguf.q4_0((4, 32)).wrap(), "one buffer contains all parts"),
        (lambda: rs.formats.mxfp4((4, 32)).wrap(np.zeros(64, np.uint8)), "its parts are values, scale"),
        (lambda: rs.formats.mxfp4((4, 32)).pack(rs.quantize(np.ones((4, 32)), "nvfp4")), "is no e8m0"),
        (
            lambda: rs.formats.gguf.q8_0((4, 32)).pack(rs.quantize(np.ones((4, 32)), "s8", group=32)),
            "f32 4x1 ab is no f16",
        ),
        (lambda: rs.formats.gguf.q4_0((4, 32)).pack(_unsigned()), "the zero point of this format is 8"),
        (lambda: rs.formats.gptq((8, 32), 8).pack(rs.formats.gguf.q4_1((8, 32)).empty()), "has a minimum"),
    ],
)
def test_what_does_not_fit_is_refused(make: Callable[[], object], why: str):
    with refused(why):
        make()


def test_bytes_are_wrapped_where_they_lie() -> None:
    form = rs.formats.gguf.q4_0((2, 64))
    raw = bytearray(form.nbytes)
    rs.reorder(np.full((2, 64), 15, np.uint8), None, out=form.wrap(raw).values)
    assert raw[2:18] == b"\xff" * 16
    with refused("read-only"):
        rs.reorder(np.zeros((2, 64), np.uint8), None, out=form.wrap(bytes(raw)).values)
    for bad in (memoryview(bytes(2 * form.nbytes))[::2], np.zeros(9, object), b""):
        with refused("is not valid"):
            form.wrap(bad)
    nothing = rs.formats.gguf.q4_0((0, 64))
    assert rs.dequantize(nothing.wrap(b"")).shape == rs.dequantize(nothing.empty()).shape == (0, 64)
    with refused("a mask would be lost"):
        form.wrap(np.ma.masked_array(np.zeros(form.nbytes, np.uint8), True))


def test_nvfp4_is_wrapped_with_the_factor_of_the_whole_tensor() -> None:
    form = rs.formats.nvfp4((4, 32), scales="rows")
    made = rs.quantize(_RNG.standard_normal((4, 32)).astype(np.float32), "nvfp4")
    held = {"values": made.values.data, "scale": made.scale.data}
    again = form.wrap(**held, tensor_scale=np.float32(made.tensor_scale))
    np.testing.assert_array_equal(rs.dequantize(again), rs.dequantize(made))
    assert form.wrap(**held).tensor_scale == 1
    for bad, why in ((np.nan, "range of f32"), ("2", "one real number"), (1e99, "range of f32")):
        with refused(why):
            form.wrap(**held, tensor_scale=bad)
    with refused("has no tensor scale"):
        rs.formats.gguf.q4_0((4, 32)).wrap(np.zeros(72, np.uint8), tensor_scale=2)


def test_parts_of_another_count_or_type_are_refused() -> None:
    form = rs.formats.awq((256, 16))
    parts = {name: np.zeros(md.size, np.uint8) for name, md in form.parts.items()}
    assert rs.dequantize(form.wrap(**parts)).shape == (256, 16)
    assert rs.dequantize(form.wrap(**{**parts, "scale": np.zeros((2, 16), np.float16)})).shape == (256, 16)
    assert rs.dequantize(form.wrap(**{**parts, "values": np.zeros((256, 2), np.int32)})).shape == (256, 16)
    for name, bad, why in (
        ("scale", np.zeros((4, 16), np.float16), "128 bytes; 64 are required"),
        ("scale", np.zeros((2, 16), ml_dtypes.bfloat16), "are bf16, not f16"),
        ("scale", np.zeros((1, 16), np.float32), "are f32, not f16"),
        ("values", np.zeros((256, 8), ml_dtypes.uint4), "two must share one"),
        ("values", np.zeros((256, 4), np.int32), "4096 bytes; 2048 are required"),
        ("values", np.zeros((256, 2), ">i4"), "in the other byte order"),
        ("scale", np.ones((2, 16), ">f2"), "in the other byte order"),
        ("scale", np.ones((1, 8), np.complex64), "are complex64"),
    ):
        with refused(why):
            form.wrap(**{**parts, name: bad})
    with refused("73 bytes; 72 are required"):
        rs.formats.gguf.q4_0((4, 32)).wrap(np.zeros(73, np.uint8))


def test_scales_of_nf4_are_numbers() -> None:
    with refused("absmax"):
        rs.formats.unpack_nf4(np.zeros(32, np.uint8), "many", (1, 64))
    with refused("cannot be unpacked"):
        rs.formats.unpack("q4_k", memoryview(bytes(288))[::2], (1, 256))


# --- their owners' code ----------------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q8_0", "mxfp4"])
def test_gguf_reads_the_same_numbers(name):
    quants = pytest.importorskip("gguf.quants")
    kind = getattr(pytest.importorskip("gguf").GGMLQuantizationType, name.upper())
    x = _RNG.standard_normal((16, 256)).astype(np.float32)
    raw = quants.quantize(x, kind)
    found = getattr(rs.formats.gguf, name)((16, 256))
    assert found.nbytes == raw.nbytes
    np.testing.assert_array_equal(rs.dequantize(found.wrap(raw)), quants.dequantize(raw, kind))


@pytest.mark.peer
def test_buffers_and_scales_may_be_of_torch_in_types_that_numpy_has_not():
    torch = pytest.importorskip("torch")
    form = rs.formats.nvfp4((4, 32), scales="rows")
    made = rs.quantize(_RNG.standard_normal((4, 32)).astype(np.float32), "nvfp4")
    values = torch.from_numpy(made.values.data.view(np.uint8).copy())
    scale = torch.from_numpy(made.scale.data.view(np.uint8).copy()).view(torch.float8_e4m3fn).reshape(4, 2)
    again = form.wrap(values=values, scale=scale, tensor_scale=made.tensor_scale)
    np.testing.assert_array_equal(rs.dequantize(again), rs.dequantize(made))
    q, scales = torch.arange(-16, 16, dtype=torch.int8).reshape(4, 8), torch.full((4, 2), 0.5)
    found = rs.dequantize(q, scales, 1, dtype="bf16")
    assert found.dtype is torch.bfloat16
    assert torch.equal(found.float(), (q.float() - 1) / 2)


@pytest.mark.peer
def test_torch_packs_int4_for_cpus_in_the_same_order():
    torch = pytest.importorskip("torch")
    block = 64 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 32
    codes = _RNG.integers(0, 16, (192, 32)).astype(np.int32)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(torch.from_numpy(codes), 2)
    wanted = packed.numpy().view(np.uint8).reshape(-1)
    md = rs.formats.torchao_int4_cpu((192, 32), block).values
    np.testing.assert_array_equal(_packed(md, codes), wanted)


def _awq_module(path: str) -> ModuleType:
    """A file of AutoAWQ by itself: the package wants transformers when it is imported as a whole."""
    pytest.importorskip("torch")
    spec = importlib.util.find_spec("awq")
    if spec is None or spec.origin is None:
        pytest.skip("no AutoAWQ")
    file = Path(spec.origin).parent / path
    with pytest.MonkeyPatch.context() as patch:
        # The kernels for GPUs, which are not there, and nothing else of the package.
        stub = ModuleType("awq.utils.module")
        stub.try_import = lambda name: (None, "")  # type: ignore[attr-defined]
        for name in ("awq", "awq.utils"):
            patch.setitem(sys.modules, name, ModuleType(name))
        patch.setitem(sys.modules, "awq.utils.module", stub)
        found = importlib.util.spec_from_file_location(f"awq_{file.stem}", file)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
    return module


@pytest.mark.peer
def test_autoawq_unpacks_the_columns_of_awq():
    packing = _awq_module("utils/packing_utils.py")
    import torch

    codes, zeros = _RNG.integers(0, 16, (128, 64)), _RNG.integers(0, 16, (2, 64))
    found = rs.formats.awq((128, 64), group=64)
    assert isinstance(found.zero_point, rs.MemoryDesc)
    words = [
        torch.from_numpy(_packed(md, part).view(np.int32).reshape(len(part), 8))
        for md, part in ((found.values, codes), (found.zero_point, zeros))
    ]
    theirs = packing.reverse_awq_order(*packing.unpack_awq(*words, 4), 4)
    np.testing.assert_array_equal(theirs[0].numpy() & 15, codes)
    np.testing.assert_array_equal(theirs[1].numpy() & 15, zeros)


@pytest.mark.peer
def test_autoawq_packs_the_rows_of_gptq():
    packing = _awq_module("utils/packing_utils.py")
    import torch

    codes, zeros = _RNG.integers(0, 16, (128, 24)), _RNG.integers(0, 16, (4, 24))
    found = rs.formats.gptq((128, 24), group=32)
    assert isinstance(found.zero_point, rs.MemoryDesc)
    weights, points = packing.pack_exllama(*(torch.from_numpy(x.astype(np.int32)) for x in (codes, zeros)), 4)
    np.testing.assert_array_equal(_packed(found.values, codes), weights.numpy().view(np.uint8).reshape(-1))
    np.testing.assert_array_equal(_packed(found.zero_point, zeros), points.numpy().view(np.uint8).reshape(-1))


@pytest.mark.peer
@pytest.mark.parametrize("group", [128, 256])
def test_autoawq_packs_the_tiles_of_marlin(group):
    marlin = _awq_module("modules/linear/marlin.py")
    import torch

    rows, columns = 256, 192
    codes = _RNG.integers(0, 16, (rows, columns))
    linear = torch.nn.Linear(rows, columns, bias=False)
    linear.weight.data = torch.from_numpy((codes.T - 8).astype(np.float32))
    # Powers of two, with which the codes come back as they are.
    powers = _RNG.integers(-3, 4, (rows // group, columns))
    scales = torch.from_numpy(np.exp2(powers).astype(np.float32).T.copy())
    spread = np.exp2(powers).repeat(group, 0)
    linear.weight.data = torch.from_numpy(((codes - 8) * spread).astype(np.float32).T.copy())
    packed = marlin.WQLinear_Marlin.from_linear(linear, 4, group, scales=scales)
    wanted = packed.qweight.numpy().view(np.uint8).reshape(-1)
    found = rs.formats.marlin((rows, columns), group=group)
    np.testing.assert_array_equal(_packed(found.values, codes), wanted)
    ours = rs.reorder(np.exp2(powers).astype(np.float16), found.scale)
    np.testing.assert_array_equal(ours.data, packed.scales.numpy().reshape(-1))


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mxfp4", "mxfp8"])
def test_torchao_makes_the_same_mx_tensors(name):
    mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    import torch

    x = (_RNG.standard_normal((64, 256)) * np.exp(2 * _RNG.standard_normal((64, 1)))).astype(np.float32)
    kind = torch.float4_e2m1fn_x2 if name == "mxfp4" else torch.float8_e4m3fn
    scale, values = mx.to_mx(torch.from_numpy(x), kind, 32)
    made = rs.quantize(x, name)
    np.testing.assert_array_equal(made.scale.data.view(np.uint8), scale.view(torch.uint8).numpy().reshape(-1))
    np.testing.assert_array_equal(
        made.values.data.view(np.uint8), values.view(torch.uint8).numpy().reshape(-1)
    )


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
def test_torchao_chooses_the_same_scales_for_nvfp4():
    """Its scales do not go below 2**-6, and it multiplies by a rounded reciprocal, so that what lies beside a
    tie may become the other neighbor.
    """
    nvfp4 = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
    import torch

    x = (_RNG.standard_normal((64, 256)) * np.exp(_RNG.standard_normal((64, 1)))).astype(np.float32)
    held = torch.from_numpy(x)
    whole = nvfp4.per_tensor_amax_to_scale(held.abs().max())
    scales, values = nvfp4.nvfp4_quantize(held, 16, whole)
    made = rs.quantize(x, "nvfp4")
    assert made.tensor_scale == float(whole)
    theirs = scales.view(torch.uint8).numpy().reshape(-1).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    ours = made.scale.to_numpy().astype(np.float32).reshape(-1)
    np.testing.assert_array_equal(np.maximum(ours, 2.0**-6), theirs)
    codes = values.view(torch.uint8).numpy().reshape(-1, 8)
    same = (made.values.data.view(np.uint8).reshape(-1, 8) == codes)[ours >= 2.0**-6]
    assert same.mean() > 0.9999


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(128, 4), (256, 16), (200, 7)])
def test_torchao_swizzles_scales_of_nvfp4_the_same_way(shape):
    utils = pytest.importorskip("torchao.prototype.mx_formats.utils")
    import torch

    scales = _RNG.integers(0, 127, shape).astype(np.uint8)
    wanted = utils.to_blocked(torch.from_numpy(scales)).numpy().reshape(-1)
    memory = rs.reorder(scales.view(ml_dtypes.float8_e4m3fn), rs.formats.nvfp4_scales_128x4(shape))
    np.testing.assert_array_equal(memory.data.view(np.uint8), wanted)


def _blocks_of_fp8() -> tuple[np.ndarray, rs.QuantizedTensor]:
    """Numbers of very different blocks of 128 by 128, one of them all zeros."""
    x = _RNG.standard_normal((3, 128, 2, 128)) * np.exp(3 * _RNG.standard_normal((3, 1, 2, 1)))
    x[1, :, 1] = 0
    numbers = x.reshape(384, 256).astype(np.float32)
    return numbers, rs.quantize(numbers, "f8_e4m3", group=(128, 128))


def test_fp8_blocks_are_elements_times_the_scale_of_their_square() -> None:
    """As DeepSeek describes its weights: `weight_scale_inv` holds what each square is multiplied by."""
    x, made = _blocks_of_fp8()
    form = rs.formats.fp8_blocks(x.shape)
    assert form.parts == {"values": made.values.desc, "scale": made.scale.desc}
    most = np.abs(x.reshape(3, 128, 2, 128)).max((1, 3))
    scales = np.where(most > 0, most / np.float32(448), np.float32(1))
    np.testing.assert_array_equal(made.scale.to_numpy(), scales)
    whole = scales.repeat(128, 0).repeat(128, 1)
    codes = (x / whole).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(made.values.data.view(np.uint8), codes.view(np.uint8).reshape(-1))
    held = form.wrap(codes, scale=scales)
    np.testing.assert_array_equal(rs.dequantize(held), codes.astype(np.float32) * whole)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
def test_compressed_tensors_makes_the_same_fp8_of_blocks() -> None:
    forward = pytest.importorskip("compressed_tensors.quantization.lifecycle.forward", exc_type=ImportError)
    import torch
    from compressed_tensors.quantization import QuantizationArgs

    x, made = _blocks_of_fp8()
    args = QuantizationArgs(num_bits=8, type="float", strategy="block", block_structure=[128, 128])
    scales = torch.from_numpy(made.scale.to_numpy())
    codes = forward.quantize(torch.from_numpy(x), scales, None, args, dtype=torch.float8_e4m3fn)
    np.testing.assert_array_equal(
        made.values.data.view(np.uint8), codes.view(torch.uint8).numpy().reshape(-1)
    )
    back = forward.dequantize(codes, scales, None, args=args, dtype=torch.float32)
    np.testing.assert_array_equal(rs.dequantize(made), back.numpy())


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
def test_compressed_tensors_packs_fp4_the_same_way():
    helpers = pytest.importorskip("compressed_tensors.compressors.nvfp4.helpers", exc_type=ImportError)
    import torch

    made = rs.quantize(_RNG.standard_normal((32, 128)).astype(np.float32), "nvfp4")
    numbers = torch.from_numpy(made.values.to_numpy().astype(np.float32)).to(torch.bfloat16)
    wanted = helpers.pack_fp4_to_uint8(numbers).numpy().reshape(-1)
    np.testing.assert_array_equal(made.values.data.view(np.uint8), wanted)


@dataclass(frozen=True)
class _CompressedNvfp4:
    """A tensor as compressed-tensors quantizes it to NVFP4, and its numbers."""

    scales: np.ndarray
    elements: np.ndarray
    numbers: np.ndarray


def _by_compressed_tensors(x: np.ndarray) -> _CompressedNvfp4:
    helpers = pytest.importorskip("compressed_tensors.quantization.utils.helpers", exc_type=ImportError)
    import torch
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle import forward

    args = QuantizationArgs(
        num_bits=4,
        type="float",
        strategy="tensor_group",
        group_size=16,
        scale_dtype=torch.float8_e4m3fn,
    )
    held = torch.from_numpy(x)
    groups = held.reshape(x.shape[0], -1, 16)
    whole = helpers.generate_gparam(held.min(), held.max())
    scales, _ = helpers.calculate_qparams(groups.amin(-1), groups.amax(-1), args, global_scale=whole)
    codes = forward.quantize(held, scales, None, args, dtype=torch.float32, global_scale=whole)
    back = forward.dequantize(codes, scales, None, args=args, dtype=torch.float32, global_scale=whole)
    return _CompressedNvfp4(scales.float().numpy(), codes.numpy(), back.to(torch.bfloat16).float().numpy())


def _few_bits(most: float) -> np.ndarray:
    """Numbers of bf16 of which `most` is the largest: their quotients by scales are often in the middle."""
    x = np.clip(_RNG.standard_normal((64, 512)) * most / 4, -most, most)
    x[0, 0] = most
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
def test_compressed_tensors_makes_the_same_nvfp4_where_its_global_scale_is_exact() -> None:
    x = _few_bits(2.625)
    theirs, made = _by_compressed_tensors(x), rs.quantize(x, "nvfp4")
    assert made.tensor_scale == 2.0**-10
    np.testing.assert_array_equal(made.scale.to_numpy().astype(np.float32), theirs.scales)
    np.testing.assert_array_equal(made.values.to_numpy().astype(np.float32), theirs.elements)
    ours = np.asarray(rs.dequantize(made, dtype="bf16")).astype(np.float32)
    np.testing.assert_array_equal(ours, theirs.numbers)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
def test_compressed_tensors_makes_another_nvfp4_of_ties_alone() -> None:
    """It keeps the reciprocal of the scale of the tensor, in f32. Where that is rounded, what lies in the
    middle of two codes lies beside it there; by exact arithmetic the code is ours.
    """
    x = _few_bits(4.59375)
    theirs, made = _by_compressed_tensors(x), rs.quantize(x, "nvfp4")
    scales = made.scale.to_numpy().astype(np.float64)
    np.testing.assert_array_equal(scales, theirs.scales)
    ours = made.values.to_numpy().astype(np.float64)
    others = np.argwhere(ours != theirs.elements)
    assert 0 < len(others) < x.size / 100
    for row, column in others:
        exact = Fraction(float(x[row, column])) / Fraction(scales[row, column // 16] * made.tensor_scale)
        near, far = (Fraction(float(c[row, column])) for c in (ours, theirs.elements))
        assert abs(exact - near) == abs(exact - far)
        # The codes of these are even.
        assert abs(near) in (0, 1, 2, 4)
