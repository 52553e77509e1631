"""Modules of torch as models: exported by torch.export for given dims, then read like ONNX files."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ....errors import Error, refuse
from ....foreign import text_of
from ....runtime.alloc import Array
from ...batch_form import LARGEST
from ...dims import Dims
from ...graph import Graph
from ..onnx.model import OnnxModel
from ..onnx.reader import missing_error, translated
from .call import translate_aten
from .layers import RESIZES
from .operators import TORCH_OPERATORS
from .reader import GraphReader, array_of, by_operator, names_by_part

__all__ = [
    "ExportedModule",
    "decompositions",
    "exported",
    "follows_batch",
    "largest_batch",
    "open_shapes",
    "undivided",
]

# Operators that torch would decompose, but restride supports directly; not multilabel_margin_loss_forward,
# for which torch's decomposition gives a different value.
_WHOLE = (
    "_prelu_kernel", "_safe_softmax", "_scaled_dot_product_flash_attention_for_cpu", "channel_shuffle",
    "gru", "hardsigmoid", "hardswish", "linear", "lstm", "mish", "multilabel_margin_loss_forward",
    "nll_loss2d_forward", "nll_loss_forward", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu6",
    "rnn_relu", "rnn_tanh", "roll", "scaled_dot_product_attention", "silu", "softplus",
    *(f"{word}_pad{rank}d" for word in ("reflection", "replication") for rank in (1, 2, 3)), *RESIZES,
    *(word.removeprefix("aten.") for word in TORCH_OPERATORS if "_backward" in word),
)  # fmt: skip


@dataclass(frozen=True)
class ExportedModule:
    """A program of torch as a model, and the tree whose leaves are the model's outputs."""

    model: OnnxModel
    tree: Any

    def graph(self, dims: Mapping[str, Dims]) -> Graph:
        """Return the graph, for the dims that it was exported for."""
        return translated(self.model, dims, translate_aten)


def exported(
    module: torch.nn.Module, example: Sequence[torch.Tensor], keywords: Sequence[str] = ()
) -> ExportedModule:
    """Export the operations of a module for example tensors, without running it on their values.

    `keywords`: the names of the last of them, if passed by name. Raises InvalidArguments if torch cannot
    export it, Unimplemented for unsupported operators, all at once.
    """
    default = getattr(torch.export, "default_decompositions", None)
    if default is None:
        raise refuse("RS-G04:torch-too-old", version=torch.__version__)
    try:
        with torch.no_grad(), _without_warning():
            program = torch.export.export(module, *_arguments(example, keywords))
            program = program.run_decompositions(decompositions(default()))
    except Exception as error:  # torch raises its own errors, and those of the module's code
        raise refuse(
            "RS-G05:torch-export-cannot",
            type=type(module).__name__,
            type_type=type(error).__name__,
            text_of=text_of(error).strip().splitlines()[0][:300],
        ) from error
    try:
        return _read(program, example)
    except Error:
        raise
    except Exception as error:
        raise refuse(
            "RS-G02:program-no-network",
            type=type(module).__name__,
            type_type=type(error).__name__,
            text_of=text_of(error)[:300],
        ) from error


def open_shapes(program: torch.export.ExportedProgram) -> list[tuple[int | None, ...]]:
    """Return the extents of the inputs of a program, with None for open ones."""
    return [tuple(n if type(n) is int else None for n in shape) for shape in _shapes(program)]


def largest_batch(program: torch.export.ExportedProgram) -> int:
    """Return the largest batch that a program accepts, up to what a file supports."""
    batches = [shape[0].node.expr for shape in _shapes(program) if shape and type(shape[0]) is not int]
    ranges = program.range_constraints
    return int(min([LARGEST, *(ranges[batch].upper for batch in batches if batch in ranges)]))


def _shapes(program: torch.export.ExportedProgram) -> list[torch.Size]:
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    return [values[name].shape for name in program.graph_signature.user_inputs]


_LOG = logging.getLogger("torch._subclasses.fake_tensor")


