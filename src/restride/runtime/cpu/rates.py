"""The rates of this machine: measured when a person asks for it, kept beside the kernels, for predictions.

Copies of three sizes, which lie in the second cache, in the last one and in memory, on one thread and on all:
50 to 100 ms in all, on as many bytes as twice the last cache. What is run depends on the sizes of the caches
and on the number of threads alone. No kernel, schedule or format goes by what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

from ...desc.memory_desc import MemoryDesc
from ...ir.digits import reorder_nest
from ...ir.nest import Compute
from ...schedule.machine import LINE, NOMINAL, RATES, Rates
from ...targets.cpu import lower_nest
from ...targets.isa import CacheSizes, Isa, host_caches, host_isa
from ...targets.store import default_store, text_key
from ..result_pool import allocate
from ..timing import time_call
from .kernel import kernel_of
from .thread_pool import default_pool

# Bytes that the largest copy moves, however large the last cache is.
_MOST_BYTES = 1 << 27
_ROUNDS = 5
# What a stored text holds, and between which numbers all of them lie on any machine: in seconds, and in bytes
# a second.
_STORED = ("region", "copy", "cache", "memory", "memory_limit")
_SECONDS, _BYTES_A_SECOND = (0.0, 0.01), (1e6, 1e15)


def rates_of(processor: str) -> Rates:
    """The rates of this machine, whose processor has this name: as they were kept, else measured and kept."""
    isa, caches = host_isa(), host_caches()
    store = default_store()
    key = text_key("rates", processor, str(default_pool().threads), isa.name, repr(caches))
    rates = parse_rates(store.get(key) or b"")
    if rates is None:
        rates = measure(isa, caches)
        store.put(key, rates_text(rates))
    return rates


def rates_text(rates: Rates) -> bytes:
    """What was measured, as the store keeps it."""
    return " ".join(repr(float(getattr(rates, name))) for name in _STORED).encode()


def parse_rates(text: bytes) -> Rates | None:
    """The rates of such a text; None for one that is none, or of no machine."""
    try:
        region, *others = map(float, text.decode().split())
        is_sane = _SECONDS[0] <= region <= _SECONDS[1]
        is_sane &= all(_BYTES_A_SECOND[0] <= rate <= _BYTES_A_SECOND[1] for rate in others)
        return _rates((region, *others)) if is_sane else None
    except ValueError:
        return None


def measure(isa: Isa, caches: CacheSizes) -> Rates:
    """Measure them on this machine. Raises OutOfMemory where there is no room for the copies."""
    pool = default_pool()
    largest = min(max(2 * caches.l3, 4 * caches.l2), _MOST_BYTES)
    src, dst = allocate(largest // 2), allocate(largest // 2)
    for buffer in (src, dst):
        buffer.bytes()[...] = 1

    def seconds_of(nbytes: int, threads: int = 1) -> float:
        """Of a copy that moves so many bytes."""
        md = MemoryDesc((nbytes // 8,), "f32", "a")
        kernel = kernel_of(lower_nest(reorder_nest(md, md, Compute()), isa, caches), nbytes)
        call = partial(kernel.call, src.address, dst.address, 0)
        if threads > 1:
            parts = NOMINAL.parts_per_thread * threads
            call = partial(pool.run, kernel.code.address, src.address, dst.address, 0, parts)
        return min(time_call(call, _ROUNDS))

    near = caches.l2 // 2
    middle = math.isqrt(caches.l2 * caches.l3) // LINE * LINE
    alone = seconds_of(near)
    copy = near / alone
    cache = min(middle / seconds_of(middle), copy) if caches.l3 >= 4 * caches.l2 else copy
    memory = min(largest / seconds_of(largest), cache)
    region, limit = RATES.region, memory
    if pool.threads > 1:
        region = max(seconds_of(near, pool.threads) - alone / pool.threads, 0.0)
        limit = max(largest / seconds_of(largest, pool.threads), memory)
    return _rates((region, copy, cache, memory, limit))


def _rates(numbers: Iterable[float]) -> Rates:
    """With those that are not measured: tiles are by as much faster, or slower, as copies are."""
    measured = dict(zip(_STORED, numbers, strict=True))
    share = measured["copy"] / RATES.copy
    slow, middle, fast = (rate * share for rate in RATES.tiles)
    return RATES._replace(tiles=(slow, middle, fast), **measured)
