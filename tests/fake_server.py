"""A real HTTP server on localhost that does what a healthy vLLM never does: it hangs, resets, fails, and starts slowly.

In a test:            async with FakeServer(chat="reset", after=2) as server: ServerEngine(server.base_url, …)
Beside a browser:     python -m tests.fake_server --port 0 --behaviour hang        (prints its address)
Other behaviour:      POST /_behaviour with fields of Behaviour, or {"preset": "hang"}; GET /_state says what happened.
"""

import argparse
import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from tests.fake_http import Exchange

SENTENCE = ["你好", "，", "我是", "知答", "。", "很高兴", "为您", "服务", "！"]
MODEL = "fake-model"


class Behaviour(BaseModel):
    """What the server does from now on. `after` counts pieces of text; `times` limits `status` and `too_long`."""

    model_config = ConfigDict(extra="forbid")

    chat: Literal["answer", "hang", "reset", "close", "garbage", "error_frame"] = "answer"
    after: int = 0
    pieces: list[str] = SENTENCE
    repeat: int = 1
    delay_s: float = 0.0
    first_delay_s: float = 0.0
    leading_empty: int = 1
    empty_choices: int = 0
    finish: str | None = "stop"
    usage: bool = True
    done: bool = True
    hold_open: bool = False
    status: int | None = None
    too_long: bool = False
    message: str = "internal details that nobody should see"
    times: int | None = None
    loading_s: float = 0.0
    loading: Literal["503", "hang", "ready"] = "ready"
    models: Literal["cards", "404", "html", "none", "401"] = "cards"
    model: str = MODEL
    max_model_len: int | None = 4096
    tokenize: Literal["vllm", "404", "llamacpp", "hang"] = "vllm"
    tokenize_max_model_len: int | None = 4096
    health: Literal["200", "404", "503", "hang"] = "200"
    metrics: Literal["new", "old", "bare", "404"] = "new"
    key: str | None = None


PRESETS: dict[str, dict[str, Any]] = {
    "answer": {},
    "slow": {"delay_s": 0.2, "repeat": 40},
    "hang": {"chat": "hang"},
    "hang_midway": {"chat": "hang", "after": 3},
    "reset": {"chat": "reset", "after": 3},
    "error_once": {"status": 500, "times": 1},
    "loading": {"loading": "503", "loading_s": 60},
    "refuses": {"status": 503},
    "too_long_once": {"too_long": True, "times": 1},
    "empty": {"pieces": [], "leading_empty": 3},
    "foreign": {"tokenize": "404", "max_model_len": None, "health": "404", "metrics": "404", "usage": False},
}


def tokens(messages: Sequence[Mapping[str, object]]) -> int:
    """This server's way of counting: a token a character, four a message, three a prompt."""
    return sum(len(str(message["content"])) + 4 for message in messages) + 3


