"""A part of a torch graph as a network, which reads and writes tensors of torch in place."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod
from string import ascii_lowercase
from typing import Any, cast

import torch
from torch import fx

from ....arrays.calls.results import maker_of
from ....desc.memory_desc import MemoryDesc
from ....runtime.engine import Engine
from ....runtime.result_pool import POOLED_BYTES
from ....verbose import flags, report
from ....watching import watch_network
from ...dims import Dims
from ...network.plan import plan_network
from ...network.prepacking import PrepackedConstants
from ...network.running import Runner
from ..onnx.model import OnnxModel
from ..onnx.reader import translated
from .call import translate_aten
from .reader import GraphReader, array_of, names_by_part

__all__ = ["NetworkPart", "dense_order", "format_of", "part_model", "row_major_of"]


def dense_order(x: Any) -> tuple[int, ...] | None:
    """Return the axes of a dense tensor, outermost in memory first, row-major if possible; else None."""
    dims, strides = x.shape, x.stride()
    axes = range(len(dims))
    if x.is_contiguous():
        return tuple(axes)
    order = sorted(axes, key=lambda axis: (-strides[axis], -dims[axis], axis))
    rest = x.numel()
    for axis in order:
        rest //= max(dims[axis], 1)
        if dims[axis] != 1 and strides[axis] != rest:
            return None
    return tuple(order)


def format_of(x: torch.Tensor, dims: Sequence[int]) -> MemoryDesc:
    """Return the format of a tensor of `dims` whose memory is `x`: axes in any order, and possibly one
    blocked, with its block as the last axis of `x`. If `x` is not dense, that of a copy of it.
    """
    order = dense_order(x) or range(x.dim())
    letters = [*ascii_lowercase[: len(dims)]]
    tag = "".join(letters[axis] for axis in order if axis < len(dims))
    if x.dim() > len(dims):
        blocked = _blocked_axis(x, dims)
        tag = tag.replace(letters[blocked], letters[blocked].upper()) + f"{x.shape[-1]}{letters[blocked]}"
    return MemoryDesc(dims, x.dtype, tag)


def row_major_of(x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """Return the tensor of `dims` whose memory is `x` (see `format_of`) in row-major order."""
    if x.dim() == len(dims):
        return x.contiguous()
    return x.movedim(-1, _blocked_axis(x, dims) + 1).reshape(tuple(dims))


def _blocked_axis(x: torch.Tensor, dims: Sequence[int]) -> int:
    """Return which of `dims` has its blocks in the last axis of `x`."""
    (axis,) = [axis for axis, size in enumerate(dims) if size != x.shape[axis]]
    return axis


def _memory_of(md: MemoryDesc) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides of the tensor that is the memory of a format with at most one blocked axis."""
    shape = [*md.dims]
    for axis, block in zip(md.inner_idxs, md.inner_blks, strict=True):
        shape[axis] //= block
    return (*shape, *md.inner_blks), (*md.strides, *[1] * len(md.inner_blks))


def part_model(
    nodes: Iterable[fx.Node],
    inputs: Sequence[fx.Node],
    outputs: Sequence[fx.Node],
    known: Mapping[fx.Node, torch.Tensor],
    ends: Collection[fx.Node] = (),
) -> tuple[OnnxModel, GraphReader]:
    """Return nodes of a graph as a model. Dense inputs and outputs keep their layout: their axes are passed
    in memory order, and permuted inside; except those of `ends`, whose formats are specified elsewhere.
    """
    graph = fx.Graph()
    new: dict[fx.Node, fx.Node] = {}
    tensors = {}
    for node, tensor in known.items():
        new[node] = graph.placeholder(node.name)
        tensors[new[node].name] = array_of(tensor)
    read = []
    for node in inputs:
        value = node.meta["val"]
        order = (dense_order(value) if node not in ends else None) or tuple(range(value.dim()))
        new[node] = graph.placeholder(node.name)
        read.append((new[node].name, value.permute(order)))
        new[node].meta["val"] = value.permute(order)
        if order != tuple(range(len(order))):
            new[node] = _permuted(graph, new[node], tuple(map(order.index, range(len(order)))))
    for node in nodes:
        new[node] = graph.node_copy(node, new.__getitem__)
    results = []
    for node in outputs:
        memory = dense_order(node.meta["val"])
        assert memory is not None
        is_moved = memory != tuple(range(len(memory))) and node not in ends
        results.append(_permuted(graph, new[node], memory) if is_moved else new[node])
    graph.output(tuple(results))
    reader = GraphReader((name for name, _ in read), names_by_part(graph.nodes))
    for node in graph.nodes:
        if node.op == "call_function":
            reader.read(node)
    return reader.model(read, tensors, results), reader


