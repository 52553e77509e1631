"""Tensors whose rows lie gigabytes apart: every byte lands in its place, and no other one is touched.

The lower 32 bits of such a distance may be a few bytes. As many are what instructions of AArch64 add to an
address when they load or store a lane, or registers by turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

import restride as rs
from restride.ir.conversion import PROVIDED, Inputs, convert, from_real, storage_dtype, to_real
from restride.ir.nest import Compute
from support.packed import bytes_of, elements_of
from support.sparse import SparseMemory

Array = npt.NDArray[Any]
_T = TypeVar("_T")
CPU, REFERENCE = rs.Engine("cpu"), rs.Engine("reference")
STREAM = rs.Stream(CPU)
_SPACE, _SECOND = 72 << 30, 41 << 30


@pytest.fixture(scope="module")
def space() -> Iterator[SparseMemory]:
    made = SparseMemory(_SPACE)
    yield made
    made.close()


@pytest.fixture(scope="module")
def second() -> Iterator[SparseMemory]:
    made = SparseMemory(_SECOND)
    yield made
    made.close()


def distances(bits: int) -> list[int]:
    """Bytes from one row to the next: so many rows further it is 2**32 and a few bytes, or none."""
    width = max(bits // 8, 1)
    lanes = 16 // width
    more = {1: (-16, width, 2 * width, 8, 16, 32, 48, 64), 2: (0, 2 * width, 16, 32)}
    more |= dict.fromkeys({lanes, lanes // 2} - {0, 1, 2}, (16, 32, 48))
    found = {((1 << 32) + few) // rows for rows in more for few in more[rows] if few % (rows * width) == 0}
    return sorted(found)


# Dims, which of the axes is far, the steps of the others in elements, and the order of the near side.
_SHAPES: tuple[tuple[tuple[int, ...], int, tuple[int, ...], str], ...] = (
    ((8, 16), 0, (1,), "ba"),
    ((16, 4), 0, (1,), "ba"),
    ((4, 34), 0, (1,), "ba"),
    ((24, 20), 0, (1,), "ba"),
    ((12, 40), 0, (1,), "ab"),
    ((4, 8), 0, (2,), "ab"),
    ((6, 8), 1, (2,), "ab"),
    ((6, 16, 3), 0, (3, 1), "cab"),
)


def _far_md(dims: tuple[int, ...], kind: rs.DataType, axis: int, stride: int, steps: tuple[int, ...]) -> Any:
    """A descriptor of which one axis has a stride in bytes, and is cut to what there is space for."""
    cut = list(dims)
    cut[axis] = min(dims[axis], _SPACE // stride // 2 * 2)
    strides = list(steps)
    strides.insert(axis, stride * 8 // kind.bits)
    return rs.MemoryDesc.from_strides(cut, kind, strides)


def _codes(dims: tuple[int, ...], kind: rs.DataType, seed: int) -> Array:
    """Random bits of a type, one element to a place; of truth values those that there are."""
    dtype = storage_dtype(kind)
    most = 1 if kind is rs.DataType.boolean else (1 << kind.bits) - 1
    return np.random.default_rng(seed).integers(1, most, dims, dtype, endpoint=True)


def _near(codes: Array, kind: rs.DataType, tag: str) -> rs.Memory:
    """A memory without gaps of these bits."""
    order = ["abc".index(letter) for letter in tag]
    held = bytes_of(codes.transpose(order).ravel(), kind)
    return rs.Memory(rs.MemoryDesc(codes.shape, kind, tag), CPU, np.ascontiguousarray(held))


def _moved(space: SparseMemory, src: rs.Memory, dst: rs.MemoryDesc, codes: Array) -> None:
    """Write a far destination, and look at all of it."""
    types = src.desc.data_type, dst.data_type
    wanted = convert(codes, types, Compute(), Inputs())
    written = space.memory(dst)
    rs.Reorder(src, written).execute(STREAM, src, written)
    space.check(dst, wanted)


def _to_far(far: Any, tag: str, other: rs.DataType, seed: int, spaces: tuple[SparseMemory, ...]) -> None:
    codes = _codes(far.dims, other, seed)
    _moved(spaces[0], _near(codes, other, tag), far, codes)


def _from_far(far: Any, tag: str, other: rs.DataType, seed: int, spaces: tuple[SparseMemory, ...]) -> None:
    codes = _codes(far.dims, far.data_type, seed)
    src, dst = spaces[0].memory(far, codes), _near(_codes(far.dims, other, 0), other, tag)
    rs.Reorder(src, dst).execute(STREAM, src, dst)
    wanted = convert(codes, (far.data_type, other), Compute(), Inputs())
    order = ["abc".index(letter) for letter in tag]
    assert dst.data is not None
    found = elements_of(dst.data.view(np.uint8), other)[: wanted.size]
    np.testing.assert_array_equal(found, wanted.transpose(order).ravel())


def _between(far: Any, tag: str, other: rs.DataType, seed: int, spaces: tuple[SparseMemory, ...]) -> None:
    """From rows far apart along another axis where there is space."""
    axis = int(np.argmin(far.dims))
    steps = [int(np.prod(far.dims[i + 1 :])) * 2 for i in range(far.ndims) if i != axis]
    src = _far_md(far.dims, other, axis, (1 << 31) + (1 << 20), tuple(steps))
    if src.dims != far.dims:
        return
    codes = _codes(src.dims, other, seed)
    _moved(spaces[0], spaces[1].memory(src, codes), far, codes)


_WAYS = {"to far": _to_far, "from far": _from_far, "between": _between}


# Fast tests try one in so many, slow ones the others.
_SHARES = 24
_SHARE = [pytest.param(False, id="some"), pytest.param(True, id="others", marks=pytest.mark.slow)]


def _of_share(all_of: Iterable[_T], others: bool, first: int = 0) -> Iterator[_T]:
    return (each for number, each in enumerate(all_of, first) if (number % _SHARES != 0) == others)


def _problems(kind: rs.DataType, first: int) -> Iterator[tuple[int, Any, str, rs.DataType]]:
    """Every distance with two shapes, and the type of the near side: number, far side, tag, type."""
    # Tiles of three elements of 4 bits tear bytes apart: they take memory for all that lies between the rows.
    shapes = _SHAPES[: -1 if kind.bits == 4 else None]
    for number, stride in enumerate(np.repeat(distances(kind.bits), 2).tolist(), first):
        dims, axis, steps, tag = shapes[(number * 3 + first) % len(shapes)]
        yield number, _far_md(dims, kind, axis, stride, steps), tag, kind if number % 3 else rs.DataType.f32


@pytest.mark.parametrize("share", _SHARE)
@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("kind", PROVIDED, ids=str)
def test_elements_of_every_type_are_moved(
    space: SparseMemory, second: SparseMemory, kind: rs.DataType, way: str, share: bool
) -> None:
    first = 3 * PROVIDED.index(kind) + list(_WAYS).index(way)
    for number, far, tag, other in _of_share(_problems(kind, first), share):
        _WAYS[way](far, tag, other, number, (space, second))


# --- what computes ------------------------------------------------------------------------------------------

_ARGS = (rs.ARG_SRC, rs.ARG_SRC_1, rs.ARG_SRC_2)
_MULTIPLE = (rs.ARG_MULTIPLE_SRC, rs.ARG_MULTIPLE_SRC + 1)
_WEIGHTED = (rs.ARG_SRC, rs.ARG_WEIGHTS)
_FORWARD = "forward_inference"
_BOUNDS = {"f32": 1e-6, "bf16": 1e-2, "s8": 0.0}
_TREE_DISTANCES = {
    bits: [(1 << 32) + bits // 8, (1 << 31) + bits // 8, (1 << 32) + 16, (1 << 30) + bits // 8, (1 << 31)]
    for bits in (8, 16, 32)
}


def _reorder(engine: rs.Engine, src: Any, operand: Any, dst: Any) -> Any:
    ops = rs.PostOps()
    ops.append_binary("binary_add", operand)
    attr = rs.PrimitiveAttr()
    attr.set_post_ops(ops)
    return rs.Reorder.PrimitiveDesc(engine, src, engine, dst, attr)


def _pooling(engine: rs.Engine, src: Any, dst: Any) -> Any:
    window = ([1, 1], [2, 3], [0, 0], [0, 1], [0, 1])
    return rs.PoolingForward.PrimitiveDesc(engine, _FORWARD, "pooling_max", src, dst, *window)


def _convolution(engine: rs.Engine, src: Any, weights: Any, dst: Any) -> Any:
    make, window = rs.ConvolutionForward.PrimitiveDesc, ([1, 1], [0, 0], [1, 1], [1, 1])
    return make(engine, _FORWARD, "convolution_direct", src, weights, None, dst, *window)


def _resampling(engine: rs.Engine, src: Any, dst: Any) -> Any:
    return rs.ResamplingForward.PrimitiveDesc(engine, _FORWARD, "resampling_nearest", src, dst)


# The primitive; its descriptor, from those of the tensors; the arguments that are read; the dims of all
# tensors, the one that is written last.
_PRIMITIVES: dict[str, tuple[Any, Callable[..., Any], tuple[int, ...], tuple[tuple[int, ...], ...]]] = {
    "reorder": (
        rs.Reorder,
        _reorder,
        (rs.ARG_SRC, rs.arg_attr_multiple_post_op(0) | rs.ARG_SRC_1),
        ((10, 12), (10, 12), (10, 12)),
    ),
    "concat": (
        rs.Concat,
        lambda engine, *mds: rs.Concat.PrimitiveDesc(engine, 1, list(mds[:2]), mds[2]),
        _MULTIPLE,
        ((10, 12), (10, 4), (10, 16)),
    ),
    "sum": (
        rs.Sum,
        lambda engine, *mds: rs.Sum.PrimitiveDesc(engine, [1.0, 2.0], list(mds[:2]), mds[2]),
        _MULTIPLE,
        ((10, 12), (10, 12), (10, 12)),
    ),
    "eltwise": (
        rs.EltwiseForward,
        lambda engine, *mds: rs.EltwiseForward.PrimitiveDesc(
            engine, _FORWARD, "eltwise_relu", *mds, 0.0, 0.0
        ),
        _ARGS[:1],
        ((10, 12), (10, 12)),
    ),
    "binary": (
        rs.Binary,
        lambda engine, *mds: rs.Binary.PrimitiveDesc(engine, "binary_add", *mds),
        _ARGS[:2],
        ((10, 12), (10, 12), (10, 12)),
    ),
    "prelu": (
        rs.PReLUForward,
        lambda engine, *mds: rs.PReLUForward.PrimitiveDesc(engine, _FORWARD, *mds),
        _WEIGHTED,
        ((10, 12), (10, 12), (10, 12)),
    ),
    "softmax": (
        rs.SoftmaxForward,
        lambda engine, *mds: rs.SoftmaxForward.PrimitiveDesc(engine, _FORWARD, "softmax_accurate", *mds, 1),
        _ARGS[:1],
        ((10, 12), (10, 12)),
    ),
    "layer normalization": (
        rs.LayerNormalizationForward,
        lambda engine, *mds: rs.LayerNormalizationForward.PrimitiveDesc(
            engine, _FORWARD, *mds, None, 1e-3, 0
        ),
        _ARGS[:1],
        ((10, 12), (10, 12)),
    ),
    "reduction": (
        rs.Reduction,
        lambda engine, *mds: rs.Reduction.PrimitiveDesc(engine, "reduction_sum", *mds, 0.0, 0.0),
        _ARGS[:1],
        ((10, 12), (10, 1)),
    ),
    "matmul": (
        rs.Matmul,
        lambda engine, *mds: rs.Matmul.PrimitiveDesc(engine, *mds),
        _WEIGHTED,
        ((12, 9), (9, 14), (12, 14)),
    ),
    "inner product": (
        rs.InnerProductForward,
        lambda engine, *mds: rs.InnerProductForward.PrimitiveDesc(engine, _FORWARD, *mds),
        _WEIGHTED,
        ((12, 9), (14, 9), (12, 14)),
    ),
    "pooling": (rs.PoolingForward, _pooling, _ARGS[:1], ((1, 4, 6, 8), (1, 4, 5, 8))),
    "convolution": (
        rs.ConvolutionForward,
        _convolution,
        _WEIGHTED,
        ((1, 8, 6, 6), (16, 8, 3, 3), (1, 16, 6, 6)),
    ),
    "resampling": (rs.ResamplingForward, _resampling, _ARGS[:1], ((1, 4, 6, 8), (1, 4, 9, 8))),
}


def _near_memory(engine: rs.Engine, md: Any, codes: Array | None) -> rs.Memory:
    held = rs.Memory(md, engine)
    if codes is not None:
        assert held.data is not None
        held.data.view(np.uint8)[:] = bytes_of(codes.ravel(), md.data_type)
    return held


def _elements(memory: rs.Memory) -> Array:
    assert memory.data is not None
    return elements_of(memory.data.view(np.uint8), memory.desc.data_type).reshape(memory.desc.dims)


@pytest.mark.parametrize("share", _SHARE)
@pytest.mark.parametrize("word", ["f32", "bf16", "s8"])
@pytest.mark.parametrize("name", _PRIMITIVES)
def test_primitives_read_and_write_far_rows(space: SparseMemory, name: str, word: str, share: bool) -> None:
    """Each tensor in turn is far along each of its axes; the interpreter computes the same from near ones."""
    primitive, make, read, all_dims = _PRIMITIVES[name]
    kind, args, rng = rs.DataType[word], (*read, rs.ARG_DST), np.random.default_rng(0)
    near = [rs.MemoryDesc(dims, kind) for dims in all_dims]
    values = [np.rint(rng.uniform(-4, 4, dims)).astype(np.float32) for dims in all_dims[:-1]]
    codes = [*(from_real(x, kind) for x in values), None]

    def run(engine: rs.Engine, mds: Sequence[Any], used: Sequence[rs.Memory]) -> None:
        primitive(make(engine, *mds)).execute(rs.Stream(engine), dict(zip(args, used, strict=True)))

    plain = [_near_memory(REFERENCE, md, x) for md, x in zip(near, codes, strict=True)]
    run(REFERENCE, near, plain)
    wanted = to_real(_elements(plain[-1]), kind)
    for place, md in _of_share(_far_tensors(near), share):
        used = [_near_memory(CPU, each, x) for each, x in zip(near, codes, strict=True)]
        used[place] = space.memory(md, codes[place])
        run(CPU, [*near[:place], md, *near[place + 1 :]], used)
        held = codes[place]
        found = space.elements(md) if held is None else _elements(used[-1])
        np.testing.assert_allclose(to_real(found, kind), wanted, rtol=_BOUNDS[word], atol=1e-6)
        space.check(md, found if held is None else held)


def _far_tensors(mds: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    for place, md in enumerate(mds):
        for axis in (axis for axis, extent in enumerate(md.dims) if extent > 1):
            for stride in _TREE_DISTANCES[md.data_type.bits]:
                yield place, _far_md(md.dims, md.data_type, axis, stride, _plain_steps(md.dims, axis))


def _plain_steps(dims: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Row-major steps of all axes but one."""
    others = [n if i != axis else 1 for i, n in enumerate(dims)]
    return tuple(int(np.prod(others[i + 1 :])) for i in range(len(dims)) if i != axis)
