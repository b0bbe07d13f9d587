"""One chat in one tab of a real Chromium: what a person does there, and what the page has shown since it opened."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Response, expect

ARTEFACTS = Path(__file__).parent / "artefacts"
PLACEHOLDER = "思考中..."
ANSWER = "[data-step-type=assistant_message]"
QUESTION = "[data-step-type=user_message]"
FOOTER = "[data-testid=answer-footer]"
NOTICE = "[data-testid=answer-notice]"
STRIP = "[data-testid=status-strip]"
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
POLL_MS = 30
EXPECTED = re.compile(r"Failed to load resource.* 503 |DialogContent")
"""Chromium's own line for /health/ready while the engine loads (any other 503 is listed by its address besides), and
what Chainlit's dialogs lack for screen readers."""

WATCH = """
window.seen = []
window.words = (answer) => {
  const footer = answer.querySelector('[data-testid=answer-footer]')
  const all = answer.textContent
  return footer ? all.slice(0, all.length - footer.textContent.length) : all
}
let last = ''
let lastTexts = '[]'
new MutationObserver(() => {
  const answers = document.querySelectorAll('[data-step-type=assistant_message] .message-content')
  const texts = [...answers].map(window.words)
  const stop = document.querySelector('#stop-button')?.getBoundingClientRect()
  const now = JSON.stringify([texts, stop])
  if (now === last) return
  last = now
  if (JSON.stringify(texts) !== lastTexts) window.seen.push([performance.now(), texts])
  lastTexts = JSON.stringify(texts)
  const center = stop ? [stop.x + stop.width / 2, stop.y + stop.height / 2] : null
  console.debug(JSON.stringify({ lengths: texts.map((text) => text.length), stop: center }))
}).observe(document, { subtree: true, childList: true, characterData: true })
window.addEventListener('pointerdown', () => { window.pressed = performance.now() }, true)
"""
"""Notes every change of the answers' texts, with its time in milliseconds, and reports their lengths.

A page that is busy with a fast answer on a slow machine answers a person's click at once, but Playwright's questions
only once the answer has ended: what is done in mid-answer goes by these reports, and clicks by position.
"""


