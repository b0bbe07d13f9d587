"""`python -m engine.doctor`: what this machine has, what would run on it, and what stands in the way, with the remedy.

Looks and changes nothing; imports neither vLLM nor torch. Exit status 1 if the app or its engine would not start.
"""

import asyncio
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import psutil

from engine import build_check, demo, ports, weights
from engine.cache import GIB, cache_root, existing, require_space
from engine.config_values import Unforeseeable
from engine.endpoint import Endpoint, checked_address
from engine.errors import ConfigurationError
from engine.hardware import Card, detect_card
from engine.known_model import find
from engine.model_files import is_complete, refuse_paddle
from engine.plan import survey
from engine.preflight import installed_vllm, preflight
from engine.profiles import Choice, Profile, choose
from engine.report import Line, Problem, Report
from engine.scripted import ScriptedEngine
from engine.settings import Settings
from engine.words import Words

CHAT_PORT, SERVER_PORT = 8000, 8001
ANSWER_WITHIN_S = 5.0
PACKAGES = ("chainlit", "openai", "torch", "transformers")
MIB_A_GIB = 1024


def examine() -> Report:
    """Look at everything. Raises nothing that a settings file, a card or a folder can cause."""
    card = detect_card()
    sections = {"这台机器 This machine": machine(card), "软件 Software": [*software(), *build_check.lines(card)]}
    problems = list(software_problems())
    try:
        settings = Settings.load()
    except ConfigurationError as error:
        return Report(sections, [*problems, Problem(error.words)])
    sections["设置 Settings"] = in_force(settings)
    running, engine_problems = engine(settings, card)
    sections["将运行 Will run"] = running
    ports, port_problems = look_at_ports()
    sections["端口 Ports"] = ports
    return Report(sections, [*problems, *engine_problems, *port_problems, *data_problems(settings)])


def machine(card: Card | None) -> list[Line]:
    """Python, card, processors, memory and disk."""
    memory, cache = psutil.virtual_memory(), existing(cache_root())
    return [
        ("系统", f"{platform.system()} {platform.machine()}，Python {platform.python_version()}"),
        ("显卡", describe(card) if card else "未检测到 NVIDIA 显卡 / none"),
        ("处理器", f"{len(os.sched_getaffinity(0))} 核"),
        ("内存", f"可用 {memory.available / GIB:.1f} / {memory.total / GIB:.1f} GiB"),
        ("磁盘", f"{cache} 所在磁盘剩余 {shutil.disk_usage(cache).free / GIB:.1f} GiB"),
    ]


def describe(card: Card) -> str:
    """A card in one line."""
    free, total = card.free_mib / MIB_A_GIB, card.memory_mib / MIB_A_GIB
    major, minor = card.capability
    return f"{card.name}，显存空闲 {free:.1f} / {total:.1f} GiB，计算能力 {major}.{minor}，驱动 {card.driver}"


def software() -> list[Line]:
    """Versions, from the packages' metadata."""
    version, is_cpu_build = installed_vllm()
    vllm = f"{version}（{'CPU 版' if is_cpu_build else '显卡版'}）" if version else "未安装 / not installed"
    return [("vLLM", vllm), *((name, version_of(name) or "未安装 / not installed") for name in PACKAGES)]


def version_of(package: str) -> str | None:
    """A package's version; None where it is not installed."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None


def software_problems() -> Iterator[Problem]:
    """A Python or an installation that cannot carry the app."""
    if not (3, 11) <= sys.version_info < (3, 14):
        yield Problem(Words("需要 Python 3.11–3.13：请安装后重新 make install。", "Python 3.11-3.13 is needed."))
    if version_of("chainlit") is None:
        yield Problem(Words("没有安装 Chainlit：请运行 make install。", "Chainlit is not installed: run make install."))


def in_force(settings: Settings) -> list[Line]:
    """Every setting that is not its default; keys are not shown."""
    changed = [
        (name.upper(), shown(name, str(getattr(settings, name))))
        for name, field in Settings.model_fields.items()
        if getattr(settings, name) != field.default
    ]
    return changed or [("全部", "默认值 / all defaults")]


def shown(name: str, value: str) -> str:
    """A setting's value as a report may carry it: no key, and no password of an address."""
    if name.endswith("_key"):
        return "******"
    if name == "engine_base_url":
        try:
            return checked_address(value)[0]
        except ConfigurationError:  # said below, with the remedy
            return "无法识别 / not an address"
    return value


def engine(settings: Settings, card: Card | None) -> tuple[list[Line], list[Problem]]:
    """The engine that would run, and what is in its way."""
    lines: list[Line] = [("引擎", settings.backend)]
    problems: list[Problem] = []
    try:
        if settings.backend == "inprocess":
            choice = choose(settings.engine_profile, card, settings.engine_profiles)
            lines += plan(settings, choice)
            problems += profile_problems(choice.profile, card)
            lines.append(("模型", find_weights(settings)))
            forecast, obstacles = room(settings, card)
            lines, problems = lines + forecast, problems + obstacles
        elif settings.backend == "server":
            lines.append(("服务", ask_server(settings)))
        else:
            ScriptedEngine(settings.engine_script)
    except ConfigurationError as error:
        problems.append(Problem(error.words))
    return lines, problems


