"""Small random models of other shapes than ERNIE's, for the planner to be held against vLLM."""

import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, Gemma3TextConfig, PreTrainedConfig, Qwen2Config

QWEN_2 = Qwen2Config(
    vocab_size=1000, hidden_size=256, intermediate_size=320, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=1, max_position_embeddings=8192, tie_word_embeddings=True, dtype="bfloat16",
)  # fmt: skip
"""Heads of 64 by default, one for keys and values, tied matrices, a vocabulary that vLLM pads."""

GEMMA_3 = Gemma3TextConfig(
    vocab_size=1000, hidden_size=256, intermediate_size=320, num_hidden_layers=7, num_attention_heads=4,
    num_key_value_heads=2, head_dim=128, sliding_window=512, max_position_embeddings=8192, dtype="bfloat16",
)  # fmt: skip
"""Five layers in six slide: two groups of unequal length share one pool."""


def make_model(folder: Path, config: PreTrainedConfig, tokenizer: Path) -> Path:
    """Write a random model of `config` (bf16 safetensors) with the tokenizer of another; returns the folder."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.to(torch.bfloat16).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(tokenizer / file, folder / file)
    return folder
