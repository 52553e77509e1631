"""Rules of conversions: what they say, which one wins, and what is wrong with those that do not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.files.conversion.rules import ConversionRule, parse_rules, rule_for


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("*.weight=OIhw4i16o4i", ConversionRule("*.weight", "OIhw4i16o4i")),
        ("*=bf16", ConversionRule("*", None, rs.bf16)),
        ("*=ba,s8", ConversionRule("*", "ba", rs.s8)),
        ("*=s8,ba", ConversionRule("*", "ba", rs.s8)),
        ("a=b=ba", ConversionRule("a=b", "ba")),
        ("a=b=ba,s8,scale=2", ConversionRule("a=b", "ba", rs.s8, 2.0)),
        ("*=,s8,group=32,scale=absmax", ConversionRule("*", None, rs.s8, "absmax", None, None, (32,))),
        ("*=u8 , axis=-1 , scale=minmax", ConversionRule("*", None, rs.u8, "minmax", None, -1)),
        ("*=s8,scale=0.5,zero_point=-3", ConversionRule("*", None, rs.s8, 0.5, -3)),
        ("*=ba,mxfp4", ConversionRule("*", "ba", None, "absmax", named="mxfp4")),
        ("*=gguf.q4_0", ConversionRule("*", scale="absmax", named="q4_0")),
        ("*=gguf.mxfp4", ConversionRule("*", scale="absmax", named="gguf.mxfp4")),
        ("*=awq,group=64", ConversionRule("*", scale="absmax", group=(64,), named="awq")),
        (
            "*=s8,group=128x128,scale=absmax,scale_type=bf16",
            ConversionRule("*", None, rs.s8, "absmax", None, None, (128, 128), rs.bf16),
        ),
        ("*=scale=2", ConversionRule("*", None, None, 2.0)),
        ("a=b=axis=0,s8,scale=absmax", ConversionRule("a=b", None, rs.s8, "absmax", None, 0)),
        ("*=keep", ConversionRule("*")),
        (("*", "ba", rs.s8), ConversionRule("*", "ba", rs.s8)),
        (
            ("*", None, "s8", {"scale": "absmax", "axis": 0}),
            ConversionRule("*", None, rs.s8, "absmax", None, 0),
        ),
        (ConversionRule("*", "ba"), ConversionRule("*", "ba")),
    ],
)
def test_rules_say(rule: Any, expected: ConversionRule) -> None:
    assert parse_rules([rule]) == (expected,)
    assert parse_rules([str(expected)]) == (expected,)


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "ba",
        "=ba",
        "*=nchw16",
        "*=any",
        "*=undef",
        "*=ba,ab",
        "*=s8,u8",
        "*=s8,scale=",
        "*=s8,scale=0",
        "*=s8,scale=1e-46",
        "*=s8,scale=nan",
        "*=s8,scale=inf",
        "*=s8,scale=1e39",
        "*=s8,scale=most",
        "*=s8,group=1.5,scale=absmax",
        "*=s8,group=32",
        "*=mxfp4,s8",
        "*=mxfp4,scale=2",
        "*=gguf.awq",
        "*=awq,axis=0",
        "*=awq,gptq",
        "*=awq,u4",
        "*=mxfp4,scale_type=f16",
        "*=s8,scale=absmax,scale_type=f16",
        "*=s8,group=4,scale=absmax,scale_type=f33",
        "*=s8,group=4x4,axis=0,scale=absmax",
        "*=s8,group=-4,scale=absmax",
        "*=s8,axis=0,scale=2",
        "*=ba,scale=absmax",
        "*=s8,scale=absmax,zero_point=3",
        "*=s8,speed=9",
        "*=s8,scale=absmax,scale=minmax",
        ("*", "s8", {"scale": 2}, "scale=2"),
        "*=keep,s8",
        ("*", 3),
        (3, "ba"),
        (),
        None,
        3,
        ("*", "s8", {"speed": 9}),
        ("*", "s8", {"axis": True, "scale": "absmax"}),
    ],
    ids=str,
)
def test_rules_that_do_not_hold_are_refused(rule: Any) -> None:
    with pytest.raises(rs.InvalidArguments) as caught:
        parse_rules([rule])
    assert caught.value.why
    assert len(caught.value.message) < 600


@pytest.mark.parametrize("rules", ["*=ba", None, 3, ConversionRule("*", "ba")], ids=str)
def test_rules_are_a_list(rules: Any) -> None:
    with pytest.raises(rs.InvalidArguments):
        parse_rules(rules)


def test_the_first_rule_that_fits_wins() -> None:
    rules = parse_rules(["*.bias=keep", "a.*=f16", "*=bf16"])
    fits = [rule_for(name, rules) for name in ("a.bias", "a.weight", "b.weight")]
    assert fits == list(rules)
    assert rule_for("b", rules[:2]) is None
    assert rule_for("A.weight", rules[1:2]) is None


def test_tensors_of_one_axis_become_blocks_only_by_their_names(tmp_path: Path) -> None:
    tensors = {"norm.weight": np.ones(256, np.float32), "up.weight": np.ones((2, 256), np.float32)}
    source, target = tmp_path / "a.safetensors", tmp_path / "b.gguf"
    rs.save(tensors, source)
    for rules, kind in ((["*=q4_k"], "F32"), (["*.weight=q8_0"], "F32"), (["norm.weight=q4_k"], "f32")):
        report = rs.convert(source, target, rules, verify=True)
        assert report.tensors[0].target.partition(" ")[0] == ("Q4_K" if kind == "f32" else "F32")
    report = rs.convert(source, target, ["*=bf16"])
    assert report.tensors[0].target == "bf16 256 a"


def test_globs_of_floats_leave_integers_and_names_must_keep_them(tmp_path: Path) -> None:
    source, target = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    tensors = {"w": np.ones((2, 256), np.float32), "ids": np.array([40038999]), "mask": np.array([True])}
    rs.save({**tensors, "1.num_batches_tracked": np.array(5)}, source)
    for rule in ("*=f16", "*=mxfp4"):
        report = rs.convert(source, target, [rule], verify=True)
        assert set(report.left) == {"ids", "mask", "1.num_batches_tracked"}
        assert rs.load(target)["ids"].to_numpy() == tensors["ids"]
    assert rs.convert(source, target, ["ids=f64"], verify=True).left == ()
    with pytest.raises(rs.RuntimeFailure, match="integers of the source have changed, by up to 69033"):
        rs.convert(source, target, ["ids=bf16"], verify=True)


@pytest.mark.parametrize(
    ("word", "near"),
    [("q4k", "q4_k"), ("Q4_K_M", "q4_k"), ("nvpf4", "nvfp4"), ("AWQ", "awq"), ("bf61", "bf16")],
)
def test_a_misspelled_word_gets_the_nearest_format_or_type(word: str, near: str) -> None:
    with pytest.raises(rs.InvalidArguments) as found:
        parse_rules([f"*={word}"])
    assert found.value.hint.startswith(f"did you mean {near!r}? ")
