"""An ONNX file as frozen values: nodes with their attributes, known tensors, inputs and outputs.

Messages of Protocol Buffers are data: nothing in them is executed. Only files in the folder of the model, or
below it, are read. Tensors are views of the file, which is memory-mapped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from ....desc.parse import short_repr
from ....errors import Error, refuse
from ....files.mapped_file import MappedFile
from ....foreign import has_attribute
from ....runtime.alloc import Array
from ...stored_constant import StoredConstant
from .tensors import tensor_values
from .wire import Message, read_message


class _PartOfFile:
    """A value with bytes of the file; pickles contain a copy of these bytes."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, each.name) for each in fields(cast(Any, self)))
        return type(self), tuple(bytes(x) if isinstance(x, memoryview) else x for x in values)


@dataclass(frozen=True, slots=True)
class OnnxNode(_PartOfFile):
    """A node as in the file: `""` stands for an omitted input. `content`: its bytes, if the file has it."""

    operator: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    content: bytes | memoryview = field(default=b"", compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.operator} {self.name!r}"

    @property
    def has_onnx_operator(self) -> bool:
        """True for an operator of ONNX's own, whose versions are numbered."""
        return "." not in self.operator

    def inner_nodes(self) -> Iterator[OnnxNode]:
        """Yield the nodes of the graphs in its attributes."""
        for branch in self.attributes.values():
            if isinstance(branch, OnnxBranch):
                yield from branch.nodes

    def reads(self) -> frozenset[str]:
        """Return the tensors that it needs: its inputs, and outer ones read by graphs in its attributes."""
        names = {*self.inputs}
        for branch in self.attributes.values():
            if isinstance(branch, OnnxBranch):
                own = {*branch.inputs, *branch.tensors}
                for node in branch.nodes:
                    names |= node.reads() - own
                    own.update(node.outputs)
                names |= {*branch.outputs} - own
        return frozenset(names - {""})


@dataclass(frozen=True, slots=True)
class OnnxBranch(_PartOfFile):
    """A graph that is an attribute of a node, such as a branch of an `If`. It sees the tensors around the
    node.

    `inputs`: tensors passed to it in addition, as to the body of a loop; `content`: its bytes.
    """

    nodes: tuple[OnnxNode, ...]
    tensors: Mapping[str, Array]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    content: bytes | memoryview = field(default=b"", compare=False, repr=False)

    def in_place_of(self, node: OnnxNode) -> OnnxBranch:
        """Return the branch as nodes that replace `node` and make its outputs.

        Inner tensors have names that begin with that of the node's first output.
        """
        seen = OnnxNode("", "", (), (), {"": self}).reads()
        first = next(filter(None, node.outputs), node.name)
        names, results = {"": "", **{name: name for name in seen}}, list[OnnxNode]()
        for outer, name in zip(node.outputs, self.outputs, strict=False):
            if names.setdefault(name, outer) != outer and outer:
                results.append(OnnxNode("Identity", outer, (names[name],), (outer,), {}))
        instance = _Instance(f"{first}/", names, {})
        tensors = {instance.name(name): array for name, array in self.tensors.items()}
        pairs = zip(instance.nodes(self.nodes), self.nodes, strict=True)
        own = tuple(replace(new, name=old.name) for new, old in pairs)
        return OnnxBranch((*own, *results), tensors, node.outputs)


@dataclass(frozen=True, slots=True)
class OnnxReference:
    """An attribute inside a function that refers to an attribute of the calling node."""

    name: str


