"""Random ONNX graphs of tensors of f32, s64, s32 and booleans, compared with onnxruntime.

    python -m support.random_graphs FIRST COUNT

Floats begin as small multiples of 1/8, so that sums and products have the same bits in any order; what a
function rounds is never compared, rounded or sorted, so that the last bit decides nothing. Integers and
booleans are exact.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

import restride as rs

Array = np.ndarray[Any, Any]
F32, S64, S32, BOOL = (np.dtype(word) for word in ("f4", "i8", "i4", "?"))
_TYPES = (F32, F32, S64, S32, BOOL)
_NUMBERS = {dtype: helper.np_dtype_to_tensor_dtype(dtype) for dtype in (F32, S64, S32, BOOL)}
_MOST_ELEMENTS, _MOST_RANK = 4096, 5
_PRIME = 1009


class Drawn(NamedTuple):
    """A tensor of a draft; `is_exact`: all its bits are known, in any order of sums."""

    name: str
    dtype: np.dtype[Any]
    dims: tuple[int, ...]
    is_exact: bool = True


class Draft:
    """A graph while it is drawn."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.known: dict[str, Array] = {}
        self.feed: dict[str, Array] = {}
        self.values: list[Drawn] = []
        dims = tuple(int(n) for n in self.rng.integers(1, 6, int(self.rng.integers(1, 4))))
        for number in range(int(self.rng.integers(2, 5))):
            own = dims if number < 2 or self.flip() else tuple(n if self.flip() else 1 for n in dims)
            name, dtype = f"x{number}", _TYPES[int(self.rng.integers(len(_TYPES)))]
            self.feed[name] = self.array(dtype, own)
            self.values.append(Drawn(name, dtype, own))

    def flip(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def array(self, dtype: np.dtype[Any], dims: tuple[int, ...]) -> Array:
        if dtype == BOOL:
            return self.rng.integers(0, 2, dims).astype(dtype)
        numbers = self.rng.integers(-24, 25, dims)
        return np.asarray(numbers / 8 if dtype == F32 else numbers, dtype)

    def constant(self, values: Any) -> str:
        name = f"c{len(self.known)}"
        self.known[name] = np.asarray(values)
        return name

    def value(self, *dtypes: np.dtype[Any], rank: int = 0, exact: bool = False) -> Drawn | None:
        """A tensor of one of these types, with elements and so many dims at least."""
        fitting = [
            each
            for each in self.values
            if (not dtypes or each.dtype in dtypes)
            and len(each.dims) >= rank
            and (each.is_exact or not exact)
        ]
        return self.pick(fitting) if fitting else None

    def partner(self, x: Drawn) -> Drawn:
        """A tensor of the same type that is broadcast with another one, or a constant."""
        fitting = [
            each for each in self.values if each.dtype == x.dtype and _joint(each.dims, x.dims) is not None
        ]
        if self.flip(0.3):
            dims = self.pick(((), (1,), x.dims))
            return Drawn(self.constant(self.array(x.dtype, dims)), x.dtype, dims)
        return self.pick(fitting)

    def add(
        self,
        operator: str,
        inputs: list[Any],
        dtype: np.dtype[Any],
        dims: Any,
        exact: bool = True,
        **attributes: Any,
    ) -> Drawn:
        names = [each.name if isinstance(each, Drawn) else each for each in inputs]
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [name], **attributes))
        made = Drawn(name, dtype, tuple(dims), exact)
        self.values.append(made)
        return made

    def model(self) -> bytes:
        read = {name for node in self.nodes for name in node.input}
        results = [each for each in self.values if each.name not in read and each.name not in self.feed]
        names = {name for node in self.nodes for name in node.output}
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "g",
            [info(name, _NUMBERS[x.dtype], x.shape) for name, x in self.feed.items()],
            [info(each.name, _NUMBERS[each.dtype], each.dims) for each in results if each.name in names],
            [numpy_helper.from_array(x, name) for name, x in self.known.items()],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        return bytes(made.SerializeToString())


