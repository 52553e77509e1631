"""An OpenVINO IR in the form of an ONNX model: layers as nodes, constants from its .bin file.

The XML is read without a document type, so that no entity is expanded and no file fetched. Constants are read
only from the file of weights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from ....arrays.openvino.ir import to_int
from ....arrays.openvino.xml_source import opened, visit
from ....desc.memory_desc import MemoryDesc
from ....desc.parse import short_repr
from ....dtypes import DataType
from ....errors import refuse
from ....runtime.alloc import Array
from ....runtime.views import of_nibbles, unpacked_nibbles
from ...stored_constant import StoredConstant
from ..onnx.model import OnnxInput, OnnxModel, OnnxNode, listed, read_as_weights
from ..onnx.tensors import ELEMENTS
from .operators import NUMBERS, OPENVINO_TRANSLATORS

_EDGES = ("net", "edges", "edge")
_LAYER = ("net", "layers", "layer")
_MOST_LAYERS, _BYTE = 1 << 20, 8


@dataclass(slots=True)
class IrLayer:
    """A layer as the file has it: its attributes, and the ids of its ports in order."""

    id: str
    name: str
    kind: str
    data: dict[str, str] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


class _IrReader:
    """Reads the layers of a net and the edges between their ports, skipping layers in bodies of others."""

    def __init__(self) -> None:
        self.layers: dict[str, IrLayer] = {}
        self.edges: dict[tuple[str, str], tuple[str, str]] = {}
        self._path: list[str] = []
        self._layer: IrLayer | None = None

    def start(self, tag: str, attributes: dict[str, str], line: int) -> None:
        self._path.append(tag)
        path = tuple(self._path)
        if path == _LAYER:
            self._begin(attributes)
        elif path == _EDGES:
            target = attributes.get("to-layer", ""), attributes.get("to-port", "")
            self.edges[target] = attributes.get("from-layer", ""), attributes.get("from-port", "")
        elif self._layer is not None and path[:3] == _LAYER:
            self._inside(self._layer, path[3:], attributes)

    def end(self) -> None:
        if tuple(self._path) == _LAYER:
            self._layer = None
        self._path.pop()

    def text(self, piece: str) -> None:
        """Ignore text: dims follow from the operators, not from the file."""

    def _begin(self, attributes: dict[str, str]) -> None:
        layer_id = attributes.get("id", "")
        layer = IrLayer(layer_id, attributes.get("name", layer_id), attributes.get("type", ""))
        if layer_id in self.layers or len(self.layers) == _MOST_LAYERS:
            _refuse(f"layer {layer_id!r} occurs twice, or there are too many layers")
        self.layers[layer_id] = self._layer = layer

    def _inside(self, layer: IrLayer, path: tuple[str, ...], attributes: dict[str, str]) -> None:
        if path == ("data",):
            layer.data |= attributes
        elif path == ("input", "port"):
            layer.inputs.append(attributes.get("id", ""))
        elif path == ("output", "port"):
            layer.outputs[attributes.get("id", "")] = attributes.get("names", "").split(",")[0]


def read_ir_model(source: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None) -> OnnxModel:
    """Read the model of an .xml file, with constants from `weights`, by default the .bin file next to it.

    Raises RuntimeFailure if the system refuses a file, Unimplemented for unsupported layers, all at once,
    InvalidArguments for anything but an IR.
    """
    reader = _IrReader()
    with opened(source) as xml:
        visit(xml, reader)
    _check_types(reader.layers)
    path = Path(source).with_suffix(".bin") if weights is None else Path(weights)
    return _model(reader, _WeightsFile(path))


class IrConstant(NamedTuple):
    """The location of a constant: OpenVINO's word for its type, its dims, offset and number of bytes."""

    element: str
    dims: tuple[int, ...]
    start: int
    nbytes: int

    @classmethod
    def of(cls, layer: IrLayer) -> IrConstant:
        """Return the location of a Const."""
        data = layer.data
        shape = [part for part in data.get("shape", "").split(",") if part.strip()]
        dims = tuple(to_int(part, f"shape of {layer}") for part in shape)
        start, size = (to_int(data.get(name, "-1"), f"{name} of {layer}") for name in ("offset", "size"))
        if min(start, size, *dims, 0) < 0:
            _refuse(f"{layer} has a negative extent, or no location")
        return cls(data.get("element_type", ""), dims, start, size)


def read_ir_constants(source: str) -> tuple[str, dict[str, IrConstant]]:
    """Return the .bin file next to an .xml file, and the constants in it by name, whatever the other layers.

    Raises as `read_ir_model` does.
    """
    reader = _IrReader()
    with opened(source) as xml:
        visit(xml, reader)
    names = _tensor_names(reader.layers)
    layers = [layer for layer in reader.layers.values() if layer.kind == "Const"]
    found = {names[layer.id, port]: IrConstant.of(layer) for layer in layers for port in layer.outputs}
    return str(Path(source).with_suffix(".bin")), found


def _check_types(layers: Mapping[str, IrLayer]) -> None:
    if not layers:
        _refuse("it does not contain layers")
    kinds = {"Parameter", "Const", "Result", *OPENVINO_TRANSLATORS}
    missing: dict[str, list[str]] = {}
    for layer in layers.values():
        if layer.kind not in kinds:
            missing.setdefault(layer.kind, []).append(layer.name)
    if missing:
        raise refuse(
            "RS-G02:openvino-model-layers",
            missing="; ".join((f"{kind}: {listed(names[:32])}" for kind, names in missing.items())),
            count=len(missing),
        )


