"""Recurrent networks: vanilla RNN, LSTM, GRU and linear-before-reset GRU, forward (X1)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from ..desc.memory_desc import MemoryDesc
from ..plan.rnn_cells import RnnCell
from ..plan.rnn_problem import NAMES, OUTPUTS, RnnProblem, RnnTensors
from .convolution_shapes import kernel_block
from .forms import CallArguments, form_of
from .parse import parse_attr
from .pointwise import OneStepPrimitiveDesc, check_attributes, parse_forward_kind
from .primitive import Primitive
from .prop_kind import PropKind
from .rnn_checks import (
    DIRECTIONS,
    check_dims,
    check_formats,
    check_pairs,
    check_types,
    parse_cell,
    parse_direction,
    parse_tensors,
)

__all__ = ["GRUForward", "LBRGRUForward", "LSTMForward", "RNNDirection", "VanillaRNNForward"]

_NO_DESC = MemoryDesc()
_MUST = ("src_layer", "weights_layer", "weights_iter", "dst_layer")


class RNNDirection(enum.StrEnum):
    """Which way a network reads (`dnnl::rnn_direction`). Members equal their words, which serve as well."""

    unidirectional_left2right = "unidirectional_left2right"
    unidirectional_right2left = "unidirectional_right2left"
    bidirectional_concat = "bidirectional_concat"
    bidirectional_sum = "bidirectional_sum"
    unidirectional = "unidirectional_left2right"


_BEFORE = ("engine", "prop_kind")
_GRU = (
    "direction",
    "src_layer_desc",
    "src_iter_desc",
    "weights_layer_desc",
    "weights_iter_desc",
    "bias_desc",
    "dst_layer_desc",
    "dst_iter_desc",
)
_LSTM = (*_GRU[:3], "src_iter_c_desc", *_GRU[3:], "dst_iter_c_desc")


class RNNPrimitiveDesc(OneStepPrimitiveDesc):
    """What the forward descriptors of all cells share."""

    _cell_kind: ClassVar[str]

    __slots__ = ("_rnn",)
    _rnn: RnnProblem | None

    def _empty(self) -> None:
        super()._empty()
        self._rnn = None

    def _parsed_kind(self, arguments: CallArguments) -> PropKind:
        return parse_forward_kind(self.form.what, arguments.prop_kind)

    def _problem(self, what: str, arguments: CallArguments) -> tuple[RnnProblem, dict[int, MemoryDesc]]:
        trains = self._parsed_kind(arguments) is PropKind.forward_training
        cell = parse_cell(
            what,
            self._cell_kind,
            getattr(arguments, "activation", None),
            getattr(arguments, "alpha", 0.0),
        )
        direction = parse_direction(what, arguments.direction)
        found = parse_tensors(what, arguments, _names_of(cell))
        check_pairs(what, found, cell)
        check_dims(what, found, cell, direction)
        check_types(what, found)
        check_formats(what, found, OUTPUTS)
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        problem = self._rnn = _resolved(
            RnnProblem(cell, direction, trains, _tensors(found), kernel_block(), attr)
        )
        others = problem.tensors.items()
        reads = {NAMES[name]: md for name, md in others.items() if name not in OUTPUTS}
        return problem, {**reads, NAMES["dst_layer"]: problem.dst}

    def get_kind(self) -> str:
        """The primitive kind: "rnn"."""
        return "rnn"

    def get_cell_kind(self) -> str:
        """The cell as oneDNN calls it: `vanilla_lstm`."""
        self._implementation()
        return self._cell_kind

    def get_direction(self) -> str:
        """Which way the network reads, as oneDNN calls it."""
        problem = self._problem_of()
        return next(word for word, name in DIRECTIONS.items() if name == problem.direction)

    def get_activation_kind(self) -> str:
        """The function of a vanilla cell: `eltwise_tanh`; "undef" of the others."""
        name = self._problem_of().cell.activation
        return f"eltwise_{name}" if name else "undef"

    def get_alpha(self) -> float:
        """The slope below 0 of a relu."""
        return self._problem_of().cell.alpha

    def src_layer_desc(self) -> MemoryDesc:
        """The descriptor of the source."""
        return self._tensor("src_layer")

    def src_iter_desc(self) -> MemoryDesc:
        """The descriptor of the first states; the zero descriptor where there are none."""
        return self._tensor("src_iter")

    def src_iter_c_desc(self) -> MemoryDesc:
        """The descriptor of the first states c; the zero descriptor where there are none."""
        return self._tensor("src_iter_c")

    def weights_layer_desc(self) -> MemoryDesc:
        """The descriptor of the weights of the input."""
        return self._tensor("weights_layer")

    def weights_iter_desc(self) -> MemoryDesc:
        """The descriptor of the weights of the states."""
        return self._tensor("weights_iter")

    def bias_desc(self) -> MemoryDesc:
        """The descriptor of the bias; the zero descriptor where there is none."""
        return self._tensor("bias")

    def dst_layer_desc(self) -> MemoryDesc:
        """The descriptor of the states of the last layer."""
        return self._tensor("dst_layer")

    def dst_iter_desc(self) -> MemoryDesc:
        """The descriptor of the last states; the zero descriptor where there are none."""
        return self._tensor("dst_iter")

    def dst_iter_c_desc(self) -> MemoryDesc:
        """The descriptor of the last states c; the zero descriptor where there are none."""
        return self._tensor("dst_iter_c")

    def _problem_of(self) -> RnnProblem:
        self._implementation()
        assert self._rnn is not None
        return self._rnn

    def _tensor(self, name: str) -> MemoryDesc:
        found: MemoryDesc = getattr(self._rnn.tensors, name) if self._rnn else _NO_DESC
        return found

    def _named(self) -> Mapping[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        if self._rnn is None:
            return {}
        tensors = self._rnn.tensors
        groups = {
            "src": (tensors.src_layer, tensors.src_iter, tensors.src_iter_c),
            "weights": (tensors.weights_layer, tensors.weights_iter),
            "bias": (tensors.bias,),
            "dst": (tensors.dst_layer, tensors.dst_iter, tensors.dst_iter_c),
        }
        workspace = {"workspace": (self._rnn.workspace.desc,)} if self._rnn.trains else {}
        return {**groups, **workspace}

    def _how(self) -> str:
        return f"alg:{self._cell_kind} direction:{self.get_direction()}"


def _names_of(cell: RnnCell) -> dict[str, bool]:
    """The tensors of a cell, and whether each must be there."""
    has_c = cell.has_cell_state
    return {name: name in _MUST for name in NAMES if has_c or not name.endswith("_c")}


def _tensors(found: Mapping[str, MemoryDesc]) -> RnnTensors:
    return RnnTensors(**{name: found.get(name, _NO_DESC) for name in NAMES})


def _resolved(problem: RnnProblem) -> RnnProblem:
    """The problem with formats for all that are "any": row-major, of weights what kernels want."""
    wanted = problem.preferred()
    chosen = {
        name: wanted.get(name) or MemoryDesc(md.dims, md.data_type)
        for name, md in problem.tensors.items().items()
        if md.format_kind == "any"
    }
    return replace(problem, tensors=replace(problem.tensors, **chosen))


class VanillaRNNForwardPrimitiveDesc(RNNPrimitiveDesc):
    """Primitive descriptor of a vanilla RNN (`dnnl::vanilla_rnn_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, activation, direction, src_layer_desc, src_iter_desc,
    weights_layer_desc, weights_iter_desc, bias_desc, dst_layer_desc, dst_iter_desc, alpha=0.0, attr=None,
    allow_empty=False)`. `activation`: "eltwise_tanh", "eltwise_logistic" or "eltwise_relu", whose slope below
    0 is `alpha`. The rest is as `LSTMForward.PrimitiveDesc` has it.
    """

    kind, _cell_kind = "VanillaRNNForward", "vanilla_rnn"
    form = form_of(
        "VanillaRNNForward.PrimitiveDesc",
        *(*_BEFORE, "activation", *_GRU),
        alpha=0.0,
        attr=None,
        allow_empty=False,
    )
    __signature__ = form.shown
    __slots__ = ()


class LSTMForwardPrimitiveDesc(RNNPrimitiveDesc):
    """Primitive descriptor of an LSTM (`dnnl::lstm_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, direction, src_layer_desc, src_iter_desc, src_iter_c_desc,
    weights_layer_desc, weights_iter_desc, bias_desc, dst_layer_desc, dst_iter_desc, dst_iter_c_desc,
    attr=None, allow_empty=False)`; without arguments it is empty and False. `direction`:
    "unidirectional_left2right", "unidirectional_right2left", "bidirectional_concat" or "bidirectional_sum".

    Of T steps, N sequences, L layers, D directions, I inputs and C channels: `src_layer` (T, N, I), states
    (L, D, N, C), `weights_layer` (L, D, I, gates, C), `weights_iter` (L, D, C, gates, C), `bias` (L, D,
    gates, C), `dst_layer` (T, N, C), or 2 * C of directions side by side. States and bias may be None. Each
    of format "any" gets the format that is fastest here. In training there is a workspace.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind, _cell_kind = "LSTMForward", "vanilla_lstm"
    form = form_of("LSTMForward.PrimitiveDesc", *_BEFORE, *_LSTM, attr=None, allow_empty=False)
    __signature__ = form.shown
    __slots__ = ()


class GRUForwardPrimitiveDesc(RNNPrimitiveDesc):
    """Primitive descriptor of a GRU (`dnnl::gru_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, direction, src_layer_desc, src_iter_desc, weights_layer_desc,
    weights_iter_desc, bias_desc, dst_layer_desc, dst_iter_desc, attr=None, allow_empty=False)`, with 3 gates,
    else as `LSTMForward.PrimitiveDesc` has it.
    """

    kind, _cell_kind = "GRUForward", "vanilla_gru"
    form = form_of("GRUForward.PrimitiveDesc", *_BEFORE, *_GRU, attr=None, allow_empty=False)
    __signature__ = form.shown
    __slots__ = ()


class LBRGRUForwardPrimitiveDesc(RNNPrimitiveDesc):
    """Primitive descriptor of a GRU, linear before its reset (`dnnl::lbr_gru_forward::primitive_desc`).

    Arguments are those of `GRUForward.PrimitiveDesc`; the bias has 4 gates, the last one for the sums of the
    state.
    """

    kind, _cell_kind = "LBRGRUForward", "lbr_gru"
    form = form_of("LBRGRUForward.PrimitiveDesc", *_BEFORE, *_GRU, attr=None, allow_empty=False)
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
