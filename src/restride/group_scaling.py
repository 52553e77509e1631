"""How a tensor is quantised in groups, as a value, and the ways that have names.

| word | elements | group | scales | of all |
| --- | --- | --- | --- | --- |
| mxfp4 | f4_e2m1 | 32 of the last axis | e8m0 | |
| mxfp8 | f8_e4m3 | 32 of the last axis | e8m0 | |
| nvfp4 | f4_e2m1 | 16 of the last axis | f8_e4m3 | one f32 |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .desc.parse import parse_bool, parse_int, parse_ints, short_repr
from .dtypes import DataType
from .errors import InvalidArguments
from .foreign import plain_text
from .frontend.formats import parse_type
from .grouped import Dims
from .nearest import nearest
from .plan.scale_rule import ENDS, LARGEST, ScaleRule


@dataclass(frozen=True, slots=True)
class GroupScaling:
    """How a tensor is quantised: the type of elements, the group of each axis, the types beside them.

    `groups`: 0 stands for the whole axis. `zero_type`: that of zero points, None where there are none.
    `is_two_level`: block scales are of the tensor divided by one f32 scale for all of it.
    """

    data_type: DataType
    groups: Dims
    scale_type: DataType = DataType.f32
    zero_type: DataType | None = None
    is_two_level: bool = False

    @property
    def rule(self) -> ScaleRule:
        """What the scale of a group is."""
        return ScaleRule(
            self.data_type, self.scale_type, self.is_two_level, has_zeros=self.zero_type is not None
        )

    def for_dims(self, dims: Dims) -> GroupScaling:
        """With groups for each axis: those that are there are of the last ones."""
        if len(self.groups) > len(dims):
            raise InvalidArguments(
                f"groups of {len(self.groups)} axes for a tensor of {len(dims)}",
                code="RS-A15",
                where=f"dims {dims}, groups {self.groups}",
                why="there is at most one group for each axis",
                hint="groups are of the last axes; 1 shares nothing along an axis, 0 all of it",
            )
        whole = (1,) * (len(dims) - len(self.groups)) + self.groups
        return replace(self, groups=tuple(g or max(n, 1) for g, n in zip(whole, dims, strict=True)))


NAMED = {
    "mxfp4": GroupScaling(DataType.f4_e2m1, (32,), DataType.e8m0),
    "mxfp8": GroupScaling(DataType.f8_e4m3, (32,), DataType.e8m0),
    "nvfp4": GroupScaling(DataType.f4_e2m1, (16,), DataType.f8_e4m3, is_two_level=True),
}
"""Ways of quantising that have names."""

SCALE_TYPES = (
    *(DataType.f32, DataType.f16, DataType.bf16),
    *(DataType.e8m0, DataType.f8_e4m3, DataType.f8_e5m2),
)
"""What scales of groups are held in."""


def parse_kind(dtype: Any) -> DataType:
    """The type of elements; for other words the error has the ways of quantising among what may be meant."""
    try:
        return parse_type(dtype)
    except InvalidArguments as error:
        name = plain_text(dtype)
        near = nearest(name[:40].lower(), list(NAMED)) if isinstance(name, str) else ""
        if not near:
            raise
        raise error.retold(error.what, hint=f"did you mean {near!r}?") from None


def scaling_of(
    dtype: Any, axis: Any, symmetric: Any, group: Any, scale_type: Any, ndims: int
) -> GroupScaling:
    """How `quantize` is asked to quantise a tensor of so many dims."""
    name = plain_text(dtype)
    if isinstance(name, str) and name in NAMED:
        named = NAMED[name]
        return named if group is None else replace(named, groups=_groups_of(group, axis, ndims))
    kind, stored = parse_kind(dtype), parse_type(scale_type)
    if kind not in LARGEST or stored not in SCALE_TYPES:
        words = (
            (LARGEST, f"dtype is {kind}") if kind not in LARGEST else (SCALE_TYPES, f"scale_type is {stored}")
        )
        raise InvalidArguments(
            f"quantize: {words[1]}",
            code="RS-A15",
            why=f"with groups it is one of {', '.join(map(str, words[0]))}",
            hint=f"or one of the names {', '.join(NAMED)}",
        )
    has_zeros = not parse_bool("quantize: symmetric", symmetric)
    if has_zeros and (kind not in ENDS or stored is DataType.e8m0):
        raise InvalidArguments(
            f"quantize: {kind} in scales of {stored} with symmetric=False",
            code="RS-A15",
            why="zero points are of integers, and beside scales that are no powers of two",
            hint="leave symmetric out",
        )
    return GroupScaling(
        kind, _groups_of(0 if group is None else group, axis, ndims), stored, kind if has_zeros else None
    )


def _groups_of(group: Any, axis: Any, ndims: int) -> Dims:
    """A group for each of the last axes, or for one axis that is named."""
    if isinstance(group, list | tuple):
        if axis is None:
            return parse_ints(group, "quantize: group")
        raise InvalidArguments(
            f"quantize: axis is {short_repr(axis)}, group is {short_repr(group)}",
            code="RS-A15",
            why="several groups are of the last axes",
            hint="leave axis out; 1 shares nothing along an axis, 0 all of it",
        )
    at = -1 if axis is None else parse_int(axis, "quantize: axis")
    if not -ndims <= at < ndims:
        raise InvalidArguments(
            f"quantize: axis is {at}",
            code="RS-A10",
            why=f"it must be from {-ndims} to {ndims - 1}",
            hint="groups are along the last axis unless another is given",
        )
    return tuple(parse_int(group, "quantize: group") if d == at % ndims else 1 for d in range(ndims))
