"""The form of packed weights as a text: a mode, and name, type, dims and tag of each part.

For example "strict: values s4 256x96 BA16b8a, scale f32 2x96 ab".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ...desc.memory_desc import MemoryDesc

__all__ = ["descs_of_form", "form_of_descs", "mode_of_form"]


def form_of_descs(descs: Mapping[str, MemoryDesc], mode: str) -> str:
    """Return the form of parts with these names and descriptors."""
    rows = ((name, md, "x".join(map(str, md.dims))) for name, md in descs.items())
    return f"{mode}: " + ", ".join(f"{name} {md.data_type} {dims} {md.tag}" for name, md, dims in rows)


@lru_cache(maxsize=256)
def descs_of_form(form: str) -> dict[str, MemoryDesc]:
    """Return the descriptors in a form, by the names of the parts."""
    descs = {}
    for row in form.partition(": ")[2].split(", "):
        name, kind, dims, tag = row.split(" ")
        descs[name] = MemoryDesc(tuple(map(int, dims.split("x"))), kind, tag)
    return descs


def mode_of_form(form: str) -> str:
    """Return the mode in a form."""
    return form.partition(": ")[0]
