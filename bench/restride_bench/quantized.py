"""Products of f32 rows by quantized weights, packed once.

4 bits in groups of 32 are compared with ONNX Runtime's MatMulNBits, which multiplies floats at level 0 and
bytes at level 4, torch's, which is of bf16, and restride's own products of f32 and of bytes. Every format
of stored weights is measured with one row, as in a step of a language model: bytes of weights, source and
result in a second, compared with a loop that only reads as many.

Each side runs in blocks: a pause until no thread of the others spins, two runs that are not timed, and seven
that are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import restride as rs

from . import layers
from .measure import Call
from .onnx_runtime import session_of
from .pages import gb, mean_of, ratio, size_words, table
from .peer import PreparedCall
from .problem import Array
from .read_stream import read_rate
from .stored_formats import module
from .study import OWN, BenchRow, BenchSetup, RowPlan, Study, race

_WEIGHTS, _ROWS, _SCALES = ((4096, 11008), (11008, 4096), (2048, 2048)), (1, 16, 128), ("f32", "f16")
_FOUR_BITS = {"dtype": "s4", "group": 32}
_GROUP = 32
# What stores the elements of some formats, and how their groups share scales; others have names.
_STORED: Mapping[str, Mapping[str, Any]] = {
    "q4_0": _FOUR_BITS | {"scale_type": "f16"},
    "q4_1": {"dtype": "u4", "group": 32, "scale_type": "f16", "symmetric": False},
    "q8_0": {"dtype": "s8", "group": 32, "scale_type": "f16"},
}
_FORMATS = (
    *("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl"),
    *("mxfp4", "nvfp4"),
)
_ANY, _F32, _BYTES, _TORCH = "any", "f32", "u8·s8", "torch bf16"
_LEVELS = {"MatMulNBits 0": 0, "MatMulNBits 4": 4}
_OF_FLOATS, _EXACT, _ROUNDED = (OWN, "MatMulNBits 0"), 1e-4, 3e-2
_PAUSE, _UNTIMED, _BLOCK = 0.25, 2, 7


@dataclass(frozen=True)
class QuantizedRow:
    """Rows times weights of `k` x `n`, of a stored format, or of 4 bits with scales of a type."""

    rows: int
    k: int
    n: int
    scale_type: str = ""
    stored: str = ""

    @property
    def name(self) -> str:
        """The row as the table has it."""
        return f"{self.stored or f's4, scales {self.scale_type}'} {self.rows} x {self.k} x {self.n}"

    def quantized(self) -> rs.QuantizedTensor:
        """Random weights, (k, n); groups lie along k."""
        turned = np.random.default_rng(0).standard_normal((self.n, self.k), dtype=np.float32)
        own = {"dtype": self.stored} if self.stored else _FOUR_BITS | {"scale_type": self.scale_type}
        way: Any = _STORED.get(self.stored, own)
        q: rs.QuantizedTensor = _api.quantize(turned, **way)
        if self.stored != "q4_1":
            return q.T
        assert q.zero_point is not None
        least = -q.scale.to_numpy().astype(np.float32) * q.zero_point.to_numpy().astype(np.float32)
        minimum = rs.Memory(q.scale.desc, rs.Engine("cpu"))
        rs.reorder(least, None, out=minimum)
        return rs.QuantizedTensor(q.values, q.scale, minimum=minimum).T


_api: Any = rs  # whose overloads a call with words does not choose


def rows() -> Iterator[QuantizedRow]:
    """4 bits in each shape, then one row by weights of each format."""
    for k, n in _WEIGHTS:
        for count in _ROWS:
            yield from (QuantizedRow(count, k, n, kind) for kind in _SCALES)
    yield from (QuantizedRow(1, *_WEIGHTS[0], stored=name) for name in _FORMATS)


def measure(setting: BenchSetup) -> list[BenchRow]:
    """All rows."""
    return [measure_row(setting, row) for row in rows()]


def measure_row(setting: BenchSetup, row: QuantizedRow) -> BenchRow:
    """One row."""
    q = row.quantized()
    x = np.random.default_rng(1).standard_normal((row.rows, row.k), dtype=np.float32)
    calls, sizes = dict[str, Callable[[], Any]](), dict[str, int]()
    for side, mode in ((OWN, "strict"), (_ANY, "any")):
        packed = rs.pack_weights(q, fpmath_mode=mode)
        calls[side] = partial(
            rs.matmul, x, packed, fpmath_mode=mode, out=np.empty((row.rows, row.n), x.dtype)
        )
        sizes[side] = packed.nbytes
    own = dict[str, Call]()
    if not row.stored:
        codes, scales = (np.ascontiguousarray(part.to_numpy().T) for part in (q.values, q.scale))
        codes, scales = (codes.astype(np.int32) + 8).astype(np.uint8), scales.astype(np.float32)
        calls |= _by_onnx_runtime(x, codes, scales)
        if setting.torch is not None:
            calls[_TORCH] = _by_torch(setting.torch.torch, x, codes, scales)
        layer = layers.matmul("", row.rows, row.k, row.n)
        own = {types: layers.restride_calls(layer, types)[0].alone for types in (_F32, _BYTES)}
    sides = {side: PreparedCall(call) for side, call in (calls | own).items()}
    wanted = x @ q.dequantize().to_numpy()

    def check() -> dict[str, str]:
        largest = float(np.abs(wanted).max())
        off = {side: float(np.abs(_numbers(call()) - wanted).max()) / largest for side, call in calls.items()}
        limits = {side: _EXACT if side in _OF_FLOATS else _ROUNDED for side in calls}
        return {side: f"off by {n:.2g} of the largest" for side, n in off.items() if not n <= limits[side]}

    moved = sizes[OWN] + x.nbytes + wanted.nbytes
    about = {
        "rows": row.rows,
        "stored": row.stored,
        "bytes of weights": sizes,
        "read in a second": read_rate(moved, setting.threads),
    }
    plan = RowPlan(row.name, moved, sides, check, 2 * row.rows * row.k * row.n, about=about)
    setting = replace(setting, copiers=[], rounds=max(setting.rounds // 3, 1))
    return race(plan, setting, number=_BLOCK, settle=_PAUSE, untimed=_UNTIMED)


def _numbers(result: Any) -> Array:
    result = result[0] if isinstance(result, list) else result
    return np.asarray(result.float() if hasattr(result, "float") else result)


# --- peers --------------------------------------------------------------------------------------------------


def _by_onnx_runtime(x: Array, codes: Array, scales: Array) -> dict[str, Call]:
    """Sessions of one node where it is installed; codes (n, k) from 0 to 15 stand for -8 to 7."""
    onnx = module("onnx")
    if onnx is None:
        return {}
    n, k = codes.shape
    pairs = (codes[:, ::2] | codes[:, 1::2] << 4).reshape(n, k // _GROUP, _GROUP // 2)
    helper, held = (
        onnx.helper,
        [onnx.numpy_helper.from_array(a, name) for a, name in ((pairs, "w"), (scales, "s"))],
    )
    found = dict[str, Call]()
    for side, level in _LEVELS.items():
        words = {"K": k, "N": n, "bits": 4, "block_size": _GROUP, "accuracy_level": level}
        node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **words)
        ends = [
            [helper.make_tensor_value_info(name, 1, [len(x), size])] for name, size in (("x", k), ("y", n))
        ]
        graph = helper.make_graph([node], "product", *ends, held)
        opsets = [helper.make_opsetid(*each) for each in (("", 17), ("com.microsoft", 1))]
        session = session_of(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
        if session is not None:
            found[side] = partial(session.run, None, {"x": x})
    return found


def _by_torch(torch: Any, x: Array, codes: Array, scales: Array) -> Call:
    """torch's product of packed weights of 4 bits, by rows of bf16: those of f32 are far slower."""
    packed = torch._convert_weight_to_int4pack_for_cpu(torch.from_numpy(codes.astype(np.int32)), 1)
    factors = torch.from_numpy(np.stack([scales.T, np.zeros_like(scales.T)], -1)).bfloat16().contiguous()
    inferring: Any = torch.inference_mode()
    product = torch._weight_int4pack_mm_for_cpu
    call: Call = inferring(partial(product, torch.from_numpy(x).bfloat16(), packed, _GROUP, factors))
    return call


