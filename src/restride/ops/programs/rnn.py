"""The programs of recurrent networks, forward and backward.

Forward, for each direction and layer, the contributions of the input to the gates of all steps are one
product of matrices. Then come the steps, each of which depends on the one before it: the first, whose state
is the caller's or zero, by itself; the others as a repeat.

Backward, layers and the steps of each go from the last to the first: a repeat that computes the gradients of
all gates. Then the gradients of weights, bias and the layer's input are products of matrices. The gradients
of weights and bias are added to the existing ones, unless they are to overwrite them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...desc.arguments import ARG_WORKSPACE
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.program import Program
from ...ir.tree import Each
from ...schedule.fold_order import LEAST_RNN_ROWS, LEAST_RNN_STEPS
from .rnn_cells import StepLoops, copy_loop, input_loop, offset_loop, ones_loop
from .rnn_descs import FACTORS, GRADIENTS, NAMES, OUTPUTS, is_backwards
from .rnn_gradient_cells import GradientLoops, bias_gradient, source_gradient, weight_gradient
from .rnn_tensors import PlacedTensor, RnnProgramWriter, StepTensor, named_tensors

if TYPE_CHECKING:
    from ..rnn import RnnGradientProblem, RnnProblem


class ForwardWriter:
    """Writes the program of a network: packs weights, then every direction and layer, then results."""

    def __init__(self, problem: RnnProblem) -> None:
        self.problem, self.cell, self.md = problem, problem.cell, problem.tensors
        descs = self.md.items()
        args = {NAMES[name]: name in OUTPUTS for name in descs}
        if problem.trains:
            args[ARG_WORKSPACE] = True
        if problem.is_quantized:
            args[FACTORS] = False
        self.writer = RnnProgramWriter(args, scalars=len(problem.computation().scalars))
        self.stored = {name: self.writer.argument(NAMES[name], md) for name, md in descs.items()}
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
        if self.problem.is_quantized:
            spans[FACTORS] = MemoryDesc((self.cell.gates, self.md.channels), "f32")
        return self.writer.program(spans)

    def _pack(self) -> None:
        """Pack weights into the formats that kernels prefer, if enough steps read them."""
        steps, rows = self.md.steps, self.md.steps * self.md.batch
        for name, is_used in (
            ("weights_layer", rows >= LEAST_RNN_ROWS),
            ("weights_iter", steps >= LEAST_RNN_STEPS),
        ):
            md, tensor = self.problem.preferred()[name], self.stored[name]
            if is_used or tensor.md.strides[-1] != 1 or tensor.md.layout.inner_blks:
                self.stored[name] = self.writer.moved(tensor, md)

    # --- a direction, a layer, a step -----------------------------------------------------------------------

    def _direction(self, d: int) -> PlacedTensor:
        """Write all layers of a direction; return the states of the last one, in the order of steps."""
        below = self.stored["src_layer"]
        for layer in range(self.md.layers):
            below = self._layer(below, layer, d)
        return below

    def _layer(self, below: PlacedTensor, layer: int, d: int) -> PlacedTensor:
        """Write one layer; return its states, in the order of steps."""
        md, weights = self.md, self.stored["weights_layer"]
        gates_in = self.writer.temporary((md.steps, md.batch, self.cell.gates, md.channels))
        own = self._bias(layer, d) | self._factors()
        tensors = {
            "x": below.slice(),
            "weights": weights.slice(layer, d),
            "gates_in": gates_in.slice(),
            **own,
            **self._offsets(weights, layer, d),
        }
        self.writer.once(input_loop(named_tensors(tensors)), tensors)
        if layer == 0 and is_backwards(self.problem.direction, d):
            gates_in = gates_in.flipped()
        states = self.stored["weights_iter"]
        own |= {"gates_in": gates_in.step(), "weights": states.slice(layer, d)}
        own |= self._offsets(states, layer, d)
        return self._train(own, layer, d) if self.problem.trains else self._infer(own, layer, d)

    def _bias(self, layer: int, d: int) -> dict[str, StepTensor]:
        return {"bias": self.stored["bias"].slice(layer, d)} if "bias" in self.stored else {}

    def _factors(self) -> dict[str, StepTensor]:
        """Return the factors that dequantize the sums of bytes."""
        if not self.problem.is_quantized:
            return {}
        md = MemoryDesc((self.cell.gates, self.md.channels), "f32")
        return {"factors": self.writer.argument(FACTORS, md).slice()}

    def _offsets(self, weights: PlacedTensor, layer: int, d: int) -> dict[str, StepTensor]:
        """Return the offsets that the zero points of bytes add to their sums with weights."""
        if not self.problem.is_quantized:
            return {}
        target = self.writer.temporary((self.cell.gates, self.md.channels)).slice()
        own = weights.slice(layer, d)
        operands = {"weights": own, "offsets": target, "ones": self._ones(own.tensor.sizes[0])}
        self.writer.once(offset_loop(named_tensors(operands)), operands)
        return {"offsets": target}

    def _ones(self, size: int) -> StepTensor:
        """Return a vector of ones, as bytes."""
        if size not in self.ones:
            ones = self.ones[size] = self.writer.temporary((size,), DataType.u8).slice()
            self.writer.once(ones_loop(replace(ones.tensor, name="ones")), {"ones": ones})
        return self.ones[size]

    def _train(self, own: dict[str, StepTensor], layer: int, d: int) -> PlacedTensor:
        """Write all steps, which keep everything in the workspace, including the state before the first."""
        md, space = self.md, {name: tensor.run(layer, d) for name, tensor in self.workspace.items()}
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
        """Write the first step, and all others as a repeat."""
        h, c = self._states(layer, d), self._cell_state(layer, d)
        first = own | {"h": h.step(), "c": c, **self._between()}
        has_state = "src_iter" in self.stored
        if has_state:
            first["h_before"] = self._before("src_iter", self.state_type, layer, d)
        if has_state and self.cell.has_cell_state:
            first["c_before"] = self.stored["src_iter_c"].slice(layer, d)
        self.writer.repeated(1, self._loops(first, has_state=has_state), first)
        if self.md.steps > 1:
            later = {name: tensor.after(1) for name, tensor in first.items()}
            others = later | {"h_before": h.step(), "h": h.step(1), "c_before": c}
            self.writer.repeated(self.md.steps - 1, self._loops(others, has_state=True), others)
        self._finish("dst_iter", h.slice(self.md.steps - 1), layer, d)
        if self.cell.has_cell_state:
            self._finish("dst_iter_c", c, layer, d)
        return h

    def _loops(self, tensors: dict[str, StepTensor], *, has_state: bool) -> tuple[Each, ...]:
        return StepLoops(self.cell, named_tensors(tensors), has_state, self.problem.trains).loops()

    # --- the location of states -----------------------------------------------------------------------------

    @property
    def state_type(self) -> DataType:
        """The type of states between steps."""
        return self.md.src_layer.data_type

    @property
    def _is_direct(self) -> bool:
        """True if the last layer writes its states directly to the caller's memory."""
        is_one = self.problem.direction != "sum" and not self.problem.trains
        return is_one and self.md.dst_layer.data_type is self.state_type

    def _states(self, layer: int, d: int) -> PlacedTensor:
        """Return the tensor for the states of all steps of a layer, in the order of steps."""
        md = self.md
        if layer < md.layers - 1 or not self._is_direct:
            return self.writer.temporary((md.steps, md.batch, md.channels), self.state_type)
        return self._results_of(d)

    def _results_of(self, d: int) -> PlacedTensor:
        """Return a direction's part of the destination, in the order of its steps."""
        channels = self.md.channels
        start = d * channels if self.problem.direction == "concat" else 0
        part = self.stored["dst_layer"].part(2, start, channels)
        return part.flipped() if is_backwards(self.problem.direction, d) else part

    def _cell_state(self, layer: int, d: int) -> StepTensor:
        md = self.md
        if md.dst_iter_c.data_type is DataType.f32:
            return self.stored["dst_iter_c"].slice(layer, d)
        return self.writer.temporary((md.batch, md.channels)).slice()

    def _between(self) -> dict[str, StepTensor]:
        """The tensors that loops of one step pass to each other."""
        md, tensors = self.md, dict[str, StepTensor]()
        if self.problem.is_quantized:
            tensors["totals"] = self.writer.temporary((md.batch, self.cell.gates, md.channels)).slice()
        if self.cell.kind != "vanilla_gru":
            return tensors
        tensors |= {"reset_h": self.writer.temporary((md.batch, md.channels), self.state_type).slice()}
        if not self.problem.trains:
            tensors["gates"] = self.writer.temporary((md.batch, self.cell.gates, md.channels)).slice()
        return tensors

    def _before(self, name: str, data_type: DataType, layer: int, d: int) -> StepTensor:
        """Return the caller's first state, as the steps read it."""
        tensor = self.stored[name].slice(layer, d)
        if tensor.tensor.data_type is data_type:
            return tensor
        target = self.writer.temporary(tensor.tensor.sizes, data_type).slice()
        self._copy(tensor, target)
        return target

    # --- copies ---------------------------------------------------------------------------------------------

    def _start(self, name: str, target: StepTensor, layer: int, d: int) -> None:
        """Write the caller's first state, or zeros."""
        if name in self.stored:
            self._copy(self.stored[name].slice(layer, d), target)
        else:
            self.writer.once(copy_loop(replace(target.tensor, name="dst")), {"dst": target})

    def _finish(self, name: str, last: StepTensor, layer: int, d: int) -> None:
        """Write the last state to the caller's memory."""
        if name in self.stored:
            target = self.stored[name].slice(layer, d)
            if target.place != last.place:
                self._copy(last, target)

    def _copy(self, *tensors: StepTensor) -> None:
        """Write the sum of all but the last tensor into the last."""
        names = [*(f"x{number}" for number in range(len(tensors) - 1)), "dst"]
        by_name = dict(zip(names, tensors, strict=True))
        *sources, target = named_tensors(by_name).values()
        self.writer.once(copy_loop(target, *sources), by_name)

    def _results(self, last: list[PlacedTensor]) -> None:
        """Write the states of the last layer."""
        if self._is_direct:
            return
        if self.problem.direction == "sum":
            self._copy(last[0].slice(), last[1].flipped().slice(), self.stored["dst_layer"].slice())
            return
        for d, states in enumerate(last):
            self._copy(states.slice(), self._results_of(d).slice())


