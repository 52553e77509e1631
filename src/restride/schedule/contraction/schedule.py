"""The schedule of a contraction: which rows and columns of the result are held in registers at once.

A **tile** is `rows` positions of one row loop by `vectors` vectors of columns. All of its sums stay in
registers while a kernel runs through the summed loops: each step loads `vectors` vectors of one factor,
broadcasts `rows` elements of the other, and does `rows * vectors` multiply-adds. If factors have a pack
(`schedule/contraction/pack.py`), an element is a whole pack.

    tiles run over     batch loops, then either one row loop or the columns, then the rest
    a limit            on the tile's row loop determines at compile time which rows a tap has; any other one
                       determines at run time the range of a summed loop
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd, prod

from ...dtypes import DataType
from ...ir.digits import offset_at
from ..machine import LIMITS, Machine
from .pack import Pack, find_pack, has_lane_instruction, has_one_instruction, is_moved
from .parts import COLUMN_SUMS, ROW_SUMS
from .prefetch import Prefetch, bytes_behind, find_prefetch
from .strides import (
    DESTINATION,
    FIRST,
    SECOND,
    Contraction,
    ContractionLoop,
    lane_loop,
    merged_loops,
)
from .tiles import (
    IN_HALVES,
    MOVED,
    OF_WORDS,
    ONE_OPERATION,
    RowTiling,
    StepCost,
    row_tiling,
    tap_of,
    tiles_by_time,
)

_ACCUMULATOR_BITS = 32
# From this many sums on, few registers are left, and a power of two of steps is unrolled: for three, five and
# six, LLVM loads so many operands ahead that sums move to the stack, which took a third longer.
_TIGHT = 16
# If sums and a step's loads take all registers but one, this many steps are unrolled: for twice as many, LLVM
# loads operands ahead in the same way. Measured: 6 x 2 vectors drop from 83 to 47 GFLOP/s.
_STEPS_OF_FULL = 4
# Sums are split if at least this many tiles have the same columns.
_LEAST_TILES = 4
# The fewest rows in a strip.
_STRIP_ROWS = 64


@dataclass(frozen=True, slots=True)
class ContractionPlan:
    """A schedule. `row` is the loop that tiles cut, `lane` the axis of columns; `grid` the other outer loops.

    `tiling`: how rows are cut. `groups` tiles of `vectors` vectors of `lanes` columns cover the columns;
    `columns` are written with padding, `size` without. `pack`: what is multiplied at once, by one instruction
    if `is_dot`. `prefetch`: what tiles prefetch. `split`: this many iterations of `split_loop` are summed at
    a time, for the tiles of a row one after another; 0: all of them. `strip`: this many tiles of the row loop
    meet all columns before the next ones do; 0: all of them.
    """

    contraction: Contraction
    lanes: int
    vectors: int
    row: ContractionLoop
    tiling: RowTiling
    grid: tuple[ContractionLoop, ...]
    columns_at: int
    unroll: int
    columns: int
    size: int
    pack: Pack | None = None
    is_dot: bool = False
    prefetch: Prefetch = field(default_factory=Prefetch)
    split: int = 0
    strip: int = 0

    @property
    def strips(self) -> int:
        """The number of strips of the row loop."""
        return -(-self.tiling.count // self.strip) if self.strip else 1

    @property
    def terms(self) -> int:
        """The number of products of one sum, including the padding of a pack."""
        return prod(loop.extent for loop in self.loops) * (self.pack.count if self.pack else 1)

    @property
    def split_loop(self) -> ContractionLoop | None:
        """The outermost summed loop, if its iterations can be split; None if it is cut by packs, or if more
        than the sums of products is kept for a tile.
        """
        contraction = self.contraction
        loop = next((loop for loop in self.loops if loop.extent > 1), None)
        is_plain = contraction.groups is None and not (
            self.moves_rows
            or self.is_by_lanes
            or contraction.accesses[SECOND].tensor.data_type.bits < 8
            or contraction.has_sums_of(ROW_SUMS)
            or contraction.has_sums_of(COLUMN_SUMS)
        )
        if loop is None or not is_plain or loop.axis == self.tiling.tap:
            return None
        is_of_packs = self.pack is not None and loop.axis == self.pack.loop.axis and self.pack.rest
        return None if is_of_packs else loop

    @property
    def split_turns(self) -> int:
        """The iterations of `split_loop`: its positions divided by the unrolling."""
        loop = self.split_loop
        return 0 if loop is None else loop.extent // (self.unroll if loop is self.loops[-1] else 1)

    @property
    def loops(self) -> tuple[ContractionLoop, ...]:
        """The summed loops without the pack, outermost first."""
        return summed_order(self.contraction, self.pack)

    @property
    def moves_rows(self) -> bool:
        """True if 128 is added to the elements of rows, and the sums corrected."""
        return self.is_dot and self.pack is not None and is_moved(self.contraction)

    @property
    def has_few_kinds(self) -> bool:
        """True if edges of windows make so few kinds of tiles that code for each is affordable."""
        return len(self.tiling.kinds) <= LIMITS.tile_kinds

    @property
    def groups(self) -> int:
        """The number of tiles that cover the columns."""
        return -(-self.columns // (self.lanes * self.vectors))

    @property
    def steps(self) -> int:
        """The number of tiles that threads can share."""
        tiles = self.strips * (self.strip or self.tiling.count)
        return prod(loop.extent for loop in self.grid) * self.groups * tiles

    @property
    def lane_digits(self) -> tuple[ContractionLoop, ...]:
        """The loops of the columns' axis, outermost first."""
        lane = lane_loop(self.contraction)
        assert lane is not None
        return tuple(loop for loop in self.contraction.outer if loop.axis == lane.axis)

    def column_offset(self, access: int, column: int) -> int:
        """Return the offset of a column in a tensor."""
        return _column_offset(self.lane_digits, access, column)

    @property
    def is_by_lanes(self) -> bool:
        """True if both factors have a vector for each vector of columns, like the channels of a depthwise
        convolution.
        """
        return self.contraction.role(self.lane_digits[-1]) == "batch"

    @property
    def shared_taps(self) -> int:
        """The taps of the innermost summed loop processed together, so that rows share what they read."""
        return shared_taps(self.contraction, self.row) if self.is_by_lanes else 0

    def __str__(self) -> str:
        shape = f"{max(kind.rows for kind in self.tiling.kinds)} x {self.vectors} vectors of {self.lanes}"
        packs = "" if self.pack is None else f"; {self.pack.count} products at once"
        if packs and not self.is_dot:
            packs += ", in halves"
        return f"tiles of {shape}, {self.tiling.count} x {self.groups} of them; unrolled {self.unroll}{packs}"


