"""What the descriptors of recurrent networks share: names, directions, queries."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import ClassVar

from ..desc.arguments import ARG_BIAS, ARG_SRC_ITER, ARG_SRC_ITER_C, NETWORK_NAMES
from ..desc.memory_desc import MemoryDesc
from ..errors import LookupType, Unimplemented, ValueLookup
from ..plan.rnn_cells import RnnCell
from ..plan.rnn_descs import NAMES, RnnTensors
from ..plan.rnn_gradient_problem import RnnGradientProblem
from ..plan.rnn_problem import RnnProblem
from .forms import CallArguments
from .parse import check_described
from .pointwise import OneStepPrimitiveDesc
from .rnn_checks import DIRECTIONS, parse_cell

_NO_DESC = MemoryDesc()
_MUST = ("src_layer", "weights_layer", "weights_iter", "dst_layer")
BEFORE = ("engine", "prop_kind")
GRU_NAMES = (
    "direction",
    "src_layer_desc",
    "src_iter_desc",
    "weights_layer_desc",
    "weights_iter_desc",
    "bias_desc",
    "dst_layer_desc",
    "dst_iter_desc",
)
LSTM_NAMES = (*GRU_NAMES[:3], "src_iter_c_desc", *GRU_NAMES[3:], "dst_iter_c_desc")
"""The arguments of descriptors, by their names in oneDNN."""
MORE_WEIGHTS = {"weights_peephole_desc": None, "weights_projection_desc": None}
"""What an LSTM of oneDNN may have besides; here it is always None."""


class RNNDirection(ValueLookup, enum.StrEnum, metaclass=LookupType):
    """Which way a network reads (`dnnl::rnn_direction`). Members equal their words, which serve as well."""

    unidirectional_left2right = "unidirectional_left2right"
    unidirectional_right2left = "unidirectional_right2left"
    bidirectional_concat = "bidirectional_concat"
    bidirectional_sum = "bidirectional_sum"
    unidirectional = "unidirectional_left2right"


class RNNPrimitiveDesc(OneStepPrimitiveDesc):
    """What the descriptors of all cells share, forward and backward."""

    _cell_kind: ClassVar[str]
    _arg_names = NETWORK_NAMES
    _optional_args: ClassVar[Collection[int]] = (ARG_SRC_ITER, ARG_SRC_ITER_C, ARG_BIAS)

    __slots__ = ("_rnn",)
    _rnn: RnnProblem | RnnGradientProblem | None

    def _empty(self) -> None:
        super()._empty()
        self._rnn = None

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

    def _problem_of(self) -> RnnProblem | RnnGradientProblem:
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
        return {**groups, **self._more_named()}

    def _more_named(self) -> dict[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        """The descriptors that one way has beside those of a forward step, by their names in queries."""
        raise NotImplementedError

    def _how(self) -> str:
        return f"alg:{self._cell_kind} direction:{self.get_direction()}"

    def _parsed_cell(self, what: str, arguments: CallArguments) -> RnnCell:
        if self._cell_kind == "vanilla_lstm":
            _check_no_more_weights(what, arguments)
        if self._cell_kind != "vanilla_rnn":
            return parse_cell(what, self._cell_kind)
        return parse_cell(what, self._cell_kind, arguments.activation, arguments.alpha)


def _check_no_more_weights(what: str, arguments: CallArguments) -> None:
    """Raise Unimplemented for an LSTM with peepholes or a projection, InvalidArguments for no descriptor."""
    for name in MORE_WEIGHTS:
        md = getattr(arguments, name)
        if md is None or (isinstance(md, MemoryDesc) and md.is_zero()):
            continue
        raise Unimplemented(
            f"{what}: {name} is passed",
            code="RS-X05",
            where=str(check_described(what, name, md, is_known=False)),
            why="an LSTM has no peepholes and no projection here",
            hint="leave it out: a network that was trained with it needs it, another one does not",
        )


def names_of(cell: RnnCell) -> dict[str, bool]:
    """The tensors of a cell, and whether each must be there."""
    has_c = cell.has_cell_state
    return {name: name in _MUST for name in NAMES if has_c or not name.endswith("_c")}


def tensors_of(found: Mapping[str, MemoryDesc]) -> RnnTensors:
    """The tensors of a forward step, of those that are there."""
    return RnnTensors(**{name: found.get(name, _NO_DESC) for name in NAMES})


def formats_of(found: Mapping[str, MemoryDesc], wanted: Mapping[str, MemoryDesc]) -> dict[str, MemoryDesc]:
    """The formats of all that are "any": row-major where none is wanted."""
    return {
        name: wanted.get(name) or MemoryDesc(md.dims, md.data_type)
        for name, md in found.items()
        if md.format_kind == "any"
    }