@dataclass(frozen=True, slots=True)
class OnnxFunction(_PartOfFile):
    """An operator defined as a graph of others: names of its inputs and outputs, its nodes, and the version
    of ONNX's operators among them. `defaults`: attributes that a node can omit.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    opset: int
    defaults: Mapping[str, Any]
    content: bytes | memoryview = field(default=b"", compare=False, repr=False)

    def graph_for(self, node: OnnxNode) -> OnnxBranch:
        """Return the nodes that replace a call of this function, with the attributes and tensors of `node`.

        All other tensors have names that begin with that of its first output.
        """
        instance = _Instance.of(self, node)
        return OnnxBranch(instance.nodes(self.nodes), {}, tuple(map(instance.name, self.outputs)))


@dataclass(frozen=True, slots=True)
class _Instance:
    """A function in place of a node: `names` maps the names of its tensors to those of the caller."""

    prefix: str
    names: Mapping[str, str]
    attributes: Mapping[str, Any]

    @classmethod
    def of(cls, function: OnnxFunction, node: OnnxNode) -> _Instance:
        # Names that are not inputs or outputs of the node are omitted inputs, or local to the function.
        names = {"": "", **dict.fromkeys(function.inputs, "")}
        names |= zip(function.inputs, node.inputs, strict=False)
        pairs = zip(function.outputs, node.outputs, strict=False)
        names |= {inner: outer for inner, outer in pairs if outer and not names.get(inner)}
        first = next(filter(None, node.outputs), node.name)
        return cls(f"{first}/", names, {**function.defaults, **node.attributes})

    def nodes(self, nodes: Iterable[OnnxNode]) -> tuple[OnnxNode, ...]:
        return tuple(
            OnnxNode(
                node.operator,
                f"{self.prefix}{node.name}",
                tuple(map(self.name, node.inputs)),
                tuple(map(self.name, node.outputs)),
                dict(self._attributes(node)),
            )
            for node in nodes
        )

    def name(self, name: str) -> str:
        return self.names.get(name, f"{self.prefix}{name}")

    def _attributes(self, node: OnnxNode) -> Iterator[tuple[str, Any]]:
        for name, value in node.attributes.items():
            if isinstance(value, OnnxBranch):
                tensors = {self.name(tensor): array for tensor, array in value.tensors.items()}
                outputs = tuple(map(self.name, value.outputs))
                inputs = tuple(map(self.name, value.inputs))
                yield name, OnnxBranch(self.nodes(value.nodes), tensors, outputs, inputs)
            elif not isinstance(value, OnnxReference):
                yield name, value
            elif value.name in self.attributes:
                yield name, self.attributes[value.name]


@dataclass(frozen=True, slots=True)
class OnnxInput(_PartOfFile):
    """An input of a run: extents are numbers, names of symbolic extents, or None.

    `element`: the number of its element type, 0 if it is not a tensor. `content`: its type's bytes.
    """

    name: str
    dims: tuple[int | str | None, ...] | None
    element: int
    content: bytes | memoryview = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A model: its nodes in order, its known tensors, inputs and outputs.

    `opset`: version of ONNX's own operators. `files`: the files that the tensors are views of. `functions`:
    operators that the model defines, by name; None if nodes belong to a table other than ONNX's, so that
    operators which ONNX defines by others are not expanded. `versions`: of the operators of each domain, and
    of the file, under "format". `packed`: known tensors of few bits, as they are stored.
    """

    nodes: tuple[OnnxNode, ...]
    tensors: Mapping[str, Array]
    inputs: tuple[OnnxInput, ...]
    outputs: tuple[str, ...]
    opset: int
    files: tuple[MappedFile, ...] = ()
    functions: Mapping[str, OnnxFunction] | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    packed: Mapping[str, StoredConstant] = field(default_factory=dict)

    @property
    def unpacked(self) -> OnnxModel:
        """Return the same model with all known tensors as arrays."""
        arrays = {name: tensor.values for name, tensor in self.packed.items()}
        return replace(self, tensors={**self.tensors, **arrays}, packed={})

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickle contains the values of tensors, and does not depend on files.
        values = {each.name: getattr(self, each.name) for each in fields(self)} | {"files": ()}
        return OnnxModel, tuple(values.values())

    def check_files(self) -> None:
        """Raise RuntimeFailure if a file was modified since the model was read."""
        for file in self.files:
            file.check()


def read_model(source: object) -> OnnxModel:
    """Read the model from a path, the bytes of a file, or a `ModelProto`.

    Raises RuntimeFailure if the system refuses the file, InvalidArguments for anything but a model.
    """
    reader = _ModelReader(None)
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        reader = _ModelReader(path.parent)
        content = reader.mapped(path)
    elif isinstance(source, bytes | bytearray | memoryview):
        content = memoryview(bytes(source))
    else:
        content = _model_bytes(source)
    try:
        return reader.model(_parsed(content))
    except MemoryError:
        raise refuse("RS-D01:onnx") from None


def read_function(content: bytes) -> OnnxFunction:
    """Parse a `FunctionProto`. Raises ValueError for invalid bytes."""
    return _ModelReader(None).function(read_message("function", memoryview(content)))


