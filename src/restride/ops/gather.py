"""Gathers: elements of a tensor at positions given by a tensor of indices.

    axis      dst[b, i, k, j] = src[b, i, at[b, k], j]       any dims; b: leading dims of both tensors
    elements  dst[..., k, ...] = src[..., at[..., k, ...], ...]    indices of the rank of the source
    nd        dst[b, k, j] = src[b, at[b, k, 0], at[b, k, 1], j]   the last dim of the indices is one index
    window    dst[i, k, j] = src[i, first + k, j]    one index, where the window begins; clamped to fit

A negative index counts from the end of its dim; an index still out of range is clamped: memory outside a
tensor is never read. Elements of every type are moved as they are. If the types differ, elements are
converted, as from a table of f16 or s8.

The gradient of each source element is the sum of the gradients at all positions it was gathered to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from ..desc.arguments import ARG_DIFF_DST, ARG_SRC, ARG_SRC_1
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..ir.expression import Const, Coordinate, Expr, Index, TreeAxis, apply
from ..ir.numbers import Number
from ..ir.tree import Each, LoopTree, TreeTensor
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, OperationProblem, is_computed_wide
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, check_axis, check_indices, from_end
from ..runtime.alloc import Array
from .programs.bits import as_bits, as_indices, number_of_bits

Dims = tuple[int, ...]
Place = tuple[Index | TreeAxis | int, ...]
Value = Array | str
Axis = Annotated[int, "the axis"]
_Moved = Annotated[str, "moved"]
_S64 = 7
"""ONNX's number for it."""


# --- names --------------------------------------------------------------------------------------------------


def _gather(call: Any, x: Value, indices: Annotated[Value, "indices"], *, axis: int = 0) -> Any:
    return _gathered(call, x, indices, axis)


def _gather_of_axis(call: Any, x: Value, indices: Value, axis: Axis, *, batch_dims: int = 0) -> Any:
    return _gathered(call, x, indices, axis, batch_dims)


def _gathered(call: Any, x: Value, indices: Value, axis: int, batch_dims: int = 0, **more: bool) -> Any:
    """Gather along an axis; known consecutive indices become a slice. `from_end=False`: for a network, a
    negative index is out of range.
    """
    dims, places = call.dims(x), call.dims(indices)
    axis, batch = from_end(axis, len(dims)), from_end(batch_dims, len(places) + 1)
    wanted = (*dims[:axis], *places[batch:], *dims[axis + 1 :])
    if not isinstance(indices, str):
        if not isinstance(x, str) and not batch:
            return np.asarray(np.take(x, check_places(indices, dims[axis]), axis))
        start = _start_of_part(check_places(indices, dims[axis]).reshape(-1), dims[axis])
        if start is not None and not batch:
            part = call.onnx("Slice", x, (start,), (start + indices.size,), (axis,), (1,))
            return call.reshaped(part, wanted)
    at = call.reshaped(indices, places or (1,))
    found = call.primitive("Gather", x, at, algorithm="axis", axis=axis, batch_dims=batch, **more)
    return call.reshaped(found, wanted)


def check_places(indices: Any, size: int) -> Any:
    """Return indices of a dim; constant ones must be in range. Raises Misfit."""
    if isinstance(indices, str) or not indices.size:
        return indices
    if indices.dtype.kind not in "iu":
        raise Misfit(f"the indices are {indices.dtype}")
    for end in (int(indices.min()), int(indices.max())):
        if not -size <= end < size:
            raise Misfit(f"index {end} is out of range for a dim of {size}")
    return indices


def check_tuples(indices: Any, dims: Dims) -> None:
    """Check indices of several dims, which are in the last dim of the index tensor."""
    if not isinstance(indices, str) and indices.ndim:
        for place, size in zip(np.moveaxis(indices, -1, 0), dims, strict=False):
            check_places(place, size)


def _start_of_part(indices: Array, size: int) -> int | None:
    """Return where consecutive indices begin, else None. Long ones are examined without copies."""
    if not indices.size:
        return None
    first, last = (int(at) % size for at in (indices[0], indices[-1]))
    if last - first != indices.size - 1 or np.any(np.diff(indices) != 1):
        return None
    return first


def _gather_elements(call: Any, x: _Moved, indices: Value, *, axis: int = 0) -> Any:
    return _elements(call, x, indices, axis)


def _elements(call: Any, x: str, indices: Value, axis: int, **more: bool) -> Any:
    axis = from_end(axis, len(call.dims(x)))
    check_places(indices, call.dims(x)[axis])
    return call.primitive("Gather", x, indices, algorithm="elements", axis=axis, **more)


