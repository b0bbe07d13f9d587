"""Which build of vLLM a driver and a card can run: the one table that `make install` and the doctor share.

Standard library only: install.py imports it before anything is installed.

The drivers: https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1 (CUDA 13.x from
580 on, CUDA 12.x from 525 on). The capabilities: the kernels in the published wheels, listed with cuobjdump.
"""

import os
import re
import subprocess
from dataclasses import dataclass

from engine.words import Words

CUDA_13_DRIVER, CUDA_12_DRIVER = 580, 525
"""The oldest driver branches for vLLM's CUDA 13 and CUDA 12 builds."""
FIRST_CUDA_13 = (0, 20)
OLDEST_CAPABILITY, TODAYS_CAPABILITY = (7, 0), (7, 5)
"""The oldest compute capability that any vLLM of ours, and that vLLM 0.20 and newer, carry kernels for."""
GPU, CUDA_12, V100, CPU = "gpu", "cuda12", "v100", "cpu"
VLLM = {GPU: "0.29.0", CUDA_12: "0.19.1", V100: "0.10.1.1"}
"""What the lock of each build pins."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A card as nvidia-smi names it; no capability where the driver is too old to be asked for it."""

    name: str
    driver: str
    capability: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Build:
    """What to install, and why. `kind` is None where this driver runs nothing: then `reason` says what would."""

    kind: str | None
    reason: Words


def branch(version: str) -> int:
    """580 of 580.82.07; 0 where that cannot be read."""
    number = re.match(r"\d+", version)
    return int(number[0]) if number else 0


def look() -> tuple[Seen | None, str]:
    """The card that the app will use; without one, what nvidia-smi said (nothing: there is no nvidia-smi)."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    for fields in ("uuid,name,driver_version,compute_cap", "uuid,name,driver_version"):  # before 510 without the last
        well, said = _run("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader")
        if well and (seen := read(said, visible)):
            return seen, said
    return None, said.strip() if not read(said) else f"CUDA_VISIBLE_DEVICES={visible}"


def _run(*command: str) -> tuple[bool, str]:
    """Whether it ended well, and what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30)
    except FileNotFoundError:
        return False, ""
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return done.returncode == 0, done.stdout + done.stderr


def read(listing: str, visible: str | None = None) -> Seen | None:
    """The first card of nvidia-smi's answer that CUDA_VISIBLE_DEVICES (`visible`) lets through; None without one."""
    cards = {}
    for line in listing.splitlines():
        uuid, *fields = (field.strip() for field in line.split(","))
        if uuid.startswith("GPU-") and len(fields) in (2, 3):
            cards[uuid] = Seen(fields[0], fields[1], _capability(fields[2]) if len(fields) == 3 else None)
    first = "0" if visible is None else visible.split(",")[0].strip()
    if first.isdecimal():
        return dict(enumerate(cards.values())).get(int(first))
    if first.startswith("MIG-"):  # a part of a card, which is not listed here
        return next(iter(cards.values()), None)
    named = (card for uuid, card in cards.items() if first and uuid.startswith(first))
    return next(named, None)


def _capability(text: str) -> tuple[int, int] | None:
    """`8.6` as (8, 6); None for `[N/A]`."""
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def build_for(seen: Seen | None, said: str = "") -> Build:
    """The build for a card; `said` is what nvidia-smi answered where it named none."""
    if seen is None:
        return _no_card(said)
    if seen.capability and seen.capability < OLDEST_CAPABILITY:
        return _too_old_card(seen)
    if branch(seen.driver) < CUDA_12_DRIVER:
        return _too_old_driver(seen)
    if seen.capability and seen.capability < TODAYS_CAPABILITY:
        return _volta(seen)
    return _today(seen) if branch(seen.driver) >= CUDA_13_DRIVER else _cuda_12(seen)


