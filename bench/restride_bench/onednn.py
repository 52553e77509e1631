"""A real oneDNN, if the environment has one: the outside oracle of the tests, a peer in the benchmarks.

Its C API through ctypes: descriptors, memories and reorders, every status checked, every object destroyed
with its Python twin. Numbers of format tags are asked of the library itself, so no headers are needed.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from restride import DataType, Status

from .onednn_library import OneDNNLibrary, driver_named, failure

_CPU, _IN_ORDER, _ALLOCATE, _ANY = 1, 1, -1, 1
_ARG_SRC, _ARG_DST, _ARG_SRC_SCALE = 1, 17, 4096 | 1
_FORWARD = 64
_QUERY_IMPL, _QUERY_STRIDES, _QUERY_NDIMS, _QUERY_DIMS, _QUERY_OFFSET = 8, 14, 256, 257, 259
_QUERY_SRC_MD, _QUERY_WEIGHTS_MD, _QUERY_DST_MD, _QUERY_WORKSPACE_MD = 129, 131, 133, 135
_QUERY_EXEC_ARG_MD = 255
_QUERY_PADDED_DIMS, _QUERY_INNER_NBLKS, _QUERY_INNER_BLKS, _QUERY_INNER_IDXS = 260, 263, 264, 265
_FLOATS = {"f16": 1, "bf16": 2, "f32": 3, "f64": 7, "f8_e5m2": 9, "f8_e4m3": 10}
_DATA_TYPES = {**_FLOATS, "s32": 4, "s8": 5, "u8": 6, "boolean": 8, "s4": 11, "u4": 12}

Bytes = npt.NDArray[np.uint8]


class Handle:
    """An opaque pointer of the library, destroyed with the object. `keeps` must outlive it."""

    def __init__(self, library: OneDNNLibrary, kind: str, pointer: ctypes.c_void_p, *keeps: object) -> None:
        self.library, self.pointer, self._keeps = library, pointer, keeps
        destroy = getattr(library.dnnl, f"dnnl_{kind}_destroy")
        # At exit the SYCL runtime may be gone before us: what lives until then is left to the system.
        weakref.finalize(self, destroy, pointer).atexit = False


@dataclass(frozen=True)
class Blocking:
    """oneDNN's values for a descriptor: extents and strides in elements, `size` in bytes."""

    dims: tuple[int, ...]
    padded_dims: tuple[int, ...]
    strides: tuple[int, ...]
    inner_blks: tuple[int, ...]
    inner_idxs: tuple[int, ...]
    offset0: int
    size: int


class OneDNNDesc(Handle):
    """A memory descriptor (`dnnl_memory_desc_t`)."""

    @cached_property
    def size(self) -> int:
        """Bytes of the storage, padding included, offset0 left out."""
        return int(self.library.dnnl.dnnl_memory_desc_get_size(self.pointer))

    @cached_property
    def blocking(self) -> Blocking:
        """The fields of the descriptor, as the library answers them."""
        ndims = self._scalar(_QUERY_NDIMS, ctypes.c_int)
        blocks = self._scalar(_QUERY_INNER_NBLKS, ctypes.c_int)
        return Blocking(
            self._list(_QUERY_DIMS, ndims),
            self._list(_QUERY_PADDED_DIMS, ndims),
            self._list(_QUERY_STRIDES, ndims),
            self._list(_QUERY_INNER_BLKS, blocks),
            self._list(_QUERY_INNER_IDXS, blocks),
            self._scalar(_QUERY_OFFSET, ctypes.c_int64),
            self.size,
        )

    def submemory(self, dims: Sequence[int], offsets: Sequence[int]) -> OneDNNDesc:
        """The descriptor of the box of `dims` elements at `offsets` in this one (`submemory_desc`)."""
        new = ctypes.c_void_p()
        call = "dnnl_memory_desc_create_submemory"
        self.library.check(call, ctypes.byref(new), self.pointer, int64s(dims), int64s(offsets))
        return OneDNNDesc(self.library, "memory_desc", new)

    def _scalar(self, what: int, ctype: Any) -> int:
        value = ctype()
        self.library.check("dnnl_memory_desc_query", self.pointer, what, ctypes.byref(value))
        return int(value.value)

    def _list(self, what: int, count: int) -> tuple[int, ...]:
        start = ctypes.POINTER(ctypes.c_int64)()
        self.library.check("dnnl_memory_desc_query", self.pointer, what, ctypes.byref(start))
        return tuple(start[:count])


