"""Kernels of loop trees do what the interpreter says, on every instruction set that this machine runs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from restride.desc.attr import Attr
from restride.desc.memory_desc import MemoryDesc
from restride.ir.conversion import Array, to_real
from restride.ir.expression import Ref, Scalar, TreeAxis, apply
from restride.ir.interpret_tree import interpret_tree
from restride.ir.numbers import Number
from restride.ir.program import TreeStep
from restride.ir.tree import Each, Guard, LoopTree, TreeTensor, fold_over
from restride.ops.pooling import PoolingBackwardProblem
from restride.ops.programs.resampling_rows import ResamplingRows
from restride.ops.programs.windows import Windows
from restride.runtime.alloc import address_of
from restride.runtime.cpu.kernel import KernelWords, kernel_of
from restride.schedule.trees.schedule import schedule_tree
from restride.schedule.trees.streams import has_streams
from restride.targets.cpu_kernels import lower_loop
from restride.targets.isa import Isa, host_isa
from support.trees import flat_of, pointwise_trees, reduction_trees, run_kernels, softmax_tree, window_tree

RNG = np.random.default_rng(3)
_LADDER = ("generic", "sse41", "avx2", "avx512")
_HOST = host_isa()
ISAS = [Isa.for_name(name) for name in _LADDER[: _LADDER.index(_HOST.name)]] if _HOST.name in _LADDER else []
ISAS.append(_HOST)


def _check(tree: LoopTree, flats: Sequence[Array], isa: Isa, parts: int = 1, rtol: float = 2e-5) -> None:
    """Kernels and interpreter write the same bytes, floats up to what another order of sums gives."""
    mine, theirs = ([flat.copy() for flat in flats] for _ in range(2))
    scalars = tuple(range(2, 2 + tree.scalars))
    interpret_tree(tree, mine, scalars)
    run_kernels(tree, theirs, isa, scalars, parts)
    for tensor, one, other in zip(tree.tensors, mine, theirs, strict=True):
        a, b = (to_real(flat, tensor.data_type, np.float64) for flat in (one, other))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=f"{tensor.name} of\n{tree}")


def _filled(mds: Sequence[MemoryDesc]) -> list[Array]:
    *read, written = mds
    return [*(flat_of(md, RNG.integers(-9, 9, md.dims)) for md in read), flat_of(written)]


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("tags", [("nchw", "nhwc"), ("nhwc", "nhwc"), ("nChw16c", "nChw8c")], ids=str)
@pytest.mark.parametrize("axis", [1, 3])
def test_softmax(isa: Isa, tags: tuple[str, str], axis: int) -> None:
    dims = (2, 19, 3, 5)
    src, dst = (MemoryDesc(dims, "f32", tag) for tag in tags)
    _check(
        softmax_tree(src, dst, axis), [flat_of(src, RNG.standard_normal(dims)), flat_of(dst)], isa, parts=3
    )


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("tag", ["nchw", "nhwc", "nChw16c"])
@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 2, 2)], ids=str)
def test_windows(isa: Isa, tag: str, shape: tuple[int, int, int]) -> None:
    kernel, step, pad = shape
    src = MemoryDesc((2, 5, 9, 21), "f32", tag)
    dst = MemoryDesc((2, 5, *((n + 2 * pad - kernel) // step + 1 for n in src.dims[2:])), "f32", tag)
    flats = [flat_of(src, RNG.integers(-9, 9, src.dims)), flat_of(dst)]
    flats += [np.zeros(dst.nelems, np.uint32) for _ in range(2)]
    _check(window_tree(src, dst, kernel, step, pad), flats, isa, parts=2)


@settings(max_examples=12, deadline=None)
@given(pointwise_trees())
def test_pointwise_in_any_formats_and_types(case: tuple[LoopTree, list[MemoryDesc]]) -> None:
    tree, mds = case
    _check(tree, _filled(mds), ISAS[sum(mds[0].dims) % len(ISAS)], parts=1 + mds[0].dims[0] % 3, rtol=0)


@settings(max_examples=12, deadline=None)
@given(reduction_trees())
def test_folds_along_any_dims(case: tuple[LoopTree, list[MemoryDesc]]) -> None:
    tree, mds = case
    _check(tree, _filled(mds), ISAS[sum(mds[0].dims) % len(ISAS)], parts=1 + mds[0].dims[0] % 3)


def test_a_window_over_a_blocked_dim_is_computed() -> None:
    md = MemoryDesc((2, 19, 3), "f32", "aBc8b")
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", md)
    a, b, c, k = (TreeAxis(name, n) for name, n in zip("abck", (*md.dims, 5), strict=True))
    window = Each((k,), (fold_over("sum", "s", x.load(a, b + k - 2, c)),), (Guard(b + k - 2, 19),))
    tree = LoopTree((x, y), (Each((a, b, c), (window, y.store((a, b, c), Ref("s")))),)).verify()
    _check(tree, _filled([md, md]), _HOST, rtol=0)


@pytest.mark.parametrize("groups", [3, 6])
def test_an_index_of_two_axes_goes_through_blocks(groups: int) -> None:
    md = MemoryDesc((2, 24, 5), "f32", "aBc8b")
    size = 24 // groups
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", md)
    a, g, k, c = (TreeAxis(name, n) for name, n in zip("agkc", (2, groups, size, 5), strict=True))
    total = Each((k, c), (fold_over("sum", "s", x.load(a, g * size + k, c)),))
    part = Each((k, c), (y.store((a, g * size + k, c), x.load(a, g * size + k, c) / Ref("s")),))
    tree = LoopTree((x, y), (Each((a, g), (total, part)),)).verify()
    assert not any(schedule_tree(tree).computed.values())
    _check(tree, [flat_of(md, RNG.integers(1, 9, md.dims)), flat_of(md)], _HOST)


def test_padding_that_no_axis_covers_is_cleared() -> None:
    md = MemoryDesc((2, 15), "f32", "aB8b")
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", md)
    a, g, k = (TreeAxis(name, n) for name, n in zip("agk", (2, 5, 3), strict=True))
    tree = LoopTree((x, y), (Each((a, g, k), (y.store((a, g * 3 + k), x.load(a, g * 3 + k)),)),)).verify()
    assert schedule_tree(tree).uncovered == ("y",)
    _check(tree, _filled([md, md]), _HOST, rtol=0)


def test_two_loops_are_two_kernels_and_scalars_are_read() -> None:
    md = MemoryDesc((70,), "f32", "a")
    x, y, z = (TreeTensor.of_desc(name, md) for name in "xyz")
    i = TreeAxis("i", 70)
    first = Each((i,), (y.store((i,), x.load(i) * Scalar(1)),))
    second = Each((i,), (z.store((i,), apply("exp", y.load(i) * 0.1)),))
    tree = LoopTree((x, y, z), (first, second), scalars=2).verify()
    _check(tree, [*_filled([md, md]), flat_of(md)], _HOST, parts=2)


def test_doubles_hold_integers_of_32_bits() -> None:
    md = MemoryDesc((33,), "s32", "a")
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", MemoryDesc((1,), "s32", "a"))
    i = TreeAxis("i", 33)
    body = (Each((i,), (fold_over("max", "m", x.load(i)),)), y.store((0,), Ref("m")))
    tree = LoopTree((x, y), (Each((), body),), number=Number.f64).verify()
    held = np.arange(2**31 - 33, 2**31, dtype=np.int64).astype(np.uint32)
    out = np.zeros(1, np.uint32)
    run_kernels(tree, [held, out], _HOST)
    assert out[0] == 2**31 - 1


@pytest.mark.parametrize("tag", ["nchw", "nhwc", "nChw16c"])
def test_sums_have_the_same_bits_on_every_instruction_set_and_in_any_parts(tag: str) -> None:
    dims = (2, 19, 7, 33)
    md = MemoryDesc(dims, "f32", tag)
    src = flat_of(md, RNG.standard_normal(dims))
    found = []
    for isa in ISAS:
        for parts in (1, 2, 5):
            out = flat_of(md)
            run_kernels(softmax_tree(md, md, 1), [src, out], isa, parts=parts)
            found.append(out.tobytes())
    assert len(set(found)) == 1


def test_a_long_function_is_code_once_though_a_fold_has_few_positions() -> None:
    """Nineteen times exp, one behind the other, took LLVM a second."""
    mds = [MemoryDesc((2, channels, 8, 32), "f32", "nchw") for channels in (19, 64)]
    few, many = (lower_loop(softmax_tree(md, md, 1), _HOST).ir().count("fmul") for md in mds)
    assert few == many > 0


_CHANNEL = MemoryDesc((32,), "f32", "a")


def _plus_a_channel(md: MemoryDesc) -> LoopTree:
    """Read one value for all positions of a channel, like its statistics."""
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", md)
    channel = TreeTensor.of_desc("channel", _CHANNEL)
    axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(md.dims))
    made = y.store(axes, x.load(*axes) + channel.load(axes[1]))
    return LoopTree((x, channel, y), (Each(axes, (made,)),)).verify()


def test_of_every_second_element_the_last_ones_are_loaded_side_by_side_too() -> None:
    """Twenty-eight windows, every second one of a row: 28 single loads took longer than all else."""
    src, dst = (MemoryDesc((2, 3, 1, n), "f32", "nchw") for n in (57, 28))
    x, y = TreeTensor.of_desc("src", src), TreeTensor.of_desc("dst", dst)
    axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(dst.dims))
    taken = x.load(*axes[:3], axes[3] * 2)
    tree = LoopTree((x, y), (Each(axes, (y.store(axes, taken),)),)).verify()
    assert lower_loop(tree, Isa.for_name("avx2")).ir().count("insertelement") < 28 // 2
    _check(tree, _filled([src, dst]), _HOST, parts=2)


def test_a_condition_is_asked_for_once() -> None:
    md = MemoryDesc((64,), "f32", "a")
    x, y = TreeTensor.of_desc("x", md), TreeTensor.of_desc("y", md)
    i = TreeAxis("i", 64)
    chosen = apply("select", apply("eq", x.load(i), 2.0), 5.0, x.load(i))
    tree = LoopTree((x, y), (Each((i,), (y.store((i,), chosen),)),)).verify()
    assert lower_loop(tree, _HOST).ir().count("fcmp oeq") == 1
    _check(tree, [flat_of(md, np.arange(64) % 4), flat_of(md)], _HOST)


def test_whole_lines_go_past_the_caches_and_mean_the_same() -> None:
    md = MemoryDesc((64, 256), "f32", "ab")
    tree = softmax_tree(md, md, 1)
    part = lower_loop(tree, _HOST, is_large=True)
    assert part.streams
    assert "!nontemporal" in part.ir()
    assert "!nontemporal" not in lower_loop(tree, _HOST).ir()
    assert part.unaligned is not None
    assert "!nontemporal" not in part.unaligned().ir()
    raw = np.zeros(4 * md.nelems + 64, np.uint8)
    start = -raw.ctypes.data % 64
    src = flat_of(md, RNG.standard_normal(md.dims))
    out, plain = raw[start : start + 4 * md.nelems].view(np.uint32), flat_of(md)
    params = KernelWords((), [address_of(src), address_of(out)])
    kernel_of(part, 1).call(0, 0, params.address)
    run_kernels(tree, [src, plain], _HOST)
    assert out.tobytes() == plain.tobytes()


@pytest.mark.parametrize(
    ("tag", "type_name", "streams"),
    [
        ("nChw8c", "f32", True),
        ("nChw16c", "bf16", True),
        ("nChw16c", "u8", True),
        ("nChw8c", "u8", False),
        ("nChw4c", "f32", True),
    ],
)
@pytest.mark.parametrize("channels", [32, 30])
def test_parts_of_lines_that_follow_each_other_go_past_the_caches(
    tag: str, type_name: str, streams: bool, channels: int
) -> None:
    md = MemoryDesc((2, channels, 8, 8), type_name, tag)
    _check_streams(_plus_a_channel(md), [md, _CHANNEL, md], is_there=streams)


@pytest.mark.parametrize(
    ("tag", "columns", "streams"),
    [
        ("nchw", 64, True),
        ("nchw", 56, True),
        ("nchw", 136, True),
        ("nchw", 36, False),
        ("nChw8c", 6, True),
        ("nChw16c", 5, True),
    ],
)
def test_what_some_stores_fill_together_goes_past_the_caches(tag: str, columns: int, streams: bool) -> None:
    """Every second element and those between them, and pixels beside each other."""
    small, large = (MemoryDesc((2, 16, 3 * n, columns * n), "f32", tag) for n in (1, 2))
    program, _ = ResamplingRows(small, large).planned((1, 2), Attr(), backward=False, is_wide=False)
    (step,) = program.steps
    assert isinstance(step, TreeStep)
    _check_streams(step.tree, [small, large], is_there=streams)


@pytest.mark.parametrize(("tag", "streams"), [("nhwc", True), ("nChw8c", True), ("nchw", False)])
def test_phases_of_strides_go_past_the_caches(tag: str, streams: bool) -> None:
    windows = Windows((2, 2), (3, 3), (0, 0), (1, 1), (0, 0))
    source, result = (MemoryDesc((2, 16, n, n), "f32", tag) for n in (10, 5))
    problem = PoolingBackwardProblem("avg_include_padding", windows, source, result)
    _check_streams(problem.tree(), [result, source], is_there=streams)


def _check_streams(tree: LoopTree, mds: Sequence[MemoryDesc], *, is_there: bool) -> None:
    """Stores past the caches of the last tensor are there or not, and write the same."""
    part = lower_loop(tree, _HOST, is_large=True)
    assert part.streams == is_there
    assert ("!nontemporal" in part.ir()) == is_there
    *read, written = mds
    raw = np.zeros(written.size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    out, plain = raw[start : start + written.size], flat_of(written)
    flats = [flat_of(md, RNG.integers(0, 9, md.dims)) for md in read]
    params = KernelWords((), [*map(address_of, flats), address_of(out)])
    kernel_of(part, 1).call(0, 0, params.address)
    run_kernels(tree, [*flats, plain], _HOST)
    assert out.tobytes() == plain.tobytes()


def test_lines_that_a_plane_does_not_fill_stay_in_the_caches() -> None:
    tree = _plus_a_channel(MemoryDesc((2, 32, 3, 5), "f32", "nChw8c"))
    assert not has_streams(schedule_tree(tree))


def test_what_lies_in_memory_is_asked_for_a_row_ahead_and_means_the_same() -> None:
    md = MemoryDesc((5, 200), "f32", "ab")
    tree = softmax_tree(md, md, 1)
    part = lower_loop(tree, _HOST, is_large=True)
    assert "llvm.prefetch" in part.ir()
    assert "llvm.prefetch" not in lower_loop(tree, _HOST).ir()
    src, out, plain = flat_of(md, RNG.standard_normal(md.dims)), flat_of(md), flat_of(md)
    params = KernelWords((), [address_of(src), address_of(out)])
    kernel_of(part, 1).call(0, 0, params.address)
    run_kernels(tree, [src, plain], _HOST)
    assert out.tobytes() == plain.tobytes()


def test_positions_run_backwards_from_memory_and_mean_the_same() -> None:
    md = MemoryDesc((5, 17, 40), "f32", "abc")
    tree = softmax_tree(md, md, 2)
    backwards = replace(tree, backwards=True)
    forward, part = (lower_loop(each, _HOST, is_large=True) for each in (tree, backwards))
    assert lower_loop(backwards, _HOST).ir() == lower_loop(tree, _HOST).ir()
    assert part.ir() != forward.ir()
    src, out, plain = flat_of(md, RNG.standard_normal(md.dims)), flat_of(md), flat_of(md)
    params = KernelWords((), [address_of(src), address_of(out)])
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 5)(kernel_of(part, 1).code.address)
    for number in range(3):
        run(0, 0, params.address, number, 3)
    run_kernels(tree, [src, plain], _HOST)
    assert out.tobytes() == plain.tobytes()