def _gather_nd(call: Any, x: _Moved, indices: Value, *, batch_dims: int = 0) -> Any:
    dims, places = call.dims(x), call.dims(indices)
    if not places:
        raise Misfit("the indices have no dims")
    check_tuples(indices, dims[batch_dims:])
    at = call.reshaped(indices, places if len(places) > 1 else (1, *places))
    found = call.primitive("Gather", x, at, algorithm="nd", batch_dims=batch_dims)
    return call.reshaped(found, (*places[:-1], *dims[batch_dims + places[-1] :]))


def _reverse_sequence(
    call: Any, x: _Moved, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0
) -> Any:
    axes = (from_end(axis, len(call.dims(x))) for axis in (time_axis, batch_axis))
    axis, batch_axis = axes
    return call.primitive("ReverseSequence", x, lengths, axis=axis, batch_axis=batch_axis)


def _index(call: Any, x: Any, indices: Any) -> Any:
    """Return `x[i, :, j]`: several indices are broadcast; their dims stay in place if they are adjacent."""
    axes = [axis for axis, at in enumerate(indices) if at is not None]
    if len(axes) == 1:
        return _gathered(call, x, _integers(call, indices[axes[0]]), axes[0])
    order, at = index_first(call, x, axes, [indices[axis] for axis in axes])
    found = _gather_nd(call, call.transposed(call.placed(x), order), at)
    rank = len(call.dims(at)) - 1
    if axes != list(range(axes[0], axes[-1] + 1)):
        return found
    rest = list(range(rank, len(call.dims(found))))
    return call.transposed(found, [*rest[: axes[0]], *range(rank), *rest[axes[0] :]])


