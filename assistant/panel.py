"""The settings panel: sampling for this chat, and the GPU profile, which is the whole engine's."""

import asyncio
from collections.abc import Mapping
from typing import Any

import chainlit as cl
from chainlit.input_widget import InputWidget, Select, Slider, Switch, TextInput

from assistant import texts
from assistant.turn import Preferences
from engine.base import Sampling
from engine.errors import ConfigurationError
from engine.host import EngineHost
from engine.profiles import Profile, load_profiles
from engine.settings import Settings
from engine.words import Words
from knowledge import grounding

QUOTING = 0.1
"""The temperature of the knowledge assistant: it is to repeat what stands in the documents, not to find words of its own."""
LONGEST_SHARE = 2
"""The longest answer may take half of the window."""


def default_preferences(settings: Settings, language: str, is_knowledge: bool = False) -> Preferences:
    """What a new chat starts with."""
    longest = min(settings.engine_max_tokens, settings.engine_max_model_len // LONGEST_SHARE)
    if is_knowledge:
        return Preferences(Sampling(temperature=QUOTING, max_tokens=longest), grounding.SYSTEM_PROMPT.speak(language))
    return Preferences(Sampling(max_tokens=longest), texts.SYSTEM_PROMPT.speak(language))


def read_preferences(values: Mapping[str, Any], settings: Settings) -> Preferences:
    """The panel's values, held within their ranges."""
    longest = settings.engine_max_model_len // LONGEST_SHARE
    return Preferences(
        sampling=Sampling(
            temperature=min(max(float(values["temperature"]), 0.0), 2.0),
            top_p=min(max(float(values["top_p"]), 0.01), 1.0),
            max_tokens=min(max(int(values["max_tokens"]), 16), longest),
        ),
        system=str(values["system"] or ""),
        show_speed=bool(values["show_speed"]),
    )


async def show(
    host: EngineHost, settings: Settings, preferences: Preferences, language: str, may_switch: bool, has_console: bool
) -> None:
    """Send the panel to this browser, with the values in force."""
    profile = await asyncio.to_thread(_profile, host, settings, language, may_switch)  # reads the profiles
    await cl.ChatSettings(
        [
            profile,
            *_sampling(settings, preferences, language),
            Switch(
                id="console",
                label=texts.CONSOLE_SWITCH.speak(language),
                description=texts.CONSOLE_SWITCH_HINT.speak(language),
                initial=has_console,
            ),
        ]
    ).send()


def _sampling(settings: Settings, preferences: Preferences, language: str) -> list[InputWidget]:
    def say(zh: str, en: str) -> str:
        return Words(zh, en).speak(language)

    sampling = preferences.sampling
    return [
        Slider(
            id="temperature",
            label=say("温度", "Temperature"),
            description=say(
                "越高越发散，越低越稳定；0 表示总取最可能的词", "Higher is freer, lower steadier; 0 is greedy"
            ),
            initial=sampling.temperature,
            min=0,
            max=2,
            step=0.05,
        ),
        Slider(
            id="top_p",
            label="top_p",
            description=say("只在累计概率达到此值的词中选择", "Choose among the words that make up this probability"),
            initial=sampling.top_p,
            min=0.05,
            max=1,
            step=0.05,
        ),
        Slider(
            id="max_tokens",
            label=say("最长回答（词元）", "Longest answer (tokens)"),
            description=say("越长，留给历史的位置越少", "The longer, the less room for history"),
            initial=sampling.max_tokens,
            min=16,
            max=settings.engine_max_model_len // LONGEST_SHARE,
            step=16,
        ),
        TextInput(id="system", label=say("系统提示词", "System prompt"), initial=preferences.system, multiline=True),
        Switch(id="show_speed", label=say("显示速度", "Show speed"), initial=preferences.show_speed),
    ]


def _profile(host: EngineHost, settings: Settings, language: str, may_switch: bool) -> InputWidget:
    """The profile in force, its reason, and the others."""
    label = Words("显卡配置（影响所有人）", "GPU profile (concerns everybody)").speak(language)
    choice = host.plan.choice if host.plan else None
    if choice is None:
        outside = Words("由模型服务决定", "Decided by the model server").speak(language)
        return Select(id="profile", label=label, items={outside: "auto"}, initial_value="auto", disabled=True)
    in_force = Words("（使用中）", " (in force)").speak(language)
    items = {Words("auto（自动选择）", "auto").speak(language): "auto"}
    for profile in _offered(settings, choice.profile):
        mark = in_force if profile.name == choice.profile.name else ""
        items[f"{profile.title}{mark}"] = profile.name
    return Select(
        id="profile",
        label=label,
        items=items,
        initial_value=host.wanted,
        description=choice.reason.speak(language),
        disabled=not may_switch,
    )


def _offered(settings: Settings, in_force: Profile) -> list[Profile]:
    """All profiles; the one in force alone where the user's file has become unusable since the start."""
    try:
        return list(load_profiles(settings.engine_profiles).values())
    except ConfigurationError:
        return [in_force]
