"""The knobs of a case: how each value is read. All raise UsageError for what they cannot read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from restride import Error, FormatTag
from restride.cli.usage import UsageError

from .attr_text import (
    STRIDES,
    parse_output_scale,
    parse_post_ops,
    parse_scales,
    parse_zero_points,
    wrong,
)
from .cases import Several, Strides
from .type_names import TYPES

_SHAPE = "[0-9]{1,19}(x[0-9]{1,19})*"
_NAME = r"(_?n\"?(?P<name>[^\"]*)\"?)?\Z"
_DIMS = re.compile(f"(?P<dims>{_SHAPE}){_NAME}")
_SEVERAL_DIMS = re.compile(f"(?P<dims>{_SHAPE}(:{_SHAPE})*){_NAME}")
_MOST_DIMS = 12


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob of a driver: the field of the case that it sets, and how one value is read.

    A knob takes a list of values, separated by commas, unless commas belong to its one value. `parse` takes
    the knob as it was written, `--sdt`, and the value.
    """

    field: str
    parse: Callable[[str, str], Any]
    is_list: bool = True

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that the knob sets, all of which an empty value puts back to their defaults."""
        return (self.field,)

    def settings(self, knob: str, text: str) -> dict[str, tuple[Any, ...]]:
        """The values that the field is set to."""
        parts = text.split(",") if self.is_list else [text]
        return {self.field: tuple(self.parse(knob, part) for part in parts)}


class _FilterKnob(Knob):
    """The knobs `--impl` and `--skip-impl`: there is one filter, and the last of them sets it."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names to keep, and those to skip."""
        return ("impl", "skip_impl")

    def settings(self, knob: str, text: str) -> dict[str, tuple[Any, ...]]:
        """The names, which may be quoted, and no others."""
        return {**dict.fromkeys(self.fields, ("",)), self.field: (unquoted(text),)}


def unquoted(text: str) -> str:
    """A text without quotes, which a shell would have taken away, and a batch file keeps."""
    return text.replace('"', "").replace("'", "")


def of_value(parse: Callable[[str], Any]) -> Callable[[str, str], Any]:
    """What is read without the name of its knob, for attributes."""
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
        raise UsageError(error.retold(f"{knob}: {error.what}")) from None
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


def matching(pattern: str, why: str, hint: str = "") -> Callable[[str, str], str]:
    """What the pattern finds, as it was written; `why` says in words what that is."""

    def parse(knob: str, text: str) -> str:
        if re.match(rf"({pattern})\Z", text):
            return text
        raise wrong(knob, text, why, hint)

    return parse


_CONTEXT = matching(
    "(auto|[1-9][0-9]{0,4})(:(auto|[0-9]{1,3})){0,2}", "it is THREADS[:CORE_TYPE[:THREADS_PER_CORE]]"
)
_FPMATH_WORDS = matching(
    "(strict|bf16|f16|tf32|any)(:(true|false|0|1))?", "there are strict, bf16, f16, tf32 and any"
)


def _parse_fpmath(knob: str, text: str) -> str:
    return _FPMATH_WORDS(knob, text.lower() or "strict")


_ONE_ROUNDING = "(src[01]?|dst|wei|bia|diff_src|diff_wei|diff_weights)(:(environment|stochastic)(:[0-9]*)?)?"
_ROUNDING_WORDS = matching(
    rf"({_ONE_ROUNDING}(\+{_ONE_ROUNDING})*)?",
    "it is ARG:MODE[:SEED], with + between several",
    "the modes are environment and stochastic",
)


def _parse_rounding(knob: str, text: str) -> str:
    return _ROUNDING_WORDS(knob, text.lower())


_DROPOUT = matching(r"([0-9]*\.?[0-9]+(:[0-9]*(:[0-9a-zA-Z_]*)*)?)?", "it is PROBABILITY[:SEED[:TAG]]")


def caseless(field: str, *allowed: str, also: Mapping[str, str] = MappingProxyType({})) -> Knob:
    """A knob whose values are words in small or capital letters; `allowed` is how a reproducer has them.

    `also` are other spellings, in small letters.
    """
    named = {word.lower(): word for word in allowed} | dict(also)

    def parse(knob: str, text: str) -> str:
        if text.lower() in named:
            return named[text.lower()]
        raise wrong(knob, text, f"there are {', '.join(dict.fromkeys(named.values()))}", "")

    return Knob(field, parse)


