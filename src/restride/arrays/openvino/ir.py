"""Extracts the layers of one type from an OpenVINO IR, as text, at any depth, without interpreting them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...desc.parse import short_repr
from ...errors import refuse
from .xml_source import Source, visit

_ROOTS = ("net", "layers", "layer")
_VERSIONS = range(1, 12)
_MOST_LAYERS = 100_000
_MOST_TEXT = 64
MOST_AXES = 64
"""The maximum number of axes of a NumPy array."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_LIMIT = 2**63


@dataclass(slots=True)
class Port:
    """A port of a layer: its element type and its dims."""

    precision: str | None
    dims: list[str] = field(default_factory=list)


@dataclass(slots=True)
class RawLayer:
    """A layer as in the file: `<data>` elements, and the ports of `<input>` and `<output>`, in order."""

    line: int
    attributes: dict[str, str]
    data: list[dict[str, str]] = field(default_factory=list)
    ports: dict[str, list[Port]] = field(default_factory=lambda: {"input": [], "output": []})

    def where(self) -> str:
        """Describe the layer in a message: `the layer of line 12, id 3, name 'shuffle'`."""
        pairs = [(key, self.attributes[key]) for key in ("id", "name") if key in self.attributes]
        return ", ".join([f"the layer on line {self.line}", *(f"{k} {short_repr(v)}" for k, v in pairs)])


def find_layers(source: Source, layer_type: str) -> list[RawLayer]:
    """Return the layers of type `layer_type` in file order, including those in nested bodies.

    Raises InvalidArguments for anything but an IR of a known version.
    """
    collector = _Collector(layer_type)
    visit(source, collector)
    return collector.layers


def to_int(text: str, name: str) -> int:
    """Parse a 64-bit decimal integer. Errors name `name`."""
    stripped = text.strip()
    value = int(stripped) if _INTEGER.fullmatch(stripped) else _LIMIT
    if -_LIMIT <= value < _LIMIT:
        return value
    raise refuse("RS-V01:integer-64-bits", name=name, text=short_repr(text))


class _Collector:
    """Follows the elements of a document; inside a layer of the type, `path` leads to the current one."""

    def __init__(self, layer_type: str) -> None:
        self.layers: list[RawLayer] = []
        self._layer_type = layer_type
        self._is_root = True
        self._layer: RawLayer | None = None
        self._path: list[str] = []
        self._text: str | None = None

    def start(self, tag: str, attributes: dict[str, str], line: int) -> None:
        if self._is_root:
            self._is_root = False
            _check_root(tag, attributes)
        if self._layer is not None:
            self._path.append(tag)
            self._inside(self._layer, attributes)
        elif tag == "layer" and "type" not in attributes:
            raise refuse("RS-F04:layer-no-type")
        elif tag == "layer" and attributes["type"] == self._layer_type:
            if len(self.layers) == _MOST_LAYERS:
                raise refuse("RS-F04:more-layers", most_layers=_MOST_LAYERS, wanted=self._layer_type)
            self._layer = RawLayer(line, attributes)
            self.layers.append(self._layer)

    def end(self) -> None:
        layer = self._layer
        if layer is None:
            return
        if not self._path:
            self._layer = None
            return
        if self._text is not None:
            dims = layer.ports[self._path[0]][-1].dims
            if len(dims) == MOST_AXES:
                raise refuse("RS-F04:port-too-many", where=layer.where(), most_axes=MOST_AXES)
            dims.append(self._text)
            self._text = None
        self._path.pop()

    def text(self, piece: str) -> None:
        if self._text is not None and len(self._text) < _MOST_TEXT:
            self._text += piece[:_MOST_TEXT]

    def _inside(self, layer: RawLayer, attributes: dict[str, str]) -> None:
        first, *rest = self._path
        if first == "data" and not rest:
            layer.data.append(attributes)
        elif first in layer.ports and rest == ["port"]:
            layer.ports[first].append(Port(attributes.get("precision")))
        elif first in layer.ports and rest == ["port", "dim"]:
            self._text = ""
        elif self._path[-1] == "layer" or self._text is not None:
            raise refuse(
                "RS-F04:not-belong-inside",
                path=_tag_text(self._path[-1]),
                value=_tag_text(["layer", *self._path][-2]),
                where=layer.where(),
                why="a layer has <data>, <input> and <output>",
                hint="save the model again with OpenVINO",
            )


def _check_root(tag: str, attributes: dict[str, str]) -> None:
    if tag not in _ROOTS:
        raise refuse("RS-F04:outermost-element", tag=_tag_text(tag))
    version = attributes.get("version") if tag == "net" else None
    if version is not None and to_int(version, "the version of <net>") not in _VERSIONS:
        raise refuse("RS-F04:ir-version", version=short_repr(version), versions=_VERSIONS[-1])


def _tag_text(tag: str) -> str:
    """Return a tag for a message."""
    return f"<{tag if tag.isprintable() and len(tag) < _MOST_TEXT else tag[:8] + '...'}>"
