"""`rs.plan`: what would run, told without running it."""

import dataclasses

import numpy as np
import pytest

import restride as rs
from restride.runtime.cpu import kernel, schedule_search
from restride.schedule.language import parse_schedule
from support.errors import refused

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
DIMS = (2, 17, 3, 5)
X = np.arange(510, dtype=np.float32).reshape(DIMS)
NCHW = rs.MemoryDesc(DIMS, "f32", "nchw")


@pytest.fixture
def threads():
    before = rs.get_num_threads()
    yield rs.set_num_threads
    rs.set_num_threads(before)


@pytest.fixture
def nothing_runs(monkeypatch):
    """To load a kernel fails."""

    def fail(*_):
        raise AssertionError("compiled")

    monkeypatch.setattr(kernel, "Kernel", fail)


def test_a_plan_tells_bytes_padding_kernel_and_reason(nothing_runs):
    plan = rs.plan(X, "nChw16c", dtype="s8")
    assert plan.src == NCHW
    assert plan.dst == rs.MemoryDesc(DIMS, "s8", "nChw16c")
    assert plan.bytes_moved == 510 * 4 + 2 * 32 * 15
    assert plan.padding == 2 * 15 * 15
    assert plan.impl.startswith("jit:")
    assert plan.why
    assert plan.threads == 1


def test_plans_say_what_the_primitive_says():
    for dst, dtype in (("nhwc", None), ("nChw16c", "s8"), (None, "bf16"), ("nchw", None)):
        plan = rs.plan(X, dst, dtype=dtype)
        pd = rs.Reorder.PrimitiveDesc(CPU, plan.src, CPU, plan.dst)
        assert plan.impl == pd.impl_info_str


def test_the_whole_kernel_can_be_read(nothing_runs):
    plan = rs.plan(X, "nhwc")
    assert "dst = f32(src)" in plan.nest
    assert "define" in plan.ir
    assert "ret" in plan.asm
    assert plan.schedule
    text = str(plan)
    for part in (str(plan.src), str(plan.dst), plan.impl, plan.why, "nest", "schedule", "moves"):
        assert part in text
    assert repr(plan).startswith("Plan(")


def test_a_plan_cannot_be_changed():
    plan = rs.plan(X, "nhwc")
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.threads = 7


@pytest.mark.parametrize(
    "x", [X, NCHW, rs.Memory.from_numpy(X), rs.Memory(NCHW, CPU, rs.NO_DATA)], ids=lambda v: type(v).__name__
)
def test_arrays_memories_and_descriptors_are_planned_alike(x):
    plan = rs.plan(x, "nhwc")
    assert (plan.src, plan.dst) == (NCHW, rs.MemoryDesc(DIMS, "f32", "nhwc"))
    assert plan.impl == rs.plan(X, "nhwc").impl


def test_a_tensor_larger_than_memory_can_be_planned(nothing_runs):
    plan = rs.plan(rs.MemoryDesc((1 << 20, 1 << 20, 3), "u8", "abc"), "acb")
    assert plan.bytes_moved == 2 * 3 << 40


def test_factors_show_in_the_nest():
    assert "alpha * src" in rs.plan(X, "nhwc", scale=0.5).nest
    assert "beta * dst" in rs.plan(X, "nhwc", beta=0.5).nest
    assert "alpha" not in rs.plan(X, "nhwc", scale=1.0, beta=0).nest
    assert rs.plan(X, "nhwc", beta=0.5).bytes_moved == 3 * X.nbytes


def test_gaps_move_no_bytes():
    assert rs.plan(X, (255 << 20, 15 << 20, 5 << 20, 1 << 20)).bytes_moved == 2 * X.nbytes
    assert rs.plan(X[:, ::2], None).bytes_moved == 2 * X[:, ::2].nbytes


def test_nothing_to_do_is_planned_too(nothing_runs):
    plan = rs.plan(np.empty((0, 3, 2, 2), np.float32), "nChw16c")
    assert (plan.bytes_moved, plan.padding, plan.threads) == (0, 0, 1)
    assert plan.impl == "jit:nothing"
    assert plan.ir == plan.asm == ""
    assert "nothing" in str(plan)


def test_the_reference_engine_compiles_nothing():
    plan = rs.plan(X, "nhwc", engine=REF)
    assert (plan.impl, plan.threads, plan.ir) == ("ref:any", 1, "")
    assert rs.plan(rs.Memory.from_numpy(X, None, REF), "nhwc").impl == "ref:any"


