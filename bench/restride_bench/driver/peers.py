"""Peers beside restride: the same problem, the same source, in turn, round after round (--peers)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

import restride as rs
from restride import Error
from restride.desc.tags import to_tag

from ..array_peers import NumPy, Torch
from ..measure import Quartiles, Timing, alternate, batch_size
from ..peer import Peer, PeerRefusal
from ..peers import OneDNNPeer, open_peers
from ..problem import PeerProblem, storage
from . import peer_shuffle
from .cases import Case
from .common import CommonKnobs
from .fill import POISON, Bytes
from .peer_arithmetic import arithmetic_of, is_comparable
from .primitives.reorder import ReorderCase
from .primitives.shuffle import ShuffleCase
from .result import PeerTime

_ROUNDS = 15
_LONGEST = 200  # characters of a reason
_OURS, _MEMCPY = "restride", "memcpy"
_UNASKED = ("boolean",)  # in conversions; moved, it is a byte
_PEERS = {"onednn": "oneDNN", "torch": "torch", "numpy": "NumPy"}
Call = Callable[[], object]


def beside(
    case: Case,
    common: CommonKnobs,
    call: Callable[[], object],
    md: rs.MemoryDesc,
    storages: tuple[Bytes, Bytes],
) -> tuple[PeerTime, ...]:
    """Time restride and every peer in turn. `storages` are its source, of descriptor `md`, and its answer."""
    source, answer = _padded_with_zeros(md, storages[0]), storages[1]
    calls: dict[str, Call] = {_OURS: call}
    kernels, refused, answers = dict[str, str](), dict[str, str](), dict[str, Bytes]()
    for name in common.peers:
        try:
            calls.update(_tried(_prepared(name, case, source, answers, kernels, answer.size)))
        except Exception as reason:  # Whatever a peer fails of, it is not restride that failed.
            refused[name] = _why(reason)
    times = _timed(calls, common.fix_times_per_prb or _ROUNDS)
    found = [
        _found(name, case, times, kernels, (answers.get(name), answer))
        for name in common.peers
        if name not in refused
    ]
    return (*found, *(PeerTime(name, refused=why) for name, why in refused.items()))


def _timed(calls: Mapping[str, Call], rounds: int) -> dict[str, Timing]:
    with np.errstate(all="ignore"):
        # The slowest decides how many calls make a sample: a clock read is nothing beside it.
        return alternate(calls, rounds=rounds, number=min(map(batch_size, calls.values())))


def _tried(calls: Mapping[str, Call]) -> Mapping[str, Call]:
    """Calls of which each has been run once. Raises what a peer raises that cannot do the work after all."""
    with np.errstate(all="ignore"):
        for call in calls.values():
            call()
    return calls


def _why(reason: Exception) -> str:
    """One line of a refusal; the first one of what other people's libraries raise."""
    if isinstance(reason, PeerRefusal | Error):
        return " ".join(str(reason).split())
    first = next(iter(str(reason).splitlines()), "")
    return f"{type(reason).__name__}: {first}"[:_LONGEST]


def _padded_with_zeros(md: rs.MemoryDesc, held: Bytes) -> Bytes:
    """The source as the peers expect it: some of them copy its padding."""
    if md.padded_dims == md.dims:
        return held
    engine, clean = rs.Engine("cpu"), storage(held.size)
    src, dst = rs.Memory(md, engine, held), rs.Memory(md, engine, clean)
    rs.Reorder(src, dst).execute(rs.Stream(engine), src, dst)
    return clean


def _prepared(
    name: str, case: Case, source: Bytes, answers: dict[str, Bytes], kernels: dict[str, str], size: int
) -> Mapping[str, Call]:
    """What is timed of one peer: one call, or all the ways in which bytes are copied."""
    threads = rs.get_num_threads()
    if name == _MEMCPY:
        half = (source.size + size) // 2
        return {f"{_MEMCPY} by {way}": copy for way, copy in _copies(half, threads).items()}
    peer = _peer(name, threads)
    answers[name] = storage(size)
    answers[name][...] = POISON
    ready = _of_case(peer, case, source, answers[name])
    kernels[name] = ready[1]
    return {name: ready[0]}


def _copies(nbytes: int, threads: int) -> dict[str, Call]:
    """Copies of so many bytes: as much is read and written as by the problem."""
    src, dst = storage(nbytes), storage(nbytes)
    src[...], dst[...] = 1, 0
    return NumPy(threads).copies(src, dst)


@cache
def _peer(name: str, threads: int) -> Peer:
    found, missing = open_peers([_PEERS[name]], threads)
    if missing:
        raise PeerRefusal(missing[_PEERS[name]])
    return found[0]


def _of_case(peer: Peer, case: Case, source: Bytes, answer: Bytes) -> tuple[Call, str]:
    """A function to be timed, and the name of the kernel behind it."""
    if isinstance(case, ShuffleCase):
        return _of_shuffle(peer, case, source, answer)
    if not isinstance(case, ReorderCase):
        raise PeerRefusal("peers are asked for reorders and shuffles")
    ready = peer.prepare(_problem(case), source, answer)
    return ready.call, ready.kernel


def _problem(case: ReorderCase) -> PeerProblem:
    """The reorder as peers have it. Raises PeerRefusal for what they are not asked."""
    if case.oflag or case.runtime_dim_mask or any(case.strides):
        raise PeerRefusal("peers are asked for known dims, tags, and no compensation")
    for name in (case.sdt, case.ddt):
        _check_type(name, *_UNASKED)
    src_tag, dst_tag = (str(to_tag(tag, len(case.dims))) for tag in (case.stag, case.dtag))
    return PeerProblem(case.desc, case.dims, case.sdt, src_tag, case.ddt, dst_tag, arithmetic_of(case))


def _check_type(name: str, *unasked: str) -> None:
    """Refuse what peers have not; types of less than a byte in any case, as strides count elements."""
    if name in unasked or rs.DataType.parse(name).bits < 8:
        raise PeerRefusal(f"peers are not asked for {name}")


def _of_shuffle(peer: Peer, case: ShuffleCase, source: Bytes, answer: Bytes) -> tuple[Call, str]:
    _check_type(case.dt)
    md = rs.MemoryDesc(case.dims, case.dt, case.tag)
    if isinstance(peer, OneDNNPeer):
        return peer_shuffle.of_onednn(peer.library, case, source, answer)
    views = peer_shuffle.views(md, case)
    if isinstance(peer, Torch):
        return peer_shuffle.of_torch(peer.torch, views, (source, answer)), ""
    return peer_shuffle.of_numpy(views, (source, answer)), ""


def _found(
    name: str,
    case: Case,
    times: Mapping[str, Timing],
    kernels: Mapping[str, str],
    answers: tuple[Bytes | None, Bytes],
) -> PeerTime:
    """The ratio of times within each round, over the rounds."""
    timed = [key for key in times if key == name or key.startswith(f"{name} by ")]
    best = min(timed, key=lambda key: times[key].spread.median)
    ratio: Quartiles = times[_OURS].times_faster_than(times[best])
    least, median = min(times[best].seconds) * 1e3, times[best].spread.median * 1e3
    theirs, ours = answers
    differs = theirs is not None and is_comparable(case) and not np.array_equal(theirs, ours)
    kernel = kernels.get(name, best.partition(" by ")[2])
    return PeerTime(name, kernel, least, median, (ratio.median, ratio.low, ratio.high), other_answer=differs)
