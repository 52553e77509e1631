"""The code style for an instruction set of a CPU."""

from __future__ import annotations

from ..emit.builder import ANYWHERE
from ..emit.convert import Abilities
from ..emit.kernel import Style
from .isa import Isa

# LLVM 22 lets a load or store of lanes or interleaved registers on AArch64 advance its address to that of
# another in the block, or in the next iteration of a loop, but considers only the lower 32 bits of the
# distance: it takes 2**32 + 16 for 16. All distances that one address can accumulate stay far below that, and
# no larger one fits an instruction.
_REACH = 1 << 24


def style_of(isa: Isa) -> Style:
    """Return the style of code for an instruction set."""
    is_wide, is_neon = isa.name == "avx512", isa.name == "neon"
    can = Abilities(
        half=isa.name in ("avx512", "avx2", "neon"),
        round_even=isa.name in ("avx512", "avx2", "sse41", "neon"),
        masks=is_wide,
        packs=isa.triple.startswith("x86_64"),
        byte_pairs=isa.name in ("avx512", "avx2", "sse41"),
        neon=is_neon,
        bfloat=is_neon and isa.has("bf16"),
        bfloat_of_normals=is_wide and isa.has("avx512bf16"),
        shuffled_bytes=isa.vector_bytes if isa.name != "generic" else 0,
        has_tables=is_neon or (is_wide and isa.has("avx512vbmi")),
    )
    byte_permute_cost = 1 if is_wide and isa.has("avx512vbmi") else 4
    reach = _REACH if is_neon else ANYWHERE
    return Style(isa.vector_bytes, 1 if is_wide else 3, byte_permute_cost, can, reach)
