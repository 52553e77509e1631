"""Loads of elements that lie close together, in another order than lanes want them or some in many lanes."""

from __future__ import annotations

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.ir.conversion import PROVIDED
from restride.ir.digits import reorder_nest
from restride.ir.nest import Axis, LoopNest, linear
from restride.targets.cpu import lower_nest
from restride.targets.isa import CacheSizes, Isa
from support.kernels import LEVELS, check, destination, random_source, runnable

_WIDE = [kind for kind in PROVIDED if kind.bits >= 16]
_DIMS = (7, 45)


def _every_second(data_type: DataType | str, dims: tuple[int, int] = _DIMS) -> tuple[MemoryDesc, MemoryDesc]:
    return MemoryDesc.from_strides(dims, data_type, (2 * dims[1] + 7, 2)), MemoryDesc(dims, data_type, "ab")


def _repeated(times: int, width: int = 24) -> LoopNest:
    """Each element of a row several times, one behind the other."""
    axes = (Axis(5, width, width * times), Axis(width, 1, times), Axis(times, 0, 1))
    return LoopNest(DataType.f32, DataType.f32, axes).verify()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("data_type", _WIDE, ids=str)
@pytest.mark.parametrize("parts", [1, 3])
def test_every_second_element_is_found_and_nothing_behind_the_last_one(
    data_type: DataType, parts: int
) -> None:
    src, dst = _every_second(data_type)
    nest = reorder_nest(src, dst, linear())
    check(nest, random_source(src, 1), destination(dst), runnable(), parts=parts)


@pytest.mark.parametrize("times", [2, 3, 4])
def test_repeated_elements_fill_all_their_lanes(times: int) -> None:
    nest = _repeated(times)
    src, dst = MemoryDesc((5, 24), "f32", "ab"), MemoryDesc((5, 24 * times), "f32", "ab")
    check(nest, random_source(src, 1), destination(dst), runnable())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["every second", "repeated"])
def test_no_lane_is_loaded_by_itself(kind: str, level: str) -> None:
    nest = _repeated(2) if kind == "repeated" else reorder_nest(*_every_second("f32", (8, 64)), linear())
    assert "insertelement" not in lower_nest(nest, Isa.for_name(level), CacheSizes()).ir()
