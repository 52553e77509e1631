"""A language model of the llama kind, read from a checkpoint, makes tokens.

    python examples/language_model.py FOLDER --tokens 1 2 3 --count 32
    python examples/language_model.py FOLDER --text "Once upon a time"

FOLDER has config.json and model.safetensors, or shards with their index, of llama, mistral or qwen2. Ids of
tokens go in and out; text where FOLDER has tokenizer.json, after `pip install 'restride[language]'`.

Between two attentions lies one network: the end of a layer and the begin of the next one. Weights are its
constants, packed once for all numbers of positions. It writes keys and values into a window of the cache, behind
those that are there, and attention reads them where they lie.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import restride as rs

KINDS = "llama", "mistral", "qwen2"
# A prompt is read in pieces of at most so many positions, which are padded up to a power of two: with the one
# position of a decoding step these are seven plans, of which a network keeps eight.
MOST, LEAST = 256, 8

ADD, MULTIPLY = (rs.graph.Epilogue(rs.graph.BinaryOperation(f"binary_{word}")) for word in ("add", "mul"))
SWISH = rs.graph.Epilogue(rs.graph.EltwiseOperation("eltwise_swish", 1.0))


class Config(NamedTuple):
    """What a model is: the words of config.json, and the frequencies of its rotary embedding."""

    kind: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    key_heads: int
    head_dim: int
    epsilon: float
    frequencies: np.ndarray
    window: int
    is_tied: bool
    biases: frozenset[str]
    ends: frozenset[int]

    @classmethod
    def read(cls, folder: Path) -> "Config":
        """The config of a folder. Raises ValueError for a model that is none of these."""
        words = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = words.get("model_type")
        refused = {
            f"its model_type is {kind!r}, which is none of {', '.join(KINDS)}": kind not in KINDS,
            f"its hidden_act is {words.get('hidden_act')!r}": words.get("hidden_act", "silu") != "silu",
            "its weights are quantized": "quantization_config" in words,
            "some of its layers have a window": bool(words.get("use_sliding_window")),
        }
        for why, is_so in refused.items():
            if is_so:
                raise ValueError(f"{folder}: {why}")
        heads, hidden = words["num_attention_heads"], words["hidden_size"]
        width = words.get("head_dim") or hidden // heads
        biased = ("q", "k", "v", "o") * bool(words.get("attention_bias")) + ("q", "k", "v") * (
            kind == "qwen2"
        )
        ends = words.get("eos_token_id")
        return cls(
            kind,
            words["vocab_size"],
            hidden,
            words["intermediate_size"],
            words["num_hidden_layers"],
            heads,
            words.get("num_key_value_heads") or heads,
            width,
            words.get("rms_norm_eps", 1e-6),
            _frequencies(words, width),
            words.get("sliding_window") or 0 if kind == "mistral" else 0,
            words.get("tie_word_embeddings", False),
            frozenset([*biased, *("gate", "up", "down") * bool(words.get("mlp_bias"))]),
            frozenset([ends] if isinstance(ends, int) else ends or []),
        )


def _frequencies(words: dict, width: int) -> np.ndarray:
    """By how much each pair of channels of a head turns from one position to the next."""
    rope = words.get("rope_parameters") or words.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    theta = rope.get("rope_theta", words.get("rope_theta", 10000.0))
    turns = theta ** -(np.arange(0, width, 2) / width)
    if kind == "default":
        return turns
    if kind == "linear":
        return turns / rope["factor"]
    if kind != "llama3":
        raise ValueError(f"a rotary embedding of type {kind!r} is not read: default, linear and llama3 are")
    # Slow turns are divided, fast ones kept; between them it goes by how many turns the first context had.
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    counts = rope["original_max_position_embeddings"] * turns / (2 * np.pi)
    share = np.clip((counts - low) / (high - low), 0, 1)
    return turns * (share + (1 - share) / rope["factor"])


class Checkpoint:
    """The tensors of a folder by name, mapped from its files."""

    def __init__(self, folder: Path, kind: str | None) -> None:
        index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
        names = ["model.safetensors"]
        if not single.exists():
            if not index.exists():
                raise ValueError(f"{folder} has neither {single.name} nor {index.name}")
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        self._folder, self._kind, self._tensors = folder, kind, {}
        for name in names:
            self._tensors |= rs.load(folder / name)

    def __call__(self, name: str, *dims: int, dtype: str | None = None) -> np.ndarray:
        """A tensor as an array. Raises ValueError where there is none of this name and these dims."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise ValueError(f"{self._folder} has no tensor {name!r}")
        if tensor.desc.dims != dims:
            raise ValueError(f"{self._folder}: {name} has dims {tensor.desc.dims}, not {dims}")
        dtype = dtype or self._kind
        return rs.reorder(tensor, None, dtype=dtype) if dtype else tensor.physical()


