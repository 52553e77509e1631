"""Primitive attributes: scales, zero points, post-ops, modes, scratchpad mode.

Setters mutate, `freeze` makes an `Attr`. What is right alone is checked here; what needs the descriptors, in
`attr_check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from ..dtypes import DataType
from ..errors import refuse
from ..foreign import plain_text
from .algorithm import ScratchpadMode
from .attr_value import (
    ARG_SRC,
    Attr,
    Compensation,
    Factor,
    RnnQparams,
    common_scale,
    is_neutral,
    without_neutral,
)
from .factor_parse import (
    RUNTIME_F32_VAL,
    RUNTIME_S32_VAL,
    parse_arg,
    parse_mask,
    parse_scaled,
    parse_scales,
    parse_shifted,
    parse_zero_points,
)
from .parse import one_of, parse_bool, short_repr, to_f32
from .post_op_values import PostOp
from .post_ops import PostOps

__all__ = [
    "ACCUMULATION_MODES",
    "FPMATH_MODES",
    "ROUNDING_MODES",
    "RUNTIME_F32_VAL",
    "RUNTIME_S32_VAL",
    "SCRATCHPAD_MODES",
    "Attr",
    "Compensation",
    "ModeAttr",
    "PrimitiveAttr",
]

# The largest scale whose reciprocal is more than f32 holds.
_TOO_SMALL = 2.0**-128

# --- attr modes --------------------------------------------------------------
# Modes of arithmetic that oneDNN's attributes have.

FPMATH_MODES = ("strict", "bf16", "f16", "any", "tf32")
ACCUMULATION_MODES = ("strict", "relaxed", "any", "s32", "f32", "f16")
ROUNDING_MODES = ("environment", "stochastic")
# Those that change something.
_LOWER_MODES = "bf16", "any"


class ModeAttr:
    """The part of `PrimitiveAttr` for modes. What would only allow less exact results is held, and changes
    nothing, they stay those of the contract; but for the floating-point modes "bf16" and "any".
    """

    __slots__ = ("_accumulation", "_deterministic", "_fpmath")

    def __init__(self) -> None:
        self._fpmath: tuple[str, bool] = ("strict", False)
        self._accumulation = "strict"
        self._deterministic = False

    def _modes(self) -> tuple[object, ...]:
        """All modes as one value."""
        return self._fpmath, self._accumulation, self._deterministic

    def set_fpmath_mode(self, mode: str, apply_to_int: bool = False) -> None:
        """Set the lower precision to use: "strict", "bf16", "f16", "tf32" or "any".

        "bf16" and "any" round the factors of f32 of matmul, inner product, convolution and deconvolution to
        bf16, where the processor multiplies pairs of these and each is used 16 times or more; sums stay f32.
        With `apply_to_int` also a source of floats that is multiplied with weights of few bits: "bf16" rounds
        it and weights of 4 bits to bf16; "any" quantizes it to 8 bits, a scale for each row and group, beside
        weights of integers. `impl_info_str` says "bf16_contraction" then. Nothing else changes a bit (N1).
        """
        precision = _parse_mode("set_fpmath_mode", mode, FPMATH_MODES)
        self._fpmath = precision, parse_bool("set_fpmath_mode: apply_to_int", apply_to_int)

    def get_fpmath_mode(self) -> tuple[str, bool]:
        """The mode, and whether it is for integers too."""
        return self._fpmath

    def set_accumulation_mode(self, mode: str) -> None:
        """Set the accumulation: "strict", "relaxed", "any", "s32", "f32" or "f16". It is strict (N1)."""
        self._accumulation = _parse_mode("set_accumulation_mode", mode, ACCUMULATION_MODES)

    def get_accumulation_mode(self) -> str:
        """The mode that was set; "strict" at first."""
        return self._accumulation

    def set_deterministic(self, value: bool) -> None:
        """Set to True where equal runs must give equal bits. They always do."""
        self._deterministic = parse_bool("set_deterministic", value)

    def get_deterministic(self) -> bool:
        """The value that was set; False at first."""
        return self._deterministic

    def set_rounding_mode(self, arg: int, mode: str) -> None:
        """Set the rounding of an argument: "environment", which is half to even (N2).

        Raises Unimplemented for "stochastic".
        """
        parse_arg("set_rounding_mode", arg)
        if _parse_mode("set_rounding_mode", mode, ROUNDING_MODES) != "environment":
            raise refuse("RS-N02")

    def get_rounding_mode(self, arg: int) -> str:
        """ "environment": there is no other."""
        parse_arg("get_rounding_mode", arg)
        return "environment"

    def set_dropout(self, *_: Any) -> None:
        """Raise Unimplemented: a reorder keeps its elements."""
        raise refuse("RS-R34")


def _parse_mode(call: str, mode: object, words: tuple[str, ...]) -> str:
    word = plain_text(mode)
    if isinstance(word, str) and word in words:
        return word
    raise refuse("RS-V04:mode", call=call, mode=short_repr(mode), advice=one_of(words, mode))


# --- attr --------------------------------------------------------------------
# Primitive attributes: scales, zero points, post-ops, scratchpad mode.

SCRATCHPAD_MODES = tuple(mode.value for mode in ScratchpadMode)


class PrimitiveAttr(ModeAttr):
    """Attributes of a primitive (`dnnl::primitive_attr`). Mutable; primitive descriptors copy it.

    A setter called again replaces. One scale of exactly 1, and one zero point of 0, are the same as none.
    """

    __slots__ = (
        "_compensation",
        "_output_scales",
        "_post_ops",
        "_rnn",
        "_scales",
        "_scratchpad",
        "_zero_points",
    )

    def __init__(self) -> None:
        super().__init__()
        self._output_scales: Factor | None = None
        # Replaced, never changed, so that a shallow copy is a copy.
        self._scales: dict[int, Factor] = {}
        self._zero_points: dict[int, Factor] = {}
        self._post_ops: tuple[PostOp, ...] = ()
        self._scratchpad = "library"
        self._compensation: Compensation | None = None
        self._rnn: RnnQparams | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrimitiveAttr):
            return NotImplemented
        return self.freeze() == other.freeze() and self._modes() == other._modes()

    # It can change.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<PrimitiveAttr {self.freeze().verbose_str() or 'default'}>"

    def freeze(self) -> Attr:
        """The attributes as they are now, as a hashable value."""
        return Attr(
            None if is_neutral(self._output_scales) else self._output_scales,
            without_neutral(self._scales),
            without_neutral(self._zero_points),
            self._post_ops,
            self._scratchpad,
            self._compensation,
            None if self._rnn is None or self._rnn == RnnQparams() else self._rnn,
            *(self._fpmath if self._fpmath[0] in _LOWER_MODES else ()),
        )

    @classmethod
    def of(cls, frozen: Attr) -> PrimitiveAttr:
        """Attributes to change, equal to a frozen value."""
        attr = cls()
        attr._output_scales = frozen.output_scales
        attr._scales, attr._zero_points = dict(frozen.scales), dict(frozen.zero_points)
        attr._post_ops, attr._scratchpad = frozen.post_ops, frozen.scratchpad
        attr._compensation, attr._rnn = frozen.compensation, frozen.rnn
        attr._fpmath = frozen.fpmath, frozen.fpmath_int
        return attr

    def set_output_scales(self, mask: int, scales: Iterable[float] | float) -> None:
        """Multiply the source by f32 scales: one for mask 0, else one for each index of masked dims.

        `scales`: a number, sequence or array, row-major over the masked dims in logical order;
        [rs.onednn.RUNTIME_F32_VAL] where they are passed at execution. (0, [1.0]) takes them back.
        Raises InvalidArguments for what is no number, and where the source has a scale by `set_scales`.
        """
        call = "set_output_scales"
        factor = parse_scales(call, mask, (None,) if scales is None else scales, (), DataType.f32)
        _check_one_scale(call, factor, self._scales.get(ARG_SRC))
        self._output_scales = factor

    def get_output_scales(self) -> tuple[int, list[float]]:
        """The mask, and the scales as rounded to f32; [RUNTIME_F32_VAL] where they come at execution."""
        factor = self._output_scales or common_scale(1.0)
        return factor.mask, [RUNTIME_F32_VAL] if factor.values is None else _values_of(factor)

    def set_scales(
        self,
        arg: int,
        mask: int,
        scales: Iterable[float] | float | None = None,
        groups: Sequence[int] = (),
        data_type: Any = "f32",
    ) -> None:
        """Scale one argument: the source is multiplied, the destination divided (N1).

        `scales`: None where a memory is passed at execution, else as for `set_output_scales`. `groups`: how
        many elements of each of the last dims share a scale. `data_type`: of that memory; f32, bf16, f16,
        e8m0, f8_e5m2 or f8_e4m3, and given scales are rounded to it.
        Sources of a concat are `ARG_MULTIPLE_SRC + i`.
        As in oneDNN any float is a scale: a destination is divided by 0, NaN and infinities too, so that all
        integers are at a limit or the zero point. Raises InvalidArguments for other types of values, and what
        `data_type` cannot hold; Unimplemented for other arguments.
        """
        number = parse_scaled("set_scales", arg)
        factor = parse_scales("set_scales", mask, scales, groups, data_type)
        if number == ARG_SRC:
            _check_one_scale("set_scales", factor, self._output_scales)
        self._scales = {**self._scales, number: factor}

    def set_scales_mask(self, arg: int, mask: int) -> None:
        """Scale one argument by a memory of f32 that is passed at execution."""
        self.set_scales(arg, mask)

    def get_scales(self, arg: int) -> tuple[int, list[float] | None, tuple[int, ...], DataType] | None:
        """Mask, scales (None: passed at execution), groups and data type; None where none is set."""
        factor = self._scales.get(parse_arg("get_scales", arg))
        return None if factor is None else _params(factor)

    def set_zero_points(
        self,
        arg: int,
        mask: int,
        zero_points: Iterable[int] | int | None = None,
        groups: Sequence[int] = (),
        data_type: Any = "s32",
    ) -> None:
        """Shift one argument: subtracted from source and weights, added to the destination (N1).

        `zero_points`: None or rs.onednn.RUNTIME_S32_VAL where a memory is passed at execution, else integers,
        row-major over the masked dims in logical order. `groups` as for `set_scales`. `data_type`: of that
        memory; s32, s8, u8, s4 or u4. (0, [0]) takes them back.
        Raises InvalidArguments for what is no integer or beyond that type, Unimplemented for other arguments
        than ARG_SRC, ARG_WEIGHTS and ARG_DST.
        """
        number = parse_shifted("set_zero_points", arg)
        factor = parse_zero_points("set_zero_points", mask, zero_points, groups, data_type)
        self._zero_points = {**self._zero_points, number: factor}

    def set_zero_points_mask(self, arg: int, mask: int) -> None:
        """Shift one argument by a memory of s32 that is passed at execution."""
        self.set_zero_points(arg, mask)

    def get_zero_points(self, arg: int) -> tuple[int, list[int] | None, tuple[int, ...], DataType] | None:
        """Mask, zero points (None: passed at execution), groups and data type; None where none is set."""
        factor = self._zero_points.get(parse_arg("get_zero_points", arg))
        return None if factor is None else _params(factor)

    def set_post_ops(self, post_ops: PostOps) -> None:
        """Take a copy of a post-op chain; later appends to the original have no effect."""
        if not isinstance(post_ops, PostOps):
            what, hint = f"set_post_ops: got {short_repr(post_ops)}", "make one with rs.onednn.PostOps()"
            raise refuse("RS-V08:postops", what=what, hint=hint)
        self._post_ops = post_ops.freeze()

    def get_post_ops(self) -> PostOps:
        """A copy of the post-op chain."""
        return PostOps.of(self._post_ops)

    def set_compensation(self, mask: int, s8s8: bool = True, zero_point: bool = False) -> None:
        """Write sums of the quantised destination too, one s32 for each index of the masked dims.

        An execution passes memories for them: `Arg.DST_1` for `s8s8`, -128 times the sums, and
        `Arg.DST_2` for `zero_point`, -1 times them; each as long as the padded masked dims. `mask` is 1
        for OIhw weights, 3 for gOIhw. Neither flag takes it back.
        """
        bits = parse_mask("set_compensation", mask)
        flags = {"s8s8": s8s8, "zero_point": zero_point}
        compensation = Compensation(
            bits, *(parse_bool(f"set_compensation: {name}", value) for name, value in flags.items())
        )
        self._compensation = compensation if compensation.s8s8 or compensation.zero_point else None

    def get_compensation(self) -> tuple[int, bool, bool] | None:
        """Mask, s8s8 and zero_point; None where no sums are written."""
        sums = self._compensation
        return None if sums is None else (sums.mask, sums.s8s8, sums.zero_point)

    def set_rnn_data_qparams(self, scale: float, shift: float) -> None:
        """Set the quantization of source and states of a recurrent network of bytes: `q = x * scale + shift`.

        Raises InvalidArguments for a scale that is not above 0 or whose reciprocal f32 does not hold, and for
        what is no finite number.
        """
        qparams = self._rnn or RnnQparams()
        call = "set_rnn_data_qparams"
        name = f"{call}: shift"
        self._rnn = replace(
            qparams,
            data_scale=_parse_positive(f"{call}: scale", scale),
            data_shift=_parse_finite(name, to_f32(shift, name)),
        )

    def get_rnn_data_qparams(self) -> tuple[float, float]:
        """Scale and shift; 1 and 0 at first."""
        qparams = self._rnn or RnnQparams()
        return qparams.data_scale, qparams.data_shift

    def set_rnn_weights_qparams(self, mask: int, scales: Sequence[float]) -> None:
        """Set the quantization of the weights of a recurrent network: `q = w * scale`.

        `mask`: 0 for one scale, 24 for one for each gate and output, in this order. Raises InvalidArguments
        for other masks, and for scales that are not above 0 or whose reciprocals f32 does not hold.
        """
        call = "set_rnn_weights_qparams"
        bits = parse_mask(call, mask)
        try:
            row = list[object](scales)
        except Exception:  # what iterates may raise anything
            row = [scales]
        numbers = tuple(_parse_positive(f"{call}: scale", scale) for scale in row)
        if bits not in (0, 24) or (bits == 0 and len(numbers) != 1) or not numbers:
            raise refuse("RS-N10:mask-scales", call=call, bits=bits, count=len(numbers))
        self._rnn = replace(self._rnn or RnnQparams(), weights_mask=bits, weights_scales=numbers)

    def get_rnn_weights_qparams(self) -> tuple[int, list[float]]:
        """Mask and scales; 0 and [1.0] at first."""
        qparams = self._rnn or RnnQparams()
        return qparams.weights_mask, list(qparams.weights_scales)

    def set_scratchpad_mode(self, mode: ScratchpadMode | str) -> None:
        """Set the owner of the scratchpad: a `ScratchpadMode`, or its word, "library" or "user"."""
        mode = plain_text(mode)
        if not isinstance(mode, str) or mode not in SCRATCHPAD_MODES:
            what, hint = f"set_scratchpad_mode: mode is {short_repr(mode)}", "'library' is the default"
            raise refuse("RS-V04:library-user", what=what, hint=hint)
        self._scratchpad = mode

    def get_scratchpad_mode(self) -> ScratchpadMode:
        """The mode that was set, which equals its word; "library" at first."""
        return ScratchpadMode(self._scratchpad)


def _parse_finite(name: str, number: float) -> float:
    if isfinite(number):
        return number
    raise refuse("RS-V02:not-finite", name=name, number=number)


def _parse_positive(name: str, value: object) -> float:
    number = _parse_finite(name, to_f32(value, name))
    if number > _TOO_SMALL:
        return number
    is_small = number > 0
    raise refuse(
        "RS-V02:too-small" if is_small else "RS-V02:not-positive",
        name=name,
        number=number,
        too_small=_TOO_SMALL,
    )


def _values_of(factor: Factor) -> list[Any]:
    values = factor.to_numpy()
    return [] if values is None else values.tolist()


def _params(factor: Factor) -> tuple[int, list[Any] | None, tuple[int, ...], DataType]:
    values = None if factor.values is None else _values_of(factor)
    return factor.mask, values, factor.groups, factor.data_type


def _check_one_scale(call: str, new: Factor, other: Factor | None) -> None:
    if is_neutral(new) or is_neutral(other):
        return
    raise refuse("RS-N01", call=call)