def index_first(call: Any, x: Any, axes: Sequence[int], indices: Sequence[Any]) -> tuple[list[int], str]:
    """Return the axes with indexed ones first, and the indices joined along a new last dim."""
    dims = np.broadcast_shapes(*(call.dims(at) for at in indices))
    columns = []
    for at in indices:
        full = call.onnx("Cast", _integers(call, at), to=_S64)
        full = call.reshaped(full, (*(1,) * (len(dims) - len(call.dims(full))), *call.dims(full)))
        repeats = tuple(n // m if m else 1 for n, m in zip(dims, call.dims(full), strict=True))
        columns.append(call.reshaped(call.onnx("Tile", full, repeats), (*dims, 1)))
    order = [*axes, *(axis for axis in range(len(call.dims(x))) if axis not in axes)]
    return order, call.placed(call.onnx("Concat", *columns, axis=len(dims)))


def _integers(call: Any, indices: Any) -> Any:
    if call.type_of(indices) is DataType.boolean:
        raise call.unimplemented("the number of elements taken depends on values", "use integer indices")
    return indices


def _take_along_dim(call: Any, x: Any, indices: Any, dim: Any = None) -> Any:
    if dim is None:
        return _gather_elements(call, call.reshaped(x, (-1,)), call.reshaped(indices, (-1,)))
    return _gather_elements(call, call.placed(x), indices, axis=dim)


# --- the primitive ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GatherProblem(OperationProblem):
    """The gather primitive: `dst[..., k, ...] = src[..., indices[k], ...]`.

    Executed with `ARG_SRC`, `ARG_SRC_1` (the indices) and `ARG_DST`. A negative index counts from the end;
    an index out of range is clamped.
    """

    operation = "gather"
    primitive = "Gather"
    call = "algorithm", "src", "indices", "dst", "axis", "batch_dims"
    defaults = {"axis": 0, "batch_dims": 0}
    prop_kinds = (PropKind.undef,)
    algorithms = "axis", "elements", "nd", "window"
    reads = {ARG_SRC: "src", ARG_SRC_1: "indices"}
    node_reads = "src", "indices"
    in_place = False
    onnx = {"Gather": _gather, "GatherElements": _gather_elements, "GatherND": _gather_nd}
    aten = {
        "embedding": lambda call, weight, indices, *more, padding_idx=-1: _gathered(
            call, weight, indices, 0, from_end=False
        ),
        "gather": lambda call, x, dim, index: _elements(call, call.placed(x), index, dim, from_end=False),
        "index": _index,
        "index_select": lambda call, x, dim, index: _gathered(call, x, index, dim, from_end=False),
        "take_along_dim": _take_along_dim,
    }
    openvino = {
        "Gather": _gather_of_axis,
        "GatherElements": "GatherElements",
        "GatherND": "GatherND",
    }
    arguments = """
    `algorithm`: "gather_axis" takes slices at indices along `axis`, "gather_elements" one element for each
    index, "gather_nd" the slices at the indices in the last dim of `indices`, "gather_window" consecutive
    slices along `axis`, as many as `dst` has, from the one index on. `indices`: integers of 8 bits or more.
    `batch_dims`: leading dims shared by source and indices. `dst`: format "any" follows the source."""

    algorithm: str
    src: MemoryDesc
    indices: MemoryDesc
    dst: MemoryDesc
    axis: int
    batch_dims: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> GatherProblem:
        algorithm, src, indices = call.algorithm(), call.known("src"), call.known("indices")
        axis, batch_dims = call.axis(src), call.integer("batch_dims")
        dst = call.written("dst", src)
        size = dst.dims[axis] if dst.ndims == src.ndims else 0
        call.check_dims(
            dst, lambda: _result_dims(algorithm, axis, batch_dims, (src, indices), size), src, indices
        )
        return cls(algorithm, src, indices, dst, axis, batch_dims, call.attr())

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> Dims:
        """`node.size`: the number of elements in a window."""
        algorithm = node.algorithm.removeprefix("gather_")
        axis, batch_dims, size = (getattr(node, name, 0) for name in ("axis", "batch_dims", "size"))
        return _result_dims(algorithm, axis, batch_dims, tensors, size)

    @property
    def verbose_aux(self) -> str:
        return f"alg:gather_{self.algorithm} axis:{self.axis} batch_dims:{self.batch_dims}"

    def tree(self) -> LoopTree:
        """The loop tree: a load whose index is an element of the indices."""
        number = number_of_bits(self.src)
        if self.src.data_type is not self.dst.data_type:
            number = Number.real(is_wide=is_computed_wide(self.src, self.dst))
        src, dst = (
            TreeTensor.of_desc(name, as_bits(md) if number.is_integer else md)
            for name, md in (("src", self.src), ("dst", self.dst))
        )
        indices = TreeTensor.of_desc("indices", as_indices(self.indices))
        axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.dst.dims))
        place, own, before = self.places(indices, axes)
        loop = Each(axes, (dst.store(axes, src.load(*place)),))
        return LoopTree((src, indices, dst, *own), (*before, loop), number=number).verify()

    def places(
        self, indices: TreeTensor, axes: tuple[TreeAxis, ...]
    ) -> tuple[Place, tuple[TreeTensor, ...], tuple[Each, ...]]:
        """Return where each destination element is in the source, with the temporaries and loops for it."""
        if self.algorithm == "window":
            return self._places_of_part(indices, axes)
        return self._place(indices, axes), (), ()

    def _place(self, indices: TreeTensor, axes: tuple[TreeAxis, ...]) -> Place:
        axis, batch, rank = self.axis, self.batch_dims, len(indices.sizes)
        if self.algorithm == "elements":
            return (*axes[:axis], indices.load(*axes), *axes[axis + 1 :])
        if self.algorithm == "nd":
            around, count = axes[: rank - 1], indices.sizes[-1]
            places = (indices.load(*around, place) for place in range(count))
            return (*axes[:batch], *places, *axes[rank - 1 :])
        own = axes[axis : axis + rank - batch]
        return (*axes[:axis], indices.load(*axes[:batch], *own), *axes[axis + len(own) :])

    def _places_of_part(
        self, indices: TreeTensor, axes: tuple[TreeAxis, ...]
    ) -> tuple[Place, tuple[TreeTensor, ...], tuple[Each, ...]]:
        """Return the positions for a window: its first indices are computed beforehand."""
        size, along = self.src.dims[self.axis], axes[self.axis]
        at = TreeTensor.row_major("at", (along.extent,), DataType.s64)
        first = _from_end(indices.load(*(0,) * len(indices.sizes)), size)
        first = apply("max", apply("min", first, size - along.extent), 0)
        place: Place = (*axes[: self.axis], at.load(along), *axes[self.axis + 1 :])
        loop = Each((along,), (at.store((along,), first + Coordinate(along + 0)),), number=Number.i64)
        return place, (at,), (loop,)

    @property
    def indexed_axes(self) -> slice:
        """The dims of the destination along which elements can come from the same position."""
        rank = self.indices.ndims
        if self.algorithm == "nd":
            return slice(self.batch_dims, rank - 1)
        return slice(self.axis, self.axis + (rank - self.batch_dims if self.algorithm == "axis" else 1))

    @property
    def moved_bytes(self) -> int:
        """The number of bytes moved: as much of the source is read as is written."""
        count = self.indices.data_type.nbytes(self.indices.nelems)
        return count + sum(md.data_type.nbytes(self.dst.nelems) for md in (self.src, self.dst))


