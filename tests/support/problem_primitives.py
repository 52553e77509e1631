"""From the values of `ir_problem` to primitives: descriptors, attributes, and the arguments they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import restride as rs
from support.ir_problem import Problem, Step, Tensor

PRIMITIVES: dict[str, Callable[[Any], Any]] = {
    "reorder": lambda pd: rs.Reorder(pd),
    "shuffle_forward": lambda pd: rs.ShuffleForward(pd),
    "shuffle_backward": lambda pd: rs.ShuffleBackward(pd),
    "concat": lambda pd: rs.Concat(pd),
    "sum": lambda pd: rs.Sum(pd),
}


def primitive_desc_of(problem: Problem, engine: rs.Engine) -> Any:
    mds, attr = [desc_of(tensor) for tensor in problem.tensors], _attr(problem.steps)
    if problem.kind == "reorder":
        return rs.Reorder.PrimitiveDesc(engine, mds[0], engine, mds[1], attr)
    if problem.kind == "concat":
        return rs.Concat.PrimitiveDesc(engine, int(problem.parameters[0]), mds[:-1], mds[-1], attr)
    if problem.kind == "sum":
        return rs.Sum.PrimitiveDesc(engine, list(problem.parameters), mds[:-1], mds[-1], attr)
    axis, group = map(int, problem.parameters)
    forward = rs.ShuffleForward.Desc("forward_training", mds[0], axis, group)
    made = rs.ShuffleForward.PrimitiveDesc(forward, engine, attr)
    if problem.kind == "shuffle_forward":
        return made
    backward = rs.ShuffleBackward.Desc(mds[0], axis, group)
    return rs.ShuffleBackward.PrimitiveDesc(backward, engine, made, attr)


def desc_of(tensor: Tensor) -> rs.MemoryDesc:
    if tensor.whole:
        whole = rs.MemoryDesc(tensor.whole, tensor.data_type, tensor.format)
        return whole.submemory_desc(tensor.dims, tensor.at)
    if isinstance(tensor.format, str):
        return rs.MemoryDesc(tensor.dims, tensor.data_type, tensor.format)
    start = sum((n - 1) * -step for n, step in zip(tensor.dims, tensor.format, strict=True) if step < 0)
    return rs.MemoryDesc.from_strides(tensor.dims, tensor.data_type, tensor.format, start)


def _attr(steps: Sequence[Step]) -> rs.PrimitiveAttr:
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    for name, *values in steps:
        arguments: list[Any] = [desc_of(value) if isinstance(value, Tensor) else value for value in values]
        if name in ("sum", "eltwise", "binary"):
            getattr(ops, f"append_{name}")(*arguments)
        else:
            getattr(attr, f"set_{name}")(*arguments)
    attr.set_post_ops(ops)
    return attr


def arguments_of(sources: int) -> Iterator[int]:
    """The numbers of all arguments that a problem may have."""
    yield from (rs.ARG_SRC, rs.ARG_DST, rs.ARG_DST_1, rs.ARG_DST_2, rs.ARG_DIFF_SRC, rs.ARG_DIFF_DST)
    operands = (rs.ARG_SRC, rs.ARG_DST, *range(rs.ARG_MULTIPLE_SRC, rs.ARG_MULTIPLE_SRC + sources))
    yield from operands[2:]
    yield from (factor | arg for factor in (rs.ARG_ATTR_SCALES, rs.ARG_ATTR_ZERO_POINTS) for arg in operands)
    yield from (rs.arg_attr_multiple_post_op(i) | rs.ARG_SRC_1 for i in range(8))
