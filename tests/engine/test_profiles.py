"""Profiles as data, and which one a card gets."""

from dataclasses import fields
from pathlib import Path

import pytest

from engine.errors import ConfigurationError
from engine.factory import planner
from engine.hardware import Card
from engine.preflight import unfit
from engine.profiles import Profile, choose, load_profiles, match
from engine.settings import Settings

PROFILES = load_profiles()


def card(name: str = "NVIDIA A10", memory_mib: int = 23028, capability: tuple[int, int] = (8, 6)) -> Card:
    """A card as the driver tells of it."""
    return Card(name, memory_mib, memory_mib, capability, "580.95")


def test_the_profiles_are_there() -> None:
    """The names that .env and scripts rely on."""
    names = "a10 a100-40g a100-80g v100-32g v100-16g t4 l4 l20 rtx-3090 rtx-4090 h20 h200 cpu"
    assert list(PROFILES) == names.split()


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_every_value_has_its_reason(profile: Profile) -> None:
    """Each value says why, and whether it was published, derived or measured; only what was run is measured."""
    untold = {"name", "title", "name_pattern", "reasons", "published", "derived_for"}
    values = {each.name for each in fields(profile) if getattr(profile, each.name) is not None} - untold
    assert set(profile.reasons) == values
    assert all(
        reason.text and reason.source in ("published", "derived", "measured") for reason in profile.reasons.values()
    )
    if profile.name not in ("h200", "cpu"):  # the two that were run
        assert "measured" not in {reason.source for reason in profile.reasons.values()}


@pytest.mark.parametrize(
    ("name", "concurrent", "utilization"),
    [("a10", "8–16（文章 A）；10，极限 15（文章 B）", "0.9（文章 A）；0.92（文章 B）"), ("a100-40g", "16–32（文章 A）", "0.9（文章 A）"),
     ("v100-32g", "4–12（文章 A）", "0.9（文章 A）")],
)  # fmt: skip
def test_published_recommendations_are_kept(name: str, concurrent: str, utilization: str) -> None:
    """What the write-ups recommend stands beside ours, and where ours differs the measured reason is given."""
    profile = PROFILES[name]
    assert profile.published["max_concurrent"] == concurrent
    assert profile.published["gpu_memory_utilization"] == utilization
    assert profile.published["max_tokens"].startswith("512")
    assert profile.published["block_size"].startswith("16")
    assert profile.published["enforce_eager"].startswith("true")
    assert not profile.enforce_eager
    assert "1.64" in profile.reasons["enforce_eager"].text
    assert "8.16" in profile.reasons["enforce_eager"].text


