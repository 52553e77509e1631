"""Arrays of Zarr as the tensors of a file: a folder with an array, or with groups of them.

Arrays are read and written in boxes, by Zarr's own library: it knows the codecs. What is written is Zarr v3,
uncompressed, a chunk for each tile of the conversion. Elements that Zarr has no type for are unsigned
integers as wide, two of 4 bits in a byte; the attributes of an array say what it holds, under the key
`restride`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...errors import Error, refuse
from ...runtime.alloc import Array
from ..conversion.tiles import Ints
from ..element_kinds import KINDS, ElementKind, kind_of_dtype
from ..physical_boxes import physical_box
from ..plain_file import FileState, check_link
from ..stored_tensors import (
    KEY,
    Contents,
    StoredTensor,
    annotated,
    plain_array,
)
from ..writing.replacement import shown, system_error
from .boxes import read_box, write_box
from .chunk_files import part_files

_HEADS = ("zarr.json", ".zarray", ".zgroup")
_MOST_ARRAYS = 1 << 20
_NUMPY = frozenset(np.dtype(word) for word in ("?", *"bhilBHILefd", "F"))


def is_zarr(path: str) -> bool:
    """True for a folder that is an array or a group of Zarr."""
    return any(os.path.isfile(os.path.join(path, head)) for head in _HEADS)


def zarr_library(what: str) -> ModuleType:
    """The library. Raises InvalidArguments that says how to get it."""
    try:
        import zarr
    except ImportError:
        raise refuse("RS-C04:no-zarr", what=what) from None
    found: ModuleType = zarr
    return found


@dataclass(frozen=True, slots=True)
class ZarrPlace:
    """A tensor in an array of Zarr. `shape`: in elements of the tensor, of which two may share a byte."""

    array: Any
    path: str
    shape: Ints

    def read(self, desc: MemoryDesc, start: Ints, size: Ints, into: Array) -> None:
        """Fill `into` with a box. Raises InvalidArguments for damaged chunks, RuntimeFailure."""
        box = self._box(desc, start, size)
        files = part_files(self.array)
        if files is not None:
            ends = [part.indices(n)[:2] for part, n in zip(box, self.array.shape, strict=True)]
            extents = tuple(last - first for first, last in ends)
            files.gather(tuple(first for first, _ in ends), extents, into.view(files.dtype).reshape(extents))
            return
        values = read_box(self.array, box, self.path)
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        into[:] = np.ascontiguousarray(little).reshape(-1).view(np.uint8)

    def write(self, desc: MemoryDesc, start: Ints, size: Ints, content: Array) -> None:
        """Put a box there, which is whole chunks. Raises RuntimeFailure where the system refuses."""
        box = self._box(desc, start, size)
        extents = tuple(len(range(n)[part]) for part, n in zip(box, self.array.shape, strict=True))
        write_box(self.array, box, content.view(self.array.dtype).reshape(extents), self.path)

    def first_place(self, desc: MemoryDesc, start: Ints, size: Ints) -> Ints:
        """The first place of a box along each axis of the array, in elements of the tensor."""
        physical = physical_box(desc, self.shape, start, size)
        return (0,) * len(self.shape) if physical is None else tuple(first for first, _ in physical)

    def _box(self, desc: MemoryDesc, start: Ints, size: Ints) -> tuple[slice, ...]:
        """The box of the array that holds a box of the tensor; all of it where that is no box."""
        physical = physical_box(desc, self.shape, start, size)
        if physical is None:
            return tuple(slice(None) for _ in self.array.shape)
        *outer, last = physical
        shared = self.shape[-1] // max(self.array.shape[-1], 1)
        return (*(slice(*part) for part in outer), slice(last[0] // shared, -(-last[1] // shared)))


# --- reading ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ZarrFolder:
    """An array or a group that is read: its contents, and a hash by which a change is noticed."""

    name: str
    path: str
    contents: Contents
    arrays: Mapping[str, Any]
    state: str
    is_one_array: bool
    index: None = None

    @property
    def tensors(self) -> tuple[StoredTensor, ...]:
        """The arrays."""
        return self.contents.tensors

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells this source from another, or from itself after a change."""
        return (self.name, self.state)

    @property
    def is_changed(self) -> bool:
        """True where a file of the folder is no longer what it was."""
        try:
            return tree_state(self.path) != self.state
        except OSError:
            return True

    def place(self, tensor: StoredTensor) -> ZarrPlace:
        """Where a tensor is read."""
        return ZarrPlace(self.arrays[tensor.array.name], self.path, tensor.array.shape)

    def close(self) -> None:
        """Nothing is held open."""


