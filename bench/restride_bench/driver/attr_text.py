"""Attributes as the command line writes them: scales, zero points, post-ops, compensation.

Each value prints as it is written, so that a reproducer line gives the same case again.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from restride.cli.usage import UsageError, wrong_usage
from restride.desc.post_op_values import BINARY, ELTWISE, ELTWISE_OF_DST

TYPES = (
    *("f64", "f32", "bf16", "f16", "f8_e5m2", "f8_e4m3", "e8m0", "f4_e2m1", "f4_e3m0", "nf4"),
    *("s64", "s32", "s16", "s8", "s4", "s2", "u64", "u32", "u16", "u8", "u4", "u2", "boolean", "undef"),
)
"""The data types that batch files name, restride's own or not."""
_ARG = re.compile(r"(src|dst|wei|bia|src[0-9]+|msrc[0-9]+|attr_post_op_dw_(wei|dst))\Z")
_POLICY = re.compile(r"(common|host_scalar|per_tensor|per_oc|per_ocic|per_dim_[0-9]+|[0-9]{1,4})\Z")
COMPUTED = ("mx", "dynamic_fp")
"""Policies of scales that the primitive is to find."""
_ONE_VALUE = re.compile(r"(common|host_scalar|0+)\Z")
# A plus sign separates arguments, but not a number from its exponent.
_SUMMED = re.compile(r"(?<![0-9.]e)\+")
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}\Z")
STRIDES = re.compile(r"([0-9]{1,18}(x[0-9]{1,18})*)?\Z")
_GROUPS = re.compile(r"[1-9][0-9]{0,9}(x[1-9][0-9]{0,9})*\Z")
OF_DST = {name.replace("_use_dst_for_bwd", "_dst"): name for name in ELTWISE_OF_DST}
"""The functions whose gradient is found from the result, by benchdnn's names, as restride names them."""
ELTWISE_NAMES = {
    **{spelled: name for name in ELTWISE for spelled in (name, f"eltwise_{name}")},
    "srelu": "soft_relu",
    **{name: name for name in OF_DST},
    **{f"eltwise_{name}": short for short, name in OF_DST.items()},
}
"""The functions by all the names that benchdnn takes, in small letters, and their names here."""
BINARY_NAMES = {spelled: name for name in (*BINARY, "select") for spelled in (name, f"binary_{name}")}
"""The binary operations, likewise."""
_POST_OPS = {
    **{name: name for name in ("sum", "prelu", "dw", "eltwise_undef", "binary_undef")},
    **ELTWISE_NAMES,
    **BINARY_NAMES,
}
_WINDOW = re.compile(r"k([1-9][0-9]{0,3})s([1-9][0-9]{0,3})p([0-9]{1,4})\Z")


def number_text(value: float) -> str:
    """A number in its shortest spelling that reads back: `2`, `0.25`, `4294967295`."""
    if value == value and abs(value) < 2**63 and value == int(value):
        return str(int(value))
    # A plus sign stands between the parts of an attribute.
    return repr(value).replace("e+", "e")


@dataclass(frozen=True, slots=True)
class FactorText:
    """The scales or zero points of one argument: `src:common:0.25`, `src:per_tensor:bf16:8x1`.

    `value` is there for the policies `common` and `host_scalar` only, which are one; the values of the others
    are made up when the case is run.
    """

    arg: str
    policy: str
    value: float | None = None
    data_type: str = ""
    groups: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [self.arg, self.policy]
        parts += [] if self.value is None else [number_text(self.value)]
        parts += [self.data_type] if self.data_type else []
        parts += ["x".join(map(str, self.groups))] if self.groups else []
        return ":".join(parts)

    def mask(self, ndims: int) -> int:
        """Bit i for dim i. `per_oc` is dim 1, as for a source or destination of activations."""
        if self.policy == "per_tensor":
            return (1 << ndims) - 1
        if self.policy.isdigit():
            return int(self.policy)
        if self.policy.startswith("per_dim_"):
            return sum(1 << int(digit) for digit in set(self.policy.removeprefix("per_dim_")))
        return {"per_oc": 2, "per_ocic": 3}.get(self.policy, 0)


Factors = tuple[FactorText, ...]


def parse_scales(text: str) -> Factors:
    """`src:per_dim_1+dst:common:2`; nothing for none. Raises UsageError."""
    return _parse_factors("--attr-scales", text, is_whole=False)


def parse_zero_points(text: str) -> Factors:
    """`src:common:-1+dst:common:2`; nothing for none. Raises UsageError."""
    return _parse_factors("--attr-zero-points", text, is_whole=True)


