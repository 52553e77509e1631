"""Selection: where the largest or smallest elements along an axis are, and which; sorting.

    arg_reduction  the index of the largest or smallest along an axis; of equal ones the first, or the last
    top_k          as many as the destination has along the axis, in order, and their indices

Elements are compared as integers that stand in their order (`programs/bits.py`), so that values come out as
they are. -0 equals 0. NaN is above all; where one smallest is looked for it is chosen too. Of equal ones the
first stands first. `top_k` goes through the axis once for each of few results. For many it sorts all of it,
by a network of comparisons: n * log(n)**2 / 4 of them, which take 8 to 16 bytes of memory an element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from ..desc.arguments import ARG_DST_1
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..ir.expression import Affine, Const, Coordinate, Expr, Ref, TreeAxis, apply
from ..ir.tree import Each, Fold, Item, Let, LoopTree, TreeTensor
from ..model.derived import make_primitive
from ..model.operation import OperationProblem
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, check_axis, check_indices, from_end
from .gather import Place
from .programs.bits import NEVER, as_bits, downwards, key_of, number_of_bits, number_of_keys
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
            own, dim = call.reshaped(x, (-1,)), 0
        found = _arg(algorithm)(call, call.placed(own), axis=dim)
        if keepdim:
            return call.reshaped(found, (1,) * len(dims) if own is not x else call.dims(found))
        at = from_end(dim, len(call.dims(own)))
        left = call.dims(found)
        return call.reshaped(found, (*left[:at], *left[at + 1 :]))

    return run


def _aten_end(algorithm: str) -> Any:
    """The largest element of all; or along a dim, and where it is; or of two."""

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
    """What need not be sorted is sorted too."""
    return _first_ones(call, x, k, axis, largest)


def _first_ones(
    call: Any, x: Any, k: int, axis: int, largest: bool, index_type: DataType = DataType.s64
) -> tuple[str, str]:
    axis, word = from_end(axis, len(call.dims(x))), "largest" if largest else "smallest"
    found: tuple[str, str] = call.primitive("TopK", x, algorithm=word, axis=axis, k=k, index_type=index_type)
    return found


def _sort(call: Any, x: Any, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    dims = call.dims(x)
    return _first_ones(call, x, dims[from_end(dim, len(dims))], dim, descending)


# --- one of the largest -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArgReductionProblem(OperationProblem):
    """The index of the largest or the smallest element along an axis: 1 there in the destination.

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
    `algorithm`: "arg_reduction_max" or "arg_reduction_min". `dst`: integers of 8 bits and more, of the dims
    of the source but 1 along `axis`; of format "any" it follows the source. `select_last`: of equal ones the
    last."""

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
        """The loop tree: a fold of keys with their places."""
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
        raise Misfit("of no elements none is the largest")
    return dims


# --- the largest, and all in order --------------------------------------------------------------------------

# So many passes along an axis cost what a stage of sorting does.
_PASSES_OF_A_STAGE = 1


@dataclass(frozen=True, slots=True)
class TopKProblem(OperationProblem):
    """The largest or smallest elements along an axis, in order, and their indices; all of them sort it.

    Executed with `ARG_SRC`, `ARG_DST` and `ARG_DST_1`, the indices. NaN is the largest; of equal elements the
    first stands first.
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
        "sort": _sort,
        "topk": lambda call, x, k, dim=-1, largest=True, sorted=True: _first_ones(call, x, k, dim, largest),
    }
    openvino = {
        "TopK": lambda call, x, k, *, axis, mode, sort="value", index_element_type="i32": _first_ones(
            *(call, x, int(k), int(axis), mode == "max"), DataType.parse(f"s{index_element_type[1:]}")
        )
    }
    in_place = False
    arguments = """
    `algorithm`: "top_k_largest" or "top_k_smallest". `dst` has the dims of the source, along `axis` as many
    as are wanted; `indices` has its dims, of integers of 8 bits and more. Of format "any" they follow the
    source."""

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
        """`node.k`: how many."""
        dims = _top_dims(node.axis, node.k, tensors[0])
        return dims, dims

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        """`node.index_type`: that of the indices, where it is not s64."""
        return tensors[0].data_type, getattr(node, "index_type", DataType.s64)

    @property
    def verbose_aux(self) -> str:
        return f"alg:top_k_{self.algorithm} axis:{self.axis} k:{self.dst.dims[self.axis]}"

    @property
    def _stages(self) -> int:
        """How many stages a network of comparisons has that sorts the axis."""
        levels = max(self.src.dims[self.axis] - 1, 0).bit_length()
        return levels * (levels + 1) // 2

    def tree(self) -> LoopTree:
        """The loop tree: first where the results are, then the elements that are there."""
        src, dst = (TreeTensor.of_desc(name, as_bits(getattr(self, name))) for name in ("src", "dst"))
        indices = TreeTensor.of_desc("indices", self.indices)
        count = self.dst.dims[self.axis]
        number = number_of_keys(self.src.data_type)
        index, outer, along = axes_of(self.src.dims, self.axis)
        # The smaller the key is, the farther in front.
        key = key_of(src.load(*index), self.src.data_type)
        key = downwards(key) if self.algorithm == "largest" else key
        sizes = tuple(axis.extent for axis in outer)
        if count <= _PASSES_OF_A_STAGE * self._stages:
            at = TreeTensor.row_major("at", (*sizes, count), number.storage)
            tensors, loops = [at], [_in_passes(key, outer, along, at)]
        else:
            end = 1 << max(along.extent - 1, 0).bit_length()
            keys, at = (TreeTensor.row_major(name, (*sizes, end), number.storage) for name in ("key", "at"))
            tensors, loops = [keys, at], [*_sorted(key, outer, along, (keys, at))]
        found = TreeAxis("found", count)
        to = (*index[: self.axis], found, *index[self.axis + 1 :])
        place = at.load(*outer, found)
        moved = src.load(*index[: self.axis], place, *index[self.axis + 1 :])
        results = (
            Each(to, (indices.store(to, place),)),
            Each(to, (dst.store(to, moved),), number=number_of_bits(self.src)),
        )
        tree = LoopTree((src, dst, indices, *tensors), (*loops, *results), number=number)
        return tree.verify()

    @property
    def work_bytes(self) -> int:
        count = self.dst.dims[self.axis]
        turns = count if count <= _PASSES_OF_A_STAGE * self._stages else 1
        return self.moved_bytes + self.src.data_type.nbytes(self.src.nelems) * turns


