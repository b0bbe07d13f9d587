"""Before every load: can the vLLM that is installed run this profile, and will the model fit into what is free now?

Told from metadata, file headers and the driver: nothing heavy is imported, nothing is allocated.
"""

import importlib.metadata
import importlib.util
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from engine import driver, footprint
from engine.config_values import Unforeseeable
from engine.errors import ConfigurationError
from engine.hardware import Card, detect_card
from engine.installed import server_python
from engine.planner import MemoryPlan, plan
from engine.profiles import Profile
from engine.words import Words

KV_SPACE = "VLLM_CPU_KVCACHE_SPACE"
PATIENCE_S = 6.0
"""The driver tells of freed memory a moment after the process that held it has ended."""
POLL_S = 0.25

MISSING = Words(
    "没有安装 vLLM：请运行 make install，或设 ENGINE_BASE_URL 使用别处的服务。",
    "vLLM is not installed: run make install, or set ENGINE_BASE_URL to use a server elsewhere.",
)
APART = Words(
    "这张显卡的 vLLM 装在 .venv-server，只能作为服务运行：请在另一个终端运行 make serve，"
    "并在 .env 里写 ENGINE_BASE_URL=http://127.0.0.1:8001/v1。",
    "This card's vLLM is in .venv-server and runs as a server: run make serve in another terminal and set "
    "ENGINE_BASE_URL=http://127.0.0.1:8001/v1 in .env.",
)


def preflight(profile: Profile) -> None:
    """Refuse, before anything is imported, what cannot work. Raises ConfigurationError."""
    if importlib.util.find_spec("vllm") is None:
        raise ConfigurationError(APART if server_python() else MISSING)
    version, is_cpu_build = installed_vllm()
    refusal = unfit(profile, version, is_cpu_build)
    if refusal is None and profile.on_gpu and (card := detect_card()):
        refusal = unfit_driver(card, version)
    if refusal:
        raise ConfigurationError(refusal)


def foresee(folder: Path, profile: Profile, window: int, card: Card | None) -> MemoryPlan:
    """The planner's forecast for the model in `folder` on this machine, now; `card` is None without one.

    Raises WeightsError for an odd config.json, Unforeseeable for an architecture that the planner does not know.
    """
    memory = psutil.virtual_memory()
    own = replace(profile, kv_cache_gib=kv_space(profile))
    return plan(footprint.of_folder(folder, profile.dtype), own, window, card, (memory.total, memory.available))


def obstacles(folder: Path, profile: Profile, window: int, card: Card | None) -> Sequence[Words]:
    """What keeps the model from fitting here, now; empty where it fits or cannot be foreseen. Raises WeightsError."""
    try:
        return foresee(folder, profile, window, card).refusals
    except Unforeseeable:
        return ()


def refuse_what_never_fits(folder: Path, profile: Profile, window: int, card: Card | None) -> None:
    """Raises ConfigurationError for what would not fit into all of the memory either, and so needs no trying."""
    with suppress(Unforeseeable):
        forecast = foresee(folder, profile, window, card)
        if forecast.refusals and not forecast.waits_for_memory:
            raise ConfigurationError(forecast.refusals[0])


def require_room(folder: Path, profile: Profile, window: int, patience_s: float = PATIENCE_S) -> Sequence[Words]:
    """What the machine will carry, and warnings. Blocks up to `patience_s` for memory that is being freed.

    Raises ConfigurationError with the first refusal.
    """
    deadline = time.monotonic() + patience_s
    try:
        while (forecast := foresee(folder, profile, window, detect_card())).refusals:
            if not forecast.waits_for_memory or time.monotonic() > deadline:
                raise ConfigurationError(forecast.refusals[0])
            time.sleep(POLL_S)
    except Unforeseeable as error:
        return [Words(f"无法预估：{error.words.zh}", f"No forecast: {error.words.en}")]
    return [forecast.words, *forecast.warnings]


