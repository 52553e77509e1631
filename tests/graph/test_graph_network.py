"""Networks: every operation against NumPy, by every rule; sizes, threads, kinds of arrays, refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

import restride as rs
from restride.graph import (
    BatchNormalizationOperation,
    BinaryOperation,
    ConcatOperation,
    ConvolutionOperation,
    DeconvolutionOperation,
    EltwiseOperation,
    Epilogue,
    Graph,
    GraphBuilder,
    InnerProductOperation,
    LayerNormalizationOperation,
    LrnOperation,
    MatmulOperation,
    Operation,
    PadOperation,
    PoolingOperation,
    PReluOperation,
    ReductionOperation,
    ReorderOperation,
    ResamplingOperation,
    ReshapeOperation,
    ShuffleOperation,
    SliceOperation,
    SoftmaxOperation,
    SumOperation,
    TransposeOperation,
)
from restride.graph.network.inputs import NetworkInput
from restride.graph.network.running import Runner

Array = np.ndarray
RELU = EltwiseOperation("eltwise_relu")
SAME = ConvolutionOperation((1, 1), (0, 0), (1, 1), (1, 1))
POINT = ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0))
RULES = ("plain", "greedy", "optimal")


def values(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *dims)).standard_normal(dims).astype(np.float32)


def convolved(x: Array, weights: Array, operation: ConvolutionOperation) -> Array:
    """A convolution by its definition, one tap of the window at a time."""
    groups = operation.groups
    weights = weights.reshape(-1, *weights.shape[-3:])
    pads = list(zip(operation.padding_l, operation.padding_r, strict=True))
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    steps = [d + 1 for d in operation.dilates]
    kernel = weights.shape[2:]
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(x.shape[2:], kernel, steps, operation.strides, strict=True)
    ]
    inputs, outputs = x.shape[1] // groups, weights.shape[0] // groups
    made = np.zeros((x.shape[0], weights.shape[0], *sizes))
    for tap in np.ndindex(*kernel):
        window = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, steps, sizes, operation.strides, strict=True)
        ]
        part = x[(slice(None), slice(None), *window)]
        for group in range(groups):
            own = slice(group * inputs, (group + 1) * inputs)
            to = slice(group * outputs, (group + 1) * outputs)
            made[:, to] += np.einsum("nchw,oc->nohw", part[:, own], weights[(to, slice(None), *tap)])
    return made


def pooled(x: Array, kernel: int, stride: int, function: Callable[..., Array]) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))
    return function(windows[:, :, ::stride, ::stride], axis=(4, 5))


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def lrn(x: Array) -> Array:
    squares = np.pad(x.astype(np.float64) ** 2, [(0, 0), (2, 2), (0, 0), (0, 0)])
    total = sum(squares[:, i : i + x.shape[1]] for i in range(5))
    return x / (1 + 1e-2 / 5 * total) ** 0.75


def one_node(operation: Operation, *inputs: Array, constants: Sequence[Array] = ()) -> Graph:
    """A graph of one operation between relus, so that formats come and go."""
    builder = GraphBuilder()
    names = [builder.input(f"x{i}", x.shape) for i, x in enumerate(inputs)]
    names += [builder.constant(each) for each in constants]
    return builder.graph(builder.add(operation, *names, name="y"))


def run(graph: Graph, *inputs: Array, rule: str = "greedy") -> Array:
    return rs.Network(graph, rule=rule)(dict(zip(graph.inputs, inputs, strict=True)))


def close(made: Array, wanted: Array) -> bool:
    assert made.shape == wanted.shape
    assert made.dtype == np.float32
    return bool(np.abs(made - wanted).max(initial=0) <= 2e-5 * max(np.abs(wanted).max(initial=0), 1e-30))


# --- operations ---------------------------------------------------------------------------------------------

X = values(2, 20, 6, 7)
CHANNEL = (1, 20, 1, 1)
SCALE, SHIFT, MEAN = (values(20, seed=i) for i in range(3))
VARIANCE = np.abs(values(20, seed=3)) + 0.5
W3, W1 = values(24, 20, 3, 3), values(24, 20, 1, 1)
GROUPED = values(2, 12, 10, 3, 3)
STRIDED = ConvolutionOperation((2, 1), (1, 0), (2, 1), (1, 0), 2)


def _normalized(x: Array) -> Array:
    by_channel = [each.reshape(CHANNEL) for each in (SCALE, SHIFT, MEAN, VARIANCE)]
    scale, shift, mean, variance = by_channel
    return (x - mean) / np.sqrt(variance + 1e-3) * scale + shift


def _layer(x: Array) -> Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-3) * SCALE[:7] + SHIFT[:7]


def _transposed_convolution(x: Array) -> Array:
    """Windows of 2 by 2 without overlap: each source element makes a square."""
    made = np.einsum("nchw,ocij->nohiwj", x, W2)
    n, o, h, i, w, j = made.shape
    return made.reshape(n, o, h * i, w * j)


W2 = values(24, 20, 2, 2)

CASES: Mapping[str, tuple[Operation, Sequence[Array], Sequence[Array], Callable[[], Array]]] = {
    "convolution": (
        SAME,
        [X],
        [W3, values(24)],
        lambda: convolved(X, W3, SAME) + values(24).reshape(1, 24, 1, 1),
    ),
    "groups": (STRIDED, [X], [GROUPED], lambda: convolved(X, GROUPED, STRIDED)),
    "deconvolution": (
        DeconvolutionOperation((2, 2), (0, 0), (0, 0), (0, 0)),
        [X],
        [W2],
        lambda: _transposed_convolution(X),
    ),
    "deconvolution of few outputs": (
        DeconvolutionOperation((2, 2), (0, 0), (0, 0), (0, 0)),
        [X],
        [W2[:3], values(3)],
        lambda: _transposed_convolution(X)[:, :3] + values(3).reshape(1, 3, 1, 1),
    ),
    "inner product": (
        InnerProductOperation(),
        [X],
        [values(9, 20, 6, 7), values(9)],
        lambda: np.einsum("nchw,ochw->no", X, values(9, 20, 6, 7)) + values(9),
    ),
    "matmul": (
        MatmulOperation(),
        [values(3, 5, 8), values(3, 8, 4)],
        [],
        lambda: values(3, 5, 8) @ values(3, 8, 4),
    ),
    "max pooling": (
        PoolingOperation("pooling_max", (3, 3), (2, 2), (0, 0), (0, 0), (0, 0)),
        [X],
        [],
        lambda: pooled(X, 3, 2, np.max),
    ),
    "average pooling": (
        PoolingOperation("pooling_avg_exclude_padding", (2, 2), (1, 1), (0, 0), (0, 0), (0, 0)),
        [X],
        [],
        lambda: pooled(X, 2, 1, np.mean),
    ),
    "batch normalization": (
        BatchNormalizationOperation(1e-3),
        [X],
        [SCALE, SHIFT, MEAN, VARIANCE],
        lambda: _normalized(X),
    ),
    "layer normalization": (
        LayerNormalizationOperation(1e-3),
        [X],
        [SCALE[:7], SHIFT[:7]],
        lambda: _layer(X),
    ),
    "lrn": (LrnOperation("lrn_across_channels", 5, 1e-2, 0.75, 1.0), [X], [], lambda: lrn(X)),
    "softmax": (SoftmaxOperation("softmax_accurate", 1), [X], [], lambda: softmax(X, 1)),
    "log softmax": (SoftmaxOperation("softmax_log", 3), [X], [], lambda: np.log(softmax(X, 3))),
    "reduction": (
        ReductionOperation("reduction_mean", (2, 3)),
        [X],
        [],
        lambda: X.mean((2, 3), keepdims=True),
    ),
    "resampling": (
        ResamplingOperation("resampling_nearest", (12, 14)),
        [X],
        [],
        lambda: X.repeat(2, 2).repeat(2, 3),
    ),
    "eltwise": (EltwiseOperation("eltwise_linear", 2.0, -1.0), [X], [], lambda: 2 * X - 1),
    "binary": (
        BinaryOperation("binary_sub"),
        [X, values(2, 20, 6, 7, seed=5)],
        [],
        lambda: X - values(2, 20, 6, 7, seed=5),
    ),
    "binary with a constant": (
        BinaryOperation("binary_mul"),
        [X],
        [values(*CHANNEL)],
        lambda: X * values(*CHANNEL),
    ),
    "binary that repeats its first": (
        BinaryOperation("binary_add"),
        [values(2, 20, 1, 1), X],
        [],
        lambda: values(2, 20, 1, 1) + X,
    ),
    "prelu": (PReluOperation(), [X], [values(*CHANNEL)], lambda: np.where(X > 0, X, X * values(*CHANNEL))),
    "sum": (SumOperation((1.0, -0.5, 2.0)), [X, X, X], [], lambda: X - 0.5 * X + 2 * X),
    "concat": (
        ConcatOperation(1),
        [X, values(2, 3, 6, 7)],
        [],
        lambda: np.concatenate([X, values(2, 3, 6, 7)], 1),
    ),
    "shuffle": (
        ShuffleOperation(1, 4),
        [X],
        [],
        lambda: X.reshape(2, 4, 5, 6, 7).transpose(0, 2, 1, 3, 4).reshape(X.shape),
    ),
    "reshape": (ReshapeOperation((4, 10, 42)), [X], [], lambda: X.reshape(4, 10, 42)),
    "transpose": (TransposeOperation((0, 2, 3, 1)), [X], [], lambda: X.transpose(0, 2, 3, 1)),
    "slice": (
        SliceOperation((0, 3, 1, 0), (2, 9, 2, 3), (1, 1, 2, 3)),
        [X],
        [],
        lambda: X[:, 3:12, 1:4:2, 0:7:3],
    ),
    "pad": (
        PadOperation((0, 0, 1, 0), (0, 0, 2, 3), -1.5),
        [X],
        [],
        lambda: np.pad(X, [(0, 0), (0, 0), (1, 2), (0, 3)], constant_values=-1.5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operation_gives_what_numpy_does(name: str) -> None:
    operation, inputs, constants, wanted = CASES[name]
    assert close(run(one_node(operation, *inputs, constants=constants), *inputs), wanted())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "name", ["shuffle", "reshape", "transpose", "slice", "concat", "softmax", "pad", "lrn"]
)
def test_an_operation_takes_the_format_that_comes(name: str, rule: str) -> None:
    """Behind a convolution tensors are in blocks of channels, some of them not full."""
    operation, inputs, _, wanted = CASES[name]
    builder = GraphBuilder()
    names = [builder.input(f"x{i}", x.shape) for i, x in enumerate(inputs)]
    for i, x in enumerate(inputs):
        eye = builder.constant(np.eye(x.shape[1], dtype=np.float32).reshape(x.shape[1], x.shape[1], 1, 1))
        names[i] = builder.add(POINT, names[i], eye)
    graph = builder.graph(builder.add(operation, *names))
    assert close(run(graph, *inputs, rule=rule), wanted())


def test_a_conversion_to_another_type() -> None:
    graph = one_node(ReorderOperation(rs.bf16), X)
    assert np.array_equal(rs.Network(graph)(X), X.astype(rs.bf16.numpy))


@pytest.mark.parametrize("rule", RULES)
def test_epilogues_run_on_the_result(rule: str) -> None:
    builder = GraphBuilder()
    x, other = builder.input("x", X.shape), builder.input("other", (2, 24, 6, 7))
    weights, small = builder.constant(W3), builder.constant(values(1, 24, 1, 1))
    epilogues = [
        Epilogue(BinaryOperation("binary_add")),
        Epilogue(RELU),
        Epilogue(BinaryOperation("binary_mul")),
    ]
    y = builder.add(SAME, x, weights, other, small, epilogues=epilogues)
    added = values(2, 24, 6, 7, seed=7)
    wanted = np.maximum(convolved(X, W3, SAME) + added, 0) * values(1, 24, 1, 1)
    assert close(run(builder.graph(y), X, added, rule=rule), wanted)


# --- formats ------------------------------------------------------------------------------------------------


def residual() -> Graph:
    """Two convolutions with a way around them, twice."""
    builder = GraphBuilder()
    x = builder.input("x", (1, 32, 8, 8))
    for i in range(2):
        first = builder.add(RELU, builder.add(SAME, x, builder.constant(values(32, 32, 3, 3, seed=i) / 16)))
        second = builder.add(SAME, first, builder.constant(values(32, 32, 3, 3, seed=i + 9) / 16))
        x = builder.add(RELU, builder.add(BinaryOperation("binary_add"), second, x))
    return builder.graph(x)


def test_greedy_moves_at_the_edges_alone() -> None:
    plan = rs.Network(residual(), rule="greedy").plan()
    assert plan.reorders == 2
    assert [step.operation for step in plan.steps] == ["reorder", *["convolution"] * 4, "reorder"]
    assert {step.writes[0].md.tag for step in plan.steps[:-1]} <= {"aBcd16b", "aBcd8b"}


def test_fusions_can_be_left_out() -> None:
    net = rs.Network(residual(), without=["epilogues"])
    assert [step.operation for step in net.plan().steps].count("eltwise") == 4
    assert not net.plan().fusions
    assert rs.Network(residual()).plan().fusions
    x = values(1, 32, 8, 8)
    assert close(net(x), run(residual(), x))
    with pytest.raises(rs.InvalidArguments, match="fusion"):
        rs.Network(residual(), without=["epilogue"])


def test_plain_inserts_nothing() -> None:
    plan = rs.Network(residual(), rule="plain").plan()
    assert plan.reorders == 0
    assert {step.writes[0].md.tag for step in plan.steps} == {"abcd"}


def test_all_rules_give_the_same_values() -> None:
    x = values(1, 32, 8, 8)
    results = [run(residual(), x, rule=rule) for rule in RULES]
    assert all(close(made, results[0]) for made in results)


def test_the_plan_tells_steps_and_memory() -> None:
    plan = rs.Network(residual()).plan()
    text = str(plan)
    reorders = sum(
        step.is_inserted for step in plan.steps
    )  # none where wide vectors take the blocks as they are
    assert f"{len(plan.steps)} steps, {reorders} reorders, {plan.arena.peak} bytes" in text
    assert plan.arena.peak < sum(step.writes[0].md.size for step in plan.steps)


# --- inputs and outputs -------------------------------------------------------------------------------------


def two_ways() -> Graph:
    builder = GraphBuilder()
    x, y = builder.input("x", (2, 3)), builder.input("y", (2, 3))
    return builder.graph(
        builder.add(BinaryOperation("binary_add"), x, y, name="sum"), builder.add(RELU, x, name="top")
    )


def test_dicts_go_in_and_come_out() -> None:
    x, y = values(2, 3), values(2, 3, seed=1)
    made = rs.Network(two_ways())({"y": y, "x": x})
    assert list(made) == ["sum", "top"]
    assert np.array_equal(made["sum"], x + y)
    assert np.array_equal(made["top"], np.maximum(x, 0))


def test_outputs_may_be_inputs_constants_views_and_the_same() -> None:
    builder = GraphBuilder()
    x, constant = builder.input("x", (2, 3)), builder.constant(values(3), "c")
    y = builder.add(RELU, x, name="y")
    flat = builder.add(ReshapeOperation((6,)), y, name="flat")
    made = rs.Network(builder.graph(x, constant, y, flat))(values(2, 3))
    wanted = np.maximum(values(2, 3), 0)
    for name, each in (("x", values(2, 3)), ("c", values(3)), ("y", wanted), ("flat", wanted.reshape(6))):
        assert np.array_equal(made[name], each)
    made["x"][...] = 0
    assert made["c"].flags.writeable


def test_results_are_new_memory() -> None:
    net = rs.Network(one_node(RELU, X))
    first = net(X)
    copy = first.copy()
    net(-X)
    assert np.array_equal(first, copy)


@pytest.mark.parametrize(
    "x", [X.astype(np.float64), X[:1], X.reshape(2, 20, 42), "x", None, {"x0": X, "x1": X}, {}]
)
def test_other_inputs_are_refused(x: object) -> None:
    with pytest.raises(rs.InvalidArguments, match=r"input|x0"):
        rs.Network(one_node(RELU, X))(x)


@pytest.mark.parametrize(
    ("inputs", "named", "brought"),
    [
        ((), {}, "none"),
        ((), {"x": 1}, "'x' by name"),
        ((1, 2), {}, "2 by position"),
        ((1,), {"x": 1}, "1 by position, 'x' by name"),
    ],
)
def test_a_call_with_other_arguments_names_the_inputs(
    inputs: tuple[object, ...], named: dict[str, object], brought: str
) -> None:
    network: Callable[..., object] = rs.Network(one_node(RELU, X))
    with pytest.raises(rs.InvalidArguments, match=f"passed {brought}(.|\n)*the inputs are 'x0'"):
        network(*inputs, **named)


def test_arrays_of_any_strides_go_in() -> None:
    x = np.asfortranarray(X)[::-1]
    assert np.array_equal(rs.Network(one_node(RELU, X))(x), np.maximum(x, 0))


def test_tensors_of_torch_come_back_as_such() -> None:
    torch = pytest.importorskip("torch")
    made = rs.Network(one_node(RELU, X))(torch.from_numpy(X))
    assert isinstance(made, torch.Tensor)
    assert np.array_equal(made.numpy(), np.maximum(X, 0))


@pytest.mark.parametrize("dims", [(0, 20, 6, 7), (2, 0, 6, 7), (2, 20, 0, 7)])
def test_tensors_without_elements(dims: tuple[int, ...]) -> None:
    builder = GraphBuilder()
    x = builder.input("x", dims)
    added = builder.add(BinaryOperation("binary_add"), builder.add(RELU, x), x)
    graph = builder.graph(builder.add(ConcatOperation(0), added, x))
    assert run(graph, np.zeros(dims, np.float32)).shape == (2 * dims[0], *dims[1:])


def test_no_other_rule_and_nothing_but_graphs() -> None:
    with pytest.raises(rs.InvalidArguments, match="rule"):
        rs.Network(two_ways(), rule="eager")
    with pytest.raises(rs.InvalidArguments, match="graph"):
        rs.Network("model.onnx")  # type: ignore[arg-type]


def test_an_error_of_a_primitive_names_the_node() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (2, 3))
    graph = builder.graph(builder.add(EltwiseOperation("eltwise_none"), x, name="wrong"))
    with pytest.raises(rs.InvalidArguments, match="node 'wrong'"):
        rs.Network(graph)(values(2, 3))


# --- sizes and threads --------------------------------------------------------------------------------------


def sized() -> tuple[rs.Network, list[int]]:
    """A network of any batch, and the batches for which a graph was made."""
    batches: list[int] = []

    def source(dims: Mapping[str, tuple[int, ...]]) -> Graph:
        batches.append(dims["x"][0])
        builder = GraphBuilder()
        x = builder.input("x", dims["x"])
        return builder.graph(builder.add(POINT, x, builder.constant(W1, "w")))

    inputs = [NetworkInput("x", (None, 20, 6, 7), rs.f32)]
    return rs.Network.of_source(inputs, ["y"], source), batches


def test_plans_are_made_once_for_each_size_and_the_last_eight_stay() -> None:
    net, batches = sized()
    for n in (1, 2, 1, 2, 1):
        assert net(values(n, 20, 6, 7)).shape == (n, 24, 6, 7)
    assert batches == [1, 2]
    for n in (*range(3, 11), 1):
        net.plan((n, 20, 6, 7))
    assert batches == [1, 2, *range(3, 11), 1]
    with pytest.raises(rs.InvalidArguments, match=r"\*x20x6x7"):
        net(values(1, 21, 6, 7))
    with pytest.raises(rs.InvalidArguments, match=r"net\.prepare"):
        net.plan()


def test_threads_may_share_a_network() -> None:
    net = rs.Network(residual())
    inputs = [values(1, 32, 8, 8, seed=i) for i in range(4)]
    wanted = [net(x).tobytes() for x in inputs]
    wrong: list[int] = []

    def work(own: int) -> None:
        for turn in range(40):
            at = (own + turn) % 4
            if net(inputs[at]).tobytes() != wanted[at]:
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_is_prepared_tells_how_far_it_is_and_only_runs_then(monkeypatch: pytest.MonkeyPatch) -> None:
    net, told = rs.Network(residual()), list[tuple[int, int]]()
    net.prepare(progress=lambda *each: told.append(each))
    steps = len(net.plan().steps)
    assert told == [(ready, steps) for ready in range(1, steps + 1)]
    monkeypatch.setattr(Runner, "_prepare_parts", None)
    net.prepare()
    assert net(values(1, 32, 8, 8)).shape == net.plan().outputs[net.outputs[0]].md.dims


def test_a_profile_tells_the_time_of_each_step() -> None:
    net = rs.Network(residual())
    times = net.profile(values(1, 32, 8, 8))
    assert [each.operation for each in times] == [step.operation for step in net.plan().steps]
    assert all(each.seconds > 0 for each in times)
    assert [each.is_inserted for each in times] == [step.is_inserted for step in net.plan().steps]
    assert {each.kernel.split(":")[0] for each in times} == {"jit"}


def test_plans_of_several_sizes_share_packed_weights_and_leave_none_behind() -> None:
    weights = values(20, 20, 3, 3)

    def graph(dims: Mapping[str, Sequence[int]]) -> Graph:
        builder = GraphBuilder()
        x = builder.input("x", dims["x"])
        return builder.graph(builder.add(SAME, x, builder.constant(weights), name="y"))

    net = rs.Network.of_source([NetworkInput("x", (None, 20, None, None), rs.f32)], ["y"], graph)
    for n in range(1, 13):
        net(values(n, 20, 6, 7))
    known = [each for found in net._plans._prepacked._memories.values() for each in found]
    assert len({id(each.memory()) for each in known if each.memory() is not None}) == 1


@pytest.mark.parametrize("rule", RULES)
def test_copies_in_formats_that_begin_behind_their_memory_stay_inside_it(rule: str) -> None:
    builder = GraphBuilder()
    x = builder.input("x", (2, 30, 16))
    y = builder.add(RELU, x)
    y = builder.add(ReshapeOperation((2, 5, 6, 1, 16)), y)
    y = builder.add(TransposeOperation((2, 0, 1, 3, 4)), y)
    parts = []
    for at in range(6):
        part = builder.add(SliceOperation((at, 0, 0, 0, 0), (1, 2, 5, 1, 16), (1,) * 5), y)
        part = builder.add(ReshapeOperation((2, 10, 8)), part)
        parts.append(builder.add(MatmulOperation(), part, builder.add(TransposeOperation((0, 2, 1)), part)))
    net = rs.Network(builder.graph(*parts), rule=rule)
    arena = net.plan().arena
    for step in net.plan().steps:
        for each in (*step.reads, *step.writes):
            if each.storage.where == "arena":
                start = arena.offsets[each.storage.name]
                assert start + 4 * (each.md.extent_range()[1]) <= arena.peak
    data = values(2, 30, 16)
    found = net(data)
    relu = np.maximum(data, 0).reshape(2, 5, 6, 16)
    for at, name in enumerate(parts):
        part = relu[:, :, at].reshape(2, 10, 8)
        assert close(found[name], part @ part.transpose(0, 2, 1))


def test_formats_and_bits_do_not_depend_on_the_number_of_threads() -> None:
    builder, rng = rs.graph.GraphBuilder(), np.random.default_rng(3)
    x = builder.input("x", (4, 128, 16, 16))
    weights = builder.constant(rng.standard_normal((128, 128, 3, 3), np.float32))
    window = rs.graph.ConvolutionOperation(strides=(1, 1), dilates=(0, 0), padding_l=(1, 1), padding_r=(1, 1))
    graph = builder.graph(builder.add(window, x, weights))
    array, found, before = rng.standard_normal((4, 128, 16, 16), np.float32), set(), rs.get_num_threads()
    try:
        for threads in (1, 2, 5):
            rs.set_num_threads(threads)
            net = rs.Network(graph, without=["winograd"])
            found.add((str(net.plan()), net(array).tobytes()))
    finally:
        rs.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("code", "x", "out"),
    [
        ("RS-G03", np.ones((3, 2), np.float32), None),
        ("RS-G12", {"y": np.ones((2, 3), np.float32)}, None),
        ("RS-G13", np.ones((2, 3)), None),
        ("RS-G16", np.ones((2, 3), np.float32), np.ones((2, 3))),
        ("RS-G16", np.ones((2, 3), np.float32), {"x": np.ones((2, 3))}),
    ],
)
def test_names_dims_types_and_outputs_have_codes_of_their_own(code: str, x: object, out: object) -> None:
    builder = rs.graph.GraphBuilder()
    relu = builder.add(rs.graph.EltwiseOperation("eltwise_relu"), builder.input("x", (2, 3)), name="y")
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.Network(builder.graph(relu))(x, out=out)
    assert caught.value.code == code


def test_a_refused_call_is_told_to_hooks_and_the_log(caplog: pytest.LogCaptureFixture) -> None:
    builder = rs.graph.GraphBuilder()
    net, seen = rs.Network(builder.graph(builder.input("x", (2, 3)))), list[rs.Error]()
    with rs.add_hook("error", lambda each: seen.append(each.error)), caplog.at_level("WARNING", "restride"):
        for wrong in (np.ones((3, 2), np.float32), {"y": np.ones((2, 3), np.float32)}):
            with pytest.raises(rs.InvalidArguments):
                net(wrong)
    assert [error.code for error in seen] == ["RS-G03", "RS-G12"]
    assert [record.restride["code"] for record in caplog.records] == ["RS-G03", "RS-G12"]


@pytest.mark.filterwarnings("error")
def test_a_hook_that_raises_does_not_hide_the_error_of_a_call_where_warnings_are_errors() -> None:
    builder = rs.graph.GraphBuilder()
    net = rs.Network(builder.graph(builder.input("x", (2, 3))))
    with rs.add_hook("error", lambda each: 1 // 0), pytest.raises(rs.InvalidArguments):
        net(np.ones((3, 2), np.float32))


def test_a_wrong_keyword_of_prepare_is_an_error_with_a_code() -> None:
    builder = rs.graph.GraphBuilder()
    net = rs.Network(builder.graph(builder.input("x", (2, 3))))
    with pytest.raises(rs.InvalidArguments, match="RS-G12"):
        net.prepare(x=(2, 3))
