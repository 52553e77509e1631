"""A runtime with one network, in a process of its own: it runs as often as it is told, and tells the times.

    python -m restride_bench.network_runner RUNTIME MODEL.onnx SETTINGS.json

Each line that comes in is a number of runs; each that goes out is JSON. The first tells the first result and
what else there is to tell; the others the least seconds of a run, and the most memory that was resident.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

RUNTIMES = ("restride", "onnxruntime", "openvino", "torch")
# The module of a runtime, where that is not its name.
_MODULES = {"torch": "restride_bench.network_torch"}
Inputs = Mapping[str, Any]
Settings = Mapping[str, Any]
Call = Callable[[], list[Any]]


def main() -> None:
    """Load, run once, then as often as lines say."""
    runtime, path, settings = sys.argv[1], sys.argv[2], json.loads(Path(sys.argv[3]).read_text())
    rng = np.random.default_rng(1)
    inputs = {name: rng.standard_normal(dims).astype(np.float32) for name, dims in settings["dims"].items()}
    start = time.perf_counter()
    try:
        # Not in the process of another runtime, whose memory is measured.
        module = importlib.import_module(_MODULES.get(runtime, runtime))
        call, more = _LOADERS[runtime](module, path, inputs, settings)
        results = call()
    except Exception as error:  # runtimes raise what they like
        _say({"refused": f"{type(error).__name__}: {error}"})
        return
    first = time.perf_counter() - start
    np.save(settings["result"], results[0])
    _say({"first_seconds": first, **more()})
    for line in sys.stdin:
        _say({"seconds": min(_timed(call) for _ in range(int(line))), "peak_bytes": _peak()})


def _say(values: Mapping[str, Any]) -> None:
    print(json.dumps(values), flush=True)


def _timed(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _peak() -> int:
    """The most bytes that were resident: of this program, not of the one that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def _restride(rs: Any, path: str, inputs: Inputs, settings: Settings) -> tuple[Call, Callable[[], Any]]:
    rs.set_num_threads(settings["threads"])
    dims = {name: array.shape for name, array in inputs.items()}
    net = rs.onnx.load(path, dims=dims, values=settings["values"], rule=settings["rule"])
    source = next(iter(inputs.values())) if len(inputs) == 1 else inputs

    def call() -> list[Any]:
        made = net(source)
        return list(made.values()) if isinstance(made, dict) else [made]

    def more() -> dict[str, Any]:
        plan = net.plan(*dims.values())
        return {
            "reorders": sum(not each.is_constant for each in plan.formats.reorders),
            "moved_bytes": plan.formats.bytes_moved,
            "predicted": plan.formats.seconds,
            "steps": len(plan.steps),
        }

    return call, more


def _onnx_runtime(
    runtime: Any, path: str, inputs: Inputs, settings: Settings
) -> tuple[Call, Callable[[], Any]]:
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = settings["threads"], 3
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    brought = {**inputs, **{name: np.array(value) for name, value in settings["values"].items()}}
    return (lambda: session.run(None, brought)), dict


def _openvino(vino: Any, path: str, inputs: Inputs, settings: Settings) -> tuple[Call, Callable[[], Any]]:
    core = vino.Core()
    model = core.read_model(path)
    model.reshape({name: list(array.shape) for name, array in inputs.items()})
    threads = {"INFERENCE_NUM_THREADS": settings["threads"], "PERFORMANCE_HINT": "LATENCY"}
    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", {**threads, **precision}).create_infer_request()
    brought = {**inputs, **{name: np.array(value) for name, value in settings["values"].items()}}
    return (lambda: [np.asarray(each) for each in request.infer(brought).values()]), dict


_LOADERS: Mapping[str, Callable[..., tuple[Call, Callable[[], Any]]]] = {
    "restride": _restride,
    "onnxruntime": _onnx_runtime,
    "openvino": _openvino,
    "torch": lambda torch, *given: torch.load(*given),
}

if __name__ == "__main__":
    main()
