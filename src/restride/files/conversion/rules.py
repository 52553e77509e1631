"""Rules of a conversion, by globs of names: the first match wins (`GLOB=FORMAT,TYPE,...`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isfinite
from typing import Any

from ... import formats
from ...arrays.scaling.group import NAMED
from ...desc.parse import parse_int, short_repr, to_f32
from ...desc.tags import FormatTag, parse_tag
from ...dtypes import DataType
from ...errors import Error, refuse
from ...formats import gguf
from ...nearest import nearest

_HINT = "write it as '*.weight=OIhw4i16o4i,s8,group=32,scale=absmax'; '*=keep' copies"
_WORDS = ("group", "axis", "scale", "zero_point", "scale_type")
_FOUND = ("absmax", "minmax")
_KEEP = "keep"
_GGUF = "gguf."
# For floats converted to another type: other floats.
WIDE_REALS = (DataType.f64, DataType.f32, DataType.bf16, DataType.f16)
REALS = (*WIDE_REALS, DataType.f8_e4m3, DataType.f8_e5m2)
# The suggestion in the error for a type.
_MEANT = re.compile(r"did you mean [^?]*\?")


@dataclass(frozen=True, slots=True)
class ConversionRule:
    """A format and a type for tensors whose names match `glob`; with neither, they are copied byte for byte.

    `named`: a format of `rs.formats`, such as mxfp4 and awq, or q4_k for a .gguf file. `scale`: a factor, or
    how scales are found from the data: "absmax" for symmetric ranges, "minmax" for those with a zero point.
    Scales are found for the whole tensor, for each index of `axis`, or for each `group` of that many elements
    along it, by default along the last; several numbers apply to the last axes. `scale_type` is the type of
    group scales.
    """

    glob: str
    format: str | None = None
    data_type: DataType | None = None
    scale: float | str | None = None
    zero_point: int | None = None
    axis: int | None = None
    group: tuple[int, ...] | None = None
    scale_type: DataType | None = None
    named: str | None = None

    @property
    def is_copy(self) -> bool:
        """True if nothing is to be done."""
        words = (self.format, self.data_type, self.scale, self.zero_point, self.named)
        return words == (None,) * len(words)

    @property
    def is_found(self) -> bool:
        """True if scales are found from the data."""
        return isinstance(self.scale, str)

    @property
    def is_of_numbers(self) -> bool:
        """True if the numbers that a tensor represents get another type; otherwise its elements are moved."""
        return self.is_found or self.data_type is not None

    def block_word(self, is_gguf: bool) -> str:
        """Return ggml's name for the blocks to create; "" for other targets.

        `is_gguf`: the file has types for them. Names shared with OCP's formats mean blocks only there.
        """
        word = (self.named or "").removeprefix(_GGUF).upper()
        is_plain = self.named not in NAMED or (is_gguf and (self.format, self.group) == (None, None))
        return word if word in gguf.BLOCK_FORMATS and is_plain else ""

    def __str__(self) -> str:
        words = [self.format, self.named or (self.data_type and str(self.data_type))]
        group = None if self.group is None else "x".join(map(str, self.group))
        values = {word: getattr(self, word) for word in _WORDS} | {"group": group}
        implied = ("scale",) if self.named else ()
        words += [f"{w}={value}" for w, value in values.items() if value is not None and w not in implied]
        return f"{self.glob}={','.join(word for word in words if word) or _KEEP}"


class _BadRule(Exception):
    """The error in a rule, and a suggestion."""

    def __init__(self, why: str, meant: str = "") -> None:
        super().__init__(why)
        self.why, self.meant = why, meant


def parse_rules(rules: object) -> tuple[ConversionRule, ...]:
    """Return the rules of a call: texts, `ConversionRule`s, or tuples of the comma-separated parts of a text.

    Raises InvalidArguments that shows the rule and what is wrong with it.
    """
    parsed: list[ConversionRule] = []
    rule = rules
    try:
        if isinstance(rules, str | ConversionRule) or not isinstance(rules, Sequence):
            raise _BadRule(
                "rules must be a list", f"pass [{short_repr(rules)}];" if isinstance(rules, str) else ""
            )
        for rule in rules:
            parsed.append(_parse_rule(rule))
    except _BadRule as error:
        text = rule if isinstance(rule, str) else short_repr(rule)
        hint = f"{error.meant} {_HINT}" if error.meant else _HINT
        raise refuse("RS-F07:rule-not-hold", shown=text[:120], why=error.why, hint=hint) from None
    return tuple(parsed)


def rule_for(name: str, rules: Sequence[ConversionRule], other: str = "") -> ConversionRule | None:
    """Return the first rule that matches a tensor's name, or its `other` name."""
    names = (name, other or name)
    return next((rule for rule in rules if any(fnmatchcase(one, rule.glob) for one in names)), None)


def needs_scale(src: DataType, dst: DataType) -> bool:
    """Return True for floats that become integers or 4-bit floats: small values would become 0."""
    is_coarse = dst.kind in ("int", "uint") or dst.bits <= 4
    return src.kind == "float" and is_coarse and src.bits > 4


