"""The tensors of a file or a folder, for `show` and `diff`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from math import prod
from typing import Any, NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..files.inspection import ReadTensor, read_tensors
from ..files.stored_tensors import StoredTensor
from ..files.writing.replacement import shown
from ..formats import named
from ..formats import names as format_names
from ..graph.model_tensors import open_tensors
from .output import print_stderr

_MOST_NAME = 80
# Fields of a tensor that are text.
_WORDS = 7


class ListedTensor(NamedTuple):
    """A tensor of a file, described in words. `group`: the elements along each axis that share a scale, or
    None.

    `read`: how to read its numbers; dequantized if it is quantized.
    """

    name: str
    file: str
    dims: tuple[int, ...]
    type: str
    format: str
    nbytes: int
    group: tuple[int, ...] | None
    tensor: StoredTensor
    read: ReadTensor

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return prod(self.dims)

    @property
    def desc(self) -> MemoryDesc:
        """Its layout; with a bit type of the same width if restride has no data type for the elements."""
        return self.tensor.array.whole_desc

    @property
    def words(self) -> dict[str, Any]:
        """Return the same for JSON."""
        return dict(zip(self._fields[:_WORDS], self, strict=False))


class TensorFiles:
    """The open tensor files at a path, restricted to tensors whose names match `glob`.

    `skip_links`: links out of a folder are skipped, with a note on standard error.
    """

    def __init__(
        self, path: str, glob: str | None, *, only_heads: bool = False, skip_links: bool = False
    ) -> None:
        self._source = open_tensors(path, only_heads=only_heads, skip_links=skip_links)
        self._glob = glob
        for name in map(shown, self._source.skipped):
            print_stderr(
                f"note: {name} is skipped: it is a link out of the folder; pass it to list its tensors"
            )
        self.files = [file for file in self._source.files if file.contents is not None]

    def __enter__(self) -> TensorFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def stored(self) -> Iterator[ListedTensor]:
        """Yield the tensors as stored, including scales."""
        for file in self.files:
            reads = {_values(read).array.name: read for read in read_tensors(file)}
            for tensor in file.tensors:
                name = tensor.array.name
                if self._fits(name):
                    read = reads.get(name) or ReadTensor(tensor, file.place(tensor))
                    yield _listed(name, file.name, tensor, read)

    def numbers(self) -> Iterator[ListedTensor]:
        """Yield the tensors as numbers: quantized ones without their scales."""
        for file in self.files:
            for read in read_tensors(file):
                name = read.tensor.array.name
                if self._fits(name):
                    yield _listed(name, file.name, _values(read), read)

    def _fits(self, name: str) -> bool:
        return self._glob is None or fnmatchcase(name, self._glob)


def _values(read: ReadTensor) -> StoredTensor:
    """Return the stored elements of a tensor that is read as numbers."""
    return next(iter(read.tensor.parts.values()), read.tensor)


def _listed(name: str, file: str, tensor: StoredTensor, read: ReadTensor) -> ListedTensor:
    array, group = tensor.array, _group(read)
    desc, word = array.desc, str(array.kind.data_type or array.kind.word.lower())
    if array.kind.block > 1:
        form, group = f"gguf.{word}", (*(1,) * (len(array.shape) - 1), array.kind.block)
        if form in format_names() and array.nbytes:
            group = _extents(array.shape, named(form, array.shape).parts["scale"].dims)
    elif desc is not None:
        word = str(desc.data_type) if array.kind.data_type is not None else word
        form = desc.tag or str(desc).split(" ", 2)[-1]
    else:
        form = ""
    dims = array.shape if desc is None else desc.dims
    return ListedTensor(name, file, dims, word, form, array.nbytes, group, tensor, read)


def _group(read: ReadTensor) -> tuple[int, ...] | None:
    """Return the elements along each axis that share a scale."""
    values, scale = (read.tensor.parts.get(part) for part in ("values", "scale"))
    if values is None or scale is None or values.array.desc is None or scale.array.desc is None:
        return None
    dims, counts, note = values.array.desc.dims, scale.array.desc.dims, values.array.scaling
    if len(counts) != len(dims):
        counts = tuple(n if note and note.axis == axis else 1 for axis, n in enumerate(dims))
    return _extents(dims, counts)


def _extents(dims: Sequence[int], counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(n // max(count, 1) for n, count in zip(dims, counts, strict=True))


def short(name: str) -> str:
    """Return a tensor's name for a line of text: printable and not too long."""
    return shown(name) if len(name) <= _MOST_NAME else f"{shown(name[: _MOST_NAME - 1])}…"
