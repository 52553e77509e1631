"""Scatters: elements written to, or combined with those at, positions given by a tensor of indices.

    axis      dst[i, at[k], j] = op(dst[i, at[k], j], updates[i, k, j])       dst begins as src
    elements  dst[..., at[..., k, ...], ...] = op(..., updates[..., k, ...])   indices of the source's rank
    nd        dst[at[k, 0], at[k, 1], j] = op(..., updates[k, j])             the last dim is one index

A negative index counts from the end of its dim; an index still out of range is clamped: memory outside a
tensor is never written. Indices can repeat: updates are applied in memory order, so that the last one wins,
and sums have the same bits for any number of threads. Integer sums and products wrap; each sum of floats is
rounded to the type of the destination.

The gradient of an update is that of the element it was written to, and the source gets none there, unless the
update was added. If updates replace each other, only the last one gets a gradient.

A one-hot tensor has one of two values, depending on whether an index equals the position along an axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Any, ClassVar

import numpy as np

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC_1, ARG_SRC, ARG_SRC_1, ARG_SRC_2
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..ir.expression import Affine, Const, Coordinate, Expr, TreeAxis, apply
from ..ir.numbers import Number
from ..ir.tree import Each, LoopTree, TreeTensor
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, OperationProblem
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, check_axis, check_indices, from_end
from ..runtime.alloc import Array
from .gather import Axis, Place, check_places, check_tuples, index_first
from .programs.bits import as_bits, as_indices, number_of_bits

Dims = tuple[int, ...]

Value = Array | str
_Moved = Annotated[str, "moved"]

REDUCTIONS = "none", "add", "mul", "min", "max"
"""The reduction of an element and its update."""


# --- names --------------------------------------------------------------------------------------------------


def _scatter_elements(
    call: Any, x: _Moved, indices: Value, updates: _Moved, *, axis: int = 0, reduction: str = "none"
) -> Any:
    axis = from_end(axis, len(call.dims(x)))
    check_places(indices, call.dims(x)[axis])
    return call.primitive(
        "Scatter", x, indices, updates, algorithm="elements", axis=axis, reduction=reduction
    )


def _scatter_nd(call: Any, x: _Moved, indices: Value, updates: _Moved, *, reduction: str = "none") -> Any:
    dims, places = call.dims(x), call.dims(indices)
    check_tuples(indices, dims)
    if len(places) == 1:  # one index, and one update
        indices, updates = (call.reshaped(each, (1, *call.dims(each))) for each in (indices, updates))
    found = call.primitive("Scatter", x, indices, updates, algorithm="nd", reduction=reduction)
    return call.reshaped(found, dims)


def _along(call: Any, x: Any, axis: int, indices: Any, updates: Any, reduction: str = "none") -> Any:
    """Scatter updates at one-dimensional indices along an axis."""
    axis, at = from_end(axis, len(call.dims(x))), call.reshaped(indices, (prod(call.dims(indices)),))
    check_places(at, call.dims(x)[axis])
    wanted = (*call.dims(x)[:axis], *call.dims(at), *call.dims(x)[axis + 1 :])
    if not isinstance(updates, str | np.ndarray):
        updates = np.full(wanted, updates, call.type_of(x).numpy)
    return call.primitive(
        *("Scatter", x, at, call.reshaped(updates, wanted)), algorithm="axis", axis=axis, reduction=reduction
    )


def _update(call: Any, x: _Moved, indices: Value, updates: Value, axis: Axis) -> Any:
    return _along(call, x, axis, indices, updates)


def _scatter_of_axis(call: Any, x: _Moved, indices: Value, updates: _Moved, axis: Axis) -> Any:
    return _scatter_elements(call, x, indices, updates, axis=axis)


_OF_TORCH = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


def _aten_scatter(call: Any, x: Any, dim: int, index: Any, updates: Any, *, reduce: Any = None) -> Any:
    if reduce is not None and reduce not in _OF_TORCH:
        raise call.unimplemented(f"its reduction is {reduce!r}")
    return _reduced(call, x, dim, index, updates, "none" if reduce is None else _OF_TORCH[reduce])


def _reduced(call: Any, x: Any, dim: int, index: Any, updates: Any, reduction: str) -> Any:
    """Scatter as many updates as there are indices, or one number for all of them."""
    dims = call.dims(index)
    if not isinstance(updates, str | np.ndarray) or not call.dims(updates):
        if isinstance(updates, str):
            raise call.unimplemented("its value is known only at execution", "pass a tensor of updates")
        updates = np.full(dims, updates, call.type_of(x).numpy)
    elif call.dims(updates) != dims:
        updates = call.onnx("Slice", updates, (0,) * len(dims), dims)
    return _scatter_elements(call, call.placed(x), index, call.placed(updates), axis=dim, reduction=reduction)


def _means(write: Any) -> Any:
    """Return a reducing scatter by `write`: elements not to be included are first replaced by the neutral
    element; a mean is a sum and a count.
    """

    def run(
        call: Any, x: Any, dim: int, index: Any, updates: Any, reduce: Any, *, include_self: bool = True
    ) -> Any:
        is_mean, kind, apart = reduce == "mean", call.type_of(x).numpy, call.with_outputs(0)
        op, x = "add" if is_mean else _OF_TORCH[reduce], call.placed(x)
        if not include_self:
            ends = (-np.inf, np.inf) if kind.kind not in "iu" else (np.iinfo(kind).min, np.iinfo(kind).max)
            nothing = {"add": 0, "mul": 1, "max": ends[0], "min": ends[1]}[op]
            x = write(apart, x, dim, index, nothing, "none")
        found = write(apart, x, dim, index, updates, op)
        if not is_mean:
            return found
        start = apart.placed(np.full(call.dims(x), include_self, kind))
        counts = apart.elements("max", write(apart, start, dim, index, 1, "add"), np.array(1, kind))
        return call.elements("floor_divide" if kind.kind in "iu" else "div", found, counts)

    return run


def _index_put(call: Any, x: Any, indices: Any, updates: Any, accumulate: bool = False) -> Any:
    """Run `x[i, :, j] = updates` with broadcast updates. A mask becomes the indices where it is true."""
    masks = [at for at in indices if at is not None and call.type_of(at) is DataType.boolean]
    if any(isinstance(mask, str) for mask in masks):
        if sum(at is not None for at in indices) > 1:
            raise call.unimplemented("it has a mask known only at execution together with other indices")
        return _put_where(call, x, indices, updates, accumulate)
    known = [np.nonzero(at) if at is not None and at in masks else (at,) for at in indices] if masks else ()
    indices = [at for part in known for at in part] if masks else indices
    axes = [axis for axis, at in enumerate(indices) if at is not None]
    order, at = index_first(call, x, axes, [indices[axis] for axis in axes])
    own, places = call.dims(x), call.dims(at)[:-1]
    # If the axes are adjacent, the dims of indices take their place; otherwise they come first.
    front = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    rest = [n for axis, n in enumerate(own) if axis not in axes]
    wanted, dims = (*rest[:front], *places, *rest[front:]), call.dims(updates)
    updates = call.reshaped(updates, (*(1,) * (len(wanted) - len(dims)), *dims))
    repeats = tuple(n // m if m else 1 for n, m in zip(wanted, call.dims(updates), strict=True))
    first = range(front, front + len(places))
    updates = call.transposed(
        call.placed(call.onnx("Tile", updates, repeats)),
        [*first, *(axis for axis in range(len(wanted)) if axis not in first)],
    )
    turned = call.transposed(call.placed(x), order)
    found = _scatter_nd(call, turned, at, updates, reduction="add" if accumulate else "none")
    return call.transposed(found, [order.index(axis) for axis in range(len(own))])


def _put_where(call: Any, x: Any, indices: Any, updates: Any, accumulate: bool) -> Any:
    """Run `x[:, mask] = updates`, where all elements selected by the mask share one update."""
    front, mask = next((axis, at) for axis, at in enumerate(indices) if at is not None)
    masked, rank = len(call.dims(mask)), len(call.dims(x))
    dims = (*(1,) * (rank - masked + 1 - len(call.dims(updates))), *call.dims(updates))
    if dims[front] != 1:
        raise call.unimplemented("which update an element takes depends on values", "use torch.where")
    mask = call.reshaped(mask, (*(1,) * front, *call.dims(mask), *(1,) * (rank - masked - front)))
    updates = call.reshaped(updates, (*dims[:front], *(1,) * masked, *dims[front + 1 :]))
    return call.onnx("Where", mask, call.onnx("Add", x, updates) if accumulate else updates, x)


def _one_hot(
    call: Any, indices: Value, depth: Annotated[Array, "the depth"], values: Value, *, axis: int = -1
) -> Any:
    dims, count = call.dims(indices), int(depth.reshape(-1)[0])
    axis = from_end(axis, len(dims) + 1)
    if not call.type_of(indices).is_integral:
        indices = call.onnx("Cast", indices, to=_S64)
    at = call.reshaped(indices, dims or (1,))
    found = call.primitive("OneHot", at, values, axis=axis if dims else 1, depth=count)
    return call.reshaped(found, (*dims[:axis], count, *dims[axis:]))


_S64 = 7
"""ONNX's number for it."""


