"""The arrays that people hold: what formats and factors they name, how each kind is read and made."""

from .reorders import reorder  # where earlier versions had it: pickles name it so

__all__ = ["reorder"]
