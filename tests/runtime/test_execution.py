"""Executing a primitive: arguments by place and by number, and every wrong one (N10)."""

import contextlib
import itertools
import threading
import types

import numpy as np
import pytest

import restride as rs
from restride.model.primitive import Primitive
from support.by_offset import POISON
from support.errors import refused
from support.primitives import BLOCKED, CPU, NCHW, PD, REF, STREAM, desc, pair


def poisoned_pair():
    src, dst = pair()
    dst.data.view(np.uint8)[:] = POISON
    return rs.Reorder(src, dst), src, dst


def check_refused(r, args, *texts, stream=STREAM, dst=None):
    with refused(*texts):
        r.execute(stream, *args)
    assert dst is None or (dst.data.view(np.uint8) == POISON).all()


def test_memories_by_name_may_be_any_mapping_or_pairs():
    r, src, dst = poisoned_pair()
    src.data[:] = 1.0
    both = {rs.ARG_FROM: src, rs.ARG_TO: dst}
    for args in (both, types.MappingProxyType(both), [*both.items()], (item for item in both.items())):
        dst.data[:] = np.nan
        r.execute(STREAM, args)
        assert dst.data[0] == 1.0
    r.execute(STREAM, {np.int64(rs.ARG_FROM): src, np.int32(rs.ARG_TO): dst})


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), "bad number of inputs (expected 1 got 0)"),
        ((rs.ARG_TO,), "bad number of inputs (expected 1 got 0)"),
        ((rs.ARG_FROM,), "bad number of outputs (expected 1 got 0)"),
        ((rs.ARG_FROM, rs.ARG_WEIGHTS), "17 (ARG_DST) is missing"),
        ((rs.ARG_FROM, rs.ARG_TO, rs.ARG_DST_1), "bad number of outputs (expected 1 got 2)"),
        ((rs.ARG_FROM, rs.ARG_TO, rs.ARG_DIFF_SRC), "no output 129 (ARG_DIFF_SRC)"),
    ],
)
def test_missing_and_extra_arguments_are_refused(numbers, text):
    r, src, dst = poisoned_pair()
    named = {number: dst if number == rs.ARG_TO else src for number in numbers}
    check_refused(r, (named,), text, dst=dst)


def test_an_argument_given_twice_is_refused():
    r, src, dst = poisoned_pair()
    pairs = [(rs.ARG_FROM, src), (rs.ARG_TO, dst), (rs.ARG_SRC, src)]
    check_refused(r, (pairs,), "The same argument kind 1 is passed multiple times", dst=dst)


