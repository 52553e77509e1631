"""Recurrent networks: cells, layers, directions and formats beside NumPy; what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import restride as rs
from restride.ir.program import RepeatStep
from support.computed import computed, elements
from support.errors import refused
from support.rnn import CELLS, Shape, arguments, forward, reference

CPU = rs.Engine("cpu")
_SHAPES = {
    "plain": Shape(3, 2, 5, 7, 1),
    "one step": Shape(1, 2, 16, 16, 1),
    "layers": Shape(4, 3, 16, 16, 2),
    "tails": Shape(5, 2, 34, 34, 2),
}


def _results(shape, cell, direction, engine=CPU, prop_kind="forward_inference", seed=0, **formats):
    pd = forward(engine, shape, cell, direction, prop_kind, **formats)
    values = arguments(shape, cell, direction, seed)
    if formats.get("states") is None and "states" in formats:
        values = {
            arg: each for arg, each in values.items() if arg not in (rs.ARG_SRC_ITER, rs.ARG_SRC_ITER_C)
        }
    if formats.get("bias") is None and "bias" in formats:
        values.pop(rs.ARG_BIAS)
    written = [arg for arg in pd._exec_args() if arg in (17, 18, 19, 64)]
    found = computed(getattr(rs, f"{cell}Forward"), pd, engine, values, *written)
    return {arg: elements(each) for arg, each in found.items()}, reference(cell, direction, values), pd


def _check(found, expected, tolerance=2e-6):
    for arg, value in expected.items():
        if arg in found:
            assert np.abs(found[arg].astype(np.float64) - value).max() < tolerance


@pytest.mark.parametrize("cell", CELLS)
def test_without_first_states_they_are_zero(cell):
    _check(*_results(_SHAPES["layers"], cell, "unidirectional_right2left", states=None)[:2])


@pytest.mark.parametrize("cell", CELLS)
def test_without_a_bias_it_is_zero(cell):
    _check(*_results(_SHAPES["layers"], cell, "unidirectional_left2right", bias=None)[:2])


def test_steps_of_one_network_are_one_native_call():
    shape = Shape(40, 1, 16, 16, 2)
    pd = forward(CPU, shape, "LSTM", "unidirectional_left2right", weights="any")
    steps = pd._implementation().executable.program.steps
    repeats = [each for each in steps if isinstance(each, RepeatStep)]
    assert [each.turns for each in repeats] == [39, 39]
    assert all(len(each.steps) == 1 for each in repeats)


@pytest.mark.parametrize("cell", CELLS)
def test_large_networks_give_the_bits_of_one_thread(cell):
    shape = Shape(6, 32, 96, 160, 1)
    found = []
    before = rs.get_num_threads()
    try:
        for threads in (1, 2, 5):
            rs.set_num_threads(threads)
            found.append(_results(shape, cell, "unidirectional_right2left", weights="any")[0])
    finally:
        rs.set_num_threads(before)
    for arg, value in found[0].items():
        assert {each[arg].tobytes() for each in found} == {value.tobytes()}


def test_descriptors_tell_what_was_chosen():
    pd = forward(CPU, Shape(3, 2, 5, 7, 1), "LSTM", "bidirectional_sum", layer="any", weights="any")
    assert (pd.get_kind(), pd.get_cell_kind(), pd.get_direction()) == (
        "rnn",
        "vanilla_lstm",
        "bidirectional_sum",
    )
    assert pd.get_activation_kind() == "undef"
    assert pd.src_layer_desc() == rs.MemoryDesc((3, 2, 5), "f32", "tnc") == pd.src_desc()
    assert pd.weights_layer_desc().layout.inner_blks
    assert pd.weights_desc(1) == pd.weights_iter_desc() == pd.query_md("exec_arg_md", rs.ARG_WEIGHTS_ITER)
    assert pd.src_desc(2) == pd.src_iter_c_desc() != rs.MemoryDesc()
    assert pd.dst_desc(1) == pd.dst_iter_desc() == pd.dst_iter_c_desc()
    assert pd.bias_desc().dims == (1, 2, 4, 7)
    assert pd.dst_layer_desc().dims == (3, 2, 7)
    assert pd.workspace_desc().is_zero()
    copy = pickle.loads(pickle.dumps(pd))
    assert copy.weights_iter_desc() == pd.weights_iter_desc()


def test_a_vanilla_cell_has_an_activation():
    shape = Shape(2, 1, 4, 4, 1)
    pd = forward(CPU, shape, "VanillaRNN", "unidirectional", activation="eltwise_relu", alpha=0.5)
    assert (pd.get_activation_kind(), pd.get_alpha()) == ("eltwise_relu", 0.5)


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"direction": "both"}, ("direction is 'both'",)),
        ({"direction": ["unidirectional"]}, ("direction is ['unidirectional']",)),
        ({"direction": {}}, ("direction is {}",)),
        ({"prop_kind": "backward"}, ("prop_kind is backward",)),
        ({"src_layer_desc": rs.MemoryDesc((3, 5), "f32")}, ("src_layer_desc has 2 dims",)),
        ({"src_layer_desc": rs.MemoryDesc((0, 2, 5), "f32")}, ("src_layer_desc has a dim of 0",)),
        ({"src_layer_desc": rs.MemoryDesc((3, 0, 5), "f32")}, ("src_layer_desc has a dim of 0",)),
        (
            {"weights_layer_desc": rs.MemoryDesc((1, 1, 5, 4, 0), "f32")},
            ("weights_layer_desc has a dim of 0",),
        ),
        (
            {"weights_layer_desc": rs.MemoryDesc((0, 1, 5, 4, 7), "f32")},
            ("weights_layer_desc has a dim of 0",),
        ),
        ({"weights_layer_desc": rs.MemoryDesc((1, 1, 5, 3, 7), "f32")}, ("weights_layer_desc is",)),
        ({"weights_layer_desc": rs.MemoryDesc((2, 1, 5, 4, 7), "f32")}, ("src_iter_desc is (1, 1, 2, 7)",)),
        ({"weights_iter_desc": rs.MemoryDesc((2, 1, 7, 4, 7), "f32")}, ("weights_iter_desc is",)),
        ({"direction": "bidirectional_sum"}, ("must be (1, 2, 2, 7)",)),
        ({"src_iter_desc": rs.MemoryDesc((1, 1, 3, 7), "f32")}, ("src_iter_desc is",)),
        ({"dst_iter_c_desc": rs.MemoryDesc((1, 1, 2, 8), "f32")}, ("dst_iter_c_desc is",)),
        ({"src_layer_desc": None}, ("src_layer_desc is missing",)),
        ({"src_iter_c_desc": None}, ("src_iter_desc without src_iter_c_desc",)),
        ({"dst_iter_desc": None}, ("dst_iter_desc without dst_iter_c_desc",)),
        ({"src_iter_desc": rs.MemoryDesc((2, 1, 2, 7), "f32")}, ("src_iter_desc is (2, 1, 2, 7)",)),
        ({"weights_layer_desc": rs.MemoryDesc((1, 1, 6, 4, 7), "f32")}, ("weights_layer_desc is",)),
        ({"weights_layer_desc": rs.MemoryDesc((1, 2, 5, 4, 7), "f32")}, ("weights_layer_desc is",)),
        ({"weights_iter_desc": rs.MemoryDesc((1, 1, 6, 4, 7), "f32")}, ("src_iter_desc is",)),
        ({"bias_desc": rs.MemoryDesc((1, 1, 3, 7), "f32")}, ("bias_desc is",)),
        ({"dst_layer_desc": rs.MemoryDesc((3, 2, 14), "f32")}, ("dst_layer_desc is",)),
        ({"dst_layer_desc": rs.MemoryDesc((3, 2, 7), "f32", (0, 7, 1))}, ("share memory",)),
        ({"attr": 3}, ("attr is not a set of attributes",)),
    ],
)
def test_what_does_not_fit_is_refused(changes, texts):
    with refused(*texts):
        forward(CPU, Shape(3, 2, 5, 7, 1), "LSTM", "unidirectional", **changes)


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"src_layer_desc": rs.MemoryDesc((3, 2, 5), "s32")}, ("types",)),
        ({"weights_iter_desc": rs.MemoryDesc((1, 1, 7, 4, 7), "bf16")}, ("types",)),
        ({"src_layer_desc": rs.MemoryDesc((3, 2, 5), "f32", "abC16c")}, ("is blocked",)),
        ({"weights_peephole_desc": rs.MemoryDesc((1, 1, 3, 7), "f32")}, ("weights_peephole_desc is passed",)),
        ({"weights_projection_desc": rs.MemoryDesc((1, 1, 7, 3), "f32")}, ("peepholes and projections",)),
    ],
)
def test_what_is_not_provided_is_refused(changes, texts):
    with refused(*texts, kind=rs.Unimplemented):
        forward(CPU, Shape(3, 2, 5, 7, 1), "LSTM", "unidirectional", **changes)


@pytest.mark.parametrize("wrong", [0, "x", (1, 2)])
@pytest.mark.parametrize("name", ["weights_peephole_desc", "weights_projection_desc"])
def test_what_is_no_descriptor_of_more_weights_is_told_so(name, wrong):
    with refused(f"{name} is not a descriptor", f"{type(wrong).__name__} is not an rs.MemoryDesc"):
        forward(CPU, Shape(3, 2, 5, 7, 1), "LSTM", "unidirectional", **{name: wrong})


@pytest.mark.parametrize("said", ["scales", "post ops"])
def test_attributes_that_networks_do_not_take_are_told_beside_those_that_they_take(said):
    attr, chain = rs.PrimitiveAttr(), rs.PostOps()
    if said == "scales":
        attr.set_scales(rs.ARG_SRC, 0, [2.0])
    else:
        chain.append_eltwise("eltwise_relu", 0, 0)
        attr.set_post_ops(chain)
    wanted = "the primitive takes rnn qparams and the scratchpad mode, and no other attributes"
    with refused(f"unsupported attribute, {said}", wanted, kind=rs.Unimplemented):
        forward(CPU, Shape(3, 2, 5, 7, 1), "LSTM", "unidirectional", attr=attr)


def test_the_layers_of_one_network_have_one_width():
    with refused("2 layers"):
        forward(CPU, Shape(3, 2, 5, 7, 2), "GRU", "unidirectional")


@pytest.mark.parametrize(
    ("arg", "memory", "text"),
    [
        (rs.ARG_SRC_ITER, rs.MemoryDesc((1, 1, 3, 7), "f32"), "src_iter"),
        (rs.ARG_SRC_ITER, None, "ARG_SRC_ITER"),
        (rs.ARG_SRC_LAYER, rs.MemoryDesc((4, 2, 5), "f32"), "src_layer"),
        (rs.ARG_WEIGHTS_LAYER, rs.MemoryDesc((1, 1, 5, 3, 7), "f32", "ldgoi"), "weights_layer"),
        (rs.ARG_WEIGHTS_ITER, rs.MemoryDesc((1, 1, 7, 3, 7), "bf16"), "weights_iter"),
        (rs.ARG_BIAS, rs.MemoryDesc((1, 2, 3, 7), "f32"), "bias"),
        (rs.ARG_DST_ITER, rs.MemoryDesc((1, 1, 2, 8), "f32"), "ARG_DST_ITER"),
        (rs.ARG_DST_ITER_C, rs.MemoryDesc((1, 1, 2, 7), "f32"), "DST_ITER_C|19"),
    ],
)
def test_other_memories_are_refused_before_anything_is_written(arg, memory, text):
    shape = Shape(3, 2, 5, 7, 1)
    pd = forward(CPU, shape, "GRU", "unidirectional")
    values = arguments(shape, "GRU", "unidirectional", 0)
    args = {each: rs.Memory(rs.MemoryDesc(x.shape, "f32"), CPU, x) for each, x in values.items()}
    for each in (rs.ARG_DST_LAYER, rs.ARG_DST_ITER):
        args[each] = rs.Memory(pd.query_md("exec_arg_md", each), CPU)
    if memory is None:
        del args[arg]
    else:
        args[arg] = rs.Memory(memory, CPU)
    for each in (rs.ARG_DST_LAYER, rs.ARG_DST_ITER):
        args[each].data.fill(7)
    with pytest.raises(rs.InvalidArguments, match=text):
        rs.GRUForward(pd).execute(rs.Stream(CPU), args)
    for each in (rs.ARG_DST_LAYER, rs.ARG_DST_ITER):
        assert bool((args[each].data == 7).all())


@pytest.mark.parametrize("arg", [rs.ARG_SRC_ITER, rs.ARG_SRC_ITER_C, rs.ARG_BIAS])
def test_what_only_other_descriptors_read_is_refused(arg):
    shape = Shape(3, 2, 5, 7, 1)
    pd = forward(CPU, shape, "LSTM", "unidirectional", states=None, bias=None)
    args = {each: rs.Memory(md, CPU) for each, md in pd._exec_args().items()}
    name = next(name for name in ("ARG_SRC_ITER_C", "ARG_SRC_ITER", "ARG_BIAS") if getattr(rs, name) == arg)
    with refused("bad number of inputs (expected 3 got 4)", f"no input {arg} ({name})"):
        rs.LSTMForward(pd).execute(rs.Stream(CPU), args | {arg: args[rs.ARG_DST_ITER]})
    rs.LSTMForward(pd).execute(rs.Stream(CPU), args | {rs.ARG_MEAN: args[rs.ARG_DST_ITER]})


def test_long_sequences_run_in_pieces_with_the_bits_of_short_ones():
    # So long that all of it is no single native call; the second half of it alone is one.
    shape, direction = Shape(240, 16, 64, 256, 1), "unidirectional_left2right"
    values = arguments(shape, "LSTM", direction, 3)
    found, _, pd = _results(shape, "LSTM", direction, seed=3, weights="any")
    executable = pd._implementation().executable
    assert not executable._is_native
    half = shape._replace(steps=120)
    first = forward(CPU, half, "LSTM", direction, weights="any")
    states = {arg: values[arg] for arg in (rs.ARG_SRC_ITER, rs.ARG_SRC_ITER_C)}
    parts = []
    for part in (values[rs.ARG_SRC_LAYER][:120], values[rs.ARG_SRC_LAYER][120:]):
        given = {**values, **states, rs.ARG_SRC_LAYER: part}
        made = computed(rs.LSTMForward, first, CPU, given, 17, 18, 19)
        states = {rs.ARG_SRC_ITER: elements(made[18]), rs.ARG_SRC_ITER_C: elements(made[19])}
        parts.append(elements(made[17]))
    np.testing.assert_array_equal(np.concatenate(parts), found[rs.ARG_DST_LAYER])


def _lstm_memories(layers=2):
    shape = Shape(3, 2, 8, 8, layers)
    pd = forward(CPU, shape, "LSTM", "unidirectional")
    values = arguments(shape, "LSTM", "unidirectional", 0)
    inputs = {arg: rs.Memory(md, CPU, values[arg]) for arg, md in pd._exec_args().items() if arg in values}
    return rs.LSTMForward(pd), inputs, {arg: rs.Memory(md, CPU) for arg, md in pd._exec_args().items()}


def _states(primitive, memories):
    primitive.execute(rs.Stream(CPU), memories)
    return {arg: elements(memories[arg]).copy() for arg in (17, 18, 19)}


def test_last_states_may_be_written_where_the_first_ones_are_read():
    primitive, inputs, outputs = _lstm_memories()
    expected = _states(primitive, outputs | inputs)
    same = {rs.ARG_DST_ITER: inputs[rs.ARG_SRC_ITER], rs.ARG_DST_ITER_C: inputs[rs.ARG_SRC_ITER_C]}
    found = _states(primitive, outputs | inputs | same)
    for arg, value in expected.items():
        np.testing.assert_array_equal(found[arg], value)


@pytest.mark.parametrize("over", ["src_iter", "weights_iter", "weights_layer", "bias", "src_iter_c, late"])
def test_states_that_would_overwrite_what_is_read_are_refused(over):
    primitive, inputs, outputs = _lstm_memories()
    held = (
        inputs[getattr(rs, f"ARG_{over.partition(',')[0].upper()}")]
        if over != "bias"
        else inputs[rs.ARG_BIAS]
    )
    wanted = outputs[rs.ARG_DST_ITER_C].desc
    start = 4 if over.endswith("late") else 0
    storage = np.concatenate([np.asarray(held.data).view(np.uint8), np.zeros(4096, np.uint8)])
    for arg, memory in inputs.items():
        if memory is held:
            inputs[arg] = rs.Memory(held.desc, CPU, storage[: held.desc.size])
    bad = {rs.ARG_DST_ITER_C: rs.Memory(wanted, CPU, storage[start : start + wanted.size])}
    before = storage.copy()
    with refused("ARG_DST_ITER_C", "overlaps", "(N9)"):
        primitive.execute(rs.Stream(CPU), outputs | inputs | bad)
    np.testing.assert_array_equal(storage, before)


def test_a_slope_below_0_cannot_be_trained():
    shape, options = Shape(3, 2, 5, 7, 1), {"activation": "eltwise_relu", "alpha": -0.5}
    assert forward(CPU, shape, "VanillaRNN", "unidirectional", **options)
    with refused("alpha -0.5 in training", "the sign"):
        forward(CPU, shape, "VanillaRNN", "unidirectional", "forward_training", **options)
    with refused("alpha is nan", "finite"):
        forward(CPU, shape, "VanillaRNN", "unidirectional", activation="eltwise_relu", alpha=float("nan"))


@pytest.mark.parametrize("engine", [CPU, rs.Engine("reference")], ids=["cpu", "reference"])
def test_a_relu_of_minus_infinity_is_0(engine):
    # One step that overflows, and one behind it, which reads the state of the first.
    pd = forward(
        engine, Shape(2, 1, 1, 1, 1), "VanillaRNN", "unidirectional", activation="eltwise_relu", alpha=0.0
    )
    values = {rs.ARG_SRC_LAYER: [-1e35, 1.0], rs.ARG_WEIGHTS_LAYER: [1e5], rs.ARG_WEIGHTS_ITER: [0.5]}
    memories = {
        arg: rs.Memory(md, engine, np.zeros(md.size, np.uint8)) for arg, md in pd._exec_args().items()
    }
    for arg, each in values.items():
        md = memories[arg].desc
        memories[arg] = rs.Memory(md, engine, np.resize(np.array(each, np.float32), md.size // 4))
    rs.VanillaRNNForward(pd).execute(rs.Stream(engine), memories)
    assert elements(memories[rs.ARG_DST_LAYER]).ravel().tolist() == [0.0, 1e5]
