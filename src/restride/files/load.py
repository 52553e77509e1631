"""`rs.load`: loads tensors from files, memory-mapped, with their layouts, types and scales."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from ..arrays.scaling.quantized_tensor import QuantizedTensor
from ..dtypes import DataType
from ..errors import refuse
from ..formats import gguf
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .conversion.sources import find_checkpoint, is_checkpoint
from .formats.gguf import GgufValue
from .plain_file import path_text
from .stored_tensors import StoredTensor
from .tensor_file import tensor_file
from .writing.replacement import shown, system_error
from .zarr.arrays import is_zarr, open_zarr

__all__ = ["load", "load_metadata"]

_CPU = Engine("cpu")

LoadedTensor = Memory | QuantizedTensor | Array
"""A tensor of a file: a NumPy array if restride has no data type for it."""


def load(path: str | os.PathLike[str]) -> LoadedTensor | Mapping[str, LoadedTensor]:
    """Load the tensors of a file, memory-mapped: nothing is read before it is used, and all are read-only.
    Zarr arrays are read as a whole; compressed .npz files are expanded to an unnamed temporary file.

    Returns a `Memory` for a .npy file, else a dict of them by name, with a `QuantizedTensor` for each tensor
    that is quantized in groups, including the ggml types in `rs.formats.gguf`. Tensors without axes, or with
    elements that restride has no data type for, are NumPy arrays; for other ggml types, of the bytes of each
    row. For a folder, or the index of its shards, the result is a mapping that opens a file when one of its
    tensors is first accessed. The file must not be changed or truncated while it is mapped. Raises
    InvalidArguments for a damaged file, RuntimeFailure if the system refuses access.

    >>> import numpy as np, restride as rs, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> rs.save(rs.Memory.from_numpy(np.ones((1, 3, 2, 2), "f4")).to("nChw16c"), path)
    >>> rs.load(path).desc.padded_dims
    (1, 16, 2, 2)
    """
    name = path_text(path, "load: path", 'rs.load("x.safetensors")')
    if is_zarr(name):
        return _load_zarr(name)
    if is_checkpoint(name):
        return FolderTensors(name)
    loaded = _with_scales(_mapped(name), name)
    is_single = len(loaded) == 1 and name.lower().endswith(".npy")
    return next(iter(loaded.values())) if is_single else loaded


class FolderTensors(Mapping[str, LoadedTensor]):
    """The tensors of a folder's files, by name. A file is opened when one of its tensors is accessed, all of
    them when names are listed or counted; only headers are read before a tensor is used.
    """

    def __init__(self, path: str) -> None:
        found = find_checkpoint(path)
        self._folder, self._index, self._shards = found.folder, found.index, found.shards
        self._loaded: dict[str, dict[str, LoadedTensor]] = {}
        for file in () if self._index else found.files:
            for name in self._file(file):
                if (first := self._shards.setdefault(name, file)) != file:
                    raise refuse(
                        "RS-F01:name-in-two-files",
                        path=shown(self._folder),
                        name=name[:60],
                        first=shown(first),
                        second=shown(file),
                    )

    def __getitem__(self, name: str) -> LoadedTensor:
        return self._file(self._shards[name])[name]

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, file in self._shards.items() if name in self._file(file)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<tensors of {len(set(self._shards.values()))} files in {shown(self._folder)}>"

    def _file(self, file: str) -> dict[str, LoadedTensor]:
        """Map all tensors of a file. Raises InvalidArguments if the index lists others."""
        if file not in self._loaded:
            path = os.path.join(self._folder, file)
            tensors = _mapped(path)
            lost = [name for name, own in self._shards.items() if own == file and name not in tensors]
            if lost and self._index:
                why = f"it lists {lost[0][:80]!r} in {file[:80]!r}, which does not contain it"
                raise refuse("RS-F01:index", path=shown(os.path.join(self._folder, self._index)), why=why)
            self._loaded[file] = _with_scales(tensors, path)
        return self._loaded[file]


def _mapped(path: str) -> dict[str, tuple[StoredTensor, Array]]:
    """Return the tensors of a file, each with the mapped bytes of the whole file."""
    source = tensor_file(path)
    with source.file as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise system_error("map", path, error) from None
    whole = np.frombuffer(mapped, np.uint8)
    return {tensor.array.name: (tensor, whole) for tensor in source.contents.tensors}


def load_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the metadata of a file by name: text for .safetensors; numbers, text and lists for .gguf.

    Empty if the format cannot store metadata, or there are none. Raises as `load` does.

    >>> import numpy as np, restride as rs, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
    >>> rs.save({"x": np.ones(3, "f4")}, path, metadata={"made by": "hand"})
    >>> rs.load_metadata(path)
    {'made by': 'hand'}
    """
    name = path_text(path, "load_metadata: path", 'rs.load_metadata("x.gguf")')
    if is_zarr(name):
        metadata = open_zarr(name).contents.metadata
    else:
        source = tensor_file(name)
        source.file.close()
        metadata = source.contents.metadata
    return {key: value.read() if isinstance(value, GgufValue) else value for key, value in metadata.items()}


