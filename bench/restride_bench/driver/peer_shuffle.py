"""Shuffles as the peers do them: oneDNN's primitive; a copy between views where the axis is not blocked."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import restride as rs
from restride import Error
from restride.desc.tags import to_tag
from restride.plan.conversion import storage_dtype

from ..onednn import OneDNN
from ..peer import PeerRefusal
from .fill import Bytes
from .primitives.shuffle import ShuffleCase

Call = Callable[[], object]


class Views(NamedTuple):
    """The same elements in both storages: shape, and the strides of source and destination in elements."""

    shape: tuple[int, ...]
    src: tuple[int, ...]
    dst: tuple[int, ...]
    word: np.dtype[Any]


def views(md: rs.MemoryDesc, case: ShuffleCase) -> Views:
    """A shuffle as a copy: dst[u + v * C / G] = src[u * G + v] is an exchange of two axes."""
    axis, extent = case.axis, md.dims[case.axis]
    if axis in md.inner_idxs:
        raise PeerRefusal("the axis is blocked")
    size = case.group if case.dir != "BWD_D" else extent // case.group
    place = md.outer_order.index(axis)
    shape, step = md.physical_shape, md.physical_strides
    inner = shape[:place], shape[place + 1 :]
    before, after, stride = step[:place], step[place + 1 :], step[place]
    return Views(
        (*inner[0], extent // size, size, *inner[1]),
        (*before, size * stride, stride, *after),
        (*before, stride, extent // size * stride, *after),
        storage_dtype(md.data_type),
    )


def of_numpy(found: Views, storages: tuple[Bytes, Bytes]) -> Call:
    """`np.copyto` between strided views of words."""
    width, strided = found.word.itemsize, np.lib.stride_tricks.as_strided
    src, dst = (
        strided(storage.view(found.word), found.shape, [step * width for step in steps])
        for storage, steps in zip(storages, (found.src, found.dst), strict=True)
    )
    return functools.partial(np.copyto, dst, src)


def of_torch(torch: Any, found: Views, storages: tuple[Bytes, Bytes]) -> Call:
    """`copy_` between strided views of words."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    src, dst = (
        torch.from_numpy(storage).view(kinds[found.word.itemsize]).as_strided(found.shape, steps)
        for storage, steps in zip(storages, (found.src, found.dst), strict=True)
    )
    return functools.partial(dst.copy_, src)


def of_onednn(library: OneDNN, case: ShuffleCase, source: Bytes, answer: Bytes) -> tuple[Call, str]:
    """oneDNN's shuffle, and the name of its kernel."""
    is_backward = case.dir == "BWD_D"
    try:
        desc = library.desc(case.dims, case.dt, str(to_tag(case.tag, len(case.dims))))
        primitive = library.shuffle(desc, case.axis, case.group, backward=is_backward)
    except Error as error:
        raise PeerRefusal(error.why or error.what) from None
    reads, writes = (rs.ARG_DIFF_DST, rs.ARG_DIFF_SRC) if is_backward else (rs.ARG_SRC, rs.ARG_DST)
    memories = {reads: library.memory(desc, source), writes: library.memory(desc, answer)}
    return primitive.bind_all(memories), primitive.impl
