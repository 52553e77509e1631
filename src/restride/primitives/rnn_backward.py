"""Recurrent networks, backward: the gradients of all that a forward step in training has read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from ..desc.arguments import ARG_DIFF_DST_ITER, ARG_DIFF_DST_ITER_C
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..plan.rnn_gradient_problem import GRADIENTS, WRITTEN, RnnGradientProblem, RnnGradients
from ..plan.rnn_problem import RnnProblem
from .convolution_shapes import kernel_block
from .forms import CallArguments, form_of
from .parse import parse_attr
from .pointwise import check_attributes, check_hint, parse_hint
from .primitive import Primitive
from .prop_kind import PropKind
from .rnn import (
    GRUForwardPrimitiveDesc,
    LBRGRUForwardPrimitiveDesc,
    LSTMForwardPrimitiveDesc,
    RNNForwardPrimitiveDesc,
    VanillaRNNForwardPrimitiveDesc,
)
from .rnn_checks import (
    RNNFlags,
    check_dims,
    check_formats,
    check_gradients,
    check_pairs,
    check_quantisation,
    check_slope,
    check_types,
    parse_direction,
    parse_flags,
    parse_tensors,
)
from .rnn_desc import (
    BEFORE,
    GRU_NAMES,
    LSTM_NAMES,
    MORE_WEIGHTS,
    RNNPrimitiveDesc,
    formats_of,
    names_of,
    tensors_of,
)

__all__ = ["GRUBackward", "LBRGRUBackward", "LSTMBackward", "VanillaRNNBackward"]

_NO_DESC = MemoryDesc()
Dims = tuple[int, ...]


def _gradient_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The gradients of what arguments name, the direction aside: what is read first, as oneDNN has them."""
    return tuple(f"diff_{name}" for name in names if name != "direction")


def _pairs_of_dims(
    forward: RnnProblem, backward: RnnGradientProblem
) -> Iterator[tuple[str, tuple[Dims, Dims]]]:
    """The name of each tensor of the forward step, and its dims in two problems; () where there is none."""
    ones, others = forward.tensors.items(), backward.tensors.items()
    for name in dict.fromkeys((*ones, *others)):
        yield name, (ones[name].dims if name in ones else (), others[name].dims if name in others else ())


