"""The knobs of a case: how each value is read (spec 3.1). All raise UsageError for what they cannot read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from restride import Error, FormatTag
from restride.cli.usage import UsageError

from .attr_text import parse_flags, parse_output_scale, parse_post_ops, parse_scales, parse_zero_points, wrong
from .cases import Case, ReorderCase, ShuffleCase, Strides
from .type_names import TYPES

_DIMS = re.compile(r"(?P<dims>[0-9]{1,19}(x[0-9]{1,19})*)(_?n\"?(?P<name>[^\"]*)\"?)?\Z")
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


class _PairKnob(Knob):
    """The knob `--dt=SRC:DST` of a reorder, which sets two fields; one type stands for both."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Both types."""
        return ("sdt", "ddt")

    def settings(self, knob: str, text: str) -> dict[str, tuple[Any, ...]]:
        """The values of both fields. Raises UsageError for pairs that are no product of two lists."""
        pairs = [(part.partition(":")[0], part.partition(":")[2] or part) for part in text.split(",")]
        sides = [
            tuple(dict.fromkeys(self.parse(knob, part) for part in side)) for side in zip(*pairs, strict=True)
        ]
        if len(set(pairs)) != len(sides[0]) * len(sides[1]):
            raise wrong(knob, text, "these pairs are not all combinations", "set --sdt and --ddt in turn")
        return {"sdt": sides[0], "ddt": sides[1]}


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


def _choice(field: str, *allowed: str) -> Knob:
    def parse(knob: str, text: str) -> str:
        if text in allowed:
            return text
        raise wrong(knob, text, f"there are {', '.join(allowed)}", "")

    return Knob(field, parse)


def _of_value(parse: Callable[[str], Any]) -> Callable[[str, str], Any]:
    """What is read without the name of its knob, for attributes."""
    return lambda knob, text: parse(text)


def _parse_type(knob: str, text: str) -> str:
    if text in TYPES:
        return text
    raise wrong(knob, text, "there is no such data type", f"there are {', '.join(TYPES)}")


def _parse_tag(knob: str, text: str) -> str:
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


def _parse_axis(knob: str, text: str) -> int:
    if re.match(r"-?[0-9]{1,4}\Z", text):
        return int(text)
    raise wrong(knob, text, "it is a whole number", "")


def _parse_strides(knob: str, text: str) -> Strides:
    sides = text.split(":") if text else ["", ""]
    if len(sides) != 2 or not all(re.match(r"([0-9]{1,18}(x[0-9]{1,18})*)?\Z", side) for side in sides):
        raise wrong(knob, text, "it is SRC:DST, either of which may be empty", "for example 3x4x5x6:")
    src, dst = (tuple(map(int, side.split("x"))) if side else () for side in sides)
    return Strides(src, dst)


def _matching(pattern: str, why: str, hint: str = "") -> Callable[[str, str], str]:
    """What the pattern finds, as it was written; `why` says in words what that is."""

    def parse(knob: str, text: str) -> str:
        if re.match(rf"({pattern})\Z", text):
            return text
        raise wrong(knob, text, why, hint)

    return parse


_CONTEXT = _matching(
    "(auto|[1-9][0-9]{0,4})(:(auto|[0-9]{1,3})){0,2}", "it is THREADS[:CORE_TYPE[:THREADS_PER_CORE]]"
)
_FPMATH = _matching(
    "(strict|bf16|f16|tf32|any)(:(true|false|0|1))?", "there are strict, bf16, f16, tf32 and any"
)
_ROUNDING = _matching(
    "((src|dst|wei|bia|diff_src|diff_wei):)?(environment|stochastic)?(:[0-9]*)?",
    "it is ARG:MODE[:SEED]",
    "the modes are environment and stochastic",
)
_DROPOUT = _matching(r"([0-9]*\.?[0-9]+(:[0-9]*(:[0-9a-zA-Z_]*)*)?)?", "it is PROBABILITY[:SEED[:TAG]]")


def _parse_reals(knob: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise wrong(knob, text, "it is numbers with commas between them", "") from None


def _parse_dir(knob: str, text: str) -> str:
    word = text.upper()
    if word in ("FWD_D", "FWD_I", "BWD_D"):
        return word
    raise wrong(knob, text, "there are FWD_D, FWD_I and BWD_D", "")


_ATTR = {
    "attr-scales": Knob("attr_scales", _of_value(parse_scales)),
    "attr-oscale": Knob("attr_scales", _of_value(parse_output_scale)),
    "attr-zero-points": Knob("attr_zero_points", _of_value(parse_zero_points)),
    "attr-post-ops": Knob("attr_post_ops", _of_value(parse_post_ops)),
    "attr-scratchpad": _choice("attr_scratchpad", "library", "user"),
    "attr-fpmath": Knob("attr_fpmath", _FPMATH),
    "attr-acc-mode": _choice("attr_acc_mode", "strict", "relaxed", "any", "f32", "s32", "f16"),
    "attr-rounding-mode": Knob("attr_rounding_mode", _ROUNDING),
    "attr-deterministic": Knob("attr_deterministic", parse_bool),
    "attr-dropout": Knob("attr_dropout", _DROPOUT),
    "attr-precomputed-reductions": Knob("attr_precomputed_reductions", _of_value(str)),
    "impl": _FilterKnob("impl", _of_value(str)),
    "skip-impl": _FilterKnob("skip_impl", _of_value(str)),
    "ctx-init": Knob("ctx_init", _CONTEXT),
    "ctx-exe": Knob("ctx_exe", _CONTEXT),
}
REORDER_KNOBS = {
    "sdt": Knob("sdt", _parse_type),
    "ddt": Knob("ddt", _parse_type),
    "dt": _PairKnob("sdt", _parse_type),
    "stag": Knob("stag", _parse_tag),
    "dtag": Knob("dtag", _parse_tag),
    "strides": Knob("strides", _parse_strides),
    "oflag": Knob("oflag", _of_value(parse_flags)),
    "cross-engine": _choice("cross_engine", "none", "cpu2gpu", "gpu2cpu"),
    "runtime-dim-mask": Knob("runtime_dim_mask", parse_count),
    "def-scales": Knob("def_scales", _parse_reals, is_list=False),
    **_ATTR,
}
SHUFFLE_KNOBS = {
    "dir": Knob("dir", _parse_dir),
    "dt": Knob("dt", _parse_type),
    "tag": Knob("tag", _parse_tag),
    "fmt": Knob("tag", _parse_tag),
    "axis": Knob("axis", _parse_axis),
    "group": Knob("group", parse_count),
    **_ATTR,
}


@dataclass(frozen=True, slots=True)
class Driver:
    """A primitive that the driver runs: its case, and its knobs by name."""

    case: type[Case]
    knobs: dict[str, Knob]


DRIVERS = {"reorder": Driver(ReorderCase, REORDER_KNOBS), "shuffle": Driver(ShuffleCase, SHUFFLE_KNOBS)}


def parse_desc(text: str) -> tuple[tuple[int, ...], str]:
    """Dims and name of a problem: `2x64x3x3`, `48x64_n"weights"`."""
    found = _DIMS.match(text)
    if not found:
        raise wrong("the problem", text, "it is neither a knob nor dims", "write dims as 2x64x3x3")
    dims = tuple(map(int, found["dims"].split("x")))
    if len(dims) > _MOST_DIMS:
        raise wrong("the problem", text, f"a tensor has at most {_MOST_DIMS} axes", "")
    return dims, found["name"] or ""


__all__ = ["DRIVERS", "Driver", "Knob", "parse_bool", "parse_count", "parse_desc", "unquoted"]
