"""Group normalization by channels: first sums of each channel, then the values shared by a group's channels.

Where channels are adjacent in memory, loops over `(n, c)` traverse memory in order, but loops over a group's
elements would take a few adjacent ones at a time. The channels of a group share a few numbers. These are
stored in separate tensors `[n, c]`, so that the loops over elements do not deal with groups. The names of
these tensors, with m and v the mean and the variance of a group, g = dy * scale and h = (x - m) * inverse:

    inverse = 1 / sqrt(v + eps),  center = m,  factor = scale * inverse
    y = (x - center) * factor + shift

    slope = inverse * inverse * mean(g * h),  offset = inverse * mean(g)
    diff_src = dy * factor - (x - center) * slope - offset
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ...desc.memory_desc import MemoryDesc
from ...ir.expression import Affine, Const, Expr, Load, Ref, TreeAxis, index_of
from ...ir.tree import Each, Item, Let, Store, TreeTensor, fold_over
from .normalization import NormAxes, inverse
from .normalization_parts import ProgramParts

# The least batch for which images are processed one after another, each while it is in cache.
_MANY_IMAGES = 16


@dataclass(frozen=True, slots=True)
class ChannelAxes:
    """The axes of a group normalization: batch, channels, channels as group and position in it, spatial.

    `by_group`: loops run over the channels of one group instead of one image.
    """

    n: TreeAxis
    c: TreeAxis
    group: TreeAxis
    place: TreeAxis
    spatial: tuple[TreeAxis, ...]
    by_group: bool

    @classmethod
    def of(cls, axes: NormAxes, md: MemoryDesc) -> ChannelAxes:
        """Return the axes for normalizing data of this descriptor."""
        n, group = axes.outer
        place, *spatial = axes.inner
        by_group = not has_channels_side_by_side(md)
        return cls(n, TreeAxis("c", md.dims[1]), group, place, tuple(spatial), by_group)

    @property
    def own(self) -> TreeAxis:
        """The axis of the channels that loops run over."""
        return self.place if self.by_group else self.c

    @property
    def in_group(self) -> Affine:
        """The index of a channel of a group."""
        return self.group * self.place.extent + self.place

    @property
    def channel(self) -> Affine:
        """The index of a channel in those loops."""
        return self.in_group if self.by_group else self.c + 0

    @property
    def count(self) -> Const:
        """The number of elements in a group."""
        return Const(float(self.place.extent * prod(axis.extent for axis in self.spatial)))

    @property
    def elements(self) -> NormAxes:
        """The axes of loops over elements, with the channel known."""
        outer = (self.n, self.group, self.place) if self.by_group else (self.n, self.c)
        at = index_of(self.n, self.channel, *self.spatial)
        return NormAxes(outer, self.spatial, at, index_of(self.n, self.channel), (self.channel,))


def has_channels_side_by_side(md: MemoryDesc) -> bool:
    """Return whether adjacent elements are of different channels: nhwc, and blocks of channels."""
    innermost = md.layout.inner_idxs[-1] if md.layout.inner_idxs else md.layout.outer_order[-1]
    return bool(innermost == 1)


class ChannelLoops:
    """The loops of a group normalization, in order."""

    def __init__(self, parts: ProgramParts, axes: ChannelAxes) -> None:
        self.parts, self.axes = parts, axes
        self.items: list[Item] = []

    def row(self, name: str) -> TreeTensor:
        """Allocate one number for each channel of each image."""
        return self.parts.temporary(name, (self.axes.n.extent, self.axes.c.extent))

    def of_channel(self, name: str) -> Load:
        """Load the number of a channel in the loops over elements."""
        return self.row(name).load(self.axes.n, self.axes.channel)

    def of_place(self, name: str) -> Load:
        """Load the number of a channel of a group."""
        return self.row(name).load(self.axes.n, self.axes.in_group)

    def sum_up(self, items: Sequence[Item], found: Sequence[tuple[str, Expr]]) -> None:
        """Add folds over the elements of each channel, which store the values `found`."""
        at = index_of(self.axes.n, self.axes.channel)
        stores = (self.row(name).store(at, value) for name, value in found)
        self.items.append(Each((self.axes.own,), (Each(self.axes.spatial, tuple(items)), *stores)))

    def share(
        self,
        sums: Sequence[tuple[str, Expr]],
        items: Sequence[Item],
        found: Sequence[tuple[str, Expr]],
    ) -> None:
        """Add sums over the channels of each group, values derived from them, and numbers of each channel."""
        at, place = (self.axes.n + 0, self.axes.in_group), (self.axes.place,)
        folds = tuple(fold_over("sum", name, value) for name, value in sums)
        stores = tuple(self.row(name).store(at, value) for name, value in found)
        body = (*((Each(place, folds),) if folds else ()), *items, Each(place, stores))
        self.items += body if self.axes.by_group else (Each((self.axes.group,), body),)

    def each_element(self, items: Sequence[Item]) -> None:
        """Add the items for each element."""
        self.items.append(Each((self.axes.own, *self.axes.spatial), tuple(items)))

    def write(self, work_bytes: int) -> None:
        """Add the steps: all loops for one group or image after another; one step per loop for few images."""
        n, items = self.axes.n, tuple(self.items)
        if self.axes.by_group:
            self.parts.step(Each((n, self.axes.group), items), work_bytes)
        elif n.extent >= _MANY_IMAGES:
            self.parts.step(Each((n,), items), work_bytes)
        else:
            for item in items:
                assert isinstance(item, Each)
                self.parts.step(replace(item, axes=(n, *item.axes)), work_bytes)


def use_known_stats(
    loops: ChannelLoops, scale: TreeTensor | None, mean: Expr | None, variance: Expr, *names: str
) -> None:
    """Derive the numbers of channels, by these names, from known statistics."""
    factor: Expr = Ref("inverse") if scale is None else Ref("inverse") * scale.load(loops.axes.in_group)
    values = {"inverse": Ref("inverse"), "factor": factor, "center": mean}
    wanted = [(name, value) for name in names if (value := values[name]) is not None]
    loops.share((), [Let("inverse", inverse(variance))], wanted)


def compute_stats(
    loops: ChannelLoops, scale: TreeTensor | None, x: Load, stores: Sequence[Store], *, is_rms: bool
) -> None:
    """Compute the statistics, first the mean, and the numbers of channels derived from them.

    `stores`: those of `mean` and `variance`, by these names.
    """
    axes = loops.axes
    distance: Expr = x
    mean: list[Item] = []
    if not is_rms:
        loops.sum_up([fold_over("sum", "sum", x)], [("totals", Ref("sum"))])
        total = ("total", loops.of_place("totals"))
        loops.share([total], [Let("average", Ref("total") / axes.count)], [("center", Ref("average"))])
        distance = x - loops.of_channel("center")
        first = loops.row("center").load(axes.n, axes.group * axes.place.extent)
        mean = [Let("mean", first)]
    loops.sum_up(
        [Let("d", distance), fold_over("sum", "square", Ref("d") * Ref("d"))], [("squares", Ref("square"))]
    )
    factor: Expr = Ref("inverse") if scale is None else Ref("inverse") * scale.load(axes.in_group)
    variance = Let("variance", Ref("square") / axes.count)
    items = [*mean, variance, Let("inverse", inverse(Ref("variance"))), *stores]
    loops.share([("square", loops.of_place("squares"))], items, [("factor", factor)])


def share_gradients(loops: ChannelLoops, scale: TreeTensor | None, dy: Expr, distance: Expr) -> None:
    """Compute the gradients of scale and shift for each image, and channel numbers from their sums."""
    sum_up_gradients(loops, dy, distance)
    axes, inverse_of = loops.axes, loops.of_place("inverse")
    of_group = [("a", loops.of_place("shifts")), ("b", loops.of_place("scales"))]
    sums: list[tuple[str, Expr]] = [
        (name, value if scale is None else value * scale.load(axes.in_group)) for name, value in of_group
    ]
    slope, offset = Ref("mean_b") * inverse_of * inverse_of, Ref("mean_a") * inverse_of
    lets = [Let("mean_a", Ref("a") / axes.count), Let("mean_b", Ref("b") / axes.count)]
    loops.share(sums, lets, [("slope", slope), ("offset", offset)])


def sum_up_gradients(loops: ChannelLoops, dy: Expr, distance: Expr) -> None:
    """Compute the gradients of scale and shift of each image."""
    items: list[Item] = [
        Let("dy", dy),
        fold_over("sum", "shift_sum", Ref("dy")),
        fold_over("sum", "scale_sum", Ref("dy") * distance),
    ]
    scaled = Ref("scale_sum") * loops.of_channel("inverse")
    loops.sum_up(items, [("shifts", Ref("shift_sum")), ("scales", scaled)])
