"""One concat problem: checked descriptors, and each source with its window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ..desc.attr import Attr
from ..desc.factor import ARG_MULTIPLE_SRC
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments, Unimplemented
from ..kept import kept_property
from ..plan.concat import Move, Window, window_moves
from ..runtime.memory import Memory
from .chain import Chain, scaled_chain
from .execution import share_bytes
from .several_checks import Names, check_concrete, check_destination_desc, check_sources, chosen_desc

_NAMES = Names("concat")


@dataclass(frozen=True, slots=True)
class ConcatProblem:
    """Sources, one behind the other along `axis` of `dst`: equal problems share an implementation."""

    srcs: tuple[MemoryDesc, ...]
    dst: MemoryDesc
    axis: int
    attr: Attr

    def where(self) -> str:
        """The descriptors, for messages."""
        return f"{_NAMES.listed(self.srcs)}; dst {self.dst}"

    def starts(self) -> list[int]:
        """The first index of each source."""
        return [sum(md.dims[self.axis] for md in self.srcs[:i]) for i in range(len(self.srcs))]

    def parts(self) -> Iterator[Part]:
        """The sources that have elements; the last of them is followed by the padding."""
        filled = [i for i, md in enumerate(self.srcs) if md.nelems]
        starts = self.starts()
        for i in filled:
            ends_at = starts[i] + self.srcs[i].dims[self.axis]
            until = self.dst.padded_dims[self.axis] if i == filled[-1] else ends_at
            window = Window(self.dst, self.axis, starts[i], until)
            scale = self.attr.scale_of(ARG_MULTIPLE_SRC + i)
            src = self.srcs[i]
            chain = scaled_chain(scale, ARG_MULTIPLE_SRC + i, src, self.dst)
            yield Part(i, src, window, chain)


# --- checks -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def make_problem(
    axis: int, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None, attr: Attr, names: Names = _NAMES
) -> ConcatProblem:
    """The checked problem; a destination left out, or of format "any", gets the format of the sources.

    `names` is for messages. Raises InvalidArguments, Unimplemented for what cannot be joined.
    """
    check_sources(names, srcs)
    _check_axis(axis, srcs[0])
    for i, md in enumerate(srcs[1:], 1):
        _check_alike(names, i, (srcs[0], md), axis)
    whole = sum(md.dims[axis] for md in srcs)
    dims = (*srcs[0].dims[:axis], whole, *srcs[0].dims[axis + 1 :])
    if dst is not None:
        check_concrete(names.call, names.dst, dst)
        _check_dims(names, dst, dims, srcs)
    made = ConcatProblem(srcs, MemoryDesc() if dst is None else dst, axis, attr)
    if dst is None or dst.format_kind == "any":
        starts = [start for start, md in zip(made.starts(), srcs, strict=True) if md.dims[axis]]
        data_type = srcs[0].data_type if dst is None else dst.data_type
        made = replace(made, dst=chosen_desc(srcs, dims, data_type, (axis, *starts)))
    check_destination_desc(names, made.dst)
    _check_attr(made)
    return made


def _check_axis(axis: int, first: MemoryDesc) -> None:
    if 0 <= axis < first.ndims:
        return
    raise InvalidArguments(
        f"{_NAMES.call}: bad axis",
        code="RS-A10",
        where=f"axis {axis}; source 0 {first}",
        why=f"axes are numbered from 0, and the last of {first.ndims} is {first.ndims - 1}",
        hint="only rs.concat counts negative axes from the end",
    )


def _check_alike(names: Names, index: int, both: tuple[MemoryDesc, MemoryDesc], axis: int) -> None:
    first, md = both
    zero, this = names.source(0), names.source(index)
    if md.ndims == first.ndims:
        differing = [d for d in range(md.ndims) if d != axis and md.dims[d] != first.dims[d]]
        if not differing:
            return
        d = differing[0]
        why = f"dim {d} is {first.dims[d]} in {zero} and {md.dims[d]} in {this}"
    else:
        why = f"{zero} has {first.ndims} dims, {this} has {md.ndims}"
    raise InvalidArguments(
        f"{names.call}: {names.one}s of different shapes",
        code="RS-R10",
        where=f"{zero} {first}; {this} {md}",
        why=why,
        hint=f"all dims but that of axis {axis} must be the same",
    )


def _check_dims(names: Names, dst: MemoryDesc, dims: tuple[int, ...], srcs: Sequence[MemoryDesc]) -> None:
    if dst.dims == dims:
        return
    raise InvalidArguments(
        f"{names.call}: {names.dst} is of another shape",
        code="RS-R10",
        where=f"{names.listed(srcs)}; {names.dst} {dst}",
        why=f"the {names.one}s make {dims}",
        hint=f"leave {names.dst} out, or give it these dims",
    )


def _check_attr(problem: ConcatProblem) -> None:
    attr = problem.attr
    arguments = range(ARG_MULTIPLE_SRC, ARG_MULTIPLE_SRC + len(problem.srcs))
    others = replace(attr, scales=(), scratchpad="library")
    wrong = [arg for arg, factor in attr.scales if arg not in arguments or factor.mask or factor.groups]
    if others.is_default and not wrong:
        return
    raise Unimplemented(
        f"{_NAMES.call}: unsupported attribute",
        code="RS-R26",
        where=f"attr {attr.verbose_str()}; {problem.where()}",
        why="a concat has one scale for each source, of mask 0, and nothing else",
        hint="attr.set_scales(rs.ARG_MULTIPLE_SRC + i, 0, [scale]); a reorder before or after does the rest",
    )


# --- parts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One source: its number, where it goes, and what is done to its values."""

    index: int
    src: MemoryDesc
    window: Window
    chain: Chain

    @kept_property
    def moves(self) -> tuple[Move, ...]:
        """The nests that fill the window."""
        tensors = [feed.tensor for feed in self.chain.feeds]
        return window_moves(self.src, self.window, self.chain.compute, tensors)

    @kept_property
    def padding(self) -> tuple[Move, ...]:
        """The nests that write its padding alone."""
        return tuple(zeros for move in self.moves for zeros in move.padding())

    @kept_property
    def is_like_window(self) -> bool:
        """True where the source may lie in the window itself."""
        return self.window.is_like(self.src)

    @kept_property
    def is_copy(self) -> bool:
        """True where bits are moved as they are."""
        return self.chain.compute.is_move and self.src.data_type is self.window.dst.data_type

    @kept_property
    def _bits_apart(self) -> int:
        """How far behind the destination the source's memory begins where it lies in the window."""
        return (
            self.window.origin * self.window.dst.data_type.bits - self.src.offset0 * self.src.data_type.bits
        )

    def is_in_place(self, src: Memory, dst: Memory) -> bool:
        """True where the elements of the source are those of the window."""
        return self.is_like_window and 8 * (src._address - dst._address) == self._bits_apart

    def is_there(self, src: Memory, dst: Memory) -> bool:
        """True where the bits are where they belong already."""
        return self.is_copy and share_bytes(src, dst) and self.is_in_place(src, dst)
