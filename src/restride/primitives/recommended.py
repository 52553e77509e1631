"""Which blocked format suits a machine: what `any` stands for where nothing else decides (P11)."""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import short_repr
from ..errors import InvalidArguments
from ..targets.isa import host_isa

_WIDE_VECTOR = 64


def recommended_desc(md: MemoryDesc) -> MemoryDesc:
    """`md`, of any format, in a format with the second dim, the channels, in blocks that suit this machine.

    Blocks of 16 where vectors have 64 bytes (nChw16c), else of 8 (nChw8c); RESTRIDE_MAX_CPU_ISA counts.
    Raises InvalidArguments for less than two dims, or dims that are not known.
    """
    if not isinstance(md, MemoryDesc) or md.is_zero():
        raise _refused("RS-V08", short_repr(md), "there is no descriptor with dims", "pass a rs.MemoryDesc")
    if md.ndims < 2 or md.layout.has_runtime:
        raise _refused(
            "RS-M04", str(md), "channels are the second dim, and must be known", "give at least two dims"
        )
    block = 16 if host_isa().vector_bytes >= _WIDE_VECTOR else 8
    return MemoryDesc(md.dims, md.data_type, f"aBx{block}b" if md.ndims > 2 else f"aB{block}b")


def _refused(code: str, where: str, why: str, hint: str) -> InvalidArguments:
    return InvalidArguments(
        "recommended_desc: nothing to recommend", code=code, where=where, why=why, hint=hint
    )
