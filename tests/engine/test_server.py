"""ServerEngine against a real HTTP server that does what a healthy vLLM never does."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import tiktoken.load

from engine import counting, server
from engine.base import ChatMessage, Delta, EngineState, FinishReason, Loading, Sampling, Usage
from engine.demo import QWEN
from engine.endpoint import is_local
from engine.errors import (
    ConfigurationError,
    EngineBusy,
    EngineDead,
    EngineTimeout,
    PromptTooLong,
    RequestRejected,
    StreamBroken,
    ZhidaError,
)
from engine.figures import Figures, from_text
from engine.server import ServerEngine
from tests.fake_server import MODEL, SENTENCE, FakeServer, tokens

pytestmark = pytest.mark.usefixtures("unblocked")

ROOT = Path(__file__).parents[2]
ANSWER = "".join(SENTENCE)
QUESTION: list[ChatMessage] = [
    {"role": "system", "content": "你是知答。"},
    {"role": "user", "content": "退货期限是 15 天吗？"},
]


def ignore(loading: Loading) -> None:
    """Hear nothing."""


class Steps(list[str]):
    """The loading steps heard so far."""

    def __init__(self) -> None:
        super().__init__()
        self._heard = asyncio.Event()

    def hear(self, loading: Loading) -> None:
        """An OnLoading."""
        self.append(loading.step.zh)
        self._heard.set()

    async def until(self, number: int) -> None:
        """Wait for that many."""
        async with asyncio.timeout(10):
            while len(self) < number:
                self._heard.clear()
                await self._heard.wait()


@asynccontextmanager
async def connected(fake: FakeServer, **options: Any) -> AsyncIterator[ServerEngine]:
    """An engine that has started against `fake`."""
    async with _engine(fake.base_url, **options) as engine:
        await begin(engine)
        yield engine


@asynccontextmanager
async def _engine(base_url: str, **options: Any) -> AsyncIterator[ServerEngine]:
    options = {"api_key": None, "window_limit": 4096} | options
    engine = await asyncio.to_thread(ServerEngine, base_url, **options)
    try:
        yield engine
    finally:
        await engine.stop()


async def begin(engine: ServerEngine) -> None:
    """Start, within 20 s: it would wait for ever."""
    async with asyncio.timeout(20):
        await engine.start(ignore)


async def ask(engine: ServerEngine, **sampling: Any) -> tuple[str, list[Delta], ZhidaError | None]:
    """The text and deltas of one answer, and the error that ended it."""
    deltas: list[Delta] = []
    try:
        async with asyncio.timeout(20):
            async for delta in engine.stream(QUESTION, Sampling(**sampling), "test-1"):
                deltas.append(delta)
    except ZhidaError as error:
        return "".join(delta.text for delta in deltas), deltas, error
    return "".join(delta.text for delta in deltas), deltas, None


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience for a test: fractions of a second."""
    for name in ("FIRST_CHUNK_S", "NEXT_CHUNK_S", "USAGE_S"):
        monkeypatch.setattr(server, name, 0.3)
    monkeypatch.setattr(server, "POLL_S", 0.02)
    monkeypatch.setattr("engine.endpoint.PROBE_S", 0.3)


