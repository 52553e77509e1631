"""OpenVINO models: networks and ShuffleChannels layers, read from the .xml file.

OpenVINO is neither needed nor imported.

>>> import io
>>> import numpy as np
>>> import restride as rs
>>> text = '''
... <layer id="3" name="shuffle" type="ShuffleChannels" version="opset3">
...   <data axis="1" group="3"/>
...   <input><port id="0"><dim>1</dim><dim>6</dim></port></input>
...   <output><port id="1"><dim>1</dim><dim>6</dim></port></output>
... </layer>'''
>>> (layer,) = rs.openvino.read_ir(io.StringIO(text))
>>> layer(np.arange(6).reshape(1, 6))
array([[0, 2, 4, 1, 3, 5]])
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Self

import ml_dtypes
import numpy as np

from .arrays.groups import by_count
from .arrays.openvino.ir import MOST_AXES, RawLayer, find_layers, to_int
from .arrays.openvino.xml_source import opened
from .arrays.shuffles import shuffle_channels
from .desc.parse import parse_int, parse_ints, short_repr
from .errors import Error, InvalidArguments, refuse
from .graph.importers.onnx.inputs import network_of
from .graph.importers.openvino.model import read_ir_model
from .graph.importers.openvino.operators import translate_layer
from .graph.network.network import Network
from .graph.rewrites.fusions import fusions_off
from .runtime.memory import Memory

__all__ = ["Layers", "ShuffleChannels", "load", "read_ir"]

_TYPE = "ShuffleChannels"
_LIMIT = 2**63
_VERSION = re.compile(r"opset[1-9][0-9]{0,2}")
_ELEMENT_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_DTYPES = {
    "FP64": np.float64, "FP32": np.float32, "FP16": np.float16, "BF16": ml_dtypes.bfloat16,
    "F8E4M3": ml_dtypes.float8_e4m3fn, "F8E5M2": ml_dtypes.float8_e5m2, "BOOL": np.bool_,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
}  # fmt: skip
# OpenVINO types without a NumPy equivalent, and words for a type that the file does not specify.
_NUMERIC = re.compile(r"(?:FP|BF|NF|[FIU])[0-9]{1,3}(?:E[0-9]M[0-9])?|BOOL|BIN")
_OPEN = ("MIXED", "UNSPECIFIED", "UNDEFINED", "DYNAMIC")
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class ShuffleChannels:
    """A ShuffleChannels-1 operation; call it with an array of its shape.

    shape         extents of input and output, -1 for one that is known only at execution
    axis          the axis of the channels, -rank to rank - 1
    group         number of groups that the channels are split into; must divide the number of channels
    id, name      of the layer; None and "" if the file does not specify them
    element_type  a numeric type as the file spells it ("FP32"), or None; a call accepts elements of any type
    version       the operation set ("opset3"), or None

    Raises InvalidArguments for values that the operation does not allow.
    """

    shape: tuple[int, ...]
    axis: int = 1
    group: int = 1
    id: int | None = None
    name: str = ""
    element_type: str | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        store = object.__setattr__
        store(self, "shape", _parse_shape(self.shape))
        store(self, "axis", parse_int(self.axis, "axis"))
        store(self, "group", parse_int(self.group, "group"))
        _check(self.shape, self.axis, self.group)
        store(self, "id", None if self.id is None else parse_int(self.id, "id"))
        name, kind, version = self.name, self.element_type, self.version
        if not isinstance(name, str):
            raise refuse("RS-V08:no-text", name=short_repr(name), type=type(name).__name__)
        if kind is not None and not (isinstance(kind, str) and _ELEMENT_TYPE.fullmatch(kind)):
            raise refuse("RS-O01:precision", text=short_repr(kind), why="it must be a word such as FP32")
        if kind is not None and kind.upper() not in _OPEN and not _NUMERIC.fullmatch(kind.upper()):
            why = f"{_TYPE} requires a numeric type"
            raise refuse("RS-O01:precision-numbers-fp32", text=short_repr(kind), why=why)
        if version is not None and not (isinstance(version, str) and _VERSION.fullmatch(version)):
            raise refuse("RS-O01:version", text=short_repr(version))

    @property
    def channels(self) -> int:
        """The extent of the axis; -1 if known only at execution."""
        return self.shape[self.axis]

    @property
    def group_size(self) -> int | None:
        """The `group_size` with which oneDNN's forward shuffle is equivalent; None if not known."""
        return None if self.channels < 0 else self.channels // self.group

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The NumPy equivalent of `element_type`, or None."""
        twin = _DTYPES.get((self.element_type or "").upper())
        return None if twin is None else np.dtype(twin)

    def __call__(self, x: Any, *, out: Any = None) -> Any:
        """Apply `restride.shuffle_channels` to `x`, an array or `Memory` of this shape; raises as it does.

        Raises InvalidArguments for another shape.
        """
        try:
            dims: Any = x.desc.dims if isinstance(x, Memory) else getattr(x, "shape", None)
            shape = tuple(int(n) for n in dims)
        except Exception:  # a foreign shape can raise anything
            raise refuse("RS-V08:x-no-array", type=type(x).__name__) from None
        is_fit = len(shape) == len(self.shape)
        if not is_fit or any(n not in (-1, m) for n, m in zip(self.shape, shape, strict=True)):
            raise refuse("RS-O04:x-another-shape", owner=self, found=_by(shape), shape=_by(self.shape))
        return shuffle_channels(x, group=self.group, axis=self.axis, out=out)

    def __str__(self) -> str:
        suffix = f" {short_repr(self.name)}" if self.name else "" if self.id is None else f" {self.id}"
        return f"{_TYPE}{suffix}"


class Layers(tuple[ShuffleChannels, ...]):
    """The layers of a model in file order: a tuple with lookup by id and by name.

    `Layers(layers)` takes any number of `ShuffleChannels`; raises InvalidArguments for anything else.
    """

    __slots__ = ()

    def __new__(cls, layers: Iterable[ShuffleChannels] = ()) -> Self:
        """Create it from any number of layers, in order."""
        try:
            items = tuple(layers)
        except Exception:  # not a sequence, or a foreign one
            kind = type(layers).__name__
            raise refuse("RS-V08:layers-shufflechannels", layers=short_repr(layers), type=kind) from None
        for i, layer in enumerate(items):
            if not isinstance(layer, ShuffleChannels):
                kind = type(layer).__name__
                raise refuse("RS-V08:layers-shufflechannels-rs", i=i, layer=short_repr(layer), type=kind)
        return super().__new__(cls, items)

    def by_id(self, id: int) -> ShuffleChannels:
        """Return the layer of that id. Raises InvalidArguments if there is none or there are several."""
        return self._only("id", id)

    def by_name(self, name: str) -> ShuffleChannels:
        """Return the layer of that name. Raises InvalidArguments unless there is exactly one."""
        return self._only("name", name)

    def _only(self, key: str, value: object) -> ShuffleChannels:
        layers = [layer for layer in self if getattr(layer, key) == value]
        if len(layers) == 1:
            return layers[0]
        values = ", ".join(short_repr(getattr(layer, key)) for layer in self[:_SHOWN])
        raise refuse(
            "RS-O04:layers",
            count=len(layers) or "no",
            what=f"{key} {short_repr(value)}",
            where=f"{key}s {values}{', ...' if len(self) > _SHOWN else ''}" if values else "",
            count2=len(self),
        )


def load(
    model: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    dims: Mapping[str, Sequence[int]] | None = None,
    rule: str = "optimal",
    without: Iterable[str] = (),
    exact: bool = False,
    precision: str = "f32",
) -> Network:
    """Load an OpenVINO IR as a network: the path of its .xml file, and of its .bin file if that is elsewhere.

    `dims`, `rule`, `without`, `exact`, `precision` and the errors are those of `rs.onnx.load`.
    """
    off = fusions_off("rs.openvino.load", without, exact)
    return network_of(read_ir_model(model, weights), translate_layer, dims, rule, off, precision)


def read_ir(source: str | os.PathLike[str] | IO[bytes] | IO[str]) -> Layers:
    """Return the ShuffleChannels layers of an OpenVINO IR in file order, including those in nested bodies.

    `source` is the path of the .xml file, or an open file. Its root element is `<net>`, or `<layers>` or
    `<layer>` for a part of a model. A model without such layers gives an empty result.

    Raises RuntimeFailure if the system refuses access to the file; InvalidArguments for a file that is not an
    IR, is truncated, exceeds 256 MiB, declares a document type, or has a layer that the operation does not
    allow.
    """
    with opened(source) as xml:
        return Layers([_read(xml.name, raw) for raw in find_layers(xml, _TYPE)])


def _read(name: str, raw: RawLayer) -> ShuffleChannels:
    try:
        if len(raw.data) > 1:
            raise refuse("RS-F04:two-data")
        for part, ports in raw.ports.items():
            if len(ports) != 1:
                raise refuse("RS-F04:ports", count=len(ports), part=part)
        (source,), (target,) = raw.ports.values()
        shape, result = ([to_int(text, "a <dim>") for text in port.dims] for port in (source, target))
        is_one = len(shape) == len(result)
        if not is_one or any(n != m and -1 not in (n, m) for n, m in zip(shape, result, strict=True)):
            raise refuse("RS-F04:input-output-differ", shape=_by(shape), result=_by(result))
        kinds = [kind for kind in (source.precision, target.precision) if kind is not None]
        if len({kind.upper() for kind in kinds} - set(_OPEN)) > 1:
            texts = [short_repr(kind) for kind in kinds]
            raise refuse("RS-F04:input-output-differ-type", source=texts[0], target=texts[1])
        # Other programs add attributes of their own.
        data, own = raw.data[0] if raw.data else {}, raw.attributes
        numbers = {key: to_int(data[key], key) for key in ("axis", "group") if key in data}
        return ShuffleChannels(
            tuple(shape),
            **numbers,
            id=to_int(own["id"], "id") if "id" in own else None,
            name=own.get("name", ""),
            element_type=kinds[0] if kinds else own.get("precision"),
            version=own.get("version"),
        )
    except Error as error:
        why = f"{error.what}: {error.why}" if error.why else error.what
        where = f"{raw.where()}; {error.where}" if error.where else raw.where()
        raise InvalidArguments(
            f"cannot read {name}", code=error.code, where=where, why=why, hint=error.hint
        ) from None


def _parse_shape(shape: object) -> tuple[int, ...]:
    dims = parse_ints(shape, "shape")
    for i, n in enumerate(dims):
        if not -1 <= n < _LIMIT:
            raise refuse("RS-O01:shape", i=i, n=short_repr(n))
    if 1 <= len(dims) <= MOST_AXES:
        return dims
    raise refuse("RS-O01:many-axes" if dims else "RS-O01:no-axes", count=len(dims), most_axes=MOST_AXES)


def _check(shape: tuple[int, ...], axis: int, group: int) -> None:
    """Check that axis and group fit the shape."""
    rank, where = len(shape), f"shape {_by(shape)} axis {short_repr(axis)} group {short_repr(group)}"
    if not -rank <= axis < rank:
        why = f"axis {short_repr(axis)} is out of the range of a tensor of {rank} axes, [{-rank}, {rank - 1}]"
        raise refuse("RS-O02:layer", where=where, why=why)
    if shape[axis] > 0:
        by_count(_TYPE, "group", shape, axis, group)
    elif not 1 <= group < _LIMIT:
        why = "it must be greater than or equal to 1" if group < 1 else "it must be below 2**63"
        raise refuse("RS-O05:group-no-number", where=where, why=why)


def _by(dims: Sequence[int]) -> str:
    return "x".join("*" if n < 0 else str(n) for n in dims) or "no dims"


def __dir__() -> list[str]:
    return sorted(__all__)
