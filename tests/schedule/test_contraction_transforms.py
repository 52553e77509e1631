"""Schedules of contractions as lists of transforms: replayed, passed, refused; none changes a bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.schedule.contraction.schedule import draft_of, schedule_contraction, unrolled_turns
from restride.schedule.contraction.strides import Contraction, find_contraction
from restride.schedule.contraction.transforms import apply, name_of, transforms_of
from restride.schedule.language import Transform, parse_schedule, schedule_text
from restride.schedule.machine import Machine
from restride.targets.cpu import machine_of
from restride.targets.cpu_kernels import lower_plan
from restride.targets.isa import CacheSizes, Isa
from support.contractions import CONVOLUTIONS, ConvolutionShape, convolution_tree, run_contraction
from support.effort import examples
from support.guarded import Guarded
from support.kernels import runnable

_LEVELS = [Isa.for_name(name) for name in ("generic", "avx2", "avx512", "neon")]


def _contraction(number: int) -> Contraction:
    window, formats = CONVOLUTIONS[number]
    contraction = find_contraction(convolution_tree(window, window.descs(*formats)))
    assert contraction is not None
    return contraction


def _machine(isa: Isa) -> Machine:
    return machine_of(isa, CacheSizes())


def test_a_convolution_is_readable() -> None:
    plan = schedule_contraction(_contraction(0), _machine(Isa.for_name("avx2")))
    assert plan is not None
    assert schedule_text(transforms_of(plan)).split(" · ") == [
        "tile(ow/1, 5, 2)",
        "reorder(n/1, columns, oh/1)",
        "unroll(ic/1, 8)",
        "prefetch(0, 0)",
    ]


@pytest.mark.parametrize("number", range(len(CONVOLUTIONS)))
@pytest.mark.parametrize("isa", _LEVELS, ids=lambda isa: isa.name)
def test_what_is_chosen_is_replayed(number: int, isa: Isa) -> None:
    contraction, machine = _contraction(number), _machine(isa)
    chosen = schedule_contraction(contraction, machine)
    if chosen is not None:
        text = schedule_text(transforms_of(chosen))
        assert apply(contraction, machine, parse_schedule(text)) == chosen, text
        assert apply(contraction, machine, ()) == chosen


@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_any_list_that_fits_writes_the_same_bits(data: st.DataObject) -> None:
    number = data.draw(st.sampled_from(range(len(CONVOLUTIONS))))
    isa = data.draw(st.sampled_from(runnable()))
    contraction, machine = _contraction(number), _machine(isa)
    draft, chosen = draft_of(contraction, machine), schedule_contraction(contraction, machine)
    if draft is None or chosen is None:
        return
    rows, vectors = data.draw(st.sampled_from(draft.shapes[:12]))
    around = data.draw(st.permutations([*map(name_of, draft.around), "columns"]))
    tile = Transform("tile", (name_of(draft.row), rows, vectors))
    wanted = [tile, Transform("reorder", tuple(around))]
    try:
        plan = apply(contraction, machine, tuple(wanted))
        if plan.loops:
            turns = unrolled_turns(plan, draft.cost.operations * draft.cost.parts)
            unroll = Transform("unroll", (name_of(plan.loops[-1]), data.draw(st.sampled_from(turns))))
            wanted = [*wanted, unroll, Transform("prefetch", (0,))]
            plan = apply(contraction, machine, tuple(wanted))
        if not plan.is_by_lanes and plan.columns_at == len(plan.grid):
            tiles = data.draw(st.integers(1, plan.tiling.count))
            wanted.append(Transform("strip", (name_of(draft.row), tiles)))
        if plan.split_loop is not None:
            turns_at_once = data.draw(st.integers(1, plan.split_turns))
            wanted.append(Transform("split", (name_of(plan.split_loop), turns_at_once)))
        plan = apply(contraction, machine, tuple(wanted))
    except rs.InvalidArguments:
        return
    window, formats = CONVOLUTIONS[number]
    descs, random = window.descs(*formats), np.random.default_rng(0)
    values = [random.integers(0, 256, md.size, np.uint8) & 0x3F for md in descs]
    answers = [_answer(lower_plan(each, machine, isa), values) for each in (chosen, plan)]
    assert answers[0] == answers[1], schedule_text(transforms_of(plan))


@pytest.mark.parametrize("block", [2, 6])
@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_split_sums_of_few_lanes_are_kept_where_they_lie(isa: Isa, block: int) -> None:
    window = ConvolutionShape(3, 1, 4, 8, 12, 9, (3, 2), padding=2)
    descs = window.descs("abcd", f"Abcd{block}a", f"aBcd{block}b")
    contraction = find_contraction(convolution_tree(window, descs))
    assert contraction is not None
    machine, random = _machine(isa), np.random.default_rng(0)
    values = [random.integers(0, 256, md.size, np.uint8) & 0x3F for md in descs]
    plan = apply(contraction, machine, ())
    assert plan.split_loop is not None
    split = apply(contraction, machine, (Transform("split", (name_of(plan.split_loop), 2)),))
    assert len({_answer(lower_plan(each, machine, isa), values) for each in (plan, split)}) == 1


def _answer(lowered: object, values: list[np.ndarray]) -> bytes:
    buffers = [Guarded(each.nbytes, at_end=True) for each in values]
    for buffer, each in zip(buffers, values, strict=True):
        buffer.write(each.tobytes())
    run_contraction(lowered, buffers)  # type: ignore[arg-type]
    return buffers[2].read()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("vectorize(oc/1, 8)", "no transform vectorize"),
        ("pack(ic/1, 4)", "there is none"),
        ("tile(oh/1, 4, 2)", "the number of rows"),
        ("tile(ow/1, 64, 9)", "fit the registers"),
        ("reorder(columns)", "the loops around tiles are"),
        ("unroll(kw/1, 2)", "it takes"),
        ("unroll(ic/1, 3)", "it takes"),
        ("strip(ow/1, 1)", "columns must be the loop directly around"),
        ("reorder(n/1, oh/1, columns) · strip(oh/1, 1)", "a number of its 2 tiles"),
        ("split(ic/1, 1)", "a number of its 3 iterations"),
        ("split(kh/1, 4)", "a number of its 3 iterations"),
        ("prefetch(1)", "the number of lines"),
        ("prefetch(0, 2)", "operands are numbered"),
        ("prefetch(0, x)", "the number of lines"),
        ("2.tile(ow/1, 4, 2)", "a single loop"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_transform(text: str, why: str) -> None:
    with pytest.raises(rs.InvalidArguments, match=why) as error:
        apply(_contraction(0), _machine(Isa.for_name("avx2")), parse_schedule(text))
    assert error.value.code == "RS-V09"
    assert text.split(" · ")[-1] in str(error.value)
