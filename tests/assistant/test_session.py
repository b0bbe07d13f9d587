"""What is no question at all, and how long a page follows an exchange of the engine."""

import asyncio
from types import SimpleNamespace

import pytest

from assistant import boot, control, page, session, texts
from engine.base import Loading
from engine.words import Words


@pytest.mark.parametrize("content", ["", " \u3000", "\u200b"])
def test_what_shows_nothing_is_no_question(content: str) -> None:
    """E8: a hint, whatever kind of blank it is; with text beside it, the text is asked."""
    assert session._refusal(content) is texts.EMPTY_QUESTION
    assert session._refusal(f"{content}看看这个") is None


class Note:
    """A Chainlit message of the app's own."""

    def __init__(self) -> None:
        self.content, self.streamed = "", 0

    async def stream_token(self, text: str, is_sequence: bool) -> None:
        self.streamed += 1

    async def update(self) -> None:
        pass


@pytest.fixture
def note(monkeypatch: pytest.MonkeyPatch) -> Note:
    """The message that an exchange is shown in; the engine waits for a server."""
    note = Note()

    async def say(words: Words) -> Note:
        return note

    host = SimpleNamespace(loading=Loading(Words("模型服务启动中", "The server is starting")))
    monkeypatch.setattr(page, "say", say)
    monkeypatch.setattr(page, "language", lambda: "zh-CN")
    monkeypatch.setattr(control, "PROGRESS_S", 0.001)
    monkeypatch.setattr(boot, "host", lambda: host)
    return note


async def test_an_exchange_that_does_not_end_is_followed_for_a_while(
    note: Note, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is down: the page is told that it goes on in the background, and nothing of the press is left."""
    monkeypatch.setattr(control, "PROGRESS_SPAN_S", 0.02)
    before = asyncio.all_tasks()
    going_on = asyncio.get_running_loop().create_future()

    async def work() -> Words:
        return await asyncio.shield(going_on)

    await control._exchange(work(), texts.restarting)
    assert note.content == "还没有完成（模型服务启动中）。它在后台继续，进展见页面顶部。"
    assert note.streamed > 1
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    assert not going_on.cancelled()


async def test_an_exchange_says_how_it_went(note: Note) -> None:
    """Or why it was refused."""

    async def work() -> Words:
        return Words("引擎已重新启动。", "Restarted.")

    await control._exchange(work(), texts.restarting)
    assert note.content == "引擎已重新启动。"
