"""Profiles as data, and which one a card gets."""

import re

import pytest

from engine.errors import ConfigurationError
from engine.hardware import Card, detect_card
from engine.preflight import unfit
from engine.profiles import Profile, choose, load_profiles, match

PROFILES = load_profiles()


def card(name: str = "NVIDIA A10", memory_mib: int = 23028, capability: tuple[int, int] = (8, 6)) -> Card:
    """A card as the driver tells of it."""
    return Card(name, memory_mib, memory_mib, capability, "580.95")


def test_the_five_profiles_are_there() -> None:
    """The names that .env and scripts rely on."""
    assert list(PROFILES) == ["a10", "a100-40g", "v100-32g", "h200", "cpu"]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_every_value_has_its_reason(profile: Profile) -> None:
    """Each value says why, and whether it was published, derived or measured."""
    explained = {
        "memory_gib",
        "capability",
        "dtype",
        "gpu_memory_utilization",
        "max_concurrent",
        "max_queued",
        "enforce_eager",
    }
    optional = {"kv_cache_gib", "attention_backend", "last_vllm"}
    assert set(profile.reasons) == explained | {name for name in optional if getattr(profile, name) is not None}
    assert all(re.search("published|derived|measured", reason) for reason in profile.reasons.values())


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_graphs_on_gpus_eager_on_the_cpu(profile: Profile) -> None:
    """CUDA graphs by default on every card; and half only where bf16 is missing."""
    assert profile.enforce_eager is not profile.on_gpu
    assert profile.dtype == ("half" if profile.name == "v100-32g" else "bfloat16")


@pytest.mark.parametrize(
    ("name", "memory_mib", "capability", "profile"),
    [
        ("NVIDIA A10", 23028, (8, 6), "a10"),
        ("NVIDIA A10G", 23028, (8, 6), "a10"),
        ("NVIDIA A100-PCIE-40GB", 40960, (8, 0), "a100-40g"),
        ("NVIDIA A100-SXM4-40GB", 40960, (8, 0), "a100-40g"),
        ("Tesla V100-SXM2-32GB", 32510, (7, 0), "v100-32g"),
        ("NVIDIA H200", 143771, (9, 0), "h200"),
    ],
)
def test_a_known_card_gets_its_own_profile(
    name: str, memory_mib: int, capability: tuple[int, int], profile: str
) -> None:
    """The profile is unchanged, and the reason names the card."""
    choice = match(name, memory_mib, capability, PROFILES)
    assert choice.profile == PROFILES[profile]
    assert name in choice.reason.zh
    assert name in choice.reason.en


@pytest.mark.parametrize(
    ("name", "memory_mib", "capability", "near", "dtype", "concurrent"),
    [
        ("NVIDIA A100 80GB PCIe", 81920, (8, 0), "a100-40g", "bfloat16", 32),
        ("NVIDIA GeForce RTX 4090", 24564, (8, 9), "a10", "bfloat16", 16),
        ("NVIDIA GeForce RTX 3060", 12288, (8, 6), "a10", "bfloat16", 8),
        ("Tesla V100-PCIE-16GB", 16384, (7, 0), "v100-32g", "half", 6),
        ("Tesla T4", 15360, (7, 5), "v100-32g", "half", 5),
    ],
)
def test_an_unknown_card_gets_a_derived_one(
    name: str, memory_mib: int, capability: tuple[int, int], near: str, dtype: str, concurrent: int
) -> None:
    """The nearest of the same number format, scaled down with the memory, and the reason says that it is derived."""
    choice = match(name, memory_mib, capability, PROFILES)
    assert (choice.profile.name, choice.profile.dtype, choice.profile.max_concurrent) == (near, dtype, concurrent)
    assert "推导" in choice.reason.zh
    assert "derived" in choice.reason.en


def test_a_card_older_than_vllm_is_refused() -> None:
    """Pascal is refused by name, with the CPU as the way out."""
    with pytest.raises(ConfigurationError, match=r"P40.*ENGINE_PROFILE=cpu"):
        match("Tesla P40", 24576, (6, 1), PROFILES)


def test_auto_without_a_card_is_the_cpu() -> None:
    """No card: the CPU, and the reason says so."""
    choice = choose("auto", None)
    assert choice.profile.name == "cpu"
    assert "没有检测到" in choice.reason.zh


def test_a_name_is_taken_as_it_is() -> None:
    """Someone may run a card under another's profile."""
    assert choose("a100-40g", card()).profile == PROFILES["a100-40g"]
    assert choose("cpu", card()).profile == PROFILES["cpu"]


def test_an_unknown_name_lists_the_known() -> None:
    """The refusal names every profile."""
    with pytest.raises(ConfigurationError) as refusal:
        choose("a11", card())
    assert all(name in refusal.value.words.zh and name in refusal.value.words.en for name in ["auto", *PROFILES])


@pytest.mark.parametrize("found", [None, card("Tesla V100-SXM2-32GB", 32510, (7, 0))])
def test_a_profile_that_cannot_run_here_is_refused(found: Card | None) -> None:
    """A GPU profile without a card, and a bf16 profile on a card without bf16."""
    with pytest.raises(ConfigurationError, match="ENGINE_PROFILE=auto"):
        choose("a10", found)


@pytest.mark.parametrize(
    ("profile", "version", "is_cpu_build", "says"),
    [
        ("v100-32g", "0.29.0", False, "0.19.1"),
        ("v100-32g", "0.20.0", False, "0.19.1"),
        ("v100-32g", "0.19.1", False, None),
        ("v100-32g", "0.10.1.1", False, None),
        ("a10", "0.29.0", False, None),
        ("a10", "0.29.0", True, "requirements.txt"),
        ("cpu", "0.29.0", True, None),
        ("cpu", "0.29.0", False, "requirements-cpu.txt"),
    ],
)
def test_preflight(profile: str, version: str, is_cpu_build: bool, says: str | None) -> None:
    """What is installed is held against the profile, and a refusal names the remedy."""
    refusal = unfit(PROFILES[profile], version, is_cpu_build)
    assert (refusal is None) if says is None else (refusal is not None and says in refusal.zh and says in refusal.en)


def test_a_derived_turing_card_runs_todays_vllm() -> None:
    """The V100's last release is the V100's, not that of every card without bf16."""
    assert unfit(match("Tesla T4", 15360, (7, 5), PROFILES).profile, "0.29.0", False) is None
    assert unfit(match("Tesla V100-PCIE-16GB", 16384, (7, 0), PROFILES).profile, "0.29.0", False) is not None


def test_hidden_cards_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA_VISIBLE_DEVICES="" hides every card, as it does from CUDA."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert detect_card() is None
