"""Recurrent networks: `--rnn --alg=VANILLA_LSTM --prop=FWD_D --direction=concat l2t3mb4_sic16`."""
# ruff: noqa: D102 (what every operation says, its base class explains)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, log2, prod
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType
from restride.desc.parse import one_of

from .. import knobs
from ..attr_text import wrong
from ..cases import Case
from ..compare import Tolerance, epsilon
from ..fill import Array, Bytes, whole_numbers
from ..knobs import Knob, Several, caseless, parse_tag, several
from ..operands import CaseOperand, Values
from ..problems import Dims, parse_lettered
from ..rnn_formulas import CELLS, RnnNetwork, gradients_of, states_of

_DIRECTIONS = {
    "left2right": "unidirectional_left2right",
    "right2left": "unidirectional_right2left",
    "concat": "bidirectional_concat",
    "sum": "bidirectional_sum",
}
# By configuration the types of the source, of the states h and c, and of gradients; of weights where others.
_CONFIGURATIONS = {
    "f32": ("f32", "f32", "f32"),
    "bf16": ("bf16", "bf16", "f32"),
    "bf16f32": ("bf16", "f32", "f32"),
    "f16": ("f16", "f16", "f16"),
    "f16f32": ("f16", "f32", "f32"),
}
# Of a source of u8 and weights of s8 the types of first and last states, and of the destination.
_BYTES = {
    "u8u8u8u8": ("u8", "u8", "u8"),
    "u8u8u8f32": ("u8", "u8", "f32"),
    "f32u8f32u8": ("f32", "f32", "u8"),
    "f32u8f32f32": ("f32", "f32", "f32"),
}
_OTHERS = ("s8s8s8s8", "s8s8s8f32", "f32s8f32s8", "f32s8f32f32")
# Data are value * scale + shift; two states in (-1, 1) add up to less than 256.
_SCALE, _SHIFT = 48.0, 64.0
# The extra scale of weights as bytes, in addition to the one that keeps gates from being 0 or 1.
_WEIGHT_SCALE = 8.0
_READ = ("src_layer", "src_iter", "src_iter_c", "weights_layer", "weights_iter", "bias")
_TENSORS = (*_READ, "dst_layer", "dst_iter", "dst_iter_c")
_TAGS = Several(("any",) * 3)
# Letters of flags, and how backward primitives have them.
_FLAGS = {"": "undef", "O": "diff_weights_overwrite"}


def _flags(knob: str, text: str) -> str:
    if text.upper() in _FLAGS:
        return text.upper()
    raise wrong(knob, text, "there is no such flag", "O: gradients of weights are written, not added")


def _scaling(knob: str, text: str) -> str:
    if text.lower() in ("", "common", "per_oc"):
        return text.lower() or "common"
    raise wrong(knob, text, "there is no such policy", "there are common and per_oc")


def _direction(knob: str, text: str) -> str:
    if text.lower() in _DIRECTIONS:
        return text.lower()
    others = {"unidirectional": "left2right"} | {word: short for short, word in _DIRECTIONS.items()}
    raise wrong(knob, text, "there is no such direction", one_of(_DIRECTIONS, text, others))


