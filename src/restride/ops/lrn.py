"""LRN: local response normalization, across channels or within them, forward and backward.

    omega = k + alpha * sum of src**2 in a window / size of the window
    dst = src * omega**-beta
    diff_src = diff_dst * omega**-beta
               - 2 * alpha * beta * src * sum of diff_dst * src * omega**(-beta - 1) / size of the window

The window is `local_size` channels, or as many positions along each spatial dim. Windows of channels are
read from rows that stay in cache: the squares of all channels at some positions, with zeros at both ends, so
that no window needs bounds tests, whatever the channel blocking. The backward step also keeps the terms of
the second sum there; for spatial windows it keeps them in a temporary.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_SRC
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import short_repr
from ..desc.tags import Tag
from ..dtypes import DataType
from ..errors import refuse
from ..ir.computation import Computation
from ..ir.expression import Affine, Const, Expr, Load, Ref, Scalar, TreeAxis, apply
from ..ir.nest import Compute
from ..ir.numbers import Number
from ..ir.program import DST, SRC, Place, Program, Slot, TreeStep
from ..ir.tree import Each, Guard, Item, Let, LoopTree, Store, TreeTensor, fold_over
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, OperationProblem, is_computed_wide
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped

ACROSS, WITHIN = "across_channels", "within_channel"
# A power takes as long as moving this many bytes; the power 0.75 is two square roots.
_POWER_BYTES, _ROOTS_BYTES = 32, 8
_THREE_QUARTERS = 0.75
# The longest rows that are buffered: where each vector lane has its own, and where lanes share one.
_MOST_OF_A_LANE, _MOST_SHARED = 1024, 4096
# Row elements of one iteration. All rows fit in a small part of the L1 cache: 1.6 times as fast as filling
# it, for an nhwc gradient.
_ROW_ELEMENTS = 1 << 9
# The scalars of an execution, by index.
_ALPHA, _BETA, _K, _FACTOR = map(Scalar, range(4))


@dataclass(frozen=True, slots=True)
class LrnParameters:
    """The window and its f32 parameters."""

    algorithm: str
    local_size: int
    alpha: float
    beta: float
    k: float

    def structure(self) -> LrnParameters:
        """The parameters without the numbers that kernels read; a beta of 0.75 has its own kernels."""
        return replace(self, alpha=0.0, beta=self.beta if self.has_roots else 0.0, k=0.0)

    @property
    def has_roots(self) -> bool:
        """True if the power is two square roots."""
        return self.beta == _THREE_QUARTERS

    def window_dims(self, ndims: int) -> range:
        """Return the dims over which a window extends."""
        return range(1, 2) if self.algorithm == ACROSS else range(2, ndims)

    def summands(self, ndims: int) -> int:
        """Return the number of elements in a window."""
        return int(self.local_size ** len(self.window_dims(ndims)))

    @property
    def shown(self) -> str:
        """Return the parameters as shown in a verbose line."""
        numbers = f"alpha:{self.alpha:g} beta:{self.beta:g} k:{self.k:g}"
        return f"alg:{self.algorithm} ls:{self.local_size} {numbers}"

    def scalars(self, ndims: int) -> tuple[float, ...]:
        """Return the scalars: alpha over the window size, beta, k, and the factor of the second sum."""
        alpha = self.alpha / self.summands(ndims)
        return alpha, -self.beta, self.k, 2 * alpha * self.beta

    @property
    def reach(self) -> int:
        """The number of elements of a window on each side of its center."""
        return (self.local_size - 1) // 2

    def power(self, omega: Expr) -> Expr:
        """Return omega**-beta."""
        if self.has_roots:
            return 1.0 / apply("sqrt", apply("sqrt", omega) * omega)
        return apply("pow", omega, 1.0, _BETA)

    @property
    def work(self) -> int:
        """The bytes that could be moved in the time one element takes, without its window."""
        return _ROOTS_BYTES if self.has_roots else _POWER_BYTES


class _WindowSums:
    """Sums over the windows of a tensor of `dims`."""

    def __init__(self, parameters: LrnParameters, dims: tuple[int, ...]) -> None:
        self.parameters, self.dims = parameters, dims
        self.index = tuple(TreeAxis(f"d{dim}", n) for dim, n in enumerate(dims))

    def total(self, name: str, value: TreeTensor, *, is_squared: bool) -> Each:
        """Return the loops that sum a tensor, or its squares, over the window of each position."""
        reach = self.parameters.reach
        taps = {
            dim: TreeAxis(f"{name}{dim}", 2 * reach + 1)
            for dim in self.parameters.window_dims(len(self.dims))
        }
        index: list[Affine | TreeAxis] = list(self.index)
        guards: list[Guard] = []
        for dim, tap in taps.items():
            index[dim] = at = self.index[dim] + tap - reach
            guards.append(Guard(at, self.dims[dim]))
        element = value.load(*index)
        term = element * element if is_squared else element
        return Each(tuple(taps.values()), (fold_over("sum", name, term),), tuple(guards))


class _ChannelRows:
    """Rows of all channels at some positions, with zeros at both ends: a loop around them, and loops inside.

    Where channels are adjacent in memory, or blocked, a row covers positions of the last dim, and vectors run
    along it; otherwise each lane has its own row.
    """

    def __init__(self, parameters: LrnParameters, md: MemoryDesc) -> None:
        self.reach, self.channels = parameters.reach, md.dims[1]
        self.of_channels = TreeAxis("d1", self.channels)
        self.index: list[Affine | TreeAxis] = [TreeAxis(f"d{dim}", n) for dim, n in enumerate(md.dims)]
        self.outer = tuple(TreeAxis(f"d{dim}", n) for dim, n in enumerate(md.dims) if dim != 1)
        self.positions: tuple[TreeAxis, ...] = ()
        if _has_neighbors(md) and md.ndims > 2:
            most = max(_ROW_ELEMENTS // (self.channels + 2 * self.reach), 1)
            size = next(n for n in range(min(md.dims[-1], most), 0, -1) if md.dims[-1] % n == 0)
            tile, position = TreeAxis("tile", md.dims[-1] // size), TreeAxis("position", size)
            self.outer, self.positions = (*self.outer[:-1], tile), (position,)
            self.index[-1] = tile * size + position

    @staticmethod
    def are_kept(parameters: LrnParameters, md: MemoryDesc) -> bool:
        """Return whether the windows of a tensor are read from rows."""
        if parameters.algorithm != ACROSS or not md.nelems:
            return False
        size = md.dims[1] + 2 * parameters.reach
        return size <= (_MOST_SHARED if _has_neighbors(md) else _MOST_OF_A_LANE)

    def new(self, name: str) -> TreeTensor:
        """Return a row."""
        sizes = *(axis.extent for axis in self.positions), self.channels + 2 * self.reach
        return TreeTensor.row_major(name, sizes)

    def each(self, *items: Item) -> Each:
        """Return a loop of the items over the elements of the rows."""
        return Each((*self.positions, self.of_channels), items)

    def ends(self, *rows: TreeTensor) -> tuple[Each, ...]:
        """Return the loop that writes the zeros."""
        if not self.reach:
            return ()
        end, above = TreeAxis("end", self.reach), self.reach + self.channels
        stores = [row.store((*self.positions, at), Const(0.0)) for row in rows for at in (end, end + above)]
        return (Each((*self.positions, end), tuple(stores)),)

    def at(self, row: TreeTensor) -> Load:
        """Load an element of a row."""
        return row.load(*self.positions, self.of_channels + self.reach)

    def store(self, row: TreeTensor, value: Expr) -> Store:
        """Store an element of a row."""
        return row.store((*self.positions, self.of_channels + self.reach), value)

    def total(self, name: str, row: TreeTensor) -> Each:
        """Return the loop that sums the window of an element."""
        tap = TreeAxis("tap", 2 * self.reach + 1)
        return Each((tap,), (fold_over("sum", name, row.load(*self.positions, self.of_channels + tap)),))


@dataclass(frozen=True, slots=True)
class LrnProblem(OperationProblem):
    """Elements divided by the magnitude of their neighbors (`dnnl::lrn_forward`).

    Executed with `ARG_SRC` and `ARG_DST`.
    """

    operation = "lrn"
    primitive = "LRNForward"
    call = "prop_kind", "algorithm", "src", "dst", "local_size", "alpha", "beta", "k"
    defaults = {"k": 1.0}
    algorithms = (ACROSS, WITHIN)
    parts = ("parameters",)
    in_place = False
    arguments = """
    `algorithm`: "lrn_across_channels" or "lrn_within_channel". `local_size`: an integer of 1 or more; an even
    size gives the window of the next smaller odd one. `dst`: format "any" takes that of the source. `attr`:
    the scratchpad mode."""

    parameters: LrnParameters
    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> LrnProblem:
        parameters = _read_parameters(call)
        src, dst = call.forward()
        _check_channels(call, src)
        return cls(parameters, src, dst, call.attr())

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        if len(tensors[0].dims) < 3:
            raise Misfit("the source must have channels and spatial dims")
        return tensors[0].dims

    @property
    def verbose_aux(self) -> str:
        return self.parameters.shown

    def structure(self) -> LrnProblem:
        return replace(self, parameters=self.parameters.structure())

    def computation(self) -> Computation:
        return Computation(Compute(), self.parameters.scalars(self.src.ndims), ())

    def tree(self) -> LoopTree:
        """The loop tree."""
        src, dst = TreeTensor.of_desc("src", self.src), TreeTensor.of_desc("dst", self.dst)
        loop = self._by_rows(src, dst) if self._has_rows else self._by_windows(src, dst)
        return LoopTree(
            (src, dst), (loop,), 4, Number.real(is_wide=is_computed_wide(self.src, self.dst))
        ).verify()

    @property
    def _has_rows(self) -> bool:
        """True if rows are faster; windows of plain formats are read in place."""
        return _ChannelRows.are_kept(self.parameters, self.src) and self.src.layout.blocks[1] > 1

    def _by_rows(self, src: TreeTensor, dst: TreeTensor) -> Each:
        rows = _ChannelRows(self.parameters, self.src)
        squares, element = rows.new("row"), src.load(*rows.index)
        omega = Let("omega", _K + _ALPHA * Ref("squares"))
        store = dst.store(tuple(rows.index), element * self.parameters.power(Ref("omega")))
        items = (
            *rows.ends(squares),
            rows.each(rows.store(squares, element * element)),
            rows.each(rows.total("squares", squares), omega, store),
        )
        return Each(rows.outer, items, locals=(squares,))

    def _by_windows(self, src: TreeTensor, dst: TreeTensor) -> Each:
        sums = _WindowSums(self.parameters, self.src.dims)
        items = (
            sums.total("squares", src, is_squared=True),
            Let("omega", _K + _ALPHA * Ref("squares")),
            dst.store(sums.index, src.load(*sums.index) * self.parameters.power(Ref("omega"))),
        )
        return Each(sums.index, items)

    @property
    def work_bytes(self) -> int:
        return self.moved_bytes + self.parameters.work * self.src.nelems


@dataclass(frozen=True, slots=True)
class LrnBackwardProblem(GradientProblem):
    """The gradient of the source of a local response normalization (`dnnl::lrn_backward`).

    Executed with `ARG_SRC`, `ARG_DIFF_DST` and `ARG_DIFF_SRC`.
    """

    operation = "lrn"
    primitive = "LRNBackward"
    call = "algorithm", "diff_src", "diff_dst", "src", "local_size", "alpha", "beta", "k"
    defaults = LrnProblem.defaults
    algorithms = LrnProblem.algorithms
    parts = ("parameters",)
    reads = {ARG_SRC: "src", ARG_DIFF_DST: "diff_dst"}
    in_place = False
    arguments = """
    Gradients of format "any" take that of the source. `hint_pd`: the forward descriptor of the same problem,
    or None. There is no workspace: the backward step recomputes what it needs."""

    parameters: LrnParameters
    src: MemoryDesc
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> LrnBackwardProblem:
        parameters, src = _read_parameters(call), call.known("src")
        _check_channels(call, src)
        if hint := call.hint(LrnProblem):
            call.check_hint(parameters=(hint.parameters, parameters), dims=(hint.src.dims, src.dims))
        diff_src, diff_dst = call.gradients(src=src)
        return cls(parameters, src, diff_src, diff_dst, call.attr())

    @property
    def verbose_aux(self) -> str:
        return self.parameters.shown

    def structure(self) -> LrnBackwardProblem:
        return replace(self, parameters=self.parameters.structure())

    @property
    def is_wide(self) -> bool:
        """True if everything is computed in f64."""
        return is_computed_wide(self.src, self.diff_src, self.diff_dst)

    def computation(self) -> Computation:
        return Computation(Compute(), self.parameters.scalars(self.src.ndims), ())

    @property
    def kept(self) -> MemoryDesc:
        """The terms of the second sum for windows without rows: dense, in the format of the gradient."""
        real = DataType.f64 if self.is_wide else DataType.f32
        like = self.diff_src
        return MemoryDesc(like.dims, real, Tag(like.outer_order, *like.layout.inner))

    def _tensors(self) -> tuple[TreeTensor, TreeTensor, TreeTensor]:
        mds = {"src": self.src, "diff_src": self.diff_src, "diff_dst": self.diff_dst}
        src, out, gradient = (TreeTensor.of_desc(name, md) for name, md in mds.items())
        return src, out, gradient

    def row_tree(self) -> LoopTree:
        """The loops that compute the gradient from rows."""
        src, out, gradient = self._tensors()
        rows = _ChannelRows(self.parameters, self.diff_src)
        element = src.load(*rows.index)
        squares, terms, first = map(rows.new, ("row", "terms", "first"))
        steps = (
            rows.total("squares", squares),
            Let("omega", _K + _ALPHA * Ref("squares")),
            Let("part", gradient.load(*rows.index) * self.parameters.power(Ref("omega"))),
            rows.store(first, Ref("part")),
            rows.store(terms, Ref("part") / Ref("omega") * element),
        )
        difference = rows.at(first) - _FACTOR * element * Ref("total")
        items = (
            *rows.ends(squares, terms),
            rows.each(rows.store(squares, element * element)),
            rows.each(*steps),
            rows.each(rows.total("total", terms), out.store(tuple(rows.index), difference)),
        )
        loop = Each(rows.outer, items, locals=(squares, terms, first))
        return LoopTree((src, out, gradient), (loop,), 4, Number.real(is_wide=self.is_wide)).verify()

    def trees(self) -> tuple[LoopTree, LoopTree]:
        """The loops for the first part of the gradient and the second part's terms; those that add them."""
        src, out, gradient = self._tensors()
        terms, first = TreeTensor.of_desc("terms", self.kept), TreeTensor.of_desc("first", self.kept)
        sums = _WindowSums(self.parameters, self.src.dims)
        index = sums.index
        steps: tuple[Item, ...] = (
            sums.total("squares", src, is_squared=True),
            Let("omega", _K + _ALPHA * Ref("squares")),
            Let("part", gradient.load(*index) * self.parameters.power(Ref("omega"))),
            first.store(index, Ref("part")),
            terms.store(index, Ref("part") / Ref("omega") * src.load(*index)),
        )
        added = (
            sums.total("total", terms, is_squared=False),
            out.store(index, first.load(*index) - _FACTOR * src.load(*index) * Ref("total")),
        )
        return (
            LoopTree(
                (src, gradient, first, terms), (Each(index, steps),), 4, Number.real(is_wide=self.is_wide)
            ).verify(),
            LoopTree(
                (src, first, terms, out), (Each(index, added),), 4, Number.real(is_wide=self.is_wide)
            ).verify(),
        )

    def program(self) -> Program:
        """The program: one tree of rows, or two trees with two temporaries between them."""
        slots = (
            Slot(ARG_SRC, span=self.src.extent_range()),
            Slot(ARG_DIFF_SRC, is_written=True),
            Slot(ARG_DIFF_DST),
        )
        functions = self.parameters.work * self.src.nelems
        src, out, gradient = Place(SRC), Place(DST), Place(DST + 1)
        if _ChannelRows.are_kept(self.parameters, self.diff_src):
            step = TreeStep(self.row_tree(), (src, out, gradient), self.moved_bytes + functions, (0, 4))
            return Program(slots, (step,), scalars=4).verify()
        before, after = self.trees()
        nbytes = self.kept.size
        first, terms = Place(-1), Place(-2)
        work = self.moved_bytes + 2 * nbytes
        steps = (
            TreeStep(before, (src, gradient, first, terms), work + functions, (0, 4)),
            TreeStep(after, (src, first, terms, out), work, (0, 4)),
        )
        return Program(slots, steps, (max(nbytes, 1),) * 2, scalars=4).verify()


def _has_neighbors(md: MemoryDesc) -> bool:
    """Return whether channels are adjacent in memory, or blocked."""
    return md.layout.blocks[1] > 1 or abs(md.layout.strides[1]) == 1


def _check_channels(call: ArgumentReader, src: MemoryDesc) -> None:
    """Raise InvalidArguments for a source without channels."""
    if src.ndims < 2:
        raise refuse("RS-R10:src-no-channels", what=call.what, src=src)


def _read_parameters(call: ArgumentReader) -> LrnParameters:
    """Read the algorithm with its parameters."""
    algorithm, size = call.algorithm(), call.integer("local_size")
    if not 1 <= size < 2**31:
        raise refuse("RS-V02:local-size", what=call.what, size=short_repr(size))
    return LrnParameters(algorithm, size, *map(call.number, ("alpha", "beta", "k")))


LRNForward = make_primitive(LrnProblem)
LRNBackward = make_primitive(LrnBackwardProblem, LRNForward)
