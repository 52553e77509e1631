"""Is an answer near enough to what a formula says? Thresholds for each type, and what may differ beyond them.

The rules are those of benchdnn: a relative difference below the threshold, an absolute one for values near 0;
and after post-ops, whose rounding nobody fixes, a little more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from restride import DataType

from .attr_text import Factors, PostOpTexts
from .fill import Array, rounded

_SMALL, _LEAST_NORMAL = 1e-5, 2.0**-126
_WITH_NAN = (DataType.f16, DataType.f8_e5m2, DataType.f8_e4m3)
_GIVING_NAN = ("exp", "log", "pow", "sqrt", "square", "div")
COMPARISONS = ("ge", "gt", "le", "lt", "eq", "ne")
_ARITHMETIC = ("add", "sub", "mul", "div")
# Below it lies the largest s32 that a float saturates to.
_LARGEST_S32, _LEAST_SATURATED = 2.0**31 - 1, 2.0**31 - 128


def epsilon(data_type: DataType) -> float:
    """The distance from 1 to the next number of a type; 0 for integers."""
    if data_type.is_integral or data_type is DataType.boolean:
        return 0.0
    return float(ml_dtypes.finfo(data_type.numpy).eps)


@dataclass(frozen=True, slots=True)
class Points:
    """Elements that differ: where they are, in logical order, what is exact, what is right once rounded,
    what there is, and how far apart the last two are.
    """

    index: Array
    exact: Array
    right: Array
    got: Array
    diff: Array
    rdiff: Array


Allowed = Callable[[Points], Array]
_USUAL_ZEROS = 30.0
_WITHOUT_SIGN = ("clip", "clip_v2", "elu", "relu")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerances: `threshold` of relative differences. `zeros`: the part of the elements, in
    percent, may be zero before an answer is mistrusted. `has_nan`: infinities and NaN are right where they
    are expected. `allows` says of elements that are too far off whether they will do nevertheless.
    """

    threshold: float = 0.0
    zeros: float = _USUAL_ZEROS
    has_nan: bool = False
    allows: Allowed | None = None
    post_ops: PostOpTexts = ()
    scales: Factors = ()

    def trusted_zeros(self, data_type: DataType) -> float:
        """The part of the elements that may be zero; more where negative values become zero."""
        is_cut = data_type is DataType.u8 or any(
            op.name == "abs" or (op.name.removesuffix("_dst") in _WITHOUT_SIGN and op.number(0, 0.0) == 0.0)
            for op in self.post_ops
        )
        percent = (100 + self.zeros) / 2 if is_cut and self.zeros == _USUAL_ZEROS else self.zeros
        return percent / 100


def points_of(got: Array, exact: Array, data_type: DataType) -> Points:
    """The elements that are not what is right, exactly."""
    flat, held = np.asarray(exact, np.float64).reshape(-1), got.reshape(-1)
    narrow = rounded(flat, data_type)
    index = np.flatnonzero(~(narrow == held.astype(narrow.dtype, copy=False)))
    flat, right, wide = flat[index], *(each[index].astype(np.float64) for each in (narrow, held))
    with np.errstate(all="ignore"):
        diff = np.abs(right - wide)
        rdiff = diff / np.where(np.abs(right) > _LEAST_NORMAL, np.abs(right), 1.0)
    return Points(index, flat, right, wide, diff, rdiff)


def are_near(points: Points, data_type: DataType, tolerance: Tolerance) -> Array:
    """True for each of the elements that is near enough."""
    with np.errstate(all="ignore"):
        size, diff, rdiff = np.abs(points.right), points.diff, points.rdiff
        ok = (size <= _SMALL) & (diff < epsilon(DataType.f32))
        ok |= np.where(size > _SMALL, rdiff, diff) <= tolerance.threshold
        if data_type.is_integral:
            ok |= np.isnan(points.exact) | _are_halves(points)
        elif data_type.bits <= 8:
            ok |= _are_beside(points, data_type)
        if data_type is DataType.s32:
            saturated = (points.got >= _LEAST_SATURATED) & (points.got < _LARGEST_S32)
            ok |= (points.right == _LARGEST_S32) & saturated
        ok |= _after_post_ops(points, data_type, tolerance)
        if tolerance.allows is not None:
            ok |= tolerance.allows(points)
    return np.asarray(ok, np.bool_)


def _are_halves(points: Points) -> Array:
    """Integers on either side of a number that ends in one half."""
    below = np.floor(points.exact)
    is_half = np.abs(below + 0.5 - points.exact) < 9e-6
    is_beside = (np.abs(points.got - points.right) == 1) & (np.abs(points.got - below - 0.5) == 0.5)
    return np.asarray(is_half & is_beside)


def _are_beside(points: Points, data_type: DataType) -> Array:
    """Floats of a byte or less that are next to a number on either side."""
    half = epsilon(data_type) / 2
    above, below = (rounded(points.exact + step, data_type).astype(np.float64) for step in (half, -half))
    found = ((points.got == above) & (points.right == below)) | (
        (points.got == below) & (points.right == above)
    )
    return np.asarray(found & (points.exact != points.right))


def _after_post_ops(points: Points, data_type: DataType, tolerance: Tolerance) -> Array:
    names = [op.name.removesuffix("_dst") for op in tolerance.post_ops]
    kinds = {op.kind for op in tolerance.post_ops}
    step, diff, rdiff = epsilon(data_type), points.diff, points.rdiff
    nan = tolerance.has_nan or data_type in _WITH_NAN or any(name in _GIVING_NAN for name in names)
    ok = np.zeros(diff.shape, np.bool_)
    if nan:
        ok |= np.isnan(points.right) & np.isnan(points.got)
    if "eltwise" in kinds:
        ok |= (diff <= max(step, 2e-5)) | (rdiff <= max(step, 8e-6))
    if any(scale.arg == "dst" and scale.data_type in ("", "f32") for scale in tolerance.scales):
        ok |= rdiff <= max(step, 1e-5)
    if nan and any(name in ("max", "min", *COMPARISONS) for name in names):
        ok |= True
    if any(name in _ARITHMETIC for name in names):
        ok |= diff <= {DataType.f16: 5e-3, DataType.f32: 4e-6}.get(data_type, 0.0)
        ok |= rdiff <= (1e-5 if data_type is DataType.f32 else 0.0)
    return ok
