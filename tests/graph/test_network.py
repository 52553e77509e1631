"""Register networks, run on element numbers: what they claim to store is what they store, once each."""

from __future__ import annotations

from itertools import pairwise, permutations, product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restride.emit.register_permutation import NOTHING, Lanes, RegisterPermutation, exchange, merge
from restride.emit.tile_shape import TileAxis, piece, prefix, recipe, tile_layout
from support.effort import examples

_JUNK = -2


def _run(plan: RegisterPermutation) -> list[Lanes]:
    """All registers in the order in which they come to be; a lane picked by nothing holds junk."""
    registers = list(plan.loads)
    for step in plan.shuffles:
        both = (*registers[step.a], *registers[step.b])
        registers.append(tuple(_JUNK if m == NOTHING else both[m] for m in step.mask))
    return registers


def _check(plan: RegisterPermutation) -> None:
    """Every store finds the elements that it names; no shuffle uses a register that is not there yet."""
    for number, step in enumerate(plan.shuffles):
        assert 0 <= step.a < len(plan.loads) + number
        assert 0 <= step.b < len(plan.loads) + number
    registers = _run(plan)
    for register, lanes in plan.stores:
        held = registers[register]
        assert len(held) >= len(lanes)
        assert all(e in (NOTHING, h) for e, h in zip(lanes, held, strict=False)), (lanes, held)


def _elements(registers: tuple[Lanes, ...]) -> list[int]:
    return sorted(e for lanes in registers for e in lanes if e != NOTHING)


# --- exchange ----------------------------------------------------------------------------------------------


def _check_exchange(
    lane: tuple[int, ...], wanted: tuple[int, ...], bits: int, quarter: int
) -> RegisterPermutation:
    plan = exchange(lane, wanted, bits, quarter)
    _check(plan)
    every = list(range(1 << bits))
    assert _elements(plan.loads) == every
    assert _elements(tuple(lanes for _, lanes in plan.stores)) == every
    _check_lanes(plan.loads, lane)
    _check_lanes(tuple(lanes for _, lanes in plan.stores), wanted)
    assert all(a < b for a, b in pairwise(plan.rounds))
    assert not plan.rounds or plan.rounds[-1] == len(plan.shuffles)
    return plan


def _check_lanes(registers: tuple[Lanes, ...], bits: tuple[int, ...]) -> None:
    """The position in a register counts up these bits of the element, innermost first."""
    for lanes in registers:
        assert len(lanes) == 1 << len(bits)
        for position, element in enumerate(lanes):
            counted = sum((position >> place & 1) << bit for place, bit in enumerate(bits))
            assert element == lanes[0] | counted
            assert lanes[0] & counted == 0


_SMALL = [(bits, lanes) for bits in range(5) for lanes in range(bits + 1)]


@pytest.mark.parametrize(("bits", "lanes"), _SMALL)
def test_every_small_exchange(bits: int, lanes: int) -> None:
    orders = list(permutations(range(bits), lanes))
    for lane, wanted in product(orders, repeat=2):
        for quarter in range(1, max(lanes, 1) + 1):
            _check_exchange(lane, wanted, bits, quarter)