@dataclass(frozen=True, slots=True)
class GatherBackwardProblem(GradientProblem):
    """The gradient of the source of a gather: `diff_src[..., indices[k], ...] += diff_dst[..., k, ...]`.

    Executed with `ARG_DIFF_DST`, `ARG_SRC_1` (the indices) and `ARG_DIFF_SRC`. Elements that were not taken
    have a gradient of 0. "gather_elements", with the axis and indices of a `TopK`, computes the gradient of
    its source.
    """

    operation = "gather"
    primitive = "GatherBackward"
    call = "algorithm", "diff_src", "indices", "diff_dst", "axis", "batch_dims"
    defaults = GatherProblem.defaults
    algorithms = GatherProblem.algorithms
    reads = {ARG_DIFF_DST: "diff_dst", ARG_SRC_1: "indices"}
    node_reads = "diff_dst", "indices"
    in_place = False
    arguments = """
    Parameters are as in the forward step. `diff_src`: format "any" follows `diff_dst`."""

    algorithm: str
    diff_src: MemoryDesc
    indices: MemoryDesc
    diff_dst: MemoryDesc
    axis: int
    batch_dims: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> GatherBackwardProblem:
        algorithm, indices, diff_dst = call.algorithm(), call.known("indices"), call.known("diff_dst")
        diff_src = call.written("diff_src", diff_dst)
        axis, batch_dims = call.axis(diff_src), call.integer("batch_dims")
        size = diff_dst.dims[axis] if diff_dst.ndims == diff_src.ndims else 0
        call.check_dims(
            diff_dst,
            lambda: _result_dims(algorithm, axis, batch_dims, (diff_src, indices), size),
            *(diff_src, indices),
            name="diff_dst",
        )
        return cls(algorithm, diff_src, indices, diff_dst, axis, batch_dims, call.attr())

    def forward(self) -> GatherProblem:
        """The forward step, on tensors with the gradients' descriptors."""
        return GatherProblem(
            self.algorithm, self.diff_src, self.indices, self.diff_dst, self.axis, self.batch_dims
        )

    @property
    def verbose_aux(self) -> str:
        return self.forward().verbose_aux

    def tree(self) -> LoopTree:
        """The loop tree: a sum at the position of each element."""
        gradient, out = (TreeTensor.of_desc(name, getattr(self, name)) for name in ("diff_dst", "diff_src"))
        indices = TreeTensor.of_desc("indices", as_indices(self.indices))
        axes, forward = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.diff_dst.dims)), self.forward()
        place, own, before = forward.places(indices, axes)
        sums, loops = sums_at(out, place, gradient.load(*axes), (axes, forward.indexed_axes))
        number = Number.real(is_wide=is_computed_wide(self.diff_src, self.diff_dst))
        tensors = (gradient, indices, out, *own, *sums)
        return LoopTree(tensors, (*before, *loops), number=number).verify()


def sums_at(
    out: TreeTensor, place: Place, value: Expr, loops: tuple[tuple[TreeAxis, ...], slice]
) -> tuple[tuple[TreeTensor, ...], tuple[Each, ...]]:
    """Return the temporaries and loops that add values, each at a position, to zeros. `loops`: the axes, and
    which of them run in order, since their values can share a position.

    Types that would round the sums are written at the end.
    """
    axes, in_order = loops
    every = tuple(TreeAxis(f"c{i}", n) for i, n in enumerate(out.sizes))
    is_exact = out.data_type in (DataType.f32, DataType.f64)
    kind = DataType.f32 if out.data_type.bits < 32 else DataType.f64
    sums = out if is_exact else TreeTensor.row_major("sums", out.sizes, kind)
    around = (*axes[: in_order.start], *axes[in_order.stop :])
    add = Each(axes[in_order], (sums.store(place, sums.load(*place) + value),), in_order=True)
    found = Each(every, (sums.store(every, Const(0.0)),)), Each(around, (add,))
    if is_exact:
        return (), found
    return (sums,), (*found, Each(every, (out.store(every, sums.load(*every)),)))


def _from_end(index: Expr, size: int) -> Expr:
    return apply("select", apply("lt", index, 0), index + size, index)


