"""Runs that have been checked before: values change, and what will not do is still refused."""

import threading
import time

import numpy as np
import pytest

import restride as rs
from restride.model import implementation
from support.errors import refused
from support.python_calls import python_calls

CPU = rs.Engine("cpu")
STREAM = rs.Stream(CPU)
DIMS = (4, 6)
X = np.arange(24, dtype=np.float32).reshape(DIMS)
SCALES, ZERO = rs.ARG_ATTR_SCALES | rs.ARG_SRC, rs.ARG_ATTR_ZERO_POINTS | rs.ARG_DST
OPERAND = rs.arg_attr_multiple_post_op(0) | rs.ARG_SRC_1


def memory(dims, data_type, values=0, format=None):
    held = rs.Memory(rs.MemoryDesc(dims, data_type, format), CPU)
    held.data[:] = np.asarray(values, held.data.dtype).reshape(-1)
    return held


@pytest.fixture
def known():
    """A primitive that has run with these arguments."""
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    attr.set_scales(rs.ARG_SRC, 2)
    attr.set_zero_points(rs.ARG_DST, 0)
    ops.append_binary("add", rs.MemoryDesc((4, 1), "f32", "ab"))
    attr.set_post_ops(ops)
    args = {
        rs.ARG_SRC: memory(DIMS, "f32", X),
        rs.ARG_DST: memory(DIMS, "s32"),
        SCALES: memory((6,), "f32", 1),
        ZERO: memory((1,), "s32", 0),
        OPERAND: memory((4, 1), "f32", 0),
    }
    primitive = rs.Reorder(args[rs.ARG_SRC], args[rs.ARG_DST], attr)
    for _ in range(2):
        primitive.execute(STREAM, args)
    return primitive, args


def check(args, scales, zero, operand):
    wanted = X * np.float32(scales) + np.float32(operand).reshape(4, 1) + zero
    np.testing.assert_array_equal(args[rs.ARG_DST].to_numpy(), wanted)


def test_values_may_change_in_place_and_in_other_memories_of_equal_descriptors(known):
    primitive, args = known
    check(args, [1] * 6, 0, [0] * 4)
    args[SCALES].data[:] = [1, 2, 3, 4, 5, 6]
    args[ZERO].data[:] = 7
    args[OPERAND].data[:] = [10, 20, 30, 40]
    primitive.execute(STREAM, args)
    check(args, [1, 2, 3, 4, 5, 6], 7, [10, 20, 30, 40])
    args |= {SCALES: memory((6,), "f32", 2), ZERO: memory((1,), "s32", -1), OPERAND: memory((4, 1), "f32", 5)}
    primitive.execute(STREAM, args)
    check(args, [2] * 6, -1, [5] * 4)


def test_scales_that_begin_elsewhere_are_found_there(known):
    primitive, args = known
    whole = memory((2, 6), "f32", np.arange(12))
    md = rs.MemoryDesc((2, 6), "f32", "ab").submemory_desc((1, 6), (1, 0))
    for _ in range(2):
        primitive.execute(STREAM, args | {SCALES: rs.Memory(md, CPU, whole)})
        check(args, [6, 7, 8, 9, 10, 11], 0, [0] * 4)


def another(key, *description):
    return lambda args: args | {key: memory(*description)}


def mapped(key):
    def change(args):
        args[key].map_data()
        return args

    return change


def read_only(args):
    args[rs.ARG_DST].set_data_handle(np.frombuffer(bytes(96), np.uint8))
    return args


def without_buffer(key):
    return lambda args: args | {key: rs.Memory(args[key].desc, CPU, rs.NO_DATA)}


def in_the_destination(key):
    return lambda args: args | {key: rs.Memory(args[key].desc, CPU, args[rs.ARG_DST].data[:6].view(np.uint8))}


def on_another_engine(key):
    return lambda args: args | {key: rs.Memory(args[key].desc, rs.Engine("reference"), args[key])}


def with_keys(change):
    return lambda args: {change(key): held for key, held in args.items()}


