"""Attributes beside the descriptors that they are for: masks, counts, groups, types (N10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ..dtypes import DataType
from ..errors import Error, InvalidArguments, Unimplemented
from .arguments import spelled
from .attr import Attr
from .attr_value import ARG_DST, ARG_SRC, ARG_SRC_1, ARG_WEIGHTS, Factor, fits_extents
from .layout import RUNTIME_DIM
from .memory_desc import MemoryDesc
from .post_op_values import BinaryOp, DepthwiseOp, PostOp, PReLUOp, SumOp

_NAMES = {ARG_SRC: "src", ARG_SRC_1: "src1", ARG_WEIGHTS: "weights", ARG_DST: "dst"}


def check_attr(attr: Attr, src: MemoryDesc, dst: MemoryDesc) -> None:
    """Raise where attributes do not fit a reorder from `src` to `dst`, of the same dims.

    What depends on a dim that is known only at execution is left to the execution.
    Raises InvalidArguments, naming what was expected.
    """
    check_attr_of("reorder", attr, {ARG_SRC: src, ARG_DST: dst})


def check_attr_of(
    call: str, attr: Attr, tensors: Mapping[int, MemoryDesc], *, shifts_floats: bool = False
) -> None:
    """The same for `call`, whose `tensors` may have scales; post-ops are of the one that is `ARG_DST`.

    `shifts_floats`: a destination may have zero points that is no tensor of integers.
    """
    try:
        if attr.rnn is not None:
            raise _no_network()
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
        raise error.retold(f"{call}: {error.what}", where=where) from None


def _no_network() -> Unimplemented:
    return Unimplemented(
        "quantisation of a recurrent network",
        code="RS-R26",
        why="it is an attribute of the primitives for these",
        hint="elsewhere use set_scales and set_zero_points",
    )


def _check_arguments(attr: Attr, tensors: Mapping[int, MemoryDesc]) -> None:
    beyond = next((arg for arg, _ in (*attr.scales, *attr.zero_points) if arg not in tensors), None)
    if beyond is None:
        return
    own = ", ".join(f"{spelled(arg, 'rs.')} ({arg})" for arg in tensors)
    raise Unimplemented(
        f"scales of argument {beyond}",
        code="RS-R26",
        why="it is none of the tensors that have some; sources of a concat are numbered so",
        hint=f"use one of {own}",
    )


def _factors_with_names(attr: Attr) -> Iterator[tuple[str, int, Factor]]:
    """All factors with their names and arguments; output scales are the source's (N1)."""
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
    raise InvalidArguments(
        f"the mask of the {name} is {factor.mask}",
        code="RS-N10",
        why=f"bit {first} stands for dim {first}, the tensor has dims 0 to {len(dims) - 1} (N10)",
        hint=f"bit i is 1 << i; {(1 << len(dims)) - 1} names all dims, 0 is one value for the whole tensor",
    )


def _check_groups(name: str, factor: Factor, dims: Sequence[int]) -> None:
    if not factor.groups:
        return
    what = f"{name} in groups of {'x'.join(map(str, factor.groups))}"
    first = len(dims) - len(factor.groups)
    if first < 0:
        why = f"groups are of the last {len(factor.groups)} dims, the tensor has {len(dims)}"
        raise InvalidArguments(what, code="RS-R25", why=why, hint="leave groups out")
    last, bits = range(first, len(dims)), (1 << len(factor.groups)) - 1
    if factor.mask >> first != bits:
        named = " and ".join(map(str, last))
        why = f"groups divide dims {named}, the mask {factor.mask} leaves one out"
        raise InvalidArguments(
            what,
            code="RS-R25",
            why=why,
            hint=f"set {'both' if len(last) == 2 else 'all'} of their bits: {bits << first}",
        )
    for i, size in zip(last, factor.groups, strict=True):
        if dims[i] != RUNTIME_DIM and dims[i] % size:
            why, hint = f"dim {i} is {dims[i]}, which {size} does not divide", "groups are whole"
            raise InvalidArguments(what, code="RS-R25", why=why, hint=hint)


def _check_count(name: str, factor: Factor, dims: Sequence[int]) -> None:
    values, masked = factor.to_numpy(), [i for i in range(len(dims)) if factor.mask >> i & 1]
    if values is None or any(dims[i] == RUNTIME_DIM for i in masked) or values.size == factor.count(dims):
        return
    raise InvalidArguments(
        f"wrong number of {name}",
        code="RS-R22",
        why=f"mask {factor.mask} stands for {_count_text(factor, dims, masked)}, there are {values.size}",
        hint="give one for each index of the masked dims, in logical order, the last dim fastest",
    )


