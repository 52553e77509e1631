"""The format that a primitive chooses for a tensor of format "any"."""

from __future__ import annotations

from typing import NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import one_of, short_repr
from ..dtypes import DataType
from ..errors import refuse
from ..foreign import plain_text
from ..model.base import PrimitiveDescBase
from ..ops.convolution import ConvolutionForward
from ..ops.inner_product import InnerProductForward
from ..ops.matmul import Matmul
from ..runtime.engine import Engine

_ARGUMENTS = "src", "weights", "dst"
_LEAST = {"convolution": 3, "inner_product": 2, "matmul": 2}
_MOST_OF_CONVOLUTION = 5
_MATRIX = 2


Sizes = tuple[int, ...]


class _ProductDims(NamedTuple):
    """The dims of the tensors of a product."""

    src: Sizes
    weights: Sizes
    dst: Sizes


def recommended_desc(md: MemoryDesc, primitive: str | None = None, argument: str = "src") -> MemoryDesc:
    """Return `md` in the format that a primitive on this machine chooses if the format is "any".

    primitive  "convolution", "inner_product" or "matmul"; None: chosen by the number of dims: an inner
               product for two, a convolution for three to five, a matmul for more
    argument   "src", "weights" or "dst": the role of `md` in the primitive

    The assumed primitive is forward, without groups, and has as many outputs as inputs. If you have a
    primitive descriptor, use it: `pd.src_desc()`, `pd.weights_desc()`, `pd.dst_desc()`. RESTRIDE_MAX_CPU_ISA
    applies.

    Raises InvalidArguments for dims that are unknown or that the primitive does not accept, Unimplemented for
    types that it does not accept.

    >>> import restride as rs
    >>> image, activations = (rs.MemoryDesc((1, channels, 56, 56), "f32") for channels in (3, 64))
    >>> rs.recommended_desc(image).tag, rs.recommended_desc(activations).tag in ("aBcd16b", "aBcd8b")
    ('abcd', True)
    """
    if not isinstance(md, MemoryDesc) or md.is_zero():
        raise refuse("RS-V08:nothing-recommend", md=short_repr(md))
    if primitive is not None:
        name = _word("primitive", primitive, tuple(_LEAST))
    elif md.ndims <= _MATRIX:
        name = "inner_product"
    else:
        name = "convolution" if md.ndims <= _MOST_OF_CONVOLUTION else "matmul"
    which = _word("argument", argument, _ARGUMENTS)
    if md.ndims < _LEAST[name] or md.layout.has_runtime:
        raise refuse("RS-M04:nothing-recommend", md=md, name=name, least=_LEAST[name])
    dims, types = _dims(md.dims, name, which), _types(md.data_type, which)
    tensors = (MemoryDesc(extents, kind, "any") for extents, kind in zip(dims, types, strict=True))
    pd = _descriptor(name, *tensors)
    desc = {"src": pd.src_desc, "weights": pd.weights_desc, "dst": pd.dst_desc}[which]()
    assert isinstance(desc, MemoryDesc)
    return desc


def _word(what: str, value: object, words: tuple[str, ...]) -> str:
    word = plain_text(value)
    if isinstance(word, str) and word in words:
        return word
    raise refuse("RS-V04:nothing-recommend", what=what, value=short_repr(value), advice=one_of(words, word))


def _dims(dims: Sizes, name: str, which: str) -> _ProductDims:
    """Return a product that has a tensor of these dims, and otherwise as many outputs as inputs."""
    if name == "matmul":
        batches, (rows, columns) = dims[:-2], dims[-2:]
        if which == "weights":
            return _ProductDims((*batches, 1, rows), dims, (*batches, 1, columns))
        return _ProductDims(dims, (*batches, columns, columns), dims)
    batch, channels, sizes = dims[0], dims[1], dims[2:]
    points = (1,) * len(sizes) if name == "convolution" else ()
    if which == "weights":
        return _ProductDims((1, *dims[1:]), dims, (1, batch, *points))
    if name == "inner_product" and which == "src":
        return _ProductDims(dims, (channels, *dims[1:]), (batch, channels))
    return _ProductDims(dims, (channels, channels, *points), dims)


def _types(kind: DataType, which: str) -> tuple[DataType, DataType, DataType]:
    """Return the types of source, weights and result, given one of them; bytes are multiplied by s8."""
    if which == "dst":
        return (kind, kind, kind) if not kind.is_integral else (DataType.u8, DataType.s8, kind)
    if not kind.is_integral:
        return kind, kind, kind
    return (kind, DataType.s8, DataType.f32) if which == "src" else (DataType.u8, kind, DataType.f32)


def _descriptor(name: str, src: MemoryDesc, weights: MemoryDesc, dst: MemoryDesc) -> PrimitiveDescBase:
    engine = Engine("cpu")
    if name == "matmul":
        return Matmul.PrimitiveDesc(engine, src, weights, None, dst)
    if name == "inner_product":
        return InnerProductForward.PrimitiveDesc(engine, "forward_inference", src, weights, None, dst)
    zeros, ones = ([number] * (src.ndims - 2) for number in (0, 1))
    head = engine, "forward_inference", "convolution_direct", src, weights, None, dst
    return ConvolutionForward.PrimitiveDesc(*head, ones, zeros, zeros, zeros)