@pytest.mark.parametrize("profile", [p for p in PROFILES.values() if "按显存带宽" in p.reasons["max_concurrent"].text])
def test_derived_concurrency_is_the_arithmetic_it_claims(profile: Profile) -> None:
    """256 in an H200's engine, by bandwidth, down to a multiple of 8; halved on the card without FlashAttention 2;
    no more than the whole app was seen to carry best."""
    h200 = PROFILES["h200"]
    share = int(256 * profile.bandwidth_gb_s / h200.bandwidth_gb_s) // 8 * 8
    assert profile.max_concurrent == min(h200.max_concurrent, share // 2 if profile.name == "t4" else share)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_graphs_on_gpus_eager_on_the_cpu(profile: Profile) -> None:
    """CUDA graphs by default on every card; and half only where bf16 is missing."""
    assert profile.enforce_eager is not profile.on_gpu
    assert profile.dtype == ("half" if profile.name in ("v100-32g", "v100-16g", "t4") else "bfloat16")


@pytest.mark.parametrize(
    ("name", "memory_mib", "capability", "profile"),
    [
        ("NVIDIA A10", 23028, (8, 6), "a10"),
        ("NVIDIA A10G", 23028, (8, 6), "a10"),
        ("NVIDIA A100-PCIE-40GB", 40960, (8, 0), "a100-40g"),
        ("NVIDIA A100-SXM4-40GB", 40960, (8, 0), "a100-40g"),
        ("NVIDIA A100 80GB PCIe", 81920, (8, 0), "a100-80g"),
        ("NVIDIA A100-SXM4-80GB", 81920, (8, 0), "a100-80g"),
        ("Tesla V100-SXM2-32GB", 32510, (7, 0), "v100-32g"),
        ("Tesla V100-PCIE-16GB", 16160, (7, 0), "v100-16g"),
        ("Tesla T4", 15109, (7, 5), "t4"),
        ("NVIDIA L4", 23034, (8, 9), "l4"),
        ("NVIDIA L20", 46068, (8, 9), "l20"),
        ("NVIDIA GeForce RTX 3090", 24576, (8, 6), "rtx-3090"),
        ("NVIDIA GeForce RTX 4090", 24564, (8, 9), "rtx-4090"),
        ("NVIDIA H20", 97871, (9, 0), "h20"),
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
        ("NVIDIA GeForce RTX 5090", 32607, (12, 0), "rtx-4090", "bfloat16", 48),
        ("NVIDIA GeForce RTX 3060", 12288, (8, 6), "a10", "bfloat16", 17),
        ("NVIDIA L40S", 46068, (8, 9), "l20", "bfloat16", 39),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864, (8, 0), "a10", "bfloat16", 6),
        ("NVIDIA B200", 183359, (10, 0), "h200", "bfloat16", 64),
        ("NVIDIA TITAN V", 12288, (7, 0), "v100-16g", "half", 9),
        ("NVIDIA GeForce RTX 2080 Ti", 11264, (7, 5), "t4", "half", 5),
    ],
)
def test_an_unknown_card_gets_a_derived_one(
    name: str, memory_mib: int, capability: tuple[int, int], near: str, dtype: str, concurrent: int
) -> None:
    """The nearest of the same number format, scaled down with the memory, and the reason says that it is derived."""
    choice = match(name, memory_mib, capability, PROFILES)
    assert (choice.profile.name, choice.profile.dtype, choice.profile.max_concurrent) == (
        f"auto:{near}",
        dtype,
        concurrent,
    )
    assert choice.profile.name not in PROFILES
    assert choice.profile.derived_for == name
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
        ("a10", "0.29.0", True, "KIND=auto"),
        ("cpu", "0.29.0", True, None),
        ("cpu", "0.29.0", False, "KIND=cpu"),
    ],
)
def test_preflight(profile: str, version: str, is_cpu_build: bool, says: str | None) -> None:
    """What is installed is held against the profile, and a refusal names the remedy."""
    refusal = unfit(PROFILES[profile], version, is_cpu_build)
    assert (refusal is None) if says is None else (refusal is not None and says in refusal.zh and says in refusal.en)


def test_a_derived_turing_card_runs_todays_vllm() -> None:
    """The V100's last release is the V100's, not that of every card without bf16."""
    assert unfit(match("NVIDIA GeForce RTX 2080 Ti", 11264, (7, 5), PROFILES).profile, "0.29.0", False) is None
    assert unfit(match("NVIDIA TITAN V", 12288, (7, 0), PROFILES).profile, "0.29.0", False) is not None


