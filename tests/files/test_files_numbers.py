"""Conversions between stored types: what stands for numbers becomes any other type, by these numbers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main
from restride.files import convert
from restride.files.conversion import tiles
from restride.files.formats.gguf import gguf_image
from restride.files.stored_tensors import GGML_KINDS_BY_WORD, plain_array
from restride.formats.gguf import BLOCK_FORMATS
from support.errors import refused

_GGUF = tuple(name for name in rs.formats.names() if name.startswith("gguf."))
# Layers of checkpoints have tests of their own.
_BESIDE = tuple(name for name in rs.formats.names() if name not in (*_GGUF, "awq", "gptq"))
# What the library makes without a name, and other ways to hold scales.
_PLAIN = ("f32", "bf16", "ba,f16", "f16,scale=2", "s8,scale=absmax", "u8,axis=1,scale=minmax")
_GROUPS = (
    "u4,group=32,scale=minmax,scale_type=f16",
    "s4,group=4x64,scale=absmax",
    "BA16a64b4a,s8,group=32,scale=absmax",
)
_SOURCES = (*_GGUF, *_BESIDE, *_PLAIN[4:], *_GROUPS)
_TARGETS = (*_GGUF, *_BESIDE, *_PLAIN, *_GROUPS)
_EACH = 7


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def weights(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def file_for(target: str, stem: str) -> str:
    return stem + (".gguf" if target in _GGUF else ".safetensors")


def numbers(tensor: Any) -> Any:
    return rs.dequantize(tensor) if isinstance(tensor, rs.QuantizedTensor) else tensor.to_numpy()


@pytest.mark.parametrize("source", _SOURCES)
def test_any_stored_type_becomes_any_other(source: str) -> None:
    """Straight as by way of floats. Each source is tried with every seventh target, beginning elsewhere."""
    rs.save({"w": weights(128, 256)}, "x.safetensors")
    path = file_for(source, "a")
    rs.convert("x.safetensors", path, [f"*={source}"], verify=True)
    report = rs.convert(path, "reals.safetensors", ["*=f32"], verify=True)
    assert [tensor.name for tensor in report.tensors] == ["w"]
    assert list(rs.load("reals.safetensors")) == ["w"]
    exact, found = numbers(rs.load("reals.safetensors")["w"]), rs.load(path)["w"]
    if isinstance(found, rs.QuantizedTensor):
        np.testing.assert_array_equal(exact, numbers(found))
    assert np.abs(exact - weights(128, 256)).mean() < 0.35
    for target in _TARGETS[_SOURCES.index(source) % _EACH :: _EACH]:
        straight, around = file_for(target, "straight"), file_for(target, "around")
        report = rs.convert(path, straight, [f"*={target}"], verify=True)
        assert report.nbytes_read < 128 * 256 * 2.5
        rs.convert("reals.safetensors", around, [f"*={target}"])
        if target != source:
            assert Path(straight).read_bytes() == Path(around).read_bytes(), target


def test_tiles_of_numbers_are_those_of_the_whole() -> None:
    rs.save({"w": weights(768, 1024)}, "x.safetensors")
    little = {"memory": "96MiB", "jobs": 64}
    for source in ("u4,group=128,scale=minmax,scale_type=f16", "gguf.q4_k"):
        path = file_for(source, "a")
        rs.convert("x.safetensors", path, [f"*={source}"], **little)
        rs.convert("x.safetensors", file_for(source, "b"), [f"*={source}"])
        assert Path(path).read_bytes() == Path(file_for(source, "b")).read_bytes()
        for target in ("gguf.q6_k", "marlin", "u8,axis=1,scale=minmax", "s8,scale=absmax"):
            rs.convert(path, file_for(target, "c"), [f"*={target}"], verify=True, **little)
            rs.convert(path, file_for(target, "d"), [f"*={target}"])
            assert Path(file_for(target, "c")).read_bytes() == Path(file_for(target, "d")).read_bytes()


@pytest.mark.peer
@pytest.mark.parametrize("name", _GGUF)
def test_gguf_reads_what_rules_and_saving_write(name: str) -> None:
    library, quants = pytest.importorskip("gguf"), pytest.importorskip("gguf.quants")
    word = name.removeprefix("gguf.").upper()
    kind = library.GGMLQuantizationType[word]
    x = weights(3, 5, 512)
    rs.save({"w": x, "v": rs.Memory.from_numpy(x).to("cab")}, "x.safetensors")
    rs.convert("x.safetensors", "a.gguf", [f"*={name}"], verify=True)
    rs.save(rs.load("a.gguf"), "b.gguf")
    for path in ("a.gguf", "b.gguf"):
        for tensor in library.GGUFReader(path).tensors:
            assert tensor.tensor_type == kind
            assert tuple(tensor.shape) == (512, 5, 3)
            if word == "Q8_K":  # which that library only reads
                continue
            exact = quants.dequantize(tensor.data, kind)
            np.testing.assert_array_equal(exact, numbers(rs.load(path)[tensor.name]))
            assert np.abs(exact - x).mean() < 0.4
            if word in ("Q4_0", "Q4_1", "Q8_0"):
                np.testing.assert_array_equal(tensor.data, quants.quantize(x, kind))


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ({"dtype": "u4", "group": 32, "scale_type": "f16"}, "Q4_0"),
        ({"dtype": "s8", "group": 32, "scale_type": "f16"}, "Q8_0"),
        ({"dtype": "mxfp4"}, "MXFP4"),
        ({"dtype": "s8", "group": 64, "scale_type": "f16"}, "I8"),
        ({"dtype": "s8", "group": 32}, "I8"),
        ({"dtype": "u4", "group": 32, "scale_type": "f16", "symmetric": False}, "I8"),
        ({"dtype": "u4", "group": 32, "scale_type": "f16", "dst": "ba"}, "I8"),
        ({"dtype": "nvfp4"}, "I8"),
    ],
    ids=str,
)
def test_tensors_in_parts_are_saved_as_the_type_that_they_are(words: dict[str, Any], word: str) -> None:
    tensor = rs.quantize(weights(4, 128), **words)
    rs.save({"w": tensor}, "a.gguf")
    found = rs.convert("a.gguf", "b.gguf").tensors[0].target
    assert found.partition(" ")[0] == word or word == "I8", found
    assert (found.partition(" ")[0] in BLOCK_FORMATS) == (word != "I8")
    np.testing.assert_array_equal(numbers(rs.load("a.gguf")["w"]), numbers(tensor))


# --- checkpoints of AWQ and GPTQ -----------------------------------------------------------------------


def layer(rows: int = 256, columns: int = 64, group: int = 128) -> tuple[dict[str, Any], Any]:
    """The tensors of a linear layer as AWQ's checkpoints have them, and its weight, unpacked by hand."""
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**32, (rows, columns // 8), np.uint32)
    zeros = rng.integers(0, 2**32, (rows // group, columns // 8), np.uint32)
    scales = rng.random((rows // group, columns)).astype(np.float16)

    def codes(packed: Any) -> Any:
        found = np.empty((len(packed), packed.shape[1] * 8), np.float32)
        for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
            found[:, column::8] = packed >> np.uint32(4 * place) & 15
        return found

    weight = (codes(words) - codes(zeros).repeat(group, 0)) * scales.repeat(group, 0).astype(np.float32)
    tensors = {"l.qweight": words.view(np.int32), "l.qzeros": zeros.view(np.int32), "l.scales": scales}
    return {**tensors, "l.bias": np.ones(columns, np.float16)}, weight.T


@pytest.mark.parametrize("rule", ["*.weight=f32", "*.qweight=f32", "l.*eight=f32"])
def test_a_layer_of_awq_is_a_weight(rule: str) -> None:
    tensors, weight = layer()
    rs.save(tensors, "a.safetensors")
    rs.convert("a.safetensors", "b.safetensors", [rule], verify=True)
    found = rs.load("b.safetensors")
    assert list(found) == ["l.weight", "l.bias"]
    np.testing.assert_array_equal(found["l.weight"].to_numpy(), weight)


@pytest.mark.peer
def test_a_checkpoint_of_awq_becomes_blocks_of_gguf() -> None:
    library, quants = pytest.importorskip("gguf"), pytest.importorskip("gguf.quants")
    tensors, weight = layer()
    rs.save(tensors, "a.safetensors")
    rs.convert("a.safetensors", "b.gguf", ["*.weight=q4_0"], verify=True)
    found = {tensor.name: tensor for tensor in library.GGUFReader("b.gguf").tensors}
    assert {name: one.tensor_type.name for name, one in found.items()} == {
        "l.weight": "Q4_0",
        "l.bias": "F16",
    }
    kind = library.GGMLQuantizationType.Q4_0
    np.testing.assert_array_equal(found["l.weight"].data, quants.quantize(np.ascontiguousarray(weight), kind))


def gptq(
    rows: int = 256, columns: int = 64, group: int = 64, order: Any = None
) -> tuple[dict[str, Any], Any]:
    """The tensors of a linear layer of GPTQ, and its weight by each version, unpacked by hand."""
    order = np.arange(rows) // group if order is None else order
    rng = np.random.default_rng(4)
    words = rng.integers(0, 2**32, (rows // 8, columns), np.uint32)
    zeros = rng.integers(0, 2**32, (rows // group, columns // 8), np.uint32)
    scales, places = (
        rng.random((rows // group, columns)).astype(np.float16),
        4 * np.arange(8, dtype=np.uint32),
    )
    codes = (words[:, None] >> places[:, None] & 15).reshape(rows, columns).astype(np.float32)
    points = (zeros[:, :, None] >> places & 15).reshape(-1, columns).astype(np.float32)
    exact = scales.astype(np.float32)[order]
    tensors = {"l.qweight": words.view(np.int32), "l.qzeros": zeros.view(np.int32), "l.scales": scales}
    tensors["l.g_idx"] = order.astype(np.int32)
    return tensors, [((codes - points[order] - shift) * exact).T for shift in (0, 1)]


@pytest.mark.parametrize(
    ("name", "config", "shift"),
    [
        ("config.json", {"quantization_config": {"quant_method": "gptq"}}, 1),
        ("quantize_config.json", {"bits": 4, "checkpoint_format": "gptq_v2"}, 0),
        ("config.json", {"quantization_config": {"checkpoint_format": "marlin"}}, None),
        ("config.json", {"quantization_config": {"quant_method": "awq"}}, None),
        ("config.json", {"architectures": []}, None),
        ("config.yaml", {}, None),
    ],
)
def test_a_layer_of_gptq_is_a_weight_where_its_version_is_known(
    name: str, config: dict[str, Any], shift: int | None
) -> None:
    tensors, weights_by_shift = gptq()
    os.mkdir("in")
    Path("in", name).write_text(json.dumps(config))
    rs.save(tensors, "in/a.safetensors")
    for source, target in (("in", "out"), ("in/a.safetensors", "b.safetensors")):
        if shift is None:
            with refused("of unknown version"):
                rs.convert(source, target, ["*.weight=f32"])
            continue
        rs.convert(source, target, ["*.weight=f32"], verify=True)
        found = rs.load(target if target != "out" else "out/a.safetensors")
        assert list(found) == ["l.weight"]
        np.testing.assert_array_equal(found["l.weight"].to_numpy(), weights_by_shift[shift])


ORDERS = {
    "backwards": np.arange(256)[::-1] // 64,
    "any": np.random.default_rng(5).permutation(np.arange(256) // 64),
    "of other sizes": np.random.default_rng(6).integers(1, 3, 256),
}


@pytest.mark.parametrize(("order", "shift"), [("backwards", 1), ("any", 0), ("of other sizes", 1)])
@pytest.mark.parametrize(
    "rule",
    [
        "f32",
        "ba,f16",
        "q4_0",
        "u4,group=64,scale=minmax,scale_type=f16",
        "gptq,group=128",
        "awq,group=128",
        "marlin",
    ],
)
def test_rows_of_gptq_may_be_of_groups_in_any_order(
    rule: str, order: str, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer and its numbers are converted alike, in few boxes and in many."""
    config = {"checkpoint_format": "gptq" if shift else "gptq_v2"}
    Path("quantize_config.json").write_text(json.dumps(config))
    tensors, weights_by_shift = gptq(columns=128, order=ORDERS[order])
    rs.save(tensors, "a.safetensors")
    rs.save({"l.weight": np.ascontiguousarray(weights_by_shift[shift])}, "x.safetensors")
    end = "gguf" if rule == "q4_0" else "safetensors"
    rs.convert("x.safetensors", f"c.{end}", [f"*.weight={rule}"])
    for _ in range(2):
        rs.convert("a.safetensors", f"b.{end}", [f"*.weight={rule}"], verify=True)
        assert Path(f"b.{end}").read_bytes() == Path(f"c.{end}").read_bytes()
        monkeypatch.setattr(convert, "_tile_memory", lambda memory, jobs: 40_000)
        monkeypatch.setattr(tiles, "_LEAST_BYTES", 600)
        monkeypatch.setattr(tiles, "_LONG_RUN", 1)


@pytest.mark.parametrize(
    "order", [np.arange(128) // 64, np.arange(256) // 32, np.arange(256) // 64 - 1, np.arange(256.0) // 64]
)
def test_groups_that_are_not_there_are_refused(order: Any) -> None:
    Path("quantize_config.json").write_text("{}")
    kind = np.float32 if order.dtype.kind == "f" else np.int32
    rs.save({**gptq()[0], "l.g_idx": order.astype(kind)}, "a.safetensors")
    with refused("an invalid g_idx"):
        rs.convert("a.safetensors", "b.gguf", ["*.weight=q4_0"])
    assert rs.convert("a.safetensors", "b.safetensors", verify=True).verified


def test_what_no_rule_makes_numbers_of_stays_in_its_parts() -> None:
    tensors, _ = layer()
    rs.save(tensors, "a.safetensors")
    for rules in ([], ["*=keep"], ["*.weight=keep", "*=f32"], ["*.scales=ba"]):
        rs.convert("a.safetensors", "b.safetensors", rules, verify=True)
        if rules[-1:] != ["*=f32"]:
            assert list(rs.load("b.safetensors")) == list(tensors)


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ("u4,group=32,scale=minmax", ["AB16a32b,u4,group=32,scale=minmax"]),
        ("u4,group=32,scale=absmax", ["ba,u4,group=32,scale=absmax"]),
        ("fp8_blocks", ["fp8_blocks", "ba,f8_e4m3,group=128x128,scale=absmax"]),
        ("nvfp4", ["ba,nvfp4"]),
        ("u8,axis=0,scale=minmax", ["ba,u8,axis=0,scale=minmax"]),
    ],
)
def test_what_keeps_its_types_is_moved_and_not_rounded_again(source: str, rules: list[str]) -> None:
    rs.save({"w": weights(128, 128)}, "x.safetensors")
    rs.convert("x.safetensors", "a.safetensors", [f"*={source}"])
    rs.convert("a.safetensors", "a32.safetensors", ["*=f32"])
    for rule in rules:
        rs.convert("a.safetensors", "b.safetensors", [f"*={rule}"], verify=True)
        rs.convert("b.safetensors", "b32.safetensors", ["*=f32"])
        assert Path("a32.safetensors").read_bytes() == Path("b32.safetensors").read_bytes(), rule


def test_other_scales_of_the_same_types_are_found_anew() -> None:
    rs.save({"w": weights(128, 128)}, "x.safetensors")
    for source, rule in (
        ("u8,axis=0,scale=minmax", "u8,axis=1,scale=minmax"),
        ("u8,axis=0,scale=minmax", "u8,axis=0,scale=absmax"),
        ("u4,group=32,scale=absmax,scale_type=f16", "torchao_int4_cpu"),
        ("u4,axis=0,group=128,scale=minmax,scale_type=f16", "marlin"),
    ):
        rs.convert("x.safetensors", "a.safetensors", [f"*={source}"])
        rs.convert("a.safetensors", "f.safetensors", ["*=f32"])
        for path, target in (("a.safetensors", "b.safetensors"), ("f.safetensors", "c.safetensors")):
            rs.convert(path, target, [f"*={rule}"], verify=True)
        assert Path("b.safetensors").read_bytes() == Path("c.safetensors").read_bytes(), rule


def test_a_layer_of_awq_keeps_its_codes_in_other_layouts() -> None:
    tensors, weight = layer()
    rs.save(tensors, "a.safetensors")
    report = rs.convert(
        "a.safetensors", "b.safetensors", ["*.weight=u4,group=128,scale=minmax,scale_type=f16"]
    )
    assert [tensor.name for tensor in report.tensors] == ["l.qweight", "l.scales", "l.qzeros", "l.bias"]
    found = rs.load("b.safetensors")
    assert list(found) == ["l.weight", "l.bias"]
    np.testing.assert_array_equal(numbers(found["l.weight"]), weight)
    assert found["l.weight"].values.desc.tag == "ab"


# --- shapes that do not fit ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "rule", "told"),
    [
        ((64, 128), "awq,group=7", "do not divide axis 1: 128 is not"),
        ((100, 128), "awq", "an extent is 100, not a multiple of 8"),
    ],
)
def test_layers_that_do_not_fit_are_told_in_their_own_dims(
    tmp_path: Path, shape: tuple[int, int], rule: str, told: str
) -> None:
    source = tmp_path / "m.npz"
    np.savez(source, **{"l.weight": np.ones(shape, np.float32)})
    with pytest.raises(rs.InvalidArguments, match=told):
        rs.convert(source, tmp_path / "o.safetensors", [f"*={rule}"])


_ROWS = {"a": (4, 512), "b": (4, 688), "c": (2, 96), "d": (1, 32)}


def test_all_shapes_that_do_not_fit_are_told_together(capsys: pytest.CaptureFixture[str]) -> None:
    rs.save({name: weights(*shape) for name, shape in _ROWS.items()}, "x.safetensors")
    command = ["convert", "x.safetensors", "y.gguf", "--rule", "*=q4_k"]
    assert main([*command, "--dry-run"]) == 1
    out = capsys.readouterr().out
    assert "b 4x688" in out
    assert "whole blocks of 256" in out
    assert "c 2x96" in out
    assert "what fits: q8_0 or q4_0 or keep" in out
    assert "--fallback q8_0 or keep" in out
    assert main([*command, "--dry-run", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["misfits"]
    fits = [(one["name"], one["shape"][-1], one["fits"]) for one in found]
    assert fits == [
        ("b", 688, ["keep"]),
        *((name, n, ["q8_0", "q4_0", "keep"]) for name, n in (("c", 96), ("d", 32))),
    ]
    assert main(command) == 1
    assert "do not fit the shapes of tensors (3)" in capsys.readouterr().err
    assert not os.path.exists("y.gguf")


def test_blocks_that_do_not_fit_are_not_kept_where_files_have_no_word_for_them() -> None:
    rs.save({"w": rs.quantize(weights(96, 64), "q8_0")}, "x.gguf")
    (misfit,) = rs.convert("x.gguf", "y.safetensors", ["*=fp8_blocks"], dry_run=True).misfits
    assert misfit.fits == ("s8,group=32,scale=absmax", "mxfp4", "bf16")
    for more in ({}, {"fallback": "keep"}):
        with refused("groups of 128 elements do not divide"):
            rs.convert("x.gguf", "y.safetensors", ["*=fp8_blocks"], **more)
    rs.convert("x.gguf", "y.safetensors", [f"*={misfit.fits[0]}"])
    assert rs.load("y.safetensors")["w"].values.desc.data_type is rs.s8


@pytest.mark.parametrize(
    ("fallback", "kinds"),
    [("q8_0", ["Q4_K", "F32", "Q8_0", "Q8_0"]), ("keep", ["Q4_K", "F32", "F32", "F32"])],
)
def test_a_fallback_goes_on(fallback: str, kinds: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    rs.save({name: weights(*shape) for name, shape in _ROWS.items()}, "x.safetensors")
    for extra in (["--dry-run"], ["--verify"]):
        command = ["convert", "x.safetensors", "y.gguf", "--rule", "*=q4_k", "--fallback", fallback]
        assert main([*command, *extra]) == 0
        assert "does not fit" in capsys.readouterr().out
    report = rs.convert("y.gguf", "z.gguf")
    assert [tensor.target.partition(" ")[0] for tensor in report.tensors] == kinds
    again = rs.convert("x.safetensors", "z.gguf", ["[ab]=q4_k", "*=q4_k"], fallback=fallback)
    assert not again.unused_rules
    assert Path("y.gguf").read_bytes() == Path("z.gguf").read_bytes()


def test_what_falls_back_to_itself_is_as_it_was() -> None:
    tensors, _ = layer(64, 64, 64)
    rs.save(tensors, "a.safetensors")
    rs.convert("a.safetensors", "b.safetensors", ["*.weight=marlin,group=48"], fallback="keep", verify=True)
    assert Path("b.safetensors").read_bytes() == Path("a.safetensors").read_bytes()
    rs.save({"w": rs.quantize(weights(4, 96), "s8", group=32)}, "c.safetensors")
    for rule in ("*=mxfp4,group=64", "*=marlin", "*=s8,group=36,scale=absmax"):
        rs.convert("c.safetensors", "d.safetensors", [rule], fallback="keep", verify=True)
        assert Path("d.safetensors").read_bytes() == Path("c.safetensors").read_bytes()


# --- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "rule", "words", "why"),
    [
        ("b.safetensors", "*=q4_k", {}, "bf16"),
        ("b.safetensors", "*=gguf.mxfp4", {}, "write a .gguf file"),
        ("b.npz", "*=q8_0", {}, "type of .gguf files"),
        ("b.gguf", "*=awq", {}, "no type for awq"),
        ("b.gguf", "*=fp8_blocks", {}, "no type for fp8_blocks"),
        ("b.safetensors", "*=ba,awq", {}, "its own layout"),
        ("b.gguf", "*=ba,q4_0", {}, "takes no other arguments"),
        ("b.gguf", "*=q4_0,group=64", {}, "takes no other arguments"),
        ("b.gguf", "*=q4_0", {"fallback": "q4_0"}, "fallback"),
        ("b.gguf", "*=q4_0", {"fallback": ["keep"]}, "fallback"),
        ("b.safetensors", "*=mxfp4,group=48", {"fallback": "q8_0"}, "type of .gguf files"),
    ],
)
def test_what_a_file_has_no_place_for_is_refused(
    target: str, rule: str, words: dict[str, Any], why: str
) -> None:
    rs.save({"w": weights(128, 256)}, "a.safetensors")
    with refused(why):
        rs.convert("a.safetensors", target, [rule], **words)
    assert os.listdir() == ["a.safetensors"]


@pytest.mark.parametrize("rule", ["*=f16", "*=q4_0", "*=ba"])
def test_blocks_that_no_format_reads_are_only_copied(rule: str) -> None:
    blocks("a.gguf", "IQ2_XS", (4, 256), bytes(4 * 74))
    with refused("does not know the layout of their bits"):
        rs.convert("a.gguf", "b.gguf", [rule])
    assert rs.convert("a.gguf", "b.gguf", ["*=keep"], verify=True).verified


def blocks(path: str, word: str, shape: tuple[int, ...], content: bytes) -> None:
    """A file with one tensor of these bytes."""
    image = gguf_image([plain_array("w", GGML_KINDS_BY_WORD[word], shape)], {})
    whole = bytearray(image.nbytes)
    for start, piece in (*image.pieces, (image.starts[0], content)):
        whole[start : start + len(piece)] = piece
    Path(path).write_bytes(whole)


_HALF_NAN, _HALF_INFINITE = np.float16(np.nan).tobytes(), np.float16(-np.inf).tobytes()


@pytest.mark.parametrize(
    ("word", "content"),
    [
        ("Q8_0", bytes(34) + _HALF_INFINITE + bytes(32)),
        ("Q4_1", bytes(22) + _HALF_NAN + bytes(16)),
        ("Q5_0", _HALF_NAN + bytes(42)),
        ("MXFP4", bytes(17) + b"\xff" + bytes(16)),
        ("Q4_K", bytes(2) + _HALF_NAN + bytes(140)),
        ("Q6_K", bytes(208) + _HALF_INFINITE),
        ("Q8_K", np.float32(np.inf).tobytes() + bytes(288)),
    ],
    ids=lambda word: word if isinstance(word, str) else "",
)
def test_scales_that_are_no_numbers_are_refused(word: str, content: bytes) -> None:
    kind = GGML_KINDS_BY_WORD[word]
    blocks("a.gguf", word, (len(content) * 8 // kind.bits * kind.block,), content)
    for target, rule in (("b.safetensors", "*=f16"), ("b.gguf", "*=q4_0" if word != "Q4_0" else "*=q8_0")):
        with refused("scales of 'w' are NaN or infinite"):
            rs.convert("a.gguf", target, [rule])
        assert os.listdir() == ["a.gguf"]
    rs.convert("a.gguf", "b.gguf", verify=True)
    assert Path("a.gguf").read_bytes() == Path("b.gguf").read_bytes()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_scales_beside_elements_that_are_no_numbers_are_refused(number: float) -> None:
    scale = np.ones((4, 2), np.float32)
    scale[3, 1] = number
    values = rs.Memory.from_numpy(np.ones((4, 64), np.int8))
    rs.save({"w": rs.QuantizedTensor(values, rs.Memory.from_numpy(scale))}, "a.safetensors")
    tensors, _ = layer()
    rs.save({**tensors, "l.scales": np.full_like(tensors["l.scales"], number)}, "l.safetensors")
    for path in ("a.safetensors", "l.safetensors"):
        for target, rule in (("b.safetensors", "*=f16"), ("b.gguf", "*=q4_0")):
            with refused("are NaN or infinite"):
                rs.convert(path, target, [rule])


@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q8_0"])
@pytest.mark.parametrize("number", [np.nan, np.inf, 1e9])
def test_values_that_a_scale_cannot_reach_are_refused(name: str, number: float) -> None:
    x = weights(4, 64)
    x[1, 40] = number
    rs.save({"w": x}, "a.safetensors")
    with refused("need scales that"):
        rs.convert("a.safetensors", "b.gguf", [f"*={name}"])


@pytest.mark.parametrize(
    "tensors",
    [
        {"l.qzeros": np.zeros((2, 7), np.int32)},
        {"l.qzeros": np.zeros((2, 8), np.int64)},
        {"l.scales": np.zeros((2, 32), np.float16)},
        {"l.scales": np.zeros((0, 64), np.float16), "l.qzeros": np.zeros((0, 8), np.int32)},
        {"l.scales": np.zeros((3, 64), np.float16), "l.qzeros": np.zeros((3, 8), np.int32)},
        {"l.weight": np.zeros(3, np.int32)},
    ],
)
def test_words_with_other_parts_are_no_layer(tensors: dict[str, Any]) -> None:
    rs.save({**layer()[0], **tensors}, "a.safetensors")
    with refused("floats"):
        rs.convert("a.safetensors", "b.gguf", ["l.qweight=q4_0"])
