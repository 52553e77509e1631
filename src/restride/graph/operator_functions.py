"""ONNX's operators as functions on arrays: `rs.ops.Gelu(x)`, `rs.ops.ReduceSum(x, (1,), keepdims=False)`.

An operator is translated like one of a model. If it becomes a single primitive, it runs like all functions on
arrays: on arrays and memories of any format, with repeated calls going straight to the machine code. If it
becomes several nodes, it is a network of row-major tensors, which is cached too.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import re
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays.calls.binder import CallKey
from ..arrays.calls.carriers import NumpyType
from ..arrays.calls.function import ArrayFunction
from ..arrays.calls.operands import engine_of, memory_of
from ..arrays.calls.tensors import as_array, back_to, numpy_of
from ..arrays.reorders import reorder
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr
from ..dtypes import DataType
from ..errors import Error, refuse
from ..model.pointwise import check_same_dims
from ..model.query import Query
from ..ops.product import ProductProblem
from ..runtime.alloc import Array
from ..runtime.describe import Subject
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.result_pool import on_empty
from .dims import Dims
from .graph import Graph, Node
from .importers.onnx import operators as _operators  # noqa: F401 - registers them
from .importers.onnx.model import OnnxInput, OnnxModel, OnnxNode
from .importers.onnx.reader import translated
from .importers.onnx.sequences import LISTS
from .importers.onnx.tensors import ELEMENTS
from .importers.operator_call import NEWEST_OPSET, ONNX, OperatorParameter
from .lowering import lower_node
from .network.network import Network

KEYWORD_ONLY, POSITIONAL_ONLY = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY
POSITIONAL_OR_KEYWORD, VAR_POSITIONAL = (
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)
# Number of cached networks, each with the memory that it runs in, until `rs.empty_cache()`.
_MOST_NETWORKS = 64
_MOST_SEEN = 256
# Constants up to this size are compared as a whole, larger ones by digest.
_MOST_BYTES = 1024
# The results of these are known before a run, and not tensors: an array has `shape` and `size`.
_OF_DIMS = ("Shape", "Size")
# These are layers with weights, provided by `rs.onnx` and `rs.onednn`.
_OF_CONSTANTS = ("GRU", "LSTM", "RNN")
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), DataType.bf16.numpy)
_NUMBERS: dict[NumpyType | None, int] = {dtype: number for number, dtype in ELEMENTS.items()}
# Parts of messages about the node that an operator becomes in a graph.
_OF_NODES = re.compile(r"node \w+ '(rs\.ops\.\w+)'(?:: node '[^']*' \(\w+\))?")
Shape = tuple[Dims, NumpyType | None]


@dataclass(frozen=True, slots=True)
class _Known:
    """An array as a key: a value that an operator must know before it runs."""

    dtype: NumpyType
    dims: Dims
    content: bytes
    values: Array = field(compare=False)

    @classmethod
    def of(cls, values: Array) -> _Known:
        """Return the key of an array, which is copied."""
        values = values.copy()
        values.flags.writeable = False
        content = values.tobytes()
        content = content if len(content) <= _MOST_BYTES else hashlib.blake2b(content).digest()
        return cls(values.dtype, values.shape, content, values)


class _Invocation(NamedTuple):
    """A call without the bytes of its tensors: an operator, its inputs and attributes.

    `names`: of the inputs; `inputs`: True for a tensor, None for an omitted one. Attributes are numbers,
    words and tuples of these; `text` has them too, to distinguish 0 from -0 and False.
    """

    operator: str
    names: tuple[str, ...]
    inputs: tuple[_Known | bool | None, ...]
    attributes: tuple[tuple[str, object], ...]
    text: str
    outputs: int
    tensors: int

    def graph(self, shapes: Sequence[Shape]) -> Graph:
        """Return the graph of only this operator, for tensors of these types. Raises as a model's does."""
        known = {
            name: value.values
            for name, value in zip(self.names, self.inputs, strict=True)
            if isinstance(value, _Known)
        }
        tensors = [name for name, value in zip(self.names, self.inputs, strict=True) if value is True]
        names = (name if value else "" for name, value in zip(self.names, self.inputs, strict=True))
        outputs = tuple(f"result {i}" for i in range(self.outputs)) if self.outputs > 1 else ("the result",)
        name = f"rs.ops.{self.operator}"
        node = OnnxNode(self.operator, name, tuple(names), outputs, dict(self.attributes))
        inputs = tuple(
            OnnxInput(name, dims, _NUMBERS.get(dtype, 0))
            for name, (dims, dtype) in zip(tensors, shapes, strict=True)
        )
        model = OnnxModel((node,), known, inputs, outputs, NEWEST_OPSET)
        return translated(model, dict(zip(tensors, (dims for dims, _ in shapes), strict=True)))


