"""Which layers of a model remember everything and which only a sliding window, told from its config."""

from engine.config_values import Config, Unforeseeable, whole, whole_or

OTHER_MEMORY = {
    "kv_lora_rank": "MLA", "state_size": "Mamba", "mamba_d_state": "Mamba", "ssm_state_size": "Mamba", "ssm_cfg": "Mamba",
    "linear_num_key_heads": "linear attention", "hybrid_override_pattern": "hybrid", "attn_layer_period": "hybrid",
    "layers_block_type": "hybrid", "block_configs": "hybrid", "attention_chunk_size": "chunked attention",
    "num_kv_shared_layers": "shared KV", "global_head_dim": "mixed head sizes", "compress_ratios": "compressed KV",
    "is_encoder_decoder": "encoder-decoder",
}  # fmt: skip
"""Keys whose presence means that keys and values are not kept, layer by layer, one pair a token and head."""
FULL, SLIDING = "full_attention", "sliding_attention"
GEMMA_2_PATTERN, GEMMA_3_PATTERN = 2, 6


def windows(text: Config) -> tuple[int | None, ...]:
    """For each layer its sliding window in tokens, None for full attention. Raises Unforeseeable."""
    for key, kind in OTHER_MEMORY.items():
        if text.get(key):
            raise Unforeseeable(
                f"这个模型的结构（{kind}）不是逐层的普通注意力，KV 缓存算不出来，以 vLLM 加载后的日志为准。",
                f"This architecture ({kind}) keeps no plain keys and values: see vLLM's log after loading.",
            )
    layers = whole(text, "num_hidden_layers")
    return tuple(_window(text, layer, layers) for layer in range(layers))


def _window(text: Config, layer: int, layers: int) -> int | None:
    sliding = None if text.get("use_sliding_window") is False else whole_or(text, 0, "sliding_window") or None
    types = text.get("layer_types")
    if isinstance(types, list) and len(types) == layers:
        if types[layer] not in (FULL, SLIDING):
            raise Unforeseeable(
                f"这个模型有 {types[layer]} 层，KV 缓存算不出来，以 vLLM 加载后的日志为准。",
                f"A layer of {types[layer]}: its memory cannot be computed; see vLLM's log after loading.",
            )
        return sliding if types[layer] == SLIDING else None
    return sliding if sliding and _slides(text, layer) else None


def _slides(text: Config, layer: int) -> bool:
    """Configs of before layer_types: each family has its own rule; Mistral's is that every layer slides."""
    family = str(text.get("model_type", ""))
    if family.startswith("gemma"):
        default = GEMMA_2_PATTERN if family == "gemma2" else GEMMA_3_PATTERN
        return (layer + 1) % whole_or(text, default, "sliding_window_pattern") != 0
    if family.startswith("qwen"):
        return layer >= whole_or(text, 0, "max_window_layers")
    return True
