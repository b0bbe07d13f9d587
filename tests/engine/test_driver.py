"""Which build a driver and a card get, over what nvidia-smi says of them."""

import gc
import os
import signal
import warnings
from pathlib import Path

import pytest

from engine import driver
from engine.driver import CPU, CUDA_12, GPU, V100, NoCard, Seen

A10 = "GPU-aaaa1111-2222, NVIDIA A10, {}, 8.6\n"
OTHER = "GPU-bbbb3333-4444, Tesla V100-SXM2-16GB, {}, 7.0\n"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183\n"


@pytest.mark.parametrize(
    ("listing", "kind", "told"),
    [
        (A10.format("535.183.01"), CUDA_12, ["535.183.01", "vLLM 0.19.1", "升级到 580", "vLLM 0.29.0"]),
        (A10.format("550.54.15"), CUDA_12, ["550.54.15", "CUDA 12"]),
        (A10.format("525.60.13"), CUDA_12, ["525.60.13"]),
        (A10.format("580.82.07"), GPU, ["580.82.07", "vLLM 0.29.0", "CUDA 13"]),
        (A10.format("615.10"), GPU, ["615.10"]),
        (A10.format("524.99"), None, ["524.99", "525", "升级显卡驱动到 580", "KIND=cpu", "REMOTE=1"]),
        ("GPU-1, Tesla V100-PCIE-32GB, 550.54.15, 7.0\n", V100, ["vLLM 0.10.1.1", "没有在 V100 上实测过"]),
        ("GPU-1, Tesla V100-PCIE-32GB, 580.82.07, 7.0\n", V100, [".venv-server"]),
        ("GPU-1, Tesla T4, 535.161.07, 7.5\n", CUDA_12, ["Tesla T4"]),
        ("GPU-1, Tesla T4, 580.65.06, 7.5\n", GPU, ["Tesla T4"]),
        ("GPU-1, Tesla P40, 580.65.06, 6.1\n", CPU, ["Tesla P40", "计算能力 6.1 低于 7.0"]),
        ("GPU-1, Tesla P40, 470.256.02, 6.1\n", CPU, ["6.1"]),
        ("GPU-1, NVIDIA A10, 470.256.02\n", None, ["470.256.02 太旧"]),
        ("GPU-1, NVIDIA A10, 550.54.15, [N/A]\n", CUDA_12, ["550.54.15"]),
        ("GPU-1, NVIDIA A10, [Unknown Error], 8.6\n", None, ["[Unknown Error]"]),
        (A10.format("550.54.15") + OTHER.format("550.54.15"), CUDA_12, ["NVIDIA A10"]),
        ("No devices were found\n", CPU, ["No devices were found"]),
        (MISMATCH, CPU, ["version mismatch"]),
        ("a, b, c, d\n\x00,\n,,,,\n", CPU, []),
        ("", CPU, []),
    ],
)
def test_build(listing: str, kind: str | None, told: list[str]) -> None:
    """Each machine gets the build that its driver and card run, with a reason that names both."""
    build = driver.build_for(driver.read(listing) or driver.none_listed(listing))
    assert build.kind == kind
    for part in told:
        assert part in build.reason.zh
    assert build.reason.en


@pytest.mark.parametrize(
    ("visible", "name"),
    [
        (None, "NVIDIA A10"),
        ("0,1", "NVIDIA A10"),
        ("1", "Tesla V100-SXM2-16GB"),
        ("GPU-bbbb", "Tesla V100-SXM2-16GB"),
        ("MIG-1c2d", "NVIDIA A10"),
        ("2", None),
        ("-1", None),
        ("", None),
        ("none", None),
    ],
)
def test_the_card_that_the_app_will_use(visible: str | None, name: str | None) -> None:
    """Of two cards it is the first that CUDA_VISIBLE_DEVICES lets through that counts; without it, the better one."""
    seen = driver.read(A10.format("550.54") + OTHER.format("550.54"), visible)
    assert (seen.name if seen else None) == name


@pytest.mark.parametrize(
    ("cards", "best"),
    [
        ([("GTX 1080", "6.1", 8192), ("RTX 3060", "8.6", 12288)], "RTX 3060"),
        ([("T400", "7.5", 2048), ("A10", "8.6", 23028)], "A10"),
        ([("RTX 4060", "8.9", 8188), ("A100", "8.0", 81920)], "A100"),
        ([("T4", "7.5", 15360), ("V100", "7.0", 32510)], "T4"),
        ([("RTX 3090", "8.6", 24576), ("RTX 4090", "8.9", 24576)], "RTX 4090"),
        ([("first", "8.6", 24576), ("second", "8.6", 24576)], "first"),
        ([("broken", "[N/A]", 0), ("A10", "8.6", 23028)], "A10"),
    ],
)
def test_the_better_of_several(cards: list[tuple[str, str, int]], best: str) -> None:
    """What today's vLLM runs on, then memory, then capability; of equals the first."""
    lines = [
        f"GPU-{number}, {name}, 580.82.07, {capability}, {mib} MiB"
        for number, (name, capability, mib) in enumerate(cards)
    ]
    seen = driver.read("\n".join(lines))
    assert seen
    assert seen.name == best


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An nvidia-smi on PATH, still to be written."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(driver, "WSL_SMI", str(tmp_path / "wsl" / "nvidia-smi"))
    script = tmp_path / "nvidia-smi"
    script.touch(0o755)
    return script


