"""The arguments of recurrent networks, and the rules between them: dims, formats and types."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping
from functools import partial

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import one_of, short_repr
from ..dtypes import DataType
from ..errors import InvalidArguments, LookupType, ValueLookup, refuse
from ..foreign import attribute_of, plain_text
from ..model.parse import check_described, check_written
from ..model.pointwise import parse_algorithm
from ..model.reader import ArgumentReader
from .programs.rnn_cells import RnnCell
from .programs.rnn_descs import NAMES, OUTPUTS

DIRECTIONS = {
    "unidirectional_left2right": "left2right",
    "unidirectional_right2left": "right2left",
    "bidirectional_concat": "concat",
    "bidirectional_sum": "sum",
}
"""The directions by oneDNN's names, and as plans call them."""
ACTIVATIONS = ("relu", "tanh", "logistic")
"""The functions that a vanilla cell can have."""
MORE_WEIGHTS = {"weights_peephole_desc": None, "weights_projection_desc": None}
"""The additional weights of oneDNN's LSTM, which must be None here."""
_MUST = ("src_layer", "weights_layer", "weights_iter", "dst_layer")
_FLOATS = (DataType.f32, DataType.bf16, DataType.f16)
# The smallest normal f32.
_LEAST = 2.0**-126
_RANKS = {"src_layer": 3, "dst_layer": 3, "bias": 4, "weights_layer": 5, "weights_iter": 5}
_AXES = {3: "(T, N, C)", 4: "(L, D, N, C), a bias (L, D, gates, C)", 5: "(L, D, inputs, gates, C)"}


class RNNDirection(ValueLookup, enum.StrEnum, metaclass=LookupType):
    """The direction in which a network reads (`dnnl::rnn_direction`). Members equal their words."""

    unidirectional_left2right = "unidirectional_left2right"
    unidirectional_right2left = "unidirectional_right2left"
    bidirectional_concat = "bidirectional_concat"
    bidirectional_sum = "bidirectional_sum"
    unidirectional = "unidirectional_left2right"


def parse_direction(what: str, direction: object) -> str:
    """Return the direction that a word names. Raises InvalidArguments."""
    word = plain_text(direction)
    name = attribute_of(word, "name", word)
    if isinstance(name, str) and name == "unidirectional":
        name = "unidirectional_left2right"
    if isinstance(name, str) and name in DIRECTIONS:
        return DIRECTIONS[name]
    raise refuse(
        "RS-V04:direction",
        what=what,
        direction=short_repr(direction),
        advice=one_of(DIRECTIONS, word, {short: long for long, short in DIRECTIONS.items()}),
    )


class RNNFlags(ValueLookup, enum.StrEnum, metaclass=LookupType):
    """The treatment of gradients of weights (`dnnl::rnn_flags`). Members equal their words."""

    undef = "undef"
    diff_weights_overwrite = "diff_weights_overwrite"


def parse_flags(what: str, flags: object) -> RNNFlags:
    """Return the flags that a word names. Raises InvalidArguments."""
    word = plain_text(flags)
    name = getattr(word, "name", word)
    if isinstance(name, str) and name in RNNFlags.__members__:
        return RNNFlags[name]
    raise refuse("RS-V04:flags", what=what, value=short_repr(flags), hint=one_of(RNNFlags.__members__, word))


def read_cell(call: ArgumentReader, kind: str) -> RnnCell:
    """Read the cell of a call; a vanilla one has an activation and the slope of a relu."""
    if kind == "vanilla_lstm":
        _check_no_more_weights(call)
    if kind != "vanilla_rnn":
        return RnnCell(kind)
    name = parse_algorithm(call.what, call.activation, "eltwise_", ACTIVATIONS)
    slope = call.number("alpha") if name == "relu" else 0.0
    if not math.isfinite(slope):
        raise refuse("RS-P06:alpha", what=call.what, slope=slope)
    return RnnCell(kind, name, slope)


def _check_no_more_weights(call: ArgumentReader) -> None:
    """Raise Unimplemented for an LSTM with peepholes or projection, InvalidArguments for a wrong type."""
    for name in MORE_WEIGHTS:
        md = getattr(call, name)
        if md is None or (isinstance(md, MemoryDesc) and md.is_zero()):
            continue
        raise refuse(
            "RS-X05:passed",
            what=call.what,
            name=name,
            check_described=check_described(call.what, name, md, is_known=False),
        )


