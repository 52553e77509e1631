"""All drivers by their names. A driver for one more primitive is a file in `primitives/`, and a line here."""

from __future__ import annotations

from .cases import Case
from .driver import Driver
from .primitives.binary import BINARY_DRIVER
from .primitives.concat import CONCAT
from .primitives.conv import CONV, DECONV
from .primitives.eltwise import ELTWISE_DRIVER
from .primitives.inner_product import IP
from .primitives.lrn import LRN
from .primitives.matmul import MATMUL
from .primitives.normalization import BNORM, GNORM, LNORM
from .primitives.pool import POOL
from .primitives.prelu import PRELU
from .primitives.reduction import REDUCTION
from .primitives.reorder import REORDER
from .primitives.resampling import RESAMPLING
from .primitives.rnn import RNN
from .primitives.shuffle import SHUFFLE
from .primitives.softmax import SOFTMAX
from .primitives.sum import SUM

_ALL = (
    REORDER,
    SHUFFLE,
    CONCAT,
    SUM,
    ELTWISE_DRIVER,
    BINARY_DRIVER,
    PRELU,
    POOL,
    LRN,
    RESAMPLING,
    SOFTMAX,
    REDUCTION,
    BNORM,
    LNORM,
    GNORM,
    CONV,
    DECONV,
    IP,
    MATMUL,
    RNN,
)

ABSENT = {
    "brgemm": "restride has no kernels for batches of small products; --matmul multiplies matrices",
    "graph": "networks are run by restride run and restride bench --networks",
    "sdpa": "restride has no primitive of attention",
    "self": "it tests benchdnn itself",
    "zeropad": "padding is zero in every result, and is checked in every test",
}
"""Drivers of benchdnn that are not here, and why."""

DRIVERS: dict[str, Driver] = {each.case.driver: each for each in _ALL}


def driver_of(case: Case) -> Driver:
    """The driver of a case."""
    return DRIVERS[case.driver]
