"""More of oneDNN's C API than the benchmarks need: convolutions, descriptors as stored."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from restride.dtypes import DataType
from restride_bench.onednn import (
    ExecArgument,
    Handle,
    OneDNN,
    OneDNNAttributes,
    OneDNNDesc,
    OneDNNMemory,
    int64s,
)

_FORWARD_INFERENCE, _DIRECT, _ANY = 96, 1, 1
_QUERY_WEIGHTS = 131
_SOURCE = 1
Bits = npt.NDArray[np.uint32]


class Primitive:
    """A primitive of any kind; `impl` is the name of its kernel. `run` takes memories by argument number."""

    def __init__(self, library: OneDNN, descriptor: Handle) -> None:
        made = ctypes.c_void_p()
        library.library.check("dnnl_primitive_create", ctypes.byref(made), descriptor.pointer)
        self._library, self._handle = library, Handle(library.library, "primitive", made)
        self.impl = library._impl(descriptor)

    def run(self, memories: Mapping[int, OneDNNMemory]) -> None:
        """Execute and wait."""
        arguments = (ExecArgument * len(memories))()
        for slot, (arg, memory) in zip(arguments, memories.items(), strict=True):
            slot.arg, slot.memory = arg, memory.pointer.value
        check, stream = self._library.library.check, self._library.stream
        check("dnnl_primitive_execute", self._handle.pointer, stream, len(memories), arguments)
        check("dnnl_stream_wait", stream)


def reorder(library: OneDNN, src: OneDNNDesc, dst: OneDNNDesc, attr: OneDNNAttributes) -> Primitive:
    """A reorder with attributes. Raises OneDNNError where oneDNN has none."""
    pd = ctypes.c_void_p()
    both = src.pointer, library.engine, dst.pointer, library.engine
    library.library.check("dnnl_reorder_primitive_desc_create", ctypes.byref(pd), *both, attr.pointer)
    return Primitive(library, Handle(library.library, "primitive_desc", pd))


class Convolution:
    """A forward convolution of s8 weights: padding 1, no stride, no bias, channels last, f32 out.

    `weights` are g, o, i, h, w or o, i, h, w. oneDNN chooses their format.
    """

    def __init__(self, library: OneDNN, data_type: str, has_zero_point: bool, weights: Sequence[int]) -> None:
        self._library, self.dims = library, tuple(weights)
        *groups, out, into, height, width = weights
        count = groups[0] if groups else 1
        self.source = (2, into * count, 7, 6)
        attr = OneDNNAttributes.new(library)
        if has_zero_point:
            attr.set("zero_points", _SOURCE, 0, (), DataType.s32)
        self.src = library.desc(self.source, data_type, "acdb")
        self.dst = library.desc((2, out * count, 10 - height, 9 - width), "f32", "acdb")
        pd, one, open_desc = ctypes.c_void_p(), int64s((1, 1)), any_desc(library, weights, "s8")
        library.library.check(
            "dnnl_convolution_forward_primitive_desc_create",
            *(ctypes.byref(pd), library.engine, _FORWARD_INFERENCE, _DIRECT),
            *(self.src.pointer, open_desc.pointer, None, self.dst.pointer),
            *(one, int64s((0, 0)), one, one, attr.pointer),
        )
        self._pd = Handle(library.library, "primitive_desc", pd)
        self.primitive = Primitive(library, self._pd)

    @cached_property
    def weights(self) -> OneDNNDesc:
        """The descriptor of the weights that oneDNN wants."""
        query = self._library.library.dnnl.dnnl_primitive_desc_query_md
        query.restype = ctypes.c_void_p
        made, found = ctypes.c_void_p(), ctypes.c_void_p(query(self._pd.pointer, _QUERY_WEIGHTS, 0))
        self._library.library.check("dnnl_memory_desc_clone", ctypes.byref(made), found)
        return OneDNNDesc(self._library.library, "memory_desc", made)


def any_desc(library: OneDNN, dims: Sequence[int], data_type: str) -> OneDNNDesc:
    """A descriptor whose format is left to oneDNN."""
    made, kind = ctypes.c_void_p(), DataType[data_type].value
    call = "dnnl_memory_desc_create_with_tag"
    library.library.check(call, ctypes.byref(made), len(dims), int64s(dims), kind, _ANY)
    return OneDNNDesc(library.library, "memory_desc", made)


def bits_of_desc(desc: OneDNNDesc) -> Bits:
    """The descriptor as oneDNN stores it."""
    size, call = ctypes.c_size_t(), "dnnl_memory_desc_get_blob"
    desc.library.check(call, None, ctypes.byref(size), desc.pointer)
    bits = np.zeros(size.value // 4, np.uint32)
    desc.library.check(call, bits.ctypes.data_as(ctypes.c_void_p), ctypes.byref(size), desc.pointer)
    return bits


def desc_of_bits(library: OneDNN, bits: Bits) -> OneDNNDesc:
    """The descriptor that is stored so."""
    made = ctypes.c_void_p()
    data = bits.ctypes.data_as(ctypes.c_void_p)
    library.library.check("dnnl_memory_desc_create_with_blob", ctypes.byref(made), data)
    return OneDNNDesc(library.library, "memory_desc", made)
