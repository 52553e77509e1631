"""Every operation, forward and backward, in every format and type, beside a formula, on every engine."""

from __future__ import annotations

import pytest

from conformance.problems import PROBLEMS
from support.conformance import PLACES, at_place, cases_of, failures

# A device's compiler takes seconds for a kernel, and Intel's crashes on some: not at every change.
_SYCL = (pytest.mark.sycl, pytest.mark.slow)


@pytest.mark.parametrize("is_all", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("place", [*PLACES[:-1], pytest.param("sycl", marks=_SYCL)])
@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_computed_is_what_the_formula_says(name, place, is_all):
    with at_place(place):
        assert failures(cases_of(PROBLEMS[name], place, is_all=is_all), place) == []
