"""The report of a verbose log: time by primitive and by format, reorders, possible savings, and advice.

Rows are plain values, as `--json` prints them; `report_text` formats them as text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import fsum, prod
from typing import Any

from ..desc.memory_desc import MemoryDesc
from .names import aligned, counted
from .units import data_size, duration
from .verbose_log import LoggedPrimitive, LoggedTensor, VerboseLog

__all__ = ["FRAMEWORKS", "report", "report_text"]

_MOST_ROWS, _MOST_EXAMPLES, _LONGEST = 12, 4, 60
# Two reorders at most this many executions apart can form a pair.
_NEAR = 8
_FEW_CHANNELS = 8
_COLORS = 4
_PADDED = 0.1
# Below the resolution of clocks, no speed is reported, nor beyond that of any cache: in GB/s, and in copies.
_SHORTEST_MS, _FASTEST, _MOST_COPIES = 1e-6, 1e5, 100
_PRODUCTS = ("convolution", "deconvolution", "inner_product", "matmul")
# Attributes with which a reorder changes values.
_COMPUTING = ("post-ops", "scale", "zero-point")
_RNN_WEIGHTS = ("wei_layer", "wei_iter")
_REFERENCE = re.compile(r"(^|[:_])(ref|naive)([:_]|$)|^simple")
FRAMEWORKS = {"torch": "torch", "openvino": "OpenVINO", "tensorflow": "TensorFlow", "onednn": "oneDNN"}


def report(
    log: VerboseLog, copy_gb_per_s: float, framework: str = "", *, is_copy_of_cpu: bool = False
) -> dict[str, Any]:
    """Return the report as plain values. `framework`: one of FRAMEWORKS; by default detected from the log.

    With `is_copy_of_cpu`, only reorders on CPUs are compared with the speed of a copy.
    """
    total = log.total_ms
    name = framework or log.framework or _guess(log)
    length, repeats = log.period
    return {
        "executions": len(log.executions),
        "primitives": len(log.primitives),
        "total_ms": total,
        "wall_ms": _wall_ms(log),
        "created": {name: {"calls": count, "ms": ms} for name, (count, ms) in log.created.items()},
        "info": log.info,
        "other_lines": log.other_lines,
        "other_verbose_lines": log.other_verbose,
        "refused_lines": log.refused,
        "refusals": [{"line": number, "why": why} for number, why in log.refusals],
        "repeats": {"executions": length, "times": repeats},
        "is_training": log.is_training,
        "framework": name or "onednn",
        "copy_gb_per_s": copy_gb_per_s,
        "by_primitive": _rows(log, lambda p: {"kind": p.kind}),
        "by_format": _rows(log, lambda p: {"kind": p.kind, "formats": p.formats}),
        "partitions": _partitions(log),
        "reorders": [
            _with_rate(row, None if is_copy_of_cpu and not row["is_on_cpu"] else copy_gb_per_s)
            for row in _rows(log, _reorder)
        ],
        "findings": [
            {
                "finding": key,
                **_summary(log, rows),
                "bound": bound,
                "about": about,
                "advice": _advice(key, name),
            }
            for key, (find, bound, about) in _FINDINGS.items()
            if (rows := find(log))
        ],
    }


def _wall_ms(log: VerboseLog) -> float | None:
    """Return the time from the first execution to the end of the last, if lines have time stamps."""
    stamped = [each for each in log.executions if each.start_ms is not None]
    if not stamped:
        return None
    start, end = stamped[0].start_ms or 0.0, (stamped[-1].start_ms or 0.0) + stamped[-1].ms
    return end - start if end >= start else None


def _guess(log: VerboseLog) -> str:
    """Guess the framework from typical properties of torch's lines: its threads and its scratchpads."""
    is_openmp = any("runtime:OpenMP" in line for line in log.info)
    users = sum(p.attributes.startswith("attr-scratchpad:user") for p in log.primitives)
    return "torch" if is_openmp and 2 * users > len(log.primitives) else ""


