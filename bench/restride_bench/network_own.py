"""A network in restride, for `network_runner.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import restride as rs

Inputs = Mapping[str, Any]
Call = Callable[[], list[Any]]


def load(path: str, inputs: Inputs, settings: Mapping[str, Any]) -> tuple[Call, Callable[[], Any]]:
    """What runs the network once, and what tells of its plan."""
    rs.set_num_threads(settings["threads"])
    dims = {name: array.shape for name, array in inputs.items()}
    net = rs.onnx.load(path, dims=dims, values=settings["values"], rule=settings["rule"])
    brought = next(iter(inputs.values())) if len(inputs) == 1 else inputs

    def call() -> list[Any]:
        made = net(brought)
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
