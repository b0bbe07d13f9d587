"""One question after another on a real engine: placeholder, text, footer; stop, edit, regenerate."""

import re
import time
from collections.abc import Callable
from itertools import pairwise

from playwright.sync_api import expect

from tests.app_server import AppServer
from tests.browser.chat_page import PLACEHOLDER, ChatPage
from tests.browser.conftest import OpenChat
from tests.tiny_model import LOOP

RECITAL = LOOP * 300
SETTLED_MS = 1000


def running(app: AppServer) -> float:
    return app.metric("zhida_running")


def outcomes(app: AppServer, outcome: str) -> float:
    return app.metric(f'zhida_questions_total{{outcome="{outcome}"}}')


def generated(app: AppServer) -> float:
    """Tokens that vLLM has generated since it was started; unlike the page it answers at once, however busy."""
    found = re.search(r"^vllm:generation_tokens_total{.*} (\S+)$", app.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def wait_for(condition: Callable[[], bool], timeout_s: float) -> None:
    """Wait without the browser, whose every call waits for a page that is busy with a fast model's text."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"not within {timeout_s} s"
        time.sleep(0.02)


def assert_recited(text: str) -> None:
    """A stopped answer may end anywhere; whatever is there is what the model said."""
    assert text
    assert RECITAL.startswith(text.rstrip())


def stop_and_settle(chat: ChatPage, app: AppServer, number: int) -> str:
    """Press stop, wait until the answer is closed and the engine free; returns the text that stays."""
    assert running(app) == 1
    chat.stop()
    wait_for(lambda: running(app) == 0, 1)
    text = chat.ended(number)
    assert chat.notices(number) == ["已停止"]
    return text


def test_placeholder_then_growing_text_in_one_place(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """The answer's place shows 思考中..., then text that only grows, then a footer; nothing flickers and nothing is left."""
    chat = open_chat(tiny_app)
    chat.answer_at_most("PageUp", "PageUp")
    chat.ask("你好，请用一句话介绍你自己。")
    text = chat.ended()
    states = [texts for _, texts in chat.seen()]
    assert {len(texts) for texts in states} == {1}
    assert states[0] == [PLACEHOLDER]
    spoken = [texts[0] for texts in states[1:]]
    assert len(spoken) > 3
    for before, after in pairwise(spoken):
        assert after.startswith(before.rstrip())
    assert spoken[-1] == text
    assert_recited(text)
    expect(chat.page.locator(".loading-cursor")).to_have_count(0)
    expect(chat.questions.first).to_be_in_viewport(ratio=1)
    expect(chat.page.get_by_role("button", name="重新生成")).to_be_in_viewport(ratio=1)
    chat.shot("answer-desktop-light")


def test_footer_says_how_the_answer_was_made(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """First-token time, speed, tokens out of the window, and that the answer was cut off at its longest."""
    chat = open_chat(tiny_app)
    chat.answer_at_most("PageUp")
    chat.ask("再说一遍")
    chat.ended()
    prompt, answer, window = chat.facts()
    assert (answer, window) == (176, 16384)
    assert prompt > 0
    assert chat.notices() == ["已达长度上限"]
    facts = chat.page.locator("[data-testid=answer-facts]").inner_text()
    assert "首字 " in facts
    assert "字元/s" in facts


def test_stop_keeps_the_text_and_frees_the_engine(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """S1: within a second nothing more comes and nothing runs; 已停止, no English notice, and the next question works."""
    chat = open_chat(tiny_app)
    chat.answer_at_most()
    chat.ask("先短后长")  # from here on the stop button's place is known
    chat.ended(0)
    chat.answer_at_most("End")
    before = generated(tiny_app)
    chat.ask("请写得长一点")
    wait_for(lambda: generated(tiny_app) > before + 60, 30)
    text = stop_and_settle(chat, tiny_app, 1)
    assert_recited(text)
    chat.ask("下一个问题")
    chat.growing(2)
    stop_and_settle(chat, tiny_app, 2)
    assert chat.text(1) == text
    assert chat.answers.count() == 3
    assert "Task manually stopped" not in chat.page.inner_text("body")
    chat.shot("stopped-desktop-light")


def test_stop_ends_the_text_within_a_second(scripted_app: AppServer, open_chat: OpenChat) -> None:
    """S1: at a model's usual speed nothing more is written from a second after the press; the text so far stays."""
    chat = open_chat(scripted_app)
    chat.ask("慢")
    chat.growing(0, beyond=8)
    chat.stop()
    text = chat.ended()
    chat.ask("短")
    chat.ended(1)
    assert chat.text(0) == text
    assert [texts[0] for at, texts in chat.seen() if at > chat.pressed_ms() + SETTLED_MS and texts[0] != text] == []


def test_stop_before_the_first_word(scripted_app: AppServer, open_chat: OpenChat) -> None:
    """E9: stopped while 思考中... stands there, the answer says 已停止, and the next question is answered."""
    chat = open_chat(scripted_app)
    chat.ask("等很久")
    expect(chat.answers).to_have_text([PLACEHOLDER])
    chat.stop()
    chat.until(lambda: chat.text() == "已停止")
    chat.until(lambda: running(scripted_app) == 0, 1)
    chat.ask("短")
    assert chat.ended() == "这是一个短的回答。"


def test_edit_an_old_question_then_stop(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """S10: an edited question takes the later messages away, is answered, and its answer can be stopped."""
    chat = open_chat(tiny_app)
    for number, question in enumerate(("第一个问题", "第二个问题")):
        chat.ask(question)
        chat.growing(number)
        stop_and_settle(chat, tiny_app, number)
    chat.edit(0, "改过的第一个问题")
    chat.until(lambda: running(tiny_app) == 1)
    chat.until(lambda: len(chat.lengths) == 1)
    chat.growing(0)
    stop_and_settle(chat, tiny_app, 0)
    expect(chat.questions).to_have_count(1)
    expect(chat.questions.first).to_contain_text("改过的第一个问题")
    assert chat.page.locator("[data-step-type]").evaluate_all(
        "steps => steps.map((step) => step.dataset.stepType)"
    ) == [
        "user_message",
        "assistant_message",
    ]


def test_nothing_else_can_be_asked_while_an_answer_runs(scripted_app: AppServer, open_chat: OpenChat) -> None:
    """S10: in mid-answer the page offers stop in place of send, and an edit only once the answer has ended."""
    chat = open_chat(scripted_app)
    chat.ask("慢")
    chat.growing(0, beyond=8)
    expect(chat.page.locator("#chat-submit")).to_have_count(0)
    expect(chat.questions.first.locator("button.edit-message")).to_be_disabled()
    chat.stop()
    chat.ended()
    expect(chat.questions.first.locator("button.edit-message")).to_be_enabled()


def test_regenerate_and_stop(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """The button under the newest answer asks its question again; one answer remains, and it can be stopped."""
    chat = open_chat(tiny_app)
    chat.ask("换一个说法")
    chat.growing(0)
    stop_and_settle(chat, tiny_app, 0)
    before = outcomes(tiny_app, "stopped")
    chat.page.get_by_role("button", name="重新生成").click()
    chat.until(lambda: not chat.lengths or chat.lengths[0] <= len(PLACEHOLDER))  # the old answer has gone
    chat.growing(0)
    text = stop_and_settle(chat, tiny_app, 0)
    assert_recited(text)
    assert outcomes(tiny_app, "stopped") == before + 1
    assert (chat.questions.count(), chat.answers.count()) == (1, 1)
