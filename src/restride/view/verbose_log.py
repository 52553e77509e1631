"""Reads the verbose lines of oneDNN, of every version since 1.0, and of restride, in any log.

    MARKER[,v1][,STAMP][,primitive],exec,ENGINE,KIND,IMPL,PROP,TENSORS[,ATTR],AUX,PROBLEM,MS

MARKER is `mkldnn_verbose` (1.0), `dnnl_verbose` (1.1 to 2.4), `onednn_verbose` or `restride_verbose`. The
attributes came with 1.1, `primitive` with 3.3, the version of the format with 3.6. A tensor is
`src_f32::blocked:ab:f0`, since 3.3 with strides, `src_f32::blocked:ab::f0`, since 3.6 `src:f32:…`.

    MARKER[,v1][,STAMP],graph,exec,ENGINE,ID,KIND,OPERATIONS,FORMATS,TENSORS,FPMATH,IMPL,BACKEND,MS

is an execution of a partition of the graph API; IMPL came with 3.6. The primitives in it have lines of their
own.

Logs are untrusted input: only checked words, numbers and sizes leave this module.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import Error

__all__ = ["Execution", "LoggedPrimitive", "LoggedTensor", "VerboseLog", "read_verbose_log"]

# oneDNN's lines are never longer; the rest of longer ones is skipped.
_LONGEST = 1 << 14
_MOST_MS = 1e9
_MOST_DIGITS = 18
_MOST_REFUSALS = 20
_MARKER = re.compile(rb"(mkldnn|dnnl|onednn|restride)_verbose,")
_OPERATION = re.compile(r"(exec|create)(_nested)?(:[a-z_]{1,40})?")
_NUMBER = re.compile(r"-?[0-9.]{1,40}(e[+-]?[0-9]{1,4})?|-?nan|-?inf", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_:.+>-]{1,120}")
_TENSOR = re.compile(
    rf"([a-z_0-9]{{1,40}})[_:]({'|'.join(DataType.__members__)}):([apo0]*):([a-z_]*)((?::[^: ]*){{0,9}})"
)
_STRIDES = re.compile(r"[0-9]+(x[0-9]+)*")
_LETTERS = re.compile(r"([a-z]+)(-?[0-9]+)")
_DIMS = re.compile(r"[0-9]+(x[0-9]+)*")
# Repetitions that cover this share of the most that any cover count as covering as much.
_NEARLY = 0.9
# Words in the other lines of a log that identify its framework.
_FRAMEWORKS = {"torch": b"torch", "openvino": b"openvino", "tensorflow": b"tensorflow"}


class LoggedTensor(NamedTuple):
    """A tensor of a line. `desc` is None if the line does not describe its memory."""

    name: str
    data_type: str
    was_any: bool
    tag: str
    strides: str
    desc: MemoryDesc | None

    @property
    def format(self) -> str:
        """The tag, or the kind of a format without one."""
        return self.tag + (" with strides" if self.strides else "")


@dataclass(frozen=True)
class LoggedPrimitive:
    """The common part of lines of one primitive: everything except their time."""

    engine: str
    kind: str
    implementation: str
    prop_kind: str
    tensors: tuple[LoggedTensor, ...]
    attributes: str
    auxiliary: str
    problem: str

    @property
    def is_on_cpu(self) -> bool:
        """False for GPUs and for reorders between engines, such as `cpu2gpu`."""
        return self.engine.startswith("cpu") and "2" not in self.engine

    @property
    def formats(self) -> str:
        """The formats in the order of the line: `abcd Acdb8a aBcd8b`; without those of biases and scales."""
        return " ".join(t.format for t in self.tensors if t.name in _SHOWN and t.data_type != "undef")

    @property
    def bytes(self) -> int | None:
        """The size of all tensors in bytes; None if one is unknown."""
        sizes = [t.desc.size if t.desc else None for t in self.tensors if t.data_type != "undef"]
        return None if None in sizes else sum(size for size in sizes if size)

    @property
    def extents(self) -> dict[str, int]:
        """The numbers of a problem such as `mb1_ic3oc64`, by their letters."""
        return {name: int(number) for name, number in _LETTERS.findall(self.problem)}

    def tensor(self, *names: str) -> LoggedTensor | None:
        """Return the first tensor of the first of these names in the line."""
        real = [tensor for tensor in self.tensors if tensor.data_type != "undef"]
        return next((tensor for name in names for tensor in real if tensor.name == name), None)

    def option(self, name: str) -> str:
        """Return a word of the auxiliary field, such as that of `alg:` or `axis:`, or ""."""
        found = (word.partition(":")[2] for word in self.auxiliary.split() if word.startswith(name + ":"))
        return next(found, "")


_SHOWN = (
    "src",
    "wei",
    "dst",
    "data",
    "diff_src",
    "diff_dst",
    "diff_wei",
    "src_layer",
    "wei_layer",
    "dst_layer",
)


class Execution(NamedTuple):
    """One execution: the index of its primitive in the log, its time, and its start if lines have one."""

    primitive: int
    ms: float
    start_ms: float | None


@dataclass
class VerboseLog:
    """The verbose lines of a log, in order, and facts about its other lines."""

    primitives: list[LoggedPrimitive] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)
    # For each primitive: the number of executions, and their total milliseconds.
    counts: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    # The length of the shortest sequence that the log ends with at least twice, and its count: a model that
    # runs again executes the same primitives in the same order. (0, 1) if nothing is repeated.
    period: tuple[int, int] = (0, 1)
    created: dict[str, tuple[int, float]] = field(default_factory=dict)
    # For partitions of the graph API, by kind and implementation: executions and milliseconds, which include
    # those of the primitives in them.
    partitions: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    info: list[str] = field(default_factory=list)
    other_lines: int = 0
    other_verbose: int = 0
    refused: int = 0
    refusals: list[tuple[int, str]] = field(default_factory=list)
    framework: str = ""
    # Since 3.3, lines mark the tensors whose format oneDNN was free to choose.
    marks_any: bool = False
    # The total time of all executions.
    total_ms: float = 0.0

    @property
    def is_training(self) -> bool:
        """Whether the log has backward primitives."""
        return any(p.prop_kind.startswith("backward") for p in self.primitives)

    @property
    def runs(self) -> list[range]:
        """The places of the executions of each run: the part before the repetitions, then each of these."""
        length, repeats = self.period
        count = len(self.executions)
        first = count - length * repeats
        starts = range(first, count, length or 1)
        return [range(first), *(range(start, start + length) for start in starts)]


def read_verbose_log(file: BinaryIO | Iterable[bytes]) -> VerboseLog:
    """Read a log, opened in binary mode, or its lines. Never raises for invalid lines."""
    log, known = VerboseLog(), dict[str, int]()
    words: Counter[str] = Counter()
    for number, line in _lines(file):
        # PowerShell redirects to UTF-16, which is ASCII with a zero after each byte.
        pieces = _MARKER.split(line.replace(b"\0", b""))
        if len(pieces) == 1:
            log.other_lines += 1
            words.update(name for name, word in _FRAMEWORKS.items() if word in line.lower())
            continue
        for body in pieces[2::2]:
            try:
                _read(body, log, known)
            except _LineRefusal as refusal:
                log.refused += 1
                if len(log.refusals) < _MOST_REFUSALS:
                    log.refusals.append((number, str(refusal)))
    log.framework = max(words, key=lambda name: words[name], default="")
    times: list[list[float]] = [[] for _ in log.primitives]
    for each in log.executions:
        times[each.primitive].append(each.ms)
    log.counts, log.times = list(map(len, times)), list(map(math.fsum, times))
    log.total_ms = math.fsum(each.ms for each in log.executions)
    log.period = _period([each.primitive for each in reversed(log.executions)])
    return log


class _LineRefusal(Exception):
    """The reason why a line is skipped."""


def _lines(file: BinaryIO | Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield every line with its number, truncated if longer than any of oneDNN's."""
    read = getattr(file, "readline", None)
    if read is None:
        yield from enumerate((line[: _LONGEST + 1] for line in file), 1)
        return
    number, is_rest = 0, False
    while line := read(_LONGEST + 1):
        number += not is_rest
        if not is_rest:
            yield number, line
        is_rest = not line.endswith(b"\n")


