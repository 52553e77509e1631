"""Checks attributes against descriptors: masks, counts, groups, types (N10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ..dtypes import DataType
from ..errors import Error, refuse
from .arguments import ARG_DST, ARG_SRC, ARG_SRC_1, ARG_WEIGHTS, spelled
from .attr import Attr
from .attr_value import Factor, fits_extents
from .layout import RUNTIME_DIM
from .memory_desc import MemoryDesc
from .post_op_values import BinaryOp, DepthwiseOp, PostOp, PReLUOp, SumOp

_NAMES = {ARG_SRC: "src", ARG_SRC_1: "src1", ARG_WEIGHTS: "weights", ARG_DST: "dst"}


def check_attr(attr: Attr, src: MemoryDesc, dst: MemoryDesc) -> None:
    """Raise unless attributes match a reorder from `src` to `dst`, which have the same dims.

    Whatever depends on dims known only at execution is checked at execution.
    Raises InvalidArguments that names the expected value.
    """
    check_attr_of("reorder", attr, {ARG_SRC: src, ARG_DST: dst})


def check_attr_of(
    call: str, attr: Attr, tensors: Mapping[int, MemoryDesc], *, shifts_floats: bool = False
) -> None:
    """Do the same for `call`, whose `tensors` can have scales; post-ops apply to the one with `ARG_DST`.

    `shifts_floats`: a destination can have zero points without being an integer tensor.
    """
    try:
        if attr.rnn is not None:
            raise refuse("RS-R26:quantization-recurrent-network")
        _check_arguments(attr, tensors)
        for name, arg, factor in _factors_with_names(attr):
            dims = tensors[arg].dims
            _check_mask(name, factor, dims)
            _check_groups(name, factor, dims)
            _check_count(name, factor, dims)
            _check_shape(name, factor, dims)
        for arg, _ in attr.zero_points:
            if arg != ARG_DST or not shifts_floats:
                _check_integral(_NAMES[arg], tensors[arg].data_type)
        for i, op in enumerate(attr.post_ops):
            _check_post_op(i, op, tensors[ARG_DST])
        if attr.post_ops:
            _check_sums_agree(attr.post_ops, tensors[ARG_DST].data_type)
    except Error as error:
        where = "; ".join(f"{_NAMES[arg]} {md}" for arg, md in tensors.items())
        raise error.with_context(f"{call}: {error.what}", where=where) from None


def _check_arguments(attr: Attr, tensors: Mapping[int, MemoryDesc]) -> None:
    beyond = next((arg for arg, _ in (*attr.scales, *attr.zero_points) if arg not in tensors), None)
    if beyond is None:
        return
    own = ", ".join(f"{spelled(arg, 'rs.onednn.Arg.')} ({arg})" for arg in tensors)
    raise refuse("RS-R26:scales-argument", beyond=beyond, own=own)


def _factors_with_names(attr: Attr) -> Iterator[tuple[str, int, Factor]]:
    """Yield all factors with their names and arguments; output scales are the source's (N1)."""
    if attr.output_scales is not None:
        yield "output scales", ARG_SRC, attr.output_scales
    for word, factors in (("scales", attr.scales), ("zero points", attr.zero_points)):
        yield from ((f"{word} of {_NAMES[arg]}", arg, factor) for arg, factor in factors)


# --- scales and zero points --------------------------------------------------------------------------------


def _check_mask(name: str, factor: Factor, dims: Sequence[int]) -> None:
    beyond = factor.mask >> len(dims)
    if not beyond:
        return
    first = len(dims) + (beyond & -beyond).bit_length() - 1
    raise refuse(
        "RS-N10:bit-stands-dim",
        name=name,
        mask=factor.mask,
        first=first,
        last=len(dims) - 1,
        mask2=(1 << len(dims)) - 1,
    )


def _check_groups(name: str, factor: Factor, dims: Sequence[int]) -> None:
    if not factor.groups:
        return
    first = len(dims) - len(factor.groups)
    if first < 0:
        why = f"groups are given for {len(factor.groups)} dims, but the tensor has {len(dims)}"
        raise refuse("RS-R25:too-many-groups", name=name, groups="x".join(map(str, factor.groups)), why=why)
    last, bits = range(first, len(dims)), (1 << len(factor.groups)) - 1
    if factor.mask >> first != bits:
        texts = " and ".join(map(str, last))
        why = f"groups divide dims {texts}, but mask {factor.mask} does not include all of them"
        raise refuse(
            "RS-R25:groups-set-bits",
            name=name,
            groups="x".join(map(str, factor.groups)),
            why=why,
            which="both" if len(last) == 2 else "all",
            bits=bits << first,
        )
    for i, size in zip(last, factor.groups, strict=True):
        if dims[i] != RUNTIME_DIM and dims[i] % size:
            why, hint = f"dim {i} is {dims[i]}, which {size} does not divide", "groups must divide the dim"
            raise refuse(
                "RS-R25:groups", name=name, groups="x".join(map(str, factor.groups)), why=why, hint=hint
            )


