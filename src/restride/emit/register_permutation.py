"""Register permutations as recipes: from registers loaded along one side to those stored along the other.

Elements of a tile are numbered. A register is a tuple with the element of each lane. A recipe is a list of
shuffles of two registers each; it knows nothing of LLVM. Two makers:

- `exchange`: every tile axis a power of two. An element number is then a row of bits, a register a choice of
  bits as lanes, and each round swaps bits between lanes and register numbers: log2 rounds instead of one step
  for each source.
- `merge`: anything else. Each destination register is gathered from the few source registers that hold its
  elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

Lanes = tuple[int, ...]
# A lane whose content does not matter.
NOTHING = -1


@dataclass(frozen=True, slots=True)
class RegisterShuffle:
    """New register = lanes of registers `a` and `b` (numbered a's lanes, then b's)."""

    a: int
    b: int
    mask: Lanes


@dataclass(frozen=True, slots=True)
class RegisterPermutation:
    """Registers 0..n-1 are loaded as in `loads`; each shuffle appends one; `stores` maps (register, lanes).

    `rounds` are the numbers of shuffles after which a round of the network is complete.
    """

    loads: tuple[Lanes, ...]
    shuffles: tuple[RegisterShuffle, ...]
    stores: tuple[tuple[int, Lanes], ...]
    rounds: tuple[int, ...] = ()


# --- any permutation ----------------------------------------------------------------------------------------


def merge(loads: tuple[Lanes, ...], wanted: tuple[Lanes, ...]) -> RegisterPermutation:
    """Gather each wanted register from the loaded ones, two at a time."""
    where = {e: (r, lane) for r, lanes in enumerate(loads) for lane, e in enumerate(lanes) if e != NOTHING}
    shuffles: list[RegisterShuffle] = []
    stores = [(_gather(lanes, loads, where, shuffles), lanes) for lanes in wanted]
    return RegisterPermutation(loads, tuple(shuffles), tuple(stores))


Places = dict[int, tuple[int, int]]


def _gather(lanes: Lanes, loads: tuple[Lanes, ...], where: Places, shuffles: list[RegisterShuffle]) -> int:
    sources = sorted({where[e][0] for e in lanes if e != NOTHING})
    if not sources or (len(sources) == 1 and loads[sources[0]] == lanes):
        return sources[0] if sources else 0
    pairs = [sources[i : i + 2] for i in range(0, len(sources) - len(sources) % 2, 2)] or [sources]
    parts = [_pick(lanes, pair, loads, where, shuffles) for pair in pairs]
    while len(parts) > 1:
        parts.append(_blend(parts.pop(0), parts.pop(0), lanes, len(loads), shuffles))
    if len(sources) % 2 and len(sources) > 1:
        parts = [_add_last(parts[0], sources[-1], lanes, len(loads), where, shuffles)]
    return parts[0].register


@dataclass(frozen=True, slots=True)
class _PartialRegister:
    """A register with some of the wanted lanes already in place."""

    register: int
    placed: frozenset[int]


def _pick(
    lanes: Lanes, pair: list[int], loads: tuple[Lanes, ...], where: Places, shuffles: list[RegisterShuffle]
) -> _PartialRegister:
    first, second = pair[0], pair[-1]
    base = {second: len(loads[first]), first: 0}
    picked = [where[e] if e != NOTHING and where[e][0] in base else None for e in lanes]
    mask = tuple(NOTHING if p is None else base[p[0]] + p[1] for p in picked)
    return _append(first, second, mask, len(loads), shuffles)


def _blend(
    x: _PartialRegister, y: _PartialRegister, lanes: Lanes, loads: int, shuffles: list[RegisterShuffle]
) -> _PartialRegister:
    size = len(lanes)
    mask = tuple(i if i in x.placed else size + i if i in y.placed else NOTHING for i in range(size))
    return _append(x.register, y.register, mask, loads, shuffles)


def _add_last(
    x: _PartialRegister, last: int, lanes: Lanes, loads: int, where: Places, shuffles: list[RegisterShuffle]
) -> _PartialRegister:
    size = len(lanes)
    rest = {i: size + where[e][1] for i, e in enumerate(lanes) if e != NOTHING and where[e][0] == last}
    mask = tuple(i if i in x.placed else rest.get(i, NOTHING) for i in range(size))
    return _append(x.register, last, mask, loads, shuffles)


def _append(a: int, b: int, mask: Lanes, loads: int, shuffles: list[RegisterShuffle]) -> _PartialRegister:
    shuffles.append(RegisterShuffle(a, b, mask))
    placed = frozenset(i for i, m in enumerate(mask) if m != NOTHING)
    return _PartialRegister(loads + len(shuffles) - 1, placed)


def ordered_after(plan: RegisterPermutation, order: Callable[[Lanes], Lanes]) -> RegisterPermutation:
    """Return the recipe for registers that are loaded in another order: each is permuted first."""
    count = len(plan.loads)
    lanes = tuple(range(len(plan.loads[0])))
    loaded = order(lanes)
    if loaded == lanes:
        return plan
    back = tuple(loaded.index(lane) for lane in lanes)
    puts = tuple(RegisterShuffle(number, number, back) for number in range(count))
    shuffles = tuple(RegisterShuffle(count + s.a, count + s.b, s.mask) for s in plan.shuffles)
    stores = tuple((count + register, wanted) for register, wanted in plan.stores)
    return RegisterPermutation(tuple(map(order, plan.loads)), puts + shuffles, stores, plan.rounds)


# --- powers of two ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ExchangeRound:
    """One round: registers that differ in bit `position` of their number meet in two shuffles."""

    position: int
    low: Lanes
    high: Lanes


@dataclass(slots=True)
class _BitOrder:
    """The element bit of each lane position and each register-number position."""

    lane: list[int]
    reg: list[int]
    values: list[int]
    shuffles: list[RegisterShuffle] = field(default_factory=list)
    loads: int = 0
    rounds: list[int] = field(default_factory=list)

    def run(self, steps: list[_ExchangeRound]) -> None:
        """Run rounds group by group: registers that never meet in these rounds need not be alive together."""
        mixed = sum(1 << position for position in {step.position for step in steps})
        groups = {number & ~mixed for number in range(len(self.values))}
        for group in sorted(groups):
            members = [n for n in range(len(self.values)) if n & ~mixed == group]
            for step in steps:
                self._meet(step, members)
                self.rounds.append(len(self.shuffles))

    def _meet(self, step: _ExchangeRound, members: list[int]) -> None:
        for i in members:
            if i >> step.position & 1:
                continue
            x, y = self.values[i], self.values[i | 1 << step.position]
            self.values[i] = self._shuffle(x, y, step.low)
            self.values[i | 1 << step.position] = self._shuffle(x, y, step.high)

    def single(self, mask: Lanes) -> None:
        """Permute the lanes of every register."""
        self.values = [self._shuffle(v, v, mask) for v in self.values]
        self.rounds.append(len(self.shuffles))

    def _shuffle(self, a: int, b: int, mask: Lanes) -> int:
        self.shuffles.append(RegisterShuffle(a, b, mask))
        return self.loads + len(self.shuffles) - 1


@lru_cache(maxsize=512)
def exchange(
    lane: tuple[int, ...], wanted: tuple[int, ...], bits: int, quarter: int, packed: tuple[int, ...] = ()
) -> RegisterPermutation:
    """Turn registers with lane bits `lane` into registers with lane bits `wanted` (innermost first).

    Element numbers have `bits` bits; the bits in no lane number the registers, ascending. `quarter` is the
    number of lane bits within 16 bytes, where interleaving two registers is a single instruction everywhere.
    Registers that are loaded with the same bits in another order, `packed`, are permuted first.
    """
    outer = [b for b in range(bits) if b not in lane]
    state = _BitOrder(list(packed or lane), outer, list(range(1 << len(outer))), loads=1 << len(outer))
    loads = _registers(state.lane, outer)
    if set(lane) != set(wanted) and tuple(state.lane) != lane:
        _permute_lanes(state, lane)
    quarter = min(quarter, len(lane))
    if set(state.lane) != set(wanted) or list(wanted[:quarter]) != state.lane[:quarter]:
        if _can_interleave(state, wanted, quarter):
            state.run(_interleave(state, wanted, quarter))
        state.run(_swap_in(state, wanted))
    if tuple(state.lane) != wanted:
        # Merged with the previous round: some instruction sets do both at once.
        del state.rounds[-1:]
        _permute_lanes(state, wanted)
    names = _registers(state.lane, state.reg)
    return RegisterPermutation(
        loads, tuple(state.shuffles), tuple(zip(state.values, names, strict=True)), tuple(state.rounds)
    )


def _registers(lane: list[int], reg: list[int]) -> tuple[Lanes, ...]:
    inside = _spreads(lane)
    return tuple(tuple(first | place for place in inside) for first in _spreads(reg))


def _spreads(bits: list[int]) -> list[int]:
    """Return the numbers from 0 on with their bits moved to `bits`."""
    spread = [0]
    for bit in bits:
        spread += [low | 1 << bit for low in spread]
    return spread


def _shared_prefix(lane: list[int], wanted: tuple[int, ...], quarter: int) -> int:
    count = 0
    while count < quarter and lane[count] == wanted[count]:
        count += 1
    return count


def _can_interleave(state: _BitOrder, wanted: tuple[int, ...], quarter: int) -> bool:
    """Interleaving pops lane bits from the top: a wanted bit must number registers when its turn comes."""
    lane, reg = list(state.lane), set(state.reg)
    low = _shared_prefix(lane, wanted, quarter)
    if low == quarter:
        return False
    for target in reversed(wanted[low:quarter]):
        if target not in reg:
            return False
        reg.remove(target)
        reg.add(lane[quarter - 1])
        lane[low:quarter] = [target, *lane[low : quarter - 1]]
    return True


def _interleave(state: _BitOrder, wanted: tuple[int, ...], quarter: int) -> list[_ExchangeRound]:
    low = _shared_prefix(state.lane, wanted, quarter)
    masks = _interleave_masks(low, quarter, len(state.lane))
    steps = []
    for target in reversed(wanted[low:quarter]):
        position = state.reg.index(target)
        steps.append(_ExchangeRound(position, *masks))
        state.reg[position] = state.lane[quarter - 1]
        state.lane[low:quarter] = [target, *state.lane[low : quarter - 1]]
    return steps


@lru_cache(maxsize=64)
def _interleave_masks(low: int, quarter: int, total: int) -> tuple[Lanes, Lanes]:
    """Masks of unpack-low and unpack-high in groups of 2**low lanes, within each 2**quarter lanes."""
    return _unpack(low, quarter, total, 0), _unpack(low, quarter, total, 1)


def _unpack(low: int, quarter: int, total: int, top: int) -> Lanes:
    def source(position: int) -> int:
        inside = position & ((1 << quarter) - 1)
        kept = inside & ((1 << low) - 1)
        side = inside >> low & 1
        upper = inside >> (low + 1)
        lane = (position - inside) | kept | upper << low | top << (quarter - 1)
        return lane + (side << total)

    return tuple(source(i) for i in range(1 << total))


def _swap_in(state: _BitOrder, wanted: tuple[int, ...]) -> list[_ExchangeRound]:
    """Swap each wanted bit that numbers registers with a lane bit that is not wanted."""
    steps = []
    for place, target in enumerate(wanted):
        if target in state.lane:
            continue
        spare = place if state.lane[place] not in wanted else _spare(state.lane, wanted)
        position = state.reg.index(target)
        steps.append(_ExchangeRound(position, *_swap_masks(spare, len(state.lane))))
        state.reg[position], state.lane[spare] = state.lane[spare], target
    return steps


def _spare(lane: list[int], wanted: tuple[int, ...]) -> int:
    return max(p for p, bit in enumerate(lane) if bit not in wanted)


@lru_cache(maxsize=64)
def _swap_masks(place: int, total: int) -> tuple[Lanes, Lanes]:
    size, bit = 1 << total, 1 << place
    low = tuple(size + (i ^ bit) if i & bit else i for i in range(size))
    high = tuple(size + i if i & bit else i ^ bit for i in range(size))
    return low, high


def _permute_lanes(state: _BitOrder, wanted: tuple[int, ...]) -> None:
    places = [state.lane.index(bit) for bit in wanted]
    state.single(tuple(_spreads(places)))
    state.lane = list(wanted)
