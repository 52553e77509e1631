"""Two ways to count groups in a shuffle: oneDNN's group size, or the number of groups, as everywhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..desc.parse import parse_int, short_repr
from ..errors import refuse
from ..ops.shuffle import check_axis, check_group_size, legal_factors

Shape = tuple[int, ...]


class Rule(NamedTuple):
    """The way a function counts groups: its name, its parameter, and the split of dims and axis."""

    call: str
    parameter: str
    apply: Callable[[str, str, Shape, int, int], tuple[int, int]]

    def split(self, dims: Shape, axis: int, number: int) -> tuple[int, int]:
        """Return the axis, counted from 0, and the group size. Raises InvalidArguments if invalid."""
        return self.apply(self.call, self.parameter, dims, *self.parse(axis, number))

    def parse(self, axis: object, number: object) -> tuple[int, int]:
        """Return both as integers, as cache keys require."""
        return parse_int(axis, f"{self.call}: axis"), parse_int(number, f"{self.call}: {self.parameter}")


def by_size(call: str, parameter: str, dims: Shape, axis: int, number: int) -> tuple[int, int]:
    """Return the group size unchanged, and the axis as oneDNN counts it."""
    at = check_axis(call, axis, dims)
    return at, check_group_size(call, number, dims, at)


def by_count(call: str, parameter: str, dims: Shape, axis: int, number: int) -> tuple[int, int]:
    """Convert the number of groups to a group size; the axis can be counted from the end."""
    rank = len(dims)
    if not -rank <= axis < rank:
        raise refuse(
            "RS-O02:out-of-range",
            call=call,
            axis=short_repr(axis),
            dims=dims,
            rank=rank,
            least=-rank,
            last=rank - 1,
        )
    size = dims[axis]
    if number >= 1 and size % number == 0:
        return axis % rank, size // number
    text = short_repr(number)
    raise refuse(
        "RS-O05:1-more" if number < 1 else "RS-O05:c-multiple",
        call=call,
        parameter=parameter,
        size=size,
        axis=axis % rank,
        shown=text,
        advice=legal_factors(parameter, size),
    )


SHUFFLE = Rule("shuffle", "group_size", by_size)
SHUFFLE_CHANNELS = Rule("shuffle_channels", "group", by_count)
CHANNEL_SHUFFLE = Rule("channel_shuffle", "groups", by_count)
