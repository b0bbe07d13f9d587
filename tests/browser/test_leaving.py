"""Several browsers, and browsers that go away in mid-answer."""

from tests.app_server import AppServer
from tests.browser.chat_page import ChatPage
from tests.browser.conftest import OpenChat
from tests.browser.test_answer import outcomes, running


def test_two_browsers_stream_at_once(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """E2: two questions in turn, then two at once from two browsers: all stream."""
    first, second = open_chat(tiny_app), open_chat(tiny_app)
    for number, chat in enumerate((first, second)):
        chat.ask(f"轮流的问题{number}")
        chat.growing(0)
        chat.stop()
        chat.ended(0)
    for chat in (first, second):
        chat.ask("同时的问题")
    for chat in (first, second):
        chat.growing(1)
    assert running(tiny_app) == 2
    lengths = [chat.lengths[1] for chat in (first, second)]
    for chat, length in zip((first, second), lengths, strict=True):
        chat.growing(1, beyond=length + 20)
    assert running(tiny_app) == 2
    for chat in (first, second):
        chat.stop()
    for chat in (first, second):
        chat.ended(1)
    assert running(tiny_app) == 0


def freed(watcher: ChatPage, app: AppServer, left_before: float) -> None:
    """Wait until the engine is free because somebody left, not because an answer had ended."""
    watcher.until(lambda: outcomes(app, "left") == left_before + 1, 10)
    assert running(app) == 0


def test_closed_tab_frees_the_engine_after_the_grace(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """E5: the tab closed in mid-answer: the answer goes on for ENGINE_LEAVE_GRACE_S, then the engine runs nothing."""
    watcher, leaver = open_chat(tiny_app), open_chat(tiny_app)
    before = outcomes(tiny_app, "left")
    leaver.ask("回答时关掉")
    leaver.growing(0)
    leaver.close()
    assert running(tiny_app) == 1
    freed(watcher, tiny_app, before)


def test_reload_in_mid_answer_frees_the_engine(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """E5: a reload is a new chat; the answer of the old one ends after the grace, and the new chat works."""
    chat = open_chat(tiny_app)
    before = outcomes(tiny_app, "left")
    chat.ask("回答时刷新")
    chat.growing(0)
    chat.page.reload()
    chat.connected()
    assert chat.questions.count() == 0
    freed(chat, tiny_app, before)
    chat.answer_at_most()
    chat.ask("刷新以后")
    chat.ended()
