"""Peers of restride: the same problem, the same source, in turn, round after round (--peers)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

import restride as rs
from restride import Error
from restride.desc.tags import to_tag

from ..array_peers import NumPy
from ..measure import Timing, alternate, batch_size
from ..peer import Peer, PeerRefusal
from ..peers import open_peers
from ..problem import PeerArithmetic, PeerProblem, storage
from .attr_text import Factors, FactorText
from .cases import Case
from .common import CommonKnobs
from .fill import POISON, Bytes
from .primitives.moves import ReorderCase, ShuffleCase
from .result import PeerTime

_ROUNDS = 15
_LONGEST = 200  # characters of a reason
_OURS, _MEMCPY = "restride", "memcpy"
_PEERS = {"onednn": "oneDNN", "torch": "torch", "numpy": "NumPy"}
_SCALE = 0.5  # about which the scales along a dim lie
_INTEGERS = ("s32", "s8", "u8")
Call = Callable[[], object]


class _PreparedPeer(NamedTuple):
    """The calls to time for one peer: one call, or all ways to copy bytes; its kernel and answer."""

    calls: Mapping[str, Call]
    kernel: str = ""
    answer: Bytes | None = None


def beside(
    case: Case, common: CommonKnobs, call: Call, md: rs.MemoryDesc, storages: tuple[Bytes, Bytes]
) -> tuple[PeerTime, ...]:
    """Time restride and every peer in turn. `storages` are its source, of descriptor `md`, and its answer."""
    source, answer = _padded_with_zeros(md, storages[0]), storages[1]
    calls: dict[str, Call] = {_OURS: call}
    ready, refused = dict[str, _PreparedPeer](), dict[str, str]()
    with np.errstate(all="ignore"):
        for name in common.peers:
            try:
                peer = _prepared(name, case, source, answer.size)
                # Run each once: some find out only now that they cannot do the work.
                for each in peer.calls.values():
                    each()
                ready[name] = peer
                calls.update(peer.calls)
            except Exception as reason:  # Whatever a peer fails of, it is not restride that failed.
                refused[name] = _why(reason)
        # The slowest decides how many calls make a sample, so that a clock read is negligible.
        number = min(map(batch_size, calls.values()))
        times = alternate(calls, rounds=common.fix_times_per_prb or _ROUNDS, number=number)
    measured = [_peer_time(name, case, times, peer, answer) for name, peer in ready.items()]
    return (*measured, *(PeerTime(name, refused=why) for name, why in refused.items()))


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
    rs.onednn.Reorder(src, dst).execute(rs.onednn.Stream(engine), src, dst)
    return clean


def _prepared(name: str, case: Case, source: Bytes, size: int) -> _PreparedPeer:
    """Return the calls to time for a peer whose result has so many bytes; memcpy copies the bytes moved."""
    threads = rs.get_num_threads()
    if name == _MEMCPY:
        src, dst = (storage((source.size + size) // 2) for _ in range(2))
        src[...], dst[...] = 1, 0
        copies = NumPy(threads).copies(src, dst)
        return _PreparedPeer({f"{_MEMCPY} by {way}": copy for way, copy in copies.items()})
    peer, answer = _peer(name, threads), storage(size)
    answer[...] = POISON
    problem = _problem(case)
    if isinstance(case, ShuffleCase) and name != "onednn" and case.axis in case.md.inner_idxs:
        raise PeerRefusal("the axis is blocked")
    call, kernel, _ = peer.prepare(problem, source, answer)
    return _PreparedPeer({name: call}, kernel, answer)


@functools.cache
def _peer(name: str, threads: int) -> Peer:
    peers, missing = open_peers([_PEERS[name]], threads)
    if missing:
        raise PeerRefusal(missing[_PEERS[name]])
    return peers[0]


def _peer_time(
    name: str, case: Case, times: Mapping[str, Timing], peer: _PreparedPeer, ours: Bytes
) -> PeerTime:
    """The ratio of times within each round, over the rounds."""
    best = min(peer.calls, key=lambda key: times[key].spread.median)
    ratio = times[_OURS].times_faster_than(times[best])
    least, median = min(times[best].seconds) * 1e3, times[best].spread.median * 1e3
    differs = peer.answer is not None and not np.array_equal(peer.answer, ours)
    # The bits say something where scales are the same, and nothing is accumulated.
    if differs and isinstance(case, ReorderCase):
        differs = arithmetic_of(case).is_plain
    kernel = peer.kernel if peer.answer is not None else best.partition(" by ")[2]
    return PeerTime(name, kernel, least, median, (ratio.median, ratio.low, ratio.high), other_answer=differs)


def _problem(case: Case) -> PeerProblem:
    """The case as peers have it. Raises PeerRefusal for what they are not asked.

    A shuffle backward is one forward with as many groups as there were elements in each.
    """
    if isinstance(case, ShuffleCase):
        _check_type(case.dt)
        size = case.group if case.is_forward else case.dims[case.axis] // case.group
        both = case.dt, str(to_tag(case.tag, len(case.dims)))
        return PeerProblem(case.desc, case.dims, *both, *both, group_size=size, axis=case.axis)
    if not isinstance(case, ReorderCase):
        raise PeerRefusal("peers are asked for reorders and shuffles")
    if case.oflag or case.runtime_dim_mask or any(case.strides):
        raise PeerRefusal("peers are asked for known dims, tags, and no compensation")
    for name in case.types:
        _check_type(name, "boolean")  # in conversions; moved, it is a byte
    src_tag, dst_tag = (str(to_tag(tag, len(case.dims))) for tag in (case.stag, case.dtag))
    return PeerProblem(case.desc, case.dims, case.sdt, src_tag, case.ddt, dst_tag, arithmetic_of(case))


def _check_type(name: str, *unasked: str) -> None:
    """Refuse what peers have not; types of less than a byte in any case, as strides count elements."""
    if name in unasked or rs.DataType.parse(name).bits < 8:
        raise PeerRefusal(f"peers are not asked for {name}")


def arithmetic_of(case: ReorderCase) -> PeerArithmetic:
    """Return the arithmetic of a reorder. Raises PeerRefusal for arithmetic that is not given to peers.

    Scales along a dim are as many as the case has, with other values.
    """
    src, dst = (_of(case.attr_scales, arg) for arg in ("src", "dst"))
    scale, axis = None, None
    if src is not None:
        scale, axis = (src.value, None) if src.value is not None else (_SCALE, _axis(src))
    if dst is not None and dst.value is not None:
        raise PeerRefusal("of scales of the destination, peers are asked for those along one dim")
    dst_axis = None if dst is None else _axis(dst)
    # One zero point: of the destination where that is of integers, else of the source.
    factors, side = case.attr_zero_points, "dst" if case.ddt in _INTEGERS else "src"
    if any(factor.arg != side or factor.value is None for factor in factors):
        what = "peers are asked for one, of the destination where that is of integers"
        raise PeerRefusal(f"of zero points, {what}")
    post_ops = case.attr_post_ops
    if len(post_ops) > 1 or any(op.name != "sum" or len(op.fields) > 1 for op in post_ops):
        raise PeerRefusal("of post-ops, peers are asked for one sum with a scale")
    beta = post_ops[0].number(0, 1.0) if post_ops else 0.0
    return PeerArithmetic(scale, axis, int(factors[0].value or 0) if factors else 0, beta, dst_axis)


def _of(factors: Factors, arg: str) -> FactorText | None:
    strange = [factor for factor in factors if factor.arg not in ("src", "dst") or factor.groups]
    if strange:
        raise PeerRefusal(f"peers are not asked for {strange[0]}")
    return next((factor for factor in factors if factor.arg == arg), None)


def _axis(factor: FactorText) -> int:
    bits = factor.mask(12)
    if bits.bit_count() != 1:
        raise PeerRefusal("of scales, peers are asked for one, or those along one dim")
    return bits.bit_length() - 1
