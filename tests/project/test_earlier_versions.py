"""Files of earlier versions are read: networks, pickles, files with layouts, Zarr, stored kernels.

`tests/earlier_versions/write.py` shows what they hold; a folder beside it has the name of its version.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from earlier_versions import primitives, write

_FOLDERS = sorted(path for path in Path(write.__file__).parent.iterdir() if (path / "values.json").exists())
each_version = pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)


@each_version
def test_a_saved_network_gives_the_same_result(folder: Path) -> None:
    network = rs.Network.load(folder / "network.net")
    np.testing.assert_allclose(network(write.image()), np.load(folder / "result.npy"), rtol=2e-6)


@each_version
@pytest.mark.parametrize("protocol", [2, 5])
def test_pickles_give_equal_values(folder: Path, protocol: int) -> None:
    shown = json.loads((folder / "values.json").read_text("utf-8"))
    held = pickle.loads((folder / f"values-{protocol}.pickle").read_bytes())
    expected = write.values()
    assert set(held) == set(expected)
    for name, content in held.items():
        value = pickle.loads(content)
        assert repr(value) == repr(expected[name]), name
        assert _without_isa(repr(value)) == _without_isa(shown[name]), name
        if name in ("descriptors", "types and tags", "enumerations", "attributes", "a graph"):
            assert value == expected[name], name
        elif name == "a memory":
            assert np.array_equal(value.data, expected[name].data)
        elif name == "a quantized tensor":
            assert np.array_equal(value.dequantize().to_numpy(), expected[name].dequantize().to_numpy())
        elif name == "a primitive":
            source = rs.Memory.from_numpy(np.ones((2, 17, 7, 7), np.float32))
            result = rs.Memory(rs.MemoryDesc((2, 17, 7, 7), "bf16", "nChw16c"), rs.Engine("cpu"))
            value.execute(rs.Stream(rs.Engine("cpu")), {rs.ARG_FROM: source, rs.ARG_TO: result})
            assert (result.to_numpy() == 1).all()


@each_version
@pytest.mark.parametrize("protocol", [2, 5])
def test_pickles_of_every_primitive_are_read(folder: Path, protocol: int) -> None:
    """Their classes have moved since. Which kernels and formats are chosen is up to this machine."""
    held = pickle.loads((folder / f"primitives-{protocol}.pickle").read_bytes())
    expected = primitives.values()
    assert set(held) == set(expected)
    for name, content in held.items():
        value = pickle.loads(content)
        assert type(value) is type(expected[name]), name
        assert repr(value) == repr(expected[name]), name
        assert pickle.loads(pickle.dumps(value, protocol)) is not value, name


@each_version
@pytest.mark.parametrize("end", ["safetensors", "npz", "gguf", "npy"])
def test_files_with_layouts_are_loaded(folder: Path, end: str) -> None:
    expected = {name: _plain(value) for name, value in write.tensors().items()}
    if end == "npy":
        loaded: dict[str, Any] = {"blocked": rs.load(folder / "blocked.npy")}
    else:
        loaded = rs.load(folder / f"tensors.{end}")
        assert list(loaded) == list(expected)
    for name, value in loaded.items():
        made = write.tensors()[name]
        assert getattr(value, "desc", None) == getattr(made, "desc", getattr(value, "desc", None)), name
        assert np.array_equal(_plain(value), expected[name]), name


@each_version
def test_chunks_of_zarr_are_read(folder: Path) -> None:
    if importlib.util.find_spec("zarr") is None:
        pytest.skip("Zarr is not installed")
    import zarr

    exact = write.weights().reshape(20, 81)[:, :64]
    packed = rs.quantize(np.ascontiguousarray(exact), "mxfp8")
    array = zarr.open_array(folder / "codec.zarr", mode="r")
    assert np.array_equal(array[:], packed.dequantize().to_numpy())


@each_version
def test_a_store_of_kernels_does_no_harm(folder: Path, tmp_path: Path) -> None:
    """Its kernels are run, or made anew."""
    shutil.copytree(folder / "kernels", tmp_path / "kernels")
    (tmp_path / "kernels").chmod(0o700)
    command = (
        "import numpy as np, restride as rs; x = np.arange(544, dtype='f4').reshape(2, 17, 4, 4);"
        "assert np.array_equal(rs.reorder(rs.reorder(x, 'nChw16c'), 'nchw'), x)"
    )
    environment = os.environ | {
        "RESTRIDE_CACHE_DIR": str(tmp_path / "kernels"),
        "RESTRIDE_MAX_CPU_ISA": "sse41",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", command], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def _plain(value: Any) -> Any:
    if isinstance(value, rs.QuantizedTensor):
        return value.dequantize().to_numpy()
    return value.to_numpy() if isinstance(value, rs.Memory) else np.asarray(value)


def _without_isa(text: str) -> str:
    """A value's text without the instruction set of the machine: `jit:avx2:transpose` as `jit:transpose`."""
    return re.sub(r"jit:\w+:", "jit:", text)
