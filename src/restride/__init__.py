"""restride moves tensors between memory formats and data types at the speed of memory.

Arrays: `reorder`, `empty`, `concat`, `add_n`, `quantize`, `dequantize`, `shuffle`, `shuffle_channels`,
`channel_shuffle`, `plan`, `openvino.read_ir`. Files: `save`, `load`, `convert`, `rechunk`, `dask.reorder`.
Descriptors: `MemoryDesc`, `FormatTag`, `DataType`. The programming model: `Engine`, `Stream`, `Memory`,
`Reorder`, `ShuffleForward`, `ShuffleBackward`, `Concat`, `Sum`, `PrimitiveAttr`, `PostOps`. Every name here
is public; all else is not.
"""

import sys as _sys
import typing as _typing

from . import forks as _forks  # noqa: F401 - first, as it lets every fork wait from now on
from . import version
from .arrays.calls.results import empty
from .arrays.reorders import reorder
from .desc.algorithm import Algorithm, ScratchpadMode
from .desc.arguments import (
    ARG_ATTR_OUTPUT_SCALES,
    ARG_ATTR_POST_OP_DW,
    ARG_ATTR_ROUNDING_SEED,
    ARG_ATTR_SCALES,
    ARG_ATTR_ZERO_POINTS,
    ARG_BIAS,
    ARG_DIFF_BIAS,
    ARG_DIFF_DST,
    ARG_DIFF_DST_ITER,
    ARG_DIFF_DST_ITER_C,
    ARG_DIFF_DST_LAYER,
    ARG_DIFF_SCALE,
    ARG_DIFF_SHIFT,
    ARG_DIFF_SRC,
    ARG_DIFF_SRC_1,
    ARG_DIFF_SRC_ITER,
    ARG_DIFF_SRC_ITER_C,
    ARG_DIFF_SRC_LAYER,
    ARG_DIFF_WEIGHTS,
    ARG_DIFF_WEIGHTS_ITER,
    ARG_DIFF_WEIGHTS_LAYER,
    ARG_DST,
    ARG_DST_0,
    ARG_DST_1,
    ARG_DST_2,
    ARG_DST_ITER,
    ARG_DST_ITER_C,
    ARG_DST_LAYER,
    ARG_FROM,
    ARG_MEAN,
    ARG_MULTIPLE_DST,
    ARG_MULTIPLE_SRC,
    ARG_SCALE,
    ARG_SCRATCHPAD,
    ARG_SHIFT,
    ARG_SRC,
    ARG_SRC_0,
    ARG_SRC_1,
    ARG_SRC_2,
    ARG_SRC_3,
    ARG_SRC_ITER,
    ARG_SRC_ITER_C,
    ARG_SRC_LAYER,
    ARG_TO,
    ARG_VARIANCE,
    ARG_WEIGHTS,
    ARG_WEIGHTS_ITER,
    ARG_WEIGHTS_LAYER,
    ARG_WORKSPACE,
    arg_attr_multiple_post_op,
)
from .desc.attr import RUNTIME_F32_VAL, RUNTIME_S32_VAL, PrimitiveAttr
from .desc.layout import RUNTIME_DIM
from .desc.memory_desc import MemoryDesc
from .desc.post_ops import PostOps
from .desc.tags import MAX_NDIMS, FormatTag
from .desc.viewer import register as _register_viewer
from .dtypes import DataType
from .errors import Error, InvalidArguments, OutOfMemory, RuntimeFailure, Status, Unimplemented
from .loading import load_whole as _load_whole
from .model.base import PrimitiveDescBase as PrimitiveDesc
from .model.primitive import Primitive
from .model.prop_kind import PrimitiveKind, PropKind
from .model.query import Query
from .moved_modules import install as _install_moved_modules
from .ops.reorder import Reorder
from .runtime.alloc import NO_DATA
from .runtime.cache import (
    CacheInfo,
    cache_info,
    get_primitive_cache_capacity,
    set_primitive_cache_capacity,
)
from .runtime.cpu.thread_pool import get_num_threads, set_num_threads
from .runtime.engine import Engine, EngineKind
from .runtime.event import Event
from .runtime.memory import Memory
from .runtime.result_pool import empty_cache
from .runtime.stream import Stream, StreamFlags
from .verbose import set_verbose

