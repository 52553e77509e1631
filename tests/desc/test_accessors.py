"""The words of oneDNN's documents: methods, keywords, enumerations, constructors."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.desc.post_op_values import BINARY, ELTWISE
from support.errors import refused

CPU = rs.Engine("cpu")
STREAM = rs.Stream(CPU)
DIMS = (2, 12, 3, 5)
X = np.arange(360, dtype=np.float32).reshape(DIMS)


@pytest.mark.parametrize(
    "md",
    [
        rs.MemoryDesc(DIMS, "f32", "nChw8c"),
        rs.MemoryDesc(DIMS, "s8", "any"),
        rs.MemoryDesc(),
        rs.MemoryDesc(DIMS, "bf16", "nhwc").submemory_desc((1, 12, 3, 5), (1, 0, 0, 0)),
    ],
    ids=str,
)
def test_every_property_of_a_descriptor_is_a_method_too(md: rs.MemoryDesc) -> None:
    for name in (
        *("ndims", "dims", "data_type", "format_kind", "padded_dims", "padded_offsets", "strides"),
        *("inner_blks", "inner_idxs", "size"),
    ):
        assert getattr(md, f"get_{name}")() == getattr(md, name)
    assert md.get_inner_nblks() == len(md.inner_blks)
    assert md.get_submemory_offset() == md.offset0


def test_memories_streams_and_engines_have_getters() -> None:
    memory = rs.Memory.from_numpy(X)
    assert memory.get_desc() is memory.desc
    assert memory.get_engine() is STREAM.get_engine() is CPU
    assert CPU.get_kind() is rs.EngineKind.cpu
    assert rs.Engine("reference").get_kind() is rs.EngineKind.reference
    with pytest.raises(rs.InvalidArguments):
        rs.Memory().get_engine()


def test_allow_empty_goes_by_place() -> None:
    md = rs.MemoryDesc(DIMS, "f32", "nchw")
    assert not rs.MemoryDesc(DIMS, "f32", "no tag", True)
    assert not md.submemory_desc((9, 9, 9, 9), (0, 0, 0, 0), True)
    assert not md.reshape((7,), True)
    assert not md.permute_axes((0, 0, 1, 2), True)


def test_a_reorder_takes_the_keywords_of_the_document() -> None:
    src, dst = rs.Memory.from_numpy(X), rs.Memory(rs.MemoryDesc(DIMS, "f32", "nChw8c"), CPU)
    attr = rs.PrimitiveAttr()
    attr.set_output_scales(0, 2.0)
    pd = rs.Reorder.PrimitiveDesc(src=src, dst=dst, attr=attr, allow_empty=False)
    for made in (rs.Reorder(src=src, dst=dst, attr=attr), rs.Reorder(src, dst, attr), rs.Reorder(pd=pd)):
        for call in (made, made.execute):
            dst.data[:] = 0
            call(astream=STREAM, src=src, dst=dst)
            np.testing.assert_array_equal(dst.to_numpy(), 2 * X)
        dst.data[:] = 0
        made(STREAM, {rs.ARG_FROM: src, rs.ARG_TO: dst})
        np.testing.assert_array_equal(dst.to_numpy(), 2 * X)
    for wrong in (lambda: made(), lambda: made(src=src, dst=dst), lambda: rs.Reorder(pd=3)):
        with pytest.raises(rs.InvalidArguments):
            wrong()


def test_shuffles_take_the_keywords_of_the_document() -> None:
    md = rs.MemoryDesc(DIMS, "f32", "nchw")
    desc = rs.ShuffleForward.Desc(aprop_kind="forward", data_desc=md, axis=1, group_size=4)
    assert desc == rs.ShuffleForward.Desc("forward", md, 1, 4)
    forward = rs.ShuffleForward.PrimitiveDesc(adesc=desc, aengine=CPU, attr=None, allow_empty=False)
    back = rs.ShuffleBackward.Desc(diff_data_desc=md, axis=1, group_size=4)
    backward = rs.ShuffleBackward.PrimitiveDesc(adesc=back, aengine=CPU, hint_fwd_pd=forward)
    src, dst, again = (rs.Memory(md, CPU) for _ in range(3))
    src.data[:] = X.reshape(-1)
    rs.ShuffleForward(pd=forward)(astream=STREAM, src={rs.ARG_SRC: src, rs.ARG_DST: dst})
    np.testing.assert_array_equal(dst.to_numpy(), rs.shuffle(X, group_size=4))
    rs.ShuffleBackward(pd=backward)(STREAM, {rs.ARG_DIFF_DST: dst, rs.ARG_DIFF_SRC: again})
    np.testing.assert_array_equal(again.to_numpy(), X)
    with refused("ShuffleForward.Desc: wrong arguments", "data_desc"):
        rs.ShuffleForward.Desc("forward")
    with refused("ShuffleForward.PrimitiveDesc: wrong arguments", "'adesc'"):
        rs.ShuffleForward.PrimitiveDesc(desc=desc, adesc=desc, engine=CPU)


def test_primitives_and_their_descriptors_have_public_bases() -> None:
    public = [getattr(rs.onednn, name) for name in rs.onednn.__all__]
    kinds = [found for found in public if isinstance(found, type) and issubclass(found, rs.Primitive)]
    assert {rs.Reorder, rs.ShuffleForward, rs.ShuffleBackward, rs.Concat, rs.Sum} < set(kinds)
    for kind in set(kinds) - {rs.Primitive}:
        assert issubclass(kind.PrimitiveDesc, rs.PrimitiveDesc)
        assert kind.PrimitiveDesc().get_kind() in list(rs.PrimitiveKind)


@pytest.mark.parametrize("kind", [rs.Algorithm, rs.PrimitiveKind, rs.ScratchpadMode])
def test_members_of_enumerations_are_their_words(kind: type[enum.StrEnum]) -> None:
    for name, member in kind.__members__.items():
        assert kind(member.value) is member
        assert member == member.value
        assert name == member.value or name == "eltwise_gelu"


def test_every_function_of_post_ops_is_an_algorithm() -> None:
    named = {f"eltwise_{name}" for name in ELTWISE if name != "nan_to_zero"} | {f"binary_{n}" for n in BINARY}
    older = {"undef", "eltwise_bounded_relu", "eltwise_logsigmoid"}
    chained = ("eltwise_", "binary_", "undef")
    of_primitives = {member for member in rs.Algorithm if not member.startswith(chained)}
    of_primitives |= {member for member in rs.Algorithm if member.endswith(("_for_bwd", "_select"))}
    assert set(rs.Algorithm) - of_primitives == named | older
    md = rs.MemoryDesc(DIMS, "f32")
    for member in set(rs.Algorithm) - of_primitives:
        chain = rs.PostOps()
        if member.startswith("eltwise_"):
            chain.append_eltwise(member, 1.0, 2.0)
        elif member.startswith("binary_"):
            chain.append_binary(member, md)
        assert len(chain) == (member is not rs.Algorithm.undef)


@pytest.mark.parametrize(
    ("older", "alpha", "wanted"),
    [
        ("eltwise_gelu", None, ("gelu_tanh", 0.0, 0.0)),
        (rs.Algorithm.eltwise_gelu, None, ("gelu_tanh", 0.0, 0.0)),
        ("eltwise_bounded_relu", 6.0, ("clip", 0.0, 6.0)),
        ("bounded_relu", 6, ("clip", 0.0, 6.0)),
        ("eltwise_logsigmoid", None, ("soft_relu", -1.0, 0.0)),
        ("soft_relu", None, ("soft_relu", 1.0, 0.0)),
        ("eltwise_soft_relu", 2.0, ("soft_relu", 2.0, 0.0)),
        ("relu", None, ("relu", 0.0, 0.0)),
    ],
)
def test_older_names_and_numbers_left_out_mean_what_the_documents_say(
    older: str, alpha: Any, wanted: tuple[str, float, float]
) -> None:
    chain = rs.PostOps()
    chain.append_eltwise(older, alpha)
    assert chain.get_params_eltwise(0)[:3] == wanted


def test_older_functions_compute_what_their_names_say() -> None:
    x = np.linspace(-9, 9, 37, dtype=np.float32)
    bounded = rs.reorder(x, None, post_ops=[("eltwise_bounded_relu", 6.0)])
    np.testing.assert_array_equal(bounded, np.minimum(np.maximum(x, 0), 6))
    for word, wanted in (
        ("eltwise_logsigmoid", -np.log1p(np.exp(-x.astype(np.float64)))),
        ("soft_relu", np.log1p(np.exp(x.astype(np.float64)))),
    ):
        np.testing.assert_allclose(rs.reorder(x, None, post_ops=[word]), wanted, rtol=1e-6)


def test_every_tag_is_an_attribute_of_format_tag() -> None:
    assert rs.FormatTag.nChw16c == rs.FormatTag.parse("nChw16c")
    assert rs.MemoryDesc(DIMS, "f32", rs.FormatTag.OIhw4i16o4i).tag == "ABcd4b16a4b"
    assert rs.FormatTag.nchw is rs.FormatTag.abcd
    for name in ("nchww", "__wrapped__", "_repr_html_", "shape"):
        assert not hasattr(rs.FormatTag, name)


def test_an_engine_or_a_stream_of_sycl_needs_its_objects() -> None:
    for wrong in (
        lambda: rs.Engine("cpu", object(), object()),
        lambda: rs.Engine("no kind", object(), object()),
        lambda: CPU.get_sycl_device(),
        lambda: CPU.get_sycl_context(),
        lambda: STREAM.get_sycl_queue(),
        lambda: rs.Stream(CPU, type("Queue", (), {"sycl_context": None})()),
    ):
        with pytest.raises(rs.InvalidArguments):
            wrong()


def test_channels_of_arrays_of_any_rank_are_shuffled() -> None:
    x = np.arange(3 * 2**11 * 6).reshape((3, *(2,) * 6, 6, *(2,) * 5))
    wanted = x.reshape((3, *(2,) * 6, 3, 2, *(2,) * 5)).swapaxes(7, 8).reshape(x.shape)
    for source in (x, np.asfortranarray(x)):
        for axis in (7, -6):
            made = rs.shuffle_channels(source, group=3, axis=axis)
            np.testing.assert_array_equal(made, wanted)
        np.testing.assert_array_equal(rs.shuffle(source, group_size=2, axis=7), wanted)
        out = np.asfortranarray(np.zeros_like(x))
        assert rs.shuffle_channels(source, group=3, axis=7, out=out) is out
        np.testing.assert_array_equal(out, wanted)
    for bad in (out[..., :1], out.astype(np.float32), np.broadcast_to(x[:1], x.shape), x.tolist()):
        with refused("shuffle_channels: out is not valid"):
            rs.shuffle_channels(x, group=3, axis=7, out=bad)
    with refused("shuffle_channels: bad group"):
        rs.shuffle_channels(x, group=4, axis=7)
