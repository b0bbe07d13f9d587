"""The console and the queue, as people in a browser see them while others are at work."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.app_server import AppServer
from tests.browser.chat_page import STRIP, ChatPage
from tests.browser.conftest import OpenChat, StartApp
from tests.browser.crowd import Crowd

SCRIPT = """
[engine]
model = "演示脚本"

[[rules]]
match = "断"
text = "断了"
error = "StreamBroken"

[[rules]]
match = "短"
text = "这是一个短的回答。"
characters_a_delta = 1
delay_s = 0.3

[[rules]]
text = "一句说得很慢的话，说到一半足够看清页面在回答中的样子，说到最后还有一段。"
characters_a_delta = 1
first_delay_s = 0.2
delay_s = 0.15
"""
PANEL = "[data-testid=engine-console]"
LOOKS = [{"phone": False, "dark": True}, {"phone": True, "dark": False}, {"phone": True, "dark": True}]


def app_of(folder: Path, concurrent: int, queued: int) -> AppServer:
    """An app on the script above."""
    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    limits = {"ENGINE_MAX_CONCURRENT": str(concurrent), "ENGINE_MAX_QUEUED": str(queued), "ENGINE_LEAVE_GRACE_S": "0.2"}
    return AppServer(folder / "app", limits, ENGINE_BACKEND="scripted", ENGINE_SCRIPT=str(folder / "script.toml"))


def tile(chat: ChatPage, name: str) -> str:
    """A tile's value, its unit included."""
    return chat.page.locator(f"[data-testid=console-{name}] .zhida-tile-value").inner_text()


def open_console(chat: ChatPage, command: str = "引擎状态") -> None:
    """Press the command's button and Enter."""
    chat.page.click(f"#command-{command.replace(' ', chr(92) + ' ')}")
    chat.page.press("#chat-input", "Enter")
    expect(chat.page.locator(f"{PANEL} [data-testid=console-state]")).to_be_visible(timeout=20_000)


def asked_status(chat: ChatPage) -> int:
    """How often the page has asked for the engine's status."""
    return sum(url.endswith("/engine/status") for url in chat.requests)


def test_live_while_eight_chats_run(tmp_path: Path, start_app: StartApp, open_chat: OpenChat) -> None:
    """Opened by the command with nothing typed: figures that move, the warning, the loss of the server, and its return."""
    app = start_app(app_of(tmp_path, 6, 20))
    with Crowd(app.ready().url) as crowd:
        crowd.keep_asking(8, "慢慢说")
        chat = open_chat(app)
        open_console(chat)
        assert chat.questions.count() == 0
        chat.until(lambda: tile(chat, "running") == "6 / 6" and tile(chat, "queued") == "2 / 20")
        chat.until(lambda: re.fullmatch(r"\d+ 词元/秒", tile(chat, "speed")))
        chat.until(lambda: tile(chat, "first") != "无数据")
        assert (tile(chat, "kv"), tile(chat, "preemptions")) == ("无数据", "无数据")
        before = chat.page.locator("[data-testid=console-chart-speed] path").get_attribute("d")
        chat.until(lambda: chat.page.locator("[data-testid=console-chart-speed] path").get_attribute("d") != before)
        chat.shot("console-desktop-light")
        for look in LOOKS:
            other = open_chat(app, **look)
            open_console(other)
            expect(other.page.locator("[data-testid=console-running]")).to_contain_text("6 / 6")
            other.shot(f"console-{'phone' if look['phone'] else 'desktop'}-{'dark' if look['dark'] else 'light'}")
            wider = other.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0
            other.page.goto("about:blank")
        crowd.ask("断", 20)
        expect(chat.page.locator("[data-testid=console-warning]")).to_contain_text("出错偏多", timeout=20_000)
        chat.page.evaluate("window.dispatchEvent(new Event('online'))")  # the strip looks again at once
        expect(chat.page.locator(STRIP)).to_contain_text("出错偏多")
        chat.shot("console-warning-desktop-light")


def test_the_setting_opens_it_and_it_asks_only_while_seen(scripted_app: AppServer, open_chat: OpenChat) -> None:
    """The switch in the settings; hidden, the page asks nothing; the server gone, it says so and keeps the last figures."""
    chat = open_chat(scripted_app)
    chat.open_settings()
    chat.page.click("#console")
    chat.confirm_settings()
    expect(chat.page.locator(f"{PANEL} [data-testid=console-state]")).to_have_text("就绪", timeout=20_000)
    asked = asked_status(chat)
    chat.until(lambda: asked_status(chat) >= asked + 2)
    chat.page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    chat.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    asked = asked_status(chat)
    chat.page.wait_for_timeout(4500)  # twice the time after which a visible one asks
    assert asked_status(chat) <= asked + 1
    chat.page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
    chat.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    chat.until(lambda: asked_status(chat) >= asked + 2)
    chat.page.route("**/engine/status", lambda route: route.fulfill(status=200, body="<html>gateway</html>"))
    expect(chat.page.locator("[data-testid=console-lost]")).to_be_visible(timeout=20_000)
    expect(chat.page.locator("[data-testid=console-running]")).to_be_visible()
    chat.page.unroute("**/engine/status")
    expect(chat.page.locator("[data-testid=console-lost]")).not_to_be_visible(timeout=20_000)
    chat.open_settings()
    chat.page.click("#console")
    chat.confirm_settings()
    expect(chat.page.locator(PANEL)).to_have_count(0)


