"""The shuffles of a recipe as instructions, without shuffles that reach no store and unused lanes."""

from __future__ import annotations

from .builder import Builder, Value
from .register_permutation import NOTHING, Lanes, RegisterPermutation

# The lanes of the widest registers when they hold bytes.
_BYTES_512 = 64


def permuted(
    b: Builder, plan: RegisterPermutation, loaded: list[Value], stored: dict[int, set[int]], *, kept: bool
) -> list[Value]:
    """Run a recipe's shuffles; those that reach no store, or have only zeros to move, are left out."""
    registers = list(loaded)
    needed = _needed(plan, stored)
    for number, step in enumerate(plan.shuffles):
        if number in plan.rounds:
            b.start_block(kept=kept)
        a, c = registers[step.a], registers[step.b]
        wanted = needed.get(len(registers), set())
        # A shuffle of zeros becomes a constant zero: LLVM 22 aborts on storing one that interleaves.
        is_zero = a.ref == c.ref == "zeroinitializer"
        if is_zero or all(step.mask[i] == i for i in wanted):
            registers.append(a)
        else:
            registers.append(b.shuffle_wide(a, c, wanted_part(step.mask, wanted, is_alone=a == c)))
    return registers


def wanted_part(mask: Lanes, wanted: set[int], *, is_alone: bool) -> Lanes:
    """Return the mask, undefined in eighths of a register that no store needs; `is_alone`: one register."""
    if len(wanted) == len(mask):
        return mask
    eighths = _parts_with(mask, wanted, 8)
    picks_one = is_alone or len({m < len(mask) for m in eighths if m != NOTHING}) < 2
    return _parts_with(mask, wanted, 4) if picks_one and _may_circle(eighths) else eighths


def _parts_with(mask: Lanes, wanted: set[int], count: int) -> Lanes:
    """Return the mask, undefined in those of `count` equal parts where nothing is needed."""
    size = max(len(mask) // count, 1)
    kept = {i // size for i in wanted}
    return tuple(m if i // size in kept else NOTHING for i, m in enumerate(mask))


def _may_circle(mask: Lanes) -> bool:
    """Return whether LLVM 22 might split and rejoin a permutation of one register forever.

    It splits a permutation of 64 bytes in two steps: words of 4 or 8 bytes to the right 16, then bytes within
    these. If half of such 16 is undefined, the first step can become the original permutation. It does not
    try this if 16 bytes come from more than four words.
    """
    if len(mask) != _BYTES_512:
        return False
    sixteens = [mask[i : i + 16] for i in range(0, len(mask), 16)]
    return all(len({m // 4 for m in part if m != NOTHING}) <= 4 for part in sixteens)


def _needed(plan: RegisterPermutation, stored: dict[int, set[int]]) -> dict[int, set[int]]:
    """Return the lanes that reach a store, by register; a tail tile stores few."""
    needed = {register: set(lanes) for register, lanes in stored.items()}
    is_whole = all(len(lanes) == len(plan.loads[0]) for lanes in stored.values())
    for number in range(len(plan.shuffles) - 1, -1, -1):
        step, lanes = plan.shuffles[number], needed.get(len(plan.loads) + number, set())
        if is_whole and lanes:
            needed[step.a] = needed[step.b] = lanes
            continue
        size, picked = len(step.mask), [step.mask[i] for i in lanes]
        needed.setdefault(step.a, set()).update([m for m in picked if 0 <= m < size])
        needed.setdefault(step.b, set()).update([m - size for m in picked if m >= size])
    return needed
