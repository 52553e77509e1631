"""Conversions of files: every element where the descriptors say, and nothing changed that no rule fits."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import tempfile
import threading
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.cli.main import main
from restride.files import convert
from restride.files.conversion import tiles
from restride.files.conversion.plan import plan_conversion
from restride.files.conversion.report import ConversionProgress
from restride.files.conversion.rules import parse_rules
from restride.files.conversion.sources import open_source
from restride.files.convert import _Run
from restride.files.places import FilePlace, Workspace
from restride.files.writing.draft import AtomicOutput
from support.descriptors import shapes, tags
from support.file_contents import contents_of

_SHAPE = (48, 20, 3, 3)
_ZARR = pytest.param(
    "zarr", marks=pytest.mark.skipif(importlib.util.find_spec("zarr") is None, reason="Zarr is not installed")
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a few hundred bytes, so that small tensors have many."""
    monkeypatch.setattr(tiles, "_LEAST_BYTES", 600)
    monkeypatch.setattr(tiles, "_LONG_RUN", 1)


def random(shape: tuple[int, ...] = _SHAPE, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


def checkpoint(name: str = "a.safetensors") -> dict[str, Any]:
    tensors = {
        "conv.weight": random(),
        "conv.bias": random((48,)),
        "fc.weight": random((64, 96), ml_dtypes.bfloat16),
        "steps": np.arange(7),
        "scalar": np.float32(2),
        "none": np.zeros((0, 3), np.float16),
    }
    rs.save(tensors, name, metadata={"format": "pt", "made": "here"})
    return tensors


# What is moved


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    ("end", "format", "data_type"),
    [
        ("npy", "nhwc", "f32"),
        ("npy", "OIhw4i16o4i", "s4"),
        ("npz", "dcba", "bf16"),
        ("safetensors", "OIhw4i16o4i", "f32"),
        ("safetensors", "hwio", "bf16"),
        ("safetensors", "dcba", "s4"),
    ],
)
def test_elements_are_where_the_descriptor_says(end: str, format: str, data_type: str) -> None:
    x = np.rint(3 * random())
    words = f"{format},{data_type}{',scale=1' if data_type == 's4' else ''}"
    if data_type == "s4":
        x = np.clip(x, -8, 7)
    rs.save(x, f"a.{end}")
    rs.convert(f"a.{end}", f"b.{end}", [f"*={words}"], verify=True)
    found = rs.load(f"b.{end}")
    memory = found["x"] if isinstance(found, dict) else found
    assert memory.desc == rs.MemoryDesc(_SHAPE, data_type, format)
    assert np.array_equal(memory.to_numpy().astype(np.float32), x)
    whole = rs.reorder(x, memory.desc)
    made = whole if isinstance(whole, rs.Memory) else rs.Memory.from_numpy(whole)
    assert bytes(memory.data.view(np.uint8)) == bytes(made.data.view(np.uint8))


