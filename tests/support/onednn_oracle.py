"""The outside oracle: cases for a real oneDNN, and what may differ from it (N4, N5, NaN payloads, faults).

A case names both descriptors in words that both libraries share: dims, type, tag or strides, a window. Where
elements and padding lie is taken from oneDNN's descriptors, so that a wrong offset on our side shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

import restride as rs
from restride.dtypes import DataType
from restride_bench.onednn import Blocking, OneDNN, OneDNNDesc

_TIES = (0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 254.5, 255.5)
_LARGE = (65504.0, 65520.0, 16777217.0, 2147483648.0, -2147483904.0, 1e30, -1e30, 3.4e38)
_TINY = (1e-30, 1e-40, -3e-41, 6e-8, 3e-5)
_SPECIAL = np.float32([*_TIES, *_LARGE, *_TINY, np.inf, -np.inf, np.nan])
_TWO_31 = np.float32(2.0**31)
_BF16_NORMAL = np.float32(2.0**-126)


@dataclass(frozen=True)
class Side:
    """One operand: a descriptor of `parent` dims by tag or strides, and where its window begins, if any."""

    data_type: str
    parent: tuple[int, ...]
    layout: str | tuple[int, ...]
    window: tuple[int, ...] | None = None

    @cached_property
    def dtype(self) -> np.dtype:
        return DataType.parse(self.data_type).numpy


@dataclass(frozen=True)
class Case:
    """dst = alpha * src + beta * dst; None leaves the attribute out."""

    dims: tuple[int, ...]
    src: Side
    dst: Side
    alpha: float | None
    beta: float | None
    seed: int


@dataclass(frozen=True)
class Places:
    """Element offsets in a buffer of `total` elements: of the elements in logical order, of the padding."""

    elements: np.ndarray
    padding: np.ndarray
    total: int

    @cached_property
    def gaps(self) -> np.ndarray:
        """Offsets that belong to neither."""
        free = np.ones(self.total, np.bool_)
        free[self.elements] = free[self.padding] = False
        return np.flatnonzero(free)


@dataclass(frozen=True)
class Results:
    """Both destinations after the case, and oneDNN's kernel."""

    ours: np.ndarray
    theirs: np.ndarray
    kernel: str


