"""Public names, as tests/support/onednn_stub.py writes them (pytest --update-golden)."""

from .runtime.cache import CacheInfo as CacheInfo
from .dtypes import DataType as DataType
from .runtime.engine import Engine as Engine
from .errors import Error as Error
from .desc.tags import FormatTag as FormatTag
from .errors import InvalidArguments as InvalidArguments
from .runtime.timing import Measured as Measured
from .runtime.memory import Memory as Memory
from .desc.memory_desc import MemoryDesc as MemoryDesc
from .graph.network.network import Network as Network
from .errors import OutOfMemory as OutOfMemory
from .arrays.reorder_plan import Plan as Plan
from .schedule.cost import Prediction as Prediction
from .arrays.scaling.quantized_tensor import QuantizedTensor as QuantizedTensor
from .errors import RuntimeFailure as RuntimeFailure
from .errors import Unimplemented as Unimplemented
from .watching import add_hook as add_hook
from .arrays.functions import add_n as add_n
from .arrays.functions import attention as attention
from .arrays.functions import batch_norm as batch_norm
from .runtime.cache import cache_info as cache_info
from .arrays.functions import channel_shuffle as channel_shuffle
from .arrays.functions import concat as concat
from .files.convert import convert as convert
from .arrays.functions import convolution as convolution
from . import dask as dask
from .arrays.functions import dequantize as dequantize
from .arrays.functions import empty as empty
from .runtime.result_pool import empty_cache as empty_cache
from . import formats as formats
from .runtime.cpu.thread_pool import get_num_threads as get_num_threads
from . import graph as graph
from .arrays.functions import group_norm as group_norm
from .arrays.functions import layer_norm as layer_norm
from . import layouts as layouts
from .files.load import load as load
from .files.load import load_metadata as load_metadata
from .arrays.functions import matmul as matmul
from .arrays.functions import normalize as normalize
from . import onednn as onednn
from . import onednn_graph as onednn_graph
from . import onnx as onnx
from . import openvino as openvino
from . import ops as ops
from .arrays.products import pack_weights as pack_weights
from .arrays.reorder_plan import plan as plan
from .arrays.functions import pool as pool
from .profiling import profile as profile
from .arrays.functions import quantize as quantize
from .graph.quantization.quantize import quantize_network as quantize_network
from .files.rechunk import rechunk as rechunk
from .arrays.recommended import recommended_desc as recommended_desc
from .arrays.functions import reorder as reorder
from .files.save import save as save
from .runtime.cpu.thread_pool import set_num_threads as set_num_threads
from .verbose import set_verbose as set_verbose
from .about import show_versions as show_versions
from .arrays.functions import shuffle as shuffle
from .arrays.functions import shuffle_channels as shuffle_channels
from .arrays.functions import softmax as softmax
from . import sycl_interop as sycl_interop
from .onednn import Algorithm as Algorithm
from .onednn import ArgReduction as ArgReduction
from .onednn import BatchNormalizationBackward as BatchNormalizationBackward
from .onednn import BatchNormalizationForward as BatchNormalizationForward
from .onednn import Binary as Binary
from .onednn import Concat as Concat
from .onednn import ConvolutionBackwardData as ConvolutionBackwardData
from .onednn import ConvolutionBackwardWeights as ConvolutionBackwardWeights
from .onednn import ConvolutionForward as ConvolutionForward
from .onednn import DeconvolutionBackwardData as DeconvolutionBackwardData
from .onednn import DeconvolutionBackwardWeights as DeconvolutionBackwardWeights
from .onednn import DeconvolutionForward as DeconvolutionForward
from .onednn import Elementwise as Elementwise
from .onednn import ElementwiseBackward as ElementwiseBackward
from .onednn import EltwiseBackward as EltwiseBackward
from .onednn import EltwiseForward as EltwiseForward
from .onednn import EngineKind as EngineKind
from .onednn import Event as Event
from .onednn import GRUBackward as GRUBackward
from .onednn import GRUForward as GRUForward
from .onednn import Gather as Gather
from .onednn import GatherBackward as GatherBackward
from .onednn import GroupNormalizationBackward as GroupNormalizationBackward
from .onednn import GroupNormalizationForward as GroupNormalizationForward
from .onednn import InnerProductBackwardData as InnerProductBackwardData
from .onednn import InnerProductBackwardWeights as InnerProductBackwardWeights
from .onednn import InnerProductForward as InnerProductForward
from .onednn import Interpolation as Interpolation
from .onednn import InterpolationBackward as InterpolationBackward
from .onednn import LBRGRUBackward as LBRGRUBackward
from .onednn import LBRGRUForward as LBRGRUForward
from .onednn import LRNBackward as LRNBackward
from .onednn import LRNForward as LRNForward
from .onednn import LSTMBackward as LSTMBackward
from .onednn import LSTMForward as LSTMForward
from .onednn import LayerNormalizationBackward as LayerNormalizationBackward
from .onednn import LayerNormalizationForward as LayerNormalizationForward
from .onednn import MAX_NDIMS as MAX_NDIMS
from .onednn import Matmul as Matmul
from .onednn import MaxPooling as MaxPooling
from .onednn import NO_DATA as NO_DATA
from .onednn import NormalizationFlags as NormalizationFlags
from .onednn import OneHot as OneHot
from .onednn import PReLUBackward as PReLUBackward
from .onednn import PReLUForward as PReLUForward
from .onednn import PoolingBackward as PoolingBackward
from .onednn import PoolingForward as PoolingForward
from .onednn import PostOps as PostOps
from .onednn import Primitive as Primitive
from .onednn import PrimitiveAttr as PrimitiveAttr
from .onednn import PrimitiveDesc as PrimitiveDesc
from .onednn import PrimitiveKind as PrimitiveKind
from .onednn import PropKind as PropKind
from .onednn import Query as Query
from .onednn import RNNDirection as RNNDirection
from .onednn import RNNFlags as RNNFlags
from .onednn import RUNTIME_DIM as RUNTIME_DIM
from .onednn import RUNTIME_F32_VAL as RUNTIME_F32_VAL
from .onednn import RUNTIME_S32_VAL as RUNTIME_S32_VAL
from .onednn import Reduction as Reduction
from .onednn import ReductionBackward as ReductionBackward
from .onednn import Reorder as Reorder
from .onednn import ResamplingBackward as ResamplingBackward
from .onednn import ResamplingForward as ResamplingForward
from .onednn import ReverseSequence as ReverseSequence
from .onednn import ScaledDotProductAttention as ScaledDotProductAttention
from .onednn import ScaledDotProductAttentionBackward as ScaledDotProductAttentionBackward
from .onednn import Scan as Scan
from .onednn import ScanBackward as ScanBackward
from .onednn import Scatter as Scatter
from .onednn import ScatterBackward as ScatterBackward
from .onednn import ScratchpadMode as ScratchpadMode
from .onednn import ShuffleBackward as ShuffleBackward
from .onednn import ShuffleForward as ShuffleForward
from .onednn import SoftmaxBackward as SoftmaxBackward
from .onednn import SoftmaxForward as SoftmaxForward
from .onednn import Status as Status
from .onednn import Stream as Stream
from .onednn import StreamFlags as StreamFlags
from .onednn import Sum as Sum
from .onednn import Tile as Tile
from .onednn import TileBackward as TileBackward
from .onednn import TopK as TopK
from .onednn import Trilu as Trilu
from .onednn import VanillaRNNBackward as VanillaRNNBackward
from .onednn import VanillaRNNForward as VanillaRNNForward
from .onednn import arg_attr_multiple_post_op as arg_attr_multiple_post_op
from .onednn import get_primitive_cache_capacity as get_primitive_cache_capacity
from .onednn import set_primitive_cache_capacity as set_primitive_cache_capacity