def _rows(log: VerboseLog, key: Callable[[LoggedPrimitive], dict[str, Any] | None]) -> list[dict[str, Any]]:
    """Return executions grouped by a key, the longest first, with calls, time, share and bytes."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    heads: dict[tuple[Any, ...], dict[str, Any]] = {}
    for place, primitive in enumerate(log.primitives):
        head = key(primitive)
        if head is not None:
            groups.setdefault(tuple(head.values()), []).append(place)
            heads[tuple(head.values())] = head
    rows = []
    for group, places in groups.items():
        ms = fsum(log.times[place] for place in places)
        sizes = [log.primitives[place].bytes for place in places]
        known = [
            size * log.counts[place] for size, place in zip(sizes, places, strict=True) if size is not None
        ]
        nbytes = sum(known) if len(known) == len(places) else None
        calls = sum(log.counts[place] for place in places)
        rows.append(heads[group] | {"calls": calls, "ms": ms, "share": _share(ms, log), "bytes": nbytes})
    return sorted(rows, key=lambda row: -row["ms"])


def _share(ms: float, log: VerboseLog) -> float:
    return ms / log.total_ms if log.total_ms else 0.0


def _reorder(p: LoggedPrimitive) -> dict[str, Any] | None:
    """Return the key that distinguishes reorders: dims, types, formats, kernel."""
    src, dst = p.tensor("src"), p.tensor("dst")
    if p.kind != "reorder" or src is None or dst is None:
        return None
    types = src.data_type if src.data_type == dst.data_type else f"{src.data_type} -> {dst.data_type}"
    formats = f"{src.format} -> {dst.format}"
    head = {"dims": p.problem, "type": types, "formats": formats, "implementation": p.implementation}
    return head | {"engine": p.engine, "is_on_cpu": p.is_on_cpu}


def _with_rate(row: dict[str, Any], copy: float | None) -> dict[str, Any]:
    rate = row["bytes"] / row["ms"] / 1e6 if row["bytes"] and row["ms"] > _SHORTEST_MS else None
    if rate is None or rate > min(_FASTEST, _MOST_COPIES * (copy or _FASTEST)):
        return row | {"gb_per_s": None, "of_copy": None}
    return row | {"gb_per_s": rate, "of_copy": rate / copy if copy else None}


def _partitions(log: VerboseLog) -> list[dict[str, Any]]:
    """Return the partitions of the graph API, the longest first."""
    total = fsum(ms for _, ms in log.partitions.values()) or 1.0
    rows = [
        {"kind": kind, "implementation": name, "calls": calls, "ms": ms, "share": ms / total}
        for (kind, name), (calls, ms) in log.partitions.items()
    ]
    return sorted(rows, key=lambda row: -row["ms"])


# --- findings -----------------------------------------------------------------------------------------------

Costs = dict[int, tuple[int, float]]
"""Calls and milliseconds of each primitive in a finding."""


def _summary(log: VerboseLog, costs: Costs) -> dict[str, Any]:
    ms = fsum(cost for _, cost in costs.values())
    order = sorted(costs, key=lambda place: -costs[place][1])
    examples = [
        {**_named(log.primitives[place]), "calls": costs[place][0], "ms": costs[place][1]} for place in order
    ]
    calls = sum(calls for calls, _ in costs.values())
    return {"calls": calls, "ms": ms, "share": _share(ms, log), "primitives": examples}


def _named(p: LoggedPrimitive) -> dict[str, Any]:
    keys = ("kind", "implementation", "formats", "problem")
    return {key: getattr(p, key)[:_LONGEST] for key in keys}


def _constants(log: VerboseLog) -> Costs:
    """Return reorders into the format of a product's weights, in every repetition except the first.

    In training the weights change between repetitions.
    """
    length, repeats = log.period
    if repeats < 2 or log.is_training:
        return {}
    weights = _weights(log)
    found: Costs = {}
    times: dict[int, list[float]] = {}
    for each in log.executions:
        times.setdefault(each.primitive, []).append(each.ms)
    for place, once in Counter(each.primitive for each in log.executions[-length:]).items():
        dst, src = (log.primitives[place].tensor(name) for name in ("dst", "src"))
        if log.primitives[place].kind != "reorder" or dst is None or src is None:
            continue
        if src.desc != dst.desc and (dst.desc in weights or (dst.data_type, dst.tag) in weights):
            again = times[place][once:]
            found[place] = len(again), fsum(again)
    return found


def _weights(log: VerboseLog) -> set[object]:
    """Return the descriptors of weights; type and tag for recurrent networks, whose lines give no dims."""
    products = {p.tensor("wei") for p in log.primitives if p.kind in _PRODUCTS}
    recurrent = {p.tensor(name) for p in log.primitives if p.kind == "rnn" for name in _RNN_WEIGHTS}
    descs = {t.desc for t in products if t is not None and t.desc is not None}
    return descs | {(t.data_type, t.tag) for t in recurrent if t is not None}


def _images(log: VerboseLog) -> Costs:
    """Return reorders of images of few colors to channels last, if the log has several runs."""
    if log.period[1] < 2:
        return {}
    weights = _weights(log)
    return _all_of(log, lambda p: (pair := _ends(p)) is not None and pair[1] not in weights and _is_image(p))


def _is_image(p: LoggedPrimitive) -> bool:
    src, dst = p.tensor("src"), p.tensor("dst")
    if src is None or dst is None or src.desc is None or dst.tag not in ("acdb", "acdeb"):
        return False
    return _is_row_major(src.tag) and src.desc.dims[1] <= _COLORS


def _undone(log: VerboseLog) -> Costs:
    """Return reorders that a later execution of the same run soon reverses, and that one, if no execution
    between uses the tensor.

    In training, gradients are reordered back from the format of the weights.
    """
    ends = [_ends(p) for p in log.primitives]
    times: dict[int, list[float]] = {}
    for run in () if log.is_training else log.runs:
        waiting: dict[tuple[MemoryDesc, MemoryDesc], list[int]] = {}
        for number in run:
            each = log.executions[number]
            pair = ends[each.primitive]
            if pair is None or pair[0] == pair[1]:
                continue
            earlier = waiting.get(pair[::-1], [])
            start = earlier.pop() if earlier else -_NEAR
            between = log.executions[start + 1 : number] if number - start < _NEAR else None
            source = log.primitives[each.primitive].tensors[0]
            if between is not None and not any(_uses(log.primitives[e.primitive], source) for e in between):
                for one in (log.executions[start], each):
                    times.setdefault(one.primitive, []).append(one.ms)
            else:
                waiting.setdefault(pair, []).append(number)
    return {place: (len(values), fsum(values)) for place, values in times.items()}


def _uses(p: LoggedPrimitive, wanted: LoggedTensor) -> bool:
    """Return whether a primitive may read or write a tensor.

    A tensor without blocks can be read with other dims. Lines of recurrent networks do not give the dims, so
    that their tensors are compared by type and tag.
    """
    for tensor in p.tensors:
        if tensor.desc is None or wanted.desc is None:
            is_same = tensor.tag == wanted.tag
        else:
            are_plain = tensor.tag.isalpha() and wanted.tag.isalpha()
            is_same = tensor.desc == wanted.desc or (are_plain and tensor.desc.size == wanted.desc.size)
        if is_same and tensor.data_type == wanted.data_type:
            return True
    return False


def _copies(log: VerboseLog) -> Costs:
    """Return reorders that change neither format nor type."""
    same = [place for place, p in enumerate(log.primitives) if (pair := _ends(p)) and pair[0] == pair[1]]
    return {place: (log.counts[place], log.times[place]) for place in same}


def _ends(p: LoggedPrimitive) -> tuple[MemoryDesc, MemoryDesc] | None:
    """Return what a reorder reads and writes; None for other primitives, and if it computes."""
    src, dst = p.tensor("src"), p.tensor("dst")
    if p.kind != "reorder" or src is None or dst is None or src.desc is None or dst.desc is None:
        return None
    if any(word in p.attributes for word in _COMPUTING):
        return None
    return src.desc, dst.desc


def _plain(log: VerboseLog) -> Costs:
    """Return products with a plain tensor that the program chose: weights, or images of many channels.

    Weights that training changes are not worth packing, and GPUs have fast kernels for plain formats.
    """
    is_marked = log.marks_any and not log.is_training
    return _all_of(log, lambda p: p.kind in _PRODUCTS and p.is_on_cpu and _is_forced(p, is_marked))


def _is_forced(p: LoggedPrimitive, marked: bool) -> bool:
    for tensor in p.tensors:
        # The weights of a matrix product are restricted by any plain format: torch's linear layers have `ba`.
        is_transposed = tensor.name == "wei" and p.kind == "matmul" and tensor.tag == "ba"
        if tensor.desc is None or tensor.was_any or not (is_transposed or _is_row_major(tensor.tag)):
            continue
        channels = tensor.desc.dims[1] if tensor.desc.ndims > 1 else 0
        is_image = tensor.name != "wei" and tensor.desc.ndims > 3 and "convolution" in p.kind
        # An image of one pixel is both row-major and channels last.
        if is_image and channels > _FEW_CHANNELS and prod(tensor.desc.dims[2:]) > 1:
            return True
        # In a batched matrix product, the second factor is usually not a constant.
        is_constant = tensor.name == "wei" and (p.kind != "matmul" or tensor.desc.ndims == 2)
        if is_constant and marked and tensor.desc.nelems > _FEW_CHANNELS**2:
            return True
    return False


def _is_row_major(tag: str) -> bool:
    return tag.isalpha() and tag == "abcdefghijkl"[: len(tag)]


def _reference(log: VerboseLog) -> Costs:
    """Return primitives that use oneDNN's reference code."""
    return _all_of(log, lambda p: _REFERENCE.search(p.implementation) is not None)


