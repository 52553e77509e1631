"""The common part of convolutions, inner products and matmuls: a tensor written from products of two others.

    forward              dst = saturate(post-ops(scales * sum(src * weights) + bias))
    backward data        diff_src = sum(diff_dst * weights)
    backward weights     diff_weights = sum(src * diff_dst), diff_bias = sum(diff_dst)

Sums are in f32, or exact for integers. `programs/product_chain.py` applies the attributes. Each problem adds
its dims, the formats that kernels prefer, and the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

from ..desc.arguments import (
    ARG_BIAS,
    ARG_DIFF_BIAS,
    ARG_DIFF_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_WEIGHTS,
    ARG_DST,
    ARG_SRC,
    ARG_WEIGHTS,
)
from ..desc.attr import Attr
from ..desc.attr_value import argument_name
from ..desc.memory_desc import MemoryDesc
from ..desc.post_op_values import SumOp
from ..dtypes import DataType
from ..errors import refuse
from ..ir.computation import Computation
from ..ir.digits import TensorOperand
from ..ir.program import Program, Slot
from ..ir.tree import Each, TreeTensor
from ..model.derived import make_primitive
from ..model.forms import Args, NamedArgs
from ..model.operation import OperationProblem
from ..model.primitive import Primitive
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Shaped
from ..schedule.contraction.pack import packed_count
from ..schedule.machine import NOMINAL
from ..targets.isa import host_isa
from .programs.contraction_program import (
    ContractionWork,
    TensorRole,
    channel_operand,
    pays_to_move,
    with_bias_gradient,
)
from .programs.product_chain import NO_CHAIN, ProductChain, product_chain

Tensors = tuple[MemoryDesc, MemoryDesc, MemoryDesc]
Refuse = Callable[[str, str], NoReturn]


class Direction(NamedTuple):
    """Source, weights and result, or gradients of them: names, arguments, and which of them is written."""

    word: str
    names: tuple[str, str, str]
    args: tuple[int, int, int]
    written: int


FORWARD = Direction("Forward", ("src", "weights", "dst"), (ARG_SRC, ARG_WEIGHTS, ARG_DST), 2)
BACKWARD_DATA = Direction(
    "BackwardData", ("diff_src", "weights", "diff_dst"), (ARG_DIFF_SRC, ARG_WEIGHTS, ARG_DIFF_DST), 0
)
BACKWARD_WEIGHTS = Direction(
    "BackwardWeights", ("src", "diff_weights", "diff_dst"), (ARG_SRC, ARG_DIFF_WEIGHTS, ARG_DIFF_DST), 1
)
NAMES = FORWARD.names
"""The names of the three tensors."""
LETTERS = "abcdefghijkl"
"""The letters of format tags, one for each dim."""

_NO_DESC = MemoryDesc()
_BIASES = "bias", "diff_bias"
_RESULTS = "dst", "diff_dst"
_GRADIENT_ARGUMENTS = """
    Tensors and parameters are as in the forward step; positional calls can omit a bias. `hint_pd`: its
    descriptor, or None."""
_FLOATS = (
    *(DataType.f32, DataType.bf16, DataType.f16, DataType.f64),
    *(DataType.f8_e5m2, DataType.f8_e4m3),
)
_BYTES = (DataType.s8, DataType.u8)
_WIDE_VECTOR, _BYTE_BITS = 64, 8


@dataclass(frozen=True, slots=True)
class ProductProblem(OperationProblem):
    """A product: equal problems share an executable.

    `tensors`: source, weights and result, or their gradients, depending on `direction`. `bias`: the zero
    descriptor if there is none. `block`: the channels, or columns, in a block of the formats that kernels
    prefer; `pack`: the number of products they add at once.
    """

    direction: ClassVar[Direction] = FORWARD
    attributes: ClassVar[tuple[str, ...]] = ("scales", "post_ops", "zero_points")
    # Whether all dims must be known before execution.
    needs_dims: ClassVar[bool] = True
    # Whether weights can have an opaque format.
    takes_opaque: ClassVar[bool] = False
    # The dim of the result along which the weights' outputs run, with one bias value for each.
    _columns: ClassVar[int] = 1
    in_place = False
    node_reads = "src", "weights", "bias?"

    tensors: Tensors
    bias: MemoryDesc
    block: int
    attr: Attr = field(default_factory=Attr)
    pack: int = 1

    # --- arguments ------------------------------------------------------------------------------------------

    @classmethod
    def placed(cls, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        # Positional calls can omit bias and dilates, which are then None.
        names = ["engine", *cls.call]
        bias = next((names.index(name) for name in _BIASES if name in names), len(args))
        is_by_name = not {*_BIASES, *_RESULTS}.isdisjoint(named)
        has_both = isinstance(next(iter(args[bias + 1 :]), None), MemoryDesc)
        if bias < len(args) and not (is_by_name or has_both):
            args = *args[:bias], None, *args[bias:]
        if "dilates" in names:
            start = names.index("strides")
            runs = [_is_run(arg) for arg in args[start : start + 4]]
            if runs[:3] == [True] * 3 and runs[3:] != [True]:
                args = *args[: start + 1], None, *args[start + 1 :]
        return args, named

    @classmethod
    def read_tensors(cls, call: ArgumentReader) -> tuple[Tensors, MemoryDesc]:
        """Read source, weights and result, and the bias: the zero descriptor if there is none."""
        source, weights, result = (call.open(name, is_known=cls.needs_dims) for name in cls.direction.names)
        if weights.format_kind == "opaque" and not cls.takes_opaque:
            raise refuse("RS-M15:opaque-tensor", what=call.what, name=cls.direction.names[1], md=weights)
        name = next((name for name in _BIASES if getattr(call, name, None) is not None), "")
        bias = call.open(name, is_known=cls.needs_dims) if name else _NO_DESC
        if bias.format_kind == "any":
            bias = MemoryDesc(bias.dims, bias.data_type)
        return (source, weights, result), bias

    def chosen(self) -> Self:
        """Return the problem with formats chosen for tensors of format "any"."""
        descs = self.preferred()
        pairs = zip(self.tensors, self.names, strict=True)
        source, weights, result = (descs[name] if md.format_kind == "any" else md for md, name in pairs)
        return replace(self, tensors=(source, weights, result))

    def named(self) -> dict[str, MemoryDesc]:
        """The tensors by the names of the arguments."""
        return dict(zip(self.direction.names, self.tensors, strict=True))

    def operands(self) -> dict[int, MemoryDesc]:
        """The tensors by argument, without the bias."""
        return dict(zip(self.direction.args, self.tensors, strict=True))

    @property
    def is_forward(self) -> bool:
        """True if the result is written."""
        return self.direction is FORWARD

    @property
    def written_name(self) -> str:
        """The name of the argument that is written."""
        return self.direction.names[self.direction.written]

    @classmethod
    def results_dims(cls, node: Any, *tensors: Shaped) -> tuple[tuple[int, ...], ...]:
        if cls.direction is FORWARD:
            return (cls.result_dims(node, *tensors),)
        return (node.dims, tensors[1].dims[1:2])[: cls.count_of_results(node)]

    @classmethod
    def count_of_results(cls, node: Any) -> int:
        """Return the number of results; the gradient of a bias (`node.has_bias`) is one."""
        return 1 + getattr(node, "has_bias", False)

    # --- tensors --------------------------------------------------------------------------------------------

    @property
    def dst(self) -> MemoryDesc:
        return self.tensors[self.direction.written]

    def sources(self) -> dict[int, MemoryDesc]:
        mds = self.operands()
        del mds[self.writes]
        return {**mds, ARG_BIAS: self.bias} if self.has_bias else mds

    @property
    def names(self) -> tuple[str, str, str]:
        """The names of source, weights and result in the loops."""
        return NAMES

    @property
    def has_bias(self) -> bool:
        """True if a bias is added to the sums."""
        return self.is_forward and not self.bias.is_zero()

    def outputs(self) -> dict[int, MemoryDesc]:
        """The gradient of the bias, next to that of the weights."""
        has_sums = self.direction is BACKWARD_WEIGHTS and not self.bias.is_zero()
        return {ARG_DIFF_BIAS: self.bias} if has_sums else {}

    # --- computation ----------------------------------------------------------------------------------------

    @property
    def moved_bytes(self) -> int:
        """The bytes read and written, each element once."""
        return sum(md.size for md in self.tensors)

    @property
    def grown(self) -> dict[int, DataType]:
        """The factors that are converted before they are multiplied, with their types then, by argument."""
        return self.rounded

    @property
    def rounded(self) -> dict[int, DataType]:
        """The f32 factors that are rounded to bf16: if a math mode allows it, an instruction multiplies
        pairs of bf16, and each factor is reused enough to make the extra pass over it cheap.
        """
        if self.attr.fpmath == "strict" or self.is_transformed:
            return {}
        if not (self.is_forward and has_dots_of_bf16()):
            return {}
        factors = dict(zip((ARG_SRC, ARG_WEIGHTS), self.tensors, strict=False))
        is_often = pays_to_move(self.terms, sum(md.nelems for md in factors.values()))
        is_float = all(md.data_type in (DataType.f32, DataType.bf16) for md in factors.values())
        rounded = {arg: DataType.bf16 for arg, md in factors.items() if md.data_type is DataType.f32}
        return rounded if is_often and is_float else {}

    @property
    def is_transformed(self) -> bool:
        """True if factors are transformed before they are multiplied."""
        return False

    @property
    def factor_types(self) -> tuple[DataType, DataType]:
        """The types in which source and weights are multiplied."""
        source, weights, _ = self.tensors
        grown = self.grown
        return grown.get(ARG_SRC, source.data_type), grown.get(ARG_WEIGHTS, weights.data_type)

    @property
    def is_integral(self) -> bool:
        """True if integers are summed, which is exact."""
        return self.is_forward and all(data_type.is_integral for data_type in self.factor_types)

    @property
    def is_wide(self) -> bool:
        """True if everything is computed in f64, which is also exact for sums of integers."""
        return self.is_integral or any(md.data_type is DataType.f64 for md in self.tensors)

    def computation(self) -> Computation:
        """The computation of the attributes."""
        return self.chain().computed

    def chain(self) -> ProductChain:
        """The attributes applied to the products: scales and zero points, bias, post-ops."""
        if not self.is_forward:
            return NO_CHAIN
        return product_chain(
            self.tensors,
            self.attr,
            self._bias_operand(),
            self._columns,
            is_wide=self.is_wide,
            is_integral=self.is_integral,
            grown=self.grown,
        )

    def program(self) -> Program:
        """The program: moves into vectorizable formats, the loops, moves back."""
        return with_bias_gradient(self.work().program(), self.tensors[2], self.outputs())

    def work(self) -> ContractionWork:
        """The contraction to schedule."""
        chain = self.chain()
        rows = zip(self.names, self.direction.args, self.tensors, strict=True)
        roles = [TensorRole(*row) for row in rows]
        target = roles.pop(self.direction.written)
        first, second = roles
        return ContractionWork(
            (first, second),
            target,
            partial(self.loops, chain, target.name),
            self.preferred(),
            chain,
            (Slot(ARG_BIAS, span=self.bias.extent_range()),) if self.has_bias else (),
            self.terms,
            self.moved_bytes + self.terms // NOMINAL.terms_per_byte,
            self.is_wide,
            self.pack,
        )

    def _bias_operand(self) -> TensorOperand | None:
        return channel_operand(self.bias, self.dst.ndims) if self.has_bias else None

    # --- defined by each problem ----------------------------------------------------------------------------

    @property
    def terms(self) -> int:
        """The number of products that are summed in all."""
        raise NotImplementedError

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels prefer, by their names in the loops."""
        raise NotImplementedError

    def loops(self, chain: ProductChain, output: str, tensors: Mapping[str, TreeTensor]) -> tuple[Each, ...]:
        """Return the loops that write the named tensor."""
        raise NotImplementedError

    # --- checks ---------------------------------------------------------------------------------------------

    @property
    def shown_tensors(self) -> str:
        """Return the tensors as text for messages."""
        return "; ".join(f"{name} {md}" for name, md in self.named().items())

    def refuse_dims(self, what: str) -> Refuse:
        """Return a function that raises InvalidArguments for mismatched dims, with a reason and a hint."""
        where = self.shown_tensors

        def refuse_these(why: str, hint: str) -> NoReturn:
            raise refuse("RS-X01:dims-not-fit", what=what, where=where, why=why, hint=hint)

        return refuse_these

    def check_types(self, what: str, compressed: tuple[DataType, ...] = ()) -> None:
        """Raise Unimplemented for types that cannot be multiplied together.

        `compressed`: types of weights that are converted to the other factor's type, and further float types
        allowed for the source.
        """
        source, weights, result = (md.data_type for md in self.tensors)
        integers = (*_BYTES, DataType.s32, *(data_type for data_type in compressed if data_type.is_integral))
        is_whole = self.is_forward and source in _BYTES and weights in integers
        is_grown = source is not DataType.f64 and weights in compressed
        sources = (*_FLOATS, *(data_type for data_type in compressed if not data_type.is_integral))
        has_floats = source in sources and (weights in _FLOATS or is_grown)
        is_float = has_floats and (self.is_forward or result in _FLOATS)
        if is_whole or is_float:
            return
        raise refuse(
            "RS-X02:into",
            what=what,
            source=source,
            weights=weights,
            result=result,
            owner=self.shown_tensors,
        )

    def check_hint(self, call: ArgumentReader, forward: ProductProblem, *parameters: str) -> None:
        """Raise InvalidArguments if the hint has other dims or parameters."""
        own, theirs = (tuple(md.dims for md in problem.tensors) for problem in (self, forward))
        pairs = {name: (getattr(forward, name), getattr(self, name)) for name in parameters}
        call.check_hint(dims=(theirs, own), **pairs)


