"""The source of a conversion: a file, or a folder that contains a sharded checkpoint.

Every file of a folder corresponds to one in the result: tensor files are converted, the index of shards is
recreated, all others are copied.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from ...errors import refuse
from ..formats.npy import NpyOverride, read_npy
from ..places import FilePlace
from ..plain_file import (
    FileState,
    check_link,
    close_on_error,
    leads_out,
    link_error,
    opened,
    read_at,
    state_of,
)
from ..stored_tensors import BYTES, Contents, StoredArray, StoredTensor, parse_object, physical
from ..tensor_file import tensor_file
from ..writing.replacement import shown
from ..zarr.arrays import ZarrFolder, is_zarr, open_zarr

INDEX_END = ".safetensors.index.json"
_USUAL_INDEX = f"model{INDEX_END}"
_TENSOR_ENDS = (".safetensors", ".npy", ".npz", ".gguf")
# In a folder without an index; .npy files are excluded, because they have no tensor names.
_NAMED_ENDS = (".safetensors", ".npz", ".gguf")
_MOST_INDEX = 100_000_000
_MOST_FILES = 100_000


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that is read: its name below the source, its contents if it contains tensors, its state.

    `file` contains the bytes: for a compressed file, another one into which it was expanded.
    """

    name: str
    path: str
    file: BinaryIO
    state: FileState
    contents: Contents | None = None
    index: dict[str, Any] | None = None

    @property
    def tensors(self) -> tuple[StoredTensor, ...]:
        """The tensors; for a file without tensors, its bytes as one."""
        if self.contents is not None:
            return self.contents.tensors
        if self.index is not None:
            return ()
        nbytes = self.state.nbytes
        return (StoredTensor(StoredArray(self.name, BYTES, (nbytes,), nbytes), self.path, 0),)

    @property
    def identity(self) -> tuple[object, ...]:
        """Facts that differ for another file, and for this one after a change."""
        heads = () if self.contents is None else self.contents.heads
        return (self.name, *self.state, [digest for _, digest in heads])

    def place(self, tensor: StoredTensor) -> FilePlace:
        """Return the place of a tensor in the file."""
        return FilePlace(self.file.fileno(), self.path, tensor.start)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def is_changed(self) -> bool:
        """Return True if the file has changed since it was opened."""
        try:
            # Links and permissions can change while it is read: the content is the same.
            return FileState.of(os.stat(self.path))[:-1] != self.state[:-1]
        except OSError:
            return True


@dataclass(slots=True)
class ConversionSource:
    """All files that are read. `is_folder`: there may be several, and the result is a folder too. `skipped`:
    links out of the folder, which are not read.
    """

    path: str
    is_folder: bool
    files: list[SourceFile | ZarrFolder] = field(default_factory=list)
    skipped: tuple[str, ...] = ()

    def close(self) -> None:
        """Close all files."""
        for source_file in self.files:
            source_file.close()

    def changed(self) -> str | None:
        """Return the path of a file that has changed since it was opened."""
        return next((source_file.path for source_file in self.files if source_file.is_changed), None)


def open_source(
    path: str,
    override: NpyOverride | None = None,
    *,
    follow_links: bool = False,
    spare: str | None = None,
    only_heads: bool = False,
) -> ConversionSource:
    """Open a file, a folder, a folder specified by the index of its shards, or Zarr arrays.

    `spare`: the folder in which compressed files are expanded if there is also room for the result.
    `only_heads`: read only the headers of such files. Raises InvalidArguments for damaged files, missing
    shards, and links that lead out of the folder unless they are followed; RuntimeFailure if the system
    refuses access.
    """
    if is_zarr(path):
        arrays = open_zarr(path, follow_links=follow_links)
        return ConversionSource(path, is_folder=False, files=[arrays])
    if os.path.isdir(path) or path.endswith(INDEX_END):
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        return _open_folder(folder, follow_links, spare)
    if override is None:
        file, contents, state = tensor_file(path, spare, only_heads=only_heads)
    else:
        file = opened(path)
        with close_on_error(file):
            contents, state = read_npy(file, path, override), state_of(file)
            # Elements keep their order in memory.
            tensors = tuple(replace(tensor, array=physical(tensor.array)) for tensor in contents.tensors)
            contents = replace(contents, tensors=tensors)
    source_file = SourceFile(os.path.basename(path), path, file, state, contents)
    return ConversionSource(path, is_folder=False, files=[source_file])


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tensor files of a folder: those that its index names, else all whose names indicate tensors.

    `index`: the index file's name, or ""; `shards`: tensor name -> file, according to the index; `skipped`:
    links out of the folder.
    """

    folder: str
    index: str
    files: tuple[str, ...]
    shards: dict[str, str]
    skipped: tuple[str, ...] = ()


def is_checkpoint(path: str) -> bool:
    """Return True for a folder that is not a Zarr array, and for an index of shards."""
    return path.endswith(INDEX_END) or (os.path.isdir(path) and not is_zarr(path))


def find_checkpoint(path: str, *, skip_links: bool = False) -> Checkpoint:
    """Find the files of a folder, or of the folder of an index, excluding subfolders.

    Raises InvalidArguments for links that lead out of the folder, if they are not skipped or there is nothing
    else, for a folder without tensors and for a damaged index, RuntimeFailure if the system refuses access.
    """
    folder, index = (path, "") if os.path.isdir(path) else os.path.split(path)
    folder = folder or "."
    if not index:
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            raise refuse("RS-F01:folder", path=shown(folder), reason=os.strerror(error.errno or 0)) from None
        indexes = [name for name in names if name.endswith(INDEX_END)]
        if len(indexes) > 1 and _USUAL_INDEX not in indexes:
            several = ", ".join(map(shown, indexes))[:200]
            raise refuse("RS-F01:several-indexes", path=shown(folder), indexes=several)
        index = _USUAL_INDEX if _USUAL_INDEX in indexes else "".join(indexes)
        if not index:
            files = tuple(name for name in names if name.lower().endswith(_NAMED_ENDS))
            if not files:
                ends = ", ".join(_NAMED_ENDS)
                raise refuse("RS-F01:no-tensor-files", path=shown(folder), ends=ends)
            files, skipped = _without_links(folder, files, skip_links)
            return Checkpoint(folder, "", files, {}, skipped)
    _without_links(folder, (index,), False)
    with opened(os.path.join(folder, index)) as file:
        shards = _read_index(file, os.path.join(folder, index))["weight_map"]
    files = tuple(sorted(set(shards.values())))
    files, skipped = _without_links(folder, files, skip_links)
    return Checkpoint(folder, index, files, shards, skipped)


def _without_links(folder: str, names: Sequence[str], skip: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of files in the folder, and of links out of it."""
    paths = {name: os.path.join(folder, name) for name in names}
    links = tuple(name for name, path in paths.items() if os.path.islink(path) and leads_out(folder, path))
    if links and (not skip or len(links) == len(names)):
        raise link_error(paths[links[0]])
    return tuple(name for name in names if name not in links), links


