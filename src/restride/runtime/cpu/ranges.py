"""Ranges of a tensor in memory, as a whole or for each index of some dims, from which scales are computed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.conversion import Array, storage_dtype, to_real
from ...ir.program import DST, SRC, Place, Program, Slot, TreeStep
from ...ir.ranges import amax_tree, check_range, min_max_tree
from ...ir.tree import LoopTree
from ...targets.isa import host_caches, host_isa
from ..alloc import address_of
from ..cache import LruCache, cache_level
from .executable import CpuExecutable
from .kernel import packed_address, packer

_executables: LruCache[CpuExecutable] = cache_level("sums")


def amax(md: MemoryDesc, address: int, keep_mask: int) -> Array:
    """Return the largest finite magnitude for each index of the kept dims; 0 without finite values.

    float32 (float64 for f64), of the kept dims in logical order. Raises InvalidArguments for a mask with bits
    beyond the dims, Unimplemented for a type that is not floating-point.
    """
    check_range(md, keep_mask, "amax")
    (largest,) = _run(amax_tree, md, address, keep_mask)
    return largest


def min_max(md: MemoryDesc, address: int, keep_mask: int) -> tuple[Array, Array]:
    """Return the smallest and the largest finite value, in one pass; otherwise as `amax`."""
    check_range(md, keep_mask, "min_max")
    low, high = _run(min_max_tree, md, address, keep_mask)
    # Subtracting from positive zero never results in negative zero.
    return np.asarray(low.dtype.type(0) - low), high + high.dtype.type(0)


def _run(
    tree_of: Callable[[MemoryDesc, int], LoopTree], md: MemoryDesc, address: int, keep_mask: int
) -> list[Array]:
    executable, _ = _executables.get_or_make(
        (tree_of, md, keep_mask),
        lambda: CpuExecutable(fold_program(tree_of(md, keep_mask)), host_isa(), host_caches()),
    )
    kept = tuple(n for dim, n in enumerate(md.dims) if keep_mask >> dim & 1)
    count = len(executable.program.slots) - 1
    results = [np.zeros(prod(kept), storage_dtype(md.data_type)) for _ in range(count)]
    first, *others = map(address_of, results)
    words = packer(len(others), 0)(*others)
    executable.run(address, first, packed_address(words))
    real = np.float64 if md.data_type is DataType.f64 else np.float32
    return [to_real(bits, md.data_type, real).reshape(kept) for bits in results]


def fold_program(tree: LoopTree) -> Program:
    """Return a program of just a tree, with a source and outputs."""
    places = (Place(SRC), *(Place(DST + i) for i in range(len(tree.tensors) - 1)))
    slots = (Slot(SRC), *(Slot(place.buffer, is_written=True) for place in places[1:]))
    low, high = tree.tensors[0].span
    work_bytes = tree.tensors[0].data_type.nbytes(high - low)
    return Program(slots, (TreeStep(tree, places, work_bytes),)).verify()