def check_slope(what: str, cell: RnnCell) -> None:
    """Raise InvalidArguments for a slope below 0 in training: gradients are computed from results."""
    if cell.alpha < 0:
        raise refuse("RS-P06:eltwise-relu-alpha", what=what, alpha=cell.alpha)


def read_tensors(call: ArgumentReader, cell: RnnCell, prefix: str = "") -> dict[str, MemoryDesc]:
    """Read the descriptors of a cell that are present, by prefixed name: arguments `NAME_desc`."""
    mds: dict[str, MemoryDesc] = {}
    for own in NAMES:
        if own.endswith("_c") and not cell.has_cell_state:
            continue
        name = prefix + own
        md = getattr(call, f"{name}_desc")
        if md is None or (isinstance(md, MemoryDesc) and md.is_zero()):
            if own in _MUST:
                raise refuse("RS-X04:desc-missing", what=call.what, name=name)
            continue
        mds[name] = call.open(f"{name}_desc")
        _check_rank(call.what, name, mds[name])
    return mds


def _check_rank(what: str, name: str, md: MemoryDesc) -> None:
    rank = _RANKS.get(name.removeprefix("diff_"), 4)
    if md.ndims != rank:
        raise refuse("RS-X04:desc-dims", what=what, name=name, md=md, rank=rank, axes=_AXES[rank])
    if 0 in md.dims:
        raise refuse("RS-X04:desc-dim-0", what=what, name=name, md=md)


def check_network(
    what: str,
    mds: Mapping[str, MemoryDesc],
    gradients: Mapping[str, MemoryDesc],
    cell: RnnCell,
    direction: str,
) -> None:
    """Raise unless the tensors of a forward step, or the gradients of a backward one, fit each other."""
    _check_pairs(what, {**mds, **gradients}, cell)
    _check_dims(what, mds, cell, direction)
    _check_types(what, mds)
    _check_gradients(what, mds, gradients)
    outputs = [f"diff_{name}" for name in NAMES if name not in OUTPUTS] if gradients else OUTPUTS
    _check_formats(what, {**mds, **gradients}, outputs)


def _check_pairs(what: str, mds: Mapping[str, MemoryDesc], cell: RnnCell) -> None:
    """Raise InvalidArguments if only one of the two states of an LSTM is present."""
    if not cell.has_cell_state:
        return
    for name in ("src_iter", "dst_iter", "diff_src_iter", "diff_dst_iter"):
        if (name in mds) != (f"{name}_c" in mds):
            raise refuse("RS-X04:desc-without-c", what=what, name=name)


def _check_dims(what: str, mds: Mapping[str, MemoryDesc], cell: RnnCell, direction: str) -> None:
    """Raise InvalidArguments unless dims fit each other."""
    steps, batch, inputs = mds["src_layer"].dims
    layers, _, _, _, channels = mds["weights_layer"].dims
    states = mds["weights_iter"].dims[2]
    wide = channels * (2 if direction == "concat" else 1)
    runs = (layers, 2 if direction in ("concat", "sum") else 1)
    expected = {
        "weights_layer": (*runs, inputs, cell.gates, channels),
        "weights_iter": (*runs, states, cell.gates, channels),
        "bias": (*runs, cell.biases, channels),
        "src_iter": (*runs, batch, states),
        "src_iter_c": (*runs, batch, channels),
        "dst_layer": (steps, batch, wide),
        "dst_iter": (*runs, batch, channels),
        "dst_iter_c": (*runs, batch, channels),
    }
    for name, md in mds.items():
        dims = expected.get(name, md.dims)
        if md.dims != dims:
            raise refuse(
                "RS-X04:dims",
                what=what,
                mds="; ".join((f"{name} {md}" for name, md in mds.items())),
                name=name,
                dims=md.dims,
                dims2=dims,
            )
    if layers > 1 and inputs != channels:
        raise refuse(
            "RS-X04:layers",
            what=what,
            mds="; ".join((f"{name} {md}" for name, md in mds.items())),
            layers=layers,
            inputs=inputs,
            channels=channels,
        )
    is_gru = cell.kind in ("vanilla_gru", "lbr_gru")
    if states != channels and (steps > 1 or is_gru):
        raise refuse(
            "RS-X04:weights-iter-desc",
            what=what,
            mds="; ".join((f"{name} {md}" for name, md in mds.items())),
            states=states,
            channels=channels,
        )


def _unfit(what: str, why: str, mds: Mapping[str, MemoryDesc]) -> InvalidArguments:
    return InvalidArguments(
        f"{what}: dims do not fit",
        code="RS-X04",
        where="; ".join(f"{name} {md}" for name, md in mds.items()),
        why=why,
        hint="T steps, N sequences, L layers, D directions: src_layer (T, N, I), weights (L, D, I, gates, C),"
        " states (L, D, N, C), dst_layer (T, N, C), or 2 * C for two concatenated directions",
    )


