"""The inputs of networks on the command line: extents, arrays and pictures from files, random numbers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..arrays.pixels import normalize
from ..dtypes import DataType
from ..errors import Error, refuse
from ..files.writing.replacement import shown
from ..graph.build import GraphBuilder
from ..graph.dims import Dims
from ..graph.network.inputs import NetworkInput
from ..graph.network.network import Network
from ..graph.nodes.layers import ResamplingOperation
from .progress import Progress
from .usage import Parser, checked, parse_shape, wrong_usage

__all__ = [
    "add_inputs",
    "add_pixels",
    "named_dims",
    "named_value",
    "prepare",
    "random_input",
    "read_input",
    "unreadable",
]

Array = np.ndarray[Any, np.dtype[Any]]
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
_IMAGE_RANK = 4


def add_inputs(parser: Parser, *, dims: str, value: str) -> None:
    """Add `--dims` and `--value`, repeatable for each input. `dims`, `value`: their help texts."""
    for option, kind, metavar, told in (
        ("--dims", named_dims, "NAME=DIMS", dims),
        ("--value", named_value, "NAME=NUMBERS", value),
    ):
        parser.add_argument(
            option, action="append", default=[], type=checked(kind), metavar=metavar, help=told
        )


def add_pixels(parser: Parser) -> None:
    """Add `--mean` and `--std` for pictures."""
    for option, default in (("--mean", [0.0]), ("--std", [1.0])):
        parser.add_argument(
            option, type=checked(_numbers), default=default, metavar="N,...", help="for pictures, by channel"
        )


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise wrong_usage(f"{text!r} is not a list of numbers", hint="write 0.485,0.456,0.406") from None


def named_dims(text: str) -> tuple[str, Dims]:
    """Parse `x=1x3x224x224`: an input and its extents. Raises UsageError."""
    name, equals, dims = text.rpartition("=")
    if not equals or not name:
        raise wrong_usage(
            f"--dims {text!r} does not name an input",
            why="extents need the name of an input",
            hint="write x=1x3x224x224",
        )
    return name, parse_shape(dims)


def named_value(text: str) -> tuple[str, float | int | list[float | int]]:
    """Parse `sr=16000` or `x=1,2.5`: an input and its constant value. Raises UsageError."""
    name, equals, numbers = text.partition("=")
    try:
        values = [float(part) if set(part) & set(".eEn") else int(part) for part in numbers.split(",")]
    except ValueError:
        values = []
    if not equals or not name or not values:
        raise wrong_usage(
            f"--value {text!r} is not an input with numbers",
            why="a value needs the name of an input",
            hint="write sr=16000",
        )
    return name, values if "," in numbers else values[0]


def random_input(rng: np.random.Generator, dims: Dims, data_type: DataType) -> Array:
    """Return normally distributed numbers; for integers zeros, which are valid indices of any table."""
    if data_type.is_integral:
        return np.zeros(dims, data_type.numpy)
    return rng.standard_normal(dims).astype(data_type.numpy)


def read_input(path: str, network_input: NetworkInput, mean: list[float], std: list[float]) -> Array:
    """Return the array of a .npy file; for a picture its channels, (value / 255 - mean) / std, resized.

    Raises RuntimeFailure for a file that cannot be read, and if no reader for pictures is installed.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix in _PICTURES:
        return _resized(_picture(path, mean, std), network_input)
    if suffix != ".npy":
        raise wrong_usage(
            f"--input {shown(path)} is neither an array nor a picture",
            why=f"its suffix is {suffix!r}",
            hint=f"use .npy or one of {', '.join(_PICTURES)}",
        )
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise unreadable(path, error, "a .npy file contains one array of numbers") from None


def prepare(net: Network, *dims: Dims) -> None:
    """Plan and compile for inputs of these dims, showing progress on a terminal."""
    with Progress("compiling", 0, "steps") as progress:

        def report(ready: int, steps: int) -> None:
            progress.total = steps
            progress.advance(ready - progress.done)

        net.prepare(*dims, progress=report)


def _picture(path: str, mean: list[float], std: list[float]) -> Array:
    try:
        from skimage import io
    except ImportError:
        raise refuse("RS-G04:no-scikit-image") from None
    try:
        pixels = np.asarray(io.imread(path))
    except Exception as error:  # readers of pictures can raise anything
        raise unreadable(path, error, "pass another picture") from None
    pixels = np.stack([pixels] * 3, -1) if pixels.ndim == 2 else pixels[..., :3]
    if pixels.dtype != np.uint8:
        pixels = (pixels / max(pixels.max(), 1) * 255).astype(np.uint8)
    return np.asarray(normalize(np.ascontiguousarray(pixels)[None], mean, std))


def _resized(image: Array, network_input: NetworkInput) -> Array:
    """Resize the image to the extents that the network fixes."""
    dims = network_input.dims
    if dims is None or len(dims) != _IMAGE_RANK:
        return image
    sizes = tuple(own if n is None else n for n, own in zip(dims[2:], image.shape[2:], strict=True))
    if sizes == image.shape[2:]:
        return image
    builder = GraphBuilder()
    source = builder.input("image", image.shape)
    net = Network(builder.graph(builder.add(ResamplingOperation("resampling_linear", sizes), source)))
    return np.asarray(net(image))


def unreadable(path: str, error: Exception, hint: str) -> Error:
    """Return the error for an input file that cannot be read."""
    why = getattr(error, "strerror", None) or str(error)[:200] or type(error).__name__
    return refuse("RS-F01:picture", path=shown(path), why=why, hint=hint)
