"""Group quantization as a value, and its named schemes.

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
    """A quantization scheme: the type of elements, the group along each axis, the types of scales and zero
    points.

    `groups`: 0 means the whole axis. `zero_type`: of zero points, None if there are none. `is_two_level`: the
    tensor is divided by one f32 scale before block scales are computed.
    """

    data_type: DataType
    groups: Dims
    scale_type: DataType = DataType.f32
    zero_type: DataType | None = None
    is_two_level: bool = False

    @property
    def rule(self) -> ScaleRule:
        """Return the rule for the scale of a group."""
        return ScaleRule(
            self.data_type, self.scale_type, self.is_two_level, has_zeros=self.zero_type is not None
        )

    def for_dims(self, dims: Dims) -> GroupScaling:
        """Return the scheme with a group for each axis; existing groups apply to the last axes."""
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
"""Named quantization schemes."""

SCALE_TYPES = (
    *(DataType.f32, DataType.f16, DataType.bf16),
    *(DataType.e8m0, DataType.f8_e4m3, DataType.f8_e5m2),
)
"""The types of group scales."""


def parse_kind(dtype: Any) -> DataType:
    """Return the type of elements; errors suggest quantization schemes as well."""
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
    """Return the quantization scheme for the arguments of `quantize`, for a tensor with this many dims."""
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
    """Return a group size for each of the last axes, or for the one axis given."""
    if isinstance(group, list | tuple):
        if axis is None:
            return parse_ints(group, "quantize: group")
        raise refuse("RS-A15:axis-group", axis=short_repr(axis), group=short_repr(group))
    at = -1 if axis is None else parse_int(axis, "quantize: axis")
    if not -ndims <= at < ndims:
        raise refuse("RS-A10:groups", at=at, least=-ndims, last=ndims - 1)
    return tuple(parse_int(group, "quantize: group") if d == at % ndims else 1 for d in range(ndims))
