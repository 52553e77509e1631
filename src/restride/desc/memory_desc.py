"""The frozen memory descriptor: the type of a tensor's elements and their layout in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from ..dtypes import DataType
from ..errors import Error, InvalidArguments, check_unmade, refuse
from . import derive, text_forms
from .accessors import Accessors
from .build import Format, check_range, equality_key, parse_arguments, parse_blocks, size_in_bytes
from .layout import NO_LAYOUT, RUNTIME_DIM, BlockedLayout, axis_offset, extent_range, index_of, is_injective
from .parse import (
    parse_bool,
    parse_dims,
    parse_index,
    parse_offset,
    parse_strides,
    parse_type,
    renamed,
    short_repr,
)
from .text_forms import describe, matching_tag, verbose
from .viewer import ViewMethods

if TYPE_CHECKING:
    from .literals import TypeLike


class MemoryDesc(ViewMethods, Accessors):
    """A memory descriptor (`dnnl::memory::desc`): dims, data type and format. Frozen, hashable, picklable.

    `dims`: up to 12 extents, zero allowed. `format`: a tag or alias, strides in elements, a list of inner
    blocks (axis, size, step), `"any"`, or None for row-major. `dtype` is NumPy's name for `data_type`,
    accepted in its place. `MemoryDesc()` is the zero descriptor. Strides must nest without overlap, except
    that stride 0, size-1 dims and empty tensors are exempt; `strict=True` applies oneDNN's formula literally.
    `allow_empty=True` returns the zero descriptor instead of raising an error.

    Raises InvalidArguments, naming the argument and the index, for anything that is not a valid descriptor.
    """

    __slots__ = ("_hash", "_key", "_kind", "_layout", "_size", "_type")
    _kind: str
    _type: DataType
    _layout: BlockedLayout
    _size: int
    _key: tuple[object, ...]
    _hash: int

    def __init__(
        self,
        dims: Sequence[int] = (),
        data_type: TypeLike | str = DataType.undef,
        format: Format = None,
        allow_empty: bool = False,
        *,
        strict: bool = False,
        dtype: TypeLike | str | None = None,
    ) -> None:
        check_unmade(self, "_key")
        if dtype is not None:
            data_type = renamed(
                "MemoryDesc: dtype", None if data_type is DataType.undef else data_type, dtype=dtype
            )
        try:
            kind, dtype, layout = parse_arguments(dims, data_type, format, strict)
        except Error as error:
            if not parse_bool("allow_empty", allow_empty):
                error.drop_frames()
                raise
            kind, dtype, layout = "undef", DataType.undef, NO_LAYOUT
        self._fill(kind, dtype, layout)

    def _fill(self, kind: str, dtype: DataType, layout: BlockedLayout) -> None:
        store = object.__setattr__
        key = equality_key(kind, dtype, layout)
        store(self, "_kind", kind)
        store(self, "_type", dtype)
        store(self, "_layout", layout)
        store(self, "_size", size_in_bytes(kind, dtype, layout))
        store(self, "_key", key)
        store(self, "_hash", hash(key))

    @classmethod
    def _make(cls, kind: str, dtype: DataType, layout: BlockedLayout) -> MemoryDesc:
        """Create a descriptor from parts that have been checked."""
        md = object.__new__(cls)
        md._fill(kind, dtype, layout)
        return md

    @classmethod
    def from_strides(
        cls,
        dims: Sequence[int],
        data_type: TypeLike | str,
        strides: Sequence[int],
        offset0: int = 0,
        blocks: Sequence[tuple[int, int, int]] = (),
    ) -> MemoryDesc:
        """Create a descriptor with any strides, for sources: negative, zero, or overlapping windows (N8).

        `strides` and `offset0` count elements. With negative strides, `offset0` must raise the lowest offset
        to 0 or more. Destinations must be `is_injective()`. `blocks`: dense inner blocks (axis, size, step),
        outer to inner; the strides step over whole blocks, which divide the dims. For interleaved data, one
        descriptor can describe the values and another the scales between them. Raises InvalidArguments for a
        negative offset, and for blocks that do not divide.
        """
        shape = parse_dims(dims)
        dtype = parse_type(data_type)
        if not shape:
            return cls()
        steps = parse_strides(strides, len(shape))
        (start,) = parse_strides((offset0,), 1, "offset0")
        layout = BlockedLayout(shape, shape, steps, *parse_blocks(blocks, shape, steps), offset0=start)
        check_range(layout, dtype)
        return cls._make("blocked", dtype, layout)

    def as_type(self, data_type: TypeLike | str) -> MemoryDesc:
        """Return the same layout for another type. Raises InvalidArguments for the zero descriptor."""
        derive.refuse_no_layout("as_type", self._kind)
        check_range(self._layout, dtype := parse_type(data_type))
        return MemoryDesc._make(self._kind, dtype, self._layout)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"MemoryDesc is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"MemoryDesc is frozen: cannot delete {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return MemoryDesc._make, (self._kind, self._type, self._layout)

    @property
    def _described(self) -> MemoryDesc:
        return self

    # Queries

    @property
    def ndims(self) -> int:
        """Number of axes; 0 for the zero descriptor."""
        return len(self._layout.dims)

    @property
    def dims(self) -> tuple[int, ...]:
        """Logical extents, in logical order regardless of the format."""
        return self._layout.dims

    @property
    def data_type(self) -> DataType:
        """Type of the elements."""
        return self._type

    @property
    def format_kind(self) -> str:
        """`"undef"` (zero descriptor), `"any"` (a primitive chooses), `"blocked"` (plain or blocked) or
        `"opaque"`: weights transformed for Winograd's algorithm, which only primitives read and write.
        """
        return self._kind

    @property
    def padded_dims(self) -> tuple[int, ...]:
        """Extents including the padding that fills the last blocks; the padding is zero."""
        return self._layout.padded_dims

    @property
    def padded_offsets(self) -> tuple[int, ...]:
        """Start of the logical tensor inside the padded one; always zeros."""
        return (0,) * self.ndims

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in elements from one index, or block, of each axis to the next; empty for other kinds."""
        return self._layout.strides if self._kind != "opaque" else ()

    @property
    def inner_blks(self) -> tuple[int, ...]:
        """Sizes of the inner blocks, outer to inner."""
        return self._layout.inner_blks

    @property
    def inner_idxs(self) -> tuple[int, ...]:
        """Axis of each inner block."""
        return self._layout.inner_idxs

    @property
    def inner_steps(self) -> tuple[int, ...]:
        """Step of each inner block: at index i of its axis its digit is `i // step % size`."""
        return self._layout.inner_steps

    @property
    def offset0(self) -> int:
        """Number of elements before the first one; nonzero for submemory and negative strides."""
        return self._layout.offset0

    @property
    def size(self) -> int:
        """Size of the storage in bytes, without offset0; the number of elements is `nelems`.

        0 for `any`, for the zero descriptor, and for empty tensors; 2**63 if dims are runtime.
        """
        return self._size

    @property
    def T(self) -> MemoryDesc:  # noqa: N802 - NumPy's name
        """The same memory with its axes in reverse order, as NumPy's `T`."""
        return self.permute_axes(range(self.ndims)[::-1])

    def get_size(self) -> int:
        """`size`, under oneDNN's name."""
        return self._size

    @property
    def nelems(self) -> int:
        """Number of logical elements; RUNTIME_DIM for runtime dims; 0 for the zero descriptor."""
        return RUNTIME_DIM if RUNTIME_DIM in self.dims else prod(self.dims) if self.dims else 0

    def is_zero(self) -> bool:
        """True for the zero descriptor, which describes no memory."""
        return self._kind == "undef"

    def __bool__(self) -> bool:
        return self._kind != "undef"

    @property
    def layout(self) -> BlockedLayout:
        """Dims, strides and blocks as one value."""
        return self._layout

    @property
    def tag(self) -> str | None:
        """The base tag that creates this descriptor from its dims, or None (gaps, broadcast, submemory,
        `any`).

        If size-1 dims leave a choice: the tag whose strides match exactly, then one that has a name.
        """
        matching = matching_tag(self._layout) if self._kind == "blocked" else None
        return None if matching is None else str(matching)

    @property
    def outer_order(self) -> tuple[int, ...]:
        """Axes outermost to innermost, by stride."""
        return self._blocked("outer_order").outer_order

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """The storage as an array: blocks along each axis, outermost first, then inner blocks."""
        layout = self._blocked("physical_shape")
        return (*(layout.outer_extents[d] for d in layout.outer_order), *layout.inner_blks)

    @property
    def physical_strides(self) -> tuple[int, ...]:
        """Strides of `physical_shape` in elements."""
        layout = self._blocked("physical_strides")
        return (*(layout.strides[d] for d in layout.outer_order), *layout.inner_strides)

    # Locations of elements

    def offset(self, *index: int) -> int:
        """Return the element offset of a position, offset0 included: the sum of all digits of the index, each
        multiplied by its stride, as `explain` shows.

        Positions in the padding are allowed. Raises InvalidArguments beyond the padded dims.
        """
        layout = self._blocked("offset")
        try:
            position = parse_index(index, layout.padded_dims)
        except InvalidArguments as error:
            is_one = len(index) == 1 and isinstance(index[0], Sequence)
            hint = "pass the indices as separate arguments: md.offset(*index)" if is_one else ""
            raise error.with_context(where=str(self), hint=hint) from None
        return layout.offset0 + sum(axis_offset(layout, d, i) for d, i in enumerate(position))

    def index(self, offset: int) -> tuple[int, ...] | None:
        """Return the logical index of the element at `offset` (elements); None for padding, gaps and outside.

        The inverse of `offset`. If several elements share an offset (stride 0), one of them is returned.
        """
        layout = self._blocked("index")
        return index_of(layout, parse_offset(offset))

    def is_injective(self) -> bool:
        """Return True if no two positions share an offset, as is required of a destination (N8)."""
        return is_injective(stored_desc(self)._blocked("is_injective"))

    def extent_range(self) -> tuple[int, int]:
        """Return the lowest offset, and one past the highest, of elements and padding, offset0 included."""
        return extent_range(stored_desc(self)._blocked("extent_range"))

    def _blocked(self, what: str) -> BlockedLayout:
        """Return the layout, if there is one with known extents."""
        if self._kind == "blocked" and not self._layout.has_runtime:
            return self._layout
        if self._kind == "opaque":
            raise refuse("RS-M15:opaque", what=f"MemoryDesc.{what}")
        raise refuse("RS-M15:no-layout-yet", what=what, owner=self)

    # Derived descriptors

    def submemory_desc(
        self, dims: Sequence[int], offsets: Sequence[int], allow_empty: bool = False
    ) -> MemoryDesc:
        """Return the window of `dims` elements from `offsets`: the parent's strides, a shifted offset0.

        Raises InvalidArguments for a window outside the parent, Unimplemented for `any`, runtime dims and
        windows that cut blocks. With `allow_empty`, returns the zero descriptor instead of raising.
        """
        return self._derive(derive.submemory, (dims, offsets), allow_empty)

    def reshape(
        self, dims: Sequence[int], allow_empty: bool = False, *, new_blocks: bool = False
    ) -> MemoryDesc:
        """Return the same elements, in logical order, under new dims: add or drop size-1 dims, split, merge.

        `new_blocks`: whether the result may have blocks that this descriptor does not have. For example,
        consecutive windows of an image, joined to the image again, are blocks of pixels.

        Raises InvalidArguments if the volume differs, or if strides or blocks cannot express the result
        without moving data.
        """
        return self._derive(derive.reshape, (dims, new_blocks), allow_empty)

    def permute_axes(self, perm: Sequence[int], allow_empty: bool = False) -> MemoryDesc:
        """Return the same memory with renamed axes: `new.dims[perm[i]] == old.dims[i]`.

        Raises InvalidArguments unless `perm` contains each axis once.
        """
        return self._derive(derive.permute, (perm,), allow_empty)

    def _derive(self, rule: Any, args: tuple[Any, ...], allow_empty: bool) -> MemoryDesc:
        try:
            layout = rule(self._kind, self._layout, *args)
            if self._kind == "blocked":
                check_range(layout, self._type)
            return MemoryDesc._make(self._kind, self._type, layout)
        except Error as error:
            if parse_bool("allow_empty", allow_empty):
                return MemoryDesc()
            raise error.with_context(where=str(self)) from None

    # Equality and text

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, MemoryDesc):
            return NotImplemented
        return self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return describe(self._kind, self._type, self._layout)

    def __repr__(self) -> str:
        return f"<MemoryDesc {self}>"

    def verbose_str(self, name: str) -> str:
        """Return the descriptor for a verbose line: `src:f32:p:blocked:aBcd16b::f0`."""
        if not isinstance(name, str):
            raise refuse("RS-V08:text", name=short_repr(name))
        return verbose(name, self._kind, self._type, self._layout)

    # Serialization

    def to_dict(self) -> dict[str, Any]:
        """Return the descriptor as strings, integers and lists, named after its properties."""
        return text_forms.to_values(self._kind, self._type, self._layout)

    def to_json(self) -> str:
        """Return `to_dict` as JSON, in one line."""
        return text_forms.to_text(self._kind, self._type, self._layout)

    @classmethod
    def from_dict(cls, values: object) -> MemoryDesc:
        """Return the descriptor of a `to_dict`. Raises InvalidArguments naming the invalid value."""
        return cls._make(*text_forms.from_values(values))

    @classmethod
    def from_json(cls, text: str | bytes) -> MemoryDesc:
        """Return the descriptor of a `to_json`. Raises InvalidArguments naming the invalid value."""
        return cls._make(*text_forms.from_text(text))


def stored_desc(md: MemoryDesc) -> MemoryDesc:
    """Return the numbers in memory as a tensor: a different descriptor only if the format is opaque."""
    if md.format_kind != "opaque":
        return md
    return MemoryDesc._make("blocked", md.data_type, replace(md.layout, dims=md.padded_dims))
