"""The knobs of a case: how each value is read, and printed. All raise UsageError for what they cannot read.

A field of a case is a knob where its annotation has one: `axis: Annotated[int, Knob(parse_axis)] = 1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from restride import Error, FormatTag
from restride.cli.usage import UsageError

from .attr_text import STRIDES, TYPES, wrong

Parse = Callable[[str, str], Any]
"""Reads one value, given the knob as it was written, `--sdt`, and the value."""


# --- values -------------------------------------------------------------------------------------------------


class Several(tuple[Any, ...]):
    """One value for each of several tensors, with colons between them: `abx:any`."""

    __slots__ = ()

    def __str__(self) -> str:
        return ":".join(map(str, self))


class Strides(Several):
    """The strides of each of several tensors in elements; empty where a tag says it."""

    __slots__ = ()

    def __str__(self) -> str:
        return ":".join("x".join(map(str, side)) for side in self)

    def formats(self, *tags: str) -> tuple[Any, ...]:
        """The description of each tensor: strides, or else the tag."""
        return tuple(side or tag for side, tag in zip(self, tags, strict=True))

    def why_invalid(self, **tags: str) -> Iterator[str]:
        """Why strides make no sense with the tags of the same tensors, which are any or abx by default."""
        for side, (name, tag) in zip(self, tags.items(), strict=True):
            if side and tag not in ("any", "abx"):
                yield f"Invalid case: strides and a tag, {tag}, for {name}"


ROW_MAJOR, FOLLOWING = Several(("abx",)), Several(("abx", "any"))
F32_TWICE, F32_THRICE = Several(("f32",) * 2), Several(("f32",) * 3)
NO_STRIDES, NO_STRIDES_OF_THREE = Strides(((), ())), Strides(((), (), ()))
"""The default of most knobs of several tensors."""


def knob_text(field: str, value: Any) -> str:
    """A knob as a word: `--runtime-dim-mask=63`."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, tuple) and not isinstance(value, Several):
        # Commas separate def-scales, which are numbers, and peers; the others are parts of an attribute.
        text = ("," if value and isinstance(value[0], float | int | str) else "+").join(map(str, value))
    else:
        text = str(value)
    return f"--{field.replace('_', '-')}={text}"


# --- what reads them ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Knob:
    """The parser of one value.

    A knob takes a list of values, separated by commas, unless commas belong to its one value. `field` is what
    it sets, where that has another name than the knob; `excludes` a field that is empty as soon as it is set.
    """

    parse: Parse
    is_list: bool = True
    field: str = ""
    excludes: str = ""

    def fields(self, own: str) -> tuple[str, ...]:
        """The fields that are set, all of which an empty value puts back. `own`: the name of the knob."""
        return (self.field or own, *([self.excludes] if self.excludes else []))

    def settings(self, name: str, text: str) -> dict[str, tuple[Any, ...]]:
        """The values that fields are set to by a knob of this name."""
        parts = text.split(",") if self.is_list else [text]
        field, *others = self.fields(name.replace("-", "_"))
        return {field: tuple(self.parse(f"--{name}", part) for part in parts), **dict.fromkeys(others, ("",))}


def unquoted(text: str) -> str:
    """A text without quotes, which a shell would have taken away, and a batch file keeps."""
    return text.replace('"', "").replace("'", "")


def of_value(parse: Callable[[str], Any]) -> Parse:
    """Return a parser that ignores the name of its knob, for attributes."""
    return lambda knob, text: parse(text)


def parse_type(knob: str, text: str) -> str:
    """The name of a data type, restride's own or not."""
    if text in TYPES:
        return text
    raise wrong(knob, text, "there is no such data type", f"there are {', '.join(TYPES)}")


def parse_tag(knob: str, text: str) -> str:
    """A tag of the grammar, any or undef."""
    try:
        FormatTag.parse(text)
    except Error as error:
        raise UsageError(error.with_context(f"{knob}: {error.what}")) from None
    return text


def parse_bool(knob: str, text: str) -> bool:
    """`true`, `1`, `false`, `0` in any case."""
    word = text.lower()
    if word in ("true", "1", "false", "0"):
        return word in ("true", "1")
    raise wrong(knob, text, "it is true or false", "")


