"""examples/language_model.py beside its formulas in NumPy, and beside transformers."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs

_EXAMPLE = Path(__file__).parents[2] / "examples" / "language_model.py"
_CONFIG = {
    "model_type": "llama",
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500.0,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
# Small heads, and rows that have whole blocks of K quants.
_WIDE = {"hidden_size": 256, "intermediate_size": 512, "rope_theta": 10000.0}
_BLOCKS = {
    "q_proj": "Q4_K",
    "k_proj": "Q4_0",
    "v_proj": "Q6_K",
    "o_proj": "Q5_0",
    "gate_proj": "Q4_0",
    "up_proj": "Q8_0",
    "down_proj": "Q6_K",
    "embed_tokens": "Q6_K",
    "lm_head": "Q8_0",
}
_KINDS = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16)}
Tensors = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module", name="example")
def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("language_model", _EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write(folder: Path, kind: str = "f32", shards: int = 1, **words: Any) -> tuple[dict[str, Any], Tensors]:
    """A small model with random weights in a folder: its config and its tensors."""
    config = _CONFIG | words
    rng, hidden, inner = np.random.default_rng(0), config["hidden_size"], config["intermediate_size"]
    width = config.get("head_dim") or hidden // config["num_attention_heads"]
    rows, few = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    shapes = {"model.embed_tokens": (config["vocab_size"], hidden), "model.norm": (hidden,)}
    if not config.get("tie_word_embeddings"):
        shapes["lm_head"] = shapes["model.embed_tokens"]
    products = {
        **{f"self_attn.{word}_proj": (n, hidden) for word, n in (("q", rows), ("k", few), ("v", few))},
        "self_attn.o_proj": (hidden, rows),
        **{f"mlp.{word}_proj": (inner, hidden) for word in ("gate", "up")},
        "mlp.down_proj": (hidden, inner),
    }
    for layer in (f"model.layers.{number}" for number in range(config["num_hidden_layers"])):
        shapes |= {f"{layer}.{name}": shape for name, shape in products.items()}
        shapes |= {f"{layer}.{name}_layernorm": (hidden,) for name in ("input", "post_attention")}
    tensors = {f"{name}.weight": rng.normal(0, 0.2, shape) for name, shape in shapes.items()}
    if config["model_type"] == "qwen2":
        tensors |= {
            name.replace("weight", "bias"): rng.normal(0, 0.2, len(tensor))
            for name, tensor in tensors.items()
            if any(f".{word}_proj." in name for word in "qkv")
        }
    tensors = {name: tensor.astype(_KINDS[kind]) for name, tensor in tensors.items()}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    names, places = list(tensors), {}
    for number in range(shards):
        file = f"model-{number}.safetensors" if shards > 1 else "model.safetensors"
        places |= dict.fromkeys(names[number::shards], file)
        rs.save({name: tensors[name] for name in names[number::shards]}, folder / file)
    if shards > 1:
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": places}), encoding="utf-8")
    return config, {name: tensor.astype(np.float64) for name, tensor in tensors.items()}


def _write_gguf(path: Path, config: dict[str, Any], tensors: Tensors) -> Tensors:
    """The tensors in a GGUF file, quantized, as llama.cpp's converter puts them; what they then stand for."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    kind, heads = config["model_type"].removesuffix("_text"), config["num_attention_heads"]
    writer = gguf.GGUFWriter(path, kind)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
    if "sliding_window" in config:
        writer.add_sliding_window(config["sliding_window"])
    arch = next(arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names, stands_for = gguf.get_tensor_name_map(arch, config["num_hidden_layers"]), {}
    for name, tensor in tensors.items():
        own, values = names.get_name(name, (".weight", ".bias")), tensor.astype(np.float32)
        stem, end = name.split(".")[-2:]
        if stem not in _BLOCKS or end == "bias":
            shift = np.float32(kind == "gemma3")
            writer.add_tensor(own, values + shift)
            stands_for[name] = values
            continue
        # Of llama pairs of rows that rotary embeddings turn lie side by side.
        is_turned = kind == "llama" and stem in ("q_proj", "k_proj")
        count = heads if stem == "q_proj" else config["num_key_value_heads"]
        pairs = np.arange(len(values)).reshape(count, 2, -1).swapaxes(1, 2).reshape(-1) if is_turned else None
        values = values[pairs] if pairs is not None else values
        word = _BLOCKS[stem]
        block = gguf.GGMLQuantizationType[word]
        if word.endswith("_K"):
            raw = rs.quantize(values, word.lower()).packed.data.reshape(len(values), -1)
        else:
            raw = gguf.quants.quantize(values, block)
        writer.add_tensor(own, raw, raw_dtype=block)
        values = gguf.quants.dequantize(raw, block)
        stands_for[name] = values[np.argsort(pairs)] if pairs is not None else values
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return stands_for


def _logits(config: dict[str, Any], tensors: Tensors, ids: list[int]) -> np.ndarray[Any, Any]:
    """The logits behind the last of these tokens, in doubles, with no cache."""
    heads, count = config["num_attention_heads"], len(ids)
    width = config.get("head_dim") or config["hidden_size"] // heads
    turns = config["rope_theta"] ** -(np.arange(0, width, 2) / width)
    scaling = config.get("rope_scaling", {})
    for i, turn in enumerate(turns if scaling else ()):
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        ratio = scaling["original_max_position_embeddings"] / (2 * np.pi / turn)
        smooth = (ratio - low) / (high - low)
        if ratio < low:
            turns[i] = turn / scaling["factor"]
        elif ratio <= high:
            turns[i] = (1 - smooth) * turn / scaling["factor"] + smooth * turn
    angles = np.exp(1j * np.arange(count)[:, None] * turns)
    behind = np.arange(count)[:, None] - np.arange(count)
    is_seen = (behind >= 0) & (behind < (config.get("sliding_window") or count))

    def norm(x: Any, name: str) -> Any:
        squares = (x * x).mean(-1, keepdims=True)
        return x / np.sqrt(squares + config["rms_norm_eps"]) * tensors[f"{name}.weight"]

    def linear(x: Any, name: str) -> Any:
        return x @ tensors[f"{name}.weight"].T + tensors.get(f"{name}.bias", 0)

    def by_heads(x: Any) -> Any:
        heads_of_x = x.reshape(count, -1, width).swapaxes(0, 1)
        return np.repeat(heads_of_x, heads // len(heads_of_x), 0)

    def turned(x: Any) -> Any:
        pairs = (x[..., : width // 2] + 1j * x[..., width // 2 :]) * angles
        return np.concatenate([pairs.real, pairs.imag], -1)

    x = tensors["model.embed_tokens.weight"][ids]
    for layer in (f"model.layers.{number}" for number in range(config["num_hidden_layers"])):
        source = norm(x, f"{layer}.input_layernorm")
        q, k, v = (by_heads(linear(source, f"{layer}.self_attn.{word}_proj")) for word in "qkv")
        scores = np.where(is_seen, turned(q) @ turned(k).swapaxes(1, 2) / np.sqrt(width), -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        found = (powers / powers.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(count, -1)
        x = x + linear(found, f"{layer}.self_attn.o_proj")
        source = norm(x, f"{layer}.post_attention_layernorm")
        gate = linear(source, f"{layer}.mlp.gate_proj")
        x = x + linear(
            gate / (1 + np.exp(-gate)) * linear(source, f"{layer}.mlp.up_proj"), f"{layer}.mlp.down_proj"
        )
    table = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])
    return norm(x[-1], "model.norm") @ table.T


def _check_tokens(model: Any, ids: list[int], wanted: Any, count: int, error: float = 1e-5) -> None:
    """So many steps of the model, and the logits of each beside those that `wanted` has for all tokens."""
    ids, logits = list(ids), model(ids)
    for _ in range(count):
        expected = wanted(ids)
        assert np.abs(logits - expected).max() <= error * np.abs(expected).max()
        ids.append(int(expected.argmax()))
        assert logits.argmax() == ids[-1]
        logits = model(ids[-1:])


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (1, {}),
        (17, {"kind": "bf16", "tie_word_embeddings": True, "shards": 2, "rope_scaling": _LLAMA3}),
        (5, {"model_type": "qwen2", "head_dim": 16, "num_key_value_heads": 1}),
        (9, {"model_type": "mistral", "sliding_window": 6, "num_key_value_heads": 4}),
    ],
)
def test_logits_are_those_of_the_formula(
    length: int, words: dict[str, Any], example: ModuleType, tmp_path: Path
) -> None:
    config, tensors = _write(tmp_path, **words)
    ids = np.random.default_rng(1).integers(0, config["vocab_size"], length).tolist()
    model = example.LanguageModel(tmp_path, 32)
    _check_tokens(model, ids, lambda ids: _logits(config, tensors, ids), 6)


def test_a_long_prompt_is_read_in_pieces(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example, "MOST", 8)
    config, tensors = _write(tmp_path)
    ids = np.random.default_rng(2).integers(0, config["vocab_size"], 21).tolist()
    model = example.LanguageModel(tmp_path, 21, "f16", "bf16")
    expected = _logits(config, tensors, ids)
    assert np.abs(model(ids) - expected).max() <= 0.02 * np.abs(expected).max()
    model.length = 0
    model(ids[:6])
    model(ids[:7])
    assert set(model._steps) == {8}  # one plan for all these lengths


def test_what_it_cannot_read_is_said(example: ModuleType, tmp_path: Path) -> None:
    _, tensors = _write(tmp_path)
    model = example.LanguageModel(tmp_path, 4)
    with pytest.raises(ValueError, match="0 of the 4 positions of the cache are filled, 5 more do not fit"):
        model([1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="6 more do not fit"):
        next(model.generate([1, 2, 3], 4))
    with pytest.raises(ValueError, match="from 0 to 49"):
        model([50])
    for words, message in (
        ({"model_type": "gpt2"}, "model_type is 'gpt2', not one of llama, mistral, qwen2"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope_type is 'yarn'"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"intermediate_size": None}, "there is no intermediate_size"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(_CONFIG | words), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            example.LanguageModel(tmp_path, 4)
    (tmp_path / "config.json").write_text(json.dumps(_CONFIG), encoding="utf-8")
    name = "model.layers.1.mlp.up_proj.weight"
    del tensors[name]
    rs.save(
        {each: tensor.astype(np.float32) for each, tensor in tensors.items()}, tmp_path / "model.safetensors"
    )
    with pytest.raises(ValueError, match=f"no tensor '{name}'"):
        example.LanguageModel(tmp_path, 4)([1])


def test_the_command_prints_the_tokens(tmp_path: Path) -> None:
    config, tensors = _write(tmp_path)
    command = [sys.executable, str(_EXAMPLE), str(tmp_path), "--tokens", "3", "1", "--count", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    ids = [3, 1]
    for _ in range(4):
        ids.append(int(_logits(config, tensors, ids).argmax()))
    first, *rest = done.stdout.splitlines()
    assert first == " ".join(map(str, ids[2:]))
    assert [line.split(":")[0] for line in rest] == ["2 tokens behind 2, plans and all", "tokens a second"]
    done = subprocess.run([*command, "--capacity", "4"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "5 more do not fit" in done.stderr


@pytest.mark.parametrize(
    "words", [{}, {"model_type": "qwen2", "tie_word_embeddings": True}], ids=["llama", "qwen2"]
)
def test_a_gguf_file_is_run_as_it_lies(words: dict[str, Any], example: ModuleType, tmp_path: Path) -> None:
    config, tensors = _write(tmp_path, **_WIDE, **words)
    path = tmp_path / "model.gguf"
    stands_for = _write_gguf(path, config, tensors)
    tensors = {name: tensor.astype(np.float64) for name, tensor in stands_for.items()}
    ids = [3, 1, 4, 1, 5]
    _check_tokens(example.LanguageModel(path, 32), ids, lambda ids: _logits(config, tensors, ids), 24)
    expected, found = _logits(config, tensors, ids), example.LanguageModel(path, 32, mode="any")(ids)
    assert 0 < np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def test_networks_that_were_kept_are_those_of_the_same_model_alone(
    example: ModuleType, tmp_path: Path
) -> None:
    config, tensors = _write(tmp_path, **_WIDE)
    path, folder = tmp_path / "model.gguf", tmp_path / "kept"
    _write_gguf(path, config, tensors)
    ids = [3, 1, 4, 1, 5]
    model = example.LanguageModel(path, 32, mode="any", folder=folder)
    expected = model(ids)
    model.keep()
    again = example.LanguageModel(path, 32, mode="any", folder=folder)
    again._graph = None  # it is not asked for
    assert (again(ids) == expected).all()
    again(ids * 3)  # a number of positions that was not seen
    (folder / "1.network").write_bytes(b"damaged")
    assert (example.LanguageModel(path, 32, mode="any", folder=folder)(ids) == expected).all()
    strict = example.LanguageModel(path, 32, folder=folder)
    assert 0 < np.abs(strict(ids) - expected).max() < 0.05 * np.abs(expected).max()


def test_of_a_gguf_file_it_is_said_what_it_cannot_read(example: ModuleType, tmp_path: Path) -> None:
    config, tensors = _write(tmp_path, **_WIDE)
    path = tmp_path / "model.gguf"
    name = "model.layers.1.mlp.up_proj.weight"
    del tensors[name]
    _write_gguf(path, config, tensors)
    with pytest.raises(ValueError, match=f"no tensor '{re.escape(name)}'"):
        example.LanguageModel(path, 4)([1])
    _write_gguf(path, config | {"model_type": "qwen3"}, tensors)
    with pytest.raises(ValueError, match="model_type is 'qwen3', not one of llama"):
        example.LanguageModel(path, 4)


@pytest.mark.peer
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("is_tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_tokens_are_those_of_transformers(
    kind: str, is_tied: bool, example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    # A torchvision that another torch was built for, which nothing here wants, would end the next import.
    monkeypatch.setitem(sys.modules, "torchvision", None)
    pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=200,
        hidden_size=96,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=is_tied,
        initializer_range=0.1,
    )
    made = LlamaForCausalLM(config).to(torch.bfloat16 if kind == "bf16" else torch.float32)
    made.save_pretrained(tmp_path)
    peer = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()

    def wanted(ids: list[int]) -> Any:
        with torch.no_grad():
            return peer(torch.tensor([ids])).logits[0, -1].numpy()

    for length in (1, 17):
        ids = np.random.default_rng(length).integers(0, 200, length).tolist()
        _check_tokens(example.LanguageModel(tmp_path, 64), ids, wanted, 24, 1e-4)


@pytest.mark.peer
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", ["llama", "qwen2", "gemma3_text"])
def test_tokens_of_a_gguf_file_are_those_of_transformers(
    kind: str, example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setitem(sys.modules, "torchvision", None)
    pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    words = _WIDE | {
        "vocab_size": 200,
        "num_hidden_layers": 6 if kind == "gemma3_text" else 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6,
        "initializer_range": 0.1,
    }
    if kind == "gemma3_text":
        words |= {"head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 8}
    peer = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **words)).eval()
    tensors = {
        name: tensor.numpy() + np.float32(0.1) * torch.randn(tensor.shape).numpy() * (tensor.ndim == 1)
        for name, tensor in peer.state_dict().items()
        if not (kind == "gemma3_text" and name.startswith("lm_head"))
    }
    path = tmp_path / "model.gguf"
    stands_for = _write_gguf(path, words | {"model_type": kind}, tensors)
    peer.load_state_dict(
        {name: torch.from_numpy(values) for name, values in stands_for.items()}, strict=False
    )

    def wanted(ids: list[int]) -> Any:
        with torch.no_grad():
            return peer(torch.tensor([ids])).logits[0, -1].numpy()

    ids = np.random.default_rng(0).integers(0, 200, 17).tolist()
    _check_tokens(example.LanguageModel(path, 64), ids, wanted, 24, 1e-4)
