"""Propagation kinds are words, and words are kinds."""

from __future__ import annotations

import pytest

import restride as rs
from restride.model.prop_kind import PropKind
from support.errors import refused


@pytest.mark.parametrize("name", list(PropKind.__members__))
def test_every_name_and_every_member_is_read(name):
    kind = PropKind[name]
    assert PropKind.parse(name, "call") is PropKind.parse(kind, "call") is kind
    assert kind == kind.value


def test_forward_and_scoring_are_other_names():
    assert rs.PropKind.forward is rs.PropKind.forward_training
    assert rs.PropKind.forward_scoring is rs.PropKind.forward_inference


@pytest.mark.parametrize("value", ["Forward", "", "x" * 1000, 64, None, b"forward", ["forward"]])
def test_anything_else_is_refused(value):
    with refused("call: prop_kind is", "forward_training"):
        PropKind.parse(value, "call")
