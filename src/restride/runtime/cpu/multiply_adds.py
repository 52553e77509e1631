"""The peak of a processor: the number of f32 multiply-adds per second, without memory access."""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from ...targets.compile_pool import compile_ir
from ...targets.isa import host_isa
from ...targets.jit import Library, load

# Enough independent sums to hide latency, while leaving registers free.
_SUMS = 20
_TURNS, _ROUNDS = 1_000_000, 20
_ENTRY = "multiply_adds"


def peak(threads: int) -> float:
    """Return f32 operations per second on `threads` threads, the best of a few; a multiply-add is two."""
    library, lanes = _compiled()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address(_ENTRY))
    held = [(ctypes.c_float * (lanes * _SUMS))() for _ in range(threads)]
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            list(pool.map(lambda each: call(ctypes.addressof(each), _TURNS), held))
            taken = time.perf_counter() - start
            best = max(best, 2 * threads * _TURNS * _SUMS * lanes / taken)
    return best


@lru_cache(maxsize=1)
def _compiled() -> tuple[Library, int]:
    """Return the loop, and the lanes of its vectors."""
    isa = host_isa()
    lanes = isa.vector_bytes // 4
    return load(compile_ir(_ir(lanes, is_fused="fma" in isa.features or lanes >= 16), isa)), lanes


def _ir(lanes: int, *, is_fused: bool) -> str:
    kind = f"<{lanes} x float>"
    places = [f"  %p{i} = getelementptr {kind}, ptr %sums, i64 {i}" for i in range(_SUMS)]
    first = [f"  %f{i} = load {kind}, ptr %p{i}, align 4" for i in range(_SUMS)]
    heads = [f"  %s{i} = phi {kind} [ %f{i}, %entry ], [ %t{i}, %loop ]" for i in range(_SUMS)]
    if is_fused:
        body = [
            f"  %t{i} = call {kind} @llvm.fma.v{lanes}f32({kind} %s{i}, {kind} %f0, {kind} %f1)"
            for i in range(_SUMS)
        ]
    else:
        body = [
            line
            for i in range(_SUMS)
            for line in (f"  %m{i} = fmul {kind} %s{i}, %f0", f"  %t{i} = fadd {kind} %m{i}, %f1")
        ]
    last = [f"  store {kind} %t{i}, ptr %p{i}, align 4" for i in range(_SUMS)]
    lines = [
        f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})",
        f"define void @{_ENTRY}(ptr %sums, i64 %turns) {{",
        "entry:",
        *places,
        *first,
        "  br label %loop",
        "loop:",
        *heads,
        "  %n = phi i64 [ 0, %entry ], [ %m, %loop ]",
        *body,
        "  %m = add i64 %n, 1",
        "  %more = icmp slt i64 %m, %turns",
        "  br i1 %more, label %loop, label %end",
        "end:",
        *last,
        "  ret void",
        "}",
    ]
    return "\n".join(lines)