class _WeightsFile:
    """The file of constants, opened when the first is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes: Array | None = None

    def array(self, layer: IrLayer, *, is_packed: bool) -> Array | StoredConstant:
        """Return the values of a Const; `is_packed`: elements of 4 bits as stored."""
        twin = ELEMENTS[_number(layer)]
        _, dims, start, size = IrConstant.of(layer)
        weights = self._content()
        if start + size > weights.size:
            _refuse(f"{layer} takes {size} bytes from {start}, but its file has {weights.size}")
        kind, count = DataType.parse(twin), int(np.prod(dims, dtype=object))
        nbytes = kind.nbytes(count)
        if not nbytes:
            # OpenVINO writes a byte for an empty constant.
            return np.zeros(dims, twin)
        if nbytes != size:
            _refuse(f"{layer} has {size} bytes instead of {nbytes}")
        content = np.frombuffer(weights[start : start + size].tobytes(), np.uint8)
        if kind.bits < _BYTE and is_packed:
            return StoredConstant(content, MemoryDesc(dims, kind))
        if kind.bits < _BYTE:
            return of_nibbles(unpacked_nibbles(content)[:count], kind).reshape(dims)
        return content.view(twin).reshape(dims)

    def _content(self) -> Array:
        if self._bytes is None:
            try:
                is_empty = self._path.stat().st_size == 0
                self._bytes = np.zeros(0, np.uint8) if is_empty else np.memmap(self._path, np.uint8, "r")
            except (OSError, ValueError) as error:
                raise refuse(
                    "RS-F02:weights",
                    path=short_repr(str(self._path)),
                    reason=getattr(error, "strerror", None) or str(error),
                ) from None
        return self._bytes


def _model(reader: _IrReader, weights: _WeightsFile) -> OnnxModel:
    names = _tensor_names(reader.layers)
    inputs, nodes, outputs = [], [], {}
    constants = dict[str, IrLayer]()
    for layer in _in_order(reader):
        read = [names.get(reader.edges.get((layer.id, port), ("", "")), "") for port in layer.inputs]
        own_outputs = tuple(names[layer.id, port] for port in layer.outputs)
        if layer.kind == "Const":
            constants[_only(layer, own_outputs)] = layer
        elif layer.kind == "Parameter":
            inputs.append(_input(layer, _only(layer, own_outputs)))
        elif layer.kind == "Result":
            outputs[layer.id] = _only(layer, read)
        else:
            nodes.append(OnnxNode(layer.kind, layer.name, tuple(read), own_outputs, layer.data))
    # Results are in the order of the file.
    results = tuple(outputs[layer_id] for layer_id in reader.layers if layer_id in outputs)
    packed = read_as_weights(nodes, results, ("Convert",))
    arrays = {name: weights.array(layer, is_packed=name in packed) for name, layer in constants.items()}
    stored = {name: tensor for name, tensor in arrays.items() if isinstance(tensor, StoredConstant)}
    tensors = {name: tensor for name, tensor in arrays.items() if not isinstance(tensor, StoredConstant)}
    return OnnxModel(tuple(nodes), tensors, tuple(inputs), results, 17, packed=stored)


def _in_order(reader: _IrReader) -> list[IrLayer]:
    """Sort layers after those that they read; cycles keep their places, and are refused later."""
    readers: dict[str, list[str]] = {}
    waits = dict.fromkeys(reader.layers, 0)
    for (to, _), (origin, _) in reader.edges.items():
        if to in waits and origin in waits:
            readers.setdefault(origin, []).append(to)
            waits[to] += 1
    ready = [layer_id for layer_id, count in waits.items() if not count]
    for layer_id in ready:
        for other in readers.get(layer_id, []):
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    order = dict.fromkeys([*ready, *reader.layers])
    return [reader.layers[layer_id] for layer_id in order]


def _tensor_names(layers: Mapping[str, IrLayer]) -> dict[tuple[str, str], str]:
    """Return the name of each output: that in the file, or else that of the layer."""
    names: dict[tuple[str, str], str] = {}
    used: set[str] = set()
    for layer in layers.values():
        for at, (port, name) in enumerate(layer.outputs.items()):
            own = name or (f"{layer.name}.{at}" if at else layer.name)
            names[layer.id, port] = own if own not in used else f"{own}#{layer.id}.{port}"
            used.add(names[layer.id, port])
    return names


def _input(layer: IrLayer, name: str) -> OnnxInput:
    parts = [part.strip() for part in layer.data.get("shape", "").split(",") if part.strip()]
    dims = tuple(int(part) if part.isdecimal() else None for part in parts)
    return OnnxInput(name, None if parts == ["..."] else dims, _number(layer))


def _number(layer: IrLayer) -> int:
    """Return the number of its element type in ONNX."""
    element = layer.data.get("element_type", "")
    if element not in NUMBERS:
        _refuse(f"{layer} has the unsupported type {short_repr(element)}")
    return NUMBERS[element]


def _only(layer: IrLayer, names: tuple[str, ...] | list[str]) -> str:
    if len(names) != 1 or not names[0]:
        _refuse(f"{layer} has {len([name for name in names if name])} tensors, not one")
    return names[0]


def _refuse(why: str) -> NoReturn:
    raise refuse("RS-F04:openvino", why=why)
