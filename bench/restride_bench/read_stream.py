"""Read bandwidth of a machine, measured by loops that only load vectors."""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial

from restride.targets.isa import host_isa
from restride.targets.jit import Library, compile_ir, load

from .problem import storage

# Vectors of 64 bytes that a turn of the loop loads; passes over the bytes in a call, and calls.
_VECTORS, _PASSES, _ROUNDS = 8, 4, 8
_STEP = 64 * _VECTORS
_ENTRY = "read_stream"


def read_rate(nbytes: int, threads: int) -> float:
    """Bytes read in a second on so many threads, again and again the same, the best of a few rounds."""
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(_compiled().address(_ENTRY))
    turns = max(nbytes // (threads * _STEP), 1)
    held = [storage(turns * _STEP) for _ in range(threads)]
    for part in held:
        part[:] = 1
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            list(pool.map(partial(_pass_over, call, turns), [part.ctypes.data for part in held]))
            best = max(best, _PASSES * turns * _STEP * threads / (time.perf_counter() - start))
    return best


def _pass_over(call: ctypes._FuncPointer, turns: int, address: int) -> None:
    for _ in range(_PASSES):
        call(address, turns)


@lru_cache(maxsize=1)
def _compiled() -> Library:
    isa = host_isa()
    return load(compile_ir(_ir(), isa))


def _ir() -> str:
    """Vectors are combined by `or`, one sum for each of a turn, so that no load waits for another."""
    kind, numbers = "<8 x i64>", range(_VECTORS)
    ends = [f"  %e{i} = or {kind} {f'%e{i - 1}' if i else 'zeroinitializer'}, %t{i}" for i in numbers]
    lines = [
        f"declare i64 @llvm.vector.reduce.or.v8i64({kind})",
        f"define i64 @{_ENTRY}(ptr %source, i64 %turns) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        *(f"  %s{i} = phi {kind} [ zeroinitializer, %entry ], [ %t{i}, %loop ]" for i in numbers),
        "  %n = phi i64 [ 0, %entry ], [ %m, %loop ]",
        f"  %first = mul i64 %n, {_VECTORS}",
        f"  %p = getelementptr {kind}, ptr %source, i64 %first",
        *(f"  %p{i} = getelementptr {kind}, ptr %p, i64 {i}" for i in numbers),
        *(f"  %v{i} = load {kind}, ptr %p{i}, align 64" for i in numbers),
        *(f"  %t{i} = or {kind} %s{i}, %v{i}" for i in numbers),
        "  %m = add i64 %n, 1",
        "  %more = icmp slt i64 %m, %turns",
        "  br i1 %more, label %loop, label %end",
        "end:",
        *ends,
        f"  %whole = call i64 @llvm.vector.reduce.or.v8i64({kind} %e{_VECTORS - 1})",
        "  ret i64 %whole",
        "}",
    ]
    return "\n".join(lines)
