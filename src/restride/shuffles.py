"""Placeholder: channel shuffling on NumPy arrays."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np


def shuffle_channels(x: Any, *, group: int = 1, axis: int = 1, out: Any = None) -> Any:
    """OpenVINO's ShuffleChannels-1 on an array."""
    array = np.asarray(x)
    at = axis % array.ndim
    view = array.reshape(prod(array.shape[:at]), group, array.shape[at] // group, prod(array.shape[at + 1 :]))
    made = view.transpose(0, 2, 1, 3).reshape(array.shape)
    if out is None:
        return made
    out[...] = made
    return out