def _joint(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


# --- what may be drawn --------------------------------------------------------------------------------------
# Each adds nodes to a draft, or nothing where no tensor fits.


def _arithmetic(draft: Draft) -> None:
    x = draft.value(F32, S64, S32)
    if x is None:
        return
    y, operator = draft.partner(x), draft.pick(("Add", "Sub", "Mul", "Min", "Max"))
    made = draft.add(operator, [x, y], x.dtype, _joint(x.dims, y.dims), x.is_exact and y.is_exact)
    if operator == "Mul" and x.dtype == F32:
        # Of few bits again, so that sums stay exact.
        draft.add("Clip", [made, *_limits(draft)], F32, made.dims, exact=False)
        draft.values.remove(made)
    elif operator == "Mul":
        draft.add("Mod", [made, draft.constant(np.array(_PRIME, x.dtype))], x.dtype, made.dims)


def _limits(draft: Draft) -> list[str]:
    return [draft.constant(np.array(end, np.float32)) for end in (-9, 9)]


def _comparison(draft: Draft) -> None:
    x = draft.value(F32, S64, S32, exact=True)
    y = None if x is None else draft.partner(x)
    if x is not None and y is not None and y.is_exact:
        operator = draft.pick(("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"))
        draft.add(operator, [x, y], BOOL, _joint(x.dims, y.dims))


def _logic(draft: Draft) -> None:
    x = draft.value(BOOL)
    if x is not None and draft.flip(0.3):
        draft.add("Not", [x], BOOL, x.dims)
    elif x is not None:
        y = draft.partner(x)
        draft.add(draft.pick(("And", "Or", "Xor", "Equal")), [x, y], BOOL, _joint(x.dims, y.dims))


def _where(draft: Draft) -> None:
    condition, x = draft.value(BOOL), draft.value(F32, S64, S32)
    if condition is None or x is None:
        return
    y = draft.partner(x)
    pair = _joint(x.dims, y.dims)
    dims = None if pair is None else _joint(pair, condition.dims)
    if dims is not None:
        draft.add("Where", [condition, x, y], x.dtype, dims, x.is_exact and y.is_exact)


def _function(draft: Draft) -> None:
    x = draft.value(F32, S64, S32)
    if x is None:
        return
    if x.dtype != F32 or draft.flip(0.4):
        draft.add(draft.pick(("Abs", "Neg", "Sign")), [x], x.dtype, x.dims, x.is_exact)
    elif draft.flip() or not x.is_exact:
        draft.add(draft.pick(("Tanh", "Sigmoid", "Erf", "Relu", "Softplus")), [x], F32, x.dims, exact=False)
    else:
        draft.add(draft.pick(("Floor", "Ceil", "Round", "Relu")), [x], F32, x.dims)


def _division(draft: Draft) -> None:
    x = draft.value(S64, S32)
    if x is not None:
        by = draft.constant(np.array(draft.pick((1, 2, 3, 7, -1, -4)), x.dtype))
        draft.add(draft.pick(("Div", "Mod")), [x, by], x.dtype, x.dims)


def _bits(draft: Draft) -> None:
    x = draft.value(S64, S32)
    if x is not None:
        y = draft.partner(x)
        operator = draft.pick(("BitwiseAnd", "BitwiseOr", "BitwiseXor"))
        draft.add(operator, [x, y], x.dtype, _joint(x.dims, y.dims))


def _cast(draft: Draft) -> None:
    x = draft.value(exact=True)
    if x is None:
        return
    to = draft.pick((F32, S64, S32, BOOL))
    if x.dtype == F32 and to in (S64, S32):
        x = draft.add("Clip", [x, *_limits(draft)], F32, x.dims)
    draft.add("Cast", [x], to, x.dims, to=_NUMBERS[to])


def _axis(draft: Draft, x: Drawn) -> int:
    return int(draft.rng.integers(len(x.dims)))


def _reduction(draft: Draft) -> None:
    x = draft.value(F32, S64, S32, rank=1)
    if x is None:
        return
    axis, keep = _axis(draft, x), int(draft.flip())
    dims = (*x.dims[:axis], *(1,) * keep, *x.dims[axis + 1 :])
    if x.is_exact and draft.flip(0.3):
        options = {"axis": axis, "keepdims": keep, "select_last_index": int(draft.flip())}
        draft.add(draft.pick(("ArgMax", "ArgMin")), [x], S64, dims, **options)
        return
    operator = draft.pick(("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd"))
    if operator in ("ReduceMean", "ReduceProd") and x.dtype != F32:
        operator = "ReduceSum"
    is_exact = x.is_exact and operator not in ("ReduceMean", "ReduceProd")
    draft.add(operator, [x, draft.constant([axis])], x.dtype, dims, is_exact, keepdims=keep)


def _move(draft: Draft) -> None:
    x = draft.value(rank=1)
    if x is None:
        return
    axis, exact = _axis(draft, x), x.is_exact
    way, dims = int(draft.rng.integers(7)), list(x.dims)
    if way == 0:
        order = [int(n) for n in draft.rng.permutation(len(dims))]
        draft.add("Transpose", [x], x.dtype, [dims[n] for n in order], exact, perm=order)
    elif way == 1:
        draft.add(
            "Reshape",
            [x, draft.constant([-1, dims[axis]])],
            x.dtype,
            (prod(dims) // dims[axis], dims[axis]),
            exact,
        )
    elif way == 2:
        dims[axis] *= 2
        draft.add("Concat", [x, x], x.dtype, dims, exact, axis=axis)
    elif way == 3:
        step = draft.pick((1, 2, -1))
        start, end = (int(draft.flip()), 1 << 40) if step > 0 else (-1, -(1 << 40))
        dims[axis] = len(range(dims[axis])[start::step] if step > 0 else range(dims[axis])[::step])
        if dims[axis]:
            ends = [draft.constant([each]) for each in (start, end, axis, step)]
            draft.add("Slice", [x, *ends], x.dtype, dims, exact)
    elif way == 4 and x.dtype != BOOL:
        repeats = [int(n) for n in draft.rng.integers(1, 3, len(dims))]
        wanted = [n * m for n, m in zip(dims, repeats, strict=True)]
        draft.add("Tile", [x, draft.constant(repeats)], x.dtype, wanted, exact)
    elif way == 5 and x.dtype != BOOL:
        low, high = ([int(n) for n in draft.rng.integers(0, 3, len(dims))] for _ in range(2))
        mode = draft.pick(("constant", "edge"))
        wanted = [n + a + b for n, a, b in zip(dims, low, high, strict=True)]
        draft.add("Pad", [x, draft.constant(low + high)], x.dtype, wanted, exact, mode=mode)
    elif way == 6:
        draft.add("Unsqueeze", [x, draft.constant([axis])], x.dtype, (*dims[:axis], 1, *dims[axis:]), exact)


def _indices(draft: Draft, size: int, dims: tuple[int, ...]) -> Array:
    return draft.rng.integers(-size, size, dims).astype(draft.pick((S64, S32)))


def _gather(draft: Draft) -> None:
    x = draft.value(rank=1)
    if x is None:
        return
    axis, way = _axis(draft, x), int(draft.rng.integers(4))
    size, count = x.dims[axis], int(draft.rng.integers(1, 5))
    if way == 0:
        at = draft.constant(_indices(draft, size, (count,)))
        draft.add(
            "Gather", [x, at], x.dtype, (*x.dims[:axis], count, *x.dims[axis + 1 :]), x.is_exact, axis=axis
        )
    elif way == 1:
        dims = (*x.dims[:axis], count, *x.dims[axis + 1 :])
        at = draft.constant(_indices(draft, size, dims))
        draft.add("GatherElements", [x, at], x.dtype, dims, x.is_exact, axis=axis)
    elif way == 2:
        at = draft.constant(_indices(draft, x.dims[0], (count, 1)).astype(S64))
        draft.add("GatherND", [x, at], x.dtype, (count, *x.dims[1:]), x.is_exact)
    else:
        # Places that only a run knows.
        index = draft.value(S64, S32)
        if index is not None and prod(index.dims) * prod(x.dims) < _MOST_ELEMENTS:
            inside = draft.add(
                "Mod", [index, draft.constant(np.array(size, index.dtype))], index.dtype, index.dims
            )
            dims = (*x.dims[:axis], *index.dims, *x.dims[axis + 1 :])
            draft.add("Gather", [x, inside], x.dtype, dims, x.is_exact, axis=axis)


def _scatter(draft: Draft) -> None:
    x = draft.value(F32, S64, S32, rank=1)
    if x is None:
        return
    axis, is_sum = _axis(draft, x), draft.flip()
    size = x.dims[axis]
    count = int(draft.rng.integers(1, 5)) if is_sum else size
    dims = (*x.dims[:axis], count, *x.dims[axis + 1 :])
    updates = draft.constant(draft.array(x.dtype, dims))
    if draft.flip():
        at = (
            draft.rng.integers(-size, size, dims)
            if is_sum
            else draft.rng.permuted(_places(dims, axis), axis=axis)
        )
        options = {"axis": axis, "reduction": draft.pick(("add", "max", "min")) if is_sum else "none"}
        draft.add("ScatterElements", [x, draft.constant(at), updates], x.dtype, x.dims, x.is_exact, **options)
    elif axis == 0:
        at = draft.rng.integers(-size, size, (count, 1)) if is_sum else draft.rng.permutation(size)[:, None]
        word = "add" if is_sum else "none"
        draft.add("ScatterND", [x, draft.constant(at), updates], x.dtype, x.dims, x.is_exact, reduction=word)


def _places(dims: tuple[int, ...], axis: int) -> Array:
    column = np.arange(dims[axis]).reshape(-1, *(1,) * (len(dims) - axis - 1))
    return np.broadcast_to(column, dims).copy()


def _scan(draft: Draft) -> None:
    x = draft.value(F32, S64, S32, rank=1)
    if x is not None:
        options = {"exclusive": int(draft.flip()), "reverse": int(draft.flip())}
        draft.add("CumSum", [x, draft.constant(_axis(draft, x))], x.dtype, x.dims, x.is_exact, **options)


def _selection(draft: Draft) -> None:
    x = draft.value(F32, S64, S32, rank=1, exact=True)
    if x is None:
        return
    axis = _axis(draft, x)
    count = int(draft.rng.integers(1, x.dims[axis] + 1))
    dims = (*x.dims[:axis], count, *x.dims[axis + 1 :])
    first = draft.add(
        "TopK", [x, draft.constant([count])], x.dtype, dims, axis=axis, largest=int(draft.flip())
    )
    draft.nodes[-1].output.append(f"{first.name}_at")
    draft.values.append(Drawn(f"{first.name}_at", S64, dims))


_STEPS: tuple[Callable[[Draft], None], ...] = (
    *(_arithmetic, _arithmetic, _comparison, _logic, _where, _function, _division, _bits, _cast, _reduction),
    *(_move, _move, _gather, _gather, _scatter, _scan, _selection),
)


def random_graph(seed: int) -> tuple[bytes, dict[str, Array]]:
    """A model of some nodes, and inputs for it."""
    draft, count = Draft(seed), 0
    wanted = int(draft.rng.integers(3, 11))
    while len(draft.nodes) < wanted or not draft.nodes:
        draft.pick(_STEPS)(draft)
        small = [
            each
            for each in draft.values
            if prod(each.dims) <= _MOST_ELEMENTS and len(each.dims) <= _MOST_RANK
        ]
        draft.values, count = small, count + 1
        if count > 200:
            break
    read = {name for node in draft.nodes for name in node.input}
    ends = [name for node in draft.nodes for name in node.output if name not in read]
    kinds = {each.name for each in draft.values}
    # What was too large leaves a node that no one reads, and whose result is none.
    draft.nodes = [
        node for node in draft.nodes if not all(name in ends and name not in kinds for name in node.output)
    ]
    return draft.model(), draft.feed


def trial(seed: int) -> str:
    """ "same" where the results are those of onnxruntime; "left out" where it refuses the graph, or makes
    numbers that are not finite; else what differs.
    """
    import onnxruntime

    content, feed = random_graph(seed)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        wanted = session.run(None, feed)
    except Exception as error:
        return f"left out: {str(error)[:200]}"
    net = rs.onnx.load(content)
    made = net({each.name: feed[each.name] for each in net.inputs})
    results = made if isinstance(made, dict) else {net.outputs[0]: made}
    for name, other in zip(net.outputs, wanted, strict=True):
        found = np.asarray(results[name])
        if found.shape != other.shape or found.dtype != other.dtype:
            return f"{name}: {found.dtype} {found.shape}, onnxruntime {other.dtype} {other.shape}"
        if other.dtype != F32 and not np.array_equal(found, other):
            return f"{name}: {found.reshape(-1)[:8]}, onnxruntime {other.reshape(-1)[:8]}"
        if other.dtype == F32 and not np.allclose(found, other, 2e-5, 2e-5 * np.abs(other).max(initial=1)):
            return f"{name}: {found.reshape(-1)[:8]}, onnxruntime {other.reshape(-1)[:8]}"
    return "same"


def main(first: int, count: int) -> None:
    """Try graphs; write a line for each that differs, and the counts at the end."""
    warnings.simplefilter("ignore")
    counts = Counter[str]()
    for seed in range(first, first + count):
        try:
            found = trial(seed)
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        counts[found.split(":")[0] if found.startswith(("same", "left out")) else "wrong"] += 1
        if found != "same":
            operators = [
                node.op_type for node in onnx.ModelProto.FromString(random_graph(seed)[0]).graph.node
            ]
            print(f"{seed} {' '.join(operators)}: {found}", flush=True)
    print(dict(counts), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
