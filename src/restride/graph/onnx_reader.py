"""From an ONNX model to a graph, for inputs of certain dims: what is known is computed, the rest translated.

A tensor is known where it is in the file, and where it follows from known ones or from dims alone: what
computes shapes leaves nothing in the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..desc.parse import parse_ints, short_repr
from ..dtypes import DataType
from ..errors import Error, InvalidArguments, OutOfMemory, Unimplemented
from .build import GraphBuilder
from .graph import Graph
from .network import NetworkInput
from .onnx_context import OnnxContext, Value
from .onnx_known import ELEMENTS, KNOWN
from .onnx_model import OnnxInput, OnnxModel, listed
from .onnx_operators import OPERATORS, TRANSLATORS, Made, Translator
from .operations import Dims

_WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError)
_MOST_SHOWN = 32


def check_operators(model: OnnxModel) -> None:
    """Raise Unimplemented for operators that there are not: all at once, with the names of their nodes."""
    missing: dict[str, list[str]] = {}
    for node in model.nodes:
        if node.operator not in OPERATORS:
            missing.setdefault(node.operator, []).append(node.name)
    if not missing:
        return
    texts = [
        f"{operator}: {listed(names[:_MOST_SHOWN])}{', ...' if len(names) > _MOST_SHOWN else ''}"
        for operator, names in missing.items()
    ]
    raise Unimplemented(
        "the ONNX model has operators that restride has not",
        code="RS-G02",
        where="; ".join(texts),
        why=f"{len(missing)} operators are missing; nothing was run",
        hint="simplify the model, or save it with operators that are there",
    )


def check_order(model: OnnxModel) -> None:
    """Raise InvalidArguments, which names the node, for what is read before it is made, and made twice."""
    made = {"", *model.tensors, *(each.name for each in model.inputs)}
    for node in model.nodes:
        missing = [name for name in node.inputs if name not in made]
        if missing:
            raise InvalidArguments(
                f"node {node} reads a tensor that nothing has made",
                code="RS-G01",
                where=listed(missing),
                why="nodes stand in the order in which they run; a cycle has none",
                hint="save the model again",
            )
        twice = [name for name in node.outputs if name and name in made]
        if twice:
            raise InvalidArguments(
                f"node {node} makes a tensor that there is already",
                code="RS-G01",
                where=listed(twice),
                why="every tensor has one origin",
                hint="save the model again",
            )
        made.update(node.outputs)
    unmade = [name for name in model.outputs if name not in made]
    if unmade or not model.outputs:
        raise InvalidArguments(
            "no node makes an output of the model",
            code="RS-G01",
            where=listed(unmade),
            why="an output is an input, or what a node makes",
            hint="save the model again",
        )


def made_of_onnx(context: OnnxContext) -> Made:
    """What a node becomes: values where all that it reads is known, else a tensor of the graph."""
    node, known = context.node, [each for each in context.values if not isinstance(each, str)]
    if len(known) == len(context.values) and node.operator in KNOWN:
        return KNOWN[node.operator](node, known)
    translator = TRANSLATORS.get(node.operator)
    if translator is None:
        raise context.unimplemented("it reads what is known only in a run; restride has it for shapes alone")
    return translator(context)


def translated(model: OnnxModel, dims: Mapping[str, Dims], translate: Translator = made_of_onnx) -> Graph:
    """The graph of the model for inputs of these dims, by name; `translate` says what each node becomes.

    Raises InvalidArguments, which names the node, for what does not fit; Unimplemented for what is not there.
    """
    builder = GraphBuilder()
    values: dict[str, Value] = dict(model.tensors)
    for each in model.inputs:
        values[each.name] = builder.input(each.name, dims[each.name], data_type_of(each.name, each.element))
    for node in model.nodes:
        read = [values[name] if name else None for name in node.inputs]
        found = _translated(OnnxContext(node, read, builder, model.opset), translate)
        values.update(zip((name for name in node.outputs if name), found, strict=False))
    outputs = [_output(builder, values, name) for name in model.outputs]
    return builder.graph(*outputs)


def data_type_of(name: str, element: int) -> DataType:
    """The type of an input, by its number in ONNX. Raises Unimplemented, which names the input."""
    twin = ELEMENTS.get(element)
    try:
        return DataType.bf16 if element == 16 else DataType.parse(twin)
    except Error:
        raise Unimplemented(
            f"input {name!r} is of a type that restride has not",
            code="RS-G02",
            why=f"it is {twin or f'element type {element}'}",
            hint="cast it before, and save the model with an input of f32",
        ) from None


def _output(builder: GraphBuilder, values: Mapping[str, Value], name: str) -> str:
    value = values.get(name)
    if isinstance(value, str):
        return value
    if value is None:
        raise InvalidArguments(
            f"output {name!r} is one that its node does not give",
            code="RS-G01",
            why="restride computes the first outputs of operators",
            hint="leave the output out of the model",
        )
    return builder.constant(value, name if builder.is_free(name) else "")


def _translated(context: OnnxContext, translate: Translator) -> tuple[Value, ...]:
    node = context.node
    try:
        made = translate(context)
    except MemoryError:
        raise OutOfMemory(
            f"node {node} makes more than the memory holds",
            code="RS-D01",
            why="its result is known before a run, and too large",
            hint="check the dims of the inputs",
        ) from None
    except InvalidArguments as error:
        raise error.retold(f"node {node}: {error.what}") from None
    except Error:
        raise
    except _WRONG as error:
        raise InvalidArguments(
            f"node {node} cannot be translated",
            code="RS-G01",
            where=listed(node.inputs),
            why=f"{type(error).__name__}: {str(error)[:200]}",
            hint="inputs and attributes must be those of the operator",
        ) from None
    return made if isinstance(made, tuple) else (made,)


def network_inputs(model: OnnxModel, dims: Mapping[str, Sequence[int]]) -> list[NetworkInput]:
    """The inputs of a model, some with other dims than it says."""
    unknown = [name for name in dims if name not in {each.name for each in model.inputs}]
    if unknown:
        raise InvalidArguments(
            f"dims of {short_repr(unknown[0])}",
            code="RS-G03",
            why="the model has no such input",
            hint=f"its inputs are {', '.join(each.name for each in model.inputs)}",
        )
    return [_input(each, dims.get(each.name)) for each in model.inputs]


def _input(each: OnnxInput, wanted: Sequence[int] | None) -> NetworkInput:
    kind = data_type_of(each.name, each.element)
    if wanted is not None:
        return NetworkInput(each.name, tuple(parse_ints(wanted, f"dims of {each.name}")), kind)
    dims = each.dims
    open_dims = None if dims is None else tuple(n if isinstance(n, int) else None for n in dims)
    return NetworkInput(each.name, open_dims, kind)
