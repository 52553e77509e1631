"""The model of the machine: what a port to another processor reads, and changes.

| value | what it is | what it may decide |
| --- | --- | --- |
| `Machine` | registers, instructions, caches, threads | schedules: tiles, loop orders, stages, parts |
| `CodeLimits` | how much code a kernel may be | the same |
| `Rates` | bytes in a second | predictions; formats go by `RATES` alone, never by measured ones |
| `fold_order.py` | pieces, lanes and formats of sums | the order of sums, and with it their last bits |

`targets.cpu.machine_of` makes a `Machine` of an instruction set and of the sizes of caches, of this processor
or any other; what it does not fill in is as below. `NOMINAL` is the machine of all that is planned without
knowing where it will run. What stands in `fold_order.py` is the same on every machine, and depends on none of
this: else the same sum would have other bits elsewhere.

Sizes were measured on two or three machines, as told at each; a factor of two either way changes little.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import NamedTuple

from ..dtypes import DataType
from ..frozen import dataclass

# What code takes for a cache line, in bytes, on every machine: streaming stores write so much at once, and
# need it aligned; memory that is allocated begins at such a line.
LINE = 64
# Bytes of a page, and of a huge one, of nearly all systems. Where huge ones are larger they are asked for
# more than once, where they are smaller a step of a nest brings few bytes with them, and blocks of memory
# begin at other places than they need to: all of it costs little.
PAGE, HUGE_PAGE = 1 << 12, 2 << 20
# Bytes of the shortest vector registers that there are: to load or store less is no gain over elements.
SHORTEST_VECTOR = 16


@dataclass(frozen=True, slots=True)
class Cache:
    """A data cache of `size` bytes: lines a multiple of size / ways apart share a set, which holds `ways`."""

    size: int
    ways: int

    def overflows(self, rows: int, step: int) -> bool:
        """True where so many rows, `step` bytes apart, are more than the sets hold that they fall into.

        Rows of no distance are one.
        """
        return step > 0 and rows * gcd(step, self.size // self.ways) > self.size

    def is_crowded_by(self, rows: Sequence[tuple[int, int]]) -> bool:
        """The same for rows of several axes, a count and a distance each."""
        way, sets = self.size // self.ways, 1
        for count, step in rows:
            sets *= min(count, way // gcd(step, way))
        return prod(count for count, _ in rows) > self.ways * max(sets, 2)


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor as schedules see it. After each name its unit, then what it is and why it has this value.

    Registers and instructions, which the instruction set tells:

    - `vector_bytes` (bytes): of a vector register. 16 is what every machine has.
    - `registers` (registers): of vectors. AVX-512 and AArch64 have 32.
    - `adds_pairs` (true or false): an instruction multiplies 16-bit integers and adds neighbours.
    - `dots` (types): the factors of which an instruction multiplies what 32 bits hold, and adds all of it to
      a sum of 32 bits.
    - `permuted_bits` (bits): elements of so many, or more, can be put in any order from two registers by one
      instruction; 128 where there is none of the kind.
    - `permuted_lane` (bytes): registers are lanes of so many, in all of which an instruction puts bytes in
      one and the same order; 0 where there is none.

    Caches and pages. Systems tell sizes, but seldom how many ways a cache has. Of the first what counts is
    the size of a way, which is a page nearly everywhere; most second ones have 8 to 20, and the rules that
    ask are rough anyway.

    - `l1` (bytes): the first data cache of a core. Blocks are parts of it, and powers of two: 32 KB, also
      where a machine has 48, whose other lines are for what is read meanwhile.
    - `l1_ways` (ways): see above.
    - `l2` (bytes): the second cache of a core.
    - `l2_ways` (ways): see above.
    - `l3` (bytes): the last cache. Work of this size and more streams past it.
    - `line` (bytes): of a cache line, no less than `LINE`.
    - `page` (bytes): rows so far apart have addresses, and requests of the processor ahead, of their own.
    - `stack_bytes` (bytes): scratch on the stack of a thread, at most: a small part of the 8 MB, or the 512
      KB, that systems give it.

    Runs of memory:

    - `run_bytes` (bytes): read or written in one piece before another row has its turn. Runs of a quarter
      cost half of the speed; twice as long ones gain little.
    - `short_run_bytes` (bytes): the same for rows that push each other out of the second cache. On rows of 4
      to 16 KB 1.1 to 1.4 times as fast as `run_bytes`; one line is too short.
    - `sources` (streams): of memory that one kernel reads; more are slower than a second pass.
    - `ahead_bytes` (bytes): how far ahead rows of a tile are asked for, and twice that where values shrink,
      since such steps take less time. Two lines; 64 to 512 bytes differ little.
    - `ahead_in_run_bytes` (bytes): the same where tiles of several axes read one unbroken run from memory. On
      blocks of channels to plain 1.0 to 1.5 times as fast as two lines for 8 and 16 bits, 1.4 to 1.9 where
      floats shrink to bytes; 2 to 8 KB differ little. Bytes in groups with a scale become bf16 1.2 times as
      fast. Moves of 32 bits lose as often as they gain, and within the caches all lose.

    Work in registers, in the time of a multiply-add that waits for none:

    - `latency` (multiply-adds): from one to the next that needs its result. So many sums hide it.
    - `load` (multiply-adds): a vector, or an element that is broadcast, beside products of both. Measured
      with 16 registers: tiles of 14 rows by 1 vector, 15 loads for 14 products, do two thirds of what 5 by 2
      do.
    - `near_load` (multiply-adds): a vector from the first cache, where other work hides most of it.
    - `far_load` (multiply-adds): a vector from the second cache, likewise.
    - `lone_load` (multiply-adds): a vector where nothing hides it. Tiles of 2 rows by 9 vectors do two thirds
      of what 13 by 2 do.
    - `tile_ends` (multiply-adds): what begins and ends a tile, for each of its steps, where channels are the
      lanes: windows of few taps are soon done.
    - `copy_registers` (registers): which a copy keeps in flight.
    - `line_registers` (registers): a tile of few source rows reads whole lines of them where it has no more
      than these. With 4, rows of 2 and 4 (weights of 2a, 4a) run 1.3 to 1.8 times as fast; 16 make tiles of
      16 rows slower.
    - `permutations` (instructions): of two registers in a tile; with more, registers run out. In the caches
      beside stages: with 20 to 90 of them 1.0 to 2.0 times as fast, with 165 0.7 to 0.95, with 308 0.5 to
      0.7.
    - `held_sums` (registers): accumulators of sums of columns, beside what the products need.
    - `sum_bytes` (bytes): of accumulators side by side, so that none waits for the one before; twice as many
      are the most that a core has room for.
    - `terms_per_byte` (multiply-adds): take as long as to move a byte.

    Threads:

    - `alone_bytes` (bytes): of work, below which a second thread costs more than it brings: a region takes 2
      to 5 us.
    - `step_bytes` (bytes): of a step of the grid, where an axis must be cut to make steps; half of it is not
      cut.
    - `grid_steps` (steps): of a grid, as many as make an even split among the threads of a large machine.
    - `part_bytes` (bytes): that one part moves, about: 0.1 ms, so that a long job can be left soon; and a
      longer block would not be near any more when it is done.
    - `parts_per_thread` (parts): for each thread, so that one that is late delays the others little.
    - `lock_bytes` (bytes): of work, a few microseconds, below which to let go of Python's lock costs more
      than it gives others.
    - `spin_us` (microseconds): that a worker, or a caller that waits for one, spins before it sleeps. To wake
      a sleeping worker costs 5 to 50 us, and the processor that spins is taken from others.
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
        """The first data cache of a core."""
        return Cache(self.l1, self.l1_ways)

    @property
    def second_cache(self) -> Cache:
        """The second cache of a core."""
        return Cache(self.l2, self.l2_ways)

    @property
    def block(self) -> int:
        """Bytes that stay in the first cache while all is done with them: half of it, as what is read or
        written besides needs the rest.
        """
        return self.l1 // 2

    @property
    def far_ahead(self) -> int:
        """Bytes, at most, from where a loop is to what it asks for: that much of the second cache may be full
        of what is not needed yet.
        """
        return self.l2 // 8

    @property
    def multiply_adds(self) -> int:
        """Instructions of vectors that begin at once: two ports, which are one for vectors of 64 bytes."""
        return 1 if self.vector_bytes >= 64 else 2


NOMINAL = Machine()
"""What is planned for where no machine is known, or the plan must be the same on all of them."""


class CodeLimits(NamedTuple):
    """How much code is written out for one kernel. Past it the code would outgrow its use: it takes longer to
    compile, the store of code fills up, and instructions no longer stay in their cache.

    - `boxes` (boxes): parts of a nest without bounds; of more, each position is compared with every bound.
    - `boxes_in_blocks` (boxes): the same where each is done block by block.
    - `boxes_of_items` (boxes): the same on a device, where every item then checks the bounds.
    - `tiled_boxes_of_items` (boxes): in vectors on a device, whose compiler takes seconds for more.
    - `interleaved` (schedules): of all nests that run in step.
    - `staged` (bytes): of work, below which the code of several stages is not worth it.
    - `tile` (elements): of a tile, which is straight-line code; as many as the largest of ours.
    - `copied` (elements): the same for all copies of a tile in a kernel: of whole ones, and of those that an
      axis cuts off.
    - `gathered` (registers): of a tile that is no power of two, each gathered from all that it comes from.
    - `window` (positions): of a window that are written out.
    - `masked` (positions): of a window that are written out under masks.
    - `tile_kinds` (kinds): of row tiles, as edges of windows make them.
    - `edge_taps` (taps): written out at the edges of a window.
    - `shared_taps` (taps): whose weights stay in registers.
    - `unrolled` (multiply-adds): one after the other before a loop counts.
    - `unrolled_loads` (multiply-adds): the same where an element of a row is loaded into a register first:
      three steps of 27 rows of bytes took three times as long to compile as two.
    - `pieces` (pieces): of a concatenation whose blocks do not meet.
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
"""The limits of all kernels: they are no different from machine to machine."""


