"""The command propagate: the table of the rules, reorders with reasons, the page, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from restride.cli.main import main

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small network: two convolutions around a pooling, of images of any height."""
    monkeypatch.chdir(tmp_path)
    rng, helper = np.random.default_rng(0), onnx.helper
    weights = {
        "w1": rng.standard_normal((32, 3, 3, 3)),
        "w2": rng.standard_normal((64, 32, 3, 3)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "active"),
        helper.make_node("MaxPool", ["b"], ["c"], "smaller", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w2"], ["y"], "second", pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", 1, [1, 3, "height", 16])],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(values.astype(np.float32), name) for name, values in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "small.onnx")
    return tmp_path


_MODEL = ("propagate", "small.onnx", "--dims", "x=1x3x16x16")


def _said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert not err
    return out


def _refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) in (1, 2)
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("error: ")
    assert "Traceback" not in err
    return err


def test_the_rules_are_compared_and_reorders_have_reasons(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _said(capsys, *_MODEL)
    assert text.startswith("small.onnx: 3 nodes after fusions (1 epilogues)\n")
    assert [line.split()[0] for line in text.splitlines()[2:6]] == ["rule", "plain", "greedy", "optimal"]
    values = json.loads(_said(capsys, *_MODEL, "--json"))["rules"]
    assert values["plain"]["reorders"] == []
    assert values["optimal"]["predicted_seconds"] <= values["greedy"]["predicted_seconds"]
    for each in values["greedy"]["reorders"]:
        assert each["bytes_moved"] > 0
        assert "reads" in each["why"] or "outputs" in each["why"]


def test_measured_times_stand_beside_those_that_are_predicted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "measured" in _said(capsys, *_MODEL, "--measure").splitlines()[2]
    values = json.loads(_said(capsys, *_MODEL, "--measure", "--json"))["rules"]
    assert all(each["measured_seconds"] > 0 for each in values.values())


def test_a_page_is_written_whole_and_not_over_another_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _said(capsys, *_MODEL, "--html", "net.html").endswith("wrote net.html\n")
    page = Path("net.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "first" in page
    assert "exists" in _refused(capsys, *_MODEL, "--html", "net.html")
    _said(capsys, *_MODEL, "--html", "net.html", "--force", "--measure")
    assert "measured" in Path("net.html").read_text("utf-8")
    assert _said(capsys, *_MODEL, "--html", "-").startswith("<!DOCTYPE html>")


def test_every_decision_is_told_when_asked_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _said(capsys, *_MODEL, "--explain", "--without", "epilogues")
    assert "fusions: none" in text
    assert "memory: " in text


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("propagate", "small.onnx"), "x"),
        (("propagate", "none.onnx"), "none.onnx"),
        (("propagate", "small.onnx", "--dims", "1x3x16x16"), "does not name an input"),
        (("propagate", "small.onnx", "--dims", "x=1x3xsix"), "six"),
        (("propagate", "small.onnx", "--dims", "z=1x3"), "no such input"),
        ((*_MODEL, "--without", "everything"), "everything"),
        ((*_MODEL, "--html", "net.png"), "net.png"),
    ],
)
def test_what_cannot_be_is_refused_in_one_form(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], match: str
) -> None:
    assert match in _refused(capsys, *words)


def test_a_file_that_is_no_model_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.onnx").write_text("no model")
    assert "cannot read the ONNX model" in _refused(capsys, "propagate", "text.onnx")
