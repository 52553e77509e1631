"""Networks in files: the same plan and bytes after loading, other machines, damaged files."""

from __future__ import annotations

import copy
import json
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.graph.graph import Constant
from restride.graph.network import stored_graph
from restride.graph.network.inputs import NetworkInput
from restride.graph.nodes import operations
from restride.graph.nodes.recurrent import RecurrentOperation

Array = np.ndarray
_HEAD = struct.Struct("<16sIIQ32s")
SAME = rs.graph.ConvolutionOperation((1, 1), (0, 0), (1, 1), (1, 1))


def values(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *dims)).standard_normal(dims).astype(np.float32)


X = values(2, 20, 6, 7)


def small_graph(seed: int = 0) -> rs.graph.Graph:
    """Convolutions, a function, a sum and a pooling: weights that are packed, and a bias as it is."""
    builder = rs.graph.GraphBuilder()
    x = builder.input("x", X.shape)
    weights = builder.constant(values(20, 20, 3, 3, seed=seed), "w")
    y = builder.add(SAME, x, weights, builder.constant(values(20, seed=seed), "b"))
    y = builder.add(rs.graph.EltwiseOperation("eltwise_relu"), y)
    y = builder.add(SAME, y, weights)
    y = builder.add(rs.graph.SumOperation((1.0, 0.5)), y, x)
    pool = rs.graph.PoolingOperation("pooling_max", (2, 2), (2, 2), (0, 0), (0, 0), (0, 0))
    return builder.graph(builder.add(pool, y, name="y"))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "small.net"
    rs.Network(small_graph()).save(path)
    return path


@pytest.mark.parametrize("rule", ["plain", "greedy", "optimal"])
def test_a_loaded_network_has_the_same_plan_and_gives_the_same_bytes(tmp_path: Path, rule: str) -> None:
    net = rs.Network(small_graph(), rule=rule)
    net.save(tmp_path / "a.net")
    loaded = rs.Network.load(str(tmp_path / "a.net"))
    assert (loaded.rule, loaded.inputs, loaded.outputs) == (rule, net.inputs, net.outputs)
    assert loaded(X).tobytes() == net(X).tobytes()
    assert str(loaded.explain()) == str(net.explain())
    assert loaded.plan().graph == net.plan().graph


def test_networks_can_be_pickled_and_copied(saved: Path) -> None:
    net = rs.Network(small_graph(), rule="greedy", without=rs.graph.FUSIONS[:1])
    expected = net(X).tobytes()
    for again in (pickle.loads(pickle.dumps(net)), copy.copy(net), copy.deepcopy(net)):
        assert (again.rule, again.inputs, again.outputs) == ("greedy", net.inputs, net.outputs)
        assert again(X).tobytes() == expected
    loaded = rs.Network.load(saved)
    assert pickle.loads(pickle.dumps(loaded))(X).tobytes() == loaded(X).tobytes()
    with pytest.raises(rs.Unimplemented, match="cannot be pickled"):
        pickle.dumps(loaded.with_rule("plain"))