def direction(field: str, *own: str) -> Knob:
    """The knob `--dir` of a driver without bias. Directions that are not its own stand for that without bias,
    or for the last of its own, which goes backward.
    """
    others = {"fwd_b": "FWD_D"} | dict.fromkeys(("bwd_d", "bwd_w", "bwd_wb", "bwd_dw"), own[-1])
    return caseless(field, *own, also=others | {word.lower(): word for word in own})


def several(field: str, parse: Callable[[str, str], Any], least: int = 1) -> Knob:
    """A knob whose values are of several tensors, with colons between them: `f32:s8`.

    One value stands for `least` of them.
    """

    def parse_all(knob: str, text: str) -> Several:
        parts = [parse(knob, part) for part in text.split(":")]
        return Several(parts * least if len(parts) == 1 else parts)

    return Knob(field, parse_all)


def strides(*names: str) -> Knob:
    """The knob `--strides` of so many tensors: `6x1:` of two, `::6x1` of three."""

    def parse(knob: str, text: str) -> Strides:
        sides = text.split(":") if text else [""] * len(names)
        if len(sides) != len(names) or not all(STRIDES.match(side) for side in sides):
            why = f"it is {':'.join(names)}, any of which may be empty"
            raise wrong(knob, text, why, f"for example 6x1{':' * (len(names) - 1)}")
        return Strides(tuple(map(int, side.split("x"))) if side else () for side in sides)

    return Knob("strides", parse)


def flag(field: str) -> Knob:
    """A knob that is true or false."""
    return Knob(field, parse_bool)


ATTR_KNOBS = {
    "attr-scales": Knob("attr_scales", of_value(parse_scales)),
    "attr-oscale": Knob("attr_scales", of_value(parse_output_scale)),
    "attr-zero-points": Knob("attr_zero_points", of_value(parse_zero_points)),
    "attr-post-ops": Knob("attr_post_ops", of_value(parse_post_ops)),
    "attr-scratchpad": caseless("attr_scratchpad", "library", "user"),
    "attr-fpmath": Knob("attr_fpmath", _parse_fpmath),
    "attr-acc-mode": caseless("attr_acc_mode", "strict", "relaxed", "any", "f32", "s32", "f16"),
    "attr-rounding-mode": Knob("attr_rounding_mode", _parse_rounding),
    "attr-deterministic": Knob("attr_deterministic", parse_bool),
    "attr-dropout": Knob("attr_dropout", _DROPOUT),
    "attr-precomputed-reductions": Knob("attr_precomputed_reductions", of_value(str)),
    "impl": _FilterKnob("impl", of_value(str)),
    "skip-impl": _FilterKnob("skip_impl", of_value(str)),
    "ctx-init": Knob("ctx_init", _CONTEXT),
    "ctx-exe": Knob("ctx_exe", _CONTEXT),
}


def parse_real(knob: str, text: str) -> float:
    """A number, such as 0.25 or -1e3."""
    try:
        return float(text)
    except ValueError:
        raise wrong(knob, text, "it is a number", "") from None


def parse_dims(text: str) -> dict[str, Any]:
    """Dims and name of a problem: `2x64x3x3`, `48x64_n"weights"`."""
    shape, name = _shape_and_name(text, _DIMS, "write dims as 2x64x3x3")
    return {"dims": _checked_dims(text, shape), "name": name}


def parse_several_dims(text: str) -> dict[str, Any]:
    """Dims of several tensors, and a name: `3x5x6:1x5x6`. Dims that one leaves out at its end are 1."""
    shape, name = _shape_and_name(text, _SEVERAL_DIMS, "write dims as 3x5x6:1x5x6")
    each = [_checked_dims(text, part) for part in shape.split(":")]
    ndims = max(map(len, each))
    vdims = tuple((*dims, *(1,) * (ndims - len(dims))) for dims in each)
    return {"dims": tuple(map(max, zip(*vdims, strict=True))), "vdims": vdims, "name": name}


def _shape_and_name(text: str, pattern: re.Pattern[str], hint: str) -> tuple[str, str]:
    found = pattern.match(text)
    if not found:
        raise wrong("the problem", text, "it is neither a knob nor dims", hint)
    return found["dims"], found["name"] or ""


def _checked_dims(text: str, shape: str) -> tuple[int, ...]:
    dims = tuple(map(int, shape.split("x")))
    if len(dims) > _MOST_DIMS:
        raise wrong("the problem", text, f"a tensor has at most {_MOST_DIMS} axes", "")
    return dims
