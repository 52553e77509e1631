"""OpenVINO's sequences of recurrent cells: weights in ONNX's order, and OpenVINO beside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import restride as rs

T, N, INPUTS, C = 5, 3, 6, 8
GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}


def values(*dims: int, seed: int = 0) -> np.ndarray:
    return (0.5 * np.random.default_rng((seed, *dims)).standard_normal(dims)).astype(np.float32)


def saved(folder: Path, operator: str, attributes: str, bias: np.ndarray) -> Path:
    """A model of one sequence of cells, which begins with the input "h"."""
    gates = GATES[operator]
    constants = {
        "lengths": np.full(N, T, np.int32),
        "w": values(1, gates * C, INPUTS),
        "r": values(1, gates * C, C),
        "b": bias,
    }
    names = ["x", "h", *["c"] * (operator == "LSTM"), *constants]
    layers, blob, edges = [], b"", []
    for number, name in enumerate(names):
        if name in constants:
            each = constants[name]
            kind, dims = "i32" if name == "lengths" else "f32", ",".join(map(str, each.shape))
            data = f'element_type="{kind}" shape="{dims}" offset="{len(blob)}" size="{each.nbytes}"'
            blob += each.tobytes()
        else:
            data = f'shape="{f"{N},{T},{INPUTS}" if name == "x" else f"{N},1,{C}"}" element_type="f32"'
        word = "Const" if name in constants else "Parameter"
        head = f'<layer id="{number}" name="{name}" type="{word}"><data {data}/>'
        layers.append(f'{head}<output><port id="0"/></output></layer>')
        edges.append(f'<edge from-layer="{number}" from-port="0" to-layer="90" to-port="{number}"/>')
    results = ["Y", "H", "C"][: 3 if operator == "LSTM" else 2]
    ports = "".join(f'<port id="{at}"/>' for at in range(len(names)))
    made = "".join(f'<port id="{50 + at}" names="{name}"/>' for at, name in enumerate(results))
    head = f'<layer id="90" name="cells" type="{operator}Sequence"><data hidden_size="{C}" {attributes}/>'
    layers.append(f"{head}<input>{ports}</input><output>{made}</output></layer>")
    for at in range(len(results)):
        layers.append(
            f'<layer id="{91 + at}" name="r{at}" type="Result"><input><port id="0"/></input></layer>'
        )
        edges.append(f'<edge from-layer="90" from-port="{50 + at}" to-layer="{91 + at}" to-port="0"/>')
    inside = f"<layers>{''.join(layers)}</layers><edges>{''.join(edges)}</edges>"
    (folder / "m.xml").write_text(f'<net name="n" version="11">{inside}</net>')
    (folder / "m.bin").write_bytes(blob)
    return folder / "m.xml"


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def stepped(operator: str, x: np.ndarray, h: np.ndarray, c: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """The states after a step, in doubles, by the formulas of OpenVINO's pages."""
    w, r = (values(1, GATES[operator] * C, n)[0].astype(float) for n in (INPUTS, C))
    given, sums = x @ w.T, h @ r.T
    parts = [slice(gate * C, (gate + 1) * C) for gate in range(4)]
    if operator == "RNN":
        return [np.tanh(given + sums + b), c]
    if operator == "LSTM":
        f, i, new, o = (given[:, each] + sums[:, each] + b[each] for each in parts)
        c = logistic(f) * c + logistic(i) * np.tanh(new)
        return [logistic(o) * np.tanh(c), c]
    z, reset = (logistic(given[:, each] + sums[:, each] + b[each]) for each in parts[:2])
    if len(b) > 3 * C:
        new = np.tanh(given[:, parts[2]] + b[parts[2]] + reset * (sums[:, parts[2]] + b[parts[3]]))
    else:
        new = np.tanh(given[:, parts[2]] + (reset * h) @ r[parts[2]].T + b[parts[2]])
    return [(1 - z) * new + z * h, c]


@pytest.mark.parametrize("is_linear", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("operator", GATES)
def test_a_sequence_gives_what_its_formula_does(
    tmp_path: Path, operator: str, direction: str, is_linear: bool
) -> None:
    if is_linear and operator != "GRU":
        pytest.skip("only a GRU is linear before its reset")
    bias = values(1, (GATES[operator] + is_linear) * C, seed=1)
    attributes = f'direction="{direction}" linear_before_reset="{str(is_linear).lower()}"'
    net = rs.openvino.load(saved(tmp_path, operator, attributes, bias))
    feeds = {"x": values(N, T, INPUTS)}
    feeds |= {each.name: values(N, 1, C, seed=2) for each in net.inputs if each.name != "x"}
    found = net(feeds)
    h, c = (feeds.get(name, np.zeros((N, 1, C)))[:, 0].astype(float) for name in "hc")
    states = np.zeros((N, 1, T, C))
    for t in range(T)[:: -1 if direction == "reverse" else 1]:
        h, c = stepped(operator, feeds["x"][:, t], h, c, bias[0])
        states[:, 0, t] = h
    for name, wanted in {"Y": states, "H": h[:, None], "C": c[:, None]}.items():
        if name in found:
            assert found[name].shape == wanted.shape
            assert np.abs(found[name] - wanted).max() < 2e-6


def test_a_sequence_that_clips_is_refused(tmp_path: Path) -> None:
    net = rs.openvino.load(saved(tmp_path, "RNN", 'clip="2.0"', values(1, C)))
    with pytest.raises(rs.Unimplemented, match="clips"):
        net({"x": values(N, T, INPUTS), "h": values(N, 1, C)})


@pytest.mark.peer
@pytest.mark.parametrize("is_linear", [0, 1])
@pytest.mark.parametrize("operator", GATES)
def test_both_directions_give_what_openvino_does(tmp_path: Path, operator: str, is_linear: int) -> None:
    openvino, onnx = pytest.importorskip("openvino"), pytest.importorskip("onnx")
    gates, helper = GATES[operator], onnx.helper
    constants = {
        "W": values(2, gates * C, INPUTS),
        "R": values(2, gates * C, C),
        "B": values(2, 2 * gates * C),
    }
    more = {"linear_before_reset": is_linear} if operator == "GRU" else {}
    outputs = ["Y", "H", "C"][: 3 if operator == "LSTM" else 2]
    node = helper.make_node(
        operator, ["x", *constants], outputs, hidden_size=C, direction="bidirectional", **more
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", 1, (T, N, INPUTS))],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(each, name) for name, each in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    model = openvino.convert_model(tmp_path / "m.onnx")
    openvino.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    x = values(T, N, INPUTS)
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    wanted = compiled({"x": x})
    found = rs.openvino.load(tmp_path / "m.xml")(x)
    for at, port in enumerate(model.outputs):
        assert np.abs(found[port.get_any_name()] - wanted[at]).max() < 1e-5
