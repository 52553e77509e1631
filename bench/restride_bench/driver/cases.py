"""An operation of the driver is a class of cases, and one case a frozen value of it.

The fields of the class are the knobs, and what a problem says; its methods say which tensors there are, what
they hold, and the formula that answers are compared with. All else is the same for every operation: what a
primitive descriptor takes is found by the names of its arguments.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple, get_type_hints

import restride as rs
from restride import DataType

from .attr_text import (
    Factors,
    FactorText,
    PostOpText,
    PostOpTexts,
    parse_output_scale,
    parse_post_ops,
    parse_scales,
    parse_zero_points,
)
from .compare import Tolerance
from .fill import Array
from .knobs import Flag, Knob, caseless, knob_text, matching, of_value, unquoted
from .operands import CaseOperand, Values
from .problems import Dims, parse_dims

_ROUNDING = "(src[01]?|dst|wei|bia|diff_src|diff_wei|diff_weights)(:(environment|stochastic)(:[0-9]*)?)?"
_FPMATH = "(strict|bf16|f16|tf32|any)(:(true|false|0|1))?"
_CONTEXT = "(auto|[1-9][0-9]{0,4})(:(auto|[0-9]{1,3})){0,2}"
_DROPOUT = r"([0-9]*\.?[0-9]+(:[0-9]*(:[0-9a-zA-Z_]*)*)?)?"
Context = Annotated[str, matching(_CONTEXT, "it is THREADS[:CORE_TYPE[:THREADS_PER_CORE]]")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The common part of all cases: dims, an arbitrary name, attributes, and the accepted implementations.

    `dims` are those of the result. A problem of several tensors has `vdims`, the dims of each, as many as the
    longest has: those that a tensor leaves out are 1. `problem` is how a problem in letters was written.
    `driver` is the operation's name on the command line, `primitive` that of restride's classes without the
    direction, `template` what the performance template `csv` has of it.
    """

    driver: ClassVar[str] = ""
    primitive: ClassVar[str] = ""
    template: ClassVar[str] = ""
    # True for what may have a depthwise convolution as a post-op.
    takes_depthwise: ClassVar[bool] = False
    # False for what the reference engine is asked about, bit by bit.
    has_formula: ClassVar[bool] = True
    # True for gradients that are told the forward descriptor.
    has_hint: ClassVar[bool] = True
    # Tensors whose names among the arguments of a descriptor are others.
    argument_names: ClassVar[Mapping[str, str]] = {}
    # Knobs by other names than that of a field.
    other_knobs: ClassVar[Mapping[str, Knob]] = {
        "attr-oscale": Knob(of_value(parse_output_scale), field="attr_scales")
    }
    # Knobs that a reproducer line has last, behind those of attributes, and knobs that turn fastest.
    last_knob: ClassVar[str] = ""
    # The knob whose value is a file that says a problem, in the place of a word.
    problem_knob: ClassVar[str] = ""
    innermost_knob: ClassVar[str] = ""

    dims: Dims
    vdims: tuple[Dims, ...] = ()
    problem: str = ""
    name: str = ""
    attr_scales: Annotated[Factors, Knob(of_value(parse_scales))] = ()
    attr_zero_points: Annotated[Factors, Knob(of_value(parse_zero_points))] = ()
    attr_post_ops: Annotated[PostOpTexts, Knob(of_value(parse_post_ops))] = ()
    attr_scratchpad: Annotated[str, caseless("library", "user")] = "library"
    attr_fpmath: Annotated[
        str,
        matching(_FPMATH, "there are strict, bf16, f16, tf32 and any", is_lower=True, empty="strict"),
    ] = "strict"
    attr_acc_mode: Annotated[str, caseless("strict", "relaxed", "any", "f32", "s32", "f16")] = "strict"
    attr_rounding_mode: Annotated[
        str,
        matching(
            rf"({_ROUNDING}(\+{_ROUNDING})*)?",
            "it is ARG:MODE[:SEED], with + between several",
            "the modes are environment and stochastic",
            is_lower=True,
        ),
    ] = ""
    attr_deterministic: Flag = False
    attr_dropout: Annotated[str, matching(_DROPOUT, "it is PROBABILITY[:SEED[:TAG]]")] = ""
    attr_precomputed_reductions: Annotated[str, Knob(of_value(str))] = ""
    # There is one filter, and the last of both knobs sets it.
    impl: Annotated[str, Knob(of_value(unquoted), is_list=False, excludes="skip_impl")] = ""
    skip_impl: Annotated[str, Knob(of_value(unquoted), is_list=False, excludes="impl")] = ""
    ctx_init: Context = "auto"
    ctx_exe: Context = "auto"

    def __post_init__(self) -> None:
        if getattr(self, "mb", 0):  # the knob that says the batch
            object.__setattr__(self, "dims", (self.mb, *self.dims[1:]))  # type: ignore[attr-defined]

    # --- what an operation says of itself ---

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The fields that a problem says. Raises UsageError for what is none."""
        return parse_dims(text)

    @property
    def types(self) -> tuple[str, ...]:
        """The data types of the tensors; restride may have none such."""
        every = (getattr(self, name, ()) for name in ("dt", "sdt", "ddt"))
        return tuple(kind for each in every for kind in ([each] if isinstance(each, str) else each))

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense, or is not supported: reasons to skip it."""
        return iter(())

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        """All inputs and outputs, without those of attributes: by the name of the argument, what is
        read in front, source and destination first of their kind.
        """
        raise NotImplementedError

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        """The arguments of the primitive descriptor that are no tensors."""
        return {}

    def values(self, name: str) -> Array:
        """The elements of a tensor that is read, or of a destination that is summed, in logical order."""
        raise NotImplementedError

    def formula(self, values: Values) -> Values:
        """Return the expected results for the inputs, in f64 and by name. A destination may be an input."""
        raise NotImplementedError

    def tolerance(self, name: str) -> Tolerance:
        """The tolerance of results compared with the formula."""
        raise NotImplementedError

    def is_written(self, name: str) -> bool:
        """True for a tensor that is written and checked."""
        if self.is_forward:
            return name.startswith(("dst", "workspace"))
        return name.startswith("diff_") and not name.startswith("diff_dst")

    @property
    def summed(self) -> tuple[str, ...]:
        """Tensors that results are added to, without a post-op."""
        return ()

    def attr_dims(self, arg: str) -> Dims:
        """The dims of the tensor that scales and zero points of an argument are of."""
        return self.dims

    def attr_mask(self, factor: FactorText) -> int:
        """Bit i where dim i of that tensor has values of its own."""
        return factor.mask(len(self.attr_dims(factor.arg)))

    def post_op_dims(self, index: int) -> Dims:
        """The dims of what a post-op is done to."""
        return self.dims

    def prepare(self, attr: rs.onednn.PrimitiveAttr) -> None:
        """Set attributes that are the operation's own."""

    def append_depthwise(self, post_ops: rs.onednn.PostOps, op: PostOpText) -> list[CaseOperand]:
        """Append a depthwise convolution of the result; its weights, and its bias where there is one."""
        raise NotImplementedError

    # --- what follows ---

    @property
    def way(self) -> str:
        """The direction as the knob has it, or the empty string where there is one only."""
        return str(getattr(self, "dir", getattr(self, "prop", "")))

    @property
    def propagation(self) -> str:
        """`forward`, `backward`, or of what has weights `backward_data` and `backward_weights`."""
        return "backward" if self.way.startswith("BWD") else "forward"

    @property
    def is_forward(self) -> bool:
        """True for the function itself."""
        return self.propagation == "forward"

    @property
    def has_sum(self) -> bool:
        """True where the old destination is read."""
        return self.is_forward and any(op.kind == "sum" for op in self.attr_post_ops)

    def operand(self, name: str, md: rs.MemoryDesc) -> CaseOperand:
        """A tensor, and what it holds."""
        return CaseOperand(name, md, values=partial(self.values, name))

    def reads(self) -> list[CaseOperand]:
        """The inputs, source first, without those of attributes."""
        tensors = self.tensors(self.is_forward)
        return [self.operand(name, md) for name, md in tensors.items() if not self.is_written(name)]

    def writes(self) -> list[CaseOperand]:
        """The outputs that are checked, destination first."""
        tensors = self.tensors(self.is_forward)
        made = [self.operand(name, md) for name, md in tensors.items() if self.is_written(name)]
        others = [one if one.name in self.summed else replace(one, values=None) for one in made[1:]]
        return [*made[:1], *others]

    def kind(self, is_forward: bool) -> Any:
        """The class of the primitive."""
        propagation = "forward" if is_forward else self.propagation
        return getattr(rs, self.primitive + (propagation.title().replace("_", "") if self.way else ""))

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """The arguments of the primitive descriptor by name; a gradient's hint is the forward one."""
        known = _arguments_of(self.kind(is_forward).PrimitiveDesc)
        found = self.parameters(is_forward)
        for name, md in self.tensors(is_forward).items():
            words = [self.argument_names[name]] if name in self.argument_names else [name, f"{name}_desc"]
            found |= {word: md for word in words if word in known or name in self.argument_names}
        return found

    def create(self, engine: rs.Engine, other: rs.Engine, attr: rs.onednn.PrimitiveAttr) -> Any:
        """The primitive descriptor on the engines of source and destination."""
        if self.is_forward:
            return self.described(engine, attr=attr)
        hint = {"hint_pd": self.described(engine)} if self.has_hint else {}
        return self.kind(False).PrimitiveDesc(engine=engine, **self.arguments(False), attr=attr, **hint)

    def described(self, engine: rs.Engine, **attr: rs.onednn.PrimitiveAttr) -> Any:
        """The forward descriptor."""
        is_inference = self.way == "FWD_I"
        prop = {"prop_kind": f"forward_{'inference' if is_inference else 'training'}"} if self.way else {}
        return self.kind(True).PrimitiveDesc(engine=engine, **prop, **self.arguments(True), **attr)

    # --- words ---

    @classmethod
    def order(cls) -> list[str]:
        """Names of the knobs as a reproducer line has them, those of attributes last."""
        return sorted(table_of(cls).fields, key=cls.last_knob.__eq__)

    @classmethod
    def loops(cls) -> list[str]:
        """The same; the first is the outermost loop of an expansion."""
        return sorted(cls.order(), key=cls.innermost_knob.__eq__)

    def knobs(self, is_full: bool = False) -> list[str]:
        """The knobs as words: those that are not at their defaults, or all."""
        defaults = table_of(type(self)).defaults
        values = [(name, getattr(self, name)) for name in self.order()]
        return [knob_text(name, value) for name, value in values if is_full or value != defaults[name]]

    def words(self, is_full: bool = False) -> str:
        """The case as benchdnn's command line has it: driver, knobs, dims."""
        return " ".join((f"--{self.driver}", *self.knobs(is_full), self.desc))

    @property
    def desc(self) -> str:
        """Dims and name: `2x64x3x3`, `48x64_n"weights"`."""
        return self.shape + (f'_n"{self.name}"' if self.name else "")

    @property
    def shape(self) -> str:
        """The dims, `2x64x3x3` or `3x5x6:1x5x6`; or the problem as it was written."""
        every = self.vdims or (self.dims,)
        return self.problem or ":".join("x".join(map(str, dims)) for dims in every)

    def attr_words(self) -> str:
        """The knobs of attributes, for the token %attr%."""
        return " ".join(word for word in self.knobs() if word.startswith("--attr"))