# --- the page -----------------------------------------------------------------------------------------------

_AGAINST = {
    "times MatMulNBits 0": (OWN, "MatMulNBits 0"),
    "any, times MatMulNBits 4": (_ANY, "MatMulNBits 4"),
}


def page(rows: Sequence[BenchRow]) -> str:
    """Two tables: 4 bits compared with others, in ms, and stored formats compared with the read stream."""
    beside = [row for row in rows if not row.about["stored"]]
    others = list(dict.fromkeys(side for row in beside for side in row.times if side != OWN))
    lines = [
        [
            row.name,
            *(f"{row.seconds(side) * 1e3:.3f}" if side in row.times else "–" for side in (OWN, *others)),
            *(ratio(row.over(other, side)) for side, other in _AGAINST.values()),
        ]
        for row in beside
    ]
    for count in dict.fromkeys(row.about["rows"] for row in beside):
        same = [row for row in beside if row.about["rows"] == count]
        means = [mean_of(row.over(other, side) for row in same) for side, other in _AGAINST.values()]
        said = (f"{ratio(mean[0])} (worst {ratio(mean[1])})" if mean else "–" for mean in means)
        lines.append([f"geometric mean, rows: {count}", *[""] * (1 + len(others)), *said])
    parts = [table(["ms", "restride", *others, *_AGAINST], lines)]
    stored = [
        [
            *(
                row.name,
                size_words(row.moved),
                f"{row.seconds() * 1e3:.3f}",
                f"{row.seconds(_ANY) * 1e3:.3f}",
            ),
            *(gb(row.rate(side)) for side in (OWN, _ANY)),
            gb(row.about["read in a second"]),
            *(ratio(row.rate(side) / row.about["read in a second"]) for side in (OWN, _ANY)),
        ]
        for row in rows
    ]
    head = [
        "weights",
        "read",
        "ms",
        "any, ms",
        "GB/s",
        "any, GB/s",
        "read stream, GB/s",
        "of it",
        "any, of it",
    ]
    return "\n\n".join([*parts, table(head, stored)]) if rows else ""


STUDY = Study("Products by quantized weights", measure, page)