def _check_count(name: str, factor: Factor, dims: Sequence[int]) -> None:
    values, masked = factor.to_numpy(), [i for i in range(len(dims)) if factor.mask >> i & 1]
    if values is None or any(dims[i] == RUNTIME_DIM for i in masked) or values.size == factor.count(dims):
        return
    raise refuse(
        "RS-R22:mask-stands",
        name=name,
        mask=factor.mask,
        count_text=_count_text(factor, dims, masked),
        size=values.size,
    )


def _check_shape(name: str, factor: Factor, dims: Sequence[int]) -> None:
    masked = [i for i in range(len(dims)) if factor.mask >> i & 1]
    if any(dims[i] == RUNTIME_DIM for i in masked) or fits_extents(factor.shape, factor.extents(dims)):
        return
    raise refuse(
        "RS-R22:wrong-shape",
        name=name,
        mask=factor.mask,
        count_text=_count_text(factor, dims, masked),
        shape=" x ".join(map(str, factor.shape)),
    )


def _count_text(factor: Factor, dims: Sequence[int], masked: Sequence[int]) -> str:
    """Explain a count: `2 x 5 = 10 values (dim 0 is 2, dim 2 is 5)`."""
    extents = factor.extents(dims)
    shared = dict(zip(range(len(dims) - len(factor.groups), len(dims)), factor.groups, strict=True))
    product = " x ".join(str(extents[i]) for i in masked)
    total = f"{product} = {prod(extents)}" if len(masked) > 1 else str(prod(extents))
    parts = [f"dim {i} is {dims[i]}" + (f" in groups of {shared[i]}" if i in shared else "") for i in masked]
    return f"{total} value{'s' * (prod(extents) != 1)}" + (f" ({', '.join(parts)})" if parts else "")


def _check_integral(name: str, data_type: DataType) -> None:
    if data_type.is_integral:
        return
    raise refuse("RS-R27:zero-points", name=name, data_type=data_type)


# --- post-ops ----------------------------------------------------------------------------------------------


def _check_post_op(index: int, op: PostOp, dst: MemoryDesc) -> None:
    if isinstance(op, DepthwiseOp):
        raise refuse("RS-P06:depthwise-convolution-post", index=index)
    if isinstance(op, SumOp):
        _check_sum(index, op, dst.data_type)
    elif isinstance(op, BinaryOp):
        _check_broadcast(index, op.desc, dst.dims)
    elif isinstance(op, PReLUOp) and op.mask >> dst.ndims:
        raise refuse(
            "RS-N10:mask-prelu-post",
            index=index,
            mask=op.mask,
            last=dst.ndims - 1,
            mask2=(1 << dst.ndims) - 1,
        )


def _check_sum(index: int, op: SumOp, dst_type: DataType) -> None:
    data_type = op.data_type or dst_type
    if data_type.bits != dst_type.bits:
        raise refuse("RS-R30:sum-post-op", index=index, data_type=data_type, dst_type=dst_type)
    if op.zero_point and not data_type.is_integral:
        raise refuse("RS-R30:sum-post-op-zero", index=index, zero_point=op.zero_point, data_type=data_type)


def _check_sums_agree(post_ops: Sequence[PostOp], dst_type: DataType) -> None:
    read = [op.data_type or dst_type for op in post_ops if isinstance(op, SumOp)]
    if len(set(read)) > 1:
        raise refuse("RS-R30:sums-read-dst", read=" and as ".join(dict.fromkeys(map(str, read))))


def _check_broadcast(index: int, operand: MemoryDesc, dims: Sequence[int]) -> None:
    if operand.ndims != len(dims):
        why = f"it has {operand.ndims} dims, dst has {len(dims)}"
        raise refuse("RS-P06:operand-post-op", index=index, operand=operand, why=why)
    for i, (n, extent) in enumerate(zip(operand.dims, dims, strict=True)):
        if n not in (1, extent) and extent != RUNTIME_DIM:
            why = f"dim {i} is {n} in the operand and {extent} in dst"
            raise refuse("RS-P06:operand-post-op", index=index, operand=operand, why=why)
