"""A Screen that writes down what the page would show."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from assistant.chat import Chat
from assistant.turn import Footer, Preferences
from engine.base import Engine, Loading, OnLoading, Sampling
from engine.host import EngineHost, Plan
from engine.scripted import ScriptedEngine
from engine.words import Words


@dataclass
class PaperScreen:
    """`shown` is every text that stood in the answer's place, in order."""

    shown: list[str] = field(default_factory=list)
    text: str = ""
    footer: Footer | None = None
    vanished: bool = False
    wrote: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self) -> None:
        self.shown.append("思考中...")

    async def state(self, state: Words) -> None:
        assert not self.text, "a state may not follow text"
        if self.shown[-1] != state.zh:
            self.shown.append(state.zh)

    async def write(self, text: str) -> None:
        self.text += text
        self.wrote.set()

    async def revise(self, text: str) -> None:
        self.text = text

    async def close(self, instead: Words | None, footer: Footer) -> None:
        self.shown.append(self.text or (instead.zh if instead else ""))
        self.footer = footer

    async def vanish(self) -> None:
        self.vanished = True

    @property
    def notices(self) -> list[str]:
        """The footer's notices in Chinese."""
        assert self.footer, "the answer has not ended"
        return [notice.zh for notice in self.footer.notices]


def nothing(loading: Loading) -> None:
    """Hear a loading step and forget it."""


def plan(engine: Engine, concurrent: int = 4, queued: int = 4, restarts: int | None = 3) -> Plan:
    """A plan whose engine is the given one."""

    def build(on_loading: OnLoading) -> Engine:
        return engine

    return Plan(None, build, concurrent, queued, restarts)


def scripted(folder: Path, script: str) -> ScriptedEngine:
    """A ScriptedEngine that plays `script`."""
    path = folder / "script.toml"
    path.write_text(script, encoding="utf-8")
    return ScriptedEngine(path)


def host_of(engine: Engine, concurrent: int = 4, queued: int = 4) -> EngineHost:
    """A host, launched, of one engine."""
    host = EngineHost(lambda profile: plan(engine, concurrent, queued), "auto", nothing)
    host.launch()
    return host


def chat(max_tokens: int = 256) -> Chat:
    """A chat with plain preferences."""
    return Chat(Preferences(Sampling(max_tokens=max_tokens), "系统提示"))
