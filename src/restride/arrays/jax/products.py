"""Products inside JAX programs: matrix products and convolutions as one primitive, linear in each factor.

A convolution relates three tensors, each of which is a product of the other two: the result, the gradient of
the source, the gradient of the weights. So gradients of all orders are products of these kinds. Only
`restride.jax` may import this module, because it imports jax.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.interpreters import ad

from ...desc.arguments import (
    ARG_BIAS,
    ARG_DIFF_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_WEIGHTS,
    ARG_DST,
    ARG_SRC,
    ARG_WEIGHTS,
)
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import parse_bool, parse_int
from ...desc.tag_names import LETTERS
from ...dtypes import DataType
from ...errors import refuse
from ...model.primitive import Primitive
from ...runtime.alloc import Buffer
from ...runtime.cpu.xla_handlers import XlaWork
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..calls.product_arguments import numbers_of_dims
from ..calls.product_calls import (
    SlidingWindow,
    convolution_primitive,
    execute,
    matmul_primitive,
    source_gradient_primitive,
    weights_gradient_primitive,
)
from ..products import outputs_and_kernel
from .kernels import (
    PrimitiveRules,
    Shape,
    array_of,
    check_type,
    differentiable,
    is_real,
    new_primitive,
    parse_dtype,
    shape_of,
)

_CPU = Engine("cpu")
_MATRIX = 2
NumpyType = np.dtype[Any]


class MatmulKind(NamedTuple):
    """A matrix product; either matrix may be stored transposed.

    `dims`, `dtype`: of the result. Batch dims of 1 are broadcast.
    """

    dims: tuple[int, ...]
    dtype: NumpyType
    turns_left: bool = False
    turns_right: bool = False

    def descs(self, shapes: Sequence[Shape]) -> list[MemoryDesc]:
        """Return the descriptors of both factors, of a bias if any, and of the result."""
        descs = []
        for shape, is_turned in zip(shapes[:2], (self.turns_left, self.turns_right), strict=True):
            *batch, a, b = range(len(shape.dims))
            order = (*batch, b, a) if is_turned else (*batch, a, b)
            dims = [shape.dims[d] for d in order]
            descs.append(MemoryDesc(dims, shape.dtype, "".join(LETTERS[d] for d in order)))
        ones = [1] * (len(self.dims) - 1)
        bias = [MemoryDesc((*ones, *shape.dims), shape.dtype) for shape in shapes[2:]]
        return [*descs, *bias, MemoryDesc(self.dims, self.dtype)]

    def primitive(self, reads: Sequence[MemoryDesc], result: MemoryDesc) -> Primitive:
        """Return the primitive that multiplies. Raises as its descriptor does."""
        return matmul_primitive(_CPU, reads[0], reads[1], reads[2] if reads[2:] else None, result)

    def gradient(self, ct: Any, other: Any, like: Any, is_left: bool) -> Any:
        """Return the gradient of one factor: a product of the result's gradient and the other factor."""
        if is_left and self.turns_left:
            factors, turns = (other, ct), (self.turns_right, True)
        elif is_left:
            factors, turns = (ct, other), (False, not self.turns_right)
        elif self.turns_right:
            factors, turns = (ct, other), (True, self.turns_left)
        else:
            factors, turns = (other, ct), (not self.turns_left, False)
        batch = np.broadcast_shapes(ct.shape[:-2], other.shape[:-2])
        kind = MatmulKind((*batch, *like.shape[-2:]), np.dtype(like.dtype), *turns)
        gradient = product_p.bind(*factors, kind=kind)
        # The factor was broadcast along these dims.
        axes = tuple(d for d, (n, m) in enumerate(zip(kind.dims, like.shape, strict=True)) if n != m)
        return gradient.sum(axes, keepdims=True) if axes else gradient

    def batched(self, args: Any, axes: Any) -> Any:
        """Return the product of a batch, in one call."""
        left, right = (
            jax.numpy.expand_dims(x, 0) if at is None else jax.numpy.moveaxis(x, at, 0)
            for x, at in zip(args[:2], axes[:2], strict=True)
        )
        size = _parts(args, axes)
        kind = self._replace(dims=(size, *self.dims))
        if not args[2:] or axes[2] is None:
            return product_p.bind(left, right, *args[2:], kind=kind)
        rows = jax.numpy.moveaxis(args[2], axes[2], 0).reshape(size, *[1] * (len(self.dims) - 1), -1)
        return product_p.bind(left, right, kind=kind) + rows.astype(self.dtype)


