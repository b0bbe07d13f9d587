"""The planner's numbers against vLLM's own, and what it refuses, with the number that would do."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from engine import footprint
from engine.config_values import Unforeseeable
from engine.errors import WeightsError
from engine.footprint import Footprint
from engine.hardware import Card
from engine.known_model import SHIPPED
from engine.planner import MemoryPlan, plan
from engine.profiles import choose, load_profiles
from tests.engine.backends import ROOT
from tests.engine.shapes import GEMMA_3, QWEN_2, make_model

PROFILES = load_profiles()
ERNIE: dict[str, Any] = json.loads(SHIPPED.read_bytes())["config"]
GIB = 2**30
H200 = Card("NVIDIA H200", 143771, 143155, (9, 0), "580.159.04", 616)
A10 = Card("NVIDIA A10", 23028, 22511, (8, 6), "580.82.07", 517)
QWEN_7B = {
    "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 32768, "tie_word_embeddings": False,
    "use_sliding_window": False, "sliding_window": 131072,
}  # fmt: skip


def ernie(dtype: str = "bfloat16") -> Footprint:
    """ERNIE-4.5-0.3B."""
    return footprint.of_config(ERNIE, dtype)


def planned(name: str, card: Card | None = None, window: int = 4096, **changes: Any) -> MemoryPlan:
    """ERNIE under a profile."""
    profile = replace(PROFILES[name], **changes)
    return plan(ernie(profile.dtype), profile, window, card)


class TestAgainstVllm:
    def test_h200(self) -> None:
        """Within 3% of what vLLM 0.25.1 reported: 124.69 GiB, 7,263,584 tokens, 1,773 full chats."""
        found = planned("h200", H200, max_concurrent=256)
        assert found.weights == 721_496_064
        assert found.pool / GIB == pytest.approx(124.69, rel=0.03)
        assert found.tokens == pytest.approx(7_263_584, rel=0.03)
        assert int(found.chats) == pytest.approx(1773, rel=0.03)
        assert found.refusals == found.warnings == ()
        assert "可同时容纳 1,7" in found.words.zh

    def test_the_pool_of_the_h200_to_the_token(self) -> None:
        """From the pool on there is nothing to estimate: 133,882,380,288 B are exactly 7,263,584 tokens."""
        model, pool = ernie(), 133_882_380_288
        found = plan(model, replace(PROFILES["h200"], gpu_memory_utilization=0.0), 4096, H200)
        share = (pool + model.weight_bytes + found.overhead + 1) / found.total
        assert plan(model, replace(PROFILES["h200"], gpu_memory_utilization=share), 4096, H200).tokens == 7_263_584

    @pytest.mark.parametrize("shape", ["ernie", "qwen2", "gemma3"])
    def test_cpu_log(self, shape: str, tiny_model: Path, tmp_path: Path) -> None:
        """Three architectures, loaded for real on the CPU: KV tokens and full chats as in vLLM's log, within 3%.

        They differ in heads for keys and values, head size, padding of the vocabulary, and sliding layers.
        """
        configs = {"qwen2": QWEN_2, "gemma3": GEMMA_3}
        folder = make_model(tmp_path / shape, configs[shape], tiny_model) if shape in configs else tiny_model
        said = subprocess.run(
            [sys.executable, "-m", "tests.engine.vllm_log", str(folder), "4096", str(tmp_path / "records")],
            cwd=ROOT, env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "INFO"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, timeout=300,
        ).stdout  # fmt: skip
        tokens = re.search(r"KV cache size: ([\d,]+) tokens", said)
        chats = re.search(r"Maximum concurrency for 4,096 tokens per request: ([\d.]+)x", said)
        assert tokens
        assert chats
        forecast = plan(footprint.of_folder(folder, "bfloat16"), replace(PROFILES["cpu"], kv_cache_gib=1), 4096)
        assert forecast.tokens == pytest.approx(int(tokens[1].replace(",", "")), rel=0.03)
        assert forecast.chats == pytest.approx(float(chats[1]), rel=0.03)
        assert f"= {forecast.tokens:,} 词元" in said, "the start says beforehand what vLLM then has"


class TestWeights:
    SMALL: dict[str, Any] = {
        "vocab_size": 1024, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }  # fmt: skip

    @pytest.mark.parametrize(
        ("family", "more"),
        [
            ("Ernie4_5Config", {"head_dim": 32}),
            ("Ernie4_5Config", {"use_bias": True}),
            ("LlamaConfig", {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True}),
            ("MistralConfig", {"head_dim": 32, "tie_word_embeddings": False}),
            ("Qwen2Config", {"tie_word_embeddings": True}),
            ("Qwen3Config", {"head_dim": 32}),
            ("MixtralConfig", {"num_local_experts": 4}),
            ("Qwen2MoeConfig", {"num_experts": 8, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 80}),
            ("Qwen3MoeConfig", {"num_experts": 8, "moe_intermediate_size": 48, "decoder_sparse_step": 2, "mlp_only_layers": [3]}),
            ("Ernie4_5_MoeConfig", {"moe_num_experts": 8, "moe_intermediate_size": 48, "moe_num_shared_experts": 2,
                                    "moe_layer_start_index": 1}),
        ],
    )  # fmt: skip
    def test_from_the_config_alone(self, family: str, more: dict[str, Any]) -> None:
        """Dense and mixtures of experts, tied and untied: as many parameters as transformers' own model has."""
        config = getattr(transformers, family)(**self.SMALL | more)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        found = footprint.of_config(config.to_dict(), "bfloat16")
        assert found.exact
        assert found.weight_bytes == 2 * sum(parameter.numel() for parameter in model.parameters())

    def test_from_the_headers(self, tiny_model: Path) -> None:
        """Untied: both matrices, in the type of the profile, with the rows that vLLM pads the vocabulary to 64 with."""
        model = AutoModelForCausalLM.from_pretrained(tiny_model)
        padding = -model.config.vocab_size % 64 * model.config.hidden_size * 2
        parameters = sum(parameter.numel() for parameter in model.parameters()) + padding
        assert footprint.of_folder(tiny_model, "bfloat16").weight_bytes == 2 * parameters
        assert footprint.of_folder(tiny_model, "float32").weight_bytes == 4 * parameters

    def test_a_tied_copy_counts_once(self, tiny_model: Path, tmp_path: Path) -> None:
        """A checkpoint that stores the output matrix of a tied model too: vLLM does not load it."""
        from safetensors.torch import load_file, save_file

        folder = make_model(tmp_path / "qwen2", QWEN_2, tiny_model)
        alone = footprint.of_folder(folder, "bfloat16")
        tensors = load_file(folder / "model.safetensors")
        save_file(
            tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, folder / "model.safetensors"
        )
        assert footprint.of_folder(folder, "bfloat16") == alone

    def test_the_index_decides(self, tiny_model: Path, tmp_path: Path) -> None:
        """Files that the index does not name are another copy."""
        folder = make_model(tmp_path / "qwen2", QWEN_2, tiny_model)
        alone = footprint.of_folder(folder, "bfloat16")
        (folder / "consolidated.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model.safetensors"}}')
        assert footprint.of_folder(folder, "bfloat16") == alone

    def test_a_broken_header_leaves_the_config(self, tiny_model: Path, tmp_path: Path) -> None:
        """Whoever loads the file says what is wrong with it; the forecast goes by the config."""
        folder = make_model(tmp_path / "qwen2", QWEN_2, tiny_model)
        before = footprint.of_folder(folder, "bfloat16")
        (folder / "model.safetensors").write_bytes(b"\xff" * 4096)
        assert footprint.of_folder(folder, "bfloat16").weight_bytes == before.weight_bytes


