"""Folders and files that conversions write, loaded by transformers: the logits are those of the numbers that
restride reads back, or loading fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("default")]

_LAYERS, _WIDTH, _HIDDEN, _WORDS = 2, 128, 256, 128
_IDS = torch.arange(12)[None]


@pytest.fixture(autouse=True)
def transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return pytest.importorskip("transformers")


@pytest.fixture
def model(transformers: Any) -> None:
    """The folder `model`: a llama of random weights, all linear layers of 128 rows or more."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=_WORDS,
        hidden_size=_WIDTH,
        intermediate_size=_HIDDEN,
        num_hidden_layers=_LAYERS,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
    )
    llama = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in llama.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.05)
    llama.save_pretrained("model")


def logits(folder: str, **named: Any) -> Any:
    llama = pytest.importorskip("transformers").AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, **named
    )
    with torch.no_grad():
        return llama.eval()(_IDS).logits.numpy()


@pytest.mark.parametrize("data_type", ["f32", "f16", "bf16", "f8_e4m3", "f8_e5m2"])
def test_floats_without_scales_load_as_they_are(model: None, data_type: str) -> None:
    rs.convert("model", "out", [f"*_proj.weight={data_type}"])
    rs.convert("out", "back", ["*=f32"])
    np.testing.assert_array_equal(logits("out"), logits("back"))
    assert (np.abs(logits("out") - logits("model")).max() == 0) == (data_type == "f32")


@pytest.mark.parametrize(
    "rule",
    [
        "s8,axis=0,scale=absmax",
        "s8,group=32,scale=absmax",
        "s8,scale=64",
        "u8,axis=0,scale=minmax",
        "s4,group=32,scale=absmax",
        "f8_e4m3,axis=0,scale=absmax",
        "mxfp4",
        "mxfp8",
        "nvfp4",
        "fp8_blocks",
        "marlin",
        "torchao_int4_cpu",
        "ba",
        "BA16a64b4a",
    ],
)
def test_weights_that_only_restride_reads_do_not_load(model: None, rule: str) -> None:
    rs.convert("model", "out", [f"*_proj.weight={rule}"])
    with pytest.raises(ValueError, match="quantization config"):
        logits("out")
    if rule != "s8,scale=64":  # of which nothing has kept the factor
        rs.convert("out", "back", ["*_proj.weight=ab,f32"])
        difference = np.abs(logits("back") - logits("model")).max()
        assert difference < 0.4 * np.abs(logits("model")).max()


@pytest.mark.parametrize("method", ["awq", "gptq"])
def test_layers_are_recognized(model: None, transformers: Any, method: str) -> None:
    rs.convert("model", "out", [f"*={method}"])
    config = transformers.AutoConfig.from_pretrained("out").quantization_config
    made = {"awq": transformers.AwqConfig, "gptq": transformers.GPTQConfig}[method].from_dict(config)
    assert (made.bits, made.group_size, str(made.quant_method.value)) == (4, 128, method)


@pytest.mark.parametrize(
    "data_type", ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"]
)
def test_gguf_files_load_as_the_numbers_of_their_blocks(data_type: str) -> None:
    gguf = pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    writer, rng = gguf.GGUFWriter("f32.gguf", "llama"), np.random.default_rng(0)
    writer.add_context_length(64)
    writer.add_embedding_length(256)
    writer.add_block_count(1)
    writer.add_feed_forward_length(256)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(64)
    writer.add_vocab_size(_WORDS)
    names = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    shapes = {f"blk.0.{name}": (256, 256) for name in names} | {
        "token_embd": (_WORDS, 256),
        "output": (_WORDS, 256),
        "output_norm": (256,),
        "blk.0.attn_norm": (256,),
        "blk.0.ffn_norm": (256,),
    }
    for name, shape in shapes.items():
        weight = rng.standard_normal(shape, np.float32) * np.float32(0.05) + np.float32(len(shape) == 1)
        writer.add_tensor(f"{name}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    rs.convert("f32.gguf", "blocks.gguf", [f"blk.*={data_type}"])
    rs.convert("blocks.gguf", "back.gguf", ["*=f32"])
    blocks, back, exact = (logits(".", gguf_file=f"{name}.gguf") for name in ("blocks", "back", "f32"))
    np.testing.assert_allclose(blocks, back, rtol=0, atol=1e-5 * np.abs(back).max())
    assert 0 < np.abs(blocks - exact).max() < np.abs(exact).max()
