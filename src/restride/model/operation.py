"""The common part of the problems of operations: one loop tree, from which program, cost and queries are
derived.

A problem is a frozen dataclass: tensors and parameters by name, attributes last. Its class is the
specification of the operation, from which `model/derived.py` generates the primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..desc.arguments import (
    ARG_DIFF_SRC,
    ARG_DST,
    ARG_MULTIPLE_DST,
    ARG_MULTIPLE_SRC,
    ARG_SRC,
    NAMES,
    short_name,
)
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..ir.nest import needs_double
from ..ir.pointwise import moved_bytes, pointwise_program
from ..ir.problem import ProblemBase
from ..ir.program import DST, Place, Program, Slot, TreeStep
from ..ir.tree import LoopTree
from ..schedule.language import Schedule
from ..schedule.trees.split_folds import rewritten_steps
from .prop_kind import PropKind
from .result_dims import Shaped

if TYPE_CHECKING:
    from .forms import CallArguments, Form
    from .reader import ArgumentReader


SEVERAL_SOURCES = range(ARG_MULTIPLE_SRC, ARG_MULTIPLE_DST)
"""The arguments of numbered sources."""


class OperationProblem(ProblemBase):
    """The problem of an operation whose program is one loop tree.

    operation    the primitive kind, in lower case
    dnnl         oneDNN's name, if different
    primitive    the name of the primitive's class
    arguments    documentation of the arguments of its descriptor
    call         the arguments of its descriptor between `engine` and `attr`; `defaults`: default values
    algorithms   their names, without the operation's name as prefix
    reads        field -> execution argument of each input, in the order of slots
    writes       the argument of the destination
    also_writes  field -> argument of the other outputs
    chosen_names names of tensors whose formats a hint can determine: copies record the chosen ones
    prop_kinds   the allowed values of `prop_kind`, or the only one if there is no such argument;
                 `prop_kind_error` is the reason and the hint for others
    is_strided   each tensor is read and written with its own strides, as fast as a dense one: a node of a
                 graph accepts tensors of any strides
    in_place     a source can be the destination if both have the same layout
    arg_names    the constants for its arguments
    parts        fields that contain further parameters
    onnx         equivalent ONNX operators -> the algorithm, or the algorithm and its numbers, or a function
                 of the operator's attributes that returns them; a function of `call` and inputs imports the
                 operator itself
    integers     the same for operators that are this operation only for integers, and another one for floats
    aten         ATen operators -> the equivalent ONNX operator, or a function of `call`
    openvino     the same for OpenVINO layers
    node_reads   the inputs of a graph node, as argument names; those with `?` can be missing at the end, and
                 `srcs` is any number
    node_writes  its outputs
    node_values  descriptor arguments that are not parameters of a node, computed from the node and the
                 result's descriptor
    """

    operation: ClassVar[str]
    dnnl: ClassVar[str] = ""
    primitive: ClassVar[str]
    arguments: ClassVar[str]
    call: ClassVar[tuple[str, ...]]
    defaults: ClassVar[Mapping[str, object]] = {}
    last_defaults: ClassVar[Mapping[str, object]] = {}
    algorithms: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[Mapping[int, str]] = {ARG_SRC: "src"}
    writes: ClassVar[int] = ARG_DST
    also_writes: ClassVar[Mapping[int, str]] = {}
    prop_kinds: ClassVar[tuple[PropKind, ...]] = (PropKind.forward_training, PropKind.forward_inference)
    prop_kind_error: ClassVar[tuple[str, str]] = (
        "a forward primitive is forward_training or forward_inference",
        "gradients have primitives of their own, whose names end in Backward",
    )
    is_strided: ClassVar[bool] = False
    in_place: ClassVar[bool] = True
    parts: ClassVar[tuple[str, ...]] = ()
    onnx: ClassVar[Mapping[str, object]] = {}
    integers: ClassVar[Mapping[str, object]] = {}
    aten: ClassVar[Mapping[str, object]] = {}
    openvino: ClassVar[Mapping[str, object]] = {}
    chosen_names: ClassVar[frozenset[str]] = frozenset(("diff_src", "diff_dst", "diff_weights", "stat"))
    arg_names: ClassVar[Mapping[object, str]] = NAMES
    node_reads: ClassVar[tuple[str, ...]] = ("src",)
    node_writes: ClassVar[tuple[str, ...]] = ("dst",)
    node_values: ClassVar[Mapping[str, Callable[[Any, MemoryDesc], object]]] = {}

    __slots__ = ()

    if TYPE_CHECKING:  # fields of every subclass, or properties

        @property
        def dst(self) -> MemoryDesc:
            """The destination."""

        @property
        def attr(self) -> Attr:
            """The attributes."""

    @classmethod
    def read(cls, call: ArgumentReader) -> OperationProblem:
        """Return the problem for a descriptor's arguments. Raises InvalidArguments, Unimplemented."""
        raise NotImplementedError

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        """Return the dims of a node's result: `node` has the parameters. Raises Misfit."""
        return tensors[0].dims

    @classmethod
    def results_dims(cls, node: Any, *tensors: Shaped) -> tuple[tuple[int, ...], ...]:
        """Return the dims of all its results. Raises Misfit."""
        return (cls.result_dims(node, *tensors),)

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        """Return the data types of a node's results; the last one applies to the rest. Raises Misfit."""
        return (tensors[0].data_type,)

    @classmethod
    def count_of_results(cls, node: Any) -> int:
        """Return the number of a node's results: all possible ones, unless a parameter determines it."""
        return len(cls.node_writes)

    @classmethod
    def placed(
        cls, args: tuple[object, ...], named: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the arguments of a call in the order of `call`, if oneDNN has another order too."""
        return args, named

    @classmethod
    def other_form(cls, args: tuple[object, ...], named: dict[str, object]) -> Form[CallArguments] | None:
        """Return the form of a call with additional arguments, or None."""
        return None

    def own_arguments(self) -> dict[str, object]:
        """Return arguments with replacements for copies: lists may change, iterators end."""
        return {}

    def structure(self) -> Self:
        """Return the problem without the values of its attributes: equal for all that share an executable."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else replace(self, attr=structure)  # type: ignore[type-var]

    def tree(self) -> LoopTree:
        """Return the loop tree: tensors are named after their arguments or the corresponding fields; operands
        of attributes `x0`, `x1`, ... Others are temporaries, passed from one outermost loop to the next.
        """
        raise NotImplementedError

    @staticmethod
    def rewrites(tree: LoopTree) -> Schedule:
        """Return the transforms that produce another tree from the tree: split folds, or windows in rows."""
        return ()

    def sources(self) -> dict[int, MemoryDesc]:
        """The inputs, by argument, in the order of the program's slots."""
        return {arg: getattr(self, name) for arg, name in self.reads.items()}

    def outputs(self) -> dict[int, MemoryDesc]:
        """The outputs other than the destination, by argument."""
        return {arg: getattr(self, name) for arg, name in self.also_writes.items()}

    def by_argument(self) -> dict[int, MemoryDesc]:
        """Return the tensors by argument: inputs, then the destination."""
        return {**self.sources(), self.writes: self.dst}

    def parameter(self, name: str) -> object:
        """Return a parameter by its name among the arguments of the descriptor."""
        if name == "algorithm":
            return f"{self.operation}_{self._parameter(name)}"
        return self._parameter(name)

    def _parameter(self, name: str) -> object:
        holders = [self, *(getattr(self, part) for part in self.parts)]
        return next(getattr(holder, name) for holder in holders if hasattr(holder, name))

    @property
    def verbose_aux(self) -> str:
        """Return the parameters for a verbose line."""
        return ""

    @property
    def verbose_tensors(self) -> list[tuple[str, MemoryDesc]]:
        """Return the tensors for a verbose line, by name."""
        tensors = {**self.by_argument(), **self.outputs()}
        return [
            ("src" if arg in SEVERAL_SOURCES else short_name(arg, self.arg_names), md)
            for arg, md in tensors.items()
        ]

    @property
    def verbose_dims(self) -> str:
        """Return the dims for a verbose line."""
        return "x".join(map(str, self.dst.dims))

    def program(self) -> Program:
        """Return the program: the tree, or the result of its rewrites."""
        computed, tree = self.computation(), self.tree()
        (first, _), *others = self.sources().items()
        slots = (
            Slot(first),
            Slot(self.writes, is_written=True),
            *(Slot(arg) for arg, _ in others),
            *(Slot(arg, is_written=True) for arg in self.outputs()),
        )
        places = {short_name(slot.arg): Place(i) for i, slot in enumerate(slots)}
        places |= {f"x{i}": place for i, place in enumerate(computed.places(len(slots)))}
        places["old"] = Place(DST)  # the previous destination, read as another type
        fields = {**self.reads, **self.also_writes}.items()
        places = {name: places[short_name(arg)] for arg, name in fields if short_name(arg) in places} | places
        own = [tensor for tensor in tree.tensors if tensor.name not in places]
        places |= {tensor.name: Place(~i) for i, tensor in enumerate(own)}
        at = tuple(places[tensor.name] for tensor in tree.tensors)
        scalars = len(computed.scalars)
        step = TreeStep(tree, at, self.work_bytes, (0, scalars))
        steps, more = rewritten_steps(step, self.rewrites(tree), len(own))
        temporaries = (*(tensor.data_type.nbytes(prod(tensor.padded)) for tensor in own), *more)
        return Program((*slots, *computed.slots()), steps, temporaries, scalars).verify()

    @property
    def moved_bytes(self) -> int:
        """Number of bytes read and written, including padding of the destination; twice if added to."""
        others = [*self.sources().values(), *self.outputs().values()]
        return moved_bytes(others, self.dst, is_summed=self.attr.reads_dst)

    @property
    def work_bytes(self) -> int:
        """The number of bytes that could be moved in the time that the program takes."""
        return self.moved_bytes


class PointwiseProblem(OperationProblem):
    """A problem whose program is one nest: each output element is computed from the inputs at the same index.

    Sources are broadcast along their dims of 1; the steps are those of the computation.
    """

    __slots__ = ()

    def program(self) -> Program:
        """Return the program: one nest."""
        return pointwise_program(self.sources(), (self.writes, self.dst), self.computation(), self.work_bytes)


class GradientProblem(OperationProblem):
    """A problem whose output is the gradient of the source, `diff_src`."""

    writes = ARG_DIFF_SRC
    prop_kinds: ClassVar[tuple[PropKind, ...]] = (PropKind.backward_data,)
    node_reads: ClassVar[tuple[str, ...]] = ("diff_dst",)
    node_writes: ClassVar[tuple[str, ...]] = ("diff_src",)

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def diff_src(self) -> MemoryDesc:
            """A field."""

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        """Return the parameter `dims` of a node, if its result differs in size from the first tensor."""
        dims: tuple[int, ...] = getattr(node, "dims", tensors[0].dims)
        return dims

    @property
    def dst(self) -> MemoryDesc:
        """The destination."""
        return self.diff_src


def is_computed_wide(*mds: MemoryDesc) -> bool:
    """Return True if values are computed in f64, for doubles and integers of at least 32 bits."""
    return any(needs_double(md.data_type) for md in mds)
