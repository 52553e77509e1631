"""Attributes as a frozen value, by which primitives are found, and their text in verbose lines (R22–R33)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .factor import ARG_DST, ARG_MULTIPLE_SRC, ARG_SRC, Factor, common_scale, common_zero_point, is_neutral
from .post_ops import PostOp, SumOp, chain_str

Factors = tuple[tuple[int, Factor], ...]
_NAMES = {ARG_SRC: "src0", ARG_DST: "dst"}


@dataclass(frozen=True, slots=True)
class Compensation:
    """Sums of the quantised destination to write beside it, over the dims whose bits `mask` lacks (spec 2.4).

    `s8s8`: -128 times the sum, `zero_point`: -1 times it.
    """

    mask: int
    s8s8: bool = True
    zero_point: bool = False


@dataclass(frozen=True, slots=True)
class Attr:
    """Attributes as a frozen value (N1). `scales` and `zero_points` are sorted by argument number.

    `output_scales` are the scales of the source by their older name; there are never both.
    """

    output_scales: Factor | None = None
    scales: Factors = ()
    zero_points: Factors = ()
    post_ops: tuple[PostOp, ...] = ()
    scratchpad: str = "library"
    compensation: Compensation | None = None

    @classmethod
    def common(
        cls, alpha: float | None = None, zero_point: int | None = None, beta: float | None = None
    ) -> Attr:
        """One scale of the source, one zero point of the destination, one sum; None leaves it out.

        `alpha` and `beta` are f32 values. A scale of 1 and a zero point of 0 are left out as well.
        """
        scale = None if alpha is None else common_scale(alpha)
        shift = None if zero_point is None else common_zero_point(zero_point)
        return cls(
            None if is_neutral(scale) else scale,
            (),
            () if shift is None else without_neutral({ARG_DST: shift}),
            () if beta is None else (SumOp(beta),),
        )

    @property
    def alpha(self) -> float:
        """The output scale where it is one that is known, else 1."""
        factor = self.output_scales
        values = None if factor is None or factor.mask else factor.to_numpy()
        return 1.0 if values is None else float(values[0])

    @property
    def is_default(self) -> bool:
        """True where values are left as they are; the scratchpad mode does not matter (S14)."""
        has_factors = self.output_scales is not None or self.scales or self.zero_points
        return not (has_factors or self.post_ops or self.compensation)

    @property
    def has_shapes(self) -> bool:
        """True where an array of several dims gave values, whose shape is still to be checked."""
        own = () if self.output_scales is None else (self.output_scales,)
        return any(factor.shape for factor in (*own, *_held(self.scales), *_held(self.zero_points)))

    def without_shapes(self) -> Attr:
        """The same as runs of values: equal for arrays of any shape once that has been checked."""
        own = self.output_scales
        return replace(
            self,
            output_scales=None if own is None else replace(own, shape=()),
            scales=tuple((arg, replace(factor, shape=())) for arg, factor in self.scales),
            zero_points=tuple((arg, replace(factor, shape=())) for arg, factor in self.zero_points),
        )

    @property
    def sum(self) -> SumOp | None:
        """The one sum of the chain."""
        return next((op for op in self.post_ops if isinstance(op, SumOp)), None)

    def scale_of(self, arg: int) -> Factor | None:
        """What `scales` has for an argument. Output scales are not among them."""
        return next((factor for number, factor in self.scales if number == arg), None)

    def zero_point_of(self, arg: int) -> Factor | None:
        """What `zero_points` has for an argument."""
        return next((factor for number, factor in self.zero_points if number == arg), None)

    def verbose_str(self) -> str:
        """The attributes field of a verbose line: `attr-oscale:0:2 attr-post-ops:sum:0.5` (spec 1.6)."""
        parts = [f"attr-oscale:{_output_text(self.output_scales)}"] if self.output_scales else []
        parts += [f"attr-scales:{_factors_text(self.scales)}"] if self.scales else []
        parts += [f"attr-zero-points:{_factors_text(self.zero_points)}"] if self.zero_points else []
        parts += [f"attr-post-ops:{chain_str(self.post_ops)}"] if self.post_ops else []
        parts += [_compensation_text(self.compensation)] if self.compensation else []
        parts += ["attr-scratchpad:user"] if self.scratchpad == "user" else []
        return " ".join(parts)


def _held(factors: Factors) -> tuple[Factor, ...]:
    return tuple(factor for _, factor in factors)


def _compensation_text(wanted: Compensation) -> str:
    kinds = (("s8s8", wanted.s8s8), ("zp", wanted.zero_point))
    return "attr-compensation:" + "+".join(f"{name}:{wanted.mask}" for name, is_wanted in kinds if is_wanted)


def _output_text(factor: Factor) -> str:
    """The mask; the value of a common scale; `*` for scales that come at execution."""
    if factor.values is None:
        return f"{factor.mask}:*"
    values = factor.to_numpy()
    return str(factor.mask) if values is None or factor.mask else f"0:{float(values[0]):g}"


def _factors_text(factors: Factors) -> str:
    return "+".join(f"{_name(arg)}:{factor.verbose_str()}" for arg, factor in factors)


def _name(arg: int) -> str:
    return _NAMES.get(arg) or f"msrc{arg - ARG_MULTIPLE_SRC}"


def without_neutral(factors: dict[int, Factor]) -> Factors:
    """The factors by argument number; those that change nothing are left out."""
    return tuple(sorted((arg, factor) for arg, factor in factors.items() if not is_neutral(factor)))
