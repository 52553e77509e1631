"""Recurrent networks: vanilla RNN, LSTM, GRU and linear-before-reset GRU, forward."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ..desc.arguments import ARG_DST_ITER, ARG_DST_ITER_C, ARG_SRC_ITER, ARG_SRC_ITER_C
from ..desc.memory_desc import MemoryDesc
from ..plan.rnn_descs import NAMES, OUTPUTS
from ..plan.rnn_problem import RnnProblem
from .convolution_shapes import kernel_block, kernel_pack
from .forms import CallArguments, form_of
from .parse import parse_attr
from .pointwise import check_attributes, parse_forward_kind
from .primitive import Primitive
from .prop_kind import PropKind
from .rnn_checks import (
    check_dims,
    check_formats,
    check_pairs,
    check_quantisation,
    check_slope,
    check_types,
    parse_direction,
    parse_tensors,
)
from .rnn_desc import (
    BEFORE,
    GRU_NAMES,
    LSTM_NAMES,
    MORE_WEIGHTS,
    RNNDirection,
    RNNPrimitiveDesc,
    formats_of,
    names_of,
    tensors_of,
)

__all__ = ["GRUForward", "LBRGRUForward", "LSTMForward", "RNNDirection", "VanillaRNNForward"]


class RNNForwardPrimitiveDesc(RNNPrimitiveDesc):
    """What the forward descriptors of all cells share."""

    # Each step reads the states of a channel before it writes them.
    _in_place = MappingProxyType({ARG_DST_ITER: ARG_SRC_ITER, ARG_DST_ITER_C: ARG_SRC_ITER_C})

    __slots__ = ()

    def _parsed_kind(self, arguments: CallArguments) -> PropKind:
        return parse_forward_kind(self.form.what, arguments.prop_kind)

    def _problem(self, what: str, arguments: CallArguments) -> tuple[RnnProblem, dict[int, MemoryDesc]]:
        trains = self._parsed_kind(arguments) is PropKind.forward_training
        cell = self._parsed_cell(what, arguments)
        if trains:
            check_slope(what, cell)
        direction = parse_direction(what, arguments.direction)
        found = parse_tensors(what, arguments, names_of(cell))
        check_pairs(what, found, cell)
        check_dims(what, found, cell, direction)
        check_types(what, found)
        check_formats(what, found, OUTPUTS)
        attr = check_attributes(what, parse_attr(what, arguments.attr), "rnn_qparams")
        check_quantisation(what, attr, found, is_inference=not trains)
        pack = kernel_pack(found["src_layer"].data_type, found["weights_layer"].data_type)
        problem = RnnProblem(cell, direction, trains, tensors_of(found), kernel_block(), attr, pack)
        chosen = formats_of(found, problem.preferred())
        problem = self._rnn = replace(problem, tensors=replace(problem.tensors, **chosen))
        others = problem.tensors.items()
        reads = {NAMES[name]: md for name, md in others.items() if name not in OUTPUTS}
        return problem, {**reads, NAMES["dst_layer"]: problem.dst}

    def _more_named(self) -> dict[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        problem = self._problem_of()
        trains = isinstance(problem, RnnProblem) and problem.trains
        return {"workspace": problem.workspace.desc} if trains else {}


class VanillaRNNForwardPrimitiveDesc(RNNForwardPrimitiveDesc):
    """Primitive descriptor of a vanilla RNN (`dnnl::vanilla_rnn_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, activation, direction, src_layer_desc, src_iter_desc,
    weights_layer_desc, weights_iter_desc, bias_desc, dst_layer_desc, dst_iter_desc, alpha=0.0, attr=None,
    allow_empty=False)`. `activation`: "eltwise_tanh", "eltwise_logistic" or "eltwise_relu", whose slope below
    0 is `alpha`. The rest is as `LSTMForward.PrimitiveDesc` has it.
    """

    kind, _cell_kind = "VanillaRNNForward", "vanilla_rnn"
    form = form_of(
        "VanillaRNNForward.PrimitiveDesc",
        *(*BEFORE, "activation", *GRU_NAMES),
        alpha=0.0,
        attr=None,
        allow_empty=False,
    )
    __signature__ = form.shown
    __slots__ = ()


class LSTMForwardPrimitiveDesc(RNNForwardPrimitiveDesc):
    """Primitive descriptor of an LSTM (`dnnl::lstm_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, direction, src_layer_desc, src_iter_desc, src_iter_c_desc,
    weights_layer_desc, weights_iter_desc, bias_desc, dst_layer_desc, dst_iter_desc, dst_iter_c_desc,
    attr=None, allow_empty=False, weights_peephole_desc=None, weights_projection_desc=None)`; without
    arguments it is empty and False. Peepholes and projections are not provided. `direction`:
    "unidirectional_left2right", "unidirectional_right2left", "bidirectional_concat" or "bidirectional_sum".

    Of T steps, N sequences, L layers, D directions, I inputs and C channels: `src_layer` (T, N, I), states
    (L, D, N, C), `weights_layer` (L, D, I, gates, C), `weights_iter` (L, D, C, gates, C), `bias` (L, D,
    gates, C), `dst_layer` (T, N, C), or 2 * C of directions side by side. States and bias may be None. Each
    of format "any" gets the format that is fastest here. In training there is a workspace.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind, _cell_kind = "LSTMForward", "vanilla_lstm"
    form = form_of(
        "LSTMForward.PrimitiveDesc", *BEFORE, *LSTM_NAMES, attr=None, allow_empty=False, **MORE_WEIGHTS
    )
    __signature__ = form.shown
    __slots__ = ()


class GRUForwardPrimitiveDesc(RNNForwardPrimitiveDesc):
    """Primitive descriptor of a GRU (`dnnl::gru_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, direction, src_layer_desc, src_iter_desc, weights_layer_desc,
    weights_iter_desc, bias_desc, dst_layer_desc, dst_iter_desc, attr=None, allow_empty=False)`, with 3 gates,
    else as `LSTMForward.PrimitiveDesc` has it.
    """

    kind, _cell_kind = "GRUForward", "vanilla_gru"
    form = form_of("GRUForward.PrimitiveDesc", *BEFORE, *GRU_NAMES, attr=None, allow_empty=False)
    __signature__ = form.shown
    __slots__ = ()


class LBRGRUForwardPrimitiveDesc(RNNForwardPrimitiveDesc):
    """Primitive descriptor of a GRU, linear before its reset (`dnnl::lbr_gru_forward::primitive_desc`).

    Arguments are those of `GRUForward.PrimitiveDesc`; the bias has 4 gates, the last one for the sums of the
    state.
    """

    kind, _cell_kind = "LBRGRUForward", "lbr_gru"
    form = form_of("LBRGRUForward.PrimitiveDesc", *BEFORE, *GRU_NAMES, attr=None, allow_empty=False)
    __signature__ = form.shown
    __slots__ = ()


class VanillaRNNForward(Primitive):
    """A vanilla RNN (`dnnl::vanilla_rnn_forward`): `VanillaRNNForward(pd)`; without arguments it is empty."""

    PrimitiveDesc = VanillaRNNForwardPrimitiveDesc
    kind = "VanillaRNNForward"
    __slots__ = ()


class LSTMForward(Primitive):
    """An LSTM (`dnnl::lstm_forward`): `LSTMForward(pd)`; without arguments it is empty."""

    PrimitiveDesc = LSTMForwardPrimitiveDesc
    kind = "LSTMForward"
    __slots__ = ()


class GRUForward(Primitive):
    """A GRU (`dnnl::gru_forward`): `GRUForward(pd)`; without arguments it is empty."""

    PrimitiveDesc = GRUForwardPrimitiveDesc
    kind = "GRUForward"
    __slots__ = ()


class LBRGRUForward(Primitive):
    """A GRU that is linear before its reset (`dnnl::lbr_gru_forward`): `LBRGRUForward(pd)`."""

    PrimitiveDesc = LBRGRUForwardPrimitiveDesc
    kind = "LBRGRUForward"
    __slots__ = ()
