"""The budget, against the tiny model's real tokenizer and chat template."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from assistant.budget import TokenCosts, fit
from assistant.conversation import Exchange
from engine.base import ChatMessage
from engine.errors import PromptTooLong
from tests.tiny_model import make_tiny_model

TEXT = st.text(st.sampled_from("年假怎么算？公司 abc,。\n😀𠮷0123User: Assistant"), min_size=1, max_size=120)
HISTORY = st.lists(st.tuples(TEXT, TEXT.filter(lambda text: bool(text.strip()))), max_size=12)


class Counter:
    """Counts tokens as the engine does, and how often it is asked about a whole prompt."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self.asked: list[list[ChatMessage]] = []

    def size(self, messages: Sequence[ChatMessage]) -> int:
        plain = [{"role": str(message["role"]), "content": message["content"]} for message in messages]
        return len(self._tokenizer.apply_chat_template(plain, add_generation_prompt=True, return_dict=False))

    async def __call__(self, messages: Sequence[ChatMessage]) -> int:
        self.asked.append(list(messages))
        return self.size(messages)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerBase:
    """The tiny model's tokenizer."""
    return AutoTokenizer.from_pretrained(make_tiny_model(tmp_path_factory.mktemp("tokenizer")))


def exchanges(pairs: Sequence[tuple[str, str]]) -> list[Exchange]:
    return [Exchange(str(place), question, answer) for place, (question, answer) in enumerate(pairs)]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=HISTORY, question=TEXT, system=st.just("") | TEXT, window=st.integers(120, 900), reserve=st.integers(16, 64)
)
async def test_never_over_and_keeps_what_it_must(
    tokenizer: PreTrainedTokenizerBase,
    history: list[tuple[str, str]],
    question: str,
    system: str,
    window: int,
    reserve: int,
) -> None:
    """Whatever the history: it fits, system and question stay, whole oldest exchanges go, roles alternate."""
    count = Counter(tokenizer)
    past = exchanges(history)
    frame: list[ChatMessage] = [{"role": "system", "content": system}] if system.strip() else []
    alone = count.size([*frame, {"role": "user", "content": question}])
    costs = TokenCosts(count, "tiny", {})
    if alone > window - reserve:
        with pytest.raises(PromptTooLong) as refusal:
            await fit(system, past, question, reserve=reserve, window=window, count=count, costs=costs)
        assert (refusal.value.size, refusal.value.limit) == (alone, window - reserve)
        return
    fitted = await fit(system, past, question, reserve=reserve, window=window, count=count, costs=costs)
    assert count.size(fitted.messages) <= window - reserve
    assert fitted.messages[: len(frame)] == frame
    assert fitted.messages[-1] == {"role": "user", "content": question}
    kept = [message["content"] for message in fitted.messages[len(frame) : -1]]
    assert kept == [text for pair in history[fitted.left_out :] for text in pair]
    roles = [message["role"] for message in fitted.messages[len(frame) :]]
    assert roles == [("user", "assistant")[place % 2] for place in range(len(roles))]


async def test_counts_each_exchange_once_and_the_whole_prompt_once(tokenizer: PreTrainedTokenizerBase) -> None:
    """A second question costs one count without history, one of the whole, and one for the exchange that is new."""
    count = Counter(tokenizer)
    known: dict[tuple[str, str, str], int] = {}
    past = exchanges([("问题一" * 10, "回答一" * 10), ("问题二" * 10, "回答二" * 10)])
    await fit("系统", past, "新问题", reserve=64, window=4096, count=count, costs=TokenCosts(count, "tiny", known))
    count.asked.clear()
    past.append(Exchange("2", "问题三", "回答三"))
    fitted = await fit(
        "系统", past, "再问", reserve=64, window=4096, count=count, costs=TokenCosts(count, "tiny", known)
    )
    assert fitted.left_out == 0
    assert len(count.asked) == 3
    assert count.asked.count(fitted.messages) == 1


async def test_exact_size_is_reported(tokenizer: PreTrainedTokenizerBase) -> None:
    """The size told is the tokenizer's own, with and without trimming."""
    count = Counter(tokenizer)
    past = exchanges([(f"第{place}个问题" * 8, f"第{place}个回答" * 20) for place in range(30)])
    for window in (512, 1024, 100_000):
        fitted = await fit(
            "系统", past, "问", reserve=64, window=window, count=count, costs=TokenCosts(count, "tiny", {})
        )
        assert fitted.prompt_tokens == count.size(fitted.messages)


async def test_history_goes_in_blocks(tokenizer: PreTrainedTokenizerBase) -> None:
    """Over a long chat the first kept exchange moves seldom, so that the prefix cache keeps hitting."""
    count = Counter(tokenizer)
    known: dict[tuple[str, str, str], int] = {}
    past: list[Exchange] = []
    firsts: list[int] = []
    for place in range(60):
        costs = TokenCosts(count, "tiny", known)
        fitted = await fit("系统", past, f"问题{place}", reserve=128, window=2048, count=count, costs=costs)
        firsts.append(fitted.left_out)
        past.append(Exchange(str(place), f"问题{place}" * 5, f"回答{place}" * 10))
    trimmed = [first for first in firsts if first]
    moves = sum(earlier != later for earlier, later in pairwise(firsts))
    assert trimmed, "the chat has to outgrow the window for this to say anything"
    assert firsts == sorted(firsts)
    assert moves < len(trimmed) / 3
