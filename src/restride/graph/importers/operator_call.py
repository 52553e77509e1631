"""Operators of a model as functions: inputs are passed by position, attributes by name.

    @ONNX("LRN")
    def _lrn(call: OperatorCall, x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75) -> Value:
        return call.add(LrnOperation("lrn_across_channels", size, alpha, beta, 1.0), x)

The signature lists the inputs and attributes of the operator, and its annotations say what the function
accepts:

| annotation | meaning |
| --- | --- |
| `Tensor` | a tensor of the graph to compute with: integers are refused, as f32 rounds them |
| `Parameter` | such a tensor as f32, even if others have 16 bits |
| `Operand` | such a tensor, or its values if they are known |
| `Chosen` | the same, for results that are unchanged elements, so that integers of 8 bits are exact |
| `Moved`, `Value` | a tensor of any type: of the graph, or its values if they are known |
| `Annotated[Value, "indices"]` | the same, for indices: numbers in a call become integers |
| `Array`, `Ints`, `float`, ... | must be known: `Annotated[Ints, "the padding"]` describes an input |
| `Annotated[int, Usual("it trains")]` | an attribute of which only the default is supported, and why |
| a dataclass | a group of attributes, which are its fields |

An omitted input is taken from the attribute of its name, as in older versions. Attributes that the function
does not have are refused, so that nothing relevant is ignored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from math import prod
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from ...desc.parse import short_repr
from ...dtypes import DataType
from ...errors import Error, Unimplemented, refuse
from ...model.result_dims import Misfit
from ...ops.elementwise import FUNCTIONS
from ...runtime.alloc import Array
from ...runtime.engine import Engine
from ..build import GraphBuilder
from ..known import results_of_arrays
from ..nodes.moves import ReorderOperation, ReshapeOperation, TransposeOperation
from ..nodes.operations import (
    AS_F32,
    BinaryOperation,
    EltwiseOperation,
    Operation,
    PrimitiveOperation,
    function_of,
)
from .onnx.model import OnnxNode

Value: TypeAlias = Array | str
"""A tensor whose values are known, or the name of one in the graph."""


@dataclass(frozen=True, slots=True)
class ValueList:
    """A list of tensors: its contents are known during translation; the list is not in the graph."""

    items: tuple[Value, ...]


Tensor = Annotated[str, "computed"]
Parameter = Annotated[str, "parameter"]
Operand = Annotated[Value, "computed"]
Chosen = Annotated[Value, "chosen"]
Moved = Annotated[str, "moved"]
Ints = tuple[int, ...]
Floats = tuple[float, ...]
Words = tuple[str, ...]


class Usual(NamedTuple):
    """Why an attribute must have its default; `{name}` and `{value!r}` are replaced by the attribute's."""

    why: str = "its {name} is {value!r}"
    hint: str = ""


class KnownInRun(Unimplemented):
    """The structure of the graph depends on values that are known only in a run."""


TRAINS = Usual("it trains", "save the model for inference")
V = TypeVar("V", bound=Value)
Made = Value | tuple[Value, ...]
Function = Callable[..., Made]
"""Translation of a node of one operator: the first argument is the call."""