@settings(max_examples=12)
@given(st.data())
def test_random_layouts_are_converted_tile_by_tile(data: st.DataObject) -> None:
    dims = data.draw(shapes(max_ndims=4, most=400))
    src, dst = (data.draw(tags(dims, most=2000)) for _ in range(2))
    x = np.arange(int(np.prod(dims)), dtype=np.int32).reshape(dims)
    rs.save(rs.Memory.from_numpy(x).to(src), "a.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "_LEAST_BYTES", 256)
        patch.setattr(tiles, "_LONG_RUN", 1)
        rs.convert("a.safetensors", "b.safetensors", [("*", str(dst))], verify=True)
    found = rs.load("b.safetensors")["x"]
    assert found.desc == rs.MemoryDesc(dims, "s32", dst)
    assert np.array_equal(found.to_numpy(), x)


def test_what_no_rule_fits_is_copied_byte_for_byte() -> None:
    tensors = checkpoint()
    report = rs.convert("a.safetensors", "b.safetensors", ["conv.weight=nhwc"], verify=True)
    before, after = contents_of("a.safetensors"), contents_of("b.safetensors")
    assert [t.array.name for t in after.tensors] == list(tensors)
    assert after.metadata == before.metadata == {"format": "pt", "made": "here"}
    assert [tensor.rule != "" for tensor in report.tensors] == [True, False, False, False, False, False]
    found = rs.load("b.safetensors")
    for name in ("conv.bias", "fc.weight", "steps", "scalar", "none"):
        assert np.asarray(found[name]).tobytes() == np.asarray(tensors[name]).tobytes()


def test_without_rules_a_file_is_copied() -> None:
    checkpoint()
    rs.convert("a.safetensors", "b.safetensors")
    assert Path("b.safetensors").read_bytes() == Path("a.safetensors").read_bytes()


def test_types_that_restride_lacks_are_moved_and_never_converted() -> None:
    x = np.arange(60, dtype=np.complex64).reshape(3, 4, 5)
    rs.save({"x": x}, "a.safetensors")
    rs.convert("a.safetensors", "b.safetensors", ["*=cab"], verify=True)
    content, tensor = Path("b.safetensors").read_bytes(), contents_of("b.safetensors").tensors[0]
    assert tensor.array.kind.word == "C64"
    assert tensor.array.shape == (5, 3, 4)
    assert content[tensor.start :] == np.ascontiguousarray(x.transpose(2, 0, 1)).tobytes()
    assert np.array_equal(rs.load("b.safetensors")["x"], x)
    rs.convert("b.safetensors", "a.npz", ["*=abc"], verify=True)
    assert np.array_equal(np.load("a.npz")["x"], x)
    with pytest.raises(rs.InvalidArguments, match="not converted"):
        rs.convert("a.safetensors", "c.safetensors", ["*=f32"])


@pytest.mark.parametrize("ends", [("safetensors", "npz"), ("npz", "safetensors"), ("npz", "npz")])
def test_files_change_their_format(ends: tuple[str, str]) -> None:
    x = {"a": random(), "b": random((5, 7), ml_dtypes.bfloat16), "c": np.arange(3)}
    rs.save(x, f"a.{ends[0]}")
    rs.convert(f"a.{ends[0]}", f"b.{ends[1]}", ["a=nChw16c"], verify=True)
    found = rs.load(f"b.{ends[1]}")
    assert found["a"].desc.tag == "aBcd16b"
    assert all(
        np.array_equal(f.to_numpy() if isinstance(f, rs.Memory) else f, x[n]) for n, f in found.items()
    )


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("shape", [(30, 40), (40, 40), (3, 4, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_what_lies_in_fortran_order_is_the_same_to_every_reader(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.asfortranarray(np.arange(np.prod(shape)).reshape(shape).astype(dtype))
    np.save("a.npy", x)
    for end in ("npy", "npz", "safetensors", "gguf"):
        rs.convert("a.npy", f"b.{end}", verify=True)
        (tensor,) = contents_of(f"b.{end}").tensors
        assert tensor.array.shape == shape
        assert Path(f"b.{end}").read_bytes()[tensor.start :][: x.nbytes] == x.tobytes("C")
        found = rs.load(f"b.{end}")
        assert np.array_equal(np.asarray(found["a"] if isinstance(found, dict) else found), x)


def test_what_lies_in_fortran_order_is_converted_as_any_other() -> None:
    x = random((30, 40))
    np.save("a.npy", np.asfortranarray(x))
    np.save("c.npy", x)
    rules = ["*=bf16"], ["*=s8,axis=0,scale=absmax"], ["*=s8,group=8,scale=absmax"], ["*=BA16a4b"], ["*=ba"]
    for rule in rules:
        for source in "ac":
            rs.convert(f"{source}.npy", f"{source}.npz", [rule[0]], verify=True)
        found, wanted = np.load("a.npz"), np.load("c.npz")
        assert all(found[f"a{name[1:]}"].tobytes() == wanted[name].tobytes() for name in wanted)


@pytest.mark.parametrize("format", ["ab", "ba"])
def test_a_reorder_of_fortran_order_gives_the_physical_array(format: str) -> None:
    x = random((3, 4))
    np.save("a.npy", np.asfortranarray(x))
    assert main(["reorder", "a.npy", "b.npy", "--dst", format]) == 0
    assert np.array_equal(np.load("b.npy"), x if format == "ab" else x.T)
    assert np.array_equal(np.asarray(rs.load("b.npy")), x)


def test_a_number_that_multiplies() -> None:
    rs.save({"x": np.float32([[0.5, -2.0], [3.0, 100.0]])}, "a.safetensors")
    rs.convert("a.safetensors", "b.safetensors", ["*=ba,s8,scale=2,zero_point=1"])
    assert rs.load("b.safetensors")["x"].to_numpy().tolist() == [[2, -3], [7, 127]]
    with pytest.raises(rs.RuntimeFailure, match="exceeds the range of its type"):
        rs.convert("a.safetensors", "c.safetensors", ["*=ba,s8,scale=2,zero_point=1"], verify=True)
    assert not os.path.exists("c.safetensors")


_SHARDS = "model-00001-of-00001.safetensors"


@pytest.mark.parametrize("rule", ["*=s8", "*=int4", "*_proj.weight=int4", "*=u8,zero_point=128", "*=f4_e2m1"])
@pytest.mark.parametrize("source", ["a.safetensors", "a.npz", "a.gguf", "a.npy", "folder", _ZARR])
def test_floats_become_integers_only_with_a_scale(here: Path, source: str, rule: str) -> None:
    weights = (0.02 * random((32, 32))).astype(np.float32)
    source = "a.zarr" if source == "zarr" else source
    target = source.replace("a.", "b.") if "." in source else "out"
    if source == "folder":
        os.mkdir(source)
        rs.save({"q_proj.weight": weights}, f"{source}/{_SHARDS}")
        index = {"metadata": {}, "weight_map": {"q_proj.weight": _SHARDS}}
        Path(source, "model.safetensors.index.json").write_text(json.dumps(index))
    else:
        rs.save(weights if source == "a.npy" else {"q_proj.weight": weights}, source)
    rule = rule.replace("*_proj.weight", "a") if source == "a.npy" else rule
    before = sorted(os.listdir(here))
    for options in ({}, {"dry_run": True}, {"verify": True}):
        with pytest.raises(rs.InvalidArguments, match="small ones would become 0") as caught:
            rs.convert(source, target, [rule], **options)
        assert caught.value.code == "RS-F07"
        assert "scale=absmax" in caught.value.hint
    assert sorted(os.listdir(here)) == before
    assert main(["convert", source, target, "--rule", rule, "--verify"]) != 0
    assert sorted(os.listdir(here)) == before
    if "zero_point" in rule or "f4" in rule or source == "a.npy":
        return
    # What the hint says works, and loses what 8 and 4 bits lose.
    report = rs.convert(source, target, [f"{rule},scale=absmax"], verify=True)
    half = 0.5 / (127 if rule.endswith("8") else 7)
    assert 0.9 * half < report.tensors[0].largest_error <= 1.001 * half


def test_integers_become_other_integers_without_a_scale() -> None:
    rs.save({"x": np.arange(-8, 8, dtype=np.int32).reshape(4, 4)}, "a.npz")
    rs.convert("a.npz", "b.npz", ["*=s4"], verify=True)
    assert np.array_equal(rs.load("b.npz")["x"].to_numpy().astype(int).ravel(), np.arange(-8, 8))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    ("words", "shared", "is_spread"),
    [
        ("s8,scale=absmax", (0, 1), False),
        ("s8,axis=0,scale=absmax", (1,), False),
        ("u8,axis=1,scale=minmax", (0,), True),
        ("s4,group=16,scale=absmax", (2,), False),
        ("mxfp4", (2,), False),
        ("s8,scale=25", (0, 1), False),
        ("f8_e4m3", (0, 1), False),
        ("f16", (0, 1), False),
    ],
)
def test_verification_tells_the_largest_and_the_mean_error(
    words: str, shared: tuple[int, ...], is_spread: bool
) -> None:
    x = random((96, 64))
    x = x.reshape(96, 4, 16) if "group" in words else x.reshape(96, 2, 32) if words == "mxfp4" else x
    flat = x.reshape(96, 64)
    rs.save({"w": flat}, "a.npz")
    found = rs.convert("a.npz", "b.npz", [f"*={words}"], verify=True).tensors[0]
    w = rs.load("b.npz")
    values = w["w"]
    if isinstance(values, rs.QuantizedTensor):
        back = values.dequantize().to_numpy()
    else:
        back = np.asarray(values.to("ab", "f64").to_numpy()) if isinstance(values, rs.Memory) else values
        if "w_scale" in w:
            zero = w["w_zero_point"].to_numpy() if "w_zero_point" in w else 0
            parts = [np.float64(part) for part in (w["w_scale"].to_numpy(), zero)]
            scale, zero = (part.reshape((-1, 1) if "axis=0" in words else (1, -1)) for part in parts)
            back = scale * (back - zero)
        elif "scale=25" in words:
            back = back / 25
    error = np.abs(np.float64(back).reshape(x.shape) - x)
    low, high = np.minimum(x.min(shared, keepdims=True), 0), np.maximum(x.max(shared, keepdims=True), 0)
    relative = error / (high - low if is_spread else np.maximum(-low, high))
    assert found.largest_error == pytest.approx(relative.max(), rel=1e-4)
    assert found.mean_error == pytest.approx(relative.mean(), rel=1e-4)


def test_a_scale_that_loses_all_values_fails_where_it_is_verified(capsys: pytest.CaptureFixture[str]) -> None:
    rs.save({"w": (0.02 * random((32, 32))).astype(np.float32)}, "a.npz")
    outlier = (0.02 * random((32, 32))).astype(np.float32)
    outlier[3, 4] = 1
    rs.save({"w": outlier}, "c.npz")
    for name, words in (("a", "scale=2"), ("c", "scale=1"), ("c", "scale=2")):
        assert main(["convert", f"{name}.npz", "b.npz", "--rule", f"*=s8,{words}", "--verify"]) == 1
        assert "its largest error is" in capsys.readouterr().err
    assert not os.path.exists("b.npz")
    assert main(["convert", "a.npz", "b.npz", "--rule", "*=s8,scale=absmax", "--verify"]) == 0
    assert re.search(r"largest error 0\.3\d% of the range, mean 0\.\d+%", capsys.readouterr().out)


@pytest.mark.parametrize("target", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("source", ["f16", "bf16", "f8_e5m2", "f8_e4m3"])
def test_every_value_that_is_no_number_is_verified_in_a_wider_type(source: str, target: str) -> None:
    """A conversion changes NaNs of several payloads and signaling NaNs."""
    kind = np.dtype(rs.DataType.parse(source).numpy)
    values = np.arange(2 ** (8 * kind.itemsize)).astype(f"u{kind.itemsize}").view(kind)
    rs.save({"w": values[np.isnan(values.astype(np.float32))]}, "a.safetensors")
    assert rs.convert("a.safetensors", "b.safetensors", [f"w={target}"], verify=True).verified


@pytest.mark.parametrize(("words", "is_right"), [("s8,scale=4", False), ("f64,scale=-0.5", True)])
def test_values_near_the_end_of_f64_are_verified_without_a_warning(words: str, is_right: bool) -> None:
    x = np.where(np.arange(64) % 2, 1.7e308, -1.7e308).reshape(8, 8)
    rs.save({"w": x}, "a.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if is_right:
            assert rs.convert("a.npz", "b.npz", [f"w={words}"], verify=True).verified
            return
        with pytest.raises(rs.Error):
            rs.convert("a.npz", "b.npz", [f"w={words}"], verify=True)


def test_infinity_for_a_finite_value_is_no_value_that_is_right() -> None:
    rs.save({"w": np.full((4, 8), 1e30, np.float32)}, "a.npz")
    with pytest.raises(rs.RuntimeFailure, match="exceeds the range of its type"):
        rs.convert("a.npz", "b.npz", ["w=f16"], verify=True)


# What is quantized


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("format", ["", "OIhw4i16o4i"])
@pytest.mark.parametrize(
    ("words", "data_type"),
    [("scale=absmax", "s8"), ("axis=0,scale=absmax", "u4"), ("axis=1,scale=minmax", "u8")],
)
def test_quantized_values_are_those_of_the_whole_tensor(format: str, words: str, data_type: str) -> None:
    x = random()
    rs.save({"w": x}, "a.safetensors")
    rs.convert("a.safetensors", "b.safetensors", [f"*={format},{data_type},{words}"], verify=True)
    axis = int(words[5]) if "axis" in words else None
    q, scale, zero = rs.quantize(x, data_type, axis, "absmax" in words)
    found = rs.load("b.safetensors")
    expected = q.to_numpy() if isinstance(q, rs.Memory) else q
    assert np.array_equal(found["w"].to_numpy(), expected)
    assert np.array_equal(found["w_scale"].to_numpy(), np.atleast_1d(scale))
    has_zero = "minmax" in words or data_type[0] == "u"
    assert ("w_zero_point" in found) == has_zero
    if has_zero:
        assert np.array_equal(found["w_zero_point"].to_numpy(), np.atleast_1d(zero))


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("source", "format"), [("abc", ""), ("abc", "bAc16a"), ("cab", "abc")])
def test_groups_share_a_scale(axis: int, source: str, format: str) -> None:
    x = random((32, 48, 16))
    rs.save({"w": rs.Memory.from_numpy(x).to(source)}, "a.safetensors")
    rule = f"*={format},s8,group=8,axis={axis},scale=absmax"
    rs.convert("a.safetensors", "b.safetensors", [rule], verify=True)
    found = rs.load("b.safetensors")
    last = np.moveaxis(x, axis, -1)
    groups = np.ascontiguousarray(last).reshape(-1, 8)
    # By the formula, group by group.
    scale = np.abs(groups).max(axis=1).astype(np.float32) / np.float32(127)
    q = np.clip(np.rint(groups / scale[:, None]), -128, 127)
    expected = np.moveaxis(q.reshape(last.shape), -1, axis)
    scales = np.moveaxis(scale.reshape(*last.shape[:-1], -1), -1, axis)
    w = found["w"]
    assert isinstance(w, rs.QuantizedTensor)
    assert list(found) == ["w"]
    assert np.array_equal(w.values.to_numpy(), expected)
    assert np.array_equal(w.scale.to_numpy(), scales)
    assert w.groups == tuple(8 if d == axis % 3 else 1 for d in range(3))
    assert np.abs(w.dequantize().to_numpy() - x).max() <= scale.max() / 2 * 1.001


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("mxfp4", {"dtype": "mxfp4"}),
        ("BA16a64b,mxfp4", {"dtype": "mxfp4", "dst": "BA16a64b"}),
        ("mxfp8", {"dtype": "mxfp8"}),
        ("nvfp4", {"dtype": "nvfp4"}),
        ("u4,group=16,scale=minmax,scale_type=f16", {"dtype": "u4", "group": 16, "scale_type": "f16"}),
        ("u8,group=16,scale=absmax", {"dtype": "u8", "group": 16}),
        ("f8_e4m3,group=16x16,scale=absmax", {"dtype": "f8_e4m3", "group": (16, 16)}),
        ("ba,s4,group=16x0,scale=absmax", {"dtype": "s4", "group": (16, 0), "dst": "ba"}),
    ],
)
def test_groups_are_quantized_as_rs_quantize_does(rule: str, options: dict[str, Any]) -> None:
    x = random((48, 128), ml_dtypes.bfloat16)
    rs.save({"w": x}, "a.safetensors")
    rs.convert("a.safetensors", "b.safetensors", [f"*={rule}"], verify=True)
    expected = rs.quantize(x, symmetric="minmax" not in rule, **options)
    for found in (rs.load("b.safetensors")["w"], saved_again("b.safetensors", "c.npz")["w"]):
        assert found.values.desc == expected.values.desc
        assert np.array_equal(elements(found.values), elements(expected.values))
        assert np.array_equal(elements(found.scale), elements(expected.scale))
        assert found.tensor_scale == expected.tensor_scale
        same = np.array_equal(elements(found.dequantize()), elements(expected.dequantize()))
        assert same


def saved_again(name: str, again: str) -> Any:
    rs.save(rs.load(name), again)
    return rs.load(again)


def elements(memory: rs.Memory) -> Any:
    return memory.to("ab", "f32").to_numpy()


def test_scales_are_read_back_without_being_told() -> None:
    rs.save({"w": random((4, 8))}, "a.npz")
    rs.convert("a.npz", "b.npz", ["*=u8,axis=0,scale=minmax"], verify=True)
    rs.convert("b.npz", "c.safetensors", ["w=ba"], verify=True)
    for name in ("b.npz", "c.safetensors"):
        (w, *_) = contents_of(name).tensors
        assert w.array.scaling == ("w_scale", "w_zero_point", 0, (), "", "")


def test_values_that_are_no_numbers_do_not_hinder() -> None:
    x = np.float32([[np.nan, np.inf, -np.inf, 1.0], [0.0, 0.0, 0.0, 0.0]])
    rs.save({"w": x}, "a.safetensors")
    rules = ["*=s8,axis=0,scale=absmax"]
    rs.convert("a.safetensors", "b.safetensors", rules)
    assert rs.load("b.safetensors")["w"].to_numpy().tolist() == [[0, 127, -128, 127], [0, 0, 0, 0]]
    with pytest.raises(rs.RuntimeFailure, match="3 NaN or infinite values"):
        rs.convert("a.safetensors", "c.safetensors", rules, verify=True)
    assert not Path("c.safetensors").exists()
    rs.convert("a.safetensors", "c.safetensors", ["*=f8_e5m2"], verify=True)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("conv.weight=ba", "axes"),
        ("*=nchw", "axes"),
        ("waves=f32", "not converted"),
        ("scalar=a", "no axes"),
        ("conv.weight=s32,scale=absmax", "dtype is s32"),
        ("conv.weight=f8_e4m3,scale=minmax", "no zero point"),
        ("conv.weight=s8,axis=4,scale=absmax", "axis 4"),
        ("fc.weight=s8,group=7,scale=absmax", "do not divide"),
        ("conv.bias=f8_e4m3,group=16x16,scale=absmax", "axes"),
        ("conv.weight=nChw1000000000c", "memory"),
        ("counts=s8,scale=absmax", "'counts'.*\n.*\n.*elements are s32"),
        ("counts=mxfp4", "'counts'.*\n.*\n.*elements are s32"),
        ("flags=u8,axis=0,scale=minmax", "elements are boolean"),
    ],
)
def test_rules_that_do_not_fit_a_tensor_are_refused_before_anything_is_written(
    here: Path, rule: str, words: str
) -> None:
    rs.save(
        {
            **checkpoint(),
            "counts": np.ones((4, 32), np.int32),
            "flags": np.ones((2, 2), bool),
            "waves": np.ones(3, np.complex64),
        },
        "a.safetensors",
    )
    with pytest.raises(rs.Error, match=words) as caught:
        rs.convert("a.safetensors", "b.safetensors", [rule])
    assert caught.value.hint
    assert os.listdir(here) == ["a.safetensors"]


def test_a_quantized_tensor_is_quantized_again_by_its_numbers() -> None:
    rs.save({"w": random((4, 8))}, "a.safetensors")
    rs.convert("a.safetensors", "b.safetensors", ["w=f8_e4m3,scale=absmax"])
    rs.convert("b.safetensors", "c.safetensors", ["w=s8,scale=absmax"], verify=True)
    rs.convert("b.safetensors", "d.safetensors", ["w=f32"])
    w, scale = (part.to_numpy() for part in rs.load("c.safetensors").values())
    exact = rs.load("d.safetensors")["w"].to_numpy()
    assert np.abs(w * scale - exact).max() <= scale[0] * 0.501


_WHOLE = ["s8,scale=absmax", "BA16a4b,u4,scale=minmax", "ba,f8_e4m3,scale=absmax", "nvfp4", "ba,nvfp4"]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("rule", _WHOLE)
@pytest.mark.parametrize("source", ["npz", _ZARR])
def test_a_tensor_of_one_scale_is_quantized_in_tiles_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, rule: str, source: str
) -> None:
    x = random((96, 128))
    x[3, 5], x[90, 7], x[50] = 40, -90, np.nan
    rs.save({"f32": x, "f64": x.astype("f8"), "bf16": x.astype(ml_dtypes.bfloat16)}, f"a.{source}")
    rules = [f"f*={rule}", f"bf16={rule}"]
    whole = rs.convert(f"a.{source}", "b.safetensors", rules)
    monkeypatch.setattr(convert, "_tile_memory", lambda memory, jobs: 20_000)
    report = rs.convert(f"a.{source}", "c.safetensors", rules, jobs=3)
    assert report.tile_memory < whole.tile_memory
    assert Path("b.safetensors").read_bytes() == Path("c.safetensors").read_bytes()
    dry = rs.convert(f"a.{source}", "d.safetensors", rules, dry_run=True)
    assert dry.expected_seconds is not None


