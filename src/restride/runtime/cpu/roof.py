"""The roof of a kernel: the time of copies of as many bytes, or of as many multiply-adds, on this machine."""

from __future__ import annotations

from typing import NamedTuple

from ...dtypes import DataType
from ...schedule.cost import KernelWork, predict
from ...schedule.machine import NOMINAL, Machine, Rates
from ...targets.cpu import machine_of
from ...targets.isa import host_caches, host_isa, host_processor
from ...targets.store import default_store, text_key
from .multiply_adds import peak
from .rates import rates_of
from .thread_pool import default_pool

# Bounds on the multiply-adds per second of any processor.
_SLOWEST, _FASTEST = 1e6, 1e16
_BYTES = DataType.u8, DataType.s8


class Roof(NamedTuple):
    """The speeds of a machine: of copies, and f32 operations per second on a number of threads."""

    rates: Rates
    flops: float
    threads: int
    machine: Machine

    def seconds(self, nbytes: int, flops: int = 0, types: tuple[DataType, ...] = ()) -> float:
        """Return the least time for these bytes and operations; `types` are those of the factors."""
        threads = self.threads if nbytes >= NOMINAL.alone_bytes or flops else 1
        moving = predict(KernelWork("copy", nbytes, 0, threads), self.machine, self.rates).seconds
        return max(moving, flops / (self.flops * self._times_f32(types)))

    def _times_f32(self, types: tuple[DataType, ...]) -> float:
        """Return the number of products of these types that the machine adds in the time of one of f32."""
        widest = max((kind.bits for kind in types), default=32)
        # Kernels convert bytes of any signs to the one combination of signs that the instruction takes.
        are_bytes = bool(types) and all(kind.bits == 8 and kind.is_integral for kind in types)
        has_dots = types in self.machine.dots or (are_bytes and _BYTES in self.machine.dots)
        return 32 / widest if widest > 32 or has_dots else 1.0


def roof() -> Roof:
    """Return the roof of this machine: measured in about two seconds, and stored with the kernels on disk."""
    threads, store = default_pool().threads, default_store()
    machine, processor = machine_of(host_isa(), host_caches()), host_processor()
    rates = rates_of(processor)._replace(call=0.0, region=0.0)
    key = text_key("multiply_adds", processor, str(threads), host_isa().name)
    try:
        flops = float((store.get(key) or b"").decode())
    except ValueError:
        flops = 0.0
    if not _SLOWEST <= flops <= _FASTEST:
        flops = peak(threads)
        store.put(key, repr(flops).encode())
    return Roof(rates, flops, threads, machine)
