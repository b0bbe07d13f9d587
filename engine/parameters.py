"""How many parameters a model has, told from its config alone."""

from engine.config_values import Config, Unforeseeable, whole, whole_or

KNOWN = {"ernie4_5", "ernie4_5_moe", "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"}
"""Families whose count is exact: tested against transformers' own models."""


def parameters(config: Config) -> tuple[int, bool]:
    """The number of parameters, tied ones once, and whether it is exact. Raises Unforeseeable."""
    if "text_config" in config or "vision_config" in config or "quantization_config" in config:
        raise Unforeseeable(
            "只有 config.json，算不出这种模型的权重大小：请先下载权重。", "The weights have to be there."
        )
    family = str(config.get("model_type", ""))
    hidden, layers = whole(config, "hidden_size"), whole(config, "num_hidden_layers")
    matrices = 1 if config.get("tie_word_embeddings", True) else 2
    count = matrices * whole(config, "vocab_size") * hidden + hidden
    count += sum(_attention(config, family) + 2 * hidden + _inner(config, family, layer) for layer in range(layers))
    return count, family in KNOWN


def _attention(config: Config, family: str) -> int:
    """One layer's projections, biases, and norms over heads."""
    hidden, heads = whole(config, "hidden_size"), whole(config, "num_attention_heads")
    head = whole_or(config, hidden // heads, "head_dim")
    q, kv = heads * head, whole_or(config, heads, "num_key_value_heads") * head
    count = 2 * hidden * q + 2 * hidden * kv
    if family.startswith("qwen2"):
        count += (q + 2 * kv) if config.get("qkv_bias", True) else 0
    elif config.get("attention_bias") or config.get("use_bias"):
        count += q + 2 * kv + hidden
    return count + (2 * head if family.startswith("qwen3") else 0)


def _inner(config: Config, family: str, layer: int) -> int:
    """One layer's feed-forward part: dense, or experts with their router."""
    hidden = whole(config, "hidden_size")
    experts = whole_or(config, 0, "num_experts", "num_local_experts", "moe_num_experts", "n_routed_experts")
    if not experts or not _has_experts(config, layer):
        return _gated(config, hidden, whole_or(config, 4 * hidden, "intermediate_size"))
    width = whole(config, "moe_intermediate_size", "intermediate_size")
    count = experts * _gated(config, hidden, width) + hidden * experts
    if family == "ernie4_5_moe":
        count += experts  # the correction of the router's scores
        count += _gated(config, hidden, width * whole_or(config, 0, "moe_num_shared_experts"))
    if shared := whole_or(config, 0, "shared_expert_intermediate_size"):
        count += _gated(config, hidden, shared) + hidden
    return count


def _gated(config: Config, hidden: int, width: int) -> int:
    """Gate, up and down, with their biases where the model has them."""
    biases = 2 * width + hidden if width and (config.get("use_bias") or config.get("mlp_bias")) else 0
    return 3 * hidden * width + biases


def _has_experts(config: Config, layer: int) -> bool:
    """Some models keep their first layers, or every second one, dense."""
    last = config.get("moe_layer_end_index", -1)
    begins = whole_or(config, 0, "moe_layer_start_index") <= layer
    ends = not isinstance(last, int) or last < 0 or layer <= last
    step = whole_or(config, 1, "decoder_sparse_step", "moe_layer_interval")
    return begins and ends and (layer + 1) % step == 0 and layer not in (config.get("mlp_only_layers") or ())
