"""Recurrent networks on buffers between pages that nobody may touch, in a process of its own.

    python -m support.guarded_networks

prints the case that it is about to run, so that a crash names its case, and `done` at the end. The variable
RESTRIDE_MAX_CPU_ISA names the instruction set.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import restride as rs

from .guarded import Guarded
from .kernels import POISON
from .rnn import CELLS, Shape, backward, dims_of, forward

CPU = rs.Engine("cpu")
_DIRECTION = "bidirectional_concat"
_SHAPES = (Shape(3, 2, 5, 19, 1), Shape(5, 3, 33, 33, 2))


class GuardedCase(NamedTuple):
    """A primitive, its descriptor, and which arguments it reads, writes, and adds to."""

    name: str
    kind: Any
    pd: Any
    reads: tuple[int, ...]
    writes: tuple[int, ...]


def _forwards(shape: Shape, cell: str) -> Iterator[GuardedCase]:
    kind = getattr(rs, f"{cell}Forward")
    name = f"{cell} of {shape.channels} channels"
    for prop, weights in (
        ("forward_inference", "any"),
        ("forward_inference", "ldgoi"),
        ("forward_training", "any"),
    ):
        pd = forward(CPU, shape, cell, _DIRECTION, prop, layer="ntc", weights=weights)
        yield _case(f"{name}, {prop} of weights {weights}", kind, pd)
    attr = rs.PrimitiveAttr()
    attr.set_rnn_data_qparams(48.0, 64.0)
    attr.set_rnn_weights_qparams(0, [60.0])
    kinds = {
        "src_layer": "u8",
        "src_iter": "u8",
        "dst_layer": "u8",
        "weights_layer": "s8",
        "weights_iter": "s8",
    }
    descs = {
        f"{each}_desc": rs.MemoryDesc(
            dims, kinds.get(each, "f32"), "any" if each.startswith("weights") else None
        )
        for each, dims in dims_of(shape, cell, _DIRECTION).items()
    }
    yield _case(f"{name} of bytes", kind, forward(CPU, shape, cell, _DIRECTION, attr=attr, **descs))


def _case(name: str, kind: Any, pd: Any) -> GuardedCase:
    args = pd._exec_args()
    written = (rs.ARG_DST_LAYER, rs.ARG_DST_ITER, rs.ARG_DST_ITER_C, rs.ARG_WORKSPACE)
    is_back = rs.ARG_DIFF_SRC_LAYER in args
    if is_back:
        written = tuple(arg for arg in args if 128 < arg < 144 or 160 < arg < 256)
    writes = tuple(arg for arg in args if arg in written)
    reads = tuple(arg for arg in args if arg not in writes and arg != rs.ARG_SCRATCHPAD)
    return GuardedCase(name, kind, pd, reads, writes)


def cases() -> Iterator[GuardedCase]:
    """All cases."""
    for shape in _SHAPES:
        for cell in CELLS if shape.layers == 1 else ("LSTM",):
            yield from _forwards(shape, cell)
            hint = forward(CPU, shape, cell, _DIRECTION, "forward_training", weights="any")
            back = backward(CPU, hint, shape, cell, _DIRECTION)
            yield _case(
                f"{cell} of {shape.channels} channels, backward", getattr(rs, f"{cell}Backward"), back
            )


def _values(md: rs.MemoryDesc, seed: int) -> bytes:
    """The bytes of a tensor: small numbers, in all of its elements and gaps."""
    random = np.random.default_rng(seed)
    if md.data_type is rs.f32:
        return (random.integers(-8, 8, md.size // 4) / np.float32(16)).astype(np.float32).tobytes()
    if md.ndims == 1:  # A workspace: floats.
        return (
            (random.integers(1, 8, -(-md.size // 4)) / np.float32(16)).astype(np.float32).tobytes()[: md.size]
        )
    return random.integers(0, 100, md.size).astype(np.uint8).tobytes()


def _ordinary(
    case: GuardedCase, mds: Mapping[int, rs.MemoryDesc], data: Mapping[int, bytes]
) -> dict[int, bytes]:
    """What is written where nothing is forbidden."""
    memories = {
        arg: rs.Memory(md, CPU, np.frombuffer(bytearray(data[arg]), np.uint8)) for arg, md in mds.items()
    }
    case.kind(case.pd).execute(rs.Stream(CPU), memories)
    return {arg: np.asarray(memories[arg].data).tobytes() for arg in case.writes}


def run_case(case: GuardedCase) -> None:
    """Reads what is read alone, writes what is written alone, at both ends of pages; bits are the same."""
    mds = {arg: case.pd.query_md("exec_arg_md", arg) for arg in (*case.reads, *case.writes)}
    data = {arg: _values(md, seed) for seed, (arg, md) in enumerate(mds.items())}
    wanted = _ordinary(case, mds, data)
    for at_end in (False, True):
        print(f"{case.name}, at the {'end' if at_end else 'start'}", flush=True)
        held = {arg: Guarded(md.size, at_end=at_end) for arg, md in mds.items()}
        memories = {}
        for arg, guarded in held.items():
            guarded.write(data[arg])
            is_read = arg in case.reads
            if is_read:
                guarded.lock()
            memories[arg] = rs.Memory.from_pointer(
                guarded.address, guarded.nbytes, mds[arg], CPU, readonly=is_read
            )
        case.kind(case.pd).execute(rs.Stream(CPU), memories)
        for arg in case.writes:
            if held[arg].read() != wanted[arg]:
                raise AssertionError(f"other values of argument {arg}")
            if held[arg].around() - {POISON}:
                raise AssertionError(f"bytes beside argument {arg} were written")


def main() -> None:
    """Run all cases."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for case in cases():
        run_case(case)
    print("done", flush=True)


if __name__ == "__main__":
    main()