def test_small_work_is_for_one_thread_and_large_for_all(threads):
    large = rs.MemoryDesc((64, 64, 56, 56), "f32", "nchw")
    for count in (1, 2, 5):
        threads(count)
        assert rs.plan(X, "nhwc").threads == 1
        assert rs.plan(large, "nhwc").threads == count
        assert ("1 thread" if count == 1 else f"up to {count} threads") in str(rs.plan(large, "nhwc"))


def test_a_prediction_is_positive_and_grows_with_the_bytes(nothing_runs, threads):
    threads(2)
    found = [
        rs.plan(rs.MemoryDesc((n, 64, 56, 56), "f32", "nchw"), "nhwc").predicted for n in (1, 4, 16, 64, 512)
    ]
    assert [each.moved_bytes for each in found] == [n * 64 * 56 * 56 * 8 for n in (1, 4, 16, 64, 512)]
    seconds = [each.seconds for each in found]
    assert seconds == sorted(set(seconds))
    assert all(0 < each.gb_per_s < 10_000 for each in found)


def test_a_plan_is_measured_only_when_asked_and_tells_it_from_then_on():
    x = X.copy()
    plan = rs.plan(x, "nChw16c", dtype="s8", scale=[0.5] * 17, axis=1)
    assert plan.measured is None
    assert "predicted" in str(plan)
    assert "not measured" in str(plan)
    found = plan.measure(rounds=3)
    assert plan.measured is found
    assert 0 < found.low <= found.seconds <= found.high
    assert (found.rounds, found.threads, found.moved_bytes) == (3, plan.threads, plan.bytes_moved)
    assert found.gb_per_s == found.moved_bytes / found.seconds / 1e9
    assert "in half of the 3 rounds" in str(plan)
    assert np.array_equal(x, X)


def test_a_plan_and_its_measurement_tell_of_the_same_threads(threads):
    threads(2)
    for side, words in ((4, "1 thread"), (128, "up to 2 threads")):
        plan = rs.plan(rs.MemoryDesc((8, 16, side, side), "f32", "nchw"), "nhwc")
        plan.measure(rounds=1)
        kernel, speed = str(plan).splitlines()[3:5]
        assert kernel.endswith(words)
        assert speed.endswith(f"with {words})")


@pytest.mark.parametrize(
    ("x", "kwargs"),
    [
        (np.empty((0, 3), np.float32), {}),
        (X, {"engine": REF}),
        (X[:, ::2], {"beta": 0.5}),
        (X, {"dtype": "u4"}),
        (X, {"zero_point": 3, "dtype": "u8"}),
    ],
    ids=["empty", "reference", "sum", "4 bits", "zero point"],
)
def test_whatever_is_planned_can_be_measured(x, kwargs):
    plan = rs.plan(x, None, **kwargs)
    assert plan.measure(rounds=1).seconds > 0
    assert "measured" in str(plan)


def test_an_engine_may_be_named():
    assert rs.plan(X, "nhwc", engine="reference").impl == rs.plan(X, "nhwc", engine=REF).impl


def test_the_reference_engine_foretells_nothing():
    with refused("plan.predicted is not possible", "plan.measure()", kind=rs.Unimplemented):
        _ = rs.plan(X, "nhwc", engine=REF).predicted
    assert "nothing to predict" in str(rs.plan(X, "nhwc", engine=REF))


def test_what_has_no_room_is_not_measured():
    plan = rs.plan(rs.MemoryDesc((1 << 20, 1 << 20, 3), "u8", "abc"), "acb")
    with pytest.raises(rs.OutOfMemory, match="bytes are free"):
        plan.measure()


@pytest.mark.parametrize("rounds", [0, -1, "3", 1.5], ids=str)
def test_rounds_are_a_positive_number(rounds):
    with pytest.raises(rs.InvalidArguments, match="rounds"):
        rs.plan(X, "nhwc").measure(rounds=rounds)