class BackwardWriter:
    """Writes the program of gradients: packs weights, then every direction and layer backward."""

    def __init__(self, problem: RnnGradientProblem) -> None:
        self.problem, self.cell, self.md = problem, problem.cell, problem.tensors
        reads, outputs = problem.sources(), {problem.writes: problem.dst, **problem.outputs()}
        (first, *others), (target, *more) = reads, outputs
        order = [first, target, *others, *more]
        self.writer = RnnProgramWriter({arg: arg in outputs for arg in order})
        args = {**NAMES, **{f"diff_{name}": arg for name, arg in GRADIENTS.items()}}
        mds = {**reads, **outputs}
        self.stored = {name: self.writer.argument(arg, mds[arg]) for name, arg in args.items() if arg in mds}
        memory = self.writer.argument(ARG_WORKSPACE, problem.workspace.desc)
        self.workspace = problem.workspace.stored(memory)

    def program(self) -> Program:
        """The program."""
        for name, md in self.problem.preferred().items():
            tensor = self.stored[name]
            if self.md.steps >= LEAST_RNN_STEPS or tensor.md.strides[2] != 1 or tensor.md.layout.inner_blks:
                self.stored[name] = self.writer.moved(tensor, md)
        for d in range(self.md.directions):
            self._direction(d)
        return self.writer.program(self.problem.sources())

    # --- a direction, a layer -------------------------------------------------------------------------------

    def _direction(self, d: int) -> None:
        channels = self.md.channels
        above = self.stored["diff_dst_layer"]
        above = above.part(2, d * channels if self.problem.direction == "concat" else 0, channels)
        if is_backwards(self.problem.direction, d):
            above = above.flipped()
        for layer in reversed(range(self.md.layers)):
            above = self._layer(above, layer, d)

    def _layer(self, above: PlacedTensor, layer: int, d: int) -> PlacedTensor:
        """Write one layer; return its input's gradient in the order of steps. `above`: that of its states."""
        md, space = self.md, {name: tensor.run(layer, d) for name, tensor in self.workspace.items()}
        shape = (md.steps, md.batch, self.cell.gates, md.channels)
        diff_gates = self.writer.temporary(shape)
        is_lbr, is_gru = self.cell.kind == "lbr_gru", self.cell.kind == "vanilla_gru"
        inner = self.writer.temporary(shape) if is_lbr else diff_gates
        before = space["h"].part(2, 0, md.weights_iter.dims[2]).part(0, 0, md.steps)
        reset = self.writer.temporary(shape[:2] + shape[3:]) if is_gru else before
        timed = {"gates": space["gates"], "above": above, "diff_gates": diff_gates, "h_before": before}
        if "c" in space:
            timed |= {"c_before": space["c"].part(0, 0, md.steps), "c": space["c"].part(0, 1, md.steps)}
        if is_lbr:
            timed |= {"sums": space["sums"], "inner": inner}
        if is_gru:
            timed["reset_h"] = reset
        self._steps({name: tensor.flipped() for name, tensor in timed.items()}, layer, d)
        self._weights(before, reset, inner, layer, d)
        self._bias(diff_gates, inner, layer, d)
        return self._source(diff_gates, layer, d)

    def _steps(self, timed: dict[str, PlacedTensor], layer: int, d: int) -> None:
        """Write all steps from the last to the first, and the gradients of the first states."""
        md = self.md
        single = {"weights": self.stored["weights_iter"].slice(layer, d)}
        name = "diff_c" if self.cell.has_cell_state else "carry"
        if self.cell.kind != "vanilla_rnn":
            single[name] = self.writer.temporary((md.batch, md.channels)).slice()
        last = single | {key: tensor.step() for key, tensor in timed.items()}
        for short, source in (("last_h", "diff_dst_iter"), ("last_c", "diff_dst_iter_c")):
            if source in self.stored:
                last[short] = self.stored[source].slice(layer, d)
        self.writer.repeated(1, self._loops(last, is_last=True), last)
        if md.steps > 1:
            others = single | {key: tensor.step(1) for key, tensor in timed.items()}
            others |= self._later(timed, 0)
            self.writer.repeated(md.steps - 1, self._loops(others, is_last=False), others)
        if "diff_src_iter" in self.stored:
            first = single | {"first_h": self.stored["diff_src_iter"].slice(layer, d)}
            first |= self._later(timed, md.steps - 1)
            loops = GradientLoops(self.cell, named_tensors(first), is_last=False)
            self.writer.once(loops.first_state(), first)
        if "diff_src_iter_c" in self.stored:
            copied = {"x0": single["diff_c"], "dst": self.stored["diff_src_iter_c"].slice(layer, d)}
            by_name = named_tensors(copied)
            self.writer.once(copy_loop(by_name["dst"], by_name["x0"]), copied)

    @staticmethod
    def _later(timed: dict[str, PlacedTensor], step: int) -> dict[str, StepTensor]:
        """Return the gradients of the gates of a step, as the step before it reads them."""
        names = {"diff_gates": "next_gates", "inner": "next_inner"}
        return {other: timed[name].step(step) for name, other in names.items() if name in timed}

    def _loops(self, tensors: dict[str, StepTensor], *, is_last: bool) -> tuple[Each, ...]:
        return GradientLoops(self.cell, named_tensors(tensors), is_last).loops()

    # --- all steps at once ----------------------------------------------------------------------------------

    def _weights(
        self, before: PlacedTensor, reset: PlacedTensor, inner: PlacedTensor, layer: int, d: int
    ) -> None:
        """Write the gradient of the state's weights; the last gate of a GRU reads the reset state."""
        target = self.stored["diff_weights_iter"]
        parts = [(before, 0, self.cell.gates)]
        if self.cell.kind == "vanilla_gru":
            parts = [(before, 0, 2), (reset, 2, 1)]
        for x, start, count in parts:
            self._weight_gradient(x, inner.part(2, start, count), target.part(3, start, count), layer, d)

    def _weight_gradient(
        self, x: PlacedTensor, gates: PlacedTensor, target: PlacedTensor, layer: int, d: int
    ) -> None:
        tensors = {"x": x.slice(), "diff_gates": gates.slice(), "diff_weights": target.slice(layer, d)}
        self.writer.once(weight_gradient(named_tensors(tensors), adds=self.problem.adds), tensors)

    def _bias(self, diff_gates: PlacedTensor, inner: PlacedTensor, layer: int, d: int) -> None:
        if "diff_bias" not in self.stored:
            return
        target, gates = self.stored["diff_bias"], self.cell.gates
        parts = [(diff_gates, target.part(2, 0, gates))]
        if self.cell.biases > gates:
            parts.append((inner.part(2, 2, 1), target.part(2, gates, 1)))
        for source, part in parts:
            tensors = {"diff_gates": source.slice(), "diff_bias": part.slice(layer, d)}
            self.writer.once(bias_gradient(named_tensors(tensors), adds=self.problem.adds), tensors)

    def _source(self, diff_gates: PlacedTensor, layer: int, d: int) -> PlacedTensor:
        """Write the gradients of a layer's input and its weights."""
        md, is_first = self.md, layer == 0
        gates = diff_gates.flipped() if is_first and is_backwards(self.problem.direction, d) else diff_gates
        if is_first:
            x, target = self.stored["src_layer"], self.stored["diff_src_layer"]
        else:
            below = self.workspace["h"].run(layer - 1, d)
            x = below.part(0, 1, md.steps).part(2, 0, md.channels)
            target = self.writer.temporary((md.steps, md.batch, md.channels))
        self._weight_gradient(x, gates, self.stored["diff_weights_layer"], layer, d)
        tensors = {
            "diff_gates": gates.slice(),
            "weights": self.stored["weights_layer"].slice(layer, d),
            "diff_x": target.slice(),
        }
        self.writer.once(source_gradient(named_tensors(tensors), adds=is_first and d > 0), tensors)
        return target
