"""A real Chromium over `chainlit run app.py`. Everything here lives as long as this folder's tests run, and no longer:
Playwright's event loop must be gone before an asynchronous test begins, and so must the engine's memory."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.app_server import AppServer
from tests.browser.chat_page import ARTEFACTS, ChatPage
from tests.tiny_model import make_tiny_model

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--no-sandbox",  # Chromium refuses to start as root with it
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCRIPT = Path(__file__).with_name("script.toml")
OpenChat = Callable[..., ChatPage]
StartApp = Callable[[AppServer], AppServer]


@pytest.fixture(scope="package", autouse=True)
def chromium() -> str:
    """The program; without it every test here is skipped, with one line."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.skip("没有找到 Chromium：apt-get install chromium fonts-noto-cjk")
    return found


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    """One Chromium for all tests; each chat gets a profile of its own."""
    ARTEFACTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def start_app() -> Iterator[StartApp]:
    """Starts apps of a test's own; they end after its pages are closed."""
    with ExitStack() as apps:
        yield apps.enter_context


@pytest.fixture
def open_chat(browser: Browser, start_app: StartApp) -> Iterator[OpenChat]:
    """Opens chats, closes them, and fails the test if a page had a problem or asked anything of another host."""
    chats: list[ChatPage] = []

    def open_one(app: AppServer, **look: Any) -> ChatPage:
        chats.append(ChatPage(browser, app.url, **look))
        return chats[-1]

    yield open_one
    for chat in chats:
        chat.close()
    assert [chat.problems for chat in chats if chat.problems] == []
    assert [chat.outside for chat in chats if chat.outside] == []


@pytest.fixture(scope="package")
def tiny_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """The app on a real vLLM engine in its process, at a usual model's speed: with the 2-layer model's 450 tokens/s
    beside it, Chromium on two cores does nothing but lay out text, and no test gets a word in."""
    model = make_tiny_model(tmp_path_factory.mktemp("models") / "ernie-4.5-steady", layers=48)
    settings = {
        "ENGINE_BACKEND": "inprocess",
        "ENGINE_MODEL": str(model),
        "ENGINE_MAX_MODEL_LEN": "16384",
        "ENGINE_MAX_TOKENS": "8192",
        "ENGINE_LEAVE_GRACE_S": "2",
    }
    with AppServer(tmp_path_factory.mktemp("tiny_app"), settings) as app:
        yield app.ready()


@pytest.fixture(scope="package")
def scripted_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """The app on the scripted engine, playing script.toml."""
    with AppServer(
        tmp_path_factory.mktemp("scripted_app"), ENGINE_BACKEND="scripted", ENGINE_SCRIPT=str(SCRIPT)
    ) as app:
        yield app.ready()
