"""Kernels inside programs of JAX: primitives with every derivative, run by XLA through handlers of ours.

This module imports jax; nothing does so but `restride.jax`.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import struct
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ...desc.tag_names import LETTERS
from ...errors import refuse
from ...runtime.cpu.kernel import packed_address
from ...runtime.cpu.xla_handlers import MAJOR, XlaOperand, XlaWork, make_handler
from ...version import VERSION
from ..calls.arithmetic import to_factor
from ..calls.binder import CompiledCall
from ..calls.carriers import carried
from ..calls.signature import NO_VALUES, Values, scale_values
from ..calls.tensor_calls import bind_reorder, bind_shuffle
from ..groups import SHUFFLE
from ..reorders import reorder
from ..shuffles import shuffle

# XLA's numbers of its types.
_NUMBERS = {
    "bool": 1,
    "int8": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "uint8": 6,
    "uint16": 7,
    "uint32": 8,
    "uint64": 9,
    "float16": 10,
    "float32": 11,
    "float64": 12,
    "complex64": 15,
    "bfloat16": 16,
    "float8_e5m2": 19,
    "float8_e4m3fn": 20,
    "float8_e4m3b11fnuz": 23,
    "float8_e5m2fnuz": 24,
    "float8_e4m3fnuz": 25,
    "float8_e4m3": 28,
    "float8_e3m4": 29,
    "float8_e8m0fnu": 33,
}
Order = tuple[int, ...]
NumpyType = np.dtype[Any]


class Shape(NamedTuple):
    """An array as XLA hands it to a kernel: extents, axes outermost first, type."""

    dims: tuple[int, ...]
    order: Order
    dtype: NumpyType

    def kind(self, twin: NumpyType) -> tuple[Any, Any, NumpyType]:
        """Shape, strides in bytes and type, as calls are bound to them."""
        step = twin.itemsize
        strides = [step] * len(self.dims)
        for d in reversed(self.order):
            strides[d] = step
            step *= self.dims[d] or 1
        return self.dims, tuple(strides), twin

    def operand(self) -> XlaOperand:
        """What a handler checks."""
        return XlaOperand(_NUMBERS[self.dtype.name], prod(self.dims))


@lru_cache(maxsize=64)
def check_type(call: str, dtype: Any) -> None:
    """Raise Unimplemented for types that no kernel sees as XLA keeps them."""
    if getattr(dtype, "name", "") not in _NUMBERS:
        raise refuse("RS-A17:elements", call=call, dtype=dtype)


# --- handlers: made when a program is lowered, found by a name that tells all they do -------------------

_registered: dict[str, object] = {}
_registering = threading.Lock()


@lru_cache(maxsize=1)
def is_served() -> bool:
    """True where XLA's interface for handlers is of the version that ours are written for."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    try:
        found = re.search(r"#define XLA_FFI_API_MAJOR (\d+)", header.read_text(encoding="utf-8"))
    except OSError:
        return False
    return found is not None and int(found[1]) == MAJOR and sys.maxsize == 2**63 - 1


def shuffle_target(x: Shape, axis: int, group_size: int) -> str:
    """The name of a handler that shuffles."""

    def make() -> int:
        kind = x.kind(carried(x.dtype))
        return _handler(bind_shuffle(SHUFFLE, kind, kind, axis, group_size), NO_VALUES, (x, x))

    return target_of_work(("shuffle", x, axis, group_size), make)


def reorder_target(x: Shape, out: Shape, factor: int | None) -> str:
    """The name of a handler that reorders."""

    def make() -> int:
        values = scale_values(1.0 if factor is None else _scale_of(factor))
        call = bind_reorder(x.kind(x.dtype), out.kind(out.dtype), values is not NO_VALUES)
        return _handler(call, values, (x, out))

    return target_of_work(("reorder", x, out, factor), make)


def target_of_work(work: tuple[object, ...], make: Callable[[], int]) -> str:
    """A name, equal for equal work in every process, so that XLA's caches on disk stay right."""
    name = f"restride_{hashlib.sha256(repr((VERSION, work)).encode()).hexdigest()[:32]}"
    with _registering:
        if name not in _registered:
            address = ctypes.c_void_p(make())
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
            _registered[name] = work
    return name


def _handler(call: CompiledCall, values: Values, ends: tuple[Shape, Shape]) -> int:
    words = call.words(values)
    work = XlaWork(
        whole=call.direct_kernel,
        params=packed_address(words),
        run=lambda src, dst: call.run(src, dst, values),
        keep=(call, words),
    )
    source, target = (end.operand() for end in ends)
    return make_handler(work, (source,), target)


def _scale_of(factor: int) -> float:
    """A scale by the bits of its f32, as NaN and -0.0 are no keys."""
    return float(struct.unpack("=f", struct.pack("=I", factor))[0])


def factor_of(scale: Any) -> int | None:
    """The bits of a scale; None for 1. Raises InvalidArguments for what is no number yet."""
    if scale is None:
        return None
    if isinstance(scale, jax.core.Tracer):
        raise refuse("RS-A17:scale-traced")
    alpha = to_factor(scale, "scale")
    return None if alpha == 1.0 else int(struct.unpack("=I", struct.pack("=f", alpha))[0])


