"""Zarr arrays as the tensors of a file: a folder with an array, or with groups of arrays.

Arrays are read and written in boxes, by the Zarr library, which knows the codecs. Output is Zarr v3,
uncompressed, with one chunk for each tile of the conversion. Elements that Zarr has no type for are stored as
unsigned integers of the same width, two 4-bit elements to a byte; the attributes of an array describe its
content, under the key `restride`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...errors import Error, refuse
from ...runtime.alloc import Array
from ..conversion.tiles import Ints, physical_box, runs_of
from ..plain_file import FileState, check_link
from ..stored_tensors import (
    KEY,
    KIND_OF_DTYPE,
    KINDS,
    VERSION,
    Contents,
    ElementKind,
    StoredArray,
    StoredTensor,
    annotate,
    is_row_major,
    name_bytes,
    note_of,
    plain_array,
)
from ..writing.replacement import UnsafeFiles, check_owner, files_below, shown, sync_file, system_error
from .chunk_files import chunk_paths, part_files, read_box, write_box

ZARR_END = ".zarr"
_MOST_NAME = 255
# Chunk size for arrays saved at once.
_CHUNK = 32 << 20
_HEADS = ("zarr.json", ".zarray", ".zgroup")
_MOST_ARRAYS = 1 << 20
_NUMPY = frozenset(np.dtype(word) for word in ("?", *"bhilBHILefd", "F"))


def is_zarr(path: str) -> bool:
    """Return True for a folder that is a Zarr array or group."""
    return any(os.path.isfile(os.path.join(path, head)) for head in _HEADS)


def zarr_library(what: str) -> ModuleType:
    """Return the Zarr library. Raises InvalidArguments with installation instructions."""
    try:
        import zarr
    except ImportError:
        raise refuse("RS-C04:no-zarr", what=what) from None
    library: ModuleType = zarr
    return library


@dataclass(frozen=True, slots=True)
class ZarrPlace:
    """A tensor in a Zarr array. `shape`: in elements of the tensor, of which two may share a byte; `unsafe`:
    records the chunks that are written.
    """

    array: Any
    path: str
    shape: Ints
    unsafe: UnsafeFiles | None = None

    def read(self, desc: MemoryDesc, start: Ints, size: Ints, into: Array) -> None:
        """Fill `into` with a box. Raises InvalidArguments for damaged chunks, RuntimeFailure."""
        if size != desc.dims and physical_box(desc, self.shape, start, size) is None:
            # Elements that share bytes and have no type name: the array is read as a whole.
            whole, runs = np.empty(desc.size, np.uint8), runs_of(desc, start, size)
            self.read(desc, (0,) * desc.ndims, desc.dims, whole)
            into.reshape(-1, runs.nbytes)[:] = whole[runs.starts[:, None] + np.arange(runs.nbytes)]
            return
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
        """Write a box, which is whole chunks. Raises RuntimeFailure if the system refuses access."""
        box = self._box(desc, start, size)
        extents = tuple(len(range(n)[part]) for part, n in zip(box, self.array.shape, strict=True))
        write_box(self.array, box, content.view(self.array.dtype).reshape(extents), self.path)
        if self.unsafe is not None:
            self.unsafe.add(chunk_paths(self.array, box))

    def _box(self, desc: MemoryDesc, start: Ints, size: Ints) -> tuple[slice, ...]:
        """Return the array's box that contains a box of the tensor, or all of it if that is not a box."""
        physical = physical_box(desc, self.shape, start, size)
        if physical is None:
            return tuple(slice(None) for _ in self.array.shape)
        *outer, last = physical
        shared = self.shape[-1] // max(self.array.shape[-1], 1)
        return (*(slice(*part) for part in outer), slice(last[0] // shared, -(-last[1] // shared)))


# --- reading ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ZarrFolder:
    """An array or a group that is read: its contents, and a hash for detecting changes."""

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
        """Facts that differ for another source, and for this one after a change."""
        return (self.name, self.state)

    @property
    def is_changed(self) -> bool:
        """Return True if a file of the folder has changed."""
        try:
            return tree_state(self.path) != self.state
        except OSError:
            return True

    def place(self, tensor: StoredTensor) -> ZarrPlace:
        """Return the place of a tensor in its array."""
        return ZarrPlace(self.arrays[tensor.array.name], self.path, tensor.array.shape)

    def close(self) -> None:
        """Do nothing: no file is held open."""


def tree_state(folder: str) -> str:
    """Return a hash of names, lengths and times of all files of a folder."""
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
                if not (os.path.isfile(entry.path) or os.path.isdir(entry.path)):
                    # A dangling link, or a file whose reading might block forever.
                    raise refuse("RS-F01:pipe-device-broken", path=shown(entry.path))
                yield name, entry.stat(follow_symlinks=False)


def open_zarr(path: str, *, follow_links: bool = False) -> ZarrFolder:
    """Open the arrays in a folder. Raises InvalidArguments for damaged metadata and links that lead out."""
    zarr = zarr_library(f"cannot read {shown(path)}")
    try:
        for here, folders, files in () if follow_links else os.walk(path):
            for name in (*folders, *files):
                if os.path.islink(os.path.join(here, name)):
                    check_link(path, os.path.join(here, name))
        state = tree_state(path)
        node = zarr.open(path, mode="r")
        is_one_array = isinstance(node, zarr.Array)
        members = {"x": node} if is_one_array else dict(node.members(max_depth=None))
        arrays = {name: one for name, one in members.items() if isinstance(one, zarr.Array)}
        if len(arrays) > _MOST_ARRAYS:
            raise refuse("RS-F01:holds-arrays", path=shown(path), count=len(arrays))
        attributes = {} if is_one_array else dict(node.attrs.asdict())
        groups = {
            name: dict(one.attrs.asdict())
            for name, one in members.items()
            if name not in arrays and one.attrs.asdict()
        }
    except (Error, MemoryError):
        raise
    except OSError as error:
        raise system_error("read", path, error) from None
    except Exception as error:  # any error of the library about metadata
        raise refuse(
            "RS-F01:damaged", path=shown(path), why=str(error)[:200] or type(error).__name__
        ) from None
    note = attributes.pop(KEY, None)
    order = note.get("order") if isinstance(note, dict) else None
    names = sorted(arrays)
    if isinstance(order, list) and sorted(map(str, order)) == names:
        names = [str(name) for name in order]
    all_names = frozenset(names)
    tensors = tuple(_tensor(path, name, arrays[name], all_names) for name in names)
    return ZarrFolder(
        os.path.basename(path),
        path,
        Contents(tensors, attributes, groups=groups),
        arrays,
        state,
        is_one_array,
    )


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
    axis_names = list(getattr(array.metadata, "dimension_names", None) or ())
    unknown = {
        "attributes": attributes,
        "dimension_names": axis_names if any(axis is not None for axis in axis_names) else [],
    }
    unknown = {word: value for word, value in unknown.items() if value}
    stored_array = replace(annotate(path, plain_array(name, kind, shape), words, names), unknown=unknown)
    whole = 0 if part_files(array) is not None else prod(array.chunks) * array.dtype.itemsize
    return StoredTensor(stored_array, path, 0, chunks, whole)


def _kind(path: str, name: str, dtype: np.dtype[Any], word: object) -> ElementKind:
    """Return the kind of the elements: as in the attributes, if that has the width of the array's type."""
    little = np.dtype(dtype).newbyteorder("<") if dtype.kind in "biufcV" else dtype
    kind = KIND_OF_DTYPE.get(little)
    if word is not None:
        # Elements without a Zarr type are unsigned integers.
        kind = KINDS.get(word) if isinstance(word, str) and little.kind == "u" else None
        kind = kind if kind is not None and stored_dtype(kind) == little else None
    if kind is None:
        raise refuse("RS-F01:elements-not-known", path=shown(path), name=name[:60], dtype=dtype)
    return kind


# --- writing ---------------------------------------------------------------------------------------------


def stored_dtype(kind: ElementKind) -> np.dtype[Any] | None:
    """Return the type of elements in Zarr; None if it cannot store them."""
    if kind.numpy in _NUMPY:
        return kind.numpy
    if kind.block == 1 and kind.bits in (4, 8, 16):
        return np.dtype(f"u{max(kind.bits // 8, 1)}")
    return None


def stored_shape(kind: ElementKind, shape: Ints) -> Ints:
    """Return the shape in Zarr: two 4-bit elements are one byte."""
    return (*shape[:-1], -(-shape[-1] // 2)) if kind.bits == 4 else shape


@dataclass(frozen=True, slots=True)
class ZarrImage:
    """A group for `arrays`, in chunks of these extents. `starts`: the number of each array. `groups`:
    attributes of groups in it, by name.
    """

    arrays: tuple[StoredArray, ...]
    chunks: tuple[Ints, ...]
    attributes: Mapping[str, Any]
    groups: Mapping[str, Mapping[str, Any]]

    @property
    def starts(self) -> tuple[int, ...]:
        """The numbers by which the part of a draft identifies an array."""
        return tuple(range(len(self.arrays)))

    @property
    def nbytes(self) -> int:
        """The size of all arrays; the metadata are small."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def digest(self) -> str:
        """A hash of everything except the elements."""
        facts = [(array.name, array.kind.word, array.shape, note_of(array)) for array in self.arrays]
        about = (facts, self.chunks, dict(self.attributes), dict(self.groups))
        return hashlib.sha256(repr(about).encode()).hexdigest()


def zarr_image(
    arrays: Sequence[StoredArray],
    metadata: Mapping[str, Any],
    chunks: Sequence[Ints] | None = None,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
) -> ZarrImage:
    """Return the group of these arrays. Raises Unimplemented for elements that cannot be stored,
    InvalidArguments for names that a node cannot have.
    """
    zarr_library("cannot write arrays of Zarr")
    for array in arrays:
        if stored_dtype(array.kind) is None:
            raise refuse("RS-F03:array-zarr", word=array.kind.word, name=array.name)
    names = [array.name for array in arrays]
    _check_names(names)
    shapes = [_usual_chunk(array) for array in arrays] if chunks is None else chunks
    attributes = {**metadata, KEY: {"version": VERSION, "order": names}}
    apart = {name: about for name, about in (groups or {}).items() if name not in names}
    return ZarrImage(tuple(arrays), tuple(shapes), attributes, apart)


def _usual_chunk(array: StoredArray) -> Ints:
    """Return extents of at most about 32 MB, split along the first axes."""
    extents = list(array.shape)
    for axis, n in enumerate(extents):
        nbytes = array.kind.nbytes(tuple(extents))
        if nbytes <= _CHUNK:
            break
        extents[axis] = max(n * _CHUNK // nbytes, 1)
    return tuple(extents)


def _check_names(names: Sequence[str]) -> None:
    """Check names, which become folders: none may lead elsewhere, or be inside an array."""
    paths = set(names)
    for name in names:
        parts = name.split("/")
        inside = next(("/".join(parts[:n]) for n in range(1, len(parts)) if "/".join(parts[:n]) in paths), "")
        if inside:
            raise refuse("RS-F03:name-in-array", name=name[:120], inside=inside[:60])
        if not all(_is_folder_name(part) for part in parts):
            raise refuse("RS-F03:no-folder-name", name=name[:120])


def _is_folder_name(part: str) -> bool:
    is_special = part in ("", ".", "..", "zarr.json") or part.startswith("__")
    return not (is_special or "\0" in part or "\\" in part) and len(name_bytes(part)) <= _MOST_NAME


def _attributes_of(array: StoredArray) -> dict[str, Any]:
    """Return the attributes of an array, including its layout and its elements."""
    unknown, words = array.unknown.get("attributes"), note_of(array)
    if stored_dtype(array.kind) != array.kind.numpy:
        words["kind"] = array.kind.word
    attributes = dict(unknown) if isinstance(unknown, dict) else {}
    return {**attributes, KEY: {"version": VERSION, **words}} if words else attributes


def _axis_names_of(array: StoredArray) -> list[str | None] | None:
    """Return the names of the axes, if the array has them in the tensor's order."""
    names = array.unknown.get("dimension_names")
    is_plain = array.desc is None or (is_row_major(array.desc) and array.shape == array.desc.dims)
    if not isinstance(names, list) or not names or len(names) != len(array.shape) or not is_plain:
        return None
    return names if all(isinstance(name, str | None) for name in names) else None


class ZarrPart:
    """A group of a draft, open for writing; a new one with empty arrays, or an existing one.

    Raises FileNotFoundError if an existing one is not as expected, RuntimeFailure if it has another owner.
    All other system errors are raised unchanged.
    """

    def __init__(self, path: str, label: str, image: ZarrImage, *, is_new: bool) -> None:
        self._path, self._label, self._image = path, label, image
        # Chunks that are not flushed to disk yet.
        self._unsafe = UnsafeFiles()
        zarr = zarr_library(f"cannot write {shown(label)}")
        if is_new:
            group = zarr.open_group(path, mode="w-", attributes=dict(image.attributes))
            self._arrays = [_create(group, *pair) for pair in zip(image.arrays, image.chunks, strict=True)]
            for name, attributes in image.groups.items():
                group.require_group(name).update_attributes(dict(attributes))
            return
        check_owner(label, os.lstat(path), is_folder=True)
        try:
            group = zarr.open_group(path, mode="r+")
            self._arrays = [group[array.name] for array in image.arrays]
        except OSError:
            raise
        except Exception:  # any error of the library about metadata
            raise FileNotFoundError from None
        for array, node in zip(image.arrays, self._arrays, strict=True):
            if node.shape != stored_shape(array.kind, array.shape):
                raise FileNotFoundError
        self._unsafe.add(files_below(path))

    def place(self, start: int) -> ZarrPlace:
        """Return the place of an array, by its number."""
        return ZarrPlace(self._arrays[start], self._label, self._image.arrays[start].shape, self._unsafe)

    def make_safe(self) -> None:
        """Flush to disk what was written."""
        self._unsafe.make_safe()

    def complete(self) -> None:
        """Flush everything to disk, and remove temporary files that a killed process has left."""
        for path in files_below(self._path):
            if path.endswith(".partial"):
                os.unlink(path)
            else:
                sync_file(path)

    def forget_cached(self) -> None:
        """Do nothing: reads come from wherever the system has the data."""

    def close(self) -> None:
        """Do nothing: no file is held open."""


def _create(group: Any, array: StoredArray, chunk: Ints) -> Any:
    """Create an array of a group, without chunks."""
    return group.create_array(
        array.name,
        shape=stored_shape(array.kind, array.shape),
        chunks=tuple(max(n, 1) for n in stored_shape(array.kind, chunk)),
        dtype=stored_dtype(array.kind),
        compressors=None,
        filters=None,
        attributes=_attributes_of(array),
        dimension_names=_axis_names_of(array),
    )
