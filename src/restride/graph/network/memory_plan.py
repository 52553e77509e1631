"""Placement of a network's tensors in one block of memory: tensors that are live at the same time do not
overlap.

1. **Liveness**: a tensor lives from the step that writes it to the last step that reads it; a view of
   another lives in its bytes, and keeps them alive.
2. **In place**: if a step can overwrite a tensor at its last read, both form one region, as large as the
   larger.
3. **Placement**: regions are placed in sequence, each in the smallest gap between placed regions that are
   live at the same time, or after them. Three orders are tried: largest first, longest and largest first,
   and the order of the steps; the one with the lowest peak is taken.

Offsets are multiples of 64 bytes, the width of the widest vectors and of a cache line. Finding the lowest
peak is as hard as bin packing; `lower_bound` limits how far from it the plan can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType

from ...errors import refuse

__all__ = ["ALIGNMENT", "ArenaPlan", "ArenaTensor", "MemoryStep", "lifetimes", "plan_memory"]

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """The reads and writes of a step, by names of tensors.

    `in_place`: pairs (written, read): the step can write the first over the second, if that is not read
    later. `views`: pairs (written, read): the first is another descriptor of the second, without its own
    memory. `scratch`: bytes that only this step needs.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    in_place: tuple[tuple[str, str], ...] = ()
    views: tuple[tuple[str, str], ...] = ()
    scratch: int = 0


@dataclass(frozen=True, slots=True)
class ArenaTensor:
    """A tensor of `size` bytes that lives from step `first` to step `last`, both included.

    `over`: the tensor that its step can overwrite, "" for none.
    """

    name: str
    size: int
    first: int
    last: int
    over: str = ""


@dataclass(frozen=True)
class ArenaPlan:
    """The offset of each tensor in bytes, and the size of the block that holds them all.

    `peak`: bytes of the block. `lower_bound`: the most bytes that are live at once, a minimum for any plan.
    `unshared`: bytes if no tensors shared memory.
    """

    offsets: Mapping[str, int]
    peak: int
    lower_bound: int
    unshared: int


@dataclass(frozen=True, slots=True)
class _ArenaRegion:
    """Tensors that occupy the same bytes in sequence."""

    names: tuple[str, ...]
    size: int
    first: int
    last: int


def scratch_name(step: int) -> str:
    """Name of the scratch memory of a step among the offsets of a plan."""
    return f"scratch of step {step}"


def lifetimes(
    steps: Sequence[MemoryStep], sizes: Mapping[str, int], outputs: Iterable[str] = ()
) -> tuple[ArenaTensor, ...]:
    """Return the tensors of an arena, with the first and the last step of each.

    `sizes`: bytes of each tensor in the arena; others, such as inputs and weights, are elsewhere. `outputs`:
    tensors that must exist after the last step. A view counts as a use of its base, and has no memory. A
    step's scratch is a tensor that lives for that step.

    Raises InvalidArguments for a tensor of `sizes` that no step writes.
    """
    owners: dict[str, str] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, step in enumerate(steps):
        owners.update((result, owners.get(read, read)) for result, read in step.views)
        for name in (*step.writes, *step.reads):
            owner = owners.get(name, name)
            first.setdefault(owner, place)
            last[owner] = place
    last.update((owners.get(name, name), len(steps)) for name in outputs)
    # A tensor written in parts by several steps lives from the first of them on.
    writes = dict.fromkeys(name for step in steps for name in step.writes if name in sizes)
    for missing in sizes.keys() - writes.keys():
        raise refuse("RS-G11:no-step-writes", missing=missing)
    over: dict[str, str] = {}
    for place, step in enumerate(steps):
        for result, read in step.in_place:
            owner = owners.get(read, read)
            is_free = owner in sizes and last[owner] == place and owner not in over.values()
            if is_free and result in sizes and result not in over:
                over[result] = owner
    tensors = [
        ArenaTensor(name, sizes[name], first[name], last[name], over.get(name, ""))
        for name in writes
        if name not in owners
    ]
    scratch = [
        ArenaTensor(scratch_name(place), step.scratch, place, place)
        for place, step in enumerate(steps)
        if step.scratch
    ]
    return (*tensors, *scratch)


