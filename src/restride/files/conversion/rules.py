"""What is to become of which tensor: rules by glob, the first that fits wins (`GLOB=FORMAT,TYPE,...`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isfinite
from typing import Any

from ...arrays.scaling.group import NAMED
from ...desc.parse import parse_int, short_repr, to_f32
from ...desc.tags import FormatTag, parse_tag
from ...dtypes import DataType
from ...errors import Error, refuse

_HINT = "write it as '*.weight=OIhw4i16o4i,s8,group=32,scale=absmax'; '*=keep' copies"
_WORDS = ("group", "axis", "scale", "zero_point", "scale_type")
_FOUND = ("absmax", "minmax")
_KEEP = "keep"
# What the refusal of a type suggests.
_MEANT = re.compile(r"did you mean [^?]*\?")


@dataclass(frozen=True, slots=True)
class ConversionRule:
    """What becomes of the tensors whose names fit `glob`; None of both for what is copied byte for byte.

    `named`: a way of quantising that has a name, as mxfp4. `scale`: a number that multiplies, or how scales
    are found from the data: "absmax" for symmetric ranges, "minmax" for those with a zero point. Found scales
    are for the whole tensor, for each index of `axis`, or for each `group` of so many along it, by default
    along the last; several numbers are for the last axes. `scale_type` is that of the scales of groups.
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
        """True where nothing is to be done."""
        words = (self.format, self.data_type, self.scale, self.zero_point, self.named)
        return words == (None,) * len(words)

    @property
    def is_found(self) -> bool:
        """True where scales are found from the data."""
        return isinstance(self.scale, str)

    def __str__(self) -> str:
        words = [self.format, self.named or (self.data_type and str(self.data_type))]
        group = None if self.group is None else "x".join(map(str, self.group))
        values = {word: getattr(self, word) for word in _WORDS} | {"group": group}
        implied = ("scale",) if self.named else ()
        words += [f"{w}={value}" for w, value in values.items() if value is not None and w not in implied]
        return f"{self.glob}={','.join(word for word in words if word) or _KEEP}"


def parse_rules(rules: object) -> tuple[ConversionRule, ...]:
    """The rules of a call: texts, `ConversionRule`s, or tuples of what a text has between its commas.

    Raises InvalidArguments that shows the rule and says what is wrong with it.
    """
    if isinstance(rules, str | ConversionRule) or not isinstance(rules, Sequence):
        raise _bad(rules, "rules are a list")
    return tuple(_parsed(rule) for rule in rules)


def rule_for(name: str, rules: Sequence[ConversionRule]) -> ConversionRule | None:
    """The first rule that fits a tensor's name."""
    return next((rule for rule in rules if fnmatchcase(name, rule.glob)), None)


def needs_scale(read: DataType, written: DataType) -> bool:
    """True for floats that become integers, or floats of 4 bits: small ones, as weights are, would be 0."""
    is_coarse = written.kind in ("int", "uint") or written.bits <= 4
    return read.kind == "float" and is_coarse and read.bits > 4


def _parsed(rule: object) -> ConversionRule:
    if isinstance(rule, ConversionRule):
        return rule
    if isinstance(rule, str):
        glob, mark, rest = _split(rule)
        if not mark or not glob:
            raise _bad(rule, "it has no '=' between glob and format")
        return _of_words(rule, glob, [word.strip() for word in rest.split(",")])
    if isinstance(rule, tuple | list) and rule and isinstance(rule[0], str):
        return _of_words(rule, rule[0], list(rule[1:]))
    raise _bad(rule, "it is neither text nor a tuple")


def _split(rule: str) -> tuple[str, str, str]:
    """The glob, which may hold '=', and what is behind it: up to the first comma there is one '=' more, and
    another one where the first word has a value.
    """
    head, comma, tail = rule.partition(",")
    glob, mark, first = head.rpartition("=")
    before, equals, word = glob.rpartition("=")
    if equals and word.strip() in _WORDS:
        glob, first = before, f"{word}={first}"
    return glob, mark, first + comma + tail


def _of_words(rule: object, glob: str, words: list[Any]) -> ConversionRule:
    found: dict[str, Any] = {}
    for word in words:
        if word is None or word == "":
            continue
        if isinstance(word, dict):
            found |= {_checked_name(rule, name, found): value for name, value in word.items()}
        elif isinstance(word, str) and "=" in word:
            name, _, value = word.partition("=")
            found[_checked_name(rule, name.strip(), found)] = value.strip()
        else:
            name, value = _format_or_type(rule, word)
            if name in found or {name, *found} >= {"named", "data_type"}:
                raise _bad(rule, f"it names two {'formats' if name == 'format' else 'types'}")
            found[name] = value
    if found.get("format") == _KEEP:
        if len(found) > 1:
            raise _bad(rule, f"{_KEEP!r} copies, and takes no other words")
        return ConversionRule(glob)
    return _checked(rule, ConversionRule(glob, **_values(rule, found)))


