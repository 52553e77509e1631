"""Descriptors of shuffles as JSON: they read back, and are checked as if a stranger wrote them."""

from __future__ import annotations

import json

import pytest

import restride as rs
from support.errors import refused

MD = rs.MemoryDesc((2, 12, 3), "bf16", "aBc8b")
ANY = rs.MemoryDesc((2, 12, 3), "f32", "any")
WINDOW = rs.MemoryDesc((4, 12, 3), "u8", "abc").submemory_desc((2, 12, 2), (1, 0, 1))
FORWARD, BACKWARD = rs.ShuffleForward.Desc, rs.ShuffleBackward.Desc
DESCS = [
    FORWARD("forward_training", MD, 1, 4),
    FORWARD("forward_inference", WINDOW, 0, 2),
    BACKWARD(MD, 1, 3),
    BACKWARD(ANY, 2, 1),
]


@pytest.mark.parametrize("desc", DESCS, ids=range(4))
def test_descriptors_read_back(desc):
    for again in (
        type(desc).from_json(desc.to_json()),
        type(desc).from_json(desc.to_json().encode()),
        type(desc).from_dict(json.loads(desc.to_json())),
    ):
        assert again == desc
        assert hash(again) == hash(desc)
        assert type(again) is type(desc)
    assert desc.to_json() == json.dumps(desc.to_dict())


def test_the_keys_are_the_arguments():
    assert DESCS[0].to_dict() == {
        "prop_kind": "forward_training",
        "data_desc": MD.to_dict(),
        "axis": 1,
        "group_size": 4,
    }
    assert list(DESCS[2].to_dict()) == ["diff_data_desc", "axis", "group_size"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"axis": 3}, "bad axis"),
        ({"axis": -1}, "bad axis"),
        ({"axis": "1"}, "axis is '1'"),
        ({"axis": True}, "axis is True"),
        ({"axis": 1.0}, "axis is 1.0"),
        ({"axis": None}, "axis is None"),
        ({"axis": [1]}, "axis is [1]"),
        ({"group_size": 5}, "bad param group_size"),
        ({"group_size": 0}, "bad param group_size"),
        ({"group_size": 2**70}, "bad param group_size"),
        ({"prop_kind": "backward"}, "prop_kind is backward"),
        ({"prop_kind": "x"}, "prop_kind is 'x'"),
        ({"prop_kind": 64}, "prop_kind is 64"),
        ({"prop_kind": {}}, "prop_kind is {}"),
        ({"data_desc": None}, "data_desc: a stored descriptor must be a dict"),
        ({"data_desc": {**MD.to_dict(), "padded_dims": [2, 12, 3]}}, None),
        ({"data_desc": {**MD.to_dict(), "padded_dims": [2, 17, 3]}}, "data_desc: padded_dims"),
        ({"data_desc": ANY.to_dict()}, "data_desc has format 'any'"),
        ({"data_desc": rs.MemoryDesc().to_dict()}, "data_desc does not describe a tensor"),
        ({"note": "passed over"}, None),
    ],
    ids=range(20),
)
def test_wrong_values_are_named(change, said):
    text = json.dumps({**DESCS[0].to_dict(), **change})
    if said is None:
        assert FORWARD.from_json(text).axis == 1
        return
    with refused(f"ShuffleForward.Desc.from_json: {said}"):
        FORWARD.from_json(text)
    with refused(said):
        FORWARD.from_dict(json.loads(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text is not JSON"),
        ("[]", "must be a dict"),
        ("{}", "lacks ['diff_data_desc', 'axis', 'group_size']"),
        ('{"axis": 1, "axis": 1}', "occurs twice"),
        ("[" * 40_000, "nested too deep"),
        (" " * 70_000, "too long"),
        (None, "the text is not text"),
        (DESCS[2].to_dict(), "from_dict accepts the dict"),
        (DESCS[0].to_json(), "lacks ['diff_data_desc']"),
    ],
    ids=range(9),
)
def test_what_is_no_such_text_is_refused(text, said):
    with refused("ShuffleBackward.Desc.from_json: ", said):
        BACKWARD.from_json(text)
