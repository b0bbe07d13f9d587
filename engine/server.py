"""ServerEngine: answers from an OpenAI-compatible server, vLLM's above all. The one file that imports openai."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx2
from openai import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncAPIResponse,
    AsyncOpenAI,
    ContentFilterFinishReasonError,
    OpenAIError,
)
from openai.types.chat import ChatCompletionMessageParam
from pydantic import ValidationError

from engine.answer import BROKEN, FILTERED, Answer
from engine.base import (
    ChatMessage,
    Delta,
    EngineHealth,
    EngineInfo,
    EngineState,
    Loading,
    OnLoading,
    Sampling,
    Usage,
)
from engine.counting import Counter, local_counter
from engine.demo import QWEN
from engine.endpoint import Card, Endpoint, Tokenized, is_local
from engine.errors import ConfigurationError, EngineDead, EngineTimeout, RequestRejected, StreamBroken, ZhidaError
from engine.frames import Frame, Frames
from engine.refusals import GARBLED, SICK, SILENT, not_a_server, obstacle, refusal, refused, unreachable
from engine.words import Words

log = logging.getLogger(__name__)

POLL_S = 1.0
FIRST_CHUNK_S = 120.0
"""A prompt of 4096 tokens takes two cores about 20 s; behind others in the server's queue, several times that."""
NEXT_CHUNK_S = 60.0
USAGE_S = 5.0
"""How long to wait for the usage after the finish reason: a server that never says [DONE] may just stay silent."""
SILENCES = 3
"""Health checks in a row that time out before the server counts as dead: a busy one answers late."""

FAULTS = (OpenAIError, httpx2.HTTPError, OSError, ValueError, TimeoutError)
"""What a broken server makes its client raise; ValueError: JSON or UTF-8 that is none."""

CONNECTING = Words("模型服务启动中", "The model server is starting")
STOPPED = Words("引擎已停止。", "The engine has stopped.")


def translate(error: Exception, window: int = 0, answering: bool = False) -> ZhidaError:
    """Any exception of openai's or of its HTTP client's as one of ours; `answering`: the response had begun."""
    match error:
        case APITimeoutError() | httpx2.TimeoutException() | TimeoutError():
            never_met = isinstance(error.__cause__ or error, httpx2.ConnectTimeout)
            return EngineDead(_gone(error)) if never_met else EngineTimeout(SILENT)
        case APIConnectionError() | httpx2.RequestError() | OSError():
            return StreamBroken(BROKEN) if answering else EngineDead(_gone(error))
        case APIStatusError():
            return refusal(error.status_code, f"{error.code} {error.message}", window)
        case httpx2.HTTPStatusError():
            return refusal(error.response.status_code, error.response.text, window)
        case ContentFilterFinishReasonError():
            return RequestRejected(FILTERED)
        case _:
            return StreamBroken(BROKEN) if answering else RequestRejected(GARBLED)


def _gone(error: Exception) -> Words:
    """Who does not answer, and what to do about it."""
    request = getattr(error, "request", None)
    if not isinstance(request, httpx2.Request):
        return SICK
    return unreachable(f"{request.url.scheme}://{request.url.netloc.decode()}", is_local(request.url.host))


