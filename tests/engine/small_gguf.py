"""A GGUF file of Qwen2's architecture, small enough to be made and converted within a test."""

from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType
from tokenizers.pre_tokenizers import ByteLevel

HIDDEN, KEYS, INNER = 32, 16, 64
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def make_gguf(path: Path) -> bytes:
    """Write the file to `path`; returns its bytes (about 100 KB)."""
    writer = GGUFWriter(path, "qwen2")
    writer.add_block_count(1)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    tokens = _add_tokenizer(writer)
    _add_tensors(writer, tokens)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def _add_tokenizer(writer: GGUFWriter) -> int:
    """Byte-level BPE with one merge; returns the number of tokens."""
    tokens = [*sorted(ByteLevel.alphabet()), "th", *SPECIAL]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_merges(["t h"])
    writer.add_token_types([TokenType.NORMAL] * 257 + [TokenType.CONTROL] * 3)
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(259)
    writer.add_pad_token_id(257)
    writer.add_chat_template(TEMPLATE)
    return len(tokens)


def _add_tensors(writer: GGUFWriter, tokens: int) -> None:
    """Random numbers in every tensor of a one-layer model."""
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (tokens, HIDDEN),
        "output.weight": (tokens, HIDDEN),
        "output_norm.weight": (HIDDEN,),
        "blk.0.attn_norm.weight": (HIDDEN,),
        "blk.0.ffn_norm.weight": (HIDDEN,),
        "blk.0.attn_q.weight": (HIDDEN, HIDDEN),
        "blk.0.attn_q.bias": (HIDDEN,),
        "blk.0.attn_k.weight": (KEYS, HIDDEN),
        "blk.0.attn_k.bias": (KEYS,),
        "blk.0.attn_v.weight": (KEYS, HIDDEN),
        "blk.0.attn_v.bias": (KEYS,),
        "blk.0.attn_output.weight": (HIDDEN, HIDDEN),
        "blk.0.ffn_gate.weight": (INNER, HIDDEN),
        "blk.0.ffn_up.weight": (INNER, HIDDEN),
        "blk.0.ffn_down.weight": (HIDDEN, INNER),
    }
    for name, shape in shapes.items():
        writer.add_tensor(name, random.standard_normal(shape).astype(np.float32))