_MOST_KNOWN = 4096
"""Results with at most this many elements are computed when a model is read, if all inputs are known."""
_LARGEST_CONSTANT = 1 << 28
"""Larger constants take seconds and gigabytes to compute, and networks have them only as weights."""
NEWEST_OPSET = 18
"""The version of operators that are called without a model."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A node, its input values (None for omitted ones), and the graph to which operations are added.

    `origins`: the inputs of the model that these values depend on, if they are known only in a run.
    """

    node: OnnxNode
    values: Sequence[Value | None]
    builder: GraphBuilder
    opset: int
    origins: frozenset[str] = frozenset()

    # --- properties of values -------------------------------------------------------------------------------

    @property
    def count_of_outputs(self) -> int:
        """Number of outputs requested from the node."""
        return sum(map(bool, self.node.outputs))

    def dims(self, value: Value) -> tuple[int, ...]:
        """Return the dims of a value."""
        return self.builder.type(value).dims if isinstance(value, str) else value.shape

    def type_of(self, value: Value) -> DataType:
        """Return the type of a value; undef for types that graphs do not have, such as complex numbers."""
        if isinstance(value, str):
            return self.builder.type(value).data_type
        twins = (each for each in DataType if each.numpy is not None and each.numpy == value.dtype)
        return next(twins, DataType.undef)

    def numpy_type(self, value: Value) -> np.dtype[Any]:
        """Return NumPy's type of a value."""
        twin = self.type_of(value).numpy if isinstance(value, str) else value.dtype
        assert twin is not None
        return twin

    # --- adding operations ----------------------------------------------------------------------------------

    def add(self, operation: Operation, *inputs: Value | None) -> str:
        """Add a node to the graph, omitting None inputs. It takes the first output's name if that is free."""
        return self._added(operation, inputs)[0]

    def primitive(self, name: str, *inputs: Value | None, **parameters: Any) -> Made:
        """Add a primitive of `onednn` and return its result, or all of several. `parameters`: numbers, texts,
        data types, and tuples of these, by the names in its specification.
        """
        operation = PrimitiveOperation(name, tuple(parameters.items()))
        results = _known_results(operation, inputs) or self._added(operation, inputs)
        return results if len(results) > 1 else results[0]

    def elements(self, algorithm: str, *xs: Value, **parameters: Any) -> Value:
        """Add an `onednn.Elementwise` of tensors of any ranks; a binary one takes more from the left."""
        first, *others = xs
        if not others and FUNCTIONS[algorithm].sources == 2:
            return first
        while len(others) > 1 and FUNCTIONS[algorithm].sources == 2:
            first, *others = self.elements(algorithm, first, others[0], **parameters), *others[1:]
        rank = max(len(self.dims(x)) for x in (first, *others))
        ranked = [
            self.reshaped(x, (*(1,) * (rank - len(self.dims(x))), *self.dims(x))) for x in (first, *others)
        ]
        made = self.primitive("Elementwise", *ranked, algorithm=f"elementwise_{algorithm}", **parameters)
        assert not isinstance(made, tuple)
        return made

    def _added(self, operation: Operation, inputs: Sequence[Value | None]) -> tuple[str, ...]:
        name = self.node.outputs[0] if self.node.outputs else ""
        read = [self.placed(each) for each in inputs if each is not None]
        name = name if self.builder.is_free(name) else ""
        return self.builder.add_all(operation, *read, name=name)

    def placed(self, value: Value) -> str:
        """Return a value as a tensor of the graph, with its type unchanged."""
        return value if isinstance(value, str) else self.builder.constant(value)

    def parameter(self, value: Value) -> str:
        """Return a parameter of a normalization as an f32 tensor of the graph, even if others are 16-bit."""
        kind = self.type_of(value)
        if kind is DataType.f64:
            raise self.unimplemented("it normalizes f64", "cast to f32 first")
        if kind not in AS_F32[1:]:
            return self.placed(value)
        if isinstance(value, str):
            return self.builder.add(ReorderOperation(DataType.f32), value)
        return self.placed(value.astype(np.float32))

    def reshaped(self, value: V, dims: Sequence[int]) -> V:
        """Reshape a value; returns it unchanged if it has these dims."""
        if isinstance(value, np.ndarray):
            return value.reshape(dims)  # type: ignore[return-value]
        if self.builder.type(value).dims == tuple(dims):
            return value
        return self.builder.add(ReshapeOperation(tuple(dims)), value)  # type: ignore[return-value]

    def transposed(self, value: V, order: Sequence[int]) -> V:
        """Permute the dims of a value; returns it unchanged if the order stays."""
        if isinstance(value, np.ndarray):
            return value.transpose(order)
        if tuple(order) == tuple(range(len(self.builder.type(value).dims))):
            return value
        return self.builder.add(TransposeOperation(tuple(order)), value)  # type: ignore[return-value]

    def matrices_transposed(self, value: V) -> V:
        """Transpose the last two dims of a value."""
        rank = len(self.dims(value))
        return self.transposed(value, [*range(rank - 2), rank - 1, rank - 2])

    def of_rank(self, value: Value, rank: int) -> str:
        """Prepend dims of 1 to a tensor, up to a rank."""
        dims = self.dims(value)
        return self.placed(self.reshaped(value, (*(1,) * (rank - len(dims)), *dims)))

    def function(self, x: Value, algorithm: str, alpha: float = 0.0, beta: float = 0.0) -> str:
        """Add a function of a value. Raises Unimplemented for f64 with parameters that f32 rounds."""
        if self.type_of(x) is DataType.f64:
            for number in (alpha, beta):
                if float(np.float32(number)) != number:
                    raise self.unimplemented(
                        f"its parameter {number} is not exact in f32, the type of function parameters",
                        "cast to f32 first",
                    )
        return self.add(EltwiseOperation(f"eltwise_{algorithm}", alpha, beta), x)

    def binary(self, algorithm: str, left: Value, right: Value) -> str:
        """Add a binary operation on tensors of any ranks; with a known number, a function of the other."""
        ranks = [len(self.dims(each)) for each in (left, right)]
        operation = BinaryOperation(f"binary_{algorithm}")
        for number, other, is_left in ((right, left, True), (left, right, False)):
            if isinstance(number, str) or number.size != 1 or number.ndim > len(self.dims(other)):
                continue
            function = function_of(operation.algorithm, float(number.reshape(())), is_left)
            if function is not None and self.type_of(other) in AS_F32:
                return self.add(function, other)
        return self.add(operation, *(self.of_rank(each, max(ranks)) for each in (left, right)))

    def onnx(self, operator: str, *values: object, **attributes: object) -> Value:
        """Apply an ONNX operator: tuples of integers are its dims and axes, numbers are f32."""
        if operator not in ONNX:
            raise self.unimplemented(f"it requires {operator}, which is unsupported")
        node = replace(self.node, operator=operator, attributes=attributes)
        read = tuple(map(_as_value, values, range(len(values))))
        return ONNX.translate(replace(self, node=node, values=read, opset=NEWEST_OPSET))  # type: ignore[return-value]

    def with_outputs(self, count: int) -> OperatorCall:
        """Return the call with only its first outputs; with 0, the builder names the nodes."""
        return replace(self, node=replace(self.node, outputs=self.node.outputs[:count]))

    # --- refusals -------------------------------------------------------------------------------------------

    def known_later(self, why: str) -> Error:
        """Return the error of a value that must be known before a run, but depends on inputs."""
        names = sorted(self.origins)
        values = ", ".join(f'"{name}": ...' for name in names)
        return refuse(
            "RS-G02:node-say-inputs",
            error=KnownInRun,
            node=self.node,
            where=f"it follows from {', '.join(map(repr, names))}" if names else "",
            why=why,
            values=values,
        )

    def known_in_run(self, what: str, how: str = "known") -> Error:
        """Return the error of a value that must be constant; `how`: what happens to it only in a run."""
        why, hint = f"{what} is {how} only in a run", "make it a constant of the model"
        return refuse("RS-G02:node", error=KnownInRun, node=self.node, why=why, hint=hint)

    def unimplemented(self, why: str, hint: str = "") -> Error:
        """Return the error of an unsupported form of the operator."""
        hint = hint or "try another form of the operator; restride explain lists the supported operators"
        return refuse("RS-G02:node", node=self.node, why=why, hint=hint)

    def check_size(self, dims: Sequence[int]) -> None:
        """Raise Unimplemented for a constant that is much larger than everything it is computed from."""
        known = sum(value.size for value in self.values if isinstance(value, np.ndarray))
        if prod(dims) > max(_LARGEST_CONSTANT, known):
            raise self.unimplemented(f"it makes a constant of {prod(dims)} elements", "make it an input")

    def check_types(self, *operands: Value | None, is_exact: bool = False) -> None:
        """Raise Unimplemented for integers that f32 rounds, and for other types mixed with floats."""
        kinds = tuple(dict.fromkeys(self.type_of(each) for each in operands if each is not None))
        floats = [kind for kind in kinds if kind.kind == "float"]
        has_doubles = DataType.f64 in kinds and len(floats) > 1
        if has_doubles or (floats and any(kind.is_integral for kind in kinds)):
            raise self.unimplemented(f"it mixes {' and '.join(map(str, kinds))}", "cast all to one type")
        for kind in self.rounded_integers(operands, is_exact=is_exact):
            raise self.unimplemented(
                f"it computes with {kind}, which restride rounds and saturates, whereas ONNX wraps around",
                "compute with floats there",
            )

    def rounded_integers(
        self, operands: Sequence[Value | None], *, is_exact: bool = False
    ) -> tuple[DataType, ...]:
        """Return the integer types among operands that f32 rounds; `is_exact`: those of 8 bits are exact."""
        small = (DataType.s8, DataType.u8) if is_exact else ()
        return tuple(
            kind for kind in self._computed_types(operands) if kind.is_integral and kind not in small
        )

    def _computed_types(self, operands: Sequence[Value | None]) -> tuple[DataType, ...]:
        computed = (each for each in operands if each is not None and not _may_be_shape(each))
        return tuple(dict.fromkeys(self.type_of(each) for each in computed))


