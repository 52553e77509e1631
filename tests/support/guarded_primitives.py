"""Random problems of primitives in memory between pages that nobody may touch, in a process of its own.

    python -m support.guarded_primitives [FIRST COUNT]

prints each problem before it runs, so that a crash names it, and `done` at the end. What is read is
read-only meanwhile; what is written is what the reference engine writes, its padding zero.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import restride as rs
from restride.desc.arguments import is_output
from support.by_offset import positions
from support.computed import padding_is_zero
from support.guarded import Guarded
from support.kernels import POISON
from support.once_wrong import PROBLEMS
from support.primitive_problem import RandomProblem
from support.random_primitives import random_primitive

Array = npt.NDArray[Any]
_CPU, _REFERENCE = rs.Engine("cpu"), rs.Engine("reference")
_STATISTICS = rs.ARG_MEAN, rs.ARG_VARIANCE
_BEFORE = 0xA5
_STEPS = {rs.bf16: 2.0**-6, rs.f16: 2.0**-9}


def run_problem(number: int, name: str, problem: RandomProblem) -> None:
    """Run a problem, and say what it is; its values are those of a number."""
    try:
        pds = [problem.pd(engine) for engine in (_CPU, _REFERENCE)]
    except rs.Error as error:
        print(f"{number}: {name} is refused: {error.args[0].splitlines()[0]}", flush=True)
        return
    descs = pds[0]._exec_args()
    is_backward = "Backward" in problem.primitive.__name__
    print(f"{number}, {name}: {problem.primitive.__name__} {dict(map(_named, descs.items()))}", flush=True)
    if is_backward and rs.ARG_WORKSPACE in descs and not problem.positions:
        return
    values = {
        arg: _values(arg, md, number, problem.positions)
        for arg, md in descs.items()
        if _is_read(arg, is_backward=is_backward)
    }
    found, wanted = (_executed(problem.primitive(pd), pd, values, number) for pd in pds)
    for arg, array in wanted.items():
        _compare(found[arg], array, descs[arg])


def _named(pair: tuple[int, rs.MemoryDesc]) -> tuple[int, str]:
    return pair[0], str(pair[1])


def _is_read(arg: int, *, is_backward: bool) -> bool:
    if is_backward:
        return arg == rs.ARG_DST or not is_output(arg)
    return not is_output(arg) and arg not in (*_STATISTICS, rs.ARG_WORKSPACE)


def _values(arg: int, md: rs.MemoryDesc, number: int, positions: int) -> Array:
    """Quarters, of which sums are exact; small integers; positions of windows."""
    draw = np.random.default_rng((number, arg))
    if arg == rs.ARG_WORKSPACE:
        return draw.integers(0, positions, md.dims).astype(md.data_type.numpy)
    if md.data_type.is_integral:
        low, wide = (0, np.uint8) if md.data_type.kind == "uint" else (-5, np.int8)
        return draw.integers(low, 6, md.dims).astype(wide if md.data_type.bits < 8 else md.data_type.numpy)
    found = np.rint(draw.standard_normal(md.dims) * 4) / 4
    is_positive = arg == rs.ARG_VARIANCE or arg & rs.ARG_ATTR_SCALES
    kind = np.float32 if md.data_type.bits < 8 else md.data_type.numpy
    return (np.abs(found) + 1 if is_positive else found).astype(kind)


def _executed(primitive: Any, pd: Any, values: Mapping[int, Array], number: int) -> dict[int, Array]:
    """Return the outputs of an execution."""
    engine, held = pd.get_engine(), {}
    for arg, md in pd._exec_args().items():
        held[arg] = guarded = Guarded(md.size, at_end=bool(number & 1))
        guarded.write(bytes([_BEFORE]) * md.size)
        if arg in values:
            guarded.write(_stored(md, values[arg]))
            guarded.lock()
    stream, mds = rs.Stream(engine), pd._exec_args()
    memories = {arg: rs.Memory(mds[arg], engine, _array(each)) for arg, each in held.items()}
    primitive.execute(stream, memories)
    stream.wait()
    for arg in (arg for arg in held if arg not in values):
        if not padding_is_zero(memories[arg]):
            raise AssertionError(f"padding of argument {arg} is not zero")
        if held[arg].around() - {POISON} or not _has_gaps_as_before(mds[arg], _array(held[arg])):
            raise AssertionError(f"bytes outside argument {arg} were written")
    return {arg: _elements(memories[arg]) for arg in held if arg not in values}


def _elements(memory: rs.Memory) -> Array:
    """The elements; of few bits the bytes that hold them."""
    assert memory.data is not None or not memory.desc.nelems
    return np.array(memory.data if memory.desc.data_type.bits < 8 else memory.to_numpy())


def _stored(md: rs.MemoryDesc, values: Array) -> bytes:
    """The bytes of a tensor; padding is zero, gaps are not."""
    if not md.nelems:
        return b""
    held = np.full(md.size, _BEFORE, np.uint8)
    memories = rs.Memory.from_numpy(values), rs.Memory(md, _REFERENCE, held)
    rs.Reorder(*memories).execute(rs.Stream(_REFERENCE), *memories)
    return held.tobytes()


def _has_gaps_as_before(md: rs.MemoryDesc, data: Array) -> bool:
    """True where no byte between the elements of strides was written."""
    if md.padded_dims != md.dims or md.data_type.bits < 8:
        return True
    elements = data.reshape(-1, md.data_type.bits // 8)
    is_gap = np.ones(len(elements), bool)
    is_gap[positions(md, md.dims)] = False
    return bool((elements[is_gap] == _BEFORE).all())


def _array(guarded: Guarded) -> Array:
    return np.ctypeslib.as_array((ctypes.c_uint8 * guarded.nbytes).from_address(guarded.address))


def _compare(found: Array, wanted: Array, md: rs.MemoryDesc) -> None:
    """Equal to a rounding of its type, or to 1 for integers of a rounded real."""
    if md.data_type.is_integral:
        far = np.abs(found.astype(np.int64) - wanted.astype(np.int64)) > 1
    else:
        pair = found.astype(np.float64), wanted.astype(np.float64)
        step = _STEPS.get(md.data_type, 1e-4)
        most = max(1.0, float(np.nanmax(np.abs(pair[1]), initial=0)))
        far = ~np.isclose(*pair, rtol=step, atol=step * most, equal_nan=True)
    if far.any():
        raise AssertionError(
            f"{far.sum()} of {far.size} elements of {md} differ, first at {np.argwhere(far)[0]}"
        )


def main(*run: str) -> None:
    """Run random problems one after the other, or those that once went wrong, at both ends of their pages."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if run:
        first, count = map(int, run)
        for number in range(first, first + count):
            run_problem(number, *random_primitive(number))
    for name, problem in {} if run else PROBLEMS.items():
        for number in (0, 1):
            run_problem(number, name, problem)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