class TestAnswer:
    """What arrives."""

    async def test_text_then_usage_timings_and_finish(self) -> None:
        """An answer comes piece by piece, and its last delta says what it cost."""
        async with FakeServer(delay_s=0.01) as fake, connected(fake) as engine:
            text, deltas, error = await ask(engine)
            assert (text, error) == (ANSWER, None)
            assert [delta.text for delta in deltas] == [*SENTENCE, ""]
            last = deltas[-1]
            assert last.finish is FinishReason.STOP
            assert last.usage == Usage(await engine.count(QUESTION), len(SENTENCE))
            assert last.timings
            assert 0 < last.timings.first_token_s < last.timings.total_s

    async def test_what_is_sent(self) -> None:
        """Sampling, model, stream options and the request's id reach the server, the question in one POST."""
        async with FakeServer() as fake, connected(fake) as engine:
            await ask(engine, temperature=0.3, top_p=0.5, max_tokens=77)
            assert fake.questions == 1
            assert fake.bodies[-1] == {
                "model": MODEL,
                "messages": QUESTION,
                "stream": True,
                "stream_options": {"include_usage": True},
                "temperature": 0.3,
                "top_p": 0.5,
                "max_tokens": 77,
            }
            assert fake.headers[-1]["x-request-id"] == "test-1"

    async def test_empty_chunks_are_no_text(self) -> None:
        """Chunks without choices, and first chunks without text, yield nothing."""
        async with FakeServer(empty_choices=3, leading_empty=4) as fake, connected(fake) as engine:
            text, deltas, error = await ask(engine)
            assert (text, error, deltas[0].text) == (ANSWER, None, SENTENCE[0])

    async def test_no_text_at_all(self) -> None:
        """An answer without text is an answer, with its finish reason and timings."""
        async with FakeServer(pieces=[]) as fake, connected(fake) as engine:
            text, deltas, error = await ask(engine)
            assert (text, error, len(deltas), deltas[0].finish) == ("", None, 1, FinishReason.STOP)

    @pytest.mark.usefixtures("hurried")
    @pytest.mark.parametrize("hold_open", [False, True])
    @pytest.mark.parametrize("usage", [False, True])
    async def test_without_done(self, usage: bool, hold_open: bool) -> None:
        """An answer whose finish reason came is whole, with or without [DONE], usage, or an end of the connection."""
        async with FakeServer(done=False, usage=usage, hold_open=hold_open) as fake, connected(fake) as engine:
            text, deltas, error = await ask(engine)
            assert (text, error, deltas[-1].finish) == (ANSWER, None, FinishReason.STOP)
            assert deltas[-1].usage is not None
            await fake.until(lambda fake: fake.streams == 0)

    async def test_missing_usage_is_counted(self) -> None:
        """A server that keeps the usage to itself is asked to count prompt and answer."""
        async with FakeServer(usage=False) as fake, connected(fake) as engine:
            _, deltas, _ = await ask(engine)
            assert deltas[-1].usage == Usage(tokens(QUESTION), len(ANSWER))

    async def test_length(self) -> None:
        """An answer cut off at its limit says so."""
        async with FakeServer(finish="length") as fake, connected(fake) as engine:
            _, deltas, _ = await ask(engine)
            assert deltas[-1].finish is FinishReason.LENGTH

    async def test_halves_of_characters(self) -> None:
        """A surrogate pair split over two chunks arrives whole; lone halves and U+FFFD never arrive."""
        pieces = ["a\ud83d", "\ude00b", "\ufffd", "𠮷", "\ude00", "\ufffd鑫", "\ud83d"]
        async with FakeServer(pieces=pieces) as fake, connected(fake) as engine:
            text, deltas, error = await ask(engine)
            assert (text, error) == ("a😀b𠮷鑫", None)
            assert all(delta.text.encode() for delta in deltas[:-1])

    async def test_filtered(self) -> None:
        """A content filter's stop is an error of its own, after the text so far."""
        async with FakeServer(finish="content_filter") as fake, connected(fake) as engine:
            text, _, error = await ask(engine)
            assert text == ANSWER
            assert isinstance(error, RequestRejected)


