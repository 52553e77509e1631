"""Groups in memory, a vector at a time: their places, their keys, the codes that are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..ir.group_quantization import GroupAxis
from ..schedule.groups import GroupSchedule
from ..schedule.machine import LINE
from .access import alignment
from .builder import Builder, Value, i64, lanes_of, vector
from .convert import bits_type
from .group_elements import ElementWriter, Operands, WordDivision, pairs, word_division
from .group_scales import ScaleWriter
from .kernel import Style
from .range_keys import RangeKeys

Keys = tuple[Value, ...]
"""A vector for each result of a range, or for each operand of the conversion."""

Codes = Callable[[Value, Operands], Value]
"""How source bits become codes."""


class GroupCursor(NamedTuple):
    """The addresses of the first element that a step reads and writes, of its first scale and zero point."""

    src: Value
    dst: Value
    scale: Value
    zero: Value


@dataclass(frozen=True, slots=True)
class VectorAt:
    """Some lanes of a step: how many elements behind its first one they begin."""

    src: int
    dst: int


class GroupVectors:
    """What all ways to quantise groups share, for one schedule."""

    def __init__(self, b: Builder, plan: GroupSchedule, style: Style, tensor_scale: Value) -> None:
        self.b, self.plan = b, plan
        quantization = plan.quantization
        rule, src_type = quantization.rule, quantization.src_type
        self.src_type, self.code_bits, self.can = src_type, rule.data_type.bits, style.can
        self.are_clean = rule.data_type.kind != "int"
        self.widths = (src_type.bits, rule.data_type.bits, rule.scale_type.bits, 8)
        self.keys = RangeKeys(src_type, rule.has_zeros)
        # Elements that are converted together: a register of bytes.
        self.size = min(style.vector_bytes, plan.lanes)
        self.elements = ElementWriter(b, rule, src_type, self.size, style)
        self.words: WordDivision | None = word_division(self.elements)
        self.scales = ScaleWriter(b, rule, src_type, tensor_scale, style.can)

    # --- places

    def start(self, at: GroupCursor) -> GroupCursor:
        """The places of the first element, for the addresses of offset 0."""
        bases = (*self.plan.quantization.bases, 0)
        moves = zip(at, bases, self.widths, strict=True)
        return GroupCursor(*(self.b.advance(pointer, base * bits // 8) for pointer, base, bits in moves))

    def moved(self, at: GroupCursor, axis: GroupAxis, position: Value) -> GroupCursor:
        """The places at a position of an axis."""
        moves = (axis.src, axis.dst, axis.scale, axis.scale)
        return GroupCursor(
            *(
                self.b.step(pointer, position, move * bits // 8)
                if move * bits % 8 == 0
                else self._half_step(pointer, position, move)
                for pointer, move, bits in zip(at, moves, self.widths, strict=True)
            )
        )

    def _half_step(self, pointer: Value, position: Value, move: int) -> Value:
        """A pointer moved by elements of 4 bits, an even number of them."""
        halves = self.b.op("mul", position, i64(move))
        return self.b.advance(pointer, self.b.op("ashr", halves, i64(1)))

    def along(self, at: GroupCursor, position: Value) -> GroupCursor:
        """The places so many vectors behind."""
        return self.moved(at, GroupAxis(0, self.plan.lanes, self.plan.lanes), position)

    def tiles(self) -> list[VectorAt]:
        """The vectors of one row of a step."""
        plan = self.plan
        if plan.is_across:
            return [VectorAt(i, i) for i in range(0, plan.lanes, self.size)]
        return [VectorAt(i, i) for i in range(0, plan.run.extent * plan.batch, plan.lanes)]

    # --- elements

    def load(self, at: GroupCursor, tile: VectorAt) -> Value:
        """The bits of a vector."""
        kind = vector(bits_type(self.src_type), self.size)
        address = self.b.advance(at.src, tile.src * self.src_type.bits // 8)
        return self.b.value(kind, f"load {kind}, {address}, align 1")

    def load_again(self, at: GroupCursor, tile: VectorAt) -> Value:
        """The same when elements are written: what the next step reads is asked for meanwhile."""
        b, bits = self.b, self.src_type.bits
        if self.plan.ahead:
            first = (tile.src + self.plan.ahead) * bits // 8
            for line in range(0, max(self.size * bits // 8, 1), LINE):
                b.prefetch(b.advance(at.src, first + line))
        return self.load(at, tile)

    def write(self, at: GroupCursor, tile: VectorAt, value: Value) -> None:
        """Store a vector of codes."""
        b, bits = self.b, self.code_bits
        address = b.advance(at.dst, tile.dst * bits // 8)
        stored = pairs(b, value, self.can, are_clean=self.are_clean) if bits == 4 else value
        how = alignment(self.plan.streams, lanes_of(stored), tile.dst * bits // 8)
        b.line(f"store {stored}, {address}, {how}")

    # --- keys

    def key_of(self, bits: Value) -> Keys:
        """The keys of a vector."""
        return self.keys.of_bits(self.b, bits)

    def both(self, one: Keys, other: Keys) -> Keys:
        """The ends of both, lane by lane."""
        return tuple(self.keys.larger(self.b, x, y) for x, y in zip(one, other, strict=True))

    def folded(self, bits: Sequence[Value]) -> Keys:
        """The ends of some vectors, lane by lane."""
        keys = [self.key_of(each) for each in bits]
        while len(keys) > 1:
            halves = [self.both(x, y) for x, y in zip(keys[::2], keys[1::2], strict=False)]
            keys = halves + keys[2 * len(halves) :]
        return keys[0]

    def joined(self, bits: Sequence[Value]) -> Keys:
        """The keys of all lanes of some vectors, one vector behind the other."""
        found = [self.key_of(each) for each in bits]
        return tuple(self.b.join(keys) for keys in zip(*found, strict=True))

    def lanes_folded(self, key: Value) -> Value:
        """One lane for each group, of vectors of groups side by side."""
        b, groups = self.b, self.plan.batch
        while lanes_of(key) > groups:
            half = lanes_of(key) // groups // 2
            masks = [[(2 * g + k) * half + i for g in range(groups) for i in range(half)] for k in (0, 1)]
            key = self.keys.larger(b, *(b.shuffle(key, key, mask) for mask in masks))
        return key

    # --- powers too small for words

    def most_word(self, width: int) -> Value:
        """What no power is above, in so many lanes."""
        assert self.words is not None
        return self.b.splat(self.words.kind, width, str(self.words.most))

    def are_small(self, over: Value) -> Value:
        """Which powers are too small to divide words by, as the bits of an integer."""
        assert self.words is not None
        width = lanes_of(over)
        limit = self.b.splat(self.words.kind, width, str(self.words.limit))
        return self.b.value(f"i{width}", f"bitcast {self.b.compare('icmp slt', over, limit)} to i{width}")
