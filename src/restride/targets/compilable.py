"""The common part of every kind of lowered work: it can become object code."""

from __future__ import annotations

from typing import Protocol

from ..ir.nest import LoopNest
from .isa import Isa


class Compilable(Protocol):
    """Work that can become object code: `key` holds all that its code depends on besides the compiler."""

    @property
    def key(self) -> tuple[object, ...]:
        """The values that the code depends on besides the compiler."""

    @property
    def isa(self) -> Isa:
        """The instruction set that it is lowered for."""

    def ir(self) -> str:
        """The kernel as LLVM IR text."""


class WrittenInOrder:
    """Work lowered to code that writes its destination from the first byte to the last."""

    __slots__ = ()
    # Of those that write here and there, so that the pages they write to are known.
    nests: tuple[LoopNest, ...] = ()