# --- the primitives -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScatterProblem(OperationProblem):
    """The scatter primitive: `dst = src`, then `dst[..., indices[k], ...] = updates[..., k, ...]` in order.

    Executed with `ARG_SRC`, `ARG_SRC_1` (the indices), `ARG_SRC_2` (the updates) and `ARG_DST`, which can be
    the source if both are alike. A negative index counts from the end; an index out of range is clamped.
    """

    operation = "scatter"
    primitive = "Scatter"
    call = "algorithm", "src", "indices", "updates", "dst", "axis", "reduction"
    defaults = {"axis": 0, "reduction": "none"}
    prop_kinds = (PropKind.undef,)
    algorithms = "axis", "elements", "nd"
    reads = {ARG_SRC: "src", ARG_SRC_1: "indices", ARG_SRC_2: "updates"}
    node_reads = "src", "indices", "updates"
    onnx = {
        "Scatter": _scatter_elements,
        "ScatterElements": _scatter_elements,
        "ScatterND": _scatter_nd,
    }
    aten = {
        "index_add": lambda call, x, dim, index, updates, *, alpha=1: _along(
            call, x, dim, index, updates if alpha == 1 else call.onnx("Mul", updates, alpha), "add"
        ),
        "index_copy": _along,
        "index_put": _index_put,
        "index_reduce": _means(_along),
        "scatter": _aten_scatter,
        "scatter_add": lambda call, x, dim, index, updates: _reduced(call, x, dim, index, updates, "add"),
        "scatter_reduce": _means(_reduced),
    }
    openvino = {
        "ScatterElementsUpdate": _scatter_of_axis,
        "ScatterNDUpdate": "ScatterND",
        "ScatterUpdate": _update,
    }
    arguments = """
    `algorithm`: "scatter_axis" writes slices of the updates to one-dimensional indices along `axis`,
    "scatter_elements" each update to its own index, "scatter_nd" slices to the indices in the last dim of
    `indices`. `reduction`: "none", or how an update is combined with the existing element: "add", "mul",
    "min", "max". `indices`: integers of 8 bits or more. `dst`: format "any" takes that of the source."""

    algorithm: str
    src: MemoryDesc
    indices: MemoryDesc
    updates: MemoryDesc
    dst: MemoryDesc
    axis: int
    reduction: str
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> ScatterProblem:
        algorithm, (src, dst) = call.algorithm(), call.forward()
        indices, updates = call.known("indices"), call.known("updates")
        axis, reduction = call.axis(src), call.word("reduction", *REDUCTIONS)
        call.same_types(src=src, updates=updates, dst=dst)
        tensors = src, indices, updates
        call.check_dims(dst, lambda: _result_dims(algorithm, axis, reduction, tensors), *tensors)
        return cls(algorithm, src, indices, updates, dst, axis, reduction, call.attr())

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> Dims:
        axis, reduction = getattr(node, "axis", 0), getattr(node, "reduction", "none")
        return _result_dims(node.algorithm.removeprefix("scatter_"), axis, reduction, tensors)

    @property
    def verbose_aux(self) -> str:
        return f"alg:scatter_{self.algorithm} axis:{self.axis} reduction:{self.reduction}"

    def tree(self) -> LoopTree:
        """The loop tree: a copy, then the updates in order."""
        kind = self.src.data_type
        op, number = self.reduction, number_of_bits(self.src)
        if op != "none" and kind is DataType.boolean:
            op = {"add": "max", "mul": "min"}.get(op, op)
        elif op != "none":
            number = number_of_values(kind)
        moved = {name: as_bits(getattr(self, name)) for name in ("src", "updates", "dst")}
        src, updates, dst = (TreeTensor.of_desc(name, md) for name, md in moved.items())
        indices = TreeTensor.of_desc("indices", as_indices(self.indices))
        index, at, around, in_order = self.places(indices)
        value = combined(op, dst.load(*index), updates.load(*at), kind)
        every = tuple(TreeAxis(f"c{i}", n) for i, n in enumerate(self.src.dims))
        loops = (
            Each(every, (dst.store(every, src.load(*every)),), number=number_of_bits(self.src)),
            Each(around, (Each(in_order, (dst.store(index, value),), in_order=True),)),
        )
        return LoopTree((src, indices, updates, dst), loops, number=number).verify()

    def places(
        self, indices: TreeTensor, *, is_backwards: bool = False
    ) -> tuple[Place, Place, tuple[TreeAxis, ...], tuple[TreeAxis, ...]]:
        """Return the destination index of an update, its index in the updates, the outer axes, and the
        ordered inner ones; `is_backwards`: these begin with the last update.
        """
        axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.updates.dims))
        first, count = (0, self.indices.ndims - 1) if self.algorithm == "nd" else (self.axis, 1)
        ordered = slice(first, first + count)
        at: Place = axes
        if is_backwards:
            last_first = (Affine(((axis.name, -1),), axis.extent - 1) for axis in axes[ordered])
            at = (*axes[:first], *last_first, *axes[first + count :])
        if self.algorithm == "nd":
            places = (indices.load(*at[ordered], place) for place in range(self.indices.dims[-1]))
            index: Place = (*places, *at[count:])
        else:
            place = indices.load(*(at if self.algorithm == "elements" else at[ordered]))
            index = (*at[:first], place, *at[first + 1 :])
        return index, at, (*axes[:first], *axes[first + count :]), axes[ordered]


