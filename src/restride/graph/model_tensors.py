"""The tensors of any file in checkpoint form: for a network, its constants, whatever the file format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import refuse
from ..files.conversion.sources import (
    ConversionSource,
    SourceFile,
    is_checkpoint,
    open_checkpoint,
    open_source,
)
from ..files.plain_file import close_on_error, opened, state_of
from ..files.stored_tensors import (
    KIND_OF_DTYPE,
    Contents,
    ElementKind,
    StoredArray,
    StoredTensor,
    array_of,
    plain_array,
)
from ..files.writing.replacement import shown
from ..runtime.alloc import Array, address_of
from ..runtime.views import packed_nibbles
from .importers.onnx.model import read_model
from .importers.onnx.tensors import ELEMENTS
from .importers.openvino.model import read_ir_constants
from .importers.openvino.operators import NUMBERS
from .network.file import NetworkFile, is_saved_network, naming_file, read_network_file
from .network.stored_graph import type_of_values
from .nodes.operations import row_major
from .stored_constant import StoredConstant

__all__ = ["open_tensors"]

_OF_4_BITS = [dtype for dtype in ELEMENTS.values() if DataType.parse(dtype).bits < 8]


def open_tensors(path: str, *, only_heads: bool = False, skip_links: bool = False) -> ConversionSource:
    """Open files of tensors, to be closed by the caller: a file or a folder of any kind that restride reads.

    Raises InvalidArguments for damaged files, RuntimeFailure if the system refuses.

    `only_heads`: compressed files are not expanded, and have no values. `skip_links`: links out of a folder
    are not read, and returned as `skipped`; otherwise they are errors.
    """
    if is_checkpoint(path):
        return open_checkpoint(path, only_heads=only_heads, skip_links=skip_links)
    end = os.path.splitext(path)[1].lower()
    if end in _READERS:
        return ConversionSource(path, is_folder=False, files=_READERS[end](path))
    if os.path.isfile(path) and is_saved_network(path):
        return ConversionSource(path, is_folder=False, files=_of_network(path))
    return open_source(path, follow_links=True, only_heads=only_heads)


def _source_file(path: str, file: BinaryIO, tensors: Iterable[StoredTensor]) -> Any:
    return SourceFile(os.path.basename(path), path, file, state_of(file), Contents(tuple(tensors)))


def _of_onnx(path: str) -> list[Any]:
    """Return an ONNX model's constants: in its file, external files or, for number lists, a temporary one."""
    model = read_model(path)
    constants: dict[str, Array | StoredConstant] = {**model.tensors, **model.packed}
    for node in model.nodes:
        if node.operator == "Constant" and isinstance(value := node.attributes.get("value"), np.ndarray):
            constants[node.outputs[0]] = value
    held: dict[str, list[StoredTensor]] = {file.path: [] for file in model.files}
    spared: list[StoredTensor] = []
    files = {file.path: opened(file.path) for file in model.files}
    spare = TemporaryFile()  # noqa: SIM115, closed with the returned source
    for name, value in constants.items():
        array, content = _stored(name, value)
        begins = {file.path: _offset(content, file.content) for file in model.files}
        where = next((own for own, start in begins.items() if start is not None), None)
        if where is not None:
            held[where].append(StoredTensor(array, where, begins[where] or 0))
            continue
        spared.append(StoredTensor(array, path, spare.tell()))
        spare.write(content.data)
    spare.flush()
    kept = [_source_file(own, files[own], tensors) for own, tensors in held.items()]
    return [*kept, _source_file(path, spare, spared)]


def _stored(name: str, value: Array | StoredConstant) -> tuple[StoredArray, Array]:
    if not isinstance(value, StoredConstant) and value.dtype in _OF_4_BITS and value.ndim:
        value = StoredConstant(packed_nibbles(value), MemoryDesc(value.shape, DataType.parse(value.dtype)))
    if isinstance(value, StoredConstant):
        return array_of(name, value.md), value.content[: value.md.size]
    dtype = value.dtype
    if dtype.hasobject or dtype.kind in "SU":
        texts = (text if isinstance(text, bytes) else str(text).encode() for text in value.reshape(-1))
        content = np.frombuffer(b"\0".join(texts), np.uint8)
        return StoredArray(name, ElementKind("STRING", 0, None, None), value.shape, content.size), content
    twin = dtype if dtype.itemsize <= 8 else None
    kind = KIND_OF_DTYPE.get(dtype) or ElementKind(dtype.name.upper(), 8 * dtype.itemsize, None, twin)
    return plain_array(name, kind, value.shape), np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def _offset(content: Array, whole: memoryview) -> int | None:
    """Return the offset of bytes in a mapped file; None if they are elsewhere."""
    if not content.size or not len(whole):
        return None
    start = address_of(content) - address_of(np.frombuffer(whole, np.uint8))
    return start if 0 <= start <= len(whole) - content.size else None


def _of_ir(path: str) -> list[Any]:
    """Return the constants of an OpenVINO model, which are in its .bin file."""
    weights, constants = read_ir_constants(path)
    tensors = []
    for name, (element, dims, start, nbytes) in constants.items():
        number = NUMBERS.get(element)
        if number is None:
            array = StoredArray(name, ElementKind(element.upper()[:20], 8, None, None), dims, nbytes)
        elif (kind := KIND_OF_DTYPE.get(ELEMENTS[number])) is not None:
            array = plain_array(name, kind, dims)
        else:
            array = array_of(name, MemoryDesc(dims, DataType.parse(ELEMENTS[number])))
        if array.nbytes not in (nbytes, 0):
            raise refuse("RS-F04:openvino", why=f"{name[:60]!r} has {nbytes} bytes instead of {array.nbytes}")
        tensors.append(StoredTensor(array, weights, start))
    file = opened(weights)
    with close_on_error(file):
        most = state_of(file).nbytes
        if any(tensor.start + tensor.array.nbytes > most for tensor in tensors):
            raise refuse("RS-F01:ends-byte", path=shown(weights), start=most)
        return [_source_file(weights, file, tensors)]


def _of_network(path: str) -> list[Any]:
    """Return the constants of a saved network, also in the formats in which its plans read them."""
    network = read_network_file(path)
    return naming_file(path, lambda: [_source_file(path, opened(path), _network_tensors(network))])


def _network_tensors(network: NetworkFile) -> Iterator[StoredTensor]:
    header = network.header
    names: dict[int, str] = {}
    for plan in header["plans"]:
        for name, number in plan["graph"]["constants"].items():
            names.setdefault(number, str(name))
    for number, values in enumerate(header["constants"]):
        md = MemoryDesc.from_dict(values["md"]) if "md" in values else row_major(type_of_values(values))
        yield _network_tensor(network, names.get(number, f"#{number}"), md, values["tensor"])
    for values in header["prepacked"]:
        md, number = MemoryDesc.from_dict(values["md"]), values["constant"]
        name = names.get(number, f"#{number}")
        yield _network_tensor(network, f"{name} as {md.tag or md}", md, values["tensor"])


def _network_tensor(network: NetworkFile, name: str, md: MemoryDesc, number: int) -> StoredTensor:
    start, nbytes = network.place(number)
    if nbytes != md.size:
        raise refuse("RS-F10:tensor-not-bytes", path=shown(network.path), tensor=number, md=md)
    array = array_of(name, md)
    return StoredTensor(array, network.path, start)


_READERS: Mapping[str, Callable[[str], list[Any]]] = {".onnx": _of_onnx, ".xml": _of_ir}
