"""ERNIE-4.5-0.3B's exact shape with random weights, and a tokenizer of its vocabulary's size, for tests on a real card."""

from itertools import count
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import Ernie4_5Config, Ernie4_5ForCausalLM, PreTrainedTokenizerFast

from tests.tiny_model import SPECIAL, for_chat

VOCABULARY = 103_424
HANZI = [chr(code) for code in range(0x4E00, 0x9FA6)]
PARAMETERS = 360_748_032


def make_ernie_shape(folder: Path) -> Path:
    """Write about 700 MB of bf16 weights and a tokenizer whose every token is text; returns `folder`."""
    torch.manual_seed(45)
    config = Ernie4_5Config(
        vocab_size=VOCABULARY, hidden_size=1024, intermediate_size=3072, num_hidden_layers=18, num_attention_heads=16,
        num_key_value_heads=2, head_dim=128, max_position_embeddings=131072, rms_norm_eps=1e-5,
        tie_word_embeddings=True, use_bias=False, bos_token_id=1, eos_token_id=2, pad_token_id=0, dtype="bfloat16",
    )  # fmt: skip
    model = Ernie4_5ForCausalLM(config)
    torch.nn.Module.to(model, torch.bfloat16)
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS
    model.save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    return folder


def _tokenizer() -> PreTrainedTokenizerFast:
    """Special tokens, bytes, Chinese characters, then pairs of them up to VOCABULARY; no merges."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    names = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), *(_spelt(level, character) for character in HANZI)]
    vocabulary = {name: place for place, name in enumerate(dict.fromkeys(names))}
    for step in count():
        if len(vocabulary) == VOCABULARY:
            break
        pair = HANZI[step % len(HANZI)] + HANZI[(7 * step + step // len(HANZI) + 1) % len(HANZI)]
        vocabulary.setdefault(_spelt(level, pair), len(vocabulary))
    bpe = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    return for_chat(bpe)


def _spelt(level: pre_tokenizers.ByteLevel, text: str) -> str:
    """How byte-level vocabularies spell `text`."""
    spelt: str = level.pre_tokenize_str(text)[0][0]
    return spelt
