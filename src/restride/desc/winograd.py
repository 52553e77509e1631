"""The opaque format of convolution weights that Winograd's algorithm multiplies.

Each window of taps becomes a window of `tile + taps - 1` numbers along each spatial dim
(`ops/programs/winograd.py`). The outermost dims are those, so that a product of matrices has one place of all
windows; then come blocks of outputs, inputs, and the outputs of a block. As a layout: `padded_dims` are the
transformed extents, and `dims` those of the weights.
"""

from __future__ import annotations

from math import prod

from .layout import Layout

TILES = {(3, 1): (2, 4), (3, 2): (2, 4), (5, 1): (2,), (5, 2): (2,)}
"""By taps and the number of spatial dims, the points of a tile along each of these."""


def winograd_layout(dims: tuple[int, ...], tile: int, block: int) -> Layout:
    """The layout of (outputs, inputs, taps, ...) for tiles of so many points along each spatial dim."""
    outputs, inputs, *taps = dims
    padded = -(-outputs // block) * block
    window = [tile + n - 1 for n in taps]
    matrix = padded * inputs
    strides = [prod(window[d + 1 :]) * matrix for d in range(len(window))]
    sizes = padded, inputs, *window
    return Layout(dims, sizes, (inputs * block, block, *strides), (block,), (0,), (1,))


def winograd_tile(layout: Layout) -> int:
    """The points of a tile along each spatial dim."""
    return layout.padded_dims[-1] - layout.dims[-1] + 1


def is_winograd(layout: Layout) -> bool:
    """True where a layout is one that `winograd_layout` makes."""
    taps = layout.dims[2:]
    if len(set(taps)) != 1 or len(layout.inner_blks) != 1 or len(layout.padded_dims) != len(layout.dims):
        return False
    tile, block = winograd_tile(layout), layout.inner_blks[0]
    fits = tile in TILES.get((taps[0], len(taps)), ())
    return fits and block > 0 and layout == winograd_layout(layout.dims, tile, block)