def test_a_network_of_a_model_is_pickled_with_its_tensors(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    weights = onnx.numpy_helper.from_array(values(4, 20, 1, 1), "w")
    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph(
        [node], "g", [info("x", 1, ["n", *X.shape[1:]])], [info("y", 1, None)], [weights]
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.helper.make_model(graph, ir_version=9).SerializeToString())
    net = rs.onnx.load(path)
    text = pickle.dumps(net)
    expected = net(X)
    path.unlink()
    np.testing.assert_array_equal(pickle.loads(text)(X), expected)


def test_another_process_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    code = (
        "import sys, numpy as np, restride as rs\n"
        "net = rs.Network.load(sys.argv[1])\n"
        "np.save(sys.argv[3], net(np.load(sys.argv[2])))\n"
    )
    paths = [str(saved), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    # Formats are chosen for a number of threads.
    env = os.environ | {"RESTRIDE_NUM_THREADS": str(rs.get_num_threads())}
    subprocess.run([sys.executable, "-c", code, *paths], check=True, timeout=120, env=env)
    assert np.load(tmp_path / "y.npy").tobytes() == rs.Network(small_graph())(X).tobytes()


def test_packed_constants_are_mapped_and_not_made_again(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "restride.graph.network.prepacking.Reorder.execute", lambda *_: pytest.fail("made again")
    )
    loaded = rs.Network.load(saved)
    assert loaded(X).shape == (2, 20, 3, 3)


def test_what_a_machine_wants_in_another_format_is_made_of_the_plain_constants(saved: Path) -> None:
    def without_packed(header: dict[str, Any]) -> None:
        header["prepacked"] = []

    rewrite(saved, without_packed)
    assert rs.Network.load(saved)(X).tobytes() == rs.Network(small_graph())(X).tobytes()
    assert rs.Network.load(saved).with_rule("plain")(X).shape == (2, 20, 3, 3)


def test_what_propagation_chose_is_not_searched_again(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = rs.Network(small_graph())
    wanted = net(X), str(net.explain())
    monkeypatch.setattr("restride.graph.network.plan.propagate", lambda *_: pytest.fail("searched again"))
    loaded = rs.Network.load(saved)
    assert loaded(X).tobytes() == wanted[0].tobytes()
    assert str(loaded.explain()) == wanted[1]


def test_what_another_machine_chose_is_made_anew(saved: Path) -> None:
    rewrite(saved, lambda header: header.update(machine=["another"]))
    assert rs.Network.load(saved)(X).tobytes() == rs.Network(small_graph())(X).tobytes()


def test_dims_that_were_saved_run_and_others_are_refused_by_name(tmp_path: Path) -> None:
    def graph(dims: Any) -> rs.graph.Graph:
        builder = rs.graph.GraphBuilder()
        x = builder.input("x", dims["x"])
        return builder.graph(builder.add(rs.graph.EltwiseOperation("eltwise_relu"), x, name="y"))

    net = rs.Network.of_source([NetworkInput("x", (None, None), rs.f32)], ["y"], graph)
    net(values(3, 2)), net(values(5, 2))
    net.save(tmp_path / "both.net")
    loaded = rs.Network.load(tmp_path / "both.net")
    for n in (3, 5):
        assert np.array_equal(loaded(values(n, 2)), np.maximum(values(n, 2), 0))
    with pytest.raises(rs.InvalidArguments, match="3x2; 5x2") as caught:
        loaded(values(3, 4))
    assert caught.value.code == "RS-G15"
    net.save(tmp_path / "one.net", (7, 2))
    assert rs.Network.load(tmp_path / "one.net")(values(7, 2)).shape == (7, 2)


def batched(x: Array, bias: Array) -> Array:
    """Compute the network of `open_network`: images in two halves, transposed, added up and biased."""
    rows = np.maximum(x, 0).reshape(2 * len(x), 6).reshape(len(x), 2, 6).transpose(0, 2, 1)
    return (rows.sum(2) + bias).astype(np.float32)


ROWS: dict[str, Callable[[int], Array]] = {
    "none": lambda n: np.zeros((1, 1)),
    "alike": lambda n: np.ones((n, 1)),
    "numbers": lambda n: np.arange(n)[:, None],
}
OTHER_ROWS: dict[str, Callable[[int], Array]] = {
    "the batch": lambda n: np.full((1, 1), n),
    "the batch in each": lambda n: np.full((n, 1), n),
    "from the last": lambda n: np.arange(n)[::-1, None],
    "parts": lambda n: np.arange(n)[:, None] / n,
}


def open_network(cut: int = 10**9, rows: Callable[[int], Array] = ROWS["none"]) -> rs.Network:
    """Reshapes with the batch in them; `cut` rows are kept at most, the bias may have `rows` of the batch."""
    graph = rs.graph

    def source(dims: Any) -> rs.graph.Graph:
        (n, *_), builder = dims["x"], rs.graph.GraphBuilder()
        y = builder.add(graph.EltwiseOperation("eltwise_relu"), builder.input("x", dims["x"]))
        y = builder.add(graph.PadOperation((0, 0, 1), (0, 0, 1), 0.0), y)
        y = builder.add(graph.SliceOperation((0, 0, 1), (min(n, cut), 3, 4), (1, 1, 1)), y)
        y = builder.add(graph.ReshapeOperation((2 * min(n, cut), 6)), y)
        y = builder.add(graph.ReshapeOperation((min(n, cut), 2, 6)), y)
        y = builder.add(graph.TransposeOperation((0, 2, 1)), y)
        y = builder.add(graph.ReductionOperation("reduction_sum", (2,)), y)
        bias = (BIAS + rows(n)).astype(np.float32).reshape(-1, 6, 1)
        y = builder.add(graph.BinaryOperation("binary_add"), y, builder.constant(bias))
        return builder.graph(builder.add(graph.ReshapeOperation((min(n, cut), 6)), y, name="y"))

    return rs.Network.of_source(
        [NetworkInput("x", (None, 3, 4), rs.f32)], ["y"], source, is_linear=lambda asked: True
    )


BIAS = values(6)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("saved_for", [1, 2, 7, 1024, 3000])
def test_a_file_of_an_open_batch_is_prepared_and_serves_other_batches(
    tmp_path: Path, saved_for: int, rows: str
) -> None:
    net = open_network(rows=ROWS[rows])
    net.save(tmp_path / "a.net", (saved_for, 3, 4))
    for path in ("a.net", "b.net"):
        loaded = rs.Network.load(tmp_path / path)
        loaded.prepare()
        loaded.prepare({"x": (saved_for, 3, 4)})
        assert str(loaded.explain()) == str(net.explain((saved_for, 3, 4)))
        for n in (saved_for, 1, 2, 5, 1024):
            assert np.allclose(
                loaded(values(n, 3, 4)), batched(values(n, 3, 4), BIAS + ROWS[rows](n)), rtol=1e-6, atol=1e-5
            )
        with pytest.raises(rs.InvalidArguments, match=f"batches of 1 to {max(saved_for, 1024)} of these"):
            loaded(values(max(saved_for, 1024) + 1, 3, 4))
        rs.Network.load(tmp_path / "a.net").save(tmp_path / "b.net")
    assert (tmp_path / "b.net").read_bytes() == (tmp_path / "a.net").read_bytes()


def test_dims_by_name_are_those_of_all_inputs_and_open_ones_have_to_be_told() -> None:
    net = open_network()
    assert str(net.explain({"x": (2, 3, 4)})) == str(net.explain((2, 3, 4)))
    for dims, words in [
        ((), "in order or in a dict by name"),
        (({"y": (2, 3, 4)},), "'x'"),
        (({"x": 2},), "integers"),
    ]:
        with pytest.raises(rs.InvalidArguments, match=words):
            net.prepare(*dims)


@pytest.mark.parametrize(
    "how", [{"cut": 4}, {"cut": 1000}, *({"rows": rows} for rows in OTHER_ROWS.values())]
)
def test_a_graph_that_changes_otherwise_with_the_batch_is_saved_for_its_own_alone(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    net = open_network(**how)
    net.save(tmp_path / "a.net", (2, 3, 4))
    loaded = rs.Network.load(tmp_path / "a.net")
    assert np.array_equal(loaded(values(2, 3, 4)), net(values(2, 3, 4)))
    with pytest.raises(rs.InvalidArguments, match=r"saved for 2x3x4\n"):
        loaded(values(3, 3, 4))


def test_constants_of_other_batches_are_stored_once(tmp_path: Path) -> None:
    net = open_network()
    net.save(tmp_path / "a.net", (2, 3, 4))
    found: list[dict[str, Any]] = []
    rewrite(tmp_path / "a.net", found.append)
    assert len(found[0]["batches"]) == 1
    assert sum(each["dims"] == [1, 6, 1] for each in found[0]["constants"]) == 1


def test_rows_that_are_alike_are_stored_as_one(tmp_path: Path) -> None:
    """Here of a graph that is another for a batch of 1."""
    graph = rs.graph

    def source(dims: Any) -> rs.graph.Graph:
        (n, _), builder = dims["x"], rs.graph.GraphBuilder()
        x = builder.input("x", dims["x"])
        if n > 1:
            x = builder.add(graph.EltwiseOperation("eltwise_relu"), x)
        ones = builder.constant(np.ones((n, 4), np.float32))
        return builder.graph(builder.add(graph.BinaryOperation("binary_add"), x, ones, name="y"))

    inputs = [NetworkInput("x", (None, 4), rs.f32)]
    net = rs.Network.of_source(inputs, ["y"], source, is_linear=lambda asked: True, largest=8)
    net.save(tmp_path / "a.net", (3, 4))
    loaded, found = rs.Network.load(tmp_path / "a.net"), list[dict[str, Any]]()
    for n in range(1, 9):
        assert np.array_equal(loaded(-values(n, 4)), net(-values(n, 4)))
    with pytest.raises(rs.InvalidArguments, match="batches of 1 to 8 of these"):
        loaded(values(9, 4))
    rewrite(tmp_path / "a.net", found.append)
    assert sorted(each["dims"] for each in found[0]["constants"]) == [[1, 4], [3, 4]]


def test_a_loaded_network_keeps_the_plans_that_it_has_not_run(tmp_path: Path) -> None:
    net = open_network(cut=4)
    net(values(2, 3, 4)), net(values(3, 3, 4))
    net.save(tmp_path / "a.net")
    loaded = rs.Network.load(tmp_path / "a.net")
    loaded(values(3, 3, 4))
    loaded.save(tmp_path / "a.net")
    assert rs.Network.load(tmp_path / "a.net")(values(2, 3, 4)).shape == (2, 6)


def test_a_loaded_network_is_saved_to_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    rs.Network.load(saved).save(tmp_path / "again.net")
    assert (tmp_path / "again.net").read_bytes() == saved.read_bytes()


def test_a_network_may_be_saved_over_the_file_that_it_is_mapped_from(saved: Path) -> None:
    before, loaded = saved.read_bytes(), rs.Network.load(saved)
    loaded.save(saved)
    assert saved.read_bytes() == before
    assert loaded(X).shape == (2, 20, 3, 3)


@pytest.mark.parametrize("name", sorted(stored_graph._KINDS))
def test_attributes_of_every_operation_come_back(name: str) -> None:
    kind = stored_graph._KINDS[name]
    examples = {"DataType": rs.bf16, "str": "eltwise_relu", "float": 1e-5, "int": 3, "bool": True}
    attributes = {each.name: examples.get(str(each.type), (1, 2)) for each in fields(kind)}
    if kind is RecurrentOperation:
        # It knows its words.
        attributes = {"cell": "vanilla_rnn", "direction": "concat", "activation": "relu"}
    if kind is operations.PrimitiveOperation:
        values = tuple(examples.values())
        attributes = {
            "primitive": "Elementwise",
            "parameters": (("algorithm", "elementwise_mod"), ("a", values)),
        }
    made = kind(**attributes)  # type: ignore[arg-type]
    stored = json.loads(json.dumps(stored_graph._operation_values(made)))
    assert stored_graph._operation(stored) == made
    assert issubclass(kind, operations.Operation)


def test_numbers_come_back_to_the_bit() -> None:
    made = rs.graph.EltwiseOperation("eltwise_linear", float(np.float32(0.1)), -1e-300)
    stored = json.loads(json.dumps(stored_graph._operation_values(made)))
    assert stored_graph._operation(stored) == made


# --- damaged files ------------------------------------------------------------------------------------------


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Another header, with a checksum that fits, in front of the same tensors."""
    data = path.read_bytes()
    magic, version, zero, nbytes, _ = _HEAD.unpack_from(data)
    begin = -(-(_HEAD.size + nbytes) // 64) * 64
    header = json.loads(data[_HEAD.size : _HEAD.size + nbytes])
    change(header)
    text = json.dumps(header).encode()
    head = _HEAD.pack(magic, version, zero, len(text), sha256(text).digest()) + text
    path.write_bytes(head + bytes(-len(head) % 64) + data[begin:])


def refused(path: Path) -> str:
    """Loading and running ends in an error of restride's that names the file or the node."""
    with pytest.raises(rs.Error) as caught:
        rs.Network.load(path)(X)
    # A service must not take a damaged file for a wrong request.
    assert isinstance(caught.value, rs.RuntimeFailure) == (caught.value.code in ("RS-F10", "RS-F02"))
    return caught.value.code


@pytest.mark.parametrize("part", [0, 1, 16, 63, 64, 200, 0.3, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_refused(saved: Path, part: float) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[: part if isinstance(part, int) else int(part * len(data))])
    assert refused(saved) == ("RS-F10" if part not in (0, 1, 16, 63, 64, 200) else refused(saved))


@pytest.mark.parametrize("at", [0, 16, 20, 24, 30, 70, 500])
def test_a_changed_byte_of_head_or_header_is_refused(saved: Path, at: int) -> None:
    data = bytearray(saved.read_bytes())
    data[at] ^= 0x41
    saved.write_bytes(data)
    assert refused(saved) in ("RS-F10", "RS-F01")


def test_a_changed_byte_of_a_tensor_that_is_read_is_refused(saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    (nbytes,) = struct.unpack_from("<Q", data, 24)
    data[-(-(_HEAD.size + nbytes) // 64) * 64 + 5] ^= 1
    saved.write_bytes(data)
    assert refused(saved) == "RS-F10"


def _set(*keys: Any) -> Callable[[dict[str, Any]], None]:
    *path, last, value = keys

    def change(header: Any) -> None:
        for key in path:
            header = header[key]
        if value is _set:
            del header[last]
        else:
            header[last] = value

    return change


NODE = ("plans", 0, "graph", "nodes", 0)
CHANGES = {
    "another rule": _set("rule", "fastest"),
    "no formats": _set("plans", 0, "chosen", "steps", []),
    "formats that are not there": _set("plans", 0, "chosen", "steps", 0, 0, [99]),
    "formats of other tensors": _set(
        "plans", 0, "chosen", "formats", 0, rs.MemoryDesc((1, 2), "f32").to_dict()
    ),
    "formats of other types": _set("plans", 0, "chosen", "formats", 0, "data_type", "f64"),
    "a time below 0": _set("plans", 0, "chosen", "steps", 0, 2, -1.0),
    "a time that is none": _set("plans", 0, "chosen", "steps", 0, 2, "soon"),
    "no machine": _set("machine", _set),
    "no rule": _set("rule", _set),
    "no plans": _set("plans", _set),
    "plans that are a number": _set("plans", 3),
    "tensors far away": _set("tensors", 0, "start", 1 << 60),
    "tensors before the file": _set("tensors", 0, "start", -64),
    "tensors between": _set("tensors", 0, "start", 4),
    "tensors of no size": _set("tensors", 0, "nbytes", "many"),
    "a tensor that is not there": _set("constants", 0, "tensor", 99),
    "larger constants": _set("constants", 0, "dims", [20, 20, 3, 4]),
    "negative dims": _set("constants", 0, "dims", [-20, -20, 3, 3]),
    "another type": _set("constants", 0, "data_type", "f33"),
    "a type of other bytes": _set("constants", 0, "data_type", "f64"),
    "another tensor in a format": _set("prepacked", 0, "tensor", 1),
    "a format that does not hold": _set("prepacked", 0, "md", {"dims": [1]}),
    "an operation that is not there": _set(*NODE, "kind", "exec"),
    "other attributes": _set(*NODE, "attributes", {"strides": [1, 1]}),
    "attributes of another type": _set(*NODE, "attributes", "strides", "11"),
    "a stride of 0": _set(*NODE, "attributes", "strides", [0, 0]),
    "a cycle": _set(*NODE, "inputs", 0, "y"),
    "names that are numbers": _set(*NODE, "inputs", 0, 7),
    "other inputs": _set("plans", 0, "graph", "inputs", []),
    "more outputs": _set("outputs", ["y", "z"]),
    "other dims": _set("plans", 0, "graph", "types", "x", "dims", [2, 20, 6, 8]),
    "no epilogues": _set(*NODE, "epilogues", None),
    "an epilogue that is none": _set(*NODE, "epilogues", [{"kind": "softmax", "attributes": {}}]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_header_that_does_not_hold_is_refused(saved: Path, name: str) -> None:
    rewrite(saved, CHANGES[name])
    assert refused(saved) in ("RS-F10", "RS-G01", "RS-G15")


FORM = ("batches", 0)
BATCHES = {
    "a largest that is a word": _set(*FORM, "largest", "many"),
    "a largest of 1": _set(*FORM, "largest", 1),
    "a largest below 1": _set(*FORM, "largest", -1),
    "no places": _set(*FORM, "places", []),
    "a place that is not there": _set(*FORM, "places", [7]),
    "no dims": _set(*FORM, "dims", [[]]),
    "one end": _set(*FORM, "ends", FORM[1], _set),
    "fewer nodes": _set(*FORM, "ends", 1, "nodes", []),
    "another type": _set(*FORM, "ends", 1, "types", "x", "data_type", "s8"),
    "another input": _set(*FORM, "ends", 0, "types", "x", "dims", [1, 3, 5]),
    "constants that are not there": _set(*FORM, "ends", 0, "constants", {"constant": 99}),
    "a form that is none": _set("batches", [3]),
    "rows of a constant that is not there": _set(*FORM, "rows", {"constant": [99, 0, 1, 1024]}),
    "rows of no axis": _set(*FORM, "rows", {"constant": [0, 9, 1, 1024]}),
    "rows that are none": _set(*FORM, "rows", {"constant": [0]}),
    "rows on no line": _set(*FORM, "rows", {"constant": [0, 0, 1, 1000]}),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_header_whose_other_batches_do_not_hold_is_refused(tmp_path: Path, name: str) -> None:
    open_network().save(tmp_path / "a.net", (2, 3, 4))
    rewrite(tmp_path / "a.net", BATCHES[name])
    for use in (lambda net: net(values(5, 3, 4)), lambda net: net.save(tmp_path / "b.net", (5, 3, 4))):
        with pytest.raises(rs.Error) as caught:
            use(rs.Network.load(tmp_path / "a.net"))
        assert caught.value.code in ("RS-F10", "RS-G01", "RS-G15")


def test_a_header_of_many_brackets_is_refused(saved: Path) -> None:
    text = b"[" * 100_000
    head = _HEAD.pack(b"restride network", 1, 0, len(text), sha256(text).digest())
    saved.write_bytes(head + text)
    assert refused(saved) == "RS-F10"


def test_a_failed_save_leaves_the_file_that_was_there(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, net = saved.read_bytes(), rs.Network(small_graph(1))

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(rs.RuntimeFailure):
        net.save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_equal_constants_of_several_plans_are_stored_once(tmp_path: Path) -> None:
    weights = Constant(values(32, 16))

    def graph(dims: Any) -> rs.graph.Graph:
        builder = rs.graph.GraphBuilder()
        x = builder.input("x", dims["x"])
        made = builder.graph(
            builder.add(rs.graph.MatmulOperation(), x, builder.constant(weights.values, "w"))
        )
        return made.replaced(made.nodes, {"w": weights})

    net = rs.Network.of_source([rs.Network(graph({"x": (1, 32)})).inputs[0]], ["matmul"], graph)
    net.save(tmp_path / "one.net")
    header_bytes = 8192
    assert (tmp_path / "one.net").stat().st_size < 2 * weights.values.nbytes + header_bytes


def test_a_constant_in_blocks_is_stored_once_as_it_lies(tmp_path: Path) -> None:
    """Packed weights of 4 bits: the file has these bytes, and none in another order."""
    builder, path = rs.graph.GraphBuilder(), tmp_path / "packed.net"
    q = rs.pack_weights(rs.quantize(values(512, 256), "q4_0").T, fpmath_mode="any")
    operation = rs.graph.QuantizedMatmulOperation(fpmath_mode="any")
    x = builder.input("x", (4, 256))
    product = builder.add(operation, x, builder.constant(q.values), builder.constant(q.scale))
    network, x = rs.Network(builder.graph(product)), values(4, 256, seed=1)
    expected = network(x)
    network.save(path)
    assert (rs.Network.load(path)(x) == expected).all()
    assert path.stat().st_size < q.values.size + q.scale.size + 8192

    def changed(header: dict[str, Any]) -> None:
        header["constants"][0]["md"]["dims"] = [512, 256]

    rewrite(path, changed)
    assert refused(path) == "RS-F10"


def test_a_file_from_before_an_attribute_has_its_default(tmp_path: Path) -> None:
    builder, path = rs.graph.GraphBuilder(), tmp_path / "old.net"
    product = builder.add(
        rs.graph.MatmulOperation(), builder.input("x", (4, 32)), builder.constant(values(32, 8))
    )
    network, x = rs.Network(builder.graph(product)), values(4, 32, seed=1)
    network.save(path)

    def changed(header: dict[str, Any]) -> None:
        (node,) = header["plans"][0]["graph"]["nodes"]
        assert node["attributes"].pop("fpmath_mode") == "strict"

    rewrite(path, changed)
    assert (rs.Network.load(path)(x) == network(x)).all()


def test_constants_of_types_that_numpy_has_not_come_back(tmp_path: Path) -> None:
    builder, path = rs.graph.GraphBuilder(), tmp_path / "codes.net"
    q = rs.quantize(values(64, 128), "nf4", group=32).T
    x = builder.input("x", (2, 128))
    operation = rs.graph.QuantizedMatmulOperation(False)
    product = builder.add(operation, x, builder.constant(q.values), builder.constant(q.scale))
    network = rs.Network(builder.graph(product))
    network.save(path)
    loaded, source = rs.Network.load(path), values(2, 128, seed=1)
    assert str(loaded.plan()) == str(network.plan())
    assert (loaded(source) == network(source)).all()
