"""The extents of tensors of a network."""

from __future__ import annotations

Dims = tuple[int, ...]


def by(dims: Dims) -> str:
    """Dims as text: `1x64x56x56`."""
    return "x".join(map(str, dims)) or "scalar"
