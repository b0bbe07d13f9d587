"""The whole app over its socket, with a scripted engine: what the callbacks do with what a browser sends."""

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import httpx
import pytest

from tests.app_server import AppServer, free_port
from tests.chat_client import PLACEHOLDER, ChatClient

SCRIPT = """
[engine]
load_s = 0

[[rules]]
match = "慢"
text = "慢慢地说一句很长很长的话，一直说到有人按停止为止，或者一直到最后一个字。"
characters_a_delta = 1
first_delay_s = 0.2
delay_s = 0.1

[[rules]]
match = "断"
text = "说到一半就断了"
after = 1
error = "StreamBroken"

[[rules]]
match = "尖括号"
text = "好"

[[rules]]
text = "这是回答。"
delay_s = 0.02
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One app for this file's tests."""
    folder = tmp_path_factory.mktemp("scripted")
    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    server = AppServer(folder, ENGINE_BACKEND="scripted", ENGINE_SCRIPT="script.toml", ENGINE_LEAVE_GRACE_S="0.5")
    with server as app:
        yield app.ready()


async def test_the_answer_takes_the_placeholders_place(app: AppServer) -> None:
    """思考中... stands in the one message that the answer then fills; nothing of it is left."""
    async with ChatClient(app.url) as page:
        assert await page.ask("你好") == "这是回答。"
        assert page.answers() == ["这是回答。"]
        shown = [data["output"] for event, data in page.events if event == "stream_start"]
        assert shown == [PLACEHOLDER]
        assert page.footer["facts"][-1].endswith("/ 4096")
        assert page.footer["tone"] == "normal"


async def test_stop_and_ask_again(app: AppServer) -> None:
    """S1: the part stays, 已停止, no English notice, and the next question works."""
    async with ChatClient(app.url) as page:
        await page.send("慢慢说")
        await page.until(lambda: bool(page.answers()) and page.answer.startswith("慢慢"))
        await page.stop()
        await page.until(lambda: not page.busy)
        part = page.answer
        assert page.footer["notices"] == ["已停止"]
        assert app.metric("zhida_running") == 0
        assert await page.ask("你好") == "这是回答。"
        assert page.answers() == [part, "这是回答。"]


async def test_a_question_right_after_stop(app: AppServer) -> None:
    """S1: stop is meant for what runs; the question sent with the next event is answered."""
    async with ChatClient(app.url) as page:
        await page.send("慢慢说")
        await page.until(lambda: bool(page.answers()) and page.answer.startswith("慢慢"))
        await page.stop()
        await page.send("你好")
        await page.until(lambda: page.answer == "这是回答。" and not page.busy)


async def test_a_page_of_another_site_gets_no_socket(app: AppServer) -> None:
    """A page open in the same browser may not question a private engine; our own page, and clients that are none, may."""
    for origin, status in ((app.url, 101), (None, 101), ("http://evil.example", 403)):
        headers = {"Origin": origin} if origin else {}
        async with aiohttp.ClientSession() as session:
            address = f"{app.url}/ws/socket.io/?EIO=4&transport=websocket"
            try:
                async with session.ws_connect(address, headers=headers) as socket:
                    assert (await socket.receive(timeout=5)).data.startswith("0{")
                    found = 101
            except aiohttp.WSServerHandshakeError as error:
                found = error.status
        assert found == status


async def test_two_questions_at_once_then_stop(app: AppServer) -> None:
    """S10: both answers end."""
    async with ChatClient(app.url) as page:
        await page.send("慢一")
        await page.send("慢二")
        await page.until(lambda: len(page.answers()) == 2)
        await page.until(lambda: page.answers()[0] != PLACEHOLDER)
        await page.stop()
        await page.until(lambda: PLACEHOLDER not in page.answers() and len(page.footers) == 1)
        assert page.answers()[1] == "已停止"
        assert app.metric("zhida_running") == 0


