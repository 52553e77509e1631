"""Descriptors as JSON: a stable text that reads back, and is checked as if a stranger wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from restride.desc.layout import RUNTIME_DIM
from restride.desc.memory_desc import MemoryDesc
from restride.errors import InvalidArguments
from support.descriptors import pairs
from support.errors import refused

_BLOCKED = MemoryDesc((2, 17), "f32", "aB16b")
_REVERSED = MemoryDesc.from_strides((4, 2), "s8", (-2, 1), 6)
KINDS = [
    MemoryDesc(),
    MemoryDesc((2, 3), "f32", "any"),
    MemoryDesc((2, RUNTIME_DIM), "bf16", "any"),
    MemoryDesc((2, 17, 7, 7), "bf16", "nChw16c"),
    MemoryDesc((64, 64, 3, 3), "s8", "OIhw4i16o4i"),
    MemoryDesc((2, 3), "s4", (8, 1)),
    MemoryDesc((2, RUNTIME_DIM), "u8", "ba"),
    MemoryDesc((RUNTIME_DIM, 17), "f8_e4m3", "aB16b"),
    MemoryDesc((0, 3), "f64", (-7, 1)),
    MemoryDesc((2, 1, 4), "f32", (4, 99, 1)),
    MemoryDesc((3, 4), "f32", (0, 1)),
    MemoryDesc((2,) * 12, "boolean", "lkjihgfedcba"),
    _REVERSED,
    MemoryDesc((2, 40), "f32", "aB16b").submemory_desc((1, 8), (1, 32)),
    MemoryDesc((2, 40), "f32", "aB16b").submemory_desc((1, 3), (1, 16)),
]


# --- writing --------------------------------------------------------------------------------------------


def test_the_text_is_stable() -> None:
    assert _BLOCKED.to_json() == (
        '{"format_kind": "blocked", "data_type": "f32", "dims": [2, 17], "padded_dims": [2, 32], '
        '"strides": [32, 16], "inner_blks": [16], "inner_idxs": [1], "inner_steps": [1], "offset0": 0}'
    )
    assert MemoryDesc((2, RUNTIME_DIM), "u8", "ba").to_json() == (
        '{"format_kind": "blocked", "data_type": "u8", "dims": [2, "runtime"], '
        '"padded_dims": [2, "runtime"], "strides": [1, 2], "inner_blks": [], "inner_idxs": [], '
        '"inner_steps": [], "offset0": 0}'
    )
    assert MemoryDesc((2, 3), "s8", "any").to_json() == (
        '{"format_kind": "any", "data_type": "s8", "dims": [2, 3], "padded_dims": [2, 3], '
        '"strides": [], "inner_blks": [], "inner_idxs": [], "inner_steps": [], "offset0": 0}'
    )
    assert MemoryDesc().to_json() == (
        '{"format_kind": "undef", "data_type": "undef", "dims": [], "padded_dims": [], '
        '"strides": [], "inner_blks": [], "inner_idxs": [], "inner_steps": [], "offset0": 0}'
    )


@pytest.mark.parametrize("md", [MemoryDesc(), _BLOCKED, _REVERSED], ids=str)
def test_keys_are_the_properties(md: MemoryDesc) -> None:
    for key, value in md.to_dict().items():
        found = getattr(md, key)
        assert value == (
            list(found) if isinstance(found, tuple) else found if key != "data_type" else str(found)
        )


# --- there and back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("md", KINDS, ids=range(len(KINDS)))
def test_every_kind_of_descriptor_reads_back(md: MemoryDesc) -> None:
    text = md.to_json()
    for other in (
        MemoryDesc.from_json(text),
        MemoryDesc.from_json(text.encode()),
        MemoryDesc.from_json(json.dumps(json.loads(text), indent=2, sort_keys=True)),
        MemoryDesc.from_dict(md.to_dict()),
    ):
        assert other == md
        assert hash(other) == hash(md)
        assert (other.layout, other.size, str(other)) == (md.layout, md.size, str(md))


@given(pairs())
def test_descriptors_of_every_layout_read_back(pair: tuple[MemoryDesc, MemoryDesc]) -> None:
    for md in pair:
        assert MemoryDesc.from_json(md.to_json()).layout == md.layout


def test_runtime_dims_may_be_the_number() -> None:
    md = MemoryDesc((2, RUNTIME_DIM), "u8", "ba")
    assert MemoryDesc.from_json(md.to_json().replace('"runtime"', str(RUNTIME_DIM))) == md


def test_notes_beside_the_keys_are_passed_over() -> None:
    assert MemoryDesc.from_dict({**_BLOCKED.to_dict(), "note": {"of": [1, 2.5, None]}}) == _BLOCKED


# --- texts that are wrong -------------------------------------------------------------------------------

_TEXTS = {
    "empty": ("", "not JSON"),
    "not JSON": ("f32 2x17 aB16b", "not JSON"),
    "cut off": (_BLOCKED.to_json()[:-1], "not JSON"),
    "two": (_BLOCKED.to_json() * 2, "not JSON"),
    "a list": ("[1]", "must be a dict"),
    "a number": ("3", "must be a dict"),
    "null": ("null", "must be a dict"),
    "an empty object": ("{}", "lacks"),
    "no UTF-8": (b'{"dims": "\xff"}', "not JSON"),
    "UTF-16": (_BLOCKED.to_json().encode("utf-16"), "not JSON"),
    "NaN": (_BLOCKED.to_json().replace("[32, 16]", "[NaN, 16]"), "NaN is not valid JSON"),
    "infinity": (
        _BLOCKED.to_json().replace("[32, 16]", "[32, -Infinity]"),
        "-Infinity is not valid JSON",
    ),
    "a key twice": (_BLOCKED.to_json()[:-1] + ', "dims": [2, 17]}', "key 'dims' occurs twice"),
    "a note's key twice": (
        _BLOCKED.to_json()[:-1] + ', "x": {"y": 1, "y": 2}}',
        "key 'y' occurs twice",
    ),
    "nested lists": ("[" * 60_000, "nested too deep"),
    "nested objects": ('{"a":' * 10_000, "nested too deep"),
    "nested dims": (_BLOCKED.to_json().replace("[2, 17]", "[" * 900 + "]" * 900), "dims[0]"),
    "too long": (_BLOCKED.to_json() + " " * (64 << 10), "too long"),
    "huge dim": (_BLOCKED.to_json().replace("[2, 17]", f"[2, {'9' * 50_000}]"), "dims[1] is"),
    "huge offset": (_BLOCKED.to_json().replace('"offset0": 0', f'"offset0": -{"9" * 5000}'), "offset"),
    "huge exponent": (_BLOCKED.to_json().replace("[32, 16]", "[1e999999, 16]"), "strides[0] is inf"),
    "a float": (_BLOCKED.to_json().replace("[32, 16]", "[32, 16.0]"), "strides[1] is 16.0"),
    "a boolean": (_BLOCKED.to_json().replace("[2, 17]", "[2, true]"), "dims[1] is True"),
    "a null": (_BLOCKED.to_json().replace("[2, 17]", "[2, null]"), "dims[1] is None"),
    "a word": (_BLOCKED.to_json().replace("[2, 17]", '[2, "17"]'), "dims[1] is '17'"),
}


@pytest.mark.parametrize(("text", "said"), _TEXTS.values(), ids=_TEXTS)
def test_a_wrong_text_is_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        MemoryDesc.from_json(text)
    error = caught.value
    assert error.what.startswith("MemoryDesc.from_json: ")
    assert said in error.what + error.why
    assert error.hint
    assert len(error.message) < 700


@pytest.mark.parametrize("text", [None, 3, 2.5, ["{}"], object()], ids=range(5))
def test_what_is_no_text_is_refused(text: Any) -> None:
    with refused("the text is not text"):
        MemoryDesc.from_json(text)


def test_a_dict_is_told_where_to_go() -> None:
    with refused("from_dict"):
        MemoryDesc.from_json(_BLOCKED.to_dict())  # type: ignore[arg-type]


# --- values that are wrong ------------------------------------------------------------------------------

_VALUES: list[tuple[str, Any]] = [
    ("format_kind", "opaque"),
    ("format_kind", None),
    ("format_kind", ["undef"]),
    ("format_kind", "any"),
    ("format_kind", "undef"),
    ("data_type", "undef"),
    ("data_type", "f33"),
    ("data_type", "x" * 10_000),
    ("data_type", 3),
    ("data_type", None),
    ("data_type", {}),
    ("dims", [2, -17]),
    ("dims", [2, 2**63]),
    ("dims", [2**62, 2**62]),
    ("dims", [2, "runtime"]),
    ("dims", []),
    ("dims", [2]),
    ("dims", [1] * 13),
    ("dims", [1] * 5000),
    ("dims", [2, 17.0]),
    ("dims", [2, True]),
    ("dims", "217"),
    ("dims", {"0": 2, "1": 17}),
    ("dims", None),
    ("padded_dims", [2, 16]),
    ("padded_dims", [2, 48]),
    ("padded_dims", [3, 32]),
    ("padded_dims", [2]),
    ("padded_dims", [2, "runtime"]),
    ("strides", [16]),
    ("strides", [-32, 16]),
    ("strides", [2**62, 2**62]),
    ("strides", [2**63, 16]),
    ("strides", ["any", 16]),
    ("inner_blks", [0]),
    ("inner_blks", [-16]),
    ("inner_blks", [16, 16]),
    ("inner_blks", [2**40]),
    ("inner_blks", [8]),
    ("inner_blks", []),
    ("inner_blks", ["runtime"]),
    ("inner_idxs", [2]),
    ("inner_idxs", [-1]),
    ("inner_idxs", [True]),
    ("inner_idxs", [0]),
    ("offset0", -1),
    ("offset0", 2**63),
    ("offset0", "runtime"),
    ("offset0", RUNTIME_DIM),
    ("offset0", 0.0),
    ("offset0", None),
]


@pytest.mark.parametrize(("name", "value"), _VALUES, ids=range(len(_VALUES)))
def test_a_wrong_value_is_refused(name: str, value: Any) -> None:
    values = {**_BLOCKED.to_dict(), name: value}
    with pytest.raises(InvalidArguments) as caught:
        MemoryDesc.from_dict(values)
    assert caught.value.why
    assert len(caught.value.message) < 1000
    with pytest.raises(InvalidArguments, match=r"MemoryDesc.from_json: "):
        MemoryDesc.from_json(json.dumps(values))


@pytest.mark.parametrize("name", sorted({*_BLOCKED.to_dict()} - {"inner_steps"}))
def test_a_missing_key_is_named(name: str) -> None:
    values = _BLOCKED.to_dict()
    del values[name]
    with refused(f"lacks ['{name}']"):
        MemoryDesc.from_dict(values)


@pytest.mark.parametrize("values", [None, [], "x", 3, [("dims", [2])]], ids=range(5))
def test_what_is_no_dict_is_refused(values: Any) -> None:
    with refused("must be a dict"):
        MemoryDesc.from_dict(values)


@pytest.mark.parametrize(
    ("md", "name", "value"),
    [
        (MemoryDesc((2, 3), "f32", "any"), "strides", [3, 1]),
        (MemoryDesc((2, 3), "f32", "any"), "padded_dims", [2, 16]),
        (MemoryDesc((2, 3), "f32", "any"), "inner_blks", [16]),
        (MemoryDesc((2, 3), "f32", "any"), "offset0", 1),
        (MemoryDesc((2, 3), "f32", "any"), "dims", []),
        (MemoryDesc((2, 3), "f32", "any"), "data_type", "undef"),
        (MemoryDesc(), "dims", [2]),
        (MemoryDesc(), "data_type", "f32"),
        (MemoryDesc(), "offset0", 1),
        (MemoryDesc(), "inner_idxs", [0]),
    ],
    ids=range(10),
)
def test_a_kind_without_a_layout_has_none(md: MemoryDesc, name: str, value: Any) -> None:
    with pytest.raises(InvalidArguments):
        MemoryDesc.from_dict({**md.to_dict(), name: value})


@pytest.mark.parametrize("strides", [[16, 1], [1, 16], [32, 0], [0, 16], [8, 16]], ids=str)
def test_overlapping_blocks_can_be_read_and_are_no_destination(strides: list[int]) -> None:
    """Overlapping elements are legal in a source; destinations check `is_injective`."""
    md = MemoryDesc.from_dict({**_BLOCKED.to_dict(), "strides": strides})
    assert not md.is_injective()
    low, high = md.extent_range()
    places = {md.offset(a, b) for a in range(2) for b in range(32)}
    assert (low, high) == (min(places), max(places) + 1)
    assert md.size >= 4 * (high - low)
