"""Recurrent networks: `--rnn --alg=VANILLA_LSTM --prop=FWD_D --direction=concat l2t3mb4_sic16`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, log2, prod
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType
from restride.desc.parse import one_of

from ..attr_text import wrong
from ..cases import ATTR_KNOB_NAMES, Several
from ..compare import Tolerance, epsilon
from ..driver import Driver
from ..fill import Array, Bytes, whole_numbers
from ..knobs import ATTR_KNOBS, Knob, caseless, direction, parse_bool, parse_count, parse_tag, several
from ..rnn_formulas import CELLS, RnnNetwork, gradients_of, states_of
from ..spatial import SpatialCase, parse_lettered
from ..work import CaseOperand, CaseWork, Formula, Values, attributes

_LETTERS = ("l", "t", "mb", "sic", "slc", "dhc", "dic", "dlc")
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
# How much weights are larger as bytes, beside what keeps gates from being 0 or 1.
_WEIGHT_SCALE = 8.0
_NAMES = {
    "src_layer": rs.ARG_SRC_LAYER,
    "src_iter": rs.ARG_SRC_ITER,
    "src_iter_c": rs.ARG_SRC_ITER_C,
    "weights_layer": rs.ARG_WEIGHTS_LAYER,
    "weights_iter": rs.ARG_WEIGHTS_ITER,
    "bias": rs.ARG_BIAS,
    "dst_layer": rs.ARG_DST_LAYER,
    "dst_iter": rs.ARG_DST_ITER,
    "dst_iter_c": rs.ARG_DST_ITER_C,
}
_DIFF = rs.ARG_DIFF_SRC - rs.ARG_SRC
_TAGS = Several(("any", "any", "any"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RnnCase(SpatialCase):
    """A network."""

    driver: ClassVar[str] = "rnn"

    layers: int = 1
    steps: int = 1
    states: int = 0
    prop: str = "FWD_I"
    alg: str = "VANILLA_RNN"
    cfg: str = "f32"
    direction: str = "left2right"
    activation: str = "RELU"
    tag: Several = _TAGS
    trivial_strides: bool = True
    flags: str = ""
    scaling: str = "common"
    skip_nonlinear: bool = False
    with_peephole: bool = False
    with_projection: bool = False
    scaling_proj: str = "common"
    mb: int = 0
    l: int = 0  # noqa: E741 (the knob's name)
    t: int = 0

    def __post_init__(self) -> None:
        steps, batch, *others = self.dims
        object.__setattr__(self, "dims", (self.t or steps, self.mb or batch, *others))
        object.__setattr__(self, "layers", self.l or self.layers)

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        own = ("prop", "alg", "cfg", "direction", "activation", "tag", "trivial_strides", "flags", "scaling")
        others = ("scaling_proj", "skip_nonlinear", "with_peephole", "with_projection", "mb", "l", "t")
        return (*own, *others, *ATTR_KNOB_NAMES)

    @property
    def cell(self) -> str:
        """The cell as restride's primitives are called."""
        return CELLS[self.alg]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The dims of every tensor."""
        steps, batch, inputs, channels = self.dims
        gates = {"VanillaRNN": 1, "LSTM": 4}.get(self.cell, 3)
        runs = self.layers, self.directions
        wide = channels * (2 if self.direction == "concat" else 1)
        found = {
            "src_layer": (steps, batch, inputs),
            "src_iter": (*runs, batch, self.states),
            "src_iter_c": (*runs, batch, channels),
            "weights_layer": (*runs, inputs, gates, channels),
            "weights_iter": (*runs, self.states, gates, channels),
            "bias": (*runs, gates + (self.cell == "LBRGRU"), channels),
            "dst_layer": (steps, batch, wide),
            "dst_iter": (*runs, batch, channels),
            "dst_iter_c": (*runs, batch, channels),
        }
        return {name: dims for name, dims in found.items() if self.cell == "LSTM" or not name.endswith("_c")}

    @property
    def network(self) -> RnnNetwork:
        """The network as formulas take it."""
        if self.cfg in _BYTES:
            data: tuple[Any, ...] = (_SCALE, _SHIFT)
        else:
            data = (0.0, 0.0, DataType.parse(_CONFIGURATIONS[self.cfg][0]))
        return RnnNetwork(self.cell, _DIRECTIONS[self.direction], self.activation.lower(), *data)

    @property
    def directions(self) -> int:
        """How many networks it is."""
        return 2 if self.direction in ("concat", "sum") else 1


def _parse(text: str) -> dict[str, Any]:
    found = parse_lettered(text, _LETTERS)
    states = found.whole("sic")
    if not states:
        raise wrong("the problem", text, "sic is needed", "l1t3mb2_sic16")
    channels = found.whole("dhc", found.whole("dic", states))
    return {
        "problem": found.text,
        "name": found.name,
        "dims": (found.whole("t", 1), found.whole("mb", 2), found.whole("slc", states), channels),
        "states": states,
        "layers": found.whole("l", 1),
        "steps": found.whole("t", 1),
    }


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


_KNOBS = {
    "prop": direction("prop", "FWD_D", "FWD_I", "BWD_DW"),
    "alg": caseless("alg", *CELLS, "VANILLA_AUGRU", "LBR_AUGRU"),
    "cfg": caseless("cfg", *_CONFIGURATIONS, *_BYTES, *_OTHERS),
    "direction": Knob("direction", _direction),
    "activation": caseless("activation", "RELU", "TANH", "LOGISTIC", "UNDEF"),
    "tag": several("tag", parse_tag, least=3),
    "trivial-strides": Knob("trivial_strides", parse_bool),
    "flags": Knob("flags", _flags),
    "scaling": Knob("scaling", _scaling),
    "scaling-proj": Knob("scaling_proj", _scaling),
    "skip-nonlinear": Knob("skip_nonlinear", parse_bool),
    "with-peephole": Knob("with_peephole", parse_bool),
    "with-projection": Knob("with_projection", parse_bool),
    "mb": Knob("mb", parse_count),
    "l": Knob("l", parse_count),
    "t": Knob("t", parse_count),
    **ATTR_KNOBS,
}


# --- descriptors and values ---------------------------------------------------------------------------------


def _type(case: RnnCase, name: str) -> str:
    if case.cfg in _BYTES:
        first, last, result = _BYTES[case.cfg]
        weights = {"weights_layer": "s8", "weights_iter": "s8"}
        own = {"src_layer": "u8", "src_iter": first, "dst_iter": last, "dst_layer": result, **weights}
        return own.get(name, "f32")
    layer, states_c, gradient = _CONFIGURATIONS[case.cfg]
    if name.startswith("diff_"):
        return gradient
    if name == "bias":
        return "f16" if case.cfg == "f16" else "f32"
    return states_c if name.endswith("_c") else layer


def _format(case: RnnCase, name: str, dims: tuple[int, ...]) -> Any:
    short = name.removeprefix("diff_")
    src, weights, dst = case.tag
    tag = {"src_layer": src, "dst_layer": dst, "weights_layer": weights, "weights_iter": weights}.get(short)
    if tag == "any" or (tag and short.startswith("weights")):
        return tag
    if case.trivial_strides:
        return tag or "abcd"
    # Rows that end in gaps, in the order of the tag.
    order = rs.MemoryDesc(dims, "f32", tag or "abcd").outer_order
    strides, count = [0] * len(dims), 1
    for place, dim in enumerate(reversed(order)):
        strides[dim] = count
        count *= dims[dim] + (4 if place == 0 else 0)
    return tuple(strides)


def _operand(case: RnnCase, name: str, dims: tuple[int, ...], values: Any = None) -> CaseOperand:
    is_gradient = name.startswith("diff_")
    arg = _NAMES[name.removeprefix("diff_")] + (_DIFF if is_gradient else 0)
    format = _format(case, name, dims)
    return CaseOperand(arg, rs.MemoryDesc(dims, _type(case, name), format), format, values=values)


def _values(case: RnnCase, name: str) -> Array:
    """Eighths about 0; of weights so small that gates are not all 0 or 1."""
    dims = case.shapes()[name.removeprefix("diff_")]
    found = whole_numbers(dims, -8, 8, 1 + list(_NAMES).index(name.removeprefix("diff_")))
    if name.startswith("weights"):
        is_byte = case.cfg in _BYTES
        return found * _WEIGHT_SCALE if is_byte else found / _spread(case)
    return found / 8 * _SCALE + _SHIFT if _type(case, name) == "u8" else found / 8


def _spread(case: RnnCase) -> float:
    """What weights are divided by, so that gates are not all 0 or 1."""
    return float(2.0 ** (3 + ceil(log2(max(case.dims[2], case.states)) / 2)))


def _weight_scales(case: RnnCase) -> Array:
    """The scales of weights that are bytes: one, or one for each gate and output (gates, C)."""
    *_, gates, channels = case.shapes()["weights_layer"]
    scale = _WEIGHT_SCALE * _spread(case)
    if case.scaling == "common":
        return np.full((1, 1), scale)
    return scale * 2.0 ** (np.arange(gates * channels) % 3).reshape(gates, channels)


def _quantising(case: RnnCase, attr: Any) -> Any:
    """Attributes with how data and weights are quantised."""
    if case.cfg not in _BYTES:
        return attr
    attr = rs.PrimitiveAttr() if attr is None else attr
    attr.set_rnn_data_qparams(_SCALE, _SHIFT)
    scales = [float(each) for each in _weight_scales(case).reshape(-1)]
    attr.set_rnn_weights_qparams(24 if case.scaling == "per_oc" else 0, scales)
    return attr


def _work(case: RnnCase) -> CaseWork:
    attr, _ = attributes(case)
    shapes = case.shapes()
    mds = {f"{name}_desc": _operand(case, name, dims).md for name, dims in shapes.items()}
    own: dict[str, Any] = {"direction": _DIRECTIONS[case.direction], "attr": _quantising(case, attr)}
    if case.cell == "VanillaRNN":
        own["activation"] = f"eltwise_{case.activation.lower()}"
    kind = "forward_inference" if case.prop == "FWD_I" else "forward_training"

    def forward(engine: rs.Engine, _: rs.Engine) -> Any:
        made = getattr(rs, f"{case.cell}Forward").PrimitiveDesc
        return made(engine, prop_kind=kind, **{**own, **mds})

    def backward(engine: rs.Engine, other: rs.Engine) -> Any:
        gradients = {
            f"diff_{name}_desc": _operand(case, f"diff_{name}", dims).md for name, dims in shapes.items()
        }
        made, hint = getattr(rs, f"{case.cell}Backward").PrimitiveDesc, forward(engine, other)
        named = {**own, **mds, **gradients, "flags": _FLAGS[case.flags]}
        return made(engine, prop_kind="backward", hint_pd=hint, **named)

    reads = [
        _operand(case, name, dims, partial(_values, case, name))
        for name, dims in shapes.items()
        if not name.startswith("dst")
    ]
    if case.prop == "BWD_DW":
        return _backward_work(case, reads, forward, backward)
    writes = [_operand(case, name, shapes[name]) for name in shapes if name.startswith("dst")]
    if kind == "forward_training":
        writes.append(_workspace())
    formula = Formula(partial(_forward_values, case, forward), _tolerances(case, [one.arg for one in writes]))
    primitive = getattr(rs, f"{case.cell}Forward")
    return CaseWork(
        forward, primitive, reads[0], writes[0], tuple(reads[1:]), tuple(writes[1:]), formula=formula
    )


def _workspace(data: Any = None) -> CaseOperand:
    return CaseOperand(rs.ARG_WORKSPACE, rs.MemoryDesc((1,), "u8", "any"), data=data)


def _backward_work(case: RnnCase, reads: list[CaseOperand], forward: Any, backward: Any) -> CaseWork:
    shapes = case.shapes()
    results = partial(_forward_run, case, reads, forward)
    for name, dims in shapes.items():
        if name.startswith("dst"):
            reads.append(_operand(case, name, dims, partial(_result, case, results, name)))
            reads.append(_operand(case, f"diff_{name}", dims, partial(_values, case, name)))
    reads.append(_workspace(lambda _: results()[rs.ARG_WORKSPACE]))
    # Gradients of weights and bias are added to what is there, unless flags say that they are not.
    sums = () if case.flags else ("weights_layer", "weights_iter", "bias")
    writes = [
        _operand(case, f"diff_{name}", dims, partial(np.zeros, dims) if name in sums else None)
        for name, dims in shapes.items()
        if not name.startswith("dst")
    ]
    formula = Formula(partial(_backward_values, case), _tolerances(case, [one.arg for one in writes]))
    primitive = getattr(rs, f"{case.cell}Backward")
    return CaseWork(
        backward, primitive, reads[0], writes[0], tuple(reads[1:]), tuple(writes[1:]), formula=formula
    )


def _forward_run(case: RnnCase, reads: list[CaseOperand], forward: Any) -> dict[int, Bytes]:
    """The bytes that the forward step writes: what the backward step is passed."""
    engine = rs.Engine("cpu")
    pd = forward(engine, engine)
    written = [_NAMES[name] for name in case.shapes() if name.startswith("dst")]
    args = {}
    for one in reads:
        if one.arg in _NAMES.values() and one.arg not in written:
            chosen = one.chosen(pd)
            args[one.arg] = rs.Memory(chosen.md, engine, chosen.filled())
    for arg in (*written, rs.ARG_WORKSPACE):
        md = pd.query_md("exec_arg_md", arg)
        args[arg] = rs.Memory(md, engine, np.zeros(md.size, np.uint8))
    getattr(rs, f"{case.cell}Forward")(pd).execute(rs.Stream(engine), args)
    found = {arg: args[arg] for arg in (*written, rs.ARG_WORKSPACE)}
    return {arg: np.asarray(memory.data).view(np.uint8).copy() for arg, memory in found.items()}


def _result(case: RnnCase, results: Any, name: str) -> Array:
    """A result of the forward step: it is passed, and gradients do not need it."""
    return np.zeros(case.shapes()[name])


# --- what is right ------------------------------------------------------------------------------------------


def _named(case: RnnCase, values: Values) -> dict[str, Array]:
    """What is read by name, as reals."""
    found = {name: values[arg] for name, arg in _NAMES.items() if arg in values and name in case.shapes()}
    for name in found if case.cfg in _BYTES else ():
        kind = _type(case, name)
        if kind == "u8":
            found[name] = (found[name] - _SHIFT) / _SCALE
        elif kind == "s8":
            found[name] = found[name] / _weight_scales(case)
    return found


def _as_stored(case: RnnCase, name: str, value: Array) -> Array:
    """A result as its type has it: reals, or bytes."""
    if name == "workspace" or _type(case, name) != "u8":
        return value
    count = case.directions if (name, case.direction) == ("dst_layer", "sum") else 1
    return value * _SCALE + count * _SHIFT


def _forward_values(case: RnnCase, forward: Any, values: Values) -> Values:
    found = states_of(case.network, _named(case, values))
    if case.prop == "FWD_D":
        size = forward(rs.Engine("cpu"), rs.Engine("cpu")).workspace_desc().size
        found["workspace"] = np.zeros(size)
    args = {**_NAMES, "workspace": rs.ARG_WORKSPACE}
    return {args[name]: _as_stored(case, name, value) for name, value in found.items()}


def _backward_values(case: RnnCase, values: Values) -> Values:
    given = {name: values[_NAMES[name] + _DIFF] for name in case.shapes() if name.startswith("dst")}
    found = gradients_of(case.network, _named(case, values), given)
    return {_NAMES[name] + _DIFF: value for name, value in found.items()}


def _tolerances(case: RnnCase, args: list[int]) -> dict[int, Tolerance]:
    """Thresholds grow with the type's precision, the layers, and the logarithm of a value's terms."""
    if case.cfg in _BYTES:
        # Where f32 and f64 round to different bytes, one step of quantisation is between them.
        types = {arg: _type(case, name) for name, arg in _NAMES.items()}
        return {arg: _within(1.01 if types[arg] == "u8" else 1.01 / _SCALE) for arg in args}
    kind = DataType.parse(_CONFIGURATIONS[case.cfg][0])
    steps, batch, _, channels = case.dims
    terms = channels * steps * (batch if case.prop == "BWD_DW" else 1)
    threshold = epsilon(kind) * 4 * ceil(log2(max(terms, 2))) * case.layers
    small = threshold if case.prop == "BWD_DW" else max(threshold / 4, 1e-5)
    near = Tolerance(threshold, 100.0, allows=lambda points: points.diff <= small)
    # What a workspace holds is the primitive's own affair.
    anything = Tolerance(1.0, 100.0, allows=lambda points: np.ones(points.index.shape, np.bool_))
    return {arg: anything if arg == rs.ARG_WORKSPACE else near for arg in args}


def _within(limit: float) -> Tolerance:
    return Tolerance(1e-5, 100.0, allows=lambda points: points.diff <= limit)


def _invalid(case: RnnCase) -> Iterator[str]:
    if case.alg not in CELLS:
        yield f"Case not supported: --alg={case.alg}, a GRU with attention"
        return
    if case.cell == "VanillaRNN" and case.activation == "UNDEF":
        yield "Invalid case: a vanilla network without an activation"
    if case.cfg in _OTHERS:
        yield f"Case not supported: --cfg={case.cfg}, bytes of a source are u8"
    if case.cfg in _BYTES and case.prop != "FWD_I":
        yield f"Case not supported: --cfg={case.cfg} --prop={case.prop}, bytes are for inference"
    for name in ("with_peephole", "with_projection", "skip_nonlinear"):
        if getattr(case, name):
            yield f"Case not supported: --{name.replace('_', '-')}"
    steps, _, inputs, channels = case.dims
    if not prod((*case.dims, case.layers, case.states)):
        yield "Invalid case: a network without elements"
    if case.layers > 1 and inputs != channels:
        yield f"Invalid case: {case.layers} layers, of which the first reads {inputs} channels of {channels}"
    if case.states != channels and (steps > 1 or case.cell in ("GRU", "LBRGRU")):
        yield f"Invalid case: states of {channels} channels, of which {case.states} are read"


def _types(case: RnnCase) -> tuple[str, ...]:
    return ("u8", "s8", "f32") if case.cfg in _BYTES else _CONFIGURATIONS.get(case.cfg, ())


RNN = Driver(
    RnnCase,
    _KNOBS,
    _work,
    _types,
    "%prop%,%cfg%,%alg%,%DESC%",
    _invalid,
    _parse,
)
