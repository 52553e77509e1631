"""The knobs that every operation shares, as one frozen value: field `mem_check` is the knob `--mem-check`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, get_type_hints

from . import tokens
from .attr_text import wrong
from .knobs import Knob, knob_text, matching, of_value, parse_bool, parse_count, unquoted

_LEAST_MS, _MOST_MS = 10, 60_000
_FAST_MS = 10
PEERS = ("onednn", "torch", "numpy", "memcpy")
_ENGINES = "(cpu|gpu|reference|sycl(:[a-z]+(_[a-z]+)?){0,2})(:[0-9]{1,3})?"
_NO_ENGINE = (
    "there are cpu, gpu, reference, sycl and sycl:BACKEND:KIND, with or without an index, as in cpu:0"
)
_CACHES = r"(none|wei|all|custom)(\+tlb(:[0-9]*\.?[0-9]+[mg]?)?)?"
_NO_CACHE = "there are none, wei, all and custom, with or without +tlb or +tlb:SIZE, as in all+tlb:1G"


def _parse_modifier(knob: str, text: str) -> str:
    if re.match(r"[pm]*\Z", text, re.IGNORECASE):
        return text.upper()
    raise wrong(knob, text, "there are P and M", "")


def _parse_ms(knob: str, text: str) -> int:
    limit = int(float(text)) if re.match(r"[0-9]{1,9}(\.[0-9]*)?(e[0-9])?\Z", text) else -1
    if limit < 0:
        raise wrong(knob, text, "it is a number of milliseconds", "")
    return min(max(limit, _LEAST_MS), _MOST_MS)


def _parse_peers(knob: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.lower().split(","))) if text else ()
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise wrong(knob, text, f"there is no peer {unknown[0]!r}", f"there are {', '.join(PEERS)}")
    return names


def _parse_summary(knob: str, text: str) -> str:
    if any(word.removeprefix("no-") not in ("failures", "impl", "impl-csv") for word in text.split("+")):
        raise wrong(knob, text, "there are failures, impl, impl-csv, and no- before each", "")
    return text


def _parse_check_ref_impl(knob: str, text: str) -> bool:
    return text == "cpu" or (text != "gpu" and parse_bool(knob, text))


def _parse_template(text: str) -> str:
    tokens.check(text)
    return text or "def"


def _choice(*allowed: str) -> Knob:
    return matching("|".join(allowed), f"there are {', '.join(allowed)}", is_lower=True)


def _count(least: int = 0, *, is_clamped: bool = False) -> Knob:
    """A number; of a clamped one less than there can be is the least, as benchdnn takes it."""

    def parse(knob: str, text: str) -> int:
        if is_clamped and re.match(r"-[0-9]{1,18}\Z", text):
            return least
        number = parse_count(knob, text)
        if number < least and not is_clamped:
            raise wrong(knob, text, f"it is {least} or more", "")
        return max(number, least)

    return Knob(parse)


Word = Annotated[bool, Knob(lambda knob, text: parse_bool(knob, text or "1"))]
"""A flag that may stand alone."""


@dataclass(frozen=True, slots=True)
class CommonKnobs:
    """Options for running cases."""

    mode: str = "C"
    mode_modifier: Annotated[str, Knob(_parse_modifier)] = ""
    engine: Annotated[str, matching(_ENGINES, _NO_ENGINE, is_lower=True)] = "cpu"
    allow_enum_tags_only: Word = True
    cold_cache: Annotated[str, matching(_CACHES, _NO_CACHE, is_lower=True)] = "none"
    fix_times_per_prb: Annotated[int, _count(is_clamped=True)] = 0
    max_ms_per_prb: Annotated[int, Knob(_parse_ms)] = 3000
    mem_check: Word = True
    memory_kind: Annotated[str, _choice("usm", "buffer", "usm_device", "usm_shared")] = "usm"
    stream_kind: Annotated[str, _choice("def", "in_order", "out_of_order")] = "def"
    num_streams: Annotated[int, _count(least=1)] = 1
    check_ref_impl: Annotated[bool, Knob(_parse_check_ref_impl)] = False
    attr_same_pd_check: Word = False
    fast_ref: Word = True
    cpu_isa_hints: Annotated[str, _choice("none", "no_hints", "prefer_ymm")] = "none"
    # There is one filter, and the last of both knobs sets it.
    global_impl: Annotated[str, Knob(of_value(unquoted), excludes="global_skip_impl")] = ""
    global_skip_impl: Annotated[str, Knob(of_value(unquoted), excludes="global_impl")] = ""
    execution_mode: Annotated[str, _choice("direct", "graph", "native_graph")] = "direct"
    buffer_prefix: Annotated[str, Knob(of_value(str))] = ""
    peers: Annotated[tuple[str, ...], Knob(_parse_peers)] = ()
    # From here on: what is printed, and how the work is spread. These are in no reproducer line.
    repeats_per_prb: Annotated[int, _count(least=1, is_clamped=True)] = 1
    start: Annotated[int, _count()] = 0
    canonical: Word = False
    summary: Annotated[str, Knob(_parse_summary)] = "failures"
    verbose: Annotated[int, _count()] = 0
    perf_template: Annotated[str, Knob(of_value(_parse_template))] = "def"
    jobs: Annotated[int, _count()] = 0
    json: Word = False

    def words(self) -> list[str]:
        """The knobs that another run needs to do the same, except those at their defaults."""
        every = [(f.name, getattr(self, f.name), f.default) for f in fields(self)]
        printed = every[: [name for name, _, _ in every].index("repeats_per_prb")]
        return [knob_text(name, value) for name, value, default in printed if value != default]

    def taken(self, name: str, text: str, *, is_empty: bool = False) -> CommonKnobs:
        """These with a knob set; with an empty value to its default."""
        knob = COMMON_KNOBS[name]
        field, *others = knob.fields(name.replace("-", "_"))
        if is_empty:
            return replace(self, **{field: getattr(CommonKnobs(), field)})
        if field == "mode":
            return self._in_mode(text)
        return replace(self, **{field: knob.parse(f"--{name}", text), **dict.fromkeys(others, "")})

    def _in_mode(self, text: str) -> CommonKnobs:
        word = text.upper()
        if word == "F":
            return replace(self, mode="P", mode_modifier="PM", max_ms_per_prb=_FAST_MS)
        if word == "S":
            return replace(self, mode="P", fix_times_per_prb=1, cold_cache="none")
        if word in ("C", "P", "CP", "PC", "B", "R", "I", "L"):
            return replace(self, mode="CP" if word == "PC" else word)
        raise wrong("--mode", text, "there are C, P, CP, F, S, B, R, I and L", "")

    def summarizes(self, what: str) -> bool:
        """True where the summary has this part: as the last word about it says, or failures alone."""
        said = [word for word in ("failures", *self.summary.split("+")) if word.removeprefix("no-") == what]
        return said[-1:] == [what]

    @property
    def checks(self) -> bool:
        """True where answers are compared with the reference engine."""
        return "C" in self.mode

    @property
    def times(self) -> bool:
        """True where the speed is measured: in mode P, and where peers are named."""
        return "P" in self.mode or (self.mode == "C" and bool(self.peers))

    @property
    def engine_kind(self) -> str:
        """`cpu`, `gpu`, `reference`, `sycl`, `sycl:opencl:cpu` and the like."""
        return self.engine.rstrip("0123456789").rstrip(":")

    @property
    def has_queues(self) -> bool:
        """True for an engine with memory and queues of its own."""
        return self.engine_kind == "gpu" or self.engine_kind.startswith("sycl")

    @property
    def engine_index(self) -> int:
        """The index of the engine among those of its kind."""
        return int(self.engine[len(self.engine_kind) + 1 :] or 0)


def _knobs() -> dict[str, Knob]:
    hints: dict[str, Any] = get_type_hints(CommonKnobs, include_extras=True)
    own = {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}
    fast = Knob(own["fast_ref"].parse, field="fast_ref")
    others = {"mode": Knob(of_value(str)), "fast-ref-gpu": fast}
    return {**{name.replace("_", "-"): knob for name, knob in own.items()}, **others}


COMMON_KNOBS: Mapping[str, Knob] = _knobs()
"""The knobs by name."""
