"""`rs.load` of a folder and of an index of shards: names first, files and tensors when they are asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from support.errors import refused

INDEX = "model.safetensors.index.json"


def write_index(folder: Path, shards: object, name: str = INDEX) -> None:
    folder.joinpath(name).write_text(json.dumps({"metadata": {}, "weight_map": shards}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    x = np.arange(64 * 4, dtype=np.float32).reshape(4, 64)
    rs.save({"a": x, "plain": np.arange(3)}, tmp_path / "m-1.safetensors")
    quantized = rs.quantize(x, "s8", group=32)
    rs.save({"q": quantized}, tmp_path / "m-2.safetensors")
    write_index(
        tmp_path,
        {"a": "m-1.safetensors", "plain": "m-1.safetensors"}
        | dict.fromkeys(("q", "q_scale"), "m-2.safetensors"),
    )
    return tmp_path


def test_a_folder_is_a_mapping_that_opens_what_is_asked_for(folder: Path) -> None:
    folder.joinpath("m-1.safetensors").rename(folder / "away")
    model = rs.load(folder)
    assert isinstance(model, Mapping)
    assert isinstance(model["q"], rs.QuantizedTensor)  # the other file is not needed
    with pytest.raises(rs.RuntimeFailure, match=r"m-1\.safetensors"):
        model["a"]
    folder.joinpath("away").rename(folder / "m-1.safetensors")
    assert list(model) == ["a", "plain", "q"]
    assert len(model) == 3
    assert "q_scale" not in model
    assert "none" not in model
    assert np.array_equal(model["a"].to_numpy(), np.arange(256, dtype=np.float32).reshape(4, 64))
    assert {**rs.load(folder / INDEX)}.keys() == {*model}


def test_without_an_index_all_files_are_read(folder: Path) -> None:
    folder.joinpath(INDEX).unlink()
    assert list(rs.load(folder)) == ["a", "plain", "q"]
    rs.save({"a": np.ones(3)}, folder / "z.npz")
    with refused("'a' is in both m-1.safetensors and z.npz", "name one of the files"):
        rs.load(folder)


@pytest.mark.parametrize(
    ("shards", "why"),
    [
        ({"a": "../m-1.safetensors"}, "'../m-1.safetensors' is not the name of a file"),
        ({"a": "/etc/passwd"}, "'/etc/passwd' is not the name of a file"),
        ({"a": "m-2.safetensors"}, "it lists 'a' in 'm-2.safetensors', which does not contain it"),
        ({"a": 3}, "no weight_map"),
        ([], "no weight_map"),
    ],
)
def test_an_index_that_is_wrong_is_refused(folder: Path, shards: Any, why: str) -> None:
    write_index(folder, shards)
    with refused(why):
        rs.load(folder)["a"]


def test_folders_that_hold_no_model(folder: Path) -> None:
    write_index(folder, {}, "other.safetensors.index.json")
    assert len(rs.load(folder)) == 3  # the usual name is taken
    folder.joinpath(INDEX).rename(folder / f"x{INDEX}")
    with refused("it contains several shard indexes", "name one of them"):
        rs.load(folder)
    folder.joinpath("empty").mkdir()
    with refused("without tensor files"):
        rs.load(folder / "empty")
