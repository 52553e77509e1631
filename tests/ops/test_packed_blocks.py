"""Blocks of bit fields: kernels of every instruction set, and the tree, give what the bits say one by one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.desc.packed_blocks import BitField, BitNumbers, PackedBlocks
from restride.ir.interpret_tree import interpret_tree
from restride.ir.parse import parse_tree
from restride.ir.program import Program, TreeStep
from restride.ir.tree import LoopTree
from restride.ops.programs.packed_blocks import real_program, unpacking_program
from restride.runtime.cpu.executable import CpuExecutable
from restride.runtime.cpu.kernel import KernelWords
from restride.targets.isa import CacheSizes
from support.guarded_blocks import PACKED
from support.kernels import isa_id, runnable

Array = np.ndarray
_ROWS = 2
# Words of 16 bits with two numbers each, scales of 2 bits, a table of 4 integers: no format has these.
_STRANGE = PackedBlocks(
    "strange",
    12,
    BitNumbers((BitField(32, 2, ((4, 16), (2, 4))),), table=(-5, 7, 0, 100)),
    scales=BitNumbers((BitField(16, 2, ((4, 3),)),), 1),
    minimum_at=10,
)
_each = pytest.mark.parametrize("blocks", [*PACKED, _STRANGE], ids=lambda blocks: blocks.name)


def _numbers(raw: Array, numbers: BitNumbers) -> Array:
    bits = np.unpackbits(raw, axis=1, bitorder="little").astype(np.int64)
    found = np.zeros((len(raw), numbers.count), np.int64)
    for i in range(numbers.count):
        above = 0
        for field in numbers.fields:
            first = field.bit(i)
            weights = 1 << np.arange(above, above + field.bits)
            found[:, i] += bits[:, first : first + field.bits] @ weights
            above += field.bits
        if above == 8:
            found[:, i] = found[:, i].astype(np.int8)
    found = np.array(numbers.table)[found] if numbers.table else found
    return found - numbers.zero_point


@cache
def _raw(blocks: PackedBlocks) -> Array:
    raw = np.random.default_rng(5).integers(0, 256, (_ROWS * 3, blocks.nbytes), np.uint8)
    for at in (blocks.scale_at, blocks.minimum_at):
        if at is not None:
            kind = np.float32 if at == blocks.scale_at and blocks.scale_type.bits == 32 else np.float16
            ones = np.linspace(-2, 3, len(raw)).astype(kind).view(np.uint8).reshape(len(raw), -1)
            raw[:, at : at + ones.shape[1]] = ones
    return raw


def _parts(blocks: PackedBlocks) -> tuple[Array, Array, Array | None]:
    """Values, scales and minima of each block."""
    raw = _raw(blocks)
    kind = np.float32 if blocks.scale_type.bits == 32 else np.float16
    at = blocks.scale_at
    scale = raw[:, at : at + np.dtype(kind).itemsize].copy().view(kind).astype(np.float32)
    minimum = None
    if blocks.scales is not None:
        scale = scale * _numbers(raw, blocks.scales).astype(np.float32)
    if blocks.minimum_at is not None:
        minimum = raw[:, blocks.minimum_at : blocks.minimum_at + 2].copy().view(np.float16).astype(np.float32)
        minimum = minimum if blocks.minima is None else -(minimum * _numbers(raw, blocks.minima))
        minimum = np.broadcast_to(minimum.astype(np.float32), scale.shape)
    return _numbers(raw, blocks.values), scale, minimum


def _reals(blocks: PackedBlocks) -> Array:
    values, scale, minimum = _parts(blocks)
    reals = values.astype(np.float32) * scale.repeat(blocks.group, 1)
    return reals if minimum is None else reals + minimum.repeat(blocks.group, 1)


def _run(program: Program, blocks: PackedBlocks, isa: object, written: list[Array]) -> None:
    first, *others = (array.ctypes.data for array in written)
    words = KernelWords((), others)
    CpuExecutable(program, isa, CacheSizes()).run(_raw(blocks).ctypes.data, first, words.address)  # type: ignore[arg-type]


def _tree(program: Program) -> LoopTree:
    (step,) = program.steps
    assert isinstance(step, TreeStep)
    return step.tree


def _dims(blocks: PackedBlocks) -> tuple[int, int]:
    return _ROWS, 3 * blocks.elements


@_each
@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
def test_kernels_give_the_numbers_that_the_bits_say(blocks: PackedBlocks, isa: object) -> None:
    found = np.full(_dims(blocks), 7, np.float32)
    _run(real_program(blocks, MemoryDesc(_dims(blocks), "f32")), blocks, isa, [found])
    np.testing.assert_array_equal(found, _reals(blocks).reshape(found.shape))


@_each
def test_the_tree_is_the_definition(blocks: PackedBlocks) -> None:
    tree = _tree(real_program(blocks, MemoryDesc(_dims(blocks), "f32")))
    found = np.full(_dims(blocks), 7, np.uint32)
    views = [_raw(blocks).reshape(-1).view(f"u{tensor.data_type.nbytes(1)}") for tensor in tree.tensors[:-1]]
    interpret_tree(tree, [*views, found.reshape(-1)])
    np.testing.assert_array_equal(found.view(np.float32), _reals(blocks).reshape(found.shape))
    assert parse_tree(str(tree)) == tree


@_each
def test_parts_are_unpacked(blocks: PackedBlocks) -> None:
    values, scale, minimum = _parts(blocks)
    found = [np.zeros(_dims(blocks), np.dtype(str(blocks.value_type.numpy)))]
    found += [np.zeros(_ROWS * scale.size // _ROWS, np.float32) for _ in range(1 if minimum is None else 2)]
    _run(unpacking_program(blocks, _dims(blocks)), blocks, runnable()[-1], found)
    np.testing.assert_array_equal(found[0], values.reshape(found[0].shape))
    for one, part in zip(found[1:], (scale, minimum), strict=False):
        np.testing.assert_array_equal(one, part.reshape(-1))  # type: ignore[union-attr]


def test_every_bit_of_a_field_is_its_own() -> None:
    for blocks in PACKED:
        taken: list[int] = []
        for numbers in (blocks.values, blocks.scales, blocks.minima):
            for field in numbers.fields if numbers else ():
                taken += [field.bit(i) + k for i in range(field.count) for k in range(field.bits)]
        assert len(taken) == len(set(taken))
        assert max(taken) < 8 * blocks.nbytes
        assert rs.formats.named(f"gguf.{blocks.name}", (2, 512)).blocks == blocks
