"""The ggml blocks whose elements or scales are bit fields, each a row of a table."""

from __future__ import annotations

from ..dtypes import DataType
from .packed_blocks import BitField, BitNumbers, PackedBlocks

# Bit positions: of elements i and i + 16, which share a byte; in the K quants, of two groups of 64, of four
# of 128, and of one bit of each byte for every 32.
_NIBBLES = ((2, 4), (16, 8))
_OF_64, _OF_128, _BIT_PLANES = ((4, 256), (2, 4), (32, 8)), ((2, 256), (4, 2), (32, 8)), ((8, 1), (32, 8))
_IN_BYTES = ((16, 8),)
# Eight scales and eight minima of 6 bits in 12 bytes: four of each are stored whole; for the others, the low
# halves are together and the two high bits are above the first four.
_SIX_BITS = BitNumbers((BitField(32, 4, ((2, 64), (4, 8))), BitField(36, 2, ((2, 2), (4, 8)))))
_SIX_BITS_OF_MINIMA = BitNumbers((BitField(64, 4, ((2, 36), (4, 8))), BitField(68, 2, ((2, 2), (4, 8)))))
_IQ4_NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_ROWS = (
    PackedBlocks("iq4_nl", 18, BitNumbers((BitField(16, 4, _NIBBLES),), table=_IQ4_NL)),
    PackedBlocks("q5_0", 22, BitNumbers((BitField(48, 4, _NIBBLES), BitField(16, 1, ((32, 1),))), 16)),
    PackedBlocks(
        "q5_1", 24, BitNumbers((BitField(64, 4, _NIBBLES), BitField(32, 1, ((32, 1),)))), minimum_at=2
    ),
    PackedBlocks(
        "q2_k",
        84,
        BitNumbers((BitField(128, 2, _OF_128),)),
        scale_at=80,
        scales=BitNumbers((BitField(0, 4, _IN_BYTES),)),
        minimum_at=82,
        minima=BitNumbers((BitField(4, 4, _IN_BYTES),)),
    ),
    PackedBlocks(
        "q3_k",
        110,
        BitNumbers((BitField(256, 2, _OF_128), BitField(0, 1, _BIT_PLANES)), 4),
        scale_at=108,
        scales=BitNumbers((BitField(768, 4, ((2, 4), (8, 8))), BitField(832, 2, ((4, 2), (4, 8)))), 32),
    ),
    PackedBlocks(
        "q4_k",
        144,
        BitNumbers((BitField(128, 4, _OF_64),)),
        scales=_SIX_BITS,
        minimum_at=2,
        minima=_SIX_BITS_OF_MINIMA,
    ),
    PackedBlocks(
        "q5_k",
        176,
        BitNumbers((BitField(384, 4, _OF_64), BitField(128, 1, _BIT_PLANES))),
        scales=_SIX_BITS,
        minimum_at=2,
        minima=_SIX_BITS_OF_MINIMA,
    ),
    PackedBlocks(
        "q6_k",
        210,
        BitNumbers((BitField(0, 4, ((2, 512), (2, 4), (64, 8))), BitField(1024, 2, _OF_128)), 32),
        scale_at=208,
        scales=BitNumbers((BitField(1536, 8, _IN_BYTES),)),
    ),
    PackedBlocks(
        "q8_k", 292, BitNumbers((BitField(32, 8, ((256, 8),)),)), scale_type=DataType.f32, sums_at=260
    ),
)

GGML_BLOCKS = {blocks.name: blocks for blocks in _ROWS}
"""The blocks by name."""
