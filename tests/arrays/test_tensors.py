"""Tensors of other frameworks over the same bytes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import restride as rs
from support.errors import refused


class Exporter:
    """An object that knows DLPack alone."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_what_exports_dlpack_is_read():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(rs.concat([Exporter(x), x]), np.concatenate([x, x]))
    np.testing.assert_array_equal(rs.add_n([x, Exporter(x)]), 2 * x)
    with refused("concat: array 0 cannot be read"):
        rs.concat([Exporter(np.array(["text"]))])


class Lazy:
    """As Dask has an array: `__array__` would compute it. `graph` is None where it is computed."""

    def __init__(self, graph):
        self.__dask_graph__ = lambda: graph

    def __array__(self, dtype=None, copy=None):
        return np.ones((2, 2), np.float32)


@pytest.mark.parametrize("call", [lambda x: rs.reorder(x, "ba"), lambda x: rs.matmul(x, x), rs.softmax])
def test_an_array_of_dask_is_not_computed_silently(call):
    with refused("x cannot be read", "x.compute()", "rs.dask.reorder"):
        call(Lazy({}))
    call(Lazy(None))


def test_torch_is_not_imported():
    assert "torch" not in sys.modules or sys.modules["torch"] is not None


@pytest.mark.peer
@pytest.mark.parametrize(
    "name", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "float8_e4m3fn", "bool"]
)
def test_torch_in_torch_out(name):
    torch = pytest.importorskip("torch")
    kind = getattr(torch, name)
    x, y = torch.arange(24).reshape(2, 3, 4).to(kind), torch.ones(2, 5, 4).to(kind)
    made = rs.concat([x, y], 1)
    assert isinstance(made, torch.Tensor)
    assert made.dtype is kind
    bits = torch.uint8 if kind.itemsize == 1 else kind
    assert torch.equal(made.view(bits), torch.cat([x.view(bits), y.view(bits)], 1))


@pytest.mark.peer
def test_hints_name_a_function_that_gradients_flow_through_where_there_is_one():
    torch = pytest.importorskip("torch")
    import restride.torch

    x = torch.ones(2, 4, 6, 6, requires_grad=True)
    calls = {
        "softmax": lambda: rs.softmax(x),
        "layer_norm": lambda: rs.layer_norm(x),
        "pool": lambda: rs.pool(x, 2),
        "reorder": lambda: rs.reorder(x, "nhwc"),
        "shuffle": lambda: rs.shuffle(x, group_size=2),
        "shuffle_channels": lambda: rs.shuffle_channels(x, group=2),
        "channel_shuffle": lambda: rs.channel_shuffle(x, 2),
        "group_norm": lambda: rs.group_norm(x, 2),
        "batch_norm": lambda: rs.batch_norm(x, torch.zeros(4), torch.ones(4)),
        "normalize": lambda: rs.normalize(x, 0.5, 0.5),
        "concat": lambda: rs.concat([x, x]),
    }
    for name, call in calls.items():
        with pytest.raises(rs.InvalidArguments) as caught:
            call()
        assert caught.value.hint.startswith("pass x.detach()")
        assert (f"restride.torch.{name}" in caught.value.hint) == hasattr(restride.torch, name), name


def test_torch_layouts_out_and_errors():
    torch = pytest.importorskip("torch")
    x = torch.rand(2, 8, 5, 3).contiguous(memory_format=torch.channels_last)
    made = rs.concat([x, x], 1)
    assert made.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(made, torch.cat([x, x], 1))
    out = torch.empty(2, 8, 5, 3)
    assert rs.add_n([x, x, x], out=out) is out
    assert torch.equal(out, x + x + x)
    blocked = rs.concat([x, x], 1, "nChw16c")
    assert isinstance(blocked, rs.Memory)
    with refused("array 1 cannot be read", "pass x.detach()"):
        rs.concat([x, torch.ones(2, 8, 5, 3, requires_grad=True)])
    with refused("arrays is not a list", "pass [x]"):
        rs.concat(x)
    assert torch.equal(rs.concat([torch.arange(3)]), torch.arange(3))
