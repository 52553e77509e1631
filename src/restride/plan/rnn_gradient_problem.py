"""The problem of a recurrent network's gradients, and the program that finds them.

Layers go from the last to the first, and the steps of each from the last to the first: a repeat, which leaves
the gradients of all gates. Then those of weights, bias and of what the layer read are products of matrices.
The gradients of weights and bias are added to what is there, unless they are to be written over it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..desc.arguments import (
    ARG_DIFF_BIAS,
    ARG_DIFF_DST_ITER,
    ARG_DIFF_DST_ITER_C,
    ARG_DIFF_DST_LAYER,
    ARG_DIFF_SRC_ITER,
    ARG_DIFF_SRC_ITER_C,
    ARG_DIFF_SRC_LAYER,
    ARG_DIFF_WEIGHTS_ITER,
    ARG_DIFF_WEIGHTS_LAYER,
    ARG_WORKSPACE,
)
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from .problem import ProblemBase
from .program import Program
from .rnn_cells import RnnCell, copy_loop
from .rnn_descs import LEAST_STEPS, NAMES, RnnTensors, RnnWorkspace, is_backwards
from .rnn_gradient_cells import GradientLoops, bias_gradient, source_gradient, weight_gradient
from .rnn_tensors import PlacedTensor, RnnProgramWriter, StepTensor, named_tensors
from .tree import Each

GRADIENTS = {
    "diff_src_layer": ARG_DIFF_SRC_LAYER,
    "diff_src_iter": ARG_DIFF_SRC_ITER,
    "diff_src_iter_c": ARG_DIFF_SRC_ITER_C,
    "diff_weights_layer": ARG_DIFF_WEIGHTS_LAYER,
    "diff_weights_iter": ARG_DIFF_WEIGHTS_ITER,
    "diff_bias": ARG_DIFF_BIAS,
    "diff_dst_layer": ARG_DIFF_DST_LAYER,
    "diff_dst_iter": ARG_DIFF_DST_ITER,
    "diff_dst_iter_c": ARG_DIFF_DST_ITER_C,
}
"""The gradients and their arguments."""
WRITTEN = tuple(name for name in GRADIENTS if not name.startswith("diff_dst"))
"""Those that a backward step writes."""


@dataclass(frozen=True, slots=True)
class RnnGradients:
    """The descriptors of gradients; the zero descriptor where there is none."""

    diff_src_layer: MemoryDesc
    diff_src_iter: MemoryDesc
    diff_src_iter_c: MemoryDesc
    diff_weights_layer: MemoryDesc
    diff_weights_iter: MemoryDesc
    diff_bias: MemoryDesc
    diff_dst_layer: MemoryDesc
    diff_dst_iter: MemoryDesc
    diff_dst_iter_c: MemoryDesc

    def items(self) -> dict[str, MemoryDesc]:
        """Those that there are."""
        found = {name: getattr(self, name) for name in GRADIENTS}
        return {name: md for name, md in found.items() if not md.is_zero()}


@dataclass(frozen=True, slots=True)
class RnnGradientProblem(ProblemBase):
    """What to compute: equal problems share an executable. `tensors` are those of the forward step.

    `adds`: gradients of weights and bias are added to what is there.
    """

    cell: RnnCell
    direction: str
    tensors: RnnTensors
    gradients: RnnGradients
    block: int
    attr: Attr = field(default_factory=Attr)
    adds: bool = True

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.gradients.diff_src_layer

    @property
    def workspace(self) -> RnnWorkspace:
        """What training has left."""
        return RnnWorkspace.of(self.cell, self.tensors)

    def reads(self) -> dict[int, MemoryDesc]:
        """What is read, by argument: the tensors of the forward step, gradients, the workspace."""
        gradients = {
            GRADIENTS[name]: md for name, md in self.gradients.items().items() if name not in WRITTEN
        }
        tensors = {NAMES[name]: md for name, md in self.tensors.items().items()}
        return {**tensors, **gradients, ARG_WORKSPACE: self.workspace.desc}

    def outputs(self) -> dict[int, MemoryDesc]:
        """What is written beside the gradient of the source."""
        found = self.gradients.items()
        return {GRADIENTS[name]: found[name] for name in WRITTEN[1:] if name in found}

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, each element once."""
        return sum(md.size for md in (self.dst, *self.reads().values(), *self.outputs().values()))

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels want: weights in blocks of inputs, gradients of them row-major."""
        found = (self.tensors.weights_layer, self.tensors.weights_iter)
        names = ("weights_layer", "weights_iter")
        tag = f"abCde{self.block}c"
        return {name: MemoryDesc(md.dims, md.data_type, tag) for name, md in zip(names, found, strict=True)}

    def program(self) -> Program:
        """The program: packs weights, then goes through every direction and layer backwards."""
        return _BackwardWriter(self).program()


class _BackwardWriter:
    """Writes the program of a problem."""

    def __init__(self, problem: RnnGradientProblem) -> None:
        self.problem, self.cell, self.md = problem, problem.cell, problem.tensors
        reads, outputs = problem.reads(), {GRADIENTS["diff_src_layer"]: problem.dst, **problem.outputs()}
        (first, *others), (target, *more) = reads, outputs
        order = [first, target, *others, *more]
        self.writer = RnnProgramWriter({arg: arg in outputs for arg in order})
        named = {**NAMES, **GRADIENTS}
        mds = {**reads, **outputs}
        self.stored = {name: self.writer.argument(arg, mds[arg]) for name, arg in named.items() if arg in mds}
        memory = self.writer.argument(ARG_WORKSPACE, problem.workspace.desc)
        self.workspace = problem.workspace.stored(memory)

    def program(self) -> Program:
        """The program."""
        for name, wanted in self.problem.preferred().items():
            found = self.stored[name]
            if self.md.steps >= LEAST_STEPS or found.md.strides[2] != 1 or found.md.layout.inner_blks:
                self.stored[name] = self.writer.moved(found, wanted)
        for d in range(self.md.directions):
            self._direction(d)
        return self.writer.program(self.problem.reads())

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
        """One layer: the gradient of what it read, in the order of steps; `above`: that of its states."""
        md, space = self.md, {name: each.run(layer, d) for name, each in self.workspace.items()}
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
        self._steps({name: each.flipped() for name, each in timed.items()}, layer, d)
        self._weights(before, reset, inner, layer, d)
        self._bias(diff_gates, inner, layer, d)
        return self._source(diff_gates, layer, d)

    def _steps(self, timed: dict[str, PlacedTensor], layer: int, d: int) -> None:
        """All steps from the last to the first, and the gradients of the first states."""
        md = self.md
        single = {"weights": self.stored["weights_iter"].slice(layer, d)}
        name = "diff_c" if self.cell.has_cell_state else "carry"
        if self.cell.kind != "vanilla_rnn":
            single[name] = self.writer.temporary((md.batch, md.channels)).slice()
        last = single | {key: each.step() for key, each in timed.items()}
        for short, source in (("last_h", "diff_dst_iter"), ("last_c", "diff_dst_iter_c")):
            if source in self.stored:
                last[short] = self.stored[source].slice(layer, d)
        self.writer.repeated(1, self._loops(last, is_last=True), last)
        if md.steps > 1:
            others = single | {key: each.step(1) for key, each in timed.items()}
            others |= self._later(timed, 0)
            self.writer.repeated(md.steps - 1, self._loops(others, is_last=False), others)
        if "diff_src_iter" in self.stored:
            first = single | {"first_h": self.stored["diff_src_iter"].slice(layer, d)}
            first |= self._later(timed, md.steps - 1)
            loops = GradientLoops(self.cell, named_tensors(first), is_last=False)
            self.writer.once(loops.first_state(), first)
        if "diff_src_iter_c" in self.stored:
            copied = {"x0": single["diff_c"], "dst": self.stored["diff_src_iter_c"].slice(layer, d)}
            named = named_tensors(copied)
            self.writer.once(copy_loop(named["dst"], named["x0"]), copied)

    @staticmethod
    def _later(timed: dict[str, PlacedTensor], step: int) -> dict[str, StepTensor]:
        """The gradients of the gates of a step, as the step before it reads them."""
        names = {"diff_gates": "next_gates", "inner": "next_inner"}
        return {other: timed[name].step(step) for name, other in names.items() if name in timed}

    def _loops(self, tensors: dict[str, StepTensor], *, is_last: bool) -> tuple[Each, ...]:
        return GradientLoops(self.cell, named_tensors(tensors), is_last).loops()

    # --- all steps at once ----------------------------------------------------------------------------------

    def _weights(
        self, before: PlacedTensor, reset: PlacedTensor, inner: PlacedTensor, layer: int, d: int
    ) -> None:
        """The gradient of the weights of the state; the last gate of a GRU has read the reset state."""
        target = self.stored["diff_weights_iter"]
        parts = [(before, 0, self.cell.gates)]
        if self.cell.kind == "vanilla_gru":
            parts = [(before, 0, 2), (reset, 2, 1)]
        for x, start, count in parts:
            self._weight_gradient(x, inner.part(2, start, count), target.part(3, start, count), layer, d)

    def _weight_gradient(
        self, x: PlacedTensor, gates: PlacedTensor, target: PlacedTensor, layer: int, d: int
    ) -> None:
        found = {"x": x.slice(), "diff_gates": gates.slice(), "diff_weights": target.slice(layer, d)}
        self.writer.once(weight_gradient(named_tensors(found), adds=self.problem.adds), found)

    def _bias(self, diff_gates: PlacedTensor, inner: PlacedTensor, layer: int, d: int) -> None:
        if "diff_bias" not in self.stored:
            return
        target, gates = self.stored["diff_bias"], self.cell.gates
        parts = [(diff_gates, target.part(2, 0, gates))]
        if self.cell.biases > gates:
            parts.append((inner.part(2, 2, 1), target.part(2, gates, 1)))
        for source, part in parts:
            found = {"diff_gates": source.slice(), "diff_bias": part.slice(layer, d)}
            self.writer.once(bias_gradient(named_tensors(found), adds=self.problem.adds), found)

    def _source(self, diff_gates: PlacedTensor, layer: int, d: int) -> PlacedTensor:
        """The gradients of what a layer has read, and of its weights."""
        md, is_first = self.md, layer == 0
        gates = diff_gates.flipped() if is_first and is_backwards(self.problem.direction, d) else diff_gates
        if is_first:
            x, target = self.stored["src_layer"], self.stored["diff_src_layer"]
        else:
            below = self.workspace["h"].run(layer - 1, d)
            x = below.part(0, 1, md.steps).part(2, 0, md.channels)
            target = self.writer.temporary((md.steps, md.batch, md.channels))
        self._weight_gradient(x, gates, self.stored["diff_weights_layer"], layer, d)
        found = {
            "diff_gates": gates.slice(),
            "weights": self.stored["weights_layer"].slice(layer, d),
            "diff_x": target.slice(),
        }
        self.writer.once(source_gradient(named_tensors(found), adds=is_first and d > 0), found)
        return target
