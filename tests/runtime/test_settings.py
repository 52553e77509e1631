"""Environment settings: three spellings, and integers that are checked."""

import pytest

from restride import settings
from restride.errors import InvalidArguments

SPELLINGS = ("RESTRIDE_", "ONEDNN_", "DNNL_")


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    for prefix in SPELLINGS:
        monkeypatch.delenv(prefix + "PROBE", raising=False)


def test_unset_is_none():
    assert settings.lookup("PROBE") is None


@pytest.mark.parametrize("prefix", SPELLINGS)
def test_each_spelling_is_read(monkeypatch, prefix):
    monkeypatch.setenv(prefix + "PROBE", "value")
    assert settings.lookup("PROBE") == "value"


def test_own_spelling_wins_then_onednn(monkeypatch):
    for prefix in reversed(SPELLINGS):
        monkeypatch.setenv(prefix + "PROBE", prefix)
        assert settings.lookup("PROBE") == prefix


def test_empty_is_set(monkeypatch):
    monkeypatch.setenv("RESTRIDE_PROBE", "")
    monkeypatch.setenv("DNNL_PROBE", "other")
    assert settings.lookup("PROBE") == ""


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), (" 12 ", 12), ("+7", 7), ("-2", -2), ("", 5), ("  ", 5)]
)
def test_integers(monkeypatch, text, value):
    monkeypatch.setenv("ONEDNN_PROBE", text)
    assert settings.lookup_int("PROBE", 5, low=-10, high=20) == value


@pytest.mark.parametrize(
    "text", ["x", "1.5", "1_0", "0x10", "--1", "٣", "²", "1" * 5000, "21", "-11", "1e3", "+-3"]
)
def test_bad_integers_name_the_variable_that_was_set(monkeypatch, text):
    monkeypatch.setenv("DNNL_PROBE", text)
    with pytest.raises(InvalidArguments, match="DNNL_PROBE") as caught:
        settings.lookup_int("PROBE", 5, low=-10, high=20)
    assert "-10 to 20" in caught.value.message
    assert len(caught.value.message) < 1000