def onednn_desc(library: OneDNN, case: Case, side: Side) -> tuple[OneDNNDesc, Places]:
    """oneDNN's descriptor of a side, and where its elements lie."""
    parent = library.desc(side.parent, side.data_type, side.layout)
    desc = parent if side.window is None else parent.submemory(case.dims, side.window)
    return desc, places(desc.blocking, parent.size // side.dtype.itemsize)


def restride_desc(case: Case, side: Side) -> rs.MemoryDesc:
    """restride's descriptor of a side."""
    parent = rs.MemoryDesc(side.parent, side.data_type, side.layout)
    return parent if side.window is None else parent.submemory_desc(case.dims, side.window)


def places(blocking: Blocking, total: int) -> Places:
    """Offsets of the elements and of the padding, straight from the definition (2.1)."""
    elements, padding = _grid(blocking, blocking.dims), np.zeros(total, np.bool_)
    padding[_grid(blocking, blocking.padded_dims)] = True
    padding[elements] = False
    return Places(elements, np.flatnonzero(padding), total)


def fill(case: Case, side: Side, where: Places, *, source: bool) -> np.ndarray:
    """Bytes for a side: random elements and gaps; padding zero in the source, poison in the destination."""
    rng = np.random.default_rng([case.seed, source])
    raw = rng.integers(0, 256, where.total * side.dtype.itemsize, np.uint8)
    raw.view(side.dtype)[where.elements] = _values(rng, side.dtype, where.elements.size)
    words = raw.view(_word(side))
    words[where.padding] = 0 if source else np.iinfo(words.dtype).max
    return raw


def run_onednn(library: OneDNN, case: Case, src: np.ndarray, dst: np.ndarray) -> str:
    """Run the case in place and return the name of oneDNN's kernel. Raises OneDNNError.

    Its direct copy misses elements of windows into padded formats (3.13); such a case is run without windows,
    and the elements are put where they belong.
    """
    kernel = _run_as_is(library, case, src, dst.copy())
    windowed = case.src.window is not None or case.dst.window is not None
    if not (windowed and kernel.startswith("jit_direct_copy")):
        return _run_as_is(library, case, src, dst)
    whole = replace(case, src=_whole(case, case.src), dst=_whole(case, case.dst))
    (at_src, at_dst), (to_src, to_dst) = _both_places(library, case), _both_places(library, whole)
    source = _moved(src, case.src, at_src, to_src)
    target = _moved(dst, case.dst, at_dst, to_dst)
    kernel = _run_as_is(library, whole, source, target)
    dst.view(case.dst.dtype)[at_dst.elements] = target.view(case.dst.dtype)[to_dst.elements]
    return f"{kernel} without windows"


def _run_as_is(library: OneDNN, case: Case, src: np.ndarray, dst: np.ndarray) -> str:
    source, target = (onednn_desc(library, case, side)[0] for side in (case.src, case.dst))
    primitive = library.reorder(source, target, alpha=case.alpha, beta=case.beta or 0.0)
    primitive.bind(library.memory(source, src), library.memory(target, dst))()
    return primitive.impl


def _whole(case: Case, side: Side) -> Side:
    layout = side.layout if isinstance(side.layout, str) else _row_major(case.dims)
    return Side(side.data_type, case.dims, layout)


def _row_major(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(dims[axis + 1 :]) for axis in range(len(dims)))


def _both_places(library: OneDNN, case: Case) -> tuple[Places, Places]:
    return onednn_desc(library, case, case.src)[1], onednn_desc(library, case, case.dst)[1]


def _moved(data: np.ndarray, side: Side, of: Places, to: Places) -> np.ndarray:
    """A buffer with zero padding that holds the elements of `data` in other places."""
    moved = np.zeros(to.total, side.dtype)
    moved[to.elements] = data.view(side.dtype)[of.elements]
    return moved.view(np.uint8)


def run_restride(kind: str, case: Case, src: np.ndarray, dst: np.ndarray) -> str:
    """Run the case in place on an engine of `kind` and return the name of the kernel."""
    engine = rs.Engine(kind)
    source, target = restride_desc(case, case.src), restride_desc(case, case.dst)
    pd = rs.Reorder.PrimitiveDesc(engine, source, engine, target, _attr(case))
    memories = (rs.Memory(md, engine, data) for md, data in ((source, src), (target, dst)))
    stream = rs.Stream(engine)
    rs.Reorder(pd).execute(stream, *memories)
    stream.wait()
    return pd.impl_info_str


def mismatch(
    case: Case,
    buffers: tuple[np.ndarray, np.ndarray],
    where: tuple[Places, Places],
    result: dict[str, np.ndarray],
) -> str:
    """Return a difference between the results where none is allowed, or "".

    `buffers` are source and destination as they were. oneDNN's elements are expected but for what `excused`
    lists; zero is expected in the padding, and the old bytes in the gaps.
    """
    target, dtype, word = where[1], case.dst.dtype, _word(case.dst)
    ours, want, old = (array.view(word) for array in (result.ours, result.theirs.copy(), buffers[1]))
    want[target.padding], want[target.gaps] = 0, old[target.gaps]
    at, read = target.elements, buffers[0].view(case.src.dtype)[where[0].elements]
    values, mine = _exact(case, read, old[at].view(dtype)), ours[at].view(dtype)
    forgiven = excused(values, mine, want[at].view(dtype)) | _faults(case, result.kernel, read, values, mine)
    want[at[forgiven]] = ours[at[forgiven]]
    wrong = np.flatnonzero(ours != want)
    return _report(case, target, wrong, values, ours, want) if wrong.size else ""


def _report(
    case: Case, target: Places, wrong: np.ndarray, values: np.ndarray, ours: np.ndarray, want: np.ndarray
) -> str:
    first = wrong[:1]
    got, expected = (array[first].view(case.dst.dtype)[0] for array in (ours, want))
    text = f"{wrong.size} elements differ; at offset {first[0]} we have {got!r}, oneDNN {expected!r}"
    index = np.flatnonzero(target.elements == first[0])
    if index.size:
        position = tuple(map(int, np.unravel_index(index[0], case.dims)))
        return f"{text}; index {position}, exact value {values[index[0]]!r}"
    return text + ("; in the padding" if first[0] in target.padding else "; in a gap")


def _exact(case: Case, src: np.ndarray, old: np.ndarray) -> np.ndarray:
    """The f32 value before it is converted (N1)."""
    with np.errstate(all="ignore"):
        values = src.astype(np.float32)
        if case.alpha is not None:
            values = np.float32(case.alpha) * values
        if case.beta is not None:
            values = values + np.float32(case.beta) * old.astype(np.float32)
    return values


def excused(values: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return the elements that may differ from any kernel of oneDNN, given the exact values."""
    if ours.dtype.kind in "iu":
        return np.isnan(values) & (ours == 0)  # N4
    excused = np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32))  # payloads
    if ours.dtype == DataType.bf16.numpy:  # N5: oneDNN flushes what is too small for a normal bf16
        same_sign = np.signbit(ours) == np.signbit(theirs)
        excused |= (np.abs(values) < _BF16_NORMAL) & (theirs == 0) & same_sign
    if ours.dtype.itemsize == 1:  # N5: oneDNN rounds twice, to f16 first (2.3)
        with np.errstate(all="ignore"):
            excused |= theirs == values.astype(np.float16).astype(ours.dtype)
    return excused


def _faults(case: Case, kernel: str, read: np.ndarray, values: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Return the elements where one kernel of oneDNN errs and others do not (3.13), and restride is right.

    Its reference moves s32 through f32, and adds a zero point of 0.0, which makes 0.0 of -0.0. Its JIT
    kernels make the least integer of 2**31 and more from 16-bit floats.
    """
    if not kernel.startswith("simple"):
        wraps = case.src.data_type in ("bf16", "f16") and ours.dtype.kind in "iu"
        return wraps & (values >= _TWO_31) & (ours == np.iinfo(ours.dtype).max if wraps else False)
    if ours.dtype.kind not in "iu":
        return (values == 0) & np.signbit(values) & (ours == 0) & np.signbit(ours)
    moved = case.alpha is None and case.beta is None and case.src.data_type == case.dst.data_type
    return moved & (ours == read)


def _attr(case: Case) -> rs.PrimitiveAttr | None:
    if case.alpha is None and case.beta is None:
        return None
    attr = rs.PrimitiveAttr()
    if case.alpha is not None:
        attr.set_output_scales(0, [case.alpha])
    if case.beta is not None:
        chain = rs.PostOps()
        chain.append_sum(case.beta)
        attr.set_post_ops(chain)
    return attr


def _grid(blocking: Blocking, extents: tuple[int, ...]) -> np.ndarray:
    total = np.full(1, blocking.offset0, np.int64)
    # From the inside out, so that NumPy adds to long rows.
    for axis, extent in reversed(tuple(enumerate(extents))):
        total = np.add.outer(_along(blocking, axis, extent), total).reshape(-1)
    return total


def _along(blocking: Blocking, axis: int, extent: int) -> np.ndarray:
    rest, stride = np.arange(extent, dtype=np.int64), 1
    total = np.zeros_like(rest)
    for size, of in reversed(tuple(zip(blocking.inner_blks, blocking.inner_idxs, strict=True))):
        if of == axis:
            total += rest % size * stride
            rest //= size
        stride *= size
    return total + rest * blocking.strides[axis]


def _values(rng: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wide = rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
        near = rng.integers(max(limits.min, -300), min(limits.max, 300), count, endpoint=True)
        return np.where(rng.random(count) < 0.5, wide, near).astype(dtype)
    normal = rng.standard_normal(count).astype(np.float32) * rng.choice(np.float32([1, 50, 1e4]), count)
    ties = rng.integers(-300, 300, count).astype(np.float32) + np.float32(0.5)
    with np.errstate(all="ignore"):
        return np.choose(rng.integers(0, 3, count), (normal, ties, rng.choice(_SPECIAL, count))).astype(dtype)


def _word(side: Side) -> np.dtype:
    return np.dtype(f"u{side.dtype.itemsize}")
