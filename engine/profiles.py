"""Profiles: what an engine is started with on each kind of card, read from profiles.toml, and which one fits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.driver import BF16_CAPABILITY, OLDEST_CAPABILITY, TODAYS_CAPABILITY
from engine.errors import ConfigurationError
from engine.hardware import Card
from engine.profile_tables import Source, Table, read_tables
from engine.words import Words

PROFILES = Path(__file__).with_name("profiles.toml")
CPU = "cpu"
MIB_A_GIB = 1024
MEMORY_SHARE = 0.9
"""A card shows a little less memory than its name says; below this share it is another card."""
QUEUED_PER_CONCURRENT = 2


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a value is what it is, and where that comes from."""

    text: str
    source: Source


@dataclass(frozen=True, slots=True)
class Profile:
    """How to run on one kind of card. `reasons` says, value by value, why, and where that comes from."""

    name: str
    title: str
    memory_gib: float
    capability: tuple[int, int]
    bandwidth_gb_s: float
    """Of the card's memory; 0 where it is not known."""
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
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    published: Mapping[str, str] = field(default_factory=dict)
    """What the two public write-ups recommend, kept beside ours."""
    derived_for: str | None = None
    """The card's name, where this was derived for one that has no profile of its own."""

    @property
    def on_gpu(self) -> bool:
        """Whether this profile needs a card."""
        return self.capability > (0, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """A profile, and why this one."""

    profile: Profile
    reason: Words


def load_profiles(own: Path | None = None) -> dict[str, Profile]:
    """All profiles by name: those of profiles.toml, and the user's own file over them.

    Raises ConfigurationError for a file that cannot be used.
    """
    return {name: _profile(name, table) for name, table in read_tables(PROFILES, own and own.expanduser()).items()}


def _profile(name: str, table: Table) -> Profile:
    told = table.told()
    return Profile(
        name=name, title=table.title, name_pattern=table.name_pattern, published=table.published,
        reasons={key: Reason(value.reason, value.source) for key, value in told.items()},
        **{key: value.value for key, value in told.items()},
    )  # fmt: skip


def choose(wanted: str, card: Card | None, own: Path | None = None) -> Choice:
    """The profile named `wanted`, or, for `auto`, the one that fits `card`; `own` is the user's file of profiles.

    Raises ConfigurationError for a name that is not there and for a profile that this machine cannot run.
    """
    profiles = load_profiles(own)
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
    """The nearest profile among those of the same generation (number format, vLLM release), fitted to the card."""
    near = _nearest(memory_gib, capability, profiles)
    concurrent = max(1, int(near.max_concurrent * min(1.0, memory_gib / near.memory_gib)))
    number = f"{capability[0]}.{capability[1]}"
    seen = Reason("驱动所报", "measured")
    scaled = Reason(f"由 {near.name} 的 {near.max_concurrent} 按显存比例推导，不超过它", "derived")
    profile = replace(
        near, name=f"auto:{near.name}", title=f"{name}（由 {near.name} 推导）", memory_gib=round(memory_gib, 1), capability=capability,
        max_concurrent=concurrent, max_queued=QUEUED_PER_CONCURRENT * concurrent, published={},
        bandwidth_gb_s=0, name_pattern=None, derived_for=name,
        reasons={**near.reasons, "memory_gib": seen, "capability": seen, "max_concurrent": scaled,
                 "bandwidth_gb_s": Reason("驱动不报，不猜", "derived"),
                 "max_queued": Reason(f"并发的 {QUEUED_PER_CONCURRENT} 倍", "derived")},
    )  # fmt: skip
    return Choice(
        profile,
        Words(f"没有为 {name}（{memory_gib:.0f} GiB，计算能力 {number}）准备的配置，由显存与计算能力最接近的 {near.name} 推导。",
              f"No profile for {name} ({memory_gib:.0f} GiB, capability {number}): derived from {near.name}, "
              "the nearest in memory and capability."),
    )  # fmt: skip


def _nearest(memory_gib: float, capability: tuple[int, int], profiles: Mapping[str, Profile]) -> Profile:
    """Of the same generation the largest that is no larger than the card, else the smallest; then by capability."""
    kin = [p for p in profiles.values() if p.on_gpu and _generation(p.capability) == _generation(capability)]
    fitting = [p for p in kin if p.memory_gib <= memory_gib / MEMORY_SHARE]
    memory = (max if fitting else min)(p.memory_gib for p in fitting or kin)

    def distance(profile: Profile) -> int:
        major, minor = profile.capability
        return abs(10 * (major - capability[0]) + minor - capability[1])

    return min((p for p in kin if p.memory_gib == memory), key=distance)


def _generation(capability: tuple[int, int]) -> tuple[bool, bool]:
    """Whether a card has bf16, and whether today's vLLM carries code for it."""
    return capability >= BF16_CAPABILITY, capability >= TODAYS_CAPABILITY
