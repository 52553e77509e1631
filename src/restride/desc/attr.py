"""Primitive attributes: scales, post-ops, scratchpad mode (R22–R33). Setters mutate, `freeze` copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..errors import InvalidArguments
from .parse import is_scalar, parse_int, parse_ints, short_repr
from .post_ops import PostOps, SumOp, f32_bits, missing, to_f32

_RUNTIME_F32_BITS = 0x7FC000D0
RUNTIME_F32_VAL = float(np.uint32(_RUNTIME_F32_BITS).view(np.float32))
"""Stands for a scale that is passed at execution (`DNNL_RUNTIME_F32_VAL`, R24): a NaN with its own bits."""

SCRATCHPAD_MODES = ("library", "user")


@dataclass(frozen=True, slots=True)
class Attr:
    """Attributes as a frozen value: dst = alpha * src, plus the sum where there is one (N1).

    `alpha` is an f32 value. Equality compares its bits, so that -0.0 is not 0.0 and NaN is itself.
    """

    alpha: float = field(default=1.0, compare=False)
    sum: SumOp | None = None
    scratchpad: str = "library"
    alpha_bits: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha_bits", f32_bits(self.alpha))

    @property
    def is_default(self) -> bool:
        """True where values are left as they are; the scratchpad mode does not matter (S14)."""
        return self.sum is None and self.alpha_bits == f32_bits(1.0)

    def verbose_str(self) -> str:
        """The attributes field of a verbose line: `attr-oscale:0:2 attr-post-ops:sum:0.5` (spec 1.6)."""
        parts = [f"attr-oscale:0:{self.alpha:g}"] if self.alpha_bits != f32_bits(1.0) else []
        parts += [_sum_text(self.sum)] if self.sum else []
        parts += ["attr-scratchpad:user"] if self.scratchpad == "user" else []
        return " ".join(parts)


def _sum_text(op: SumOp) -> str:
    return "attr-post-ops:sum" if op.scale == 1.0 else f"attr-post-ops:sum:{op.scale:g}"


class PrimitiveAttr:
    """Attributes of a primitive (`dnnl::primitive_attr`). Mutable; primitive descriptors copy it (R08)."""

    __slots__ = ("_alpha", "_post_ops", "_scratchpad")

    def __init__(self) -> None:
        self._alpha = 1.0
        self._post_ops = PostOps()
        self._scratchpad = "library"

    def __repr__(self) -> str:
        return f"<PrimitiveAttr {self.freeze().verbose_str() or 'default'}>"

    def freeze(self) -> Attr:
        """The attributes as they are now, as a hashable value."""
        beta = self._post_ops.get_params_sum(0)[0] if len(self._post_ops) else None
        return Attr(self._alpha, None if beta is None else SumOp(beta), self._scratchpad)

    @classmethod
    def of(cls, frozen: Attr) -> PrimitiveAttr:
        """Attributes to change, equal to a frozen value."""
        attr = cls()
        attr._alpha, attr._scratchpad = frozen.alpha, frozen.scratchpad
        if frozen.sum is not None:
            attr._post_ops.append_sum(frozen.sum.scale)
        return attr

    def set_output_scales(self, mask: int, scales: Sequence[float] | float) -> None:
        """Multiply the source by one scale: `mask` 0, `scales` of one f32 value (R22).

        Raises InvalidArguments for another count, Unimplemented for scales per dimension or at execution.
        """
        bits = _parse_mask("set_output_scales", mask)
        values = _parse_scales("set_output_scales", scales)
        if bits:
            raise missing("output scales per dimension are")
        if len(values) != 1:
            why = f"mask 0 stands for 1 scale, there are {len(values)}"
            hint = "pass one, as [0.5]"
            raise InvalidArguments("set_output_scales: wrong number of scales", why=why, hint=hint)
        self._alpha = values[0]

    def get_output_scales(self) -> tuple[int, list[float]]:
        """The mask, and the scales as rounded to f32."""
        return 0, [self._alpha]

    def set_scales(
        self, arg: int, mask: int, scales: Any = None, groups: Sequence[int] = (), data_type: Any = "f32"
    ) -> None:
        """Scale one argument (R25). Raises Unimplemented: not provided yet."""
        _parse_arg("set_scales", arg)
        _parse_mask("set_scales", mask)
        _parse_groups(groups)
        DataType.parse(data_type)
        if scales is not None:
            _parse_scales("set_scales", scales)
        raise missing("per-argument scales are")

    def get_scales(self, arg: int) -> None:
        """The scales of an argument: none is set."""
        _parse_arg("get_scales", arg)

    def set_zero_points(self, arg: int, mask: int, zero_points: Any = None) -> None:
        """Shift one argument (R27). Raises Unimplemented: not provided yet."""
        _parse_arg("set_zero_points", arg)
        _parse_mask("set_zero_points", mask)
        if zero_points is not None:
            many = (zero_points,) if is_scalar(zero_points) else zero_points
            parse_ints(many, "set_zero_points: zero_points")
        raise missing("zero points are")

    def get_zero_points(self, arg: int) -> None:
        """The zero points of an argument: none is set."""
        _parse_arg("get_zero_points", arg)

    def set_post_ops(self, post_ops: PostOps) -> None:
        """Take a copy of a post-op chain; later appends to the original have no effect (R08)."""
        if not isinstance(post_ops, PostOps):
            what, hint = f"set_post_ops: got {short_repr(post_ops)}", "make one with rs.PostOps()"
            raise InvalidArguments(what, why="it must be a PostOps", hint=hint)
        self._post_ops = post_ops.copy()

    def get_post_ops(self) -> PostOps:
        """A copy of the post-op chain."""
        return self._post_ops.copy()

    def set_scratchpad_mode(self, mode: str) -> None:
        """Who owns the scratchpad: `"library"` or `"user"` (R33)."""
        if not isinstance(mode, str) or mode not in SCRATCHPAD_MODES:
            what, hint = f"set_scratchpad_mode: mode is {short_repr(mode)}", "'library' is the default"
            raise InvalidArguments(what, why="it must be 'library' or 'user'", hint=hint)
        self._scratchpad = mode

    def get_scratchpad_mode(self) -> str:
        """`"library"` or `"user"`."""
        return self._scratchpad


def _parse_mask(call: str, mask: object) -> int:
    hint = "0 stands for the whole tensor"
    bits = parse_int(mask, f"{call}: mask", hint)
    if not 0 <= bits < 1 << 12:
        why = "bit i stands for dimension i of at most 12"
        raise InvalidArguments(f"{call}: mask is {short_repr(bits)}", why=why, hint=hint)
    return bits


def _parse_arg(call: str, arg: object) -> int:
    hint = "rs.ARG_SRC and rs.ARG_DST are such numbers"
    number = parse_int(arg, f"{call}: arg", hint)
    if number <= 0:
        why = "arguments are numbered from 1 (P14)"
        raise InvalidArguments(f"{call}: arg is {short_repr(number)}", why=why, hint=hint)
    return number


def _parse_groups(groups: object) -> tuple[int, ...]:
    sizes = parse_ints(groups, "set_scales: groups")
    for i, size in enumerate(sizes):
        if size < 1:
            what, hint = f"set_scales: groups[{i}] is {short_repr(size)}", "leave groups out for none"
            raise InvalidArguments(what, why="a group has at least 1 element", hint=hint)
    return sizes


def _parse_scales(call: str, scales: Any) -> list[float]:
    """One or more scales, each rounded to f32. The runtime placeholder is recognised by its bits (R24)."""
    if isinstance(scales, str | bytes | dict):
        what = f"{call}: scales is {short_repr(scales)}"
        raise InvalidArguments(what, why="scales are real numbers", hint="pass a number, or a list of them")
    many = [scales] if is_scalar(scales) else list(scales)
    if any(isinstance(value, float) and _is_runtime(value) for value in many):
        raise missing("scales that are passed at execution are")
    return [to_f32(value, f"{call}: scales[{i}]") for i, value in enumerate(many)]


def _is_runtime(value: float) -> bool:
    return value != value and int(np.float32(value).view(np.uint32)) == _RUNTIME_F32_BITS
