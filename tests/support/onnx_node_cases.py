"""ONNX's own cases of operators and small models: each run by restride, compared with the included results.

python -m support.onnx_node_cases 'reduce_log|softmax'
python -m support.onnx_node_cases sequence simple pytorch-operator pytorch-converted
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import restride as rs

# What several roundings to a type may add up to: the package rounds after each operator.
_ROUNDINGS = {"float16": 2.0**-9, "bfloat16": 2.0**-6}
PASSES, REFUSED, WRONG = "passes", "refused", "wrong"


class Outcome(NamedTuple):
    """The result of a case: a verdict, and the message of an error, or the difference."""

    case: str
    operator: str
    verdict: str
    reason: str = ""


def outcomes(pattern: str = "", kinds: Sequence[str] = ("node",)) -> Iterator[Outcome]:
    """The outcome of each case of these kinds whose name has the pattern."""
    from onnx.backend.test import loader
    from onnx.backend.test.case import node

    cases = (
        [case for case in node.collect_testcases(None) if case.model is not None] if "node" in kinds else []
    )
    for kind in kinds:
        cases += loader.load_model_tests(kind=kind) if kind != "node" else []
    for case in cases:
        if re.search(pattern, case.name):
            yield _outcome(case if case.data_sets else _read(case))


def _read(case: Any) -> Any:
    """A case of a folder with its model and its data."""
    import onnx

    folder = Path(case.model_dir)
    model, data_sets = onnx.load(folder / "model.onnx"), []
    for path in sorted(folder.glob("test_data_set_*")):
        columns = (model.graph.input, "input"), (model.graph.output, "output")
        sets = []
        for infos, name in columns:
            files = [(info, path / f"{name}_{at}.pb") for at, info in enumerate(infos)]
            sets.append([_value(info, file.read_bytes()) for info, file in files if file.exists()])
        data_sets.append(tuple(sets))
    return replace(case, model=model, data_sets=data_sets)


def _value(info: Any, content: bytes) -> Any:
    import onnx

    if info.type.HasField("sequence_type"):
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    return onnx.TensorProto.FromString(content)


def _outcome(case: Any) -> Outcome:
    operator = next((node.op_type for node in case.model.graph.node), "none")
    for inputs, expected in case.data_sets:
        names = [info.name for info in case.model.graph.input]
        try:
            found = _results(case.model, dict(zip(names, map(_array, inputs), strict=False)))
        except rs.Error as error:
            return Outcome(case.name, operator, REFUSED, str(error))
        for own, other in zip(found, expected, strict=True):
            if difference := _difference(_array(own), _array(other), case):
                return Outcome(case.name, operator, WRONG, difference)
    return Outcome(case.name, operator, PASSES)


def _results(model: Any, inputs: Mapping[str, Any]) -> list[Any]:
    """The results for these inputs; integers and truth values are constants where the model wants that."""
    try:
        found = rs.onnx.load(model)(inputs)
    except rs.Error:
        known = {name: x for name, x in inputs.items() if isinstance(x, np.ndarray) and x.dtype.kind in "iub"}
        if not known:
            raise
        rest = {name: x for name, x in inputs.items() if name not in known}
        found = rs.onnx.load(model, values=known)(rest)
    return [found[info.name] for info in model.graph.output] if isinstance(found, dict) else [found]


def _array(value: Any) -> Any:
    """A tensor of a case as an array; all that is none stays."""
    import onnx

    if isinstance(value, rs.Memory):
        return value.to_numpy()
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _difference(own: Any, other: Any, case: Any) -> str:
    """Return the difference of a result from the expected one; "" for none."""
    if not isinstance(other, np.ndarray | np.generic):
        return f"a {type(other).__name__} is expected"
    if own.shape != other.shape or own.dtype != other.dtype:
        return f"{own.dtype} {own.shape} in place of {other.dtype} {other.shape}"
    if other.dtype.kind in "iub":
        return "" if np.array_equal(own, other) else f"{np.sum(own != other)} integers differ"
    first, second = (array.astype(np.float64) for array in (own, other))
    rtol = max(case.rtol, _ROUNDINGS.get(other.dtype.name, 0))
    if np.allclose(first, second, rtol=rtol, atol=max(case.atol, 1e-5), equal_nan=True):
        return ""
    return f"values differ by {np.nanmax(np.abs(first - second))}"


def report(found: list[Outcome]) -> str:
    """Counts, the operators of what is refused by reason, and all that is wrong."""
    lines = [", ".join(f"{count} {verdict}" for verdict, count in Counter(o.verdict for o in found).items())]
    reasons: dict[str, Counter[str]] = {}
    for outcome in found:
        if outcome.verdict == REFUSED:
            text = re.sub(r"'[^']*('|\.\.\.)", "...", " ".join(outcome.reason.split("  hint:")[0].split()))
            reasons.setdefault(re.sub(r"\d+", "N", text)[:160], Counter())[outcome.operator] += 1
    for text, operators in sorted(reasons.items(), key=lambda item: -item[1].total()):
        counts = ", ".join(f"{name} {count}" for name, count in operators.most_common())
        lines.append(f"{operators.total():>5} {text}: {counts}")
    lines += [f"{each.verdict}: {each.case}: {each.reason}" for each in found if each.verdict == WRONG]
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(list(outcomes(*sys.argv[1:2], sys.argv[2:] or ["node"]))))
