"""Recurrent networks, forward and backward: vanilla RNN, LSTM, GRU and linear-before-reset GRU.

`programs/rnn_cells.py` and `programs/rnn_gradient_cells.py` define the steps, `programs/rnn.py` combines
them into a program.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..desc.arguments import (
    ARG_BIAS,
    ARG_DIFF_DST_ITER,
    ARG_DIFF_DST_ITER_C,
    ARG_DIFF_SRC_LAYER,
    ARG_DST_ITER,
    ARG_DST_ITER_C,
    ARG_DST_LAYER,
    ARG_SRC_ITER,
    ARG_SRC_ITER_C,
    ARG_WORKSPACE,
    NETWORK_NAMES,
)
from ..desc.attr import Attr
from ..desc.attr_value import RnnQparams
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..ir.computation import NOTHING, Computation, OperandSource
from ..ir.digits import TensorOperand
from ..ir.nest import Compute
from ..ir.program import Program
from ..model.derived import DerivedPrimitiveDesc, make_primitive
from ..model.operation import OperationProblem
from ..model.primitive import Primitive
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped
from .product import kernel_block, kernel_pack
from .programs.rnn import BackwardWriter, ForwardWriter
from .programs.rnn_cells import RnnCell
from .programs.rnn_descs import FACTORS, GRADIENTS, NAMES, OUTPUTS, RnnTensors, RnnWorkspace
from .rnn_checks import (
    DIRECTIONS,
    MORE_WEIGHTS,
    RNNFlags,
    check_network,
    check_quantization,
    check_slope,
    parse_direction,
    parse_flags,
    read_cell,
    read_tensors,
)

_NO_DESC = MemoryDesc()
_TENSORS = tuple(tensor_field.name for tensor_field in fields(RnnTensors))


def _arguments(cell: str, *prefixes: str) -> tuple[str, ...]:
    """Return the arguments of a descriptor in oneDNN's order: tensors, with each of the prefixes in turn."""
    names = [name for name in _TENSORS if cell == "vanilla_lstm" or not name.endswith("_c")]
    head = ("prop_kind", "activation", "direction") if cell == "vanilla_rnn" else ("prop_kind", "direction")
    return (*head, *(f"{prefix}{name}_desc" for prefix in prefixes for name in names))


class RecurrentProblem(OperationProblem):
    """The common part of forward and backward steps of all cells."""

    operation = "rnn"
    in_place = False
    arg_names = NETWORK_NAMES
    cell_kind: ClassVar[str]
    # The number of products of each weight for one sequence at one time.
    products_of_weight: ClassVar[int] = 1

    __slots__ = ()

    if TYPE_CHECKING:  # fields of both

        @property
        def cell(self) -> RnnCell:
            """The cell."""

        @property
        def direction(self) -> str:
            """The direction in which the network reads, as plans call it."""

        @property
        def tensors(self) -> RnnTensors:
            """The tensors of a forward step."""

    @property
    def direction_word(self) -> str:
        """The direction in which the network reads, as oneDNN calls it."""
        return next(word for word, name in DIRECTIONS.items() if name == self.direction)

    @property
    def verbose_aux(self) -> str:
        return f"alg:{self.cell.kind} direction:{self.direction_word}"

    @property
    def workspace(self) -> RnnWorkspace:
        """The workspace of training."""
        return RnnWorkspace.of(self.cell, self.tensors)

    @property
    def terms(self) -> int:
        """The number of products that are summed."""
        weights = self.tensors.weights_layer.nelems + self.tensors.weights_iter.nelems
        return self.products_of_weight * self.tensors.steps * self.tensors.batch * weights

    @property
    def factor_types(self) -> tuple[DataType, DataType]:
        """The types of sources and weights."""
        return self.tensors.src_layer.data_type, self.tensors.weights_layer.data_type

    def named(self) -> dict[str, MemoryDesc]:
        """All tensors by name; the zero descriptor for absent ones."""
        return {name: getattr(self.tensors, name) for name in _TENSORS}


