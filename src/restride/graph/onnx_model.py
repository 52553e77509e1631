"""An ONNX file as frozen values: nodes with their attributes, known tensors, what a run brings and gives.

Messages of Protocol Buffers are data: nothing in them is executed. Of the file system only files in the
folder of the model, or below it, are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..desc.parse import short_repr
from ..errors import InvalidArguments, OutOfMemory, RuntimeFailure

Array = np.ndarray[Any, np.dtype[Any]]
_HINT = "save the model again; onnx.checker.check_model says what is wrong with it"


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node as the file has it: `""` stands for an input that is left out."""

    operator: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.operator} {self.name!r}"


@dataclass(frozen=True, slots=True)
class OnnxBranch:
    """A graph that is an attribute of a node: a branch of an `If`. It sees the tensors around the node."""

    nodes: tuple[OnnxNode, ...]
    tensors: Mapping[str, Array]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OnnxInput:
    """What a run brings: extents are numbers, or names of what is known only then, or None."""

    name: str
    dims: tuple[int | str | None, ...] | None
    element: int


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A model: its nodes in their order, its known tensors, what it reads and gives.

    `opset` is the version of ONNX's own operators.
    """

    nodes: tuple[OnnxNode, ...]
    tensors: Mapping[str, Array]
    inputs: tuple[OnnxInput, ...]
    outputs: tuple[str, ...]
    opset: int


def read_model(source: object) -> OnnxModel:
    """The model of a path, of the bytes of a file, or of a `ModelProto`.

    Raises RuntimeFailure where the system refuses the file, InvalidArguments for what is no model.
    """
    folder = None
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        folder, source = path.parent, _bytes_of(path)
    proto = _parsed(bytes(source)) if isinstance(source, bytes | bytearray | memoryview) else source
    if not hasattr(proto, "graph") or not hasattr(proto, "opset_import"):
        raise InvalidArguments(
            "no ONNX model",
            code="RS-V08",
            why=f"{type(source).__name__} is neither a path, nor bytes, nor a ModelProto",
            hint="pass the path of an .onnx file",
        )
    try:
        return _model(proto, folder)
    except MemoryError:
        raise OutOfMemory(
            "cannot read the ONNX model",
            code="RS-D01",
            why="its tensors are larger than the memory of this machine",
            hint=_HINT,
        ) from None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RuntimeFailure(
            f"cannot read {short_repr(str(path))}",
            code="RS-F02",
            why=error.strerror or str(error),
            hint="check the path and the permissions",
        ) from error


def _parsed(data: bytes) -> Any:
    try:
        import onnx
    except ImportError:
        raise RuntimeFailure(
            "ONNX models cannot be read",
            code="RS-G04",
            why="the package onnx is not installed",
            hint="pip install 'restride[onnx]'",
        ) from None
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # the parser's errors are of the package that it brings
        raise _no_model("the bytes cannot be parsed: the file is cut off, or is none", error) from None
    if not proto.graph.node and not proto.graph.output:
        raise _no_model("there is no graph in it")
    return proto


def _model(proto: Any, folder: Path | None) -> OnnxModel:
    graph = proto.graph
    tensors = {each.name: _array(each, folder, f"tensor {each.name!r}") for each in graph.initializer}
    if graph.sparse_initializer:
        raise _no_model("sparse tensors are not read")
    nodes = tuple(_node(each, folder) for each in graph.node)
    inputs = tuple(_input(each) for each in graph.input if each.name not in tensors)
    versions = [each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")]
    return OnnxModel(
        nodes, tensors, inputs, tuple(each.name for each in graph.output), max(versions, default=1)
    )


def _input(proto: Any) -> OnnxInput:
    kind = proto.type.tensor_type
    if proto.type.WhichOneof("value") != "tensor_type":
        raise _no_model(f"input {proto.name!r} is no tensor")
    if not kind.HasField("shape"):
        return OnnxInput(proto.name, None, kind.elem_type)
    return OnnxInput(proto.name, tuple(map(_extent, kind.shape.dim)), kind.elem_type)


def _extent(dim: Any) -> int | str | None:
    if dim.WhichOneof("value") == "dim_value":
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None


def _node(proto: Any, folder: Path | None) -> OnnxNode:
    domain = "" if proto.domain in ("", "ai.onnx") else f"{proto.domain}."
    outputs = tuple(proto.output)
    name = proto.name or (outputs[0] if outputs else "")
    attributes = {each.name: _attribute(each, folder, name) for each in proto.attribute}
    return OnnxNode(f"{domain}{proto.op_type}", name, tuple(proto.input), outputs, attributes)


# The kinds of attributes by their number: what a field holds, and how it becomes a value.
_FLOAT, _INT, _STRING, _TENSOR, _GRAPH, _FLOATS, _INTS, _STRINGS = range(1, 9)


def _attribute(proto: Any, folder: Path | None, node: str) -> Any:
    """An attribute's value; None for those that only operators have that restride has not."""
    if proto.type == _FLOAT:
        return float(proto.f)
    if proto.type == _INT:
        return int(proto.i)
    if proto.type == _STRING:
        return proto.s.decode("utf-8", "replace")
    if proto.type == _TENSOR:
        return _array(proto.t, folder, f"attribute {proto.name!r} of node {node!r}")
    if proto.type == _GRAPH:
        return _branch(proto.g, folder, node)
    if proto.type == _FLOATS:
        return tuple(map(float, proto.floats))
    if proto.type == _INTS:
        return tuple(map(int, proto.ints))
    if proto.type == _STRINGS:
        return tuple(each.decode("utf-8", "replace") for each in proto.strings)
    return None


