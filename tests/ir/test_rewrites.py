"""4-bit elements, two to a byte, the first in the low half: whatever shares a byte keeps its value."""

from __future__ import annotations

import dataclasses
import threading
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.ir.conversion import PROVIDED, from_real
from restride.ir.digits import reorder_nest
from restride.ir.nest import Axis, Bound, Compute, LoopNest
from restride.ir.nest_rewrites import (
    byte_nest,
    in_pairs,
    linear_table,
    normalize,
    peel,
    peeled_boxes,
    slice_axis,
)
from restride.ir.program import Program
from restride.ops.reorder import ReorderProblem
from restride.runtime.alloc import Buffer
from restride.runtime.arguments import Arguments
from restride.runtime.reference import ReferenceDevice
from restride.schedule.moves.schedule import moves_whole_bytes
from restride.schedule.passes import spread_bytes
from support.by_offset import check_reorder
from support.descriptors import pairs
from support.effort import examples
from support.nests import meaning, nests
from support.programs import compiled_program
from support.values import patterns

# --- nibbles -----------------------------------------------------------------

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
STREAM = rs.Stream(CPU)
_FOUR = ("s4", "u4")


def _four_bits(pair: tuple[MemoryDesc, MemoryDesc]) -> bool:
    return any(md.data_type.bits == 4 for md in pair)


def _why(src: MemoryDesc, dst: MemoryDesc) -> str:
    return rs.Reorder.PrimitiveDesc(CPU, src, CPU, dst).impl_info_str


@settings(max_examples=examples(150))
@given(pairs().filter(_four_bits), st.sampled_from((1.0, -0.5)), st.sampled_from((0.0, 0.0, 2.0)))
def test_any_layout_of_four_bits_goes_anywhere(
    pair: tuple[MemoryDesc, MemoryDesc], alpha: float, beta: float
) -> None:
    check_reorder(*pair, CPU, alpha=alpha, beta=beta)


@settings(max_examples=examples(30))
@given(pairs(max_ndims=4, most=400).filter(_four_bits), st.sampled_from((0.0, -1.0)))
def test_the_reference_engine_packs_as_the_descriptor_says(
    pair: tuple[MemoryDesc, MemoryDesc], beta: float
) -> None:
    check_reorder(*pair, REF, beta=beta)


