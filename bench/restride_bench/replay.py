"""Recipes of `restride verbose --replay`, timed with oneDNN."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cached_property
from typing import Any

from restride import MemoryDesc
from restride.cli.replay import PrimitiveCall, ReplayedTime, median_seconds

from .onednn import OneDNN, OneDNNAttributes, OneDNNDesc, OneDNNPrimitive, int64s

_PROP_KINDS = {"forward_training": 64, "forward_inference": 96}
_ARG_WORKSPACE = 64
# Where the numbers of algorithms begin: of eltwise 0x20, of pooling 0x1ff, of softmax 0x30000.
_RANGES = (range(1, 0x2000), range(0x1FF00, 0x20100), range(0x2FF00, 0x30100))


def open_onednn() -> Callable[[PrimitiveCall], ReplayedTime]:
    """The function that times a recipe. Raises OneDNNError where oneDNN is not installed."""
    return _Replay(OneDNN()).measure


class _Replay:
    """Primitives of recipes, made with oneDNN."""

    def __init__(self, library: OneDNN) -> None:
        self._library = library

    @cached_property
    def _algorithms(self) -> dict[str, int]:
        name_of = self._library.library.dnnl.dnnl_alg_kind2str
        name_of.restype = ctypes.c_char_p
        names = {name_of(number).decode(): number for numbers in _RANGES for number in numbers}
        return {name: number for name, number in names.items() if not name.startswith("unknown")}

    def measure(self, made: PrimitiveCall) -> ReplayedTime:
        """The median time, and what ran. Raises OneDNNError for what oneDNN does not do."""
        library = self._library
        descs = {md: self._desc(md) for md in made.memories.values()}
        attr = self._attributes(made)
        if made.call == "reorder":
            src, dst = (descs[md] for md in made.arguments)
            primitive: OneDNNPrimitive = library.reorder(src, dst, attr=attr)
        else:
            arguments = [self._argument(value, descs) for value in made.arguments]
            primitive = library.primitive(made.call, *arguments, attr=attr)
        chosen = {arg: library.exec_desc(primitive, arg) for arg in (*made.memories, _ARG_WORKSPACE)}
        memories = {arg: library.memory(desc) for arg, desc in chosen.items() if desc.size}
        for memory in memories.values():
            memory.bytes[:] = 0
        return ReplayedTime(median_seconds(primitive.bind_all(memories)), primitive.impl)

    def _desc(self, md: MemoryDesc) -> OneDNNDesc:
        if md.format_kind == "any":
            layout: str | tuple[int, ...] = "any"
        else:
            layout = (md.tag or "") if md.inner_blks else md.strides
        return self._library.desc(md.dims, str(md.data_type), layout)

    def _argument(self, value: Any, descs: dict[MemoryDesc, OneDNNDesc]) -> Any:
        """A value of a recipe as C takes it."""
        if isinstance(value, MemoryDesc):
            return descs[value].pointer
        if isinstance(value, tuple):
            return int64s(value)
        if isinstance(value, str):
            return _PROP_KINDS.get(value) or self._algorithms.get(value, -1)
        return ctypes.c_float(value) if isinstance(value, float) else value

    def _attributes(self, made: PrimitiveCall) -> OneDNNAttributes:
        attr = OneDNNAttributes.new(self._library)
        ops = [
            (word, *numbers, 0)
            if word == "sum"
            else (self._algorithms.get(word, -1), *[*numbers, 0.0, 0.0][:2])
            for word, *numbers in made.post_ops
        ]
        attr.set_chain(ops)
        return attr
