"""Run an ONNX model or a saved network, and print its results and its time.

Inputs are arrays, pictures or random numbers. --profile prints a row for each step: its time, its rate,
its share of what this machine can do, the formats that it reads and writes, and the kernel. A * marks a
reorder that was inserted to change a format.

  restride run squeezenet.onnx
  restride run squeezenet.onnx --input photo.png --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
  restride run detector.onnx --dims x=1x3x640x640 --repeat 20 --profile
  restride run silero_vad.onnx --value sr=16000 --dims input=1x576 --dims state=2x1x128
  restride run model.onnx --input a=a.npy --input b=b.npy --output result.npy
  restride run resnet50.net --profile

Files of Network.save keep the formats that they were saved with, and run with their first saved dims unless
--dims names others. Pictures are read by scikit-image, and scaled to the fixed size of the model.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import onnx
from ..files.writing.replacement import shown
from ..graph.dims import Dims
from ..graph.formats.propagation import RULES
from ..graph.network.file import is_saved_network, read_network_file
from ..graph.network.network import Network
from ..graph.network.plan import NetworkPlan, NetworkStep
from ..graph.network.run_program import StepTime
from ..graph.rewrites.precision import PRECISIONS
from ..runtime.cpu.roof import Roof, roof
from ..view.names import aligned
from ..view.units import data_size, duration
from ..view.watched import of_roof, rate_text
from ..watching import products_of
from .named_files import PIPE, add_force, check_no_pipe, check_output, write_output
from .network_inputs import Array, add_inputs, add_pixels, prepare, random_input, read_input
from .output import CommandResult
from .usage import Parser, wrong_usage

__all__ = ["add_arguments", "run"]

_SHOWN = 5
_HEADS = "time", "share", "rate", "of roof", "operation", "formats", "kernel", "node"


def add_arguments(parser: Parser) -> None:
    """Add MODEL, inputs, the choice of formats, repetitions and outputs."""
    parser.add_argument("model", metavar="MODEL", help="an ONNX model, or a saved network")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="an array (.npy) or a picture for an input; default: random numbers",
    )
    add_inputs(
        parser,
        dims="extents of an input, such as x=1x3x224x224",
        value="the constant value of an input: sr=16000; it may decide branches",
    )
    add_pixels(parser)
    parser.add_argument("--rule", choices=RULES, help="rule for the formats of a model")
    parser.add_argument("--precision", choices=PRECISIONS, help="lower precision for f32")
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="number of runs; prints the best time"
    )
    parser.add_argument("--profile", action="store_true", help="print the time of each step")
    parser.add_argument("--output", metavar="FILE.npy", help="write the only output")
    add_force(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Run the model; return its outputs and times, as text and as values."""
    check_no_pipe("restride run", options.model)
    if options.repeat < 1:
        raise wrong_usage(f"--repeat {options.repeat}", hint="a number of 1 or more")
    if options.output is not None:
        check_output("restride run", options.output, (".npy",), options.force)
    net, dims = _network(options)
    inputs = _inputs(net, dims, options)
    files = dict(_input_and_file(text, net) for text in options.input)
    named = {*files, *dims, *dict(options.dims)}
    assumed = [
        each.name for each in net.inputs if (each.dims or ())[:1] == (None,) and each.name not in named
    ]
    start = time.perf_counter()
    prepare(net, *(network_input.shape for network_input in inputs.values()))
    result = net(inputs)
    results = result if isinstance(result, dict) else {net.outputs[0]: result}
    first = time.perf_counter() - start
    if options.output is not None:
        _write(options.output, results)
    best = min(_timed(net, inputs) for _ in range(options.repeat))
    plan = net.plan(*(network_input.shape for network_input in inputs.values()))
    steps = _steps(net, inputs, plan, options.repeat) if options.profile else []
    values = {
        "outputs": {name: _summary(result) for name, result in results.items()},
        "first_seconds": first,
        "best_seconds": best,
        "reorders": plan.reorders,
        "arena_bytes": plan.arena.peak,
        "steps": [step.values() for step in steps],
        "assumed": assumed,
    }
    text = "" if options.output == PIPE else _text(options, results, first, best, plan, steps, assumed)
    return CommandResult(text, values)


# --- inputs and outputs -------------------------------------------------------------------------------------


def _network(options: argparse.Namespace) -> tuple[Network, dict[str, Dims]]:
    """Return the network of a model or a saved one, and the dims of inputs without a file."""
    dims = dict(options.dims)
    if not is_saved_network(options.model):
        rule, precision = options.rule or "optimal", options.precision or "f32"
        values = dict(options.value)
        return onnx.load(options.model, dims=dims, values=values, rule=rule, precision=precision), {}
    for name in ("rule", "precision", "value"):
        if getattr(options, name):
            raise wrong_usage(
                f"--{name} is for models",
                why="a saved network has its formats and constants",
                hint="omit it, or run the model that the network was saved from",
            )
    file = read_network_file(options.model)
    names = [network_input.name for network_input in file.inputs]
    saved = dict(zip(names, next(iter(file.dims), ()), strict=False))
    unknown = next((name for name in dims if name not in names), None)
    if unknown is not None:
        raise wrong_usage(
            f"--dims names {unknown!r}",
            why=f"the inputs are {', '.join(names)}",
            hint="use one of these names",
        )
    return Network.load(options.model), saved | dims