if _typing.TYPE_CHECKING:
    from . import dask, formats, graph, onnx, openvino, sycl_interop
    from .about import show_versions
    from .arrays.activations import softmax
    from .arrays.concat_and_sum import add_n, concat
    from .arrays.norms import batch_norm, group_norm, layer_norm
    from .arrays.pixels import normalize
    from .arrays.pools import pool
    from .arrays.products import convolution, matmul, pack_weights
    from .arrays.recommended import recommended_desc
    from .arrays.reorder_plan import Measured, Plan, Prediction, plan
    from .arrays.scaling.dequantization import dequantize
    from .arrays.scaling.quantization import quantize
    from .arrays.scaling.quantized_tensor import QuantizedTensor
    from .arrays.shuffles import channel_shuffle, shuffle, shuffle_channels
    from .files.convert import convert
    from .files.load import load
    from .files.rechunk import rechunk
    from .files.save import save
    from .graph.network.network import Network
    from .onednn import (
        BatchNormalizationBackward,
        BatchNormalizationForward,
        Binary,
        Concat,
        ConvolutionBackwardData,
        ConvolutionBackwardWeights,
        ConvolutionForward,
        DeconvolutionBackwardData,
        DeconvolutionBackwardWeights,
        DeconvolutionForward,
        EltwiseBackward,
        EltwiseForward,
        GroupNormalizationBackward,
        GroupNormalizationForward,
        GRUBackward,
        GRUForward,
        InnerProductBackwardData,
        InnerProductBackwardWeights,
        InnerProductForward,
        LayerNormalizationBackward,
        LayerNormalizationForward,
        LBRGRUBackward,
        LBRGRUForward,
        LRNBackward,
        LRNForward,
        LSTMBackward,
        LSTMForward,
        Matmul,
        PoolingBackward,
        PoolingForward,
        PReLUBackward,
        PReLUForward,
        Reduction,
        ResamplingBackward,
        ResamplingForward,
        ShuffleBackward,
        ShuffleForward,
        SoftmaxBackward,
        SoftmaxForward,
        Sum,
        VanillaRNNBackward,
        VanillaRNNForward,
    )
    from .ops.normalization import NormalizationFlags
    from .ops.rnn_checks import RNNDirection, RNNFlags

__version__ = version.VERSION

# Pictures are made in the highest row: descriptors know it by this name alone, and load it on first use.
_register_viewer("restride.view.methods")

undef = DataType.undef
f16 = DataType.f16
bf16 = DataType.bf16
f32 = DataType.f32
s32 = DataType.s32
s8 = DataType.s8
u8 = DataType.u8
f64 = DataType.f64
boolean = DataType.boolean
f8_e5m2 = DataType.f8_e5m2
f8_e4m3 = DataType.f8_e4m3
s4 = DataType.s4
u4 = DataType.u4
e8m0 = DataType.e8m0
f4_e2m1 = DataType.f4_e2m1
f4_e3m0 = DataType.f4_e3m0

