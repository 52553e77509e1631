"""The page to explore layouts: its script reads what Python reads, and it marks, walks and compares."""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import restride as rs
from restride.cli.usage import UsageError, parse_format, parse_shape, typed
from restride.desc.tag_names import LETTERS, WELL_KNOWN
from restride.desc.tags import Tag, parse_tag
from restride.formats import example_shape, named, names
from restride.layouts import ComposedLayout, Layout, from_desc
from restride.view.explore_page import explore_page, tables
from restride.view.html_head import asset
from support.browser import browsed

_COUNT = 2000
_CUTE = re.compile(r"[\s(\d]|Sw<")
_RARE = (
    ("any", "2x3", "f32"),
    ("nchw", "1x" * 200, "f32"),
    ("abx3c", "1x2", "f32"),
    ("aBx8b", "4", "f32"),
    ("((2,3),4):(1,2)", "", "f32"),
    ("Sw<3,2,1> o 0 o (8,8)", "", "f32"),
    ("Sw<30,30,30> o 0 o (8,8)", "", "f32"),
    ("Sw<2,1,3> o 1 o (8,8)", "", "f32"),
    ("Sw<2,1,3> o 0 o (8,8", "", "f32"),
)
_TYPES = ("f32", "u8", "s4", "f64", "bf16")
_TEXTS = (
    "((4,2),8):((1,16),2)",
    "(8,(2,2))",
    "7:3",
    "(_4,_8):(8,-1)",
    "(3,)",
    "((2,3),(4,(5,1))):((0,2),(9,(1,7)))",
    "Sw<2,1,3> o 0 o (8,8):(8,1)",
    "Sw<3,4,-3> o 0 o (4,(8,16)):(1,(64,4))",
    "Sw<0,0,0> o 0 o 7:3",
    "Sw<3,4,3> o 0 o (8,64):(-64,1)",
    " Sw<2,3,1>\to\n0 o(8,8)",
    "Sw<9,30,31> o 0 o (8,2):(4611686018427387904,1)",
)


def _letters(rng: random.Random, ndims: int) -> str:
    return "".join(rng.sample(LETTERS[:ndims], ndims))


def _tag(rng: random.Random) -> tuple[str, int]:
    """A tag and its rank: base tags with nested and stepped blocks, generic ones, well-known names."""
    kind = rng.randrange(4)
    if kind == 0:
        name = rng.choice([name for name in WELL_KNOWN if name != "any"])
        tag = parse_tag(name)
        return name, tag.ndims if isinstance(tag, Tag) else 4
    ndims = rng.randint(1, 6)
    outer = _letters(rng, ndims)
    blocks = [(rng.choice((1, 2, 3, 4, 8, 16)), rng.choice(outer)) for _ in range(rng.randint(0, 4))]
    texts = [f"{size}{letter}" for size, letter in blocks]
    if kind == 1 and blocks:
        # The same digits in another order, with their steps.
        steps: dict[str, int] = {}
        stepped = []
        for size, letter in blocks:
            stepped.append(f"{size}@{steps.setdefault(letter, 1)}{letter}")
            steps[letter] *= size
        texts = rng.sample(stepped, len(stepped))
    blocked = {letter for _, letter in blocks}
    text = "".join(letter.upper() if letter in blocked else letter for letter in outer)
    if kind == 2 and ndims > 1:
        text = (
            text.replace(outer[-1], "x")
            if outer[-1] == LETTERS[ndims - 1] and outer[-1] not in blocked
            else text
        )
    return text + "".join(texts), ndims


def _case(rng: random.Random) -> tuple[str, str, str]:
    """Return inputs: a layout, dims, a type; every fourth is damaged."""
    kind = rng.randrange(8)
    if kind == 0:
        text, dims = rng.choice(_TEXTS), ""
    elif kind == 1:
        text = rng.choice(names())
        dims = "x".join(str(n * rng.randint(1, 3)) for n in example_shape(text))
    else:
        text, ndims = _tag(rng)
        most = rng.choice((5, 40, 2**14))
        dims = "x".join(str(rng.randint(0 if rng.random() < 0.1 else 1, most)) for _ in range(ndims))
    if rng.random() < 0.25:
        text = _damaged(rng, text)
    if rng.random() < 0.1:
        dims = _damaged(rng, dims)
    return text, "" if _CUTE.match(text) else dims, rng.choice(_TYPES)


def _damaged(rng: random.Random, text: str) -> str:
    at = rng.randint(0, len(text))
    piece = rng.choice(
        ("", "x", "A", "16", "0", "@", "3@2b", "é", "'", "(", ",", "\x1b", "99999999999999999999", text)
    )
    return text[:at] + piece + text[at + rng.randint(0, 2) :]


def _message(error: rs.Error) -> str:
    parts = (("  where: ", error.where), ("  why: ", error.why))
    return "\n".join([error.what, *(f"{name}{part}" for name, part in parts if part)])


