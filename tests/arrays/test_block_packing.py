"""`rs.quantize` to ggml's blocks of bit fields: the nearest numbers that the blocks can say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.desc.ggml_blocks import GGML_BLOCKS
from support.errors import refused

Array = np.ndarray
_RNG = np.random.default_rng(31)
_each = pytest.mark.parametrize("name", GGML_BLOCKS)


def _rms(difference: Array) -> float:
    return float(np.sqrt((difference.astype(np.float64) ** 2).mean()))


def _plain_error(x: Array, name: str) -> float:
    """The error of values between the ends of each group, with scales and minima in f32."""
    blocks = GGML_BLOCKS[name]
    groups, (least, most) = x.reshape(-1, blocks.group), blocks.values.ends
    if blocks.minimum_at is None:
        scale = np.abs(groups).max(1, keepdims=True) / most
        return _rms(np.rint(groups / scale).clip(least, most) * scale - groups)
    low = groups.min(1, keepdims=True)
    scale = (groups.max(1, keepdims=True) - low) / most
    return _rms(np.rint((groups - low) / scale) * scale + low - groups)


@_each
def test_errors_are_those_of_plain_quantization(name: str) -> None:
    x = _RNG.standard_normal((8, 1024)).astype(np.float32)
    found = rs.dequantize(rs.quantize(x, name))
    # Codes of a table are as near as 4 bits are.
    assert _rms(found - x) < (0.1 if name == "iq4_nl" else 1.15 * _plain_error(x, name))


@_each
def test_zeros_and_nothing_are_kept(name: str) -> None:
    zeros = np.zeros((2, 512), np.float32)
    np.testing.assert_array_equal(rs.dequantize(rs.quantize(zeros, name)), zeros)
    assert rs.quantize(zeros[:0], name).dims == (0, 512)


@_each
def test_what_is_not_finite_makes_no_range(name: str) -> None:
    x = _RNG.standard_normal((1, 512)).astype(np.float32)
    x[0, :4] = np.inf, -np.inf, np.nan, 0
    found = rs.dequantize(rs.quantize(x, name))
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= 1.3 * np.abs(x[np.isfinite(x)]).max()
    assert found[0, 2] == found[0, 3]
    assert not np.isnan(rs.dequantize(rs.quantize(x * np.float32(1e37), name))).any()


def test_sums_stand_behind_the_elements() -> None:
    made = rs.quantize(_RNG.standard_normal((2, 256)).astype(np.float32), "q8_k")
    raw = np.asarray(made.packed).reshape(2, 292)
    sums = raw[:, 4:260].view(np.int8).reshape(2, 16, 16).sum(2)
    np.testing.assert_array_equal(raw[:, 260:].copy().view(np.int16), sums)


def test_floats_of_other_types_and_layouts_are_quantized() -> None:
    x = _RNG.standard_normal((4, 256)).astype(np.float16)
    wanted = np.asarray(rs.quantize(x.astype(np.float32), format="q6_k").packed)
    for one in (x, rs.reorder(x.astype(np.float64), "ba"), rs.Memory.from_numpy(x).to("AB2a4b")):
        np.testing.assert_array_equal(np.asarray(rs.quantize(one, "q6_k").packed), wanted)


def test_other_words_and_rows_are_refused() -> None:
    x = np.zeros((2, 256), np.float32)
    with refused("q4_k takes no other arguments"):
        rs.quantize(x, "q4_k", group=32)
    with refused("the last dim is 128", "whole blocks of 256"):
        rs.quantize(x[:, :128], "q4_k")
    with refused("not of real numbers"):
        rs.quantize(x.astype(np.int32), "q4_k")


@pytest.mark.peer
@pytest.mark.parametrize("name", ["q5_0", "q5_1"])
def test_errors_are_those_of_gguf(name: str) -> None:
    quants = pytest.importorskip("gguf.quants")
    kind = getattr(pytest.importorskip("gguf").GGMLQuantizationType, name.upper())
    x = _RNG.standard_normal((16, 1024)).astype(np.float32)
    theirs = _rms(quants.dequantize(quants.quantize(x, kind), kind) - x)
    assert _rms(rs.dequantize(rs.quantize(x, name)) - x) < 1.001 * theirs


@pytest.mark.peer
def test_gguf_reads_what_is_saved(tmp_path: Path) -> None:
    library, quants = pytest.importorskip("gguf"), pytest.importorskip("gguf.quants")
    x = _RNG.standard_normal((4, 512)).astype(np.float32)
    made = {name: rs.quantize(x, name) for name in GGML_BLOCKS}
    path = tmp_path / "a.gguf"
    rs.save(made, path, metadata={"general.architecture": "none"})
    tensors = {one.name: one for one in library.GGUFReader(path).tensors}
    for name, tensor in made.items():
        assert tensors[name].tensor_type.name == name.upper()
        if name != "q8_k":  # which the package does not read
            found = quants.dequantize(tensors[name].data, tensors[name].tensor_type)
            np.testing.assert_array_equal(found.reshape(4, 512), rs.dequantize(tensor))