# --- directions ---------------------------------------------------------------------------------------------


def make_directions(
    problem: type[ProductProblem],
) -> tuple[type[Primitive], type[Primitive], type[Primitive]]:
    """Return the primitives of a product and of its gradients: by source, and by weights and bias."""
    forward = make_primitive(problem)
    data, weights = (_gradient(problem, direction) for direction in (BACKWARD_DATA, BACKWARD_WEIGHTS))
    return forward, make_primitive(data, forward), make_primitive(weights, forward)


def _gradient(problem: type[ProductProblem], direction: Direction) -> type[ProductProblem]:
    """Return the problem of a gradient. Its arguments have the names of the forward step."""
    is_data = direction is BACKWARD_DATA
    primitive = problem.primitive.removesuffix(FORWARD.word) + direction.word
    names = {**dict(zip(FORWARD.names, direction.names, strict=True)), "bias": "diff_bias"}
    # Without a bias, which positional calls can omit, the arguments after it have no defaults.
    dropped = {"bias", "dst"} if is_data else set()
    title = "The gradient of the source" if is_data else "The gradients of weights and bias"
    first, second, third = (f"`ARG_{name.upper()}`" for name in direction.names)
    bias = "" if is_data else " and, if there is a bias, `ARG_DIFF_BIAS`"
    variables = {
        "__doc__": f"""{title} of a primitive `{problem.primitive}`.

    Executed with {first}, {second}, {third}{bias}.
    """,
        "direction": direction,
        "primitive": primitive,
        "writes": direction.args[direction.written],
        "prop_kinds": (PropKind.backward_data if is_data else PropKind.backward_weights,),
        "attributes": (),
        "node_reads": ("diff_dst", "weights") if is_data else ("src", "diff_dst"),
        "node_writes": ("diff_src",) if is_data else ("diff_weights", "diff_bias"),
        "call": tuple(names.get(name, name) for name in problem.call[1:] if not (is_data and name == "bias")),
        "defaults": {names.get(n, n): v for n, v in problem.defaults.items() if n not in dropped}
        | {"hint_pd": None},
        "arguments": _GRADIENT_ARGUMENTS,
    }
    module = {"__module__": problem.__module__, "__slots__": ()}
    return type(f"{primitive}Problem", (problem,), {**module, **variables})