REFUSED = {
    "fewer scales": (another(SCALES, (5,), "f32"), "SCALES"),
    "scales of another type": (another(SCALES, (6,), "s32"), "SCALES"),
    "another operand": (another(OPERAND, (1, 6), "f32"), "its descriptor"),
    "another source": (another(rs.ARG_SRC, (4, 5), "f32"), "its descriptor"),
    "a mapped source": (mapped(rs.ARG_SRC), "mapped"),
    "a mapped destination": (mapped(rs.ARG_DST), "mapped"),
    "mapped scales": (mapped(SCALES), "mapped"),
    "a read-only destination": (read_only, "read-only"),
    "no source": (without_buffer(rs.ARG_SRC), "no buffer"),
    "no scales": (without_buffer(SCALES), "no buffer"),
    "an operand that overlaps": (in_the_destination(OPERAND), "overlaps the destination"),
    "scales that overlap": (in_the_destination(SCALES), "overlaps the destination"),
    "a foreign source": (on_another_engine(rs.ARG_SRC), "on engine reference"),
    "foreign scales": (on_another_engine(SCALES), "on engine reference"),
    "an array": (lambda args: args | {SCALES: np.ones(6, np.float32)}, "an rs.Memory"),
    "nothing": (lambda args: {k: held for k, held in args.items() if k != SCALES}, "bad number of inputs"),
    "one more output": (lambda args: args | {rs.ARG_DST_1: args[SCALES]}, "bad number of outputs"),
    "a number that is True": (with_keys(lambda key: (key == 1) or key), "argument number"),
    "numbers that are floats": (with_keys(float), "argument number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_will_not_do_is_refused_and_nothing_is_written(known, name):
    primitive, args = known
    change, word = REFUSED[name]
    args[rs.ARG_DST].data[:] = -1
    with refused(word):
        primitive.execute(STREAM, change(dict(args)))
    with refused("stream"):
        primitive.execute(rs.Stream(rs.Engine("reference")), args)
    if name != "a read-only destination":
        assert (args[rs.ARG_DST].physical() == -1).all()


def test_extra_inputs_are_ignored_as_before(known):
    primitive, args = known
    primitive.execute(STREAM, args | {rs.ARG_SRC_2: args[SCALES]})
    check(args, [1] * 6, 0, [0] * 4)


def test_shapes_known_at_execution_may_alternate():
    open_md = [rs.MemoryDesc((rs.RUNTIME_DIM, 3), kind, "ab") for kind in ("f32", "s8")]
    attr = rs.PrimitiveAttr()
    attr.set_output_scales(0, [2.0])
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(CPU, open_md[0], CPU, open_md[1], attr))
    for n in (*range(1, 20), 2, 2, 3, 2, 3, 3):
        src, dst = memory((n, 3), "f32", np.arange(3 * n) % 50), memory((n, 3), "s8")
        primitive.execute(STREAM, src, dst)
        np.testing.assert_array_equal(dst.data, np.arange(3 * n) % 50 * 2)
        with refused("dim 0"):
            primitive.execute(STREAM, src, memory((n + 1, 3), "s8"))


def test_sums_are_found_again_and_never_overwrite_what_is_used():
    src, dst = memory((8, 4, 1, 1), "f32", np.arange(32)), memory((8, 4, 1, 1), "s8")
    attr = rs.PrimitiveAttr()
    attr.set_compensation(1, True, True)
    primitive = rs.Reorder(src, dst, attr)
    args = {rs.ARG_SRC: src, rs.ARG_DST: dst}
    args |= {arg: memory((8,), "s32", 99) for arg in (rs.ARG_DST_1, rs.ARG_DST_2)}
    for shift in range(3):
        src.data[:] = np.arange(32) + shift
        primitive.execute(STREAM, args)
        sums = (np.arange(32) + shift).reshape(8, 4).sum(1)
        np.testing.assert_array_equal(args[rs.ARG_DST_1].data, -128 * sums)
        np.testing.assert_array_equal(args[rs.ARG_DST_2].data, -sums)
    over = {rs.ARG_DST_2: rs.Memory(args[rs.ARG_DST_2].desc, CPU, dst.data.view(np.uint8))}
    with refused("overlap"):
        primitive.execute(STREAM, args | over)
    with refused("overlap"):
        primitive.execute(STREAM, args | {rs.ARG_DST_2: args[rs.ARG_DST_1]})


def test_values_of_one_structure_stay_with_their_primitives():
    src, made = memory(DIMS, "f32", X), []
    for factor in (2.0, 3.0, 5.0, 7.0):
        attr = rs.PrimitiveAttr()
        attr.set_output_scales(0, [factor])
        made.append((factor, rs.Reorder(src, memory(DIMS, "f32"), attr)))
    for factor, primitive in made * 2:
        dst = memory(DIMS, "f32")
        primitive.execute(STREAM, {rs.ARG_SRC: src, rs.ARG_DST: dst})
        np.testing.assert_array_equal(dst.to_numpy(), X * np.float32(factor))


def test_threads_that_ask_at_once_get_the_address_of_the_same_words(monkeypatch):
    attr = rs.PrimitiveAttr()
    attr.set_output_scales(0, 0.5)
    md = rs.MemoryDesc((2, 3), "f32")
    impl = rs.Reorder.PrimitiveDesc(CPU, md, CPU, md, attr)._implementation()
    usual = implementation.packer

    def slow(operands, scalars):
        time.sleep(0.05)
        return usual(operands, scalars)

    monkeypatch.setattr(implementation, "packer", slow)
    addresses = []
    threads = [threading.Thread(target=lambda: addresses.append(impl.direct_call()[1])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(addresses) == 4
    assert len({*addresses, impl.direct_call()[1]}) == 1


def test_executions_in_place_are_short_from_the_first_one_on_and_right():
    held = memory(DIMS, "f32", X - 10)
    relu = rs.EltwiseForward(
        rs.EltwiseForward.PrimitiveDesc(CPU, "forward_inference", "eltwise_relu", held.desc, held.desc, 0, 0)
    )
    assert python_calls(lambda: relu.execute(STREAM, held, held)) < 60
    np.testing.assert_array_equal(held.to_numpy(), np.maximum(X - 10, 0))
    assert python_calls(lambda: relu.execute(STREAM, held, held)) <= 6
    there = rs.Memory(rs.MemoryDesc(DIMS, "s32"), CPU, held.data.view(np.uint8))
    reorder = rs.Reorder(held, there)
    reorder.execute(STREAM, memory(DIMS, "f32"), memory(DIMS, "s32"))
    assert python_calls(lambda: reorder.execute(STREAM, held, there)) <= 6
    np.testing.assert_array_equal(there.data, np.maximum(X - 10, 0).reshape(-1))


def test_what_overlaps_otherwise_is_refused_though_the_primitive_works_in_place():
    buffer = np.zeros(200, np.uint8)
    md = rs.MemoryDesc(DIMS, "f32")
    reorder = rs.Reorder(rs.Reorder.PrimitiveDesc(CPU, md, CPU, md.as_type("s32")))
    for _ in range(2):
        reorder.execute(STREAM, rs.Memory(md, CPU, buffer), rs.Memory(md.as_type("s32"), CPU, buffer))
        with refused("overlap"):
            shifted = rs.Memory(md.as_type("s32"), CPU, buffer[4:])
            reorder.execute(STREAM, rs.Memory(md, CPU, buffer), shifted)
    narrow = rs.Reorder(rs.Reorder.PrimitiveDesc(CPU, md, CPU, md.as_type("s8")))
    narrow.execute(STREAM, rs.Memory(md, CPU), rs.Memory(md.as_type("s8"), CPU))
    with refused("overlap"):
        narrow.execute(STREAM, rs.Memory(md, CPU, buffer), rs.Memory(md.as_type("s8"), CPU, buffer))


@pytest.mark.parametrize("kind", [rs.Concat, rs.Sum])
def test_one_source_by_place_is_a_list_of_one_before_and_after_the_first_execution(kind):
    src = memory(DIMS, "f32", X)
    primitive = kind(kind.PrimitiveDesc(CPU, 0 if kind is rs.Concat else [1.0], [src.desc]))
    dst = memory(DIMS, "f32")
    for _ in range(2):
        with refused("bad number of inputs"):
            primitive.execute(STREAM, src, dst)
        primitive.execute(STREAM, [src], dst)
    np.testing.assert_array_equal(dst.to_numpy(), X)


def test_one_source_and_destinations_that_take_turns_are_found_again():
    strides = rs.MemoryDesc(DIMS, "f32", (rs.RUNTIME_DIM, rs.RUNTIME_DIM))
    src, dsts = memory(DIMS, "f32", X), [memory(DIMS, "f32", format=tag) for tag in ("ab", "ba")]
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(CPU, src.desc, CPU, strides))
    for dst in dsts * 2:
        primitive.execute(STREAM, src, dst)
        np.testing.assert_array_equal(dst.to_numpy(), X)
    assert max(python_calls(lambda dst=dst: primitive.execute(STREAM, src, dst)) for dst in dsts * 2) < 15


def test_while_creations_are_told_of_each_execution_asks_the_cache_whatever_its_form(capsys):
    open_md = rs.MemoryDesc((rs.RUNTIME_DIM, 6), "f32", "ab")
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(CPU, open_md, CPU, open_md))
    src, dst = memory(DIMS, "f32", X), memory(DIMS, "f32")
    for _ in range(2):
        primitive.execute(STREAM, src, dst)
    before = rs.cache_info()["primitives"].hits
    with rs.set_verbose("profile_create"):
        for _ in range(2):
            primitive.execute(STREAM, src, dst)
            primitive.execute(STREAM, {rs.ARG_SRC: src, rs.ARG_DST: dst})
    assert rs.cache_info()["primitives"].hits == before + 4
    assert capsys.readouterr().err.count("create:cache_hit") == 4


def test_what_others_hold_cannot_be_made_again():
    md, larger = rs.MemoryDesc(DIMS, "f32"), rs.MemoryDesc((1 << 20,), "f32")
    held = memory(DIMS, "f32", X)
    pd = rs.Reorder.PrimitiveDesc(CPU, md, CPU, md)
    for remake in (
        lambda: md.__init__((1 << 20,), "f32"),
        lambda: pd.__init__(CPU, larger, CPU, larger),
    ):
        with refused("made already"):
            remake()
    with refused("too short"):
        held.__init__(larger, CPU, np.zeros(2, np.float32))
    assert (md.dims, held.desc, pd.src_desc()) == (DIMS, md, md)
    dst = memory(DIMS, "f32")
    rs.Reorder(pd).execute(STREAM, held, dst)
    np.testing.assert_array_equal(dst.to_numpy(), X)
