"""A turn over a scripted engine: what the page shows, what is remembered, what is freed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from assistant.chat import Chat
from assistant.conversation import Exchange
from engine.host import EngineHost
from engine.scripted import ScriptedEngine
from tests.assistant.screens import PaperScreen, chat, host_of, scripted

SCRIPT = """
[engine]
window = 1024
load_s = {load_s}

[[rules]]
match = "慢"
text = "慢慢地说一句很长很长的话，一直说到有人按停止为止。"
characters_a_delta = 1
delay_s = 0.05

[[rules]]
match = "断"
text = "说到一半就断了"
characters_a_delta = 2
after = 2
error = "StreamBroken"

[[rules]]
match = "死"
text = "说到一半引擎死了"
characters_a_delta = 2
after = 2
error = "EngineDead"

[[rules]]
match = "空"
pieces = ["", ""]

[[rules]]
match = "先空后有"
pieces = ["", "", "有了"]

[[rules]]
match = "半个"
pieces = ["好\\ufffd", "的\\ufffd"]

[[rules]]
text = "这是回答。"
"""


@pytest.fixture
def engine(tmp_path: Path) -> ScriptedEngine:
    """Ready at once."""
    return scripted(tmp_path, SCRIPT.format(load_s=0))


@pytest.fixture
async def host(engine: ScriptedEngine) -> AsyncIterator[EngineHost]:
    """A host of the scripted engine, ended after the test."""
    host = host_of(engine)
    yield host
    await host.stop()


async def ask(chat: Chat, host: EngineHost, question: str, question_id: str = "q") -> PaperScreen:
    screen = PaperScreen()
    await chat.ask(host, screen, question_id, question)
    return screen


async def start(
    chat: Chat, host: EngineHost, question: str, question_id: str = "q"
) -> tuple[PaperScreen, "asyncio.Task[None]"]:
    """Ask, and return once there is text."""
    screen = PaperScreen()
    task = asyncio.create_task(chat.ask(host, screen, question_id, question))
    await screen.wrote.wait()
    return screen, task


async def test_an_answer_with_its_footer(host: EngineHost) -> None:
    """Placeholder, text, tokens out of the window, and the exchange is remembered."""
    here = chat()
    screen = await ask(here, host, "你好")
    assert screen.shown[0] == "思考中..."
    assert screen.shown[-1] == screen.text == "这是回答。"
    assert screen.footer
    assert screen.footer.facts[-1].zh == "提示 13 + 回答 4 / 1024"
    assert screen.notices == []
    assert here.conversation.exchanges == [Exchange("q", "你好", "这是回答。")]
    assert 'zhida_questions_total{outcome="answered"} 1.0' in (await asyncio.to_thread(host.metrics.text)).decode()


async def test_loading_is_shown_as_it_is(tmp_path: Path) -> None:
    """Asked before the model is there, the page counts along and then answers."""
    host = host_of(await asyncio.to_thread(scripted, tmp_path, SCRIPT.format(load_s=0.5)))
    screen = await ask(chat(), host, "你好")
    assert any(text.startswith("模型加载中… 演示脚本加载中 50%") for text in screen.shown)
    assert screen.shown[-1] == "这是回答。"
    await host.stop()


async def test_stop_keeps_the_part_that_came(host: EngineHost, engine: ScriptedEngine) -> None:
    """Stop: the partial answer stays and is remembered, the engine runs nothing, the next question works."""
    here = chat()
    screen, task = await start(here, host, "慢慢说")
    await here.end_turns("stopped")
    await task
    assert screen.text
    assert screen.text in "慢慢地说一句很长很长的话"
    assert screen.notices == ["已停止"]
    assert (await engine.health()).running == 0
    assert here.conversation.exchanges[-1].answer == screen.text
    assert (await ask(here, host, "你好", "q2")).text == "这是回答。"


async def test_stop_before_any_text_leaves_no_empty_turn(tmp_path: Path) -> None:
    """E9: stopped before the first token, the question does not stay as half an exchange."""
    host = host_of(
        await asyncio.to_thread(
            scripted, tmp_path, '[[rules]]\nmatch="等"\ntext="很久"\nfirst_delay_s=30\n[[rules]]\ntext="好"'
        )
    )
    here, screen = chat(), PaperScreen()
    task = asyncio.create_task(here.ask(host, screen, "q", "等一等"))
    while host.limiter.running == 0:
        await asyncio.sleep(0)
    await here.end_turns("stopped")
    await task
    assert screen.shown[-1] == "已停止"
    assert screen.notices == []
    assert here.conversation.before("next") == []
    assert (await ask(here, host, "再问", "q2")).text == "好"
    await host.stop()


async def test_two_questions_at_once_both_end(host: EngineHost, engine: ScriptedEngine) -> None:
    """S10: the second waits for the first; stop ends both."""
    here = chat()
    first, first_task = await start(here, host, "慢一", "1")
    second = PaperScreen()
    second_task = asyncio.create_task(here.ask(host, second, "2", "慢二"))
    while not second.shown:
        await asyncio.sleep(0)
    await here.end_turns("stopped")
    await asyncio.gather(first_task, second_task)
    assert first.notices == ["已停止"]
    assert second.shown == ["思考中...", "已停止"]
    assert (await engine.health()).running == 0


async def test_an_edit_supersedes_what_runs(host: EngineHost) -> None:
    """Edited while its answer streams: the old answer vanishes, the new one has only what came before as history."""
    here = chat()
    await ask(here, host, "你好", "1")
    screen, task = await start(here, host, "慢慢说", "2")
    assert await here.rewind("2") == "慢慢说"
    await task
    assert screen.vanished
    assert [exchange.question_id for exchange in here.conversation.exchanges] == ["1"]
    assert (await ask(here, host, "换个说法", "2")).text == "这是回答。"
    assert await here.rewind("unknown") is None
    assert len(here.conversation.exchanges) == 2


@pytest.mark.parametrize(("question", "kept"), [("断", "说到一半"), ("死", "说到一半")])
async def test_a_broken_answer_keeps_its_text_and_says_so(host: EngineHost, question: str, kept: str) -> None:
    """The part that came stays, with one sentence below it; no traceback, no English."""
    screen = await ask(chat(), host, question)
    assert screen.text == kept
    assert screen.footer
    assert screen.footer.warning
    assert screen.notices == ["演示脚本按要求出了这个错误。"]


async def test_a_dead_engine_comes_back(host: EngineHost, engine: ScriptedEngine) -> None:
    """After EngineDead nobody is sent to the dead engine; it is started again and answers."""
    here = chat()
    await ask(here, host, "死")
    assert host.engine is None
    assert (await ask(here, host, "你好", "q2")).text == "这是回答。"


async def test_no_text_at_all_says_so(host: EngineHost) -> None:
    """E11: an answer without text is not an empty bubble."""
    here = chat()
    screen = await ask(here, host, "空")
    assert screen.shown[-1] == "（模型没有给出任何内容，请换个说法再问一次。）"
    assert here.conversation.before("next") == []


async def test_half_characters_never_show(host: EngineHost) -> None:
    """E10: U+FFFD reaches neither the page nor the history."""
    here = chat()
    screen = await ask(here, host, "半个")
    assert screen.text == here.conversation.exchanges[0].answer == "好的"


async def test_history_that_no_longer_fits_is_announced(host: EngineHost) -> None:
    """E7: thirty long turns: always answered, and what was left out is said."""
    here = chat()
    for turn in range(30):
        screen = await ask(here, host, "问" * 150, f"q{turn}")
        assert screen.text == "这是回答。"
    assert any("轮对话已不在上下文中" in notice for notice in screen.notices)


async def test_a_question_too_long_is_refused_with_its_size(host: EngineHost) -> None:
    """E7: size and limit are named, and the chat goes on."""
    here = chat()
    screen = await ask(here, host, "长" * 6000)
    assert screen.shown[-1] == "内容过长：3911 个词元，上限 768 个词元。请缩短问题，或分几次提问。"
    assert (await ask(here, host, "你好", "q2")).text == "这是回答。"


async def test_the_longest_answer_never_takes_the_whole_window(host: EngineHost) -> None:
    """A server's window may be smaller than the panel's longest answer: half of it stays for the question."""
    assert (await ask(chat(max_tokens=2048), host, "你好")).text == "这是回答。"


async def test_cut_off_at_the_limit_is_said(host: EngineHost) -> None:
    """已达长度上限 when the answer ended at max_tokens."""
    screen = await ask(chat(max_tokens=3), host, "你好")
    assert screen.notices == ["已达长度上限"]


async def test_the_queue_shows_the_place(tmp_path: Path) -> None:
    """One slot: the others see how many are in front, and the one too many is refused at once."""
    engine = await asyncio.to_thread(scripted, tmp_path, SCRIPT.format(load_s=0))
    host = host_of(engine, concurrent=1, queued=1)
    first, first_task = await start(chat(), host, "慢慢说")
    waiting = PaperScreen()
    waiting_task = asyncio.create_task(chat().ask(host, waiting, "w", "你好"))
    while host.limiter.waiting == 0:
        await asyncio.sleep(0)
    refused = await ask(chat(), host, "你好")
    assert refused.shown[-1] == "现在提问的人太多：前面还有 1 位在排队。请稍后再试。"
    await first_task
    await waiting_task
    assert first.text.endswith("为止。")
    assert "排队中… 您是下一位" in waiting.shown
    assert waiting.text == "这是回答。"
    await host.stop()


async def test_a_browser_that_stays_away_frees_the_engine(host: EngineHost, engine: ScriptedEngine) -> None:
    """E5: after the grace time the answer ends; a browser that came back keeps it."""
    here = chat()
    back: Callable[[], bool] = lambda: True  # noqa: E731  (two one-line predicates read better side by side)
    away: Callable[[], bool] = lambda: False  # noqa: E731
    screen, task = await start(here, host, "慢慢说")
    await here.leave(0, back)
    assert not task.done()
    await here.leave(0, away)
    await task
    assert screen.notices == ["已停止"]
    assert (await engine.health()).running == 0
    assert 'zhida_questions_total{outcome="left"} 1.0' in (await asyncio.to_thread(host.metrics.text)).decode()
