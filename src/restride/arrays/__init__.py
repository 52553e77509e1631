"""Functions on arrays of any library: formats, scales, and how each kind of array is read and created."""

from .reorders import reorder  # its place in earlier versions, used by their pickles

__all__ = ["reorder"]
