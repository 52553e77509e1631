"""Convolutions by Winograd's algorithm: errors, formats of weights, when it is chosen, what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import restride as rs
from restride.desc.text_forms import to_values
from restride.desc.winograd import winograd_layout
from restride.ops.programs import winograd
from restride.ops.programs.winograd import transforms
from support.computed import computed, memory_of, padding_is_zero, run
from support.convolved import Case, forward
from support.errors import refused

CPU = rs.Engine("cpu")
WINOGRAD, AUTO, DIRECT = (f"convolution_{word}" for word in ("winograd", "auto", "direct"))
OPEN = ("any", "any", "any")
# Shares of the largest value, as docs/numerics.md has them.
MOST = 3e-5


def case_of(batch, inputs, outputs, sizes, taps=3, padding=1):
    rank = len(sizes)
    return Case(batch, 1, inputs, outputs, sizes, (taps,) * rank, (1,) * rank, (0,) * rank, (padding,) * rank)


def pd_of(case, formats=OPEN, algorithm=WINOGRAD, bias=None, attr=None, engine=CPU, kind="forward_inference"):
    descs = case.descs([md if isinstance(md, str) else "any" for md in formats])
    src, weights, dst = (
        own if isinstance(own, rs.MemoryDesc) else md for own, md in zip(formats, descs, strict=True)
    )
    return rs.ConvolutionForward.PrimitiveDesc(
        engine, kind, algorithm, src, weights, bias, dst, *case.window, attr
    )


def values_of(case, seed=0):
    draw = np.random.default_rng(seed)
    x, w = (draw.standard_normal(dims).astype(np.float32) for dims in case.dims[:2])
    return x, w / np.float32(np.sqrt(w[0].size))


def error_of(case, pd, engine=CPU):
    x, w = values_of(case)
    made = computed(rs.ConvolutionForward, pd, engine, {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w}, rs.ARG_DST)
    assert padding_is_zero(made[rs.ARG_DST])
    wanted = forward(case, x, w)
    return np.abs(made[rs.ARG_DST].to_numpy() - wanted).max() / np.abs(wanted).max()


SHAPES = [
    case_of(1, 64, 64, (28, 28)),
    case_of(2, 20, 36, (13, 9)),
    case_of(3, 16, 16, (7, 7), padding=0),
    case_of(1, 3, 17, (8, 8)),
    case_of(2, 24, 40, (10, 11), taps=5, padding=2),
    case_of(2, 32, 32, (33,)),
    case_of(1, 16, 24, (3, 3), padding=2),
    case_of(1, 8, 8, (1, 1)),
]


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_errors_are_small_shares_of_the_largest_value(case):
    pd = pd_of(case)
    assert pd.weights_desc().format_kind == "opaque"
    assert pd.impl_info_str.endswith(":winograd")
    assert pd.get_algorithm() == WINOGRAD
    assert error_of(case, pd) < MOST / 10


@pytest.mark.parametrize(("tile", "taps"), [(2, 3), (4, 3), (2, 5)])
def test_transforms_are_those_of_a_convolution_exactly(tile, taps):
    results, weights, source = transforms(tile, taps)
    draw = np.random.default_rng(tile)
    x, w = ([int(v) for v in draw.integers(-9, 9, n)] for n in (tile + taps - 1, taps))
    made, given = (
        [sum(a * b for a, b in zip(row, v, strict=True)) for row in m] for m, v in ((weights, w), (source, x))
    )
    products = [a * b for a, b in zip(made, given, strict=True)]
    found = [sum(a * b for a, b in zip(row, products, strict=True)) for row in results]
    assert found == [sum(x[i + k] * w[k] for k in range(taps)) for i in range(tile)]


@pytest.mark.parametrize(
    "formats", [("abcd", "any", "abcd"), ("acdb", "any", "acdb"), ("abcd", "abcd", "aBcd16b")]
)
def test_tensors_of_any_format_are_read_and_written(formats):
    case = case_of(2, 20, 24, (12, 10))
    assert error_of(case, pd_of(case, formats)) < MOST / 10


@pytest.mark.parametrize(
    "case", [case_of(3, 16, 17, (41, 13)), case_of(7, 12, 20, (10, 10)), case_of(2, 8, 12, (90,))]
)
def test_parts_of_large_tensors_are_computed_one_after_the_other(case, monkeypatch):
    whole = error_of(case, pd_of(case))
    monkeypatch.setattr(winograd, "_CHUNK_BYTES", 1 << 16)
    parts = pd_of(case, ("abcd"[: 2 + len(case.sizes)], "any", "any"))  # another problem than before
    assert error_of(case, parts) == whole


def test_the_reference_engine_computes_the_same_way():
    reference, case = rs.Engine("reference"), case_of(1, 8, 8, (6, 7))
    assert error_of(case, pd_of(case, engine=reference), reference) < MOST / 10


def test_bias_scales_and_post_ops_are_part_of_it():
    case, bias = case_of(2, 16, 20, (9, 9)), rs.MemoryDesc((20,), "f32", "a")
    chain, attr = rs.PostOps(), rs.PrimitiveAttr()
    chain.append_sum(0.5)
    chain.append_eltwise("relu", 0.0, 0.0)
    attr.set_post_ops(chain)
    pd = pd_of(case, bias=bias, attr=attr)
    x, w = values_of(case)
    b, old = np.arange(20, dtype=np.float32) / 10, np.ones(case.dims[2], np.float32)
    given = {rs.ARG_SRC: x, rs.ARG_WEIGHTS: w, rs.ARG_BIAS: b, rs.ARG_DST: old}
    memories = {arg: memory_of(pd.query_md("exec_arg_md", arg), value, CPU) for arg, value in given.items()}
    run(rs.ConvolutionForward(pd), CPU, memories)
    made = memories[rs.ARG_DST].to_numpy()
    wanted = np.maximum(forward(case, x, w) + b.reshape(20, 1, 1) + 0.5, 0)
    assert np.abs(made - wanted).max() < MOST * np.abs(wanted).max()


# --- which algorithm ----------------------------------------------------------------------------------------


def test_auto_takes_it_for_inference_where_weights_are_open_and_it_is_faster():
    large, narrow = case_of(1, 64, 64, (28, 28)), case_of(1, 4, 4, (28, 28))
    assert pd_of(large, algorithm=AUTO).get_algorithm() == WINOGRAD
    assert pd_of(narrow, algorithm=AUTO).get_algorithm() == DIRECT
    assert pd_of(large, algorithm=AUTO, kind="forward_training").get_algorithm() == DIRECT
    assert pd_of(large, ("any", "abcd", "any"), AUTO).get_algorithm() == DIRECT
    assert pd_of(large, algorithm=DIRECT).get_algorithm() == DIRECT


def test_the_batch_has_no_part_in_the_choice():
    descs = {pd_of(case_of(n, 64, 64, (7, 7)), algorithm=AUTO).weights_desc() for n in (1, 2, 16)}
    assert len(descs) == 1


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (case_of(1, 8, 8, (9, 9))._replace(strides=(2, 2)), "strides"),
        (case_of(1, 8, 8, (9, 9))._replace(dilates=(1, 1)), "dilates 0"),
        (case_of(1, 8, 8, (9, 9))._replace(groups=2), "groups"),
        (case_of(1, 8, 8, (9, 9), taps=7), "3 or 5 taps"),
        (case_of(1, 8, 8, (9, 9, 9)), "one or two"),
        (case_of(0, 8, 8, (9, 9)), "tensors are empty"),
    ],
)
def test_other_convolutions_are_refused_and_auto_goes_the_direct_way(case, why):
    with refused("Winograd's algorithm is not possible", why, kind=rs.Unimplemented):
        pd_of(case)
    assert pd_of(case, algorithm=AUTO).get_algorithm() == DIRECT


def test_gradients_and_deconvolutions_have_none():
    case = case_of(1, 8, 8, (9, 9))
    with refused("only forward convolutions", kind=rs.Unimplemented):
        rs.ConvolutionBackwardData.PrimitiveDesc(CPU, WINOGRAD, *case.descs(OPEN), *case.window)
    with refused("only forward convolutions", kind=rs.Unimplemented):
        src, weights, dst = case.descs(OPEN)
        rs.DeconvolutionForward.PrimitiveDesc(
            CPU, "forward_inference", f"de{WINOGRAD}", src, weights, dst, *case.window
        )


# --- the format of weights ----------------------------------------------------------------------------------


def weights_desc(sizes=(28, 28)):
    return pd_of(case_of(1, 16, 20, sizes)).weights_desc()


def test_the_format_is_opaque_but_saved_compared_and_told():
    md = weights_desc()
    assert (md.format_kind, md.tag, md.strides, md.dims) == ("opaque", None, (), (20, 16, 3, 3))
    assert md.size == 4 * 36 * 16 * 32
    assert str(md) == "f32 20x16x3x3 winograd4x4"
    assert md.verbose_str("wei") == "wei:f32::opaque:winograd4x4::f0"
    assert rs.MemoryDesc.from_json(md.to_json()) == pickle.loads(pickle.dumps(md)) == md
    assert "each window of 3 by 3 taps of these weights became one of 6 by 6 numbers" in md.explain()


@pytest.mark.parametrize("key", ["padded_dims", "strides", "inner_blks", "dims", "data_type"])
def test_other_numbers_in_a_file_are_refused(key):
    data = weights_desc().to_dict()
    data[key] = "f16" if key == "data_type" else [n + 1 for n in data[key]]
    with refused("an opaque descriptor"):
        rs.MemoryDesc.from_dict(data)


def test_a_reorder_transforms_and_copies_but_does_not_go_back():
    md, plain = weights_desc(), rs.MemoryDesc((20, 16, 3, 3), "f32")
    w = np.random.default_rng(0).standard_normal(plain.dims).astype(np.float32)
    made = rs.reorder(w, md)
    assert made.desc == md
    np.testing.assert_array_equal(rs.reorder(made, md).data, made.data)
    _, weights, _ = transforms(4, 3)
    g = np.array(weights, np.float64)
    wanted = np.einsum("ab,kcbd,ed->aeck", g, w.astype(np.float64), g)
    (block,) = md.layout.inner_blks
    found = np.asarray(made.data).view(np.float32).reshape(6, 6, 32 // block, 16, block)
    found = found.transpose(0, 1, 3, 2, 4).reshape(6, 6, 16, 32)
    np.testing.assert_array_equal(found[..., :20], wanted.astype(np.float32))
    assert not found[..., 20:].any()
    with refused("cannot be converted back", kind=rs.Unimplemented):
        rs.reorder(made, plain)
    with refused("cannot be converted back", kind=rs.Unimplemented):
        rs.reorder(made, weights_desc((2, 2)))
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_SRC, 0, [2.0])
    with refused("as they are", kind=rs.Unimplemented):
        rs.Reorder.PrimitiveDesc(CPU, plain, CPU, md, attr)


def test_nothing_else_reads_the_format():
    md = weights_desc()
    memory = rs.Memory(md, CPU)
    calls = (
        lambda: md.offset(0, 0, 0, 0),
        lambda: md.reshape((320, 9)),
        lambda: md.permute_axes((1, 0, 2, 3)),
        lambda: md.submemory_desc((1, 1, 3, 3), (0, 0, 0, 0)),
        lambda: md.as_type("f16"),
        memory.to_numpy,
        lambda: rs.SoftmaxForward.PrimitiveDesc(CPU, "forward_inference", "softmax_accurate", md, md, 1),
        lambda: rs.Sum.PrimitiveDesc(CPU, md, [1.0, 1.0], [md, md]),
        lambda: pd_of(case_of(1, 16, 20, (28, 28)), ("any", md, "any"), DIRECT),
    )
    for call in calls:
        with refused("opaque" if call is not calls[-1] else "untransformed"):
            call()


@pytest.mark.parametrize("block", [8, 32])
def test_weights_in_blocks_of_another_machine_are_read_as_they_lie(block):
    case = case_of(2, 12, 20, (10, 10))
    layout = winograd_layout(case.dims[1], 2, 4, block)
    md = rs.MemoryDesc.from_dict(to_values("opaque", rs.f32, layout))
    pd = pd_of(case, ("any", md, "any"))
    assert pd.weights_desc() == md
    assert error_of(case, pd) < MOST / 10