def parse_output_scale(text: str) -> Factors:
    """`common:2` or `per_dim_1`: the scales of the source by the name that they had in version 2."""
    return _parse_factors("--attr-oscale", f"src:{text}" if text else "", is_whole=False)


def _parse_factors(knob: str, text: str, is_whole: bool) -> Factors:
    found = [_parse_factor(knob, part, is_whole) for part in _SUMMED.split(text)] if text else []
    # Of an argument that is named twice the last counts.
    return tuple({factor.arg: factor for factor in found}.values())


def _parse_factor(knob: str, text: str, is_whole: bool) -> FactorText:
    arg, *rest = text.split(":")
    rest[:1] = [policy.lower() for policy in rest[:1]]
    policies = () if is_whole else COMPUTED
    if not _ARG.match(arg) or not rest or not (_POLICY.match(rest[0]) or rest[0] in policies):
        hint = "ARG:POLICY[:VALUE][:TYPE[:GROUPS]] with src or dst, and common, per_dim_0, …, per_tensor"
        raise wrong(knob, text, "no argument and policy", hint)
    policy, *rest = rest
    value, rest = _take_value(knob, text, policy, rest, is_whole)
    data_type, groups = _take_type(knob, text, rest)
    return FactorText("src" if arg == "src0" else arg, policy, value, data_type, groups)


def _take_value(
    knob: str, text: str, policy: str, rest: list[str], is_whole: bool
) -> tuple[float | None, list[str]]:
    """The one value, which changes nothing where it is left out. That of a policy with many is read over, and
    so is the `*` of version 2.
    """
    if rest and (number := _number(rest[0].removesuffix("*"))) is not None:
        if is_whole and not _is_whole(number):
            raise wrong(knob, text, f"{rest[0]} is no whole number", "zero points are integers")
        return (number if _ONE_VALUE.match(policy) else None), rest[1:]
    return (int(not is_whole) if _ONE_VALUE.match(policy) else None), rest


def _is_whole(number: float) -> bool:
    return math.isfinite(number) and number == int(number)


def _take_type(knob: str, text: str, rest: list[str]) -> tuple[str, tuple[int, ...]]:
    data_type, groups = (*rest, "", "")[:2]
    if data_type and data_type not in TYPES:
        raise wrong(knob, text, f"{data_type!r} is no data type", f"there are {', '.join(TYPES)}")
    if len(rest) > 2 or (groups and not _GROUPS.match(groups)):
        raise wrong(knob, text, "no groups", "groups are of the last two dims, as 8x1")
    return data_type, tuple(map(int, groups.split("x"))) if groups else ()


@dataclass(frozen=True, slots=True)
class PostOpText:
    """One post-op: `sum:0.5`, `relu:0.1`, `add:f32:per_dim_1`; `fields` are what follows the name."""

    name: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join((self.name, *self.fields))

    @property
    def kind(self) -> str:
        """`sum`, `eltwise`, `binary`, `prelu`, `dw`, or the empty string for what restride does not have."""
        if self.name in ("sum", "prelu", "dw"):
            return self.name
        kinds = (("eltwise", (*ELTWISE, *OF_DST)), ("binary", BINARY))
        return next((kind for kind, names in kinds if self.name in names), "")

    @property
    def policy(self) -> str:
        """Along which dims the operand of a binary operation or of a prelu has values of its own."""
        place = 0 if self.kind == "prelu" else 1
        return self.fields[place].lower() if len(self.fields) > place else "common"

    @property
    def format(self) -> str | tuple[int, ...]:
        """The tag or the strides of the operand of a binary operation."""
        tag, strides = (*self.fields[2:], *("", "")[len(self.fields[2:]) :])
        if strides:
            return tuple(map(int, strides.split("x")))
        return tag if tag and tag != "any" else "abx"

    @property
    def window(self) -> tuple[int, int, int]:
        """Kernel, stride and padding of a depthwise convolution."""
        found = _WINDOW.match(self.fields[0])
        assert found is not None
        kernel, stride, padding = map(int, found.groups())
        return kernel, stride, padding

    @property
    def result_type(self) -> str:
        """The type of the result of a depthwise convolution."""
        return self.fields[1] if len(self.fields) > 1 else "f32"

    def number(self, index: int, default: float) -> float:
        """Field `index` as a number; `default` where it is left out."""
        found = _number(self.fields[index]) if index < len(self.fields) else None
        return default if found is None else found


PostOpTexts = tuple[PostOpText, ...]


