"""The Ground of documents: found, refused or cited, checked, and what later turns see of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from assistant.chat import Chat
from assistant.citations import pieces
from assistant.conversation import Exchange
from assistant.documents import Documents, renumbered, without_marks
from assistant.ground import Basis, FreeTalk, Reply
from assistant.turn import Preferences
from engine.base import Sampling
from engine.host import EngineHost
from knowledge.base import Hit, Locator, Passage, SourceFile
from knowledge.check import Citation
from tests.assistant.screens import PaperScreen, host_of, scripted

SCRIPT = """
[[rules]]
match = "问题：.*停"
text = "退货期限是15天。换货一共需要 99 天才能完成，请您耐心等待。"
characters_a_delta = 1
delay_s = 0.05

[[rules]]
match = "问题：.*退货"
text = "退货期限是15天。另外赠送 99 元。"

[[rules]]
text = "抱歉，我无法回答。"
"""
FILE = SourceFile("upload:政策.docx", "0" * 64, "政策.docx", 1, 0, 1, "2026-01-01T00:00:00Z")
HIT = Hit(Passage("退货期限是15天。换货期限是30天。", Locator(headings=("退货",))), FILE, "chat", 3.0, None, 0.99)


class Shelf:
    """A library of one passage, found for whatever has 货 in it."""

    def __init__(self, hits: tuple[Hit, ...] = (HIT,)) -> None:
        self._hits, self.asked = hits, list[list[str]]()

    async def search(self, texts: list[str], chat: str | None, limit: int) -> list[Hit]:
        self.asked.append(list(texts))
        return [hit for hit in self._hits if "货" in texts[0]]

    async def files(self, chat: str | None = None) -> list[SourceFile]:
        return [hit.file for hit in self._hits]


def documents(shelf: Shelf) -> Documents:
    """A Ground of that library."""

    async def library() -> Any:
        return shelf

    return Documents(library, "chat", "只照资料回答", "zh-CN")


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[EngineHost]:
    """A host of the scripted engine, ended after the test."""
    host = host_of(await asyncio.to_thread(scripted, tmp_path, SCRIPT))
    yield host
    await host.stop()


def chat(ground: Any) -> Chat:
    """A chat that stands on `ground`."""
    return Chat(Preferences(Sampling(max_tokens=256), "系统提示"), ground=ground)


async def ask(here: Chat, host: EngineHost, question: str, question_id: str = "q") -> PaperScreen:
    screen = PaperScreen()
    await here.ask(host, screen, question_id, question)
    return screen


async def test_what_no_passage_says_is_marked_and_not_remembered_so(host: EngineHost) -> None:
    """Searching is shown first; the figure that stands nowhere is marked; the model never sees marks of ours."""
    here = chat(documents(Shelf()))
    screen = await ask(here, host, "退货期限几天")
    assert screen.shown[:2] == ["思考中...", "检索中…"]
    assert screen.text.startswith("退货期限是15天")
    assert "99 元。〔未在资料中找到依据〕" in screen.text
    assert "[1]" in screen.text
    assert screen.footer
    assert [(citation.number, citation.hit) for citation in screen.footer.citations] == [(1, HIT)]
    (exchange,) = here.conversation.before("next")
    assert "〔" not in exchange.answer
    assert "[" not in exchange.answer


async def test_nothing_found_is_refused_without_the_engine(host: EngineHost) -> None:
    """The engine is not even asked when it is dead, and the refusal teaches the model nothing later."""
    await host.stop()
    here = chat(documents(Shelf()))
    screen = await ask(here, host, "彩虹的颜色")
    assert screen.text.startswith("资料中未找到相关内容")
    assert here.conversation.exchanges == [Exchange("q", "彩虹的颜色", "")]


async def test_an_empty_library_says_how_to_add_files(host: EngineHost) -> None:
    """In place of a refusal."""
    screen = await ask(chat(documents(Shelf(()))), host, "退货期限几天")
    assert "python -m knowledge add" in screen.text


async def test_a_refusing_model_is_replaced_by_the_passage(host: EngineHost) -> None:
    """The gate was sure: the passage stands there word for word, cited."""
    screen = await ask(chat(documents(Shelf())), host, "换货期限几天")
    assert HIT.passage.text in screen.text
    assert screen.notices == ["模型的回答没有通过核对，这里是最相关的资料原文"]
    assert screen.footer
    assert [citation.number for citation in screen.footer.citations] == [1]


async def test_a_stopped_answer_is_checked_as_far_as_it_came(host: EngineHost) -> None:
    """Part of an answer is marked, and never replaced by a quotation."""
    here, screen = chat(documents(Shelf())), PaperScreen()
    task = asyncio.create_task(here.ask(host, screen, "q", "退货停一停"))
    async with asyncio.timeout(30):
        while "99" not in screen.text:
            await asyncio.sleep(0)
    await here.end_turns("stopped")
    await task
    assert "99" in screen.text
    assert "〔未在资料中找到依据〕" in screen.text
    assert "已停止" in screen.notices


async def test_the_question_as_asked_is_searched_first(host: EngineHost) -> None:
    """K9: with the condensed one beside it where they differ, and the refused questions count as asked."""
    shelf = Shelf()
    here = chat(documents(shelf))
    await ask(here, host, "XJ-2048 的退货期限几天", "1")
    await ask(here, host, "那换货呢", "2")
    assert shelf.asked[0] == ["XJ-2048 的退货期限几天"]
    assert shelf.asked[1][0] == "那换货呢"


async def test_a_fault_in_the_check_loses_no_answer(host: EngineHost) -> None:
    """It stands as it came, with a warning below it."""

    class Faulty(FreeTalk):
        async def find(self, question: str, earlier: Any) -> Basis:
            return Basis((HIT,))

        async def conclude(self, question: str, answer: str, passages: Any, is_whole: bool) -> Reply:
            raise ValueError("a fault")

    screen = await ask(chat(Faulty()), host, "退货期限几天")
    assert screen.text == "退货期限是15天。另外赠送 99 元。"
    assert screen.notices == ["这个回答没有核对完，请对照资料"]


async def test_questions_wait_for_the_files(host: EngineHost) -> None:
    """Asked while files are read, a question is answered after them; stop ends the reading and what waits for it."""
    here, reading, done = chat(FreeTalk()), asyncio.Event(), asyncio.Event()

    async def intake() -> None:
        reading.set()
        await done.wait()

    taking = asyncio.create_task(here.take_in(intake))
    await reading.wait()
    screen = PaperScreen()
    asking = asyncio.create_task(here.ask(host, screen, "q", "退货"))
    async with asyncio.timeout(30):
        while not screen.shown:
            await asyncio.sleep(0)
    assert screen.text == ""
    done.set()
    assert await taking is True
    await asking
    assert screen.text
    done.clear()
    taking = asyncio.create_task(here.take_in(intake))
    await asyncio.sleep(0)
    await here.end_turns("stopped")
    assert await taking is False


def test_citations_are_counted_from_one() -> None:
    """In order of appearance; what is no citation stays."""
    cited = tuple(Citation(number, HIT, ((0, 8),)) for number in (8, 3))
    text, found = renumbered("甲[8]，乙[3][8]，丙[7]。", cited)
    assert text == "甲[1]，乙[2][1]，丙[7]。"
    assert [citation.number for citation in found] == [1, 2]


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("甲 [1]。乙〔未在资料中找到依据〕", "甲。乙"),
        ("数组 a[100] 与 [12]", "数组 a[100] 与"),
        ("没有标记", "没有标记"),
        ("依据国发〔2024〕12号文", "依据国发〔2024〕12号文"),
    ],
)
def test_what_later_turns_see(answer: str, kept: str) -> None:
    """Neither marks nor citations."""
    assert without_marks(answer) == kept


@pytest.mark.parametrize(
    ("spans", "marked"),
    [
        ((), []),
        (((0, 2),), ["甲乙"]),
        (((2, 4), (0, 1)), ["甲", "丙丁"]),
        (((0, 3), (1, 4)), ["甲乙丙", "丁"]),
        (((0, 9),), ["甲乙丙丁"]),
    ],
)
def test_a_passage_in_pieces(spans: tuple[tuple[int, int], ...], marked: list[str]) -> None:
    """Together they are the passage, whatever the spans are."""
    found = pieces("甲乙丙丁", spans)
    assert "".join(piece["text"] for piece in found) == "甲乙丙丁"
    assert [piece["text"] for piece in found if piece["marked"]] == marked
