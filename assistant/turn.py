"""One turn: a question becomes a prompt, waits for its slot, and is answered on the screen."""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from assistant import texts
from assistant.budget import Fitted, TokenCosts, fit
from assistant.conversation import Conversation
from assistant.ground import Basis, FreeTalk, Ground, Reply
from engine.base import Delta, Engine, EngineInfo, EngineState, FinishReason, Sampling
from engine.errors import EngineBusy, EngineDead, PromptTooLong, ZhidaError
from engine.host import EngineHost
from engine.limits import Place
from engine.words import Words
from knowledge.base import Hit
from knowledge.check import Citation

log = logging.getLogger(__name__)

PATIENCE_S = 1800.0
"""How long a question waits for a model that is still loading; a first download takes its time."""
RETRY_SHARE = 0.75
"""Of the window, when a server finds a prompt too long that was counted to fit."""

Ending = Literal["stopped", "left", "superseded"]
WHOLE = ("answered", "length", "not_found")
"""Outcomes of answers that ended by themselves."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a chat's settings panel holds."""

    sampling: Sampling
    system: str
    show_speed: bool = True


@dataclass(slots=True)
class Footer:
    """What stands below an answer."""

    notices: list[Words] = field(default_factory=list)
    facts: list[Words] = field(default_factory=list)
    citations: tuple[Citation, ...] = ()
    warning: bool = False


class Screen(Protocol):
    """The place of one answer on the page."""

    async def open(self) -> None:
        """Take the place, with the placeholder in it."""

    async def state(self, state: Words) -> None:
        """Replace the placeholder; not called once there is text."""

    async def write(self, text: str) -> None:
        """Add to the answer; the first text replaces the placeholder."""

    async def revise(self, text: str) -> None:
        """Put `text` in the place of all that was written."""

    async def close(self, instead: Words | None, footer: Footer) -> None:
        """The end; `instead` is shown where no text was written."""

    async def vanish(self) -> None:
        """Leave no trace."""