def schedule_contraction(contraction: Contraction, machine: Machine) -> ContractionPlan | None:
    """Return the plan that is fastest by the model; None if loads and stores would not be vectors."""
    draft = draft_of(contraction, machine)
    shapes = draft.shapes if draft is not None else []
    plan = draft.plan(shapes[0]) if draft is not None and shapes else None
    return plan if plan is not None and plan.has_few_kinds else None


def draft_of(contraction: Contraction, machine: Machine) -> ContractionDraft | None:
    """Return the fixed part of a contraction's plan; None if its loads and stores are not vectors."""
    lane = lane_loop(contraction)
    if lane is None or (contraction.has_sums_of(ROW_SUMS) and contraction.role(lane) == "batch"):
        return None
    digits = [loop for loop in contraction.outer if loop.axis == lane.axis]
    block = digits[0].step if len(digits) > 1 else 0
    pack = find_pack(contraction, lane, block, machine)
    if not (pack or _has_vectors(contraction, lane)) or not _has_whole_loops(contraction, pack):
        return None
    if any(limit.coefficient(lane.axis) for limit in contraction.limits):
        return None
    if not _has_vectors_of_all(contraction, lane):
        return None
    if len(digits) > 2 or not _is_padded_along_lanes(contraction, lane):
        return None
    others = _outer_loops(contraction, lane)
    # A digit above the first is a loop around tiles if each of its positions has all of those below.
    if any(loop.size % loop.step for loop in others):
        return None
    rows = [
        loop
        for loop in others
        if contraction.role(loop) == "row" and loop.step == 1 and _can_be_tiled(contraction, loop)
    ]
    row = max(
        rows, key=lambda loop: (min(loop.extent, 16), -loop.strides[FIRST]), default=_one_row(contraction)
    )
    most = machine.vector_bytes * 8 // _ACCUMULATOR_BITS
    lanes = gcd(most, block) if block else most
    if not _is_padded_in_order(contraction, digits, lanes):
        return None
    around = tuple(loop for loop in others if loop is not row)
    return ContractionDraft(contraction, machine, tuple(digits), row, around, pack, lanes)