def test_out_says_where_it_goes():
    out = np.empty((2, 3, 5, 17), np.int8).transpose(0, 3, 1, 2)
    assert rs.plan(X, None, out=out).dst == rs.MemoryDesc(DIMS, "s8", "nhwc")
    assert rs.plan(X, "nhwc", out=out).dst.data_type is rs.s8
    physical = np.empty((2, 2, 3, 5, 16), np.float32)
    assert rs.plan(X, "nChw16c", out=physical).dst == rs.MemoryDesc(DIMS, "f32", "nChw16c")
    memory = rs.Memory(rs.MemoryDesc(DIMS, "u8", "nChw8c"), CPU)
    assert rs.plan(X, None, out=memory).dst == memory.desc
    with refused("out does not match"):
        rs.plan(X, "nchw", out=out)
    with refused("out is not an array"):
        rs.plan(X, "nchw", out=5)


def test_a_physical_array_is_planned_with_src():
    md = rs.MemoryDesc(DIMS, "f32", "nChw16c")
    assert rs.plan(rs.reorder(X, "nChw16c").physical(), "nchw", src=md).src == md
    with refused("src with a descriptor"):
        rs.plan(NCHW, "nhwc", src="nchw")


WRONG = [
    ((X, "nhw"), {}, rs.InvalidArguments),
    ((X, (0, 0, 0, 0)), {}, rs.InvalidArguments),
    ((X, {}), {}, rs.InvalidArguments),
    ((X, None), {"dtype": "f31"}, rs.InvalidArguments),
    ((X, None), {"scale": "2"}, rs.InvalidArguments),
    ((X, None), {"scale": [1.0, 2.0]}, rs.InvalidArguments),
    ((X, None), {"scale": [[1], [2, 3]], "axis": 1}, rs.InvalidArguments),
    ((X, None), {"beta": {}}, rs.InvalidArguments),
    ((X, None), {"beta": np.ones(3)}, rs.InvalidArguments),
    ((X, None), {"zero_point": 1}, rs.InvalidArguments),
    ((X, None), {"axis": 4}, rs.InvalidArguments),
    ((X, None), {"post_ops": "no such"}, rs.InvalidArguments),
    ((X, None), {"engine": "tpu"}, rs.InvalidArguments),
    ((X, None), {"engine": 7}, rs.InvalidArguments),
    ((X, None), {"src": "nhwc"}, rs.InvalidArguments),
    ((X, rs.MemoryDesc((3,), "f32")), {}, rs.InvalidArguments),
    ((rs.Memory(), None), {}, rs.InvalidArguments),
    ((rs.MemoryDesc(), None), {}, rs.InvalidArguments),
    ((rs.MemoryDesc(DIMS, "f32", "any"), None), {}, rs.InvalidArguments),
    ((rs.MemoryDesc(DIMS, "f32", "any"), "nchw"), {}, rs.InvalidArguments),
    (([[1.0], [1.0, 2.0]], None), {}, rs.InvalidArguments),
    ((None, None), {}, rs.InvalidArguments),
    ((np.zeros(3, ">f4"), None), {"dtype": "f32"}, rs.InvalidArguments),
]


@pytest.mark.parametrize(("args", "options", "kind"), WRONG, ids=range(len(WRONG)))
def test_what_cannot_be_reordered_cannot_be_planned(args, options, kind):
    with pytest.raises(rs.Error) as caught:
        rs.plan(*args, **options)
    assert type(caught.value) is kind, caught.value.message


def test_errors_name_plan_and_its_argument():
    for x, kwargs, what in (
        (np.float32(1), {}, "plan: x cannot be read"),
        (X, {"src": "nhwc"}, "plan: src does not fit x"),
        (X, {"out": np.zeros((), "f4")}, "plan: out cannot be written"),
    ):
        with pytest.raises(rs.InvalidArguments, match=what):
            rs.plan(x, None, **kwargs)


def test_a_zero_point_of_zero_is_none():
    assert str(rs.plan(X, None, zero_point=0)) == str(rs.plan(X, None))


def test_dims_known_only_at_execution_have_no_plan():
    later = rs.RUNTIME_DIM
    known, open_ = rs.MemoryDesc((4, 3), "f32", "ab"), rs.MemoryDesc((later, 3), "f32", "ab")
    strided = rs.MemoryDesc((4, 3), "f32", (later, 1))
    for src, dst, name in (
        (open_, "ba", "x"),
        (open_, None, "x"),
        (known, open_, "dst"),
        (strided, "ba", "x"),
    ):
        text = f"plan: {name} has dims known only at execution"
        with refused(text, "without rs.onednn.RUNTIME_DIM", kind=rs.Unimplemented):
            rs.plan(src, dst)


