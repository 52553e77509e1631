"""ONNX's operators as functions on arrays: `rs.ops.Gelu(x)`, `rs.ops.ReduceSum(x, (1,), keepdims=False)`.

An operator is translated as that of a model is. What becomes one primitive runs as all functions on arrays
do: on arrays and memories of any format, and a call like an earlier one goes straight to the machine code.
What becomes several nodes is a network of row-major tensors, which is kept too.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays.calls.binder import CallKey
from ..arrays.calls.carriers import NumpyType
from ..arrays.calls.function import ArrayFunction
from ..arrays.calls.operands import engine_of, memory_of
from ..arrays.calls.tensors import as_array, back_to
from ..arrays.reorders import reorder
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int
from ..dtypes import DataType
from ..errors import Error, refuse
from ..model.pointwise import check_same_dims
from ..ops.product import ProductProblem
from ..runtime.alloc import Array
from ..runtime.describe import Subject
from ..runtime.memory import Memory
from .dims import Dims
from .graph import Graph, Node
from .importers.onnx import operators as _operators  # noqa: F401 - enters them
from .importers.onnx.model import OnnxInput, OnnxModel, OnnxNode
from .importers.onnx.reader import translated
from .importers.onnx.tensors import ELEMENTS
from .importers.operator_call import NEWEST_OPSET, ONNX, OperatorParameter
from .lowering import lower_node
from .network.network import Network

KEYWORD_ONLY, POSITIONAL_ONLY = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY
POSITIONAL_OR_KEYWORD, VAR_POSITIONAL = (
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)
# So many networks are kept, each with the memory that it runs in.
_MOST_NETWORKS = 64
_MOST_OPEN = 8
# What these make is known before a run, and no tensor: an array has `shape` and `size`.
_OF_DIMS = ("Shape", "Size")
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), DataType.bf16.numpy)
_NUMBERS: dict[NumpyType | None, int] = {dtype: number for number, dtype in ELEMENTS.items()}
Shape = tuple[Dims, NumpyType | None]


class _Known(NamedTuple):
    """An array as a key: what an operator must know before it runs."""

    dtype: NumpyType
    dims: Dims
    content: bytes

    @property
    def values(self) -> Array:
        """The array."""
        return np.frombuffer(self.content, self.dtype).reshape(self.dims)


class _Invocation(NamedTuple):
    """A call without the bytes of its tensors: an operator, its inputs and attributes.

    `inputs`: True for a tensor, None for one that is left out. Floats are equal where they print alike, so
    that 0 and -0 differ.
    """

    operator: str
    inputs: tuple[_Known | bool | None, ...]
    attributes: tuple[tuple[str, object, str], ...]
    outputs: int

    def graph(self, shapes: Sequence[Shape]) -> Graph:
        """The graph of the operator alone, for tensors of these dims and types. Raises as a model's does."""
        names = [f"x{i}" if value is not None else "" for i, value in enumerate(self.inputs)]
        tensors = {
            name: value.values
            for name, value in zip(names, self.inputs, strict=True)
            if isinstance(value, _Known)
        }
        brought = [name for name, value in zip(names, self.inputs, strict=True) if value is True]
        attributes = {
            name: value.values if isinstance(value, _Known) else value for name, value, _ in self.attributes
        }
        outputs = tuple(f"y{i}" for i in range(self.outputs))
        node = OnnxNode(self.operator, f"rs.ops.{self.operator}", tuple(names), outputs, attributes)
        inputs = [
            OnnxInput(name, dims, _NUMBERS.get(dtype, 0))
            for name, (dims, dtype) in zip(brought, shapes, strict=True)
        ]
        model = OnnxModel((node,), tensors, tuple(inputs), outputs, NEWEST_OPSET)
        return translated(model, dict(zip(brought, (dims for dims, _ in shapes), strict=True)))


@lru_cache(maxsize=_MOST_NETWORKS)
def _graph_of(invocation: _Invocation, shapes: tuple[Shape, ...]) -> Graph:
    return invocation.graph(shapes)


@lru_cache(maxsize=_MOST_NETWORKS)
def _network_of(invocation: _Invocation, shapes: tuple[Shape, ...]) -> Network:
    return Network(_graph_of(invocation, shapes))