def _check_shape(name: str, factor: Factor, dims: Sequence[int]) -> None:
    masked = [i for i in range(len(dims)) if factor.mask >> i & 1]
    if any(dims[i] == RUNTIME_DIM for i in masked) or fits_extents(factor.shape, factor.extents(dims)):
        return
    raise InvalidArguments(
        f"wrong shape of the {name}",
        code="RS-R22",
        why=f"mask {factor.mask} stands for {_count_text(factor, dims, masked)}, "
        f"the array is {' x '.join(map(str, factor.shape))}",
        hint="give the masked dims in logical order: .transpose() where they are in another, then .ravel() "
        "where an array has other dims than these",
    )


def _count_text(factor: Factor, dims: Sequence[int], masked: Sequence[int]) -> str:
    """`2 x 5 = 10 values (dim 0 is 2, dim 2 is 5)`."""
    extents = factor.extents(dims)
    shared = dict(zip(range(len(dims) - len(factor.groups), len(dims)), factor.groups, strict=True))
    product = " x ".join(str(extents[i]) for i in masked)
    total = f"{product} = {prod(extents)}" if len(masked) > 1 else str(prod(extents))
    parts = [f"dim {i} is {dims[i]}" + (f" in groups of {shared[i]}" if i in shared else "") for i in masked]
    return f"{total} value{'s' * (prod(extents) != 1)}" + (f" ({', '.join(parts)})" if parts else "")


def _check_integral(name: str, data_type: DataType) -> None:
    if data_type.is_integral:
        return
    raise InvalidArguments(
        f"zero points of {name}, which is {data_type}",
        code="RS-R27",
        why="only s32, s8, u8, s4 and u4 have zero points",
        hint=f"leave the zero points of {name} out",
    )


# --- post-ops ----------------------------------------------------------------------------------------------


def _check_post_op(index: int, op: PostOp, dst: MemoryDesc) -> None:
    if isinstance(op, DepthwiseOp):
        raise Unimplemented(
            f"a depthwise convolution (post-op {index})",
            code="RS-P06",
            why="it follows a convolution of two spatial dims alone",
            hint="leave it out, and execute a ConvolutionForward with groups",
        )
    if isinstance(op, SumOp):
        _check_sum(index, op, dst.data_type)
    elif isinstance(op, BinaryOp):
        _check_broadcast(index, op.desc, dst.dims)
    elif isinstance(op, PReLUOp) and op.mask >> dst.ndims:
        raise InvalidArguments(
            f"the mask of the prelu (post-op {index}) is {op.mask}",
            code="RS-N10",
            why=f"dst has dims 0 to {dst.ndims - 1} (N10)",
            hint=f"bit i is 1 << i; {(1 << dst.ndims) - 1} names all dims, 0 is one weight for all",
        )


def _check_sum(index: int, op: SumOp, dst_type: DataType) -> None:
    data_type = op.data_type or dst_type
    if data_type.bits != dst_type.bits:
        raise InvalidArguments(
            f"the sum (post-op {index}) reads dst as {data_type}",
            code="RS-R30",
            why=f"dst is {dst_type} of {dst_type.bits} bits, {data_type} has {data_type.bits}",
            hint="take a type of the same size, or leave the data type out",
        )
    if op.zero_point and not data_type.is_integral:
        raise InvalidArguments(
            f"the sum (post-op {index}) has zero point {op.zero_point}",
            code="RS-R30",
            why=f"it reads {data_type}; only s32, s8, u8, s4 and u4 have zero points",
            hint="leave the zero point out",
        )


def _check_sums_agree(post_ops: Sequence[PostOp], dst_type: DataType) -> None:
    read = [op.data_type or dst_type for op in post_ops if isinstance(op, SumOp)]
    if len(set(read)) > 1:
        raise Unimplemented(
            f"sums that read dst as {' and as '.join(dict.fromkeys(map(str, read)))}",
            code="RS-R30",
            why="the sums of a chain read one type",
            hint="give all sums the same data type",
        )


def _check_broadcast(index: int, operand: MemoryDesc, dims: Sequence[int]) -> None:
    what = f"the operand of post-op {index} ({operand}) does not fit dst"
    hint = "each dim of the operand is that of dst, or 1, which is repeated"
    if operand.ndims != len(dims):
        why = f"it has {operand.ndims} dims, dst has {len(dims)}"
        raise InvalidArguments(what, code="RS-P06", why=why, hint=hint)
    for i, (n, wanted) in enumerate(zip(operand.dims, dims, strict=True)):
        if n not in (1, wanted) and wanted != RUNTIME_DIM:
            why = f"dim {i} is {n} in the operand and {wanted} in dst"
            raise InvalidArguments(what, code="RS-P06", why=why, hint=hint)
