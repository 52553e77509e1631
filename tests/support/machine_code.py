"""Machine code for tests: compiled once for all processes of all runs, by its text."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from restride import settings
from restride.targets import jit, objects, store
from restride.targets.isa import Isa
from restride.targets.lowered import Lowered


def loaded(text: str, isa: Isa) -> jit.Library:
    """The module `text` in this process. Its object code is kept in the store under the text itself."""
    return jit.load(store.object_code(text, isa))


def keep_by_text(folder: str) -> None:
    """Keep kernels of this process by their text too, while its store is the one in `folder`.

    The library's keys are of one revision: a change of what plans or writes kernels would have all of them
    compiled again, though most texts are as before.
    """
    compiled, kept = objects._compiled, store.ObjectStore(Path(folder, "by-text"))

    def compiled_once(lowered: Lowered) -> bytes:
        if settings.lookup("CACHE_DIR") != folder or not os.path.isabs(folder):
            return compiled(lowered)
        key = store.object_key(_compiler() + lowered.ir(), lowered.isa)
        code = kept.get(key)
        if code is None:
            code = compiled(lowered)
            kept.put(key, code)
        return code

    objects._compiled = compiled_once


@functools.cache
def _compiler() -> str:
    """A hash of the source of what makes code of a text."""
    digest = hashlib.sha256()
    for path in sorted(Path(objects.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
