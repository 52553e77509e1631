"""Files that people pass to show and convert: links, empty folders, bombs, what is left of killed runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main
from support.errors import refused


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def weights(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def test_show_expands_no_more_of_an_archive_than_headers(capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("a.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 27,)}
            )
            for _ in range(8):  # the rest is said to be there
                file.write(bytes(1 << 20))
        with archive.open("b.npy", "w") as file:
            np.save(file, np.ones((2, 3), np.float32))
    content = bytearray(Path("bomb.npz").read_bytes())
    # The directory claims 512 MB for a member of 8.
    at = content.rindex(b"PK\x01\x02", 0, content.rindex(b"PK\x01\x02"))
    content[at + 24 : at + 28] = (128 + (4 << 27)).to_bytes(4, "little")
    Path("bomb.npz").write_bytes(content)
    assert main(["show", "bomb.npz"]) == 0
    assert "134217728" in capsys.readouterr().out
    assert main(["show", "bomb.npz", "--tensor", "b"]) == 0
    with refused("another length"):
        rs.load("bomb.npz")


@pytest.mark.parametrize("word", ["q4_0", "q8_0", "q5_1", "q4_k", "q6_k", "iq4_nl", "mxfp4"])
def test_verified_blocks_have_errors(word: str) -> None:
    rs.save({"w": weights(8, 512)}, "a.safetensors")
    (tensor,) = rs.convert("a.safetensors", "b.gguf", [f"w={word}"], verify=True).tensors
    found = rs.dequantize(rs.load("b.gguf")["w"])
    assert tensor.largest_error is not None
    assert tensor.mean_error is not None
    assert 0 < tensor.mean_error < tensor.largest_error < 1
    group = {"q6_k": 16}.get(word, 32)
    off = np.abs(found - weights(8, 512)).reshape(-1, group)
    relative = off / np.abs(weights(8, 512)).reshape(-1, group).max(1, keepdims=True)
    assert np.isclose(tensor.largest_error, relative.max(), rtol=1e-5)
    assert np.isclose(tensor.mean_error, relative.mean(), rtol=1e-5)


def test_reports_count_tensors_and_no_other_files(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkdir("model")
    rs.save({"w": weights(4, 4)}, "model/a.safetensors")
    Path("model/config.json").write_text("{}")
    assert [tensor.name for tensor in rs.convert("model", "out").tensors] == ["w"]
    assert main(["convert", "model", "out2"]) == 0
    assert "1 tensor copied" in capsys.readouterr().out
    assert Path("out2/config.json").read_text() == "{}"


def test_a_gguf_file_of_tensors_alone_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    rs.save({"w": weights(4, 32)}, "a.safetensors")
    assert main(["convert", "a.safetensors", "b.gguf", "--rule", "w=q8_0"]) == 0
    assert "contains only tensors" in capsys.readouterr().out
    assert not rs.convert("a.safetensors", "c.gguf").is_model
    assert rs.convert("a.safetensors", "c.safetensors").is_model


@pytest.mark.parametrize("end", [".pt", ".bin", ".onnx"])
def test_folders_are_not_called_as_files_of_other_programs(end: str) -> None:
    os.mkdir("model")
    rs.save({"w": weights(4, 4)}, "model/a.safetensors")
    with refused("ending of the name"):
        rs.convert("model", f"o{end}")
    rs.convert("model", "llama-3.1")


def test_a_folder_without_tensors_is_refused() -> None:
    os.mkdir("empty")
    for _ in range(2):
        with refused("nothing to convert"):
            rs.convert("empty", "out")
        Path("empty/README.md").write_text("words")
    assert os.listdir() == ["empty"]


def test_links_lead_to_the_blobs_of_a_cache_and_nowhere_else() -> None:
    os.makedirs("hub/snapshots/1a2b")
    os.makedirs("hub/blobs")
    rs.save({"w": weights(4, 4)}, "a.safetensors")
    os.rename("a.safetensors", "hub/blobs/ffff")
    Path("hub/blobs/cccc").write_text("{}")
    Path("hub/snapshots/1a2b/model.safetensors").symlink_to("../../blobs/ffff")
    Path("hub/snapshots/1a2b/config.json").symlink_to("../../blobs/cccc")
    assert main(["show", "hub/snapshots/1a2b"]) == 0
    assert list(rs.load("hub/snapshots/1a2b")) == ["w"]
    rs.convert("hub/snapshots/1a2b", "out")
    assert sorted(os.listdir("out")) == ["config.json", "model.safetensors"]
    assert not Path("out/config.json").is_symlink()
    os.mkdir("other")
    Path("other/model.safetensors").symlink_to("../hub/blobs/ffff")
    assert main(["show", "other"]) == 1
    for call in (lambda: rs.load("other"), lambda: rs.convert("other", "out2")):
        with refused("outside the folder"):
            call()


def test_hints_say_what_to_do() -> None:
    for name in ("a.safetensors", "a.gguf"):
        Path(name).write_bytes(b"")
        with refused("the file is empty", "download or write it again"):
            rs.load(name)
    Path("b.gguf").write_bytes(b"GGUF" + (3).to_bytes(4, "big") + bytes(64))
    with refused("big-endian"):
        rs.load("b.gguf")
    with refused("rules must be a list", "pass ['*=q8_0']"):
        rs.convert("a.safetensors", "b.safetensors", "*=q8_0")
    x, q = weights(2, 64), rs.quantize(weights(128, 64), "s8", group=32)
    with refused("passed as w.T"):
        rs.matmul(x, q)
    with pytest.raises(TypeError, match="QuantizedTensor"):
        x @ q


_KILLED = """
import os, signal, sys
import restride as rs
def die(progress):
    os.kill(os.getpid(), signal.SIGKILL)
rs.convert("a.safetensors", sys.argv[1], ["*=f16"], progress=die, resume=len(sys.argv) > 2)
"""


def test_what_a_killed_run_has_left_goes_with_the_next_in_the_folder() -> None:
    rs.save({str(n): weights(1024, 1024) for n in range(8)}, "a.safetensors")
    for words in (["b.safetensors"], ["c.safetensors", "resume"]):
        run = subprocess.run([sys.executable, "-c", _KILLED, *words], check=False)
        assert run.returncode == -signal.SIGKILL
        left = {name for name in os.listdir() if name.startswith(".")}
        assert left == {f".{words[0]}.restride-part", f".{words[0]}.restride-journal"}
    rs.convert("a.safetensors", "d.safetensors")
    assert left < set(os.listdir())
    head = Path(".c.safetensors.restride-journal").read_text().partition("\n")[0]
    assert json.loads(head)["resume"] is True
    rs.convert("a.safetensors", "c.safetensors", ["*=f16"], resume=True)
    assert not [name for name in os.listdir() if name.startswith(".")]