class TestLeaving:
    """Whoever leaves an answer frees the server."""

    async def test_close_frees_the_server(self) -> None:
        """Closing the iterator closes the connection, and the next question works."""
        async with FakeServer(delay_s=0.05, repeat=100) as fake, connected(fake) as engine:
            async with aclosing(engine.stream(QUESTION, Sampling(), "test-1")) as answer:
                assert await anext(answer)
                assert fake.streams == 1
            await _freed(fake)
            fake.behave()
            assert (await ask(engine))[0] == ANSWER

    async def test_cancel_frees_the_server(self) -> None:
        """Cancelling the reader closes the connection, and the next question works."""
        async with FakeServer(chat="hang", after=2) as fake, connected(fake) as engine:
            reader = asyncio.create_task(ask(engine))
            await fake.until(lambda fake: fake.streams == 1)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            await _freed(fake)
            fake.behave()
            assert (await ask(engine))[0] == ANSWER

    async def test_cancel_before_the_answer_begins(self) -> None:
        """Cancelling while the server thinks closes the connection too."""
        async with FakeServer(first_delay_s=600) as fake, connected(fake) as engine:
            reader = asyncio.create_task(ask(engine))
            await fake.until(lambda fake: fake.streams == 1)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            await _freed(fake)

    @pytest.mark.parametrize("after", [0, 2])
    async def test_stop_ends_running_answers(self, after: int) -> None:
        """Stopping the engine ends an answer, begun or not, with one of our errors."""
        async with FakeServer(chat="hang", after=after) as fake, connected(fake) as engine:
            reader = asyncio.create_task(ask(engine))
            await fake.until(lambda fake: fake.questions == 1)
            await engine.stop()
            _, _, error = await reader
            assert isinstance(error, StreamBroken | EngineDead)
            await engine.stop()
            with pytest.raises(EngineDead):
                await engine.count(QUESTION)

    async def test_eight_at_once(self) -> None:
        """Eight answers at once are eight connections, each whole."""
        async with FakeServer(delay_s=0.01) as fake, connected(fake) as engine:
            answers = await asyncio.gather(*(ask(engine) for _ in range(8)))
            assert [text for text, _, _ in answers] == [ANSWER] * 8


async def _freed(fake: FakeServer) -> None:
    await fake.until(lambda fake: fake.streams == 0)
    assert fake.dropped == 1


