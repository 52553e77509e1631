"""Kernels inside programs of JAX: primitives with every derivative, run by XLA through handlers of ours.

A primitive has one parameter, a kind: a value that says all of a call but its operands.

This module imports jax; nothing does so but `restride.jax`.
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

# XLA's numbers of its types.
_NUMBERS = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8,
    "uint64": 9, "float16": 10, "float32": 11, "float64": 12, "complex64": 15, "bfloat16": 16,
    "float8_e5m2": 19, "float8_e4m3fn": 20, "float8_e4m3b11fnuz": 23, "float8_e5m2fnuz": 24,
    "float8_e4m3fnuz": 25, "float8_e4m3": 28, "float8_e3m4": 29, "float8_e8m0fnu": 33,
}  # fmt: skip
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
        """The operand that a handler checks."""
        return XlaOperand(_NUMBERS[self.dtype.name], prod(self.dims))


def shape_of(call: str, aval: Any) -> Shape:
    """The shape that XLA hands to a kernel for an abstract value, or for an array, row-major."""
    if not all(isinstance(n, int) for n in aval.shape):
        raise refuse("RS-A17:shape", call=call, shape=aval.shape)
    return Shape(tuple(aval.shape), tuple(range(aval.ndim)), np.dtype(aval.dtype))


class PrimitiveRules(NamedTuple):
    """The functions of a primitive. Each takes its kind: equal kinds do equal work, and their repr tells all
    of it, in every process.

    result     the abstract value of the result, of the kind and that of the first operand
    work       what a handler does, of the kind, the shapes of the sources and that of the result
    on_arrays  the same of the kind and arrays of NumPy
    batched    the result, parts in front, of the kind, operands, and where each has its axis of parts
    """

    result: Callable[[Any, Any], Any]
    work: Callable[[Any, tuple[Shape, ...], Shape], XlaWork]
    on_arrays: Callable[..., Any]
    batched: Callable[[Any, Any, Any], Any]


# --- handlers: made when a program is lowered, found by a name that tells all they do -------------------

_registered: dict[str, object] = {}
_registering = threading.Lock()


@lru_cache(maxsize=1)
def is_served() -> bool:
    """True where XLA's interface for handlers is of the version that ours are written for."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    try:
        major = re.search(r"#define XLA_FFI_API_MAJOR (\d+)", header.read_text(encoding="utf-8"))
    except OSError:
        return False
    return major is not None and int(major[1]) == MAJOR and sys.maxsize == 2**63 - 1


def _target(kind: Any, rules: PrimitiveRules, sources: tuple[Shape, ...], result: Shape) -> str:
    """The name of a handler, equal for equal work in every process: so XLA's caches on disk stay right."""
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
    """A primitive `restride_<name>`, without derivatives."""
    primitive = Primitive(f"restride_{name}")
    primitive.def_abstract_eval(lambda *operands, kind: rules.result(kind, operands[0]))
    primitive.def_impl(partial(_at_hand, primitive))
    mlir.register_lowering(primitive, partial(_lowered, name, rules), platform="cpu")
    batching.primitive_batchers[primitive] = lambda args, axes, *, kind: (rules.batched(kind, args, axes), 0)
    return primitive


def _at_hand(primitive: Any, *operands: Any, kind: Any) -> Any:
    """A primitive outside of programs: a program of one step."""
    program = _program(primitive, kind)
    if not jax.config.jax_disable_jit:
        return program(*operands)
    with jax.disable_jit(False):  # one step is a program too, or it would call itself
        return program(*operands)


@lru_cache(maxsize=1024)
def _program(primitive: Any, kind: Any) -> Any:
    return jax.jit(partial(primitive.bind, kind=kind))


def _lowered(name: str, rules: PrimitiveRules, ctx: Any, *operands: Any, kind: Any) -> Any:
    result = ctx.avals_out[0]
    if not is_served():  # XLA's interface is not the one we know: by Python, which is slower

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
    """A shuffle of an axis, of groups of that size."""

    axis: int
    group_size: int


class ReorderKind(NamedTuple):
    """A reorder: the axes of the result, outermost first, its type, and the bits of a scale."""

    order: Order
    dtype: NumpyType
    factor: int | None

    @property
    def scale(self) -> float | None:
        """The scale by the bits of its f32, as NaN and -0.0 are no keys."""
        return None if self.factor is None else float(struct.unpack("=f", struct.pack("=I", self.factor))[0])


def _new_move(
    name: str,
    result: Callable[[Any, Any], Any],
    call: Callable[[Any, Shape, Shape], tuple[CompiledCall, Values]],
    on_array: Callable[[Any, Any], Any],
    back: Callable[[Any, Any], Any],
    parts: Callable[[Any], Any],
) -> Primitive:
    """`back`: the kind that takes a gradient back, of the kind and the source; `parts`: that of a batch."""

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
    # A shuffle undoes a shuffle: the group size and the number of groups change places.
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


# --- what functions take --------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def check_type(call: str, dtype: Any) -> None:
    """Raise Unimplemented for types that no kernel sees as XLA keeps them."""
    if getattr(dtype, "name", "") not in _NUMBERS:
        raise refuse("RS-A17:elements", call=call, dtype=dtype)


def array_of(call: str, x: Any) -> Any:
    """`x` as an array of JAX, of elements that kernels see as XLA keeps them."""
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        # Before JAX looks at it: of objects and texts it makes nothing.
        check_type(call, x.dtype)
        return x if isinstance(x, jax.Array) else jax.numpy.asarray(x)
    raise refuse("RS-A17:no-array", type=type(x).__name__)


def parse_dtype(dtype: Any) -> NumpyType:
    """The type that `dtype` names, which JAX must keep as it is."""
    twin = parse_type(dtype).numpy
    element_type = np.dtype(np.void) if twin is None else twin
    check_width(element_type)
    return element_type


def factor_of(scale: Any) -> int | None:
    """The bits of a scale; None for 1. Raises InvalidArguments for what is no number yet."""
    if scale is None:
        return None
    if isinstance(scale, jax.core.Tracer):
        raise refuse("RS-A17:scale-traced", call="reorder", name="scale")
    alpha = to_factor(scale, "scale")
    return None if alpha == 1.0 else int(struct.unpack("=I", struct.pack("=f", alpha))[0])


@lru_cache(maxsize=64)
def is_real(dtype: Any) -> bool:
    """True for types that have derivatives."""
    return bool(jax.numpy.issubdtype(dtype, jax.numpy.inexact))


def differentiable(x: Any, dtype: Any) -> Any:
    """`x`, cut off from gradients where it or what is made of it, of type `dtype`, has none.

    Raises InvalidArguments for an array on another device than the CPU.
    """
    if not isinstance(x, jax.core.Tracer) and any(device.platform != "cpu" for device in x.devices()):
        raise refuse("RS-A04:array-not-cpu", name="restride.jax: x")
    return x if is_real(x.dtype) and is_real(dtype) else jax.lax.stop_gradient(x)


def is_at_hand(x: Any) -> bool:
    """True for an array whose bytes are there, on one CPU device."""
    if isinstance(x, jax.core.Tracer) or len(x.devices()) != 1:
        return False
    return bool(next(iter(x.devices())).platform == "cpu")


def shuffled(rule: Rule, x: Any, axis: Any, number: Any) -> Any:
    """A shuffle whose groups are counted as `rule` does."""
    array = array_of(rule.call, x)
    kind = ShuffleKind(*rule.split(array.shape, *rule.parse(axis, number)))
    return shuffle_p.bind(differentiable(array, array.dtype), kind=kind)
