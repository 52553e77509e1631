"""Memory: a descriptor, an engine and the bytes of the tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..desc.array_names import ArrayNames
from ..desc.build import Format
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_bool, renamed
from ..desc.viewer import viewer
from ..errors import Error, refuse
from ..loading import load_whole
from . import exports, views
from .alloc import NO_DATA, NOTHING, Array, Buffer, address_of, at_pointer, extent
from .array_hints import add_hints, without_hints
from .capsules import imported, not_imported
from .describe import describe
from .engine import Engine
from .memory_checks import (
    acquire,
    buffer_for_engine,
    cannot_replace_buffer,
    checked_desc,
    checked_engine,
    checked_length,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..desc.literals import TypeLike

__all__ = ["NO_DATA", "Memory"]

# Moving data is done by packages above this one: `arrays` registers how.
_mover: list[Any] = []


class Memory(ArrayNames):
    """A tensor in memory (`dnnl::memory`): `Memory(md, engine)` allocates, `Memory(md, engine, data)` wraps.

    `md`: a descriptor with a format and known dims. `data`: None allocates (aligned to 64 bytes or more,
    content undefined), `NO_DATA` leaves the buffer to `set_data_handle`; anything else is wrapped without a
    copy, and its length is checked: an array, any object with the buffer protocol, or another Memory. The
    buffer's first byte is element offset 0. Read-only data stays read-only, and can only be a source.
    `Memory()` is empty, and False.

    On a SYCL engine the bytes are USM: None allocates them on the device, USM of dpctl is wrapped. Python
    accesses device memory only through `to_numpy` and `map_data`.

    Raises InvalidArguments for arguments that cannot form a memory, OutOfMemory if the system refuses.
    """

    # Plain slots, which executions read. _address is that of element offset 0; _lo and _hi are the lowest and
    # one past the highest byte address of elements and padding. All are 0 without a buffer.
    __slots__ = (
        "__weakref__",
        "_address",
        "_buffer",
        "_desc",
        "_engine",
        "_hi",
        "_image",
        "_lo",
        "_mapped",
        "_nbytes",
        "_readonly",
    )
    _buffer: Buffer | None
    _address: int
    _nbytes: int
    _lo: int
    _hi: int
    _readonly: bool
    _image: Buffer | None

    def __init__(
        self, md: MemoryDesc | None = None, engine: Engine | None = None, data: object = None
    ) -> None:
        desc = MemoryDesc() if md is None else checked_desc(md)
        on = checked_engine(engine, data, empty=md is None)
        buffer = None if on is None else _acquired(on, desc, data)
        # Attributes are set after all checks: if a repeated __init__ fails, the memory stays unchanged.
        self._desc, self._engine, self._mapped, self._image = desc, on, False, None
        self._attach(buffer)

    @classmethod
    def from_numpy(cls, x: Any, format: Format | MemoryDesc = None, engine: Engine | None = None) -> Memory:
        """Wrap a NumPy array without a copy: dims are its shape, strides are taken from it.

        Negative strides and broadcasts (stride 0) are allowed for sources. `format` is for what strides
        cannot express: with a blocked tag `x` is the physical array, as returned by `physical()`; a
        `MemoryDesc` of that physical shape specifies the padding too. A plain `format` must match the
        strides. `engine` is the CPU by default.

        Raises InvalidArguments, with a way out, for arrays that no descriptor can express: no axes, strides
        that are not multiples of the element size, foreign byte order, unsupported element types.
        """
        try:
            described = describe(x, format)
        except Error as error:
            error.drop_frames()
            raise
        return cls(described.desc, Engine("cpu") if engine is None else engine, described.buffer_of(x))

    @classmethod
    def from_dlpack(cls, x: object, engine: Engine | None = None, *, copy: bool | None = None) -> Memory:
        """Wrap an array of any library that exports DLPack on the CPU; including bf16 and f8, by DLPack's
        codes.

        `copy`: True copies, False and None share the bytes, read-only if the producer says so or, without a
        version, cannot say. Raises InvalidArguments, naming the producer, if it fails, and for types and
        layouts that no descriptor has.
        """
        if copy is not None:
            parse_bool("Memory.from_dlpack: copy", copy)
        try:
            array = imported(x)
        except Exception as error:  # a foreign __dlpack__ can raise anything
            raise not_imported("Memory.from_dlpack: x", x, error) from error
        try:
            return cls.from_numpy(array.copy() if copy else array, None, engine)
        except Error as error:
            raise error.with_context(error.what.replace("from_numpy", "from_dlpack")) from None

    @classmethod
    def from_pointer(
        cls,
        address: int,
        nbytes: int,
        md: MemoryDesc,
        engine: Engine,
        *,
        owner: object = None,
        readonly: bool = False,
    ) -> Memory:
        """Wrap the `nbytes` bytes at a bare address. The caller guarantees them; `owner` is kept alive.

        Raises InvalidArguments if the descriptor needs more bytes than that.
        """
        return cls(md, engine, at_pointer(address, nbytes, owner, readonly))

    @property
    def _described(self) -> MemoryDesc:
        return self._desc

    @property
    def desc(self) -> MemoryDesc:
        """The descriptor; the zero descriptor for an empty memory."""
        return self._desc

    @property
    def engine(self) -> Engine:
        """The engine that the memory belongs to. Raises InvalidArguments for an empty memory."""
        if self._engine is not None:
            return self._engine
        raise refuse("RS-M36:empty-memory-none")

    def get_desc(self) -> MemoryDesc:
        """Return `desc`; oneDNN's name."""
        return self._desc

    def get_engine(self) -> Engine:
        """Return `engine`; oneDNN's name."""
        return self.engine

    @property
    def data(self) -> Array | None:
        """The buffer as a flat array, without a copy; None without a buffer. 4-bit types: two per byte.

        Raises InvalidArguments for device memory of a SYCL engine.
        """
        return None if self._buffer is None else views.flat(self._desc, self._host_buffer("data"))

    @property
    def size(self) -> int:
        """Number of elements, as for an array; the bytes of storage are `nbytes`."""
        return self._desc.nelems

    @property
    def T(self) -> Memory:  # noqa: N802 - NumPy's name
        """A memory over the same bytes with its axes in reverse order, like NumPy's `T`."""
        transposed = Memory(self._desc.T, self.engine, NO_DATA)
        transposed._attach(self._buffer)
        return transposed

    @property
    def readonly(self) -> bool:
        """True for a buffer that must not be written: such a memory can only be a source."""
        return self._readonly

    def physical(self) -> Array:
        """Return the storage as an array of `desc.physical_shape`, without a copy: outer and inner blocks."""
        return views.physical(self._desc, self._host_buffer("physical"))

    def to_numpy(self) -> Array:
        """Return a copy with the logical dims in row-major order, without padding."""
        return views.logical(self._desc, self._copied("to_numpy"))

    def to(
        self,
        dst: Format | MemoryDesc = None,
        dtype: TypeLike | None = None,
        *,
        format: Format | MemoryDesc = None,
        data_type: TypeLike | None = None,
    ) -> Memory:
        """Return a new memory of the same elements in another format and type: `mem.to("nchw")`.

        `dst` as in `rs.reorder`, None for the same; types convert under the numeric contract. `format` and
        `data_type` are the older names.
        """
        dst = renamed("Memory.to: dst", dst, format=format)
        dtype = renamed("Memory.to: dtype", dtype, data_type=data_type)
        try:
            if isinstance(_mover[0], str):
                load_whole(_mover[0])
            moved: Memory = _mover[0](self, dst, dtype)
            return moved
        except Error as error:
            error.drop_frames()
            raise

    def astype(self, dtype: TypeLike) -> Memory:
        """Return a new memory in the same format, of another type: `mem.to(None, dtype)`."""
        return self.to(None, dtype)

    def get_data_handle(self) -> int:
        """Return the address of the buffer's first byte; 0 without a buffer."""
        return self._address

    def set_data_handle(self, data: object, stream: object = None) -> None:
        """Replace the buffer, as in the constructor; `NO_DATA` releases the present one.

        `stream` exists for oneDNN's signature: work on the CPU has ended when its call returns. Padding is
        left unchanged. Raises InvalidArguments for a short buffer or a mapped memory.
        """
        if self._mapped or not self or data is None:
            raise cannot_replace_buffer(self, is_mapped=self._mapped)
        self._attach(_acquired(self.engine, self._desc, data))

    def map_data(self) -> Array | None:
        """Return the flat array of `data`, exclusive to the caller until `unmap_data`; None without a buffer.

        For device memory it is a copy, which `unmap_data` writes back. Raises InvalidArguments if the memory
        is mapped already.
        """
        if self._mapped:
            raise refuse("RS-M38:memory-map-data", owner=self)
        if self._buffer is None:
            return None
        device, image = self.engine.device, None
        view = device.host_view(self._buffer)
        if view is None:
            view = image = device.download(self._buffer)
        self._mapped, self._image = True, image
        return views.flat(self._desc, view)

    def unmap_data(self, mapped: Array | None = None) -> None:
        """Return the mapped array to the memory, which then contains what was written to it.

        Raises InvalidArguments for a memory that is not mapped, or an array that was mapped elsewhere.
        """
        if self._buffer is None:
            return
        if not self._mapped:
            raise refuse("RS-M38:memory-not-mapped", owner=self)
        if mapped is not None and not self._is_mine(mapped):
            raise refuse("RS-M38:array-was-not", owner=self)
        if self._image is not None:
            self.engine.device.upload(self._image, self._buffer, self._nbytes)
        self._mapped, self._image = False, None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Return a plain layout as an array of the logical dims, without a copy unless requested.

        Raises InvalidArguments for a blocked layout, ValueError if `copy=False` is impossible.
        """
        return exports.array(self._desc, self._plain("__array__"), dtype, copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's older interface, for a plain layout of NumPy's own types; AttributeError for others."""
        if self._desc.inner_blks or not self:
            raise AttributeError(f"__array_interface__: {self!r} has no strides; see Memory.physical and .to")
        return exports.interface(self._desc, self._host_buffer("__array_interface__"))

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        """dpctl's interface of USM, for a plain layout on a SYCL engine; AttributeError for others."""
        buffer = self._buffer
        interface = None if buffer is None else exports.usm_interface(self._desc, buffer, self.engine.device)
        if interface is None:
            raise AttributeError(f"__sycl_usm_array_interface__: {self!r} is not USM with strides")
        return interface

    def __dlpack__(self, **options: object) -> Any:
        """Return a DLPack capsule of a plain layout, without a copy; the options are the Array API's.

        `max_version` from (1, 0) requests a versioned capsule, in which read-only data is flagged;
        `copy=True` a copy; `dl_device` can only be the CPU. Raises errors that are BufferErrors too:
        InvalidArguments for a blocked layout, Unimplemented for elements that share a byte. bf16 and f8 use
        DLPack's own codes.
        """
        return exports.dlpack(self._desc, self._plain("__dlpack__"), options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device type and number of the CPU."""
        return 1, 0

    def __dir__(self) -> list[str]:
        return without_hints(Memory, super().__dir__())

    def __bool__(self) -> bool:
        return bool(self._desc)

    def __reduce__(self) -> tuple[object, ...]:
        # An address means nothing in another process: the bytes are pickled.
        content = None if self._buffer is None else self._copied("pickle").bytes()
        return (_rebuilt, (self._desc, self._engine, content)) if self else (Memory, ())

    def __repr__(self) -> str:
        if not self:
            return "restride.Memory()"
        facts = ["no data" if self._buffer is None else f"{self._nbytes} bytes"]
        facts += ["read-only"] if self._readonly else []
        facts += ["mapped"] if self._mapped else []
        return f"restride.Memory({self._desc}, {self._engine}, {', '.join(facts)})"

    def _repr_html_(self) -> str:
        return viewer().html_of_memory(self)

    def _attach(self, buffer: Buffer | None) -> None:
        data = NOTHING if buffer is None else buffer
        reach = extent(self._desc) if data.address else (0, 0)
        self._buffer = buffer
        self._address, self._nbytes, self._readonly = data.address, data.nbytes, data.readonly
        self._lo, self._hi = data.address + reach[0], data.address + reach[1]

    def _is_mine(self, array: object) -> bool:
        address = self._address if self._image is None else self._image.address
        return isinstance(array, np.ndarray) and (address_of(array) == address or not self._desc.nelems)

    def _required_buffer(self, what: str) -> Buffer:
        """Return the buffer, wherever it is; without elements none is needed."""
        # Read once: another thread may remove it meanwhile.
        buffer = self._buffer
        if buffer is not None:
            return buffer
        if self and not self._desc.nelems:
            return NOTHING
        raise refuse("RS-M36:no-data", what=what, owner=self)

    def _host_buffer(self, what: str) -> Buffer:
        """Return the bytes themselves, if Python can access them."""
        buffer = self._required_buffer(what)
        view = buffer if buffer is NOTHING else self.engine.device.host_view(buffer)
        if view is None:
            raise refuse("RS-P08:memory-on-device", what=what, owner=self)
        return view

    def _copied(self, what: str) -> Buffer:
        """Return the bytes on the host, or a copy of them."""
        buffer = self._required_buffer(what)
        return buffer if buffer is NOTHING else self.engine.device.download(buffer)

    def _plain(self, what: str) -> Buffer:
        if not self._desc.inner_blks:
            return self._host_buffer(what)
        raise exports.refused(self._desc, what)


add_hints(Memory)


def allocated_memory(md: MemoryDesc, engine: Engine, buffer: Buffer | None = None) -> Memory:
    """Return `Memory(md, engine)` for a checked descriptor and engine.

    `buffer`: new memory of the engine, long enough.
    """
    memory = Memory.__new__(Memory)
    memory._desc, memory._engine, memory._mapped, memory._image = md, engine, False, None
    memory._attach(_acquired(engine, md, None) if buffer is None else buffer)
    return memory


def register_mover(move: Callable[[Memory, object, object], Memory] | str) -> None:
    """Set the function that `Memory.to` calls, of a memory, a format and a type, or the dotted name of a
    module that registers one when it is imported.
    """
    _mover[:] = [move]


def _acquired(engine: Engine, md: MemoryDesc, data: object) -> Buffer | None:
    """Return the buffer that `data` stands for on an engine, for a memory of this descriptor."""
    if isinstance(data, Memory):
        data = buffer_for_engine(data._required_buffer("data"), data.engine, engine)
    return acquire(engine.device, md, data)


def _rebuilt(md: MemoryDesc, engine: Engine, content: Array | None) -> Memory:
    """Return a memory with its own bytes `content`, for pickle and copy."""
    memory = Memory(md, engine, NO_DATA)
    if content is not None:
        source = Buffer(address_of(content), content.nbytes, False, content)
        buffer = engine.device.allocate(content.nbytes)
        engine.device.upload(source, buffer, content.nbytes)
        memory._attach(checked_length(md, buffer))
    return memory
