"""Primitives and their descriptors, made of the problems of operations."""

from __future__ import annotations

from typing import Any, ClassVar

from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..runtime.engine import Engine
from .base import PrimitiveDescBase
from .forms import Args, CallArguments, NamedArgs, form_of
from .implementation import Describe, Implementation, compiled, find_implementation, named_descs
from .operation import OperationProblem
from .pointwise import OneStepPrimitiveDesc
from .primitive import Primitive
from .prop_kind import PrimitiveKind, PropKind
from .query import Query
from .reader import ArgumentReader

# Getters whose names are not those of the arguments.
_GETTERS = {"dilation": "dilations", "eps": "epsilon"}
_QUERIES = {"axis": Query.axis_s32, "group_size": Query.group_size_s64, "local_size": Query.local_size_s64}


class DerivedPrimitiveDesc(OneStepPrimitiveDesc):
    """A primitive descriptor of an operation. `_hint_kind`: that of its forward step, for a gradient."""

    _operation: ClassVar[type[OperationProblem]]
    _hint_kind: ClassVar[type[PrimitiveDescBase] | None]

    __slots__ = ()

    def _arguments(self, args: Args, named: NamedArgs) -> CallArguments:
        other = self._operation.other_form(args, named)
        return super()._arguments(args, named) if other is None else other.of(args, named)

    def _placed(self, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        return self._operation.placed(args, named)

    def _problem(self, what: str, arguments: CallArguments) -> tuple[OperationProblem, dict[int, MemoryDesc]]:
        call = ArgumentReader(what, arguments, self._prop_kind, self._operation, self._hint_kind)
        problem = self._operation.read(call)
        return problem, problem.tensors()

    def _parsed_kind(self, arguments: CallArguments) -> PropKind:
        known = self._operation.prop_kinds
        if "prop_kind" not in self._operation.call:
            return known[0] if known else PropKind.undef
        kind = PropKind.parse(arguments.prop_kind, self.form.what)
        if kind in known:
            return kind
        is_forward = PropKind.forward_training in known
        raise InvalidArguments(
            f"{self.form.what}: prop_kind is {kind}",
            code="RS-S05",
            why=f"a {'forward primitive' if is_forward else 'backward normalization'} is "
            + " or ".join(known),
            hint="gradients have primitives of their own, whose names end in Backward"
            if is_forward
            else "backward writes the gradients of scale and shift too",
        )

    def _copied(self, **chosen: object) -> Args:
        # Formats that a hint has decided are as chosen: the copy is made without it.
        problem = self._implementation().problem
        tensors = {name: getattr(problem, name, None) for name in self._operation.call}
        return super()._copied(**{name: md for name, md in tensors.items() if isinstance(md, MemoryDesc)})

    def get_kind(self) -> str:
        """The primitive kind, in small letters."""
        word = self._operation.operation
        return PrimitiveKind.__members__.get(word, word)

    def _integers(self) -> dict[Query, int]:
        known = {name: query for name, query in _QUERIES.items() if name in self._operation.call}
        found: dict[Query, Any] = {query: self._parameter(name) for name, query in known.items() if self}
        return super()._integers() | found

    def _describe(self, op: str, impl: Implementation, ms: float) -> list[object]:
        return describe_operation(op, impl, ms, self._prop_kind)

    def _parameter(self, name: str) -> object:
        problem = self._implementation().problem
        assert isinstance(problem, OperationProblem)
        return problem.parameter(name)


def describe_operation(
    op: str, impl: Implementation, ms: float, prop_kind: str = PropKind.undef
) -> list[object]:
    """The fields of a verbose line about an operation."""
    problem = impl.problem
    assert isinstance(problem, OperationProblem)
    aux = " ".join(filter(None, (problem.verbose_aux, f"why:{impl.why}")))
    head = [op, impl.engine.kind, problem.operation, impl.name, prop_kind]
    names, tensors = zip(*problem.verbose_tensors, strict=True)
    mds = named_descs(names, tensors)
    return [*head, mds, problem.attr.verbose_str(), aux, problem.verbose_dims, ms]


def find_operation(
    problem: OperationProblem, engine: Engine, describe: Describe = describe_operation
) -> Implementation:
    """The implementation of a checked problem, from the cache or made now."""
    return find_implementation(problem, engine, describe, lambda: compiled(problem, engine))


def make_primitive(
    problem: type[OperationProblem],
    forward: type[Primitive] | None = None,
    desc: type[DerivedPrimitiveDesc] = DerivedPrimitiveDesc,
    base: type[Primitive] = Primitive,
) -> type[Primitive]:
    """The primitive of an operation, or of its gradient where `forward` is the primitive of its forward step.

    Its class is found as `restride.onednn.<name>`. `desc` and `base`: what
    descriptor and primitive derive from.
    """
    name = problem.primitive
    required = [each for each in problem.call if each not in problem.defaults]
    optional = {**problem.defaults, "attr": None} | ({} if forward is None else {"hint_pd": None})
    form = form_of(
        f"{name}.PrimitiveDesc", "engine", *required, **optional, allow_empty=False, **problem.last_defaults
    )
    getters = {
        f"get_{_GETTERS.get(each, each)}": _getter(each) for each in problem.call if each in _PARAMETERS
    }
    module = {"__module__": "restride.onednn", "__slots__": ()}
    made = type(
        f"{name}PrimitiveDesc",
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
        },
    )
    return type(
        name,
        (base,),
        {
            **module,
            "__doc__": _primitive_doc(problem),
            "PrimitiveDesc": made,
            "kind": name,
            "_may_be_in_place": problem.in_place,
        },
    )


