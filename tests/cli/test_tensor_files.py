"""Files of tensors on the command line: what `show` lists and draws of them, and what `diff` finds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main
from restride.graph import BinaryOperation, GraphBuilder

Capture = pytest.CaptureFixture[str]
W = np.random.default_rng(1).normal(size=(64, 256)).astype(np.float32)
HOSTILE = {"\x1b[31mred": np.array([1, np.nan, np.inf, 0], np.float32), "n" * 100_000: np.ones(2, np.int8)}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    blocked = rs.Memory.from_numpy(W[:, :51].reshape(1, 17, 16, 12)).to("nChw16c")
    rs.save({"w": W, "conv": blocked, "one": np.float32(3), "c": np.ones(3, np.complex64)}, "a.safetensors")
    rs.save(HOSTILE, "hostile.safetensors")
    rs.convert("a.safetensors", "groups.safetensors", ["w=s8,group=32,scale=absmax"])
    rs.convert("a.safetensors", "rows.safetensors", ["w=s8,axis=0,scale=absmax"])
    rs.save({"w": W}, "w.safetensors")
    rs.convert("w.safetensors", "w.gguf", ["w=q4_k"])
    rs.save(W, "w.npy")
    rs.save({"w": W.astype(np.float16)}, "half.npz")
    return tmp_path


def ran(capsys: Capture, *arguments: str) -> tuple[int, Any]:
    status = main([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return status, json.loads(out)


def rows(capsys: Capture, *arguments: str) -> dict[str, Any]:
    status, found = ran(capsys, "show", *arguments)
    assert status == 0
    return {row["name"]: row for row in found["tensors"]}


def write_ir(folder: Path) -> str:
    layer = '<layer id="{}" name="{}" type="Const"><output><port id="0"/></output>'
    layer += '<data element_type="{}" shape="{}" offset="{}" size="{}"/></layer>'
    consts = [("w", "f32", "64,256", 0, W.nbytes), ("q", "i4", "2,4", W.nbytes, 4)]
    layers = "".join(layer.format(i, *const) for i, const in enumerate(consts))
    other = '<layer id="9" name="z" type="OfNobody"><output><port id="0"/></output></layer>'
    folder.joinpath("m.xml").write_text(f"<net><layers>{layers}{other}</layers><edges/></net>")
    folder.joinpath("m.bin").write_bytes(W.tobytes() + bytes(4))
    return "m.xml"


def write_network(folder: Path) -> str:
    builder = GraphBuilder()
    x = builder.input("x", W.shape)
    y = builder.add(BinaryOperation("binary_add"), x, builder.constant(W, "w"))
    rs.Network(builder.graph(y)).save("m.net")
    return "m.net"


def write_onnx(folder: Path) -> str:
    onnx = pytest.importorskip("onnx")
    make, of = onnx.helper, onnx.numpy_helper.from_array
    infos = [make.make_tensor_value_info(name, 1, W.shape) for name in "xy"]
    known = [of(W, "w"), make.make_tensor("q", onnx.TensorProto.INT4, [3], [1, 2, -3])]
    constant = make.make_node("Constant", [], ["k"], value=of(np.array(["text"], object)))
    graph = make.make_graph(
        [constant, make.make_node("Add", ["x", "w"], ["y"])], "g", *([i] for i in infos), known
    )
    onnx.save(make.make_model(graph), "m.onnx")
    return "m.onnx"


def write_zarr(folder: Path) -> str:
    pytest.importorskip("zarr")
    rs.save({"w": W}, "m.zarr")
    return "m.zarr"


def write_folder(folder: Path) -> str:
    folder.joinpath("model").mkdir()
    rs.save({"w": W}, "model/m-1.safetensors")
    rs.save({"b": W[0]}, "model/m-2.safetensors")
    index = {"weight_map": {"w": "m-1.safetensors", "b": "m-2.safetensors"}}
    folder.joinpath("model/model.safetensors.index.json").write_text(json.dumps(index))
    return "model"


WRITERS = [write_ir, write_network, write_onnx, write_zarr, write_folder]


# --- show -----------------------------------------------------------------------------------------------


def test_show_lists_tensors_and_totals(here: Path, capsys: Capture) -> None:
    assert main(["show", "groups.safetensors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "dims", "type", "format", "size", "group"]
    assert lines[1].split() == ["w", "64x256", "s8", "ab", "16.4", "KB", "1x32"]
    assert "total: 5 tensors, 20164 elements, 43 KB" in lines
    _, found = ran(capsys, "show", "groups.safetensors", "--match", "w*")
    assert [row["name"] for row in found["tensors"]] == ["w", "w_scale"]
    assert found["totals"]["types"]["s8"] == {"tensors": 1, "elements": 16384, "nbytes": 16384}


@pytest.mark.parametrize(
    ("name", "kind", "form", "group"),
    [
        ("a.safetensors", "f32", "ab", None),
        ("groups.safetensors", "s8", "ab", [1, 32]),
        ("rows.safetensors", "s8", "ab", [1, 256]),
        ("w.gguf", "q4_k", "gguf.q4_k", [1, 32]),
        ("half.npz", "f16", "ab", None),
    ],
)
def test_statistics_are_of_the_numbers(
    here: Path, capsys: Capture, name: str, kind: str, form: str, group: list[int] | None
) -> None:
    row = rows(capsys, name, "--stats")["w"]
    assert (row["dims"], row["type"], row["format"], row["group"]) == ([64, 256], kind, form, group)
    stats = row["stats"]
    loaded = rs.load(name)["w"]
    memory = rs.dequantize(loaded) if isinstance(loaded, rs.QuantizedTensor) else loaded
    values = rs.dequantize(memory, rs.load(name)["w_scale"], axis=0) if name.startswith("rows") else memory
    numbers = np.asarray(values.to_numpy() if isinstance(values, rs.Memory) else values, np.float64)
    assert stats["count"] == W.size
    assert stats["zeros"] == np.count_nonzero(numbers == 0)
    assert np.allclose(
        [stats[key] for key in ("minimum", "maximum", "mean")],
        [numbers.min(), numbers.max(), numbers.mean()],
        rtol=1e-5,
    )


@pytest.mark.parametrize("write", WRITERS)
def test_every_kind_of_file_is_listed_and_compared(
    here: Path, capsys: Capture, write: Callable[[Path], str]
) -> None:
    name = write(here)
    row = rows(capsys, name, "--stats")["w"]
    assert (row["dims"], row["type"], row["nbytes"]) == ([64, 256], "f32", W.nbytes)
    assert row["stats"]["maximum"] == W.max()
    status, found = ran(capsys, "diff", "w.safetensors", name, "--match", "w")
    assert (status, found["same"], found["equal"]) == (0, True, 1)


def test_names_and_numbers_of_strangers_are_harmless(here: Path, capsys: Capture) -> None:
    assert main(["show", "hostile.safetensors", "--stats"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 200
    stats = rows(capsys, "hostile.safetensors", "--stats")["\x1b[31mred"]["stats"]
    assert (stats["nans"], stats["infinities"], stats["mean"]) == (1, 1, 0.5)


def test_show_draws_one_tensor(here: Path, capsys: Capture) -> None:
    assert main(["show", "a.safetensors", "--tensor", "conv"]) == 0
    assert capsys.readouterr().out.startswith("f32 1x17x16x12 aBcd16b\n")
    assert main(["show", "w.gguf", "--tensor", "w"]) == 0
    assert capsys.readouterr().out.startswith("values: ")
    assert main(["show", "a.safetensors", "--tensor", "conf"]) == 2
    assert "did you mean 'conv'?" in capsys.readouterr().err
    assert main(["show", "ab", "2x3", "--stats"]) == 2
    assert main(["show", "a.safetensors", "--svg", "a.svg"]) == 2
    assert main(["show", "a.safetensors", "--tensor", "conv", "--stats"]) == 2
    assert main(["show", "no/such", "--stats"]) == 1


def test_a_row_says_why_its_numbers_cannot_be_read(here: Path, capsys: Capture) -> None:
    content = bytearray(here.joinpath("groups.safetensors").read_bytes())
    at = content.index(np.asarray(rs.load("groups.safetensors")["w"].scale.to_numpy()).tobytes()[:16])
    content[at : at + 4] = np.float32(np.nan).tobytes()
    here.joinpath("groups.safetensors").write_bytes(content)
    status, found = ran(capsys, "show", "groups.safetensors", "--stats")
    assert status == 1
    assert "scale" in found["tensors"][0]["error"]


# --- diff -----------------------------------------------------------------------------------------------


def test_diff_finds_what_differs_and_by_how_much(here: Path, capsys: Capture) -> None:
    other = W.copy()
    other[[3, 60], [7, 200]] += np.float32([0.5, -2])
    other[10, 0] = np.nan
    rs.save({"w": other, "new": W[0]}, "b.safetensors")
    status, found = ran(capsys, "diff", "a.safetensors", "b.safetensors")
    assert (status, found["same"], found["equal"]) == (1, False, 0)
    assert [row["name"] for row in found["only_in_first"]] == ["conv", "one", "c"]
    assert [row["name"] for row in found["only_in_second"]] == ["new"]
    (each,) = found["differing"]
    assert (each["fields"], each["values"]["differing"], each["values"]["first"]) == ([], 3, [3, 7])
    assert each["values"]["largest"] is None  # no number has no distance
    other[10, 0] = W[10, 0]
    rs.save({"w": other}, "b.safetensors")
    values = ran(capsys, "diff", "w.safetensors", "b.safetensors")[1]["differing"][0]["values"]
    assert values["largest"] == pytest.approx(2, rel=1e-6)
    assert values["relative"] == pytest.approx(2 / np.abs(W).max(), rel=1e-6)


def test_diff_compares_numbers_across_files_types_and_formats(here: Path, capsys: Capture) -> None:
    status, found = ran(capsys, "diff", "w.safetensors", "w.gguf")
    (each,) = found["differing"]
    assert (status, each["fields"]) == (1, ["type", "format", "group"])
    assert each["values"]["largest"] == pytest.approx(
        np.abs(rs.load("w.gguf")["w"].dequantize().to_numpy() - W).max(), rel=1e-5
    )
    assert ran(capsys, "diff", "w.safetensors", "w.gguf", "--values", "--tolerance", "0.1")[0] == 0
    assert ran(capsys, "diff", "w.gguf", "w.gguf")[0] == 0
    rs.save({"w": rs.Memory.from_numpy(W).to("BA16a4b")}, "blocked.safetensors")
    status, found = ran(capsys, "diff", "w.npy", "blocked.safetensors")
    assert (status, found["differing"][0]["fields"]) == (1, ["format"])
    assert found["differing"][0]["values"] is None
    assert ran(capsys, "diff", "half.npz", "blocked.safetensors", "--values", "--tolerance", "1e-3")[0] == 0


def test_diff_of_what_cannot_be_compared(here: Path, capsys: Capture) -> None:
    assert main(["diff", "a.safetensors", "hostile.safetensors", "--match", "zz*"]) == 2
    assert main(["diff", "a.safetensors", "none.safetensors"]) == 1
    assert main(["diff", "a.safetensors", "-"]) == 2
    assert main(["diff", "a.safetensors", "a.safetensors", "--tolerance", "nan"]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["a.safetensors", "groups.safetensors", "w.gguf", "half.npz", "m.net", "m.xml"]
)
def test_damaged_files_are_errors(here: Path, capsys: Capture, name: str) -> None:
    write_ir(here)
    write_network(here)
    content, chance = here.joinpath(name).read_bytes(), random.Random(name)
    for turn in range(40):
        damaged = bytearray(content[: chance.randrange(len(content))] if turn % 4 == 0 else content)
        for _ in range(chance.choice((1, 3, 20))):
            if damaged:
                at = chance.randrange(min(len(damaged), 2000))
                damaged[at] = chance.choice((27, chance.randrange(256)))
        here.joinpath(f"damaged-{name}").write_bytes(damaged)
        if name == "m.xml":
            here.joinpath("damaged-m.bin").write_bytes(here.joinpath("m.bin").read_bytes())
        for arguments in (["show", f"damaged-{name}", "--stats"], ["diff", name, f"damaged-{name}"]):
            assert main(arguments) in (0, 1)
            out, err = capsys.readouterr()
            assert "Traceback" not in err
            assert "\x1b" not in out + err


# --- what cannot be drawn or read -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "dims", "kind"),
    [(np.float32(3), [], "f32"), (np.ones((3, 2), np.complex64), [3, 2], "c64")],
)
def test_an_array_without_a_memory_format_is_listed_and_not_drawn(
    values: Any, dims: list[int], kind: str, here: Path, capsys: Capture
) -> None:
    np.save("x.npy", values)
    found = rows(capsys, "x.npy")["x"]
    assert (found["dims"], found["type"], found["nbytes"]) == (dims, kind, values.nbytes)
    assert main(["show", "x.npy", "--svg", "x.svg"]) == 1
    assert "cannot read x.npy" in capsys.readouterr().err
    assert not here.joinpath("x.svg").exists()


@pytest.mark.parametrize("has_index", [False, True])
def test_show_skips_a_link_out_of_the_folder_and_lists_the_rest(
    has_index: bool, here: Path, capsys: Capture
) -> None:
    here.joinpath("model").mkdir()
    rs.save({"b": W}, "model/in.safetensors")
    here.joinpath("model/out.safetensors").symlink_to(here / "w.safetensors")
    if has_index:
        index = {"weight_map": {"w": "out.safetensors", "b": "in.safetensors"}}
        here.joinpath("model/model.safetensors.index.json").write_text(json.dumps(index))
    assert main(["show", "model", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [row["name"] for row in json.loads(out)["tensors"]] == ["b"]
    assert "note: out.safetensors is skipped: it is a link out of the folder" in err
    assert main(["diff", "model", "model"]) == 1
    assert "hint: name the file itself, or copy it" in capsys.readouterr().err
    here.joinpath("model/in.safetensors").unlink()
    assert main(["show", "model"]) == 1
    assert "--follow-links" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.safetensors", "w.npy", "./folder", "-"])
def test_a_file_takes_no_dims(name: str, here: Path, capsys: Capture) -> None:
    assert main(["show", name, "3x4"]) == 2
    assert "DIMS with a file\n  why: the file has its own dims" in capsys.readouterr().err


def test_the_hint_for_a_truncated_checkpoint_of_torch_is_about_torch(here: Path, capsys: Capture) -> None:
    here.joinpath("x.pt").write_bytes(b"PK\x03\x04")
    assert main(["show", "x.pt"]) == 1
    err = capsys.readouterr().err
    assert "torch.load" in err
    assert "np.savez" not in err