CURVES = ("copy", "near 8", "near 32", "turned 8", "turned 32")
"""Kinds of moves whose speed is measured: copies; transposes whose neighbours on one side are close on the
other, as in blocks of channels; and those of rows that are far apart on both. Of types of so many bits.
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
    """How fast a machine is, for `cost.py`.

    Measured once, on two cores of an AMD EPYC of family 26 (Zen 5; 1 MiB of second cache a core, 32 MiB of
    last) that had other work beside. `rs.plan(..., effort="measure")` measures those of your machine that
    matter (`runtime/cpu/rates.py`), for the prediction that it prints: no kernel, format or bit depends on
    what was measured.

    - `call` (seconds): of a warm `execute` of next to nothing, checks and native call: 0.25 to 0.28 us.
    - `region` (seconds): of a region of the pool that its workers find awake: 2 to 5 us.
    - `copy` (bytes a second): of one core on copies of 100 KB, which stay in its second cache, less the call:
      150 to 170 bytes a ns, on vectors of 16, 32 and 64 bytes alike.
    - `tiles` (bytes a second): the same on f32 NCHW to NHWC, for vectors of 16, 32 and 64 bytes. The network
      takes log2(lanes) rounds, so that wider vectors need fewer instructions for a byte, but not half as
      many.
    - `lane` (seconds): of a lane that is loaded or stored by itself: 0.12 to 0.35 ns, whatever its type.
    - `guarded` (seconds): of a position whose index is compared with every bound.
    - `instruction` (seconds): of a vector instruction in a tile, whatever it does: 0.06 to 0.08 ns. By the
      least error of 500 moves in the caches, as the next two.
    - `store` (seconds): of a vector that is stored: 0.35 to 0.4 ns.
    - `crowded` (seconds): of a line that was pushed out of the first cache before all of it was used.
    - `cache` (bytes a second): of one core on 2 to 16 MB, which stay in the last cache: 70 to 105 bytes a ns;
      two cores 150.
    - `memory` (bytes a second): of one core past the caches: 40 to 52 bytes a ns.
    - `memory_limit` (bytes a second): of all cores together, on a quiet machine: 55 to 66 bytes a ns.
    - `curves` (bytes a second): of one core, for each kind of `CURVES` at each of `curve_sizes`. Where
      caches are far from full the instructions make the difference, and all have the speed of copies.
    - `shared` (bytes a second): of copies on all threads, at each of `curve_sizes`.
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
        """Bytes a second of tiles in registers of so many bytes."""
        return self.tiles[{32: 1, 64: 2}.get(vector_bytes, 0)]


RATES = Rates()
"""Those of the machine above. All predictions that decide something go by them, the same everywhere."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device of work-items: items of a group, and of a sub-group, which run in step.

    - `group` (items): of a group, which share local memory.
    - `sub_group` (items): which run in step.
    - `local_bytes` (bytes): memory that a group has of its own; 0 where that is no faster than any other
      memory.
    - `vector_bytes` (bytes): of the registers that an item has to itself where items do not run in step, as
      on a CPU; else 0.
    - `row_bytes` (bytes): of the rows of an item that stay in its registers and caches.
    """

    group: int = 256
    sub_group: int = 32
    local_bytes: int = 0
    vector_bytes: int = 0
    row_bytes: int = 1 << 12
