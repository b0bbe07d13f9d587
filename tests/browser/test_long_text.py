"""Long texts: an answer that the page must keep up with, and a question that is too long."""

import json
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import expect

from tests.app_server import AppServer
from tests.browser.chat_page import PLACEHOLDER, ChatPage
from tests.browser.conftest import OpenChat, StartApp

LAG_MS = 1000
TOO_LONG = 1_100_000

LISTEN = """
window.heard = []
let text = ''
const Native = window.WebSocket
window.WebSocket = class extends Native {
  constructor(...all) {
    super(...all)
    this.addEventListener('message', ({ data }) => {
      if (typeof data !== 'string' || !data.startsWith('42["stream_token"')) return
      const [, { token, isSequence }] = JSON.parse(data.slice(2))
      text = isSequence ? token : text + token
      window.heard.push([performance.now(), text.length])
      window.message = text
    })
  }
}
"""
"""Notes when each piece of the answer has arrived at the browser."""


@dataclass(frozen=True)
class Block:
    """A piece of Markdown, and what of it can be read on the page, white space apart."""

    markdown: str
    visible: str


def _block(number: int) -> Block:
    """A sentence, a table or some code; each carries its mark, a number that comes only once."""
    mark = f"〔{number:03}〕"
    match number % 8:
        case 3:
            rows = [[f"{mark}第{row}行", f"数值{row * number}", f"备注{row}：正常"] for row in range(4)]
            table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
            return Block(
                f"| 项目 | 数值 | 备注 |\n| --- | --- | --- |\n{table}",
                "项目数值备注" + "".join(cell for row in rows for cell in row),
            )
        case 6:
            code = f"def step_{number}(value: int) -> int:\n    # {mark}\n    return value * {number} + 1"
            return Block(f"```python\n{code}\n```", f"python{code}")  # the language stands above the code
        case _:
            return Block(
                f"{mark}这是**长回答**里的一句话，用来看页面是否跟得上，`代码{number}`也在其中，后面还有几句差不多的话。",
                f"{mark}这是长回答里的一句话，用来看页面是否跟得上，代码{number}也在其中，后面还有几句差不多的话。",
            )


BLOCKS = [_block(number) for number in range(56)]
ANSWER = "\n\n".join(block.markdown for block in BLOCKS)


def squeezed(text: str) -> str:
    """Without white space: a table's cells and a paragraph's lines are joined differently on a page."""
    return "".join(text.split())


def long_app(folder: Path) -> AppServer:
    """Says ANSWER, 3 characters at a time and about 300 times a second: ten times a fast model on a CPU."""
    rule = f"text = {json.dumps(ANSWER, ensure_ascii=False)}\ndelay_s = 0.002"
    script = folder / "long.toml"
    script.write_text(f"[engine]\nwindow = 16384\n[[rules]]\n{rule}\n", encoding="utf-8")
    return AppServer(
        folder / "app",
        ENGINE_BACKEND="scripted",
        ENGINE_SCRIPT=str(script),
        ENGINE_MAX_MODEL_LEN="16384",
        ENGINE_MAX_TOKENS="8192",
    )


def lags_ms(chat: ChatPage) -> list[float]:
    """For each mark, the time between its arrival at the browser and its being on the page."""
    heard: list[tuple[float, int]] = chat.page.evaluate("window.heard")
    message: str = chat.page.evaluate("window.message")
    seen = [(at, texts[-1]) for at, texts in chat.seen()]
    lags = []
    for number in range(len(BLOCKS)):
        mark = f"〔{number:03}〕"
        end = message.index(mark) + len(mark)
        arrived = next(at for at, length in heard if length >= end)
        lags.append(next(at for at, text in seen if mark in text) - arrived)
    return lags


def test_page_keeps_up_with_a_long_answer(tmp_path: Path, start_app: StartApp, open_chat: OpenChat) -> None:
    """S2: 4,000 characters with tables and code: the page lags the socket by less than a second and ends equal to it."""
    assert len(ANSWER) > 4000
    chat = open_chat(start_app(long_app(tmp_path)).ready(), before=LISTEN)
    chat.ask("请给出很长的回答")
    chat.ended()
    assert chat.page.evaluate("window.message") == ANSWER
    assert max(lags_ms(chat)) < LAG_MS
    assert squeezed(chat.text()) == squeezed("".join(block.visible for block in BLOCKS))
    assert PLACEHOLDER not in chat.page.inner_text("body")
    chat.shot("long-answer-desktop-light")


def test_too_long_a_question_is_refused_and_the_chat_goes_on(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """S7: 1,100,000 characters pasted: 内容过长, and the next question is answered with the history before it."""
    chat = open_chat(tiny_app)
    chat.answer_at_most()
    chat.ask("第一个问题")
    chat.ended(0)
    first, _, _ = chat.facts(0)
    chat.ask("长" * TOO_LONG)
    expect(chat.answers).to_have_count(2, timeout=60_000)
    expect(chat.answers.nth(1)).to_contain_text("内容过长：1,100,000 个字符，上限 100,000 个。")
    chat.ask("第一个问题")
    chat.ended(2)
    assert chat.facts(2)[0] > first
