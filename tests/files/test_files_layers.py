"""Layers of AWQ and GPTQ that rules make: names, packing and configuration as other programs read them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main
from support.errors import refused

_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def weights(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def checkpoint(folder: str = "model", config: Any = None) -> dict[str, Any]:
    """A folder with two layers, a norm, an embedding, and a configuration."""
    tensors = {
        "model.embed_tokens.weight": weights(64, 256),
        "model.layers.0.mlp.up_proj.weight": weights(512, 256),
        "model.layers.0.mlp.down_proj.weight": weights(256, 512),
        "model.norm.weight": np.ones(256, np.float32),
    }
    os.mkdir(folder)
    rs.save(tensors, f"{folder}/model.safetensors")
    Path(folder, "config.json").write_text(json.dumps(config or {"architectures": ["LlamaForCausalLM"]}))
    Path(folder, "README.md").write_text("words")
    return tensors


def columns(words: Any, order: Any = range(8)) -> Any:
    """Eight columns of each word."""
    found = np.empty((len(words), words.shape[1] * 8), np.int64)
    for place, column in enumerate(order):
        found[:, column::8] = words.view(np.uint32) >> np.uint32(4 * place) & 15
    return found


def packed(codes: Any, order: Any = range(8)) -> Any:
    """The inverse."""
    words = np.zeros((len(codes), codes.shape[1] // 8), np.uint32)
    for place, column in enumerate(order):
        words |= codes[:, column::8].astype(np.uint32) << np.uint32(4 * place)
    return words.view(np.int32)


def layer_of(tensors: Any, name: str, method: str) -> tuple[Any, Any, Any]:
    """Codes, zero points and scales of a layer, unpacked by hand, of (in, out)."""
    words, zeros, scales = (tensors[f"{name}.{end}"].to_numpy() for end in ("qweight", "qzeros", "scales"))
    assert (words.dtype, zeros.dtype, scales.dtype) == (np.int32, np.int32, np.float16)
    if method == "awq":
        return columns(words, _COLUMNS), columns(zeros, _COLUMNS), scales
    return columns(np.ascontiguousarray(words.T)).T, columns(zeros), scales


@pytest.mark.parametrize("group", [128, 64])
@pytest.mark.parametrize("method", ["awq", "gptq"])
def test_weights_become_layers_that_their_readers_know(method: str, group: int) -> None:
    exact = checkpoint()
    rule = f"*proj.weight={method}" + (f",group={group}" if group != 128 else "")
    rs.convert("model", "out", [rule], verify=True)
    found = rs.load("out/model.safetensors")
    ends = ["qweight", "scales", "qzeros"] + ["g_idx"] * (method == "gptq")
    for name in ("model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj"):
        assert {one for one in found if one.startswith(name)} == {f"{name}.{end}" for end in ends}
        codes, zeros, scales = layer_of(found, name, method)
        weight = exact[f"{name}.weight"].T
        n, out = weight.shape
        assert codes.shape == (n, out)
        assert zeros.shape == scales.shape == (n // group, out)
        back = (codes - zeros.repeat(group, 0)) * scales.astype(np.float32).repeat(group, 0)
        steps = scales.astype(np.float32).repeat(group, 0)
        assert np.all(np.abs(back - weight) <= 1.02 * steps)
        if method == "awq":
            np.testing.assert_array_equal(packed(codes, _COLUMNS), found[f"{name}.qweight"].to_numpy())
        else:
            np.testing.assert_array_equal(found[f"{name}.g_idx"].to_numpy(), np.arange(n) // group)
    assert not rs.load_metadata("out/model.safetensors")
    config = json.loads(Path("out/config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    own = config["quantization_config"]
    assert (own["quant_method"], own["bits"], own["group_size"]) == (method, 4, group)
    if method == "awq":
        assert (own["zero_point"], own["version"]) == (True, "gemm")
        assert own["modules_to_not_convert"] == ["model.embed_tokens"]
    else:
        assert (own["desc_act"], own["checkpoint_format"]) == (False, "gptq_v2")
    assert Path("out/README.md").read_text() == "words"
    rs.convert("out", "back", ["*.weight=f32"], verify=True)
    real = rs.load("back/model.safetensors")
    np.testing.assert_array_equal(real[f"{name}.weight"].to_numpy(), back.T)
    assert set(real) == set(exact)


def test_indexes_of_shards_name_the_parts_of_layers() -> None:
    exact = checkpoint()
    index = {"metadata": {}, "weight_map": dict.fromkeys(exact, "model.safetensors")}
    Path("model/model.safetensors.index.json").write_text(json.dumps(index))
    rs.convert("model", "out", ["*proj.weight=gptq"])
    shards = json.loads(Path("out/model.safetensors.index.json").read_text())["weight_map"]
    assert set(shards) == set(rs.load("out/model.safetensors"))
    assert set(rs.load("out")) == set(shards)


@pytest.mark.parametrize("source", ["awq", "gptq"])
def test_layers_become_the_others_and_nothing_is_rounded(source: str) -> None:
    checkpoint()
    rs.convert("model", "a", [f"*proj.weight={source}"])
    rs.convert("a", "reals", ["*.weight=f32"])
    for number, target in enumerate(("awq", "gptq", "awq,group=128")):
        for rule in (f"*={target}", f"*_proj.weight={target}", f"*_proj.qweight={target}"):
            out = f"{number}{len(rule)}"
            rules = ["*embed*=keep", rule]
            report = rs.convert("a", out, rules, verify=True)
            assert not report.unused_rules[1:]
            rs.convert(out, f"{out}r", ["*.weight=f32"])
            for name in ("model.safetensors", "config.json"):
                assert Path(f"{out}r", name).read_bytes() == Path("reals", name).read_bytes(), rule
            if target == source:
                for name in ("model.safetensors", "config.json"):
                    assert Path(out, name).read_bytes() == Path("a", name).read_bytes(), rule


def test_a_group_that_is_not_named_is_that_of_the_layer() -> None:
    checkpoint()
    rs.convert("model", "a", ["*proj.weight=awq,group=32"])
    rs.convert("a", "b", ["*proj.weight=gptq"], verify=True)
    assert json.loads(Path("b/config.json").read_text())["quantization_config"]["group_size"] == 32
    rs.convert("a", "x", ["*.weight=f32"])
    rs.convert("b", "y", ["*.weight=f32"])
    assert Path("x/model.safetensors").read_bytes() == Path("y/model.safetensors").read_bytes()


def test_a_layer_of_the_first_gptq_is_copied_by_its_own_rule() -> None:
    checkpoint()
    rs.convert("model", "a", ["*proj.weight=gptq"])
    config = json.loads(Path("a/config.json").read_text())
    config["quantization_config"]["checkpoint_format"] = "gptq"
    Path("a/config.json").write_text(json.dumps(config))
    report = rs.convert("a", "b", ["*proj.weight=gptq"], verify=True)
    assert not report.unused_rules
    for name in ("model.safetensors", "config.json"):
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()


@pytest.mark.parametrize("rule", ["f32", "u4,group=128,scale=minmax,scale_type=f16", "q4_0"])
def test_a_configuration_says_nothing_of_layers_that_are_gone(rule: str) -> None:
    checkpoint()
    rs.convert("model", "a", ["*proj.weight=awq"])
    Path("a/quant_config.json").write_text('{"quant_method": "awq", "w_bit": 4}')
    if rule == "q4_0":
        rs.convert("a", "b.gguf", [f"*proj.weight={rule}"])
        return
    rs.convert("a", "b", [f"*proj.weight={rule}"], verify=True)
    config = json.loads(Path("b/config.json").read_text())
    # Where scales are separate, something else says that other programs cannot read them.
    assert set(config.pop("quantization_config", {})) == ({"restride"} if "scale" in rule else set())
    assert config == {"architectures": ["LlamaForCausalLM"]}
    assert sorted(os.listdir("b")) == ["README.md", "config.json", "model.safetensors"]
    rs.convert("a", "c", ["*up_proj.weight=f32"])
    kept = json.loads(Path("c/config.json").read_text())["quantization_config"]["modules_to_not_convert"]
    assert kept == ["model.embed_tokens", "model.layers.0.mlp.up_proj"]


def test_a_configuration_of_another_program_stays() -> None:
    checkpoint(config={"quantization_config": {"quant_method": "fp8"}})
    rs.convert("model", "a", ["*proj.weight=bf16"])
    assert Path("a/config.json").read_bytes() == Path("model/config.json").read_bytes()


@pytest.mark.parametrize(
    ("rules", "target", "why"),
    [
        (["*up_proj.weight=awq", "*down_proj.weight=gptq"], "out", "cannot describe the layers"),
        (["*up_proj.weight=awq", "*=awq,group=64"], "out", "cannot describe the layers"),
        (["*proj.weight=awq"], "out.zarr", "cannot hold layers"),
        (["*proj.weight=awq"], "out.gguf", "no type for awq"),
    ],
)
def test_layers_that_no_reader_would_find_are_refused(rules: list[str], target: str, why: str) -> None:
    checkpoint()
    with refused(why):
        rs.convert("model", target, rules)
    assert os.listdir() == ["model"]


@pytest.mark.parametrize("method", ["awq", "gptq"])
@pytest.mark.parametrize("rule", ["*={}", "*down_proj.weight={}"])
def test_a_conversion_of_some_layers_is_finished_by_another_one(method: str, rule: str) -> None:
    checkpoint()
    rs.convert("model", "whole", [f"*={method}"])
    rs.convert("model", "part", [f"*up_proj.weight={method}"])
    report = rs.convert("part", "rest", [rule.format(method)], verify=True)
    # What is beside the words of layers is part of them.
    assert set(report.left) <= {"model.embed_tokens.weight", "model.norm.weight"}
    whole, rest = (rs.load(f"{name}/model.safetensors") for name in ("whole", "rest"))
    assert set(whole) == set(rest)
    for name, tensor in whole.items():
        np.testing.assert_array_equal(tensor.to_numpy(), rest[name].to_numpy())
    read = [json.loads(Path(name, "config.json").read_text()) for name in ("whole", "rest")]
    assert read[0] == read[1]


@pytest.mark.parametrize(
    ("method", "change", "rule", "why"),
    [
        ("awq", {}, "awq,group=64", "one format and one group size"),
        ("awq", {}, "gptq", "one format and one group size"),
        ("awq", {"version": "gemv"}, "awq", "new layers have 4 bits, version gemm"),
        ("gptq", {"checkpoint_format": "gptq"}, "gptq", "new layers have 4 bits, checkpoint_format gptq_v2"),
        ("gptq", {"bits": 8}, "gptq", "new layers have 4 bits"),
    ],
)
def test_layers_unlike_those_of_the_source_are_refused(
    method: str, change: dict[str, Any], rule: str, why: str
) -> None:
    checkpoint()
    rs.convert("model", "part", [f"*up_proj.weight={method}"])
    config = json.loads(Path("part/config.json").read_text())
    config["quantization_config"] |= change
    Path("part/config.json").write_text(json.dumps(config))
    with refused(why):
        rs.convert("part", "rest", [f"*down_proj.weight={rule}"])
    assert not os.path.exists("rest")


def test_tensors_with_names_of_layers_and_other_shapes_are_no_layers_to_finish() -> None:
    exact = checkpoint()
    for scales in (np.ones((0, 8), np.float16), np.ones(8, np.float16), None):
        odd = {"odd.qweight": np.ones(8, np.int32)} | ({} if scales is None else {"odd.scales": scales})
        rs.save({**exact, **odd}, "model/model.safetensors")
        with refused("unknown,group=0"):
            rs.convert("model", "a", ["*proj.weight=awq"])
        rs.convert("model", "b", ["*proj.weight=bf16"])
        shutil.rmtree("b")


@pytest.mark.parametrize(
    "rule", ["s8,axis=0,scale=absmax", "s8,scale=4", "mxfp8", "ba", "s4,group=32,scale=absmax"]
)
def test_a_configuration_says_that_only_restride_reads_the_weights(rule: str) -> None:
    checkpoint()
    original = Path("model/config.json").read_text()
    report = rs.convert("model", "a", [f"*_proj.weight={rule}"])
    assert report.marked == ("config.json",)
    config = json.loads(Path("a/config.json").read_text())
    assert "quant_method" not in config["quantization_config"]
    assert "f32, bf16 or f16" in config["quantization_config"]["restride"]["note"]
    copied = rs.convert("a", "b", ["*norm*=bf16"])
    assert json.loads(Path("b/config.json").read_text()) == config
    assert copied.marked == ()
    if "scale=4" not in rule:
        rs.convert("a", "c", ["*_proj.weight=ab,f32"])
        assert json.loads(Path("c/config.json").read_text()) == json.loads(original)


def _configure(**quantization: object) -> None:
    config = Path("model/config.json")
    config.write_text(json.dumps(json.loads(config.read_text()) | {"quantization_config": quantization}))


def test_the_mark_hides_every_key_by_which_other_programs_read_the_weights() -> None:
    checkpoint()
    _configure(quant_method="bitsandbytes", load_in_8bit=True)
    rs.convert("model", "a", ["*down_proj.weight=mxfp8"])
    assert json.loads(Path("a/config.json").read_text())["quantization_config"].keys() == {"restride"}
    rs.convert("a", "b", ["*down_proj.weight=f32"])
    config = json.loads(Path("b/config.json").read_text())["quantization_config"]
    assert config == {"quant_method": "bitsandbytes", "load_in_8bit": True}


def test_layers_are_not_made_beside_those_of_another_method() -> None:
    checkpoint()
    _configure(quant_method="fp8")
    with refused("layers of this folder are quantized by fp8"):
        rs.convert("model", "a", ["*down_proj.weight=awq"])
    assert not os.path.exists("a")


@pytest.mark.parametrize(("kept", "expected"), [("lm_head", ["lm_head"]), (5, []), ({"a": 1}, [])])
def test_a_list_of_modules_may_be_a_word_or_damaged(kept: object, expected: list[str]) -> None:
    checkpoint()
    rs.convert("model", "part", ["*up_proj.weight=awq"])
    config = json.loads(Path("part/config.json").read_text())
    config["quantization_config"]["modules_to_not_convert"] = kept
    Path("part/config.json").write_text(json.dumps(config))
    rs.convert("part", "rest", ["*down_proj.weight=awq"])
    found = json.loads(Path("rest/config.json").read_text())["quantization_config"]
    assert [name for name in found.get("modules_to_not_convert", []) if name == "lm_head"] == expected


def test_the_command_warns_of_weights_that_only_restride_reads(capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint()
    options = ["--rule", "*proj.weight=s8,axis=0,scale=absmax"]
    assert main(["convert", "model", "a", "--dry-run", *options]) == 0
    assert main(["convert", "model", "a", *options]) == 0
    warning = "warning: only restride reads some of these weights; config.json makes transformers"
    assert capsys.readouterr().err.count(warning) == 2
    assert main(["convert", "model", "b", "--rule", "*proj.weight=awq"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_layers_beside_weights_that_only_restride_reads_keep_their_configuration() -> None:
    checkpoint()
    rs.convert("model", "plain", ["*up_proj.weight=gptq"])
    rs.convert("model", "a", ["*up_proj.weight=gptq", "*down_proj.weight=mxfp8"])
    own = json.loads(Path("a/config.json").read_text())["quantization_config"]
    assert "quant_method" not in own
    rs.convert("a", "b", ["*down_proj.weight=f32"])
    own, plain = (
        json.loads(Path(name, "config.json").read_text())["quantization_config"] for name in ("b", "plain")
    )
    assert own["quant_method"] == "gptq"
    assert own | {"modules_in_block_to_quantize": 0} == plain | {"modules_in_block_to_quantize": 0}
    rs.convert("a", "c", ["*.weight=f32"])
    assert "quantization_config" not in json.loads(Path("c/config.json").read_text())


@pytest.mark.parametrize(
    "name",
    [
        "wte",
        "transformer.wpe",
        "tok_embeddings",
        "token_embd",
        "shared",
        "output",
        "model.embed_tokens",
        "score",
    ],
)
def test_a_glob_leaves_embeddings_and_heads_whatever_their_names(name: str) -> None:
    rs.save({f"{name}.weight": weights(64, 256), "h.0.mlp.output.weight": weights(64, 256)}, "a.safetensors")
    assert rs.convert("a.safetensors", "b.safetensors", ["*=awq"]).left == (f"{name}.weight",)
    rs.convert("a.safetensors", "c.safetensors", [f"{name}.weight=awq"])
    assert f"{name}.qweight" in rs.load("c.safetensors")


def test_models_whose_weights_are_transposed_get_no_layers() -> None:
    checkpoint(config={"model_type": "gpt2"})
    with refused("its weights are (in, out)"):
        rs.convert("model", "a", ["*proj.weight=awq"])
    rs.convert("model", "b", ["*proj.weight=bf16"])


def test_tensors_that_are_no_weights_are_no_layers() -> None:
    rs.save({"w": weights(128, 128)}, "a.safetensors")
    with refused("not the weight of a linear layer"):
        rs.convert("a.safetensors", "b.safetensors", ["w=awq"])


def test_a_glob_makes_layers_only_of_weights_that_are_read_as_layers() -> None:
    checkpoint()
    rs.save(
        {
            **rs.load("model/model.safetensors"),
            "lm_head.weight": weights(64, 256),
            "conv.weight": weights(2, 2, 3),
        },
        "model/model.safetensors",
    )
    report = rs.convert("model", "a", ["*=awq"], verify=True)
    assert {tensor.name for tensor in report.tensors if tensor.rule} == {
        f"model.layers.0.mlp.{name}_proj.weight" for name in ("up", "down")
    }
    assert set(report.left) == {
        "model.embed_tokens.weight",
        "lm_head.weight",
        "conv.weight",
        "model.norm.weight",
    }
    config = json.loads(Path("a/config.json").read_text())["quantization_config"]
    assert config["modules_to_not_convert"] == ["lm_head", "model.embed_tokens"]
    report = rs.convert("model", "b", ["lm_head.weight=awq"])
    assert [tensor.name for tensor in report.tensors if tensor.rule] == ["lm_head.weight"]
