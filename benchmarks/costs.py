"""What a call costs beside the moving of data: microseconds, Python calls and source files.

    python benchmarks/costs.py                                  the restride that Python finds
    python benchmarks/costs.py --against OTHER/src              two revisions in turn, and their ratios
    python benchmarks/costs.py --json costs.json --rounds 9

Every round measures each revision in processes of its own. A time is the least of all rounds, as other work
only adds to it; a ratio is the median over the rounds, this revision divided by the other. What happens
once in a process is processor time. Calls are those of restride's Python functions, files those that they
stand in: `cold` is the first use in a process whose kernels lie on disk, `warm` the fourth. The rows use
public names alone, so that older and newer revisions can be compared.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

Action = Callable[[], object]

_SAMPLES, _SAMPLE_S, _OPTIMIZED = 9, 0.004, 0x1
_IMPORT = "import time; t = time.process_time(); import restride; print((time.process_time() - t) * 1e6)"
_IMPORT_ALONE = f"import numpy, ml_dtypes; {_IMPORT}"


# --- what is measured ---------------------------------------------------------------------------------------


class _Made:
    """Arrays, memories and primitives that the rows share; small, so that hardly any data is moved."""

    def __init__(self, rs: Any, engine: str = "cpu") -> None:
        import numpy as np

        self.rs, self.engine = rs, rs.Engine(engine)
        self.stream = rs.Stream(self.engine)
        self.x = np.ones((1, 16, 4, 4), np.float32)
        self.out = rs.reorder(self.x, "nhwc") if engine == "cpu" else None

    def memory(self, data_type: str, tag: str, dims: tuple[int, ...] = (1, 16, 4, 4)) -> Any:
        return self.rs.Memory(self.rs.MemoryDesc(dims, data_type, tag), self.engine)

    def execution(self, primitive: Any, *args: Any) -> Action:
        return lambda: primitive.execute(self.stream, *args)

    def reorder_primitive(self) -> Action:
        src, dst = self.memory("f32", "nchw"), self.memory("f32", "nhwc")
        return self.execution(self.rs.Reorder(src, dst), src, dst)

    def scaled_primitive(self) -> Action:
        """A scale for each channel, passed at execution."""
        rs = self.rs
        attr = rs.PrimitiveAttr()
        attr.set_scales(rs.ARG_SRC, 2)
        src, dst, scales = (
            self.memory("f32", "nchw"),
            self.memory("s8", "nhwc"),
            self.memory("f32", "a", (16,)),
        )
        args = {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_ATTR_SCALES | rs.ARG_SRC: scales}
        return self.execution(rs.Reorder(src, dst, attr), args)

    def shuffle_primitive(self) -> Action:
        rs = self.rs
        src, dst = self.memory("f32", "nchw"), self.memory("f32", "nchw")
        desc = rs.ShuffleForward.Desc("forward_inference", src.desc, 1, 4)
        primitive = rs.ShuffleForward(rs.ShuffleForward.PrimitiveDesc(desc, self.engine))
        return self.execution(primitive, src, dst)

    def concat_primitive(self) -> Action:
        rs = self.rs
        srcs, dst = [self.memory("f32", "nchw") for _ in range(2)], self.memory("f32", "nchw", (1, 32, 4, 4))
        pd = rs.Concat.PrimitiveDesc(self.engine, 1, [src.desc for src in srcs], dst.desc)
        return self.execution(rs.Concat(pd), srcs, dst)

    def sum_primitive(self) -> Action:
        rs = self.rs
        srcs, dst = [self.memory("f32", "nchw") for _ in range(2)], self.memory("f32", "nchw")
        pd = rs.Sum.PrimitiveDesc(self.engine, [1.0, 1.0], [src.desc for src in srcs], dst.desc)
        return self.execution(rs.Sum(pd), srcs, dst)

    def attribute_chain(self) -> object:
        return self.rs.reorder(self.x, "nhwc", dtype="s8", scale=0.5, zero_point=3, post_ops=["relu"])

    def synchronous(self, action: Action) -> Action:
        """The action, and its end on the device."""

        def run() -> None:
            action()
            self.stream.wait()

        return run


def _rows(rs: Any) -> dict[str, Action]:
    """Warm calls, by name."""
    made = _Made(rs)
    x, out, engine = made.x, made.out, made.engine
    blocked = rs.reorder(x, "nChw16c")
    src_md, dst_md = rs.MemoryDesc((1, 16, 4, 4), "f32", "nchw"), rs.MemoryDesc((1, 16, 4, 4), "f32", "nhwc")
    return {
        "Reorder.execute": made.reorder_primitive(),
        "Reorder.execute, runtime scales": made.scaled_primitive(),
        "Concat.execute": made.concat_primitive(),
        "Sum.execute": made.sum_primitive(),
        "ShuffleForward.execute": made.shuffle_primitive(),
        "rs.reorder, out=": lambda: rs.reorder(x, "nhwc", out=out),
        "rs.reorder, new result": lambda: rs.reorder(x, "nhwc"),
        "rs.reorder, to a blocked Memory": lambda: rs.reorder(x, "nChw16c"),
        "rs.reorder, into a blocked Memory": lambda: rs.reorder(x, "nChw16c", out=blocked),
        "rs.reorder, from a blocked Memory": lambda: rs.reorder(blocked, "nchw"),
        "rs.reorder, scale and post-op": made.attribute_chain,
        "rs.shuffle": lambda: rs.shuffle(x, group_size=4),
        "rs.concat": lambda: rs.concat([x, x], axis=1),
        "rs.add_n": lambda: rs.add_n([x, x]),
        "Reorder.PrimitiveDesc, cache hit": lambda: rs.Reorder.PrimitiveDesc(engine, src_md, engine, dst_md),
        "Reorder, cache hit": lambda: rs.Reorder(rs.Reorder.PrimitiveDesc(engine, src_md, engine, dst_md)),
    }


def _creation(rs: Any) -> Action:
    """The first problem of its kind in a process: its kernel is read from disk."""
    made = _Made(rs)
    dims = (1, 20, 3, 5)
    src, dst = made.memory("f32", "nchw", dims), made.memory("s8", "nChw16c", dims)
    return lambda: rs.Reorder(src, dst)


# Each makes what is needed before the first use, and gives that use: an action that makes the repeated one.
_TRACED: dict[str, Callable[[Any], Callable[[], Action]]] = {
    "rs.reorder": lambda rs: _of_call(rs, lambda made: rs.reorder(made.x, "nhwc")),
    "Reorder.execute": lambda rs: _of_primitive(rs, "reorder_primitive"),
    "rs.reorder with scale, zero point, post-op": lambda rs: _of_call(
        rs, lambda made: made.attribute_chain()
    ),
    "Reorder.execute with runtime scales": lambda rs: _of_primitive(rs, "scaled_primitive"),
    "rs.concat": lambda rs: _of_call(rs, lambda made: rs.concat([made.x, made.x], axis=1)),
    "Concat.execute": lambda rs: _of_primitive(rs, "concat_primitive"),
    "SYCL shuffle": lambda rs: _of_primitive(rs, "shuffle_primitive", "sycl"),
}


def _of_call(rs: Any, call: Callable[[_Made], object]) -> Callable[[], Action]:
    import numpy as np

    made = _Made.__new__(_Made)
    made.rs, made.x = rs, np.ones((1, 16, 4, 4), np.float32)
    return lambda: lambda: call(made)


def _of_primitive(rs: Any, name: str, engine: str = "cpu") -> Callable[[], Action]:
    made = _Made.__new__(_Made)
    made.rs, made.engine = rs, rs.Engine(engine)
    made.stream = rs.Stream(made.engine)

    def first() -> Action:
        action: Action = getattr(made, name)()
        return action if engine == "cpu" else made.synchronous(action)

    return first


# --- measuring, in a process of its own ---------------------------------------------------------------------


def _microseconds(action: Action) -> float:
    """The least time of one call, over samples of many."""
    for _ in range(20):
        action()
    count, taken = 1, 0.0
    while taken < _SAMPLE_S:
        count *= 2
        taken = _seconds(action, count)
    return min(_seconds(action, count) for _ in range(_SAMPLES)) / count * 1e6


def _seconds(action: Action, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        action()
    return time.perf_counter() - start


def _traced(action: Action) -> tuple[Any, int, set[str]]:
    """What an action gives; how many of restride's functions it calls, and the files of these."""
    calls, files = 0, set[str]()

    def see(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        code, module = frame.f_code, str(frame.f_globals.get("__name__", ""))
        # Bodies of modules and of classes are no functions.
        if event != "call" or module.partition(".")[0] != "restride" or not code.co_flags & _OPTIMIZED:
            return
        calls += 1
        if not code.co_filename.startswith("<"):
            files.add(code.co_filename)

    sys.setprofile(see)
    try:
        given = action()
    finally:
        sys.setprofile(None)
    return given, calls, files


def _child(what: str) -> object:
    """One measurement of this process; None where it needs what is not there."""
    import restride as rs

    if what == "rows":
        gc.disable()
        return {name: _microseconds(action) for name, action in _rows(rs).items()}
    if what == "creation":
        action = _creation(rs)
        start = time.process_time()
        action()
        return (time.process_time() - start) * 1e6
    try:
        first = _TRACED[what](rs)
    except rs.InvalidArguments:
        return None
    action, making, made_in = _traced(first)
    _, running, run_in = _traced(action)
    for _ in range(2):
        action()
    _, calls, files = _traced(action)
    return {"cold": [making + running, len(made_in | run_in)], "warm": [calls, len(files)]}


# --- the table ----------------------------------------------------------------------------------------------


class _Revision:
    """A source folder, measured by processes that find restride there."""

    def __init__(self, source: str | None, store: str) -> None:
        self.env = {**os.environ, "RESTRIDE_CACHE_DIR": store, "RESTRIDE_NUM_THREADS": "1"}
        if source is not None:
            self.env["PYTHONPATH"] = str(Path(source).resolve())
        self.times: dict[str, list[float]] = {}
        self.traces: dict[str, dict[str, list[int]]] = {}

    def python(self, *args: str) -> Any:
        done = subprocess.run(
            [sys.executable, *args], env=self.env, capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        return json.loads(done.stdout)

    def child(self, what: str) -> Any:
        return self.python(str(Path(__file__).resolve()), "--child", what)

    def trace(self) -> None:
        """Count calls; twice, as the first time may compile."""
        for name in _TRACED:
            self.child(name)
            found = self.child(name)
            if found is not None:
                self.traces[name] = found

    def measure(self) -> None:
        """One round of times."""
        found = self.child("rows")
        found["import restride"] = self.python("-c", _IMPORT)
        found["import restride, after its dependencies"] = self.python("-c", _IMPORT_ALONE)
        found["Reorder, first of a process, kernel on disk"] = self.child("creation")
        for name, taken in found.items():
            self.times.setdefault(name, []).append(taken)


def _table(mine: _Revision, other: _Revision | None) -> str:
    lines = [f"{'microseconds':46}{'least':>10}" + (f"{'other':>10}{'ratio':>8}" if other else "")]
    for name, times in mine.times.items():
        line = f"{name:46}{min(times):10.2f}"
        if other:
            pairs = zip(times, other.times[name], strict=True)
            line += f"{min(other.times[name]):10.2f}{statistics.median(a / b for a, b in pairs):8.2f}"
        lines.append(line)
    lines += ["", f"{'Python calls / files':46}{'cold':>14}{'warm':>12}"]
    for revision in filter(None, (mine, other)):
        lines += [
            f"{name:46}{_pair(found['cold']):>14}{_pair(found['warm']):>12}"
            for name, found in revision.traces.items()
        ]
        lines.append("")
    return "\n".join(lines)


def _pair(found: list[int]) -> str:
    return " / ".join(map(str, found))


def main() -> None:
    """Measure, print the table, and write the numbers."""
    parser = argparse.ArgumentParser(description="what a call costs beside the moving of data")
    parser.add_argument("--against", metavar="SRC", help="the source folder of another revision")
    parser.add_argument("--source", metavar="SRC", help="that of this one; what Python finds unless given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(_child(args.child)))
        return
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        mine = _Revision(args.source, one)
        other = _Revision(args.against, two) if args.against else None
        both = [mine, other] if other else [mine]
        for revision in both:
            revision.trace()
            revision.child("creation")
        for number in range(args.rounds):
            # Each round begins with another one.
            for revision in both if number % 2 else both[::-1]:
                revision.measure()
    print(_table(mine, other))
    if args.json:
        found = {
            name: {"us": r.times, "traces": r.traces}
            for name, r in zip(("this", "other"), both, strict=False)
        }
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