def _python(text: str, dims: str, kind: str) -> dict[str, Any]:
    """Return Python's answer: offsets of a few indices and the fields, or the message without its hint."""
    try:
        shape = typed(parse_shape, dims) if dims else None
        if _CUTE.match(text):
            layout = ComposedLayout.parse(text) if "<" in text else Layout(text)
            modes = (layout.inner if isinstance(layout, ComposedLayout) else layout).modes
            ends = [tuple(mode.size - 1 for mode in modes), tuple(mode.size // 2 for mode in modes)]
            return {"text": str(layout), "at": [str(layout(*map(int, end))) for end in ends]}
        if text in names():
            return _of_desc(named(text, shape or example_shape(text)).values)
        tag = typed(parse_format, text)
        if shape is None:
            return {"error": "DIMS is missing\n  why: a tag has no extents"}
        return _of_desc(rs.MemoryDesc(shape, kind, tag))
    except UsageError as usage:
        return {"error": _message(usage.error)}
    except rs.Error as error:
        return {"error": _message(error)}


def _of_desc(md: rs.MemoryDesc) -> dict[str, Any]:
    ends = [tuple(n - 1 for n in md.dims), tuple(n // 2 for n in md.dims)]
    is_empty = 0 in md.dims
    return {
        "text": "" if is_empty else str(from_desc(md)),
        "at": [] if is_empty else [str(md.offset(*end)) for end in ends],
        "strides": list(map(str, md.strides)),
        "padded": list(map(str, md.padded_dims)),
        "blocks": [list(map(str, part)) for part in (md.inner_blks, md.inner_steps)],
    }


_READ = """
const ends = (dims) => [dims.map((n) => n - 1n), dims.map((n) => n / 2n)];
return JSON.parse(document.getElementById("cases").textContent).map(([typed, dims, type]) => {
  try {
    const layout = layoutOf(typed, dims ? parseDims(dims) : null, type), empty = layout.dims.includes(0n);
    const found = {text: empty ? "" : layout.isColumnMajor ? layout.title : cuteText(layout),
      at: empty ? [] : ends(layout.dims).map((index) => `${offsetOf(layout, index)}`)};
    if (layout.isColumnMajor) return found;
    return {...found, strides: layout.strides.map(String), padded: layout.padded.map(String),
      blocks: ["size", "step"].map((name) => layout.blocks.map((block) => `${block[name]}`))};
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return {error: error.message};
  }
});
"""


@pytest.mark.browser
def test_the_script_reads_random_layouts_as_python_does(tmp_path: Path) -> None:
    rng = random.Random(42)
    cases = [*_RARE, *(_case(rng) for _ in range(_COUNT))]
    expected = [_python(*case) for case in cases]
    values = json.dumps(tables()).replace("<", "\\u003c")
    typed_in = json.dumps(cases).replace("<", "\\u003c")
    scripts = f"<script type='application/json' id='cases'>{typed_in}</script>"
    scripts += f"<script>const tables = {values};\n{asset('grammar.js')}</script>"
    text = f"<!DOCTYPE html><html><head><meta charset='utf-8'></head><body>{scripts}</body></html>"
    found = browsed(tmp_path, text, _READ)
    assert sum("error" in answer for answer in expected) < _COUNT / 2
    wrong = [
        (case, a, b) for case, a, b in zip(cases, expected, found, strict=True) if not _is_same(case, a, b)
    ]
    assert wrong[:3] == []


def _is_same(case: tuple[str, str, str], expected: dict[str, Any], found: dict[str, Any]) -> bool:
    if case[0] in names() and "error" not in found:
        return expected == found
    if case[0] in names():
        # The page has one message for all that does not fit, and for elements that are spread over bits.
        return "error" in expected or "not drawn here" in found["error"]
    return expected == found


def test_the_page_is_one_file_that_names_no_other() -> None:
    text = explore_page()
    found = re.findall(r"\bsrc\s*=|href=\"[^#]|url\((?!#)|@import|https?://", text)
    assert found == []
    assert text.count("</script>") == 1


_PRESS = """
const press = (...keys) => keys.forEach((key) => document.dispatchEvent(new KeyboardEvent("keydown", {key})));
const text = (id) => document.getElementById(id).textContent;
const type = (id, words) => {
  document.getElementById(id).value = words;
  document.getElementById(id).dispatchEvent(new Event("input"));
};
const here = () => [...document.querySelectorAll(".here")].map((cell) => cell.title.split("\\n")[0]);
"""


@pytest.mark.browser
def test_keys_walk_and_clicks_mark_an_element_in_all_panes(tmp_path: Path) -> None:
    script = _PRESS + (
        "const told = [text('where')];"
        "press('ArrowRight', 'ArrowDown'); told.push(text('where'), here());"
        "press('Home', 'ArrowLeft'); told.push(text('where'));"
        "press('End'); told.push(text('where'));"
        "press(' '); told.push(text('play')); press(' '); told.push(text('play'));"
        "document.querySelector('.tensor td.element:nth-child(3)').click(); told.push(text('where'));"
        "const lines = document.querySelectorAll('tr.line').length; press('Escape');"
        "return [told, lines, here(), faults];"
    )
    told, lines, left, faults = browsed(
        tmp_path, explore_page(), script, hash_="#a=nChw16c&dims=1x17x2x2&at=0"
    )
    here = [
        "(n0 c0 h0 w0)   A: element 0, byte 0, line 0",
        "(n0 c1 h0 w1)   A: element 17, byte 68, line 1",
        ["n0 c1 h0 w1", "n0 c1 h0 w1: element 17, byte 68"],
        "(n0 c0 h0 w0)   A: element 0, byte 0, line 0",
        "padding (n0 c31 h1 w1)   A: element 127, byte 508, line 7",
        *("stop", "play"),
        "(n0 c0 h0 w1)   A: element 16, byte 64, line 1",
    ]
    assert told == here
    assert (lines, left, faults) == (1, [], [])


@pytest.mark.browser
def test_what_a_reorder_touches_is_what_offsets_say(tmp_path: Path) -> None:
    dims, tags = (2, 20, 3, 5), ("nchw", "nChw16c")
    before, after = (rs.MemoryDesc(dims, "f32", tag) for tag in tags)
    index = list(itertools.product(*map(range, dims)))
    offsets = [(before.offset(*at), after.offset(*at)) for at in index]
    moved = sum(a != b for a, b in offsets)
    read, written = len({a // 16 for a, _ in offsets}), after.size // 64
    links = len({(a // 16, b // 16) for a, b in offsets}) / len({b // 16 for _, b in offsets})
    script = _PRESS + "return [text('facts'), document.querySelectorAll('section.b').length, faults];"
    facts, sections, faults = browsed(
        tmp_path, explore_page(), script, hash_="#a=nchw&b=nChw16c&dims=2x20x3x5"
    )
    words = (
        f"A → B: {moved} of {len(index)} elements move; {read} lines of 64 bytes read, {written} written; "
    )
    assert facts.startswith(f"{words}a written line gathers from {links:.1f} lines on average, ")
    assert (sections, faults) == (1, [])


@pytest.mark.browser
def test_a_swizzled_layout_is_drawn_with_its_offsets(tmp_path: Path) -> None:
    # The XOR of CuTe's Swizzle<2,1,3>, written out: bits 4 and 5 of 8 i + j to bits 1 and 2.
    offsets = [[8 * i + j ^ (8 * i + j >> 4 & 3) << 1 for j in range(8)] for i in range(8)]
    script = _PRESS + (
        "const rows = [...document.querySelectorAll('.tensor tr')].slice(1);"
        "const cells = (row) => [...row.querySelectorAll('td')].map((cell) => Number(cell.textContent));"
        "return [rows.map(cells), document.querySelector('.a .title').textContent, text('a-error'), faults];"
    )
    title = "Sw<2,1,3> o 0 o (8,8):(8,1)"
    found = browsed(tmp_path, explore_page(), script, hash_=f"#{urlencode({'a': title})}")
    assert found == [offsets, title, "", []]


@pytest.mark.browser
def test_wrong_input_is_explained_below_its_field_and_nothing_breaks(tmp_path: Path) -> None:
    script = _PRESS + (
        "const told = [];"
        "for (const words of ['nChw16q', '((4,2),8:(1,2)', '<b>', 'any', 'gguf.q4_k', 'nchw']) {"
        "  type('a', words); told.push(text('a-error').split('\\n')[0]);"
        "  press('ArrowRight', ' ', 'End', 'Escape');"
        "}"
        "for (const words of ['1x17xx2', '1x2', '0x1x1x1', '999999x9999x9x9']) {"
        "  type('dims', words);"
        "  told.push(text('dims-error').split('\\n')[0] + text('a-error').split('\\n')[0]);"
        "}"
        "return [told, document.querySelectorAll('section').length, faults];"
    )
    told, sections, faults = browsed(
        tmp_path, explore_page(), script, hash_="#at=%FF&type=x&dims=1x2x2x2&a=%3Cb%3E"
    )
    assert told == [
        "bad format tag 'nChw16q'",
        "Layout: '((4,2),8:(1,2)' cannot be read",
        "bad format tag '<b>'",
        "format 'any' does not determine the layout",
        "formats.gguf.q4_k: its elements are not drawn here",
        "",
        "bad dims '1x17xx2'",
        "format tag 'nchw' has 4 axes, the dims have 2",
        "no elements",
        "809918190081 elements, padding included",
    ]
    assert (sections, faults) == (0, [])


@pytest.mark.browser
def test_the_address_holds_what_is_typed(tmp_path: Path) -> None:
    script = _PRESS + (
        "type('a', '(4,8):(8,1)'); type('dims', ''); press('ArrowRight', 'ArrowRight');"
        "const answer = document.getElementById('answer');"
        "setTimeout(() => { answer.textContent = JSON.stringify(location.hash); }, 900);"
        "return null;"
    )
    found = browsed(tmp_path, explore_page(), script, "--virtual-time-budget=3000", hash_="#b=ab&type=s8")
    assert found == "#a=%284%2C8%29%3A%288%2C1%29&b=ab&type=s8&at=1"
