"""The command quantize: samples from files, a table of layers, networks and models that run, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((8, 3, 3, 3)).astype(np.float32)
SAMPLES = RNG.standard_normal((4, 1, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a network of two convolutions, and samples: a folder, and one file of all."""
    monkeypatch.chdir(tmp_path)
    helper = onnx.helper
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["first"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["first"], ["rectified"]),
        helper.make_node("Conv", ["rectified", "v"], ["y"], "second"),
    ]
    constants = {"w": WEIGHTS, "v": RNG.standard_normal((4, 8, 1, 1)).astype(np.float32)}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", 1, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
    (tmp_path / "samples").mkdir()
    for at, x in enumerate(SAMPLES):
        np.save(tmp_path / "samples" / f"{at}.npy", x)
    np.savez("samples.npz", x=SAMPLES)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(("quantize", *words)) == 0
    out, err = capsys.readouterr()
    assert not err
    return out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(("quantize", *words)) in (1, 2)
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("error: ")
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("samples", ["samples", "samples.npz"])
def test_a_network_is_written_that_does_what_the_model_does(
    here: Path, capsys: pytest.CaptureFixture[str], samples: str
) -> None:
    text = said(capsys, "net.onnx", "--samples", samples, "-o", "bytes.net")
    assert "2 of 2 layers" in text
    assert text.endswith("wrote bytes.net\n")
    wanted, made = rs.onnx.load("net.onnx")(SAMPLES[0]), rs.Network.load("bytes.net")(SAMPLES[0])
    assert 0 < np.linalg.norm(made - wanted) < 0.03 * np.linalg.norm(wanted)
    assert "exists" in refused(capsys, "net.onnx", "--samples", samples, "-o", "bytes.net")


def test_a_model_is_written_that_has_the_same_bytes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("net.onnx", "--samples", "samples", "--calibration", "mse", "--refine", "bias")
    report = json.loads(said(capsys, *words, "-o", "bytes.onnx", "--json"))
    assert [layer["name"] for layer in report["layers"]] == ["first", "y"]
    assert report["error"] < 0.03
    samples = list(SAMPLES)
    wanted = rs.quantize_network(rs.onnx.load("net.onnx"), samples, "mse")(SAMPLES[1])
    made = rs.onnx.load("bytes.onnx")(SAMPLES[1])
    assert np.linalg.norm(made - wanted) < 0.01 * np.linalg.norm(wanted)


def test_layers_stay_f32_that_are_kept_or_lose_too_much(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("net.onnx", "--samples", "samples", "-o", "bytes.net", "--force")
    assert "1 of 2 layers" in said(capsys, *words, "--keep", "first")
    assert "0 of 2 layers" in said(capsys, *words, "--layer-error", "0")
    assert "0 of 2 layers" in said(capsys, *words, "--output-error", "0")


def test_what_is_not_quantized_is_refused_in_words(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    np.savez("other.npz", z=SAMPLES)
    Path("text.npz").write_text("no arrays")
    for samples, why in (
        ("empty", "there are no samples"),
        ("other.npz", "the inputs are 'x'"),
        ("text.npz", "text.npz"),
        ("none", "none"),
    ):
        assert why in refused(capsys, "net.onnx", "--samples", samples, "-o", "bytes.net")
    assert "suffix" in refused(capsys, "net.onnx", "--samples", "samples", "-o", "bytes.txt")
    words = ("net.onnx", "--samples", "samples", "-o", "bytes.onnx")
    assert "no layer is left to quantize" in refused(capsys, *words, "--calibration", "dynamic")
    assert not Path("bytes.onnx").exists()
