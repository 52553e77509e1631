"""Recurrent networks of bytes: states quantized as oneDNN does, beside NumPy; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import elements, memory_of
from support.errors import refused
from support.rnn import CELLS, DIRECTIONS, Shape, arguments, dims_of, reference

CPU = rs.Engine("cpu")
_SHAPE = Shape(4, 3, 20, 20, 2)
_DATA = (63.0, 128.0)


def _attr(gates, channels, mask):
    attr = rs.PrimitiveAttr()
    attr.set_rnn_data_qparams(*_DATA)
    scales = np.linspace(60, 90, gates * channels) if mask else [75.0]
    attr.set_rnn_weights_qparams(mask, [float(each) for each in scales])
    return attr, np.broadcast_to(np.asarray(scales, np.float32), (gates * channels,)).reshape(gates, channels)


def _descs(cell, direction, shape, **types):
    found = {}
    kinds = {"src_layer": "u8", "weights_layer": "s8", "weights_iter": "s8"} | types
    for name, dims in dims_of(shape, cell, direction).items():
        format = "any" if name.startswith("weights") else None
        found[f"{name}_desc"] = rs.MemoryDesc(dims, kinds.get(name, "f32"), format)
    return found | ({"activation": "eltwise_tanh"} if cell == "VanillaRNN" else {})


@pytest.mark.sweep(2)
@pytest.mark.parametrize("mask", [0, 24])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("kind", ["u8", "f32"])
def test_bytes_give_the_states_of_reals_to_a_step_of_quantization(cell, direction, mask, kind):
    types = {"src_iter": kind, "dst_iter": kind, "dst_layer": kind}
    attr, scales = _attr(CELLS[cell], _SHAPE.channels, mask)
    pd = getattr(rs, f"{cell}Forward").PrimitiveDesc(
        CPU,
        prop_kind="forward_inference",
        direction=direction,
        attr=attr,
        **_descs(cell, direction, _SHAPE, **types),
    )
    real = arguments(_SHAPE, cell, direction, 0)
    scale, shift = _DATA
    stored, exact = {}, dict(real)
    for arg, value in real.items():
        if arg in (1, 2) and pd.query_md("exec_arg_md", arg).data_type is rs.u8:
            stored[arg] = np.rint(value * scale + shift).clip(0, 255).astype(np.uint8)
            exact[arg] = (stored[arg].astype(np.float64) - shift) / scale
        elif arg in (33, 34):
            stored[arg] = np.rint(value * scales).clip(-128, 127).astype(np.int8)
            exact[arg] = stored[arg] / scales.astype(np.float64)
        else:
            stored[arg] = value
    memories = {arg: memory_of(pd.query_md("exec_arg_md", arg), each, CPU) for arg, each in stored.items()}
    for arg in pd._exec_args():
        memories.setdefault(arg, rs.Memory(pd.query_md("exec_arg_md", arg), CPU))
    getattr(rs, f"{cell}Forward")(pd).execute(rs.Stream(CPU), memories)
    expected = reference(cell, direction, exact)
    for arg in (17, 18):
        got, count = (
            elements(memories[arg]).astype(np.float64),
            2 if direction.endswith("sum") and arg == 17 else 1,
        )
        if kind == "u8":
            # Two bytes are added as bytes: what does not fit saturates.
            wanted = (expected[arg] * scale + count * shift).clip(0, 255)
            assert np.abs(got - wanted).max() <= 4 * count
        elif count == 1:
            assert np.abs(got - expected[arg]).max() <= 4 / scale


def _bytes_of(cell, engine, weights, shape):
    """All that a network of one direction writes, of weights in a format, by argument."""
    direction = "unidirectional_left2right"
    attr, _ = _attr(CELLS[cell], shape.channels, 24)
    descs = _descs(cell, direction, shape, src_iter="u8", dst_iter="u8", dst_layer="u8")
    for name in ("weights_layer_desc", "weights_iter_desc"):
        descs[name] = rs.MemoryDesc(descs[name].dims, "s8", weights)
    how = {"prop_kind": "forward_inference", "direction": direction, "attr": attr}
    pd = getattr(rs, f"{cell}Forward").PrimitiveDesc(engine, **how, **descs)
    rng, memories = np.random.default_rng(1), {}
    for arg, md in pd._exec_args().items():
        low, high = (-90, 90) if md.data_type is rs.s8 else (90, 166) if md.data_type is rs.u8 else (-1, 1)
        values = rng.uniform(low, high, md.dims)
        kind = md.data_type.numpy
        memories[arg] = memory_of(md, (values if kind == "f4" else np.rint(values)).astype(kind), engine)
    getattr(rs, f"{cell}Forward")(pd).execute(rs.Stream(engine), memories)
    return {arg: elements(memories[arg]).astype(float) for arg in (17, 18, 19) if arg in memories}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("steps", [2, 6])
@pytest.mark.parametrize("weights", ["ldigo", "ldgoi", "abdEC16e4c"])
@pytest.mark.parametrize("cell", CELLS)
def test_bytes_are_the_same_from_weights_in_every_format(cell, weights, steps):
    shape = Shape(steps, 3, 21, 35, 1)
    expected = _bytes_of(cell, CPU, "any", shape)
    for arg, value in _bytes_of(cell, CPU, weights, shape).items():
        np.testing.assert_array_equal(value, expected[arg])


def test_attributes_tell_what_was_set():
    attr = rs.PrimitiveAttr()
    assert (attr.get_rnn_data_qparams(), attr.get_rnn_weights_qparams()) == ((1.0, 0.0), (0, [1.0]))
    attr.set_rnn_data_qparams(2, 3)
    attr.set_rnn_weights_qparams(24, [1.0, 2.0])
    assert (attr.get_rnn_data_qparams(), attr.get_rnn_weights_qparams()) == ((2.0, 3.0), (24, [1.0, 2.0]))
    other = rs.PrimitiveAttr()
    assert attr != other
    attr.set_rnn_data_qparams(1, 0)
    attr.set_rnn_weights_qparams(0, [1.0])
    assert attr == other


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda attr: attr.set_rnn_data_qparams(0, 1), "not above 0"),
        (lambda attr: attr.set_rnn_data_qparams(1, float("inf")), "not finite"),
        (lambda attr: attr.set_rnn_weights_qparams(1, [1.0]), "mask 1"),
        (lambda attr: attr.set_rnn_weights_qparams(0, [1.0, 2.0]), "2 scales"),
        (lambda attr: attr.set_rnn_weights_qparams(24, []), "0 scales"),
        (lambda attr: attr.set_rnn_weights_qparams(0, [-1.0]), "not above 0"),
        (lambda attr: attr.set_rnn_weights_qparams(0, [1e-40]), "cannot hold 1 / scale"),
        (lambda attr: attr.set_rnn_data_qparams(2.0**-128, 0), "cannot hold 1 / scale"),
    ],
)
def test_numbers_that_quantize_nothing_are_refused(call, text):
    with refused(text):
        call(rs.PrimitiveAttr())


def test_other_primitives_and_types_refuse_quantization():
    attr, _ = _attr(4, 20, 0)
    md = rs.MemoryDesc((2, 3), "f32")
    with refused("quantization of a recurrent network", kind=rs.Unimplemented):
        rs.Reorder.PrimitiveDesc(CPU, md, CPU, md, attr)
    direction = "unidirectional_left2right"
    descs = _descs("LSTM", direction, _SHAPE)
    named = {"prop_kind": "forward_inference", "direction": direction}
    with refused("bytes are only for inference", kind=rs.Unimplemented):
        rs.LSTMForward.PrimitiveDesc(CPU, **{**named, "prop_kind": "forward_training"}, **descs)
    with refused("dst_iter_desc is bf16", kind=rs.Unimplemented):
        rs.LSTMForward.PrimitiveDesc(CPU, **named, **_descs("LSTM", direction, _SHAPE, dst_iter="bf16"))
    wrong, _ = _attr(4, 19, 24)
    with refused("76 scales of weights"):
        rs.LSTMForward.PrimitiveDesc(CPU, **named, attr=wrong, **descs)
    for scale in (2.0**-100, 2.0**100):
        far = rs.PrimitiveAttr()
        far.set_rnn_data_qparams(scale, 0)
        far.set_rnn_weights_qparams(0, [scale])
        with refused("1 / (scale of data * scale of weights)"):
            rs.LSTMForward.PrimitiveDesc(CPU, **named, attr=far, **descs)
    floats = {name: rs.MemoryDesc(each.dims, "f32") for name, each in descs.items()}
    with refused("the source is f32"):
        rs.LSTMForward.PrimitiveDesc(CPU, **named, attr=attr, **floats)
