"""ShuffleChannels layers beside OpenVINO itself: models built, saved, read back and called."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs

pytestmark = pytest.mark.peer

CASES = [
    ((15,), 0, 5),
    ((6, 1, 1, 1), 0, 2),
    ((1, 15, 2, 2), 1, 5),
    ((15, 2, 1, 2), -4, 5),
    ((15, 4), 0, 5),
    ((15, 2, 2), 0, 5),
    ((2, 2, 15, 2, 2), 2, 5),
    ((5, 12, 20, 40), 1, 3),
    ((3, 4), -1, 4),
]
DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")


@pytest.fixture(scope="module")
def ov():
    return pytest.importorskip("openvino")


def model_of(ov, shape, axis, group, dtype="float32"):
    """A model of one ShuffleChannels layer between its input and its result."""
    try:
        from openvino import opset3, opset8
    except ImportError:  # where older releases have them
        from openvino.runtime import opset3, opset8
    x = opset8.parameter(shape, np.dtype(dtype), name="x")
    made = opset3.shuffle_channels(x, axis, group, name="shuffled")
    return ov.Model([opset8.result(made)], [x], "model")


def of_openvino(ov, model, x):
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled(x)[compiled.output(0)]


def ramp(shape, dtype="float32"):
    return np.arange(np.prod(shape)).astype(dtype).reshape(shape)


@pytest.mark.parametrize(("shape", "axis", "group"), CASES)
def test_calls_are_those_of_openvino(ov, shape, axis, group):
    x = ramp(shape)
    wanted = of_openvino(ov, model_of(ov, shape, axis, group), x)
    np.testing.assert_array_equal(rs.openvino.ShuffleChannels(shape, axis, group)(x), wanted)
    np.testing.assert_array_equal(rs.shuffle_channels(x, group=group, axis=axis), wanted)


@pytest.mark.parametrize("dtype", [*DTYPES, *FLOATS])
def test_a_saved_model_is_read_back(ov, tmp_path, dtype):
    model = model_of(ov, (1, 15, 2, 2), 1, 5, dtype)
    ov.save_model(model, tmp_path / "model.xml", compress_to_fp16=False)
    layers = rs.openvino.read_ir(tmp_path / "model.xml")
    layer = layers.by_name("shuffled")
    assert layers == (layer,)
    assert (layer.shape, layer.axis, layer.group, layer.group_size) == ((1, 15, 2, 2), 1, 5, 3)
    assert layer.dtype == np.dtype(dtype)
    x = ramp(layer.shape, dtype)
    np.testing.assert_array_equal(layer(x), of_openvino(ov, model, x))


def test_a_saved_model_of_open_extents_is_read_back(ov, tmp_path):
    model = model_of(ov, [-1, 12, -1], 1, 3)
    ov.save_model(model, tmp_path / "model.xml")
    (layer,) = rs.openvino.read_ir(tmp_path / "model.xml")
    assert layer.shape == (-1, 12, -1)
    x = ramp((2, 12, 5))
    np.testing.assert_array_equal(layer(x), of_openvino(ov, model, x))
