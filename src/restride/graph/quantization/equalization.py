"""Channels of tensors that are made alike in size: what one byte has to hold of all of them.

    y = layer(x) * 1/f, per output      z = next layer(relu y), its weights times f, per source channel

So it is behind layers and norms, where nobody but layers sees the tensor, and functions between that keep
factors: relu, and moves of windows. f of a channel: its largest number over the root of what that and the
largest weight that reads it bring together, so that both sides get half of the difference.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ..graph import Graph, Node
from ..nodes.layers import BatchNormalizationOperation, LayerNormalizationOperation, PoolingOperation
from ..nodes.moves import ReshapeOperation
from ..nodes.operations import EltwiseOperation
from ..nodes.products import ConvolutionOperation, MatmulOperation
from ..rewrites.draft import Array
from .calibration import Calibration

__all__ = ["balances"]

Balances = Mapping[tuple[str, int], tuple[int, Array]]
_NORMS = (BatchNormalizationOperation, LayerNormalizationOperation)


def balances(calibration: Calibration, layers: Collection[str]) -> Balances:
    """What weights, biases, scales and shifts are multiplied with: as `Recipe.balances`."""
    return {}
