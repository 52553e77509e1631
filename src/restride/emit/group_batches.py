"""Groups that fit in registers, thousands of elements at a time: the largest values of all, then all scales,
then all elements, which are near still.

The scale of one group is a chain of operations, each of which waits for the one before; those of many groups
are computed side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.group_quantization import GroupAxis
from .builder import Value, i64, vector
from .group_elements import Operands
from .group_vectors import Codes, GroupCursor, GroupVectors, VectorAt

_BYTES = {"float": 4, "i16": 2}


class BatchWriter:
    """Writes steps of `plan.batches` batches. Keys and operands of all groups lie on the stack meanwhile."""

    def __init__(self, vectors: GroupVectors) -> None:
        self.vectors, self.b, self.plan = vectors, vectors.b, vectors.plan
        b, count, words = self.b, self.plan.chunk, vectors.words
        key = f"i{vectors.src_type.bits}"
        self.key_slots = [b.slot(key, count) for _ in range(vectors.keys.results)]
        operands = self.plan.quantization.rule.operands
        self.exact_slots = [b.slot("float", count) for _ in range(operands)]
        self.word_slots = [b.slot(words.kind, count)] if words else []

    def step(self, at: GroupCursor) -> None:
        """One step at these places."""
        words, elements = self.vectors.words, self.vectors.elements
        with self.b.loop(i64(0), i64(self.plan.batches)) as number:
            self._find(at, number)
        small = self._scale_all(at)
        if words is None or small is None:
            self._convert(at, self.exact_slots, "float", elements.codes)
            return
        with self.b.when("eq", small, Value(small.type, "0")):
            self._convert(at, self.word_slots, words.kind, words.codes)
        with self.b.when("ne", small, Value(small.type, "0")):
            self._convert(at, self.exact_slots, "float", elements.codes)

    def _find(self, at: GroupCursor, number: Value) -> None:
        """The keys of a batch, into their slots."""
        b, vectors, there = self.b, self.vectors, self._batch(at, number)
        held = [vectors.load(there, tile) for tile in vectors.tiles()]
        keys = vectors.joined(held) if self.plan.batch > 1 else vectors.folded(held)
        first = b.op("mul", number, i64(self.plan.batch))
        for slot, key in zip(self.key_slots, keys, strict=True):
            place = b.step(slot, first, vectors.src_type.bits // 8)
            b.line(f"store {vectors.lanes_folded(key)}, {place}, align 1")

    def _scale_all(self, at: GroupCursor) -> Value | None:
        """Keys to scales, and to the operands of elements. Where these are divided as words, whether a power
        is too small for that: 0 if none is.
        """
        b, vectors, width, words = self.b, self.vectors, self.plan.scale_lanes, self.vectors.words
        kind, nbytes = vector(f"i{vectors.src_type.bits}", width), vectors.src_type.bits // 8
        start = [] if words is None else [vectors.most_word(width)]
        with b.carried_loop(i64(0), i64(self.plan.chunk // width), start) as (number, carried):
            first = b.op("mul", number, i64(width))
            addresses = [b.step(slot, first, nbytes) for slot in self.key_slots]
            keys = tuple(b.value(kind, f"load {kind}, {address}, align 1") for address in addresses)
            there = vectors.moved(at, GroupAxis(0, 0, 0, 1), first)
            operands = vectors.scales.write(keys, there.scale, there.zero)
            for slot, operand in zip(self.exact_slots, operands, strict=True):
                b.line(f"store {operand}, {b.step(slot, first, 4)}, align 1")
            if words is not None:
                over = words.operand(operands[0])
                b.line(f"store {over}, {b.step(self.word_slots[0], first, 2)}, align 1")
                carried[0] = b.intrinsic("smin", carried[0], over)
        return None if words is None else vectors.are_small(carried[0])

    def _convert(self, at: GroupCursor, slots: Sequence[Value], kind: str, codes: Codes) -> None:
        """All batches of a step, with operands of a type from their slots."""
        b, vectors = self.b, self.vectors
        with b.loop(i64(0), i64(self.plan.batches)) as number:
            there = self._batch(at, number)
            first = b.op("mul", number, i64(self.plan.batch))
            places = [b.step(slot, first, _BYTES[kind]) for slot in slots]
            for tile in vectors.tiles():
                operands = self._operands_of(tile, places, kind)
                vectors.write(there, tile, codes(vectors.load_again(there, tile), operands))

    def _batch(self, at: GroupCursor, number: Value) -> GroupCursor:
        """The places of a batch of a step."""
        if self.plan.walked is None:
            return at
        first = self.b.op("mul", number, i64(self.plan.batch))
        return self.vectors.moved(at, self.plan.walked, first)

    def _operands_of(self, tile: VectorAt, slots: Sequence[Value], kind: str) -> Operands:
        """What the lanes of a vector are computed with, from memory: those of a batch lie there."""
        b, extent, nbytes, size = self.b, self.plan.run.extent, _BYTES[kind], self.vectors.size
        same = min(extent & -extent, size)
        groups = [(tile.src + lane) // extent for lane in range(0, size, same)]
        found = []
        side_by_side = vector(kind, len(groups))
        for slot in slots:
            address = b.advance(slot, nbytes * groups[0])
            all_of_them = b.value(side_by_side, f"load {side_by_side}, {address}, align {nbytes}")
            found.append(b.shuffle(all_of_them, all_of_them, [lane // same for lane in range(size)]))
        return tuple(found)