class LanguageModel:
    """A model with a cache of `capacity` positions, which is filled up to `length`.

    `weights`: the type in which weights are multiplied, None for that of the checkpoint. `cache`: the type of
    keys and values.
    """

    def __init__(
        self, folder: str | Path, capacity: int = 1024, weights: str | None = None, cache: str = "f32"
    ) -> None:
        folder = Path(folder)
        self.config = config = Config.read(folder)
        self.capacity, self.length = capacity, 0
        self._tensor, self._cache_type = Checkpoint(folder, weights), rs.DataType.parse(cache)
        self._embedding = self._tensor("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
        room = capacity + MOST  # the last piece may be padded
        angles = np.arange(room)[:, None, None] * np.concatenate([config.frequencies] * 2)
        # A pair (x, y) becomes (x cos - y sin, y cos + x sin); the x are the first half of a head.
        signs = np.repeat([-1.0, 1.0], config.head_dim // 2)
        self._turns = np.cos(angles).astype(np.float32), (np.sin(angles) * signs).astype(np.float32)
        dims = room, config.key_heads, config.head_dim
        self._caches = [[rs.empty(dims, cache) for _ in "kv"] for _ in range(config.layers)]
        self._networks = [self._network(number) for number in range(config.layers + 1)]
        self._steps: dict[int, AttentionStep] = {}

    def _network(self, number: int) -> rs.Network:
        """The end of layer `number` - 1 and the begin of layer `number`, where there are such."""
        config, is_last = self.config, number == self.config.layers
        dims = {"x": (config.hidden_size,)}
        dims |= {"attended": (config.heads * config.head_dim,)} if number else {}
        dims |= {} if is_last else dict.fromkeys(("cos", "sin"), (1, config.head_dim))
        inputs = [rs.graph.NetworkInput(name, (None, *own), rs.f32) for name, own in dims.items()]
        outputs = ["logits"] if is_last else [*["y"] * (number > 0), "q", "k", "v"]
        return rs.Network.of_source(inputs, outputs, partial(self._graph, number))

    def _graph(self, number: int, dims: dict[str, tuple[int, ...]]) -> rs.graph.Graph:
        """The same as a graph, for inputs of these dims."""
        config, builder = self.config, rs.graph.GraphBuilder()
        count, hidden, width = dims["x"][0], config.hidden_size, config.head_dim
        x, *others = (builder.input(name, extents) for name, extents in dims.items())

        def norm(x: str, name: str) -> str:
            words = (("epsilon", config.epsilon), ("flags", "use_scale|use_shift|rms_norm"))
            scale = self._tensor(f"{name}.weight", hidden, dtype="f32")
            operands = builder.constant(scale), builder.constant(np.zeros_like(scale))
            return builder.add(rs.graph.PrimitiveOperation("LayerNormalizationForward", words), x, *operands)

        def linear(x: str, place: str, rows: dict[str, int], *operands: str, **words: Any) -> str:
            """The product with the weights of these words, one below the other."""
            columns = builder.type(x).dims[1]
            parts = [self._tensor(f"{place}.{word}_proj.weight", n, columns) for word, n in rows.items()]
            weights = [builder.constant(np.concatenate(parts) if len(parts) > 1 else parts[0])]
            if config.biases.intersection(rows):
                biases = [
                    self._tensor(f"{place}.{word}_proj.bias", n, dtype="f32") for word, n in rows.items()
                ]
                weights.append(builder.constant(np.concatenate(biases)))
            return builder.add(rs.graph.InnerProductOperation(), x, *weights, *operands, **words)

        def part(x: str, start: tuple[int, ...], sizes: tuple[int, ...], **words: Any) -> str:
            return builder.add(rs.graph.SliceOperation(start, sizes, (1,) * len(start)), x, **words)

        if number:
            layer, sizes = f"model.layers.{number - 1}", config.intermediate_size
            x = linear(others[0], f"{layer}.self_attn", {"o": hidden}, x, epilogues=[ADD])
            normed = norm(x, f"{layer}.post_attention_layernorm")
            gate = linear(normed, f"{layer}.mlp", {"gate": sizes}, epilogues=[SWISH])
            up = linear(normed, f"{layer}.mlp", {"up": sizes}, gate, epilogues=[MULTIPLY])
            x = linear(up, f"{layer}.mlp", {"down": hidden}, x, epilogues=[ADD], name="y")
        if number == config.layers:
            table = self._embedding
            if not config.is_tied:
                table = self._tensor("lm_head.weight", config.vocab_size, hidden)
            product = rs.graph.InnerProductOperation()
            x = norm(x, "model.norm")
            return builder.graph(builder.add(product, x, builder.constant(table), name="logits"))
        layer, heads = f"model.layers.{number}", {"q": config.heads, **dict.fromkeys("kv", config.key_heads)}
        rows = {word: n * width for word, n in heads.items()}
        joint = linear(norm(x, f"{layer}.input_layernorm"), f"{layer}.self_attn", rows)
        joint = builder.add(rs.graph.ReshapeOperation((count, sum(heads.values()), width)), joint)
        turning = count, config.heads + config.key_heads, width // 2
        halves = [part(joint, (0, 0, start), turning) for start in (width // 2, 0)]
        swapped = builder.add(rs.graph.ConcatOperation(2), *halves)
        whole = part(joint, (0, 0, 0), (*turning[:2], width))
        along = builder.add(MULTIPLY.operation, whole, others[-2])
        turned = builder.add(MULTIPLY.operation, swapped, others[-1], along, epilogues=[ADD])
        builder.rename({part(turned, (0, 0, 0), (count, config.heads, width)): "q"})
        for name, source, start in (("k", turned, 0), ("v", joint, config.key_heads)):
            values = part(source, (0, config.heads + start, 0), (count, config.key_heads, width))
            builder.add(rs.graph.ReorderOperation(self._cache_type), values, name=name)
        return builder.graph(*["y"] * (number > 0), "q", "k", "v")

    def __call__(self, ids: Sequence[int]) -> np.ndarray:
        """Read the next tokens: the logits behind the last of them.

        Raises ValueError, before anything is read, where the cache has no room for them.
        """
        count, size = len(ids), self.config.vocab_size
        if not count or not all(0 <= token < size for token in ids):
            raise ValueError(f"tokens are one or more numbers from 0 to {size - 1}")
        if self.length + count > self.capacity:
            have = f"{self.length} of {self.capacity} positions of the cache are filled"
            raise ValueError(f"{have}, and {count} more do not fit: make the capacity larger")
        for start in range(0, count, MOST):
            last_rows = self._piece(np.asarray(ids[start : start + MOST]))
        return self._networks[-1](last_rows)[0]

    def _piece(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """Read a piece of the tokens: of the last one what the last network takes."""
        count, at = len(ids), self.length
        padded = 1 if count == 1 else max(LEAST, 1 << (count - 1).bit_length())
        window = slice(at, at + padded)
        step = self._steps.get(padded) or self._steps.setdefault(padded, AttentionStep(self, padded))
        x = np.zeros((padded, self.config.hidden_size), np.float32)
        x[:count] = self._embedding[ids]
        turns = dict(zip(("cos", "sin"), (table[window] for table in self._turns), strict=True))
        for number, (keys, values) in enumerate(self._caches):
            inputs = {"x": x, **({"attended": step.attended} if number else {}), **turns}
            out = {"q": step.query, "k": keys[window], "v": values[window]}
            x = self._networks[number](inputs, out=out).get("y", x)
            step.run(number, at + padded)
        self.length += count
        return {"x": x[count - 1 : count], "attended": step.attended[count - 1 : count]}

    def generate(self, ids: Sequence[int], count: int) -> Iterator[int]:
        """The `count` likeliest tokens, one after the other, behind these; fewer where the model ends."""
        logits = self(ids)
        for number in range(count):
            token = int(logits.argmax())
            yield token
            if token in self.config.ends or number == count - 1:
                return
            logits = self([token])


class AttentionStep:
    """Attention of `count` positions of a model, over all of its cache that is filled."""

    def __init__(self, model: LanguageModel, count: int) -> None:
        config, engine = model.config, rs.Engine("cpu")
        self.query = rs.empty((count, config.heads, config.head_dim))
        self.attended = rs.empty((count, config.heads * config.head_dim))
        self._lengths, self._stream = np.zeros(1, np.int64), rs.onednn.Stream(engine)
        # Heads of a position lie side by side.
        dims = [
            (1, n, m, config.head_dim)
            for n, m in ((config.heads, count), (config.key_heads, len(model._caches[0][0])))
        ]
        kinds = "f32", model._cache_type
        query, key = (rs.MemoryDesc(*pair, "acbd") for pair in zip(dims, kinds, strict=True))
        lengths = rs.Memory.from_numpy(self._lengths)
        pd = rs.onednn.ScaledDotProductAttention.PrimitiveDesc(
            engine,
            query,
            key,
            key,
            query,
            lengths=lengths.desc,
            causal="bottom_right",
            window=(config.window - 1, -1) if config.window else None,
        )
        self._primitive, arg = rs.onednn.ScaledDotProductAttention(pd), rs.onednn.Arg
        shared = {
            arg.SRC: rs.Memory(query, engine, self.query),
            arg.DST: rs.Memory(query, engine, self.attended),
            arg.SRC_3: lengths,
        }
        self._arguments = [
            {**shared, arg.SRC_1: rs.Memory(key, engine, keys), arg.SRC_2: rs.Memory(key, engine, values)}
            for keys, values in model._caches
        ]

    def run(self, layer: int, length: int) -> None:
        """Write `attended` of a layer, whose cache is filled up to `length`."""
        self._lengths[0] = length
        self._primitive.execute(self._stream, self._arguments[layer])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="config.json and model.safetensors")
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--tokens", type=int, nargs="+", help="the ids of the prompt")
    prompt.add_argument("--text", help="the prompt, where the folder has a tokenizer")
    parser.add_argument("--count", type=int, default=32, help="how many tokens to make")
    parser.add_argument("--capacity", type=int, default=1024, help="the positions of the cache")
    parser.add_argument("--weights", choices=("f32", "bf16", "f16"), help="their type, if not as stored")
    parser.add_argument("--cache", choices=("f32", "bf16", "f16"), default="f32", help="its type")
    words = parser.parse_args()
    try:
        run(words)
    except (ValueError, OSError) as error:
        raise SystemExit(f"language_model.py: {error}") from None


def run(words: argparse.Namespace) -> None:
    """Make tokens, and say how fast."""
    ids, tokenizer = words.tokens, None
    if words.text is not None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise ValueError("--text needs tokenizers: pip install 'restride[language]'") from None
        tokenizer = Tokenizer.from_file(str(words.folder / "tokenizer.json"))
        ids = tokenizer.encode(words.text).ids
    model = LanguageModel(words.folder, words.capacity, words.weights, words.cache)
    if len(ids) + words.count - 1 > model.capacity:
        raise ValueError(f"{len(ids)} + {words.count} tokens need more than {model.capacity} positions")
    made, text, times = [], "", [time.perf_counter()]
    for token in model.generate(ids, words.count):
        times.append(time.perf_counter())
        made.append(token)
        whole = tokenizer.decode(made) if tokenizer else f"{text} {token}".lstrip()
        print(whole[len(text) :], end="", flush=True)
        text = whole
    print()
    first, rest = times[1] - times[0], times[-1] - times[1]
    print(f"{len(ids)} tokens read in {first:.2f} s, plans and all", end="")
    print(f"; then {(len(made) - 1) / rest:.1f} tokens a second" if rest else "")


if __name__ == "__main__":
    main()