def tree_state(folder: str) -> str:
    """A hash of names, lengths and times of all files of a folder."""
    digest = hashlib.sha256()
    for name, entry in sorted(_files(folder, "")):
        facts = (name, *FileState.of(entry))
        digest.update(repr(facts).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(folder: str, below: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(os.path.join(folder, below)) as entries:
        for entry in entries:
            name = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                yield from _files(folder, name)
            else:
                found = entry.stat(follow_symlinks=False)
                mode = _mode_behind(entry.path) if entry.is_symlink() else found.st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    # To read it might wait forever.
                    raise refuse("RS-F01:pipe-device-broken", path=shown(entry.path))
                yield name, found


def _mode_behind(link: str) -> int:
    """What a link leads to; 0 for nothing."""
    try:
        return os.stat(link).st_mode
    except OSError:
        return 0


def check_links(folder: str) -> None:
    """Refuse links that lead out of the folder. Raises InvalidArguments that names one."""
    for here, folders, files in os.walk(folder):
        for path in (os.path.join(here, name) for name in (*folders, *files)):
            if os.path.islink(path):
                check_link(folder, path)


def open_zarr(path: str, *, follow_links: bool = False) -> ZarrFolder:
    """The arrays in a folder. Raises InvalidArguments for damaged metadata and links that lead out of it."""
    zarr = zarr_library(f"cannot read {shown(path)}")
    try:
        if not follow_links:
            check_links(path)
        state = tree_state(path)
        node = zarr.open(path, mode="r")
        arrays, attributes, groups = _members(zarr, node, path)
    except (Error, MemoryError):
        raise
    except OSError as error:
        raise system_error("read", path, error) from None
    except Exception as error:  # whatever the library says of metadata
        raise refuse(
            "RS-F01:damaged", path=shown(path), why=str(error)[:200] or type(error).__name__
        ) from None
    note = attributes.pop(KEY, None)
    order = note.get("order") if isinstance(note, dict) else None
    names = sorted(arrays)
    if isinstance(order, list) and sorted(map(str, order)) == names:
        names = [str(name) for name in order]
    known = frozenset(names)
    tensors = tuple(_tensor(path, name, arrays[name], known) for name in names)
    return ZarrFolder(
        os.path.basename(path),
        path,
        Contents(tensors, attributes, groups=groups),
        arrays,
        state,
        isinstance(node, zarr.Array),
    )


def _members(
    zarr: ModuleType, found: Any, path: str
) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
    """The arrays by their names, the attributes of the group, and those of groups in it that have some."""
    if isinstance(found, zarr.Array):
        return {"x": found}, {}, {}
    members = dict(found.members(max_depth=None))
    arrays = {name: one for name, one in members.items() if isinstance(one, zarr.Array)}
    if len(arrays) > _MOST_ARRAYS:
        raise refuse("RS-F01:holds-arrays", path=shown(path), count=len(arrays))
    groups = {name: dict(one.attrs.asdict()) for name, one in members.items() if name not in arrays}
    said = {name: attributes for name, attributes in groups.items() if attributes}
    return arrays, dict(found.attrs.asdict()), said


def _tensor(path: str, name: str, array: Any, names: frozenset[str]) -> StoredTensor:
    attributes = dict(array.attrs.asdict())
    note = attributes.pop(KEY, {})
    if not isinstance(note, dict):
        raise refuse("RS-F01:array-note-no-object", path=shown(path), name=name[:60])
    kind = _kind(path, name, array.dtype, note.get("kind"))
    shape, chunks = (tuple(int(n) for n in one) for one in (array.shape, array.shards or array.chunks))
    if kind.bits == 4:
        shape, chunks = ((*one[:-1], 2 * one[-1]) for one in (shape, chunks))
    if prod(shape) * kind.bits >= 2**66:
        raise refuse("RS-F01:shape-2-63", path=shown(path), name=name[:60])
    words = {key: value for key, value in note.items() if key in ("desc", "scaling")}
    found = annotated(path, plain_array(name, kind, shape), words, names)
    unknown = {"attributes": attributes, "dimension_names": _axis_names(array)}
    found = replace(found, unknown={word: value for word, value in unknown.items() if value})
    whole = 0 if part_files(array) is not None else prod(array.chunks) * array.dtype.itemsize
    return StoredTensor(found, path, 0, chunks, whole)


def _axis_names(array: Any) -> list[str | None]:
    """The names of the axes; empty where they have none."""
    names = list(getattr(array.metadata, "dimension_names", None) or ())
    return names if any(name is not None for name in names) else []


def _kind(path: str, name: str, dtype: np.dtype[Any], word: object) -> ElementKind:
    """The kind of the elements: what the attributes say, where that is as wide as the type of the array."""
    if dtype.kind not in "biufcV":
        raise refuse("RS-F01:elements-not-known", path=shown(path), name=name[:60], dtype=dtype)
    little = np.dtype(dtype).newbyteorder("<")
    element_kind = kind_of_dtype(little)
    if word is not None:
        element_kind = KINDS.get(word) if isinstance(word, str) else None
        if element_kind is not None and stored_dtype(element_kind) != little:
            element_kind = None
    if element_kind is not None and (word is None or little.kind == "u"):
        return element_kind
    raise refuse("RS-F01:elements-not-known", path=shown(path), name=name[:60], dtype=dtype)


# --- what is written -------------------------------------------------------------------------------------


def stored_dtype(kind: ElementKind) -> np.dtype[Any] | None:
    """The type that elements have in Zarr; None where they cannot be there."""
    if kind.numpy in _NUMPY:
        return kind.numpy
    if kind.block == 1 and kind.bits in (4, 8, 16):
        return np.dtype(f"u{max(kind.bits // 8, 1)}")
    return None


def stored_shape(kind: ElementKind, shape: Ints) -> Ints:
    """The shape in Zarr: two elements of 4 bits are one byte."""
    return (*shape[:-1], -(-shape[-1] // 2)) if kind.bits == 4 else shape