class TestOwnFile:
    """ENGINE_PROFILES: cards of the user's own, and other values for those that are there."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        """Where the user's file lies."""
        return tmp_path / "my.toml"

    def test_only_the_changed_values(self, file: Path) -> None:
        """A table for a card that is there gives what differs; the rest, reasons included, stays."""
        file.write_text(
            "[a10]\nmax_concurrent = 24\n[a10.max_queued]\nvalue = 7\nreason = '会议室'\n", encoding="utf-8"
        )
        mine = load_profiles(file)["a10"]
        assert (mine.max_concurrent, mine.max_queued, mine.dtype) == (24, 7, "bfloat16")
        assert mine.reasons["max_concurrent"].source == "own"
        assert mine.reasons["max_queued"].text == "会议室"
        assert mine.reasons["dtype"] == PROFILES["a10"].reasons["dtype"]
        assert mine.published == PROFILES["a10"].published
        assert load_profiles() == PROFILES

    def test_a_card_of_ones_own(self, file: Path) -> None:
        """A new card is chosen by its name before ours, and needs five values."""
        file.write_text(
            "[x1]\nname_pattern='A10'\nmemory_gib=22.5\ncapability=[8, 6]\ndtype='bfloat16'\nmax_concurrent=5\n"
        )
        choice = choose("auto", card(), file)
        assert (choice.profile.name, choice.profile.max_concurrent, choice.profile.max_queued) == ("x1", 5, 10)
        assert not choice.profile.enforce_eager
        assert choose("x1", card(), file).profile == choice.profile

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("[a10]\nmax_concurent = 3", "的 [a10] 中有不认识的 max_concurent，是不是 max_concurrent？"),
            ("[a10]\nmax_concurrent = 0", "的 [a10] 中 max_concurrent 的值 0 不可用，应为大于 0 的整数。"),
            ("[a10]\nmax_concurrent = '多'", "的 [a10] 中 max_concurrent 的值 '多' 不可用"),
            ("[a10]\ngpu_memory_utilization = 1.5", "gpu_memory_utilization 的值 1.5 不可用，应为0 到 0.99 之间的数。"),
            ("[a10]\nname_pattern = '('", "name_pattern 的值 '(' 不可用，应为正则表达式"),
            ("[a10.dtype]\nvalue = 'int4'", "dtype 的值 'int4' 不可用，应为bfloat16"),
            ("[a10.dtype]\nvalu = 'half'", "不认识的 valu，是不是 value？"),
            ("[a10]\ngpu_memory_utilization = 0", "的 [a10] 中 gpu_memory_utilization 的值 0 不可用，显卡的应大于 0。"),
            ("[a10]\nmemory_gib = 0", "的 [a10] 中 memory_gib 的值 0 不可用，显卡的应大于 0。"),
            ("[a10]\nmemory_gib = inf", "的 [a10] 中 memory_gib 的值 inf 不可用，应为显存"),
            ("[a10]\nmemory_gib = nan", "的 [a10] 中 memory_gib 的值 nan 不可用"),
            ("[a10]\nbandwidth_gb_s = inf", "的 [a10] 中 bandwidth_gb_s 的值 inf 不可用"),
            ("[a10]\nmemory_gib = 1e308", "的 [a10] 中 memory_gib 的值 1e+308 不可用"),
            ("[mine]\nmemory_gib = 8", "的 [mine] 缺少 capability（计算能力，例如 [8, 6]）。"),
            ("[mine]\nmax_concurrent = {}", "的 [mine] 缺少 memory_gib"),
            ("a10 = 3", "中的 a10 应在一个表里"),
            ("[a10", "不是有效的 TOML"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_named(self, file: Path, text: str, says: str) -> None:
        """One sentence with file, table and value."""
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError) as refusal:
            load_profiles(file)
        assert says in refusal.value.words.zh
        assert str(file) in refusal.value.words.zh
        assert str(file) in refusal.value.words.en

    def test_a_file_that_is_not_there(self, file: Path) -> None:
        """The setting that names it is named."""
        with pytest.raises(ConfigurationError, match="ENGINE_PROFILES"):
            load_profiles(file)

    def test_the_start_is_refused(self, file: Path) -> None:
        """The app, which asks for a plan first, hears the same sentence."""
        file.write_text("[a10]\nx = 1")
        with pytest.raises(ConfigurationError, match=r"my\.toml"):
            planner(Settings(engine_profiles=file))("auto")


def test_settings_over_the_profile() -> None:
    """Numbers set in .env take the profile's place, with that as their reason; utilisation is no matter of the CPU's."""
    settings = Settings(engine_max_concurrent=3, engine_gpu_utilization=0.5)
    mine = settings.limited(PROFILES["a10"])
    assert (mine.max_concurrent, mine.gpu_memory_utilization, mine.max_queued) == (3, 0.5, PROFILES["a10"].max_queued)
    assert mine.reasons["gpu_memory_utilization"].text == "设置 ENGINE_GPU_UTILIZATION"
    assert settings.limited(PROFILES["cpu"]).gpu_memory_utilization == 0
