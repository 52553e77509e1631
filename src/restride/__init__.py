"""restride moves tensors between memory formats and data types, and computes on them, at the speed of memory.

Functions on arrays: `reorder`, `attention`, `softmax`, `pool`, `convolution`, `matmul`, `quantize`, `concat`,
... ONNX operators on arrays: `ops`. Files: `save`, `load`, `convert`, `rechunk`. Networks: `onnx`,
`openvino`, `onednn_graph`, `graph`, `Network`. Tensors: `MemoryDesc`, `Memory`, `DataType`, `FormatTag`.
oneDNN's programming model, with its primitives, is `restride.onednn`. Only the names here are public.
"""

import sys as _sys
import typing as _typing

from . import forks as _forks  # noqa: F401 - first, as it lets every fork wait from now on
from . import version as _version
from .deprecation import old_name as _old_name
from .desc.memory_desc import MemoryDesc
from .desc.tags import FormatTag
from .desc.viewer import register as _register_viewer
from .dtypes import DataType
from .errors import Error, InvalidArguments, OutOfMemory, RuntimeFailure, Unimplemented
from .loading import lazy_attributes as _lazy_attributes
from .loading import load_whole as _load_whole
from .moved_modules import install as _install_moved_modules
from .nearest import nearest as _nearest
from .runtime.engine import Engine
from .runtime.memory import Memory
from .runtime.memory import register_mover as _register_mover

__version__ = _version.VERSION

# Diagrams are drawn by the top layer, `view`: descriptors know it only by this name and load it on first use.
_register_viewer("restride.view.methods")
# Memory objects know the module that converts them only by this name and load it on first use.
_register_mover("restride.arrays.reorders")

globals().update(DataType.__members__)  # `rs.f32` and the others

# Names whose modules are loaded on first use.
_LAZY_NAMES, _load = _lazy_attributes(
    __name__,
    {
        "": "dask formats graph layouts onednn onednn_graph onnx openvino ops sycl_interop",
        "about": "show_versions",
        "arrays.activations": "softmax",
        "arrays.attention": "attention",
        "arrays.calls.results": "empty",
        "arrays.concat_and_sum": "add_n concat",
        "arrays.norms": "batch_norm group_norm layer_norm",
        "arrays.pixels": "normalize",
        "arrays.pools": "pool",
        "arrays.products": "convolution matmul pack_weights",
        "arrays.recommended": "recommended_desc",
        "arrays.reorders": "reorder",
        "arrays.reorder_plan": "Measured Plan Prediction plan",
        "arrays.scaling.dequantization": "dequantize",
        "arrays.scaling.quantization": "quantize",
        "arrays.scaling.quantized_tensor": "QuantizedTensor",
        "arrays.shuffles": "channel_shuffle shuffle shuffle_channels",
        "files.convert": "convert",
        "files.load": "load load_metadata",
        "files.rechunk": "rechunk",
        "files.save": "save",
        "graph.network.network": "Network",
        "graph.quantization.quantize": "quantize_network",
        "profiling": "profile",
        "runtime.cache": "CacheInfo cache_info",
        "runtime.cpu.thread_pool": "get_num_threads set_num_threads",
        "runtime.result_pool": "empty_cache",
        "verbose": "set_verbose",
        "watching": "add_hook",
    },
    _nearest,
)
__all__ = [
    "DataType",
    "Engine",
    "Error",
    "FormatTag",
    "InvalidArguments",
    "Memory",
    "MemoryDesc",
    "OutOfMemory",
    "RuntimeFailure",
    "Unimplemented",
    "__version__",
]
__all__ += [*_LAZY_NAMES, *DataType.__members__]
# Names of earlier versions, not listed by `dir()`: these, all of `onednn`, and `ARG_SRC` for
# `onednn.Arg.SRC`.
_EARLIER_NAMES = {"trim": "empty_cache", "verbose": "set_verbose"}
# Names already looked up, so that `rs.ARG_SRC` is cheap in a loop.
_earlier: dict[str, _typing.Any] = {}
# Modules that must be imported explicitly; the first two import the library of the same name.
_OWN_IMPORT = ("torch", "jax", "typing")


def __getattr__(name: str) -> _typing.Any:
    """Return the public name `name`, loading its module (PEP 562)."""
    if name in _earlier:
        return _earlier[name]
    if name in _LAZY_NAMES:
        return _load(name)
    if name in _EARLIER_NAMES:
        value = getattr(_sys.modules[__name__], _EARLIER_NAMES[name])
        _old_name(f"rs.{name}", f"rs.{_EARLIER_NAMES[name]}")
    elif name.startswith("ARG_") and hasattr(arguments := _load_whole("restride.desc.arguments"), name):
        value = getattr(arguments, name)
        _old_name(f"rs.{name}", f"rs.onednn.Arg.{name[4:]}")
    elif name in (model := _load_whole("restride.onednn")).__all__:
        value = getattr(model, name)
        _old_name(f"rs.{name}", f"rs.onednn.{name}")
    elif name in _OWN_IMPORT:
        what = f"module {__name__!r} has no attribute {name!r}: import {__name__}.{name} first"
        raise AttributeError(what, name=name, obj=_sys.modules[__name__])
    else:
        return _load(name)
    _earlier[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(__all__)


_install_moved_modules()

# Importing the private module `verbose` has replaced the function of the same name.
globals().pop("verbose", None)
