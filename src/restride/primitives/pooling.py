"""Pooling: maxima and averages of windows, forward and backward."""

from __future__ import annotations

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC, ARG_WORKSPACE
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr
from ..errors import InvalidArguments
from ..plan.pooling_problem import ALGORITHMS, MAX, PoolingBackwardProblem, PoolingProblem
from ..plan.windows import Windows
from .any_format import resolved
from .forms import Args, CallArguments, form_of
from .parse import check_written, parse_attr
from .pointwise import (
    OneStepPrimitiveDesc,
    check_attributes,
    check_hint,
    check_hint_workspace,
    check_known,
    check_open,
    parse_algorithm,
    parse_hint,
)
from .primitive import Primitive
from .prop_kind import PropKind

__all__ = ["PoolingBackward", "PoolingForward"]

_WINDOWS = ("strides", "kernel", "dilation", "padding_l", "padding_r")


class PoolingPrimitiveDesc(OneStepPrimitiveDesc):
    """What both directions share."""

    __slots__ = ("_alg", "_windows")
    _alg: str
    _windows: Windows

    def _empty(self) -> None:
        super()._empty()
        self._alg, self._windows = "", Windows((), (), (), (), ())

    def get_algorithm(self) -> str:
        """The algorithm as oneDNN calls it: `pooling_max`."""
        self._implementation()
        return f"pooling_{self._alg}"

    def get_strides(self) -> tuple[int, ...]:
        """From one window to the next, for each spatial dim."""
        self._implementation()
        return self._windows.strides

    def get_kernel(self) -> tuple[int, ...]:
        """The positions of a window, for each spatial dim."""
        self._implementation()
        return self._windows.kernel

    def get_dilations(self) -> tuple[int, ...]:
        """How many positions are left out between two of a window, for each spatial dim."""
        self._implementation()
        return self._windows.dilation

    def get_padding_l(self) -> tuple[int, ...]:
        """The padding in front, for each spatial dim."""
        self._implementation()
        return self._windows.padding_l

    def get_padding_r(self) -> tuple[int, ...]:
        """The padding behind, for each spatial dim; below 0 what is left out of the source."""
        self._implementation()
        return self._windows.padding_r

    def _how(self) -> str:
        windows = self._windows
        parts = (("kernel", windows.kernel), ("strides", windows.strides), ("dilation", windows.dilation))
        shown = " ".join(f"{name}:{'x'.join(map(str, value))}" for name, value in parts)
        return f"alg:{self._alg} {shown} padding:{'x'.join(map(str, windows.padding_l))}"


