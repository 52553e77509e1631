"""The arguments of products of arrays as memory objects and numbers, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.parse import parse_int, short_repr
from ...dtypes import DataType
from ...errors import refuse
from ...model.checks import check_destination
from ...runtime.describe import Subject
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.transfer import refuse_host_out
from .operands import memory_of
from .tensors import as_array, as_numpy


def operand_of(call: str, name: str, value: Any, engine: Engine) -> Memory:
    """Wrap an argument as a memory over the same bytes. Raises InvalidArguments if it cannot be read."""
    what = f"{call}: {name}"
    array = value if isinstance(value, Memory) else as_numpy(as_array(value, what), what)
    return memory_of(array, engine, Subject(f"{what} cannot be read", f"{what} does not match"))


def bias_of(call: str, value: Any, engine: Engine, ndims: int) -> Memory:
    """Return a value for each output, along the last of `ndims` dims."""
    bias = operand_of(call, "bias", value, engine)
    if bias.desc.ndims != 1:
        raise refuse("RS-X01:bias-dims", call=call, ndims=bias.desc.ndims, desc=bias.desc)
    if ndims == 1 or isinstance(value, Memory):
        return bias
    wide = np.asarray(bias).reshape(*[1] * (ndims - 1), -1)
    return operand_of(call, "bias", wide, engine)


def result_type(source: Memory, dtype: Any) -> DataType:
    """Return the type of a result: `dtype`, else that of the source, or s32 for integers."""
    if dtype is not None:
        return DataType.parse(dtype)
    kind = source.desc.data_type
    return DataType.s32 if kind.is_integral else kind


def target_of(call: str, md: MemoryDesc, out: Any, engine: Engine) -> Memory:
    """Return the destination: a new memory, or the caller's, which must have the same dims."""
    if out is None:
        return Memory(md, engine)
    subject = Subject.target(call)
    refuse_host_out(subject.refused, out, engine)
    target = operand_of(call, "out", out, engine)
    check_destination(call, target, "out")
    if target.desc.dims != md.dims:
        raise refuse("RS-R10:out-other-dims", call=call, desc=target.desc, dims=md.dims)
    return target


def numbers_of_dims(call: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """Return one number for each spatial dim, given individually or once for all."""
    what = f"{call}: {name}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        numbers = tuple(parse_int(number, what) for number in value)
    else:
        numbers = (parse_int(value, what),) * max(count, 0)
    if len(numbers) == max(count, 0):
        return numbers
    raise refuse("RS-X01:spatial-dims", what=what, value=short_repr(value), count=count)