@dataclass(frozen=True, slots=True)
class ScatterBackwardProblem(GradientProblem):
    """The gradients of source and updates, for the reductions "none" and "add".

    Executed with `ARG_DIFF_DST`, `ARG_SRC_1` (the indices), `ARG_DIFF_SRC` and `ARG_DIFF_SRC_1` (the gradient
    of the updates). Unless updates are added, only the last update of an element gets its gradient; other
    updates and the source get zeros.
    """

    operation = "scatter"
    primitive = "ScatterBackward"
    call = "algorithm", "diff_src", "indices", "diff_updates", "diff_dst", "axis", "reduction"
    defaults = ScatterProblem.defaults
    algorithms = ScatterProblem.algorithms
    reads = {ARG_DIFF_DST: "diff_dst", ARG_SRC_1: "indices"}
    also_writes: ClassVar = {ARG_DIFF_SRC_1: "diff_updates"}
    in_place = False
    arguments = """
    Parameters are as in the forward step; `reduction` is "none" or "add". `diff_src` and `diff_updates`:
    format "any" follows `diff_dst`."""

    algorithm: str
    diff_src: MemoryDesc
    indices: MemoryDesc
    diff_updates: MemoryDesc
    diff_dst: MemoryDesc
    axis: int
    reduction: str
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> ScatterBackwardProblem:
        algorithm, indices, diff_dst = call.algorithm(), call.known("indices"), call.known("diff_dst")
        diff_src, diff_updates = call.written("diff_src", diff_dst), call.written("diff_updates", diff_dst)
        axis, reduction = call.axis(diff_src), call.word("reduction", "none", "add")
        call.same_types(diff_dst=diff_dst, diff_src=diff_src, diff_updates=diff_updates)
        tensors = diff_src, indices, diff_updates
        call.check_dims(
            *(diff_dst, lambda: _result_dims(algorithm, axis, reduction, tensors), *tensors), name="diff_dst"
        )
        return cls(algorithm, *tensors, diff_dst, axis, reduction, call.attr())

    def forward(self) -> ScatterProblem:
        """The forward step, on tensors with the gradients' descriptors."""
        tensors = self.diff_src, self.indices, self.diff_updates, self.diff_dst
        return ScatterProblem(self.algorithm, *tensors, self.axis, self.reduction)

    @property
    def verbose_aux(self) -> str:
        return self.forward().verbose_aux

    def tree(self) -> LoopTree:
        """The loop tree: a copy, from which the last update takes each gradient, leaving a zero."""
        gradient, of_updates, out = (
            TreeTensor.of_desc(name, as_bits(getattr(self, name)))
            for name in ("diff_dst", "diff_updates", "diff_src")
        )
        indices = TreeTensor.of_desc("indices", as_indices(self.indices))
        replaces = self.reduction == "none"
        index, at, around, in_order = self.forward().places(indices, is_backwards=replaces)
        take = of_updates.store(at, out.load(*index)), *((out.store(index, Const(0)),) if replaces else ())
        every = tuple(TreeAxis(f"c{i}", n) for i, n in enumerate(self.diff_src.dims))
        loops = (
            Each(every, (out.store(every, gradient.load(*every)),)),
            Each(around, (Each(in_order, take, in_order=replaces),)),
        )
        number = number_of_bits(self.diff_dst)
        return LoopTree((gradient, indices, out, of_updates), loops, number=number).verify()


