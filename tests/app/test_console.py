"""The console by socket and HTTP: the command, the setting, the figures, the buttons, and who may press them."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app_server import AppServer
from tests.chat_client import ChatClient

SCRIPT = """
[engine]
model = "脚本"

[[rules]]
match = "断"
text = "断了"
error = "StreamBroken"

[[rules]]
text = "这是回答。"
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One app for this file's tests."""
    folder = tmp_path_factory.mktemp("console")
    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    with AppServer(folder, ENGINE_BACKEND="scripted", ENGINE_SCRIPT="script.toml") as app:
        yield app.ready()


async def command(page: ChatClient, text: str = "", name: str = "引擎状态") -> None:
    """Send a command from the composer, with or without text."""
    message = {
        "id": str(uuid.uuid4()), "threadId": "", "name": "user", "type": "user_message", "output": text, "command": name,
        "createdAt": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    await page._socket.emit("client_message", {"message": message, "fileReferences": None})


def panels(page: ChatClient) -> list[dict[str, Any]]:
    """The consoles that were sent to this page and are still on it."""
    elements = [data for event, data in page.events if event == "element" and data["name"] == "EngineConsole"]
    return [element for element in elements if element["forId"] in page.messages]


def heard(page: ChatClient, event: str) -> list[Any]:
    """What came with an event, oldest first."""
    return [data for name, data in page.events if name == event]


async def test_the_command_is_offered_and_opens_the_console(app: AppServer) -> None:
    """Empty text: a panel, no question, no answer; the settings panel says that it is open."""
    async with ChatClient(app.url) as page:
        assert [offer["id"] for offer in heard(page, "set_commands")[-1]] == ["资料", "引擎状态"]
        await command(page)
        await page.until(lambda: len(panels(page)) == 1 and not page.busy)
        assert page.answers() == [""]
        assert {widget["id"]: widget["initial"] for widget in page.settings}["console"] is True
        assert json.loads(app.get("/engine/status").text)["ended"] == 0
        assert await page.ask("你好") == "这是回答。"


async def test_english_browsers_have_the_command_in_english(app: AppServer) -> None:
    """Offered and understood."""
    async with ChatClient(app.url, "en-US") as page:
        assert [offer["id"] for offer in heard(page, "set_commands")[-1]] == ["Documents", "Engine status"]
        await command(page, name="Engine status")
        await page.until(lambda: len(panels(page)) == 1)


async def test_a_command_with_text_does_both(app: AppServer) -> None:
    """Nothing that was typed is lost."""
    async with ChatClient(app.url) as page:
        await command(page, "你好")
        await page.until(lambda: "这是回答。" in page.answers() and len(panels(page)) == 1 and not page.busy)


async def test_opened_again_there_is_one_panel(app: AppServer) -> None:
    """The newest, at the end of the chat; the old one goes."""
    async with ChatClient(app.url) as page:
        for turn in range(2):
            await command(page)
            await page.until(lambda sent=2 * turn + 1: len(heard(page, "element")) == sent and len(panels(page)) == 1)  # type: ignore[misc]
            await page.ask("你好")
        await page.until(lambda: len(heard(page, "element")) == 4)  # two panels, two footers
        assert len(panels(page)) == 1


async def test_the_setting_opens_and_closes_it(app: AppServer) -> None:
    """On: a panel. Confirmed again: still that one. Off: gone."""
    async with ChatClient(app.url) as page:
        await page.change_settings(console=True)
        await page.until(lambda: len(panels(page)) == 1)
        first = panels(page)[0]["id"]
        await page.change_settings(temperature=0.5)
        assert [panel["id"] for panel in panels(page)] == [first]
        await page.change_settings(console=False)
        await page.until(lambda: panels(page) == [])


def test_status_says_what_it_knows_and_null_for_the_rest(app: AppServer) -> None:
    """Never cached; unknown is null, not 0; nothing secret."""
    reply = app.get("/engine/status")
    assert (reply.status_code, reply.headers["cache-control"]) == (200, "no-store")
    status = reply.json()
    assert status["state"] == "ready"
    assert status["model"] == "脚本"
    assert status["uptime_s"] > 0
    assert status["memory"] > 10_000_000
    assert (status["concurrent"], status["max_queued"], status["running"], status["queued"]) == (64, 256, 0, 0)
    unknown = ("profile", "kv_use", "preemptions", "gpu")
    assert [status[name] for name in unknown] == [None] * len(unknown)
    assert str(app.folder) not in reply.text


async def test_errors_are_counted_and_warned_of(app: AppServer) -> None:
    """Failed answers: in the panel, in the strip of those who may act, on the console once, and in /metrics."""
    async with ChatClient(app.url) as page:
        for _ in range(20):
            await page.ask("断")
        while (status := app.get("/engine/status").json())["failed"] < 20 or not status["warnings"]:
            pass
    warning = status["warnings"][0]["zh"]
    assert warning.startswith("出错偏多：最近 15 分钟")
    assert app.readiness()["warnings"] == status["warnings"]
    assert app.metric('zhida_warning{kind="errors"}') == 1
    assert app.metric('zhida_warning{kind="kv_cache"}') == 0
    assert app.metric('zhida_limit{kind="concurrent"}') == 64
    assert app.metric("zhida_uptime_seconds") > 0
    assert "zhida_kv_use_ratio" not in app.get("/metrics").text
    assert app.tail().count("出错偏多") == 1


async def test_restart_asks_first(app: AppServer) -> None:
    """The button asks; 取消 leaves the engine alone; 确认 loads it again, and the next question is answered."""
    async with ChatClient(app.url) as page:
        await page.press({"id": "1", "forId": "1", "name": "ask_restart", "payload": {}, "label": "x"})
        await page.until(lambda: bool(page.answers()) and "要重新启动引擎吗" in page.answer and len(page.actions) == 2)
        await page.press(page.button("keep_engine"))
        await page.until(lambda: page.answer == "已取消，引擎照常运行。" and page.actions == [])
        uptime = app.get("/engine/status").json()["uptime_s"]
        await page.press({"id": "1", "forId": "1", "name": "ask_restart", "payload": {}, "label": "x"})
        await page.until(lambda: len(page.actions) == 2)
        await page.press(page.button("restart_engine"))
        await page.until(lambda: page.answer == "引擎已重新启动。")
        assert app.get("/engine/status").json()["uptime_s"] < uptime
        assert await page.ask("你好") == "这是回答。"


@pytest.mark.parametrize("action", ["ask_restart", "restart_engine", "ask_switch"])
async def test_who_may_not_is_refused(tmp_path: Path, action: str) -> None:
    """ENGINE_ALLOW_SWITCH=false: no buttons, no warnings in the strip, and a press made by hand changes nothing."""
    (tmp_path / "script.toml").write_text(SCRIPT, encoding="utf-8")
    forbidden = {"ENGINE_BACKEND": "scripted", "ENGINE_ALLOW_SWITCH": "false", "ENGINE_SCRIPT": "script.toml"}
    with AppServer(tmp_path, forbidden) as app:
        app.ready()
        async with ChatClient(app.url) as page:
            for _ in range(2):
                await page.ask("断")
            while not app.metric('zhida_warning{kind="errors"}'):
                pass
            assert app.readiness()["warnings"] == app.get("/engine/status").json()["warnings"] == []
        async with ChatClient(app.url) as page:
            await command(page)
            await page.until(lambda: len(panels(page)) == 1 and not page.busy)
            assert panels(page)[0]["props"] == {"mayControl": False, "profiles": []}
            await page.press({"id": "1", "forId": "1", "name": action, "payload": {"profile": "cpu"}, "label": "x"})
            await page.until(lambda: "不允许" in page.answer)
            assert page.actions == []
            assert app.readiness()["state"] == "ready"


def test_below_a_proxys_path(tmp_path: Path) -> None:
    """C3: served at /chat/, the page asks below that path; probes need no path."""
    with AppServer(tmp_path, {"ENGINE_BACKEND": "scripted", "CHAINLIT_ROOT_PATH": "/chat"}) as app:
        app.ready()
        for path in ("/engine/status", "/chat/engine/status"):
            assert app.get(path).json()["state"] == "ready"


async def test_no_folder_of_the_machine_is_told(tmp_path: Path) -> None:
    """A dead engine's reason reaches everybody: the file's name is in it, its folder is on the server's console alone."""
    with AppServer(tmp_path, {"ENGINE_BACKEND": "scripted", "ENGINE_SCRIPT": str(tmp_path / "none.toml")}) as app:
        while app.readiness()["state"] != "dead":
            pass
        async with ChatClient(app.url) as page:
            answer = await page.ask("你好")
        for text in (answer, app.get("/health/ready").text, app.get("/engine/status").text):
            assert "none.toml" in text
            assert str(tmp_path) not in text
        assert str(tmp_path / "none.toml") in app.tail()
