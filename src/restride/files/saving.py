"""`rs.save` and `rs.load`: tensors to files and back, with every layout and type, mapped when loaded."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..arrays import reorder
from ..block_scales import QuantizedTensor
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import short_repr
from ..dtypes import DataType
from ..errors import InvalidArguments
from ..foreign import plain_text
from ..frontend.tensors import as_numpy
from ..runtime.alloc import Array, extent
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.transfer import settle, to_host
from .draft import Draft, DraftFile, Origin
from .elements import kind_of_dtype
from .image import PIECE
from .kinds import image_maker, is_zarr_name
from .opening import bad_file
from .reading import tensor_file
from .stored import Scaling, StoredArray, StoredTensor, array_of, is_dense, plain_array
from .whole import Replacement, system_error
from .zarr_arrays import is_zarr, open_zarr
from .zarr_image import zarr_image

__all__ = ["load", "save"]

_CPU = Engine("cpu")


class _Prepared(NamedTuple):
    """A tensor to be written: its array, and its bytes."""

    array: StoredArray
    content: Array


def save(tensors: Any, path: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None) -> None:
    """Write a tensor, or a dict of them by name, to a file: .npy, .npz, .safetensors, .gguf or .zarr by the
    end of `path`.

    A `Memory` is written as it lies, whatever its layout and type; the file is plain to every other program,
    whose array is the physical one, and tells `rs.load` the descriptor. An array of NumPy, torch or JAX is
    written row-major, a `QuantizedTensor` in its parts. One tensor is called "x" in files of several.
    `metadata`: text by name, for .safetensors, .gguf and .zarr.

    The file appears whole under its name or not at all. Raises InvalidArguments for values that are no
    tensors, Unimplemented for what the format cannot hold, RuntimeFailure where the system refuses.

    >>> import numpy as np, restride as rs, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> rs.save({"w": rs.Memory.from_numpy(np.ones((2, 3), "f4")).to("AB16b4a"), "n": np.int64([7])}, path)
    >>> loaded = rs.load(path)
    >>> loaded["w"].desc.tag, loaded["n"].tolist()
    ('AB16b4a', [7])
    """
    name = _path_text("save", path)
    make = None if is_zarr_name(name) else image_maker(name)
    prepared = [part for key, value in _by_name(tensors).items() for part in _parts(key, value)]
    _check_names([part.array.name for part in prepared])
    if make is None:
        _save_zarr(name, prepared, {} if metadata is None else metadata)
        return
    image = make([one.array for one in prepared], {} if metadata is None else metadata)
    with Replacement(name).open(image.nbytes) as file:
        handle = file.fileno()
        for start, piece in image.pieces:
            write_at(handle, memoryview(piece), start)
        for start, one in zip(image.starts, prepared, strict=True):
            write_at(handle, one.content.data, start)
        if image.finish is not None:
            image.finish(handle)


def load(path: str | os.PathLike[str]) -> Any:
    """The tensors of a file, mapped: nothing is read before it is used, and all are read-only. Arrays of Zarr
    are read as a whole, compressed .npz files are expanded into a temporary file without a name.

    A `Memory` of a .npy file, else a dict of them by name; a `QuantizedTensor` of what is quantised in
    groups. What restride has no data type for, or has no axes, is an array of NumPy. The file must not be
    changed or cut while it is mapped. Raises InvalidArguments for
    a damaged file, RuntimeFailure where the system refuses.

    >>> import numpy as np, restride as rs, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> rs.save(rs.Memory.from_numpy(np.ones((1, 3, 2, 2), "f4")).to("nChw16c"), path)
    >>> rs.load(path).desc.padded_dims
    (1, 16, 2, 2)
    """
    name = _path_text("load", path)
    if is_zarr(name):
        return _load_zarr(name)
    stored = tensor_file(name)
    with stored.file as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise system_error("map", name, error) from None
    whole = np.frombuffer(mapped, np.uint8)
    found = _with_scales({tensor.array.name: (tensor, whole) for tensor in stored.contents.tensors}, name)
    is_single = len(found) == 1 and name.lower().endswith(".npy")
    return next(iter(found.values())) if is_single else found


def _load_zarr(path: str) -> Any:
    """The arrays in a folder, read whole: chunks are no tensors as they lie."""
    folder = open_zarr(path)
    tensors: dict[str, tuple[StoredTensor, Array]] = {}
    for tensor in folder.tensors:
        content = np.empty(tensor.array.nbytes, np.uint8)
        if content.size:
            desc = _as_whole(tensor.array)
            folder.place(tensor).read(desc, (0,) * desc.ndims, desc.dims, content)
        content.flags.writeable = False
        tensors[tensor.array.name] = (tensor, content)
    found = _with_scales(tensors, path)
    return next(iter(found.values())) if folder.is_one_array else found


def _save_zarr(path: str, prepared: Sequence[_Prepared], metadata: Mapping[str, str]) -> None:
    """A group of arrays, whole under its name or not at all."""
    image = zarr_image([one.array for one in prepared], metadata)
    draft = Draft(path, is_folder=True)
    try:
        draft.open([DraftFile(".", image)], Origin("", ""), resume=False)
        for start, one in zip(image.starts, prepared, strict=True):
            if one.content.size:
                desc = _as_whole(one.array)
                draft.place(0, start).write(desc, (0,) * desc.ndims, desc.dims, one.content)
        draft.complete()
        draft.publish()
    except BaseException:
        draft.abandon(keep=False)
        raise


def _as_whole(array: StoredArray) -> MemoryDesc:
    """By which all of an array is read or written at once."""
    return array.moved_as or MemoryDesc((array.nbytes,), DataType.u8)


def _with_scales(tensors: dict[str, tuple[StoredTensor, Array]], path: str) -> dict[str, Any]:
    """All tensors over their bytes; those that are quantised in groups together with their scales."""
    found: dict[str, Any] = {name: tensor_over(*one) for name, one in tensors.items()}
    for name, (tensor, _) in tensors.items():
        told = tensor.array.scaling
        if told is None or not told.groups:
            continue
        values, scale = found[name], found.get(told.scale)
        zero, minimum = (None if not part else found.get(part) for part in (told.zero_point, told.minimum))
        whole = 1.0 if not told.tensor_scale else _one_number(path, found.get(told.tensor_scale))
        if not isinstance(values, Memory) or not isinstance(scale, Memory):
            raise bad_file(path, f"the scales of {name[:60]!r} are no scales", "write the file again")
        extents = tuple(n // group for n, group in zip(values.desc.dims, told.groups, strict=False))
        is_misfit = not all(part is None or isinstance(part, Memory) for part in (zero, minimum))
        if scale.desc.dims != extents or is_misfit:
            raise bad_file(path, f"the scales of {name[:60]!r} are of other groups", "write the file again")
        if minimum is not None and minimum.desc.dims != extents:
            raise bad_file(path, f"the minima of {name[:60]!r} are of other groups", "write the file again")
        found[name] = QuantizedTensor(values, scale, zero, whole, minimum)
    told_parts = (tensor.array.scaling for tensor, _ in tensors.values())
    absorbed = {part for told in told_parts if told is not None and told.groups for part in told.parts}
    return {name: one for name, one in found.items() if name not in absorbed}


def _one_number(path: str, found: object) -> float:
    if isinstance(found, Memory) and found.desc.nelems == 1 and found.desc.data_type is DataType.f32:
        return float(found.to_numpy().reshape(-1)[0])
    raise bad_file(path, "the scale of a whole tensor is no number", "write the file again")


def tensor_over(tensor: StoredTensor, whole: Array) -> Memory | Array:
    """A stored tensor over the bytes of its file."""
    array = tensor.array
    content = whole[tensor.start : tensor.start + array.nbytes]
    if array.desc is not None and array.kind.data_type is not None:
        return Memory(array.desc, _CPU, content)
    if array.kind.numpy is None:
        return content
    if array.desc is not None:
        # In logical order: nothing of NumPy's says how blocks lie.
        return Memory(array.desc, _CPU, content).to_numpy().view(array.kind.numpy)
    return content.view(array.kind.numpy).reshape(array.shape)


def write_at(handle: int, content: memoryview, start: int) -> None:
    """Write all of it to the file from byte `start` on."""
    content = content.cast("B") if content.nbytes else memoryview(b"")
    at = 0
    while at < len(content):
        at += os.pwrite(handle, content[at : at + PIECE], start + at)


def _by_name(tensors: Any) -> dict[str, Any]:
    if not isinstance(tensors, Mapping):
        return {"x": tensors}
    strange = next((key for key in tensors if not isinstance(key, str)), None)
    if strange is not None:
        raise InvalidArguments(
            "save: a name is no text",
            code="RS-V08",
            where=short_repr(strange),
            why=f"it is {type(strange).__name__}",
            hint='pass a dict such as {"weight": w}',
        )
    return {plain_text(key): value for key, value in tensors.items()}


def _parts(name: str, value: Any) -> list[_Prepared]:
    """A tensor, or the parts of a quantised one: its elements, and its scales under names of their own."""
    if not isinstance(value, QuantizedTensor):
        return [_prepared(name, value)]
    parts: dict[str, Any] = {"scale": value.scale}
    besides = {"zero_point": value.zero_point, "minimum": value.minimum}
    parts |= {part: found for part, found in besides.items() if found is not None}
    if value.tensor_scale != 1.0:
        parts["tensor_scale"] = np.full((1,) * value.values.desc.ndims, value.tensor_scale, np.float32)
    names = {part: f"{name}_{part}" for part in parts}
    scale, zero, whole, minimum = (
        names.get(part, "") for part in ("scale", "zero_point", "tensor_scale", "minimum")
    )
    told = Scaling(scale, zero, None, value.groups, whole, minimum)
    values = _prepared(name, value.values)
    first = values._replace(array=replace(values.array, scaling=told))
    return [first, *(_prepared(names[part], found) for part, found in parts.items())]


def _check_names(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidArguments(
                f"save: two tensors are called {name[:60]!r}",
                code="RS-F03",
                why="scales are called after their tensor, with _scale, _zero_point, _minimum behind",
                hint="rename one of them",
            )
        seen.add(name)


def _prepared(name: str, value: Any) -> _Prepared:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArguments(
            f"save: the name {name[:60]!a} is no text",
            code="RS-V08",
            why="it holds half a character",
            hint="choose another name",
        ) from None
    if isinstance(value, Memory) and value:
        settle(value)
        return _of_memory(name, to_host(value))
    found = as_numpy(value, f"save: {name[:60]}")
    if not isinstance(found, np.ndarray | np.generic | int | float | bool):
        raise InvalidArguments(
            f"save: {name[:60]!r} is no tensor",
            code="RS-V08",
            why="it is an empty Memory" if isinstance(value, Memory) else f"it is {type(value).__name__}",
            hint="pass arrays or memories, or a dict of them",
        )
    return _of_array(name, np.asarray(found))


def _of_memory(name: str, memory: Memory) -> _Prepared:
    desc = memory.desc
    array = array_of(name, desc)
    data = memory.data
    if data is None:
        memory.physical()  # says that there is none
        return _Prepared(array, np.empty(0, np.uint8))
    content = data.view(np.uint8)
    if not is_dense(desc) and desc.is_injective():
        # What lies between the elements is not this tensor's: it is no one else's business.
        content = np.zeros(extent(desc).high, np.uint8)
        reorder(memory, None, out=Memory(desc, _CPU, content))
    return _Prepared(array, content[: array.nbytes])


def _of_array(name: str, x: Array) -> _Prepared:
    kind = kind_of_dtype(x.dtype)
    if kind is not None:
        content = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        return _Prepared(plain_array(name, kind, x.shape), content)
    # Elements of 4 bits are packed; all else is refused, with the reason.
    packed = reorder(x, None) if x.dtype.isbuiltin == 2 else Memory.from_numpy(x)
    return _of_memory(name, packed if isinstance(packed, Memory) else Memory.from_numpy(packed))


def _path_text(what: str, path: object) -> str:
    try:
        found = os.fspath(path)  # type: ignore[call-overload]
    except Exception:  # a foreign __fspath__ may raise anything
        found = None
    if isinstance(found, str):
        return found
    raise InvalidArguments(
        f"{what}: path is no name of a file",
        code="RS-V08",
        where=short_repr(path),
        why=f"it is {type(path).__name__}",
        hint=f'pass text: rs.{what}(..., "x.safetensors")' if what == "save" else 'rs.load("x.safetensors")',
    )