def _one_row(contraction: Contraction) -> ContractionLoop:
    """Return a placeholder for the rows of a result without any."""
    return ContractionLoop("", 1, 1, 1, (0,) * len(contraction.accesses))


def _has_whole_loops(contraction: Contraction, pack: Pack | None) -> bool:
    """Return whether elements are whole bytes, digits follow each other in the order of the loops, and each
    limit is about one summed axis of one digit that no other limit is about.
    """
    bits = [access.tensor.data_type.bits for access in contraction.accesses]
    if min(bits[:SECOND] + bits[DESTINATION:]) < 8 or (bits[SECOND] < 8 and pack is None):
        return False
    steps: dict[str, list[int]] = {}
    for loop in summed_order(contraction, pack):
        steps.setdefault(loop.axis, []).append(loop.step)
    if any(found != sorted(found, reverse=True) or len(found) > 2 for found in steps.values()):
        return False
    limited: set[str] = set()
    for limit in contraction.limits:
        summed = [name for name, _ in limit.terms if name in steps]
        if len(summed) != 1 or len(steps[summed[0]]) > 1 or limit.coefficient(summed[0]) < 1:
            return False
        limited.add(summed[0])
    return len(limited) == len(contraction.limits) and (bool(steps) or pack is not None)


def _has_vectors(contraction: Contraction, lane: ContractionLoop) -> bool:
    """Return whether a factor that moves along the lanes is contiguous there."""
    moved = lane.strides[FIRST], lane.strides[SECOND]
    return moved == ((1, 1) if contraction.role(lane) == "batch" else (0, 1))


def _has_vectors_of_all(contraction: Contraction, lane: ContractionLoop) -> bool:
    """Return whether all further results and sums are vectors along the lanes too."""
    others = contraction.results[1:]
    if len(contraction.parts) > 1 and contraction.role(lane) != "column":
        return False
    tensors = [contraction.accesses[result.access].tensor for result in contraction.results]
    is_dense = not others or all(tensor.sizes == tensor.padded for tensor in tensors)
    return is_dense and all(lane.strides[result.access] == 1 for result in others)


def _is_padded_along_lanes(contraction: Contraction, lane: ContractionLoop) -> bool:
    """Return whether the destination has padding only along the columns."""
    tensor = contraction.accesses[DESTINATION].tensor
    padded = [dim for dim, (n, m) in enumerate(zip(tensor.sizes, tensor.padded, strict=True)) if n != m]
    if not padded:
        return True
    digits = tensor.digits[padded[0]]
    return len(padded) == 1 and digits[0].stride == 1 and lane.size == tensor.sizes[padded[0]]


def _can_be_tiled(contraction: Contraction, loop: ContractionLoop) -> bool:
    """Return whether the limits on a loop have few taps of one axis, so that the rows of each are known at
    compile time; for a block of an axis they are not, as they differ between blocks.
    """
    own = [limit for limit in contraction.limits if limit.coefficient(loop.axis)]
    taps = [tap_of(contraction, limit, loop) for limit in own]
    are_few = len(own) < 2 and all(tap is not None and tap.extent <= LIMITS.edge_taps for tap in taps)
    return are_few and (loop.is_whole or not own)


