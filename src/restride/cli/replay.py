"""Primitives of a verbose log, run again on this machine: with restride, and with oneDNN if it is installed.

A line becomes a `PrimitiveCall`: the arguments of a primitive descriptor as in oneDNN's C API, in its order,
which is also that of `restride.onednn`. Tensors logged as `any` are replayed as `any`. Memory objects contain
zeros; times are medians.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Sequence
from math import fsum, prod
from typing import Any, NamedTuple

import numpy as np

from .. import onednn
from ..desc.memory_desc import MemoryDesc
from ..errors import Error
from ..runtime.timing import time_call
from ..view.names import aligned, counted
from ..view.units import data_size, duration
from ..view.verbose_log import LoggedPrimitive, LoggedTensor, VerboseLog
from .commands import REPLAY_OF_PEER

__all__ = ["PrimitiveCall", "ReplayedTime", "recipe", "replay", "replay_text"]

# Primitives are replayed in descending order of time: at most this many, with this many bytes and
# multiplications.
_MOST, _MOST_BYTES, _MOST_PRODUCTS = 200, 1 << 30, 2 * 10**10
# A call that takes longer runs once.
_LONG_SECONDS = 0.2
_ROUNDS, _MOST_ROWS, _LONGEST = 7, 25, 60


class PrimitiveCall(NamedTuple):
    """A primitive: its function in oneDNN, its arguments, its memory objects, and its chain of post-ops.

    For memory of the format `any`, each library chooses the format.
    """

    call: str
    arguments: tuple[Any, ...]
    memories: dict[int, MemoryDesc]
    post_ops: tuple[tuple[Any, ...], ...] = ()


class ReplayedTime(NamedTuple):
    """The median time of a call, and the implementation that ran."""

    seconds: float
    implementation: str


class NotReplayed(Exception):
    """The reason why a line is not replayed."""


def recipe(p: LoggedPrimitive) -> PrimitiveCall:
    """Return the call that creates the primitive of a line. Raises NotReplayed with the reason."""
    make = _RECIPES.get(p.kind)
    if make is None:
        raise NotReplayed(f"{p.kind[:_LONGEST]} is not replayed")
    if p.prop_kind.startswith("backward"):
        raise NotReplayed("backward primitives are not replayed")
    if not p.is_on_cpu:
        raise NotReplayed(f"it ran on {p.engine[:_LONGEST]}")
    unknown = [t.name for t in p.tensors if t.data_type != "undef" and t.desc is None]
    if unknown or not p.tensors:
        raise NotReplayed(f"the line does not give dims and format of {', '.join(unknown[:3]) or 'a tensor'}")
    if (p.bytes or 0) > _MOST_BYTES:
        raise NotReplayed(f"it needs {data_size(p.bytes or 0)}, more than {data_size(_MOST_BYTES)}")
    made = make(p)
    weights = made.memories.get(onednn.Arg.WEIGHTS)
    if weights is not None:
        width = weights.dims[-1] if p.kind == "matmul" else made.memories[onednn.Arg.DST].dims[1]
        count = made.memories[onednn.Arg.DST].nelems * weights.nelems // max(width, 1)
        if count > _MOST_PRODUCTS * (prod(weights.dims[:-2]) if p.kind == "matmul" else 1):
            raise NotReplayed(f"it needs {count:.0e} multiplications")
    return made._replace(post_ops=tuple(_post_ops(p.attributes)))


def replay(log: VerboseLog) -> list[dict[str, Any]]:
    """Return rows for all primitives of a log by descending time: time in the log, and with each library."""
    order = sorted(range(len(log.primitives)), key=lambda place: -log.times[place])
    peer, why = _peer()
    rows = []
    for rank, place in enumerate(order):
        p, calls = log.primitives[place], log.counts[place]
        row: dict[str, Any] = {
            "kind": p.kind,
            "problem": p.problem[:_LONGEST],
            "formats": p.formats[:_LONGEST],
        }
        row |= {
            "implementation": p.implementation,
            "calls": calls,
            "log_ms": log.times[place] / max(calls, 1),
        }
        rows.append(row)
        if rank >= _MOST:
            row["why"] = f"only the first {_MOST} primitives are replayed"
            continue
        try:
            made = recipe(p)
        except NotReplayed as reason:
            row["why"] = str(reason)
            continue
        for name, measure, missing in (("restride", _measure, ""), ("onednn", peer, why)):
            row |= _timed(name, measure, made, missing)
    return rows


def _timed(
    name: str, measure: Callable[[PrimitiveCall], ReplayedTime] | None, made: PrimitiveCall, missing: str
) -> dict[str, Any]:
    if measure is None:
        return {f"{name}_ms": None, f"{name}_why": missing}
    try:
        ran = measure(made)
    except Error as error:
        return {f"{name}_ms": None, f"{name}_why": error.what}
    return {f"{name}_ms": 1e3 * ran.seconds, f"{name}_implementation": ran.implementation}


def _peer() -> tuple[Callable[[PrimitiveCall], ReplayedTime] | None, str]:
    """Return the function that times a recipe with oneDNN; None and the reason if there is none."""
    try:
        opened: Callable[[PrimitiveCall], ReplayedTime] = importlib.import_module(
            REPLAY_OF_PEER
        ).open_onednn()
    except ModuleNotFoundError as error:
        return None, f"{error.name} is not installed"
    except Error as error:
        return None, error.what
    return opened, ""


def _measure(made: PrimitiveCall) -> ReplayedTime:
    """Time a recipe with restride."""
    engine = onednn.Engine("cpu", 0)
    stream = onednn.Stream(engine)
    name = "".join(word.capitalize() for word in made.call.split("_"))
    kind = getattr(onednn, name)
    attr = onednn.PrimitiveAttr()
    chain = onednn.PostOps()
    for word, *numbers in made.post_ops:
        chain.append_sum(*numbers) if word == "sum" else chain.append_eltwise(word, *numbers)
    if made.post_ops:
        attr.set_post_ops(chain)
    if made.call == "reorder":
        src, dst = made.arguments
        pd = kind.PrimitiveDesc(engine, src, engine, dst, attr)
    else:
        pd = kind.PrimitiveDesc(engine, *made.arguments, attr=attr)
    primitive = kind(pd)
    descs = {arg: pd.query_md("exec_arg_md", arg) for arg in (*made.memories, onednn.Arg.WORKSPACE)}
    memories = {
        arg: onednn.Memory(md, engine, np.zeros(md.size, np.uint8)) for arg, md in descs.items() if md
    }

    def run() -> None:
        primitive.execute(stream, memories)
        stream.wait()

    return ReplayedTime(median_seconds(run), pd.impl_info_str)


def median_seconds(call: Callable[[], object]) -> float:
    """Return the median time of a call; for a long one, the time of its first run."""
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    return first if first > _LONG_SECONDS else sorted(time_call(call, _ROUNDS))[_ROUNDS // 2]


# --- recipes ------------------------------------------------------------------------------------------------


def _named(p: LoggedPrimitive, **args: int) -> dict[int, MemoryDesc]:
    """Return the memory objects of tensors with these names, skipping those missing from the line."""
    found = {arg: _requested(tensor) for name, arg in args.items() if (tensor := p.tensor(name))}
    return {arg: desc for arg, desc in found.items() if desc is not None}


def _requested(tensor: LoggedTensor) -> MemoryDesc | None:
    """Return the descriptor that the program passed: with the format `any` if it did."""
    desc = tensor.desc
    return MemoryDesc(desc.dims, desc.data_type, "any") if desc is not None and tensor.was_any else desc


def _prop_kind(p: LoggedPrimitive) -> str:
    return p.prop_kind if p.prop_kind == "forward_training" else "forward_inference"


def _both(p: LoggedPrimitive) -> dict[int, MemoryDesc]:
    """Return source and destination, or the tensor that is both."""
    found = _named(p, data=onednn.Arg.DST, dst=onednn.Arg.DST)
    found |= _named(p, data=onednn.Arg.SRC, src=onednn.Arg.SRC)
    if len(found) < 2:
        raise NotReplayed("the line has no source or no destination")
    return found


def _product(p: LoggedPrimitive) -> dict[int, MemoryDesc]:
    found = _both(p) | _named(p, wei=onednn.Arg.WEIGHTS, bia=onednn.Arg.BIAS)
    if onednn.Arg.WEIGHTS not in found:
        raise NotReplayed("the line has no weights")
    return found


def _reorder(p: LoggedPrimitive) -> PrimitiveCall:
    found = _both(p)
    return PrimitiveCall("reorder", (found[onednn.Arg.SRC], found[onednn.Arg.DST]), found)


def _convolution(p: LoggedPrimitive) -> PrimitiveCall:
    found = _product(p)
    tensors = [
        found.get(arg) for arg in (onednn.Arg.SRC, onednn.Arg.WEIGHTS, onednn.Arg.BIAS, onednn.Arg.DST)
    ]
    strides, dilates, _, *padding = _window(p, found[onednn.Arg.SRC].ndims - 2)
    algorithm = p.option("alg") or "convolution_direct"
    arguments = (_prop_kind(p), algorithm, *tensors, strides, dilates, *padding)
    return PrimitiveCall("convolution_forward", arguments, found)


def _pooling(p: LoggedPrimitive) -> PrimitiveCall:
    found = _both(p)
    strides, dilates, kernel, *padding = _window(p, found[onednn.Arg.SRC].ndims - 2)
    tensors = found[onednn.Arg.SRC], found[onednn.Arg.DST]
    arguments = (_prop_kind(p), p.option("alg"), *tensors, strides, kernel, dilates, *padding)
    return PrimitiveCall("pooling_forward", arguments, found)


def _window(p: LoggedPrimitive, axes: int) -> list[tuple[int, ...]]:
    """Return strides, dilates, kernel, padding at both ends, of a problem such as `ih64oh32kh7sh2dh0ph3`."""
    sizes, found = p.extents, list[tuple[int, ...]]()
    for axis in "dhw"[3 - axes :]:
        try:
            i, o, k, s, d, before = (
                sizes.get(f"d{axis}", 0) if n == "d" else sizes[n + axis] for n in "ioksdp"
            )
        except KeyError:
            raise NotReplayed("the problem has no window") from None
        found.append((s, d, k, before, (o - 1) * s + (k - 1) * (d + 1) + 1 - i - before))
    return [tuple(column) for column in zip(*found, strict=True)]


def _matmul(p: LoggedPrimitive) -> PrimitiveCall:
    found = _product(p)
    order = (onednn.Arg.SRC, onednn.Arg.WEIGHTS, onednn.Arg.BIAS, onednn.Arg.DST)
    return PrimitiveCall("matmul", tuple(found.get(arg) for arg in order), found)


def _inner_product(p: LoggedPrimitive) -> PrimitiveCall:
    made = _matmul(p)
    return made._replace(call="inner_product_forward", arguments=(_prop_kind(p), *made.arguments))


def _eltwise(p: LoggedPrimitive) -> PrimitiveCall:
    found = _both(p)
    numbers = [_number(p.option(name) or "0") for name in ("alpha", "beta")]
    words = p.option("alg").split(":")  # 1.0 had `alg:eltwise_relu:0:0`
    if len(words) > 1:
        numbers = [_number(word) for word in words[1:3]]
    arguments = (_prop_kind(p), words[0], found[onednn.Arg.SRC], found[onednn.Arg.DST], *numbers)
    return PrimitiveCall("eltwise_forward", arguments, found)


def _softmax(p: LoggedPrimitive) -> PrimitiveCall:
    found = _both(p)
    algorithm = "softmax_log" if p.kind == "logsoftmax" else p.option("alg") or "softmax_accurate"
    axis = p.option("axis")
    if not axis.isdecimal() or len(axis) > 2:
        raise NotReplayed("the line has no axis")
    arguments = (_prop_kind(p), algorithm, found[onednn.Arg.SRC], found[onednn.Arg.DST], int(axis))
    return PrimitiveCall("softmax_forward", arguments, found)


def _binary(p: LoggedPrimitive) -> PrimitiveCall:
    tensors = [_requested(t) for t in p.tensors]
    if len(tensors) != 3 or None in tensors:
        raise NotReplayed("only binary primitives of two sources are replayed")
    args = (onednn.Arg.SRC_0, onednn.Arg.SRC_1, onednn.Arg.DST)
    memories = {arg: md for arg, md in zip(args, tensors, strict=True) if md is not None}
    return PrimitiveCall("binary", (p.option("alg"), *tensors), memories)


_RECIPES: dict[str, Callable[[LoggedPrimitive], PrimitiveCall]] = {
    "reorder": _reorder,
    "convolution": _convolution,
    "matmul": _matmul,
    "inner_product": _inner_product,
    "pooling": _pooling,
    "eltwise": _eltwise,
    "softmax": _softmax,
    "logsoftmax": _softmax,
    "binary": _binary,
}


def _number(text: str) -> float:
    if not re.fullmatch(r"-?[0-9]{1,20}(\.[0-9]{0,20})?(e[+-]?[0-9]{1,2})?", text):
        raise NotReplayed("a number of the line cannot be read")
    return float(text)


def _post_ops(attributes: str) -> list[tuple[Any, ...]]:
    """Return the chain of `attr-post-ops:sum:1+eltwise_relu`, or the older `post_ops:'sum;eltwise_relu;'`."""
    found: list[tuple[Any, ...]] = []
    text = re.sub("'([^']*)'", lambda quoted: quoted[1].strip(";").replace(";", "+"), attributes)
    for field in re.split("[; ]", text):
        name, _, value = field.removeprefix("attr-").partition(":")
        if name in ("scratchpad", "scratchpad_mode", ""):
            continue
        if name not in ("post-ops", "post_ops"):
            raise NotReplayed(f"the attribute {name[:_LONGEST]} is not replayed")
        for op in filter(None, value.split("+")):
            word, *numbers = op.split(":")
            if word == "sum":
                scale = numbers[0] if numbers else "1"
                zero_point = numbers[1] if len(numbers) > 1 else "0"
                found.append((word, _number(scale), int(_number(zero_point))))
            elif word.startswith("eltwise_"):
                found.append((word, *(_number(number) for number in numbers[:2])))
            else:
                raise NotReplayed(f"the post-op {word[:_LONGEST]} is not replayed")
    return found


# --- text ---------------------------------------------------------------------------------------------------


def replay_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of a replay, sums over the log's calls, and reasons for what was not replayed."""
    done = [row for row in rows if row.get("restride_ms") is not None]
    cells: list[list[str]] = [["", "primitive", "problem", "formats", "calls", "log", "restride", "oneDNN"]]
    for row in done[:_MOST_ROWS]:
        times = [_ms(row[key]) for key in ("log_ms", "restride_ms", "onednn_ms")]
        cells.append(["", row["kind"], row["problem"], row["formats"], str(row["calls"]), *times])
    title = "replay: time of one execution: mean of the log, first runs included; median of warm runs here"
    lines = [title, *aligned(cells, "<<<<>>>>")]
    if len(done) > _MOST_ROWS:
        lines.append(f"  {len(done) - _MOST_ROWS} more with --json")
    for name, key in (("restride", "restride_ms"), ("oneDNN", "onednn_ms")):
        timed = [row for row in rows if row.get(key) is not None]
        if timed:
            here, there = (fsum(row["calls"] * row[k] for row in timed) for k in (key, "log_ms"))
            what = counted(sum(row["calls"] for row in timed), "execution")
            lines.append(f"{name}: {_ms(here)}, warm, for {what} that took {_ms(there)} in the log")
    return "\n".join(lines + _others(done[:_MOST_ROWS]) + _reasons(rows))


def _others(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows for which oneDNN chose another implementation here than in the log: their times do not compare."""
    lines = [
        f"  {row['kind']} {row['problem']}: {row['onednn_implementation']}, not {row['implementation']}"
        for row in rows
        if row.get("onednn_implementation", row["implementation"]) != row["implementation"]
    ]
    return ["oneDNN ran another implementation here than in the log:", *lines] if lines else []


def _reasons(rows: Sequence[dict[str, Any]]) -> list[str]:
    found: dict[str, int] = {}
    for row in rows:
        for key, name in (("why", ""), ("restride_why", "restride: "), ("onednn_why", "oneDNN: ")):
            if key in row:
                found[name + row[key]] = found.get(name + row[key], 0) + 1
    lines = [f"  {counted(count, 'primitive')}: {why}" for why, count in found.items()]
    return ["not replayed:", *lines] if lines else []


def _ms(ms: float | None) -> str:
    return "" if ms is None else duration(ms / 1e3)
