"""The tensors of recurrent networks: names, descriptors, and the workspace of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...desc.arguments import (
    ARG_ATTR_SCALES,
    ARG_BIAS,
    ARG_DIFF_SRC,
    ARG_DST_ITER,
    ARG_DST_ITER_C,
    ARG_DST_LAYER,
    ARG_SRC,
    ARG_SRC_ITER,
    ARG_SRC_ITER_C,
    ARG_SRC_LAYER,
    ARG_WEIGHTS_ITER,
    ARG_WEIGHTS_LAYER,
)
from ...desc.memory_desc import MemoryDesc
from ...schedule.machine import LINE
from .rnn_cells import RnnCell
from .rnn_tensors import PlacedTensor

NAMES = {
    "src_layer": ARG_SRC_LAYER,
    "dst_layer": ARG_DST_LAYER,
    "src_iter": ARG_SRC_ITER,
    "src_iter_c": ARG_SRC_ITER_C,
    "weights_layer": ARG_WEIGHTS_LAYER,
    "weights_iter": ARG_WEIGHTS_ITER,
    "bias": ARG_BIAS,
    "dst_iter": ARG_DST_ITER,
    "dst_iter_c": ARG_DST_ITER_C,
}
"""The tensors of a forward step and their arguments, in the order of slots."""
OUTPUTS = ("dst_layer", "dst_iter", "dst_iter_c")
"""The outputs of a forward step. A backward step reads the gradients of these and writes all others."""
GRADIENTS = {name: arg + ARG_DIFF_SRC - ARG_SRC for name, arg in NAMES.items()}
"""The offset from the argument of a tensor to that of its gradient."""
FACTORS = ARG_ATTR_SCALES | ARG_WEIGHTS_LAYER
"""The factors that dequantize the sums of bytes."""
DIRECTIONS = ("left2right", "right2left", "concat", "sum")
"""The directions in which a network reads."""


def is_backwards(direction: str, d: int) -> bool:
    """Return whether run `d` of a network of a direction reads from the last step to the first."""
    return direction == "right2left" or d == 1


@dataclass(frozen=True, slots=True)
class RnnTensors:
    """The descriptors of a forward step, or those of gradients; the zero descriptor for absent ones."""

    src_layer: MemoryDesc
    src_iter: MemoryDesc
    src_iter_c: MemoryDesc
    weights_layer: MemoryDesc
    weights_iter: MemoryDesc
    bias: MemoryDesc
    dst_layer: MemoryDesc
    dst_iter: MemoryDesc
    dst_iter_c: MemoryDesc

    @classmethod
    def of(cls, mds: Mapping[str, MemoryDesc], prefix: str = "") -> RnnTensors:
        """Return the tensors by name, after a prefix."""
        return cls(**{name: mds.get(prefix + name, MemoryDesc()) for name in NAMES})

    def chosen(self, wanted: Mapping[str, MemoryDesc]) -> RnnTensors:
        """Replace format "any" by the wanted descriptors, or row-major if there is none."""
        mds = {name: md for name, md in self.items().items() if md.format_kind == "any"}
        row_major = {name: MemoryDesc(md.dims, md.data_type) for name, md in mds.items()}
        return replace(self, **{name: wanted.get(name, md) for name, md in row_major.items()})

    def items(self) -> dict[str, MemoryDesc]:
        """Return the tensors that exist, in the order of slots."""
        descs = {name: getattr(self, name) for name in NAMES}
        return {name: md for name, md in descs.items() if not md.is_zero()}

    @property
    def steps(self) -> int:
        """The number of time steps."""
        return self.src_layer.dims[0]

    @property
    def batch(self) -> int:
        """The number of sequences."""
        return self.src_layer.dims[1]

    @property
    def layers(self) -> int:
        """The number of stacked layers."""
        return self.weights_layer.dims[0]

    @property
    def directions(self) -> int:
        """1, or 2 for a network that reads both ways."""
        return self.weights_layer.dims[1]

    @property
    def channels(self) -> int:
        """The number of channels in a state."""
        return self.weights_layer.dims[4]


@dataclass(frozen=True, slots=True)
class RnnWorkspace:
    """The workspace of training, a memory of bytes: the gates, and the states of all steps and of the one
    before the first. Steps are in the order in which they ran.
    """

    tensors: tuple[tuple[str, MemoryDesc], ...]

    @classmethod
    def of(cls, cell: RnnCell, tensors: RnnTensors) -> RnnWorkspace:
        """Return the workspace of a problem."""
        steps, batch, channels = tensors.steps, tensors.batch, tensors.channels
        runs = tensors.layers, tensors.directions
        states = tensors.src_layer.data_type
        inner = tensors.weights_iter.dims[2]
        descs = {
            "h": MemoryDesc((*runs, steps + 1, batch, max(inner, channels)), states),
            "gates": MemoryDesc((*runs, steps, batch, cell.gates, channels), "f32"),
        }
        if cell.has_cell_state:
            descs["c"] = MemoryDesc((*runs, steps + 1, batch, channels), "f32")
        if cell.kind == "lbr_gru":
            descs["sums"] = MemoryDesc((*runs, steps, batch, channels), "f32")
        return cls(tuple(descs.items()))

    @property
    def desc(self) -> MemoryDesc:
        """The descriptor of its memory."""
        return MemoryDesc((sum(map(_lines, dict(self.tensors).values())),), "u8", "a")

    def stored(self, memory: PlacedTensor) -> dict[str, PlacedTensor]:
        """Return its tensors in a memory."""
        found, offset = {}, 0
        for name, md in self.tensors:
            place = memory.place._replace(offset=memory.place.offset + offset)
            found[name] = PlacedTensor(md, place)
            offset += _lines(md)
        return found


def _lines(md: MemoryDesc) -> int:
    return -(-md.size // LINE) * LINE