def _read(body: bytes, log: VerboseLog, known: dict[str, int]) -> None:
    """Add one verbose line to the log. Raises _LineRefusal."""
    if len(body) > _LONGEST - 64:
        raise _LineRefusal(f"longer than {_LONGEST} characters")
    text = body.decode("ascii", "replace").rstrip("\r\n ")
    if not text.isprintable() or "\ufffd" in text:
        raise _LineRefusal("has characters that are not printable ASCII")
    fields = text.split(",")
    if re.fullmatch("v[0-9]{1,3}", fields[0]):
        fields = fields[1:]
    stamp = None
    if fields and _NUMBER.fullmatch(fields[0]):
        stamp, fields = _time(fields[0], "time stamp", math.inf), fields[1:]
    if fields[:1] == ["info"] or fields[1:2] == ["info"]:
        if fields[0] == "info" and len(log.info) < _MOST_REFUSALS:
            log.info.append(",".join(fields[1:])[:200])
        return
    if fields[:1] == ["primitive"]:
        fields, log.marks_any = fields[1:], True
    if fields[:2] == ["graph", "exec"]:
        if len(fields) not in (11, 12):
            raise _LineRefusal(f"has {len(fields)} fields, not 11 or 12")
        kind, implementation = fields[4], fields[9] if len(fields) == 12 else "?"
        if not _WORD.fullmatch(kind) or not (implementation == "?" or _WORD.fullmatch(implementation)):
            raise _LineRefusal("its kind or its implementation is not a word")
        _add(log.partitions, (kind, implementation), _time(fields[-1], "time", _MOST_MS))
        return
    operation = _OPERATION.fullmatch(fields[0]) if fields else None
    # Dispatching reasons, checks, compiles of partitions.
    if operation is None or operation[3] in (":check", ":dispatch", ":external"):
        log.other_verbose += 1
        return
    if len(fields) not in (9, 10):
        raise _LineRefusal(f"has {len(fields)} fields, not 9 or 10")
    ms = _time(fields[-1], "time", _MOST_MS)
    if operation[1] == "create":
        name = operation[3][1:] if operation[3] in (":cache_hit", ":cache_miss") else "create"
        _add(log.created, name, ms)
        return
    key = ",".join(fields[1:-1])
    if (place := known.get(key)) is None:
        log.primitives.append(_primitive(fields[1:-1]))
        place = known[key] = len(log.primitives) - 1
    log.executions.append(Execution(place, ms, stamp))


