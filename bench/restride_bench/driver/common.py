"""The knobs that every driver shares, as one frozen value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from . import tokens
from .attr_text import wrong
from .knobs import knob_text, parse_bool, parse_count, unquoted

_LEAST_MS, _MOST_MS = 10, 60_000
_FAST_MS = 10
PEERS = ("onednn", "torch", "numpy", "memcpy")


@dataclass(frozen=True, slots=True)
class CommonKnobs:
    """How cases are run. Field `fix_times_per_prb` is the knob `--fix-times-per-prb`, and so on."""

    mode: str = "C"
    mode_modifier: str = ""
    engine: str = "cpu"
    allow_enum_tags_only: bool = True
    cold_cache: str = "none"
    fix_times_per_prb: int = 0
    max_ms_per_prb: int = 3000
    mem_check: bool = True
    memory_kind: str = "usm"
    stream_kind: str = "def"
    num_streams: int = 1
    check_ref_impl: bool = False
    attr_same_pd_check: bool = False
    fast_ref: bool = True
    cpu_isa_hints: str = "none"
    global_impl: str = ""
    global_skip_impl: str = ""
    execution_mode: str = "direct"
    buffer_prefix: str = ""
    peers: tuple[str, ...] = ()
    # From here on: what is printed, and how the work is spread. These are in no reproducer line.
    repeats_per_prb: int = 1
    start: int = 0
    canonical: bool = False
    summary: str = "failures"
    verbose: int = 0
    perf_template: str = "def"
    jobs: int = 0
    json: bool = False

    def words(self) -> list[str]:
        """The knobs that another run needs to do the same, except those at their defaults."""
        found = [(f.name, getattr(self, f.name), f.default) for f in fields(self)[: _printed()]]
        return [knob_text(name, value) for name, value, default in found if value != default]

    def summarizes(self, what: str) -> bool:
        """True where the summary has this part: as the last word about it says, or failures alone."""
        found = [word for word in ("failures", *self.summary.split("+")) if word.removeprefix("no-") == what]
        return found[-1:] == [what]

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
        """Which engine of its kind."""
        return int(self.engine[len(self.engine_kind) + 1 :] or 0)


def _printed() -> int:
    return [f.name for f in fields(CommonKnobs)].index("repeats_per_prb")


def _parse_mode(common: CommonKnobs, text: str) -> CommonKnobs:
    word = text.upper()
    if word == "F":
        return replace(common, mode="P", mode_modifier="PM", max_ms_per_prb=_FAST_MS)
    if word == "S":
        return replace(common, mode="P", fix_times_per_prb=1, cold_cache="none")
    if word in ("C", "P", "CP", "PC", "B", "R", "I", "L"):
        return replace(common, mode="CP" if word == "PC" else word)
    raise wrong("--mode", text, "there are C, P, CP, F, S, B, R, I and L", "")


def _parse_modifier(common: CommonKnobs, text: str) -> CommonKnobs:
    if re.match(r"[pm]*\Z", text, re.IGNORECASE):
        return replace(common, mode_modifier=text.upper())
    raise wrong("--mode-modifier", text, "there are P and M", "")


def _parse_ms(common: CommonKnobs, text: str) -> CommonKnobs:
    limit = int(float(text)) if re.match(r"[0-9]{1,9}(\.[0-9]*)?(e[0-9])?\Z", text) else -1
    if limit < 0:
        raise wrong("--max-ms-per-prb", text, "it is a number of milliseconds", "")
    return replace(common, max_ms_per_prb=min(max(limit, _LEAST_MS), _MOST_MS))


def _parse_peers(common: CommonKnobs, text: str) -> CommonKnobs:
    names = tuple(dict.fromkeys(text.lower().split(","))) if text else ()
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise wrong("--peers", text, f"there is no peer {unknown[0]!r}", f"there are {', '.join(PEERS)}")
    return replace(common, peers=names)


def _parse_summary(common: CommonKnobs, text: str) -> CommonKnobs:
    for word in text.split("+"):
        if word.removeprefix("no-") not in ("failures", "impl", "impl-csv"):
            raise wrong("--summary", text, "there are failures, impl, impl-csv, and no- before each", "")
    return replace(common, summary=text)


def _parse_check_ref_impl(common: CommonKnobs, text: str) -> CommonKnobs:
    wanted = text == "cpu" or (text != "gpu" and parse_bool("--check-ref-impl", text))
    return replace(common, check_ref_impl=wanted)


def _parse_template(common: CommonKnobs, text: str) -> CommonKnobs:
    tokens.check(text)
    return replace(common, perf_template=text or "def")


def _text(field: str, pattern: str, why: str) -> Callable[[CommonKnobs, str], CommonKnobs]:
    """A knob that takes what the pattern finds, in any case; `why` says in words what that is."""

    def parse(common: CommonKnobs, text: str) -> CommonKnobs:
        if re.match(rf"({pattern})\Z", text.lower()):
            return _with(common, field, text.lower())
        raise wrong(_knob(field), text, why, "")

    return parse


def _choice(field: str, *allowed: str) -> Callable[[CommonKnobs, str], CommonKnobs]:
    return _text(field, "|".join(allowed), f"there are {', '.join(allowed)}")


def _clamped(field: str, least: int = 0) -> Callable[[CommonKnobs, str], CommonKnobs]:
    """A number of which less than there can be is the least, as benchdnn takes it."""

    def parse(common: CommonKnobs, text: str) -> CommonKnobs:
        number = least if re.match(r"-[0-9]{1,18}\Z", text) else parse_count(_knob(field), text)
        return _with(common, field, max(number, least))

    return parse


def _filter(field: str, other: str) -> Callable[[CommonKnobs, str], CommonKnobs]:
    """Names of implementations, which may be quoted: there is one filter, and the last knob sets it."""
    return lambda common, text: _with(_with(common, other, ""), field, unquoted(text))


def _flag(field: str, knob: str = "") -> Callable[[CommonKnobs, str], CommonKnobs]:
    return lambda common, text: _with(common, field, parse_bool(knob or _knob(field), text or "1"))


def _count(field: str, least: int = 0) -> Callable[[CommonKnobs, str], CommonKnobs]:
    def parse(common: CommonKnobs, text: str) -> CommonKnobs:
        number = parse_count(_knob(field), text)
        if number < least:
            raise wrong(_knob(field), text, f"it is {least} or more", "")
        return _with(common, field, number)

    return parse


def _knob(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _with(common: CommonKnobs, field: str, value: Any) -> CommonKnobs:
    return replace(common, **{field: value})


def by_default(common: CommonKnobs, name: str) -> CommonKnobs:
    """What an empty value of a knob makes of the common knobs: its default."""
    field = "fast_ref" if name == "fast-ref-gpu" else name.replace("-", "_")
    return _with(common, field, getattr(CommonKnobs(), field))


COMMON_KNOBS: dict[str, Callable[[CommonKnobs, str], CommonKnobs]] = {
    "mode": _parse_mode,
    "mode-modifier": _parse_modifier,
    "engine": _text(
        "engine",
        "(cpu|gpu|reference|sycl(:[a-z]+(_[a-z]+)?){0,2})(:[0-9]{1,3})?",
        "there are cpu, gpu, reference, sycl and sycl:BACKEND:KIND, with or without an index, as in cpu:0",
    ),
    "allow-enum-tags-only": _flag("allow_enum_tags_only"),
    "canonical": _flag("canonical"),
    "cold-cache": _text(
        "cold_cache",
        r"(none|wei|all|custom)(\+tlb(:[0-9]*\.?[0-9]+[mg]?)?)?",
        "there are none, wei, all and custom, with or without +tlb or +tlb:SIZE, as in all+tlb:1G",
    ),
    "fix-times-per-prb": _clamped("fix_times_per_prb"),
    "max-ms-per-prb": _parse_ms,
    "repeats-per-prb": _clamped("repeats_per_prb", least=1),
    "start": _count("start"),
    "mem-check": _flag("mem_check"),
    "memory-kind": _choice("memory_kind", "usm", "buffer", "usm_device", "usm_shared"),
    "stream-kind": _choice("stream_kind", "def", "in_order", "out_of_order"),
    "num-streams": _count("num_streams", least=1),
    "check-ref-impl": _parse_check_ref_impl,
    "attr-same-pd-check": _flag("attr_same_pd_check"),
    "fast-ref": _flag("fast_ref"),
    "fast-ref-gpu": _flag("fast_ref", "--fast-ref-gpu"),
    "cpu-isa-hints": _choice("cpu_isa_hints", "none", "no_hints", "prefer_ymm"),
    "global-impl": _filter("global_impl", "global_skip_impl"),
    "global-skip-impl": _filter("global_skip_impl", "global_impl"),
    "buffer-prefix": lambda common, text: _with(common, "buffer_prefix", text),
    "execution-mode": _choice("execution_mode", "direct", "graph", "native_graph"),
    "summary": _parse_summary,
    "verbose": _count("verbose"),
    "perf-template": _parse_template,
    "jobs": _count("jobs"),
    "json": _flag("json"),
    "peers": _parse_peers,
}