def _branch(graph: Any, folder: Path | None, node: str) -> OnnxBranch:
    if graph.sparse_initializer:
        raise _no_model("sparse tensors are not read")
    owner = f"of node {node!r}"
    tensors = {each.name: _array(each, folder, f"tensor {each.name!r} {owner}") for each in graph.initializer}
    nodes = tuple(_node(each, folder) for each in graph.node)
    return OnnxBranch(nodes, tensors, tuple(each.name for each in graph.output))


# --- tensors ------------------------------------------------------------------------------------------------


def _array(proto: Any, folder: Path | None, what: str) -> Array:
    from onnx import numpy_helper

    if any(n < 0 for n in proto.dims):
        raise _no_model(f"{what} has negative dims")
    if proto.data_location == proto.EXTERNAL:
        proto = _with_external(proto, folder, what)
    try:
        return np.asarray(numpy_helper.to_array(proto))
    except MemoryError:
        raise
    except Exception as error:  # any wrong field, in any way
        raise _no_model(f"{what} cannot be read", error) from None


def _with_external(proto: Any, folder: Path | None, what: str) -> Any:
    """The tensor with the bytes that lie beside the model."""
    entries = {each.key: each.value for each in proto.external_data}
    if folder is None:
        raise _no_model(f"{what} lies in a file beside the model, and bytes have no folder")
    try:
        path = _inside(folder, entries.get("location", ""), what)
        start = int(entries.get("offset", 0))
        length = int(entries["length"]) if "length" in entries else path.stat().st_size - start
        held = path.stat().st_size - start
        if min(start, length) < 0 or length > held:
            raise _no_model(f"{what}: its file has {max(held, 0)} bytes behind {start}, not {length}")
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(length)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidArguments):
            raise
        raise _no_model(
            f"{what}: its file {short_repr(entries.get('location'))} cannot be read", error
        ) from None
    return type(proto)(name=proto.name, data_type=proto.data_type, dims=proto.dims, raw_data=data)


def _inside(folder: Path, location: str, what: str) -> Path:
    root, path = folder.resolve(), (folder / location).resolve()
    if location and not Path(location).is_absolute() and path.is_relative_to(root) and path != root:
        return path
    raise _no_model(f"{what}: its file {short_repr(location)} is outside the folder of the model")


def _no_model(why: str, error: Exception | None = None) -> InvalidArguments:
    more = f" ({str(error)[:200]})" if error else ""
    return InvalidArguments("cannot read the ONNX model", code="RS-F04", why=f"{why}{more}", hint=_HINT)


def listed(names: Iterable[object]) -> str:
    """Names in a message, each in its repr."""
    return ", ".join(short_repr(name) for name in names)
