"""Partition of a torch graph into networks, and the graph that calls these and the remaining nodes.

1. All nodes are read and translated once: those that are refused are left to torch.
2. Nodes that depend on the same calls of torch form one network, which keeps the graph acyclic.
3. Views at the end of a network that share memory with another result, or are not dense, are left to
   torch, and so are networks that save less than a call of them costs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import fx
from torch.utils.flop_counter import flop_registry

from ....desc.memory_desc import MemoryDesc
from ....foreign import text_of
from ...build import GraphBuilder
from ...dims import Dims
from ...network.prepacking import PrepackedConstants
from ..onnx.reader import GraphWriter, data_type_of
from ..operator_call import Made, OperatorCall
from .call import CALL, translate_aten
from .network_part import NetworkPart, dense_order, part_model, row_major_of
from .reader import ELEMENTS

__all__ = ["CHOICES", "Partitioned", "Run", "is_view", "made_by", "partitioned"]

# Seconds of a call of a network, and of an operator of torch; bytes and multiplications per second.
_NETWORK_CALL, _TORCH_CALL, _BYTES, _PRODUCTS = 8e-6, 3e-6, 1e10, 2e11
TOO_SMALL = "a network of it would save less than its call costs"
_OF_ROWS = [getattr(torch.ops.aten, word) for word in ("gru", "linear", "lstm", "rnn_relu", "rnn_tanh")]
VIEW = "a view of a result that others have too"
CHOICES = frozenset((TOO_SMALL, VIEW))
"""Reason to leave a node to torch that a network could run."""
_OF_NAN = "between a NaN and a number restride returns the number"
_EXTREMES = torch.ops.aten.maximum, torch.ops.aten.minimum


Run = Callable[[list[Any]], Sequence[Any]]
"""Function that runs a graph on a list of its inputs."""


@dataclass(frozen=True)
class Partitioned:
    """A graph parts of which run as networks. `eager`: the nodes that torch runs, and why."""

    run: Run
    graph: fx.Graph
    parts: tuple[NetworkPart, ...]
    eager: Mapping[fx.Node, str]


def partitioned(
    module: fx.GraphModule,
    known: Mapping[fx.Node, torch.Tensor],
    prepacked: PrepackedConstants,
    formats: Mapping[fx.Node, MemoryDesc] = MappingProxyType({}),
    precision: str = "f32",
    without: Iterable[str] = (),
) -> Partitioned:
    """Partition a graph of functional operators on tensors of known dims, with `val` in its nodes.

    `known`: the tensors of inputs and attributes that are constants. `formats`: of inputs that are passed as
    the memory of a tensor in that format; results exchanged only between networks can have them too, in any
    format if that is "any". `precision`: that of computations; `without`: disabled fusions. The result's
    `run` takes a list of all inputs.
    """
    refused = _refused(module.graph, known)
    while True:
        split = _Split(module.graph, known, refused, formats)
        parts: dict[int, NetworkPart] = {}
        for at, nodes in split.parts.items():
            try:
                ends = *split.ends(nodes), split.known(nodes)
                parts[at] = NetworkPart(*ends, prepacked, split.formats, precision, without)
            except Exception as error:  # in any case, torch runs the nodes
                refused |= dict.fromkeys(nodes, text_of(error))
                break
        else:
            graph = split.outer(parts)
            run = fx.GraphModule(module, graph).forward
            return Partitioned(run, module.graph, tuple(parts.values()), split.eager)


# --- what is refused ----------------------------------------------------------------------------------------


def _refused(graph: fx.Graph, known: Mapping[fx.Node, torch.Tensor]) -> dict[fx.Node, str]:
    """Return why nodes go into no network, found by translating all others."""
    constants = _constants(graph, known)
    calls = [node for node in graph.nodes if node.op == "call_function"]
    reasons = {node: _refusal(node, constants) for node in calls if node.target is not operator.getitem}
    refused = {node: why for node, why in reasons.items() if why}
    refused |= {node: _OF_NAN for node in calls if getattr(node.target, "overloadpacket", None) in _EXTREMES}
    others = [node for node in graph.nodes if node.op in ("placeholder", "get_attr") and node not in known]
    ends = [node for node in others if _is_tensor(node) and _has_elements(node)]
    rest = [node for node in calls if made_by(node) not in refused]
    # Twice: what the reader rejects becomes an input the second time.
    for _ in range(2):
        made = [node for node in calls if made_by(node) in refused and _is_tensor(node)]
        tensors = [node for node in made if isinstance(node.meta["val"], torch.Tensor)]
        stand_ins = [node for node in tensors if _has_elements(node)]
        model, reader = part_model(rest, [*ends, *stand_ins], [], known)
        refused |= {
            node: f"unsupported operator {reader.missing[node.name][0]}"
            for node in rest
            if node.name in reader.missing
        }
        rest = [node for node in rest if made_by(node) not in refused]
    by_name = {node.name: node for node in rest}
    builder = GraphBuilder()

    def translate(call: OperatorCall) -> Made:
        try:
            return translate_aten(call)
        except Exception as error:  # in any case, torch runs the node
            refused[by_name[call.node.name.split()[0]]] = text_of(error)
            results = call.node.attributes[CALL].results
            kinds = [data_type_of("", ELEMENTS[getattr(torch, word)]) for _, word in results]
            names = [f"{call.node.name} {number}" for number in range(len(results))]
            triples = zip(names, results, kinds, strict=True)
            return tuple(builder.input(name, dims, kind) for name, (dims, _), kind in triples)

    writer = GraphWriter(builder, model, model.opset, translate)
    values = writer.known_tensors()
    for each in model.inputs:
        writer.add_input(each, cast(Dims, each.dims), values)
    writer.run(model.nodes, values)
    return refused


def made_by(node: fx.Node) -> fx.Node:
    """Return the call whose result a node is an item of, or the node itself."""
    return made_by(node.args[0]) if node.target is operator.getitem else node


def _tensors_of(node: fx.Node) -> list[Any]:
    """Return the results of a node; of several, those that are read."""
    value = node.meta.get("val")
    if not isinstance(value, tuple | list):
        return [value]
    return [value[user.args[1]] for user in node.users if user.target is operator.getitem]


def _is_tensor(node: fx.Node) -> bool:
    return not any(map(_apart, _tensors_of(node)))


def _apart(x: Any) -> str:
    """Return what keeps a tensor out of networks; "" if nothing does."""
    if not isinstance(x, torch.Tensor):
        return f"{'nothing' if x is None else 'a number'} in place of a tensor"
    if x.layout is not torch.strided or x.device.type != "cpu":
        return f"a tensor of {x.device.type if x.device.type != 'cpu' else x.layout}"
    # Lazy sign bits are not in memory; some functions have only f32 constants for doubles.
    if x.is_neg() or x.is_conj():
        return "a view that negates or conjugates"
    if x.dtype is torch.float64 or x.dtype not in ELEMENTS:
        return f"elements of {x.dtype}"
    return "" if all(isinstance(n, int) for n in x.shape) else f"dims that a run decides, {list(x.shape)}"


def _has_elements(node: fx.Node) -> bool:
    return all(x.numel() for x in _tensors_of(node))


def _refusal(node: fx.Node, constants: Collection[fx.Node]) -> str:
    """Return why no network can run a node, as far as its tensors say; "" for a functional operator of ATen
    whose tensors a network can have.
    """
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return "not an operator of ATen"
    if schema.is_mutable:
        return "it writes into an argument"
    for each in (node, *node.all_input_nodes):
        if why := next(filter(None, map(_apart, _tensors_of(each))), ""):
            return f"it {'makes' if each is node else 'reads'} {why}"
    base = node.args[0].meta["val"] if schema.name.startswith("aten::as_strided") else None
    if base is not None and not (base.is_contiguous() and base.storage_offset() == 0):
        return "it reads elements that are not in index order"
    varying = [each for each in (node, *node.all_input_nodes) if each not in constants]
    return "" if all(map(_has_elements, varying)) else "a tensor without elements"


def _constants(graph: fx.Graph, known: Iterable[fx.Node], refused: Collection[fx.Node] = ()) -> set[fx.Node]:
    """Return what depends only on constants, and is not refused."""
    constants = set(known)
    for node in graph.nodes:
        is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        is_call = node.op == "call_function" and made_by(node) not in refused and not is_random
        if is_call and constants.issuperset(node.all_input_nodes):
            constants.add(node)
    return constants


# --- what goes together -------------------------------------------------------------------------------------


class _Split:
    """The nodes of each network, by its index in execution order."""

    def __init__(
        self,
        graph: fx.Graph,
        known: Mapping[fx.Node, torch.Tensor],
        refused: Mapping[fx.Node, str],
        formats: Mapping[fx.Node, MemoryDesc],
    ) -> None:
        self._graph, self._tensors = graph, known
        self._nodes = [node for node in graph.nodes if node.op == "call_function"]
        self.eager = {node: refused[made_by(node)] for node in self._nodes if made_by(node) in refused}
        # What depends only on constants is part of every network that reads it.
        self._constants = _constants(graph, known, refused)
        while True:
            self._levels = self._level_of_nodes()
            self.parts = self._by_level()
            left = [self._left_to_torch(nodes) for nodes in self.parts.values()]
            if not any(left):
                break
            for own in left:
                self.eager |= own
        self.formats = {
            node: md
            for node, md in formats.items()
            if node.op == "placeholder" or (self._is_in_part(node) and not self._is_read_outside(node))
        }

    def _level_of_nodes(self) -> dict[fx.Node, int]:
        """Return, for each node, the number of consecutive networks before it."""
        levels: dict[fx.Node, int] = {}
        random = 0
        for node in self._nodes:
            if node in self._constants:
                continue
            is_eager = node in self.eager
            pairs = [(each, levels.get(each, 0)) for each in node.all_input_nodes]
            level = max((n + (is_eager and self._is_in_part(each)) for each, n in pairs), default=0)
            if is_eager and node.is_impure():
                # Random numbers are drawn in the order of the module.
                random = level = max(level, random)
            levels[node] = level
        return levels

    def _is_read_outside(self, node: fx.Node) -> bool:
        """True if something outside its network reads the results of a node, including the caller."""
        own, end = {*self.parts[self._levels[node]]}, self._graph.output_node()
        return any(user not in own and user is not end for user in node.users)

    def _is_in_part(self, node: fx.Node) -> bool:
        return node.op == "call_function" and node not in self.eager and node not in self._constants

    def _by_level(self) -> dict[int, list[fx.Node]]:
        parts: dict[int, list[fx.Node]] = {}
        for node in self._nodes:
            if self._is_in_part(node):
                parts.setdefault(self._levels[node], []).append(node)
        return parts

    def ends(self, nodes: Sequence[fx.Node]) -> tuple[list[fx.Node], list[fx.Node], list[fx.Node]]:
        """Return the nodes of a network with the constants that it computes, its inputs and its outputs."""
        own = dict.fromkeys(nodes)
        stack = list(nodes)
        needed: dict[fx.Node, None] = {}
        inputs: dict[fx.Node, None] = {}
        while stack:
            node = stack.pop()
            for each in node.all_input_nodes:
                if each in self._constants and each not in needed and each not in self._tensors:
                    needed[each] = None
                    stack.append(each)
                elif each not in own and each not in self._constants:
                    inputs[each] = None
        tensors = [node for node in nodes if not isinstance(node.meta["val"], tuple | list)]
        outputs = [node for node in tensors if any(user not in own for user in node.users)]
        every = [node for node in self._nodes if node in own or node in needed]
        return every, sorted(inputs, key=_place), outputs

    def known(self, nodes: Sequence[fx.Node]) -> dict[fx.Node, torch.Tensor]:
        """Return the constants that nodes can read."""
        every, _, _ = self.ends(nodes)
        read = {each for node in every for each in node.all_input_nodes}
        return {node: tensor for node, tensor in self._tensors.items() if node in read}

    # --- what stays with torch ------------------------------------------------------------------------------

    def _left_to_torch(self, nodes: Sequence[fx.Node]) -> dict[fx.Node, str]:
        """Return the nodes of a network that torch runs better, with the reasons."""
        left: dict[fx.Node, str] = {}
        own = set(nodes)
        _, _, outputs = self.ends(nodes)
        for node in reversed(nodes):
            is_inside, is_shared = any(user in own and user not in left for user in node.users), False
            if (is_inside and node not in outputs) or isinstance(node.meta["val"], tuple | list):
                continue
            base = node
            while base in own and (base.target is operator.getitem or is_view(base)):
                base = base.all_input_nodes[0]
                is_shared |= base not in own or base in outputs
            if is_shared or dense_order(node.meta["val"]) is None:
                left[made_by(node)] = VIEW
        if not left and self._seconds_saved(nodes, outputs) <= 0:
            return dict.fromkeys(nodes, TOO_SMALL)
        return {node: left[made_by(node)] for node in nodes if made_by(node) in left}

    def _seconds_saved(self, nodes: Sequence[fx.Node], outputs: Sequence[fx.Node]) -> float:
        """Return the seconds saved by fewer torch calls and less memory traffic, less the network's call."""
        seconds = -_NETWORK_CALL
        for node in nodes:
            if node.target is operator.getitem or is_view(node):
                continue
            seconds += _TORCH_CALL + _flops(node) / _PRODUCTS
            if node not in outputs:
                seconds += sum(x.numel() * x.element_size() for x in _tensors_of(node)) / _BYTES
        return seconds

    # --- the graph around the networks ----------------------------------------------------------------------

    def outer(self, parts: Mapping[int, NetworkPart]) -> fx.Graph:
        """Return the graph that takes the list of all inputs and calls the networks."""
        graph, new = fx.Graph(), dict[fx.Node, Any]()
        all_inputs = graph.placeholder("args")
        places = [node for node in self._graph.nodes if node.op == "placeholder"]

        def memory_of(node: fx.Node) -> Any:
            return graph.call_function(operator.getitem, (all_inputs, places.index(node)))

        def made(node: fx.Node) -> Any:
            if node not in new:
                if node.op == "placeholder":
                    new[node] = memory_of(node)
                    if node in self.formats:
                        new[node] = graph.call_function(row_major_of, (new[node], self.formats[node].dims))
                elif self._is_in_part(node):
                    part = parts[self._levels[node]]
                    inputs = [memory_of(each) if each in self.formats else made(each) for each in part.inputs]
                    results = graph.call_function(part.run, tuple(inputs))
                    for at, each in enumerate(part.outputs):
                        new[each] = graph.call_function(operator.getitem, (results, at))
                else:
                    new[node] = graph.node_copy(node, made)
            return new[node]

        # Networks come after all calls of torch that they depend on.
        in_order = sorted(self.eager, key=lambda node: (self._levels[node], _place(node)))
        for node in in_order:
            made(node)
        (results,) = self._graph.output_node().args
        graph.output(fx.map_arg(results, made))
        return graph


def _place(node: fx.Node) -> Any:
    return node._sort_key


def is_view(node: fx.Node) -> bool:
    """True for a call whose results share the memory of its inputs."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(each.alias_info is not None for each in schema.returns)


def _flops(node: fx.Node) -> int:
    """Return the operations of a convolution, a matrix product or an attention; 0 for others."""
    packet = getattr(node.target, "overloadpacket", None)
    if packet in _OF_ROWS:
        x, *weights = [each.meta["val"] for each in node.all_input_nodes]
        return int(2 * x.numel() // x.shape[-1] * sum(each.numel() for each in weights))
    count = flop_registry.get(packet)
    if count is None:
        return 0
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    return int(count(*args, **kwargs, out_val=node.meta["val"]))
