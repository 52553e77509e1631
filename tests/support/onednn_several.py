"""Concat and sum of a real oneDNN: primitives of several sources."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from restride_bench.onednn import Handle, OneDNN, OneDNNAttributes, OneDNNDesc, OneDNNMemory, OneDNNPrimitive

_ARG_DST, _ARG_MULTIPLE_SRC, _ARG_SCALES = 17, 1024, 4096
_QUERY_DST = 133


class Several(OneDNNPrimitive):
    """A primitive of several sources; `dst` is what it writes, `scales` other values that it reads."""

    dst: OneDNNDesc
    scales: Sequence[OneDNNMemory]

    def bind(self, srcs: Sequence[OneDNNMemory], dst: OneDNNMemory) -> Callable[[], None]:
        """A function of no arguments that runs the primitive and waits for its end."""
        memories = {_ARG_MULTIPLE_SRC + i: memory for i, memory in enumerate(srcs)}
        memories |= {_ARG_SCALES | _ARG_MULTIPLE_SRC + i: memory for i, memory in enumerate(self.scales)}
        return self.bind_all({**memories, _ARG_DST: dst})


class SeveralOneDNN(OneDNN):
    """The library with concat and sum."""

    def concat(
        self, axis: int, srcs: Sequence[OneDNNDesc], dst: OneDNNDesc | None, scales: Sequence[float] = ()
    ) -> Several:
        """`srcs` along `axis`, each times its scale; without `dst` the library chooses one."""
        attr = OneDNNAttributes.new(self)
        for i in range(len(scales)):
            self._check("dnnl_primitive_attr_set_scales_mask", attr.pointer, _ARG_MULTIPLE_SRC + i, 0)
        common = _pointer(dst), len(srcs), axis, _pointers(srcs), attr.pointer
        made = self._made(self._chosen("dnnl_concat_primitive_desc_create", self.engine, *common))
        made.scales = [self._scale(value) for value in scales]
        return made

    def sum(self, scales: Sequence[float], srcs: Sequence[OneDNNDesc], dst: OneDNNDesc | None) -> Several:
        """The sum of `srcs`, each times its scale; without `dst` the library chooses one."""
        factors, attr = (ctypes.c_float * len(scales))(*scales), OneDNNAttributes.new(self)
        common = _pointer(dst), len(srcs), factors, _pointers(srcs), attr.pointer
        return self._made(self._chosen("dnnl_sum_primitive_desc_create", self.engine, *common))

    def _made(self, chosen: Handle) -> Several:
        query = self.library.dnnl.dnnl_primitive_desc_query_md
        query.restype = ctypes.c_void_p
        new, found = ctypes.c_void_p(), ctypes.c_void_p(query(chosen.pointer, _QUERY_DST, 0))
        self._check("dnnl_memory_desc_clone", ctypes.byref(new), found)
        primitive = self._primitive(Several, chosen)
        primitive.dst, primitive.scales = OneDNNDesc(self.library, "memory_desc", new), ()
        return primitive


def _pointer(desc: OneDNNDesc | None) -> ctypes.c_void_p:
    return ctypes.c_void_p() if desc is None else desc.pointer


def _pointers(descs: Sequence[OneDNNDesc]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(descs))(*(desc.pointer for desc in descs))
