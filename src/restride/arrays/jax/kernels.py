"""Kernels inside JAX programs: primitives with all derivatives, run by XLA through our handlers.

A primitive has one parameter, a kind: a value that describes all of a call except its operands.

Only `restride.jax` may import this module, because it imports jax.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
import sys
import threading
from collections.abc import Callable
from functools import lru_cache, partial
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
from ..calls.formats import parse_type
from ..calls.signature import NO_VALUES, Values, scale_values
from ..calls.tensor_calls import bind_reorder, bind_shuffle
from ..groups import SHUFFLE, Rule
from ..reorders import reorder
from ..shuffles import shuffle
from .arrays import check_width

# XLA's numbers for its types.
_NUMBERS = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8,
    "uint64": 9, "float16": 10, "float32": 11, "float64": 12, "complex64": 15, "bfloat16": 16,
    "float8_e5m2": 19, "float8_e4m3fn": 20, "float8_e4m3b11fnuz": 23, "float8_e5m2fnuz": 24,
    "float8_e4m3fnuz": 25, "float8_e4m3": 28, "float8_e3m4": 29, "float8_e8m0fnu": 33,
}  # fmt: skip
Order = tuple[int, ...]
NumpyType = np.dtype[Any]


class Shape(NamedTuple):
    """An array as XLA passes it to a kernel: extents, axes outermost first, type."""

    dims: tuple[int, ...]
    order: Order
    dtype: NumpyType

    def kind(self, twin: NumpyType) -> tuple[Any, Any, NumpyType]:
        """Return shape, strides in bytes and type, which calls are bound to."""
        step = twin.itemsize
        strides = [step] * len(self.dims)
        for d in reversed(self.order):
            strides[d] = step
            step *= self.dims[d] or 1
        return self.dims, tuple(strides), twin

    def operand(self) -> XlaOperand:
        """Return the operand that a handler checks."""
        return XlaOperand(_NUMBERS[self.dtype.name], prod(self.dims))


def shape_of(call: str, aval: Any) -> Shape:
    """Return the shape that XLA passes to a kernel for an abstract value, or for a row-major array."""
    if not all(isinstance(n, int) for n in aval.shape):
        raise refuse("RS-A17:shape", call=call, shape=aval.shape)
    return Shape(tuple(aval.shape), tuple(range(aval.ndim)), np.dtype(aval.dtype))


class PrimitiveRules(NamedTuple):
    """The functions of a primitive. Each takes its kind: equal kinds do equal work, and their repr identifies
    that work in every process.

    result     the abstract value of the result, from the kind and that of the first operand
    work       the work of a handler, from the kind, the shapes of the sources and that of the result
    on_arrays  the same for the kind and NumPy arrays
    batched    the result with the batch axis first, from the kind, the operands and their batch axes
    """

    result: Callable[[Any, Any], Any]
    work: Callable[[Any, tuple[Shape, ...], Shape], XlaWork]
    on_arrays: Callable[..., Any]
    batched: Callable[[Any, Any, Any], Any]


# --- handlers: created when a program is lowered, named after all that they do ---------------------------

_registered: dict[str, object] = {}
_registering = threading.Lock()


@lru_cache(maxsize=1)
def is_served() -> bool:
    """Return True if XLA's handler interface has the version that our handlers are written for."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    try:
        major = re.search(r"#define XLA_FFI_API_MAJOR (\d+)", header.read_text(encoding="utf-8"))
    except OSError:
        return False
    return major is not None and int(major[1]) == MAJOR and sys.maxsize == 2**63 - 1


def _target(kind: Any, rules: PrimitiveRules, sources: tuple[Shape, ...], result: Shape) -> str:
    """Return a handler's name, equal for equal work in any process, to keep XLA's disk caches valid."""
    work = type(kind).__name__, kind, sources, result
    name = f"restride_{hashlib.sha256(repr((VERSION, work)).encode()).hexdigest()[:32]}"
    with _registering:
        if name not in _registered:
            operands = [source.operand() for source in sources]
            address = ctypes.c_void_p(
                make_handler(rules.work(kind, sources, result), operands, result.operand())
            )
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
            _registered[name] = work
    return name


# --- primitives -----------------------------------------------------------------------------------------


