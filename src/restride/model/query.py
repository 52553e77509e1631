"""The queries of a primitive descriptor, with oneDNN's numbers."""

from __future__ import annotations

import enum

from ..desc.parse import one_of, short_repr
from ..errors import LookupType, ValueLookup, refuse
from ..foreign import plain_text


class Query(ValueLookup, enum.IntEnum, metaclass=LookupType):
    """A query of a primitive descriptor (`dnnl::query`), for `query_md` and `query_s64`.

    Its name is accepted too, for descriptors also without `_md`: "src".
    """

    undef = 0
    engine = 1
    primitive_kind = 2
    num_of_inputs_s32 = 3
    num_of_outputs_s32 = 4
    time_estimate_f64 = 5
    memory_consumption_s64 = 6
    scratchpad_engine = 7
    impl_info_str = 8
    reorder_src_engine = 9
    reorder_dst_engine = 10
    prop_kind = 11
    cache_blob_id_size_s64 = 12
    cache_blob_id = 13
    strides = 14
    dilations = 15
    padding_l = 16
    padding_r = 17
    epsilon_f32 = 18
    flags = 19
    alg_kind = 20
    alpha_f32 = 21
    beta_f32 = 22
    axis_s32 = 23
    local_size_s64 = 24
    k_f32 = 25
    p_f32 = 26
    factors = 27
    cell_kind = 28
    direction = 29
    activation_kind = 30
    kernel = 31
    group_size_s64 = 32
    some_md = 128
    src_md = 129
    diff_src_md = 130
    weights_md = 131
    diff_weights_md = 132
    dst_md = 133
    diff_dst_md = 134
    workspace_md = 135
    scratchpad_md = 136
    exec_arg_md = 255


_OF_MD = {q.name: q for q in Query if Query.src_md <= q} | {
    q.name.removesuffix("_md"): q for q in Query if Query.src_md <= q < Query.exec_arg_md
}
_OF_INTEGERS = {q.name: q for q in Query if q.name.endswith(("_s32", "_s64"))}


def parse_md_query(what: object) -> Query:
    """Return the descriptor query that a member or a word names; InvalidArguments for anything else."""
    return _parse("query_md", what, _OF_MD)


def parse_integer_query(what: object) -> Query:
    """Return the integer query that a member or a word names; InvalidArguments for anything else."""
    return _parse("query_s64", what, _OF_INTEGERS)


def _parse(call: str, what: object, queries: dict[str, Query]) -> Query:
    # A bare number is not accepted: one that is off by one would silently give a wrong answer.
    word = plain_text(what.name if isinstance(what, Query) else what)
    if isinstance(word, str) and word in queries:
        return queries[word]
    text = f"Query.{word}" if isinstance(what, Query) else short_repr(what)
    raise refuse(
        "RS-V04:unknown-query",
        call=call,
        shown=text,
        advice=one_of(dict.fromkeys(query.name for query in queries.values()), word),
    )
