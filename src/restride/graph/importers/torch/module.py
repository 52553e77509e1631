"""Modules of torch compiled to networks: `restride.torch.compile_module`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from math import prod
from os import PathLike
from typing import Any

import torch

from ....desc.parse import parse_word
from ....errors import Error, InvalidArguments, refuse
from ....runtime.free_memory import check_room
from ...batch_form import LARGEST
from ...dims import Dims, by
from ...graph import Graph
from ...network.inputs import NetworkInput
from ...network.network import InputDims, Network
from ...rewrites.fusions import fusions_off
from ...rewrites.precision import PRECISIONS
from ..onnx.reader import data_type_of
from .export import exported, follows_batch, largest_batch, open_shapes
from .reader import element_of

__all__ = ["CompiledModule", "compile_module"]


def compile_module(
    module: torch.nn.Module | torch.export.ExportedProgram,
    example: torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor] | None = None,
    *,
    rule: str = "optimal",
    precision: str = "f32",
    exact: bool = False,
) -> CompiledModule:
    """Compile a module in evaluation mode to a network: formats are propagated, and weights packed once.

    module   or a program of `torch.export`, limited to the extents that it leaves open
    example  a tensor, or the tensors of a call, by position or a dict by name: their types and ranks;
             values do not matter, so that they can be on the meta device, and other extents get separate
             plans. A program has its own example
    rule     how formats are chosen: "plain", "greedy" or "optimal"
    precision  "f32"; "bf16" or "f16" allow tensors of that type where that is faster: `rs.onnx.load`
    exact    convolutions never use Winograd's algorithm

    Raises InvalidArguments for a module in training mode, and if torch.export refuses the module;
    Unimplemented for unsupported operators, all at once with the lines that call them, and for unsupported
    arguments of operators.
    """
    try:
        return CompiledModule(module, example, rule, precision, exact)
    except Error as error:
        error.drop_frames()
        raise


class CompiledModule:
    """The result of `compile_module`: called like the module, but only with tensors, and without gradients.

    Weights are packed once. In-place changes of parameters and buffers, as made by an optimizer, changes of
    their storage, and replaced submodules are noticed at the next call, which packs them again. What torch
    itself does not track is not noticed: writes through `.data` or NumPy, and other values of attributes.
    Threads can share it.
    """

    def __init__(
        self,
        module: torch.nn.Module | torch.export.ExportedProgram,
        example: torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor] | None = None,
        rule: str = "optimal",
        precision: str = "f32",
        exact: bool = False,
    ) -> None:
        program = module if isinstance(module, torch.export.ExportedProgram) else None
        named: Mapping[str, Any] = {}
        if program is not None:
            module = program.module()
            for part in module.modules():  # the effects of the mode were fixed by the export
                part.training = False
            if example is None:
                example, named = program.example_inputs or ((), {})
        if not isinstance(module, torch.nn.Module):
            raise refuse("RS-V08:no-module", type=type(module).__name__)
        named = example if isinstance(example, Mapping) else named
        tensors = () if named is example else _tensors("compile_module: example", example)
        tensors += _tensors("compile_module: example", tuple(named.values()))
        self._example = tuple(torch.zeros_like(x, device="cpu") if x.is_meta else x.detach() for x in tensors)
        self._keywords = tuple(named)
        self._shapes = [(None,) * x.dim() for x in tensors] if program is None else open_shapes(program)
        self._largest = LARGEST if program is None else largest_batch(program)
        self._module, self._rule, self._lock = module, rule, threading.RLock()
        self._precision = parse_word("compile_module: precision", precision, PRECISIONS)
        self._without = fusions_off("compile_module", (), exact)
        self._state: tuple[Any, ...] = ()
        self._network, self._tree, self._state = self._compile()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy or a pickle, which compile their own networks."""
        return {name: x for name, x in vars(self).items() if name not in _OWN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()
        self._network, self._tree, self._state = self._compile()

    def save(self, path: str | PathLike[str], *dims: InputDims) -> None:
        """Write the network to a file, as `Network.save`; `rs.Network.load(path)` reads it without torch."""
        self.network.save(path, *dims)

    @property
    def network(self) -> Network:
        """The network, with the current weights of the module."""
        return self._current()[0]

    def __call__(self, /, *inputs: torch.Tensor, **named: torch.Tensor) -> torch.Tensor | Any:
        """Return the outputs of the module for these tensors, by position or by name, in the same structure.

        Raises InvalidArguments for inputs that differ from the example's, and for tensors that record
        gradients.
        """
        try:
            network, tree = self._current()
            names = [each.name for each in network.inputs]
            by_name = {**dict(zip(names, inputs, strict=False)), **named}
            if set(by_name) != set(names) or len(inputs) + len(named) != len(names):
                brought = ", ".join([*["one by position"] * len(inputs), *map(repr, named)])
                raise refuse("RS-G12:module", brought=brought or "none", names=", ".join(names))
            in_order = tuple(by_name[name] for name in names)
            return self._run(network, tree, _tensors("CompiledModule: inputs", in_order))
        except Error as error:
            error.drop_frames()
            raise

    def __repr__(self) -> str:
        return f"<CompiledModule {type(self._module).__name__}: {self._network!r}>"

    def _run(self, network: Network, tree: Any, inputs: Sequence[torch.Tensor]) -> Any:
        by_name = {network_input.name: x for network_input, x in zip(network.inputs, inputs, strict=True)}
        results = network(by_name)
        # The outputs of the graph, which can contain one twice.
        names = network.plan(*(tuple(x.shape) for x in inputs)).graph.outputs
        leaves = [results[name] if isinstance(results, dict) else results for name in names]
        return torch.utils._pytree.tree_unflatten(leaves, tree)

    # --- weights --------------------------------------------------------------------------------------------

    def _current(self) -> tuple[Network, Any]:
        if self._state_now() != self._state:
            with self._lock:
                if self._state_now() != self._state:
                    # Set the state last: other threads read it without the lock.
                    self._network, self._tree, self._state = self._compile()
        return self._network, self._tree

    def _state_now(self) -> tuple[Any, ...]:
        """Return its submodules with their training flags, and addresses and version counters of weights."""
        module = self._module
        parts = tuple((part, part.training) for part in module.modules())
        tensors = (*module.parameters(), *module.buffers())
        if any(x.is_inference() for x in tensors):
            raise refuse("RS-G05:inference-mode", type=type(module).__name__)
        return (parts, *((x.data_ptr(), x._version, x.shape) for x in tensors))

    def _compile(self) -> tuple[Network, Any, tuple[Any, ...]]:
        module, example, keywords = self._module, self._example, self._keywords
        if trained := [part for part in module.named_modules() if part[1].training]:
            raise refuse("RS-G05:module-training-mode", where=_parts_text(module, trained))
        weights = (*module.named_parameters(), *module.named_buffers())
        if empty := [(name, x) for name, x in weights if x.is_meta]:
            raise refuse("RS-G05:meta-weights", where=_parts_text(module, empty))
        state, first = self._state_now(), exported(module, example, keywords)
        names = [model_input.name for model_input in first.model.inputs]
        of_example = {name: tuple(x.shape) for name, x in zip(names, example, strict=True)}
        example_graph = first.graph(of_example)

        def like_example(dims: Mapping[str, Dims]) -> list[torch.Tensor]:
            pairs = [(x, dims[name]) for name, x in zip(names, example, strict=True)]
            check_room(sum(x.element_size() * prod(own) for x, own in pairs))
            return [x.new_empty(own) for x, own in pairs]

        def graph(dims: Mapping[str, Dims]) -> Graph:
            if dims == of_example:
                return example_graph
            try:
                return exported(module, like_example(dims), keywords).graph(dims)
            except InvalidArguments as error:
                own, other = (", ".join(map(by, each.values())) for each in (dims, of_example))
                told = error.with_context(where=f"inputs of {own}; the example is of {other}")
                raise told from error.__cause__

        def is_linear(batches: Sequence[Mapping[str, Dims]]) -> bool:
            in_order = [[dims[name] for name in names] for dims in batches]
            return follows_batch(module, like_example(batches[1]), in_order, keywords)

        inputs = [
            NetworkInput(name, shape, data_type_of(name, element_of(x)))
            for name, shape, x in zip(names, self._shapes, example, strict=True)
        ]
        network = Network.of_source(
            inputs,
            first.model.outputs,
            graph,
            self._rule,
            self._without,
            dims=tuple(of_example.values()),
            is_linear=is_linear,
            largest=self._largest,
            precision=self._precision,
        )
        return network, first.tree, state


def _parts_text(module: torch.nn.Module, parts: Sequence[tuple[str, Any]]) -> str:
    """Return the names of the first parts of a module, with their classes, and how many more there are."""
    named = [f"{name or 'the module itself'} ({type(part).__name__})" for name, part in parts[:_MOST_NAMED]]
    more = f" and {len(parts) - _MOST_NAMED} more" if len(parts) > _MOST_NAMED else ""
    return f"{', '.join(named)}{more} of {type(module).__name__}"


_MOST_NAMED = 4
_OWN = ("_lock", "_network", "_tree", "_state")
"""The attributes that belong to one object, and are created for each."""


def _tensors(what: str, values: Any) -> tuple[torch.Tensor, ...]:
    tensors = tuple(values) if isinstance(values, Sequence) else (values,)
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise refuse("RS-V08:no-tensors", what=what, type=type(tensor).__name__)
    return tensors