_graph_of = lru_cache(maxsize=_MOST_NETWORKS)(_Invocation.graph)


@lru_cache(maxsize=_MOST_NETWORKS)
def _network_of(invocation: _Invocation, shapes: tuple[Shape, ...]) -> Network:
    return Network(_graph_of(invocation, shapes))


for _cache in (_graph_of, _network_of):
    on_empty(_cache.cache_clear)


class OperatorFunction:
    """An operator of ONNX as a function: its inputs by position, its attributes by name.

    Tensors are NumPy arrays, lists, torch tensors, objects with `__dlpack__`, or memories, all of one type;
    numbers are tensors of one element, of the type of the first floating-point tensor. Values that the
    operator must know, such as axes, are tuples of integers. The result is of the library of the first
    tensor, and a `Memory` for a `Memory`.

    out      where to write the result, in any layout and type; it is returned
    outputs  the number of results, a tuple unless it is 1; by default 1, or the number of parts

    Raises what a model with this operator raises, and InvalidArguments for unknown inputs and attributes.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "restride.ops"
        self.__doc__ = f"ONNX's operator {name} on arrays.\n\n{inspect.getdoc(type(self))}"
        parameters = [each for parameter in ONNX.parameters(name) for each in parameter.parts or (parameter,)]
        self.__signature__ = _signature(parameters)
        self._attributes = {parameter.name for parameter in parameters if parameter.kind is KEYWORD_ONLY}
        self._inputs = [parameter for parameter in parameters if parameter.kind is not KEYWORD_ONLY]
        others = tuple(parameter.name for parameter in self._inputs[1:])
        self._function = ArrayFunction(f"rs.ops.{name}", others=others)
        self._are_known = [parameter.is_known for parameter in self._inputs]
        # Numbers for these are indices, whatever the type of the tensor.
        self._indices = {parameter.name for parameter in self._inputs if parameter.mark == "indices"}
        self._is_open = any(parameter.kind is VAR_POSITIONAL for parameter in self._inputs)
        # Calls by everything except their tensors.
        self._seen: dict[Hashable, _Invocation] = {}

    def __repr__(self) -> str:
        return f"<function restride.ops.{self.__name__}{self.__signature__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return operator_function, (self.__name__,)

    def __call__(self, *inputs: Any, out: Any = None, outputs: int | None = None, **attributes: Any) -> Any:
        """Run the operator. The class documents the arguments."""
        key = self._key(inputs, outputs, attributes)
        invocation = self._seen.get(key)
        if invocation is None or (out is not None and invocation.outputs > 1):
            invocation = self._invocation(inputs, out, outputs, attributes)
            if key is not None and len(self._seen) < _MOST_SEEN:
                self._seen[key] = invocation
        x, *others = (
            inputs
            if len(inputs) == invocation.tensors
            else [x for x, slot in zip(inputs, invocation.inputs, strict=True) if slot is True]
        )
        try:
            results = self._function.call(self._run, invocation, invocation, x, out, others)
        except Error as error:
            raise error.with_context(_OF_NODES.sub(r"\1", error.what)) from None
        return tuple(back_to(x, result) for result in results) if isinstance(results, tuple) else results

    # --- parsing a call -------------------------------------------------------------------------------------

    def _names(self, count: int) -> tuple[str, ...]:
        own = [parameter.name for parameter in self._inputs]
        last = [f"{own[-1]}[{i}]" for i in range(count - len(own) + 1)] if self._is_open else own[-1:]
        return (*own[:-1], *last)[:count]

    def _key(self, inputs: Sequence[Any], outputs: Any, attributes: Mapping[str, Any]) -> Hashable | None:
        """Return the values of a call except its tensors; None if they are not just numbers, words and
        tuples.

        A number in place of a tensor is not included: its type follows from the tensors.
        """
        are_known = self._are_known
        parts: list[Any] = [len(inputs)]
        try:
            for each, value in zip(self._inputs, inputs, strict=False):
                if each.is_known or (each.name in self._indices and isinstance(value, list | tuple)):
                    parts.append(_exact(value))
                elif not _is_tensor(value):
                    return None
            if len(inputs) > len(are_known) and not all(map(_is_tensor, inputs[len(are_known) :])):
                return None
            if attributes:
                parts += [(name, _exact(value)) for name, value in attributes.items()]
            return (*parts, None if outputs is None else _exact(outputs))
        except (_NotPlain, RecursionError):
            return None

    def _invocation(
        self, inputs: Sequence[Any], out: Any, outputs: Any, attributes: Mapping[str, Any]
    ) -> _Invocation:
        """Return the call without the bytes of its tensors. Raises InvalidArguments if it does not fit."""
        unknown = [name for name in attributes if name not in self._attributes]
        if unknown:
            raise self._wrong_call(f"it has no attribute {unknown[0]!r}")
        if len(inputs) > len(self._inputs) and not self._is_open:
            raise self._wrong_call(f"it has {len(self._inputs)} inputs, not {len(inputs)}")
        are_known = self._are_known + self._are_known[-1:] * (len(inputs) - len(self._are_known))
        beside, names = _type_beside(inputs, are_known), self._names(len(inputs))
        slots: list[_Known | bool | None] = []
        for name, value, is_known in zip(names, inputs, are_known, strict=False):
            is_known = is_known or (name in self._indices and isinstance(value, int | list | tuple))
            if value is None or (_is_tensor(value) and not is_known):
                slots.append(None if value is None else True)
            else:
                slots.append(self._known(name, value, None if is_known else beside))
        if True not in slots:
            raise self._wrong_call("it needs a tensor among its inputs")
        named = tuple((name, self._plain(name, value)) for name, value in sorted(attributes.items()))
        count = self._count(outputs, dict(named), dict(zip(names, slots, strict=True)))
        if count < 1 or (count > 1 and out is not None):
            raise self._wrong_call(f"it cannot write {count} outputs" + " into out" * (out is not None))
        return _Invocation(self.__name__, names, tuple(slots), named, repr(named), count, slots.count(True))

    def _count(self, outputs: Any, attributes: Mapping[str, Any], inputs: Mapping[str, Any]) -> int:
        """Return the number of results; unless specified, as many as there are parts."""
        if outputs is not None:
            return parse_int(outputs, f"rs.ops.{self.__name__}: outputs")
        parts = inputs.get("split")
        if isinstance(parts, _Known):
            return int(parts.values.size)
        number = attributes.get("num_outputs", 0)
        return number if isinstance(number, int) and number > 0 else 1

    def _known(self, name: str, value: Any, dtype: NumpyType | None) -> _Known:
        """Return a value that an operator must know, or a number with tensors of `dtype`, as a key."""
        try:
            with np.errstate(over="ignore"):
                is_one = isinstance(value, int | float)
                values = np.asarray(value if is_one else numpy_of(value, name))
                if is_one and dtype is not None:
                    values, exact = values.astype(dtype), values
                    if dtype not in _FLOATS and values != exact:
                        raise self._wrong_call(f"{name} is {value}, which is not a value of {dtype}")
                elif is_one and dtype is None and values.dtype.kind in "iu":
                    values = values.astype(np.int64)
        except (ValueError, TypeError, OverflowError, RecursionError, RuntimeError) as error:
            if isinstance(error, Error):
                raise
            raise self._wrong_call(f"{name} is {short_repr(value)}: {str(error)[:100]}") from None
        if values.dtype.hasobject:
            raise self._wrong_call(f"{name} is {short_repr(value)}, which is not a number")
        return _Known.of(values)

    def _plain(self, name: str, value: Any) -> Any:
        """Return an attribute as a number, word, or tuple of these. Raises InvalidArguments for others."""
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            value = value.tolist()
        if isinstance(value, float):
            # The same NaN object every time, so that keys are equal.
            return math.nan if math.isnan(value) else float(value)
        if value is None or isinstance(value, int | str):
            return value
        if isinstance(value, list | tuple | range):
            plain = tuple(part for part in value if isinstance(part, int | float | str | np.generic))
            if len(plain) == len(value):
                return tuple(self._plain(name, part) for part in plain)
        raise self._wrong_call(f"{name} is {short_repr(value)}, not a number, a word or a sequence of these")

    def _wrong_call(self, why: str) -> Error:
        return refuse("RS-G02:operator-call", name=self.__name__, why=why, signature=str(self.__signature__))

    # --- running --------------------------------------------------------------------------------------------

    def _run(self, x: Any, out: Any, operands: Sequence[Any], parameters: Any, signed: CallKey | None) -> Any:
        name, invocation = self._function.name, parameters
        names = [each for each, slot in zip(invocation.names, invocation.inputs, strict=True) if slot is True]
        tensors = [x, *(_beside(x, value, each) for value, each in zip(operands, names[1:], strict=True))]
        engine = engine_of(x, out, None)
        sources = [
            memory_of(_with_axes(value), engine, Subject.source(name, each))
            for value, each in zip(tensors, names, strict=True)
        ]
        shapes = tuple(_shape_of(value, memory) for value, memory in zip(tensors, sources, strict=True))
        graph = _graph_of(invocation, shapes)
        result = graph.tensors[graph.outputs[0]]
        if out is not None:
            target = self._function.destination(_with_axes(out), engine)
            wanted = MemoryDesc(result.desc_dims, result.data_type)
            check_same_dims(name, [("the result", wanted), ("out", target.desc)])
        node = _only_node(graph)
        if node is None or node.operation._spec is None or () in (result.dims, *(dims for dims, _ in shapes)):
            return self._run_network(tensors, out, engine, invocation, shapes)
        like = sources[0].desc
        if len(result.dims) != like.ndims:
            like = MemoryDesc(result.dims, result.data_type)
        target = self._function.target(out, like.as_type(result.data_type), result.dims, engine)
        lowered = lower_node(node, [memory.desc for memory in sources], [target.desc], engine)
        memories = dict(zip(lowered.reads, sources, strict=True)) | {lowered.writes[0]: target}
        if any(lowered.pd.query_md(Query.exec_arg_md, arg) != each.desc for arg, each in memories.items()):
            # The primitive requires one format: that of a flattened vector.
            return self._run_network(tensors, out, engine, invocation, shapes)
        function = replace(self._function, may_be_in_place=node.operation._spec.in_place)
        function.execute(lowered.pd._implementation(), memories, signed)
        return target

    def _run_network(
        self,
        tensors: Sequence[Any],
        out: Any,
        engine: Engine,
        invocation: _Invocation,
        shapes: tuple[Shape, ...],
    ) -> Any:
        if not engine.device.is_host:
            raise refuse("RS-G02:operator-engine", name=self.__name__, engine=engine)
        network = _network_of(invocation, shapes)
        results = network(dict(zip((each.name for each in network.inputs), tensors, strict=True)))
        if out is not None:
            reorder(_with_axes(results), out=_with_axes(out))
            return out
        several = tuple(results[name] for name in network.outputs) if invocation.outputs > 1 else (results,)
        if isinstance(tensors[0], Memory):
            arrays = map(_with_axes, several)
            several = tuple(Memory(MemoryDesc(each.shape, each.dtype), engine, each) for each in arrays)
        return several if invocation.outputs > 1 else several[0]


@cache
def operator_function(name: str) -> OperatorFunction:
    """Return the function of an operator. Raises AttributeError for an unknown name."""
    if name not in operator_names():
        what = f"module 'restride.ops' has no attribute {name!r}"
        if name in (*_OF_DIMS, *_OF_CONSTANTS):
            what += ": an array has shape and size" if name in _OF_DIMS else ": rs.onnx and rs.onednn have it"
        raise AttributeError(what, name=name, obj=sys.modules["restride.ops"])
    return OperatorFunction(name)


@cache
def operator_names() -> tuple[str, ...]:
    """Return ONNX's own operators that take a tensor: those of other domains have a dot in their names."""
    return tuple(
        sorted(
            name
            for name in ONNX
            if name not in (*_OF_DIMS, *_OF_CONSTANTS, *LISTS)
            and "." not in name
            and any(
                parameter.kind in (POSITIONAL_OR_KEYWORD, VAR_POSITIONAL) and not parameter.is_known
                for parameter in ONNX.parameters(name)
            )
        )
    )


