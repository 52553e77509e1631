"""Graphs of oneDNN, as the JSON of its graph driver: `--graph`."""
# ruff: noqa: D102 (what every operation says, its base class explains)

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import Error
from restride.cli.usage import UsageError

from ..cases import Case
from ..compare import Points, Tolerance
from ..fill import Array
from ..graph_formulas import FORMULAS, TYPES, graph_input, graph_results, operations, positive_inputs
from ..operands import CaseOperand, Values

_WIDE = 1e-4, 2e-2
_STEPS = 2.0  # which a chain of rounded integers may be off


class _GraphFile:
    """A file that was read: its operations, its network, and what the checks of its results compare with."""

    def __init__(self, path: str) -> None:
        self.network = rs.onednn_graph.load(path)
        self.json: Mapping[str, Any] = json.loads(Path(path).read_bytes())
        every = operations(self.json)
        self.tensors = {str(x["id"]): x for each in every for x in (*each["outputs"], *each["inputs"])}
        self.kinds = {each["kind"] for each in every}
        self.types = {x["dtype"] for x in self.tensors.values()}

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.network.inputs)

    def desc(self, name: str) -> rs.MemoryDesc:
        """A tensor, row-major; a number is one element of one dim."""
        kind = self.network.plan().graph.tensors[name]
        return rs.MemoryDesc(kind.dims or (1,), kind.data_type)

    def values(self, name: str) -> Array:
        is_positive = name in positive_inputs(self.json)
        return graph_input(self.tensors[name], self.inputs.index(name), is_positive)

    @cached_property
    def exact(self) -> dict[str, Array]:
        """All outputs in f64."""
        return self._results(is_rounded=False)

    @cached_property
    def limits(self) -> dict[str, float]:
        """The tolerance of an output: fused operations do not round in between; others may be off by as much
        as the types of the graph say.
        """
        is_wide = self.types <= {"f32", "boolean"}
        rounded = self.exact if is_wide else self._results(is_rounded=True)
        found = {}
        for name, exact in self.exact.items():
            size = float(np.abs(exact).max(initial=0.0))
            least = (
                _STEPS if self.tensors[name]["dtype"] in ("s8", "u8", "s32") else _WIDE[not is_wide] * size
            )
            found[name] = max(least, 2 * float(np.abs(rounded[name] - exact).max(initial=0.0)))
        return found

    def _results(self, *, is_rounded: bool) -> dict[str, Array]:
        found = graph_results(self.json, {name: self.values(name) for name in self.inputs}, is_rounded)
        return {name: found[name] for name in self.network.outputs}


_read = lru_cache(maxsize=1)(_GraphFile)


@dataclass(frozen=True)
class _GraphDesc:
    """The network of a graph in the place of a primitive descriptor."""

    file: _GraphFile
    impl_info_str: str

    def scratchpad_desc(self) -> rs.MemoryDesc:
        return rs.MemoryDesc()


class _GraphRun:
    """The network of a graph in the place of a primitive."""

    def __init__(self, pd: _GraphDesc) -> None:
        file = pd.file
        self._network = file.network
        self._read, self._written = (
            {
                one.arg: (str(name), file.tensors[str(name)]["shape"])
                for name, one in zip(names, each, strict=True)
            }
            for names, each in ((file.inputs, _reads(file)), (file.network.outputs, _writes(file)))
        )

    def execute(self, stream: rs.onednn.Stream, args: Mapping[int, rs.Memory]) -> None:
        """Run it on memories, by the numbers of their arguments."""
        inputs, outputs = (
            {name: np.asarray(args[arg]).reshape(shape) for arg, (name, shape) in each.items()}
            for each in (self._read, self._written)
        )
        self._network(inputs, out=outputs)


def _reads(file: _GraphFile) -> list[CaseOperand]:
    """The inputs as operands of a primitive with many sources."""
    first = rs.onednn.Arg.MULTIPLE_SRC
    return [
        CaseOperand(first + at, file.desc(name), values=partial(file.values, name))
        for at, name in enumerate(file.inputs)
    ]


def _writes(file: _GraphFile) -> list[CaseOperand]:
    """The outputs: the first one is the destination."""
    first = rs.onednn.Arg.MULTIPLE_DST
    return [
        CaseOperand(first + at if at else rs.onednn.Arg.DST, file.desc(name))
        for at, name in enumerate(file.network.outputs)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCase(Case):
    """A graph that is loaded from a file: `--graph --case=FILE`. `path` is where the file lies."""

    driver: ClassVar[str] = "graph"
    primitive: ClassVar[str] = "Network"
    template: ClassVar[str] = "%DESC%"
    problem_knob: ClassVar[str] = "case"

    path: str = ""

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The file, which is read. Raises UsageError for what is no graph."""
        try:
            _read(text)
        except Error as error:
            raise UsageError(error.with_context(f"--case={text[:200]}: {error.what}")) from None
        return {"dims": (), "problem": f"--case={text}", "path": text}

    @property
    def file(self) -> _GraphFile:
        """The contents of the file."""
        return _read(self.path)

    def invalid(self) -> Iterator[str]:
        if self.attr_words():
            yield f"Case not supported: {self.attr_words()} of a graph"
        unknown = self.file.types - {*TYPES} or self.file.kinds - {*FORMULAS}
        if unknown:
            yield f"Case not supported: there are no formulas of {', '.join(sorted(unknown))}"

    def kind(self, is_forward: bool) -> Any:
        return _GraphRun

    def create(self, engine: rs.Engine, other: rs.Engine, attr: rs.onednn.PrimitiveAttr) -> Any:
        """The plan of the network, whose kernels are made."""
        self.file.network.prepare()
        counts = Counter(step.operation for step in self.file.network.plan().steps)
        return _GraphDesc(self.file, "+".join(f"{n}*{kind}" if n > 1 else kind for kind, n in counts.items()))

    def reads(self) -> list[CaseOperand]:
        return _reads(self.file)

    def writes(self) -> list[CaseOperand]:
        return _writes(self.file)

    def formula(self, values: Values) -> Values:
        return {one.name: self.file.exact[name] for one, name in self._named()}

    def tolerance(self, name: str) -> Tolerance:
        of_name = {str(one.name): each for one, each in self._named()}

        def allows(points: Points) -> Array:
            return points.diff <= self.file.limits[of_name[name]]

        return Tolerance(0.0, 80.0, allows=allows)

    def _named(self) -> list[tuple[CaseOperand, str]]:
        return list(zip(self.writes(), self.file.network.outputs, strict=True))
