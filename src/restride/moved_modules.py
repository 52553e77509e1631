"""Module names of earlier versions, so that old pickles find their classes.

They do not warn: data written by earlier versions stays readable (`deprecation.py`).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_OPERATIONS = (
    *("batch_normalization", "binary", "concat", "convolution", "eltwise", "group_normalization"),
    *("inner_product", "layer_normalization", "lrn", "matmul", "normalization", "pooling", "prelu"),
    *("reduction", "resampling", "rnn", "rnn_backward", "rnn_checks", "rnn_desc"),
    *("shuffle", "shuffle_desc", "shuffle_pd", "softmax", "sum"),
)
# Renamed packages.
_PACKAGES = ("restride.frontend", "restride.primitives")
# Modules with public functions, classes and values -> their present location. Only what can be pickled.
_PLACES = {
    **{f"primitives.{name}": f"model.{name}" for name in ("base", "primitive", "prop_kind", "query")},
    "primitives.reorder": "ops.reorder",
    **{
        name: f"arrays.{name}"
        for name in ("activations", "concat_and_sum", "pixels", "reorder_plan", "shuffles")
    },
    **{f"array_{name}": f"arrays.{name}" for name in ("norms", "pools", "products")},
    **{name: f"arrays.scaling.{name}" for name in ("dequantization", "quantization", "quantized_tensor")},
    "axis_scaling": "arrays.scaling.quantization",
    "group_scaling": "arrays.scaling.group",
    "frontend.recommended": "arrays.recommended",
    **{f"frontend.{name}": f"arrays.calls.{name}" for name in ("arithmetic", "results", "signature")},
    **{f"frontend.torch_{name}": f"arrays.torch.{name}" for name in ("modules", "products", "rnn")},
    **{f"graph.{name}": f"graph.nodes.{name}" for name in ("operations", "recurrent")},
    **{f"graph.{name}_operations": f"graph.nodes.{name}s" for name in ("layer", "move", "product")},
    "graph.fusions": "graph.rewrites.fusions",
    "graph.graph_draft": "graph.rewrites.draft",
    "graph.scaled_constant": "graph.rewrites.scaled_constant",
    "graph.torch_module": "graph.importers.torch.module",
    "files.report": "files.conversion.report",
    **{f"runtime.{name}": f"runtime.cpu.{name}" for name in ("executable", "kernel", "launch")},
    **dict.fromkeys(("runtime.pool", "runtime.cpu.pool"), "runtime.cpu.thread_pool"),
}


class _MovedModules:
    """Finds a module of an earlier version if no present module has its name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module whose attributes are those of its present counterpart, or of the public package."""
        is_moved = name in _PACKAGES or name.removeprefix("restride.") in _PLACES or _is_operation(name)
        spec = ModuleSpec(name, self, is_package=name in _PACKAGES)  # type: ignore[arg-type]
        return spec if is_moved else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Use the default module."""

    def exec_module(self, module: ModuleType) -> None:
        """Look up its attributes on demand."""
        place = _PLACES.get(module.__name__.removeprefix("restride."))
        if place is not None:
            module.__getattr__ = partial(_attribute_now, f"restride.{place}")  # type: ignore[method-assign]
        elif _is_operation(module.__name__):
            module.__getattr__ = _attribute_of_operation  # type: ignore[method-assign]


def _is_operation(name: str) -> bool:
    package, _, module = name.rpartition(".")
    return package == "restride.primitives" and module in _OPERATIONS


def _attribute_now(place: str, name: str) -> Any:
    return getattr(importlib.import_module(place), name)


def _attribute_of_operation(name: str) -> Any:
    """Map `SoftmaxForward`, its descriptor `SoftmaxForwardPrimitiveDesc`, and `ShuffleForwardDesc` of 0.9."""
    package = importlib.import_module(f"{__package__}.onednn")
    for suffix in ("PrimitiveDesc", "Desc"):
        if name.endswith(suffix) and hasattr(package, name.removesuffix(suffix)):
            return getattr(getattr(package, name.removesuffix(suffix)), suffix)
    return getattr(package, name)


def install() -> None:
    """Make pickles of earlier versions readable."""
    sys.meta_path.append(_MovedModules())