class OneDNNMemory(Handle):
    """A memory object; `bytes` is a view of its storage."""

    bytes: Bytes


class ExecArgument(ctypes.Structure):
    """`dnnl_exec_arg_t`."""

    _fields_ = [("arg", ctypes.c_int), ("memory", ctypes.c_void_p)]


class OneDNNPrimitive(Handle):
    """A primitive, ready to run; `impl` is the name of the kernel that oneDNN chose."""

    impl: str
    stream: ctypes.c_void_p
    chosen: Handle

    def bind_all(self, memories: dict[int, OneDNNMemory]) -> Callable[[], None]:
        """A function of no arguments that runs the primitive on these arguments and waits for its end."""
        arguments = (ExecArgument * len(memories))()
        for slot, (arg, memory) in zip(arguments, memories.items(), strict=True):
            slot.arg, slot.memory = arg, memory.pointer.value
        execute, wait = self.library.dnnl.dnnl_primitive_execute, self.library.dnnl.dnnl_stream_wait
        pointer, stream, count = self.pointer, self.stream, len(memories)

        def run(_keep: object = (self, memories)) -> None:
            status = execute(pointer, stream, count, arguments) or wait(stream)
            if status:
                raise failure("dnnl_primitive_execute", status)

        return run


class OneDNNReorder(OneDNNPrimitive):
    """A reorder primitive."""

    scale: OneDNNMemory | None

    def bind(self, src: OneDNNMemory, dst: OneDNNMemory) -> Callable[[], None]:
        """A function of no arguments that runs the reorder and waits for its end."""
        memories = {_ARG_SRC: src, _ARG_DST: dst}
        if self.scale is not None:
            memories[_ARG_SRC_SCALE] = self.scale
        return self.bind_all(memories)


class OneDNNAttributes(Handle):
    """Primitive attributes (`dnnl_primitive_attr_t`)."""

    @classmethod
    def new(cls, library: OneDNN) -> OneDNNAttributes:
        """Attributes that change nothing."""
        made = ctypes.c_void_p()
        library.library.check("dnnl_primitive_attr_create", ctypes.byref(made))
        return cls(library.library, "primitive_attr", made)

    def set(self, what: str, arg: int, mask: int, groups: Sequence[int], data_type: DataType) -> None:
        """`what` is "scales" or "zero_points"."""
        shared = len(groups), int64s(groups) if groups else None
        self.library.check(
            f"dnnl_primitive_attr_set_{what}", self.pointer, arg, mask, *shared, data_type.value
        )

    def set_sum(self, scale: float, zero_point: int, data_type: DataType | None) -> None:
        """A chain of one sum."""
        self.set_chain([("sum", scale, zero_point, 0 if data_type is None else data_type.value)])

    def set_chain(self, ops: Sequence[tuple[Any, ...]]) -> None:
        """A chain of post-ops: `("sum", scale, zero_point, type)`, or number, alpha, beta of an eltwise."""
        made = ctypes.c_void_p()
        self.library.check("dnnl_post_ops_create", ctypes.byref(made))
        chain = Handle(self.library, "post_ops", made)
        for kind, *numbers in ops:
            if kind == "sum":
                scale, zero_point, data_type = numbers
                self.library.check(
                    "dnnl_post_ops_append_sum", made, ctypes.c_float(scale), zero_point, data_type
                )
            else:
                alpha, beta = (ctypes.c_float(number) for number in numbers)
                self.library.check("dnnl_post_ops_append_eltwise", made, kind, alpha, beta)
        self.library.check("dnnl_primitive_attr_set_post_ops", self.pointer, chain.pointer)


P = TypeVar("P", bound=OneDNNPrimitive)


