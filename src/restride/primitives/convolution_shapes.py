"""What has to fit in convolutions: dims, windows and types, each with an error that says how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..desc.arguments import ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr
from ..desc.post_op_values import SumOp
from ..dtypes import DataType
from ..errors import InvalidArguments, Unimplemented
from ..plan.contraction_pack import packed_count
from ..targets.isa import host_isa
from .forms import CallArguments
from .products import Refuse, refuse_dims

Tensors = tuple[MemoryDesc, MemoryDesc, MemoryDesc]
_FLOATS = (
    *(DataType.f32, DataType.bf16, DataType.f16, DataType.f64),
    *(DataType.f8_e5m2, DataType.f8_e4m3),
)
_BYTES = (DataType.s8, DataType.u8)
_WIDE_VECTOR, _BYTE_BITS = 64, 8


class Spatial(NamedTuple):
    """A number for each spatial dim; `dilates` as oneDNN counts them: 0 is dense."""

    strides: tuple[int, ...]
    dilates: tuple[int, ...]
    padding_l: tuple[int, ...]
    padding_r: tuple[int, ...]


def parse_spatial(what: str, arguments: CallArguments, ndims: int) -> Spatial:
    """The window of arguments for tensors of `ndims` dims. Raises InvalidArguments for what is no window."""
    count = ndims - 2
    if not 1 <= count <= 3:
        raise InvalidArguments(
            f"{what}: tensors of {ndims} dims",
            code="RS-X01",
            why="a convolution has a batch, channels and one to three spatial dims",
            hint="give (N, C, W), (N, C, H, W) or (N, C, D, H, W)",
        )
    padding = _run(what, "padding_l", arguments.padding_l, count, 0)
    return Spatial(
        _run(what, "strides", arguments.strides, count, 1),
        (0,) * count if arguments.dilates is None else _run(what, "dilates", arguments.dilates, count, 0),
        padding,
        padding
        if arguments.padding_r is None
        else _run(what, "padding_r", arguments.padding_r, count, 0, -1),
    )


def _run(
    what: str, name: str, value: object, count: int, least: int, low: int | None = None
) -> tuple[int, ...]:
    row = [value] * count if isinstance(value, int) else value
    if not isinstance(row, list | tuple) or len(row) != count:
        raise InvalidArguments(
            f"{what}: {name} is {short_repr(value)}",
            code="RS-X01",
            why=f"there are {count} spatial dims",
            hint=f"give a list of {count} integers",
        )
    found = tuple(parse_int(each, f"{what}: {name}") for each in row)
    wrong = next((each for each in found if each < least and low is None), None)
    if wrong is not None:
        raise InvalidArguments(
            f"{what}: {name} is {list(found)}",
            code="RS-X01",
            why=f"{wrong} is below {least}",
            hint="strides count from 1; dilates and padding from 0, where 0 dilates nothing",
        )
    return found


def check_shapes(
    what: str, named: Mapping[str, MemoryDesc], bias: MemoryDesc, spatial: Spatial, *, is_transposed: bool
) -> None:
    """Raise InvalidArguments unless dims fit each other."""
    refuse = refuse_dims(what, named)
    source, weights, result = named.values()
    has_groups = weights.ndims == source.ndims + 1
    if result.ndims != source.ndims or weights.ndims not in (source.ndims, source.ndims + 1):
        refuse(
            f"ranks are {source.ndims}, {weights.ndims} and {result.ndims}",
            "weights have the rank of the source, one more with groups in front",
        )
    groups = weights.dims[0] if has_groups else 1
    outputs, inputs = (n * groups for n in weights.dims[has_groups : 2 + has_groups])
    if source.dims[0] != result.dims[0]:
        refuse(f"batches are {source.dims[0]} and {result.dims[0]}", "both tensors have one batch")
    if (source.dims[1], result.dims[1]) != (inputs, outputs):
        refuse(
            f"weights take {inputs} channels and give {outputs}, not {source.dims[1]} and {result.dims[1]}",
            "weights are (outputs, inputs, ...), or (groups, outputs of one, inputs of one, ...)",
        )
    if not bias.is_zero() and bias.dims != (outputs,):
        refuse(f"the bias is {bias.dims}", f"give one value for each of the {outputs} output channels")
    _check_windows(refuse, named, spatial, weights.dims[2 + has_groups :], is_transposed=is_transposed)


def _check_windows(
    refuse: Refuse,
    named: Mapping[str, MemoryDesc],
    spatial: Spatial,
    kernel: tuple[int, ...],
    *,
    is_transposed: bool,
) -> None:
    source, _, result = named.values()
    x, y = (result, source) if is_transposed else (source, result)
    rows = zip(x.dims[2:], y.dims[2:], kernel, *spatial, strict=True)
    for dim, (window, points, taps, stride, dilate, before, behind) in enumerate(rows):
        reach = (taps - 1) * (dilate + 1) + 1
        fitting = (window + before + behind - reach) // stride + 1
        if taps and points != max(fitting, 0):
            refuse(
                f"spatial dim {dim}: {window} with padding {before} and {behind}, a kernel that reaches over "
                f"{reach} and a stride of {stride} give {max(fitting, 0)} windows, not {points}",
                "look at the strides, dilates (0 is dense) and both paddings",
            )


def check_types(
    what: str,
    direction: str,
    named: Mapping[str, MemoryDesc],
    bias: MemoryDesc,
    compressed: tuple[DataType, ...] = (),
) -> None:
    """Raise Unimplemented for types that are not multiplied together.

    `compressed`: weights that become what they are multiplied with, and floats that a source may be of too.
    """
    source, weights, result = (md.data_type for md in named.values())
    integers = (*_BYTES, DataType.s32, *(each for each in compressed if each.is_integral))
    is_whole = direction == "forward" and source in _BYTES and weights in integers
    is_grown = source is not DataType.f64 and weights in compressed
    sources = (*_FLOATS, *(each for each in compressed if not each.is_integral))
    has_floats = source in sources and (weights in _FLOATS or is_grown)
    is_float = has_floats and (direction == "forward" or result in _FLOATS)
    if is_whole or is_float:
        return
    raise Unimplemented(
        f"{what}: {source} and {weights} into {result}",
        code="RS-X02",
        where="; ".join(f"{name} {md}" for name, md in named.items()),
        why="floats are multiplied by floats, bytes forward by bytes",
        hint="reorder one of them into another type first",
    )


def check_narrow_sum(what: str, attr: Attr, dst: DataType) -> None:
    """Raise Unimplemented for a sum that reads a result of 4 bits as another type."""
    if dst.bits >= _BYTE_BITS:
        return
    kinds = (op.data_type for op in attr.post_ops if isinstance(op, SumOp) and op.data_type is not None)
    other = next((kind for kind in kinds if kind is not dst), None)
    if other is None:
        return
    raise Unimplemented(
        f"{what}: a sum that reads {dst} as {other}",
        code="RS-R30",
        where=f"attr {attr.verbose_str()}",
        why="what a result of 4 bits held is read as its own type",
        hint="leave the data type of the sum out",
    )


def check_weight_scales(what: str, attr: Attr, *, has_groups: bool) -> None:
    """Raise Unimplemented for scales and zero points that are no numbers for outputs or for all."""
    outputs = 0, 3 if has_groups else 1
    for arg, masks in ((ARG_SRC, (0,)), (ARG_WEIGHTS, outputs), (ARG_DST, (0, 2))):
        check_scale_mask(what, attr, arg, masks)
    check_zero_points(what, attr, {ARG_SRC: (0, 2), ARG_WEIGHTS: outputs})


def check_scale_mask(what: str, attr: Attr, arg: int, masks: tuple[int, ...]) -> None:
    """Raise Unimplemented for a scale of an argument whose mask is none of these, or which has groups."""
    scale = attr.scale_of(arg)
    if scale is None or (scale.mask in masks and not scale.groups):
        return
    raise Unimplemented(
        f"{what}: scales of mask {scale.mask}",
        code="RS-R26",
        where=f"attr {attr.verbose_str()}",
        why=f"for this argument masks are {' or '.join(map(str, masks))}, without groups",
        hint="give one scale for all; weights may have one for each output",
    )


def check_zero_points(what: str, attr: Attr, masks: Mapping[int, tuple[int, ...]]) -> None:
    """Raise Unimplemented for zero points of a factor whose mask is none of these, or which have groups."""
    for arg in (ARG_SRC, ARG_WEIGHTS):
        zero, own = attr.zero_point_of(arg), masks.get(arg, ())
        if zero is None or (zero.mask in own and not zero.groups):
            continue
        raise Unimplemented(
            f"{what}: zero points of mask {zero.mask}",
            code="RS-R26",
            where=f"attr {attr.verbose_str()}",
            why=f"for this argument masks are {' or '.join(map(str, own))}, without groups",
            hint="reorder it to values without a zero point first",
        )


def kernel_pack(first: DataType, second: DataType) -> int:
    """How many products of two types kernels of this machine add at once: see `plan/contraction_pack.py`."""
    count = packed_count(first, second)
    # Bytes need an instruction for pairs at least, as every x86-64 has it.
    return count if count < 4 or host_isa().triple.startswith("x86_64") else 1


def kernel_block() -> int:
    """The channels of a block that kernels of this machine want: 16 where vectors have 64 bytes, else 8."""
    return 16 if host_isa().vector_bytes >= _WIDE_VECTOR else 8