def number_of_values(data_type: DataType) -> Number:
    """Return the type in which elements are added and compared: integers that wrap like theirs."""
    if data_type.kind == "float":
        return Number.real(is_wide=data_type is DataType.f64)
    is_signed = data_type.kind == "int"
    return Number.integer(min(max(8, data_type.bits * (1 if is_signed else 2)), 64))


def combined(op: str, old: Expr, new: Expr, data_type: DataType) -> Expr:
    """Return two elements combined; for floats, NaN wins both the minimum and the maximum."""
    if op == "none":
        return new
    if op in ("add", "mul"):
        return apply(op, old, new)
    if data_type is DataType.u64:  # signed integers are compared
        flipped = (each + -(2.0**63) for each in (old, new))
        return apply(op, *flipped) + -(2.0**63)
    found = apply(op, old, new)
    return found if data_type.kind != "float" else apply("select", apply("ne", old, old), old, found)


def _result_dims(algorithm: str, axis: int, reduction: str, tensors: Sequence[Shaped]) -> Dims:
    """Return the dims of a scatter's result: those of the source. Raises Misfit."""
    src, indices, updates = (tensor.dims for tensor in tensors)
    check_axis(axis, tensors[0])
    check_indices(tensors[1])
    if reduction != "none" and tensors[0].data_type.bits < 8:
        raise Misfit("4-bit elements can only be moved", "reorder into s8 first")
    reached: Dims = (src[axis],)
    if algorithm == "nd":
        count = indices[-1]
        if not 1 <= count <= len(src):
            raise Misfit(f"an index has {count} dims, but the source has {len(src)}")
        wanted, reached = (*indices[:-1], *src[count:]), src[:count]
    elif algorithm == "axis":
        if len(indices) != 1:
            raise Misfit("the indices along an axis must have one dim")
        wanted = (*src[:axis], *indices, *src[axis + 1 :])
    else:
        wanted = indices
        others = [(n, m) for i, (n, m) in enumerate(zip(indices, src, strict=False)) if i != axis]
        if len(indices) != len(src) or any(n > m for n, m in others):
            raise Misfit("the indices have a dim that exceeds the source's", "only the dim of the axis can")
    if updates != (wanted or (1,)):
        raise Misfit(f"the dims of the updates must be {wanted}")
    if 0 in reached and 0 not in updates:
        raise Misfit("a dim of the source is empty, so every index is out of range")
    return src


