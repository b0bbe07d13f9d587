"""One chat's share of the engine."""

import asyncio
from pathlib import Path

import pytest

from assistant import texts
from assistant.chat import SHARE
from engine.errors import EngineBusy
from engine.limits import Place
from tests.assistant.screens import PaperScreen, chat, host_of, scripted


def test_the_third_unanswered_question_is_refused() -> None:
    """Two at once; the third is refused, in a sentence, until one of them is done."""
    here = chat()
    with here.share():
        with here.share(), pytest.raises(EngineBusy) as refused, here.share():
            pass
        assert refused.value.words is texts.SHARE_USED
        with here.share():
            pass
    assert SHARE == 2


async def test_a_chat_never_holds_two_slots(tmp_path: Path) -> None:
    """Its second question waits for its first, and leaves the other slots to other chats."""
    engine = await asyncio.to_thread(
        scripted, tmp_path, '[[rules]]\ntext = "慢慢地说"\ncharacters_a_delta = 1\ndelay_s = 0.05'
    )
    host = host_of(engine, concurrent=2)
    here = chat()
    screens = [PaperScreen(), PaperScreen()]
    tasks = [asyncio.create_task(here.ask(host, screen, str(n), "问")) for n, screen in enumerate(screens)]
    await screens[0].wrote.wait()
    assert (host.limiter.running, host.limiter.waiting) == (1, 0)
    other = PaperScreen()
    await chat().ask(host, other, "o", "问")
    assert other.text == "慢慢地说"
    await asyncio.gather(*tasks)
    await host.stop()


@pytest.mark.parametrize(
    ("place", "zh"),
    [
        (Place(3, 11.5), "排队中… 前面还有 3 位，约 12 秒"),
        (Place(3, None), "排队中… 前面还有 3 位"),
        (Place(0, 4.2), "排队中… 您是下一位，约 5 秒"),
        (Place(0, 0.2), "排队中… 您是下一位"),
        (Place(40, 300), "排队中… 前面还有 40 位，约 5 分钟"),
    ],
)
def test_the_place_in_words(place: Place, zh: str) -> None:
    """The place, and the estimate where there is one."""
    assert texts.queued(place).zh == zh