class TestFaults:
    """What goes wrong is said in one sentence, after one POST."""

    @pytest.mark.usefixtures("hurried")
    @pytest.mark.parametrize(
        ("behaviour", "kind", "kept"),
        [
            ({"chat": "hang"}, EngineTimeout, ""),
            ({"first_delay_s": 600}, EngineTimeout, ""),
            ({"chat": "hang", "after": 3}, EngineTimeout, "".join(SENTENCE[:3])),
            ({"chat": "reset"}, EngineDead, ""),
            ({"chat": "reset", "after": 3, "delay_s": 0.05}, StreamBroken, "".join(SENTENCE[:3])),
            ({"chat": "close", "after": 3}, StreamBroken, "".join(SENTENCE[:3])),
            ({"chat": "garbage", "after": 3}, StreamBroken, "".join(SENTENCE[:3])),
            ({"chat": "garbage", "leading_empty": 0}, RequestRejected, ""),
            ({"chat": "error_frame", "after": 3}, StreamBroken, "".join(SENTENCE[:3])),
            ({"chat": "error_frame", "leading_empty": 0}, RequestRejected, ""),
            ({"finish": None}, StreamBroken, ANSWER),
            ({"finish": "abort"}, StreamBroken, ANSWER),
            ({"status": 500}, RequestRejected, ""),
            ({"status": 400}, RequestRejected, ""),
            ({"status": 401}, RequestRejected, ""),
            ({"status": 403}, RequestRejected, ""),
            ({"status": 404}, RequestRejected, ""),
            ({"status": 413}, RequestRejected, ""),
            ({"status": 422}, RequestRejected, ""),
            ({"status": 429}, EngineBusy, ""),
            ({"status": 502}, EngineBusy, ""),
            ({"status": 503}, EngineBusy, ""),
        ],
        ids=str,
    )
    async def test_each_fault(self, behaviour: dict[str, Any], kind: type[ZhidaError], kept: str) -> None:
        """The text so far stays, the error is the right one, its sentence is Chinese and nobody else's."""
        async with FakeServer() as fake, connected(fake, api_key="secret-key") as engine:
            fake.behave(**behaviour)
            text, _, error = await ask(engine)
            assert (type(error), text, fake.questions) == (kind, kept, 1)
            assert error
            for word in ("internal", "EngineCore", "Error", "secret-key"):
                assert word not in error.words.zh + error.words.en
            assert error.words.zh.endswith("。")
            fake.behave()
            assert (await ask(engine))[0] == ANSWER

    async def test_error_once_is_not_retried(self) -> None:
        """A 500 is shown, not hidden by asking again; the next question works."""
        async with FakeServer(status=500, times=1) as fake, connected(fake) as engine:
            _, _, error = await ask(engine)
            assert (type(error), fake.questions) == (RequestRejected, 1)
            assert (await ask(engine))[0] == ANSWER
            assert fake.questions == 2

    async def test_too_long(self) -> None:
        """The server's refusal of a long prompt carries its sizes."""
        async with FakeServer(too_long=True, times=1) as fake, connected(fake) as engine:
            _, _, error = await ask(engine)
            assert isinstance(error, PromptTooLong)
            assert (error.size, error.limit) == (5000, 4096)
            assert (await ask(engine))[0] == ANSWER

    async def test_server_gone(self) -> None:
        """A server that went away means a dead engine, whose sentence says how to start it; count says the same."""
        async with FakeServer() as fake, connected(fake) as engine:
            await fake.__aexit__()
            _, _, error = await ask(engine)
            assert isinstance(error, EngineDead)
            assert f"127.0.0.1:{fake.port}" in error.words.zh
            assert "make serve" in error.words.zh
            with pytest.raises(EngineDead):
                await engine.count(QUESTION)
            health = await engine.health()
            assert health.state is EngineState.DEAD
            assert health.reason
            assert "make serve" in health.reason.zh

    async def test_key_is_never_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """No log record, of ours or a library's at its most talkative, holds the key."""
        caplog.set_level("DEBUG")
        async with FakeServer(key="secret-key") as fake, connected(fake, api_key="secret-key") as engine:
            await ask(engine)
            fake.behave(key="another")
            _, _, error = await ask(engine)
            assert error
            assert "ENGINE_API_KEY" in error.words.zh
        assert caplog.records
        assert "secret-key" not in caplog.text


