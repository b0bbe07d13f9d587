"""Pictures for people to look at: every state, in light and dark, on a desktop and on a phone. They also check that
nothing is wider than the screen."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.app_server import AppServer
from tests.browser.chat_page import STRIP, ChatPage
from tests.browser.conftest import OpenChat, StartApp

LOOKS = [{"phone": phone, "dark": dark} for phone in (False, True) for dark in (False, True)]


def name_of(look: dict[str, bool]) -> str:
    return f"{'phone' if look['phone'] else 'desktop'}-{'dark' if look['dark'] else 'light'}"


def take(chat: ChatPage, what: str, look: dict[str, bool]) -> None:
    """Keep a picture, and see that nothing sticks out on the right."""
    chat.shot(f"{what}-{name_of(look)}")
    wider = chat.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wider <= 0


@pytest.mark.parametrize("look", LOOKS, ids=name_of)
def test_chat_from_welcome_to_settings(scripted_app: AppServer, open_chat: OpenChat, look: dict[str, bool]) -> None:
    """Welcome, mid-answer, a finished answer with its footer, an answer that broke off, and the open settings."""
    chat = open_chat(scripted_app, **look)
    expect(chat.page.locator("#starters, [id^=starter-]").first).to_be_visible()
    take(chat, "welcome", look)
    chat.ask("慢")
    chat.growing(0, beyond=8)
    take(chat, "streaming", look)
    chat.stop()
    chat.ended(0)
    chat.ask("表格")
    chat.ended(1)
    take(chat, "answer", look)
    chat.ask("断")
    chat.ended(2)
    assert chat.notices(2)
    take(chat, "error", look)
    chat.open_settings()
    take(chat, "settings", look)


def loading_app(folder: Path) -> AppServer:
    """An app whose engine takes ten minutes to load."""
    script = folder / "slow.toml"
    script.write_text('[engine]\nload_s = 600\n[[rules]]\ntext = "好"\n', encoding="utf-8")
    return AppServer(folder / "app", ENGINE_BACKEND="scripted", ENGINE_SCRIPT=str(script))


def test_loading_strip(tmp_path: Path, start_app: StartApp, open_chat: OpenChat) -> None:
    """While the engine loads, a strip says so, and a question waits, saying how long it has."""
    app = start_app(loading_app(tmp_path))
    for look in LOOKS:
        chat = open_chat(app, **look)
        expect(chat.page.locator(STRIP)).to_have_attribute("data-kind", "loading")
        chat.ask("等加载")
        expect(chat.answers).to_contain_text("模型加载中… ")
        take(chat, "loading", look)
        chat.stop()
        expect(chat.answers).to_contain_text("已停止")


def test_dead_strip(tmp_path: Path, start_app: StartApp, open_chat: OpenChat) -> None:
    """Where the engine cannot start, the strip and the answer to a question say why, in one sentence of Chinese."""
    empty = tmp_path / "没有模型"
    empty.mkdir()
    app = start_app(AppServer(tmp_path / "app", ENGINE_BACKEND="inprocess", ENGINE_MODEL=str(empty)))
    for look in LOOKS:
        chat = open_chat(app, **look)
        expect(chat.page.locator(STRIP)).to_have_attribute("data-kind", "warning", timeout=20_000)
        expect(chat.page.locator("[data-testid=status-text]")).to_contain_text("config.json")
        chat.ask("还能回答吗")
        expect(chat.answers).to_contain_text("config.json")
        take(chat, "dead", look)
