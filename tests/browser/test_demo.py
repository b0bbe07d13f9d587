"""From nothing to a streamed answer: the demo weights, end to end."""

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.app_server import AppServer
from tests.browser.chat_page import PLACEHOLDER, STRIP
from tests.browser.conftest import OpenChat, StartApp

READY_S = 900.0
"""Download and conversion included, where nobody has made them before."""


def test_demo_model_introduces_itself(tmp_path: Path, start_app: StartApp, open_chat: OpenChat) -> None:
    """The demo model, really loaded, answers in Chinese; banner and footer say that it is the demo model."""
    app = start_app(
        AppServer(tmp_path / "app", ENGINE_BACKEND="inprocess", ENGINE_MODEL="demo", ENGINE_MAX_TOKENS="96")
    )
    early = open_chat(app)
    expect(early.page.locator(STRIP)).to_have_attribute("data-kind", "loading")
    early.shot("demo-loading-desktop-light")
    app.ready(READY_S)
    expect(early.page.locator(STRIP)).to_have_attribute("data-kind", "demo", timeout=20_000)
    expect(early.page.locator("[data-testid=status-text]")).to_contain_text("演示模型")
    early.shot("demo-welcome-desktop-light")
    early.ask("你好，请用一句话介绍你自己")
    answer = early.ended(timeout_s=120)
    early.shot("demo-answer-desktop-light")
    assert re.search(r"[\u4e00-\u9fff]{2}", answer)
    assert "演示模型的回答，仅供体验" in early.notices()
    states = [texts[0] for _, texts in early.seen()]
    assert states[0] == PLACEHOLDER
    assert len(states) > 5
    phone = open_chat(app, phone=True, dark=True)
    expect(phone.page.locator(STRIP)).to_have_attribute("data-kind", "demo", timeout=20_000)
    phone.shot("demo-welcome-phone-dark")