class PoolingForwardPrimitiveDesc(PoolingPrimitiveDesc):
    """Primitive descriptor of a pooling (`dnnl::pooling_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, algorithm, src, dst, strides, kernel, dilation, padding_l, padding_r,
    attr=None, allow_empty=False)`; without arguments it is empty and False. `algorithm`: "pooling_max",
    "pooling_avg_include_padding" or "pooling_avg_exclude_padding". Tensors have a batch, channels and 1 to 3
    spatial dims, and the numbers are one for each of these; a dilation of 0 leaves nothing out. `dst`: of
    format "any" it has that of the source. A maximum in training leaves a workspace. `attr`: post-ops and the
    scratchpad mode. With `allow_empty`, a failure gives an empty descriptor.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind = "PoolingForward"
    form = form_of(
        "PoolingForward.PrimitiveDesc",
        "engine",
        "prop_kind",
        "algorithm",
        "src",
        "dst",
        *_WINDOWS,
        attr=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _problem(self, what: str, arguments: CallArguments) -> tuple[PoolingProblem, dict[int, MemoryDesc]]:
        self._alg = parse_algorithm(what, arguments.algorithm, "pooling_", ALGORITHMS)
        src = check_known(what, "src", arguments.src)
        dst = resolved(check_open(what, "dst", arguments.dst), src)
        self._windows = _checked_windows(what, arguments, ("src", src), ("dst", dst))
        check_written(what, "dst", dst)
        attr = check_attributes(what, parse_attr(what, arguments.attr), "post_ops")
        check_attr_of(what, attr, {ARG_DST: dst})
        leaves = self._alg == MAX and self._prop_kind is PropKind.forward_training
        problem = PoolingProblem(self._alg, self._windows, src, dst, leaves, attr)
        return problem, {ARG_SRC: src, ARG_DST: dst}


class PoolingBackwardPrimitiveDesc(PoolingPrimitiveDesc):
    """Primitive descriptor of the gradient of a pooling (`dnnl::pooling_backward::primitive_desc`).

    `PrimitiveDesc(engine, algorithm, diff_src, diff_dst, strides, kernel, dilation, padding_l, padding_r,
    attr=None, hint_pd=None, allow_empty=False)`; without arguments it is empty and False. `hint_pd`: the
    forward descriptor, of the same problem; gradients of format "any" have its formats, row-major ones
    without it. The workspace of a maximum lies as `diff_dst` does, and must come from a destination of that
    format.

    Raises InvalidArguments (a TypeError too, for a hint of another kind) and Unimplemented.
    """

    kind = "PoolingBackward"
    form = form_of(
        "PoolingBackward.PrimitiveDesc",
        *("engine", "algorithm", "diff_src", "diff_dst", *_WINDOWS),
        attr=None,
        hint_pd=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _copied(self, **chosen: object) -> Args:
        return super()._copied(diff_src=self._dst, diff_dst=self._src)

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[PoolingBackwardProblem, dict[int, MemoryDesc]]:
        self._alg = parse_algorithm(what, arguments.algorithm, "pooling_", ALGORITHMS)
        hint = parse_hint(what, arguments.hint_pd, PoolingForwardPrimitiveDesc)
        diff_src = check_open(what, "diff_src", arguments.diff_src)
        diff_dst = check_open(what, "diff_dst", arguments.diff_dst)
        diff_src = resolved(
            diff_src, hint.src_desc() if hint else MemoryDesc(diff_src.dims, diff_src.data_type)
        )
        diff_dst = resolved(
            diff_dst, hint.dst_desc() if hint else MemoryDesc(diff_dst.dims, diff_dst.data_type)
        )
        windows = self._windows = _checked_windows(
            what, arguments, ("diff_src", diff_src), ("diff_dst", diff_dst)
        )
        check_written(what, "diff_src", diff_src)
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        problem = PoolingBackwardProblem(self._alg, windows, diff_src, diff_dst, attr)
        if isinstance(hint, PoolingForwardPrimitiveDesc):
            _check_same(what, hint, self, problem)
        positions = {ARG_WORKSPACE: problem.workspace} if self._alg == MAX else {}
        return problem, {ARG_DIFF_DST: diff_dst, **positions, ARG_DIFF_SRC: diff_src}


def _row_major(md: MemoryDesc) -> MemoryDesc:
    return MemoryDesc(md.dims, md.data_type)


def _check_same(
    what: str,
    hint: PoolingForwardPrimitiveDesc,
    own: PoolingBackwardPrimitiveDesc,
    problem: PoolingBackwardProblem,
) -> None:
    """Raise InvalidArguments unless the hint is the forward step of a problem."""
    check_hint(
        what,
        {
            "algorithm": (hint._alg, own._alg),
            "windows": (hint._windows, own._windows),
            "dims": (hint._src.dims, problem.diff_src.dims),
        },
    )
    if problem.alg == MAX:
        check_hint_workspace(what, hint.workspace_desc(), problem.workspace)


def _checked_windows(
    what: str,
    arguments: CallArguments,
    source: tuple[str, MemoryDesc],
    result: tuple[str, MemoryDesc],
) -> Windows:
    """The windows of a problem. Raises InvalidArguments where they or the dims do not fit."""
    _check_dims(what, source, result)
    count = source[1].ndims - 2
    numbers = {each: _parse_numbers(what, each, getattr(arguments, each), count) for each in _WINDOWS}
    windows = Windows(**numbers)
    check_windows(what, windows, source, result)
    return windows


def check_windows(
    what: str, windows: Windows, source: tuple[str, MemoryDesc], result: tuple[str, MemoryDesc]
) -> None:
    """Raise InvalidArguments unless there is one element for each window."""
    _check_dims(what, source, result)
    (name, src), (other, dst) = source, result
    for dim in range(src.ndims - 2):
        wanted = max(windows.output(dim, src.dims[dim + 2]), 0)
        if dst.dims[dim + 2] != wanted:
            raise InvalidArguments(
                f"{what}: the destination has another size",
                code="RS-R10",
                where=f"{name} {src}; {other} {dst}",
                why=f"along spatial dim {dim} there are {wanted} windows, and {dst.dims[dim + 2]} elements",
                hint="(size + padding_l + padding_r - (kernel - 1) * (dilation + 1) - 1) // stride + 1",
            )


def _check_dims(what: str, source: tuple[str, MemoryDesc], result: tuple[str, MemoryDesc]) -> None:
    (name, src), (other, dst) = source, result
    if not 3 <= src.ndims <= 5 or dst.ndims != src.ndims or src.dims[:2] != dst.dims[:2]:
        raise InvalidArguments(
            f"{what}: tensors that do not fit",
            code="RS-R10",
            where=f"{name} {src}; {other} {dst}",
            why="both have a batch, channels and 1 to 3 spatial dims, the first two in common",
            hint="put dims of 1 where there are none, with md.reshape",
        )


_LEAST = {"strides": 1, "kernel": 1, "dilation": 0, "padding_l": 0, "padding_r": -(2**31)}


def _parse_numbers(what: str, name: str, value: object, count: int) -> tuple[int, ...]:
    """One whole number for each spatial dim."""
    try:
        items = tuple[object, ...](value)  # type: ignore[arg-type]
    except Exception:  # what iterates may raise anything
        items = ()
    found = tuple(parse_int(each, f"{what}: {name}") for each in items)
    if len(found) == count and all(_LEAST[name] <= each < 2**31 for each in found):
        return found
    least = _LEAST[name]
    raise InvalidArguments(
        f"{what}: {name} is {short_repr(value)}",
        code="RS-V02",
        why=f"it is {count} whole numbers" + (f" of {least} or more" if name != "padding_r" else ""),
        hint="one for each spatial dim, in the order of the dims",
    )


class PoolingForward(Primitive):
    """Maxima or averages of windows (`dnnl::pooling_forward`).

    `PoolingForward(pd)`; without arguments it is empty, and executing it is an error. Executed with
    `ARG_SRC`, `ARG_DST` and, where the descriptor has one, `ARG_WORKSPACE`.
    """

    PrimitiveDesc = PoolingForwardPrimitiveDesc
    kind = "PoolingForward"

    __slots__ = ()


class PoolingBackward(Primitive):
    """The gradient of the source of a pooling (`dnnl::pooling_backward`).

    `PoolingBackward(pd)`; without arguments it is empty. Executed with `ARG_DIFF_DST`, `ARG_DIFF_SRC` and, of
    a maximum, the `ARG_WORKSPACE` that forward has left.
    """

    PrimitiveDesc = PoolingBackwardPrimitiveDesc
    kind = "PoolingBackward"

    __slots__ = ()
