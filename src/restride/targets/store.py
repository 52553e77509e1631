"""Object code by its source text: found in the store on disk, else compiled and stored."""

from __future__ import annotations

import functools
import hashlib

from restride.targets import jit
from restride.targets.isa import Isa
from restride.targets.llvm_facts import llvm_facts
from restride.targets.object_store import MAGIC, ObjectStore, StoreInfo, default_store
from restride.version import VERSION

__all__ = ["ObjectStore", "StoreInfo", "default_store", "object_code", "object_key", "text_key"]


def object_key(ir_text: str, isa: Isa) -> str:
    """Return the hexadecimal SHA-256 of everything that the object code of `ir_text` for `isa` depends on."""
    return text_key(isa.triple, isa.cpu, isa.features, ir_text)


def text_key(*parts: str) -> str:
    """Return the hexadecimal SHA-256 of texts, and of the versions of this library and of LLVM."""
    digest = hashlib.sha256()
    for part in (*_versions(), *parts):
        data = part.encode()
        # Lengths keep ("ab", "c") and ("a", "bc") apart.
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@functools.cache
def _versions() -> tuple[str, ...]:
    facts = llvm_facts()
    return MAGIC.hex(), VERSION, facts.llvmlite, facts.version


def object_code(ir_text: str, isa: Isa) -> bytes:
    """Return the object code of `ir_text`: from the default store, else compiled and stored."""
    store, key = default_store(), object_key(ir_text, isa)
    content = store.get(key)
    if content is None:
        content = jit.compile_ir(ir_text, isa)
        store.put(key, content)
    return content