class TestStart:
    """Waiting for the server, or saying why that is useless."""

    async def test_reads_model_and_window(self) -> None:
        """The model's name and the smaller of the two windows are in force."""
        async with FakeServer(max_model_len=2048) as fake, connected(fake) as engine:
            assert (engine.info.model, engine.info.window) == (MODEL, 2048)
        async with FakeServer(max_model_len=131072) as fake, connected(fake) as engine:
            assert engine.info.window == 4096

    async def test_window_from_elsewhere(self) -> None:
        """Without max_model_len on the card, /tokenize's counts; without that, the limit that was set."""
        async with FakeServer(max_model_len=None, tokenize_max_model_len=1024) as fake, connected(fake) as engine:
            assert engine.info.window == 1024
        async with FakeServer(max_model_len=None, tokenize="404") as fake, connected(fake) as engine:
            assert engine.info.window == 4096

    @pytest.mark.usefixtures("hurried")
    @pytest.mark.parametrize("loading", ["503", "hang"])
    async def test_waits_while_loading(self, loading: str) -> None:
        """A server that is still loading is waited for, with a step that says so once."""
        steps = Steps()
        async with FakeServer(loading=loading) as fake, _engine(fake.base_url) as engine:
            start = asyncio.create_task(engine.start(steps.hear))
            await steps.until(2)
            await fake.until(lambda fake: fake.gets["/v1/models"] == 4)
            assert not start.done()
            assert (await engine.health()).state is EngineState.LOADING
            _, _, error = await ask(engine)
            assert isinstance(error, EngineDead)
            fake.behave()
            async with asyncio.timeout(10):
                await start
            assert (await engine.health()).state is EngineState.READY
            assert steps[0] == "模型服务启动中"
            assert steps[1].startswith("模型加载中")
            assert len(steps) == 2
            assert fake.questions == 0

    @pytest.mark.usefixtures("hurried")
    async def test_waits_while_nobody_listens(self) -> None:
        """A server that is not there is waited for, with the command that starts it; then it comes."""
        steps = Steps()
        port = free_port()
        async with _engine(f"http://127.0.0.1:{port}/v1") as engine:
            start = asyncio.create_task(engine.start(steps.hear))
            await steps.until(2)
            assert "make serve" in steps[1]
            async with FakeServer(port=port), asyncio.timeout(10):
                await start
                assert (await ask(engine))[0] == ANSWER

    @pytest.mark.usefixtures("hurried")
    async def test_unhealthy_is_not_ready(self) -> None:
        """A server that lists its models but calls itself unhealthy is waited for."""
        steps = Steps()
        async with FakeServer(health="503") as fake, _engine(fake.base_url) as engine:
            start = asyncio.create_task(engine.start(steps.hear))
            await steps.until(2)
            assert not start.done()
            fake.behave(health="404")
            async with asyncio.timeout(10):
                await start

    @pytest.mark.usefixtures("hurried")
    @pytest.mark.parametrize("loading", ["503", "hang"])
    @pytest.mark.parametrize("steps_before", [1, 2])
    async def test_stop_ends_the_wait(self, loading: str, steps_before: int) -> None:
        """Stopping an engine that waits for its server ends the wait; it can be started again."""
        async with FakeServer(loading=loading) as fake, _engine(fake.base_url) as engine:
            steps = Steps()
            start = asyncio.create_task(engine.start(steps.hear))
            await steps.until(steps_before)
            await engine.stop()
            with pytest.raises(EngineDead):
                await start
            fake.behave()
            await begin(engine)
            assert (await ask(engine))[0] == ANSWER

    @pytest.mark.parametrize(
        ("behaviour", "path", "remedy"),
        [
            ({"key": "right"}, "/v1", "ENGINE_API_KEY"),
            ({}, "", "少了 /v1"),
            ({}, "/v2/v1", "不是 OpenAI 兼容的模型服务"),
            ({"models": "html"}, "/v1", "本应用的地址"),
            ({"models": "none"}, "/v1", "没有任何模型"),
        ],
        ids=str,
    )
    async def test_refuses(self, behaviour: dict[str, Any], path: str, remedy: str) -> None:
        """What waiting cannot cure ends the start, with the remedy named."""
        async with FakeServer(**behaviour) as fake, _engine(fake.root + path, api_key="wrong") as engine:
            with pytest.raises(ConfigurationError, match=remedy):
                await begin(engine)

    @pytest.mark.parametrize("address", ["", "127.0.0.1:8001/v1", "ftp://host/v1", "http://", "http://h:99999/v1"])
    def test_refuses_what_is_no_address(self, address: str) -> None:
        """An address that can never work is refused before anything is asked."""
        with pytest.raises(ConfigurationError, match="ENGINE_BASE_URL"):
            ServerEngine(address, None, 4096)

    async def test_password_in_the_address_is_not_shown(self) -> None:
        """Credentials inside the address stay out of every sentence."""
        async with FakeServer(models="none") as fake, _engine(fake.base_url.replace("//", "//me:hidden@")) as engine:
            with pytest.raises(ConfigurationError) as caught:
                await begin(engine)
        assert "hidden" not in caught.value.words.zh + caught.value.words.en

    async def test_knows_the_demo_model(self) -> None:
        """A `make serve` that serves the demo model is known by the name it gives it."""
        async with FakeServer(model=QWEN.title) as fake, connected(fake) as engine:
            assert engine.info.is_demo
        async with FakeServer() as fake, connected(fake) as engine:
            assert not engine.info.is_demo

    async def test_picks_the_wanted_model(self) -> None:
        """A model that is not there leaves the server's first."""
        async with FakeServer() as fake, connected(fake, model="another") as engine:
            assert engine.info.model == MODEL

    async def test_no_proxy_for_local_addresses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Proxies of the environment are not asked for a server on this machine."""
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        async with FakeServer() as fake, connected(fake) as engine:
            assert (await ask(engine))[0] == ANSWER

    @pytest.mark.usefixtures("hurried")
    async def test_proxy_for_the_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server elsewhere is reached through the environment's proxy."""
        async with FakeServer() as proxy:
            monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
            async with _engine("http://models.example.com/v1") as engine:
                with pytest.raises(ConfigurationError):  # the fake proxy knows no absolute addresses: 404
                    await begin(engine)