class FakeServer:
    """Listens while its `async with` block lasts."""

    def __init__(self, port: int = 0, **behaviour: Any) -> None:
        self.behaviour = Behaviour(**behaviour)
        self.port = port
        self.posts: Counter[str] = Counter()
        self.gets: Counter[str] = Counter()
        self.streams = 0
        self.dropped = 0
        """Streams that the client closed before their end."""
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._since = time.monotonic()
        self._changed = asyncio.Condition()
        self._talks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    @property
    def root(self) -> str:
        """The address without /v1."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What belongs into ENGINE_BASE_URL."""
        return f"{self.root}/v1"

    @property
    def questions(self) -> int:
        """How often a chat completion was asked for."""
        return self.posts["/v1/chat/completions"]

    def behave(self, **behaviour: Any) -> None:
        """Change the behaviour; what is not named goes back to its default."""
        preset = PRESETS[behaviour.pop("preset")] if "preset" in behaviour else {}
        self.behaviour = Behaviour(**preset, **behaviour)
        self._since = time.monotonic()

    async def until(self, condition: Callable[[Self], bool]) -> None:
        """Wait until `condition` holds; asked again whenever something happens here. Raises TimeoutError after 10 s."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: condition(self))

    def state(self) -> dict[str, Any]:
        """What GET /_state says."""
        return {
            "posts": dict(self.posts),
            "streams": self.streams,
            "dropped": self.dropped,
            "behaviour": self.behaviour.model_dump(),
            "last": self.bodies[-1] if self.bodies else None,
        }

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.current_task()
        assert talk
        self._talks.add(talk)
        try:
            await self._talk(Exchange(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or this server ends: Python 3.11's streams log a cancelled talk as a fault
        finally:
            self._talks.discard(talk)
            writer.close()
            await self._tell()

    async def _talk(self, exchange: Exchange) -> None:
        method, path, headers, body = await exchange.request()
        (self.posts if method == "POST" else self.gets)[path] += 1
        await self._tell()
        if path == "/_behaviour":
            self.behave(**body)
            await exchange.reply(200, {})
        elif path == "/_state":
            await exchange.reply(200, self.state())
        elif self._still_loading():
            if self.behaviour.loading == "hang":
                await exchange.client_gone()
            await exchange.reply(503, {"error": {"message": "loading"}})
        elif path.startswith("/v1/") and self.behaviour.key and headers.get("authorization") != self._bearer():
            await exchange.reply(401, {"error": "Unauthorized"})
        elif path == "/v1/chat/completions":
            self.bodies.append(body)
            self.headers.append(headers)
            await self._chat(exchange, body)
        else:
            await self._page(exchange, path, body)

    def _bearer(self) -> str:
        return f"Bearer {self.behaviour.key}"

    def _still_loading(self) -> bool:
        """Loading lasts `loading_s`, or until the behaviour changes where that is 0."""
        limit = self.behaviour.loading_s
        return self.behaviour.loading != "ready" and (limit == 0 or time.monotonic() - self._since < limit)

    async def _page(self, exchange: Exchange, path: str, body: dict[str, Any]) -> None:
        """Everything but the chat."""
        now = self.behaviour
        card = {"id": now.model, "object": "model", "max_model_len": now.max_model_len}
        match path, now.models, now.tokenize, now.health:
            case "/v1/models", "cards", _, _:
                await exchange.reply(200, {"object": "list", "data": [card]})
            case "/v1/models", "none", _, _:
                await exchange.reply(200, {"object": "list", "data": []})
            case "/v1/models", "html", _, _:
                await exchange.reply(200, "<html>Chainlit</html>")
            case "/v1/models", "401", _, _:
                await exchange.reply(401, {"error": "Unauthorized"})
            case ("/tokenize", _, "hang", _) | ("/health", _, _, "hang"):
                await exchange.client_gone()
            case "/tokenize", _, "vllm", _:
                count = tokens(body["messages"]) if "messages" in body else len(body["prompt"])
                await exchange.reply(200, {"count": count, "max_model_len": now.tokenize_max_model_len, "tokens": []})
            case "/tokenize", _, "llamacpp", _:
                await exchange.reply(200, {"tokens": []})
            case "/health", _, _, "200" | "503":
                await exchange.reply(int(now.health), "")
            case ("/metrics", *_) if now.metrics != "404":
                await exchange.reply(200, self._metrics())
            case _:
                await exchange.reply(404, {"detail": "Not Found"})

    def _metrics(self) -> str:
        """A Prometheus page with today's names, those before vLLM 0.11, or neither."""
        if self.behaviour.metrics == "bare":
            return "python_info 1.0\n"
        use = "kv_cache_usage_perc" if self.behaviour.metrics == "new" else "gpu_cache_usage_perc"
        labels = f'{{engine="0",model_name="{MODEL}"}}'
        return (
            f"# HELP vllm:num_requests_running Running.\n# TYPE vllm:num_requests_running gauge\n"
            f"vllm:num_requests_running{labels} {self.streams}.0\nvllm:num_requests_waiting{labels} 0.0\n"
            f'vllm:num_requests_waiting_by_reason{{reason="capacity"}} 7.0\nvllm:{use}{labels} 0.25\n'
        )

    async def _chat(self, exchange: Exchange, body: dict[str, Any]) -> None:
        now = self.behaviour
        if (now.status or now.too_long) and self._once_more():
            await exchange.reply(*self._refusal(body))
        elif now.chat == "hang" and not now.after:
            await exchange.client_gone()
        elif now.chat == "reset" and not now.after:
            exchange.reset()
        else:
            await self._stream(exchange, body)

    def _once_more(self) -> bool:
        if self.behaviour.times is None:
            return True
        self.behaviour.times -= 1
        return self.behaviour.times >= 0

    def _refusal(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, message = self.behaviour.status or 400, self.behaviour.message
        if self.behaviour.too_long:
            reply = body["max_tokens"]
            message = (
                f"This model's maximum context length is 4096 tokens. However, you requested {reply} output tokens "
                f"and your prompt contains 5000 input tokens, for a total of {reply + 5000} tokens."
            )
        return status, {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}

    async def _stream(self, exchange: Exchange, body: dict[str, Any]) -> None:
        self.streams += 1
        await self._tell()
        gone = asyncio.create_task(exchange.client_gone())
        speech = asyncio.create_task(self._speak(exchange, body))
        try:
            await asyncio.wait({gone, speech}, return_when=asyncio.FIRST_COMPLETED)
            if not speech.done() or speech.exception():
                self.dropped += 1
        finally:
            self.streams -= 1
            for task in (gone, speech):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await task

    async def _speak(self, exchange: Exchange, body: dict[str, Any]) -> None:
        now = self.behaviour
        await exchange.begin_events()
        await asyncio.sleep(now.first_delay_s)
        async for event in self._events(now, body):
            if event == "fault":
                await _misbehave(exchange, now.chat)
                return
            await exchange.event(event)
            await asyncio.sleep(now.delay_s)
        if now.hold_open:
            await asyncio.Event().wait()
        await exchange.end_events()

    async def _events(self, now: Behaviour, body: dict[str, Any]) -> AsyncIterator[str]:
        """The `data:` lines in order; "fault" where the behaviour says so."""
        for _ in range(now.empty_choices):
            yield json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": []})
        for _ in range(now.leading_empty):
            yield _chunk("")
        pieces = now.pieces * now.repeat
        for number, piece in enumerate(pieces):
            if now.chat != "answer" and number == now.after:
                yield "fault"
                return
            yield _chunk(piece)
        if now.finish:
            yield _chunk("", now.finish)
        if now.usage:
            used = {"prompt_tokens": tokens(body["messages"]), "completion_tokens": len(pieces)}
            yield json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": used})
        if now.done:
            yield "[DONE]"

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _chunk(text: str, finish: str | None = None) -> str:
    """One chunk; json.dumps writes a lone surrogate as the escape that servers send."""
    delta = {"role": "assistant", "content": text}
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return json.dumps({"id": "c", "object": "chat.completion.chunk", "model": MODEL, "choices": choices})


async def _misbehave(exchange: Exchange, how: str) -> None:
    match how:
        case "reset":
            exchange.reset()
        case "hang":
            await asyncio.Event().wait()
        case "garbage":
            await exchange.event('{"choices": [{"del')
            await exchange.end_events()
        case "error_frame":
            await exchange.event('{"error": {"message": "EngineCore died", "code": 500}}')
            await exchange.end_events()
        case "close":
            exchange.close()


async def _serve(port: int, behaviour: dict[str, Any]) -> None:
    async with FakeServer(port) as server:
        server.behave(**behaviour)
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Serve until interrupted; the first line printed is the base URL."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--behaviour", default="answer", help=f"JSON, or one of: {', '.join(PRESETS)}")
    asked = parser.parse_args()
    chosen = json.loads(asked.behaviour) if asked.behaviour.startswith("{") else {"preset": asked.behaviour}
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(asked.port, chosen))


if __name__ == "__main__":
    main()