def _getter(name: str) -> Any:
    def get(self: DerivedPrimitiveDesc) -> object:
        return self._parameter(name)

    get.__name__ = get.__qualname__ = f"get_{_GETTERS.get(name, name)}"
    kind, get.__doc__ = _PARAMETERS[name]
    get.__annotations__ = {"return": kind}
    return get


_PARAMETERS = {
    "algorithm": ("str", "The algorithm as oneDNN calls it, such as `softmax_log` or `pooling_max`."),
    "axis": ("int", "The axis, counted from 0."),
    "alpha": ("float", "The number `alpha`, as rounded to f32."),
    "beta": ("float", "The number `beta`, as rounded to f32."),
    "k": ("float", "The number `k`, as rounded to f32."),
    "p": ("float", "The p of a norm; 0 for other algorithms."),
    "eps": ("float", "The eps of a norm; 0 for other algorithms."),
    "epsilon": ("float", "What is added to the variance, as rounded to f32."),
    "group_size": ("int", "The group size of the forward shuffle."),
    "local_size": ("int", "How many positions a window has along a dim."),
    "strides": ("tuple[int, ...]", "From one window to the next, for each spatial dim."),
    "kernel": ("tuple[int, ...]", "The positions of a window, for each spatial dim."),
    "dilation": (
        "tuple[int, ...]",
        "How many positions a window leaves out between two, for each dim.",
    ),
    "padding_l": ("tuple[int, ...]", "The padding in front, for each spatial dim."),
    "padding_r": (
        "tuple[int, ...]",
        "The padding behind, for each spatial dim; below 0 what is left out of the source.",
    ),
}


def _desc_doc(problem: type[OperationProblem], shown: str) -> str:
    what = problem.operation.replace("_", " ")
    is_gradient = "diff_dst" in problem.call
    has_both = problem.primitive.endswith(("Forward", "Backward"))
    suffix = "_backward" if is_gradient else "_forward" if has_both else ""
    return f"""Primitive descriptor of {"the gradient of " if is_gradient else ""}{what}.

    As `dnnl::{problem.operation}{suffix}::primitive_desc`: `PrimitiveDesc{shown}`;
    without arguments it is empty and False. With `allow_empty`, a failure gives an empty descriptor.
    {problem.arguments.rstrip()}

    Raises InvalidArguments for what makes no sense, Unimplemented for what is not provided.
    """


def _primitive_doc(problem: type[OperationProblem]) -> str:
    return f"""{(problem.__doc__ or "").strip()}

    `{problem.primitive}(pd)`; without arguments it is empty, and executing it is an error.
    """
