"""`rs.save`: saves tensors to files, in any layout and type."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..arrays.calls.memories import memory_of
from ..arrays.calls.tensors import as_numpy
from ..arrays.reorders import reorder
from ..arrays.scaling.packed_tensor import PackedTensor
from ..arrays.scaling.quantized_tensor import QuantizedTensor
from ..desc.ggml_blocks import GGML_BLOCKS
from ..desc.parse import short_repr
from ..errors import InvalidArguments, refuse
from ..foreign import is_masked, plain_text
from ..formats import gguf
from ..formats.ggml_blocks import bytes_of_blocks
from ..runtime.alloc import Array, extent
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.transfer import synchronize, to_host
from .formats.gguf import gguf_image
from .places import write_at
from .plain_file import path_text
from .stored_tensors import (
    GGML_KINDS_BY_WORD,
    KIND_OF_DTYPE,
    Scaling,
    StoredArray,
    array_of,
    is_dense,
    is_row_major,
    plain_array,
)
from .tensor_file import holds_metadata, image_maker, is_zarr_name
from .writing.draft import AtomicOutput, DraftFile, Origin
from .writing.replacement import Replacement, shown
from .zarr.arrays import zarr_image

__all__ = ["save"]

_CPU = Engine("cpu")
# ggml types whose elements are not bit fields: a tensor in parts can be converted to these.
_PLAIN_BLOCKS = [word for word in gguf.BLOCK_FORMATS if word.lower() not in GGML_BLOCKS]


class _StoredBytes(NamedTuple):
    """A tensor to be written: its array, and its bytes."""

    array: StoredArray
    content: Array


def save(tensors: Any, path: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None) -> None:
    """Save a tensor, or a dict of them by name, to a file; the suffix of `path` selects .npy, .npz,
    .safetensors, .gguf or .zarr.

    A `Memory` is written in its own layout and type; other programs read the file as the plain physical
    array, and `rs.load` restores the descriptor. NumPy, torch and JAX arrays are written row-major, a
    `QuantizedTensor` in its parts, or as blocks if .gguf has a type with such elements, groups and scales. In
    files of several tensors, a single one is named "x".
    `metadata`: text by name, for .safetensors, .gguf and .zarr.

    The file appears as a whole or not at all. Raises InvalidArguments for values that are not tensors,
    Unimplemented for tensors that the format cannot store, RuntimeFailure if the system refuses access.

    >>> import numpy as np, restride as rs, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> rs.save({"w": rs.Memory.from_numpy(np.ones((2, 3), "f4")).to("AB16b4a"), "n": np.int64([7])}, path)
    >>> loaded = rs.load(path)
    >>> loaded["w"].desc.tag, loaded["n"].desc
    ('AB16b4a', <MemoryDesc s64 1 a>)
    """
    name = path_text(path, "save: path", 'rs.save(..., "x.safetensors")')
    make = None if is_zarr_name(name) else image_maker(name)
    is_bare = metadata is None or (isinstance(metadata, Mapping) and not metadata)
    if not is_bare and not holds_metadata(name):
        raise refuse("RS-F03:no-place-npy", name=shown(name))
    by_name = tensors if isinstance(tensors, Mapping) else {"x": tensors}
    strange = next((key for key in by_name if not isinstance(key, str)), None)
    if strange is not None:
        raise refuse("RS-V08:name-no-text", strange=short_repr(strange), type=type(strange).__name__)
    prepared = [
        part
        for key, value in by_name.items()
        for part in _parts(plain_text(key), value, is_gguf=make is gguf_image)
    ]
    names = Counter(part.array.name for part in prepared)
    if len(names) < len(prepared):
        raise refuse("RS-F03:two-tensors-called", name=names.most_common(1)[0][0][:60])
    if make is None:
        _save_zarr(name, prepared, {} if metadata is None else metadata)
        return
    image = make([one.array for one in prepared], {} if metadata is None else metadata)
    with Replacement(name).open(image.nbytes) as file:
        handle = file.fileno()
        for start, piece in image.pieces:
            write_at(handle, start, memoryview(piece))
        for start, one in zip(image.starts, prepared, strict=True):
            write_at(handle, start, one.content.data)
        if image.finish is not None:
            image.finish(handle)


def _save_zarr(path: str, prepared: Sequence[_StoredBytes], metadata: Mapping[str, str]) -> None:
    """Save a group of arrays, as a whole or not at all."""
    image = zarr_image([one.array for one in prepared], metadata)
    draft = AtomicOutput(path, is_folder=True)
    try:
        draft.open([DraftFile(".", image)], Origin("", ""), resume=False)
        for start, one in zip(image.starts, prepared, strict=True):
            if one.content.size:
                desc = one.array.whole_desc
                draft.place(0, start).write(desc, (0,) * desc.ndims, desc.dims, one.content)
        draft.complete()
        draft.publish()
    except BaseException:
        draft.abandon(keep=False)
        raise


def _parts(name: str, value: Any, *, is_gguf: bool) -> list[_StoredBytes]:
    """Return a tensor, or the parts of a quantized one: its elements, and its scales under separate names.

    ggml blocks are one tensor if the file has types for them.
    """
    if is_gguf and isinstance(value, PackedTensor):
        array = plain_array(name, GGML_KINDS_BY_WORD[value.format.upper()], value.dims)
        return [_StoredBytes(array, np.asarray(value.packed))]
    if is_gguf and isinstance(value, QuantizedTensor) and (blocks := _blocks_of(name, value)):
        return [blocks]
    if not isinstance(value, QuantizedTensor):
        return [_prepare(name, value)]
    parts: dict[str, Any] = {"scale": value.scale, "zero_point": value.zero_point, "minimum": value.minimum}
    parts = {part: memory for part, memory in parts.items() if memory is not None}
    if value.tensor_scale != 1.0:
        parts["tensor_scale"] = np.full((1,) * value.values.desc.ndims, value.tensor_scale, np.float32)
    names = {part: f"{name}_{part}" for part in parts}
    values = _prepare(name, value.values)
    array = replace(values.array, scaling=Scaling(**names, axis=None, groups=value.groups))
    return [
        _StoredBytes(array, values.content),
        *(_prepare(names[part], part_values) for part, part_values in parts.items()),
    ]


def _blocks_of(name: str, tensor: QuantizedTensor) -> _StoredBytes | None:
    """Return a tensor with the elements and scales of a ggml type as its blocks; None for others."""
    own, dims = tensor.values.desc, tensor.dims
    for word in () if tensor.tensor_scale != 1 else _PLAIN_BLOCKS:
        kind = GGML_KINDS_BY_WORD[word]
        if not dims or dims[-1] % kind.block:
            continue
        form = gguf.BLOCK_FORMATS[word](dims)
        has_minimum = (tensor.minimum is None) == (form.minimum is None)
        if (
            own.data_type is form.values.data_type
            and has_minimum
            and (own == form.values or is_row_major(own))
        ):
            with suppress(InvalidArguments):  # groups, scales or zero points differ
                return _StoredBytes(plain_array(name, kind, dims), bytes_of_blocks(form.pack(tensor)))
    return None


def _prepare(name: str, value: Any) -> _StoredBytes:
    if isinstance(value, Memory) and value:
        synchronize(value)
        return _of_memory(name, to_host(value))
    x = as_numpy(value, f"save: {name[:60]}")
    if not isinstance(x, np.ndarray | np.generic | int | float | bool):
        why = "it is an empty Memory" if isinstance(value, Memory) else f"it is {type(value).__name__}"
        raise refuse("RS-V08:no-tensor", name=name[:60], why=why)
    x = x if isinstance(x, np.ndarray) else np.asarray(x)
    kind = KIND_OF_DTYPE.get(x.dtype)
    if kind is not None and not is_masked(x):
        content = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        return _StoredBytes(plain_array(name, kind, x.shape), content)
    # 4-bit elements are packed; all other types are rejected, with the reason.
    return _of_memory(name, memory_of(x, f"save: {name[:60]}"))


def _of_memory(name: str, memory: Memory) -> _StoredBytes:
    desc = memory.desc
    array = array_of(name, desc)
    data = memory.data
    if data is None:
        memory.physical()  # raises, because there is none
        return _StoredBytes(array, np.empty(0, np.uint8))
    content = data.view(np.uint8)
    if not is_dense(desc) and desc.is_injective():
        # Bytes between the elements belong to something else and must not be saved.
        content = np.zeros(extent(desc).high, np.uint8)
        reorder(memory, None, out=Memory(desc, _CPU, content))
    return _StoredBytes(array, content[: array.nbytes])
