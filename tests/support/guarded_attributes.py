"""Reorders with attributes whose every memory lies between forbidden pages, in a process of their own.

    python -m support.guarded_attributes LEVEL FIRST LAST

runs random cases for an instruction set, prints each before it runs, so that a crash names its case, and
`done` at the end.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

import restride as rs
from support.attributed import Some, attr_of, capped, filled, room_of
from support.attributes import Bytes, Given, Sum, written
from support.guarded import Guarded
from support.packed import bytes_of, elements_of

_EXTENTS = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 48, 65)
_TAGS = {2: ("ab", "ba", "Ab16a", "BA16a4b"), 3: ("abc", "cab", "acb", "aBc16b", "ABc4a8b")}
_TYPES = ("f32", "bf16", "s8", "u8", "s32", "f64", "s4", "u4", "s64", "u32", "s16")


def main(level: str, first: int, last: int) -> None:
    """Run the cases with these seeds, each with its memories at both ends of their pages."""
    with capped(level):
        for seed in range(first, last):
            print(f"seed {seed}", flush=True)
            for at_end in (True, False):
                _run(seed, at_end=at_end)
    print("done")


def _run(seed: int, *, at_end: bool) -> None:
    rng = np.random.default_rng(seed)
    dims = tuple(int(n) for n in rng.choice(_EXTENTS, int(rng.integers(2, 4))))
    tags = _TAGS[len(dims)]
    src, dst = (rs.MemoryDesc(dims, str(rng.choice(_TYPES)), str(rng.choice(tags))) for _ in range(2))
    given = _given(Some(seed, dims), rng, src, dst)
    read, old = (filled(rng, md.data_type, room_of(md)) for md in (src, dst))
    got = bytes_of(
        elements_of(_executed((src, read), (dst, old), given, at_end), dst.data_type), dst.data_type
    )
    wanted = bytes_of(written(read, src, old, dst, given), dst.data_type)
    assert np.array_equal(got[: wanted.size], wanted), f"{src} to {dst}"


def _given(some: Some, rng: np.random.Generator, src: rs.MemoryDesc, dst: rs.MemoryDesc) -> Given:
    zero, four = str(rng.choice(("s8", "s4", "u4"))), str(rng.choice(("s4", "u4")))
    masks = [int(mask) for mask in rng.integers(1, 1 << len(some.dims), 4)]
    scale = str(rng.choice(("f32", "f16", "e8m0")))
    shape = tuple(n if rng.random() < 0.6 else 1 for n in some.dims)
    kind, tags = str(rng.choice(("f32", "s8", "bf16"))), _TAGS[len(shape)]
    operands = [rs.MemoryDesc(shape, name, tags[int(rng.integers(2))]) for name in (kind, four)]
    return Given(
        src_scale=some.factor(masks[0], scale),
        src_zero=some.factor(masks[1], zero) if src.data_type.is_integral else None,
        dst_scale=some.factor(masks[2], "f32"),
        dst_zero=some.factor(masks[3], rng.choice(("s32", four))) if dst.data_type.is_integral else None,
        ops=(Sum(0.5), *(some.binary("add", operand) for operand in operands)),
    )


def _executed(
    source: tuple[rs.MemoryDesc, Bytes], target: tuple[rs.MemoryDesc, Bytes], given: Given, at_end: bool
) -> Bytes:
    engine = rs.Engine("cpu")
    attr, brought = attr_of(given)
    pages = {arg: _guarded(pair[1], at_end) for arg, pair in {1: source, 17: target, **brought}.items()}
    pd = rs.Reorder.PrimitiveDesc(engine, source[0], engine, target[0], attr)
    held = {
        arg: rs.Memory(pd.query_md("exec_arg_md", arg), engine, _view(page)) for arg, page in pages.items()
    }
    for arg, page in pages.items():
        if arg != rs.ARG_DST:
            page.lock()
    rs.Reorder(pd).execute(rs.Stream(engine), held)
    return np.frombuffer(pages[rs.ARG_DST].read(), np.uint8)


def _guarded(data: Bytes, at_end: bool) -> Guarded:
    page = Guarded(data.size, at_end=at_end)
    page.write(data.tobytes())
    return page


def _view(page: Guarded) -> Bytes:
    return np.ctypeslib.as_array((ctypes.c_uint8 * page.nbytes).from_address(page.address))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
