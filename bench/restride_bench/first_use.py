"""A process of its own that times the first use of several problems and prints the seconds as JSON."""

from __future__ import annotations

import json
import time

from .peers import Restride
from .problem import PeerProblem

_TAGS = ("abcd", "acdb", "aBcd16b", "aBcd8b", "ABcd16b16a")
_TYPES = (("f32", "f32"), ("u8", "u8"), ("f32", "s8"), ("bf16", "f32"))


def problems() -> list[PeerProblem]:
    """Problems of different kernels, small enough that running them takes no time."""
    pairs = [(src, dst) for src in _TAGS for dst in _TAGS if src != dst]
    return [
        PeerProblem("first use", (2, 33, 5, 7), src_type, src, dst_type, dst)
        for number, (src, dst) in enumerate(pairs)
        for src_type, dst_type in (_TYPES[number % len(_TYPES)],)
    ]


def seconds(threads: int = 2) -> list[float]:
    """From descriptors to the end of the first execute, for every problem in turn."""
    peer, taken = Restride(threads), []
    for problem in problems():
        source, target = problem.source(), problem.destination()
        begin = time.perf_counter()
        peer.prepare(problem, source, target).call()
        taken.append(time.perf_counter() - begin)
    return taken


if __name__ == "__main__":
    print(json.dumps(seconds()))
