"""The result of a rule with scales: ggml blocks, or elements with separate group scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from ... import formats
from ...arrays.scaling.group import GroupScaling, scaling_of
from ...arrays.scaling.grouped import group_extents
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import short_repr
from ...dtypes import DataType
from ...errors import Error, InvalidArguments, refuse
from ...foreign import plain_text
from ...formats import gguf
from ...formats.tensor_format import TensorFormat
from ..stored_tensors import GGML_KINDS_BY_WORD, ElementKind, StoredTensor
from ..writing.replacement import shown
from .layers import NAMES, layer_form
from .rules import ConversionRule
from .tiles import Ints

_KEEP = "keep"
FALLBACKS = ("q8_0", _KEEP)
"""The types for tensors that do not match their rules."""

_ROWS_OF = 32
# Formats with their own layout, determined by dims and a group size, with the usual group size.
_WITH_LAYOUT: dict[str, tuple[Callable[..., TensorFormat], Any]] = {
    "awq": (partial(layer_form, "awq"), 128),
    "fp8_blocks": (formats.fp8_blocks, (128, 128)),
    "gptq": (partial(layer_form, "gptq"), 128),
    "marlin": (lambda dims, group: formats.marlin(dims, 4, group), 128),
    "torchao_int4_cpu": (lambda dims, group: formats.torchao_int4_cpu(dims), 32),
}


class ShapeMisfit(InvalidArguments):
    """The blocks or groups of a rule do not divide the dims of a tensor."""


@dataclass(frozen=True, slots=True)
class MisfitTensor:
    """A tensor whose shape does not match its rule: the reason, and formats that would work."""

    name: str
    shape: Ints
    rule: str
    why: str
    fits: tuple[str, ...]

    @classmethod
    def of(cls, tensor: StoredTensor, rule: ConversionRule | None, why: str, is_gguf: bool) -> MisfitTensor:
        """Create it with the formats that would work in a file with, or without, types for blocks."""
        array = tensor.array
        dims = array.shape if array.desc is None else array.desc.dims
        fits: tuple[str, ...] = (_KEEP,)
        if dims and dims[-1] % _ROWS_OF == 0:
            fits = ("q8_0", "q4_0", _KEEP) if is_gguf else ("s8,group=32,scale=absmax", "mxfp4", _KEEP)
        are_blocks = any(
            part.array.kind.word in gguf.BLOCK_FORMATS for part in (tensor, *tensor.parts.values())
        )
        if are_blocks and not is_gguf:  # which only such files can name
            fits = (*fits[:-1], "bf16")
        return cls(array.name, dims, str(rule), why, fits)

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"{shown(self.name)} {shape}: {self.why}; what fits: {' or '.join(self.fits)}"


@dataclass(frozen=True, slots=True)
class QuantizedTarget:
    """The result for a tensor: ggml's `block`; or groups by `scaling`, optionally with the layout and the
    parts of a `form`; or neither, which means one scale, or one for each index of an axis.
    """

    block: ElementKind | None = None
    scaling: GroupScaling | None = None
    form: TensorFormat | None = None


def target_of(
    rule: ConversionRule, dims: Ints, is_gguf: bool, own_group: int | None = None
) -> QuantizedTarget:
    """Return the target of a rule with scales from the data. `own_group`: the group of a source layer.

    Raises ShapeMisfit for dims that it does not accept, InvalidArguments if the file cannot store it.
    """
    word, name = rule.block_word(is_gguf), rule.named
    if word:
        if not is_gguf:
            raise refuse("RS-F07:type-of-gguf", name=name)
        if (rule.format, rule.group) != (None, None):
            raise refuse("RS-A15:blocks-alone", name=name)
        block = GGML_KINDS_BY_WORD[word]
        with _dims_that_fit():
            gguf.whole_blocks(word.lower(), dims, block.block)
        return QuantizedTarget(block)
    if name in _WITH_LAYOUT:
        if is_gguf:
            raise refuse("RS-F07:no-type-of-gguf", name=name)
        if rule.format is not None:
            raise refuse("RS-F07:format-of-its-own", name=name, format=rule.format)
        make, usual = _WITH_LAYOUT[name]
        usual = (own_group if name in NAMES else None) or usual
        group = usual if rule.group is None else rule.group
        with _dims_that_fit():
            group = group[0] if isinstance(group, tuple) and len(group) == 1 else group
            if name in NAMES and len(dims) == 2 and isinstance(group, int):
                group_extents(dims, (1, group))  # before `make`, which would name the dims of (in, out)
            form = make(dims, group)
            extent = group[0] if isinstance(group, tuple) else group
            groups = (1, extent or dims[1]) if form.scale is None else form.groups
            group_extents(dims, groups)
        zeros = form.zero_point if isinstance(form.zero_point, MemoryDesc) else None
        scale_type = DataType.f32 if form.scale is None else form.scale.data_type
        zero_type = None if zeros is None else zeros.data_type
        scaling = GroupScaling(form.values.data_type, groups, scale_type, zero_type)
        return QuantizedTarget(None, scaling, form)
    if rule.group is None and name is None:
        return QuantizedTarget()
    few = rule.group if rule.group is None or len(rule.group) > 1 else rule.group[0]
    scale_type, kind = rule.scale_type or DataType.f32, name or rule.data_type
    with _dims_that_fit():
        scaling = scaling_of(kind, rule.axis, rule.scale == "absmax", few, scale_type, len(dims)).for_dims(
            dims
        )
        group_extents(dims, scaling.groups)
    return QuantizedTarget(None, scaling)


def check_fallback(fallback: object) -> str | None:
    """Return the fallback of a call. Raises InvalidArguments for an unknown word."""
    word = plain_text(fallback)
    if word is None or (type(word) is str and word in FALLBACKS):
        return word
    raise refuse("RS-V08:fallback", fallback=short_repr(fallback), fallbacks=" or ".join(FALLBACKS))


def fallback_of(fallback: str | None, misfit: MisfitTensor, is_gguf: bool) -> ConversionRule | None:
    """Return the rule for a tensor that does not match its own; None if it is copied."""
    if fallback in (None, _KEEP) and _KEEP in misfit.fits:
        return None
    if fallback is None:
        return ConversionRule("*", data_type=DataType.bf16)
    if fallback == _KEEP:
        raise refuse("RS-F07:blocks-not-kept", misfit=misfit)
    if not is_gguf:
        raise refuse("RS-F07:type-of-gguf", name=fallback)
    return ConversionRule("*", scale="absmax", named=fallback) if fallback in misfit.fits else None


@contextmanager
def _dims_that_fit() -> Iterator[None]:
    try:
        yield
    except Error as error:
        if error.code != "RS-A15" or isinstance(error, ShapeMisfit):
            raise
        raise ShapeMisfit(
            error.what, code=error.code, where=error.where, why=error.why, hint=error.hint
        ) from None


def parts_beside(target: QuantizedTarget, dims: Ints) -> dict[str, MemoryDesc]:
    """Return the descriptors of group scales and other parts, by name."""
    scaling, form, one = target.scaling, target.form, (1,) * len(dims)
    assert scaling is not None
    extents = group_extents(dims, scaling.groups)
    descs = {"scale": MemoryDesc(extents, scaling.scale_type)}
    if scaling.zero_type is not None:
        # One byte each, so that tiles can contain any number of them.
        zero_type = DataType.s8 if scaling.zero_type.kind == "int" else DataType.u8
        descs["zero_point"] = MemoryDesc(extents, zero_type)
    elif scaling.data_type.kind == "uint":
        descs["zero_point"] = MemoryDesc(one, DataType.u8)
    if scaling.is_two_level:
        descs["tensor_scale"] = MemoryDesc(one, DataType.f32)
    return descs if form is None else {**descs, **{k: v for k, v in form.parts.items() if k in descs}}
