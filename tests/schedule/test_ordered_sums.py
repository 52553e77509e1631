"""Sums whose outputs lie in another order than the tensor: products, and turned ones."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.desc.attr import Compensation
from restride.ir.program import NestStep, Program, Slot, TreeStep
from restride.ops.programs.compensation import sum_steps
from restride.runtime.cpu.kernel import KernelWords
from support.programs import compiled_program

DIMS = (72, 70, 3, 3)
_KINDS = {"s8": np.int8, "u8": np.uint8, "s32": np.int32}


def _held(data_type: str, tag: str) -> tuple[rs.Memory, np.ndarray]:
    kind = _KINDS[data_type]
    limits = np.iinfo(kind)
    x = np.random.default_rng(1).integers(limits.min, limits.max, DIMS, kind, endpoint=True)
    held = rs.Memory(rs.MemoryDesc(DIMS, data_type, tag), rs.Engine("cpu"))
    rs.reorder(x, None, out=held)
    return held, x


def _expected(held: rs.Memory, x: np.ndarray, mask: int, factor: int) -> np.ndarray:
    padded = np.zeros(held.desc.padded_dims, np.int64)
    padded[tuple(map(slice, x.shape))] = x
    over = tuple(d for d in range(x.ndim) if not mask >> d & 1)
    return (padded.sum(over) * factor).astype(np.int32).reshape(-1)


@pytest.mark.parametrize("data_type", ["s8", "u8"])
@pytest.mark.parametrize("tag", ["abcd", "dcba", "cdba", "ABcd4b16a4b"])
@pytest.mark.parametrize("factor", [-1, -128])
def test_elements_that_have_an_output_each_are_products(data_type: str, tag: str, factor: int) -> None:
    held, x = _held(data_type, tag)
    program = _program(held.desc, 15, factor)
    assert [type(step) for step in program.steps] == [NestStep]
    _check(program, held, _expected(held, x, 15, factor))


@pytest.mark.parametrize("data_type", ["s8", "s32"])
@pytest.mark.parametrize(
    ("tag", "mask"), [("dcba", 3), ("cdba", 3), ("bacd", 3), ("dcba", 11), ("cabd", 7), ("dbca", 7)]
)
def test_kept_dims_in_another_order_are_turned(data_type: str, tag: str, mask: int) -> None:
    held, x = _held(data_type, tag)
    program = _program(held.desc, mask, -128)
    assert [type(step) for step in program.steps] == [TreeStep, NestStep]
    _check(program, held, _expected(held, x, mask, -128))


def test_products_that_an_f32_might_round_are_turned() -> None:
    held, x = _held("s32", "dcba")
    program = _program(held.desc, 15, -128)
    assert [type(step) for step in program.steps] == [TreeStep, NestStep]
    _check(program, held, _expected(held, x, 15, -128))


def test_sums_in_the_order_of_memory_and_few_of_them_are_found_as_they_are() -> None:
    def found(dims: tuple[int, ...], tag: str, mask: int) -> bool:
        steps = _program(rs.MemoryDesc(dims, "s8", tag), mask, -1).steps
        return [type(step) for step in steps] == [TreeStep]

    assert found((512, 512, 3, 3), "abcd", 3)
    assert found((512, 512, 3, 3), "cdab", 3)
    assert found((512, 512, 3, 3), "cdba", 1)
    assert found((512, 512, 3, 3), "ABcd4b16a4b", 3)
    assert found((8, 8, 3, 3), "dcba", 15)
    assert found((0, 8, 3, 3), "dcba", 15)


@pytest.mark.parametrize("mask", [1, 3, 5, 15])
@pytest.mark.parametrize("tag", ["cdba", "ABcd4b16a4b"])
def test_an_execution_writes_them_beside_the_reorder(tag: str, mask: int) -> None:
    x = np.random.default_rng(2).integers(-128, 128, DIMS).astype(np.float32)
    engine = rs.Engine("cpu")
    src, dst = rs.Memory.from_numpy(x), rs.Memory(rs.MemoryDesc(DIMS, "s8", tag), engine)
    attr = rs.PrimitiveAttr()
    attr.set_compensation(mask, s8s8=True, zero_point=True)
    wanted = {factor: _expected(dst, x, mask, factor) for factor in (-128, -1)}
    outs = [rs.Memory(rs.MemoryDesc(wanted[-1].shape, "s32", "a"), engine) for _ in range(2)]
    args = {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_DST_1: outs[0], rs.ARG_DST_2: outs[1]}
    reorder = rs.Reorder(rs.Reorder.PrimitiveDesc(src, dst, attr))
    for _ in range(2):
        reorder.execute(rs.Stream(engine), args)
    np.testing.assert_array_equal(dst.to_numpy(), x)
    np.testing.assert_array_equal(outs[0].data, wanted[-128])
    np.testing.assert_array_equal(outs[1].data, wanted[-1])


def _program(md: rs.MemoryDesc, mask: int, factor: int) -> Program:
    """The sums of a destination alone, without what writes it."""
    program = Program((Slot(1), Slot(17, is_written=True)), ())
    return sum_steps(program, Compensation(mask, factor == -128, factor == -1), md)


def _check(program: Program, held: rs.Memory, wanted: np.ndarray) -> None:
    executable = compiled_program(program)
    for shift in (0, 1):
        room = np.full(4 * wanted.size + 8, 0x55, np.uint8)
        params = KernelWords((), [room.ctypes.data + shift])
        executable.call(0, held.get_data_handle(), params.address)
        end = shift + 4 * wanted.size
        np.testing.assert_array_equal(room[shift:end].copy().view(np.int32), wanted)
        assert (room[:shift] == 0x55).all()
        assert (room[end:] == 0x55).all()
