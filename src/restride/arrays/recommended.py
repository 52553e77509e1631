"""The format that a primitive would choose for a tensor: what "any" becomes there."""

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
    """`md`, of any format, in the format that a primitive of this machine chooses for it where it is "any".

    primitive  "convolution", "inner_product" or "matmul"; None: the one that reads tensors of so many dims,
               an inner product two, a convolution three to five, a matmul more
    argument   "src", "weights" or "dst": what `md` is to the primitive

    The primitive that is asked is forward, without groups, and has as many outputs as inputs. One that is at
    hand says more: `pd.src_desc()`, `pd.weights_desc()`, `pd.dst_desc()`. RESTRIDE_MAX_CPU_ISA counts.

    Raises InvalidArguments for dims that the primitive does not take or that are not known, Unimplemented for
    types that it does not take.

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
    """A product that has a tensor of these dims there, and as many outputs as inputs elsewhere."""
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
    """Source, weights and result where one of them has this type: bytes are multiplied with s8."""
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
