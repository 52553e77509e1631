"""The opaque format of convolution weights for Winograd's algorithm.

Each window of taps becomes a window of `tile + taps - 1` numbers along each spatial dim
(`ops/programs/winograd.py`). These are the outermost dims, so that each matrix product uses one position of
all windows; then come blocks of outputs, inputs, and the outputs of a block. As a layout: `padded_dims` are
the transformed extents, and `dims` those of the weights, which can have one group dim in front.
"""

from __future__ import annotations

from math import prod

from .layout import BlockedLayout

TILES = {(3, 1): (2, 4), (3, 2): (2, 4), (5, 1): (2,), (5, 2): (2,)}
"""The size of a tile along each spatial dim, by taps and number of spatial dims."""


def winograd_layout(dims: tuple[int, ...], ndims: int, tile: int, block: int) -> BlockedLayout:
    """Return the layout of weights with this many spatial dims, for tiles of this size along each."""
    *groups, outputs, inputs = dims[:-ndims]
    padded = -(-outputs // block) * block
    window = [tile + n - 1 for n in dims[-ndims:]]
    matrix = padded * inputs
    strides = [prod(window[d + 1 :]) * matrix for d in range(ndims)]
    sizes = *groups, padded, inputs, *window
    steps = *(prod(sizes) for _ in groups), inputs * block, block, *strides
    return BlockedLayout(dims, sizes, steps, (block,), (len(groups),), (1,))


def winograd_tile(layout: BlockedLayout) -> tuple[int, ...]:
    """Return the size of a tile along each spatial dim."""
    sizes = zip(layout.padded_dims[2:], layout.dims[2:], strict=True)
    return tuple(padded - n + 1 for padded, n in sizes if padded != n)


def is_winograd(layout: BlockedLayout) -> bool:
    """Return True for a layout created by `winograd_layout`."""
    if not 3 <= len(layout.padded_dims) == len(layout.dims) or len(layout.inner_blks) != 1:
        return False
    tile, taps = winograd_tile(layout), layout.dims[-1]
    ndims, block = len(tile), layout.inner_blks[0]
    groups = layout.dims[: len(layout.dims) - 2 - ndims]
    fits = len(set(tile)) == 1 and tile[0] in TILES.get((taps, ndims), ()) and groups in ((), (1,))
    return fits and block > 0 and layout == winograd_layout(layout.dims, ndims, tile[0], block)
