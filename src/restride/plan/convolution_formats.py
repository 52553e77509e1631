"""The formats in which kernels of convolutions are fast: channels along vectors, in blocks.

| case | window tensor x | weights | point tensor y |
| --- | --- | --- | --- |
| channels of groups are 1 | `nChw16c` | `Goihw16g` | `nChw16c` |
| few channels of x, no groups, y is written | plain | `Ohwi16o` | `nChw16c` |
| groups that blocks do not divide | channels last | channels of what is written last | channels last |
| else | `nChw16c` | `OIhw16i16o` | `nChw16c` |

Of weights the innermost block is along the channels of what is written; of their gradients, along those of y.
Blocks are 16 where vectors have 64 bytes, else 8.
"""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from .convolution import Relation

_LETTERS = "abcdefghijkl"


def preferred_formats(
    relation: Relation, descs: dict[str, MemoryDesc], written: str, block: int
) -> dict[str, MemoryDesc]:
    """The descriptors of x, w and y in the formats that suit a kernel which writes one of them."""
    return {
        name: MemoryDesc(md.dims, md.data_type, tag)
        for (name, md), tag in zip(descs.items(), _tags(relation, written, block), strict=True)
    }


def _tags(relation: Relation, written: str, block: int) -> tuple[str, str, str]:
    spatial = len(relation.dims)
    plain = _LETTERS[: 2 + spatial]
    blocked, last = f"aB{plain[2:]}{block}b", f"a{plain[2:]}b"
    if relation.is_depthwise and relation.groups > 1:
        return blocked, f"A{_LETTERS[1 : 3 + spatial]}{block}a", blocked
    channels = relation.window_channels, relation.point_channels
    if relation.groups > 1 and any(n % block for n in channels):
        return last, _weights_last(relation, written), last
    if relation.groups == 1 and channels[0] < block and written == "y":
        return plain, _first_weights(relation, block), blocked
    return blocked, _blocked_weights(relation, written, block), blocked


def _names(relation: Relation) -> tuple[str, str, str, str]:
    """The letters of groups, channels of y, channels of x and taps in weights."""
    letters = _LETTERS[: 2 + len(relation.dims) + relation.has_groups]
    group, rest = (letters[0], letters[1:]) if relation.has_groups else ("", letters)
    first, second, taps = rest[0], rest[1], rest[2:]
    return (group, first, second, taps) if relation.is_point_first else (group, second, first, taps)


def _blocked_weights(relation: Relation, written: str, block: int) -> str:
    group, j, i, taps = _names(relation)
    # The order of the outer dims is that of the letters.
    outer = "".join(sorted((j, i)))
    inner = f"{block}{j}{block}{i}" if written == "x" else f"{block}{i}{block}{j}"
    return f"{group}{outer.upper()}{taps}{inner}"


def _first_weights(relation: Relation, block: int) -> str:
    group, j, i, taps = _names(relation)
    return f"{group}{j.upper()}{taps}{i}{block}{j}"


def _weights_last(relation: Relation, written: str) -> str:
    group, j, i, taps = _names(relation)
    return f"{group}{taps}{j}{i}" if written == "x" else f"{group}{taps}{i}{j}"
