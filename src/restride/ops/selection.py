"""Selection: the positions and values of the largest or smallest elements along an axis; sorting.

    arg_reduction  the index of the largest or smallest along an axis; among equal ones the first, or the last
    top_k          as many as the destination has along the axis, in order, and their indices

Elements are compared as integers in the same order (`programs/bits.py`), so that values are preserved
exactly. -0 equals 0. NaN is above everything; a search for one smallest element chooses it too. Equal
elements keep their order. `top_k` examines 2 * sqrt(n) of n elements for each result, and needs a key of 4 or
8 bytes for each element: sorting a whole axis takes n**1.5 steps, of which a vector does one per lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Any, ClassVar

import numpy as np

from ..desc.arguments import ARG_DST_1
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..ir.expression import Affine, Coordinate, Expr, Index, Load, Ref, TreeAxis, apply
from ..ir.tree import Each, Fold, Guard, Item, LoopTree, TreeTensor, fold_over
from ..model.derived import make_primitive
from ..model.operation import OperationProblem
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, check_axis, check_indices, from_end
from .programs.bits import LEAST, NEVER, as_bits, downwards, key_of, number_of_bits, number_of_keys
from .softmax import axes_of

Dims = tuple[int, ...]
_Moved = Annotated[str, "moved"]


# --- names --------------------------------------------------------------------------------------------------


def _arg(algorithm: str) -> Any:
    def run(
        call: Any, x: _Moved, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False
    ) -> Any:
        dims = call.dims(x)
        axis = from_end(axis, len(dims))
        found = call.primitive(
            "ArgReduction", x, algorithm=algorithm, axis=axis, select_last=select_last_index
        )
        return found if keepdims else call.reshaped(found, (*dims[:axis], *dims[axis + 1 :]))

    return run


def _aten_arg(algorithm: str) -> Any:
    def run(call: Any, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        dims, own = call.dims(x), x
        if dim is None or not dims:
            own, dim = call.reshaped(x, (prod(dims),)), 0
        found = _arg(algorithm)(call, call.placed(own), axis=dim)
        if keepdim:
            return call.reshaped(found, (1,) * len(dims) if own is not x else call.dims(found))
        at = from_end(dim, len(call.dims(own)))
        left = call.dims(found)
        return call.reshaped(found, (*left[:at], *left[at + 1 :]))

    return run


def _aten_end(algorithm: str) -> Any:
    """Return the largest element of all; or along a dim, with its position; or of two tensors."""

    def run(call: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        word = algorithm.capitalize()
        if dim is None:
            return call.onnx(f"Reduce{word}", x, keepdims=False)
        if not isinstance(dim, int):
            return call.onnx(word, x, dim)
        dims = call.dims(x)
        axis, apart = from_end(dim, len(dims)), call.with_outputs(0)
        at = _arg(algorithm)(apart, call.placed(x), axis=axis)
        found = apart.onnx("GatherElements", x, at, axis=axis)
        left = call.dims(at) if keepdim else (*dims[:axis], *dims[axis + 1 :])
        return apart.reshaped(found, left), apart.reshaped(at, left)

    return run


def _top_k(
    call: Any,
    x: _Moved,
    k: Annotated[int, "how many it takes"],
    *,
    axis: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> Any:
    """Sort even if that is not requested."""
    return _first_ones(call, x, k, axis, largest)


def _top_k_of_mode(
    call: Any,
    x: _Moved,
    k: Annotated[int, "how many it takes"],
    *,
    axis: int,
    mode: str,
    sort: str = "value",
    index_element_type: str = "i32",
) -> Any:
    kind = DataType.parse(f"s{index_element_type[1:]}")
    return _first_ones(call, x, k, axis, mode == "max", kind)


def _first_ones(
    call: Any, x: Any, k: int, axis: int, largest: bool, index_type: DataType = DataType.s64
) -> tuple[str, str]:
    axis, word = from_end(axis, len(call.dims(x))), "largest" if largest else "smallest"
    found: tuple[str, str] = call.primitive("TopK", x, algorithm=word, axis=axis, k=k, index_type=index_type)
    return found


def _kth(call: Any, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the k-th smallest element along a dim, and its position."""
    dims, apart = call.dims(x), call.with_outputs(0)
    x = apart.placed(apart.reshaped(x, dims or (1,)))
    axis = from_end(dim, max(len(dims), 1))
    ones = _first_ones(apart, x, k, axis, largest=False)
    left = [1 if i == axis and keepdim else n for i, n in enumerate(dims) if i != axis or keepdim]
    return tuple(
        apart.reshaped(apart.onnx("Slice", each, (k - 1,), (k,), (axis,), (1,)), left) for each in ones
    )


