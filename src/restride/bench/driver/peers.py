"""Peers beside restride, in turn on the same problem (--peers)."""

from __future__ import annotations

from collections.abc import Callable

from .cases import Case
from .common import Common
from .fill import Bytes
from .result import PeerTime


def beside(
    case: Case, common: Common, call: Callable[[], None], storages: tuple[Bytes, Bytes]
) -> tuple[PeerTime, ...]:
    """Time restride and every peer in turn."""
    return ()
