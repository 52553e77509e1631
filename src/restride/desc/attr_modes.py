"""Modes of arithmetic that oneDNN's attributes have (R34); here there is one way."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidArguments, Unimplemented
from ..foreign import plain_text
from .factor_parse import parse_arg
from .parse import one_of, parse_bool, short_repr

FPMATH_MODES = ("strict", "bf16", "f16", "any", "tf32")
ACCUMULATION_MODES = ("strict", "relaxed", "any", "s32", "f32", "f16")
ROUNDING_MODES = ("environment", "stochastic")


class ModeAttr:
    """The part of `PrimitiveAttr` for modes. What would only allow less exact results is held, and changes
    nothing: they stay those of the contract.
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
        """Which lower precision may be used: "strict", "bf16", "f16", "tf32" or "any". None ever is (N1)."""
        wanted = _parse_mode("set_fpmath_mode", mode, FPMATH_MODES)
        self._fpmath = wanted, parse_bool("set_fpmath_mode: apply_to_int", apply_to_int)

    def get_fpmath_mode(self) -> tuple[str, bool]:
        """The mode, and whether it is for integers too."""
        return self._fpmath

    def set_accumulation_mode(self, mode: str) -> None:
        """How to accumulate: "strict", "relaxed", "any", "s32", "f32" or "f16". It is strict (N1)."""
        self._accumulation = _parse_mode("set_accumulation_mode", mode, ACCUMULATION_MODES)

    def get_accumulation_mode(self) -> str:
        """What was set; "strict" at first."""
        return self._accumulation

    def set_deterministic(self, value: bool) -> None:
        """Whether equal runs must give equal bits. They always do."""
        self._deterministic = parse_bool("set_deterministic", value)

    def get_deterministic(self) -> bool:
        """What was set; False at first."""
        return self._deterministic

    def set_rounding_mode(self, arg: int, mode: str) -> None:
        """How an argument is rounded: "environment", which is half to even (N2).

        Raises Unimplemented for "stochastic".
        """
        parse_arg("set_rounding_mode", arg)
        if _parse_mode("set_rounding_mode", mode, ROUNDING_MODES) != "environment":
            raise Unimplemented(
                "set_rounding_mode: stochastic rounding",
                code="RS-N02",
                why="equal runs give equal bits: results are rounded half to even (N2)",
                hint="leave the rounding mode out",
            )

    def get_rounding_mode(self, arg: int) -> str:
        """ "environment": there is no other."""
        parse_arg("get_rounding_mode", arg)
        return "environment"

    def set_dropout(self, *_: Any) -> None:
        """Raise Unimplemented: a reorder keeps its elements (R34)."""
        raise Unimplemented(
            "set_dropout: there is no dropout",
            code="RS-R34",
            why="a reorder keeps its elements (R34)",
            hint='multiply with a mask: append_binary("mul", mask)',
        )


def _parse_mode(call: str, mode: object, known: tuple[str, ...]) -> str:
    word = plain_text(mode)
    if isinstance(word, str) and word in known:
        return word
    raise InvalidArguments(
        f"{call}: mode is {short_repr(mode)}",
        code="RS-V04",
        why="there is no such mode",
        hint=one_of(known, mode),
    )