@dataclass(frozen=True, slots=True)
class RnnProblem(RecurrentProblem):
    """A forward step: equal problems share an executable. `block`: the channels in a block that kernels
    prefer; `pack`: the inputs that they multiply at once.
    """

    writes = ARG_DST_LAYER
    node_reads = (
        *("src_layer_desc", "weights_layer_desc", "weights_iter_desc", "bias_desc"),
        *("src_iter_desc?", "src_iter_c_desc?"),
    )
    node_writes = "dst_layer_desc", "dst_iter_desc", "dst_iter_c_desc"
    node_values: ClassVar = {
        "direction": lambda node, dst: {name: word for word, name in DIRECTIONS.items()}[node.direction],
        "activation": lambda node, dst: f"eltwise_{node.activation}",
    }

    cell: RnnCell
    direction: str
    trains: bool
    tensors: RnnTensors
    block: int
    attr: Attr = field(default_factory=Attr)
    pack: int = 1

    @classmethod
    def read(cls, call: ArgumentReader) -> RnnProblem:
        trains = call.prop_kind is PropKind.forward_training
        cell = read_cell(call, cls.cell_kind)
        if trains:
            check_slope(call.what, cell)
        direction = parse_direction(call.what, call.direction)
        mds = read_tensors(call, cell)
        check_network(call.what, mds, {}, cell, direction)
        attr = call.attr("rnn_qparams")
        check_quantization(call.what, attr, mds, is_inference=not trains)
        pack = kernel_pack(mds["src_layer"].data_type, mds["weights_layer"].data_type)
        problem = cls(cell, direction, trains, RnnTensors.of(mds), kernel_block(), attr, pack)
        return replace(problem, tensors=problem.tensors.chosen(problem.preferred()))

    @classmethod
    def results_dims(cls, node: Any, *tensors: Shaped) -> tuple[tuple[int, ...], ...]:
        cell, directions = RnnCell(node.cell), 2 if node.direction in ("concat", "sum") else 1
        states = 1 + cell.has_cell_state
        if len(tensors) not in (4, 4 + states):
            raise Misfit(f"{cell.kind} needs 4 tensors, and optionally {states} states")
        source, weights = tensors[0].dims, tensors[1].dims
        if len(source) != 3 or len(weights) != 5:
            raise Misfit("a source must be (T, N, I), weights (1, D, I, gates, C)")
        if 0 in (*source, *weights):
            raise Misfit("a network without steps, sequences or channels has no states")
        (steps, batch, inputs), channels, runs = source, weights[-1], (1, directions)
        last = (*runs, batch, channels)
        layer, iteration = ((*runs, n, cell.gates, channels) for n in (inputs, channels))
        expected = source, layer, iteration, (*runs, cell.biases, channels), last, last
        for number, (tensor, dims) in enumerate(zip(tensors, expected, strict=False)):
            if tensor.dims != dims:
                text, other = ("x".join(map(str, n)) or "scalar" for n in (tensor.dims, dims))
                raise Misfit(f"tensor {number} is {text}, but should be {other}")
        wide = channels * (2 if node.direction == "concat" else 1)
        return ((steps, batch, wide), *[last] * states)

    @property
    def dst(self) -> MemoryDesc:
        return self.tensors.dst_layer

    @property
    def is_quantized(self) -> bool:
        """True if the network computes on bytes."""
        return self.tensors.src_layer.data_type is DataType.u8

    def computation(self) -> Computation:
        """For bytes: the scale, the shift, 1 / scale, and the factors that dequantize each gate's sums."""
        if not self.is_quantized:
            return NOTHING
        qparams = self.attr.rnn or RnnQparams()
        scalars = qparams.data_scale, qparams.data_shift, 1 / qparams.data_scale
        shape = self.cell.gates, self.tensors.channels
        scales = np.broadcast_to(np.array(qparams.weights_scales, np.float64), (prod(shape),))
        values = (1 / (qparams.data_scale * scales)).astype(np.float32)
        tensor = TensorOperand.of_groups(DataType.f32, shape, shape)
        operand = OperandSource(tensor, FACTORS, values, None, prod(shape), DataType.f32, shape)
        return Computation(Compute(), scalars, (operand,), tuple((FACTORS, i) for i in range(3)))

    def named(self) -> dict[str, MemoryDesc]:
        """All tensors by name."""
        workspace = {"workspace": self.workspace.desc} if self.trains else {}
        return RecurrentProblem.named(self) | workspace

    def sources(self) -> dict[int, MemoryDesc]:
        return {NAMES[name]: md for name, md in self.tensors.items().items() if name not in OUTPUTS}

    def outputs(self) -> dict[int, MemoryDesc]:
        """The outputs other than the states of the last layer."""
        tensors = self.tensors.items()
        outputs = {NAMES[name]: tensors[name] for name in OUTPUTS[1:] if name in tensors}
        return {**outputs, **({ARG_WORKSPACE: self.workspace.desc} if self.trains else {})}

    @property
    def moved_bytes(self) -> int:
        """The bytes read and written, each element once."""
        return sum(md.size for md in (*self.tensors.items().values(), *self.outputs().values()))

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels prefer: weights in blocks of outputs, with all gates adjacent if a
        step sums them together.
        """
        layer, states = self.tensors.weights_layer, self.tensors.weights_iter
        summed, inner = ("C", f"{self.block}e{self.pack}c") if self.pack > 1 else ("c", f"{self.block}e")
        apart, together = f"abdE{summed}{inner}", f"abE{summed}d{inner}"
        of_steps = apart if self.cell.kind == "vanilla_gru" else together
        return {
            "weights_layer": MemoryDesc(layer.dims, layer.data_type, apart),
            "weights_iter": MemoryDesc(states.dims, states.data_type, of_steps),
        }

    def program(self) -> Program:
        """The program: packs weights, then runs every direction and layer, then writes results."""
        return ForwardWriter(self).program()


@dataclass(frozen=True, slots=True)
class RnnGradientProblem(RecurrentProblem):
    """A backward step: equal problems share an executable. `tensors` are those of the forward step.

    `adds`: gradients of weights and bias are added to the existing ones.
    """

    prop_kinds = (PropKind.backward,)
    prop_kind_error = (
        "a recurrent network computes the gradients of all its inputs together",
        'pass "backward"',
    )
    writes = ARG_DIFF_SRC_LAYER
    products_of_weight = 2  # one for the gradient of the sources, one for that of the weight

    cell: RnnCell
    direction: str
    tensors: RnnTensors
    gradients: RnnTensors
    block: int
    attr: Attr = field(default_factory=Attr)
    adds: bool = True

    @classmethod
    def read(cls, call: ArgumentReader) -> RnnGradientProblem:
        cell = read_cell(call, cls.cell_kind)
        check_slope(call.what, cell)
        direction = parse_direction(call.what, call.direction)
        mds, gradients = read_tensors(call, cell), read_tensors(call, cell, "diff_")
        check_network(call.what, mds, gradients, cell, direction)
        attr = call.attr()
        check_quantization(call.what, attr, mds, is_inference=False)
        adds = parse_flags(call.what, call.flags) is RNNFlags.undef
        tensors, outputs = RnnTensors.of(mds), RnnTensors.of(gradients, "diff_").chosen({})
        problem = cls(cell, direction, tensors, outputs, kernel_block(), attr, adds)
        problem = replace(problem, tensors=tensors.chosen(problem.preferred()))
        if hint := call.hint(RnnProblem):
            problem._check_hint(call, hint)
        return problem

    def _check_hint(self, call: ArgumentReader, hint: RnnProblem) -> None:
        training, inference = PropKind.forward_training, PropKind.forward_inference
        theirs, own = ({name: md.dims for name, md in step.tensors.items().items()} for step in (hint, self))
        call.check_hint(
            prop_kind=(training if hint.trains else inference, training),
            direction=(hint.direction, self.direction),
            activation=(hint.cell, self.cell),
            workspace=(hint.workspace, self.workspace),
            **{f"{name}'s dims": (theirs.get(name, ()), own.get(name, ())) for name in {**theirs, **own}},
        )

    @property
    def dst(self) -> MemoryDesc:
        return self.gradients.src_layer

    def named(self) -> dict[str, MemoryDesc]:
        """All tensors by name."""
        gradients = {f"diff_{name}": getattr(self.gradients, name) for name in _TENSORS}
        return RecurrentProblem.named(self) | gradients | {"workspace": self.workspace.desc}

    def sources(self) -> dict[int, MemoryDesc]:
        """The tensors that are read, by argument: those of the forward step, gradients, the workspace."""
        tensors = {NAMES[name]: md for name, md in self.tensors.items().items()}
        gradients = {GRADIENTS[name]: md for name, md in self.gradients.items().items() if name in OUTPUTS}
        return {**tensors, **gradients, ARG_WORKSPACE: self.workspace.desc}

    def outputs(self) -> dict[int, MemoryDesc]:
        """The outputs other than the gradient of the source."""
        outputs = {GRADIENTS[name]: md for name, md in self.gradients.items().items() if name not in OUTPUTS}
        del outputs[self.writes]
        return outputs

    @property
    def moved_bytes(self) -> int:
        """The bytes read and written, each element once."""
        return sum(md.size for md in (self.dst, *self.sources().values(), *self.outputs().values()))

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels prefer: weights in blocks of inputs, their gradients row-major."""
        mds = {"weights_layer": self.tensors.weights_layer, "weights_iter": self.tensors.weights_iter}
        tag = f"abCde{self.block}c"
        return {name: MemoryDesc(md.dims, md.data_type, tag) for name, md in mds.items()}

    def program(self) -> Program:
        """The program: packs weights, then goes through every direction and layer backward."""
        return BackwardWriter(self).program()