def _is_run(value: object) -> bool:
    """Return whether the value can be one number for each spatial dim."""
    return isinstance(value, int | list | tuple) and not isinstance(value, bool)


# --- checks of attributes -----------------------------------------------------------------------------------


def check_narrow_sum(what: str, attr: Attr, dst: DataType) -> None:
    """Raise Unimplemented for a sum that reads a 4-bit result as another type."""
    if dst.bits >= _BYTE_BITS:
        return
    kinds = (op.data_type for op in attr.post_ops if isinstance(op, SumOp) and op.data_type is not None)
    other = next((kind for kind in kinds if kind is not dst), None)
    if other is None:
        return
    raise refuse("RS-R30:sum-reads", what=what, dst=dst, other=other, attr=attr.verbose_str())


def check_scale_masks(what: str, attr: Attr, masks: Mapping[int, tuple[int, ...]]) -> None:
    """Raise Unimplemented for a scale with groups, or whose mask is not among those of its argument."""
    for arg, own in masks.items():
        scale = attr.scale_of(arg)
        if scale is None or (scale.mask in own and not scale.groups):
            continue
        raise refuse(
            "RS-R26:scales-mask",
            what=what,
            arg=argument_name(arg),
            mask=scale.mask,
            attr=attr.verbose_str(),
            own=" or ".join(map(str, own)),
        )