def _model_bytes(source: Any) -> memoryview:
    if not has_attribute(source, "graph") or not has_attribute(source, "SerializeToString"):
        raise refuse("RS-V08:no-onnx-model", type=type(source).__name__)
    try:
        return memoryview(source.SerializeToString())
    except Exception as error:  # the errors depend on the caller's protobuf package
        raise no_model("the ModelProto cannot be serialized", error) from None


def _parsed(content: memoryview) -> Message:
    try:
        model = read_message("model", content)
    except (ValueError, IndexError, RecursionError) as error:
        raise no_model(
            "the bytes cannot be parsed: the file is truncated, or is not an ONNX file", error
        ) from None
    if not model.graph.node and not model.graph.output:
        raise no_model("it does not contain a graph")
    return model


class _ModelReader:
    """Makes values of messages. `folder`: of external data files; None without one."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._files: dict[Path, MappedFile] = {}

    def mapped(self, path: Path) -> memoryview:
        if path not in self._files:
            self._files[path] = MappedFile(str(path), "an .onnx file")
        return self._files[path].content

    def model(self, model: Message) -> OnnxModel:
        graph = model.graph
        nodes = tuple(map(self._node, graph.node))
        outputs = tuple(info.name for info in graph.output)
        weights = read_as_weights(nodes, outputs, _READ_WEIGHTS)
        tensors, packed = dict[str, Array](), dict[str, StoredConstant]()
        for item in graph.initializer:
            tensor = self._array(item, f"tensor {item.name!r}", may_be_packed=item.name in weights)
            if isinstance(tensor, StoredConstant):
                packed[item.name] = tensor
            else:
                tensors[item.name] = tensor
        if graph.sparse_initializer:
            raise no_model("sparse tensors are not supported")
        known = {*tensors, *packed}
        inputs = tuple(_input(info) for info in graph.input if info.name not in known)
        functions = dict[str, OnnxFunction]()
        for each in model.functions:
            name = _operator(each, each.name)
            if name in functions:
                raise no_model(f"function {short_repr(name)} is defined twice")
            functions[name] = self.function(each)
        files = tuple(self._files.values())
        for file in files:
            file.release_pages()
        versions = {"format": model.ir_version, **{each.domain: each.version for each in model.opset_import}}
        return OnnxModel(nodes, tensors, inputs, outputs, _opset(model), files, functions, versions, packed)

    def function(self, function: Message) -> OnnxFunction:
        what = f"function {function.name!r}"
        for word, names in (("an input", function.input), ("an output", function.output)):
            twice = [name for at, name in enumerate(names) if name in names[:at]]
            if twice:
                raise no_model(f"{what} has {word} {twice[0]!r} twice")
        return OnnxFunction(
            tuple(function.input),
            tuple(function.output),
            tuple(map(self._node, function.node)),
            _opset(function),
            {item.name: self._attribute(item, what) for item in function.attribute_proto},
            function.content,
        )

    def _node(self, node: Message) -> OnnxNode:
        outputs = tuple(node.output)
        name = node.name or (outputs[0] if outputs else "")
        attributes = {attribute.name: self._attribute(attribute, name) for attribute in node.attribute}
        operator, inputs = _operator(node, node.op_type), tuple(node.input)
        return OnnxNode(operator, name, inputs, outputs, attributes, node.content)

    def _attribute(self, attribute: Message, node: str) -> Any:
        """Return an attribute's value, or None for kinds that only unsupported operators use."""
        kind = attribute.type
        if attribute.ref_attr_name:
            return OnnxReference(attribute.ref_attr_name)
        if kind in _PLAIN_ATTRIBUTES:
            return _PLAIN_ATTRIBUTES[kind](attribute)
        if kind == _TENSOR:
            return self._array(attribute.t, f"attribute {attribute.name!r} of node {node!r}")
        return self._branch(attribute.g, node) if kind == _GRAPH else None

    def _branch(self, graph: Message, node: str) -> OnnxBranch:
        if graph.sparse_initializer:
            raise no_model("sparse tensors are not supported")
        owner = f"of node {node!r}"
        tensors = {
            item.name: self._array(item, f"tensor {item.name!r} {owner}") for item in graph.initializer
        }
        inputs, outputs = (tuple(info.name for info in infos) for infos in (graph.input, graph.output))
        return OnnxBranch(tuple(map(self._node, graph.node)), tensors, outputs, inputs, graph.content)

    # --- tensors --------------------------------------------------------------------------------------------

    def _array(self, tensor: Message, what: str, *, may_be_packed: bool = False) -> Any:
        if any(n < 0 for n in tensor.dims):
            raise no_model(f"{what} has negative dims")
        if tensor.data_location == _EXTERNAL:
            content: memoryview | None = self._beside(tensor, what)
        else:
            content = tensor.raw_data if "raw_data" in tensor.fields else None
        try:
            return tensor_values(tensor, content, may_be_packed=may_be_packed)
        except (MemoryError, Error):
            raise
        except Exception as error:  # a malformed field can raise anything
            raise no_model(f"{what} cannot be read", error) from None

    def _beside(self, tensor: Message, what: str) -> memoryview:
        """Return the bytes of a tensor that are in an external data file."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if self._folder is None:
            raise no_model(f"{what} is in an external file, but a model given as bytes has no folder")
        location = entries.get("location", "")
        try:
            data = self.mapped(_inside(self._folder, location, what))
            start = int(entries.get("offset", 0))
            length = int(entries["length"]) if "length" in entries else len(data) - start
        except Error as error:
            if error.code == "RS-F04":
                raise
            raise refuse("RS-F11", tensor=what, location=short_repr(location), why=error.why) from None
        except (OSError, ValueError) as error:
            raise no_model(f"{what}: its file {short_repr(location)} cannot be read", error) from None
        if min(start, length) < 0 or start + length > len(data):
            left = max(len(data) - start, 0)
            raise no_model(f"{what}: its file has {left} bytes from offset {start}, not {length}")
        return data[start : start + length]


_ONNX_DOMAINS = ("", "ai.onnx")
_READ_WEIGHTS = "DequantizeLinear", "com.microsoft.GatherBlockQuantized"


def read_as_weights(nodes: Iterable[OnnxNode], outputs: Iterable[str], operators: Iterable[str]) -> set[str]:
    """Return the tensors that only these operators read, as their first input."""
    weights, others = set[str](), {*outputs}
    for node in nodes:
        first = {*node.inputs[:1]} if node.operator in operators else set[str]()
        weights |= first
        others |= {*node.inputs[1:]} | (node.reads() - first)
    return weights - others


def _operator(message: Message, name: str) -> str:
    """Return the name of a node's operator, or of a function, with its domain unless it is ONNX's own."""
    domain = "" if message.domain in _ONNX_DOMAINS else f"{message.domain}."
    return f"{domain}{name}:{message.overload}" if message.overload else f"{domain}{name}"


def _opset(message: Message) -> int:
    """The version of ONNX's own operators in a model or a function; 0 where it has none."""
    versions = [opset.version for opset in message.opset_import if opset.domain in _ONNX_DOMAINS]
    return max(versions, default=0)


