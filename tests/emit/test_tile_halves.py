"""4-bit elements that move as bytes which exchange halves: any order of digits, on every instruction set."""

from __future__ import annotations

import random

import numpy as np
import pytest

from restride.dtypes import DataType
from restride.emit.builder import Builder
from restride.emit.tile_halves import byte_tile, can_exchange, exchanged
from restride.emit.tile_shape import TileAxis
from restride.ir.nest import Axis, LoopNest
from restride.targets.isa import Isa
from support.kernels import COMMON, TINY, Kernel, expected, isa_id, room, runnable


def _nest(src: list[int], dst: list[int], data_type: DataType = DataType.u4) -> LoopNest:
    """A move of digits of two: in the source digit i lies at place src[i], in the destination at dst[i]."""
    axes = tuple(Axis(2, 1 << s, 1 << d, valid=2) for s, d in zip(src, dst, strict=True))
    return LoopNest(data_type, data_type, axes)


def _check(nest: LoopNest, isa: Isa, *, large: bool) -> Kernel:
    kernel = Kernel(nest, isa, may_stream=large, caches=TINY if large else COMMON)
    read, written = room(nest.positions // 2), room(nest.positions // 2)
    read[:] = np.random.default_rng(1).integers(0, 256, read.size, np.uint8)
    written[:] = 0xFF
    wanted = expected(nest, read, written)
    kernel(read.ctypes.data, written.ctypes.data)
    np.testing.assert_array_equal(written, wanted)
    return kernel


@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_digits_is_moved(seed: int, isa: Isa) -> None:
    rng = random.Random(seed)
    count = rng.randrange(6, 14)
    orders = list(range(count))
    nest = _nest(rng.sample(orders, count), rng.sample(orders, count), rng.choice([DataType.s4, DataType.u4]))
    _check(nest, isa, large=bool(seed % 2))


@pytest.mark.parametrize("isa", runnable()[-1:], ids=isa_id)
@pytest.mark.parametrize("moved", [1, 2, 3, 6, 7, 8, 11])
def test_whichever_digit_shares_a_byte(moved: int, isa: Isa) -> None:
    """The lowest digit of the destination at every place of the source: in a lane, in registers, in rows."""
    src = list(range(12))
    dst = [moved if d == 0 else 0 if d == moved else d for d in src]
    kernel = _check(_nest(src, dst, DataType.f4_e2m1), isa, large=True)
    assert len(kernel.lowered.plan) == 1


def test_tiles_that_are_cut_or_hold_half_a_byte_are_none_of_bytes() -> None:
    whole = (TileAxis(8, 8, 8, 1, 64), TileAxis(64, 64, 64, 8, 1))
    made = byte_tile(whole)
    assert made is not None
    assert made.is_torn
    assert sum(axis.template == 2 for axis in made.axes) == 8
    assert byte_tile((TileAxis(8, 7, 7, 1, 64), whole[1])) is None
    assert byte_tile((TileAxis(8, 8, 4, 1, 64), whole[1])) is None
    # The other half of each byte of the destination belongs to another tile.
    assert byte_tile((TileAxis(8, 8, 8, 1, 64), TileAxis(64, 64, 64, 8, 2))) is None
    assert byte_tile((TileAxis(8, 8, 8, 1, 64), TileAxis(2, 2, 2, 11, 1))) is None
    same = byte_tile((TileAxis(8, 8, 8, 1, 1), TileAxis(4, 4, 4, 8, 16)))
    assert same is not None
    assert not same.is_torn


def test_bytes_exchange_halves_where_both_are_at_hand() -> None:
    apart, within = ((0, 2), (1, 3)), ((0, 1), (2, 3))
    assert can_exchange(apart)
    assert can_exchange(within)
    assert not can_exchange(((0, 2), (3, 1)))
    assert not can_exchange(((0, 3), (1, 4)))
    b = Builder()
    values = [b.value("<2 x i8>", f"load <2 x i8>, ptr %p{i}") for i in range(2)]
    assert len(exchanged(b, values, apart)) == len(exchanged(b, values, within)) == 2
