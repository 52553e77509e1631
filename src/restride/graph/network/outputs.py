"""Outputs of a network's calls: new arrays, or arrays of the caller to write into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ...arrays.calls.results import Make, maker_of
from ...arrays.calls.tensors import as_target, numpy_of, written
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import short_repr
from ...dtypes import DataType
from ...errors import OutOfMemory, refuse
from ...runtime.alloc import Array, address_of
from ...schedule.machine import LINE
from ..dims import Dims, by

# Limit on NumPy's search for an element shared by two arrays: up to a millisecond.
_MOST_WORK = 4096

__all__ = ["NetworkOutput", "OutputPlace", "targets_by_name"]


@dataclass(frozen=True, slots=True)
class NetworkOutput:
    """An output for inputs of given dims: its name, dims and type, and an allocator of its memory."""

    name: str
    dims: Dims
    data_type: DataType
    make: Make

    @classmethod
    def of(cls, name: str, dims: Dims, data_type: DataType) -> NetworkOutput:
        """Return the output of this name, row-major; a scalar has one dim in memory."""
        return cls(name, dims, data_type, maker_of(MemoryDesc(dims or (1,), data_type)))

    def place(self, target: Any, inputs: Sequence[Array]) -> OutputPlace:
        """Return the memory into which a run writes it: `target`, or new memory if that is None.

        Kernels need whole cache lines, and may write before all of `inputs` is read: a target that does not
        allow this is filled after the run. Raises InvalidArguments for an invalid target.
        """
        if target is None:
            return self._new()
        array = self._checked(target)
        is_direct = array.flags.c_contiguous and address_of(array) % LINE == 0 and self.data_type.bits >= 8
        if is_direct and not any(np.may_share_memory(array, source) for source in inputs):
            return OutputPlace(address_of(array), target, target)
        return self._new(target)

    def _new(self, target: Any = None) -> OutputPlace:
        try:
            address, array = self.make()
        except OutOfMemory as error:
            raise error.with_context(f"Network: output {self.name!r}: {error.what}") from None
        return OutputPlace(address, array if self.dims else array.reshape(()), target)

    def _checked(self, target: Any) -> Array:
        name = f"Network: out {self.name!r}"
        array = as_target(target, name)
        if not isinstance(array, np.ndarray):
            raise refuse("RS-G16:no-array", name=name, type=type(target).__name__)
        if not array.flags.writeable:
            raise refuse("RS-G16:cannot-written", name=name)
        if array.shape != self.dims or array.dtype != self.data_type.numpy:
            raise refuse(
                "RS-G16:not-fit",
                name=name,
                dtype=array.dtype,
                shape=by(array.shape),
                data_type=self.data_type,
                dims=by(self.dims),
            )
        return array


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """The destination of an output in a run: an address, and the array there; `target` gets a copy of it."""

    address: int
    array: Any
    target: Any = None

    def finished(self) -> Any:
        """Return the array for the caller, after the run."""
        if self.target is None:
            return self.array
        if self.target is not self.array:
            np.copyto(as_target(self.target, "Network: out"), numpy_of(self.array, "Network: out"))
        return written(self.target)


def targets_by_name(out: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """Return the arrays of `out` by the names of outputs; a single array is for the only output.

    Raises InvalidArguments for other names, and if two arrays share memory.
    """
    if out is None:
        return {}
    if not isinstance(out, Mapping):
        if len(names) != 1:
            raise refuse("RS-G16:out-array", names=", ".join(map(repr, names)))
        return {names[0]: out}
    unknown = [name for name in out if name not in names]
    if unknown:
        raise refuse(
            "RS-G16:out-names", unknown=", ".join(map(short_repr, unknown)), names=", ".join(map(repr, names))
        )
    arrays = [as_target(x, f"Network: out {name!r}") for name, x in out.items() if x is not None]
    numpy_arrays = [array for array in arrays if isinstance(array, np.ndarray)]
    for pair in combinations(numpy_arrays, 2):
        # NumPy may not find out in time: they then count as overlapping. Its stubs do not allow max_work.
        if np.may_share_memory(*pair, max_work=_MOST_WORK):  # type: ignore[arg-type]
            raise refuse("RS-G16:arrays-out-overlap")
    return out