def _padding(log: VerboseLog) -> Costs:
    """Return primitives with a tensor enlarged by padding, and the share of their time that it may cost."""
    found: Costs = {}
    for place, p in enumerate(log.primitives):
        waste = max((_padded(t.desc) for t in p.tensors if t.desc is not None), default=0.0)
        if waste > _PADDED:
            found[place] = log.counts[place], log.times[place] * waste
    return found


def _padded(md: MemoryDesc) -> float:
    """Return the fraction of the elements that is padding."""
    # No program can give an image of three colors more channels.
    if md.ndims > 2 and md.dims[1] <= _COLORS:
        return 0.0
    whole = prod(md.padded_dims)
    return 1 - md.nelems / whole if whole else 0.0


def _all_of(log: VerboseLog, matches: Callable[[LoggedPrimitive], bool]) -> Costs:
    places = [place for place, p in enumerate(log.primitives) if matches(p)]
    return {place: (log.counts[place], log.times[place]) for place in places}


_FINDINGS: dict[str, tuple[Callable[[VerboseLog], Costs], str, str]] = {
    "constant reorders": (_constants, "", "weights are reordered again in every run"),
    "input reorders": (_images, "", "the network's input is reordered to channels last in every run"),
    "undone reorders": (_undone, "", "pairs of reorders undo each other"),
    "copies": (_copies, "", "reorders change neither format nor type: they only copy"),
    "plain formats": (_plain, "at most ", "products are restricted to plain formats"),
    "reference code": (_reference, "at most ", "primitives run by reference code, without a fast kernel"),
    "padding": (_padding, "about ", f"more than {_PADDED:.0%} of a tensor is padding"),
}

