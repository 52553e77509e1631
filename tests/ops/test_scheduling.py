"""Primitives by other schedules: passed as text, or searched, kept and found again. Clocks decide no test."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.runtime.cpu import schedule_search
from restride.runtime.cpu.program_launches import look_for_schedules
from restride.schedule.search import MOST_TRIES
from support.errors import refused
from support.ir_problems import ON_CPU
from support.problem_primitives import primitive_desc_of

_CPU, _REF = rs.Engine("cpu"), rs.Engine("reference")


def _softmax(engine: rs.Engine = _CPU) -> Any:
    x = rs.MemoryDesc((4, 33, 7), "f32", "abc")
    return rs.SoftmaxForward.PrimitiveDesc(engine, "forward_inference", "softmax_accurate", x, x, 1)


def _product() -> Any:
    a, b, c = (rs.MemoryDesc(dims, "f32", "ab") for dims in ((32, 256), (256, 128), (32, 128)))
    return rs.Matmul.PrimitiveDesc(_CPU, a, b, c)


def _transpose() -> Any:
    src, dst = (rs.MemoryDesc((96, 160), "f32", tag) for tag in ("ab", "ba"))
    return rs.Reorder.PrimitiveDesc(_CPU, src, _CPU, dst)


def _lstm() -> Any:
    layer, state = rs.MemoryDesc((3, 4, 16), "f32", "abc"), rs.MemoryDesc((1, 1, 4, 16), "f32", "abcd")
    weights, bias = (
        rs.MemoryDesc((1, 1, 16, 4, 16), "f32", "abcde"),
        rs.MemoryDesc((1, 1, 4, 16), "f32", "abcd"),
    )
    mds = layer, state, state, weights, weights, bias, layer, state, state
    return rs.LSTMForward.PrimitiveDesc(_CPU, "forward_inference", "unidirectional_left2right", *mds)


def _columns() -> Any:
    x, y = rs.MemoryDesc((8192, 256), "f32", "ab"), rs.MemoryDesc((1, 256), "f32", "ab")
    return rs.Reduction.PrimitiveDesc(_CPU, "reduction_sum", x, y)


_OF_ONE_KERNEL: dict[str, Callable[[], Any]] = {
    "loops": _softmax,
    "contraction": _product,
    "move": _transpose,
}
_MAKERS = {
    **_OF_ONE_KERNEL,
    "several kernels": _lstm,
    "two kernels of a fold": _columns,
}


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """A store of its own, where each schedule is faster than the one before; how many were timed."""
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "store"))
    look_for_schedules()
    timed: list[int] = []

    def faster(call: Callable[[], object], rounds: int) -> list[float]:
        call()
        timed.append(1)
        return [0.9 ** len(timed)]

    monkeypatch.setattr(schedule_search, "time_call", faster)
    monkeypatch.setattr(schedule_search, "_SECONDS", 600.0)  # a loaded machine compiles slowly
    yield timed
    # What was found here is for this store alone: nobody else shall find what was made by it.
    capacity = rs.get_primitive_cache_capacity()
    rs.set_primitive_cache_capacity(0)
    rs.set_primitive_cache_capacity(capacity)


def _lines(pd: Any) -> str:
    return "\n".join(line for line in pd.schedule.splitlines() if not line.startswith("#"))


def _result(pd: Any) -> list[bytes]:
    draw, found = np.random.default_rng(0), {}
    for arg, md in pd._exec_args().items():
        data = draw.standard_normal(md.size // 4).astype(np.float32)
        found[arg] = rs.Memory(md, _CPU, data)
    getattr(rs, pd.kind)(pd).execute(rs.Stream(_CPU), found)
    return [memory.data.tobytes() for memory in found.values()]


# --- passed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (_softmax, "vectorize(d2/1, 8) · parallel(d0/1, 2)"),
        (_product, "tile(d0/1, 2, 1)"),
        (_transpose, "tile(a0, 4) · tile(a1, 4)"),
    ],
)
def test_a_schedule_that_is_passed_runs_and_stays_with_copies(make: Callable[[], Any], text: str) -> None:
    pd = make()
    other = pd.scheduled(text)
    assert _lines(other).startswith(text)
    assert _lines(other) != _lines(pd) == _lines(make())
    assert type(other) is type(pd)
    assert _result(other) == _result(pd)
    for each in (copy.copy(other), pickle.loads(pickle.dumps(other)), other.scheduled()):
        assert _lines(each) == _lines(other)


@pytest.mark.parametrize("make", _MAKERS.values(), ids=_MAKERS)
def test_what_is_printed_is_read(make: Callable[[], Any]) -> None:
    pd = make()
    assert _lines(pd.scheduled(pd.schedule)) == _lines(pd)
    assert _lines(pd.scheduled()) == _lines(pd)


def test_one_of_several_kernels_takes_another_schedule() -> None:
    pd = _columns()
    kernels = _lines(pd).split("kernel(1)\n")
    other = pd.scheduled("kernel(1) · vectorize(d1/1, 8)")
    assert _lines(other) != _lines(pd)
    assert _lines(other).split("kernel(1)\n")[0] == kernels[0]
    assert _result(other) == _result(pd)
    assert _lines(pickle.loads(pickle.dumps(other))) == _lines(other)


def test_copies_have_the_changes_of_all_kernels() -> None:
    pd = _lstm().scheduled("kernel(2) · unroll(i/1, 2)").scheduled("kernel(1) · unroll(i/1, 4)")
    for each in (copy.deepcopy(pd), pickle.loads(pickle.dumps(pd))):
        assert each.schedule == pd.schedule


@pytest.mark.sweep(1)
@pytest.mark.parametrize("group", ON_CPU)
def test_whatever_is_printed_is_read(group: str) -> None:
    for problem in ON_CPU[group][::9]:
        if problem.kind in ("amax", "min_max"):
            continue
        pd = primitive_desc_of(problem, _CPU)
        if any(line[:1] not in ("#", "") for line in pd.schedule.splitlines()):
            assert pd.scheduled(pd.schedule).schedule == pd.schedule


def test_a_copy_on_another_machine_runs_by_the_chosen_schedule() -> None:
    pd = _softmax()
    pd = pd.scheduled(pd.schedule)
    pd._schedule = "tile(a7, 9)"
    assert _lines(pickle.loads(pickle.dumps(pd))) == _lines(_softmax())


def test_what_takes_no_text_says_why() -> None:
    with refused("does not fit", "tile(a0, 4)"):
        _softmax().scheduled("tile(a0, 4)")
    with refused("cannot be read"):
        _softmax().scheduled("tile(")
    with refused("SoftmaxForward.PrimitiveDesc.scheduled: schedule is int", "it must be text"):
        _softmax().scheduled(3)
    with refused("effort"):
        _softmax().scheduled(effort="much")
    with refused("searches for one"):
        _softmax().scheduled("", effort="measure")
    for text in ("", "unroll(i/1, 8)", "kernel(7)", "kernel(0) · kernel(0)", "kernel()"):
        with refused("does not fit", "each kernel is named once"):
            _lstm().scheduled(text)
    with refused("takes no schedule", "creates its own"):
        _softmax(_REF).scheduled("")
    unknown = rs.MemoryDesc((rs.RUNTIME_DIM, 4), "f32", "ab")
    with refused("takes no schedule", "known only at execution"):
        rs.Reorder.PrimitiveDesc(_CPU, unknown, _CPU, unknown).scheduled("")
    with refused("empty"):
        rs.SoftmaxForward.PrimitiveDesc().scheduled("")


# --- searched -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", _OF_ONE_KERNEL.values(), ids=_OF_ONE_KERNEL)
def test_what_is_found_is_used_from_then_on(make: Callable[[], Any], searches: list[int]) -> None:
    before = make()
    found = before.scheduled(effort="measure")
    assert 2 < len(searches) <= MOST_TRIES + 10
    assert _lines(found) != _lines(before)
    assert _result(found) == _result(before)
    count = len(searches)
    for each in (make(), found.scheduled(effort="measure"), before.scheduled(effort="measure")):
        assert _lines(each) == _lines(found)
    assert len(searches) == count


def test_every_kernel_of_a_primitive_is_searched(searches: list[int]) -> None:
    before = _lstm()
    found = before.scheduled(effort="measure")
    assert _lines(found) != _lines(before)
    assert _result(found) == _result(before)
    count = len(searches)
    assert _lines(_lstm().scheduled(effort="measure")) == _lines(found)
    assert len(searches) == count


def test_a_call_that_was_prepared_takes_what_is_found(searches: list[int]) -> None:
    x = np.arange(96 * 160, dtype=np.float32).reshape(96, 160)
    before = rs.reorder(x, "ba")
    found = rs.plan(x, "ba", effort="measure")
    assert rs.plan(x, "ba").schedule == found.schedule
    after = rs.reorder(x, "ba")
    assert after.tobytes() == before.tobytes()
    assert _lines(_transpose()) == _lines(found)


def test_what_has_no_schedule_is_not_searched(searches: list[int]) -> None:
    unknown = rs.MemoryDesc((rs.RUNTIME_DIM, 4), "f32", "ab")
    for pd in (_softmax(_REF), rs.Reorder.PrimitiveDesc(_CPU, unknown, _CPU, unknown)):
        assert pd.scheduled(effort="measure").impl_info_str == pd.impl_info_str
    assert searches == []


def test_without_a_store_nothing_is_read_and_this_process_keeps_what_it_finds(
    searches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _softmax().scheduled(effort="measure")
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", "off")
    look_for_schedules()
    rs.set_primitive_cache_capacity(0)
    rs.set_primitive_cache_capacity(1024)
    assert _lines(_softmax()) != _lines(found)
    count = len(searches)
    assert _lines(_softmax().scheduled(effort="measure")) == _lines(_softmax())
    assert len(searches) > count


def _max_pool(dst_type: str = "f32") -> Any:
    src, dst = (rs.MemoryDesc((1, 2, 9, n), kind, "abcd") for n, kind in ((64, "f32"), (32, dst_type)))
    windows = (1, 2), (3, 2), (0, 0), (1, 0), (1, 0)
    return rs.PoolingForward.PrimitiveDesc(_CPU, "forward_inference", "pooling_max", src, dst, *windows)


def _padded() -> Any:
    src, dst = rs.MemoryDesc((6, 5), "f32", "ab"), rs.MemoryDesc((6, 5), "f32", "aB8b")
    return rs.SoftmaxForward.PrimitiveDesc(_CPU, "forward_inference", "softmax_accurate", src, dst, 0)


def _codes() -> Any:
    src, dst = rs.MemoryDesc((6, 64), "f32", "ab"), rs.MemoryDesc((6, 64), "s4", "ab")
    return rs.SoftmaxForward.PrimitiveDesc(_CPU, "forward_inference", "softmax_accurate", src, dst, 1)


@pytest.mark.parametrize(
    ("make", "text", "why"),
    [
        (_padded, "block(d1, 2)", "would not clear the padding of dst"),
        (_codes, "", "a list of no transforms"),
        (_codes, "block(d0, 2)", "4-bit"),
        (_softmax, "prefetch(64)", "it takes no arguments"),
        (_softmax, "interior(d0, d0)", "each at most once"),
        (_max_pool, "vectorize(w/1, 8) · split_fold(most, kw)", "must precede the transforms of loops"),
        (_max_pool, "compute_root(most)", "it makes a second kernel"),
    ],
)
def test_what_would_write_other_bytes_is_refused(make: Callable[[], Any], text: str, why: str) -> None:
    with pytest.raises(rs.InvalidArguments) as raised:
        make().scheduled(text)
    assert why in str(raised.value)


def test_a_long_window_is_not_written_out() -> None:
    src, dst = rs.MemoryDesc((2, 30_000), "f32", "ab"), rs.MemoryDesc((2, 1), "f32", "ab")
    pd = rs.Reduction.PrimitiveDesc(_CPU, "reduction_max", src, dst)
    with refused("the schedule does not fit", "30000 positions"):
        pd.scheduled("1.unroll()")


def test_rows_of_windows_may_be_others() -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 9, 64)).astype(np.float32)
    chosen = _max_pool()
    texts = (
        "split_fold(most, kw) · compute_at(most.part, n, c, h)",
        "split_fold(most, kw) · compute_at(most.part, n, c) · 1.vectorize(most.part.w/1, 16)",
        "block(w, 8) · split_fold(most, kh) · compute_at(most.part, n, c, h, w.block)",
    )
    results = []
    for pd in (chosen, *map(chosen.scheduled, texts)):
        src, dst = rs.Memory.from_numpy(x.copy()), rs.Memory(pd.dst_desc(), _CPU)
        rs.PoolingForward(pd).execute(rs.Stream(_CPU), {rs.ARG_SRC: src, rs.ARG_DST: dst})
        results.append(dst.to_numpy())
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


# --- looking into a primitive -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [_softmax, _product, _transpose, _lstm, _columns])
def test_primitive_descriptors_show_and_time_their_kernels(make: Callable[[], Any]) -> None:
    pd = make()
    kernels = pd._implementation().executable.kernels
    assert pd.why
    assert pd.ir.count("define void @restride") >= len(kernels) > 0
    assert "restride" in pd.asm
    assert all(f"; {name}\n" in pd.ir for name in kernels) == (len(kernels) > 1)
    found = pd.measure(rounds=2)
    assert found.low <= found.seconds <= found.high
    assert found.moved_bytes > 0


def test_sums_of_products_have_a_rate_of_operations() -> None:
    found = _product().measure(rounds=1)
    assert found.flops == 2 * 32 * 256 * 128
    assert found.gflop_per_s == found.flops / found.seconds / 1e9
    assert _transpose().measure(rounds=1).gflop_per_s == 0
    # Three times, four sequences, and four gates of 16 channels, from the layer and from the state.
    assert _lstm().measure(rounds=1).flops == 2 * 3 * 4 * (2 * 16 * 4 * 16)


@pytest.mark.parametrize("make", _MAKERS.values(), ids=_MAKERS)
def test_every_kind_of_primitive_is_profiled(make: Callable[[], Any]) -> None:
    pd = make()
    memories = {arg: rs.Memory(md, _CPU) for arg, md in pd._exec_args().items()}
    with rs.profile() as p:
        getattr(rs.onednn, pd.kind)(pd).execute(rs.onednn.Stream(_CPU), memories)
    (execution,) = (each for each in p.activities if each.kind == "execution")
    assert execution.flops == pd.measure(rounds=1).flops
    assert pd.kind.lower().startswith(execution.name.replace("rnn", "lstm"))


def test_the_reference_engine_has_no_kernels_but_is_measured() -> None:
    pd = _softmax(_REF)
    assert (pd.ir, pd.asm) == ("", "")
    assert pd.measure(rounds=1).seconds > 0


def test_dims_known_only_at_execution_are_not_measured() -> None:
    rows, square = (rs.MemoryDesc((n, 16), "f32", "ab") for n in (rs.onednn.RUNTIME_DIM, 16))
    pd = rs.Matmul.PrimitiveDesc(_CPU, rows, square, rows)
    assert (pd.ir, pd.asm) == ("", "")
    with refused("measure: src has dims known only at execution", kind=rs.Unimplemented):
        pd.measure()


@pytest.mark.parametrize("rounds", [0, -1, 1.5, "3", None, 10**9])
def test_invalid_rounds_are_refused(rounds: object) -> None:
    with refused("measure: rounds"):
        _softmax().measure(rounds=rounds)
