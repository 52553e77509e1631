"""ONNX's DFT and STFT beside NumPy's transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import restride as rs

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

Array = np.ndarray[Any, Any]


def of_node(operator: str, x: Array, constants: dict[str, int | Array], **attributes: int) -> Array:
    """Return the results of an operator of `x` and constants."""
    names = ["" if name.startswith("-") else name for name in constants]
    node = helper.make_node(operator, ["x", *names], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, x.shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [
            onnx.numpy_helper.from_array(np.asarray(value), name)
            for name, value in constants.items()
            if name[0] != "-"
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return np.asarray(rs.onnx.load(model)(x))


def parts(x: Array) -> Array:
    return np.stack([x.real, x.imag], -1)


def numbers(*dims: int) -> Array:
    return np.random.default_rng(0).standard_normal(dims).astype(np.float32)


@pytest.mark.parametrize("length", [1, 2, 7, 8, 12])
@pytest.mark.parametrize("axis", [1, 2])
def test_transforms_and_inverses_of_any_length(length: int, axis: int) -> None:
    real, both = numbers(2, 7, 8, 1), numbers(2, 7, 8, 2)
    whole = both[..., 0] + 1j * both[..., 1]
    given = {"n": length, "axis": axis}
    for made, expected in (
        (of_node("DFT", real, given), parts(np.fft.fft(real[..., 0], length, axis))),
        (of_node("DFT", real, given, onesided=1), parts(np.fft.rfft(real[..., 0], length, axis))),
        (of_node("DFT", both, given), parts(np.fft.fft(whole, length, axis))),
        (of_node("DFT", both, given, inverse=1), parts(np.fft.ifft(whole, length, axis))),
        (
            of_node("DFT", both, given, inverse=1, onesided=1),
            np.fft.irfft(whole, length, axis)[..., np.newaxis],
        ),
    ):
        assert made.shape == expected.shape
        np.testing.assert_allclose(made, expected, atol=2e-5)


@pytest.mark.parametrize("onesided", [0, 1])
def test_frames_of_a_signal(onesided: int) -> None:
    x, window = numbers(2, 40), np.hanning(16).astype(np.float32)
    made = of_node("STFT", x, {"step": 5, "window": window}, onesided=onesided)
    frames = np.stack([x[:, at : at + 16] * window for at in range(0, 25, 5)], 1)
    expected = parts(np.fft.rfft(frames) if onesided else np.fft.fft(frames))
    np.testing.assert_allclose(made, expected, atol=2e-5)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(rs.InvalidArguments, match="parts of complex numbers"):
        of_node("DFT", numbers(2, 8, 3), {"-": 0, "axis": 1})
    with pytest.raises(rs.Unimplemented, match="transforms 4000 points"):
        of_node("DFT", numbers(1, 4000, 1), {"-": 0, "axis": 1})
    with pytest.raises(rs.InvalidArguments, match="frames of 50"):
        of_node("STFT", numbers(2, 40), {"step": 5, "window": np.ones(50, np.float32)})
