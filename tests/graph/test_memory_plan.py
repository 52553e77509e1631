"""Memory plans: what lives at the same time lies apart, and the block is not larger than it need be."""

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.graph.network.memory_plan import ArenaTensor, MemoryStep, lifetimes, plan_memory


def _bytes(tensor, plan):
    return range(plan.offsets[tensor.name], plan.offsets[tensor.name] + tensor.size)


def _live_together(a, b):
    return a.first <= b.last and b.first <= a.last


def _overlap(a, b):
    return bool(a) and bool(b) and a.start < b.stop and b.start < a.stop


@st.composite
def _networks(draw):
    """Steps that read some of what was written before, write one or two tensors, and may work in place."""
    steps, names, sizes = [], [], {}
    for place in range(draw(st.integers(1, 12))):
        reads = draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else []
        writes = [f"t{place}.{i}" for i in range(draw(st.integers(1, 2)))]
        sizes |= {name: draw(st.sampled_from([0, 1, 64, 65, 1000, 4096])) for name in writes}
        is_view = bool(reads) and draw(st.integers(0, 4)) == 0
        pairs = ((writes[0], reads[0]),) if reads and draw(st.booleans()) else ()
        in_place, views = ((), ((writes[0], reads[0]),)) if is_view else (pairs, ())
        scratch = draw(st.sampled_from([0, 0, 100]))
        steps.append(MemoryStep(tuple(reads), tuple(writes), in_place, views, scratch))
        names += writes
    return steps, sizes, draw(st.lists(st.sampled_from(names), max_size=2, unique=True))


@given(_networks())
@settings(max_examples=30)
def test_tensors_that_live_together_never_overlap(network):
    tensors = lifetimes(*network)
    plan = plan_memory(tensors)
    for a, b in combinations(tensors, 2):
        if _live_together(a, b) and b.over != a.name and a.over != b.name:
            assert not _overlap(_bytes(a, plan), _bytes(b, plan)), (a, b)