def _add(totals: dict[Any, tuple[int, float]], key: object, ms: float) -> None:
    count, total = totals.get(key, (0, 0.0))
    totals[key] = count + 1, total + ms


def _time(text: str, what: str, most: float) -> float:
    try:
        value = float(text if _NUMBER.fullmatch(text) else "")
    except ValueError:
        raise _LineRefusal(f"its {what} is not a number") from None
    if not 0 <= value <= most or math.isinf(value):
        raise _LineRefusal(f"its {what} is not between 0 and {most:g} ms")
    return value


def _primitive(fields: Sequence[str]) -> LoggedPrimitive:
    engine, kind, implementation, prop_kind, tensors, *attributes, auxiliary, problem = fields
    for what, word in (("engine", engine), ("kind", kind), ("implementation", implementation)):
        if not _WORD.fullmatch(word):
            raise _LineRefusal(f"its {what} is not a word")
    matches = [_TENSOR.fullmatch(text) for text in tensors.split()]
    if None in matches:
        raise _LineRefusal("has a tensor in an unknown form")
    parts = [match.groups() for match in matches if match]
    shapes = _shapes(kind, problem, auxiliary, parts)
    read = tuple(_tensor(part, shape) for part, shape in zip(parts, shapes, strict=True))
    words = "".join(attributes)
    return LoggedPrimitive(engine, kind, implementation, prop_kind, read, words, auxiliary, problem)


def _tensor(part: Sequence[str], dims: tuple[int, ...] | None) -> LoggedTensor:
    name, data_type, properties, kind, rest = part
    tag, *more = rest[1:].split(":") if rest else [""]
    if not re.fullmatch("[a-zA-Z0-9*]{0,64}", tag):
        raise _LineRefusal("has a format tag in an unknown form")
    strides = more[0] if more and _STRIDES.fullmatch(more[0]) else ""
    desc = None
    if kind == "blocked" and dims is not None and "0" not in properties and "o" not in properties:
        try:
            steps = [_int(text) for text in strides.split("x")] if strides else None
            # oneDNN's strides count elements, over whole blocks; for blocked formats they only add gaps.
            desc = MemoryDesc(dims, data_type, steps if steps and tag.isalpha() else tag)
        except Error:
            desc = None
    return LoggedTensor(name, data_type, "a" in properties, tag or kind, strides, desc)


# --- the dims of a problem ----------------------------------------------------------------------------------


def _shapes(
    kind: str, problem: str, auxiliary: str, parts: Sequence[Sequence[str]]
) -> list[tuple[int, ...] | None]:
    """Return the dims of every tensor, or None if the problem does not specify them."""
    ranks = [
        sum(map(str.isalpha, re.sub("[0-9]+[a-z]", "", part[4].split(":")[1]))) if part[4] else 0
        for part in parts
    ]
    roles = [part[0].removeprefix("diff_") for part in parts]
    lists = re.split("[: ]", problem)
    if all(_DIMS.fullmatch(each) for each in lists):
        shapes = [tuple(map(_int, each.split("x"))) for each in lists]
        if kind == "concat" and len(shapes) == roles.count("src"):
            shapes.append(_joined(shapes, auxiliary))
        found = _listed(kind, shapes, roles)
    else:
        found = _lettered(kind, problem, roles)
    fits = zip(found, ranks, strict=True)
    return [dims if dims is not None and len(dims) == rank else None for dims, rank in fits]


