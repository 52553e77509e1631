"""The rates of this machine for predictions: measured on request, and stored with the kernels.

Copies and transposes of four sizes, from the second-level cache to memory, on one thread, and copies on all:
about a second in total, half of it for compiling, on up to twice the size of the last cache. The measurements
depend only on the cache sizes and the number of threads. No kernel, schedule or format depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.digits import reorder_nest
from ...ir.nest import Compute
from ...schedule.machine import CURVES, NOMINAL, RATES, Rates
from ...schedule.moves.staged import one_stage
from ...targets.cpu import lower_nest
from ...targets.isa import CacheSizes, Isa, host_caches, host_isa
from ...targets.store import default_store, text_key
from ..result_pool import allocate
from ..timing import time_call
from .kernel import kernel_of
from .thread_pool import default_pool

# Limit on the bytes of the largest copy, whatever the size of the last cache.
_MOST_BYTES = 1 << 27
_ROUNDS = 5
# Contents of a stored text, with bounds that hold on any machine, in seconds, bytes, and bytes per second.
_STORED = ("region", "copy", "cache", "memory", "memory_limit")
_SECONDS, _BYTES_A_SECOND = (0.0, 0.01), (1e3, 1e15)
# Sizes of the curves: in the second-level cache, between both, where a shared last cache is full, and in
# memory. For each kind of `CURVES`, the type and the format to measure.
_SIZES = 4
_PROBES = (("f32", "nchw"), ("u8", "nChw16c"), ("f32", "nChw16c"), ("u8", "nhwc"), ("f32", "nhwc"))
_CHANNELS, _SMALL, _PLANE = 128, 14, 56


def rates_of(processor: str) -> Rates:
    """Return the rates of this machine, whose processor has this name: stored ones, or newly measured."""
    isa, caches = host_isa(), host_caches()
    store = default_store()
    key = text_key("rates", processor, str(default_pool().threads), isa.name, repr(caches))
    rates = parse_rates(store.get(key) or b"")
    if rates is None:
        rates = measure(isa, caches)
        store.put(key, rates_text(rates))
    return rates


def rates_text(rates: Rates) -> bytes:
    """Return the measurements in the form of the store."""
    curves = (rate for curve in rates.curves for rate in curve)
    numbers = *(getattr(rates, name) for name in _STORED), *rates.sizes, *curves
    return " ".join(repr(float(number)) for number in numbers).encode()


def parse_rates(text: bytes) -> Rates | None:
    """Return the rates of such a text; None if it is invalid, or implausible for any machine."""
    try:
        region, *others = map(float, text.decode().split())
    except ValueError:
        return None
    is_sane = _SECONDS[0] <= region <= _SECONDS[1]
    is_sane &= all(_BYTES_A_SECOND[0] <= rate <= _BYTES_A_SECOND[1] for rate in others)
    is_whole = len(others) == len(_STORED) - 1 + _SIZES * (1 + len(CURVES))
    return _rates((region, *others)) if is_sane and is_whole else None


def measure(isa: Isa, caches: CacheSizes) -> Rates:
    """Measure the rates of this machine. Raises OutOfMemory if there is no room for the copies."""
    pool = default_pool()
    largest = min(max(2 * caches.l3, 4 * caches.l2), _MOST_BYTES)
    src, dst = allocate(largest), allocate(largest)
    for buffer in (src, dst):
        buffer.bytes()[...] = 1

    def seconds_of(probe: int, nbytes: int, threads: int = 1) -> tuple[int, float]:
        """Return the bytes that a move of about this size has, limited to the largest, and its seconds."""
        data_type, format = _PROBES[probe]
        side = _SMALL if nbytes <= caches.l2 else _PLANE
        image = 2 * DataType[data_type].nbytes(_CHANNELS * side * side)
        dims = max(min(nbytes, largest) // image, 1), _CHANNELS, side, side
        src_md, dst_md = (MemoryDesc(dims, data_type, each) for each in ("nchw", format))
        nest = reorder_nest(src_md, dst_md, Compute())
        chain = one_stage(nest) if nest.moved_bytes >= caches.l3 else None
        kernel = kernel_of(lower_nest(nest, isa, caches, chain=chain), nest.moved_bytes)
        call = partial(kernel.call, src.address, dst.address, 0)
        if threads > 1:
            parts = NOMINAL.parts_per_thread * threads
            call = partial(pool.run, kernel.code.address, src.address, dst.address, 0, parts)
        return nest.moved_bytes, min(time_call(call, _ROUNDS))

    sizes = caches.l2 // 2, math.isqrt(caches.l2 * caches.l3), 3 * caches.l3 // 4, largest
    found = [[seconds_of(probe, size) for size in sizes] for probe in range(len(_PROBES))]
    curves = [[moved / seconds for moved, seconds in each] for each in found]
    copy, cache, _, memory = curves[0]
    cache = min(cache, copy)
    memory = min(memory, cache)
    region, limit = RATES.region, memory
    if pool.threads > 1:
        _, alone = found[0][0]
        region = max(seconds_of(0, sizes[0], pool.threads)[1] - alone / pool.threads, 0.0)
        moved, shared = seconds_of(0, largest, pool.threads)
        limit = max(moved / shared, memory)
    rates = region, copy, cache, memory, limit
    return _rates((*rates, *sizes, *(rate for curve in curves for rate in curve)))


def _rates(numbers: Sequence[float]) -> Rates:
    """Return rates including those that are not measured: these are scaled by the speed of copies."""
    count = len(_STORED)
    measured = dict(zip(_STORED, numbers[:count], strict=True))
    share = measured["copy"] / RATES.copy
    slow, middle, fast = (rate * share for rate in RATES.tiles)
    call, lane, guarded = (seconds / share for seconds in (RATES.call, RATES.lane, RATES.guarded))
    scaled = {"call": call, "lane": lane, "guarded": guarded, "function": RATES.function * share}
    sizes, *curves = (tuple(numbers[at : at + _SIZES]) for at in range(count, len(numbers), _SIZES))
    return Rates(tiles=(slow, middle, fast), sizes=sizes, curves=tuple(curves), **measured, **scaled)