# By the tensor written and the unknown factor: how the unknown one is computed from the other two, and
# whether the other factor precedes the gradient.
_WAYS_BACK = {
    ("forward", True): ("source", False),
    ("forward", False): ("weights", True),
    ("source", True): ("forward", False),
    ("source", False): ("weights", False),
    ("weights", True): ("source", True),
    ("weights", False): ("forward", True),
}


# Inputs of a primitive, in the order of factors and bias, and its output.
_ARGUMENTS = {
    "forward": (ARG_SRC, ARG_WEIGHTS, ARG_BIAS, ARG_DST),
    "source": (ARG_DIFF_DST, ARG_WEIGHTS, ARG_DIFF_SRC),
    "weights": (ARG_SRC, ARG_DIFF_DST, ARG_DIFF_WEIGHTS),
}


class ConvolutionKind(NamedTuple):
    """A convolution, named after its output: "forward", "source" or "weights".

    The factors are source and weights, the gradient of the result and weights, or source and the gradient of
    the result. If there are several groups, weights have a group dim in front of the outputs. `is_last`:
    arrays have channels last, and weights have inputs and outputs last.
    """

    dims: tuple[int, ...]
    dtype: NumpyType
    window: SlidingWindow
    way: str = "forward"
    is_last: bool = False

    def descs(self, shapes: Sequence[Shape]) -> list[MemoryDesc]:
        """Return the descriptors of both factors, of a bias if any, and of the result."""
        own = Shape(self.dims, (), self.dtype)
        weights = 2 if self.way == "weights" else 1
        factors = [self._desc(shape, at == weights) for at, shape in enumerate((*shapes[:2], own))]
        return [*factors[:2], *(MemoryDesc(x.dims, x.dtype) for x in shapes[2:]), factors[2]]

    def _desc(self, shape: Shape, is_of_weights: bool) -> MemoryDesc:
        axes = tuple(range(len(shape.dims)))
        order = axes
        if self.is_last:
            *outer, channels = axes[: -len(self.window.strides)]
            points = axes[channels + 1 :]
            order = (*points, channels, *outer) if is_of_weights else (*outer, *points, channels)
        dims = [shape.dims[order.index(axis)] for axis in axes]
        return MemoryDesc(dims, shape.dtype, "".join(LETTERS[axis] for axis in order))

    def primitive(self, reads: Sequence[MemoryDesc], result: MemoryDesc) -> Primitive:
        """Return the primitive that computes it. Raises as its descriptor does."""
        left, right, *bias = reads
        if self.way == "source":
            return source_gradient_primitive(_CPU, result, right, left, self.window)
        if self.way == "weights":
            return weights_gradient_primitive(_CPU, left, result, None, right, self.window)
        return convolution_primitive(_CPU, left, right, bias[0] if bias else None, result, self.window)

    def gradient(self, ct: Any, other: Any, like: Any, is_left: bool) -> Any:
        """Return the gradient of one factor: a convolution of another kind."""
        way, is_turned = _WAYS_BACK[self.way, is_left]
        kind = self._replace(dims=tuple(like.shape), dtype=np.dtype(like.dtype), way=way)
        return product_p.bind(*((other, ct) if is_turned else (ct, other)), kind=kind)

    def batched(self, args: Any, axes: Any) -> Any:
        """Run one call if only the first factor has a batch axis, else one for each part."""
        size = _parts(args, axes)
        arrays = [x if at is None else jax.numpy.moveaxis(x, at, 0) for x, at in zip(args, axes, strict=True)]
        if self.way == "weights" or any(at is not None for at in axes[1:]):

            def one(index: Any) -> Any:
                picked = (x if at is None else x[index] for x, at in zip(arrays, axes, strict=True))
                return product_p.bind(*picked, kind=self)

            return jax.lax.map(one, jax.numpy.arange(size))
        kind = self._replace(dims=(size * self.dims[0], *self.dims[1:]))
        result = product_p.bind(arrays[0].reshape(-1, *arrays[0].shape[2:]), *args[1:], kind=kind)
        return result.reshape(size, *self.dims)


Kind = MatmulKind | ConvolutionKind


def _parts(args: Any, axes: Any) -> int:
    return int(next(x.shape[at] for x, at in zip(args, axes, strict=True) if at is not None))


