"""Problems of primitives as plain values: extents, types, formats, attributes.

`ir_problems` holds many such problems, `ir_texts` turns one into the texts of its kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Dims = tuple[int, ...]
# A step is the name of a setter of attributes, or of a post-op, and its arguments.
Step = tuple[object, ...]

# Numbers of arguments, as oneDNN has them.
SRC, DST, SRC_0 = 1, 17, 1024


@dataclass(frozen=True)
class Tensor:
    """A tensor; `format` is a tag, or strides in elements.

    With `whole`, it is the part of a tensor of these dims that begins at `at`.
    """

    dims: Dims
    data_type: str
    format: str | Dims
    whole: Dims = ()
    at: Dims = ()

    def __str__(self) -> str:
        words = [self.data_type, _text(self.format), "x".join(map(str, self.dims))]
        return ":".join(words + ([f"of{_text(self.whole)}at{_text(self.at)}"] if self.whole else []))


@dataclass(frozen=True)
class Problem:
    """A problem of a primitive.

    kind        the primitive, or "amax" and "min_max" for the ranges that quantization finds
    parameters  of a shuffle: axis, group size; of a concat: axis; of a sum: a scale for each source; of a
                range: the mask of the dims that are kept
    steps       of attributes
    caches      sizes of the second and the last cache: the common ones, or so small that all work is large
    in_place    sources lie in the destination, in their places
    """

    kind: str
    tensors: tuple[Tensor, ...]
    parameters: tuple[float, ...] = ()
    steps: tuple[Step, ...] = ()
    caches: tuple[int, int] = (1 << 20, 16 << 20)
    in_place: bool = False

    @property
    def name(self) -> str:
        """All that the problem is, in one line."""
        words = [
            self.kind,
            *map(str, self.tensors),
            *map(_text, self.parameters),
            *map(_step_text, self.steps),
        ]
        if self.caches != COMMON:
            words.append("caches:" + _text(self.caches))
        return " ".join([*words, "in-place"] if self.in_place else words)


def _text(value: object) -> str:
    return ",".join(map(_text, value)) if isinstance(value, tuple) else str(value)


def _step_text(step: Step) -> str:
    name, *arguments = step
    return f"{name}({';'.join(map(_text, arguments))})"


COMMON, SMALL, TINY = (1 << 20, 16 << 20), (1 << 14, 1 << 16), (1 << 10, 1 << 12)


def reorder(
    dims: Dims, types: str, src: str | Dims, dst: str | Dims, *steps: Step, caches: Dims = COMMON
) -> Problem:
    """A reorder; `types` are that of the source and that of the destination, or one for both."""
    first, last = (types.split() * 2)[:2]
    tensors = Tensor(dims, first, src), Tensor(dims, last, dst)
    return Problem("reorder", tensors, (), steps, (caches[0], caches[1]))


def shuffle(
    dims: Dims, kind: str, tags: str, axis: int, group: int, caches: Dims = COMMON, back: bool = False
) -> Problem:
    """A shuffle; `tags` are that of the source and that of the destination, or one for both."""
    tensors = tuple(Tensor(dims, kind, tag) for tag in tags.split())
    name = "shuffle_backward" if back else "shuffle_forward"
    return Problem(name, tensors, (axis, group), (), (caches[0], caches[1]))


def concat(
    shapes: Iterable[Dims], types: str, tags: str, axis: int, *steps: Step, caches: Dims = COMMON
) -> Problem:
    """A concat; the last type and the last tag are those of the destination."""
    shapes = tuple(shapes)
    source_types, source_tags = types.split(), tags.split()
    dims = list(shapes[0])
    dims[axis] = sum(shape[axis] for shape in shapes)
    sources = tuple(
        Tensor(shape, source_types[i % len(source_types)], source_tags[i % len(source_tags)])
        for i, shape in enumerate(shapes)
    )
    destination = Tensor(tuple(dims), source_types[-1], source_tags[-1])
    return Problem("concat", (*sources, destination), (axis,), steps, (caches[0], caches[1]))


def add(dims: Dims, types: str, tags: str, scales: Iterable[float], caches: Dims = COMMON) -> Problem:
    """A sum; types and tags as for `concat`."""
    scales = tuple(scales)
    source_types, source_tags = types.split(), tags.split()
    sources = tuple(
        Tensor(dims, source_types[i % len(source_types)], source_tags[i % len(source_tags)])
        for i in range(len(scales))
    )
    return Problem(
        "sum",
        (*sources, Tensor(dims, source_types[-1], source_tags[-1])),
        scales,
        (),
        (caches[0], caches[1]),
    )


def found_range(kind: str, dims: Dims, data_type: str, tag: str | Dims, mask: int) -> Problem:
    """The largest magnitude, or the smallest and the largest value, for each index of the masked dims."""
    return Problem(kind, (Tensor(dims, data_type, tag),), (mask,))


def window(types: str, tags: str) -> Problem:
    """A reorder of a window into a window."""
    (first, last), (src, dst) = types.split(), tags.split()
    return Problem(
        "reorder",
        (
            Tensor((5, 22, 7), first, src, (9, 70, 11), (3, 48, 2)),
            Tensor((5, 22, 7), last, dst, (8, 54, 9), (1, 32, 1)),
        ),
    )
