"""oneDNN's programming model under the names of `dnnl`: engines, streams, memory objects and primitives.

A primitive class is generated from its operation in `restride.ops` on first use. `Arg` has the execution
arguments: `Arg.SRC` is `DNNL_ARG_SRC`.
"""

from __future__ import annotations

from .loading import lazy_attributes
from .model.base import PrimitiveDescBase as PrimitiveDesc
from .nearest import nearest
from .ops import PRIMITIVES

_LAZY_NAMES, __getattr__ = lazy_attributes(
    __name__,
    {
        "desc.algorithm": "Algorithm ScratchpadMode",
        "desc.arguments": "Arg arg_attr_multiple_post_op",
        "desc.attr": "PrimitiveAttr RUNTIME_F32_VAL RUNTIME_S32_VAL",
        "desc.layout": "RUNTIME_DIM",
        "desc.memory_desc": "MemoryDesc",
        "desc.post_ops": "PostOps",
        "desc.tags": "FormatTag MAX_NDIMS",
        "dtypes": "DataType",
        "errors": "Status",
        "model.primitive": "Primitive",
        "model.prop_kind": "PrimitiveKind PropKind",
        "model.query": "Query",
        **{f"ops.{name}": primitives for name, primitives in PRIMITIVES.items()},
        "ops.normalization": "NormalizationFlags",
        "ops.reorder": "Reorder",
        "ops.rnn_checks": "RNNDirection RNNFlags",
        "runtime.alloc": "NO_DATA",
        "runtime.cache": "get_primitive_cache_capacity set_primitive_cache_capacity",
        "runtime.engine": "Engine EngineKind",
        "runtime.event": "Event",
        "runtime.memory": "Memory",
        "runtime.stream": "Stream StreamFlags",
    },
    nearest,
)
__all__ = ["PrimitiveDesc"]
__all__ += _LAZY_NAMES


def __dir__() -> list[str]:
    return sorted(__all__)
