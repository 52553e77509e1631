"""The leading elements of a register: loads that never touch what lies behind the last of them."""

from __future__ import annotations

from collections.abc import Callable

from .builder import Builder, Value, vector


def prefix_mask(lanes: int, count: int) -> str:
    """A constant mask of the leading lanes."""
    flags = ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(lanes))
    return f"<{lanes} x i1> <{flags}>"


def load_masked(b: Builder, kind: str, lanes: int, count: int, address: Value) -> Value:
    """`count` leading lanes of elements `kind` by one masked load, zero in the others."""
    full, mask = vector(kind, lanes), prefix_mask(lanes, count)
    args = f"{address}, i32 1, {mask}, {full} zeroinitializer"
    types = f"ptr, i32, <{lanes} x i1>, {full}"
    return b.call(full, f"llvm.masked.load.v{lanes}{kind}.p0", args, types)


def load_prefix(b: Builder, kind: str, lanes: int, count: int, at: Callable[[int], Value]) -> Value:
    """The same by loads of powers of two; `at` gives the address of a lane."""
    value, done = Value(vector(kind, lanes), "zeroinitializer"), 0
    while done < count:
        step = 1 << ((count - done).bit_length() - 1)
        part_type = vector(kind, step)
        part = b.value(part_type, f"load {part_type}, {at(done)}, align 1")
        wide = b.shuffle(part, part, [*range(step), *[-1] * (lanes - step)])
        mask = [lanes + i - done if done <= i < done + step else i for i in range(lanes)]
        value = b.shuffle(value, wide, mask)
        done += step
    return value
