"""`chainlit run app.py -w`: a developer saves files, and the model stays where it is."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.app_server import AppServer
from tests.browser.chat_page import ChatPage
from tests.browser.conftest import SCRIPT, OpenChat, StartApp
from tests.chat_client import ChatClient


def watching(folder: Path, settings: dict[str, str]) -> AppServer:
    """The app under -w, its console's output outside the folder that it watches."""
    app = AppServer(folder / "app", settings, watch=True)
    app.log = folder / "app.log"
    return app


@pytest.fixture
def watched(tmp_path: Path, start_app: StartApp) -> AppServer:
    """The app under -w on the scripted engine."""
    settings = {"ENGINE_BACKEND": "scripted", "ENGINE_SCRIPT": str(SCRIPT)}
    return start_app(watching(tmp_path, settings)).ready()


def save(app: AppServer, name: str, text: str) -> None:
    """What an editor's save does."""
    (app.folder / name).write_text(text, encoding="utf-8")


def read(app: AppServer, name: str) -> str:
    return (app.folder / name).read_text(encoding="utf-8")


def save_and_see_the_reload(chat: ChatPage, app: AppServer, name: str, text: str) -> None:
    """Save a file and wait until the page has loaded itself again."""
    with chat.page.expect_event("load"):
        save(app, name, text)
    chat.connected()


def test_saved_files_reload_the_page_and_not_the_app(watched: AppServer, open_chat: OpenChat) -> None:
    """C1: app.py and a module saved: the page loads again, the new code is in force, and the process is the same."""
    chat, pid = open_chat(watched), watched.pid
    texts = "assistant/texts.py"
    save_and_see_the_reload(chat, watched, "app.py", read(watched, "app.py") + "\n# saved\n")
    changed = read(watched, texts).replace('Words("重新生成", "Regenerate")', 'Words("再来一次", "Again")')
    assert changed != read(watched, texts)
    save_and_see_the_reload(chat, watched, texts, changed)
    chat.ask("短")
    assert chat.ended() == "这是一个短的回答。"
    chat.page.get_by_role("button", name="再来一次").click()
    chat.until(lambda: watched.metric('zhida_questions_total{outcome="answered"}') == 2)
    assert (watched.pid, watched.process and watched.process.poll()) == (pid, None)


def test_syntax_error_is_survived(watched: AppServer, open_chat: OpenChat) -> None:
    """C1: app.py saved half-written, then repaired: the chat works again without a restart."""
    chat, whole = open_chat(watched), read(watched, "app.py")
    with chat.page.expect_event("load"):
        save(watched, "app.py", whole + "\ndef broken(:\n")
    assert "Error reloading module" in watched.tail()
    save_and_see_the_reload(chat, watched, "app.py", whole + "\n# repaired\n")
    chat.ask("短")
    assert chat.ended() == "这是一个短的回答。"


async def _upload(app: AppServer) -> int:
    """Upload a Python file into a chat that is open; the status of the answer."""
    async with ChatClient(app.url) as client, httpx.AsyncClient(trust_env=False) as http:
        files = {"file": ("evil.py", b"raise SystemExit", "text/x-python")}
        reply = await http.post(f"{app.url}/project/file?session_id={client.session_id}", files=files)
        return reply.status_code


def test_upload_is_refused_and_reloads_nothing(watched: AppServer, open_chat: OpenChat) -> None:
    """C1: a file sent by hand is refused, stored nowhere, and no page is reloaded."""
    chat = open_chat(watched)
    chat.page.evaluate("window.untouched = true")
    with ThreadPoolExecutor(1) as thread:  # Playwright's loop runs in this one
        status = thread.submit(asyncio.run, _upload(watched)).result()
    assert 400 <= status < 500
    assert [path for path in (watched.folder / ".files").rglob("*") if path.is_file()] == []
    chat.ask("短")
    chat.ended()
    assert chat.page.evaluate("window.untouched")


def test_engine_process_survives_a_reload(
    tmp_path: Path, tiny_model: Path, start_app: StartApp, open_chat: OpenChat
) -> None:
    """C1: under -w with a real engine: app.py and a module saved, still one EngineCore, the same, and it answers."""
    settings = {"ENGINE_BACKEND": "inprocess", "ENGINE_MODEL": str(tiny_model), "ENGINE_MAX_TOKENS": "32"}
    app = start_app(watching(tmp_path, settings)).ready()
    chat = open_chat(app)
    chat.ask("保存以前")
    chat.ended()
    before = {core.pid for core in app.cores()}
    assert before
    for name in ("app.py", "assistant/turn.py"):
        save_and_see_the_reload(chat, app, name, read(app, name) + "\n# saved\n")
    chat.ask("保存以后")
    chat.ended()
    assert chat.facts()[1] == 32
    assert {core.pid for core in app.cores()} == before