def new_primitive(name: str, rules: PrimitiveRules) -> Primitive:
    """Return a primitive `restride_<name>`, without derivatives."""
    primitive = Primitive(f"restride_{name}")
    primitive.def_abstract_eval(lambda *operands, kind: rules.result(kind, operands[0]))
    primitive.def_impl(partial(_at_hand, primitive))
    mlir.register_lowering(primitive, partial(_lowered, name, rules), platform="cpu")
    batching.primitive_batchers[primitive] = lambda args, axes, *, kind: (rules.batched(kind, args, axes), 0)
    return primitive


def _at_hand(primitive: Any, *operands: Any, kind: Any) -> Any:
    """Run a primitive outside of programs, as a program of one step."""
    program = _program(primitive, kind)
    if not jax.config.jax_disable_jit:
        return program(*operands)
    with jax.disable_jit(False):  # even one step must be compiled, or it would call itself
        return program(*operands)


@lru_cache(maxsize=1024)
def _program(primitive: Any, kind: Any) -> Any:
    return jax.jit(partial(primitive.bind, kind=kind))


def _lowered(name: str, rules: PrimitiveRules, ctx: Any, *operands: Any, kind: Any) -> Any:
    result = ctx.avals_out[0]
    if not is_served():  # unknown XLA interface: call through Python, which is slower

        def by_python(*operands: Any) -> Any:
            like = jax.ShapeDtypeStruct(result.shape, result.dtype)
            run = partial(rules.on_arrays, kind)
            return jax.pure_callback(
                lambda *arrays: run(*map(np.asarray, arrays)), like, *operands, vmap_method="sequential"
            )

        return mlir.lower_fun(by_python, multiple_results=False)(ctx, *operands)
    sources = tuple([shape_of(name, aval) for aval in ctx.avals_in])
    result_shape = shape_of(name, result)
    result_shape = result_shape._replace(order=getattr(kind, "order", result_shape.order))
    target = _target(kind, rules, sources, result_shape)
    # XLA counts the axes of a layout from the innermost one.
    return jax.ffi.ffi_lowering(target, result_layouts=[result_shape.order[::-1]])(ctx, *operands)


# --- moves: linear, with one operand --------------------------------------------------------------------


class ShuffleKind(NamedTuple):
    """A shuffle of an axis with groups of that size."""

    axis: int
    group_size: int


class ReorderKind(NamedTuple):
    """A reorder: the axes of the result, outermost first, its type, and the bits of a scale."""

    order: Order
    dtype: NumpyType
    factor: int | None

    @property
    def scale(self) -> float | None:
        """Return the scale from its f32 bits; NaN and -0.0 themselves would not work as keys."""
        return None if self.factor is None else float(struct.unpack("=f", struct.pack("=I", self.factor))[0])


def _new_move(
    name: str,
    result: Callable[[Any, Any], Any],
    call: Callable[[Any, Shape, Shape], tuple[CompiledCall, Values]],
    on_array: Callable[[Any, Any], Any],
    back: Callable[[Any, Any], Any],
    parts: Callable[[Any], Any],
) -> Primitive:
    """Return a linear primitive. `back`: the gradient's kind, from kind and source; `parts`: a batch's."""

    def work(kind: Any, sources: tuple[Shape, ...], result: Shape) -> XlaWork:
        move, values = call(kind, sources[0], result)
        words = move.words(values)
        run = (move.direct_kernel, packed_address(words), lambda src, dst: move.run(src, dst, values))
        return XlaWork(*run, (move, words))

    def batched(kind: Any, args: Any, axes: Any) -> Any:
        return primitive.bind(jax.numpy.moveaxis(args[0], axes[0], 0), kind=parts(kind))

    primitive = new_primitive(name, PrimitiveRules(result, work, on_array, batched))
    ad.deflinear2(primitive, lambda ct, x, *, kind: [primitive.bind(ct, kind=back(kind, x.aval))])
    return primitive


def _shuffle_call(kind: ShuffleKind, src: Shape, dst: Shape) -> tuple[CompiledCall, Values]:
    array_kind = src.kind(carried(src.dtype))
    return bind_shuffle(SHUFFLE, array_kind, array_kind, kind.axis, kind.group_size), NO_VALUES


