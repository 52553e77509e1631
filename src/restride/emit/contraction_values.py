"""Values of the result of a contraction, from the sums of a tile: vectors of f32 or f64.

Sums of integers are exact, and become f64, or f32 directly if the expression rounds them: operations between
roundings to f32 are done in f32, which is half the work. Values that do not change from row to row are
computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..dtypes import DataType
from ..ir.expression import OPERATIONS, Apply, Const, Expr, Load, Ref, Scalar, evaluate, is_costly
from ..schedule.contraction.kernel import ColumnTile, ContractionKernel
from ..schedule.contraction.parts import COLUMN_SUMS, ROW_SUMS, part_of_total
from ..schedule.contraction.strides import DESTINATION, SECOND
from .builder import Builder, Value
from .compute import VectorArithmetic
from .contraction_numbers import distance_of, times
from .contraction_vectors import load_vector
from .convert import to_real
from .kernel import Style

_PARAMS = Value("ptr", "%params")
_FLOAT, _DOUBLE = "float", "double"
# Functions whose f64 result, rounded to f32, equals that of f32: they round once.
_ROUNDED_ONCE = frozenset(("abs", "clip", "clip_v2", "relu", "round", "sqrt", "square"))
# The operations of f64 that f32 lacks.
_WIDE = (DataType.s32, DataType.f64)


@dataclass(frozen=True, slots=True)
class TileSums:
    """The sums of a tile, row by row: of products; of the rows' factor; and of the columns' factor."""

    totals: Sequence[Value]
    rows: Sequence[Value]
    columns: Sequence[Value]


@dataclass(frozen=True, slots=True)
class TilePlace:
    """The pointers of all accesses at a tile, its rows and its columns."""

    pointers: tuple[Value, ...]
    rows: int
    columns: ColumnTile


class ResultValues:
    """Evaluates the expression after the sums."""

    def __init__(
        self, b: Builder, kernel: ContractionKernel, style: Style, place: TilePlace, sums: TileSums
    ) -> None:
        self.b, self.kernel, self.style, self.place, self.sums = b, kernel, style, place, sums
        self.arithmetic = VectorArithmetic(b, style.can.round_even)
        self._of_columns: dict[tuple[Expr, str, int], Value] = {}
        self._vectors: dict[tuple[int, int], Value] = {}
        # Expressions shared by the results of one vector; the kernel keeps them alive.
        self._shared: dict[tuple[int, str], Value] = {}

    def results(self, row: int, number: int) -> list[Value]:
        """Return the values of a vector of the tile, one for each result."""
        self._shared = {}
        values = [result.value for result in self.kernel.results]
        return [self._value(value, self._real_of(value), row, number) for value in values]

    def _real_of(self, expr: Expr) -> str:
        return _DOUBLE if self.kernel.is_integral and not self._is_single(expr) else _FLOAT

    def total(self, part: int, row: int, number: int) -> Value:
        """Return the sum of a part of the products."""
        parts = len(self.kernel.parts)
        return self.sums.totals[(row * len(self.place.columns.valid) + number) * parts + part]

    def pointer(self, access: int, row: int, number: int) -> Value:
        """Return where a vector of an access begins."""
        strides, b = self.kernel.strides[access], self.b
        place = strides.vectors[number]
        if (access, number) not in self._vectors:
            block = times(b, distance_of(b, strides.block), place.blocks)
            self._vectors[access, number] = b.advance(self.place.pointers[access], block)
        return b.advance(self._vectors[access, number], strides.row * row + place.nbytes)

    def _value(self, expr: Expr, real: str, row: int, number: int) -> Value:
        """Return an expression; as f32 if its values are, or rounded to f32."""
        if isinstance(expr, Ref):
            return self._sum(expr.name, real, row, number)
        if isinstance(expr, Const):
            return self.arithmetic.constant(expr.number, Value(f"<{self.kernel.lanes} x {real}>", ""))
        if isinstance(expr, Scalar):
            return self._kept(expr, real, -1, lambda: self._scalar(expr.number, real))
        if isinstance(expr, Load) and self._is_of_column(expr):
            return self._kept(expr, real, number, lambda: self._loaded(expr, real, row, number))
        key = id(expr), real
        if key not in self._shared:
            self._shared[key] = self._computed(expr, real, row, number)
        return self._shared[key]

    def _kept(self, expr: Expr, real: str, number: int, find: Callable[[], Value]) -> Value:
        """Return a value that all rows share, computed for the first of them."""
        key = expr, real, number
        if key not in self._of_columns:
            self._of_columns[key] = find()
        return self._of_columns[key]

    def _computed(self, expr: Expr, real: str, row: int, number: int) -> Value:
        if isinstance(expr, Load):
            return self._loaded(expr, real, row, number)
        assert isinstance(expr, Apply)
        if expr.op == "single" and self.kernel.is_integral:
            value = self._rounded(expr.args[0], row, number)
            return value if real == _FLOAT else self.b.cast("fpext", value, real)
        return self._applied(expr.op, [self._value(arg, real, row, number) for arg in expr.args], real)

    # --- rounded to f32

    def _is_single(self, expr: Expr) -> bool:
        """Return whether a value is an f32."""
        if isinstance(expr, Const):
            return float(np.float32(expr.number)) == expr.number
        if isinstance(expr, Load):
            return self.kernel.types[self._access(expr)] not in _WIDE
        return isinstance(expr, Apply) and expr.op == "single"

    def _rounded(self, expr: Expr, row: int, number: int) -> Value:
        """Return an f64 expression rounded to f32."""
        if not isinstance(expr, Apply):
            # A conversion rounds once.
            return self._value(expr, _FLOAT, row, number)
        is_same = expr.op in OPERATIONS or expr.op in _ROUNDED_ONCE or is_costly(expr.op)
        if is_same and all(map(self._is_single, expr.args)):
            return self._applied(
                expr.op, [self._value(arg, _FLOAT, row, number) for arg in expr.args], _FLOAT
            )
        return self.b.cast("fptrunc", self._value(expr, _DOUBLE, row, number), _FLOAT)

    # --- operands of expressions

    def _sum(self, name: str, real: str, row: int, number: int) -> Value:
        """Return a sum of products, or of the factor of rows or columns alone."""
        if name == ROW_SUMS:
            total = self.sums.rows[row]
        elif name == COLUMN_SUMS:
            total = self.sums.columns[row * len(self.place.columns.valid) + number]
        else:
            total = self.total(part_of_total(name), row, number)
        return self.b.cast("sitofp", total, real) if self.kernel.is_integral else total

    def _applied(self, op: str, args: list[Value], real: str) -> Value:
        if not is_costly(op):
            return evaluate(op, self.arithmetic, args)
        # A function of a hundred instructions is written once for all vectors of a tile.
        can = self.style.can
        return self.b.call_own(
            f"{op}.{len(args)}.{self.kernel.lanes}.{real}",
            args,
            lambda inner, named: evaluate(op, VectorArithmetic(inner, can.round_even), named),
        )

    def _access(self, load: Load) -> int:
        return DESTINATION + 1 + self.kernel.loads.index(load)

    def _is_of_column(self, load: Load) -> bool:
        """Return whether all rows of a tile share the value."""
        return self.kernel.strides[self._access(load)].row == 0

    def _scalar(self, number: int, real: str) -> Value:
        b = self.b
        at = b.advance(_PARAMS, 8 * (self.kernel.tensors + number))
        wide = b.value("double", f"load double, {at}, align 8")
        one = wide if real == _DOUBLE else b.value("float", f"fptrunc {wide} to float")
        return b.broadcast(one, self.kernel.lanes)

    def _loaded(self, load: Load, real: str, row: int, number: int) -> Value:
        """Load a vector of an operand, as reals."""
        b, can, access = self.b, self.style.can, self._access(load)
        data_type, lanes = self.kernel.types[access], self.kernel.lanes
        pointer, valid = self.pointer(access, row, number), self.place.columns.valid[number]
        stride = self.kernel.strides[access].lane
        if stride == 1 or valid == 0:
            return to_real(b, load_vector(b, data_type, pointer, lanes, valid), data_type, real, can)
        if stride == 0:
            one = to_real(b, load_vector(b, data_type, pointer, 1, 1), data_type, real, can)
            return b.shuffle(one, one, (0,) * lanes)
        return to_real(b, self._gathered(access, pointer, stride, valid), data_type, real, can)

    def _gathered(self, access: int, pointer: Value, stride: int, valid: int) -> Value:
        b, data_type = self.b, self.kernel.types[access]
        element = f"i{max(data_type.bits, 8)}"
        vector = Value(f"<{self.kernel.lanes} x {element}>", "zeroinitializer")
        for lane in range(valid):
            at = b.advance(pointer, lane * stride * data_type.bits // 8)
            one = b.value(element, f"load {element}, {at}, align {data_type.bits // 8}")
            vector = b.value(vector.type, f"insertelement {vector}, {one}, i64 {lane}")
        return vector


class GroupValues(ResultValues):
    """Evaluates the expression of a group's sum, in f32."""

    def added(self, total: Value, row: int, number: int, *, fused: bool) -> Value:
        """Return a total with the value of a group added."""
        b, groups = self.b, self.kernel.groups_of_sums
        assert groups is not None
        expr, self._shared = groups.value, {}
        if isinstance(expr, Apply) and expr.op == "mul":
            one, other = (self._value(arg, _FLOAT, row, number) for arg in expr.args)
            return b.multiply_add(one, other, total, fused=fused)
        return b.op("fadd", total, self._value(expr, _FLOAT, row, number))

    def _real_of(self, expr: Expr) -> str:
        return _FLOAT

    def _sum(self, name: str, real: str, row: int, number: int) -> Value:
        total, b = self.total(0, row, number), self.b
        if not self.kernel.sums_integers:
            return total
        whole = b.cast("sitofp", total, real)
        if self.kernel.types[SECOND].is_integral:
            return whole
        # 4-bit floats are multiplied as halves.
        return b.op("fmul", whole, b.splat(real, self.kernel.lanes, "5.0e-01"))

    def _access(self, load: Load) -> int:
        groups = self.kernel.groups_of_sums
        assert groups is not None
        return len(self.kernel.types) - len(groups.loads) + groups.loads.index(load)