def oldest_driver(version: str) -> int:
    """The oldest driver branch for a vLLM: from 0.20 on the package index has CUDA 13 builds, unless the version says
    otherwise (0.29.0+cu129). 0 for a version that does not tell, such as a source tree's."""
    number = re.match(r"(\d+)\.(\d+)", version)
    if number is None:
        return 0
    is_cuda_13 = (int(number[1]), int(number[2])) >= FIRST_CUDA_13 and "+cu12" not in version
    return CUDA_13_DRIVER if is_cuda_13 else CUDA_12_DRIVER


def _no_card(said: str) -> Build:
    if not said:
        return Build(CPU, Words("没有检测到 NVIDIA 显卡。", "No NVIDIA card found."))
    first = said.splitlines()[0][:120]
    return Build(CPU, Words(f"nvidia-smi 没有列出显卡（{first}）。", f"nvidia-smi lists no card ({first})."))


def _too_old_card(seen: Seen) -> Build:
    number = _dotted(seen.capability)
    return Build(
        CPU,
        Words(
            f"{seen.name} 的计算能力 {number} 低于 7.0，vLLM 没有为它编译的代码，只能用 CPU。",
            f"{seen.name} (capability {number}) is below 7.0: vLLM has no code for it.",
        ),
    )


def _too_old_driver(seen: Seen) -> Build:
    return Build(
        None,
        Words(
            f"{seen.name} 的驱动 {seen.driver} 太旧：vLLM 的 CUDA 12 版需要 {CUDA_12_DRIVER} 或更新，CUDA 13 版需要 "
            f"{CUDA_13_DRIVER} 或更新。请升级显卡驱动到 {CUDA_13_DRIVER}；暂时可以只用 CPU（make install KIND=cpu），"
            "或只装界面、引擎在别处（make install REMOTE=1）。",
            f"Driver {seen.driver} of {seen.name} is too old: vLLM's CUDA 12 build needs {CUDA_12_DRIVER} or newer, the "
            f"CUDA 13 build {CUDA_13_DRIVER}. Upgrade the driver to {CUDA_13_DRIVER}; or use the CPU (make install "
            "KIND=cpu), or an engine elsewhere (make install REMOTE=1).",
        ),
    )


def _volta(seen: Seen) -> Build:
    number = _dotted(seen.capability)
    return Build(
        V100,
        Words(
            f"{seen.name}（计算能力 {number}，驱动 {seen.driver}）：新版 vLLM 不支持，用 vLLM {VLLM[V100]} 另开服务"
            "（装在 .venv-server）。没有在 V100 上实测过。",
            f"{seen.name} (capability {number}, driver {seen.driver}): today's vLLM has no code for it, so vLLM "
            f"{VLLM[V100]} serves from an environment of its own (.venv-server). Not run on a V100.",
        ),
    )


def _cuda_12(seen: Seen) -> Build:
    return Build(
        CUDA_12,
        Words(
            f"{seen.name} 的驱动 {seen.driver} 只能运行 CUDA 12：用 vLLM {VLLM[CUDA_12]}。"
            f"驱动升级到 {CUDA_13_DRIVER} 或更新后可以用 vLLM {VLLM[GPU]}（CUDA 13）。",
            f"Driver {seen.driver} of {seen.name} runs CUDA 12 only: vLLM {VLLM[CUDA_12]}. "
            f"With driver {CUDA_13_DRIVER} or newer: vLLM {VLLM[GPU]} (CUDA 13).",
        ),
    )


def _today(seen: Seen) -> Build:
    return Build(
        GPU,
        Words(
            f"{seen.name}，驱动 {seen.driver}（不低于 {CUDA_13_DRIVER}）：用 vLLM {VLLM[GPU]}（CUDA 13）。",
            f"{seen.name}, driver {seen.driver} ({CUDA_13_DRIVER} or newer): vLLM {VLLM[GPU]} (CUDA 13).",
        ),
    )


def _dotted(capability: tuple[int, int] | None) -> str:
    return ".".join(map(str, capability or ()))
