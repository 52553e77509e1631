"""Attributes as the peers of the standing benchmark know them."""

from __future__ import annotations

from ..arithmetic import PeerArithmetic
from ..peer import PeerRefusal
from .attr_text import Factors, FactorText, PostOpTexts
from .cases import Case
from .primitives.reorder import ReorderCase

_SCALE = 0.5  # about which the scales along a dim lie
_INTEGERS = ("s32", "s8", "u8")


def arithmetic_of(case: ReorderCase) -> PeerArithmetic:
    """What a reorder computes on its way. Raises PeerRefusal for what peers are not asked.

    Scales along a dim are as many as the case has, with other values.
    """
    scale, axis = _source_scale(_of(case.attr_scales, "src"))
    dst_scale = _of(case.attr_scales, "dst")
    if dst_scale is not None and dst_scale.value is not None:
        raise PeerRefusal("of scales of the destination, peers are asked for those along one dim")
    dst_axis = None if dst_scale is None else _axis(dst_scale)
    return PeerArithmetic(scale, axis, _zero_point(case), _beta(case.attr_post_ops), dst_axis)


def is_comparable(case: Case) -> bool:
    """True where the bits of an answer say something: scales are the same, and nothing is accumulated."""
    return not isinstance(case, ReorderCase) or arithmetic_of(case).is_plain


def _of(factors: Factors, arg: str) -> FactorText | None:
    strange = [factor for factor in factors if factor.arg not in ("src", "dst") or factor.groups]
    if strange:
        raise PeerRefusal(f"peers are not asked for {strange[0]}")
    return next((factor for factor in factors if factor.arg == arg), None)


def _source_scale(factor: FactorText | None) -> tuple[float | None, int | None]:
    if factor is None:
        return None, None
    return (factor.value, None) if factor.value is not None else (_SCALE, _axis(factor))


def _axis(factor: FactorText) -> int:
    bits = factor.mask(12)
    if bits.bit_count() != 1:
        raise PeerRefusal("of scales, peers are asked for one, or those along one dim")
    return bits.bit_length() - 1


def _zero_point(case: ReorderCase) -> int:
    """One zero point: of the destination where that is of integers, else of the source."""
    wanted = "dst" if case.ddt in _INTEGERS else "src"
    factors = case.attr_zero_points
    if any(factor.arg != wanted or factor.value is None for factor in factors):
        raise PeerRefusal(
            "of zero points, peers are asked for one, of the destination where that is of integers"
        )
    return int(factors[0].value or 0) if factors else 0


def _beta(post_ops: PostOpTexts) -> float:
    if not post_ops:
        return 0.0
    if len(post_ops) > 1 or post_ops[0].name != "sum" or len(post_ops[0].fields) > 1:
        raise PeerRefusal("of post-ops, peers are asked for one sum with a scale")
    return post_ops[0].number(0, 1.0)
