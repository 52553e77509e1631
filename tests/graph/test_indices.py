"""Operators on indices in models, beside what NumPy and torch make of the same calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
import restride.onnx
from support.errors import refused


def _model(operator: str, inputs: dict[str, tuple[str, tuple[int, ...]]], **attributes: Any) -> Any:
    onnx = pytest.importorskip("onnx")
    kinds = {"f32": onnx.TensorProto.FLOAT, "s64": onnx.TensorProto.INT64, "s32": onnx.TensorProto.INT32}
    read = [
        onnx.helper.make_tensor_value_info(name, kinds[kind], dims) for name, (kind, dims) in inputs.items()
    ]
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    node = onnx.helper.make_node(operator, list(inputs), ["y"], **attributes)
    return onnx.helper.make_model(onnx.helper.make_graph([node], "g", read, [out]))


def test_indices_of_a_run() -> None:
    network = restride.onnx.load(_model("Gather", {"x": ("f32", (9, 4)), "i": ("s64", (2, 3))}))
    x = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    for seed in range(3):
        at = np.random.default_rng(seed).integers(-9, 9, (2, 3))
        np.testing.assert_array_equal(network({"x": x, "i": at}), x[at])


def test_known_indices_outside_are_refused_whoever_reads_them() -> None:
    onnx = pytest.importorskip("onnx")
    x = {"x": ("f32", (3, 4))}
    far, update = np.array([[0], [50]]), np.zeros((2, 1), np.float32)
    cases: dict[str, dict[str, Any]] = {
        "Gather": {"i": far},
        "GatherElements": {"i": far},
        "GatherND": {"i": far},
        "ScatterElements": {"i": far, "u": update},
        "ScatterND": {"i": far, "u": np.zeros((2, 4), np.float32)},
    }
    for operator, known in cases.items():
        made = _model(operator, x)
        made.graph.node[0].input.extend(known)
        made.graph.initializer.extend(
            onnx.numpy_helper.from_array(array, name) for name, array in known.items()
        )
        network = restride.onnx.load(made)
        with refused(operator, "index 50 is out of range for a dim of 3", "node"):
            network(np.ones((3, 4), np.float32))
        known["i"][1] = -3
        made.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(known["i"], "i"))
        restride.onnx.load(made)(np.ones((3, 4), np.float32))
        known["i"][1] = 50


def test_an_input_with_an_index_out_of_range_is_refused(tmp_path: Path) -> None:
    index, x = ("s64", (2, 2)), np.arange(30, dtype=np.float32).reshape(5, 6)
    cases: dict[str, Any] = {
        "Gather": lambda x, at: x[:, at],
        "GatherElements": lambda x, at: np.take_along_axis(x[:2], at, 1),
        "GatherND": lambda x, at: x[at[:, 0], at[:, 1]],
    }
    for operator, run in cases.items():
        axis = {} if operator == "GatherND" else {"axis": 1}
        network = restride.onnx.load(_model(operator, {"x": ("f32", (5, 6)), "i": index}, **axis))
        network.save(tmp_path / "network")
        for net in network, rs.Network.load(tmp_path / "network"):
            for last in (5, -6, 6, -7):
                at = np.array([[0, 1], [2, last]])
                if -6 <= last < 6:
                    np.testing.assert_array_equal(net({"x": x, "i": at}), run(x, at))
                    continue
                with pytest.raises(IndexError):
                    run(x, at)
                with refused("'i'", f"index {last}", "-6 to 5"):
                    net({"x": x, "i": at})


@pytest.mark.peer
def test_token_ids_that_torch_refuses_are_refused_also_from_a_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    rt = pytest.importorskip("restride.torch")

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = torch.nn.Embedding(10, 8), torch.nn.Embedding(4, 8)

        def forward(self, ids: Any) -> Any:
            return self.words(ids[..., 0].int()) + self.places(ids[..., 1].clone().flatten()).view(1, 2, 8)

    ids, module = torch.tensor([[[9, 3], [0, 0]]]), Module().eval()
    compiled = rt.compile_module(module, ids)
    compiled.save(tmp_path / "network")
    for call in compiled, rs.Network.load(tmp_path / "network"):
        torch.testing.assert_close(call(ids), module(ids))
        for wrong in ([10, 3], [9, 4], [-1, 0], [0, -1]):
            bad = torch.tensor([[wrong, [0, 0]]])
            with pytest.raises(IndexError):
                module(bad)
            with refused("'ids'", "index"):
                call(bad)


def test_what_depends_on_values_is_refused_by_name() -> None:
    for operator in ("NonZero", "Unique"):
        with refused(operator, kind=rs.Unimplemented):
            restride.onnx.load(_model(operator, {"x": ("f32", (3, 4))}))


def test_functions_on_arrays() -> None:
    x = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
    at = np.array([[0, 2, 1, 4, 3]] * 4)
    np.testing.assert_array_equal(rs.ops.GatherElements(x, at, axis=1), np.take_along_axis(x, at, 1))
    np.testing.assert_array_equal(rs.ops.CumSum(x, 1), np.cumsum(x, 1, dtype=np.float32))
    np.testing.assert_array_equal(rs.ops.ArgMax(x, axis=1), np.argmax(x, 1)[:, None])
    np.testing.assert_array_equal(rs.ops.Tile(x, (2, 3)), np.tile(x, (2, 3)))
    values, places = rs.ops.TopK(x, 2, outputs=2)
    np.testing.assert_array_equal(values, -np.sort(-x, 1)[:, :2])
    np.testing.assert_array_equal(places, np.argsort(-x, 1, kind="stable")[:, :2])


_X, _ROWS = (4, 6), (3, 6)
_CALLS = {
    "embedding": lambda torch, x, at: torch.nn.functional.embedding(at, x),
    "gather": lambda torch, x, at: x.gather(0, at),
    "index_select": lambda torch, x, at: x.index_select(0, at[0]),
    "index of one": lambda torch, x, at: x[:, at],
    "index of two": lambda torch, x, at: x[at, at.flip(1)],
    "index apart": lambda torch, x, at: x[None].repeat(2, 1, 1)[at[0] % 2, :, at[1]],
    "take_along_dim": lambda torch, x, at: torch.take_along_dim(x, at, 0),
    "scatter": lambda torch, x, at: x.scatter(0, at, torch.ones(3, 6)),
    "scatter of a number": lambda torch, x, at: x.scatter(0, at, 2.0),
    "scatter_add": lambda torch, x, at: x.scatter_add(0, at, torch.ones(3, 6)),
    **{
        f"scatter_reduce {word} {include}": (
            lambda torch, x, at, word=word, include=include: x.scatter_reduce(
                0, at, x[:3] + 1, word, include_self=include
            )
        )
        for word in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    },
    "index_add": lambda torch, x, at: x.index_add(0, at[0, :3], torch.ones(3, 6), alpha=2),
    "index_put": lambda torch, x, at: x.index_put((at[0],), torch.ones(6)),
    "index_put that adds": lambda torch, x, at: x.index_put((at[0], at[1]), torch.ones(6), accumulate=True),
    "cumsum": lambda torch, x, at: x.cumsum(1),
    "cumprod": lambda torch, x, at: x.cumprod(0),
    "cumsum of integers": lambda torch, x, at: at.cumsum(1),
    "argmax": lambda torch, x, at: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)),
    "max": lambda torch, x, at: (*x.max(1), *x.min(0, keepdim=True), x.max()),
    "topk": lambda torch, x, at: x.topk(3, 1),
    "sort": lambda torch, x, at: (*x.sort(1), *x.sort(0, descending=True), x.argsort(1)),
    "tril": lambda torch, x, at: (x.tril(), x.triu(1), x.tril(-2)),
    "repeat": lambda torch, x, at: x.repeat(2, 1, 3),
}


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", _CALLS)
def test_modules_of_torch(call: str) -> None:
    torch = pytest.importorskip("torch")
    rt = pytest.importorskip("restride.torch")

    class Module(torch.nn.Module):
        def forward(self, x: Any, at: Any) -> Any:
            return _CALLS[call](torch, x, at)

    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(_X, generator=generator), torch.randint(0, 4, _ROWS, generator=generator)
    module = Module().eval()
    found, wanted = rt.compile_module(module, inputs)(*inputs), module(*inputs)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for one, other in pairs:
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other)