_CHANNELS_LAST = "model.to(memory_format=torch.channels_last), and the input too"
_FREEZE = "torch.compile with TORCHINDUCTOR_FREEZING=1 under torch.no_grad() packs weights once"
_ANY = "create primitives with format_tag::any for"
_TYPES = "see why with ONEDNN_VERBOSE=dispatch: a type, a rank or a post-op that no fast kernel supports"
_ADVICE = {
    "constant reorders": {
        "torch": _FREEZE,
        "openvino": "make weights Constants of the model, not Parameters, and its shapes static",
        "tensorflow": "freeze the graph, so that weights are Const nodes: only those are packed once",
        "onednn": "reorder weights once into weights_desc() of the primitive descriptor, and keep them",
    },
    "input reorders": {
        "torch": "pass x.to(memory_format=torch.channels_last), made where the image is read",
        "openvino": "give the input its layout with PrePostProcessor: input().tensor().set_layout('NHWC')",
        "tensorflow": "pass images as NHWC",
        "onednn": "pass the source in format_tag::nhwc",
    },
    "undone reorders": {
        "torch": f"torch.compile with TORCHINDUCTOR_FREEZING=1, or {_CHANNELS_LAST}",
        "openvino": "look at the operation between in the runtime model: it may have no blocked format",
        "tensorflow": "an operation between is not oneDNN's: let grappler's remapper fuse it, or use NHWC",
        "onednn": f"{_ANY} sources, and pass the previous dst_desc() on; reorder once, at the end",
    },
    "copies": {
        "torch": "to_dense() and to_mkldnn() copy at each border: convert the whole model, or compile it",
        "openvino": "look for Reorder nodes in compiled.get_runtime_model()",
        "tensorflow": "look for Identity and _MklToTf nodes around the operation",
        "onednn": "omit the reorder if the two descriptors are equal",
    },
    "plain formats": {
        "torch": f"of images: {_CHANNELS_LAST}; of linear layers in inference: {_FREEZE}",
        "openvino": "remove explicit Transpose or layout changes at the operation from the model",
        "tensorflow": "keep TF_ENABLE_ONEDNN_OPTS=1 and NHWC; for inference, freeze the graph",
        "onednn": f"{_ANY} its source, weights and destination, then reorder where the choice differs",
    },
    "reference code": dict.fromkeys(FRAMEWORKS, _TYPES),
    "padding": dict.fromkeys(FRAMEWORKS, "make channels a multiple of the block, or merge narrow layers"),
}


def _advice(finding: str, framework: str) -> str:
    return _ADVICE[finding][framework if framework in FRAMEWORKS else "onednn"]


# --- text ---------------------------------------------------------------------------------------------------