def _permuted(graph: fx.Graph, node: fx.Node, order: Sequence[int]) -> fx.Node:
    result = graph.call_function(torch.ops.aten.permute.default, (node, list(order)))
    result.meta["val"] = node.meta["val"].permute(tuple(order))
    return result


class NetworkPart:
    """A network of some nodes, called with the tensors of `inputs`; returns those of `outputs` in new memory.

    `formats`: of inputs and outputs that are the memory of a tensor in that format (`format_of`); outputs of
    format "any" get one. Kernels are compiled, and constants packed, on creation. Raises what plans and
    primitives raise.
    """

    def __init__(
        self,
        nodes: Sequence[fx.Node],
        inputs: Sequence[fx.Node],
        outputs: Sequence[fx.Node],
        known: Mapping[fx.Node, torch.Tensor],
        prepacked: PrepackedConstants,
        formats: Mapping[fx.Node, MemoryDesc],
        precision: str = "f32",
        without: Iterable[str] = (),
    ) -> None:
        start = time.perf_counter()
        self.nodes, self.inputs, self.outputs = nodes, inputs, outputs
        model, _ = part_model(nodes, inputs, outputs, known, formats)
        graph = translated(model, {each.name: cast(Dims, each.dims) for each in model.inputs}, translate_aten)
        engine = Engine("cpu")
        names = [*[each.name for each in model.inputs], *model.outputs]
        pairs = zip(names, (*inputs, *outputs), strict=True)
        ends = {name: formats[node] for name, node in pairs if node in formats}
        self.plan = plan_network(graph, "optimal", engine, without, ends, precision)
        runner = Runner(self.plan, engine, prepacked)
        runner.prepare()
        values = [node.meta["val"] for node in outputs]
        strides = [
            _memory_of(formats[node])[1] if node in formats else _dense_strides(node.meta["val"])
            for node in inputs
        ]
        reads = [(at, strides[at]) for at in map(names.index, runner.inputs)]
        makers = [
            _maker(*_memory_of(self.plan.outputs[name].md), value.dtype)
            if node in formats
            else _maker(tuple(value.shape), tuple(value.stride()), value.dtype)
            for name, node, value in zip(model.outputs, outputs, values, strict=True)
        ]
        written = [model.outputs.index(output.name) for output in runner.outputs]
        self.run = _run_function(runner, reads, makers, written)
        if flags.profile_create:
            sizes = f"inputs:{len(inputs)} outputs:{len(outputs)} reorders:{self.plan.reorders}"
            ms = (time.perf_counter() - start) * 1e3
            head = "create", engine, "network", "optimal", "forward_inference"
            report((*head, "", "", sizes, f"{len(nodes)} operators", ms))


def _run_function(
    runner: Runner,
    reads: Sequence[tuple[int, tuple[int, ...]]],
    makers: Sequence[Callable[[], torch.Tensor]],
    written: Sequence[int],
) -> Callable[..., list[torch.Tensor]]:
    """Return a function of all inputs. `reads`: indices of those that `runner` takes, with the required
    strides; `written`: of the outputs in its order.
    """

    run = runner.run

    def network(*xs: torch.Tensor) -> list[torch.Tensor]:
        read = [
            x if (x := xs[at]).stride() == strides else _with_strides(x, strides) for at, strides in reads
        ]
        results = [make() for make in makers]
        addresses = [*[x.data_ptr() for x in read], *[results[at].data_ptr() for at in written]]
        if flags.profile:
            with watch_network("optimal", [x.shape for x in read]):
                (runner.timed if flags.profile_exec else run)(addresses)
        else:
            run(addresses)
        return results

    return network


def _dense_strides(value: Any) -> tuple[int, ...]:
    """Return the strides that a network reads: the tensor's own if it is dense, otherwise row-major."""
    is_dense = dense_order(value) is not None
    return tuple((value if is_dense else value.contiguous()).stride())


def _with_strides(x: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    return torch.empty_strided(x.shape, strides, dtype=x.dtype).copy_(x)


def _maker(dims: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    """Return an allocator of a tensor; large ones come from reused memory."""
    nbytes = prod(dims) * dtype.itemsize
    if nbytes < POOLED_BYTES:
        return lambda: torch.empty_strided(dims, strides, dtype=dtype)
    make = maker_of(MemoryDesc((nbytes,), "u8"))
    return lambda: torch.from_numpy(make()[1]).view(dtype).as_strided(dims, strides)
