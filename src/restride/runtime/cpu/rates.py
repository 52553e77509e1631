"""The rates of this machine for predictions: measured on request, and stored with the kernels.

Copies of five sizes, from the second-level cache to memory, on one thread and on all; transposes of the three
largest sizes: about two seconds in total, half of it for compiling, on up to four times the last cache. The
measurements depend only on the cache sizes and the number of threads. No kernel, schedule or format depends
on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.digits import reorder_nest
from ...ir.nest import Compute
from ...schedule.machine import CURVES, NOMINAL, RATES, Rates, curve_sizes
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
_ROUNDS = 15
# Contents of a stored text, with bounds that hold on any machine, in seconds, and bytes per second.
_STORED = ("region", "copy", "cache", "memory", "memory_limit")
_SECONDS, _BYTES_A_SECOND = (0.0, 0.01), (1e3, 1e15)
# Number of sizes of a curve, and how many of them lie well within the caches. For each kind of `CURVES`, the
# type and the format to measure.
_SIZES, _NEAR = len(curve_sizes(0, 0)), 2
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
    curves = (rate for curve in (*rates.curves, rates.shared) for rate in curve)
    numbers = *(getattr(rates, name) for name in _STORED), *curves
    return " ".join(repr(float(number)) for number in numbers).encode()


def parse_rates(text: bytes) -> Rates | None:
    """Return the rates of such a text; None if it is invalid, or implausible for any machine."""
    try:
        region, *others = map(float, text.decode().split())
    except ValueError:
        return None
    is_sane = _SECONDS[0] <= region <= _SECONDS[1]
    is_sane &= all(_BYTES_A_SECOND[0] <= rate <= _BYTES_A_SECOND[1] for rate in others)
    is_whole = len(others) == len(_STORED) - 1 + _SIZES * (len(CURVES) + 1)
    return _rates((region, *others)) if is_sane and is_whole else None


def measure(isa: Isa, caches: CacheSizes) -> Rates:
    """Measure the rates of this machine. Raises OutOfMemory if there is no room for the copies."""
    pool = default_pool()
    sizes = [min(size, _MOST_BYTES) for size in curve_sizes(caches.l2, caches.l3)]
    largest = sizes[-1]
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

    copies = [seconds_of(0, size) for size in sizes]
    near = [moved / seconds for moved, seconds in copies]
    curves, shared = [near], near
    for probe in range(1, len(_PROBES)):
        far = [seconds_of(probe, size) for size in sizes[_NEAR:]]
        curves.append([*near[:_NEAR], *(moved / seconds for moved, seconds in far)])
    copy, cache, memory = near[0], near[1], near[-1]
    cache = min(cache, copy)
    memory = min(memory, cache)
    region, count = RATES.region, pool.threads
    if count > 1:
        region = max(seconds_of(0, sizes[0], count)[1] - copies[0][1] / count, 0.0)
        far = [seconds_of(0, size, count) for size in sizes[_NEAR:]]
        shared = [*(count * speed for speed in near[:_NEAR]), *(moved / seconds for moved, seconds in far)]
    rates = region, copy, cache, memory, max(shared[-1], memory)
    return _rates((*rates, *(rate for curve in (*curves, shared) for rate in curve)))


def _rates(numbers: Sequence[float]) -> Rates:
    """Return rates including those that are not measured: these are scaled by the speed of copies."""
    count = len(_STORED)
    measured = dict(zip(_STORED, numbers[:count], strict=True))
    share = measured["copy"] / RATES.copy
    slow, middle, fast = (rate * share for rate in RATES.tiles)
    slower = ("call", "lane", "guarded", "instruction", "store", "crowded")
    scaled = {name: getattr(RATES, name) / share for name in slower}
    *curves, shared = (tuple(numbers[at : at + _SIZES]) for at in range(count, len(numbers), _SIZES))
    return Rates(tiles=(slow, middle, fast), curves=tuple(curves), shared=shared, **measured, **scaled)
