"""The IR of many problems for every target is that of the golden hashes: a refactoring changes no kernel."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.golden import Golden
from support.ir_problems import ON_CPU
from support.ir_texts import Kernels, Share, a_third, cpu_texts, every, group_names, kernels_of

_HINT = """\
if meant: pytest --update-golden
to see both texts, write them with and without the change into two folders, and compare those:
    PYTHONPATH=src:tests python -m support.ir_texts FOLDER WORD ...     the words are words of a name above"""


@pytest.mark.parametrize("share", [a_third, pytest.param(every, marks=pytest.mark.slow)])
@pytest.mark.parametrize("group", group_names())
def test_kernels_change_only_on_purpose(group: str, share: Share, golden: Golden) -> None:
    share = every if golden.updates else share
    lines = [kernels.line for kernels in kernels_of(group, share)]
    golden.check_table(f"ir/{group}.txt", lines, _HINT, share)


def test_the_net_reaches_every_kind_of_kernel() -> None:
    """By what only they have: stores past the caches, buffers on the stack, lines asked for ahead, tables."""
    reached = {
        kind: any(text in found for problem in ON_CPU[group] for found in cpu_texts(problem, "avx512+vbmi"))
        for kind, (group, text) in _SIGNS.items()
    }
    assert all(reached.values()), reached


_SIGNS = {
    "streamed": ("streamed", "!nontemporal"),
    "blocks": ("blocks", "alloca"),
    "interleaved": ("concats", "alloca"),
    "staged": ("staged", "llvm.prefetch"),
    "tables": ("tables", "vpermi2var"),
}

_GROUPS = ("streamed", "shuffles")
_PRINT_LINES = f"""
from support.ir_texts import a_third, kernels_of
for group in {_GROUPS}:
    print(*(kernels.line for kernels in kernels_of(group, a_third)), sep="\\n", end="\\n\\n")
"""


def test_texts_depend_neither_on_the_machine_nor_on_settings(golden: Golden) -> None:
    settings = {"RESTRIDE_MAX_CPU_ISA": "GENERIC", "RESTRIDE_NUM_THREADS": "7", "PYTHONHASHSEED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_LINES],
        env={**os.environ, **settings, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    found = done.stdout.split("\n\n")
    assert len(found) == len(_GROUPS) + 1, done.stderr
    for group, lines in zip(_GROUPS, found, strict=False):
        golden.check_table(f"ir/{group}.txt", lines.splitlines(), _HINT, a_third)


def test_a_line_is_a_name_and_a_hash_for_each_kernel() -> None:
    line = Kernels("copy @ avx2", ("a\nb\n", "c\n")).line
    assert line.startswith("copy @ avx2 | 3 lines | ")
    assert len(line.split(" | ")[2].split()) == 2