def _may_be_shape(value: Value) -> bool:
    """True for known integers of 64 bits: extents and the like, which are computed before any run."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.dtype.itemsize == 8


def _known_results(operation: PrimitiveOperation, inputs: Sequence[Value | None]) -> tuple[Array, ...] | None:
    """Evaluate an operation on few numbers that are all known, such as shapes, with the interpreter."""
    arrays = [x for x in inputs if isinstance(x, np.ndarray)]
    if len(arrays) != len([x for x in inputs if x is not None]) or not arrays:
        return None
    return results_of_arrays(operation, arrays, Engine("reference"), _MOST_KNOWN)


# --- signatures ---------------------------------------------------------------------------------------------

_COMPUTED = ("computed", "parameter", "chosen")
_NO_DEFAULT = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class OperatorParameter:
    """A parameter of a function: an input if it is passed by position, else an attribute, or its `parts`."""

    name: str
    kind: Any
    hint: Any
    mark: Any
    default: Any
    parts: tuple[OperatorParameter, ...] = ()

    @staticmethod
    def of(name: str, kind: Any, hint: Any, default: Any) -> OperatorParameter:
        """Return a parameter from its annotation."""
        options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if NoneType in options and default is _NO_DEFAULT:
            default = None  # optional, but followed by required ones
        kinds = tuple(each for each in options if each is not NoneType)
        hint, mark = kinds[0] if len(kinds) == 1 else Value, None
        if get_origin(hint) is Annotated:
            hint, mark = get_args(hint)
        parts: tuple[OperatorParameter, ...] = ()
        if is_dataclass(hint):
            hints = get_type_hints(hint, include_extras=True)
            parts = tuple(
                OperatorParameter.of(
                    each.name,
                    kind,
                    hints[each.name],
                    _NO_DEFAULT if each.default is MISSING else each.default,
                )
                for each in fields(hint)
            )
        return OperatorParameter(name, kind, hint, mark, default, parts)

    @property
    def is_known(self) -> bool:
        """True for values that are never computed in a run."""
        return self.mark not in (*_COMPUTED, "moved") and self.hint not in (Any, Value)

    def is_in(self, attributes: Mapping[str, Any]) -> bool:
        """True for an omitted input that attributes supply: a known value, or a number."""
        value = attributes.get(self.name)
        return self.name in attributes and (
            self.is_known or (self.hint == Value and isinstance(value, int | float))
        )

    def of_input(self, call: OperatorCall, value: Any) -> Any:
        """Convert an input for the function."""
        if self.hint is Any and (value is not None or self.default is _NO_DEFAULT):
            return value
        if value is None:
            return self.default
        if not self.is_known:
            value = _as_value(value, 0)
            if self.mark == "parameter":
                return call.parameter(value)
            return call.placed(value) if self.hint is str else value
        if isinstance(value, str):
            if self.mark or not call.origins:  # known values for integer inputs would not make it known
                what = self.mark or f"its {self.name}"
                raise call.known_in_run(what)
            raise call.known_later(_FOR_SHAPES)
        return _converted(self.hint, value)

    def of_attributes(self, call: OperatorCall, attributes: Mapping[str, Any]) -> Any:
        """Convert attributes of a node for the function."""
        if self.parts:
            return self.hint(**{each.name: each.of_attributes(call, attributes) for each in self.parts})
        value = attributes.get(self.name)
        if value is None and self.default is _NO_DEFAULT:
            raise Misfit(f"its {self.name} is missing")
        if value is None or not self.is_known:
            return self.of_input(call, value)
        value = _converted(self.hint, value)
        if isinstance(self.mark, Usual) and value != self.default:
            raise call.unimplemented(self.mark.why.format(name=self.name, value=value), self.mark.hint)
        return value


@cache
def parameters_of(function: Function) -> tuple[OperatorParameter, ...]:
    """Return the parameters after the call; without annotation they accept anything or the default's type."""
    hints = get_type_hints(function, include_extras=True)
    return tuple(
        OperatorParameter.of(
            each.name,
            each.kind,
            hints.get(each.name, type(each.default) if isinstance(each.default, bool | float | str) else Any),
            each.default,
        )
        for each in list(inspect.signature(function).parameters.values())[1:]
    )


