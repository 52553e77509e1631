"""Shuffle, forward and backward: channels exchanged between groups, and put back (seed 000)."""

from __future__ import annotations

from ..errors import InvalidArguments
from ..runtime.memory import Memory
from .primitive import Primitive
from .shuffle_desc import ShuffleBackwardDesc, ShuffleForwardDesc
from .shuffle_pd import ShuffleBackwardPrimitiveDesc, ShuffleForwardPrimitiveDesc

__all__ = ["ShuffleBackward", "ShuffleForward"]


class _Shuffle(Primitive):
    """What both directions share."""

    __slots__ = ()

    def _check_overlap(self, src: Memory, dst: Memory) -> None:
        raise InvalidArguments(
            f"{self.kind}.execute: source and destination overlap",
            code="RS-S18",
            where=f"src {src.desc}; dst {dst.desc}",
            why="elements would be written before they are read: a shuffle is not done in place",
            hint="use another buffer",
        )


class ShuffleForward(_Shuffle):
    """The forward shuffle (`dnnl::shuffle_forward`): `dst[u + v * C/G] = src[u * G + v]` on an axis.

    `ShuffleForward(pd)`; without arguments it is empty, and executing it is an error. G is the group size:
    the number of groups, as torch and OpenVINO count them, is C / G. Executed with `ARG_SRC` and `ARG_DST`.
    """

    Desc = ShuffleForwardDesc
    PrimitiveDesc = ShuffleForwardPrimitiveDesc
    kind = "ShuffleForward"
    usage = "rs.ShuffleForward(pd)"

    __slots__ = ()


class ShuffleBackward(_Shuffle):
    """The backward shuffle (`dnnl::shuffle_backward`): the gradient of the source from the destination's.

    `ShuffleBackward(pd)`; it undoes the forward shuffle of the same group size. Executed with
    `ARG_DIFF_DST`, which is read, and `ARG_DIFF_SRC`, which is written.
    """

    Desc = ShuffleBackwardDesc
    PrimitiveDesc = ShuffleBackwardPrimitiveDesc
    kind = "ShuffleBackward"
    usage = "rs.ShuffleBackward(pd)"

    __slots__ = ()
