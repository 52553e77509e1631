"""Tensors of blocks whose elements and scales are bit fields, such as ggml's K quants, read by kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.packed_blocks import PackedBlocks
from ...dtypes import DataType
from ...ir.program import Program
from ...model.checks import check_destination, check_memory, share_bytes
from ...ops.programs.packed_blocks import real_program, unpacking_program
from ...ops.reorder import ReorderProblem, check_reorder
from ...runtime.cache import calls
from ...runtime.cpu.executable import CpuExecutable
from ...runtime.cpu.kernel import KernelWords
from ...runtime.memory import Memory
from ...targets.isa import host_caches, host_isa
from ...verbose import Line
from ...watching import Watch
from ..calls.formats import target_desc
from ..reorders import reorder
from .grouped import Dims
from .quantized_tensor import QuantizedTensor, new_memory


class PackedTensor(QuantizedTensor):
    """A quantized tensor over blocks of bits, in place.

    Kernels read the blocks. `values`, `scale` and `minimum` are unpacked on access: elements to bytes, scales
    and minima to f32.
    """

    __slots__ = ("_blocks", "_data", "_dims", "_unpacked")
    _blocks: PackedBlocks
    _data: Memory
    _dims: Dims
    _unpacked: QuantizedTensor | None

    def __init__(self, blocks: PackedBlocks, dims: Dims, data: Memory) -> None:
        values = {"_blocks": blocks, "_dims": dims, "_data": data, "_unpacked": None}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedTensor, (self._blocks, self._dims, self._data)

    def __repr__(self) -> str:
        return f"<PackedTensor {self._blocks.name} {'x'.join(map(str, self._dims))}>"

    @property
    def values(self) -> Memory:
        """The elements in bytes."""
        return self.unpack().values

    @property
    def scale(self) -> Memory:
        """The scales of the groups in f32."""
        return self.unpack().scale

    @property
    def minimum(self) -> Memory | None:
        """The summand of each group in f32, or None."""
        return self.unpack().minimum

    @property
    def zero_point(self) -> None:
        """None: elements are unpacked without a zero point."""

    @property
    def tensor_scale(self) -> float:
        """Always 1."""
        return 1.0

    @property
    def desc(self) -> MemoryDesc:
        """The descriptor of the unpacked elements."""
        return MemoryDesc(self._dims, self._blocks.value_type)

    @property
    def groups(self) -> Dims:
        """The number of elements along each axis that share a scale."""
        return (*(1,) * (len(self._dims) - 1), self._blocks.group)

    @property
    def format(self) -> str:
        """The name of its blocks, such as "q4_k"."""
        return self._blocks.name

    @property
    def packed(self) -> Memory:
        """The bytes of the blocks."""
        return self._data

    @property
    def nbytes(self) -> int:
        """Size of the blocks in bytes."""
        return self._data.desc.size

    def rows(self, indices: Any) -> PackedTensor:
        """Return the same numbers at some indices of the first axis: only their blocks are copied.

        Raises IndexError for an index out of range, as NumPy does.
        """
        data, (count, *others) = self._data, self._dims
        assert data.data is not None
        taken = data.data.reshape(count, -1)[np.asarray(indices)]
        blocks = Memory(MemoryDesc((taken.size,), DataType.u8), data.engine, taken.reshape(-1))
        return PackedTensor(self._blocks, (len(taken), *others), blocks)

    @property
    def T(self) -> QuantizedTensor:  # noqa: N802
        """The same numbers with the last two axes exchanged: as 4-bit elements if all of them fit."""
        # The unpacked parts are not kept.
        q, (least, most) = self._unpacked or self._new_unpacked(), self._blocks.values.ends
        for kind, low, high in ((DataType.u4, 0, 15), (DataType.s4, -8, 7)):
            if low <= least and most <= high:
                return QuantizedTensor(q.values.to(None, kind), q.scale, minimum=q.minimum).T
        return q.T

    def unpack(self) -> QuantizedTensor:
        """Return the same numbers as elements in bytes, with scales and minima in f32; computed once."""
        if self._unpacked is None:
            object.__setattr__(self, "_unpacked", self._new_unpacked())
        unpacked = self._unpacked
        assert unpacked is not None
        return unpacked

    def _new_unpacked(self) -> QuantizedTensor:
        blocks, engine = self._blocks, self._data.engine
        counts = MemoryDesc((*self._dims[:-1], self._dims[-1] // blocks.group), DataType.f32)
        mds = (self.desc, counts, *(() if blocks.minimum_at is None else (counts,)))
        parts = [new_memory(md, engine) for md in mds]
        self._run(("unpack", blocks, self._dims), parts)
        minimum = None if blocks.minimum_at is None else parts[2]
        return QuantizedTensor(parts[0], parts[1], minimum=minimum)

    def dequantize(self, dtype: Any = None, dst: Any = None, out: Memory | None = None) -> Memory:
        """Return the real numbers that it represents, as a `Memory`; `out` is written and returned.

        `dtype`: by default that of a `MemoryDesc` in `dst`, else f32.
        """
        engine, kind = self._data.engine, DataType.f32 if dtype is None else dtype
        if out is not None:
            md = out.desc
        else:
            is_desc = isinstance(dst, MemoryDesc)
            md = target_desc(self.desc, dst, dtype) if is_desc else MemoryDesc(self._dims, kind, dst)
        check_reorder(ReorderProblem(self.desc, md))
        is_direct = md.data_type in (DataType.f32, DataType.bf16, DataType.f16)
        if out is None:
            out = new_memory(md, engine)
        else:
            check_destination("dequantize", out, "out")
            check_memory("dequantize", "out", out, md, out.engine)
            is_direct &= out.engine == engine and not share_bytes(self._data, out)
        if not is_direct:
            reorder(self.dequantize(), None, out=out)
            return out
        self._run(("unpack_reals", self._blocks, md), [out])
        return out

    def _run(self, key: tuple[Any, ...], results: list[Memory]) -> None:
        if not results[0].desc.nelems:
            return
        executable: CpuExecutable | None = calls.find(key)
        if executable is None:
            executable = calls.keep(key, CpuExecutable(_program(*key), host_isa(), host_caches()))
        else:
            calls.count_hit()
        first, *others = (memory.get_data_handle() for memory in results)
        words, dims = KernelWords((), others), "x".join(map(str, self._dims))
        name = self._blocks.name
        line = Line("exec", "cpu", key[0], executable.name, auxiliary=name, problem_desc=dims)
        with Watch("execution", line):
            executable.run(self._data.get_data_handle(), first, words.address)


def _program(what: str, blocks: PackedBlocks, of: Any) -> Program:
    return unpacking_program(blocks, of) if what == "unpack" else real_program(blocks, of)
