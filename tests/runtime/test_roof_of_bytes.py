"""The roof of products of bytes: that of the instructions for them, whatever their signs are."""

from __future__ import annotations

import pytest

from restride import DataType
from restride.runtime.cpu.roof import Roof
from restride.schedule.machine import RATES, Machine

U8, S8 = DataType.u8, DataType.s8


@pytest.mark.parametrize("types", [(U8, S8), (S8, S8), (S8, U8)])
def test_products_of_bytes_count_at_the_speed_of_their_instructions(types: tuple[DataType, ...]) -> None:
    flops = 10**12
    with_dots = Roof(RATES, 1e11, 1, Machine(dots=((U8, S8),)))
    assert with_dots.seconds(1, flops, types) == pytest.approx(flops / 4e11)
    assert Roof(RATES, 1e11, 1, Machine()).seconds(1, flops, types) == pytest.approx(flops / 1e11)
