"""Quantization in groups as a value, and the named ways to do it.

| word | elements | group | scales | of all |
| --- | --- | --- | --- | --- |
| mxfp4 | f4_e2m1 | 32 of the last axis | e8m0 | |
| mxfp8 | f8_e4m3 | 32 of the last axis | e8m0 | |
| nvfp4 | f4_e2m1 | 16 of the last axis | f8_e4m3 | one f32 |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...desc.ggml_blocks import GGML_BLOCKS
from ...desc.parse import parse_bool, parse_int, parse_ints, short_repr
from ...dtypes import DataType
from ...errors import InvalidArguments, refuse
from ...foreign import plain_text
from ...ir.scale_rule import ENDS, LARGEST, ScaleRule
from ...nearest import nearest
from ..calls.formats import parse_type
from .grouped import Dims


@dataclass(frozen=True, slots=True)
class GroupScaling:
    """A quantization: the type of elements, the group of each axis, the types beside them.

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
        """The rule for the scale of a group."""
        return ScaleRule(
            self.data_type, self.scale_type, self.is_two_level, has_zeros=self.zero_type is not None
        )

    def for_dims(self, dims: Dims) -> GroupScaling:
        """With groups for each axis: those that are there are of the last ones."""
        if len(self.groups) > len(dims):
            raise refuse(
                "RS-A15:groups-axes-tensor",
                count=len(self.groups),
                count2=len(dims),
                dims=dims,
                groups=self.groups,
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
        near = nearest(name[:40].lower(), [*NAMED, *GGML_BLOCKS]) if isinstance(name, str) else ""
        if not near:
            raise
        raise error.with_context(error.what, hint=f"did you mean {near!r}?") from None


def scaling_of(
    dtype: Any, axis: Any, symmetric: Any, group: Any, scale_type: Any, ndims: int
) -> GroupScaling:
    """The quantization that the arguments of `quantize` ask for, of a tensor of so many dims."""
    name = plain_text(dtype)
    if isinstance(name, str) and name in NAMED:
        scaling = NAMED[name]
        return scaling if group is None else replace(scaling, groups=_groups_of(group, axis, ndims))
    kind, scales = parse_kind(dtype), parse_type(scale_type)
    if kind not in LARGEST or scales not in SCALE_TYPES:
        words = (
            (LARGEST, f"dtype is {kind}") if kind not in LARGEST else (SCALE_TYPES, f"scale_type is {scales}")
        )
        raise refuse(
            "RS-A15:groups-names",
            words=words[1],
            words2=", ".join(map(str, words[0])),
            named=", ".join(NAMED),
        )
    has_zeros = not parse_bool("quantize: symmetric", symmetric)
    if has_zeros and (kind not in ENDS or scales is DataType.e8m0):
        raise refuse("RS-A15:scales-symmetric-false", kind=kind, stored=scales)
    return GroupScaling(
        kind, _groups_of(0 if group is None else group, axis, ndims), scales, kind if has_zeros else None
    )


def _groups_of(group: Any, axis: Any, ndims: int) -> Dims:
    """A group for each of the last axes, or for one axis that is named."""
    if isinstance(group, list | tuple):
        if axis is None:
            return parse_ints(group, "quantize: group")
        raise refuse("RS-A15:axis-group", axis=short_repr(axis), group=short_repr(group))
    at = -1 if axis is None else parse_int(axis, "quantize: axis")
    if not -ndims <= at < ndims:
        raise refuse("RS-A10:groups", at=at, least=-ndims, last=ndims - 1)
    return tuple(parse_int(group, "quantize: group") if d == at % ndims else 1 for d in range(ndims))
