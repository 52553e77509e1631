"""Calls of constructors of several forms: what help shows, and what a wrong call is called."""

from __future__ import annotations

import doctest
import inspect
import pydoc

import pytest

import restride as rs
from restride.model import forms
from support.primitives import CPU, NCHW, STREAM, pair

PD = {kind.kind: kind.PrimitiveDesc for kind in (rs.Reorder, rs.Concat, rs.Sum)}
PD |= {kind.kind: kind.PrimitiveDesc for kind in (rs.ShuffleForward, rs.ShuffleBackward)}

SIGNATURES = {
    "Reorder": "(src_engine, src_md, dst_engine, dst_md, attr=None, allow_empty=False, hint=None)",
    "Concat": "(engine, axis, srcs, dst=None, attr=None, allow_empty=False)",
    "Sum": "(engine, scales, srcs, dst=None, attr=None, allow_empty=False)",
    "ShuffleForward": "(desc, engine, attr=None, allow_empty=False)",
    "ShuffleBackward": "(desc, engine, hint_fwd_pd, attr=None, allow_empty=False)",
}


@pytest.mark.parametrize(("kind", "shown"), SIGNATURES.items())
def test_help_shows_the_signature(kind, shown):
    assert str(inspect.signature(PD[kind])) == shown
    assert shown in pydoc.plain(pydoc.render_doc(PD[kind]))


@pytest.mark.parametrize(
    ("kind", "args", "named", "why", "form"),
    [
        ("Reorder", (CPU,), {}, "missing a required argument: 'src_md'", "(src_engine, src_md, "),
        ("Reorder", (pair()[0],), {}, "missing a required argument: 'dst_mem'", "(src_mem, dst_mem, "),
        ("Reorder", (CPU, NCHW, CPU, NCHW, None), {"attr": None}, "multiple values for argument 'attr'", ""),
        ("Concat", (CPU,), {}, "missing a required argument: 'axis'", "(engine, axis, srcs, "),
        ("Sum", (CPU, None, [NCHW]), {"beta": 1}, "unexpected keyword argument 'beta'", "(engine, scales, "),
        ("Sum", (CPU, NCHW, None, [NCHW], None, False, 1), {}, "too many positional arguments", ""),
        ("ShuffleForward", (CPU,), {}, "missing a required argument: 'prop_kind'", "(engine, prop_kind, "),
        ("ShuffleForward", (), {"desc": None}, "missing a required argument: 'engine'", "(desc, engine, "),
        ("ShuffleBackward", (None, CPU), {}, "missing a required argument: 'hint_fwd_pd'", "(desc, engine, "),
        ("ShuffleBackward", (), {"diff_src_md": NCHW}, "missing a required argument: 'engine'", "(engine, d"),
    ],
    ids=range(10),
)
def test_a_wrong_call_is_told_in_words_of_the_signature(kind, args, named, why, form):
    with pytest.raises(TypeError) as caught:
        PD[kind](*args, **named)
    assert isinstance(caught.value, rs.InvalidArguments)
    assert caught.value.what == f"{kind}.PrimitiveDesc: wrong arguments"
    assert why in caught.value.why
    assert caught.value.hint.startswith(f"call {kind}.PrimitiveDesc{form}")
    assert not PD[kind](*args, **named, allow_empty=True)


def test_names_of_arguments_serve_for_every_form():
    src, dst = pair()
    assert PD["Reorder"](src_mem=src, dst_mem=dst).src_desc() == src.desc
    made = PD["Reorder"](src_engine=CPU, src_md=src.desc, dst_engine=CPU, dst_md=dst.desc)
    assert made.dst_desc() == dst.desc


@pytest.mark.parametrize("kind", [rs.Reorder, rs.Concat, rs.ShuffleForward, rs.ShuffleBackward])
def test_errors_of_python_name_what_is_public(kind):
    with pytest.raises(TypeError) as caught:
        kind().execute(STREAM, 1, 2, 3, 4)
    assert str(caught.value).startswith(f"{kind.kind}.execute() takes from 1 to 4 positional arguments")
    with pytest.raises(TypeError, match=rf"^{kind.kind}\(\) got an unexpected keyword argument 'x'"):
        kind(x=1)
    assert kind.execute.__doc__.startswith("Execute: `execute(stream, src")


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((CPU, "forward", None, NCHW, 1, 4), "ShuffleForward.PrimitiveDesc: src_md is not a descriptor"),
        ((CPU, "forward", NCHW, None, 1, 17), "ShuffleForward.PrimitiveDesc: dst_md is not a descriptor"),
        ((CPU, "forward", NCHW, NCHW, 9, 4), "ShuffleForward.PrimitiveDesc: bad axis"),
        ((CPU, "backward", NCHW, NCHW, 1, 4), "ShuffleForward.PrimitiveDesc: prop_kind is backward"),
    ],
    ids=range(4),
)
def test_the_form_of_version_3_speaks_of_its_own_arguments(args, named):
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.ShuffleForward.PrimitiveDesc(*args)
    assert caught.value.what == named


def test_the_backward_form_of_version_3_speaks_of_its_own_arguments():
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.ShuffleBackward.PrimitiveDesc(CPU, None, NCHW, 1, 17, None)
    assert caught.value.what == "ShuffleBackward.PrimitiveDesc: diff_src_md is not a descriptor"


def test_the_examples_in_the_source_run():
    found = doctest.testmod(forms)
    assert found.attempted
    assert not found.failed
