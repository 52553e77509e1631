"""Eltwise: a function of every element, forward and backward.

    dst = f(src)                                   then post-ops
    diff_src = diff_dst * f'(src)                  or f'(dst), where the result determines the derivative

Computed in f32, or in f64 if a tensor is f64; the derivative is rounded before it is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..desc.arguments import ARG_DIFF_DST, ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..desc.post_op_values import ELTWISE, ELTWISE_OF_DST, EltwiseOp, check_eltwise
from ..errors import refuse
from ..ir.computation import Computation, ComputationWriter
from ..ir.eltwise import ALGORITHMS
from ..ir.nest import Step, has_wide
from ..ir.pointwise import function_bytes
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, PointwiseProblem
from ..model.reader import ArgumentReader


@dataclass(frozen=True, slots=True)
class EltwiseProblem(PointwiseProblem):
    """A function of every element (`dnnl::eltwise_forward`): `dst = f(src)`.

    Executed with `ARG_SRC` and `ARG_DST`, which can share memory if their descriptors are equal.
    """

    operation = "eltwise"
    primitive = "EltwiseForward"
    call = "prop_kind", "algorithm", "src", "dst", "alpha", "beta"
    defaults = {"alpha": 0.0, "beta": 0.0}
    # oneDNN does not have nan_to_zero.
    algorithms = (*(alg for alg in ELTWISE if alg != "nan_to_zero"), *ELTWISE_OF_DST)
    parts = ("function",)
    onnx = {
        **{name: name.lower() for name in ("Abs", "Exp", "Log", "Mish", "Relu", "Round", "Sqrt", "Tanh")},
        "Elu": lambda alpha=1.0: ("elu", alpha),
        "Gelu": lambda approximate="none": ({"none": "gelu_erf", "tanh": "gelu_tanh"}[approximate],),
        "HardSigmoid": lambda alpha=0.2, beta=0.5: ("hardsigmoid", alpha, beta),
        "HardSwish": ("hardswish", 1 / 6, 0.5),
        "LeakyRelu": lambda alpha=0.01: ("relu", alpha),
        "Neg": ("linear", -1.0),
        "Reciprocal": ("pow", 1.0, -1.0),
        "Sigmoid": "logistic",
        "Softplus": ("soft_relu", 1.0),
    }
    aten = {
        **{name: name.capitalize() for name in ("abs", "exp", "log", "mish", "neg", "reciprocal", "relu")},
        **{name: name.capitalize() for name in ("round", "sigmoid", "sqrt", "tanh")},
        "gelu": lambda call, x, *, approximate="none": call.onnx("Gelu", x, approximate=approximate),
        "hardsigmoid": lambda call, x: call.onnx("HardSigmoid", x, alpha=1 / 6, beta=0.5),
        "hardswish": "HardSwish",
        "leaky_relu": lambda call, x, slope=0.01: call.onnx("LeakyRelu", x, alpha=float(slope)),
    }
    openvino = {
        **{name: name for name in ("Abs", "Exp", "Log", "Mish", "Sigmoid", "Sqrt", "Tanh")},
        "Elu": lambda call, x, *, alpha: call.onnx("Elu", x, alpha=alpha),
        "HSwish": "HardSwish",
        "Negative": "Neg",
        "ReLU": "Relu",
        "SoftPlus": "Softplus",
    }
    arguments = """
    `algorithm`: a oneDNN name, "eltwise_relu" or "relu"; names with `_use_dst_for_bwd` compute the same.
    `dst`: format "any" takes that of the source. `attr`: post-ops and the scratchpad mode."""

    function: EltwiseOp
    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> EltwiseProblem:
        function = _read_function(call)
        src, dst = call.forward()
        return cls(function, src, dst, call.attr("post_ops", of={ARG_DST: dst}))

    @property
    def algorithm(self) -> str:
        """The name of the function."""
        return self.function.alg

    @property
    def verbose_aux(self) -> str:
        return _verbose_fields(self.function)

    def structure(self) -> EltwiseProblem:
        return replace(self, function=self.function.structure(), attr=structure_of(self.attr))

    def computation(self) -> Computation:
        is_wide = has_wide(self.src.data_type, self.dst.data_type)
        writer, function = ComputationWriter(self.dst.dims, is_wide=is_wide), self.function
        writer.step(function.function, 0, function.alpha, function.beta, function.scale)
        writer.finish(self.attr)
        return writer.computation()

    @property
    def work_bytes(self) -> int:
        return self.moved_bytes + function_bytes(self.attr, self.function.function) * self.dst.nelems


@dataclass(frozen=True, slots=True)
class EltwiseBackwardProblem(GradientProblem, PointwiseProblem):
    """The gradient of an elementwise function's source (`dnnl::eltwise_backward`): `diff_dst * f'(src)`.

    Executed with `ARG_SRC` (or `ARG_DST` if the algorithm works from the result), `ARG_DIFF_DST` and
    `ARG_DIFF_SRC`; the gradients can share memory.
    """

    operation = "eltwise"
    primitive = "EltwiseBackward"
    call = "algorithm", "diff_src", "diff_dst", "data", "alpha", "beta"
    reads = {ARG_SRC: "data", ARG_DIFF_DST: "diff_dst"}
    node_reads = "diff_dst", "data"
    defaults = EltwiseProblem.defaults
    algorithms = EltwiseProblem.algorithms
    parts = ("function",)
    arguments = """
    `data`: the source, or, for an algorithm with `_use_dst_for_bwd`, the result. Gradients of format "any"
    take that of the data. `hint_pd`: the forward descriptor of the same problem, or None."""

    function: EltwiseOp
    data: MemoryDesc
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> EltwiseBackwardProblem:
        function = _read_function(call)
        if _gradient(function) not in ALGORITHMS:
            raise refuse("RS-V04:eltwise-no-backward", what=call.what, alg=function.alg)
        data = call.known("data")
        if hint := call.hint(EltwiseProblem):
            call.check_hint(algorithm=(hint.function, function), dims=(hint.src.dims, data.dims))
        diff_src, diff_dst = call.gradients(data=data)
        return cls(function, data, diff_src, diff_dst, call.attr())

    @property
    def algorithm(self) -> str:
        """The name of the function."""
        return self.function.alg

    @property
    def verbose_aux(self) -> str:
        return _verbose_fields(self.function)

    def structure(self) -> EltwiseBackwardProblem:
        return replace(self, function=self.function.structure())

    def sources(self) -> dict[int, MemoryDesc]:
        return {ARG_DST if self.function.is_of_dst else ARG_SRC: self.data, ARG_DIFF_DST: self.diff_dst}

    def computation(self) -> Computation:
        mds = self.data, self.diff_src, self.diff_dst
        is_wide = has_wide(*(md.data_type for md in mds))
        writer, function = ComputationWriter(self.dst.dims, is_wide=is_wide, sources=1), self.function
        writer.step(_gradient(function), 0, function.alpha, function.beta, function.scale)
        writer.own_step(Step("mul", operand=0), 0)
        return writer.computation()

    @property
    def work_bytes(self) -> int:
        costly = ALGORITHMS[_gradient(self.function)].in_double
        return self.moved_bytes + function_bytes(self.attr, "exp" if costly else "relu") * self.dst.nelems


def _read_function(call: ArgumentReader) -> EltwiseOp:
    """Read the algorithm with its parameters."""
    function = EltwiseOp(call.algorithm(), call.number("alpha"), call.number("beta"), 1.0)
    check_eltwise(function, call.what)
    return function


def _gradient(function: EltwiseOp) -> str:
    return f"{function.alg.replace('_use_dst_for_bwd', '_dst')}_gradient"


def _verbose_fields(function: EltwiseOp) -> str:
    return f"alg:{function.alg} alpha:{function.alpha:g} beta:{function.beta:g}"


EltwiseForward = make_primitive(EltwiseProblem)
EltwiseBackward = make_primitive(EltwiseBackwardProblem, EltwiseForward)
