"""The settings panel: what it changes, for whom, and what it refuses."""

from playwright.sync_api import Locator, expect

from tests.app_server import AppServer
from tests.browser.chat_page import ChatPage
from tests.browser.conftest import OpenChat


def value(chat: ChatPage, slider: str) -> float:
    """Where a slider of the open panel stands."""
    return float(chat.page.locator(f"#{slider} [role=slider]").get_attribute("aria-valuenow") or "nan")


def cancel(chat: ChatPage) -> None:
    """Leave the panel without confirming."""
    chat.page.locator("#chat-settings-sidebar-title button").click()
    expect(chat.page.locator("#confirm-sidebar")).not_to_be_visible()


def choose_profile(chat: ChatPage, name: str) -> None:
    """Choose a GPU profile by what its line begins with, and confirm."""
    chat.open_settings()
    chat.page.click("#profile")
    option(chat, name).click()
    chat.confirm_settings()


def option(chat: ChatPage, name: str) -> Locator:
    """A line of the open list of profiles."""
    return chat.page.get_by_role("option").filter(has_text=name)


def cut_at(chat: ChatPage, tokens: int) -> bool:
    """Whether the newest answer was cut off at so many tokens."""
    return chat.facts()[1] == tokens and chat.notices() == ["已达长度上限"]


def test_confirmed_values_apply_to_the_next_question_of_this_chat_only(
    tiny_app: AppServer, open_chat: OpenChat
) -> None:
    """The longest answer, confirmed as 32, cuts the next answer off there; another chat goes on beyond it."""
    chat, other = open_chat(tiny_app), open_chat(tiny_app)
    chat.open_settings()
    chat.slide("max_tokens", "Home", "ArrowRight")
    chat.slide("temperature", "Home")
    assert value(chat, "temperature") == 0
    chat.shot("settings-desktop-light")
    chat.confirm_settings()
    chat.ask("第一个问题")
    chat.ended()
    assert cut_at(chat, 32)
    chat.open_settings()
    assert (value(chat, "max_tokens"), value(chat, "temperature")) == (32, 0)
    other.ask("另一个对话的问题")
    other.growing(0, beyond=60)
    other.stop()
    other.ended()
    other.open_settings()
    assert (value(other, "max_tokens"), value(other, "temperature")) == (8192, 0.8)


def test_cancel_changes_nothing(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """What was moved and not confirmed is back in the panel, and the next answer keeps the old limit."""
    chat = open_chat(tiny_app)
    chat.answer_at_most("ArrowRight")
    chat.open_settings()
    chat.slide("max_tokens", "PageUp")
    assert value(chat, "max_tokens") == 192
    cancel(chat)
    chat.ask("还是三十二")
    chat.ended()
    assert cut_at(chat, 32)
    chat.open_settings()
    assert value(chat, "max_tokens") == 32


def test_new_chat_shows_the_values_in_force(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """A new chat starts with the defaults, and its panel says so, whatever the chat before had."""
    chat = open_chat(tiny_app)
    chat.answer_at_most("ArrowRight")
    chat.ask("旧的对话")
    chat.ended()
    chat.new_chat()
    chat.open_settings()
    chat.until(lambda: value(chat, "max_tokens") == 8192, 10)
    cancel(chat)
    chat.ask("新的对话")
    chat.growing(0, beyond=60)
    chat.stop()
    chat.ended()


def test_show_speed_off(scripted_app: AppServer, open_chat: OpenChat) -> None:
    """Without 显示速度 the footer keeps the tokens and leaves the times out."""
    chat = open_chat(scripted_app)
    chat.open_settings()
    chat.page.click("#show_speed")
    chat.confirm_settings()
    chat.ask("短")
    chat.ended()
    facts = chat.page.locator("[data-testid=answer-facts]").inner_text()
    assert facts.startswith("提示 ")


def test_profile_in_force_is_marked_with_its_reason(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """All profiles are offered, the one in force is marked, and why it was chosen stands below."""
    chat = open_chat(tiny_app)
    chat.open_settings()
    panel = chat.page.locator("#chat-settings-sidebar-content")
    expect(panel).to_contain_text("没有检测到 NVIDIA 显卡，用 CPU。")
    chat.page.click("#profile")
    lines = chat.page.get_by_role("option").all_inner_texts()
    assert [line for line in lines if "使用中" in line] == ["CPU（无显卡）（使用中）"]
    for card in ("auto", "A10", "A100", "V100", "H200"):
        assert any(card in line for line in lines)
    chat.shot("profiles-desktop-light")
    chat.page.keyboard.press("Escape")


def test_profile_that_cannot_run_here_is_refused(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """A GPU profile on a machine without a card: one Chinese sentence; the engine, and the panel, stay as they were."""
    chat = open_chat(tiny_app)
    cores = {core.pid for core in tiny_app.cores()}
    choose_profile(chat, "A10（")
    expect(chat.answers).to_have_count(1)
    assert chat.text() == "配置 a10 需要 NVIDIA 显卡，本机没有检测到。请设 ENGINE_PROFILE=auto 或 cpu。"
    chat.shot("profile-refused-desktop-light")
    assert {core.pid for core in tiny_app.cores()} == cores
    assert tiny_app.readiness()["state"] == "ready"
    if not chat.page.locator("#confirm-sidebar").is_visible():
        chat.open_settings()
    expect(chat.page.locator("#profile")).to_contain_text("auto")


def test_switch_asks_first_and_can_be_cancelled(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """cpu in place of auto: the page asks, says that it concerns everybody, and 取消 leaves the engine alone."""
    chat = open_chat(tiny_app)
    cores = {core.pid for core in tiny_app.cores()}
    choose_profile(chat, "CPU（")
    expect(chat.answers).to_have_count(1)
    assert "这会影响所有人" in chat.text()
    chat.shot("profile-switch-asked-desktop-light")
    chat.page.get_by_role("button", name="取消", exact=True).last.click()
    expect(chat.answers.last).to_contain_text("已取消，显卡配置不变。")
    assert {core.pid for core in tiny_app.cores()} == cores


def test_switch_confirmed_loads_a_new_engine(tiny_app: AppServer, open_chat: OpenChat) -> None:
    """确认切换: the old engine goes, the new one loads with progress shown, and questions are answered again."""
    chat = open_chat(tiny_app)
    cores = {core.pid for core in tiny_app.cores()}
    choose_profile(chat, "CPU（")
    chat.page.get_by_role("button", name="确认切换").click()
    chat.until(lambda: "正在切换到 cpu" in chat.text(), 20)
    chat.shot("profile-switching-desktop-light")
    chat.until(lambda: "已切换到 cpu。" in chat.text(), 240)
    assert tiny_app.readiness()["state"] == "ready"
    assert cores.isdisjoint(core.pid for core in tiny_app.cores())
    chat.answer_at_most()
    chat.ask("换过以后")
    chat.ended()
    assert cut_at(chat, 16)