async def test_edit_then_stop(app: AppServer) -> None:
    """S10: after an edit, what came later is gone, and stop ends the new answer."""
    async with ChatClient(app.url) as page:
        first = str(uuid.uuid4())
        await page.send("你好", first)
        await page.until(lambda: len(page.footers) == 1)
        await page.ask("再来")
        await page.edit(first, "慢慢说")
        await page.until(lambda: bool(page.answers()) and page.answer.startswith("慢慢"))
        assert len(page.answers()) == 1
        await page.stop()
        await page.until(lambda: not page.busy)
        assert page.footer["notices"] == ["已停止"]
        assert app.metric("zhida_running") == 0


async def test_edit_while_the_answer_streams(app: AppServer) -> None:
    """The half answer vanishes and only the new one stays."""
    async with ChatClient(app.url) as page:
        first = await page.send("慢慢说")
        await page.until(lambda: bool(page.answers()) and page.answer.startswith("慢慢"))
        await page.edit(first, "你好")
        await page.until(lambda: page.answers() == ["这是回答。"] and not page.busy)
        assert app.metric("zhida_running") == 0


async def test_regenerate_and_stop_it(app: AppServer) -> None:
    """The action under the newest answer alone makes it again; stop works there too."""
    async with ChatClient(app.url) as page:
        await page.ask("你好")
        await page.ask("慢慢说")
        buttons = [action for action in page.actions if action["name"] == "regenerate"]
        assert len(buttons) == 1
        pressing = asyncio.create_task(page.press(buttons[0]))
        await page.until(lambda: page.busy and len(page.answers()) == 2 and page.answer.startswith("慢慢地说"))
        await page.stop()
        await pressing
        await page.until(lambda: page.footer["notices"] == ["已停止"])
        assert len(page.answers()) == 2
        assert await page.ask("你好") == "这是回答。"


@pytest.mark.parametrize("blank", ["", "   ", "\u3000", "\u200b", "\n\t\u200b\u3000"])
async def test_an_empty_question_gets_a_hint(app: AppServer, blank: str) -> None:
    """E8: a hint in Chinese, and no empty turn in the history."""
    async with ChatClient(app.url) as page:
        assert await page.ask(blank) == "请输入问题后再发送。"
        assert await page.ask("你好") == "这是回答。"
        after_blank = page.footer["facts"][-1]
    async with ChatClient(app.url) as fresh:
        await fresh.ask("你好")
        assert fresh.footer["facts"][-1] == after_blank


async def test_a_message_of_a_million_characters(app: AppServer) -> None:
    """S7: 内容过长, and the chat goes on with its history."""
    async with ChatClient(app.url) as page:
        await page.ask("你好")
        alone = page.footer["facts"][-1]
        assert (await page.ask("长" * 1_100_000)).startswith("内容过长：1,100,000 个字符")
        assert await page.ask("你好") == "这是回答。"
        assert int(page.footer["facts"][-1].split()[1]) > int(alone.split()[1])


async def test_a_question_beyond_the_window(app: AppServer) -> None:
    """E7: refused with its size and the limit."""
    async with ChatClient(app.url) as page:
        answer = await page.ask("长" * 6000)
        assert answer == "内容过长：3934 个词元，上限 3584 个词元。请缩短问题，或分几次提问。"


async def test_a_broken_answer_keeps_its_part(app: AppServer) -> None:
    """The text that came stays; the sentence stands below it in Chinese."""
    async with ChatClient(app.url) as page:
        assert await page.ask("断") == "说到一"
        assert page.footer == {"notices": ["演示脚本按要求出了这个错误。"], "facts": [], "tone": "warning"}


async def test_english_browsers_are_told_in_english(app: AppServer) -> None:
    """C2: notices follow the browser's language."""
    async with ChatClient(app.url, "en-GB,en") as page:
        assert await page.ask("断") == "说到一"
        assert page.footer["notices"] == ["The script asked for this error."]


