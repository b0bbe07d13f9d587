"""What a browser's language brings, and what the page never does."""

import pytest
from playwright.sync_api import expect

from tests.app_server import AppServer
from tests.browser.conftest import OpenChat

CHINESE = ("zh", "zh-HK", "zh-Hans-CN", "zh-TW")
ENGLISH = ("en", "en-GB")
EXPECTED = {
    "zh": ("输入问题", "怎样提问", "介绍一下你自己", "重新生成"),
    "en": ("Ask anything", "Asking", "Introduce yourself", "Regenerate"),
}


@pytest.mark.parametrize("language", [*CHINESE, *ENGLISH])
def test_language_of_the_page(scripted_app: AppServer, open_chat: OpenChat, language: str) -> None:
    """C2: every Chinese tag gets the Chinese page, welcome text, starters and buttons; English ones get English."""
    chat = open_chat(scripted_app, language=language)
    placeholder, welcome, starter, button = EXPECTED[language[:2]]
    assert placeholder in (chat.page.get_attribute("#chat-input", "placeholder") or "")
    chat.page.get_by_role("button", name=starter).wait_for()
    chat.page.click("#readme-button")
    chat.page.get_by_role("heading", name=welcome).wait_for()
    chat.page.keyboard.press("Escape")
    chat.page.get_by_role("button", name=starter).click()
    chat.ended()
    chat.page.get_by_role("button", name=button).wait_for()


def test_page_asks_nothing_of_other_hosts(scripted_app: AppServer, open_chat: OpenChat) -> None:
    """From the first page to an answer, through every dialog, all requests go to the app."""
    chat = open_chat(scripted_app)
    chat.page.click("#theme-toggle")
    chat.page.get_by_role("menuitem", name="跟随系统").click()
    chat.page.click("#readme-button")
    chat.page.get_by_role("heading", name="怎样提问").wait_for()
    chat.page.keyboard.press("Escape")
    expect(chat.page.get_by_role("heading", name="怎样提问")).not_to_be_visible()
    chat.ask("表格")
    chat.ended()
    chat.open_settings()
    assert len(chat.requests) > 10
    assert chat.outside == []