# --- execution ----------------------------------------------------------------------------------------------


def _work(kind: Kind, sources: tuple[Shape, ...], result: Shape) -> XlaWork:
    *reads, own = kind.descs(sources)
    kind.primitive(reads, own)  # created in advance
    return XlaWork(0, 0, partial(_run, kind, reads, own), None)


def _run(kind: Kind, reads: Sequence[MemoryDesc], result: MemoryDesc, *addresses: int) -> None:
    *sources, target = (
        Memory(md, _CPU, Buffer(address, md.size, md is not result, None).bytes())
        for md, address in zip((*reads, result), addresses, strict=True)
    )
    *read, written = _ARGUMENTS[kind.way if isinstance(kind, ConvolutionKind) else "forward"]
    execute(kind.primitive(reads, result), {**dict(zip(read, sources, strict=False)), written: target})


def _on_arrays(kind: Kind, *operands: Any) -> Any:
    arrays = [np.ascontiguousarray(x) for x in operands]
    out = np.empty(kind.dims, kind.dtype)
    *reads, own = kind.descs([shape_of("product", x) for x in arrays])
    _run(kind, reads, own, *(x.ctypes.data for x in (*arrays, out)))
    return out


# --- derivatives --------------------------------------------------------------------------------------------


def _pushed(primals: Any, tangents: Any, *, kind: Kind) -> tuple[Any, Any]:
    """Apply the product rule; a bias is added unchanged."""
    left, right = primals[:2]
    out = product_p.bind(*primals, kind=kind)
    parts = []
    if type(tangents[0]) is not ad.Zero:
        parts.append(product_p.bind(tangents[0], right, kind=kind))
    if type(tangents[1]) is not ad.Zero:
        parts.append(product_p.bind(left, tangents[1], kind=kind))
    if tangents[2:] and type(tangents[2]) is not ad.Zero:
        along = [1] * len(kind.dims)
        along[-1 if isinstance(kind, MatmulKind) or kind.is_last else 1] = -1
        bias = tangents[2].reshape(along).astype(kind.dtype)
        parts.append(jax.numpy.broadcast_to(bias, kind.dims))
    return out, sum(parts[1:], parts[0]) if parts else ad.Zero.from_primal_value(out)


def _pulled(ct: Any, left: Any, right: Any, *, kind: Kind) -> tuple[Any, Any]:
    """Return the gradient of the unknown factor, and None for the known one."""
    if type(ct) is ad.Zero:
        return None, None
    if ad.is_undefined_primal(left):
        return kind.gradient(ct.astype(right.dtype), right, left.aval, True), None
    return None, kind.gradient(ct.astype(left.dtype), left, right.aval, False)


product_p = new_primitive(
    "product",
    PrimitiveRules(
        lambda kind, aval: aval.update(shape=kind.dims, dtype=kind.dtype, weak_type=False),
        _work,
        _on_arrays,
        lambda kind, args, axes: kind.batched(args, axes),
    ),
)
ad.primitive_jvps[product_p] = _pushed
ad.primitive_transposes[product_p] = _pulled


# --- entry points -------------------------------------------------------------------------------------------


def factors_of(call: str, *operands: Any) -> list[Any]:
    """Return factors and bias as arrays of supported types; None for a missing bias."""
    arrays = [None if x is None else array_of(call, x) for x in operands]
    for x in arrays:
        if x is not None:
            check_type(call, x.dtype)
    if arrays[0] is None or arrays[1] is None:
        raise refuse("RS-A17:none-no-array", call=call)
    if arrays[2] is not None and arrays[2].ndim != 1:
        raise refuse("RS-X01:bias-dims", call=call, ndims=arrays[2].ndim, desc=desc_of(arrays[2]))
    return arrays


def desc_of(x: Any) -> MemoryDesc:
    """Return the descriptor of a row-major array."""
    return MemoryDesc(tuple(x.shape), DataType.parse(x.dtype))


def product_type(x: Any, dtype: Any) -> NumpyType:
    """Return the type of a product: `dtype`, else that of `x`, or s32 if `x` is integer."""
    if dtype is not None:
        return parse_dtype(dtype)
    return np.dtype(x.dtype) if is_real(x.dtype) else np.dtype(np.int32)