def kv_space(profile: Profile) -> int | None:
    """GiB of KV cache on the CPU: vLLM's own variable, where it is set, overrides the profile's.

    Raises ConfigurationError where it is no whole number.
    """
    given = os.environ.get(KV_SPACE, "").strip()
    if profile.on_gpu or not given:
        return profile.kv_cache_gib
    if not given.isdecimal() or int(given) == 0:
        raise ConfigurationError(
            Words(f"环境变量 {KV_SPACE}={given} 不可用：应是大于 0 的整数，单位 GiB。",
                  f"{KV_SPACE}={given} cannot be used: it takes whole GiB.")
        )  # fmt: skip
    return int(given)


def installed_vllm() -> tuple[str, bool]:
    """vLLM's version, and whether it is a CPU build; an empty version for a source tree without metadata."""
    for name in ("vllm", "vllm-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(name)
            return version, name == "vllm-cpu" or "+cpu" in version
    return "", False


def unfit(profile: Profile, version: str, is_cpu_build: bool) -> Words | None:
    """Why this vLLM cannot run this profile, and what would; None where it can."""
    if (
        profile.last_vllm
        and profile.capability < driver.TODAYS_CAPABILITY
        and _number(version) > _number(profile.last_vllm)
    ):
        return Words(
            f"{profile.title} 最后能用的 vLLM 是 {profile.last_vllm}（dtype half），已安装的是 {version}。请运行 make install KIND=auto："
            f"它把 vLLM {driver.VLLM[driver.V100]}（requirements-v100.txt）装进单独的环境；再用 make serve 启动服务，并设 ENGINE_BASE_URL。",
            f"The last vLLM for {profile.title} is {profile.last_vllm} (dtype half); {version} is installed. Run make install "
            f"KIND=auto, which puts vLLM {driver.VLLM[driver.V100]} (requirements-v100.txt) into an environment of its own, then make "
            "serve, and set ENGINE_BASE_URL.",
        )
    if profile.on_gpu and is_cpu_build:
        return Words(
            f"配置 {profile.name} 需要显卡版 vLLM，已安装的是 CPU 版。请运行 make install KIND=auto，或设 ENGINE_PROFILE=cpu。",
            f"Profile {profile.name} needs vLLM's GPU build; the CPU build is installed. "
            "Run make install KIND=auto, or set ENGINE_PROFILE=cpu.",
        )
    if not profile.on_gpu and version and not is_cpu_build:
        return Words(
            "CPU 配置需要 CPU 版 vLLM，已安装的是显卡版。请运行 make install KIND=cpu，或设 ENGINE_PROFILE=auto。",
            "The CPU profile needs vLLM's CPU build; the GPU build is installed. "
            "Run make install KIND=cpu, or set ENGINE_PROFILE=auto.",
        )
    return None


def unfit_driver(card: Card, version: str) -> Words | None:
    """Why this vLLM, a build for cards, cannot run on the card's driver, and what would; None where it can."""
    if not version:
        return None
    build, needed = build_for(card), driver.oldest_driver(version)
    if build.kind is None:
        return build.reason
    if driver.branch(card.driver) >= needed:
        return None
    return Words(
        f"驱动 {card.driver} 太旧：已安装的 vLLM {version} 需要 {needed} 或更新。请升级显卡驱动到 {needed}；"
        f"或运行 make install，改装 CUDA 12 版（vLLM {driver.VLLM[driver.CUDA_12]}）。",
        f"Driver {card.driver} is too old: vLLM {version}, which is installed, needs {needed} or newer. Upgrade it "
        f"to {needed}, or run make install for the CUDA 12 build (vLLM {driver.VLLM[driver.CUDA_12]}).",
    )


def build_for(card: Card) -> driver.Build:
    """What `make install` would take for the card."""
    return driver.build_for(driver.Seen(card.name, card.driver, card.capability))


def _number(version: str) -> tuple[int, ...]:
    """`0.19.1+cu128` as (0, 19, 1)."""
    return tuple(int(part) for part in version.split("+")[0].split(".")[:3] if part.isdecimal())