def looked() -> NoCard:
    """A look that finds no card."""
    found = driver.look()
    assert isinstance(found, NoCard)
    return found


class TestLook:
    def test_an_old_nvidia_smi(self, smi: Path) -> None:
        """One that does not know compute_cap is asked again without it."""
        smi.write_text(
            "#!/bin/sh\ncase $1 in *compute_cap*) echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2;; esac\n"
            "echo 'GPU-1, NVIDIA A10, 470.256.02'\n"
        )
        assert driver.look() == Seen("NVIDIA A10", "470.256.02", None)

    def test_no_card(self, smi: Path) -> None:
        """A driver without a card: what it says is kept, and it is no failure."""
        smi.write_text("#!/bin/sh\necho 'No devices were found'; exit 6\n")
        assert "（No devices were found）" in looked().reason.zh
        assert not looked().is_failure

    def test_a_failure(self, smi: Path) -> None:
        """A driver that was upgraded under a running kernel: there may well be a card."""
        smi.write_text(f"#!/bin/sh\nprintf '%s' '{MISMATCH}'; exit 18\n")
        assert "version mismatch" in looked().reason.zh
        assert looked().is_failure

    def test_no_answer(self, smi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that hangs, with a child that outlives it, is asked once and left; the sentence is ours."""
        smi.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked; sleep 600 & sleep 600\n")
        monkeypatch.setattr(driver, "ANSWER_WITHIN_S", 1.0)
        found = looked()
        assert found.is_failure
        assert "没有回答" in found.reason.zh
        assert "timed out" not in found.reason.zh
        asked = tmp_path / "asked"  # a machine under load may not have come so far
        assert not asked.exists() or asked.read_text().splitlines() == ["asked"]

    def test_what_cannot_be_killed(self, smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that the kernel holds is not waited for: here one that the signal does not reach."""
        smi.write_text("#!/bin/sh\nexec sleep 600\n")
        monkeypatch.setattr(driver, "ANSWER_WITHIN_S", 0.2)
        spared: list[int] = []
        monkeypatch.setattr("os.killpg", lambda group, signal: spared.append(group))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of the process that is left
            found = looked()
            gc.collect()
        monkeypatch.undo()
        os.killpg(spared[0], signal.SIGKILL)
        assert found.is_failure

    def test_under_wsl(self, smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """WSL2 keeps it where PATH may not lead."""
        smi.write_text("#!/bin/sh\necho 'GPU-1, NVIDIA A10, 580.82.07, 8.6, 23028 MiB'\n")
        elsewhere = smi.parent / "wsl"
        elsewhere.mkdir()
        smi.rename(elsewhere / smi.name)
        monkeypatch.setenv("PATH", "/nowhere")
        assert driver.look() == Seen("NVIDIA A10", "580.82.07", (8, 6), 23028)

    def test_hidden_cards(self, smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Cards that the user hides are not used, and the setting is named."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        smi.write_text("#!/bin/sh\necho 'GPU-1, NVIDIA A10, 580.82.07, 8.6'\n")
        assert "CUDA_VISIBLE_DEVICES=-1" in looked().reason.zh
        assert not looked().is_failure

    def test_none(self, smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without nvidia-smi there is no card, and no failure."""
        smi.unlink()
        monkeypatch.setenv("PATH", str(smi.parent))
        assert "没有检测到 NVIDIA 显卡" in looked().reason.zh
        assert not looked().is_failure

    def test_broken(self, smi: Path) -> None:
        """A file that is no program is no traceback."""
        smi.write_bytes(b"\x7fELF")
        found = looked()
        assert found.is_failure
        assert "不能运行" in found.reason.zh


@pytest.mark.parametrize(
    ("version", "oldest"),
    [
        ("0.29.0", 580), ("0.20.0", 580), ("1.0", 580), ("0.29.0.post1", 580), ("0.19.1", 525), ("0.10.1.1", 525),
        ("0.29.0+cu129", 525), ("0.19.1+cu128", 525), ("0.29.0+cu130", 580), ("0.29.1.dev3+gabc123.cu128", 525),
        ("0.29.1.dev3+gabc123.cu130", 580), ("0.29.1.dev3+gabc123", 0), ("0.29.1.dev3", 0), ("0.29.0+ours", 0), ("dev", 0),
    ],
)  # fmt: skip
def test_the_driver_that_a_version_needs(version: str, oldest: int) -> None:
    """CUDA 13 from 0.20 on, unless the version's own tag says CUDA 12; nothing is claimed of someone's own build."""
    assert driver.oldest_driver(version) == oldest