def test_a_tensor_of_one_scale_goes_on_where_it_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    rs.save({"a": random((96, 128))}, "a.safetensors")
    rules = ["a=s8,scale=absmax"]
    rs.convert("a.safetensors", "b.safetensors", rules)
    monkeypatch.setattr(convert, "_tile_memory", lambda memory, jobs: 20_000)
    do = _Run.tile

    def stop(run: _Run, number: int, space: Workspace) -> int:
        if number == 2:
            raise OSError(errno.EIO, "no more")
        return do(run, number, space)

    monkeypatch.setattr(_Run, "tile", stop)
    with pytest.raises(OSError, match="no more"):
        rs.convert("a.safetensors", "c.safetensors", rules, resume=True, jobs=1)
    monkeypatch.setattr(_Run, "tile", do)
    # Another number of jobs has the tiles of the first run.
    monkeypatch.setattr(convert, "_tile_memory", lambda memory, jobs: 60_000 // jobs)
    report = rs.convert("a.safetensors", "c.safetensors", rules, resume=True, jobs=2)
    assert report.resumed_at == 2 * 24 * 128 * 4
    assert Path("b.safetensors").read_bytes() == Path("c.safetensors").read_bytes()


def test_a_tensor_of_one_scale_that_cannot_be_read_ends_all_threads(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rs.save({"a": random((96, 128))}, "a.npy")
    monkeypatch.setattr(convert, "_tile_memory", lambda memory, jobs: 20_000)
    read, threads = FilePlace.read, threading.active_count()

    def fail(place: FilePlace, desc: rs.MemoryDesc, start: Any, size: Any, into: Any) -> None:
        if start[0] > 30:
            raise rs.RuntimeFailure("cannot read it", code="RS-F02")
        read(place, desc, start, size, into)

    monkeypatch.setattr(FilePlace, "read", fail)
    with pytest.raises(rs.RuntimeFailure, match="cannot read it"):
        rs.convert("a.npy", "b.npz", ["*=nvfp4"], jobs=3)
    assert os.listdir(here) == ["a.npy"]
    assert threading.active_count() == threads


@pytest.mark.parametrize("scale_type", ["f16", "bf16", "f8_e4m3", "f8_e5m2", "e8m0"])
@pytest.mark.parametrize("words", ["s8,scale=absmax", "u4,scale=minmax", "f8_e4m3,scale=absmax"])
@pytest.mark.parametrize("factor", [1.0, 1e-6, 1e37])
def test_a_rounded_scale_may_let_values_saturate_as_far_as_its_type_reaches(
    scale_type: str, words: str, factor: float
) -> None:
    if scale_type == "e8m0" and "minmax" in words:
        pytest.skip("zero points are not beside powers of two")
    x = random((64, 128)) * np.float32(factor)
    rs.save({"w": x}, "a.safetensors")
    rules = [f"*={words},group=32,scale_type={scale_type}"]
    wanted = np.abs(x).max() / {"s8": 127, "u4": 7, "f8": 448}[words[:2]]
    least, most = {"f16": (2.0**-24, 65504), "f8_e4m3": (2.0**-9, 448), "f8_e5m2": (2.0**-16, 57344)}.get(
        scale_type, (0, np.inf)
    )
    # Floats have smaller values than the smallest scale needs.
    if (least / 2 < wanted or (words[0] == "f" and scale_type != "f8_e4m3")) and wanted < most:
        assert rs.convert("a.safetensors", "b.npz", rules, verify=True).verified
        return
    with pytest.raises(rs.RuntimeFailure, match="the format allows"):
        rs.convert("a.safetensors", "b.npz", rules, verify=True)


@pytest.mark.parametrize("words", ["s8,scale=absmax", "u8,axis=0,scale=minmax", "s8,group=4,scale=absmax"])
def test_the_largest_floats_are_verified(words: str) -> None:
    x = np.full((4, 8), np.finfo(np.float32).max)
    x[1] = -x[1]
    rs.save({"w": x}, "a.safetensors")
    assert rs.convert("a.safetensors", "b.npz", [f"*={words}"], verify=True).verified


@pytest.mark.parametrize("change", [1, 255])
@pytest.mark.parametrize("words", ["s8,scale=absmax", "u8,axis=0,scale=minmax", "mxfp4"])
def test_a_value_that_is_another_one_is_seen_when_it_is_verified(words: str, change: int) -> None:
    rs.save({"w": random((64, 128))}, "a.npy")
    source = open_source("a.npy")
    work = plan_conversion(source, "b.npz", parse_rules([f"*={words}"]), 1 << 20)
    draft = AtomicOutput("b.npz", is_folder=False)
    draft.open(work.files, work.origin, resume=False)
    run = _Run(source, work, draft.place)
    run.tile(0, Workspace())
    assert run.compare(0, Workspace()).is_right
    (_, start), *_ = work.steps[0].targets
    place = draft.place(0, start + 1000)
    byte = np.zeros(1, np.uint8)
    place.read(rs.MemoryDesc((1,), "u8"), (0,), (1,), byte)
    place.write(rs.MemoryDesc((1,), "u8"), (0,), (1,), byte + np.uint8(change))
    assert not run.compare(0, Workspace()).is_right
    draft.abandon(keep=False)
    source.close()


def test_names_of_scales_that_are_taken_are_refused() -> None:
    rs.save({"w": random((4, 8)), "w_scale": np.ones(1, np.float32)}, "a.safetensors")
    with pytest.raises(rs.InvalidArguments, match="w_scale"):
        rs.convert("a.safetensors", "b.safetensors", ["w=s8,scale=absmax"])


# Names


@pytest.mark.parametrize("end", ["npz", "safetensors", "gguf", _ZARR])
def test_names_that_are_no_text_are_refused(here: Path, end: str) -> None:
    name = os.fsdecode(b"\xff.npy")
    rs.save(random((3, 4)), name)
    with pytest.raises(rs.InvalidArguments, match="not UTF-8"):
        rs.convert(name, f"b.{end}")
    rs.convert(name, "b.npy", verify=True)
    assert sorted(os.listdir(here)) == sorted([name, "b.npy"])


@pytest.mark.parametrize("length", [5_500, 40_000])
def test_names_that_make_a_header_too_long_are_refused(here: Path, length: int) -> None:
    np.savez("a.npz", **{"k" * length: random((4, 4))})
    with pytest.raises(rs.Unimplemented, match="header"):
        rs.convert("a.npz", "b.npz", ["*=s8,scale=minmax"])
    assert os.listdir(here) == ["a.npz"]
    rs.convert("a.npz", "b.safetensors", ["*=s8,scale=minmax"], verify=True)


def test_a_tensor_that_is_called_as_the_metadata_are_is_refused(here: Path) -> None:
    rs.save({"__metadata__": random((3, 4))}, "a.npz")
    with pytest.raises(rs.InvalidArguments, match="__metadata__"):
        rs.convert("a.npz", "b.safetensors")
    assert os.listdir(here) == ["a.npz"]


# Folders


def test_names_of_scales_that_another_shard_has_are_refused(here: Path) -> None:
    Path("in").mkdir()
    rs.save({"w": random((4, 8))}, "in/1.safetensors")
    rs.save({"w_scale": np.ones(1, np.float32)}, "in/2.safetensors")
    index = {"weight_map": {"w": "1.safetensors", "w_scale": "2.safetensors"}}
    Path("in/model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(rs.InvalidArguments, match="'w_scale' in two shards"):
        rs.convert("in", "out", ["w=s8,scale=absmax"])
    assert os.listdir(here) == ["in"]


def sharded(folder: Path) -> dict[str, Any]:
    folder.mkdir()
    parts = {"1": {"a": random((16, 8)), "n": np.arange(5)}, "2": {"b": random((8, 4))}}
    weights = {}
    for part, tensors in parts.items():
        name = f"model-0000{part}-of-00002.safetensors"
        rs.save(tensors, folder / name, metadata={"format": "pt"})
        weights |= dict.fromkeys(tensors, name)
    index = {"metadata": {"total_size": 9, "by": "me"}, "weight_map": weights, "more": [1]}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text('{"x": 1}')
    (folder / "sub").mkdir()
    (folder / "sub" / "empty.txt").write_text("")
    return parts["1"] | parts["2"]


@pytest.mark.parametrize("source", ["in", "in/model.safetensors.index.json", "in/"])
def test_a_sharded_checkpoint_becomes_one(here: Path, source: str) -> None:
    tensors = sharded(here / "in")
    rs.convert(source, "out", ["a=s8,axis=0,scale=absmax"], verify=True)
    index = json.loads(Path("out/model.safetensors.index.json").read_text())
    assert index["weight_map"] == {
        "a": "model-00001-of-00002.safetensors",
        "a_scale": "model-00001-of-00002.safetensors",
        "n": "model-00001-of-00002.safetensors",
        "b": "model-00002-of-00002.safetensors",
    }
    assert index["metadata"] == {"total_size": 16 * 8 + 16 * 4 + 40 + 128, "by": "me"}
    assert index["more"] == [1]
    assert Path("out/config.json").read_text() == '{"x": 1}'
    assert Path("out/sub/empty.txt").read_text() == ""
    found = rs.load("out/model-00002-of-00002.safetensors")
    assert np.array_equal(found["b"].to_numpy(), tensors["b"])
    assert sorted(os.listdir(here)) == ["in", "out"]


def test_a_sharded_checkpoint_becomes_one_file(here: Path) -> None:
    tensors = sharded(here / "in")
    rs.convert("in", "out.safetensors", ["b=ba"], verify=True)
    found = rs.load("out.safetensors")
    assert list(found) == ["a", "n", "b"]
    assert np.array_equal(found["b"].to_numpy(), tensors["b"])


def damaged_index(**changes: Any) -> str:
    index = {"weight_map": {"a": "m.safetensors"}, **changes}
    return json.dumps(index)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (damaged_index(weight_map={"a": "../in/m.safetensors"}), "not the name of a file next to it"),
        (damaged_index(weight_map={"a": "/etc/passwd"}), "not the name of a file next to it"),
        (damaged_index(weight_map={"a": ".."}), "not the name of a file next to it"),
        (damaged_index(weight_map={"a": ""}), "not the name of a file next to it"),
        (damaged_index(weight_map={"a": "x\0"}), "not the name of a file next to it"),
        (damaged_index(weight_map={"a": "other.safetensors"}), "is missing"),
        (damaged_index(weight_map={"b": "m.safetensors"}), "does not contain it"),
        (damaged_index(weight_map=["a"]), "no weight_map"),
        (damaged_index(weight_map={"a": 1}), "no weight_map"),
        ("[]", "not a JSON object"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested"),
        ('{"weight_map":{"a":"m.safetensors","a":"m.safetensors"}}', "twice"),
    ],
)
def test_damaged_indexes_are_refused(here: Path, text: str, words: str) -> None:
    Path("in").mkdir()
    rs.save({"a": random((2, 3))}, "in/m.safetensors")
    Path("in/model.safetensors.index.json").write_text(text)
    with pytest.raises(rs.InvalidArguments, match=words):
        rs.convert("in", "out")
    assert os.listdir(here) == ["in"]


def test_a_tensor_in_two_shards_is_refused() -> None:
    Path("in").mkdir()
    for name in ("1", "2"):
        rs.save({"a": random((2, 3)), name: random((2,))}, f"in/{name}.safetensors")
    index = {"weight_map": {"a": "1.safetensors", "2": "2.safetensors"}}
    Path("in/model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(rs.InvalidArguments, match="two of its shards"):
        rs.convert("in", "out")


def test_links_out_of_the_folder_are_followed_only_when_told() -> None:
    Path("in").mkdir()
    rs.save({"a": random((2, 3))}, "a.safetensors")
    Path("in/a.safetensors").symlink_to("../a.safetensors")
    Path("in/b.safetensors").symlink_to("a.safetensors")
    with pytest.raises(rs.InvalidArguments, match="link"):
        rs.convert("in", "out")
    rs.convert("in", "out", follow_links=True)
    assert not Path("out/a.safetensors").is_symlink()
    assert Path("out/b.safetensors").read_bytes() == Path("a.safetensors").read_bytes()


def test_a_link_to_itself_is_refused_by_its_name() -> None:
    Path("in").mkdir()
    Path("in/loop").symlink_to("loop")
    with pytest.raises(rs.RuntimeFailure, match="cannot read in/loop"):
        rs.convert("in", "out")
    assert not Path("out").exists()


@pytest.mark.parametrize("dst", ["in", "in/out", "in/sub", "."])
def test_a_folder_is_never_written_into_or_around_itself(here: Path, dst: str) -> None:
    sharded(here / "in")
    with pytest.raises(rs.Error, match=r"inside the other|already"):
        rs.convert("in", dst)
    assert sorted(os.listdir("in")) == [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "sub",
    ]


def test_a_folder_that_holds_something_is_not_replaced(here: Path) -> None:
    sharded(here / "in")
    Path("out").mkdir()
    Path("out/mine").write_text("mine")
    with pytest.raises(rs.RuntimeFailure, match="already"):
        rs.convert("in", "out")
    assert os.listdir("out") == ["mine"]


# What is said


def test_a_dry_run_writes_nothing_and_says_all(here: Path) -> None:
    checkpoint()
    rules = ["conv.weight=OIhw4i16o4i,s8,axis=0,scale=absmax"]
    report = rs.convert("a.safetensors", "b.safetensors", rules, dry_run=True)
    assert report.seconds is None
    assert os.listdir(here) == ["a.safetensors"]
    done = rs.convert("a.safetensors", "b.safetensors", rules)
    assert done.tensors == report.tensors
    assert done.nbytes_written == report.nbytes_written == os.path.getsize("b.safetensors")
    first = report.tensors[0]
    assert (first.name, first.nbytes_read) == ("conv.weight", 48 * 20 * 9 * 4)
    assert first.nbytes_written == 48 * 32 * 9 + 48 * 4


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("verify", [False, True])
def test_a_dry_run_tries_tiles_of_each_kind_and_leaves_nothing(here: Path, verify: bool) -> None:
    checkpoint()
    rules = ["conv.weight=OIhw4i16o4i,s8,axis=0,scale=absmax", "*.bias=f16"]
    report = rs.convert("a.safetensors", "b.safetensors", rules, dry_run=True, verify=verify)
    assert report.expected_seconds is not None
    assert 0 < report.expected_seconds < 60
    assert os.listdir(here) == ["a.safetensors"]


@pytest.mark.parametrize("target", ["missing/b.safetensors", "a.safetensors/b.safetensors"])
def test_a_dry_run_is_refused_where_nothing_could_be_written(here: Path, target: str) -> None:
    rs.save({"w": np.zeros((4, 4), np.float32)}, "a.safetensors")
    errors = []
    for dry_run in (True, False):
        with pytest.raises(rs.RuntimeFailure) as caught:
            rs.convert("a.safetensors", target, ["*=f16"], dry_run=dry_run)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert errors[0].startswith("cannot write")


def test_a_dry_run_where_nothing_can_be_tried_expects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    checkpoint()
    for module, name in ((os, "pwrite"), (tempfile, "TemporaryFile")):
        monkeypatch.setattr(module, name, refuse)
        report = rs.convert("a.safetensors", "b.safetensors", ["*.bias=f16"], dry_run=True)
        assert report.expected_seconds is None


def test_progress_is_told_from_the_beginning_to_the_end() -> None:
    checkpoint()
    seen: list[ConversionProgress] = []
    rs.convert("a.safetensors", "b.safetensors", ["*.bias=f16"], verify=True, progress=seen.append)
    assert [p.stage for p in seen] == sorted(p.stage for p in seen)
    last = seen[-1]
    assert last.done == last.total == contents_bytes("a.safetensors")
    assert all(a.done <= b.done for a, b in pairwise(seen) if a.stage == b.stage)


def contents_bytes(name: str) -> int:
    return sum(tensor.array.nbytes for tensor in contents_of(name).tensors)


def test_an_error_in_the_progress_function_ends_the_conversion(here: Path) -> None:
    checkpoint()

    def fail(_: ConversionProgress) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        rs.convert("a.safetensors", "b.safetensors", progress=fail)
    assert os.listdir(here) == ["a.safetensors"]


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "much"},
        {"memory": "1MiB"},
        {"memory": -1},
        {"memory": 1.5},
        {"jobs": 0},
        {"jobs": 1000},
        {"jobs": "2"},
        {"dry_run": 1},
        {"progress": "mine"},
        {"rules": "*=ba"},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(options: dict[str, Any]) -> None:
    checkpoint()
    with pytest.raises(rs.InvalidArguments):
        rs.convert("a.safetensors", "b.safetensors", **options)


@pytest.mark.parametrize("memory", ["96MiB", "1gb", "2 GiB", "110000000", 1 << 30])
def test_memory_has_units(memory: Any) -> None:
    checkpoint()
    rs.convert("a.safetensors", "b.safetensors", memory=memory, jobs=3)


def test_the_command_line_converts(capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint()
    command = ["convert", "a.safetensors", "b.safetensors", "--rule", "conv.weight=nhwc,bf16", "--force"]
    assert main([*command, "--dry-run"]) == 0
    assert "dry run" in capsys.readouterr().out
    assert main([*command, "--verify", "--json", "--jobs", "1"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["tensors"][0]["target"] == "bf16 48x20x3x3 acdb"
    assert out["verified"] == contents_bytes("a.safetensors")
    assert main([*command, "--rule", "nonsense"]) == 2
    assert main([*command, "--jobs", "x"]) == 2
    assert main(["convert", "nowhere.npy", "b.npy"]) == 1
    assert "RS-F02" in capsys.readouterr().err


def test_a_dry_run_shows_the_rule_of_each_tensor(capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint()
    rules = ["conv.weight=nhwc,bf16", "*.bais=f16", "conv.*=f16"]
    options = [word for rule in rules for word in ("--rule", rule)]
    assert main(["convert", "a.safetensors", "b.safetensors", "--dry-run", *options]) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    found = {line.split()[0]: line for line in lines}
    names = [tensor.name for tensor in rs.convert("a.safetensors", "b.safetensors").tensors]
    assert set(names) <= set(found)
    assert found["conv.weight"].endswith("conv.weight=nhwc,bf16")
    assert found["conv.bias"].endswith("conv.*=f16")
    assert all(found[name].endswith("copied") for name in names if not name.startswith("conv."))
    warning = "warning: the rule *.bais=f16 matches no tensor, or only those of earlier rules\n"
    assert output.err.endswith(warning)


def test_metadata_that_have_no_place_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint()
    assert rs.convert("a.safetensors", "b.gguf").lost_metadata == ()
    assert rs.convert("a.safetensors", "b.npz", dry_run=True).lost_metadata == ("format", "made")
    assert main(["convert", "a.safetensors", "b.npz"]) == 0
    assert "metadata that the file cannot store: format, made\n" in capsys.readouterr().out


def test_rules_that_are_first_for_no_tensor_are_told() -> None:
    checkpoint()
    rules = ["conv.*=f16", "conv.weight=bf16", "*.wieght=s8", "nothing=keep"]
    for dry_run in (True, False):
        report = rs.convert("a.safetensors", "b.safetensors", rules, dry_run=dry_run)
        assert report.unused_rules == ("conv.weight=bf16", "*.wieght=s8", "nothing=keep")


def test_a_source_that_is_no_file_of_tensors_is_refused(here: Path) -> None:
    Path("a.txt").write_text("hello, this is no tensor")
    Path("empty").mkdir()
    for source in ("a.txt", "empty/x.npy"):
        with pytest.raises(rs.Error):
            rs.convert(source, "b.safetensors")
    with pytest.raises(rs.InvalidArguments, match="no tensor files"):
        rs.convert("empty", "b.safetensors")
