"""Modes of arithmetic: what allows less than the contract changes nothing, the rest is refused."""

import numpy as np
import pytest

import restride as rs
from support.errors import refused


def test_modes_are_held_and_change_nothing():
    attr = rs.PrimitiveAttr()
    assert attr.get_fpmath_mode() == ("strict", False)
    assert (attr.get_accumulation_mode(), attr.get_deterministic()) == ("strict", False)
    plain = attr.freeze()
    attr.set_fpmath_mode("bf16", True)
    attr.set_accumulation_mode("relaxed")
    attr.set_deterministic(np.True_)
    attr.set_rounding_mode(rs.ARG_DST, "environment")
    assert attr.get_fpmath_mode() == ("bf16", True)
    assert (attr.get_accumulation_mode(), attr.get_deterministic()) == ("relaxed", True)
    assert attr.get_rounding_mode(rs.ARG_DST) == "environment"
    assert attr.freeze() == plain


@pytest.mark.parametrize("name", ["set_fpmath_mode", "set_accumulation_mode"])
@pytest.mark.parametrize("mode", ["", "Strict", 0, None, b"strict"])
def test_modes_that_are_not_there_are_refused_by_name(name, mode):
    with refused(f"{name}: mode is", "use one of strict"):
        getattr(rs.PrimitiveAttr(), name)(mode)


def test_what_would_change_results_is_refused():
    attr = rs.PrimitiveAttr()
    with refused("stochastic rounding", "(N2)", kind=rs.Unimplemented):
        attr.set_rounding_mode(rs.ARG_DST, "stochastic")
    with refused("no dropout", "(R34)", kind=rs.Unimplemented):
        attr.set_dropout(rs.MemoryDesc((2,), "f32"))
    for value in (1, "yes", None):
        with refused("set_deterministic is"):
            attr.set_deterministic(value)
