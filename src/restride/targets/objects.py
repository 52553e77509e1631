"""What was lowered as object code: from the store on disk, else compiled now; loaded into this process."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from ..loading import load_whole
from . import kernel_files, store
from .compilable import Compilable
from .isa import Isa
from .jit import Library, load


def object_code(lowered: Compilable) -> bytes:
    """Object code of what was lowered: from the store on disk, else compiled and kept there.

    The key names the nest and everything its code depends on, so that a hit costs no code generation.
    """
    kept = store.default_store()
    key = store.object_key(repr((lowered.key, _revision())), lowered.isa)
    found = kept.get(key)
    if found is None:
        found = compile_ir(lowered.ir(), lowered.isa, lowered.is_swept)
        kept.put(key, found)
    kernel_files.dump(lowered, key, found)
    return found


def compile_ir(ir_text: str, isa: Isa, is_swept: bool) -> bytes:
    """Object code for LLVM IR text, in the time that a compile may take; see `compile_pool`."""
    # Most kernels are found on disk: who compiles is loaded with the first that is not.
    load_whole("restride.targets.compile_pool")
    from . import compile_pool

    return compile_pool.compile_ir(ir_text, isa, is_swept)


def load_kernel(lowered: Compilable, title: str) -> Library:
    """The code of what was lowered, in this process; a profiler knows its functions by `title`."""
    code = object_code(lowered)
    library = load(code)
    kernel_files.name_for_perf(library, f"restride:{lowered.isa.name}:{title}", code)
    return library


@functools.cache
def _revision() -> str:
    """A hash of the compiler's own source, so that no kernel of another revision is ever loaded.

    Inside an archive there is no source to read: there the version, which the key has anyway, must do.
    """
    digest = hashlib.sha256()
    try:
        for path in _sources():
            digest.update(path.read_bytes())
    except OSError:
        return "archive"
    return digest.hexdigest()


def _sources() -> Iterable[Path]:
    package = Path(__file__).parent.parent
    return sorted(path for row in ("plan", "emit", "targets") for path in (package / row).glob("*.py"))
