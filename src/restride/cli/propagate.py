"""Show the formats in which a network runs, the reorders that it needs, and what propagation saves.

Reads an ONNX model, and compares three rules. plain: every tensor is row-major. greedy: each node gets
its own best format, or keeps that of its input. optimal: the formats with the least predicted time.
Prints the reorders of the optimal rule with their reasons. --html writes a page with the network as a
picture, colored by format, with a switch between the rules. --measure runs each rule on random numbers,
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
from .network_inputs import add_inputs, prepare, random_input
from .output import CommandResult
from .usage import Parser, wrong_usage

__all__ = ["add_arguments", "run"]

_RUNS = 10


def add_arguments(parser: Parser) -> None:
    """Add MODEL, extents of inputs, fusions to disable, the page, and whether to measure."""
    parser.add_argument("model", metavar="MODEL.onnx", help="an ONNX model")
    add_inputs(
        parser,
        dims="extents of an input, such as x=1x3x224x224",
        value="the constant value of an input, such as sr=16000",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=FUSIONS,
        metavar="FUSION",
        help="a fusion to turn off",
    )
    parser.add_argument("--explain", action="store_true", help="print every decision of the optimal rule")
    parser.add_argument("--measure", action="store_true", help="run each rule, and print measured times")
    parser.add_argument("--html", metavar="FILE", help="write the network as a picture")
    add_force(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Return the table of the rules and the reorders of the best; as values the same."""
    check_no_pipe("restride propagate", options.model)
    if options.html is not None:
        _check_page(options)
    dims = dict(options.dims)
    values = dict(options.value)
    net = onnx.load(options.model, dims=dims, values=values, without=options.without)
    compared = _compared([net.with_rule(rule) for rule in RULES], options.measure)
    name = os.path.basename(options.model)
    if options.html is not None:
        pictures = [_picture(network) for network in compared.values()]
        write_output(options.html, network_page(name, pictures).encode())
    values = {"model": name, "rules": {rule: _values(network) for rule, network in compared.items()}}
    return CommandResult(_text(name, compared, options), values)


@dataclass(frozen=True)
class _Compared:
    """A rule, its plan, and the times of its steps, if measured."""

    rule: str
    net: Network
    plan: NetworkPlan
    times: MeasuredTimes | None
    seconds: float | None


def _compared(nets: Sequence[Network], is_measured: bool) -> dict[str, _Compared]:
    """Return the networks by their rules."""
    plans = [net.plan() for net in nets]
    if not is_measured:
        pairs = zip(nets, plans, strict=True)
        return {net.rule: _Compared(net.rule, net, plan, None, None) for net, plan in pairs}
    best = _measured(nets, plans[0])
    compared = (_with_times(*row) for row in zip(nets, plans, best, strict=True))
    return {network.rule: network for network in compared}


def _measured(nets: Sequence[Network], plan: NetworkPlan) -> list[list[float]]:
    """Return the minimum seconds of each step. Networks alternate, so that interference affects all."""
    rng = np.random.default_rng(0)
    graph = plan.graph
    inputs = {
        network_input.name: random_input(rng, graph.tensors[network_input.name].dims, network_input.data_type)
        for network_input in nets[0].inputs
    }
    for net in nets:
        prepare(net, *(network_input.shape for network_input in inputs.values()))
        net(inputs)
    runs = [[[step.seconds for step in net.profile(inputs)] for net in nets] for _ in range(_RUNS)]
    return [[min(seconds) for seconds in zip(*of_net, strict=True)] for of_net in zip(*runs, strict=True)]


def _with_times(net: Network, plan: NetworkPlan, best: Sequence[float]) -> _Compared:
    nodes: dict[str, float] = {}
    reorders: dict[tuple[str, str], float] = {}
    for step, seconds in zip(plan.steps, best, strict=True):
        if step.is_inserted:
            reorders[step.node, str(step.writes[0].md)] = seconds
        else:
            nodes[step.node] = seconds
    return _Compared(net.rule, net, plan, MeasuredTimes(nodes, reorders), sum(best))


def _picture(network: _Compared) -> NetworkPicture:
    rows = network_rows(network.plan.graph, network.plan.formats, network.times)
    return NetworkPicture(network.plan.formats, rows, network.times is not None)


# --- text ---------------------------------------------------------------------------------------------------


def _text(name: str, networks: Mapping[str, _Compared], options: argparse.Namespace) -> str:
    if options.html == PIPE:
        return ""
    best = networks["optimal"]
    kinds = Counter(fusion.fusion for fusion in best.plan.fusions)
    fused = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    lines = [f"{name}: {len(best.plan.graph.nodes)} nodes{f' after fusions ({fused})' if fused else ''}", ""]
    measured = "measured" if options.measure else ""
    lines += [_line("rule", "reorders", "moved", "reorders take", "predicted", measured)]
    lines += map(_row, networks.values())
    moving = _moving(best.plan)
    if options.explain:
        lines += ["", str(best.net.explain())]
    elif moving:
        lines += ["", "reorders of the optimal rule:", *(f"  {_reorder(digit)}" for digit in moving)]
    if options.html is not None:
        lines += ["", f"wrote {shown(options.html)}"]
    return "\n".join(line.rstrip() for line in lines)


def _row(network: _Compared) -> str:
    formats = network.plan.formats
    measured = "" if network.seconds is None else duration(network.seconds)
    nbytes, own = data_size(formats.bytes_moved), duration(formats.reorder_seconds)
    return _line(
        network.rule, str(len(_moving(network.plan))), nbytes, own, duration(formats.seconds), measured
    )


def _line(rule: str, reorders: str, nbytes: str, own: str, predicted: str, measured: str) -> str:
    return f"{rule:<8}{reorders:>9}{nbytes:>11}{own:>15}{predicted:>11}{measured:>10}"


def _moving(plan: NetworkPlan) -> list[InsertedReorder]:
    return [reorder for reorder in plan.formats.reorders if not reorder.is_constant]


def _reorder(move: InsertedReorder) -> str:
    return f"{move.tensor}: {data_size(move.cost.bytes_moved)}, {duration(move.cost.seconds)}: {move.why}"


def _values(network: _Compared) -> dict[str, Any]:
    formats, arena = network.plan.formats, network.plan.arena
    return {
        "reorders": [
            {
                "tensor": digit.tensor,
                "src": str(digit.src),
                "dst": str(digit.dst),
                "bytes_moved": digit.cost.bytes_moved,
                "seconds": digit.cost.seconds,
                "why": digit.why,
            }
            for digit in _moving(network.plan)
        ],
        "bytes_moved": formats.bytes_moved,
        "reorder_seconds": formats.reorder_seconds,
        "predicted_seconds": formats.seconds,
        "measured_seconds": network.seconds,
        "is_exact": formats.is_exact,
        "arena_bytes": arena.peak,
        "fusions": [str(fusion) for fusion in network.plan.fusions],
    }


# --- options ------------------------------------------------------------------------------------------------


def _check_page(options: argparse.Namespace) -> None:
    if options.json and options.html == PIPE:
        raise wrong_usage("--json with a page on standard output", hint="write one of them to a file")
    check_output("restride propagate", options.html, (".html", ".htm"), options.force)