def test_unknown_inputs_are_ignored_and_noted(capsys):
    r, src, dst = poisoned_pair()
    with rs.set_verbose("check"):
        r.execute(STREAM, {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_WEIGHTS: src})
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("restride_verbose,v1,primitive,exec:check,")
    assert "33 (ARG_WEIGHTS)" in line
    r.execute(STREAM, {rs.ARG_FROM: src, rs.ARG_TO: dst, 12345: "no memory"})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "junk",
    [
        5,
        "map",
        b"xy",
        object(),
        [1, 2],
        [(1, 2, 3)],
        [([1], 2)],
        {1.0: 2},
        {True: 1},
        {"src": 1},
        {None: 1},
        iter([3]),
        np.zeros((2, 3)),
        rs.Memory(NCHW, CPU),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_argument_map_is_refused(junk):
    r, _, dst = poisoned_pair()
    check_refused(r, (junk,), "Reorder.execute", dst=dst)


def test_an_endless_argument_map_ends():
    r, src, dst = poisoned_pair()
    check_refused(r, (itertools.repeat((rs.ARG_SRC, src)),), "multiple times", dst=dst)
    check_refused(r, (((i, src) for i in itertools.count(1000)),), "missing", dst=dst)


@pytest.mark.parametrize("junk", [None, 0, "cpu", object(), CPU, NCHW, np.zeros(510, "f4")])
def test_what_is_no_memory_is_refused(junk):
    r, src, dst = poisoned_pair()
    check_refused(r, (junk, dst), "src", "an rs.Memory", dst=dst)
    if junk is not None:
        check_refused(r, (src, junk), "dst", "an rs.Memory", dst=dst)
    check_refused(r, ({rs.ARG_FROM: src, rs.ARG_TO: junk},), "dst", "an rs.Memory", dst=dst)


@pytest.mark.parametrize("junk", [None, 0, "cpu", object(), CPU])
def test_what_is_no_stream_is_refused(junk):
    r, src, dst = poisoned_pair()
    check_refused(r, (src, dst), "not an rs.onednn.Stream", stream=junk, dst=dst)


def test_the_stream_of_another_engine_is_refused():
    r, src, dst = poisoned_pair()
    check_refused(r, (src, dst), "belongs to another engine", stream=rs.Stream(REF), dst=dst)


def test_memories_of_another_engine_are_refused():
    r, src, dst = poisoned_pair()
    check_refused(r, (rs.Memory(NCHW, REF), dst), "src", "on engine reference:0", dst=dst)
    other = rs.Memory(BLOCKED, REF)
    other.data.view(np.uint8)[:] = POISON
    check_refused(r, (src, other), "dst", "on engine reference:0", dst=other)


@pytest.mark.parametrize(
    "other",
    [
        desc((2, 17, 3, 5), "f32", "nhwc"),
        desc((2, 17, 3, 5), "s32", "nchw"),
        desc((2, 17, 5, 3), "f32", "nchw"),
        desc((2, 17, 3, 6), "f32", "nchw").submemory_desc((2, 17, 3, 5), (0, 0, 0, 0)),
    ],
    ids=str,
)
def test_memories_of_another_descriptor_are_refused(other):
    r, src, dst = poisoned_pair()
    with refused("its descriptor is not the primitive's", where=(other, NCHW)):
        r.execute(STREAM, rs.Memory(other, CPU), dst)
    with refused("its descriptor is not the primitive's", where=(other, BLOCKED)):
        r.execute(STREAM, src, rs.Memory(other, CPU))
    assert (dst.data.view(np.uint8) == POISON).all()


def test_equal_descriptors_made_apart_are_the_same_descriptor():
    r, _, dst = poisoned_pair()
    src = rs.Memory(desc((2, 17, 3, 5), "f32", (255, 15, 5, 1)), CPU)
    src.data[:] = 4.0
    r.execute(STREAM, src, dst)
    assert dst.data[0] == 4.0


def test_empty_memories_and_memories_without_a_buffer_are_refused():
    r, src, dst = poisoned_pair()
    check_refused(r, (rs.Memory(), dst), "src", "empty", dst=dst)
    check_refused(r, (src, rs.Memory()), "dst", "empty")
    check_refused(r, (rs.Memory(NCHW, CPU, rs.NO_DATA), dst), "src", "no buffer", dst=dst)
    check_refused(r, (src, rs.Memory(BLOCKED, CPU, rs.NO_DATA)), "dst", "no buffer")


def test_a_memory_that_lost_its_buffer_is_refused_and_works_again_with_another():
    r, src, dst = poisoned_pair()
    src.set_data_handle(rs.NO_DATA)
    check_refused(r, (src, dst), "no buffer", dst=dst)
    src.set_data_handle(np.full(510, 2.0, "f4"))
    r.execute(STREAM, src, dst)
    assert dst.data[0] == 2.0


def test_mapped_memories_are_their_holders_alone():
    r, src, dst = poisoned_pair()
    for held in (src, dst):
        mapped = held.map_data()
        check_refused(r, (src, dst), "mapped", "M38", dst=dst)
        held.unmap_data(mapped)
    r.execute(STREAM, src, dst)


@pytest.mark.parametrize("engine", [CPU, REF], ids=str)
def test_read_only_memories_serve_as_sources_only(engine):
    data = np.arange(510, dtype="f4")
    data.flags.writeable = False
    src, dst = rs.Memory(NCHW, engine, data), rs.Memory(BLOCKED, engine)
    rs.Reorder(src, dst).execute(rs.Stream(engine), src, dst)
    np.testing.assert_array_equal(dst.to_numpy().ravel(), data)
    back = rs.Reorder(dst, src)
    with refused("read-only", where=(NCHW,)):
        back.execute(rs.Stream(engine), dst, src)
    np.testing.assert_array_equal(data, np.arange(510))


# One primitive, many runs (N12)


def test_a_primitive_runs_again_and_again_on_other_memories():
    r = rs.Reorder(PD(CPU, NCHW, CPU, BLOCKED))
    for value in range(5):
        src, dst = pair()
        src.data[:] = value
        r.execute(STREAM, src, dst)
        assert (dst.to_numpy() == value).all()


def test_a_primitive_outlives_everything_it_was_made_from():
    src, dst = pair()
    r = rs.Reorder(src, dst)
    del src, dst
    rs.set_primitive_cache_capacity(0)
    try:
        src, dst = pair()
        src.data[:] = 6.0
        r.execute(STREAM, src, dst)
    finally:
        rs.set_primitive_cache_capacity(1024)
    assert (dst.to_numpy() == 6.0).all()


def test_a_buffer_stays_while_it_is_read_whatever_another_thread_does():
    """The memory may get another buffer meanwhile; the old one is not freed or resized under a run."""
    md = desc((1 << 22,), "f32", "a")
    src, dst = rs.Memory(md, CPU), rs.Memory(md, CPU)
    src.data[:] = 1.0
    r = rs.Reorder(src, dst)
    ended = threading.Event()

    def swap():
        while not ended.is_set():
            lent = bytearray(md.size)
            dst.set_data_handle(lent)
            dst.set_data_handle(rs.NO_DATA)
            with contextlib.suppress(BufferError):
                lent.clear()

    swapper = threading.Thread(target=swap)
    swapper.start()
    for _ in range(60):
        with contextlib.suppress(rs.InvalidArguments):  # there is no buffer at the moment
            r.execute(STREAM, src, dst)
    ended.set()
    swapper.join(120)
    assert not swapper.is_alive()
    assert src.data.all()


def test_memories_whose_descriptors_are_equal_take_the_short_way_from_the_second_time(monkeypatch):
    dims = NCHW.dims
    first, others = pair(), pair(desc(dims, "f32", "nchw"), desc(dims, "f32", "nChw16c"))
    for memory in (first[0], others[0]):
        memory.data[:] = np.arange(memory.data.size)
    r = rs.Reorder(PD(CPU, NCHW, CPU, BLOCKED))
    r.execute(STREAM, *others)
    with monkeypatch.context() as patch:
        patch.delattr(Primitive, "_execute")
        others[1].data[:] = 0
        r.execute(STREAM, *others)
    r.execute(STREAM, *first)
    np.testing.assert_array_equal(first[1].data, others[1].data)
    assert first[1].data.any()
