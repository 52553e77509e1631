"""Lowering of a node with the formats of its tensors to a primitive and its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import onednn
from ..desc.arguments import ARG_DST, ARG_MULTIPLE_SRC, ARG_SRC, ARG_SRC_1, NUMBERS, arg_attr_multiple_post_op
from ..desc.attr import PrimitiveAttr
from ..desc.memory_desc import MemoryDesc
from ..desc.post_ops import PostOps
from ..errors import Error
from ..model.base import PrimitiveDescBase
from ..model.derived import DerivedPrimitiveDesc
from ..model.operation import OperationProblem
from ..model.primitive import Primitive
from ..model.prop_kind import PropKind
from ..ops.reorder import Reorder
from ..ops.rnn import FORWARD_OF_CELL
from ..runtime.engine import Engine
from .graph import Epilogue, Node
from .nodes.moves import ReorderOperation
from .nodes.operations import BinaryOperation, Operation
from .nodes.products import QuantizedMatmulOperation
from .nodes.recurrent import RecurrentOperation

Descs = Sequence[MemoryDesc]


@dataclass(frozen=True)
class LoweredNode:
    """A primitive descriptor, the class of its primitive, and the argument of each tensor in order.

    `reads`: the arguments of the node's inputs, operands of epilogues last; `writes`: those of its outputs.
    """

    kind: type[Primitive]
    pd: PrimitiveDescBase
    reads: tuple[int, ...]
    writes: tuple[int, ...] = (ARG_DST,)


def lower_node(node: Node, inputs: Descs, outputs: Descs, engine: Engine) -> LoweredNode:
    """Return the primitive of a node that reads and writes these formats. Errors name the node."""
    sources, operands = inputs[: len(node.sources)], inputs[len(node.sources) :]
    try:
        attr, operand_args = _attributes(node.epilogues, operands)
        if isinstance(node.operation, QuantizedMatmulOperation):
            operand_args = (*node.operation.factors, *operand_args)
            count, attr = len(node.operation.factors), attr or PrimitiveAttr()
            node.operation.set_factors(attr, sources[1], sources[-count:])
            sources = sources[:-count]
        if isinstance(node.operation, ReorderOperation):
            lowered_node = lower_reorder(sources[0], outputs[0], engine, attr)
        else:
            lowered_node = _lowered(node.operation, sources, outputs, engine, attr)
    except Error as error:
        raise error.with_context(f"node {node.name!r} ({node.kind}): {error.what}") from None
    return replace(lowered_node, reads=(*lowered_node.reads, *operand_args))


def lower_reorder(
    src: MemoryDesc, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None = None
) -> LoweredNode:
    """Return the reorder between two formats."""
    return LoweredNode(Reorder, Reorder.PrimitiveDesc(engine, src, engine, dst, attr), (ARG_SRC,))


def _attributes(
    epilogues: Sequence[Epilogue], operands: Descs
) -> tuple[PrimitiveAttr | None, tuple[int, ...]]:
    if not epilogues:
        return None, ()
    chain, rest, args = PostOps(), iter(operands), []
    for at, epilogue in enumerate(epilogues):
        operation = epilogue.operation
        if isinstance(operation, BinaryOperation):
            chain.append_binary(operation.algorithm, next(rest))
            args.append(arg_attr_multiple_post_op(at) | ARG_SRC_1)
        else:
            chain.append_eltwise(operation.algorithm, operation.alpha, operation.beta)
    attr = PrimitiveAttr()
    attr.set_post_ops(chain)
    return attr, tuple(args)


def _lowered(
    operation: Operation, sources: Descs, results: Descs, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    """Return the primitive of an operation, whose descriptor gets its arguments by name.

    Tensors have the names of `node_reads` and `node_writes`; the rest is `node_values`, or a parameter.
    """
    assert operation._spec is not None
    primitive: type[Primitive] = (
        FORWARD_OF_CELL[operation.cell]
        if isinstance(operation, RecurrentOperation)
        else getattr(onednn, operation._spec.primitive)
    )
    desc = primitive.PrimitiveDesc
    assert issubclass(desc, DerivedPrimitiveDesc)
    spec = desc._operation
    reads = [name.removesuffix("?") for name in spec.node_reads]
    writes = spec.node_writes[: len(results)]
    kinds = spec.prop_kinds
    kind = PropKind.forward_inference if PropKind.forward_inference in kinds else kinds[0]
    values: dict[str, object] = {
        "prop_kind": getattr(operation, "prop_kind", kind),
        **dict.fromkeys(reads),
    }
    if reads == ["srcs"]:
        values["srcs"], args = list(sources), [ARG_MULTIPLE_SRC + i for i in range(len(sources))]
    else:
        values |= zip(reads, sources, strict=False)
        args = [_argument(spec, name) for name in reads[: len(sources)]]
    values |= zip(writes, results, strict=True)
    values |= {name: value(operation, results[0]) for name, value in spec.node_values.items()}
    form = spec.other_form((), dict.fromkeys(reads[: len(sources)])) or desc.form
    arguments = {
        name: values[name] if name in values else getattr(operation, name)
        for name in form.shown.parameters
        if name in values or hasattr(operation, name)
    }
    pd = desc(**{**arguments, "engine": engine, "attr": attr})
    return LoweredNode(primitive, pd, tuple(args), tuple(_argument(spec, name) for name in writes))


def _argument(spec: type[OperationProblem], name: str) -> int:
    """Return the number of an argument by its name in a descriptor, such as `src_layer_desc` or `src1`."""
    own = {field: arg for arg, field in {**spec.reads, **spec.also_writes}.items()}
    own[spec.node_writes[0]] = spec.writes
    if name in own:
        return own[name]
    word = name.removesuffix("_desc").removesuffix("_md")
    return NUMBERS.get(word) or NUMBERS[f"{word[:-1]}_{word[-1]}"]
