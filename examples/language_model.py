"""A language model of the llama kind, read from a checkpoint, makes tokens.

    python examples/language_model.py FOLDER --tokens 1 2 3 --count 32
    python examples/language_model.py FOLDER --text "Once upon a time"
    python examples/language_model.py MODEL.gguf --tokens 1 2 3 --fpmath any --keep FOLDER

FOLDER has config.json and model.safetensors, or shards with their index, of llama, mistral or qwen2; a GGUF
file has all of llama, qwen2 or gemma3. Ids of tokens go in and out; text where a tokenizer.json lies there,
after `pip install 'restride[language]'`.

Between two attentions lies one network: the end of a layer and the begin of the next one. Weights are its
constants, packed once for all numbers of positions. It writes keys and values into a window of the cache,
behind those that are there, and attention reads them where they lie.

Weights of a GGUF file stay quantized, in the order of bytes that products read fastest. Of the embedding only
the rows of tokens become floats. With --keep the networks are saved there, weights and all: next time they
are mapped from there, planned and packed.
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

KINDS = "llama", "mistral", "qwen2", "gemma3"
# What GGUF calls the words of config.json, and parts of the names of tensors.
WORDS = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "sliding_window": "attention.sliding_window",
    "rope_theta": "rope.freq_base",
}
NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk": "model.layers",
    "attn_norm": "input_layernorm",
    **{f"attn_{word}": f"self_attn.{word}_proj" for word in "qkv"},
    **{f"attn_{word}_norm": f"self_attn.{word}_norm" for word in "qk"},
    "attn_output": "self_attn.o_proj",
    **dict.fromkeys(("post_attention_norm", "ffn_norm"), "post_attention_layernorm"),
    **{f"ffn_{word}": f"mlp.{word}_proj" for word in ("gate", "up", "down")},
    "post_ffw_norm": "post_feedforward_layernorm",
}
# A prompt is read in pieces of at most so many positions, which are padded up to a power of two: with the one
# position of a decoding step these are seven plans, of which a network keeps eight.
MOST, LEAST = 256, 8

PRODUCT = rs.graph.InnerProductOperation()
ADD, MULTIPLY = (rs.graph.Epilogue(rs.graph.BinaryOperation(f"binary_{word}")) for word in ("add", "mul"))
SWISH = rs.graph.Epilogue(rs.graph.EltwiseOperation("eltwise_swish", 1.0))
GELU = rs.graph.Epilogue(rs.graph.EltwiseOperation("eltwise_gelu_tanh"))


def words_of(path: Path, tensors: dict[str, Any]) -> dict[str, Any]:
    """What config.json, or the metadata of a GGUF file, say of a model, in the words of config.json."""
    if path.is_dir():
        return defaultdict(type(None), json.loads((path / "config.json").read_text(encoding="utf-8")))
    said = defaultdict(type(None), rs.load_metadata(path))
    kind = said["general.architecture"]
    words = defaultdict(type(None), {word: said[f"{kind}.{own}"] for word, own in WORDS.items()})
    scaling = {"rope_type": said[f"{kind}.rope.scaling.type"], "factor": said[f"{kind}.rope.scaling.factor"]}
    table = tensors.get("model.embed_tokens.weight")
    return words | {
        "model_type": kind,
        "vocab_size": table and table.desc.dims[0],
        "rope_scaling": scaling if scaling["rope_type"] not in (None, "none") else None,
        "rope_factors": tensors.get("rope_freqs.weight"),
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "eos_token_id": said["tokenizer.ggml.eos_token_id"],
    }


def config_of(path: Path, words: dict[str, Any]) -> SimpleNamespace:
    """What is said of a model. Raises ValueError for one of another architecture."""
    kind, heads, ends = words["model_type"], words["num_attention_heads"], words["eos_token_id"]
    sizes = "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"
    for why, is_so in (
        (f"model_type is {kind!r}, not one of {', '.join(KINDS)}", kind not in KINDS),
        (f"hidden_act is {words['hidden_act']!r}, not 'silu'", words["hidden_act"] not in (None, "silu")),
        ("its weights are quantized", words["quantization_config"]),
        ("use_sliding_window is set", words["use_sliding_window"]),
        ("its scores have a scale of their own", kind == "gemma3" and words["num_hidden_layers"] == 62),
        *((f"there is no {name}", not words[name]) for name in sizes),
    ):
        if is_so:
            raise ValueError(f"{path / 'config.json' if path.is_dir() else path}: {why}")
    layers, is_gemma = words["num_hidden_layers"], kind == "gemma3"
    width = words["head_dim"] or words["hidden_size"] // heads
    of_local = {"rope_theta": 10000.0, "rope_scaling": None}
    biased = "qkv" * (kind == "qwen2") or "qkvo" * bool(words["attention_bias"])
    return SimpleNamespace(
        **{name.removeprefix("num_"): words[name] for name in sizes[:-1]},
        heads=heads,
        key_heads=words["num_key_value_heads"] or heads,
        width=width,
        epsilon=words["rms_norm_eps"] or 1e-6,
        window=(words["sliding_window"] - 1, -1) if words["sliding_window"] else None,
        # Of gemma3 one layer of six sees all positions.
        is_local=[kind == "mistral" or (is_gemma and number % 6 < 5) for number in range(layers)],
        is_gemma=is_gemma,
        # Pairs that rotary embeddings turn: GGUF has those of llama side by side, others are halves of heads.
        run=1 if kind == "llama" and path.is_file() else width // 2,
        is_tied=bool(words["tie_word_embeddings"]),
        biases={*biased, *("gate", "up", "down") * bool(words["mlp_bias"])},
        ends=(ends,) if isinstance(ends, int) else ends or (),
        turns=(turns_of(words, width), turns_of(words | of_local if is_gemma else words, width)),
    )


def turns_of(words: dict[str, Any], width: int) -> np.ndarray:
    """The angles of a rotary embedding. Raises ValueError for one that is not known here."""
    rope = words["rope_parameters"] or words["rope_scaling"] or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    theta = rope.get("rope_theta", words["rope_theta"] or 10000.0)
    turns = theta ** -(np.arange(0, width, 2) / width)
    if words["rope_factors"] is not None:  # those of llama3, in a file of GGUF
        turns = turns / words["rope_factors"].to_numpy()
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
    """The tensors of a folder, or of a GGUF file, by name, mapped from its files."""

    def __init__(self, path: Path, kind: str | None, mode: str) -> None:
        index, files = path / "model.safetensors.index.json", {path / "model.safetensors"}
        if index.exists():
            names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            files = {path / name for name in names}
        self.path, self.kind, self.mode = path, kind, mode
        self.tensors: dict[str, Any] = {}
        self._packed: dict[str, rs.QuantizedTensor] = {}
        for file in files if path.is_dir() else {path}:
            self.tensors |= rs.load(file)
        if not path.is_dir():
            is_gemma = "blk.0.post_ffw_norm.weight" in self.tensors
            names = NAMES | ({"ffn_norm": "pre_feedforward_layernorm"} if is_gemma else {})
            self.tensors = {
                ".".join(names.get(part, part) for part in name.split(".")): tensor
                for name, tensor in self.tensors.items()
            }

    def __call__(self, name: str, *dims: int, dtype: str | None = None) -> np.ndarray | rs.QuantizedTensor:
        """A tensor as an array, or quantized. Raises ValueError where there is none of this name and dims."""
        tensor = self.tensors.get(name)
        if tensor is None or tensor.desc.dims != dims:
            found = f", but one of {tensor.desc.dims}" if tensor else ""
            raise ValueError(f"{self.path} has no tensor {name!r} of dims {dims}{found}")
        dtype = dtype or self.kind
        if isinstance(tensor, rs.QuantizedTensor):
            return tensor
        return rs.reorder(tensor, None, dtype=dtype) if dtype else tensor.physical()

    def weights(self, name: str, *dims: int) -> np.ndarray | rs.QuantizedTensor:
        """The same for a product: what is quantized is packed, once."""
        tensor = self(name, *dims)
        if isinstance(tensor, rs.QuantizedTensor) and name not in self._packed:
            self._packed[name] = rs.pack_weights(tensor.T, fpmath_mode=self.mode)
        return self._packed.get(name, tensor)


class LanguageModel:
    """A model with a cache of `capacity` positions, which is filled up to `length`.

    `weights`: the type in which weights are multiplied that are floats, None for that of the checkpoint.
    `cache`: the type of keys and values. `mode`: "any" multiplies weights that are quantized by bytes.
    `folder`: where the networks are, or will be when `keep` is called.
    """

    def __init__(
        self,
        path: Path,
        capacity: int,
        weights: str | None = None,
        cache: str = "f32",
        mode: str = "strict",
        folder: Path | None = None,
    ) -> None:
        self._tensor = Checkpoint(path, weights, mode)
        self.config = config = config_of(path, words_of(path, self._tensor.tensors))
        self.capacity, self.length = capacity, 0
        self._cache_type = rs.DataType.parse(cache)
        self._embedding = self._tensor("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
        room = capacity + MOST  # the last piece may be padded
        # A pair (x, y) becomes (x cos - y sin, y cos + x sin); `run` x are followed by as many y.
        signs = np.resize(np.repeat([-1.0, 1.0], config.run), config.width)
        self._turns = []
        for turns in config.turns:
            of_pairs = np.tile(turns.reshape(-1, 1, config.run), (1, 2, 1)).reshape(-1)
            angles = np.arange(room)[:, None, None] * of_pairs
            tables = np.cos(angles), np.sin(angles) * signs
            self._turns.append([table.astype(np.float32) for table in tables])
        dims = room, config.key_heads, config.width
        self._caches = [[rs.empty(dims, cache) for _ in "kv"] for _ in range(config.hidden_layers)]
        # What the networks of a folder were made of.
        files = [path] if path.is_file() else sorted([*path.glob("*.json"), *path.glob("*.safetensors")])
        stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        self._made_of = json.dumps([rs.__version__, stats, weights, cache, mode])
        self._folder, made_of = folder, folder and folder / "made-of.txt"
        self._is_kept = bool(made_of and made_of.exists() and made_of.read_text() == self._made_of)
        try:
            self._networks = self._kept() if self._is_kept else []
        except rs.Error:  # one is gone, or damaged
            self._networks = []
        self._is_kept = bool(self._networks)
        self._networks = self._networks or [self._network(n) for n in range(config.hidden_layers + 1)]
        self._steps: dict[int, AttentionStep] = {}

    def _network(self, number: int) -> rs.Network:
        """The end of layer `number` - 1 and the begin of layer `number`, where there are such."""
        config, is_last = self.config, number == self.config.hidden_layers
        dims = {"x": (config.hidden_size,)}
        dims |= {"attended": (config.heads * config.width,)} if number else {}
        dims |= {} if is_last else dict.fromkeys(("cos", "sin"), (1, config.width))
        inputs = [rs.graph.NetworkInput(name, (None, *own), rs.f32) for name, own in dims.items()]
        outputs = ["logits"] if is_last else [*["y"] * (number > 0), "q", "k", "v"]
        # Graphs of all numbers of positions differ in extents alone, so that a file serves them all.
        return rs.Network.of_source(
            inputs, outputs, partial(self._graph, number), is_linear=lambda batches: True
        )

    def _kept(self) -> list[rs.Network]:
        paths = [self._folder / f"{number}.network" for number in range(self.config.hidden_layers + 1)]
        return [rs.Network.load(path) for path in paths]

    def keep(self) -> None:
        """Save the networks into the folder, if they are not from there."""
        if self._folder is None or self._is_kept:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "made-of.txt").unlink(missing_ok=True)
        for number, network in enumerate(self._networks):
            network.save(self._folder / f"{number}.network")
        (self._folder / "made-of.txt").write_text(self._made_of)

    def _graph(self, number: int, dims: dict[str, tuple[int, ...]]) -> rs.graph.Graph:
        """The same as a graph, for inputs of these dims."""
        config, builder = self.config, rs.graph.GraphBuilder()
        count, hidden, width = dims["x"][0], config.hidden_size, config.width
        x, *others = (builder.input(name, extents) for name, extents in dims.items())

        def norm(x: str, name: str) -> str:
            words = (("epsilon", config.epsilon), ("flags", "use_scale|use_shift|rms_norm"))
            scale = self._tensor(f"{name}.weight", builder.type(x).dims[-1], dtype="f32")
            operands = builder.constant(scale), builder.constant(np.zeros_like(scale))
            return builder.add(rs.graph.PrimitiveOperation("LayerNormalizationForward", words), x, *operands)

        def product(x: str, weights: Any, biases: list[np.ndarray], *operands: str, **words: Any) -> str:
            operation, parts = PRODUCT, [weights, *biases]
            if isinstance(weights, rs.QuantizedTensor):
                factors = [weights.scale, *[weights.zero_point] * (weights.zero_point is not None)]
                parts = [weights.values, *(bias[None] for bias in biases), *factors]
                mode = self._tensor.mode
                operation = rs.graph.QuantizedMatmulOperation(len(factors) > 1, fpmath_mode=mode)
            return builder.add(operation, x, *map(builder.constant, parts), *operands, **words)

        def linear(x: str, place: str, rows: dict[str, int], *operands: str, **words: Any) -> str:
            """The product with the weights of these words, one below the other."""
            columns = builder.type(x).dims[1]
            names = {f"{place}.{word}_proj": n for word, n in rows.items()}
            weights = [self._tensor.weights(f"{name}.weight", n, columns) for name, n in names.items()]
            biases = []
            if config.biases.intersection(rows):
                biases = [self._tensor(f"{name}.bias", n, dtype="f32") for name, n in names.items()]
            if all(isinstance(each, np.ndarray) for each in weights):
                weights, biases = ([np.concatenate(each)] if each else [] for each in (weights, biases))
            each = [product(x, own, biases[i : i + 1], *operands, **words) for i, own in enumerate(weights)]
            return builder.add(rs.graph.ConcatOperation(1), *each) if each[1:] else each[0]

        def residual(x: str, source: str, place: str, rows: dict[str, int], last: str, name: str = "") -> str:
            """`x` and a product of another tensor, which gemma3 normalizes before."""
            if config.is_gemma:
                return builder.add(ADD.operation, x, norm(linear(source, place, rows), last), name=name)
            return linear(source, place, rows, x, epilogues=[ADD], name=name)

        def part(x: str, start: tuple[int, ...], sizes: tuple[int, ...]) -> str:
            return builder.add(rs.graph.SliceOperation(start, sizes, (1, 1, 1)), x)

        if number:
            layer, inner = f"model.layers.{number - 1}", config.intermediate_size
            attention, mlp, after = f"{layer}.self_attn", f"{layer}.mlp", f"{layer}.post_attention_layernorm"
            x = residual(x, others[0], attention, {"o": hidden}, after)
            normed = norm(x, f"{layer}.pre_feedforward_layernorm" if config.is_gemma else after)
            gate = linear(normed, mlp, {"gate": inner}, epilogues=[GELU if config.is_gemma else SWISH])
            up = linear(normed, mlp, {"up": inner}, gate, epilogues=[MULTIPLY])
            x = residual(x, up, mlp, {"down": hidden}, f"{layer}.post_feedforward_layernorm", "y")
        if number == config.hidden_layers:
            name = "model.embed_tokens.weight" if config.is_tied else "lm_head.weight"
            table = self._tensor.weights(name, config.vocab_size, hidden)
            return builder.graph(product(norm(x, "model.norm"), table, [], name="logits"))
        layer, heads = f"model.layers.{number}", {"q": config.heads, **dict.fromkeys("kv", config.key_heads)}
        rows = {word: n * width for word, n in heads.items()}
        joint = linear(norm(x, f"{layer}.input_layernorm"), f"{layer}.self_attn", rows)
        joint = builder.add(rs.graph.ReshapeOperation((count, sum(heads.values()), width)), joint)
        turning = config.heads + config.key_heads
        whole = part(joint, (0, 0, 0), (count, turning, width))
        if config.is_gemma:
            queries = part(joint, (0, 0, 0), (count, config.heads, width))
            keys = part(joint, (0, config.heads, 0), (count, config.key_heads, width))
            normed = [norm(queries, f"{layer}.self_attn.q_norm"), norm(keys, f"{layer}.self_attn.k_norm")]
            whole = builder.add(rs.graph.ConcatOperation(1), *normed)
        # Of queries and keys x cos + swapped sin: pairs are swapped, signs are in the table.
        run = config.run
        pairs = count, turning * width // (2 * run), 2 * run
        sides = builder.add(rs.graph.ReshapeOperation(pairs), whole)
        swapped = [part(sides, (0, 0, start), (*pairs[:2], run)) for start in (run, 0)]
        swapped = builder.add(rs.graph.ConcatOperation(2), *swapped)
        swapped = builder.add(rs.graph.ReshapeOperation((count, turning, width)), swapped)
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
        table = self._embedding
        x[:count] = table[ids] if isinstance(table, np.ndarray) else table.rows(ids).dequantize().to_numpy()
        if self.config.is_gemma:
            x *= self.config.hidden_size**0.5
        for number, (keys, values) in enumerate(self._caches):
            cos, sin = (table[window] for table in self._turns[self.config.is_local[number]])
            inputs = {"x": x, **({"attended": step.attended} if number else {}), "cos": cos, "sin": sin}
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
        rules = {"lengths": lengths.desc, "causal": "bottom_right"}
        attention, arg = rs.onednn.ScaledDotProductAttention, rs.onednn.Arg
        windows = [config.window if is_local else None for is_local in config.is_local]
        self._primitives = [
            attention(attention.PrimitiveDesc(engine, query, key, key, query, **rules, window=window))
            for window in windows
        ]
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
        self._primitives[layer].execute(self._stream, self._arguments[layer])


def main() -> None:
    """The command. Raises ValueError for a model or a prompt that it cannot read."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "path", type=Path, help="a folder of config.json and model.safetensors, or a GGUF file"
    )
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--tokens", type=int, nargs="+", help="the ids of the prompt")
    prompt.add_argument("--text", help="the prompt, where the folder has a tokenizer")
    parser.add_argument("--count", type=int, default=32, help="how many tokens to make")
    parser.add_argument("--capacity", type=int, default=1024, help="the positions of the cache")
    parser.add_argument("--weights", choices=("f32", "bf16", "f16"), help="their type, if not as stored")
    parser.add_argument("--cache", choices=("f32", "bf16", "f16"), default="f32", help="its type")
    parser.add_argument("--fpmath", choices=("strict", "any"), default="strict", help="of quantized weights")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where networks are kept for next time")
    words = parser.parse_args()
    ids, tokenizer = words.tokens, None
    if words.text is not None:
        if not find_spec("tokenizers"):
            raise ValueError("--text needs tokenizers: pip install 'restride[language]'")
        from tokenizers import Tokenizer

        folder = words.path if words.path.is_dir() else words.path.parent
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        ids = tokenizer.encode(words.text).ids
    model = LanguageModel(words.path, words.capacity, words.weights, words.cache, words.fpmath, words.keep)
    made, text, times = [], "", [time.perf_counter()]
    for token in model.generate(ids, words.count):
        times.append(time.perf_counter())
        made.append(token)
        whole = tokenizer.decode(made) if tokenizer else " ".join(map(str, made))
        print(whole[len(text) :], end="", flush=True)
        text = whole
    print(f"\n{len(made[:2])} tokens behind {len(ids)}, plans and all: {times[:3][-1] - times[0]:.2f} s")
    model.keep()
    if made[2:]:
        print(f"tokens a second: {len(made[2:]) / (times[-1] - times[2]):.1f}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, rs.Error) as error:
        raise SystemExit(f"{Path(__file__).name}: {error}") from None
