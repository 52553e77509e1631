"""Binds a call on arrays to its machine code: worked out on the first call of a signature, then cached.

The first call of a signature takes the slow path, where everything is checked; the result is cached here by
signature. A later call looks it up, packs its addresses and values as kernels read them, and runs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter, sub
from typing import Any, NamedTuple

from ...desc.arguments import (
    ARG_ATTR_OUTPUT_SCALES,
    ARG_ATTR_ZERO_POINTS,
    ARG_SRC_1,
    arg_attr_multiple_post_op,
)
from ...desc.attr import Attr
from ...desc.memory_desc import MemoryDesc
from ...ir.computation import Computation, Origin
from ...model.checks import is_same_place
from ...model.implementation import Implementation
from ...runtime.alloc import Array, address_of, extent
from ...runtime.cache import calls
from ...runtime.cpu.executable import CpuExecutable
from ...runtime.cpu.kernel import packed_address, packer
from ...runtime.describe import describe_kind
from ...runtime.memory import Memory
from ...verbose import flags
from .array_kinds import ArrayOperand
from .carriers import NumpyType
from .results import Make, maker_of
from .signature import NO_VALUES, Values

Span = tuple[int, int]
# Bound to names here, for calls that take a microsecond.
_find, _count_hit = calls.find, calls.count_hit


class CallKey(NamedTuple):
    """The key of a call: its signature, the operands that it reads and writes, and its values."""

    signature: Hashable
    sources: Sequence[ArrayOperand]
    target: ArrayOperand | None
    values: Values = NO_VALUES


def find_call(signature: Hashable) -> CompiledCall | None:
    """Return the cached call of a signature, if any; None while verbose lines are to be written."""
    if flags.profile:
        return None
    call: CompiledCall | None = _find(signature)
    if call is not None:
        _count_hit()
    return call


def cache_call(
    signed: CallKey,
    impl: Implementation,
    sources: Sequence[Memory],
    target: Memory,
    *,
    dtype: NumpyType | None = None,
    is_memory: bool = False,
    words: ParamPacker | None = None,
    may_be_in_place: bool = False,
) -> None:
    """Let later calls of the signature run the machine code directly that has run on these memory objects.

    They wrap the bytes of the call. `dtype` and `is_memory`: for new results, as in `maker_of`.
    """
    pairs = zip(signed.sources, sources, strict=True)
    below = [address - memory._address for (_, address, _), memory in pairs]
    call = CompiledCall(
        impl,
        [memory.desc for memory in sources],
        target.desc,
        below,
        0 if signed.target is None else signed.target[1] - target._address,
        make=maker_of(target.desc, dtype, is_memory=is_memory) if signed.target is None else None,
        words=words,
        may_be_in_place=may_be_in_place,
    )
    calls.keep(signed.signature, call)


class CompiledCall:
    """A CPU executable bound to arrays and memory objects of certain kinds.

    `below`: how many bytes element offset 0 of each source is before the address of its array; `out_below`:
    the same for the destination. `make()` returns a new result and the address of its element offset 0.
    """

    __slots__ = (
        "_call",
        "_executable",
        "_first_below",
        "_in_place",
        "_is_plain",
        "_make",
        "_ranges",
        "_words",
        "below",
        "impl",
        "out_below",
        "range",
    )

    def __init__(
        self,
        impl: Implementation,
        srcs: Sequence[MemoryDesc],
        dst: MemoryDesc,
        below: Sequence[int] = (),
        out_below: int = 0,
        *,
        make: Make | None = None,
        words: ParamPacker | None = None,
        may_be_in_place: bool = False,
    ) -> None:
        assert isinstance(impl.executable, CpuExecutable)
        self.impl, self._executable, self._make = impl, impl.executable, make or _no_result
        self._call = impl.executable.prepare()
        self.below, self.out_below = tuple(below) or (0,) * len(srcs), out_below
        self._first_below = self.below[0]
        self._ranges: tuple[Span, ...] = tuple(extent(md)[:2] for md in srcs)
        self.range: Span = extent(dst)[:2]
        self._words = words or ParamPacker(impl.computation, len(srcs) - 1)
        self._is_plain = self._words.is_empty
        self._in_place = may_be_in_place and is_same_place(srcs[0], dst)

    @property
    def reach(self) -> int:
        """One past the highest byte that is read, relative to the address of the first array."""
        return self._ranges[0][1] - self.below[0]

    @property
    def direct_kernel(self) -> int:
        """The address of machine code void(src, dst, words) for the whole call; 0 if there is none."""
        return self._executable.direct_kernel_address

    def into_new(self, source: ArrayOperand, values: Values = NO_VALUES) -> Any:
        """Return the new result of a call with one source."""
        target, result = self._make()
        if self._is_plain:  # the same as `run`, inlined to save a twentieth of the call
            self._call(source[1] - self._first_below, target, 0)
        else:
            self.run(source[1] - self._first_below, target, values)
        return result

    def into(self, source: ArrayOperand, out: ArrayOperand, values: Values = NO_VALUES) -> bool:
        """Write the result of a call with one source; False, with nothing touched, if bytes are shared."""
        src, dst = source[1] - self._first_below, out[1] - self.out_below
        if not self._is_apart(0, src, dst) and not (self._in_place and src == dst):
            return False
        if values.arrays and not self._words.are_apart(values, (dst + self.range[0], dst + self.range[1])):
            return False
        self.run(src, dst, values)
        return True

    def join(self, sources: Sequence[ArrayOperand], out: ArrayOperand | None) -> tuple[bool, Any]:
        """Run a call with several sources; return whether it ran, and the new result."""
        addresses = list(map(sub, [source[1] for source in sources], self.below))
        if out is None:
            target, result = self._make()
        else:
            target, result = out[1] - self.out_below, None
            is_same = self._in_place and addresses[0] == target
            if not all(self._is_apart(i, addresses[i], target) for i in range(is_same, len(addresses))):
                return False, None
        words = self._words.packed(addresses[1:], NO_VALUES)
        self._call(addresses[0], target, packed_address(words))
        return True, result

    def run(self, src: int, dst: int, values: Values = NO_VALUES) -> None:
        """Run on addresses of element offset 0 that the caller has checked."""
        if self._is_plain:
            self._call(src, dst, 0)
            return
        words = self._words.packed((), values)
        self._call(src, dst, packed_address(words))

    def words(self, values: Values) -> bytes:
        """Return the bytes that kernels read other than source and destination; they must outlive the run."""
        return self._words.packed((), values)

    def _is_apart(self, index: int, src: int, dst: int) -> bool:
        first, last = self._ranges[index]
        return src + first >= dst + self.range[1] or dst + self.range[0] >= src + last


def _no_result() -> tuple[int, Any]:
    raise AssertionError("this call writes what is brought")


class ParamPacker:
    """The words that kernels read other than source and destination, with the place of each value of a call.

    `more` further sources come first, then operands, then scalars.
    """

    __slots__ = ("_below", "_order", "_pack", "_ranges", "_usual", "is_empty")

    def __init__(self, computation: Computation, more: int = 0) -> None:
        operands, scalars = len(computation.operands), len(computation.scalars)
        self.is_empty = not (more or operands or scalars)
        self._pack = packer(more + operands, scalars)
        self._usual = computation.scalars
        self._order: Callable[[Sequence[Any]], Sequence[Any]] | None = None
        self._below: list[int] = []
        self._ranges: list[Span] = []

    @classmethod
    def of_values(
        cls, computation: Computation, values: Values, attr: Attr, memories: Mapping[int, Memory]
    ) -> ParamPacker | None:
        """Return a packer whose values come from each call; None if kernels do not read them unchanged.

        `attr` and `memories` are the converted values of the first call.
        """
        arrays, scalars = origins_of(values.structure, attr)
        operands = [operand.arg for operand in computation.operands]
        is_whole = sorted(arrays) == sorted(operands) and set(scalars) <= set(computation.origins)
        if not is_whole or any(operand.tensor.data_type.bits < 8 for operand in computation.operands):
            return None
        words = cls(computation)
        places = [
            *map(operands.index, arrays),
            *(len(operands) + computation.origins.index(o) for o in scalars),
        ]
        words._order = _picker(places, len(scalars), len(operands) + len(computation.scalars))
        words._below = [_below(array) for array in values.arrays]
        words._ranges = [extent(memories[arg].desc)[:2] for arg in arrays]
        return words

    def packed(self, more: Sequence[int], values: Values) -> bytes:
        """Return the words of a call, which must outlive its run."""
        if self._order is None:
            return self._pack(*more, *self._usual)
        addresses = map(sub, map(address_of, values.arrays), self._below)
        return self._pack(*more, *self._order((*addresses, *values.scalars, *self._usual)))

    def are_apart(self, values: Values, span: Span) -> bool:
        """Return True if no array of a call has a byte within `span`."""
        for (first, last), below, array in zip(self._ranges, self._below, values.arrays, strict=True):
            start = address_of(array) - below
            if start + first < span[1] and span[0] < start + last:
                return False
        return True


def origins_of(structure: tuple[Any, ...], attr: Attr) -> tuple[list[int], list[Origin]]:
    """Return the origins of a call's arrays and scalars in its converted attributes, in order.

    An array is the memory object of an argument; a scalar is one number of an argument.
    """
    if not structure:
        return [], []
    shift, factor, _, weight, chain = structure
    arrays: list[int] = []
    scalars: list[Origin] = []
    zero_points = [ARG_ATTR_ZERO_POINTS | arg for arg, _ in attr.zero_points] or [0]
    for part, arg in ((shift, zero_points[0]), (factor, ARG_ATTR_OUTPUT_SCALES)):
        if isinstance(part, int):
            arrays.append(arg)
        elif part is not None:
            scalars.append((arg, 0))
    parts = (("sum", None), *chain) if weight else chain
    for index, part in enumerate(parts):
        arg = arg_attr_multiple_post_op(index)
        if isinstance(part, str):
            continue
        name, *rest = part
        if len(rest) > 1:
            arrays.append(arg | ARG_SRC_1)
        else:
            count = 1 if name == "sum" else rest[0]
            scalars += [(arg, number) for number in range(count)]
    return arrays, scalars


def _picker(places: Sequence[int], scalars: int, count: int) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function from arrays, scalars and default scalars, in a row, to the `count` words a kernel
    reads.

    `places`: the word of each array and each scalar.
    """
    # Word i, a scalar without a value, is default scalar i - arrays; the defaults follow the values.
    picked = [places.index(word) if word in places else scalars + word for word in range(count)]
    if picked == list(range(count)):
        return lambda row: row[:count]
    return itemgetter(*picked) if len(picked) > 1 else lambda row: [row[at] for at in picked]


def _below(array: Array) -> int:
    """Return the number of bytes from element offset 0 to the first element."""
    return describe_kind(array.shape, array.strides, array.dtype).below if array.ndim else 0
