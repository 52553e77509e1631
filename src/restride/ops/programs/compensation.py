"""Sums over the quantised destination, as steps behind the one that writes it.

A convolution of s8 activations and s8 weights on instructions that want u8 adds 128 to its source; one with a
zero point of its source shifts it. Both are taken back by one s32 for each output channel: -128 times the sum
of its weights, and -1 times it. Behind the bytes of the weights, in this order, is where oneDNN looks for
them.

Outputs lie row-major over the kept dims, whatever the tensor's layout. Where the two orders differ, each
output is a cache line of its own, and they are what takes the time. So where every element has an output of
its own they are **products**, a nest to s32 with a scale; and where the kept dims of a plain tensor lie in
another order the sums are **turned**: found in the order of the tensor, then moved.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from ...desc.arguments import ARG_DST_1, ARG_DST_2
from ...desc.attr import Compensation
from ...desc.layout import RUNTIME_DIM
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.digits import reorder_nest
from ...ir.nest import Compute, linear
from ...ir.program import DST, NestStep, Place, Program, Slot, Step, TreeStep
from ...ir.ranges import sum_tree

FACTORS = {ARG_DST_1: -128, ARG_DST_2: -1}
"""By what the sums are multiplied, by argument."""
# Types whose products with -128 an f32 holds exactly.
_EXACT = (DataType.s8, DataType.u8)
# From here on so many outputs take longer out of order than a second pass over them.
_MANY_OUTPUTS = 1 << 12

Outputs = tuple[tuple[Place, int], ...]


def compensation_descs(wanted: Compensation, dst: MemoryDesc) -> dict[int, MemoryDesc]:
    """What the memories of the sums are: s32, one for each index of the kept padded dims."""
    kept = [n for d, n in enumerate(dst.padded_dims) if wanted.mask >> d & 1]
    count = RUNTIME_DIM if dst.layout.has_runtime else prod(kept)
    return dict.fromkeys(output_args(wanted), MemoryDesc((count,), "s32", "a"))


def output_args(wanted: Compensation) -> list[int]:
    """The arguments that are written."""
    asked = ((ARG_DST_1, wanted.s8s8), (ARG_DST_2, wanted.zero_point))
    return [arg for arg, is_wanted in asked if is_wanted]


def sum_steps(program: Program, wanted: Compensation, dst: MemoryDesc) -> Program:
    """The program with steps that find the sums of its destination; their slots are its last ones."""
    args = output_args(wanted)
    outputs = tuple((Place(len(program.slots) + i), FACTORS[arg]) for i, arg in enumerate(args))
    result = replace(program, slots=(*program.slots, *(Slot(arg, is_written=True) for arg in args)))
    steps, temporaries = _sums(dst, wanted.mask, Place(DST), outputs, len(result.temporaries))
    return result.with_steps((*result.steps, *steps), temporaries).verify()


def _sums(
    md: MemoryDesc, mask: int, src: Place, outputs: Outputs, taken: int
) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """The steps that find the sums, and the temporaries that they need behind `taken` others."""
    kept = [d for d in range(md.ndims) if mask >> d & 1]
    count = prod(md.padded_dims[d] for d in kept)
    if count >= _MANY_OUTPUTS:
        if count == prod(md.padded_dims) and md.data_type in _EXACT:
            return tuple(_product(md, src, output) for output in outputs), ()
        order = sorted(range(md.ndims), key=lambda d: (-md.strides[d], d))
        in_memory = [d for d in order if d in kept and md.padded_dims[d] > 1]
        if not md.inner_blks and in_memory != sorted(in_memory):
            return _turned(md, mask, src, outputs, order, taken)
    return (_sum_step(md, mask, src, outputs),), ()


def _sum_step(md: MemoryDesc, mask: int, src: Place, outputs: Outputs) -> TreeStep:
    """Factors times the sums over the padded dims that a mask lacks, row-major."""
    tree = sum_tree(md, mask, [factor for _, factor in outputs])
    places = (src, *(place for place, _ in outputs))
    return TreeStep(tree, places, md.size, is_named=False)


def _product(md: MemoryDesc, src: Place, output: tuple[Place, int]) -> NestStep:
    """`factor` times each element over the padded dims, as s32 row-major."""
    place, factor = output
    whole = MemoryDesc._make("blocked", md.data_type, replace(md.layout, dims=md.padded_dims))
    out = MemoryDesc(whole.dims, "s32", None)
    nest = reorder_nest(whole, out, linear(scaled=True))
    spans = whole.extent_range(), out.extent_range()
    return NestStep(
        nest, src, place, whole.size + out.size, *spans, constants=(float(factor),), is_named=False
    )


def _turned(
    md: MemoryDesc, mask: int, src: Place, outputs: Outputs, order: list[int], taken: int
) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """Sums over a plain tensor; `order` are all dims as they lie in memory."""
    to = np.argsort(order).tolist()
    moved_mask = sum(1 << to[d] for d in range(md.ndims) if mask >> d & 1)
    held = tuple(Place(~(taken + i)) for i in range(len(outputs)))
    factors = (factor for _, factor in outputs)
    sums = _sum_step(md.permute_axes(to), moved_mask, src, tuple(zip(held, factors, strict=True)))
    kept = [d for d in order if mask >> d & 1]
    back = np.argsort(np.argsort(kept)).tolist()
    read = MemoryDesc(tuple(md.padded_dims[d] for d in kept), "s32", None).permute_axes(back)
    written = MemoryDesc(read.dims, "s32", None)
    nest, spans = reorder_nest(read, written, Compute()), (read.extent_range(), written.extent_range())
    turns = (
        NestStep(nest, place, out, read.size + written.size, *spans, is_named=False)
        for place, (out, _) in zip(held, outputs, strict=True)
    )
    return (sums, *turns), (4 * prod(read.dims),) * len(outputs)
