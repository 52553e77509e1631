"""Primitives, as tests/support/onednn_stub.py writes them (pytest --update-golden)."""

from collections.abc import Sequence
from typing import Any, Final, overload

from .model.base import PrimitiveDescBase
from .ops.shuffle import ShuffleBackwardDesc, ShuffleForwardDesc
from .desc.algorithm import Algorithm as Algorithm
from .dtypes import DataType as DataType
from .runtime.engine import Engine as Engine
from .runtime.engine import EngineKind as EngineKind
from .runtime.event import Event as Event
from .desc.tags import FormatTag as FormatTag
from .desc.tags import MAX_NDIMS as MAX_NDIMS
from .runtime.memory import Memory as Memory
from .desc.memory_desc import MemoryDesc as MemoryDesc
from .runtime.alloc import NO_DATA as NO_DATA
from .ops.normalization import NormalizationFlags as NormalizationFlags
from .desc.post_ops import PostOps as PostOps
from .model.primitive import Primitive as Primitive
from .desc.attr import PrimitiveAttr as PrimitiveAttr
from .model.prop_kind import PrimitiveKind as PrimitiveKind
from .model.prop_kind import PropKind as PropKind
from .model.query import Query as Query
from .ops.rnn_checks import RNNDirection as RNNDirection
from .ops.rnn_checks import RNNFlags as RNNFlags
from .desc.layout import RUNTIME_DIM as RUNTIME_DIM
from .desc.attr import RUNTIME_F32_VAL as RUNTIME_F32_VAL
from .desc.attr import RUNTIME_S32_VAL as RUNTIME_S32_VAL
from .ops.reorder import Reorder as Reorder
from .desc.algorithm import ScratchpadMode as ScratchpadMode
from .errors import Status as Status
from .runtime.stream import Stream as Stream
from .runtime.stream import StreamFlags as StreamFlags
from .desc.arguments import arg_attr_multiple_post_op as arg_attr_multiple_post_op
from .runtime.cache import get_primitive_cache_capacity as get_primitive_cache_capacity
from .runtime.cache import set_primitive_cache_capacity as set_primitive_cache_capacity

PrimitiveDesc = PrimitiveDescBase

class Arg:
    """Execution arguments: `Arg.SRC` is `DNNL_ARG_SRC` and equals its number."""

    SRC: Final = 1
    SRC_0: Final = 1
    FROM: Final = 1
    SRC_LAYER: Final = 1
    SRC_1: Final = 2
    SRC_ITER: Final = 2
    SRC_2: Final = 3
    SRC_ITER_C: Final = 3
    SRC_3: Final = 4
    DST: Final = 17
    DST_0: Final = 17
    TO: Final = 17
    DST_LAYER: Final = 17
    DST_1: Final = 18
    DST_ITER: Final = 18
    DST_2: Final = 19
    DST_ITER_C: Final = 19
    WEIGHTS: Final = 33
    WEIGHTS_LAYER: Final = 33
    WEIGHTS_ITER: Final = 34
    BIAS: Final = 41
    MEAN: Final = 49
    VARIANCE: Final = 50
    SCALE: Final = 51
    SHIFT: Final = 52
    WORKSPACE: Final = 64
    SCRATCHPAD: Final = 80
    DIFF_SRC: Final = 129
    DIFF_SRC_LAYER: Final = 129
    DIFF_SRC_1: Final = 130
    DIFF_SRC_ITER: Final = 130
    DIFF_SRC_ITER_C: Final = 131
    DIFF_DST: Final = 145
    DIFF_DST_LAYER: Final = 145
    DIFF_DST_ITER: Final = 146
    DIFF_DST_ITER_C: Final = 147
    DIFF_WEIGHTS: Final = 161
    DIFF_WEIGHTS_LAYER: Final = 161
    DIFF_WEIGHTS_ITER: Final = 162
    DIFF_BIAS: Final = 169
    DIFF_SCALE: Final = 255
    DIFF_SHIFT: Final = 256
    ATTR_ROUNDING_SEED: Final = 508
    ATTR_OUTPUT_SCALES: Final = 513
    MULTIPLE_SRC: Final = 1024
    MULTIPLE_DST: Final = 2048
    ATTR_SCALES: Final = 4096
    ATTR_ZERO_POINTS: Final = 8192
    ATTR_POST_OP_DW: Final = 16384

