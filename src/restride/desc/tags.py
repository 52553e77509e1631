"""Format tags: string ↔ (outer order, inner blocks), without dims.

Grammar, letters outermost to innermost::

    tag     := base | alias | generic | "any" | "undef"
    base    := outer letters (each of the first n of a..l once), then inner blocks      ABcd16b16a2b
    block   := DIGITS ["@" STEP] letter, from the outer to the inner block              16b    32@1b
    alias   := as base, with the letters of a domain (see aliases)                      nChw16c
    generic := as base, with x for "all remaining axes in order"                        aBx16b

An upper-case outer letter marks a blocked axis. Lower case is accepted there too, because the blocks imply
it.

A block is a digit of the index: `index // step % size`. The default step is the product of the axis's blocks
further in, as in oneDNN. Explicit steps order the digits of an axis differently: in `aB16@1b2@16b`, elements
0 and 16 are neighbors, then 1 and 17.
"""

from __future__ import annotations

import enum
from functools import lru_cache

from ..errors import InvalidArguments, LookupType, ValueLookup, refuse
from ..foreign import plain_text
from ..frozen import dataclass
from .inner_blocks import block_texts, canonical_blocks, clash_of_steps, usual_steps
from .tag_names import ALIAS_LETTERS, IRREGULAR, LETTERS, WORDS, axes_of_letters, tag_hint
from .tag_text import Scan, bad_tag, scan

MAX_NDIMS = len(LETTERS)
MAX_INNER_BLOCKS = 12
_MAX_TEXT = 192
_REST = -1


@dataclass(frozen=True, slots=True)
class Tag:
    """A memory format without dims: axes outermost to innermost, then the inner blocks, outer to inner.

    `Tag((0, 1, 2, 3), (16,), (1,))` is `aBcd16b`. Without `inner_steps` the digits of an axis are in their
    usual order. Blocks of size 1 are dropped, and stepped ones have one spelling, so that equal meaning is an
    equal value.
    """

    order: tuple[int, ...]
    inner_blks: tuple[int, ...] = ()
    inner_idxs: tuple[int, ...] = ()
    inner_steps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        problem = _problem(self.order, self.inner_blks, self.inner_idxs, self.inner_steps)
        if problem:
            raise refuse(
                "RS-M11:not-format-tag",
                value=(self.order, self.inner_blks, self.inner_idxs, self.inner_steps),
                problem=problem,
            )
        object.__setattr__(self, "order", tuple(self.order))
        blocks = canonical_blocks(self.inner_blks, self.inner_idxs, self.inner_steps)
        for name, values in zip(("inner_blks", "inner_idxs", "inner_steps"), blocks, strict=True):
            object.__setattr__(self, name, values)

    @property
    def ndims(self) -> int:
        """Number of axes."""
        return len(self.order)

    def __str__(self) -> str:
        """Return the canonical base spelling, `aBcd16b`."""
        outer = (LETTERS[i].upper() if i in self.inner_idxs else LETTERS[i] for i in self.order)
        return "".join((*outer, *block_texts(self.inner_blks, self.inner_idxs, self.inner_steps)))


@dataclass(frozen=True, slots=True)
class GenericTag:
    """A tag for any rank: `x` represents the axes without letters of their own, in order (`aBx16b`)."""

    order: tuple[int, ...]
    inner_blks: tuple[int, ...] = ()
    inner_idxs: tuple[int, ...] = ()
    inner_steps: tuple[int, ...] = ()

    def resolve(self, ndims: int) -> Tag:
        """Return the tag for `ndims` axes. Plain letters beyond the rank are dropped: `abx` of rank 1 is `a`.

        Raises InvalidArguments if the rank does not include a blocked axis, or is not 1..12.
        """
        if not 1 <= ndims <= MAX_NDIMS or any(i >= ndims for i in self.inner_idxs):
            raise refuse("RS-M06:format-tag-cannot", owner=self, ndims=ndims, max_ndims=MAX_NDIMS)
        axes = set(self.order)
        rest = tuple(i for i in range(ndims) if i not in axes)
        order = [j for i in self.order for j in (rest if i == _REST else (i,)) if j < ndims]
        return Tag(tuple(order), self.inner_blks, self.inner_idxs, self.inner_steps)

    def __str__(self) -> str:
        letters = {
            i: LETTERS[i].upper() if i in self.inner_idxs else LETTERS[i] for i in range(MAX_NDIMS)
        } | {_REST: "x"}
        inner = block_texts(self.inner_blks, self.inner_idxs, self.inner_steps)
        return "".join((*(letters[i] for i in self.order), *inner))


