"""The problem of a recurrent network, forward, and the program that does it.

For each direction and layer what the input gives to the gates of all steps is one product of matrices. Then
come the steps, each of which needs the one before it: the first, whose state is the caller's or zero, by
itself; the others as a repeat.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from ..desc.arguments import (
    ARG_ATTR_SCALES,
    ARG_WEIGHTS_LAYER,
    ARG_WORKSPACE,
)
from ..desc.attr import Attr
from ..desc.attr_value import RnnQparams, structure_of
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .computation import NOTHING, Computation, OperandSource
from .nest import Compute
from .problem import ProblemBase
from .program import Program
from .reorder import TensorOperand
from .rnn_cells import RnnCell, StepLoops, copy_loop, input_loop, offset_loop, ones_loop
from .rnn_descs import LEAST_STEPS, NAMES, OUTPUTS, RnnTensors, RnnWorkspace, is_backwards
from .rnn_tensors import PlacedTensor, RnnProgramWriter, StepTensor, named_tensors
from .tree import Each

FACTORS = ARG_ATTR_SCALES | ARG_WEIGHTS_LAYER
"""What makes reals of the sums of bytes."""
_LEAST_ROWS = 64


@dataclass(frozen=True, slots=True)
class RnnProblem(ProblemBase):
    """What to compute: equal problems share an executable. `block`: channels of a block that kernels want;
    `pack`: inputs that they multiply at once.
    """

    cell: RnnCell
    direction: str
    trains: bool
    tensors: RnnTensors
    block: int
    attr: Attr = field(default_factory=Attr)
    pack: int = 1

    def structure(self) -> RnnProblem:
        """The problem without the values of its attributes."""
        return replace(self, attr=structure_of(self.attr))

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.tensors.dst_layer

    @property
    def is_quantised(self) -> bool:
        """True for a network of bytes."""
        return self.tensors.src_layer.data_type is DataType.u8

    def computation(self) -> Computation:
        """Of bytes the scale, the shift, and 1 / scale; and what makes reals of the sums of each gate."""
        if not self.is_quantised:
            return NOTHING
        qparams = self.attr.rnn or RnnQparams()
        scalars = qparams.data_scale, qparams.data_shift, 1 / qparams.data_scale
        shape = self.cell.gates, self.tensors.channels
        scales = np.broadcast_to(np.array(qparams.weights_scales, np.float64), (prod(shape),))
        values = (1 / (qparams.data_scale * scales)).astype(np.float32)
        tensor = TensorOperand.of_groups(DataType.f32, shape, shape)
        operand = OperandSource(tensor, FACTORS, values, None, prod(shape), DataType.f32, shape)
        return Computation(Compute(), scalars, (operand,), tuple((FACTORS, i) for i in range(3)))

    @property
    def workspace(self) -> RnnWorkspace:
        """What training leaves behind."""
        return RnnWorkspace.of(self.cell, self.tensors)

    def outputs(self) -> dict[int, MemoryDesc]:
        """What is written beside the states of the last layer."""
        others = (name for name in OUTPUTS if name != "dst_layer")
        found = self.tensors.items()
        written = {NAMES[name]: found[name] for name in others if name in found}
        return {**written, **({ARG_WORKSPACE: self.workspace.desc} if self.trains else {})}

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, each element once."""
        return sum(md.size for md in (*self.tensors.items().values(), *self.outputs().values()))

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels want: weights in blocks of outputs, those of all gates side by side
        where a step sums them at once.
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
        return _ForwardWriter(self).program()


