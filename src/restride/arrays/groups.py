"""Ways to count groups in functions that shuffle arrays: oneDNN's group size, or everyone else's groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..desc.parse import parse_int, short_repr
from ..errors import refuse
from ..ops.shuffle import check_axis, check_group_size, legal_factors

Shape = tuple[int, ...]


class Rule(NamedTuple):
    """The way in which a function counts groups: its name, its parameter, and the split of dims and axis."""

    call: str
    parameter: str
    apply: Callable[[str, str, Shape, int, int], tuple[int, int]]

    def split(self, dims: Shape, axis: int, number: int) -> tuple[int, int]:
        """The axis from 0 and the group size. Raises InvalidArguments for what does not split the axis."""
        return self.apply(self.call, self.parameter, dims, *self.parse(axis, number))

    def parse(self, axis: object, number: object) -> tuple[int, int]:
        """Both as integers, as keys of a cache must be."""
        return parse_int(axis, f"{self.call}: axis"), parse_int(number, f"{self.call}: {self.parameter}")


def by_size(call: str, parameter: str, dims: Shape, axis: int, number: int) -> tuple[int, int]:
    """The group size itself, and the axis as oneDNN counts it."""
    at = check_axis(call, axis, dims)
    return at, check_group_size(call, number, dims, at)


def by_count(call: str, parameter: str, dims: Shape, axis: int, number: int) -> tuple[int, int]:
    """The number of groups, and an axis that may be counted from the end."""
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
