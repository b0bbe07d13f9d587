"""知识助手 in a real Chromium: files dropped in, cited answers, the passage beside the chat, the list of files."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.app.company import PRICES, SERVICE, TRAVEL, prices, service, started, travel
from tests.app_server import AppServer
from tests.browser.chat_page import ChatPage
from tests.browser.conftest import OpenChat

READY = "[data-testid=file][data-stage=ready]"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One app for this file's tests."""
    with started(tmp_path_factory.mktemp("company") / "app") as app:
        yield app.ready()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A PDF, a Word file and a price list."""
    folder = tmp_path_factory.mktemp("files")
    made = {TRAVEL: travel(folder), SERVICE: service(folder), PRICES: prices(folder)}
    for name, content in made.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in made]


def begin(chat: ChatPage) -> None:
    """Choose 知识助手."""
    chat.page.click("#chat-profiles")
    chat.page.get_by_role("option", name="知识助手").click()
    expect(chat.page.locator("#chat-profiles")).to_contain_text("知识助手")
    chat.connected()


def drop(chat: ChatPage, *files: Path, ready: int = 1) -> None:
    """Drop files onto the page as a person does, send them, and wait until they can be asked."""
    chat.page.locator("#upload-button-input").set_input_files(files)
    expect(chat.page.locator("#chat-submit")).to_be_enabled(timeout=60_000)
    chat.page.click("#chat-submit")
    progress = chat.page.locator("[data-testid=file-progress]").last
    expect(progress.locator("[data-testid=file]:is([data-stage=ready], [data-stage=refused])")).to_have_count(
        len(files), timeout=120_000
    )
    expect(progress.locator(READY)).to_have_count(ready)


def ask(chat: ChatPage, question: str) -> str:
    """Ask, and wait for the end of the answer."""
    before = chat.answers.count()
    chat.ask(question)
    expect(chat.answers).to_have_count(before + 1, timeout=60_000)
    return chat.ended()


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_cited_answers_open_beside_the_chat(app: AppServer, open_chat: OpenChat, files: list[Path], look: str) -> None:
    """Three files, three questions, each [1] opens its passage; one that they do not answer is refused."""
    chat = open_chat(app, dark=look == "dark", phone=look == "phone")
    begin(chat)
    chat.shot(f"knowledge-{look}-welcome")
    drop(chat, *files, ready=3)
    chat.shot(f"knowledge-{look}-files")
    side = chat.page.locator("#side-view-content")
    for question, name, place in (
        ("出差住宿的上限是多少", TRAVEL, "第 2 页"),
        ("退货期限几天", SERVICE, "退货"),
        ("XJ-2048 多少钱", PRICES, "工作表 2026年价目 第 2 行"),
    ):
        ask(chat, question)
        expect(side).to_have_count(0)
        link = chat.answers.last.locator(".element-link").first
        expect(link).to_have_text("[1]")
        link.press("Enter")
        expect(side.locator("[data-testid=citation-name]")).to_have_text(name)
        expect(side.locator("[data-testid=citation-place]")).to_contain_text(place)
        expect(side.locator("mark").first).to_be_visible()
        if name == TRAVEL:
            expect(side.locator("[data-testid=citation-page][data-state=shown] img")).to_be_visible(timeout=30_000)
            assert chat.page.url.rstrip("/#") == app.url
        chat.shot(f"knowledge-{look}-{Path(name).suffix[1:]}")
        close(chat, look)
    chat.answers.last.locator("[data-testid=source-1]").click()
    expect(side.locator("[data-testid=citation-name]")).to_have_text(PRICES)
    close(chat, look)
    assert ask(chat, "彩虹为什么有七种颜色").startswith("资料中未找到相关内容")
    chat.shot(f"knowledge-{look}-refused")


def close(chat: ChatPage, look: str) -> None:
    """Close what is open beside the chat."""
    if look == "phone":
        chat.page.keyboard.press("Escape")
    else:
        chat.page.locator("#side-view-title button").click()
    expect(chat.page.locator("#side-view-content")).to_have_count(0)


def test_a_file_is_replaced_and_deleted(app: AppServer, open_chat: OpenChat, tmp_path: Path) -> None:
    """The old text is gone after the one, all of it after the other; deleting asks first."""
    chat = open_chat(app)
    begin(chat)
    path = tmp_path / TRAVEL
    for limit in (450, 500):
        path.write_bytes(travel(tmp_path, limit))
        drop(chat, path)
    expect(chat.page.locator("[data-testid=file-note]").last).to_have_text("已替换同名的旧文件")
    ask(chat, "出差住宿的上限是多少")
    chat.answers.last.locator(".element-link").click()
    passage = chat.page.locator("[data-testid=citation-passage]")
    expect(passage).to_contain_text("500 元")
    expect(passage).not_to_contain_text("450")
    close(chat, "light")
    chat.page.click("#command-资料")
    chat.page.press("#chat-input", "Enter")
    row = chat.page.locator("[data-testid=shelf-file]")
    expect(row).to_contain_text("3 页")
    row.locator("[data-testid=remove_file]").click()
    chat.shot("knowledge-delete")
    chat.page.click("[data-testid=shelf-sure]")
    expect(row).to_have_count(0)
    chat.ask("出差住宿的上限是多少")
    expect(chat.answers.last).to_contain_text("python -m knowledge add")
    expect(row).to_have_count(0)


def test_what_is_refused_says_so_in_chinese(app: AppServer, open_chat: OpenChat, tmp_path: Path) -> None:
    """S6: a drawing, told in the corner; an empty file too; what a reader refuses, beside the file."""
    chat = open_chat(app)
    begin(chat)
    for name, content, words in (
        ("图.svg", "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "不支持这种文件：图.svg"),
        ("空.txt", "", "文件是空的"),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        chat.page.locator("#upload-button-input").set_input_files(tmp_path / name)
        expect(chat.page.locator("[data-sonner-toast]").filter(has_text=words)).to_be_visible()
    (tmp_path / "假.pdf").write_text("这不是 PDF。", encoding="utf-8")
    drop(chat, tmp_path / "假.pdf", ready=0)
    expect(chat.page.locator("[data-testid=file-note]")).to_contain_text("文件内容不是 .pdf 格式")
    chat.problems[:] = [
        problem for problem in chat.problems if "400" not in problem
    ]  # the two refusals are answers of 400


def test_nothing_in_a_file_runs(app: AppServer, open_chat: OpenChat, tmp_path: Path) -> None:
    """S5: in its name, a heading, a passage: shown as text, in the list, the citation and the answer."""
    evil = "<img src=x onerror=window.hacked=1>"
    (tmp_path / f"退货{evil.replace('/', '')}.md").write_text(
        f"# 退货 {evil}\n\n## [点](javascript:window.hacked=2)\n\n退货期限是15天。{evil} [看](javascript:window.hacked=3)\n",
        encoding="utf-8",
    )
    chat = open_chat(app)
    begin(chat)
    drop(chat, *tmp_path.iterdir())
    ask(chat, "退货期限几天")
    chat.answers.last.locator(".element-link").first.click()
    expect(chat.page.locator("[data-testid=citation-passage]")).to_contain_text("onerror")
    close(chat, "light")
    chat.page.click("#command-资料")
    chat.page.press("#chat-input", "Enter")
    expect(chat.page.locator("[data-testid=shelf-file]")).to_contain_text("onerror")
    ask(chat, f"{evil} [点](javascript:window.hacked=4) 退货")
    assert chat.page.evaluate("window.hacked") is None
    assert chat.page.locator("a[href^='javascript']").count() == 0
    assert chat.page.locator("img[src='x']").count() == 0


def test_a_break_in_a_tables_cell(app: AppServer, open_chat: OpenChat) -> None:
    """S5: two lines in the cell."""
    chat = open_chat(app)
    ask(chat, "画一个表格")
    cell = chat.answers.last.locator("td").first
    expect(cell).to_have_text(re.compile("^甲\n乙$"), use_inner_text=True)
    assert chat.answers.last.locator("img[src=x]").count() == 0


def test_english_pages_speak_english(app: AppServer, open_chat: OpenChat, files: list[Path]) -> None:
    """Profile, stages, sources."""
    chat = open_chat(app, language="en-GB")
    chat.page.click("#chat-profiles")
    chat.page.get_by_role("option", name="Knowledge assistant").click()
    chat.connected()
    drop(chat, files[0])
    expect(chat.page.locator("[data-testid=file-stage]")).to_have_text("Ready")
    ask(chat, "出差住宿的上限是多少")
    expect(chat.page.locator("[data-testid=answer-sources]")).to_contain_text("page 2")
