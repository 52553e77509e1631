"""ONNX Runtime in comparison with the demos, if it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import restride as rs


def session_of(model: bytes) -> Any:
    """A session with as many threads as restride has; None where ONNX Runtime is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = rs.get_num_threads(), 3
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
