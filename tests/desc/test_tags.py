"""Tags: every string of the grammar parses and prints back; a bad one points at what is wrong."""

from __future__ import annotations

import itertools
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restride.desc.tag_names import PLAIN_ALIASES
from restride.desc.tags import FormatTag, GenericTag, Tag, parse_tag, to_tag
from restride.errors import InvalidArguments, Status

_BASES = """
    a ab ba abc acb bac bca cba abcd abdc acdb bacd bcda cdba dcab abcde abdec acbde acdeb bcdea cdeba decab
    abcdef acbdef defcab
"""
_ALIASES = """
    x=a nc=ab cn=ba tn=ab nt=ba oi=ab io=ba
    ncw=abc nwc=acb oiw=abc owi=acb wio=cba iwo=bca tnc=abc ntc=bac
    nchw=abcd nhwc=acdb chwn=bcda oihw=abcd hwio=cdba ohwi=acdb ihwo=bcda iohw=bacd goiw=abcd wigo=dcab
    ldnc=abcd ldio=abcd ldoi=abdc ldgo=abcd
    ncdhw=abcde ndhwc=acdeb oidhw=abcde dhwio=cdeba odhwi=acdeb idhwo=bcdea goihw=abcde hwigo=decab
    giohw=acbde ldigo=abcde ldgoi=abdec
    goidhw=abcdef giodhw=acbdef dhwigo=defcab
"""
# Blocked aliases of oneDNN, by domain, with the base tag that its header gives.
_BLOCKED = """
    nCw16c=aBc16b nChw8c=aBcd8b nChw16c=aBcd16b nCdhw32c=aBcde32b NChw16n16c=ABcd16a16b
    NCdhw40n32c=ABcde40a32b OIhw8i8o=ABcd8b8a OIhw16o16i=ABcd16a16b IOhw16o16i=BAcd16a16b
    OIhw4i16o4i=ABcd4b16a4b OIhw8i16o2i=ABcd8b16a2b OhwI16i16o=AcdB16b16a Ohwi16o=Acdb16a
    gOIhw4i16o4i=aBCde4c16b4c Goihw16g=Abcde16a gIOdhw16i16o=aCBdef16c16b hwioG16g=decbA16a
    ldgOi32o=abdEc32e ldgOI64o4i=abdEC64e4c wIo4i=cBa4b
    OhwI24o=Acdb24a OhwI32o=Acdb32a gOhwI24o=aBdec24b gOhwI32o=aBdec32b
    gIOhw2i8o16i2o=aBCde2c8b16c2b gIOdhw2i8o16i2o=aBCdef2c8b16c2b
"""
BASES = _BASES.split()
ALIASES = dict(pair.split("=") for pair in _ALIASES.split())
BLOCKED = dict(pair.split("=") for pair in _BLOCKED.split())


def test_the_seed_has_27_tags_and_43_aliases() -> None:
    assert {tag.value for tag in FormatTag} == {"undef", "any", *BASES}
    assert len(BASES) == 25
    assert set(FormatTag.__members__) - {tag.name for tag in FormatTag} == set(ALIASES) == set(PLAIN_ALIASES)
    assert len(ALIASES) == 43


@pytest.mark.parametrize(("alias", "base"), ALIASES.items())
def test_alias_is_the_base_member(alias: str, base: str) -> None:
    assert FormatTag[alias] is FormatTag[base]
    assert FormatTag.parse(alias) is FormatTag[base]
    assert str(FormatTag[alias]) == base
    assert str(parse_tag(alias)) == base


@pytest.mark.parametrize("base", BASES)
def test_base_tag_prints_back(base: str) -> None:
    assert str(parse_tag(base)) == base == str(FormatTag.parse(base))
    assert parse_tag(base) == Tag(tuple("abcdef".index(letter) for letter in base))


@pytest.mark.parametrize(("alias", "base"), BLOCKED.items())
def test_blocked_alias_means_its_base_tag(alias: str, base: str) -> None:
    assert str(parse_tag(alias)) == base
    assert FormatTag.parse(alias) == parse_tag(base)


def test_parts_of_a_doubly_blocked_tag() -> None:
    assert parse_tag("ABcd16b16a2b") == Tag((0, 1, 2, 3), (16, 16, 2), (1, 0, 1))
    assert parse_tag("OIhw4i16o4i") == Tag((0, 1, 2, 3), (4, 16, 4), (1, 0, 1))
    assert parse_tag("acdb") == Tag((0, 2, 3, 1))


def test_any_and_undef_are_members() -> None:
    assert FormatTag.parse("any") is FormatTag.any
    assert FormatTag.parse("undef") is FormatTag.undef
    assert FormatTag.parse(FormatTag.nhwc) is FormatTag.acdb


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("nchw8c", "aBcd8b"),
        ("abcd16b", "aBcd16b"),
        ("NCHW", "abcd"),
        ("OIHW", "abcd"),
        ("nChw16C", "aBcd16b"),
        ("aBcd1b", None),
        ("nChw08c", "aBcd8b"),
    ],
)
def test_unambiguous_spellings_are_accepted(text: str, base: str | None) -> None:
    assert str(parse_tag(text)) == (base or "abcd")


