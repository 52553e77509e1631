"""Machine code for tests: compiled once for all processes of all runs, by its text."""

from __future__ import annotations

from restride.targets import jit, store
from restride.targets.isa import Isa


def loaded(text: str, isa: Isa) -> jit.Library:
    """The module `text` in this process. Its object code is kept in the store under the text itself."""
    return jit.load(store.object_code(text, isa))