def _reorder_call(kind: ReorderKind, src: Shape, dst: Shape) -> tuple[CompiledCall, Values]:
    values = NO_VALUES if kind.scale is None else scale_values(kind.scale)
    return bind_reorder(src.kind(src.dtype), dst.kind(dst.dtype), values is not NO_VALUES), values


shuffle_p = _new_move(
    "shuffle",
    lambda kind, aval: aval.update(weak_type=False),
    _shuffle_call,
    lambda kind, x: shuffle(x, axis=kind.axis, group_size=kind.group_size),
    # The inverse of a shuffle is a shuffle: the group size and the number of groups are exchanged.
    lambda kind, aval: ShuffleKind(kind.axis, aval.shape[kind.axis] // kind.group_size),
    lambda kind: ShuffleKind(kind.axis + 1, kind.group_size),
)
reorder_p = _new_move(
    "reorder",
    lambda kind, aval: aval.update(dtype=kind.dtype, weak_type=False),
    _reorder_call,
    lambda kind, x: reorder(x, LETTERS[: x.ndim], dtype=kind.dtype, scale=kind.scale),
    # The gradient in the type of the source, times the scale.
    lambda kind, aval: ReorderKind(tuple(range(aval.ndim)), np.dtype(aval.dtype), kind.factor),
    lambda kind: kind._replace(order=(0, *(d + 1 for d in kind.order))),
)


# --- entry points ---------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def check_type(call: str, dtype: Any) -> None:
    """Raise Unimplemented for types that XLA does not store as kernels read them."""
    if getattr(dtype, "name", "") not in _NUMBERS:
        raise refuse("RS-A17:elements", call=call, dtype=dtype)


def array_of(call: str, x: Any) -> Any:
    """Return `x` as a JAX array with a type that kernels read as XLA stores it."""
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        # Checked before JAX sees it, which cannot convert objects and text.
        check_type(call, x.dtype)
        return x if isinstance(x, jax.Array) else jax.numpy.asarray(x)
    raise refuse("RS-A17:no-array", type=type(x).__name__)


def parse_dtype(dtype: Any) -> NumpyType:
    """Return the type that `dtype` names, which JAX must support unchanged."""
    twin = parse_type(dtype).numpy
    element_type = np.dtype(np.void) if twin is None else twin
    check_width(element_type)
    return element_type


def factor_of(scale: Any) -> int | None:
    """Return the bits of a scale; None for 1. Raises InvalidArguments for a traced or invalid number."""
    if scale is None:
        return None
    if isinstance(scale, jax.core.Tracer):
        raise refuse("RS-A17:scale-traced", call="reorder", name="scale")
    alpha = to_factor(scale, "scale")
    return None if alpha == 1.0 else int(struct.unpack("=I", struct.pack("=f", alpha))[0])


@lru_cache(maxsize=64)
def is_real(dtype: Any) -> bool:
    """Return True for types that have derivatives."""
    return bool(jax.numpy.issubdtype(dtype, jax.numpy.inexact))


def differentiable(x: Any, dtype: Any) -> Any:
    """Return `x`, excluded from differentiation if it or a result of type `dtype` has no derivative.

    Raises InvalidArguments for an array on a device other than the CPU.
    """
    if not isinstance(x, jax.core.Tracer) and any(device.platform != "cpu" for device in x.devices()):
        raise refuse("RS-A04:array-not-cpu", name="restride.jax: x")
    return x if is_real(x.dtype) and is_real(dtype) else jax.lax.stop_gradient(x)


def is_at_hand(x: Any) -> bool:
    """Return True for a concrete array on one CPU device."""
    if isinstance(x, jax.core.Tracer) or len(x.devices()) != 1:
        return False
    return bool(next(iter(x.devices())).platform == "cpu")


def shuffled(rule: Rule, x: Any, axis: Any, number: Any) -> Any:
    """Apply a shuffle whose groups are counted as in `rule`."""
    array = array_of(rule.call, x)
    kind = ShuffleKind(*rule.split(array.shape, *rule.parse(axis, number)))
    return shuffle_p.bind(differentiable(array, array.dtype), kind=kind)
