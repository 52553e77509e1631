"""The declared contents of a file of tensors, for tests that bypass `rs.load`."""

from __future__ import annotations

from restride.files.stored_tensors import Contents
from restride.files.tensor_file import tensor_file


def contents_of(path: str) -> Contents:
    """The tensors and the metadata of a file."""
    found = tensor_file(path)
    found.file.close()
    return found.contents
