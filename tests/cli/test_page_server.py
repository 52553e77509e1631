"""`restride show --serve`: a page on this machine alone, and a port that is taken."""

from __future__ import annotations

import signal
import subprocess
import sys
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import parse_qsl
from urllib.request import Request, urlopen

import numpy as np
import pytest

from restride.cli.main import main
from restride.view.explore_page import explore_page

_SHOW = (sys.executable, "-m", "restride", "show")


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent Ctrl-C alone there")
def test_the_page_is_served_until_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("nchw", "1x17x2x2", "--dst", "nChw16c", "--serve", "--port", "0")
    with subprocess.Popen((*_SHOW, *words), stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            url, _, state = server.stderr.readline().strip().partition("#")
            assert state == "a=nchw&b=nChw16c&dims=1x17x2x2"
            with urlopen(url, timeout=30) as answer:
                assert answer.read().decode() == explore_page()
            with urlopen(Request(url, method="HEAD"), timeout=30) as answer:
                assert answer.headers["Content-Length"] == str(len(explore_page().encode()))
                assert answer.read() == b""
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"{url}nothing", timeout=30)
            port = url.rstrip("/").rpartition(":")[2]
            assert main(["show", "--serve", "--port", port]) == 1
            assert f"cannot serve at port {port}\n  why: Address" in capsys.readouterr().err
            server.send_signal(signal.SIGINT)
            assert server.wait(30) == 0
        finally:
            server.kill()


def test_a_file_is_served_as_its_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", lambda self: None)
    np.save(tmp_path / "x.npy", np.asfortranarray(np.ones((3, 4))))
    swizzled = "Sw<2,1,3> o 0 o (8,8):(8,1)"
    states = []
    for words in ((str(tmp_path / "x.npy"),), (swizzled,), ("nchw",), ("gguf.q4_0",), ()):
        assert main(["show", *words, "--serve", "--port", "0"]) == 0
        states.append(dict(parse_qsl(capsys.readouterr().err.split()[0].partition("#")[2])))
    file = {"a": "ba", "dims": "3x4", "type": "f64"}
    assert states == [file, {"a": swizzled}, {"a": "nchw"}, {"a": "gguf.q4_0"}, {}]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--serve", "--port", "-1"), 1, "cannot serve at port -1"),
        (("--serve", "--port", "65536"), 1, "cannot serve at port 65536"),
        (("--port", "1", "ab", "2x2"), 2, "--port without --serve"),
        (("--serve", "zzz", "1x2"), 2, "bad format tag 'zzz'"),
        (("--serve", "zzz"), 2, "bad format tag 'zzz'"),
        (("--serve", "(2,3):(1"), 2, "cannot be read"),
        (("(2,4):(4,1)", "--stats"), 2, "--stats with a layout of CuTe"),
        (("(2,4):(4,1)", "--svg", "-", "--json"), 2, "--json with a picture on standard output"),
        (("gguf.q4_0", "--svg", "-", "--json"), 2, "--json with a picture on standard output"),
        (("--serve", "--svg", "a.svg"), 2, "--serve with --svg"),
        (("--serve", "nchw", "1x2x3x4", "--at", "0,0,0,0"), 2, "--serve with --at"),
        (("--serve", "a.safetensors"), 2, "a.safetensors may hold several tensors"),
        ((), 2, "FORMAT is missing"),
    ],
)
def test_wrong_words_are_refused(
    words: tuple[str, ...], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *words]) == status
    assert said in capsys.readouterr().err
