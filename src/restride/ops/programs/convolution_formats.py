"""The formats in which kernels of convolutions are fast: channels along vectors, in blocks.

| case | window tensor x | weights | point tensor y |
| --- | --- | --- | --- |
| groups have one channel | `nChw16c` | `Goihw16g` | `nChw16c` |
| few channels of x, no groups, y is written | plain | `Ohwi16o` | `nChw16c` |
| the same, in packs of 4 | `nChw4c` | `OIhw16o4i` | `nChw16c` |
| x is channels last, no groups, more than one tap, y is written | channels last | `Ohwi16o` | `nChw16c` |
| gradients of weights, blocks do not divide channels of x | channels last | `Ohwi16o` | `nChw16c` |
| groups that blocks do not divide | channels last | channels of the result last | channels last |
| the same, in packs of 4 | channels last | `gOhwI16o4i` | channels last |
| else | `nChw16c` | `OIhw16i16o` | `nChw16c` |
| the same, in packs of 4 | `nChw16c` | `OIhw4i16o4i` | `nChw16c` |

A pack (`schedule/contraction/pack.py`) runs along the summed channels. The innermost block of weights is
along the channels of the result; that of their gradients, along those of y. Blocks are 16 if vectors have 64
bytes, else 8.
"""

from __future__ import annotations

from ...desc.memory_desc import MemoryDesc
from .convolution import ConvolutionExtents

_LETTERS = "abcdefghijkl"


def preferred_formats(
    relation: ConvolutionExtents, descs: dict[str, MemoryDesc], written: str, block: int, pack: int = 1
) -> dict[str, MemoryDesc]:
    """Return the descriptors of x, w and y in the formats that suit a kernel writing one of them."""
    return {
        name: MemoryDesc(md.dims, md.data_type, tag)
        for (name, md), tag in zip(descs.items(), _tags(relation, descs, written, block, pack), strict=True)
    }


def _tags(
    relation: ConvolutionExtents, descs: dict[str, MemoryDesc], written: str, block: int, pack: int
) -> tuple[str, str, str]:
    spatial = len(relation.dims)
    plain = _LETTERS[: 2 + spatial]
    blocked, last = f"aB{plain[2:]}{block}b", f"a{plain[2:]}b"
    if relation.is_depthwise and relation.groups > 1:
        return blocked, f"A{_LETTERS[1 : 3 + spatial]}{block}a", blocked
    channels = relation.window_channels, relation.point_channels
    if relation.groups > 1 and any(n % block for n in channels):
        return last, _weights_last(relation, written, block, pack), last
    if relation.groups == 1 and written == "w" and channels[0] % block:
        return last, _first_weights(relation, block, 1), blocked
    if relation.groups == 1 and channels[0] < block and written == "y":
        first = plain if pack == 1 else f"aB{plain[2:]}{pack}b"
        return first, _first_weights(relation, block, pack), blocked
    has_taps = any(dim.kernel > 1 for dim in relation.dims)
    if relation.groups == 1 and pack == 1 and written == "y" and descs["x"].tag == last and has_taps:
        # All channels of a tap are summed before the next tap, so that weights are read as one stream.
        return last, _first_weights(relation, block, pack), blocked
    return blocked, _blocked_weights(relation, written, block, pack), blocked


def _names(relation: ConvolutionExtents) -> tuple[str, str, str, str]:
    """Return the letters of groups, channels of y, channels of x and taps in weights."""
    letters = _LETTERS[: 2 + len(relation.dims) + relation.has_groups]
    group, rest = (letters[0], letters[1:]) if relation.has_groups else ("", letters)
    first, second, taps = rest[0], rest[1], rest[2:]
    return (group, first, second, taps) if relation.is_point_first else (group, second, first, taps)


def _blocked_weights(relation: ConvolutionExtents, written: str, block: int, pack: int) -> str:
    group, j, i, taps = _names(relation)
    # The outer dims are in the order of the letters.
    outer = "".join(sorted((j, i)))
    summed, result = (j, i) if written == "x" else (i, j)
    inner = f"{block}{summed}{block}{result}"
    if pack > 1:
        inner = f"{block // pack}{summed}{block}{result}{pack}{summed}"
    return f"{group}{outer.upper()}{taps}{inner}"


def _first_weights(relation: ConvolutionExtents, block: int, pack: int) -> str:
    group, j, i, taps = _names(relation)
    if pack > 1:
        return f"{group}{''.join(sorted((j, i))).upper()}{taps}{block}{j}{pack}{i}"
    return f"{group}{j.upper()}{taps}{i}{block}{j}"


def _weights_last(relation: ConvolutionExtents, written: str, block: int, pack: int) -> str:
    group, j, i, taps = _names(relation)
    summed, result = (j, i) if written == "x" else (i, j)
    if pack > 1:
        return f"{group}{result.upper()}{taps}{summed.upper()}{block}{result}{pack}{summed}"
    return f"{group}{taps}{summed}{result}"