def plan_memory(tensors: Sequence[ArenaTensor], alignment: int = ALIGNMENT) -> ArenaPlan:
    """Compute offsets for all tensors; those that are live at the same time do not overlap.

    Only a tensor placed over another one (`over`) shares bytes with one that is live at the same step. Raises
    InvalidArguments for a tensor over one that is still live, unknown, or already overwritten.
    """
    by_name = {tensor.name: tensor for tensor in tensors}
    covered = Counter(tensor.over for tensor in tensors)
    for tensor in tensors:
        below = by_name.get(tensor.over)
        if tensor.over and (below is None or below.last != tensor.first or covered[tensor.over] > 1):
            raise refuse("RS-G11:cannot-lie-over", each=tensor)
    sized = [replace(t, size=-(-t.size // alignment) * alignment) for t in tensors]
    arranged = (_regions(sized), _regions([replace(t, over="") for t in sized]))
    tried = [_placed(sorted(regions, key=order)) for regions in arranged for order in _ORDERS]
    peak, offsets = min(tried, key=lambda plan: plan[0])
    return ArenaPlan(MappingProxyType(offsets), peak, _most_alive(sized), sum(t.size for t in sized))


_ORDERS: tuple[Callable[[_ArenaRegion], tuple[int, ...]], ...] = (
    lambda region: (-region.size, region.first),
    lambda region: (-region.size * (region.last - region.first + 1), region.first),
    lambda region: (region.first, -region.size),
)


def _regions(tensors: Sequence[ArenaTensor]) -> list[_ArenaRegion]:
    """Merge chains of tensors placed over each other into one region each."""
    followers = {tensor.over: tensor for tensor in tensors if tensor.over}
    regions = []
    for tensor in tensors:
        if tensor.over:
            continue
        chain = [tensor]
        while (following := followers.get(chain[-1].name)) is not None:
            chain.append(following)
        size = max(t.size for t in chain)
        regions.append(
            _ArenaRegion(tuple(t.name for t in chain), size, tensor.first, max(t.last for t in chain))
        )
    return regions


def _placed(regions: Sequence[_ArenaRegion]) -> tuple[int, dict[str, int]]:
    """Place regions in this order; return the peak, and the offset of each tensor."""
    placed: list[tuple[int, _ArenaRegion]] = []
    for region in regions:
        ranges = sorted(
            (offset, offset + other.size)
            for offset, other in placed
            if other.first <= region.last and region.first <= other.last
        )
        placed.append((_best_gap(ranges, region.size), region))
    peak = max((offset + region.size for offset, region in placed), default=0)
    return peak, {name: offset for offset, region in placed for name in region.names}


def _best_gap(ranges: list[tuple[int, int]], size: int) -> int:
    """Return the offset of the smallest gap of at least `size` between ranges, or the end of all of them."""
    best, best_gap, end = -1, -1, 0
    for low, high in ranges:
        if low - end >= size and (best < 0 or low - end < best_gap):
            best, best_gap = end, low - end
        end = max(end, high)
    return end if best < 0 else best


def _most_alive(tensors: Sequence[ArenaTensor]) -> int:
    """Return the most bytes that are live at one step, counting bytes shared by `over` once."""
    by_name = {tensor.name: tensor for tensor in tensors}
    changes: Counter[int] = Counter()
    for tensor in tensors:
        changes[tensor.first] += tensor.size
        changes[tensor.last + 1] -= tensor.size
        if tensor.over:
            shared = min(tensor.size, by_name[tensor.over].size)
            changes[tensor.first] -= shared
            changes[tensor.first + 1] += shared
    return max(accumulate(changes[step] for step in sorted(changes)), default=0)
