"""Products inside programs of JAX: matrices and convolutions as one primitive, linear in each factor.

A convolution relates three tensors, and each is what a product of the other two gives: the result, the
gradient of the source, the gradient of the weights. So gradients of all orders are products of these kinds.
This module imports jax; nothing does so but `restride.jax`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ...desc.memory_desc import MemoryDesc
from ...desc.tag_names import LETTERS
from ...runtime.alloc import Buffer
from ...runtime.cpu.xla_handlers import XlaWork, make_handler
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..calls.product_calls import (
    SlidingWindow,
    convolution_primitive,
    execute_product,
    matmul_primitive,
    source_gradient,
    weights_gradient,
)
from .kernels import Shape, eagerly, is_served, shape_of, target_of_work

NumpyType = np.dtype[Any]


class MatmulKind(NamedTuple):
    """A product of matrices, either of which may be stored with its last two dims exchanged.

    `dims`, `dtype`: of the result. Batch dims of 1 are repeated.
    """

    dims: tuple[int, ...]
    dtype: NumpyType
    turns_left: bool = False
    turns_right: bool = False

    def descs(self, shapes: Sequence[Shape]) -> tuple[list[MemoryDesc], MemoryDesc]:
        """Of both factors, and of a bias if there is one; of the result."""
        turned = self.turns_left, self.turns_right
        found = [_matrix(*each) for each in zip(shapes[:2], turned, strict=True)]
        if shapes[2:]:
            ones = [1] * (len(self.dims) - 1)
            found.append(MemoryDesc((*ones, *shapes[2].dims), shapes[2].dtype))
        return found, MemoryDesc(self.dims, self.dtype)

    def prepare(self, reads: Sequence[MemoryDesc], written: MemoryDesc) -> None:
        """Make the primitive, so that it is there when it is called. Raises what it raises."""
        matmul_primitive(Engine("cpu"), reads[0], reads[1], _third(reads), written)

    def run(self, reads: Sequence[Memory], written: Memory) -> None:
        """Write the product."""
        bias = reads[2] if reads[2:] else None
        descs = [memory.desc for memory in reads]
        primitive = matmul_primitive(written.engine, descs[0], descs[1], _third(descs), written.desc)
        execute_product(primitive, reads[0], reads[1], bias, written)

    def transposed(self, ct: Any, left: Any, right: Any) -> tuple[Any, Any]:
        """The gradients of both factors, None for one that is known."""
        if ad.is_undefined_primal(left):
            return self._of_left(ct, left.aval, right), None
        return None, self._of_right(ct, left, right.aval)

    def _of_left(self, ct: Any, left: Any, right: Any) -> Any:
        ct = ct.astype(right.dtype)
        made = self._product(right, ct, self.turns_right, True, left) if self.turns_left else None
        made = self._product(ct, right, False, not self.turns_right, left) if made is None else made
        return _summed(made, left.shape)

    def _of_right(self, ct: Any, left: Any, right: Any) -> Any:
        ct = ct.astype(left.dtype)
        made = self._product(ct, left, True, self.turns_left, right) if self.turns_right else None
        made = self._product(left, ct, not self.turns_left, False, right) if made is None else made
        return _summed(made, right.shape)

    def _product(self, left: Any, right: Any, turns_left: bool, turns_right: bool, like: Any) -> Any:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        kind = MatmulKind((*batch, *like.shape[-2:]), np.dtype(like.dtype), turns_left, turns_right)
        return product_p.bind(left, right, kind=kind)

    def batched(self, args: Sequence[Any], axes: Sequence[Any], size: int) -> Any:
        """The product of a batch, in one call."""
        left, right = (
            jax.numpy.expand_dims(x, 0) if at is None else jax.numpy.moveaxis(x, at, 0)
            for x, at in zip(args[:2], axes[:2], strict=True)
        )
        kind = self._replace(dims=(size, *self.dims))
        if not args[2:] or axes[2] is None:
            return product_p.bind(left, right, *args[2:], kind=kind)
        rows = jax.numpy.moveaxis(args[2], axes[2], 0).reshape(size, *[1] * (len(self.dims) - 1), -1)
        return product_p.bind(left, right, kind=kind) + rows.astype(self.dtype)


class ConvolutionKind(NamedTuple):
    """A convolution seen from what it writes: "forward", "source" or "weights".

    The factors are source and weights, the gradient of the result and weights, or source and the gradient of
    the result. Weights have a dim of groups where there are more than one.
    """

    dims: tuple[int, ...]
    dtype: NumpyType
    window: SlidingWindow
    way: str = "forward"

    def descs(self, shapes: Sequence[Shape]) -> tuple[list[MemoryDesc], MemoryDesc]:
        """Of both factors, and of a bias if there is one; of the result."""
        return [MemoryDesc(each.dims, each.dtype) for each in shapes], MemoryDesc(self.dims, self.dtype)

    def prepare(self, reads: Sequence[MemoryDesc], written: MemoryDesc) -> None:
        """Make the primitive of forward, so that it is there when it is called. Raises what it raises."""
        if self.way == "forward":
            convolution_primitive(Engine("cpu"), reads[0], reads[1], _third(reads), written, self.window)

    def run(self, reads: Sequence[Memory], written: Memory) -> None:
        """Write the convolution, or the gradient."""
        if self.way == "source":
            source_gradient(written, reads[1], reads[0], self.window)
        elif self.way == "weights":
            weights_gradient(reads[0], written, None, reads[1], self.window)
        else:
            descs = [memory.desc for memory in reads]
            head = written.engine, descs[0], descs[1], _third(descs), written.desc
            primitive = convolution_primitive(*head, self.window)
            execute_product(primitive, reads[0], reads[1], reads[2] if reads[2:] else None, written)

    def transposed(self, ct: Any, left: Any, right: Any) -> tuple[Any, Any]:
        """The gradients of both factors, None for one that is known."""
        is_left = ad.is_undefined_primal(left)
        other = right if is_left else left
        like = left.aval if is_left else right.aval
        # By what is written and which factor is open: how the open one is made of the other two.
        way, is_turned = {
            ("forward", True): ("source", False),
            ("forward", False): ("weights", True),
            ("source", True): ("forward", False),
            ("source", False): ("weights", False),
            ("weights", True): ("source", True),
            ("weights", False): ("forward", True),
        }[self.way, is_left]
        ct = ct.astype(other.dtype)
        factors = (other, ct) if is_turned else (ct, other)
        kind = ConvolutionKind(tuple(like.shape), np.dtype(like.dtype), self.window, way)
        made = product_p.bind(*factors, kind=kind)
        return (made, None) if is_left else (None, made)

    def batched(self, args: Sequence[Any], axes: Sequence[Any], size: int) -> Any:
        """One call where the batch is of the first factor alone, else one after the other."""
        is_image = (
            self.way != "weights" and axes[0] is not None and not any(at is not None for at in axes[1:])
        )
        if not is_image:
            mapped = [
                x if at is None else jax.numpy.moveaxis(x, at, 0) for x, at in zip(args, axes, strict=True)
            ]
            return jax.lax.map(partial(self._one, mapped, axes), jax.numpy.arange(size))
        x = jax.numpy.moveaxis(args[0], axes[0], 0)
        kind = self._replace(dims=(size * self.dims[0], *self.dims[1:]))
        made = product_p.bind(x.reshape(-1, *x.shape[2:]), *args[1:], kind=kind)
        return made.reshape(size, *self.dims)

    def _one(self, args: Sequence[Any], axes: Sequence[Any], index: Any) -> Any:
        picked = [x if at is None else x[index] for x, at in zip(args, axes, strict=True)]
        return product_p.bind(*picked, kind=self)


Kind = MatmulKind | ConvolutionKind


def _third(descs: Sequence[MemoryDesc]) -> MemoryDesc | None:
    return descs[2] if descs[2:] else None


def _matrix(shape: Shape, is_turned: bool) -> MemoryDesc:
    if not is_turned:
        return MemoryDesc(shape.dims, shape.dtype)
    *batch, columns, rows = shape.dims
    letters = LETTERS[: len(shape.dims)]
    tag = f"{letters[:-2]}{letters[-1]}{letters[-2]}"
    return MemoryDesc((*batch, rows, columns), shape.dtype, tag)


def _summed(x: Any, shape: tuple[int, ...]) -> Any:
    """The sum over the dims along which a factor of this shape was repeated."""
    axes = tuple(d for d, (n, wanted) in enumerate(zip(x.shape, shape, strict=True)) if n != wanted)
    return x.sum(axes, keepdims=True) if axes else x


# --- the primitive ------------------------------------------------------------------------------------------

product_p = Primitive("restride_product")


def check_product(kind: Kind, *operands: Any) -> None:
    """Raise what a primitive of these arrays, or tracers, raises."""
    kind.prepare(*kind.descs([shape_of("product", x) for x in operands]))


def _result_shape(*operands: Any, kind: Kind) -> Any:
    return operands[0].update(shape=kind.dims, dtype=kind.dtype, weak_type=False)


product_p.def_abstract_eval(_result_shape)
product_p.def_impl(partial(eagerly, product_p))


def _lowered(ctx: Any, *operands: Any, kind: Kind) -> Any:
    shapes = [shape_of("product", aval) for aval in ctx.avals_in]
    if not is_served():
        return mlir.lower_fun(partial(_by_callback, kind), multiple_results=False)(ctx, *operands)
    return jax.ffi.ffi_lowering(_target(kind, tuple(shapes)))(ctx, *operands)


mlir.register_lowering(product_p, _lowered, platform="cpu")


def _target(kind: Kind, shapes: tuple[Shape, ...]) -> str:
    """The name of a handler that multiplies."""

    def make() -> int:
        reads, written = kind.descs(shapes)
        kind.prepare(reads, written)
        result = Shape(kind.dims, tuple(range(len(kind.dims))), kind.dtype)
        work = XlaWork(0, 0, partial(_run, kind, reads, written), None)
        return make_handler(work, [shape.operand() for shape in shapes], result.operand())

    return target_of_work(("product", type(kind).__name__, kind, shapes), make)


def _run(kind: Kind, reads: Sequence[MemoryDesc], written: MemoryDesc, *addresses: int) -> None:
    engine = Engine("cpu")
    *sources, target = (
        Memory(md, engine, Buffer(address, md.size, md is not written, None).bytes())
        for md, address in zip((*reads, written), addresses, strict=True)
    )
    kind.run(sources, target)


def _by_callback(kind: Kind, *operands: Any) -> Any:
    """Where XLA's interface is not the one that handlers are written for: by Python, which is slower."""

    def called(*held: Any) -> Any:
        arrays = [np.ascontiguousarray(x) for x in held]
        shapes = [Shape(x.shape, tuple(range(x.ndim)), x.dtype) for x in arrays]
        reads, written = kind.descs(shapes)
        out = np.empty(kind.dims, kind.dtype)
        _run(kind, reads, written, *(x.ctypes.data for x in (*arrays, out)))
        return out

    result = jax.ShapeDtypeStruct(kind.dims, kind.dtype)
    return jax.pure_callback(called, result, *operands, vmap_method="sequential")


