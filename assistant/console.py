"""The console in the page: the command that opens it, and its element (public/elements/EngineConsole.jsx)."""

import chainlit as cl
from chainlit.types import CommandDict

from assistant import texts
from engine.host import EngineHost
from engine.profiles import load_profiles
from engine.settings import Settings

ELEMENT = "EngineConsole"
COMMANDS = (texts.CONSOLE.zh, texts.CONSOLE.en)


def command(language: str) -> CommandDict:
    """The command that opens the panel, as the composer offers it."""
    return CommandDict(
        id=texts.CONSOLE.speak(language),
        description=texts.CONSOLE_HINT.speak(language),
        icon="activity",
        button=True,
        persistent=False,
        selected=False,
    )


def element(host: EngineHost, settings: Settings, may_control: bool) -> cl.CustomElement:
    """The panel; its buttons are there for those who may press them, which is checked again when they do.

    Reads the profiles: blocks.
    """
    has_profiles = may_control and host.plan is not None and host.plan.choice is not None
    profiles = [{"name": "auto", "title": "auto"}]
    profiles += [
        {"name": profile.name, "title": profile.title} for profile in load_profiles(settings.engine_profiles).values()
    ]
    props = {"mayControl": may_control, "profiles": profiles if has_profiles else []}
    return cl.CustomElement(name=ELEMENT, display="inline", props=props)