def _inputs(net: Network, extents: Mapping[str, Dims], options: argparse.Namespace) -> dict[str, Array]:
    files = dict(_input_and_file(text, net) for text in options.input)
    rng, arrays = np.random.default_rng(0), {}
    for entry in net.inputs:
        if entry.name in files:
            arrays[entry.name] = read_input(files[entry.name], entry, options.mean, options.std)
            continue
        dims = _with_batch(extents.get(entry.name, entry.dims))
        if dims is None or None in dims:
            example = "x".join(str(n or 224) for n in dims or (1, 3, 224, 224))
            raise wrong_usage(
                f"input {entry.name!r} has dynamic dims",
                why=str(entry),
                hint=f"pass --dims {entry.name}={example}, or a file: --input {entry.name}=x.npy",
            )
        arrays[entry.name] = random_input(rng, tuple(n or 0 for n in dims), entry.data_type)
    return arrays


def _with_batch(dims: tuple[int | None, ...] | None) -> tuple[int | None, ...] | None:
    """The dims with a batch of 1 where it is open."""
    return dims if dims is None or dims[:1] != (None,) else (1, *dims[1:])


def _input_and_file(text: str, net: Network) -> tuple[str, str]:
    names = [network_input.name for network_input in net.inputs]
    name, equals, path = text.partition("=")
    if equals and name in names:
        return name, path
    if len(names) == 1:
        return names[0], text
    raise wrong_usage(
        f"--input {text!r} does not name an input",
        why=f"the inputs are {', '.join(names)}",
        hint=f"write {names[0]}=FILE" if names else "omit it",
    )


def _write(path: str, results: Mapping[str, Array]) -> None:
    if len(results) > 1:
        raise wrong_usage(
            "--output needs a single output",
            why=f"the model returns {', '.join(results)}",
            hint="use rs.onnx.load in a program",
        )
    file = io.BytesIO()
    np.save(file, next(iter(results.values())), allow_pickle=False)
    write_output(path, file.getvalue())


def _timed(net: Network, inputs: Mapping[str, Array]) -> float:
    start = time.perf_counter()
    net(inputs)
    return time.perf_counter() - start


# --- steps --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _StepRow:
    """A step: its best time, and its work. `roof`: the peak of this machine."""

    step: NetworkStep
    time: StepTime
    seconds: float
    roof: Roof

    @property
    def products(self) -> int:
        """The number of products that it sums; 0 if none."""
        return products_of(self.step.lowered.pd._implementation().problem)

    @property
    def roof_seconds(self) -> float:
        """The time that copying as many bytes, or as many multiply-adds, would take."""
        types = tuple(access.md.data_type for access in self.step.reads[:2])
        return self.roof.seconds(self.moved_bytes, 2 * self.products, types)

    @property
    def moved_bytes(self) -> int:
        """The number of bytes that it must read and write, each tensor once."""
        return sum(access.md.size for access in (*self.step.reads, *self.step.writes))

    def values(self) -> dict[str, Any]:
        """Return the row for `--json`."""
        return {
            "node": self.time.node,
            "operation": self.time.operation,
            "is_inserted": self.time.is_inserted,
            "seconds": self.seconds,
            "products": self.products,
            "moved_bytes": self.moved_bytes,
            "roof_seconds": self.roof_seconds,
            "formats": self.time.formats,
            "kernel": self.time.kernel,
        }


def _steps(net: Network, inputs: Mapping[str, Array], plan: NetworkPlan, repeat: int) -> list[_StepRow]:
    found = roof()
    runs = [net.profile(inputs) for _ in range(repeat)]
    best = [min(step_time.seconds for step_time in times) for times in zip(*runs, strict=True)]
    return [_StepRow(*row, found) for row in zip(plan.steps, runs[0], best, strict=True)]


# --- text ---------------------------------------------------------------------------------------------------


def _summary(result: Array) -> dict[str, Any]:
    flat = result.reshape(-1).astype(np.float64)
    largest = np.argsort(flat)[::-1][:_SHOWN]
    return {
        "dims": list(result.shape),
        "type": str(result.dtype),
        "largest": {int(at): float(flat[at]) for at in largest},
    }


def _text(
    options: argparse.Namespace,
    results: Mapping[str, Array],
    first: float,
    best: float,
    plan: NetworkPlan,
    steps: list[_StepRow],
    assumed: list[str],
) -> str:
    lines = [f"batch of {name}: 1, as the model leaves it open; --dims sets another" for name in assumed]
    for name, result in results.items():
        values = _summary(result)
        lines.append(f"{name}: {values['type']} {'x'.join(map(str, values['dims'])) or 'scalar'}")
        lines += [f"  at {at}: {value:.6g}" for at, value in values["largest"].items()]
    runs = f"best of {options.repeat}" if options.repeat > 1 else "the second"
    lines += [
        "",
        f"first run {duration(first)}, {runs} {duration(best)}; {len(plan.steps)} steps, "
        f"{plan.reorders} of them reorders; {data_size(plan.arena.peak)} a run",
    ]
    if steps:
        total = sum(step.seconds for step in steps)
        lines += ["", *aligned([_HEADS, *(_step_cells(step, total) for step in steps)], ">>>><<<<")]
    if options.output is not None:
        lines += ["", f"wrote {shown(options.output)}"]
    return "\n".join(lines)


def _step_cells(step: _StepRow, total: float) -> tuple[str, ...]:
    operation = f"{step.time.operation}{'*' if step.time.is_inserted else ''}"
    share = f"{100 * step.seconds / max(total, 1e-12):.1f} %"
    kernel = step.time.kernel.removeprefix("jit:")
    rate = rate_text(step.seconds, step.moved_bytes, 2 * step.products)
    roof_share, formats = of_roof(step.roof_seconds, step.seconds), step.time.formats
    return duration(step.seconds), share, rate, roof_share, operation, formats, kernel, step.time.node
