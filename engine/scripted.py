"""ScriptedEngine: plays a TOML script, for tests and for trying the page without a model.

    [engine]  model, window, load_s (seconds of loading), tokens_a_character
    [[rules]] match (a regular expression, searched in the newest question; every question without it)
              text, cut into pieces of characters_a_delta; or pieces, as they are
              first_delay_s, delay_s (between pieces), finish ("stop" or "length")
              error (a class of engine/errors.py), raised after the number of pieces in `after` (all of them without it)

The first rule that matches answers. Script and defaults: engine/scripts/demo.toml.
"""

import asyncio
import math
import re
import time
import tomllib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine import errors
from engine.base import (
    ChatMessage,
    Delta,
    EngineHealth,
    EngineInfo,
    EngineState,
    FinishReason,
    Loading,
    OnLoading,
    Sampling,
    Timings,
    Usage,
)
from engine.cleantext import CleanText
from engine.words import Words

DEMO = Path(__file__).parent / "scripts" / "demo.toml"
MESSAGE_OVERHEAD = 4
LOADING = Words("演示脚本加载中", "Loading the script")
STOPPED = Words("引擎已停止。", "The engine has stopped.")
PLAYED = Words("演示脚本按要求出了这个错误。", "The script asked for this error.")
NO_RULE = Words("演示脚本里没有与这个问题匹配的规则。", "No rule of the script matches this question.")

Fault = Literal["EngineBusy", "EngineTimeout", "StreamBroken", "RequestRejected", "PromptTooLong", "EngineDead"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Engine(_Strict):
    model: str = "scripted"
    window: int = Field(4096, gt=0)
    load_s: float = Field(0, ge=0)
    tokens_a_character: float = Field(0.65, gt=0)


class _Rule(_Strict):
    match: re.Pattern[str] = re.compile("")
    text: str = ""
    pieces: list[str] | None = None
    characters_a_delta: int = Field(3, gt=0)
    first_delay_s: float = Field(0, ge=0)
    delay_s: float = Field(0, ge=0)
    error: Fault | None = None
    after: int | None = Field(None, ge=0)
    finish: FinishReason = FinishReason.STOP

    def parts(self) -> list[str]:
        """The pieces to play before the end, or before the error."""
        text, step = self.text.strip(), self.characters_a_delta
        pieces = self.pieces or [text[start : start + step] for start in range(0, len(text), step)]
        return pieces if self.error is None else pieces[: self.after]


class Script(_Strict):
    """A whole script."""

    engine: _Engine = _Engine()
    rules: list[_Rule]

    @classmethod
    def read(cls, path: Path) -> "Script":
        """Raises ConfigurationError naming the file, and the place where it is wrong."""
        try:
            return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise errors.ConfigurationError(
                Words(f"脚本 {path} 无法读取，请检查 ENGINE_SCRIPT。", f"The script {path} cannot be read: {error}.")
            ) from error
        except ValidationError as error:
            place = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise errors.ConfigurationError(
                Words(f"脚本 {path} 中的 {place} 有误。", f"{place} in the script {path}: {error.errors()[0]['msg']}.")
            ) from error


class ScriptedEngine:
    """An Engine without a model."""

    def __init__(self, script: Path | None = None) -> None:
        """Raises ConfigurationError for a script that cannot be played. Reads it: blocks."""
        self._script = Script.read(script or DEMO)
        self._state, self._reason = EngineState.LOADING, LOADING
        self._running = 0

    @property
    def info(self) -> EngineInfo:
        """As the script says."""
        return EngineInfo(self._script.engine.model, self._script.engine.window)

    async def start(self, on_loading: OnLoading) -> None:
        """Take `load_s` seconds to be ready, in ten steps."""
        self._state, self._reason = EngineState.LOADING, LOADING
        for tenth in range(10):
            on_loading(Loading(LOADING, tenth / 10))
            await asyncio.sleep(self._script.engine.load_s / 10)
        self._state = EngineState.READY

    async def stop(self) -> None:
        """Be dead; running answers end with EngineDead at their next piece."""
        self.die(STOPPED)

    def die(self, reason: Words = STOPPED) -> None:
        """What a crash would do."""
        self._state, self._reason = EngineState.DEAD, reason

    async def health(self) -> EngineHealth:
        """The true state; nothing ever waits."""
        if self._state is EngineState.READY:
            return EngineHealth(self._state, None, self._running, 0)
        return EngineHealth(self._state, self._reason)

    async def count(self, messages: Sequence[ChatMessage]) -> int:
        """`tokens_a_character` for each character, rounded up a message, and MESSAGE_OVERHEAD for each message."""
        self._check()
        return sum(self._tokens(message["content"]) + MESSAGE_OVERHEAD for message in messages)

    async def stream(
        self, messages: Sequence[ChatMessage], sampling: Sampling, request_id: str
    ) -> AsyncGenerator[Delta, None]:
        """The first matching rule's pieces, cut off at `max_tokens`."""
        size = await self.count(messages)
        if size > self.info.window:
            raise errors.PromptTooLong(self.info.window, size)
        rule = next((rule for rule in self._script.rules if rule.match.search(messages[-1]["content"])), None)
        if rule is None:
            raise errors.RequestRejected(NO_RULE)
        self._running += 1
        try:
            async for delta in self._play(rule, min(sampling.max_tokens, self.info.window - size), size):
                yield delta
        finally:
            self._running -= 1

    async def _play(self, rule: _Rule, room: int, prompt_tokens: int) -> AsyncGenerator[Delta, None]:
        begun = time.monotonic()
        first, said, finish, clean = None, "", rule.finish, CleanText()
        await asyncio.sleep(rule.first_delay_s)
        for piece in rule.parts():
            self._check()
            if self._tokens(said + piece) > room:
                finish = FinishReason.LENGTH
                break
            said += piece
            first = first or time.monotonic()
            yield Delta(clean.feed(piece))
            await asyncio.sleep(rule.delay_s)
        else:
            if rule.error:
                raise self._fault(rule.error)
        end = time.monotonic()
        usage = Usage(prompt_tokens, self._tokens(said))
        yield Delta("", finish, usage, Timings((first or end) - begun, end - begun))

    def _fault(self, name: Fault) -> errors.ZhidaError:
        if name == "PromptTooLong":
            return errors.PromptTooLong(self.info.window)
        if name == "EngineDead":
            self.die(PLAYED)
        kind: type[errors.ZhidaError] = getattr(errors, name)
        return kind(PLAYED)

    def _check(self) -> None:
        if self._state is not EngineState.READY:
            raise errors.EngineDead(self._reason)

    def _tokens(self, text: str) -> int:
        return math.ceil(len(text) * self._script.engine.tokens_a_character)
