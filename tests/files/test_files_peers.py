"""Converted files, read and written by torch, safetensors and gguf."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("default")]

_RNG = np.random.default_rng(17)
_RULES = [
    "conv.weight=OIhw4i16o4i,s8,axis=0,scale=absmax",
    "up.weight=mxfp4",
    "down.weight=ba",
    "gate.weight=f8_e4m3,axis=0,scale=absmax",
    "q.weight=s8,group=32,scale=absmax,scale_type=f16",
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(*shape: int) -> Any:
    return _RNG.normal(0, 0.02, shape).astype(ml_dtypes.bfloat16)


def checkpoint() -> dict[str, Any]:
    shards = [
        {"conv.weight": made(48, 20, 3, 3), "up.weight": made(64, 96), "norm.weight": made(64)},
        {"down.weight": made(96, 64), "gate.weight": made(64, 96), "q.weight": made(32, 64)},
    ]
    where: dict[str, str] = {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-0000{number}-of-00002.safetensors"
        Path("in").mkdir(exist_ok=True)
        rs.save(tensors, f"in/{name}", metadata={"format": "pt"})
        where |= dict.fromkeys(tensors, name)
    Path("in/model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return {name: x for tensors in shards for name, x in tensors.items()}


def as_torch(x: Any) -> Any:
    return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)


def test_torch_loads_what_was_converted_and_computes_the_same_weights() -> None:
    library = pytest.importorskip("safetensors.torch")
    exact = checkpoint()
    rs.convert("in", "out", _RULES, verify=True)
    found: dict[str, Any] = {}
    for path in sorted(Path("out").glob("*.safetensors")):
        found |= library.load_file(path)
    index = json.loads(Path("out/model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == set(found)

    assert torch.equal(found["norm.weight"], as_torch(exact["norm.weight"]))
    assert torch.equal(found["down.weight"], as_torch(exact["down.weight"]).T)

    # Blocks of 16 outputs by 16 inputs, of which 4 inputs are innermost.
    packed = found["conv.weight"]
    assert (packed.dtype, tuple(packed.shape)) == (torch.int8, (3, 2, 3, 3, 4, 16, 4))
    plain = packed.permute(0, 5, 1, 4, 6, 2, 3).reshape(48, 32, 3, 3)
    x = as_torch(exact["conv.weight"]).float()
    scale = x.abs().amax((1, 2, 3)) / 127
    assert torch.equal(found["conv.weight_scale"], scale)
    # Scales of an axis multiply by their reciprocals.
    wanted = (x * (1 / scale)[:, None, None, None]).round().to(torch.int8)
    assert torch.equal(plain[:, :20], wanted)
    assert not plain[:, 20:].any()

    x = as_torch(exact["gate.weight"]).float()
    scale = x.abs().amax(1) / 448
    assert torch.equal(found["gate.weight_scale"], scale)
    assert torch.equal(
        found["gate.weight"].view(torch.uint8),
        (x * (1 / scale)[:, None]).to(torch.float8_e4m3fn).view(torch.uint8),
    )

    x = as_torch(exact["q.weight"]).float().reshape(32, 2, 32)
    scale = (x.abs().amax(2) / 127).half()
    assert torch.equal(found["q.weight_scale"], scale)
    wanted = (x / scale.float()[..., None]).round().clamp(-128, 127).to(torch.int8)
    assert torch.equal(found["q.weight"].reshape(32, 2, 32), wanted)

    # Two elements of F4 in a byte, the first in its low half; scales are exponents.
    halves = found["up.weight"].view(torch.uint8).reshape(64, 48)
    codes = torch.stack([halves & 15, halves >> 4], 2).reshape(64, 96)
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = torch.where(codes < 8, 1.0, -1.0) * table[(codes & 7).long()]
    exponents = found["up.weight_scale"].view(torch.uint8).float() - 127
    weights = values.reshape(64, 3, 32) * torch.exp2(exponents)[..., None]
    up = rs.load("out/model-00001-of-00002.safetensors")["up.weight"]
    np.testing.assert_array_equal(weights.reshape(64, 96).numpy(), rs.dequantize(up))
    assert (weights.reshape(64, 96) - as_torch(exact["up.weight"]).float()).abs().max() < 0.02


def test_gguf_reads_what_was_converted_from_shards() -> None:
    library = pytest.importorskip("gguf")
    exact = checkpoint()
    rs.convert("in", "out.gguf", ["*norm.weight=f32", "down.weight=ba,f16", "*=keep"], verify=True)
    found = {tensor.name: tensor for tensor in library.GGUFReader("out.gguf").tensors}
    assert set(found) == set(exact)
    np.testing.assert_array_equal(found["norm.weight"].data, exact["norm.weight"].astype(np.float32))
    np.testing.assert_array_equal(found["down.weight"].data, exact["down.weight"].T.astype(np.float16))
    assert found["q.weight"].tensor_type == library.GGMLQuantizationType.BF16
    np.testing.assert_array_equal(
        found["q.weight"].data.view(np.uint16).reshape(32, 64), exact["q.weight"].view(np.uint16)
    )


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q8_0", "MXFP4"])
def test_blocks_that_gguf_has_written_are_loaded_as_the_same_numbers(name: str) -> None:
    library = pytest.importorskip("gguf")
    kind, x = library.GGMLQuantizationType[name], _RNG.standard_normal((6, 96)).astype(np.float32)
    raw = library.quants.quantize(x, kind)
    writer = library.GGUFWriter("a.gguf", "llama")
    writer.add_tensor("w", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = rs.load("a.gguf")["w"]
    np.testing.assert_array_equal(rs.dequantize(found), library.quants.dequantize(raw, kind))


def test_the_same_conversion_as_a_script_of_torch() -> None:
    library = pytest.importorskip("safetensors.torch")
    weights = {
        f"layer{i}.weight": torch.from_numpy(_RNG.normal(size=(64, 48)).astype("f4")) for i in range(3)
    }
    library.save_file(weights, "a.safetensors")
    script = {
        name: x.T.contiguous().to(torch.bfloat16) for name, x in library.load_file("a.safetensors").items()
    }
    library.save_file(script, "script.safetensors")
    rs.convert("a.safetensors", "b.safetensors", ["*=ba,bf16"])
    ours, theirs = (library.load_file(f"{name}.safetensors") for name in ("b", "script"))
    assert all(torch.equal(ours[name], theirs[name]) for name in weights)
