"""The machine model: what a port to another processor reads, and changes.

| value | contents | influence |
| --- | --- | --- |
| `Machine` | registers, instructions, caches, threads | schedules: tiles, loop orders, stages, parts |
| `CodeLimits` | limits on the size of a kernel's code | the same |
| `Rates` | bytes per second | predictions; formats depend on `RATES` only, never on measured ones |
| `fold_order.py` | pieces, lanes and formats of sums | the order of sums, and so their last bits |

`targets.cpu.machine_of` builds a `Machine` from an instruction set and cache sizes, of this processor or any
other; other values have the defaults below. `NOMINAL` is the machine for everything planned without knowing
where it will run. The values in `fold_order.py` are the same on every machine, and independent of these:
otherwise the same sum would have other bits elsewhere.

Sizes were measured on two or three machines, as noted at each; a factor of two either way changes little.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import NamedTuple

from ..dtypes import DataType
from ..frozen import dataclass

# The bytes that code assumes for a cache line, on every machine: streaming stores write this much at once,
# and need it aligned; allocated memory begins at such a line.
LINE = 64
# The bytes of a page, and of a huge page, on nearly all systems. With larger huge pages, they are requested
# more than once; with smaller ones, a step of a nest touches few bytes of each, and blocks of memory are
# aligned more than necessary: all of this costs little.
PAGE, HUGE_PAGE = 1 << 12, 2 << 20
# The bytes of the shortest vector registers there are: loading or storing less gains nothing over elements.
SHORTEST_VECTOR = 16


@dataclass(frozen=True, slots=True)
class Cache:
    """A data cache of `size` bytes: lines a multiple of size / ways apart share a set, which holds `ways`."""

    size: int
    ways: int

    def overflows(self, rows: int, step: int) -> bool:
        """Return whether rows, `step` bytes apart, exceed the sets that they map to.

        Rows at distance 0 count as one.
        """
        return step > 0 and rows * gcd(step, self.size // self.ways) > self.size

    def is_crowded_by(self, rows: Sequence[tuple[int, int]]) -> bool:
        """Return the same for rows of several axes, given as counts and distances."""
        way, sets = self.size // self.ways, 1
        for count, step in rows:
            sets *= min(count, way // gcd(step, way))
        return prod(count for count, _ in rows) > self.ways * max(sets, 2)


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor as schedules see it. After each name its unit, its meaning and the reason for its value.

    Registers and instructions, which follow from the instruction set:

    - `vector_bytes` (bytes): of a vector register. 16 is what every machine has.
    - `registers` (registers): vector registers. AVX-512 and AArch64 have 32.
    - `adds_pairs` (true or false): an instruction multiplies 16-bit integers and adds adjacent products.
    - `dots` (types): the factors for which an instruction multiplies 32 bits of elements, and adds all
      products to a 32-bit sum.
    - `permuted_bits` (bits): one instruction can permute elements of at least this many bits from two
      registers into any order; 128 if there is no such instruction.
    - `permuted_lane` (bytes): registers consist of lanes of this size, in each of which an instruction
      applies the same byte permutation; 0 if there is no such instruction.

    Caches and pages. Systems report sizes, but seldom associativity. For the L1 cache, the size of a way
    matters, which is a page nearly everywhere; most L2 caches have 8 to 20 ways, and the rules that use it
    are rough anyway.

    - `l1` (bytes): the L1 data cache of a core. Blocks are parts of it, and powers of two: 32 KB, even if a
      machine has 48, whose other lines are for what is read meanwhile.
    - `l1_ways` (ways): see above.
    - `l2` (bytes): the L2 cache of a core.
    - `l2_ways` (ways): see above.
    - `l3` (bytes): the last cache. Work of this size or more bypasses it.
    - `line` (bytes): of a cache line, no less than `LINE`.
    - `page` (bytes): rows this far apart have separate addresses and hardware prefetches.
    - `stack_bytes` (bytes): the most scratch on a thread's stack: a small part of the 8 MB, or the 512 KB,
      that systems give it.

    Runs of memory:

    - `run_bytes` (bytes): read or written contiguously before switching to another row. Runs of a quarter
      cost half of the speed; runs twice as long gain little.
    - `short_run_bytes` (bytes): the same for rows that evict each other from the L2 cache. On rows of 4 to 16
      KB, this is 1.1 to 1.4 times as fast as `run_bytes`; one line is too short.
    - `sources` (streams): of memory that one kernel reads; more are slower than a second pass.
    - `ahead_bytes` (bytes): how far ahead rows of a tile are prefetched, and twice that if values shrink,
      since such steps take less time. Two lines; 64 to 512 bytes differ little.
    - `ahead_in_run_bytes` (bytes): the same if tiles of several axes read one contiguous run from memory.
      From blocks of channels to plain, 1.0 to 1.5 times as fast as two lines for 8 and 16 bits, 1.4 to 1.9
      if floats shrink to bytes; 2 to 8 KB differ little. Bytes in groups with a scale become bf16 1.2 times
      as fast. Moves of 32 bits lose as often as they gain, and within the caches all lose.

    Work in registers, in the time of an independent multiply-add:

    - `latency` (multiply-adds): until a dependent one can start. This many sums hide it.
    - `load` (multiply-adds): a vector, or a broadcast element, together with products of both. Measured with
      16 registers: tiles of 14 rows by 1 vector, 15 loads for 14 products, reach two thirds of the speed of
      5 by 2.
    - `near_load` (multiply-adds): a vector from the L1 cache, if other work hides most of it.
    - `far_load` (multiply-adds): a vector from the L2 cache, likewise.
    - `lone_load` (multiply-adds): a vector that nothing hides. Tiles of 2 rows by 9 vectors reach two thirds
      of the speed of 13 by 2.
    - `tile_ends` (multiply-adds): the start and end of a tile, for each of its steps, if channels are the
      lanes: windows of few taps finish soon.
    - `copy_registers` (registers): which a copy keeps in flight.
    - `line_registers` (registers): a tile of few source rows reads whole lines of them if it then has at most
      this many. With 4, rows of 2 and 4 (weights of 2a, 4a) run 1.3 to 1.8 times as fast; 16 make tiles of
      16 rows slower.
    - `permutations` (instructions): of two registers in a tile; with more, registers run out. In cache,
      compared with stages: with 20 to 90 of them 1.0 to 2.0 times as fast, with 165 0.7 to 0.95, with 308
      0.5 to 0.7.
    - `held_sums` (registers): accumulators of column sums, other than those that the products need.
    - `sum_bytes` (bytes): of independent accumulators, so that none waits for the previous one; a core has
      room for at most twice as many.
    - `terms_per_byte` (multiply-adds): take as long as moving a byte.

    Threads:

    - `alone_bytes` (bytes): of work, below which a second thread costs more than it gains: a region takes 2
      to 5 us.
    - `step_bytes` (bytes): of a step of the grid, if an axis must be cut to make steps; half of it is not
      cut.
    - `grid_steps` (steps): of a grid, enough for an even split among the threads of a large machine.
    - `part_bytes` (bytes): that one part moves, about: 0.1 ms, so that a long job can be interrupted soon;
      the beginning of a longer block would no longer be in cache at its end.
    - `parts_per_thread` (parts): for each thread, so that one that is late delays the others little.
    - `lock_bytes` (bytes): of work, a few microseconds, below which releasing Python's lock costs more than
      it gives other threads.
    - `spin_us` (microseconds): that a worker, or a caller that waits for one, spins before it sleeps. Waking
      a sleeping worker costs 5 to 50 us, and spinning takes a processor from others.
    """

    vector_bytes: int = SHORTEST_VECTOR
    registers: int = 16
    l2: int = 1 << 20
    l3: int = 16 << 20
    line: int = LINE
    page: int = PAGE
    l1: int = 32 << 10
    l1_ways: int = 8
    l2_ways: int = 16
    adds_pairs: bool = False
    dots: tuple[tuple[DataType, DataType], ...] = ()
    permuted_bits: int = 128
    permuted_lane: int = 0
    stack_bytes: int = 1 << 17
    run_bytes: int = 1 << 10
    short_run_bytes: int = 128
    sources: int = 16
    ahead_bytes: int = 128
    ahead_in_run_bytes: int = 1 << 12
    latency: int = 4
    load: float = 1.5
    near_load: float = 0.25
    far_load: float = 0.5
    lone_load: int = 3
    tile_ends: int = 2
    copy_registers: int = 4
    line_registers: int = 4
    permutations: int = 128
    held_sums: int = 24
    sum_bytes: int = 128
    terms_per_byte: int = 4
    alone_bytes: int = 1 << 18
    step_bytes: int = 1 << 16
    grid_steps: int = 64
    part_bytes: int = 1 << 22
    parts_per_thread: int = 4
    lock_bytes: int = 1 << 16
    spin_us: int = 50

    @property
    def first_cache(self) -> Cache:
        """The L1 data cache of a core."""
        return Cache(self.l1, self.l1_ways)

    @property
    def second_cache(self) -> Cache:
        """The L2 cache of a core."""
        return Cache(self.l2, self.l2_ways)

    @property
    def block(self) -> int:
        """The bytes that stay in the L1 cache while they are processed: half of it, as other reads and writes
        need the rest.
        """
        return self.l1 // 2

    @property
    def far_ahead(self) -> int:
        """The most bytes from the position of a loop to what it prefetches: this much of the L2 cache can be
        full of data that is not needed yet.
        """
        return self.l2 // 8

    @property
    def multiply_adds(self) -> int:
        """The vector instructions that start at once: two ports, which act as one for 64-byte vectors."""
        return 1 if self.vector_bytes >= 64 else 2