class ArgReduction(Primitive):
    """The index of the largest or smallest element along an axis, where the destination is 1."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of arg reduction."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            axis: int,
            select_last: bool = False,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class BatchNormalizationBackward(Primitive):
    """The gradients of a batch normalization (`dnnl::batch_normalization_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of batch normalization."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            src: MemoryDesc,
            epsilon: float,
            flags: NormalizationFlags | int | str,
            attr: PrimitiveAttr | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_epsilon(self) -> float: ...
        def get_flags(self) -> NormalizationFlags: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def mean_desc(self) -> MemoryDesc: ...
        def variance_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class BatchNormalizationForward(Primitive):
    """The batch normalization primitive (`dnnl::batch_normalization_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of batch normalization."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            epsilon: float,
            flags: NormalizationFlags | int | str,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_epsilon(self) -> float: ...
        def get_flags(self) -> NormalizationFlags: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def mean_desc(self) -> MemoryDesc: ...
        def variance_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Binary(Primitive):
    """An operation on two tensors (`dnnl::binary`): `dst = op(src0, src1)`, or `src2 ? src0 : src1`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of binary."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src0: MemoryDesc,
            src1: MemoryDesc,
            dst: MemoryDesc,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Concat(Primitive):
    """The concat primitive (`dnnl::concat`): each source is reordered into its window of the destination."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of concat."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            axis: int,
            srcs: Sequence[MemoryDesc],
            dst: MemoryDesc | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ConvolutionBackwardData(Primitive):
    """The gradient of the source of a primitive `ConvolutionForward`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of convolution."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            diff_src: MemoryDesc,
            weights: MemoryDesc,
            diff_dst: MemoryDesc,
            strides: Sequence[int] | None = None,
            dilates: Sequence[int] | None = None,
            padding_l: Sequence[int] | None = None,
            padding_r: Sequence[int] | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_dilations(self) -> tuple[int, ...]: ...
        def get_kind(self) -> str: ...
        def get_padding_l(self) -> tuple[int, ...]: ...
        def get_padding_r(self) -> tuple[int, ...]: ...
        def get_prop_kind(self) -> PropKind: ...
        def get_strides(self) -> tuple[int, ...]: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ConvolutionBackwardWeights(Primitive):
    """The gradients of weights and bias of a primitive `ConvolutionForward`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of convolution."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            diff_weights: MemoryDesc,
            diff_bias: MemoryDesc | None = None,
            diff_dst: MemoryDesc | None = None,
            strides: Sequence[int] | None = None,
            dilates: Sequence[int] | None = None,
            padding_l: Sequence[int] | None = None,
            padding_r: Sequence[int] | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_dilations(self) -> tuple[int, ...]: ...
        def get_kind(self) -> str: ...
        def get_padding_l(self) -> tuple[int, ...]: ...
        def get_padding_r(self) -> tuple[int, ...]: ...
        def get_prop_kind(self) -> PropKind: ...
        def get_strides(self) -> tuple[int, ...]: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ConvolutionForward(Primitive):
    """The convolution primitive (`dnnl::convolution_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of convolution."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            weights: MemoryDesc,
            bias: MemoryDesc | None = None,
            dst: MemoryDesc | None = None,
            strides: Sequence[int] | None = None,
            dilates: Sequence[int] | None = None,
            padding_l: Sequence[int] | None = None,
            padding_r: Sequence[int] | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_dilations(self) -> tuple[int, ...]: ...
        def get_kind(self) -> str: ...
        def get_padding_l(self) -> tuple[int, ...]: ...
        def get_padding_r(self) -> tuple[int, ...]: ...
        def get_prop_kind(self) -> PropKind: ...
        def get_strides(self) -> tuple[int, ...]: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class DeconvolutionBackwardData(Primitive):
    """The gradient of the source of a primitive `DeconvolutionForward`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of deconvolution."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            diff_src: MemoryDesc,
            weights: MemoryDesc,
            diff_dst: MemoryDesc,
            strides: Sequence[int] | None = None,
            dilates: Sequence[int] | None = None,
            padding_l: Sequence[int] | None = None,
            padding_r: Sequence[int] | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_dilations(self) -> tuple[int, ...]: ...
        def get_kind(self) -> str: ...
        def get_padding_l(self) -> tuple[int, ...]: ...
        def get_padding_r(self) -> tuple[int, ...]: ...
        def get_prop_kind(self) -> PropKind: ...
        def get_strides(self) -> tuple[int, ...]: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class DeconvolutionBackwardWeights(Primitive):
    """The gradients of weights and bias of a primitive `DeconvolutionForward`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of deconvolution."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            diff_weights: MemoryDesc,
            diff_bias: MemoryDesc | None = None,
            diff_dst: MemoryDesc | None = None,
            strides: Sequence[int] | None = None,
            dilates: Sequence[int] | None = None,
            padding_l: Sequence[int] | None = None,
            padding_r: Sequence[int] | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_dilations(self) -> tuple[int, ...]: ...
        def get_kind(self) -> str: ...
        def get_padding_l(self) -> tuple[int, ...]: ...
        def get_padding_r(self) -> tuple[int, ...]: ...
        def get_prop_kind(self) -> PropKind: ...
        def get_strides(self) -> tuple[int, ...]: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class DeconvolutionForward(Primitive):
    """The deconvolution primitive (`dnnl::deconvolution_forward`), a transposed convolution."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of deconvolution."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            weights: MemoryDesc,
            bias: MemoryDesc | None = None,
            dst: MemoryDesc | None = None,
            strides: Sequence[int] | None = None,
            dilates: Sequence[int] | None = None,
            padding_l: Sequence[int] | None = None,
            padding_r: Sequence[int] | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_dilations(self) -> tuple[int, ...]: ...
        def get_kind(self) -> str: ...
        def get_padding_l(self) -> tuple[int, ...]: ...
        def get_padding_r(self) -> tuple[int, ...]: ...
        def get_prop_kind(self) -> PropKind: ...
        def get_strides(self) -> tuple[int, ...]: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Elementwise(Primitive):
    """An elementwise function on any type: `dst = f(src0, src1, src2)`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of elementwise."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            dst: MemoryDesc,
            src0: MemoryDesc,
            src1: MemoryDesc | None = None,
            src2: MemoryDesc | None = None,
            alpha: float = 0.0,
            beta: float = 0.0,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_beta(self) -> float: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ElementwiseBackward(Primitive):
    """The gradient of one source of an elementwise function: `diff_src = diff_dst * df/dsrc0`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of elementwise."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            src0: MemoryDesc,
            src1: MemoryDesc | None = None,
            src2: MemoryDesc | None = None,
            source: int = 0,
            alpha: float = 0.0,
            beta: float = 0.0,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_beta(self) -> float: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class EltwiseBackward(Primitive):
    """The gradient of an elementwise function's source (`dnnl::eltwise_backward`): `diff_dst * f'(src)`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of eltwise."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            data: MemoryDesc,
            alpha: float = 0.0,
            beta: float = 0.0,
            attr: PrimitiveAttr | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_beta(self) -> float: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class EltwiseForward(Primitive):
    """A function of every element (`dnnl::eltwise_forward`): `dst = f(src)`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of eltwise."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            alpha: float = 0.0,
            beta: float = 0.0,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_beta(self) -> float: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class GRUBackward(Primitive):
    """The gradients of all inputs of a `GRUForward` (`dnnl::gru_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of gru."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            direction: RNNDirection | str,
            src_layer_desc: MemoryDesc,
            src_iter_desc: MemoryDesc | None,
            weights_layer_desc: MemoryDesc,
            weights_iter_desc: MemoryDesc | None,
            bias_desc: MemoryDesc | None,
            dst_layer_desc: MemoryDesc,
            dst_iter_desc: MemoryDesc | None,
            diff_src_layer_desc: MemoryDesc,
            diff_src_iter_desc: MemoryDesc | None,
            diff_weights_layer_desc: MemoryDesc,
            diff_weights_iter_desc: MemoryDesc | None,
            diff_bias_desc: MemoryDesc | None,
            diff_dst_layer_desc: MemoryDesc,
            diff_dst_iter_desc: MemoryDesc | None,
            hint_pd: PrimitiveDescBase | None = None,
            flags: RNNFlags | str = "undef",
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def bias_desc(self) -> MemoryDesc: ...
        def diff_bias_desc(self) -> MemoryDesc: ...
        def diff_dst_iter_c_desc(self) -> MemoryDesc: ...
        def diff_dst_iter_desc(self) -> MemoryDesc: ...
        def diff_dst_layer_desc(self) -> MemoryDesc: ...
        def diff_src_iter_c_desc(self) -> MemoryDesc: ...
        def diff_src_iter_desc(self) -> MemoryDesc: ...
        def diff_src_layer_desc(self) -> MemoryDesc: ...
        def diff_weights_iter_desc(self) -> MemoryDesc: ...
        def diff_weights_layer_desc(self) -> MemoryDesc: ...
        def dst_iter_c_desc(self) -> MemoryDesc: ...
        def dst_iter_desc(self) -> MemoryDesc: ...
        def dst_layer_desc(self) -> MemoryDesc: ...
        def get_activation_kind(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_cell_kind(self) -> str: ...
        def get_direction(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def src_iter_c_desc(self) -> MemoryDesc: ...
        def src_iter_desc(self) -> MemoryDesc: ...
        def src_layer_desc(self) -> MemoryDesc: ...
        def weights_iter_desc(self) -> MemoryDesc: ...
        def weights_layer_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class GRUForward(Primitive):
    """A GRU (`dnnl::gru_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of gru."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            direction: RNNDirection | str,
            src_layer_desc: MemoryDesc,
            src_iter_desc: MemoryDesc | None,
            weights_layer_desc: MemoryDesc,
            weights_iter_desc: MemoryDesc | None,
            bias_desc: MemoryDesc | None,
            dst_layer_desc: MemoryDesc,
            dst_iter_desc: MemoryDesc | None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def bias_desc(self) -> MemoryDesc: ...
        def dst_iter_c_desc(self) -> MemoryDesc: ...
        def dst_iter_desc(self) -> MemoryDesc: ...
        def dst_layer_desc(self) -> MemoryDesc: ...
        def get_activation_kind(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_cell_kind(self) -> str: ...
        def get_direction(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def src_iter_c_desc(self) -> MemoryDesc: ...
        def src_iter_desc(self) -> MemoryDesc: ...
        def src_layer_desc(self) -> MemoryDesc: ...
        def weights_iter_desc(self) -> MemoryDesc: ...
        def weights_layer_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Gather(Primitive):
    """The gather primitive: `dst[..., k, ...] = src[..., indices[k], ...]`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of gather."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            indices: MemoryDesc,
            dst: MemoryDesc,
            axis: int = 0,
            batch_dims: int = 0,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class GatherBackward(Primitive):
    """The gradient of the source of a gather: `diff_src[..., indices[k], ...] += diff_dst[..., k, ...]`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of gather."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            diff_src: MemoryDesc,
            indices: MemoryDesc,
            diff_dst: MemoryDesc,
            axis: int = 0,
            batch_dims: int = 0,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class GroupNormalizationBackward(Primitive):
    """The gradients of a group normalization (`dnnl::group_normalization_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of group normalization."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            src: MemoryDesc,
            groups: int,
            epsilon: float,
            flags: NormalizationFlags | int | str,
            attr: PrimitiveAttr | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_epsilon(self) -> float: ...
        def get_flags(self) -> NormalizationFlags: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def mean_desc(self) -> MemoryDesc: ...
        def variance_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class GroupNormalizationForward(Primitive):
    """The group normalization primitive (`dnnl::group_normalization_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of group normalization."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            groups: int,
            epsilon: float,
            flags: NormalizationFlags | int | str,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_epsilon(self) -> float: ...
        def get_flags(self) -> NormalizationFlags: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def mean_desc(self) -> MemoryDesc: ...
        def variance_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class InnerProductBackwardData(Primitive):
    """The gradient of the source of a primitive `InnerProductForward`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of inner product."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            diff_src: MemoryDesc,
            weights: MemoryDesc,
            diff_dst: MemoryDesc,
            hint_pd: PrimitiveDescBase | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class InnerProductBackwardWeights(Primitive):
    """The gradients of weights and bias of a primitive `InnerProductForward`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of inner product."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            src: MemoryDesc,
            diff_weights: MemoryDesc,
            diff_bias: MemoryDesc | None = None,
            diff_dst: MemoryDesc | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class InnerProductForward(Primitive):
    """The inner product (`dnnl::inner_product_forward`): each output is a weighted sum of all inputs."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of inner product."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            src: MemoryDesc,
            weights: MemoryDesc,
            bias: MemoryDesc | None = None,
            dst: MemoryDesc | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Interpolation(Primitive):
    """The interpolation primitive: `dst[..., o, ...] = sum(weights[o, t] * src[..., indices[o, t], ...])`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of interpolation."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            src: MemoryDesc,
            indices: MemoryDesc,
            weights: MemoryDesc,
            dst: MemoryDesc,
            axis: int,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class InterpolationBackward(Primitive):
    """The gradient of the source: `diff_src[..., at[o, t], ...] += weights[o, t] * diff_dst[..., o, ...]`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of interpolation."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            diff_src: MemoryDesc,
            indices: MemoryDesc,
            weights: MemoryDesc,
            diff_dst: MemoryDesc,
            axis: int,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class LBRGRUBackward(Primitive):
    """The gradients of all inputs of a `LBRGRUForward` (`dnnl::lbr_gru_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of lbr gru."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            direction: RNNDirection | str,
            src_layer_desc: MemoryDesc,
            src_iter_desc: MemoryDesc | None,
            weights_layer_desc: MemoryDesc,
            weights_iter_desc: MemoryDesc | None,
            bias_desc: MemoryDesc | None,
            dst_layer_desc: MemoryDesc,
            dst_iter_desc: MemoryDesc | None,
            diff_src_layer_desc: MemoryDesc,
            diff_src_iter_desc: MemoryDesc | None,
            diff_weights_layer_desc: MemoryDesc,
            diff_weights_iter_desc: MemoryDesc | None,
            diff_bias_desc: MemoryDesc | None,
            diff_dst_layer_desc: MemoryDesc,
            diff_dst_iter_desc: MemoryDesc | None,
            hint_pd: PrimitiveDescBase | None = None,
            flags: RNNFlags | str = "undef",
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def bias_desc(self) -> MemoryDesc: ...
        def diff_bias_desc(self) -> MemoryDesc: ...
        def diff_dst_iter_c_desc(self) -> MemoryDesc: ...
        def diff_dst_iter_desc(self) -> MemoryDesc: ...
        def diff_dst_layer_desc(self) -> MemoryDesc: ...
        def diff_src_iter_c_desc(self) -> MemoryDesc: ...
        def diff_src_iter_desc(self) -> MemoryDesc: ...
        def diff_src_layer_desc(self) -> MemoryDesc: ...
        def diff_weights_iter_desc(self) -> MemoryDesc: ...
        def diff_weights_layer_desc(self) -> MemoryDesc: ...
        def dst_iter_c_desc(self) -> MemoryDesc: ...
        def dst_iter_desc(self) -> MemoryDesc: ...
        def dst_layer_desc(self) -> MemoryDesc: ...
        def get_activation_kind(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_cell_kind(self) -> str: ...
        def get_direction(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def src_iter_c_desc(self) -> MemoryDesc: ...
        def src_iter_desc(self) -> MemoryDesc: ...
        def src_layer_desc(self) -> MemoryDesc: ...
        def weights_iter_desc(self) -> MemoryDesc: ...
        def weights_layer_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class LBRGRUForward(Primitive):
    """A GRU that is linear before its reset (`dnnl::lbr_gru_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of lbr gru."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            direction: RNNDirection | str,
            src_layer_desc: MemoryDesc,
            src_iter_desc: MemoryDesc | None,
            weights_layer_desc: MemoryDesc,
            weights_iter_desc: MemoryDesc | None,
            bias_desc: MemoryDesc | None,
            dst_layer_desc: MemoryDesc,
            dst_iter_desc: MemoryDesc | None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def bias_desc(self) -> MemoryDesc: ...
        def dst_iter_c_desc(self) -> MemoryDesc: ...
        def dst_iter_desc(self) -> MemoryDesc: ...
        def dst_layer_desc(self) -> MemoryDesc: ...
        def get_activation_kind(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_cell_kind(self) -> str: ...
        def get_direction(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def src_iter_c_desc(self) -> MemoryDesc: ...
        def src_iter_desc(self) -> MemoryDesc: ...
        def src_layer_desc(self) -> MemoryDesc: ...
        def weights_iter_desc(self) -> MemoryDesc: ...
        def weights_layer_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class LRNBackward(Primitive):
    """The gradient of the source of a local response normalization (`dnnl::lrn_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of lrn."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            src: MemoryDesc,
            local_size: int,
            alpha: float,
            beta: float,
            k: float = 1.0,
            attr: PrimitiveAttr | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_beta(self) -> float: ...
        def get_k(self) -> float: ...
        def get_kind(self) -> str: ...
        def get_local_size(self) -> int: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class LRNForward(Primitive):
    """Elements divided by the magnitude of their neighbors (`dnnl::lrn_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of lrn."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            local_size: int,
            alpha: float,
            beta: float,
            k: float = 1.0,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_beta(self) -> float: ...
        def get_k(self) -> float: ...
        def get_kind(self) -> str: ...
        def get_local_size(self) -> int: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class LSTMBackward(Primitive):
    """The gradients of all inputs of a `LSTMForward` (`dnnl::lstm_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of lstm."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            direction: RNNDirection | str,
            src_layer_desc: MemoryDesc,
            src_iter_desc: MemoryDesc | None,
            src_iter_c_desc: MemoryDesc | None,
            weights_layer_desc: MemoryDesc,
            weights_iter_desc: MemoryDesc | None,
            bias_desc: MemoryDesc | None,
            dst_layer_desc: MemoryDesc,
            dst_iter_desc: MemoryDesc | None,
            dst_iter_c_desc: MemoryDesc | None,
            diff_src_layer_desc: MemoryDesc,
            diff_src_iter_desc: MemoryDesc | None,
            diff_src_iter_c_desc: MemoryDesc | None,
            diff_weights_layer_desc: MemoryDesc,
            diff_weights_iter_desc: MemoryDesc | None,
            diff_bias_desc: MemoryDesc | None,
            diff_dst_layer_desc: MemoryDesc,
            diff_dst_iter_desc: MemoryDesc | None,
            diff_dst_iter_c_desc: MemoryDesc | None,
            hint_pd: PrimitiveDescBase | None = None,
            flags: RNNFlags | str = "undef",
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
            weights_peephole_desc: MemoryDesc | None = None,
            weights_projection_desc: MemoryDesc | None = None,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def bias_desc(self) -> MemoryDesc: ...
        def diff_bias_desc(self) -> MemoryDesc: ...
        def diff_dst_iter_c_desc(self) -> MemoryDesc: ...
        def diff_dst_iter_desc(self) -> MemoryDesc: ...
        def diff_dst_layer_desc(self) -> MemoryDesc: ...
        def diff_src_iter_c_desc(self) -> MemoryDesc: ...
        def diff_src_iter_desc(self) -> MemoryDesc: ...
        def diff_src_layer_desc(self) -> MemoryDesc: ...
        def diff_weights_iter_desc(self) -> MemoryDesc: ...
        def diff_weights_layer_desc(self) -> MemoryDesc: ...
        def dst_iter_c_desc(self) -> MemoryDesc: ...
        def dst_iter_desc(self) -> MemoryDesc: ...
        def dst_layer_desc(self) -> MemoryDesc: ...
        def get_activation_kind(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_cell_kind(self) -> str: ...
        def get_direction(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def src_iter_c_desc(self) -> MemoryDesc: ...
        def src_iter_desc(self) -> MemoryDesc: ...
        def src_layer_desc(self) -> MemoryDesc: ...
        def weights_iter_desc(self) -> MemoryDesc: ...
        def weights_layer_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class LSTMForward(Primitive):
    """An LSTM (`dnnl::lstm_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of lstm."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            direction: RNNDirection | str,
            src_layer_desc: MemoryDesc,
            src_iter_desc: MemoryDesc | None,
            src_iter_c_desc: MemoryDesc | None,
            weights_layer_desc: MemoryDesc,
            weights_iter_desc: MemoryDesc | None,
            bias_desc: MemoryDesc | None,
            dst_layer_desc: MemoryDesc,
            dst_iter_desc: MemoryDesc | None,
            dst_iter_c_desc: MemoryDesc | None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
            weights_peephole_desc: MemoryDesc | None = None,
            weights_projection_desc: MemoryDesc | None = None,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def bias_desc(self) -> MemoryDesc: ...
        def dst_iter_c_desc(self) -> MemoryDesc: ...
        def dst_iter_desc(self) -> MemoryDesc: ...
        def dst_layer_desc(self) -> MemoryDesc: ...
        def get_activation_kind(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_cell_kind(self) -> str: ...
        def get_direction(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def src_iter_c_desc(self) -> MemoryDesc: ...
        def src_iter_desc(self) -> MemoryDesc: ...
        def src_layer_desc(self) -> MemoryDesc: ...
        def weights_iter_desc(self) -> MemoryDesc: ...
        def weights_layer_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class LayerNormalizationBackward(Primitive):
    """The gradients of a layer normalization (`dnnl::layer_normalization_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of layer normalization."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            src: MemoryDesc,
            stat: MemoryDesc | None,
            epsilon: float,
            flags: NormalizationFlags | int | str,
            attr: PrimitiveAttr | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            allow_empty: bool = False,
            scale_shift_data_type: DataType | str = "f32",
            diff_scale_shift_data_type: DataType | str = "f32",
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_epsilon(self) -> float: ...
        def get_flags(self) -> NormalizationFlags: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def mean_desc(self) -> MemoryDesc: ...
        def variance_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class LayerNormalizationForward(Primitive):
    """The layer normalization primitive (`dnnl::layer_normalization_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of layer normalization."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            stat: MemoryDesc | None,
            epsilon: float,
            flags: NormalizationFlags | int | str,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
            scale_shift_data_type: DataType | str = "f32",
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_epsilon(self) -> float: ...
        def get_flags(self) -> NormalizationFlags: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def mean_desc(self) -> MemoryDesc: ...
        def variance_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Matmul(Primitive):
    """The product of matrices (`dnnl::matmul`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of matmul."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            src: MemoryDesc,
            weights: MemoryDesc,
            bias: MemoryDesc | None = None,
            dst: MemoryDesc | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class MaxPooling(Primitive):
    """Maxima of windows with their indices: the dot product of source coordinates and strides."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of max pooling."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            src: MemoryDesc,
            dst: MemoryDesc,
            indices: MemoryDesc,
            index_strides: Sequence[int],
            strides: Sequence[int],
            kernel: Sequence[int],
            dilation: Sequence[int],
            padding_l: Sequence[int],
            padding_r: Sequence[int],
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_dilations(self) -> tuple[int, ...]: ...
        def get_kernel(self) -> tuple[int, ...]: ...
        def get_kind(self) -> str: ...
        def get_padding_l(self) -> tuple[int, ...]: ...
        def get_padding_r(self) -> tuple[int, ...]: ...
        def get_prop_kind(self) -> PropKind: ...
        def get_strides(self) -> tuple[int, ...]: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class OneHot(Primitive):
    """The one-hot primitive: `dst[i, k, j] = values[1]` where k is `src[i, j]`, else `values[0]`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of one hot."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            src: MemoryDesc,
            values: MemoryDesc,
            dst: MemoryDesc,
            axis: int,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class PReLUBackward(Primitive):
    """The gradients of source and weights (`dnnl::prelu_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of prelu."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            src: MemoryDesc,
            weights: MemoryDesc,
            diff_src: MemoryDesc,
            diff_weights: MemoryDesc,
            diff_dst: MemoryDesc,
            attr: PrimitiveAttr | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class PReLUForward(Primitive):
    """Slopes below zero (`dnnl::prelu_forward`): `dst = src > 0 ? src : src * weights`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of prelu."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            src: MemoryDesc,
            weights: MemoryDesc,
            dst: MemoryDesc,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class PoolingBackward(Primitive):
    """The gradient of the source of a pooling (`dnnl::pooling_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of pooling."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            strides: Sequence[int],
            kernel: Sequence[int],
            dilation: Sequence[int],
            padding_l: Sequence[int],
            padding_r: Sequence[int],
            attr: PrimitiveAttr | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_dilations(self) -> tuple[int, ...]: ...
        def get_kernel(self) -> tuple[int, ...]: ...
        def get_kind(self) -> str: ...
        def get_padding_l(self) -> tuple[int, ...]: ...
        def get_padding_r(self) -> tuple[int, ...]: ...
        def get_prop_kind(self) -> PropKind: ...
        def get_strides(self) -> tuple[int, ...]: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class PoolingForward(Primitive):
    """Maxima or averages of windows (`dnnl::pooling_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of pooling."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            strides: Sequence[int],
            kernel: Sequence[int],
            dilation: Sequence[int],
            padding_l: Sequence[int],
            padding_r: Sequence[int],
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_dilations(self) -> tuple[int, ...]: ...
        def get_kernel(self) -> tuple[int, ...]: ...
        def get_kind(self) -> str: ...
        def get_padding_l(self) -> tuple[int, ...]: ...
        def get_padding_r(self) -> tuple[int, ...]: ...
        def get_prop_kind(self) -> PropKind: ...
        def get_strides(self) -> tuple[int, ...]: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Reduction(Primitive):
    """The reduction primitive (`dnnl::reduction`): a fold over the dims in which the destination is 1."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of reduction."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            p: float = 0.0,
            eps: float = 0.0,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_epsilon(self) -> float: ...
        def get_kind(self) -> str: ...
        def get_p(self) -> float: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ReductionBackward(Primitive):
    """The gradient of the source of a reduction."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of reduction."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            p: float = 0.0,
            eps: float = 0.0,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_epsilon(self) -> float: ...
        def get_kind(self) -> str: ...
        def get_p(self) -> float: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ResamplingBackward(Primitive):
    """The gradient of the source of a resampling (`dnnl::resampling_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of resampling."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            factors: Sequence[float] | None = None,
            attr: PrimitiveAttr | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ResamplingForward(Primitive):
    """Spatial dims of another size (`dnnl::resampling_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of resampling."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            dst: MemoryDesc | None = None,
            factors: Sequence[float] | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ReverseSequence(Primitive):
    """Reverse the start of each sequence: `dst[t, b] = src[lengths[b] - 1 - t, b]` for t below the length."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of reverse sequence."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            src: MemoryDesc,
            lengths: MemoryDesc,
            dst: MemoryDesc,
            axis: int = 0,
            batch_axis: int = 1,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ScaledDotProductAttention(Primitive):
    """Scaled dot-product attention over queries, keys and values with several heads."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of attention."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            query: MemoryDesc,
            key: MemoryDesc,
            value: MemoryDesc,
            dst: MemoryDesc,
            mask: MemoryDesc | None = None,
            lengths: MemoryDesc | None = None,
            sinks: MemoryDesc | None = None,
            stats: MemoryDesc | None = None,
            scale: float | None = None,
            causal: str = "none",
            window: Sequence[int] | None = None,
            soft_cap: float = 0.0,
            offsets: MemoryDesc | None = None,
            key_offsets: MemoryDesc | None = None,
            key_scales: MemoryDesc | None = None,
            value_scales: MemoryDesc | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ScaledDotProductAttentionBackward(Primitive):
    """The gradients of queries, keys and values."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of attention."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            query: MemoryDesc,
            key: MemoryDesc,
            value: MemoryDesc,
            dst: MemoryDesc,
            stats: MemoryDesc,
            diff_query: MemoryDesc,
            diff_key: MemoryDesc,
            diff_value: MemoryDesc,
            diff_dst: MemoryDesc,
            mask: MemoryDesc | None = None,
            lengths: MemoryDesc | None = None,
            sinks: MemoryDesc | None = None,
            scale: float | None = None,
            causal: str = "none",
            window: Sequence[int] | None = None,
            soft_cap: float = 0.0,
            offsets: MemoryDesc | None = None,
            key_offsets: MemoryDesc | None = None,
            attr: PrimitiveAttr | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Scan(Primitive):
    """The scan primitive: cumulative sums, products, maxima or minima along an axis."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of scan."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            axis: int,
            exclusive: bool = False,
            reverse: bool = False,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ScanBackward(Primitive):
    """The gradient of the source of a scan."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of scan."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            axis: int,
            exclusive: bool = False,
            reverse: bool = False,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Scatter(Primitive):
    """The scatter primitive: `dst = src`, then `dst[..., indices[k], ...] = updates[..., k, ...]` in order."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of scatter."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            indices: MemoryDesc,
            updates: MemoryDesc,
            dst: MemoryDesc,
            axis: int = 0,
            reduction: str = "none",
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ScatterBackward(Primitive):
    """The gradients of source and updates, for the reductions "none" and "add"."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of scatter."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            diff_src: MemoryDesc,
            indices: MemoryDesc,
            diff_updates: MemoryDesc,
            diff_dst: MemoryDesc,
            axis: int = 0,
            reduction: str = "none",
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ShuffleBackward(Primitive):
    """The backward shuffle (`dnnl::shuffle_backward`): the gradient of the source from the destination's."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of shuffle."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            diff_src_md: MemoryDesc,
            diff_dst_md: MemoryDesc,
            axis: int,
            group_size: int,
            hint_fwd_pd: PrimitiveDescBase | None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_axis(self) -> int: ...
        def get_group_size(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    Desc = ShuffleBackwardDesc
    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class ShuffleForward(Primitive):
    """The forward shuffle (`dnnl::shuffle_forward`): `dst[u + v * C/G] = src[u * G + v]` on an axis."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of shuffle."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            src_md: MemoryDesc,
            dst_md: MemoryDesc,
            axis: int,
            group_size: int,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_axis(self) -> int: ...
        def get_group_size(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    Desc = ShuffleForwardDesc
    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class SoftmaxBackward(Primitive):
    """The gradient of the source of a softmax (`dnnl::softmax_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of softmax."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            dst: MemoryDesc,
            axis: int,
            attr: PrimitiveAttr | None = None,
            hint_pd: PrimitiveDescBase | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class SoftmaxForward(Primitive):
    """The softmax primitive (`dnnl::softmax_forward`): `dst = e**(src - m) / s`, s the sum along an axis."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of softmax."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            axis: int,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Sum(Primitive):
    """The sum primitive (`dnnl::sum`): `dst = saturate(scales[0] * src[0] + scales[1] * src[1] + ...)`."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of sum."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            scales: Sequence[float] | None,
            srcs: Sequence[MemoryDesc],
            dst: MemoryDesc | None = None,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def get_scales(self) -> list[float]: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Tile(Primitive):
    """The tile primitive: the source repeated along each dim until it fills the destination."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of tile."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            src: MemoryDesc,
            dst: MemoryDesc,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class TileBackward(Primitive):
    """The gradient of the source of a tile: for each element the sum over its repeats."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of tile."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            diff_src: MemoryDesc,
            diff_dst: MemoryDesc,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class TopK(Primitive):
    """The largest or smallest elements along an axis, in order, and their indices; taking all sorts it."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of top k."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            algorithm: Algorithm | str,
            src: MemoryDesc,
            dst: MemoryDesc,
            indices: MemoryDesc,
            axis: int,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_algorithm(self) -> str: ...
        def get_axis(self) -> int: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class Trilu(Primitive):
    """The trilu primitive: the source on and above (or below) a diagonal of the last two dims, else zeros."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of trilu."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            src: MemoryDesc,
            dst: MemoryDesc,
            offset: MemoryDesc | None = None,
            diagonal: int = 0,
            upper: bool = True,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class VanillaRNNBackward(Primitive):
    """The gradients of all inputs of a `VanillaRNNForward` (`dnnl::vanilla_rnn_backward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of the gradient of vanilla rnn."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            activation: Algorithm | str,
            direction: RNNDirection | str,
            src_layer_desc: MemoryDesc,
            src_iter_desc: MemoryDesc | None,
            weights_layer_desc: MemoryDesc,
            weights_iter_desc: MemoryDesc | None,
            bias_desc: MemoryDesc | None,
            dst_layer_desc: MemoryDesc,
            dst_iter_desc: MemoryDesc | None,
            diff_src_layer_desc: MemoryDesc,
            diff_src_iter_desc: MemoryDesc | None,
            diff_weights_layer_desc: MemoryDesc,
            diff_weights_iter_desc: MemoryDesc | None,
            diff_bias_desc: MemoryDesc | None,
            diff_dst_layer_desc: MemoryDesc,
            diff_dst_iter_desc: MemoryDesc | None,
            alpha: float = 0.0,
            hint_pd: PrimitiveDescBase | None = None,
            flags: RNNFlags | str = "undef",
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def bias_desc(self) -> MemoryDesc: ...
        def diff_bias_desc(self) -> MemoryDesc: ...
        def diff_dst_iter_c_desc(self) -> MemoryDesc: ...
        def diff_dst_iter_desc(self) -> MemoryDesc: ...
        def diff_dst_layer_desc(self) -> MemoryDesc: ...
        def diff_src_iter_c_desc(self) -> MemoryDesc: ...
        def diff_src_iter_desc(self) -> MemoryDesc: ...
        def diff_src_layer_desc(self) -> MemoryDesc: ...
        def diff_weights_iter_desc(self) -> MemoryDesc: ...
        def diff_weights_layer_desc(self) -> MemoryDesc: ...
        def dst_iter_c_desc(self) -> MemoryDesc: ...
        def dst_iter_desc(self) -> MemoryDesc: ...
        def dst_layer_desc(self) -> MemoryDesc: ...
        def get_activation_kind(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_cell_kind(self) -> str: ...
        def get_direction(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def src_iter_c_desc(self) -> MemoryDesc: ...
        def src_iter_desc(self) -> MemoryDesc: ...
        def src_layer_desc(self) -> MemoryDesc: ...
        def weights_iter_desc(self) -> MemoryDesc: ...
        def weights_layer_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...

class VanillaRNNForward(Primitive):
    """A vanilla RNN (`dnnl::vanilla_rnn_forward`)."""

    class PrimitiveDesc(PrimitiveDescBase):
        """Primitive descriptor of vanilla rnn."""

        @overload
        def __init__(self) -> None: ...
        @overload
        def __init__(
            self,
            engine: Engine,
            prop_kind: PropKind | str,
            activation: Algorithm | str,
            direction: RNNDirection | str,
            src_layer_desc: MemoryDesc,
            src_iter_desc: MemoryDesc | None,
            weights_layer_desc: MemoryDesc,
            weights_iter_desc: MemoryDesc | None,
            bias_desc: MemoryDesc | None,
            dst_layer_desc: MemoryDesc,
            dst_iter_desc: MemoryDesc | None,
            alpha: float = 0.0,
            attr: PrimitiveAttr | None = None,
            allow_empty: bool = False,
        ) -> None: ...
        @overload
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def bias_desc(self) -> MemoryDesc: ...
        def dst_iter_c_desc(self) -> MemoryDesc: ...
        def dst_iter_desc(self) -> MemoryDesc: ...
        def dst_layer_desc(self) -> MemoryDesc: ...
        def get_activation_kind(self) -> str: ...
        def get_alpha(self) -> float: ...
        def get_cell_kind(self) -> str: ...
        def get_direction(self) -> str: ...
        def get_kind(self) -> str: ...
        def get_prop_kind(self) -> PropKind: ...
        def src_iter_c_desc(self) -> MemoryDesc: ...
        def src_iter_desc(self) -> MemoryDesc: ...
        def src_layer_desc(self) -> MemoryDesc: ...
        def weights_iter_desc(self) -> MemoryDesc: ...
        def weights_layer_desc(self) -> MemoryDesc: ...

    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ...
