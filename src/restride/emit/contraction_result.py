"""What becomes of the sums of a tile: the expression behind the fold, the conversion, the stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..dtypes import DataType
from ..plan.contraction import DESTINATION, Contraction
from ..plan.contraction_parts import ROW_SUMS, TOTAL, total_name
from ..plan.contraction_schedule import ContractionPlan
from ..plan.expression import Apply, Const, Expr, Load, Ref, Scalar, evaluate, is_costly
from .builder import Builder, Value
from .compute import VectorArithmetic
from .contraction_vectors import load_vector, only_leading, store_vector
from .convert import canonical_nan, convert, from_real, to_real
from .kernel import Style

_PARAMS = Value("ptr", "%params")
# What 32-bit integers become by rounding or saturating once.
_ONE_STEP = (DataType.s32, DataType.s8, DataType.u8, DataType.f32)


@dataclass(frozen=True, slots=True)
class TileSums:
    """The sums of a tile: of products, row by row; of the rows' factor; and of the columns' factor for each
    class of rows.
    """

    totals: Sequence[Value]
    rows: Sequence[Value]
    columns: Sequence[Value]
    classes: Sequence[int]


@dataclass(frozen=True, slots=True)
class TilePlace:
    """The pointers of all accesses at a tile, its rows, and how many lanes of each vector are columns."""

    pointers: tuple[Value, ...]
    rows: int
    valid: tuple[int, ...]


class ResultWriter:
    """Writes results from sums, row by row."""

    def __init__(self, b: Builder, plan: ContractionPlan, style: Style, place: TilePlace) -> None:
        self.b, self.plan, self.style, self.place = b, plan, style, place
        self.contraction: Contraction = plan.contraction
        self.arithmetic = VectorArithmetic(b, style.can.round_even)
        self.real = "double" if self.contraction.is_integral else "float"
        self._totals: dict[str, Value] = {}
        # Of expressions that results share, which the contraction keeps alive.
        self._values: dict[int, Value] = {}

    def emit(self, sums: TileSums) -> None:
        """Store the results of all sums, a row after the other."""
        self.sums = sums
        vectors, parts = len(self.place.valid), len(self.contraction.parts)
        for row in range(self.place.rows):
            for number in range(vectors):
                first = (row * vectors + number) * parts
                self._results(sums.totals[first : first + parts], row, number)

    def _results(self, totals: Sequence[Value], row: int, number: int) -> None:
        """Store what becomes of the sums of one row and vector: all is computed before anything is stored."""
        if self._is_plain_integer():
            data_type = self._type(DESTINATION)
            bits = convert(self.b, totals[0], DataType.s32, data_type, self.style.can)
            self._store_bits(DESTINATION, row, number, bits)
            return
        self._totals = {total_name(i): self._as_real(total) for i, total in enumerate(totals)}
        self._values = {}
        values = [self._value(result.value, row, number) for result in self.contraction.results]
        for result, value in zip(self.contraction.results, values, strict=True):
            self._store(result.access, row, number, value)

    def _type(self, access: int) -> DataType:
        return self.contraction.accesses[access].tensor.data_type

    def _is_plain_integer(self) -> bool:
        """True where sums of integers are the result, in a type that they become in one step."""
        return (
            self.contraction.is_integral
            and [type(result.value) for result in self.contraction.results] == [Ref]
            and self._type(DESTINATION) in _ONE_STEP
        )

    def _as_real(self, total: Value) -> Value:
        return self.b.cast("sitofp", total, self.real) if self.contraction.is_integral else total

    def _store(self, access: int, row: int, number: int, value: Value) -> None:
        data_type = self._type(access)
        if data_type.kind == "float":
            value = canonical_nan(self.b, value)
        self._store_bits(access, row, number, from_real(self.b, value, data_type, self.style.can))

    def _store_bits(self, access: int, row: int, number: int, bits: Value) -> None:
        b, lanes, data_type = self.b, self.plan.lanes, self._type(access)
        bits = only_leading(b, bits, lanes, self.place.valid[number])
        written = min(lanes, self._written(number))
        store_vector(b, data_type, bits, self._pointer(access, row, number), lanes, written)

    def _written(self, number: int) -> int:
        """Lanes that are written: columns, and padding, which is zero."""
        plan = self.plan
        if self.place.valid[number] == plan.lanes:
            return plan.lanes
        # Only the last tile has fewer columns.
        before = (plan.groups - 1) * plan.vectors + number
        return plan.columns - before * plan.lanes

    def _pointer(self, access: int, row: int, number: int) -> Value:
        offset = self.plan.row.strides[access] * row + self.plan.column_offset(
            access, number * self.plan.lanes
        )
        bits = self.contraction.accesses[access].tensor.data_type.bits
        return self.b.advance(self.place.pointers[access], offset * bits // 8)

    def _value(self, expr: Expr, row: int, number: int) -> Value:
        """The value of an expression: written once where it is part of several results."""
        if isinstance(expr, Ref):
            is_total = expr.name in self._totals
            return self._totals[expr.name] if is_total else self._sum_of_factor(expr.name, row, number)
        if isinstance(expr, Const):
            return self.arithmetic.constant(expr.number, self._totals[TOTAL])
        if isinstance(expr, Scalar):
            return self._scalar(expr.number)
        if id(expr) not in self._values:
            self._values[id(expr)] = self._computed(expr, row, number)
        return self._values[id(expr)]

    def _computed(self, expr: Expr, row: int, number: int) -> Value:
        if isinstance(expr, Load):
            return self._loaded(expr, row, number)
        assert isinstance(expr, Apply)
        return self._applied(expr.op, [self._value(each, row, number) for each in expr.args])

    def _sum_of_factor(self, name: str, row: int, number: int) -> Value:
        """A sum of the factor of rows or columns alone, as reals."""
        if name == ROW_SUMS:
            return self._as_real(self.sums.rows[row])
        vectors = len(self.place.valid)
        return self._as_real(self.sums.columns[self.sums.classes[row] * vectors + number])

    def _applied(self, op: str, args: list[Value]) -> Value:
        if not is_costly(op):
            return evaluate(op, self.arithmetic, args)
        # A function of a hundred instructions is written once for all vectors of a tile.
        can = self.style.can
        return self.b.call_own(
            f"{op}.{len(args)}.{self.plan.lanes}.{self.real}",
            args,
            lambda inner, named: evaluate(op, VectorArithmetic(inner, can.round_even), named),
        )

    def _scalar(self, number: int) -> Value:
        b = self.b
        at = b.advance(_PARAMS, 8 * (self.contraction.tensors + number))
        wide = b.value("double", f"load double, {at}, align 8")
        one = wide if self.real == "double" else b.value("float", f"fptrunc {wide} to float")
        return b.broadcast(one, self.plan.lanes)

    def _loaded(self, load: Load, row: int, number: int) -> Value:
        """A vector of an operand, as reals."""
        b, can = self.b, self.style.can
        access = DESTINATION + 1 + self.contraction.loads.index(load)
        data_type, lanes = self.contraction.accesses[access].tensor.data_type, self.plan.lanes
        pointer, valid = self._pointer(access, row, number), self.place.valid[number]
        stride = self.plan.lane_digits[-1].strides[access]
        if stride == 1 or valid == 0:
            return to_real(b, load_vector(b, data_type, pointer, lanes, valid), data_type, self.real, can)
        if stride == 0:
            one = to_real(b, load_vector(b, data_type, pointer, 1, 1), data_type, self.real, can)
            return b.shuffle(one, one, (0,) * lanes)
        return to_real(b, self._gathered(access, pointer, stride, valid), data_type, self.real, can)

    def _gathered(self, access: int, pointer: Value, stride: int, valid: int) -> Value:
        b, data_type = self.b, self.contraction.accesses[access].tensor.data_type
        element = f"i{max(data_type.bits, 8)}"
        found = Value(f"<{self.plan.lanes} x {element}>", "zeroinitializer")
        for lane in range(valid):
            at = b.advance(pointer, lane * stride * data_type.bits // 8)
            one = b.value(element, f"load {element}, {at}, align {data_type.bits // 8}")
            found = b.value(found.type, f"insertelement {found}, {one}, i64 {lane}")
        return found