@pytest.mark.parametrize(
    ("language", "chinese"),
    [
        ("zh", True),
        ("zh-HK", True),
        ("zh-Hans-CN", True),
        ("zh-TW", True),
        ("zh-CN", True),
        ("en", False),
        ("en-GB", False),
        ("de", False),
    ],
)
def test_pages_speak_the_browsers_language(app: AppServer, language: str, chinese: bool) -> None:
    """C2: texts, welcome page and starters."""
    texts = app.get(f"/project/translations?language={language}").text
    project = app.get(f"/project/settings?language={language}").json()
    assert ("新建对话" in texts) is chinese
    assert ("知答是" in project["markdown"]) is chinese
    assert (project["starters"][0]["label"] == "介绍一下你自己") is chinese


async def test_settings_apply_to_the_next_question_of_that_chat(app: AppServer) -> None:
    """One chat's longest answer changes nothing in another; a new chat has the values in force."""
    async with ChatClient(app.url) as one, ChatClient(app.url) as other:
        await one.change_settings(max_tokens=16, temperature=0, show_speed=False)
        await one.ask("慢慢说")
        assert "已达长度上限" in one.footer["notices"]
        assert len(one.footer["facts"]) == 1
        assert await other.ask("你好") == "这是回答。"
        assert len(other.footer["facts"]) == 3
    async with ChatClient(app.url) as new:
        values = {widget["id"]: widget["initial"] for widget in new.settings}
        assert (values["max_tokens"], values["temperature"], values["profile"]) == (512, 0.8, "auto")


async def test_a_closed_tab_frees_the_engine(app: AppServer) -> None:
    """E5: after the grace time nothing runs for a browser that is gone."""
    left = app.metric('zhida_questions_total{outcome="left"}')
    page = ChatClient(app.url)
    await page.__aenter__()
    await page.send("慢慢说")
    await page.until(lambda: bool(page.answers()) and page.answer.startswith("慢慢"))
    await page.leave()
    async with asyncio.timeout(10):
        while app.metric('zhida_questions_total{outcome="left"}') == left:
            await asyncio.sleep(0.05)
    assert app.metric("zhida_running") == 0


async def test_an_upload_is_refused(app: AppServer) -> None:
    """S6: until files are read, none is taken, and none is served."""
    async with ChatClient(app.url) as page, httpx.AsyncClient(trust_env=False) as http:
        reply = await http.post(
            f"{app.url}/project/file?session_id={page.session_id}",
            files={"file": ("x.svg", b"<svg onload='alert(1)'/>", "image/svg+xml")},
        )
        assert reply.status_code >= 400
        assert await page.ask("你好") == "这是回答。"


def test_health_and_metrics(app: AppServer) -> None:
    """Live, ready with the model's name, and the figures by name; nothing from outside may be loaded."""
    assert app.get("/health/live").json() == {"status": "ok"}
    ready = app.readiness()
    assert (ready["state"], ready["model"], ready["demo"]) == ("ready", "scripted", None)
    text = app.get("/metrics").text
    for name in ("zhida_questions_total", "zhida_first_token_seconds_bucket", "zhida_per_token_seconds_bucket"):
        assert name in text
    assert app.metric('zhida_engine_state{zhida_engine_state="ready"}') == 1
    page = app.get("/")
    assert "https://" not in page.text.replace('content="https://', "")
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]


