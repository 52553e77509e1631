"""Loop trees to run: tensors of descriptors with values, softmax, windows; and a slow second interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st

from restride.desc.memory_desc import MemoryDesc
from restride.emit import entry
from restride.emit.tree import emit_tree
from restride.ir.arithmetic import NumpyArithmetic
from restride.ir.conversion import Array, from_real, integers_of, storage_dtype, to_real
from restride.ir.expression import (
    FOLDS,
    Affine,
    Apply,
    Const,
    Coordinate,
    Expr,
    Index,
    Load,
    Ref,
    Scalar,
    TreeAxis,
    apply,
    evaluate,
    fold,
)
from restride.ir.interpret_nest import interpret
from restride.ir.numbers import elements_of, numbers_of
from restride.ir.tree import Each, Fold, Guard, Let, LoopTree, TreeTensor, fold_over
from restride.runtime.alloc import address_of
from restride.runtime.cpu.kernel import KernelWords, kernel_of
from restride.schedule.trees.padding import padding_nests
from restride.schedule.trees.plan import TreeSchedule
from restride.targets.cpu_ir import style_of
from restride.targets.cpu_kernels import lower_tree
from restride.targets.isa import CacheSizes, Isa
from support.by_offset import positions
from support.machine_code import loaded

_NUMPY = NumpyArithmetic()


# --- tensors ------------------------------------------------------------------------------------------------


def places_of(md: MemoryDesc) -> Array:
    """The offset of every element, by `MemoryDesc.offset`."""
    return positions(md, md.dims)


def flat_of(md: MemoryDesc, values: Array | None = None, fill: int = 0xA5, padding: int = 0) -> Array:
    """Flat storage of a tensor: its elements converted to its type, bytes of `padding`, `fill` in gaps."""
    dtype = storage_dtype(md.data_type)
    flat = np.full(md.size // dtype.itemsize + md.offset0, fill, np.uint8).astype(dtype)
    flat[:] = np.frombuffer(bytes([fill]) * flat.nbytes, dtype)
    if values is not None:
        if md.padded_dims != md.dims:
            flat[:] = np.frombuffer(bytes([padding]) * flat.nbytes, dtype)
        flat[places_of(md)] = from_real(np.asarray(values, np.float32), md.data_type)
    return flat


def values_in(md: MemoryDesc, flat: Array) -> Array:
    """The elements of a flat tensor as f32."""
    return to_real(np.ascontiguousarray(flat[places_of(md)]), md.data_type, np.float32)


# --- trees --------------------------------------------------------------------------------------------------


def softmax_tree(src: MemoryDesc, dst: MemoryDesc, axis: int) -> LoopTree:
    """The example of the grammar, for any descriptors."""
    x, y = TreeTensor.of_desc("src", src), TreeTensor.of_desc("dst", dst)
    outer = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(src.dims) if i != axis)
    c = TreeAxis("c", src.dims[axis])
    row = TreeTensor.row_major("row", (c.extent,))
    index = (*outer[:axis], c, *outer[axis:])
    largest = Each((c,), (fold_over("max", "m", x.load(*index)),))
    powers = (
        Let("e", apply("exp_down", x.load(*index) - Ref("m"))),
        row.store((c,), Ref("e")),
        fold_over("sum", "s", Ref("e")),
    )
    scaled = Each((c,), (y.store(index, row.load(c) / Ref("s")),))
    body = (largest, Each((c,), powers), scaled)
    return LoopTree((x, y), (Each(outer, body, locals=(row,)),)).verify()


def window_tree(src: MemoryDesc, dst: MemoryDesc, kernel: int, step: int, pad: int) -> LoopTree:
    """The largest value of each window, the mean of what is not padding, and where the largest is: `place`
    and `mean` are dense f32 of the shape of `dst`.
    """
    x, y = TreeTensor.of_desc("src", src), TreeTensor.of_desc("dst", dst)
    found, mean = (TreeTensor.row_major(name, dst.dims) for name in ("place", "mean"))
    n, c, oh, ow = (TreeAxis(name, extent) for name, extent in zip("nchw", dst.dims, strict=True))
    kh, kw = TreeAxis("kh", kernel), TreeAxis("kw", kernel)
    ih, iw = oh * step + kh - pad, ow * step + kw - pad
    at = x.load(n, c, ih, iw)
    place = Coordinate(kh * kernel + kw)
    folds = (
        Fold("argmax", ("m", "i"), (at, place)),
        fold_over("sum", "s", at),
        fold_over("sum", "k", Const(1)),
    )
    window = Each((kh, kw), folds, (Guard(ih, src.dims[2]), Guard(iw, src.dims[3])))
    index = (n, c, oh, ow)
    stores = (
        y.store(index, Ref("m")),
        found.store(index, Ref("i")),
        mean.store(index, Ref("s") / apply("max", Ref("k"), 1.0)),
    )
    return LoopTree((x, y, found, mean), (Each(index, (window, *stores)),)).verify()


# --- a second interpreter -----------------------------------------------------------------------------------


class OneByOne:
    """The docstring of `ir/tree.py`, literally: one position after the other."""

    def __init__(self, tree: LoopTree, flats: Mapping[str, Array], scalars: tuple[float, ...] = ()) -> None:
        self.tree, self.flats, self.scalars = tree, flats, scalars
        self.real = tree.number.dtype.type
        self.rows = set[str]()
        for each in tree.items:
            self.each(each, {}, {})

    def each(self, each: Each, at: dict[str, int], names: dict[str, Array]) -> dict[str, Array]:
        states = {item: [self.number(x) for x in FOLDS[item.op].identity] for item in each.folds}
        for position in product(*(range(axis.extent) for axis in each.axes)):
            here = at | dict(zip((axis.name for axis in each.axes), position, strict=True))
            if not all(self.holds(guard, here) for guard in each.guards):
                continue
            known = dict(names)
            for local in each.locals:
                self.flats = {**self.flats, local.name: np.zeros(local.sizes, self.real)}
                self.rows.add(local.name)
            for item in each.items:
                if isinstance(item, Each):
                    known |= self.each(item, here, known)
                elif isinstance(item, Let):
                    known[item.name] = self.value(item.value, here, known)
                elif isinstance(item, Fold):
                    new = [self.value(value, here, known) for value in item.values]
                    states[item] = list(fold(item.op, _NUMPY, states[item], new))
                else:
                    value = self.value(item.value, here, known)
                    self.put(item.tensor, self.place(item.tensor, item.index, here), value)
        return {
            name: np.asarray(x)
            for item, found in states.items()
            for name, x in zip(item.names, found, strict=True)
        }

    def holds(self, guard: Guard, at: dict[str, int]) -> bool:
        whole, rest = divmod(
            self.index(Affine(guard.index.terms, guard.index.constant), at), guard.index.divisor
        )
        return not rest and 0 <= whole < guard.size

    def index(self, index: Affine, at: dict[str, int]) -> int:
        return (index.constant + sum(factor * at[name] for name, factor in index.terms)) // index.divisor

    def place(self, name: str, index: Sequence[Index], at: dict[str, int]) -> list[int]:
        sizes = self.tree.tensor(name).sizes
        pairs = zip(index, sizes, strict=True)
        return [self.element(i, n, at) if isinstance(i, Load) else self.index(i, at) for i, n in pairs]

    def element(self, load: Load, size: int, at: dict[str, int]) -> int:
        tensor = self.tree.tensor(load.tensor)
        place = self.offset(tensor, [self.index(i, at) for i in load.index])
        number = int(integers_of(self.flats[load.tensor][place : place + 1], tensor.data_type)[0])
        return min(max(number + size if number < 0 else number, 0), size - 1)

    def offset(self, tensor: TreeTensor, index: list[int]) -> int:
        total = tensor.base
        for digits, rest in zip(tensor.digits, index, strict=True):
            for digit in reversed(digits):
                total += rest // digit.step * digit.stride
                rest %= digit.step
        return total

    def put(self, name: str, index: list[int], value: Array) -> None:
        flat, tensor = self.flats[name], self.tree.tensor(name)
        if name in self.rows:
            flat[tuple(index)] = value
        else:
            bits = elements_of(np.atleast_1d(value), tensor.data_type, self.tree.number)
            flat[self.offset(tensor, index)] = bits[0]

    def value(self, expr: Expr, at: dict[str, int], names: dict[str, Array]) -> Array:
        if isinstance(expr, Load):
            flat, tensor = self.flats[expr.tensor], self.tree.tensor(expr.tensor)
            index = self.place(expr.tensor, expr.index, at)
            if expr.tensor in self.rows:
                return np.asarray(flat[tuple(index)])
            place = self.offset(tensor, index)
            return numbers_of(flat[place : place + 1], tensor.data_type, self.tree.number)[0]
        if isinstance(expr, Apply):
            return evaluate(expr.op, _NUMPY, [np.asarray(self.value(each, at, names)) for each in expr.args])
        if isinstance(expr, Ref):
            return names[expr.name]
        if isinstance(expr, Coordinate):
            return np.asarray(np.int64(self.index(expr.index, at)).astype(self.real))
        number = (
            expr.number
            if isinstance(expr, Const)
            else self.scalars[expr.number]
            if isinstance(expr, Scalar)
            else 0
        )
        return np.asarray(self.number(number))

    def number(self, number: float) -> Array:
        return self.real(self.tree.number.constant(number))


# --- kernels ------------------------------------------------------------------------------------------------


def run_kernels(
    tree: LoopTree, flats: Sequence[Array], isa: Isa, scalars: Sequence[float] = (), parts: int = 1
) -> None:
    """Run a tree as kernels of an instruction set, in so many parts one after the other."""
    lowered = lower_tree(tree, isa, CacheSizes())
    for name, nest in lowered.cleared:
        place = [tensor.name for tensor in tree.tensors].index(name)
        interpret(nest, flats[place], flats[place])
    params = KernelWords(scalars, [address_of(flat) for flat in flats])
    for part in lowered.loops:
        kernel = kernel_of(part, 1)
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 5)(kernel.code.address)
        for number in range(parts):
            run(kernel.numbers_address, 0, params.address, number, parts)


def run_scheduled(schedule: TreeSchedule, flats: Sequence[Array], isa: Isa, parts: int = 1) -> None:
    """Run the loops of a schedule as a kernel, in so many parts one after the other."""
    for name in schedule.uncovered:
        place = [tensor.name for tensor in schedule.tree.tensors].index(name)
        for nest in padding_nests(schedule.tree.tensor(name)):
            interpret(nest, flats[place], flats[place])
    library = loaded(emit_tree(schedule, style_of(isa)), isa)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 5)(library.address(entry.ENTRY))
    params = KernelWords((), [address_of(flat) for flat in flats])
    for number in range(parts):
        run(0, 0, params.address, number, parts)


@st.composite
def pointwise_trees(draw: st.DrawFn) -> tuple[LoopTree, list[MemoryDesc]]:
    """Two tensors into one, in formats and types of their own; the second may be repeated along dims."""
    dims = tuple(draw(st.integers(1, 20)) for _ in range(4))
    other = tuple(1 if draw(st.booleans()) else n for n in dims)
    tags = st.sampled_from(("nchw", "nhwc", "nChw16c", "nChw8c", "nChw4c", "cdab", "ABcd16a16b"))
    kinds = st.sampled_from(("f32", "bf16", "f16", "s8", "u8", "s32", "f8_e5m2"))
    mds = [MemoryDesc(n, draw(kinds), draw(tags)) for n in (dims, other, dims)]
    x, z, y = (TreeTensor.of_desc(name, md) for name, md in zip("xzy", mds, strict=True))
    index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(dims))
    value = apply(draw(st.sampled_from(("add", "mul", "max", "lt"))), x.load(*index), z.load(*index))
    tree = LoopTree((x, z, y), (Each(index, (y.store(index, value * 0.5),)),))
    return tree.verify(), mds


@st.composite
def reduction_trees(draw: st.DrawFn) -> tuple[LoopTree, list[MemoryDesc]]:
    """A tensor folded along some of its dims."""
    dims = tuple(draw(st.integers(1, 36)) for _ in range(3))
    over = [draw(st.booleans()) for _ in dims]
    tags = st.sampled_from(("abc", "acb", "aBc16b", "aBc8b", "cba"))
    out = tuple(1 if folded else n for folded, n in zip(over, dims, strict=True))
    mds = [
        MemoryDesc(n, kind, draw(tags))
        for n, kind in ((dims, draw(st.sampled_from(("f32", "s8")))), (out, "f32"))
    ]
    x, y = (TreeTensor.of_desc(name, md) for name, md in zip("xy", mds, strict=True))
    index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(dims))
    inner = tuple(axis for axis, folded in zip(index, over, strict=True) if folded)
    outer = tuple(axis for axis, folded in zip(index, over, strict=True) if not folded)
    op = draw(st.sampled_from(("max", "min", "sum", "argmax", "moments")))
    place = Coordinate(sum((axis * 7 for axis in inner), Affine()))
    load = x.load(*index)
    values = {"argmax": (load, place), "moments": (Const(1), load, Const(0))}.get(op, (load,))
    names = ("a", "b", "c")[: len(values)]
    at = tuple(0 if folded else axis for axis, folded in zip(index, over, strict=True))
    store = y.store(at, Ref(names[-1]))
    return LoopTree((x, y), (Each(outer, (Each(inner, (Fold(op, names, values),)), store)),)).verify(), mds
