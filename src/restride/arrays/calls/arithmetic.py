"""`scale`, `zero_point`, `axis`, `beta` and `post_ops` of a call as attributes and their operands.

The zero point belongs to the integer side. Where the result is of integers, `scale * x + zero_point`; where
only `x` is, `scale * (x - zero_point)`.
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
from ...desc.post_op_values import BINARY, BinaryOp, PReLUOp
from ...desc.post_ops import PostOps
from ...errors import Error, refuse
from ...foreign import attribute_of, is_masked, plain_text
from ...frozen import dataclass
from ...runtime.describe import Subject, describe
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.transfer import from_host
from ..scaling.group_values import are_of_groups, group_sizes, levels_of, scale_memory, zero_point_memory
from .nibbles import is_nibbles
from .tensors import as_numpy, is_foreign

_OPERAND = Subject("reorder: the operand of a post-op cannot be read", "reorder: the operand does not fit")


@dataclass(frozen=True, slots=True)
class CallArithmetic:
    """What a call asks to be computed, as it was given."""

    scale: Any = None
    zero_point: Any = None
    axis: Any = None
    beta: Any = 0.0
    post_ops: Any = None

    @property
    def is_nothing(self) -> bool:
        """True where nothing is computed: bits are moved, or converted."""
        has_no_beta = type(self.beta) is float and self.beta == 0.0
        return self.scale is self.zero_point is self.axis is self.post_ops is None and has_no_beta

    def settled(self) -> CallArithmetic:
        """The same, where without axis an array of one value is that value."""
        if self.axis is not None:
            return self
        return replace(self, scale=_alone(self.scale), zero_point=_alone(self.zero_point))


@dataclass(frozen=True, slots=True)
class BoundAttributes:
    """Attributes, and the memories that an execution passes for them."""

    attr: PrimitiveAttr
    extras: dict[int, Memory]


def bind(given: CallArithmetic, src: MemoryDesc, dst: MemoryDesc, engine: Engine) -> BoundAttributes:
    """Attributes of a reorder from `src` to `dst`. Raises InvalidArguments for what does not fit them."""
    given = given.settled()
    if given.axis is not None:
        _axis(given.axis, "axis", dst)
    made = BoundAttributes(PrimitiveAttr(), {})
    _bind_scale(made, given, dst, engine)
    _bind_zero_point(made, given, src, dst, engine)
    made.attr.set_post_ops(_chain(made, given, dst, engine))
    return made


def _bind_scale(made: BoundAttributes, given: CallArithmetic, dst: MemoryDesc, engine: Engine) -> None:
    if given.scale is None:
        return
    blocks, _ = levels_of(given.scale, dst)
    if given.axis is None and are_of_groups(blocks, dst):
        memory = scale_memory(blocks, engine)
        groups = group_sizes("scale", memory.desc.dims, dst.dims)
        made.attr.set_scales(ARG_SRC, _all_dims(dst), None, groups, memory.desc.data_type)
        made.extras[ARG_ATTR_SCALES | ARG_SRC] = memory
        return
    if not _is_list(given.scale):
        made.attr.set_output_scales(0, [to_factor(given.scale, "scale")])
        return
    values = _one_per_index("scale", given.scale, given.axis, dst)
    with np.errstate(all="ignore"):
        exact = np.ascontiguousarray(values, np.float32)
    made.attr.set_output_scales(1 << _axis(given.axis, "scale", dst), RUNTIME_F32_VAL)
    made.extras[ARG_ATTR_OUTPUT_SCALES] = _at(exact, engine)


def _bind_zero_point(
    made: BoundAttributes, given: CallArithmetic, src: MemoryDesc, dst: MemoryDesc, engine: Engine
) -> None:
    if _is_no_shift(given.zero_point):
        return
    arg = ARG_DST if dst.data_type.is_integral else ARG_SRC
    if not (dst if arg == ARG_DST else src).data_type.is_integral:
        if _is_all_zero(given.zero_point):
            return
        raise refuse("RS-R27:zero-point-without", src=src, dst=dst)
    if given.axis is None and are_of_groups(given.zero_point, dst):
        memory = zero_point_memory(given.zero_point, engine)
        groups = group_sizes("zero_point", memory.desc.dims, dst.dims)
        made.attr.set_zero_points(arg, _all_dims(dst), None, groups, memory.desc.data_type)
        made.extras[ARG_ATTR_ZERO_POINTS | arg] = memory
        return
    if not _is_list(given.zero_point):
        try:
            made.attr.set_zero_points(arg, 0, [parse_int(given.zero_point, "reorder: zero_point")])
        except Error as error:
            raise _told_of("zero_point", error) from None
        return
    values = _integers(_one_per_index("zero_point", given.zero_point, given.axis, dst))
    made.attr.set_zero_points(arg, 1 << _axis(given.axis, "zero_point", dst), None)
    made.extras[ARG_ATTR_ZERO_POINTS | arg] = _at(values, engine)


def _all_dims(dst: MemoryDesc) -> int:
    """The mask of all dims."""
    return (1 << dst.ndims) - 1


def _integers(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    limits = np.iinfo(np.int32)
    is_whole = values.dtype.kind in "iu" and (values.size == 0 or (values >= limits.min).all())
    if is_whole and (values.size == 0 or (values <= limits.max).all()):
        return np.ascontiguousarray(values, np.int32)
    raise refuse("RS-R27:zero-point", values=short_repr(values))


def to_factor(value: Any, name: str) -> float:
    """`scale` or `beta` of a call as an f32 value. Raises InvalidArguments for what is no number."""
    if _is_number(value):
        return to_f32(value, f"reorder: {name}")
    raise refuse("RS-V02:no-number", name=name, value=short_repr(value), type=type(value).__name__)


def _is_number(value: Any) -> bool:
    try:
        return type(value) is float or np.ndim(value) == 0
    except Exception:
        return False


# --- one value for each index of an axis ------------------------------------------------------------------


def _is_list(value: Any) -> bool:
    """True for what has several values; an array or tensor of no axes is a number."""
    ndim = attribute_of(value, "ndim", 0)
    return isinstance(value, list | tuple | range) or (isinstance(ndim, int) and ndim > 0)


def _alone(value: Any) -> Any:
    """The one value of a list, an array or a tensor of one; anything else as it is."""
    if not _is_list(value) or is_masked(value):
        return value
    try:
        found = as_numpy(value, "") if is_foreign(value) else np.asarray(value)
        return found.reshape(())[()] if found.size == 1 else value
    except Exception:  # a foreign object may raise anything; what it is, is told later
        return value


def _is_all_zero(values: Any) -> bool:
    """True for several zero points that shift nothing, as `quantize` gives them with floats."""
    try:
        return _is_list(values) and not np.asarray(values).any()
    except Exception:
        return False


def _is_no_shift(zero_point: Any) -> bool:
    """True for no zero point, and for the integer 0: it shifts nothing."""
    is_integer = isinstance(zero_point, int | np.integer) and not isinstance(zero_point, bool)
    return zero_point is None or (is_integer and operator.index(zero_point) == 0)


def _one_per_index(name: str, values: Any, axis: Any, dst: MemoryDesc) -> np.ndarray[Any, Any]:
    if is_foreign(values):
        values = as_numpy(values, f"reorder: {name}")
    try:
        array = np.asarray(values)
        is_known = array.dtype.kind in "iufV" and not is_masked(values)
        found = array if is_known else np.empty((0, 0))
    except Exception:
        found = np.empty((0, 0))
    at = _axis(axis, name, dst)
    if found.shape == (dst.dims[at],):
        return found
    raise refuse("RS-A11", name=name, values=short_repr(values), dims=dst.dims, at=at, dims2=dst.dims[at])


def _axis(axis: Any, name: str, dst: MemoryDesc) -> int:
    if axis is None:
        raise refuse("RS-A10:several-values-without", name=name, dims=dst.dims)
    at = parse_int(axis, "reorder: axis")
    if not -dst.ndims <= at < dst.ndims:
        raise refuse("RS-A10:reorder", at=short_repr(at), dims=dst.dims, least=-dst.ndims, last=dst.ndims - 1)
    return at % dst.ndims


# --- post-ops -----------------------------------------------------------------------------------------------


def _chain(made: BoundAttributes, given: CallArithmetic, dst: MemoryDesc, engine: Engine) -> PostOps:
    """The scale above those of groups, the sum that `beta` asks for, then `post_ops`."""
    chain = PostOps()
    _, above = levels_of(given.scale, dst)
    if above is not None:
        chain.append_eltwise("linear", to_factor(above, "scale"))
    beta = to_factor(given.beta, "beta")
    if beta != 0.0:
        chain.append_sum(beta)
    if isinstance(given.post_ops, PostOps):
        return _copied(chain, given.post_ops)
    for entry in entries_of(given.post_ops):
        try:
            _append(chain, made, entry, dst, engine)
        except Error as error:
            raise _told_of("post_ops", error) from None
    return chain


def _told_of(name: str, error: Error) -> Error:
    """The refusal of an attribute's call, which the user did not make, under the argument of `reorder`."""
    what = re.sub(r"^\w+: ", "", error.what)
    return error if error.what.startswith("reorder: ") else error.with_context(f"reorder: {name}: {what}")


