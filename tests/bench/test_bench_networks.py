"""Whole networks in the benchmark: the models, a runtime in a process, and what is said of the rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from restride_bench import network_models, network_torch, networks
from restride_bench.network_models import ModelFile

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
RULES = ("plain", "greedy", "optimal")
ROW = {
    "network": "small",
    "batch": 1,
    "threads": 2,
    "error": 1e-6,
    "seconds": {
        "plain": 0.003,
        "greedy": 0.002,
        "optimal": 0.001,
        "onnxruntime": 0.002,
        "openvino": 0.0015,
        "torch": 0.0005,
    },
    "peak_bytes": {"optimal": 10**8, "onnxruntime": 2 * 10**8},
    "formats": {rule: {"reorders": 1, "moved_bytes": 10**6} for rule in RULES},
}


def test_a_model_has_the_batch_and_no_weights_that_are_inputs(tmp_path: Path) -> None:
    model = next(each for each in network_models.installed() if each.name == "squeezenet")
    graph = onnx.load(model.write(4, tmp_path)).graph
    (source,) = graph.input
    assert [each.dim_value for each in source.type.tensor_type.shape.dim] == [4, 3, 224, 224]
    assert model.dims_of(4) == {source.name: (4, 3, 224, 224)}
    assert not any(each.op_type == "ConstantOfShape" for each in graph.node)


def test_the_table_says_times_formats_and_means() -> None:
    text = networks.as_text(
        [ROW, {**ROW, "network": "other", "seconds": {**ROW["seconds"], "openvino": 4e-3}}]
    )
    assert "| small | 1 | 1.00 | 2.00 | 1.50 | 0.50 | 1.50 | 1e-06 | 100 | 200 | - |" in text
    assert "| small | 1 | 3.00, 1, 1.0 | 2.00, 1, 1.0 | 1.00, 1, 1.0 |" in text
    assert text.endswith("geometric mean of the ratios 1.73, least 1.50")
    assert networks.as_text([]) == "no rows"


def test_rows_of_a_file_are_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([ROW]))
    assert networks.main(["--from", str(tmp_path / "rows.json")]) == 0
    assert "small" in capsys.readouterr().out
    (tmp_path / "rows.json").write_text(json.dumps([{**ROW, "error": 1.0}]))
    assert networks.main(["--from", str(tmp_path / "rows.json")]) == 1


@pytest.mark.peer
def test_a_network_is_measured_against_onnx_runtime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    helper = onnx.helper
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        "graph",
        [helper.make_tensor_value_info("x", 1, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m"
    )
    row = networks._measured(ModelFile("small", tmp_path / "m", {"x": ((3, 8, 8), 0)}), 2, 1, 1)
    assert row["error"] < 1e-6
    assert set(RULES) | {"onnxruntime"} <= set(row["seconds"])
    assert all(0 < each < float("inf") for each in row["seconds"].values())


@pytest.mark.peer
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "zfnet512", "direction", "recognition"])
def test_torch_runs_the_layers_that_the_model_has(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    runtime = pytest.importorskip("onnxruntime")
    model = next((each for each in network_models.installed() if each.name == name), None)
    if model is None:
        pytest.skip("the package that brings the model is not installed")
    path = str(model.write(1, tmp_path))
    rng = np.random.default_rng(1)
    inputs = {key: rng.standard_normal(dims).astype(np.float32) for key, dims in model.dims_of(1).items()}
    call, _ = network_torch.load(path, inputs, {"threads": 2})
    call()
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = session.run(None, inputs)[0]
    assert np.abs(call()[0] - wanted).max() <= 1e-4 * np.abs(wanted).max()
