"""The common part of the problems of operations: one loop tree, from which program, cost and queries follow.

A problem is a frozen dataclass: tensors and parameters by name, attributes last. Its class is the
specification of the operation; `model/derived.py` makes the primitive of it.
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
"""The arguments of sources that are numbered."""


class OperationProblem(ProblemBase):
    """A problem of an operation whose program is one loop tree.

    operation    the primitive kind, in small letters
    dnnl         what oneDNN's documents call it, where they have another name
    primitive    the name of the primitive's class
    arguments    what the arguments of its descriptor are, in words
    call         the arguments of its descriptor between `engine` and `attr`, `defaults` those of some
    algorithms   their names, without the prefix that is the operation's name
    reads        which field is read as which argument of an execution, in the order of slots
    writes       which argument is written
    also_writes  which field is written as which argument beside it
    chosen_names tensors by name whose formats a hint may decide: copies have those that were chosen
    prop_kinds   what `prop_kind` may be, or the only one where there is no such argument; `prop_kind_error`
                 says why no other, and what to do
    is_strided   each tensor is read and written by strides of its own, as fast as a dense one: a node of a
                 graph takes tensors as they come
    in_place     a source may be the destination, where both lie alike
    arg_names    the constants that its arguments go by
    parts        fields that hold further parameters
    onnx         ONNX's operators that are this operation: its algorithm, or that and its numbers, or a
                 function of the operator's attributes that gives them; a function of `call` and inputs is
                 the operator's own
    integers     in the same way those that are this operation of integers alone, and another one of floats
    aten         ATen's, by the ONNX operator that does the same, or a function of `call`
    openvino     OpenVINO's layers, in the same way
    node_reads   what a node of a graph reads, by the names of arguments; one with `?` may be missing at the
                 end, and `srcs` are any number
    node_writes  what it writes
    node_values  arguments of the descriptor that are no parameters of a node by their names: made of the node
                 and the result's descriptor
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
        """The problem of a primitive descriptor's arguments. Raises InvalidArguments, Unimplemented."""
        raise NotImplementedError

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        """The dims that a node's result has: `node` has the parameters. Raises Misfit."""
        return tensors[0].dims

    @classmethod
    def results_dims(cls, node: Any, *tensors: Shaped) -> tuple[tuple[int, ...], ...]:
        """Those of all its results. Raises Misfit."""
        return (cls.result_dims(node, *tensors),)

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        """The data types of a node's results; all that are not said are as the last one. Raises Misfit."""
        return (tensors[0].data_type,)

    @classmethod
    def count_of_results(cls, node: Any) -> int:
        """How many results a node has: all that can be written, where a parameter says nothing else."""
        return len(cls.node_writes)

    @classmethod
    def placed(
        cls, args: tuple[object, ...], named: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments of a call in the order of `call`, where oneDNN has another order too."""
        return args, named

    @classmethod
    def other_form(cls, args: tuple[object, ...], named: dict[str, object]) -> Form[CallArguments] | None:
        """The form of a call that has further arguments; None for that of `call`."""
        return None

    def own_arguments(self) -> dict[str, object]:
        """Arguments that a copy must not have as they were passed: lists may change, iterators end."""
        return {}

    def structure(self) -> Self:
        """The problem without the values of its attributes: equal for all that share an executable."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else replace(self, attr=structure)  # type: ignore[type-var]

    def tree(self) -> LoopTree:
        """The loop tree: tensors by the names of their arguments, or of the fields that are read or written
        as these; operands of attributes `x0`, `x1`, ... Others are temporaries, from one outermost loop to
        the next.
        """
        raise NotImplementedError

    @staticmethod
    def rewrites(tree: LoopTree) -> Schedule:
        """The transforms that make another tree of the tree: folds in pieces, or windows in rows."""
        return ()

    def sources(self) -> dict[int, MemoryDesc]:
        """The tensors that are read, by argument, in the order of the program's slots."""
        return {arg: getattr(self, name) for arg, name in self.reads.items()}

    def outputs(self) -> dict[int, MemoryDesc]:
        """What is written beside the destination, by argument."""
        return {arg: getattr(self, name) for arg, name in self.also_writes.items()}

    def by_argument(self) -> dict[int, MemoryDesc]:
        """The tensors by argument: those that are read, then the one that is written."""
        return {**self.sources(), self.writes: self.dst}

    def parameter(self, name: str) -> object:
        """A parameter by its name among the arguments of the descriptor."""
        if name == "algorithm":
            return f"{self.operation}_{self._parameter(name)}"
        return self._parameter(name)

    def _parameter(self, name: str) -> object:
        holders = [self, *(getattr(self, part) for part in self.parts)]
        return next(getattr(holder, name) for holder in holders if hasattr(holder, name))

    @property
    def verbose_aux(self) -> str:
        """The parameters in a verbose line."""
        return ""

    @property
    def verbose_tensors(self) -> list[tuple[str, MemoryDesc]]:
        """The tensors in a verbose line, by name."""
        tensors = {**self.by_argument(), **self.outputs()}
        return [
            ("src" if arg in SEVERAL_SOURCES else short_name(arg, self.arg_names), md)
            for arg, md in tensors.items()
        ]

    @property
    def verbose_dims(self) -> str:
        """The dims in a verbose line."""
        return "x".join(map(str, self.dst.dims))

    def program(self) -> Program:
        """The program: the tree, or what its rewrites make of it."""
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
        places["old"] = Place(DST)  # the old destination, read as another type
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
        """Bytes read and written, padding of the destination included; twice where it is added to."""
        others = [*self.sources().values(), *self.outputs().values()]
        return moved_bytes(others, self.dst, is_summed=self.attr.reads_dst)

    @property
    def work_bytes(self) -> int:
        """The number of bytes that could be moved in the time that the program takes."""
        return self.moved_bytes


class PointwiseProblem(OperationProblem):
    """A problem whose program is one nest: each element of what is written is computed of those at its index.

    Sources are repeated along their dims of 1; the steps are those of the computation.
    """

    __slots__ = ()

    def program(self) -> Program:
        """The program: one nest."""
        return pointwise_program(self.sources(), (self.writes, self.dst), self.computation(), self.work_bytes)


class GradientProblem(OperationProblem):
    """A problem that writes the gradient of the source, `diff_src`."""

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
        """The parameter `dims` of a node, where it is not as large as the first tensor."""
        dims: tuple[int, ...] = getattr(node, "dims", tensors[0].dims)
        return dims

    @property
    def dst(self) -> MemoryDesc:
        """The destination."""
        return self.diff_src


def is_computed_wide(*mds: MemoryDesc) -> bool:
    """True where values are computed as f64: f32 holds neither doubles nor integers of 32 bits and more."""
    return any(needs_double(md.data_type) for md in mds)