def parse_count(knob: str, text: str) -> int:
    """A whole number of 0 or more, in decimal."""
    if re.match(r"[0-9]{1,18}\Z", text):
        return int(text)
    raise wrong(knob, text, "it is a whole number of 0 or more", "")


def parse_axis(knob: str, text: str) -> int:
    """A whole number, negative or not."""
    if re.match(r"-?[0-9]{1,4}\Z", text):
        return int(text)
    raise wrong(knob, text, "it is a whole number", "")


def parse_real(knob: str, text: str) -> float:
    """A number, such as 0.25 or -1e3."""
    try:
        return float(text)
    except ValueError:
        raise wrong(knob, text, "it is a number", "") from None


def matching(pattern: str, why: str, hint: str = "", *, is_lower: bool = False, empty: str = "") -> Knob:
    """Return a parser of what the pattern matches, unchanged or in lower case; `why` describes it in words.

    `empty` is what an empty text stands for.
    """

    def parse(knob: str, text: str) -> str:
        found = (text.lower() if is_lower else text) or empty
        if re.match(rf"({pattern})\Z", found):
            return found
        raise wrong(knob, text, why, hint)

    return Knob(parse)


def caseless(*allowed: str, also: Mapping[str, str] = MappingProxyType({})) -> Knob:
    """A knob whose values are words in small or capital letters; `allowed` is how a reproducer has them.

    `also` are other spellings, in small letters.
    """
    named = {word.lower(): word for word in allowed} | dict(also)

    def parse(knob: str, text: str) -> str:
        if text.lower() in named:
            return named[text.lower()]
        raise wrong(knob, text, f"there are {', '.join(dict.fromkeys(named.values()))}", "")

    return Knob(parse)


def direction(*own: str) -> Knob:
    """The knob `--dir` of an operation without bias. Directions that are not its own stand for that without
    bias, or for the last of its own, which goes backward.
    """
    others = {"fwd_b": "FWD_D"} | dict.fromkeys(("bwd_d", "bwd_w", "bwd_wb", "bwd_dw"), own[-1])
    return caseless(*own, also=others | {word.lower(): word for word in own})


def several(parse: Parse, least: int = 1) -> Knob:
    """A knob whose values are of several tensors, with colons between them: `f32:s8`.

    One value stands for `least` of them.
    """

    def parse_all(knob: str, text: str) -> Several:
        parts = [parse(knob, part) for part in text.split(":")]
        return Several(parts * least if len(parts) == 1 else parts)

    return Knob(parse_all)


def strides(*names: str) -> Knob:
    """The knob `--strides` of so many tensors: `6x1:` of two, `::6x1` of three."""

    def parse(knob: str, text: str) -> Strides:
        sides = text.split(":") if text else [""] * len(names)
        if len(sides) != len(names) or not all(STRIDES.match(side) for side in sides):
            why = f"it is {':'.join(names)}, any of which may be empty"
            raise wrong(knob, text, why, f"for example 6x1{':' * (len(names) - 1)}")
        return Strides(tuple(map(int, side.split("x"))) if side else () for side in sides)

    return Knob(parse)


TypeName = Annotated[str, Knob(parse_type)]
Tag = Annotated[str, Knob(parse_tag)]
Tags = Annotated[Several, several(parse_tag)]
Count = Annotated[int, Knob(parse_count)]
Axis = Annotated[int, Knob(parse_axis)]
Real = Annotated[float, Knob(parse_real)]
Flag = Annotated[bool, Knob(parse_bool)]
TwoTypes = Annotated[Several, several(parse_type, least=2)]
ThreeTypes = Annotated[Several, several(parse_type, least=3)]
TwoTags = Annotated[Several, several(parse_tag, least=2)]
TwoStrides = Annotated[Strides, strides("SRC", "DST")]
ProductStrides = Annotated[Strides, strides("SRC", "WEI", "DST")]
Inference = Annotated[str, direction("FWD_D", "FWD_I", "BWD_D")]
"""The directions of operations whose gradient is of data alone."""