def _top_dims(axis: int, count: int, src: Shaped, indices: Shaped | None = None) -> Dims:
    check_axis(axis, src)
    if indices is not None:
        check_indices(indices)
    if not 0 <= count <= src.dims[axis]:
        raise Misfit(f"{count} of {src.dims[axis]} elements are wanted")
    return (*src.dims[:axis], count, *src.dims[axis + 1 :])


def _in_passes(key: Expr, outer: Sequence[TreeAxis], along: TreeAxis, at: TreeTensor) -> Each:
    """The places of the first ones by their keys: each pass finds what comes behind the one before."""
    turn = TreeAxis("turn", at.sizes[-1])
    last, place = (TreeTensor.row_major(name, (1,), at.data_type) for name in ("last", "place"))
    here = Coordinate(along + 0)
    is_same = apply("and", apply("eq", key, last.load(0)), apply("gt", here, place.load(0)))
    is_behind = apply("max", apply("gt", key, last.load(0)), is_same)
    values = (
        apply("select", is_behind, downwards(key), -float("inf")),
        apply("select", is_behind, here, float("inf")),
    )
    body: tuple[Item, ...] = (
        Each((along,), (Fold("argmax", ("most", "found"), values),)),
        last.store((0,), downwards(Ref("most"))),
        place.store((0,), Ref("found")),
        at.store((*outer, turn), Ref("found")),
    )
    first = (last.store((0,), Const(-float("inf"))), place.store((0,), Const(-1)))
    return Each(tuple(outer), (*first, Each((turn,), body, in_order=True)), locals=(last, place))


def _sorted(
    key: Expr, outer: Sequence[TreeAxis], along: TreeAxis, rows: tuple[TreeTensor, TreeTensor]
) -> Iterator[Each]:
    """Keys and places, and then the stages of a network that sorts them: each merges runs of one length.

    The first step of a stage compares each element with its mirror image in the run beside it, the others
    halves, their halves, and so on. What is behind the end is behind all others.
    """
    keys, at = rows
    end, axes = keys.sizes[-1], tuple(outer)
    first = (keys.store((*axes, along), key), at.store((*axes, along), Coordinate(along + 0)))
    yield Each((*axes, along), first)
    if end > along.extent:
        rest = TreeAxis("rest", end - along.extent)
        place = rest + along.extent
        yield Each(
            (*axes, rest), (keys.store((*axes, place), NEVER), at.store((*axes, place), Coordinate(place)))
        )
    run = 2
    while run <= end:
        half = run // 2
        yield _exchanged(rows, axes, half, is_mirrored=True)
        while half > 1:
            half //= 2
            yield _exchanged(rows, axes, half, is_mirrored=False)
        run *= 2


def _exchanged(
    rows: tuple[TreeTensor, TreeTensor], axes: tuple[TreeAxis, ...], half: int, *, is_mirrored: bool
) -> Each:
    """Pairs in order: places of the first half of each run, and of the other half."""
    run, place = TreeAxis("run", rows[0].sizes[-1] // (2 * half)), TreeAxis("place", half)
    low = run * (2 * half) + place
    high = run * (2 * half) - place + (2 * half - 1) if is_mirrored else low + half
    ends: tuple[Place, Place] = (*axes, low), (*axes, high)
    pairs = [
        [(f"{row.name}.{side}", place) for side, place in zip(("low", "high"), ends, strict=True)]
        for row in rows
    ]
    lets = [Let(name, row.load(*at)) for row, both in zip(rows, pairs, strict=True) for name, at in both]
    (low_key, high_key), (low_at, high_at) = ([Ref(name) for name, _ in both] for both in pairs)
    is_same = apply("and", apply("eq", high_key, low_key), apply("lt", high_at, low_at))
    swaps = Let("swaps", apply("max", apply("lt", high_key, low_key), is_same))
    stores: list[Item] = []
    for row, ((one, first), (two, second)) in zip(rows, pairs, strict=True):
        stores.append(row.store(first, apply("select", Ref("swaps"), Ref(two), Ref(one))))
        stores.append(row.store(second, apply("select", Ref("swaps"), Ref(one), Ref(two))))
    return Each((*axes, run, place), (*lets, swaps, *stores))


ArgReduction = make_primitive(ArgReductionProblem)
TopK = make_primitive(TopKProblem)