def _outer_loops(contraction: Contraction, lane: ContractionLoop) -> tuple[ContractionLoop, ...]:
    """Return the loops other than the columns, outermost first, merged as far as possible."""
    limited = {name for limit in contraction.limits for name, _ in limit.terms}
    loops = (loop for loop in contraction.outer if loop.axis != lane.axis)
    ordered = sorted(loops, key=lambda loop: -loop.strides[DESTINATION])
    return merged_loops(ordered, limited, dict(contraction.roles))


def shared_taps(contraction: Contraction, row: ContractionLoop) -> int:
    """Return the number of taps of the innermost summed loop if a row's vectors for one tap are another row's
    for another tap, as in the windows of a depthwise convolution; else 0.
    """
    loop = next(reversed(summed_order(contraction)), None)
    if loop is None or not 1 < loop.extent == loop.size <= LIMITS.shared_taps:
        return 0
    limits = [limit for limit in contraction.limits if limit.coefficient(loop.axis)]
    is_known = all(limit.coefficient(row.axis) for limit in limits)
    return loop.extent if is_known and _shares_rows(loop, row) else 0


def _shares_rows(loop: ContractionLoop, row: ContractionLoop) -> bool:
    """Return whether a row reads at one position of a summed loop what another row reads at another."""
    first, second = sorted((loop, row), key=lambda each: abs(each.strides[FIRST]))
    near, far = first.strides[FIRST], second.strides[FIRST]
    return near > 0 and far > 0 and far % near == 0 and far <= near * (first.extent - 1)


