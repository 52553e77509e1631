"""Primitive kinds and propagation kinds."""

from __future__ import annotations

import enum

from ..desc.parse import one_of, short_repr
from ..errors import LookupType, ValueLookup, refuse
from ..foreign import plain_text


class PrimitiveKind(ValueLookup, enum.StrEnum, metaclass=LookupType):
    """The kind of a primitive (`dnnl::primitive::kind`). Members equal their names as strings."""

    undef = "undef"
    reorder = "reorder"
    shuffle = "shuffle"
    concat = "concat"
    sum = "sum"
    eltwise = "eltwise"
    elementwise = "elementwise"
    binary = "binary"
    prelu = "prelu"
    convolution = "convolution"
    deconvolution = "deconvolution"
    inner_product = "inner_product"
    matmul = "matmul"
    pooling = "pooling"
    lrn = "lrn"
    softmax = "softmax"
    reduction = "reduction"
    resampling = "resampling"
    interpolation = "interpolation"
    batch_normalization = "batch_normalization"
    layer_normalization = "layer_normalization"
    group_normalization = "group_normalization"
    rnn = "rnn"
    arg_reduction = "arg_reduction"
    attention = "attention"
    gather = "gather"
    max_pooling = "max_pooling"
    one_hot = "one_hot"
    reverse_sequence = "reverse_sequence"
    scan = "scan"
    scatter = "scatter"
    tile = "tile"
    top_k = "top_k"
    trilu = "trilu"


class PropKind(ValueLookup, enum.StrEnum, metaclass=LookupType):
    """A propagation kind (`dnnl::prop_kind`). Members equal their names, which are accepted in their place.

    `forward` and `forward_scoring` are aliases of `forward_training` and `forward_inference`.
    """

    undef = "undef"
    forward_training = "forward_training"
    forward_inference = "forward_inference"
    forward = "forward_training"
    forward_scoring = "forward_inference"
    backward = "backward"
    backward_data = "backward_data"
    backward_weights = "backward_weights"
    backward_bias = "backward_bias"

    @classmethod
    def parse(cls, value: object, what: str) -> PropKind:
        """Return the kind that a member or a word names; errors name the call `what`."""
        word = plain_text(value)
        if isinstance(word, str) and word in cls.__members__:
            return cls[word]
        raise refuse(
            "RS-V04:prop-kind", what=what, value=short_repr(value), advice=one_of(cls.__members__, value)
        )
