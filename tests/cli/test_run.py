"""The command run: outputs, times of steps, files in and out, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

WEIGHTS = np.random.default_rng(0).standard_normal((4, 3, 1, 1)).astype(np.float32)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a network of one convolution, for images of any height and 6 columns."""
    monkeypatch.chdir(tmp_path)
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "mix")],
        "graph",
        [helper.make_tensor_value_info("x", 1, [1, 3, "height", 6])],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(WEIGHTS, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "mix.onnx")
    np.save("x.npy", np.ones((1, 3, 5, 6), np.float32))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(("run", *words)) == 0
    out, err = capsys.readouterr()
    assert not err
    return out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(("run", *words)) in (1, 2)
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("error: ")
    assert "Traceback" not in err
    return err


def test_an_array_goes_in_and_one_comes_out(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "mix.onnx", "--input", "x.npy", "--output", "y.npy", "--repeat", "2")
    assert text.startswith("y: float32 1x4x5x6\n")
    assert "best of 2" in text
    wanted = np.broadcast_to(WEIGHTS.sum((1, 2, 3)).reshape(1, 4, 1, 1), (1, 4, 5, 6))
    assert np.allclose(np.load("y.npy"), wanted, atol=1e-6)


def test_an_input_that_is_known_needs_no_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    helper = onnx.helper
    inputs = [helper.make_tensor_value_info(name, 1, [1, "n"]) for name in ("x", "by")]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "by"], ["y"])],
        "graph",
        inputs,
        [helper.make_tensor_value_info("y", 1, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "mul.onnx")
    np.save("row.npy", np.ones((1, 3), np.float32))
    said(capsys, "mul.onnx", "--value", "by=2.5", "--input", "row.npy", "--output", "y.npy")
    assert np.load("y.npy").tolist() == [[2.5] * 3]
    for text, why in (
        ("by", "not an input with numbers"),
        ("by=two", "not an input"),
        ("by=", "not an input"),
        ("z=1", "no such"),
    ):
        assert why in refused(capsys, "mul.onnx", "--value", text)


def test_random_numbers_go_in_where_no_file_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = json.loads(said(capsys, "mix.onnx", "--dims", "x=1x3x5x6", "--json"))
    assert values["outputs"]["y"]["dims"] == [1, 4, 5, 6]
    assert len(values["outputs"]["y"]["largest"]) == 5
    assert values["best_seconds"] > 0
    assert values["steps"] == []


def test_a_profile_has_a_row_for_each_step(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("mix.onnx", "--input", "x=x.npy", "--profile", "--rule", "greedy", "--precision", "bf16")
    steps = json.loads(said(capsys, *words, "--json"))["steps"]
    assert [each["operation"] for each in steps] == ["convolution", "reorder"]
    assert [each["products"] for each in steps] == [4 * 3 * 30, 0]
    assert [each["is_inserted"] for each in steps] == [False, True]
    text = said(capsys, *words)
    assert "GFLOP/s" in text
    assert "reorder*" in text


def test_outputs_go_to_a_pipe(here: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(("run", "mix.onnx", "--input", "x.npy", "--output", "-")) == 0
    assert np.load(io.BytesIO(capsysbinary.readouterr().out)).shape == (1, 4, 5, 6)


def test_a_picture_is_brought_to_the_size_of_the_input(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skimage = pytest.importorskip("skimage.io")
    skimage.imsave("photo.png", np.full((8, 9, 3), 255, np.uint8), check_contrast=False)
    said(
        capsys,
        "mix.onnx",
        "--input",
        "photo.png",
        "--mean",
        "0.5,0.5,0.5",
        "--std",
        "0.5",
        "--output",
        "y.npy",
    )
    assert np.load("y.npy").shape == (1, 4, 8, 6)
    assert np.allclose(np.load("y.npy")[0, :, 0, 0], WEIGHTS.sum((1, 2, 3)), atol=1e-5)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("mix.onnx",), "--dims x="),
        (("none.onnx",), "none.onnx"),
        (("mix.onnx", "--input", "none.npy"), "none.npy"),
        (("mix.onnx", "--input", "mix.onnx"), "neither an array"),
        (("mix.onnx", "--input", "text.npy"), "text.npy"),
        (("mix.onnx", "--input", "objects.npy"), "objects.npy"),
        (("mix.onnx", "--input", "other.npy"), "another shape"),
        (("mix.onnx", "--input", "x.npy", "--repeat", "0"), "--repeat"),
        (("mix.onnx", "--input", "x.npy", "--mean", "a"), "numbers"),
        (("mix.onnx", "--input", "x.npy", "--output", "x.npy"), "x.npy exists"),
        (("mix.onnx", "--input", "x.npy", "--output", "y.png"), "suffix"),
        (("mix.onnx", "--dims", "1x3x5x6"), "does not name an input"),
    ],
)
def test_what_cannot_be_run_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], word: str
) -> None:
    Path("text.npy").write_text("no array")
    np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save("other.npy", np.ones((1, 3, 5, 7), np.float32))
    assert word in refused(capsys, *words)
    assert rs.load("x.npy") is not None


def test_a_saved_network_runs_without_its_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = rs.onnx.load("mix.onnx")
    net.save("mix.net", (1, 3, 5, 6))
    Path("mix.onnx").unlink()
    wanted = np.broadcast_to(WEIGHTS.sum((1, 2, 3)).reshape(1, 4, 1, 1), (1, 4, 5, 6))
    text = said(capsys, "mix.net", "--input", "x.npy", "--output", "y.npy", "--profile")
    assert "convolution" in text
    assert np.allclose(np.load("y.npy"), wanted, atol=1e-6)
    assert said(capsys, "mix.net").startswith("y: float32 1x4x5x6\n")
    assert "saved for 1x3x5x6" in refused(capsys, "mix.net", "--dims", "x=1x3x7x6")
    assert "the inputs are x" in refused(capsys, "mix.net", "--dims", "z=1x3x7x6")
    assert "for models" in refused(capsys, "mix.net", "--rule", "plain")
    assert "for models" in refused(capsys, "mix.net", "--precision", "bf16")
    assert "for models" in refused(capsys, "mix.net", "--value", "x=1")


def test_a_damaged_network_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rs.onnx.load("mix.onnx").save("mix.net", (1, 3, 5, 6))
    whole = Path("mix.net").read_bytes()
    for content in (whole[:40], whole[:-64], whole[:60] + b"x" + whole[61:]):
        Path("cut.net").write_bytes(content)
        assert "cut.net" in refused(capsys, "cut.net")
