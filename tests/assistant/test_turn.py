"""A turn over a scripted engine: what the page shows, what is remembered, what is freed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from assistant.chat import Chat
from assistant.conversation import Exchange
from engine.base import EngineState, Loading, OnLoading
from engine.host import EngineHost
from engine.scripted import ScriptedEngine
from engine.words import Words
from tests.assistant.screens import PaperScreen, chat, host_of, plan, scripted

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


class Gate:
    """Lets an engine start when it is told to, in place of ScriptedEngine.start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = asyncio.Event()
        really_start = ScriptedEngine.start

        async def start(engine: ScriptedEngine, on_loading: OnLoading) -> None:
            on_loading(Loading(Words("下载权重", "Downloading"), 0.25))
            await self.opened.wait()
            await really_start(engine, on_loading)

        monkeypatch.setattr(ScriptedEngine, "start", start)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Closed at first."""
    return Gate(monkeypatch)


async def crowd(host: EngineHost, number: int) -> tuple[list[PaperScreen], list["asyncio.Task[None]"], list[int]]:
    """So many chats that ask at once, and the order in which they were answered."""
    screens, ended = [PaperScreen() for _ in range(number)], list[int]()

    async def visit(place: int) -> None:
        await chat().ask(host, screens[place], "q", "你好")
        ended.append(place)

    tasks = [asyncio.create_task(visit(place)) for place in range(number)]
    while any(len(screen.shown) < 2 for screen in screens):
        await asyncio.sleep(0.001)
    return screens, tasks, ended


FULL = "现在提问的人太多：前面还有 3 位在排队。请稍后再试。"


async def test_while_the_engine_loads_one_queue_counts_everybody(engine: ScriptedEngine, gate: Gate) -> None:
    """Asked right after the start: a slot's worth and the queue wait, in order, and see the loading; others are refused
    at once."""
    host = host_of(engine, concurrent=1, queued=2)
    screens, tasks, ended = await crowd(host, 6)
    assert [screen.shown[-1] for screen in screens[3:]] == [FULL] * 3
    assert host.limiter.waiting == 3
    while not all("下载权重 25%" in screen.shown[-1] for screen in screens[:3]):
        await asyncio.sleep(0.001)
    gate.opened.set()
    await asyncio.gather(*tasks)
    assert [screen.text for screen in screens[:3]] == ["这是回答。"] * 3
    assert ended == [3, 4, 5, 0, 1, 2]
    await host.stop()


async def test_a_restart_keeps_the_queue(engine: ScriptedEngine, gate: Gate, host: EngineHost) -> None:
    """Those who waited for a slot before it are first after it; while it lasts, nobody more than the queue takes comes in."""
    gate.opened.set()
    host = host_of(engine, concurrent=1, queued=2)
    first, first_task = await start(chat(), host, "慢慢说")
    screens, tasks, ended = await crowd(host, 2)
    gate.opened.clear()
    restarting = asyncio.create_task(host.restart())
    while host.state is EngineState.READY:
        await asyncio.sleep(0)
    await first_task
    late_screens, late_tasks, late_ended = await crowd(host, 3)
    assert [screen.shown[-1] for screen in late_screens[1:]] == [FULL] * 2
    assert ended == []
    gate.opened.set()
    await asyncio.gather(restarting, *tasks, *late_tasks)
    assert first.text.endswith("为止。")
    assert [screen.text for screen in (*screens, late_screens[0])] == ["这是回答。"] * 3
    assert (ended, late_ended) == ([0, 1], [1, 2, 0])
    assert any(text.startswith("模型加载中…") for text in screens[0].shown)
    await host.stop()


async def test_those_who_wait_for_an_engine_that_dies_are_told_why(engine: ScriptedEngine) -> None:
    """At once, by the engine's own sentence, and so are those who come later."""
    host = EngineHost(lambda profile: plan(engine, 1, 5, restarts=0), "auto", lambda loading: None)
    host.launch()
    dying = asyncio.create_task(ask(chat(), host, "死"))
    screens, tasks, _ = await crowd(host, 3)
    await asyncio.gather(dying, *tasks)
    for screen in (*screens, await ask(chat(), host, "你好")):
        assert screen.text == ""
        assert screen.shown[-1].startswith("引擎已停止：十分钟内重启了 0 次仍然退出。")
    await host.stop()


async def test_patience_with_a_model_that_does_not_come(
    engine: ScriptedEngine, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After PATIENCE_S a question is told so; its place is free again. A full engine is waited for without such a limit."""
    monkeypatch.setattr("assistant.turn.PATIENCE_S", 0.05)
    host = host_of(engine, concurrent=1, queued=1)
    screen = await ask(chat(), host, "你好")
    assert screen.shown[-1] == "模型还没有就绪，请稍后再问。"
    assert (host.limiter.running, host.limiter.waiting) == (0, 0)
    gate.opened.set()
    while host.engine is None:
        await host.changed(1)
    _, first_task = await start(chat(), host, "慢慢说")
    assert (await ask(chat(), host, "你好")).text == "这是回答。"
    await first_task
    await host.stop()


async def test_an_engine_that_dies_in_the_moment_of_admission_is_waited_for(engine: ScriptedEngine) -> None:
    """A slot that was given in the step of the death is kept for the next engine; nothing is lost, nothing counted."""
    host = host_of(engine, concurrent=1, queued=1)
    while host.engine is None:
        await host.changed(1)
    async with host.limiter.slot(lambda place: None):
        waiting = asyncio.create_task(ask(chat(), host, "你好"))
        while host.limiter.waiting == 0:
            await asyncio.sleep(0)
    host.report_death(engine)  # the slot is given, its task has not resumed
    assert (await waiting).text == "这是回答。"
    await host.stop()


async def test_a_restart_in_the_moment_of_admission_lets_the_answer_be_given(engine: ScriptedEngine) -> None:
    """A slot that was given before the restart is one of the running answers, which are waited for."""
    host = host_of(engine, concurrent=1, queued=1)
    while host.engine is None:
        await host.changed(1)
    async with host.limiter.slot(lambda place: None):
        waiting = asyncio.create_task(ask(chat(), host, "你好"))
        while host.limiter.waiting == 0:
            await asyncio.sleep(0)
        retiring = asyncio.create_task(host.retire(Words("重启", "Restarting")))
    await retiring
    assert host.state is EngineState.LOADING
    assert (await waiting).text == "这是回答。"
    await host.stop()


async def test_what_was_refused_is_told_apart(host: EngineHost) -> None:
    """Too long a question is none that was refused for want of room."""
    await ask(chat(), host, "长" * 6000)
    page = (await asyncio.to_thread(host.metrics.text)).decode()
    assert 'zhida_questions_total{outcome="too_long"} 1.0' in page
    assert 'zhida_questions_total{outcome="refused"} 0.0' in page
    assert host.vitals().refused == 0
    assert host.vitals().ended == 0
