"""Execution argument numbers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from ..errors import refuse
from .parse import parse_int, short_repr
from .post_op_values import MAX_POST_OPS

ARG_SRC = ARG_SRC_0 = ARG_FROM = ARG_SRC_LAYER = 1
ARG_SRC_1 = ARG_SRC_ITER = 2
ARG_SRC_2 = ARG_SRC_ITER_C = 3
ARG_SRC_3 = 4
ARG_DST = ARG_DST_0 = ARG_TO = ARG_DST_LAYER = 17
ARG_DST_1 = ARG_DST_ITER = 18
ARG_DST_2 = ARG_DST_ITER_C = 19
ARG_WEIGHTS = ARG_WEIGHTS_LAYER = 33
ARG_WEIGHTS_ITER = 34
ARG_BIAS = 41
ARG_MEAN = 49
ARG_VARIANCE = 50
ARG_SCALE = 51
ARG_SHIFT = 52
ARG_WORKSPACE = 64
ARG_SCRATCHPAD = 80
ARG_DIFF_SRC = ARG_DIFF_SRC_LAYER = 129
ARG_DIFF_SRC_1 = ARG_DIFF_SRC_ITER = 130
ARG_DIFF_SRC_ITER_C = 131
ARG_DIFF_DST = ARG_DIFF_DST_LAYER = 145
ARG_DIFF_DST_ITER = 146
ARG_DIFF_DST_ITER_C = 147
ARG_DIFF_WEIGHTS = ARG_DIFF_WEIGHTS_LAYER = 161
ARG_DIFF_WEIGHTS_ITER = 162
ARG_DIFF_BIAS = 169
ARG_DIFF_SCALE = 255
ARG_DIFF_SHIFT = 256
ARG_ATTR_ROUNDING_SEED = 508
ARG_ATTR_OUTPUT_SCALES = 513
ARG_MULTIPLE_SRC = 1024
ARG_MULTIPLE_DST = 2048
ARG_ATTR_SCALES = 4096
ARG_ATTR_ZERO_POINTS = 8192
ARG_ATTR_POST_OP_DW = 16384
_ARG_ATTR_MULTIPLE_POST_OP_BASE = 32768


def arg_attr_multiple_post_op(index: int) -> int:
    """Return the argument number of the operand of post-op `index` (`DNNL_ARG_ATTR_MULTIPLE_POST_OP`)."""
    number = parse_int(index, "arg_attr_multiple_post_op: index")
    if 0 <= number < MAX_POST_OPS:
        return _ARG_ATTR_MULTIPLE_POST_OP_BASE * (number + 1)
    raise refuse("RS-V05:index", number=short_repr(number), max_post_ops=MAX_POST_OPS)


_NAMED = [(name, value) for name, value in globals().items() if name.startswith("ARG_")]
NAMES: dict[object, str] = {value: name for name, value in reversed(_NAMED)}
"""The constant of each number; the first, if several have the same number."""
NUMBERS: Mapping[str, int] = {name.removeprefix("ARG_").lower(): value for name, value in _NAMED}
"""The number of each lower-case name: `src_layer`, `weights`."""
Arg = IntEnum(  # type: ignore[misc]  # its stub is onednn.pyi
    "Arg", {name.removeprefix("ARG_"): value for name, value in _NAMED}, module=__name__
)
Arg.__doc__ = """Execution arguments: `Arg.SRC` is `DNNL_ARG_SRC` and equals its number."""
_OF_NETWORKS = ("_LAYER", "_ITER", "_ITER_C")
NETWORK_NAMES: dict[object, str] = {
    **NAMES,
    **{value: name for name, value in _NAMED if name.endswith(_OF_NETWORKS)},
}
"""The same for recurrent networks: `ARG_DST_ITER` instead of `ARG_DST_1`."""


def is_output(arg: int) -> bool:
    """Return True for the numbers of outputs: destinations, and gradients except those of a destination.

    Workspace and scratchpad are not outputs: a primitive may read the former, and leaves nothing in the
    latter.
    """
    is_gradient = 129 <= arg < 145 or 161 <= arg < 177 or arg in (255, 256)
    return 17 <= arg < 33 or is_gradient or ARG_MULTIPLE_DST <= arg < ARG_ATTR_SCALES


def spelled(arg: int, prefix: str = "ARG_", names: Mapping[object, str] = NAMES) -> str:
    """Spell a number by its constants: `ARG_DST`, `ARG_ATTR_SCALES | ARG_SRC`, or with another prefix.

    A number without a name stays a number. `names`: the constants that a primitive uses.
    """
    if arg in names:
        return prefix + names[arg].removeprefix("ARG_")
    if ARG_MULTIPLE_SRC < arg < ARG_MULTIPLE_DST:
        return f"{prefix}MULTIPLE_SRC + {arg - ARG_MULTIPLE_SRC}"
    for flag in (ARG_ATTR_SCALES, ARG_ATTR_ZERO_POINTS, ARG_ATTR_POST_OP_DW):
        rest = spelled(arg ^ flag, prefix, names) if arg & flag else ""
        if rest and rest != str(arg ^ flag):
            return f"{spelled(flag, prefix)} | {rest}"
    post_op, of = divmod(arg, _ARG_ATTR_MULTIPLE_POST_OP_BASE)
    if post_op > 0 and of in names:
        start = prefix.removesuffix("Arg.").removesuffix("ARG_")
        function = f"{start}arg_attr_multiple_post_op({post_op - 1})"
        return f"{function} | {spelled(of, prefix, names)}"
    return str(arg)


def short_name(arg: int, names: Mapping[object, str] = NAMES) -> str:
    """Return the name for errors and verbose lines: `src`, `diff_dst`, `attr_post_op_dw_weights`."""
    return spelled(arg, names=names).replace(" | ", "_").replace("ARG_", "").lower()


def name_of(arg: object, names: Mapping[object, str] = NAMES) -> str:
    """Return the number with its name, for messages: `17 (ARG_DST)`."""
    # Python refuses to print an int of thousands of digits.
    if not isinstance(arg, int) or isinstance(arg, bool) or not 0 < arg < 2**31:
        return short_repr(arg)
    name = spelled(arg, names=names)
    return name if name == str(arg) else f"{arg} ({name})"