@given(_networks())
@settings(max_examples=30)
def test_the_block_holds_all_and_is_between_what_lives_at_once_and_a_place_for_each(network):
    tensors = lifetimes(*network)
    plan = plan_memory(tensors)
    assert all(_bytes(each, plan).stop <= plan.peak for each in tensors)
    assert all(offset % 64 == 0 for offset in plan.offsets.values())
    assert plan.lower_bound <= plan.peak <= plan.unshared
    assert plan.unshared == sum(-(-each.size // 64) * 64 for each in tensors)


def _contents(steps, sizes, outputs, plan):
    """Run the steps on bytes: each tensor holds its own mark from its writing to its last use."""
    block, owners = {}, {}
    for place, step in enumerate(steps):
        owners |= {made: owners.get(read, read) for made, read in step.views}
        read = [owners.get(name, name) for name in step.reads]
        yield from ((name, block, place) for name in read)
        for name in (name for name in step.writes if name not in owners):
            block.update((plan.offsets[name] + i, name) for i in range(sizes[name]))
    yield from ((owners.get(name, name), block, len(steps)) for name in outputs)


@given(_networks())
@settings(max_examples=30)
def test_every_step_finds_what_was_written(network):
    steps, sizes, outputs = network
    plan = plan_memory(lifetimes(steps, sizes, outputs))
    for name, block, place in _contents(steps, sizes, outputs, plan):
        held = {block[plan.offsets[name] + i] for i in range(sizes[name])}
        assert held <= {name}, place


def test_a_chain_needs_two_tensors_and_one_where_it_works_in_place():
    sizes = {f"t{i}": 640 for i in range(6)}
    names = list(sizes)
    apart = [
        MemoryStep((), ("t0",)),
        *(MemoryStep((a,), (b,)) for a, b in pairwise(names)),
    ]
    over = [replace(step, in_place=((*step.writes, *step.reads),)) for step in apart[1:]]
    assert plan_memory(lifetimes(apart, sizes)).peak == 1280
    assert plan_memory(lifetimes([apart[0], *over], sizes)).peak == 640


def test_a_tensor_that_is_read_later_is_not_written_over():
    steps = [
        MemoryStep((), ("a",)),
        MemoryStep(("a",), ("b",), in_place=(("b", "a"),)),
        MemoryStep(("a", "b"), ("c",), in_place=(("c", "b"),)),
    ]
    a, b, c = lifetimes(steps, {"a": 64, "b": 64, "c": 64}, ["c"])
    assert (a.over, b.over, c.over) == ("", "", "b")
    plan = plan_memory([a, b, c])
    assert plan.offsets["a"] != plan.offsets["b"] == plan.offsets["c"]


def test_a_view_keeps_what_it_is_a_view_of():
    steps = [
        MemoryStep((), ("a",)),
        MemoryStep(("a",), ("v",), views=(("v", "a"),)),
        MemoryStep((), ("b",)),
        MemoryStep(("v", "b"), ("c",)),
    ]
    tensors = lifetimes(steps, dict.fromkeys("avbc", 64), ["c"])
    assert [each.name for each in tensors] == ["a", "b", "c"]
    assert tensors[0] == ArenaTensor("a", 64, 0, 3)


def test_scratch_lies_apart_from_what_its_step_reads_and_writes():
    steps = [MemoryStep((), ("a",)), MemoryStep(("a",), ("b",), scratch=100), MemoryStep(("b",), ("c",))]
    plan = plan_memory(lifetimes(steps, {"a": 64, "b": 64, "c": 64}, ["c"]))
    assert plan.peak == plan.lower_bound == 256


def test_gaps_between_what_stays_are_filled_with_what_fits_best():
    tensors = [
        ArenaTensor("long", 1024, 0, 3),
        ArenaTensor("early", 512, 0, 1),
        ArenaTensor("late", 512, 2, 3),
        ArenaTensor("small", 64, 2, 3),
    ]
    plan = plan_memory(tensors)
    assert plan.offsets["early"] == plan.offsets["late"]
    assert plan.peak == plan.lower_bound == 1600


@pytest.mark.parametrize(
    "wrong",
    [
        [ArenaTensor("a", 64, 0, 2), ArenaTensor("b", 64, 1, 2, over="a")],
        [ArenaTensor("a", 64, 0, 1), ArenaTensor("b", 64, 1, 2, over="c")],
        [ArenaTensor("a", 64, 0, 1), ArenaTensor("b", 64, 1, 2, "a"), ArenaTensor("c", 64, 1, 2, "a")],
    ],
    ids=["lives on", "not there", "twice"],
)
def test_nothing_lies_over_what_is_still_needed(wrong):
    with pytest.raises(rs.InvalidArguments, match="cannot lie over"):
        plan_memory(wrong)


def test_a_tensor_that_no_step_writes_has_no_lifetime():
    with pytest.raises(rs.InvalidArguments, match="no step writes 'weights'"):
        lifetimes([MemoryStep(("weights",), ("a",))], {"weights": 64, "a": 64})


def test_nothing_takes_no_memory():
    plan = plan_memory([])
    assert (plan.peak, plan.lower_bound, plan.unshared, dict(plan.offsets)) == (0, 0, 0, {})


def test_a_thousand_tensors_are_placed_close_to_the_bound():
    # A network of 500 steps whose every fourth tensor is read 20 steps later.
    steps = [MemoryStep((), ("t0",))]
    for i in range(1, 500):
        later = (f"t{i - 20}",) if i >= 20 and i % 4 == 0 else ()
        steps.append(MemoryStep((f"t{i - 1}", *later), (f"t{i}",)))
    plan = plan_memory(lifetimes(steps, {f"t{i}": 64 * (1 + 37 * i % 101) for i in range(500)}))
    assert plan.lower_bound <= plan.peak <= 1.1 * plan.lower_bound