__all__ = [
    "ARG_ATTR_OUTPUT_SCALES",
    "ARG_ATTR_POST_OP_DW",
    "ARG_ATTR_ROUNDING_SEED",
    "ARG_ATTR_SCALES",
    "ARG_ATTR_ZERO_POINTS",
    "ARG_BIAS",
    "ARG_DIFF_BIAS",
    "ARG_DIFF_DST",
    "ARG_DIFF_DST_ITER",
    "ARG_DIFF_DST_ITER_C",
    "ARG_DIFF_DST_LAYER",
    "ARG_DIFF_SCALE",
    "ARG_DIFF_SHIFT",
    "ARG_DIFF_SRC",
    "ARG_DIFF_SRC_1",
    "ARG_DIFF_SRC_ITER",
    "ARG_DIFF_SRC_ITER_C",
    "ARG_DIFF_SRC_LAYER",
    "ARG_DIFF_WEIGHTS",
    "ARG_DIFF_WEIGHTS_ITER",
    "ARG_DIFF_WEIGHTS_LAYER",
    "ARG_DST",
    "ARG_DST_0",
    "ARG_DST_1",
    "ARG_DST_2",
    "ARG_DST_ITER",
    "ARG_DST_ITER_C",
    "ARG_DST_LAYER",
    "ARG_FROM",
    "ARG_MEAN",
    "ARG_MULTIPLE_DST",
    "ARG_MULTIPLE_SRC",
    "ARG_SCALE",
    "ARG_SCRATCHPAD",
    "ARG_SHIFT",
    "ARG_SRC",
    "ARG_SRC_0",
    "ARG_SRC_1",
    "ARG_SRC_2",
    "ARG_SRC_3",
    "ARG_SRC_ITER",
    "ARG_SRC_ITER_C",
    "ARG_SRC_LAYER",
    "ARG_TO",
    "ARG_VARIANCE",
    "ARG_WEIGHTS",
    "ARG_WEIGHTS_ITER",
    "ARG_WEIGHTS_LAYER",
    "ARG_WORKSPACE",
    "MAX_NDIMS",
    "NO_DATA",
    "RUNTIME_DIM",
    "RUNTIME_F32_VAL",
    "RUNTIME_S32_VAL",
    "Algorithm",
    "BatchNormalizationBackward",
    "BatchNormalizationForward",
    "Binary",
    "CacheInfo",
    "Concat",
    "ConvolutionBackwardData",
    "ConvolutionBackwardWeights",
    "ConvolutionForward",
    "DataType",
    "DeconvolutionBackwardData",
    "DeconvolutionBackwardWeights",
    "DeconvolutionForward",
    "EltwiseBackward",
    "EltwiseForward",
    "Engine",
    "EngineKind",
    "Error",
    "Event",
    "FormatTag",
    "GRUBackward",
    "GRUForward",
    "GroupNormalizationBackward",
    "GroupNormalizationForward",
    "InnerProductBackwardData",
    "InnerProductBackwardWeights",
    "InnerProductForward",
    "InvalidArguments",
    "LBRGRUBackward",
    "LBRGRUForward",
    "LRNBackward",
    "LRNForward",
    "LSTMBackward",
    "LSTMForward",
    "LayerNormalizationBackward",
    "LayerNormalizationForward",
    "Matmul",
    "Measured",
    "Memory",
    "MemoryDesc",
    "Network",
    "NormalizationFlags",
    "OutOfMemory",
    "PReLUBackward",
    "PReLUForward",
    "Plan",
    "PoolingBackward",
    "PoolingForward",
    "PostOps",
    "Prediction",
    "Primitive",
    "PrimitiveAttr",
    "PrimitiveDesc",
    "PrimitiveKind",
    "PropKind",
    "QuantizedTensor",
    "Query",
    "RNNDirection",
    "RNNFlags",
    "Reduction",
    "Reorder",
    "ResamplingBackward",
    "ResamplingForward",
    "RuntimeFailure",
    "ScratchpadMode",
    "ShuffleBackward",
    "ShuffleForward",
    "SoftmaxBackward",
    "SoftmaxForward",
    "Status",
    "Stream",
    "StreamFlags",
    "Sum",
    "Unimplemented",
    "VanillaRNNBackward",
    "VanillaRNNForward",
    "__version__",
    "add_n",
    "arg_attr_multiple_post_op",
    "batch_norm",
    "bf16",
    "boolean",
    "cache_info",
    "channel_shuffle",
    "concat",
    "convert",
    "convolution",
    "dask",
    "dequantize",
    "e8m0",
    "empty",
    "empty_cache",
    "f4_e2m1",
    "f4_e3m0",
    "f8_e4m3",
    "f8_e5m2",
    "f16",
    "f32",
    "f64",
    "formats",
    "get_num_threads",
    "get_primitive_cache_capacity",
    "graph",
    "group_norm",
    "layer_norm",
    "load",
    "matmul",
    "normalize",
    "onnx",
    "openvino",
    "pack_weights",
    "plan",
    "pool",
    "quantize",
    "rechunk",
    "recommended_desc",
    "reorder",
    "s4",
    "s8",
    "s32",
    "save",
    "set_num_threads",
    "set_primitive_cache_capacity",
    "set_verbose",
    "show_versions",
    "shuffle",
    "shuffle_channels",
    "softmax",
    "sycl_interop",
    "u4",
    "u8",
    "undef",
]

