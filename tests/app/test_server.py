"""The whole app in front of a server that misbehaves (C6, E4, E7, E11), over its socket."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.app_server import ROOT, AppServer
from tests.chat_client import PLACEHOLDER, ChatClient

REPLY = "你好，我是知答。很高兴为您服务！"


class Fake:
    """tests/fake_server.py in a process of its own."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.base_url = self._launch(0)

    def _launch(self, port: int) -> str:
        command = [sys.executable, "-m", "tests.fake_server", "--port", str(port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def behave(self, **behaviour: Any) -> None:
        httpx.post(self._root + "/_behaviour", json=behaviour, trust_env=False).raise_for_status()

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(self._root + "/_state", trust_env=False).json()
        return found

    @property
    def questions(self) -> int:
        count: int = self.state()["posts"].get("/v1/chat/completions", 0)
        return count

    @property
    def _root(self) -> str:
        return self.base_url.removesuffix("/v1")

    def kill(self) -> None:
        assert self._process
        self._process.kill()
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()

    def again(self) -> None:
        """Start once more at the same address."""
        assert self._launch(int(self._root.rsplit(":", 1)[1])) == self.base_url


@pytest.fixture(scope="module")
def fake() -> Iterator[Fake]:
    """The server."""
    fake = Fake()
    yield fake
    fake.kill()


@pytest.fixture(scope="module")
def app(fake: Fake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """An app in front of it, without proxies' help or harm."""
    folder = tmp_path_factory.mktemp("server")
    with AppServer(
        folder, ENGINE_BASE_URL=fake.base_url, http_proxy="http://127.0.0.1:9", ENGINE_LEAVE_GRACE_S="0.5"
    ) as app:
        yield app.ready(60)


@pytest.fixture(autouse=True)
def healthy(fake: Fake, app: AppServer) -> None:
    """Each test begins before a server that is well."""
    fake.behave(preset="answer")
    app.ready(60)


async def test_an_answer_through_the_server(app: AppServer, fake: Fake) -> None:
    """One POST a question, also with a proxy in the environment; usage in the footer."""
    before = fake.questions
    async with ChatClient(app.url) as page:
        assert await page.ask("你好") == REPLY
        assert page.footer["facts"][-1].endswith("+ 回答 9 / 4096")
    assert fake.questions == before + 1


async def test_an_error_is_not_repeated(app: AppServer, fake: Fake) -> None:
    """C6: 500 once: one POST, one Chinese sentence, and the next question works."""
    fake.behave(preset="error_once")
    before = fake.questions
    async with ChatClient(app.url) as page:
        answer = await page.ask("你好")
        assert fake.questions == before + 1
        assert "internal details" not in answer
        assert answer.endswith("。")
        assert await page.ask("你好") == REPLY


async def test_a_reset_in_mid_answer_keeps_the_part(app: AppServer, fake: Fake) -> None:
    """C6: the part that came stays with a notice; one POST."""
    fake.behave(preset="reset", leading_empty=3)
    before = fake.questions
    async with ChatClient(app.url) as page:
        assert await page.ask("你好") == "你好，我是"
        assert page.footer["tone"] == "warning"
        assert page.footer["notices"] == ["回答中断：与模型服务的连接断开了。"]
    assert fake.questions == before + 1


async def test_stop_closes_the_connection(app: AppServer, fake: Fake) -> None:
    """Stop frees the server: it sees the stream dropped."""
    fake.behave(preset="slow")
    dropped = fake.state()["dropped"]
    async with ChatClient(app.url) as page:
        await page.send("你好")
        await page.until(lambda: bool(page.answers()) and page.answer.startswith("你好"))
        await page.stop()
        await page.until(lambda: not page.busy)
        async with asyncio.timeout(1):
            while fake.state()["dropped"] == dropped:
                await asyncio.sleep(0.02)
        assert fake.state()["streams"] == 0


async def test_stop_while_the_server_hangs(app: AppServer, fake: Fake) -> None:
    """C6: a server that says nothing can be stopped."""
    fake.behave(preset="hang")
    async with ChatClient(app.url) as page:
        before = fake.questions
        await page.send("你好")
        async with asyncio.timeout(5):
            while fake.questions == before:
                await asyncio.sleep(0.02)
        assert page.answer == PLACEHOLDER
        await page.stop()
        await page.until(lambda: not page.busy)
        assert page.answer == "已停止"


async def test_empty_chunks_first(app: AppServer, fake: Fake) -> None:
    """E11: 思考中... stays until there is text; an answer without any says so."""
    fake.behave(leading_empty=5, empty_choices=2, delay_s=0.1)
    async with ChatClient(app.url) as page:
        assert await page.ask("你好") == REPLY
        first = next(data for event, data in page.events if event == "stream_token")
        assert first["isSequence"]
        assert REPLY.startswith(first["token"])
        fake.behave(preset="empty")
        assert await page.ask("你好") == "（模型没有给出任何内容，请换个说法再问一次。）"


async def test_one_retry_with_less_history(app: AppServer, fake: Fake) -> None:
    """E7: a prompt that the server finds too long after all is sent once more, shorter; then it is refused in Chinese."""
    async with ChatClient(app.url) as page:
        for _ in range(6):
            await page.ask("问" * 450)
        whole = len(fake.state()["last"]["messages"])
        fake.behave(preset="too_long_once")
        before = fake.questions
        assert await page.ask("问" * 450) == REPLY
        assert fake.questions == before + 2
        assert len(fake.state()["last"]["messages"]) < whole
        assert any("轮对话已不在上下文中" in notice for notice in page.footer["notices"])
        fake.behave(too_long=True)
        before = fake.questions
        answer = await page.ask("问" * 450)
        assert fake.questions == before + 2
        assert answer.startswith("内容过长")


async def test_a_server_that_is_loading_is_waited_for(app: AppServer, fake: Fake) -> None:
    """C6: 503 for a while: 模型加载中 and /health/ready 503 until it is ready, then the answer."""
    fake.behave(loading="503", health="503")
    app.wait_for("/health/ready", 503, 15)
    async with ChatClient(app.url) as page:
        await page.send("你好")
        await page.until(lambda: bool(page.answers()) and page.answer.startswith("模型加载中…"))
        fake.behave(preset="answer")
        await page.until(lambda: page.answer == REPLY and not page.busy)


async def test_a_killed_server(app: AppServer, fake: Fake) -> None:
    """E4: killed in mid-answer: a Chinese sentence within 10 s, not ready, how to start it is said; back, it answers."""
    fake.behave(preset="slow")
    async with ChatClient(app.url) as page:
        await page.send("你好")
        await page.until(lambda: bool(page.answers()) and page.answer.startswith("你好"))
        fake.kill()
        await page.until(lambda: not page.busy, 10)
        assert page.answer.startswith("你好")
        assert page.footer["tone"] == "warning"
        app.wait_for("/health/ready", 503, 10)
        async with asyncio.timeout(10):
            while "make serve" not in (app.readiness()["message"] or {}).get("zh", ""):
                await asyncio.sleep(0.1)
        fake.again()
        fake.behave(preset="answer")
        app.ready(15)
        assert await page.ask("你好") == REPLY


async def test_reconnecting_twice_while_the_server_is_down(app: AppServer, fake: Fake) -> None:
    """Pressed in two tabs: one restart, which both are told of when the server is back; a question asked meanwhile waits
    and is answered; what this machine knows nothing of is unknown."""
    fake.behave(preset="answer")
    async with ChatClient(app.url) as one, ChatClient(app.url) as two, ChatClient(app.url) as asking:
        began = app.tail().count("就绪：")
        fake.kill()
        app.wait_for("/health/ready", 503, 10)
        yes = {"id": "1", "forId": "1", "name": "restart_engine", "payload": {}, "label": "x"}
        presses = [asyncio.create_task(page.press(yes)) for page in (one, two)]  # answered when all is done
        for page in (one, two):
            await page.until(lambda page=page: bool(page.answers()) and page.answer.startswith("正在重新启动"))  # type: ignore[misc]
        await asking.send("你好")
        await asking.until(lambda: bool(asking.answers()) and asking.answer.startswith("模型加载中…"))
        status = app.get("/engine/status").json()
        assert (status["queued"], status["running"], status["memory"], status["elsewhere"]) == (1, 0, None, True)
        fake.again()
        for page in (one, two):
            await page.until(lambda page=page: page.answer == "引擎已重新启动。", 30)  # type: ignore[misc]
        await asyncio.gather(*presses)
        await asking.until(lambda: asking.answer == REPLY)
        assert "zhida_memory_bytes" not in app.get("/metrics").text
        assert app.tail().count("就绪：") == began + 1


async def test_the_roles_that_are_sent_alternate(app: AppServer, fake: Fake) -> None:
    """E9: after a stop, two questions at once and an edit, the server still gets user and assistant in turn."""
    fake.behave(preset="slow")
    async with ChatClient(app.url) as page:
        first = await page.send("一")
        await page.until(lambda: bool(page.answers()) and page.answer.startswith("你好"))
        await page.stop()
        await page.until(lambda: not page.busy)
        part = page.answer
        fake.behave(preset="answer")
        await asyncio.gather(page.send("二"), page.send("三"))
        await page.until(lambda: page.answers() == [part, REPLY, REPLY])
        assert sent(fake) == [("user", "一"), ("assistant", part), *pair("二"), ("user", "三")]
        await page.until(lambda: not page.busy)
        await page.edit(first, "改")
        await page.until(lambda: page.answers() == [REPLY])
        assert sent(fake) == [("user", "改")]


def pair(question: str) -> list[tuple[str, str]]:
    """An answered question as it is sent."""
    return [("user", question), ("assistant", REPLY)]


def sent(fake: Fake) -> list[tuple[str, str]]:
    """The newest prompt after its system message."""
    system, *messages = fake.state()["last"]["messages"]
    assert system["role"] == "system"
    return [(message["role"], message["content"]) for message in messages]