def _signature(parameters: Sequence[OperatorParameter]) -> inspect.Signature:
    """Return the signature of a function, with `out` and `outputs` after the operator's parameters."""
    own = [
        inspect.Parameter(
            parameter.name,
            POSITIONAL_ONLY if parameter.kind is POSITIONAL_OR_KEYWORD else parameter.kind,
            default=inspect.Parameter.empty if parameter.kind is VAR_POSITIONAL else parameter.default,
        )
        for parameter in sorted(parameters, key=lambda parameter: parameter.kind)
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    shared = [inspect.Parameter(name, KEYWORD_ONLY, default=None) for name in ("out", "outputs")]
    return inspect.Signature([*own, *shared])


class _NotPlain(Exception):
    """Raised for a value that is not a number, a word or a tuple of these."""


def _exact(value: Any) -> Hashable:
    """Return a plain value as a key that distinguishes 0 from -0.0 and False. Raises _NotPlain."""
    kind = type(value)
    if kind is float:
        return str(value.hex())
    if kind is int or kind is bool or kind is str or value is None:
        return kind, value
    if kind is tuple or kind is list:
        return tuple(map(_exact, value))
    raise _NotPlain


def _is_tensor(value: object) -> bool:
    """False for a number, and for an omitted input."""
    return not (value is None or isinstance(value, int | float))


def _type_beside(inputs: Sequence[Any], are_known: Sequence[bool]) -> NumpyType:
    """Return the type of numbers next to these tensors: of the first floating-point one, else the first."""
    kinds = []
    for value, is_known in zip(inputs, are_known, strict=False):
        if _is_tensor(value) and not is_known:
            array = as_array(value, "a tensor")
            kind = array.desc.data_type.numpy if isinstance(array, Memory) else getattr(array, "dtype", None)
            kinds += [kind] if isinstance(kind, np.dtype) and kind != np.bool_ else []
    return next((kind for kind in kinds if kind in _FLOATS), kinds[0] if kinds else np.dtype(np.float32))


def _beside(x: Any, value: Any, name: str) -> Any:
    """Return an operand as an array or a memory; numbers in a list get a floating-point type of `x`."""
    array = as_array(value, name)
    is_listed = isinstance(value, list | tuple)
    kind = getattr(x, "dtype", None)
    return array.astype(kind) if is_listed and isinstance(x, np.ndarray) and kind in _FLOATS else array


def _with_axes(value: Any) -> Any:
    """Return a 0-dimensional array as one of one dim, over the same bytes, as memories store it."""
    return value.reshape(1) if isinstance(value, np.ndarray) and not value.ndim else value


def _shape_of(value: Any, memory: Memory) -> Shape:
    """Return the dims and the type of a tensor for ONNX; a memory of a scalar has one dim."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype
    return memory.desc.dims, memory.desc.data_type.numpy


def _only_node(graph: Graph) -> Node | None:
    """Return the only node of a graph if it is one primitive of its inputs, in any format, else None.

    Products do not count: a network chooses the formats that they compute in.
    """
    if len(graph.nodes) != 1 or graph.constants:
        return None
    (node,) = graph.nodes
    spec = node.operation._spec
    is_direct = spec is not None and not issubclass(spec, ProductProblem) and node.inputs == graph.inputs
    return node if is_direct and graph.outputs == node.outputs and len(node.outputs) == 1 else None
