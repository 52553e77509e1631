"""Tile: a tensor repeated along its dims. Trilu: the elements on one side of a diagonal, zeros elsewhere.

    tile   dst[r * n + i] = src[i]                  along each dim, n that of the source
           diff_src[i] = sum over r of diff_dst[r * n + i]
    trilu  dst[..., i, j] = j - i >= k ? src[..., i, j] : 0        upper; lower: j - i <= k

Elements are moved as they are, of every type. The gradient of trilu is the trilu of the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from ..desc.arguments import ARG_DIFF_DST, ARG_SRC, ARG_SRC_1
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..ir.expression import Affine, Const, Coordinate, Expr, Ref, TreeAxis, apply
from ..ir.numbers import Number
from ..ir.tree import Each, LoopTree, TreeTensor, fold_over
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, OperationProblem, is_computed_wide
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, check_indices
from ..runtime.alloc import Array
from .programs.bits import as_bits, as_indices, number_of_bits, zero_bits

Dims = tuple[int, ...]
Value = Array | str


def _tile(call: Any, x: Value, repeats: Annotated[Dims, "how often it repeats"]) -> Any:
    """Prepend dims of 1 to the source if there are more repeats than dims."""
    dims = call.dims(x)
    if len(repeats) < len(dims):
        raise Misfit(f"there are {len(repeats)} repeats for {len(dims)} dims")
    if not isinstance(x, str):
        return np.tile(x, repeats)
    x = call.reshaped(x, (*(1,) * (len(repeats) - len(dims)), *dims))
    return x if set(repeats) <= {1} else call.primitive("Tile", x, repeats=repeats)


def _trilu(call: Any, x: Value, k: Value | None = None, *, upper: bool = True) -> Any:
    if isinstance(k, str):
        offset = call.reshaped(k, (1,))
        return call.primitive("Trilu", x, offset, upper=upper)
    diagonal = 0 if k is None else int(k.reshape(-1)[0])
    if not isinstance(x, str):
        return (np.triu if upper else np.tril)(x, diagonal)
    return call.primitive("Trilu", x, diagonal=diagonal, upper=upper)


@dataclass(frozen=True, slots=True)
class TileProblem(OperationProblem):
    """The tile primitive: the source repeated along each dim until it fills the destination.

    Executed with `ARG_SRC` and `ARG_DST`.
    """

    operation = "tile"
    primitive = "Tile"
    call = "src", "dst"
    prop_kinds = (PropKind.undef,)
    in_place = False
    onnx = {"Tile": _tile}
    aten = {"repeat": lambda call, x, repeats: call.onnx("Tile", x, repeats)}
    openvino = {"Tile": "Tile"}
    arguments = """
    Each dim of `dst` is a multiple of that of the source; format "any" follows the source."""

    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> TileProblem:
        src = call.known("src")
        dst = call.written("dst", src)
        call.same_types(src=src, dst=dst)

        call.check_dims(dst, lambda: _tile_dims(src, dst), src)
        return cls(src, dst, call.attr())

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> Dims:
        """`node.repeats`: the number of repeats along each dim."""
        dims = tensors[0].dims
        if len(node.repeats) != len(dims) or any(times < 0 for times in node.repeats):
            raise Misfit(f"{node.repeats} are not valid repeats for {len(dims)} dims")
        return tuple(n * times for n, times in zip(dims, node.repeats, strict=True))

    def tree(self) -> LoopTree:
        """The loop tree: for each dim a loop over the repeats, and one over the source."""
        src, dst = (TreeTensor.of_desc(name, as_bits(getattr(self, name))) for name in ("src", "dst"))
        axes: list[TreeAxis] = []
        read: list[TreeAxis] = []
        written: list[Affine] = []
        for i, (n, m) in enumerate(zip(self.src.dims, self.dst.dims, strict=True)):
            along, turn = TreeAxis(f"d{i}", n), TreeAxis(f"r{i}", m // n if n else 0)
            axes += [turn, along] if turn.extent != 1 else [along]
            read.append(along)
            written.append(turn * n + along if turn.extent != 1 else along + 0)
        loop = Each(tuple(axes), (dst.store(tuple(written), src.load(*read)),))
        return LoopTree((src, dst), (loop,), number=number_of_bits(self.src)).verify()

    @property
    def moved_bytes(self) -> int:
        return 2 * self.dst.data_type.nbytes(self.dst.nelems)


@dataclass(frozen=True, slots=True)
class TileBackwardProblem(GradientProblem):
    """The gradient of the source of a tile: for each element the sum over its repeats.

    Executed with `ARG_DIFF_DST` and `ARG_DIFF_SRC`.
    """

    operation = "tile"
    primitive = "TileBackward"
    call = "diff_src", "diff_dst"
    reads = {ARG_DIFF_DST: "diff_dst"}
    in_place = False
    arguments = """
    Dims are as in the forward step. `diff_src`: format "any" follows `diff_dst`."""

    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> TileBackwardProblem:
        diff_dst = call.known("diff_dst")
        diff_src = call.written("diff_src", diff_dst)
        call.check_dims(diff_dst, lambda: _tile_dims(diff_src, diff_dst), diff_src, name="diff_dst")
        return cls(diff_src, diff_dst, call.attr())

    def tree(self) -> LoopTree:
        """The loop tree: for each element of the source a fold over the repeats."""
        gradient, out = (TreeTensor.of_desc(name, getattr(self, name)) for name in ("diff_dst", "diff_src"))
        sizes = tuple(zip(self.diff_src.dims, self.diff_dst.dims, strict=True))
        axes = tuple(TreeAxis(f"d{i}", n) for i, (n, _) in enumerate(sizes))
        turns = tuple(TreeAxis(f"r{i}", m // n if n else 0) for i, (n, m) in enumerate(sizes))
        place = (turn * axis.extent + axis for turn, axis in zip(turns, axes, strict=True))
        total = Each(turns, (fold_over("sum", "total", gradient.load(*place)),))
        number = Number.real(is_wide=is_computed_wide(self.diff_src, self.diff_dst))
        loop = Each(axes, (total, out.store(axes, Ref("total"))))
        return LoopTree((gradient, out), (loop,), number=number).verify()


def _tile_dims(src: MemoryDesc, dst: MemoryDesc) -> Dims:
    """Return the dims of a tile with about the dims of a destination. Raises Misfit."""
    if len(dst.dims) != len(src.dims):
        raise Misfit("the ranks differ", "reshape the source: it can have leading dims of 1")
    return tuple(n * (m // n) if n else 0 for n, m in zip(src.dims, dst.dims, strict=True))


@dataclass(frozen=True, slots=True)
class TriluProblem(OperationProblem):
    """The trilu primitive: the source on and above (or below) a diagonal of the last two dims, else zeros.

    Executed with `ARG_SRC`, `ARG_SRC_1` if the descriptor has `offset`, and `ARG_DST`.
    """

    operation = "trilu"
    primitive = "Trilu"
    call = "src", "dst", "offset", "diagonal", "upper"
    defaults = {"offset": None, "diagonal": 0, "upper": True}
    prop_kinds = (PropKind.undef,)
    reads = {ARG_SRC: "src", ARG_SRC_1: "offset"}
    node_reads = "src", "offset?"
    onnx = {"Trilu": _trilu}
    aten = {
        "tril": lambda call, x, diagonal=0: call.onnx("Trilu", x, (diagonal,), upper=0),
        "triu": lambda call, x, diagonal=0: call.onnx("Trilu", x, (diagonal,)),
    }
    arguments = """
    `diagonal`: how far the diagonal is above the main one; if `offset` (one integer of 8 bits or more) is not
    None, it is passed at execution. `dst`: format "any" takes that of the source."""

    src: MemoryDesc
    offset: MemoryDesc | None
    dst: MemoryDesc
    diagonal: int
    upper: bool
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> TriluProblem:
        src, dst = call.forward()
        offset = None if call.offset is None else call.known("offset")
        call.same_types(src=src, dst=dst)
        tensors = (src,) if offset is None else (src, offset)
        call.check_dims(dst, lambda: _trilu_dims(*tensors), *tensors)
        return cls(src, offset, dst, call.integer("diagonal"), call.flag("upper"), call.attr())

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> Dims:
        return _trilu_dims(*tensors)

    def sources(self) -> dict[int, MemoryDesc]:
        return {ARG_SRC: self.src} | ({} if self.offset is None else {ARG_SRC_1: self.offset})

    @property
    def verbose_aux(self) -> str:
        return f"{'upper' if self.upper else 'lower'} diagonal:{'?' if self.offset else self.diagonal}"

    def tree(self) -> LoopTree:
        """The loop tree: each element tests which side it is on."""
        src, dst = (TreeTensor.of_desc(name, as_bits(getattr(self, name))) for name in ("src", "dst"))
        tensors, bits = [src, dst], max(32, number_of_bits(self.src).bits)
        axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.src.dims))
        end = sum(self.src.dims[-2:])
        limit: Expr = Const(min(max(self.diagonal, -end), end))
        if self.offset is not None:
            offset = TreeTensor.of_desc("offset", as_indices(self.offset))
            tensors.append(offset)
            limit, bits = offset.load(*(0,) * len(offset.sizes)), 64
        is_kept = apply("ge" if self.upper else "le", Coordinate(axes[-1] - axes[-2]), limit)
        value = apply("select", is_kept, src.load(*axes), zero_bits(self.src.data_type))
        loop = Each(axes, (dst.store(axes, value),))
        return LoopTree(tuple(tensors), (loop,), number=Number.integer(bits)).verify()


def _trilu_dims(src: Shaped, offset: Shaped | None = None) -> Dims:
    if len(src.dims) < 2:
        raise Misfit("a diagonal needs two dims")
    if offset is not None:
        check_indices(offset)
        if any(n != 1 for n in offset.dims):
            raise Misfit("the offset of the diagonal must be one integer")
    return src.dims


Tile = make_primitive(TileProblem)
TileBackward = make_primitive(TileBackwardProblem)
Trilu = make_primitive(TriluProblem)
