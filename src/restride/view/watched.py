"""Profiles as tables, and pictures of networks, plans and quantized tensors for notebooks."""

from __future__ import annotations

from html import escape

from ..arrays.reorder_plan import Plan
from ..arrays.scaling.quantized_tensor import QuantizedTensor
from ..graph.network.network import Network
from ..graph.network.plan import NetworkPlan
from ..profiling import Profile
from ..runtime.cpu.roof import Roof, roof
from ..verbose import printable
from ..watching import NETWORK, Activity
from .names import aligned
from .network_page import NetworkPicture, network_page
from .network_rows import network_rows
from .notebook import html_of_memory
from .svg import svg_pair
from .units import data_size, duration

__all__ = ["html_of", "of_roof", "profile_text", "rate_text"]

_NUMBERS = "time", "share", "calls", "bytes", "rate", "of roof"
_WORDS = "operation", "dims", "formats", "kernel", "node"
_MOST_ROWS = 200
_MOST_LINES = 16
_ROW, _HEAD, _MOST_HEIGHT = 26, 280, 640


def rate_text(seconds: float, nbytes: int, flops: int = 0) -> str:
    """Return the rate of an execution: operations per second for sums of products, else bytes per second."""
    rate = (flops or nbytes) / max(seconds, 1e-12) / 1e9
    return f"{rate:.1f} {'GFLOP/s' if flops else 'GB/s'}" if flops or nbytes else ""


def of_roof(limit: float, seconds: float) -> str:
    """Return the share of the machine's peak: the minimum time over the measured time."""
    return f"{100 * limit / max(seconds, 1e-12):.0f} %" if limit else ""


def profile_text(profile: Profile) -> str:
    """Return the table of a profile, a row for identical executions, followed by totals."""
    activities = profile.activities
    has_steps = any(each.kind == "step" for each in activities)
    alike: dict[tuple[str, ...], list[Activity]] = {}
    for each in activities:
        # A run whose steps are listed is not listed itself.
        if each.kind == "step" or (each.kind == "execution" and not (has_steps and each.name == NETWORK)):
            key = each.name, each.node, each.implementation, each.formats, each.dims
            alike.setdefault(key, []).append(each)
    rows = sorted(alike.values(), key=_seconds, reverse=True)
    executions = [each for row in rows for each in row]
    limits = roof() if rows else None
    cells = [(*_NUMBERS, *_WORDS), *(_cells(row, _seconds(executions), limits) for row in rows[:_MOST_ROWS])]
    lines = list(aligned(cells, ">" * len(_NUMBERS) + "<" * len(_WORDS)))
    rest = [each for row in rows[_MOST_ROWS:] for each in row]
    counts = {
        "execution": executions,
        "compile": [each for each in activities if each.kind == "compile"],
        "plan": [each for each in activities if each.kind == "plan"],
        "execution in rows left out": rest,
        "activity that raised": [each for each in activities if each.error is not None],
    }
    sums = (f"{word}: {len(each)} in {duration(_seconds(each))}" for word, each in counts.items() if each)
    return "\n".join([*lines, "", "; ".join(sums) or "nothing was executed"])


def html_of(value: object) -> str:
    """Return the picture of a profile, a plan, a network or a quantized tensor for a notebook.

    For a network this is its last plan: none is created for it.
    """
    if isinstance(value, Profile):
        return f"<pre>{escape(profile_text(value))}</pre>"
    if isinstance(value, NetworkPlan):
        return _html_of_plan(value)
    if isinstance(value, Network):
        plan, head = value._last_plan, f"<pre>{escape(repr(value))}</pre>"
        return head + (
            _html_of_plan(plan) if plan else "not planned yet: call it, or <code>net.plan()</code>"
        )
    if isinstance(value, Plan):
        return _html_of_reorder(value)
    assert isinstance(value, QuantizedTensor)
    return _html_of_quantized(value)


# --- profiles -----------------------------------------------------------------------------------------------


def _seconds(activities: list[Activity]) -> float:
    return sum(each.seconds for each in activities)


def _cells(row: list[Activity], total: float, limits: Roof | None) -> tuple[str, ...]:
    each, best = row[0], min(each.seconds for each in row)
    limit = limits.seconds(each.bytes, each.flops, each.factor_types) if limits and each.bytes else 0.0
    return (
        duration(_seconds(row)),
        f"{100 * _seconds(row) / max(total, 1e-12):.1f} %",
        str(len(row)),
        data_size(each.bytes) if each.bytes else "",
        rate_text(best, each.bytes, each.flops),
        of_roof(limit, best),
        each.name,
        each.dims,
        _formats(each.formats),
        each.implementation.removeprefix("jit:"),
        printable(each.node),
    )


def _formats(text: str) -> str:
    """Return the first tensor of a verbose line and the destination: `f32 ab -> u8 ba`."""
    tensors = [md.split(":") for md in text.split() if md.count(":") >= 4]
    if not tensors:
        return ""
    written = next((fields for fields in tensors[1:] if "dst" in fields[0]), tensors[-1])
    return " -> ".join(f"{fields[1]} {fields[4]}".rstrip() for fields in (tensors[0], written))


# --- notebooks ----------------------------------------------------------------------------------------------


def _html_of_plan(plan: NetworkPlan) -> str:
    """Return the page of `restride propagate --html` in a separate frame, which isolates its styles."""
    rows = network_rows(plan.graph, plan.formats)
    head = f"steps: {len(plan.steps)}, reorders: {plan.reorders}, {data_size(plan.arena.peak)} a run"
    page = network_page(head, [NetworkPicture(plan.formats, rows)])
    height = min(_HEAD + _ROW * len(rows), _MOST_HEIGHT)
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{escape(page)}" style="{style}" title="{escape(head)}"></iframe>'


def _html_of_reorder(plan: Plan) -> str:
    """Return the layouts of both sides, followed by the loops and the schedule, collapsed."""
    head, _, loops = str(plan).partition("\nnest\n")
    picture = svg_pair((plan.src, ""), (plan.dst, ""), most=_MOST_LINES)
    folded = f"<details><summary>loops and schedule</summary><pre>{escape(loops)}</pre></details>"
    return f'<div><pre>{escape(head)}</pre><div style="overflow-x:auto">{picture}</div>{folded}</div>'


def _html_of_quantized(tensor: QuantizedTensor) -> str:
    named = ((name, getattr(tensor, name)) for name in ("values", "scale", "zero_point", "minimum"))
    parts = [(name, part) for name, part in named if part is not None]
    dims, groups = ("×".join(map(str, each)) for each in (tensor.dims, tensor.groups))
    bits = 8 * sum(part.desc.size for _, part in parts) / max(tensor.desc.nelems, 1)
    factor = f", times {tensor.tensor_scale:g}" if tensor.tensor_scale != 1.0 else ""
    head = f"{dims} of {tensor.desc.data_type}, groups of {groups}, {bits:.3g} bits a number{factor}"
    folded = (
        f"<details{' open' * (name == 'values')}><summary>{name}</summary>{html_of_memory(part)}</details>"
        for name, part in parts
    )
    return f"<div>{head}{''.join(folded)}</div>"
