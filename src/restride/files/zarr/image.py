"""What is written of arrays of Zarr: a folder with a group, and a chunk for each tile of a conversion."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...desc.memory_desc import MemoryDesc
from ...errors import refuse
from ...runtime.alloc import Array
from ..conversion.tiles import Ints
from ..stored_tensors import KEY, VERSION, StoredArray, is_row_major, name_bytes, note_of
from ..writing.replacement import shown
from ..writing.safe_files import UnsafeFiles, sync_file
from .arrays import ZarrPlace, stored_dtype, stored_shape, zarr_library

ZARR_END = ".zarr"
_MOST_NAME = 255
# A chunk of what is saved in one go.
_CHUNK = 32 << 20


@dataclass(frozen=True, slots=True)
class ZarrImage:
    """A group that will hold `arrays`, in chunks of these extents. `starts`: the number of each array.
    `groups`: attributes of groups in it, by name.
    """

    arrays: tuple[StoredArray, ...]
    chunks: tuple[Ints, ...]
    attributes: Mapping[str, Any]
    groups: Mapping[str, Mapping[str, Any]]

    @property
    def starts(self) -> tuple[int, ...]:
        """By which the part of a draft knows an array."""
        return tuple(range(len(self.arrays)))

    @property
    def nbytes(self) -> int:
        """Of all arrays; the metadata are small."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def digest(self) -> str:
        """A hash of all but the elements."""
        facts = [(array.name, array.kind.word, array.shape, note_of(array)) for array in self.arrays]
        about = (facts, self.chunks, dict(self.attributes), dict(self.groups))
        return hashlib.sha256(repr(about).encode()).hexdigest()


def zarr_image(
    arrays: Sequence[StoredArray],
    metadata: Mapping[str, Any],
    chunks: Sequence[Ints] | None = None,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
) -> ZarrImage:
    """The group of these arrays. Raises Unimplemented for elements that cannot be there, InvalidArguments for
    names that no node can have.
    """
    zarr_library("cannot write arrays of Zarr")
    for array in arrays:
        if stored_dtype(array.kind) is None:
            raise refuse("RS-F03:array-zarr", word=array.kind.word, name=array.name)
    names = [array.name for array in arrays]
    _check_names(names)
    shapes = [_usual_chunk(array) for array in arrays] if chunks is None else chunks
    said = {**metadata, KEY: {"version": VERSION, "order": names}}
    apart = {name: about for name, about in (groups or {}).items() if name not in names}
    return ZarrImage(tuple(arrays), tuple(shapes), said, apart)