class RNNBackwardPrimitiveDesc(RNNPrimitiveDesc):
    """What the backward descriptors of all cells share."""

    _forward: ClassVar[type[RNNForwardPrimitiveDesc]]
    _optional_args = (*RNNPrimitiveDesc._optional_args, ARG_DIFF_DST_ITER, ARG_DIFF_DST_ITER_C)

    __slots__ = ()

    def _parsed_kind(self, arguments: CallArguments) -> PropKind:
        kind = PropKind.parse(arguments.prop_kind, self.form.what)
        if kind is PropKind.backward:
            return kind
        raise InvalidArguments(
            f"{self.form.what}: prop_kind is {kind}",
            code="RS-S05",
            why="a recurrent network goes backward as a whole: the gradients of all that it has read",
            hint='pass "backward"',
        )

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[RnnGradientProblem, dict[int, MemoryDesc]]:
        self._parsed_kind(arguments)
        cell = self._parsed_cell(what, arguments)
        check_slope(what, cell)
        direction = parse_direction(what, arguments.direction)
        names = names_of(cell)
        found = parse_tensors(what, arguments, names)
        gradients = parse_tensors(what, arguments, {f"diff_{name}": must for name, must in names.items()})
        check_pairs(what, found | gradients, cell)
        check_dims(what, found, cell, direction)
        check_types(what, found)
        check_gradients(what, found, gradients)
        check_formats(what, found | gradients, WRITTEN)
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        check_quantisation(what, attr, found, is_inference=False)
        every = RnnGradients(**{name: gradients.get(name, _NO_DESC) for name in GRADIENTS})
        adds = parse_flags(what, arguments.flags) is RNNFlags.undef
        problem = RnnGradientProblem(cell, direction, tensors_of(found), every, kernel_block(), attr, adds)
        tensors = replace(problem.tensors, **formats_of(found, problem.preferred()))
        every = replace(every, **formats_of(gradients, {}))
        problem = self._rnn = replace(problem, tensors=tensors, gradients=every)
        self._check_hint(what, arguments, problem)
        return problem, {**problem.reads(), GRADIENTS["diff_src_layer"]: problem.dst}

    def _check_hint(self, what: str, arguments: CallArguments, problem: RnnGradientProblem) -> None:
        hint = parse_hint(what, arguments.hint_pd, self._forward)
        if hint is None:
            return
        other = hint._implementation().problem
        assert isinstance(other, RnnProblem)
        check_hint(
            what,
            {
                "prop_kind": (hint.get_prop_kind(), PropKind.forward_training),  # type: ignore[attr-defined]
                "direction": (other.direction, problem.direction),
                "activation": (other.cell, problem.cell),
                "workspace": (other.workspace, problem.workspace),
                **{f"{name}'s dims": pair for name, pair in _pairs_of_dims(other, problem)},
            },
        )

    def _more_named(self) -> dict[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        problem = self._problem_of()
        assert isinstance(problem, RnnGradientProblem)
        made = problem.gradients
        return {
            "diff_src": (made.diff_src_layer, made.diff_src_iter, made.diff_src_iter_c),
            "diff_weights": (made.diff_weights_layer, made.diff_weights_iter),
            "diff_bias": made.diff_bias,
            "diff_dst": (made.diff_dst_layer, made.diff_dst_iter, made.diff_dst_iter_c),
            "workspace": problem.workspace.desc,
        }

    def _gradient(self, name: str) -> MemoryDesc:
        problem = self._rnn
        if not isinstance(problem, RnnGradientProblem):
            return _NO_DESC
        found: MemoryDesc = getattr(problem.gradients, name)
        return found

    def diff_src_layer_desc(self) -> MemoryDesc:
        """The descriptor of `diff_src_layer`; the zero descriptor where there is none."""
        return self._gradient("diff_src_layer")

    def diff_src_iter_desc(self) -> MemoryDesc:
        """The descriptor of `diff_src_iter`; the zero descriptor where there is none."""
        return self._gradient("diff_src_iter")

    def diff_src_iter_c_desc(self) -> MemoryDesc:
        """The descriptor of `diff_src_iter_c`; the zero descriptor where there is none."""
        return self._gradient("diff_src_iter_c")

    def diff_weights_layer_desc(self) -> MemoryDesc:
        """The descriptor of `diff_weights_layer`; the zero descriptor where there is none."""
        return self._gradient("diff_weights_layer")

    def diff_weights_iter_desc(self) -> MemoryDesc:
        """The descriptor of `diff_weights_iter`; the zero descriptor where there is none."""
        return self._gradient("diff_weights_iter")

    def diff_bias_desc(self) -> MemoryDesc:
        """The descriptor of `diff_bias`; the zero descriptor where there is none."""
        return self._gradient("diff_bias")

    def diff_dst_layer_desc(self) -> MemoryDesc:
        """The descriptor of `diff_dst_layer`; the zero descriptor where there is none."""
        return self._gradient("diff_dst_layer")

    def diff_dst_iter_desc(self) -> MemoryDesc:
        """The descriptor of `diff_dst_iter`; the zero descriptor where there is none."""
        return self._gradient("diff_dst_iter")

    def diff_dst_iter_c_desc(self) -> MemoryDesc:
        """The descriptor of `diff_dst_iter_c`; the zero descriptor where there is none."""
        return self._gradient("diff_dst_iter_c")


class VanillaRNNBackwardPrimitiveDesc(RNNBackwardPrimitiveDesc):
    """Primitive descriptor of the gradients of a vanilla RNN (`dnnl::vanilla_rnn_backward`).

    Arguments are as `LSTMBackward.PrimitiveDesc` has them.
    """

    kind, _cell_kind, _forward = "VanillaRNNBackward", "vanilla_rnn", VanillaRNNForwardPrimitiveDesc
    form = form_of(
        "VanillaRNNBackward.PrimitiveDesc",
        *(*BEFORE, "activation", *GRU_NAMES, *_gradient_names(GRU_NAMES)),
        alpha=0.0,
        hint_pd=None,
        flags="undef",
        attr=None,
        allow_empty=False,
    )
    __signature__ = form.shown
    __slots__ = ()


class LSTMBackwardPrimitiveDesc(RNNBackwardPrimitiveDesc):
    """Primitive descriptor of the gradients of an LSTM (`dnnl::lstm_backward`).

    `PrimitiveDesc(engine, "backward", ...)`: the arguments of the forward descriptor up to its destinations,
    then the gradients of all tensors among them, in the same order, with `diff_` before their names; then
    `hint_pd`, `flags`, `attr` and `allow_empty`. `hint_pd`: the forward descriptor, in training, or None.

    The gradients of weights and bias are added to what is there, as oneDNN does: begin with zeros. With
    `flags="diff_weights_overwrite"` they are written over it.
    """

    kind, _cell_kind, _forward = "LSTMBackward", "vanilla_lstm", LSTMForwardPrimitiveDesc
    form = form_of(
        "LSTMBackward.PrimitiveDesc",
        *(*BEFORE, *LSTM_NAMES, *_gradient_names(LSTM_NAMES)),
        hint_pd=None,
        flags="undef",
        attr=None,
        allow_empty=False,
        **MORE_WEIGHTS,
    )
    __signature__ = form.shown
    __slots__ = ()


class GRUBackwardPrimitiveDesc(RNNBackwardPrimitiveDesc):
    """Primitive descriptor of the gradients of a GRU (`dnnl::gru_backward`).

    Arguments are as `LSTMBackward.PrimitiveDesc` has them.
    """

    kind, _cell_kind, _forward = "GRUBackward", "vanilla_gru", GRUForwardPrimitiveDesc
    form = form_of(
        "GRUBackward.PrimitiveDesc",
        *(*BEFORE, *GRU_NAMES, *_gradient_names(GRU_NAMES)),
        hint_pd=None,
        flags="undef",
        attr=None,
        allow_empty=False,
    )
    __signature__ = form.shown
    __slots__ = ()


class LBRGRUBackwardPrimitiveDesc(RNNBackwardPrimitiveDesc):
    """Primitive descriptor of the gradients of an LBR GRU (`dnnl::lbr_gru_backward`).

    Arguments are as `LSTMBackward.PrimitiveDesc` has them.
    """

    kind, _cell_kind, _forward = "LBRGRUBackward", "lbr_gru", LBRGRUForwardPrimitiveDesc
    form = form_of(
        "LBRGRUBackward.PrimitiveDesc",
        *(*BEFORE, *GRU_NAMES, *_gradient_names(GRU_NAMES)),
        hint_pd=None,
        flags="undef",
        attr=None,
        allow_empty=False,
    )
    __signature__ = form.shown
    __slots__ = ()


class VanillaRNNBackward(Primitive):
    """The gradients of a vanilla RNN: `VanillaRNNBackward(pd)`; without arguments it is empty."""

    PrimitiveDesc = VanillaRNNBackwardPrimitiveDesc
    kind = "VanillaRNNBackward"
    __slots__ = ()


class LSTMBackward(Primitive):
    """The gradients of an LSTM: `LSTMBackward(pd)`; without arguments it is empty."""

    PrimitiveDesc = LSTMBackwardPrimitiveDesc
    kind = "LSTMBackward"
    __slots__ = ()


class GRUBackward(Primitive):
    """The gradients of a GRU: `GRUBackward(pd)`; without arguments it is empty."""

    PrimitiveDesc = GRUBackwardPrimitiveDesc
    kind = "GRUBackward"
    __slots__ = ()


class LBRGRUBackward(Primitive):
    """The gradients of an LBR GRU: `LBRGRUBackward(pd)`; without arguments it is empty."""

    PrimitiveDesc = LBRGRUBackwardPrimitiveDesc
    kind = "LBRGRUBackward"
    __slots__ = ()