# Names whose modules are loaded when first asked for: whoever reorders pays for nothing else.
_LATER = {
    "openvino": "openvino",
    "sycl_interop": "sycl_interop",
    "show_versions": "about",
    "softmax": "arrays.activations",
    "batch_norm": "arrays.norms",
    "group_norm": "arrays.norms",
    "layer_norm": "arrays.norms",
    "pool": "arrays.pools",
    "convolution": "arrays.products",
    "matmul": "arrays.products",
    "pack_weights": "arrays.products",
    "convert": "files.convert",
    "dask": "dask",
    "rechunk": "files.rechunk",
    "load": "files.load",
    "save": "files.save",
    "normalize": "arrays.pixels",
    "add_n": "arrays.concat_and_sum",
    "concat": "arrays.concat_and_sum",
    "Measured": "arrays.reorder_plan",
    "Plan": "arrays.reorder_plan",
    "Prediction": "arrays.reorder_plan",
    "plan": "arrays.reorder_plan",
    "Binary": "onednn",
    "Concat": "onednn",
    "EltwiseBackward": "onednn",
    "EltwiseForward": "onednn",
    "InnerProductBackwardData": "onednn",
    "InnerProductBackwardWeights": "onednn",
    "InnerProductForward": "onednn",
    "Matmul": "onednn",
    "ConvolutionBackwardData": "onednn",
    "ConvolutionBackwardWeights": "onednn",
    "ConvolutionForward": "onednn",
    "DeconvolutionBackwardData": "onednn",
    "DeconvolutionBackwardWeights": "onednn",
    "DeconvolutionForward": "onednn",
    "PReLUBackward": "onednn",
    "LRNBackward": "onednn",
    "LRNForward": "onednn",
    "ResamplingBackward": "onednn",
    "ResamplingForward": "onednn",
    "PoolingBackward": "onednn",
    "PoolingForward": "onednn",
    "PReLUForward": "onednn",
    "recommended_desc": "arrays.recommended",
    "BatchNormalizationBackward": "onednn",
    "BatchNormalizationForward": "onednn",
    "GroupNormalizationBackward": "onednn",
    "GroupNormalizationForward": "onednn",
    "LayerNormalizationBackward": "onednn",
    "LayerNormalizationForward": "onednn",
    "NormalizationFlags": "ops.normalization",
    "Reduction": "onednn",
    "GRUBackward": "onednn",
    "GRUForward": "onednn",
    "LBRGRUBackward": "onednn",
    "LBRGRUForward": "onednn",
    "LSTMBackward": "onednn",
    "LSTMForward": "onednn",
    "RNNDirection": "ops.rnn_checks",
    "RNNFlags": "ops.rnn_checks",
    "VanillaRNNBackward": "onednn",
    "VanillaRNNForward": "onednn",
    "ShuffleBackward": "onednn",
    "ShuffleForward": "onednn",
    "SoftmaxBackward": "onednn",
    "SoftmaxForward": "onednn",
    "Sum": "onednn",
    "QuantizedTensor": "arrays.scaling.quantized_tensor",
    "formats": "formats",
    "graph": "graph",
    "Network": "graph.network.network",
    "onnx": "onnx",
    "dequantize": "arrays.scaling.dequantization",
    "quantize": "arrays.scaling.quantization",
    "channel_shuffle": "arrays.shuffles",
    "shuffle": "arrays.shuffles",
    "shuffle_channels": "arrays.shuffles",
}

# Names of earlier versions: no part of `dir()`, and the same functions.
_EARLIER_NAMES = {"trim": "empty_cache", "verbose": "set_verbose"}

# Modules that a program imports itself: the first two import the library whose name they have.
_OWN_IMPORT = ("torch", "jax", "typing")

if not _typing.TYPE_CHECKING:  # to a type checker a name that is not public is an error

    def __getattr__(name: str) -> _typing.Any:
        """The public name `name`, from its module, which is loaded now (PEP 562)."""
        if name in _EARLIER_NAMES:
            return globals()[_EARLIER_NAMES[name]]
        if name not in _LATER:
            what = f"module {__name__!r} has no attribute {name!r}"
            more = f": import {__name__}.{name} first" if name in _OWN_IMPORT else ""
            raise AttributeError(what + more, name=name, obj=_sys.modules[__name__])
        where = _LATER[name]
        module = _load_whole(f"{__name__}.{where}")
        found = globals()[name] = module if where == name else getattr(module, name)
        return found


def __dir__() -> list[str]:
    """The public names, loaded or not, and nothing else."""
    return sorted(__all__)


_install_moved_modules()

# Loading the package `plan` and the module `verbose`, which are not public, has put them where the
# functions of these names belong.
for _name in ("plan", "verbose"):
    globals().pop(_name, None)