def _usual_chunk(array: StoredArray) -> Ints:
    """Extents of at most some 32 MB, cut along the first axes."""
    extents = list(array.shape)
    for axis, n in enumerate(extents):
        nbytes = array.kind.nbytes(tuple(extents))
        if nbytes <= _CHUNK:
            break
        extents[axis] = max(n * _CHUNK // nbytes, 1)
    return tuple(extents)


def _check_names(names: Sequence[str]) -> None:
    """Names become folders: none may lead elsewhere, or lie in an array."""
    known = set(names)
    for name in names:
        parts = name.split("/")
        fits = all(
            part and part not in (".", "..") and not part.startswith("__") and _is_short(part)
            for part in parts
        )
        inside = next(("/".join(parts[:n]) for n in range(1, len(parts)) if "/".join(parts[:n]) in known), "")
        if fits and not inside:
            continue
        if inside:
            raise refuse("RS-F03:name-in-array", name=name[:120], inside=inside[:60])
        raise refuse("RS-F03:no-folder-name", name=name[:120])


def _is_short(part: str) -> bool:
    is_printed = "\0" not in part and "\\" not in part and part != "zarr.json"
    return is_printed and len(name_bytes(part)) <= _MOST_NAME


def _attributes_of(array: StoredArray) -> dict[str, Any]:
    """The attributes of an array, with what they say of its layout and its elements."""
    kept, words = array.unknown.get("attributes"), note_of(array)
    if stored_dtype(array.kind) != array.kind.numpy:
        words["kind"] = array.kind.word
    said = dict(kept) if isinstance(kept, dict) else {}
    return {**said, KEY: {"version": VERSION, **words}} if words else said


def _axis_names_of(array: StoredArray) -> list[str | None] | None:
    """The names of the axes, where the array has them in the order of the tensor's."""
    dimension_names = array.unknown.get("dimension_names")
    names = dimension_names if isinstance(dimension_names, list) else []
    is_plain = array.desc is None or (is_row_major(array.desc) and array.shape == array.desc.dims)
    if (
        names
        and len(names) == len(array.shape)
        and is_plain
        and all(isinstance(name, str | None) for name in names)
    ):
        return names
    return None


class ZarrPart:
    """A group of a draft, open for writing. What is written since it was last made safe is remembered."""

    def __init__(self, path: str, label: str, arrays: Sequence[Any], image: ZarrImage) -> None:
        self._path, self._label, self._arrays, self._image = path, label, arrays, image
        self._unsafe = UnsafeFiles()

    @classmethod
    def create(cls, path: str, label: str, image: ZarrImage) -> ZarrPart:
        """Make the group, with arrays of no chunks."""
        zarr = zarr_library(f"cannot write {shown(label)}")
        group = zarr.open_group(path, mode="w-", attributes=dict(image.attributes))
        arrays = []
        for array, chunk in zip(image.arrays, image.chunks, strict=True):
            shape = stored_shape(array.kind, array.shape)
            arrays.append(
                group.create_array(
                    array.name,
                    shape=shape,
                    chunks=tuple(max(n, 1) for n in stored_shape(array.kind, chunk)),
                    dtype=stored_dtype(array.kind),
                    compressors=None,
                    filters=None,
                    attributes=_attributes_of(array),
                    dimension_names=_axis_names_of(array),
                )
            )
        for name, attributes in image.groups.items():
            group.require_group(name).update_attributes(dict(attributes))
        return cls(path, label, arrays, image)

    @classmethod
    def open(cls, path: str, label: str, image: ZarrImage) -> ZarrPart:
        """Take the group up that is there. Raises FileNotFoundError where it is not what it must be."""
        zarr = zarr_library(f"cannot write {shown(label)}")
        try:
            group = zarr.open_group(path, mode="r+")
            arrays = [group[array.name] for array in image.arrays]
        except OSError:
            raise
        except Exception:  # whatever the library says of metadata
            raise FileNotFoundError from None
        for array, found in zip(image.arrays, arrays, strict=True):
            if found.shape != stored_shape(array.kind, array.shape):
                raise FileNotFoundError
        part = cls(path, label, arrays, image)
        # What was written before may not be on the disk yet.
        part._unsafe.add(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        return part

    def place(self, start: int) -> DraftedZarrPlace:
        """Where an array goes, by its number."""
        inner = ZarrPlace(self._arrays[start], self._label, self._image.arrays[start].shape)
        return DraftedZarrPlace(inner, self, self._image.chunks[start])

    def remember(self, array: Any, chunk: Ints) -> None:
        """A chunk was written."""
        key = array.metadata.encode_chunk_key(chunk)
        self._unsafe.add([os.path.join(self._path, *array.path.split("/"), *key.split("/"))])

    def make_safe(self) -> None:
        """Force to the disk what was written."""
        self._unsafe.make_safe()

    def complete(self) -> None:
        """Force all to the disk, without what a kill has left of the library's own drafts."""
        for folder, _, files in os.walk(self._path):
            for name in files:
                path = os.path.join(folder, name)
                if name.endswith(".partial"):
                    os.unlink(path)
                else:
                    sync_file(path)

    def forget_cached(self) -> None:
        """Nothing: reads come from where the system has it."""

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True, slots=True)
class DraftedZarrPlace:
    """A place in a draft, which remembers the chunks that are written."""

    inner: ZarrPlace
    part: ZarrPart
    chunk: Ints

    def read(self, desc: MemoryDesc, start: Ints, size: Ints, into: Array) -> None:
        """As it lies there."""
        self.inner.read(desc, start, size, into)

    def write(self, desc: MemoryDesc, start: Ints, size: Ints, content: Array) -> None:
        """A chunk, which is remembered."""
        self.inner.write(desc, start, size, content)
        first = self.inner.first_place(desc, start, size)
        position = tuple(at // max(n, 1) for at, n in zip(first, self.chunk, strict=True))
        self.part.remember(self.inner.array, position)
