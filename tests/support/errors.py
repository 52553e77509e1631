"""Requirements of every error: class and status, and a text with what, where, why and a hint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import restride as rs

STATUS = {
    rs.InvalidArguments: (rs.Status.invalid_arguments, ValueError),
    rs.Unimplemented: (rs.Status.unimplemented, NotImplementedError),
    rs.OutOfMemory: (rs.Status.out_of_memory, MemoryError),
    rs.RuntimeFailure: (rs.Status.runtime_error, RuntimeError),
}


@contextlib.contextmanager
def refused(
    *texts: str, kind: type[rs.Error] = rs.InvalidArguments, where: tuple[object, ...] = ()
) -> Iterator[None]:
    """The block raises `kind` with all of `texts` in its message, and `where` names these descriptors."""
    with pytest.raises(rs.Error) as caught:
        yield
    error = caught.value
    assert isinstance(error, kind), error.message
    status, builtin = STATUS[kind]
    assert error.status is status
    assert isinstance(error, builtin)
    assert error.what, error.message
    assert error.why, error.message
    assert error.code, error.message
    assert str(error) == error.message
    for text in texts:
        assert text in error.message, error.message
    for md in where:
        assert str(md) in error.where, error.message