# --- primitives -----------------------------------------------------------------------------------------

shuffle_p = Primitive("restride_shuffle")
reorder_p = Primitive("restride_reorder")


def _shuffle_shape(x: Any, *, axis: int, group_size: int) -> Any:
    return x.update(weak_type=False)


def _reorder_shape(x: Any, *, order: Order, dtype: NumpyType, factor: int | None) -> Any:
    return x.update(dtype=dtype, weak_type=False)


shuffle_p.def_abstract_eval(_shuffle_shape)
reorder_p.def_abstract_eval(_reorder_shape)


def eagerly(primitive: Any, *operands: Any, **params: Any) -> Any:
    """A primitive outside of programs: a program of one step."""
    program = _program(primitive, tuple(params.items()))
    if not jax.config.jax_disable_jit:
        return program(*operands)
    with jax.disable_jit(False):  # one step is a program too, or it would call itself
        return program(*operands)


@lru_cache(maxsize=1024)
def _program(primitive: Any, params: tuple[tuple[str, Any], ...]) -> Any:
    return jax.jit(functools.partial(primitive.bind, **dict(params)))


shuffle_p.def_impl(functools.partial(eagerly, shuffle_p))
reorder_p.def_impl(functools.partial(eagerly, reorder_p))


def _lowered_shuffle(ctx: Any, x: Any, *, axis: int, group_size: int) -> Any:
    if not is_served():
        return _through_python(ctx, x, functools.partial(shuffle, axis=axis, group_size=group_size))
    shape = shape_of("shuffle", ctx.avals_in[0])
    return jax.ffi.ffi_lowering(shuffle_target(shape, axis, group_size))(ctx, x)


def _lowered_reorder(ctx: Any, x: Any, *, order: Order, dtype: NumpyType, factor: int | None) -> Any:
    if not is_served():
        scale = None if factor is None else _scale_of(factor)
        rows = LETTERS[: len(order)]
        return _through_python(ctx, x, functools.partial(reorder, dst=rows, dtype=dtype, scale=scale))
    source = shape_of("reorder", ctx.avals_in[0])
    name = reorder_target(source, Shape(source.dims, order, dtype), factor)
    # XLA counts the axes of a layout from the innermost one.
    return jax.ffi.ffi_lowering(name, result_layouts=[order[::-1]])(ctx, x)


def shape_of(call: str, aval: Any) -> Shape:
    """What XLA hands to a kernel for an abstract value, or for an array, row-major."""
    if not all(isinstance(n, int) for n in aval.shape):
        raise refuse("RS-A17:shape", call=call, shape=aval.shape)
    return Shape(tuple(aval.shape), tuple(range(aval.ndim)), np.dtype(aval.dtype))


mlir.register_lowering(shuffle_p, _lowered_shuffle, platform="cpu")
mlir.register_lowering(reorder_p, _lowered_reorder, platform="cpu")


# --- where XLA's interface is not the one we know: by Python, which is slower ----------------------------


def _through_python(ctx: Any, x: Any, run: Callable[[Any], Any]) -> Any:
    aval = ctx.avals_out[0]
    result = jax.ShapeDtypeStruct(aval.shape, aval.dtype)

    def called(x: Any) -> Any:
        return jax.pure_callback(lambda held: run(np.asarray(held)), result, x, vmap_method="sequential")

    return mlir.lower_fun(called, multiple_results=False)(ctx, x)


# --- derivatives and vmap -------------------------------------------------------------------------------


def _shuffled_back(ct: Any, x: Any, *, axis: int, group_size: int) -> Any:
    """A shuffle undoes a shuffle: the group size and the number of groups change places."""
    return [shuffle_p.bind(ct, axis=axis, group_size=x.aval.shape[axis] // group_size)]


def _reordered_back(ct: Any, x: Any, *, order: Order, dtype: NumpyType, factor: int | None) -> Any:
    """The gradient in the type of `x`, times the scale."""
    aval = x.aval
    return [reorder_p.bind(ct, order=tuple(range(aval.ndim)), dtype=np.dtype(aval.dtype), factor=factor)]


ad.deflinear2(shuffle_p, _shuffled_back)
ad.deflinear2(reorder_p, _reordered_back)


def _shuffled_all(args: Any, axes: Any, *, axis: int, group_size: int) -> Any:
    whole = jax.numpy.moveaxis(args[0], axes[0], 0)
    return shuffle_p.bind(whole, axis=axis + 1, group_size=group_size), 0


def _reordered_all(args: Any, axes: Any, *, order: Order, dtype: NumpyType, factor: int | None) -> Any:
    whole = jax.numpy.moveaxis(args[0], axes[0], 0)
    return reorder_p.bind(whole, order=(0, *(d + 1 for d in order)), dtype=dtype, factor=factor), 0


batching.primitive_batchers[shuffle_p] = _shuffled_all
batching.primitive_batchers[reorder_p] = _reordered_all
