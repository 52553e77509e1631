"""The loop nest: a value that is well formed, and its text."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from hypothesis import given

from restride.dtypes import DataType
from restride.ir.nest import Axis, Bound, Compute, LoopNest, as_int, highest, linear, lowest
from support.nests import nests

# --- nest --------------------------------------------------------------------

_F32, _S8 = DataType.f32, DataType.s8


def _nest(*axes: Axis, bounds: tuple[Bound, ...] = (), compute: Compute | None = None) -> LoopNest:
    return LoopNest(_F32, _S8, axes, compute=compute or Compute(), bounds=bounds)


@pytest.mark.parametrize(
    ("src", "dst", "shrinks"),
    [
        ("f32", "s8", True),
        ("bf16", "u8", True),
        ("f64", "bf16", True),
        ("f64", "f32", False),
        ("f32", "f16", False),
        ("u8", "s8", False),
        ("s8", "f32", False),
    ],
)
def test_values_shrink_to_bytes_or_to_a_quarter(src: str, dst: str, shrinks: bool) -> None:
    assert LoopNest(DataType[src], DataType[dst], ()).shrinks is shrinks


def test_equal_nests_are_equal_values() -> None:
    one = _nest(Axis(4, 1, (0, 2, 1, 3)), Axis(3, 4, 4, valid=2))
    two = _nest(Axis(4, 1, (0, 2, 1, 3)), Axis(3, 4, 4, valid=2))
    assert one == two
    assert hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != dataclasses.replace(one, compute=linear(scaled=True))
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.src_base = 1  # type: ignore[misc]


def test_a_whole_axis_is_the_same_value_however_it_is_written() -> None:
    assert Axis(4, 1, 1) == Axis(4, 1, 1, valid=4)
    assert Axis(4, 1, 1).is_whole
    assert not Axis(4, 1, 1, valid=0).is_whole


def test_offsets_follow_strides_and_tables() -> None:
    axis = Axis(3, -2, (5, 0, 7))
    assert [axis.src_offset(i) for i in range(3)] == [0, -2, -4]
    assert [axis.dst_offset(i) for i in range(3)] == [5, 0, 7]
    assert not axis.is_linear
    assert Axis(3, -2, (5, 0, 7), more=(4,)).offsets(2) == (-4, 7, 8)


def test_text_reads_as_pseudo_code() -> None:
    nest = LoopNest(
        _F32,
        _S8,
        (
            Axis(2, 1600, 1600),
            Axis(2, 400, 16, bound=0, step=16),
            Axis(16, 25, 1, bound=0, step=1),
            Axis(8, tuple(range(0, 32, 4)), 1, valid=7),
        ),
        src_base=3,
        compute=linear(scaled=True, summed=True),
        bounds=(Bound(17, 32),),
    )
    assert str(nest.verify()) == (
        "src f32 + 3, dst s8 + 0\n"
        "dim 0: read below 17, zero below 32\n"
        "for 2: src += 1600, dst += 1600\n"
        "  for 2: src += 400, dst += 16 (dim 0 step 16)\n"
        "    for 16: src += 25, dst += 1 (dim 0 step 1)\n"
        "      for 8 valid 7: src += table[0, 4, 8, 12, 16, 20, ...], dst += 1\n"
        "        dst = s8(alpha * src + beta * dst)"
    )
    assert str(_nest(Axis(4, 1, 1, valid=0))).endswith("  dst = 0")
    assert str(_nest()) == "src f32 + 0, dst s8 + 0\ndst = s8(src)"


def test_queries_tell_what_is_to_be_done() -> None:
    assert _nest(Axis(3, 1, 1), Axis(0, 1, 1)).is_empty
    assert _nest(Axis(3, 1, 1, bound=0, step=1), bounds=(Bound(0, 0),)).is_empty
    assert not _nest(Axis(3, 1, 1)).is_empty
    assert not _nest().is_empty
    assert _nest().positions == 1
    assert _nest(Axis(3, 1, 1), Axis(5, 3, 3)).positions == 15
    assert _nest(Axis(3, 1, 1, valid=0), Axis(5, 3, 3)).is_zero
    assert not _nest(Axis(3, 1, 1, valid=1)).is_zero
    assert Compute().is_move
    assert not linear(summed=True).is_move


@pytest.mark.parametrize(
    "bad",
    [
        _nest(Axis(-1, 1, 1, valid=0)),
        _nest(Axis(4, 1, 1, valid=5)),
        _nest(Axis(4, 1, 1, bound=0, step=1)),
        _nest(Axis(4, 1, 1, bound=1, step=1), bounds=(Bound(4, 4),)),
        _nest(Axis(4, 1, 1, bound=0, step=0), bounds=(Bound(4, 4),)),
        _nest(Axis(4, 1, 1, bound=0, step=-1), bounds=(Bound(4, 4),)),
        _nest(Axis(4, (0, 1, 2), 1)),
        _nest(Axis(4, 1, (0, 1, 2, 3, 4))),
        _nest(Axis(4, 1, 1, bound=0, step=1), bounds=(Bound(5, 4),)),
        _nest(Axis(4, 1, 1, bound=0, step=1), bounds=(Bound(-1, 4),)),
        _nest(Axis(4, 1, 1), bounds=(Bound(3, 4),)),
    ],
    ids=range(11),
)
def test_verify_refuses_what_is_ill_formed(bad: LoopNest) -> None:
    with pytest.raises(ValueError, match=r"axis|bound"):
        bad.verify()


@given(nests())
def test_verify_returns_what_is_well_formed(nest: LoopNest) -> None:
    assert nest.verify() is nest


# --- stride ------------------------------------------------------------------
# How far one axis moves one operand, by a stride or by a table.


@pytest.mark.parametrize(
    ("stride", "extent", "ends"),
    [
        (3, 4, (0, 9)),
        (-3, 4, (-9, 0)),
        (0, 7, (0, 0)),
        (5, 1, (0, 0)),
        ((0, 4, -2), 3, (-2, 4)),
        ((7,), 1, (7, 7)),
    ],
    ids=["forwards", "backwards", "still", "one position", "a table", "a table of one"],
)
def test_an_axis_reaches_from_its_lowest_to_its_highest_offset(
    stride: int | tuple[int, ...], extent: int, ends: tuple[int, int]
) -> None:
    assert (lowest(stride, extent), highest(stride, extent)) == ends


def test_only_a_stride_is_an_integer() -> None:
    assert as_int(-4) == -4
    with pytest.raises(AssertionError):
        as_int((0, 1))