# --- tiles --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ContractionDraft:
    """A contraction on a machine before the shape of its tiles is known: the `digits` of its columns, the
    loop whose rows tiles have, the outer loops, what is multiplied at once, and the lanes of a vector.
    """

    contraction: Contraction
    machine: Machine
    digits: tuple[ContractionLoop, ...]
    row: ContractionLoop
    around: tuple[ContractionLoop, ...]
    pack: Pack | None
    lanes: int

    @property
    def columns(self) -> int:
        """The number of columns that are written, with padding."""
        return _padded_size(self.contraction, self.digits[0].size)

    @property
    def is_dot(self) -> bool:
        """True if one instruction multiplies a pack, or a vector by a vector, and adds."""
        if self.contraction.role(self.digits[-1]) == "batch":
            return has_lane_instruction(self.contraction, self.machine, self.lanes)
        return self.pack is not None and has_one_instruction(self.contraction, self.machine, self.row.extent)

    @property
    def cost(self) -> StepCost:
        """The cost of a step other than the sums."""
        contraction, pack = self.contraction, self.pack
        cost = ONE_OPERATION if pack is None or self.is_dot else IN_HALVES
        if pack is not None and self.is_dot and is_moved(contraction):
            cost = MOVED
        if contraction.accesses[SECOND].tensor.data_type.bits < 8:
            cost = OF_WORDS
        if pack is not None and pack.rest and not contraction.is_integral:
            # Only the leading elements of the last pack of a row count.
            cost = replace(cost, row=cost.row + 1, fixed=cost.fixed + 1)
        cost = replace(cost, parts=len(contraction.parts))
        if contraction.role(self.digits[-1]) != "batch":
            return cost
        # The weights of all taps, or of one, a vector of a row, and one that is being prefetched.
        taps = max(shared_taps(contraction, self.row), 1)
        return replace(cost, vector=taps, fixed=1, taps=taps)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Return the rows and vectors that tiles can have, the fastest first."""
        block = self.digits[0].step if len(self.digits) > 1 else 0
        whole, size, columns = block // self.lanes or 1, self.digits[0].size, self.columns
        by_time = tiles_by_time(self.machine, self.cost, self.row.extent, -(-columns // self.lanes), whole)
        # The last tile has all of the padding.
        widths = ((shape, shape[1] * self.lanes) for shape in by_time)
        return [shape for shape, width in widths if (columns - 1) // width * width < size]

    def plan(
        self,
        shape: tuple[int, int],
        order: tuple[tuple[ContractionLoop, ...], int] | None = None,
    ) -> ContractionPlan:
        """Return the plan with tiles of these rows and vectors.

        `order`: the loops around tiles, and how many of them are outside the columns; chosen if omitted.
        """
        contraction, (rows, vectors) = self.contraction, shape
        tiling = row_tiling(contraction, self.row, rows)
        around, at = order or _order(contraction, self.around)
        plan = ContractionPlan(
            *(contraction, self.lanes, vectors, self.row, tiling, around, at, 1),
            *(self.columns, self.digits[0].size),
            pack=self.pack,
            is_dot=self.is_dot,
        )
        plan = replace(plan, unroll=self.unroll_of(plan))
        plan = replace(plan, strip=self.strip_of(plan))
        plan = replace(plan, split=self.split_of(plan))
        return replace(plan, prefetch=self.prefetch_of(plan))

    def strip_of(self, plan: ContractionPlan) -> int:
        """Return the best number of tiles in a strip: those whose rows fit the L2 cache, if not all do, and
        at least as many rows as justify reading all columns again. Without strips, all rows are read again
        for each tile of columns: 2048 rows and columns took 1.7 times as long.
        """
        first = self.contraction.accesses[FIRST].tensor.data_type
        if plan.is_by_lanes or plan.groups == 1 or plan.columns_at < len(plan.grid):
            return 0
        row, most = first.nbytes(plan.terms), self.machine.l2 // 4
        if row * self.row.extent <= 2 * most or self.row.extent < 2 * _STRIP_ROWS:
            return 0
        tiles = max(most // row, _STRIP_ROWS) // plan.tiling.rows
        strips = -(-plan.tiling.count // tiles)
        return -(-plan.tiling.count // strips) if strips > 1 else 0

    def split_of(self, plan: ContractionPlan) -> int:
        """Return the best number of iterations to sum at a time: those whose columns fit the L2 cache next to
        the rows, if not all do and enough tiles reading the same follow. 512 channels of 28 x 28 took 1.25
        times as long unsplit.
        """
        turns, second = plan.split_turns, self.contraction.accesses[SECOND].tensor.data_type
        nbytes = second.nbytes(plan.terms * plan.vectors * plan.lanes * len(self.contraction.parts))
        following = prod(loop.extent for loop in plan.grid[plan.columns_at :]) * (
            plan.strip or plan.tiling.count
        )
        if not turns or nbytes <= self.machine.l2 // 4 or following < _LEAST_TILES:
            return 0
        pieces = -(-nbytes // (self.machine.l2 // 8))
        return max(1, turns // pieces)

    def unroll_of(self, plan: ContractionPlan) -> int:
        """Return the best unrolling of the innermost summed loop."""
        cost = self.cost
        counts = unrolled_turns(plan, cost.operations * cost.parts)
        sums = max(kind.rows for kind in plan.tiling.kinds) * plan.vectors * cost.parts
        is_full = sums + plan.vectors + 1 >= self.machine.registers - 1
        return max(n for n in counts if n <= _STEPS_OF_FULL or not is_full)

    def prefetch_of(self, plan: ContractionPlan) -> Prefetch:
        """Return what the tiles of a plan should prefetch."""
        found = find_prefetch(self.contraction, self.machine, self.row, *_next_columns(plan))
        behind = bytes_behind(self.contraction, self.machine, self.row.extent, self.pack)
        return replace(found, behind=behind)


def _is_padded_in_order(contraction: Contraction, digits: Sequence[ContractionLoop], lanes: int) -> bool:
    """Return whether the loops of the columns also reach the destination's padding, vector by vector."""
    size, tensor = digits[0].size, contraction.accesses[DESTINATION].tensor
    padding = range(size // lanes * lanes, _padded_size(contraction, size), lanes)
    padded = (of for of, n, m in zip(tensor.digits, tensor.sizes, tensor.padded, strict=True) if n != m)
    return all(
        _column_offset(digits, DESTINATION, column) == offset_at(of, column)
        for of in padded
        for column in padding
    )


def _column_offset(digits: Sequence[ContractionLoop], access: int, column: int) -> int:
    offset, above = 0, column
    for loop in digits:
        offset += above // loop.step * loop.strides[access]
        above %= loop.step
    return offset


def _next_columns(plan: ContractionPlan) -> tuple[int, int]:
    """Return the iterations of the summed loop before the columns of the next tiles are read, and the bytes
    of those, if contiguous. Zeros if other loops come between, or if there is one row of tiles, which reads
    them as one stream.
    """
    loop = plan.loops[-1] if len(plan.loops) == 1 and not (plan.split or plan.strip) else None
    if loop is None or plan.columns_at < len(plan.grid) or plan.tiling.count < 2:
        return 0, 0
    weights = plan.contraction.accesses[SECOND].tensor.data_type
    step = plan.vectors * len(plan.contraction.parts) * plan.lanes * (plan.pack.count if plan.pack else 1)
    distance = plan.column_offset(SECOND, plan.vectors * plan.lanes)
    run = weights.nbytes(distance) if distance == loop.extent * step else 0
    return plan.tiling.count * (loop.extent // plan.unroll), run


def _padded_size(contraction: Contraction, size: int) -> int:
    tensor = contraction.accesses[DESTINATION].tensor
    return next((m for n, m in zip(tensor.sizes, tensor.padded, strict=True) if m != n), size)


def _order(
    contraction: Contraction, loops: Sequence[ContractionLoop]
) -> tuple[tuple[ContractionLoop, ...], int]:
    """Return the loops around tiles, and how many of them are outside the groups of columns.

    The larger factor, the rows' or the columns', is read once: its loops are outside.
    """
    sizes = [prod(contraction.accesses[i].tensor.sizes) for i in (FIRST, SECOND)]
    batches = [loop for loop in loops if contraction.role(loop) == "batch"]
    columns = [loop for loop in loops if contraction.role(loop) == "column"]
    rows = [loop for loop in loops if contraction.role(loop) == "row"]
    outside = rows[:1] if sizes[0] >= sizes[1] else []
    before = [*batches, *outside, *columns]
    return (*before, *rows[len(outside) :]), len(before)


def unrolled_turns(plan: ContractionPlan, operations: int) -> list[int]:
    """Return possible unrollings of the innermost summed loop: divisors of all its run lengths, from 1 up to
    the most that pays.
    """
    contraction, tap = plan.contraction, plan.tiling.tap
    inner = next(reversed(plan.loops), None)
    is_of_words = plan.contraction.accesses[SECOND].tensor.data_type.bits < 8
    if inner is None or is_of_words:
        return [1]
    if inner.axis != tap and any(limit.coefficient(inner.axis) for limit in contraction.limits):
        return [1]
    # Only full packs are counted: the last one has separate code.
    counts_packs = plan.pack is not None and plan.pack.loop.axis == inner.axis
    size = inner.size // inner.step if counts_packs else inner.size
    is_alone = inner.extent * inner.step >= inner.size if counts_packs else inner.extent == inner.size
    whole = size if is_alone else gcd(inner.extent, size)
    area = max(kind.rows for kind in plan.tiling.kinds) * plan.vectors * operations
    limit = LIMITS.unrolled if _is_row_operand(plan) else LIMITS.unrolled_loads
    most = max(1, min(16, limit // max(area, 1)))
    counts = (n for n in range(2, most + 1) if whole % n == 0 and (area < _TIGHT or n & (n - 1) == 0))
    return [1, *counts]


def _is_row_operand(plan: ContractionPlan) -> bool:
    """Return whether a multiply instruction can read a row from memory: f32, packs of bf16."""
    data_type = plan.contraction.accesses[FIRST].tensor.data_type
    return data_type is DataType.f32 or (data_type is DataType.bf16 and plan.is_dot and plan.pack is not None)


def summed_order(contraction: Contraction, pack: Pack | None = None) -> tuple[ContractionLoop, ...]:
    """Return the summed loops without the pack, outermost first: far strides of the rows' factor outside.
    Loops of one position are dropped if nothing limits them and others remain.
    """
    loops = [loop for loop in contraction.summed if pack is None or loop not in (pack.loop, *pack.others)]
    limited = {name for limit in contraction.limits for name, _ in limit.terms}
    found = [loop for loop in loops if loop.size > 1 or loop.axis in limited] or loops[:1]
    return tuple(sorted(found, key=lambda loop: (-loop.strides[FIRST], -loop.step)))