# --- derivatives and vmap -----------------------------------------------------------------------------------


def _pushed(primals: Any, tangents: Any, *, kind: Kind) -> tuple[Any, Any]:
    """The product rule; a bias is added as it is."""
    left, right = primals[:2]
    out = product_p.bind(*primals, kind=kind)
    parts = []
    if type(tangents[0]) is not ad.Zero:
        parts.append(product_p.bind(tangents[0], right, kind=kind))
    if type(tangents[1]) is not ad.Zero:
        parts.append(product_p.bind(left, tangents[1], kind=kind))
    if tangents[2:] and type(tangents[2]) is not ad.Zero:
        along = [1] * len(kind.dims)
        along[-1 if isinstance(kind, MatmulKind) else 1] = -1
        bias = tangents[2].reshape(along).astype(kind.dtype)
        parts.append(jax.numpy.broadcast_to(bias, kind.dims))
    return out, sum(parts[1:], parts[0]) if parts else ad.Zero.from_primal_value(out)


def _transposed(ct: Any, left: Any, right: Any, *, kind: Kind) -> Any:
    if type(ct) is ad.Zero:
        return None, None
    return kind.transposed(ct, left, right)


def _batched(args: Any, axes: Any, *, kind: Kind) -> Any:
    size = next(x.shape[at] for x, at in zip(args, axes, strict=True) if at is not None)
    return kind.batched(args, axes, size), 0


ad.primitive_jvps[product_p] = _pushed
ad.primitive_transposes[product_p] = _transposed
batching.primitive_batchers[product_p] = _batched
