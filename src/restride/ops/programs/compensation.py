"""Sums over a quantized destination, computed in steps after the one that writes it.

A convolution of s8 activations and s8 weights with instructions that take u8 adds 128 to its source; a source
zero point shifts it too. One s32 for each output channel compensates for both: -128 times the sum of its
weights, and -1 times it. oneDNN expects them after the bytes of the weights, in this order.

Outputs are row-major over the kept dims, whatever the tensor's layout. Where the two orders differ, each
output is in another cache line, which dominates the time. So where every element has its own output, they are
**products**: a nest to s32 with a scale. Where a plain tensor has the kept dims in another order, sums are
**turned**: computed in the order of the tensor, then moved.
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
"""The factor of the sums, by argument."""
# Types whose products with -128 are exact in f32.
_EXACT = (DataType.s8, DataType.u8)
# From this many outputs on, writing them out of order takes longer than a second pass over them.
_MANY_OUTPUTS = 1 << 12

Outputs = tuple[tuple[Place, int], ...]


def compensation_descs(wanted: Compensation, dst: MemoryDesc) -> dict[int, MemoryDesc]:
    """Return the descriptors of the sums: s32, one for each index of the kept padded dims."""
    kept = [n for d, n in enumerate(dst.padded_dims) if wanted.mask >> d & 1]
    count = RUNTIME_DIM if dst.layout.has_runtime else prod(kept)
    return dict.fromkeys(output_args(wanted), MemoryDesc((count,), "s32", "a"))


def output_args(wanted: Compensation) -> list[int]:
    """Return the arguments that are written."""
    asked = ((ARG_DST_1, wanted.s8s8), (ARG_DST_2, wanted.zero_point))
    return [arg for arg, is_wanted in asked if is_wanted]


def sum_steps(program: Program, wanted: Compensation, dst: MemoryDesc) -> Program:
    """Return the program with steps that compute the sums of its destination; their slots come last."""
    args = output_args(wanted)
    outputs = tuple((Place(len(program.slots) + i), FACTORS[arg]) for i, arg in enumerate(args))
    result = replace(program, slots=(*program.slots, *(Slot(arg, is_written=True) for arg in args)))
    steps, temporaries = _sums(dst, wanted.mask, Place(DST), outputs, len(result.temporaries))
    return result.with_steps((*result.steps, *steps), temporaries).verify()


def _sums(
    md: MemoryDesc, mask: int, src: Place, outputs: Outputs, taken: int
) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """Return the steps that compute the sums, and their temporaries, numbered after `taken` others."""
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
    """Return the step for factors times the sums over the padded dims not in the mask, row-major."""
    tree = sum_tree(md, mask, [factor for _, factor in outputs])
    places = (src, *(place for place, _ in outputs))
    return TreeStep(tree, places, md.size, is_named=False)


def _product(md: MemoryDesc, src: Place, output: tuple[Place, int]) -> NestStep:
    """Return the nest for `factor` times each element over the padded dims, as s32 row-major."""
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
    """Sum over a plain tensor; `order`: all dims in memory order."""
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
