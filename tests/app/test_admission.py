"""Forty chats at once against four slots, by socket: in order of arrival, or refused politely, and nothing left over."""

import asyncio
import re
from collections.abc import Iterator

import pytest

from tests.app_server import AppServer
from tests.chat_client import PLACEHOLDER, ChatClient

SCRIPT = """
[[rules]]
match = "慢"
text = "慢慢地说一句很长很长的话，一直说到有人按停止为止，或者一直到最后一个字。"
characters_a_delta = 1
delay_s = 0.2

[[rules]]
text = "这是回答。"
characters_a_delta = 1
delay_s = 0.3
"""
SLOTS, PLACES, CHATS = 4, 20, 40
QUEUED = re.compile(r"排队中… (前面还有 \d+ 位|您是下一位)(，约 \d+ 秒)?")
FULL = re.compile(r"现在提问的人太多：前面还有 20 位在排队(，要等约 \d+ 秒)?。请稍后再试。")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One app for this file's tests, which each leave it idle."""
    folder = tmp_path_factory.mktemp("admission")
    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    limits = {"ENGINE_MAX_CONCURRENT": str(SLOTS), "ENGINE_MAX_QUEUED": str(PLACES), "ENGINE_LEAVE_GRACE_S": "0.2"}
    with AppServer(folder, limits, ENGINE_BACKEND="scripted", ENGINE_SCRIPT="script.toml") as app:
        yield app.ready()


def states(page: ChatClient) -> list[str]:
    """Every text that replaced the placeholder while the question waited."""
    texts = [data["token"] for event, data in page.events if event == "stream_token" and data["isSequence"]]
    return [text for text in texts if text.startswith("排队中")]


async def idle(app: AppServer) -> None:
    """Wait until nothing runs and nothing waits."""
    async with asyncio.timeout(30):
        while True:
            status = (await asyncio.to_thread(app.get, "/engine/status")).json()
            if (status["running"], status["queued"], status["engine_running"]) == (0, 0, 0):
                return
            await asyncio.sleep(0.1)


async def test_forty_chats_against_four_slots(app: AppServer) -> None:
    """The first 24 are answered in order of arrival, 16 are refused at once; places only ever shrink; nothing is left."""
    pages = [ChatClient(app.url) for _ in range(CHATS)]
    finished: list[int] = []

    async def answered(number: int) -> None:
        await pages[number].until(lambda: bool(pages[number].footers), 120)
        finished.append(number)

    try:
        for page in pages:
            await page.__aenter__()
        for page in pages:  # one after another, each known to have arrived
            await page.send("你好")
            await page.until(lambda page=page: bool(page.answers()) and page.answer != PLACEHOLDER)  # type: ignore[misc]
        refused = [number for number, page in enumerate(pages) if FULL.fullmatch(page.answer)]
        assert len(finished) == 0
        await asyncio.gather(*(answered(number) for number in range(CHATS) if number not in refused))
    finally:
        for page in pages:
            await page.leave()
    assert len(refused) == CHATS - SLOTS - PLACES
    assert refused == list(range(SLOTS + PLACES, CHATS))
    assert [pages[number].answer for number in finished] == ["这是回答。"] * (SLOTS + PLACES)
    assert all(
        abs(place - number) < SLOTS for place, number in enumerate(finished)
    )  # those that run together may end together
    places = [[int(n) for n in re.findall(r"前面还有 (\d+) 位", " ".join(states(page)))] for page in pages]
    assert all(told == sorted(told, reverse=True) for told in places)
    await idle(app)


async def test_the_estimate_comes_with_history_and_counts_down(app: AppServer) -> None:
    """After some answers, those who wait see about how long, less and less, in no more than about an event a second."""
    async with ChatClient(app.url) as first:
        await first.ask("你好")
        pages = [ChatClient(app.url) for _ in range(SLOTS + 1)]
        for page in pages:
            await page.__aenter__()
        loop = asyncio.get_running_loop()
        for page in pages:
            await page.send("慢")
            await page.until(lambda page=page: bool(page.answers()) and page.answer != PLACEHOLDER)  # type: ignore[misc]
        began = loop.time()
        last = pages[-1]
        await last.until(lambda: last.answer.startswith("慢"))
        told = states(last)
        assert all(QUEUED.fullmatch(text) for text in told), told
        assert len(told) <= 2 + (loop.time() - began)
        seconds = [int(n) for n in re.findall(r"约 (\d+) 秒", " ".join(told))]
        assert seconds
        assert seconds == sorted(seconds, reverse=True)
        for page in pages:
            await page.stop()
            await page.leave()
    await idle(app)


async def test_stop_and_a_closed_tab_give_the_place_up(app: AppServer) -> None:
    """Of those who wait, one stops and one closes the tab: those behind move up, and nothing of the two ever runs."""
    pages = [ChatClient(app.url) for _ in range(SLOTS + 3)]
    for page in pages:
        await page.__aenter__()
        await page.send("慢")
        await page.until(lambda page=page: bool(page.answers()) and page.answer != PLACEHOLDER)  # type: ignore[misc]
    stopped, gone, last = pages[SLOTS:]
    assert last.answer.startswith("排队中… 前面还有 2 位")
    await stopped.stop()
    await last.until(lambda: last.answer.startswith("排队中… 前面还有 1 位"))
    assert stopped.answer == "已停止"
    await gone.leave()
    await last.until(lambda: last.answer.startswith("排队中… 您是下一位"))
    for page in (*pages[:SLOTS], last):
        await page.stop()
        await page.leave()
    await stopped.leave()
    await idle(app)


async def test_a_chat_that_floods_gets_two_answers_at_a_time(app: AppServer) -> None:
    """Fifty questions of one chat: two are kept, the others refused at once; another chat is answered meanwhile."""
    async with ChatClient(app.url) as flood, ChatClient(app.url) as other:
        for number in range(50):
            await flood.send(f"慢 {number}")
        refusal = "您在这个对话里已有两个问题在等回答，请等其中一个答完再提问。"
        await flood.until(lambda: flood.answers().count(refusal) == 48)
        assert (await asyncio.to_thread(app.get, "/engine/status")).json()["running"] == 1
        assert await other.ask("你好") == "这是回答。"
        await flood.stop()
        await idle(app)
        await flood.send("你好")
        await flood.until(lambda: flood.answer == "这是回答。")
        assert flood.answers().count(refusal) == 48
    await idle(app)
    assert app.metric('zhida_questions_total{outcome="share"}') >= 48
    assert (await asyncio.to_thread(app.get, "/engine/status")).json()["refused"] == CHATS - SLOTS - PLACES


async def test_an_answer_is_not_taken_away_where_no_other_can_be_made(app: AppServer) -> None:
    """重新生成 while two questions are unanswered: the same sentence as for a third, and the old answer stays."""
    async with ChatClient(app.url) as page:
        await page.ask("你好")
        await page.until(lambda: bool(page.actions))
        again = page.button("regenerate")
        for number in range(2):
            await page.send(f"慢 {number}")
        await page.until(lambda: len(page.answers()) == 3 and page.answers()[1] != PLACEHOLDER)
        await page.press(again)
        await page.until(lambda: page.answer.startswith("您在这个对话里已有两个问题在等回答"))
        assert page.answers()[0] == "这是回答。"
        await page.stop()
    await idle(app)