@dataclass(slots=True)
class Turn:
    """One question of a chat; `order` makes a chat's questions go one after another."""

    host: EngineHost
    conversation: Conversation
    order: asyncio.Lock
    screen: Screen
    current_ground: Callable[[], Ground]
    preferences: Preferences
    question_id: str
    question: str
    known_costs: dict[tuple[str, str, str], int]
    ending: Ending | None = None
    closing: bool = False
    _text: str = ""
    _ground: Ground = field(default_factory=FreeTalk)
    """The chat's when its turn came: files read before it count."""
    _basis: Basis = field(default_factory=Basis)
    _given: tuple[Hit, ...] = ()
    _footer: Footer = field(default_factory=Footer)

    async def run(self) -> None:
        """Answer, and say on the screen how it ended. Raises nothing."""
        instead: Words | None = texts.EMPTY_ANSWER
        try:
            await self.screen.open()
            async with self.order:
                outcome = await self._answer()
        except asyncio.CancelledError:
            outcome, instead = self.ending or "stopped", texts.STOPPED
            self._footer.notices.append(texts.STOPPED)
        except ZhidaError as error:
            outcome, instead = _outcome(error), self._warn(error.words)
        except Exception:  # a chat never sees a traceback; the console gets it whole
            log.exception("a turn failed")
            outcome, instead = "failed", self._warn(texts.INTERNAL)
        await self._finish(outcome, instead)

    async def _finish(self, outcome: str, instead: Words | None) -> None:
        self.closing = True
        reply = await self._conclude(is_whole=outcome in WHOLE)
        self.conversation.answer(self.question_id, reply.remembered)
        self.host.metrics.question(outcome)
        if self.ending != "superseded":
            self._footer.citations = reply.citations
            self._footer.notices += reply.notices
            if reply.text != self._text:
                await self.screen.revise(reply.text)
            if not reply.text:
                self._footer.notices = [notice for notice in self._footer.notices if notice != instead]
            await self.screen.close(instead, self._footer)
        if self.ending == "superseded":
            await self.screen.vanish()

    async def _conclude(self, is_whole: bool) -> Reply:
        """What is to stand on the page and in the history; the text as it came where there is nothing to check."""
        as_it_came = Reply(self._text, self._text)
        if self.ending == "superseded" or not (self._text or is_whole):
            return as_it_came
        try:
            return self._basis.reply or await self._ground.conclude(self.question, self._text, self._given, is_whole)
        except Exception:  # the answer is there: it is not lost to a fault in what looks at it
            log.exception("an answer could not be checked")
            self._warn(texts.UNCHECKED)
            return as_it_came

    def _warn(self, words: Words) -> Words:
        self._footer.notices.append(words)
        self._footer.warning = True
        return words

    async def _answer(self) -> str:
        """The outcome of an answer that ended by itself."""
        self._ground = self.current_ground()
        if self._ground.searching:
            await self.screen.state(self._ground.searching)
        earlier = self.conversation.questions_before(self.question_id)
        self._basis = await self._ground.find(self.question, earlier)
        if self._basis.reply:
            return "not_found"
        async with self._admitted() as engine:
            try:
                await self.screen.state(texts.THINKING)
                return await self._generate(engine, await self._fit(engine, 1.0))
            except EngineDead:
                self.host.report_death(engine)  # before the slot is free: nobody else is sent there
                raise

    async def _fit(self, engine: Engine, share: float) -> Fitted:
        window = int(engine.info.window * share)
        return await fit(
            self._ground.system(self.preferences.system),
            self.conversation.before(self.question_id),
            self.question,
            reserve=min(self.preferences.sampling.max_tokens, window // 2),
            window=window,
            count=engine.count,
            costs=TokenCosts(engine.count, engine.info.model, self.known_costs),
            passages=self._basis.passages,
        )

    @asynccontextmanager
    async def _admitted(self) -> AsyncIterator[Engine]:
        """The engine, and a slot of the limiter's; meanwhile the screen shows what is waited for.

        Raises EngineBusy where the queue is full, EngineDead where the engine is gone or does not come.
        """
        await self.host.planned()
        arrived, places = time.monotonic(), asyncio.Queue[Place]()
        async with AsyncExitStack() as slot:
            try:
                async with asyncio.timeout(None) as patience:
                    watcher = asyncio.create_task(self._show_waiting(places, patience))
                    try:
                        await slot.enter_async_context(self.host.limiter.slot(places.put_nowait))
                        engine = await self._engine()
                    finally:
                        watcher.cancel()
            except TimeoutError:
                raise EngineDead(self.host.reason or texts.NOT_READY) from None
            self.host.metrics.waited(time.monotonic() - arrived)
            yield engine

    async def _engine(self) -> Engine:
        """The engine that this slot is one of; one that died in the moment of admission is waited for."""
        while (engine := self.host.serving) is None:
            if self.host.state is EngineState.DEAD:
                raise EngineDead(self.host.reason or texts.NOT_READY)
            await self.host.changed(1.0)
        return engine

    async def _show_waiting(self, places: "asyncio.Queue[Place]", patience: asyncio.Timeout) -> None:
        """The engine's loading, for PATIENCE_S at most, or the place in the queue."""
        loop, is_loading = asyncio.get_running_loop(), False
        while not patience.expired():
            was_loading, is_loading = is_loading, self.host.state is EngineState.LOADING
            if is_loading != was_loading:
                patience.reschedule(loop.time() + PATIENCE_S if is_loading else None)
            if is_loading:
                loading, seconds = self.host.loading, int(time.monotonic() - self.host.since)
                await self.screen.state(texts.loading(loading.step, loading.fraction, seconds))
                await self.host.changed(1.0)
            else:
                await self.screen.state(texts.queued(await _newest(places)))

    async def _generate(self, engine: Engine, fitted: Fitted) -> str:
        """Stream the answer; a prompt that the engine finds too long after all is tried once more with less history."""
        self._announce(engine.info, fitted)
        try:
            last = await self._stream(engine, fitted)
        except PromptTooLong:
            if self._text or not fitted.messages[2:]:
                raise
            fitted = await self._fit(engine, RETRY_SHARE)
            self._announce(engine.info, fitted)
            last = await self._stream(engine, fitted)
        return self._sum_up(engine.info, last)

    async def _stream(self, engine: Engine, fitted: Fitted) -> Delta | None:
        """Write all that comes; returns the last Delta."""
        last, pieces = None, 0
        request_id = f"zhida-{uuid.uuid4()}"
        async with aclosing(engine.stream(fitted.messages, self.preferences.sampling, request_id)) as deltas:
            async for delta in deltas:
                if delta.text:
                    self._text += delta.text
                    pieces += 1
                    self.host.metrics.received(1)
                    await self.screen.write(delta.text)
                last = delta
        if last and last.usage:  # a piece is a token, but for those that came together
            self.host.metrics.received(max(0, last.usage.answer_tokens - pieces))
        return last

    def _announce(self, info: EngineInfo, fitted: Fitted) -> None:
        """What holds however the answer ends: its notices, and the passages it was given."""
        self._given = fitted.passages
        left_out = [texts.left_out(fitted.left_out)] if fitted.left_out else []
        self._footer.notices = [*left_out, *([texts.DEMO_ANSWER] if info.is_demo else [])]

    def _sum_up(self, info: EngineInfo, last: Delta | None) -> str:
        """Fill the footer; returns the outcome."""
        if last is None:
            return "answered"
        self.host.metrics.answer(last)
        self._footer.facts = facts(last, info.window, self.preferences.show_speed)
        if last.finish is FinishReason.LENGTH:
            self._footer.notices.append(texts.CUT_OFF)
            return "length"
        return "answered"


def _outcome(error: ZhidaError) -> str:
    """What a failed question counts as."""
    if isinstance(error, PromptTooLong):
        return "too_long"
    return "refused" if isinstance(error, EngineBusy) else "failed"


async def _newest(places: "asyncio.Queue[Place]") -> Place:
    """The last place told, once there is one."""
    place = await places.get()
    while not places.empty():
        place = places.get_nowait()
    return place


def facts(last: Delta, window: int, with_speed: bool) -> list[Words]:
    """First-token time, speed and tokens, as far as the engine gave them."""
    found: list[Words] = []
    if with_speed and last.timings and last.usage:
        found.append(texts.first_token(last.timings.first_token_s))
        decoding = last.timings.total_s - last.timings.first_token_s
        if last.usage.answer_tokens > 1 and decoding > 0:
            found.append(texts.speed((last.usage.answer_tokens - 1) / decoding))
    if last.usage:
        found.append(texts.tokens(last.usage.prompt_tokens, last.usage.answer_tokens, window))
    return found