def plan(settings: Settings, choice: Choice) -> list[Line]:
    """Profile, reason and limits."""
    profile = settings.limited(choice.profile)
    return [
        ("配置", f"{profile.name}（{profile.title}）"),
        ("原因", choice.reason.zh),
        (
            "数值",
            f"{profile.dtype}，上下文 {settings.engine_max_model_len}，同时 {profile.max_concurrent}，排队 {profile.max_queued}",
        ),
    ]


def profile_problems(profile: Profile, card: Card | None) -> Iterator[Problem]:
    """An installation or a driver that keeps this machine from running the profile."""
    try:
        preflight(profile)
    except ConfigurationError as error:
        yield Problem(error.words)
    if profile.on_gpu and card:
        yield from build_check.problems(card)


def room(settings: Settings, card: Card | None) -> tuple[list[Line], list[Problem]]:
    """The planner's forecast for this machine, and what of it is in the way: what a start would say, too."""
    try:
        find(settings.engine_model)
    except ConfigurationError as error:  # not here yet: the start will fetch it
        return [("承载", error.words.zh)], []
    try:
        forecast = survey(settings, settings.engine_model, "auto", card).chosen.plan
    except Unforeseeable as error:
        return [("承载", error.words.zh)], []
    refusals = [Problem(words) for words in forecast.refusals]
    return [("承载", forecast.words.zh)], [*refusals, *(Problem(words, stops=False) for words in forecast.warnings)]


def find_weights(settings: Settings) -> str:
    """Where the weights are, or that they will be fetched. Raises WeightsError for such as cannot be used."""
    model = settings.engine_model
    if model != weights.DEMO and (Path(model).expanduser().exists() or not weights.HUB_ID.fullmatch(model)):
        folder = weights.resolve(model, settings.engine_hub, lambda loading: None)
        return f"{folder.name}（{folder.path}）"
    refuse_paddle(model)
    cached = cache_root() / "models" / model
    stand_in = cache_root() / "demo" / demo.QWEN.name
    if model != weights.DEMO and is_complete(cached):
        return f"{model}（已在 {cached}）"
    if is_complete(stand_in):
        demo_cached = f"演示模型已在 {stand_in}"
        return (
            demo_cached
            if model == weights.DEMO
            else f"{model}（启动时下载；连不上模型仓库时用演示模型，{demo_cached}）"
        )
    require_space(existing(cache_root()), demo.QWEN.gguf_size + demo.QWEN.converted)
    return f"{model}（启动时下载）"


def ask_server(settings: Settings) -> str:
    """What the server serves. Raises ConfigurationError where it cannot be asked."""
    assert settings.engine_base_url
    endpoint, _ = checked_address(settings.engine_base_url)
    try:
        served = asyncio.run(served_models(settings.engine_base_url, settings.engine_api_key))
    except httpx2.HTTPStatusError as error:
        raise unusable(f"{endpoint} 回答 {error.response.status_code}", f"{error.response.status_code}") from error
    except (httpx2.HTTPError, ValueError) as error:  # ValueError: an answer in another shape
        raise unusable(f"{endpoint} 没有返回有效的应答", type(error).__name__) from error
    return f"{endpoint}，模型 {'、'.join(served) or '无'}"


async def served_models(base_url: str, api_key: str | None) -> list[str]:
    """Names from /v1/models."""
    endpoint = Endpoint(base_url, api_key, read_s=ANSWER_WITHIN_S)
    try:
        return [card.id for card in await endpoint.cards()]
    finally:
        await endpoint.close()


def unusable(zh: str, en: str) -> ConfigurationError:
    """A server that does not answer as it should."""
    return ConfigurationError(
        Words(
            f"模型服务 {zh}：请确认它已启动（本机用 make serve）、地址以 /v1 结尾、ENGINE_API_KEY 正确。",
            f"The model server does not answer ({en}): is it running (make serve), does the address end in /v1, "
            "is ENGINE_API_KEY right?",
        )
    )


def look_at_ports() -> tuple[list[Line], list[Problem]]:
    """The two ports of the product: who has them."""
    chat, server = (ports.fault("127.0.0.1", port) is not None for port in (CHAT_PORT, SERVER_PORT))
    said = {True: "已被占用 / taken", False: "空闲 / free"}
    lines = [(f"{CHAT_PORT} 聊天页面", said[chat]), (f"{SERVER_PORT} make serve", said[server])]
    taken = Words(
        f"端口 {CHAT_PORT} 已被占用（也许知答已在运行）：请关闭占用它的程序，或用 make run PORT={CHAT_PORT + 10}。",
        f"Port {CHAT_PORT} is taken (by this app, already running?): close it, or make run PORT={CHAT_PORT + 10}.",
    )
    return lines, [Problem(taken)] if chat else []


def data_problems(settings: Settings) -> Iterator[Problem]:
    """A data folder that cannot be written."""
    if words := settings.unwritable():
        yield Problem(words)


def main() -> int:
    """Print the report; 0 if all that is needed is there."""
    report = examine()
    print(report.text())
    return 0 if report.starts else 1


if __name__ == "__main__":
    sys.exit(main())
