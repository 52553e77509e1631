"""Shuffles: `--shuffle --dir=BWD_D --tag=axb --group=4 2x12x3`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import restride as rs

from .. import fill
from ..cases import ATTR_KNOB_NAMES, Case
from ..driver import Driver
from ..knobs import ATTR_KNOBS, Knob, direction, parse_axis, parse_count, parse_tag, parse_type
from ..work import CaseOperand, CaseWork, attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleCase(Case):
    """A shuffle, forward or backward."""

    driver: ClassVar[str] = "shuffle"

    dir: str = "FWD_D"
    dt: str = "f32"
    tag: str = "abx"
    axis: int = 1
    group: int = 1

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "dt", "tag", "axis", "group", *ATTR_KNOB_NAMES)


_KNOBS = {
    "dir": direction("dir", "FWD_D", "FWD_I", "BWD_D"),
    "dt": Knob("dt", parse_type),
    "tag": Knob("tag", parse_tag),
    "fmt": Knob("tag", parse_tag),
    "axis": Knob("axis", parse_axis),
    "group": Knob("group", parse_count),
    **ATTR_KNOBS,
}


def _shuffle(case: ShuffleCase) -> CaseWork:
    md = rs.MemoryDesc(case.dims, case.dt, case.tag)
    attr, _ = attributes(case)
    is_forward = case.dir != "BWD_D"
    reads, writes = (rs.ARG_SRC, rs.ARG_DST) if is_forward else (rs.ARG_DIFF_DST, rs.ARG_DIFF_SRC)

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        kind = "forward_inference" if case.dir == "FWD_I" else "forward_training"
        # What no forward shuffle can be, such as one of format any, is none to go back from.
        forward = rs.ShuffleForward.Desc(kind, md, case.axis, case.group)
        if is_forward:
            return rs.ShuffleForward.PrimitiveDesc(forward, engine, attr)
        desc = rs.ShuffleBackward.Desc(md, case.axis, case.group)
        return rs.ShuffleBackward.PrimitiveDesc(desc, engine, None, attr)

    return CaseWork(
        create,
        lambda pd: (rs.ShuffleForward if is_forward else rs.ShuffleBackward)(pd),
        CaseOperand(reads, md, case.tag, lambda nbytes: fill.bits_for(md.data_type, nbytes)),
        CaseOperand(writes, md, case.tag),
    )


SHUFFLE = Driver(
    ShuffleCase, _KNOBS, _shuffle, lambda case: (case.dt,), "%dir%,%dt%,%tag%,%group%,%axis%,%DESC%"
)
