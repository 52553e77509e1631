"""Groups read twice, for the scale and for the elements: long ones, and such as lie across their vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.group_quantization import GroupAxis
from .builder import Value, i64
from .group_elements import Operands
from .group_vectors import Codes, GroupCursor, GroupVectors, Keys, VectorAt

# Vectors of a row that are written one after the other; of more there is a loop.
_UNROLLED = 4


class PassWriter:
    """Writes steps of one group, or of the groups of a run of vectors."""

    def __init__(self, vectors: GroupVectors) -> None:
        self.vectors, self.b, self.plan = vectors, vectors.b, vectors.plan

    def step(self, at: GroupCursor) -> None:
        """One step at these places: scales, then elements."""
        vectors, words = self.vectors, self.vectors.words
        tiles = vectors.tiles()
        operands = self._found(self._search(at, tiles), at)
        if words is None:
            self._convert(at, tiles, operands, vectors.elements.codes)
            return
        over = [(words.operand(inverse),) for (inverse,) in operands]
        least = vectors.most_word(vectors.size)
        for (each,) in over:
            least = self.b.intrinsic("smin", least, each)
        small = vectors.are_small(least)
        for name, found, codes in (("eq", over, words.codes), ("ne", operands, vectors.elements.codes)):
            with self.b.when(name, small, Value(small.type, "0")):
                self._convert(at, tiles, found, codes)

    # --- keys

    def _search(self, at: GroupCursor, tiles: Sequence[VectorAt]) -> list[Keys]:
        """Keys of all rows of a group: of each tile where groups lie across."""
        vectors = self.vectors
        count = len(tiles) if self.plan.is_across else 1
        keys = [(vectors.keys.empty(vectors.size),) * vectors.keys.results for _ in range(count)]
        return self._rows(at, self.plan.inner, keys, tiles)

    def _rows(
        self, at: GroupCursor, axes: Sequence[GroupAxis], keys: list[Keys], tiles: Sequence[VectorAt]
    ) -> list[Keys]:
        vectors = self.vectors
        if axes:

            def turn(position: Value, now: list[Keys]) -> list[Keys]:
                return self._rows(vectors.moved(at, axes[0], position), axes[1:], now, tiles)

            return self._repeated(axes[0].extent, keys, turn)
        if self.plan.is_across:
            return [
                vectors.both(key, vectors.key_of(vectors.load(at, tile)))
                for key, tile in zip(keys, tiles, strict=True)
            ]
        if len(tiles) <= _UNROLLED:
            return [vectors.both(keys[0], vectors.folded([vectors.load(at, tile) for tile in tiles]))]

        def along(position: Value, now: list[Keys]) -> list[Keys]:
            bits = vectors.load(vectors.along(at, position), tiles[0])
            return [vectors.both(now[0], vectors.key_of(bits))]

        return self._repeated(len(tiles), keys, along)

    def _repeated(
        self, count: int, keys: list[Keys], turn: Callable[[Value, list[Keys]], list[Keys]]
    ) -> list[Keys]:
        """`count` turns, each of which takes the keys of the one before."""
        flat = [key for each in keys for key in each]
        with self.b.carried_loop(i64(0), i64(count), flat) as (position, inside):
            inside[:] = [key for step in turn(position, self._grouped(inside)) for key in step]
        return self._grouped(inside)

    def _grouped(self, flat: Sequence[Value]) -> list[Keys]:
        results = self.vectors.keys.results
        return [tuple(flat[i : i + results]) for i in range(0, len(flat), results)]

    # --- scales

    def _found(self, keys: Sequence[Keys], at: GroupCursor) -> list[Operands]:
        """What the lanes of each tile are computed with, for the keys of its groups; it is written too."""
        b, vectors = self.b, self.vectors
        if self.plan.is_across:
            axis = GroupAxis(0, 0, 0, vectors.size)
            steps = (vectors.moved(at, axis, i64(i)) for i in range(len(keys)))
            return [
                vectors.scales.write(key, step.scale, step.zero)
                for key, step in zip(keys, steps, strict=True)
            ]
        found = vectors.scales.write(tuple(map(vectors.lanes_folded, keys[0])), at.scale, at.zero)
        return [tuple(b.shuffle(x, x, (0,) * vectors.size) for x in found)]

    # --- elements

    def _convert(
        self, at: GroupCursor, tiles: Sequence[VectorAt], operands: Sequence[Operands], codes: Codes
    ) -> None:
        """Each tile of all rows, with the operands of its lanes."""
        if not self.plan.is_across and len(tiles) > _UNROLLED:
            self._convert_rows(at, self.plan.inner, tiles, operands[0], codes)
            return
        # Of groups that lie across one tile after the other, so that its operands stay in registers.
        parts = [[tile] for tile in tiles] if self.plan.is_across else [list(tiles)]
        for part, operand in zip(parts, operands, strict=True):
            self._convert_rows(at, self.plan.inner, part, operand, codes)

    def _convert_rows(
        self,
        at: GroupCursor,
        axes: Sequence[GroupAxis],
        tiles: Sequence[VectorAt],
        operands: Operands,
        codes: Codes,
    ) -> None:
        b, vectors = self.b, self.vectors
        if axes:
            with b.loop(i64(0), i64(axes[0].extent)) as position:
                self._convert_rows(vectors.moved(at, axes[0], position), axes[1:], tiles, operands, codes)
        elif len(tiles) > _UNROLLED:
            with b.loop(i64(0), i64(len(tiles))) as position:
                there = vectors.along(at, position)
                vectors.write(there, tiles[0], codes(vectors.load_again(there, tiles[0]), operands))
        else:
            for tile in tiles:
                vectors.write(at, tile, codes(vectors.load_again(at, tile), operands))
