"""Transforms of moves: they make what was chosen of its text, refuse what does not fit, and change no bit."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import reorder_nest
from restride.ir.nest import LoopNest, linear
from restride.ir.nest_rewrites import in_pairs, normalize, peel, peeled_boxes
from restride.ops.programs.shuffle import shuffle_in_stages, shuffle_nest
from restride.schedule.language import Schedule as Transforms
from restride.schedule.language import Transform, parse_schedule
from restride.schedule.machine import Machine
from restride.schedule.moves.blocks import Blocks, boxes_of_blocks, cuts
from restride.schedule.moves.loop_order import Grid
from restride.schedule.moves.schedule import Schedule, moves_whole_bytes, schedule
from restride.schedule.moves.transforms import apply, text_of, transforms_of
from restride.schedule.moves.whole_nest import apply_whole, bounded
from restride.targets import cpu
from restride.targets.isa import CacheSizes, Isa, host_isa
from restride.targets.lowered import Lowered
from support.descriptors import pairs
from support.effort import examples
from support.guarded import Guarded
from support.ir_problems import ON_CPU
from support.kernels import (
    POISON,
    TINY,
    Bytes,
    Kernel,
    destination,
    difference,
    expected,
    random_source,
    runnable,
)
from support.nests import buffers, nests
from support.problem_primitives import primitive_desc_of
from support.shuffles import STAGED, ShuffleCase

_AVX512 = Machine(vector_bytes=64, registers=32)
_MACHINES = (Machine(), Machine(vector_bytes=32), _AVX512, Machine(registers=32))
_machines = st.sampled_from((*_MACHINES, *(dataclasses.replace(m, l2=1, l3=1) for m in _MACHINES)))
# Nests of more boxes are run with guards, which no schedule is for.
_MOST_BOXES = 8


def _boxes(nest: LoopNest) -> list[LoopNest]:
    return [in_pairs(normalize(box)) for box in peel(nest)]


def _plans(boxes: Sequence[LoopNest], machine: Machine) -> tuple[Schedule, ...]:
    return tuple(plan for box in boxes for plan in schedule(box, machine))


def _of(src: str, dst: str, dims: tuple[int, ...], **factors: bool) -> list[LoopNest]:
    """The boxes of a reorder; `src` and `dst` are a data type and a tag."""
    made = (MemoryDesc(dims, *text.split()) for text in (src, dst))
    return _boxes(reorder_nest(*made, linear(**factors)))


# --- there and back -----------------------------------------------------------------------------------------


def _check_round_trip(boxes: Sequence[LoopNest], plans: Sequence[Schedule], machine: Machine) -> None:
    text = text_of(boxes, plans)
    assert parse_schedule(text) == transforms_of(boxes, plans)
    assert apply(boxes, parse_schedule(text), machine) == tuple(plans)


@settings(max_examples=examples(400))
@given(nests(), _machines)
def test_the_text_of_a_schedule_makes_it_again(nest: LoopNest, machine: Machine) -> None:
    boxes = _boxes(nest)
    _check_round_trip(boxes, _plans(boxes, machine), machine)


@settings(max_examples=examples(200))
@given(pairs(max_ndims=5), _machines, st.booleans())
def test_the_text_of_a_reorder_makes_it_again(
    pair: tuple[MemoryDesc, MemoryDesc], machine: Machine, summed: bool
) -> None:
    nest = reorder_nest(*pair, linear(summed=summed))
    assume(peeled_boxes(nest) <= _MOST_BOXES)
    plans = _plans(boxes := _boxes(nest), machine)
    assume(moves_whole_bytes(plans))
    _check_round_trip(boxes, plans, machine)


@pytest.mark.parametrize("group", ON_CPU)
def test_whatever_the_golden_kernels_are_scheduled_by_is_made_again(group: str) -> None:
    engine, count = rs.Engine("reference"), 0
    for number, problem in enumerate(ON_CPU[group]):
        if problem.kind in ("amax", "min_max"):
            continue
        pd = primitive_desc_of(problem, engine)
        machine = dataclasses.replace(_MACHINES[number % 4], l2=problem.caches[0], l3=problem.caches[1])
        for step in pd._impl.problem.program().nests:
            if step.nest.is_empty or peeled_boxes(step.nest) > _MOST_BOXES:
                continue
            boxes = _boxes(step.nest)
            plans = _plans(boxes, machine)
            if moves_whole_bytes(plans):
                _check_round_trip(boxes, plans, machine)
                count += 1
    assert count or group == "ranges"


# --- other schedules write the same bytes -------------------------------------------------------------------


@st.composite
def _edited(draw: st.DrawFn, plan: Schedule) -> Schedule:
    """Another tile, order, grid, or way to load and store: it need not fit."""
    chunks = list(plan.chunks)
    for index, axis in enumerate(plan.nest.axes):
        if draw(st.integers(0, 2)) == 0:
            whole = 1 << (axis.extent - 1).bit_length()
            sizes = (1, 2, 3, 4, 8, 16, 32, 64, axis.extent, whole, max(axis.extent - 1, 1))
            chunks[index] = draw(st.sampled_from(sizes))
    made = dataclasses.replace(plan, chunks=tuple(chunks))
    loops = [i for i in range(len(chunks)) if made.tiles(i) > 1]
    grid: list[Grid] = []
    inner = list(draw(st.permutations(loops)))
    for index in draw(st.permutations(loops)):
        match draw(st.sampled_from(("no", "all", "cut"))):
            case "all":
                grid.append(Grid(index, 1))
                inner.remove(index)
            case "cut":
                grid.append(Grid(index, draw(st.integers(1, made.tiles(index)))))
    late = draw(st.booleans())
    return dataclasses.replace(
        made,
        grid=tuple(grid),
        inner=tuple(inner),
        late=late,
        streams=draw(st.booleans()),
        prefetch=0 if plan.nest.is_zero else draw(st.sampled_from((0, 64, 128, 4096, 100_000))),
    )


def _fitting(boxes: Sequence[LoopNest], plans: list[Schedule], machine: Machine) -> tuple[Schedule, ...]:
    """The schedules that fit; the others without streaming, or as they are chosen."""
    found: list[Schedule] = []
    for plan, chosen in zip(plans, _plans(boxes, machine), strict=True):
        for attempt in (plan, plan.without_streams(), chosen):
            with contextlib.suppress(rs.InvalidArguments):
                found += apply([plan.nest], transforms_of([plan.nest], [attempt]), machine)
                break
    return tuple(found)


class _Scheduled(Kernel):
    """The machine code of a nest by a schedule."""

    def __init__(self, lowered: Lowered) -> None:
        self._take(lowered)


def _check_bytes(
    nest: LoopNest, lowered: Lowered, memory: tuple[Bytes, Bytes], *, at_end: bool, parts: int
) -> None:
    """The kernel of a schedule writes into a copy of the destination what is interpreted, and nothing else;
    source and destination lie between pages that nobody may touch.
    """
    content, before = memory
    factors = (0.75, 0.5)
    wanted = expected(nest, content, before, *factors)
    source, target = Guarded(content.size, at_end=at_end), Guarded(before.size, at_end=at_end)
    source.write(content.tobytes())
    source.lock()
    target.write(before.tobytes())
    if lowered.unaligned and target.address % 64:
        lowered = lowered.unaligned()
    _Scheduled(lowered)(source.address, target.address, *factors, parts=parts)
    problem = difference(np.frombuffer(target.read(), np.uint8).copy(), wanted, nest.dst_type)
    assert not problem, f"{problem}\n{nest}\n{lowered}"
    assert not target.around() - {POISON}, "bytes outside the destination were written"


def _edit(data: st.DataObject, nest: LoopNest, isa: Isa) -> Lowered:
    """The nest by schedules that nobody chose."""
    assume(peeled_boxes(nest) <= _MOST_BOXES and not nest.is_empty)
    assume(not cpu.splits_bytes(cpu.lower_nest(nest, isa, TINY)))
    machine, boxes = cpu.machine_of(isa, TINY), _boxes(nest)
    plans = [data.draw(_edited(plan), label="edited") for plan in _plans(boxes, machine)]
    return cpu.lower_by(nest, transforms_of(boxes, _fitting(boxes, plans, machine)), isa, TINY)


# Destinations of whole lines: what may go past the caches.
_OF_LINES = (
    ((64, 96), "f32 f32", "ab ba"),
    ((128, 64), "u8 u8", "ab ba"),
    ((2, 33, 4, 16), "f32 bf16", "abcd aBcd32b"),
    ((2, 48, 5, 3), "s8 f32", "abcd aBcd16b"),
    ((7, 320), "f32 f32", "ab ab"),
    ((3, 128, 20), "u8 u8", "abc acb"),
    ((64, 128), "s4 s4", "ab ba"),
)


def _pair(dims: tuple[int, ...], types: str, tags: str) -> tuple[MemoryDesc, MemoryDesc]:
    (src_type, dst_type), (src, dst) = types.split(), tags.split()
    return MemoryDesc(dims, src_type, src), MemoryDesc(dims, dst_type, dst)


@settings(max_examples=examples(160), suppress_health_check=list(HealthCheck))
@given(
    st.one_of(pairs(max_ndims=4), st.sampled_from(_OF_LINES).map(lambda forms: _pair(*forms))),
    st.data(),
    st.sampled_from(runnable()),
    st.booleans(),
    st.booleans(),
)
def test_other_schedules_of_reorders_write_the_same_bytes(
    pair: tuple[MemoryDesc, MemoryDesc], data: st.DataObject, isa: Isa, at_end: bool, summed: bool
) -> None:
    src, dst = pair
    assume(not summed or dst.data_type.bits >= 8)
    nest = reorder_nest(src, dst, linear(scaled=summed, summed=summed))
    lowered = _edit(data, nest, isa)
    memory = random_source(src, 1), destination(dst, 3)
    _check_bytes(nest, lowered, memory, at_end=at_end, parts=data.draw(st.sampled_from((1, 2, 5))))


@settings(max_examples=examples(120), suppress_health_check=list(HealthCheck))
@given(nests(), st.data(), st.sampled_from(runnable()), st.booleans())
def test_other_schedules_of_nests_write_the_same_bytes(
    nest: LoopNest, data: st.DataObject, isa: Isa, at_end: bool
) -> None:
    src, dst = (array.view(np.uint8) for array in buffers(nest))
    _check_bytes(nest, _edit(data, nest, isa), (src, dst), at_end=at_end, parts=2)


# --- blocks and stages --------------------------------------------------------------------------------------


@st.composite
def _in_blocks(draw: st.DrawFn, nest: LoopNest, machine: Machine) -> Transforms:
    """Blocks that nobody chose: of any axis that may be cut, of any length that fits."""
    whole = bounded(nest)
    axes = cuts(whole)
    assume(axes)
    axis = draw(st.sampled_from(axes))
    extent = whole.axes[axis].extent
    positions = draw(st.sampled_from([n for n in range(1, extent + 1) if extent % n == 0]))
    head = Transform("block", (f"a{axis}", positions))
    if draw(st.booleans()):
        return (head,)
    blocks = apply_whole(nest, None, (head,), machine, tuple)
    assert isinstance(blocks, Blocks)
    boxes = boxes_of_blocks(blocks)
    plans = [draw(_edited(plan)) for plan in _plans(boxes, machine)]
    fitting = [plan.without_streams() for plan in _fitting(boxes, plans, machine)]
    return (head, *transforms_of(boxes, fitting))


@settings(max_examples=examples(160), suppress_health_check=list(HealthCheck))
@given(pairs(max_ndims=4), st.data(), st.sampled_from(runnable()), st.booleans(), st.booleans())
def test_any_blocks_of_reorders_write_the_same_bytes(
    pair: tuple[MemoryDesc, MemoryDesc], data: st.DataObject, isa: Isa, at_end: bool, summed: bool
) -> None:
    src, dst = pair
    nest = reorder_nest(src, dst, linear(scaled=summed, summed=summed))
    assume(not nest.is_empty)
    transforms = data.draw(_in_blocks(nest, cpu.machine_of(isa, TINY)))
    lowered = cpu.lower_by(nest, transforms, isa, TINY)
    assert isinstance(lowered.plan, Blocks)
    memory = random_source(src, 1), destination(dst, 3)
    _check_bytes(nest, lowered, memory, at_end=at_end, parts=data.draw(st.sampled_from((1, 2, 5))))
    again = cpu.lower_by(nest, parse_schedule(str(lowered)), isa, TINY)
    assert again.plan == lowered.plan
    assert str(again) == str(lowered)


@pytest.mark.parametrize("case", STAGED, ids=lambda case: case.name)
@pytest.mark.parametrize("words", ["", ", flush", ", stream"])
def test_stages_of_any_chunk_write_the_same_bytes(case: ShuffleCase, words: str) -> None:
    isa, count = runnable()[-1], 0
    assert case.chain is not None
    src, dst = random_source(case.src, 1), destination(case.dst)
    for chunk in (1, 3, 16, case.chain.along.extent):
        text, lowered = f"stage({chunk}{words})", None
        with contextlib.suppress(rs.InvalidArguments):
            lowered = cpu.lower_by(case.nest, parse_schedule(text), isa, TINY, chain=case.chain)
        if lowered is None:
            continue
        count += 1
        _check_bytes(case.nest, lowered, (src, dst), at_end=bool(chunk % 2), parts=3)
        again = cpu.lower_by(case.nest, parse_schedule(str(lowered)), isa, TINY, chain=case.chain)
        assert again.plan == lowered.plan
    assert count or words == ", stream" or not case.chain.run


REFUSED = {
    "block(a0)": "takes an axis and a number",
    "block(a9, 1)": "the axes that can be cut are a0 of 96, a1 of 80",
    "block(a0, 7)": "a divisor",
    "block(a0, 0)": "a divisor",
    "2.block(a0, 1)": "omit the number",
    "block(a0, 16) . tile(a0, 16) . tile(a1, 16) . stream()": "do not stream",
    "tile(a0, 4) . block(a0, 8)": "the first transform",
    "block(a0, 8) . stage(4)": "the first transform",
    "block(a0, 8) . 9.tile(a0, 4)": "there are boxes",
    "stage(4)": "no stages",
    "stage()": "stage takes a number",
    "stage(4, 4)": "stage takes a number",
    "block()": "takes an axis and a number",
}


@pytest.mark.parametrize("text", REFUSED)
def test_blocks_and_stages_that_do_not_fit_are_refused(text: str) -> None:
    nest = reorder_nest(MemoryDesc((80, 96), "f32", "ab"), MemoryDesc((80, 96), "f32", "ba"), linear())
    with pytest.raises(rs.InvalidArguments, match="RS-V09") as refused:
        cpu.lower_by(nest, parse_schedule(text.replace(" . ", " · ")), host_isa(), TINY)
    assert REFUSED[text] in str(refused.value)


def test_a_position_that_does_not_fit_the_scratch_is_refused() -> None:
    md = MemoryDesc((2, 750000, 2), "f64", "aBc16b24b")
    nest, chain = shuffle_nest(md, md, 1, 3), shuffle_in_stages(md, md, 1, 3)
    with pytest.raises(rs.InvalidArguments, match="a position does not fit"):
        cpu.lower_by(nest, parse_schedule("stage(1)"), host_isa(), TINY, chain=chain)


def test_elements_that_share_a_byte_are_in_no_blocks() -> None:
    nest = reorder_nest(MemoryDesc((64, 96), "s4", "ab"), MemoryDesc((64, 96), "s4", "ba"), linear())
    with pytest.raises(rs.InvalidArguments, match="share a byte"):
        cpu.lower_by(nest, parse_schedule("block(a0, 8)"), host_isa(), TINY)


def test_a_search_goes_from_blocks_to_none_and_back() -> None:
    nest = reorder_nest(
        MemoryDesc((40, 17, 7, 7), "u8", "abcd"), MemoryDesc((40, 17, 7, 7), "u8", "aBcd16b"), linear()
    )
    choice = cpu.lower_nest(nest, host_isa(), CacheSizes(l2=1 << 10, l3=1 << 12)).choice()
    assert choice.transforms[0].name == "block"
    *_, near = choice.neighbors()
    others = [other for other in near(choice.transforms) if choice.fits(other)]
    assert {other[0].name for other in others} == {"block", "tile"}
    direct = next(other for other in others if other[0].name == "tile")
    assert "block" in {other[0].name for other in near(direct)}
