"""Elements of groups: divided by their scale, and rounded to codes, a vector at a time.

`ElementWriter` does it as `ScaleRule.compute` says; `WordDivision` sooner, where the types allow it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtypes import DataType
from ..ir.nest import Compute
from ..ir.scale_rule import ScaleRule
from .builder import Builder, Value, lanes_of, vector
from .compute import StepInputs, VectorArithmetic, real_steps, run_steps
from .convert import Abilities, canonical_nan
from .kernel import Style
from .pack import PARTS, can_pack, integers_of, is_small_float, pack, parts_of
from .small_float import small_code
from .word_codes import LEAST_OVER, codes_of_words, power_of, word_over, words_of_reals, words_over_power

# Lanes of a register of bytes whose elements are read by turns.
_BY_TURNS = 64
# By lanes: bytes times weights, summed two by two.
_TO_WORDS = {
    16: "llvm.x86.ssse3.pmadd.ub.sw.128",
    32: "llvm.x86.avx2.pmadd.ub.sw",
    64: "llvm.x86.avx512.pmaddubs.w.512",
}

Operands = tuple[Value, ...]
"""What the lanes of a vector are computed with: a vector for each number of their groups."""


class ElementWriter:
    """Writes the codes of vectors of `size` elements, a byte each."""

    def __init__(self, b: Builder, rule: ScaleRule, src_type: DataType, size: int, style: Style) -> None:
        self.b, self.rule, self.src_type, self.size, self.style = b, rule, src_type, size, style
        self.scalars = tuple(_float(number) for number in rule.conversion_numbers())

    def codes(self, bits: Value, operands: Operands) -> Value:
        """By the operands that `ScaleWriter` gives."""
        b, types, can, compute = (
            self.b,
            (self.src_type, self.rule.data_type),
            self.style.can,
            self.rule.compute(),
        )
        if can.packs and self.size == self.style.vector_bytes and can_pack(*types, compute):
            return self._packed(bits, operands)
        inputs = StepInputs(self.scalars, operands.__getitem__, lambda _: bits)
        return run_steps(b, bits, types, compute, inputs, can)

    def _packed(self, bits: Value, operands: Operands) -> Value:
        """A register of bytes from four parts, each narrowed to 32 bits for itself."""
        b, kind, compute = self.b, self.rule.data_type, self.rule.compute()
        if is_small_float(kind) and self.style.can.has_tables:
            # Words saturate by themselves.
            free = Compute(tuple(step for step in compute.steps if step.name != "clip"))
            words = words_of_reals(b, self._reals(bits, operands, free), by_turns=self._is_by_turns)
            return codes_of_words(
                b, words, kind, lambda: self._packed_codes(self._reals(bits, operands, compute))
            )
        reals = self._reals(bits, operands, compute)
        if is_small_float(kind):
            return self._packed_codes(reals)
        is_number = any(step.name == "nan_to_zero" for step in compute.steps)
        return self._in_order(
            pack(b, [integers_of(b, real, kind, is_number=is_number) for real in reals], kind)
        )

    @property
    def _is_by_turns(self) -> bool:
        """True where parts take elements by turns: bf16 becomes f32 by one shift, or one mask, of pairs."""
        return self.src_type is DataType.bf16 and self.size == _BY_TURNS and self.style.can.has_tables

    @property
    def _elements_of_parts(self) -> list[list[int]]:
        """Which elements of a vector are in each of its four parts."""
        count = self.size // PARTS
        if not self._is_by_turns:
            return [list(range(first, first + count)) for first in range(0, self.size, count)]
        return [
            list(range(first + turn, first + 2 * count, 2))
            for first in range(0, self.size, 2 * count)
            for turn in (0, 1)
        ]

    def _parts(self, bits: Value) -> tuple[DataType, list[Value]]:
        """The four parts of a vector, and their type."""
        b, count = self.b, self.size // PARTS
        if not self._is_by_turns:
            return self.src_type, [b.lanes(bits, first, count) for first in range(0, self.size, count)]
        found = []
        for first in range(0, self.size, 2 * count):
            kind = vector("i32", count)
            both = b.value(kind, f"bitcast {b.lanes(bits, first, 2 * count)} to {kind}")
            found += [b.op("shl", both, b.splat("i32", count, "16"))]
            found += [b.op("and", both, b.splat("i32", count, str(-1 << 16)))]
        return DataType.f32, found

    def _reals(self, bits: Value, operands: Operands, compute: Compute) -> list[Value]:
        """The four parts of a vector after these steps."""
        b, found = self.b, []
        kind, parts = self._parts(bits)
        for part, elements in zip(parts, self._elements_of_parts, strict=True):
            over = tuple(b.shuffle(operand, operand, elements) for operand in operands)
            inputs = StepInputs(self.scalars, over.__getitem__, lambda _: bits)
            types = kind, self.rule.data_type
            found.append(real_steps(b, part, types, compute, inputs, self.style.can))
        return found

    def _packed_codes(self, reals: Sequence[Value]) -> Value:
        """Small floats of any size."""
        b, kind = self.b, self.rule.data_type
        parts = [small_code(b, b.bitcast(canonical_nan(b, real), "i32"), kind) for real in reals]
        return self._in_order(pack(b, parts, kind))

    def _in_order(self, packed: Value) -> Value:
        """The elements of a packed register in the order of the vector."""
        places = [0] * self.size
        there = parts_of(tuple(range(self.size)))
        for elements, lanes in zip(self._elements_of_parts, there, strict=True):
            for element, lane in zip(elements, lanes, strict=True):
                places[element] = lane
        return self.b.shuffle_wide(packed, packed, tuple(places))


# --- sooner -------------------------------------------------------------------------------------------------


class WordDivision:
    """bf16 over powers of two, without a float of 32 bits (`word_codes.py`): the same codes sooner.

    So long as no power is below `limit`: of those of a step the smallest counts.
    """

    kind = "i16"
    limit = LEAST_OVER
    most = (1 << 15) - 1

    def __init__(self, elements: ElementWriter) -> None:
        self._elements, self._b = elements, elements.b

    def operand(self, inverse: Value) -> Value:
        """What words are divided by, for the reciprocals that `ScaleWriter` gives."""
        return word_over(self._b, inverse)

    def codes(self, bits: Value, operands: Operands) -> Value:
        """The codes of source bits."""
        b, (over,), elements = self._b, operands, self._elements
        words = words_over_power(b, bits, over)
        return codes_of_words(
            b, words, elements.rule.data_type, lambda: elements.codes(bits, (power_of(b, over),))
        )


def word_division(elements: ElementWriter) -> WordDivision | None:
    """That of these elements, where they have it."""
    rule, can = elements.rule, elements.style.can
    is_whole = can.has_tables and can.masks and elements.size == elements.style.vector_bytes
    is_word = elements.src_type is DataType.bf16 and rule.is_power and is_small_float(rule.data_type)
    return WordDivision(elements) if is_word and is_whole else None


# --- in registers -------------------------------------------------------------------------------------------


def pairs(b: Builder, nibbles: Value, can: Abilities, *, are_clean: bool) -> Value:
    """Lanes of 4 bits, two to a byte, the first in the low half; `are_clean`: with zeros above the 4 bits."""
    lanes = lanes_of(nibbles) // 2
    if can.packs and 2 * lanes <= can.shuffled_bytes and 2 * lanes in _TO_WORDS:
        if not are_clean:
            nibbles = b.op("and", nibbles, b.splat("i8", 2 * lanes, "15"))
        weights = Value(nibbles.type, "<" + ", ".join(["i8 1, i8 16"] * lanes) + ">")
        kinds = f"{nibbles.type}, {nibbles.type}"
        words = b.call(vector("i16", lanes), _TO_WORDS[2 * lanes], f"{nibbles}, {weights}", kinds)
        return b.cast("trunc", words, "i8")
    both = b.value(vector("i16", lanes), f"bitcast {nibbles} to {vector('i16', lanes)}")
    low = b.op("and", both, b.splat("i16", lanes, "15"))
    high = b.op("and", b.op("lshr", both, b.splat("i16", lanes, "4")), b.splat("i16", lanes, "240"))
    return b.cast("trunc", b.op("or", low, high), "i8")


def _float(number: float) -> Value:
    """A number that f32 holds, as LLVM writes it."""
    text = VectorArithmetic(Builder()).constant(number, Value("<1 x float>", "")).ref.split()[-1].rstrip(")")
    return Value("float", text)