class _ForwardWriter:
    """Writes the program of a problem."""

    def __init__(self, problem: RnnProblem) -> None:
        self.problem, self.cell, self.md = problem, problem.cell, problem.tensors
        found = self.md.items()
        args = {NAMES[name]: name in OUTPUTS for name in found}
        if problem.trains:
            args[ARG_WORKSPACE] = True
        if problem.is_quantised:
            args[FACTORS] = False
        self.writer = RnnProgramWriter(args, scalars=len(problem.computation().scalars))
        self.stored = {name: self.writer.argument(NAMES[name], md) for name, md in found.items()}
        self.ones: dict[int, StepTensor] = {}
        self.workspace: dict[str, PlacedTensor] = {}
        if problem.trains:
            memory = self.writer.argument(ARG_WORKSPACE, problem.workspace.desc)
            self.workspace = problem.workspace.stored(memory)

    def program(self) -> Program:
        """The program."""
        self._pack()
        self._results([self._direction(d) for d in range(self.md.directions)])
        spans = {NAMES[name]: md for name, md in self.md.items().items()}
        if self.problem.is_quantised:
            spans[FACTORS] = MemoryDesc((self.cell.gates, self.md.channels), "f32")
        return self.writer.program(spans)

    def _pack(self) -> None:
        """Weights in the formats that kernels want, where there are steps enough that read them."""
        steps, rows = self.md.steps, self.md.steps * self.md.batch
        for name, is_used in (
            ("weights_layer", rows >= _LEAST_ROWS),
            ("weights_iter", steps >= LEAST_STEPS),
        ):
            wanted, found = self.problem.preferred()[name], self.stored[name]
            if is_used or found.md.strides[-1] != 1 or found.md.layout.inner_blks:
                self.stored[name] = self.writer.moved(found, wanted)

    # --- a direction, a layer, a step -----------------------------------------------------------------------

    def _direction(self, d: int) -> PlacedTensor:
        """All layers of a direction: the states of the last one, in the order of steps."""
        below = self.stored["src_layer"]
        for layer in range(self.md.layers):
            below = self._layer(below, layer, d)
        return below

    def _layer(self, below: PlacedTensor, layer: int, d: int) -> PlacedTensor:
        """One layer: its states, in the order of steps."""
        md, weights = self.md, self.stored["weights_layer"]
        gates_in = self.writer.temporary((md.steps, md.batch, self.cell.gates, md.channels))
        own = self._bias(layer, d) | self._factors()
        given = {
            "x": below.slice(),
            "weights": weights.slice(layer, d),
            "gates_in": gates_in.slice(),
            **own,
            **self._offsets(weights, layer, d),
        }
        self.writer.once(input_loop(named_tensors(given)), given)
        if layer == 0 and is_backwards(self.problem.direction, d):
            gates_in = gates_in.flipped()
        states = self.stored["weights_iter"]
        own |= {"gates_in": gates_in.step(), "weights": states.slice(layer, d)}
        own |= self._offsets(states, layer, d)
        return self._train(own, layer, d) if self.problem.trains else self._infer(own, layer, d)

    def _bias(self, layer: int, d: int) -> dict[str, StepTensor]:
        return {"bias": self.stored["bias"].slice(layer, d)} if "bias" in self.stored else {}

    def _factors(self) -> dict[str, StepTensor]:
        """What makes reals of the sums of bytes."""
        if not self.problem.is_quantised:
            return {}
        md = MemoryDesc((self.cell.gates, self.md.channels), "f32")
        return {"factors": self.writer.argument(FACTORS, md).slice()}

    def _offsets(self, weights: PlacedTensor, layer: int, d: int) -> dict[str, StepTensor]:
        """What the shift of bytes adds to their sums with weights."""
        if not self.problem.is_quantised:
            return {}
        target = self.writer.temporary((self.cell.gates, self.md.channels)).slice()
        own = weights.slice(layer, d)
        found = {"weights": own, "offsets": target, "ones": self._ones(own.tensor.sizes[0])}
        self.writer.once(offset_loop(named_tensors(found)), found)
        return {"offsets": target}

    def _ones(self, size: int) -> StepTensor:
        """So many ones, as bytes."""
        if size not in self.ones:
            made = self.ones[size] = self.writer.temporary((size,), DataType.u8).slice()
            self.writer.once(ones_loop(replace(made.tensor, name="ones")), {"ones": made})
        return self.ones[size]

    def _train(self, own: dict[str, StepTensor], layer: int, d: int) -> PlacedTensor:
        """All steps, which leave everything in the workspace: the state before the first one too."""
        md, space = self.md, {name: each.run(layer, d) for name, each in self.workspace.items()}
        h = space["h"].part(2, 0, md.channels)
        before = space["h"].part(2, 0, md.weights_iter.dims[2])
        self._start("src_iter", before.slice(0), layer, d)
        own |= {name: space[name].step() for name in ("gates", "sums") if name in space}
        own |= {"h_before": before.step(), "h": h.step(1), **self._between()}
        if "c" in space:
            self._start("src_iter_c", space["c"].slice(0), layer, d)
            own |= {"c_before": space["c"].step(), "c": space["c"].step(1)}
            last = space["c"].slice(md.steps)
        self.writer.repeated(md.steps, self._loops(own, has_state=True), own)
        if "c" in space:
            self._finish("dst_iter_c", last, layer, d)
        self._finish("dst_iter", h.slice(md.steps), layer, d)
        return h.part(0, 1, md.steps)

    def _infer(self, own: dict[str, StepTensor], layer: int, d: int) -> PlacedTensor:
        """The first step, and all others in turn."""
        h, c = self._states(layer, d), self._cell_state(layer, d)
        first = own | {"h": h.step(), "c": c, **self._between()}
        has_state = "src_iter" in self.stored
        if has_state:
            first["h_before"] = self._before("src_iter", self.state_type, layer, d)
        if has_state and self.cell.has_cell_state:
            first["c_before"] = self.stored["src_iter_c"].slice(layer, d)
        self.writer.repeated(1, self._loops(first, has_state=has_state), first)
        if self.md.steps > 1:
            moved = {name: each.after(1) for name, each in first.items()}
            others = moved | {"h_before": h.step(), "h": h.step(1), "c_before": c}
            self.writer.repeated(self.md.steps - 1, self._loops(others, has_state=True), others)
        self._finish("dst_iter", h.slice(self.md.steps - 1), layer, d)
        if self.cell.has_cell_state:
            self._finish("dst_iter_c", c, layer, d)
        return h

    def _loops(self, tensors: dict[str, StepTensor], *, has_state: bool) -> tuple[Each, ...]:
        return StepLoops(self.cell, named_tensors(tensors), has_state, self.problem.trains).loops()

    # --- where states are -----------------------------------------------------------------------------------

    @property
    def state_type(self) -> DataType:
        """The type of states between steps."""
        return self.md.src_layer.data_type

    @property
    def _is_direct(self) -> bool:
        """True where the last layer writes its states where the caller wants them."""
        is_one = self.problem.direction != "sum" and not self.problem.trains
        return is_one and self.md.dst_layer.data_type is self.state_type

    def _states(self, layer: int, d: int) -> PlacedTensor:
        """Where the states of all steps of a layer go, in the order of steps."""
        md = self.md
        if layer < md.layers - 1 or not self._is_direct:
            return self.writer.temporary((md.steps, md.batch, md.channels), self.state_type)
        return self._results_of(d)

    def _results_of(self, d: int) -> PlacedTensor:
        """The part of the destination that is of a direction, in the order of its steps."""
        channels = self.md.channels
        start = d * channels if self.problem.direction == "concat" else 0
        found = self.stored["dst_layer"].part(2, start, channels)
        return found.flipped() if is_backwards(self.problem.direction, d) else found

    def _cell_state(self, layer: int, d: int) -> StepTensor:
        md = self.md
        if md.dst_iter_c.data_type is DataType.f32:
            return self.stored["dst_iter_c"].slice(layer, d)
        return self.writer.temporary((md.batch, md.channels)).slice()

    def _between(self) -> dict[str, StepTensor]:
        """What loops of one step leave to each other."""
        md, found = self.md, dict[str, StepTensor]()
        if self.problem.is_quantised:
            found["totals"] = self.writer.temporary((md.batch, self.cell.gates, md.channels)).slice()
        if self.cell.kind != "vanilla_gru":
            return found
        found |= {"reset_h": self.writer.temporary((md.batch, md.channels), self.state_type).slice()}
        if not self.problem.trains:
            found["gates"] = self.writer.temporary((md.batch, self.cell.gates, md.channels)).slice()
        return found

    def _before(self, name: str, data_type: DataType, layer: int, d: int) -> StepTensor:
        """The caller's first state, as the steps read it."""
        found = self.stored[name].slice(layer, d)
        if found.tensor.data_type is data_type:
            return found
        target = self.writer.temporary(found.tensor.sizes, data_type).slice()
        self._copy(found, target)
        return target

    # --- copies ---------------------------------------------------------------------------------------------

    def _start(self, name: str, target: StepTensor, layer: int, d: int) -> None:
        """Write the caller's first state, or zeros."""
        if name in self.stored:
            self._copy(self.stored[name].slice(layer, d), target)
        else:
            self.writer.once(copy_loop(replace(target.tensor, name="dst")), {"dst": target})

    def _finish(self, name: str, last: StepTensor, layer: int, d: int) -> None:
        """Write the last state where the caller wants it."""
        if name in self.stored:
            target = self.stored[name].slice(layer, d)
            if target.place != last.place:
                self._copy(last, target)

    def _copy(self, *tensors: StepTensor) -> None:
        """The sum of all but the last tensor, into that."""
        names = [*(f"x{number}" for number in range(len(tensors) - 1)), "dst"]
        found = dict(zip(names, tensors, strict=True))
        *sources, target = named_tensors(found).values()
        self.writer.once(copy_loop(target, *sources), found)

    def _results(self, last: list[PlacedTensor]) -> None:
        """Write the states of the last layer."""
        if self._is_direct:
            return
        if self.problem.direction == "sum":
            self._copy(last[0].slice(), last[1].flipped().slice(), self.stored["dst_layer"].slice())
            return
        for d, states in enumerate(last):
            self._copy(states.slice(), self._results_of(d).slice())
