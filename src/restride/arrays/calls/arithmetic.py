"""Converts `scale`, `zero_point`, `axis`, `beta` and `post_ops` of a call to attributes and their operands.

The zero point belongs to the integer side: an integer result is `scale * x + zero_point`; if only `x` is
integer, the result is `scale * (x - zero_point)`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...desc.arguments import (
    ARG_ATTR_OUTPUT_SCALES,
    ARG_ATTR_SCALES,
    ARG_ATTR_ZERO_POINTS,
    ARG_DST,
    ARG_SRC,
    ARG_SRC_1,
    arg_attr_multiple_post_op,
)
from ...desc.attr import RUNTIME_F32_VAL, PrimitiveAttr
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import is_scalar, parse_int, short_repr, to_f32
from ...desc.post_op_values import BINARY, ELTWISE, BinaryOp, PReLUOp
from ...desc.post_ops import PostOps
from ...errors import Error, refuse
from ...foreign import attribute_of, is_masked, plain_text
from ...frozen import dataclass
from ...runtime.describe import Subject, describe
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.transfer import from_host
from ..scaling.group_values import are_of_groups, group_sizes, levels_of, scale_memory, zero_point_memory
from .carriers import is_nibbles
from .tensors import as_numpy, is_foreign

_OPERAND = Subject("reorder: the operand of a post-op cannot be read", "reorder: the operand does not match")


@dataclass(frozen=True, slots=True)
class CallArithmetic:
    """The arithmetic of a call, as the caller wrote it."""

    scale: Any = None
    zero_point: Any = None
    axis: Any = None
    beta: Any = 0.0
    post_ops: Any = None

    @property
    def is_nothing(self) -> bool:
        """True if nothing is computed: bits are only moved or converted."""
        has_no_beta = type(self.beta) is float and self.beta == 0.0
        return self.scale is self.zero_point is self.axis is self.post_ops is None and has_no_beta

    def settled(self) -> CallArithmetic:
        """Return the same arithmetic; without an axis, an array of one value becomes that value."""
        if self.axis is not None:
            return self
        return replace(self, scale=_alone(self.scale), zero_point=_alone(self.zero_point))


@dataclass(frozen=True, slots=True)
class BoundAttributes:
    """Attributes, and the memory objects that an execution passes for them."""

    attr: PrimitiveAttr
    extras: dict[int, Memory]


def bind(args: CallArithmetic, src: MemoryDesc, dst: MemoryDesc, engine: Engine) -> BoundAttributes:
    """Return attributes for a reorder from `src` to `dst`. Raises InvalidArguments if they do not match."""
    args = args.settled()
    if args.axis is not None:
        _axis(args.axis, "axis", dst)
    attrs = BoundAttributes(PrimitiveAttr(), {})
    _bind_scale(attrs, args, dst, engine)
    _bind_zero_point(attrs, args, src, dst, engine)
    attrs.attr.set_post_ops(_chain(attrs, args, dst, engine))
    return attrs


def _bind_scale(attrs: BoundAttributes, args: CallArithmetic, dst: MemoryDesc, engine: Engine) -> None:
    if args.scale is None:
        return
    blocks, _ = levels_of(args.scale, dst)
    if args.axis is None and are_of_groups(blocks, dst):
        memory = scale_memory(blocks, engine)
        groups = group_sizes("scale", memory.desc.dims, dst.dims)
        attrs.attr.set_scales(ARG_SRC, _all_dims(dst), None, groups, memory.desc.data_type)
        attrs.extras[ARG_ATTR_SCALES | ARG_SRC] = memory
        return
    if not _is_list(args.scale):
        attrs.attr.set_output_scales(0, [to_factor(args.scale, "scale")])
        return
    values = _one_per_index("scale", args.scale, args.axis, dst)
    with np.errstate(all="ignore"):
        exact = np.ascontiguousarray(values, np.float32)
    attrs.attr.set_output_scales(1 << _axis(args.axis, "scale", dst), RUNTIME_F32_VAL)
    attrs.extras[ARG_ATTR_OUTPUT_SCALES] = _at(exact, engine)


def _bind_zero_point(
    attrs: BoundAttributes, args: CallArithmetic, src: MemoryDesc, dst: MemoryDesc, engine: Engine
) -> None:
    is_integer = isinstance(args.zero_point, int | np.integer) and not isinstance(args.zero_point, bool)
    if args.zero_point is None or (is_integer and operator.index(args.zero_point) == 0):
        return
    arg = ARG_DST if dst.data_type.is_integral else ARG_SRC
    if not (dst if arg == ARG_DST else src).data_type.is_integral:
        if _is_all_zero(args.zero_point):
            return
        raise refuse("RS-R27:zero-point-without", src=src, dst=dst)
    if args.axis is None and are_of_groups(args.zero_point, dst):
        memory = zero_point_memory(args.zero_point, engine)
        groups = group_sizes("zero_point", memory.desc.dims, dst.dims)
        attrs.attr.set_zero_points(arg, _all_dims(dst), None, groups, memory.desc.data_type)
        attrs.extras[ARG_ATTR_ZERO_POINTS | arg] = memory
        return
    if not _is_list(args.zero_point):
        try:
            attrs.attr.set_zero_points(arg, 0, [parse_int(args.zero_point, "reorder: zero_point")])
        except Error as error:
            raise _of_argument("zero_point", error) from None
        return
    values, limits = (_one_per_index("zero_point", args.zero_point, args.axis, dst), np.iinfo(np.int32))
    ends = (values.min(), values.max()) if values.size else (0, 0)
    if values.dtype.kind not in "iu" or not (limits.min <= ends[0] and ends[1] <= limits.max):
        raise refuse("RS-R27:zero-point", values=short_repr(values))
    values = np.ascontiguousarray(values, np.int32)
    attrs.attr.set_zero_points(arg, 1 << _axis(args.axis, "zero_point", dst), None)
    attrs.extras[ARG_ATTR_ZERO_POINTS | arg] = _at(values, engine)


def _all_dims(dst: MemoryDesc) -> int:
    """Return the mask of all dims."""
    return (1 << dst.ndims) - 1


def to_factor(value: Any, name: str) -> float:
    """Return `scale` or `beta` as an f32 value. Raises InvalidArguments for anything but a number."""
    try:
        is_number = type(value) is float or np.ndim(value) == 0
    except Exception:
        is_number = False
    if is_number:
        return to_f32(value, f"reorder: {name}")
    raise refuse("RS-V02:no-number", name=name, value=short_repr(value), type=type(value).__name__)


# --- one value for each index of an axis ------------------------------------------------------------------


def _is_list(value: Any) -> bool:
    """Return True for several values; an array or tensor with no axes counts as a number."""
    ndim = attribute_of(value, "ndim", 0)
    return isinstance(value, list | tuple | range) or (isinstance(ndim, int) and ndim > 0)


def _alone(value: Any) -> Any:
    """Return the only value of a list, array or tensor with one element; anything else unchanged."""
    if not _is_list(value) or is_masked(value):
        return value
    try:
        array = as_numpy(value, "") if is_foreign(value) else np.asarray(value)
        return array.reshape(())[()] if array.size == 1 else value
    except Exception:  # a foreign object can raise anything; it is diagnosed later
        return value


def _is_all_zero(values: Any) -> bool:
    """Return True for several zero points that are all 0, as `quantize` returns with floats."""
    try:
        return _is_list(values) and not np.asarray(values).any()
    except Exception:
        return False


def _one_per_index(name: str, values: Any, axis: Any, dst: MemoryDesc) -> np.ndarray[Any, Any]:
    if is_foreign(values):
        values = as_numpy(values, f"reorder: {name}")
    try:
        array = np.asarray(values)
        is_known = array.dtype.kind in "iufV" and not is_masked(values)
        numbers = array if is_known else np.empty((0, 0))
    except Exception:
        numbers = np.empty((0, 0))
    at = _axis(axis, name, dst)
    if numbers.shape == (dst.dims[at],):
        return numbers
    raise refuse("RS-A11", name=name, values=short_repr(values), dims=dst.dims, at=at, dims2=dst.dims[at])


def _axis(axis: Any, name: str, dst: MemoryDesc) -> int:
    if axis is None:
        raise refuse("RS-A10:several-values-without", name=name, dims=dst.dims)
    at = parse_int(axis, "reorder: axis")
    if not -dst.ndims <= at < dst.ndims:
        raise refuse("RS-A10:reorder", at=short_repr(at), dims=dst.dims, least=-dst.ndims, last=dst.ndims - 1)
    return at % dst.ndims


# --- post-ops -----------------------------------------------------------------------------------------------


def _chain(attrs: BoundAttributes, args: CallArithmetic, dst: MemoryDesc, engine: Engine) -> PostOps:
    """Return the chain: the scale on top of group scales, the sum for `beta`, then `post_ops`."""
    chain = PostOps()
    _, above = levels_of(args.scale, dst)
    if above is not None:
        chain.append_eltwise("linear", to_factor(above, "scale"))
    beta = to_factor(args.beta, "beta")
    if beta != 0.0:
        chain.append_sum(beta)
    if isinstance(args.post_ops, PostOps):
        entries = args.post_ops.freeze()
        if any(isinstance(entry, BinaryOp | PReLUOp) for entry in entries):
            raise refuse("RS-A12:post-ops-names")
        return PostOps.of((*chain.freeze(), *entries))
    for entry in entries_of(args.post_ops):
        try:
            _append(chain, attrs, entry, dst, engine)
        except Error as error:
            raise _of_argument("post_ops", error) from None
    return chain


def _of_argument(name: str, error: Error) -> Error:
    """Rephrase the error of an attribute setter in terms of the argument of `reorder`."""
    what = re.sub(r"^\w+: ", "", error.what)
    return error if error.what.startswith("reorder: ") else error.with_context(f"reorder: {name}: {what}")


def entries_of(post_ops: Any) -> Iterable[Any]:
    """Return the entries of a chain: a single one, or several in a list or tuple."""
    if post_ops is None:
        return ()
    if isinstance(post_ops, str):
        return (post_ops,)
    if isinstance(post_ops, list | tuple):
        entries = _items(post_ops, post_ops)
        is_one = isinstance(post_ops, tuple) and len(entries) > 1 and isinstance(entries[0], str)
        return (post_ops,) if is_one and not isinstance(entries[1], str | tuple | list) else entries
    raise refuse("RS-A12:entry-name-tuple", post_ops=short_repr(post_ops))


def _items(values: Any, entry: Any) -> Sequence[Any]:
    """Return the items as a plain list or tuple; a subclass can raise anything."""
    if type(values) is list or type(values) is tuple:
        return values
    try:
        return tuple(values)
    except Exception:
        raise refuse("RS-A12:entry-name-tuple", post_ops=short_repr(entry)) from None


def _append(chain: PostOps, attrs: BoundAttributes, entry: Any, dst: MemoryDesc, engine: Engine) -> None:
    parts = (entry,) if isinstance(entry, str) else entry
    parts = _items(parts, entry) if isinstance(parts, tuple | list) else ()
    if not parts or not isinstance(parts[0], str):
        raise refuse("RS-A12:entry-name-tuple", post_ops=short_repr(entry))
    alg, *params = parts
    alg = plain_text(alg)
    name = alg.removeprefix("eltwise_").removeprefix("binary_")
    if name == "sum":
        chain.append_sum(*params[:3])
    elif name in BINARY and len(params) == 1:
        memory = _operand(params[0], dst, engine)
        attrs.extras[arg_attr_multiple_post_op(len(chain)) | ARG_SRC_1] = memory
        chain.append_binary(name, memory.desc)
    elif name in BINARY or len(params) > 3:
        raise refuse("RS-A12:entry-name-tuple", post_ops=short_repr(entry))
    else:
        plain = name.removesuffix("_use_dst_for_bwd")
        least, words, example = _NEEDED.get(plain, (0, "", ""))
        if len(params) < least:
            raise refuse("RS-A12:takes", entry=short_repr(entry), name=plain, words=words, example=example)
        chain.append_eltwise(alg, *(params or ELTWISE.get(plain, ())))


_NEEDED = {
    "clip": (2, "a lower and an upper bound", '("clip", 0, 6)'),
    "clip_v2": (2, "a lower and an upper bound", '("clip_v2", 0, 6)'),
    "linear": (1, "a factor and a summand", '("linear", 2, 1)'),
    "pow": (2, "a factor and an exponent", '("pow", 1, 2)'),
}


def _operand(x: Any, dst: MemoryDesc, engine: Engine) -> Memory:
    """Return the operand of a binary post-op: an array, broadcast as in NumPy, or a memory object."""
    if isinstance(x, Memory):
        return x
    if is_foreign(x):
        x = as_numpy(x, "reorder: the operand of a post-op")
    array = np.asarray(x) if is_scalar(x) or isinstance(x, list | tuple) else x
    if isinstance(array, np.ndarray) and array.dtype == np.int64:
        array = array.astype(np.float64)
    if is_nibbles(array):
        array = array.astype(np.int8)
    if isinstance(array, np.ndarray) and array.ndim < dst.ndims:
        array = array.reshape((1,) * (dst.ndims - array.ndim) + array.shape)
    return _at(array, engine)


def _at(values: Any, engine: Engine) -> Memory:
    """Copy values to the engine that runs the call."""
    described = describe(values, None, _OPERAND)
    return from_host(described.desc, engine, described.buffer_of(values))