# --- queries ------------------------------------------------------------------------------------------------


class RNNPrimitiveDesc(DerivedPrimitiveDesc):
    """Common queries of the descriptors of all cells, forward and backward."""

    _arg_names = NETWORK_NAMES
    _optional_args: ClassVar[Collection[int]] = (ARG_SRC_ITER, ARG_SRC_ITER_C, ARG_BIAS)

    __slots__ = ()

    def get_cell_kind(self) -> str:
        """Return the cell as oneDNN calls it, such as `vanilla_lstm`."""
        return self._network().cell.kind

    def get_direction(self) -> str:
        """Return the direction in which the network reads, as oneDNN calls it."""
        return self._network().direction_word

    def get_activation_kind(self) -> str:
        """Return the function of a vanilla cell, such as `eltwise_tanh`; "undef" for other cells."""
        name = self._network().cell.activation
        return f"eltwise_{name}" if name else "undef"

    def get_alpha(self) -> float:
        """Return the slope below 0 of a relu."""
        return self._network().cell.alpha

    def _network(self) -> RecurrentProblem:
        problem = self._implementation().problem
        assert isinstance(problem, RecurrentProblem)
        return problem

    def _descs_by_name(self) -> Mapping[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        mds: dict[str, tuple[MemoryDesc, ...]] = {}
        for name, md in self._network().named().items() if self else ():
            kind = re.sub("_(layer|iter|iter_c)$", "", name)
            mds[kind] = (*mds.get(kind, ()), md)
        return mds


class RNNForwardPrimitiveDesc(RNNPrimitiveDesc):
    """A descriptor of a forward step."""

    # Each step reads the states of a channel before it writes them.
    _in_place = MappingProxyType({ARG_DST_ITER: ARG_SRC_ITER, ARG_DST_ITER_C: ARG_SRC_ITER_C})

    __slots__ = ()


class RNNBackwardPrimitiveDesc(RNNPrimitiveDesc):
    """A descriptor of a backward step."""

    _optional_args = (*RNNPrimitiveDesc._optional_args, ARG_DIFF_DST_ITER, ARG_DIFF_DST_ITER_C)

    __slots__ = ()


def _desc_getter(name: str) -> Any:
    def get(self: RNNPrimitiveDesc) -> MemoryDesc:
        return self._network().named()[name] if self else _NO_DESC

    get.__name__ = get.__qualname__ = f"{name}_desc"
    get.__annotations__ = {"return": "MemoryDesc"}
    get.__doc__ = f"Return the descriptor of `{name}`; the zero descriptor if there is none."
    return get


for _name in _TENSORS:
    setattr(RNNPrimitiveDesc, f"{_name}_desc", _desc_getter(_name))
    setattr(RNNBackwardPrimitiveDesc, f"diff_{_name}_desc", _desc_getter(f"diff_{_name}"))


# --- cells --------------------------------------------------------------------------------------------------


def _primitives(name: str, cell: str, what: str, arguments: str) -> tuple[type[Primitive], type[Primitive]]:
    """Return the primitives of a cell, forward and backward. `what`, `arguments`: their descriptions."""
    dnnl = "vanilla_rnn" if cell == "vanilla_rnn" else cell.removeprefix("vanilla_")
    module = {"__module__": __name__, "__slots__": (), "dnnl": dnnl, "cell_kind": cell}
    last = {"last_defaults": MORE_WEIGHTS} if cell == "vanilla_lstm" else {}
    alpha = {"alpha": 0.0} if cell == "vanilla_rnn" else {}
    forward = {
        "__doc__": f"""{what} (`dnnl::{dnnl}_forward`).

    Executed with `ARG_SRC_LAYER`, `ARG_WEIGHTS_LAYER`, `ARG_WEIGHTS_ITER`, `ARG_DST_LAYER`; if present,
    `ARG_BIAS`, `ARG_SRC_ITER`, `ARG_SRC_ITER_C`, `ARG_DST_ITER` and `ARG_DST_ITER_C`; and in training
    `ARG_WORKSPACE`.
    """,
        "primitive": f"{name}Forward",
        "call": _arguments(cell, ""),
        "defaults": alpha,
        "arguments": arguments,
    }
    backward = {
        "__doc__": f"""The gradients of all inputs of a `{name}Forward` (`dnnl::{dnnl}_backward`).

    Executed with the tensors of the forward step, `ARG_WORKSPACE`, and the gradients of the destinations.
    Writes the gradients of all other tensors.
    """,
        "primitive": f"{name}Backward",
        "call": _arguments(cell, "", "diff_"),
        "defaults": {**alpha, "hint_pd": None, "flags": "undef"},
        "arguments": _BACKWARD_ARGUMENTS,
    }
    primitive = make_primitive(
        type(f"{name}ForwardProblem", (RnnProblem,), {**module, **last, **forward}),
        desc=RNNForwardPrimitiveDesc,
    )
    gradient = type(f"{name}BackwardProblem", (RnnGradientProblem,), {**module, **last, **backward})
    return primitive, make_primitive(gradient, primitive, desc=RNNBackwardPrimitiveDesc)


_BACKWARD_ARGUMENTS = """
    `prop_kind`: "backward". The arguments of the forward descriptor up to its destinations are followed by
    the gradients of all tensors among them. `hint_pd`: the forward descriptor, in training, or None.

    The gradients of weights and bias are added to the existing ones, as in oneDNN: begin with zeros. With
    `flags="diff_weights_overwrite"` they overwrite them."""

LSTMForward, LSTMBackward = _primitives(
    "LSTM",
    "vanilla_lstm",
    "An LSTM",
    """
    Peepholes and projections are not supported. `direction`: "unidirectional_left2right",
    "unidirectional_right2left", "bidirectional_concat" or "bidirectional_sum".

    With T steps, N sequences, L layers, D directions, I inputs and C channels: `src_layer` (T, N, I), states
    (L, D, N, C), `weights_layer` (L, D, I, gates, C), `weights_iter` (L, D, C, gates, C), `bias` (L, D,
    gates, C), `dst_layer` (T, N, C), or 2 * C for concatenated directions. States and bias can be None. A
    tensor of format "any" gets the format that is fastest here. In training there is a workspace.""",
)
VanillaRNNForward, VanillaRNNBackward = _primitives(
    "VanillaRNN",
    "vanilla_rnn",
    "A vanilla RNN",
    """
    `activation`: "eltwise_tanh", "eltwise_logistic" or "eltwise_relu", whose slope below 0 is `alpha`. The
    rest is as in `LSTMForward.PrimitiveDesc`.""",
)
GRUForward, GRUBackward = _primitives(
    "GRU",
    "vanilla_gru",
    "A GRU",
    """
    There are 3 gates; the rest is as in `LSTMForward.PrimitiveDesc`.""",
)
LBRGRUForward, LBRGRUBackward = _primitives(
    "LBRGRU",
    "lbr_gru",
    "A GRU that is linear before its reset",
    """
    As in `GRUForward.PrimitiveDesc`; the bias has 4 gates, the last one for the sums of the state.""",
)
FORWARD_OF_CELL: Mapping[str, type[Primitive]] = {
    "vanilla_rnn": VanillaRNNForward,
    "vanilla_lstm": LSTMForward,
    "vanilla_gru": GRUForward,
    "lbr_gru": LBRGRUForward,
}
"""The primitive of each kind of cell."""