class ServerEngine:
    """An Engine in front of `base_url`; `model` picks one where the server has several."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        window_limit: int,
        tokenizer_folder: Path | None = None,
        model: str | None = None,
    ) -> None:
        """Raises ConfigurationError where `base_url` is no address. Reads certificates: blocks."""
        self._address, self._wanted = (base_url, api_key), model
        self._limit, self._folder = window_limit, tokenizer_folder
        self._open()
        self._info = EngineInfo("", window_limit)
        self._state, self._reason = EngineState.LOADING, CONNECTING
        self._counter: Counter | None = None
        self._stopped = asyncio.Event()
        self._silences = 0
        self._counted: tuple[Sequence[ChatMessage], int] = ([], 0)

    @property
    def info(self) -> EngineInfo:
        """What is served; final once `start` has returned."""
        return self._info

    async def start(self, on_loading: OnLoading) -> None:
        """Wait, for ever if need be, until the server answers. It warms itself: no question is sent that nobody asked.

        Raises ConfigurationError where waiting cannot help, EngineDead when stopped meanwhile.
        """
        if self._stopped.is_set():
            await asyncio.to_thread(self._open)
            self._stopped.clear()
        self._state, self._reason = EngineState.LOADING, CONNECTING
        on_loading(Loading(CONNECTING))
        while not self._stopped.is_set():
            try:
                await self._meet()
            except ValidationError as error:
                raise ConfigurationError(not_a_server(self._endpoint)) from error
            except httpx2.HTTPError as error:
                self._tell(obstacle(error, self._endpoint), on_loading)
            except RuntimeError:  # what a closed client says
                if not self._stopped.is_set():
                    raise
            else:
                self._state, self._silences = EngineState.READY, 0
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), POLL_S)
        raise EngineDead(STOPPED)

    async def stop(self) -> None:
        """Close every connection; the server itself goes on."""
        self._state, self._reason = EngineState.DEAD, STOPPED
        self._stopped.set()
        await self._endpoint.close()

    async def health(self) -> EngineHealth:
        """The state now, asked of the server. Raises nothing."""
        if self._state is not EngineState.READY:
            return EngineHealth(self._state, self._reason)
        try:
            await self._endpoint.ping()
            self._silences = 0
            load = await self._endpoint.load()
        except httpx2.ReadTimeout:
            self._silences += 1
            dead = self._silences >= SILENCES
            return EngineHealth(EngineState.DEAD, SILENT) if dead else EngineHealth(EngineState.READY)
        except httpx2.HTTPStatusError:
            return EngineHealth(EngineState.DEAD, SICK)
        except (httpx2.HTTPError, RuntimeError):  # RuntimeError: stopped meanwhile
            return EngineHealth(EngineState.DEAD, unreachable(self._endpoint.address, self._endpoint.is_local))
        return EngineHealth(
            EngineState.READY, None, load.running, load.waiting, load.kv_use, load.preemptions, load.generated
        )

    async def count(self, messages: Sequence[ChatMessage]) -> int:
        """Exact by the server or the model's own tokenizer, else an estimate from above."""
        size = await self._count(messages)
        self._counted = (list(messages), size)
        return size

    async def _count(self, messages: Sequence[ChatMessage]) -> int:
        if self._counter is None:
            tokenized = await self._tokenize({"messages": list(messages)})
            if tokenized is not None:
                return tokenized.count
        return await asyncio.to_thread((await self._local_counter()).messages, messages)

    async def _room(self, messages: Sequence[ChatMessage]) -> int:
        """Tokens that the window leaves for an answer, at least one; vLLM 0.29 refuses to be asked for more.

        Whoever has just counted these messages is not made to wait for it again.
        """
        known, size = self._counted
        if known != messages:
            size = await self._count(messages)
        return max(1, self._info.window - size)

    async def stream(
        self, messages: Sequence[ChatMessage], sampling: Sampling, request_id: str
    ) -> AsyncGenerator[Delta, None]:
        """The answer; one POST, never repeated. Leaving it, however that comes about, closes the connection."""
        if self._state is not EngineState.READY:
            raise EngineDead(self._reason)
        answer = Answer()
        try:
            async with contextlib.AsyncExitStack() as open_response:
                async with asyncio.timeout(FIRST_CHUNK_S):
                    longest = min(sampling.max_tokens, await self._room(messages))
                    asked = self._ask(messages, replace(sampling, max_tokens=longest), request_id)
                    response = await open_response.enter_async_context(asked)
                received, frames = response.iter_bytes(), Frames()
                while not frames.done and (piece := await _next(received, answer)):
                    if text := "".join([self._take(frame, answer) for frame in frames.feed(piece)]):
                        yield Delta(text)
            if answer.finish is None:
                raise StreamBroken(BROKEN)
        except FAULTS as error:
            log.warning("request %s: %s", request_id, type(error).__name__)
            raise translate(error, self._info.window, answer.begun) from error
        usage = answer.usage or await self._usage(messages, answer.text)
        yield Delta("", answer.finish, usage, answer.timings)

    def _open(self) -> None:
        self._endpoint = Endpoint(*self._address, read_s=FIRST_CHUNK_S)
        self._openai = AsyncOpenAI(
            base_url=self._endpoint.base,
            api_key=self._address[1] or "none",
            max_retries=0,
            timeout=self._endpoint.client.timeout,
            http_client=self._endpoint.client,
        )

    def _tell(self, step: Words, on_loading: OnLoading) -> None:
        """Report a step once, however often it is met."""
        if step != self._reason:
            self._reason = step
            on_loading(Loading(step))

    async def _meet(self) -> None:
        """Learn what the server has. Raises httpx2.HTTPError while it is not ready."""
        cards = await self._endpoint.cards()
        await self._endpoint.ping()
        card = self._choose(cards)
        self._info = EngineInfo(card.id, self._limit)
        self._counter = None
        window = card.max_model_len
        tokenized = await self._try_tokenize()
        if tokenized is None:
            await self._local_counter()
        elif window is None:
            window = tokenized.max_model_len
        self._info = EngineInfo(card.id, min(window or self._limit, self._limit), is_demo=card.id == QWEN.title)

    def _choose(self, cards: Sequence[Card]) -> Card:
        if not cards:
            raise ConfigurationError(
                Words(f"{self._endpoint.address} 上没有任何模型。", f"{self._endpoint.address} serves no model.")
            )
        return next((card for card in cards if card.id == self._wanted), cards[0])

    async def _try_tokenize(self) -> Tokenized | None:
        """A first, tiny count; None where the server cannot count a conversation."""
        body = {"model": self._info.model, "messages": [ChatMessage(role="user", content="你好")]}
        try:
            return await self._endpoint.tokenize(body)
        except (httpx2.HTTPStatusError, ValidationError):  # it has the path, for something else
            return None

    async def _tokenize(self, body: dict[str, object]) -> Tokenized | None:
        if self._state is not EngineState.READY:
            raise EngineDead(self._reason)
        try:
            return await self._endpoint.tokenize({"model": self._info.model, **body})
        except FAULTS as error:
            raise translate(error, self._info.window) from error

    async def _local_counter(self) -> Counter:
        if self._counter is None:
            self._counter = await asyncio.to_thread(local_counter, self._folder)
            if not self._counter.exact:
                log.warning("the server has no /tokenize and no local tokenizer was found: token counts are estimates")
        return self._counter

    async def _usage(self, messages: Sequence[ChatMessage], text: str) -> Usage | None:
        """The counts that the server kept to itself; None where they cannot be had: the answer is whole anyway."""
        try:
            prompt_tokens = await self.count(messages)
            if self._counter is not None:
                return Usage(prompt_tokens, await asyncio.to_thread(self._counter.text, text))
            tokenized = await self._tokenize({"prompt": text, "add_special_tokens": False})
        except ZhidaError:
            return None
        return None if tokenized is None else Usage(prompt_tokens, tokenized.count)

    def _ask(
        self, messages: Sequence[ChatMessage], sampling: Sampling, request_id: str
    ) -> AbstractAsyncContextManager[AsyncAPIResponse[Any]]:
        """The raw response: what the client makes of every token costs more than all else (engine/frames.py)."""
        return self._openai.chat.completions.with_streaming_response.create(
            model=self._info.model,
            messages=cast(list[ChatCompletionMessageParam], list(messages)),  # one type for all roles, not one a role
            stream=True,
            stream_options={"include_usage": True},
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            extra_body={"ignore_eos": True} if sampling.ignore_eos else None,
            extra_headers={"X-Request-Id": request_id},
        )

    def _take(self, frame: Frame, answer: Answer) -> str:
        """Hand a frame's parts to `answer`. Raises what an error frame means."""
        if frame.error:
            raise StreamBroken(BROKEN) if answer.begun else refused(frame.error, self._info.window)
        usage = Usage(frame.usage.prompt_tokens, frame.usage.completion_tokens) if frame.usage else None
        return answer.take(frame.content, frame.finish_reason, usage)


async def _next(received: AsyncIterator[bytes], answer: Answer) -> bytes:
    """What arrives next, nothing at the end; after the finish reason, silence and a lost connection are ends too."""
    if answer.complete:
        return b""
    patience = USAGE_S if answer.finish else NEXT_CHUNK_S if answer.begun else FIRST_CHUNK_S
    try:
        async with asyncio.timeout(patience):
            return await anext(received, b"")
    except (TimeoutError, httpx2.RequestError):
        if answer.finish:
            return b""
        raise