Policy = Annotated[str, Knob(_scaling)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RnnCase(Case):
    """A network."""

    driver: ClassVar[str] = "rnn"
    template: ClassVar[str] = "%prop%,%cfg%,%alg%,%DESC%"

    layers: int = 1
    steps: int = 1
    states: int = 0
    prop: Annotated[str, knobs.direction("FWD_D", "FWD_I", "BWD_DW")] = "FWD_I"
    alg: Annotated[str, caseless(*CELLS, "VANILLA_AUGRU", "LBR_AUGRU")] = "VANILLA_RNN"
    cfg: Annotated[str, caseless(*_CONFIGURATIONS, *_BYTES, *_OTHERS)] = "f32"
    direction: Annotated[str, Knob(_direction)] = "left2right"
    activation: Annotated[str, caseless("RELU", "TANH", "LOGISTIC", "UNDEF")] = "RELU"
    tag: Annotated[Several, several(parse_tag, least=3)] = _TAGS
    trivial_strides: knobs.Flag = True
    flags: Annotated[str, Knob(_flags)] = ""
    scaling: Policy = "common"
    scaling_proj: Policy = "common"
    skip_nonlinear: knobs.Flag = False
    with_peephole: knobs.Flag = False
    with_projection: knobs.Flag = False
    mb: knobs.Count = 0
    l: knobs.Count = 0  # noqa: E741 (the knob's name)
    t: knobs.Count = 0

    def __post_init__(self) -> None:
        steps, batch, *others = self.dims
        object.__setattr__(self, "dims", (self.t or steps, self.mb or batch, *others))
        object.__setattr__(self, "layers", self.l or self.layers)

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """Layers, steps, batch, and channels of states, of the source and of the result."""
        problem = parse_lettered(text, ("l", "t", "mb", "sic", "slc", "dhc", "dic", "dlc"))
        states = problem.whole("sic")
        if not states:
            raise wrong("the problem", text, "sic is needed", "l1t3mb2_sic16")
        steps, channels = problem.whole("t", 1), problem.whole("dhc", problem.whole("dic", states))
        dims = steps, problem.whole("mb", 2), problem.whole("slc", states), channels
        sizes = {"states": states, "layers": problem.whole("l", 1), "steps": steps}
        return {**problem.written, "dims": dims, **sizes}

    @property
    def types(self) -> tuple[str, ...]:
        return ("u8", "s8", "f32") if self.is_of_bytes else _CONFIGURATIONS.get(self.cfg, ())

    @property
    def is_of_bytes(self) -> bool:
        """True for a network that is quantized."""
        return self.cfg in _BYTES

    @property
    def cell(self) -> str:
        """The cell as restride's primitives are called."""
        return CELLS[self.alg]

    @property
    def directions(self) -> int:
        """The number of networks."""
        return 2 if self.direction in ("concat", "sum") else 1

    @property
    def shapes(self) -> dict[str, Dims]:
        """The dims of every tensor."""
        steps, batch, inputs, channels = self.dims
        gates = {"VanillaRNN": 1, "LSTM": 4}.get(self.cell, 3)
        runs = self.layers, self.directions
        states = *runs, batch, channels
        every = (
            (steps, batch, inputs),
            (*runs, batch, self.states),
            states,
            (*runs, inputs, gates, channels),
            (*runs, self.states, gates, channels),
            (*runs, gates + (self.cell == "LBRGRU"), channels),
            (steps, batch, channels * (2 if self.direction == "concat" else 1)),
            states,
            states,
        )
        named = dict(zip(_TENSORS, every, strict=True))
        return {name: dims for name, dims in named.items() if self.cell == "LSTM" or not name.endswith("_c")}

    # --- tensors ---

    def type_of(self, name: str) -> str:
        """The type of a tensor."""
        if self.is_of_bytes:
            first, last, result = _BYTES[self.cfg]
            weights = {"weights_layer": "s8", "weights_iter": "s8"}
            own = {"src_layer": "u8", "src_iter": first, "dst_iter": last, "dst_layer": result, **weights}
            return own.get(name, "f32")
        layer, states_c, gradient = _CONFIGURATIONS[self.cfg]
        if name.startswith("diff_"):
            return gradient
        if name == "bias":
            return "f16" if self.cfg == "f16" else "f32"
        return states_c if name.endswith("_c") else layer

    def md(self, name: str) -> rs.MemoryDesc:
        """The descriptor of a tensor; without trivial strides rows end in gaps, in the order of the tag."""
        short = name.removeprefix("diff_")
        dims, (src, weights, dst) = self.shapes[short], self.tag
        tags = {"src_layer": src, "dst_layer": dst, "weights_layer": weights, "weights_iter": weights}
        tag = tags.get(short)
        if self.trivial_strides or tag == "any" or (tag and short.startswith("weights")):
            return rs.MemoryDesc(dims, self.type_of(name), tag)
        order = rs.MemoryDesc(dims, "f32", tag or "abcd").outer_order
        strides, count = [0] * len(dims), 1
        for place, dim in enumerate(reversed(order)):
            strides[dim] = count
            count *= dims[dim] + (4 if place == 0 else 0)
        return rs.MemoryDesc(dims, self.type_of(name), tuple(strides))

    def prepare(self, attr: rs.onednn.PrimitiveAttr) -> None:
        """Say how data and weights are quantized."""
        if self.is_of_bytes:
            attr.set_rnn_data_qparams(_SCALE, _SHIFT)
            scales = [float(each) for each in self.weight_scales().reshape(-1)]
            attr.set_rnn_weights_qparams(24 if self.scaling == "per_oc" else 0, scales)

    def kind(self, is_forward: bool) -> Any:
        return getattr(rs, f"{self.cell}{'Forward' if is_forward else 'Backward'}")

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        how = {"direction": _DIRECTIONS[self.direction]}
        if self.cell == "VanillaRNN":
            how["activation"] = f"eltwise_{self.activation.lower()}"
        return how if is_forward else {**how, "prop_kind": "backward", "flags": _FLAGS[self.flags]}

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        """Backward the results too, which gradients do not need, and the workspace."""
        names = [*self.shapes, *([] if is_forward else [f"diff_{name}" for name in self.shapes])]
        has_workspace = self.prop != "FWD_I"
        workspace = {"workspace": rs.MemoryDesc((1,), "u8", "any")} if has_workspace else {}
        return {**{name: self.md(name) for name in names}, **workspace}

    def operand(self, name: str, md: rs.MemoryDesc) -> CaseOperand:
        if name == "workspace" and not self.is_forward:
            return CaseOperand(name, md, data=self.workspace)
        return CaseOperand(name, md, values=partial(self.values, name))

    @property
    def summed(self) -> tuple[str, ...]:
        """Gradients of weights and bias, unless flags say that they are not."""
        return () if self.flags else ("diff_weights_layer", "diff_weights_iter", "diff_bias")

    # --- values ---

    def values(self, name: str) -> Array:
        """Eighths about 0; of weights so small that gates are not all 0 or 1."""
        short = name.removeprefix("diff_")
        if not self.is_forward and name not in _READ and not name.startswith("diff_dst"):
            return np.zeros(self.shapes[short])
        values = whole_numbers(self.shapes[short], -8, 8, 1 + _TENSORS.index(short))
        if name.startswith("weights"):
            return values * _WEIGHT_SCALE if self.is_of_bytes else values / self.spread
        return values / 8 * _SCALE + _SHIFT if self.type_of(name) == "u8" else values / 8

    @property
    def spread(self) -> float:
        """The divisor of weights, chosen so that gates are not all 0 or 1."""
        return float(2.0 ** (3 + ceil(log2(max(self.dims[2], self.states)) / 2)))

    def weight_scales(self) -> Array:
        """The scales of weights that are bytes: one, or one for each gate and output (gates, C)."""
        *_, gates, channels = self.shapes["weights_layer"]
        scale = _WEIGHT_SCALE * self.spread
        if self.scaling == "common":
            return np.full((1, 1), scale)
        return scale * 2.0 ** (np.arange(gates * channels) % 3).reshape(gates, channels)

    def workspace(self, nbytes: int) -> Bytes:
        """The bytes of the workspace that a forward step leaves."""
        engine = rs.Engine("cpu")
        pd, args = self.described(engine), {}
        for name, md in self.tensors(True).items():
            one = self.operand(name, md).chosen(pd)
            args[one.arg] = rs.Memory(one.md, engine, one.filled() if name in _READ else None)
        self.kind(True)(pd).execute(rs.onednn.Stream(engine), args)
        return np.asarray(args[rs.onednn.Arg.WORKSPACE].data).view(np.uint8).copy()

    # --- what is right ---

    def formula(self, values: Values) -> Values:
        """Results, or gradients."""
        data: tuple[Any, ...] = (_SCALE, _SHIFT)
        if not self.is_of_bytes:
            data = (0.0, 0.0, DataType.parse(_CONFIGURATIONS[self.cfg][0]))
        network = RnnNetwork(self.cell, _DIRECTIONS[self.direction], self.activation.lower(), *data)
        read = {name: values[name] for name in self.shapes if name in values}
        for name in read if self.is_of_bytes else ():
            if self.type_of(name) == "u8":
                read[name] = (read[name] - _SHIFT) / _SCALE
            elif self.type_of(name) == "s8":
                read[name] = read[name] / self.weight_scales()
        if not self.is_forward:
            given = {name: values[f"diff_{name}"] for name in self.shapes if name.startswith("dst")}
            gradients = gradients_of(network, read, given)
            return {f"diff_{name}": value for name, value in gradients.items()}
        results: dict[str | int, Array] = {}
        for name, value in states_of(network, read).items():
            count = self.directions if (name, self.direction) == ("dst_layer", "sum") else 1
            results[name] = value * _SCALE + count * _SHIFT if self.type_of(name) == "u8" else value
        # What a workspace holds is the primitive's own affair.
        return {"workspace": np.zeros(()), **results}

    def tolerance(self, name: str) -> Tolerance:
        """Thresholds grow with the type's precision, the layers, and the logarithm of a value's terms."""
        if name == "workspace":
            return Tolerance(1.0, 100.0, allows=lambda points: np.ones(points.index.shape, np.bool_))
        if self.is_of_bytes:
            # Where f32 and f64 round to different bytes, one step of quantization is between them.
            limit = 1.01 if self.type_of(name) == "u8" else 1.01 / _SCALE
            return Tolerance(1e-5, 100.0, allows=lambda points: points.diff <= limit)
        steps, batch, _, channels = self.dims
        terms = channels * steps * (1 if self.is_forward else batch)
        step = epsilon(DataType.parse(_CONFIGURATIONS[self.cfg][0]))
        threshold = step * 4 * ceil(log2(max(terms, 2))) * self.layers
        small = max(threshold / 4, 1e-5) if self.is_forward else threshold
        return Tolerance(threshold, 100.0, allows=lambda points: points.diff <= small)

    def invalid(self) -> Iterator[str]:
        if self.alg not in CELLS:
            yield f"Case not supported: --alg={self.alg}, a GRU with attention"
            return
        if self.cell == "VanillaRNN" and self.activation == "UNDEF":
            yield "Invalid case: a vanilla network without an activation"
        if self.cfg in _OTHERS:
            yield f"Case not supported: --cfg={self.cfg}, bytes of a source are u8"
        if self.is_of_bytes and self.prop != "FWD_I":
            yield f"Case not supported: --cfg={self.cfg} --prop={self.prop}, bytes are only for inference"
        for name in ("with_peephole", "with_projection", "skip_nonlinear"):
            if getattr(self, name):
                yield f"Case not supported: --{name.replace('_', '-')}"
        steps, _, inputs, channels = self.dims
        if not prod((*self.dims, self.layers, self.states)):
            yield "Invalid case: a network without elements"
        if self.layers > 1 and inputs != channels:
            what = f"of which the first reads {inputs} channels of {channels}"
            yield f"Invalid case: {self.layers} layers, {what}"
        if self.states != channels and (steps > 1 or self.cell in ("GRU", "LBRGRU")):
            yield f"Invalid case: states of {channels} channels, of which {self.states} are read"