@st.composite
def _exchanges(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    bits = draw(st.integers(4, 10))
    lanes = draw(st.integers(1, min(bits, 6)))
    orders = st.permutations(range(bits)).map(lambda order: tuple(order[:lanes]))
    return draw(orders), draw(orders), bits, draw(st.integers(1, 4))


@settings(max_examples=examples(150))
@given(_exchanges())
def test_larger_exchanges(case: tuple[tuple[int, ...], tuple[int, ...], int, int]) -> None:
    _check_exchange(*case)


@given(_exchanges())
def test_every_shuffle_of_a_register_settles_a_bit(
    case: tuple[tuple[int, ...], tuple[int, ...], int, int],
) -> None:
    """A shuffle per register for each lane bit, and one more to put the lanes in order, are the most."""
    plan = _check_exchange(*case)
    assert len(plan.shuffles) % len(plan.loads) == 0
    assert len(plan.shuffles) <= (len(case[0]) + 1) * len(plan.loads)


@pytest.mark.parametrize(("side", "quarter"), [(2, 2), (3, 2), (4, 2), (4, 3), (5, 3), (5, 4), (6, 4)])
def test_a_square_transpose_takes_one_shuffle_per_register_and_bit(side: int, quarter: int) -> None:
    low, high = tuple(range(side)), tuple(range(side, 2 * side))
    plan = _check_exchange(low, high, 2 * side, quarter)
    assert len(plan.shuffles) == side << side


@pytest.mark.parametrize(("side", "quarter"), [(3, 2), (4, 2), (5, 3), (5, 4)])
def test_interleaving_stays_within_16_bytes(side: int, quarter: int) -> None:
    """Moves of bits within 16 bytes cost one unpack instruction per shuffle on every x86."""
    low, high = tuple(range(side)), tuple(range(side, 2 * side))
    plan = exchange(low, high, 2 * side, quarter)
    size = 1 << side
    inside = [
        all((source % size) >> quarter == place >> quarter for place, source in enumerate(step.mask))
        for step in plan.shuffles
    ]
    assert sum(inside) == quarter << side


def test_nothing_to_exchange_takes_no_shuffle() -> None:
    assert exchange((2, 0), (2, 0), 4, 2).shuffles == ()
    assert exchange((), (), 2, 1).loads == ((0,), (1,), (2,), (3,))


# --- merge -------------------------------------------------------------------------------------------------


@st.composite
def _merges(draw: st.DrawFn) -> tuple[tuple[Lanes, ...], tuple[Lanes, ...]]:
    width = draw(st.sampled_from((1, 2, 4, 8, 16)))
    count = draw(st.integers(1, 60))
    return draw(_registers(count, width)), draw(_registers(count, width))


@st.composite
def _registers(draw: st.DrawFn, count: int, width: int) -> tuple[Lanes, ...]:
    """All elements below `count` in any order, with lanes of nothing among them, cut into registers."""
    lanes = draw(st.permutations([*range(count), *[NOTHING] * draw(st.integers(0, width))]))
    lanes = [*lanes, *[NOTHING] * (-len(lanes) % width)]
    return tuple(tuple(lanes[i : i + width]) for i in range(0, len(lanes), width))


@settings(max_examples=examples(200))
@given(_merges())
def test_merge_gathers_any_permutation(case: tuple[tuple[Lanes, ...], tuple[Lanes, ...]]) -> None:
    loads, wanted = case
    plan = merge(loads, wanted)
    _check(plan)
    assert plan.loads == loads
    assert tuple(lanes for _, lanes in plan.stores) == wanted


@given(_merges())
def test_merge_takes_one_shuffle_less_than_a_register_has_sources(
    case: tuple[tuple[Lanes, ...], tuple[Lanes, ...]],
) -> None:
    loads, wanted = case
    home = {e: r for r, lanes in enumerate(loads) for e in lanes if e != NOTHING}
    sources = [len({home[e] for e in lanes if e != NOTHING}) for lanes in wanted]
    assert len(merge(loads, wanted).shuffles) <= sum(max(n - 1, 1) for n in sources)


def test_merge_leaves_a_register_that_is_right_alone() -> None:
    loads = ((0, 1, 2, 3), (4, 5, 6, 7))
    plan = merge(loads, loads)
    assert plan.shuffles == ()
    assert [register for register, _ in plan.stores] == [0, 1]


def test_merge_repeats_an_element_that_is_wanted_twice() -> None:
    _check(merge(((0, 1, 2, 3),), ((0, 0, 1, 1), (2, 2, 3, 3))))


# --- tiles -------------------------------------------------------------------------------------------------


@st.composite
def _tiles(draw: st.DrawFn) -> tuple[TileAxis, ...]:
    axes: list[TileAxis] = []
    strides = [draw(st.permutations(range(3))), draw(st.permutations(range(3)))]
    templates = [draw(st.sampled_from((1, 2, 3, 4, 5, 7, 8, 16))) for _ in range(draw(st.integers(0, 3)))]
    for place, template in enumerate(templates):
        count = draw(st.integers(1, template))
        src, dst = (_stride(templates, order, place) for order in strides)
        src *= draw(st.sampled_from((1, 1, 1, 0, -1, 2)))
        dst *= draw(st.sampled_from((1, 1, 1, -1)))
        axes.append(TileAxis(template, count, draw(st.integers(0, count)), src, dst))
    return tuple(axes)


def _stride(templates: list[int], order: list[int], place: int) -> int:
    return prod(t for other, t in enumerate(templates) if order[other] < order[place])


@settings(max_examples=examples(200))
@given(_tiles(), st.sampled_from((4, 8, 16, 32, 64)), st.sampled_from((4, 8, 16)), st.sampled_from((1, 3)))
def test_a_tile_stores_each_of_its_elements_once(
    axes: tuple[TileAxis, ...], lanes: int, quarter: int, cost: int
) -> None:
    plan = recipe(axes, lanes, min(quarter, lanes), cost)
    _check(plan)
    every = list(range(prod(axis.template for axis in axes)))
    assert _elements(plan.loads) == every
    assert _elements(tuple(names for _, names in plan.stores)) == every
    widths = {len(names) for names in plan.loads} | {len(names) for _, names in plan.stores}
    assert all(width <= lanes and width & (width - 1) == 0 for width in widths)


@given(_tiles())
def test_layout_numbers_the_first_axis_fastest(axes: tuple[TileAxis, ...]) -> None:
    places = tile_layout(axes)
    positions = [p[::-1] for p in product(*(range(axis.template) for axis in reversed(axes)))]
    for number, at in enumerate(positions):
        steps = list(zip(axes, at, strict=True))
        assert places.src[number] == sum(axis.src * i for axis, i in steps)
        assert places.dst[number] == sum(axis.dst * i for axis, i in steps)
        assert places.written[number] == all(i < axis.count for axis, i in steps)
        assert places.read[number] == all(i < min(axis.count, axis.valid) for axis, i in steps)


def test_a_tile_of_no_axes_is_one_element() -> None:
    assert tile_layout(()).dst == (0,)
    assert recipe((), 16, 4, 1).loads == ((0,),)


def test_piece_is_the_largest_group_of_neighbors() -> None:
    row = tuple(range(8))
    assert piece(row, tuple(range(8))) == 8
    assert piece(row, (0, 1, 2, 3, 10, 11, 12, 13)) == 4
    assert piece(row, (0, 2, 4, 6, 8, 10, 12, 14)) == 1
    assert piece((0, 1, 2, NOTHING), tuple(range(8))) == 4
    assert piece((0, NOTHING, 2, 3), tuple(range(8))) == 2
    assert piece((NOTHING, 1, NOTHING, 3), tuple(range(8))) == 1
    assert piece((1, 0), (0, 1)) == 1


def test_prefix_counts_what_leads() -> None:
    assert prefix([True, True, False]) == 2
    assert prefix([True, True]) == 2
    assert prefix([False]) == 0
    assert prefix([]) == 0
    assert prefix([True, False, True]) is None
