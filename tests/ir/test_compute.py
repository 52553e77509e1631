"""Chains of steps: what they read, how they print, and how they become code."""

from __future__ import annotations

import re

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.ir.digits import reorder_nest
from restride.ir.nest import SCALAR, Compute, Step, linear
from restride.targets import cpu
from restride.targets.isa import Isa
from support.kernels import COMMON


def _ir(*steps: Step, data_type: str = "f32") -> str:
    src, dst = (MemoryDesc((40, 70), data_type, tag) for tag in ("ab", "ba"))
    return cpu.lower_nest(reorder_nest(src, dst, Compute(steps)), Isa.for_name("avx512"), COMMON).ir()


def test_each_step_knows_its_first_scalar() -> None:
    chain = Compute(
        (Step("mul"), Step("sum_shifted"), Step("relu"), Step("add", 0), Step("add", 1, factor=SCALAR))
    )
    assert [first for _, first in chain.steps_with_scalars()] == [0, 1, 3, 6, 6]
    assert chain.scalars == 7
    assert chain.reads_destination
    assert not chain.is_move


def test_a_sum_from_an_operand_does_not_read_the_destination() -> None:
    assert not Compute((Step("sum", 0),)).reads_destination
    assert Compute((Step("sum", 0),)).steps[0].is_sum
    assert Compute().is_move


@pytest.mark.parametrize(
    ("chain", "text"),
    [
        (Compute(), "s8(src)"),
        (linear(scaled=True, summed=True, shifted=True), "s8((alpha * src + beta * dst) + zero)"),
        (Compute((Step("sub", 0), Step("mul", 1))), "s8((src - x0) * x1)"),
        (Compute((Step("relu"), Step("max", 0))), "s8(max(relu(src), x0))"),
        (Compute((Step("mul", 0), Step("rescale", 1))), "s8((src * x0) / x1)"),
        (
            Compute((Step("sum_shifted"), Step("add", 2, factor=SCALAR))),
            "s8(src + beta * (dst - zero) + factor * x2)",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_chains_print_as_expressions(chain: Compute, text: str) -> None:
    assert chain.show(DataType.s8) == text


def test_a_long_function_is_written_once_however_often_it_is_used() -> None:
    """Inline, the machine code of thirty would take LLVM most of a minute."""
    once, often = _ir(Step("gelu_erf")), _ir(*[Step("gelu_erf")] * 31)
    for text in (once, often):
        assert len(re.findall(r"^define internal", text, re.MULTILINE)) == 1
    both = _ir(Step("tanh"), Step("exp"), Step("tanh"))
    assert len(re.findall(r"^define internal", both, re.MULTILINE)) == 2


def test_short_functions_stay_in_line() -> None:
    assert "define internal" not in _ir(*map(Step, ("relu", "abs", "hardswish", "round")))