@pytest.mark.parametrize(
    ("text", "ndims", "base"),
    [
        ("abx", 4, "abcd"),
        ("abx", 2, "ab"),
        ("abx", 1, "a"),
        ("abx", 12, "abcdefghijkl"),
        ("axb", 5, "acdeb"),
        ("axb", 2, "ab"),
        ("axb", 1, "a"),
        ("xba", 4, "cdba"),
        ("xab", 3, "cab"),
        ("aBx16b", 4, "aBcd16b"),
        ("aBx16b", 2, "aB16b"),
        ("ABx16a16b", 5, "ABcde16a16b"),
        ("abxc", 5, "abdec"),
        ("xcab", 5, "decab"),
        ("aBCx16b16c", 4, "aBCd16b16c"),
        ("abx8b", 3, "aBc8b"),
    ],
)
def test_generic_tag_takes_the_rank_it_is_given(text: str, ndims: int, base: str) -> None:
    assert str(to_tag(text, ndims)) == base
    generic = parse_tag(text)
    assert isinstance(generic, GenericTag)
    assert parse_tag(str(generic)) == generic


@pytest.mark.parametrize(("text", "ndims"), [("aBx16b", 1), ("abx", 0), ("abx", 13), ("aBCx4b4c", 2)])
def test_generic_tag_refuses_ranks_it_cannot_have(text: str, ndims: int) -> None:
    with pytest.raises(InvalidArguments, match="rank"):
        parse_tag(text).resolve(ndims)  # type: ignore[union-attr]


# Text, where the caret stands, and a word of the hint or the reason.
BAD = [
    ("", 0, "empty"),
    ("nChw8", 5, "nChw8c"),
    ("nnchw", 1, "twice"),
    ("nChw", 1, "no block"),
    ("16b", 0, "starts with"),
    ("nChw8d", 5, "not among"),
    ("n hwc", 1, "nhwc"),
    ("nchw\n", 4, "letters"),
    ("aBcd0b", 5, "block size 0"),
    ("aBcd2147483648b", 14, "block size 2147483648"),
    ("aBcd16b16", 9, "lacks"),
    ("aBcd16bc", 7, "cannot follow"),
    ("acd", 2, "'b' is not"),
    ("abz", 2, "not an axis letter"),
    ("nch", 0, "nchw"),
    ("nc😀w", 2, "letters"),
    ("nChw8٤c", 5, "letters"),
    ("nchẃ", 3, "letters"),
    ("aBx16x", 5, "not among"),
    ("xx", 1, "twice"),
    ("abcdefghijklm", 12, "not an axis letter"),
    ("A" + "16a" * 13, 39, "more than 12"),
]


@pytest.mark.parametrize(("text", "at", "word"), BAD)
def test_bad_tag_gets_a_caret_and_a_hint(text: str, at: int, word: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse_tag(text)
    lines = caught.value.message.split("\n")
    where = next(i for i, line in enumerate(lines) if line.startswith("  where: "))
    assert lines[where + 1] == " " * (len("  where: ") + at) + "^"
    assert word in caught.value.message
    assert caught.value.hint
    assert caught.value.status == Status.invalid_arguments


@pytest.mark.parametrize(
    "text", ["n" * 10_000, "😀" * 2_500, "1" * 10_000, "aB" + "9" * 180 + "b", "nChw8", "\ud800"]
)
def test_bad_tag_is_refused_fast_and_briefly(text: str) -> None:
    def refuse() -> float:
        start = time.thread_time()
        with pytest.raises(InvalidArguments) as caught:
            parse_tag(text)
        spent = time.thread_time() - start
        assert len(caught.value.message) < 600
        assert caught.value.message.isprintable() or "\n" in caught.value.message
        return spent

    assert min(refuse() for _ in range(20)) < 1e-3


@pytest.mark.parametrize("value", [None, 7, b"nchw", ["n"], 3.5])
def test_what_is_no_string_is_no_tag(value: object) -> None:
    with pytest.raises(InvalidArguments, match="string"):
        parse_tag(value)  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments, match="string"):
        FormatTag.parse(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parts",
    [
        ((0, 0),),
        ((1,),),
        ((),),
        ((0, 1), (4,), ()),
        ((0,), (0,), (0,)),
        ((0,), (4,), (1,)),
        (tuple(range(13)),),
    ],
)
def test_tag_of_parts_that_are_no_tag_is_refused(parts: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(InvalidArguments):
        Tag(*parts)


def test_block_of_one_is_no_block() -> None:
    assert Tag((0, 1), (1, 4), (0, 1)) == Tag((0, 1), (4,), (1,))


def test_tag_of_another_rank_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="2 axes"):
        to_tag("nc", 4)


@st.composite
def tags(draw: st.DrawFn) -> Tag:
    ndims = draw(st.integers(1, 12))
    order = tuple(draw(st.permutations(range(ndims))))
    idxs = draw(st.lists(st.integers(0, ndims - 1), max_size=4))
    return Tag(order, tuple(draw(st.integers(2, 64)) for _ in idxs), tuple(idxs))


@given(tags())
def test_every_tag_prints_what_parses_to_it(tag: Tag) -> None:
    assert parse_tag(str(tag)) == tag
    assert parse_tag(str(tag).lower()) == tag
    assert pickle.loads(pickle.dumps(tag)) == tag
    assert to_tag(tag, tag.ndims) is tag


@given(st.text(max_size=40) | st.text(alphabet="abcdnchwoigx0123456789ABCNX", max_size=16))
def test_any_text_is_a_tag_or_an_error_of_ours(text: str) -> None:
    try:
        tag = parse_tag(text)
    except InvalidArguments:
        return
    assert parse_tag(str(tag)) == tag or text.lower() == "x"


def test_all_plain_orders_of_five_axes_parse() -> None:
    for order in itertools.permutations(range(5)):
        text = "".join("abcde"[i] for i in order)
        assert parse_tag(text) == Tag(order)
