"""The shuffle primitives: every format and type, forward and backward, on every engine (N11)."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from support.by_offset import guarded, random_bits
from support.descriptors import destinations
from support.effort import examples
from support.engines import allocated, memory_over, run, storage
from support.errors import refused
from support.shuffles import backward, by_offset, check_both, forward

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
FPD, BPD = rs.ShuffleForward.PrimitiveDesc, rs.ShuffleBackward.PrimitiveDesc
MD = rs.MemoryDesc((2, 36, 3, 5), "f32", "nChw16c")
NCHW = rs.MemoryDesc((2, 36, 3, 5), "f32", "nchw")


# Many divisors, primes, and what leaves a part of a block.
_CHANNELS = (1, 2, 6, 8, 12, 15, 16, 17, 24, 30, 32, 36, 39, 48, 60, 64, 72, 96, 100, 120, 128, 130)
_OTHERS = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33)


@st.composite
def _shuffles(draw):
    """A descriptor, the axis that is shuffled, and by what."""
    channels = draw(st.sampled_from(_CHANNELS))
    room, others = 20_000 // channels, []
    for _ in range(draw(st.integers(0, 5))):
        others.append(draw(st.sampled_from([n for n in _OTHERS if n <= room])))
        room //= others[-1]
    axis = draw(st.integers(0, len(others)))
    group = draw(st.sampled_from([n for n in range(1, channels + 1) if channels % n == 0]))
    kind = draw(st.sampled_from([kind for kind in rs.DataType if kind.bits >= 4]))
    return draw(destinations((*others[:axis], channels, *others[axis:]), kind)), axis, group


@settings(max_examples=examples(120))
@given(_shuffles(), st.sampled_from((0, 1, 4, 63)), st.sampled_from((0, 1, 4, 63)))
def test_shuffles_move_every_element_and_zero_the_padding(engine, case, start, other):
    check_both(*case, engine, (start, other))


def test_windows_and_offsets_are_shuffled_in_place_of_the_whole(engine):
    whole = rs.MemoryDesc((4, 48, 6, 6), "f32", "nChw16c")
    window = whole.submemory_desc((2, 32, 3, 3), (1, 16, 2, 2))
    check_both(window, 1, 8, engine)
    check_both(window, 2, 3, engine)


# --- what both directions and kinds mean ------------------------------------------------------------------


def _run(primitive, md, data, engine=CPU):
    src, dst = memory_over(md, engine, storage(data, engine)), allocated(md, engine)
    run(primitive, engine, src, dst)
    return dst.data.view(np.uint8).copy()


def test_training_and_inference_and_their_other_names_give_the_same_bytes():
    data = np.random.default_rng(1).integers(0, 256, NCHW.size, np.uint8)
    results = []
    for kind in ("forward_training", "forward_inference", "forward", "forward_scoring", rs.PropKind.forward):
        desc = rs.ShuffleForward.Desc(kind, NCHW, 1, 4)
        results.append(_run(rs.ShuffleForward(FPD(desc, CPU)), NCHW, data))
    assert all((result == results[0]).all() for result in results)
    assert rs.PropKind.forward is rs.PropKind.forward_training


@pytest.mark.parametrize(
    "kind", ["backward", "backward_data", "backward_weights", "undef", "sideways", 64, None]
)
def test_no_other_prop_kind_is_forward(kind):
    with refused("prop_kind"):
        rs.ShuffleForward.Desc(kind, NCHW, 1, 4)


@pytest.mark.parametrize("group", [1, 2, 3, 4, 6, 9, 12, 18, 36])
def test_backward_undoes_forward_and_is_forward_of_the_other_factor(group):
    data = np.random.default_rng(2).integers(0, 256, NCHW.size, np.uint8)
    there = _run(forward(NCHW, 1, group, CPU), NCHW, data)
    assert (_run(backward(NCHW, 1, group, CPU), NCHW, there) == data).all()
    other = _run(forward(NCHW, 1, 36 // group, CPU), NCHW, data)
    assert (_run(backward(NCHW, 1, group, CPU), NCHW, data) == other).all()


def test_nans_keep_their_payload(engine):
    md = rs.MemoryDesc((1, 4), "f32", "ab")
    bits = np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000], np.uint32)
    moved = _run(forward(md, 1, 2, engine), md, bits.view(np.uint8), engine).view(np.uint32)
    assert moved.tolist() == bits[[0, 2, 1, 3]].tolist()


# --- descriptors: forms, queries, formats -----------------------------------------------------------------


def test_version_3_takes_source_and_destination():
    with_any = rs.MemoryDesc(MD.dims, "f32", "any")
    for dst in (MD, with_any):
        pd = FPD(CPU, "forward_training", MD, dst, 1, 4)
        assert (pd.src_desc(), pd.dst_desc()) == (MD, MD)
    named = FPD(engine=CPU, prop_kind="forward", src_md=MD, dst_md=MD, axis=1, group_size=4)
    assert named.get_group_size() == 4
    pd = BPD(CPU, MD, with_any, 1, 4, None)
    assert (pd.diff_src_desc(), pd.diff_dst_desc()) == (MD, MD)


def test_any_backward_takes_the_format_of_the_hint_else_row_major():
    any_md = rs.MemoryDesc((2, 36, 3, 5), "f32", "any")
    desc = rs.ShuffleBackward.Desc(any_md, 1, 4)
    hint = FPD(rs.ShuffleForward.Desc("forward", MD, 1, 4), CPU)
    assert BPD(desc, CPU, hint).diff_src_desc() == MD
    for none in (None, FPD()):
        assert BPD(desc, CPU, none).diff_src_desc() == NCHW
    bf16 = rs.ShuffleBackward.Desc(rs.MemoryDesc((4, 36, 3, 5), "bf16", "any"), 1, 4)
    assert BPD(bf16, CPU, hint).diff_src_desc() == rs.MemoryDesc((4, 36, 3, 5), "bf16", "nChw16c")


def test_a_hint_of_another_kind_is_a_type_error():
    reorder = rs.Reorder.PrimitiveDesc(CPU, MD, CPU, NCHW)
    backward_pd = BPD(rs.ShuffleBackward.Desc(MD, 1, 4), CPU, None)
    for hint in (reorder, backward_pd, MD, 5):
        with pytest.raises(TypeError, match="hint_fwd_pd is not a hint") as caught:
            BPD(rs.ShuffleBackward.Desc(MD, 1, 4), CPU, hint)
        assert isinstance(caught.value, rs.InvalidArguments)


@pytest.mark.parametrize("primitive", [rs.ShuffleForward, rs.ShuffleBackward])
def test_what_is_empty_is_false_and_refuses(primitive):
    pd = primitive.PrimitiveDesc()
    assert not pd
    assert not primitive()
    with refused("the primitive descriptor is empty"):
        _ = pd.impl_info_str
    with refused("the primitive descriptor is empty"):
        primitive(pd)
    with refused("the primitive is empty"):
        primitive().execute(rs.Stream(CPU), rs.Memory(MD, CPU), rs.Memory(MD, CPU))
    with refused("not a primitive descriptor"):
        primitive(MD)


def test_allow_empty_turns_failures_into_empty_descriptors():
    attr = rs.PrimitiveAttr()
    attr.set_output_scales(0, [2.0])
    desc = rs.ShuffleForward.Desc("forward", MD, 1, 4)
    assert not FPD(desc, CPU, attr, True)
    assert not FPD(CPU, "forward", MD, NCHW, 1, 4, allow_empty=True)
    assert not FPD(CPU, "forward", MD, MD, 1, 5, allow_empty=True)
    assert not BPD(CPU, MD, MD, 9, 4, None, allow_empty=True)
    assert FPD(desc, CPU, None, True)


def test_scratchpad_mode_is_the_only_attribute():
    desc = rs.ShuffleForward.Desc("forward", MD, 1, 4)
    attr = rs.PrimitiveAttr()
    attr.set_scratchpad_mode("user")
    assert FPD(desc, CPU, attr).get_primitive_attr().get_scratchpad_mode() == "user"
    ops = rs.PostOps()
    ops.append_sum(1.0)
    summed = rs.PrimitiveAttr()
    summed.set_post_ops(ops)
    scaled = rs.PrimitiveAttr()
    scaled.set_scales(rs.ARG_SRC, 0, [2.0])
    shifted = rs.PrimitiveAttr()
    shifted.set_zero_points(rs.ARG_DST, 0, [2])
    for wrong in (summed, scaled, shifted):
        with refused("unsupported attribute", kind=rs.Unimplemented):
            FPD(desc, CPU, wrong)
    with refused("attr is not a set of attributes"):
        FPD(desc, CPU, {"scale": 2})


# --- S20 and what else is refused -------------------------------------------------------------------------


def _v3(src, dst, axis=1, group=4):
    return FPD(CPU, "forward", src, dst, axis, group)


def test_two_types_or_two_formats_are_not_provided():
    with refused("different data types", kind=rs.Unimplemented):
        _v3(NCHW, rs.MemoryDesc(NCHW.dims, "bf16", "nchw"))
    with refused("different formats", kind=rs.Unimplemented):
        _v3(NCHW, rs.MemoryDesc(NCHW.dims, "f32", "nhwc"))
    with refused("inconsistent src and dst mds"):
        _v3(NCHW, rs.MemoryDesc((3, 36, 3, 5), "f32", "nchw"))


def test_an_undefined_source_is_refused():
    with refused("has format 'any'"):
        _v3(rs.MemoryDesc(NCHW.dims, "f32", "any"), NCHW)
    with refused("data_desc has format 'any'"):
        rs.ShuffleForward.Desc("forward", rs.MemoryDesc(NCHW.dims, "f32", "any"), 1, 4)
    for md in (rs.MemoryDesc(), 5, None):
        with refused(": data_desc "):
            rs.ShuffleForward.Desc("forward", md, 1, 4)
    with refused():
        rs.MemoryDesc((2, -36, 3), "f32", "abc")
    with refused():
        rs.MemoryDesc((2, 36, 3), "undef", "abc")


def test_dims_known_later_are_not_provided():
    md = rs.MemoryDesc((2, rs.RUNTIME_DIM, 3), "f32", (3, 1, 1))
    with refused("only at execution", kind=rs.Unimplemented):
        rs.ShuffleForward.Desc("forward", md, 1, 4)


@pytest.mark.parametrize("axis", [-1, 4, 99, 2**70])
def test_axes_are_counted_from_zero(axis):
    with refused("bad axis"):
        rs.ShuffleForward.Desc("forward", NCHW, axis, 4)
    with refused("bad axis"):
        rs.ShuffleBackward.Desc(NCHW, axis, 4)


@pytest.mark.parametrize("axis", ["1", 1.0, None, True])
def test_an_axis_is_an_integer(axis):
    with refused("axis"):
        rs.ShuffleForward.Desc("forward", NCHW, axis, 4)


@pytest.mark.parametrize("group", [0, -1, 5, 37, 72, 2**70])
def test_a_group_size_divides_the_axis(group):
    for make in (
        lambda: rs.ShuffleForward.Desc("forward", NCHW, 1, group),
        lambda: rs.ShuffleBackward.Desc(NCHW, 1, group),
    ):
        with refused(
            "bad param group_size",
            "C = 36",
            "group_size = ",
            "group = C / group_size",
            "1, 2, 3, 4, 6, 9, 12, 18, 36",
        ):
            make()


def test_an_axis_without_channels_has_no_group_size():
    md = rs.MemoryDesc((2, 0, 3), "f32", "abc")
    for group in (0, 1, 2):
        with refused("bad param group_size", "C = 0"):
            rs.ShuffleForward.Desc("forward", md, 1, group)


def test_a_destination_that_repeats_itself_is_refused():
    md = rs.MemoryDesc.from_strides((2, 4), "f32", (0, 1))
    with refused("share memory", "(N8)"):
        FPD(rs.ShuffleForward.Desc("forward", md, 1, 2), CPU)


@pytest.mark.parametrize("args", [(MD, CPU), (None, CPU), (rs.ShuffleBackward.Desc(MD, 1, 4), CPU)])
def test_a_descriptor_of_the_wrong_kind_is_refused(args):
    with refused("not a descriptor"):
        FPD(*args)
    with refused("not an engine"):
        FPD(rs.ShuffleForward.Desc("forward", MD, 1, 4), "cpu")


# --- execution --------------------------------------------------------------------------------------------


def test_eight_threads_share_a_primitive():
    md = rs.MemoryDesc((4, 36, 40, 40), "f32", "nChw16c")
    primitive = forward(md, 1, 4, CPU)
    wrong: list[int] = []

    def work(seed):
        src, dst = guarded(md, CPU), guarded(md, CPU)
        random_bits(src, seed)
        wanted = by_offset(src.elements, md, dst.elements, md, 1, 4)
        for _ in range(5):
            dst.elements[:] = 0xFFFFFFFF
            primitive.execute(rs.Stream(CPU), src.memory, dst.memory)
            if not (dst.elements == wanted).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_equal_problems_share_what_is_compiled():
    md = rs.MemoryDesc((2, 36, 3, 5), "f32", "nChw8c")
    one, other = forward(md, 1, 4, CPU), backward(rs.MemoryDesc((2, 36, 3, 5), "f32", "nChw8c"), 1, 9, CPU)
    assert one._impl.executable.lowered == other._impl.executable.lowered
    assert one._impl.executable.call.args == other._impl.executable.call.args  # the same machine code


def test_verbose_lines_name_the_shuffle(capfd):
    md = rs.MemoryDesc((1, 60, 28, 28), "f32", "aBcd4b")
    with rs.set_verbose("profile"):
        made = forward(md, 1, 20, CPU)
        made.execute(rs.Stream(CPU), rs.Memory(md, CPU), rs.Memory(md, CPU))
        back = backward(md, 1, 20, REF)
    del back
    said = capfd.readouterr().err.splitlines()
    lines = [line for line in said if ",info," not in line and ",cache:evict," not in line]
    fields = [line.split(",") for line in lines]
    assert [line[3] for line in fields] == ["create:cache_miss", "exec", "create:cache_miss"]
    assert fields[1][4:6] == ["cpu", "shuffle"]
    assert fields[1][7:10] == ["forward_inference", "data:f32::blocked:aBcd4b::f0", ""]
    assert fields[1][10].startswith("axis:1 group:20 why:")
    assert fields[1][11] == "1x60x28x28"
    assert fields[2][6:8] == ["ref:any", "backward"]
