"""Bad input of each primitive bound by memory, forward and backward: descriptors without a format, hints that
are none or of another problem; and what an execution is passed, a memory that is missing, of another problem,
read-only, or lies where another is written. All is refused before a byte is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import restride as rs
from restride.desc.arguments import name_of
from support.computed import any_like
from support.errors import refused

CPU = rs.Engine("cpu")
_DIMS = (2, 3, 4, 5)
_MD, _HALF = rs.MemoryDesc(_DIMS, "f32", "abcd"), rs.MemoryDesc((2, 3, 2, 5), "f32", "abcd")
_PER_CHANNEL = rs.MemoryDesc((1, 3, 1, 1), "f32", "abcd")
_ROWS = rs.MemoryDesc(_DIMS[:3], "f32", "abc")
_WINDOWS = (2, 1), (2, 1), (0, 0), (0, 0), (0, 0)
_FLAGS = "use_scale|use_shift"
_FILL = 0xA5


class Case(NamedTuple):
    """A primitive, its descriptor, and the arguments that may be written where the destination is."""

    primitive: Any
    pd: Callable[[], Any]
    in_place: tuple[int, ...] = ()


def _pooling() -> Any:
    pd = rs.PoolingForward.PrimitiveDesc
    return pd(CPU, "forward_training", "pooling_max", _MD, _HALF, *_WINDOWS)


def _pooling_back() -> Any:
    pd = rs.PoolingBackward.PrimitiveDesc
    return pd(CPU, "pooling_max", _MD, _HALF, *_WINDOWS, hint_pd=_pooling())


def _norm(name: str, *own: Any, flags: str = _FLAGS) -> Callable[[], Any]:
    def make() -> Any:
        pd = getattr(rs, f"{name}Forward").PrimitiveDesc
        return pd(CPU, "forward_training", _MD, _MD, *own, 1e-3, flags)

    return make


def _norm_back(name: str, *own: Any, flags: str = _FLAGS) -> Callable[[], Any]:
    def make() -> Any:
        pd, hint = getattr(rs, f"{name}Backward").PrimitiveDesc, _norm(name, *own, flags=flags)()
        return pd(CPU, "backward", _MD, _MD, _MD, *own, 1e-3, flags, hint_pd=hint)

    return make


def _lrn() -> Any:
    pd = rs.LRNForward.PrimitiveDesc
    return pd(CPU, "forward_training", "lrn_across_channels", _MD, _MD, 3, 0.1, 0.75)


def _lrn_back() -> Any:
    pd = rs.LRNBackward.PrimitiveDesc
    return pd(CPU, "lrn_across_channels", _MD, _MD, _MD, 3, 0.1, 0.75, hint_pd=_lrn())


def _softmax() -> Any:
    return rs.SoftmaxForward.PrimitiveDesc(CPU, "forward_training", "softmax_accurate", _MD, _MD, 1)


def _softmax_back() -> Any:
    pd = rs.SoftmaxBackward.PrimitiveDesc
    return pd(CPU, "softmax_accurate", _MD, _MD, _MD, 1, hint_pd=_softmax())


def _prelu() -> Any:
    return rs.PReLUForward.PrimitiveDesc(CPU, "forward_training", _MD, _PER_CHANNEL, _MD)


def _prelu_back() -> Any:
    pd = rs.PReLUBackward.PrimitiveDesc
    return pd(CPU, _MD, _PER_CHANNEL, _MD, _PER_CHANNEL, _MD, hint_pd=_prelu())


def _resampling() -> Any:
    pd = rs.ResamplingForward.PrimitiveDesc
    return pd(CPU, "forward_training", "resampling_linear", _HALF, _MD)


def _resampling_back() -> Any:
    pd = rs.ResamplingBackward.PrimitiveDesc
    return pd(CPU, "resampling_linear", _HALF, _MD, hint_pd=_resampling())


def _eltwise() -> Any:
    return rs.EltwiseForward.PrimitiveDesc(CPU, "forward_training", "eltwise_tanh", _MD, _MD)


def _eltwise_back() -> Any:
    pd = rs.EltwiseBackward.PrimitiveDesc
    return pd(CPU, "eltwise_tanh", _MD, _MD, _MD, hint_pd=_eltwise())


def _binary() -> Any:
    return rs.Binary.PrimitiveDesc(CPU, "binary_add", _MD, _MD, _MD)


def _reduction() -> Any:
    return rs.Reduction.PrimitiveDesc(CPU, "reduction_sum", _MD, _PER_CHANNEL)


def _shuffle() -> Any:
    return rs.ShuffleForward.PrimitiveDesc(CPU, "forward_training", _MD, _MD, 2, 2)


def _shuffle_back() -> Any:
    return rs.ShuffleBackward.PrimitiveDesc(CPU, _MD, _MD, 2, 2, _shuffle())


_SRC, _EITHER = (rs.ARG_SRC,), (rs.ARG_SRC, rs.ARG_DIFF_DST)
CASES = {
    "eltwise": Case(rs.EltwiseForward, _eltwise, _SRC),
    "eltwise backward": Case(rs.EltwiseBackward, _eltwise_back, _EITHER),
    "binary": Case(rs.Binary, _binary, (rs.ARG_SRC_0, rs.ARG_SRC_1)),
    "pooling": Case(rs.PoolingForward, _pooling),
    "pooling backward": Case(rs.PoolingBackward, _pooling_back),
    "batch": Case(rs.BatchNormalizationForward, _norm("BatchNormalization"), _SRC),
    "batch, relu": Case(
        rs.BatchNormalizationForward, _norm("BatchNormalization", flags="fuse_norm_relu"), _SRC
    ),
    "batch backward": Case(rs.BatchNormalizationBackward, _norm_back("BatchNormalization"), _EITHER),
    "batch backward, relu": Case(
        rs.BatchNormalizationBackward, _norm_back("BatchNormalization", flags="fuse_norm_relu"), _EITHER
    ),
    "layer": Case(rs.LayerNormalizationForward, _norm("LayerNormalization", _ROWS), _SRC),
    "layer backward": Case(rs.LayerNormalizationBackward, _norm_back("LayerNormalization", _ROWS), _EITHER),
    "group": Case(rs.GroupNormalizationForward, _norm("GroupNormalization", 3), _SRC),
    "group backward": Case(rs.GroupNormalizationBackward, _norm_back("GroupNormalization", 3), _EITHER),
    "lrn": Case(rs.LRNForward, _lrn),
    "lrn backward": Case(rs.LRNBackward, _lrn_back),
    "softmax": Case(rs.SoftmaxForward, _softmax, _SRC),
    "softmax backward": Case(rs.SoftmaxBackward, _softmax_back, (rs.ARG_DST, rs.ARG_DIFF_DST)),
    "prelu": Case(rs.PReLUForward, _prelu, _SRC),
    "prelu backward": Case(rs.PReLUBackward, _prelu_back),
    "reduction": Case(rs.Reduction, _reduction),
    "resampling": Case(rs.ResamplingForward, _resampling),
    "resampling backward": Case(rs.ResamplingBackward, _resampling_back),
    "shuffle": Case(rs.ShuffleForward, _shuffle),
    "shuffle backward": Case(rs.ShuffleBackward, _shuffle_back),
}


@pytest.fixture(scope="module", params=CASES)
def made(request: pytest.FixtureRequest) -> tuple[Case, Any, Any]:
    case = CASES[request.param]
    pd = case.pd()
    return case, pd, case.primitive(pd)


def _memories(pd: Any) -> dict[int, rs.Memory]:
    """A memory for each argument, of ones where it is read, else of bytes that nothing computes."""
    found = {}
    for arg, md in pd._exec_args().items():
        is_float = md.data_type is rs.DataType.f32
        data = np.ones(md.size // 4, np.float32) if is_float else np.zeros(md.size, np.uint8)
        found[arg] = rs.Memory(md, CPU, data.view(np.uint8))
    for arg in (pd._writes(), *pd._implementation().outputs()):
        _bytes(found[arg])[:] = _FILL
    return found


def _bytes(memory: rs.Memory) -> Any:
    assert memory.data is not None
    return memory.data.view(np.uint8)


def _is_refused(made: tuple[Case, Any, Any], memories: dict[int, rs.Memory], *texts: str) -> None:
    """Refused, and nothing written."""
    before = {arg: _bytes(memory).tobytes() for arg, memory in memories.items() if memory}
    with refused(*texts):
        made[2].execute(rs.Stream(CPU), memories)
    assert before == {arg: _bytes(memory).tobytes() for arg, memory in memories.items() if memory}


def test_what_is_right_runs(made):
    _, pd, primitive = made
    memories = _memories(pd)
    stream = rs.Stream(CPU)
    primitive.execute(stream, memories)
    stream.wait()
    assert set(_bytes(memories[pd._writes()])) != {_FILL}


def test_each_argument_is_needed(made):
    memories = _memories(made[1])
    for arg in memories:
        rest = {each: memory for each, memory in memories.items() if each != arg}
        _is_refused(made, rest, name_of(arg, made[1]._arg_names))
        _is_refused(made, {**rest, arg: rs.Memory()})


def test_each_argument_is_of_this_problem(made):
    memories = _memories(made[1])
    for arg, memory in memories.items():
        md = memory.desc
        longer = rs.MemoryDesc((md.dims[0] + 1, *md.dims[1:]), md.data_type)
        kind = "f16" if md.data_type is rs.DataType.f32 else "f32"
        wrong = [longer, rs.MemoryDesc(md.dims, kind)]
        if md.ndims > 2 and max(md.dims[1:]) > 1:
            wrong.append(md.permute_axes(list(reversed(range(md.ndims)))).reshape(md.dims, allow_empty=True))
        for each in filter(None, wrong):
            if each != md:
                _is_refused(made, {**memories, arg: rs.Memory(each, CPU)})


def test_nothing_is_written_to_what_is_read_only(made):
    _, pd, _ = made
    for arg in (pd._writes(), *pd._implementation().outputs()):
        memories = _memories(pd)
        data = _bytes(memories[arg]).copy()
        data.flags.writeable = False
        memories[arg] = rs.Memory(memories[arg].desc, CPU, data)
        _is_refused(made, memories, "read-only")


def test_what_is_written_lies_apart(made):
    """Each pair of memories of which one is written: one begins where the other does, or 4 bytes later."""
    case, pd, _ = made
    written = (pd._writes(), *pd._implementation().outputs())
    for arg in written:
        for other in _memories(pd):
            if other == arg:
                continue
            for shift in (0, 4):
                memories = _memories(pd)
                first, second = memories[arg].desc, memories[other].desc
                is_in_place = shift == 0 and arg == pd._writes() and other in case.in_place
                if is_in_place:
                    continue
                storage = np.ones(max(first.size, second.size + shift) // 4 + 1, np.float32).view(np.uint8)
                memories[arg] = rs.Memory(first, CPU, storage)
                memories[other] = rs.Memory(second, CPU, storage[shift:])
                _is_refused(made, memories, "overlap")


def test_in_place_gives_what_it_gives_apart(made):
    case, pd, primitive = made
    stream = rs.Stream(CPU)
    draw = np.random.default_rng(0)
    for arg in case.in_place:
        results = []
        values = {
            each: draw.uniform(0.5, 1.5, md.size // 4).astype(np.float32)
            for each, md in pd._exec_args().items()
            if md.data_type is rs.DataType.f32
        }
        for shared in (False, True):
            memories = _memories(pd)
            for each, data in values.items():
                if each not in (pd._writes(), *pd._implementation().outputs()):
                    _bytes(memories[each])[:] = data.view(np.uint8)
            if shared:
                memories[pd._writes()] = rs.Memory(memories[arg].desc, CPU, memories[arg].data)
            primitive.execute(stream, memories)
            stream.wait()
            results.append(_bytes(memories[pd._writes()]).tobytes())
        assert results[0] == results[1]


# --- descriptors and hints ----------------------------------------------------------------------------------

_OPEN, _OPEN_HALF = any_like(_MD), any_like(_HALF)


def _forward_norm(name: str, *own: Any) -> Callable[[Any, Any], Any]:
    pd = getattr(rs, f"{name}Forward").PrimitiveDesc
    return lambda src, dst: pd(CPU, "forward_training", src, dst, *own, 1e-3, _FLAGS)


# Descriptors of an open source, whose format follows from nothing.
OPEN_SOURCES: dict[str, Callable[[], Any]] = {
    "eltwise": lambda: rs.EltwiseForward.PrimitiveDesc(CPU, "forward", "eltwise_tanh", _OPEN, _MD),
    "binary": lambda: rs.Binary.PrimitiveDesc(CPU, "binary_add", _OPEN, _MD, _MD),
    "pooling": lambda: rs.PoolingForward.PrimitiveDesc(
        CPU, "forward_training", "pooling_max", _OPEN, _HALF, *_WINDOWS
    ),
    "batch": lambda: _forward_norm("BatchNormalization")(_OPEN, _MD),
    "layer": lambda: _forward_norm("LayerNormalization", _ROWS)(_OPEN, _MD),
    "group": lambda: _forward_norm("GroupNormalization", 3)(_OPEN, _MD),
    "lrn": lambda: rs.LRNForward.PrimitiveDesc(
        CPU, "forward_training", "lrn_across_channels", _OPEN, _MD, 3, 0.1, 0.75
    ),
    "softmax": lambda: rs.SoftmaxForward.PrimitiveDesc(
        CPU, "forward_training", "softmax_accurate", _OPEN, _MD, 1
    ),
    "prelu": lambda: rs.PReLUForward.PrimitiveDesc(CPU, "forward_training", _OPEN, _PER_CHANNEL, _MD),
    "reduction": lambda: rs.Reduction.PrimitiveDesc(CPU, "reduction_sum", _OPEN, _PER_CHANNEL),
    "resampling": lambda: rs.ResamplingForward.PrimitiveDesc(
        CPU, "forward_training", "resampling_linear", _OPEN_HALF, _MD
    ),
}


@pytest.mark.parametrize("name", OPEN_SOURCES)
def test_a_source_has_a_format(name):
    with refused("has no format"):
        OPEN_SOURCES[name]()


def _backward_norm(name: str, *own: Any) -> Callable[..., Any]:
    pd = getattr(rs, f"{name}Backward").PrimitiveDesc
    return lambda md, hint: pd(CPU, "backward", md, md, _MD, *own, 1e-3, _FLAGS, hint_pd=hint)


# Gradients of tensors like one, with a hint.
GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "eltwise": lambda md, hint: rs.EltwiseBackward.PrimitiveDesc(
        CPU, "eltwise_tanh", md, md, _MD, hint_pd=hint
    ),
    "pooling": lambda md, hint: rs.PoolingBackward.PrimitiveDesc(
        CPU, "pooling_max", md, _OPEN_HALF if md is _OPEN else _HALF, *_WINDOWS, hint_pd=hint
    ),
    "batch": _backward_norm("BatchNormalization"),
    "layer": _backward_norm("LayerNormalization", _ROWS),
    "group": _backward_norm("GroupNormalization", 3),
    "lrn": lambda md, hint: rs.LRNBackward.PrimitiveDesc(
        CPU, "lrn_across_channels", md, md, _MD, 3, 0.1, 0.75, hint_pd=hint
    ),
    "softmax": lambda md, hint: rs.SoftmaxBackward.PrimitiveDesc(
        CPU, "softmax_accurate", md, md, _MD, 1, hint_pd=hint
    ),
    "prelu": lambda md, hint: rs.PReLUBackward.PrimitiveDesc(
        CPU, _MD, _PER_CHANNEL, md, _PER_CHANNEL, md, hint_pd=hint
    ),
    "resampling": lambda md, hint: rs.ResamplingBackward.PrimitiveDesc(
        CPU, "resampling_linear", _OPEN_HALF if md is _OPEN else _HALF, md, hint_pd=hint
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_hint_is_of_the_forward_problem(name):
    hint = CASES[name].pd()
    assert GRADIENTS[name](_MD, hint)
    assert GRADIENTS[name](_OPEN, hint)
    others = [_reduction(), _binary(), GRADIENTS[name](_MD, hint), rs.Memory(_MD, CPU), 7, "hint"]
    for other in (*others, *(CASES[each].pd() for each in GRADIENTS if each != name)):
        with refused("hint_pd is not a hint"):
            GRADIENTS[name](_MD, other)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_have_the_dims_of_forward(name):
    for md in (_HALF, rs.MemoryDesc((2, 3, 4, 6), "f32", "abcd"), _ROWS):
        with refused():
            GRADIENTS[name](md, CASES[name].pd())
