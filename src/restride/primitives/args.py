"""Execution argument numbers (P14)."""

from __future__ import annotations

from ..desc.parse import short_repr

ARG_SRC = ARG_SRC_0 = ARG_FROM = 1
ARG_SRC_1 = 2
ARG_SRC_2 = 3
ARG_SRC_3 = 4
ARG_DST = ARG_DST_0 = ARG_TO = 17
ARG_DST_1 = 18
ARG_DST_2 = 19
ARG_WEIGHTS = 33
ARG_BIAS = 41
ARG_MEAN = 49
ARG_VARIANCE = 50
ARG_SCALE = 51
ARG_SHIFT = 52
ARG_WORKSPACE = 64
ARG_SCRATCHPAD = 80
ARG_DIFF_SRC = 129
ARG_DIFF_DST = 145
ARG_DIFF_WEIGHTS = 161
ARG_DIFF_BIAS = 169
ARG_ATTR_ROUNDING_SEED = 508
ARG_ATTR_OUTPUT_SCALES = 513
ARG_MULTIPLE_SRC = 1024
ARG_MULTIPLE_DST = 2048
ARG_ATTR_SCALES = 4096
ARG_ATTR_ZERO_POINTS = 8192
ARG_ATTR_POST_OP_DW = 16384
_ARG_ATTR_MULTIPLE_POST_OP_BASE = 32768


def arg_attr_multiple_post_op(index: int) -> int:
    """The argument number of the operand of post-op `index` (`DNNL_ARG_ATTR_MULTIPLE_POST_OP`)."""
    return _ARG_ATTR_MULTIPLE_POST_OP_BASE * (index + 1)


_NAMED = [(name, value) for name, value in globals().items() if name.startswith("ARG_")]
# Of names with the same number, the first.
NAMES: dict[object, str] = {value: name for name, value in reversed(_NAMED)}


def name_of(arg: object) -> str:
    """The number with its name, for messages: `17 (ARG_DST)`, `1026 (ARG_MULTIPLE_SRC + 2)`."""
    if not isinstance(arg, int):
        return short_repr(arg)
    scale = arg - ARG_ATTR_SCALES
    for name, first in (("ARG_MULTIPLE_SRC", arg), ("ARG_ATTR_SCALES | ARG_MULTIPLE_SRC", scale)):
        if ARG_MULTIPLE_SRC < first < ARG_MULTIPLE_DST:
            return f"{arg} ({name} + {first - ARG_MULTIPLE_SRC})"
    return f"{arg} ({NAMES[arg]})" if arg in NAMES else short_repr(arg)