def _problem(
    order: tuple[int, ...], blks: tuple[int, ...], idxs: tuple[int, ...], steps: tuple[int, ...]
) -> str:
    """Return why these arguments are not a tag, or an empty string."""
    if not 1 <= len(order) <= MAX_NDIMS or sorted(order) != list(range(len(order))):
        return f"the order must contain each axis 0..n-1 once, with n at most {MAX_NDIMS}"
    if len(blks) != len(idxs) or len(blks) > MAX_INNER_BLOCKS:
        return f"each inner block needs a size and an axis, at most {MAX_INNER_BLOCKS} blocks"
    if any(type(blk) is not int or not 1 <= blk < 2**31 for blk in blks):
        return "block sizes must be integers from 1 to 2**31 - 1"
    if any(type(i) is not int or not 0 <= i < len(order) for i in (*idxs, *order)):
        return "a block's axis must be one of the tag's axes"
    if steps and (len(steps) != len(blks) or any(type(step) is not int for step in steps)):
        return "either each inner block or none must have a step, an integer"
    return clash_of_steps(blks, idxs, steps) if steps else ""


def parse_tag(text: str) -> Tag | GenericTag:
    """Return the meaning of a tag string in any base, alias or rank-generic spelling.

    Raises InvalidArguments with a caret under the invalid character and the nearest known tag.
    """
    if not isinstance(text, str):
        raise refuse("RS-M11:format-tag-string", type=type(text).__name__)
    if len(text) > _MAX_TEXT:
        raise bad_tag(text, _MAX_TEXT, f"a tag has at most {_MAX_TEXT} characters; this one has {len(text)}")
    return _parse(str(text))


@lru_cache(maxsize=1024)
def _parse(text: str) -> Tag | GenericTag:
    parts = scan(WORDS.get(text) or IRREGULAR.get(text, text))
    axes = _axes(parts, text)
    _check_blocks(parts, text, axes)
    blks, idxs = tuple(b.size for b in parts.blocks), tuple(axes[b.letter] for b in parts.blocks)
    usual = usual_steps(blks, idxs)
    steps = tuple(step if b.step is None else b.step for b, step in zip(parts.blocks, usual, strict=True))
    _check_steps(parts, text, (blks, idxs, steps))
    order = tuple(axes[letter.lower()] for letter in parts.outer)
    make = GenericTag if _REST in order else Tag
    return make(order, *canonical_blocks(blks, idxs, steps))


def _check_steps(parts: Scan, text: str, blocks: tuple[tuple[int, ...], ...]) -> None:
    """Check that explicit steps make the blocks of each axis a permutation of its digits."""
    places = [b.at for b in parts.blocks if b.step is not None]
    why = clash_of_steps(*blocks) if places else ""
    if why:
        raise bad_tag(text, places[0], why)


def _axes(parts: Scan, text: str) -> dict[str, int]:
    """Return the axis of each outer letter: by alphabet for base and generic tags, by domain for aliases."""
    letters = parts.outer.lower()
    for i, letter in enumerate(letters):
        if letter in letters[:i]:
            raise bad_tag(text, i, f"axis '{letter}' appears twice")
    if letters == "x":
        return {"x": 0}
    return _base_axes(letters, text) if "a" in letters else _alias_axes(letters, text)


def _base_axes(letters: str, text: str) -> dict[str, int]:
    axis_letters = letters.replace("x", "")
    for i, letter in enumerate(letters):
        if letter not in LETTERS and letter != "x":
            raise bad_tag(
                text, i, f"'{letter}' is not an axis letter of a base tag: those are a..{LETTERS[-1]}"
            )
        if letter in LETTERS and LETTERS.index(letter) >= len(axis_letters):
            missing = next(c for c in LETTERS if c not in axis_letters)
            raise bad_tag(text, i, f"axis '{letter}' is named but axis '{missing}' is not")
    axes = {letter: LETTERS.index(letter) for letter in axis_letters}
    return axes | {"x": _REST} if "x" in letters else axes


def _alias_axes(letters: str, text: str) -> dict[str, int]:
    axes = axes_of_letters(letters)
    if axes is not None:
        return axes
    stranger = next((i for i, letter in enumerate(letters) if letter not in ALIAS_LETTERS), 0)
    is_known = letters[stranger] in ALIAS_LETTERS
    why = (
        f"the letters '{letters}' do not name a known set of axes"
        if is_known
        else f"'{letters[stranger]}' is not an axis letter"
    )
    raise bad_tag(text, stranger, why)


