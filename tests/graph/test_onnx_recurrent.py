"""The recurrent operators of ONNX beside formulas in NumPy and ONNX Runtime; a network that finds speech."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Array = np.ndarray
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
T, N, INPUTS, C = 5, 3, 6, 9


def values(*dims: int, seed: int = 0) -> Array:
    return (0.5 * np.random.default_rng((seed, *dims)).standard_normal(dims)).astype(np.float32)


def model(
    operator: str,
    direction: str = "forward",
    *,
    layout: int = 0,
    has_bias: bool = True,
    has_state: bool = True,
    lengths: Array | None = None,
    peepholes: Array | None = None,
    weights: Mapping[str, Array] | None = None,
    **attributes: Any,
) -> tuple[Any, dict[str, Array]]:
    """A model of one node, and what it reads."""
    runs, gates = DIRECTIONS[direction], GATES[operator]
    constants = {"W": values(runs, gates * C, INPUTS), "R": values(runs, gates * C, C)} | dict(weights or {})
    if has_bias:
        constants["B"] = values(runs, 2 * gates * C)
    feeds = {"x": values(N, T, INPUTS) if layout else values(T, N, INPUTS)}
    names = ["x", "W", "R", "B" if has_bias else "", ""]
    if lengths is not None:
        constants["lengths"] = lengths
        names[4] = "lengths"
    for at, name in enumerate("hc" if operator == "LSTM" else "h"):
        feeds |= (
            {name: values(N, runs, C, seed=at) if layout else values(runs, N, C, seed=at)}
            if has_state
            else {}
        )
        names.append(name if has_state else "")
    if peepholes is not None:
        constants["P"] = peepholes
        names.append("P")
    outputs = ["Y", "Y_h", "Y_c"][: 3 if operator == "LSTM" else 2]
    more = {"layout": layout} if layout else {}
    node = onnx.helper.make_node(
        operator, names, outputs, "cell", hidden_size=C, direction=direction, **more, **attributes
    )
    graph = onnx.helper.make_graph(
        [node],
        "graph",
        [onnx.helper.make_tensor_value_info(name, 1, each.shape) for name, each in feeds.items()],
        [onnx.helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(each, name) for name, each in constants.items()],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return made, feeds


# --- the formulas of the operators' pages -------------------------------------------------------------------


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def stepped(operator: str, x: Array, h: Array, c: Array, w: Array, r: Array, b: Array, linear: bool) -> Any:
    """One step of one direction in doubles: the states h and c."""
    wb, rb = b[: len(w)], b[len(w) :]
    given, sums = x @ w.T + wb, h @ r.T + rb
    if operator == "RNN":
        return np.tanh(given + sums), c
    parts = [slice(g * C, (g + 1) * C) for g in range(GATES[operator])]
    if operator == "LSTM":
        i, o, f, new = (given[:, each] + sums[:, each] for each in parts)
        c = logistic(f) * c + logistic(i) * np.tanh(new)
        return logistic(o) * np.tanh(c), c
    z, reset = (logistic(given[:, each] + sums[:, each]) for each in parts[:2])
    last = parts[2]
    inner = reset * sums[:, last] if linear else (reset * h) @ r[last].T + rb[last]
    return (1 - z) * np.tanh(given[:, last] + inner) + z * h, c


def expected(made: Any, feeds: Mapping[str, Array]) -> list[Array]:
    """Y, Y_h and Y_c by the formulas, in the layout of sequences."""
    (node,) = made.graph.node
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    constants = {each.name: onnx.numpy_helper.to_array(each).astype(float) for each in made.graph.initializer}
    runs = DIRECTIONS[attributes["direction"].decode()]
    b = constants.get("B", np.zeros((runs, 2 * constants["W"].shape[1])))
    states, h_last, c_last = [], [], []
    for d in range(runs):
        h, c = (feeds[name][d].astype(float) if name in feeds else np.zeros((N, C)) for name in "hc")
        order = range(T)[::-1] if d or attributes["direction"] == b"reverse" else range(T)
        own = np.zeros((T, N, C))
        for t in order:
            arguments = constants["W"][d], constants["R"][d], b[d]
            linear = bool(attributes.get("linear_before_reset"))
            h, c = stepped(node.op_type, feeds["x"][t], h, c, *arguments, linear)
            own[t] = h
        states.append(own)
        h_last.append(h)
        c_last.append(c)
    found = [np.stack(states, 1), np.stack(h_last), np.stack(c_last)]
    return found[: len(node.output)]


def check(found: Mapping[str, Array], wanted: list[Array]) -> None:
    assert list(found) == ["Y", "Y_h", "Y_c"][: len(wanted)]
    for own, other in zip(found.values(), wanted, strict=True):
        assert own.shape == other.shape
        assert np.abs(own - other).max() < 2e-6


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("operator", GATES)
def test_an_operator_gives_what_its_formula_does(operator: str, direction: str) -> None:
    made, feeds = model(operator, direction)
    check(rs.onnx.load(made)(feeds), expected(made, feeds))


@pytest.mark.parametrize("operator", GATES)
def test_bias_and_states_that_are_left_out_are_zero(operator: str) -> None:
    made, feeds = model(operator, "bidirectional", has_bias=False, has_state=False)
    check({**rs.onnx.load(made)(feeds)}, expected(made, feeds))


def test_a_gru_may_be_linear_before_its_reset() -> None:
    made, feeds = model("GRU", "bidirectional", linear_before_reset=1)
    check(rs.onnx.load(made)(feeds), expected(made, feeds))


@pytest.mark.parametrize("operator", GATES)
def test_batches_may_come_first(operator: str) -> None:
    made, feeds = model(operator, "bidirectional", layout=1)
    plain, _ = model(operator, "bidirectional")
    y, *lasts = expected(plain, {name: each.swapaxes(0, 1) for name, each in feeds.items()})
    check(rs.onnx.load(made)(feeds), [y.transpose(2, 0, 1, 3), *(each.swapaxes(0, 1) for each in lasts)])


def test_one_state_of_an_lstm_may_be_left_out() -> None:
    made, feeds = model("LSTM")
    made.graph.node[0].input[6] = ""
    del made.graph.input[2]
    del feeds["c"]
    check(rs.onnx.load(made)(feeds), expected(made, feeds))


def test_lengths_that_are_all_steps_and_peepholes_of_zero_say_nothing() -> None:
    for more in ({"lengths": np.full(N, T, np.int32)}, {"peepholes": np.zeros((1, 3 * C), np.float32)}):
        made, feeds = model("LSTM", **more)
        check(rs.onnx.load(made)(feeds), expected(made, feeds))


def test_states_go_from_one_call_to_the_next() -> None:
    made, feeds = model("LSTM")
    whole = expected(made, feeds)
    for each in made.graph.input:
        if each.name == "x":
            each.type.tensor_type.shape.dim[0].dim_value = 1
    net, found = rs.onnx.load(made), []
    state = {"h": feeds["h"], "c": feeds["c"]}
    for t in range(T):
        results = net({"x": feeds["x"][t : t + 1], **state})
        state = {"h": results["Y_h"], "c": results["Y_c"]}
        found.append(results["Y"])
    check({"Y": np.concatenate(found), "Y_h": state["h"], "Y_c": state["c"]}, whole)


def test_a_layer_reads_its_weights_in_the_format_that_kernels_want() -> None:
    made, feeds = model("LSTM")
    plan = rs.onnx.load(made).plan(*(each.shape for each in feeds.values()))
    (step,) = (each for each in plan.steps if each.operation == "rnn")
    assert all(each.md.inner_blks for each in step.reads[1:3])
    assert [each.storage.where for each in step.reads[1:4]] == ["constant"] * 3
    assert all(each.is_constant for each in plan.formats.reorders)


def of_type(made: Any, feeds: Mapping[str, Array], dtype: type, element: int) -> dict[str, Array]:
    """All floats of a model in another type; what it reads then."""
    for each in made.graph.initializer:
        each.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(each).astype(dtype), each.name))
    for each in (*made.graph.input, *made.graph.output):
        each.type.tensor_type.elem_type = element
    return {name: each.astype(dtype) for name, each in feeds.items()}


@pytest.mark.parametrize("operator", GATES)
def test_models_of_halves_run_as_halves(operator: str) -> None:
    for has_state in (True, False):
        made, feeds = model(operator, "bidirectional", has_state=has_state)
        feeds = of_type(made, feeds, np.float16, 10)
        found = rs.onnx.load(made)(feeds)
        for own, other in zip(found.values(), expected(made, feeds), strict=True):
            assert (own.dtype, own.shape) == (np.float16, other.shape)
            assert np.abs(own - other).max() < 4e-3


def test_models_of_doubles_are_refused_by_their_type() -> None:
    made, feeds = model("LSTM")
    feeds = of_type(made, feeds, np.float64, 11)
    with pytest.raises(rs.Unimplemented, match="it computes with f64") as caught:
        rs.onnx.load(made)(feeds)
    assert "save the model with f32, bf16 or f16" in caught.value.hint


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "changes", "said"),
    [
        ("LSTM", {"clip": 3.0}, "clips"),
        ("LSTM", {"input_forget": 1}, "couples"),
        ("LSTM", {"peepholes": values(1, 3 * C)}, "peepholes"),
        ("LSTM", {"lengths": np.array([5, 4, 5], np.int32)}, "differ in length"),
        ("LSTM", {"lengths": np.array([3, 3, 3], np.int32)}, "pass the first 3 steps of X"),
        ("LSTM", {"activations": ["Relu", "Tanh", "Tanh"]}, "its functions are Relu, Tanh, Tanh"),
        ("GRU", {"activations": ["Sigmoid", "Affine"]}, "its functions are Sigmoid, Affine"),
        ("RNN", {"activations": ["Elu"]}, "its functions are Elu"),
        ("RNN", {"activations": ["HardSigmoid"]}, "its functions are HardSigmoid"),
        (
            "RNN",
            {"direction": "bidirectional", "activations": ["Tanh", "Relu"]},
            "supported are Tanh, Tanh; or Relu, Relu; or Sigmoid, Sigmoid",
        ),
        ("RNN", {"activations": ["Tanh"], "activation_alpha": [0.5]}, "parameters"),
    ],
)
def test_forms_that_are_not_there_are_named(operator: str, changes: dict[str, Any], said: str) -> None:
    made, feeds = model(operator, **changes)
    with pytest.raises(rs.Unimplemented, match=said) as caught:
        rs.onnx.load(made)(feeds)
    assert "'cell'" in caught.value.what


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"W": values(1, 4 * C, INPUTS + 1)}, "W is (1, 36, 7), but should be (1, 36, 6)"),
        ({"W": values(2, 4 * C, INPUTS)}, "W is (2, 36, 6), but should be (1, 36, 6)"),
        ({"W": values(1, 3 * C, INPUTS)}, "W is (1, 27, 6), but should be (1, 36, 6)"),
        ({"W": values(4 * C, INPUTS)}, "W is (36, 6), but should be (1, 36, 6)"),
        ({"R": values(4 * C, C)}, "R is (36, 9), but should be (1, 36, 9)"),
        ({"R": values(1, 4 * C, C - 1)}, "R is (1, 36, 8), but should be (1, 36, 9)"),
        ({"R": values(1, 4 * C + 1, C)}, "R is (1, 37, 9), but should be (1, 36, 9)"),
        ({"B": values(1, 4 * C)}, "B is (1, 36), but should be (1, 72)"),
        ({"B": values(8 * C)}, "B is (72,), but should be (1, 72)"),
        ({"W": values(1, 4 * C, INPUTS).astype(np.float64)}, "W is f64, but X is f32"),
        ({"R": values(1, 4 * C, C).astype(np.float16)}, "R is f16, but X is f32"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_node_and_name(
    weights: Mapping[str, Array], said: str
) -> None:
    made, feeds = model("LSTM", has_bias="B" not in weights, weights=weights)
    if "B" in weights:
        made.graph.node[0].input[3] = "B"
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.onnx.load(made)(feeds)
    assert said in caught.value.message
    assert "'cell'" in caught.value.message


@pytest.mark.parametrize(
    ("operator", "changes", "said"),
    [
        ("LSTM", {"lengths": np.full(N - 1, T, np.int32)}, "for 3 sequences"),
        ("LSTM", {"lengths": np.array([5, 9, 5], np.int32)}, "sequence_lens has 9, for 5 steps"),
        ("LSTM", {"lengths": np.array([5, -1, 5], np.int32)}, "sequence_lens has -1"),
        ("LSTM", {"layout": 5}, "its layout is 5"),
        ("LSTM", {"peepholes": np.zeros((1, 5), np.float32)}, r"P is \(1, 5\)"),
        (
            "LSTM",
            {"direction": "bidirectional", "peepholes": np.zeros((1, 3 * C), np.float32)},
            r"P is \(1, 27\), but should be \(2, 27\)",
        ),
        ("LSTM", {"direction": "bidirectional", "activations": ["Sigmoid", "Tanh", "Tanh"]}, "needs 6"),
        ("RNN", {"direction": "bidirectional", "activations": ["Tanh"]}, "needs 2"),
    ],
)
def test_inputs_and_attributes_that_do_not_fit_are_refused(
    operator: str, changes: dict[str, Any], said: str
) -> None:
    made, feeds = model(operator, **changes)
    with pytest.raises(rs.InvalidArguments, match=said):
        rs.onnx.load(made)(feeds)


def test_another_hidden_size_than_that_of_the_weights_is_refused() -> None:
    made, feeds = model("GRU")
    next(each for each in made.graph.node[0].attribute if each.name == "hidden_size").i = C + 1
    with pytest.raises(rs.InvalidArguments, match="its hidden_size is"):
        rs.onnx.load(made)(feeds)


def test_a_hidden_size_that_is_missing_is_refused() -> None:
    made, feeds = model("GRU")
    (size,) = (each for each in made.graph.node[0].attribute if each.name == "hidden_size")
    made.graph.node[0].attribute.remove(size)
    with pytest.raises(rs.InvalidArguments, match=r"its hidden_size, .*, is missing"):
        rs.onnx.load(made)(feeds)


@pytest.mark.parametrize("changes", [{}, {"linear_before_reset": 1}, {"direction": "bidirectional"}])
@pytest.mark.parametrize("operator", ["RNN", "LSTM", "GRU"])
def test_weights_may_come_in_a_run(operator: str, changes: dict[str, Any]) -> None:
    if operator != "GRU" and "linear_before_reset" in changes:
        return
    made, feeds = model(operator, **changes)
    wanted = rs.onnx.load(made)(feeds)
    for weights in made.graph.initializer:
        made.graph.input.append(onnx.helper.make_tensor_value_info(weights.name, 1, tuple(weights.dims)))
        feeds[weights.name] = onnx.numpy_helper.to_array(weights)
    del made.graph.initializer[:]
    found = rs.onnx.load(made)(feeds)
    for name, known in wanted.items():
        np.testing.assert_allclose(found[name], known, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dims", [(0, N), (T, 0)])
def test_no_steps_and_no_sequences_are_refused_by_what_was_brought(dims: tuple[int, int]) -> None:
    made, feeds = model("LSTM", has_state=False)
    for place, name in enumerate("TN"):
        made.graph.input[0].type.tensor_type.shape.dim[place].dim_param = name
    net = rs.onnx.load(made)
    with pytest.raises(rs.InvalidArguments, match="without steps, sequences or channels") as caught:
        net({"x": np.zeros((*dims, INPUTS), np.float32)})
    assert (caught.value.what, caught.value.where) == (
        "the model does not accept these inputs",
        f"x {dims[0]}x{dims[1]}x{INPUTS}",
    )
    check(net(feeds), expected(made, feeds))


def test_a_direction_that_is_not_there_is_refused() -> None:
    made, feeds = model("LSTM")
    next(each for each in made.graph.node[0].attribute if each.name == "direction").s = b"sideways"
    with pytest.raises(rs.InvalidArguments, match="sideways"):
        rs.onnx.load(made)(feeds)


# --- beside ONNX Runtime ------------------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("operator", GATES)
def test_operators_give_what_onnx_runtime_does(operator: str, direction: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    made, feeds = model(operator, direction)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    check(rs.onnx.load(made)(feeds), session.run(None, feeds))


def silero(name: str) -> bytes:
    """A model of the wheel of silero-vad, where `make demo` or an installation has brought it."""
    for wheel in sorted((Path(__file__).parents[2] / ".demo").glob("silero_vad-*.whl")):
        with zipfile.ZipFile(wheel) as files:
            return files.read(f"silero_vad/data/{name}.onnx")
    package = pytest.importorskip("silero_vad", reason="no wheel of silero-vad")
    return (Path(package.__file__).parent / "data" / f"{name}.onnx").read_bytes()


def voice(rate: int, seconds: float) -> Array:
    """A sound like a voice that pauses: a pitch that glides, under formants, syllables, and noise."""
    t = np.arange(int(rate * seconds)) / rate
    pitch = 2 * np.pi * np.cumsum(120 * (1 + 0.1 * np.sin(4 * np.pi * t))) / rate
    tones = sum(np.sin(k * pitch) * np.exp(-(((120 * k - 600) / 500) ** 2)) for k in range(1, 25))
    loudness = (np.sin(np.pi * t) > 0) * (0.5 + 0.5 * np.sin(8 * np.pi * t))
    noise = np.random.default_rng(1).standard_normal(t.size)
    return (0.1 * tones * loudness + 0.003 * noise).astype(np.float32)


@pytest.mark.peer
@pytest.mark.parametrize("name", ["silero_vad", "silero_vad_op18_ifless"])
@pytest.mark.parametrize(("rate", "samples", "context"), [(16000, 512, 64), (8000, 256, 32)])
def test_speech_is_found_as_onnx_runtime_does_chunk_by_chunk(
    name: str, rate: int, samples: int, context: int
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    data, sound = silero(name), voice(rate, 4.0)
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    net = rs.onnx.load(data, values={"sr": rate})
    own = other = np.zeros((2, 1, 128), np.float32)
    before, odds = np.zeros(context, np.float32), []
    for start in range(0, sound.size - samples + 1, samples):
        chunk = sound[start : start + samples]
        x, before = np.concatenate([before, chunk])[None], chunk[-context:]
        result = net({"input": x, "state": own})
        wanted, other = session.run(None, {"input": x, "state": other, "sr": np.array(rate)})
        own = result["stateN"]
        assert np.abs(result["output"] - wanted).max() < 1e-5
        assert np.abs(own - other).max() < 1e-4 * np.abs(other).max()
        odds.append(result["output"].item())
    assert max(odds) > 0.3 > 10 * min(odds)


@pytest.mark.parametrize(("rate", "samples"), [(16000, 1100), (8000, 576), (44100, 576), (8000, 20)])
def test_a_chunk_that_a_rate_has_not_is_refused_by_its_name(rate: int, samples: int) -> None:
    net = rs.onnx.load(silero("silero_vad"), values={"sr": rate})
    with pytest.raises(rs.InvalidArguments) as caught:
        net({"input": np.zeros((1, samples), np.float32), "state": np.zeros((2, 1, 128), np.float32)})
    assert caught.value.where == f"input 1x{samples}, state 2x1x128, sr = {rate}"


@pytest.mark.peer
def test_a_whole_recording_is_one_call_of_the_model_of_sequences() -> None:
    runtime = pytest.importorskip("onnxruntime")
    data = silero("silero_vad_16k_sequence")
    frames = voice(16000, 4.0)[: 576 * 100].reshape(100, 576)
    feeds = {"input": frames} | {name: np.zeros((1, 1, 128), np.float32) for name in ("h", "c")}
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found = rs.onnx.load(data)(feeds)
    for own, other in zip(found.values(), session.run(None, feeds), strict=True):
        assert own.shape == other.shape
        assert np.abs(own - other).max() < 1e-4 * max(np.abs(other).max(), 1.0)
