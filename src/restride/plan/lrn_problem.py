"""The problems of local response normalization, forward and backward, and the programs that do them.

    omega = k + alpha * sum of src**2 in a window / size of the window
    dst = src * omega**-beta
    diff_src = diff_dst * omega**-beta
               - 2 * alpha * beta * src * sum of diff_dst * src * omega**(-beta - 1) / size of the window

The window is `local_size` channels, or as many positions along each spatial dim. Backward computes omega once
for each element, and keeps what the second sum needs in memory of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.tags import Tag
from ..dtypes import DataType
from .computation import Computation
from .expression import Affine, Expr, Ref, Scalar, TreeAxis, apply
from .nest import Compute
from .pointwise import moved_bytes
from .program import DST, SRC, NestStep, Place, Program, Slot, TreeStep
from .tree import Each, Guard, Item, Let, LoopTree, TreeTensor, fold_over
from .tree_steps import move_step

ACROSS, WITHIN = "across_channels", "within_channel"
ALGORITHMS = (ACROSS, WITHIN)
# A power takes as long as to move so many bytes; that of three quarters is two roots.
_POWER_BYTES, _ROOTS_BYTES = 32, 8
_THREE_QUARTERS = 0.75
# The scalars of a run, by their places.
_ALPHA, _BETA, _K, _FACTOR = map(Scalar, range(4))


@dataclass(frozen=True, slots=True)
class LrnParameters:
    """Which window, and the numbers: f32 values."""

    alg: str
    local_size: int
    alpha: float
    beta: float
    k: float

    def structure(self) -> LrnParameters:
        """The parameters without the numbers that kernels read; a beta of 0.75 has kernels of its own."""
        return replace(self, alpha=0.0, beta=self.beta if self.has_roots else 0.0, k=0.0)

    @property
    def has_roots(self) -> bool:
        """True where the power is two square roots."""
        return self.beta == _THREE_QUARTERS

    def window_dims(self, ndims: int) -> range:
        """The dims along which a window reaches."""
        return range(1, 2) if self.alg == ACROSS else range(2, ndims)

    def summands(self, ndims: int) -> int:
        """The size of a window, all of it."""
        return int(self.local_size ** len(self.window_dims(ndims)))

    def scalars(self, ndims: int) -> tuple[float, ...]:
        """What a run reads: alpha for each of the window, beta, k, and the factor of the second sum."""
        alpha = self.alpha / self.summands(ndims)
        return alpha, -self.beta, self.k, 2 * alpha * self.beta

    @property
    def work(self) -> int:
        """How many bytes could be moved in the time that one element takes, its window aside."""
        return _ROOTS_BYTES if self.has_roots else _POWER_BYTES


class _WindowSums:
    """Sums over the windows of a tensor of `dims`."""

    def __init__(self, parameters: LrnParameters, dims: tuple[int, ...]) -> None:
        self.parameters, self.dims = parameters, dims
        self.index = tuple(TreeAxis(f"d{dim}", n) for dim, n in enumerate(dims))

    def total(self, name: str, value: TreeTensor, *, is_squared: bool) -> Each:
        """The loops that add up a tensor, or its squares, in the window of each position."""
        reach = (self.parameters.local_size - 1) // 2
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

    def power(self, omega: Expr) -> Expr:
        """omega**-beta."""
        if self.parameters.has_roots:
            return 1.0 / apply("sqrt", apply("sqrt", omega) * omega)
        return apply("pow", omega, 1.0, _BETA)


@dataclass(frozen=True, slots=True)
class LrnProblem:
    """A normalization: equal problems share an executable."""

    parameters: LrnParameters
    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    def structure(self) -> LrnProblem:
        """The problem without its numbers."""
        return replace(self, parameters=self.parameters.structure())

    def computation(self) -> Computation:
        """The numbers."""
        return Computation(Compute(), self.parameters.scalars(self.src.ndims), ())

    def tree(self, read: MemoryDesc) -> LoopTree:
        """The loop tree; `read` is the source as its windows are read."""
        src, dst = TreeTensor.of_desc("src", read), TreeTensor.of_desc("dst", self.dst)
        sums = _WindowSums(self.parameters, self.src.dims)
        items = (
            sums.total("squares", src, is_squared=True),
            Let("omega", _K + _ALPHA * Ref("squares")),
            dst.store(sums.index, src.load(*sums.index) * sums.power(Ref("omega"))),
        )
        is_wide = _is_wide(self.src, self.dst)
        return LoopTree((src, dst), (Each(sums.index, items),), 4, is_wide).verify()

    def program(self) -> Program:
        """The program: one tree, and before it the move of a source whose windows cross blocks."""
        work = self.moved_bytes + self.parameters.work * self.src.nelems
        read, moves = _unblocked(self.parameters, self.src, -1)
        step = TreeStep(self.tree(read), (_place(read, self.src, -1), Place(DST)), work, (0, 4))
        slots = (Slot(ARG_SRC, span=self.src.extent_range()), Slot(ARG_DST, is_written=True))
        temporaries = (read.size,) * len(moves)
        return Program(slots, (*moves, step), temporaries, scalars=4).verify()

    def outputs(self) -> dict[int, MemoryDesc]:
        """Nothing is written beside the destination."""
        return {}

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.src], self.dst)


@dataclass(frozen=True, slots=True)
class LrnBackwardProblem:
    """The gradient of the source: equal problems share an executable."""

    parameters: LrnParameters
    src: MemoryDesc
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    def structure(self) -> LrnBackwardProblem:
        """The problem without its numbers."""
        return replace(self, parameters=self.parameters.structure())

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.diff_src

    @property
    def is_wide(self) -> bool:
        """True where all is computed as doubles."""
        return _is_wide(self.src, self.diff_src, self.diff_dst)

    @property
    def kept(self) -> MemoryDesc:
        """What the second sum adds up: densely, in the format of the gradient, channels last for blocks."""
        like = self.diff_src
        real = DataType.f64 if self.is_wide else DataType.f32
        if _crosses_blocks(self.parameters, like):
            return _channels_last(like, real)
        return MemoryDesc(like.dims, real, Tag(like.outer_order, *like.layout.inner))

    def computation(self) -> Computation:
        """The numbers."""
        return Computation(Compute(), self.parameters.scalars(self.src.ndims), ())

    def trees(self, read: MemoryDesc) -> tuple[LoopTree, LoopTree]:
        """The loops that find the first part of the gradient and the terms of the second; those that add.

        `read` is the source as its windows are read.
        """
        mds = {"src": read, "diff_src": self.diff_src, "diff_dst": self.diff_dst}
        src, out, gradient = (TreeTensor.of_desc(name, md) for name, md in mds.items())
        terms, first = TreeTensor.of_desc("terms", self.kept), TreeTensor.of_desc("first", self.kept)
        sums = _WindowSums(self.parameters, self.src.dims)
        index = sums.index
        made: tuple[Item, ...] = (
            sums.total("squares", src, is_squared=True),
            Let("omega", _K + _ALPHA * Ref("squares")),
            Let("part", gradient.load(*index) * sums.power(Ref("omega"))),
            first.store(index, Ref("part")),
            terms.store(index, Ref("part") / Ref("omega") * src.load(*index)),
        )
        added = (
            sums.total("total", terms, is_squared=False),
            out.store(index, first.load(*index) - _FACTOR * src.load(*index) * Ref("total")),
        )
        return (
            LoopTree((src, gradient, first, terms), (Each(index, made),), 4, self.is_wide).verify(),
            LoopTree((src, first, terms, out), (Each(index, added),), 4, self.is_wide).verify(),
        )

    def program(self) -> Program:
        """The program: two trees, and two temporaries between them; before them a move, as forward."""
        read, moves = _unblocked(self.parameters, self.src, -3)
        before, after = self.trees(read)
        src = _place(read, self.src, -3)
        nbytes, elements = self.kept.size, self.src.nelems
        first, terms = Place(-1), Place(-2)
        gradient = Place(DST + 1)
        work = self.moved_bytes + 2 * nbytes
        steps = (
            TreeStep(before, (src, gradient, first, terms), work + self.parameters.work * elements, (0, 4)),
            TreeStep(after, (src, first, terms, Place(DST)), work, (0, 4)),
        )
        slots = (
            Slot(ARG_SRC, span=self.src.extent_range()),
            Slot(ARG_DIFF_SRC, is_written=True),
            Slot(ARG_DIFF_DST),
        )
        temporaries = (max(nbytes, 1),) * 2 + (read.size,) * len(moves)
        return Program(slots, (*moves, *steps), temporaries, scalars=4).verify()

    def outputs(self) -> dict[int, MemoryDesc]:
        """Nothing is written beside the gradient."""
        return {}

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.src, self.diff_dst], self.diff_src)


def _crosses_blocks(parameters: LrnParameters, md: MemoryDesc) -> bool:
    """True where a window reaches from one block of channels into the next."""
    return parameters.alg == ACROSS and bool(md.nelems) and md.layout.blocks[1] > 1


def _channels_last(like: MemoryDesc, data_type: DataType) -> MemoryDesc:
    order = (*(dim for dim in range(like.ndims) if dim != 1), 1)
    return MemoryDesc(like.dims, data_type, Tag(order))


def _unblocked(
    parameters: LrnParameters, src: MemoryDesc, to: int
) -> tuple[MemoryDesc, tuple[NestStep, ...]]:
    """A source in a format in which windows are runs, and the moves into it, to a temporary."""
    if not _crosses_blocks(parameters, src):
        return src, ()
    read = _channels_last(src, src.data_type)
    return read, (move_step(src, read, Place(SRC), Place(to)),)


def _place(read: MemoryDesc, src: MemoryDesc, temporary: int) -> Place:
    return Place(SRC if read is src else temporary)


def _is_wide(*mds: MemoryDesc) -> bool:
    return any(md.data_type in (DataType.f64, DataType.s32) for md in mds)
