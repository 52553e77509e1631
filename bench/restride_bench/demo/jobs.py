"""The demo's work: tensors moved there and back, their speed compared with NumPy and memcpy, and checks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from restride.desc.tags import parse_tag
from restride.runtime.alloc import Array

from ..array_peers import NumPy
from ..measure import Call, batch_size
from ..peer import Peer, PreparedCall
from ..peers import Restride
from ..problem import PeerArithmetic, PeerProblem
from ..study import OWN, BenchSetup, RowPlan, race
from .data import Data

_MOST_CALLS = 50
_EXACT = "same bits"


class TripTensor(NamedTuple):
    """One tensor: what to do with it, and the storage it starts from as bytes."""

    problem: PeerProblem
    source: Array


@dataclass(frozen=True, slots=True)
class Trip:
    """Tensors moved together into another format and back; `name` says what, `tensors` how many of what."""

    name: str
    tensors: str
    parts: tuple[TripTensor, ...]


@dataclass(frozen=True, slots=True)
class TripRow:
    """One way of a trip, in 1e9 bytes read and written per second; `wrong` is empty where all is right."""

    name: str
    tensors: str
    moved: int
    restride: float
    numpy: float
    memcpy: float
    check: str
    wrong: str

    def values(self) -> dict[str, Any]:
        """The row for `--json`."""
        ratios = {"over_numpy": self.restride / self.numpy, "of_memcpy": self.restride / self.memcpy}
        return {**asdict(self), **ratios}


def measure_trip(trip: Trip, threads: int, rounds: int) -> Iterator[TripRow]:
    """Time and check the way there, then the way back from what it gave."""
    setting = BenchSetup([Restride(threads), NumPy(threads)], [], threads, rounds, 0)
    results = [part.problem.destination() for part in trip.parts]
    rates = _rates(trip.parts, results, setting)
    wrong = _first(p.problem.wrong(p.source, got) for p, got in zip(trip.parts, results, strict=True))
    yield TripRow(trip.name, trip.tensors, *rates, "each element", wrong)
    back = tuple(TripTensor(_reverse(p.problem), got) for p, got in zip(trip.parts, results, strict=True))
    results = [part.problem.destination() for part in back]
    rates = _rates(back, results, setting)
    wrong = _first(_differs(p, got) for p, got in zip(trip.parts, results, strict=True))
    rounded = any(_step(part.problem) for part in trip.parts)
    yield TripRow("  and back", trip.tensors, *rates, "half a step" if rounded else _EXACT, wrong)


def _rates(
    parts: Sequence[TripTensor], results: Sequence[Array], setting: BenchSetup
) -> tuple[int, float, float, float]:
    """Bytes moved; then 1e9 bytes per second of restride, NumPy and the fastest copy."""
    spare = [part.problem.destination() for part in parts]
    sides = {
        peer.name: _together(peer.prepare, parts, into)
        for peer, into in zip(setting.peers, (results, spare), strict=True)
    }
    copies = _copies(parts, spare, setting.peers)
    calls = {name: PreparedCall(call) for name, call in {**sides, **copies}.items()}
    number = min(batch_size(sides[OWN]), _MOST_CALLS)
    moved = sum(part.problem.moved for part in parts)
    row = race(RowPlan("", moved, calls, is_by_least=True), setting, number=number)
    memcpy = max(map(row.rate, copies))
    return moved, row.rate() / 1e9, row.rate("NumPy") / 1e9, memcpy / 1e9


def _copies(parts: Sequence[TripTensor], results: Sequence[Array], peers: Sequence[Peer]) -> dict[str, Call]:
    """The ways to copy as many bytes as the trip reads and writes, in as many pieces.

    Where it writes more than it reads, copies whose rest is filled are among them: to write alone is
    faster from some size on.
    """
    ways: dict[str, list[Call]] = {}
    for part, result in zip(parts, results, strict=True):
        half, written = part.problem.moved // 2, result.nbytes
        source = np.resize(np.arange(251, dtype=np.uint8), half)
        target = np.ones(max(half, written), np.uint8)
        read = min(half, part.problem.moved - written)
        for kind, copied in {"": half, " and fill": read}.items():
            fill = [functools.partial(target[copied:].fill, 0)] if copied < half else []
            for peer in peers:
                for name, call in peer.copies(source[:copied], target[:copied]).items():
                    ways.setdefault(f"copy{kind} by {name}", []).extend([call, *fill])
    return {name: _all_of(calls) for name, calls in ways.items()}


def photo_trips(person: Data, cat: Data, views: int) -> Iterator[Trip]:
    """A batch of `views` views of each photograph, as a network wants it and back."""
    yield _trip("photo u8 nhwc → f32 nChw16c", [_batch(person, views)], "acdb", "f32", "nChw16c", [None])
    yield _trip("photo u8 nhwc → f32 nchw / 255", [_batch(cat, views)], "acdb", "f32", "nchw", [1 / 255])


def weight_trips(data: Data) -> Iterator[Trip]:
    """The convolutions of a model, blocked for f32 kernels and quantized for s8 kernels, and back."""
    tensors = list(data.arrays.values())
    scales = [127 / float(np.abs(x).max() or 1) for x in tensors]
    unscaled = [None] * len(tensors)
    yield _trip("weights f32 oiw → f32 OIw16i16o", tensors, "abc", "f32", "OIw16i16o", unscaled)
    yield _trip("weights f32 oiw → s8 OIw4i16o4i", tensors, "abc", "s8", "OIw4i16o4i", scales)


def _batch(data: Data, views: int) -> Array:
    """(N, H, W, 3): the picture, mirrored and turned by half, in turn."""
    (picture,) = data.arrays.values()
    seen = [picture, picture[:, ::-1], picture[::-1], picture[::-1, ::-1]]
    return np.stack([seen[i % len(seen)] for i in range(views)])


def _trip(
    name: str, arrays: Sequence[Array], src: str, to: str, dst: str, scales: Sequence[float | None]
) -> Trip:
    """The trip of physical arrays of format `src`, a base tag, into type `to` and format `dst`."""
    parts = []
    for x, scale in zip(arrays, scales, strict=True):
        dims = tuple(x.shape[src.index(letter)] for letter in sorted(src))
        of = "u8" if x.dtype == np.uint8 else "f32"
        problem = PeerProblem(name, dims, of, src, to, str(parse_tag(dst)), PeerArithmetic(scale))
        parts.append(TripTensor(problem, np.ascontiguousarray(x).reshape(-1).view(np.uint8)))
    one = "x".join(map(str, parts[0].problem.dims))
    return Trip(name, one if len(parts) == 1 else f"{len(parts)} tensors", tuple(parts))


def _reverse(p: PeerProblem) -> PeerProblem:
    scale = None if p.scale is None else 1 / p.scale
    return PeerProblem(p.name, p.dims, p.dst_type, p.dst_tag, p.src_type, p.src_tag, PeerArithmetic(scale))


def _together(prepare: Callable[..., Any], parts: Sequence[TripTensor], results: Sequence[Array]) -> Call:
    """One call that does the work of all parts."""
    return _all_of([prepare(p.problem, p.source, got).call for p, got in zip(parts, results, strict=True)])


def _all_of(calls: Sequence[Call]) -> Call:
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        for call in calls:
            call()

    return run


def _step(problem: PeerProblem) -> float:
    """Return the size of a step of the quantized type; 0 if the conversion is exact."""
    loses = problem.dst_dtype.kind in "iu" and problem.src_dtype.kind not in "iu"
    return 1 / problem.scale if loses and problem.scale else 0.0


def _differs(part: TripTensor, result: Array) -> str:
    """Return the difference between the tensor and its round trip, beyond rounding."""
    step = _step(part.problem)
    if not step:
        count = int(np.count_nonzero(part.source != result))
        return f"{count} bytes differ" if count else ""
    before, after = part.source.view(np.float32), result.view(np.float32)
    # The scales are f32: each of the two products may be off by a rounding.
    far = np.abs(after - before) > step / 2 + 4 * np.finfo(np.float32).eps * np.abs(before)
    return f"{int(far.sum())} of {far.size} elements are off by more than half a step" if far.any() else ""


def _first(texts: Iterator[str]) -> str:
    return next((text for text in texts if text), "")
