"""Blocks as ggml's own code makes them: the rounding said in words, and held against the gguf package."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.errors import refused

_RNG = np.random.default_rng(29)
_NAMES = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")


def _x(rows: int = 16) -> np.ndarray:
    x = (_RNG.normal(size=(rows, 96)) * np.exp(_RNG.normal(size=(rows, 1)))).astype(np.float32)
    x[0, :32], x[1], x[2, :32] = 0, np.round(x[1] * 4) / 4, 3
    x[3, 5], x[3, 9] = 7, -7
    return x


def _codes(name: str, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes and scales of blocks, by the formats' own readers."""
    shape = (
        len(raw),
        raw.shape[1] // {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q8_0": 34}[name] * 32,
    )
    if name.startswith("q5"):
        found = rs.formats.unpack(name, raw, shape)
    else:
        found = rs.formats.named(f"gguf.{name}", shape).wrap(raw)
    return found.values.to_numpy(), found.scale.to_numpy()


@pytest.mark.parametrize("name", ["q4_0", "q5_0"])
def test_the_element_of_largest_magnitude_becomes_the_least_code(name: str) -> None:
    x, middle = _x(), {"q4_0": 8, "q5_0": 16}[name]
    codes, scales = _codes(name, rs.formats.quantize_blocks(x, name))
    offset = middle if name == "q4_0" else 0
    for block, code, scale in zip(x.reshape(-1, 32), codes.reshape(-1, 32), scales.reshape(-1), strict=True):
        largest = max(block.tolist(), key=abs)
        d = np.float32(largest) / np.float32(-middle)
        assert scale == np.float16(d)
        inverse = np.float32(1) / d if d else np.float32(0)
        wanted = [
            min(max(math.floor(v * inverse + np.float32(middle + 0.5)), 0), 2 * middle - 1) for v in block
        ]
        assert (code.astype(int) - offset + middle).tolist() == wanted


def test_halves_go_away_from_zero_in_q8_0() -> None:
    x = np.arange(-16, 16, dtype=np.float32) / 2
    x[0] = 127
    codes, _ = _codes("q8_0", rs.formats.quantize_blocks(x[None], "q8_0"))
    assert codes[0].tolist() == [127, *(int(math.copysign(math.floor(abs(v) + 0.5), v)) for v in x[1:])]


@pytest.mark.parametrize("name", _NAMES)
def test_blocks_come_back_within_a_step(name: str) -> None:
    x = _x()
    raw = rs.formats.quantize_blocks(x, name)
    codes, scales = _codes(name, raw)
    shape = codes.shape
    tensor = (
        rs.formats.unpack(name, raw, shape)
        if name.startswith("q5")
        else rs.formats.named(f"gguf.{name}", shape).wrap(raw)
    )
    error = np.abs(rs.dequantize(tensor) - x).reshape(-1, 32)
    assert (
        error <= np.abs(scales.astype(np.float32)).reshape(-1, 1) * 1.05 + np.abs(x).reshape(-1, 32) * 2e-3
    ).all()


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_other_floats_are_as_their_values_in_f32(kind: type) -> None:
    x = _x().astype(kind)
    for name in _NAMES:
        found = rs.formats.quantize_blocks(x, name)
        np.testing.assert_array_equal(found, rs.formats.quantize_blocks(x.astype(np.float32), name))


def test_many_blocks_are_as_few() -> None:
    x = _RNG.normal(size=(300, 32 * 32)).astype(np.float32)
    found = rs.formats.quantize_blocks(x, "q4_1")
    for row in (0, 255, 256, 299):
        np.testing.assert_array_equal(found[row], rs.formats.quantize_blocks(x[row], "q4_1"))


@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0"])
@pytest.mark.parametrize("word", [0xFFFFFFFF, 0x7F800001, 0xFFA12345])
def test_every_nan_is_written_as_the_same(name: str, word: int) -> None:
    """Processors differ in the sign and the payload that conversions keep, and in the integer of a NaN."""
    rows = np.linspace(-3, 4, 64, dtype=np.float32).reshape(2, 32)
    usual = rows.copy()
    usual[:, 5] = np.nan
    rows.view(np.uint32)[:, 5] = word
    made = rs.formats.quantize_blocks(rows, name)
    np.testing.assert_array_equal(made, rs.formats.quantize_blocks(usual, name))
    assert (made[:, :2].copy().view(np.uint16) == 0x7E00).all()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: rs.formats.quantize_blocks(_x(), "q4_k"), "ggml does not quantize to it"),
        (lambda: rs.formats.quantize_blocks(_x(), None), "ggml does not quantize to it"),  # type: ignore[arg-type]
        (lambda: rs.formats.quantize_blocks(np.ones((2, 33), np.float32), "q4_0"), "not a multiple of 32"),
        (lambda: rs.formats.quantize_blocks(np.float32(1), "q4_0"), "not an array of floats"),
        (lambda: rs.formats.quantize_blocks(np.ones((2, 32), np.int8), "q4_0"), "f32, f16 or bf16"),
        (lambda: rs.formats.quantize_blocks(np.ma.masked_array(_x(), True), "q4_0"), "a mask would be lost"),
    ],
)
def test_what_does_not_fit_is_refused(make: Callable[[], object], why: str) -> None:
    with refused(why):
        make()


@pytest.mark.peer
@pytest.mark.parametrize("name", _NAMES)
def test_the_gguf_package_makes_the_same_bytes(name: str) -> None:
    quants = pytest.importorskip("gguf.quants")
    kind = getattr(pytest.importorskip("gguf").GGMLQuantizationType, name.upper())
    x = np.concatenate([_x(64), np.exp(4 * _RNG.normal(size=(64, 96))).astype(np.float32)])
    with np.errstate(all="ignore"):
        wanted = quants.quantize(x, kind)
    np.testing.assert_array_equal(rs.formats.quantize_blocks(x, name), wanted)
