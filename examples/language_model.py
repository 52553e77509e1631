"""A language model of the llama kind, read from a checkpoint, makes tokens.

    python examples/language_model.py FOLDER --tokens 1 2 3 --count 32
    python examples/language_model.py FOLDER --text "Once upon a time"

FOLDER has config.json and model.safetensors, or shards with their index, of llama, mistral or qwen2. Ids of
tokens go in and out; text where FOLDER has tokenizer.json, after `pip install 'restride[language]'`.

Between two attentions lies one network: the end of a layer and the begin of the next one. Weights are its
constants, packed once for all numbers of positions. It writes keys and values into a window of the cache,
behind those that are there, and attention reads them where they lie.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import restride as rs

KINDS = "llama", "mistral", "qwen2"
# A prompt is read in pieces of at most so many positions, which are padded up to a power of two: with the one
# position of a decoding step these are seven plans, of which a network keeps eight.
MOST, LEAST = 256, 8

PRODUCT = rs.graph.InnerProductOperation()
ADD, MULTIPLY = (rs.graph.Epilogue(rs.graph.BinaryOperation(f"binary_{word}")) for word in ("add", "mul"))
SWISH = rs.graph.Epilogue(rs.graph.EltwiseOperation("eltwise_swish", 1.0))


def config_of(folder: Path) -> SimpleNamespace:
    """What config.json says of a model. Raises ValueError for one of another architecture."""
    words = defaultdict(type(None), json.loads((folder / "config.json").read_text(encoding="utf-8")))
    kind, heads, ends = words["model_type"], words["num_attention_heads"], words["eos_token_id"]
    sizes = "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"
    for why, is_so in (
        (f"model_type is {kind!r}, not one of {', '.join(KINDS)}", kind not in KINDS),
        (f"hidden_act is {words['hidden_act']!r}, not 'silu'", words["hidden_act"] not in (None, "silu")),
        ("its weights are quantized", words["quantization_config"]),
        ("use_sliding_window is set", words["use_sliding_window"]),
        *((f"there is no {name}", not words[name]) for name in sizes),
    ):
        if is_so:
            raise ValueError(f"{folder / 'config.json'}: {why}")
    width = words["head_dim"] or words["hidden_size"] // heads
    biased = "qkv" * (kind == "qwen2") or "qkvo" * bool(words["attention_bias"])
    return SimpleNamespace(
        **{name.removeprefix("num_"): words[name] for name in sizes[:-1]},
        heads=heads,
        key_heads=words["num_key_value_heads"] or heads,
        width=width,
        epsilon=words["rms_norm_eps"] or 1e-6,
        window=(words["sliding_window"] - 1, -1) if kind == "mistral" and words["sliding_window"] else None,
        is_tied=bool(words["tie_word_embeddings"]),
        biases={*biased, *("gate", "up", "down") * bool(words["mlp_bias"])},
        ends=(ends,) if isinstance(ends, int) else ends or (),
        turns=turns_of(words, width),
    )


def turns_of(words: dict[str, Any], width: int) -> np.ndarray:
    """The angles of a rotary embedding. Raises ValueError for one that is not known here."""
    rope = words["rope_parameters"] or words["rope_scaling"] or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    theta = rope.get("rope_theta", words["rope_theta"] or 10000.0)
    turns = theta ** -(np.arange(0, width, 2) / width)
    if kind in ("default", "linear"):
        return turns / (rope["factor"] if kind == "linear" else 1)
    if kind != "llama3":
        raise ValueError(f"rope_type is {kind!r}, not default, linear or llama3")
    # Fast turns are kept, slow ones divided; in between it goes by how many the original context has of them.
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    counts = rope["original_max_position_embeddings"] * turns / (2 * np.pi)
    share = np.clip((counts - low) / (high - low), 0, 1)
    return turns * (share + (1 - share) / rope["factor"])


class Checkpoint:
    """The tensors of a folder by name, mapped from its files."""

    def __init__(self, folder: Path, kind: str | None) -> None:
        index, names = folder / "model.safetensors.index.json", {"model.safetensors"}
        if index.exists():
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        self._folder, self._kind, self._tensors = folder, kind, {}
        for name in names:
            self._tensors |= rs.load(folder / name)

    def __call__(self, name: str, *dims: int, dtype: str | None = None) -> np.ndarray:
        """A tensor as an array. Raises ValueError where there is none of this name and these dims."""
        tensor = self._tensors.get(name)
        if tensor is None or tensor.desc.dims != dims:
            found = tensor and f", but one of {tensor.desc.dims}"
            raise ValueError(f"{self._folder} has no tensor {name!r} of dims {dims}{found or ''}")
        dtype = dtype or self._kind
        return rs.reorder(tensor, None, dtype=dtype) if dtype else tensor.physical()


class LanguageModel:
    """A model with a cache of `capacity` positions, which is filled up to `length`.

    `weights`: the type in which weights are multiplied, None for that of the checkpoint. `cache`: the type of
    keys and values.
    """

    def __init__(self, folder: Path, capacity: int, weights: str | None = None, cache: str = "f32") -> None:
        self.config = config = config_of(folder)
        self.capacity, self.length = capacity, 0
        self._tensor, self._cache_type = Checkpoint(folder, weights), rs.DataType.parse(cache)
        self._embedding = self._tensor("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
        room = capacity + MOST  # the last piece may be padded
        angles = np.arange(room)[:, None, None] * np.concatenate([config.turns] * 2)
        # A pair (x, y) becomes (x cos - y sin, y cos + x sin); the x are the first half of a head.
        signs = np.repeat([-1.0, 1.0], config.width // 2)
        self._turns = np.cos(angles).astype(np.float32), (np.sin(angles) * signs).astype(np.float32)
        dims = room, config.key_heads, config.width
        self._caches = [[rs.empty(dims, cache) for _ in "kv"] for _ in range(config.hidden_layers)]
        self._networks = [self._network(number) for number in range(config.hidden_layers + 1)]
        self._steps: dict[int, AttentionStep] = {}

    def _network(self, number: int) -> rs.Network:
        """The end of layer `number` - 1 and the begin of layer `number`, where there are such."""
        config, is_last = self.config, number == self.config.hidden_layers
        dims = {"x": (config.hidden_size,)}
        dims |= {"attended": (config.heads * config.width,)} if number else {}
        dims |= {} if is_last else dict.fromkeys(("cos", "sin"), (1, config.width))
        inputs = [rs.graph.NetworkInput(name, (None, *own), rs.f32) for name, own in dims.items()]
        outputs = ["logits"] if is_last else [*["y"] * (number > 0), "q", "k", "v"]
        return rs.Network.of_source(inputs, outputs, partial(self._graph, number))

    def _graph(self, number: int, dims: dict[str, tuple[int, ...]]) -> rs.graph.Graph:
        """The same as a graph, for inputs of these dims."""
        config, builder = self.config, rs.graph.GraphBuilder()
        count, hidden, width = dims["x"][0], config.hidden_size, config.width
        x, *others = (builder.input(name, extents) for name, extents in dims.items())

        def norm(x: str, name: str) -> str:
            words = (("epsilon", config.epsilon), ("flags", "use_scale|use_shift|rms_norm"))
            scale = self._tensor(f"{name}.weight", hidden, dtype="f32")
            operands = builder.constant(scale), builder.constant(np.zeros_like(scale))
            return builder.add(rs.graph.PrimitiveOperation("LayerNormalizationForward", words), x, *operands)

        def linear(x: str, place: str, rows: dict[str, int], *operands: str, **words: Any) -> str:
            """The product with the weights of these words, one below the other."""
            columns = builder.type(x).dims[1]
            names = {f"{place}.{word}_proj": n for word, n in rows.items()}
            weights = [joined([self._tensor(f"{name}.weight", n, columns) for name, n in names.items()])]
            if config.biases.intersection(rows):
                of_rows = (self._tensor(f"{name}.bias", n, dtype="f32") for name, n in names.items())
                weights.append(joined(list(of_rows)))
            return builder.add(PRODUCT, x, *weights, *operands, **words)

        def joined(parts: list[np.ndarray]) -> str:
            return builder.constant(np.concatenate(parts) if len(parts) > 1 else parts[0])

        def part(x: str, start: tuple[int, ...], sizes: tuple[int, ...]) -> str:
            return builder.add(rs.graph.SliceOperation(start, sizes, (1, 1, 1)), x)

        if number:
            layer, inner = f"model.layers.{number - 1}", config.intermediate_size
            x = linear(others[0], f"{layer}.self_attn", {"o": hidden}, x, epilogues=[ADD])
            normed = norm(x, f"{layer}.post_attention_layernorm")
            gate = linear(normed, f"{layer}.mlp", {"gate": inner}, epilogues=[SWISH])
            up = linear(normed, f"{layer}.mlp", {"up": inner}, gate, epilogues=[MULTIPLY])
            x = linear(up, f"{layer}.mlp", {"down": hidden}, x, epilogues=[ADD], name="y")
        if number == config.hidden_layers:
            name = "model.embed_tokens.weight" if config.is_tied else "lm_head.weight"
            table, x = self._tensor(name, config.vocab_size, hidden), norm(x, "model.norm")
            return builder.graph(builder.add(PRODUCT, x, builder.constant(table), name="logits"))
        layer, heads = f"model.layers.{number}", {"q": config.heads, **dict.fromkeys("kv", config.key_heads)}
        rows = {word: n * width for word, n in heads.items()}
        joint = linear(norm(x, f"{layer}.input_layernorm"), f"{layer}.self_attn", rows)
        joint = builder.add(rs.graph.ReshapeOperation((count, sum(heads.values()), width)), joint)
        # Of queries and keys x cos + swapped sin: halves of heads are swapped, signs are in the table.
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
        """The logits behind these tokens, which are read. Raises ValueError where the cache has no room."""
        count, size = len(ids), self.config.vocab_size
        if not count or not all(0 <= token < size for token in ids):
            raise ValueError(f"tokens are one or more numbers from 0 to {size - 1}")
        self._check_room(count)
        for start in range(0, count, MOST):
            last_rows = self._piece(np.asarray(ids[start : start + MOST]))
        return self._networks[-1](last_rows)[0]

    def _check_room(self, count: int) -> None:
        if self.length + count > self.capacity:
            filled = f"{self.length} of the {self.capacity} positions of the cache are filled"
            raise ValueError(f"{filled}, {count} more do not fit: a larger --capacity has room")

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
        self._check_room(len(ids) + count - 1)
        for _ in range(count):
            ids = [int(self(ids).argmax())]
            yield ids[0]
            if ids[0] in self.config.ends:
                return


class AttentionStep:
    """Attention of `count` positions of a model, over all of its cache that is filled."""

    def __init__(self, model: LanguageModel, count: int) -> None:
        config, engine = model.config, rs.Engine("cpu")
        self.query = rs.empty((count, config.heads, config.width))
        self.attended = rs.empty((count, config.heads * config.width))
        self._lengths, self._stream = np.zeros(1, np.int64), rs.onednn.Stream(engine)
        # Heads of a position lie side by side.
        query = rs.MemoryDesc((1, config.heads, count, config.width), "f32", "acbd")
        room, cache = len(model._caches[0][0]), model._cache_type
        key = rs.MemoryDesc((1, config.key_heads, room, config.width), cache, "acbd")
        lengths = rs.Memory.from_numpy(self._lengths)
        rules = {"lengths": lengths.desc, "causal": "bottom_right", "window": config.window}
        attention, arg = rs.onednn.ScaledDotProductAttention, rs.onednn.Arg
        self._primitive = attention(attention.PrimitiveDesc(engine, query, key, key, query, **rules))
        own = {
            arg.SRC: rs.Memory(query, engine, self.query),
            arg.DST: rs.Memory(query, engine, self.attended),
        }
        self._arguments = [
            {
                **own,
                arg.SRC_3: lengths,
                arg.SRC_1: rs.Memory(key, engine, keys),
                arg.SRC_2: rs.Memory(key, engine, values),
            }
            for keys, values in model._caches
        ]

    def run(self, layer: int, length: int) -> None:
        """Write `attended` of a layer, whose cache is filled up to `length`."""
        self._lengths[0] = length
        self._primitive.execute(self._stream, self._arguments[layer])


def main() -> None:
    """The command. Raises ValueError for a model or a prompt that it cannot read."""
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
    ids, tokenizer = words.tokens, None
    if words.text is not None:
        if not find_spec("tokenizers"):
            raise ValueError("--text needs tokenizers: pip install 'restride[language]'")
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(words.folder / "tokenizer.json"))
        ids = tokenizer.encode(words.text).ids
    model = LanguageModel(words.folder, words.capacity, words.weights, words.cache)
    made, text, times = [], "", [time.perf_counter()]
    for token in model.generate(ids, words.count):
        times.append(time.perf_counter())
        made.append(token)
        whole = tokenizer.decode(made) if tokenizer else " ".join(map(str, made))
        print(whole[len(text) :], end="", flush=True)
        text = whole
    print(f"\n{len(made[:2])} tokens behind {len(ids)}, plans and all: {times[:3][-1] - times[0]:.2f} s")
    if made[2:]:
        print(f"tokens a second: {len(made[2:]) / (times[-1] - times[2]):.1f}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, rs.Error) as error:
        raise SystemExit(f"{Path(__file__).name}: {error}") from None