def _checked_name(rule: object, name: object, found: Mapping[str, Any]) -> str:
    if name in found:
        raise _bad(rule, f"it says {name} twice")
    if name in _WORDS:
        return str(name)
    raise _bad(rule, f"there is no word {short_repr(name)}: it has {', '.join(_WORDS)}")


def _format_or_type(rule: object, word: object) -> tuple[str, Any]:
    """Whether a word is a data type, else it must be a format."""
    if word == _KEEP:
        return "format", word
    if isinstance(word, str) and word in NAMED:
        return "named", word
    meant = ""
    try:
        data_type = DataType.parse(word)
    except Error as error:
        if not isinstance(word, str):
            raise _bad(rule, f"{short_repr(word)} is neither a format nor a type") from None
        meant = next(iter(_MEANT.findall(error.hint)), "")
    else:
        if data_type is DataType.undef:
            raise _bad(rule, "elements need a type")
        return "data_type", data_type
    try:
        parse_tag(word)
        is_layout = FormatTag.parse(word) not in (FormatTag.any, FormatTag.undef)
    except Error as error:
        if meant:
            raise _bad(rule, f"{word[:60]!r} is neither a format nor a type", meant) from None
        raise _bad(rule, f"{word[:60]!r} is neither a format nor a type: {error.why or error.what}") from None
    if is_layout:
        return "format", word
    raise _bad(rule, f"{word!r} is a placeholder")


def _values(rule: object, found: dict[str, Any]) -> dict[str, Any]:
    """The words with their values as numbers."""
    values = dict(found)
    for name in ("axis", "zero_point"):
        if name in values:
            values[name] = _integer(rule, name, values[name])
    if "group" in values:
        value = values["group"]
        parts = value.split("x") if isinstance(value, str) else value
        parts = parts if isinstance(parts, tuple | list) else (parts,)
        values["group"] = tuple(_integer(rule, "group", part) for part in parts)
    if "scale_type" in values:
        values["scale_type"] = _type(rule, values["scale_type"])
    if "named" in values:
        values.setdefault("scale", "absmax")
    if "scale" in values and values["scale"] not in _FOUND:
        values["scale"] = _number(rule, values["scale"])
    return values


def _type(rule: object, value: object) -> DataType:
    try:
        return DataType.parse(value)
    except Error as error:
        raise _bad(rule, f"scale_type: {error.what}") from None


def _integer(rule: object, name: str, value: object) -> int:
    try:
        return int(value) if isinstance(value, str) else parse_int(value, name)
    except ValueError:
        raise _bad(rule, f"{name} is {short_repr(value)}, no whole number") from None


def _number(rule: object, value: object) -> float:
    try:
        number = to_f32(float(value), "scale")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = float("nan")
    if number and isfinite(number):
        return number
    raise _bad(rule, f"scale is {short_repr(value)}: it is a number but 0, or one of {', '.join(_FOUND)}")


def _checked(source: object, rule: ConversionRule) -> ConversionRule:
    """The rule, where its words fit each other."""
    if rule.group is not None and min(rule.group, default=-1) < 0:
        raise _bad(source, "group is how many elements share a scale, 1 or more, or 0 for all of an axis")
    if rule.group is not None and len(rule.group) > 1 and rule.axis is not None:
        raise _bad(source, "groups of several axes are of the last ones: leave axis out")
    if rule.scale_type is not None and (rule.group is None or rule.named is not None):
        raise _bad(source, "scale_type is for scales of groups: say group=32")
    if rule.named is not None and (rule.scale != "absmax" or (rule.axis is not None and rule.group is None)):
        raise _bad(
            source, f"{rule.named} says how scales are found, and along which axis unless a group is named"
        )
    if not rule.is_found and (rule.group is not None or rule.axis is not None):
        raise _bad(source, "group and axis are for scales that are found: say scale=absmax")
    if rule.is_found and rule.data_type is None and rule.named is None:
        raise _bad(source, "values are quantised to a type: name one, as s8")
    if rule.is_found and rule.zero_point is not None:
        raise _bad(source, "zero points are found with the scales")
    return rule


def _bad(rule: object, why: str, meant: str = "") -> Error:
    shown = rule if isinstance(rule, str) else short_repr(rule)
    hint = f"{meant} {_HINT}" if meant else _HINT
    return refuse("RS-F07:rule-not-hold", shown=shown[:120], why=why, hint=hint)
