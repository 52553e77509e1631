"""What a benchmark row computes on its way: factors, and the formula of N1 in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_F32_BELOW_2_31 = 2147483520


@dataclass(frozen=True)
class PeerArithmetic:
    """`scale` of the source, common or one for each index of `axis`.

    `zero_point` is of the destination where that is of integers, else of the source.
    `beta` weighs the old destination; `dst_axis` gives the destination scales of its own, one for each index.
    """

    scale: float | None = None
    axis: int | None = None
    zero_point: int = 0
    beta: float = 0.0
    dst_axis: int | None = None

    @property
    def is_plain(self) -> bool:
        """True where a common scale is all there is."""
        return self == PeerArithmetic(self.scale)

    def scales(self, dims: tuple[int, ...]) -> Array:
        """The scales of the source, f32, to broadcast."""
        assert self.scale is not None
        return spread(np.float32(self.scale), self.axis, dims)

    def dst_scales(self, dims: tuple[int, ...]) -> Array:
        """The scales of the destination."""
        return spread(np.float32(0.75), self.dst_axis, dims)

    def apply(
        self, values: Array, old: Array, dtype: np.dtype[Any], scales: Array, dst_scales: Array
    ) -> Array:
        """`values` become those of `dtype`, rounded half to even and saturated (N1 to N3)."""
        is_integral = dtype.kind in "iu"
        if self == PLAIN and values.dtype.kind in "iu":
            return _to_integers(values.astype(np.int64), dtype) if is_integral else values.astype(dtype)
        t = values.astype(np.float32)
        if self.zero_point and not is_integral:
            t -= np.float32(self.zero_point)
        if self.scale is not None:
            t *= scales
        if self.beta:
            t += np.float32(self.beta) * old.astype(np.float32)
        if self.dst_axis is not None:
            t *= np.float32(1) / dst_scales
        if not is_integral:
            return t.astype(dtype)
        return _to_integers(np.rint(t + np.float32(self.zero_point)), dtype)

    def __str__(self) -> str:
        """What the row's name says of it."""
        said = [f"scale per dim {self.axis}"] if self.axis is not None else []
        said += [f"dst scale per dim {self.dst_axis}"] if self.dst_axis is not None else []
        said += [f"zero point {self.zero_point}"] if self.zero_point else []
        said += [f"sum {self.beta:g}"] if self.beta else []
        return ", ".join(said)


def spread(value: np.float32, axis: int | None, dims: tuple[int, ...]) -> Array:
    """One value for all; or near it, one for each index of an axis, with extent 1 elsewhere."""
    if axis is None:
        return np.full((1,) * len(dims), value)
    each = value * (1 + np.arange(dims[axis], dtype=np.float32) % 8 / 8)
    return each.reshape([-1 if i == axis else 1 for i in range(len(dims))])


def _to_integers(values: Array, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    high = limits.max if values.dtype.kind in "iu" else min(limits.max, _F32_BELOW_2_31)
    return np.clip(values, limits.min, high).astype(dtype)


def mask_of(axis: int | None) -> int:
    """The mask of an attribute."""
    return 0 if axis is None else 1 << axis


PLAIN = PeerArithmetic()