def _load_zarr(path: str) -> LoadedTensor | dict[str, LoadedTensor]:
    """Read the arrays in a folder as a whole: chunks cannot be mapped as tensors."""
    folder = open_zarr(path)
    tensors: dict[str, tuple[StoredTensor, Array]] = {}
    for tensor in folder.tensors:
        content = np.empty(tensor.array.nbytes, np.uint8)
        if content.size:
            desc = tensor.array.whole_desc
            folder.place(tensor).read(desc, (0,) * desc.ndims, desc.dims, content)
        content.flags.writeable = False
        tensors[tensor.array.name] = (tensor, content)
    loaded = _with_scales(tensors, path)
    return next(iter(loaded.values())) if folder.is_one_array else loaded


def _with_scales(tensors: dict[str, tuple[StoredTensor, Array]], path: str) -> dict[str, Any]:
    """Return all tensors over their bytes; those quantized in groups together with their scales."""
    loaded: dict[str, Any] = {name: tensor_over(*one) for name, one in tensors.items()}
    absorbed: set[str] = set()
    for name, (tensor, _) in tensors.items():
        note = tensor.array.scaling
        if note is None or not note.groups:
            continue
        absorbed.update(note.parts)
        values, scale = loaded[name], loaded.get(note.scale)
        zero, minimum = (loaded.get(part) if part else None for part in (note.zero_point, note.minimum))
        whole = 1.0
        if note.tensor_scale:
            number = loaded.get(note.tensor_scale)
            if not isinstance(number, Memory) or (number.desc.nelems, number.desc.data_type) != (
                1,
                DataType.f32,
            ):
                raise refuse("RS-F01:scale-whole-tensor", path=shown(path))
            whole = float(number.to_numpy().reshape(-1)[0])
        if not isinstance(values, Memory) or not isinstance(scale, Memory):
            raise refuse("RS-F01:scales-no-scales", path=shown(path), name=name[:60])
        extents = tuple(n // group for n, group in zip(values.desc.dims, note.groups, strict=False))
        is_misfit = not all(part is None or isinstance(part, Memory) for part in (zero, minimum))
        if scale.desc.dims != extents or is_misfit:
            raise refuse("RS-F01:scales-other-groups", path=shown(path), name=name[:60])
        if minimum is not None and minimum.desc.dims != extents:
            raise refuse("RS-F01:minima-other-groups", path=shown(path), name=name[:60])
        loaded[name] = QuantizedTensor(values, scale, zero, whole, minimum)
    return {name: one for name, one in loaded.items() if name not in absorbed}


def tensor_over(tensor: StoredTensor, whole: Array) -> LoadedTensor:
    """Return a stored tensor over the bytes of its file."""
    array = tensor.array
    content = whole[tensor.start : tensor.start + array.nbytes]
    if array.desc is not None and array.kind.data_type is not None:
        return Memory(array.desc, _CPU, content)
    if array.kind.word in gguf.BLOCK_FORMATS:
        return gguf.BLOCK_FORMATS[array.kind.word](array.shape).wrap(content)
    if array.kind.numpy is None:
        rows = array.shape[:-1] if array.kind.block > 1 else ()
        return content.reshape(*rows, array.nbytes // max(prod(rows), 1))
    if array.desc is not None:
        # In logical order: NumPy cannot describe blocks.
        return Memory(array.desc, _CPU, content).to_numpy().view(array.kind.numpy)
    return content.view(array.kind.numpy).reshape(array.shape)