__version__: str
undef: DataType
f16: DataType
bf16: DataType
f32: DataType
s32: DataType
s8: DataType
u8: DataType
f64: DataType
boolean: DataType
f8_e5m2: DataType
f8_e4m3: DataType
s4: DataType
u4: DataType
e8m0: DataType
f4_e2m1: DataType
f4_e3m0: DataType
s64: DataType
u64: DataType
u32: DataType
s16: DataType
u16: DataType
nf4: DataType

# Names of earlier versions, as are those from `onednn` but for itself.
trim = empty_cache
verbose = set_verbose
ARG_SRC: int
ARG_SRC_0: int
ARG_FROM: int
ARG_SRC_LAYER: int
ARG_SRC_1: int
ARG_SRC_ITER: int
ARG_SRC_2: int
ARG_SRC_ITER_C: int
ARG_SRC_3: int
ARG_DST: int
ARG_DST_0: int
ARG_TO: int
ARG_DST_LAYER: int
ARG_DST_1: int
ARG_DST_ITER: int
ARG_DST_2: int
ARG_DST_ITER_C: int
ARG_WEIGHTS: int
ARG_WEIGHTS_LAYER: int
ARG_WEIGHTS_ITER: int
ARG_BIAS: int
ARG_MEAN: int
ARG_VARIANCE: int
ARG_SCALE: int
ARG_SHIFT: int
ARG_WORKSPACE: int
ARG_SCRATCHPAD: int
ARG_DIFF_SRC: int
ARG_DIFF_SRC_LAYER: int
ARG_DIFF_SRC_1: int
ARG_DIFF_SRC_ITER: int
ARG_DIFF_SRC_ITER_C: int
ARG_DIFF_DST: int
ARG_DIFF_DST_LAYER: int
ARG_DIFF_DST_ITER: int
ARG_DIFF_DST_ITER_C: int
ARG_DIFF_WEIGHTS: int
ARG_DIFF_WEIGHTS_LAYER: int
ARG_DIFF_WEIGHTS_ITER: int
ARG_DIFF_BIAS: int
ARG_DIFF_SCALE: int
ARG_DIFF_SHIFT: int
ARG_ATTR_ROUNDING_SEED: int
ARG_ATTR_OUTPUT_SCALES: int
ARG_MULTIPLE_SRC: int
ARG_MULTIPLE_DST: int
ARG_ATTR_SCALES: int
ARG_ATTR_ZERO_POINTS: int
ARG_ATTR_POST_OP_DW: int