class ChatPage:
    """`problems` and `outside` must be empty at the end of a test: what went wrong, and what was asked of other hosts."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        *,
        language: str = "zh-CN",
        phone: bool = False,
        dark: bool = False,
        before: str = "",
    ) -> None:
        """A new empty profile at `url`, where the script `before` runs first; returns once the chat is connected."""
        self.url = url
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.lengths: list[int] = []
        self.stop_at: tuple[float, float] | None = None
        self.context = browser.new_context(
            locale=language,
            viewport=PHONE if phone else DESKTOP,  # type: ignore[arg-type]  # a TypedDict that is not exported
            color_scheme="dark" if dark else "light",
            is_mobile=phone,
            has_touch=phone,
            device_scale_factor=2 if phone else 1,
        )
        self.context.add_init_script(WATCH + before)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("response", self._look_at)
        self.page.goto(url)
        self.connected()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "debug" and message.text.startswith('{"lengths"'):
            report = json.loads(message.text)
            self.lengths, self.stop_at = report["lengths"], report["stop"] or self.stop_at
        if message.type in ("error", "warning") and not EXPECTED.search(message.text):
            self.problems.append(f"console {message.type}: {message.text}")

    def _look_at(self, response: Response) -> None:
        if response.status >= 400 and not response.url.endswith("/health/ready"):
            self.problems.append(f"{response.status} {response.url}")

    @property
    def outside(self) -> list[str]:
        """Requests to any host but the app's."""
        return [url for url in self.requests if not url.startswith((self.url, "data:", "blob:"))]

    def connected(self) -> None:
        """Wait until the chat has begun: the settings' button comes with its first event."""
        expect(self.page.locator("#chat-settings-header-button")).to_be_visible(timeout=20_000)

    # ---- what a person does ----

    def ask(self, text: str) -> None:
        """Type a question and press Enter, once the page takes one."""
        self.page.click("#chat-input")
        self.page.fill("#chat-input", text)
        expect(self.page.locator("#chat-submit")).to_be_enabled(timeout=60_000)
        self.page.press("#chat-input", "Enter")

    def stop(self) -> None:
        """Press stop."""
        self.until(lambda: self.stop_at)
        assert self.stop_at
        self.page.mouse.click(*self.stop_at)

    def edit(self, number: int, text: str) -> None:
        """Change the question of this number, from 0, and confirm."""
        question = self.questions.nth(number)
        question.hover()
        question.locator("button.edit-message").click()
        self.page.fill("#edit-chat-input", text)
        self.page.click(".confirm-edit")

    def new_chat(self) -> None:
        """Begin a new chat."""
        self.page.click("#new-chat-button")
        self.page.click("#new-chat-dialog #confirm")
        expect(self.questions).to_have_count(0)
        self.connected()

    def open_settings(self) -> None:
        """Open the panel beside the chat, and wait until it has come to rest."""
        self.page.click("#chat-settings-header-button")
        expect(self.page.locator("#confirm-sidebar")).to_be_in_viewport(ratio=1)

    def slide(self, name: str, *keys: str) -> None:
        """Move a slider of the open panel with the keyboard: Home, End, ArrowRight, PageUp…"""
        thumb = self.page.locator(f"#{name} [role=slider]")
        for key in keys:
            thumb.press(key)

    def confirm_settings(self) -> None:
        """Confirm the panel."""
        self.page.click("#confirm-sidebar")

    def answer_at_most(self, *keys: str) -> None:
        """Set the longest answer: 16 tokens with Home, 16 more with each ArrowRight, 160 more with each PageUp."""
        self.open_settings()
        self.slide("max_tokens", "Home", *keys)
        self.confirm_settings()
        expect(self.page.locator("#confirm-sidebar")).not_to_be_visible()

    def shot(self, name: str) -> None:
        """Keep a picture of the page."""
        self.page.evaluate("document.fonts.ready")
        self.page.screenshot(path=ARTEFACTS / f"{name}.png", animations="disabled")

    # ---- what the page shows ----

    @property
    def answers(self) -> Locator:
        """The assistant's messages, oldest first."""
        return self.page.locator(ANSWER)

    @property
    def questions(self) -> Locator:
        """The user's messages, oldest first."""
        return self.page.locator(QUESTION)

    def text(self, number: int = -1) -> str:
        """An answer's text, without its footer and buttons."""
        shown: str = self.answers.nth(number).locator(".message-content").evaluate("(answer) => window.words(answer)")
        return shown

    def notices(self, number: int = -1) -> list[str]:
        """The notices in the footer of an answer."""
        return self.answers.nth(number).locator(NOTICE).all_inner_texts()

    def facts(self, number: int = -1) -> tuple[int, int, int]:
        """Prompt and answer tokens and the window, from the footer of an answer."""
        shown = self.answers.nth(number).locator("[data-testid=answer-facts]").inner_text()
        found = re.search(r"提示 (\d+) \+ 回答 (\d+) / (\d+)", shown)
        assert found, shown
        return int(found[1]), int(found[2]), int(found[3])

    def seen(self) -> list[tuple[float, list[str]]]:
        """Every state of the answers' texts since the page was loaded, with its time in milliseconds."""
        found: list[tuple[float, list[str]]] = self.page.evaluate("window.seen")
        return found

    def pressed_ms(self) -> float:
        """When the mouse was last pressed, by the clock of `seen`."""
        found: float = self.page.evaluate("window.pressed")
        return found

    # ---- waiting ----

    def growing(self, number: int = 0, beyond: int = 40) -> None:
        """Wait until an answer has more than `beyond` characters."""
        self.until(lambda: len(self.lengths) > number and self.lengths[number] > beyond)

    def ended(self, number: int = -1, timeout_s: float = 60) -> str:
        """Wait for an answer's footer; returns the answer."""
        expect(self.answers.nth(number).locator(FOOTER)).to_be_visible(timeout=timeout_s * 1000)
        return self.text(number)

    def until(self, condition: Callable[[], Any], timeout_s: float = 30) -> None:
        """Wait for anything, letting the browser's events in. Raises TimeoutError with what the page shows."""
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {timeout_s} s; the page shows:\n{self.page.inner_text('body')[-2000:]}")
            self.page.wait_for_timeout(POLL_MS)

    def close(self) -> None:
        """Close the tab, as a person does, and its profile."""
        self.context.close()
