"""Problems of primitives on arrays that people hold: what is read and written as memories, and the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, cast

from ...desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC, NAMES
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import parse_int
from ...desc.tags import Tag
from ...dtypes import DataType
from ...errors import Error, refuse
from ...model.checks import check_destination, check_memory, overlaps, share_bytes
from ...model.implementation import (
    Implementation,
    Problem,
    compiled,
    find_implementation,
    named_descs,
)
from ...model.primitive import run
from ...runtime.cpu.executable import CpuExecutable
from ...runtime.describe import Subject
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.transfer import refuse_host_out, synchronize
from ...verbose import flags, write
from .array_kinds import ArrayOperand, read_from, write_to
from .binder import CallKey, cache_call, find_call
from .error_translation import translate_hint
from .operands import memory_of
from .tensors import as_array, as_numpy, as_target, back_to, is_foreign, narrowed, written

# Types of parameters that may be in a signature.
_PLAIN = frozenset((int, float, str))
# What may be one memory, where both lie alike.
_IN_PLACE = ((ARG_SRC, ARG_DST), (ARG_DIFF_DST, ARG_DIFF_SRC))


@dataclass(frozen=True, slots=True)
class ArrayFunction:
    """A function on arrays: its name in messages, and its primitive in verbose lines.

    `may_be_in_place`: what is read may be written, where both lie alike. `is_real`: what it makes of integers
    and truth values are fractions, so that a new result of them is f32.
    """

    name: str
    kind: str
    prop_kind: str = "forward_inference"
    may_be_in_place: bool = True
    is_real: bool = False

    def by_signature(
        self, compute: Callable[..., Any], parameters: Sequence[object], x: Any, out: Any, *operands: Any
    ) -> Any:
        """`compute(x, out, *operands, signed=...)` as `on_arrays` does it. A call like an earlier one, with
        arrays of the same kinds and the same parameters, takes what that one has found.
        """
        sources = [read_from(each) for each in (x, *operands) if each is not None]
        target = None if out is None else write_to(out)
        is_clear = None not in sources and (out is None or target is not None) and _are_plain(parameters)
        signed = None
        if is_clear:
            which = tuple([each is not None for each in operands])
            kinds = tuple([source[0] for source in sources if source is not None])
            types = tuple(map(type, parameters))
            signature = self.name, *parameters, types, which, kinds, target and target[0]
            call, found = find_call(signature), cast("list[ArrayOperand]", sources)
            if call is None:
                signed = CallKey(signature, found, target)
            elif target is None and len(found) == 1:
                return call.into_new(found[0])
            else:
                is_done, made = call.join(found, target)
                if is_done:
                    return made if out is None else out
        return self.on_arrays(partial(compute, signed=signed), x, out, *operands)

    def on_arrays(self, compute: Callable[..., Any], x: Any, out: Any, *operands: Any) -> Any:
        """`compute(x, out, *operands)`, arrays of other libraries as NumPy's; the result is of the library
        of `x`.
        """
        try:
            if not any(map(is_foreign, (x, out, *operands))):
                read = as_array(x, f"{self.name}: x")
                return compute(read if read is x else narrowed(read), out, *operands)
            source = as_array(as_numpy(x, f"{self.name}: x"), f"{self.name}: x")
            target = None if out is None else as_target(out, f"{self.name}: out")
            others = [as_numpy(each, f"{self.name}: a tensor beside x") for each in operands]
            try:
                made = compute(source, target, *others)
            except Error as error:
                raise translate_hint(x if is_foreign(x) else out, error) from None
            return back_to(x, made) if out is None else written(out)
        except Error as error:
            error.drop_frames()
            raise

    def source(self, x: Any, engine: Engine) -> Memory:
        """What is read, as a memory on the engine."""
        return memory_of(x, engine, Subject.source(self.name))

    def target(self, out: Any, like: MemoryDesc, dims: Sequence[int], engine: Engine) -> Memory:
        """What is written: a new memory in the format of `like`, dense, or the one that was brought."""
        if out is None:
            tag = Tag(like.outer_order, like.inner_blks, like.inner_idxs)
            is_whole = like.data_type.is_integral or like.data_type is DataType.boolean
            kind = DataType.f32 if self.is_real and is_whole else like.data_type
            return Memory(MemoryDesc(dims, kind, tag), engine)
        return self.destination(out, engine)

    def destination(self, out: Any, engine: Engine) -> Memory:
        """What is written, as a memory on the engine."""
        subject = Subject.target(self.name)
        refuse_host_out(subject.refused, out, engine)
        return memory_of(out, engine, subject)

    def axis(self, axis: Any, ndims: int, read: object) -> int:
        """An axis, counted from 0. Raises InvalidArguments where there is none, and shows `read` as `x`."""
        number = parse_int(axis, f"{self.name}: axis")
        if -ndims <= number < ndims:
            return number % ndims
        raise refuse("RS-S05:x-axes", name=self.name, number=number, read=read, ndims=ndims)

    def run(
        self,
        problem: Problem,
        engine: Engine,
        memories: Mapping[int, Memory],
        how: str = "",
        signed: CallKey | None = None,
    ) -> None:
        """Check, and run to the end. `memories` by argument, `how`: the parameters in a verbose line.

        `signed`: what later calls find this one by.
        """

        def line(op: str, impl: Implementation, ms: float) -> list[object]:
            mds = named_descs(
                [NAMES[arg].removeprefix("ARG_").lower() for arg in memories],
                [memory.desc for memory in memories.values()],
            )
            head = [op, impl.engine.kind, self.kind, impl.name, self.prop_kind]
            aux = " ".join(filter(None, (how, f"why:{impl.why}")))
            return [*head, mds, "", aux, "x".join(map(str, impl.problem.dst.dims)), ms]

        impl = find_implementation(problem, engine, line, lambda: compiled(problem, engine))
        slots = zip(impl.args, impl.executable.program.slots, strict=True)
        outputs = {arg for arg, slot in slots if arg is not None and slot.is_written}
        for arg, memory in memories.items():
            check_memory(self.name, _name_of(arg), memory, memory.desc, engine)
            if arg in outputs:
                check_destination(self.name, memory, _name_of(arg))
        for arg in outputs:
            self._check_overlaps(arg, memories)
        synchronize(*memories.values())
        impl.executable.prepare()
        start = perf_counter()
        run(impl, dict(memories))
        if flags.profile_exec:
            write(line("exec", impl, (perf_counter() - start) * 1e3))
        if signed is not None:
            self._remember(signed, impl, memories)

    def _remember(self, signed: CallKey, impl: Implementation, memories: Mapping[int, Memory]) -> None:
        """Let later calls go straight to the machine code, where that reads the bytes which a call brings."""
        sources = [memories[arg] for arg in impl.args if arg is not None and arg != ARG_DST]
        is_known = tuple(impl.args[:2]) == (ARG_SRC, ARG_DST) and len(sources) == len(signed.sources)
        if not is_known or impl.computation.operands or not isinstance(impl.executable, CpuExecutable):
            return
        if not all(map(_has_bytes_of, signed.sources, sources)):
            return
        is_memory = isinstance(signed.sources[0][0], MemoryDesc)
        cache_call(
            signed,
            impl,
            sources,
            memories[ARG_DST],
            is_memory=is_memory,
            may_be_in_place=self.may_be_in_place,
        )

    def _check_overlaps(self, arg: int, memories: Mapping[int, Memory]) -> None:
        target = memories[arg]
        for other, memory in memories.items():
            if other == arg or not share_bytes(memory, target):
                continue
            is_pair = self.may_be_in_place and (other, arg) in _IN_PLACE
            if is_pair and not overlaps(memory, target):
                continue
            raise refuse(
                "RS-N09:overlap",
                name=self.name,
                name_of=_name_of(other),
                name_of2=_name_of(arg),
                desc=memory.desc,
                target_desc=target.desc,
            )


def _are_plain(parameters: Sequence[object]) -> bool:
    """True for numbers and words, and tuples of integers, which are equal where they mean the same."""
    return all(
        each is None or type(each) in _PLAIN or (type(each) is tuple and {*map(type, each)} <= {int})
        for each in parameters
    )


def _has_bytes_of(operand: ArrayOperand, memory: Memory) -> bool:
    """True for the memory of an operand itself, not of a copy in another type."""
    kind, address, held = operand
    return memory._buffer is held if isinstance(kind, MemoryDesc) else memory._lo <= address < memory._hi


def _name_of(arg: int) -> str:
    names = {ARG_SRC: "x", ARG_DST: "out"}
    return names.get(arg) or NAMES[arg].removeprefix("ARG_").lower()


def with_axis_last(x: Any, axis: int) -> Any:
    """An array or a memory with that axis behind all others, over the same bytes."""
    return _permuted(x, (*(i for i in range(_ndims(x)) if i != axis), axis))


def with_axis_at(x: Any, axis: int) -> Any:
    """An array or a memory with its last axis at another place, over the same bytes."""
    last = _ndims(x) - 1
    order = list(range(last))
    order.insert(axis, last)
    return _permuted(x, tuple(order))


def _ndims(x: Any) -> int:
    return x.desc.ndims if isinstance(x, Memory) else x.ndim


def _permuted(x: Any, order: tuple[int, ...]) -> Any:
    """Axis i is what axis `order[i]` was."""
    if order == tuple(range(len(order))):
        return x
    if isinstance(x, Memory):
        return Memory(x.desc.permute_axes([order.index(i) for i in range(len(order))]), x.engine, x)
    return x.transpose(order)