def _converted(hint: Any, value: Any) -> Any:
    """Convert a known value, or a text, to the declared type of a parameter. Raises Misfit, TypeError."""
    if hint == Array:
        return np.asarray(value)
    if get_origin(hint) is tuple:
        parts = value.reshape(-1) if isinstance(value, np.ndarray) else value
        if isinstance(value, str):
            parts = [part.strip() for part in value.split(",") if part.strip()]
        kind, is_text = get_args(hint)[0], isinstance(value, str)
        parts = parts if isinstance(parts, Iterable) else (parts,)
        return tuple(_number(kind, part, is_text=is_text) for part in parts)
    if hint is bool and isinstance(value, str):
        word = value.strip().lower()
        if word not in _TRUTH:
            raise Misfit(f"{short_repr(value)} is neither true nor false")
        return _TRUTH[word]
    if hint is bool:
        numbers = np.asarray(value).reshape(-1)
        if not all(number in (0, 1) for number in numbers[:2].tolist()):
            raise Misfit(f"{short_repr(value)} is neither 0 nor 1")
        return bool(numbers.any())
    return _number(hint, value, is_text=isinstance(value, str)) if hint in (int, float) else hint(value)


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _number(kind: Any, value: Any, *, is_text: bool) -> Any:
    """Convert one number, or a word, of a model; an integer can be given as an equal float. Raises Misfit."""
    if is_text or kind not in (int, float):
        try:
            return kind(value)
        except (ValueError, TypeError):
            raise Misfit(
                f"{short_repr(value)} is not {'an integer' if kind is int else 'a number'}"
            ) from None
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iufbV":
        raise Misfit(f"{short_repr(value)} is not a number")
    number = array.reshape(()).item()
    if kind is int and not float(number).is_integer():
        raise Misfit(f"{number} is not an integer")
    return kind(number)