def report_text(name: str, values: dict[str, Any]) -> str:
    """Format the result of `report` as text; `name` is that of the log."""
    return "\n".join(line.rstrip() for line in _lines(name, values))


def _lines(name: str, values: dict[str, Any]) -> Iterator[str]:
    yield f"{name}: {_head(values)}"
    yield from _notes(values)
    yield from _table("by primitive", ("kind",), values["by_primitive"])
    yield from _table("by format", ("kind", "formats"), values["by_format"])
    title = "partitions of the graph API; their time includes that of their primitives"
    yield from _table(title, ("kind", "implementation"), values["partitions"])
    rows = [row | {"speed": _speed(row)} for row in values["reorders"]]
    is_compared = any(row["of_copy"] is not None for row in rows)
    title = "reorders" + (f"; a copy: {values['copy_gb_per_s']:.3g} GB/s" if is_compared else "")
    engine = [] if all(row["is_on_cpu"] for row in rows) else ["engine"]
    yield from _table(title, ("dims", "type", "formats", "implementation", *engine), rows, "speed")
    for number, finding in enumerate(values["findings"], 1):
        yield ""
        yield f"{number}. {finding['about']}: {finding['bound']}{_ms(finding['ms'])}, {finding['share']:.1%}"
        for each in finding["primitives"][:_MOST_EXAMPLES]:
            words = (each["kind"], each["problem"], each["formats"], each["implementation"])
            yield f"   {' '.join(words)}: {each['calls']} x, {_ms(each['ms'])}"
        if len(finding["primitives"]) > _MOST_EXAMPLES:
            yield f"   {len(finding['primitives']) - _MOST_EXAMPLES} more with --json"
        yield f"   {FRAMEWORKS[values['framework']]}: {finding['advice']}"
    if not values["findings"] and values["executions"]:
        yield from ("", "nothing found that could be saved")


def _head(values: dict[str, Any]) -> str:
    parts = []
    if values["executions"] or not values["partitions"]:
        calls, primitives = (
            counted(values["executions"], "execution"),
            counted(values["primitives"], "primitive"),
        )
        parts.append(f"{calls} of {primitives} in {_ms(values['total_ms'])}")
    if values["wall_ms"] is not None:
        parts[0] += f", of {_ms(values['wall_ms'])} from first to last"
    made = values["created"].values()
    if made:
        calls, ms = sum(each["calls"] for each in made), fsum(each["ms"] for each in made)
        parts.append(f"{counted(calls, 'creation')} in {_ms(ms)}")
    if rows := values["partitions"]:
        calls, ms = sum(row["calls"] for row in rows), fsum(row["ms"] for row in rows)
        parts.append(f"{counted(calls, 'execution')} of partitions in {_ms(ms)}")
    return "; ".join(parts)


def _notes(values: dict[str, Any]) -> Iterator[str]:
    for line in values["info"][:3]:
        yield f"  {line}"
    repeats = values["repeats"]
    if repeats["times"] > 1:
        yield f"  ends with {repeats['times']} repetitions of {counted(repeats['executions'], 'execution')}"
    if values["is_training"]:
        yield "  has backward primitives: weights change in every step, so their reorders are not findings"
    if values["refused_lines"]:
        yield f"  {counted(values['refused_lines'], 'line')} left out, first:"
        for each in values["refusals"][:3]:
            yield f"    line {each['line']} {each['why']}"


def _table(title: str, keys: Sequence[str], rows: Sequence[dict[str, Any]], last: str = "") -> Iterable[str]:
    if not rows:
        return
    yield from ("", title)
    columns = ["bytes"] * ("bytes" in rows[0]) + [last] * bool(last)
    cells = [["", *keys, "calls", "time", "share", *columns]]
    for row in rows[:_MOST_ROWS]:
        words = [str(row[key])[:_LONGEST] for key in keys]
        nbytes = "?" if row.get("bytes") is None else data_size(row["bytes"])
        numbers = [row["calls"], _ms(row["ms"]), f"{row['share']:.1%}"]
        cells.append(["", *words, *numbers, *(nbytes if key == "bytes" else row[key] for key in columns)])
    yield from aligned(cells, "<" * (1 + len(keys)) + ">" * (3 + len(columns)))
    if len(rows) > _MOST_ROWS:
        yield f"  {len(rows) - _MOST_ROWS} more with --json"


def _speed(row: dict[str, Any]) -> str:
    if row["gb_per_s"] is None:
        return "?"
    return f"{row['gb_per_s']:.3g} GB/s" + ("" if row["of_copy"] is None else f", {row['of_copy']:.0%}")


def _ms(ms: float) -> str:
    return duration(ms / 1e3)
