"""Profiles as tables, and the pictures of networks, plans and quantized tensors for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import inf
from typing import Any

from ..arrays.scaling.quantized_tensor import QuantizedTensor
from ..graph.network.network import Network
from ..graph.network.plan import NetworkPlan
from ..profiling import Profile
from ..runtime.cpu.roof import Roof, roof
from ..verbose import printable
from ..watching import Activity
from .network_page import NetworkPicture, network_page
from .network_rows import network_rows
from .notebook import html_of_memory
from .units import data_size, duration

__all__ = ["html_of", "of_roof", "profile_text", "rate_text"]

_HEADINGS = (
    "time",
    "share",
    "calls",
    "bytes",
    "rate",
    "of roof",
    "operation",
    "dims",
    "formats",
    "kernel",
    "node",
)
_NUMBERS = 6
_MOST_ROWS = 200
_ROW, _HEAD, _MOST_HEIGHT = 26, 280, 640


@dataclass
class _ProfileRow:
    """Executions that are alike: how often, how long in all, and how long the fastest took."""

    activity: Activity
    calls: int = 0
    seconds: float = 0.0
    best: float = inf


def rate_text(seconds: float, nbytes: int, flops: int = 0) -> str:
    """The rate of an execution: of sums of products operations in a second, of all else bytes."""
    rate = (flops or nbytes) / max(seconds, 1e-12) / 1e9
    return f"{rate:.1f} {'GFLOP/s' if flops else 'GB/s'}" if flops or nbytes else ""


def of_roof(limit: float, seconds: float) -> str:
    """The share of what the machine can do: the least time over the time that it took."""
    return f"{100 * limit / max(seconds, 1e-12):.0f} %" if limit else ""


def profile_text(profile: Profile) -> str:
    """The table of a profile, and below it what it sums up to."""
    cells = [_HEADINGS, *_cells(profile)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADINGS))]
    lines = []
    for row in cells:
        pairs = list(zip(row, widths, strict=True))
        numbers = [cell.rjust(width) for cell, width in pairs[:_NUMBERS]]
        lines.append("  ".join(numbers + [cell.ljust(width) for cell, width in pairs[_NUMBERS:]]).rstrip())
    return "\n".join([*lines, "", *_sums(profile)])


def html_of(value: object) -> str:
    """The picture of a profile, a plan, a network or a quantized tensor for a notebook."""
    if isinstance(value, Profile):
        return _table(_HEADINGS, _cells(value)) + "".join(
            f"<div>{escape(line)}</div>" for line in _sums(value)
        )
    if isinstance(value, NetworkPlan):
        return _html_of_plan(value)
    if isinstance(value, Network):
        return _html_of_network(value)
    assert isinstance(value, QuantizedTensor)
    return _html_of_quantized(value)


# --- profiles -----------------------------------------------------------------------------------------------


def _rows(profile: Profile) -> list[_ProfileRow]:
    """Executions and steps that are alike, those that took longest first; a run whose steps are there is none
    of them.
    """
    has_steps = any(each.kind == "step" for each in profile.activities)
    alike: dict[tuple[object, ...], _ProfileRow] = {}
    lines: dict[int, Activity] = {}
    for each in profile.activities:
        if each.kind not in ("execution", "step"):
            continue
        # Descriptions take longer than executions: that of one serves all that have its implementation.
        named = each if each._of is None else lines.setdefault(id(each._of), each)
        if has_steps and named.name == "network" and each.kind == "execution":
            continue
        row = alike.setdefault((named.line[:-1], each.node), _ProfileRow(each))
        row.calls, row.seconds = row.calls + 1, row.seconds + each.seconds
        row.best = min(row.best, each.seconds)
    return sorted(alike.values(), key=lambda row: -row.seconds)


def _cells(profile: Profile) -> list[tuple[str, ...]]:
    rows = _rows(profile)
    total = sum(row.seconds for row in rows) or 1.0
    found = roof() if rows else None
    return [_row_cells(row, total, found) for row in rows[:_MOST_ROWS]]


def _row_cells(row: _ProfileRow, total: float, found: Roof | None) -> tuple[str, ...]:
    each = row.activity
    nbytes, flops = each.bytes, each.flops
    limit = found.seconds(nbytes, flops, each._factor_types) if found and nbytes else 0.0
    return (
        duration(row.seconds),
        f"{100 * row.seconds / total:.1f} %",
        str(row.calls),
        data_size(nbytes) if nbytes else "",
        rate_text(row.best, nbytes, flops),
        of_roof(limit, row.best),
        each.name,
        each.dims,
        _formats(each.formats),
        each.implementation.removeprefix("jit:"),
        printable(each.node),
    )


def _formats(text: str) -> str:
    """The first tensor of a verbose line and the one that is written: `f32 ab -> u8 ba`."""
    tensors = [md.split(":") for md in text.split() if md.count(":") >= 4]
    if not tensors:
        return ""
    written = next((fields for fields in tensors[1:] if "dst" in fields[0]), tensors[-1])
    return " -> ".join(f"{fields[1]} {fields[4]}".rstrip() for fields in (tensors[0], written))


def _sums(profile: Profile) -> list[str]:
    rows, activities = _rows(profile), profile.activities
    calls = sum(row.calls for row in rows)
    parts = [f"{calls} execution{'s' * (calls != 1)} in {duration(sum(row.seconds for row in rows))}"]
    for kind in ("compile", "plan"):
        seconds = [each.seconds for each in activities if each.kind == kind]
        words = f"{len(seconds)} {kind}{'s' * (len(seconds) > 1)} in {duration(sum(seconds))}"
        parts += [words] * bool(seconds)
    failed = sum(each.error is not None for each in activities)
    parts += [f"{failed} that raised"] * bool(failed)
    more = len(rows) - _MOST_ROWS
    hidden = [f"{more} more rows, which took {duration(sum(r.seconds for r in rows[_MOST_ROWS:]))}"]
    return [*hidden * (more > 0), "; ".join(parts)]


# --- notebooks ----------------------------------------------------------------------------------------------


def _html_of_plan(plan: NetworkPlan) -> str:
    """The page of `restride propagate --html` in a frame of its own: no style leaves it, or comes in."""
    rows = network_rows(plan.graph, plan.formats)
    head = (
        f"steps: {len(plan.steps)}, reorders: {plan.reorders}, memory of a run: {data_size(plan.arena.peak)}"
    )
    page = network_page(head, [NetworkPicture(plan.formats, rows)])
    height = min(_HEAD + _ROW * len(rows), _MOST_HEIGHT)
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{escape(page)}" style="{style}" title="{escape(head)}"></iframe>'


def _html_of_network(net: Network) -> str:
    """The plan that was used last; before the first one the inputs and outputs: nothing is planned here."""
    rows = [("input", printable(str(entry))) for entry in net.inputs]
    rows += [("output", printable(name)) for name in net.outputs]
    table = _table((), rows)
    plan = net._last_plan
    return table + (
        _html_of_plan(plan) if plan else "<div>not planned yet: call it, or <code>net.plan()</code></div>"
    )


def _html_of_quantized(tensor: QuantizedTensor) -> str:
    dims, groups = ("×".join(map(str, each)) for each in (tensor.dims, tensor.groups))
    bits = 8 * sum(part.desc.size for _, part in _parts(tensor)) / max(tensor.desc.nelems, 1)
    head = f"{dims} of {tensor.desc.data_type}, groups of {groups}, {bits:.3g} bits a number"
    parts = "".join(
        f"<details{' open' * (name == 'values')}><summary>{name}</summary>{html_of_memory(part)}</details>"
        for name, part in _parts(tensor)
    )
    factor = f", times {tensor.tensor_scale:g}" if tensor.tensor_scale != 1.0 else ""
    return f"<div><div>{escape(head + factor)}</div>{parts}</div>"


def _parts(tensor: QuantizedTensor) -> list[tuple[str, Any]]:
    named = ((name, getattr(tensor, name)) for name in ("values", "scale", "zero_point", "minimum"))
    return [(name, part) for name, part in named if part is not None]


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(word)}</th>" for word in headings)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align:{"right" if headings and i < _NUMBERS else "left"}">{escape(cell)}</td>'
            for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow-x:auto;white-space:nowrap">{table}</div>'
