"""Programs on a SYCL device: what a warm execution costs, what it checks, what it holds."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import restride as rs
from restride import sycl_interop as interop
from restride.errors import InvalidArguments
from support.python_calls import python_calls
from support.sycl import filled, host, on_device, raw_bytes, sycl_engine

pytestmark = pytest.mark.sycl
MD = rs.MemoryDesc((64, 48), "f32", "ab")
TURNED = rs.MemoryDesc((64, 48), "f32", "ba")
# Of the library, at an execution that has been checked before.
MOST_CALLS = 15


@pytest.fixture(scope="module")
def engine():
    return sycl_engine()


def executed(primitive, *args):
    """Executes, and waits for the end elsewhere."""
    stream = rs.Stream(primitive.get_primitive_desc().get_engine())
    primitive.execute(stream, *args)
    counts = [python_calls(lambda: primitive.execute(stream, *args), (".py", "<string>")) for _ in range(64)]
    stream.wait()
    return counts


def test_a_warm_execution_takes_few_python_calls(engine):
    a, b = rs.Memory(MD, engine), rs.Memory(TURNED, engine)
    counts = executed(rs.Reorder(a, b), a, b)
    assert sorted(counts)[32] <= MOST_CALLS
    assert sum(counts) / len(counts) <= MOST_CALLS


def test_a_warm_shuffle_and_a_warm_sum_take_few_python_calls(engine):
    md = rs.MemoryDesc((2, 12, 5), "f32", "abc")
    src, dst = rs.Memory(md, engine), rs.Memory(md, engine)
    shuffle = rs.ShuffleForward.PrimitiveDesc(rs.ShuffleForward.Desc("forward", md, 1, 4), engine)
    assert sum(executed(rs.ShuffleForward(shuffle), src, dst)) / 64 <= MOST_CALLS
    added = rs.Sum(rs.Sum.PrimitiveDesc(engine, [1.0, 2.0], [md, md], md))
    assert sum(executed(added, [src, rs.Memory(md, engine)], dst)) / 64 <= MOST_CALLS


class Freed:
    """Exports a pointer that is no USM any more."""

    def __init__(self, usm):
        self.__sycl_usm_array_interface__ = dict(usm.__sycl_usm_array_interface__)


@pytest.mark.parametrize("side", ["src", "dst"])
def test_freed_memory_is_refused_by_a_warm_execution(engine, side):
    dpctl_memory = pytest.importorskip("dpctl.memory")
    stream = rs.Stream(engine)
    usm = dpctl_memory.MemoryUSMDevice(MD.size, queue=interop.get_queue(stream))
    lent = rs.Memory(MD if side == "src" else TURNED, engine, Freed(usm))
    own = rs.Memory(TURNED if side == "src" else MD, engine)
    src, dst = (lent, own) if side == "src" else (own, lent)
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, MD, engine, TURNED))
    for _ in range(3):
        primitive.execute(stream, src, dst)
    stream.wait()
    del usm
    gc.collect()
    with pytest.raises(InvalidArguments, match="its USM was freed"):
        primitive.execute(stream, src, dst)


def test_what_a_warm_execution_works_on_lives_until_it_has_ended(engine):
    stream, x = rs.Stream(engine, "out_of_order"), np.arange(64 * 48, dtype=np.float32).reshape(64, 48)
    primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, MD, engine, TURNED))
    back = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, TURNED, engine, MD))
    out, event = rs.Memory(MD, engine), None
    for _ in range(40):
        a, b = on_device(rs.Memory.from_numpy(x), engine), rs.Memory(TURNED, engine)
        first = primitive.execute_sycl(stream, a, b, deps=[event] if event else [])
        event = back.execute_sycl(stream, b, out, deps=[first])
        del a, b, first
        gc.collect()
    event.wait()
    assert (out.to_numpy() == x).all()


def test_a_reorder_to_the_host_is_behind_what_others_put_on_its_queue(engine):
    dpctl_memory = pytest.importorskip("dpctl.memory")
    stream = rs.Stream(engine)
    queue = interop.get_queue(stream)
    one, two = (dpctl_memory.MemoryUSMDevice(1 << 26, queue=queue) for _ in range(2))
    x = np.arange(64 * 48, dtype=np.float32).reshape(64, 48)
    src, dst = rs.Memory(MD, engine), rs.Memory(TURNED, rs.Engine("cpu"))
    primitive = rs.Reorder(src, dst)
    for _ in range(8):
        queue.memcpy_async(one, two, one.nbytes)
    queue.memcpy_async(src._buffer.owner, x, x.nbytes)
    primitive.execute(stream, src, dst)
    assert (dst.to_numpy() == x).all()


def sums_of_weights(engine, dims, fmt, mask, shift):
    """A quantized tensor and both sums of a compensation, whose memories begin `shift` bytes off."""
    src_md, dst_md = rs.MemoryDesc(dims, "f32", "abcd"), rs.MemoryDesc(dims, "s8", fmt)
    attr = rs.PrimitiveAttr()
    attr.set_compensation(mask=mask, s8s8=True, zero_point=True)
    attr.set_scales(rs.ARG_SRC, 0, [40.0])
    pd = rs.Reorder.PrimitiveDesc(engine, src_md, engine, dst_md, attr)
    values = np.random.default_rng(3).standard_normal(dims).astype(np.float32)
    source = rs.Memory.from_numpy(values)
    args = {rs.ARG_FROM: on_device(source, engine) if engine.is_sycl else host(source)}
    args[rs.ARG_TO] = rs.Memory(dst_md, engine)
    for arg in (rs.ARG_DST_1, rs.ARG_DST_2):
        args[arg] = sums_memory(pd.query_md("exec_arg_md", arg), engine, shift)
    stream = rs.Stream(engine)
    rs.Reorder(pd).execute(stream, args)
    stream.wait()
    return [args[arg].to_numpy().tolist() for arg in (rs.ARG_TO, rs.ARG_DST_1, rs.ARG_DST_2)]


def sums_memory(md, engine, shift):
    if not engine.is_sycl:
        return rs.Memory(md, engine)
    whole = interop.make_memory(rs.MemoryDesc((md.size + shift,), "u8", "a"), engine, "shared")
    part = whole.__sycl_usm_array_interface__ | {"shape": (md.size,)}
    part["data"] = (part["data"][0] + shift, False)
    lent = type("Lent", (), {"__sycl_usm_array_interface__": part, "whole": whole})()
    return rs.Memory(md, engine, lent)


@pytest.mark.parametrize("shift", [0, 2])
@pytest.mark.parametrize(
    ("dims", "fmt", "mask"),
    [((5, 6, 3, 3), "ABcd4b4a", 1), ((72, 70, 1, 2), "bacd", 3), ((72, 70, 1, 1), "abcd", 3)],
    ids=["sums", "turned", "products"],
)
def test_sums_have_the_reference_bits_wherever_they_begin(engine, dims, fmt, mask, shift):
    found = sums_of_weights(engine, dims, fmt, mask, shift)
    assert found == sums_of_weights(rs.Engine("reference"), dims, fmt, mask, 0)


@pytest.mark.parametrize("data_type", ["s4", "f4_e2m1"])
def test_many_sources_of_half_bytes_are_added_in_passes(engine, data_type):
    md, dst_md = rs.MemoryDesc((3, 7), data_type, "ab"), rs.MemoryDesc((3, 7), "f32", "ba")
    results = []
    for there in (engine, rs.Engine("reference")):
        pd = rs.Sum.PrimitiveDesc(there, [0.5] * 19, [md] * 19, dst_md)
        sources = [filled(md, i) for i in range(19)]
        held = [on_device(src, there) if there.is_sycl else host(src) for src in sources]
        dst = rs.Memory(dst_md, there)
        rs.Sum(pd).execute(rs.Stream(there), held, dst)
        results.append(raw_bytes(dst))
    assert (results[0] == results[1]).all()
