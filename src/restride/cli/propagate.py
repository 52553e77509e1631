"""Show in which formats a network runs, which reorders it pays for, and what propagation saves.

Reads an ONNX model, and compares three rules. plain: every tensor is row-major. greedy: each node gets
the format that suits it alone, or keeps what comes. optimal: the formats with the least predicted time.
Prints the reorders of the optimal rule with their reasons. --html writes a page with the network as a
picture, coloured by format, with a switch among the rules. --measure runs each rule on random numbers,
and prints measured times.

  restride propagate shufflenet.onnx
  restride propagate shufflenet.onnx --html shufflenet.html --measure
  restride propagate detector.onnx --dims x=1x3x640x480
  restride propagate resnet50.onnx --without epilogues --explain

An existing file is replaced only with --force.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import onnx
from ..files.writing.replacement import shown
from ..graph.formats.propagation import RULES, InsertedReorder
from ..graph.network.network import Network
from ..graph.network.plan import NetworkPlan
from ..graph.rewrites.fusions import FUSIONS
from ..view.network_page import NetworkPicture, network_page
from ..view.network_rows import MeasuredTimes, network_rows
from ..view.units import data_size, duration
from .named_files import PIPE, add_force, check_no_pipe, check_output, write_output
from .network_inputs import named_dims, named_value, prepare, random_input
from .output import CommandResult
from .usage import Parser, checked, wrong_usage

__all__ = ["add_arguments", "run"]

_RUNS = 10


def add_arguments(parser: Parser) -> None:
    """MODEL, extents of inputs, fusions that are off, the page, and whether to measure."""
    parser.add_argument("model", metavar="MODEL.onnx", help="an ONNX model")
    parser.add_argument(
        "--dims",
        action="append",
        default=[],
        type=checked(named_dims),
        metavar="NAME=DIMS",
        help="extents of an input, as x=1x3x224x224",
    )
    parser.add_argument(
        "--value",
        action="append",
        default=[],
        type=checked(named_value),
        metavar="NAME=NUMBERS",
        help="what an input always is, as sr=16000",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=FUSIONS,
        metavar="FUSION",
        help="a fusion that is off",
    )
    parser.add_argument("--explain", action="store_true", help="tell every decision of the optimal rule")
    parser.add_argument("--measure", action="store_true", help="run each rule, and tell measured times")
    parser.add_argument("--html", metavar="FILE", help="write the network as a picture")
    add_force(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """The table of the rules and the reorders of the best; as values the same."""
    check_no_pipe("restride propagate", options.model)
    if options.html is not None:
        _check_page(options)
    dims = dict(options.dims)
    values = dict(options.value)
    net = onnx.load(options.model, dims=dims, values=values, without=options.without)
    found = _compared([net.with_rule(rule) for rule in RULES], options.measure)
    name = os.path.basename(options.model)
    if options.html is not None:
        pictures = [_picture(each) for each in found.values()]
        write_output(options.html, network_page(name, pictures).encode())
    values = {"model": name, "rules": {rule: _values(each) for rule, each in found.items()}}
    return CommandResult(_text(name, found, options), values)


@dataclass(frozen=True)
class _Compared:
    """A rule, its plan, and how long steps took where that was measured."""

    rule: str
    net: Network
    plan: NetworkPlan
    times: MeasuredTimes | None
    seconds: float | None


def _compared(nets: Sequence[Network], is_measured: bool) -> dict[str, _Compared]:
    """The networks by their rules."""
    plans = [net.plan() for net in nets]
    if not is_measured:
        pairs = zip(nets, plans, strict=True)
        return {net.rule: _Compared(net.rule, net, plan, None, None) for net, plan in pairs}
    best = _measured(nets, plans[0])
    made = (_with_times(*each) for each in zip(nets, plans, best, strict=True))
    return {each.rule: each for each in made}


def _measured(nets: Sequence[Network], plan: NetworkPlan) -> list[list[float]]:
    """The least seconds of each step. They take turns: what else the machine does meets all."""
    rng = np.random.default_rng(0)
    graph = plan.graph
    inputs = {
        each.name: random_input(rng, graph.tensors[each.name].dims, each.data_type) for each in nets[0].inputs
    }
    for net in nets:
        prepare(net, *(each.shape for each in inputs.values()))
        net(inputs)
    runs = [[[step.seconds for step in net.profile(inputs)] for net in nets] for _ in range(_RUNS)]
    return [[min(each) for each in zip(*of_net, strict=True)] for of_net in zip(*runs, strict=True)]


def _with_times(net: Network, plan: NetworkPlan, best: Sequence[float]) -> _Compared:
    nodes: dict[str, float] = {}
    reorders: dict[tuple[str, str], float] = {}
    for step, seconds in zip(plan.steps, best, strict=True):
        if step.is_inserted:
            reorders[step.node, str(step.writes[0].md)] = seconds
        else:
            nodes[step.node] = seconds
    return _Compared(net.rule, net, plan, MeasuredTimes(nodes, reorders), sum(best))


def _picture(found: _Compared) -> NetworkPicture:
    rows = network_rows(found.plan.graph, found.plan.formats, found.times)
    return NetworkPicture(found.plan.formats, rows, found.times is not None)


# --- words --------------------------------------------------------------------------------------------------


def _text(name: str, found: Mapping[str, _Compared], options: argparse.Namespace) -> str:
    if options.html == PIPE:
        return ""
    best = found["optimal"]
    kinds = Counter(each.fusion for each in best.plan.fusions)
    fused = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    lines = [f"{name}: {len(best.plan.graph.nodes)} nodes{f' after fusions ({fused})' if fused else ''}", ""]
    measured = "measured" if options.measure else ""
    lines += [_line("rule", "reorders", "moved", "reorders take", "predicted", measured)]
    lines += map(_row, found.values())
    moving = _moving(best.plan)
    if options.explain:
        lines += ["", str(best.net.explain())]
    elif moving:
        lines += ["", "reorders of the optimal rule:", *(f"  {_reorder(each)}" for each in moving)]
    if options.html is not None:
        lines += ["", f"wrote {shown(options.html)}"]
    return "\n".join(line.rstrip() for line in lines)


def _row(found: _Compared) -> str:
    formats = found.plan.formats
    measured = "" if found.seconds is None else duration(found.seconds)
    moved, own = data_size(formats.bytes_moved), duration(formats.reorder_seconds)
    return _line(found.rule, str(len(_moving(found.plan))), moved, own, duration(formats.seconds), measured)


def _line(rule: str, reorders: str, moved: str, own: str, predicted: str, measured: str) -> str:
    return f"{rule:<8}{reorders:>9}{moved:>11}{own:>15}{predicted:>11}{measured:>10}"


def _moving(plan: NetworkPlan) -> list[InsertedReorder]:
    return [each for each in plan.formats.reorders if not each.is_constant]


def _reorder(each: InsertedReorder) -> str:
    return f"{each.tensor}: {data_size(each.cost.bytes_moved)}, {duration(each.cost.seconds)}: {each.why}"


def _values(found: _Compared) -> dict[str, Any]:
    formats, arena = found.plan.formats, found.plan.arena
    return {
        "reorders": [
            {
                "tensor": each.tensor,
                "src": str(each.src),
                "dst": str(each.dst),
                "bytes_moved": each.cost.bytes_moved,
                "seconds": each.cost.seconds,
                "why": each.why,
            }
            for each in _moving(found.plan)
        ],
        "bytes_moved": formats.bytes_moved,
        "reorder_seconds": formats.reorder_seconds,
        "predicted_seconds": formats.seconds,
        "measured_seconds": found.seconds,
        "is_exact": formats.is_exact,
        "arena_bytes": arena.peak,
        "fusions": [str(each) for each in found.plan.fusions],
    }


# --- options ------------------------------------------------------------------------------------------------


def _check_page(options: argparse.Namespace) -> None:
    if options.json and options.html == PIPE:
        raise wrong_usage("--json with a page on standard output", hint="name a file for one of them")
    check_output("restride propagate", options.html, (".html", ".htm"), options.force)
