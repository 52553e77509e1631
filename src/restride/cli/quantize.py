"""Quantize an ONNX model of f32 to bytes, where samples show a small error.

A folder of samples contains a file for each call of the network: an array (.npy) or a picture for a single
input, or arrays by the names of inputs (.npz). A single .npz file holds all samples of each input, along a
first axis. The table shows the type of each layer, and how much the outputs change.

  restride quantize resnet50.onnx --samples photos --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 -o r50.net
  restride quantize resnet50.onnx --samples photos --calibration mse --layer-error 0.05 -o r50-qdq.onnx
  restride quantize encoder.onnx --samples texts.npz --calibration dynamic -o small.net

The output is a saved network for `restride run`, or a model with QuantizeLinear and DequantizeLinear,
which other libraries can read too.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np

from .. import onnx
from ..files.writing.replacement import shown
from ..graph.network.network import Network
from ..graph.quantization.quantize import CALIBRATIONS, REFINEMENTS, quantize_network
from .named_files import add_force, check_no_pipe, check_output, write_output
from .network_inputs import Array, add_inputs, add_pixels, read_input, unreadable
from .output import CommandResult
from .usage import Parser, wrong_usage

__all__ = ["add_arguments", "run"]


def add_arguments(parser: Parser) -> None:
    """Add MODEL, the samples, the calibration, the error limits and the output."""
    parser.add_argument("model", metavar="MODEL.onnx", help="an ONNX model of f32")
    parser.add_argument(
        "--samples", required=True, metavar="FOLDER|FILE.npz", help="the inputs for calibration"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="a saved network, or a model: .onnx"
    )
    add_inputs(
        parser,
        dims="extents of an input, such as x=1x3x224x224",
        value="the constant value of an input: sr=16000; it may decide branches",
    )
    add_pixels(parser)
    parser.add_argument("--calibration", choices=CALIBRATIONS, default="minmax", help="how ranges are found")
    parser.add_argument(
        "--refine", action="append", choices=REFINEMENTS, help="a correction to apply; may be repeated (bias)"
    )
    parser.add_argument("--keep", action="append", default=[], metavar="LAYER", help="a layer that stays f32")
    parser.add_argument(
        "--layer-error",
        type=float,
        default=0.1,
        metavar="X",
        help="relative error above which a layer stays f32",
    )
    parser.add_argument(
        "--output-error", type=float, metavar="X", help="largest relative error of the outputs"
    )
    add_force(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Return the table of layers; as values the same."""
    check_no_pipe("restride quantize", options.model, options.output)
    check_output("restride quantize", options.output, (".net", ".onnx"), options.force)
    net = onnx.load(options.model, dims=dict(options.dims), values=dict(options.value))
    made = quantize_network(
        net,
        list(_samples(options.samples, net, options)),
        options.calibration,
        refine=("bias",) if options.refine is None else options.refine,
        keep=options.keep,
        layer_error=options.layer_error,
        output_error=options.output_error,
    )
    if options.output.endswith(".onnx"):
        write_output(options.output, made.to_onnx().SerializeToString())
    else:
        made.save(options.output)
    values = asdict(made.report)
    return CommandResult(f"{made.report}\n\nwrote {shown(options.output)}", values)


def _samples(path: str, net: Network, options: argparse.Namespace) -> Iterator[dict[str, Array]]:
    """Yield the inputs of each call."""
    if not os.path.isdir(path):
        arrays = _arrays(path)
        yield from (dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=False))
        return
    for name in sorted(os.listdir(path)):
        file = os.path.join(path, name)
        if name.endswith(".npz"):
            yield _arrays(file)
        elif len(net.inputs) == 1:
            yield {net.inputs[0].name: read_input(file, net.inputs[0], options.mean, options.std)}
        else:
            raise wrong_usage(
                f"--samples: {shown(file)} works only with a single input",
                why=f"the inputs are {', '.join(each.name for each in net.inputs)}",
                hint="write .npz files, with an array for each input",
            )


def _arrays(path: str) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file}
    except (OSError, ValueError, EOFError, AttributeError, TypeError) as error:
        raise unreadable(path, error, "a .npz file contains arrays named after the inputs") from None
