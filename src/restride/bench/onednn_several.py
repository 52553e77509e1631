"""Concat and sum of a real oneDNN: primitives of several sources, beside `bench.onednn`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from .onednn import Desc, Memory, OneDNN, Primitive

_ARG_DST, _ARG_MULTIPLE_SRC, _ARG_SCALES = 17, 1024, 4096
_QUERY_DST = 133


class Several(Primitive):
    """A primitive of several sources; `dst` is what it writes, `scales` what it reads beside them."""

    dst: Desc
    scales: Sequence[Memory]

    def bind(self, srcs: Sequence[Memory], dst: Memory) -> Callable[[], None]:
        """A function of no arguments that runs the primitive and waits for its end."""
        memories = {_ARG_MULTIPLE_SRC + i: memory for i, memory in enumerate(srcs)}
        memories |= {_ARG_SCALES | _ARG_MULTIPLE_SRC + i: memory for i, memory in enumerate(self.scales)}
        return self.runner({**memories, _ARG_DST: dst})


def concat(
    library: OneDNN, axis: int, srcs: Sequence[Desc], dst: Desc | None, scales: Sequence[float] = ()
) -> Several:
    """`srcs` along `axis`, each times its scale; without `dst` the library chooses one."""
    attr = library.attr()
    for i in range(len(scales)):
        mask = attr.pointer, _ARG_MULTIPLE_SRC + i, 0
        library.library.check("dnnl_primitive_attr_set_scales_mask", *mask)
    pd = ctypes.c_void_p()
    common = _pointer(dst), len(srcs), axis, _pointers(srcs), attr.pointer
    library.library.check("dnnl_concat_primitive_desc_create", ctypes.byref(pd), library.engine, *common)
    made = _made(library, pd)
    made.scales = [library.scale(value) for value in scales]
    return made


def add(library: OneDNN, scales: Sequence[float], srcs: Sequence[Desc], dst: Desc | None) -> Several:
    """The sum of `srcs`, each times its scale; without `dst` the library chooses one."""
    pd, factors, attr = ctypes.c_void_p(), (ctypes.c_float * len(scales))(*scales), library.attr()
    common = _pointer(dst), len(srcs), factors, _pointers(srcs), attr.pointer
    library.library.check("dnnl_sum_primitive_desc_create", ctypes.byref(pd), library.engine, *common)
    return _made(library, pd)


def _made(library: OneDNN, pd: ctypes.c_void_p) -> Several:
    query = library.library.dnnl.dnnl_primitive_desc_query_md
    query.restype = ctypes.c_void_p
    found = library.desc_of(ctypes.c_void_p(query(pd, _QUERY_DST, 0)))
    primitive = library.primitive(Several, pd)
    primitive.dst, primitive.scales = found, ()
    return primitive


def _pointer(desc: Desc | None) -> ctypes.c_void_p:
    return ctypes.c_void_p() if desc is None else desc.pointer


def _pointers(descs: Sequence[Desc]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(descs))(*(desc.pointer for desc in descs))
