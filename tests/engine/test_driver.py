"""Which build a driver and a card get, over what nvidia-smi says of them."""

import os
from pathlib import Path

import pytest

from engine import driver
from engine.driver import CPU, CUDA_12, GPU, V100, Seen

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
        ("", CPU, ["没有检测到 NVIDIA 显卡"]),
    ],
)
def test_build(listing: str, kind: str | None, told: list[str]) -> None:
    """Each machine gets the build that its driver and card run, with a reason that names both."""
    build = driver.build_for(driver.read(listing), listing)
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
    """Of two cards it is the first that CUDA_VISIBLE_DEVICES lets through that counts."""
    seen = driver.read(A10.format("550.54") + OTHER.format("550.54"), visible)
    assert (seen.name if seen else None) == name


@pytest.mark.parametrize(("version", "oldest"), [("0.29.0", 580), ("0.20.0", 580), ("0.19.1+cu128", 525), ("1.0", 580)])
def test_oldest_driver(version: str, oldest: int) -> None:
    """The index's builds from 0.20 on are made for CUDA 13."""
    assert driver.oldest_driver(version) == oldest


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An nvidia-smi on PATH, still to be written."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    script = tmp_path / "nvidia-smi"
    script.touch(0o755)
    return script


class TestLook:
    def test_an_old_nvidia_smi(self, smi: Path) -> None:
        """One that does not know compute_cap is asked again without it."""
        smi.write_text(
            "#!/bin/sh\ncase $1 in *compute_cap*) echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2;; esac\n"
            "echo 'GPU-1, NVIDIA A10, 470.256.02'\n"
        )
        assert driver.look()[0] == Seen("NVIDIA A10", "470.256.02", None)

    def test_no_card(self, smi: Path) -> None:
        """A driver without a card: what it says is kept."""
        smi.write_text("#!/bin/sh\necho 'No devices were found'; exit 6\n")
        assert driver.look() == (None, "No devices were found")

    def test_hidden_cards(self, smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Cards that the user hides are not used, and the setting is named."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        smi.write_text("#!/bin/sh\necho 'GPU-1, NVIDIA A10, 580.82.07, 8.6'\n")
        assert driver.look() == (None, "CUDA_VISIBLE_DEVICES=-1")

    def test_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without nvidia-smi nothing is said."""
        monkeypatch.setenv("PATH", str(tmp_path))
        assert driver.look() == (None, "")

    def test_broken(self, smi: Path) -> None:
        """A file that is no program is no traceback."""
        smi.write_bytes(b"\x7fELF")
        seen, said = driver.look()
        assert seen is None
        assert said


@pytest.mark.parametrize(
    ("version", "oldest"),
    [("0.29.0", 580), ("0.20.0", 580), ("0.19.1", 525), ("0.29.0+cu129", 525), ("0.29.0+cu130", 580), ("dev", 0)],
)
def test_the_driver_that_a_version_needs(version: str, oldest: int) -> None:
    """CUDA 13 from 0.20 on, unless the version's own tag says CUDA 12; nothing is claimed of a nameless build."""
    assert driver.oldest_driver(version) == oldest