NOMINAL = Machine()
"""The machine to plan for if none is known, or if the plan must be the same on all of them."""


class CodeLimits(NamedTuple):
    """Limits on the code generated for one kernel. Beyond them code costs more than it gains: it takes longer
    to compile, fills the code store, and its instructions no longer stay in their cache.

    - `boxes` (boxes): parts of a nest without bounds; with more, each position is compared with every bound.
    - `boxes_in_blocks` (boxes): the same if each is processed block by block.
    - `boxes_of_items` (boxes): the same on a device, where every item then checks the bounds.
    - `tiled_boxes_of_items` (boxes): in vectors on a device, whose compiler takes seconds for more.
    - `interleaved` (schedules): of all nests that run in step.
    - `staged` (bytes): of work, below which the code of several stages is not worth it.
    - `tile` (elements): of a tile, which is straight-line code; as many as the largest of ours.
    - `copied` (elements): the same for all copies of a tile in a kernel: whole ones, and those cut off by an
      axis.
    - `gathered` (registers): of a tile that is not a power of two, each gathered from all its sources.
    - `window` (positions): of a window that are unrolled.
    - `masked` (positions): of a window that are unrolled under masks.
    - `tile_kinds` (kinds): of row tiles, created by edges of windows.
    - `edge_taps` (taps): unrolled at the edges of a window.
    - `shared_taps` (taps): whose weights stay in registers.
    - `unrolled` (multiply-adds): in sequence before a loop counts.
    - `unrolled_loads` (multiply-adds): the same if an element of a row is loaded into a register first:
      three steps of 27 rows of bytes took three times as long to compile as two.
    - `pieces` (pieces): of a concatenation whose blocks do not align.
    """

    boxes: int = 48
    boxes_in_blocks: int = 16
    boxes_of_items: int = 8
    tiled_boxes_of_items: int = 2
    interleaved: int = 64
    staged: int = 1 << 16
    tile: int = 64 * 64
    copied: int = 8 * 64 * 64
    gathered: int = 8
    window: int = 27
    masked: int = 8
    tile_kinds: int = 8
    edge_taps: int = 16
    shared_taps: int = 7
    unrolled: int = 128
    unrolled_loads: int = 64
    pieces: int = 256