def _listed(
    kind: str, shapes: Sequence[tuple[int, ...]], roles: Sequence[str]
) -> list[tuple[int, ...] | None]:
    """Parse explicit dims: `64x3x7x7`, `2x16:16x8:2x8`; those of a result may be missing."""
    found: list[tuple[int, ...] | None] = []
    inputs = iter(shapes)
    last = shapes[-1]
    if kind == "matmul" and len(shapes) == 2 and all(len(shape) > 1 for shape in shapes):
        batch = [max(sizes) for sizes in zip(*(shape[:-2] for shape in shapes), strict=False)]
        last = (*batch, shapes[0][-2], shapes[1][-1])
    if kind == "binary":
        last = tuple(max(sizes) for sizes in zip(*shapes, strict=False))
    for role in roles:
        if role == "bia":
            found.append((last[-1],) if kind != "matmul" else (1,) * (len(last) - 1) + last[-1:])
        elif role == "dst" and len(shapes) > 1:
            found.append(last)
        else:
            found.append(next(inputs, last))
    return found


def _joined(shapes: Sequence[tuple[int, ...]], auxiliary: str) -> tuple[int, ...]:
    """Return the dims of the result of a concat along `axis:1`."""
    columns = enumerate(zip(*shapes, strict=False))
    return tuple(sum(sizes) if auxiliary == f"axis:{axis}" else sizes[0] for axis, sizes in columns)


def _lettered(kind: str, problem: str, roles: Sequence[str]) -> list[tuple[int, ...] | None]:
    """Parse letters with numbers: `mb1_ic3oc64_ih64oh32kh7sh2dh0ph3_…`."""
    sizes = {letters: _int(number) for letters, number in _LETTERS.findall(problem)}
    axes = [axis for axis in "dhw" if f"i{axis}" in sizes]
    grouped = ["g"] if "g" in sizes else []
    by = sizes.get("g", 1) or 1
    sizes |= {"og": sizes.get("oc", 0) // by, "ig": sizes.get("ic", 0) // by}
    names: Mapping[str, list[str]] = {
        "src": ["mb", "ic", *(f"i{axis}" for axis in axes)],
        "dst": ["mb", "oc" if "oc" in sizes else "ic", *(f"o{axis}" for axis in axes)],
        "wei": [*grouped, "og", "ig", *(f"k{axis}" for axis in axes)],
        "bia": ["oc"],
    }
    if kind == "inner_product":
        names = {**names, "dst": ["mb", "oc"], "wei": ["oc", "ic", *(f"i{axis}" for axis in axes)]}
    elif kind == "matmul":
        batch = ["b"] if "b" in sizes else []
        names = {"src": [*batch, "m", "k"], "wei": [*batch, "k", "n"], "dst": [*batch, "m", "n"]}
    elif not any(f"o{axis}" in sizes for axis in axes):
        names = {**names, "dst": names["src"]}
    names = {**names, "data": names["src"], "ws": names["dst"]}
    if "x" in sizes:
        return [(sizes["x"],) for _ in roles]
    found: list[tuple[int, ...] | None] = []
    for role in roles:
        wanted = names.get(role, ["?"])
        found.append(tuple(sizes[name] for name in wanted) if all(name in sizes for name in wanted) else None)
    return found


def _int(text: str) -> int:
    """Parse a number of a line; one too large for any size becomes -1, which no descriptor accepts."""
    return int(text) if len(text) <= _MOST_DIGITS else -1


# --- repetition ---------------------------------------------------------------------------------------------


def _period(newest_first: Sequence[int]) -> tuple[int, int]:
    """Return the shortest p whose repetitions cover nearly as much of the sequence as any, and how many
    times p fits.

    Equal layers at the end of a model repeat too, but cover less than runs of the whole model.
    """
    count = len(newest_first)
    matches = [0] * count  # matches[p]: how far the sequence equals itself p places later
    left = right = 0
    for place in range(1, count):
        length = min(right - place, matches[place - left]) if place < right else 0
        while place + length < count and newest_first[length] == newest_first[place + length]:
            length += 1
        matches[place] = length
        if place + length > right:
            left, right = place, place + length
    covered = {place: place + length for place, length in enumerate(matches) if length >= place > 0}
    enough = _NEARLY * max(covered.values(), default=0)
    best = next((place for place, length in covered.items() if length >= enough), 0)
    return (best, 1 + matches[best] // best) if best else (0, 1)
