"""Primitives and their descriptors, made of the problems of operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ..desc.arguments import (
    ARG_DIFF_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_WEIGHTS,
    ARG_DST,
    ARG_SRC_0,
    ARG_SRC_1,
    ARG_SRC_2,
    ARG_WEIGHTS,
    ARG_WORKSPACE,
)
from ..desc.memory_desc import MemoryDesc
from ..errors import refuse
from ..runtime.arguments import Executable
from ..runtime.engine import Engine
from .base import PrimitiveDescBase
from .forms import Args, CallArguments, NamedArgs, form_of
from .implementation import Implementation, compiled, find_implementation, named_descs
from .operation import SEVERAL_SOURCES, OperationProblem
from .parse import parse_engine
from .primitive import Primitive
from .prop_kind import PrimitiveKind, PropKind
from .query import Query
from .reader import ArgumentReader

# Getters whose names differ from those of the arguments.
_GETTERS = {"dilates": "dilations", "dilation": "dilations", "eps": "epsilon"}
# Names of arguments in queries; sources are numbered.
_ARG_QUERIES = {
    ARG_SRC_0: "src",
    ARG_SRC_1: "src",
    ARG_SRC_2: "src",
    ARG_WEIGHTS: "weights",
    ARG_DST: "dst",
    ARG_DIFF_SRC: "diff_src",
    ARG_DIFF_WEIGHTS: "diff_weights",
    ARG_DIFF_DST: "diff_dst",
    ARG_WORKSPACE: "workspace",
}
_QUERIES = {"axis": Query.axis_s32, "group_size": Query.group_size_s64, "local_size": Query.local_size_s64}


class DerivedPrimitiveDesc(PrimitiveDescBase):
    """A primitive descriptor of an operation.

    `_by_arg`: its tensors by argument, the destination last. `_hint_kind`: for a gradient, the descriptor of
    its forward step. `_made_of`: the arguments of the call, for copies.
    """

    _operation: ClassVar[type[OperationProblem]]
    _hint_kind: ClassVar[type[PrimitiveDescBase] | None]
    # Position of the hint among the arguments; negative if there is none.
    _hint_place: ClassVar[int] = -1

    __slots__ = ("_by_arg", "_made_of", "_prop_kind")
    _by_arg: dict[int, MemoryDesc]
    _made_of: CallArguments | None
    _prop_kind: PropKind

    def _arguments(self, args: Args, named: NamedArgs) -> CallArguments:
        other = self._operation.other_form(args, named)
        if other is not None:
            return other.of(args, named)
        args, named = self._operation.placed(args, named)
        if self._hint_place >= 0:
            args, named = _hint_moved(args, named, self._hint_place)
        return self.form.of(args, named)

    def _create(self, arguments: CallArguments) -> None:
        what = self.form.what
        engine = parse_engine(what, arguments.engine)
        self._made_of, self._prop_kind = arguments, self._parsed_kind(arguments)
        algorithms = f"{self._operation.operation}_", self._operation.algorithms
        call = ArgumentReader(what, arguments, self._prop_kind, algorithms, self._hint_kind)
        problem = self._operation.read(call)
        self._by_arg = problem.by_argument()
        self._attr = problem.attr
        impl = find_implementation(problem, engine, self._describe, lambda: self._executable(problem, engine))
        first, *_, last = self._by_arg.values()
        self._set(impl, first, last, problem.attr)

    def _executable(self, problem: OperationProblem, engine: Engine) -> Executable:
        """Return the executable of a problem."""
        return compiled(problem, engine)

    def _parsed_kind(self, arguments: CallArguments) -> PropKind:
        """Return the propagation kind: the one passed, or the only one."""
        kinds = self._operation.prop_kinds
        if "prop_kind" not in self._operation.call:
            return kinds[0] if kinds else PropKind.undef
        kind = PropKind.parse(arguments.prop_kind, self.form.what)
        if kind in kinds:
            return kind
        why, hint = self._operation.prop_kind_error
        raise refuse("RS-S05:prop-kind", what=self.form.what, kind=kind, why=why, hint=hint)

    def _empty(self) -> None:
        super()._empty()
        self._by_arg, self._made_of, self._prop_kind = {}, None, PropKind.undef

    def __reduce__(self) -> tuple[object, Args]:
        # Attributes may have changed since then: the copy uses the original ones.
        return (type(self), self._copied()) if self else (type(self), ())

    def _copied(self) -> Args:
        """Return the arguments that create a copy."""
        assert self._made_of is not None
        problem = self._implementation().problem
        assert isinstance(problem, OperationProblem)
        changes = {**problem.own_arguments(), "attr": self.get_primitive_attr()}
        if self._hint_place >= 0:
            # Formats determined by a hint are recorded: the copy is created without the hint.
            names = self._operation.chosen_names.intersection(self._operation.call)
            mds = {name: getattr(problem, name, None) for name in names}
            changes |= {name: md for name, md in mds.items() if isinstance(md, MemoryDesc)}
            changes["hint_pd"] = None
        return tuple(self._made_of._replace(**changes))

    def get_prop_kind(self) -> PropKind:
        """Return the propagation kind."""
        self._implementation()
        return self._prop_kind

    def _tensors(self) -> dict[int, MemoryDesc]:
        return self._by_arg

    def _descs_by_name(self) -> Mapping[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        mds: dict[str, tuple[MemoryDesc, ...]] = {}
        others = self._impl.outputs() if self._impl else {}
        for arg, md in (*self._by_arg.items(), *others.items()):
            name = "src" if arg in SEVERAL_SOURCES else _ARG_QUERIES.get(arg, "")
            mds[name] = (*mds.get(name, ()), md)
        return mds

    def _describe(self, op: str, impl: Implementation, ms: float) -> list[object]:
        return describe_operation(op, impl, ms, self._prop_kind)

    def get_kind(self) -> str:
        """Return the primitive kind in lower case."""
        word = self._operation.operation
        return PrimitiveKind.__members__.get(word, word)

    def _integers(self) -> dict[Query, int]:
        queries = {name: query for name, query in _QUERIES.items() if self and name in self._operation.call}
        integers: dict[Query, Any] = {query: self._parameter(name) for name, query in queries.items()}
        return super()._integers() | integers

    def _parameter(self, name: str) -> object:
        problem = self._implementation().problem
        assert isinstance(problem, OperationProblem)
        return problem.parameter(name)


def describe_operation(
    op: str, impl: Implementation, ms: float, prop_kind: str = PropKind.undef
) -> list[object]:
    """Return the fields of a verbose line about an operation."""
    problem = impl.problem
    assert isinstance(problem, OperationProblem)
    aux = " ".join(filter(None, (problem.verbose_aux, f"why:{impl.why}")))
    head = [op, impl.engine.kind, problem.operation, impl.name, prop_kind]
    names, tensors = zip(*problem.verbose_tensors, strict=True)
    mds = named_descs(names, tensors)
    return [*head, mds, problem.attr.verbose_str(), aux, problem.verbose_dims, ms]


def find_operation(problem: OperationProblem, engine: Engine) -> Implementation:
    """Return the implementation of a checked problem, from the cache or newly created."""
    return find_implementation(problem, engine, describe_operation, lambda: compiled(problem, engine))


def make_primitive(
    problem: type[OperationProblem],
    forward: type[Primitive] | None = None,
    desc: type[DerivedPrimitiveDesc] = DerivedPrimitiveDesc,
    base: type[Primitive] = Primitive,
) -> type[Primitive]:
    """Return the primitive of an operation, or of its gradient if `forward` is that of its forward step.

    Its class is available as `restride.onednn.<name>`. `base`, `desc`: base classes of it and of its
    descriptor.
    """
    name = problem.primitive
    required = [word for word in problem.call if word not in problem.defaults]
    optional = {**problem.defaults, "attr": None} | ({} if forward is None else {"hint_pd": None})
    form = form_of(
        f"{name}.PrimitiveDesc", "engine", *required, **optional, allow_empty=False, **problem.last_defaults
    )
    getters = {
        f"get_{_GETTERS.get(word, word)}": _getter(word) for word in problem.call if word in _PARAMETERS
    }
    module = {"__module__": "restride.onednn", "__slots__": ()}
    cls = type(
        "PrimitiveDesc",
        (desc,),
        {
            **module,
            **getters,
            "__qualname__": f"{name}.PrimitiveDesc",
            "__doc__": _desc_doc(problem, str(form.shown)),
            "kind": name,
            "form": form,
            "_operation": problem,
            "_hint_kind": None if forward is None else forward.PrimitiveDesc,
            "_hint_place": -1 if forward is None else list(form.shown.parameters).index("hint_pd"),
        },
    )
    return type(
        name,
        (base,),
        {
            **module,
            "__doc__": _primitive_doc(problem),
            "PrimitiveDesc": cls,
            "kind": name,
            "_may_be_in_place": problem.in_place,
        },
    )


def _hint_moved(args: Args, named: NamedArgs, own_place: int) -> tuple[Args, NamedArgs]:
    """Convert arguments with a hint before the attributes, as in C++: the rest become named arguments."""
    place = next((i for i, arg in enumerate(args) if isinstance(arg, PrimitiveDescBase)), own_place)
    if place == own_place or "hint_pd" in named:
        return args, named
    before, hint, behind = args[:place], args[place], args[place + 1 :]
    return before, {**named, "hint_pd": hint, **dict(zip(("attr", "allow_empty"), behind, strict=False))}


def _getter(name: str) -> Any:
    def get(self: DerivedPrimitiveDesc) -> object:
        return self._parameter(name)

    get.__name__ = get.__qualname__ = f"get_{_GETTERS.get(name, name)}"
    kind, get.__doc__ = _PARAMETERS[name]
    get.__annotations__ = {"return": kind}
    return get


_PARAMETERS = {
    "algorithm": ("str", "The algorithm under oneDNN's name, such as `softmax_log` or `pooling_max`."),
    "axis": ("int", "The axis, counted from 0."),
    "alpha": ("float", "The number `alpha`, rounded to f32."),
    "beta": ("float", "The number `beta`, rounded to f32."),
    "k": ("float", "The number `k`, rounded to f32."),
    "p": ("float", "The p of a norm; 0 for other algorithms."),
    "eps": ("float", "The eps of a norm; 0 for other algorithms."),
    "epsilon": ("float", "The summand of the variance, rounded to f32."),
    "group_size": ("int", "The group size of the forward shuffle."),
    "local_size": ("int", "The number of positions of a window along a dim."),
    "strides": ("tuple[int, ...]", "The distance between windows, for each spatial dim."),
    "kernel": ("tuple[int, ...]", "The window size, for each spatial dim."),
    "dilates": ("tuple[int, ...]", "The number of positions skipped between two in a window, for each dim."),
    "dilation": ("tuple[int, ...]", "The number of positions skipped between two in a window, for each dim."),
    "padding_l": ("tuple[int, ...]", "The padding at the start, for each spatial dim."),
    "padding_r": (
        "tuple[int, ...]",
        "The padding at the end, for each spatial dim; negative where the source is cropped.",
    ),
}


def _desc_doc(problem: type[OperationProblem], signature: str) -> str:
    name = problem.dnnl or problem.operation
    way = "".join(re.findall("(?:Forward|Backward)[A-Za-z]*$", problem.primitive))
    suffix = re.sub("([A-Z])", r"_\1", way).lower()
    return f"""Primitive descriptor of {"the gradient of " * ("backward" in suffix)}{name.replace("_", " ")}.

    As `dnnl::{name}{suffix}::primitive_desc`: `PrimitiveDesc{signature}`;
    without arguments it is empty and False. With `allow_empty`, a failure gives an empty descriptor.
    {problem.arguments.rstrip()}

    Raises InvalidArguments for invalid arguments, Unimplemented for unsupported ones.
    """


def _primitive_doc(problem: type[OperationProblem]) -> str:
    return f"""{(problem.__doc__ or "").strip()}

    `{problem.primitive}(pd)`; without arguments it is empty, and executing it is an error.
    """
