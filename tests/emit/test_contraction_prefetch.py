"""Prefetches of contraction tiles: operands on separate pages, and the next columns."""

from __future__ import annotations

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir.program import RepeatStep
from restride.ops.programs.rnn_cells import RnnCell
from restride.ops.programs.rnn_descs import RnnTensors
from restride.ops.rnn import RnnProblem
from restride.schedule.contraction.prefetch import Prefetch
from restride.targets.cpu_kernels import lower_contraction
from restride.targets.isa import CacheSizes, Isa
from restride.targets.lowered import Lowered
from support.contractions import check_contraction, product_tree
from support.kernels import runnable

AVX512 = Isa.for_name("avx512")
NONE = MemoryDesc()


def lowered_step(kind: str, batch: int, channels: int) -> list[Lowered]:
    """The kernels of a step of time."""
    cell = RnnCell(kind)
    dims = (1, 1, channels, cell.gates, channels)
    problem = RnnProblem(cell, "left2right", False, _tensors(dims, batch), block=16)
    wanted = problem.preferred()
    tensors = _tensors(dims, batch, wanted["weights_layer"], wanted["weights_iter"])
    program = RnnProblem(cell, "left2right", False, tensors, block=16).program()
    (repeat,) = (step for step in program.steps if isinstance(step, RepeatStep))
    found = [lower_contraction(step.tree, AVX512, CacheSizes()) for step in repeat.steps]
    assert all(isinstance(each, Lowered) for each in found)
    return [each for each in found if each is not None]


def _tensors(dims: tuple[int, ...], batch: int, *weights: MemoryDesc) -> RnnTensors:
    layer = MemoryDesc((8, batch, dims[2]), "f32")
    both = weights or (MemoryDesc(dims, "f32"),) * 2
    return RnnTensors(layer, NONE, NONE, *both, NONE, layer, NONE, NONE)


def operand_names(lowered: Lowered) -> list[str]:
    """The tensors of the operands that are asked for."""
    accesses = lowered.plan.contraction.accesses
    return [accesses[number].tensor.name for number in lowered.plan.prefetch.operands]


def test_gates_on_pages_of_their_own_are_asked_for_before_the_sums() -> None:
    (step,) = lowered_step("vanilla_lstm", 16, 512)
    assert operand_names(step) == ["gates_in"] * 4
    assert step.ir().count("call void @llvm.prefetch") > 4 * 6


def test_few_rows_of_tiles_share_the_lines_of_the_next_columns() -> None:
    (step,) = lowered_step("vanilla_lstm", 16, 512)
    turns = step.plan.tiling.count * 512 // step.plan.unroll
    assert step.plan.prefetch.lines == -(-512 * 4 // turns)


@pytest.mark.parametrize(("batch", "channels"), [(16, 64), (1, 512)])
def test_small_networks_and_single_rows_ask_for_nothing(batch: int, channels: int) -> None:
    assert [each.plan.prefetch for each in lowered_step("vanilla_lstm", batch, channels)] == [Prefetch()]


@pytest.mark.parametrize(
    ("rows", "summed", "columns", "lines"),
    [(16, 1024, 4096, 8), (8, 1024, 4096, 0), (120, 1024, 4096, 1), (256, 1024, 4096, 0), (16, 64, 64, 0)],
)
def test_products_of_few_rows_by_large_weights_ask_for_the_next_columns(
    rows: int, summed: int, columns: int, lines: int
) -> None:
    descs = _matrices(rows, summed, columns)
    found = lower_contraction(product_tree(*descs), AVX512, CacheSizes())
    assert found is not None
    assert found.plan.prefetch.lines == lines


def _matrices(rows: int, summed: int, columns: int) -> tuple[MemoryDesc, MemoryDesc, MemoryDesc]:
    return (
        MemoryDesc((1, rows, summed), "f32"),
        MemoryDesc((1, summed, columns), "f32", "aCb16c"),
        MemoryDesc((1, rows, columns), "f32"),
    )


@pytest.mark.skipif(AVX512 not in runnable(), reason="the processor has no AVX-512")
def test_asking_changes_no_result_and_reads_nothing_beside() -> None:
    descs = _matrices(16, 72, 4096)
    tree = product_tree(*descs)
    found = lower_contraction(tree, AVX512, CacheSizes())
    assert found is not None
    assert found.plan.prefetch.lines
    check_contraction(tree, descs, AVX512, at_end=True)