@contextmanager
def _without_warning() -> Iterator[None]:
    """A context without the warning that torch gives about itself at each export, and without the traceback
    that it logs of an operator that refuses dims, whose text is in the error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)

        def is_told(record: logging.LogRecord) -> bool:
            return False

        _LOG.addFilter(is_told)
        try:
            yield
        finally:
            _LOG.removeFilter(is_told)


def _arguments(
    example: Sequence[torch.Tensor], keywords: Sequence[str]
) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    count = len(example) - len(keywords)
    return tuple(example[:count]), dict(zip(keywords, example[count:], strict=True))


def follows_batch(
    module: torch.nn.Module,
    example: Sequence[torch.Tensor],
    dims: Sequence[Sequence[Dims]],
    keywords: Sequence[str] = (),
) -> bool:
    """True if torch proves that extents are linear in the batch, and nothing else depends on it.

    `dims`: dims of the inputs for several batches, the smallest first.
    """
    pairs = [list(zip(least, most, strict=True)) for least, most in zip(dims[0], dims[-1], strict=True)]
    ends = next(pair for own in pairs for pair in own if pair[0] != pair[1])
    batch = torch.export.Dim("batch", min=ends[0], max=ends[1])
    shapes = [{axis: batch for axis, pair in enumerate(own) if pair == ends} for own in pairs]
    try:
        with torch.no_grad(), _without_warning():
            program = torch.export.export(module, *_arguments(example, keywords), dynamic_shapes=shapes)
    except Exception:  # torch raises its own errors for decisions based on the batch
        return False
    values = torch.utils._pytree.tree_leaves([node.meta.get("val") for node in program.graph.nodes])
    numbers = [n for value in values for n in (value.shape if isinstance(value, torch.Tensor) else (value,))]
    return all(map(_is_on_line, numbers)) and not _knows_batch(program)


def _is_on_line(number: Any) -> bool:
    """True for a constant, and for an integer that is linear in the batch."""
    if not isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
        return True
    expression = number.node.expr
    is_sum = isinstance(number, torch.SymInt) and expression.is_polynomial(*expression.free_symbols)
    return is_sum and all(expression.diff(symbol).is_number for symbol in expression.free_symbols)


# Operators that make rows of the batch: those of a smaller batch are a prefix of those of a larger one.
_ROWS = frozenset(
    f"aten.{word}"
    for word in (
        *("arange.default", "embedding.default", "expand.default", "slice.Tensor", "unsqueeze.default"),
        *("full.default", "new_ones.default", "new_zeros.default", "ones.default", "ones_like.default"),
        *("zeros.default", "zeros_like.default"),
    )
)


def _knows_batch(program: torch.export.ExportedProgram) -> bool:
    """True if a tensor depends on the batch but not on inputs, so that any batch might have other values.

    Examples: `torch.ones(n).sum() == 7`, which is equal for nearly all, and `torch.arange(n) == n - 7`.
    """
    of_inputs, of_batch = set[Any](), set[Any]()
    for node in program.graph.nodes:
        values = torch.utils._pytree.tree_leaves(node.meta.get("val"))
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        has_batch = [any(type(n) is not int for n in tensor.shape) for tensor in tensors]
        is_filled = "_like" in node.name or node.name.startswith("new_")
        if node.op == "placeholder":
            of_inputs |= {node} if node.name in program.graph_signature.user_inputs else set()
        elif tensors and not is_filled and not of_inputs.isdisjoint(node.all_input_nodes):
            of_inputs.add(node)
        elif any(has_batch) or not of_batch.isdisjoint(node.all_input_nodes) or not tensors:
            of_batch.add(node)
            target = str(node.target)
            by_value = node.args[1:] if target in ("aten.full.default", "aten.slice.Tensor") else ()
            makes_rows = target in _ROWS and of_batch.isdisjoint(by_value)
            if tensors and not (all(has_batch) and makes_rows):
                return True
    return False


def decompositions(table: Any) -> Any:
    """Return a decomposition table of torch without the operators that restride supports directly."""
    for overload in _whole():
        table.pop(overload, None)
    table[torch.ops.aten._transformer_encoder_layer_fwd.default] = _encoder_layer
    return table


def undivided() -> Any:
    """Return a context in which torch does not decompose operators that restride supports directly."""
    implicit = [each for each in _whole() if each._can_decompose()]
    return torch.export.exported_program._override_composite_implicit_decomp(
        dict.fromkeys(implicit, lambda *args, **named: NotImplemented)
    )


def _whole() -> list[Any]:
    packets = [packet for word in _WHOLE if (packet := getattr(torch.ops.aten, word, None)) is not None]
    return [getattr(packet, overload) for packet in packets for overload in packet.overloads()]


def _encoder_layer(
    x: Any,
    width: int,
    heads: int,
    *parameters: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """Translate an `nn.TransformerEncoderLayer`, a single operator of torch in evaluation mode."""
    projections, (is_gelu, is_norm_first, epsilon), weights = (
        parameters[:4],
        parameters[4:7],
        parameters[7:15],
    )
    mask, mask_type = (*parameters[15:], mask, mask_type)[:2]
    functional = torch.nn.functional
    mask = mask[:, None, None] if mask_type == 1 else mask

    def normalized(x: Any, at: int) -> Any:
        return functional.layer_norm(x, (width,), weights[at], weights[at + 1], epsilon)

    def attended(x: Any) -> Any:
        thrice = functional.linear(x, *projections[:2]).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        seen = None if mask is None else mask.logical_not()
        y = functional.scaled_dot_product_attention(*thrice.unbind(), seen)
        return functional.linear(y.transpose(1, 2).flatten(2), *projections[2:])

    def fed(x: Any) -> Any:
        inner = functional.linear(x, *weights[4:6])
        return functional.linear((functional.gelu if is_gelu else functional.relu)(inner), *weights[6:])

    if is_norm_first:
        x = x + attended(normalized(x, 0))
        return x + fed(normalized(x, 2))
    x = normalized(x + attended(x), 0)
    return normalized(x + fed(x), 2)


def _read(program: Any, example: Sequence[torch.Tensor]) -> ExportedModule:
    signature = program.graph_signature
    reader = GraphReader(signature.user_inputs, names_by_part(program.graph.nodes))
    for node in program.graph.nodes:
        if node.op == "call_function":
            reader.read(node)
    if reader.missing:
        raise missing_error("the module", by_operator(reader.missing.values()))
    (outputs,) = program.graph.output_node().args
    others = [str(output) for output in outputs if not hasattr(output, "name")]
    if others:
        raise refuse("RS-G05:module-gives-no", outputs=", ".join(others))
    targets = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}
    if targets:
        raise refuse("RS-G05:module-writes-into", written=", ".join(map(str, targets.values())))
    inputs = list(zip(signature.user_inputs, example, strict=True))
    return ExportedModule(reader.model(inputs, dict(_tensors(program)), outputs), program.call_spec.out_spec)


def _tensors(program: Any) -> Iterator[tuple[str, Array]]:
    """Yield parameters, buffers and constants by the names of their placeholders."""
    signature, tensors = program.graph_signature, {**program.constants, **program.state_dict}
    for table in (
        signature.inputs_to_parameters,
        signature.inputs_to_buffers,
        signature.inputs_to_lifted_tensor_constants,
    ):
        for name, target in table.items():
            yield name, array_of(tensors[target])
