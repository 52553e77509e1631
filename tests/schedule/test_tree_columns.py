"""Folds down long columns by blocks of rows: beside NumPy, with what precision, where they are taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.ir.program import TreeStep
from restride.ir.tree import Guard
from restride.ops.reduction import ReductionProblem
from restride.schedule.trees.columns import folds_by_rows
from support.computed import computed, elements

# dims of the source, and of the result.
CASES = {
    "in pieces": ((8192, 256), (1, 256)),
    "one piece": ((32, 32768), (1, 32768)),
    "a prime of blocks": ((8 * 1031, 128), (1, 128)),
    "of several dims": ((33, 64, 32, 32), (1, 1, 32, 32)),
    "a batch": ((3, 1024, 512), (3, 1, 512)),
    "a prime of rows": ((8191, 160), (1, 160)),
    "a prime of short rows": ((13, 211, 512), (1, 1, 512)),
    "two dims stay": ((32, 64, 1024), (1, 64, 1024)),
}


def _problem(dims, out, alg="sum", data_type="f32", tag="abx"):
    return ReductionProblem(alg, MemoryDesc(dims, data_type, tag), MemoryDesc(out, data_type, "abx"))


def _steps(problem):
    return [step.tree for step in problem.program().steps if isinstance(step, TreeStep)]


def _is_by_rows(problem):
    return any(tensor.name.endswith(".part") for tensor in _steps(problem)[0].items[0].locals)


def _reduced(engine, x, out, alg, data_type="f32"):
    pd = rs.Reduction.PrimitiveDesc(
        engine, f"reduction_{alg}", MemoryDesc(x.shape, data_type, "abx"), MemoryDesc(out, data_type, "abx")
    )
    return elements(computed(rs.Reduction, pd, engine, {rs.ARG_SRC: x}, rs.ARG_DST)[rs.ARG_DST])


def _axes(dims, out):
    return tuple(axis for axis, (n, kept) in enumerate(zip(dims, out, strict=True)) if n != kept)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("alg", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("case", CASES)
def test_folds_are_those_of_numpy(engine, case, alg):
    dims, out = CASES[case]
    x = np.random.default_rng(1).integers(-9, 10, dims).astype(np.float32)
    fold = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}[alg]
    wanted = fold(x.astype(np.float64), axis=_axes(dims, out), keepdims=True)
    np.testing.assert_allclose(_reduced(engine, x, out, alg), wanted, rtol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_rows_in_blocks_are_taken(case):
    problem = _problem(*CASES[case])
    assert _is_by_rows(problem)
    assert len(_steps(problem)) == (1 if case in ("one piece", "two dims stay") else 2)


@pytest.mark.parametrize("data_type", ["f64", "bf16"])
def test_doubles_and_short_floats_are_folded_so_too(engine, data_type):
    dims, out = (8191, 320), (1, 320)
    x = np.random.default_rng(2).integers(-3, 4, dims).astype(np.float64)
    found = _reduced(engine, x, out, "sum", data_type).astype(np.float64)
    wanted = x.sum(0, keepdims=True)
    assert _is_by_rows(_problem(x.shape, out, "sum", data_type))
    np.testing.assert_allclose(found, wanted, rtol=0 if data_type == "f64" else 2.0**-8)


def test_a_sum_of_many_elements_loses_little():
    """One after the other, numbers of one sign lose a hundred times as much."""
    for rows in (100_003, 99_952):
        x = np.random.default_rng(3).random((rows, 128), np.float32)
        found = _reduced(rs.Engine("cpu"), x, (1, 128), "sum")
        assert np.abs(found / x.sum(0, dtype=np.float64) - 1).max() < 1e-6


@pytest.mark.parametrize("rows", [1_000_016, 1_000_003, 1_048_576])
def test_pieces_are_few_whatever_divides_the_rows(rows):
    program = _problem((rows, 512), (1, 512)).program()
    assert sum(program.temporaries) <= rows * 512 * 4 // 400


def test_a_loop_under_a_guard_goes_as_it_went():
    tree = _problem((8192, 256), (1, 256)).tree()
    (loop,) = tree.items
    inner, guards = loop.items[0], (Guard(loop.axes[0] + 0, 3),)
    assert folds_by_rows(tree, loop, inner)
    assert not folds_by_rows(tree, replace(loop, guards=guards), inner)
    assert not folds_by_rows(tree, loop, replace(inner, guards=guards))


def test_columns_apart_go_as_they_went():
    """Every second column: the neighbor of an element is of nobody."""
    src = MemoryDesc.from_strides((8192, 256), "f32", (512, 2))
    tree = ReductionProblem("sum", src, MemoryDesc((1, 256), "f32", "ab")).tree()
    (loop,) = tree.items
    assert not folds_by_rows(tree, loop, loop.items[0])


def test_bits_do_not_depend_on_the_threads():
    x = np.random.default_rng(4).random((4096, 300), np.float32)
    cpu, before = rs.Engine("cpu"), rs.get_num_threads()
    found = set()
    try:
        for threads in (1, 2, 5):
            rs.set_num_threads(threads)
            found.add(_reduced(cpu, x, (1, 300), "sum").tobytes())
    finally:
        rs.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("dims", "out", "tag"),
    [
        ((512, 256), (1, 256), "ab"),
        ((16384, 64), (1, 64), "ab"),
        ((2048, 1024), (2048, 1), "ab"),
        ((2048, 1024), (1, 1024), "ba"),
        ((4, 512, 32, 32), (1, 512, 1, 1), "aBcd16b"),
        ((3, 400_000), (1, 400_000), "ab"),
        ((0, 4096), (1, 4096), "ab"),
    ],
    ids=["small", "short rows", "rows", "columns that lie in rows", "blocks", "few rows", "nothing"],
)
def test_other_folds_go_as_they_went(dims, out, tag):
    assert not _is_by_rows(_problem(dims, out, tag=tag))


def test_gradients_of_scales_of_wide_rows_are_found_so(engine):
    """Two folds at once, and what follows them, in the loop that comes last."""
    dims = (4, 768, 24, 24)
    src = MemoryDesc(dims, "f32", "axb")
    flags = "use_scale|use_shift"
    hint = rs.BatchNormalizationForward.PrimitiveDesc(engine, "forward_training", src, src, 1e-5, flags)
    pd = rs.BatchNormalizationBackward.PrimitiveDesc(
        engine, "backward", src, src, src, 1e-5, flags, hint_pd=hint
    )
    draw = np.random.default_rng(5)
    x, dy = (draw.standard_normal(dims).astype(np.float32) for _ in range(2))
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    values = {
        rs.ARG_SRC: x,
        rs.ARG_DIFF_DST: dy,
        rs.ARG_MEAN: mean,
        rs.ARG_VARIANCE: variance,
        rs.ARG_SCALE: np.ones(dims[1], np.float32),
    }
    written = (rs.ARG_DIFF_SRC, rs.ARG_DIFF_SCALE, rs.ARG_DIFF_SHIFT)
    made = computed(rs.BatchNormalizationBackward, pd, engine, values, *written)
    normal = (x - mean[:, None, None]).astype(np.float64) / np.sqrt(variance + 1e-5)[:, None, None]
    shift, scale = dy.sum((0, 2, 3), dtype=np.float64), (dy * normal).sum((0, 2, 3))
    np.testing.assert_allclose(elements(made[rs.ARG_DIFF_SHIFT]), shift, atol=1e-4)
    np.testing.assert_allclose(elements(made[rs.ARG_DIFF_SCALE]), scale, atol=2e-4)
    count = x.size / dims[1]
    rest = dy - shift[:, None, None] / count - normal * scale[:, None, None] / count
    wanted = rest / np.sqrt(variance + 1e-5)[:, None, None]
    np.testing.assert_allclose(elements(made[rs.ARG_DIFF_SRC]), wanted, atol=1e-5)
