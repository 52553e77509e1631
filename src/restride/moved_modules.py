"""Modules of earlier versions, for what was pickled there: classes are found where they are now."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_OPERATIONS = (
    *("batch_normalization", "binary", "concat", "convolution", "eltwise", "group_normalization"),
    *("inner_product", "layer_normalization", "lrn", "matmul", "normalization", "pooling", "prelu"),
    *(
        "reduction",
        "reorder",
        "resampling",
        "rnn",
        "rnn_backward",
        "rnn_checks",
        "rnn_desc",
        "shuffle",
        "shuffle_desc",
    ),
    *("shuffle_pd", "softmax", "sum"),
)


class _MovedModules:
    """Finds a module of an earlier version where no module of this one has its name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module whose attributes are those of the public package, by their older names too."""
        package, _, module = name.rpartition(".")
        is_moved = package == "restride.primitives" and module in _OPERATIONS
        return ModuleSpec(name, self) if is_moved else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual module."""

    def exec_module(self, module: ModuleType) -> None:
        """Let its attributes be looked for."""
        module.__getattr__ = _moved_attribute  # type: ignore[method-assign]


def _moved_attribute(name: str) -> Any:
    """`SoftmaxForward`; `SoftmaxForwardPrimitiveDesc`, its descriptor; `ShuffleForwardDesc`, that of 0.9."""
    package = importlib.import_module(__package__)
    for suffix in ("PrimitiveDesc", "Desc"):
        if name.endswith(suffix) and hasattr(package, name.removesuffix(suffix)):
            return getattr(getattr(package, name.removesuffix(suffix)), suffix)
    return getattr(package, name)


def install() -> None:
    """Let pickles of earlier versions be read."""
    sys.meta_path.append(_MovedModules())