def convolved(
    call: str,
    operands: Sequence[Any],
    rules: Sequence[Any],
    dtype: Any,
    *,
    is_last: Any = False,
) -> Any:
    """Return the convolution of x, weights and bias; `rules`: stride, padding, dilation and groups. With an
    output padding after them, the transposed one, the gradient of a convolution's source.
    """
    source, table, shifts = factors_of(call, *operands)
    is_last, count = parse_bool(f"{call}: channels_last", is_last), source.ndim - 2
    if is_last and (count < 1 or table.ndim != source.ndim):
        raise refuse("RS-X01:x-batch-channels", ndims=source.ndim, md=desc_of(table))
    strides, padding, dilation = (
        numbers_of_dims(call, name, each, count)
        for name, each in zip(("stride", "padding", "dilation"), rules[:3], strict=True)
    )
    window = SlidingWindow(strides, tuple(distance - 1 for distance in dilation), padding)
    table = _grouped(call, table, rules[3], is_last)
    kind = ConvolutionKind((), product_type(source, dtype), window, is_last=is_last)
    weights = kind._desc(shape_of(call, table), is_of_weights=True)
    outputs, kernel = outputs_and_kernel(weights, source.ndim)
    points = source.shape[1:-1] if is_last else source.shape[2:]
    if not rules[4:]:
        points = window.points(points, kernel)
    else:
        rest = numbers_of_dims(call, "output_padding", rules[4], count)
        points = window.origins(points, kernel, rest)
        outputs = weights.dims[-count - 1] * (weights.dims[0] if weights.ndims > source.ndim else 1)
    dims = (source.shape[0], *points, outputs) if is_last else (source.shape[0], outputs, *points)
    if not rules[4:]:
        return product(kind._replace(dims=dims), source, table, shifts)
    result = product(kind._replace(dims=dims, way="source"), source, table)
    if shifts is None:
        return result
    if shifts.shape != (outputs,):
        where, why = f"bias {desc_of(shifts)}", f"there are {outputs} outputs"
        hint = "a bias has one value for each output"
        raise refuse("RS-X01:dims-not-fit", what=call, where=where, why=why, hint=hint)
    along = () if is_last else (1,) * count
    return result + shifts.astype(kind.dtype).reshape(-1, *along)


def _grouped(call: str, weights: Any, groups: Any, is_last: bool) -> Any:
    """Return weights with a group dim in front of the outputs if there are several groups."""
    number, axis = parse_int(groups, f"{call}: groups"), weights.ndim - 1 if is_last else 0
    if number == 1:
        return weights
    if number < 1 or not weights.ndim or weights.shape[axis] % number:
        raise refuse("RS-X01:every-group-many", call=call, number=number, shape=weights.shape, axis=axis)
    outputs = number, weights.shape[axis] // number
    return weights.reshape(*weights.shape[:axis], *outputs, *weights.shape[axis + 1 :])


def product(kind: Kind, *operands: Any) -> Any:
    """Return a product of arrays or tracers, checked as its primitive checks it."""
    arrays = [differentiable(x, kind.dtype) for x in operands if x is not None]
    *reads, own = kind.descs([shape_of("product", x) for x in arrays])
    kind.primitive(reads, own)
    return product_p.bind(*arrays, kind=kind)


def multiplied(call: str, x: Any, weights: Any, bias: Any, dtype: Any, *, turns_right: bool) -> Any:
    """Return the matrix product; the weights may be stored transposed."""
    source, table, shifts = factors_of(call, x, weights, bias)
    if source.ndim < _MATRIX or table.ndim < _MATRIX or table.ndim not in (_MATRIX, source.ndim):
        raise refuse(
            "RS-X01:dims-weights",
            call=call,
            desc=desc_of(source),
            desc2=desc_of(table),
            ndim=source.ndim,
            table_ndim=table.ndim,
        )
    # One product of all rows: kernels see one tall matrix.
    rows = source.reshape(-1, source.shape[-1]) if table.ndim == _MATRIX else source
    columns = table.shape[-2 if turns_right else -1]
    batch = (b if a == 1 else a for a, b in zip(rows.shape[:-2], table.shape[:-2], strict=True))
    dims = (*batch, rows.shape[-2], columns)
    kind = MatmulKind(dims, product_type(source, dtype), turns_right=turns_right)
    result = product(kind, rows, table, shifts)
    return result.reshape(*source.shape[:-1], columns) if table.ndim == _MATRIX else result
