"""The algebra of layouts: CuTe's shapes and strides, linear layouts over F2, swizzles, and the cost of a
walk.

`Layout("((4,2),8):((1,16),2)")` is a value that can be composed, divided, inverted, printed and drawn.
Layouts can be converted from and to descriptors, NumPy strides and einops patterns. Nothing here moves data.
"""

from .accesses import Accesses, bank_conflicts, cache_lines, coalescing
from .conversions import from_array, from_desc, from_einops, to_desc, to_einops, to_strides
from .layout import Layout, from_offsets
from .linear import ComposedLayout, LinearLayout, Swizzle

__all__ = [
    "Accesses",
    "ComposedLayout",
    "Layout",
    "LinearLayout",
    "Swizzle",
    "bank_conflicts",
    "cache_lines",
    "coalescing",
    "from_array",
    "from_desc",
    "from_einops",
    "from_offsets",
    "to_desc",
    "to_einops",
    "to_strides",
]


def __dir__() -> list[str]:
    return sorted(__all__)
