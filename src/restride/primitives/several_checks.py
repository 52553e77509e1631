"""What the problems of concat and sum check alike, and the format they choose for "any" (M30, N8, N15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..desc.tags import Tag
from ..dtypes import DataType
from ..errors import InvalidArguments, Unimplemented
from ..plan.contract import PROVIDED
from .given import check_described


class Names(NamedTuple):
    """What errors call a primitive, or a function on arrays: the call, a source of it, its destination."""

    call: str
    one: str = "source"
    dst: str = "dst"

    def source(self, index: int) -> str:
        """A source: `source 1`, `array 1`."""
        return f"{self.one} {index}"

    @property
    def written(self) -> str:
        """The destination in a sentence."""
        return "the destination" if self.dst == "dst" else self.dst

    def listed(self, srcs: Sequence[MemoryDesc]) -> str:
        """The first few sources with their descriptors."""
        shown = "; ".join(f"{self.source(i)} {md}" for i, md in enumerate(srcs[:4]))
        return f"{shown}; ... {len(srcs)} {self.one}s" if len(srcs) > 4 else shown


def check_sources(names: Names, srcs: Sequence[MemoryDesc]) -> None:
    """Raise InvalidArguments, Unimplemented unless each source is a concrete tensor of a provided type."""
    for i, md in enumerate(srcs):
        check_concrete(names.call, names.source(i), md)
        if md.format_kind == "any":
            why = "format 'any' is a placeholder, for the destination alone (N15)"
            what, hint = f"{names.call}: {names.source(i)} has no format", "name a tag or strides"
            raise InvalidArguments(what, code="RS-N15", where=str(md), why=why, hint=hint)


def check_concrete(what: str, name: str, md: MemoryDesc) -> None:
    """Raise InvalidArguments for an empty descriptor, Unimplemented for runtime dims and unknown types."""
    check_described(what, name, md)
    if md.data_type not in PROVIDED:
        raise Unimplemented(
            f"{what}: {md.data_type} is not provided by this version",
            code="RS-L02",
            where=f"{name} {md}",
            why=f"conversions are provided among {', '.join(t.name for t in PROVIDED)}",
            hint="convert with NumPy or ml_dtypes first",
        )


def check_destination_desc(names: Names, dst: MemoryDesc) -> None:
    """Raise InvalidArguments for a destination in which elements share memory (N8)."""
    if dst.is_injective():
        return
    raise InvalidArguments(
        f"{names.call}: elements of the destination share memory",
        code="RS-N08",
        where=f"{names.dst} {dst}",
        why="a stride of 0, or strides whose windows overlap, write one place twice (N8)",
        hint="give it dense strides or a tag",
    )


def chosen_desc(
    srcs: Sequence[MemoryDesc], dims: tuple[int, ...], data_type: DataType, starts: Sequence[int] = ()
) -> MemoryDesc:
    """A dense destination in the format of the first source that has blocks, else in that of the first.

    It is what oneDNN chooses. With `starts`, (axis, first indices), formats in whose blocks a source would
    begin are left out; where no other is left, it is the order of axes of the first source.
    """
    axis, *firsts = starts or (0,)
    fitting = [
        Tag(md.outer_order, md.inner_blks, md.inner_idxs)
        for md in srcs
        if _fits(md.layout.blocks[axis], firsts)
    ]
    blocked = [tag for tag in fitting if tag.inner_blks]
    return MemoryDesc(dims, data_type, (*blocked, *fitting, Tag(srcs[0].outer_order))[0])


def _fits(block: int, firsts: Sequence[int]) -> bool:
    return all(first % block == 0 for first in firsts)