# --- schedules that a person passes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "dst", "options"),
    [
        (rs.MemoryDesc((64, 64, 56, 56), "f32", "nchw"), "nhwc", {}),
        (rs.MemoryDesc((64, 64, 56, 56), "f32", "nhwc"), "nchw", {"dtype": "s8", "scale": 0.5}),
        (X, "nChw16c", {"dtype": "s8"}),
        (X, "nChw16c", {"scale": [0.5] * 17, "axis": 1}),
        (X, "nhwc", {"beta": 0.5}),
        (X[:, ::2], None, {"post_ops": [("relu", 0.0)]}),
        (rs.MemoryDesc((33, 64), "s4", "ab"), "ab", {"dtype": "f32"}),
        (np.float32([1]), None, {}),
    ],
    ids=["large", "shrinks", "padding", "scales", "sum", "post-op", "4 bits", "one element"],
)
def test_the_schedule_of_a_plan_makes_the_same_kernel(nothing_runs, x, dst, options):
    plan = rs.plan(x, dst, **options)
    again = rs.plan(x, dst, **options, schedule=plan.schedule)
    assert again.ir == plan.ir
    assert again.schedule == plan.schedule
    assert str(again) == str(plan)


def test_another_schedule_is_shown_and_measured():
    src = rs.MemoryDesc((8, 64, 28, 28), "f32", "nchw")
    plan = rs.plan(src, "nhwc", schedule="tile(a1, 4) · tile(a2, 8) · parallel(a0)")
    assert plan.schedule.splitlines()[1] == "tile(a1, 4) · tile(a2, 8) · parallel(a0)"
    assert "as the schedule says" in plan.why
    assert plan.ir != rs.plan(src, "nhwc").ir
    assert plan.measure(rounds=2).seconds > 0
    assert "as the schedule says" not in rs.Reorder.PrimitiveDesc(CPU, plan.src, CPU, plan.dst).impl_info_str
    quantized = {"scale": [0.5] * 64, "axis": 1, "dtype": "s8"}
    assert rs.plan(src, "nhwc", **quantized, schedule="tile(a2, 64)").measure(rounds=1).seconds > 0


NO_FIT = [
    ("fuse(a0, a1)", "no transform fuse"),
    ("tile(a3, 4)", "no axis a3"),
    ("tile(a1, 100000)", "1 to 1024"),
    ("tile(a1, 0)", "1 to 1024"),
    ("tile(a1, 60) · tile(a2, 63)", "as powers of two"),
    ("tile(a1, 512) · tile(a2, 64)", "too much code"),
    ("tile(a1, 4) · tile(a1, 4)", "already in tiles"),
    ("tile(a1)", "an axis and a number"),
    ("tile(4, a1)", "an axis and a number"),
    ("reorder(a0, a1)", "each of these loops once: a0, a1, a2"),
    ("reorder(a0, a1, a1)", "each of these loops once"),
    ("parallel(a1, 785)", "784 tiles"),
    ("parallel(a1, 0)", "at least 1 tile"),
    ("parallel(a1) · parallel(a1, 4)", "no loop"),
    ("parallel(a1, 4) · tile(a1, 4)", "apply tile first"),
    ("tile(a2, 64) · parallel(a2)", "no loop"),
    ("stream()", "whole cache lines"),
    ("tile(a2, 8) · stream()", "whole cache lines"),
    ("prefetch(0)", "bytes"),
    ("peel(a1)", "a1 is read entirely"),
    ("1.tile(a1, 4)", "boxes 0 to 0"),
    ("tile(a1, 4", "expected"),
]


@pytest.mark.parametrize(("schedule", "why"), NO_FIT, ids=[text for text, _ in NO_FIT])
def test_a_schedule_that_does_not_fit_is_refused(nothing_runs, schedule, why):
    with pytest.raises(rs.InvalidArguments, match=why) as caught:
        rs.plan(rs.MemoryDesc((8, 64, 28, 28), "f32", "nchw"), "nhwc", schedule=schedule)
    assert caught.value.code == "RS-V09"