def _result_dims(algorithm: str, axis: int, batch: int, tensors: Sequence[Shaped], size: int) -> Dims:
    """Return the dims of a gather's result; a window has `size` elements along the axis. Raises Misfit."""
    src, indices = tensors[0].dims, tensors[1].dims
    check_axis(axis, tensors[0])
    reached: Dims = (src[axis],)
    check_indices(tensors[1])
    if not 0 <= batch <= min(len(src), len(indices)) or src[:batch] != indices[:batch]:
        raise Misfit(f"the first {batch} dims differ", "use batch_dims=0 if no dims are shared")
    if algorithm == "window":
        if not 0 <= size <= src[axis] or any(n != 1 for n in indices):
            raise Misfit("a window must be no longer than the source and have one index")
        return (*src[:axis], size, *src[axis + 1 :])
    if algorithm == "elements":
        others = [(n, m) for i, (n, m) in enumerate(zip(indices, src, strict=False)) if i != axis]
        if len(indices) != len(src) or any(n > m for n, m in others):
            raise Misfit("the indices have a dim that exceeds the source's", "only the dim of the axis can")
        dims = indices
    elif algorithm == "nd":
        count = indices[-1] if len(indices) > batch else 0
        if not 1 <= count <= len(src) - batch:
            raise Misfit(f"an index has {count} dims, but the source has {len(src) - batch}")
        dims, reached = (*indices[:-1], *src[batch + count :]), src[batch : batch + count]
    elif batch > axis:
        raise Misfit("the axis is one of the batch dims")
    else:
        dims = (*src[:axis], *indices[batch:], *src[axis + 1 :])
    if 0 in reached and 0 not in dims:
        raise Misfit("a dim of the source is empty, so every index is out of range")
    return dims


# --- reversing the start of sequences -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReverseSequenceProblem(OperationProblem):
    """Reverse the start of each sequence: `dst[t, b] = src[lengths[b] - 1 - t, b]` for t below the length.

    Executed with `ARG_SRC`, `ARG_SRC_1` (the lengths) and `ARG_DST`. A length out of range is clamped.
    """

    operation = "reverse_sequence"
    primitive = "ReverseSequence"
    call = "src", "lengths", "dst", "axis", "batch_axis"
    defaults = {"axis": 0, "batch_axis": 1}
    prop_kinds = (PropKind.undef,)
    reads = {ARG_SRC: "src", ARG_SRC_1: "lengths"}
    node_reads = "src", "lengths"
    in_place = False
    onnx = {"ReverseSequence": _reverse_sequence}
    arguments = """
    `axis`: the axis of the elements of a sequence. `batch_axis`: the axis of the sequences, each with one of
    the `lengths`, which are integers. `dst`: format "any" takes that of the source."""

    src: MemoryDesc
    lengths: MemoryDesc
    dst: MemoryDesc
    axis: int
    batch_axis: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> ReverseSequenceProblem:
        (src, dst), lengths = call.forward(), call.known("lengths")
        axis, batch_axis = call.axis(src), call.axis(src, "batch_axis")
        call.same_types(src=src, dst=dst)
        call.check_dims(dst, lambda: _reversed_dims(axis, batch_axis, (src, lengths)), src, lengths)
        return cls(src, lengths, dst, axis, batch_axis, call.attr())

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> Dims:
        return _reversed_dims(node.axis, node.batch_axis, tensors)

    @property
    def verbose_aux(self) -> str:
        return f"axis:{self.axis} batch_axis:{self.batch_axis}"

    def tree(self) -> LoopTree:
        """The loop tree: computes the indices along the axis for each sequence, then gathers."""
        src, dst = (TreeTensor.of_desc(name, as_bits(getattr(self, name))) for name in ("src", "dst"))
        lengths = TreeTensor.of_desc("lengths", as_indices(self.lengths))
        axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.src.dims))
        along, batch = axes[self.axis], axes[self.batch_axis]
        at = TreeTensor.row_major("at", (along.extent, batch.extent), DataType.s64)
        length, place = lengths.load(batch), Coordinate(along + 0)
        is_inside = apply("lt", place, apply("min", length, along.extent))
        backwards = apply("min", length, along.extent) - 1 - place
        index: Place = (*axes[: self.axis], at.load(along, batch), *axes[self.axis + 1 :])
        loops = (
            Each(
                (along, batch),
                (at.store((along, batch), apply("select", is_inside, backwards, place)),),
                number=Number.i64,
            ),
            Each(axes, (dst.store(axes, src.load(*index)),)),
        )
        return LoopTree((src, lengths, dst, at), loops, number=number_of_bits(self.src)).verify()


def _reversed_dims(axis: int, batch_axis: int, tensors: Sequence[Shaped]) -> Dims:
    src, lengths = tensors
    check_axis(axis, src)
    check_axis(batch_axis, src)
    check_indices(lengths)
    if axis == batch_axis or lengths.dims != (src.dims[batch_axis],):
        raise Misfit("batch_axis must differ from axis and have one length for each sequence")
    return src.dims


Gather = make_primitive(GatherProblem)
GatherBackward = make_primitive(GatherBackwardProblem)
ReverseSequence = make_primitive(ReverseSequenceProblem)
