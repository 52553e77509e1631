"""The command line: answers, JSON, exit statuses, and errors in one form without a traceback."""

from __future__ import annotations

import functools
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import restride
from restride.cli.main import main
from restride.formats import names

_RESTRIDE = (sys.executable, "-m", "restride")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a failing command: nothing on stdout, an error without a traceback on stderr."""
    status = main(arguments)
    out, err = capsys.readouterr()
    assert status in (1, 2)
    assert not out
    assert err.startswith("error: ")
    assert "Traceback" not in err
    return f"{status} {err}"


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert not err
    return out


# The way in


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = answered(capsys, "--help")
    for name in (
        "demo",
        "reorder",
        "show",
        "diff",
        "explain",
        "bench",
        "run",
        "propagate",
        "quantize",
        "info",
        "check",
        "completion",
    ):
        assert f"\n  {name} " in text


@pytest.mark.parametrize(
    "name",
    [
        "demo",
        "reorder",
        "show",
        "diff",
        "explain",
        "run",
        "propagate",
        "quantize",
        "info",
        "check",
        "completion",
    ],
)
def test_every_command_has_help_and_json(capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = answered(capsys, name, "--help")
    assert text.startswith(f"usage: restride {name} ")
    assert "--json" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(capsys, "--version") == f"restride {restride.__version__}\n"


def test_no_command_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(capsys) == answered(capsys, "--help")


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean restride show?" in failed(capsys, "shwo")
    assert failed(capsys, "\x00" * 5000).startswith("2 ")
    assert failed(capsys, "--jsn", "info").startswith("2 ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("show", "nchw"),
        ("show", "nchw", "1x2x3"),
        ("show", "nnchw", "1x2x3x4"),
        ("show", "", "1x2"),
        ("show", "any", "1x2"),
        ("show", "undef", "1x2"),
        ("show", "\U0001f600", "1x2"),
        ("show", "a" * 10_000, "1x2"),
        ("show", "ab", "1x2", "3"),
        ("show", "ab", "1x2", "--dtype", "f33"),
        ("show", "ab", "1x2", "--dtype", "undef"),
        ("show", "ab", "1x2", "--jso"),
        ("show", "ab", "x".join(["1000000000"] * 9)),
        ("show", "x.npy", "--dtype", "f32"),
        ("explain", "ab", f"{2**40}x{2**40}"),
        ("explain", "nChw2147483648c", "1x1x1x1"),
        ("reorder", "a.npy"),
        ("reorder", "a.npy", "b.npy"),
        ("reorder", "a.npy", "b.npy", "--dst", "nchw8"),
        ("reorder", "a.npy", "b.npy", "--dst", "any"),
        ("reorder", "a.npy", "b.npy", "--scale", "much"),
        ("reorder", "a.npy", "b.npy", "--dst", "ab", "--zero-point", "1.5"),
        ("reorder", "a.npy", "b.npy", "--dst", "ab", "--dims", "1xx"),
        ("demo", "--rounds"),
        ("info", "more"),
    ],
    ids=lambda arguments: " ".join(arguments)[:40].encode("ascii", "replace").decode(),
)
def test_wrong_usage_is_status_2(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert failed(capsys, *arguments).startswith("2 ")


@pytest.mark.parametrize(
    ("text", "caret"), [("1xx2", 2), ("", 0), ("1x-2", 2), ("1x2.5", 3), ("1x2x", 4), ("١x2", 0), ("1,2", 1)]
)
def test_a_caret_points_at_the_fault_in_dims(
    capsys: pytest.CaptureFixture[str], text: str, caret: int
) -> None:
    lines = failed(capsys, "show", "ab", text).splitlines()
    assert lines[2] == " " * (len("  where: ") + caret) + "^"


def test_a_caret_points_at_the_fault_in_a_tag(capsys: pytest.CaptureFixture[str]) -> None:
    lines = failed(capsys, "show", "nnchw", "1x2x3x4").splitlines()
    assert lines[1:3] == ["  where: nnchw", "          ^"]
    assert lines[-2:] == ["  hint: did you mean 'nchw'?", "  more: restride explain RS-M11"]


def test_show_writes_pictures_and_pages(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = ("--svg", "a.svg", "--html", "a.html")
    assert answered(capsys, "show", "nChw16c", "1x17x2x2", *made) == "wrote a.svg\nwrote a.html\n"
    assert Path("a.svg").read_text().startswith("<svg ")
    assert Path("a.html").read_text().startswith("<!DOCTYPE html>")
    found = json.loads(answered(capsys, "show", "ab", "1x2", "--svg", "b.svg", "--json"))
    assert found["files"] == {"svg": "b.svg"}


def test_stored_formats_are_shown_and_explained_by_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = answered(capsys, "show", "gguf.q4_0", "2x64")
    assert "values: u4 2x64 aB16@1b2@16b" in text
    assert "scale: f16 2x2" in text
    text = answered(capsys, "explain", "gguf.q4_0")
    assert "x = scale * (value - 8)" in text
    assert "values (0, 0) in the low half, values (0, 16) in the high half" in text
    assert "x = tensor_scale * scale * value" in answered(capsys, "explain", "nvfp4")
    assert "with separate scales" in answered(capsys, "explain", "marlin")
    found = json.loads(answered(capsys, "explain", "nvfp4", "256x64", "--json"))
    assert found["parts"]["scale"]["dims"] == [256, 4]
    for name in names():
        answered(capsys, "show", name, "--svg", str(tmp_path / f"{name}.svg"))
        assert (tmp_path / f"{name}.svg").read_text().startswith("<svg ")
        assert answered(capsys, "explain", name)
    failed(capsys, "show", "gguf.q4_0", "2x33")
    failed(capsys, "show", "gguf.q4_0", "--dtype", "s8")
    failed(capsys, "show", "gguf.q4_0", "--dst", "ba")
    for command in ("show", "explain"):
        assert "did you mean 'gguf.q4_0'" in failed(capsys, command, "Q4_0")


def test_show_has_a_layout_before_and_after(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = answered(capsys, "show", "nchw", "1x17x2x2", "--dst", "nChw16c")
    assert text.index("abcd (nchw)") < text.index("aBcd16b (nChw16c)")
    found = json.loads(answered(capsys, "show", "ab", "2x3", "--dst", "ba", "--json"))
    assert (found["strides"], found["dst"]["strides"]) == ([3, 1], [1, 2])
    answered(capsys, "show", "nchw", "1x17x2x2", "--dst", "nChw16c", "--svg", str(tmp_path / "both.svg"))
    assert "aBcd16b (nChw16c)" in (tmp_path / "both.svg").read_text()


@pytest.mark.parametrize(
    ("rest", "start"),
    [
        (("--svg",), "2 error: restride show: argument --svg: expected one argument"),
        (("--svg", ""), "1 error: cannot write a file without a name"),
        (("--svg", "a.png"), "2 error: restride show: a.png is not written"),
        (("--html", "a"), "2 error: restride show: a is not written"),
        (("--html", "/nowhere/a.html"), "1 error: cannot write /nowhere/a.html"),
        (("--svg", "x", "--html", "x"), "2 error: --svg and --html name the same file"),
        (("--dst", "nchw"), "2 "),
        (("--dst", "any"), "2 error: format 'any' does not determine"),
    ],
    ids=[
        "no file",
        "empty name",
        "png",
        "no suffix",
        "no folder",
        "same file",
        "other rank",
        "any",
    ],
)
def test_what_show_cannot_write(
    capsys: pytest.CaptureFixture[str],
    rest: tuple[str, ...],
    start: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert failed(capsys, "show", "ab", "1x2", *rest).startswith(start)
    assert not list(tmp_path.iterdir())


def test_files_are_written_over_with_force_only(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    Path("a.svg").write_text("mine")
    error = failed(capsys, "show", "ab", "1x2", "--svg", "a.svg", "--html", "a.html")
    assert error.startswith("2 error: restride show: a.svg exists")
    assert Path("a.svg").read_text() == "mine"
    assert not Path("a.html").exists()
    assert answered(capsys, "show", "ab", "1x2", "--svg", "a.svg", "--force") == "wrote a.svg\n"
    assert Path("a.svg").read_text().startswith("<svg ")


def test_arrays_are_written_over_with_force_only(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    np.save("x.npy", np.ones((2, 3), np.float32))
    before = Path("x.npy").read_bytes()
    assert "x.npy exists" in failed(capsys, "reorder", "x.npy", "x.npy", "--dst", "ba")
    assert Path("x.npy").read_bytes() == before
    assert "y.npz is not written" in failed(capsys, "reorder", "x.npy", "y.npz", "--dst", "ba")
    answered(capsys, "reorder", "x.npy", "x.npy", "--dst", "ba", "--force")
    assert "f32 2x3 ba" in answered(capsys, "explain", "x.npy")


def test_a_dash_is_a_pipe(here: Path) -> None:
    def piped(content: bytes, *arguments: str) -> bytes:
        done = subprocess.run([*_RESTRIDE, *arguments], input=content, capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save("x.npy", x)
    moved = piped(Path("x.npy").read_bytes(), "reorder", "-", "-", "--dst", "ba")
    assert np.array_equal(np.load(io.BytesIO(moved)), x.T)
    assert b"f32 2x3 ba" in piped(moved, "explain", "-")
    assert piped(b"", "show", "ab", "1x2", "--svg", "-").startswith(b"<svg ")
    assert sorted(path.name for path in here.iterdir()) == ["x.npy"]


def test_a_pipe_that_holds_no_array_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"nothing")))
    assert failed(capsys, "explain", "-").startswith("1 error: cannot read standard input\n")


def test_files_that_are_used_in_parts_are_no_pipes(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    np.save("x.npy", np.ones((2, 3), np.float32))
    for command in (("run", "-"), ("propagate", "-"), ("convert", "-", "y.npy"), ("convert", "x.npy", "-")):
        assert failed(capsys, *command).startswith(f"2 error: restride {command[0]}: - is a pipe")
    assert sorted(path.name for path in here.iterdir()) == ["x.npy"]


def test_reorder_leaves_files_of_several_tensors_to_convert(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    for name in ("x.safetensors", "x.npz", "x.GGUF"):
        error = failed(capsys, "reorder", name, "y.npy", "--dst", "ba")
        assert error.startswith(f"2 error: restride reorder: {name} may hold several tensors")
        assert f"restride convert {name} OUT" in error


def test_what_cannot_be_converted_to_is_wrong_usage(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    np.save("x.npy", np.ones((2, 3), np.float32))
    assert failed(capsys, "convert", "x.npy", "y.foo").startswith("2 error: cannot write y.foo")
    assert failed(capsys, "convert", "x.npy", "y").startswith("2 error: cannot write y")
    error = failed(capsys, "convert", "x.npy", "y.npy", "--memory", "lots")
    assert error.startswith("2 error: convert: memory is 'lots'")


def test_errors_are_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reorder", "/nowhere/a.npy", "b.npy", "--dst", "ab", "--json"]) == 1
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["what"] == "cannot read /nowhere/a.npy"
    assert error["status"] == "runtime_error"
    assert set(error) == {"what", "code", "where", "why", "hint", "status"}
    assert err.startswith("error: cannot read /nowhere/a.npy\n  why: ")
    assert main(["show", "nnchw", "1x2", "--json"]) == 2
    assert "nnchw" in json.loads(capsys.readouterr().out)["error"]["what"]


# The commands


def test_show_draws_and_explain_explains(capsys: pytest.CaptureFixture[str]) -> None:
    assert "    64   256  0 0 0 │ 16 ░░ ░░" in answered(capsys, "show", "nChw16c", "1x17x2x2")
    assert "    c//16*64 + h*32 + w*16 + c%16\n" in answered(capsys, "explain", "nChw16c", "1x17x2x2")
    assert "s8 1x2 ab" in answered(capsys, "explain", "ab", "1x2", "--dtype", "s8")


def test_show_and_explain_as_json_have_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("show", "explain"):
        found = json.loads(answered(capsys, command, "nChw16c", "1x17x2x2", "--json"))
        desc = restride.MemoryDesc((1, 17, 2, 2), "f32", "nChw16c")
        assert restride.MemoryDesc.from_dict(found) == desc
        assert found["size"] == desc.size
        assert found["axes"] == ["n", "c", "h", "w"]
    assert json.loads(answered(capsys, "show", "ab", "1x2", "--json"))["picture"][0] == "f32 1x2 ab"


def test_info_tells_versions_engines_and_caches(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(answered(capsys, "info", "--json"))
    assert found["versions"]["restride"] == restride.__version__
    assert found["versions"]["numpy"] == np.__version__
    assert found["engines"] == {"cpu": 1, "gpu": 0, "reference": 1}
    assert found["instruction_set"]["chosen"] in found["instruction_set"]["available"]
    assert found["instruction_set"]["vector_bytes"] in (16, 32, 64)
    assert found["caches"]["line"] > 0
    assert found["threads"]["used"] >= 1
    assert found["object_cache"]["path"] or not found["object_cache"]["enabled"]
    text = answered(capsys, "info")
    for word in ("versions", "engines", "instruction set", "caches", "threads", "object cache"):
        assert f"\n{word}" in f"\n{text}"


def test_show_versions_prints_what_info_does(capsys: pytest.CaptureFixture[str]) -> None:
    told = answered(capsys, "info").splitlines()
    restride.show_versions()
    # The cache on disk may have grown meanwhile.
    shown = capsys.readouterr().out.splitlines()
    assert [line[:30] for line in shown] == [line[:30] for line in told]


def test_check_compares_with_numpy(capsys: pytest.CaptureFixture[str]) -> None:
    text = answered(capsys, "check")
    assert "\nok      channel shuffle\n" in text
    assert "\nall is well (" in text
    found = json.loads(answered(capsys, "check", "--json"))
    assert found["ok"]
    assert set(found["checks"].values()) == {"ok"}


def test_a_failing_check_is_status_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restride.cli.check.channel_shuffle", lambda x, groups: x)
    monkeypatch.setattr("restride.cli.check.reorder", lambda *_, **__: 1 // 0)
    assert main(["check"]) == 1
    text = capsys.readouterr().out
    assert "FAILED  channel shuffle: the result is wrong" in text
    assert "FAILED  nchw to nhwc: integer division or modulo by zero" in text


def test_the_module_alone_is_the_help() -> None:
    done = subprocess.run(_RESTRIDE, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: restride COMMAND ...")


@functools.cache
def _bash_script() -> str:
    command = [*_RESTRIDE, "completion", "bash"]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


def completed(line: str) -> set[str]:
    """Return bash's completions of the last word of a command line."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        f"{_bash_script()}\nCOMP_WORDS=({quoted}); "
        f'COMP_CWORD={len(words) - 1}; _restride; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=600, check=True)
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("restride ex", {"explain"}),
        ("restride show --h", {"--html", "--help"}),
        ("restride show nCh", {"nChw8c", "nChw16c"}),
        ("restride reorder a.npy b.npy --dst nhw", {"nhwc"}),
        ("restride show nchw --dtype bf", {"bf16"}),
        ("restride completion z", {"zsh"}),
        ("restride explain RS-O", {"RS-O01", "RS-O02", "RS-O04", "RS-O05"}),
        ("restride explain nCh", {"nChw8c", "nChw16c"}),
    ],
)
def test_bash_completes(line: str, offered: set[str]) -> None:
    assert completed(line) == offered


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("restride ex", {"explain"}),
        ("restride show nCh", {"nChw8c", "nChw16c"}),
        ("restride reorder a.npy b.npy --dst nhw", {"nhwc"}),
        ("restride explain RS-O", {"RS-O01", "RS-O02", "RS-O04", "RS-O05"}),
    ],
)
def test_fish_completes(line: str, offered: set[str], tmp_path: Path) -> None:
    script = tmp_path / "restride.fish"
    script.write_text(
        subprocess.run([*_RESTRIDE, "completion", "fish"], capture_output=True, text=True).stdout
    )
    asked = f"source {script}; complete -C '{line}'"
    done = subprocess.run(["fish", "--no-config", "-c", asked], capture_output=True, text=True, timeout=600)
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_its_script(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, shell: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    script = tmp_path / "script"
    script.write_text(answered(capsys, "completion", shell))
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    text = answered(capsys, "completion", shell)
    assert "nChw16c" in text
    assert "RS-M11" in text
    assert "dst" in text
    assert json.loads(answered(capsys, "completion", shell, "--json"))["script"] + "\n" == text
    assert failed(capsys, "completion", "tcsh").startswith("2 ")


def test_info_shows_the_settings_in_force(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    found = json.loads(answered(capsys, "info", "--json"))
    assert found["settings"]["ONEDNN_MAX_CPU_ISA"] == "SSE41"
    assert found["instruction_set"]["limit"] == "SSE41"
    assert found["instruction_set"]["vector_bytes"] == 16
    monkeypatch.setenv("RESTRIDE_MAX_CPU_ISA", "bogus")
    assert failed(capsys, "info").startswith(
        "1 error: environment variable RESTRIDE_MAX_CPU_ISA is not usable"
    )


def test_reorder_says_what_it_did(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    np.save("a.npy", np.zeros((1, 17, 2, 2), np.float32))
    text = answered(capsys, "reorder", "a.npy", "b.npy", "--dst", "nChw16c", "--dtype", "s8")
    assert "b.npy  s8 1x17x2x2 aBcd16b  128 bytes" in text
    found = json.loads(answered(capsys, "reorder", "b.npy", "c.npy", "--dst", "nhwc", "--json"))
    assert found["source"]["path"] == "b.npy"
    assert restride.MemoryDesc.from_dict(found["target"]["desc"]).tag == "acdb"
    assert found["seconds"] > 0
    assert "s8 1x17x2x2 aBcd16b" in answered(capsys, "explain", "b.npy")


def test_bench_is_handed_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list", "--rows", "4096x4096"]) == 0
    assert "4096x4096" in capsys.readouterr().out
    assert main(["bench", "--no-such-option"]) == 2


@pytest.mark.parametrize("name", ["bench", "demo"])
def test_a_command_whose_package_is_missing_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in [module for module in sys.modules if module.startswith("restride_bench")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "restride_bench", None)  # type: ignore[arg-type]
    text = failed(capsys, name)
    assert text.startswith(f"1 error: restride {name}: the package restride_bench is missing\n")
    assert "hint: pip install 'restride[bench]'" in text
    assert "RS-C04" in text
    assert "reorder" in answered(capsys, "completion", "bash")
    assert name in answered(capsys, "--help")


def test_a_command_that_lacks_another_module_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "restride_bench.demo.main", raising=False)
    monkeypatch.setitem(sys.modules, "restride_bench.demo.jobs", None)  # type: ignore[arg-type]
    with pytest.raises(ModuleNotFoundError, match="jobs"):
        main(["demo", "--help"])


# The process


def test_commands_are_imported_when_called() -> None:
    code = (
        "import sys; from restride.cli.main import main; main(['show', 'ab', '2x3']);"
        "print([m for m in sys.modules if m.startswith(('restride_bench', 'skimage'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away_is_silent() -> None:
    command = [*_RESTRIDE, "explain", "nChw16c", "1x17x2x2", "--json"]
    # The pipe's read end is closed before anything is written.
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 141
    assert not done.stderr


def test_closed_and_full_outputs_do_not_end_in_a_traceback() -> None:
    closed = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m restride show ab 2x3 >&-"], capture_output=True, text=True
    )
    assert (closed.returncode, closed.stderr) == (0, "")
    if not Path("/dev/full").exists():
        return
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*_RESTRIDE, "show", "ab", "2x3"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write to standard output\n  why: No space left")
    assert [line.split(":")[0] for line in done.stderr.splitlines()[1:]] == ["  why", "  hint", "  more"]


def test_output_in_ascii_where_that_is_all_there_is() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [*_RESTRIDE, "show", "nChw16c", "1x17x2x2"]
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert b"16 ## ##" in done.stdout


def test_no_color_but_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in answered(capsys, "show", "aB16b", "1x17")
    monkeypatch.setattr("restride.view.terminal.is_terminal", lambda stream: True)
    assert "\x1b[2m░░" in answered(capsys, "show", "aB16b", "1x17")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in answered(capsys, "show", "aB16b", "1x17")


def test_interruption_is_status_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("restride.cli.show.described", interrupt)
    assert main(["show", "ab", "1x2"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def test_running_out_of_memory_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("restride.cli.show.described", refuse)
    assert failed(capsys, "show", "ab", "1x2").startswith("1 error: out of memory")


def test_system_errors_name_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "no", "some/file")

    monkeypatch.setattr("restride.cli.show.described", refuse)
    assert "  where: some/file\n  why: Permission denied" in failed(capsys, "show", "ab", "1x2")


def test_file_names_that_are_no_text_are_escaped(here: Path) -> None:
    name = os.fsdecode(b"caf\xe9.npy")
    np.save(name, np.zeros(4, np.float32))
    done = subprocess.run(
        [*_RESTRIDE, "reorder", name, name, "--dtype", "s8", "--force"], capture_output=True, check=True
    )
    assert rb"caf\udce9.npy" in done.stdout
    assert np.load(name).dtype == np.int8


def test_show_says_that_a_stored_format_is_drawn_where_a_folder_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "awq").mkdir()
    assert main(["show", "awq"]) == 0
    assert "note: awq is a stored format here; ./awq is the file or folder" in capsys.readouterr().err


def test_show_draws_cute_layouts_and_locates_elements(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "8:1"]) == 0
    assert "7" in capsys.readouterr().out
    assert main(["show", "(2,4):(4,1)"]) == 0
    assert "| " in capsys.readouterr().out
    assert main(["show", "Sw<1,0,1> o 0 o (2,4):(4,1)", "--svg", "-"]) == 0
    assert capsys.readouterr().out.startswith("<svg ")
    assert main(["show", "OIhw4i16o4i", "64x64x3x3", "--at", "37,12,1,2"]) == 0
    assert "byte 79696" in capsys.readouterr().out