@functools.cache
def _arguments_of(desc: Any) -> frozenset[str]:
    return frozenset(inspect.signature(desc).parameters)


class KnobTable(NamedTuple):
    """The knobs of an operation by name, `bia-dt`, and by field; the defaults of all fields."""

    knobs: Mapping[str, Knob]
    fields: Mapping[str, Knob]
    defaults: Mapping[str, Any]


def table_of(cls: type[Case]) -> KnobTable:
    """The knobs of an operation."""
    hashable: Any = cls
    return _table(hashable)


@functools.cache
def _table(cls: Any) -> KnobTable:
    hints = get_type_hints(cls, include_extras=True)
    shared = [f.name for f in fields(Case)]
    names = [*(f.name for f in fields(cls) if f.name not in shared), *shared]
    every = {name: getattr(hints[name], "__metadata__", (None,))[0] for name in names}
    own = {name: knob for name, knob in every.items() if isinstance(knob, Knob)}
    by_name = {name.replace("_", "-"): knob for name, knob in own.items()}
    knobs = {**by_name, **Case.other_knobs, **cls.other_knobs}
    return KnobTable(knobs, own, {f.name: f.default for f in fields(cls)})


def bits_of(name: str) -> int:
    """Bits of an element of a type."""
    return DataType.parse(name).bits


def why_not_in_place(src: tuple[str, Any], dst: tuple[str, Any]) -> Iterator[str]:
    """Why a tensor of this type and tag cannot lie where another one does."""
    if bits_of(src[0]) != bits_of(dst[0]):
        yield f"Invalid case: in place with elements of two sizes, {src[0]} and {dst[0]}"
    elif dst[1] not in ("any", src[1]):
        yield f"Invalid case: in place with two tags, {src[1]} and {dst[1]}"


def why_no_gradient(case: Case, *types: str) -> Iterator[str]:
    """Why there is no gradient of tensors of these types."""
    if not case.is_forward and any(DataType.parse(kind).is_integral for kind in types):
        yield "Invalid case: a gradient of integers"