def _parse_rule(rule: object) -> ConversionRule:
    if isinstance(rule, ConversionRule):
        return rule
    if isinstance(rule, tuple | list) and rule and isinstance(rule[0], str):
        return _of_words(rule[0], list(rule[1:]))
    if not isinstance(rule, str):
        raise _BadRule("it is neither text nor a tuple")
    # The glob may contain '=': up to the first comma there is one more '=', and another one if the first word
    # has a value.
    head, comma, tail = rule.partition(",")
    glob, mark, first = head.rpartition("=")
    before, equals, word = glob.rpartition("=")
    if equals and word.strip() in _WORDS:
        glob, first = before, f"{word}={first}"
    if not mark or not glob:
        raise _BadRule("it has no '=' between glob and format")
    return _of_words(glob, [word.strip() for word in (first + comma + tail).split(",")])


def _of_words(glob: str, words: list[Any]) -> ConversionRule:
    values: dict[str, Any] = {}
    for word in words:
        if word is None or word == "":
            continue
        if isinstance(word, str) and "=" in word:
            name, _, text = word.partition("=")
            word = {name.strip(): text.strip()}
        if isinstance(word, dict):
            for name, value in word.items():
                if name in values:
                    raise _BadRule(f"it specifies {name} twice")
                if name not in _WORDS:
                    raise _BadRule(f"unknown option {short_repr(name)}: use {', '.join(_WORDS)}")
                values[name] = _number(name, value)
        else:
            name, value = _format_or_type(word)
            if name in values or {name, *values} >= {"named", "data_type"}:
                raise _BadRule(f"it names two {'formats' if name == 'format' else 'types'}")
            values[name] = value
    if values.get("format") == _KEEP:
        if len(values) > 1:
            raise _BadRule(f"{_KEEP!r} copies, and allows no other options")
        return ConversionRule(glob)
    if "named" in values:
        values.setdefault("scale", "absmax")
    rule = ConversionRule(glob, **values)
    group, axis, way, is_found = rule.group, rule.axis, rule.named, rule.is_found
    faults = {
        "group must be at least 1, or 0 for a whole axis": group is not None and min(group, default=-1) < 0,
        "groups of several axes apply to the last ones: omit axis": group is not None
        and len(group) > 1
        and axis is not None,
        "scale_type requires groups: add group=32": rule.scale_type is not None
        and (group is None or way is not None),
        f"{way} determines scales and their axis itself unless a group is given": way is not None
        and (rule.scale != "absmax" or (axis is not None and group is None)),
        "group and axis require scales from the data: add scale=absmax": not is_found
        and (group is not None or axis is not None),
        "quantization requires a type: add one, such as s8": is_found
        and rule.data_type is None
        and way is None,
        "zero points are found with the scales": is_found and rule.zero_point is not None,
    }
    if why := next((why for why, is_wrong in faults.items() if is_wrong), ""):
        raise _BadRule(why)
    return rule


def _format_or_type(word: object) -> tuple[str, Any]:
    """Return the field of a rule for a word without a name: a data type, else it must be a format."""
    if word == _KEEP:
        return "format", word
    if isinstance(word, str) and (name := _format_name(word)):
        return "named", name
    try:
        data_type = DataType.parse(word)
    except Error as error:
        if not isinstance(word, str):
            raise _BadRule(f"{short_repr(word)} is neither a format nor a type") from None
        names = [*formats.names(), *(name.lower() for name in gguf.BLOCK_FORMATS)]
        near = nearest(word.lower(), [*map(str, DataType), *names], 0.76)
        meant = f"did you mean {near!r}?" if near in names else ""
        suggestion = meant or next(iter(_MEANT.findall(error.hint)), "")
    else:
        if data_type is DataType.undef:
            raise _BadRule("the type must not be undef")
        return "data_type", data_type
    try:
        parse_tag(word)
        is_layout = FormatTag.parse(word) not in (FormatTag.any, FormatTag.undef)
    except Error as error:
        why = "" if suggestion else f": {error.why or error.what}"
        raise _BadRule(f"{word[:60]!r} is neither a format nor a type{why}", suggestion) from None
    if is_layout:
        return "format", word
    raise _BadRule(f"{word!r} is a placeholder")


def _format_name(word: str) -> str:
    """Return the name of one of restride's formats; GGUF's names are short unless they are ambiguous."""
    short = word.removeprefix(_GGUF)
    if short.upper() in gguf.BLOCK_FORMATS:
        return word if short in NAMED else short
    return word if word in formats.names() else ""


def _number(name: str, value: Any) -> Any:
    """Return the value of an option: a number, several, a type, or how scales are found."""
    if name == "group":
        parts = value.split("x") if isinstance(value, str) else value
        return tuple(_integer(name, part) for part in (parts if isinstance(parts, tuple | list) else [parts]))
    if name in ("axis", "zero_point"):
        return _integer(name, value)
    if name == "scale_type":
        try:
            return DataType.parse(value)
        except Error as error:
            raise _BadRule(f"scale_type: {error.what}") from None
    if value in _FOUND:
        return value
    try:
        number = to_f32(float(value), "scale")
    except (TypeError, ValueError):
        number = float("nan")
    if number and isfinite(number):
        return number
    raise _BadRule(
        f"scale is {short_repr(value)}: it must be a nonzero number, or one of {', '.join(_FOUND)}"
    )


def _integer(name: str, value: object) -> int:
    try:
        return int(value) if isinstance(value, str) else parse_int(value, name)
    except ValueError:
        raise _BadRule(f"{name} is {short_repr(value)}, not an integer") from None