def parse_post_ops(text: str) -> PostOpTexts:
    """`sum:0.5+relu+add:f32:per_dim_1`; nothing for none. Raises UsageError."""
    return tuple(_parse_post_op(part) for part in text.split("+")) if text else ()


def _parse_post_op(text: str) -> PostOpText:
    name, *fields = text.replace("dw_k", "dw:k", 1).split(":")
    if name.lower() not in _POST_OPS:
        raise wrong("--attr-post-ops", text, f"there is no post-op {name!r}", "sum, relu, add:f32, …")
    op = PostOpText(_POST_OPS[name.lower()], tuple(fields))
    checks = {
        "sum": _check_sum,
        "eltwise": _check_eltwise,
        "binary": _check_binary,
        "prelu": _check_prelu,
        "dw": _check_depthwise,
    }
    if op.kind:
        checks[op.kind](op)
    return op


def _check_sum(op: PostOpText) -> None:
    _check_numbers(op, op.fields[:2])
    if not _is_whole(op.number(1, 0)):
        raise wrong(
            "--attr-post-ops", str(op), f"{op.fields[1]} is no whole number", "zero points are integers"
        )
    if len(op.fields) > 3 or (op.fields[2:] and op.fields[2] not in TYPES[: TYPES.index("undef")]):
        raise wrong("--attr-post-ops", str(op), "it is sum[:SCALE[:ZERO_POINT[:TYPE]]]", "")


def _check_eltwise(op: PostOpText) -> None:
    _check_numbers(op, op.fields)
    if len(op.fields) > 3:
        raise wrong("--attr-post-ops", str(op), f"it is {op.name}[:ALPHA[:BETA[:SCALE]]]", "")


def _check_binary(op: PostOpText) -> None:
    kind, policy, _, strides = (*op.fields, *("", "common", "any", "")[len(op.fields) :])[:4]
    is_right = kind in TYPES and _POLICY.match(policy.lower()) and STRIDES.match(strides)
    if not is_right or not 1 <= len(op.fields) <= 4:
        raise wrong("--attr-post-ops", str(op), f"it is {op.name}:TYPE[:MASK_OR_POLICY[:TAG[:STRIDES]]]", "")


def _check_prelu(op: PostOpText) -> None:
    if len(op.fields) > 1 or not _POLICY.match(op.policy):
        raise wrong("--attr-post-ops", str(op), "it is prelu[:MASK_OR_POLICY]", "")


def _check_depthwise(op: PostOpText) -> None:
    is_right = 1 <= len(op.fields) <= 2 and _WINDOW.match(op.fields[0])
    if not is_right or (op.fields[1:] and op.fields[1] not in TYPES[: TYPES.index("undef")]):
        hint = "its scales are --attr-scales=attr_post_op_dw_wei:per_oc+attr_post_op_dw_dst:common:2"
        raise wrong("--attr-post-ops", str(op), "it is dw:kKERNELsSTRIDEpPADDING[:TYPE]", hint)


def _check_numbers(op: PostOpText, fields: tuple[str, ...]) -> None:
    for field in fields:
        if _number(field) is None:
            raise wrong("--attr-post-ops", str(op), f"{field!r} is no number", "")


@dataclass(frozen=True, slots=True)
class FlagText:
    """One kind of compensation: `s8s8_comp:1`, `zp_comp:3`."""

    kind: str
    mask: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.mask}"


Flags = tuple[FlagText, ...]


def parse_flags(text: str) -> Flags:
    """`s8s8_comp:1+zp_comp:1`; nothing for none. Raises UsageError."""
    return tuple(_parse_flag(part) for part in text.split("+")) if text else ()


def _parse_flag(text: str) -> FlagText:
    kind, _, mask = text.partition(":")
    if kind not in ("s8s8_comp", "zp_comp") or not re.match(r"[0-9]{1,4}\Z", mask or "0"):
        raise wrong("--oflag", text, "no kind and mask", "s8s8_comp:MASK or zp_comp:MASK, or both with a +")
    return FlagText(kind, int(mask or "0"))


def _number(text: str) -> float | None:
    """A decimal number, exact where it is whole; None for anything else."""
    if _WHOLE.match(text):
        return int(text)
    if not re.match(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z|[+-]?(inf|nan)\Z", text):
        return None
    return float(text)


def wrong(knob: str, text: str, why: str, hint: str) -> UsageError:
    """The usage error of a knob's value."""
    shown = text if len(text) <= 80 else text[:80] + "..."
    return wrong_usage(f"{knob}: {shown!r} cannot be read", why=why, hint=hint)
