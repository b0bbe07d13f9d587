"""What a model takes: weight bytes from safetensors headers, or from the config alone, and KV cache bytes a token.

Nothing is imported or loaded. Counted as vLLM holds them: tied matrices once, floats in the profile's type, vocabulary
padded to 64 rows.
"""

import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.attention import windows
from engine.config_values import Config, read_config, whole, whole_or
from engine.parameters import parameters

INDEX = "model.safetensors.index.json"
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
ITEM_BYTES = {"bfloat16": 2, "half": 2, "float16": 2, "float32": 4}
VOCABULARY_STEP = 64
LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Footprint:
    """A model as memory sees it, in bytes; `windows` has one entry a layer, None for full attention."""

    weight_bytes: int
    exact: bool
    """False where weights had to be estimated from the config of a family that is not known."""
    hidden: int
    intermediate: int
    """Widest inner layer; of a mixture of experts, those that a token passes through, side by side."""
    vocabulary: int
    item_bytes: int
    kv_bytes: int
    """A token's keys and values in one layer."""
    windows: tuple[int | None, ...]
    longest: int | None
    """The model's own context in tokens; None where the config leaves it open."""

    @property
    def kv_bytes_a_token(self) -> int:
        """In all layers, while none of them slides."""
        return self.kv_bytes * len(self.windows)


def of_folder(folder: Path, dtype: str) -> Footprint:
    """The model in `folder`, run in `dtype`.

    Raises WeightsError for a config that cannot be read, Unforeseeable for one whose KV cache cannot be computed.
    """
    config = read_config(folder)
    return of_config(config, dtype, _stored(folder, config, ITEM_BYTES[dtype]))


def of_config(config: Config, dtype: str, weight_bytes: int | None = None) -> Footprint:
    """From a config.json's content; `weight_bytes` where they are known. Raises Unforeseeable."""
    text = text_part(config)
    item = ITEM_BYTES[dtype]
    hidden, vocabulary = whole(text, "hidden_size"), whole(text, "vocab_size")
    padding = -vocabulary % VOCABULARY_STEP * hidden * item * (1 if tied(config) else 2)
    exact = True
    if weight_bytes is None:
        count, exact = parameters(config)
        weight_bytes = count * item
    return Footprint(
        weight_bytes=weight_bytes + padding, exact=exact, hidden=hidden, intermediate=_inner(text, hidden),
        vocabulary=vocabulary, item_bytes=item, kv_bytes=_kv_bytes(config, item), windows=windows(text),
        longest=_longest(text),
    )  # fmt: skip


def text_part(config: Config) -> Config:
    """Of a model that also sees or hears, the part that writes."""
    part = config.get("text_config")
    return part if isinstance(part, Mapping) else config


def tied(config: Config) -> bool:
    """Whether input and output matrix are one; transformers' own default is that they are."""
    text = text_part(config)
    return bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", True)))


def _inner(text: Config, hidden: int) -> int:
    dense = whole_or(text, 4 * hidden, "intermediate_size")
    routed = whole_or(text, 0, "moe_intermediate_size") or (dense if "num_local_experts" in text else 0)
    return max(dense, routed * whole_or(text, 1, "num_experts_per_tok", "moe_k"))


def _kv_bytes(config: Config, item: int) -> int:
    """Keys and values of one token in one layer."""
    text = text_part(config)
    heads = whole(text, "num_attention_heads")
    kv_heads = whole_or(text, heads, "num_key_value_heads")
    head = whole_or(text, whole(text, "hidden_size") // heads, "head_dim")
    return 2 * kv_heads * head * (1 if _is_fp8(config) else item)


def _is_fp8(config: Config) -> bool:
    """Whether the checkpoint asks for a KV cache in 8 bits."""
    quantization = config.get("quantization_config")
    if not isinstance(quantization, Mapping):
        return False
    scheme = quantization.get("kv_cache_scheme")
    bits = scheme.get("num_bits") if isinstance(scheme, Mapping) else None
    return bits == 8 or str(quantization.get("kv_cache_quant_algo", "")).upper() == "FP8"


def _longest(text: Config) -> int | None:
    """None where the positions are scaled: by how much differs from method to method."""
    scaling = text.get("rope_scaling") or text.get("rope_parameters")
    if isinstance(scaling, Mapping) and "factor" in scaling:
        return None
    return whole_or(text, 0, "max_position_embeddings") or None


def _stored(folder: Path, config: Config, item: int) -> int | None:
    """Bytes of the weights in `folder`; None where there are none, or none that can be read."""
    files = _shards(folder)
    if not files:
        return None
    layers = whole(text_part(config), "num_hidden_layers")
    try:
        tensors = {name: tensor for file in files for name, tensor in _header(file)}
        return sum(
            _held(tensor, item, keep_type="quantization_config" in config)
            for name, tensor in tensors.items()
            if _is_loaded(name, layers, is_tied=tied(config))
        )
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, struct.error):
        return None  # whoever loads them says what is wrong with them


def _shards(folder: Path) -> list[Path]:
    """Those that the index names, where there is one: some models keep a second copy beside."""
    try:
        named = {folder / str(name) for name in json.loads((folder / INDEX).read_bytes())["weight_map"].values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        named = set()
    return sorted(named) or sorted(folder.glob("*.safetensors"))


def _header(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tensors by name (the safetensors format: eight bytes of length, then JSON)."""
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        if length > file.stat().st_size:
            raise ValueError("the header is longer than the file")
        header = json.loads(stream.read(length))
    yield from ((name, tensor) for name, tensor in header.items() if name != "__metadata__")


def _is_loaded(name: str, layers: int, *, is_tied: bool) -> bool:
    """vLLM leaves out a second copy of the input matrix, draft layers, and tables that it computes."""
    layer = LAYER.search(name)
    draft = "mtp" in name or (layer is not None and int(layer[1]) >= layers and "vision" not in name)
    return not (draft or (is_tied and name.endswith("lm_head.weight")) or name.endswith("rotary_emb.inv_freq"))


def _held(tensor: dict[str, Any], item: int, *, keep_type: bool) -> int:
    """A tensor's bytes once loaded: floats take the profile's type, quantized models stay as they are."""
    start, end = tensor["data_offsets"]
    size = FLOATS.get(tensor["dtype"])
    stored = int(end) - int(start)
    return stored if size is None or keep_type else stored // size * item