class TestHealth:
    """What the server says of itself."""

    @pytest.mark.parametrize(("metrics", "kv_use"), [("new", 0.25), ("old", 0.25), ("bare", None), ("404", None)])
    async def test_load(self, metrics: str, kv_use: float | None) -> None:
        """Running, waiting and KV use under either name; None, never 0, where the server does not say."""
        async with FakeServer(metrics=metrics) as fake, connected(fake) as engine:
            health = await engine.health()
            requests = None if kv_use is None else 0
            assert health.state is EngineState.READY
            assert (health.running, health.waiting, health.kv_use) == (requests, requests, kv_use)

    async def test_running_is_counted(self) -> None:
        """An answer under way is one running request."""
        async with FakeServer(chat="hang", after=1) as fake, connected(fake) as engine:
            async with aclosing(engine.stream(QUESTION, Sampling(), "test-1")) as answer:
                await anext(answer)
                assert (await engine.health()).running == 1
            await _freed(fake)
            assert (await engine.health()).running == 0

    async def test_unhealthy(self) -> None:
        """A server that says 503 is dead, and the sentence says what to do."""
        async with FakeServer() as fake, connected(fake) as engine:
            fake.behave(health="503")
            health = await engine.health()
            assert health.state is EngineState.DEAD
            assert health.reason
            assert "make serve" in health.reason.zh

    async def test_without_health(self) -> None:
        """A server without /health is alive while it lists its models."""
        async with FakeServer(health="404") as fake, connected(fake) as engine:
            assert (await engine.health()).state is EngineState.READY

    @pytest.mark.usefixtures("hurried")
    async def test_late_answers_are_not_death(self) -> None:
        """One late answer is a busy server; several in a row are a dead one."""
        async with FakeServer() as fake, connected(fake) as engine:
            fake.behave(health="hang")
            states = [(await engine.health()).state for _ in range(server.SILENCES)]
            assert states == [EngineState.READY] * (server.SILENCES - 1) + [EngineState.DEAD]

    def test_engines_of_one_server_are_summed(self) -> None:
        """Data-parallel engines: requests add up, KV use is the mean."""
        page = "\n".join(
            f'{name}{{engine="{engine}"}} {value}'
            for name, values in {"vllm:num_requests_running": (2, 3), "vllm:kv_cache_usage_perc": (0.2, 0.4)}.items()
            for engine, value in enumerate(values)
        )
        load = from_text(page)
        assert (load.running, load.waiting) == (5, None)
        assert load.kv_use == pytest.approx(0.3)
        assert from_text("") == Figures()

    @pytest.mark.parametrize(
        ("host", "local"),
        [
            ("127.0.0.1", True),
            ("127.8.0.1", True),
            ("localhost", True),
            ("::1", True),
            ("192.168.1.5", True),
            ("vllm", True),
            ("gpu.local", True),
            ("8.8.8.8", False),
            ("models.example.com", False),
        ],
    )
    def test_is_local(self, host: str, local: bool) -> None:
        """This machine and its network are local; names with a domain and public addresses are not."""
        assert is_local(host) is local


