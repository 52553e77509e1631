"""alpha and beta of a call: checked, rounded to f32, and kept where kernels read them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..desc.attr import Attr
from ..desc.parse import short_repr
from ..desc.real import to_f32
from ..errors import InvalidArguments
from ..runtime.cpu import packed_address, packer


class Applied:
    """The factors of `dst = alpha * src + beta * dst` as f32 values; 1 and 0 change nothing (N1).

    `params` is the address where kernels read them, good for as long as this lives.
    """

    __slots__ = ("_params", "alpha", "beta", "is_scaled", "is_summed", "params")

    def __init__(self, alpha: float, beta: float) -> None:
        self.alpha, self.beta = alpha, beta
        self.is_scaled, self.is_summed = alpha != 1.0, beta != 0.0
        factors = [f for f, none in ((alpha, 1.0), (beta, 0.0)) if f != none]
        self._params = packer(0, len(factors))(*factors)
        self.params = packed_address(self._params)

    def attr(self) -> Attr:
        """As attributes of a primitive."""
        return Attr.common(self.alpha, beta=self.beta if self.is_summed else None)


COPY = Applied(1.0, 0.0)


def parse_factors(scale: Any, beta: Any) -> Applied:
    """`scale` (None: 1) and `beta` of a call.

    Raises InvalidArguments for what is no number.
    """
    alpha = 1.0 if scale is None else _parse(scale, "scale")
    weight = _parse(beta, "beta")
    # -0.0 equals 0.0 as a key but not as a factor.
    return _kept(alpha, weight) if alpha else Applied(alpha, to_f32(weight, "reorder: beta"))


@lru_cache(maxsize=256)
def _kept(alpha: float, beta: float) -> Applied:
    return Applied(to_f32(alpha, "reorder: scale"), to_f32(beta, "reorder: beta"))


def _parse(value: Any, name: str) -> float:
    if type(value) is float:
        return value
    if not _is_scalar(value):
        raise _refused(value, name)
    return to_f32(value, f"reorder: {name}")


def _is_scalar(value: Any) -> bool:
    try:
        return np.ndim(value) == 0
    except Exception:
        return False


def _refused(value: Any, name: str) -> InvalidArguments:
    return InvalidArguments(
        f"reorder: {name} is no number",
        code="RS-V02",
        where=f"{name} {short_repr(value)}",
        why=f"{name} is one real number for the whole tensor; this is {type(value).__name__}",
        hint="pass a Python or NumPy scalar",
    )
