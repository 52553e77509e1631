"""Hashes of the results of problems on raw bytes: every machine must print the same lines.

    PYTHONPATH=src:tests python -m support.problem_bits FIRST STEP RANDOMS

prints a line for every STEP-th problem from the FIRST on: those of tests/golden/ir, and so many random ones.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
from collections.abc import Iterator
from unittest import mock

import numpy as np
import numpy.typing as npt

import restride as rs
from restride.dtypes import DataType
from restride.runtime.cpu import ranges
from restride.targets import isa as isa_module
from restride.targets.isa import CacheSizes
from support.ir_problem import Problem
from support.ir_problems import ON_CPU
from support.packed import elements_of
from support.problem_primitives import PRIMITIVES, arguments_of, desc_of, primitive_desc_of
from support.random_problems import random_problem

Bytes = npt.NDArray[np.uint8]
# Exponent and mantissa bits of the floats.
_FIELDS = {
    "f64": (11, 52),
    "f32": (8, 23),
    "bf16": (8, 7),
    "f16": (5, 10),
    "f8_e5m2": (5, 2),
    "f8_e4m3": (4, 3),
}


@functools.cache
def frozen_problems() -> tuple[Problem, ...]:
    """The problems of the golden hashes that a CPU runs."""
    return tuple(problem for group in ON_CPU.values() for problem in group)


def problem_of(number: int) -> Problem:
    """The frozen problems, and after them a random one for each number."""
    frozen = frozen_problems()
    return frozen[number] if number < len(frozen) else random_problem(number)


def line_of(number: int) -> str:
    """The number and the name of a problem, and the hash of what is written; or the code of a refusal."""
    problem = problem_of(number)
    try:
        with _with_caches(problem.caches):
            result = hashlib.sha256(_result(problem, number)).hexdigest()[:16]
    except rs.Error as error:
        result = error.code
    return f"{number} | {problem.name} | {result}"


@contextlib.contextmanager
def _with_caches(sizes: tuple[int, int]) -> Iterator[None]:
    """Work is planned for caches of these sizes, so that no machine's own decide how it is done."""
    caches = CacheSizes(l2=sizes[0], l3=sizes[1])
    with mock.patch.object(isa_module, "read_caches", return_value=caches):
        isa_module.host_caches.cache_clear()
        try:
            yield
        finally:
            isa_module.host_caches.cache_clear()


def _result(problem: Problem, number: int) -> bytes:
    """All bytes of the destination, padding and gaps too."""
    engine, rng = rs.Engine("cpu"), np.random.default_rng(number)
    if problem.kind in ("amax", "min_max"):
        return _range(problem, rng)
    pd = primitive_desc_of(problem, engine)
    descs = {arg: pd.query_md("exec_arg_md", arg) for arg in arguments_of(len(problem.tensors))}
    args = {arg: _memory(md, engine, rng) for arg, md in descs.items() if not md.is_zero()}
    written = args[next(arg for arg in (rs.ARG_DIFF_SRC, rs.ARG_DST) if arg in args)]
    if problem.in_place:
        sources = [arg for arg in args if arg >= rs.ARG_MULTIPLE_SRC]
        args |= {arg: rs.Memory(args[arg].desc, engine, written.data) for arg in sources}
    PRIMITIVES[problem.kind](pd).execute(rs.Stream(engine), args)
    return written.data.tobytes()


def _range(problem: Problem, rng: np.random.Generator) -> bytes:
    (tensor,), (mask,) = problem.tensors, problem.parameters
    memory = _memory(desc_of(tensor), rs.Engine("cpu"), rng)
    find = ranges.amax if problem.kind == "amax" else ranges.min_max
    found = find(memory.desc, memory.data.ctypes.data, int(mask))
    return b"".join(np.asarray(each).tobytes() for each in (found if isinstance(found, tuple) else (found,)))


def _memory(md: rs.MemoryDesc, engine: rs.Engine, rng: np.random.Generator) -> rs.Memory:
    memory = rs.Memory(md, engine)
    data = memory.data.view(np.uint8)
    data[:] = raw_bytes(md.data_type, data.size, rng)
    return memory


def raw_bytes(data_type: DataType, size: int, rng: np.random.Generator) -> Bytes:
    """Random bits; half of the floats moderate numbers and ties, one in ten at the ends of what there is."""
    data = rng.integers(0, 256, size, np.uint8)
    if str(data_type) not in _FIELDS:
        return data
    words = elements_of(data, data_type)
    way = rng.random(words.size)
    near = np.round(rng.standard_normal(words.size) * rng.choice([1.0, 30.0, 300.0], words.size) * 2) / 2
    with np.errstate(all="ignore"):
        moderate = near.astype(data_type.numpy).view(words.dtype)
    words[way < 0.5] = moderate[way < 0.5]
    words[way > 0.9] = rng.choice(_ends(data_type, words.dtype), words.size)[way > 0.9]
    return words.view(np.uint8)


def _ends(data_type: DataType, dtype: np.dtype[np.unsignedinteger[npt.NBitBase]]) -> Bytes:
    """Signalling and quiet NaNs with payloads, infinities, zeros, subnormals, the largest; both signs."""
    exponent, mantissa = _FIELDS[str(data_type)]
    infinity, quiet = ((1 << exponent) - 1) << mantissa, 1 << mantissa - 1
    sizes = [0, 1, quiet, infinity - 1, infinity, infinity | 1, infinity | quiet, infinity | quiet | 1]
    sizes.append(infinity | quiet - 1)
    return np.array([size | sign << exponent + mantissa for size in sizes for sign in (0, 1)], dtype)


def main(first: str, step: str, randoms: str) -> None:
    """Print the lines of some problems."""
    for number in range(int(first), len(frozen_problems()) + int(randoms), int(step)):
        print(line_of(number), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