class TestFake:
    """The server that the other tests lean on, run as a program of its own."""

    def test_as_a_program(self) -> None:
        """It prints its address, behaves as told, changes at run time, and reports what happened."""
        command = [sys.executable, "-m", "tests.fake_server", "--behaviour", "loading"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as program:
            assert program.stdout
            base_url = program.stdout.readline().strip()
            try:
                with httpx2.Client(trust_env=False) as client:
                    self._try_out(client, base_url, base_url.removesuffix("/v1"))
            finally:
                program.terminate()

    def _try_out(self, client: httpx2.Client, base_url: str, root: str) -> None:
        assert client.get(f"{base_url}/models").status_code == 503
        client.post(f"{root}/_behaviour", json={"preset": "error_once"})
        assert client.get(f"{base_url}/models").json()["data"][0]["id"] == MODEL
        question = {"model": MODEL, "messages": QUESTION}
        assert client.post(f"{base_url}/chat/completions", json=question).status_code == 500
        answer = client.post(f"{base_url}/chat/completions", json=question).text
        assert answer.count("data: ") == len(SENTENCE) + 4
        assert answer.endswith("data: [DONE]\n\n")
        state = client.get(f"{root}/_state").json()
        assert (state["posts"]["/v1/chat/completions"], state["streams"], state["dropped"]) == (2, 0, 0)


class TestCount:
    """Prompt tokens, as exactly as can be."""

    async def test_by_the_server(self) -> None:
        """A vLLM server counts, template included."""
        async with FakeServer() as fake, connected(fake) as engine:
            assert await engine.count(QUESTION) == tokens(QUESTION)

    @pytest.mark.parametrize("tokenize", ["404", "llamacpp"])
    async def test_by_the_model_tokenizer(self, tokenize: str, tokenizer_folder: Path) -> None:
        """Without /tokenize, or with one of another make, the tokenizer in the local folder counts: exactly."""
        async with FakeServer(tokenize=tokenize) as fake, connected(fake, tokenizer_folder=tokenizer_folder) as engine:
            prompt = "".join(f"<{message['role']}>{message['content']}" for message in QUESTION) + "<assistant>"
            assert await engine.count(QUESTION) == len(prompt.encode())

    async def test_by_estimate(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Without either, an estimate that asks no address, from an empty cache too."""
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
        read: list[str] = []
        genuine = tiktoken.load.read_file

        def watched(path: str) -> bytes:
            read.append(path)
            return genuine(path)

        monkeypatch.setattr(tiktoken.load, "read_file", watched)
        async with FakeServer(tokenize="404") as fake, connected(fake) as engine:
            assert await engine.count(QUESTION) > len(QUESTION) * counting.MESSAGE_OVERHEAD
        assert read
        assert not [path for path in read if "://" in path]

    async def test_estimate_is_never_short(self) -> None:
        """Digits count one by one and every text keeps its margin: a table of figures is not underrated."""
        estimate = counting.EstimateCounter()
        figures = "0123456789" * 50
        assert estimate.text(figures) == 500
        message: ChatMessage = {"role": "user", "content": figures}
        assert estimate.messages([message]) >= 500 * counting.MARGIN
        assert estimate.messages([message, message]) > estimate.messages([message])

    async def test_folder_without_tokenizer(self, tmp_path: Path) -> None:
        """A folder that holds no tokenizer leaves the estimate."""
        counter = await asyncio.to_thread(counting.local_counter, tmp_path)
        assert not counter.exact

    @pytest.mark.usefixtures("hurried")
    async def test_hanging_tokenize(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A count that hangs ends in EngineTimeout."""
        monkeypatch.setattr("engine.endpoint.COUNT_S", 0.2)
        async with FakeServer() as fake, connected(fake) as engine:
            fake.behave(tokenize="hang")
            with pytest.raises(EngineTimeout):
                await engine.count(QUESTION)


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of one token a byte, with a chat template."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    folder = tmp_path_factory.mktemp("tokenizer")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    fast.chat_template = (
        "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    fast.save_pretrained(folder)
    return folder
