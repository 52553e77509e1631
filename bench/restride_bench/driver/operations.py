"""All operations of the driver by their names. One more is a file in `primitives/`, and a line here."""

from __future__ import annotations

from .cases import Case
from .primitives.binary import BinaryCase
from .primitives.concat import ConcatCase
from .primitives.conv import ConvCase, DeconvCase
from .primitives.eltwise import EltwiseCase
from .primitives.inner_product import InnerProductCase
from .primitives.lrn import LrnCase
from .primitives.matmul import MatmulCase
from .primitives.normalization import BatchNormCase, GroupNormCase, LayerNormCase
from .primitives.pool import PoolCase
from .primitives.prelu import PReLUCase
from .primitives.reduction import ReductionCase
from .primitives.reorder import ReorderCase
from .primitives.resampling import ResamplingCase
from .primitives.rnn import RnnCase
from .primitives.shuffle import ShuffleCase
from .primitives.softmax import SoftmaxCase
from .primitives.sum import SumCase

_ALL: tuple[type[Case], ...] = (
    *(ReorderCase, ShuffleCase, ConcatCase, SumCase),
    *(EltwiseCase, BinaryCase, PReLUCase, PoolCase, LrnCase, ResamplingCase, SoftmaxCase, ReductionCase),
    *(BatchNormCase, LayerNormCase, GroupNormCase),
    *(ConvCase, DeconvCase, InnerProductCase, MatmulCase, RnnCase),
)
OPERATIONS = {each.driver: each for each in _ALL}

ABSENT = {
    "brgemm": "restride has no kernels for batches of small products; --matmul multiplies matrices",
    "graph": "networks are run by restride run and restride bench --networks",
    "sdpa": "restride has no primitive of attention",
    "self": "it tests benchdnn itself",
    "zeropad": "padding is zero in every result, and is checked in every test",
}
"""Drivers of benchdnn that are not here, and why."""
