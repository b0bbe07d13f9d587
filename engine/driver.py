"""Which build of vLLM a driver and a card can run: the one table that `make install` and the doctor share.

Standard library only: install.py imports it before anything is installed.

The drivers: https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1 (CUDA 13.x from
580 on, CUDA 12.x from 525 on). The capabilities: the kernels in the published wheels, listed with cuobjdump.
"""

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass

from engine.words import Words

CUDA_13_DRIVER, CUDA_12_DRIVER = 580, 525
"""The oldest driver branches for vLLM's CUDA 13 and CUDA 12 builds."""
FIRST_CUDA_13 = (0, 20)
OLDEST_CAPABILITY, TODAYS_CAPABILITY = (7, 0), (7, 5)
"""The oldest compute capability that any vLLM of ours, and that vLLM 0.20 and newer, carry kernels for."""
BF16_CAPABILITY = (8, 0)
GPU, CUDA_12, V100, CPU = "gpu", "cuda12", "v100", "cpu"
VLLM = {GPU: "0.29.0", CUDA_12: "0.19.1", V100: "0.10.1.1"}
"""What the lock of each build pins."""
WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"
"""Where WSL2 has it, which not every shell has on PATH."""
ANSWER_WITHIN_S = 10.0
QUERIES = ("uuid,name,driver_version,compute_cap,memory.total", "uuid,name,driver_version")
"""The second for drivers before 510, which do not know compute_cap."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A card as nvidia-smi names it; no capability where the driver is too old to be asked for it."""

    name: str
    driver: str
    capability: tuple[int, int] | None
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class NoCard:
    """None that could be used, and what is known of that; `is_failure`: there may well be one, and nothing tells of it."""

    reason: Words
    is_failure: bool = False


@dataclass(frozen=True, slots=True)
class Build:
    """What to install, and why. `kind` is None where this driver runs nothing: then `reason` says what would."""

    kind: str | None
    reason: Words


def branch(version: str) -> int:
    """580 of 580.82.07; 0 where that cannot be read."""
    number = re.match(r"\d+", version)
    return int(number[0]) if number else 0


def rank(capability: tuple[int, int] | None, memory_mib: int) -> tuple[int, int, tuple[int, int]]:
    """Of several cards the one with the highest is used: by what runs on it, then by memory, then by capability."""
    known = capability or (0, 0)
    generations = (OLDEST_CAPABILITY, TODAYS_CAPABILITY, BF16_CAPABILITY)
    return sum(known >= each for each in generations), memory_mib, known


def look() -> Seen | NoCard:
    """The card that the app will use, as nvidia-smi tells of it."""
    smi = shutil.which("nvidia-smi") or shutil.which(WSL_SMI)
    if smi is None:
        return NoCard(Words("没有检测到 NVIDIA 显卡。", "No NVIDIA card found."))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    said = ""
    for fields in QUERIES:
        try:
            well, said = _run(smi, f"--query-gpu={fields}", "--format=csv,noheader")
        except subprocess.TimeoutExpired:
            return NoCard(SILENT, is_failure=True)
        except OSError as error:
            return NoCard(Words(f"{smi} 不能运行。", f"{smi} cannot be run: {error.strerror}."), is_failure=True)
        if well and (seen := read(said, visible)):
            return seen
    return none_listed(said, visible)


SILENT = Words(
    f"nvidia-smi 在 {ANSWER_WITHIN_S:.0f} 秒内没有回答（驱动可能出了故障）。",
    f"nvidia-smi did not answer within {ANSWER_WITHIN_S:.0f} s (a fault of the driver?).",
)


def none_listed(said: str, visible: str | None = None) -> NoCard:
    """What nvidia-smi's answer means in which there is no card to be used."""
    if read(said):
        hidden = f"CUDA_VISIBLE_DEVICES={visible}"
        return NoCard(Words(f"{hidden} 没有留下可用的显卡。", f"{hidden} leaves no card to be used."))
    first = next(iter(said.strip().splitlines()), "")[:120]
    return NoCard(
        Words(f"nvidia-smi 没有列出显卡（{first}）。", f"nvidia-smi lists no card ({first})."),
        is_failure="No devices were found" not in said,
    )


def _run(*command: str) -> tuple[bool, str]:
    """Whether it ended well, and what it said. Raises OSError; TimeoutExpired without waiting for the process's end.

    A process that the driver holds in the kernel cannot be killed, and whoever waits for it waits for ever.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=ANSWER_WITHIN_S)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdout:
            process.stdout.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        raise
    return process.returncode == 0, said


def read(listing: str, visible: str | None = None) -> Seen | None:
    """The card of nvidia-smi's answer to use: the first that CUDA_VISIBLE_DEVICES (`visible`) lets through, of all the
    best where that is not set; None without one."""
    cards = {}
    for line in listing.splitlines():
        uuid, *fields = (field.strip() for field in line.split(","))
        if uuid.startswith("GPU-") and len(fields) in (2, 3, 4):
            cards[uuid] = _seen(*fields)
    if visible is None:
        return max(cards.values(), key=lambda card: rank(card.capability, card.memory_mib), default=None)
    first = visible.split(",")[0].strip()
    if first.isdecimal():
        return dict(enumerate(cards.values())).get(int(first))
    if first.startswith("MIG-"):  # a part of a card, which is not listed here
        return next(iter(cards.values()), None)
    named = (card for uuid, card in cards.items() if first and uuid.startswith(first))
    return next(named, None)


def _seen(name: str, driver: str, capability: str = "", memory: str = "") -> Seen:
    """`memory` as in `23028 MiB`."""
    mib = re.match(r"\d+", memory)
    return Seen(name, driver, _capability(capability), int(mib[0]) if mib else 0)


def _capability(text: str) -> tuple[int, int] | None:
    """`8.6` as (8, 6); None for `[N/A]`."""
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def build_for(seen: Seen | NoCard) -> Build:
    """The build for a card, or for a machine without."""
    if isinstance(seen, NoCard):
        return Build(CPU, seen.reason)
    if seen.capability and seen.capability < OLDEST_CAPABILITY:
        return _too_old_card(seen)
    if branch(seen.driver) < CUDA_12_DRIVER:
        return _too_old_driver(seen)
    if seen.capability and seen.capability < TODAYS_CAPABILITY:
        return _volta(seen)
    return _today(seen) if branch(seen.driver) >= CUDA_13_DRIVER else _cuda_12(seen)


def oldest_driver(version: str) -> int:
    """The oldest driver branch for a vLLM: by the CUDA that the version names (0.29.0+cu129, 0.29.1.dev3+gabc.cu128),
    else by the package index's builds, which are for CUDA 13 from 0.20 on. 0 for any other build: it does not tell."""
    if cuda := re.search(r"[+.]cu(\d\d)", version):
        return CUDA_13_DRIVER if int(cuda[1]) >= 13 else CUDA_12_DRIVER
    released = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)*(?:\.post\d+)?", version)
    if released is None:
        return 0
    return CUDA_13_DRIVER if (int(released[1]), int(released[2])) >= FIRST_CUDA_13 else CUDA_12_DRIVER


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