def test_a_server_on_this_machine(scripted_app: AppServer, open_chat: OpenChat) -> None:
    """Its card is shown, and no memory that would be this app's alone; the chart's peak is never below the present speed."""
    chat = open_chat(scripted_app)

    def answer(route: Route) -> None:
        status = route.fetch().json()
        gpu = {"used": 3 * 1024**3, "total": 32 * 1024**3, "busy": 0.5}
        seen = {"elsewhere": True, "gpu": gpu, "tokens_s": 42.0, "points": [[-10.0, 7.0, 1, 0]]}
        route.fulfill(json={**status, **seen})

    chat.page.route("**/engine/status", answer)
    open_console(chat)
    expect(chat.page.locator("[data-testid=console-gpu-memory]")).to_contain_text("3.0 GiB / 32.0 GiB")
    expect(chat.page.locator("[data-testid=console-gpu-busy]")).to_contain_text("50%")
    expect(chat.page.locator("[data-testid=console-memory]")).to_have_count(0)
    expect(chat.page.locator("[data-testid=console-chart-speed] figcaption")).to_contain_text("最高 42")


def test_restart_from_the_console(tmp_path: Path, start_app: StartApp, open_chat: OpenChat) -> None:
    """The button asks first; confirmed, the engine is loaded again, and questions are answered."""
    app = start_app(app_of(tmp_path, 2, 2)).ready()
    chat = open_chat(app)
    open_console(chat)
    chat.page.click("[data-testid=console-restart]")
    chat.page.get_by_role("button", name="确认重启").click()
    chat.until(lambda: "引擎已重新启动。" in chat.page.inner_text("body"), 20)
    chat.ask("短")
    chat.ended(timeout_s=20)


def test_in_english(scripted_app: AppServer, open_chat: OpenChat) -> None:
    """An English browser gets an English panel, without a Chinese character in its labels."""
    chat = open_chat(scripted_app, language="en-US")
    open_console(chat, "Engine status")
    expect(chat.page.locator(f"{PANEL} [data-testid=console-state]")).to_have_text("Ready")
    labels = chat.page.locator(f"{PANEL} :is(h2, .zhida-tile-label, figcaption, dt, button)").all_inner_texts()
    assert len(labels) > 12
    assert not re.search(r"[\u4e00-\u9fff]", "".join(labels))
    chat.shot("console-english")


def test_the_queue_seen_from_a_page(tmp_path: Path, start_app: StartApp, open_chat: OpenChat) -> None:
    """Two run, two wait: the page sees its place and the time, both move, and its answer comes; the next page is refused
    in one sentence, and its next question works."""
    app = start_app(app_of(tmp_path, 2, 3)).ready()
    with Crowd(app.url) as crowd:
        crowd.ask("短", 2)
        page, late = open_chat(app), open_chat(app)
        for _ in range(4):
            crowd.arrive("慢慢说")
        page.ask("短")
        expect(page.answers).to_contain_text(re.compile(r"排队中… 前面还有 2 位，约 \d+ 秒"))
        page.shot("queued-desktop-light")
        late.ask("短")
        expect(late.answers).to_contain_text("现在提问的人太多：前面还有 3 位在排队")
        late.shot("refused-desktop-light")
        page.ended(timeout_s=60)
        assert page.text() == "这是一个短的回答。"
    told = [texts[0] for _, texts in page.seen() if texts and texts[0].startswith("排队中")]
    places = [int(found[1]) if (found := re.search(r"前面还有 (\d+) 位", text)) else 0 for text in told]
    assert places == sorted(places, reverse=True)
    assert len(set(told)) > len(set(places)) >= 2  # the time moves within a place, too
    late.ask("短")
    late.ended(timeout_s=60)
    assert late.text() == "这是一个短的回答。"


@pytest.mark.parametrize("profile", ["CPU（"])
def test_switch_from_the_console_asks_first(tiny_app: AppServer, open_chat: OpenChat, profile: str) -> None:
    """The list of profiles, why this one, and the question before anything is touched; a real engine's figures."""
    chat = open_chat(tiny_app)
    open_console(chat)
    expect(chat.page.locator("[data-testid=console-profile]")).to_contain_text("没有检测到 NVIDIA 显卡，用 CPU。")
    chat.until(lambda: tile(chat, "kv") == "0%" and tile(chat, "preemptions") == "0 次")
    line = chat.page.locator("[data-testid=console-switch] option").filter(has_text=profile)
    chat.page.select_option("[data-testid=console-switch]", value=line.get_attribute("value"))
    expect(chat.answers.last).to_contain_text("这会影响所有人")
    chat.page.get_by_role("button", name="取消", exact=True).last.click()
    expect(chat.answers.last).to_contain_text("已取消，显卡配置不变。")
