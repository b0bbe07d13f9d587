"""What a vLLM process is started with: options and environment, the same in this process and in `make serve`."""

import os
from pathlib import Path

from engine.hardware import card_to_choose
from engine.profiles import Profile

FEW_CORES = 4
"""Up to here all cores compute: vLLM keeps one for serving, which on two cores costs 40% of the tokens/s of 8 chats."""


def vllm_options(model: Path | str, name: str, profile: Profile, window: int) -> dict[str, str | int | float | bool]:
    """vLLM's engine arguments by their Python names; on the command line each is `--` and the name with dashes."""
    options: dict[str, str | int | float | bool] = {
        "model": str(model),
        "served_model_name": name,
        "max_model_len": window,
        "dtype": profile.dtype,
        "max_num_seqs": profile.max_concurrent,
        "enforce_eager": profile.enforce_eager,
    }
    if profile.on_gpu:
        options["gpu_memory_utilization"] = profile.gpu_memory_utilization
    if profile.attention_backend:
        options["attention_backend"] = profile.attention_backend
    return options


def vllm_environment(profile: Profile, is_local: bool) -> dict[str, str]:
    """Environment variables, each of which the user's own setting overrides; `is_local`: the weights are on disk."""
    environment = {
        # A forked EngineCore inherits the app's listening socket, and dies under torch.compile next to Chainlit.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
    }
    if profile.on_gpu:
        environment |= _card()
    if is_local:
        environment["HF_HUB_OFFLINE"] = "1"
    if profile.kv_cache_gib is not None:
        environment["VLLM_CPU_KVCACHE_SPACE"] = str(profile.kv_cache_gib)
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) <= FEW_CORES:
            environment["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores))
    return environment


def _card() -> dict[str, str]:
    """Cards are numbered as the driver and nvidia-smi do, where CUDA would begin with the fastest; which of several.

    By number, since vLLM 0.10 takes no UUIDs.
    """
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID") != "PCI_BUS_ID":
        return order  # the user's own order stays, and our number would be another card's
    number = card_to_choose()
    return order if number is None else order | {"CUDA_VISIBLE_DEVICES": str(number)}