def check_zero_points(what: str, attr: Attr, masks: Mapping[int, tuple[int, ...]]) -> None:
    """Raise Unimplemented for zero points with groups, or whose mask is not among those of their factor."""
    for arg, own in masks.items():
        zero = attr.zero_point_of(arg)
        if zero is None or (zero.mask in own and not zero.groups):
            continue
        raise refuse(
            "RS-R26:zero-points-mask",
            what=what,
            arg=argument_name(arg),
            mask=zero.mask,
            attr=attr.verbose_str(),
            own=" or ".join(map(str, own)),
        )


def kernel_pack(first: DataType, second: DataType) -> int:
    """Return the products of two types that kernels add at once: see `schedule/contraction/pack.py`."""
    count = packed_count(first, second)
    # Bytes need at least an instruction for pairs, which every x86-64 CPU has.
    return count if count < 4 or host_isa().triple.startswith("x86_64") else 1


def has_dots_of_bf16() -> bool:
    """Return whether the machine has an instruction that multiplies pairs of bf16 and adds them in f32."""
    return host_isa().has("avx512bf16")


def kernel_block() -> int:
    """Return the channels in a block that kernels here prefer: 16 for 64-byte vectors, else 8."""
    return 16 if host_isa().vector_bytes >= _WIDE_VECTOR else 8
