"""Profiles: what an engine is started with on each kind of card, read from profiles.toml, and which one fits."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.errors import ConfigurationError
from engine.hardware import Card
from engine.words import Words

PROFILES = Path(__file__).with_name("profiles.toml")
CPU = "cpu"
MIB_A_GIB = 1024
MEMORY_SHARE = 0.9
"""A card shows a little less memory than its name says; below this share it is another card."""
BF16_CAPABILITY = (8, 0)
OLDEST_CAPABILITY = (7, 0)
TODAYS_CAPABILITY = (7, 5)
"""The oldest compute capability that vLLM 0.20 and newer carry code for."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How to run on one kind of card. `reasons` says, value by value, why, and where that comes from."""

    name: str
    title: str
    memory_gib: float
    capability: tuple[int, int]
    dtype: str
    gpu_memory_utilization: float
    max_concurrent: int
    max_queued: int
    enforce_eager: bool
    kv_cache_gib: int | None = None
    """CPU only: vLLM takes whole GiB."""
    attention_backend: str | None = None
    """None leaves the choice to vLLM."""
    last_vllm: str | None = None
    """The newest vLLM release that still runs on this card; None: today's does."""
    name_pattern: str | None = None
    """What the card's name looks like, as a regular expression."""
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def on_gpu(self) -> bool:
        """Whether this profile needs a card."""
        return self.capability > (0, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """A profile, and why this one."""

    profile: Profile
    reason: Words


def load_profiles() -> dict[str, Profile]:
    """All profiles of profiles.toml, by name."""
    with PROFILES.open("rb") as file:
        return {name: _profile(name, values) for name, values in tomllib.load(file).items()}


def _profile(name: str, values: dict[str, Any]) -> Profile:
    """One table of profiles.toml."""
    return Profile(name=name, **{**values, "capability": tuple(values["capability"])})


def choose(wanted: str, card: Card | None) -> Choice:
    """The profile named `wanted`, or, for `auto`, the one that fits `card`.

    Raises ConfigurationError for a name that is not there and for a profile that this machine cannot run.
    """
    profiles = load_profiles()
    if wanted == "auto":
        if card is None:
            return Choice(
                profiles[CPU], Words("没有检测到 NVIDIA 显卡，用 CPU。", "No NVIDIA card found: using the CPU.")
            )
        return match(card.name, card.memory_mib, card.capability, profiles)
    if wanted not in profiles:
        names = "、".join(["auto", *profiles])
        raise ConfigurationError(
            Words(f"没有名为 {wanted} 的显卡配置，可用的有：{names}。",
                  f"There is no profile {wanted}. There are: {names.replace('、', ', ')}.")
        )  # fmt: skip
    return _named(profiles[wanted], card)


def _named(profile: Profile, card: Card | None) -> Choice:
    """`profile`, as someone asked for it; refused where it cannot run."""
    if profile.on_gpu and card is None:
        raise ConfigurationError(
            Words(f"配置 {profile.name} 需要 NVIDIA 显卡，本机没有检测到。请设 ENGINE_PROFILE=auto 或 cpu。",
                  f"Profile {profile.name} needs an NVIDIA card and none was found. Set ENGINE_PROFILE=auto or cpu.")
        )  # fmt: skip
    if profile.on_gpu and card and profile.dtype == "bfloat16" and card.capability < BF16_CAPABILITY:
        raise ConfigurationError(
            Words(f"配置 {profile.name} 用 bf16，而 {card.name} 不支持（计算能力低于 8.0）。请设 ENGINE_PROFILE=auto。",
                  f"Profile {profile.name} uses bf16, which {card.name} (capability below 8.0) lacks. "
                  "Set ENGINE_PROFILE=auto.")
        )  # fmt: skip
    return Choice(profile, Words(f"按设置使用配置 {profile.name}。", f"Profile {profile.name}, as set."))


def match(name: str, memory_mib: int, capability: tuple[int, int], profiles: Mapping[str, Profile]) -> Choice:
    """The profile for a card: the one made for it, else one derived from the nearest.

    Raises ConfigurationError for a card older than vLLM ever ran on.
    """
    if capability < OLDEST_CAPABILITY:
        raise ConfigurationError(
            Words(f"{name} 太旧（计算能力 {capability[0]}.{capability[1]}，vLLM 需要 7.0）。请设 ENGINE_PROFILE=cpu。",
                  f"{name} is too old (capability {capability[0]}.{capability[1]}; vLLM needs 7.0). "
                  "Set ENGINE_PROFILE=cpu.")
        )  # fmt: skip
    for profile in profiles.values():
        if _made_for(profile, name, memory_mib, capability):
            return Choice(
                profile, Words(f"检测到 {name}，用配置 {profile.name}。", f"Found {name}: profile {profile.name}.")
            )
    return _derive(name, memory_mib / MIB_A_GIB, capability, profiles)


def _made_for(profile: Profile, name: str, memory_mib: int, capability: tuple[int, int]) -> bool:
    """Whether name, capability and memory are those of the profile's own card."""
    share = memory_mib / MIB_A_GIB / profile.memory_gib if profile.memory_gib else 0.0
    named = profile.name_pattern is not None and re.search(profile.name_pattern, name) is not None
    return named and profile.capability == capability and MEMORY_SHARE <= share <= 1 / MEMORY_SHARE


def _derive(name: str, memory_gib: float, capability: tuple[int, int], profiles: Mapping[str, Profile]) -> Choice:
    """The nearest profile in memory among those of the same number format, fitted to the card."""
    has_bf16 = capability >= BF16_CAPABILITY
    kin = [p for p in profiles.values() if p.on_gpu and (p.capability >= BF16_CAPABILITY) == has_bf16]
    fitting = [p for p in kin if p.memory_gib <= memory_gib / MEMORY_SHARE]
    near = max(fitting, key=lambda p: p.memory_gib) if fitting else min(kin, key=lambda p: p.memory_gib)
    share = min(1.0, memory_gib / near.memory_gib)
    concurrent = max(1, int(near.max_concurrent * share))
    profile = replace(
        near, memory_gib=memory_gib, capability=capability, max_concurrent=concurrent, max_queued=4 * concurrent,
        last_vllm=near.last_vllm if capability < TODAYS_CAPABILITY else None,
        reasons={**near.reasons, "max_concurrent": f"由 {near.name} 按显存比例推导（derived）"},
    )  # fmt: skip
    number = f"{capability[0]}.{capability[1]}"
    return Choice(
        profile,
        Words(f"没有为 {name}（{memory_gib:.0f} GiB，计算能力 {number}）准备的配置，由最接近的 {near.name} 推导。",
              f"No profile for {name} ({memory_gib:.0f} GiB, capability {number}): derived from {near.name}."),
    )  # fmt: skip
