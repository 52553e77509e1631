"""Contractions: sums of products, found in loop trees, in tiles of registers, on every instruction set."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restride.desc.memory_desc import MemoryDesc
from restride.ir.expression import Const, Load, Ref, TreeAxis, apply, index_of
from restride.ir.tree import Each, Guard, Let, LoopTree, TreeTensor, fold_over
from restride.schedule.contraction.schedule import draft_of
from restride.schedule.contraction.strides import find_contraction
from restride.schedule.contraction.transforms import apply as apply_to_contraction
from restride.schedule.contraction.transforms import name_of
from restride.schedule.language import Transform
from restride.targets.cpu import machine_of
from restride.targets.cpu_kernels import lower_contraction, lower_plan
from restride.targets.isa import CacheSizes, Isa
from restride.targets.jit import assembly
from support.contractions import (
    BLOCKED,
    CONVOLUTIONS,
    ConvolutionShape,
    check_contraction,
    convolution_tree,
    product_tree,
    run_contraction,
)
from support.effort import examples
from support.guarded import Guarded
from support.kernels import isa_id, runnable


@pytest.mark.sweep(1)
@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
@pytest.mark.parametrize(("window", "formats"), CONVOLUTIONS, ids=str)
def test_convolutions_equal_the_interpreter(
    window: ConvolutionShape, formats: tuple[str, str, str], isa: Isa
) -> None:
    descs = window.descs(*formats)
    check_contraction(convolution_tree(window, descs, is_relu=True), descs, isa, at_end=True)


@pytest.mark.parametrize("parts", [2, 5])
def test_parts_write_tiles_of_their_own(parts: int) -> None:
    window, formats = CONVOLUTIONS[1]
    descs = window.descs(*formats)
    check_contraction(convolution_tree(window, descs), descs, runnable()[-1], at_end=False, parts=parts)


@pytest.mark.parametrize(("window", "formats"), [CONVOLUTIONS[0], CONVOLUTIONS[6]], ids=str)
def test_no_tile_changes_a_bit(window: ConvolutionShape, formats: tuple[str, str, str]) -> None:
    descs = window.descs(*formats)
    tree, level = convolution_tree(window, descs), runnable()[-1]
    random = np.random.default_rng(0)
    values = [random.standard_normal(md.size // 4).astype(np.float32) for md in descs]
    answers, plans = set[bytes](), set[str]()
    contraction, machine = find_contraction(tree), machine_of(level, CacheSizes())
    assert contraction is not None
    draft = draft_of(contraction, machine)
    assert draft is not None
    for rows, vectors in draft.shapes[:6]:
        tile = Transform("tile", (name_of(draft.row), rows, vectors))
        plan = apply_to_contraction(contraction, machine, (tile,))
        lowered = lower_plan(plan, machine, level)
        buffers = [Guarded(each.nbytes, at_end=True) for each in values]
        for buffer, each in zip(buffers, values, strict=True):
            buffer.write(each.tobytes())
        run_contraction(lowered, buffers)
        answers.add(buffers[2].read())
        plans.add(str(lowered.plan))
    # Narrow vectors leave few tiles that are worth trying.
    assert len(plans) >= (3 if level.vector_bytes >= 32 else 1)
    assert len(answers) == 1


SPILL = re.compile(r"zmm.*\(%rsp|%rsp\).*zmm")
LAYERS = [
    (ConvolutionShape(1, 1, 3, 64, 9, 56), ("nchw", "Ohwi16o", "nChw16c"), "f32 f32"),
    (ConvolutionShape(1, 1, 3, 64, 9, 56), ("aBcd2b", "ABcd16a2b", "nChw16c"), "bf16 bf16"),
    (ConvolutionShape(1, 1, 64, 64, 9, 56), BLOCKED, "f32 f32"),
    (ConvolutionShape(1, 1, 64, 64, 9, 56), ("nChw16c", "OIhw8i16o2i", "nChw16c"), "bf16 bf16"),
    (ConvolutionShape(1, 1, 64, 64, 9, 56), ("nChw16c", "OIhw4i16o4i", "nChw16c"), "u8 s8"),
    (ConvolutionShape(16, 128, 1, 1, 9, 56), ("nChw16c", "Goihw16g", "nChw16c"), "bf16 bf16"),
]


@pytest.mark.parametrize(("window", "formats", "types"), LAYERS, ids=str)
def test_sums_stay_in_registers(window: ConvolutionShape, formats: tuple[str, str, str], types: str) -> None:
    level = Isa.for_name("avx512")
    level = replace(level, features=f"{level.features},+avx512vnni,+avx512bf16")
    tree = convolution_tree(window, window.descs(*formats, *types.split()))
    found = lower_contraction(tree, level, CacheSizes())
    assert found is not None
    assert max(kind.rows for kind in found.plan.tiling.kinds) * found.plan.vectors >= 16
    # Once for each kind of tile a vector may go there and back, beside the loops.
    assert len(SPILL.findall(assembly(found.ir(), level))) <= 2 * len(found.plan.tiling.kinds)


@pytest.mark.parametrize(("rows", "terms"), [(16, 300), (256, 45)])
def test_sums_stay_in_registers_whatever_divides_their_terms(rows: int, terms: int) -> None:
    # Steps that could be written out three, five or six at a time.
    level = Isa.for_name("avx512")
    first, second, dst = (1, rows, terms), (1, terms, 1200), (1, rows, 1200)
    descs = MemoryDesc(first, "f32"), MemoryDesc(second, "f32", "aCb32c"), MemoryDesc(dst, "f32")
    found = lower_contraction(product_tree(*descs), level, CacheSizes())
    assert found is not None
    assert len(SPILL.findall(assembly(found.ir(), level))) <= 2 * len(found.plan.tiling.kinds)


_EXTENTS = st.integers(1, 40)


@settings(max_examples=examples(60))
@given(
    dims=st.tuples(st.integers(1, 3), _EXTENTS, _EXTENTS, _EXTENTS),
    formats=st.sampled_from(
        [("abc", "abc", "abc"), ("acb", "abc", "abc"), ("abc", "acb", "acb"), ("aBc8b", "abc", "abc")]
    ),
    level=st.sampled_from(runnable()),
    at_end=st.booleans(),
)
def test_products_of_matrices_equal_the_interpreter(
    dims: tuple[int, int, int, int], formats: tuple[str, str, str], level: Isa, at_end: bool
) -> None:
    batch, m, k, n = dims
    shapes = (batch, m, k), (batch, k, n), (batch, m, n)
    first, second, dst = (MemoryDesc(d, "f32", tag) for d, tag in zip(shapes, formats, strict=True))
    descs = first, second, dst
    tree = product_tree(*descs)
    if lower_contraction(tree, level, CacheSizes()) is None:
        assert formats == ("abc", "acb", "acb") or 1 in (m, n) or m % 8 or m > 8
        return
    check_contraction(tree, descs, level, at_end=at_end)


@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
@pytest.mark.parametrize("block", [7, 17, 23, 31])
def test_each_block_of_rows_has_tiles_of_what_is_left(block: int, isa: Isa) -> None:
    shapes = (2, 3 * block, 5), (2, 5, 48), (2, 3 * block, 48)
    tags = f"aBc{block}b", "abc", "abc"
    descs = [MemoryDesc(d, "f32", tag) for d, tag in zip(shapes, tags, strict=True)]
    tree = product_tree(*descs)
    found = lower_contraction(tree, isa, CacheSizes())
    assert found is not None
    assert len(found.plan.tiling.runs) > 1 or (block, isa.name) in ((7, "avx512"), (7, "neon"))
    check_contraction(tree, descs, isa, at_end=True)


def test_a_result_along_a_row_exchanges_the_factors() -> None:
    descs = (
        MemoryDesc((1, 40, 7), "f32", "acb"),
        MemoryDesc((1, 7, 9), "f32", "abc"),
        MemoryDesc((1, 40, 9), "f32", "acb"),
    )
    found = find_contraction(product_tree(*descs))
    assert found is not None
    assert [access.tensor.name for access in found.accesses] == ["second", "first", "dst"]
    for isa in runnable():
        check_contraction(product_tree(*descs), descs, isa, at_end=True)


def test_layers_of_equal_problems_share_a_kernel() -> None:
    window, formats = CONVOLUTIONS[0]
    trees = [convolution_tree(window, window.descs(*formats)) for _ in range(2)]
    lowered = [lower_contraction(tree, runnable()[-1], CacheSizes()) for tree in trees]
    keys = {each.key for each in lowered if each is not None}
    assert len(lowered) == 2
    assert len(keys) == 1


def test_tiles_hold_no_more_sums_than_there_are_registers() -> None:
    window = ConvolutionShape(1, 1, 64, 64, 56, 56)
    tree = convolution_tree(window, window.descs(*BLOCKED))
    for name, registers in (("avx512", 32), ("avx2", 16), ("sse41", 16), ("neon", 32)):
        lowered = lower_contraction(tree, Isa.for_name(name), CacheSizes())
        assert lowered is not None
        plan = lowered.plan
        rows = max(kind.rows for kind in plan.tiling.kinds)
        assert rows * plan.vectors + plan.vectors + 1 <= registers
        assert rows * plan.vectors >= registers // 2


def test_rows_of_several_axes_are_merged_whole() -> None:
    """Of a blocked axis the digits first, then the axis with the one around it."""
    descs = (
        MemoryDesc((2, 16, 3), "f32", "caB8b"),
        MemoryDesc((2, 3, 16), "f32", (0, 16, 1)),
        MemoryDesc((2, 16, 16), "f32", "abc"),
    )
    first, second, dst = map(TreeTensor.of_desc, ("first", "second", "dst"), descs)
    n, m, c, k = map(TreeAxis, ("n", "m", "c", "k"), (2, 16, 16, 3))
    summed = Each((k,), (fold_over("sum", "total", first.load(n, m, k) * second.load(0, k, c)),))
    tree = LoopTree((first, second, dst), (Each((n, m, c), (summed, dst.store((n, m, c), Ref("total")))),))
    lowered = lower_contraction(tree.verify(), runnable()[-1], CacheSizes())
    assert lowered is not None
    assert lowered.plan.row.extent == 32
    for isa in runnable():
        check_contraction(tree, descs, isa, at_end=True)


def _gated_tree(rows: int, columns: int, depth: int, block: int) -> tuple[LoopTree, tuple[MemoryDesc, ...]]:
    """Two sums that share their first factor, and two results that share a value."""
    descs = (
        MemoryDesc((rows, depth), "f32", "ab"),
        MemoryDesc((depth, 2, columns), "f32", f"Cab{block}c"),
        MemoryDesc((rows, columns), "f32", "ab"),
        MemoryDesc((rows, 2 * columns), "bf16", "ab"),
    )
    names = ("first", "second", "dst", "other")
    first, second, dst, other = (TreeTensor.of_desc(*each) for each in zip(names, descs, strict=True))
    m, n, k = TreeAxis("m", rows), TreeAxis("n", columns), TreeAxis("k", depth)
    sums = tuple(fold_over("sum", f"s{i}", first.load(m, k) * second.load(k, i, n)) for i in range(2))
    items = (
        Each((k,), sums),
        Let("gate", apply("logistic_single", Ref("s0"))),
        Let("new", Ref("gate") * Ref("s1") + dst.load(m, n)),
        dst.store((m, n), Ref("new")),
        other.store((m, n + columns), Ref("new") * Ref("gate")),
    )
    return LoopTree((first, second, dst, other), (Each((m, n), items),)).verify(), descs


@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
@pytest.mark.parametrize(("rows", "columns", "depth"), [(1, 16, 9), (3, 33, 20), (13, 40, 7)])
def test_sums_side_by_side_and_several_results_equal_the_interpreter(
    rows: int, columns: int, depth: int, isa: Isa
) -> None:
    tree, descs = _gated_tree(rows, columns, depth, 16)
    found = find_contraction(tree)
    assert found is not None
    assert (found.parts, len(found.results)) == ((0, 16), 2)
    check_contraction(tree, descs, isa, at_end=False)


def test_sums_of_other_sources_are_no_contraction() -> None:
    tree, _ = _gated_tree(3, 32, 5, 16)
    (outer,) = tree.items
    inner, *others = outer.items
    assert isinstance(inner, Each)
    turned = fold_over("sum", "s1", Load("other", index_of(outer.axes[0], inner.axes[0])) * Const(2.0))
    items = (Each(inner.axes, (inner.folds[0], turned)), *others)
    assert find_contraction(LoopTree(tree.tensors, (Each(outer.axes, items),))) is None


def test_windows_that_share_a_tap_are_no_tiles() -> None:
    descs = [
        MemoryDesc(dims, "f32", tag)
        for dims, tag in (((3, 5, 9), "bca"), ((16, 3, 3), "cba"), ((16, 5, 9), "bca"))
    ]
    src, weights, dst = map(TreeTensor.of_desc, ("src", "weights", "dst"), descs)
    oc, oh, ow, ic, tap = map(TreeAxis, ("oc", "oh", "ow", "ic", "tap"), (16, 5, 9, 3, 3))
    ih, iw = oh + tap - 1, ow + tap - 1
    total = fold_over("sum", "total", src.load(ic, ih, iw) * weights.load(oc, ic, tap))
    diagonal = Each((ic, tap), (total,), (Guard(ih, 5), Guard(iw, 9)))
    loops = Each((oc, oh, ow), (diagonal, dst.store((oc, oh, ow), Ref("total"))))
    tree = LoopTree((src, weights, dst), (loops,)).verify()
    assert find_contraction(tree) is not None
    assert lower_contraction(tree, runnable()[-1], CacheSizes()) is None