def _copied(chain: PostOps, given: PostOps) -> PostOps:
    entries = given.freeze()
    if any(isinstance(entry, BinaryOp | PReLUOp) for entry in entries):
        raise refuse("RS-A12:post-ops-names")
    return PostOps.of((*chain.freeze(), *entries))


def entries_of(post_ops: Any) -> Iterable[Any]:
    """The entries of a chain: one alone, or several in a list or tuple."""
    if post_ops is None:
        return ()
    if isinstance(post_ops, str):
        return (post_ops,)
    if isinstance(post_ops, list | tuple):
        entries = _items(post_ops, post_ops)
        is_one = isinstance(post_ops, tuple) and len(entries) > 1 and not _names_op(entries[1])
        return (post_ops,) if is_one and isinstance(entries[0], str) else entries
    raise refuse("RS-A12:entry-name-tuple", post_ops=short_repr(post_ops))


def _items(values: Any, entry: Any) -> Sequence[Any]:
    """The items of a list or tuple, plain ones; a subclass may raise anything."""
    if type(values) is list or type(values) is tuple:
        return values
    try:
        return tuple(values)
    except Exception:
        raise refuse("RS-A12:entry-name-tuple", post_ops=short_repr(entry)) from None


def _names_op(entry: Any) -> bool:
    return isinstance(entry, str | tuple | list)