def _check_formats(what: str, mds: Mapping[str, MemoryDesc], outputs: Collection[str]) -> None:
    """Raise for blocked formats of tensors other than weights, and for results that share memory."""
    for name, md in mds.items():
        if md.format_kind == "any":
            continue
        if md.layout.inner_blks and not name.startswith("weights"):
            raise refuse("RS-X05:desc-blocks", what=what, name=name, md=md)
        if name in outputs:
            check_written(what, f"{name}_desc", md)


def _check_types(what: str, mds: Mapping[str, MemoryDesc]) -> None:
    """Raise Unimplemented for unsupported combinations of types."""
    layer = mds["src_layer"].data_type
    if layer is DataType.u8:
        _check_bytes(what, mds)
        return
    same = ("src_layer", "weights_layer", "weights_iter", "src_iter", "dst_layer", "dst_iter")
    wrong = next((name for name in same if name in mds and mds[name].data_type is not layer), None)
    others = next(
        (name for name, md in mds.items() if name not in same and md.data_type not in (DataType.f32, layer)),
        None,
    )
    if layer in _FLOATS and wrong is None and others is None:
        return
    raise refuse(
        "RS-X02:types-not-computed", what=what, mds="; ".join((f"{name} {md}" for name, md in mds.items()))
    )


def _check_gradients(what: str, mds: Mapping[str, MemoryDesc], gradients: Mapping[str, MemoryDesc]) -> None:
    """Raise for gradients whose dims or type differ from those of the tensors."""
    layer = mds["src_layer"].data_type
    for name, md in gradients.items():
        other = mds.get(name.removeprefix("diff_"))
        if other is None or other.dims != md.dims:
            dims = "missing" if other is None else str(other.dims)
            raise refuse(
                "RS-X04:desc-tensor",
                what=what,
                where="; ".join((f"{name} {md}" for name, md in {**mds, **gradients}.items())),
                name=name,
                dims=md.dims,
                dims2=dims,
            )
        if md.data_type not in (DataType.f32, layer):
            raise refuse(
                "RS-X02:desc",
                what=what,
                name=name,
                md=md,
                why="gradients must be f32" if layer is DataType.f32 else f"gradients must be f32 or {layer}",
            )


_OF_BYTES = {
    "weights_layer": (DataType.s8,),
    "weights_iter": (DataType.s8,),
    "src_iter": (DataType.u8, DataType.f32),
    "dst_layer": (DataType.u8, DataType.f32),
    "dst_iter": (DataType.u8, DataType.f32),
}


def _check_bytes(what: str, mds: Mapping[str, MemoryDesc]) -> None:
    """Raise Unimplemented for types that are not supported with a u8 source."""
    for name, md in mds.items():
        allowed = _OF_BYTES.get(name, (DataType.f32,))
        if name != "src_layer" and md.data_type not in allowed:
            raise refuse(
                "RS-X02:desc-beside-source",
                what=what,
                name=name,
                md=md,
                allowed=" or ".join(map(str, allowed)),
            )


def check_quantization(what: str, attr: Attr, mds: Mapping[str, MemoryDesc], *, is_inference: bool) -> None:
    """Raise if attributes quantize a network that is not of bytes, or if their scales do not fit."""
    _, _, _, gates, channels = mds["weights_layer"].dims
    is_byte = mds["src_layer"].data_type is DataType.u8
    if is_byte and not is_inference:
        raise refuse("RS-X02:training-bytes", what=what, mds=mds["src_layer"])
    if attr.rnn is None:
        return
    count = len(attr.rnn.weights_scales)
    if not is_byte:
        why = f"the source is {mds['src_layer'].data_type}"
    elif attr.rnn.weights_mask and count != gates * channels:
        why = f"there are {count} scales of weights for {gates} gates of {channels} outputs"
    elif not all(map(partial(_fits_f32, attr.rnn.data_scale), attr.rnn.weights_scales)):
        why = "1 / (scale of data * scale of weights) is not a normal f32"
    else:
        return
    raise refuse("RS-X04:quantization-not-fit", what=what, attr=attr.verbose_str(), why=why)


def _fits_f32(data_scale: float, scale: float) -> bool:
    """Return whether f32 can represent the factor that dequantizes sums."""
    return _LEAST <= 1 / (data_scale * scale) <= 1 / _LEAST