@pytest.mark.parametrize("name", _FOUR)
@pytest.mark.parametrize("count", [1, 2, 3, 15, 16, 17, 127, 129, 1025])
def test_odd_counts_leave_the_half_beside_the_last_element_as_it_was(name: str, count: int) -> None:
    values = np.arange(count) % 16 - (8 if name == "s4" else 0)
    dst = rs.Memory(MemoryDesc((count,), name), CPU, np.full(-(-count // 2), 0xFF, np.uint8))
    rs.reorder(values.astype(np.int32), out=dst, dst=None)
    bits = np.append(values & 15, [15] * (count % 2)).astype(np.uint8)
    np.testing.assert_array_equal(dst.data, bits[::2] | bits[1::2] << 4)


@pytest.mark.parametrize("name", _FOUR)
def test_a_window_leaves_the_other_half_of_its_bytes(name: str) -> None:
    """Rows of three elements within rows of eight: the fourth shares a byte with the third."""
    whole = MemoryDesc((5, 8), name)
    window = whole.submemory_desc((5, 3), (0, 0))
    held = np.full(20, 0xA5, np.uint8)
    dst = rs.Memory(window, CPU, held)
    rs.reorder(np.zeros((5, 3), np.float32), None, out=dst)
    np.testing.assert_array_equal(held.reshape(5, 4), [[0, 0xA0, 0xA5, 0xA5]] * 5)


@pytest.mark.parametrize(
    ("src", "dst"),
    [
        (("f32", "ab"), ("s4", "ab")),
        (("s4", "ab"), ("f32", "ab")),
        (("u4", "ab"), ("bf16", "BA16a16b")),
        (("f32", "ba"), ("u4", "ab")),
    ],
    ids=str,
)
def test_whole_bytes_are_unpacked_and_packed_in_registers(src: tuple[str, str], dst: tuple[str, str]) -> None:
    descs = [MemoryDesc((64, 128), *side) for side in (src, dst)]
    assert "through bytes" not in _why(*descs)


def test_what_shares_bytes_across_tiles_goes_through_bytes_and_says_so() -> None:
    src, dst = MemoryDesc((65, 129), "s4", "ab"), MemoryDesc((65, 129), "s4", "ba")
    made = rs.Reorder(rs.Reorder.PrimitiveDesc(CPU, src, CPU, dst))
    assert "through bytes" in str(rs.plan(src, dst))
    assert made


def _nest(src: MemoryDesc, dst: MemoryDesc) -> LoopNest:
    return reorder_nest(src, dst, Compute())


def test_spreading_begins_at_a_whole_byte() -> None:
    src = MemoryDesc((3, 5), "s4").submemory_desc((3, 4), (0, 1))
    made = byte_nest(_nest(src, MemoryDesc((3, 4), "f32")), (1, 15), (0, 12))
    assert (made.src, made.dst) == ((0, 15), None)
    assert (made.nest.src_type, made.nest.src_base) == (rs.s8, 1)
    assert _nest(src, src).has_nibbles
    assert not made.nest.has_nibbles
    assert moves_whole_bytes([])


def _run_by_definition(program: Program, data: np.ndarray, written: int) -> np.ndarray:
    """Return the reference engine's result, in so many bytes."""
    device, out = ReferenceDevice("reference"), np.zeros(written, np.uint8)
    buffers = tuple(Buffer(x.ctypes.data, x.nbytes, False, x) for x in (data.view(np.uint8), out))
    device.launch(device.compile(program), Arguments(buffers, ()), None)
    return out


@pytest.mark.parametrize("kind", PROVIDED, ids=str)
def test_a_float_of_four_bits_is_rounded_once_through_bytes_of_its_own(kind: DataType) -> None:
    """Nothing converts it yet, but the definition; as a float of 8 bits in between it is rounded twice."""
    near = np.linspace(-7, 7, 57)[:, None] * (1 + np.array([-(2.0**-n) for n in (3, 5, 9, 20, 40)]))
    values = np.concatenate(
        [from_real(near.reshape(-1), kind), patterns(kind)[:: patterns(kind).size // 999 or 1]]
    )
    values = np.resize(values, (3, values.size // 3 | 1))
    md, packed = MemoryDesc(values.shape, kind, "ab"), MemoryDesc(values.shape, "f4_e2m1", "ba")
    data = values.reshape(-1)
    if kind.bits == 4:
        data = np.append(data, np.zeros(data.size % 2, np.uint8))
        data = data[::2] | data[1::2] << 4
    codes = np.arange((packed.nelems + 1) // 2).astype(np.uint8)
    for program, held, written in (
        (ReorderProblem(md, packed).program(), data, len(codes)),
        (ReorderProblem(packed, md).program(), codes, md.size),
    ):
        apart = spread_bytes(program, lambda step: True)
        assert len(apart.steps) == len(program.steps) + 1 + (kind.bits == 4)
        wanted = _run_by_definition(program, held, written)
        np.testing.assert_array_equal(_run_by_definition(apart, held, written), wanted)


def test_codes_of_a_float_of_four_bits_are_moved_as_they_are() -> None:
    dims = (65, 129)
    src, dst = MemoryDesc(dims, "f4_e2m1", "ab"), MemoryDesc(dims, "f4_e2m1", "ba")
    codes = np.random.default_rng(0).integers(0, 256, (src.nelems + 1) // 2).astype(np.uint8)
    out, program = np.zeros_like(codes), ReorderProblem(src, dst).program()
    executable = compiled_program(program)
    assert executable.scratch_bytes
    executable.call(codes.ctypes.data, out.ctypes.data, 0)
    np.testing.assert_array_equal(out, _run_by_definition(program, codes, out.size))


def test_threads_share_a_program_that_goes_through_bytes() -> None:
    src_md, dst_md = MemoryDesc((65, 129), "u4", "ab"), MemoryDesc((65, 129), "u4", "ba")
    made = rs.Reorder(rs.Reorder.PrimitiveDesc(CPU, src_md, CPU, dst_md))
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 16, (65, 129)) for _ in range(4)]
    results: list[np.ndarray] = [np.empty(0)] * 4

    def work(i: int) -> None:
        src, dst = rs.Memory(src_md, CPU), rs.Memory(dst_md, CPU)
        rs.reorder(inputs[i].astype(np.uint8), out=src, dst=None)
        for _ in range(20):
            made.execute(STREAM, src, dst)
        results[i] = rs.reorder(dst, "ab", dtype="s32")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for got, wanted in zip(results, inputs, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("src", "dst"), [("nhwc", "nChw16c"), ("nChw16c", "nhwc"), ("nchw", "nchw")])
@pytest.mark.parametrize("dims", [(2, 32, 5, 3), (1, 48, 7, 2), (2, 36, 3, 5)])
def test_elements_that_keep_their_neighbor_move_as_bytes(src: str, dst: str, dims: tuple[int, ...]) -> None:
    held, wanted = MemoryDesc(dims, "s4", src), MemoryDesc(dims, "s4", dst)
    if dims[1] % 16 == 0:
        nest = normalize(_nest(held, wanted))
        made = in_pairs(nest)
        assert made.src_type is made.dst_type is DataType.u8
        assert made.moved_bytes == nest.moved_bytes
    check_reorder(held, wanted, CPU)


@pytest.mark.parametrize(
    ("src", "dst", "dims"),
    [
        ("s4 nchw", "s4 nhwc", (2, 32, 5, 3)),  # neighbors part
        ("s4 ab", "s4 ab", (5, 3)),  # one element is alone
        ("s4 ab", "u4 ab", (4, 4)),  # values change
    ],
)
def test_other_elements_move_by_themselves(src: str, dst: str, dims: tuple[int, ...]) -> None:
    held, wanted = (MemoryDesc(dims, *text.split()) for text in (src, dst))
    nest = normalize(_nest(held, wanted))
    assert in_pairs(nest) == nest
    check_reorder(held, wanted, CPU)


# --- rewrites ----------------------------------------------------------------
# Rewrites of nests keep their meaning.

_F32, _S8 = DataType.f32, DataType.s8


def _nest_of_rewrites(
    *axes: Axis, bounds: tuple[Bound, ...] = (), compute: Compute | None = None
) -> LoopNest:
    return LoopNest(_F32, _S8, axes, compute=compute or Compute(), bounds=bounds)


@settings(max_examples=examples(100))
@given(nests(), st.data())
def test_slices_of_an_axis_do_together_what_the_axis_does(nest: LoopNest, data: st.DataObject) -> None:
    free = [i for i, axis in enumerate(nest.axes) if axis.bound < 0]
    assume(free)
    index = data.draw(st.sampled_from(free))
    extent = nest.axes[index].extent
    cut = data.draw(st.integers(0, extent))
    low, high = slice_axis(nest, index, 0, cut), slice_axis(nest, index, cut, extent - cut)
    assert meaning(low, high, like=nest) == meaning(nest)
    assert low.axes[index].extent + high.axes[index].extent == extent
    low.verify()
    high.verify()


def test_slice_moves_the_bases_and_keeps_what_is_left_to_read() -> None:
    nest = LoopNest(_F32, _S8, (Axis(5, 3, (7, 9, 11, 20, 1), valid=4),), src_base=1, dst_base=2)
    sliced = slice_axis(nest, 0, 2, 3)
    assert (sliced.src_base, sliced.dst_base) == (7, 13)
    assert sliced.axes == (Axis(3, 3, (0, 9, -10), valid=2),)
    assert slice_axis(nest, 0, 0, 3).axes == (Axis(3, 3, 2),)
    assert slice_axis(nest, 0, 0, 3).dst_base == 9


def test_a_table_that_is_a_line_becomes_its_stride() -> None:
    assert linear_table((0, 4, 8)) == 4
    assert linear_table((0, -4, -8)) == -4
    assert linear_table((0, 0, 0)) == 0
    assert linear_table((0, 4, 9)) == (0, 4, 9)
    assert linear_table((1, 5, 9)) == (1, 5, 9)
    assert linear_table((0,)) == linear_table(()) == 0


@settings(max_examples=examples(100))
@given(nests())
def test_peeled_boxes_do_together_what_the_nest_does(nest: LoopNest) -> None:
    boxes = peel(nest)
    assert meaning(*boxes, like=nest) == meaning(nest)
    assert all(not box.bounds and all(axis.bound < 0 for axis in box.axes) for box in boxes)
    assert not any(box.is_empty for box in boxes)
    for box in boxes:
        box.verify()


@settings(max_examples=examples(100))
@given(nests())
def test_peeled_boxes_do_not_overlap(nest: LoopNest) -> None:
    """Together they run each position that is written exactly once."""
    indices = product(*(range(axis.extent) for axis in nest.axes))
    assert sum(box.positions for box in peel(nest)) == sum(_is_written(nest, at) for at in indices)


def _is_written(nest: LoopNest, at: tuple[int, ...]) -> bool:
    sums = [0] * len(nest.bounds)
    for axis, position in zip(nest.axes, at, strict=True):
        if axis.bound >= 0:
            sums[axis.bound] += position * axis.step
    return all(total < bound.padded for total, bound in zip(sums, nest.bounds, strict=True))


@given(nests())
def test_the_number_of_boxes_is_known_before_peeling(nest: LoopNest) -> None:
    assert len(peel(nest)) <= peeled_boxes(nest)


def test_twelve_partial_blocks_are_counted_without_being_made() -> None:
    axes = [a for d in range(12) for a in (Axis(2, 1, 1, bound=d, step=2), Axis(2, 1, 1, bound=d, step=1))]
    nest = _nest_of_rewrites(*axes, bounds=(Bound(3, 4),) * 12)
    assert peeled_boxes(nest.verify()) == 2**12


def test_peel_makes_the_boxes_that_its_text_shows() -> None:
    nest = _nest_of_rewrites(
        Axis(2, 1600, 16, bound=0, step=16), Axis(16, 100, 1, bound=0, step=1), bounds=(Bound(17, 32),)
    )
    whole, part = peel(nest)
    assert whole.axes == (Axis(1, 1600, 16), Axis(16, 100, 1))
    assert part.axes == (Axis(1, 1600, 16), Axis(16, 100, 1, valid=1))
    assert (part.src_base, part.dst_base) == (1600, 16)


@given(nests(bounded=False))
def test_normal_form_means_the_same(nest: LoopNest) -> None:
    normal = normalize(nest)
    assert meaning(normal, like=nest) == meaning(nest)
    normal.verify()


@given(nests(bounded=False))
def test_normal_form_is_its_own_normal_form(nest: LoopNest) -> None:
    normal = normalize(nest)
    assert normalize(normal) == normal


@given(nests(), st.randoms(use_true_random=False))
def test_normal_form_does_not_depend_on_the_order_of_axes(nest: LoopNest, random: st.DrawFn) -> None:
    for box in peel(nest):
        if not all(axis.is_linear for axis in box.axes):
            continue
        axes = list(box.axes)
        random.shuffle(axes)  # type: ignore[attr-defined]
        assert normalize(dataclasses.replace(box, axes=tuple(axes))) == normalize(box)


@given(nests(bounded=False))
def test_normal_form_has_no_unit_axes_and_nothing_left_to_fuse(nest: LoopNest) -> None:
    normal = normalize(nest)
    assert all(axis.extent > 1 for axis in normal.axes) or normal.is_zero
    assert len(normal.axes) <= max(len(nest.axes), 1)
    for outer, inner in product(normal.axes, repeat=2):
        if not (outer.is_linear and inner.is_linear and inner.is_whole) or normal.is_zero:
            continue
        assert (outer.src, outer.dst) != (inner.src * inner.extent, inner.dst * inner.extent)


@given(nests(bounded=False))
def test_a_zero_nest_forgets_its_source(nest: LoopNest) -> None:
    assume(nest.axes)
    nest = dataclasses.replace(nest, axes=(dataclasses.replace(nest.axes[0], valid=0), *nest.axes[1:]))
    moved = dataclasses.replace(nest, src_base=nest.src_base + 7)
    moved = dataclasses.replace(moved, axes=tuple(dataclasses.replace(a, src=3) for a in nest.axes))
    assert normalize(moved) == normalize(nest)
    assert normalize(nest).is_zero
    assert normalize(nest).src_base == 0


def test_neighbors_fuse_into_one_axis() -> None:
    dense = _nest_of_rewrites(
        Axis(2, 60, 60), Axis(3, 20, 20), Axis(1, 999, 999), Axis(4, 5, 5), Axis(5, 1, 1)
    )
    assert normalize(dense).axes == (Axis(120, 1, 1),)
    transposed = _nest_of_rewrites(Axis(2, 1, 60), Axis(3, 40, 20), Axis(4, 10, 5), Axis(5, 2, 1))
    assert normalize(transposed).axes == (Axis(2, 1, 60), Axis(60, 2, 1))
    reversed_ = _nest_of_rewrites(Axis(3, -4, 4), Axis(4, -1, 1))
    assert normalize(reversed_).axes == (Axis(12, -1, 1),)
    broadcast = _nest_of_rewrites(Axis(3, 0, 4), Axis(4, 0, 1))
    assert normalize(broadcast).axes == (Axis(12, 0, 1),)


def test_a_partial_axis_fuses_only_as_the_outer_one() -> None:
    outer = _nest_of_rewrites(Axis(3, 4, 4, valid=2), Axis(4, 1, 1))
    assert normalize(outer).axes == (Axis(12, 1, 1, valid=8),)
    inner = _nest_of_rewrites(Axis(3, 4, 4), Axis(4, 1, 1, valid=2))
    assert normalize(inner).axes == (Axis(3, 4, 4), Axis(4, 1, 1, valid=2))