def _input(value: Message) -> OnnxInput:
    kind, content = value.type.tensor_type, value.type.content
    if not content:
        raise no_model(f"input {value.name!r} has no type")
    dims = tuple(map(_extent, kind.shape.dim)) if "shape" in kind.fields else None
    return OnnxInput(value.name, dims, kind.elem_type, content)


def _extent(dim: Message) -> int | str | None:
    if "dim_value" in dim.fields:
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None


# Kinds of attributes by number: the field with the value, and its conversion.
_FLOAT, _INT, _STRING, _TENSOR, _GRAPH, _FLOATS, _INTS, _STRINGS = range(1, 9)
_PLAIN_ATTRIBUTES: Mapping[int, Callable[[Message], Any]] = {
    _FLOAT: lambda attribute: attribute.f,
    _INT: lambda attribute: attribute.i,
    _STRING: lambda attribute: str(attribute.s, "utf-8", "replace"),
    _FLOATS: lambda attribute: tuple(attribute.floats),
    _INTS: lambda attribute: tuple(attribute.ints),
    _STRINGS: lambda attribute: tuple(str(string, "utf-8", "replace") for string in attribute.strings),
}
_EXTERNAL = 1


def _inside(folder: Path, location: str, what: str) -> Path:
    root, path = folder.resolve(), (folder / location).resolve()
    if location and not Path(location).is_absolute() and path.is_relative_to(root) and path != root:
        return path
    raise no_model(f"{what}: its file {short_repr(location)} is outside the folder of the model")


def no_model(why: str, error: Exception | None = None) -> Error:
    """Return the error of an invalid ONNX model."""
    return refuse("RS-F04:onnx", why=why, reason=f" ({str(error)[:200]})" if error else "")


def listed(names: Iterable[object]) -> str:
    """Join names for a message, each in its repr."""
    return ", ".join(short_repr(name) for name in names)
