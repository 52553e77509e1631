"""A plan in words: fusions, the format of each tensor, why each reorder is there, and the memory of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ...desc.viewer import Explanation
from ..formats.propagation import InsertedReorder, format_name
from .plan import NetworkPlan

__all__ = ["explain_plan"]


def explain_plan(plan: NetworkPlan) -> Explanation:
    """All that was decided before the first run, each decision on a line of its own."""
    parts = (_fusions(plan), _formats(plan), _reorders(plan), _memory(plan))
    return Explanation("\n".join(line for part in parts for line in part))


def _fusions(plan: NetworkPlan) -> Iterator[str]:
    kinds = Counter(each.fusion for each in plan.fusions)
    yield f"fusions: {', '.join(f'{count} {name}' for name, count in kinds.items()) or 'none'}"
    yield from (f"  {each}" for each in plan.fusions)


def _formats(plan: NetworkPlan) -> Iterator[str]:
    found = plan.formats
    proof = "; no other choice has a lower total" if found.is_exact else ""
    yield f"formats: {found.rule}, predicted {found.seconds * 1e3:.3g} ms in all{proof}"
    made = (each for each in found.formats.items() if each[0] not in plan.graph.constants)
    yield from (f"  {name}: {format_name(md)}" for name, md in made)


def _reorders(plan: NetworkPlan) -> Iterator[str]:
    found = plan.formats
    moving = [each for each in found.reorders if not each.is_constant]
    once = [each for each in found.reorders if each.is_constant]
    yield from _listed(f"{found.bytes_moved} bytes, predicted {found.reorder_seconds * 1e3:.3g} ms", moving)
    yield from _listed("of constants, done once", once)


def _listed(words: str, reorders: Sequence[InsertedReorder]) -> Iterator[str]:
    yield f"reorders: {len(reorders)}, {words}"
    yield from (f"  {each}" for each in reorders)


def _memory(plan: NetworkPlan) -> Iterator[str]:
    arena = plan.arena
    in_use = f"{arena.lower_bound} are in use at once"
    yield f"memory: {arena.peak} bytes a run; {in_use}, and all tensors apart would be {arena.unshared}"