def test_padding_is_peeled_or_in_tiles():
    src = rs.MemoryDesc((2, 17, 3, 5), "f32", "nchw")
    boxes = "tile(a2, 16) · 1.peel(a2)"
    peeled = rs.plan(src, "nChw16c", schedule=boxes)
    assert peeled.schedule.splitlines()[1:3] == ["tile(a2, 16)", "1.peel(a2)"]
    assert rs.plan(src, "nChw16c", schedule=peeled.schedule).ir == peeled.ir
    with refused("a2 is partly read"):
        rs.plan(src, "nChw16c", schedule="tile(a2, 16)")


@pytest.mark.parametrize(
    ("x", "dst", "options", "why"),
    [
        (np.empty((0, 3), np.float32), None, {}, "no elements"),
        (X, "nhwc", {"engine": REF}, "creates its own"),
        (rs.MemoryDesc((3,) * 8, "f32", "abcdefgh"), "ABCDEFgh2a2b2c2d2e2f", {}, "too many partial blocks"),
    ],
    ids=["empty", "reference", "guarded"],
)
def test_what_no_text_says_takes_no_schedule(nothing_runs, x, dst, options, why):
    plan = rs.plan(x, dst, **options)
    assert all(line.startswith("#") for line in plan.schedule.splitlines())
    with pytest.raises(rs.InvalidArguments, match=why):
        rs.plan(x, dst, **options, schedule=plan.schedule)
    with refused("schedule is int"):
        rs.plan(X, "nhwc", schedule=7)


@pytest.mark.parametrize(
    ("src", "dst", "head"),
    [
        (rs.MemoryDesc((1 << 18, 36, 49), "f32", "abc"), "acb", "stage"),
        (rs.MemoryDesc((1 << 18, 40, 9, 31), "u8", "aBcd8b"), "aBcd16b", "block"),
    ],
)
def test_blocks_and_stages_are_printed_and_read(nothing_runs, src, dst, head):
    plan = rs.plan(src, dst)
    assert plan.schedule.splitlines()[1].startswith(head)
    again = rs.plan(src, dst, schedule=plan.schedule)
    assert (again.schedule, again.ir) == (plan.schedule, plan.ir)
    alone = rs.plan(src, dst, schedule=plan.schedule.splitlines()[1])
    assert alone.ir == plan.ir, "boxes within are scheduled as ever"


def test_of_several_steps_the_one_that_does_the_work_takes_a_schedule():
    src = rs.MemoryDesc((33, 21), "s4", "ab")
    other = rs.plan(src, "ba", schedule="tile(a0, 4)")
    assert other.schedule.splitlines()[1:] == ["tile(a0, 4)"]
    assert rs.plan(src, "ba", schedule=rs.plan(src, "ba").schedule).ir == rs.plan(src, "ba").ir != other.ir


# --- schedules that are searched ----------------------------------------------------------------------------


def test_a_measured_schedule_is_kept_and_found_without_measuring(monkeypatch, tmp_path):
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setattr(schedule_search, "_SECONDS", 0.05)
    src = rs.MemoryDesc((4, 32, 28, 28), "f32", "nchw")
    found = rs.plan(src, "nhwc", effort="measure", scale=0.5)
    assert rs.plan(src, "nhwc", scale=0.5, schedule=found.schedule).ir == found.ir
    monkeypatch.setattr(schedule_search, "time_call", None)
    assert rs.plan(src, "nhwc", effort="measure", scale=0.5).schedule == found.schedule


def test_a_measured_schedule_says_that_it_was_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setattr(schedule_search, "fastest", lambda *_: parse_schedule("tile(a0, 4) · tile(a1, 4)"))
    src = rs.MemoryDesc((512, 768), "f32", "ab")
    rs.plan(src, "ba", effort="measure")
    found = rs.plan(src, "ba")
    assert found.why == "the fastest schedule that was measured on this machine"
    assert found.schedule.splitlines()[0].endswith(found.why)
    assert rs.plan(src, "ba", schedule=found.schedule).why == "as the schedule says"


def test_what_has_one_schedule_is_not_searched(nothing_runs):
    for x, options in ((np.empty((0, 3), np.float32), {}), (X, {"engine": REF})):
        assert rs.plan(x, None, effort="measure", **options).impl == rs.plan(x, None, **options).impl
    with refused("effort"):
        rs.plan(X, "nhwc", effort="much")
    with refused("searches for one"):
        rs.plan(X, "nhwc", effort="measure", schedule="")
    with pytest.raises(rs.OutOfMemory, match="bytes are free"):
        rs.plan(rs.MemoryDesc((1 << 40,), "f32", "a"), None, effort="measure")
