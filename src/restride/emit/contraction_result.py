"""The results of a tile: the expression after the fold, the conversion, the stores."""

from __future__ import annotations

from ..dtypes import DataType
from ..ir.expression import Ref
from ..schedule.contraction.kernel import ContractionKernel
from ..schedule.contraction.strides import DESTINATION
from .builder import Builder, Value
from .contraction_values import ResultValues, TilePlace, TileSums
from .contraction_vectors import only_leading, store_vector
from .convert import canonical_nan, convert, from_real
from .kernel import Style
from .small_float import can_round_at_once, normal_floats_to_bfloat

# The types that 32-bit integers become by rounding or saturating once.
_ONE_STEP = (DataType.s32, DataType.s8, DataType.u8, DataType.f32)


class ResultWriter:
    """Writes results from sums, row by row."""

    def __init__(self, b: Builder, kernel: ContractionKernel, style: Style, place: TilePlace) -> None:
        self.b, self.kernel, self.style, self.place = b, kernel, style, place

    def emit(self, sums: TileSums) -> None:
        """Store the results of all sums, row by row."""
        values = ResultValues(self.b, self.kernel, self.style, self.place, sums)
        for row in range(self.place.rows):
            for number in range(len(self.place.columns.valid)):
                self._results(values, row, number)

    def _results(self, values: ResultValues, row: int, number: int) -> None:
        """Store the results of one row and vector: everything is computed before anything is stored."""
        if self._is_plain_integer():
            data_type = self._type(DESTINATION)
            bits = convert(self.b, values.total(0, row, number), DataType.s32, data_type, self.style.can)
            self._store(DESTINATION, bits, values.pointer(DESTINATION, row, number), number)
            return
        results = values.results(row, number)
        for result, value in zip(self.kernel.results, results, strict=True):
            bits = self._rounded(value, self._type(result.access))
            self._store(result.access, bits, values.pointer(result.access, row, number), number)

    def _type(self, access: int) -> DataType:
        return self.kernel.types[access]

    def _is_plain_integer(self) -> bool:
        """True if sums of integers are the result, in a type that they become in one step."""
        return (
            self.kernel.is_integral
            and [type(result.value) for result in self.kernel.results] == [Ref]
            and self._type(DESTINATION) in _ONE_STEP
        )

    def _rounded(self, value: Value, data_type: DataType) -> Value:
        if data_type.kind == "float":
            value = canonical_nan(self.b, value)
        if data_type is DataType.bf16 and self._is_never_subnormal() and can_round_at_once(value):
            return normal_floats_to_bfloat(self.b, value)
        return from_real(self.b, value, data_type, self.style.can)

    def _is_never_subnormal(self) -> bool:
        """True if results are sums from an instruction that flushes subnormals to zero."""
        are_sums = all(isinstance(result.value, Ref) for result in self.kernel.results)
        return are_sums and self.kernel.is_dot and self.style.can.bfloat_of_normals

    def _store(self, access: int, bits: Value, pointer: Value, number: int) -> None:
        b, lanes = self.b, self.kernel.lanes
        # Columns are written, and padding, which is zero.
        bits = only_leading(b, bits, lanes, self.place.columns.valid[number])
        store_vector(b, self._type(access), bits, pointer, lanes, self.place.columns.written[number])