def _check_blocks(parts: Scan, text: str, axes: dict[str, int]) -> None:
    """Check that blocks name outer axes, and upper-case letters have blocks, unless all are plain."""
    blocked = {block.letter for block in parts.blocks}
    for letter, size, at, _ in parts.blocks:
        if axes.get(letter, _REST) == _REST:
            raise bad_tag(text, at, f"the block's axis '{letter}' is not among the outer letters")
        if not 1 <= size < 2**31:
            raise bad_tag(text, at, f"block size {size} is outside 1..2**31 - 1")
    if len(parts.blocks) > MAX_INNER_BLOCKS:
        raise bad_tag(text, parts.blocks[MAX_INNER_BLOCKS].at, f"more than {MAX_INNER_BLOCKS} inner blocks")
    if not blocked and parts.outer.isupper() and len(parts.outer) > 1:
        return
    for i, letter in enumerate(parts.outer):
        if letter.isupper() and letter.lower() not in blocked:
            raise bad_tag(
                text, i, f"'{letter}' marks a blocked axis, but no block of '{letter.lower()}' follows"
            )


class _TagNames(LookupType):
    """Makes every tag of the grammar an attribute of `FormatTag`; non-members are `Tag` values."""

    def __getattr__(cls, name: str) -> Tag | GenericTag:  # noqa: N805 - of a metaclass
        if not name.startswith("_"):
            try:
                return parse_tag(name)
            except InvalidArguments:
                pass
        raise AttributeError(f"FormatTag has no {name!r}: FormatTag.parse says what is wrong with a tag")


class FormatTag(ValueLookup, enum.Enum, metaclass=_TagNames):
    """oneDNN's named format tags (`dnnl::memory::format_tag`): 27 base tags and 43 aliases.

    An alias is the same member as its base tag: `FormatTag.nchw is FormatTag.abcd`. `str()` returns the base
    name, which parses back. Every other tag of the grammar is an attribute too, as the value that `parse`
    returns: `FormatTag.nChw16c`. Recurrent gate order: LSTM input, forget, candidate, output; GRU update,
    reset, output.
    """

    undef = "undef"
    any = "any"
    a = "a"
    ab, ba = "ab", "ba"
    abc, acb, bac, bca, cba = "abc", "acb", "bac", "bca", "cba"
    abcd, abdc, acdb, bacd, bcda, cdba, dcab = "abcd", "abdc", "acdb", "bacd", "bcda", "cdba", "dcab"
    abcde, abdec, acbde, acdeb, bcdea = "abcde", "abdec", "acbde", "acdeb", "bcdea"
    cdeba, decab = "cdeba", "decab"
    abcdef, acbdef, defcab = "abcdef", "acbdef", "defcab"

    x = a
    nc, cn, tn, nt, oi, io = ab, ba, ab, ba, ab, ba
    ncw, nwc, oiw, owi, wio, iwo, tnc, ntc = abc, acb, abc, acb, cba, bca, abc, bac
    nchw, nhwc, chwn = abcd, acdb, bcda
    oihw, hwio, ohwi, ihwo, iohw = abcd, cdba, acdb, bcda, bacd
    goiw, wigo = abcd, dcab
    ldnc, ldio, ldoi, ldgo = abcd, abcd, abdc, abcd
    ncdhw, ndhwc = abcde, acdeb
    oidhw, dhwio, odhwi, idhwo = abcde, cdeba, acdeb, bcdea
    goihw, hwigo, giohw = abcde, decab, acbde
    ldigo, ldgoi = abcde, abdec
    goidhw, giodhw, dhwigo = abcdef, acbdef, defcab

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def parse(cls, text: str | FormatTag) -> FormatTag | Tag | GenericTag:
        """Return a member for the named tags in any spelling, else the `Tag` or rank-generic tag."""
        if isinstance(text, FormatTag):
            return text
        name = plain_text(text)
        if isinstance(name, str) and name in ("any", "undef"):
            return cls(name)
        try:
            tag = parse_tag(name)
        except InvalidArguments as error:
            error.drop_frames()
            raise
        return cls._value2member_map_.get(str(tag), tag)  # type: ignore[return-value]


TagLike = str | FormatTag | Tag | GenericTag


def to_tag(value: TagLike, ndims: int) -> Tag | FormatTag:
    """Return `value` as a `Tag` of `ndims` axes; `FormatTag.any` and `.undef` are returned unchanged.

    Raises InvalidArguments if the tag has another rank.
    """
    name = plain_text(value.value if isinstance(value, FormatTag) else value)
    if isinstance(name, str) and name in ("any", "undef"):
        return FormatTag(name)
    parsed = parse_tag(name) if isinstance(name, str) else name
    tag = parsed.resolve(ndims) if isinstance(parsed, GenericTag) else parsed
    if tag.ndims != ndims:
        raise refuse(
            "RS-M06:format-tag-axes",
            value=value,
            tag=tag,
            ndims=ndims,
            hint_of_rank=_hint_of_rank(name, ndims),
        )
    return tag


def _hint_of_rank(value: object, ndims: int) -> str:
    """Suggest the most similar tag of that rank."""
    hint = tag_hint(value, ndims) if isinstance(value, str) else ""
    near = f"{hint} " if hint.startswith("did you mean") else ""
    return f"{near}'abx' (row-major) and 'axb' (channels last) work for any rank"