def _append(chain: PostOps, made: BoundAttributes, entry: Any, dst: MemoryDesc, engine: Engine) -> None:
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
        made.extras[arg_attr_multiple_post_op(len(chain)) | ARG_SRC_1] = memory
        chain.append_binary(name, memory.desc)
    elif name in BINARY or len(params) > 3:
        raise refuse("RS-A12:entry-name-tuple", post_ops=short_repr(entry))
    else:
        plain = name.removesuffix("_use_dst_for_bwd")
        chain.append_eltwise(alg, *_eltwise_numbers(plain, params, entry))


# What functions that are nothing without their numbers take where none is given: torch's.
_USUAL = {
    "hardswish": (1 / 6, 0.5),
    "hardsigmoid": (1 / 6, 0.5),
    "elu": (1.0,),
    "swish": (1.0,),
    "soft_relu": (1.0,),
}
_NEEDED = {
    "clip": (2, "a lower and an upper bound", '("clip", 0, 6)'),
    "clip_v2": (2, "a lower and an upper bound", '("clip_v2", 0, 6)'),
    "linear": (1, "a factor, and what to add", '("linear", 2, 1)'),
    "pow": (2, "a factor and an exponent", '("pow", 1, 2)'),
}


def _eltwise_numbers(name: str, params: list[Any], entry: Any) -> Sequence[Any]:
    least, words, example = _NEEDED.get(name, (0, "", ""))
    if len(params) >= least:
        return params or _USUAL.get(name, ())
    raise refuse("RS-A12:takes", entry=short_repr(entry), name=name, words=words, example=example)


def _operand(x: Any, dst: MemoryDesc, engine: Engine) -> Memory:
    """The operand of a binary post-op: an array that broadcasts as NumPy's do, or a memory."""
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
    described = describe(array, None, _OPERAND)
    return from_host(described.desc, engine, described.buffer_of(array))


def _at(values: np.ndarray[Any, Any], engine: Engine) -> Memory:
    """One value for each index, on the engine that runs the call."""
    described = describe(values, None, _OPERAND)
    return from_host(described.desc, engine, described.buffer_of(values))
