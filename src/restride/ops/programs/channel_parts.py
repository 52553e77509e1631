"""A convolution and the depthwise one behind it, a few channels of one image at a time.

A depthwise convolution reads of each channel that channel alone. So a core computes some channels of the
first convolution, and at once from these the same channels of the second: what is between is never written
to memory, stays in the second cache of that core, and threads meet once. The sums are those of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from ...desc.arguments import ARG_BIAS, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ...desc.memory_desc import MemoryDesc
from ...desc.post_op_values import EltwiseOp
from ...ir.program import OWN, GridCall, GridStep, Place, Program, TreeStep
from .depthwise_fusion import whole_arg

if TYPE_CHECKING:
    from ..convolution import ConvolutionProblem

# Bytes between the two, at most, for a part: they lie on the stack of its thread.
_MOST_OWN_BYTES = 1 << 18
# Blocks of channels of a part, at most; and parts, at least, that threads share.
_MOST_BLOCKS, _LEAST_PARTS = 3, 4


def in_channel_parts(first: ConvolutionProblem, second: ConvolutionProblem, whole: Program) -> Program:
    """The program of both, `whole`, in parts; `whole` itself where they have none, or too few."""
    between = first.dst
    batch, channels, *image = between.dims
    ops = (op for each in (first, second) for op in each.attr.post_ops)
    is_plain = first.tensors[1].ndims == between.ndims and not first.tile
    is_empty = not (between.nelems and first.tensors[0].nelems)
    if is_empty or not is_plain or not all(isinstance(op, EltwiseOp) for op in ops):
        return whole
    size = between.data_type.nbytes(prod(image))
    most = min(_MOST_BLOCKS * first.block, _MOST_OWN_BYTES // size, batch * channels // _LEAST_PARTS)
    blocks = range(most // first.block, 0, -1)
    count = next((n * first.block for n in blocks if channels % (n * first.block) == 0), 0)
    if not count:
        return whole
    own = MemoryDesc((1, count, *image), between.data_type, between.tag or "any")
    if own.padded_dims != own.dims:
        return whole
    slots = {slot.arg: Place(number) for number, slot in enumerate(whole.slots)}
    behind = {arg: slots.get(whole_arg(arg, len(first.attr.post_ops))) for arg in (ARG_WEIGHTS, ARG_BIAS)}
    calls = [
        _call(first, count, {**slots, ARG_DST: Place(OWN)}, own, 0),
        _call(second, count, {**slots, **behind, ARG_SRC: Place(OWN)}, own, len(first.computation().scalars)),
    ]
    if None in calls:
        return whole
    grid = GridStep(
        *((batch, channels // count, 1), own.size, tuple(filter(None, calls))),
        *(first.work_bytes + second.work_bytes, whole, "convolution"),
        note=f"{count} channels of both convolutions at a time",
    )
    return replace(whole, steps=(grid,), temporaries=()).verify()


def _call(
    problem: ConvolutionProblem,
    count: int,
    places: Mapping[int, Place | None],
    own: MemoryDesc,
    scalars: int,
) -> GridCall | None:
    """The call of one of the two for `count` channels of an image, its scalars behind so many others; None
    where it is more than one tree, reads other arguments too, or parts cut blocks.
    """
    strides: dict[int, tuple[int | None, int | None, int]] = {}
    # The first one reads all channels.
    channels_at = -1 if places[ARG_DST] == Place(OWN) else 1

    def part(md: MemoryDesc, arg: int, batch: int, channels: int) -> MemoryDesc:
        if places[arg] == Place(OWN):
            strides[arg] = (0, 0, 0)
            return own
        found = [_moved_bytes(md, axis, n) for axis, n in ((batch, 1), (channels, count))]
        strides[arg] = found[0], found[1], 0
        dims = [1 if i == batch else count if i == channels else n for i, n in enumerate(md.dims)]
        return md.submemory_desc(tuple(dims), (0,) * md.ndims)

    source, weights, result = problem.tensors
    tensors = (
        part(source, ARG_SRC, 0, channels_at),
        part(weights, ARG_WEIGHTS, -1, 0),
        part(result, ARG_DST, 0, 1),
    )
    bias = part(problem.bias, ARG_BIAS, -1, 0) if problem.bias.ndims else problem.bias
    program = replace(problem, tensors=tensors, bias=bias).program()
    step = program.steps[0]
    if len(program.steps) > 1 or not isinstance(step, TreeStep) or program.temporaries:
        return None
    args = [program.slots[place.buffer].arg for place in step.places]
    moved = tuple(strides.get(arg, (None,)) for arg in args)
    if any(None in each for each in moved):
        return None
    pairs = zip(map(places.__getitem__, args), step.places, strict=True)
    at = tuple(to._replace(offset=place.offset) for to, place in pairs if to is not None)
    own_scalars = step.scalars[0] + scalars, step.scalars[1]
    return GridCall(replace(step, places=at, scalars=own_scalars), moved)


def _moved_bytes(md: MemoryDesc, axis: int, count: int) -> int | None:
    """By how many bytes so many indices of a dim move, each time; 0 where there are no more, or there is
    none; None where they do not always move as far.
    """
    if axis < 0 or md.dims[axis] <= count:
        return 0
    begins = range(0, md.dims[axis], count)
    offsets = [md.offset(*(begin * (i == axis) for i in range(md.ndims))) for begin in begins]
    step = offsets[1] - offsets[0]
    is_even = all(at == offsets[0] + number * step for number, at in enumerate(offsets))
    return md.data_type.nbytes(step) if is_even else None