class OneDNN:
    """The library with one CPU engine and one in-order stream.

    `prefix` is the environment that holds it (default: the running one). Raises OneDNNError where it is
    missing or its engine cannot be opened.
    """

    def __init__(self, prefix: str | os.PathLike[str] = sys.prefix) -> None:
        self.library = OneDNNLibrary(prefix)
        self.library.dnnl.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        self.engine, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        with driver_named(self.library.driver):
            self._check("dnnl_engine_create", ctypes.byref(self.engine), _CPU, ctypes.c_size_t(0))
        self._check("dnnl_stream_create", ctypes.byref(self.stream), self.engine, _IN_ORDER)

    @cached_property
    def version(self) -> str:
        """Version of the library, as "3.13.2"."""
        ask = self.library.dnnl.dnnl_version
        ask.restype = ctypes.POINTER(ctypes.c_int)
        return ".".join(str(number) for number in ask()[:3])

    @cached_property
    def tags(self) -> dict[str, int]:
        """Every format tag that the library knows by its canonical name ("aBcd16b"), with its number."""
        name_of = self.library.dnnl.dnnl_fmt_tag2str
        name_of.restype = ctypes.c_char_p
        names: dict[str, int] = {}
        for number in range(2, 1 << 16):
            name = name_of(number).decode()
            if not name.isalnum():
                break
            names[name] = number
        return names

    def desc(self, dims: Sequence[int], data_type: str, layout: str | Sequence[int]) -> OneDNNDesc:
        """A descriptor of `dims`; `layout` is a tag of `self.tags`, "any", or the strides in elements."""
        new, kind = ctypes.c_void_p(), _DATA_TYPES[data_type]
        common = ctypes.byref(new), len(dims), int64s(dims), kind
        if not isinstance(layout, str):
            self._check("dnnl_memory_desc_create_with_strides", *common, int64s(layout))
        elif layout == "any" or layout in self.tags:
            tag = _ANY if layout == "any" else self.tags[layout]
            self._check("dnnl_memory_desc_create_with_tag", *common, tag)
        else:
            raise failure(f"format tag {layout!r}", Status.unimplemented)
        return OneDNNDesc(self.library, "memory_desc", new)

    def memory(self, desc: OneDNNDesc, data: npt.NDArray[Any] | None = None) -> OneDNNMemory:
        """A memory over contiguous `data` (in place; the caller sizes it), or over storage of its own."""
        new, handle = ctypes.c_void_p(), ctypes.c_void_p(_ALLOCATE if data is None else data.ctypes.data)
        self._check("dnnl_memory_create", ctypes.byref(new), desc.pointer, self.engine, handle)
        memory = OneDNNMemory(self.library, "memory", new, desc, data)
        if data is not None:
            memory.bytes = data.reshape(-1).view(np.uint8)
            return memory
        self._check("dnnl_memory_get_data_handle", new, ctypes.byref(handle))
        start = (ctypes.c_uint8 * desc.size).from_address(handle.value) if handle.value else None
        memory.bytes = np.empty(0, np.uint8) if start is None else np.ctypeslib.as_array(start)
        return memory

    def reorder(
        self,
        src: OneDNNDesc,
        dst: OneDNNDesc,
        *,
        alpha: float | None = None,
        beta: float = 0.0,
        attr: OneDNNAttributes | None = None,
    ) -> OneDNNReorder:
        """dst = alpha * src + beta * dst, as a source scale common to all elements and a sum post-op; or with
        other attributes, whose memories `bind_all` takes.
        """
        if attr is None:
            attr = OneDNNAttributes.new(self)
            if alpha is not None:
                attr.set("scales", _ARG_SRC, 0, (), DataType.f32)
            if beta:
                attr.set_sum(beta, 0, None)
        both = src.pointer, self.engine, dst.pointer, self.engine
        chosen = self._chosen("dnnl_reorder_primitive_desc_create", *both, attr.pointer)
        primitive = self._primitive(OneDNNReorder, chosen)
        primitive.scale = None if alpha is None else self._scale(alpha)
        return primitive

    def shuffle(
        self, desc: OneDNNDesc, axis: int, group_size: int, *, backward: bool = False
    ) -> OneDNNPrimitive:
        """A shuffle of `desc`, forward (arguments 1 and 17) or backward (145 and 129)."""
        both, how = (desc.pointer, desc.pointer), (axis, ctypes.c_int64(group_size))
        call = "dnnl_shuffle_{}_primitive_desc_create"
        chosen = self._chosen(call.format("forward"), self.engine, _FORWARD, *both, *how, None)
        if backward:
            chosen = self._chosen(call.format("backward"), self.engine, *both, *how, chosen.pointer, None)
        return self._primitive(OneDNNPrimitive, chosen)

    def product(self, name: str, *arguments: object) -> tuple[OneDNNPrimitive, list[OneDNNDesc]]:
        """A convolution or a matmul, by what follows its engine, and the descriptors that it has chosen."""
        chosen = self._chosen(f"dnnl_{name}_primitive_desc_create", self.engine, *arguments, None)
        descs = [self._desc_of(chosen, what) for what in (_QUERY_SRC_MD, _QUERY_WEIGHTS_MD, _QUERY_DST_MD)]
        return self._primitive(OneDNNPrimitive, chosen), descs

    def primitive(self, name: str, *arguments: object, attr: OneDNNAttributes) -> OneDNNPrimitive:
        """A primitive by what follows its engine, and its attributes."""
        call = f"dnnl_{name}_primitive_desc_create"
        return self._primitive(OneDNNPrimitive, self._chosen(call, self.engine, *arguments, attr.pointer))

    def exec_desc(self, primitive: OneDNNPrimitive, arg: int) -> OneDNNDesc:
        """The descriptor of an argument; of one that the primitive does not have, one of no bytes."""
        return self._desc_of(primitive.chosen, _QUERY_EXEC_ARG_MD, arg)

    def workspace(self, chosen: Handle) -> OneDNNDesc | None:
        """The workspace that a primitive descriptor writes or reads; None if it has none."""
        desc = self._desc_of(chosen, _QUERY_WORKSPACE_MD)
        return desc if desc.size else None

    def _desc_of(self, chosen: Handle, what: int, index: int = 0) -> OneDNNDesc:
        ask = self.library.dnnl.dnnl_primitive_desc_query_md
        ask.restype, ask.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        new = ctypes.c_void_p()
        borrowed = ctypes.c_void_p(ask(chosen.pointer, what, index))
        self._check("dnnl_memory_desc_clone", ctypes.byref(new), borrowed)
        return OneDNNDesc(self.library, "memory_desc", new)

    def set_num_threads(self, count: int) -> None:
        """Let at most `count` threads work from now on."""
        self.library.limit_threads(count)

    def _chosen(self, call: str, *arguments: object) -> Handle:
        """The primitive descriptor that a call of the library creates."""
        pd = ctypes.c_void_p()
        self._check(call, ctypes.byref(pd), *arguments)
        return Handle(self.library, "primitive_desc", pd)

    def _primitive(self, kind: type[P], chosen: Handle) -> P:
        new = ctypes.c_void_p()
        self._check("dnnl_primitive_create", ctypes.byref(new), chosen.pointer)
        primitive = kind(self.library, "primitive", new)
        primitive.stream, primitive.impl, primitive.chosen = self.stream, self._impl(chosen), chosen
        return primitive

    def _check(self, call: str, *arguments: object) -> None:
        self.library.check(call, *arguments)

    def _scale(self, value: float) -> OneDNNMemory:
        memory = self.memory(self.desc((1,), "f32", "a"))
        memory.bytes.view(np.float32)[0] = value
        return memory

    def _impl(self, descriptor: Handle) -> str:
        name = ctypes.c_char_p()
        self._check("dnnl_primitive_desc_query", descriptor.pointer, _QUERY_IMPL, 0, ctypes.byref(name))
        return (name.value or b"?").decode()


def int64s(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    """Numbers as an array of C, which oneDNN copies."""
    return (ctypes.c_int64 * max(len(values), 1))(*values)