# --- one-hot ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OneHotProblem(OperationProblem):
    """The one-hot primitive: `dst[i, k, j] = values[1]` where k is `src[i, j]`, else `values[0]`.

    Executed with `ARG_SRC` (indices), `ARG_SRC_1` (both values) and `ARG_DST`. A negative index counts from
    the end; one out of range selects no position.
    """

    operation = "one_hot"
    primitive = "OneHot"
    call = "src", "values", "dst", "axis"
    prop_kinds = (PropKind.undef,)
    reads = {ARG_SRC: "src", ARG_SRC_1: "values"}
    node_reads = "src", "values"
    onnx = {"OneHot": _one_hot}
    aten = {
        "one_hot": lambda call, x, num_classes=-1: call.onnx(
            "OneHot", x, (num_classes,), np.array([0, 1], np.int64)
        )
    }
    in_place = False
    arguments = """
    `src`: integers of 8 bits or more. `values`: two of the destination's type. `dst` has one more dim,
    `axis`; format "any" is row-major."""

    src: MemoryDesc
    values: MemoryDesc
    dst: MemoryDesc
    axis: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> OneHotProblem:
        src, values = call.known("src"), call.known("values")
        dst = call.written("dst", src)
        axis = call.axis(dst)
        call.same_types(values=values, dst=dst)
        call.check_dims(dst, lambda: _one_hot_dims(axis, dst.dims[axis], (src, values)), src, values)
        return cls(src, values, dst, axis, call.attr())

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> Dims:
        """`node.depth`: the number of positions."""
        return _one_hot_dims(node.axis, node.depth, tensors)

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        return (tensors[1].data_type,)

    @property
    def verbose_aux(self) -> str:
        return f"axis:{self.axis}"

    def tree(self) -> LoopTree:
        """The loop tree: each element tests whether it is selected."""
        src = TreeTensor.of_desc("src", as_indices(self.src))
        values, dst = (TreeTensor.of_desc(name, as_bits(getattr(self, name))) for name in ("values", "dst"))
        axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.dst.dims))
        along, others = axes[self.axis], (*axes[: self.axis], *axes[self.axis + 1 :])
        index, place = src.load(*others), Coordinate(along + 0)
        is_there = apply("max", apply("eq", index, place), apply("eq", index + along.extent, place))
        value = apply("select", is_there, values.load(1), values.load(0))
        bits = max(32, number_of_bits(self.dst, self.src).bits * (1 + (self.src.data_type is DataType.u32)))
        loop = Each(axes, (dst.store(axes, value),))
        return LoopTree((src, values, dst), (loop,), number=Number.integer(min(bits, 64))).verify()


def _one_hot_dims(axis: int, depth: int, tensors: Sequence[Shaped]) -> Dims:
    src, values = tensors
    check_indices(src)
    if not 0 <= axis <= len(src.dims) or values.dims != (2,) or depth < 0:
        raise Misfit("there must be two values, and one more dim than the indices have")
    return (*src.dims[:axis], depth, *src.dims[axis:])


Scatter = make_primitive(ScatterProblem)
ScatterBackward = make_primitive(ScatterBackwardProblem)
OneHot = make_primitive(OneHotProblem)