def _median(call: Any, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the lower of the two middle elements; NaN if there is one, which a `nanmedian` skips."""
    dims, apart, is_all = call.dims(x), call.with_outputs(0), dim is None
    own = (prod(dims),) if is_all or not dims else dims
    x = apart.placed(apart.reshaped(x, own))
    axis = 0 if dim is None else from_end(dim, len(own))
    count = own[axis]
    if not count:
        raise call.unimplemented("an empty tensor has no median")
    values, places = _first_ones(apart, x, count, axis, largest=False)
    middle: Any = np.full((*own[:axis], 1, *own[axis + 1 :]), (count - 1) // 2, np.int64)
    if call.type_of(x).kind == "float":
        is_number = apart.onnx("Not", apart.onnx("IsNaN", x))
        numbers = apart.onnx("ReduceSum", apart.onnx("Cast", is_number, to=_S64), (axis,))
        middle = apart.elements("floor_divide", apart.elements("sub", numbers, np.array(1)), np.array(2))
        if call.node.operator == "aten.median":
            has_all = apart.elements("eq", numbers, np.array(count))
            middle = apart.onnx("Where", has_all, middle, numbers)
        middle = apart.elements("max", middle, np.array(0))
    left = (
        ()
        if is_all or not dims
        else [1 if i == axis and keepdim else n for i, n in enumerate(dims) if i != axis or keepdim]
    )
    found, at = (
        apart.reshaped(apart.onnx("GatherElements", each, middle, axis=axis), left)
        for each in (values, places)
    )
    return found if is_all else (found, at)


_S64 = 7
"""ONNX's number for it."""


def _sort(call: Any, x: Any, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    dims = call.dims(x)
    return _first_ones(call, x, dims[from_end(dim, len(dims))], dim, descending)


# --- one extreme --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArgReductionProblem(OperationProblem):
    """The index of the largest or smallest element along an axis, where the destination is 1.

    Executed with `ARG_SRC` and `ARG_DST`. NaN is chosen before any number.
    """

    operation = "arg_reduction"
    primitive = "ArgReduction"
    call = "algorithm", "src", "dst", "axis", "select_last"
    defaults = {"select_last": False}
    prop_kinds = (PropKind.undef,)
    algorithms = "max", "min"
    in_place = False
    onnx = {"ArgMax": _arg("max"), "ArgMin": _arg("min")}
    aten = {
        "argmax": _aten_arg("max"),
        "argmin": _aten_arg("min"),
        "max": _aten_end("max"),
        "min": _aten_end("min"),
    }
    arguments = """
    `algorithm`: "arg_reduction_max" or "arg_reduction_min". `dst`: integers of 8 bits or more, with the dims
    of the source but 1 along `axis`; format "any" follows the source. `select_last`: among equal elements,
    choose the last."""

    algorithm: str
    src: MemoryDesc
    dst: MemoryDesc
    axis: int
    select_last: bool
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> ArgReductionProblem:
        algorithm, src = call.algorithm(), call.known("src")
        axis, dst = call.axis(src), call.written("dst", src)
        call.check_dims(dst, lambda: _arg_dims(axis, src, dst), src)
        return cls(algorithm, src, dst, axis, call.flag("select_last"), call.attr())

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> Dims:
        return _arg_dims(node.axis, tensors[0])

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        return (DataType.s64,)

    @property
    def verbose_aux(self) -> str:
        return f"alg:arg_reduction_{self.algorithm} axis:{self.axis}{' last' * self.select_last}"

    def tree(self) -> LoopTree:
        """The loop tree: a fold of keys with their positions."""
        src, dst = TreeTensor.of_desc("src", as_bits(self.src)), TreeTensor.of_desc("dst", self.dst)
        index, outer, along = axes_of(self.src.dims, self.axis)
        key = key_of(src.load(*index), self.src.data_type)
        if self.algorithm == "min":
            is_nan = apply("eq", key, NEVER)
            has_nan = self.src.data_type.kind == "float"
            key = apply("select", is_nan, NEVER, downwards(key)) if has_nan else downwards(key)
        end = along.extent - 1
        place = Affine(((along.name, -1),), end) if self.select_last else along + 0
        fold = Fold("argmax", ("most", "found"), (key, Coordinate(place)))
        found: Expr = apply("sub", end, Ref("found")) if self.select_last else Ref("found")
        at = tuple(0 if i == self.axis else axis for i, axis in enumerate(index))
        loop = Each(outer, (Each((along,), (fold,)), dst.store(at, found)))
        return LoopTree((src, dst), (loop,), number=number_of_keys(self.src.data_type)).verify()


def _arg_dims(axis: int, src: Shaped, dst: Shaped | None = None) -> Dims:
    check_axis(axis, src)
    if dst is not None:
        check_indices(dst)
    dims = (*src.dims[:axis], 1, *src.dims[axis + 1 :])
    if not src.dims[axis] and 0 not in dims:
        raise Misfit("an empty axis has no largest element")
    return dims


# --- several extremes in order ------------------------------------------------------------------------------

# An axis of at most this many elements is one block.
_SHORT = 64


@dataclass(frozen=True, slots=True)
class TopKProblem(OperationProblem):
    """The largest or smallest elements along an axis, in order, and their indices; taking all sorts it.

    Executed with `ARG_SRC`, `ARG_DST` and `ARG_DST_1` (the indices). NaN is the largest; equal elements keep
    their order.
    """

    operation = "top_k"
    primitive = "TopK"
    call = "algorithm", "src", "dst", "indices", "axis"
    prop_kinds = (PropKind.undef,)
    algorithms = "largest", "smallest"
    also_writes: ClassVar = {ARG_DST_1: "indices"}
    node_writes = "dst", "indices"
    onnx = {"TopK": _top_k}
    aten = {
        "argsort": lambda call, *args, stable=None: _sort(call, *args)[1],
        "kthvalue": _kth,
        "median": _median,
        "nanmedian": _median,
        "sort": _sort,
        "topk": lambda call, x, k, dim=-1, largest=True, sorted=True: _first_ones(call, x, k, dim, largest),
    }
    openvino = {"TopK": _top_k_of_mode}
    in_place = False
    arguments = """
    `algorithm`: "top_k_largest" or "top_k_smallest". `dst` has the dims of the source, except along `axis`,
    where it has the number of results; `indices` has its dims and is of integers of 8 bits or more. Format
    "any" follows the source."""

    algorithm: str
    src: MemoryDesc
    dst: MemoryDesc
    indices: MemoryDesc
    axis: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> TopKProblem:
        algorithm, src = call.algorithm(), call.known("src")
        axis, dst = call.axis(src), call.written("dst", src)
        indices = call.written("indices", dst)
        call.same_types(src=src, dst=dst)
        count = dst.dims[axis] if dst.ndims == src.ndims else 0
        call.check_dims(dst, lambda: _top_dims(axis, count, src, indices), src)
        call.same_dims(dst=dst, indices=indices)
        return cls(algorithm, src, dst, indices, axis, call.attr())

    @classmethod
    def results_dims(cls, node: Any, *tensors: Shaped) -> tuple[Dims, ...]:
        """`node.k`: the number of results."""
        dims = _top_dims(node.axis, node.k, tensors[0])
        return dims, dims

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        """`node.index_type`: the type of the indices, if it is not s64."""
        return tensors[0].data_type, getattr(node, "index_type", DataType.s64)

    @property
    def verbose_aux(self) -> str:
        return f"alg:top_k_{self.algorithm} axis:{self.axis} k:{self.dst.dims[self.axis]}"

    def tree(self) -> LoopTree:
        """The loop tree: first the positions of the results, then the elements there."""
        src, dst = (TreeTensor.of_desc(name, as_bits(getattr(self, name))) for name in ("src", "dst"))
        indices = TreeTensor.of_desc("indices", self.indices)
        number = number_of_keys(self.src.data_type)
        index, outer, along = axes_of(self.src.dims, self.axis)
        turn = TreeAxis("turn", self.dst.dims[self.axis])
        at = TreeTensor.row_major("at", tuple(axis.extent for axis in (*outer, turn)), number.storage)

        def element(place: Index | TreeAxis) -> Load:
            return src.load(*index[: self.axis], place, *index[self.axis + 1 :])

        def key(place: Affine) -> Expr:
            found = key_of(element(place), self.src.data_type)
            return downwards(found) if self.algorithm == "smallest" else found

        tensors, loops = _places_of_largest(key, (outer, along, turn), at)
        to, place = (*index[: self.axis], turn, *index[self.axis + 1 :]), at.load(*outer, turn)
        results = (
            Each(to, (indices.store(to, place),)),
            Each(to, (dst.store(to, element(place)),), number=number_of_bits(self.src)),
        )
        tree = LoopTree((src, dst, indices, at, *tensors), (*loops, *results), number=number)
        return tree.verify()

    @property
    def work_bytes(self) -> int:
        count, size = _blocks_of(self.src.dims[self.axis])
        return self.moved_bytes + 4 * self.dst.nelems * (count + size)


def _top_dims(axis: int, count: int, src: Shaped, indices: Shaped | None = None) -> Dims:
    check_axis(axis, src)
    if indices is not None:
        check_indices(indices)
    if not 0 <= count <= src.dims[axis]:
        raise Misfit(f"k is {count}, but the axis has {src.dims[axis]} elements")
    return (*src.dims[:axis], count, *src.dims[axis + 1 :])


def _blocks_of(extent: int) -> tuple[int, int]:
    """Return the number of blocks of an axis, and their length: about equal."""
    size = extent if extent <= _SHORT else 1 << ((extent - 1).bit_length() + 1) // 2
    return -(-extent // max(size, 1)), size


def _places_of_largest(
    key: Callable[[Affine], Expr], loops: tuple[Sequence[TreeAxis], TreeAxis, TreeAxis], at: TreeTensor
) -> tuple[tuple[TreeTensor, ...], tuple[Each, ...]]:
    """Return the tensors and loops that find the positions of the largest keys, in order.

    `loops`: the outer axes, that of the elements, and that of the results. The largest key of each block is
    kept. So each result examines one key per block, and then the block it came from, for the next largest
    key. Padding past the end has the smallest key at the last positions: it is never reached.
    """
    outer, along, turn = loops
    block, inside = map(TreeAxis, ("block", "inside"), _blocks_of(along.extent))
    sizes = tuple(axis.extent for axis in (*outer, block, inside))
    keys, most, place = (
        TreeTensor.row_major(name, sizes[: len(sizes) - less], at.data_type)
        for name, less in (("key", 0), ("most", 1), ("place", 1))
    )
    chosen = TreeTensor.row_major("chosen", sizes[:-2] or (1,), at.data_type)
    around, every = tuple(outer), block * inside.extent + inside
    blocks, elements, which = (*around, block), (*around, block, inside), chosen.load(*(around or (0,)))
    own = keys.load(*around, which, inside)
    here = Ref("which") * float(inside.extent) + Coordinate(inside + 0)
    is_behind = apply("and", apply("eq", own, Ref("largest")), apply("gt", here, Ref("found")))
    is_behind = apply("max", is_behind, apply("lt", own, Ref("largest")))
    next_one = (apply("select", is_behind, own, LEAST), apply("select", is_behind, here, NEVER))
    is_there = apply("eq", place.load(*blocks), Ref("found"))
    body: tuple[Item, ...] = (
        Each((block,), (Fold("argmax", ("largest", "found"), (most.load(*blocks), place.load(*blocks))),)),
        at.store((*around, turn), Ref("found")),
        Each((block,), (fold_over("max", "which", apply("select", is_there, Coordinate(block + 0), 0)),)),
        chosen.store(around or (0,), Ref("which")),
        Each((inside,), (Fold("argmax", ("next", "next_place"), next_one),)),
        most.store((*around, which), Ref("next")),
        place.store((*around, which), Ref("next_place")),
    )
    of_block = Fold("argmax", ("largest", "found"), (keys.load(*elements), Coordinate(every)))
    return (keys, most, place, chosen), (
        Each(elements, (keys.store(elements, LEAST),)),
        Each(elements, (keys.store(elements, key(every)),), (Guard(every, along.extent),)),
        Each(
            blocks,
            (
                Each((inside,), (of_block,)),
                most.store(blocks, Ref("largest")),
                place.store(blocks, Ref("found")),
            ),
        ),
        Each(around, (Each((turn,), body, in_order=True),)),
    )


ArgReduction = make_primitive(ArgReductionProblem)
TopK = make_primitive(TopKProblem)
