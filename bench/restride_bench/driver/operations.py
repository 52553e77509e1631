"""All operations of the driver by name. One more is a class of cases in `primitives/`, and a word here."""

from __future__ import annotations

from .cases import Case
from .primitives import attention, elements, graphs, moves, normalization, products, rnn, windows

_ALL: tuple[type[Case], ...] = (
    *(moves.ReorderCase, moves.ShuffleCase, moves.ConcatCase, moves.SumCase),
    *(elements.EltwiseCase, elements.BinaryCase, elements.PReLUCase),
    *(windows.PoolCase, windows.LrnCase, windows.ResamplingCase),
    *(elements.SoftmaxCase, elements.ReductionCase),
    *(normalization.BatchNormCase, normalization.LayerNormCase, normalization.GroupNormCase),
    *(products.ConvCase, products.DeconvCase, products.InnerProductCase, products.MatmulCase),
    *(rnn.RnnCase, attention.SdpaCase, graphs.GraphCase),
)
OPERATIONS = {each.driver: each for each in _ALL}
ABSENT = {
    "brgemm": "restride has no kernels for batches of small products; --matmul multiplies matrices",
    "self": "it tests benchdnn itself",
    "zeropad": "padding is zero in every result, and is checked in every test",
}
"""Drivers of benchdnn that are not here, and why."""