def refused(folder: Path, port: int, **env: str) -> str:
    """Start an app that must refuse to start; returns what it says."""
    app = AppServer(folder, env)
    command = [sys.executable, "-m", "chainlit", "run", "app.py", "--headless", "--port", str(port)]
    run = subprocess.run(command, cwd=app.folder, env=app.env, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    return run.stderr


def test_a_taken_port_is_refused_before_anything_loads(app: AppServer, tmp_path: Path) -> None:
    """E6: the port is named, exit status 1."""
    said = refused(tmp_path, app.port, ENGINE_BACKEND="scripted")
    assert f"端口 {app.port}" in said
    assert f"make run PORT={app.port + 1}" in said


def test_a_server_address_that_is_this_app_is_refused(tmp_path: Path) -> None:
    """E6: ENGINE_BASE_URL with the app's own port."""
    port = free_port()
    for host in ("localhost", "127.0.0.1", "0.0.0.0", "[::1]"):
        assert "指向了本应用自己的端口" in refused(tmp_path, port, ENGINE_BASE_URL=f"http://{host}:{port}/v1")


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"ENGINE_MODLE": "x"}, "不认识的设置 ENGINE_MODLE。是不是 ENGINE_MODEL？"),
        ({"ENGINE_MAX_TOKENS": "many"}, "设置 ENGINE_MAX_TOKENS 的值 'many' 不可用"),
        ({"ENGINE_BACKEND": "server"}, "ENGINE_BACKEND=server 需要 ENGINE_BASE_URL"),
        ({"ENGINE_BASE_URL": "http://127.0.0.1:80000/v1"}, "ENGINE_BASE_URL 不是可用的地址"),
        ({"ENGINE_PROFILE": "a11"}, "没有名为 a11 的显卡配置"),
        ({"ENGINE_PROFILE": "a10", "CUDA_VISIBLE_DEVICES": "-1"}, "配置 a10 需要 NVIDIA 显卡"),
    ],
)
def test_wrong_settings_are_refused_with_the_remedy(tmp_path: Path, env: dict[str, str], sentence: str) -> None:
    """A configuration that cannot work stops the start with one sentence."""
    assert sentence in refused(tmp_path, free_port(), **env)


def test_open_to_the_network_is_warned_of(tmp_path: Path) -> None:
    """HOST=0.0.0.0 without sign-in: said on the console; on localhost alone nothing is said."""
    for host, warned in (("0.0.0.0", True), ("127.0.0.1", False)):
        app = AppServer(tmp_path / host, {"ENGINE_BACKEND": "scripted", "CHAINLIT_HOST": host})
        with app:
            assert ("任何人都能使用" in app.tail()) is warned


@pytest.mark.parametrize(
    ("host", "setting", "allowed"),
    [("127.0.0.1", "", True), ("0.0.0.0", "", False), ("0.0.0.0", "true", True), ("127.0.0.1", "false", False)],
)
def test_who_may_switch_the_profile(monkeypatch: pytest.MonkeyPatch, host: str, setting: str, allowed: bool) -> None:
    """By default only an app that listens on localhost alone; ENGINE_ALLOW_SWITCH decides otherwise."""
    from chainlit.config import config
    from chainlit.server import app

    from assistant import boot
    from engine.settings import Settings

    monkeypatch.setattr(config.run, "host", host)
    monkeypatch.setattr(
        app.state, "settings", Settings(engine_allow_switch=setting == "true" if setting else None), raising=False
    )
    assert boot.switch_allowed() is allowed


@pytest.mark.parametrize("headers", [{"X-Forwarded-For": "10.0.0.7"}, {"Host": "chat.example"}, {"Host": "["}])
async def test_behind_a_proxy_nobody_may_restart(tmp_path: Path, headers: dict[str, str]) -> None:
    """Listening on this machine alone is no sign of who asks, once somebody has come through a proxy."""
    with AppServer(tmp_path / "app", ENGINE_BACKEND="scripted") as app:
        app.ready()
        async with ChatClient(app.url) as page, httpx.AsyncClient(trust_env=False) as http:
            await http.get(app.url + "/health/live", headers=headers)
            await page.press({"id": "1", "forId": "1", "name": "restart_engine", "payload": {}, "label": "x"})
            await page.until(lambda: page.answers() == ["这里不允许重新启动引擎（ENGINE_ALLOW_SWITCH）。"])


async def test_a_forged_switch_is_refused(tmp_path: Path) -> None:
    """Where switching is not allowed, a hand-made button press changes nothing."""
    with AppServer(tmp_path, {"ENGINE_BACKEND": "scripted", "ENGINE_ALLOW_SWITCH": "false"}) as app:
        app.ready()
        async with ChatClient(app.url) as page:
            await page.press(
                {"id": "1", "forId": "1", "name": "switch_profile", "payload": {"profile": "cpu"}, "label": "x"}
            )
            await page.until(lambda: page.answers() == ["这里不允许切换显卡配置（ENGINE_ALLOW_SWITCH）。"])