class OperatorFunction:
    """An operator of ONNX as a function: its inputs by position, its attributes by name.

    Tensors are arrays of NumPy, lists, tensors of torch, what has `__dlpack__`, or memories; numbers are
    tensors of one element, of the type of the first tensor. What the operator must know, such as axes, are
    tuples of integers. The result is of the library of the first tensor, and a `Memory` for a `Memory`.

    out      where to write the result, in any layout; it is returned
    outputs  how many results are asked for, of an operator that has several: a tuple where it is not 1

    Raises what a model with this operator raises, and InvalidArguments for inputs and attributes that it has
    not.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "restride.ops"
        self.__doc__ = f"ONNX's operator {name} on arrays.\n\n{inspect.getdoc(type(self))}"
        parameters = [each for parameter in ONNX.parameters(name) for each in parameter.parts or (parameter,)]
        self.__signature__ = _signature(parameters)
        self._attributes = {each.name for each in parameters if each.kind is KEYWORD_ONLY}
        self._inputs = [each for each in parameters if each.kind is not KEYWORD_ONLY]
        self._function = ArrayFunction(f"ops.{name}", others=tuple(each.name for each in self._inputs[1:]))
        is_open = any(each.kind is VAR_POSITIONAL for each in self._inputs)
        least = sum(each.default is inspect.Parameter.empty for each in self._inputs) - is_open
        most = _MOST_OPEN if is_open else len(self._inputs)
        # The calls of so many tensors, and nothing else.
        self._usual = {
            count: _Invocation(name, (True,) * count, (), 1)
            for count in range(max(least, 1), most + 1)
            if not any(each.is_known for each in self._inputs[:count])
        }

    def __repr__(self) -> str:
        return f"<function restride.ops.{self.__name__}{self.__signature__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return operator_function, (self.__name__,)

    def __call__(self, *inputs: Any, out: Any = None, outputs: int = 1, **attributes: Any) -> Any:
        """Run the operator. The class says what it takes."""
        invocation = self._usual.get(len(inputs)) if not attributes and outputs == 1 else None
        if invocation is None or not all(map(_is_tensor, inputs)):
            invocation = self._invocation(inputs, out, outputs, attributes)
            inputs = tuple(x for x, slot in zip(inputs, invocation.inputs, strict=True) if slot is True)
        x, *others = inputs
        results = self._function.call(self._run, invocation, invocation, x, out, others)
        return tuple(back_to(x, each) for each in results) if isinstance(results, tuple) else results

    def _invocation(
        self, inputs: Sequence[Any], out: Any, outputs: Any, attributes: Mapping[str, Any]
    ) -> _Invocation:
        """The call without the bytes of its tensors. Raises InvalidArguments for one that does not fit."""
        more = [name for name in attributes if name not in self._attributes]
        if more:
            raise self._wrong_call(f"it has no attribute {more[0]!r}")
        is_open = any(each.kind is VAR_POSITIONAL for each in self._inputs)
        if len(inputs) > len(self._inputs) and not is_open:
            raise self._wrong_call(f"it has {len(self._inputs)} inputs, not {len(inputs)}")
        count = parse_int(outputs, f"ops.{self.__name__}: outputs")
        if count < 1 or (count > 1 and out is not None):
            raise self._wrong_call(f"it cannot write {count} outputs" + " into out" * (out is not None))
        are_known = [each.is_known for each in self._inputs]
        are_known += are_known[-1:] * (len(inputs) - len(are_known))
        slots: list[_Known | bool | None] = []
        first = next(map(_dtype_of, filter(_is_tensor, inputs)), None)
        for value, is_known in zip(inputs, are_known, strict=False):
            if value is not None and (is_known or not _is_tensor(value)):
                slots.append(_known(value, None if is_known else first))
            else:
                slots.append(None if value is None else True)
        if True not in slots:
            raise self._wrong_call("none of its inputs is a tensor")
        named = tuple((name, _hashable(value), repr(value)) for name, value in sorted(attributes.items()))
        return _Invocation(self.__name__, tuple(slots), named, count)

    def _wrong_call(self, why: str) -> Error:
        return refuse("RS-G02:operator-call", name=self.__name__, why=why, signature=str(self.__signature__))

    def _run(self, x: Any, out: Any, operands: Sequence[Any], parameters: Any, signed: CallKey | None) -> Any:
        name, invocation = self._function.name, parameters
        tensors = [x, *(as_array(value, f"{name}: input {i}") for i, value in enumerate(operands, 1))]
        engine, subject = engine_of(x, out, None), Subject.source(name)
        sources = [memory_of(value, engine, subject) for value in tensors]
        shapes = tuple(_shape_of(value, memory) for value, memory in zip(tensors, sources, strict=True))
        graph = _graph_of(invocation, shapes)
        node = _only_node(graph)
        if node is None or node.operation._spec is None:
            return self._run_network(tensors, out, invocation, shapes)
        result, like = graph.tensors[node.output], sources[0].desc
        if len(result.dims) != like.ndims:
            like = MemoryDesc(result.dims, result.data_type)
        target = self._function.target(out, like.as_type(result.data_type), result.dims, engine)
        check_same_dims(
            name, [("the result", MemoryDesc(result.dims, result.data_type)), ("out", target.desc)]
        )
        lowered = lower_node(node, [memory.desc for memory in sources], [target.desc], engine)
        memories = dict(zip(lowered.reads, sources, strict=True)) | {lowered.writes[0]: target}
        function = replace(self._function, may_be_in_place=node.operation._spec.in_place)
        function.execute(lowered.pd._implementation(), memories, signed)
        return target

    def _run_network(
        self, tensors: Sequence[Any], out: Any, invocation: _Invocation, shapes: tuple[Shape, ...]
    ) -> Any:
        engine = engine_of(tensors[0], out, None)
        if not engine.device.is_host:
            raise refuse("RS-G02:operator-engine", name=self.__name__, engine=engine)
        network = _network_of(invocation, shapes)
        names = [each.name for each in network.inputs]
        is_array = out is None or not isinstance(out, Memory)
        results = network(dict(zip(names, tensors, strict=True)), out=out if is_array else None)
        if not is_array:
            return reorder(results, out=out)
        results = tuple(results[name] for name in network.outputs) if invocation.outputs > 1 else results
        if not isinstance(tensors[0], Memory):
            return results
        several = results if isinstance(results, tuple) else (results,)
        memories = tuple(Memory(MemoryDesc(each.shape, each.dtype), engine, each) for each in several)
        return memories if invocation.outputs > 1 else memories[0]


@cache
def operator_function(name: str) -> OperatorFunction:
    """The function of an operator. Raises AttributeError for a name that none has."""
    if name not in operator_names():
        raise AttributeError(f"module 'restride.ops' has no attribute {name!r}", name=name)
    return OperatorFunction(name)


@cache
def operator_names() -> tuple[str, ...]:
    """The operators that take a tensor."""
    return tuple(
        sorted(
            name
            for name in ONNX
            if name not in _OF_DIMS
            and any(
                each.kind in (POSITIONAL_OR_KEYWORD, VAR_POSITIONAL) and not each.is_known
                for each in ONNX.parameters(name)
            )
        )
    )


def _signature(parameters: Sequence[OperatorParameter]) -> inspect.Signature:
    """The signature of a function, with `out` and `outputs` behind what the operator has."""
    own = [
        inspect.Parameter(
            each.name,
            POSITIONAL_ONLY if each.kind is POSITIONAL_OR_KEYWORD else each.kind,
            default=inspect.Parameter.empty if each.kind is VAR_POSITIONAL else each.default,
        )
        for each in sorted(parameters, key=lambda each: each.kind)
        if each.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    more = [
        inspect.Parameter("out", KEYWORD_ONLY, default=None),
        inspect.Parameter("outputs", KEYWORD_ONLY, default=1),
    ]
    return inspect.Signature([*own, *more])


def _is_tensor(value: object) -> bool:
    """False for a number, and for what is left out."""
    return not (value is None or isinstance(value, int | float))


def _dtype_of(tensor: Any) -> NumpyType | None:
    """The NumPy type of floats; None for all else, beside which numbers are f32."""
    array = as_array(tensor, "tensor")
    kind = array.desc.data_type.numpy if isinstance(array, Memory) else getattr(array, "dtype", None)
    return kind if isinstance(kind, np.dtype) and kind in _FLOATS else None


def _known(value: Any, dtype: NumpyType | None) -> _Known:
    """A value that is known as a key; a number as one of `dtype`, where that is given, else as f32."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    array = np.asarray(value, (dtype or np.float32) if is_number else None)
    return _Known(array.dtype, array.shape, array.tobytes())


def _hashable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    if isinstance(value, np.ndarray):
        return _known(value, None)
    return value if isinstance(value, Hashable) else repr(value)


def _shape_of(value: Any, memory: Memory) -> Shape:
    """The dims and the type of a tensor, as ONNX has them: a memory of a number is of one dim."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype
    return memory.desc.dims, memory.desc.data_type.numpy


def _only_node(graph: Graph) -> Node | None:
    """The node of a graph that is one primitive of its inputs, in any format; None for any other graph.

    Products are no such: a network chooses the formats that they compute in.
    """
    if len(graph.nodes) != 1 or graph.constants:
        return None
    (node,) = graph.nodes
    spec = node.operation._spec
    is_direct = spec is not None and not issubclass(spec, ProductProblem) and node.inputs == graph.inputs
    return node if is_direct and graph.outputs == node.outputs and len(node.outputs) == 1 else None
