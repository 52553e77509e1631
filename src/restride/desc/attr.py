"""Primitive attributes: scales, zero points, post-ops, modes, scratchpad mode.

Setters mutate; `freeze` creates an `Attr`. Each attribute is checked here on its own, and against the
descriptors in `attr_check`.
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
from .arguments import ARG_SRC
from .attr_value import (
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

# The largest scale whose reciprocal exceeds f32.
_TOO_SMALL = 2.0**-128

# --- attr modes --------------------------------------------------------------
# oneDNN's modes of arithmetic.

FPMATH_MODES = ("strict", "bf16", "f16", "any", "tf32")
ACCUMULATION_MODES = ("strict", "relaxed", "any", "s32", "f32", "f16")
ROUNDING_MODES = ("environment", "stochastic")
# Modes that have an effect.
_LOWER_MODES = "bf16", "any"


class ModeAttr:
    """The part of `PrimitiveAttr` for modes. A mode that would only allow less exact results is stored
    without effect, except the floating-point modes "bf16" and "any".
    """

    __slots__ = ("_accumulation", "_deterministic", "_fpmath")

    def __init__(self) -> None:
        self._fpmath: tuple[str, bool] = ("strict", False)
        self._accumulation = "strict"
        self._deterministic = False

    def _modes(self) -> tuple[object, ...]:
        """Return all modes as one value."""
        return self._fpmath, self._accumulation, self._deterministic

    def set_fpmath_mode(self, mode: str, apply_to_int: bool = False) -> None:
        """Set the lower precision that is allowed: "strict", "bf16", "f16", "tf32" or "any".

        "bf16" and "any" round f32 factors of matmul, inner product, convolution and deconvolution to bf16, if
        the processor multiplies pairs of bf16 and each factor is used at least 16 times; accumulation stays
        in f32. `apply_to_int` extends this to a floating-point source that is multiplied by quantized
        weights: "bf16" rounds it and 4-bit weights to bf16; "any" quantizes it to 8 bits, with a scale for
        each row and group, if the weights are integers. `impl_info_str` then contains "bf16_contraction". No
        other mode changes results (N1).
        """
        precision = _parse_mode("set_fpmath_mode", mode, FPMATH_MODES)
        self._fpmath = precision, parse_bool("set_fpmath_mode: apply_to_int", apply_to_int)

    def get_fpmath_mode(self) -> tuple[str, bool]:
        """Return the mode, and whether it applies to integers too."""
        return self._fpmath

    def set_accumulation_mode(self, mode: str) -> None:
        """Set the accumulation: "strict", "relaxed", "any", "s32", "f32" or "f16". It stays strict (N1)."""
        self._accumulation = _parse_mode("set_accumulation_mode", mode, ACCUMULATION_MODES)

    def get_accumulation_mode(self) -> str:
        """Return the mode that was set; initially "strict"."""
        return self._accumulation

    def set_deterministic(self, value: bool) -> None:
        """Request that equal runs give equal bits. They always do."""
        self._deterministic = parse_bool("set_deterministic", value)

    def get_deterministic(self) -> bool:
        """Return the value that was set; initially False."""
        return self._deterministic

    def set_rounding_mode(self, arg: int, mode: str) -> None:
        """Set the rounding of an argument: "environment", which is half to even (N2).

        Raises Unimplemented for "stochastic".
        """
        parse_arg("set_rounding_mode", arg)
        if _parse_mode("set_rounding_mode", mode, ROUNDING_MODES) != "environment":
            raise refuse("RS-N02")

    def get_rounding_mode(self, arg: int) -> str:
        """Return "environment", the only supported mode."""
        parse_arg("get_rounding_mode", arg)
        return "environment"

    def set_dropout(self, *_: Any) -> None:
        """Raise Unimplemented: a reorder drops no elements."""
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

    A setter called again replaces the earlier value. One scale of exactly 1, or one zero point of 0, is the
    same as none.
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
        # Replaced, never modified, so that a shallow copy suffices.
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

    # Mutable, so not hashable.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<PrimitiveAttr {self.freeze().verbose_str() or 'default'}>"

    def freeze(self) -> Attr:
        """Return the current attributes as a hashable value."""
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
        """Return mutable attributes equal to a frozen value."""
        attr = cls()
        attr._output_scales = frozen.output_scales
        attr._scales, attr._zero_points = dict(frozen.scales), dict(frozen.zero_points)
        attr._post_ops, attr._scratchpad = frozen.post_ops, frozen.scratchpad
        attr._compensation, attr._rnn = frozen.compensation, frozen.rnn
        attr._fpmath = frozen.fpmath, frozen.fpmath_int
        return attr

    def set_output_scales(self, mask: int, scales: Iterable[float] | float) -> None:
        """Multiply the source by f32 scales: one for mask 0, else one for each index of the masked dims.

        `scales`: a number, sequence or array, row-major over the masked dims in logical order, or
        [rs.onednn.RUNTIME_F32_VAL] if they are passed at execution. (0, [1.0]) removes them.
        Raises InvalidArguments for non-numbers, and if the source has a scale set by `set_scales`.
        """
        call = "set_output_scales"
        factor = parse_scales(call, mask, (None,) if scales is None else scales, (), DataType.f32)
        _check_one_scale(call, factor, self._scales.get(ARG_SRC))
        self._output_scales = factor

    def get_output_scales(self) -> tuple[int, list[float]]:
        """Return mask and scales rounded to f32; [RUNTIME_F32_VAL] if they are passed at execution."""
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

        `scales`: None if a memory is passed at execution, else as for `set_output_scales`. `groups`: how many
        elements along each of the last dims share a scale. `data_type`: of that memory; f32, bf16, f16, e8m0,
        f8_e5m2 or f8_e4m3; explicit scales are rounded to it.
        Sources of a concat are `ARG_MULTIPLE_SRC + i`.
        As in oneDNN, any float is accepted: a destination scale of 0, NaN or infinity gives values at a limit
        or at the zero point. Raises InvalidArguments for values of another type or out of the range of
        `data_type`, Unimplemented for other arguments.
        """
        number = parse_scaled("set_scales", arg)
        factor = parse_scales("set_scales", mask, scales, groups, data_type)
        if number == ARG_SRC:
            _check_one_scale("set_scales", factor, self._output_scales)
        self._scales = {**self._scales, number: factor}

    def set_scales_mask(self, arg: int, mask: int) -> None:
        """Scale one argument by an f32 memory passed at execution."""
        self.set_scales(arg, mask)

    def get_scales(self, arg: int) -> tuple[int, list[float] | None, tuple[int, ...], DataType] | None:
        """Return mask, scales (None: passed at execution), groups and data type; None if not set."""
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

        `zero_points`: None or rs.onednn.RUNTIME_S32_VAL if a memory is passed at execution, else integers,
        row-major over the masked dims in logical order. `groups` as for `set_scales`. `data_type`: of that
        memory; s32, s8, u8, s4 or u4. (0, [0]) removes them.
        Raises InvalidArguments for values that are not integers of that type, Unimplemented for arguments
        other than ARG_SRC, ARG_WEIGHTS and ARG_DST.
        """
        number = parse_shifted("set_zero_points", arg)
        factor = parse_zero_points("set_zero_points", mask, zero_points, groups, data_type)
        self._zero_points = {**self._zero_points, number: factor}

    def set_zero_points_mask(self, arg: int, mask: int) -> None:
        """Shift one argument by an s32 memory passed at execution."""
        self.set_zero_points(arg, mask)

    def get_zero_points(self, arg: int) -> tuple[int, list[int] | None, tuple[int, ...], DataType] | None:
        """Return mask, zero points (None: passed at execution), groups and data type; None if not set."""
        factor = self._zero_points.get(parse_arg("get_zero_points", arg))
        return None if factor is None else _params(factor)

    def set_post_ops(self, post_ops: PostOps) -> None:
        """Store a copy of a post-op chain; later appends to the original have no effect."""
        if not isinstance(post_ops, PostOps):
            what, hint = f"set_post_ops: got {short_repr(post_ops)}", "create one with rs.onednn.PostOps()"
            raise refuse("RS-V08:postops", what=what, hint=hint)
        self._post_ops = post_ops.freeze()

    def get_post_ops(self) -> PostOps:
        """Return a copy of the post-op chain."""
        return PostOps.of(self._post_ops)

    def set_compensation(self, mask: int, s8s8: bool = True, zero_point: bool = False) -> None:
        """Also write sums of the quantized destination, one s32 for each index of the masked dims.

        An execution passes memory objects for them: `Arg.DST_1` for `s8s8`, -128 times the sums, and
        `Arg.DST_2` for `zero_point`, -1 times them; each as long as the padded masked dims. `mask` is 1 for
        OIhw weights, 3 for gOIhw. With neither flag, the setting is removed.
        """
        bits = parse_mask("set_compensation", mask)
        flags = {"s8s8": s8s8, "zero_point": zero_point}
        compensation = Compensation(
            bits, *(parse_bool(f"set_compensation: {name}", value) for name, value in flags.items())
        )
        self._compensation = compensation if compensation.s8s8 or compensation.zero_point else None

    def get_compensation(self) -> tuple[int, bool, bool] | None:
        """Return mask, s8s8 and zero_point; None if no sums are written."""
        sums = self._compensation
        return None if sums is None else (sums.mask, sums.s8s8, sums.zero_point)

    def set_rnn_data_qparams(self, scale: float, shift: float) -> None:
        """Set the quantization of source and states of a quantized recurrent network: `q = x * scale +
        shift`.

        Raises InvalidArguments for a scale that is not positive or whose reciprocal exceeds f32, and for
        non-finite numbers.
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
        """Return scale and shift; initially 1 and 0."""
        qparams = self._rnn or RnnQparams()
        return qparams.data_scale, qparams.data_shift

    def set_rnn_weights_qparams(self, mask: int, scales: Sequence[float]) -> None:
        """Set the quantization of the weights of a recurrent network: `q = w * scale`.

        `mask`: 0 for one scale, 24 for one for each gate and output, in this order. Raises InvalidArguments
        for other masks, and for scales that are not positive or whose reciprocals exceed f32.
        """
        call = "set_rnn_weights_qparams"
        bits = parse_mask(call, mask)
        try:
            row = list[object](scales)
        except Exception:  # iterating can raise anything
            row = [scales]
        numbers = tuple(_parse_positive(f"{call}: scale", scale) for scale in row)
        if bits not in (0, 24) or (bits == 0 and len(numbers) != 1) or not numbers:
            raise refuse("RS-N10:mask-scales", call=call, bits=bits, count=len(numbers))
        self._rnn = replace(self._rnn or RnnQparams(), weights_mask=bits, weights_scales=numbers)

    def get_rnn_weights_qparams(self) -> tuple[int, list[float]]:
        """Return mask and scales; initially 0 and [1.0]."""
        qparams = self._rnn or RnnQparams()
        return qparams.weights_mask, list(qparams.weights_scales)

    def set_scratchpad_mode(self, mode: ScratchpadMode | str) -> None:
        """Set the owner of the scratchpad: a `ScratchpadMode` or its name, "library" or "user"."""
        mode = plain_text(mode)
        if not isinstance(mode, str) or mode not in SCRATCHPAD_MODES:
            what, hint = f"set_scratchpad_mode: mode is {short_repr(mode)}", "'library' is the default"
            raise refuse("RS-V04:library-user", what=what, hint=hint)
        self._scratchpad = mode

    def get_scratchpad_mode(self) -> ScratchpadMode:
        """Return the mode that was set, which equals its name; initially "library"."""
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