def _as_value(value: Any, at: int) -> Value | None:
    """Return a number as a scalar f32 tensor, and integers as those of dims and axes."""
    if isinstance(value, tuple | list):
        return np.array(value, np.int64)
    if isinstance(value, int | float):
        return np.array(value, np.float32)
    if value is None or isinstance(value, str | np.ndarray):
        return value
    raise Misfit(f"argument {at} is missing, or not a tensor")


def _is_exact(function: Function) -> bool:
    """True if a result has unchanged elements of the operands, which can then be integers of 8 bits."""
    return all(each.mark == "chosen" for each in parameters_of(function) if each.mark in _COMPUTED)


def _is_neutral(value: Any) -> bool:
    return isinstance(value, int | float | str | bytes | tuple | list) and not value


# --- tables -------------------------------------------------------------------------------------------------

_FOR_SHAPES = "its inputs are known only in a run; restride supports it only for shapes"


class OperatorTable:
    """Operators by name: a function for each, or several, each from some version on.

    `ignored`: attributes without effect on results; None if no attribute is refused. `on_arrays`: functions
    for operators whose inputs are all known. `of_integers`: functions for integers that the regular ones
    would round. `floats`: the type of attributes, to which defaults are rounded.
    """

    def __init__(
        self, ignored: Sequence[str] | None, prefix: str = "", floats: Callable[[float], Any] = float
    ) -> None:
        self._functions: dict[str, dict[int, Function]] = {}
        self._ignored, self._prefix, self._floats = ignored, prefix, floats
        self.on_arrays: dict[str, Callable[..., Array]] = {}
        self.of_integers: dict[str, Function] = {}

    def __call__(self, *names: str, since: int = 1) -> Callable[[Function], Function]:
        """Return a decorator that registers a function for operators of these names."""

        def enter(function: Function) -> Function:
            for name in names:
                full_name = name if "." in name else f"{self._prefix}{name}"
                self._functions.setdefault(full_name, {})[since] = function
            return function

        return enter

    def __iter__(self) -> Iterator[str]:
        return iter({**self._functions, **self.on_arrays})

    def parameters(self, name: str) -> tuple[OperatorParameter, ...]:
        """Return the inputs and attributes of an operator's newest version; none if all must be known."""
        versions = self._functions.get(name)
        return parameters_of(versions[max(versions)]) if versions else ()

    def translate(self, call: OperatorCall) -> Made:
        """Translate a node: to values if all its inputs are known, otherwise to tensors of the graph.

        Raises Unimplemented for an operator that would compute with integers in f32, and saturate, where ONNX
        is exact modulo 2**n.
        """
        name = call.node.operator
        if name in self.on_arrays and not any(isinstance(each, str | ValueList) for each in call.values):
            missing = [at for at, value in enumerate(call.values) if value is None]
            if missing:
                raise Misfit(f"input {missing[0]} is missing")
            shapes = [value.shape for value in call.values if isinstance(value, np.ndarray)]
            call.check_size(np.broadcast_shapes(*shapes))
            return self.on_arrays[name](*call.values)
        if name not in self._functions:
            raise call.known_later(_FOR_SHAPES)
        made = self.run(call, call.values, call.node.attributes)
        for value in made if isinstance(made, tuple) else (made,):
            if isinstance(value, np.ndarray):
                call.check_size(value.shape)
        return made

    def run(
        self,
        call: OperatorCall,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any],
        names: Sequence[str] = (),
        marked: Iterable[str] | None = None,
    ) -> Made:
        """Call the function of an operator on inputs and attributes.

        `names`: those of the inputs, if attributes have them too. `marked`: the attributes that must be read;
        by default all.
        """
        versions = self._functions[call.node.operator]
        function = versions[max(since for since in versions if since <= max(call.opset, 1))]
        exact = self.of_integers.get(call.node.operator)
        if exact is not None and call.rounded_integers(inputs, is_exact=_is_exact(function)):
            function = exact
        parameters = parameters_of(function)
        by_name = [each for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
        named = {each.name: each.of_attributes(call, attributes) for each in by_name}
        defaults = named.keys() - attributes.keys()
        named |= {name: float(self._floats(x)) for name in defaults if type(x := named[name]) is float}
        pairs: list[tuple[OperatorParameter, Any]] = []
        for each in parameters:
            if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
                pairs.append((each, next(iter(inputs[len(pairs) : len(pairs) + 1]), None)))
            elif each.kind is inspect.Parameter.VAR_POSITIONAL:
                pairs += [(each, value) for value in inputs[len(pairs) :]]
        operands = [value for each, value in pairs if each.mark in _COMPUTED]
        call.check_types(*operands, is_exact=_is_exact(function))
        args = []
        for at, (each, value) in enumerate(pairs):
            if value is None and each.is_in(attributes):
                args.append(each.of_attributes(call, attributes))
            elif value is None and each.default is _NO_DEFAULT and each.hint is not Any:
                raise Misfit(f"input {at} is missing")
            else:
                args.append(each.of_input(call, value))
        if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
            return function(call, *args, **attributes)
        if self._ignored is not None:
            read = {each.name for parameter in parameters for each in (parameter, *parameter.parts)}
            # Values of 0 or empty have no effect: models carry attributes of other versions this way.
            there = {name for name, value in attributes.items() if not _is_neutral(value)}
            left = (there if marked is None else {*marked}) - read - {*names[: len(pairs)], *self._ignored}
            if left:
                told = ", ".join(f"{name}={short_repr(attributes[name])}" for name in sorted(left))
                raise call.unimplemented(f"it has {told}")
        return function(call, *args, **named)


ONNX = OperatorTable(("consumed_inputs", "is_test", "momentum", "output_sequence"), floats=np.float32)
ATEN = OperatorTable(
    (*("device", "dtype", "implicit", "layout", "memory_format", "momentum", "non_blocking"), "pin_memory"),
    "aten.",
)
OPENVINO = OperatorTable(None)