class TestKeysAndValues:
    def test_ernie(self) -> None:
        """18 KiB a token; half of that where the checkpoint asks for 8 bits."""
        assert ernie().kv_bytes_a_token == 18_432
        scheme = {"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}}
        assert footprint.of_config(ERNIE | scheme, "bfloat16", 1).kv_bytes_a_token == 9_216
        algorithm = {"quantization_config": {"kv_cache_quant_algo": "FP8"}}
        assert footprint.of_config(ERNIE | algorithm, "bfloat16", 1).kv_bytes_a_token == 9_216

    @pytest.mark.parametrize(
        ("change", "windows"),
        [
            ({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64}, (64, None)),
            ({"sliding_window": 64}, (64, 64)),
            ({"sliding_window": 64, "use_sliding_window": False}, (None, None)),
            ({"sliding_window": 64, "model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 1}, (None, 64)),
            ({"sliding_window": 64, "model_type": "gemma2"}, (64, None)),
            ({"sliding_window": 64, "model_type": "gemma3_text", "sliding_window_pattern": 2}, (64, None)),
            ({"sliding_window": None}, (None, None)),
            ({"sliding_window": 0}, (None, None)),
        ],
    )  # fmt: skip
    def test_sliding_windows(self, change: dict[str, Any], windows: tuple[int | None, ...]) -> None:
        """By layer_types, or by the rule of a family from before there were any."""
        assert footprint.of_config(ERNIE | {"num_hidden_layers": 2, **change}, "bfloat16").windows == windows

    @pytest.mark.parametrize(
        "change",
        [{"kv_lora_rank": 512}, {"state_size": 16}, {"layer_types": ["linear_attention"] * 18}, {"is_encoder_decoder": True},
         {"num_hidden_layers": "18"}, {"num_hidden_layers": -1}, {"hidden_size": None}, {"num_key_value_heads": [2, 4]},
         {"vocab_size": True}],
    )  # fmt: skip
    def test_what_cannot_be_computed(self, change: dict[str, Any]) -> None:
        """MLA, Mamba and the like, and values that are none, are said to be so, not computed wrongly."""
        with pytest.raises(Unforeseeable) as passing:
            footprint.of_config(ERNIE | change, "bfloat16")
        assert passing.value.words.zh
        assert passing.value.words.en

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"3", b"[" * 100_000])
    def test_an_odd_config(self, tmp_path: Path, content: bytes) -> None:
        """One sentence that names the file."""
        (tmp_path / "config.json").write_bytes(content)
        with pytest.raises(WeightsError, match=r"config\.json"):
            footprint.of_folder(tmp_path, "bfloat16")

    def test_no_config(self, tmp_path: Path) -> None:
        """A folder without one."""
        with pytest.raises(WeightsError, match="ENGINE_MODEL"):
            footprint.of_folder(tmp_path, "bfloat16")


class TestRefusals:
    def test_every_shipped_profile_works(self) -> None:
        """ERNIE fits everywhere, with room for all the answers that the profile lets run."""
        for name in PROFILES:
            found = planned(name)
            assert (found.refusals, found.warnings) == ((), ())
            assert found.chats > found.profile.max_concurrent

    @pytest.mark.parametrize("capability", [(7, 0), (7, 5)])
    def test_bf16_where_there_is_none(self, capability: tuple[int, int]) -> None:
        """A V100 or a T4 under a bf16 profile."""
        (words,) = planned("a10", Card("Tesla", 23028, 22511, capability, "580")).refusals
        assert "bf16" in words.zh
        assert "ENGINE_PROFILE=auto" in words.zh

    def test_half_is_taken(self) -> None:
        """E14: free and needed GiB, and a utilisation that would fit; with it, it does."""
        card = replace(A10, free_mib=11_000)
        found = planned("a10", card)
        (words,) = found.refusals
        assert "显存空闲 10.7 GiB，配置 a10 需要 20.3 GiB" in words.zh
        assert found.waits_for_memory
        share = re.search(r"ENGINE_GPU_UTILIZATION=(0\.\d+)", words.zh)
        assert share
        assert share[1] in words.en
        fitting = planned("a10", card, gpu_memory_utilization=float(share[1]))
        assert (fitting.refusals, fitting.warnings) == ((), ())
        tight = planned("a10", card, gpu_memory_utilization=float(share[1]) + 0.01)
        assert tight.refusals or tight.warnings

    def test_a_share_that_was_too_much(self) -> None:
        """On an H200 with 69.3 GiB free vLLM took its share of 0.49, and had no memory left for the graphs."""
        (words,) = planned("h200", replace(H200, free_mib=70_949), max_concurrent=256).refusals
        assert "ENGINE_GPU_UTILIZATION=0.48" in words.zh

    def test_between_the_share_and_all_that_is_taken(self) -> None:
        """vLLM would start and may lack memory later: a warning with the share that is safe, and with it none."""
        model, profile = footprint.of_config(QWEN_7B, "bfloat16"), replace(PROFILES["a10"], max_concurrent=256)
        found = plan(model, profile, 4096, A10)
        assert found.refusals == ()
        (words,) = (words for words in found.warnings if "占用比例" in words.zh)
        share = re.search(r"ENGINE_GPU_UTILIZATION=(0\.\d+)", words.zh)
        assert share
        assert share[0] in words.en
        safe = plan(model, replace(profile, gpu_memory_utilization=float(share[1])), 4096, A10)
        assert safe.refusals == ()
        assert not any("占用比例" in words.zh for words in safe.warnings)

    def test_nothing_to_close(self) -> None:
        """On an idle card the share alone is too high: no programs are spoken of."""
        (words,) = planned("a10", A10, gpu_memory_utilization=0.99).refusals
        assert "nvidia-smi" not in words.zh + words.en
        share = re.search(r"ENGINE_GPU_UTILIZATION=(0\.\d+)", words.zh)
        assert share
        assert planned("a10", A10, gpu_memory_utilization=float(share[1])).refusals == ()

    @pytest.mark.parametrize(
        ("card", "starts_beside_a_desktop"),
        [
            (A10, True), (H200, True),
            (Card("Tesla T4", 15360, 15095, (7, 5), "580", 265), True),
            (Card("Tesla V100-SXM2-16GB", 16384, 16144, (7, 0), "550", 240), True),
            (Card("NVIDIA L4", 23034, 22565, (8, 9), "580", 469), True),
            (Card("NVIDIA GeForce RTX 3050", 8192, 7977, (8, 6), "580", 215), True),
            (Card("NVIDIA GeForce RTX 3060", 12288, 12042, (8, 6), "580", 246), True),
            (Card("NVIDIA GeForce RTX 4090", 24564, 24080, (8, 9), "580", 484), True),
            (Card("NVIDIA GeForce GTX 1650", 4096, 3904, (7, 5), "580", 192), False),
            (Card("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864, 4851, (8, 0), "580", 0), False),
        ],
        ids=lambda value: value.name if isinstance(value, Card) else "",
    )  # fmt: skip
    def test_no_card_is_refused_that_vllm_would_take(self, card: Card, starts_beside_a_desktop: bool) -> None:
        """ERNIE as derived for the card: idle, with nothing to say; beside 500 MiB of a desktop, where vLLM's own
        condition (a free memory of its share) holds."""
        profile = choose("auto", card).profile
        idle = plan(ernie(profile.dtype), profile, 4096, card)
        assert (idle.refusals, idle.warnings) == ((), ())
        free = card.free_mib - 500
        assert (free >= profile.gpu_memory_utilization * card.usable_mib) is starts_beside_a_desktop
        beside = plan(ernie(profile.dtype), profile, 4096, replace(card, free_mib=free))
        assert (beside.refusals == ()) is starts_beside_a_desktop
        said = [words.zh for words in (*beside.refusals, *beside.warnings)]
        assert all("ENGINE_GPU_UTILIZATION=" in words for words in said)

    def test_nearly_all_is_taken(self) -> None:
        """Where no utilisation would do, how much has to be freed."""
        (words,) = planned("a10", replace(A10, free_mib=800)).refusals
        assert "ENGINE_GPU_UTILIZATION" not in words.zh
        lacking = re.search(r"至少腾出 ([\d.]+) GiB", words.zh)
        assert lacking
        freed = replace(A10, free_mib=800 + int((float(lacking[1]) + 0.3) * 1024))
        assert "ENGINE_GPU_UTILIZATION" in planned("a10", freed).refusals[0].zh

    def test_a_pool_below_one_window(self) -> None:
        """E15: refused with the window and the utilisation that would fit; each of them does."""
        model = footprint.of_config(QWEN_7B, "bfloat16")
        profile = replace(PROFILES["a10"], gpu_memory_utilization=0.7)
        found = plan(model, profile, 32768, A10)
        (words,) = found.refusals
        assert not found.waits_for_memory
        window, share = re.search(r"MODEL_LEN=(\d+)", words.zh), re.search(r"UTILIZATION=([\d.]+)", words.zh)
        assert window
        assert share
        assert plan(model, profile, int(window[1]), A10).refusals == ()
        assert plan(model, profile, int(window[1]) + 256, A10).refusals
        assert plan(model, replace(profile, gpu_memory_utilization=float(share[1])), 32768, A10).refusals == ()

    def test_4096_in_a_small_slice(self) -> None:
        """E15 with ERNIE: a share that leaves less than 72 MiB of KV cache."""
        found = planned("a10", A10, gpu_memory_utilization=0.04)
        assert found.refusals
        assert "4096" in found.refusals[0].zh
        assert "ENGINE_GPU_UTILIZATION=0.05" in found.refusals[0].zh

    def test_a_model_that_is_too_large(self) -> None:
        """No window and no share would do: another model."""
        found = plan(footprint.of_config(QWEN_7B, "half"), PROFILES["t4"], 4096)
        assert (found.pool, found.tokens) == (0, 0)
        assert "换小一些的模型" in found.refusals[0].zh
        assert "14.19 GiB" in found.refusals[0].zh

    def test_a_window_beyond_the_models(self) -> None:
        """The longest is named; scaled positions are left to vLLM."""
        model = footprint.of_config(QWEN_7B, "bfloat16")
        assert "ENGINE_MAX_MODEL_LEN=32768" in plan(model, PROFILES["h200"], 40_000).refusals[0].zh
        scaled = footprint.of_config(QWEN_7B | {"rope_scaling": {"type": "yarn", "factor": 4.0}}, "bfloat16")
        assert plan(scaled, PROFILES["h200"], 40_000).refusals == ()

    def test_more_answers_than_the_pool_holds(self) -> None:
        """A warning with the number that would be safe, and with it none."""
        model = footprint.of_config(QWEN_7B, "bfloat16")
        found = plan(model, PROFILES["a10"], 4096, A10)
        (words,) = found.warnings
        assert found.refusals == ()
        safe = re.search(r"ENGINE_MAX_CONCURRENT=(\d+)", words.zh)
        assert safe
        assert plan(model, replace(PROFILES["a10"], max_concurrent=int(safe[1])), 4096, A10).warnings == ()
        assert "KV 缓存" in found.limit.zh

    def test_cpu_without_the_memory(self) -> None:
        """Weights and KV space beyond what is available are refused, a little beyond is warned of, with the numbers."""
        profile, model = PROFILES["cpu"], ernie()
        short = plan(model, profile, 4096, memory=(8 * GIB, 2 * GIB))
        assert "VLLM_CPU_KVCACHE_SPACE=1" in short.refusals[0].zh
        assert "可用内存 2.0 GiB，引擎约需 2.7 GiB" in short.refusals[0].zh
        assert short.waits_for_memory
        tight = plan(model, profile, 4096, memory=(8 * GIB, 3 * GIB))
        assert tight.refusals == ()
        assert "可用内存 3.0 GiB" in tight.warnings[0].zh
        assert plan(model, profile, 4096, memory=(8 * GIB, 6 * GIB)).warnings == ()

    def test_cpu_with_too_small_a_kv_space(self) -> None:
        """The GiB and the window that would do."""
        model = footprint.of_config(QWEN_7B, "bfloat16")
        (words,) = plan(model, replace(PROFILES["cpu"], kv_cache_gib=1), 32768, memory=(64 * GIB, 60 * GIB)).refusals
        assert "VLLM_CPU_KVCACHE_SPACE=2" in words.zh
        assert "ENGINE_MAX_MODEL_LEN=18688" in words.zh

    def test_bandwidth_may_be_the_first_limit(self) -> None:
        """A slow memory and many long chats: each answer would be slower than its reader."""
        found = planned("a10", A10, max_concurrent=2000, bandwidth_gb_s=50.0)
        assert re.search(r"显存带宽，[1-9]\d* 个满对话起", found.limit.zh)

    def test_even_one_answer_is_slow(self) -> None:
        """Where the weights alone are more than a step's bandwidth no number of chats is given."""
        model = footprint.of_config(QWEN_7B, "bfloat16")
        found = plan(model, replace(PROFILES["a10"], bandwidth_gb_s=200.0), 4096, A10)
        assert found.limit.zh == "显存带宽，单个对话也慢于 20 词元/秒"
        assert "single chat" in found.limit.en

    def test_a_sliding_layer_reads_its_window_only(self) -> None:
        """As many keys and values as it keeps: the same bandwidth carries more chats."""
        profile = replace(PROFILES["a10"], bandwidth_gb_s=50.0, max_concurrent=2000)
        sliding = replace(ernie(), windows=(512,) * 18)
        counts = []
        for model in (ernie(), sliding):
            found = re.search(r"显存带宽，(\d+)", plan(model, profile, 4096, A10).limit.zh)
            assert found
            counts.append(int(found[1]))
        assert counts[1] == pytest.approx(8 * counts[0], rel=0.1)