def open_checkpoint(path: str, *, only_heads: bool = False, skip_links: bool = False) -> ConversionSource:
    """Open the files of a folder or an index, as found by `find_checkpoint`; the caller closes them.

    Raises InvalidArguments also for damaged files and missing shards.
    """
    found = find_checkpoint(path, skip_links=skip_links)
    source = ConversionSource(found.folder, is_folder=True, skipped=found.skipped)
    try:
        for name in (*found.files, *filter(None, [found.index])):
            if not found.index or os.path.lexists(os.path.join(found.folder, name)):
                source.files.append(_opened_file(found.folder, name, None, only_heads))
        _check_shards(source)
    except BaseException:
        source.close()
        raise
    return source


def _open_folder(folder: str, follow_links: bool, spare: str | None) -> ConversionSource:
    source = ConversionSource(folder, is_folder=True)
    try:
        for name in sorted(_names(folder, "", follow_links)):
            source.files.append(_opened_file(folder, name, spare))
            if len(source.files) > _MOST_FILES:
                raise refuse("RS-F01:holds-more-files", folder=shown(folder), most_files=_MOST_FILES)
        _check_shards(source)
    except BaseException:
        source.close()
        raise
    return source


def _names(folder: str, below: str, follow_links: bool) -> Iterator[str]:
    """Yield the names of all files in the folder and its subfolders."""
    here = os.path.join(folder, below)
    try:
        entries = list(os.scandir(here))
    except OSError as error:
        raise refuse("RS-F01:folder", path=shown(here), reason=os.strerror(error.errno or 0)) from None
    for entry in entries:
        name = os.path.join(below, entry.name)
        if entry.is_symlink() and not follow_links:
            check_link(folder, entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _names(folder, name, follow_links)
        elif os.path.isdir(entry.path):
            raise refuse("RS-F01:link-folder-not", path=shown(entry.path))
        else:
            yield name


def _opened_file(folder: str, name: str, spare: str | None, only_heads: bool = False) -> SourceFile:
    path = os.path.join(folder, name)
    if name.lower().endswith(_TENSOR_ENDS):
        file, contents, state = tensor_file(path, spare, only_heads=only_heads)
        return SourceFile(name, path, file, state, contents)
    file = opened(path)
    with close_on_error(file):
        index = _read_index(file, path) if name.endswith(INDEX_END) else None
        return SourceFile(name, path, file, state_of(file), index=index)


def _read_index(file: BinaryIO, path: str) -> dict[str, Any]:
    """Read an index of shards. Raises InvalidArguments unless it maps tensor names to file names."""
    nbytes = state_of(file).nbytes
    if nbytes > _MOST_INDEX:
        raise refuse("RS-F01:index-bytes", path=shown(path), nbytes=nbytes)
    index = parse_object(path, read_at(file, path, 0, nbytes))
    shards = index.get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise refuse("RS-F01:no-weight-map", path=shown(path))
    for shard in set(shards.values()):
        if not shard or shard in (".", "..") or "/" in shard or "\\" in shard or "\0" in shard:
            raise refuse("RS-F01:names-shard-no", path=shown(path), shard=shard[:80])
    return index


def _check_shards(source: ConversionSource) -> None:
    """Check that every tensor in an index is in its shard, and in no other file of that index."""
    for index in source.files:
        if index.index is None:
            continue
        folder = os.path.dirname(index.name)
        shards = {
            os.path.basename(source_file.name): {tensor.array.name for tensor in source_file.tensors}
            for source_file in source.files
            if source_file.contents is not None and os.path.dirname(source_file.name) == folder
        }
        shards |= {name: set() for name in source.skipped}
        for name, shard in index.index["weight_map"].items():
            if shard in source.skipped:
                continue
            if shard not in shards:
                raise refuse("RS-F01:shard-missing", path=shown(index.path), shard=shard[:80])
            if name not in shards[shard]:
                why = f"it lists {name[:80]!r} in {shard[:80]!r}, which does not contain it"
                raise refuse("RS-F01:index", path=shown(index.path), why=why)
        tensors: set[str] = set()
        for shard in set(index.index["weight_map"].values()):
            if twice := tensors & shards[shard]:
                why = f"{min(twice)[:80]!r} is in two of its shards"
                raise refuse("RS-F01:index", path=shown(index.path), why=why)
            tensors |= shards[shard]