LIMITS = CodeLimits()
"""The limits of all kernels: they are the same on all machines."""


CURVES = ("copy", "near 8", "near 32", "turned 8", "turned 32")
"""The kinds of moves whose speed is measured: copies; transposes whose neighbors on one side are close on the
other, as in blocks of channels; and those of rows that are far apart on both. For types of these widths.
"""


IN_CACHES = 3
"""So many of `curve_sizes` are less than the last cache, past which lines are written from there on."""


def curve_sizes(l2: int, l3: int) -> tuple[int, ...]:
    """Bytes moved at which these speeds are measured: in the second cache and in the last one; where that is
    nearly full; where the source alone fits; and in memory. A last cache is taken to be no smaller than two
    of the second.
    """
    last = max(l3, 2 * l2)
    return l2 // 2, last // 2, 3 * last // 4, 3 * last // 2, 4 * last


class Rates(NamedTuple):
    """The speeds of a machine, for `cost.py`.

    Measured once, on two cores of an AMD EPYC of family 26 (Zen 5; 1 MiB of L2 cache per core, 32 MiB of L3)
    that was also doing other work. `rs.plan(..., effort="measure")` measures those of your machine that
    matter (`runtime/cpu/rates.py`), only for the prediction that it prints: no kernel, format or bit depends
    on a measurement.

    - `call` (seconds): of a warm `execute` of next to nothing, checks and native call: 0.25 to 0.28 us.
    - `region` (seconds): of a region of the pool whose workers are awake: 2 to 5 us.
    - `copy` (bytes per second): of one core on copies of 100 KB, which stay in its L2 cache, without the
      call: 150 to 170 bytes per ns, equally with vectors of 16, 32 and 64 bytes.
    - `tiles` (bytes per second): the same on f32 NCHW to NHWC, for vectors of 16, 32 and 64 bytes. The
      network takes log2(lanes) rounds, so that wider vectors need fewer instructions per byte, but not half
      as many.
    - `lane` (seconds): of a lane that is loaded or stored singly: 0.12 to 0.35 ns, whatever its type.
    - `guarded` (seconds): of a position whose index is compared with every bound.
    - `instruction` (seconds): of a vector instruction in a tile, whatever it does: 0.06 to 0.08 ns. Fitted,
      like the next two, to 500 moves in the caches.
    - `store` (seconds): of a vector store: 0.35 to 0.4 ns.
    - `crowded` (seconds): of a line that was evicted from the L1 cache before all of it was used.
    - `cache` (bytes per second): of one core on 2 to 16 MB, which stay in the last cache: 70 to 105 bytes per
      ns; two cores 150.
    - `memory` (bytes per second): of one core past the caches: 40 to 52 bytes per ns.
    - `memory_limit` (bytes per second): of all cores together, on a quiet machine: 55 to 66 bytes per ns.
    - `curves` (bytes per second): of one core, for each kind of `CURVES` at each of `curve_sizes`. Far below
      the sizes of the caches the instructions make the difference, and every kind has the speed of copies.
    - `shared` (bytes per second): of copies on all threads, at each of `curve_sizes`.
    """

    call: float = 0.26e-6
    region: float = 4e-6
    copy: float = 160e9
    tiles: tuple[float, float, float] = (75e9, 92e9, 150e9)
    lane: float = 0.2e-9
    guarded: float = 2.8e-9
    instruction: float = 0.07e-9
    store: float = 0.36e-9
    crowded: float = 1.05e-9
    cache: float = 80e9
    memory: float = 45e9
    memory_limit: float = 58e9
    curves: tuple[tuple[float, ...], ...] = (
        (160e9, 110e9, 80e9, 55e9, 45e9),
        (160e9, 110e9, 50e9, 48e9, 36e9),
        (160e9, 110e9, 60e9, 54e9, 45e9),
        (160e9, 110e9, 28e9, 52e9, 48e9),
        (160e9, 110e9, 50e9, 55e9, 48e9),
    )
    shared: tuple[float, ...] = (320e9, 220e9, 160e9, 110e9, 58e9)

    def tile(self, vector_bytes: int) -> float:
        """Return the bytes per second of tiles in registers of this size."""
        return self.tiles[{32: 1, 64: 2}.get(vector_bytes, 0)]


RATES = Rates()
"""The rates of the machine above. All predictions that decide something use them, the same everywhere."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device of work-items: items of a group, and of a sub-group, which run in step.

    - `group` (items): of a group, which share local memory.
    - `sub_group` (items): which run in step.
    - `local_bytes` (bytes): of a group's local memory; 0 if it is no faster than other memory.
    - `vector_bytes` (bytes): of an item's own registers if items do not run in step, as on a CPU; else 0.
    - `row_bytes` (bytes): of an item's rows that stay in its registers and caches.
    """

    group: int = 256
    sub_group: int = 32
    local_bytes: int = 0
    vector_bytes: int = 0
    row_bytes: int = 1 << 12
